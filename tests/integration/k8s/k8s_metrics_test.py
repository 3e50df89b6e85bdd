"""What /metrics says of a cluster, against what the API server saw.

Run by ctest: k8s_metrics_test.py WARMPOOLD FAKE_API GOLDEN [unittest arguments].
GOLDEN is the page of everything that a cluster counts, whose names, types and
meanings are on a daemon's page, too.
"""

import sys
import unittest
from collections import Counter

import k8s_rig
from fake_api_rig import eventually
from k8s_rig import NS, Case

GOLDEN = ""  # Set by main.
PLURALS = {
    "Sandbox": "sandboxes", "SandboxClaim": "sandboxclaims",
    "SandboxTemplate": "sandboxtemplates",
    "SandboxWarmPool": "sandboxwarmpools", "Pod": "pods",
    "Service": "services", "PersistentVolumeClaim": "persistentvolumeclaims",
    "NetworkPolicy": "networkpolicies",
}


def families(text):
    return {line for line in text.splitlines() if line.startswith("# ")}


class Metrics(Case):
    def numbers(self):
        rows = [line.rpartition(" ") for line in
                self.running.get("/metrics")[1].splitlines()
                if not line.startswith("#")]
        names = Counter(name for name, _, _ in rows)
        self.assertEqual(names.most_common(1)[0][1], 1, "a series twice")
        return {name: float(value) for name, _, value in rows}

    def asked(self):
        """What the daemon asked of the server, by what and the answer."""
        return Counter(
            (one["verb"], one["kind"], one["code"])
            for one in self.api.control("requests")
            if one["agent"].startswith("warmpool"))

    def wait_numbers(self, **expected):
        """Of families without labels."""
        self.wait_rows({"warmpool_" + name: value
                        for name, value in expected.items()})

    def wait_rows(self, expected):
        """A dict; or what gives it, where the daemon may not be at rest."""
        seen, wanted = {}, {}

        def there():
            numbers = self.numbers()
            wanted.update(expected() if callable(expected) else expected)
            seen.update((name, numbers.get(name)) for name in wanted)
            return seen == wanted
        try:
            eventually(there, "the numbers")
        except AssertionError:
            self.assertEqual(seen, wanted)

    def wait_kinds(self, name, values):
        self.wait_rows({f'warmpool_watch_{name}{{kind="{kind}"}}': value
                        for kind, value in values.items()})

    def begin(self):
        self.make_pool(replicas=2)
        self.running = self.daemon("--cold-grace=60s")
        self.wait_filled(replicas=2)
        eventually(self.running.ready, "it to be ready")
        self.make_claim("claim")
        self.wait_ready("claim")
        self.wait_filled(replicas=2)
        self.wait_quiet()

    def test_a_pool_and_a_claim(self):
        self.begin()
        self.wait_numbers(leader=1, leader_refused=0, synced=1, keeper=1,
                          events_dropped_total=0, api_inflight=0,
                          api_throttled_total=0, api_failed_total=0,
                          cluster_sandboxes=3,
                          cluster_created_total=3, cluster_deleted_total=0,
                          cluster_adopted_total=0, cluster_taken_total=0,
                          cluster_found_total=0, cluster_orphans_total=0,
                          cluster_refused_total=0, cluster_conflicts_total=0,
                          claim_queued_total=0, claim_conflicts_total=0,
                          claim_sandboxes_lost_total=0)
        self.wait_rows({
            f'warmpool_claim_writes_total{{what="{what}"}}': n
            for what, n in {"observed": 1, "sandbox": 1, "status": 1,
                            "annotations": 0, "delete": 0, "alias": 0}.items()})
        latency = "agent_sandbox_claim_controller_startup_latency_ms_count"
        self.wait_rows({
            'warmpool_claim_startup_seconds_count{launch_type="warm"}': 1,
            'warmpool_claim_startup_seconds_count{launch_type="cold"}': 0,
            latency + '{launch_type="warm",'
            'sandbox_template="pool-template"}': 1,
            'agent_sandbox_creation_latency_ms_count{namespace="ns",'
            'launch_type="warm",sandbox_template="pool-template"}': 3,
            'agent_sandbox_claim_creation_total{namespace="ns",'
            'sandbox_template="pool-template",launch_type="warm",'
            'warmpool_name="pool",pod_condition="ready",'
            'created_by="unknown"}': 1})
        self.wait_rows({
            'agent_sandboxes{namespace="ns",ready_condition="true",'
            'expired="false",launch_type="warm",'
            f'sandbox_template="pool-template",owned_by="{owner}",'
            f'created_by="{by}"}}': n
            for owner, by, n in (("SandboxClaim", "unknown", 1),
                                 ("SandboxWarmPool", "controller", 2))})
        self.assertLessEqual(
            families(self.golden()), families(self.running.get("/metrics")[1]))

    def golden(self):
        with open(GOLDEN, encoding="utf-8") as file:
            return file.read()

    def test_watches(self):
        self.begin()
        self.wait_kinds("objects", {"Sandbox": 3, "SandboxClaim": 1,
                                    "SandboxTemplate": 1, "SandboxWarmPool": 1,
                                    "Pod": 3, "Service": 0,
                                    "PersistentVolumeClaim": 0,
                                    "NetworkPolicy": 1})
        for name in ("synced", "lists_total", "streams_total"):
            self.wait_kinds(name, dict.fromkeys(PLURALS, 1))
        for name in ("gone_total", "stalled_total", "broken_total"):
            self.wait_kinds(name, dict.fromkeys(PLURALS, 0))
        changes = Counter(one["kind"] for one in self.api.control("history"))
        # What was there before the daemon came in a list, not as an event.
        self.wait_kinds("events_total",
                        {kind: changes[PLURALS[kind]]
                         for kind in ("Sandbox", "SandboxClaim", "Pod")})
        numbers = self.numbers()
        for kind in PLURALS:
            self.assertGreater(
                numbers[f'warmpool_watch_bytes{{kind="{kind}"}}'], 1000)
        self.assertGreater(numbers['warmpool_watch_bytes{kind="Sandbox"}'],
                           numbers['warmpool_watch_bytes{kind="Service"}'])
        # Cut, it goes on; a line that makes no sense ends it.
        self.assertEqual(self.api.control(
            "watches", kind="sandboxclaims", act="cut"), 1)
        self.wait_kinds("streams_total", {"SandboxClaim": 2, "Pod": 1})
        self.assertEqual(self.api.control(
            "watches", kind="pods", act="send", bytes="{\n"), 1)
        self.wait_kinds("broken_total", {"Pod": 1, "SandboxClaim": 0})

    def test_requests(self):
        self.begin()
        before = self.sent()
        eventually(lambda: self.requests() >= before, "the requests' number")
        # One counted just now may still be on its way.
        eventually(lambda: self.requests() <= self.sent(), "no more of them")
        numbers = self.numbers()
        for priority in ("claim", "normal", "refill", "spare"):
            self.assertGreater(numbers[self.priority(priority)], 0)
        self.wait_rows(lambda: {self.priority("event"):
                                self.asked()["POST", "events", 201]})
        # Each trouble is counted once, as what it is.
        self.fault(verbs="PATCH", kind="sandboxclaims", subresource="status",
                   action="status", code=409, count=1)
        self.make_claim("conflict")
        self.wait_ready("conflict")
        self.wait_numbers(claim_conflicts_total=1, api_throttled_total=0)
        self.wait_conflicts()
        self.fault(verbs="PATCH", kind="sandboxclaims", subresource="status",
                   action="status", code=429, retry_after_s=1, count=1)
        self.make_claim("throttled")
        self.wait_ready("throttled")
        self.wait_numbers(claim_conflicts_total=1, api_throttled_total=1)
        self.wait_conflicts()

    def wait_conflicts(self):
        """A busy machine may be late to hear of its own Pod, and meet it."""
        self.wait_rows(lambda: {"warmpool_api_conflicts_total": sum(
            n for (_, _, code), n in self.asked().items() if code == 409)})

    @staticmethod
    def priority(name):
        return f'warmpool_api_requests_total{{priority="{name}"}}'

    def requests(self):
        numbers = self.numbers()
        return sum(numbers[self.priority(name)] for name in
                   ("claim", "normal", "refill", "spare", "event"))

    def sent(self):
        return sum(n for (verb, _, _), n in self.asked().items()
                   if verb != "WATCH")

    def test_orders(self):
        self.begin()
        self.fault(verbs="POST", kind="sandboxes", action="status", code=422,
                   count=1)
        self.api.patch("sandboxwarmpools", NS, "pool",
                       {"spec": {"replicas": 4}})
        self.wait_filled(replicas=4)
        self.wait_numbers(cluster_refused_total=1, cluster_created_total=5,
                          cluster_sandboxes=5, cluster_deleted_total=0)
        self.api.patch("sandboxwarmpools", NS, "pool",
                       {"spec": {"replicas": 1}})
        self.wait_count(2)
        self.wait_numbers(cluster_deleted_total=3, cluster_sandboxes=2)
        # Another process finds what this one ordered and nobody has claimed.
        self.stop(self.running)
        self.running = self.daemon()
        eventually(self.running.ready, "the next to be ready")
        self.wait_numbers(cluster_found_total=1, cluster_sandboxes=1,
                          cluster_created_total=0, leader=1)

    def test_reconciles(self):
        self.begin()

        def work(what, controller):
            return self.numbers()[
                f'warmpool_work_{what}{{controller="{controller}"}}']
        for controller in ("pool", "claim", "template", "sandbox"):
            self.assertGreater(work("begun_total", controller), 0)
            eventually(lambda name=controller: not any(
                work(what, name) for what in ("waiting", "running")), "quiet")
        # One that hangs runs; one that fails is begun again.
        begun = work("begun_total", "claim")
        self.fault(verbs="PATCH", kind="sandboxclaims", action="hold")
        self.make_claim("held")
        eventually(lambda: work("running", "claim") == 1, "one under way")
        self.assertGreater(work("begun_total", "claim"), begun)
        self.assertEqual(work("failed_total", "claim"), 0)
        self.api.control("clear")
        self.wait_ready("held")
        self.fault(verbs="PATCH", kind="sandboxclaims", subresource="status",
                   action="status", code=500, count=1)
        self.make_claim("fails")
        self.wait_ready("fails")
        eventually(lambda: work("failed_total", "claim") == 1, "the failure")
        self.assertEqual(work("failed_total", "pool"), 0)

    def test_a_claim_that_has_to_wait(self):
        self.begin()
        self.fault(verbs="POST", kind="sandboxes", action="hold")
        for name in ("first", "second", "third"):
            self.make_claim(name)
        self.wait_numbers(claim_queued_total=1, cluster_created_total=3)
        self.api.control("clear")
        self.wait_ready("first", "second", "third")
        self.wait_numbers(claim_queued_total=1, cluster_created_total=6)


if __name__ == "__main__":
    k8s_rig.PROGRAMS["warmpoold"], k8s_rig.PROGRAMS["fake_api"], GOLDEN = (
        sys.argv[1:4])
    unittest.main(argv=sys.argv[:1] + sys.argv[4:])
