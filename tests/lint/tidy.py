#!/usr/bin/env python3
"""clang-tidy, and clang's own warnings, on every file that a build compiles.

    tests/lint/tidy.py BUILD_DIR [JOBS]

BUILD_DIR has compile_commands.json. What was clean is looked at again only when it is
another text: the file as the preprocessor sees it with all its headers and comments,
how it is compiled, .clang-tidy, or the program. BUILD_DIR/tidy-clean has a stamp each.
"""
import concurrent.futures
import hashlib
import json
import os
import pathlib
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TIDY = "clang-tidy-14"


def run(command, directory):
    return subprocess.run(command, cwd=directory, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def compiler(entry):
    """The command without what it writes, and without ccache."""
    words = shlex.split(entry["command"])
    while os.path.basename(words[0]) == "ccache":
        del words[0]
    out = words.index("-o")
    del words[out:out + 2]
    words.remove("-c")
    return words


def check(entry, build, rules):
    """What is wrong with one file, None when it was clean before."""
    words, directory = compiler(entry), entry["directory"]
    seen = run([*words, "-E", "-C"], directory)
    key = hashlib.sha256()
    for part in (rules, " ".join(words).encode(), seen.stdout):
        key.update(hashlib.sha256(part).digest())
    stamp = build / "tidy-clean" / key.hexdigest()
    if stamp.exists():
        return None
    compiled = run([*words, "-fsyntax-only"], directory)
    tidied = run([TIDY, "--quiet", "-p", build, entry["file"]], directory)
    if compiled.returncode == 0 and tidied.returncode == 0:
        stamp.touch()
        return ""
    return (compiled.stdout + tidied.stdout).decode(errors="replace")


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    jobs = int(sys.argv[2]) if len(sys.argv) > 2 else os.cpu_count()
    (build / "tidy-clean").mkdir(exist_ok=True)
    rules = (ROOT / ".clang-tidy").read_bytes() + run(
        [TIDY, "--version"], ROOT).stdout
    # What is generated is not ours to tidy.
    entries = [entry for entry in json.loads(
        (build / "compile_commands.json").read_text(encoding="utf-8"))
        if entry["file"].endswith(".c")
        and build not in pathlib.Path(entry["file"]).parents]
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        found = list(pool.map(lambda e: check(e, build, rules), entries))
    for said in filter(None, found):
        print(said)
    wrong = sum(1 for said in found if said)
    print(f"{len(entries)} files, {found.count(None)} as they were, {wrong} not "
          "clean")
    return 1 if wrong or not entries else 0


if __name__ == "__main__":
    sys.exit(main())
