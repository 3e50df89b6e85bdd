"""kill -9 with ten thousand leases held, and a start that takes them up.

Run by ctest: restart_test.py WARMPOOLD GENERATED_DIR [store flags...]. Prints
how long the daemon took from its start to its first answered claim.
"""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

import grpc

DAEMON, GENERATED = (os.path.abspath(a) for a in sys.argv[1:3])
STORE = sys.argv[3:] or ["--lease-store=sqlite"]
sys.path.insert(0, GENERATED)

from warmpool.v1 import allocator_pb2 as pb  # noqa: E402

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from chaos import MANIFEST, eventually  # noqa: E402

LEASES = 10000
BATCH = 200
READY = 300
PATIENCE = 180
# What serving again may take; far from what it does take, for slow machines
# and sanitizers.
START_MAX = 60
POOL = pb.PoolRef(name="chaos")


class RestartTest(unittest.TestCase):
    def setUp(self):
        base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        self.dir = tempfile.mkdtemp(prefix="wpr-", dir=base)
        self.addCleanup(shutil.rmtree, self.dir)
        self.process = None
        self.addCleanup(self.kill)
        with open(os.path.join(self.dir, "m.yaml"), "w",
                  encoding="utf-8") as handle:
            handle.write(MANIFEST % READY)
        self.log = open(os.path.join(self.dir, "log"), "ab")
        self.addCleanup(self.log.close)

    def start(self):
        self.process = subprocess.Popen(
            [DAEMON, "--manifests=" + os.path.join(self.dir, "m.yaml"),
             "--synthetic", "--runtime-dir=" + self.dir,
             "--state-dir=" + os.path.join(self.dir, "s"),
             "--slots-max=16384", "--http-listen=none", *STORE],
            stdout=self.log, stderr=self.log)
        path = os.path.join(self.dir, "warmpoold.sock")
        eventually(lambda: self.listens(path), "listening")
        self.channel = grpc.insecure_channel(
            "unix:" + path, options=[("grpc.use_local_subchannel_pool", 1)])

    def listens(self, path):
        """gRPC's own tries to connect are seconds apart."""
        with socket.socket(socket.AF_UNIX) as sock:
            try:
                sock.connect(path)
                return True
            except OSError:
                self.assertIsNone(self.process.poll(), "it ended by itself")
                return False

    def kill(self):
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
            self.process = None

    def rpc(self, method, request, reply, timeout=PATIENCE):
        return self.channel.unary_unary(
            "/warmpool.v1." + method,
            request_serializer=lambda m: m.SerializeToString(),
            response_deserializer=reply.FromString)(request, timeout=timeout)

    def pool(self):
        return self.rpc("PoolAdmin/GetPool", pb.GetPoolRequest(pool=POOL),
                        pb.Pool)

    def claim_all(self):
        """The leases of all ids, by id; the same ids each time."""
        leases = {}
        for first in range(0, LEASES, BATCH):
            ids = [f"held-{n}" for n in range(first, first + BATCH)]
            answer = self.rpc("Allocator/ClaimBatch", pb.ClaimBatchRequest(
                pool=POOL, claim_ids=ids, ttl_ms=3600000, wait_ms=30000),
                pb.ClaimBatchResponse)
            for claim_id, item in zip(ids, answer.items):
                self.assertEqual(item.code, 0, item.message)
                leases[claim_id] = item.lease
        return leases

    def claim_first(self):
        """The first lease that is granted: until it is known which sandboxes
        live, the daemon says so."""
        while True:
            try:
                return self.rpc(
                    "Allocator/Claim", pb.ClaimRequest(
                        pool=POOL, claim_id="after", ttl_ms=60000),
                    pb.ClaimResponse).lease
            except grpc.RpcError as error:
                if error.code() != grpc.StatusCode.UNAVAILABLE:
                    raise
                time.sleep(0.001)

    def test_restart_with_ten_thousand_leases(self):
        self.start()
        before = self.claim_all()
        self.assertEqual(len({l.sandbox for l in before.values()}), LEASES)
        eventually(lambda: self.pool().ready == READY, "full")
        self.kill()
        start = time.monotonic()
        self.start()
        lease = self.claim_first()
        took = time.monotonic() - start
        print(f"serving {took * 1000:.0f} ms after the start, with {LEASES} "
              f"leases held; {STORE[0]}", file=sys.stderr)
        self.assertLess(took, START_MAX)
        self.assertNotIn(lease.endpoint,
                         {l.endpoint for l in before.values()})
        after = self.claim_all()
        for claim_id, lease in before.items():
            again = after[claim_id]
            self.assertEqual(
                (again.sandbox, again.endpoint, again.fence),
                (lease.sandbox, lease.endpoint, lease.fence))
            self.assertTrue(os.path.exists(lease.endpoint[len("unix:"):]))
        for lease in before.values():
            renewed = self.rpc("Allocator/Renew", pb.RenewRequest(
                token=lease.token, ttl_ms=3600000), pb.RenewResponse)
            self.assertEqual(renewed.fence, lease.fence)
            self.assertTrue(self.rpc(
                "Allocator/Release", pb.ReleaseRequest(token=renewed.token),
                pb.ReleaseResponse).was_held)
        eventually(lambda: self.pool().leased == 1, "only the new lease")
        eventually(lambda: len(os.listdir(
            os.path.join(self.dir, "s", "synthetic"))) == READY + 1,
            "no sandbox left behind")
        self.log.flush()
        with open(os.path.join(self.dir, "log"), encoding="utf-8") as handle:
            self.assertIsNone(re.search(r" ERROR ", handle.read()))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
