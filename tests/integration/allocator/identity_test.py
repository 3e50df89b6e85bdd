"""Signed identities of sandboxes: verified by openssl, with the keys that the
daemon publishes.

Run by ctest: identity_test.py WARMPOOLD GENERATED_DIR DEPLOY_DIR WARMPOOLCTL
[unittest arguments]. Needs a host that lets it make sandboxes; exits with 77
elsewhere.
"""

import base64
import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import unittest
import urllib.request

import grpc

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                "../../support/identity"))

from daemon_test import (PATIENCE, POOL, Daemon, end_all, eventually,
                         host_can, pb, tell_if_failed)
from verifier import Verifier, unpack

CTL = os.path.abspath(sys.argv[4])
AUDIENCE = "https://api.test"
ISSUER = "https://sandboxes.test"


class Case(unittest.TestCase):
    def claim(self, daemon, claim_id, lease_ms=0, **identity):
        return daemon.rpc(
            "Allocator/Claim",
            pb.ClaimRequest(pool=POOL, claim_id=claim_id, wait_ms=60000,
                            tenant="t/1", ttl_ms=lease_ms, binding=pb.Binding(
                                identity=pb.Identity(**identity))),
            pb.ClaimResponse)

    def renew(self, daemon, lease, ttl_ms):
        daemon.rpc("Allocator/Renew",
                   pb.RenewRequest(token=lease.token, ttl_ms=ttl_ms),
                   pb.RenewResponse)

    def sh(self, daemon, lease, script):
        status, body = daemon.get(
            f"/sandboxes/{lease.sandbox}/execute", "POST",
            json.dumps({"command": "sh -c '" + script + "'"}),
            {"Content-Type": "application/json"})
        self.assertEqual(status, 200, body)
        return json.loads(body)["stdout"]

    def verifier(self, daemon):
        status, keys = daemon.get("/.well-known/jwks.json")
        self.assertEqual(status, 200)
        return Verifier(keys, daemon.dir)

    def identity(self, daemon, lease, but=""):
        """(token, claims): what is in the sandbox, and is good; once it is
        another one than `but`."""
        token = self.sh(
            daemon, lease, f'while [ "$(cat $WARMPOOL_IDENTITY_FILE)" = "{but}" '
            "]; do sleep 0.2; done; cat $WARMPOOL_IDENTITY_FILE")
        claims = self.verifier(daemon).good(token)
        self.assertIsNotNone(claims, token)
        return token, claims


