"""Sandboxes that reach what their pool's policy allows, through warmpool-egress.

Run by ctest: sandbox_egress_test.py WARMPOOLD WARMPOOLCTL RUNTIME INIT MANIFEST
Egress|Packages|Machine [unittest arguments]. Exits with 77, saying why, where sandboxes cannot be made.
"""

import http.server
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import unittest
import urllib.parse

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                "../../support/egress"))
import ctl_test  # noqa: E402
import package_index  # noqa: E402
from ctl_test import (DAEMON, MANIFEST, eventually,  # noqa: E402
                      sandboxes_possible)

PAGE = b"0123456789abcdef" * 4096
ENVIRONMENT = ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY",
               "no_proxy", "NO_PROXY")


class Page(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", str(len(PAGE)))
        self.end_headers()
        self.wfile.write(PAGE)

    def log_message(self, *_):
        pass


def manifest(place, policies):
    """The quickstart's template, with a pool for each policy; None: without."""
    with open(MANIFEST, encoding="utf-8") as file:
        template, _, _ = file.read().partition("\n---\n")
    path = os.path.join(place, "pools.yaml")
    with open(path, "w", encoding="utf-8") as file:
        file.write(template)
        for name, policy in policies.items():
            file.write(
                "\n---\napiVersion: extensions.agents.x-k8s.io/v1beta1\n"
                f"kind: SandboxWarmPool\nmetadata:\n  name: {name}\n"
                "  annotations:\n    pool.warmpool.io/wait-max: 60s\n")
            if policy is not None:
                file.write(f'    pool.warmpool.io/egress: "{policy}"\n')
            file.write("spec:\n  replicas: 1\n  sandboxTemplateRef:\n"
                       "    name: quickstart\n")
    return path


class Case(unittest.TestCase):
    def setUp(self):
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
        thread = threading.Thread(target=self.server.serve_forever,
                                  args=(0.02,))
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)
        self.here = f"127.0.0.1:{self.server.server_port}"
        self.place = tempfile.mkdtemp(prefix="wp-sandbox-egress-")
        self.addCleanup(shutil.rmtree, self.place, ignore_errors=True)

    def start(self, policies, *flags):
        ctl_test.MANIFEST = manifest(self.place, policies)
        daemon = ctl_test.Daemon(*flags)
        self.addCleanup(daemon.stop)
        self.daemon = daemon
        return daemon

    def claim(self, pool, *options):
        done = self.daemon.ctl("claim", pool, "--wait", "60s", "-o", "name",
                               *options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.decode().strip()

    def run_in(self, name, *argv):
        return self.daemon.ctl("exec", name, "--", *argv)

    def fetch(self, name, url, *options):
        """(status, bytes) that curl in the sandbox gets."""
        done = self.run_in(name, "curl", "-s", "-m", "60", "-w",
                           "%{http_code}", *options, url)
        return int(done.stdout[-3:] or 0), done.stdout[:-3]

    def proxies(self):
        """The numbers of the daemon's egress proxies."""
        found = subprocess.run(
            ["pgrep", "-P", str(self.daemon.process.pid), "-x",
             "warmpool-egress"[:15]], capture_output=True, check=False)
        return [int(word) for word in found.stdout.split()]


class Egress(Case):
    def test_by_pool(self):
        self.start({"walled": None, "none": "none", "listed": self.here,
                    "wide": "open"})
        for pool in ("walled", "none"):
            name = self.claim(pool)
            env = self.run_in(name, "env").stdout.decode()
            for variable in ENVIRONMENT:
                self.assertNotIn("\n" + variable + "=", "\n" + env)
            self.assertEqual(
                self.fetch(name, f"http://{self.here}/", "-x",
                           "http://127.0.0.1:3128"), (0, b""))
        name = self.claim("listed")
        env = self.run_in(name, "env").stdout.decode()
        for variable in ENVIRONMENT:
            self.assertIn("\n" + variable + "=", "\n" + env)
        # curl does not ask a proxy for what no_proxy has, nor in capitals.
        proxy = ("--noproxy", "")
        self.assertEqual(self.fetch(name, f"http://{self.here}/", *proxy),
                         (200, PAGE))
        self.assertEqual(self.fetch(name, f"http://{self.here}/", *proxy, "-p"),
                         (200, PAGE))
        status, text = self.fetch(name, "http://evil.test/")
        self.assertEqual(status, 403)
        self.assertIn(b"evil.test:80", text)
        # No interface leads around the proxy.
        self.assertEqual(self.fetch(name, f"http://{self.here}/", "--noproxy",
                                    "*"), (0, b""))
        self.assertEqual(self.fetch(self.claim("wide"), f"http://{self.here}/",
                                    *proxy)[0], 403)
        script = ("import sys, urllib.request as r; "
                  "sys.stdout.buffer.write(r.urlopen(sys.argv[1]).read())")
        done = self.run_in(name, "env", "-u", "no_proxy", "-u", "NO_PROXY",
                           "python3", "-c", script, f"http://{self.here}/")
        self.assertEqual(done.stdout, PAGE, done.stderr)
        eventually(lambda: re.search(
            rf"egress sandbox=listed-\w+ method=GET to={self.here} "
            rf"address={self.here} verdict=allowed", self.daemon.log()),
            "a line that tells of it")
        with open(f"/proc/{self.proxies()[0]}/status", encoding="ascii") as file:
            status = file.read()
        if os.geteuid() == 0:
            self.assertNotRegex(status, r"(?m)^Uid:\t.*\b0\b")
        self.assertRegex(status, r"(?m)^CapEff:\t0+$" if os.geteuid() == 0
                         else r"(?m)^NoNewPrivs:\t1$")

    def test_narrowed_by_a_claim(self):
        self.start({"listed": self.here + " *.files.test", "walled": None})
        url, proxy = f"http://{self.here}/", ("--noproxy", "")
        for _ in range(2):
            name = self.claim("listed", "--egress", "a.files.test", "--env", "A=1")
            status, text = self.fetch(name, url, *proxy)
            self.assertEqual(status, 403)
            self.assertIn(b"'a.files.test'", text)
            self.assertEqual(self.run_in(name, "printenv", "A").stdout, b"1\n")
        name = self.claim("listed", "--egress", "none", "--id", "c")
        self.assertEqual(self.fetch(name, url, *proxy)[0], 403)
        # The same again is the same; another one is another request.
        self.claim("listed", "--egress", "none", "--id", "c")
        done = self.daemon.ctl("claim", "listed", "--id", "c", "--egress",
                               self.here)
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual(self.fetch(name, url, *proxy)[0], 403)
        self.daemon.ctl("release", "c")
        # Nothing of it is in what others get.
        self.assertEqual(self.fetch(self.claim("listed"), url, *proxy)[0], 200)
        name = self.claim("listed", "--egress", self.here)
        self.assertEqual(self.fetch(name, url, *proxy)[0], 200)
        self.claim("walled", "--egress", "none")
        for pool, policy, words in (
                ("listed", "evil.test", "'evil.test' is not within the pool's "
                 f"policy, '{self.here} *.files.test'"),
                ("listed", "open", "'open' is not within"),
                ("listed", "http://x", "'http://x': expected a name"),
                ("walled", "packages", "'packages' is not within the pool's "
                 "policy, 'none'")):
            done = self.daemon.ctl("claim", pool, "--egress", policy)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(("binding.egress: " + words).encode(), done.stderr)

    def test_narrowed_and_killed(self):
        # Neither another proxy nor another daemon forgets it.
        self.start({"listed": self.here + " a.test"}, "--lease-store", "sqlite")
        name = self.claim("listed", "--egress", "a.test")
        url, proxy = f"http://{self.here}/", ("--noproxy", "")
        first, = self.proxies()
        os.kill(first, signal.SIGKILL)
        self.assertEqual(self.fetch(name, url, *proxy)[0], 403)
        self.restart()
        self.assertEqual(self.fetch(name, url, *proxy)[0], 403)

    def test_the_proxy_dies(self):
        self.start({"listed": self.here})
        name = self.claim("listed")
        url = f"http://{self.here}/"
        self.assertEqual(self.fetch(name, url, "--noproxy", "")[0], 200)
        first = self.proxies()
        self.assertEqual(len(first), 1)
        os.kill(first[0], signal.SIGKILL)
        # What is asked meanwhile waits in the sandbox's own socket.
        self.assertEqual(self.fetch(name, url, "--noproxy", "")[0], 200)
        self.assertNotEqual(self.proxies(), first)
        self.assertIn("egress proxy ended", self.daemon.log())

    def test_the_lease_ends(self):
        self.start({"listed": self.here})
        name = self.claim("listed")
        proxy, = self.proxies()
        eventually(self.daemon.full, "another one made")
        # Nobody has asked for anything: what it has are its own sockets and
        # those that it accepts from.
        held = self.sockets(proxy)
        self.assertEqual(self.daemon.ctl("release", name).returncode, 0)
        eventually(lambda: held - self.sockets(proxy), "its socket let go of")

    def test_the_daemon_is_killed(self):
        # The lease lives on, and so does its policy; whoever comes next is
        # told of the socket again.
        self.start({"listed": self.here}, "--lease-store", "sqlite")
        name = self.claim("listed")
        url = f"http://{self.here}/"
        self.assertEqual(self.fetch(name, url, "--noproxy", "")[0], 200)
        self.restart()
        self.assertEqual(self.fetch(name, url, "--noproxy", "")[0], 200)
        self.assertEqual(self.fetch(name, "http://evil.test/")[0], 403)
        self.assertIn("adopted=", self.daemon.log())

    def restart(self):
        daemon = self.daemon
        first, = self.proxies()
        daemon.process.kill()
        daemon.process.wait()
        eventually(lambda: not os.path.exists(f"/proc/{first}"),
                   "the proxy's end with its daemon")
        with open(daemon.log_path, "a", encoding="utf-8") as log:
            daemon.process = subprocess.Popen(
                daemon.process.args, stdout=log, stderr=log,
                stdin=subprocess.DEVNULL)
        eventually(daemon.full, "all sandboxes ready")

    @staticmethod
    def sockets(pid):
        found = set()
        for fd in os.listdir(f"/proc/{pid}/fd"):
            try:
                target = os.readlink(f"/proc/{pid}/fd/{fd}")
            except FileNotFoundError:
                continue
            if target.startswith("socket:"):
                found.add(target)
        return found

    def test_bad_policies(self):
        for policy, words in (("http://x", "http://x"), ("none x", "none"),
                              ("10.0.0.1/8", "10.0.0.1/8")):
            path = manifest(self.place, {"p": policy})
            done = subprocess.run(
                [DAEMON, "--manifests", path, "--runtime-dir",
                 os.path.join(self.place, "run"), "--check-config"],
                capture_output=True, timeout=90, check=False)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(b"pool.warmpool.io/egress", done.stderr + done.stdout)
            self.assertIn(words.encode(), done.stderr + done.stdout)


def pip_index():
    """The index that the machine's own pip configuration names; None."""
    done = subprocess.run([sys.executable, "-m", "pip", "config", "list"],
                          capture_output=True, text=True, check=False)
    found = re.search(r"index-url='([^']+)'", done.stdout)
    return found.group(1) if found else None


class Packages(Case):
    def install(self, url, package, module):
        """In a sandbox whose policy is `packages`, the hosts of url."""
        parts = urllib.parse.urlsplit(url)
        usual = {"http": 80, "https": 443}[parts.scheme]
        port = f":{parts.port}" if parts.port not in (None, usual) else ""
        hosts = [parts.hostname, *sorted({
            info[4][0] for info in socket.getaddrinfo(parts.hostname, None,
                                                      socket.AF_INET)})]
        self.start({"py": "packages other.test"}, "--egress-packages",
                   " ".join(host + port for host in hosts))
        with open(os.path.join(self.place, "token"), "w",
                  encoding="ascii") as file:
            file.write("t0k")
        name = self.claim("py", "--env", "KEY=value", "--secret",
                          "TOKEN=@" + file.name, "--egress", "packages")
        self.assertEqual(self.fetch(name, "http://other.test/")[0], 403)
        done = self.run_in(
            name, "sh", "-c",
            "python3 -m pip install --quiet --disable-pip-version-check "
            "--no-deps --target /workspace/lib --index-url $1 "
            "--trusted-host $2 $3 && "
            "PYTHONPATH=/workspace/lib python3 -c \"import $4\"", "sh", url,
            parts.hostname, package, module)
        self.assertEqual(done.returncode, 0, (done.stdout, done.stderr))

    def test_an_index_here(self):
        index = package_index.Index()
        self.addCleanup(index.stop)
        self.install(index.url, "wp-small", "wp_small")
        eventually(lambda: f"to={index.host.lower()}"
                   in self.daemon.log(), "the log tells of it")


class Machine(Packages):
    test_an_index_here = None

    def test_its_index(self):
        self.install(pip_index(), "six", "six")


if __name__ == "__main__":
    signal.alarm(600)
    WHY = sandboxes_possible()
    if WHY is None and sys.argv[6:] == ["Machine"] and pip_index() is None:
        WHY = "the machine's pip configuration names no index"
    if WHY is not None:
        print("SKIP:", WHY)
        sys.exit(77)
    unittest.main(argv=sys.argv[:1] + sys.argv[6:])
