"""Leased sandboxes that nobody uses, and those that somebody does: with real ones.

Run by ctest: freeze_test.py WARMPOOLD GENERATED_DIR DEPLOY_DIR WARMPOOLCTL
[unittest arguments]. Needs a host that lets it make sandboxes and freeze
control groups; exits with 77 elsewhere.
"""

import glob
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
from concurrent.futures import ThreadPoolExecutor

import grpc

from daemon_test import (MANIFEST, PATIENCE, POOL, Daemon, UnixHTTPConnection,
                         alive, end_all, eventually, host_can, metrics,
                         pb)

CTL = os.path.abspath(sys.argv[4])
TICKS = os.sysconf("SC_CLK_TCK")


def can_freeze():
    """The version 1 freezer, or version 2 with memory or pids in it."""
    if os.geteuid() != 0:
        return False
    with open("/proc/self/mountinfo", encoding="utf-8") as mounts:
        text = mounts.read()
    return ("freezer" in text or
            any(set(open(path, encoding="ascii").read().split()) &
                {"memory", "pids"}
                for path in glob.glob("/sys/fs/cgroup/cgroup.controllers")))


def processor_ticks(pids):
    total = 0
    for pid in pids:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
        total += int(fields[11]) + int(fields[12])
    return total


class Freeze(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="wp-freeze-")
        self.daemons = []
        self.addCleanup(self.clean)

    def clean(self):
        end_all(self, self.daemons, self.dir)

    def start(self, *flags, freeze_after="500ms", hold_max="1h", **more):
        with open(MANIFEST, encoding="utf-8") as source:
            text = source.read()
        notes = ""
        if freeze_after:
            notes += f"    pool.warmpool.io/freeze-after: {freeze_after}\n"
        if hold_max:
            notes += f"    pool.warmpool.io/hold-max: {hold_max}\n"
        mark = "    pool.warmpool.io/ttl-default"
        assert text.count(mark) == 1
        path = os.path.join(self.dir, "source.yaml")
        with open(path, "w", encoding="utf-8") as target:
            target.write(text.replace(mark, notes + mark))
        daemon = Daemon("--lease-store=sqlite", *flags, directory=self.dir,
                        replicas=1, manifest=path, **more)
        self.daemons.append(daemon)
        return daemon.wait_full(1)

    def claim(self, daemon, **more):
        """A sandbox counts as ready a moment before a claim can have it."""
        return daemon.claim("c", wait_ms=PATIENCE * 1000, **more)

    def number(self, daemon, name, labels=""):
        return metrics(daemon.get("/metrics")[1])[name, labels]

    def frozen(self, daemon, count=1):
        eventually(lambda: self.number(daemon, "warmpool_sandboxes_frozen") ==
                   count, f"{count} frozen")

    def pids(self, daemon, lease):
        """All of the sandbox, by the namespace of its first."""
        record = daemon.pids(lease.sandbox)
        inside = os.readlink(f"/proc/{record['inner']}/ns/pid")
        found = [record["outer"]]
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                if os.readlink(f"/proc/{pid}/ns/pid") == inside:
                    found.append(pid)
            except OSError:
                pass  # It has ended.
        return found

    def sh(self, daemon, lease, script, patience=PATIENCE):
        status, body = daemon.get(
            f"/sandboxes/{lease.sandbox}/execute", "POST",
            json.dumps({"command": f"sh -c '{script}'"}),
            {"Content-Type": "application/json"})
        self.assertEqual(status, 200, body)
        return json.loads(body)["stdout"]

    def holds(self, daemon, claim_id):
        try:
            info = daemon.rpc("Allocator/GetClaim",
                              pb.GetClaimRequest(claim_id=claim_id),
                              pb.ClaimInfo)
        except grpc.RpcError as error:
            self.assertEqual(error.code(), grpc.StatusCode.NOT_FOUND)
            return None
        self.assertEqual(info.state, pb.CLAIM_STATE_HELD, info.lost_reason)
        return info

    def descriptors(self, daemon):
        return len(os.listdir(f"/proc/{daemon.process.pid}/fd"))

    def test_idle_is_frozen_and_the_next_request_thaws(self):
        # Probes come often: a frozen sandbox must not fail one.
        daemon = self.start("--sandbox-probe-interval=100ms",
                            "--sandbox-probe-timeout=2s",
                            "--sandbox-probe-failures=1")
        lease = self.claim(daemon)
        self.frozen(daemon)
        pids = self.pids(daemon, lease)
        self.assertGreater(len(pids), 1)
        time.sleep(1)  # Until the kernel has stopped the last of them.
        before = processor_ticks(pids)
        time.sleep(3)  # Longer than a probe may take.
        self.assertEqual(processor_ticks(pids), before)
        self.assertEqual(self.sh(daemon, lease, "echo up"), "up\n")
        # On a busy machine it may have been idle again since.
        self.assertTrue(
            self.number(daemon, "warmpool_sandboxes_frozen") == 0 or
            self.number(daemon, "warmpool_sandbox_freezes_total") > 1)
        # Again and again, and by who comes without the daemon, too.
        path = lease.endpoint.removeprefix("unix:")
        self.frozen(daemon)
        opened = self.descriptors(daemon)
        for _ in range(4):
            self.frozen(daemon)
            before = self.number(daemon, "warmpool_sandbox_freezes_total")
            connection = UnixHTTPConnection(path)
            connection.request("GET", "/healthz")
            self.assertEqual(connection.getresponse().status, 200)
            connection.close()
            # It may answer before the daemon has counted that it was thawed.
            eventually(lambda: self.number(
                daemon, "warmpool_sandbox_freezes_total") > before,
                "frozen once more")
        self.frozen(daemon)
        eventually(lambda: self.descriptors(daemon) <= opened + 2,
                   "no descriptor left of any time")
        self.assertTrue(daemon.release(lease).was_held)
        daemon.wait_full(1)
        eventually(lambda: not any(map(alive, pids)), "all ended")
        self.assertEqual(self.number(daemon, "warmpool_sandboxes_lost_total",
                                     'namespace="default",'
                                     'pool="quickstart"'), 0)
        self.assertEqual(daemon.stop(), 0, daemon.messages())

    def test_what_is_used_is_not_frozen(self):
        """An open connection, a command, a program that computes."""
        daemon = self.start()
        lease = self.claim(daemon)
        with socket.socket(socket.AF_UNIX) as sock:
            sock.connect(lease.endpoint.removeprefix("unix:"))
            time.sleep(2)
            self.assertEqual(
                self.number(daemon, "warmpool_sandbox_freezes_total"), 0)
            # It says when the last one is over, not when it is asked next.
        self.frozen(daemon)
        # What a busy machine does late, before or after, may find it idle.
        with ThreadPoolExecutor(1) as pool:
            said = pool.submit(self.sh, daemon, lease, "sleep 5; echo done")
            time.sleep(3)
            self.assertEqual(
                self.number(daemon, "warmpool_sandbox_freezes_total"), 1)
            self.assertEqual(said.result(), "done\n")
        self.sh(daemon, lease,
                "(while :; do :; done) >/dev/null 2>&1 & echo $! >/tmp/pid")
        before = self.number(daemon, "warmpool_sandbox_freezes_total")
        time.sleep(3)
        self.assertEqual(
            self.number(daemon, "warmpool_sandbox_freezes_total"), before)
        self.sh(daemon, lease, "kill $(cat /tmp/pid)")
        self.frozen(daemon)

    def test_connections_that_come_just_then(self):
        """None is frozen half way, whenever it comes."""
        daemon = self.start(freeze_after="100ms")
        lease = self.claim(daemon)
        slowest = 0
        for turn in range(150):
            time.sleep(0.09 + 0.0005 * (turn % 60))
            began = time.monotonic()
            self.assertEqual(daemon.get(
                f"/sandboxes/{lease.sandbox}/healthz")[0], 200)
            slowest = max(slowest, time.monotonic() - began)
        self.assertLess(slowest, 20)
        self.assertGreater(
            self.number(daemon, "warmpool_sandbox_freezes_total"), 3)

    def test_a_frozen_one_expires(self):
        daemon = self.start()
        lease = self.claim(daemon, ttl_ms=8000)
        self.frozen(daemon)
        pids = self.pids(daemon, lease)
        eventually(lambda: self.holds(daemon, "c") is None, "expired")
        eventually(lambda: not any(map(alive, pids)), "all ended")
        self.frozen(daemon, 0)
        self.assertEqual(daemon.pool().lost_total, 0)

    def test_a_frozen_one_is_killed_from_outside(self):
        daemon = self.start()
        lease = self.claim(daemon)
        self.frozen(daemon)
        for pid in self.pids(daemon, lease):
            try:
                os.kill(int(pid), signal.SIGKILL)
            except ProcessLookupError:
                pass
        daemon.release(lease)
        daemon.wait_full(1)
        self.frozen(daemon, 0)
        self.assertEqual(daemon.stop(), 0, daemon.messages())

    def test_the_next_daemon_thaws(self):
        """After kill -9, and when the daemon leaves its sandboxes."""
        for sig in (signal.SIGKILL, signal.SIGTERM):
            with self.subTest(sig):
                daemon = self.start()
                lease = daemon.claim(f"c-{sig}")
                self.frozen(daemon)
                daemon.stop(sig)
                if sig == signal.SIGTERM:
                    # Nobody is there who could: it was thawed before.
                    connection = UnixHTTPConnection(
                        lease.endpoint.removeprefix("unix:"))
                    connection.timeout = PATIENCE
                    connection.request("GET", "/healthz")
                    self.assertEqual(connection.getresponse().status, 200)
                    connection.close()
                daemon = self.start()
                self.assertEqual(self.holds(daemon, f"c-{sig}").sandbox,
                                 lease.sandbox)
                self.assertEqual(self.sh(daemon, lease, "echo up"), "up\n")
                self.frozen(daemon)
                daemon.release(lease)
                daemon.stop(signal.SIGKILL)

    def test_identity_waits_for_the_thaw(self):
        """None is sent to who does not read; the next request finds a new one."""
        daemon = self.start("--identity-ttl=60s")
        lease = daemon.rpc(
            "Allocator/Claim", pb.ClaimRequest(
                pool=POOL, claim_id="c", ttl_ms=4000, wait_ms=60000,
                binding=pb.Binding(
                    identity=pb.Identity(audience="https://api.test"))),
            pb.ClaimResponse).lease
        first = self.sh(daemon, lease, "cat $WARMPOOL_IDENTITY_FILE")
        self.frozen(daemon)
        daemon.rpc("Allocator/Renew",
                   pb.RenewRequest(token=lease.token, ttl_ms=60000),
                   pb.RenewResponse)
        time.sleep(2)
        self.frozen(daemon)
        eventually(lambda: self.sh(daemon, lease,
                                   "cat $WARMPOOL_IDENTITY_FILE") != first,
                   "a newer identity")

    # --- Leases ---

    def test_use_keeps_a_lease(self):
        daemon = self.start(freeze_after=None)
        lease = self.claim(daemon, ttl_ms=4000)
        self.assertEqual(self.sh(daemon, lease, "sleep 9; echo done"),
                         "done\n")
        self.assertIsNotNone(self.holds(daemon, "c"))
        eventually(lambda: self.holds(daemon, "c") is None, "expired")

    def test_use_keeps_it_up_to_hold_max(self):
        daemon = self.start(freeze_after=None, hold_max="5s")
        began = time.monotonic()
        lease = self.claim(daemon, ttl_ms=2000)
        with socket.socket(socket.AF_UNIX) as sock:
            sock.connect(lease.endpoint.removeprefix("unix:"))
            eventually(lambda: self.holds(daemon, "c") is None, "expired")
            took = time.monotonic() - began
        self.assertGreater(took, 4.9)
        self.assertLess(took, PATIENCE / 2)

    def test_idle_keeps_nothing(self):
        daemon = self.start(freeze_after=None)
        began = time.monotonic()
        self.claim(daemon, ttl_ms=2000)
        eventually(lambda: self.holds(daemon, "c") is None, "expired")
        self.assertLess(time.monotonic() - began, PATIENCE / 2)

    def test_a_hold(self):
        daemon = self.start(hold_max="2h")
        self.claim(daemon, ttl_ms=2000)
        args = [CTL, "--address=unix:" + daemon.grpc_path]
        env = dict(os.environ, XDG_RUNTIME_DIR=self.dir)
        done = subprocess.run(
            args + ["claim", "quickstart", "--id=h", "--wait=1m"], env=env,
            capture_output=True, text=True, timeout=PATIENCE, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)

        def renew(*words):
            done = subprocess.run(
                args + ["renew", "h", *words], env=env, capture_output=True,
                text=True, timeout=PATIENCE, check=False)
            return done.returncode, done.stdout + done.stderr

        code, said = renew("--hold", "--ttl=90m")
        self.assertEqual(code, 0, said)
        self.assertRegex(said, "in 1h(29m|30m$)")
        code, said = renew("--hold", "--ttl=3h")
        self.assertEqual(code, 2, said)
        self.assertIn("at most", said)
        code, said = renew("--hold")
        self.assertEqual(code, 0, said)
        self.assertRegex(said, "in (1h59m|2h$)")
        self.frozen(daemon)
        daemon.stop(signal.SIGKILL)
        daemon = self.start(hold_max=None)
        self.assertGreater(self.holds(daemon, "h").deadline_unix_ms,
                           time.time() * 1000 + 110 * 60000)
        code, said = renew("--hold")
        self.assertNotEqual(code, 0)
        self.assertIn("pool.warmpool.io/hold-max", said)


if __name__ == "__main__":
    reason = host_can() or (None if can_freeze() else
                            "no control group here can be frozen")
    if reason:
        print("SKIP:", reason)
        sys.exit(77)
    unittest.main(argv=[sys.argv[0]] + sys.argv[5:], verbosity=2)
