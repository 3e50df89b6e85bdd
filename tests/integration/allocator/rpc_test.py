"""The gRPC transport, seen by clients of another stack.

Run by ctest: rpc_test.py FIXTURE GENERATED_DIR [unittest arguments].
FIXTURE is tests/support/services/rpc_fixture.c, whose head says what its methods do.
"""

import concurrent.futures
import contextlib
import json
import os
import resource
import shutil
import signal
import socket
import stat
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import grpc

FIXTURE = os.path.abspath(sys.argv[1])
GENERATED = os.path.abspath(sys.argv[2])
sys.path.insert(0, GENERATED)
# The generated modules live in a package of the same name as grpcio's.
grpc.__path__.append(os.path.join(GENERATED, "grpc"))

from grpc.health.v1 import health_pb2  # noqa: E402
from grpc.reflection.v1 import reflection_pb2 as reflection_v1  # noqa: E402
from grpc.reflection.v1alpha import reflection_pb2  # noqa: E402
from google.protobuf import descriptor_pb2  # noqa: E402

# A sanitizer keeps freed memory on purpose.
MEMORY_COUNTS = not os.environ.get("WP_SANITIZE")
TIMEOUT = 60  # Of one call that is expected to be answered.
PATIENCE = 60  # Of an awaited event, on a machine that is busy.


def eventually(check, what):
    """Polls until check() is true; a bounded wait for an event."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if check():
            return
        time.sleep(0.01)
    raise AssertionError("still not: " + what)


class Fixture:
    """A running rpc_fixture on a socket in a directory of its own."""

    def __init__(self, *options, listen=None, preexec_fn=None):
        self.dir = tempfile.mkdtemp(prefix="wp-rpc-")
        self.path = os.path.join(self.dir, "s.sock")
        listen = listen or ["unix:" + self.path]
        args = [FIXTURE] + ["listen=" + a for a in listen] + list(options)
        self.errors = tempfile.TemporaryFile("w+")
        self.killed = False  # By the test: the exit code says so.
        self.process = subprocess.Popen(
            args, stdout=subprocess.PIPE, stderr=self.errors, text=True,
            preexec_fn=preexec_fn)
        self.addresses = []
        for line in self.process.stdout:
            word, _, rest = line.strip().partition(" ")
            if word == "listening":
                self.addresses.append(rest)
            if word == "ready":
                break
        else:
            self.process.wait()
        self.channels = []

    def log(self):
        self.errors.seek(0)
        return self.errors.read()

    def channel(self, i=0, options=()):
        channel = grpc.insecure_channel(
            self.addresses[i],
            options=[("grpc.use_local_subchannel_pool", 1), *options])
        self.channels.append(channel)
        return channel

    def stats(self):
        self.process.send_signal(signal.SIGHUP)
        for line in self.process.stdout:
            if line.startswith("stats "):
                return json.loads(line[len("stats "):])
        raise AssertionError("the server has gone: " + self.log())

    def rss_kib(self):
        with open("/proc/%d/status" % self.process.pid) as f:
            return next(int(line.split()[1]) for line in f
                        if line.startswith("VmRSS"))

    def grew_less_than(self, kib, since):
        return not MEMORY_COUNTS or self.rss_kib() - since < kib

    def stop(self):
        """SIGTERM; the lines printed since, and the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        out = self.process.stdout.read()
        return out, self.process.wait(timeout=PATIENCE)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        for channel in self.channels:
            channel.close()
        out, code = self.stop()
        log = self.log()
        self.errors.close()
        self.process.stdout.close()
        shutil.rmtree(self.dir, ignore_errors=True)
        if exc[0] is None and code not in (0, 2) and not self.killed:
            raise AssertionError("exit code %s\n%s%s" % (code, out, log))


def unary(channel, method, request=b"", timeout=TIMEOUT, **kwargs):
    return channel.unary_unary(method if method.startswith("/")
                               else "/test.Fixture/" + method)(
        request, timeout=timeout, **kwargs)


def failure(channel, method, request=b"", timeout=TIMEOUT, **kwargs):
    """The error a call is expected to end with."""
    try:
        unary(channel, method, request, timeout, **kwargs)
    except grpc.RpcError as error:
        return error
    raise AssertionError("%s succeeded" % method)


class Raw:
    """HTTP/2 by hand: what a well-behaved library would not do."""

    def __init__(self, path, window=65535):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(path)  # Blocks while the backlog is full.
        self.sock.settimeout(PATIENCE)
        self.sock.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        self.frame(4, 0, 0, struct.pack(">HI", 4, window))
        self.stream = -1

    def frame(self, kind, flags, stream, payload=b""):
        self.sock.sendall(self.pack(kind, flags, stream, payload))

    @staticmethod
    def pack(kind, flags, stream, payload=b""):
        return (struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) +
                struct.pack(">I", stream) + payload)

    def headers(self, path):
        """A HEADERS frame of a new stream; literals, nothing indexed."""
        self.stream += 2
        block = b""
        for key, value in ((b":method", b"POST"), (b":scheme", b"http"),
                           (b":path", path), (b":authority", b"x"),
                           (b"te", b"trailers"),
                           (b"content-type", b"application/grpc")):
            block += (b"\x00" + bytes([len(key)]) + key +
                      bytes([len(value)]) + value)
        return self.pack(1, 4, self.stream, block)

    def call(self, path, message):
        data = b"\x00" + struct.pack(">I", len(message)) + message
        self.sock.sendall(self.headers(path) +
                          self.pack(0, 1, self.stream, data))

    def close(self):
        self.sock.close()


