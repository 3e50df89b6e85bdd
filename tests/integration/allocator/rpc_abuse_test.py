"""What a hostile HTTP/2 client costs the gRPC listener, and whom it reaches.

Run by ctest: rpc_abuse_test.py FIXTURE GENERATED_DIR [unittest arguments].
Nothing here is timed: a flood goes on until the server says that it has slowed
or cut its sender, and then others are served and memory is what it was.
"""

import contextlib
import os
import select
import shutil
import socket
import struct
import sys
import tempfile
import time
import unittest

import grpc

from rpc_test import (PATIENCE, Certificates, Fixture, Raw,
                      eventually, failure, unary)

MIB = 1024  # In KiB.
GROWTH = 24 * MIB  # Room for what malloc keeps, never for a flood.
COMPRESSION_ERROR, ENHANCE_YOUR_CALM = 9, 11
DATA, HEADERS, PRIORITY, RESET, SETTINGS, PING, GOAWAY, WINDOW, MORE = (
    0, 1, 2, 3, 4, 6, 7, 8, 9)


class Peer(Raw):
    """A hand-made client of any listener."""

    def __init__(self, address):
        if address.startswith("unix:"):
            super().__init__(address[len("unix:"):])
            return
        host, _, port = address.rpartition(":")
        self.sock = socket.create_connection((host, int(port)), PATIENCE)
        self.sock.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        self.frame(4, 0, 0)
        self.stream = -1

    def frames(self):
        """What the server sends, until it hangs up."""
        buffer = b""
        while True:
            while len(buffer) >= 9:
                length = int.from_bytes(buffer[:3], "big")
                if len(buffer) < 9 + length:
                    break
                yield buffer[3], buffer[4], buffer[9:9 + length]
                buffer = buffer[9 + length:]
            try:
                more = self.sock.recv(65536)
            except ConnectionResetError:
                return
            if not more:
                return
            buffer += more

    def goaway(self):
        """The code of the GOAWAY that ends the connection."""
        code = None
        for kind, _, payload in self.frames():
            if kind == GOAWAY:
                code = struct.unpack(">I", payload[4:8])[0]
        return code

    def flood(self, piece, enough):
        """Sends what piece() makes until enough() says so, or the server does
        hangs up. What it answers is thrown away."""
        self.sock.setblocking(False)
        rest = b""
        asked = 0
        end = time.monotonic() + PATIENCE
        while (now := time.monotonic()) < end:
            # Asking takes longer than sending: who asks after each piece may be
            # too slow to be slowed.
            if now >= asked + 0.02:
                if enough():
                    break
                asked = now
            rest = rest or piece()
            try:
                select.select([self.sock], [self.sock], [], 0.05)
                with contextlib.suppress(BlockingIOError):
                    rest = rest[self.sock.send(rest):]
                with contextlib.suppress(BlockingIOError):
                    if not self.sock.recv(65536):
                        break
            except OSError:
                break
        self.sock.settimeout(PATIENCE)


