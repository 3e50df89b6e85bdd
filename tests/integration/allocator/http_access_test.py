"""Who may call over HTTP: beyond loopback with TLS and a proof, or by an address
that a setting trusts.

Run by ctest: http_access_test.py WARMPOOLD WARMPOOLCTL GENERATED_DIR DEPLOY_DIR
[unittest arguments]. Sandboxes are files.
"""

import http.client
import json
import os
import re
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from access_token_test import (DAEMON, MANIFEST, PATIENCE,  # noqa: E402
                               Daemon)

ADMIN = "the-token-of-these-tests"
SESSION = "/api/sessions/s1/sandbox?user_id=someone"


class Authority:
    """Makes certificates in a directory, with the openssl program."""

    def __init__(self, directory):
        self.dir = directory
        self.run("req", "-x509", "-newkey", "ec", "-pkeyopt",
                 "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj",
                 "/CN=authority", "-keyout", "ca.key", "-out", "ca.pem")

    def run(self, *words):
        subprocess.run(["openssl", *words], cwd=self.dir, check=True,
                       capture_output=True)

    def path(self, name):
        return os.path.join(self.dir, name)

    def sign(self, name, common):
        self.run("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
                 "-nodes", "-subj", "/CN=" + common, "-keyout", name + ".key",
                 "-out", name + ".csr", "-addext",
                 "subjectAltName=IP:127.0.0.1")
        self.run("x509", "-req", "-in", name + ".csr", "-CA", "ca.pem",
                 "-CAkey", "ca.key", "-CAcreateserial", "-days", "2",
                 "-copy_extensions", "copy", "-out", name + ".new")
        os.chmod(self.path(name + ".key"), 0o600)
        os.replace(self.path(name + ".new"), self.path(name + ".pem"))

    def context(self, client=None):
        context = ssl.create_default_context(cafile=self.path("ca.pem"))
        if client is not None:
            context.load_cert_chain(self.path(client + ".pem"),
                                    self.path(client + ".key"))
        return context


class Case(unittest.TestCase):
    def setUp(self):
        self.place = tempfile.mkdtemp(prefix="wp-http-access-")
        self.addCleanup(shutil.rmtree, self.place, ignore_errors=True)
        self.token = os.path.join(self.place, "token")
        with open(self.token, "w", encoding="ascii") as handle:
            handle.write(ADMIN)
        os.chmod(self.token, 0o600)

    def start(self, *flags):
        daemon = Daemon("--http-token-file=" + self.token,
                        "--session-pool=quickstart", *flags, listen=None)
        self.addCleanup(shutil.rmtree, daemon.dir, ignore_errors=True)
        self.addCleanup(daemon.end)
        daemon.started()
        self.daemon = daemon
        self.ports = [int(port) for port in re.findall(
            r"protocol=http address=\S+:(\d+)\n", daemon.log() + "\n")]
        return daemon

    def ask(self, port, method, path, context=None, source=None, **headers):
        connection = (
            http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE,
                                       source_address=source)
            if context is None else
            http.client.HTTPSConnection("127.0.0.1", port, timeout=PATIENCE,
                                        context=context))
        try:
            connection.request(method, path, headers=headers)
            answer = connection.getresponse()
            text = answer.read()
            return answer.status, (json.loads(text) if text[:1] == b"{"
                                   else text.decode())
        finally:
            connection.close()


