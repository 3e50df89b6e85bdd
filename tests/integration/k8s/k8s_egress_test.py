"""What sandboxes in a cluster reach through the egress proxy of their namespace:
against a fake API server, with the real server at the addresses of its Pods, and
the real proxy.

Run by ctest: k8s_egress_test.py WARMPOOLD FAKE_API GENERATED_DIR [unittest
arguments].
"""

import json
import os
import shutil
import subprocess
import sys
import unittest

import grpc

for part in ("../../support/egress", "../runtime"):
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                    part))

import k8s_bind_test
import k8s_rig
import passes
from egress_rig import Origin, Proxy
from fake_api_rig import PATIENCE, eventually
from k8s_bind_test import World
from k8s_judge import assigned
from k8s_rig import NS
from warmpool.v1 import allocator_pb2 as pb

OTHER = "127.0.0.1:1"


class Egress(World):
    def setUp(self):
        super().setUp()
        self.origin = Origin()
        self.addCleanup(self.origin.stop)
        self.here = "127.0.0.1:%d" % self.origin.port
        self.key_path = self.print_key()
        self.proxy_port = self.hold_port()
        self.proxy = self.start_proxy()

    def start_proxy(self):
        proxy = Proxy(f"{self.here} {OTHER}", "--listen",
                      f"0.0.0.0:{self.proxy_port}", "--passes", self.key_path)
        self.addCleanup(proxy.stop)
        return proxy

    def print_key(self, ns=NS):
        """The file that a proxy of that namespace is given."""
        path = os.path.join(self.dir, "proxy-key")
        done = subprocess.run(
            [k8s_rig.PROGRAMS["warmpoold"], "--backend=kubernetes",
             "--token-key-file=" + self.key, "--egress-key=" + ns],
            capture_output=True, text=True, timeout=PATIENCE, check=True)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "w",
                  encoding="ascii") as handle:
            handle.write(done.stdout)
        self.ns_key = bytes.fromhex(done.stdout)
        return path

    def begin(self, *flags, policy=None, **more):
        self.policy = f"{self.here} {OTHER}" if policy is None else policy
        return super().begin(f"--egress-proxy=127.0.0.1:{self.proxy.port}",
                             *flags, egress=self.policy, **more)

    def reaches(self, name):
        """The status that a program there gets from the origin."""
        return self.sh(name, "curl -s -o /dev/null -w %{http_code} --noproxy nobody "
                       f"--interface {self.address(name)} http://{self.here}/")

    def pass_of(self, name):
        url = self.sh(name, "echo $HTTP_PROXY").strip()
        self.assertEqual(url, self.sh(name, "echo $https_proxy").strip())
        begin, end = "http://sandbox:", f"@127.0.0.1:{self.proxy.port}"
        self.assertTrue(url.startswith(begin) and url.endswith(end), url)
        return url[len(begin):-len(end)]

    def check(self, name, by=""):
        text = self.pass_of(name)
        self.assertEqual(passes.read(self.ns_key, text),
                         (NS, name, self.address(name), self.policy, by))
        return text


