"""Leases that outlive warmpoold: kill -9, planned stops, damage.

Run by ctest: daemon_lease_test.py WARMPOOLD GENERATED_DIR DEPLOY_DIR [unittest
arguments]. Needs a host that lets it make sandboxes; exits with 77 elsewhere.
"""

import json
import os
import re
import resource
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import grpc

from daemon_test import (MANIFEST, PATIENCE, POOL, Daemon,
                         UnixHTTPConnection, alive, eventually, host_can,
                         end_all, metrics, pb)

MANY = 10000
WAIT_MS = 60000  # For a sandbox that is ready and not recorded yet.


class LeaseDaemon(Daemon):
    def claim(self, claim_id, **more):
        return super().claim(claim_id, wait_ms=WAIT_MS, **more)

    def wait_recorded(self, offers):
        """So many sandboxes are in the file: only they outlive a kill."""
        eventually(lambda: metrics(self.get("/metrics")[1]).get(
            ("warmpool_lease_commits_total", 'kind="offer",outcome="OK"'),
            0) >= offers, f"{offers} sandboxes recorded")


def claim_info(daemon, claim_id):
    return daemon.rpc("Allocator/GetClaim",
                      pb.GetClaimRequest(claim_id=claim_id), pb.ClaimInfo)


def renew(daemon, lease, ttl_ms=600000):
    return daemon.rpc("Allocator/Renew",
                      pb.RenewRequest(token=lease.token, ttl_ms=ttl_ms),
                      pb.RenewResponse)


class Rig(unittest.TestCase):
    """Daemons one after another on the same directory."""

    flags = ()

    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="wp-lease-")
        self.daemons = []
        self.addCleanup(self.clean)

    def clean(self):
        end_all(self, self.daemons, self.dir, *self.backend())

    def backend(self):
        return [f for f in self.flags if f.startswith("--backend")]

    def start(self, *flags, **more):
        daemon = LeaseDaemon("--lease-store=sqlite", *self.flags, *flags,
                        directory=self.dir, **more)
        self.daemons.append(daemon)
        return daemon

    def fails_to_start(self, *flags, code=1):
        daemon = self.start(*flags)
        self.assertEqual(daemon.process.wait(PATIENCE), code,
                         daemon.messages())
        return daemon.messages()

    def error(self, call, *arguments, **more):
        with self.assertRaises(grpc.RpcError) as caught:
            call(*arguments, **more)
        return caught.exception.code()


