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


def lease(holder):
    return "leases", {"metadata": {"name": "l", "namespace": "ns"},
                      "spec": {"holderIdentity": holder}}


class By:
    """A step of one process; or one that takes the object away."""

    def __init__(self, who, step, event="MODIFIED"):
        self.who, self.step, self.event = who, step, event


def history(*steps):
    steps = [one if isinstance(one, By) else By("", one) for one in steps]
    return [{"version": i, "type": one.event, "by": one.who,
             "kind": one.step[0], "object": one.step[1]}
            for i, one in enumerate(steps)]


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


    def test_made_by_one_that_leads_no_more(self):
        mine = sandbox("s", "SandboxWarmPool", "p")
        other = sandbox("t", "SandboxWarmPool", "p")
        leads = [pool(1), By("a", lease("A")), By("a", mine, "ADDED")]
        # What it had on its way when another one took the Lease.
        self.verdict(None, *leads, By("b", lease("B")),
                     By("a", other, "ADDED"))
        self.verdict(None, *leads, By("a", lease("")), By("a", other, "ADDED"))
        # The one that leads has counted.
        self.verdict("at most 1 were wanted", *leads,
                     By("a", other, "ADDED"))
        self.verdict("at most 1 were wanted", *leads, By("b", lease("B")),
                     By("b", other, "ADDED"))

    def test_taken_by_a_claim_that_went(self):
        steps = [pool(1), sandbox("s", "SandboxWarmPool", "p"), claim("c"),
                 sandbox("t", "SandboxWarmPool", "p"),
                 By("", claim("c"), "DELETED"),
                 sandbox("s", "SandboxWarmPool", "p", labels={})]
        self.verdict(None, *steps)
        self.verdict("at most 2 were wanted", *steps,
                     sandbox("u", "SandboxWarmPool", "p"))
        # It goes; from then on there is nothing to bear.
        self.verdict("at most 1 were wanted", *steps,
                     By("", sandbox("s", "SandboxWarmPool", "p"), "DELETED"),
                     sandbox("u", "SandboxWarmPool", "p"))
        # One that had a sandbox of its own leaves nothing.
        self.verdict("at most 1 were wanted", pool(1),
                     sandbox("s", "SandboxClaim", "uid-c"), claim("c", "s"),
                     By("", sandbox("s", "SandboxClaim", "uid-c"), "DELETED"),
                     By("", claim("c"), "DELETED"),
                     sandbox("t", "SandboxWarmPool", "p"),
                     sandbox("u", "SandboxWarmPool", "p"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv)
