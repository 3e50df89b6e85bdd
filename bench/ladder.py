#!/usr/bin/env python3
"""bench/ladder.py - how many claims a second each lease store serves.

    bench/ladder.py [--quick] [--plot FILE.svg] [BUILD_DIR] >report.md

For leases in memory, in SQLite and in Redis, with one and with two serving threads:
warmpoold on synthetic sandboxes (files on tmpfs), and warmpool-load in an open
loop over four connections, at rates that grow by two fifths from step to step until one is
not reached. Each claim is released at once. The pool is full before each step, and a step
takes at most three quarters of it, so that what is measured is claims and not how fast
sandboxes are made; they are made anew meanwhile. The table tells the highest rate with a
p99 below 1 ms, from when each claim was due, and the most that was granted; the plot has
p99 over the rate. The first row is a bare gRPC echo, which grants nothing: what the
machine and the harness themselves allow.

A host that runs somebody else for a few milliseconds decides a p99. So a step that did
not reach its rate, or whose p99 is above 1 ms, is made twice, and the better counts:
that favours every store alike. Client, daemon and Redis share the machine's cores. Nine
minutes at most; --quick takes one and its figures mean nothing. Ends with 1 when a check
failed.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import leases
import loads

READY = 16384
STEPS = [round(1000 * 1.4 ** i) for i in range(14)]  # To 79 000.
STEP_S = 1
RUNS = (("echo", 1), ("memory", 1), ("memory", 2), ("sqlite", 1), ("sqlite", 2),
        ("redis", 1), ("redis", 2))
TRIES = 2
GOAL_MS, REACHED = 1, 0.95  # As warmpool-load ladders judges.


class Echo:
    """A bare gRPC server that answers with as many bytes."""

    pool = ["--echo"]

    def __init__(self, bench):
        path = bench.dir / "echo.sock"
        self.target = f"unix:{path}"
        self.process = subprocess.Popen(
            [bench.build / "bench/echo_server", "--unix", path, "--claim-reply", "300",
             "--release-reply", "8"],
            stdout=subprocess.DEVNULL)
        leases.eventually(path.exists, "echo_server")

    def wait_full(self):
        """It has no sandboxes."""

    def kill(self):
        self.process.kill()
        self.process.wait()


class Ladder:
    def __init__(self, build, directory, memory, quick):
        self.build, self.dir, self.memory = pathlib.Path(build), directory, memory
        self.redis_socket = directory / "redis.sock"
        self.steps = STEPS[::5] if quick else STEPS
        self.ready = READY // 8 if quick else READY
        self.tries = 1 if quick else TRIES
        self.wrong = []

    def redis(self):
        process = subprocess.Popen(
            ["redis-server", "--port", "0", "--unixsocket", self.redis_socket, "--dir",
             self.dir, "--appendonly", "yes", "--appendfsync", "everysec", "--save", ""],
            stdout=subprocess.DEVNULL)
        leases.eventually(self.redis_socket.exists, "redis-server")
        return process

    def step(self, server, name, rate):
        """The summary of one try at a rate."""
        server.wait_full()
        told = loads.summary(
            self.build, *server.pool, "-a", server.target, "--rate", rate, "-d",
            f"{min(STEP_S, 0.75 * self.ready / rate) * 1000:.0f}ms", "--warmup", "100ms",
            "--connections", 4, "--min-granted", 0,
            # More calls than rpc_calls_max would be refused, releases among them.
            "--max-in-flight", 1024)
        self.wrong += [f"{name}, {rate}/s: {s}" for s in told["check"]["breaches"]]
        return told

    def run(self, store, threads):
        """The summary's file."""
        name = f"{store}, {threads} thread{'s' if threads > 1 else ''}"
        if store == "echo":
            server = Echo(self)
        else:
            server = leases.Daemon(self, f"{store}-{threads}", store, self.build, threads)
            server.pool = ["bench"]
            server.start(self.ready, f"--rpc-threads={threads}")
        told = None
        try:
            for rate in self.steps:
                best = None
                for _ in range(self.tries):
                    tried = self.step(server, name, rate)
                    only, = tried["phases"]
                    reached = only["granted_per_s"] >= REACHED * rate
                    key = (not reached, only["claim"]["p99_ms"])
                    best = min(best or (key, only), (key, only), key=lambda of: of[0])
                    if reached and key[1] < GOAL_MS:
                        break
                told = told or {**tried, "phases": []}
                told["phases"].append(best[1])
                if best[0][0]:
                    break
        finally:
            server.kill()
        print(f"{name}: {len(told['phases'])} steps", file=sys.stderr)
        path = self.dir / f"{name}.json"
        path.write_text(json.dumps(told), encoding="utf-8")
        return path


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", nargs="?", default="build/release")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--plot", default=os.devnull, metavar="FILE.svg")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="wpb-") as directory, \
            tempfile.TemporaryDirectory(prefix="wpb-", dir="/dev/shm") as memory:
        ladder = Ladder(args.build, pathlib.Path(directory), pathlib.Path(memory),
                        args.quick)
        redis = ladder.redis()
        try:
            files = [ladder.run(store, threads) for store, threads in RUNS]
        finally:
            redis.kill()
            redis.wait()
        sys.stdout.flush()
        subprocess.run([loads.program(args.build), "ladders", args.plot, *files],
                       check=True)
    print(f"\nLoad average {' '.join(f'{x:.1f}' for x in os.getloadavg())}.")
    for sentence in ladder.wrong:
        print(f"\n**{sentence}**")
    return 1 if ladder.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