class Identity(Case):
    """One daemon for all."""

    @classmethod
    def setUpClass(cls):
        cls.place = tempfile.mkdtemp(prefix="wp-ident-")
        cls.addClassCleanup(shutil.rmtree, cls.place, ignore_errors=True)
        cls.daemon = Daemon(
            "--http-listen=127.0.0.1:0,unix:" +
            os.path.join(cls.place, "r", "warmpoold-http.sock"),
            "--identity-issuer=" + ISSUER, directory=cls.place, replicas=1)
        cls.addClassCleanup(cls.daemon.stop)

    def setUp(self):
        self.addCleanup(tell_if_failed, self, [self.daemon])
        self.daemon.wait_full(1)

    def test_for_whom(self):
        daemon = self.daemon
        answer = self.claim(daemon, "job/7", audience=AUDIENCE)
        lease = answer.lease
        self.assertEqual(answer.bound.identity, AUDIENCE)
        self.assertEqual(lease.served, pb.SERVED_WARM)
        token, claims = self.identity(daemon, lease)
        self.assertEqual(
            {name: claims[name] for name in ("iss", "sub", "aud", "warmpool")},
            {"iss": ISSUER, "aud": AUDIENCE,
             "sub": f"t%2F1/job%2F7/default/quickstart/{lease.sandbox}",
             "warmpool": {"tenant": "t/1", "claim": "job/7",
                          "namespace": "default", "pool": "quickstart",
                          "sandbox": lease.sandbox}})
        self.assertLess(claims["iat"], claims["exp"])
        self.assertLessEqual(claims["exp"] * 1000, lease.deadline_unix_ms)
        # Of one that says something else the signature is none.
        head, said, signature = token.split(".")
        other = base64.urlsafe_b64encode(
            unpack(said).replace(b"job/7", b"job/8")).decode().rstrip("=")
        self.assertNotEqual(other, said)
        self.assertIsNone(self.verifier(daemon).good(
            ".".join((head, other, signature))))
        self.assertEqual(
            self.sh(daemon, lease, "stat -c %a $WARMPOOL_IDENTITY_FILE; "
                    "ls $WARMPOOL_BOUND_DIR"), "400\nenv\nidentity\n")
        # Nobody else is told.
        self.assertNotIn(signature, daemon.messages())
        self.assertEqual(
            self.sh(daemon, self.claim(daemon, "c2", audience="x").lease,
                    "grep -c " + signature + " $WARMPOOL_IDENTITY_FILE"), "0\n")
        keys = os.path.join(daemon.state, "identity")
        self.assertEqual(stat.S_IMODE(os.stat(keys).st_mode), 0o700)
        for name in os.listdir(keys):
            mode = os.stat(os.path.join(keys, name)).st_mode
            self.assertEqual(stat.S_IMODE(mode), 0o600)

    def test_renewed_with_the_lease(self):
        daemon = self.daemon
        lease = self.claim(daemon, "c3", lease_ms=20000, audience=AUDIENCE).lease
        self.renew(daemon, lease, 600000)
        token, first = self.identity(daemon, lease)
        if first["exp"] * 1000 > lease.deadline_unix_ms:
            return  # So late that it was renewed before.
        _, second = self.identity(daemon, lease, but=token)
        self.assertGreater(second["exp"] * 1000, lease.deadline_unix_ms)
        self.assertLess(second["iat"], first["exp"])
        self.assertNotEqual(second["jti"], first["jti"])
        self.assertEqual(second["sub"], first["sub"])

    def test_anybody_may_have_the_keys(self):
        daemon = self.daemon
        port = re.search(r"protocol=http address=127.0.0.1:(\d+)",
                         daemon.messages())[1]
        base = f"http://127.0.0.1:{port}/.well-known/"
        with urllib.request.urlopen(base + "openid-configuration",
                                    timeout=PATIENCE) as reply:
            found = json.load(reply)
        self.assertEqual(found["issuer"], ISSUER)
        self.assertEqual(found["jwks_uri"],
                         ISSUER + "/.well-known/jwks.json")
        with urllib.request.urlopen(base + "jwks.json",
                                    timeout=PATIENCE) as reply:
            self.assertEqual(reply.read().decode(),
                             daemon.get("/.well-known/jwks.json")[1])
        done = subprocess.run(
            [CTL, "claim", "quickstart", "--id", "c4", "--wait", "60s",
             "--identity", AUDIENCE, "--address", "unix:" + daemon.grpc_path],
            capture_output=True, text=True, timeout=PATIENCE, check=False,
            env=dict(os.environ, XDG_STATE_HOME=daemon.dir))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("for " + AUDIENCE, done.stdout)

    def test_refusals(self):
        daemon = self.daemon
        for words, identity in (
                ("binding.identity.audience: 1 to 255 bytes", {"audience": ""}),
                ("binding.identity.audience: UTF-8", {"audience": "a\n"}),
                ("binding.identity.ttl_ms: 0, or 60000 to 86400000",
                 {"audience": "a", "ttl_ms": 59999})):
            with self.assertRaises(grpc.RpcError) as caught:
                self.claim(daemon, "c5", **identity)
            self.assertEqual(caught.exception.code(),
                             grpc.StatusCode.INVALID_ARGUMENT)
            self.assertIn(words, caught.exception.details())


class NextDaemon(Case):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="wp-ident-")
        self.daemons = []
        self.addCleanup(self.clean)

    def clean(self):
        end_all(self, self.daemons, self.dir)

    def start(self, **more):
        daemon = Daemon("--lease-store=sqlite", directory=self.dir, replicas=1,
                        **more)
        self.daemons.append(daemon)
        return daemon

    def set_clock(self, ahead_s):
        path = os.path.join(self.dir, "clock")
        with open(path + ".new", "w", encoding="ascii") as handle:
            handle.write(str(ahead_s))
        os.rename(path + ".new", path)
        return path

    @unittest.skipUnless("WP_CLOCK_THAT_IS_SET" in os.environ, "see ctest")
    def test_a_clock_that_is_set(self):
        """As when the machine has slept: what is there is over to others, or
        not good yet, long before the next one is due."""
        daemon = self.start(prefix=(
            "env", "ASAN_OPTIONS=verify_asan_link_order=0",
            "LD_PRELOAD=" + os.environ["WP_CLOCK_THAT_IS_SET"],
            "WP_SET_CLOCK=" + self.set_clock(0))).wait_full(1)
        lease = self.claim(daemon, "c", lease_ms=86400000,
                           audience=AUDIENCE).lease
        token, first = self.identity(daemon, lease)
        self.set_clock(7200)
        token, second = self.identity(daemon, lease, but=token)
        self.assertGreaterEqual(second["iat"], first["iat"] + 7200)
        self.set_clock(0)
        token, third = self.identity(daemon, lease, but=token)
        self.assertLess(third["iat"], first["iat"] + 3600)

    def test_renewed_by_it(self):
        daemon = self.start().wait_full(1)
        lease = self.claim(daemon, "c", lease_ms=600000, audience=AUDIENCE).lease
        token, first = self.identity(daemon, lease)
        daemon.stop(signal.SIGKILL)
        again = self.start()
        eventually(again.ready, "the sandboxes taken up")
        self.assertIsNotNone(self.verifier(again).good(token))
        _, second = self.identity(again, lease, but=token)
        self.assertEqual(second["sub"], first["sub"])


if __name__ == "__main__":
    signal.alarm(600)
    reason = host_can()
    if reason:
        print("SKIP:", reason)
        sys.exit(77)
    unittest.main(argv=[sys.argv[0]] + sys.argv[5:], verbosity=2)
