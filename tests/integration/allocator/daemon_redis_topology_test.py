"""warmpoold with its leases behind sentinels, and in a cluster.

Run by ctest: daemon_redis_topology_test.py WARMPOOLD GENERATED_DIR DEPLOY_DIR
[unittest arguments]. Exits with 77 where there is no redis-server.
"""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

import grpc

from daemon_lease_test import claim_info
from daemon_redis_test import Replica, Rig
from daemon_test import PATIENCE, eventually, pb


HELD = []  # Sockets that keep ports of this process's servers theirs.


def free_port():
    """It stays bound, without listening: nobody else gets it, also while its server
    is down."""
    one = socket.socket()
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    one.bind(("127.0.0.1", 0))
    HELD.append(one)
    return one.getsockname()[1]


class Servers:
    """Redis servers on loopback ports, each in a folder of its own."""

    def __init__(self):
        self.dir = tempfile.mkdtemp(prefix="wp-redis-")
        self.servers = {}

    def start(self, *options, mode=(), port_option=None):
        """port_option: the name of one whose value is a port of its own."""
        for _ in range(5):
            port = free_port()
            home = os.path.join(self.dir, str(port))
            os.mkdir(home)
            conf = os.path.join(home, "redis.conf")
            with open(conf, "w", encoding="utf-8") as out:
                out.write(f"bind 127.0.0.1\nport {port}\ndir {home}\n")
                out.writelines(option + "\n" for option in options)
                if port_option:
                    out.write(f"{port_option} {free_port()}\n")
            with open(os.path.join(home, "log"), "ab") as log:
                process = subprocess.Popen(["redis-server", conf, *mode],
                                           stdout=log, stderr=log)
            self.servers[port] = process
            eventually(lambda: process.poll() is not None or
                       self.ask(port, "PING").startswith("PONG"), "a server")
            if process.poll() is None:
                return port
        raise RuntimeError("no redis-server")

    def ask(self, port, *words):
        return subprocess.run(
            ["redis-cli", "-p", str(port), *words], capture_output=True,
            text=True, check=False, timeout=PATIENCE).stdout

    def kill(self, port):
        self.servers[port].kill()
        self.servers[port].wait(PATIENCE)

    def clean(self):
        for process in self.servers.values():
            if process.poll() is None:
                process.kill()
            process.wait(PATIENCE)
        shutil.rmtree(self.dir, ignore_errors=True)


class Behind(Rig):
    """What both have in common; the server of the pool dies."""

    flags = ("--synthetic",)

    def setUp(self):
        super().setUp()
        self.servers = Servers()
        self.addCleanup(self.servers.clean)
        # Daemons end before their servers do.
        self.addCleanup(lambda: [d.stop(signal.SIGKILL)
                                 for d in self.daemons])

    def start_at(self, url):
        daemon = Replica("alone", self.state, url, *self.flags)
        self.daemons.append(daemon)
        return daemon.wait_full(3)

    @staticmethod
    def said(daemon, line, key):
        """The values of a key of all lines of the log that say that, each
        once: a server that could not be found is said again when it can."""
        return list(dict.fromkeys(
            re.search(rf'{key}="?(\d+)', text).group(1)
            for text in daemon.messages().splitlines() if line in text))

    @staticmethod
    def claimed(daemon, claim_id):
        """The lease, once the store answers: until a failover is over, whoever
        claims is told to try again, perhaps more than once."""
        def lease():
            try:
                return daemon.claim(claim_id)
            except grpc.RpcError:
                return None
        return eventually(lease, f"{claim_id} after the failover")

    def check_goes_on(self, daemon, held):
        """What was claimed stays, and claims succeed again."""
        later = self.claimed(daemon, "later")
        self.assertNotEqual(later.sandbox, held.sandbox)
        self.assertEqual(self.claimed(daemon, "held").sandbox, held.sandbox)
        self.assertEqual(claim_info(daemon, "held").state,
                         pb.CLAIM_STATE_HELD)


class Sentinels(Behind):
    def test_a_failover(self):
        servers = self.servers
        master = servers.start('save ""')
        replica = servers.start('save ""', f"replicaof 127.0.0.1 {master}",
                                "repl-diskless-sync-delay 0")
        eventually(lambda: "master_link_status:up" in
                   servers.ask(replica, "INFO", "replication"), "a replica")
        sentinels = [servers.start(
            f"sentinel monitor m 127.0.0.1 {master} 2",
            "sentinel down-after-milliseconds m 1500",
            "sentinel failover-timeout m 5000",
            mode=("--sentinel",)) for _ in range(3)]
        for sentinel in sentinels:
            eventually(lambda s=sentinel: "num-other-sentinels\n2\nquorum" in
                       servers.ask(s, "SENTINEL", "MASTER", "m") and
                       "num-slaves\n1\n" in
                       servers.ask(s, "SENTINEL", "MASTER", "m"),
                       "sentinels that know each other")
        daemon = self.start_at("redis+sentinel://" + ",".join(
            f"127.0.0.1:{port}" for port in sentinels) + "/m")
        held = daemon.claim("held")
        servers.kill(master)
        self.check_goes_on(daemon, held)
        self.assertIn("role:master",
                      servers.ask(replica, "INFO", "replication"))
        self.assertEqual(self.said(daemon, "redis master", "port"),
                         [str(master), str(replica)])


class Cluster(Behind):
    def owner(self, nodes):
        """The one master that has a key."""
        owners = [node for node in nodes
                  if self.servers.ask(node, "DBSIZE").strip() == "1" and
                  "role:master" in
                  self.servers.ask(node, "INFO", "replication")]
        return owners[0] if len(owners) == 1 else None

    def test_a_node_dies(self):
        servers = self.servers
        nodes = [servers.start('save ""', "cluster-enabled yes",
                               "cluster-node-timeout 2500",
                               "repl-diskless-sync-delay 0",
                               "cluster-replica-validity-factor 0",
                               port_option="cluster-port")
                 for _ in range(6)]
        made = subprocess.run(
            ["redis-cli", "--cluster", "create",
             *(f"127.0.0.1:{port}" for port in nodes), "--cluster-replicas",
             "1", "--cluster-yes"], capture_output=True, text=True,
            check=False, timeout=PATIENCE)
        self.assertIn("All 16384 slots covered", made.stdout + made.stderr)
        for node in nodes:
            eventually(lambda n=node: "cluster_state:ok" in
                       servers.ask(n, "CLUSTER", "INFO"), "a whole cluster")
            eventually(lambda n=node: "role:master" in
                       servers.ask(n, "INFO", "replication") or
                       "master_link_status:up" in
                       servers.ask(n, "INFO", "replication"), "replicas")
        daemon = self.start_at(f"redis+cluster://127.0.0.1:{nodes[1]}")
        held = daemon.claim("held")
        # The node that has the pool.
        servers.kill(eventually(lambda: self.owner(nodes), "one owner"))
        self.check_goes_on(daemon, held)
        self.assertEqual(self.said(daemon, "redis cluster", "nodes")[0], "3")


if __name__ == "__main__":
    if not shutil.which("redis-server"):
        print("SKIP: redis-server is not installed")
        sys.exit(77)
    unittest.main(argv=[sys.argv[0]] + sys.argv[4:], verbosity=2)
