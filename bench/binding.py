#!/usr/bin/env python3
"""bench/binding.py - what a claim costs that brings something, against a bare one.

    bench/binding.py [--pairs N] [--store STORE] [--repository MIB | --volume]
                     [BUILD_DIR]

The quickstart's pool of eight real sandboxes, all of them ready before each pair. A pair
is a bare claim and one that brings 20 variables, 3 secrets, 5 files of 4 KiB and an
identity, in either order; both are released. Timed over one connection on a Unix socket, from the
request's first byte to the answer's last. Needs root and bwrap; 300 pairs take half a
minute. With --repository a claim brings a Git repository of that size instead, a
thousand files, from a server on loopback; the cache has it before the first pair. With
--volume it brings a volume, which the first pair makes.
"""
import argparse
import os
import pathlib
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

from restart import PATIENCE, POOL, ROOT, Caller, field

def binding():
    def part(number, name, value):
        return field(number, field(1, name.encode()) + field(2, value))
    return b"".join(
        [part(1, f"NAME_{i}", b"value " * 4) for i in range(20)] +
        [part(2, f"SECRET_{i}", os.urandom(32).hex().encode()) for i in range(3)] +
        [part(3, f"dir/file-{i}", os.urandom(4096)) for i in range(5)] +
        [field(26, field(1, b"https://api.test"))])


def repository(directory, mib):
    """A server with one, and a binding that brings it."""
    sys.path.insert(0, str(ROOT / "tests/support/git"))
    import git_rig
    it = git_rig.Repository(str(directory), "app")
    size = mib * (1 << 20) // 1000
    it.commit(it.tree(*(("100644", "blob", it.blob(os.urandom(size)), f"file-{i}")
                        for i in range(1000))))
    server = git_rig.Server(str(directory))
    return server, field(20, field(1, f"{server.base}/app".encode()))


def token(answer):
    """Of the lease in a ClaimResponse."""
    def fields(message):
        at = 0
        while at < len(message):
            values = []
            for _ in range(2):
                value = shift = 0
                while True:
                    byte = message[at]
                    at += 1
                    value |= (byte & 127) << shift
                    shift += 7
                    if byte < 128:
                        break
                values.append(value)
            tag, value = values
            if tag & 7 == 2:
                yield tag >> 3, message[at:at + value]
                at += value
    lease = dict(fields(answer))[1]
    return dict(fields(lease))[5]


class World:
    def __init__(self, args, *flags):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="wpb-"))
        self.dir.chmod(0o755)
        build = pathlib.Path(args.build)
        with open(self.dir / "log", "wb") as log:
            self.daemon = subprocess.Popen(
                [build / "allocator/warmpoold",
                 f"--manifests={ROOT}/deploy/examples/quickstart.yaml",
                 f"--lease-store={args.store}", "--sandbox-limits=best_effort",
                 f"--init-path={build}/local/warmpool-init",
                 f"--runtime-path={build}/runtime/warmpool-runtime",
                 f"--runtime-dir={self.dir}/run", f"--state-dir={self.dir}/state",
                 *flags],
                stdout=log, stderr=log)

    def metrics(self):
        try:
            with socket.socket(socket.AF_UNIX) as sock:
                sock.settimeout(PATIENCE)
                sock.connect(str(self.dir / "run/warmpoold-http.sock"))
                sock.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n"
                             b"Connection: close\r\n\r\n")
                text = b""
                while more := sock.recv(65536):
                    text += more
                return text
        except OSError:
            return b""

    def wait_full(self):
        end = time.monotonic() + PATIENCE
        while b'pool="quickstart",state="ready"} 8' not in self.metrics():
            if time.monotonic() > end or self.daemon.poll() is not None:
                raise RuntimeError("gave up; the daemon's log ends:\n" +
                                   (self.dir / "log").read_text()[-2000:])
            time.sleep(0.002)

    def end(self):
        self.daemon.terminate()
        self.daemon.wait()
        shutil.rmtree(self.dir, ignore_errors=True)


def claim_us(caller, claim_id, brings):
    body = (field(1, field(2, POOL.encode())) + field(2, claim_id.encode()) +
            field(5, 30000) + (field(6, brings) if brings else b""))
    begun = time.monotonic_ns()
    answer = caller.call(b"Allocator/Claim", body)
    took = time.monotonic_ns() - begun
    if answer is None:
        raise RuntimeError("a claim was refused")
    if caller.call(b"Allocator/Release", field(1, token(answer))) is None:
        raise RuntimeError("a release was refused")
    return took / 1000


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("build", nargs="?", default=ROOT / "build/release")
    parser.add_argument("--pairs", type=int, default=300)
    parser.add_argument("--store", default="sqlite")
    parser.add_argument("--repository", type=int, metavar="MIB")
    parser.add_argument("--volume", action="store_true")
    args = parser.parse_args()
    served = tempfile.TemporaryDirectory(prefix="wpb-git-")
    brings, flags = binding(), []
    if args.repository:
        server, brings = repository(pathlib.Path(served.name), args.repository)
        flags = [f"--git-remotes={server.base}"]
    if args.volume:
        brings = field(21, field(1, b"data"))
        flags = [f"--volumes-dir={served.name}/volumes"]
    world = World(args, *flags)
    bare, bound = [], []
    try:
        world.wait_full()
        caller = Caller(world.dir / "run/warmpoold.sock")
        if args.repository:
            print(f"into the cache: {claim_us(caller, 'first', brings) / 1000:.0f} ms")
        for i in range(args.pairs):
            world.wait_full()
            for what in (0, 1) if i % 2 else (1, 0):
                (bare, bound)[what].append(
                    claim_us(caller, f"c{i}-{what}", brings if what else b""))
    finally:
        world.end()
        served.cleanup()
    more = [b - a for a, b in zip(bare, bound)]
    print(f"{args.pairs} pairs, {len(brings)} bytes, lease_store {args.store}, us\n")
    print("| claim | p50 | p90 | p99 |\n|---|---|---|---|")
    for title, values in (("bare", bare), ("with what it brings", bound),
                          ("difference within a pair", more)):
        cuts = statistics.quantiles(values, n=100)
        print(f"| {title} | {cuts[49]:.0f} | {cuts[89]:.0f} | {cuts[98]:.0f} |")


if __name__ == "__main__":
    main()
