"""The honest client: honest.py GENERATED_DIR TARGET-AS-JSON RATE

Claims and releases in open loop: so many claims begin in each second, however
long the ones before take. Most go over one lasting connection; one in a hundred
over a connection of its own. Ten times a second it asks /readyz as a probe would,
where the target names an "http" address. What the API calls retryable is tried
again with the same claim id, until a minute has passed.

On standard input: "phase NAME" begins a phase, with a claim over a new connection;
"stop" ends it. It says "new NAME" when such a claim was granted, and "probe NAME"
when a probe was answered. In the end it waits for what is under way, and prints one
line of JSON with the figures of each phase.
"""

import heapq
import itertools
import json
import os
import queue
import socket
import ssl
import sys
import threading
import time

import grpc

sys.path.insert(0, sys.argv[1])
grpc.__path__.append(os.path.join(sys.argv[1], "grpc"))

from warmpool.v1 import allocator_pb2 as pb  # noqa: E402

DEADLINE = 60
FRESH = 100  # One claim of so many over a connection of its own.
PROBE_EVERY = 0.1


def quantile(values, share):
    if not values:
        return None
    values = sorted(values)
    return values[min(len(values) - 1, int(share * len(values)))]


class Client:
    def __init__(self, target, rate):
        self.target = target
        self.rate = rate
        self.phase = "begin"
        self.phases = {}
        self.inbox = queue.SimpleQueue()  # Everything happens in one thread.
        self.timers = []
        self.order = itertools.count()
        self.numbers = itertools.count()
        self.pending = 0
        self.leases = []  # [sandbox, fence, from, to]
        self.channel = self.connect()
        self.going = True

    def connect(self):
        options = [("grpc.use_local_subchannel_pool", 1),
                   ("grpc.initial_reconnect_backoff_ms", 50),
                   ("grpc.min_reconnect_backoff_ms", 5000),
                   ("grpc.max_reconnect_backoff_ms", 500)]
        target = self.target
        if target["kind"] == "unix":
            return grpc.insecure_channel("unix:" + target["address"], options)
        address = "%s:%d" % tuple(target["address"])
        if target["kind"] == "tcp":
            return grpc.insecure_channel(address, options)

        def read(name):
            with open(target[name], "rb") as handle:
                return handle.read()
        mutual = target["kind"] == "mtls"
        return grpc.secure_channel(address, grpc.ssl_channel_credentials(
            read("ca"), read("key") if mutual else None,
            read("cert") if mutual else None), options)

    def figures(self, phase):
        return self.phases.setdefault(phase, {
            "claims": 0, "failed": 0, "retries": 0, "ms": [], "fresh_ms": [],
            "probes": 0, "probes_failed": 0, "probe_ms": [], "why": {}})

    def failed(self, phase, why, kind="failed"):
        figures = self.figures(phase)
        figures[kind] += 1
        figures["why"][why] = figures["why"].get(why, 0) + 1

    def later(self, seconds, act):
        heapq.heappush(self.timers,
                       (time.monotonic() + seconds, next(self.order), act))

    def call(self, channel, name, request, answer, until, done):
        """Asks until it is answered; done(answer, or why there is none)."""
        metadata = None
        if self.target.get("bearer"):
            metadata = [("authorization", "Bearer " + self.target["bearer"])]
        phase = self.phase

        def attempt():
            left = until - time.monotonic()
            if left <= 0:
                done(None, "too late")
                return
            future = channel.unary_unary(
                "/warmpool.v1.Allocator/" + name,
                request_serializer=lambda m: m.SerializeToString(),
                response_deserializer=answer.FromString).future(
                    request, timeout=left, metadata=metadata,
                    wait_for_ready=True)
            future.add_done_callback(
                lambda f: self.inbox.put(lambda: ended(f)))

        def ended(future):
            error = future.exception()
            if error is None:
                done(future.result(), None)
                return
            details = dict(error.trailing_metadata() or ()).get(
                "grpc-status-details-bin", b"")
            if error.code() == grpc.StatusCode.UNAVAILABLE or (
                    error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED and
                    b"google.rpc.RetryInfo" in details):
                self.figures(phase)["retries"] += 1
                self.later(0.1, attempt)
            else:
                done(None, f"{name}: {error.code().name}: {error.details()}")
        attempt()

    def begin(self, phase):
        self.phase = phase
        self.claim(next(self.numbers), time.monotonic(), True)

    def claim(self, n, due, fresh):
        phase = self.phase
        channel = self.connect() if fresh else self.channel
        until = due + DEADLINE
        self.figures(phase)["claims"] += 1
        self.pending += 1

        def over():
            self.pending -= 1
            if fresh:
                channel.close()

        def granted(answer, why):
            if answer is None:
                self.failed(phase, why)
                over()
                return
            now = time.monotonic()
            self.figures(phase)["fresh_ms" if fresh else "ms"].append(
                (now - due) * 1000)
            if fresh:
                print("new", phase, flush=True)
            lease = [answer.lease.sandbox, answer.lease.fence, now,
                     time.monotonic()]
            self.leases.append(lease)
            self.call(channel, "Release",
                      pb.ReleaseRequest(token=answer.lease.token),
                      pb.ReleaseResponse, time.monotonic() + DEADLINE, released)

        def released(answer, why):
            if answer is None:
                self.failed(phase, why)
            over()
        self.call(channel, "Claim", pb.ClaimRequest(
            pool=pb.PoolRef(name="attack"), claim_id=f"h{os.getpid()}-{n}",
            ttl_ms=600000, wait_ms=DEADLINE * 1000), pb.ClaimResponse, until,
            granted)

    def prober(self):
        """In a thread of its own, one probe at a time."""
        due = time.monotonic()
        while self.going:
            due = max(due + PROBE_EVERY, time.monotonic() - 1)
            time.sleep(max(0, due - time.monotonic()))
            phase = self.phase
            start = time.monotonic()
            why = self.probe()
            took = (time.monotonic() - start) * 1000
            self.inbox.put(lambda p=phase, w=why, t=took: self.probed(p, w, t))

    def probe(self):
        address = self.target["http"]
        unix = isinstance(address, str)
        try:
            with socket.socket(socket.AF_UNIX if unix else
                               socket.AF_INET) as sock:
                sock.settimeout(DEADLINE)
                sock.connect(address if unix else tuple(address))
                if self.target.get("http_ca"):
                    context = ssl.create_default_context(
                        cafile=self.target["http_ca"])
                    context.check_hostname = False
                    sock = context.wrap_socket(sock)
                sock.sendall(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n"
                             b"Connection: close\r\n\r\n")
                with sock.makefile("rb") as answer:
                    line = answer.readline().decode(errors="replace").strip()
        except OSError as error:
            return f"probe: {error}"
        return None if line.startswith("HTTP/1.1 200") else f"probe: {line!r}"

    def probed(self, phase, why, took):
        figures = self.figures(phase)
        figures["probes"] += 1
        figures["probe_ms"].append(took)
        if why is not None:
            self.failed(phase, why, "probes_failed")
        else:
            print("probe", phase, flush=True)

    def commands(self):
        for line in sys.stdin:
            word, _, rest = line.strip().partition(" ")
            if word == "phase":
                self.inbox.put(lambda p=rest: self.begin(p))
            else:
                break
        self.inbox.put(lambda: setattr(self, "going", False))

    def held_twice(self):
        """Sandboxes that had two leases at one time, or one fence twice."""
        twice = set()
        by_sandbox = {}
        for sandbox, fence, begin, end in sorted(self.leases,
                                                 key=lambda x: x[2]):
            before = by_sandbox.get(sandbox)
            if before and (before[0] >= fence or before[1] > begin):
                twice.add(sandbox)
            by_sandbox[sandbox] = (fence, end)
        return sorted(twice)

    def run(self):
        threading.Thread(target=self.commands, daemon=True).start()
        if self.target.get("http"):
            threading.Thread(target=self.prober, daemon=True).start()
        due = time.monotonic()
        while self.going or self.pending:
            now = time.monotonic()
            while self.timers and self.timers[0][0] <= now:
                heapq.heappop(self.timers)[2]()
            while self.going and due <= now:
                n = next(self.numbers)
                self.claim(n, due, n % FRESH == FRESH - 1)
                due += 1 / self.rate
            soonest = min([due if self.going else now + 1] +
                          [t[0] for t in self.timers[:1]])
            try:
                self.inbox.get(timeout=max(
                    0, soonest - time.monotonic()))()
            except queue.Empty:
                pass
        for figures in self.phases.values():
            for name in ("ms", "fresh_ms", "probe_ms"):
                values = figures.pop(name)
                figures["n_" + name] = len(values)
                for share, key in ((0.5, "p50_"), (0.99, "p99_"), (1, "max_")):
                    figures[key + name] = quantile(values, share)
        print(json.dumps({"phases": self.phases,
                          "held_twice": self.held_twice()}))


def main():
    Client(json.loads(sys.argv[2]), float(sys.argv[3])).run()


if __name__ == "__main__":
    main()