class Calls(unittest.TestCase):
    def test_unary_of_every_size_over_unix_and_tcp(self):
        with Fixture(listen=["127.0.0.1:0", "[::1]:0"]) as f:
            for i in range(2):
                channel = f.channel(i)
                for size in (0, 1, 23, 24, 4096, 9000, 65000):
                    body = os.urandom(size)
                    self.assertEqual(unary(channel, "Echo", body), body)
        with Fixture() as f:
            body = os.urandom(65000)
            self.assertEqual(unary(f.channel(), "Echo", body), body)

    def test_many_calls_at_once_each_get_their_own_answer(self):
        for threads in ("threads=1", "threads=3"):
            with Fixture(threads) as f, \
                    concurrent.futures.ThreadPoolExecutor(16) as pool:
                channels = [f.channel() for _ in range(4)]

                def one(n):
                    method = "Delay" if n % 3 == 0 else "Echo"
                    return unary(channels[n % 4], method, b"%d" % (n % 40))

                for n, got in enumerate(pool.map(one, range(1500))):
                    self.assertEqual(got, b"%d" % (n % 40))
                eventually(lambda: f.stats()["in_flight"] == 0, "all ended")

    def test_what_a_thread_gathers_is_flushed_before_it_sleeps(self):
        for threads in ("threads=1", "threads=3"):
            with Fixture(threads) as f:
                self.assertEqual(unary(f.channel(), "Gather"), b"1")
                calls = [f.channel().unary_unary("/test.Fixture/Gather")
                         for _ in range(4)]
                for _ in range(25):
                    futures = [c.future(b"", timeout=TIMEOUT)
                               for c in calls for _ in range(20)]
                    for x in futures:
                        # 32 events of a thread at most, and then a flush.
                        self.assertIn(int(x.result()), range(1, 33))

    def test_deadline_is_the_callers_or_the_default(self):
        with Fixture("deadline_default_ms=70000") as f:
            channel = f.channel()
            given = int(unary(channel, "Left", timeout=30))
            # grpcio rounds what it sends up.
            self.assertTrue(10000 < given <= 30500, given)
            default = int(unary(channel, "Left", timeout=None))
            self.assertTrue(40000 < default <= 70000, default)
            huge = int(unary(channel, "Left", timeout=1e9))
            self.assertTrue(huge > 3600 * 1000, huge)

    def test_deadline_passes_while_the_method_waits(self):
        with Fixture() as f:
            channel = f.channel()

            def passes():
                """On a busy machine it may before the call has arrived."""
                error = failure(channel, "Hang", timeout=0.2)
                self.assertEqual(error.code(),
                                 grpc.StatusCode.DEADLINE_EXCEEDED)
                eventually(lambda: f.stats()["in_flight"] == 0, "call freed")
                return f.stats()["cancelled"] > 0
            eventually(passes, "a call whose deadline passed there")

    def test_client_cancels_in_flight(self):
        with Fixture() as f:
            channel = f.channel()
            call = channel.unary_unary("/test.Fixture/Hang")
            futures = [call.future(b"", timeout=60) for _ in range(50)]
            eventually(lambda: f.stats()["in_flight"] == 50, "calls arrived")
            for future in futures:
                future.cancel()
            eventually(lambda: f.stats()["in_flight"] == 0, "calls freed")
            self.assertEqual(f.stats()["cancelled"], 50)
            self.assertEqual(unary(channel, "Echo", b"alive"), b"alive")

    def test_client_process_vanishes_in_flight(self):
        with Fixture() as f:
            raws = [Raw(f.path) for _ in range(20)]
            for raw in raws:
                raw.call(b"/test.Fixture/Hang", b"")
            eventually(lambda: f.stats()["in_flight"] == 20, "calls arrived")
            for raw in raws:
                raw.close()
            eventually(lambda: f.stats()["in_flight"] == 0, "calls freed")

    def test_unknown_method_and_service_answer_at_once(self):
        with Fixture() as f:
            channel = f.channel()
            for path in ("/test.Fixture/Nope", "/no.Service/Echo", "/x"):
                start = time.monotonic()
                error = failure(channel, path, timeout=PATIENCE)
                self.assertEqual(error.code(), grpc.StatusCode.UNIMPLEMENTED)
                self.assertLess(time.monotonic() - start, PATIENCE / 3)
            for _ in range(100):
                failure(channel, "/no.Service/Echo")
            self.assertEqual(f.stats()["unknown"], 103)

    def test_unknown_methods_at_once_exceed_the_catch_all(self):
        with Fixture() as f:
            call = f.channel().unary_unary("/no.Service/Echo")
            futures = [call.future(b"", timeout=TIMEOUT) for _ in range(300)]
            for future in futures:
                self.assertEqual(future.code(),
                                 grpc.StatusCode.UNIMPLEMENTED)

    def test_oversized_message(self):
        with Fixture("receive_bytes_max=2048") as f:
            channel = f.channel()
            self.assertEqual(len(unary(channel, "Echo", b"x" * 2048)), 2048)
            error = failure(channel, "Echo", b"x" * 2049)
            self.assertEqual(error.code(), grpc.StatusCode.RESOURCE_EXHAUSTED)
            self.assertEqual(unary(channel, "Echo", b"a"), b"a")

    def test_a_compressed_message_is_not_understood(self):
        with Fixture() as f:
            channel = f.channel()
            error = failure(channel, "Echo", bytes(1 << 16),
                            compression=grpc.Compression.Gzip)
            self.assertEqual(error.code(), grpc.StatusCode.UNIMPLEMENTED)
            self.assertIn("compressed", error.details())
            self.assertEqual(unary(channel, "Echo", b"a"), b"a")

    def test_oversized_metadata(self):
        with Fixture("metadata_bytes_max=2048") as f:
            channel = f.channel()
            error = failure(channel, "Echo", metadata=[("k", "v" * 4096)])
            self.assertEqual(error.code(), grpc.StatusCode.RESOURCE_EXHAUSTED)
            # C-core may hang up on such a client; not on the next one.
            self.assertEqual(unary(f.channel(), "Echo", b"a"), b"a")

    def test_call_without_a_message(self):
        with Fixture() as f:
            call = f.channel().stream_unary("/test.Fixture/Echo")
            with self.assertRaises(grpc.RpcError) as caught:
                call(iter(()), timeout=TIMEOUT)
            self.assertEqual(caught.exception.code(),
                             grpc.StatusCode.INVALID_ARGUMENT)

    def test_garbage_payload_names_no_secret_and_frees_the_call(self):
        with Fixture() as f:
            channel = f.channel()
            error = failure(channel, "/grpc.health.v1.Health/Check",
                            b"\xff\xff\xff")
            self.assertEqual(error.code(), grpc.StatusCode.INVALID_ARGUMENT)
            stream = channel.unary_stream("/grpc.health.v1.Health/Watch")(
                b"\x0a\xff", timeout=TIMEOUT)
            with self.assertRaises(grpc.RpcError) as caught:
                next(stream)
            self.assertEqual(caught.exception.code(),
                             grpc.StatusCode.INVALID_ARGUMENT)
            eventually(lambda: f.stats()["in_flight"] == 0, "calls freed")

    def test_retry_info(self):
        with Fixture() as f:
            error = failure(f.channel(), "Fail")
            self.assertEqual(error.code(), grpc.StatusCode.RESOURCE_EXHAUSTED)
            self.assertEqual(error.details(), "none ready")
            trailers = dict(error.trailing_metadata())
            self.assertEqual(trailers["grpc-retry-pushback-ms"], "1500")
            details = trailers["grpc-status-details-bin"]
            self.assertTrue(details.startswith(b"\x08\x08\x12\nnone ready"))
            for kind in (b"RetryInfo", b"ErrorInfo"):
                self.assertIn(b"type.googleapis.com/google.rpc." + kind,
                              details)

    def test_admin_methods_need_the_right(self):
        with Fixture(listen=["127.0.0.1:0"]) as f:
            error = failure(f.channel(), "Admin")
            self.assertEqual(error.code(), grpc.StatusCode.PERMISSION_DENIED)
        with Fixture() as f:  # Our own user, over the Unix socket.
            self.assertEqual(unary(f.channel(), "Admin", b"a"), b"a")


