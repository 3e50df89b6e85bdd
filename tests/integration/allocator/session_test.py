"""The session API: one sandbox for each session, and who may ask for it.

Run by ctest: session_test.py WARMPOOLD WARMPOOLCTL GENERATED_DIR DEPLOY_DIR
[unittest arguments]. Sandboxes are files.
"""

import concurrent.futures
import http.client
import json
import os
import re
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from access_token_test import PATIENCE, Daemon  # noqa: E402

ADMIN = "the-token-of-these-tests"
MANIFEST = """
apiVersion: extensions.agents.x-k8s.io/v1beta1
kind: SandboxTemplate
metadata: {{name: {template}}}
spec:
  podTemplate:
    spec:
      containers:
        - name: main
          image: host
          command: ["warmpool-runtime"]
          ports: [{{containerPort: 8080}}]
---
apiVersion: extensions.agents.x-k8s.io/v1beta1
kind: SandboxWarmPool
metadata:
  name: {pool}
  annotations: {{pool.warmpool.io/wait-max: 60s,
                pool.warmpool.io/cold-start: never}}
spec:
  replicas: {replicas}
  sandboxTemplateRef: {{name: {template}}}
---
"""


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=PATIENCE)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(PATIENCE)
        self.sock.connect(self.path)


class Answer:
    def __init__(self, response):
        self.status = response.status
        self.headers = response.headers
        self.body = json.loads(response.read())

    def __repr__(self):
        return f"{self.status} {self.body}"


