"""Many claims while things break: daemons killed, stopped, cut off.

  chaos.py WARMPOOLD CHAOS_CLIENT CHAOS_CHECK GENERATED_DIR
           [--store memory|sqlite|redis] [--replicas N] [--claims N]
           [--seconds N] [--clients N] [--workers N] [--seed N] [--keep]

Real daemons on synthetic sandboxes and one lease store, real clients over gRPC,
and a nemesis that breaks one thing after the other until so many claims were
made and so much time has passed. Then everything is made well again, what
remains is counted, and the clients' histories are judged. Prints figures; exits
with 0 when nothing was breached and nothing leaked.

The seed decides what the nemesis does and when; how the processes meet it is
the machine's.
"""

import argparse
import glob
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

EVENT = 64  # Bytes of a struct wp_chaos_event.
CLAIM_AT = 24  # Where in it the claim is.
TARGET = 200  # Ready sandboxes.
TTL_MAX = 10  # Seconds; of the clients' leases.
PATIENCE = 60

MANIFEST = """\
apiVersion: extensions.agents.x-k8s.io/v1beta1
kind: SandboxTemplate
metadata:
  name: nothing
spec:
  podTemplate:
    spec:
      containers:
        - name: nothing
          image: host
          command: ["true"]
          ports:
            - containerPort: 80
---
apiVersion: extensions.agents.x-k8s.io/v1beta1
kind: SandboxWarmPool
metadata:
  name: chaos
  annotations:
    pool.warmpool.io/create-inflight-max: "64"
spec:
  replicas: %d
  sandboxTemplateRef:
    name: nothing
"""


def eventually(check, what, patience=PATIENCE):
    """Polls until check() is true (its value is returned), or fails."""
    end = time.monotonic() + patience
    while time.monotonic() < end:
        value = check()
        if value:
            return value
        time.sleep(0.01)
    raise AssertionError("still not: " + what)


class Process:
    """A child that can be stopped, continued and killed, by its pid."""

    def __init__(self, name, args, log):
        self.name = name
        self.log = log
        with open(log, "ab") as out:
            self.child = subprocess.Popen(args, stdin=subprocess.DEVNULL,
                                          stdout=out, stderr=out)
        self.stopped = False

    def alive(self):
        return self.child.poll() is None

    def send(self, sig):
        if self.alive():
            self.child.send_signal(sig)

    def stop(self):
        self.send(signal.SIGSTOP)
        self.stopped = True

    def resume(self):
        self.send(signal.SIGCONT)
        self.stopped = False

    def kill(self):
        self.send(signal.SIGKILL)
        self.child.wait()

    def end(self, patience=PATIENCE):
        """SIGTERM; its exit status, or None when it had to be killed."""
        self.send(signal.SIGCONT)
        self.send(signal.SIGTERM)
        try:
            return self.child.wait(patience)
        except subprocess.TimeoutExpired:
            self.kill()
            return None

    def tail(self, lines=15):
        with open(self.log, encoding="utf-8", errors="replace") as handle:
            return "".join(handle.readlines()[-lines:])


class Daemon:
    """A replica: its process, when it has one, and how to ask it."""

    def __init__(self, run, number):
        self.run = run
        self.number = number
        self.dir = os.path.join(run.dir, f"r{number}")
        self.socket = os.path.join(self.dir, "warmpoold.sock")
        self.process = None
        self.channel = None

    def start(self):
        run = self.run
        self.process = Process(f"daemon {self.number}", [
            run.args.warmpoold, "--manifests=" + run.manifest,
            "--backend=synthetic", "--runtime-dir=" + self.dir,
            "--state-dir=" + run.state, "--slots-max=16384",
            "--http-listen=none", "--lease-store=" + run.args.store,
            *run.store_flags(self)], os.path.join(run.dir,
                                                  f"r{self.number}.log"))

    def pool(self, timeout=5):
        """What it says of the pool; None when it does not answer."""
        grpc, pb = self.run.grpc, self.run.pb
        if self.channel is None:
            self.channel = grpc.insecure_channel(
                "unix:" + self.socket,
                options=[("grpc.use_local_subchannel_pool", 1),
                         ("grpc.initial_reconnect_backoff_ms", 50),
                         ("grpc.max_reconnect_backoff_ms", 200)])
        call = self.channel.unary_unary(
            "/warmpool.v1.PoolAdmin/GetPool",
            request_serializer=lambda m: m.SerializeToString(),
            response_deserializer=pb.Pool.FromString)
        try:
            return call(pb.GetPoolRequest(pool=pb.PoolRef(name="chaos")),
                        timeout=timeout)
        except grpc.RpcError:
            return None

    def serves(self):
        if not self.process.alive():
            raise AssertionError(f"{self.process.name} ended by itself:\n" +
                                 self.process.tail())
        return self.pool(1) is not None


