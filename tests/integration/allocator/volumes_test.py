"""Folders that outlive the leases of the claims that bring them.

Run by ctest: volumes_test.py WARMPOOLD GENERATED_DIR DEPLOY_DIR WARMPOOLCTL
[unittest arguments]. Needs a host that lets it make sandboxes; exits with 77
elsewhere.
"""

import json
import os
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

from daemon_test import (POOL, Daemon, end_all, eventually, host_can, pb,
                         tell_if_failed)

CTL = os.path.abspath(sys.argv[4])
NOBODY = 65534


class Case(unittest.TestCase):
    def place(self):
        path = tempfile.mkdtemp(prefix="wp-vol-")
        self.addCleanup(shutil.rmtree, path, ignore_errors=True)
        return path

    def start(self, *flags, place=None, volumes="v", **more):
        place = place or self.place()
        daemon = Daemon(
            "--volumes-dir=" + os.path.join(place, volumes), *flags,
            directory=place, **more)
        self.addCleanup(daemon.stop)
        self.addCleanup(tell_if_failed, self, [daemon])
        return daemon

    def claim(self, daemon, claim_id, *volumes, tenant="", **more):
        binding = pb.Binding(volumes=[
            pb.Volume(name=volume) if isinstance(volume, str) else
            pb.Volume(name=volume[0], directory=volume[1])
            for volume in volumes], **more)
        return daemon.rpc(
            "Allocator/Claim",
            pb.ClaimRequest(pool=POOL, claim_id=claim_id, wait_ms=60000,
                            tenant=tenant, binding=binding),
            pb.ClaimResponse)

    def refused(self, daemon, code, words, *args, **more):
        with self.assertRaises(grpc.RpcError) as caught:
            self.claim(daemon, *args, **more)
        self.assertEqual(caught.exception.code(), code,
                         caught.exception.details())
        for word in words:
            self.assertIn(word, caught.exception.details())

    def sh(self, daemon, lease, script):
        status, body = daemon.get(
            f"/sandboxes/{lease.sandbox}/execute", "POST",
            json.dumps({"command": "sh -c '" + script + "'"}),
            {"Content-Type": "application/json"})
        self.assertEqual(status, 200, body)
        answer = json.loads(body)
        return answer["stdout"] + answer["stderr"]


