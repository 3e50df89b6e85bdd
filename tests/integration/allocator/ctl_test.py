"""warmpoolctl against a whole daemon with real sandboxes.

Run by ctest: ctl_test.py WARMPOOLD WARMPOOLCTL RUNTIME INIT MANIFEST
[unittest arguments]. Exits with 77, saying why, where sandboxes cannot be made.
"""

import contextlib
import hashlib
import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
import unittest

DAEMON, CTL, RUNTIME, INIT, MANIFEST = map(os.path.abspath, sys.argv[1:6])
PATIENCE = 90  # Seconds for an awaited event.
POOL = "quickstart"
SIZE = 4


def eventually(check, what):
    """Polls until check() is true; a bounded wait for an event."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        value = check()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError("still not: " + what)


class Daemon:
    """A warmpoold on sockets in a directory of its own."""

    def __init__(self, *flags, tcp=False):
        self.dir = tempfile.mkdtemp(prefix="wp-ctl-")
        # Sandboxes run as users of their own and pass through it.
        os.chmod(self.dir, 0o711)
        self.run = os.path.join(self.dir, "run")
        manifest = os.path.join(self.dir, "pool.yaml")
        with open(MANIFEST, encoding="utf-8") as source:
            text = re.sub(r"replicas: \d+", f"replicas: {SIZE}", source.read())
        with open(manifest, "w", encoding="utf-8") as target:
            target.write(text)
        if tcp:
            flags += ("--listen",
                      f"unix:{self.run}/warmpoold.sock,127.0.0.1:0")
        self.log_path = os.path.join(self.dir, "log")
        with open(self.log_path, "w", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                [DAEMON, "--manifests", manifest, "--runtime-dir", self.run,
                 "--state-dir", os.path.join(self.dir, "state"),
                 "--lease-store", "memory", "--sandbox-limits", "best_effort",
                 "--runtime-path", RUNTIME, "--init-path", INIT,
                 "--stop-leaves", "nothing", *flags],
                stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        self.env = dict(os.environ, RUNTIME_DIRECTORY=self.run,
                        XDG_STATE_HOME=os.path.join(self.dir, "home"),
                        PATH=os.path.dirname(CTL) + ":" + os.environ["PATH"])
        for name in ("WARMPOOL_ADDRESS", "WARMPOOL_HTTP", "WARMPOOL_TENANT",
                     "WARMPOOL_ACCESS_TOKEN_FILE"):
            self.env.pop(name, None)
        try:
            eventually(self.full, "all sandboxes ready")
        except BaseException:
            print(self.log(), file=sys.stderr)
            self.stop()
            raise

    def log(self):
        with open(self.log_path, encoding="utf-8") as file:
            return file.read()

    def ctl(self, *words, data=b"", env=None):
        """Runs warmpoolctl to its end; output as bytes."""
        return subprocess.run([CTL, *words], input=data, capture_output=True,
                              env={**self.env, **(env or {})},
                              timeout=PATIENCE + 30, check=False)

    def json(self, *words):
        done = self.ctl(*words, "--output", "json")
        if done.returncode != 0:
            raise AssertionError(done.stderr.decode())
        return json.loads(done.stdout)

    def pool(self):
        return self.json("pools", POOL)["pools"][0]

    def full(self):
        if self.process.poll() is not None:
            raise AssertionError("warmpoold has exited")
        done = self.ctl("pools", "-o", "json")
        if done.returncode != 0:
            return False
        pool = json.loads(done.stdout)["pools"][0]
        return pool["sandboxes"]["ready"] == pool["sandboxes"]["target"]

    def stop(self):
        code = 0
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                code = self.process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        shutil.rmtree(self.dir, ignore_errors=True)
        assert code in (0, -signal.SIGTERM), f"warmpoold ended with {code}"


class CtlCase(unittest.TestCase):
    """One daemon for all the tests of a class."""

    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon()

    @classmethod
    def tearDownClass(cls):
        cls.daemon.stop()

    def claim(self, *options):
        """A claim's id; it is released when the test ends."""
        done = self.daemon.ctl("claim", POOL, "--wait", "60s", "-o", "name",
                               *options)
        self.assertEqual(done.returncode, 0, done.stderr)
        name = done.stdout.decode().strip()
        self.addCleanup(self.daemon.ctl, "release", name)
        return name

    def expect(self, done, code, out=None, errors=None):
        self.assertEqual(done.returncode, code, (done.stdout, done.stderr))
        if out is not None:
            self.assertEqual(done.stdout, out)
        if errors is not None:
            self.assertIn(errors, done.stderr.decode())


