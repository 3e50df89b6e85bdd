#!/usr/bin/env python3
"""Makes random small mistakes in the product, one at a time, in a copy of the
tree, and runs the tests that execute the line: does one of them notice?

    tests/mutation/mutate.py --seed 1                 120 of them, some two hours
    tests/mutation/mutate.py --count 20 --only pool/  of files that begin so
    tests/mutation/mutate.py --list --seed 1          says which, runs nothing

The same seed and tree give the same mistakes. Prints each that no test noticed
with its line, and a table for each folder. Builds in build/mutation; the first
run takes some 20 minutes more, to learn which test executes which line (gcov);
that is kept until a file of the product or of the tests changes, or for
--coverage FILE. Needs what tests/run.sh installs.

Judged by people: a survivor may be a mistake that changes no behaviour. Those
are listed in equivalent.txt beside this file (FILE: the mutated line) and not
counted. Exits with 1 when a survivor is not listed."""
import argparse
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor

from operators import mutations
from tree import ROOT, configure, copy_tree, ninja

HERE = os.path.dirname(os.path.abspath(__file__))
WORK = os.path.join(ROOT, "build", "mutation")
TREE = os.path.join(WORK, "tree")
PRODUCT = ("allocator/", "k8s/", "local/", "pool/", "proto/", "runtime/")
LABELS = "unit|sim|fuzz|integration"
SLOW = 10  # A mutant may make a test this many times slower, and
SLOW_S = 60  # so many seconds more, before it counts as noticed.
# A mistake in a signal's target must not reach beyond the test.
WALL = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"] \
    if os.geteuid() == 0 else []


def product_files():
    names = subprocess.run(["git", "-C", ROOT, "ls-files", "*.c"],
                           capture_output=True, text=True,
                           check=True).stdout.split()
    return [n for n in names if n.startswith(PRODUCT)]


def read(path):
    with open(path, encoding="utf-8") as handle:
        return handle.read()


def write(path, text):
    with open(path, "w", encoding="utf-8") as handle:
        handle.write(text)


class Test:
    """One test of ctest, as it is run in a build folder."""

    def __init__(self, entry):
        self.name = entry["name"]
        self.command = entry["command"]
        properties = {p["name"]: p["value"] for p in entry["properties"]}
        self.folder = properties["WORKING_DIRECTORY"]
        self.limit_s = properties.get("TIMEOUT", 600)
        self.environment = dict(pair.split("=", 1) for pair in
                                properties.get("ENVIRONMENT", []))
        self.seconds = 0.0

    def goals(self, build):
        """The files of the build folder that it needs."""
        return [os.path.relpath(word, build) for word in self.command
                if word.startswith(build + "/") and "." not in
                os.path.basename(word) and not os.path.isdir(word)]

    def run(self, limit_s, **environment):
        """True: it passed, or had to be left out."""
        with subprocess.Popen(
                WALL + self.command, cwd=self.folder, stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                start_new_session=True,
                env=dict(os.environ, **self.environment,
                         **environment)) as process:
            try:
                code = process.wait(limit_s)
            except subprocess.TimeoutExpired:
                code = None
            try:  # What it started ends with it.
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        return code in (0, 77)


def build_all(build):
    done = ninja(TREE, build, [])
    if done.returncode != 0:
        raise SystemExit("cannot build:\n" + done.stdout[-3000:])


def tests_of(build):
    said = subprocess.run(
        ["ctest", "--test-dir", build, "--show-only=json-v1", "-L", LABELS],
        capture_output=True, text=True, check=True).stdout
    return [Test(t) for t in json.loads(said)["tests"] if "command" in t]


# --- Which test executes which line ---

def lines_of(gcda, tree, out):
    """Adds {file: lines} that a file of counts says were executed."""
    # The notes lie beside the object, the counts under a prefix.
    notes = gcda[:-len(".gcda")].split("//", 1)[1]
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(gcda, os.path.join(folder, "x.gcda"))
        shutil.copy("/" + notes + ".gcno", os.path.join(folder, "x.gcno"))
        said = subprocess.run(["gcov", "--json-format", "--stdout", "x.gcda"],
                              cwd=folder, capture_output=True, text=True,
                              check=False).stdout
    for text in filter(None, said.split("\n")):
        for source in json.loads(text)["files"]:
            name = os.path.relpath(
                os.path.join("/", source["file"]) if
                source["file"].startswith("/") else
                os.path.normpath(os.path.join(tree, "build", "coverage",
                                              source["file"])), tree)
            if name.startswith(PRODUCT) and name.endswith(".c"):
                out[name].update(line["line_number"] for line in
                                 source["lines"] if line["count"] > 0)


