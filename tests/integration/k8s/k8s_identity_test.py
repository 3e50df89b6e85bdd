"""Signed identities of sandboxes in a cluster: against a fake API server, with the
real server at the addresses of its Pods; verified by openssl.

Run by ctest: k8s_identity_test.py WARMPOOLD FAKE_API GENERATED_DIR [unittest
arguments].
"""

import datetime
import json
import os
import signal
import sys
import tempfile
import threading
import unittest
from http.server import BaseHTTPRequestHandler, HTTPServer

import grpc

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                "../../support/identity"))

import k8s_bind_test
import k8s_rig
from fake_api_rig import PATIENCE, eventually
from k8s_bind_test import World
from k8s_judge import assigned
from k8s_rig import NS
from verifier import Verifier
from warmpool.v1 import allocator_pb2 as pb

AUDIENCE = "https://api.test"
SECRET = "keys"
OWN_NS = "default"
SHOW = 'cat "$WARMPOOL_IDENTITY_FILE"'


class Signed(World):
    def setUp(self):
        super().setUp()
        self.verifying = tempfile.TemporaryDirectory()
        self.addCleanup(self.verifying.cleanup)

    def begin(self, *flags, secret=True, **more):
        if secret:
            self.api.create("secrets", OWN_NS, SECRET)
        daemon = super().begin("--identity-issuer=https://sandboxes.test",
                               "--identity-secret=" + SECRET, *flags, **more)
        if secret:
            eventually(lambda: self.keys(daemon), "a key")
        return daemon

    def keys(self, daemon):
        status, text = daemon.get("/.well-known/jwks.json")
        self.assertEqual(status, 200)
        return [one["kid"] for one in json.loads(text)["keys"]]

    def identity(self, daemon, name, but=""):
        """What its token says, which is another one than `but`: by that
        daemon's keys."""
        token = eventually(lambda: self.other(name, but), "an identity")
        claims = Verifier(daemon.get("/.well-known/jwks.json")[1],
                          self.verifying.name).good(token)
        self.assertIsNotNone(claims, token)
        self.assertEqual(claims["aud"], AUDIENCE)
        self.assertEqual(claims["warmpool"]["sandbox"], name)
        return token, claims

    def other(self, name, but):
        token = self.sh(name, SHOW)
        return token if token != but else None

    def nobody_tells(self, daemon, token):
        for kind in ("sandboxclaims", "sandboxes", "pods", "events"):
            self.assertNotIn(token, json.dumps(self.api.all(kind)))
        self.assertNotIn(token, daemon.messages())