class Leases(CtlCase):
    def test_life_of_a_claim(self):
        lease = self.daemon.json("claim", POOL, "--id", "life", "--ttl", "5m",
                                 "--wait", "60s")
        self.assertEqual(lease["claim_id"], "life")
        self.assertEqual(lease["pool"], POOL)
        self.assertFalse(lease["replayed"])
        self.assertRegex(lease["token"], "^[0-9a-f]{136}$")
        again = self.daemon.json("claim", POOL, "--id", "life", "--ttl", "5m",
                                 "--wait", "60s")
        self.assertTrue(again["replayed"])
        self.assertEqual(again["sandbox"], lease["sandbox"])

        info = self.daemon.json("get", "life")
        self.assertEqual(info["state"], "held")
        self.assertEqual(info["sandbox"], lease["sandbox"])
        self.assertNotIn("token", info)
        listed = self.daemon.json("list", "--pool", POOL)["claims"]
        self.assertIn("life", [claim["claim_id"] for claim in listed])
        names = self.daemon.ctl("list", "-o", "name").stdout.decode().split()
        self.assertIn("life", names)

        renewed = self.daemon.json("renew", "life", "--ttl", "9m")
        self.assertGreater(renewed["deadline_unix_ms"],
                           lease["deadline_unix_ms"])
        self.assertEqual(self.daemon.json("release", "life"),
                         {"released": [{"claim_id": "life",
                                        "was_held": True}]})
        self.expect(self.daemon.ctl("get", "life"), 3, b"", "no such claim")
        # Its token is forgotten with it.
        self.expect(self.daemon.ctl("release", "life"), 1, b"",
                    "no lease token is remembered")

    def test_same_id_with_another_request(self):
        name = self.claim("--ttl", "5m")
        self.expect(self.daemon.ctl("claim", POOL, "--id", name, "--ttl",
                                    "6m"), 1)

    def test_token_file_is_private_and_portable(self):
        lease = self.daemon.ctl("claim", POOL, "--id", "tok", "--wait", "60s",
                                "-o", "json").stdout
        folder = os.path.join(self.daemon.dir, "home/warmpool/claims")
        mode = os.stat(os.path.join(folder, "tok.json")).st_mode
        self.assertEqual(stat.S_IMODE(mode), 0o600)
        self.assertEqual(stat.S_IMODE(os.stat(folder).st_mode), 0o700)
        # Another user's home: the token travels in a file or on a pipe.
        other = {"XDG_STATE_HOME": os.path.join(self.daemon.dir, "other")}
        self.expect(self.daemon.ctl("renew", "tok", env=other), 1, b"",
                    "--token-file")
        self.expect(self.daemon.ctl("renew", "tok", "--token-file", "-",
                                    data=lease, env=other), 0)
        self.expect(self.daemon.ctl("release", "tok", "--token",
                                    json.loads(lease)["token"], env=other), 0)
        # Releasing twice does no harm, and says so.
        done = self.daemon.ctl("release", "tok", "-o", "json")
        self.assertFalse(json.loads(done.stdout)["released"][0]["was_held"])

    def test_a_forged_token(self):
        name = self.claim()
        done = self.daemon.ctl("release", name, "--token", "00" * 68)
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual(self.daemon.json("get", name)["state"], "held")

    def test_batch(self):
        done = self.daemon.ctl("claim", POOL, "-n", "2", "--id", "b", "--wait",
                               "60s", "-o", "name")
        self.expect(done, 0, b"b-1\nb-2\n")
        self.expect(self.daemon.ctl("release", "b-1", "b-2"), 0,
                    b"b-1 released\nb-2 released\n")

    def test_all_or_nothing(self):
        done = self.daemon.ctl("claim", POOL, "-n", str(SIZE + 60),
                               "--all-or-nothing", "--id", "aon", "-o", "json")
        self.expect(done, 5, b"")
        error = json.loads(done.stderr)["error"]
        self.assertEqual(error["code"], "RESOURCE_EXHAUSTED")
        self.assertGreater(error["retry_after_ms"], 0)
        eventually(lambda: self.daemon.ctl("get", "aon-1").returncode == 3,
                   "what was granted taken back")

    def test_unknown_things(self):
        self.expect(self.daemon.ctl("claim", "nope"), 3, b"",
                    "pool: 'nope' in namespace 'default' does not exist")
        self.expect(self.daemon.ctl("pools", "nope"), 3, b"", "nope")
        self.expect(self.daemon.ctl("scale", "nope", "1"), 3)
        self.expect(self.daemon.ctl("claim", POOL, "--ttl", "30d"), 2, b"",
                    "--ttl sets it")
        self.expect(self.daemon.ctl("pools", "--address", "http://127.0.0.1:1"),
                    2, b"", "expected HOST:PORT or unix:/PATH")
        self.expect(self.daemon.ctl("claim", POOL, "--id", "a\nb"), 2, b"",
                    "claim_id")

    def test_another_protocol_is_served_there(self):
        with socket.create_server(("127.0.0.1", 0)) as server:
            def serve():
                with contextlib.suppress(OSError):
                    while True:
                        client, _ = server.accept()
                        with client:
                            client.recv(1024)
                            client.sendall(b"HTTP/1.1 400 No\r\n\r\n")
            threading.Thread(target=serve, daemon=True).start()
            address = f"127.0.0.1:{server.getsockname()[1]}"
            done = self.daemon.ctl("pools", "-a", address)
        self.assertEqual(done.returncode, 4)
        self.assertRegex(
            done.stderr.decode().splitlines()[0],
            f"^warmpoolctl: cannot reach warmpoold at {address}: "
            "[ -~]*http1.x server$")

    def test_nobody_there(self):
        gone = {"RUNTIME_DIRECTORY": "/nonexistent"}
        self.expect(self.daemon.ctl("pools", env=gone), 4, b"",
                    "cannot reach warmpoold at unix:/nonexistent/")
        self.expect(self.daemon.ctl("exec", "x", "ls", env=gone), 125, b"",
                    "Is it running?")


