#!/usr/bin/env python3
"""clang-tidy, and clang's own warnings, on every file that a build compiles.

    tests/lint/tidy.py BUILD_DIR [JOBS] [--deep]

BUILD_DIR has compile_commands.json. Nearly all of the time is the static analyzer's, and
most of that goes to a few large functions. So it looks at all ways through a function
that its default bound allows in what the newest 50 commits have touched; in other files,
which were looked at so when they changed, it ends a third of the way. --deep: the whole
way in all of them, as where git cannot be asked.

 What was clean is looked at again only when it is
another text: the file as the preprocessor sees it with all its headers and comments,
how it is compiled, .clang-tidy, or the program. A stamp for each is in a folder that
all copies of the tree share: warmpool-tidy in the user's cache, or BUILD_DIR/tidy-clean
where that cannot be written.
"""
import argparse
import concurrent.futures
import contextlib
import hashlib
import json
import os
import pathlib
import shlex
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TIDY = "clang-tidy-14"
COMMITS = 50
# Of the analyzer's exploded graph; its default is 225000.
SHORT = [word for part in ("-analyzer-config", "max-nodes=75000")
         for word in ("-Xclang", part)]


def run(command, directory):
    return subprocess.run(command, cwd=directory, check=False,
                          env={**os.environ, "CCACHE_DISABLE": "1"},
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


def clean_dir(build):
    """Where the stamps are; those that were of no use for 60 days go."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    for folder in (pathlib.Path(cache) / "warmpool-tidy", build / "tidy-clean"):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f".{os.getpid()}").touch()
            (folder / f".{os.getpid()}").unlink()
        except OSError:
            continue
        for stamp in folder.iterdir():
            with contextlib.suppress(FileNotFoundError):
                if time.time() - stamp.stat().st_mtime > 60 * 86400:
                    stamp.unlink()
        return folder
    sys.exit(f"{build}: cannot be written")


def touched():
    """The files of the newest commits, and of what is not committed; None: not known."""
    files = set()
    for command in (["log", f"-{COMMITS}", "--name-only", "--format="],
                    ["diff", "--name-only", "HEAD"]):
        told = subprocess.run(["git", "-C", ROOT, *command], check=False, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        if told.returncode != 0:
            return None
        files |= set(told.stdout.split())
    return {ROOT / name for name in files}


def check(entry, clean, rules, deep):
    """What is wrong with one file, None when it was clean before."""
    words, directory = compiler(entry), entry["directory"]
    seen = run([*words, "-E", "-C"], directory)
    key = hashlib.sha256()
    here = str(ROOT).encode()  # Another copy of the tree has the same files.
    for part in (rules, " ".join(words).encode(), seen.stdout):
        key.update(hashlib.sha256(part.replace(here, b".")).digest())
    whole = clean / key.hexdigest()
    short = clean / f"{key.hexdigest()}-short"
    for stamp in (whole,) if deep else (whole, short):
        if seen.returncode == 0 and stamp.exists():
            stamp.touch()
            return None
    compiled = run([*words, "-fsyntax-only"], directory)
    # By its own flags: with -p, a file that is compiled twice is looked at twice in
    # one process, where the second time finds what is not there.
    tidied = run([TIDY, "--quiet", entry["file"], "--", *words[1:],
                  *([] if deep else SHORT)], directory)
    if compiled.returncode == 0 and tidied.returncode == 0:
        (whole if deep else short).touch()
        return ""
    return (compiled.stdout + tidied.stdout).decode(errors="replace")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path, metavar="BUILD_DIR")
    parser.add_argument("jobs", type=int, nargs="?", default=os.cpu_count(),
                        metavar="JOBS")
    parser.add_argument("--deep", action="store_true")
    options = parser.parse_args()
    build = options.build.resolve()
    recent = None if options.deep else touched()
    clean = clean_dir(build)
    rules = (ROOT / ".clang-tidy").read_bytes() + run(
        [TIDY, "--version"], ROOT).stdout
    # What is generated is not ours to tidy.
    entries = [entry for entry in json.loads(
        (build / "compile_commands.json").read_text(encoding="utf-8"))
        if entry["file"].endswith(".c")
        and build not in pathlib.Path(entry["file"]).parents]
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        found = list(pool.map(lambda e: check(
            e, clean, rules, recent is None or pathlib.Path(e["file"]) in recent),
            entries))
    for said in filter(None, found):
        print(said)
    wrong = sum(1 for said in found if said)
    print(f"{len(entries)} files, {found.count(None)} as they were, {wrong} not "
          "clean")
    return 1 if wrong or not entries else 0


if __name__ == "__main__":
    sys.exit(main())
