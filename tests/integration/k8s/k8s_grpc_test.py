"""Claims by gRPC in a cluster, beside SandboxClaims, against a fake API server.

Run by ctest: k8s_grpc_test.py WARMPOOLD FAKE_API GENERATED_DIR [unittest
arguments].
"""

import concurrent.futures
import http.client
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

import grpc

sys.path.insert(0, os.path.abspath(sys.argv[3]))

import k8s_rig
from fake_api_rig import PATIENCE, eventually
from k8s_judge import assigned, controller, leased
from k8s_rig import NS, Case, UnixConnection
from warmpool.v1 import allocator_pb2 as pb


class Claims(Case):
    def start(self, *flags, replicas=3):
        self.make_pool(replicas=replicas)
        daemon = self.daemon("--cold-grace=60s", *flags)
        self.wait_filled(replicas=replicas)
        eventually(daemon.ready, "the daemon to be ready")
        return daemon

    def rpc(self, daemon, method, request, reply):
        path = os.path.join(daemon.dir, "r", "warmpoold.sock")
        with grpc.insecure_channel(
                "unix:" + path,
                options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
            return channel.unary_unary(
                "/warmpool.v1.Allocator/" + method,
                request_serializer=lambda m: m.SerializeToString(),
                response_deserializer=reply.FromString)(
                    request, timeout=PATIENCE, wait_for_ready=True)

    def claim(self, daemon, claim_id, wait_ms=PATIENCE * 1000, **more):
        return self.rpc(daemon, "Claim", pb.ClaimRequest(
            pool=pb.PoolRef(namespace=NS, name="pool"), claim_id=claim_id,
            wait_ms=wait_ms, ttl_ms=600000, **more), pb.ClaimResponse).lease

    def sandbox(self, name):
        return self.api.get("sandboxes", NS, name)

    def wait_adopted(self, lease):
        eventually(lambda: leased(self.sandbox(lease.sandbox)) ==
                   lease.claim_id, "the lease on its sandbox")

    def test_a_lease(self):
        daemon = self.start()
        lease = self.claim(daemon, "g")
        ip = self.sandbox(lease.sandbox)["status"]["podIPs"][0]
        self.assertEqual(lease.endpoint, ip + ":8888")
        self.wait_adopted(lease)
        self.wait_filled()
        self.assertEqual(controller(self.sandbox(lease.sandbox)),
                         (None, None))
        again = self.claim(daemon, "g")
        self.assertEqual((again.sandbox, again.fence),
                         (lease.sandbox, lease.fence))
        self.rpc(daemon, "Release", pb.ReleaseRequest(token=lease.token),
                 pb.ReleaseResponse)
        eventually(lambda: not self.sandbox(lease.sandbox),
                   "the sandbox to go")
        self.wait_count(3)
        self.judge(leases=1)

    def test_only_the_daemon_controls_a_sandbox(self):
        """The server in the Pod, with what stands in the Pod's spec: who reaches its
        port may use the tools, and nothing else; the daemon's proxy may."""
        folder = tempfile.mkdtemp(prefix="wp-k8s-token-")
        self.addCleanup(shutil.rmtree, folder)
        key, ports = (os.path.join(folder, name) for name in ("key", "ports"))
        with open(os.open(key, os.O_WRONLY | os.O_CREAT, 0o600), "w",
                  encoding="ascii") as handle:
            handle.write("5a" * 32)
        daemon = self.start("--token-key-file=" + key, replicas=1)
        lease = self.claim(daemon, "g")
        pod = self.api.get("pods", NS, lease.sandbox)
        env = {one["name"]: one["value"]
               for one in pod["spec"]["containers"][0]["env"]}
        address = pod["status"]["podIP"]
        with open(os.path.join(folder, "log"), "wb") as log:
            server = subprocess.Popen(
                [os.environ["WP_RUNTIME_BINARY"], "--bind", address, "--port",
                 "0", "--port-file", ports, "--workspace", folder],
                env=env, stdout=log, stderr=log)
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        eventually(lambda: os.path.exists(ports), "the server's port")
        with open(ports, encoding="ascii") as handle:
            port = int(handle.read().split()[1])

        def asked(connection, prefix, method, path):
            """Its status; a command without Upgrade is let in, and then refused."""
            connection.request(method, prefix + path, None,
                               {"X-Sandbox-Port": str(port)})
            status = connection.getresponse().status
            connection.close()
            return status
        for prefix, connect, exec_status in (
                ("", lambda: http.client.HTTPConnection(
                    address, port, timeout=PATIENCE), 401),
                (f"/sandboxes/{lease.sandbox}",
                 lambda: UnixConnection(daemon.http_path), 426)):
            self.assertEqual(asked(connect(), prefix, "GET", "/"), 200)
            self.assertEqual(asked(connect(), prefix, "POST", "/v1/exec"),
                             exec_status)
        # What others can read of the Pod opens nothing.
        direct = http.client.HTTPConnection(address, port, timeout=PATIENCE)
        direct.request("POST", "/v1/exec", None, {
            "X-Warmpool-Token": env["WARMPOOL_RUNTIME_TOKEN_DIGEST"]})
        self.assertEqual(direct.getresponse().status, 401)
        direct.close()

    def test_both_kinds_at_once(self):
        daemon = self.start(replicas=6)
        names = [f"c{i}" for i in range(15)]
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            leases = [pool.submit(self.claim, daemon, f"g{i}")
                      for i in range(15)]
            for name in names:
                self.make_claim(name)
            leases = [lease.result() for lease in leases]
        self.wait_ready(*names)
        taken = [lease.sandbox for lease in leases] + [
            assigned(self.api.get("sandboxclaims", NS, name))
            for name in names]
        self.assertEqual(len(set(taken)), 30)
        for lease in leases:
            self.wait_adopted(lease)
        self.wait_filled(replicas=6)
        self.wait_count(36)
        self.judge(leases=15)

    def test_answered_before_anything_is_written(self):
        daemon = self.start()
        self.fault(verbs="PATCH", kind="sandboxes", action="status", code=500)
        leases = [self.claim(daemon, f"g{i}") for i in range(3)]
        self.assertEqual(len({lease.sandbox for lease in leases}), 3)
        self.api.control("clear")
        for lease in leases:
            self.wait_adopted(lease)
        self.wait_filled()
        self.judge(leases=3)

    def test_lost_answers(self):
        daemon = self.start()
        self.fault(verbs="POST|PATCH|DELETE", action="drop_after", every=2)
        leases = [self.claim(daemon, f"g{i}") for i in range(8)]
        for lease in leases:
            self.wait_adopted(lease)
        for lease in leases:
            self.rpc(daemon, "Release", pb.ReleaseRequest(token=lease.token),
                     pb.ReleaseResponse)
        self.api.control("clear")
        self.wait_filled()
        self.wait_count(3)
        self.judge(leases=8)

    def test_somebody_else_took_it(self):
        daemon = self.start()
        self.fault(verbs="PATCH", kind="sandboxes", action="hold",
                   subresource="")
        lease = self.claim(daemon, "g")
        taker = self.make_claim("taker", pool="elsewhere").body
        self.api.patch("sandboxes", NS, lease.sandbox, {"metadata": {
            "labels": {"agents.x-k8s.io/warm-pool-sandbox": None},
            "ownerReferences": [{
                "apiVersion": taker["apiVersion"], "kind": "SandboxClaim",
                "name": "taker", "uid": taker["metadata"]["uid"],
                "controller": True, "blockOwnerDeletion": True}]}})
        self.api.control("clear")
        info = eventually(lambda: self.lost(daemon, "g"), "the lease lost")
        self.assertTrue(info.lost_reason)
        with self.assertRaises(grpc.RpcError):
            self.rpc(daemon, "Renew", pb.RenewRequest(
                token=lease.token, ttl_ms=600000), pb.RenewResponse)
        # It is the other's, whole.
        kept = self.sandbox(lease.sandbox)
        self.assertEqual(controller(kept),
                         ("SandboxClaim", taker["metadata"]["uid"]))
        self.assertNotIn("deletionTimestamp", kept["metadata"])
        self.judge(leases=1)

    def serves(self, daemon):
        """One that does not lead says UNAVAILABLE."""
        try:
            self.rpc(daemon, "GetClaim", pb.GetClaimRequest(claim_id="none"),
                     pb.ClaimInfo)
        except grpc.RpcError as error:
            return error.code() == grpc.StatusCode.NOT_FOUND
        raise AssertionError("there is no such claim")

    def lost(self, daemon, claim_id):
        info = self.rpc(daemon, "GetClaim",
                        pb.GetClaimRequest(claim_id=claim_id), pb.ClaimInfo)
        return info if info.state == pb.CLAIM_STATE_LOST else None

    def test_a_kill_leaves_leased_sandboxes_alone(self):
        daemon = self.start()
        leases = [self.claim(daemon, f"g{i}") for i in range(3)]
        for lease in leases:
            self.wait_adopted(lease)
        daemon.kill()
        daemon.start()
        names = [f"c{i}" for i in range(6)]
        for name in names:
            self.make_claim(name)
        self.wait_ready(*names)
        self.wait_filled()
        for lease in leases:
            self.assertNotIn("deletionTimestamp",
                             self.sandbox(lease.sandbox)["metadata"])
        self.wait_count(3 + 3 + 6)
        self.judge(leases=3)

    def redis(self):
        """The URL of a server of its own."""
        if not shutil.which("redis-server"):
            self.skipTest("redis-server is not installed")
        folder = tempfile.mkdtemp(prefix="wp-k8s-redis-")
        self.addCleanup(shutil.rmtree, folder)
        server = subprocess.Popen(
            ["redis-server", "--port", "0", "--unixsocket", folder + "/s",
             "--save", "", "--dir", folder], stdout=subprocess.DEVNULL)
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        eventually(lambda: os.path.exists(folder + "/s"), "redis")
        return f"unix:{folder}/s"

    def test_a_kill_with_leases_in_memory(self):
        """The sandboxes' annotations have them, soon after the answer."""
        self.outlives_a_kill("--lease-store=memory", adopted=True)

    def test_a_kill_with_leases_on_disk(self):
        self.outlives_a_kill("--lease-store=sqlite")

    def test_a_kill_with_leases_in_redis(self):
        self.outlives_a_kill("--lease-store=redis",
                             "--redis-url=" + self.redis())

    def outlives_a_kill(self, *store, adopted=False):
        """adopted: what only the leader's memory has is not promised."""
        daemon = self.start(*store)
        leases = [self.claim(daemon, f"g{i}") for i in range(3)]
        for lease in leases if adopted else ():
            self.wait_adopted(lease)
        daemon.kill()
        daemon.start()
        eventually(lambda: self.serves(daemon), "the daemon to lead again")
        for lease in leases:
            again = self.claim(daemon, lease.claim_id)
            self.assertEqual(again.sandbox, lease.sandbox)
            self.rpc(daemon, "Renew", pb.RenewRequest(
                token=lease.token, ttl_ms=600000), pb.RenewResponse)
            self.wait_adopted(lease)
        self.wait_filled()
        self.wait_count(6)
        self.judge(leases=3)


if __name__ == "__main__":
    k8s_rig.PROGRAMS["warmpoold"] = os.path.abspath(sys.argv.pop(1))
    k8s_rig.PROGRAMS["fake_api"] = os.path.abspath(sys.argv.pop(1))
    sys.argv.pop(1)
    unittest.main()
