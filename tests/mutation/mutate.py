#!/usr/bin/env python3
"""Makes random small mistakes in the product, each alone, and runs the tests that
execute the line: does one of them notice?

    tests/mutation/mutate.py --seed 1                 120 of them, some 30 minutes
    tests/mutation/mutate.py --seed 1 --each 10       10 of each folder
    tests/mutation/mutate.py --count 20 --only pool/  of files that begin so
    tests/mutation/mutate.py --seed 1 --list          says which, runs nothing
    tests/mutation/mutate.py --again                  those that survived last

The same seed and tree give the same mistakes. Prints each that no test noticed
with its line, and a table for each folder. Builds in build/mutation. The first
run takes longer, to learn which test executes which line (gcov); a test is run
for that again when it or the product has changed. Needs what tests/run.sh
installs.

All mistakes are built into one copy of the tree, each behind a switch that the
processes of one test are told (switched.py). A mistake meets the most special
tests first, and at most --integration of those that start processes; then, what
gcov does not see, the tests that run the programs inside of sandboxes; then all
of these as the sanitizers build them, which see what is lost or read too far,
and what threads do without a lock; at last the other tests that start processes.
Six mistakes are tried side by side. One outside of functions, or in a function
that cannot be copied, is built alone and tried at last, without sanitizers. A
mistake has survived when they are through, or when --seconds are over. --minutes
bounds the whole run: what is not tried by then is counted as such.

Judged by people: a survivor may be a mistake that changes no behaviour. Those
are listed in equivalent.txt beside this file (FILE: the mutated line) and not
counted. Exits with 1 when a survivor is not listed."""
import argparse
import json
import os
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
from switched import switched
from tree import PRODUCT, ROOT, configure, copy_tree, ninja, product_files

HERE = os.path.dirname(os.path.abspath(__file__))
WORK = os.path.join(ROOT, "build", "mutation")
AT_ONCE = 6  # Mistakes that are tried side by side.
LAST = os.path.join(WORK, "survived.json")
TESTS = "^(unit|sim|fuzz|stress|integration)/"
THREADS = "^(unit|stress|integration/lease_)"  # With the thread sanitizer.
SLOW = 3  # A mutant may make a test this many times slower, and
SLOW_S = 30  # so many seconds more, before it counts as noticed.
BATCH = 8  # Tests that are run side by side, at most.
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
        lines = covered[test.name]["lines"].get(name, [])
        return lines if begin is None else begin in lines

    return sorted((t for t in tests if meets(t)),
                  key=lambda test: weight(test, covered))


def inside(mutant, tests, reach):
    """Those of INSIDE that were not tried yet."""
    names = [f"integration/{name}" for prefix, some in INSIDE.items()
             if mutant[0].startswith(prefix) for name in some]
    return [test for name in names for test in tests
            if test.name == name and test not in reach]


def is_refused(mutant, place):
    """By the compiler, for whom every warning is an error as in every build of
    the product: a comparison that is always true, && beside || without
    parentheses, a function that nobody calls any more."""
    name, number, _, line = mutant
    path = os.path.join(place.tree, name)
    beside = f"{path}.{threading.get_ident()}.c"  # Finds its headers there.
    lines = read(path).split("\n")
    lines[number - 1] = line
    write(beside, "\n".join(lines))
    try:
        for entry in place.commands:
            if entry["file"] == path:
                command = [beside if word == path else word
                           for word in shlex.split(entry["command"])]
                return subprocess.run(
                    # What it sees of a buffer's end depends on the optimizer.
                    [*command, "-O2", "-Werror", "-o", "/dev/null"],
                    cwd=entry["directory"], check=False,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL).returncode != 0
        return False
    finally:
        os.unlink(beside)


def limit_s(test, covered, slow):
    return slow * covered[test.name]["seconds"] + SLOW_S


def suspect(tests, switch, covered, slow):
    """One that fails beside the others, which it ends, or None."""
    stop = threading.Event()
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        begun = {pool.submit(test.run, limit_s(test, covered, slow), stop,
                             switch): test for test in tests}
        for done in as_completed(begun):
            if not done.result():
                stop.set()
                for other in begun:
                    other.cancel()
                return begun[done]
    return None


def failing(tests, switch, covered, slow):
    """One that fails, alone too, or None."""
    while tests:
        test = suspect(tests, switch, covered, slow)
        if test is None or \
                not test.run(limit_s(test, covered, slow), None, switch):
            return test
        tests = [other for other in tests if other is not test]
    return None


def batches(tests):
    """Most mistakes are noticed by the first test or never."""
    size = 1
    while tests:
        yield tests[:size]
        tests, size = tests[size:], min(2 * size, BATCH)


def notices(stage, switch, place, covered, end):
    """The name of the test that does, or None."""
    kind, tests, build, slow = stage
    for some in batches(tests):
        is_built = switch is not None and build != place.tsan
        if not is_built and not place.build(build, some):
            return "unbuilt"
        test = failing(some, switch, covered, slow)
        while test is not None:
            # Under a sanitizer a library's own faults may make it fail always:
            # then it has noticed nothing.
            if kind == "" or test.run(limit_s(test, covered, slow)):
                return kind + test.name
            some = [other for other in some if other is not test]
            test = failing(some, switch, covered, slow)
        if time.monotonic() > end:
            return None
    return None