class Exec(CtlCase):
    def run_in(self, name, *command, data=b"", options=()):
        return self.daemon.ctl("exec", name, *options, "--", *command,
                               data=data)

    def test_streams_and_exit_code(self):
        name = self.claim()
        done = self.run_in(name, "sh", "-c", "cat; echo err >&2; exit 7",
                           data=b"in\0\n")
        self.expect(done, 7, b"in\0\n")
        self.assertEqual(done.stderr, b"err\n")

    def test_closed_streams(self):
        """A stream that is closed is not another descriptor of ours."""
        name = self.claim()

        def closed(streams, *command):
            return subprocess.run(
                ["sh", "-c", 'exec "$0" "$@" ' + streams, CTL, "exec", name,
                 "--", *command], env=self.daemon.env, capture_output=True,
                timeout=PATIENCE, check=False)
        self.expect(closed("<&- >&- 2>&-", "true"), 0, b"")
        self.expect(closed("<&-", "cat"), 0, b"")
        self.expect(closed("<&- >&-", "echo", "x"), 125, b"",
                    "cannot write the command's output")
        self.expect(closed(">&- 2>&-", "sh", "-c", "echo x >&2; exit 3"), 125,
                    b"")

    def test_output_that_cannot_be_written(self):
        name = self.claim()
        with open("/dev/full", "wb") as full:
            done = subprocess.run(
                [CTL, "exec", name, "--", "echo", "x"], env=self.daemon.env,
                stdin=subprocess.DEVNULL, stdout=full, stderr=subprocess.PIPE,
                timeout=PATIENCE, check=False)
        self.assertEqual(done.returncode, 125)
        self.assertIn(b"No space left on device", done.stderr)

    def test_conventions(self):
        name = self.claim()
        self.expect(self.run_in(name, "no-such-command"), 127, b"",
                    "no-such-command")
        self.expect(self.run_in(name, "/etc/passwd"), 126)
        self.expect(self.run_in(name, "sh", "-c", "kill -9 $$"), 137)
        self.expect(self.run_in(name, "sleep", "60",
                                options=("--time-limit", "200ms")), 124, b"",
                    "time limit")
        self.expect(self.daemon.ctl("exec", "nope", "ls"), 125, b"",
                    "claim 'nope' is not held")
        self.expect(self.daemon.ctl("exec", name), 125, b"", "COMMAND")

    def test_environment_and_folder(self):
        name = self.claim()
        done = self.run_in(name, "sh", "-c", 'echo "$A-$B"; pwd',
                           options=("-e", "A=x=y", "--env", "B=", "-C",
                                    "/tmp"))
        self.expect(done, 0, b"x=y-\n/tmp\n")

    def test_much_data_both_ways(self):
        name = self.claim()
        data = os.urandom(1 << 20) * 12
        done = self.run_in(name, "cat", data=data)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(hashlib.sha256(done.stdout).digest(),
                         hashlib.sha256(data).digest())

    def test_no_stdin(self):
        name = self.claim()
        self.expect(self.run_in(name, "wc", "-c", data=b"abc",
                                options=("--no-stdin",)), 0, b"0\n")

    def start(self, name, script):
        return subprocess.Popen(
            [CTL, "exec", name, "--no-stdin", "--", "sh", "-c", script],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env=self.daemon.env)

    def test_signals_are_passed_on(self):
        name = self.claim()
        process = self.start(name, "trap 'echo got; exit 5' TERM; echo up; "
                                   "while :; do sleep 0.02; done")
        self.assertEqual(process.stdout.readline(), b"up\n")
        process.send_signal(signal.SIGTERM)
        out, errors = process.communicate(timeout=PATIENCE)
        self.assertEqual((process.returncode, out), (5, b"got\n"), errors)

    def test_second_interrupt_gives_up(self):
        name = self.claim()
        process = self.start(name, "trap 'echo got' INT; echo up; "
                                   "while :; do sleep 0.02; done")
        self.assertEqual(process.stdout.readline(), b"up\n")
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.stdout.readline(), b"got\n")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 130)

    def test_a_reader_that_leaves_ends_the_command(self):
        name = self.claim()
        process = self.start(name, "echo $$ > pid; exec yes")
        self.assertEqual(process.stdout.readline(), b"y\n")
        process.stdout.close()
        process.wait(PATIENCE)
        process.stderr.close()
        eventually(lambda: self.run_in(
            name, "sh", "-c", "kill -0 $(cat pid)").returncode != 0,
            "the command is gone")

    def test_a_released_sandbox_ends_the_session(self):
        name = self.claim()
        process = self.start(name, "echo up; exec sleep 600")
        self.assertEqual(process.stdout.readline(), b"up\n")
        self.expect(self.daemon.ctl("release", name), 0)
        process.communicate(timeout=PATIENCE)
        self.assertIn(process.returncode, (125, 137))

    def test_a_lease_that_has_ended(self):
        name = self.claim("--ttl", "1s")
        eventually(lambda: self.daemon.ctl("get", name).returncode == 3,
                   "the lease has ended")
        # Its sandbox is still remembered here: say what became of it.
        self.expect(self.run_in(name, "ls"), 125, b"",
                    f"claim '{name}' is not held")
        self.expect(self.daemon.ctl("cp", name + ":x", "-"), 3, b"",
                    f"claim '{name}' is not held")

    def test_a_lost_sandbox(self):
        name = self.claim()
        # All that it may kill, the server it runs in included.
        self.run_in(name, "sh", "-c", "kill -9 -1")
        info = eventually(
            lambda: (lambda i: i["state"] == "lost" and i)(
                self.daemon.json("get", name)), "the loss is noticed")
        self.assertNotEqual(info["lost_reason"], "")
        self.expect(self.run_in(name, "ls"), 125, b"", "is gone: ")