class Volumes(Case):
    """One daemon for all."""

    @classmethod
    def setUpClass(cls):
        cls.place = tempfile.mkdtemp(prefix="wp-vol-")
        cls.addClassCleanup(shutil.rmtree, cls.place, ignore_errors=True)
        cls.volumes = os.path.join(cls.place, "v")
        cls.daemon = Daemon("--volumes-dir=" + cls.volumes,
                            directory=cls.place, replicas=2)
        cls.addClassCleanup(cls.daemon.stop)

    def setUp(self):
        self.addCleanup(tell_if_failed, self, [self.daemon])
        self.daemon.wait_full(2)

    def test_outlives_its_lease(self):
        daemon = self.daemon
        answer = self.claim(daemon, "out1", "data")
        self.assertEqual(list(answer.bound.volumes), ["data"])
        self.assertEqual(answer.lease.served, pb.SERVED_WARM)
        self.assertEqual(
            self.sh(daemon, answer.lease, "cd data && mkdir -p a/b && "
                    "echo one > a/b/c && ln -s a/b/c link && chmod 600 a/b/c; "
                    "stat -c %u:%a a/b/c; cat link"), "1000:600\none\n")
        # What is not in the volume is gone with the lease.
        self.sh(daemon, answer.lease, "echo x > beside")
        daemon.release(answer.lease)
        answer = self.claim(daemon, "out2", "data")
        self.assertEqual(
            self.sh(daemon, answer.lease, "cat data/a/b/c; ls"), "one\ndata\n")
        # By the runtime's other ways to files, too.
        status, body = daemon.get(
            f"/sandboxes/{answer.lease.sandbox}/download/data/a/b/c")
        self.assertEqual((status, body), (200, "one\n"))
        daemon.release(answer.lease)

    def test_where_it_is_and_what_else_comes(self):
        daemon = self.daemon
        answer = self.claim(
            daemon, "else1", ("where", "deep/place"), "other",
            files=[pb.File(path="deep/place/note", content=b"brought")],
            env=[pb.EnvVar(name="WHO", value="me")], working_dir="deep/place")
        self.assertEqual(list(answer.bound.volumes), ["where", "other"])
        self.assertEqual(
            self.sh(daemon, answer.lease, "pwd; cat note; echo $WHO > who; "
                    "ls -A /workspace/other"),
            "/workspace/deep/place\nbrought")
        daemon.release(answer.lease)
        answer = self.claim(daemon, "else2", "where")
        self.assertEqual(self.sh(daemon, answer.lease, "cat where/*"),
                         "broughtme\n")
        daemon.release(answer.lease)

    def test_one_sandbox_at_a_time(self):
        daemon = self.daemon
        first = self.claim(daemon, "one1", "single").lease
        self.sh(daemon, first, "echo 1 > single/f")
        begun = time.monotonic()
        self.refused(daemon, grpc.StatusCode.FAILED_PRECONDITION,
                     ["volume 'single'", first.sandbox], "one2", "single")
        self.assertLess(time.monotonic() - begun, 10)
        daemon.wait_full(2)
        # All or none: that one was not taken, and so is free.
        self.refused(daemon, grpc.StatusCode.FAILED_PRECONDITION,
                     ["volume 'single'"], "one3", "free", "single")
        daemon.wait_full(2)
        daemon.release(self.claim(daemon, "one4", "free").lease)
        # The same claim again has the same sandbox.
        again = self.claim(daemon, "one1", "single")
        self.assertTrue(again.replayed)
        self.assertEqual(again.lease.sandbox, first.sandbox)
        self.assertEqual(
            self.sh(daemon, first, "grep -c single /proc/self/mountinfo"),
            "1\n")
        # Given back, it is there at once.
        daemon.release(first)
        second = self.claim(daemon, "one5", "single").lease
        self.assertEqual(self.sh(daemon, second, "cat single/f"), "1\n")
        # Who waits gets it when its holder goes, not when another one does.
        other = self.claim(daemon, "one7", "another").lease
        got = []
        waiter = threading.Thread(target=lambda: got.append(
            self.claim(daemon, "one6", "single").lease))
        waiter.start()
        time.sleep(0.3)
        daemon.release(other)
        time.sleep(0.7)
        daemon.release(second)
        waiter.join()
        self.assertEqual(self.sh(daemon, got[0], "cat single/f"), "1\n")
        daemon.release(got[0])

    def test_each_tenant_has_its_own(self):
        daemon = self.daemon
        leases = []
        for tenant, folder in (("", "%"), ("t/1", "t%2F1"), ("..", "%2E%2E"),
                               ("é", "%C3%A9")):
            lease = self.claim(daemon, "own" + folder[-2:], "mine",
                               tenant=tenant).lease
            leases.append(lease)
            self.assertEqual(self.sh(daemon, lease, "ls -A mine"), "")
            self.sh(daemon, lease, f"echo {folder} > mine/f")
            with open(os.path.join(self.volumes, folder, "mine", "f"),
                      encoding="utf-8") as handle:
                self.assertEqual(handle.read(), folder + "\n")
        for lease in leases:
            daemon.release(lease)

    def test_what_a_sandbox_makes_is_safe_outside(self):
        daemon = self.daemon
        lease = self.claim(daemon, "safe1", "made").lease
        self.sh(daemon, lease, "cp /bin/true made/x; chmod 6755 made/x")
        self.assertRegex(
            self.sh(daemon, lease, "grep /workspace/made /proc/self/mountinfo"),
            r" rw,nosuid,nodev[, ]")
        self.assertEqual(stat.S_IMODE(os.stat(self.volumes).st_mode), 0o700)
        file = os.stat(os.path.join(self.volumes, "%", "made", "x"))
        if os.geteuid() == 0:  # Then no user of the machine has it.
            self.assertGreater(file.st_uid, 1900000000)
            self.assertGreater(file.st_gid, 1900000000)
        # From inside it can be neither taken away nor mounted over.
        self.assertIn("failed", self.sh(daemon, lease, "umount made"))
        self.assertIn("failed", self.sh(
            daemon, lease, "mkdir sub; mount --bind sub made"))
        self.assertEqual(self.sh(daemon, lease, "ls made"), "x\n")
        daemon.release(lease)

    def test_links_lead_nowhere(self):
        daemon = self.daemon
        lease = self.claim(daemon, "link1", "trap").lease
        self.sh(daemon, lease, "ln -s /etc trap/etc; echo > trap/file; "
                "ln -s .. trap/up")
        daemon.release(lease)
        for i, place in enumerate(("trap/etc", "trap/etc/new", "trap/file",
                                   "trap/up/x")):
            self.refused(daemon, grpc.StatusCode.FAILED_PRECONDITION,
                         ["volume 'late'", "make its place"],
                         f"link2-{i}", "trap", ("late", place))
            daemon.wait_full(2)
        lease = self.claim(daemon, "link3", "trap", ("late", "trap/real")).lease
        self.sh(daemon, lease, "echo 1 > trap/real/f")
        daemon.release(lease)
        lease = self.claim(daemon, "link4", "late").lease
        self.assertEqual(self.sh(daemon, lease, "cat late/f"), "1\n")
        daemon.release(lease)

    def test_what_is_no_volume(self):
        daemon = self.daemon
        invalid = grpc.StatusCode.INVALID_ARGUMENT
        for name in ("", ".x", "-x", "a/b", "a" * 64, "ä", "a b", "a\n"):
            self.refused(daemon, invalid, ["binding.volumes[0].name", "63"],
                         "bad", name)
        for place in ("/abs", "..", "a/../b", "a//b", "./a"):
            self.refused(daemon, invalid, ["binding.volumes[0].directory"],
                         "bad", ("ok", place))
        self.refused(daemon, invalid, ["binding.volumes[1]", "name"],
                     "bad", "a", ("a", "b"))
        self.refused(daemon, invalid, ["binding.volumes[1]", "directory"],
                     "bad", "a", ("b", "a"))
        self.refused(daemon, invalid, ["binding.volumes", "4"],
                     "bad", "a", "b", "c", "d", "e")

    def test_by_the_command_line(self):
        daemon = self.daemon
        done = subprocess.run(
            [CTL, "claim", "quickstart", "--id", "ctl1", "--volume", "mine",
             "--volume", "lib:vendor/lib", "--wait", "30s", "--output", "json",
             "--address", "unix:" + daemon.grpc_path], text=True, check=False,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertEqual(done.returncode, 0, done.stderr)
        answer = json.loads(done.stdout)
        self.assertEqual(answer["bound"]["volumes"], ["mine", "lib"])
        status, body = daemon.get(
            f"/sandboxes/{answer['sandbox']}/execute", "POST",
            json.dumps({"command": "ls -d mine vendor/lib"}),
            {"Content-Type": "application/json"})
        self.assertEqual((status, json.loads(body)["stdout"]),
                         (200, "mine\nvendor/lib\n"))
        subprocess.run([CTL, "release", "ctl1", "--address",
                        "unix:" + daemon.grpc_path], check=True,
                       stdout=subprocess.DEVNULL)


class Lives(Case):
    """Daemons of their own."""

    def test_a_killed_daemon(self):
        """Its successor knows who has which volume."""
        place = self.place()
        daemons = [self.start("--lease-store=sqlite", place=place, replicas=2)]
        self.addCleanup(end_all, self, daemons, place)
        first = daemons[0].wait_full(2)
        lease = self.claim(first, "c1", "kept",
                           env=[pb.EnvVar(name="A", value="1")]).lease
        self.sh(first, lease, "echo before > kept/f")
        first.stop(signal.SIGKILL)
        daemons.append(self.start("--lease-store=sqlite", place=place,
                                  replicas=2))
        second = daemons[1].wait_full(2)
        again = self.claim(second, "c1", "kept",
                           env=[pb.EnvVar(name="A", value="1")])
        self.assertTrue(again.replayed)
        self.assertEqual(again.lease.sandbox, lease.sandbox)
        self.assertEqual(
            self.sh(second, again.lease, "cat kept/f; "
                    "grep -c kept /proc/self/mountinfo"), "before\n1\n")
        self.refused(second, grpc.StatusCode.FAILED_PRECONDITION,
                     ["volume 'kept'", lease.sandbox], "c2", "kept")
        second.release(again.lease)
        after = self.claim(second, "c3", "kept").lease
        self.assertEqual(self.sh(second, after, "cat kept/f"), "before\n")

    def test_a_tenant_has_so_many(self):
        daemon = self.start("--volumes-max=8", replicas=2).wait_full(2)
        for i in range(0, 8, 4):
            daemon.release(self.claim(
                daemon, f"many{i}", *(f"n{j}" for j in range(i, i + 4)),
                tenant="many").lease)
        self.refused(daemon, grpc.StatusCode.FAILED_PRECONDITION,
                     ["volume 'n8'", "8", "volumes_max"], "many8", "n8",
                     tenant="many")
        daemon.wait_full(2)
        daemon.release(self.claim(daemon, "many9", "n7", tenant="many").lease)
        shutil.rmtree(os.path.join(daemon.dir, "v", "many", "n0"))
        daemon.release(self.claim(daemon, "many10", "n8", tenant="many").lease)

    def test_a_daemon_without_rights(self):
        if os.geteuid() != 0:
            self.skipTest("all the others are that, here")
        place = self.place()
        os.chown(place, NOBODY, NOBODY)
        daemon = self.start(place=place, replicas=1, prefix=(
            "setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}",
            "--clear-groups"))
        try:
            eventually(lambda: daemon.ready() and daemon.pool().ready == 1,
                       "a sandbox")
        except AssertionError as error:
            if "user namespace" in str(error):
                self.skipTest("users make no namespaces here")
            raise
        for i in range(2):
            lease = self.claim(daemon, f"c{i}", "mine").lease
            self.assertEqual(
                self.sh(daemon, lease, "cat mine/* 2>/dev/null; "
                        f"echo {i} > mine/{i}"), "0\n" if i else "")
            daemon.release(lease)
        self.assertEqual(
            os.stat(os.path.join(place, "v", "%", "mine", "0")).st_uid, NOBODY)

    def test_without_volumes(self):
        place = self.place()
        daemon = Daemon(directory=place, replicas=1)
        self.addCleanup(daemon.stop)
        daemon.wait_full(1)
        self.refused(daemon, grpc.StatusCode.FAILED_PRECONDITION,
                     ["binding.volumes", "volumes_dir"], "c1", "x")
        self.assertEqual(daemon.pool().ready, 1)  # None was taken for it.

    def ends(self, daemon, *words):
        self.assertNotEqual(daemon.process.wait(60), 0)
        for word in words:
            self.assertIn(word, daemon.messages())

    def test_a_folder_that_others_may_enter(self):
        place = self.place()
        os.mkdir(os.path.join(place, "v"), 0o700)
        os.chmod(os.path.join(place, "v"), 0o755)
        self.ends(self.start(place=place), "volumes_dir", "0700")

    def test_a_folder_of_another_daemon(self):
        first = self.start(replicas=1).wait_full(1)
        place = self.place()
        other = self.start(place=place, replicas=1, volumes=os.path.join(
            first.dir, "v"))
        self.ends(other, "volumes_dir", "another daemon has it")
        lease = self.claim(first, "c1", "x").lease
        first.release(lease)

    def test_where_it_cannot_be(self):
        place = self.place()
        with open(os.path.join(place, "file"), "w", encoding="utf-8"):
            pass
        self.ends(self.start(place=place, volumes="file"), "volumes_dir",
                  "Not a directory")
        self.ends(self.start(place=self.place(), volumes="no/such/place"),
                  "volumes_dir", "No such file")


if __name__ == "__main__":
    signal.alarm(600)
    reason = host_can()
    if reason:
        print("SKIP:", reason)
        sys.exit(77)
    unittest.main(argv=[sys.argv[0]] + sys.argv[5:], verbosity=2)