class Calls(Signed):
    """Over gRPC."""

    def identified(self, daemon, claim_id, lease_ms=600000, **identity):
        return self.call(daemon, "Claim", pb.ClaimRequest(
            pool=pb.PoolRef(namespace=NS, name="pool"), claim_id=claim_id,
            wait_ms=PATIENCE * 1000, ttl_ms=lease_ms, tenant="t/1",
            binding=pb.Binding(identity=pb.Identity(
                audience=AUDIENCE, **identity))), pb.ClaimResponse)

    def test_it_is_there(self):
        daemon = self.begin()
        self.serve_all()
        position = self.log_position()
        lease = self.identified(daemon, "g", lease_ms=3600000).lease
        token, claims = self.identity(daemon, lease.sandbox)
        self.assertEqual(claims["iss"], "https://sandboxes.test")
        self.assertEqual(claims["sub"],
                         f"t%2F1/g/{NS}/pool/{lease.sandbox}")
        # One write of the cluster, as without it.
        self.assertEqual(
            [one["verb"] for one in self.writes(position)
             if (one["kind"], one["name"], one["subresource"]) ==
             ("sandboxes", lease.sandbox, "")], ["PATCH"])
        self.nobody_tells(daemon, token)
        # Asked again, there is a new one.
        self.identified(daemon, "g", lease_ms=3600000)
        self.identity(daemon, lease.sandbox, but=token)
        self.stop_all()
        self.judge(leases=1)

    def test_shorter_than_the_lease(self):
        daemon = self.begin()
        self.serve_all()
        lease = self.identified(daemon, "g", lease_ms=3600000).lease
        _, long = self.identity(daemon, lease.sandbox)
        lease = self.identified(daemon, "h", lease_ms=3600000,
                                ttl_ms=60000).lease
        _, short = self.identity(daemon, lease.sandbox)
        self.assertGreater(long["exp"] - long["iat"], 3000)
        self.assertLessEqual(short["exp"] - short["iat"], 60)

    def test_renewed_with_the_lease(self):
        """It is not good for longer than the lease; and so it follows it."""
        daemon = self.begin()
        self.serve_all()
        lease = self.identified(daemon, "g", lease_ms=10000).lease
        token, claims = self.identity(daemon, lease.sandbox)
        self.assertLessEqual(claims["exp"] - claims["iat"], 10)
        self.call(daemon, "Renew", pb.RenewRequest(
            token=lease.token, ttl_ms=600000), pb.RenewResponse)
        _, after = self.identity(daemon, lease.sandbox, but=token)
        self.assertGreater(after["exp"], claims["exp"] + 500)
        self.assertEqual(after["sub"], claims["sub"])

    def test_a_sandbox_that_hangs(self):
        """Its server stands still: people hear of it, and the next identity
        comes once it goes on."""
        daemon = self.begin(replicas=1)
        name, = self.serve_all()
        lease = self.identified(daemon, "g", lease_ms=30000).lease
        token, _ = self.identity(daemon, name)
        server = self.servers[name]
        server.send_signal(signal.SIGSTOP)
        try:
            self.call(daemon, "Renew", pb.RenewRequest(
                token=lease.token, ttl_ms=600000), pb.RenewResponse)
            eventually(lambda: "an identity was not renewed" in
                       daemon.messages(), "the log to say so")
            eventually(lambda: "warmpool_cluster_identities_failed_total 1\n"
                       in daemon.get("/metrics")[1], "it to be counted")
        finally:
            server.send_signal(signal.SIGCONT)
        self.identity(daemon, name, but=token)
        self.assertNotIn(token, daemon.messages())

    def next_leader(self, *flags):
        daemon = self.begin(*flags)
        self.serve_all()
        lease = self.identified(daemon, "g").lease
        token, claims = self.identity(daemon, lease.sandbox)
        keys = self.keys(daemon)
        daemon.kill()
        daemon.start()
        eventually(lambda: self.leads(daemon), "the daemon to lead again")
        again, after = self.identity(daemon, lease.sandbox, but=token)
        self.assertEqual(after["sub"], claims["sub"])
        # The key is the same: who has the set need not ask anew.
        self.assertEqual(self.keys(daemon), keys)
        self.nobody_tells(daemon, again)

    def test_the_next_leader_goes_on(self):
        self.next_leader()

    def test_the_next_leader_goes_on_with_leases_on_disk(self):
        self.next_leader("--lease-store=sqlite")

    def test_an_annotation_that_somebody_changed(self):
        """Who may change Sandboxes does not choose whom another's are for."""
        daemon = self.begin()
        self.serve_all()
        lease = self.identified(daemon, "g").lease
        other = self.identified(daemon, "h").lease
        token, _ = self.identity(daemon, lease.sandbox)
        others, _ = self.identity(daemon, other.sandbox)
        daemon.kill()
        note = json.loads(self.api.get("sandboxes", NS, lease.sandbox)["metadata"][
            "annotations"]["warmpool.dev/lease"])
        self.assertEqual(note["audience"], AUDIENCE)
        note["audience"] = "https://bank.test"
        self.api.patch("sandboxes", NS, lease.sandbox, {"metadata": {"annotations": {
            "warmpool.dev/lease": json.dumps(note)}}})
        daemon.start()
        eventually(lambda: self.leads(daemon), "the daemon to lead again")
        # One that is as it was is renewed meanwhile.
        self.identity(daemon, other.sandbox, but=others)
        self.assertEqual(self.sh(lease.sandbox, SHOW), token)

    def test_replicas_publish_the_same_keys(self):
        daemon = self.begin()
        second = self.daemon(f"--sandbox-port={self.port}",
                             "--token-key-file=" + self.key,
                             "--identity-secret=" + SECRET)
        eventually(lambda: second.serves() and self.keys(second), "its keys")
        self.assertEqual(self.keys(daemon), self.keys(second))
        self.assertEqual(len(self.keys(daemon)), 1)

    def test_what_is_no_key(self):
        self.api.create("secrets", OWN_NS, SECRET, data={
            "000000000001-00000000.pem": "bm9uZQ==", "other": "eA==",
            "000000000002-00000000.pem": "%"})
        daemon = self.begin(secret=False)
        eventually(lambda: self.keys(daemon), "a key")
        self.serve_all()
        lease = self.identified(daemon, "g").lease
        self.identity(daemon, lease.sandbox)

    def test_there_is_no_secret(self):
        daemon = self.begin(secret=False)
        self.serve_all()
        code, words = self.refused(daemon, "g", identity=pb.Identity(
            audience=AUDIENCE))
        self.assertEqual((code, words), (
            grpc.StatusCode.UNAVAILABLE,
            "binding: identity: there is no key that signs yet; try again"))
        eventually(lambda: "no identities: their keys cannot be kept" in
                   daemon.messages(), "the log to say so")

    def test_without_the_setting(self):
        daemon = World.begin(self)
        self.assertEqual(
            self.refused(daemon, "g",
                         identity=pb.Identity(audience=AUDIENCE)),
            (grpc.StatusCode.FAILED_PRECONDITION,
             "binding.identity: the daemon has no identity_secret"))
        self.assertEqual(daemon.get("/.well-known/jwks.json")[0], 404)

    def test_an_older_server(self):
        """It takes what is bound, and knows no identity."""
        daemon = self.begin(replicas=1)
        name = self.pool_sandboxes()[0]["metadata"]["name"]

        class Older(BaseHTTPRequestHandler):
            def do_POST(self):
                self.rfile.read(int(self.headers["Content-Length"]))
                self.send_response(200)
                self.send_header("X-Warmpool-Binding",
                                 self.headers["X-Warmpool-Binding"])
                self.end_headers()

            def log_message(self, *_):
                pass

        server = HTTPServer((self.address(name), self.port), Older)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        self.addCleanup(lambda: (server.shutdown(), thread.join(),
                                 server.server_close()))
        self.assertEqual(
            self.refused(daemon, "g",
                         identity=pb.Identity(audience=AUDIENCE)),
            (grpc.StatusCode.FAILED_PRECONDITION,
             "binding: the sandbox's server takes no identity"))
        eventually(lambda: not self.api.get("sandboxes", NS, name),
                   "the sandbox to go")