def cover(test, tree):
    """{file: [lines]} that the test executes, and how long it takes."""
    found = defaultdict(set)
    with tempfile.TemporaryDirectory() as prefix:
        start = os.times().elapsed
        passed = test.run(3 * test.limit_s, GCOV_PREFIX=prefix + "/")
        seconds = os.times().elapsed - start
        for folder, _, names in os.walk(prefix):
            for name in names:
                if name.endswith(".gcda"):
                    path = os.path.join(folder, name)
                    lines_of(prefix + "//" + os.path.relpath(path, prefix),
                             tree, found)
    if not passed:
        print(f"left out, it fails without a mistake: {test.name}", flush=True)
        return None
    return {"seconds": seconds,
            "lines": {name: sorted(lines) for name, lines in found.items()}}


def digest():
    """Of all that coverage depends on."""
    names = subprocess.run(
        ["git", "-C", ROOT, "ls-files", "--", *PRODUCT, "tests", "*.txt"],
        capture_output=True, text=True, check=True).stdout.split()
    total = hashlib.sha256()
    for name in names:
        if not name.startswith("tests/mutation/"):
            with open(os.path.join(ROOT, name), "rb") as handle:
                total.update(name.encode() + handle.read())
    return total.hexdigest()


def coverage(path):
    """{test: {seconds, lines}}; learnt once for each state of the tree."""
    if os.path.exists(path):
        kept = json.loads(read(path))
        if kept["digest"] == digest():
            return kept["tests"]
    build = configure(TREE, "coverage", "-DCMAKE_C_FLAGS=--coverage")
    build_all(build)
    tests = tests_of(build)  # ctest says nothing of what is not built.
    print(f"learning what {len(tests)} tests execute ...", flush=True)
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda test: cover(test, TREE), tests))
    kept = {test.name: lines for test, lines in zip(tests, found)
            if lines is not None}
    write(path, json.dumps({"digest": digest(), "tests": kept}))
    return kept


# --- Mistakes ---

def choose(seed, count, only):
    """[(file, line number, operator, the mutated line)]"""
    rng = random.Random(seed)
    every = [(name, *mutation) for name in product_files()
             if name.startswith(only)
             for mutation in mutations(read(os.path.join(ROOT, name)))]
    return rng.sample(every, min(count, len(every)))


def equivalents():
    path = os.path.join(HERE, "equivalent.txt")
    return set(read(path).split("\n")) if os.path.exists(path) else set()


def outcome(mutant, tests, covered, build):
    """"unbuilt", "unreached", "survived", or the name of a test that failed."""
    name, number, _, line = mutant
    reach = sorted((t for t in tests if number in
                    covered.get(t.name, {"lines": {}})["lines"].get(name, [])),
                   key=lambda t: covered[t.name]["seconds"])
    path = os.path.join(TREE, name)
    whole = read(path)
    lines = whole.split("\n")
    lines[number - 1] = line
    if not reach:
        return "unreached"
    write(path, "\n".join(lines))
    try:
        for at in range(0, len(reach), 8):
            some = reach[at:at + 8]
            goals = sorted({g for t in some for g in t.goals(build)})
            if ninja(TREE, build, goals).returncode != 0:
                return "unbuilt"
            for test in some:
                seconds = covered[test.name]["seconds"]
                if not test.run(SLOW * seconds + SLOW_S):
                    return test.name
        return "survived"
    finally:
        write(path, whole)


def show(mutant, result):
    name, number, operator, line = mutant
    before = read(os.path.join(ROOT, name)).split("\n")[number - 1]
    print(f"{result}: {name}:{number} ({operator})\n"
          f"  - {before.strip()}\n  + {line.strip()}", flush=True)


def report(results, known):
    table = defaultdict(Counter)
    for (name, _, _, line), result in results:
        kind = result if result in ("unbuilt", "unreached", "survived") \
            else "noticed"
        if kind in ("survived", "unreached") and \
                f"{name}: {line.strip()}" in known:
            kind = "equivalent"
        table[name.split("/")[0]][kind] += 1
    print(f"\n{'folder':10} {'noticed':>8} {'survived':>9} {'unreached':>10} "
          f"{'no change':>10} {'noticed':>8}")
    missed = 0
    for folder, row in sorted(table.items()):
        counted = row["noticed"] + row["survived"] + row["unreached"]
        share = f"{100 * row['noticed'] / counted:.0f} %" if counted else "-"
        missed += row["survived"] + row["unreached"]
        print(f"{folder:10} {row['noticed']:8} {row['survived']:9} "
              f"{row['unreached']:10} {row['equivalent']:10} {share:>8}")
    return missed


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=120)
    parser.add_argument("--only", default="", metavar="PATH")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--coverage", metavar="FILE",
                        default=os.path.join(WORK, "coverage.json"))
    options = parser.parse_args()
    chosen = choose(options.seed, options.count, options.only)
    if options.list:
        for mutant in chosen:
            show(mutant, "mistake")
        return 0
    os.makedirs(WORK, exist_ok=True)
    copy_tree(TREE)
    covered = coverage(options.coverage)
    build = configure(TREE, "dev")
    build_all(build)
    tests = tests_of(build)
    results = []
    for mutant in chosen:
        result = outcome(mutant, tests, covered, build)
        results.append((mutant, result))
        show(mutant, result)
    return 1 if report(results, equivalents()) else 0


if __name__ == "__main__":
    sys.exit(main())
