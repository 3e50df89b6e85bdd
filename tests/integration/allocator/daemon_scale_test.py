"""Pools whose size follows a policy, in the whole daemon.

Run by ctest: daemon_scale_test.py WARMPOOLD GENERATED_DIR DEPLOY_DIR CTL
SCALE_RETRACE [unittest arguments]. Needs nothing of the host: its sandboxes are files.
"""

import json
import os
import re
import signal
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
import unittest

CTL = sys.argv.pop(4)
RETRACE = sys.argv.pop(4)

import grpc  # noqa: E402

from daemon_redis_test import Rig as RedisRig  # noqa: E402
from daemon_test import (MANIFEST, PATIENCE, POOL, Daemon, end_each,  # noqa
                         eventually, metrics, pb)

OBJECTIVE = {"objective": "99%", "max": "60"}


def reserve(daemon, name, sandboxes, after_s, for_s, pool=POOL):
    """after_s None: now."""
    now = int(time.time() * 1000)
    begin = now + int((after_s or 0) * 1000)
    return daemon.rpc(
        "PoolAdmin/Reserve",
        pb.ReserveRequest(pool=pool, id=name, sandboxes=sandboxes,
                          not_before_unix_ms=0 if after_s is None else begin,
                          until_unix_ms=begin + int(for_s * 1000)),
        pb.Reservation)


def cancel(daemon, name):
    return daemon.rpc("PoolAdmin/CancelReservation",
                      pb.CancelReservationRequest(pool=POOL, id=name),
                      pb.CancelReservationResponse)


def recorded(daemon):
    """How many claims there is a record of; 0: none."""
    call = daemon.channel.unary_stream(
        "/warmpool.v1.PoolAdmin/Advise",
        request_serializer=pb.AdviseRequest.SerializeToString,
        response_deserializer=pb.AdviseResponse.FromString)
    try:
        told = list(call(pb.AdviseRequest(pool=POOL, lead_ms=100,
                                          objectives=[0.9]),
                         timeout=PATIENCE))
    except grpc.RpcError as error:
        if error.code() != grpc.StatusCode.INVALID_ARGUMENT:
            raise
        return 0
    return told[-1].report.claims


def write_manifest(directory, policy):
    """The quickstart's, with this policy."""
    source = os.path.join(directory, "source.yaml")
    with open(MANIFEST, encoding="utf-8") as handle:
        text = handle.read()
    lines = "".join(f'    autoscale.warmpool.io/{k}: "{v}"\n'
                    for k, v in policy.items())
    with open(source, "w", encoding="utf-8") as handle:
        handle.write(text.replace("  annotations:\n",
                                  "  annotations:\n" + lines))
    return source


