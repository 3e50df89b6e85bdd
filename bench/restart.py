#!/usr/bin/env python3
"""bench/restart.py - how long a killed daemon is missed, with real sandboxes.

    bench/restart.py [--store sqlite] [--kills N] [--held N] [--redis N] [--beside]
                     [--log FILE] [BUILD_DIR]

The quickstart's pool of eight, its leases in a Redis started here (a Unix socket,
appendonly yes, appendfsync everysec), or in SQLite. Some sandboxes are held. Then, again and again:
kill -9, a new start, and on a connection that is tried every millisecond

    GetClaim   of a lease that was held before: its first answer
    Claim      of another sandbox: granted, asked again while it is refused
    readyz     200

Each is measured from the start of the process (exec) and from the kill. All leases must
still be held in the end. --redis kills Redis instead and starts it 0.3 s later: measured
is how long claims are refused, from the kill and from Redis' first answer. --beside has a
second daemon share the leases. Needs root, bwrap and redis-server; 20 kills take half a
minute.
"""
import argparse
import os
import pathlib
import shutil
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
POOL = "quickstart"
PATIENCE = 60
DATA, HEADERS, SETTINGS, PING, WINDOW_UPDATE = 0, 1, 4, 6, 8
END_STREAM, END_HEADERS, ACK = 1, 4, 1
FRAME_MAX = 16384


def frame(kind, flags, stream, payload=b""):
    return (struct.pack(">I", len(payload))[1:] + bytes((kind, flags)) +
            struct.pack(">I", stream) + payload)


def head(path):
    def text(value):
        return bytes((len(value),)) + value
    fields = [(b":path", path), (b":authority", b"x"), (b"te", b"trailers"),
              (b"content-type", b"application/grpc")]
    return b"\x83\x86" + b"".join(b"\x00" + text(n) + text(v) for n, v in fields)


def varint(value):
    return bytes((value,)) if value < 128 else bytes(
        (value & 127 | 128,)) + varint(value >> 7)


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


class Caller:
    """One connection, one call at a time."""

    def __init__(self, path):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(PATIENCE)
        self.sock.connect(str(path))
        # The connection's window of answers is opened once, as wide as it can be.
        self.sock.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(SETTINGS, 0, 0) +
                          frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 0x7fffffff - 65535)))
        self.stream = 1

    def read(self, size):
        data = b""
        while len(data) < size:
            more = self.sock.recv(size - len(data))
            if not more:
                raise OSError("closed")
            data += more
        return data

    def call(self, method, body):
        """The answer's message; None: an error was answered."""
        stream, self.stream = self.stream, self.stream + 2
        message = struct.pack(">BI", 0, len(body)) + body
        pieces = [message[i:i + FRAME_MAX] for i in range(0, len(message), FRAME_MAX)]
        self.sock.sendall(
            frame(HEADERS, END_HEADERS, stream, head(b"/warmpool.v1." + method)) +
            b"".join(frame(DATA, END_STREAM if i + 1 == len(pieces) else 0, stream, piece)
                     for i, piece in enumerate(pieces)))
        answer = None
        while True:
            start = self.read(9)
            kind, flags = start[3], start[4]
            of = struct.unpack(">I", start[5:])[0]
            payload = self.read(int.from_bytes(start[:3], "big"))
            if kind == SETTINGS and not flags & ACK:
                self.sock.sendall(frame(SETTINGS, ACK, 0))
            elif kind == PING and not flags & ACK:
                self.sock.sendall(frame(PING, ACK, 0, payload))
            elif of == stream and kind == DATA and payload:
                answer = payload[5:]
            if of == stream and flags & END_STREAM and kind in (DATA, HEADERS):
                return answer

    def claim(self, claim_id, wait_ms=30000):
        return self.call(b"Allocator/Claim",
                         field(1, field(2, POOL.encode())) + field(2, claim_id.encode()) +
                         field(4, 3600000) + (field(5, wait_ms) if wait_ms else b""))

    def get(self, claim_id):
        return self.call(b"Allocator/GetClaim", field(1, claim_id.encode()))