class Restart(Rig):
    """With real sandboxes."""

    def test_kill_with_leases_in_use(self):
        daemon = self.start().wait_full(3)
        used, asked, mortal = (daemon.claim(c) for c in ("a", "b", "c"))
        daemon.wait_full(3)
        daemon.wait_recorded(6)
        idle = set(daemon.sandboxes()) - {used.sandbox, asked.sandbox,
                                          mortal.sandbox}
        pids = {name: daemon.pids(name) for name in daemon.sandboxes()}
        path = f"/sandboxes/{used.sandbox}/"
        # A client in the middle of an upload loses its connection, no more.
        stream = UnixHTTPConnection(daemon.http_path)
        stream.putrequest("POST", path + "upload")
        stream.putheader("Content-Length", "100")
        stream.endheaders()
        stream.send(b"part")
        self.assertEqual(
            daemon.get(path + "execute", "POST",
                       json.dumps({"command": "sh -c 'echo kept > mark'"}),
                       {"Content-Type": "application/json"})[0], 200)
        self.assertEqual(daemon.stop(signal.SIGKILL), -signal.SIGKILL)
        stream.close()
        # Nobody supervises them now; one dies.
        os.kill(int(pids[mortal.sandbox]["inner"]), signal.SIGKILL)
        eventually(lambda: not alive(pids[mortal.sandbox]["inner"]), "death")

        again = self.start().wait_full(3)
        for lease, claim_id in ((used, "a"), (asked, "b")):
            info = claim_info(again, claim_id)
            self.assertEqual(info.state, pb.CLAIM_STATE_HELD)
            self.assertEqual(info.sandbox, lease.sandbox)
            self.assertEqual(info.endpoint, lease.endpoint)
        eventually(lambda: claim_info(again, "c").state ==
                   pb.CLAIM_STATE_LOST, "the death told")
        # The same process, with what it had written.
        self.assertEqual(again.pids(used.sandbox), pids[used.sandbox])
        status, body = again.get(path + "execute", "POST",
                                 '{"command": "cat mark"}',
                                 {"Content-Type": "application/json"})
        self.assertEqual(status, 200, body)
        self.assertIn("kept", body)
        # The same claim again, the same answer.
        repeat = again.claim("b")
        self.assertEqual((repeat.sandbox, repeat.endpoint, repeat.fence),
                         (asked.sandbox, asked.endpoint, asked.fence))
        self.assertEqual(self.error(again.claim, "b", ttl_ms=7654),
                         grpc.StatusCode.ALREADY_EXISTS)
        # Tokens of the dead daemon renew and release.
        renew(again, used)
        self.assertTrue(again.release(asked).was_held)
        self.assertFalse(again.release(asked).was_held)
        self.assertTrue(again.release(mortal).was_held)
        for lease in (asked, mortal):
            eventually(lambda s=lease.sandbox: s not in again.sandboxes(),
                       "destroyed")
        # What was ready is ready, and no process more than there should be.
        again.wait_full(3)
        self.assertEqual(set(again.sandboxes()) - {used.sandbox}, idle)
        text = metrics(again.get("/metrics")[1])
        self.assertEqual(text["warmpool_lease_store_up", ""], 1)
        self.assertGreater(
            text["warmpool_lease_commits_total",
                 'kind="release",outcome="OK"'], 0)
        self.assertTrue(again.release(used).was_held)

    def test_orphans_are_destroyed(self):
        """What lives and is in no record is nobody's."""
        daemon = self.start().wait_full(3)
        lease = daemon.claim("a")
        pids = [p for name in daemon.sandboxes()
                for p in daemon.pids(name).values()]
        daemon.stop(signal.SIGKILL)
        for name in os.listdir(daemon.state):
            if name.startswith("leases.db"):
                os.unlink(os.path.join(daemon.state, name))
        again = self.start().wait_full(3)
        eventually(lambda: not any(alive(p) for p in pids), "orphans gone")
        self.assertEqual(self.error(claim_info, again, "a"),
                         grpc.StatusCode.NOT_FOUND)
        eventually(lambda: len(again.sandboxes()) == 3, "their folders gone")
        self.assertNotIn(lease.sandbox, again.sandboxes())

    def test_the_lock_of_a_killed_daemon_may_linger(self):
        """A child that it was starting has it a moment longer."""
        daemon = self.start().wait_full(3)
        daemon.stop(signal.SIGKILL)
        code = ("import fcntl, sys, time\n"
                "file = open(sys.argv[1])\n"
                "fcntl.flock(file, fcntl.LOCK_EX)\n"
                "print('held', flush=True)\n"
                "time.sleep(0.7)\n")
        with subprocess.Popen(
                [sys.executable, "-c", code,
                 os.path.join(daemon.state, "warmpoold.pid")],
                stdout=subprocess.PIPE) as child:
            child.stdout.readline()
            self.start().wait_full(3)
            child.wait()

    def test_planned_stop_leaves_leases(self):
        daemon = self.start().wait_full(3)
        lease = daemon.claim("a")
        self.assertEqual(daemon.stop(), 0, daemon.messages())
        self.assertIn("left for the next start", daemon.messages())
        self.assertEqual(daemon.sandboxes(), [lease.sandbox])
        self.assertTrue(alive(daemon.pids(lease.sandbox)["inner"]))
        again = self.start("--stop-leaves=all").wait_full(3)
        status, body = again.get(f"/sandboxes/{lease.sandbox}/healthz")
        self.assertEqual(status, 200, body)
        left = again.sandboxes()
        self.assertEqual(again.stop(), 0, again.messages())
        self.assertEqual(again.sandboxes(), left)
        last = self.start("--stop-leaves=nothing").wait_full(3)
        self.assertEqual(last.sandboxes(), left)
        self.assertEqual(claim_info(last, "a").sandbox, lease.sandbox)
        self.assertEqual(last.stop(), 0, last.messages())
        self.assertEqual(last.sandboxes(), [])

    def test_drain_by_admin_leaves_nothing(self):
        daemon = self.start().wait_full(3)
        daemon.claim("a")
        daemon.rpc("PoolAdmin/Drain", pb.DrainRequest(grace_ms=1),
                   pb.DrainResponse)
        self.assertEqual(daemon.process.wait(PATIENCE), 0, daemon.messages())
        self.assertEqual(daemon.sandboxes(), [])
        again = self.start().wait_full(3)
        self.assertEqual(self.error(claim_info, again, "a"),
                         grpc.StatusCode.NOT_FOUND)

    def test_template_changed_meanwhile(self):
        """Who holds an old sandbox keeps it; nobody gets another one."""
        daemon = self.start().wait_full(3)
        lease = daemon.claim("a")
        daemon.wait_full(3)
        old = set(daemon.sandboxes())
        daemon.stop(signal.SIGKILL)
        changed = os.path.join(self.dir, "changed.yaml")
        with open(MANIFEST, encoding="utf-8") as source, \
                open(changed, "w", encoding="utf-8") as target:
            target.write(re.sub(
                r"(\n +)(image: .*)",
                r"\1\2\1env: [{name: CHANGED, value: 'yes'}]",
                source.read(), count=1))
        again = self.start(manifest=changed).wait_full(3)
        eventually(lambda: set(again.sandboxes()) & old == {lease.sandbox},
                   "the old idle ones gone")
        self.assertEqual(claim_info(again, "a").state, pb.CLAIM_STATE_HELD)


