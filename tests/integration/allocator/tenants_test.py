"""Two tenants of one daemon: quotas, what is told of them, and SIGHUP.

Run by ctest: tenants_test.py WARMPOOLD WARMPOOLCTL GENERATED_DIR DEPLOY_DIR
[unittest arguments]. Sandboxes are files.
"""

import json
import os
import re
import shutil
import signal
import socket
import sys
import tempfile
import time
import unittest

import grpc

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from access_token_test import PATIENCE, Daemon  # noqa: E402


class Tenants(unittest.TestCase):
    def setUp(self):
        place = tempfile.mkdtemp(prefix="wp-tenants-")
        self.addCleanup(shutil.rmtree, place, ignore_errors=True)
        self.conf = os.path.join(place, "warmpoold.conf")
        self.settings(["a leases=2"])
        self.daemon = Daemon("--config=" + self.conf)
        self.addCleanup(shutil.rmtree, self.daemon.dir, ignore_errors=True)
        self.addCleanup(self.daemon.end)
        self.daemon.started()
        self.token = "Bearer " + self.daemon.token()

    def settings(self, quotas):
        with open(self.conf, "w", encoding="ascii") as handle:
            handle.write(f"tenant_quotas: {json.dumps(quotas)}\n")

    def claim(self, tenant, number):
        return self.daemon.claim(self.token, tenant=tenant,
                                 claim_id=f"c{number}")

    def refused(self, tenant, number):
        with self.assertRaises(grpc.RpcError) as caught:
            self.claim(tenant, number)
        self.assertEqual(caught.exception.code(),
                         grpc.StatusCode.RESOURCE_EXHAUSTED)
        return caught.exception.details()

    def tenants(self):
        done = self.daemon.ctl("tenants", "-o", "json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return {t["tenant"]: t for t in json.loads(done.stdout)["tenants"]}

    def metrics(self):
        path = re.search(r"protocol=http address=unix:(\S+)",
                         self.daemon.log())[1]
        with socket.socket(socket.AF_UNIX) as peer:
            peer.settimeout(PATIENCE)
            peer.connect(path)
            peer.sendall(b"GET /metrics HTTP/1.1\r\nHost: d\r\n"
                         b"Connection: close\r\n\r\n")
            text = b""
            while part := peer.recv(65536):
                text += part
        return text.decode()

    def test_a_quota(self):
        first = self.claim("a", 1)
        self.claim("a", 2)
        said = self.refused("a", 3)
        self.assertIn("tenant: 'a' may have 2 claims held or waiting", said)
        self.assertIn("release some", said)
        # The same claim again is none more; the other tenant has no bound.
        self.assertEqual(self.claim("a", 1).sandbox, first.sandbox)
        for number in range(3):
            self.claim("b", number)

        seen = self.tenants()
        self.assertEqual((seen["a"]["leases"], seen["a"]["quota"]["leases"],
                          seen["a"]["refused_total"]), (2, 2, 1))
        self.assertEqual((seen["b"]["leases"], seen["b"]["quota"]["leases"]),
                         (3, None))
        text = self.metrics()
        for line in ('warmpool_tenant_leases{namespace="default",'
                     'pool="quickstart",tenant="b"} 3',
                     'warmpool_tenant_quota_refused_total{namespace="default",'
                     'pool="quickstart",tenant="a"} 1'):
            self.assertIn(line, text)

        done = self.daemon.ctl("tenants", "quickstart", "--tenant", "a")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("default/quickstart", done.stdout)
        self.assertNotIn("\nb ", done.stdout)

    def becomes(self, quotas, leases):
        self.settings(quotas)
        self.daemon.process.send_signal(signal.SIGHUP)
        end = time.monotonic() + PATIENCE
        while self.tenants()["a"]["quota"]["leases"] != leases:
            self.assertLess(time.monotonic(), end, self.daemon.log())
            time.sleep(0.05)

    def test_a_quota_of_one_pool(self):
        self.claim("a", 1)
        self.becomes(["a leases=9", "a@default/quickstart leases=1",
                      "b@default/other leases=1"], 1)
        self.refused("a", 2)
        for number in range(2):
            self.claim("b", number)

    def test_another_quota_after_sighup(self):
        self.claim("a", 1)
        self.claim("a", 2)
        self.refused("a", 3)
        self.becomes(["a leases=3"], 3)
        self.claim("a", 3)
        self.refused("a", 4)
        # A mistake changes nothing.
        self.settings(["a leases=many"])
        self.daemon.process.send_signal(signal.SIGHUP)
        end = time.monotonic() + PATIENCE
        while "setting 'tenant_quotas': expected TENANT" not in \
                self.daemon.log():
            self.assertLess(time.monotonic(), end, self.daemon.log())
            time.sleep(0.05)
        self.assertEqual(self.tenants()["a"]["quota"]["leases"], 3)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[5:])
