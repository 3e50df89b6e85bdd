#!/usr/bin/env python3
"""Are the programs built as hard as their flags promise? Asks readelf.

    hardening.py BUILD_DIRECTORY

Each installed program is position-independent, has its relocations read-only and
bound at start, and no executable stack. The two that run inside sandboxes need no
library and no loader. Objects are compiled against stack clashes and, on x86, with
marks for control-flow enforcement. The linker drops the mark of a whole program,
since the C runtime of Debian 12 has none: so objects are looked at.
"""
import json
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PROGRAMS = {"warmpoold": "allocator/warmpoold",
            "warmpoolctl": "allocator/ctl/warmpoolctl",
            "warmpool-load": "bench/harness/warmpool-load",
            "warmpool-egress": "runtime/warmpool-egress",
            "warmpool-fetch": "local/warmpool-fetch",
            "warmpool-init": "local/warmpool-init",
            "warmpool-runtime": "runtime/warmpool-runtime"}
STATIC = {"warmpool-init", "warmpool-runtime"}
HOUSES = ("allocator/", "k8s/", "local/", "pool/", "proto/", "runtime/")


def readelf(*words):
    return subprocess.run(["readelf", "-W", *map(str, words)], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          check=True).stdout


def program_faults(path, static):
    """What is wrong with a program."""
    header, segments, dynamic = (readelf(w, path) for w in ("-h", "-l", "-d"))
    if not re.search(r"Type:\s+DYN", header) or not re.search(
            r"\(FLAGS_1\).*\bPIE\b", dynamic):
        yield "not position-independent"
    if "GNU_RELRO" not in segments:
        yield "relocations stay writable"
    if not re.search(r"\bBIND_NOW\b|\(FLAGS_1\).*\bNOW\b", dynamic):
        yield "functions are bound late"
    stack = re.search(r"GNU_STACK(?:\s+0x\w+){5}\s+(\S+)", segments)
    if stack is None or "E" in stack[1]:
        yield "the stack is executable"
    needs = "(NEEDED)" in dynamic or "INTERP" in segments
    if static and needs:
        yield "needs a loader or libraries of the root it runs in"


def object_faults(objects):
    """Objects without the marks, where the processor has such things."""
    for path in objects:
        notes = readelf("-n", path)
        if not re.search(r"x86 feature: IBT, SHSTK", notes):
            yield f"{path}: no marks for control-flow enforcement"


def flag_faults(rows, release):
    wanted = ["-fstack-clash-protection", "-fstack-protector-strong"]
    if release:
        wanted.append("-D_FORTIFY_SOURCE=2")
    for row in rows:
        missing = [f for f in wanted if f not in row["command"].split()]
        if missing:
            yield f"{row['file']}: compiled without {', '.join(missing)}"


def product(build):
    """The compilations of the product, from CMake's own list."""
    rows = json.loads((build / "compile_commands.json").read_text())
    for row in rows:
        path = os.path.relpath(row["file"], ROOT)
        if path.startswith(HOUSES) and path.endswith(".c"):
            yield row


def main():
    if shutil.which("readelf") is None:
        print("SKIP: no readelf")
        return 77
    build = pathlib.Path(sys.argv[1]).resolve()
    problems = []
    for name, place in PROGRAMS.items():
        problems += [f"{name}: {fault}" for fault in
                     program_faults(build / place, name in STATIC)]
    rows = list(product(build))
    problems += flag_faults(rows, sys.argv[2:] == ["Release"])
    outputs = [build / re.search(r" -o (\S+)", row["command"])[1]
               for row in rows]
    outputs = [path for path in outputs if path.exists()]
    if platform.machine() == "x86_64":
        problems += object_faults(outputs)
    # The rules see what they are for.
    python = pathlib.Path(sys.executable).resolve()
    if not list(program_faults(python, True)):
        problems.append("self-test: a program with libraries passes for static")
    if not list(flag_faults([{"file": "a.c", "command": "cc a.c"}], True)):
        problems.append("self-test: a compilation without flags passes")
    for problem in problems:
        print(problem)
    print(f"{len(PROGRAMS)} programs and {len(outputs)} objects looked at")
    return 1 if problems or not outputs else 0


if __name__ == "__main__":
    sys.exit(main())
