#!/usr/bin/env python3
"""bench/echo.py - a Claim beside the least that C-core and nghttp2 can do.

    bench/echo.py [--quick] [--reps N] [--seconds S] [BUILD_DIR] >report.md

echo_server is gRPC's C-core: one completion queue, one thread and one batch for the
reply. echo_bare is nghttp2 with one epoll, and looks at nothing. Their messages are as
long as those of Claim and Release. claim_server is the daemon's own
transport, services, control thread and pool, with sandboxes that are ready at once and
leases in memory. warmpool-load drives both by turns: all cells of a repetition before
the next, and the ratio within a repetition. Waking an idle core costs tens of
microseconds on a virtual machine, so serial cells are also run with both sides on one
core; under load the client looks for answers without sleeping. Ends with 1 when a check
of a load failed.
"""
import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

import loads

CORES = os.cpu_count() or 1
# Where, load: options of warmpool-load, whether both sides share a core.
SERIAL = ("1 in flight", ["-c", 1])
CELLS = [(SERIAL, True), (SERIAL, False)] + [
    ((f"{n} in flight", ["-c", n, "--spin"]), False) for n in (16, 64, 256)] + [
    (("10 000 claims/s, 4 connections",
      ["-r", 10000, "--connections", 4, "--max-in-flight", 1024]), False)]


class Server:
    def __init__(self, program, directory, name, *flags):
        self.unix = f"unix:{directory}/{name}"
        self.process = subprocess.Popen(
            [program, "--unix", f"{directory}/{name}", *map(str, flags)],
            stdout=subprocess.PIPE, text=True)
        self.tcp = None
        for line in self.process.stdout:
            if line.startswith("tcp "):
                self.tcp = line.split()[1]
            elif line.strip() == "ready":
                break
        else:
            raise RuntimeError(f"{name} did not start")
        for task in os.listdir(f"/proc/{self.process.pid}/task"):
            os.sched_setaffinity(int(task), {0})

    def stop(self):
        self.process.terminate()
        self.process.wait(30)


class Bench:
    def __init__(self, build, reps, seconds):
        self.build, self.reps, self.seconds = pathlib.Path(build), reps, seconds
        self.wrong = []
        self.rows = {}  # (transport, cell) to [(echo, bare, claim), ...]
        self.granted = 0
        self.sandboxes = 0

    def run(self, directory):
        claim = Server(self.build / "bench/claim_server", directory, "claim")
        probe = loads.phase(self.build, "bench", "-a", claim.unix, "-n", 100)
        sizes = ["--claim-reply", round(probe["claim_reply_bytes"]),
                 "--release-reply", 2]
        echo, bare = (Server(self.build / "bench" / name, directory, name, *sizes)
                      for name in ("echo_server", "echo_bare"))
        try:
            for rep in range(self.reps):
                for transport in ("Unix", "TCP"):
                    for number in range(len(CELLS)):
                        turn = [self.one(server, transport, number,
                                         server is not claim)
                                for server in (echo, bare, claim)]
                        self.rows.setdefault((transport, number), []).append(turn)
                print(f"repetition {rep + 1} of {self.reps}", file=sys.stderr)
        finally:
            for server in (claim, echo, bare):
                server.stop()

    def one(self, server, transport, number, is_echo):
        (_, words), shared = CELLS[number]
        only = loads.phase(
            self.build, *(["--echo"] if is_echo else ["bench"]), "-a",
            server.unix if transport == "Unix" else server.tcp, *words, "-d",
            f"{self.seconds * 1000:.0f}ms", "--warmup", "100ms", "--server-pid",
            server.process.pid, core=0 if shared else CORES - 1)
        self.wrong += only["wrong"]
        if not is_echo:
            self.granted += only["granted"]
        return only

    def print(self):
        print("Claim against C-core's echo, and against nghttp2's. Times in us.\n")
        print("| where | load | p50: echo, bare, claim | p99 | claim / echo, p50 "
              "| claim / bare, p50 | claims/s, claim / echo | claims/s, claim / bare "
              "| server CPU per call: echo, bare, claim | claim / echo | claim / bare "
              "| client CPU per call |")
        print("|---" * 12 + "|")
        for (transport, number), turns in self.rows.items():
            (load, _), shared = CELLS[number]
            sides = list(zip(*turns))

            def spread(values, digits=2):
                low, mid, high = min(values), statistics.median(values), max(values)
                return f"{mid:.{digits}f} ({low:.{digits}f}-{high:.{digits}f})"

            def each(value, digits):
                return ", ".join(
                    f"{statistics.median(map(value, side)):.{digits}f}"
                    for side in sides)

            def ratios(value):
                return " | ".join(spread([value(turn[2]) / value(turn[against])
                                          for turn in turns]) for against in (0, 1))

            def cpu(phase):
                return loads.cpu_us(phase, "server")

            print(f"| {transport}, {'one core' if shared else 'two cores'} | {load} | "
                  f"{each(lambda p: p['claim']['p50_ms'] * 1000, 1)} | "
                  f"{each(lambda p: p['claim']['p99_ms'] * 1000, 0)} | "
                  f"{ratios(lambda p: p['claim']['p50_ms'])} | "
                  f"{ratios(lambda p: p['granted_per_s'])} | "
                  f"{each(cpu, 2)} | {ratios(cpu)} | "
                  f"{statistics.median(loads.cpu_us(p, 'client') for p in sides[2]):.2f} |")
        print(f"\n{self.granted} claims were granted; load average "
              f"{os.getloadavg()[0]:.1f}.")
        for sentence in sorted(set(self.wrong)):
            print(f"\n**{sentence}**")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", nargs="?", default="build/release")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--reps", type=int)
    parser.add_argument("--seconds", type=float)
    args = parser.parse_args()
    bench = Bench(args.build, args.reps or (2 if args.quick else 5),
                  args.seconds or (0.2 if args.quick else 0.8))
    with tempfile.TemporaryDirectory(prefix="wpb-") as directory:
        bench.run(directory)
    bench.print()
    return 1 if bench.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