class Objects(Signed):
    """Of SandboxClaims."""
    bring = k8s_bind_test.Annotations.bring

    def ends(self, seconds):
        return (datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(
            seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")

    def identified(self, **more):
        self.bring(identity={"audience": AUDIENCE, **more})
        self.wait_ready("c")
        return assigned(self.api.get("sandboxclaims", NS, "c"))

    def test_warm_all_the_same(self):
        daemon = self.begin()
        names = self.serve_all()
        position = self.log_position()
        name = self.identified(ttl="1m")
        self.assertIn(name, names)
        token, claims = self.identity(daemon, name)
        self.assertEqual(claims["sub"],
                         f"system:sandboxclaims/c/{NS}/pool/{name}")
        self.assertLessEqual(claims["exp"] - claims["iat"], 60)
        self.check_writes(position, name)
        self.nobody_tells(daemon, token)
        self.stop_all()
        self.judge()

    def test_renewed_with_the_claim(self):
        daemon = self.begin()
        self.serve_all()
        self.api.create(
            "sandboxclaims", NS, "c", metadata={"annotations": {
                "claim.warmpool.io/identity": json.dumps(
                    {"audience": AUDIENCE})}},
            spec={"warmPoolRef": {"name": "pool"},
                  "lifecycle": {"shutdownTime": self.ends(20)}})
        self.wait_ready("c")
        name = assigned(self.api.get("sandboxclaims", NS, "c"))
        token, claims = self.identity(daemon, name)
        self.assertLessEqual(claims["exp"] - claims["iat"], 20)
        self.api.patch("sandboxclaims", NS, "c", {"spec": {"lifecycle": {
            "shutdownTime": self.ends(3000)}}})
        _, after = self.identity(daemon, name, but=token)
        self.assertGreater(after["exp"], claims["exp"] + 2000)

    def test_names_of_any_length(self):
        """Up to what a token can say; nobody else's sandbox is touched."""
        daemon = self.begin()
        self.serve_all()
        for name in ("c" * 128, "c" * 129):
            self.bring(name, identity={"audience": AUDIENCE})
        self.becomes("BindingFailed", "binding: identity: the name of the "
                     "claim, its pool or its Sandbox is too long for one",
                     "c" * 129)
        self.wait_ready("c" * 128)
        _, claims = self.identity(
            daemon, assigned(self.api.get("sandboxclaims", NS, "c" * 128)))
        self.assertEqual(claims["warmpool"]["claim"], "c" * 128)

    def test_there_is_no_secret(self):
        self.begin(secret=False)
        self.serve_all()
        self.bring(identity={"audience": AUDIENCE})
        self.becomes("BindingFailed", "binding: identity: there is no key that "
                     "signs yet; try again", "c")

    def test_the_secret_comes_later(self):
        """The claim that waits for a key goes on."""
        daemon = self.begin(secret=False)
        self.serve_all()
        self.bring(identity={"audience": AUDIENCE})
        self.becomes("BindingFailed", "there is no key that signs yet", "c")
        self.api.create("secrets", OWN_NS, SECRET)
        self.wait_ready("c")
        self.identity(daemon, assigned(self.api.get("sandboxclaims", NS, "c")))

    def test_the_next_leader_goes_on(self):
        daemon = self.begin()
        self.serve_all()
        name = self.identified()
        token, claims = self.identity(daemon, name)
        daemon.kill()
        daemon.start()
        _, after = self.identity(daemon, name, but=token)
        self.assertEqual(after["sub"], claims["sub"])

    def test_a_sandbox_of_its_own(self):
        """The claim starts cold; it has no pool then."""
        daemon = self.begin(bind_env="false")
        self.bring(env=[{"name": "A", "value": "1"}],
                   identity={"audience": AUDIENCE})
        eventually(lambda: self.api.get("sandboxes", NS, "c"),
                   "a sandbox of its own")
        self.serve("c")
        self.wait_ready("c")
        _, claims = self.identity(daemon, "c")
        self.assertEqual(claims["warmpool"]["claim"], "c")

    def test_what_is_refused(self):
        self.begin()
        for i, (value, words) in enumerate((
                ("[]", "expected a JSON object"),
                ({}, "expected audience, a text of 1 to 255 bytes"),
                ({"audience": ""}, "expected audience"),
                ({"audience": "a" * 256}, "expected audience"),
                ({"audience": "a\nb"}, "expected audience"),
                ({"audience": "a", "time": "1m"}, "expected audience"),
                ({"audience": "a", "ttl": "59s"},
                 "ttl: expected a time from 1m to 24h"),
                ({"audience": "a", "ttl": 60}, "ttl: expected a time"))):
            self.bring(f"c{i}", identity=value)
            self.becomes("BindingFailed", words, f"c{i}")

    def test_without_the_setting(self):
        World.begin(self)
        self.bring(identity={"audience": AUDIENCE})
        self.becomes("BindingFailed", "annotation claim.warmpool.io/identity: "
                     "the daemon has no identity_secret")


if __name__ == "__main__":
    k8s_rig.PROGRAMS["warmpoold"] = os.path.abspath(sys.argv.pop(1))
    k8s_rig.PROGRAMS["fake_api"] = os.path.abspath(sys.argv.pop(1))
    sys.argv.pop(1)
    unittest.main()
