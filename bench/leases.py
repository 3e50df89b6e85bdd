#!/usr/bin/env python3
"""bench/leases.py - what a lease costs that survives: warmpoold with each lease store.

    bench/leases.py [--quick] [--turns N] [--beside BUILD_DIR] [BUILD_DIR] >report.md

The whole daemon on synthetic sandboxes (files on tmpfs, so that making them is not what
is measured), clients over gRPC on a Unix socket. Redis is Debian's redis-server, started
here, on a Unix socket, appendonly yes, appendfsync everysec; its round trip is what a
script takes that does next to nothing, and a commit what a bare client waits for one.

A machine that others share is half as fast from one second to the next. So a daemon for
each store and a bare gRPC echo run side by side, idle but for the one that is asked;
loads of a fraction of a second go to them by turns, and what is compared is compared
within a turn. A turn in which the host took more than 3 % of the processors away is made
again, five times as many turns at most; of too few undisturbed ones the least disturbed
count, and the report says so. --beside adds Redis with the daemon of another build.
Claims are kept, while the pool refills.

A minute when nobody disturbs; --quick takes a quarter of one. Ends with 1 when a call
failed, or when a daemon holds another number of leases than were granted.
"""
import argparse
import http.client
import os
import pathlib
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

import loads
from stolen import Stolen

POOL = """\
apiVersion: extensions.agents.x-k8s.io/v1beta1
kind: SandboxTemplate
metadata: {name: bench}
spec:
  podTemplate:
    spec:
      containers:
        - {name: c, image: host, command: ["true"], ports: [{containerPort: 80}]}
---
apiVersion: extensions.agents.x-k8s.io/v1beta1
kind: SandboxWarmPool
metadata: {name: bench}
spec:
  replicas: REPLICAS
  sandboxTemplateRef: {name: bench}
"""
SLOTS_MAX = 250000
STOLEN_MAX = 0.03


def say(text):
    print(f"[{time.monotonic() - BEGUN:4.0f} s] {text}", file=sys.stderr, flush=True)


def eventually(check, what):
    end = time.monotonic() + 60
    while not check():
        if time.monotonic() > end:
            raise RuntimeError(f"not after a minute: {what}")
        time.sleep(0.05)


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("daemon", timeout=10)
        self.path = str(path)

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Daemon:
    """One warmpoold with a store, a directory and a Redis database of its own."""

    def __init__(self, bench, label, store, build, db):
        self.label, self.store, self.build = label, store, pathlib.Path(build)
        self.socket, self.db = bench.redis_socket, db
        self.dir = bench.dir / label
        self.state = bench.memory / label
        for made in (self.dir, self.state):
            made.mkdir()
        self.kept = 0
        self.process = None

    @property
    def target(self):
        return f"unix:{self.dir}/run/warmpoold.sock"

    def start(self, replicas=None, *flags):
        """Without replicas: as it was started before."""
        if replicas is not None:
            self.replicas = replicas
            (self.dir / "pool.yaml").write_text(
                POOL.replace("REPLICAS", str(replicas)))
        with open(self.dir / "log", "ab") as log:
            self.process = subprocess.Popen(
                [self.build / "allocator/warmpoold",
                 f"--manifests={self.dir}/pool.yaml", "--synthetic",
                 "--synthetic-ready=0", f"--lease-store={self.store}",
                 f"--redis-url=unix:{self.socket}?db={self.db}",
                 f"--redis-prefix={self.label}",
                 f"--lease-store-path={self.dir}/leases.db",
                 f"--slots-max={SLOTS_MAX}", f"--claims-max={2 * SLOTS_MAX}",
                 f"--runtime-dir={self.dir}/run", f"--state-dir={self.state}", *flags],
                stderr=log)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def wipe(self):
        """As if it had never run."""
        self.kill()
        for gone in (self.dir, self.state):
            shutil.rmtree(gone)
            gone.mkdir()
        if self.store == "redis":
            subprocess.run(["redis-cli", "-s", self.socket, "-n", str(self.db),
                            "flushdb"], stdout=subprocess.DEVNULL, check=True)

    def sandboxes(self, state):
        """How many of the pool's are in it, by the daemon's own metrics; None: no answer."""
        try:
            asked = UnixConnection(self.dir / "run/warmpoold-http.sock")
            asked.request("GET", "/metrics")
            text = asked.getresponse().read().decode()
            asked.close()
        except OSError:
            return None
        found = re.search(r'^warmpool_sandboxes{.*pool="bench",state="%s"} (\d+)$' % state,
                          text, re.M)
        return int(found[1]) if found else None

    def wait_full(self):
        end = time.monotonic() + 60
        while self.sandboxes("ready") != self.replicas:
            if self.process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"{self.label}: the pool did not get full:\n"
                                   + (self.dir / "log").read_text()[-2000:])
            time.sleep(0.05)

    def log_value(self, pattern):
        found = re.findall(pattern, (self.dir / "log").read_text())
        return found[-1] if found else "?"


