#!/usr/bin/env python3
"""bench/cluster.py - what SandboxClaims cost on a real control plane.

    bench/cluster.py [--quick] [--only NAME,...] [--no-fsync] [--upstream]
                     [BUILD_DIR] >report.md
    bench/cluster.py --table [--minutes N] [--quick] [--only NAME,...]
                     [--no-fsync] [BUILD_DIR] >table.md
    bench/cluster.py --beside [--turns N] [--no-fsync] [BUILD_DIR] >beside.txt

etcd (with fsync), kube-apiserver, controller manager, scheduler and KWOK on this
machine, built as for the end-to-end tests; warmpoold with all four controllers; the
client is warmpool-load. --upstream puts agent-sandbox's own controllers in the
daemon's place (serial, parallel, writes, burst, ladder, scale). `floor` sets the
writes of a claim alone beside ours. --table measures every figure once, in so many
minutes (14) and no more, and prints one table. --beside has two control planes, ours
and theirs, and one warmpool-load that claims from both by turns (5). Everything shares the machine's cores, so the writes that
the API server counts say more than the times. Ends with 1 when a sandbox was given out
twice or a claim failed, with 77 when no control plane can be had.
"""
import argparse
import contextlib
import http.client
import json
import os
import pathlib
import queue
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "e2e"))

import cluster as control_plane  # noqa: E402
import cluster_beside  # noqa: E402
import cluster_table  # noqa: E402
import loads  # noqa: E402
import world as scenario  # noqa: E402

WRITES = ("POST", "PUT", "PATCH", "APPLY", "DELETE")