class Floods(unittest.TestCase):
    def flood(self, make, *options, listen=None, seen="slowed", before=None):
        """make(peer) returns a function that makes the next bytes."""
        with Fixture(*options, listen=listen) as f:
            other = f.channel()
            if not options:
                unary(other, "Echo", b"before")
            peer = Peer(f.addresses[0])
            if before is not None:
                before(peer)
                eventually(lambda: f.stats()["in_flight"] == 1, "arrived")
            rss = f.rss_kib()
            peer.flood(make(peer), lambda: f.stats()[seen] >= 3)
            self.assertGreaterEqual(f.stats()[seen], 3)
            self.assertTrue(f.grew_less_than(GROWTH, rss),
                            "%d KiB" % (f.rss_kib() - rss))
            if not options:
                self.assertEqual(unary(other, "Echo", b"during"), b"during")
            self.assertEqual(f.stats()["cut"], 0)
            peer.close()
            eventually(lambda: f.stats()["in_flight"] == 0, "calls freed")

    def pairs(self, path):
        def make(peer):
            block = peer.headers(path)[9:]
            head = peer.pack(HEADERS, 4, 0, block)[:5]
            reset = peer.pack(RESET, 0, 0, b"\0\0\0\x08")[:5]

            def piece():
                out = []
                for stream in range(peer.stream, peer.stream + 400, 2):
                    number = struct.pack(">I", stream)
                    out += (head, number, block, reset, number, b"\0\0\0\x08")
                peer.stream += 400
                return b"".join(out)
            return piece
        return make

    def test_rapid_reset(self):
        self.flood(self.pairs(b"/test.Fixture/Hang"))

    def test_rapid_reset_of_unknown_methods(self):
        self.flood(self.pairs(b"/no.Service/Nothing"))

    def test_rapid_reset_by_whom_identities_refuse(self):
        self.flood(self.pairs(b"/test.Fixture/Hang"),
                   "principal=uid:1,x,user", "silent_ms=60000",
                   listen=["127.0.0.1:0"])

    def test_frames_that_bring_no_work(self):
        for kind, payload in ((PING, b"12345678"), (SETTINGS, b""),
                              (WINDOW, b"\0\0\0\1"), (99, b"unknown"),
                              (PRIORITY, None), (RESET, None)):
            def make(peer, kind=kind, payload=payload):
                if kind == PRIORITY:
                    one = peer.pack(PRIORITY, 0, 7, b"\0\0\0\0\x10")
                elif kind == RESET:  # Of a stream that was there.
                    one = peer.pack(RESET, 0, 1, b"\0\0\0\x08")
                else:
                    one = peer.pack(kind, 0, 0, payload)
                return lambda: one * 100

            with self.subTest(kind=kind):
                self.flood(make, before=lambda peer: peer.call(
                    b"/test.Fixture/Hang", b""))

    def test_empty_data(self):
        def before(peer):
            peer.sock.sendall(peer.headers(b"/test.Fixture/Echo"))

        self.flood(lambda peer: lambda: peer.pack(DATA, 0, 1) * 100,
                   before=before)

    def test_windows_that_open_by_a_byte(self):
        def before(peer):
            peer.frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 0))
            peer.call(b"/test.Fixture/Stream", b"1000 1000")

        self.flood(lambda peer: lambda: peer.pack(
            WINDOW, 0, 1, b"\0\0\0\1") * 100, before=before)

    def test_honest_client_that_gives_up_calls_is_not_slowed(self):
        with Fixture() as f:
            peer = Peer(f.addresses[0])
            for _ in range(30):
                for _ in range(100):
                    peer.call(b"/test.Fixture/Hang", b"")
                    peer.frame(RESET, 0, peer.stream, b"\0\0\0\x08")
            peer.call(b"/test.Fixture/Echo", b"alive")
            for kind, _, payload in peer.frames():
                if kind == DATA:
                    self.assertEqual(payload, b"\0\0\0\0\5alive")
                    break
            stats = f.stats()
            self.assertEqual((stats["slowed"], stats["cut"]), (0, 0))
            self.assertEqual(stats["cancelled"], 3000)
            peer.close()


