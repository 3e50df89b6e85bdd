"""What programs can tell errors by: the details of google.rpc beside the text.

Run by ctest: error_details_test.py WARMPOOLD WARMPOOLCTL GENERATED_DIR DEPLOY_DIR
[unittest arguments]. Sandboxes are files.
"""

import os
import shutil
import sys
import time
import unittest

import grpc
from google.protobuf import any_pb2, descriptor_pb2, duration_pb2  # noqa: F401
from google.protobuf import descriptor_pool, message_factory

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from access_token_test import PATIENCE, POOL, Daemon, pb  # noqa: E402

PREFIX = "type.googleapis.com/google.rpc."
# As the public google/rpc/status.proto and error_details.proto number them.
STRING, MESSAGE, INT32 = 9, 11, 5
MESSAGES = {
    "Status": [("code", 1, INT32, None), ("message", 2, STRING, None),
               ("details", 3, MESSAGE, "*google.protobuf.Any")],
    "RetryInfo": [("retry_delay", 1, MESSAGE, "google.protobuf.Duration")],
    "ErrorInfo": [("reason", 1, STRING, None), ("domain", 2, STRING, None)],
    "FieldViolation": [("field", 1, STRING, None),
                       ("description", 2, STRING, None)],
    "BadRequest": [("field_violations", 1, MESSAGE,
                    "*google.rpc.FieldViolation")],
    "ResourceInfo": [("resource_type", 1, STRING, None),
                     ("resource_name", 2, STRING, None),
                     ("owner", 3, STRING, None),
                     ("description", 4, STRING, None)],
}


def message_types():
    file = descriptor_pb2.FileDescriptorProto(
        name="details.proto", package="google.rpc", syntax="proto3",
        dependency=["google/protobuf/any.proto",
                    "google/protobuf/duration.proto"])
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, number, kind, of in fields:
            message.field.add(
                name=field, number=number, type=kind,
                label=3 if of and of[0] == "*" else 1,
                type_name="." + of.lstrip("*") if of else None)
    pool = descriptor_pool.Default()
    pool.Add(file)
    return {name: message_factory.MessageFactory(pool).GetPrototype(
        pool.FindMessageTypeByName("google.rpc." + name))
        for name in MESSAGES}


TYPES = message_types()


def details(error):
    """By their type. The status repeats the code and the text."""
    raw = dict(error.trailing_metadata())["grpc-status-details-bin"]
    status = TYPES["Status"].FromString(raw)
    assert status.code == error.code().value[0], status
    assert status.message == error.details(), status
    return {d.type_url.removeprefix(PREFIX):
            TYPES[d.type_url.removeprefix(PREFIX)].FromString(d.value)
            for d in status.details}


class Details(unittest.TestCase):
    def setUp(self):
        self.daemon = Daemon("--tenant-quotas=few leases=1")
        self.addCleanup(shutil.rmtree, self.daemon.dir, ignore_errors=True)
        self.addCleanup(self.daemon.end)
        self.daemon.started()
        self.token = "Bearer " + self.daemon.token()

    def refused(self, code, reason, method, request, reply, token=None):
        with self.assertRaises(grpc.RpcError) as caught:
            self.daemon.call(method, request, reply, token or self.token)
        self.assertEqual(caught.exception.code(), code)
        found = details(caught.exception)
        self.assertEqual((found["ErrorInfo"].reason,
                          found["ErrorInfo"].domain),
                         (reason, "warmpool.io"))
        return found

    def claim(self, code, reason, **more):
        return self.refused(
            code, reason, "Allocator/Claim",
            pb.ClaimRequest(**{"pool": POOL, "claim_id": "new", **more}), pb.ClaimResponse)

    def test_a_field(self):
        found = self.claim(grpc.StatusCode.INVALID_ARGUMENT,
                           "TTL_MS_INVALID_ARGUMENT", ttl_ms=1 << 40)
        violation, = found["BadRequest"].field_violations
        self.assertEqual(violation.field, "ttl_ms")
        self.assertIn("expected", violation.description)
        found = self.refused(
            grpc.StatusCode.INVALID_ARGUMENT, "CLAIM_IDS_INVALID_ARGUMENT",
            "Allocator/ClaimBatch",
            pb.ClaimBatchRequest(pool=POOL, claim_ids=["a", "a"]),
            pb.ClaimBatchResponse)
        self.assertRegex(found["BadRequest"].field_violations[0].field,
                         r"^claim_ids")

    def test_a_resource(self):
        found = self.claim(grpc.StatusCode.NOT_FOUND, "POOL_NOT_FOUND",
                           pool=pb.PoolRef(name="none-such"))
        info = found["ResourceInfo"]
        self.assertEqual((info.resource_type, info.resource_name),
                         ("warmpool.io/Pool", "none-such"))
        self.assertNotIn("BadRequest", found)
        found = self.refused(
            grpc.StatusCode.NOT_FOUND, "CLAIM_ID_NOT_FOUND",
            "Allocator/GetClaim", pb.GetClaimRequest(claim_id="none"),
            pb.ClaimInfo)
        self.assertEqual(found["ResourceInfo"].resource_type,
                         "warmpool.io/Claim")
        self.daemon.claim(self.token, claim_id="one")
        found = self.claim(grpc.StatusCode.ALREADY_EXISTS,
                           "CLAIM_ID_ALREADY_EXISTS", claim_id="one",
                           ttl_ms=5000)
        self.assertEqual(found["ResourceInfo"].resource_type,
                         "warmpool.io/Claim")

    def test_a_quota(self):
        self.daemon.claim(self.token, tenant="few", claim_id="one")
        self.claim(grpc.StatusCode.RESOURCE_EXHAUSTED,
                   "TENANT_RESOURCE_EXHAUSTED", tenant="few", claim_id="two")

    def test_an_expired_claim(self):
        lease = self.daemon.claim(self.token, claim_id="short", ttl_ms=1000)
        self.assertTrue(lease.token)
        end = time.monotonic() + PATIENCE
        while True:
            try:
                self.daemon.call("Allocator/GetClaim",
                                 pb.GetClaimRequest(claim_id="short"),
                                 pb.ClaimInfo, self.token)
            except grpc.RpcError as error:
                self.assertEqual(error.code(), grpc.StatusCode.NOT_FOUND)
                self.assertEqual(details(error)["ErrorInfo"].reason,
                                 "CLAIM_ID_EXPIRED")
                return
            self.assertLess(time.monotonic(), end)
            time.sleep(0.02)

    def test_nobody(self):
        self.refused(grpc.StatusCode.UNAUTHENTICATED, "UNAUTHENTICATED",
                     "Allocator/Claim", pb.ClaimRequest(pool=POOL),
                     pb.ClaimResponse, token="Bearer no")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[5:])