class Calls(Egress):
    """Claims over gRPC."""

    def test_narrowed(self):
        daemon = self.begin()
        self.serve_all()
        position = self.log_position()
        answer = self.claim(daemon, "g", egress=self.here)
        name = answer.lease.sandbox
        self.assertEqual(answer.bound.egress, self.here)
        text = self.check(name, by=self.here)
        self.assertEqual(self.reaches(name), "200")
        # No write more than of a claim that brings nothing.
        self.assertEqual(
            [one["verb"] for one in self.writes(position)
             if (one["kind"], one["name"], one["subresource"]) ==
             ("sandboxes", name, "")], ["PATCH"])
        other = self.claim(daemon, "h", egress=OTHER).lease.sandbox
        self.check(other, by=OTHER)
        self.assertEqual(self.reaches(other), "403")
        # One of its own is not to be had from the other.
        url = f"http://sandbox:{text}@127.0.0.1:{self.proxy.port}"
        self.assertEqual(self.sh(
            other, "curl -s -o /dev/null -w %{http_code} --noproxy nobody "
            f"--interface {self.address(other)} -x {url} http://{self.here}/"),
            "403")
        for kind in ("sandboxes", "pods", "events"):
            self.assertNotIn(text, json.dumps(self.api.all(kind)))
        self.assertNotIn(text, daemon.messages())
        self.assertNotIn(text, self.proxy.log())
        self.assertIn({"sandbox": f"{NS}/{name}", "verdict": "allowed"}, [
            {key: one[key] for key in ("sandbox", "verdict")}
            for one in self.proxy.lines("egress")])
        self.judge(leases=2)

    def test_of_a_claim_that_brings_nothing(self):
        daemon = self.begin()
        names = self.serve_all()
        # Nothing gets out before somebody has claimed it.
        self.assertEqual(self.sh(names[0], "curl -s -o /dev/null -w %{http_code} "
                                 f"--noproxy nobody -x 127.0.0.1:{self.proxy.port} "
                                 f"http://{self.here}/"), "407")
        answer = self.claim(daemon, "g")
        self.assertFalse(answer.HasField("bound"))
        self.check(answer.lease.sandbox)
        self.assertEqual(self.reaches(answer.lease.sandbox), "200")
        # Asked again, the same; and it is the claim that brought nothing.
        again = self.claim(daemon, "g")
        self.assertEqual(again.lease.sandbox, answer.lease.sandbox)
        self.check(answer.lease.sandbox)
        self.assertEqual(self.refused(daemon, "g", **self.brings())[0],
                         grpc.StatusCode.ALREADY_EXISTS)
        # What it says itself counts.
        lease = self.claim(daemon, "h", env=[
            pb.EnvVar(name="HTTP_PROXY", value="mine")]).lease
        self.assertEqual(self.sh(lease.sandbox, "echo $HTTP_PROXY"), "mine\n")

    def test_the_proxy_is_killed(self):
        """Another process lets each reach what it could before."""
        daemon = self.begin()
        self.serve_all()
        one = self.claim(daemon, "g", egress=self.here).lease.sandbox
        other = self.claim(daemon, "h", egress=OTHER).lease.sandbox
        self.proxy.process.kill()
        self.proxy.process.wait(PATIENCE)
        self.assertEqual(self.sh(one, "curl -s -o /dev/null -w %{http_code} "
                                 "--noproxy nobody "
                                 f"http://{self.here}/ || true"), "000")
        self.proxy = self.start_proxy()
        self.assertEqual(self.reaches(one), "200")
        self.assertEqual(self.reaches(other), "403")

    def test_beyond_the_pools(self):
        daemon = self.begin()
        self.serve_all()
        for by, words in (("open", "'open' is not within the pool's policy"),
                          (f"{self.here} evil.test", "'evil.test'"),
                          ("a..b", "binding.egress")):
            code, text = self.refused(daemon, "g", egress=by)
            self.assertIn(words, text)
            self.assertIn(code, (grpc.StatusCode.FAILED_PRECONDITION,
                                 grpc.StatusCode.INVALID_ARGUMENT))

    def test_a_pool_without_a_policy(self):
        daemon = self.begin(policy="")
        self.serve_all()
        code, text = self.refused(daemon, "g", egress="none")
        self.assertEqual(code, grpc.StatusCode.FAILED_PRECONDITION)
        self.assertIn("pool.warmpool.io/egress was expected", text)
        name = self.claim(daemon, "g").lease.sandbox
        self.assertEqual(self.sh(name, "echo $HTTP_PROXY"), "\n")

    def test_programs_that_take_nothing(self):
        """Their claims are served, and get no pass."""
        daemon = self.begin(binding=None)
        self.serve_all()
        name = self.claim(daemon, "g").lease.sandbox
        self.assertEqual(self.sh(name, "echo $HTTP_PROXY"), "\n")

    def test_a_daemon_without_the_setting(self):
        daemon = World.begin(self)
        self.assertIn("the daemon has no egress_proxy",
                      self.refused(daemon, "g", egress="none")[1])