class Headers(unittest.TestCase):
    def ended(self, *pieces, code=ENHANCE_YOUR_CALM, flags=4):
        """A header block of these frames ends the connection, and no other."""
        with Fixture() as f:
            other = f.channel()
            unary(other, "Echo")
            rss = f.rss_kib()
            peer = Peer(f.addresses[0])
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                peer.frame(HEADERS, flags, 1, pieces[0])
                for piece in pieces[1:]:
                    peer.frame(MORE, 0, 1, piece)
            self.assertEqual(peer.goaway(), code)
            eventually(lambda: f.stats()["cut"] == 1, "counted")
            self.assertTrue(f.grew_less_than(GROWTH, rss))
            self.assertEqual(unary(other, "Echo", b"a"), b"a")
            peer.close()

    def test_endless_continuation(self):
        field = b"\x00\x01k" + b"\x7f\x00" + b"v" * 127
        self.ended(*[field * 60] * 100, flags=0)

    def test_nothing_is_read_of_who_was_cut(self):
        """It is told why, and then its flood stands still in its own buffers."""
        with Fixture() as f:
            peer = Peer(f.addresses[0])
            peer.sock.setblocking(False)
            peer.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16384)
            more = peer.pack(MORE, 0, 1, b"\x00\x01k\x05value" * 100)
            peer.sock.send(peer.pack(HEADERS, 0, 1, b""))
            stood = 0
            while f.stats()["cut"] == 0 or stood < 20:
                try:
                    peer.sock.send(more * 10)
                    stood = 0
                except BlockingIOError:
                    stood += 1
                    time.sleep(0.01)
                except (BrokenPipeError, ConnectionResetError):
                    self.fail("it was closed while it sent")
            peer.sock.settimeout(PATIENCE)
            self.assertEqual(peer.goaway(), ENHANCE_YOUR_CALM)
            peer.close()

    def test_who_was_cut_gets_turns(self):
        """Its next connections are served all the same, one by one; when too
        many wait they are refused."""
        with Fixture(listen=["127.0.0.1:0"]) as f, \
                contextlib.ExitStack() as stack:
            peer = Peer(f.addresses[0])
            peer.frame(HEADERS, 0, 1)
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                for _ in range(100):
                    peer.frame(MORE, 0, 1, b"\x00\x01k\x05value" * 1000)
            eventually(lambda: f.stats()["cut"] == 1, "cut")
            for few in [Peer(f.addresses[0]) for _ in range(10)]:
                self.assertTrue(few.sock.recv(9))
                few.close()
            host, _, port = f.addresses[0].rpartition(":")
            for _ in range(400):
                stack.enter_context(
                    socket.create_connection((host, int(port)), PATIENCE))
            eventually(lambda: f.stats()["peers_refused"] > 100, "refused")
            stack.close()
            # It is forgotten once it leaves the server alone.
            self.assertEqual(unary(f.channel(), "Echo", b"a",
                                   wait_for_ready=True), b"a")
            peer.close()

    def test_who_says_goodbye_is_not_cut(self):
        with Fixture(listen=["127.0.0.1:0"]) as f:
            peers = []
            for _ in range(300):
                peers.append(Peer(f.addresses[0]))
                peers[-1].frame(GOAWAY, 0, 0, bytes(8))
            for peer in peers:
                self.assertIsNone(peer.goaway())
                peer.close()
            stats = f.stats()
            self.assertEqual((stats["cut"], stats["peers_refused"]), (0, 0))

    def test_endless_empty_continuation(self):
        self.ended(b"", *[b""] * 1000, flags=0)

    def test_endless_string(self):
        # Announces 2 MiB and sends them.
        self.ended(b"\x00\x01k\x7f\x81\xff\x7f", *[b"v" * 16000] * 130,
                   flags=0, code=COMPRESSION_ERROR)

    def test_endless_number(self):
        self.ended(b"\x7f" + b"\x80" * 10000, flags=0, code=COMPRESSION_ERROR)

    def test_table_bomb(self):
        # One long field into the table, then thousands of references to it.
        block = (b"\x40\x01k\x7f\xa1\x1e" + b"v" * 4000)
        self.ended(block + b"\xbe" * 9000)


class Slow(unittest.TestCase):
    def test_who_says_nothing_is_let_go(self):
        with Fixture("silent_ms=100") as f:
            for first in (b"", b"PRI * HT", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
                          b"\0\0\0\4\0\0\0\0\0"):
                sock = socket.socket(socket.AF_UNIX)
                sock.connect(f.path)
                sock.settimeout(PATIENCE)
                sock.sendall(first)
                while sock.recv(4096):
                    pass
                sock.close()

    def test_who_has_called_may_stay(self):
        # Long enough for a busy machine to bring the first call in time.
        with Fixture("silent_ms=3000") as f:
            peer = Peer(f.addresses[0])
            peer.call(b"/test.Fixture/Echo", b"a")
            later = socket.socket(socket.AF_UNIX)
            later.connect(f.path)
            later.settimeout(PATIENCE)
            self.assertEqual(later.recv(1), b"")
            later.close()
            peer.call(b"/test.Fixture/Echo", b"again")
            self.assertIn(b"\0\0\0\0\5again",
                          (payload for _, _, payload in peer.frames()))
            peer.close()

    def test_request_that_never_gets_whole_holds_what_it_sent(self):
        with Fixture() as f:
            rss = f.rss_kib()
            peer = Peer(f.addresses[0])
            for _ in range(500):  # 64 KiB announced by each, 10 bytes sent.
                peer.sock.sendall(
                    peer.headers(b"/test.Fixture/Echo") +
                    peer.pack(DATA, 0, peer.stream,
                              b"\0" + struct.pack(">I", 65536) + b"x" * 10))
            eventually(lambda: f.stats()["in_flight"] == 500, "arrived")
            self.assertTrue(f.grew_less_than(8 * MIB, rss))
            peer.close()
            eventually(lambda: f.stats()["in_flight"] == 0, "freed")

    def test_who_never_reads_is_let_go(self):
        with Fixture("keepalive_timeout_ms=300") as f:
            rss = f.rss_kib()
            peer = Peer(f.addresses[0])
            # None of the calls ends by itself. On a busy machine the peer may
            # be let go before its last one.
            with contextlib.suppress(ConnectionError):
                for _ in range(20):
                    peer.frame(WINDOW, 0, 0, b"\x03\xff\xff\xff")
                    peer.call(b"/test.Fixture/Stream", b"100000 60000")
                    peer.frame(WINDOW, 0, peer.stream, b"\x03\xff\xff\xff")
            eventually(lambda: f.stats()["started"] > 0, "arrived")
            eventually(lambda: f.stats()["in_flight"] == 0, "let go")
            self.assertTrue(f.grew_less_than(GROWTH, rss))
            peer.close()