class Sessions(unittest.TestCase):
    def setUp(self):
        self.place = tempfile.mkdtemp(prefix="wp-session-")
        os.chmod(self.place, 0o755)
        self.addCleanup(shutil.rmtree, self.place, ignore_errors=True)
        self.token = os.path.join(self.place, "token")
        with open(self.token, "w", encoding="ascii") as handle:
            handle.write(ADMIN)
        os.chmod(self.token, 0o600)
        self.manifest = os.path.join(self.place, "pools.yaml")
        with open(self.manifest, "w", encoding="ascii") as handle:
            for name, template, replicas in (
                    ("plain", "plain-template", 4),
                    ("coder", "coder-sandbox", 2),
                    ("mine", "my-coder-sandbox", 1), ("empty", "none", 0)):
                handle.write(MANIFEST.format(pool=name, template=template,
                                             replicas=replicas))
        self.daemon = None

    def start(self, *flags):
        self.daemon = Daemon(
            "--manifests=" + self.manifest, "--lease-store=sqlite",
            "--state-dir=" + os.path.join(self.place, "state"),
            "--http-token-file=" + self.token, "--session-pool=plain",
            "--http-listen=127.0.0.1:0,unix:" + self.place + "/http",
            *flags, directory=self.place, listen=None)
        self.addCleanup(self.daemon.end)
        self.daemon.started()
        self.port = int(re.findall(r"protocol=http address=127\.0\.0\.1:(\d+)",
                                   self.daemon.log())[-1])

    def ask(self, method, session="s1", user="someone", query="", body=None,
            headers=None, path=None, unix=False):
        connection = UnixConnection(self.place + "/http") if unix else \
            http.client.HTTPConnection("127.0.0.1", self.port,
                                       timeout=PATIENCE)
        head = {} if unix else {"Authorization": "Bearer " + ADMIN}
        if user is not None:
            head["X-User-Id"] = user
        head.update(headers or {})
        try:
            connection.request(
                method, path or f"/api/sessions/{session}/sandbox{query}",
                body=body, headers=head)
            return Answer(connection.getresponse())
        finally:
            connection.close()

    def post(self, **more):
        answer = self.ask("POST", **more)
        self.assertEqual(answer.status, 200, answer)
        return answer.body

    def claims(self):
        done = self.daemon.ctl("list", "-o", "json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)["claims"]

    def until(self, what):
        end = time.monotonic() + PATIENCE
        while not what():
            self.assertLess(time.monotonic(), end, self.daemon.log())
            time.sleep(0.01)

    def test_a_session(self):
        self.start()
        self.assertEqual(self.ask("GET").status, 404)
        self.assertEqual(self.ask("GET").body,
                         {"error": "No sandbox found for session"})
        first = self.post()
        self.assertEqual(set(first), {"sandbox_id", "mcp_url", "protocol",
                                      "headers", "ready"})
        self.assertEqual(first["protocol"], "streamable-http")
        self.assertIs(first["ready"], True)
        self.assertEqual(first["mcp_url"],
                         f"http://127.0.0.1:{self.port}/sandboxes/"
                         f"{first['sandbox_id']}/mcp")
        self.assertRegex(first["headers"]["Authorization"],
                         "^Bearer [0-9a-f]{136}$")
        for answer in (self.ask("POST"), self.ask("GET"),
                       self.ask("GET", user=None, query="?user_id=someone")):
            self.assertEqual((answer.status, answer.body), (200, first))
        # Another user's session of that name is another one.
        self.assertEqual(self.ask("GET", user="other").status, 404)
        self.assertNotEqual(self.post(user="other")["sandbox_id"],
                            first["sandbox_id"])
        self.assertEqual([c["claim_id"] for c in self.claims()
                          if c["sandbox"] == first["sandbox_id"]],
                         ["session/someone/s1"])
        for _ in range(2):
            answer = self.ask("DELETE")
            self.assertEqual((answer.status, answer.body), (200, {
                "data": {}, "message": "Session deleted successfully",
                "error": False}))
        self.assertEqual(self.ask("GET").status, 404)
        self.assertEqual(len(self.claims()), 1)
        # The next has a fresh one, at once.
        self.assertNotEqual(self.post()["sandbox_id"], first["sandbox_id"])
        self.ask("DELETE", path="/api/sessions/s1?user_id=someone")
        self.assertEqual(self.ask("GET").status, 404)

    def test_which_pool(self):
        self.start()
        for names, pool in (({}, "plain"),
                            ({"headers": {"X-Agent-Name": "coder"}}, "coder"),
                            ({"headers": {"X-Agent-Name": "default/coder"}},
                             "coder"),
                            ({"headers": {"X-Agent-Name":
                                          "default__NS__my_coder"}}, "mine"),
                            ({"headers": {"X-Agent-Name": "my-coder"}},
                             "mine"),
                            ({"headers": {"X-Agent-Name":
                                          "other__NS__coder"}}, "plain"),
                            ({"headers": {"X-Agent-Name": "other/coder"}},
                             "plain"),
                            ({"headers": {"X-Agent-Name": "a b"}}, "plain"),
                            ({"headers": {"X-Agent-Name": "coder" * 99}},
                             "plain"),
                            ({"headers": {"X-Agent-Name": "stranger"}},
                             "plain"),
                            ({"query": "?template=coder-sandbox"}, "coder"),
                            ({"body": '{"pool": "coder"}'}, "coder"),
                            ({"query": "?namespace=default",
                              "body": '{"template": "plain-template"}'},
                             "plain")):
            got = self.post(session="which", **names)
            self.assertTrue(got["sandbox_id"].startswith(pool + "-"),
                            (names, got))
            self.assertEqual(self.ask("DELETE", session="which").status, 200)
        self.assertEqual(self.daemon.end(), 0)
        self.start("--session-pool=default/coder")
        self.assertTrue(self.post()["sandbox_id"].startswith("coder-"))

    def test_whose_it_is(self):
        """One name for each user and session, as long as a claim's may be."""
        self.start()
        for user, session, claim_id in (
                ("a/b", "c%2Fd", "a%2Fb/c%2Fd"), ("a%", "b%25", "a%25/b%25"),
                ("u" * 118, "s", "u" * 118 + "/s"),
                ("u", "s" * 118, "u/" + "s" * 118)):
            self.post(user=user, session=session)
            self.assertEqual([(c["claim_id"], c["deadline"])
                              for c in self.claims()],
                             [("session/" + claim_id, None)])
            self.assertEqual(
                self.ask("DELETE", user=user, session=session).status, 200)
            self.until(lambda: not self.claims())
        for user, session, what in (
                ("u" * 118, "s2", "longer than 119 bytes"),
                ("u" * 117 + "%", "s", "longer than 119 bytes"),
                ("u" * 119, "s", "longer than 119 bytes"),
                ("u" * 129, "s", "Failed to get user ID")):
            answer = self.ask("POST", user=user, session=session)
            self.assertEqual(answer.status, 400, answer)
            self.assertIn(what, answer.body["error"])
        self.assertEqual(self.daemon.end(), 0)
        self.start("--session-ttl=1h")
        self.post()
        self.assertNotEqual(self.claims()[0]["deadline"], None)

    def test_another_template_is_refused(self):
        self.start()
        first = self.post(query="?template=coder-sandbox")
        # What is not said is not another one.
        self.assertEqual(self.post(), first)
        self.assertEqual(self.post(query="?template=coder-sandbox"), first)
        self.assertEqual(self.post(query="?template=coder%2Dsandbox"), first)
        self.assertEqual(self.post(session="%73%31"), first)
        for query in ("?template=plain-template", "?pool=plain",
                      "?namespace=elsewhere"):
            answer = self.ask("POST", query=query)
            self.assertEqual(answer.status, 409, answer)
            self.assertIn("delete it first", answer.body["error"])
        self.assertEqual(self.ask("GET").body, first)

    def test_refusals(self):
        self.start("--session-pool=")
        for status, what, names in (
                (401, "bearer token",
                 {"headers": {"Authorization": "Bearer no"}}),
                (400, "user ID", {"user": None}),
                (400, "differ", {"query": "?user_id=else"}),
                (400, "session ID", {"session": ""}),
                (400, "session ID", {"session": "x" * 200}),
                (400, "session ID", {"session": "%zz"}),
                (400, "session ID", {"session": "%00"}),
                (400, "no agent reference", {}),
                (400, "not enabled for this agent",
                 {"headers": {"X-Agent-Name": "stranger"}}),
                (400, "template: expected a DNS name",
                 {"query": "?template=No%2F"}),
                (400, "differ", {"query": "?pool=plain",
                                 "body": '{"pool": "coder"}'}),
                (400, "JSON object", {"body": "pool"}),
                (400, "JSON object", {"body": '{"pool":"a","pool":"a"}'}),
                (400, "each a string", {"body": '{"pool": 1}'}),
                (400, "only namespace, pool and template",
                 {"body": '{"image": "x"}'}),
                (413, "at most 4096", {"body": "x" * 5000}),
                (500, "TemplateNotFound", {"query": "?template=none-such"}),
                (500, "no pool 'none-such' in namespace", {"query": "?pool=none-such"}),
                (404, "no such page", {"path": "/api/sessions/s1/other"})):
            answer = self.ask("POST", **names)
            self.assertEqual(answer.status, status, (names, answer))
            self.assertEqual(list(answer.body), ["error"])
            self.assertIn(what, answer.body["error"], names)
        answer = self.ask("PUT")
        self.assertEqual((answer.status, answer.headers["Allow"]),
                         (405, "POST, GET, DELETE"))
        self.assertEqual(self.claims(), [])

    def test_many_at_once_and_a_kill(self):
        self.start()
        with concurrent.futures.ThreadPoolExecutor(100) as pool:
            got = list(pool.map(lambda _: self.post(), range(100)))
        self.assertEqual(len({json.dumps(one) for one in got}), 1)
        self.assertEqual(len(self.claims()), 1)
        self.daemon.process.kill()
        self.daemon.process.wait()
        self.start()
        again = self.post()
        self.assertEqual(again["sandbox_id"], got[0]["sandbox_id"])
        self.assertEqual(self.ask("GET").body, again)
        self.assertEqual(self.ask("DELETE").status, 200)
        self.assertEqual(self.claims(), [])

    def test_another_time_to_live_after_a_restart(self):
        self.start()
        first = self.post()
        self.assertEqual(self.daemon.end(), 0)
        self.start("--session-ttl=1h")
        for answer in (self.ask("POST"), self.ask("GET")):
            self.assertEqual(answer.status, 200, answer)
            self.assertEqual(answer.body["sandbox_id"], first["sandbox_id"])
        self.assertEqual(self.ask("DELETE").status, 200)
        self.until(lambda: self.ask("GET").status == 404)
        self.assertEqual(self.claims(), [])

    def test_lost_sandboxes(self):
        """A session's next POST has another one, whatever its claims ask for
        since; nothing else is left of those that are lost."""
        self.start()
        first = {f"s{i}": self.post(session=f"s{i}") for i in range(4)}
        self.assertEqual(self.daemon.end(), 0)
        folder = os.path.join(self.place, "state", "synthetic")
        for file in os.listdir(folder):
            os.unlink(os.path.join(folder, file))
        for flags, kept, gone in (((), "s0", "s2"),
                                  (("--session-ttl=1h",), "s1", "s3")):
            self.start(*flags)
            self.until(lambda: all(
                c["state"] == "lost" for c in self.claims()
                if c["sandbox"] in (first[kept]["sandbox_id"],
                                    first[gone]["sandbox_id"])))
            answer = self.ask("GET", session=kept)
            self.assertEqual((answer.status, answer.body), (
                404, {"error": "No sandbox found for session"}))
            self.assertNotEqual(self.post(session=kept)["sandbox_id"],
                                first[kept]["sandbox_id"])
            self.assertEqual(self.ask("DELETE", session=gone).status, 200)
            self.until(lambda: not any(c["claim_id"].endswith(gone)
                                       for c in self.claims()))
            self.assertEqual(self.daemon.end(), 0)

    def test_where_it_is_reached(self):
        self.start("--session-url=https://pool.test:8/x")
        first = self.post(headers={"Host": "other.test"})
        self.assertEqual(first["mcp_url"], "https://pool.test:8/x/sandboxes/"
                         f"{first['sandbox_id']}/mcp")
        self.assertEqual(self.daemon.end(), 0)
        self.start()
        for host, shown in (("a.test:80", "a.test:80"), ("[::1]:80",) * 2,
                            ("a b", "localhost"), ("a/b", "localhost"),
                            ("", "localhost"), ("x" * 255, "x" * 255),
                            ("x" * 256, "localhost")):
            got = self.ask("GET", headers={"Host": host})
            self.assertEqual(
                (got.status, got.body.get("mcp_url")),
                (200, f"http://{shown}/sandboxes/{first['sandbox_id']}/mcp"))
            self.assertEqual(got.headers["Cache-Control"], "no-store")

    def test_a_wait_that_ends(self):
        self.start("--session-wait=1ms")
        answer = self.ask("POST", query="?pool=empty")
        self.assertEqual(answer.status, 429, answer)
        self.assertRegex(answer.headers["Retry-After"], "^[1-9][0-9]*$")
        self.assertIn("Failed to create sandbox: ", answer.body["error"])
        self.assertEqual(self.claims(), [])

    def test_waiting(self):
        """Its pool is empty: a POST waits, and nothing of it is left when its
        client leaves or its session is deleted."""
        self.start()

        def is_waiting():
            return [c["sandbox"] for c in self.claims()] == [""]

        answers = []
        waiter = threading.Thread(
            target=lambda: answers.append(
                self.ask("POST", query="?pool=empty")))
        waiter.start()
        self.until(is_waiting)
        answer = self.ask("GET")
        self.assertEqual((answer.status, answer.body["ready"],
                          answer.body["mcp_url"]), (200, False, ""))
        self.assertNotIn("headers", answer.body)
        self.assertEqual(self.ask("DELETE").status, 200)
        waiter.join(PATIENCE)
        self.assertEqual(answers[0].status, 500, answers)
        self.assertIn("deleted", answers[0].body["error"])
        self.assertEqual(self.claims(), [])

        with socket.create_connection(("127.0.0.1", self.port)) as peer:
            peer.sendall(b"POST /api/sessions/s1/sandbox?user_id=someone&pool="
                         b"empty HTTP/1.1\r\nHost: d\r\nAuthorization: Bearer "
                         + ADMIN.encode() + b"\r\n\r\n")
            self.until(is_waiting)
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                            b"\1\0\0\0\0\0\0\0")
        self.until(lambda: not self.claims())
        self.assertEqual(self.ask("GET").status, 404)

    def test_a_stop_while_one_waits(self):
        self.start()
        waiter = threading.Thread(target=self.ignore_the_end)
        waiter.start()
        self.until(lambda: [c["sandbox"] for c in self.claims()] == [""])
        self.daemon.process.send_signal(signal.SIGTERM)
        self.assertEqual(self.daemon.process.wait(PATIENCE), 0)
        waiter.join(PATIENCE)

    def ignore_the_end(self):
        try:
            self.ask("POST", query="?pool=empty")
        except (OSError, http.client.HTTPException):
            pass

    def test_on_a_unix_socket_the_tenant_is_the_users(self):
        self.start(f"--identities=uid:{os.getuid()}=*admin,uid:65534=blue")
        self.assertEqual(self.ask("GET", unix=True).status, 404)
        first = self.ask("POST", unix=True).body
        self.assertTrue(first["mcp_url"].startswith(
            "http://localhost/sandboxes/"))
        self.assertEqual(self.ask("GET").status, 200)
        if os.getuid() != 0:
            return
        # A child that is another user: the same session is another claim.
        child = os.fork()
        if child == 0:
            try:
                os.setgroups([])
                os.setresgid(65534, 65534, 65534)
                os.setresuid(65534, 65534, 65534)
                none = self.ask("GET", unix=True).status
                own = self.ask("POST", unix=True).body
                os._exit(0 if none == 404 and
                         own["sandbox_id"] != first["sandbox_id"] else 1)
            finally:
                os._exit(2)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertEqual(sorted(c["tenant"] for c in self.claims()),
                         ["", "blue"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[5:])
