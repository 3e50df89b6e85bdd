"""ClaimStream, by grpcio's client and by libwarmpool, against a real daemon.

Run by ctest: claim_stream_test.py WARMPOOLD GENERATED_DIR DEPLOY_DIR
CLIENT_PROBE [unittest arguments]. Sandboxes are files.
"""

import os
import queue
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import unittest

import grpc

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "..", "attack")]
import rig  # noqa: E402
import wire  # noqa: E402
import daemon_redis_test  # noqa: E402
from daemon_test import (PATIENCE, POOL, Daemon, eventually,  # noqa: E402
                         metrics, pb)

PROBE = os.path.abspath(sys.argv[4])
SIZE = 16


class Stream:
    """A client that holds leases ahead; says nothing by itself."""

    def __init__(self, daemon, stream_id="s", ahead=4, took=(),
                 compression=None, **open_more):
        self.requests = queue.Queue()
        self.leases = {}
        self.taken = set()
        self.ended = set()
        self.lacking = ""
        self.say(open=pb.ClaimStreamOpen(pool=POOL, stream_id=stream_id,
                                         ahead=ahead, **open_more), took=took)
        self.call = daemon.channel.stream_stream(
            "/warmpool.v1.Allocator/ClaimStream",
            request_serializer=lambda m: m.SerializeToString(),
            response_deserializer=pb.ClaimStreamResponse.FromString)(
                iter(self.requests.get, None), timeout=PATIENCE,
                compression=compression)

    def say(self, **request):
        self.requests.put(pb.ClaimStreamRequest(**request))

    def end(self):
        self.requests.put(None)

    def read(self):
        """One message; every number in it is new."""
        message = next(self.call)
        for ahead in message.leases:
            assert ahead.number not in self.leases
            self.leases[ahead.number] = ahead.lease
        self.taken.update(message.taken)
        self.ended.update(message.ended)
        self.lacking = message.lacking or self.lacking
        return message

    def until(self, check):
        while not check():
            self.read()
        return self

    def fill(self, n):
        return self.until(lambda: len(self.leases) >= n)

    def code(self):
        try:
            while True:
                self.read()
        except StopIteration:
            return grpc.StatusCode.OK
        except grpc.RpcError as error:
            self.details = error.details()
            return error.code()


def streams(daemon):
    """What /metrics says: open, broken, and leases ahead on both."""
    seen = metrics(daemon.get("/metrics")[1])
    return tuple(int(seen[key]) for key in (
        ("warmpool_claim_streams", 'state="open"'),
        ("warmpool_claim_streams", 'state="broken"'),
        ("warmpool_leases_ahead", "")))