class Tls(Case):
    def setUp(self):
        super().setUp()
        self.ca = Authority(self.place)
        self.ca.sign("server", "daemon")

    def start(self, *flags):
        path = self.ca.path
        return super().start(
            "--http-listen=0.0.0.0:0", "--tls-cert=" + path("server.pem"),
            "--tls-key=" + path("server.key"), *flags)

    def test_a_token_is_needed(self):
        self.start()
        port, = self.ports
        context = self.ca.context()
        bearer = {"Authorization": "Bearer " + ADMIN}
        self.assertEqual(self.ask(port, "GET", "/healthz", context)[0], 200)
        for path in ("/metrics", SESSION, "/sandboxes/x/"):
            self.assertEqual(self.ask(port, "GET", path, context)[0], 401,
                             path)
        self.assertEqual(self.ask(port, "GET", "/metrics", context,
                                  **bearer)[0], 200)
        status, body = self.ask(port, "POST", SESSION, context, **bearer)
        self.assertEqual(status, 200, body)
        self.assertTrue(body["mcp_url"].startswith(
            f"https://127.0.0.1:{port}/sandboxes/"), body)
        # In clear there is nothing, not even an answer.
        with self.assertRaises((OSError, http.client.HTTPException)):
            self.ask(port, "GET", "/healthz")
        # Nor by another protocol, or an old one.
        context.set_alpn_protocols(["h2"])
        with self.assertRaises(OSError):
            self.ask(port, "GET", "/healthz", context)

    def test_many_requests_on_one_connection(self):
        self.start()
        connection = http.client.HTTPSConnection(
            "127.0.0.1", self.ports[0], timeout=PATIENCE,
            context=self.ca.context())
        self.addCleanup(connection.close)
        for _ in range(50):
            connection.request("GET", "/metrics", headers={
                "Authorization": "Bearer " + ADMIN})
            answer = connection.getresponse()
            self.assertEqual(answer.status, 200)
            self.assertGreater(len(answer.read()), 4096)

    def test_certificates(self):
        self.ca.sign("admin", "admin.example")
        self.ca.sign("blue", "blue.example")
        self.ca.sign("stranger", "stranger.example")
        self.start("--tls-client-ca=" + self.ca.path("ca.pem"),
                   "--identities=admin.example=*admin,blue.example=blue")
        port, = self.ports
        for client, status in (("admin", 200), ("blue", 200),
                               ("stranger", 401), (None, 401)):
            context = self.ca.context(client)
            self.assertEqual(self.ask(port, "GET", "/metrics", context)[0],
                             status, client)
            self.assertEqual(self.ask(port, "POST", SESSION, context)[0],
                             status, client)
        # Each has a sandbox of its own, and the way to no other's.
        def box(client):
            return self.ask(port, "GET", SESSION, self.ca.context(client))[1][
                "sandbox_id"]

        admins, blues = box("admin"), box("blue")
        self.assertNotEqual(admins, blues)
        for client, sandbox, status in (
                ("blue", admins, 404), ("admin", blues, 502),
                ("blue", blues, 502), ("stranger", blues, 401)):
            # 502: nothing runs in sandboxes that are files.
            self.assertEqual(
                self.ask(port, "GET", f"/sandboxes/{sandbox}/",
                         self.ca.context(client))[0], status,
                (client, sandbox))
        # A certificate that nobody here has signed.
        place = tempfile.mkdtemp(prefix="wp-http-access-")
        self.addCleanup(shutil.rmtree, place, ignore_errors=True)
        other = Authority(place)
        other.sign("admin", "admin.example")
        context = self.ca.context()
        context.load_cert_chain(other.path("admin.pem"),
                                other.path("admin.key"))
        with self.assertRaises(OSError):
            self.ask(port, "GET", "/healthz", context)

    def serial(self):
        with socket.create_connection(("127.0.0.1", self.ports[0])) as raw, \
                self.ca.context().wrap_socket(
                    raw, server_hostname="127.0.0.1") as peer:
            return peer.getpeercert()["serialNumber"]

    def test_a_new_certificate(self):
        self.start()
        before = self.serial()
        self.ca.sign("server", "daemon")
        end = time.monotonic() + PATIENCE
        while self.serial() == before:
            self.assertLess(time.monotonic(), end)
            time.sleep(0.01)

    def test_a_silent_handshake_is_ended(self):
        self.start("--http-head-timeout=100ms")
        with socket.create_connection(("127.0.0.1", self.ports[0])) as peer:
            peer.settimeout(PATIENCE)
            peer.sendall(b"\x16\x03\x01")
            try:
                self.assertEqual(peer.recv(1), b"")
            except ConnectionError:
                pass