class Streams(unittest.TestCase):
    def test_messages_arrive_in_order_and_the_stream_ends(self):
        with Fixture() as f:
            call = f.channel().unary_stream("/test.Fixture/Stream")
            got = [int(m.split(b"\0")[0]) for m in
                   call(b"500 100", timeout=TIMEOUT)]
            self.assertEqual(got, list(range(500)))
            self.assertEqual(list(call(b"0 100", timeout=TIMEOUT)), [])

    def test_client_leaves_a_stream(self):
        with Fixture() as f:
            call = f.channel().unary_stream("/test.Fixture/Forever")
            for _ in range(20):
                stream = call(b"", timeout=60)
                next(stream)
                stream.cancel()
            eventually(lambda: f.stats()["in_flight"] == 0, "streams freed")

    def test_reader_that_never_reads_holds_no_backlog(self):
        with Fixture() as f:
            before = f.rss_kib()
            raw = Raw(f.path, window=100)
            raw.call(b"/test.Fixture/Stream", b"100000 1000")
            eventually(lambda: f.stats()["stream_messages"] > 0, "started")
            last = -1
            while f.stats()["stream_messages"] != last:  # Until it stalls.
                last = f.stats()["stream_messages"]
                time.sleep(0.05)
            self.assertLess(last, 1000)
            self.assertTrue(f.grew_less_than(8192, before))
            self.assertEqual(unary(f.channel(), "Echo", b"a"), b"a")
            raw.close()
            eventually(lambda: f.stats()["in_flight"] == 0, "stream freed")