class Copy(CtlCase):
    def path(self, name):
        return os.path.join(self.daemon.dir, name)

    def test_there_and_back(self):
        name = self.claim()
        data = os.urandom(3 << 20)
        with open(self.path("a b%é.bin"), "wb") as file:
            file.write(data)
        self.expect(self.daemon.ctl("cp", self.path("a b%é.bin"), name + ":"),
                    0, b"")
        self.expect(self.daemon.ctl("cp", name + ":a b%é.bin",
                                    self.path("back")), 0, b"")
        with open(self.path("back"), "rb") as file:
            self.assertEqual(file.read(), data)
        os.mkdir(self.path("folder"))
        self.expect(self.daemon.ctl("cp", name + ":/workspace/a b%é.bin",
                                    self.path("folder")), 0, b"")
        self.assertEqual(os.listdir(self.path("folder")), ["a b%é.bin"])

    def test_pipes(self):
        name = self.claim()
        self.expect(self.daemon.ctl("cp", "-", name + ":d/e.txt",
                                    data=b"x\r\n--y"), 0, b"")
        self.expect(self.daemon.ctl("cp", name + ":d/e.txt", "-"), 0,
                    b"x\r\n--y")
        self.expect(self.daemon.ctl("cp", "-", name + ":empty"), 0, b"")
        self.expect(self.daemon.ctl("cp", name + ":empty", "-"), 0, b"")

    def test_what_is_there_stays_what_it_is(self):
        name = self.claim()
        self.expect(self.daemon.ctl("cp", "-", name + ":f", data=b"new"), 0)

        def copy(target):
            self.expect(self.daemon.ctl("cp", name + ":f", target), 0, b"")

        def read(target):
            with open(target, "rb") as file:
                return file.read()
        device = self.path("device")
        try:
            os.mknod(device, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
            copy(device)
            self.assertTrue(stat.S_ISCHR(os.lstat(device).st_mode))
        except PermissionError:
            copy("/dev/null")  # Who cannot make one cannot replace it.
        pipe = self.path("pipe")
        os.mkfifo(pipe)
        reader = subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE)
        copy(pipe)
        self.assertEqual(reader.communicate(timeout=PATIENCE)[0], b"new")
        self.assertTrue(stat.S_ISFIFO(os.lstat(pipe).st_mode))
        private = self.path("private")
        with open(private, "wb") as file:
            file.write(b"much longer than what comes")
        os.chmod(private, 0o600)
        copy(private)
        self.assertEqual(read(private), b"new")
        self.assertEqual(os.lstat(private).st_mode & 0o7777, 0o600)
        os.symlink("private", self.path("link"))
        self.expect(self.daemon.ctl("cp", "-", name + ":f", data=b"2"), 0)
        copy(self.path("link"))
        self.assertTrue(os.path.islink(self.path("link")))
        self.assertEqual(read(private), b"2")
        os.link(private, self.path("second"))
        self.expect(self.daemon.ctl("cp", "-", name + ":f", data=b"3"), 0)
        copy(private)
        self.assertEqual(read(self.path("second")), b"3")
        os.symlink("new", self.path("dangling"))
        copy(self.path("dangling"))
        self.assertEqual(read(self.path("new")), b"3")

    def test_errors(self):
        name = self.claim()
        self.expect(self.daemon.ctl("cp", name + ":none", "-"), 3, b"", "none")
        self.expect(self.daemon.ctl("cp", self.path("none"), name + ":"), 3,
                    b"", "none")
        self.expect(self.daemon.ctl("cp", self.daemon.dir, name + ":"), 2, b"",
                    "is a directory")
        self.expect(self.daemon.ctl("cp", "a", "b"), 2, b"", "ID:PATH")
        # Nothing half-copied stays behind.
        self.expect(self.daemon.ctl("cp", name + ":none", self.path("n")), 3)
        self.assertEqual([entry for entry in os.listdir(self.daemon.dir)
                          if entry.startswith("n")], [])

    def test_out_of_the_workspace(self):
        name = self.claim()
        done = self.daemon.ctl("cp", name + ":../../etc/hostname", "-")
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual(done.stdout, b"")


