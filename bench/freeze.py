#!/usr/bin/env python3
"""bench/freeze.py - how fast an idle sandbox freezes, and answers again.

    bench/freeze.py [--rounds N] [BUILD_DIR]

The quickstart's pool with freeze-after 100ms and one claim. A round waits until the
sandbox is frozen, then asks its /healthz over its own socket, which thaws it, and asks
once more while it is awake. Freezing is timed from the moment when the control group is
not thawed any more to the moment when the kernel says that all of it stands still.
Before the rounds the frozen sandbox is left alone for 10 s and its processor time is
read. Needs root, bwrap, and control groups of version 1 with the freezer.
"""
import argparse
import pathlib
import re
import shutil
import socket
import statistics
import subprocess
import tempfile
import time

from restart import PATIENCE, POOL, ROOT, Caller, field


class World:
    def __init__(self, build):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="wpb-"))
        self.dir.chmod(0o755)
        text = (ROOT / "deploy/examples/quickstart.yaml").read_text()
        mark = "    pool.warmpool.io/ttl-default"
        assert text.count(mark) == 1
        text = text.replace(mark, "    pool.warmpool.io/freeze-after: 100ms\n" + mark)
        (self.dir / "m.yaml").write_text(re.sub(r"replicas: \d+", "replicas: 1", text))
        with open(self.dir / "log", "wb") as log:
            self.daemon = subprocess.Popen(
                [build / "allocator/warmpoold", f"--manifests={self.dir}/m.yaml",
                 "--sandbox-limits=best_effort", f"--init-path={build}/local/warmpool-init",
                 f"--runtime-path={build}/runtime/warmpool-runtime",
                 f"--runtime-dir={self.dir}/run", f"--state-dir={self.dir}/state"],
                stdout=log, stderr=log)

    def claim(self):
        """The sandbox's name."""
        end = time.monotonic() + PATIENCE
        while True:
            try:
                answer = Caller(self.dir / "run/warmpoold.sock").call(
                    b"Allocator/Claim", field(1, field(2, POOL.encode())) +
                    field(2, b"c") + field(5, 30000))
                return re.search(rb"quickstart-[a-z0-9]{8}", answer).group().decode()
            except (OSError, TypeError):
                if time.monotonic() > end:
                    raise
                time.sleep(0.05)

    def end(self):
        self.daemon.terminate()
        self.daemon.wait()
        shutil.rmtree(self.dir, ignore_errors=True)


def ask_us(path):
    begun = time.monotonic_ns()
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(PATIENCE)
        sock.connect(path)
        sock.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        if not sock.recv(65536).startswith(b"HTTP/1.1 200"):
            raise RuntimeError("no answer")
        return (time.monotonic_ns() - begun) / 1000


def freeze_us(state):
    """Until it is frozen, from when it was not thawed any more."""
    while (now := state.read_text()) == "THAWED\n":
        time.sleep(0.0001)
    begun = time.monotonic_ns()
    while now != "FROZEN\n":
        time.sleep(0.0001)  # To ask takes the kernel's lock of all that freeze.
        now = state.read_text()
    return (time.monotonic_ns() - begun) / 1000


def ticks(group):
    total = 0
    for pid in (group / "cgroup.procs").read_text().split():
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("build", nargs="?", default=ROOT / "build/release")
    parser.add_argument("--rounds", type=int, default=300)
    args = parser.parse_args()
    world = World(pathlib.Path(args.build))
    frozen, thawed, awake = [], [], []
    try:
        name = world.claim()
        path = str(world.dir / f"state/sandboxes/{name}/port.sock")
        group = next(pathlib.Path("/sys/fs/cgroup/freezer").rglob(name))
        state = group / "freezer.state"
        freeze_us(state)
        before = ticks(group)
        time.sleep(10)
        used = ticks(group) - before
        for _ in range(args.rounds):
            thawed.append(ask_us(path))
            awake.append(ask_us(path))
            frozen.append(freeze_us(state))
    finally:
        world.end()
    print(f"{args.rounds} rounds; in 10 s frozen the sandbox used {used} ticks, us\n")
    print("| | p50 | p90 | p99 | at most |\n|---|---|---|---|---|")
    for title, values in (("frozen, from the order", frozen),
                          ("a request to a frozen one", thawed),
                          ("the same to one that is awake", awake)):
        cuts = statistics.quantiles(values, n=100)
        print(f"| {title} | {cuts[49]:.0f} | {cuts[89]:.0f} | {cuts[98]:.0f} | "
              f"{max(values):.0f} |")


if __name__ == "__main__":
    main()
