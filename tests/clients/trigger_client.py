"""kagenti's triggers on one machine, with real sandboxes.

No registry has its script, so this client is written from the contract of
README.md: it posts a body and reads sandbox_claim and namespace.

Run by ctest: trigger_client.py BUILD_DIR. Needs a host that lets it make
sandboxes; exits with 77 elsewhere.
"""

import json
import os
import shutil
import subprocess
import sys
import unittest
import urllib.error
import urllib.request

from session_client import BUILD, PATIENCE, Agent, Daemon


class Triggers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon("--trigger-template=default/quickstart")

    @classmethod
    def tearDownClass(cls):
        cls.daemon.stop()
        shutil.rmtree(cls.daemon.dir, ignore_errors=True)

    def post(self, **body):
        request = urllib.request.Request(
            self.daemon.url + "/api/v1/sandbox/trigger",
            json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return json.load(answer)

    def sandbox_of(self, claim):
        done = subprocess.run(
            [os.path.join(BUILD, "allocator", "ctl", "warmpoolctl"), "list",
             "-o", "json"], env=dict(os.environ, RUNTIME_DIRECTORY=os.path.join(
                 self.daemon.dir, "r")),
            capture_output=True, text=True, timeout=PATIENCE, check=True)
        return next(one["sandbox"] for one in json.loads(done.stdout)["claims"]
                    if one["claim_id"] == claim)

    def test_a_sandbox_that_knows_why(self):
        for body, stem, said in (
                ({"type": "cron", "skill": "rca:ci"}, "cron-rca-ci-",
                 "cron rca:ci manual"),
                ({"type": "webhook", "event": "pull_request",
                  "repo": "org/name", "pr_number": 7}, "gh-org-name-",
                 "webhook pull_request org/name main 7"),
                ({"type": "alert", "alert": "PodDown"}, "alert-poddown-",
                 "alert PodDown unknown warning")):
            got = self.post(**body)
            self.assertEqual(got["namespace"], "default")
            self.assertTrue(got["sandbox_claim"].startswith(stem), got)
            agent = Agent(self.daemon.url, "none")
            agent.state["sandbox_mcp_url"] = "%s/sandboxes/%s/mcp" % (
                self.daemon.url, self.sandbox_of(got["sandbox_claim"]))
            agent.initialize()
            self.assertEqual(agent.execute(
                "echo $TRIGGER_TYPE $TRIGGER_SKILL $TRIGGER_SCHEDULE "
                "$TRIGGER_EVENT $TRIGGER_REPO $TRIGGER_BRANCH $TRIGGER_PR "
                "$TRIGGER_ALERT $TRIGGER_CLUSTER $TRIGGER_SEVERITY"),
                {"stdout": said + "\n", "stderr": "", "exit_code": 0})

    def test_errors(self):
        for body, status in (({"type": "timer"}, 400), ({"type": "cron"}, 422),
                             ({"type": "webhook", "event": "push"}, 422),
                             ({"type": "alert"}, 422)):
            with self.assertRaises(urllib.error.HTTPError) as caught:
                self.post(**body)
            self.assertEqual(caught.exception.code, status)
            caught.exception.close()


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[2:])