class Pools(CtlCase):
    def test_set_policy(self):
        def change(*words, code=0):
            done = self.daemon.ctl("set", POOL, *words)
            self.expect(done, code)
            return done

        change("-s", "objective=99%", "--autoscale", "max=64",
               "--autoscale=schedule=0 8 * * mon for 1h at least 3")
        shown = self.daemon.json("set", POOL, "-s", f"min={SIZE}")
        self.assertEqual(shown["autoscale"], {
            "objective": "99%", "min": str(SIZE), "max": "64",
            "schedule": "0 8 * * 1 for 1h at least 3"})
        self.assertTrue(shown["scaled"])
        explained = self.daemon.json("explain", POOL)
        self.assertEqual(explained["autoscale"], shown["autoscale"])
        # A mistake changes nothing, neither policy nor target.
        done = change("--target", "1", "-s", "mim=2", code=2)
        self.assertIn("the nearest known one is min", done.stderr.decode())
        change("-s", "max=1", code=2)
        self.assertEqual(self.daemon.json("explain", POOL)["autoscale"],
                         shown["autoscale"])
        done = change("-s", "objective=", "-s", "max=", "-s", "schedule=",
                      "-s", "min=", "--target", str(SIZE))
        self.assertNotIn("policy", done.stdout.decode())
        self.assertEqual(self.daemon.json("explain", POOL)["autoscale"], {})
        eventually(self.daemon.full, "back at its size")

    def test_create_and_delete(self):
        ctl = self.daemon.ctl
        made = self.daemon.json("create", "ci", "--template", "quickstart",
                                "--target", "1", "-s", "objective=99%")
        self.assertEqual(made["pools"][0]["name"], "ci")
        done = ctl("create", "ci", "--template", "quickstart", "--target", "1")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(b"there is one of this name", done.stderr)
        done = ctl("delete", "ci")
        self.assertEqual((done.returncode, done.stdout),
                         (0, b"ci is removed; leases still held: 0\n"),
                         done.stderr)
        text = (b"{apiVersion: extensions.agents.x-k8s.io/v1beta1, "
                b"kind: SandboxWarmPool, metadata: {name: of-file}, spec: "
                b"{replicas: 0, sandboxTemplateRef: {name: quickstart}}}")
        self.assertEqual(ctl("create", "-f", "-", "-o", "name",
                             data=text).stdout, b"default/of-file\n")
        self.assertEqual(ctl("delete", "of-file").returncode, 0)
        for words, code, say in (
                (("create", "ci"), 2, b"expected --template"),
                (("create",), 2, b"expected POOL"),
                (("create", "ci", "--file", "x"), 2, b"--file says all"),
                (("create", "--file", "/no/such"), 3, b"--file '/no/such'"),
                (("create", "ci", "--template", "gone", "--target", "1"), None,
                 b"no SandboxTemplate 'gone'"),
                (("delete", POOL), None, b"not made by CreatePool")):
            done = ctl(*words)
            self.assertIn(say, done.stderr)
            self.assertNotEqual(done.returncode, 0)
            if code is not None:
                self.assertEqual(done.returncode, code, words)

    def test_watch_sees_a_scale(self):
        watch = subprocess.Popen([CTL, "watch", POOL, "-o", "json"],
                                 stdout=subprocess.PIPE, env=self.daemon.env)
        try:
            first = json.loads(watch.stdout.readline())["pools"][0]
            self.assertEqual(first["sandboxes"]["target"], SIZE)
            scaled = self.daemon.json("scale", POOL, str(SIZE + 1))["pools"][0]
            self.assertEqual(scaled["sandboxes"]["target"], SIZE + 1)
            for line in watch.stdout:
                if (json.loads(line)["pools"][0]["sandboxes"]["target"] ==
                        SIZE + 1):
                    break
        finally:
            watch.terminate()
            watch.wait(PATIENCE)
            watch.stdout.close()
        self.expect(self.daemon.ctl("scale", POOL, str(SIZE)), 0)
        eventually(self.daemon.full, "scaled back")

    def test_table(self):
        lines = self.daemon.ctl("pools").stdout.decode().splitlines()
        self.assertRegex(lines[0], "^POOL +TEMPLATE +STATE +TARGET +READY ")
        self.assertRegex(lines[1], "^default/quickstart +quickstart ")

    def test_advise(self):
        eventually(self.daemon.full, "full")
        for i in range(12):
            self.expect(self.daemon.ctl("claim", POOL, "--id", f"advise-{i}",
                                        "--wait", "60s"), 0)
            self.expect(self.daemon.ctl("release", f"advise-{i}"), 0)
        plot = os.path.join(self.daemon.dir, "advice.svg")
        report = self.daemon.json("advise", POOL, "--objective", "90%",
                                  "--objective", "99%", "--plot", plot)
        self.assertGreaterEqual(report["claims"], 12)
        self.assertGreater(report["lead_times"], 0)
        kinds = [row["kind"] for row in report["rows"]]
        self.assertEqual(kinds.count("today"), 1)
        self.assertEqual(kinds.count("objective"), 2)
        self.assertEqual(kinds.count("clairvoyant"), 1)
        self.assertTrue(any("hours of history" in line
                            for line in report["lines"]))
        with open(plot, encoding="utf-8") as file:
            self.assertIn("today's setting", file.read())

    def test_advise_without_a_daemon(self):
        claims = os.path.join(self.daemon.dir, "claims.csv")
        with open(claims, "w", encoding="utf-8") as file:
            file.write("time\n")
            for i in range(600):
                file.write(f"{1780000000 + 7 * i}\n")
        env = {**self.daemon.env, "WARMPOOL_ADDRESS": "unix:/nowhere"}
        done = subprocess.run(
            [CTL, "advise", "--csv", claims, "--lead", "5s", "--replicas",
             "30"], capture_output=True, env=env, timeout=PATIENCE,
            check=True, text=True)
        self.assertIn("set objective=", done.stdout)
        self.assertRegex(done.stdout, r"(?m)^ *today +replicas=30 +100.0 %")
        self.assertEqual(done.stderr, "")  # No bar where nobody looks.
        with open(claims, "a", encoding="utf-8") as file:
            file.write("1\n")
        done = subprocess.run(
            [CTL, "advise", "--csv", claims, "--lead", "5s"],
            capture_output=True, env=env, timeout=PATIENCE, check=False,
            text=True)
        self.assertEqual(done.returncode, 2)
        self.assertIn("line 602: a time may not be before", done.stderr)

    def test_man_page_is_complete(self):
        page = os.path.join(os.path.dirname(MANIFEST),
                            "../man/warmpoolctl.1.md")
        with open(page, encoding="utf-8") as file:
            text = file.read()
        done = self.daemon.ctl("--help").stdout.decode()
        commands = re.findall(r"^  ([a-z]+) {2,}", done.split(
            "Commands:")[1].split("A first round")[0], re.M)
        self.assertIn("claim", commands)
        for command in commands:
            self.assertIn(f"`{command}", text)
            usage = self.daemon.ctl(command, "--help").stdout.decode()
            for option in re.findall(r"^(?:  -.,|     ) (--[a-z-]+)", usage,
                                     re.M):
                self.assertIn(f"`{option}", text, command)

    def test_completion_of_bash(self):
        script = (
            "source <(warmpoolctl completion bash)\n"
            "try() { COMP_WORDS=(warmpoolctl \"$@\"); COMP_CWORD=$#;\n"
            "        _warmpoolctl; echo \"${COMPREPLY[@]}\"; }\n"
            "try re\ntry claim --t\ntry claim ''\ntry claim x --output ''\n"
            "try exec ''\n")
        name = self.claim()
        done = subprocess.run(["bash", "-c", script], capture_output=True,
                              env=self.daemon.env, timeout=PATIENCE,
                              check=True)
        self.assertEqual(done.stdout.decode().splitlines(), [
            "release renew reserve",
            "--tls-ca --tls-cert --tls-key --tls-name --timeout --ttl "
            "--tenant",
            "default/quickstart",
            "table json name",
            name,
        ])

    def shell(self, *words):
        """What a shell says that is given a script."""
        done = subprocess.run(words, capture_output=True, timeout=PATIENCE,
                              env=self.daemon.env, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        return done.stdout.decode().splitlines()

    def test_completion_of_zsh(self):
        """Read whole, and known to the completion of a new shell."""
        self.assertEqual(
            self.shell("zsh", "-f", "-c",
                       "autoload -Uz compinit && compinit -D -u\n"
                       "source <(warmpoolctl completion zsh)\n"
                       "whence -w _warmpoolctl; echo $_comps[warmpoolctl]"),
            ["_warmpoolctl: function", "_warmpoolctl"])
        text = self.daemon.ctl("completion", "zsh").stdout.decode()
        self.assertIn("        renew:'Set a lease'\\''s end", text)
        self.assertIn("(--output|-o) compadd -- table json name; return ;;",
                      text)

    def test_completion_of_fish(self):
        """What fish itself makes of it."""
        def offered(line):
            return self.shell("fish", "--no-config", "-c",
                              "warmpoolctl completion fish | source; "
                              f"complete -C '{line}'")
        self.assertEqual([line.split("\t")[0] for line in offered(
            "warmpoolctl re")], ["release", "renew", "reserve"])
        self.assertIn("renew\tSet a lease's end to --ttl from now",
                      offered("warmpoolctl re"))
        self.assertIn("default/quickstart", offered("warmpoolctl claim "))
        self.assertEqual([line.split("\t")[0] for line in offered(
            "warmpoolctl claim x --output ")], ["json", "name", "table"])
        self.assertIn("--ttl\tHow long the lease lasts",
                      "\n".join(offered("warmpoolctl claim --t")))


class Version(unittest.TestCase):
    def test_version(self):
        """As people read it, and as programs do; no daemon is asked."""
        said = [subprocess.run([CTL, "version", *words], capture_output=True,
                               text=True, timeout=PATIENCE, check=True).stdout
                for words in ([], ["--output=json"])]
        self.assertRegex(said[0], r"^warmpoolctl [0-9]+\.[0-9]+\.[0-9]+\n$")
        self.assertEqual(said[0].split()[1], json.loads(said[1])["version"])


class Leave(unittest.TestCase):
    def test_drain(self):
        daemon = Daemon()
        try:
            self.assertEqual(daemon.ctl("drain", POOL).returncode, 0)
            self.assertTrue(daemon.pool()["draining"])
            self.assertNotEqual(daemon.ctl("claim", POOL).returncode, 0)
            self.assertEqual(daemon.json("drain", "--grace", "1s"),
                             {"leased": 0})
            self.assertEqual(daemon.process.wait(PATIENCE), 0)
        finally:
            daemon.stop()


class Tls(unittest.TestCase):
    def openssl(self, *words):
        subprocess.run(["openssl", *words], cwd=self.dir, check=True,
                       capture_output=True)

    def certificate(self, name, *extensions):
        self.openssl("req", "-x509", "-newkey", "ec", "-pkeyopt",
                     "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                     "-subj", "/CN=" + name, "-keyout", name + ".key", "-out",
                     name + ".pem", *extensions)

    def file(self, name):
        return os.path.join(self.dir, name)

    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="wp-ctl-tls-")
        self.addCleanup(shutil.rmtree, self.dir)
        self.certificate("daemon", "-addext", "subjectAltName=DNS:pool.test")
        self.certificate("client", "-addext", "subjectAltName=DNS:client.test")
        self.daemon = Daemon(
            "--tls-cert", self.file("daemon.pem"),
            "--tls-key", self.file("daemon.key"),
            "--tls-client-ca", self.file("client.pem"), tcp=True)
        self.addCleanup(self.daemon.stop)

    def test_mutual_tls(self):
        address = re.search(r"address=(127\.0\.0\.1:\d+)",
                            self.daemon.log()).group(1)
        known = ("--tls-cert", self.file("client.pem"),
                 "--tls-key", self.file("client.key"))
        named = ("-a", address, "--tls-ca", self.file("daemon.pem"),
                 "--tls-name", "pool.test")
        done = self.daemon.ctl("claim", POOL, "--wait", "60s", *named, *known)
        self.assertEqual(done.returncode, 0, done.stderr)
        # No certificate of ours; another authority; another name.
        for flags in (named,
                      ("-a", address, "--tls-ca", self.file("client.pem"),
                       "--tls-name", "pool.test") + known,
                      ("-a", address, "--tls-ca", self.file("daemon.pem"),
                       "--tls-name", "other.test") + known):
            done = self.daemon.ctl("claim", POOL, *flags)
            self.assertEqual(done.returncode, 4, (done.stdout, done.stderr))
            self.assertIn("cannot reach warmpoold at " + address,
                          done.stderr.decode())


def sandboxes_possible():
    """None, or why sandboxes cannot be made here."""
    bwrap = shutil.which("bwrap")
    if bwrap is None:
        return "bubblewrap is not installed"
    done = subprocess.run([bwrap, "--unshare-all", "--ro-bind", "/", "/",
                           "true"], capture_output=True, check=False)
    return None if done.returncode == 0 else done.stderr.decode().strip()


if __name__ == "__main__":
    WHY = sandboxes_possible()
    if WHY is not None:
        print("skipped: no sandboxes here:", WHY)
        sys.exit(77)
    unittest.main(argv=sys.argv[:1] + sys.argv[6:])
