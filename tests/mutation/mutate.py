#!/usr/bin/env python3
"""Makes random small mistakes in the product, each alone in a copy of the tree,
and runs the tests that execute the line: does one of them notice?

    tests/mutation/mutate.py --seed 1                 120 of them, some 75 minutes
    tests/mutation/mutate.py --seed 1 --each 10       10 of each folder
    tests/mutation/mutate.py --count 20 --only pool/  of files that begin so
    tests/mutation/mutate.py --seed 1 --list          says which, runs nothing
    tests/mutation/mutate.py --again                  those that survived last

The same seed and tree give the same mistakes. Prints each that no test noticed
with its line, and a table for each folder. Builds in build/mutation. The first
run takes longer, to learn which test executes which line (gcov); a test is run
for that again when it or the product has changed. Needs what tests/run.sh
installs.

A mistake meets the most special tests first, and at most --integration of those
that start processes; then, what gcov does not see, the tests that run the
programs inside of sandboxes; then all of these as the sanitizers build them,
which see what is lost or read too far, and what threads do without a lock; at
last the other tests that start processes. Three mistakes are tried side by side,
in trees of their own, and the tests of each. It has survived when they are
through, or when --seconds are over. --minutes bounds the whole run: what is not
tried by then is counted as such.

Judged by people: a survivor may be a mistake that changes no behaviour. Those
are listed in equivalent.txt beside this file (FILE: the mutated line) and not
counted. Exits with 1 when a survivor is not listed."""
import argparse
import json
import os
import queue
import random
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor, as_completed

from coverage import learn
from ctests import SIDE_BY_SIDE, names_of, tests_of
from operators import mutations
from tree import PRODUCT, ROOT, configure, copy_tree, ninja, product_files

HERE = os.path.dirname(os.path.abspath(__file__))
WORK = os.path.join(ROOT, "build", "mutation")
TREES = 3  # Mistakes that are tried side by side, each in a tree of its own.
LAST = os.path.join(WORK, "survived.json")
TESTS = "^(unit|sim|fuzz|stress|integration)/"
THREADS = "^(unit|stress|integration/lease_)"  # With the thread sanitizer.
SLOW = 3  # A mutant may make a test this many times slower, and
SLOW_S = 30  # so many seconds more, before it counts as noticed.
BATCH = 8  # Tests that are built together.
ROW = re.compile(r"^\s*\{.*\},?\s*$")
# These run where no counts can be written: inside of a sandbox's walls.
INSIDE = {
    "local/init/": ("local_life_test", "local_walls_test", "hostile_init",
                    "binding", "claim_files", "freeze", "volumes",
                    "sandbox_egress", "local_adopt_test"),
    "local/http_probe": ("local_life_test",),
    "local/fetch/": ("git", "k8s_repositories"),
    "local/volumes/": ("volumes",),
    "local/walls/": ("local_walls_test", "local_life_test"),
}


def read(path):
    with open(path, encoding="utf-8") as handle:
        return handle.read()


def write(path, text):
    with open(path, "w", encoding="utf-8") as handle:
        handle.write(text)


# --- Mistakes ---

def choose(options):
    """[(file, line number, operator, the mutated line)]"""
    rng = random.Random(options.seed)
    every = [(name, *mutation) for name in product_files()
             if name.startswith(options.only)
             for mutation in mutations(read(os.path.join(ROOT, name)))]
    if options.each is None:
        return rng.sample(every, min(options.count, len(every)))
    chosen = []
    for folder in PRODUCT:
        some = [mutant for mutant in every if mutant[0].startswith(folder)]
        chosen += rng.sample(some, min(options.each, len(some)))
    return chosen


def last_survivors(only):
    """Those whose line is still where it was."""
    mutants = [tuple(entry["mutant"]) for entry in json.loads(read(LAST))
               if entry["mutant"][0].startswith(only) and
               read(os.path.join(ROOT, entry["mutant"][0])).split("\n")
               [entry["mutant"][1] - 1] == entry["before"]]
    if not mutants:
        raise SystemExit("no survivor of the last run is left in this tree")
    return mutants


def equivalents():
    return set(read(os.path.join(HERE, "equivalent.txt")).split("\n"))


def beginning(text, number, known):
    """Where the statement begins that the line is a part of; None: it is no
    statement, as in a table, and whoever executes the file may read it."""
    lines = text.split("\n")
    for at in range(number, 0, -1):
        if at in known:
            return None if ROW.match(lines[number - 1]) else at
        if lines[at - 1][:1].strip(" \t{"):
            return None
    return None


def weight(test, covered):
    """The tests that execute little besides the line come first, and of those
    that start processes the quick ones."""
    one = covered[test.name]
    return (test.integration, one["seconds"] if test.integration else
            sum(map(len, one["lines"].values())))


