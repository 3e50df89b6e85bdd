"""A claim in a trace of OpenTelemetry, read by OpenTelemetry's own code.

The Python API injects its span's context, warmpoolctl carries it to the daemon, and
what the daemon exports is taken by the collector's Go library (go/otlp).

Run by ctest: trace_client.py BUILD_DIR. Needs a host that lets it make sandboxes, and
Go; exits with 77 elsewhere.
"""

import json
import os
import queue
import shutil
import subprocess
import sys
import threading
import unittest

from session_client import BUILD, HERE, PATIENCE, Daemon

INJECT = """
from opentelemetry import trace
from opentelemetry.trace.propagation import tracecontext
context = trace.SpanContext(int("a1" * 16, 16), int("b2" * 8, 16), False,
                            trace.TraceFlags(trace.TraceFlags.SAMPLED))
carrier = {}
tracecontext.TraceContextTextMapPropagator().inject(
    carrier, trace.set_span_in_context(trace.NonRecordingSpan(context)))
print(carrier["traceparent"])
"""


class Collector:
    def __init__(self, program):
        self.process = subprocess.Popen([program], stdout=subprocess.PIPE,
                                        text=True)
        self.url = "http://" + self.process.stdout.readline().strip()
        self.lines = queue.Queue()
        self.thread = threading.Thread(target=self.read)
        self.thread.start()

    def read(self):
        for line in self.process.stdout:
            self.lines.put(json.loads(line))

    def next(self):
        return self.lines.get(timeout=PATIENCE)

    def stop(self):
        self.process.terminate()
        self.process.wait()
        self.thread.join()
        self.process.stdout.close()


class Trace(unittest.TestCase):
    def setUp(self):
        self.collector = Collector(os.path.join(CLIENTS, "go", "otlp", "otlp"))
        self.addCleanup(self.collector.stop)
        self.daemon = Daemon("--otlp-endpoint=" + self.collector.url)
        self.addCleanup(shutil.rmtree, self.daemon.dir, True)
        self.addCleanup(self.daemon.stop)

    def test_a_claim(self):
        parent = subprocess.run(
            [os.path.join(CLIENTS, "python", "bin", "python3"), "-c", INJECT],
            check=True, capture_output=True, text=True).stdout.strip()
        subprocess.run(
            [os.path.join(BUILD, "allocator", "ctl", "warmpoolctl"),
             "--address=unix:" + os.path.join(self.daemon.dir, "r",
                                              "warmpoold.sock"),
             "claim", "quickstart", "--id=traced", "--env", "A=b",
             "--wait=60s"],
            env=dict(os.environ, TRACEPARENT=parent), check=True,
            stdout=subprocess.DEVNULL)
        spans = {}
        while "warmpool.v1.Allocator/Claim" not in spans:
            span = self.collector.next()
            spans[span["Name"]] = span
        call = spans["warmpool.v1.Allocator/Claim"]
        self.assertEqual((call["Trace"], call["Parent"], call["Kind"]),
                         ("a1" * 16, "b2" * 8, "Server"))
        self.assertEqual(call["Status"], "Unset")
        self.assertEqual(call["Attributes"]["rpc.grpc.status_code"], 0)
        self.assertEqual(call["Resource"]["service.name"], "warmpoold")
        for name in ("grant", "bind"):
            step = spans[name]
            self.assertEqual(step["Parent"], call["Span"])
            self.assertEqual(step["Kind"], "Internal")
            self.assertEqual(step["Attributes"]["warmpool.claim"], "traced")
            self.assertLessEqual(call["Begin"], step["Begin"])
            self.assertLessEqual(step["Begin"], step["End"])
            self.assertLessEqual(step["End"], call["End"])


if __name__ == "__main__":
    setup = subprocess.run([os.path.join(HERE, "setup.sh")], check=False,
                           stdout=subprocess.PIPE, text=True)
    if setup.returncode != 0:
        sys.exit(setup.returncode)
    CLIENTS = setup.stdout.strip()
    unittest.main(argv=sys.argv[:1] + sys.argv[2:])
