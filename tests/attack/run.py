#!/usr/bin/python3
"""Attacks on warmpoold, with an honest client beside each.

  run.py --list
  run.py [--only NAME,...] [--kinds unix,tcp,tls,mtls,http-unix,http,https,trusting,
         metrics]
         [--seconds N] [--long] [--rate N] [--build DIRECTORY]
  run.py --group NAME       a few of them, as ctest runs them

Each attack runs against a daemon of its own, on synthetic sandboxes, on each kind
of listener that it is for. The attacker is niced and held to one processor. On TCP
it comes from another address than the honest client, on a Unix socket from another
user (which takes root).

The verdict: during the attack a new connection is served; no claim and no probe of the honest client failed, where it may try
again what the API calls retryable, for a minute; the daemon's memory stayed below
128 MiB and its log short; it is ready again, serves again, and has closed the attacker's descriptors.
--long adds the time: the p99 of the honest claims is at most 3 times that of the
quiet time before the attack. It is meant for a machine that does nothing else.
"""

import argparse
import os
import shutil
import sys
import tempfile
import time

import grpc_attacks
import http_attacks
import rig

ROOT = os.path.dirname(os.path.dirname(rig.HERE))
GRPC = ("unix", "tcp", "tls", "mtls")
HTTP = ("http-unix", "http", "https", "trusting", "metrics")
MEMORY_MIB = 128
LOG_LINES = 500  # An attacker may not fill a disk with what is said of him.
STOP_MIB = 1024  # The attack is over then, and has won.
P99_TIMES = 3
# Who does what honest clients do must not be cut off.
MAY_STAY = {"honest_cancels"}
# (attack, who runs it, the daemon's descriptors, kinds)
RUNS = [(a.__name__, "attacker", None, GRPC) for a in grpc_attacks.ALL]
RUNS += [(a.__name__, "attacker", None, HTTP) for a in http_attacks.ALL]
# Those whom the daemon refuses may not do more harm.
RUNS += [(name, "stranger", None, ("unix", "mtls"))
         for name in ("rapid_reset", "continuation", "hpack_varint",
                      "silent_connections", "churn_preface")]
RUNS += [(name, "attacker", 256, GRPC)
         for name in ("silent_connections", "unfinished_handshakes")]
RUNS += [("http_silent", "attacker", 256, HTTP)]
RUNS += [("unfinished_handshakes", "attacker", None, ("https",))]
RUNS += [(name, "stranger", None, ("trusting",))
         for name in ("http_silent", "http_pipelined", "http_churn_asking")]
# What ctest runs: (attack, who, descriptors, kind), for seconds each.
GROUPS = {
    "streams": (0.7, [
        ("rapid_reset", "attacker", None, "mtls"),
        ("rapid_reset", "attacker", None, "tcp"),
        ("rapid_reset_many", "stranger", None, "mtls"),
        ("made_reset", "attacker", None, "tls"),
        ("empty_data", "attacker", None, "tcp"),
        ("honest_cancels", "attacker", None, "mtls")]),
    "calls": (0.7, [
        ("claim_reset", "attacker", None, "tcp"),
        ("many_streams", "attacker", None, "unix"),
        ("many_streams", "attacker", None, "mtls"),
        ("watches", "attacker", None, "tls"),
        ("slow_reader", "attacker", None, "tcp")]),
    "headers": (0.5, [
        ("continuation", "attacker", None, "mtls"),
        ("continuation_empty", "attacker", None, "tcp"),
        ("hpack_varint", "attacker", None, "tcp"),
        ("hpack_bomb", "attacker", None, "tls"),
        ("settings_flood", "attacker", None, "tcp"),
        ("ping_flood", "attacker", None, "mtls")]),
    "connections": (1.0, [
        ("silent_connections", "attacker", None, "mtls"),
        ("silent_connections", "attacker", 256, "tls"),
        ("unfinished_handshakes", "attacker", None, "tls"),
        ("slowloris", "attacker", None, "tls"),
        ("churn_preface", "stranger", None, "mtls")]),
    "http": (1.0, [
        ("http_silent", "attacker", 256, "http-unix"),
        ("http_silent", "attacker", None, "metrics"),
        ("http_slow_head", "attacker", None, "http"),
        ("http_pipelined_unread", "attacker", None, "metrics"),
        ("http_endless_head", "attacker", None, "http-unix"),
        ("http_stalled_body", "attacker", None, "http")]),
    "https": (1.0, [
        ("http_silent", "attacker", 256, "https"),
        ("unfinished_handshakes", "attacker", None, "https"),
        ("http_pipelined_unread", "attacker", None, "https"),
        ("http_stalled_body", "attacker", None, "https"),
        ("http_silent", "attacker", None, "trusting"),
        ("http_churn_asking", "stranger", None, "trusting")]),
}