def reaching(mutant, tests, covered, known):
    """The tests that execute the line, in the order in which they are run."""
    name, number, _, _ = mutant
    begin = beginning(read(os.path.join(ROOT, name)), number,
                      set(known.get(name, ())))

    def meets(test):
        lines = covered.get(test.name, {"lines": {}})["lines"].get(name, [])
        return lines if begin is None else begin in lines

    return sorted((t for t in tests if meets(t)),
                  key=lambda test: weight(test, covered))


def inside(mutant, tests, reach):
    """Those of INSIDE that were not tried yet."""
    names = [f"integration/{name}" for prefix, some in INSIDE.items()
             if mutant[0].startswith(prefix) for name in some]
    return [test for name in names for test in tests
            if test.name == name and test not in reach]


def is_refused(path, build):
    """By the compiler, for whom every warning is an error as in every build of
    the product: a comparison that is always true, && beside || without
    parentheses, a function that nobody calls any more."""
    for entry in json.loads(read(os.path.join(build, "compile_commands.json"))):
        if entry["file"] == path:
            return subprocess.run(
                # What it sees of a buffer's end depends on the optimizer.
                [*shlex.split(entry["command"]), "-O2", "-Werror", "-o",
                 "/dev/null"],
                cwd=entry["directory"], check=False,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL).returncode != 0
    return False


def limit_s(test, covered, slow):
    return slow * covered[test.name]["seconds"] + SLOW_S


def suspect(tests, covered, slow):
    """One that fails beside the others, which it ends, or None."""
    stop = threading.Event()
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        begun = {pool.submit(test.run, limit_s(test, covered, slow), stop): test
                 for test in tests}
        for done in as_completed(begun):
            if not done.result():
                stop.set()
                for other in begun:
                    other.cancel()
                return begun[done]
    return None


def failing(tests, covered, slow):
    """The name of one that fails, alone too, or None."""
    while tests:
        test = suspect(tests, covered, slow)
        if test is None:
            return None
        if not test.run(limit_s(test, covered, slow)):
            return test.name
        tests = [other for other in tests if other is not test]
    return None


def first_to_fail(place, tests, build, covered, options, end, slow):
    """"unbuilt", the name of a test that failed, or None."""
    for at in range(0, len(tests), BATCH):
        some = tests[at:at + BATCH]
        goals = sorted({g for t in some for g in t.goals(build)})
        if ninja(place.tree, build, goals, options.jobs).returncode != 0:
            return "unbuilt"
        failed = failing(some, covered, slow)
        if failed is not None or time.monotonic() > end:
            return failed
    return None


def passes_unchanged(test_name, tests, place, build, covered, options, slow):
    """Does that test pass without any mistake in the tree? Under a sanitizer a
    library's own faults may make it fail always. Known for all trees once one
    has tried."""
    key = (os.path.basename(build), test_name)
    if key not in place.sound:
        some = [test for test in tests if test.name == test_name]
        goals = sorted({g for t in some for g in t.goals(build)})
        place.sound[key] = \
            ninja(place.tree, build, goals, options.jobs).returncode == 0 and \
            failing(some, covered, slow) is None
    return place.sound[key]


def first_of_stage(stage, put, place, covered, options, end):
    """As first_to_fail. Under a sanitizer a test that fails without the mistake,
    too, has noticed nothing."""
    kind, tests, build, slow = stage
    while True:
        put(True)
        failed = first_to_fail(place, tests, build, covered, options, end, slow)
        if kind == "" or failed in (None, "unbuilt"):
            return failed
        put(False)
        if passes_unchanged(failed, tests, place, build, covered, options,
                            slow):
            return failed
        tests = [test for test in tests if test.name != failed]


def outcome(mutant, place, covered, known, options):
    """"unbuilt", "unreached", "survived", or the name of a test that failed."""
    name, number, _, line = mutant
    path = os.path.join(place.tree, name)
    whole = read(path)
    lines = whole.split("\n")
    lines[number - 1] = line
    every = reaching(mutant, place.tests, covered, known)
    most = sum(not t.integration for t in every) + options.integration
    reach = every[:most]
    reach += inside(mutant, place.tests, reach)
    names = {test.name for test in reach}
    stages = (("", reach, place.dev, SLOW),
              ("sanitized ", [t for t in place.sanitized if t.name in names],
               place.asan, SLOW * SLOW),
              ("sanitized ", [t for t in place.threads if t.name in names],
               place.tsan, SLOW * SLOW),
              ("", [t for t in every if t not in reach], place.dev, SLOW))
    end = time.monotonic() + options.seconds

    def put(mistake):
        write(path, "\n".join(lines) if mistake else whole)

    try:
        put(True)
        if is_refused(path, place.dev):
            return "unbuilt"
        if not reach:
            return "unreached"
        for stage in stages:
            failed = first_of_stage(stage, put, place, covered, options, end)
            if failed is not None:
                return failed if failed == "unbuilt" else stage[0] + failed
        return "survived"
    finally:
        put(False)


# --- What comes of it ---

def show(mutant, result):
    name, number, operator, line = mutant
    before = read(os.path.join(ROOT, name)).split("\n")[number - 1]
    print(f"{result}: {name}:{number} ({operator})\n"
          f"  - {before.strip()}\n  + {line.strip()}", flush=True)


