#!/usr/bin/env python3
"""bench/ladder.py - how many claims a second each lease store serves.

    bench/ladder.py [--quick] [--plot FILE.svg] [BUILD_DIR] >report.md

For leases in memory, in SQLite and in Redis, each with one and with two serving
threads: warmpoold on synthetic sandboxes (files on tmpfs), and warmpool-load in an open
loop over four connections, at rates that grow by a quarter from step to step until one is
not reached. Each claim is released at once, so a claim here is two calls, a sandbox and
its refill. The table tells the highest rate with a p99 below 1 ms, from when each claim
was due, and the most that was granted; the plot has p99 over the rate. Client, daemon and
Redis share the machine's cores. Six minutes at most; --quick takes half of one and its
figures mean nothing. Ends with 1 when a check failed.
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

READY = 8192  # More than a step takes before they are made anew.
STEPS = [round(1000 * 1.25 ** i) for i in range(21)]  # To 87 000.


class Ladder:
    def __init__(self, build, directory, memory, quick):
        self.build, self.dir, self.memory = pathlib.Path(build), directory, memory
        self.redis_socket = directory / "redis.sock"
        self.steps = STEPS[::5] if quick else STEPS
        self.step = "300ms" if quick else "2s"
        self.wrong = []

    def redis(self):
        process = subprocess.Popen(
            ["redis-server", "--port", "0", "--unixsocket", self.redis_socket, "--dir",
             self.dir, "--appendonly", "yes", "--appendfsync", "everysec", "--save", ""],
            stdout=subprocess.DEVNULL)
        leases.eventually(self.redis_socket.exists, "redis-server")
        return process

    def run(self, store, threads):
        """The summary's file."""
        name = f"{store}, {threads} thread{'s' if threads > 1 else ''}"
        daemon = leases.Daemon(self, f"{store}-{threads}", store, self.build, threads)
        daemon.start(READY, f"--rpc-threads={threads}")
        try:
            daemon.wait_full()
            told = loads.summary(
                self.build, "bench", "-a", daemon.target, "--steps",
                ",".join(map(str, self.steps)), "--until-saturated", "-d", self.step,
                "--warmup", "200ms", "--connections", 4, "--min-granted", 0,
                # More calls than rpc_calls_max would be refused, releases among them.
                "--max-in-flight", 2048)
        finally:
            daemon.kill()
        self.wrong += [f"{name}: {s}" for s in told["check"]["breaches"]]
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
            files = [ladder.run(store, threads) for store in
                     ("memory", "sqlite", "redis") for threads in (1, 2)]
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
