"""bench/cluster_table.py - every figure of a cluster in one run: cluster.py --table.

Parts run one after the other, each in a namespace and with a daemon of its own;
nothing is cleaned up between them, since what nobody keeps stands still. Each knows how
long it may take, and is left out, by name, when less than that is left of the run. A
part that fails says why in the table and does not keep the others from running. Beside
each row stands how much of the processors the host took away during its part.
"""
import os
import statistics
import sys
import tempfile
import time
import traceback

from stolen import Stolen


def plain(value):
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}"


def quantiles(result):
    return (f"p50 {plain(result['p50_ms'])} ms, p99 "
            f"{plain(result['p99_ms'])} ms")


def spread(results):
    """Over turns: the median of their p50, the least and most, the longest of all."""
    middle = [r["p50_ms"] for r in results]
    return (f"p50 {plain(statistics.median(middle))} ms ({plain(min(middle))} - "
            f"{plain(max(middle))}), the longest "
            f"{plain(max(r['max_ms'] for r in results))} ms")


class Table:
    def __init__(self, bench, seconds):
        self.bench = bench
        self.begun = time.monotonic()
        self.end = bench.deadline = self.begun + seconds
        self.rows = []
        self.stolen = Stolen()
        self.failed = False

    def left(self):
        return self.end - time.monotonic()

    def row(self, figure, measured, samples):
        """Also to the error output, as it comes."""
        load = os.getloadavg()[0]
        self.rows.append((figure, measured, str(samples), f"{load:.1f}"))
        print(f"[{time.monotonic() - self.begun:4.0f} s] {figure}: {measured} "
              f"({samples})", file=sys.stderr, flush=True)

    def pick(self, full, quick):
        return quick if self.bench.quick else full

    def load(self, count, **options):
        """Claims of the pool "p"; what failed or went cold is told."""
        result = self.bench.load("p", count=count, timeout_s=90, **options)
        wrong = [f"{result[what]} {what}" for what in
                 ("cold", "failed", "duplicates") if result[what]]
        if wrong:
            self.row("of the next figure's claims", ", ".join(wrong), count)
        return result

    def begin(self, name, size, **settings):
        self.bench.begin(name, watch_namespace=f"bench-{name}", **settings)
        self.bench.world.pool("p", size, wait=False)
        self.bench.quiet("p", size)

    # --- the parts ---

    def floor(self):
        """The writes of a claim alone beside ours, by turns, and how many there are.

        The machine may be half as fast a minute later: what is compared is
        measured within seconds, while the other stands still.
        """
        part, turns = self.pick(1, 0.3), self.pick(5, 1)
        loads = (("2 a second", {"count": int(10 * part), "rate": 2}),
                 ("one after the other", {"count": int(25 * part),
                                          "in_flight": 1}),
                 ("20 at a time", {"count": int(40 * part), "in_flight": 20}))
        # What the load hands out itself, in a namespace where no daemon is.
        stock = turns * sum(load["count"] for _, load in loads) + 10
        self.begin("bare", stock)
        self.bench.world.stop_daemons()
        size = self.pick(100, 30)
        self.begin("floor", size)
        pairs, written = {name: [] for name, _ in loads}, []
        for _ in range(turns):
            for name, load in loads:
                before = self.bench.written()
                ours = self.load(leave=True, **load)
                self.bench.quiet("p", size)
                written.append((self.bench.written(before), ours["ready"]))
                with self.bench.in_namespace("bench-bare"):
                    bare = self.load(leave=True, bare=True, **load)
                pairs[name].append((ours, bare))
        for name, both in pairs.items():
            self.row(f"create to Ready, {name}",
                     spread([ours for ours, _ in both]),
                     sum(ours["ready"] for ours, _ in both))
            self.row(f"the writes alone, {name}",
                     spread([bare for _, bare in both]),
                     sum(bare["ready"] for _, bare in both))
            ratios = [a["p50_ms"] / b["p50_ms"] for a, b in both]
            self.row(f"ours against the writes alone, {name}",
                     f"{statistics.median(ratios):.2f} times "
                     f"({min(ratios):.2f} - {max(ratios):.2f})",
                     f"{turns} turns")
        self.row("API writes for each, refill included",
                 f"{sum(n for n, _ in written) / sum(n for _, n in written):.1f}",
                 sum(n for _, n in written))

    def twenty(self):
        """20 at a time on a quiet pool."""
        size = self.pick(200, 40)
        self.begin("twenty", size)
        results, conflicts = [], 0
        for _ in range(self.pick(4, 2)):
            before = self.bench.requests()
            results.append(self.load(size, in_flight=20, keep=True))
            conflicts += sum(n - before.get(k, 0) for k, n in
                             self.bench.requests().items() if k[2] == "409")
            self.bench.quiet("p", size)
        claims = sum(r["ready"] for r in results)
        for name in ("p50_ms", "p99_ms", "per_second"):
            values = [r[name] for r in results]
            self.row(f"20 at a time, pool of {size}: {name.replace('_', ' ')}",
                     f"{plain(statistics.median(values))} "
                     f"({plain(min(values))} - {plain(max(values))})",
                     f"{claims} in {len(results)} runs")
        self.row("409 answers per 1,000 of them",
                 f"{1000 * conflicts / max(claims, 1):.1f}", claims)

    def ladder(self):
        """The highest steady rate without a cold start, and p99 at 60 % of it."""
        size, seconds = self.pick(300, 60), self.pick(12, 4)
        self.begin("ladder", size)
        best = None
        for rate in (10, 20, 30, 40, 50, 60, 80, 100):
            result = self.bench.load("p", count=rate * seconds, rate=rate,
                                     timeout_s=seconds + 60)
            if (result["cold"] or result["failed"]
                    or result["seconds"] > seconds * 1.1):
                break
            best = (rate, result)
            self.bench.quiet("p", size)
        if best is None:
            self.row(f"highest steady rate, pool of {size}", "below 10", 0)
            return
        self.row(f"highest steady rate, pool of {size}, {seconds} s each, none "
                 "cold", f"{best[0]} claims/s ({quantiles(best[1])}); "
                 f"{rate} was too many" if rate != best[0] else
                 f"{best[0]} claims/s or more", best[1]["ready"])
        self.bench.quiet("p", size)
        rate = round(best[0] * 0.6)
        result = self.load(rate * seconds * 2, rate=rate)
        self.row(f"at 60 % of it, {rate} a second", quantiles(result),
                 result["ready"])

    def burst(self):
        size = self.pick(300, 60)
        self.begin("burst", size)
        results = []
        for _ in range(self.pick(3, 1)):
            results.append(self.load(size, in_flight=size, keep=True))
            self.bench.quiet("p", size)
        for name, title in (("max_ms", "all Ready after"), ("p50_ms", "p50")):
            values = [r[name] / 1000 for r in results]
            self.row(f"{size} at once, pool of {size}: {title}",
                     f"{statistics.median(values):.2f} s ({min(values):.2f} - "
                     f"{max(values):.2f})", f"{size} in {len(results)} runs")

    def grpc(self):
        """Serial claims over gRPC, beside one machine's backend."""
        size = self.pick(1000, 100)
        self.begin("grpc", size)
        target = f"unix:{self.bench.daemon.dir}/warmpoold.sock"
        pool = f"{self.bench.world.namespace}/p"
        figures = {"a cluster": self.bench.drive(target, pool, size // 2)}
        self.bench.quiet("p", size)
        with self.bench.frozen():
            figures["a cluster that stands still"] = self.bench.drive(
                target, pool, size // 2)
        self.bench.world.stop_daemons()
        with tempfile.TemporaryDirectory() as state:
            figures["one machine"] = self.bench.local(state, size)
        local = figures["one machine"][0]
        for name, (p50, p99) in figures.items():
            self.row(f"gRPC Claim, serial, {name}",
                     f"p50 {p50:.1f} us, p99 {p99:.1f} us"
                     + (f"; {p50 / local:.2f} times one machine's p50"
                        if name != "one machine" else ""), size // 2)

    def scale(self):
        self.begin("scale", 0)
        count = self.pick(500, 60)
        made, ready, most = self.bench.scaled(count)
        self.row(f"scale 0 to {count}", f"created after {made:.1f} s, all Ready "
                 f"after {ready:.1f} s; never more than {most}", count)

    def size(self):
        """The pool's size makes no difference."""
        count, large = self.pick(150, 20), self.pick(2000, 150)
        small = self.pick(100, 30)
        self.begin("size", small)
        medians = {}
        for size in (small, large):
            self.bench.world.patch("SandboxWarmPool", "p",
                                   {"spec": {"replicas": size}})
            self.bench.quiet("p", size)
            result = self.load(count, in_flight=1, leave=True)
            medians[size] = result["p50_ms"]
            self.row(f"one after the other, pool of {size}", quantiles(result),
                     result["ready"])
        self.row(f"pool of {large} against {small}, serial p50",
                 f"{medians[large] / medians[small]:.2f} times", 2 * count)

    def memory(self):
        count = self.pick(10000, 500)
        self.begin("memory", 0, controllers="pool,claim")
        empty, watching, listed = self.bench.watched(count)
        self.row(f"memory with {count} sandboxes watched",
                 f"{watching:.0f} MiB as they came, {listed:.0f} MiB after a "
                 f"restart that listed them ({empty:.0f} MiB with none)", count)

    # --- the run ---

    # How long each takes on a quiet machine of two cores, and half as much again.
    PARTS = (("floor", 200), ("twenty", 100), ("ladder", 200), ("burst", 90),
             ("scale", 40), ("grpc", 90), ("size", 180), ("memory", 120))

    def run(self, names=()):
        for name, needs_s in self.PARTS:
            if names and name not in names:
                continue
            if self.left() < self.pick(needs_s, needs_s / 5):
                self.row(name, f"not run: {self.left():.0f} s are left of the "
                               f"time given, and it may need {needs_s}", 0)
                continue
            try:
                getattr(self, name)()
            except Exception as error:  # It must not take the others with it.
                traceback.print_exc()
                self.failed = True
                self.row(name, f"FAILED: {error}", 0)
            finally:
                self.bench.world.stop_daemons()
                self.note_stolen()
        self.print()

    def note_stolen(self):
        """For the rows of the part that has just ended."""
        share = f"{self.stolen.share():.1%}"
        self.rows = [row if len(row) == 5 else (*row, share)
                     for row in self.rows]

    def print(self):
        out = self.bench.say
        out("| figure | measured | samples | load | stolen |\n"
            "|---|---|---|---|---|")
        self.note_stolen()
        for row in self.rows:
            out("| " + " | ".join(row) + " |")
        out(f"\nDuplicates over all: {self.bench.bad}. The run took "
            f"{time.monotonic() - self.begun:.0f} s; load average over all "
            f"processes: {os.getloadavg()[0]:.1f} at its end. "
            f"{len(os.sched_getaffinity(0))} cores carry all of "
            "it.")