def outcome(mutant, switch, place, covered, known, options):
    """"unbuilt", "unreached", "survived", or the name of a test that failed.
    switch: its number; None: it is in the tree, alone."""
    every = reaching(mutant, place.tests, covered, known)
    most = sum(not t.integration for t in every) + options.integration
    reach = every[:most]
    reach += inside(mutant, place.tests, reach)
    if not reach:
        return "unreached"
    names = {test.name for test in reach}
    stages = [("", reach, place.dev, SLOW),
              ("sanitized ", [t for t in place.sanitized if t.name in names],
               place.asan, SLOW * SLOW),
              ("sanitized ", [t for t in place.threads if t.name in names],
               place.tsan, SLOW * SLOW),
              ("", [t for t in every if t not in reach], place.dev, SLOW)]
    end = time.monotonic() + options.seconds
    for stage in stages:
        if switch is not None or stage[0] == "":
            found = notices(stage, switch, place, covered, end)
            if found is not None:
                return found
    return "survived"


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
    """The copy of the tree, its builds, and their tests."""

    def __init__(self, tree, options, covered):
        self.tree = tree
        self.jobs = options.jobs
        self.building = defaultdict(threading.Lock)  # {build: lock}
        self.dev = self.configured("dev")
        self.asan = self.configured("asan", "-DWP_SANITIZE=address,undefined")
        self.tsan = self.configured("tsan", "-DWP_SANITIZE=thread")
        self.commands = json.loads(read(os.path.join(
            self.dev, "compile_commands.json")))
        self.covered = covered
        self.pattern = options.tests
        self.tests = self.sanitized = self.threads = ()

    def configured(self, folder, *flags):
        return configure(self.tree, folder, "-DWP_BUILD_BENCH=OFF", *flags)

    def known(self, build, pattern):
        return [t for t in tests_of(build, pattern) if t.name in self.covered]

    def make(self):
        """With what was switched in. For the thread sanitizer only what a
        survivor needs is built, and then."""
        for build in (self.dev, self.asan):
            done = ninja(self.tree, build, [], self.jobs)
            if done.returncode != 0:
                raise SystemExit("cannot build:\n" + done.stdout[-3000:])
        self.tests = self.known(self.dev, self.pattern)
        self.sanitized = self.known(self.asan, "^(unit|integration)/")
        threads = names_of(self.tsan, THREADS)
        self.threads = [t.moved(self.dev, self.tsan)
                        for t in self.known(self.dev, THREADS)
                        if t.name in threads]

    def build(self, build, tests):
        """What these tests need, if a file has changed; false: it cannot be."""
        goals = sorted({g for t in tests for g in t.goals(build)})
        with self.building[build]:
            return ninja(self.tree, build, goals, self.jobs).returncode == 0


def switch_in(mutants, tree):
    """Those of {number: mutant} that got a switch in the tree."""
    by_file, placed = defaultdict(dict), set()
    for number, (name, at, _, line) in mutants.items():
        by_file[name][number] = (at, line)
    for name, mistakes in by_file.items():
        path = os.path.join(tree, name)
        text, some = switched(read(path), mistakes)
        write(path, text)
        placed |= some
    return placed


def try_alone(mutant, place, covered, known, options):
    name, number, _, line = mutant
    path = os.path.join(place.tree, name)
    kept, lines = read(path), read(os.path.join(ROOT, name)).split("\n")
    lines[number - 1] = line
    write(path, "\n".join(lines))
    try:
        return outcome(mutant, None, place, covered, known, options)
    finally:
        write(path, kept)


def try_all(chosen, options):
    """[(mutant, outcome)]"""
    end = time.monotonic() + 60 * options.minutes
    # What was learnt is of programs that are built once: no mistake gets there.
    clean, tree = (os.path.join(WORK, name) for name in ("tree", "switched"))
    os.makedirs(WORK, exist_ok=True)
    copy_tree(clean)
    covered, known = learn(os.path.join(WORK, "coverage.json"), clean,
                           options.tests, options.jobs)
    copy_tree(tree)
    place = Place(tree, options, covered)
    mutants, results = dict(enumerate(chosen)), {}
    with ThreadPoolExecutor(options.jobs) as pool:
        for number, refused in enumerate(pool.map(
                lambda mutant: is_refused(mutant, place), chosen)):
            if refused:
                results[number] = "unbuilt"
    placed = switch_in({n: m for n, m in mutants.items() if n not in results},
                       tree)
    place.make()

    def try_one(number):
        mutant = mutants[number]
        if number not in results:
            results[number] = \
                "not tried" if time.monotonic() >= end else \
                outcome(mutant, number, place, covered, known, options) \
                if number in placed else \
                try_alone(mutant, place, covered, known, options)
        show(mutant, results[number])

    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(try_one, sorted(placed)))
    for number in sorted(set(mutants) - placed):
        try_one(number)
    return [(mutants[number], results[number]) for number in mutants]


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
