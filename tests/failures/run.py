#!/usr/bin/env python3
"""Switches off what failures are answered by, one mechanism at a time, in a copy
of the tree, and expects the test that failures.toml names to fail.

    tests/failures/run.py [WORD...]    rows with one of these words; default all

Takes a minute a row. Builds in build/failures; needs what tests/run.sh installs.
A row that is a mutant of the simulation or a rule of the model is left to
sim_mutants and model/lease, which every run of the tests has.
"""
import json
import os
import re
import signal
import subprocess
import sys
import tomllib

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                "..", "mutation"))
from tree import ROOT, configure, copy_tree, ninja  # noqa: E402

TREE = os.path.join(ROOT, "build", "failures", "tree")
BUILD = os.path.join(TREE, "build", "dev")
TEST_S = 600
HELPERS = ["warmpoold", "warmpoolctl", "warmpool-fetch", "warmpool-init",
           "warmpool-runtime", "warmpool-egress", "rpc_python"]


def rows():
    with open(os.path.join(ROOT, "tests", "failures", "failures.toml"),
              "rb") as table:
        return tomllib.load(table)["row"]


def read(path):
    with open(path, encoding="utf-8") as handle:
        return handle.read()


def write(path, text):
    with open(path, "w", encoding="utf-8") as handle:
        handle.write(text)


def build(targets):
    done = ninja(TREE, BUILD, targets)
    if done.returncode != 0:
        raise SystemExit("cannot build:\n" + done.stdout[-3000:])


def targets_of(row):
    path = row["test"].split(": ")[0]
    if path.endswith(".py"):
        return HELPERS + (["fake_api"] if "/k8s_" in path else [])
    return [
        os.path.splitext(os.path.basename(path))[0],
        *(["static_server", "warmpool-init"] if "/local_" in path else [])]


def command_of(path):
    """How ctest runs a test's file, and in which environment."""
    told = subprocess.run(["ctest", "--test-dir", BUILD, "--show-only=json-v1"],
                          stdout=subprocess.PIPE, check=True, text=True).stdout
    for test in json.loads(told)["tests"]:
        if os.path.join(TREE, path) in test.get("command", []):
            given = [one["value"] for one in test["properties"]
                     if one["name"] == "ENVIRONMENT"]
            # A part of the file's tests; here one test is named.
            return ([word for word in test["command"]
                     if not word.startswith("--part=")],
                    dict(one.split("=", 1) for one in sum(given, [])))
    raise SystemExit(f"ctest knows no {path}")


def run(row):
    """What the test says, and whether it failed."""
    path, name = row["test"].split(": ")
    environment = {}
    if path.endswith(".py"):
        command, environment = command_of(path)
        command.append(name)
    else:
        command = [os.path.join(BUILD, "tests", targets_of(row)[0])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True,
                          stderr=subprocess.STDOUT, cwd=BUILD,
                          env={**os.environ, **environment},
                          start_new_session=True) as process:
        try:
            said, _ = process.communicate(timeout=TEST_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            said, _ = process.communicate()
    if path.endswith(".py"):
        if "_FailedTest" in said or re.search(r"^Ran \d", said, re.M) is None:
            raise SystemExit(f"{row['test']} did not run:\n{said[-1500:]}")
        failed = re.search(r"^(FAIL|ERROR): ", said, re.M) is not None
        return said, failed
    # A test that crashes or hangs is the last that began.
    began = re.findall(r"^\[ RUN      \] (\S+)", said, re.M)
    ended = set(re.findall(r"^\[ +(?:OK|FAILED) +\] (\w+)", said, re.M))
    failed = f"[  FAILED  ] {name}\n" in said or (
        bool(began) and began[-1] == name and name not in ended)
    return said, failed


def try_row(row):
    path = os.path.join(TREE, row["file"])
    whole = read(path)
    if whole.count(row["off"]) != 1:
        raise SystemExit(f"{row['file']} has not once: {row['off']}")
    write(path, whole.replace(row["off"], row["instead"]))
    try:
        build(targets_of(row))
        return run(row)
    finally:
        write(path, whole)


def main():
    words = sys.argv[1:]
    wanted = [r for r in rows() if "off" in r and (
        not words or any(w in " ".join(map(str, r.values())) for w in words))]
    survived = 0
    copy_tree(TREE)
    configure(TREE, "dev")
    for row in wanted:
        said, failed = try_row(row)
        print(f"{'fails as it should' if failed else 'STILL PASSES':18} "
              f"{row['test'].split(': ')[1]}: without \"{row['mechanism']}\"",
              flush=True)
        if not failed:
            survived += 1
            print(said[-1500:])
    print(f"{len(wanted)} switched off, {survived} not noticed")
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())
