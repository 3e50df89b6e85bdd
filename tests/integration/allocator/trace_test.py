"""Traces of claims, as a collector of OpenTelemetry sees them.

Run by ctest: trace_test.py WARMPOOLD GENERATED_DIR DEPLOY_DIR WARMPOOLCTL
[unittest arguments]. Needs a host that lets it make sandboxes; exits with 77
elsewhere.
"""

import os
import signal
import subprocess
import sys
import time
import unittest

import grpc

from daemon_test import (PATIENCE, POOL, Daemon, eventually, host_can, pb,
                         tell_if_failed)

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                "../../support/otlp"))
from collector import (ERROR, INTERNAL, PARENT, SAMPLED, SERVER, TRACE,
                       Collector, lies_in, plain)

CTL = os.path.abspath(sys.argv[4])


class Traces(unittest.TestCase):
    def start(self, collector, *flags, **more):
        daemon = Daemon("--otlp-endpoint=" + collector.url, *flags, **more)
        self.addCleanup(daemon.clean)
        self.addCleanup(tell_if_failed, self, [daemon])
        return daemon

    def collector(self, **more):
        collector = Collector(**more)
        self.addCleanup(collector.stop)
        return collector

    def call(self, daemon, method, request, reply, traceparent=SAMPLED):
        call = daemon.channel.unary_unary(
            "/warmpool.v1." + method,
            request_serializer=lambda m: m.SerializeToString(),
            response_deserializer=reply.FromString)
        metadata = [("traceparent", traceparent)] if traceparent else []
        return call(request, timeout=PATIENCE, metadata=metadata)

    def claim(self, daemon, claim_id, traceparent=SAMPLED, **more):
        return self.call(daemon, "Allocator/Claim", pb.ClaimRequest(
            pool=POOL, claim_id=claim_id, **more), pb.ClaimResponse,
            traceparent).lease

    def span(self, collector, name):
        return eventually(lambda: collector.named(name), "a span " + name)[-1]

    def metric(self, daemon, outcome):
        name = f'warmpool_trace_spans_total{{outcome="{outcome}"}} '
        lines = daemon.get("/metrics")[1].splitlines()
        return next(float(line[len(name):]) for line in lines
                    if line.startswith(name))

    def test_a_claim_with_a_binding(self):
        """One trace: the call, and in it the grant and the binding."""
        collector = self.collector()
        daemon = self.start(collector).wait_full(3)
        before = time.time_ns()
        lease = self.claim(daemon, "c1", binding=pb.Binding(
            env=[pb.EnvVar(name="A", value="b")]))
        call = self.span(collector, "warmpool.v1.Allocator/Claim")
        grant, bind = collector.named("grant")[0], collector.named("bind")[0]
        self.assertEqual({s["traceId"] for s in collector.spans}, {TRACE})
        self.assertEqual(call["parentSpanId"], PARENT)
        self.assertEqual(call["kind"], SERVER)
        self.assertNotIn("status", call)
        for step in (grant, bind):
            self.assertEqual(step["parentSpanId"], call["spanId"])
            self.assertEqual(step["kind"], INTERNAL)
            self.assertTrue(lies_in(step, call))
            self.assertEqual(plain(step["attributes"]), {
                "warmpool.namespace": "default",
                "warmpool.pool": lease.pool.name, "warmpool.claim": "c1",
                "warmpool.sandbox": lease.sandbox, "warmpool.served": "warm"})
        self.assertEqual(grant["endTimeUnixNano"], bind["startTimeUnixNano"])
        self.assertLess(before - 10**9, int(call["startTimeUnixNano"]))
        self.assertLess(int(call["endTimeUnixNano"]), time.time_ns() + 10**9)
        self.assertEqual(plain(call["attributes"]), {
            "rpc.system": "grpc", "rpc.service": "warmpool.v1.Allocator",
            "rpc.method": "Claim", "rpc.grpc.status_code": "0"})
        self.assertEqual(len({s["spanId"] for s in collector.spans}), 3)
        self.assertEqual(collector.resources[0]["service.name"], "warmpoold")
        self.assertEqual(collector.resources[0]["process.pid"],
                         str(daemon.process.pid))
        eventually(lambda: self.metric(daemon, "exported") == 3, "counted")

    def test_only_who_asks(self):
        """Neither calls without a trace, nor those whose client does not keep
        its part, nor what is no traceparent."""
        collector = self.collector()
        daemon = self.start(collector).wait_full(3)
        wrong = (None, f"00-{TRACE}-{PARENT}-00", f"00-{TRACE.upper()}-{PARENT}-01",
                 f"00-{'0' * 32}-{PARENT}-01", f"00-{TRACE}-{'0' * 16}-01",
                 f"ff-{TRACE}-{PARENT}-01", f"00-{TRACE}-{PARENT}-01-x", "x")
        for text in wrong:
            daemon.release(self.claim(daemon, "no", text, wait_ms=9000))
        self.claim(daemon, "later", f"01-{TRACE}-{PARENT}-01-more",
                   wait_ms=9000)
        self.span(collector, "warmpool.v1.Allocator/Claim")
        self.assertEqual(
            [plain(s["attributes"])["warmpool.claim"]
             for s in collector.named("grant")], ["later"])
        self.assertEqual(len(collector.spans), 2)

    def test_what_was_refused(self):
        collector = self.collector()
        daemon = self.start(collector, replicas=0)
        eventually(daemon.listening, "listening")
        with self.assertRaises(grpc.RpcError):
            self.claim(daemon, "none")
        call = self.span(collector, "warmpool.v1.Allocator/Claim")
        self.assertEqual(call["status"]["code"], ERROR)
        self.assertEqual(call["status"]["message"], "RESOURCE_EXHAUSTED")
        self.assertEqual(
            plain(call["attributes"])["rpc.grpc.status_code"], "8")
        grant = self.span(collector, "grant")
        self.assertEqual(grant["status"]["code"], ERROR)
        self.assertNotIn("warmpool.sandbox", plain(grant["attributes"]))

    def test_command_line(self):
        """warmpoolctl belongs to the trace of what began it."""
        collector = self.collector()
        daemon = self.start(collector).wait_full(3)
        for value, n in ((SAMPLED, 1), ("nonsense", 1), (SAMPLED, 2)):
            subprocess.run(
                [CTL, "--address=unix:" + daemon.grpc_path, "pools"],
                env=dict(os.environ, TRACEPARENT=value), check=True,
                stdout=subprocess.DEVNULL)
            eventually(lambda n=n: len(collector.named(
                "warmpool.v1.PoolAdmin/ListPools")) == n, f"{n} spans")
        self.assertEqual(len(collector.spans), 2)

    def test_collector_that_fails(self):
        """Claims do not wait for it; it is said once, and once it is over."""
        collector = self.collector()
        daemon = self.start(collector).wait_full(3)
        collector.answer = 503
        self.claim(daemon, "c1")
        eventually(lambda: self.metric(daemon, "failed") == 2, "two failed")
        self.assertEqual(collector.posts, 3)  # A batch is tried three times.
        self.assertEqual(daemon.messages().count("does not take traces"), 1)
        collector.answer = 400  # What is wrong once is wrong again.
        posts = collector.posts
        self.claim(daemon, "c2")
        eventually(lambda: self.metric(daemon, "failed") >= 4, "two more")
        self.assertLessEqual(collector.posts, posts + 2)
        self.assertEqual(daemon.messages().count("does not take traces"), 1)
        collector.answer = 200
        self.claim(daemon, "c3", wait_ms=9000)
        self.span(collector, "warmpool.v1.Allocator/Claim")
        eventually(lambda: "takes traces again" in daemon.messages(), "said")

    def test_more_than_a_batch(self):
        collector = self.collector()
        daemon = self.start(collector, replicas=0)
        eventually(daemon.listening, "listening")
        for _ in range(1500):
            self.call(daemon, "Allocator/ListClaims", pb.ListClaimsRequest(),
                      pb.ListClaimsResponse)
        eventually(lambda: len(collector.spans) == 1500, "all of them")
        self.assertEqual(len({s["spanId"] for s in collector.spans}), 1500)
        self.assertEqual(self.metric(daemon, "dropped"), 0)

    def test_collector_that_is_not_there(self):
        collector = self.collector()
        port = collector.port
        daemon = self.start(collector).wait_full(3)
        collector.stop()
        self.claim(daemon, "c1")
        eventually(lambda: self.metric(daemon, "failed") == 2, "two failed")
        again = self.collector(port=port)
        self.claim(daemon, "c2")
        self.span(again, "warmpool.v1.Allocator/Claim")

    def test_last_spans(self):
        """What waits is sent at the end; a collector that does not answer
        holds the end up for seconds only, and claims not at all."""
        collector = self.collector()
        daemon = self.start(collector).wait_full(3)
        self.claim(daemon, "c1")
        self.assertEqual(daemon.stop(), 0)
        self.assertEqual(len(collector.named("grant")), 1)
        daemon = self.start(collector).wait_full(3)
        collector.goes_on.clear()
        for i in range(3):
            begun = time.monotonic()
            self.claim(daemon, f"d{i}")
            self.assertLess(time.monotonic() - begun, 20)  # And not 60.
        eventually(lambda: collector.posts >= 2, "a post that is not answered")
        begun = time.monotonic()
        self.assertEqual(daemon.stop(), 0)
        self.assertLess(time.monotonic() - begun, 30)  # And not 60.


class Settings(unittest.TestCase):
    def test_bad_endpoints(self):
        for text in ("localhost:4318", "ftp://h:1", "http://", "http://h/?a=b",
                     "http://h:4318/"):
            done = subprocess.run(
                [os.path.abspath(sys.argv[1]), "--check-config",
                 "--otlp-endpoint=" + text], capture_output=True, text=True,
                check=False)
            self.assertEqual(done.returncode, 2, text)
            self.assertIn("setting 'otlp_endpoint'", done.stderr)


if __name__ == "__main__":
    signal.alarm(600)
    reason = host_can()
    if reason:
        print("SKIP:", reason)
        sys.exit(77)
    unittest.main(argv=[sys.argv[0]] + sys.argv[5:], verbosity=2)
