"""kill -9 of one of three daemons: what the others' clients notice.

  takeover_test.py WARMPOOLD GENERATED_DIR

For the keeper, which makes and destroys the sandboxes of the machine, and for
one that is not: how long until every sandbox that was ready can be claimed
elsewhere, how long until the pool is full again, and whether a client of the
others saw an error. Prints figures; bounds are those of slow machines.
"""

import argparse
import os
import sys
import threading
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import chaos  # noqa: E402
from chaos import TARGET, eventually  # noqa: E402

BOUND = 60  # Seconds; far from what it does take.


class Claimer:
    """Claims and releases at one daemon, one claim after the other."""

    def __init__(self, run, daemon, name):
        self.run, self.daemon, self.name = run, daemon, name
        self.n = 0
        self.errors = []
        self.answers = []  # When, and how long it took.
        self.over = False
        self.channel = run.grpc.insecure_channel(
            "unix:" + daemon.socket,
            options=[("grpc.use_local_subchannel_pool", 1)])
        self.thread = threading.Thread(target=self.work)

    def rpc(self, method, request, reply):
        return self.channel.unary_unary(
            "/warmpool.v1.Allocator/" + method,
            request_serializer=lambda m: m.SerializeToString(),
            response_deserializer=reply.FromString)(request, timeout=90)

    def claim(self, wait_ms):
        """The lease, or None when nothing is ready."""
        pb, grpc = self.run.pb, self.run.grpc
        self.n += 1
        try:
            return self.rpc("Claim", pb.ClaimRequest(
                pool=pb.PoolRef(name="chaos"), ttl_ms=60000, wait_ms=wait_ms,
                claim_id=f"{self.name}-{self.n}"), pb.ClaimResponse).lease
        except grpc.RpcError as error:
            if error.code() != grpc.StatusCode.RESOURCE_EXHAUSTED:
                self.errors.append(f"{error.code()}: {error.details()}")
            return None

    def release(self, lease):
        pb = self.run.pb
        return self.rpc("Release", pb.ReleaseRequest(token=lease.token),
                        pb.ReleaseResponse)

    def work(self):
        while not self.over:
            start = time.monotonic()
            lease = self.claim(20000)
            end = time.monotonic()
            if lease is not None:
                self.answers.append((end, end - start))
                try:
                    if not self.release(lease).was_held:
                        self.errors.append("a release found no lease")
                except self.run.grpc.RpcError as error:
                    self.errors.append(f"release: {error.code()}")
            time.sleep(0.005)


class TakeoverTest(unittest.TestCase):
    def setUp(self):
        self.run_ = chaos.Run(argparse.Namespace(
            warmpoold=ARGS[0], generated=ARGS[1], store="redis", replicas=3,
            seed=1, hostile=0, keep=False))
        self.addCleanup(self.run_.clean)
        self.run_.redis.start()
        for daemon in self.run_.daemons:
            daemon.start()
        self.wait_full()

    def wait_full(self):
        eventually(lambda: all(d.serves() for d in self.run_.daemons),
                   "all serve")
        eventually(self.run_.quiet, "quiet, and all full")

    def keeper(self):
        """The daemon whose process has the lock of the state directory."""
        inode = os.stat(os.path.join(self.run_.state, "lock")).st_ino
        with open("/proc/locks", encoding="ascii") as handle:
            for line in handle:
                fields = line.split()
                if fields[1] == "FLOCK" and int(
                        fields[5].rsplit(":", 1)[1]) == inode:
                    for daemon in self.run_.daemons:
                        if daemon.process.child.pid == int(fields[4]):
                            return daemon
        return None

    def take_over(self, victim, kind):
        run = self.run_
        others = [d for d in run.daemons if d is not victim]
        steady = Claimer(run, others[0], kind + "-steady")
        flood = Claimer(run, others[1], kind + "-flood")
        steady.thread.start()
        time.sleep(0.5)
        victim.process.stop()  # So that what is ready stays so.
        old = set(os.listdir(os.path.join(run.state, "synthetic")))
        leases = []
        victim.process.kill()
        killed = time.monotonic()
        while old and time.monotonic() < killed + BOUND:
            lease = flood.claim(0)
            # Or the steady one had it, and it is gone.
            old &= set(os.listdir(os.path.join(run.state, "synthetic")))
            if lease is not None:
                leases.append(lease)
                old.discard(os.path.basename(lease.endpoint))
        claimable = time.monotonic() - killed
        # But for what the steady one is at.
        eventually(lambda: all(pool is not None and pool.ready >= TARGET - 10
                               for pool in [d.pool() for d in others]),
                   "full again")
        full = time.monotonic() - killed
        steady.over = True
        steady.thread.join()
        for lease in leases:
            self.assertTrue(flood.release(lease).was_held)
        worst = max((took for when, took in steady.answers if when > killed),
                    default=0)
        print(f"{kind} killed: its sandboxes claimable after "
              f"{claimable:.2f} s, full after {full:.2f} s; at the others "
              f"{len(steady.answers)} claims, slowest {worst:.2f} s, "
              f"errors {len(steady.errors) + len(flood.errors)}",
              file=sys.stderr)
        self.assertEqual(old, set())
        self.assertEqual(steady.errors + flood.errors, [])
        self.assertLess(full, BOUND)
        victim.start()
        self.wait_full()

    def test_take_over(self):
        for _ in range(2):
            keeper = eventually(self.keeper, "there is a keeper")
            other = next(d for d in self.run_.daemons if d is not keeper)
            self.take_over(other, "a follower")
            keeper = eventually(self.keeper, "there is a keeper")
            self.take_over(keeper, "the keeper")


if __name__ == "__main__":
    ARGS = [os.path.abspath(a) for a in sys.argv[1:3]]
    unittest.main(argv=sys.argv[:1])