class Bench:
    def __init__(self, args, directory, memory):
        self.build = pathlib.Path(args.build)
        self.dir, self.memory = directory, memory
        self.quick = args.quick
        self.turns = args.turns or (4 if args.quick else 12)
        self.serial, self.many = (150, 1500) if args.quick else (400, 4000)
        self.redis_socket = directory / "redis.sock"
        self.processes = []
        self.stolen = []  # The share in each turn.
        self.rows = {}  # Load to one (samples, p50, p99, p99.9, calls/s) a turn.
        self.wrong = []
        self.daemons = [Daemon(self, store, store, self.build, 0)
                        for store in ("memory", "sqlite", "redis")]
        if args.beside:
            self.daemons.append(Daemon(self, "redis-beside", "redis", args.beside, 1))

    def begin(self):
        self.processes = [
            subprocess.Popen(
                ["redis-server", "--port", "0", "--unixsocket", self.redis_socket,
                 "--dir", self.dir, "--appendonly", "yes", "--appendfsync", "everysec",
                 "--save", ""], stdout=subprocess.DEVNULL),
            subprocess.Popen([self.build / "bench/echo_server", "--unix",
                              self.dir / "echo.sock"], stdout=subprocess.DEVNULL)]
        eventually(self.redis_socket.exists, "redis-server")
        eventually((self.dir / "echo.sock").exists, "echo_server")
        for daemon in self.daemons:
            daemon.start(self.many + 500)
        for daemon in self.daemons:
            daemon.wait_full()

    def end(self):
        for process in self.processes + [d.process for d in self.daemons]:
            if process is not None and process.poll() is None:
                process.kill()
                process.wait()

    def record(self, name, samples, p50, p99, p999, rate):
        self.rows.setdefault(name, []).append((samples, p50, p99, p999, rate))

    def load(self, name, target, *options):
        """One load; how many claims were granted."""
        try:
            only = loads.phase(self.build, "-a", target, *options)
        except loads.Failed as error:
            self.wrong.append(f"{name}: {error}")
            return 0
        self.wrong += [f"{name}: {sentence}" for sentence in only["wrong"]]
        took = [only["claim"][p] * 1000 for p in ("p50_ms", "p99_ms", "p999_ms")]
        self.record(name, only["granted"], *took, only["granted_per_s"])
        return only["granted"]

    def echo(self, name, in_flight, count):
        self.load(name, f"unix:{self.dir}/echo.sock", "--echo", "-c", in_flight, "-n",
                  count)

    def round_trip(self):
        run = subprocess.run(
            ["redis-benchmark", "-s", self.redis_socket, "-c", "1", "-n",
             str(self.serial), "--csv", "eval",
             "return redis.call('HMGET',KEYS[1],'a','b')", "1", "k"],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True)
        cells = run.stdout.strip().splitlines()[-1].split('","')
        self.record("round trip", self.serial, float(cells[4]) * 1000,
                    float(cells[6]) * 1000, 0, float(cells[1]))

    def commit(self):
        run = subprocess.run(
            [self.build / "bench/bench_store_redis", self.redis_socket, "0.1", "1",
             "bare"], stdout=subprocess.PIPE, text=True, check=True)
        cells = next(line for line in run.stdout.splitlines()
                     if line.startswith("bare")).split()
        if cells[8] != "0":
            self.wrong.append(f"{cells[8]} commits of the bare client failed")
        self.record("commit", int(float(cells[5]) * 0.1), float(cells[3]),
                    float(cells[4]), 0, float(cells[5]))

    def turn(self, number):
        """Each load once; who comes first goes round."""
        first = number % len(self.daemons)
        order = self.daemons[first:] + self.daemons[:first]
        self.echo("echo, serial", 1, self.serial)
        self.round_trip()
        for daemon in order:
            self.claims(daemon, "serial", 1, self.serial)
        self.commit()
        self.echo("echo, 64", 64, self.many)
        for daemon in order:
            self.claims(daemon, "64", 64, self.many)

    def run(self):
        """Turns until so many were undisturbed, or a daemon has no place for more."""
        stolen = Stolen()
        room = (SLOTS_MAX - self.many - 500) // (self.many + self.serial)
        for number in range(min(5 * self.turns, room)):
            stolen.share()
            self.turn(number)
            self.stolen.append(stolen.share())
            say(f"turn {number + 1}: {self.stolen[-1]:.1%} stolen")
            if sum(x <= STOLEN_MAX for x in self.stolen) == self.turns:
                break
        # The least disturbed ones are what is told.
        order = sorted(range(len(self.stolen)), key=lambda i: self.stolen[i])
        chosen = sorted(order[:self.turns])
        if all(len(row) == len(self.stolen) for row in self.rows.values()):
            self.rows = {name: [row[i] for i in chosen]
                         for name, row in self.rows.items()}
        self.stolen = [self.stolen[i] for i in chosen]

    def claims(self, daemon, load, in_flight, count):
        """Claims that are kept; then the pool fills, so as not to be in others' way."""
        daemon.kept += self.load(
            f"{daemon.label}, {load}", daemon.target, "bench", "-c", in_flight, "-n",
            count, "--leave")
        daemon.wait_full()

    def count_leases(self):
        for daemon in self.daemons:
            leased = daemon.sandboxes("leased")
            if leased != daemon.kept:
                self.wrong.append(f"{daemon.label}: {daemon.kept} claims were granted "
                                  f"and kept, {leased} sandboxes are leased")

    def restart(self, daemon):
        """Killed with what it holds, until the first answer; then what it says."""
        held = 2000 if self.quick else 10000
        daemon.wipe()
        daemon.start(held)
        daemon.wait_full()
        self.load("", daemon.target, "bench", "-c", 64, "-n", held, "--leave")
        daemon.kill()
        begun = time.monotonic()
        daemon.start()
        while subprocess.run(
                [self.build / "allocator/ctl/warmpoolctl", "--address", daemon.target,
                 "pools"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                check=False).returncode != 0:
            if daemon.process.poll() is not None or time.monotonic() > begun + 30:
                raise RuntimeError(f"{daemon.label} did not start again")
            time.sleep(0.005)
        took_ms = (time.monotonic() - begun) * 1000
        after = daemon.sandboxes("leased")
        if after != held:
            self.wrong.append(f"{daemon.label}: {held} leases before the kill, {after} "
                              f"after it")
        taken_ms = daemon.log_value(r"leases taken up.*took_ms=([0-9.]+)")
        print(f"| {daemon.label} | {after} | {taken_ms} ms | {took_ms:.0f} ms |")

    # --- what is told ---

    def column(self, name, index):
        return [row[index] for row in self.rows.get(name, [])]

    def print_rows(self):
        print("| load | samples | p50 us | p99 us | p99.9 us | claims/s (least - most) |"
              "\n|---|---|---|---|---|---|")
        for name in self.rows:
            counts, rates = self.column(name, 0), sorted(self.column(name, 4))
            mid = [statistics.median(self.column(name, i)) for i in range(1, 5)]
            tail = f"{mid[2]:.0f}" if min(counts) >= 1000 else ""
            print(f"| {name} | {sum(counts)} | {mid[0]:.0f} | {mid[1]:.0f} | {tail} | "
                  f"{mid[3]:.0f} ({rates[0]:.0f} - {rates[-1]:.0f}) |")

    @staticmethod
    def print_ratio(text, values):
        if len(values) < 2:
            return
        low, mid, high = statistics.quantiles(values, n=4)
        print(f"| {text} | {mid:.2f} | {low:.2f} - {high:.2f} | "
              f"{min(values):.2f} - {max(values):.2f} |")

    def print_ratios(self):
        echo, trip = self.column("echo, serial", 1), self.column("round trip", 1)
        memory = self.column("memory, 64", 4)
        print("\n| within a turn | median | quarters | all |\n|---|---|---|---|")
        for daemon in self.daemons[1:]:
            rates = self.column(f"{daemon.label}, 64", 4)
            self.print_ratio(f"{daemon.label} against memory, 64 in flight",
                             [a / b for a, b in zip(rates, memory)])
        for daemon in self.daemons:
            if daemon.store == "redis":
                p50 = self.column(f"{daemon.label}, serial", 1)
                self.print_ratio(f"{daemon.label}, serial: over the echo, us",
                                 [a - b for a, b in zip(p50, echo)])
                self.print_ratio(f"{daemon.label}, serial: over the echo, round trips",
                                 [(a - b) / c for a, b, c in zip(p50, echo, trip)])
        self.print_ratio("a bare client's commit, round trips", [
            a / b for a, b in zip(self.column("commit", 1), trip)])
        if len(self.daemons) > 3:
            for load, index in (("serial", 1), ("64", 4)):
                self.print_ratio(
                    f"redis to redis-beside, {load}, {'p50' if index == 1 else 'calls/s'}",
                    [a / b for a, b in zip(self.column(f"redis, {load}", index),
                                           self.column(f"redis-beside, {load}", index))])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", nargs="?", default="build/release")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--turns", type=int, choices=range(2, 13), metavar="2..12")
    parser.add_argument("--beside", metavar="BUILD_DIR")
    args = parser.parse_args()
    if not loads.program(args.build).exists():
        sys.exit(f"bench/leases.py: no {loads.program(args.build)}: build the release "
                 f"preset first")
    directory = pathlib.Path(tempfile.mkdtemp(prefix="wpb-"))
    memory = pathlib.Path(tempfile.mkdtemp(prefix="wpb-", dir="/dev/shm"))
    bench = Bench(args, directory, memory)
    try:
        bench.begin()
        bench.run()
        bench.count_leases()
        load = " ".join(f"{x:.1f}" for x in os.getloadavg())
        print(f"## What a lease costs that survives\n\nMedians of {len(bench.stolen)} "
              f"turns; {statistics.mean(bench.stolen):.1%} of the processors were stolen "
              f"meanwhile, {max(bench.stolen):.1%} in the worst turn; load average "
              f"{load}.\n")
        bench.print_rows()
        bench.print_ratios()
        print("\n| restart with | leases | taken up in | process start to first answer |"
              "\n|---|---|---|---|")
        for daemon in bench.daemons[1:]:
            bench.restart(daemon)
    finally:
        bench.end()
        shutil.rmtree(directory)
        shutil.rmtree(memory)
    for text in bench.wrong:
        print(f"\n**wrong: {text}**")
    print("\nEach lease that was granted is held, once." if not bench.wrong else "")
    return 1 if bench.wrong else 0


BEGUN = time.monotonic()

if __name__ == "__main__":
    sys.exit(main())
