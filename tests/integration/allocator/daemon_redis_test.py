"""Several warmpoold that share leases through Redis, on one machine.

Run by ctest: daemon_redis_test.py WARMPOOLD GENERATED_DIR DEPLOY_DIR [unittest
arguments]. Needs a host that lets it make sandboxes; exits with 77 elsewhere.
"""

import fcntl
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import grpc

from daemon_lease_test import (LeaseDaemon, ServesFirstTests, claim_info,
                               renew)
from daemon_test import (MANIFEST, PATIENCE, alive, end_each, eventually,
                         host_can, metrics, pb)


class Redis:
    """A redis-server of its own, on a socket; keeps what it is told."""

    def __init__(self, *options):
        self.dir = tempfile.mkdtemp(prefix="wp-redis-")
        self.path = os.path.join(self.dir, "r.sock")
        self.options = options
        self.process = None
        self.start()

    def start(self):
        with open(os.path.join(self.dir, "log"), "ab") as log:
            self.process = subprocess.Popen(
                ["redis-server", "--port", "0", "--unixsocket", self.path,
                 "--save", "", "--appendonly", "yes", "--appendfsync",
                 "always", "--dir", self.dir, *self.options],
                stdout=log, stderr=log)
        eventually(lambda: self.ask("PING").startswith(
            ("PONG", "NOAUTH")), "redis-server")

    def ask(self, *words):
        done = subprocess.run(["redis-cli", "-s", self.path, *words],
                              capture_output=True, text=True, check=False,
                              timeout=PATIENCE)
        return done.stdout + done.stderr

    def stop(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(PATIENCE)

    def clean(self):
        self.stop()
        shutil.rmtree(self.dir, ignore_errors=True)


class Replica(LeaseDaemon):
    """One of several on a state directory, each with sockets of its own."""

    def __init__(self, name, state, url, *flags, manifest=MANIFEST,
                 replicas=3):
        super().__init__(
            "--lease-store=redis", "--redis-url=" + url,
            "--replica-name=" + name, "--state-dir=" + state, *flags,
            replicas=replicas, manifest=manifest)
        self.state = state
        self.name = name


class Rig(unittest.TestCase):
    flags = ()
    redis_options = ()

    def setUp(self):
        self.redis = Redis(*self.redis_options)
        self.addCleanup(self.redis.clean)
        self.dir = tempfile.mkdtemp(prefix="wp-state-")
        os.chmod(self.dir, 0o755)
        self.state = os.path.join(self.dir, "s")
        self.daemons = []
        self.addCleanup(self.clean)

    def clean(self):
        end_each(self, self.daemons)
        last = LeaseDaemon("--lease-store=memory", *self.flags,
                           directory=self.dir, replicas=0)
        eventually(lambda: last.process.poll() is not None or last.ready(),
                   "the sweeping daemon")
        last.clean()
        for daemon in self.daemons:
            shutil.rmtree(daemon.dir, ignore_errors=True)

    def start(self, name, *flags, **more):
        daemon = Replica(name, self.state, "unix:" + self.redis.path,
                         *self.flags, *flags, **more)
        self.daemons.append(daemon)
        return daemon

    def value(self, daemon, name, labels=""):
        return metrics(daemon.get("/metrics")[1])[name, labels]

    def text(self, path):
        with open(path, encoding="utf-8") as handle:
            return handle.read()

    def granted(self, call, *arguments):
        """What it returned; None: it is to be tried again."""
        try:
            return call(*arguments)
        except grpc.RpcError as error:
            self.assertEqual(error.code(), grpc.StatusCode.UNAVAILABLE)
            return None

    def code(self, call, *arguments, **more):
        try:
            call(*arguments, **more)
            return grpc.StatusCode.OK
        except grpc.RpcError as error:
            return error.code()


class TakeOver(Rig):
    """With real sandboxes."""

    def test_a_follower_goes_on_where_the_keeper_was_killed(self):
        keeper = self.start("keeper").wait_full(3)
        held = keeper.claim("held")
        follower = self.start("follower").wait_full(3)
        self.assertEqual(self.value(keeper, "warmpool_keeper"), 1)
        self.assertEqual(self.value(follower, "warmpool_keeper"), 0)
        # The follower grants, renews and proxies what the keeper made.
        mine = follower.claim("mine")
        self.assertEqual(
            follower.get(f"/sandboxes/{mine.sandbox}/healthz")[0], 200)
        self.assertEqual(follower.claim("held").sandbox, held.sandbox)
        eventually(lambda: self.code(claim_info, keeper, "mine") ==
                   grpc.StatusCode.OK, "the keeper has heard")
        self.assertEqual(keeper.claim("mine").sandbox, mine.sandbox)
        renew(follower, held)
        follower.wait_full(3)
        pids = {n: follower.pids(n) for n in follower.sandboxes()}
        self.assertEqual(keeper.stop(signal.SIGKILL), -signal.SIGKILL)
        begun = time.monotonic()
        # What was ready is claimable at once: nobody has to take over first.
        ready = follower.claim("ready")
        print(f"\nclaimed after {time.monotonic() - begun:.3f} s",
              file=sys.stderr)
        self.assertIn(ready.sandbox, pids)
        self.assertEqual(ready.served, pb.SERVED_WARM)
        eventually(lambda: self.value(follower, "warmpool_keeper") == 1,
                   "took over")
        print(f"took over after {time.monotonic() - begun:.3f} s",
              file=sys.stderr)
        follower.wait_full(3)
        for lease in (held, mine, ready):
            self.assertEqual(follower.pids(lease.sandbox),
                             pids[lease.sandbox])
            self.assertEqual(
                follower.get(f"/sandboxes/{lease.sandbox}/healthz")[0], 200)
            renew(follower, lease)
            self.assertTrue(follower.release(lease).was_held)
            eventually(lambda s=lease.sandbox: s not in follower.sandboxes(),
                       "destroyed")
        follower.wait_full(3)
        eventually(lambda: len(follower.sandboxes()) == 3, "no one too many")

    waits = "waiting for the lease store, to know whose the sandboxes are"

    def take_over_without_redis(self, *flags):
        """One that takes over, and has to be told whose a sandbox is of which
        it has not heard; and its lease of another one."""
        keeper = self.start("keeper", *flags).wait_full(3)
        follower = self.start("follower", *flags).wait_full(3)
        lease = follower.claim("mine")
        follower.wait_full(3)
        known = set(follower.sandboxes())
        self.redis.stop()
        idle = next(name for name in known if name != lease.sandbox)
        os.kill(int(follower.pids(idle)["inner"]), signal.SIGKILL)
        eventually(lambda: set(follower.sandboxes()) - known, "another one")
        unheard = (set(follower.sandboxes()) - known).pop()
        follower.pids(unheard)  # It has a record now.
        path = os.path.join(self.state, "sandboxes", unheard, "record")
        eventually(lambda: "\nready 1\n" in self.text(path), "it is ready")
        keeper.stop(signal.SIGKILL)
        eventually(lambda: self.waits in follower.messages(), "it waits")
        return follower, lease

    def test_a_takeover_waits_for_the_store(self):
        follower, lease = self.take_over_without_redis()
        pids = follower.pids(lease.sandbox)
        self.redis.start()
        eventually(lambda: self.value(follower, "warmpool_keeper") == 1,
                   "took over")
        eventually(lambda: self.granted(renew, follower, lease), "renewed")
        self.assertEqual(follower.pids(lease.sandbox), pids)
        self.assertTrue(alive(pids["inner"]))
        self.assertEqual(follower.messages().count(self.waits), 1)

    def test_a_stop_waits_for_the_store_and_not_as_long_as_for_calls(self):
        """What nobody can tell of is left as it is."""
        follower, lease = self.take_over_without_redis("--drain-grace=1h")
        pids = follower.pids(lease.sandbox)
        self.assertEqual(follower.stop(), 1, follower.messages())
        self.assertIn("leaving everything as it is", follower.messages())
        self.assertTrue(alive(pids["inner"]))

    def test_a_takeover_that_fails_says_why_and_goes_on(self):
        """What stands in its place is not the daemon's to remove."""
        keeper = self.start("keeper").wait_full(3)
        follower = self.start("follower").wait_full(3)
        pid_file = os.path.join(self.state, "warmpoold.pid")
        os.rename(pid_file, pid_file + ".away")
        os.mkdir(pid_file)
        self.assertEqual(keeper.stop(signal.SIGKILL), -signal.SIGKILL)
        eventually(lambda: "cannot take over yet" in follower.messages(),
                   "it says so")
        self.assertIn(pid_file, follower.messages())
        self.assertEqual(self.value(follower, "warmpool_keeper"), 0)
        os.rmdir(pid_file)
        eventually(lambda: self.value(follower, "warmpool_keeper") == 1,
                   "took over")
        self.assertEqual(follower.messages().count("cannot take over"), 1)

    def test_started_while_another_takes_over(self):
        """The one that takes over has the backend's lock, and not yet the pid
        file: who starts then follows, and has not taken that from it."""
        os.makedirs(self.state, 0o711)
        with open(os.path.join(self.state, "lock"), "w",
                  encoding="ascii") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            late = self.start("late")
            eventually(lambda: "protocol=http" in late.messages(), "serving")
            eventually(lambda: "no daemon that makes them is heard" in
                       late.get("/readyz")[1], "it serves, and misses one")
            self.assertIn("another daemon makes the sandboxes",
                          late.messages())
            with open(os.path.join(self.state, "warmpoold.pid"),
                      encoding="ascii") as pid_file:
                fcntl.flock(pid_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        late.wait_full(3)
        self.assertEqual(self.value(late, "warmpool_keeper"), 1)
        # One of the three; it may just be on its way into Redis.
        self.assertIn(late.claim("a").served,
                      (pb.SERVED_WARM, pb.SERVED_QUEUED))

    def test_what_the_follower_has_not_heard_is_asked_for(self):
        """A sandbox that was made and leased while nothing was heard here."""
        self.redis.ask("ACL", "SETUSER", "deaf", "on", ">sesame", "~*",
                       "+@all", "allchannels")
        keeper = self.start("keeper").wait_full(3)
        password = os.path.join(self.dir, "password")
        with open(password, "w", encoding="utf-8") as handle:
            handle.write("sesame\n")
        os.chmod(password, 0o600)
        follower = self.start(
            "follower", "--redis-url=unix:" + self.redis.path + "?user=deaf",
            "--redis-password-file=" + password).wait_full(3)
        known = set(follower.sandboxes())
        # Redis also ends what is subscribed by now.
        self.assertIn("OK", self.redis.ask("ACL", "SETUSER", "deaf",
                                           "resetchannels"))
        eventually(lambda: "cannot be heard" in follower.messages(), "deaf")
        leases = []
        while not leases or leases[-1].sandbox in known:
            leases.append(keeper.claim(f"claim-{len(leases)}"))
            keeper.wait_full(3)
        unheard = leases[-1]
        pids = keeper.pids(unheard.sandbox)
        keeper.stop(signal.SIGKILL)
        eventually(lambda: self.value(follower, "warmpool_keeper") == 1,
                   "took over")
        self.redis.ask("ACL", "SETUSER", "deaf", "allchannels")
        eventually(lambda: self.granted(renew, follower, unheard),
                   "the lease is known")
        self.assertEqual(follower.pids(unheard.sandbox), pids)
        self.assertTrue(alive(pids["inner"]))
        self.assertEqual(
            follower.get(f"/sandboxes/{unheard.sandbox}/healthz")[0], 200)

    def test_planned_stops_in_turn(self):
        """Rolling restart: no lease ends, no idle sandbox is wasted."""
        first = self.start("first").wait_full(3)
        lease = first.claim("a")
        second = self.start("second").wait_full(3)
        first.wait_full(3)
        eventually(lambda: self.value(first, "warmpool_replicas") == 2,
                   "first knows of second")
        names = second.sandboxes()
        self.assertEqual(first.stop(), 0, first.messages())
        self.assertIn("other daemons go on", first.messages())
        eventually(lambda: self.value(second, "warmpool_keeper") == 1,
                   "took over")
        self.assertEqual(second.sandboxes(), names)
        third = self.start("third").wait_full(3)
        self.assertEqual(third.stop(), 0, third.messages())
        self.assertEqual(second.sandboxes(), names)
        self.assertEqual(claim_info(second, "a").state,
                         pb.CLAIM_STATE_HELD)
        self.assertTrue(second.release(lease).was_held)

    def test_a_keeper_that_stands_still_is_noticed(self):
        """A follower whose pool it does not fill any more says so."""
        keeper = self.start("a", "--heartbeat-timeout=1s").wait_full(3)
        follower = self.start("b", "--heartbeat-timeout=1s").wait_full(3)
        eventually(lambda: self.value(follower, "warmpool_keepers") == 1,
                   "the keeper is heard")
        keeper.process.send_signal(signal.SIGSTOP)
        try:
            eventually(lambda: self.value(follower, "warmpool_keepers") == 0,
                       "the keeper is missed")
            self.assertEqual(follower.get("/readyz")[0], 200)
            for i in range(3):
                eventually(lambda n=i: self.granted(
                    follower.claim, f"c{n}"), "what is ready is granted")
            status, body = follower.get("/readyz")
            self.assertEqual(status, 503, body)
            self.assertIn("no daemon that makes them is heard", body)
        finally:
            keeper.process.send_signal(signal.SIGCONT)
        eventually(lambda: follower.get("/readyz")[0] == 200, "ready again")
        eventually(lambda: self.value(follower, "warmpool_keepers") == 1,
                   "the keeper is heard again")

    def test_the_last_of_all_that_stop_leaves_nothing_idle(self):
        """Whoever has stopped a moment ago is no successor."""
        for last in ("keeper", "follower"):
            daemons = {name: self.start(name).wait_full(3)
                       for name in ("keeper", "follower")}
            for daemon in daemons.values():
                eventually(lambda d=daemon: self.value(
                    d, "warmpool_replicas") == 2, "they know of each other")
            first = daemons.pop("follower" if last == "keeper" else "keeper")
            self.assertEqual(first.stop(), 0, first.messages())
            self.assertIn("other daemons go on", first.messages())
            daemon = daemons[last]
            eventually(lambda d=daemon: "a replica leaves" in d.messages(),
                       "it was told")
            daemon.wait_full(3)
            eventually(lambda d=daemon: self.value(d, "warmpool_keeper") == 1,
                       "it keeps")
            self.assertEqual(daemon.stop(), 0, daemon.messages())
            self.assertIn("nothing is left behind", daemon.messages())
            self.assertEqual(daemon.sandboxes(), [])

    def test_alone_kill_and_restart(self):
        daemon = self.start("a").wait_full(3)
        lease = daemon.claim("a")
        daemon.wait_full(3)
        names = daemon.sandboxes()
        pids = daemon.pids(lease.sandbox)
        daemon.stop(signal.SIGKILL)
        self.assertTrue(alive(pids["inner"]))
        again = self.start("b").wait_full(3)
        self.assertEqual(again.sandboxes(), names)
        self.assertEqual(again.claim("a").sandbox, lease.sandbox)
        self.assertTrue(again.release(lease).was_held)


class ServesFirst(ServesFirstTests, Rig):
    """With leases in Redis."""

    def begin(self, name):
        return self.start(name)


class Store(Rig):
    """What does not depend on what a sandbox is."""

    flags = ("--synthetic", "--redis-timeout=5s")

    def synthetic(self):
        path = os.path.join(self.state, "synthetic")
        return sorted(os.listdir(path)) if os.path.isdir(path) else []

    def stop_at_once(self, n, killed=(), flags=()):
        """Daemons, told to stop before any of them can have heard another."""
        daemons = [self.start(str(i), *flags) for i in range(n)]
        for daemon in daemons:
            daemon.wait_full(3)
        lease = daemons[-1].claim("held")
        for daemon in daemons:
            daemon.wait_full(3)
        for i in killed:
            daemons[i].process.kill()
        order = daemons[::-1] if self.stops % 2 else daemons
        self.stops += 1
        for daemon in order:
            daemon.process.send_signal(signal.SIGTERM)
        for i, daemon in enumerate(daemons):
            code = daemon.process.wait(PATIENCE)
            self.assertEqual(code, -signal.SIGKILL if i in killed else 0,
                             daemon.messages())
        return lease

    def test_all_that_stop_at_once_leave_nothing_idle(self):
        self.stops = 0
        for _ in range(4):
            lease = self.stop_at_once(2)
            self.assertEqual(len(self.synthetic()), 1)
            stops = self.start("last")
            stops.wait_full(3)
            self.assertTrue(stops.release(lease).was_held)
            self.assertEqual(stops.stop(), 0)
            self.assertEqual(self.synthetic(), [])
        for _ in range(2):
            self.stop_at_once(3, flags=("--stop-leaves=nothing",))
            self.assertEqual(self.synthetic(), [])

    def test_who_was_killed_is_no_successor(self):
        """Nobody counts on one that is dead, not even for a moment."""
        self.stops = 0
        for killed in (0, 1):
            self.stop_at_once(2, killed=(killed,),
                              flags=("--stop-leaves=nothing",))
            self.assertEqual(self.synthetic(), [])

    def test_claims_on_both_get_different_sandboxes(self):
        keeper = self.start("a", replicas=30).wait_full(30)
        follower = self.start("b", replicas=30).wait_full(30)
        got, lock = [], threading.Lock()

        def claim(daemon, prefix):
            for i in range(60):
                lease = daemon.claim(f"{prefix}{i}")
                with lock:
                    got.append(lease)

        threads = [threading.Thread(target=claim, args=(d, p))
                   for d, p in ((keeper, "k"), (follower, "f"))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(got), 120)
        self.assertEqual(len({x.sandbox for x in got}), 120)
        for daemon in (keeper, follower):
            eventually(lambda d=daemon: d.pool().leased == 120, "all known")

    def test_what_had_no_slot_is_heard_of_later(self):
        keeper = self.start("a", replicas=2).wait_full(2)
        follower = self.start("b", "--slots-max=24", replicas=2).wait_full(2)
        leases = [keeper.claim(f"c{i}") for i in range(32)]
        eventually(lambda: follower.pool().leased > 16, "no room for more")
        for lease in leases:
            keeper.release(lease)
        keeper.wait_full(2)
        # What is ready now was made when the follower had no slot left.
        eventually(lambda: (follower.pool().ready, follower.pool().leased) ==
                   (2, 0), "room, and told again")

    def test_a_drains_grace_where_the_others_leave_too(self):
        """Told to drain, it counts on the follower, which leaves while a call
        is still under way: so the leases are its own to wait for after all, and
        the follower does not wait as long as for calls of its own."""
        keeper = self.start("keeper", "--drain-grace=1h").wait_full(3)
        follower = self.start("follower", "--drain-grace=1h").wait_full(3)
        eventually(lambda: self.value(keeper, "warmpool_replicas") == 2,
                   "it knows of the follower")
        lease = keeper.claim("held", ttl_ms=600000)
        over = threading.Event()
        list_services = b"\x3a\x00"

        def requests():
            yield list_services
            over.wait()

        call = keeper.channel.stream_stream(
            "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo")(
                requests(), timeout=PATIENCE)
        self.addCleanup(over.set)
        self.assertIn(b"warmpool.v1.Allocator", next(call))
        keeper.rpc("PoolAdmin/Drain", pb.DrainRequest(grace_ms=600000),
                   pb.DrainResponse)
        eventually(lambda: "leaving" in keeper.messages(), "it leaves")
        self.assertNotIn("leases live on", keeper.messages())
        self.assertEqual(follower.stop(), 0, follower.messages())
        eventually(lambda: "a replica leaves" in keeper.messages(),
                   "it was told")
        over.set()
        eventually(lambda: "leases live on" in keeper.messages() or
                   keeper.process.poll() is not None, "grace")
        self.assertIn("leases live on", keeper.messages())
        self.assertIsNone(keeper.process.poll())
        self.assertTrue(os.path.exists(lease.endpoint[len("unix:"):]))
        # Whoever is in a hurry ends it.
        self.assertEqual(keeper.stop(), 0, keeper.messages())
        self.assertIn("nothing is left behind", keeper.messages())
        self.assertEqual(keeper.sandboxes(), [])

    def test_another_state_directory_is_refused(self):
        daemon = self.start("a").wait_full(3)
        lease = daemon.claim("a")
        other = tempfile.mkdtemp(prefix="wp-state-")
        self.addCleanup(shutil.rmtree, other, True)
        second = Replica("b", other, "unix:" + self.redis.path, *self.flags)
        self.daemons.append(second)
        self.assertEqual(second.process.wait(PATIENCE), 1)
        self.assertIn("setting 'redis_prefix': 'warmpool' is in use by the "
                      "daemon 'a'", second.messages())
        self.assertEqual(claim_info(daemon, "a").state, pb.CLAIM_STATE_HELD)
        self.assertTrue(daemon.release(lease).was_held)

    def test_a_pool_gone_from_the_manifests_keeps_its_leases(self):
        daemon = self.start("a").wait_full(3)
        lease = daemon.claim("a")
        daemon.stop(signal.SIGKILL)
        other = os.path.join(self.dir, "other.yaml")
        with open(MANIFEST, encoding="utf-8") as source, \
                open(other, "w", encoding="utf-8") as target:
            target.write(re.sub(r"(kind: SandboxWarmPool\nmetadata:\n  name: )"
                                r"quickstart", r"\1other", source.read()))
        # Twice: the second start knows the name from the first one only.
        for name in ("b", "c"):
            again = self.start(name, manifest=other)
            eventually(again.ready, "ready")
            self.assertIn("a pool is gone that leases are of",
                          again.messages())
            self.assertEqual(claim_info(again, "a").sandbox, lease.sandbox)
            self.assertEqual(self.code(again.claim, "b"),
                             grpc.StatusCode.UNAVAILABLE)
            renew(again, lease)
            if name == "b":
                again.stop(signal.SIGKILL)
        self.assertTrue(again.release(lease).was_held)

    def test_redis_is_not_there_at_the_start(self):
        self.redis.stop()
        daemon = self.start("a")
        self.assertEqual(daemon.process.wait(PATIENCE), 1)
        self.assertIn("reading the lease store", daemon.messages())


class Password(Rig):
    flags = ("--synthetic",)
    redis_options = ("--requirepass", "open-sesame")

    def test_wrong_then_right(self):
        daemon = self.start("a")
        self.assertEqual(daemon.process.wait(PATIENCE), 1)
        path = os.path.join(self.dir, "password")
        for text, works in (("wrong-sesame", False), ("open-sesame", True)):
            with open(path, "w", encoding="utf-8") as handle:
                handle.write(text + "\n")
            os.chmod(path, 0o600)
            daemon = self.start("a", "--redis-password-file=" + path)
            if works:
                daemon.wait_full(3)
                daemon.release(daemon.claim("a"))
            else:
                self.assertEqual(daemon.process.wait(PATIENCE), 1)
                self.assertIn("WRONGPASS", daemon.messages())
            self.assertNotIn("sesame", daemon.messages())


def run():
    """The tests of the file that is run."""
    reason = host_can()
    if not reason and not shutil.which("redis-server"):
        reason = "redis-server is not installed"
    if reason:
        print("SKIP:", reason)
        sys.exit(77)
    unittest.main(argv=[sys.argv[0]] + sys.argv[4:], verbosity=2)


if __name__ == "__main__":
    run()
