"""The API as a stranger meets it: no .proto file, only server reflection.

Every RPC of warmpool.v1 is found, called and answered; every kind of bad input
is refused by name and leaves nothing behind. Arguments as of daemon_test.py.
"""

import json
import os
import socket
import sys
import threading
import time
import unittest

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from daemon_test import Daemon, eventually, host_can  # noqa: E402

REFLECTION = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
Code = grpc.StatusCode


def reflection_types():
    """The public reflection messages, just what is used of them, by hand."""
    file = descriptor_pb2.FileDescriptorProto(
        name="r.proto", package="r", syntax="proto3")
    text, data, nested = 9, 12, 11

    def message(name, *fields):
        m = file.message_type.add(name=name)
        for number, field, kind, many, type_name in fields:
            m.field.add(name=field, number=number, type=kind,
                        label=3 if many else 1, type_name=type_name)

    message("Request", (3, "file_by_filename", text, 0, None),
            (4, "file_containing_symbol", text, 0, None),
            (7, "list_services", text, 0, None))
    message("Files", (1, "file", data, 1, None))
    message("Service", (1, "name", text, 0, None))
    message("Services", (1, "service", nested, 1, ".r.Service"))
    message("Response", (4, "files", nested, 0, ".r.Files"),
            (6, "services", nested, 0, ".r.Services"))
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    factory = message_factory.MessageFactory(pool)
    return [factory.GetPrototype(pool.FindMessageTypeByName("r." + n))
            for n in ("Request", "Response")]


class Api:
    """Knows a channel and nothing else."""

    def __init__(self, channel):
        self.channel = channel
        self.request, self.response = reflection_types()
        self.pool = descriptor_pool.DescriptorPool()
        self.factory = message_factory.MessageFactory(self.pool)
        self.methods = {}
        for name in self.services():
            if name.startswith("warmpool."):
                self.load(name)

    def reflect(self, **query):
        call = self.channel.stream_stream(
            REFLECTION, self.request.SerializeToString,
            self.response.FromString)
        return next(call(iter([self.request(**query)]), timeout=120))

    def services(self):
        return [s.name for s in self.reflect(list_services="*").services.service]

    def load(self, service):
        answer = self.reflect(file_containing_symbol=service)
        for raw in answer.files.file:
            file = descriptor_pb2.FileDescriptorProto.FromString(raw)
            try:
                self.pool.FindFileByName(file.name)
            except KeyError:
                self.pool.Add(file)
        for method in self.pool.FindServiceByName(service).methods:
            self.methods[f"{service}/{method.name}"] = method

    def type(self, descriptor):
        return self.factory.GetPrototype(descriptor)

    def stub(self, name):
        method = self.methods[name]
        if name.endswith("/ClaimStream"):  # One request, and no more.
            stream = self.channel.stream_stream(
                "/" + name, lambda m: m.SerializeToString(),
                self.type(method.output_type).FromString)
            return lambda request, timeout: stream(iter([request]),
                                                   timeout=timeout)
        make = (self.channel.unary_stream if name.endswith(("/WatchPools", "/Advise"))
                else self.channel.unary_unary)
        return make("/" + name, lambda m: m if isinstance(m, bytes)
                    else m.SerializeToString(),
                    self.type(method.output_type).FromString)

    def call(self, name, raw=None, timeout=120, **fields):
        name = "warmpool.v1." + name
        request = raw if raw is not None else self.type(
            self.methods[name].input_type)(**fields)
        return self.stub(name)(request, timeout=timeout)


POOL = {"name": "quickstart"}


class ApiTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon(replicas=3).wait_full(3)
        cls.api = Api(cls.daemon.channel)

    @classmethod
    def tearDownClass(cls):
        cls.daemon.clean()

    def setUp(self):
        self.leases = []

    def tearDown(self):
        for lease in self.leases:
            self.api.call("Allocator/Release", token=lease.token)
        eventually(lambda: self.leased() == 0, "every lease ended")

    def leased(self):
        return self.api.call("PoolAdmin/GetPool", pool=POOL).leased

    def claim(self, claim_id, **more):
        fields = {"pool": POOL, "wait_ms": 60000, **more}
        answer = self.api.call("Allocator/Claim", claim_id=claim_id, **fields)
        self.leases.append(answer.lease)
        return answer

    def refused(self, code, say, method, raw=None, **fields):
        with self.assertRaises(grpc.RpcError) as caught:
            self.api.call(method, raw, **fields)
        self.assertEqual(caught.exception.code(), code,
                         caught.exception.details())
        self.assertIn(say, caught.exception.details())

    # --- Every RPC ---

    def test_every_rpc(self):
        called = set()

        def call(method, **fields):
            called.add("warmpool.v1." + method)
            return self.api.call(method, **fields)

        lease = call("Allocator/Claim", pool=POOL, claim_id="one",
                     wait_ms=60000).lease
        self.leases.append(lease)
        batch = call("Allocator/ClaimBatch", pool=POOL, wait_ms=60000,
                     claim_ids=["b1", "b2"], all_or_nothing=True)
        self.assertEqual([i.code for i in batch.items], [0, 0])
        self.leases += [i.lease for i in batch.items]
        self.assertEqual(len({x.sandbox for x in self.leases}), 3)
        renewed = call("Allocator/Renew", token=lease.token, ttl_ms=60000)
        self.assertGreater(renewed.deadline_unix_ms, time.time() * 1000)
        self.assertEqual(call("Allocator/GetClaim", claim_id="one").sandbox,
                         lease.sandbox)
        self.assertEqual({c.claim_id for c in
                          call("Allocator/ListClaims").claims},
                         {"one", "b1", "b2"})
        self.assertEqual([t.leases for t in
                          call("Allocator/ListTenants", pool=POOL).tenants
                          if t.tenant == ""], [3])
        watch = call("Allocator/WatchPools")
        self.assertEqual(next(iter(watch)).pools[0].ref.name, "quickstart")
        watch.cancel()
        self.assertEqual(len(call("PoolAdmin/ListPools").pools), 1)
        self.assertEqual(call("PoolAdmin/GetPool", pool=POOL).leased, 3)
        self.assertEqual(call("PoolAdmin/SetPool", pool=POOL, target=3).target,
                         3)
        # The new token, and the old one: both name the lease.
        self.assertTrue(call("Allocator/Release",
                             token=renewed.token).was_held)
        self.assertFalse(call("Allocator/Release",
                              token=lease.token).was_held)
        advice = list(call("PoolAdmin/Advise", pool=POOL, lead_ms=100,
                           first_unix_ms=1000000,
                           claim_gaps_ms=[1000] * 100))
        self.assertTrue(advice[-1].HasField("report"))
        made = call("PoolAdmin/CreatePool", manifest=json.dumps({
            "apiVersion": "extensions.agents.x-k8s.io/v1beta1",
            "kind": "SandboxWarmPool", "metadata": {"name": "made"},
            "spec": {"replicas": 1,
                     "sandboxTemplateRef": {"name": "quickstart"}}}))
        self.assertEqual((made.ref.name, made.target), ("made", 1))
        self.assertEqual(call("PoolAdmin/DeletePool",
                              pool=made.ref).leased, 0)
        # Of a pool that nothing scales nothing can be reserved.
        for method, more in (
                ("Reserve", {"sandboxes": 1,
                             "until_unix_ms": int(time.time() + 600) * 1000}),
                ("CancelReservation", {})):
            called.add("warmpool.v1.PoolAdmin/" + method)
            self.refused(Code.FAILED_PRECONDITION, "objective",
                         "PoolAdmin/" + method, pool=POOL, id="r", **more)
        self.assertTrue(list(call("Allocator/ClaimStream", open={
            "pool": POOL, "stream_id": "s", "ahead": 1})))
        self.assertEqual(set(self.api.methods) - called,
                         {"warmpool.v1.PoolAdmin/Drain"})

    def test_health_and_unknown(self):
        health = self.daemon.channel.unary_unary(
            "/grpc.health.v1.Health/Check", lambda m: m, lambda m: m)
        self.assertEqual(health(b"", timeout=120), b"\x08\x01")
        for path in ("/warmpool.v1.Allocator/Nothing", "/no.Such/Method"):
            with self.assertRaises(grpc.RpcError) as caught:
                self.daemon.channel.unary_unary(
                    path, lambda m: m, lambda m: m)(b"", timeout=120)
            self.assertEqual(caught.exception.code(), Code.UNIMPLEMENTED)

    # --- Bad input ---

    def test_bad_claims(self):
        bad = Code.INVALID_ARGUMENT
        cases = [
            (Code.NOT_FOUND, "pool", {"pool": {"name": "other"}}),
            (bad, "pool", {"pool": {}}),
            (bad, "pool", {"pool": {"name": "Upper"}}),
            (bad, "pool", {"pool": {"name": "x" * 64}}),
            (bad, "claim_id", {"claim_id": ""}),
            (bad, "claim_id", {"claim_id": "x" * 129}),
            (bad, "claim_id", {"claim_id": "a\nb"}),
            (bad, "claim_id", {"claim_id": "a\0b"}),
            (bad, "tenant", {"tenant": "t" * 64}),
            (bad, "ttl_ms", {"ttl_ms": -1}),
            (bad, "ttl_ms", {"ttl_ms": 1}),
            (bad, "ttl_ms", {"ttl_ms": 2 ** 62}),
            (bad, "wait_ms", {"wait_ms": -5}),
            (bad, "wait_ms", {"wait_ms": 2 ** 62}),
        ]
        for code, say, fields in cases:
            with self.subTest(fields=fields):
                self.refused(code, say, "Allocator/Claim",
                             **{"pool": POOL, "claim_id": "x", **fields})
        self.assertEqual(self.leased(), 0)

    def test_bad_bytes(self):
        good = self.api.type(self.api.methods[
            "warmpool.v1.Allocator/Claim"].input_type)(
                pool=POOL, claim_id="raw").SerializeToString()
        self.refused(Code.INVALID_ARGUMENT, "claim_id", "Allocator/Claim",
                     b"\x0a\x0c\x12\x0aquickstart\x12\x02\xff\xfe")
        self.refused(Code.INVALID_ARGUMENT, "", "Allocator/Claim", b"\xff" * 9)
        self.refused(Code.INVALID_ARGUMENT, "", "Allocator/Claim", good[:-1])
        self.refused(Code.RESOURCE_EXHAUSTED, "", "Allocator/Claim",
                     good + b"\x7a" + b"\x80\x80\xc0\x01" + b"x" * (3 << 20))
        # Unknown fields are for newer daemons.
        answer = self.api.call("Allocator/Claim", good + b"\xfa\x3f\x02hi")
        self.leases.append(answer.lease)

    def test_bad_batches(self):
        bad = Code.INVALID_ARGUMENT
        for ids in ([], ["a", "a"], ["a", ""], [str(i) for i in range(257)]):
            self.refused(bad, "claim_ids", "Allocator/ClaimBatch", pool=POOL,
                         claim_ids=ids)
        # More than there are: all or nothing leaves nothing.
        with self.assertRaises(grpc.RpcError) as caught:
            self.api.call("Allocator/ClaimBatch", pool=POOL,
                          all_or_nothing=True,
                          claim_ids=[f"m{i}" for i in range(40)])
        self.assertEqual(caught.exception.code(), Code.RESOURCE_EXHAUSTED)
        eventually(lambda: self.leased() == 0, "the batch taken back")

    def test_tokens(self):
        first = self.claim("t1").lease
        self.refused(Code.ALREADY_EXISTS, "claim_id", "Allocator/Claim",
                     pool=POOL, claim_id="t1", ttl_ms=5000)
        again = self.api.call("Allocator/Claim", pool=POOL, claim_id="t1")
        self.assertTrue(again.replayed)
        self.assertEqual(again.lease.token, first.token)
        forged = bytes(first.token[:-1]) + bytes([first.token[-1] ^ 1])
        for method in ("Renew", "Release"):
            self.refused(Code.PERMISSION_DENIED, "token",
                         "Allocator/" + method, token=forged)
            self.refused(Code.INVALID_ARGUMENT, "token",
                         "Allocator/" + method, token=b"short")
        release = self.api.call("Allocator/Release", token=first.token)
        self.assertTrue(release.was_held)
        self.refused(Code.NOT_FOUND, "", "Allocator/Renew", token=first.token)
        self.refused(Code.NOT_FOUND, "", "Allocator/GetClaim", claim_id="t1")

    def test_expiry(self):
        lease = self.api.call("Allocator/Claim", pool=POOL, claim_id="e",
                              ttl_ms=1000, wait_ms=60000).lease
        eventually(lambda: self.leased() == 0, "expired")
        self.refused(Code.NOT_FOUND, "", "Allocator/Renew", token=lease.token)
        self.assertFalse(self.api.call("Allocator/Release",
                                       token=lease.token).was_held)

    # --- Clients that vanish ---

    def test_cancel_in_flight(self):
        held = [self.claim(f"h{i}").lease for i in range(3)]
        self.api.call("PoolAdmin/SetPool", pool=POOL, target=0)
        try:
            name = "warmpool.v1.Allocator/Claim"
            request = self.api.type(self.api.methods[name].input_type)
            calls = [self.api.stub(name).future(
                request(pool=POOL, claim_id=f"c{i}", wait_ms=60000),
                timeout=60) for i in range(50)]
            eventually(self.all_wait, "waiting")
            for call in calls:
                call.cancel()
            eventually(lambda: self.api.call(
                "PoolAdmin/GetPool", pool=POOL).waiting == 0, "withdrawn")
        finally:
            self.api.call("PoolAdmin/SetPool", pool=POOL, target=3)
        self.assertEqual(len(held), 3)
        served = {f"c{i}" for i, call in enumerate(calls)
                  if not call.cancelled() and call.code() == Code.OK}
        # Withdrawn claims left nothing. One that was answered just before its
        # client gave up is still there for a client that asks again.
        for claim in self.api.call("Allocator/ListClaims").claims:
            if claim.claim_id.startswith("c"):
                again = self.claim(claim.claim_id)
                self.assertTrue(again.replayed)
                served.discard(claim.claim_id)
        self.assertEqual(served, set())

    def all_wait(self):
        """Those of test_cancel_in_flight that will, and nothing is under way
        that could serve one of them later."""
        pool = self.api.call("PoolAdmin/GetPool", pool=POOL)
        return pool.waiting >= 47 and not pool.warming and not pool.ready

    def test_clients_that_connect_and_vanish(self):
        path = os.path.join(self.daemon.dir, "r", "warmpoold.sock")

        def storm():
            for i in range(2500):
                with socket.socket(socket.AF_UNIX) as client:
                    client.connect(path)
                    if i % 2:
                        client.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[:i % 24])

        threads = [threading.Thread(target=storm) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertTrue(self.claim("after").lease.token)

    def test_watcher_that_never_reads(self):
        watch = self.api.call("Allocator/WatchPools", timeout=60)
        for i in range(10):
            lease = self.claim(f"w{i}").lease
            self.api.call("Allocator/Release", token=lease.token)
        watch.cancel()

    def test_zz_drain(self):
        """Last by name: a drained pool stays so."""
        self.assertEqual(
            self.api.call("PoolAdmin/Drain", pool=POOL).leased, 0)
        self.refused(Code.UNAVAILABLE, "draining", "Allocator/Claim",
                     pool=POOL, claim_id="late")
        eventually(lambda: self.api.call("PoolAdmin/GetPool",
                                         pool=POOL).ready == 0, "emptied")


if __name__ == "__main__":
    reason = host_can()
    if reason:
        print("SKIP:", reason)
        sys.exit(77)
    unittest.main(argv=[sys.argv[0]] + sys.argv[4:], verbosity=2)
