#!/usr/bin/env python3
"""What each part of the autoscaler earns: it is switched off in a copy of the
tree, and the tournament is run again.

    bench/ablation.py [--worlds N] [--claims N] [WORD...]

WORD: only parts with one of these words. Prints a table: of how many objectives
each variant misses, by how much, and how much is idle beside the whole. Builds
in build/ablation. A variant takes about a minute for each 60 worlds of 4 000
claims on two cores.
"""
import argparse
import os
import re
import statistics
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tests", "mutation"))
from tree import copy_tree, ninja  # noqa: E402

TREE = os.path.join(ROOT, "build", "ablation", "tree")
BUILD = os.path.join(TREE, "build", "release")

# The part, its file in pool/scale, what stands there, and what instead.
PARTS = [
    ("learning from recurrences", "trial.c",
     "trial->failed = trial->episodes > EPISODES",
     "trial->failed = trial->episodes < 0 * EPISODES"),
    ("staying with what was learned", "trial.c",
     "FAILS_STILL = 1;", "FAILS_STILL = 2;"),
    ("memory by recurrences, not by hours", "trial.c",
     "HALF_LIFE_MAX_S = 60 * 86400", "HALF_LIFE_MAX_S = 6 * 3600"),
    ("the loop over the theory's misses", "scaler_learn.c",
     "forecast->stock == 0) {",
     "forecast->stock <= UINT32_MAX) {"),
    ("the loop over what was learned", "scaler_learn.c",
     "scaler->slack_log + (allowed - missed) / per_e",
     "scaler->slack_log + 0 * (allowed - missed) / per_e"),
    ("room for more than was seen", "scaler_learn.c",
     "return (uint32_t)ceil((1 - allowed / ALLOWED_SEEN) * more);",
     "return (uint32_t)(0 * allowed * more);"),
    ("the brakes", "scaler_decide.c",
     "if (!is_braked(scaler,", "if (scaler->claims > 0 || !is_braked(scaler,"),
    ("a silence's part of the misses", "scaler_decide.c",
     "QUIET_SHARE = 0.2", "QUIET_SHARE = 1"),
    ("following a rate that grows", "window.c",
     "level += level - rate;", ";"),
    ("regular gaps", "gaps.c",
     "    if (!(mean_s > 0)) {\n        return 1;",
     "    if (mean_s > -1) {\n        return 1;"),
    ("when bursts are due", "bursts.c",
     "    if (found < GAPS_LEAST + 1) {",
     "    if (found < WP_BURSTS + 1) {"),
    ("the queue of orders", "forecast.c",
     "if (at_once == 0 || !(a > 0) ||", "if (at_once < UINT32_MAX ||"),
]

ROW = re.compile(r"\| (\S+) \| .* \| ([\d.]+) % \| ([\d.]+) ± ([\d.]+) \| "
                 r"[^|]*\| ([\d.]+)[^|]*\|.*\| ?([^|]*)\|$")


def path_of(file):
    return os.path.join(TREE, "pool", "scale", file)


def build():
    done = ninja(TREE, BUILD, ["tournament"])
    if done.returncode != 0:
        raise SystemExit("cannot build:\n" + done.stdout[-3000:])


def tournament(*options):
    """By world and objective: the share of hits, idle, and whether it missed."""
    done = subprocess.run([os.path.join(BUILD, "bench", "tournament"),
                           "--alone", "--jobs", "2", *options],
                          capture_output=True, text=True, check=False)
    rows = {}
    for line in done.stdout.splitlines():
        found = ROW.match(line)
        if found:
            world, objective, hits, _, idle, words = found.groups()
            rows[world, float(objective)] = (float(hits), float(idle),
                                             "missed" in words)
    if not rows:
        raise SystemExit("no worlds:\n" + done.stdout + done.stderr)
    return rows


def short_by(rows):
    """The mean of what is missing to the objectives, in percentage points."""
    return statistics.fmean(max(objective - hits, 0)
                            for (_, objective), (hits, _, _) in rows.items())


def idle_ratio(rows, whole):
    return statistics.geometric_mean(
        max(rows[key][1], 0.1) / max(whole[key][1], 0.1) for key in whole)


def print_row(name, rows, whole):
    changed = sum(rows[key][:2] != whole[key][:2] for key in whole)
    print(f"| {name} | {changed} | {sum(r[2] for r in rows.values())} | "
          f"{short_by(rows):.2f} | {idle_ratio(rows, whole):.2f} |",
          flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--worlds", type=int, default=60)
    parser.add_argument("--claims", type=int, default=4000)
    parser.add_argument("words", nargs="*")
    options = parser.parse_args()
    worlds = ("--seeds", "2", "--worlds", str(options.worlds),
              "--claims", str(options.claims))
    copy_tree(TREE)
    subprocess.run(["cmake", "--preset", "release", "-DWP_WERROR=OFF"],
                   cwd=TREE, check=True, stdout=subprocess.DEVNULL)
    build()
    whole = tournament(*worlds)
    print(f"{options.worlds} worlds, {len(whole)} objectives.\n\n"
          "| without | changed | missed | short by, points | idle by the "
          "whole's |\n|---|---|---|---|---|")
    print_row("(the whole)", whole, whole)
    for name, file, old, new in PARTS:
        if options.words and not any(w in name for w in options.words):
            continue
        with open(path_of(file), encoding="utf-8") as handle:
            text = handle.read()
        if text.count(old) != 1:
            raise SystemExit(f"{name}: {file} does not have once: {old}")
        try:
            with open(path_of(file), "w", encoding="utf-8") as handle:
                handle.write(text.replace(old, new))
            build()
            print_row(name, tournament(*worlds), whole)
        finally:
            with open(path_of(file), "w", encoding="utf-8") as handle:
                handle.write(text)


if __name__ == "__main__":
    main()
