"""warmpoold whose Redis speaks TLS, and one that cannot prove who it is.

Run by ctest: daemon_redis_tls_test.py WARMPOOLD GENERATED_DIR DEPLOY_DIR
[unittest arguments]. Exits with 77 where there is no redis-server.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

import grpc

from daemon_lease_test import claim_info, renew
from daemon_redis_test import Redis, Replica, Rig
from daemon_redis_topology_test import free_port
from daemon_test import PATIENCE, eventually, pb

PASSWORD = "open-sesame"


class Authority:
    """A folder of certificates, all by one authority."""

    def __init__(self):
        self.dir = tempfile.mkdtemp(prefix="wp-ca-")
        self.make("ca")

    def make(self, name, *more):
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
             "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj",
             "/CN=" + name, "-keyout", name + ".key", "-out", name + ".pem",
             *more], cwd=self.dir, check=True, capture_output=True,
            timeout=PATIENCE)

    def issue(self, name, alt_name):
        self.make(name, "-CA", "ca.pem", "-CAkey", "ca.key", "-addext",
                  "subjectAltName=" + alt_name)

    def path(self, name):
        return os.path.join(self.dir, name)

    def clean(self):
        shutil.rmtree(self.dir, ignore_errors=True)


class TlsRedis(Redis):
    """With a password; the test's own questions come by its socket."""

    def __init__(self, authority):
        self.authority = authority
        self.port = None
        super().__init__()

    def start(self):
        eventually(self.try_start, "redis-server")

    def try_start(self):
        """False: another program has the port just now."""
        port = self.port or free_port()
        path = self.authority.path
        with open(os.path.join(self.dir, "log"), "ab") as log:
            self.process = subprocess.Popen(
                ["redis-server", "--port", "0", "--tls-port", str(port),
                 "--bind", "127.0.0.1", "--tls-cert-file", path("redis.pem"),
                 "--tls-key-file", path("redis.key"), "--tls-ca-cert-file",
                 path("ca.pem"), "--unixsocket", self.path, "--save", "",
                 "--appendonly", "yes", "--appendfsync", "always", "--dir",
                 self.dir, "--requirepass", PASSWORD],
                stdout=log, stderr=log)
        eventually(lambda: self.process.poll() is not None or
                   self.ask("PING").startswith("NOAUTH"), "an answer or an end")
        if self.process.poll() is not None:
            return False
        self.port = port
        return True


class Tls(Rig):
    flags = ("--synthetic",)

    def setUp(self):
        super().setUp()
        self.good = self.authority()
        self.server = TlsRedis(self.good)
        self.addCleanup(self.server.clean)
        # Daemons end before their server does.
        self.addCleanup(lambda: [d.stop(signal.SIGKILL)
                                 for d in self.daemons])
        self.password = os.path.join(self.dir, "password")
        with open(self.password, "w", encoding="utf-8") as handle:
            handle.write(PASSWORD + "\n")
        os.chmod(self.password, 0o600)

    def authority(self):
        made = Authority()
        self.addCleanup(made.clean)
        made.issue("redis", "IP:127.0.0.1")
        made.issue("client", "DNS:client")
        return made

    def start_with(self, name, *flags, host="127.0.0.1", port=None):
        """A busy machine is not a silent server: it has time to answer."""
        path = self.good.path
        daemon = Replica(
            name, self.state, f"rediss://{host}:{port or self.server.port}",
            "--redis-timeout=60s", "--redis-password-file=" + self.password,
            "--redis-tls-ca=" + path("ca.pem"),
            "--redis-tls-cert=" + path("client.pem"),
            "--redis-tls-key=" + path("client.key"), *self.flags, *flags)
        self.daemons.append(daemon)
        return daemon

    def check_works(self, daemon, claim):
        eventually(lambda: self.code(daemon.claim, claim) ==
                   grpc.StatusCode.OK, "a claim")
        self.assertTrue(daemon.release(daemon.claim(claim)).was_held)

    def test_leases_outlive_both(self):
        daemon = self.start_with("a").wait_full(3)
        held = daemon.claim("held")
        renew(daemon, held)
        self.check_works(daemon, "first")
        self.assertIn("rediss://:***@127.0.0.1", daemon.messages())
        daemon.stop(signal.SIGKILL)
        again = self.start_with("b").wait_full(3)
        self.assertEqual(again.claim("held").sandbox, held.sandbox)
        self.server.stop()
        self.server.start()
        self.check_works(again, "second")
        self.assertEqual(claim_info(again, "held").state,
                         pb.CLAIM_STATE_HELD)
        renew(again, held)
        for one in self.daemons:
            self.assertNotIn("sesame", one.messages())

    def refused(self, why, *flags, **where):
        """Nothing starts, and nothing is said to that server."""
        daemon = self.start_with("r", *flags, **where)
        self.assertEqual(daemon.process.wait(PATIENCE), 1)
        self.assertIn(why, daemon.messages())
        self.assertNotIn("sesame", daemon.messages())

    def test_who_cannot_prove_it_is_refused(self):
        other = self.authority()
        self.refused("certificate is not trusted by redis_tls_ca: ",
                     "--redis-tls-ca=" + other.path("ca.pem"))
        self.refused("certificate is not for 'localhost' (hostname mismatch)",
                     host="localhost")
        self.refused("certificate is not for 'redis.test' (hostname mismatch)",
                     "--redis-tls-name=redis.test")
        plain = Plain()
        self.addCleanup(plain.clean)
        self.refused("TLS: no answer to the greeting in time: the server may "
                     "not speak TLS", "--redis-timeout=1s", port=plain.port)

    def test_a_certificate_that_is_good_no_more(self):
        daemon = self.start_with("a").wait_full(3)
        held = daemon.claim("held")
        self.server.stop()
        self.server.authority = self.authority()
        self.server.start()
        eventually(lambda: "redis is out of reach" in daemon.messages() and
                   "is not trusted by redis_tls_ca: " in daemon.messages(),
                   "it says why")
        self.assertEqual(self.code(daemon.claim, "now"),
                         grpc.StatusCode.UNAVAILABLE)
        self.server.stop()
        self.server.authority = self.good
        self.server.start()
        self.check_works(daemon, "later")
        self.assertEqual(daemon.claim("held").sandbox, held.sandbox)


class Plain(TlsRedis):
    """Without TLS, on a port."""

    def __init__(self):
        super().__init__(None)

    def try_start(self):
        self.port = free_port()
        with open(os.path.join(self.dir, "log"), "ab") as log:
            self.process = subprocess.Popen(
                ["redis-server", "--port", str(self.port), "--bind",
                 "127.0.0.1", "--unixsocket", self.path, "--save", "",
                 "--dir", self.dir], stdout=log, stderr=log)
        eventually(lambda: self.process.poll() is not None or
                   self.ask("PING").startswith("PONG"), "an answer or an end")
        return self.process.poll() is None


if __name__ == "__main__":
    if not shutil.which("redis-server"):
        print("SKIP: redis-server is not installed")
        sys.exit(77)
    unittest.main(argv=[sys.argv[0]] + sys.argv[4:], verbosity=2)
