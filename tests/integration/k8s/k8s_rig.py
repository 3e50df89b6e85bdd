"""Whole daemons with the Kubernetes backend and the fake API server."""

import http.client
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest

from fake_api_rig import PATIENCE, FakeApi, eventually
from k8s_judge import Judge, assigned, controller, ready

PROGRAMS = {}  # "warmpoold", "fake_api"; set by the test's main.
NS = "ns"
KUBECONFIG = """\
apiVersion: v1
kind: Config
clusters: [{{name: c, cluster: {{server: "{url}"}}}}]
users: [{{name: u, user: {{token: {token}}}}}]
contexts: [{{name: x, context: {{cluster: c, user: u, namespace: default}}}}]
current-context: x
"""


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=PATIENCE)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Daemon:
    environment = None

    def __init__(self, api, *flags):
        self.dir = tempfile.mkdtemp(prefix="wp-k8s-")
        self.url = api.url
        self.config = os.path.join(self.dir, "kubeconfig")
        self.starts = 0
        self.log_path = os.path.join(self.dir, "log")
        self.http_path = os.path.join(self.dir, "r", "warmpoold-http.sock")
        self.args = [PROGRAMS["warmpoold"], "--backend=kubernetes",
                     "--kubeconfig=" + self.config,
                     "--state-dir=" + os.path.join(self.dir, "s"),
                     "--runtime-dir=" + os.path.join(self.dir, "r"), *flags]
        self.process = None
        self.start()

    def start(self):
        """Each process has a token of its own, by which the server tells who
        wrote what."""
        self.starts += 1
        with open(self.config, "w", encoding="utf-8") as handle:
            handle.write(KUBECONFIG.format(
                url=self.url,
                token=f"{os.path.basename(self.dir)}-{self.starts}"))
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                self.args, stdout=log, stderr=log, env=self.environment)

    def messages(self):
        with open(self.log_path, encoding="utf-8") as handle:
            return handle.read()

    def get(self, path):
        connection = UnixConnection(self.http_path)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def serves(self):
        """Its socket is there a moment before anybody listens on it."""
        try:
            return self.get("/readyz") is not None
        except OSError:
            if self.process.poll() is not None:
                raise AssertionError("it ended: " + self.messages()) from None
            return False

    def ready(self):
        return self.serves() and self.get("/readyz")[0] == 200

    def kill(self):
        self.process.kill()
        self.process.wait(PATIENCE)

    def heeds_sigterm(self):
        """One that has only just been started would simply be ended by it. Any
        thread tells: the one that waits for signals shows them as not blocked."""
        tasks = f"/proc/{self.process.pid}/task"
        try:
            for task in os.listdir(tasks):
                with open(f"{tasks}/{task}/status", encoding="ascii") as handle:
                    blocked = re.search("^SigBlk:\\s*([0-9a-f]+)",
                                        handle.read(), re.M)[1]
                if int(blocked, 16) >> (signal.SIGTERM - 1) & 1 == 1:
                    return True
        except OSError:
            pass  # A thread has ended: look again.
        return self.process.poll() is not None

    def stop(self):
        """With SIGTERM; its exit code."""
        if self.process.poll() is None:
            eventually(self.heeds_sigterm, "a daemon that heeds SIGTERM")
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self.kill()
        return self.process.returncode

    def clean(self):
        self.kill()
        shutil.rmtree(self.dir, ignore_errors=True)