class Bench:
    def __init__(self, world, build, quick, upstream):
        self.world = world
        self.upstream = upstream  # Its program, or None.
        self.build = pathlib.Path(build)
        self.quick = quick
        self.bad = 0
        self.daemon = None
        self.other = None
        self.deadline = float("inf")  # Of the whole run.

    def say(self, text=""):
        print(text, flush=True)

    # --- set-up ---

    def begin(self, name, **settings):
        """A namespace and a daemon of its own."""
        world = self.world
        world.namespace = world.make_namespace(f"bench-{name}")
        settings.setdefault("slots_max", 16384)
        settings.setdefault("leader_elect", "true")
        self.begin_here(**settings)

    def begin_here(self, **settings):
        """The same in the world's namespace as it is."""
        world = self.world
        world.template()
        if self.upstream is None:
            self.daemon = world.daemon(**settings)
            return
        with open(world.dir / "upstream.log", "ab") as log:
            self.other = subprocess.Popen(
                [self.upstream, "--extensions", "--leader-elect=false",
                 "--metrics-bind-address=0",
                 "--health-probe-bind-address=127.0.0.1:0"], stdout=log,
                stderr=log, env={**os.environ, "KUBECONFIG": str(
                    world.cluster.kubeconfig)}, start_new_session=True)

    def end(self):
        """Pools first, so that nothing is made anew; sandboxes of gRPC leases last."""
        world = self.world
        for kind in ("SandboxWarmPool", "SandboxClaim", "Sandbox"):
            world.cluster.delete(scenario.path_of(kind, world.namespace))
        control_plane.wait_for("sandboxes gone", lambda: not world.list(
            "Sandbox"), timeout_s=180, every_s=0.5)
        control_plane.wait_for("pods gone", lambda: not world.list("Pod"),
                               timeout_s=180, every_s=0.5)
        world.stop_daemons()
        self.stop_other()
        world.cluster.kubectl("delete", "namespace", world.namespace,
                              "--wait=false")

    def stop_other(self):
        if self.other is not None:
            self.other.terminate()
            self.other.wait(30)
            self.other = None

    @contextlib.contextmanager
    def in_namespace(self, name):
        """Loads go there; the daemon stays where it is."""
        here, self.world.namespace = self.world.namespace, name
        try:
            yield
        finally:
            self.world.namespace = here

    def quiet(self, pool, replicas):
        """Until the pool is full, and then until nothing is written any more."""
        left = self.deadline - time.monotonic()
        self.world.wait_pool(pool, replicas, min(300, left), exact=False)
        before = -1
        end = time.monotonic() + min(120, left)
        while before != (now := self.written()) and time.monotonic() < end:
            before = now
            time.sleep(1)

    def load(self, pool, bare=False, timeout_s=120, **options):
        """One load of SandboxClaims. bare: by the writes alone, see claim_floor."""
        words = [f"{self.world.namespace}/{pool}", "--kubeconfig",
                 self.world.cluster.kubeconfig, "--timeout", f"{timeout_s}s",
                 "--min-granted", 0, "--min-samples", 0, *(["--blind"] if bare else [])]
        for key, value in options.items():
            words.append({"count": "-n", "in_flight": "-c", "rate": "-r"}.get(
                key, "--" + key))
            if value is not True:
                words.append(value)
        with self.floor_server() if bare else contextlib.nullcontext():
            only = loads.phase(self.build, *words)
        self.bad += only["duplicates"]
        if only["failed"]:
            self.say(f"\n{only['failed']} claims failed: {only['failed_by_code']}")
        for sentence in only["wrong"]:
            self.say(f"\n{sentence}")
        times = {f"{name}_ms": only["claim"][f"{name}_ms"]
                 for name in ("p50", "p90", "p99", "max")}
        return {"ready": only["granted"], "per_second": only["granted_per_s"],
                "seconds": only["elapsed_s"], **times, **{
                    k: only[k] for k in ("cold", "failed", "duplicates")}}

    @contextlib.contextmanager
    def floor_server(self):
        floor = subprocess.Popen(
            [self.build / "bench/claim_floor", "--kubeconfig",
             self.world.cluster.kubeconfig, "--namespace", self.world.namespace],
            stdout=subprocess.PIPE, text=True)
        try:
            if floor.stdout.readline().strip() != "ready":
                raise RuntimeError("claim_floor did not start")
            yield
        finally:
            floor.terminate()
            floor.wait(30)

    # --- the API server's own counts ---

    def requests(self):
        """{(verb, resource/subresource, code): count}"""
        counts = {}
        for key, value in self.world.cluster.metrics(
                "apiserver_request_total").items():
            labels = dict(re.findall(r'(\w+)="([^"]*)"', key))
            resource = labels["resource"]
            if labels.get("subresource"):
                resource += "/" + labels["subresource"]
            at = (labels["verb"], resource, labels["code"])
            counts[at] = counts.get(at, 0) + value
        return counts

    def written(self, before=None):
        """Writes so far; leases are left out: they go on by the clock."""
        counts = self.requests()
        return sum(n for (verb, resource, _), n in counts.items()
                   if verb in WRITES and resource != "leases") - (before or 0)

    def rows(self, result, name):
        self.say(f"| {name} | {result['ready']} | {result['p50_ms']:.1f} | "
                 f"{result['p90_ms']:.1f} | {result['p99_ms']:.1f} | "
                 f"{result['max_ms']:.1f} | {result['per_second']:.1f} | "
                 f"{result['cold']} | {result['failed']} | "
                 f"{result['duplicates']} |")

    def head(self, title):
        self.say(f"\n## {title}\n")
        self.say("| load | Ready | p50 ms | p90 ms | p99 ms | max ms | claims/s "
                 "| cold | failed | duplicates |")
        self.say("|---|---|---|---|---|---|---|---|---|---|")

    # --- the measurements ---

    def serial(self):
        """Create to Ready, one after the other, in small and large pools."""
        self.head("Warm claims: create to Ready, by arrival of the watch event")
        count = 40 if self.quick else 200
        medians = {}
        for size in (100, 400 if self.quick else 2000):
            self.begin(f"serial-{size}")
            self.world.pool("p", size, wait=False)
            self.quiet("p", size)
            result = self.load("p", count=count, in_flight=1)
            self.rows(result, f"one after the other, pool of {size}")
            self.quiet("p", size)
            result = self.load("p", count=count // 4, rate=2)
            self.rows(result, f"2 a second, pool of {size}")
            medians[size] = result["p50_ms"]
            self.end()
        small, large = sorted(medians)
        self.say(f"\nPool of {large} against {small}, serial p50: "
                 f"{medians[large] / medians[small]:.2f} times.")

    def parallel(self):
        """20 at a time on a quiet pool of 200, with what the API server saw."""
        self.head("20 at a time, pool of 200")
        self.begin("parallel")
        self.world.pool("p", 200, wait=False)
        conflicts = claims = 0
        for _ in range(2 if self.quick else 5):
            self.quiet("p", 200)
            before = self.requests()
            result = self.load("p", count=200, in_flight=20, keep=True)
            after = self.requests()
            conflicts += sum(n - before.get(k, 0) for k, n in after.items()
                             if k[2] == "409")
            claims += result["ready"]
            self.rows(result, "20 at a time, kept")
        self.say(f"\n409 answers: {conflicts:.0f} for {claims} claims "
                 f"({1000 * conflicts / max(claims, 1):.1f} per 1,000).")
        self.end()

    def floor(self):
        """The same claims served by the least that can: their writes alone."""
        self.head("Beside the writes alone (claim_floor)")
        part = 1 if self.quick else 3
        loads = (("2 a second", {"count": 20 * part, "rate": 2}),
                 ("one after the other", {"count": 30 * part, "in_flight": 1}),
                 ("20 at a time", {"count": 50 * part, "in_flight": 20}))
        size = 110 * part
        self.begin("floor")
        self.world.pool("p", size, wait=False)
        ours = []
        for name, load in loads:
            self.quiet("p", size)
            ours.append(self.load("p", leave=True, **load))
            self.rows(ours[-1], name)
        # With nobody else at work; what is warm is handed out by the load.
        self.quiet("p", size)
        self.world.stop_daemons()
        bare = []
        for name, load in loads:
            bare.append(self.load("p", leave=True, bare=True, **load))
            self.rows(bare[-1], f"{name}, bare")
        self.say("\nOurs against bare, p50: " + ", ".join(
            f"{name} {a['p50_ms'] / b['p50_ms']:.2f} times"
            for (name, _), a, b in zip(loads, ours, bare)) + ".")
        self.end()

    def writes(self):
        """API writes for one warm claim, refill included."""
        self.say("\n## API writes per warm claim, refill included\n")
        self.begin("writes")
        self.world.pool("p", 50, wait=False)
        self.quiet("p", 50)
        before = self.requests()
        count = 40 if self.quick else 100
        result = self.load("p", count=count, rate=5, leave=True,
                           timeout_s=300)
        self.quiet("p", 50)
        after = self.requests()
        self.say("| verb | resource | per claim |\n|---|---|---|")
        total = 0
        deltas = {}
        for (verb, resource, _), n in after.items():
            if verb in WRITES and resource != "leases":
                deltas[(verb, resource)] = deltas.get((verb, resource), 0) + n
        for (verb, resource, _), n in before.items():
            if verb in WRITES and resource != "leases":
                deltas[(verb, resource)] -= n
        for (verb, resource), n in sorted(deltas.items(), key=lambda x: -x[1]):
            # Less is the end of an earlier namespace.
            if n >= result["ready"] / 10:
                per = n / result["ready"]
                total += per
                self.say(f"| {verb} | {resource} | {per:.2f} |")
        self.say(f"| | all | {total:.2f} |")
        self.end()

    def burst(self):
        """300 claims at once on a pool of 300."""
        self.head("300 claims at once, pool of 300")
        self.begin("burst")
        self.world.pool("p", 300, wait=False)
        for _ in range(1 if self.quick else 3):
            self.quiet("p", 300)
            result = self.load("p", count=300, in_flight=300, keep=True)
            self.rows(result, "300 at once")
        self.end()

    def ladder(self):
        """The highest steady rate without a cold start."""
        self.head("Open loop, pool of 300, claims deleted when Ready")
        self.begin("ladder")
        self.world.pool("p", 300, wait=False)
        seconds = 8 if self.quick else 20
        best = 0
        for rate in (10, 20, 30, 40, 50, 60, 80, 100):
            self.quiet("p", 300)
            result = self.load("p", count=rate * seconds, rate=rate,
                               timeout_s=seconds + 60)
            self.rows(result, f"{rate} a second")
            kept_up = (result["cold"] == 0 and result["failed"] == 0
                       and result["seconds"] < seconds * 1.1)
            if not kept_up:
                break
            best = rate
        if best:
            self.quiet("p", 300)
            rate = round(best * 0.6)
            self.rows(self.load("p", count=rate * seconds, rate=rate,
                                timeout_s=seconds + 60),
                      f"60 % of {best}: {rate} a second")
        self.end()

    def scale(self):
        """0 to 500 with pods that are ready at once."""
        self.say("\n## Scale from 0 to 500\n")
        self.begin("scale")
        self.world.pool("p", 0, wait=False)
        self.world.wait_pool("p", 0)
        made, ready, most = self.scaled(500)
        self.say(f"500 sandboxes created after {made:.1f} s, all Ready after "
                 f"{ready:.1f} s ({500 / ready:.0f} a second); never more than "
                 f"{most} at once.")
        self.end()

    def scaled(self, count):
        """The pool "p" from 0: seconds until so many were created, and Ready,
        and the most there were."""
        watch = self.world.watch("Sandbox")
        alive, most, done = set(), 0, threading.Event()

        def follow():
            nonlocal most
            while not done.is_set():
                try:
                    _, kind, item = watch.events.get(timeout=0.2)
                except queue.Empty:
                    continue
                name = item["metadata"]["name"]
                (alive.discard if kind == "DELETED" else alive.add)(name)
                most = max(most, len(alive))
        thread = threading.Thread(target=follow)
        thread.start()
        start = time.monotonic()
        try:
            self.world.patch("SandboxWarmPool", "p",
                             {"spec": {"replicas": count}})
            made = control_plane.wait_for("the sandboxes", lambda: len(
                alive) >= count and time.monotonic(), timeout_s=120)
            self.world.wait_pool("p", count, timeout_s=300)
            ready = time.monotonic()
        finally:
            done.set()
            thread.join()
            watch.close()
        self.bad += most > count
        return made - start, ready - start, most

    def grpc(self):
        """gRPC Claim on the cluster against the same daemon without one."""
        self.say("\n## gRPC Claim, serial, leases in memory\n")
        size = 200 if self.quick else 1000
        self.begin("grpc")
        self.world.pool("p", size, wait=False)
        self.quiet("p", size)
        self.say("| backend | p50 us | p99 us |\n|---|---|---|")
        figures = {}
        target = f"unix:{self.daemon.dir}/warmpoold.sock"
        pool = f"{self.world.namespace}/p"
        figures["cluster"] = self.drive(target, pool, size // 2)
        self.quiet("p", size)
        # The same while the API server and all around it stand still: what is
        # left is the daemon's own.
        with self.frozen():
            figures["cluster, standing still"] = self.drive(target, pool,
                                                            size // 2)
        self.end()
        with tempfile.TemporaryDirectory() as state:
            figures["local"] = self.local(state, size)
        for name, (p50, p99) in figures.items():
            self.say(f"| {name} | {p50:.1f} | {p99:.1f} |")
        local = figures["local"][0]
        self.say(f"\n{figures['cluster'][0] / local:.2f} times the p50 of one "
                 "machine's backend; with the cluster standing still "
                 f"{figures['cluster, standing still'][0] / local:.2f} times.")

    @contextlib.contextmanager
    def frozen(self):
        """For less than a lease of the leader's lasts."""
        processes = self.world.cluster.processes.values()
        for process in processes:
            process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            for process in processes:
                process.send_signal(signal.SIGCONT)

    def drive(self, target, pool, claims):
        took = loads.phase(self.build, pool, "-a", target, "-n", claims,
                           "--leave")["claim"]
        return took["p50_ms"] * 1000, took["p99_ms"] * 1000

    def local(self, state, size):
        manifest = pathlib.Path(state) / "pool.yaml"
        manifest.write_text(
            "apiVersion: extensions.agents.x-k8s.io/v1beta1\n"
            "kind: SandboxTemplate\nmetadata: {name: t}\nspec:\n"
            "  podTemplate: {spec: {containers: [{name: c, image: host, "
            'command: ["true"], ports: [{containerPort: 80}]}]}}\n---\n'
            "apiVersion: extensions.agents.x-k8s.io/v1beta1\n"
            "kind: SandboxWarmPool\nmetadata: {name: p}\n"
            f"spec: {{replicas: {size}, sandboxTemplateRef: {{name: t}}}}\n",
            encoding="ascii")
        daemon = subprocess.Popen([
            self.build / "allocator/warmpoold", f"--manifests={manifest}",
            "--synthetic", "--synthetic-ready=0",
            "--lease-store=memory", f"--runtime-dir={state}/run",
            f"--state-dir={state}/state"], stderr=subprocess.DEVNULL)
        try:
            control_plane.wait_for("the daemon's socket", pathlib.Path(
                f"{state}/run/warmpoold.sock").exists, timeout_s=60)
            time.sleep(3)  # Its pool fills.
            return self.drive(f"unix:{state}/run/warmpoold.sock", "default/p",
                              size // 2)
        finally:
            daemon.terminate()
            daemon.wait()

    def memory(self):
        """Resident memory with 10,000 sandboxes watched."""
        count = 1000 if self.quick else 10000
        self.say(f"\n## Memory with {count} sandboxes watched\n")
        self.begin("memory", controllers="pool,claim")
        self.world.pool("p", 0, wait=False)
        self.world.wait_pool("p", 0)
        empty, watching, listed = self.watched(count)
        self.say(f"Empty: {empty:.0f} MiB. After {count} came by the watch: "
                 f"{watching:.0f} MiB. After a restart, which lists them: "
                 f"{listed:.0f} MiB.")
        # So many at once take longer than one request may.
        path = scenario.path_of("Sandbox", self.world.namespace)
        control_plane.wait_for(
            "sandboxes gone", lambda: self.world.cluster.delete(path) and
            not self.world.list("Sandbox"), timeout_s=900, every_s=1)
        self.end()

    def watched(self, count):
        """Resident MiB without sandboxes, with so many that came by the watch,
        and after a restart that listed them."""
        empty = self.resident()
        body = {"podTemplate": {"spec": {"containers": [{
            "name": "main", "image": "registry.invalid/python:3.12",
            "command": ["python3", "-m", "server"],
            "ports": [{"containerPort": 8888}],
            "env": [{"name": f"SETTING_{i}", "value": "x" * 40}
                    for i in range(10)],
            "resources": {"limits": {"cpu": "1", "memory": "1Gi"}},
            "readinessProbe": {"httpGet": {"path": "/", "port": 8888}}}]}}}
        threads = []

        def make(part):
            connection = http.client.HTTPSConnection(
                "127.0.0.1", self.world.cluster.port,
                context=self.world.cluster.context())
            for i in range(part, count, 4):
                connection.request(
                    "POST", scenario.path_of("Sandbox", self.world.namespace),
                    json.dumps({"apiVersion": "agents.x-k8s.io/v1beta1",
                                "kind": "Sandbox",
                                "metadata": {"name": f"s-{i}"},
                                "spec": body}),
                    {"Authorization": "Bearer "
                     + self.world.cluster.tokens["admin"],
                     "Content-Type": "application/json"})
                connection.getresponse().read()
        for part in range(4):
            threads.append(threading.Thread(target=make, args=(part,)))
            threads[-1].start()
        for thread in threads:
            thread.join()
        time.sleep(3)
        watching = self.resident()
        self.daemon.restart()
        self.world.wait_pool("p", 0)
        time.sleep(5)
        return empty, watching, self.resident()

    def resident(self):
        status = pathlib.Path(
            f"/proc/{self.daemon.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status).group(1)) / 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--no-fsync", action="store_true")
    parser.add_argument("--upstream", action="store_true")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--minutes", type=float, default=14)
    parser.add_argument("--beside", action="store_true")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("build", nargs="?", default=str(ROOT / "build/release"))
    options = parser.parse_args()
    if options.table and options.upstream:
        parser.error("--table has no upstream")
    begun = time.monotonic()
    names = [n for n in options.only.split(",") if n] or [
        "serial", "parallel", "writes", "burst", "ladder", "scale"] + (
            [] if options.upstream else ["floor", "grpc", "memory"])
    os.environ["WARMPOOL_BUILD"] = options.build
    with tempfile.TemporaryDirectory(prefix="warmpool-bench-") as directory:
        try:
            if options.beside:
                return 1 if cluster_beside.run(
                    lambda place, cluster, upstream: Bench(
                        scenario.World(place, cluster), options.build,
                        options.quick, upstream),
                    directory, options.turns, not options.no_fsync) else 0
            with control_plane.Cluster(
                    directory, fsync=not options.no_fsync) as cluster:
                upstream = None
                if options.upstream:
                    upstream = control_plane.programs(
                        "upstream") / "agent-sandbox-controller"
                bench = Bench(scenario.World(directory, cluster),
                              options.build, options.quick,
                              upstream)
                if options.table:
                    # What begins and ends a control plane takes its part.
                    table = cluster_table.Table(
                        bench, options.minutes * 60 - 20
                        - (time.monotonic() - begun))
                    table.run(options.only.split(",") if options.only else ())
                    return 1 if bench.bad or table.failed else 0
                for name in names:
                    print(f"{name} ({time.monotonic():.0f})", file=sys.stderr)
                    getattr(bench, name)()
                bench.say(f"\nDuplicates over all: {bench.bad}. Load average "
                          f"at the end: {os.getloadavg()[0]:.1f}.")
        except control_plane.Unavailable:
            return 77
    return 1 if bench.bad else 0


if __name__ == "__main__":
    sys.exit(main())