class World:
    def __init__(self, args):
        self.args = args
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="wpb-"))
        self.dir.chmod(0o755)
        self.redis = self.daemon = self.beside = None

    def start_redis(self):
        self.redis = subprocess.Popen(
            ["redis-server", "--port", "0", "--unixsocket", self.dir / "redis.sock",
             "--dir", self.dir, "--appendonly", "yes", "--appendfsync", "everysec",
             "--save", ""], stdout=subprocess.DEVNULL)
        self.until(self.redis_answers)

    def redis_answers(self):
        try:
            with socket.socket(socket.AF_UNIX) as sock:
                sock.connect(str(self.dir / "redis.sock"))
                sock.sendall(b"PING\r\n")
                return sock.recv(16).startswith(b"+PONG")
        except OSError:
            return False

    def start(self, name="run"):
        """The daemon that is asked; another name: one beside it."""
        build = pathlib.Path(self.args.build)
        with open(self.args.log or self.dir / "log", "ab") as log:
            started = subprocess.Popen(
                [build / "allocator/warmpoold",
                 f"--manifests={ROOT}/deploy/examples/quickstart.yaml",
                 f"--lease-store={self.args.store}",
                 f"--redis-url=unix:{self.dir}/redis.sock",
                 f"--init-path={build}/local/warmpool-init",
                 f"--runtime-path={build}/runtime/warmpool-runtime",
                 "--sandbox-limits=best_effort", "--stop-leaves=nothing",
                 f"--runtime-dir={self.dir}/{name}", f"--state-dir={self.dir}/state"],
                stdout=log, stderr=log)
        if name == "run":
            self.daemon = started
        else:
            self.beside = started

    def until(self, is_so):
        end = time.monotonic() + PATIENCE
        while True:
            found = is_so()
            if found:
                return found
            if time.monotonic() > end or self.daemon and self.daemon.poll() is not None:
                raise RuntimeError("gave up; the daemon's log ends:\n" + pathlib.Path(
                    self.args.log or self.dir / "log").read_text()[-2000:])
            time.sleep(0.001)

    def caller(self):
        try:
            return Caller(self.dir / "run/warmpoold.sock")
        except OSError:
            return None

    def page(self, path):
        try:
            with socket.socket(socket.AF_UNIX) as sock:
                sock.settimeout(PATIENCE)
                sock.connect(str(self.dir / "run/warmpoold-http.sock"))
                sock.sendall(b"GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
                             % path)
                text = b""
                while more := sock.recv(65536):
                    text += more
                return text
        except OSError:
            return b""

    def is_ready(self):
        return self.page(b"/readyz").startswith(b"HTTP/1.1 200")

    def is_full(self):
        """Eight idle ones again, beside those that are held."""
        return b'pool="quickstart",state="ready"} 8' in self.page(b"/metrics")

    def kill(self, number, held):
        """One kill: times in ms, from the exec, of each first."""
        self.until(self.is_full)
        killed = time.monotonic()
        self.daemon.kill()
        self.daemon.wait()
        begun = time.monotonic()
        self.start()
        caller = self.until(self.caller)
        if caller.get(held[number % len(held)]) is None:
            raise RuntimeError("a lease was lost")
        answered = time.monotonic()
        self.until(lambda: caller.claim(f"new-{number}"))
        claimed = time.monotonic()
        self.until(self.is_ready)
        ready = time.monotonic()
        for claim_id in held:
            if caller.get(claim_id) is None:
                raise RuntimeError(f"the lease {claim_id} was lost")
        held.append(f"new-{number}")
        return {"killed": (begun - killed) * 1000, "GetClaim": (answered - begun) * 1000,
                "Claim": (claimed - begun) * 1000, "readyz": (ready - begun) * 1000}

    def kill_redis(self, number):
        """One kill of Redis: how long claims were refused, in ms."""
        self.until(self.is_full)
        caller = self.caller()
        self.redis.kill()
        self.redis.wait()
        killed = time.monotonic()
        self.until(lambda: caller.claim(f"out-{number}", 0) is None)
        time.sleep(max(0, killed + 0.3 - time.monotonic()))
        self.start_redis()
        back = time.monotonic()
        self.until(lambda: caller.claim(f"back-{number}", 0))
        return {"killed": (back - killed) * 1000,
                "Claim": (time.monotonic() - back) * 1000}

    def end(self):
        for process in (self.daemon, self.beside, self.redis):
            if process is not None and process.poll() is None:
                process.terminate()
                process.wait()
        shutil.rmtree(self.dir, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("build", nargs="?", default=ROOT / "build/release")
    parser.add_argument("--store", choices=("redis", "sqlite"), default="redis")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--held", type=int, default=4)
    parser.add_argument("--redis", type=int, default=0)
    parser.add_argument("--beside", action="store_true")
    parser.add_argument("--log", type=os.path.abspath)
    args = parser.parse_args()
    world = World(args)
    rows = []
    try:
        if args.store == "redis":
            world.start_redis()
        world.start()
        caller = world.until(world.caller)
        held = [f"held-{i}" for i in range(args.held)]
        for claim_id in held:
            world.until(lambda: caller.claim(claim_id))
        if args.beside:
            world.start("beside")
        for number in range(args.redis or args.kills):
            rows.append(world.kill_redis(number) if args.redis else
                        world.kill(number, held))
            print(" ".join(f"{k} {v:.0f}" for k, v in rows[-1].items()), file=sys.stderr)
    finally:
        world.end()
    print("| first | from | kills | median ms | most ms | over 300 ms |\n"
          "|---|---|---|---|---|---|")
    for name in [n for n in rows[0] if n != "killed"]:
        for since, more in (("Redis' answer" if args.redis else "exec", 0), ("kill", 1)):
            times = [row[name] + more * row["killed"] for row in rows]
            print(f"| {name} | {since} | {len(times)} | {statistics.median(times):.0f} | "
                  f"{max(times):.0f} | {sum(t > 300 for t in times)} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