class Case(unittest.TestCase):
    """An API server with a kubelet and a garbage collector; daemons."""

    options = ("pod_ready_ms=20", "pod_stop_ms=5", "gc=1")

    def setUp(self):
        self.api = FakeApi(PROGRAMS["fake_api"], *self.options)
        self.addCleanup(self.api.stop)
        self.daemons = []

    def fault(self, **rule):
        """For the daemons only."""
        self.api.control("fault", agent="warmpool", **rule)

    def daemon(self, *flags):
        daemon = Daemon(self.api, *flags)
        self.daemons.append(daemon)
        self.addCleanup(self.clean, daemon)
        return daemon

    def stop_all(self):
        for daemon in self.daemons:
            self.stop(daemon)

    def stop(self, daemon):
        """Properly, so that a sanitizer has its say."""
        self.assertEqual(daemon.stop(), 0, daemon.messages()[-2000:])

    def clean(self, daemon):
        try:
            if daemon.process.poll() is None and not self.failed():
                self.stop(daemon)
        finally:
            if self.failed():
                print(f"--- {self.id()}: the end of a daemon's log\n"
                      + daemon.messages()[-4000:])
            daemon.clean()

    def failed(self):
        result = self._outcome.result
        return any(test is self for test, _ in
                   result.errors + result.failures)

    def make_pool(self, name="pool", replicas=3, **spec):
        self.api.create("sandboxtemplates", NS, name + "-template", spec={
            "podTemplate": {"spec": {"containers": [
                {"name": "main", "image": "example.com/image"}]}}})
        self.api.create("sandboxwarmpools", NS, name, spec={
            "replicas": replicas,
            "sandboxTemplateRef": {"name": name + "-template"}, **spec})

    def pool_status(self, name="pool"):
        return self.api.get("sandboxwarmpools", NS, name).get("status", {})

    def wait_filled(self, name="pool", replicas=3):
        eventually(lambda: self.pool_status(name).get("readyReplicas") ==
                   replicas and len(self.pool_sandboxes(name)) == replicas
                   and all(map(ready, self.pool_sandboxes(name))),
                   f"{replicas} sandboxes ready in {name}")

    def pool_sandboxes(self, name="pool"):
        uid = self.api.get("sandboxwarmpools", NS, name)["metadata"]["uid"]
        return [one for one in self.api.all("sandboxes")
                if controller(one) == ("SandboxWarmPool", uid)
                and "deletionTimestamp" not in one["metadata"]]

    def wait_count(self, n):
        """As many sandboxes and pods as there should be, and no more."""
        try:
            eventually(lambda: len(self.api.all("sandboxes")) == n
                       and len(self.api.all("pods")) == n,
                       f"{n} sandboxes and pods")
        except AssertionError:
            for plural in ("sandboxes", "pods", "sandboxclaims"):
                print(plural, [(one["metadata"]["name"], controller(one),
                                one["metadata"].get("deletionTimestamp"),
                                assigned(one) if plural == "sandboxclaims"
                                else ready(one))
                               for one in self.api.all(plural)])
            raise

    def make_claim(self, name, pool="pool", **spec):
        return self.api.create("sandboxclaims", NS, name, spec={
            "warmPoolRef": {"name": pool}, **spec})

    def claims_ready(self, names):
        claims = {one["metadata"]["name"]: one
                  for one in self.api.all("sandboxclaims")}
        return all(name in claims and ready(claims[name])
                   and assigned(claims[name]) for name in names)

    def wait_ready(self, *names, patience=PATIENCE):
        eventually(lambda: self.claims_ready(names),
                   f"claims ready: {names}", patience)

    def log_position(self):
        requests = self.api.control("requests")
        return len(requests)

    def writes(self, since):
        """What daemons wrote, leases and events left out."""
        return [one for one in self.api.control("requests", **{"from": since})
                if one["verb"] in ("POST", "PUT", "PATCH", "DELETE")
                and one["kind"] not in ("leases", "events")
                and one["agent"].startswith("warmpool")]

    def wait_quiet(self):
        """What was decided is written: nothing has been for a second."""
        def quiet():
            before = len(self.writes(0))
            time.sleep(1)
            return len(self.writes(0)) == before
        eventually(quiet, "no more writes")

    def judge(self, leases=0):
        breaches = Judge(leases).read(self.api.control("history"))
        self.assertEqual(breaches, [])


def now():
    return time.monotonic()