class ClaimStreams(unittest.TestCase):
    def setUp(self):
        self.daemon = self.start()

    def start(self, *flags, **more):
        daemon = Daemon("--synthetic", *flags, replicas=SIZE, **more)
        self.addCleanup(daemon.clean)
        return daemon.wait_full(SIZE)

    def leased(self, n):
        eventually(lambda: self.daemon.pool().leased == n, f"{n} leased")

    def test_takes_and_gives_back(self):
        self.assertEqual(streams(self.daemon), (0, 0, 0))
        stream = Stream(self.daemon).fill(4)
        self.assertEqual({lease.claim_id for lease in stream.leases.values()},
                         {f"s/{n}" for n in range(1, 5)})
        eventually(lambda: streams(self.daemon) == (1, 0, 4), "the metrics")
        stream.say(took=[2, 3])
        stream.until(lambda: stream.taken == {2, 3}).fill(6)
        self.assertEqual(len({x.sandbox for x in stream.leases.values()}), 6)
        stream.end()
        self.assertEqual(stream.code(), grpc.StatusCode.OK)
        self.leased(2)
        eventually(lambda: streams(self.daemon) == (0, 0, 0), "the metrics")
        for number in (2, 3):
            self.assertTrue(self.daemon.release(stream.leases[number]).was_held)
        self.assertFalse(self.daemon.release(stream.leases[1]).was_held)

    def test_breaks_and_resumes(self):
        stream = Stream(self.daemon).fill(4)
        stream.call.cancel()
        eventually(lambda: streams(self.daemon)[0] == 0, "the break")
        again = Stream(self.daemon, took=[1], resume=True, keep=[2, 3])
        again.until(lambda: again.taken == {1}).fill(2)
        # 4 was not kept: it is released, and nobody else is given it.
        self.leased(5)
        self.assertFalse(self.daemon.release(stream.leases[4]).was_held)
        self.assertTrue(self.daemon.release(stream.leases[2]).was_held)

    def test_breaks_for_good(self):
        stream = Stream(self.daemon).fill(4)
        stream.say(took=[1])
        stream.until(lambda: stream.taken == {1})
        stream.call.cancel()
        self.leased(1)
        self.assertEqual(Stream(self.daemon, resume=True).code(),
                         grpc.StatusCode.NOT_FOUND)

    def test_refuses_bad_requests(self):
        def refused(code, words, **more):
            stream = Stream(self.daemon, **more)
            self.assertEqual(stream.code(), code)
            self.assertIn(words, stream.details)

        invalid = grpc.StatusCode.INVALID_ARGUMENT
        refused(invalid, "ahead: 1 to 256 expected, got 1000000",
                ahead=1000000)
        refused(invalid, "stream_id", stream_id="")
        refused(invalid, "ttl_ms", ttl_ms=5)
        refused(invalid, "took: a number that this stream was given expected, "
                "got 77", took=[77])
        refused(grpc.StatusCode.ALREADY_EXISTS, "stream_id: in use")
        refused(grpc.StatusCode.NOT_FOUND, "stream_id", stream_id="other",
                resume=True)
        stream = Stream(self.daemon, stream_id="twice").fill(4)
        stream.say(took=[1, 1])
        stream.until(lambda: stream.taken == {1})
        stream.say(open=pb.ClaimStreamOpen(pool=POOL, stream_id="x", ahead=1))
        self.assertEqual(stream.code(), invalid)

    def test_a_message_that_is_none_ends_the_stream(self):
        """grpcio compresses what gets shorter by it: not the opening."""
        stream = Stream(self.daemon, compression=grpc.Compression.Gzip).fill(4)
        stream.say(took=[1] * 200)
        self.assertEqual(stream.code(), grpc.StatusCode.UNIMPLEMENTED)
        self.assertIn("compressed", stream.details)
        # It broke, and is gone on with as any other: what it is owed is not
        # sent on the call that has ended.
        self.assertTrue(self.daemon.release(stream.leases[1]).was_held)
        self.assertEqual(streams(self.daemon)[:2], (0, 1))
        again = Stream(self.daemon, resume=True, keep=[1, 2, 3, 4])
        again.until(lambda: again.ended == {1}).fill(1)
        again.end()
        self.assertEqual(again.code(), grpc.StatusCode.OK)

    def test_an_end_that_is_not_taken_is_dropped(self):
        """By who opens no window, and is heard all the same. A half minute."""
        target = {"kind": "unix", "address": self.daemon.grpc_path}
        with wire.dial(target, PATIENCE) as sock:
            sock.sendall(wire.PREFACE + wire.frame(  # INITIAL_WINDOW_SIZE: 0
                wire.SETTINGS, 0, 0, b"\0\4" + bytes(4)))
            for stream, resume in ((1, False), (3, True)):
                opening = pb.ClaimStreamRequest(open=pb.ClaimStreamOpen(
                    pool=POOL, stream_id="s", ahead=4, resume=resume))
                sock.sendall(
                    wire.frame(wire.HEADERS, wire.END_HEADERS, stream,
                               wire.fields(b"/warmpool.v1.Allocator/"
                                           b"ClaimStream", target)) +
                    wire.frame(wire.DATA, 0, stream, wire.message(
                        opening.SerializeToString())))
                # How many of them fit in the one message that was sent is not
                # known.
                eventually(lambda: streams(self.daemon)[:2] == (1, 0),
                           "its opening")
                self.leased(4)
            with sock.makefile("rb") as frames:
                while True:
                    head = frames.read(9)
                    payload = frames.read(int.from_bytes(head[:3], "big"))
                    if head[3] == wire.RST:
                        break
                    if head[3] == wire.PING:
                        sock.sendall(wire.frame(wire.PING, 1, 0, payload))
            # The other has taken over, and has not ended.
            self.assertEqual(head[8], 1)
            self.assertEqual(streams(self.daemon)[:2], (1, 0))
            self.leased(4)

    def test_an_end_in_the_middle_of_a_message_is_a_break(self):
        """What it would have said is not known: nothing is given back yet."""
        target = {"kind": "unix", "address": self.daemon.grpc_path}
        opening = pb.ClaimStreamRequest(open=pb.ClaimStreamOpen(
            pool=POOL, stream_id="s", ahead=4)).SerializeToString()
        whole = wire.message(pb.ClaimStreamRequest(
            took=[1, 2]).SerializeToString())
        with wire.dial(target) as sock:
            sock.sendall(
                wire.PREFACE + wire.frame(wire.SETTINGS, 0, 0) +
                wire.frame(wire.HEADERS, wire.END_HEADERS, 1, wire.fields(
                    b"/warmpool.v1.Allocator/ClaimStream", target)) +
                wire.frame(wire.DATA, 0, 1, wire.message(opening)))
            eventually(lambda: streams(self.daemon) == (1, 0, 4), "4 ahead")
            sock.sendall(wire.frame(wire.DATA, wire.END_STREAM, 1, whole[:-1]))
            eventually(lambda: streams(self.daemon)[0] == 0, "its end")
            self.assertEqual(streams(self.daemon), (0, 1, 4))
        again = Stream(self.daemon, took=[1, 2], resume=True)
        again.until(lambda: again.taken == {1, 2})

    def test_a_quota_bounds_what_is_ahead(self):
        conf = os.path.join(self.daemon.dir, "conf")
        with open(conf, "w", encoding="ascii") as handle:
            handle.write('tenant_quotas: ["a leases=2"]\n')
        daemon = self.start("--config=" + conf)
        stream = Stream(daemon, tenant="a").fill(2)
        stream.until(lambda: "quota" in stream.lacking)
        with self.assertRaises(grpc.RpcError) as caught:
            daemon.claim("person", tenant="a")
        self.assertEqual(caught.exception.code(),
                         grpc.StatusCode.RESOURCE_EXHAUSTED)
        daemon.release(stream.leases[1])
        stream.until(lambda: 1 in stream.ended).fill(3)

    def test_never_read_is_bounded(self):
        """What it holds is bounded, and others are served meanwhile."""
        stream = Stream(self.daemon, ahead=8)
        for _ in range(3000):
            stream.say(back=[1])
        self.assertTrue(self.daemon.claim("person").sandbox)
        # What is given back counts until its release is committed.
        eventually(lambda: self.daemon.pool().leased <= 9, "9 leases at most")
        stream.call.cancel()

    def test_expires_and_is_replaced(self):
        stream = Stream(self.daemon, ttl_ms=1000).fill(4)
        stream.until(lambda: len(stream.ended) >= 4).fill(8)

    def test_leaving_ends_streams(self):
        stream = Stream(self.daemon).fill(4)
        self.daemon.process.send_signal(signal.SIGTERM)
        self.assertEqual(stream.code(), grpc.StatusCode.UNAVAILABLE)
        self.assertEqual(self.daemon.process.wait(PATIENCE), 0)

    # --- libwarmpool ---

    def probe(self, *args):
        return subprocess.Popen(
            [PROBE, "unix:" + self.daemon.grpc_path, "quickstart", *args],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def finished(self, probe):
        said = probe.communicate(timeout=PATIENCE)[0]
        self.assertEqual(probe.returncode, 0, said)
        return said

    def test_library(self):
        self.finished(self.probe("check"))
        self.leased(0)

    def test_library_outlives_daemons(self):
        """Killed once, drained once: claims go on, and none is shown twice."""
        probe = self.probe("soak")
        for sig in (signal.SIGKILL, signal.SIGTERM):
            eventually(lambda: self.daemon.pool().released_total > 100,
                       "100 claims")
            old = self.daemon
            old.stop(sig)
            self.daemon = Daemon("--synthetic", replicas=SIZE,
                                 directory=old.dir)
            self.addCleanup(self.daemon.clean)
            eventually(self.daemon.ready, "the next daemon")
        eventually(lambda: self.daemon.pool().released_total > 100,
                   "100 claims more")
        said = self.finished(probe)
        ahead, called, twice = (
            int(re.search(word + r" (\d+)", said)[1])
            for word in ("ahead", "called", "twice"))
        self.assertGreater(ahead, 100, said)
        self.assertGreater(called, 0, said)
        self.assertEqual(twice, 0, said)
        self.leased(0)


class Tls(unittest.TestCase):
    """libwarmpool's connections by TLS, to a server that is made here."""

    def test_a_connection_that_has_ended_ends_no_program(self):
        directory = tempfile.mkdtemp(prefix="wp-tls-")
        self.addCleanup(shutil.rmtree, directory)
        certificates = rig.Certificates(directory)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificates.path("server.pem"),
                                certificates.path("server.key"))
        context.set_alpn_protocols(["h2"])
        with socket.create_server(("127.0.0.1", 0)) as listener:
            probe = subprocess.Popen(
                [PROBE, f"127.0.0.1:{listener.getsockname()[1]}", "-",
                 "broken", certificates.path("ca.pem")],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, text=True, restore_signals=True)
            listener.settimeout(PATIENCE)
            with context.wrap_socket(listener.accept()[0], server_side=True):
                self.assertEqual(probe.stdout.readline(), "connected\n")
        said = probe.communicate(timeout=PATIENCE)[0]
        self.assertEqual(probe.returncode, 0, said)


