"""Many claims while things break: daemons killed, stopped, cut off.

  chaos.py WARMPOOLD CHAOS_CLIENT CHAOS_CHECK GENERATED_DIR
           [--store memory|sqlite|redis|sentinel] [--replicas N] [--claims N]
           [--seconds N] [--failovers N] [--clients N] [--workers N] [--seed N]
           [--pace N] [--hostile N] [--look-back PERCENT] [--at-once] [--keep]
           [--verbose]

Real daemons on synthetic sandboxes and one lease store, real clients over gRPC,
and a nemesis that breaks things, one every --pace seconds, until so many claims
were made, so much time has passed, and sentinels have failed over so often. Then
everything is made well again, what remains is counted, and the clients' histories
are judged. Prints figures; exits with 0 when nothing was breached and nothing
leaked.

--hostile runs so many attackers of tests/attack all the while, against the daemons'
mutual-TLS listeners and, as root, against their Unix sockets as another user.
--look-back has clients ask for so many of a hundred ids once more, seconds after
they were done with them. --at-once stops all daemons in one moment at the end, and
judges what is left by what they say. These are for runs by hand.

The seed decides what the nemesis does and when; how the processes meet it is
the machine's.
"""

import argparse
import contextlib
import glob
import os
import random
import re
import shutil
import signal
import socket
import sqlite3
import struct
import subprocess
import sys
import tempfile
import threading
import time

EVENT = 64  # Bytes of a struct wp_chaos_event.
ENDED, LEFT = 6, 7  # Kinds of them; of ENDED, what was said.
SAID_NOTHING, SAID_WHAT = 16, 32
CLAIM_AT = 24  # Where in it the claim is.
TARGET = 200  # Ready sandboxes.
TTL_MAX = 10  # Seconds; of the clients' leases.
PATIENCE = 180
# Hostile clients: where they come from, and what they may make of a daemon. It has
# clients by the hundred beside them, and more slots than a default one.
ATTACK_KIT = os.path.join(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))), "attack")
MEMORY_MIB = 512

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


def event_of_end(what, at_ns, said):
    """A struct wp_chaos_event of the end of the run."""
    return struct.pack("<qqqQQ16s5B3x", at_ns, 0, 0, 0, 0, b"", what, 0, 0,
                       said, 0)


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

    def messages(self, since=0):
        with open(self.log, encoding="utf-8", errors="replace") as handle:
            handle.seek(since)
            return handle.read()

    def tail(self, lines=15):
        return "".join(self.messages().splitlines(True)[-lines:])


class Daemon:
    """A replica: its process, when it has one, and how to ask it."""

    def __init__(self, run, number):
        self.run = run
        self.number = number
        self.dir = os.path.join(run.dir, f"r{number}")
        self.socket = os.path.join(self.dir, "warmpoold.sock")
        self.log = os.path.join(run.dir, f"r{number}.log")
        self.log_from = 0  # Where what its process says begins.
        self.process = None
        self.channel = None

    def start(self):
        run = self.run
        if self.process is not None:
            self.log_from = os.path.getsize(self.log)
        self.process = Process(f"daemon {self.number}", [
            run.args.warmpoold, "--manifests=" + run.manifest,
            "--synthetic", "--runtime-dir=" + self.dir,
            "--state-dir=" + run.state, "--slots-max=16384",
            "--http-listen=none", "--lease-store=" + (
                "redis" if run.redis is not None else run.args.store),
            *run.store_flags(self), *run.hostile_flags(self)], self.log)

    def tls_port(self):
        """Where its process listens for mutual TLS; None: it does not yet."""
        found = re.search(r"listening protocol=grpc address=127\.0\.0\.1:(\d+)",
                          self.process.messages(self.log_from))
        return found and int(found[1])

    def memory_mib(self):
        """Its process' resident memory; 0 when it has none."""
        try:
            with open(f"/proc/{self.process.child.pid}/status",
                      encoding="ascii") as handle:
                return max(int(line.split()[1]) for line in handle
                           if line.startswith("VmRSS")) // 1024
        except (OSError, ValueError):
            return 0

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

    def claims(self):
        """The leases it takes for live; to tell of when there should be
        none."""
        pb = self.run.pb
        call = self.channel.unary_unary(
            "/warmpool.v1.Allocator/ListClaims",
            request_serializer=lambda m: m.SerializeToString(),
            response_deserializer=pb.ListClaimsResponse.FromString)
        try:
            return list(call(pb.ListClaimsRequest(page_size=20),
                             timeout=5).claims)
        except self.run.grpc.RpcError:
            return []

    def serves(self):
        if not self.process.alive():
            raise AssertionError(f"{self.process.name} ended by itself:\n" +
                                 self.process.tail())
        return self.pool(1) is not None

    def recoveries(self):
        """How many its process has been through; None while one goes on."""
        said = self.process.messages(self.log_from)
        told = said.count("Redis has been restored")
        return told if told == said.count("Redis may have forgotten") else None


