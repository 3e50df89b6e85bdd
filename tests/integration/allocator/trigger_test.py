"""Triggers on one machine: what each gets, who may, and webhooks' signatures.

Run by ctest: trigger_test.py WARMPOOLD WARMPOOLCTL GENERATED_DIR DEPLOY_DIR
[unittest arguments]. Sandboxes are files.
"""

import concurrent.futures
import hashlib
import hmac
import http.client
import json
import os
import re
import shutil
import socket
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from access_token_test import PATIENCE, Daemon  # noqa: E402
from session_test import ADMIN, MANIFEST, Answer, UnixConnection  # noqa: E402

PATH = "/api/v1/sandbox/trigger"
SECRET = "the-secret-of-the-webhooks"
CRON = {"type": "cron", "skill": "rca:ci", "schedule": "0 2 * * *"}
WEBHOOK = {"type": "webhook", "event": "push", "repo": "org/name"}


class Triggers(unittest.TestCase):
    def setUp(self):
        self.place = tempfile.mkdtemp(prefix="wp-trigger-")
        os.chmod(self.place, 0o755)
        self.addCleanup(shutil.rmtree, self.place, ignore_errors=True)
        for name, text in (("token", ADMIN), ("secret", SECRET)):
            path = os.path.join(self.place, name)
            with open(path, "w", encoding="ascii") as handle:
                handle.write(text)
            os.chmod(path, 0o600)
        self.manifest = os.path.join(self.place, "pools.yaml")
        with open(self.manifest, "w", encoding="ascii") as handle:
            for pool, template, replicas in (("agents", "agent", 4),
                                             ("none", "empty", 0)):
                handle.write(MANIFEST.format(pool=pool, template=template,
                                             replicas=replicas))

    def start(self, *flags):
        self.daemon = Daemon(
            "--manifests=" + self.manifest,
            "--state-dir=" + os.path.join(self.place, "state"),
            "--http-token-file=" + os.path.join(self.place, "token"),
            "--http-listen=127.0.0.1:0,unix:" + self.place + "/http",
            *flags, directory=self.place, listen=None)
        self.addCleanup(self.daemon.end)
        self.daemon.started()
        self.port = int(re.findall(r"protocol=http address=127\.0\.0\.1:(\d+)",
                                   self.daemon.log())[-1])

    def ask(self, body, method="POST", unix=False, **headers):
        connection = UnixConnection(self.place + "/http") if unix else \
            http.client.HTTPConnection("127.0.0.1", self.port,
                                       timeout=PATIENCE)
        head = {} if unix else {"Authorization": "Bearer " + ADMIN}
        head.update({key.replace("_", "-"): value
                     for key, value in headers.items()})
        if not isinstance(body, (bytes, type(None))):
            body = json.dumps(body).encode()
        try:
            connection.request(method, PATH, body=body, headers=head)
            return Answer(connection.getresponse())
        finally:
            connection.close()

    def claims(self):
        done = self.daemon.ctl("list", "-o", "json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)["claims"]

    def until(self, what):
        end = time.monotonic() + PATIENCE
        while not what():
            self.assertLess(time.monotonic(), end, self.daemon.log())
            time.sleep(0.01)

    def test_each_type_gets_a_sandbox(self):
        self.start("--trigger-template=default/agent")
        names = set()
        for body, stem in (
                (CRON, "cron-rca-ci"), (CRON, "cron-rca-ci"),
                (WEBHOOK, "gh-org-name"),
                ({"type": "alert", "alert": "PodDown", "ttl_hours": 1},
                 "alert-poddown")):
            answer = self.ask(body)
            self.assertEqual(answer.status, 200, answer)
            self.assertEqual(set(answer.body), {"sandbox_claim", "namespace"})
            self.assertEqual(answer.body["namespace"], "default")
            self.assertRegex(answer.body["sandbox_claim"],
                             f"^{stem}-[0-9a-f]{{6}}$")
            names.add(answer.body["sandbox_claim"])
        self.assertEqual(len(names), 4)
        self.assertEqual({claim["claim_id"] for claim in self.claims()}, names)

    def test_errors(self):
        self.start("--trigger-template=default/agent")
        needed = ": expected a text, since this type needs it"
        types = "type: expected cron, webhook or alert"
        hours = "ttl_hours: expected a whole number from 1 to 720"
        for body, status, why in (
                (b"no JSON", 422, "the body: expected a JSON object"),
                ({"type": "timer"}, 400, types), ({}, 422, types),
                ({"type": "cron"}, 422, "skill" + needed),
                ({"type": "webhook"}, 422, "event" + needed),
                ({"type": "webhook", "event": "push"}, 422, "repo" + needed),
                ({"type": "alert"}, 422, "alert" + needed),
                ({**CRON, "ttl_hours": 0}, 422, hours),
                ({**CRON, "ttl_hours": 721}, 422, hours),
                ({**CRON, "namespace": "Else"}, 422,
                 "namespace: expected a DNS name of at most 63 characters"),
                ({**CRON, "namespace": "elsewhere"}, 500,
                 "no pool of 'elsewhere' has the template 'agent'"),
                ({**CRON, "skill": "s" * 256}, 422,
                 "skill: expected printable text of at most 255 bytes")):
            answer = self.ask(body)
            self.assertEqual(
                (answer.status, answer.body["error"]),
                (status, "Failed to trigger a sandbox: " + why), body)
        answer = self.ask({**CRON, "skill": "s" * 20000})
        self.assertEqual(answer.status, 413, answer)
        self.assertTrue(answer.body["error"])
        answer = self.ask(None, method="GET")
        self.assertEqual((answer.status, answer.headers["Allow"]),
                         (405, "POST"))
        self.assertEqual(self.claims(), [])

    def test_off_unless_it_is_asked_for(self):
        self.start()
        answer = self.ask(CRON)
        self.assertEqual(answer.status, 501, answer)
        self.assertIn("trigger_template", answer.body["error"])

    def test_who_may(self):
        self.start("--trigger-template=default/agent")
        for wrong in ("", "Bearer wrong", "Bearer " + ADMIN + "0"):
            answer = self.ask(CRON, Authorization=wrong)
            self.assertEqual(answer.status, 401, answer)
        self.assertEqual(self.ask(CRON, unix=True).status, 200)
        self.assertEqual(len(self.claims()), 1)

    def test_webhooks_are_signed(self):
        self.start("--trigger-template=default/agent",
                   "--trigger-secret-file=" + self.place + "/secret")
        body = json.dumps(WEBHOOK).encode()
        right = "sha256=" + hmac.new(SECRET.encode(), body,
                                     hashlib.sha256).hexdigest()
        self.assertEqual(
            self.ask(body, X_Hub_Signature_256=right).status, 200)
        for wrong in ({}, {"X_Hub_Signature_256": right[:-1] + "g"},
                      {"X_Hub_Signature_256": right[7:]}):
            answer = self.ask(body, **wrong)
            self.assertEqual(answer.status, 401, answer)
            self.assertNotIn(SECRET, answer.body["error"])
        answer = self.ask(body + b" ", X_Hub_Signature_256=right)
        self.assertEqual(answer.status, 401, answer)
        # Others come from who is trusted already.
        self.assertEqual(self.ask(CRON).status, 200)
        self.assertEqual(len(self.claims()), 2)
        self.assertNotIn(SECRET, self.daemon.log())

    def test_who_leaves_gets_nothing(self):
        self.start("--trigger-template=default/empty", "--session-wait=10m")
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        connection.request("POST", PATH, json.dumps(CRON),
                           {"Authorization": "Bearer " + ADMIN})
        self.until(lambda: len(self.claims()) == 1)
        connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                                   b"\1\0\0\0\0\0\0\0")
        connection.close()
        self.until(lambda: self.claims() == [])

    def test_many_at_once(self):
        self.start("--trigger-template=default/agent")
        with concurrent.futures.ThreadPoolExecutor(20) as pool:
            answers = list(pool.map(lambda _: self.ask(CRON), range(20)))
        self.assertEqual({answer.status for answer in answers}, {200})
        self.assertEqual(len({answer.body["sandbox_claim"]
                              for answer in answers}), 20)

    def test_a_stop_while_one_waits(self):
        self.start("--trigger-template=default/empty")
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        self.addCleanup(connection.close)
        connection.request("POST", PATH, json.dumps(CRON),
                           {"Authorization": "Bearer " + ADMIN})
        self.until(lambda: len(self.claims()) == 1)
        self.assertEqual(self.daemon.end(), 0)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[5:]])
