"""Attacks on the HTTP listeners. Each is a function of a wire.Attack, which runs
until its time is over."""

import socket
import time

from grpc_attacks import churn, drop_by_drop, same, silent_connections

HEAD = b"GET /healthz HTTP/1.1\r\nHost: x\r\n"
PIPELINED = (HEAD + b"\r\n") * 1000


def http(attack, data, connections, reads=True, pace=0):
    attack.flood(data if callable(data) else same(data), connections, reads,
                 plain=True, pace=pace)


def http_silent(attack):
    """One peer takes all the connections it can, and says nothing."""
    silent_connections(attack)


def http_slow_head(attack):
    """Heads that come byte by byte."""
    drop_by_drop(attack, HEAD + b"X: " + b"x" * 4000)


def http_endless_head(attack):
    """Heads with fields without end."""
    def script(connection):
        del connection
        yield HEAD
        more = b"".join(b"X-%d: %s\r\n" % (i, b"v" * 100) for i in range(500))
        while True:
            yield more
    http(attack, script, 16)


def http_endless_line(attack):
    """One line without end."""
    def script(connection):
        del connection
        yield b"GET /"
        while True:
            yield b"a" * 65536
    http(attack, script, 16)


def http_pipelined(attack):
    """Requests in a row, whose answers are read."""
    http(attack, PIPELINED, 4)


def http_pipelined_unread(attack):
    """Requests in a row by somebody who reads nothing."""
    http(attack, PIPELINED, 64, reads=False)


def http_metrics_unread(attack):
    """The longest page there is, again and again, and nobody reads it."""
    http(attack, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 100, 64,
         reads=False)


def http_metrics_many(attack):
    """The longest page, as fast as it comes."""
    http(attack, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 10, 8)


def http_half_closed(attack):
    """Requests of those who say at once that they are done, and stay."""
    held = []
    while attack.going():
        connection = attack.open(plain=True)
        if connection is None:
            continue
        connection.left = memoryview(HEAD + b"\r\n")
        connection.push()
        try:
            connection.sock.shutdown(socket.SHUT_WR)
        except OSError:
            pass
        held.append(connection)
        if len(held) > 500:
            held.pop(0).close()
    for connection in held:
        connection.close()


def http_endless_body(attack):
    """Bodies in chunks of one byte, with long extensions, without end."""
    def script(connection):
        del connection
        yield (b"POST /sandboxes/none/execute HTTP/1.1\r\nHost: x\r\n"
               b"Transfer-Encoding: chunked\r\n\r\n")
        while True:
            yield (b"1;" + b"e" * 200 + b"\r\nx\r\n") * 300
    http(attack, script, 16)


def http_stalled_body(attack):
    """Bodies that were announced and do not come."""
    def script(connection):
        del connection
        yield (b"POST /sandboxes/none/execute HTTP/1.1\r\nHost: x\r\n"
               b"Content-Length: 100000\r\n\r\n")
        while True:
            yield b""
    http(attack, script, 800)


def http_noise(attack):
    """What is not HTTP, and what would be two messages to two readers."""
    noise = [b"\x16\x03\x01\x02\x00" + bytes(600), b"\r\n" * 30000,
             b"GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n"
             b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
             b"GET /healthz HTTP/9.9\r\n\r\n",
             b"GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: "
             b"99999999999999999999\r\n\r\n", b"\x00" * 65536]
    turn = iter(range(1 << 40))
    http(attack, lambda c: same(noise[next(turn) % len(noise)])(c), 8)


def http_churn(attack):
    """Connections that come and go as fast as they can."""
    churn(attack)


def http_churn_asking(attack):
    """The same, each with a request whose answer nobody waits for."""
    while attack.going():
        connection = attack.open(plain=True)
        if connection is not None:
            connection.left = memoryview(HEAD + b"\r\n")
            connection.push()
            connection.close()
        time.sleep(0)


ALL = [http_silent, http_slow_head, http_endless_head, http_endless_line,
       http_pipelined, http_pipelined_unread, http_metrics_unread,
       http_metrics_many, http_half_closed, http_endless_body,
       http_stalled_body, http_noise, http_churn, http_churn_asking]
