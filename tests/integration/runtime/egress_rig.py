"""Starts the real warmpool-egress, with servers and a name server to reach."""
import contextlib
import http.server
import json
import os
import shutil
import signal
import socket
import socketserver
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest

BINARY = os.path.abspath(os.environ.get("WP_EGRESS_BINARY", "missing"))
DEADLINE_S = 90
PAGE = bytes(range(256)) * 256  # 64 KiB.


def wait_until(condition, what, deadline_s=DEADLINE_S):
    """Polls condition until it gives something true, which is returned."""
    end = time.monotonic() + deadline_s
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.01)
    raise AssertionError("not within %d s: %s" % (deadline_s, what))


class Origin:
    """An HTTP server on loopback that remembers what it was asked."""

    def __init__(self, context=None):
        origin = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self):
                length = int(self.headers.get("Content-Length") or 0)
                body = self.rfile.read(length) if length else b""
                if self.headers.get("Transfer-Encoding") == "chunked":
                    while True:
                        size = int(self.rfile.readline(), 16)
                        body += self.rfile.read(size)
                        self.rfile.readline()
                        if size == 0:
                            break
                origin.asked.append((self.requestline, dict(self.headers),
                                     body))
                self.send_response(200)
                page = body if self.command == "POST" else PAGE
                self.send_header("Content-Length", str(len(page)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(page)

            do_GET = do_POST = do_HEAD = answer

            def log_message(self, *_):
                pass

        self.asked = []
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.handle_error = lambda *_: None  # Clients that were cut off.
        if context is not None:
            self.server.socket = context.wrap_socket(self.server.socket,
                                                     server_side=True)
        self.port = self.server.server_port
        self.thread = threading.Thread(
            target=self.server.serve_forever, args=(0.02,))
        self.thread.start()

    def stop(self):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


class NameServer:
    """Answers A and AAAA from `names`: each a list of answers, given one after
    the other, the last again and again; an answer is a list of addresses."""

    def __init__(self):
        outer = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self):
                data, sock = self.request
                reply = outer.reply(data)
                if reply is not None:
                    sock.sendto(reply, self.client_address)

        self.names = {}
        self.asked = {}
        self.held = {}  # Name -> an event that its answers wait for.
        self.server = socketserver.ThreadingUDPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.address = "127.0.0.1:%d" % self.server.server_address[1]
        self.thread = threading.Thread(
            target=self.server.serve_forever, args=(0.02,))
        self.thread.start()

    def reply(self, query):
        labels, at = [], 12
        while query[at]:
            labels.append(query[at + 1:at + 1 + query[at]].decode().lower())
            at += 1 + query[at]
        kind, = struct.unpack("!H", query[at + 1:at + 3])
        name = ".".join(labels)
        if name not in self.names:
            return query[:2] + b"\x81\x83" + query[4:6] + bytes(6) + \
                query[12:at + 5]
        if self.names[name] is None:
            return None  # Silence.
        if name in self.held:
            self.held[name].wait(DEADLINE_S)
        turn = self.asked.get((name, kind), 0)
        self.asked[name, kind] = turn + 1
        answers = self.names[name][min(turn, len(self.names[name]) - 1)]
        family = socket.AF_INET if kind == 1 else socket.AF_INET6
        packed = [socket.inet_pton(family, text) for text in answers
                  if (":" in text) == (kind == 28)]
        return (query[:2] + b"\x81\x80" + query[4:6] +
                struct.pack("!HHH", len(packed), 0, 0) + query[12:at + 5] +
                b"".join(b"\xc0\x0c" + struct.pack("!HHIH", kind, 1, 0,
                                                   len(one)) + one
                         for one in packed))

    def stop(self):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


class Proxy:
    """One process of the proxy, listening for itself."""

    def __init__(self, policy, *args, listen="127.0.0.1"):
        self.dir = tempfile.mkdtemp(prefix="wp-egress-")
        self.log_path = os.path.join(self.dir, "log")
        with open(self.log_path, "w", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                [BINARY, "--listen", listen + ":0", "--policy", policy,
                 "--log-format", "json", *args], stderr=log, stdout=log,
                stdin=subprocess.DEVNULL)
        self.port = wait_until(self.find_port, "the proxy listens")

    def lines(self, event):
        with open(self.log_path, encoding="utf-8") as file:
            found = [json.loads(line) for line in file
                     if line.endswith("\n") and line.startswith("{")]
        return [line for line in found if line["event"] == event]

    def log(self):
        with open(self.log_path, encoding="utf-8") as file:
            return file.read()

    def find_port(self):
        if self.process.poll() is not None:
            raise AssertionError("warmpool-egress ended: " + self.log())
        return next((int(line["address"].rsplit(":", 1)[1])
                     for line in self.lines("listening")), None)

    def connect(self):
        sock = socket.create_connection(("127.0.0.1", self.port),
                                        timeout=DEADLINE_S)
        return sock

    def raw(self, request, half_close=False):
        """(status, head, body) of what is answered to the bytes, up to the end
        of the connection."""
        with self.connect() as sock:
            sock.sendall(request)
            if half_close:
                sock.shutdown(socket.SHUT_WR)
            got = b""
            with contextlib.suppress(ConnectionResetError):
                while True:
                    piece = sock.recv(65536)
                    if not piece:
                        break
                    got += piece
        if not got:
            return None, b"", b""
        head, _, body = got.partition(b"\r\n\r\n")
        return int(head.split()[1]), head, body

    def get(self, url, *fields):
        lines = "".join(field + "\r\n" for field in fields)
        return self.raw(("GET %s HTTP/1.1\r\nHost: ignored.test\r\n"
                         "Connection: close\r\n%s\r\n" % (url, lines)).encode())

    def tunnel(self, target):
        """(status, socket): of CONNECT."""
        sock = self.connect()
        sock.sendall(("CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n" %
                      (target, target)).encode())
        head = b""
        while b"\r\n\r\n" not in head:
            piece = sock.recv(1)
            if not piece:
                break
            head += piece
        return int(head.split()[1]), sock

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(DEADLINE_S)
        log = self.log()
        shutil.rmtree(self.dir, ignore_errors=True)
        return code, log


class Case(unittest.TestCase):
    def setUp(self):
        self.origin = Origin()
        self.addCleanup(self.origin.stop)
        self.here = "127.0.0.1:%d" % self.origin.port

    def proxy(self, policy, *args, **more):
        proxy = Proxy(policy, *args, **more)
        self.addCleanup(self.stopped, proxy)
        return proxy

    def stopped(self, proxy):
        code, log = proxy.stop()
        self.assertEqual(code, 0, log[-8000:])

    def name_server(self):
        server = NameServer()
        self.addCleanup(server.stop)
        return server


def main():
    signal.alarm(600)  # Never hang a test run.
    if not os.access(BINARY, os.X_OK):
        sys.exit("WP_EGRESS_BINARY must name the proxy's program")
    unittest.main()
