#!/usr/bin/env python3
"""Fuzzes every parser for hours and says how much of each was reached.

    tests/fuzz/long.py                    4 hours of processor over all targets
    tests/fuzz/long.py --hours 0 --table  only the table, from the corpora there are

Inputs and the time spent are kept in --corpus, so a run that was cut goes on where it
stopped. A crash ends the run with 1; its input is kept beside the corpora. The table has
a line for each target: processor time, inputs, and the part of lines and branches reached
in the source files whose headers the target includes, as llvm-cov counts them.
"""
import argparse
import concurrent.futures
import json
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SLICE_S = 60
# Headers that a target includes as tools of its own; it does not test what they declare.
TOOLS = ("pool/base/", "tests/")


def arguments():
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hours", type=float, default=4,
                        help="processor time over all targets together (default: 4)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(),
                        help="targets at a time (default: one a processor)")
    parser.add_argument("--targets", default="", metavar="REGEX",
                        help="only those whose name matches")
    parser.add_argument("--corpus", type=Path, default=cache / "warmpool-fuzz",
                        help="folder for inputs and the time spent")
    parser.add_argument("--table", action="store_true",
                        help="measure the coverage, too, and print the table")
    return parser.parse_args()


def build(folder, flags, targets=("fuzz",)):
    subprocess.run(["cmake", "--preset", "fuzz", "-B", folder, f"-DCMAKE_C_FLAGS={flags}"],
                   cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["ninja", "-C", folder, *targets], cwd=ROOT, check=True,
                   stdout=subprocess.DEVNULL)


def targets_of(folder, pattern):
    lines = (ROOT / folder / "fuzz_targets.txt").read_text().split()
    pairs = (line.split("=", 1) for line in lines)
    return {name: Path(seeds) for name, seeds in pairs if re.search(pattern, name)}


class Spent:
    """Processor seconds by target, kept on disk."""

    def __init__(self, path):
        self.path, self.lock = path, threading.Lock()
        self.seconds = json.loads(path.read_text()) if path.exists() else {}

    def add(self, name, seconds):
        with self.lock:
            self.seconds[name] = self.seconds.get(name, 0) + seconds
            fresh = self.path.with_suffix(".new")
            fresh.write_text(json.dumps(self.seconds, indent=1))
            fresh.replace(self.path)


def fuzz(name, seeds, corpus, spent):
    """One slice of one target; returns its output where it crashed."""
    inputs = corpus / name
    inputs.mkdir(parents=True, exist_ok=True)
    log = corpus / f"{name}.log"
    with log.open("w") as out:
        child = subprocess.Popen(
            [ROOT / "build/fuzz/tests" / name, f"-max_total_time={SLICE_S}", "-timeout=60",
             "-rss_limit_mb=2048", f"-artifact_prefix={corpus}/{name}-", inputs, seeds],
            stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    spent.add(name, usage.ru_utime + usage.ru_stime)
    return log.read_text(errors="replace")[-4000:] if child.returncode else None


def fuzz_all(targets, options, spent):
    share = options.hours * 3600 / len(targets)
    crashed = threading.Event()

    def turns(name):
        while spent.seconds.get(name, 0) < share and not crashed.is_set():
            said = fuzz(name, targets[name], options.corpus, spent)
            if said:
                crashed.set()
                print(f"{name} crashed:\n{said}", flush=True)

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(turns, targets))
    return not crashed.is_set()


def sources_of(name):
    """The source files whose headers a target includes."""
    main = next((ROOT / "tests/fuzz").rglob(f"{name}.c"))
    headers = re.findall(r'^#include "([^"]+)\.h"', main.read_text(), re.M)
    return {f"{header}.c" for header in headers
            if not header.startswith(TOOLS) and (ROOT / f"{header}.c").exists()}


def coverage_of(name, seeds, corpus):
    """(lines, lines reached, branches, branches reached) in the target's sources."""
    raw, profile = corpus / f"{name}.profraw", corpus / f"{name}.profdata"
    program = ROOT / "build/fuzz-coverage/tests" / name
    folders = [folder for folder in (corpus / name, seeds) if folder.is_dir()]
    subprocess.run([program, "-runs=0", "-timeout=60", *folders], check=True,
                   env={**os.environ, "LLVM_PROFILE_FILE": str(raw)},
                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)
    subprocess.run(["llvm-profdata-14", "merge", "-sparse", raw, "-o", profile], check=True)
    said = subprocess.run(
        ["llvm-cov-14", "export", "-summary-only", f"-instr-profile={profile}", program],
        check=True, capture_output=True, text=True).stdout
    raw.unlink()
    profile.unlink()
    wanted = sources_of(name)
    sums = [0, 0, 0, 0]
    for file in json.loads(said)["data"][0]["files"]:
        if os.path.relpath(file["filename"], ROOT) in wanted:
            lines, branches = file["summary"]["lines"], file["summary"]["branches"]
            for i, value in enumerate((lines["count"], lines["covered"],
                                       branches["count"], branches["covered"])):
                sums[i] += value
    return sums


def table(targets, options, spent):
    def percent(part, whole):
        return f"{100 * part / whole:.0f} %" if whole else "-"

    print("| target | processor, s | inputs | lines | branches | sources |")
    print("|---|---|---|---|---|---|")
    for name, seeds in targets.items():
        lines, reached, branches, taken = coverage_of(name, seeds, options.corpus)
        folder = options.corpus / name
        inputs = len(list(folder.iterdir())) if folder.is_dir() else 0
        print(f"| {name.removeprefix('fuzz_')} | {spent.seconds.get(name, 0):.0f} | {inputs} "
              f"| {percent(reached, lines)} | {percent(taken, branches)} "
              f"| {', '.join(sorted(sources_of(name)))} |", flush=True)


def main():
    options = arguments()
    options.corpus.mkdir(parents=True, exist_ok=True)
    spent = Spent(options.corpus / "seconds.json")
    build("build/fuzz", "")
    targets = targets_of("build/fuzz", options.targets)
    if not targets:
        sys.exit(f"no target matches {options.targets}")
    whole = fuzz_all(targets, options, spent)
    if options.table:
        build("build/fuzz-coverage", "-fprofile-instr-generate -fcoverage-mapping")
        table(targets, options, spent)
    print(f"{sum(spent.seconds.values()) / 3600:.2f} hours of processor, "
          f"{'no crash' if whole else 'a crash'}")
    sys.exit(0 if whole else 1)


if __name__ == "__main__":
    main()