class ScaleTest(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="wp-scale-")
        self.daemons = []
        self.addCleanup(self.clean)

    def clean(self):
        end_each(self, self.daemons)
        shutil.rmtree(self.dir, ignore_errors=True)

    def start(self, policy, *flags, store="sqlite", **more):
        daemon = Daemon("--lease-store=" + store, "--synthetic",
                        "--synthetic-ready=100ms", *flags,
                        manifest=write_manifest(self.dir, policy),
                        directory=self.dir, **more)
        self.daemons.append(daemon)
        eventually(daemon.ready, "ready")
        return daemon

    def error(self, call, *arguments):
        with self.assertRaises(grpc.RpcError) as caught:
            call(*arguments)
        return caught.exception.code()

    def ctl(self, daemon, *words):
        return subprocess.run(
            [CTL, "--address", "unix:" + daemon.grpc_path, *words],
            check=True, capture_output=True, text=True,
            timeout=PATIENCE).stdout

    def work(self, daemon, claims, first=0):
        for i in range(first, first + claims):
            daemon.release(daemon.claim(f"w{i}", wait_ms=60000))

    def test_follows_claims_explains_and_survives_a_kill(self):
        daemon = self.start(OBJECTIVE, replicas=1)
        worked = 0
        pool = daemon.pool()
        while pool.target < 4:
            self.work(daemon, 20, worked)
            worked += 20
            self.assertLess(worked, 5000)
            pool = daemon.pool()
        self.assertEqual(pool.scaling.replicas, 1)
        decision = pool.scaling.decisions[0]
        self.assertGreaterEqual(decision.target, 4)
        self.assertIn(decision.reason, ("forecast", "burst", "held"))
        self.assertIn("target", decision.sentence)
        self.assertGreater(decision.rate_per_s, 1)
        self.assertGreater(decision.lead_mean_s, 0.09)
        eventually(lambda: re.search(r"INFO target .* from=1 to=\d+ reason=",
                                     daemon.messages()), "the log")
        text = self.ctl(daemon, "explain", "quickstart")
        self.assertRegex(text, r"(?m)^Keeping \d+ ready or in the making: ")
        self.assertRegex(text, r"Seen: [0-9.]+ % of the latest [0-9 ]+ claims")
        self.assertLessEqual(max(map(len, text.splitlines())), 80)
        text = self.ctl(daemon, "explain", "quickstart", "--terms")
        self.assertIn("a second expected", text)
        rows = text[text.index("REASON"):].split("\n\n")[0].splitlines()[1:]
        self.assertTrue(rows)
        for row in rows[:-1]:  # But for the first ever, they changed something.
            self.assertNotEqual(*row.split()[1:3], text)
        told = json.loads(self.ctl(daemon, "explain", "quickstart", "-o",
                                   "json"))
        self.assertGreater(told["decisions"][0]["terms"]["lead_mean_s"], 0.09)
        numbers = metrics(daemon.get("/metrics")[1])
        self.assertGreater(
            numbers["warmpool_scale_reaction_seconds_count",
                    'namespace="default",pool="quickstart"'], 0)
        # A reservation has what was learned saved at once.
        reserve(daemon, "later", 5, 3600, 60)
        eventually(lambda: metrics(daemon.get("/metrics")[1]).get(
            ("warmpool_lease_commits_total",
             'kind="put_snapshot",outcome="OK"'), 0) > 0, "saved")
        self.assertEqual(daemon.stop(signal.SIGKILL), -signal.SIGKILL)

        again = self.start(OBJECTIVE, replicas=1)
        # The target may be lower by now: on a slow machine the burst is over.
        pool = eventually(lambda: (lambda p: p if p.scaling.decisions else
                                   None)(again.pool()), "a decision")
        self.assertGreater(pool.scaling.decisions[0].rate_slow_per_s, 0.1)
        self.assertEqual([r.id for r in pool.scaling.reservations], ["later"])
        self.assertNotIn("left out", again.messages())

    def test_saturated_creation_is_told(self):
        # 300 ms each, two at once: 6.7/s can be made. Claims come as fast as
        # they are served, without waiting.
        daemon = self.start({"objective": "99.9%"}, "--synthetic-ready=300ms",
                            "--sandbox-spawns-max=2", replicas=4)

        def saturated():
            for _ in range(30):
                try:
                    daemon.release(daemon.claim(f"s{time.monotonic_ns()}"))
                except grpc.RpcError:
                    time.sleep(0.01)
            decision = json.loads(self.ctl(
                daemon, "explain", "quickstart", "-o", "json"))["decisions"][0]
            return (decision if decision["terms"]["expected"] > 2 and
                    decision["capacity"]["makes_per_s"] else None)

        decision = eventually(saturated, "saturated")
        self.assertEqual(decision["capacity"]["at_once"], 2)
        self.assertLess(decision["outlook"]["hit_rate"], 0.9)
        self.assertIn("creation saturated", decision["sentence"])
        # Waiting for a turn is not the time that making one takes.
        self.assertLess(decision["terms"]["lead_mean_s"], 0.6)
        self.assertLess(decision["target"], 40)

        def told():
            saturated()
            return "Creation is saturated" in self.ctl(daemon, "explain",
                                                       "quickstart")

        eventually(told, "told in words")

    def decisions(self, daemon):
        """What explain shows, by number, flat as the replay prints it."""
        told = json.loads(self.ctl(daemon, "explain", "quickstart", "-o",
                                   "json"))["decisions"]
        for decision in told:
            decision.pop("sentence")
            decision.pop("capacity")
            decision["outlook"].pop("seen_claims")
            for part in ("demand", "terms", "outlook"):
                decision.update(decision.pop(part))
        if len(told) > 1 and told[0]["number"] == told[1]["number"]:
            del told[0]  # It changed nothing, and is not kept.
        return {d["number"]: d for d in told}

    def decide(self, daemon, name):
        """Bursts, pauses and a reservation; every decision that was kept."""
        kept = {}
        serial = 0

        def low():
            # Once it has learned that bursts recur, it keeps stock for them.
            kept.update(self.decisions(daemon))
            return daemon.pool().target <= 2 or any(
                decision["learned"] for decision in kept.values())

        for burst in range(3):
            while daemon.pool().target < 4 + burst:
                for _ in range(5):
                    daemon.release(daemon.claim(f"{name}-{serial}",
                                                wait_ms=60000))
                    serial += 1
                kept.update(self.decisions(daemon))
                self.assertLess(serial, 5000)
            if burst == 1:
                reserve(daemon, name, 5, None, 3600)
                eventually(lambda: daemon.pool().target >= 9, "reserved")
                kept.update(self.decisions(daemon))
                cancel(daemon, name)
            eventually(low, "scaled down")
        # Something new, so that what is known in the end is saved.
        kept.update(self.decisions(daemon))
        daemon.release(daemon.claim(name + "-last", wait_ms=60000))
        return kept

    def retrace(self, policy):
        """The decisions that the pool's snapshot, which a daemon left, gives."""
        db = sqlite3.connect(os.path.join(self.dir, "s", "leases.db"))
        snapshot = db.execute("SELECT bytes FROM note").fetchone()[0]
        db.close()
        path = os.path.join(self.dir, "note")
        with open(path, "wb") as handle:
            handle.write(snapshot)
        lines = subprocess.run(
            [RETRACE, path, *(f"{k}={v}" for k, v in policy.items())],
            check=True, capture_output=True, text=True,
            timeout=PATIENCE).stdout.splitlines()
        return [json.loads(line) for line in lines]

    def test_a_recorded_run_replays_to_the_same_decisions(self):
        policy = {**OBJECTIVE, "min": "1", "scale-down-window": "1s",
                  "scale-down-rate": "100%"}
        kept = []
        for name in ("first", "second"):
            daemon = self.start(policy, replicas=1)
            kept.append(self.decide(daemon, name))
            self.assertEqual(daemon.stop(), 0, daemon.messages())
            again = self.retrace(policy)
            for run in kept:
                self.assertGreater(len(run), 2)
                for number, decision in sorted(run.items()):
                    self.assertIn(decision, [d for d in again
                                             if d["number"] == number])

    def test_what_was_kept_is_damaged(self):
        """It is left out, with a word; the pool serves, and learns anew."""
        for bytes_, error in (
                ("CAST(x'00' || substr(bytes, 2) AS BLOB)",
                 "the pool's snapshot is none of this version's"),
                ("substr(bytes, 1, length(bytes) - 1)",
                 "the pool's snapshot is damaged")):
            daemon = self.start(OBJECTIVE, replicas=1)
            daemon.release(daemon.claim("a" + error[-3:], wait_ms=60000))
            self.assertEqual(daemon.stop(), 0, daemon.messages())
            db = sqlite3.connect(os.path.join(self.dir, "s", "leases.db"))
            db.execute("UPDATE note SET bytes = " + bytes_)
            db.commit()
            db.close()
            daemon = self.start(OBJECTIVE, replicas=1)
            daemon.release(daemon.claim("b" + error[-3:], wait_ms=60000))
            self.assertIn("what was kept of the pool is left out "
                          "namespace=default pool=quickstart "
                          f"error=\"{error}\"", daemon.messages())
            self.assertEqual(daemon.stop(), 0, daemon.messages())

    def test_reservation_raises_the_stock_before_its_time(self):
        daemon = self.start(OBJECTIVE, replicas=1)
        kept = reserve(daemon, "job", 20, 10, 60)
        self.assertEqual((kept.sandboxes, kept.left), (20, 20))
        eventually(lambda: daemon.pool().ready >= 20, "the stock")
        # By how much before its time is pool_scale_test's, on a clock that a
        # busy machine does not hurry.
        self.assertIn("reserved", [d.reason for d in
                                   daemon.pool().scaling.decisions])
        cancel(daemon, "job")
        self.assertEqual(self.error(cancel, daemon, "job"),
                         grpc.StatusCode.NOT_FOUND)
        self.assertEqual(list(daemon.pool().scaling.reservations), [])

    def test_reservations_are_checked(self):
        daemon = self.start(OBJECTIVE, replicas=1)
        now = int(time.time() * 1000)
        request = pb.ReserveRequest(pool=POOL, id="a", sandboxes=3,
                                    until_unix_ms=now + 600000)

        def ask(**other):
            copy = pb.ReserveRequest()
            copy.CopyFrom(request)
            for field, value in other.items():
                setattr(copy, field, value)
            return daemon.rpc("PoolAdmin/Reserve", copy, pb.Reservation)

        first = ask()
        # The same "now".
        self.assertEqual(ask(), first)
        self.assertEqual(self.error(lambda: ask(sandboxes=4)),
                         grpc.StatusCode.ALREADY_EXISTS)
        for other in ({"id": ""}, {"id": "x" * 64}, {"sandboxes": 0},
                      {"until_unix_ms": now - 1000}, {"until_unix_ms": 0},
                      {"until_unix_ms": now + 40 * 86400 * 1000},
                      {"not_before_unix_ms": now + 700000},
                      {"not_before_unix_ms": -1}):
            with self.subTest(**other):
                self.assertEqual(self.error(lambda o=other: ask(**o)),
                                 grpc.StatusCode.INVALID_ARGUMENT)
        self.assertEqual(
            self.error(reserve, daemon, "b", 1, None, 60,
                       pb.PoolRef(name="none")), grpc.StatusCode.NOT_FOUND)

    def test_without_an_objective(self):
        daemon = self.start({}, replicas=2)
        daemon.wait_full(2)
        self.assertFalse(daemon.pool().HasField("scaling"))
        self.assertEqual(self.error(reserve, daemon, "a", 1, None, 60),
                         grpc.StatusCode.FAILED_PRECONDITION)
        self.assertIn("no objective",
                      self.ctl(daemon, "explain", "quickstart"))
        self.assertNotIn("warmpool_scale_", daemon.get("/metrics")[1])

    def test_claims_before_an_objective_outlive_the_daemon(self):
        daemon = self.start({}, replicas=2)
        daemon.wait_full(2)
        self.work(daemon, 300)
        # The control thread counts them a moment later.
        eventually(lambda: recorded(daemon) == 300, "recorded")
        self.assertEqual(daemon.stop(), 0, daemon.messages())
        again = self.start({}, replicas=2)
        eventually(lambda: recorded(again) == 300, "taken up")
        self.work(again, 50, 300)
        eventually(lambda: recorded(again) == 350, "and gone on with")
        self.assertEqual(again.stop(signal.SIGKILL), -signal.SIGKILL)
        # What came in the last minute may be lost, the rest is not; and what
        # the owner asks for first is there when it sets the objective.
        third = self.start(OBJECTIVE, replicas=2)
        eventually(lambda: recorded(third) in range(300, 351), "taken up")
        self.assertNotIn("left out", third.messages())

    BUDGET = 12

    def start_group(self):
        """Three pools of a group, and one beside it."""
        policy = {**OBJECTIVE, "min": "1", "scale-down-window": "1s",
                  "scale-down-rate": "100%"}
        source = write_manifest(self.dir, policy)
        with open(source, encoding="utf-8") as handle:
            template, pool = handle.read().split("\n---\n")
        group = pool.replace(
            "  annotations:\n",
            "  annotations:\n    autoscale.warmpool.io/budget-group: agents\n")
        pools = [group.replace("  name: quickstart\n  annotations",
                               f"  name: {name}\n  annotations")
                 for name in ("a", "b", "c")]
        with open(source, "w", encoding="utf-8") as handle:
            handle.write("\n---\n".join([template, *pools, pool]))
        daemon = Daemon("--lease-store=sqlite", "--synthetic",
                        "--synthetic-ready=100ms",
                        f"--autoscale-budgets=agents={self.BUDGET}",
                        manifest=source, directory=self.dir, replicas=1)
        self.daemons.append(daemon)
        eventually(daemon.ready, "ready")
        return daemon

    def targets(self, daemon):
        """Of the group's pools; together they are never over the budget."""
        for again in (True, False):
            pools = [daemon.rpc("PoolAdmin/GetPool", pb.GetPoolRequest(
                pool=pb.PoolRef(name=name)), pb.Pool) for name in "abc"]
            # One that grew after another was asked that gave way since: both
            # as they were would be looked at a second time.
            if sum(pool.target for pool in pools) <= self.BUDGET or not again:
                break
        self.assertLessEqual(sum(pool.target for pool in pools), self.BUDGET)
        return {pool.ref.name: pool.target for pool in pools}

    def load(self, daemon, name, target):
        """Claims of one pool, until it wants so many."""
        pool = pb.PoolRef(name=name)
        for i in range(5000):
            if self.targets(daemon)[name] >= target:
                return
            lease = daemon.rpc("Allocator/Claim", pb.ClaimRequest(
                pool=pool, claim_id=f"{name}-{i}-{target}", wait_ms=60000),
                pb.ClaimResponse).lease
            daemon.release(lease)
        self.fail("the target did not rise")

    def test_pools_share_a_budget(self):
        daemon = self.start_group()
        eventually(lambda: all(self.targets(daemon).values()), "the mins")
        self.load(daemon, "b", 4)
        # More than there is: the others keep their mins only, once what they
        # wanted has passed.
        reserve(daemon, "job", 40, None, 3600, pb.PoolRef(name="a"))
        eventually(lambda: self.targets(daemon) == {"a": 10, "b": 1, "c": 1},
                   "the others give way")
        bounded = daemon.rpc("PoolAdmin/GetPool", pb.GetPoolRequest(
            pool=pb.PoolRef(name="a")), pb.Pool).scaling
        self.assertEqual(bounded.decisions[0].reason, "budget")
        numbers = metrics(daemon.get("/metrics")[1])
        self.assertEqual(numbers["warmpool_scale_budget", 'group="agents"'],
                         self.BUDGET)
        self.assertEqual(
            numbers["warmpool_scale_budget_used", 'group="agents"'],
            self.BUDGET)
        shares = [numbers["warmpool_scale_budget_share",
                          f'namespace="default",pool="{name}"']
                  for name in "abc"]
        self.assertEqual(shares, [10, 1, 1])
        self.assertNotIn(("warmpool_scale_budget_share",
                          'namespace="default",pool="quickstart"'), numbers)
        # Who is of no group is not bounded by it.
        reserve(daemon, "beside", 20, None, 3600)
        eventually(lambda: daemon.pool().target >= 20, "beside the group")
        daemon.rpc("PoolAdmin/CancelReservation", pb.CancelReservationRequest(
            pool=pb.PoolRef(name="a"), id="job"),
            pb.CancelReservationResponse)
        eventually(lambda: self.targets(daemon)["a"] <= 2, "given back")
        self.load(daemon, "c", 4)

    def test_a_target_by_hand_is_kept_over_a_restart(self):
        daemon = self.start(OBJECTIVE, replicas=1)
        self.ctl(daemon, "scale", "quickstart", "7")

        def by_hand(daemon):
            decisions = daemon.pool().scaling.decisions
            return decisions and decisions[0].reason == "by-hand"

        eventually(lambda: by_hand(daemon), "by hand")
        self.assertEqual(daemon.stop(), 0, daemon.messages())
        again = self.start(OBJECTIVE, replicas=1)
        eventually(lambda: by_hand(again), "by hand again")
        self.assertEqual(again.pool().target, 7)
        self.assertEqual(again.stop(), 0, again.messages())
        # A changed policy takes the pool back.
        third = self.start({**OBJECTIVE, "resume": "1"}, replicas=1)
        eventually(lambda: third.pool().scaling.decisions, "a decision")
        self.assertFalse(by_hand(third))

    def test_scales_to_zero_and_from_zero(self):
        daemon = self.start({**OBJECTIVE, "min": "0"}, replicas=0,
                            store="memory")
        self.assertEqual(daemon.pool().target, 0)
        lease = daemon.claim("first", wait_ms=60000)
        self.assertNotEqual(lease.served, pb.SERVED_WARM)
        eventually(lambda: daemon.pool().target > 0, "a target for the next")


