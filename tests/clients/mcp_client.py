#!/usr/bin/env python3
"""The official MCP SDKs, unmodified: for Python, TypeScript and Go.

    mcp_client.py BUILD_FOLDER

Each does the same (python/mcp_tools.py says what) with warmpool-runtime, and with it
in a real sandbox behind a real warmpoold; between them and the server, something cuts
their connections in the middle of a call. The transcript of mcp_transcript.py is said
to a server from kagent's SDK, too: what the tests expect of it is true. That server is
a template's program as well, as kagent's is.
"""
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.dont_write_bytecode = True
import mcp_transcript  # noqa: E402
from mcp_between import Between  # noqa: E402
from mcp_daemon import Daemon, NoSandboxes, image  # noqa: E402

PATIENCE = 120
TOOLS = ["exec", "get_skill", "list_dir", "read_file", "write_file"]
SEEN = {
    "server": "kagent-sandbox-mcp",
    "tools": TOOLS,
    "success": {"stdout": "out\n", "stderr": "err\n", "exit_code": 3},
    "failure": ["failed", "command must not be empty"],
    "unfit": "refused",
    "timeout": {"stdout": "part\n", "stderr": "", "exit_code": -1},
    "background": {"stdout": "soon\nlate\n", "stderr": "", "exit_code": 0},
    "write": ["ok", '{"ok":true}'],
    "read": ["ok", "caf\u00e9"],
    "list": {"entries": [{"name": "b", "type": "file", "size": 5}]},
    "skill": ["failed", "invalid skill name: ../pdf"],
    "progress_grows": True,
    "long": "through\n",
    "lost": "through\n",
    "left": {"stdout": "went on\n", "stderr": "", "exit_code": 0},
}
BUILD = ""
CLIENTS = ""


def clients_folder():
    """Where setup.sh has put the clients; ends the test where it cannot."""
    done = subprocess.run([os.path.join(HERE, "setup.sh")], text=True,
                          stdout=subprocess.PIPE)
    if done.returncode != 0:
        sys.exit(done.returncode)
    return done.stdout.strip()


class Server:
    """A process that writes "all PORT" into a file once it listens."""

    def __init__(self, command, folder, **env):
        told = os.path.join(folder, "ports")
        env = dict({name: value for name, value in os.environ.items()
                    if name not in ("PORT", "SKILLS_DIR")}, **env)
        self.log = os.path.join(folder, "log")
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [word.replace("TOLD", told) for word in command], cwd=folder,
                env={name: value.replace("TOLD", told)
                     for name, value in env.items()},
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        end = time.monotonic() + PATIENCE
        while not os.path.exists(told):
            if self.process.poll() is not None or time.monotonic() > end:
                with open(self.log, encoding="utf-8") as log:
                    raise AssertionError("no server: " + log.read())
            time.sleep(0.01)
        with open(told, encoding="ascii") as file:
            self.port = int(file.read().split()[1])

    def stop(self):
        self.process.terminate()
        self.process.wait(PATIENCE)


def runtime(folder, skills):
    return Server([os.path.join(BUILD, "runtime", "warmpool-runtime"), "--bind",
                   "127.0.0.1", "--port", "0", "--port-file", "TOLD",
                   "--progress-ms", "200", "--skills-dir", skills,
                   "--workspace", folder], folder)


def kagents(folder, skills):
    return Server([os.path.join(CLIENTS, "go", "sandbox-mcp", "sandbox-mcp")],
                  folder, PORT="0", PORT_FILE="TOLD", SKILLS_DIR=skills)