class Bounds(unittest.TestCase):
    def test_calls_over_calls_max_are_refused_with_retry_info(self):
        with Fixture("calls_max=16", "threads=1") as f:
            channel = f.channel()
            call = channel.unary_unary("/test.Fixture/Hang")
            held = [call.future(b"", timeout=60) for _ in range(16)]
            eventually(lambda: f.stats()["in_flight"] == 16, "all held")
            error = failure(channel, "Echo")
            self.assertEqual(error.code(), grpc.StatusCode.RESOURCE_EXHAUSTED)
            self.assertIn("calls_max", error.details())
            self.assertIn("grpc-retry-pushback-ms",
                          dict(error.trailing_metadata()))
            more = [call.future(b"", timeout=60) for _ in range(400)]
            for future in more:
                self.assertEqual(future.code(),
                                 grpc.StatusCode.RESOURCE_EXHAUSTED)
            for future in held:
                future.cancel()
            eventually(lambda: f.stats()["in_flight"] == 0, "all freed")
            self.assertEqual(unary(channel, "Echo", b"a"), b"a")

    def test_two_thousand_clients_connect_and_vanish(self):
        with Fixture() as f:
            self.assertEqual(unary(f.channel(), "Echo", b"a"), b"a")
            fds = "/proc/%d/fd" % f.process.pid
            base_fds = len(os.listdir(fds))
            expected = [1]

            def vanish(n):
                if n % 2 == 0:
                    sock = socket.socket(socket.AF_UNIX)
                    sock.connect(f.path)
                    sock.close()
                else:
                    raw = Raw(f.path)
                    raw.call(b"/test.Fixture/Hang", b"")
                    raw.close()

            def wave():
                with concurrent.futures.ThreadPoolExecutor(8) as pool:
                    list(pool.map(vanish, range(2000)))
                expected[0] += 2000
                eventually(lambda: f.stats()["accepted"] >= expected[0],
                           "all accepted")
                eventually(lambda: f.stats()["in_flight"] == 0, "calls freed")
                eventually(lambda: len(os.listdir(fds)) <= base_fds + 2,
                           "descriptors closed")

            wave()
            before = f.rss_kib()
            wave()
            self.assertTrue(f.grew_less_than(8192, before))
            self.assertEqual(unary(f.channel(), "Echo", b"a"), b"a")

    def test_connections_over_the_bound_are_closed(self):
        with Fixture("connections_max=10") as f:
            raws = [Raw(f.path) for _ in range(10)]
            for raw in raws:  # The settings frame: taken, not only queued.
                self.assertTrue(raw.sock.recv(9))
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                raws.append(Raw(f.path))
                self.assertEqual(raws[-1].sock.recv(9), b"")
            eventually(lambda: f.stats()["peers_refused"] == 1, "refused")
            for raw in raws:
                raw.close()

            def served():
                try:
                    return unary(f.channel(), "Echo", b"a") == b"a"
                except grpc.RpcError:
                    return False

            eventually(served, "room again")

    def test_rapid_reset_keeps_memory_bounded(self):
        with Fixture("calls_max=64") as f:
            channel = f.channel()
            unary(channel, "Echo")

            def reset_many():
                raw = Raw(f.path)
                batch = b""
                with contextlib.suppress(OSError):  # It may hang up on us.
                    for i in range(5000):
                        batch += raw.headers(b"/test.Fixture/Hang")
                        batch += raw.pack(3, 0, raw.stream,
                                          struct.pack(">I", 8))
                        if i % 100 == 99:
                            raw.sock.sendall(batch)
                            batch = b""
                try:
                    unary(channel, "Echo", b"during", timeout=60)
                except grpc.RpcError as error:  # Others may be told to wait.
                    self.assertEqual(error.code(),
                                     grpc.StatusCode.RESOURCE_EXHAUSTED)
                raw.close()
                eventually(lambda: f.stats()["in_flight"] == 0, "calls freed")

            before = f.rss_kib()
            for _ in range(10 if MEMORY_COUNTS else 2):
                reset_many()
            # C-core takes some 15 KiB a call, and may have read a whole round's
            # 5 000 before the first is ended: at most what one round takes is
            # kept, where ten would take over 600 MiB.
            self.assertTrue(f.grew_less_than(160 << 10, before))

    def test_peer_that_answers_no_ping_is_dropped(self):
        with Fixture("keepalive_ms=200", "keepalive_timeout_ms=200") as f:
            raw = Raw(f.path)
            raw.call(b"/test.Fixture/Hang", b"")
            eventually(lambda: f.stats()["started"] == 1, "call arrived")
            eventually(lambda: f.stats()["in_flight"] == 0, "peer dropped")
            raw.close()

    def test_garbage_instead_of_http2(self):
        with Fixture() as f:
            for bytes_ in (b"GET / HTTP/1.1\r\n\r\n", os.urandom(4096),
                           b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\xff" * 64):
                sock = socket.socket(socket.AF_UNIX)
                sock.connect(f.path)
                sock.settimeout(PATIENCE)
                with contextlib.suppress(OSError):
                    sock.sendall(bytes_)
                    while sock.recv(4096):
                        pass
                sock.close()
            self.assertEqual(unary(f.channel(), "Echo", b"a"), b"a")


class Health(unittest.TestCase):
    CHECK = "/grpc.health.v1.Health/Check"
    WATCH = "/grpc.health.v1.Health/Watch"
    STATUS = health_pb2.HealthCheckResponse.ServingStatus.Name

    def check(self, channel, service=""):
        reply = unary(channel, self.CHECK, health_pb2.HealthCheckRequest(
            service=service).SerializeToString())
        return self.STATUS(
            health_pb2.HealthCheckResponse.FromString(reply).status)

    def watch(self, channel, service=""):
        return channel.unary_stream(
            self.WATCH,
            request_serializer=health_pb2.HealthCheckRequest.SerializeToString,
            response_deserializer=health_pb2.HealthCheckResponse.FromString)(
                health_pb2.HealthCheckRequest(service=service))

    def test_check(self):
        with Fixture() as f:
            channel = f.channel()
            for name in ("", "test.Fixture", "grpc.health.v1.Health"):
                self.assertEqual(self.check(channel, name), "SERVING")
            error = failure(channel, self.CHECK, health_pb2.HealthCheckRequest(
                service="nope").SerializeToString())
            self.assertEqual(error.code(), grpc.StatusCode.NOT_FOUND)
            f.process.send_signal(signal.SIGUSR1)
            eventually(lambda: self.check(channel) == "NOT_SERVING", "flipped")

    def test_watch_tells_every_change_until_the_server_leaves(self):
        with Fixture("grace_ms=5000") as f:
            channel = f.channel()
            watch = self.watch(channel)
            unknown = self.watch(channel, "nope")
            self.assertEqual(self.STATUS(next(unknown).status),
                             "SERVICE_UNKNOWN")
            self.assertEqual(self.STATUS(next(watch).status), "SERVING")
            f.process.send_signal(signal.SIGUSR1)
            self.assertEqual(self.STATUS(next(watch).status), "NOT_SERVING")
            f.process.send_signal(signal.SIGUSR2)
            self.assertEqual(self.STATUS(next(watch).status), "SERVING")
            f.process.send_signal(signal.SIGTERM)
            self.assertEqual(self.STATUS(next(watch).status), "NOT_SERVING")
            with self.assertRaises(grpc.RpcError) as caught:
                next(watch)
            self.assertEqual(caught.exception.code(),
                             grpc.StatusCode.UNAVAILABLE)
            out, code = f.stop()
            self.assertIn("drained clean", out)

    def test_watchers_that_leave_are_forgotten(self):
        with Fixture() as f:
            channel = f.channel()
            watches = [self.watch(channel) for _ in range(30)]
            for watch in watches:
                next(watch)
            for watch in watches[::2]:
                watch.cancel()
            eventually(lambda: f.stats()["in_flight"] == 15, "half has left")
            f.process.send_signal(signal.SIGUSR1)
            for watch in watches[1::2]:
                self.assertEqual(self.STATUS(next(watch).status),
                                 "NOT_SERVING")


class Reflection(unittest.TestCase):
    VERSION, MESSAGES = "v1alpha", reflection_pb2

    def ask(self, channel, *requests):
        request = self.MESSAGES.ServerReflectionRequest
        call = channel.stream_stream(
            f"/grpc.reflection.{self.VERSION}.ServerReflection/"
            "ServerReflectionInfo",
            request_serializer=request.SerializeToString,
            response_deserializer=(
                self.MESSAGES.ServerReflectionResponse.FromString))
        return list(call(iter([request(**r) for r in requests]),
                         timeout=TIMEOUT))

    def file_name(self, response):
        files = response.file_descriptor_response.file_descriptor_proto
        self.assertEqual(len(files), 1, response)
        return descriptor_pb2.FileDescriptorProto.FromString(files[0]).name

    def test_lists_services(self):
        with Fixture() as f:
            (answer,) = self.ask(f.channel(), {"list_services": "*"})
            names = [s.name for s in answer.list_services_response.service]
            self.assertEqual(sorted(names), [
                "grpc.health.v1.Health",
                "grpc.reflection.v1.ServerReflection",
                "grpc.reflection.v1alpha.ServerReflection", "test.Fixture"])

    def test_describes_itself(self):
        name = f"grpc/reflection/{self.VERSION}/reflection.proto"
        with Fixture() as f:
            (answer,) = self.ask(f.channel(), {
                "file_containing_symbol":
                f"grpc.reflection.{self.VERSION}.ServerReflection"})
            self.assertEqual(self.file_name(answer), name)

    def test_finds_files_by_name_and_symbol_on_one_stream(self):
        allocator = "warmpool/v1/allocator.proto"
        symbols = ("warmpool.v1.Allocator", "warmpool.v1.Allocator.Claim",
                   "warmpool.v1.ClaimRequest", "warmpool.v1.Served",
                   "warmpool.v1.ClaimRequest.ttl_ms",
                   "warmpool.v1.PoolAdmin.Drain")
        with Fixture() as f:
            answers = self.ask(
                f.channel(), {"file_by_filename": allocator},
                *({"file_containing_symbol": s} for s in symbols),
                {"file_containing_symbol":
                 "grpc.health.v1.HealthCheckResponse.ServingStatus"})
            for answer in answers[:-1]:
                self.assertEqual(self.file_name(answer), allocator)
            self.assertEqual(self.file_name(answers[-1]),
                             "grpc/health/v1/health.proto")
            self.assertEqual(answers[0].original_request.file_by_filename,
                             allocator)

    def test_what_is_not_there_is_an_error_answer_not_an_end(self):
        with Fixture() as f:
            answers = self.ask(
                f.channel(), {"file_by_filename": "nope.proto"},
                *({"file_containing_symbol": s} for s in
                  ("warmpool.v1", "warmpool.v1.", "", ".", "warmpool.v1.Nope",
                   "warmpool.v1.Allocator.Claim.More", "x" * 200,
                   "warmpool_v1.Allocator")),
                {"all_extension_numbers_of_type": "warmpool.v1.Pool"}, {},
                {"list_services": ""})
            codes = [a.error_response.error_code for a in answers]
            self.assertEqual(codes, [5] * 10 + [12, 0])

    def test_can_be_switched_off(self):
        with Fixture("reflection=0") as f:
            with self.assertRaises(grpc.RpcError) as caught:
                self.ask(f.channel(), {"list_services": ""})
            self.assertEqual(caught.exception.code(),
                             grpc.StatusCode.UNIMPLEMENTED)



class ReflectionV1(Reflection):
    VERSION, MESSAGES = "v1", reflection_v1


class Listeners(unittest.TestCase):
    def refusal(self, *options, listen=None):
        with Fixture(*options, listen=listen) as f:
            self.assertEqual(f.process.wait(PATIENCE), 2)
            return f.log()

    def test_clear_text_beyond_loopback_is_refused(self):
        for address in ("0.0.0.0:0", "[::]:0", "192.0.2.1:7443"):
            self.assertIn(
                "listen address %s: clear text is allowed only on loopback or "
                "a unix socket; set tls_cert and tls_key" % address,
                self.refusal(listen=[address]))

    def test_addresses_that_cannot_be(self):
        for address in ("nonsense", "unix:relative", "127.0.0.1",
                        "example.com:80", "127.0.0.1:99999",
                        "unix:/" + "x" * 200):
            self.assertIn("address", self.refusal(listen=[address]))

    def test_settings_out_of_bounds_are_named(self):
        for option in ("calls_max=0", "receive_bytes_max=1",
                       "streams_per_connection_max=0", "threads=65",
                       "unix_mode=511", "keepalive_ms=1"):
            name = option.split("=")[0].replace("_ms", "")
            self.assertIn(name, self.refusal(option))

    def test_port_in_use(self):
        with Fixture(listen=["127.0.0.1:0"]) as f:
            self.assertIn("Address already in use",
                          self.refusal(listen=f.addresses))

    def test_socket_of_a_dead_server_is_replaced_a_living_one_is_not(self):
        with Fixture("unix_mode=384") as f:
            self.assertEqual(stat.S_IMODE(os.stat(f.path).st_mode), 0o600)
            self.assertIn("another process listens",
                          self.refusal(listen=f.addresses))
            self.assertEqual(unary(f.channel(), "Echo", b"a"), b"a")
            f.process.kill()
            f.process.wait()
            self.assertTrue(os.path.exists(f.path))
            with Fixture(listen=f.addresses) as again:
                self.assertEqual(stat.S_IMODE(os.stat(f.path).st_mode), 0o660)
                self.assertEqual(unary(again.channel(), "Echo", b"a"), b"a")
                again.stop()
            self.assertFalse(os.path.exists(f.path))
            f.killed = True

    def test_a_file_that_is_no_socket_stays(self):
        with tempfile.NamedTemporaryFile() as file:
            self.assertIn("not a socket",
                          self.refusal(listen=["unix:" + file.name]))
            self.assertTrue(os.path.exists(file.name))

    def test_directory_is_made_for_the_owner_only(self):
        with tempfile.TemporaryDirectory() as top:
            path = os.path.join(top, "run", "s.sock")
            with Fixture(listen=["unix:" + path]):
                mode = os.stat(os.path.dirname(path)).st_mode
                self.assertEqual(stat.S_IMODE(mode), 0o700)


class Identity(unittest.TestCase):
    """Callers of the Unix socket, by the kernel's word."""

    def whoami_as(self, f, uid, groups=()):
        """What a process of that user is told: "" when it is refused."""
        code = (
            "import grpc,os,sys\n"
            "os.setgroups(%r); os.setgid(%d); os.setuid(%d)\n"
            "c = grpc.insecure_channel(sys.argv[1])\n"
            "try: print(c.unary_unary('/test.Fixture/Whoami')(b'',timeout=60)"
            ".decode())\n"
            "except grpc.RpcError as e: print(e.code().name)\n"
            % (list(groups), uid, uid))
        os.chmod(f.dir, 0o755)
        return subprocess.run(
            [sys.executable, "-c", code, f.addresses[0]], text=True,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            timeout=120).stdout.strip()

    def test_own_user_is_admin(self):
        with Fixture() as f:
            self.assertEqual(unary(f.channel(), "Whoami"),
                             b"uid:%d||admin" % os.getuid())

    @unittest.skipIf(os.getuid() != 0, "needs root to become another user")
    def test_users_and_groups(self):
        mode = "unix_mode=438"
        with Fixture(mode) as f:
            self.assertEqual(self.whoami_as(f, 12345),
                             "uid:12345|uid:12345|user")
        with Fixture(mode, "allow_uid=12345", "allow_gid=777") as f:
            self.assertEqual(self.whoami_as(f, 12345),
                             "uid:12345|uid:12345|user")
            self.assertEqual(self.whoami_as(f, 12346), "UNAVAILABLE")
            self.assertEqual(self.whoami_as(f, 12346, [777]),
                             "uid:12346|uid:12346|user")
            self.assertEqual(unary(f.channel(), "Whoami"), b"uid:0||admin")
        with Fixture(mode, "principal=uid:12345,team-a,user",
                     "principal=gid:777,team-b,admin") as f:
            self.assertEqual(self.whoami_as(f, 12345), "uid:12345|team-a|user")
            self.assertEqual(self.whoami_as(f, 12346, [777]),
                             "gid:777|team-b|admin")
            self.assertEqual(self.whoami_as(f, 12346), "UNAVAILABLE")
            self.assertEqual(unary(f.channel(), "Whoami"), b"uid:0||admin")

    def test_what_runs_in_a_sandbox_is_not_our_own_user(self):
        unshare = ["unshare", "--user", "--map-root-user"]
        if subprocess.run([*unshare, "true"], check=False,
                          stderr=subprocess.DEVNULL).returncode != 0:
            self.skipTest("no user namespaces here")
        code = ("import socket,sys\n"
                "s = socket.socket(socket.AF_UNIX)\n"
                "s.connect(sys.argv[1])\n"
                "try:\n"
                " s.sendall(b'PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n'\n"
                "           b'\\0\\0\\0\\4\\0\\0\\0\\0\\0')\n"
                " print(len(s.recv(9)))\n"
                "except OSError: print(0)\n")
        with Fixture() as f:
            run = [sys.executable, "-c", code, f.path]
            out = subprocess.run(run, stdout=subprocess.PIPE, check=True)
            self.assertEqual(out.stdout.strip(), b"9")  # Settings: welcome.
            out = subprocess.run([*unshare, *run], stdout=subprocess.PIPE,
                                 check=True)
            self.assertEqual(out.stdout.strip(), b"0")
            eventually(lambda: f.stats()["peers_refused"] == 1, "counted")

    def test_anonymous_over_tcp(self):
        with Fixture(listen=["127.0.0.1:0"]) as f:
            self.assertEqual(unary(f.channel(), "Whoami"), b"anonymous||user")
        with Fixture("principal=anonymous,guests,user",
                     listen=["127.0.0.1:0"]) as f:
            self.assertEqual(unary(f.channel(), "Whoami"),
                             b"anonymous|guests|user")
        with Fixture("principal=uid:1,x,user", listen=["127.0.0.1:0"]) as f:
            self.assertEqual(failure(f.channel(), "Whoami").code(),
                             grpc.StatusCode.PERMISSION_DENIED)

    def test_a_call_outlives_its_connection(self):
        with Fixture() as f:
            raw = Raw(f.path)
            raw.call(b"/test.Fixture/Deaf", b"60000")
            eventually(lambda: f.stats()["in_flight"] == 1, "call arrived")
            raw.close()
            eventually(lambda: f.stats()["cancelled"] == 1, "client has left")
            self.assertEqual(f.stats()["in_flight"], 1)
            channel = f.channel()
            self.assertEqual(unary(channel, "Whoami"),
                             b"uid:%d||admin" % os.getuid())
            unary(channel, "Wake")
            eventually(lambda: f.stats()["in_flight"] == 0, "answered")

    def test_a_new_connection_with_a_reused_number_is_itself(self):
        path = os.path.join(tempfile.mkdtemp(), "s.sock")
        self.addCleanup(shutil.rmtree, os.path.dirname(path))
        with Fixture("principal=anonymous,guests,user",
                     listen=["127.0.0.1:0", "unix:" + path]) as f:
            for _ in range(50):
                tcp, unix = f.channel(0), f.channel(1)
                self.assertEqual(unary(tcp, "Whoami"),
                                 b"anonymous|guests|user")
                tcp.close()
                self.assertEqual(unary(unix, "Whoami"),
                                 b"uid:%d||admin" % os.getuid())
                unix.close()


class Certificates:
    """A small authority in a directory, made with the openssl program."""

    def __init__(self, directory):
        self.dir = directory
        self.run("req", "-x509", "-newkey", "ec", "-pkeyopt",
                 "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", "ca.key",
                 "-out", "ca.pem", "-subj", "/CN=test-ca", "-days", "2")

    def run(self, *args):
        subprocess.run(["openssl", *args], cwd=self.dir, check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def issue(self, name, cn, san, to=None):
        self.run("req", "-newkey", "ec", "-pkeyopt",
                 "ec_paramgen_curve:prime256v1", "-nodes", "-keyout",
                 name + ".key", "-out", name + ".csr", "-subj", "/CN=" + cn)
        with open(self.path(name + ".ext"), "w") as f:
            f.write("subjectAltName=" + san + "\n" if san else "")
        self.run("x509", "-req", "-in", name + ".csr", "-CA", "ca.pem",
                 "-CAkey", "ca.key", "-CAcreateserial", "-out", name + ".pem",
                 "-days", "2", "-extfile", name + ".ext")
        if to is not None:  # Atomically, as those who renew do.
            for end in (".key", ".pem"):
                os.rename(self.path(name + end), self.path(to + end))

    def path(self, name):
        return os.path.join(self.dir, name)

    def read(self, name):
        with open(self.path(name), "rb") as f:
            return f.read()


class Tls(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.top = tempfile.mkdtemp(prefix="wp-tls-")
        cls.ca = Certificates(cls.top)
        cls.ca.issue("server", "localhost", "DNS:localhost,IP:127.0.0.1")
        cls.ca.issue("spiffe", "ignored", "URI:spiffe://example.org/team-a")
        cls.ca.issue("dns", "ignored", "DNS:client.example.org")
        cls.ca.issue("cn", "plain-name", "")

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.top)

    def fixture(self, *options, client_ca=True, listen="127.0.0.1:0"):
        args = ["tls_cert=" + self.ca.path("server.pem"),
                "tls_key=" + self.ca.path("server.key")]
        if client_ca:
            args.append("tls_client_ca=" + self.ca.path("ca.pem"))
        return Fixture(*args, *options, listen=[listen])

    def channel(self, f, client=None):
        key = self.ca.read(client + ".key") if client else None
        cert = self.ca.read(client + ".pem") if client else None
        channel = grpc.secure_channel(
            "127.0.0.1:" + f.addresses[0].rpartition(":")[2],
            grpc.ssl_channel_credentials(self.ca.read("ca.pem"), key, cert),
            options=[("grpc.use_local_subchannel_pool", 1)])
        f.channels.append(channel)
        return channel

    def test_tls_without_client_certificates(self):
        with self.fixture(client_ca=False) as f:
            self.assertEqual(unary(self.channel(f), "Whoami"),
                             b"anonymous||user")
            error = failure(f.channel(), "Echo", timeout=2)  # In clear.
            self.assertIn(error.code(), (grpc.StatusCode.UNAVAILABLE,
                                         grpc.StatusCode.DEADLINE_EXCEEDED))

    def test_tls_allows_addresses_beyond_loopback(self):
        with self.fixture(client_ca=False, listen="0.0.0.0:0") as f:
            self.assertEqual(unary(self.channel(f), "Echo", b"a"), b"a")

    def test_client_certificate_is_required_and_names_its_bearer(self):
        with self.fixture() as f:
            self.assertEqual(failure(self.channel(f), "Echo").code(),
                             grpc.StatusCode.UNAVAILABLE)
            self.assertEqual(unary(self.channel(f, "spiffe"), "Whoami"),
                             b"|".join([b"spiffe://example.org/team-a"] * 2 +
                                       [b"user"]))
            self.assertEqual(unary(self.channel(f, "dns"), "Whoami"),
                             b"client.example.org|client.example.org|user")
            self.assertEqual(unary(self.channel(f, "cn"), "Whoami"),
                             b"plain-name|plain-name|user")

    def test_principals_give_tenant_and_rights(self):
        with self.fixture("principal=spiffe://example.org/team-a,team-a,user",
                          "principal=plain-name,,admin") as f:
            self.assertEqual(unary(self.channel(f, "spiffe"), "Whoami"),
                             b"spiffe://example.org/team-a|team-a|user")
            self.assertEqual(unary(self.channel(f, "cn"), "Admin", b"a"),
                             b"a")
            self.assertEqual(failure(self.channel(f, "dns"), "Echo").code(),
                             grpc.StatusCode.PERMISSION_DENIED)

    def server_serial(self, f):
        out = subprocess.run(
            ["openssl", "s_client", "-connect",
             "127.0.0.1:" + f.addresses[0].rpartition(":")[2], "-alpn", "h2"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, timeout=30).stdout
        return subprocess.run(
            ["openssl", "x509", "-noout", "-serial"], input=out,
            stdout=subprocess.PIPE, timeout=30).stdout.decode()

    def test_new_certificate_is_served_without_restart(self):
        self.ca.issue("rotate", "localhost", "DNS:localhost,IP:127.0.0.1")
        with Fixture("tls_cert=" + self.ca.path("rotate.pem"),
                     "tls_key=" + self.ca.path("rotate.key"),
                     listen=["127.0.0.1:0"]) as f:
            old_channel = self.channel(f)
            self.assertEqual(unary(old_channel, "Echo", b"a"), b"a")
            first = self.server_serial(f)
            self.assertTrue(first.startswith("serial="))
            self.ca.issue("next", "localhost", "DNS:localhost,IP:127.0.0.1",
                          to="rotate")
            second = self.server_serial(f)
            self.assertNotEqual(first, second)
            self.assertEqual(f.stats()["reloads"], 1)
            self.assertEqual(unary(old_channel, "Echo", b"b"), b"b")

            # A certificate without its key, then nonsense: the old one stays,
            # with one warning each.
            self.ca.issue("half", "localhost", "DNS:localhost,IP:127.0.0.1")
            os.rename(self.ca.path("half.pem"), self.ca.path("rotate.pem"))
            for _ in range(3):
                self.assertEqual(self.server_serial(f), second)
            self.assertEqual(f.log().count("old ones stay"), 1)
            self.assertIn("does not belong", f.log())
            with open(self.ca.path("rotate.pem"), "w") as file:
                file.write("not a certificate")
            for _ in range(3):
                self.assertEqual(self.server_serial(f), second)
            self.assertEqual(f.log().count("old ones stay"), 2)
            self.assertEqual(f.stats()["reloads"], 1)
            self.assertEqual(unary(self.channel(f), "Echo", b"c"), b"c")

            # And whole again.
            self.ca.issue("last", "localhost", "DNS:localhost,IP:127.0.0.1",
                          to="rotate")
            self.assertNotEqual(self.server_serial(f), second)
            self.assertEqual(f.stats()["reloads"], 2)

    def test_a_file_of_the_same_size_and_time_is_another(self):
        """What a copy that keeps times leaves; the kernel's own time tells."""
        names = "DNS:localhost,IP:127.0.0.1"
        self.ca.issue("same", "localhost", names)
        paths = [self.ca.path("same." + kind) for kind in ("pem", "key")]
        for path in paths:
            # Behind a PEM text there may be anything: room for a longer one.
            with open(path, "ab") as file:
                file.write(b"\n" * 64)
        with Fixture("tls_cert=" + paths[0], "tls_key=" + paths[1],
                     listen=["127.0.0.1:0"]) as f:
            first = self.server_serial(f)
            before = [os.stat(path) for path in paths]
            self.ca.issue("same2", "localhost", names)
            for path, stat in zip(paths, before):
                with open(path.replace("same.", "same2."), "rb") as file:
                    text = file.read()
                with open(path, "r+b") as file:
                    file.write(text.ljust(stat.st_size, b"\n"))
                self.assertEqual(os.stat(path).st_size, stat.st_size)
                os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
                self.assertEqual(os.stat(path).st_ino, stat.st_ino)
            self.assertNotEqual(self.server_serial(f), first)

    def test_a_listener_without_descriptors_says_so_and_recovers(self):
        path = os.path.join(tempfile.mkdtemp(), "s.sock")
        self.addCleanup(shutil.rmtree, os.path.dirname(path))
        with Fixture("tls_cert=" + self.ca.path("server.pem"),
                     "tls_key=" + self.ca.path("server.key"),
                     listen=["127.0.0.1:0", "unix:" + path]) as f:
            check = Health().check
            local = f.channel(1)
            self.assertEqual(check(local), "SERVING")
            pid = f.process.pid
            limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)
            used = len(os.listdir("/proc/%d/fd" % pid))
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (used, limits[1]))
            port = int(f.addresses[0].rpartition(":")[2])
            with contextlib.ExitStack() as stack:
                for _ in range(20):
                    stack.enter_context(
                        socket.create_connection(("127.0.0.1", port)))
                eventually(lambda: check(local) == "NOT_SERVING", "reported")
                self.assertIn("no connection can be accepted", f.log())
            resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)
            eventually(lambda: check(local) == "SERVING", "recovered")
            self.assertEqual(unary(self.channel(f), "Echo", b"a"), b"a")
            self.assertIn("connections are accepted again", f.log())

    def test_bad_files_at_start_are_named(self):
        cases = [
            ("server.pem", "absent.key", None, "tls_key"),
            ("absent.pem", "server.key", None, "tls_cert"),
            ("server.key", "server.key", None, "expected a PEM certificate"),
            ("server.pem", "server.pem", None, "expected a PEM private key"),
            ("server.pem", "cn.key", None, "does not belong"),
            ("server.pem", "server.key", "server.key", "tls_client_ca"),
        ]
        for cert, key, ca, expected in cases:
            args = ["tls_cert=" + self.ca.path(cert),
                    "tls_key=" + self.ca.path(key)]
            if ca:
                args.append("tls_client_ca=" + self.ca.path(ca))
            with Fixture(*args, listen=["127.0.0.1:0"]) as f:
                self.assertEqual(f.process.wait(PATIENCE), 2)
                self.assertIn(expected, f.log())
        with Fixture("tls_cert=" + self.ca.path("server.pem"),
                     listen=["127.0.0.1:0"]) as f:
            self.assertEqual(f.process.wait(PATIENCE), 2)
            self.assertIn("tls_cert and tls_key", f.log())


