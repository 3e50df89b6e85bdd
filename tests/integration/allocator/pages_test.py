"""The pages of metrics_listen: whoever reaches them reads, and can do nothing.

Run by ctest: pages_test.py WARMPOOLD WARMPOOLCTL GENERATED_DIR DEPLOY_DIR
[unittest arguments]. Sandboxes are files.
"""

import http.client
import json
import os
import re
import shutil
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from access_token_test import PATIENCE, Daemon  # noqa: E402


class Pages(unittest.TestCase):
    def begin(self, *flags):
        self.daemon = Daemon("--metrics-listen=127.0.0.1:0", *flags)
        self.addCleanup(shutil.rmtree, self.daemon.dir, ignore_errors=True)
        self.addCleanup(self.daemon.end)
        self.daemon.started()

    def ask(self, path, method="GET", **headers):
        """(status, text) without any credential."""
        port = re.search(r"protocol=metrics address=127\.0\.0\.1:(\d+)",
                         self.daemon.log())[1]
        peer = http.client.HTTPConnection("127.0.0.1", int(port), PATIENCE)
        peer.request(method, path, headers=headers)
        answer = peer.getresponse()
        text = answer.read().decode()
        peer.close()
        return answer.status, text

    def test_what_is_read(self):
        self.begin()
        lease = self.daemon.claim("Bearer " + self.daemon.token(),
                                  claim_id="c")
        status, text = self.ask("/metrics")
        self.assertEqual(status, 200)
        self.assertIn("\nwarmpool_", text)
        # Samples of a machine's load do not say who holds what.
        self.assertNotIn(lease.sandbox, text)
        self.assertEqual(self.ask("/healthz")[0], 200)
        self.assertEqual(self.ask("/readyz")[0], 200)
        # No way leads to a sandbox, not with the daemon's token either.
        way = f"/sandboxes/{lease.sandbox}/healthz"
        known = {"X-Warmpool-Token": lease.token.hex(),
                 "Authorization": "Bearer " + self.daemon.token()}
        self.assertEqual(self.ask(way)[0], 404)
        self.assertEqual(self.ask(way, **known)[0], 404)
        self.assertEqual(self.ask("/", "POST")[0], 404)

    def test_keys_of_identities(self):
        self.begin()
        status, text = self.ask("/.well-known/openid-configuration")
        self.assertEqual((status, text), (
            404, "the setting identity_issuer is no https:// URL\n"))
        status, text = self.ask("/.well-known/jwks.json")
        self.assertEqual(status, 200)
        self.assertIn("keys", json.loads(text))

    def test_an_issuer_that_is_a_url(self):
        self.begin("--identity-issuer=https://ids.example/wp")
        status, text = self.ask("/.well-known/openid-configuration")
        self.assertEqual(status, 200)
        self.assertEqual(json.loads(text)["issuer"], "https://ids.example/wp")
        self.assertTrue(json.loads(text)["jwks_uri"].startswith(
            "https://ids.example/wp/"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[5:])