class Replicas(daemon_redis_test.Rig):
    """Two daemons that share their leases."""

    flags = ("--synthetic", "--redis-timeout=5s")

    def setUp(self):
        if not shutil.which("redis-server"):
            self.skipTest("redis-server is not installed")
        super().setUp()

    def test_streams_of_both(self):
        here, there = (self.start(name, replicas=SIZE).wait_full(SIZE)
                       for name in ("here", "there"))
        mine, others = Stream(here, "m").fill(4), Stream(there, "o").fill(4)
        shown = {lease.sandbox for stream in (mine, others)
                 for lease in stream.leases.values()}
        self.assertEqual(len(shown), 8)
        others.say(took=[1])
        others.until(lambda: others.taken == {1}).fill(5)
        # Any daemon may end a lease; the stream that has it hears of that.
        eventually(lambda: here.release(others.leases[2]).was_held,
                   "the other's lease")
        others.until(lambda: 2 in others.ended).fill(6)
        eventually(lambda: streams(there) == (1, 0, 4), "the metrics")
        # What a killed daemon's stream had shown is held, and is never shown
        # again, by whatever stream.
        there.stop(signal.SIGKILL)
        self.assertEqual(Stream(here, "o", resume=True).code(),
                         grpc.StatusCode.NOT_FOUND)
        shown |= {lease.sandbox for lease in others.leases.values()}
        again = Stream(here, "o").fill(4)
        mine.say(took=[1])
        mine.until(lambda: mine.taken == {1}).fill(5)
        self.assertFalse(shown & {lease.sandbox
                                  for lease in again.leases.values()})
        for number in (1, 3, 6):
            self.assertTrue(here.release(others.leases[number]).was_held)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]] + sys.argv[5:], verbosity=2)