class Races(unittest.TestCase):
    """An answer from another thread against the client's cancel or deadline:
    each call must be freed exactly once, whoever wins."""

    CALLS = 4000

    def race(self, f, end_early):
        """Returns how many calls were answered and how many were not."""
        channels = [f.channel() for _ in range(4)]
        answered = 0
        window = threading.Semaphore(200)
        futures = []
        for n in range(self.CALLS):
            window.acquire()
            call = channels[n % 4].unary_unary("/test.Fixture/Delay")
            future = end_early(call, n)
            future.add_done_callback(lambda _: window.release())
            futures.append(future)
        for future in futures:
            answered += future.code() == grpc.StatusCode.OK
        eventually(lambda: f.stats()["in_flight"] == 0, "all freed")
        self.assertEqual(unary(channels[0], "Echo", b"a"), b"a")
        return answered, self.CALLS - answered

    def test_answer_against_deadline(self):
        with Fixture("threads=2") as f:
            def call(method, n):
                return method.future(b"%d" % (n % 5),
                                     timeout=0.001 * (n % 7 + 1))

            answered, late = self.race(f, call)
            self.assertGreater(late, 0)
            self.assertGreater(answered + late, 0)

    def test_answer_against_cancel(self):
        with Fixture("threads=2") as f:
            def call(method, n):
                future = method.future(b"%d" % (n % 3), timeout=TIMEOUT)
                if n % 2:
                    timer = threading.Timer(0.001 * (n % 5), future.cancel)
                    timer.daemon = True
                    timer.start()
                return future

            answered, _ = self.race(f, call)
            self.assertGreaterEqual(answered, self.CALLS // 2)

    def test_answer_against_lost_connections(self):
        with Fixture("threads=2") as f:
            for n in range(300):
                raw = Raw(f.path)
                for i in range(10):
                    raw.call(b"/test.Fixture/Delay", b"%d" % (i % 3))
                if n % 2:
                    time.sleep(0.002)
                raw.close()
            eventually(lambda: f.stats()["in_flight"] == 0, "all freed")
            self.assertEqual(unary(f.channel(), "Echo", b"a"), b"a")

    def test_leaving_against_everything(self):
        for _ in range(5):
            with Fixture("threads=2", "grace_ms=20") as f:
                channel = f.channel()
                futures = [channel.unary_unary("/test.Fixture/" + m).future(
                    b"%d" % (i % 40), timeout=TIMEOUT)
                    for i in range(100) for m in ("Delay", "Hang", "Echo")]
                out, code = f.stop()
                self.assertEqual(code, 0, f.log())
                self.assertIn('"in_flight": 0', out)
                for future in futures:
                    future.code()  # All end.


class Leaving(unittest.TestCase):
    def test_calls_in_flight_are_served_within_the_grace(self):
        with Fixture("grace_ms=30000") as f:
            # A connection for each: wp_rpc_server_drain says what may become
            # of several answers that are the last on one.
            futures = [f.channel().unary_unary("/test.Fixture/Delay").future(
                b"1500", timeout=PATIENCE) for _ in range(20)]
            eventually(lambda: f.stats()["started"] == 20, "calls arrived")
            out, code = f.stop()
            self.assertEqual([x.result() for x in futures], [b"1500"] * 20)
            self.assertIn("drained clean", out)
            self.assertEqual(code, 0)

    def test_what_outlives_the_grace_is_cancelled(self):
        with Fixture("grace_ms=200") as f:
            channel = f.channel()
            hang = channel.unary_unary("/test.Fixture/Hang").future(
                b"", timeout=60)
            stream = channel.unary_stream("/test.Fixture/Forever")(
                b"", timeout=60)
            seen = threading.Event()

            def read():
                with contextlib.suppress(grpc.RpcError):
                    for _ in stream:
                        seen.set()

            reader = threading.Thread(target=read)
            reader.start()
            self.assertTrue(seen.wait(PATIENCE))
            eventually(lambda: f.stats()["in_flight"] == 2, "both arrived")
            out, code = f.stop()
            reader.join()
            self.assertIn("drained cancelled", out)
            self.assertIn('"in_flight": 0', out)
            self.assertIn("stopped", out)
            self.assertEqual(code, 0)
            self.assertIn(hang.code(), (grpc.StatusCode.UNAVAILABLE,
                                        grpc.StatusCode.CANCELLED))

    def test_new_calls_go_elsewhere_at_once(self):
        with Fixture("grace_ms=10000") as f:
            channel = f.channel()
            held = channel.unary_unary("/test.Fixture/Delay").future(
                b"1000", timeout=TIMEOUT)
            eventually(lambda: f.stats()["started"] == 1, "call arrived")
            f.process.send_signal(signal.SIGTERM)
            eventually(lambda: not os.path.exists(f.path), "socket removed")
            error = failure(f.channel(), "Echo")
            self.assertEqual(error.code(), grpc.StatusCode.UNAVAILABLE)
            self.assertEqual(held.result(), b"1000")

    def test_idle_server_leaves_at_once(self):
        with Fixture("grace_ms=60000") as f:
            self.assertEqual(unary(f.channel(), "Echo", b"a"), b"a")
            start = time.monotonic()
            out, code = f.stop()
            self.assertLess(time.monotonic() - start, PATIENCE)
            self.assertIn("drained clean", out)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