def is_missed(result):
    return result in ("survived", "unreached")


def keep_survivors(results):
    write(LAST, json.dumps(
        [{"mutant": mutant, "before":
          read(os.path.join(ROOT, mutant[0])).split("\n")[mutant[1] - 1]}
         for mutant, result in results
         if is_missed(result) or result == "not tried"]))


def report(results, known):
    table = defaultdict(Counter)
    for (name, _, _, line), result in results:
        kind = result if is_missed(result) or \
            result in ("unbuilt", "not tried") else "noticed"
        if is_missed(kind) and f"{name}: {line.strip()}" in known:
            kind = "equivalent"
        table[name.split("/")[0]][kind] += 1
    print(f"\n{'folder':10} {'noticed':>8} {'survived':>9} {'unreached':>10} "
          f"{'no change':>10} {'not tried':>10} {'noticed':>8}")
    missed = 0
    for folder, row in sorted(table.items()):
        counted = row["noticed"] + row["survived"] + row["unreached"]
        share = f"{100 * row['noticed'] / counted:.0f} %" if counted else "-"
        missed += row["survived"] + row["unreached"]
        print(f"{folder:10} {row['noticed']:8} {row['survived']:9} "
              f"{row['unreached']:10} {row['equivalent']:10} "
              f"{row['not tried']:10} {share:>8}")
    return missed


class Place:
    """A copy of the tree, its builds, and their tests."""

    sound = {}  # passes_unchanged, for all trees.

    def __init__(self, tree, options, covered):
        self.tree = tree
        self.dev = self.built("dev", options)
        self.asan = self.built("asan", options,
                               "-DWP_SANITIZE=address,undefined")
        # Of this one only what a survivor needs.
        self.tsan = self.configured("tsan", "-DWP_SANITIZE=thread")
        self.tests = self.known(self.dev, options.tests, covered)
        self.sanitized = self.known(self.asan, "^(unit|integration)/", covered)
        threads = names_of(self.tsan, THREADS)
        self.threads = [t.moved(self.dev, self.tsan)
                        for t in self.known(self.dev, THREADS, covered)
                        if t.name in threads]

    @staticmethod
    def known(build, pattern, covered):
        return [t for t in tests_of(build, pattern) if t.name in covered]

    def configured(self, folder, *flags):
        return configure(self.tree, folder, "-DWP_BUILD_BENCH=OFF", *flags)

    def built(self, folder, options, *flags):
        build = self.configured(folder, *flags)
        done = ninja(self.tree, build, [], options.jobs)
        if done.returncode != 0:
            raise SystemExit("cannot build:\n" + done.stdout[-3000:])
        return build


def try_all(chosen, options):
    """[(mutant, outcome)]"""
    end = time.monotonic() + 60 * options.minutes
    trees = [os.path.join(WORK, f"tree{i or ''}") for i in range(TREES)]
    os.makedirs(WORK, exist_ok=True)
    for tree in trees:
        copy_tree(tree)
    covered, known = learn(os.path.join(WORK, "coverage.json"), trees[0],
                           options.tests, options.jobs)
    free = queue.SimpleQueue()
    for tree in trees:
        free.put(Place(tree, options, covered))

    def try_one(mutant):
        place = free.get()
        try:
            if time.monotonic() >= end:
                return "not tried"
            result = outcome(mutant, place, covered, known, options)
        finally:
            free.put(place)
        show(mutant, result)
        return result

    with ThreadPoolExecutor(TREES) as pool:
        return list(zip(chosen, pool.map(try_one, chosen)))


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seed", type=int, default=random.randrange(10 ** 6))
    parser.add_argument("--count", type=int, default=120)
    parser.add_argument("--from", type=int, default=0, dest="first",
                        help="leaves out so many of them, tried before")
    parser.add_argument("--each", type=int, help="of each folder so many")
    parser.add_argument("--only", default="", metavar="PATH")
    parser.add_argument("--tests", default=TESTS, metavar="PATTERN",
                        help="their names, for ctest")
    parser.add_argument("--integration", type=int, default=6,
                        help="tests of that level for a mistake at first")
    parser.add_argument("--seconds", type=int, default=900,
                        help="for the tests of one mistake")
    parser.add_argument("--minutes", type=int, default=240,
                        help="for all; what is left is not tried")
    parser.add_argument("-j", "--jobs", type=int, default=2)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--again", action="store_true")
    options = parser.parse_args()
    chosen = last_survivors(options.only) if options.again else \
        choose(options)[options.first:]
    print("survivors of the last run" if options.again else
          f"seed {options.seed}", flush=True)
    if options.list:
        for mutant in chosen:
            show(mutant, "mistake")
        return 0
    os.nice(10)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    results = try_all(chosen, options)
    keep_survivors(results)
    return 1 if report(results, equivalents()) else 0


if __name__ == "__main__":
    sys.exit(main())
