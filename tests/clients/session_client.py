"""kagent's session API on one machine: its agents' flow, in Python and in Go.

No registry has kagent's code, so both clients are written from the contract of
README.md: they have no credential, read nothing of an answer but mcp_url, and
speak MCP there over plain HTTP. The daemon trusts their address.

Run by ctest: session_client.py BUILD_DIR. Needs a host that lets it make
sandboxes, and Go; exits with 77 elsewhere.
"""

import json
import os
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.error
import urllib.request

BUILD = os.path.abspath(sys.argv[1])
HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
MANIFEST = os.path.join(ROOT, "deploy", "examples", "quickstart.yaml")
PATIENCE = 90
PROTOCOL = "2025-06-18"


class Daemon:
    def __init__(self, *flags):
        self.flags = flags
        self.dir = tempfile.mkdtemp(prefix="wp-session-client-")
        os.chmod(self.dir, 0o755)  # Sandboxes' users pass through it.
        self.log_path = os.path.join(self.dir, "log")
        # Bound besides, without listening: nobody else gets the port while there is
        # no daemon.
        self.holder = socket.socket()
        self.holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.holder.bind(("127.0.0.1", 0))
        self.start()

    def start(self):
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(
                [os.path.join(BUILD, "allocator", "warmpoold"),
                 "--manifests=" + MANIFEST,
                 "--sandbox-limits=best_effort",
                 "--state-dir=" + os.path.join(self.dir, "s"),
                 "--runtime-dir=" + os.path.join(self.dir, "r"),
                 "--http-listen=none",
                 "--trusting-listen=127.0.0.1:%d" % self.holder.getsockname()[1],
                 "--trust-sessions=127.0.0.1", "--trust-sandboxes=127.0.0.1",
                 "--session-pool=quickstart", "--stop-leaves=nothing",
                 *self.flags],
                env=dict(os.environ, PATH=os.path.join(BUILD, "runtime") + ":" +
                         os.environ["PATH"]),
                stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        end = time.monotonic() + PATIENCE
        while True:
            with open(self.log_path, encoding="utf-8") as handle:
                said = handle.read()
            found = re.search(r"protocol=http address=(\S+)\n", said)
            if found:
                self.url = "http://" + found[1]
                return
            if self.process.poll() is not None or time.monotonic() > end:
                no = re.search("this machine cannot make sandboxes.*", said)
                if no:
                    print("SKIP:", no[0])
                    sys.exit(77)
                raise AssertionError("it does not start: " + said)
            time.sleep(0.01)

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.holder.close()


class Agent:
    """What an agent does before its first message."""

    def __init__(self, url, session, user="someone@example.com", name="coder"):
        self.base = f"{url}/api/sessions/{session}"
        self.headers = {"X-User-Id": user, "X-Agent-Name": name}
        self.state = {}
        self.mcp_session = None

    def ask(self, method, url):
        request = urllib.request.Request(url, method=method,
                                         headers=self.headers)
        with urllib.request.urlopen(request, timeout=30.0) as answer:
            return json.load(answer)

    def ensure_toolset(self):
        """Once a session: the URL is kept and not looked at again."""
        if "sandbox_mcp_url" not in self.state:
            data = self.ask("POST", self.base + "/sandbox")
            self.state["sandbox_mcp_url"] = data["mcp_url"]
        return self.state["sandbox_mcp_url"]

    def call(self, method, params, number=1):
        message = {"jsonrpc": "2.0", "method": method, "params": params}
        headers = {"Content-Type": "application/json",
                   "Accept": "application/json, text/event-stream"}
        if number is not None:
            message["id"] = number
        if self.mcp_session:
            headers["Mcp-Session-Id"] = self.mcp_session
            headers["MCP-Protocol-Version"] = PROTOCOL
        request = urllib.request.Request(
            self.ensure_toolset(), json.dumps(message).encode(), headers)
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            self.mcp_session = answer.headers.get("Mcp-Session-Id",
                                                  self.mcp_session)
            text = answer.read().decode()
        data = [line[5:] for line in text.splitlines()
                if line.startswith("data:")]
        return json.loads(data[-1] if data else text) if text.strip() else None

    def initialize(self):
        got = self.call("initialize", {
            "protocolVersion": PROTOCOL, "capabilities": {},
            "clientInfo": {"name": "agent", "version": "1"}})
        self.call("notifications/initialized", {}, None)
        return got["result"]

    def execute(self, command):
        got = self.call("tools/call", {"name": "exec",
                                       "arguments": {"command": command}})
        return json.loads(got["result"]["content"][0]["text"])

    def delete(self):
        return self.ask("DELETE", self.base)


class SessionApi(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon()

    @classmethod
    def tearDownClass(cls):
        cls.daemon.stop()
        shutil.rmtree(cls.daemon.dir, ignore_errors=True)

    def agent(self, session, **more):
        return Agent(self.daemon.url, session, **more)

    def test_an_agent(self):
        agent = self.agent("one")
        self.assertTrue(agent.initialize()["serverInfo"]["name"])
        self.assertEqual(agent.execute("echo hello >note; cat note"),
                         {"stdout": "hello\n", "stderr": "", "exit_code": 0})
        # Its next process goes on in the same sandbox.
        again = self.agent("one")
        self.assertEqual(again.ensure_toolset(), agent.ensure_toolset())
        again.initialize()
        self.assertEqual(again.execute("cat note")["stdout"], "hello\n")
        # Another session has another.
        other = self.agent("two")
        other.initialize()
        self.assertNotEqual(other.execute("cat note")["exit_code"], 0)
        for done in (agent, agent, other):
            self.assertEqual(done.delete()["error"], False)
        with self.assertRaises(urllib.error.HTTPError) as caught:
            agent.ask("GET", agent.base + "/sandbox")
        self.assertEqual(caught.exception.code, 404)
        self.assertIn("error", json.load(caught.exception))
        caught.exception.close()

    def test_many_agents_of_one_session(self):
        urls = []
        threads = [threading.Thread(target=lambda: urls.append(
            self.agent("many").ensure_toolset())) for _ in range(100)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
        self.assertEqual((len(urls), len(set(urls))), (100, 1))
        self.agent("many").delete()

    def test_a_killed_daemon(self):
        agent = self.agent("kept")
        agent.initialize()
        agent.execute("echo kept >note")
        self.daemon.process.kill()
        self.daemon.process.wait()
        self.daemon.start()
        again = self.agent("kept")
        self.assertEqual(again.ensure_toolset(), agent.ensure_toolset())
        again.initialize()
        self.assertEqual(again.execute("cat note")["stdout"], "kept\n")
        again.delete()

    def test_in_go(self):
        program = os.path.join(CLIENTS, "go", "session", "session")
        running = [subprocess.Popen(
            [program, self.daemon.url, f"go/{number}", "someone", "coder"],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            for number in range(4)]
        for one in running:
            said, _ = one.communicate(timeout=PATIENCE)
            self.assertEqual((one.returncode, said), (0, "ok\n"))


def measure(times):
    """session_client.py BUILD_DIR --measure: POST to a URL that serves."""
    daemon = Daemon()
    took = {"POST": [], "POST and initialize": []}
    try:
        for number in range(times):
            agent = Agent(daemon.url, f"m{number}")
            begun = time.perf_counter()
            agent.ensure_toolset()
            took["POST"].append(time.perf_counter() - begun)
            agent.initialize()
            took["POST and initialize"].append(time.perf_counter() - begun)
            agent.delete()
            time.sleep(0.02)
    finally:
        daemon.stop()
        shutil.rmtree(daemon.dir, ignore_errors=True)
    for what, values in took.items():
        cuts = statistics.quantiles([v * 1e3 for v in values], n=100)
        print(f"{what}: n={times} p50={cuts[49]:.2f} ms p99={cuts[98]:.2f} ms")


if __name__ == "__main__":
    if sys.argv[2:] == ["--measure"]:
        measure(300)
        sys.exit()
    setup = subprocess.run([os.path.join(HERE, "setup.sh")], check=False,
                           stdout=subprocess.PIPE, text=True)
    if setup.returncode != 0:
        sys.exit(setup.returncode)
    CLIENTS = setup.stdout.strip()
    unittest.main(argv=sys.argv[:1] + sys.argv[2:])
