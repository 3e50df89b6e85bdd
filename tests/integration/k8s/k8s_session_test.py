"""The session API in a cluster: against a fake API server, with the real server at the
addresses of its Pods.

Run by ctest: k8s_session_test.py WARMPOOLD FAKE_API GENERATED_DIR [unittest arguments].
"""

import json
import os
import sys
import unittest
import urllib.parse
import urllib.request

import k8s_rig
from fake_api_rig import PATIENCE, eventually
from k8s_bind_test import World
from k8s_rig import NS

INITIALIZE = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
    "protocolVersion": "2025-06-18", "capabilities": {},
    "clientInfo": {"name": "agent", "version": "1"}}}


class Sessions(World):
    def ask(self, method, path, body=None, **headers):
        """Its status and JSON."""
        connection = k8s_rig.UnixConnection(self.http_path)
        try:
            connection.request(method, path, body and json.dumps(body), {
                "X-User-Id": "someone", "Content-Type": "application/json",
                "Accept": "application/json, text/event-stream", **headers})
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read() or b"null")
        finally:
            connection.close()

    def session(self, method, name="s1"):
        return self.ask(method, f"/api/sessions/{name}/sandbox")

    def initialize(self, url):
        """At the sandbox's own address, as agents in the cluster reach it."""
        request = urllib.request.Request(url, json.dumps(INITIALIZE).encode(), {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream"})
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            said = answer.read().decode()
        if "\ndata: " in "\n" + said:  # As a stream of one event.
            said = ("\n" + said).split("\ndata: ")[-1]
        return json.loads(said)["result"]["serverInfo"]["name"]

    def start(self, *flags):
        daemon = self.begin(f"--session-pool={NS}/pool", *flags)
        self.http_path = daemon.http_path
        return self.serve_all()

    def test_life(self):
        names = self.start()
        status, first = self.session("POST")
        self.assertEqual(status, 200, first)
        self.assertTrue(self.initialize(first["mcp_url"]))
        used, = (name for name in names if urllib.parse.urlsplit(
            first["mcp_url"]).hostname == self.address(name))
        # The same again, and another one for another session.
        self.assertEqual(self.session("POST")[1]["mcp_url"], first["mcp_url"])
        self.assertEqual(self.session("GET")[1]["mcp_url"], first["mcp_url"])
        other = self.session("POST", "s2")[1]["mcp_url"]
        self.assertNotEqual(other, first["mcp_url"])
        self.assertTrue(self.initialize(other))
        self.assertEqual(self.session("DELETE")[0], 200)
        self.assertEqual(self.session("GET")[0], 404)
        eventually(lambda: self.api.get("sandboxes", NS, used) is None,
                   "the end of its sandbox")
        self.assertTrue(self.initialize(other))
        self.judge(leases=2)  # Written soon after they were answered.

    def test_no_pool(self):
        self.start("--session-pool=" + NS + "/none")
        status, answer = self.session("POST")
        self.assertGreaterEqual(status, 400, answer)
        self.assertIn("no pool 'none' in namespace '" + NS, answer["error"])


if __name__ == "__main__":
    k8s_rig.PROGRAMS["warmpoold"] = os.path.abspath(sys.argv.pop(1))
    k8s_rig.PROGRAMS["fake_api"] = os.path.abspath(sys.argv.pop(1))
    sys.argv.pop(1)
    unittest.main()