def name_of(run):
    attack, who, descriptors, _ = run
    return attack + ("/stranger" if who == "stranger" else "") + (
        f"/{descriptors}" if descriptors else "")


class Runner:
    def __init__(self, args):
        self.args = args
        self.dir = tempfile.mkdtemp(prefix="wp-attack-ca-")
        os.chmod(self.dir, 0o755)
        self.certificates = rig.Certificates(self.dir)
        self.worst = 0

    def clean(self):
        shutil.rmtree(self.dir)

    def one(self, run, kind, seconds):
        """One attack. Returns its row of the table and what was wrong."""
        attack, who, descriptors, _ = run
        wrong = []
        args = self.args
        daemon = rig.Daemon(args.warmpoold, kind, self.certificates,
                            descriptors)
        parts = []
        try:
            honest = rig.Honest(args.generated, daemon.target("honest"),
                                args.rate)
            parts.append(honest)
            honest.phase("begin")
            rig.eventually(lambda: honest.was_served("begin"),
                           "the honest client is served")
            if args.long:
                time.sleep(2)
                honest.phase("quiet")
                time.sleep(min(seconds, 15))
            before = daemon.descriptors()
            attacker = rig.Attacker(attack, seconds + 3 * rig.PATIENCE,
                                    daemon.target(who))
            parts.append(attacker)
            cpu, start = daemon.cpu_s(), time.monotonic()
            honest.phase("attack")
            end = time.monotonic() + seconds
            fds = daemon.watch(lambda: time.monotonic() > end, STOP_MIB)
            # It goes on until somebody new was served.
            honest.phase("held")
            end = time.monotonic() + rig.PATIENCE + 10
            daemon.watch(lambda: honest.was_served("held") or
                         time.monotonic() > end, STOP_MIB)
            if not honest.was_served("held"):
                wrong.append("nobody new is served during the attack")
            did = attacker.stop()
            honest.phase("after")
            took = time.monotonic() - start
            cpu = (daemon.cpu_s() - cpu) / took * 100
            rig.eventually(daemon.is_ready, "ready after the attack")
            figures = honest.stop()
            rig.eventually(lambda: daemon.descriptors() <= before + 2,
                           "descriptors are closed")
            wrong += self.judge(figures, daemon)
            if attack in MAY_STAY and (did["cut"] or did["opened"] != 1):
                wrong.append(f"it was cut off {did['cut']} times")
            if not any(did.values()):
                wrong.append("the attacker did nothing")
            row = self.row(run, kind, figures, daemon.peak_mib(), cpu, fds)
            if args.verbose:
                row += f"\n   {did}\n   {figures['phases']}"
        except AssertionError as error:
            wrong.append(str(error))
            row = f"{name_of(run):28} {kind:9} -"
        finally:
            for part in parts:
                part.kill()
            said = daemon.tail()
            if daemon.stop() != 0:
                wrong.append("the daemon did not end well")
            if wrong:
                print(said, file=sys.stderr)
        return row, wrong

    def judge(self, figures, daemon):
        """What is wrong with what the honest client saw."""
        wrong = []
        if figures["held_twice"]:
            wrong.append(f"held twice: {figures['held_twice'][:5]}")
        claims = 0
        for phase in figures["phases"].values():
            claims += phase["claims"]
            if phase["failed"] or phase["probes_failed"]:
                wrong.append(f"{phase['failed']} claims and "
                             f"{phase['probes_failed']} probes failed: " +
                             "; ".join(list(phase["why"])[:3]))
        if not claims:
            wrong.append("the honest client claimed nothing")
        lines = daemon.messages().count("\n")
        if lines > LOG_LINES:
            wrong.append(f"{lines} lines of log")
        if daemon.peak_mib() >= MEMORY_MIB:
            wrong.append(f"memory {daemon.peak_mib():.0f} MiB")
        if self.args.long and self.times(figures) > P99_TIMES:
            wrong.append("p99 is %.1f times the quiet one's" %
                         self.times(figures))
        return wrong

    @staticmethod
    def times(figures):
        """The p99 of claims under attack against the quiet one's."""
        quiet = figures["phases"].get("quiet", {}).get("p99_ms")
        hit = figures["phases"].get("attack", {}).get("p99_ms")
        return hit / quiet if quiet and hit else 0

    def row(self, run, kind, figures, mib, cpu, fds):
        hit = figures["phases"].get("attack", {})
        failed = sum(p["failed"] + p["probes_failed"]
                     for p in figures["phases"].values())
        return (f"{name_of(run):28} {kind:9} {hit.get('n_ms', 0):5} {failed:4} "
                f"{hit.get('p99_ms') or 0:6.0f} {self.times(figures):4.1f} "
                f"{mib:4.0f} {cpu:4.0f} {fds:5}")

    def run(self, runs, seconds):
        """[(run, kind)]; returns how many were not withstood."""
        print(f"{'attack':28} {'listener':9} {'ok':>5} {'fail':>4} "
              f"{'p99ms':>6} {'x':>4} {'MiB':>4} {'cpu%':>4} {'fds':>5}",
              flush=True)
        bad = 0
        for run, kind in runs:
            row, wrong = self.one(run, kind, seconds)
            print(row, flush=True)
            for line in wrong:
                print("   FAILED: " + line, flush=True)
            bad += bool(wrong)
        print(f"{len(runs) - bad} of {len(runs)} attacks withstood")
        return bad