class ServesFirstTests:
    """A start that finds sandboxes, on a machine that takes its time: bwrap
    stands still while a file is there."""

    def setUp(self):
        super().setUp()
        self.slow = os.path.join(self.dir, "slow")
        self.bwrap = os.path.join(self.dir, "bwrap")
        self.flags = ("--bwrap-path=" + self.bwrap,)
        self.write_bwrap('exec %s "$@"' % shutil.which("bwrap"))
        self.addCleanup(self.hurry)  # Before the sweeping daemon.

    def write_bwrap(self, last):
        with open(self.bwrap + ".new", "w", encoding="utf-8") as handle:
            handle.write("#!/bin/sh\nwhile [ -e %s ]; do sleep 0.01; done\n"
                         "%s\n" % (self.slow, last))
        os.chmod(self.bwrap + ".new", 0o755)
        os.rename(self.bwrap + ".new", self.bwrap)

    def hurry(self):
        if os.path.exists(self.slow):
            os.unlink(self.slow)

    def killed_and_slow(self):
        """A daemon that knows its leases, not yet its sandboxes; a lease."""
        daemon = self.begin("a").wait_full(3)
        lease = daemon.claim("held")
        daemon.wait_full(3)
        daemon.wait_recorded(4)
        daemon.stop(signal.SIGKILL)
        with open(self.slow, "w", encoding="utf-8"):
            pass
        again = self.begin("b")
        eventually(again.listening, "it serves")
        return again, lease

    def test_leases_are_answered_for_before_the_sandboxes_are_known(self):
        daemon, lease = self.killed_and_slow()
        self.assertEqual(claim_info(daemon, "held").state,
                         pb.CLAIM_STATE_HELD)
        self.assertEqual(daemon.claim("held").sandbox, lease.sandbox)
        renew(daemon, lease)
        self.assertEqual(
            daemon.get(f"/sandboxes/{lease.sandbox}/healthz")[0], 200)
        status, body = daemon.get("/readyz")
        self.assertEqual(status, 503)
        self.assertIn("an earlier daemon left", body)
        with self.assertRaises(grpc.RpcError) as caught:
            super(LeaseDaemon, daemon).claim("hasty")
        self.assertEqual(caught.exception.code(), grpc.StatusCode.UNAVAILABLE)
        self.assertIn("which sandboxes live", caught.exception.details())
        self.assertIn("grpc-status-details-bin",
                      dict(caught.exception.trailing_metadata()))
        waiting = threading.Thread(target=daemon.claim, args=("waits",))
        waiting.start()
        eventually(lambda: daemon.pool().waiting == 1, "it waits")
        self.hurry()
        waiting.join(PATIENCE)
        self.assertEqual(claim_info(daemon, "waits").state,
                         pb.CLAIM_STATE_HELD)
        eventually(daemon.ready, "ready")
        daemon.wait_full(3)
        self.assertTrue(daemon.release(lease).was_held)

    def test_a_sandbox_that_is_gone_is_not_granted(self):
        daemon, lease = self.killed_and_slow()
        for name in daemon.sandboxes():
            if name != lease.sandbox:
                os.kill(int(daemon.pids(name)["inner"]), signal.SIGKILL)
        gone = set(daemon.sandboxes()) - {lease.sandbox}
        self.hurry()
        self.assertNotIn(daemon.claim("new").sandbox, gone)
        self.assertEqual(daemon.claim("held").sandbox, lease.sandbox)

    def test_stopped_before_the_sandboxes_are_known(self):
        daemon, lease = self.killed_and_slow()
        daemon.process.send_signal(signal.SIGTERM)
        self.hurry()
        self.assertEqual(daemon.process.wait(PATIENCE), 0, daemon.messages())
        last = self.begin("c").wait_full(3)
        self.assertEqual(last.claim("held").sandbox, lease.sandbox)

    def test_a_machine_that_cannot_any_more_is_told_late(self):
        daemon, lease = self.killed_and_slow()
        self.addCleanup(self.write_bwrap,
                        'exec %s "$@"' % shutil.which("bwrap"))
        os.unlink(self.bwrap)  # One runs already: it is let go on.
        self.hurry()
        self.assertEqual(daemon.process.wait(PATIENCE), 1, daemon.messages())
        self.assertIn("cannot make sandboxes", daemon.messages())
        self.assertTrue(alive(daemon.pids(lease.sandbox)["inner"]))