class Run:
    def __init__(self, args):
        self.args = args
        self.random = random.Random(args.seed)
        base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        self.dir = tempfile.mkdtemp(prefix="wpc-", dir=base)
        self.state = os.path.join(self.dir, "s")
        self.marks = os.path.join(self.dir, "marks")
        self.manifest = os.path.join(self.dir, "m.yaml")
        for path in (self.state, self.marks):
            os.mkdir(path)
        with open(self.manifest, "w", encoding="utf-8") as handle:
            handle.write(MANIFEST % TARGET)
        with open(os.path.join(self.dir, "key"), "w",
                  encoding="utf-8") as handle:
            os.fchmod(handle.fileno(), 0o600)
            handle.write("%064x" % 42)
        sys.path.insert(0, args.generated)
        import grpc
        from warmpool.v1 import allocator_pb2
        self.grpc, self.pb = grpc, allocator_pb2
        self.daemons = [Daemon(self, i) for i in range(args.replicas)]
        self.clients = []
        self.n_clients = 0
        self.faults = {}

    def store_flags(self, _daemon):
        return ["--token-key-file=" + os.path.join(self.dir, "key")]

    # --- Clients ---

    def start_client(self):
        self.n_clients += 1
        self.clients.append(Process(f"client {self.n_clients}", [
            self.args.client,
            "--history=" + os.path.join(self.dir, f"h{self.n_clients}"),
            "--marks=" + self.marks, f"--number={self.n_clients}",
            f"--workers={self.args.workers}",
            f"--seed={self.random.getrandbits(32)}",
            *("unix:" + d.socket for d in self.daemons)],
            os.path.join(self.dir, f"c{self.n_clients}.log")))

    def claims(self):
        """About how many there were: what each history ends with."""
        total = 0
        for path in glob.glob(os.path.join(self.dir, "h[0-9]*")):
            size = os.path.getsize(path) // EVENT * EVENT
            if size > 0:
                with open(path, "rb") as handle:
                    handle.seek(size - EVENT + CLAIM_AT)
                    claim, = struct.unpack("<Q", handle.read(8))
                total += claim & ((1 << 40) - 1)
        return total

    # --- Faults: each is harmless to what was promised. ---

    def fault_stop_daemon(self):
        daemon = self.random.choice(self.daemons)
        daemon.process.stop()
        self.pause(self.random.choice((0.1, 0.3, 1, 2.5, 6)))
        daemon.process.resume()

    def fault_kill_daemon(self):
        daemon = self.random.choice(self.daemons)
        daemon.process.kill()
        self.pause(self.random.choice((0, 0.05, 0.5, 2)))
        daemon.start()

    def fault_kill_all_daemons(self):
        for daemon in self.daemons:
            daemon.process.kill()
        for daemon in self.daemons:
            daemon.start()

    def fault_restart_daemon(self):
        daemon = self.random.choice(self.daemons)
        if daemon.process.end() is None:
            raise AssertionError("a daemon did not leave:\n" +
                                 daemon.process.tail())
        daemon.start()

    def fault_kill_client(self):
        client = self.random.choice(self.clients)
        client.kill()
        self.clients.remove(client)
        self.start_client()

    def faults_of_store(self):
        kinds = [self.fault_stop_daemon, self.fault_kill_client]
        if self.args.store != "memory":
            kinds += [self.fault_kill_daemon] * 2 + [self.fault_restart_daemon]
            if self.args.replicas > 1:
                kinds.append(self.fault_kill_all_daemons)
        return kinds

    def pause(self, seconds):
        time.sleep(seconds)

    def watch(self):
        for process in self.clients + [d.process for d in self.daemons]:
            if not process.alive():
                raise AssertionError(
                    f"{process.name} ended by itself with "
                    f"{process.child.returncode}:\n" + process.tail())

    def nemesis(self):
        kinds = self.faults_of_store()
        start = time.monotonic()
        while True:
            self.pause(self.random.uniform(0.2, 2))
            self.watch()
            elapsed = time.monotonic() - start
            if (elapsed >= self.args.seconds and
                    self.claims() >= self.args.claims):
                return elapsed
            if elapsed > self.args.seconds + 600 + self.args.claims / 100:
                raise AssertionError(
                    f"only {self.claims()} claims in {elapsed:.0f} s")
            kind = self.random.choice(kinds)
            name = kind.__name__[len("fault_"):]
            self.faults[name] = self.faults.get(name, 0) + 1
            if self.args.verbose:
                print(f"{elapsed:7.2f} {name} claims={self.claims()}",
                      flush=True)
            kind()

    # --- The end ---

    def quiet(self):
        """Nothing leased, nothing on its way, the pool full; everywhere."""
        self.seen = []
        for daemon in self.daemons:
            pool = daemon.pool()
            if pool is None:
                self.seen.append(None)
                continue
            self.seen.append(
                {name: getattr(pool, name) for name in
                 ("ready", "warming", "leased", "quarantined", "dying",
                  "waiting")})
        files = len(os.listdir(os.path.join(self.state, "synthetic")))
        self.seen.append(files)
        return files == TARGET and all(
            s is not None and s["ready"] == TARGET and
            sum(s.values()) == TARGET for s in self.seen[:-1])

    def check(self):
        histories = sorted(glob.glob(os.path.join(self.dir, "h[0-9]*")))
        done = subprocess.run([self.args.check, *histories],
                              capture_output=True, text=True, check=False)
        print(done.stdout, end="")
        print(done.stderr, end="", file=sys.stderr)
        figures = dict(line.rsplit(" ", 1) for line in done.stdout.splitlines()
                       if not line.startswith("BREACH"))
        if done.returncode != 0:
            raise AssertionError("promises were broken")
        if int(figures["granted"]) < self.args.claims * 0.8:
            raise AssertionError("too few claims to prove anything")

    def go(self):
        for daemon in self.daemons:
            daemon.start()
        for daemon in self.daemons:
            eventually(daemon.serves, f"daemon {daemon.number} serves")
        for _ in range(self.args.clients):
            self.start_client()
        elapsed = self.nemesis()
        for client in self.clients:
            if client.end() != 0:
                raise AssertionError("a client failed:\n" + client.tail())
        faults = sum(self.faults.values())
        print(f"store {self.args.store}, {self.args.replicas} daemons, "
              f"{self.n_clients} client processes, {elapsed:.0f} s")
        print(f"faults {faults}: " + ", ".join(
            f"{n} {k}" for k, n in sorted(self.faults.items())))
        start = time.monotonic()
        self.seen = None
        try:
            eventually(self.quiet, "quiet", TTL_MAX + PATIENCE)
        finally:
            print(f"quiet after {time.monotonic() - start:.1f} s: {self.seen}")
        self.check()
        for daemon in self.daemons:
            if daemon.process.end() != 0:
                raise AssertionError("a daemon left badly:\n" +
                                     daemon.process.tail())

    def clean(self):
        for process in self.clients + [d.process for d in self.daemons]:
            if process is not None and process.alive():
                process.kill()
        if self.args.keep:
            print("kept:", self.dir)
        else:
            shutil.rmtree(self.dir)


def main():
    parser = argparse.ArgumentParser()
    for name in ("warmpoold", "client", "check", "generated"):
        parser.add_argument(name, type=os.path.abspath)
    parser.add_argument("--store", default="memory")
    parser.add_argument("--replicas", type=int, default=1)
    parser.add_argument("--claims", type=int, default=100000)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--clients", type=int, default=2)
    parser.add_argument("--workers", type=int, default=96)
    parser.add_argument("--seed", type=int,
                        default=random.SystemRandom().getrandbits(32))
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--verbose", action="store_true")
    args = parser.parse_args()
    print("seed", args.seed, flush=True)
    run = Run(args)
    try:
        run.go()
    except BaseException:
        for daemon in run.daemons:
            if daemon.process is not None:
                print(daemon.process.tail(), file=sys.stderr)
        raise
    finally:
        run.clean()


if __name__ == "__main__":
    main()
