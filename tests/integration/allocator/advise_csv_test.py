"""Advice from a record that is not warmpool's own, held against what came next.

Run by ctest: advise_csv_test.py WARMPOOLCTL [unittest arguments]. Two pools of
others, made here, each for three weeks. Two weeks of the record give the advice.
The third week is replayed with it, after those two.

What the third week brought is what three weeks brought less what two did: the
replay of the shorter record is told that nothing came in the third week, so that
both are the same until then.
"""

import json
import math
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

CTL = sys.argv[1]
PATIENCE = 900
MONDAY = 1780272000  # 2026-06-01, midnight, UTC.
DAY = 86400
WEEK = 7 * DAY
OBJECTIVE = 0.99


def arrivals(rng, rate_of, most):
    """Independent claims in three weeks, whose rate is rate_of(seconds)."""
    at = rng.expovariate(most)
    while at < 3 * WEEK:
        if rng.random() * most < rate_of(at):
            yield at
        at += rng.expovariate(most)


def people(rng):
    """At work from Monday to Friday, with a lunch dip; hardly anyone else."""
    def rate(at):
        hour = at % DAY / 3600
        if at % WEEK >= 5 * DAY or not 7 <= hour < 18:
            return 0.001
        return 0.01 * (0.4 if 12 <= hour < 13 else 1) * math.sin(
            math.pi * (hour - 6) / 13)
    return list(arrivals(rng, rate, 0.01))


def builds(rng):
    """A scheduler starts some dozen at seven past each hour, over few others."""
    claims = list(arrivals(rng, lambda at: 0.001, 0.001))
    for hour in range(3 * WEEK // 3600):
        claims += [3600 * hour + 420 + 10 * rng.random()
                   for _ in range(rng.randint(9, 15))]
    return sorted(claims)


def in_rfc3339(claims):
    yield "created_at"
    for at in claims:
        yield time.strftime("%Y-%m-%dT%H:%M:%S",
                            time.gmtime(MONDAY + int(at))) + (
            f".{int(at % 1 * 1000):03}Z")


def in_counts(claims):
    """As a metrics system exports it: how many in each ten seconds."""
    yield "time,claims"
    counts = {}
    for at in claims:
        counts[int(at) // 10] = counts.get(int(at) // 10, 0) + 1
    for step in sorted(counts):
        yield f"{MONDAY + 10 * step},{counts[step]}"


class Strangers(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="wp-advise-")
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)

    def advise(self, lines, lead, *more):
        path = os.path.join(self.dir, "claims.csv")
        with open(path, "w", encoding="ascii") as file:
            file.writelines(line + "\n" for line in lines)
        done = subprocess.run(
            [CTL, "advise", "--csv", path, "--lead", lead, "--objective",
             f"{100 * OBJECTIVE:g}%", "-o", "json", *more],
            capture_output=True, timeout=PATIENCE, check=False,
            env={**os.environ, "WARMPOOL_ADDRESS": "unix:/nowhere"})
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def applied(self, report, advice):
        """How the setting did, among all that were replayed."""
        kind = "objective" if advice["kind"] == "objective" else "today"
        return next(r for r in report["rows"] if r["kind"] == kind)

    def holds(self, claims, form, lead):
        two = [at for at in claims if at < 2 * WEEK]
        advice = self.advise(form(two), lead)["recommended"]
        self.assertIsNotNone(advice)
        self.assertGreaterEqual(advice["hit_rate"], OBJECTIVE)
        setting = dict(part.split("=") for part in advice["setting"].split())
        more = ["--replicas", setting["replicas"]] if "replicas" in setting \
            else []
        quiet = f"{MONDAY + math.ceil(claims[-1])},0"
        before = self.applied(
            self.advise([*form(two), quiet], lead, *more), advice)
        after = self.applied(
            self.advise([*form(claims), quiet], lead, *more), advice)
        came = after["claims"] - before["claims"]
        hits = (after["claims"] * after["hit_rate"] -
                before["claims"] * before["hit_rate"])
        self.assertEqual(came, len(claims) - len(two))
        self.assertGreaterEqual(hits / came, OBJECTIVE, advice)
        # The most that it names would not have been in its way.
        self.assertLessEqual(after["stock_max"],
                             int(setting.get("max", after["stock_max"])))

    def test_people_at_work(self):
        self.holds(people(random.Random(1)), in_rfc3339, "6s")

    def test_people_at_work_over_all_weeks(self):
        """What is missed after a silence is of the objective's misses, too."""
        for seed in (4, 5):
            claims = people(random.Random(seed))
            quiet = f"{MONDAY + math.ceil(claims[-1])},0"
            report = self.advise([*in_rfc3339(claims), quiet], "6s")
            row = self.applied(report, {"kind": "objective"})
            self.assertGreaterEqual(row["hit_rate"], OBJECTIVE, row)

    def test_builds_by_a_scheduler(self):
        self.holds(builds(random.Random(2)), in_counts, "12s")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[2:])