class ServesFirst(ServesFirstTests, Rig):
    def begin(self, _):
        return self.start()


class Files(Rig):
    """What does not depend on what a sandbox is."""

    flags = ("--synthetic",)

    def test_expired_while_nobody_was_there(self):
        daemon = self.start().wait_full(3)
        daemon.claim("short", ttl_ms=1000)
        lease = daemon.claim("long", ttl_ms=600000)
        daemon.stop(signal.SIGKILL)
        again = self.start()
        eventually(lambda: again.ready() and again.pool().leased == 1,
                   "expired")
        self.assertEqual(self.error(claim_info, again, "short"),
                         grpc.StatusCode.NOT_FOUND)
        self.assertTrue(again.release(lease).was_held)

    def test_a_pool_gone_from_the_manifests_keeps_its_leases(self):
        daemon = self.start().wait_full(3)
        lease = daemon.claim("a")
        daemon.stop(signal.SIGKILL)
        other = os.path.join(self.dir, "other.yaml")
        with open(MANIFEST, encoding="utf-8") as source, \
                open(other, "w", encoding="utf-8") as target:
            target.write(re.sub(r"(kind: SandboxWarmPool\nmetadata:\n  name: )"
                                r"quickstart", r"\1other", source.read()))
        again = self.start(manifest=other)
        eventually(again.ready, "ready")
        self.assertIn("a pool is gone that leases are of", again.messages())
        self.assertEqual(claim_info(again, "a").sandbox, lease.sandbox)
        self.assertEqual(self.error(again.claim, "b"),
                         grpc.StatusCode.UNAVAILABLE)
        renew(again, lease)
        eventually(lambda: again.pool().ready == 0, "idle ones gone")
        self.assertTrue(again.release(lease).was_held)

    def test_key_is_made_once_and_for_the_owner_only(self):
        daemon = self.start().wait_full(3)
        path = os.path.join(daemon.state, "token.key")
        self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o600)
        with open(path, encoding="utf-8") as handle:
            key = handle.read()
        self.assertRegex(key, r"\A[0-9a-f]{64}\n\Z")
        lease = daemon.claim("a")
        daemon.stop(signal.SIGKILL)
        again = self.start().wait_full(3)
        with open(path, encoding="utf-8") as handle:
            self.assertEqual(handle.read(), key)
        self.assertNotIn(key.strip(), again.messages())
        again.stop(signal.SIGKILL)
        os.unlink(path)
        last = self.start().wait_full(3)
        self.assertIn("the key of tokens is new", last.messages())
        self.assertEqual(self.error(last.release, lease),
                         grpc.StatusCode.PERMISSION_DENIED)
        last.stop(signal.SIGKILL)
        with open(path, "w", encoding="utf-8") as handle:
            handle.write("short\n")
        self.assertIn("expected 64 hexadecimal digits",
                      self.fails_to_start(code=2))

    def test_damaged_file_is_refused_and_left_as_it_is(self):
        daemon = self.start().wait_full(3)
        daemon.claim("a")
        daemon.wait_full(3)
        daemon.stop(signal.SIGKILL)
        path = os.path.join(daemon.state, "leases.db")
        # As it is after a checkpoint: all in one file.
        for extra in ("-wal", "-shm"):
            if os.path.exists(path + extra):
                os.unlink(path + extra)
        with open(path, "r+b") as handle:
            handle.seek(0)
            handle.write(b"not a database at all")
        with open(path, "rb") as handle:
            before = handle.read()
        said = self.fails_to_start()
        self.assertIn("setting 'lease_store_path'", said)
        with open(path, "rb") as handle:
            self.assertEqual(handle.read(), before)
        # And the sandboxes with it: moving it back must be enough.
        self.assertEqual(
            len(os.listdir(os.path.join(daemon.state, "synthetic"))), 4)

    def test_fewer_slots_than_leases(self):
        daemon = self.start().wait_full(3)
        lease = daemon.claim("a")
        daemon.wait_full(3)
        daemon.wait_recorded(4)
        daemon.stop(signal.SIGKILL)
        self.assertIn("setting 'slots_max'",
                      self.fails_to_start("--slots-max=3"))
        again = self.start().wait_full(3)
        self.assertTrue(again.release(lease).was_held)

    def test_two_daemons_on_one_file(self):
        daemon = self.start().wait_full(3)
        other = tempfile.mkdtemp(prefix="wp-lease-")
        self.addCleanup(shutil.rmtree, other, True)
        second = Daemon("--lease-store=sqlite", "--synthetic",
                        "--lease-store-path=" + daemon.state + "/leases.db",
                        directory=other)
        self.daemons.append(second)
        self.assertEqual(second.process.wait(PATIENCE), 1)
        self.assertIn("setting 'lease_store_path'", second.messages())
        self.assertTrue(daemon.ready())
        daemon.release(daemon.claim("a"))

    def test_full_disk(self):
        """Claims are refused, what is known is still told, and it recovers."""
        daemon = self.start().wait_full(3)
        lease = daemon.claim("kept")
        daemon.wait_full(3)
        # The process may write no byte beyond what its files have now.
        limit = resource.prlimit(daemon.process.pid, resource.RLIMIT_FSIZE,
                                 (4096, resource.RLIM_INFINITY))

        def refused():
            try:
                daemon.claim("refused")
                return False
            except grpc.RpcError as error:
                self.assertEqual(error.code(), grpc.StatusCode.UNAVAILABLE)
                return True
        eventually(refused, "refused")
        self.assertEqual(claim_info(daemon, "kept").state,
                         pb.CLAIM_STATE_HELD)
        status, body = daemon.get("/readyz")
        self.assertEqual(status, 503)
        self.assertIn("the lease store is out of reach or cannot write", body)
        self.assertEqual(metrics(daemon.get("/metrics")[1])[
            "warmpool_lease_store_up", ""], 0)
        resource.prlimit(daemon.process.pid, resource.RLIMIT_FSIZE, limit)

        def granted():
            try:
                return daemon.claim("later")
            except grpc.RpcError as error:
                self.assertEqual(error.code(), grpc.StatusCode.UNAVAILABLE)
                return None
        eventually(granted, "granted")
        eventually(daemon.ready, "ready")
        self.assertTrue(daemon.release(lease).was_held)

    def test_many_leases_are_served_again_soon(self):
        daemon = self.start("--slots-max=20000", replicas=MANY)
        eventually(lambda: daemon.ready() and daemon.pool().ready == MANY,
                   "full")
        leases = {}
        for first in range(0, MANY, 200):
            reply = daemon.rpc(
                "Allocator/ClaimBatch",
                pb.ClaimBatchRequest(
                    pool=POOL, ttl_ms=600000, wait_ms=WAIT_MS,
                    claim_ids=[f"c{i}" for i in range(first, first + 200)]),
                pb.ClaimBatchResponse)
            leases.update((x.claim_id, x.lease) for x in reply.items)
        self.assertEqual(len({x.sandbox for x in leases.values()}), MANY)
        daemon.stop(signal.SIGKILL)
        begun = time.monotonic()
        again = self.start("--slots-max=20000", replicas=10)
        eventually(again.listening, "listening")
        info = claim_info(again, "c0")
        print(f"\n{MANY} leases: serving after "
              f"{time.monotonic() - begun:.2f} s", file=sys.stderr)
        self.assertEqual(info.sandbox, leases["c0"].sandbox)
        self.assertEqual(again.pool().leased, MANY)
        for claim_id in ("c1", f"c{MANY // 2}", f"c{MANY - 1}"):
            self.assertEqual(again.claim(claim_id, ttl_ms=600000).sandbox,
                             leases[claim_id].sandbox)
            self.assertTrue(again.release(leases[claim_id]).was_held)


if __name__ == "__main__":
    reason = host_can()
    if reason:
        print("SKIP:", reason)
        sys.exit(77)
    unittest.main(argv=[sys.argv[0]] + sys.argv[4:], verbosity=2)
