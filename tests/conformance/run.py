#!/usr/bin/env python3
"""tests/conformance/run.py - agent-sandbox's own end-to-end tests and load harness,
unmodified, from its published module, against this project's controllers.

    run.py [BUILD_DIR]               the short tests, and the harness at a small rate
    run.py [BUILD_DIR] --long        all that can run
    run.py [BUILD_DIR] TestName...   these

The control plane is that of tests/e2e. tests.toml says of each test whether it can run
here, and why not; a test that it does not know fails the run. Several tests run at a
time, each in a process of its own (--jobs). Their deadlines are not ours to set: what
fails in company is run once more, alone. stress.py has more load.
"""
import argparse
import concurrent.futures
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import tomllib

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "e2e"))

import cluster as control_plane  # noqa: E402
import stress  # noqa: E402
import world as scenario  # noqa: E402

# As real ones do: their tests look for what is short or unready meanwhile, once a
# second.
START_MS = 2000
RUNTIME_CLASS = "pretended"
# They change one Deployment, all of them.
ONE_AFTER_THE_OTHER = "TestParallel"


def known():
    """{test: (its program, what becomes of it)}"""
    with open(HERE / "tests.toml", "rb") as file:
        table = tomllib.load(file)
    return {test: (program, fate) for program, tests in table.items()
            for test, fate in tests.items()}


def check_known(programs, tests):
    """Each test of theirs is in the table, and no other."""
    theirs = set()
    for program in {program for program, _ in tests.values()}:
        listed = subprocess.run(
            [programs / f"{program}.test", "-test.list", "^Test"], text=True,
            stdout=subprocess.PIPE, check=True).stdout.split()
        theirs |= {(program, test) for test in listed}
    ours = {(program, test) for test, (program, _) in tests.items()}
    for program, test in sorted(theirs ^ ours):
        print(f"FAIL {test}: {program} has it, tests.toml does not"
              if (program, test) in theirs else
              f"FAIL {test}: tests.toml has it, {program} does not")
    return theirs == ours


def prepare(world):
    """What their tests expect to find, beside the CRDs: the controller's Deployment,
    whose Pods are pretended; volumes for who asks for one; a runtime class."""
    cluster = world.cluster
    cluster.kubectl(
        "-n", scenario.SYSTEM, "apply", "-f",
        control_plane.ROOT / "deploy/kubernetes/base/deployment.yaml")
    for number in range(24):
        cluster.request("POST", "/api/v1/persistentvolumes", {
            "apiVersion": "v1", "kind": "PersistentVolume",
            "metadata": {"name": f"volume-{number}"},
            "spec": {"capacity": {"storage": "10Gi"},
                     "accessModes": ["ReadWriteOnce"],
                     "persistentVolumeReclaimPolicy": "Retain",
                     "hostPath": {"path": f"/nowhere/{number}"}}})
    cluster.request("POST", "/apis/node.k8s.io/v1/runtimeclasses", {
        "apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass",
        "metadata": {"name": RUNTIME_CLASS}, "handler": "pretended"})
    path = ("/apis/apps/v1/namespaces/agent-sandbox-system/deployments/"
            "agent-sandbox-controller")

    def ready():
        found = cluster.get(path)
        return found.get("status", {}).get("readyReplicas", 0) == found[
            "spec"]["replicas"]
    control_plane.wait_for("the Deployment", ready)


class Runner:
    def __init__(self, world, programs, tests):
        self.world = world
        self.programs = programs
        self.programs_of = {test: program for test, (program, _) in
                            tests.items()}
        self.failed = []
        self.passed = 0

    def run(self, program, tests):
        """One process; the tests in it run one after the other."""
        start = time.monotonic()
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.world.dir))
        done = subprocess.run(
            [self.programs / f"{program}.test", "-test.v", "-test.timeout", "20m",
             "-test.run", "^(" + "|".join(tests) + ")$"],
            cwd=folder, text=True, errors="replace", stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
            env={**os.environ, "KUBECONFIG": str(self.world.cluster.kubeconfig),
                 "ARTIFACTS": str(folder), "SANDBOX_REPORT_DIR": str(folder),
                 "SANDBOX_RUNTIME_CLASS": RUNTIME_CLASS,
                 "SANDBOX_POOL_SIZES": "4", "SANDBOX_WORKLOAD_SEC": "0"})
        return tests, done, time.monotonic() - start

    def tell(self, tests, done, took):
        for test in tests:
            # Neither failed nor skipped nor left out.
            if f"--- PASS: {test} (" in done.stdout:
                self.passed += 1
                print(f"ok   {test}", flush=True)
            else:
                self.failed.append((self.programs_of[test], [test]))
                print(f"FAIL {test}", flush=True)
        print(f"     {took:.1f} s", flush=True)
        if done.returncode != 0:
            print(done.stdout[-20000:])

    def again(self):
        """What has failed, one after the other."""
        groups, self.failed = self.failed, []
        for one in groups:
            print(f"once more, alone: {one[1][0]}", flush=True)
            self.tell(*self.run(*one))

    def all(self, groups, jobs):
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            for future in concurrent.futures.as_completed(
                    [pool.submit(self.run, *group) for group in groups]):
                self.tell(*future.result())


def group(tests, wanted):
    """[(program, [test...])...] of what is wanted."""
    groups = []
    together = [test for test in wanted if test.startswith(ONE_AFTER_THE_OTHER)]
    if together:
        groups.append((tests[together[0]][0], together))
    return groups + [(tests[test][0], [test]) for test in wanted
                     if test not in together]


def run(arguments, tests, wanted):
    programs = control_plane.programs("conformance")
    if not check_known(programs, tests):
        return 1
    with tempfile.TemporaryDirectory(prefix="warmpool-conformance-") as folder, \
            control_plane.Cluster(
                folder, stages=[HERE / "kwok.yaml"],
                controllers=["persistentvolume-binder-controller",
                             "persistentvolumeclaim-protection-controller"],
                start_ms=START_MS) as cluster:
        world = scenario.World(folder, cluster)
        prepare(world)
        runner = Runner(world, programs, tests)
        daemon = world.daemon()
        try:
            runner.all(group(tests, wanted), arguments.jobs)
            runner.again()
            if runner.failed:
                print(f"--- {daemon.name}\n{daemon.log()[-20000:]}")
        finally:
            world.stop_daemons()
        total = len(runner.failed) + runner.passed
        print(f"{runner.passed} of {total} of agent-sandbox's tests passed")
        if not arguments.tests and not stress.run(world, programs, rate=2,
                                                  seconds=5, burst=20):
            return 1
    return 1 if runner.failed else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=
                                     argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", nargs="?", default="build/release",
                        metavar="BUILD_DIR")
    parser.add_argument("tests", nargs="*", metavar="TestName")
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--jobs", type=int, default=8)
    arguments = parser.parse_args()
    os.environ["WARMPOOL_BUILD"] = os.path.abspath(arguments.build)
    tests = known()
    for test in arguments.tests:
        if test not in tests:
            parser.error(f"{test}: no such test in tests.toml")
    parts = ("short", "long") if arguments.long else ("short",)
    wanted = arguments.tests or [
        test for test, (_, fate) in tests.items() if fate in parts]
    for test, (_, fate) in tests.items():
        if arguments.long and fate not in parts:
            print(f"---- {test}: {fate}")
    try:
        return run(arguments, tests, wanted)
    except control_plane.Unavailable:
        return 77


if __name__ == "__main__":
    sys.exit(main())