def redis_cli(*args):
    """What it prints; None when the server does not answer."""
    try:
        done = subprocess.run(["redis-cli", *args], capture_output=True,
                              text=True, timeout=10, check=False)
    except subprocess.TimeoutExpired:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def free_port():
    """Below those that connections are given: nobody gets it while its server is
    down."""
    with open("/proc/sys/net/ipv4/ip_local_port_range",
              encoding="ascii") as handle:
        ceiling = int(handle.read().split()[0])
    while True:
        port = random.SystemRandom().randrange(ceiling // 2, ceiling)
        with socket.socket() as sock:
            try:
                sock.bind(("127.0.0.1", port))
                return str(port)
            except OSError:
                continue


class Redis:
    """A server that loses nothing it has acknowledged."""

    def __init__(self, directory):
        self.dir = os.path.join(directory, "redis")
        os.mkdir(self.dir)
        self.socket = os.path.join(self.dir, "redis.sock")
        self.url = "unix:" + self.socket
        self.process = None

    def processes(self):
        return [self.process]

    def start(self):
        self.process = Process("redis-server", [
            "redis-server", "--port", "0", "--unixsocket", self.socket,
            "--dir", self.dir, "--appendonly", "yes", "--appendfsync",
            "always", "--save", ""], os.path.join(self.dir, "log"))
        eventually(lambda: self.ask("PING") == "PONG", "Redis answers")

    def ask(self, *command):
        return redis_cli("-s", self.socket, *command)

    def records(self):
        """How many records of which state, and how many claims."""
        counts = {}
        for key in self.ask("--scan").split():
            if not key.endswith("}"):
                continue
            lines = self.ask("--no-raw", "HGETALL", key).splitlines()
            fields = [line.split('"', 1)[1] for line in lines]
            for field, value in zip(fields[::2], fields[1::2]):
                if field[0] == "r":
                    name = {"1": "open", "2": "held", "3": "lost",
                            "4": "ended"}[value[1]]
                    counts[name] = counts.get(name, 0) + 1
                elif field[0] == "c":
                    counts["claims"] = counts.get("claims", 0) + 1
        return counts


class Sentinels(Redis):
    """A master, its replica, and three sentinels that watch them. A failover
    may lose what the master had acknowledged and not yet passed on: the daemons
    know it, as long as they live. Servers are only taken for dead while one is
    meant to be: else a busy machine would choose the times."""

    NEVER_MS = 600000
    DOWN_MS = 500
    LOSS = 20000  # Bytes of acknowledged writes.
    # As in tests/support/stores/redis_rig.c, which says why.
    TUNING = ("INFO-PERIOD", "300", "PING-PERIOD", "250", "ASK-PERIOD", "100",
              "PUBLISH-PERIOD", "1000", "TILT-TRIGGER", "60000",
              "TILT-PERIOD", "1000", "ELECTION-TIMEOUT", "2000")

    def __init__(self, directory):
        super().__init__(directory)
        ports = set()
        while len(ports) < 5:
            ports.add(free_port())
        ports = sorted(ports)
        self.ports, self.sentinels = ports[:2], ports[2:]
        self.servers = {}
        self.lost = []  # By each failover that was to lose writes: bytes.
        self.url = "redis+sentinel://" + ",".join(
            "127.0.0.1:" + p for p in self.sentinels) + "/chaos"

    def processes(self):
        return list(self.servers.values())

    def start_server(self, port, *more):
        path = os.path.join(self.dir, port)
        os.makedirs(path, exist_ok=True)
        self.servers[port] = Process("redis " + port, [
            "redis-server", "--port", port, "--bind", "127.0.0.1", "--dir",
            path, "--save", "", "--repl-diskless-sync-delay", "0", *more],
            os.path.join(path, "log"))
        eventually(lambda: redis_cli("-p", port, "PING") == "PONG",
                   "Redis answers at " + port)

    def start_sentinel(self, port, master):
        conf = os.path.join(self.dir, port + ".conf")
        with open(conf, "w", encoding="utf-8") as handle:
            handle.write(
                f"port {port}\nbind 127.0.0.1\ndir {self.dir}\n"
                f"sentinel monitor chaos 127.0.0.1 {master} 2\n"
                f"sentinel down-after-milliseconds chaos {self.NEVER_MS}\n"
                "sentinel failover-timeout chaos 3000\n")
        self.servers[port] = Process(
            "sentinel " + port, ["redis-server", conf, "--sentinel"],
            os.path.join(self.dir, port + ".log"))
        eventually(lambda: redis_cli("-p", port, "SENTINEL", "DEBUG",
                                     *self.TUNING) == "OK", "a sentinel")

    def start(self):
        first, second = self.ports
        self.start_server(first)
        self.start_server(second, "--replicaof", "127.0.0.1", first)
        for port in self.sentinels:
            self.start_sentinel(port, first)
        for port in self.sentinels:
            eventually(lambda p=port: "num-other-sentinels\n2\n" in (
                redis_cli("-p", p, "SENTINEL", "MASTER", "chaos") or ""),
                "the sentinels know each other")
            eventually(lambda p=port: second in (
                redis_cli("-p", p, "SENTINEL", "REPLICAS", "chaos") or ""),
                "the sentinels know the replica")
        self.settled()

    def names(self, sentinel):
        """The master that it names, or None."""
        answer = redis_cli("-p", sentinel, "SENTINEL",
                           "get-master-addr-by-name", "chaos")
        return answer.split()[1] if answer else None

    def named(self):
        """The masters that sentinels name."""
        return {self.names(port) for port in self.sentinels} - {None}

    def replication(self, port):
        """What a server says of its part in it."""
        return dict(line.split(":", 1) for line in (
            redis_cli("-p", port, "INFO", "replication") or "").splitlines()
            if ":" in line)

    def master(self):
        """The one that all sentinels name, or None."""
        named = self.named()
        return named.pop() if len(named) == 1 else None

    def settled(self):
        """Waits until all agree who is the master, which is one, and the other
        is in step with it. Returns both."""
        def agreed():
            master = self.master()
            if master is None:
                return None
            other, = (p for p in self.ports if p != master)
            replica = self.replication(other)
            return (self.replication(master).get("role") == "master" and
                    replica.get("master_port") == master and
                    replica.get("master_link_status") == "up" and
                    (master, other))
        return eventually(agreed, "a master and its replica in step")

    def judge_down_after(self, milliseconds):
        for port in self.sentinels:
            eventually(lambda p=port: redis_cli(
                "-p", p, "SENTINEL", "SET", "chaos",
                "down-after-milliseconds", str(milliseconds)) == "OK",
                "a sentinel")

    def await_promotion(self, new):
        self.judge_down_after(self.DOWN_MS)
        eventually(lambda: self.master() == new and self.replication(
            new).get("role") == "master", "a failover")
        self.judge_down_after(self.NEVER_MS)

    def kill_master(self):
        """It dies; the other takes its place, and it comes back as a replica."""
        old, new = self.settled()
        self.servers[old].kill()
        self.await_promotion(new)
        self.start_server(old, "--replicaof", "127.0.0.1", new)

    def lose_writes(self):
        """It dies with acknowledged writes that the other never gets."""
        old, new = self.settled()
        self.servers[new].stop()
        self.ask_at(old, "CLIENT", "KILL", "TYPE", "replica")
        cut = self.offset(old)
        eventually(lambda: self.offset(old) >= cut + self.LOSS, "writes")
        self.lost.append(self.offset(old) - cut)
        self.servers[old].kill()
        self.servers[new].resume()
        eventually(lambda: self.ask_at(new, "PING") == "PONG", "the other")
        self.await_promotion(new)
        self.start_server(old, "--replicaof", "127.0.0.1", new)

    def stop_master(self):
        """It stands still, and goes on when another one has its place, taking
        itself for the master until a sentinel tells it."""
        old, new = self.settled()
        self.servers[old].stop()
        self.judge_down_after(self.DOWN_MS)
        eventually(lambda: new in self.named(), "a failover")
        self.servers[old].resume()
        self.await_promotion(new)

    def change_master(self):
        """A sentinel is asked to. It gives up on a replica that does not answer
        for a while, as on a busy machine, and is then asked again."""
        old, new = self.settled()

        def changed():
            if self.names(self.sentinels[0]) == old:
                self.ask_at(self.sentinels[0], "SENTINEL", "FAILOVER", "chaos")
            return self.master() == new
        eventually(changed, "a failover")

    def ask_at(self, port, *command):
        return redis_cli("-p", port, *command)

    def offset(self, port):
        return int(self.replication(port).get("master_repl_offset", 0))

    def ask(self, *command):
        return self.ask_at(self.settled()[0], *command)


def name_of(plan):
    return plan.__name__[len("plan_"):].replace("_", " ")


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
        self.hit = {}  # What a fault is at, by id.
        self.failovers = 0
        self.threads = []
        self.failure = None
        self.attacks = {}
        self.over = threading.Event()
        self.hostile = [threading.Thread(target=self.attack_on, args=(i,))
                        for i in range(args.hostile)]
        if self.hostile:
            sys.path.insert(0, ATTACK_KIT)
            import rig
            self.kit = rig
            os.chmod(self.dir, 0o755)
            self.certificates = rig.Certificates(self.dir)
        self.redis = {"redis": Redis, "sentinel": Sentinels}.get(
            args.store, lambda _: None)(self.dir)

    def store_flags(self, daemon):
        flags = ["--token-key-file=" + os.path.join(self.dir, "key")]
        if self.redis is not None:
            flags += ["--redis-url=" + self.redis.url,
                      f"--replica-name=r{daemon.number}"]
        if self.args.store == "sentinel":
            # What a busy machine does not answer for a while is not lost, and
            # who is stopped here comes back within that time.
            flags += ["--redis-timeout=5s", "--heartbeat-timeout=10s"]
        return flags

    # --- Hostile clients ---

    def hostile_flags(self, daemon):
        if not self.hostile:
            return []
        path = self.certificates.path
        return [f"--listen=unix:{daemon.socket},127.0.0.1:0",
                "--tls-cert=" + path("server.pem"),
                "--tls-key=" + path("server.key"),
                "--tls-client-ca=" + path("ca.pem"),
                f"--allowed-uids={self.kit.NEIGHBOUR}",
                "--identities=attacker.example.org=team-b,"
                f"uid:{self.kit.NEIGHBOUR}=team-c"]

    def attack_on(self, number):
        """One attacker after another, until all is over."""
        import grpc_attacks
        draw = random.Random(self.args.seed * 100 + number)
        while not self.over.is_set() and self.failure is None:
            attack = draw.choice(grpc_attacks.ALL).__name__
            daemon = draw.choice(self.daemons)
            who = draw.choice(("attacker", "stranger"))
            seconds = draw.uniform(0.5, 6)
            unix = draw.random() < 0.3 and os.geteuid() == 0
            port = None if unix else daemon.tls_port()
            if not unix and port is None:
                self.over.wait(0.1)
                continue
            target = {"kind": "unix", "address": daemon.socket} if unix else {
                "kind": "mtls", "address": ["127.0.0.1", port],
                "ca": self.certificates.path("ca.pem"),
                "cert": self.certificates.path(who + ".pem"),
                "key": self.certificates.path(who + ".key")}
            target.update(pool="chaos", source=self.kit.ATTACKER_ADDRESS, uid=(
                self.kit.STRANGER if who == "stranger" else self.kit.NEIGHBOUR))
            try:
                self.attack_once(attack, seconds, target)
            except BaseException as error:
                self.failure = error

    def attack_once(self, attack, seconds, target):
        attacker = self.kit.Attacker(attack, seconds, target)
        try:
            while attacker.process.poll() is None and not self.over.wait(0.05):
                for daemon in self.daemons:
                    if daemon.memory_mib() > MEMORY_MIB:
                        raise AssertionError(
                            f"{attack} on {target['kind']}: daemon "
                            f"{daemon.number} has {daemon.memory_mib()} MiB")
            attacker.stop()
            self.attacks[attack] = self.attacks.get(attack, 0) + 1
        finally:
            attacker.kill()

    def end_attacks(self):
        self.over.set()
        for thread in self.hostile:
            if thread.ident is not None:
                thread.join()

    # --- Clients ---

    def start_client(self):
        self.n_clients += 1
        self.clients.append(Process(f"client {self.n_clients}", [
            self.args.client,
            "--history=" + os.path.join(self.dir, f"h{self.n_clients}"),
            "--marks=" + self.marks, f"--number={self.n_clients}",
            f"--workers={self.args.workers}",
            f"--seed={self.random.getrandbits(32)}",
            f"--look-back={self.args.look_back}",
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

    # --- Faults: each is harmless to what was promised. A plan is what is
    # hit, and what to do; it is drawn here, and done in a thread. ---

    def plan_stop_daemon(self):
        daemon = self.random.choice(self.daemons)
        seconds = self.random.choice((0.1, 0.3, 1, 2.5, 6))

        def act():
            daemon.process.stop()
            time.sleep(seconds)
            daemon.process.resume()
        return daemon, act

    def plan_kill_daemon(self):
        daemon = self.random.choice(self.daemons)
        seconds = self.random.choice((0, 0.05, 0.5, 2))

        def act():
            daemon.process.kill()
            time.sleep(seconds)
            daemon.start()
        return daemon, act

    def plan_kill_stopped_daemon(self):
        """One that others took for dead dies in fact."""
        daemon = self.random.choice(self.daemons)
        seconds = self.random.choice((0.5, 4))

        def act():
            daemon.process.stop()
            time.sleep(seconds)
            daemon.process.kill()
            daemon.start()
        return daemon, act

    def plan_restart_daemon(self):
        daemon = self.random.choice(self.daemons)

        def act():
            # One that has only just been started may not know the signal yet,
            # or still ask Redis whose the sandboxes are, or have ended since
            # Redis was away; and without Redis none can give up what is idle.
            last_words = {1: "leaving everything as it is",
                          2: "takes up or sweeps what is left"}
            if (daemon.process.end() not in (0, -signal.SIGTERM) and
                    not self.could_not_begin(daemon.process) and
                    not any(words in daemon.process.tail(n)
                            for n, words in last_words.items())):
                raise AssertionError("a daemon left badly:\n" +
                                     daemon.process.tail())
            daemon.start()
        return daemon, act

    def plan_kill_all_daemons(self):
        def act():
            for daemon in self.daemons:
                daemon.process.kill()
            for daemon in self.daemons:
                daemon.start()
        return self, act

    def plan_kill_client(self):
        def act():
            victim = self.clients.pop(0)
            victim.kill()
            self.start_client()
        return self.clients, act

    def plan_stop_redis(self):
        seconds = self.random.choice((0.1, 0.5, 1.5, 4))

        def act():
            self.redis.process.stop()
            time.sleep(seconds)
            self.redis.process.resume()
        return self.redis, act

    def plan_kill_redis(self):
        seconds = self.random.choice((0, 0.2, 2))

        def act():
            self.redis.process.kill()
            time.sleep(seconds)
            self.redis.start()
        return self.redis, act

    def plan_restart_redis(self):
        def act():
            self.redis.process.end()
            self.redis.start()
        return self.redis, act

    def plan_cut_redis(self):
        kind = self.random.choice(("normal", "pubsub"))

        def act():
            self.redis.ask("CLIENT", "KILL", "TYPE", kind)
        return self.redis, act

    def fail_over(self, change):
        """One fault at a time: that Redis loses writes while the daemons that
        know of them end, or stand still, is what nobody promises."""
        def trusts(daemon):
            if not daemon.process.alive():
                self.start_again(daemon)
            return daemon.pool(1) and daemon.recoveries() is not None
        for daemon in self.daemons:
            eventually(lambda d=daemon: trusts(d), "it trusts its Redis")
        before = [d.recoveries() for d in self.daemons]
        old, new = self.redis.settled()
        change()
        if self.redis.settled() != (new, old):
            raise AssertionError("the sentinels went back by themselves")
        for daemon, n in zip(self.daemons, before):
            eventually(lambda d=daemon, n=n: (d.recoveries() or 0) > n,
                       f"daemon {daemon.number} has told the new master")
        self.failovers += 1

    def plan_kill_master(self):
        return self, lambda: self.fail_over(self.redis.kill_master)

    def plan_lose_writes(self):
        return self, lambda: self.fail_over(self.redis.lose_writes)

    def plan_stop_master(self):
        return self, lambda: self.fail_over(self.redis.stop_master)

    def plan_change_master(self):
        return self, lambda: self.fail_over(self.redis.change_master)

    def plans_sentinel(self):
        """More than half of them failovers, each kind as often as the others. No
        daemon ends: one that has just begun is not known to all others yet, and
        they may open a pool without it."""
        kinds = [self.plan_kill_master, self.plan_lose_writes,
                 self.plan_stop_master, self.plan_change_master]
        times = [self.faults.get(name_of(kind), 0) for kind in kinds]
        others = [self.plan_kill_client, self.plan_cut_redis,
                  self.plan_stop_daemon]
        return others + [self.random.choice(
            [k for k, n in zip(kinds, times) if n == min(times)])] * 6

    def plans(self):
        if self.args.store == "sentinel":
            return self.plans_sentinel()
        plans = [self.plan_stop_daemon, self.plan_kill_client]
        if self.args.store != "memory":
            plans += [self.plan_kill_daemon] * 2 + [
                self.plan_restart_daemon, self.plan_kill_stopped_daemon]
        if self.args.replicas > 1:
            plans += [self.plan_stop_daemon, self.plan_kill_all_daemons]
        if self.redis is not None:
            plans += [self.plan_stop_redis, self.plan_kill_redis,
                      self.plan_restart_redis, self.plan_cut_redis]
        return plans

    def watch(self):
        """Nothing ends but by the nemesis' hand."""
        for process in list(self.clients):
            if not process.alive() and process in self.clients:
                raise AssertionError(
                    f"{process.name} ended by itself with "
                    f"{process.child.returncode}:\n" + process.tail())
        for daemon in self.daemons:
            process = daemon.process
            if not (process.alive() or id(daemon) in self.hit or
                    id(self) in self.hit or process is not daemon.process):
                self.start_again(daemon)

    @staticmethod
    def could_not_begin(process):
        return process.child.returncode == 1 and (
            "reading the lease store" in process.tail(2))

    def start_again(self, daemon):
        """It cannot begin without Redis; who runs it tries again."""
        process = daemon.process
        if not self.could_not_begin(process):
            raise AssertionError(
                f"{process.name} ended by itself with "
                f"{process.child.returncode}:\n" + process.tail())
        self.faults["start without redis"] = 1 + self.faults.get(
            "start without redis", 0)
        daemon.start()

    def strike(self, elapsed):
        """One more fault, unless two are under way or the drawn one meets
        another."""
        plan = self.random.choice(self.plans())
        target, act = plan()
        name = name_of(plan)
        whole = target is self
        if len(self.hit) >= 2 or id(target) in self.hit or (
                id(self) in self.hit) or (whole and self.hit):
            return
        self.hit[id(target)] = target
        self.faults[name] = self.faults.get(name, 0) + 1
        if self.args.verbose:
            print(f"{elapsed:7.2f} {name}, {self.claims()} claims", flush=True)

        def run():
            try:
                act()
            except BaseException as error:
                self.failure = error
            finally:
                del self.hit[id(target)]
        thread = threading.Thread(target=run)
        thread.start()
        self.threads = [t for t in self.threads if t.is_alive()] + [thread]

    def nemesis(self):
        start = time.monotonic()
        elapsed = 0
        while (elapsed < self.args.seconds or
               self.claims() < self.args.claims or
               self.failovers < self.args.failovers):
            time.sleep(self.random.uniform(0.1, 2 * self.args.pace))
            if self.failure is not None:
                raise self.failure
            self.watch()
            elapsed = time.monotonic() - start
            if elapsed > self.args.seconds + 300 + self.args.claims / 100:
                raise AssertionError(
                    f"only {self.claims()} claims and {self.failovers} "
                    f"failovers in {elapsed:.0f} s")
            self.strike(elapsed)
        self.settle()
        self.end_attacks()
        if self.failure is not None:
            raise self.failure
        return elapsed

    def settle(self):
        for thread in self.threads:
            thread.join()
        if self.failure is not None:
            raise self.failure

    # --- The end ---

    def quiet(self):
        """Nothing leased, nothing on its way, the pool full; everywhere."""
        self.watch()
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
        full = {"open": TARGET}
        records = self.redis.records() if self.redis is not None else full
        self.seen += [f"{files} files", records]
        return files == TARGET and records == full and all(
            s is not None and s["ready"] == TARGET and
            sum(s.values()) == TARGET for s in self.seen[:-2])

    def leave(self):
        """Every daemon goes. Nothing stays, but for idle sandboxes that a
        daemon left to others which were about to go as well."""
        for daemon in self.daemons:
            if daemon.process.end() != 0:
                raise AssertionError("a daemon left badly:\n" +
                                     daemon.process.tail())
        left = os.listdir(os.path.join(self.state, "synthetic"))
        records = {}
        if self.redis is not None:
            records = self.redis.records()
        elif self.args.store == "sqlite":
            path = os.path.join(self.state, "leases.db")
            with contextlib.closing(sqlite3.connect(path)) as db:
                records = dict(db.execute(
                    "SELECT state, count(*) FROM lease GROUP BY state"))
        idle = records.pop("open", 0) if self.args.replicas > 1 else 0
        if len(left) != idle or records:
            raise AssertionError(f"left behind: {len(left)} sandboxes, "
                                 f"{idle} of them idle, records of other "
                                 f"states: {records}")

    def leave_at_once(self):
        """The same, in one moment: what is left is judged by the checker, which
        is told what each daemon said last."""
        ends = []
        for daemon in self.daemons:
            daemon.process.send(signal.SIGTERM)
        waiting = list(self.daemons)
        while waiting:
            for daemon in [d for d in waiting if not d.process.alive()]:
                waiting.remove(daemon)
                words = daemon.process.tail()
                ends.append((SAID_NOTHING if "nothing is left behind" in words
                             else 0) |
                            (SAID_WHAT if re.search(
                                "other daemons go on|left for the next start|"
                                "sweeps what is left", words) else 0))
            time.sleep(0.001)
        left = sorted(os.listdir(os.path.join(self.state, "synthetic")))
        print(f"stopped at once: {len(left)} sandboxes are left; "
              f"the daemons, in the order of their ends, said {ends}")
        with open(os.path.join(self.dir, "h0"), "wb") as handle:
            for at, said in enumerate(ends):
                handle.write(event_of_end(ENDED, at, said))
            for _ in left:
                handle.write(event_of_end(LEFT, len(ends), 0))
        if subprocess.run([self.args.check, os.path.join(self.dir, "h0")],
                          check=False).returncode != 0:
            raise AssertionError("left without a word:\n" + "\n".join(
                d.process.tail() for d in self.daemons))

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
        if self.args.replicas == 1 and int(figures["stale"]) > 0:
            raise AssertionError("a daemon alone did not know its own lease")
        if int(figures["granted"]) < self.args.claims * 0.8:
            raise AssertionError("too few claims to prove anything")

    def go(self):
        if self.redis is not None:
            self.redis.start()
        for daemon in self.daemons:
            daemon.start()
        for daemon in self.daemons:
            eventually(daemon.serves, f"daemon {daemon.number} serves")
        for _ in range(self.args.clients):
            self.start_client()
        for thread in self.hostile:
            thread.start()
        elapsed = self.nemesis()
        self.watch()
        for client in self.clients:
            if client.end() != 0:
                raise AssertionError("a client failed:\n" + client.tail())
        self.clients.clear()
        faults = sum(self.faults.values())
        print(f"store {self.args.store}, {self.args.replicas} daemons, "
              f"{self.n_clients} client processes, {elapsed:.0f} s")
        print(f"faults {faults}: " + ", ".join(
            f"{n} {k}" for k, n in sorted(self.faults.items())))
        if self.hostile:
            print(f"attacks {sum(self.attacks.values())}: " + ", ".join(
                f"{n} {k}" for k, n in sorted(self.attacks.items())))
        if self.args.store == "sentinel":
            print(f"failovers {self.failovers}, bytes of acknowledged writes "
                  f"lost by them: {self.redis.lost}")
        start = time.monotonic()
        self.seen = None
        try:
            eventually(self.quiet, "quiet", TTL_MAX + PATIENCE)
        except AssertionError:
            for daemon in self.daemons:
                print(f"daemon {daemon.number} knows of:",
                      *daemon.claims(), file=sys.stderr)
            raise
        finally:
            print(f"quiet after {time.monotonic() - start:.1f} s: {self.seen}")
        self.check()
        if self.args.at_once:
            self.leave_at_once()
        else:
            self.leave()

    def clean(self):
        self.end_attacks()
        for thread in self.threads:
            thread.join()
        servers = self.redis.processes() if self.redis is not None else []
        for process in (self.clients + servers +
                        [d.process for d in self.daemons]):
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
    parser.add_argument("--failovers", type=int, default=0)
    parser.add_argument("--clients", type=int, default=2)
    parser.add_argument("--workers", type=int, default=96)
    parser.add_argument("--seed", type=int,
                        default=random.SystemRandom().getrandbits(32))
    parser.add_argument("--pace", type=float, default=0.8)
    parser.add_argument("--hostile", type=int, default=0)
    parser.add_argument("--look-back", type=int, default=0)
    parser.add_argument("--at-once", action="store_true")
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
