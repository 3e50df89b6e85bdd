"""What several warmpoold do when Redis is away, forgets, or is an older copy.

Run by ctest: daemon_redis_forgets_test.py WARMPOOLD GENERATED_DIR DEPLOY_DIR
[unittest arguments]. Exits with 77 where there is no redis-server.
"""

import os
import shutil
import signal

import grpc

from daemon_lease_test import claim_info
from daemon_redis_test import Rig, run
from daemon_test import MANIFEST, eventually, pb


class Forgets(Rig):
    """What does not depend on what a sandbox is."""

    flags = ("--synthetic", "--redis-timeout=5s")

    def test_redis_comes_and_goes(self):
        daemon = self.start("a").wait_full(3)
        lease = daemon.claim("kept")
        daemon.wait_full(3)
        self.redis.stop()
        self.assertEqual(self.code(daemon.claim, "lost"),
                         grpc.StatusCode.UNAVAILABLE)
        self.assertEqual(claim_info(daemon, "kept").state,
                         pb.CLAIM_STATE_HELD)
        eventually(lambda: daemon.get("/readyz")[0] == 503, "not ready")
        self.redis.start()
        eventually(lambda: self.code(daemon.claim, "later") ==
                   grpc.StatusCode.OK, "claims again")
        eventually(daemon.ready, "ready")
        self.assertTrue(daemon.release(lease).was_held)
        eventually(lambda: self.value(
            daemon, "warmpool_redis_pools_in_doubt") == 0, "trusted")

    def test_redis_comes_back_to_one_that_others_have_left(self):
        """Only what a killed one may have granted is given up, and once."""
        daemon = self.start("a", "--heartbeat-timeout=1s").wait_full(3)
        for end, after in ((signal.SIGTERM, 0), (signal.SIGKILL, 3)):
            other = self.start("b", "--heartbeat-timeout=1s").wait_full(3)
            self.knows(daemon, 2)
            other.stop(end)
            self.knows(daemon, 1)
            for expected in (after, 0):
                before = self.destroyed(daemon)
                self.restart_redis(daemon)
                daemon.wait_full(3)
                for state in ("quarantined", "dying"):
                    eventually(lambda s=state: self.value(
                        daemon, "warmpool_sandboxes",
                        f'namespace="default",pool="quickstart",state="{s}"')
                        == 0, "what was given up is gone")
                self.assertEqual(self.destroyed(daemon) - before, expected)

    def knows(self, daemon, n):
        eventually(lambda: self.value(daemon, "warmpool_replicas") == n,
                   "it knows of the other")

    def destroyed(self, daemon):
        return self.value(
            daemon, "warmpool_sandboxes_destroyed_total",
            'namespace="default",pool="quickstart"')

    def restart_redis(self, daemon):
        """What is kept is whole; but the daemon cannot know."""
        told = daemon.messages().count("Redis has been restored")
        self.redis.stop()
        self.redis.start()
        eventually(lambda: daemon.messages().count("Redis has been restored") >
                   told, "recovered")

    def test_redis_forgets_everything(self):
        """What the replicas know is what holds."""
        keeper = self.start("a").wait_full(3)
        follower = self.start("b").wait_full(3)
        a, b = keeper.claim("a"), follower.claim("b")
        eventually(lambda: self.code(claim_info, keeper, "b") ==
                   grpc.StatusCode.OK, "heard")
        self.redis.ask("FLUSHALL")
        for n, daemon in enumerate((keeper, follower)):
            eventually(lambda d=daemon, i=n: self.code(d.claim, f"new{i}") ==
                       grpc.StatusCode.OK, "claims go on")
        leases = [keeper.claim("new0"), follower.claim("new1"), a, b]
        self.assertEqual(len({x.sandbox for x in leases}), 4)
        self.assertEqual(follower.claim("a").sandbox, a.sandbox)
        self.assertEqual(keeper.claim("b").sandbox, b.sandbox)
        self.assertTrue(keeper.release(b).was_held)
        self.assertTrue(follower.release(a).was_held)

    def several_pools(self, more):
        """A manifest of the quickstart's pool and so many more; their names."""
        names = ["quickstart"] + [f"more{i}" for i in range(more)]
        several = os.path.join(self.dir, "several.yaml")
        with open(MANIFEST, encoding="utf-8") as source:
            text = source.read()
        pool = next(d for d in text.split("\n---\n")
                    if "kind: SandboxWarmPool" in d)
        for name in names[1:]:
            text += "\n---\n" + pool.replace("name: quickstart",
                                            "name: " + name, 1)
        with open(several, "w", encoding="utf-8") as target:
            target.write(text)
        return several, names

    def test_a_stop_waits_for_no_pool_in_doubt(self):
        """They wait for a replica that stands still, and Redis does, too: one
        question may be out, not one for each pool."""
        several, names = self.several_pools(199)
        self.flags = ("--synthetic", "--redis-timeout=2s",
                      "--heartbeat-timeout=60s")
        keeper, other = (self.start(n, manifest=several, replicas=1)
                         for n in ("keeper", "other"))
        for daemon in (keeper, other):
            eventually(daemon.ready, "ready")
            eventually(lambda d=daemon: self.value(
                d, "warmpool_replicas") == 2, "they know of each other")
        other.process.send_signal(signal.SIGSTOP)
        self.redis.stop()
        self.redis.start()
        eventually(lambda: self.value(
            keeper, "warmpool_redis_pools_in_doubt") == len(names), "doubt")
        self.redis.process.send_signal(signal.SIGSTOP)
        self.assertIn(keeper.stop(), (0, 1))
        self.redis.process.send_signal(signal.SIGCONT)
        other.process.send_signal(signal.SIGCONT)

    def test_a_pool_that_comes_by_sighup_keeps_its_leases(self):
        """At once, after kill -9, and at a daemon beside."""
        daemons = {name: self.start(name).wait_full(3)
                   for name in ("keeper", "follower")}
        several, _ = self.several_pools(1)

        def claim(daemon, claim_id):
            return daemon.rpc("Allocator/Claim", pb.ClaimRequest(
                pool=pb.PoolRef(name="more0"), claim_id=claim_id,
                wait_ms=60000), pb.ClaimResponse).lease

        for daemon in daemons.values():
            daemon.write_manifest(3, several)
            daemon.process.send_signal(signal.SIGHUP)
            eventually(lambda d=daemon: self.code(d.rpc, "PoolAdmin/GetPool",
                pb.GetPoolRequest(pool=pb.PoolRef(name="more0")), pb.Pool) ==
                grpc.StatusCode.OK, "it has come")
        held = eventually(lambda: self.granted(
            claim, daemons["keeper"], "a"), "granted")
        mine = eventually(lambda: self.granted(
            claim, daemons["follower"], "b"), "granted by the follower")
        self.assertNotEqual(held.sandbox, mine.sandbox)
        self.assertEqual(eventually(lambda: self.granted(
            claim, daemons["follower"], "a"), "known").sandbox, held.sandbox)
        for daemon in daemons.values():
            daemon.stop(signal.SIGKILL)
        again = self.start("again", manifest=several)
        eventually(again.ready, "ready")
        self.assertEqual(claim(again, "a").sandbox, held.sandbox)
        self.assertEqual(claim(again, "b").sandbox, mine.sandbox)

    def test_redis_forgets_many_pools(self):
        """No replica waits in one pool for another that waits in the next."""
        several, names = self.several_pools(5)
        daemons = [self.start(n, manifest=several).wait_full(3)
                   for n in ("a", "b", "c")]

        def claim(daemon, name, claim_id):
            return daemon.rpc("Allocator/Claim", pb.ClaimRequest(
                pool=pb.PoolRef(name=name), claim_id=claim_id,
                wait_ms=60000), pb.ClaimResponse).lease

        held = {(n, d.name): claim(d, n, f"{n}-{d.name}")
                for n in names for d in daemons}
        self.assertEqual(len({x.sandbox for x in held.values()}), 18)
        for again in range(3):
            self.redis.ask("FLUSHALL")
            # Each replica meets it in another pool first.
            for i in range(6):
                for k, daemon in enumerate(daemons):
                    name = names[(i + 2 * k) % 6]
                    eventually(lambda d=daemon, n=name: self.code(
                        claim, d, n, f"{n}-{d.name}-{again}") ==
                        grpc.StatusCode.OK, "claims go on")
        for (name, owner), lease in held.items():
            for daemon in daemons:
                again = eventually(lambda d=daemon, n=name, o=owner:
                                   self.granted(claim, d, n, f"{n}-{o}"),
                                   "a repeat")
                self.assertEqual(again.sandbox, lease.sandbox)
            self.assertTrue(daemons[0].release(lease).was_held)

    def uids(self, kind="r"):
        """The sandboxes that Redis has records of."""
        names = self.redis.ask("HKEYS", "warmpool:{default/quickstart}")
        return {x[1:].strip() for x in names.split("\n") if x[:1] == kind}

    def test_an_old_copy_of_redis_brings_no_sandbox_back(self):
        """Records of sandboxes that are forgotten since, held ones and ready
        ones, end before anybody can be given them."""
        keeper = self.start("a").wait_full(3)
        follower = self.start("b").wait_full(3)
        held = keeper.claim("held")
        past = keeper.claim("past")
        keeper.wait_full(3)
        eventually(lambda: len(self.uids()) == 5, "two held, three ready")
        bring_back = self.copy_redis()
        before = self.uids()
        self.assertTrue(follower.release(past).was_held)
        for i in range(3):
            self.assertTrue(keeper.release(keeper.claim(f"old{i}")).was_held)
        keeper.wait_full(3)
        eventually(lambda: len(self.uids()) == 4, "they are forgotten")
        after = self.uids()
        self.assertTrue(before - after)
        bring_back()
        eventually(lambda: self.code(follower.claim, "new0") ==
                   grpc.StatusCode.OK, "claims go on")
        leases = [follower.claim(f"new{i}") for i in range(8)]
        leases.append(follower.claim("past"))
        for lease in leases:
            self.assertTrue(os.path.exists(lease.endpoint[len("unix:"):]),
                            "it is there")
        self.assertEqual(follower.claim("held").sandbox, held.sandbox)
        self.assertEqual(len({x.sandbox for x in [held, *leases]}), 10)
        eventually(lambda: not self.uids() & (before - after),
                   "no record of what is gone")

    def copy_redis(self):
        """Puts by what Redis has now; brings it back when called."""
        there = os.path.join(self.redis.dir, "appendonlydir")
        copy = os.path.join(self.dir, "copy")
        shutil.copytree(there, copy)

        def bring_back():
            self.redis.stop()
            shutil.rmtree(there)
            shutil.move(copy, there)
            self.redis.start()
        return bring_back

    def test_an_old_copy_of_redis_denies_no_claims_second_lease(self):
        """The copy has the claim's first one, whose sandbox is gone since."""
        keeper = self.start("a").wait_full(3)
        follower = self.start("b").wait_full(3)
        first = {d: d.claim(f"again-{d.name}") for d in (keeper, follower)}
        keeper.wait_full(3)
        eventually(lambda: len(self.uids()) == 5, "two held, three ready")
        bring_back = self.copy_redis()
        before = self.uids()
        for daemon, lease in first.items():
            self.assertTrue(daemon.release(lease).was_held)
        keeper.wait_full(3)
        eventually(lambda: len(before & self.uids()) == 3, "both forgotten")
        second = {d: d.claim(f"again-{d.name}") for d in (keeper, follower)}
        bring_back()
        for other in (keeper, follower):
            for daemon, lease in second.items():
                again = eventually(lambda o=other, d=daemon: self.granted(
                    o.claim, f"again-{d.name}"), "claims go on")
                self.assertEqual(again.sandbox, lease.sandbox)
        for lease in second.values():
            self.assertTrue(keeper.release(lease).was_held)

    def test_of_two_leases_of_one_claim_one_ends(self):
        """A replica that had lost touch has told of the claim's past lease, and
        Redis has forgotten the present one: that one stays, and of two that
        nobody can tell apart one sandbox is nobody's."""
        for age_ms, kept in ((1000, True), (0, False)):
            with self.subTest(age_ms=age_ms):
                self.tell_of_two(age_ms, kept)
                self.daemons.pop().stop(signal.SIGKILL)
                self.redis.ask("FLUSHALL")

    def tell_of_two(self, age_ms, kept):
        keeper = self.start("a").wait_full(3)
        name = "warmpool:{default/quickstart}"

        def records():
            return {x: self.redis.ask("HGET", name, "r" + x).strip()
                    for x in self.uids()}

        before = records()
        lease = keeper.claim("twice")
        keeper.wait_full(3)
        after = records()
        mine = next(x for x in before if after[x][1] == "2")
        other = next(x for x in before if x != mine)
        part = 45 + int(after[mine][42:45])
        end = 45 + int(after[other][42:45])
        granted = part + 3 + len("00twice")
        past = (after[mine][:2] + f"{int(after[other][2:22]) + 1:020}" +
                after[mine][22:42] + after[other][42:end] +
                after[mine][part:granted] +
                f"{int(after[mine][granted:granted + 20]) - age_ms:020}" +
                after[mine][granted + 20:])
        self.redis.ask("HSET", name, "r" + mine, before[mine], "r" + other,
                       past, "c00twice", "r" + other, "g", "o" + 16 * "0")
        eventually(lambda: self.granted(keeper.claim, "next"), "claims go on")
        others = [keeper.claim(f"more{i}").sandbox for i in range(4)]
        self.assertNotIn(lease.sandbox, others)
        if kept:
            self.assertEqual(records()[mine], after[mine])
            self.assertEqual(keeper.claim("twice").sandbox, lease.sandbox)
            eventually(lambda: other not in self.uids(), "it has ended")
        else:
            eventually(lambda: mine not in self.uids(), "it has ended")


if __name__ == "__main__":
    run()
