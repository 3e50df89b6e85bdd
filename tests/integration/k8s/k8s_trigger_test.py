"""Triggers in a cluster: the SandboxClaims that they make, by any replica.

Run by ctest: k8s_trigger_test.py WARMPOOLD FAKE_API [unittest arguments].
"""

import calendar
import json
import sys
import time
import unittest

import k8s_rig
from fake_api_rig import eventually
from k8s_rig import NS

TEMPLATE = "pool-template"
CRON = {"type": "cron", "skill": "rca:ci", "schedule": "0 2 * * *"}
WEBHOOK = {"type": "webhook", "event": "pull_request", "repo": "org/name",
           "branch": "feat/x", "pr_number": 7}
ALERT = {"type": "alert", "alert": "PodDown", "cluster": "prod",
         "severity": "critical", "ttl_hours": 3}


class Triggers(k8s_rig.Case):
    def begin(self):
        daemon = self.daemon(f"--trigger-template={NS}/{TEMPLATE}")
        eventually(daemon.ready, "a daemon that is ready")
        return daemon

    def ask(self, daemon, body, **fields):
        connection = k8s_rig.UnixConnection(daemon.http_path)
        try:
            connection.request("POST", "/api/v1/sandbox/trigger",
                               json.dumps(body), fields)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read()), answer.headers
        finally:
            connection.close()

    def made(self, daemon, body):
        status, answer, _ = self.ask(daemon, body)
        self.assertEqual((status, set(answer)),
                         (200, {"sandbox_claim", "namespace"}), answer)
        self.assertEqual(answer["namespace"], body.get("namespace", NS))
        return self.api.get("sandboxclaims", answer["namespace"],
                            answer["sandbox_claim"])

    def test_one_trace(self):
        """The SandboxClaim belongs to the trace of what triggers it."""
        self.make_pool(replicas=3)
        daemon = self.begin()
        parent = f"00-{'a1' * 16}-{'b2' * 8}-01"
        for text, wanted in ((parent, json.dumps({"traceparent": parent},
                                                 separators=(",", ":"))),
                             (parent.upper(), None), ('"}', None)):
            _, answer, _ = self.ask(daemon, CRON, traceparent=text)
            claim = self.api.get("sandboxclaims", NS, answer["sandbox_claim"])
            self.assertEqual(claim["metadata"].get("annotations", {}).get(
                "opentelemetry.io/trace-context"), wanted)

    def test_each_type(self):
        self.make_pool(replicas=3)
        daemon = self.begin()
        self.wait_filled()
        for body, stem, labels, annotations in (
                (CRON, "cron-rca-ci", {},
                 {"trigger-skill": "rca:ci",
                  "trigger-schedule": "0 2 * * *"}),
                (WEBHOOK, "gh-org-name",
                 {"trigger-event": "pull_request", "trigger-pr": "7"},
                 {"trigger-repo": "org/name", "trigger-branch": "feat/x"}),
                (ALERT, "alert-poddown",
                 {"trigger-alert": "PodDown", "trigger-cluster": "prod",
                  "trigger-severity": "critical"}, {})):
            begun = time.time()
            claim = self.made(daemon, body)
            meta = claim["metadata"]
            self.assertRegex(meta["name"], f"^{stem}-[0-9a-f]{{6}}$")
            self.assertEqual(meta["labels"], {
                "app.kubernetes.io/part-of": "kagenti",
                "app.kubernetes.io/component": "sandbox-trigger",
                "trigger-type": body["type"], **labels})
            for key, value in annotations.items():
                self.assertEqual(meta["annotations"][key], value)
            lifecycle = claim["spec"]["lifecycle"]
            self.assertEqual(lifecycle["shutdownPolicy"], "Delete")
            ends = calendar.timegm(time.strptime(lifecycle["shutdownTime"],
                                                 "%Y-%m-%dT%H:%M:%SZ"))
            hours = body.get("ttl_hours", 2)
            self.assertGreaterEqual(ends, int(begun) + hours * 3600)
            self.assertLessEqual(ends, time.time() + hours * 3600)
            self.wait_ready(meta["name"])  # A warm one of the template's pool.
        # As agent-sandbox's controllers count them. A claim is counted once its
        # write was answered: soon after a reader can see it ready.
        line = ("agent_sandbox_claim_controller_startup_latency_ms_count"
                '{launch_type="warm",sandbox_template="pool-template"} 3\n')
        eventually(lambda: line in daemon.get("/metrics")[1],
                   "three claims counted as warm")
        self.judge()

    def test_every_replica_makes_them(self):
        self.make_pool()
        daemons = [self.begin() for _ in range(2)]
        self.wait_filled()
        names = {self.made(daemon, CRON)["metadata"]["name"]
                 for daemon in daemons * 3}
        self.assertEqual(len(names), 6)
        self.wait_ready(*names)

    def test_refusals(self):
        self.make_pool()
        daemon = self.begin()
        for body, status, word in (
                ({**CRON, "namespace": "elsewhere"}, 500, "SandboxTemplate"),
                ({"type": "timer"}, 400, "type"),
                ({"type": "cron"}, 422, "skill")):
            code, answer, _ = self.ask(daemon, body)
            self.assertEqual(code, status, answer)
            self.assertIn(word, answer["error"])
        self.assertEqual(self.api.all("sandboxclaims"), [])

    def test_what_the_api_server_says_is_told(self):
        self.make_pool()
        daemon = self.begin()
        self.fault(verbs="POST", kind="sandboxclaims", action="status",
                   code=403, count=1)
        code, answer, _ = self.ask(daemon, CRON)
        self.assertEqual(code, 403, answer)
        self.assertTrue(answer["error"])
        self.assertEqual(self.api.all("sandboxclaims"), [])
        self.made(daemon, CRON)

    def test_when_to_come_again(self):
        """What the API server says of that is handed on."""
        self.make_pool()
        daemon = self.begin()
        self.fault(verbs="POST", kind="sandboxclaims", action="status",
                   code=429, retry_after_s=7, count=100)
        code, answer, headers = self.ask(daemon, CRON)
        self.assertEqual((code, headers["Retry-After"]), (429, "7"), answer)


if __name__ == "__main__":
    k8s_rig.PROGRAMS["warmpoold"] = sys.argv.pop(1)
    k8s_rig.PROGRAMS["fake_api"] = sys.argv.pop(1)
    unittest.main()
