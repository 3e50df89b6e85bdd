"""Who may call over TCP: the access token, and what stands without it.

Run by ctest: access_token_test.py WARMPOOLD WARMPOOLCTL GENERATED_DIR
DEPLOY_DIR [unittest arguments]. Sandboxes are files.
"""

import http.client
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
import unittest

import grpc

DAEMON, CTL, GENERATED, DEPLOY = (os.path.abspath(a) for a in sys.argv[1:5])
sys.path.insert(0, GENERATED)

from warmpool.v1 import allocator_pb2 as pb  # noqa: E402

PATIENCE = 90  # Of an awaited event.
MANIFEST = os.path.join(DEPLOY, "examples", "quickstart.yaml")
POOL = pb.PoolRef(name="quickstart")
NOBODY = 65534
UNAUTHENTICATED = grpc.StatusCode.UNAUTHENTICATED


class Daemon:
    """One that listens on TCP, in a directory of its own."""

    def __init__(self, *flags, directory=None, listen="127.0.0.1:0",
                 manifest=MANIFEST):
        self.dir = directory or tempfile.mkdtemp(prefix="wp-access-")
        os.chmod(self.dir, 0o755)
        self.run = os.path.join(self.dir, "run")
        self.token_path = os.path.join(self.run, "access.token")
        self.log_path = os.path.join(self.dir, "log")
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(
                [DAEMON, "--synthetic", "--manifests=" + manifest,
                 "--lease-store=memory", "--runtime-dir=" + self.run,
                 f"--listen=unix:{self.run}/warmpoold.sock"
                 + ("," + listen if listen else ""), *flags],
                stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        self.channels = []

    def log(self):
        with open(self.log_path, encoding="utf-8") as handle:
            return handle.read()

    def started(self):
        """Until its listeners are there. What it warns of comes before."""
        end = time.monotonic() + PATIENCE
        while "listening protocol=http" not in self.log():
            if self.process.poll() is not None or time.monotonic() > end:
                raise AssertionError("it does not start: " + self.log())
            time.sleep(0.01)
        return self

    def address(self):
        return re.search(r"protocol=grpc address=(127\.0\.0\.1:\d+)",
                         self.log())[1]

    def token(self):
        with open(self.token_path, encoding="ascii") as handle:
            return handle.read().strip()

    def channel(self):
        self.channels.append(grpc.insecure_channel(
            self.address(), options=[("grpc.use_local_subchannel_pool", 1)]))
        return self.channels[-1]

    def call(self, method, request, reply, authorization=None, channel=None):
        call = (channel or self.channel()).unary_unary(
            "/warmpool.v1." + method,
            request_serializer=lambda m: m.SerializeToString(),
            response_deserializer=reply.FromString)
        metadata = [("authorization", authorization)] if authorization else []
        return call(request, timeout=PATIENCE, metadata=metadata)

    def claim(self, authorization=None, **more):
        return self.call("Allocator/Claim",
                         pb.ClaimRequest(pool=POOL, wait_ms=60000, **more),
                         pb.ClaimResponse, authorization).lease

    def pool(self, authorization=None, channel=None):
        """Needs the admin right."""
        return self.call("PoolAdmin/GetPool", pb.GetPoolRequest(pool=POOL),
                         pb.Pool, authorization, channel)

    def ctl(self, *words, env=None, **more):
        clean = {key: value for key, value in os.environ.items()
                 if not key.startswith("WARMPOOL_")}
        clean["RUNTIME_DIRECTORY"] = self.run
        return subprocess.run(
            [CTL, *words], env={**clean, **(env or {})}, capture_output=True,
            text=True, timeout=PATIENCE, check=False, **more)

    def end(self):
        for channel in self.channels:
            channel.close()
        self.channels = []
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()


class AccessToken(unittest.TestCase):
    def start(self, *flags, **more):
        daemon = Daemon(*flags, **more)
        self.addCleanup(shutil.rmtree, daemon.dir, ignore_errors=True)
        self.addCleanup(daemon.end)
        return daemon

    def refused(self, what, code=UNAUTHENTICATED):
        with self.assertRaises(grpc.RpcError) as caught:
            what()
        self.assertEqual(caught.exception.code(), code,
                         caught.exception.details())
        return caught.exception.details()

    def test_without_it_nothing_is_served(self):
        daemon = self.start().started()
        token = daemon.token()
        bearer = "Bearer " + token
        held = daemon.claim(bearer, claim_id="mine")
        self.assertTrue(held.token)
        # A repeat of a claim would tell its lease's token; so may nobody.
        for wrong in (None, token, "Basic " + token, bearer + "0",
                      bearer[:-1], "Bearer " + "0" * 64, "Bearer"):
            said = self.refused(lambda: daemon.claim(wrong, claim_id="mine"))
            self.assertIn("access_token_file", said)
            self.assertNotIn(token, said)
        self.refused(daemon.pool)
        # The scheme is a word in any case.
        again = daemon.claim("bEARER " + token, claim_id="mine")
        self.assertEqual(again.token, held.token)
        # Each call is judged, not its connection.
        channel = daemon.channel()
        self.assertEqual(daemon.pool(bearer, channel).ref.name, "quickstart")
        self.refused(lambda: daemon.pool(None, channel))
        self.assertNotIn(token, daemon.log())
        self.assertNotIn("level=warn", daemon.log())

    def test_the_file_is_the_daemons_own(self):
        daemon = self.start().started()
        token = daemon.token()
        self.assertRegex(token, "^[0-9a-f]{64}$")
        self.assertEqual(stat.S_IMODE(os.stat(daemon.token_path).st_mode),
                         0o600)
        self.assertEqual([n for n in os.listdir(daemon.run)
                          if n.startswith("access")], ["access.token"])
        if os.geteuid() == 0:
            done = subprocess.run(["cat", daemon.token_path], user=NOBODY,
                                  group=NOBODY, extra_groups=[],
                                  capture_output=True, check=False)
            self.assertIn(b"Permission denied", done.stderr)
            self.assertEqual(done.stdout, b"")
        # Clients may go on with it after a restart.
        self.assertEqual(daemon.end(), 0)
        daemon = self.start(directory=daemon.dir).started()
        self.assertEqual(daemon.token(), token)
        self.assertTrue(daemon.pool("Bearer " + token).ref.name)

    def test_warmpoolctl_finds_it(self):
        daemon = self.start().started()
        tcp = ("pools", "-o", "name", "-a", daemon.address())
        done = daemon.ctl(*tcp)
        self.assertEqual((done.returncode, done.stdout),
                         (0, "default/quickstart\n"), done.stderr)
        # Where it does not look for it, it is told where.
        elsewhere = {"RUNTIME_DIRECTORY": os.path.join(daemon.dir, "none")}
        done = daemon.ctl(*tcp, env=elsewhere)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("access_token_file", done.stderr)
        self.assertIn("--access-token-file", done.stderr)
        done = daemon.ctl(*tcp, "--access-token-file", daemon.token_path,
                          env=elsewhere)
        self.assertEqual(done.returncode, 0, done.stderr)
        named = {"WARMPOOL_ACCESS_TOKEN_FILE": daemon.token_path}
        done = daemon.ctl(*tcp, env={**elsewhere, **named})
        self.assertEqual(done.returncode, 0, done.stderr)
        # One that was named must be there, and be one.
        bad = os.path.join(daemon.dir, "bad")
        for text, said in ((None, "No such file"), ("two words, no token\n",
                                                    "expected one word"),
                           ("short", "expected one word"),
                           ("w" * 15, "expected one word"),
                           ("w" * 257, "expected one word"),
                           # They could be one, but not this daemon's.
                           ("w" * 16 + "\n", "needs a client"),
                           ("w" * 256 + "\n", "needs a client")):
            if text is not None:
                with open(bad, "w", encoding="utf-8") as handle:
                    handle.write(text)
            done = daemon.ctl(*tcp, "--access-token-file", bad)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(said, done.stderr)
        for text in ("", "x" * (1 << 20)):
            with open(bad, "w", encoding="utf-8") as handle:
                handle.write(text)
            done = daemon.ctl(*tcp, "--tls-ca", bad)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(f"--tls-ca {bad}: expected a PEM file of at most "
                          "1 MiB", done.stderr)
        if os.geteuid() == 0:
            done = daemon.ctl(*tcp, user=NOBODY, group=NOBODY, extra_groups=[])
            self.assertEqual(done.returncode, 1, done.stderr)

    def test_anonymous_callers_when_they_are_allowed(self):
        for flags, who in ((["--tcp-anonymous=true"], "tcp_anonymous"),
                           (["--identities=anonymous=guests"], "identities")):
            daemon = self.start(*flags).started()
            self.assertRegex(daemon.log(),
                             "(?i)warn.*without proof.*setting=" + who)
            self.assertTrue(daemon.claim(claim_id="a").token)
            self.refused(daemon.pool, grpc.StatusCode.PERMISSION_DENIED)
            self.assertTrue(daemon.pool("Bearer " + daemon.token()).ref.name)

    def test_sandboxes_without_a_token_are_told_of(self):
        said = "setting=http_require_token"
        for flag, wanted in (("--http-require-token=never", True),
                             ("--http-require-token=auto", False)):
            daemon = self.start(flag, "--http-listen=127.0.0.1:0").started()
            port = int(re.search(r"protocol=http address=127.0.0.1:(\d+)",
                                 daemon.log())[1])

            def get(path):
                connection = http.client.HTTPConnection(
                    "127.0.0.1", port, timeout=PATIENCE)
                connection.request("GET", path)
                status = connection.getresponse().status
                connection.close()
                return status
            name = daemon.claim("Bearer " + daemon.token(),
                                claim_id="a").sandbox
            self.assertEqual(get("/healthz"), 200)
            self.assertNotEqual(get("/readyz"), 401)
            self.assertEqual(get(f"/sandboxes/{name}/healthz") == 401,
                             not wanted)
            self.assertEqual(said in daemon.log(), wanted)

    def test_names_of_others_are_no_permission(self):
        daemon = self.start("--identities=uid:1=team").started()
        self.refused(lambda: daemon.claim(claim_id="a"))
        self.assertTrue(daemon.pool("Bearer " + daemon.token()).ref.name)

    def test_another_file(self):
        place = tempfile.mkdtemp(prefix="wp-access-")
        self.addCleanup(shutil.rmtree, place)
        path = os.path.join(place, "token")
        flag = "--access-token-file=" + path
        daemon = self.start(flag).started()
        self.assertFalse(os.path.exists(daemon.token_path))
        self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o600)
        with open(path, "w", encoding="ascii") as handle:
            handle.write("a-word-of-my-own\n")
        self.start(flag).started().pool("Bearer a-word-of-my-own")
        for mode, text, said in (
                (0o640, "a-word-of-my-own", "only its owner can read"),
                (0o600, "short", "expected one word of 16 to 256"),
                (0o600, "", "expected one word of 16 to 256")):
            with open(path, "w", encoding="ascii") as handle:
                handle.write(text)
            os.chmod(path, mode)
            daemon = self.start(flag)
            self.assertNotEqual(daemon.process.wait(PATIENCE), 0)
            self.assertIn("setting 'access_token_file'", daemon.log())
            self.assertIn(said, daemon.log())
        os.chmod(place, 0o777)
        daemon = self.start(flag)
        self.assertNotEqual(daemon.process.wait(PATIENCE), 0)
        self.assertIn("others can write in", daemon.log())

    def test_unix_sockets_need_none(self):
        daemon = self.start(listen=None).started()
        self.assertFalse(os.path.exists(daemon.token_path))
        done = daemon.ctl("pools", "-o", "name")
        self.assertEqual((done.returncode, done.stdout),
                         (0, "default/quickstart\n"), done.stderr)

    def test_tls_without_client_certificates(self):
        daemon = self.start(listen=None).started()  # For its directory.
        cert, key = (os.path.join(daemon.dir, n) for n in ("c.pem", "c.key"))
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
             "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj",
             "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1",
             "-keyout", key, "-out", cert], check=True, capture_output=True)
        self.assertEqual(daemon.end(), 0)
        daemon = self.start("--tls-cert=" + cert, "--tls-key=" + key,
                            directory=daemon.dir).started()
        with open(cert, "rb") as handle:
            channel = grpc.secure_channel(
                daemon.address(),
                grpc.ssl_channel_credentials(handle.read()))
        daemon.channels.append(channel)
        self.refused(lambda: daemon.pool(None, channel))
        self.assertTrue(daemon.pool("Bearer " + daemon.token(),
                                    channel).ref.name)
        done = daemon.ctl("pools", "-o", "name", "-a", daemon.address(),
                          "--tls-ca", cert)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_check_config_refuses_exposure(self):
        for flags, said in (
                (["--identities=anonymous=*admin"],
                 "'anonymous' proves nothing and cannot be *admin"),
                (["--tcp-anonymous=true", "--tls-cert=/c", "--tls-key=/k",
                  "--tls-client-ca=/a"], "setting 'tcp_anonymous'"),
                (["--tcp-anonymous=true", "--listen=0.0.0.0:0"],
                 "is not loopback"),
                (["--access-token-file=here"], "expected an absolute path")):
            done = subprocess.run(
                [DAEMON, "--check-config", "--manifests=" + MANIFEST,
                 "--listen=127.0.0.1:0", *flags], capture_output=True,
                text=True, timeout=PATIENCE, check=False)
            self.assertNotEqual(done.returncode, 0, done.stdout)
            self.assertIn(said, done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[5:])