class Trust(Case):
    def test_by_address_and_route(self):
        self.start("--http-listen=127.0.0.1:0", "--trusting-listen=0.0.0.0:0",
                   "--trust-sessions=127.0.0.2,10.0.0.0/8",
                   "--trust-sandboxes=127.0.0.3/32,fd00::/8")
        own, trusting = self.ports
        self.assertIn("without proof of who they are", self.daemon.log())
        agent, router, other = (("127.0.0.2", 0), ("127.0.0.3", 0),
                                ("127.0.0.4", 0))
        status, body = self.ask(trusting, "POST", SESSION, source=agent)
        self.assertEqual(status, 200, body)
        box = body["sandbox_id"]
        for port in (own, trusting):
            self.assertEqual(self.ask(port, "GET", SESSION,
                                      source=agent)[0], 200)
            self.assertEqual(self.ask(port, "GET", SESSION,
                                      source=router)[0], 401)
            for path, headers in ((f"/sandboxes/{box}/", {}),
                                  ("/execute", {
                                      "X-Sandbox-ID": box,
                                      "X-Sandbox-Namespace": "default",
                                      "X-Sandbox-Port": "8888"})):
                self.assertEqual(self.ask(port, "GET", path, source=agent,
                                          **headers)[0], 401)
                # 502: nothing runs in it.
                self.assertEqual(self.ask(port, "GET", path, source=router,
                                          **headers)[0], 502)
        # Who is not trusted is not let in there; elsewhere it needs a token.
        for path in ("/healthz", SESSION):
            self.assertEqual(self.ask(trusting, "GET", path,
                                      source=other)[0], 403)
        self.assertEqual(self.ask(own, "GET", SESSION, source=other)[0], 401)
        # Nothing else is served there in clear; a probe is.
        self.assertEqual(self.ask(trusting, "GET", "/metrics",
                                  source=agent)[0], 401)
        self.assertEqual(self.ask(trusting, "GET", "/healthz",
                                  source=agent)[0], 200)

    def test_without_own_listeners(self):
        self.start("--http-listen=none", "--trusting-listen=127.0.0.1:0",
                   "--trust-sessions=127.0.0.1")
        self.assertEqual(len(self.ports), 1)
        self.assertEqual(self.ask(self.ports[0], "POST", SESSION)[0], 200)


class Config(Case):
    def refused(self, what, *flags):
        done = subprocess.run(
            [DAEMON, "--check-config", "--manifests=" + MANIFEST,
             "--runtime-dir=" + self.place + "/run", *flags],
            capture_output=True, text=True, timeout=PATIENCE, check=False)
        self.assertEqual(done.returncode, 2, (done.stdout, done.stderr))
        self.assertIn(what, done.stderr)

    def test_exposure_without_proof_is_refused(self):
        tls = ("--tls-cert=/c", "--tls-key=/k")
        self.refused("'http_listen': '0.0.0.0:80' is not loopback, which "
                     "needs TLS", "--http-listen=0.0.0.0:80")
        self.refused("never is for loopback only",
                     "--http-listen=0.0.0.0:80",
                     "--http-require-token=never", *tls)
        self.refused("nobody is trusted", "--trusting-listen=0.0.0.0:80")
        self.refused("expected host:port", "--trusting-listen=unix:/x",
                     "--trust-sessions=10.0.0.0/8")
        for setting in ("--trust-sessions=", "--trust-sandboxes="):
            for everybody in ("0.0.0.0/0", "::/0", "::ffff:0:0/96"):
                self.refused("which is everybody", setting + everybody)
            for mistake in ("10.0.0.1/8", "fd00::1/8"):
                self.refused("no bits behind the prefix", setting + mistake)
            for nothing in ("10.0.0.0/33", "name", "10.0.0.0/", "10.0.0/8",
                            "::1/129", "/8", "10.0.0.0/-1"):
                self.refused("expected an address or a network",
                             setting + nothing)

    def test_settings_of_sessions(self):
        for wrong in ("No", "a/b/c", "/a", "a/", "x" * 70):
            self.refused("'session_pool': expected", "--session-pool=" + wrong)
        for wrong in ("host:80", "http://", "http://host/", "ftp://host",
                      "http://host/?a", 'http://"'):
            self.refused("'session_url': expected", "--session-url=" + wrong)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[5:])
