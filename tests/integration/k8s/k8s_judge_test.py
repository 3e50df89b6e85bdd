"""The judge sees what it is there to see. No daemon, no server."""

import sys
import unittest

from k8s_judge import Judge


def sandbox(name, kind=None, owner=None, **meta):
    owners = [] if kind is None else [
        {"kind": kind, "uid": owner, "controller": True}]
    return "sandboxes", {"metadata": {
        "name": name, "namespace": "ns", "uid": "uid-" + name,
        "ownerReferences": owners, **meta}}


def claim(name, gets=None, is_ready=False):
    status = {}
    if gets:
        status = {"sandbox": {"name": gets}, "conditions": [
            {"type": "Ready", "status": "True" if is_ready else "False"}]}
    return "sandboxclaims", {
        "metadata": {"name": name, "namespace": "ns", "uid": "uid-" + name},
        "status": status}


def pool(replicas):
    return "sandboxwarmpools", {
        "metadata": {"name": "p", "namespace": "ns", "uid": "p"},
        "spec": {"replicas": replicas}}


def history(*steps):
    return [{"version": i, "type": "MODIFIED", "kind": kind, "object": obj}
            for i, (kind, obj) in enumerate(steps)]


class Verdicts(unittest.TestCase):
    def verdict(self, text, *steps):
        breaches = Judge().read(history(*steps))
        if text is None:
            self.assertEqual(breaches, [])
        else:
            self.assertEqual(len(breaches), 1, breaches)
            self.assertIn(text, breaches[0])

    def test_a_good_claim(self):
        self.verdict(None, pool(1), sandbox("s", "SandboxWarmPool", "p"),
                     claim("c"), sandbox("t", "SandboxWarmPool", "p"),
                     sandbox("s", "SandboxClaim", "uid-c"),
                     claim("c", "s", True))

    def test_a_sandbox_of_two_claims(self):
        self.verdict("belonged to claim uid-c",
                     sandbox("s", "SandboxClaim", "uid-c"),
                     sandbox("s", "SandboxClaim", "uid-d"))

    def test_a_sandbox_that_goes_back(self):
        self.verdict("is not any more",
                     sandbox("s", "SandboxClaim", "uid-c"), sandbox("s"))

    def test_a_sandbox_leased_and_claimed(self):
        note = {"warmpool.dev/lease": '{"claimId":"g"}'}
        self.verdict("belonged to claim g of gRPC, now to uid-c",
                     sandbox("s", annotations=note),
                     sandbox("s", "SandboxClaim", "uid-c"))
        self.verdict("belonged to claim uid-c, now to uid-d",
                     sandbox("s", "SandboxClaim", "uid-c"),
                     sandbox("s", "SandboxClaim", "uid-d", annotations=note))
        self.verdict(None, sandbox("s", annotations=note),
                     sandbox("s", annotations=note))

    def test_a_name_granted_twice(self):
        self.verdict("which claim uid-c had", claim("c", "s"),
                     claim("d", "s"))

    def test_ready_before_it_is_adopted(self):
        self.verdict("which belongs to", pool(1),
                     sandbox("s", "SandboxWarmPool", "p"),
                     claim("c", "s", True))

    def test_a_pool_too_large(self):
        self.verdict("at most 1 were wanted", pool(1),
                     sandbox("s", "SandboxWarmPool", "p"),
                     sandbox("t", "SandboxWarmPool", "p"))
        self.verdict(None, pool(2), pool(1),
                     sandbox("s", "SandboxWarmPool", "p"),
                     sandbox("t", "SandboxWarmPool", "p"))
        self.verdict(None, pool(1),
                     sandbox("s", "SandboxWarmPool", "p",
                             deletionTimestamp="x"),
                     sandbox("t", "SandboxWarmPool", "p"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv)