class Sdks(unittest.TestCase):
    maxDiff = None

    def sdk(self, name, url, folder, *cut):
        """What the SDK of that name saw; without cut, of what is soon over."""
        command = {
            "python": [os.path.join(CLIENTS, "python", "bin", "python3"),
                       os.path.join(HERE, "python", "mcp_tools.py")],
            "node": ["node", os.path.join(self.node(), "mcp_tools.mjs")],
            "go": [os.path.join(CLIENTS, "go", "mcp", "mcp")],
        }[name]
        done = subprocess.run(command + [url, folder, *map(str, cut)], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              timeout=PATIENCE)
        self.assertEqual(done.returncode, 0, done.stderr)
        seen = json.loads(done.stdout)
        self.assertEqual(seen.pop("version"), mcp_transcript.NEWEST)
        return seen

    def node(self):
        """A folder with the program beside its packages, as Node.js wants it."""
        folder = os.path.join(self.folder, "node")
        if not os.path.exists(folder):
            os.mkdir(folder)
            os.symlink(os.path.join(CLIENTS, "node", "mcp", "node_modules"),
                       os.path.join(folder, "node_modules"))
            shutil.copy(os.path.join(HERE, "node", "mcp", "mcp_tools.mjs"), folder)
        return folder

    def setUp(self):
        temp = tempfile.TemporaryDirectory(prefix="wp-mcp-")
        self.addCleanup(temp.cleanup)
        self.folder = temp.name

    def test_with_the_runtime(self):
        server = runtime(self.folder, "/no/skills")
        self.addCleanup(server.stop)
        with Between(server.port) as between:
            for name in ("python", "node", "go"):
                with self.subTest(name):
                    folder = os.path.join(self.folder, "of-" + name)
                    os.mkdir(folder)
                    url = "http://127.0.0.1:%d/mcp" % between.port
                    cuts = between.cuts
                    self.assertEqual(self.sdk(name, url, folder,
                                              between.cut_port), SEEN)
                    self.assertGreater(between.cuts, cuts)

    def daemon(self, container, more=None):
        """A daemon and something between; skips where there are no sandboxes."""
        try:
            daemon = self.enterContext(Daemon(BUILD, self.folder, container, more))
        except NoSandboxes as why:
            print("SKIP:", why)
            self.skipTest(str(why))
        return daemon, self.enterContext(Between(daemon.http_path))

    def test_in_a_sandbox_behind_the_daemon(self):
        daemon, between = self.daemon({
            "command": ["warmpool-runtime"], "image": "host",
            "args": ["--port", "8080", "--progress-ms", "200",
                     "--workspace", "/workspace"]})
        for name in ("python", "node", "go"):
            with self.subTest(name):
                url = "http://127.0.0.1:%d/sandboxes/%s/mcp" % (
                    between.port, daemon.claim("of-" + name))
                cuts = between.cuts
                self.assertEqual(self.sdk(name, url, "/workspace",
                                          between.cut_port), SEEN)
                self.assertGreater(between.cuts, cuts)

    def test_kagents_own_as_a_templates_program(self):
        image(self.folder, "kagent", os.path.join(
            CLIENTS, "go", "sandbox-mcp", "sandbox-mcp"))
        daemon, between = self.daemon({
            "command": ["/sandbox-mcp"], "image": "kagent",
            "rootfs": self.folder, "env": [
                {"name": "PORT", "value": "8080"},
                {"name": "SKILLS_DIR", "value": "/skills"}]})
        url = "http://127.0.0.1:%d/sandboxes/%s/mcp" % (between.port,
                                                        daemon.claim("its-own"))
        seen = self.sdk("python", url, "/workspace")
        self.assertEqual(seen, {name: SEEN[name] for name in seen})
        self.assertIn("skill", seen)


class Transcript(unittest.TestCase):
    maxDiff = None

    def said_to(self, start, name):
        with tempfile.TemporaryDirectory(prefix="wp-mcp-") as folder:
            skills = os.path.join(folder, "skills")
            work = os.path.join(folder, "work")
            os.mkdir(work)
            mcp_transcript.skills_make(skills)
            server = start(folder, skills)
            try:
                heard = mcp_transcript.speak(server.port, work, skills)
            finally:
                server.stop()
        for item, outcome in mcp_transcript.expected(name).items():
            with self.subTest(item):
                self.assertEqual(heard[item], outcome)

    def test_kagents_own(self):
        self.said_to(kagents, "kagent")

    def test_warmpools(self):
        self.said_to(runtime, "warmpool")


def main():
    global BUILD, CLIENTS
    signal.alarm(580)  # Never hang a test run.
    BUILD = os.path.abspath(sys.argv.pop(1))
    CLIENTS = clients_folder()
    unittest.main()


if __name__ == "__main__":
    main()