class Many(unittest.TestCase):
    def closed(self, address):
        """The server hangs up without a word."""
        host, _, port = address.rpartition(":")
        sock = socket.create_connection((host, int(port)), PATIENCE)
        try:
            return sock.recv(1) == b""
        except ConnectionResetError:
            return True
        finally:
            sock.close()

    def test_bound_with_tls_is_before_the_handshake(self):
        top = tempfile.mkdtemp(prefix="wp-tls-")
        self.addCleanup(shutil.rmtree, top)
        ca = Certificates(top)
        ca.issue("server", "localhost", "DNS:localhost,IP:127.0.0.1")
        with Fixture("tls_cert=" + ca.path("server.pem"),
                     "tls_key=" + ca.path("server.key"), "connections_max=10",
                     "silent_ms=60000", listen=["127.0.0.1:0"]) as f, \
                contextlib.ExitStack() as stack:
            port = int(f.addresses[0].rpartition(":")[2])
            for _ in range(10):
                stack.enter_context(
                    socket.create_connection(("127.0.0.1", port)))
            self.assertTrue(self.closed(f.addresses[0]))
            eventually(lambda: f.stats()["peers_refused"] == 1, "counted")

    def test_handshake_has_a_deadline(self):
        top = tempfile.mkdtemp(prefix="wp-tls-")
        self.addCleanup(shutil.rmtree, top)
        ca = Certificates(top)
        ca.issue("server", "localhost", "DNS:localhost,IP:127.0.0.1")
        with Fixture("tls_cert=" + ca.path("server.pem"),
                     "tls_key=" + ca.path("server.key"), "silent_ms=100",
                     listen=["127.0.0.1:0"]) as f:
            self.assertTrue(self.closed(f.addresses[0]))
            eventually(lambda: f.stats()["peers_refused"] == 1, "counted")

    def test_bound_of_one_peer(self):
        with Fixture("peer_connections_max=3",
                     listen=["127.0.0.1:0", "unix:" + os.path.join(
                         self.directory(), "s.sock")]) as f:
            peers = [Peer(f.addresses[0]) for _ in range(3)]
            for peer in peers:
                self.assertTrue(peer.sock.recv(9))
            self.assertTrue(self.closed(f.addresses[0]))
            self.assertEqual(unary(f.channel(1), "Echo", b"a"), b"a")
            for peer in peers:
                peer.close()

    def directory(self):
        path = tempfile.mkdtemp(prefix="wp-rpc-")
        self.addCleanup(shutil.rmtree, path)
        return path

    def test_a_share_is_kept_for_root_and_the_own_user(self):
        with Fixture("connections_max=64", "peer_connections_max=0",
                     "silent_ms=60000",
                     listen=["127.0.0.1:0", "unix:" + os.path.join(
                         self.directory(), "s.sock")]) as f, \
                contextlib.ExitStack() as stack:
            port = int(f.addresses[0].rpartition(":")[2])
            for _ in range(70):
                stack.enter_context(
                    socket.create_connection(("127.0.0.1", port)))
            eventually(lambda: f.stats()["peers_refused"] > 0, "full")
            with self.assertRaises(grpc.RpcError):
                unary(f.channel(0), "Echo", b"a", timeout=5)
            self.assertEqual(unary(f.channel(1), "Echo", b"a"), b"a")