class Claims(Egress):
    """SandboxClaims."""

    def narrow(self, by, name="c"):
        self.api.create("sandboxclaims", NS, name, metadata={
            "annotations": {"claim.warmpool.io/egress": by} if by else {}},
            spec={"warmPoolRef": {"name": "pool"}})

    def test_narrowed(self):
        self.begin()
        self.serve_all()
        position = self.log_position()
        self.narrow(self.here)
        self.wait_ready("c")
        name = assigned(self.api.get("sandboxclaims", NS, "c"))
        text = self.check(name, by=self.here)
        self.assertEqual(self.reaches(name), "200")
        self.check_writes(position, name)
        self.narrow("none", "d")
        self.wait_ready("d")
        other = assigned(self.api.get("sandboxclaims", NS, "d"))
        self.check(other, by="none")
        self.assertEqual(self.reaches(other), "403")
        for kind in ("sandboxclaims", "sandboxes", "pods", "events"):
            self.assertNotIn(text, json.dumps(self.api.all(kind)))
        self.judge()

    def test_not_narrowed(self):
        self.begin(replicas=1)
        name, = self.serve_all()
        self.narrow("")
        self.wait_ready("c")
        self.check(name)
        self.assertEqual(self.reaches(name), "200")

    def test_another_pod(self):
        """It gets a pass of its own; the old one is good from the old address."""
        self.begin(replicas=1)
        name, = self.serve_all()
        self.narrow(self.here)
        self.wait_ready("c")
        old, before = self.check(name, by=self.here), self.address(name)
        server = self.servers.pop(name)
        server.kill()
        server.wait()
        self.api.delete("pods", NS, name)
        eventually(lambda: self.api.get("pods", NS, name) and
                   self.address(name) != before, "another Pod")
        shutil.rmtree(os.path.join(self.dir, name))
        self.serve(name)
        eventually(lambda: self.sh(name, "echo $HTTP_PROXY").strip(), "a pass")
        self.assertNotEqual(self.check(name, by=self.here), old)
        self.wait_ready("c")
        self.assertEqual(self.reaches(name), "200")

    def test_refused(self):
        self.begin(replicas=1)
        self.serve_all()
        for claim, by, words in (
                ("a", "open", "annotation claim.warmpool.io/egress: 'open' is "
                              "not within the pool's policy"),
                ("b", "a..b", "annotation claim.warmpool.io/egress"),
                ("e", "x" * 1024, "expected a policy of 1 to 1023 bytes")):
            self.narrow(by, claim)
            self.becomes("BindingFailed", words, claim)
            self.assertEqual(assigned(self.api.get("sandboxclaims", NS, claim)),
                             None)

    def test_the_next_leader(self):
        """It brings what the one before did not."""
        daemon = self.begin(replicas=1)
        name = self.pool_sandboxes()[0]["metadata"]["name"]
        self.narrow(self.here)
        eventually(lambda: "server" in self.condition().get("message", ""),
                   "the claim to be adopted, and not bound")
        daemon.kill()
        self.serve(name)
        daemon.start()
        self.wait_ready("c")
        self.check(name, by=self.here)

    def test_cold(self):
        self.begin("--cold-grace=1s", replicas=1)
        self.api.patch("sandboxwarmpools", NS, "pool", {"spec": {"replicas": 0}})
        eventually(lambda: not self.pool_sandboxes(), "an empty pool")
        self.narrow(self.here, "c")
        eventually(lambda: self.api.get("sandboxes", NS, "c"), "a cold sandbox")
        self.serve("c")
        self.wait_ready("c")
        self.check("c", by=self.here)

    def test_the_longest(self):
        """Its sandbox has its name, which may be longer than others'."""
        name = ".".join(("c" * 61,) * 4)
        more = " ".join(f"{n:02}-{'x' * 50}.test" for n in range(16))
        policy = f"{self.here} {OTHER} {more}"
        policy += " " + "y" * (1023 - len(policy) - 1)
        self.begin("--cold-grace=1s", replicas=1, policy=policy)
        self.api.patch("sandboxwarmpools", NS, "pool", {"spec": {"replicas": 0}})
        eventually(lambda: not self.pool_sandboxes(), "an empty pool")
        self.narrow(policy, name)
        eventually(lambda: self.api.get("sandboxes", NS, name),
                   "a cold sandbox")
        self.serve(name)
        self.wait_ready(name)
        self.check(name, by=policy)
        self.assertEqual(self.reaches(name), "200")


if __name__ == "__main__":
    k8s_rig.PROGRAMS["warmpoold"] = os.path.abspath(sys.argv.pop(1))
    k8s_rig.PROGRAMS["fake_api"] = os.path.abspath(sys.argv.pop(1))
    sys.argv.pop(1)
    unittest.main()
