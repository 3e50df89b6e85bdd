"""Which test executes which line of the product, by gcov."""
import hashlib
import json
import os
import re
import subprocess
import tempfile
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor, as_completed

from ctests import SIDE_BY_SIDE, tests_of
from tree import PRODUCT, ROOT, configure, ninja, product_files

HERE = os.path.dirname(os.path.abspath(__file__))
BATCH = 200  # Files for one gcov.
KEEP = 20  # Tests learnt between two writes.


def counted(prefix):
    """The files of counts below prefix, each with its notes beside it."""
    found = []
    for folder, _, names in os.walk(prefix):
        for name in names:
            if name.endswith(".gcda"):
                path = os.path.join(folder, name)
                notes = "/" + os.path.relpath(path, prefix)[:-5] + ".gcno"
                os.symlink(notes, path[:-5] + ".gcno")
                found.append(path)
    return found


def executed(prefix, tree):
    """{file: lines} that the files of counts below prefix tell of, and of those
    the ones that were executed."""
    known, out = defaultdict(set), defaultdict(set)
    files = counted(prefix)
    for at in range(0, len(files), BATCH):
        said = subprocess.run(
            ["gcov", "--json-format", "--stdout", *files[at:at + BATCH]],
            cwd=prefix, capture_output=True, text=True, check=False).stdout
        for text in filter(None, said.split("\n")):
            record = json.loads(text)
            for source in record["files"]:
                path = os.path.normpath(os.path.join(
                    record["current_working_directory"], source["file"]))
                name = os.path.relpath(path, tree)
                if name.startswith(PRODUCT) and name.endswith(".c"):
                    known[name].update(line["line_number"] for line in
                                       source["lines"])
                    out[name].update(line["line_number"] for line in
                                     source["lines"] if line["count"] > 0)
    return known, out


def run(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE,
                          text=True).stdout.strip()


def write_gcov(folder):
    """A copy of gcov's library that meets no test's fakes (gcov_calls.c)."""
    calls = os.path.join(HERE, "gcov_calls.c")
    library = os.path.join(folder, "libgcov.a")
    with open(calls, encoding="ascii") as source:
        names = re.findall(r"^REAL\([^,]+, (\w+),", source.read(), re.MULTILINE)
    run("objcopy", *(f"--redefine-sym={name}=wp_gcov_{name}" for name in names),
        run("cc", "-print-file-name=libgcov.a"), library)
    run("cc", "-O2", "-fPIC", "-c", calls, "-o", library + ".calls.o")
    run("ar", "rs", library, library + ".calls.o")


def write_compiler(folder):
    """One for tests that link the client library."""
    with open(os.open(os.path.join(folder, "cc"), os.O_WRONLY | os.O_CREAT |
                      os.O_TRUNC, 0o755), "w", encoding="ascii") as script:
        script.write(f'#!/bin/sh\nexec /usr/bin/cc "$@" -L{folder} -lgcov\n')


def cover(test, tree, bins):
    """{file: [lines]} that the test executes, and how long it takes."""
    with tempfile.TemporaryDirectory() as prefix:
        os.chmod(prefix, 0o777)  # Some processes of a test are nobody.
        start = os.times().elapsed
        passed = test.run(3 * test.limit_s, GCOV_PREFIX=prefix, PATH=bins +
                          os.pathsep + os.environ["PATH"])
        seconds = os.times().elapsed - start
        known, found = executed(prefix, tree)
    return known, {"seconds": seconds, "passed": passed,
                   "lines": {name: sorted(lines)
                             for name, lines in found.items()}}


def digest():
    """Of the product, as it was when the tests were run."""
    total = hashlib.sha256()
    for name in product_files():
        with open(os.path.join(ROOT, name), "rb") as handle:
            total.update(name.encode() + handle.read())
    return total.hexdigest()


def load(path):
    if os.path.exists(path):
        with open(path, encoding="utf-8") as handle:
            kept = json.load(handle)
        if kept["product"] == digest() and "known" in kept:
            return kept
    return {"product": digest(), "tests": {}, "known": {}}


def keep(path, kept):
    with open(path + ".new", "w", encoding="utf-8") as handle:
        json.dump(kept, handle)
    os.replace(path + ".new", path)


def is_learnt(kept, test, digests):
    one = kept["tests"].get(test.name)
    return one is not None and one["passed"] and \
        one["digest"] == digests[test.name]


def learn(path, tree, pattern, jobs):
    """{test: {seconds, lines}}, and {file: the lines that code begins on};
    each is run when it or the product changed, or when it failed.
    What was learnt is kept meanwhile, so that one may stop and go on."""
    folder = path + ".bin"
    flush = os.path.join(folder, "flush.o")
    os.makedirs(folder, exist_ok=True)
    run("cc", "-fPIC", "-c", os.path.join(HERE, "flush.c"), "-o", flush)
    write_gcov(folder)
    write_compiler(folder)
    build = configure(tree, "coverage", "-DWP_BUILD_BENCH=OFF",
                      "-DCMAKE_C_COMPILER_LAUNCHER=" +
                      os.path.join(HERE, "cover.sh"),
                      "-DCMAKE_EXE_LINKER_FLAGS="
                      f"--coverage -Wl,--wrap=_exit {flush} -L{folder}",
                      f"-DCMAKE_SHARED_LINKER_FLAGS=--coverage -L{folder}")
    os.environ["WP_COVER_ROOT"] = tree
    done = ninja(tree, build, [], jobs)
    if done.returncode != 0:
        raise SystemExit("cannot build:\n" + done.stdout[-3000:])
    kept = load(path)
    tests = tests_of(build, pattern)
    digests = {test.name: test.digest() for test in tests}
    for workers in (SIDE_BY_SIDE, 1):  # What fails beside others, then alone.
        missing = [t for t in tests if not is_learnt(kept, t, digests)]
        with ThreadPoolExecutor(workers) as pool:
            begun = {pool.submit(cover, test, tree,
                                 folder): test for test in missing}
            for at, done in enumerate(as_completed(begun)):
                name = begun[done].name
                print(f"learnt what {name} executes, {at + 1} of "
                      f"{len(missing)}", flush=True)
                known, learnt = done.result()
                kept["tests"][name] = dict(learnt, digest=digests[name])
                for path_of, lines in known.items():
                    kept["known"][path_of] = sorted(
                        lines.union(kept["known"].get(path_of, ())))
                if at % KEEP == KEEP - 1 or at + 1 == len(missing):
                    keep(path, kept)
    for test in tests:
        if not is_learnt(kept, test, digests):
            print(f"left out, it fails without a mistake: {test.name}",
                  flush=True)
    return {test.name: kept["tests"][test.name] for test in tests
            if is_learnt(kept, test, digests)}, kept["known"]