def parse():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--kinds", default=",".join(GRPC + HTTP))
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--rate", type=float)
    parser.add_argument("--group", choices=GROUPS)
    parser.add_argument("--build", default=os.path.join(ROOT, "build/release"))
    args = parser.parse_args()
    args.warmpoold = os.path.join(args.build, "allocator/warmpoold")
    args.generated = os.path.join(args.build, "tests/python")
    args.rate = args.rate or (100 if not args.group else 50)
    return args


def chosen(args):
    if args.group:
        seconds, rows = GROUPS[args.group]
        return args.seconds or seconds, [(row, row[3]) for row in rows]
    only = set(filter(None, args.only.split(",")))
    unknown = only - {run[0] for run in RUNS}
    if unknown:
        sys.exit(f"no such attack: {', '.join(sorted(unknown))}; see --list")
    kinds = args.kinds.split(",")
    return args.seconds or (60 if args.long else 5), [
        (run, kind) for run in RUNS if not only or run[0] in only
        for kind in run[3] if kind in kinds]


def main():
    args = parse()
    if args.list:
        for attack in grpc_attacks.ALL + http_attacks.ALL:
            said = " ".join((attack.__doc__ or "").split())
            print(f"{attack.__name__:22} {said}"[:79])
        return 0
    if os.geteuid() != 0:
        print("SKIP: attackers on Unix sockets need a user of their own, which "
              "takes root")
    seconds, runs = chosen(args)
    runs = [(run, kind) for run, kind in runs
            if os.geteuid() == 0 or kind not in ("unix", "http-unix")]
    runner = Runner(args)
    try:
        return 1 if runner.run(runs, seconds) else 0
    finally:
        runner.clean()


if __name__ == "__main__":
    sys.exit(main())
