#!/usr/bin/env python3
"""tests/conformance/stress.py - agent-sandbox's load harness and the gate of its CI,
unmodified, against this project's controllers.

    stress.py [BUILD_DIR] [--rate N] [--seconds N] [--burst N] [--gate]

First as many SandboxClaims at once as the pool has members (--burst), then claims at a
rate. Every claim has to become Ready. The gate reads the histogram that both projects'
controllers export, as their ClusterLoader2 job does: p50 and p90 within 300 ms, p99
within 500 ms. Its verdict decides the exit code with --gate only, for it is a figure of
this machine.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "e2e"))

import cluster as control_plane  # noqa: E402
import world as scenario  # noqa: E402

GATE = "agent-sandbox/dev/ci/presubmits/shared/scrape_controller_metrics.py"


def gate(programs, port):
    """Their script's verdict, and what it prints."""
    done = subprocess.run(
        [sys.executable, programs / GATE,
         f"--metrics-url=http://127.0.0.1:{port}/metrics", "--threshold-50=300",
         "--threshold-90=300", "--threshold-99=500"], text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    print(done.stdout.rstrip(), flush=True)
    return done.returncode == 0


def tell(phase):
    ready = phase["latency"].get("endToEndReady") or {}
    print(f"{phase['name']}: {phase['ready']} of {phase['created']} claims Ready, "
          f"{phase['failed']} failed; create to Ready p50 "
          f"{ready.get('p50Ms', 0):.0f}, p90 {ready.get('p90Ms', 0):.0f}, p99 "
          f"{ready.get('p99Ms', 0):.0f} ms", flush=True)


def run(world, programs, rate, seconds, burst, gated=False):
    """False: a claim was not served, or the gate is closed (gated)."""
    port = control_plane.free_port()
    folder = world.dir / "stress"
    folder.mkdir(exist_ok=True)
    daemon = world.daemon(metrics_listen=f"127.0.0.1:{port}")
    try:
        done = subprocess.run(
            [programs / "agent-sandbox-stress",
             "--phases=claims-warm,claims-warm-sustained",
             f"--claims-warm-count={burst}", f"--sustained-rate={rate}",
             f"--sustained-seconds={seconds}", "--claim-dwell=2s",
             f"--client-connections={max(1, burst // 100 + 1)}",
             "--profile-controller=false", "--profile-apiserver=false",
             "--collect-metrics=false", f"--output-dir={folder}"],
            text=True, errors="replace", stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
            env={**os.environ, "KUBECONFIG": str(world.cluster.kubeconfig)})
        opened = gate(programs, port)
    finally:
        world.stop_daemons()
    served = done.returncode == 0
    if served:
        phases = json.loads((folder / "summary.json").read_text())["phases"]
        for phase in phases:
            tell(phase)
        served = len(phases) == 2 and all(
            phase["failed"] == 0 and phase["created"] > 0 and
            phase["ready"] == phase["created"] for phase in phases)
    if not served:
        print(done.stdout[-10000:])
        print(f"--- {daemon.name}\n{daemon.log()[-6000:]}")
    print("ok   stress" if served else "FAIL stress", flush=True)
    return served and (opened or not gated)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=
                                     argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", nargs="?", default="build/release",
                        metavar="BUILD_DIR")
    parser.add_argument("--rate", type=float, default=10)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--burst", type=int, default=50)
    parser.add_argument("--gate", action="store_true")
    arguments = parser.parse_args()
    os.environ["WARMPOOL_BUILD"] = os.path.abspath(arguments.build)
    try:
        programs = control_plane.programs("conformance")
        with tempfile.TemporaryDirectory(prefix="warmpool-stress-") as folder, \
                control_plane.Cluster(folder) as cluster:
            world = scenario.World(folder, cluster)
            return 0 if run(world, programs, arguments.rate, arguments.seconds,
                            arguments.burst, arguments.gate) else 1
    except control_plane.Unavailable:
        return 77


if __name__ == "__main__":
    sys.exit(main())