class TakeOver(RedisRig):
    """Several daemons that share their leases; one of them scales."""

    flags = ("--synthetic", "--synthetic-ready=100ms",
             "--redis-timeout=5s")

    def test_the_next_keeper_goes_on(self):
        source = write_manifest(self.dir, OBJECTIVE)
        # One after the other: who comes first keeps.
        keeper = self.start("keeper", manifest=source, replicas=1)
        eventually(keeper.ready, "ready, and its pages with it")
        eventually(lambda: self.value(keeper, "warmpool_keeper") == 1,
                   "a keeper")
        follower = self.start("follower", manifest=source, replicas=1)
        eventually(follower.ready, "ready")
        # Claims at the follower alone: the keeper hears of their grants.
        for i in range(5000):
            if keeper.pool().target >= 4:
                break
            follower.release(follower.claim(f"w{i}"))
        else:
            self.fail("the keeper's target stays below 4")
        self.assertEqual(follower.pool().target, 1)
        self.assertEqual(self.code(reserve, follower, "no", 1, None, 60),
                         grpc.StatusCode.UNAVAILABLE)
        # What was learned is saved with it.
        reserve(keeper, "later", 5, 3600, 60)
        eventually(lambda: self.redis.ask(
            "EXISTS", "warmpool:{default/quickstart}:note").strip() == "1",
            "saved")
        keeper.stop(signal.SIGKILL)
        eventually(lambda: self.value(follower, "warmpool_keeper") == 1,
                   "taken over")
        pool = eventually(lambda: (lambda p: p if p.scaling.decisions else
                                   None)(follower.pool()), "a decision")
        # The target may be lower by now: on a slow machine the burst is over.
        self.assertGreater(pool.scaling.decisions[0].rate_slow_per_s, 0.1)
        self.assertEqual([r.id for r in pool.scaling.reservations], ["later"])

    def test_the_next_keeper_has_the_record(self):
        source = write_manifest(self.dir, {})
        keeper = self.start("keeper", manifest=source, replicas=2)
        eventually(keeper.ready, "ready, and its pages with it")
        eventually(lambda: self.value(keeper, "warmpool_keeper") == 1,
                   "a keeper")
        follower = self.start("follower", manifest=source, replicas=2)
        eventually(follower.ready, "ready")
        for i in range(60):
            keeper.release(keeper.claim(f"w{i}"))
        eventually(lambda: recorded(keeper) == 60, "recorded")
        self.assertEqual(self.code(recorded, follower),
                         grpc.StatusCode.UNAVAILABLE)
        self.assertEqual(keeper.stop(), 0, keeper.messages())
        eventually(lambda: self.value(follower, "warmpool_keeper") == 1,
                   "taken over")
        eventually(lambda: recorded(follower) == 60, "taken up")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]] + sys.argv[4:], verbosity=2)
