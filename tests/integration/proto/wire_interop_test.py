#!/usr/bin/env python3
"""Our wire code against Google's: what protoc encodes we unpack, what we pack
protoc decodes, and nothing is lost on the way.

usage: wire_interop_test.py PROTOC WIRE_REPACK PROTO_DIR
"""

import subprocess
import sys
import unittest

PROTOC, REPACK, PROTO_DIR = sys.argv[1:4]

ALLOCATOR = "warmpool/v1/allocator.proto"
HEALTH = "grpc/health/v1/health.proto"
REFLECTION = "grpc/reflection/v1alpha/reflection.proto"
STATUS = "google/rpc/status.proto"

LEASE = """{ claim_id: "gr\\303\\274\\303\\237e" pool { namespace: "team" name: "p" }
  sandbox: "p-1" endpoint: "unix:/run/x" token: "%s" fence: 18446744073709551615
  deadline_unix_ms: 1790000000000 served: SERVED_QUEUED waited_us: 123456 }
""" % ("t" * 68)

# Of wp_wire_unpack_NAME: the file, the message, and its text.
MESSAGES = {
    "claim_request": (ALLOCATOR, "warmpool.v1.ClaimRequest",
        'pool { namespace: "team" name: "p" } claim_id: "\\303\\274" '
        'tenant: "t" ttl_ms: 2592000000 wait_ms: 600000'),
    "claim_response": (ALLOCATOR, "warmpool.v1.ClaimResponse",
        "lease %s replayed: true" % LEASE),
    "batch_request": (ALLOCATOR, "warmpool.v1.ClaimBatchRequest",
        'pool { namespace: "team" name: "p" } claim_ids: "a" claim_ids: "b" '
        'tenant: "t" ttl_ms: 1000 wait_ms: 1 all_or_nothing: true'),
    "batch_response": (ALLOCATOR, "warmpool.v1.ClaimBatchResponse",
        'items { claim_id: "a" code: 8 message: "none" } items { '
        'claim_id: "gr\\303\\274\\303\\237e" lease %s replayed: true }' % LEASE),
    "stream_request": (ALLOCATOR, "warmpool.v1.ClaimStreamRequest",
        'open { pool { namespace: "team" name: "p" } stream_id: "s" '
        'tenant: "t" ttl_ms: 60000 ahead: 256 resume: true keep: 4 keep: 300 } '
        'took: 1 took: 18446744073709551615 back: 2'),
    "stream_response": (ALLOCATOR, "warmpool.v1.ClaimStreamResponse",
        'leases { number: 7 lease %s } taken: 1 taken: 2 ended: 300 '
        'lacking_code: 8 lacking: "none is ready"' % LEASE),
    "renew_request": (ALLOCATOR, "warmpool.v1.RenewRequest",
        'token: "%s" ttl_ms: 60000' % ("t" * 68)),
    "renew_response": (ALLOCATOR, "warmpool.v1.RenewResponse",
        'token: "%s" fence: 7 deadline_unix_ms: 8' % ("t" * 68)),
    "release_request": (ALLOCATOR, "warmpool.v1.ReleaseRequest",
        'token: "%s"' % ("\\000\\377" * 34)),
    "release_response": (ALLOCATOR, "warmpool.v1.ReleaseResponse",
        "was_held: true"),
    "get_claim_request": (ALLOCATOR, "warmpool.v1.GetClaimRequest",
        'claim_id: "c" tenant: "t"'),
    "claim_info": (ALLOCATOR, "warmpool.v1.ClaimInfo",
        'claim_id: "c" tenant: "t" pool { namespace: "n" name: "p" } '
        'state: CLAIM_STATE_LOST sandbox: "p-1" endpoint: "127.0.0.1:1" '
        'fence: 1 granted_unix_ms: 2 deadline_unix_ms: 3 '
        'served: SERVED_COLD lost_reason: "killed"'),
    "list_claims_request": (ALLOCATOR, "warmpool.v1.ListClaimsRequest",
        'pool { namespace: "n" name: "p" } tenant: "t" page_size: 1000 '
        'page_token: "0000000000000001"'),
    "list_claims_response": (ALLOCATOR, "warmpool.v1.ListClaimsResponse",
        'claims { claim_id: "c" pool { name: "p" } '
        'state: CLAIM_STATE_WAITING } '
        'claims { claim_id: "d" pool { name: "p" } state: CLAIM_STATE_HELD } '
        'next_page_token: "0000000000000002"'),
    "list_tenants_request": (ALLOCATOR, "warmpool.v1.ListTenantsRequest",
        'pool { namespace: "n" name: "p" } tenant: "t" '
        'page_token: "0000000000000001"'),
    "list_tenants_response": (ALLOCATOR, "warmpool.v1.ListTenantsResponse",
        'tenants { pool { name: "p" } tenant: "t" leases: 1 waiting: 2 '
        'leases_max: 3 waiting_max: 4 claims_per_minute_max: 5 '
        'claims_total: 6 refused_total: 7 active: true } '
        'tenants { pool { namespace: "n" name: "p" } } '
        'next_page_token: "0000000000000002"'),
    "watch_pools_request": (ALLOCATOR, "warmpool.v1.WatchPoolsRequest",
        'pool { namespace: "n" name: "p" }'),
    "pools": (ALLOCATOR, "warmpool.v1.WatchPoolsResponse",
        'pools { ref { namespace: "n" name: "p" } ready: 1 '
        'cold_start: COLD_START_NEVER } '
        'pools { ref { name: "q" } cold_start: COLD_START_ALLOWED }'),
    "get_pool_request": (ALLOCATOR, "warmpool.v1.GetPoolRequest",
        'pool { namespace: "n" name: "p" }'),
    "set_pool_request": (ALLOCATOR, "warmpool.v1.SetPoolRequest",
        'pool { namespace: "n" name: "p" } target: 1048576 '
        'autoscale { key: "min" value: "3" } '
        'autoscale { key: "schedule" value: "" }'),
    "pool": (ALLOCATOR, "warmpool.v1.Pool",
        'ref { namespace: "n" name: "p" } template: "t" target: 1 warming: 2 '
        'ready: 3 leased: 4 quarantined: 5 dying: 6 waiting: 7 draining: true '
        'breaker_open: true last_failure: "no" created_total: 8 '
        'destroyed_total: 9 failed_total: 10 lost_total: 11 '
        'served_warm_total: 12 served_queued_total: 13 served_cold_total: 14 '
        'refused_total: 15 released_total: 16 expired_total: 17 '
        'cold_start: COLD_START_ALLOWED ttl_default_ms: 18 ttl_max_ms: 19'),
    "pool_detail": (ALLOCATOR, "warmpool.v1.Pool",
        'ref { namespace: "n" name: "p" } template: "t" target: 3 '
        'cold_start: COLD_START_NEVER scaling { replicas: 2 decisions { '
        'number: 7 unix_ms: 1700000000000 target_before: 3 target: 3 '
        'wanted: 2 reason: "nothing-seen" sentence: "target 3: no claim yet: '
        'spec.replicas within the bounds" rate_per_s: 1.5 rate_fast_per_s: 2 '
        'rate_slow_per_s: 1 lead_mean_s: 0.25 '
        'lead_p99_s: 1 expected: 4 spread: 2 dispersion: 1.25 learned: true '
        'reserved: 5 floor: 1 hit_rate: 0.99 idle: 2.5 hit_rate_seen: nan '
        'hit_rate_best: 0.5 at_once: 4 shared_bound: true makes_per_s: 1.5 '
        'queue_s: 0.75 seen_claims: 41 burst_unix_ms: 1700000000001 due_unix_ms: 1700000360000 } reservations { id: "job" sandboxes: 20 '
        'left: 19 not_before_unix_ms: 1700000000000 '
        'until_unix_ms: 1700000060000 } group_unknown: true } missed_total: 8'),
    "reserve_request": (ALLOCATOR, "warmpool.v1.ReserveRequest",
        'pool { namespace: "n" name: "p" } id: "job" sandboxes: 20 '
        'not_before_unix_ms: 1700000000000 until_unix_ms: 1700000060000'),
    "reservation": (ALLOCATOR, "warmpool.v1.Reservation",
        'id: "job" sandboxes: 20 left: 3 not_before_unix_ms: 1 '
        'until_unix_ms: 2'),
    "cancel_reservation_request": (ALLOCATOR,
        "warmpool.v1.CancelReservationRequest",
        'pool { namespace: "n" name: "p" } id: "job"'),
    "create_pool_request": (ALLOCATOR, "warmpool.v1.CreatePoolRequest",
        'manifest: "kind: SandboxWarmPool"'),
    "delete_pool_request": (ALLOCATOR, "warmpool.v1.DeletePoolRequest",
        'pool { namespace: "n" name: "p" }'),
    "delete_pool_response": (ALLOCATOR, "warmpool.v1.DeletePoolResponse",
        "leased: 4"),
    "drain_request": (ALLOCATOR, "warmpool.v1.DrainRequest",
        'pool { namespace: "n" name: "p" }'),
    "drain_response": (ALLOCATOR, "warmpool.v1.DrainResponse", "leased: 9"),
    "health_request": (HEALTH, "grpc.health.v1.HealthCheckRequest",
        'service: "warmpool.v1.Allocator"'),
    "health_response": (HEALTH, "grpc.health.v1.HealthCheckResponse",
        "status: SERVICE_UNKNOWN"),
    "reflection_request": (REFLECTION,
        "grpc.reflection.v1alpha.ServerReflectionRequest",
        'host: "h" file_containing_extension { containing_type: "a.B" '
        'extension_number: 4 }'),
    "reflection_response": (REFLECTION,
        "grpc.reflection.v1alpha.ServerReflectionResponse",
        'valid_host: "h" original_request { host: "h" list_services: "" } '
        'list_services_response { service { name: "a.B" } '
        'service { name: "c.D" } }'),
    "status": (STATUS, "warmpool.status.Status",
        'code: 8 message: "none" details { '
        'type_url: "type.googleapis.com/google.rpc.RetryInfo" '
        'value: "\\n\\004\\010\\001\\020\\005" }'),
}


def protoc(action, kind, file, data):
    return subprocess.run(
        [PROTOC, "--proto_path=" + PROTO_DIR, "--%s=%s" % (action, kind), file],
        input=data, stdout=subprocess.PIPE, check=True).stdout


def repack(name, data):
    return subprocess.run([REPACK, name], input=data, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, check=False)


class Interop(unittest.TestCase):
    def test_every_message(self):
        for name, (file, kind, text) in MESSAGES.items():
            with self.subTest(name):
                theirs = protoc("encode", kind, file, text.encode())
                ours = repack(name, theirs)
                self.assertEqual(ours.returncode, 0, ours.stderr.decode())
                self.assertEqual(protoc("decode", kind, file, ours.stdout),
                                 protoc("decode", kind, file, theirs))

    def test_refusal(self):
        file, kind, _ = MESSAGES["claim_request"]
        ours = repack("claim_request", protoc(
            "encode", kind, file, b'pool { name: "p" }'))
        self.assertEqual(ours.returncode, 2)
        self.assertEqual(ours.stderr,
                         b"claim_id: 1 to 128 bytes expected, got 0\n")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