class Half(unittest.TestCase):
    """Requests whose message does not come, and calls of one peer."""

    WAITING_MAX = 1024  # Of a thread; the oldest makes room.

    def test_requests_without_a_message_take_no_call(self):
        with Fixture("calls_max=16", "threads=1") as f:
            peers = [Peer(f.addresses[0]) for _ in range(4)]
            rss = f.rss_kib()
            for peer in peers[:2]:
                peer.sock.sendall(b"".join(
                    peer.headers(b"/test.Fixture/Echo") for _ in range(500)))
            eventually(lambda: f.stats()["in_flight"] == 1000, "arrived")
            self.assertEqual(unary(f.channel(), "Echo", b"a"), b"a")
            for peer in peers[2:]:
                peer.sock.sendall(b"".join(
                    peer.headers(b"/test.Fixture/Echo") for _ in range(1000)))
            # The oldest are refused so that the client may try again.
            code = next(payload for kind, _, payload in peers[0].frames()
                        if kind == RESET)
            self.assertEqual(code, b"\0\0\0\7")
            eventually(lambda: f.stats()["in_flight"] == self.WAITING_MAX,
                       "bounded")
            self.assertEqual(unary(f.channel(), "Echo", b"b"), b"b")
            self.assertEqual(f.stats()["cut"], 0)
            self.assertTrue(f.grew_less_than(GROWTH, rss))
            for peer in peers:
                peer.close()
            eventually(lambda: f.stats()["in_flight"] == 0, "freed")

    def test_one_peer_leaves_calls_to_others_on_every_thread(self):
        top = tempfile.mkdtemp(prefix="wp-rpc-")
        self.addCleanup(shutil.rmtree, top)
        with Fixture("calls_max=16", "threads=4",
                     listen=["127.0.0.1:0", f"unix:{top}/s.sock"]) as f:
            # On one connection, so on one thread.
            peer = Peer(f.addresses[0])
            for _ in range(12):
                peer.call(b"/test.Fixture/Hang", b"")
            eventually(lambda: f.stats()["started"] == 12, "three quarters")
            error = failure(f.channel(0), "Echo")
            self.assertEqual(error.code(), grpc.StatusCode.RESOURCE_EXHAUSTED)
            self.assertIn("one peer", error.details())
            self.assertIn("grpc-retry-pushback-ms",
                          dict(error.trailing_metadata()))
            self.assertEqual(f.stats()["refused"], 1)
            # The rest is there for others.
            held = [f.channel(1).unary_unary("/test.Fixture/Hang").future(
                b"", timeout=PATIENCE) for _ in range(4)]
            eventually(lambda: f.stats()["started"] == 16, "all")
            error = failure(f.channel(1), "Echo")
            self.assertIn("calls_max", error.details())
            peer.close()
            eventually(lambda: f.stats()["in_flight"] == 4, "freed")
            self.assertEqual(unary(f.channel(0), "Echo", b"a"), b"a")
            for call in held:
                call.cancel()


class Http(unittest.TestCase):
    def test_what_is_no_grpc_is_told_so(self):
        with Fixture() as f:
            for method, type_, status in ((b"GET", b"application/grpc", b"405"),
                                          (b"POST", b"text/html", b"415")):
                peer = Peer(f.addresses[0])
                block = b""
                for key, value in ((b":method", method), (b":scheme", b"http"),
                                   (b":path", b"/test.Fixture/Echo"),
                                   (b":authority", b"x"),
                                   (b"content-type", type_)):
                    block += (b"\x00" + bytes([len(key)]) + key +
                              bytes([len(value)]) + value)
                peer.frame(HEADERS, 5, 1, block)
                for kind, flags, payload in peer.frames():
                    if kind == HEADERS:
                        self.assertEqual(flags & 1, 1)
                        self.assertIn(b"\x48", payload[:1])  # :status, indexed.
                        break
                peer.close()

    def test_timeouts_that_are_none(self):
        with Fixture() as f:
            for value in (b"1", b"S", b"123456789S", b"1X", b"-1S", b"1.5S"):
                peer = Peer(f.addresses[0])
                peer.frame(HEADERS, 5, 1, peer.headers(b"/test.Fixture/Hang")[
                    9:] + b"\x00\x0cgrpc-timeout" + bytes([len(value)]) + value)
                kinds = (kind for kind, flags, _ in peer.frames() if flags & 1)
                self.assertIn(HEADERS, kinds)  # An answer, at once.
                peer.close()

    def test_message_text_of_any_bytes(self):
        with Fixture() as f:
            error = failure(f.channel(), "Stream", b"x")
            self.assertIn("expected COUNT SIZE", error.details())


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
