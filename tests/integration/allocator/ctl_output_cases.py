"""The commands of ctl_output_test.py, and what the daemon replies to each."""

import math

from fake_daemon import FAR_MS, Odd, Refusal
from warmpool.v1 import allocator_pb2 as pb

AT_MS = 1772600767123  # 2026-03-04 05:06:07.
HOUR_MS = 3600 * 1000
AGENTS = pb.PoolRef(namespace="team", name="agents")
POOL_JSON = '{"kind": "SandboxWarmPool"}'
FILES = {"pool.json": POOL_JSON, "claims.csv": "1780000000\n1780000007,3\n",
         "sparse.csv": "1780000000\n1790000000\n",
         "many.csv": "1780000000,16384\n", "too-many.csv": "1780000000,16385\n",
         "bad.csv": "1780000000\n1\n", "nul.yaml": "kind: \0\n",
         "token.json": '{"claim_id": "c1", "token": "%s"}' % ("5a" * 68),
         "other.json": '{"claim_id": 1}', "secret.txt": "sesame\n", "one.txt": "text\n"}
TOKEN = bytes(range(1, 69))
TERMINAL = {"terminal": True}
NO_HOME = {"env": {"XDG_STATE_HOME": "/dev/null"}}


def status(code, text, retry_s=None):
    """A refusal, and when to come again as google.rpc.RetryInfo says it."""
    def field(number, value):
        return bytes([number << 3 | 2, len(value)]) + value

    info = field(1, b"type.googleapis.com/google.rpc.RetryInfo")
    details = b""
    if retry_s is not None:
        delay = bytes([8, retry_s])
        details = field(3, info + field(2, field(1, delay)))
    return Refusal(code, text, details)


def lease(claim_id, **more):
    values = {"pool": AGENTS, "sandbox": "sb-" + claim_id, "token": TOKEN,
              "endpoint": "unix:/run/sb.sock", "fence": 41,
              "deadline_unix_ms": FAR_MS, "served": pb.SERVED_WARM, **more}
    return pb.Lease(claim_id=claim_id, **values)


BOUND = pb.Bound(
    env=["CI"], secrets=["KEY", "PEM"], files=["a", "b", "c"],
    working_dir="work", started=True, repositories=["https://g/x@main"],
    volumes=["notes"], egress="packages", identity="vault")
ONE_OF_EACH = pb.Bound(env=["A", "B"], secrets=["S"], files=["f"])
CLAIM = [
    (["claim", "team/agents", "--id", "c1", "-t", "me", "--ttl", "90s",
      "--wait", "2500ms"], {"Claim": [pb.ClaimResponse(lease=lease("c1"))]}),
    (["claim", "agents"],
     {"Claim": [pb.ClaimResponse(replayed=True, lease=lease(
         "again", served=pb.SERVED_QUEUED, waited_us=1250000,
         deadline_unix_ms=AT_MS), bound=BOUND)]}),
    (["claim", "agents", "--env", "CI=1", "--secret", "KEY=@secret.txt",
      "--copy", "one.txt:app.txt", "--repo", "https://g/x@main:src",
      "--volume", "notes:n", "--workdir", "work", "--egress", "packages",
      "--identity", "vault", "--run", "-o", "json", "--", "sh", "-c", "x"],
     {"Claim": [pb.ClaimResponse(bound=BOUND, lease=lease(
         "b1", served=pb.SERVED_COLD, waited_us=77, deadline_unix_ms=AT_MS))]}),
    (["claim", "agents", "--env", "A=1"],
     {"Claim": [pb.ClaimResponse(lease=lease("b2"), bound=ONE_OF_EACH)]}),
    (["claim", "agents", "-o", "name"],
     {"Claim": [pb.ClaimResponse(lease=lease("c1"))]}),
    (["claim", "agents", "-o", "name"],
     {"Claim": [pb.ClaimResponse(lease=lease("c1"))]}, NO_HOME),
    (["claim", "agents"], {"Claim": [pb.ClaimResponse(lease=lease("c1"))]},
     TERMINAL),
    (["claim", "agents"],
     {"Claim": [status("RESOURCE_EXHAUSTED", "none is ready", 7)]}),
    (["claim", "agents", "-o", "json"],
     {"Claim": [status("RESOURCE_EXHAUSTED", "none is ready", 7)]}),
    (["claim", "agents"],
     {"Claim": [status("INVALID_ARGUMENT", "wait_ms: too long")]}),
    (["claim", "agents"],
     {"Claim": [status("PERMISSION_DENIED", "you may not")]}),
    (["claim", "agents"],
     {"Claim": [status("PERMISSION_DENIED", "the sandbox says no")]}),
    (["claim", "agents"], {"Claim": [status("UNAVAILABLE", "")]}),
    (["claim", "agents"], {"Claim": [status("DATA_LOSS", "")]}),
    (["claim", "agents"], {"Claim": [Odd()]}),
    (["claim", "agents"], {"Claim": []}),
    (["claim", "agents", "--all-or-nothing"], {}),
    (["claim", "agents", "-n", "2", "--env", "A=1"], {}),
    (["claim", "Agents"], {}),
    (["claim", "Team/agents", "-n", "2"], {}),
]

TWO = [pb.BatchItem(claim_id="j-1", lease=lease("j-1", deadline_unix_ms=AT_MS)),
       pb.BatchItem(claim_id="j-2", code=8, message="quota is used up")]
BATCH = [
    (["claim", "agents", "-n", "2", "--id", "j", "--all-or-nothing", "--ttl",
      "1h", "--wait", "1s", "-t", "me"],
     {"ClaimBatch": [pb.ClaimBatchResponse(items=TWO[:1])]}),
    (["claim", "agents", "-n", "2"],
     {"ClaimBatch": [pb.ClaimBatchResponse(items=TWO)]}),
    (["claim", "agents", "-n", "2", "--id", "j", "-o", "json"],
     {"ClaimBatch": [pb.ClaimBatchResponse(items=TWO)]}),
    (["claim", "agents", "-n", "2", "--id", "j", "-o", "name"],
     {"ClaimBatch": [pb.ClaimBatchResponse(items=[
         TWO[0], pb.BatchItem(claim_id="j-2", code=5, message="no pool")])]}),
    (["claim", "agents", "-n", "10", "--id", "x" * 125, "-o", "name"],
     {"ClaimBatch": [pb.ClaimBatchResponse(items=TWO[:1])]}),
    (["claim", "agents", "-n", "9", "--id", "x" * 126, "-o", "name"],
     {"ClaimBatch": [pb.ClaimBatchResponse(items=TWO[:1])]}),
    (["claim", "agents", "-n", "1", "--id", "x" * 127], {}),
]

HELD = pb.ClaimInfo(
    claim_id="c1", tenant="me", pool=AGENTS, state=pb.CLAIM_STATE_HELD,
    sandbox="sb-1", endpoint="unix:/run/sb.sock", fence=41,
    granted_unix_ms=AT_MS, deadline_unix_ms=FAR_MS, served=pb.SERVED_WARM)
WAITING = pb.ClaimInfo(claim_id="w1", pool=AGENTS,
                       state=pb.CLAIM_STATE_WAITING)
LOST = pb.ClaimInfo(
    claim_id="l1", pool=AGENTS, state=pb.CLAIM_STATE_LOST, sandbox="sb-2",
    endpoint="unix:/run/sb.sock", fence=2, deadline_unix_ms=AT_MS,
    served=pb.SERVED_COLD, lost_reason="it was killed")
LOST_SO = pb.ClaimInfo(claim_id="l2", pool=AGENTS, state=pb.CLAIM_STATE_LOST)
PAGES = {"ListClaims": [
    [pb.ListClaimsResponse(claims=[HELD, WAITING], next_page_token="p2")],
    [pb.ListClaimsResponse(claims=[LOST])]]}
LONG_PAGE = "p" * 65
LEASES = [
    *[(["get", claim.claim_id, *output], {"GetClaim": [claim]})
      for claim, output in (
          (HELD, []), (HELD, ["-t", "me", "-o", "json"]),
          (HELD, ["-o", "name"]), (WAITING, []), (WAITING, ["-o", "json"]),
          (LOST, []), (LOST, ["-o", "json"]), (LOST_SO, []))],
    (["get", "c9"], {"GetClaim": [status("NOT_FOUND", "no such claim")]}),
    (["list", "-p", "team/agents", "-t", "me"], PAGES),
    (["list", "-o", "json"], PAGES),
    (["list", "-o", "name"], PAGES),
    (["list", "-p", "Agents"], {}),
    (["list"], {"ListClaims": [
        [pb.ListClaimsResponse(claims=[HELD], next_page_token="p2")],
        [status("UNAVAILABLE", "leaving", 2)]]}),
    (["list"], {"ListClaims": [pb.ListClaimsResponse(
        claims=[HELD], next_page_token=LONG_PAGE)]}),
    (["list"], {"ListClaims": [[pb.ListClaimsResponse(
        claims=[HELD], next_page_token=LONG_PAGE[1:])],
        [pb.ListClaimsResponse()]]}),
    *[(["renew", "c1", "--token", TOKEN.hex(), "--ttl", "1h", "--hold",
        *output], {"Renew": [pb.RenewResponse(
            token=TOKEN[::-1], fence=42, deadline_unix_ms=deadline_ms)]})
      for output, deadline_ms in (([], FAR_MS), (["-o", "json"], AT_MS),
                                  (["-o", "name"], AT_MS),
                                  (["-o", "json"], 0))],
    (["renew", "c9"], {}),
    # The remembered one, and then the one that it was renewed by.
    (["renew", "c1", "-o", "name"],
     {"Renew": [pb.RenewResponse(token=TOKEN[::-1], deadline_unix_ms=7)]}),
    (["renew", "c1", "-o", "name"], {"Renew": [pb.RenewResponse(token=TOKEN)]}),
    (["renew", "c1"], {}, NO_HOME),
    (["renew", "c1"], {}, {"env": {"XDG_STATE_HOME": "", "HOME": ""}}),
    (["renew", "c1"], {}, {"env": {"XDG_STATE_HOME": "/" + "x" * 4096}}),
    (["renew", "c1", "--token-file", "gone"], {}),
    (["renew", "c1", "--token-file", "one.txt"], {}),
    (["renew", "c1", "--token-file", "token.json", "-o", "name"],
     {"Renew": [pb.RenewResponse(token=TOKEN)]}),
    (["renew", "c1", "--token-file", "other.json"], {}),
    (["renew", "c1", "--token", TOKEN.hex()],
     {"Renew": [status("ABORTED", "it has just ended")]}),
    *[(["release", "c1", "c2", "--token", TOKEN.hex(), *output],
       {"Release": [[pb.ReleaseResponse(was_held=True)],
                    [pb.ReleaseResponse()]]})
      for output in ([], ["-o", "json"], ["-o", "name"])],
    (["release", "c1", "c2", "--token", TOKEN.hex()],
     {"Release": [[status("UNAVAILABLE", "leaving", 3)],
                  [pb.ReleaseResponse(was_held=True)]]}),
    (["release", "c1", "--token", "00"], {}),
]


def use(tenant, **more):
    return pb.TenantUse(pool=AGENTS, tenant=tenant, **more)


TENANTS = {"ListTenants": [
    [pb.ListTenantsResponse(next_page_token="p2", tenants=[
        use("me", leases=1, waiting=2, leases_max=4, waiting_max=5,
            claims_per_minute_max=6, claims_total=7, refused_total=8,
            active=True)])],
    [pb.ListTenantsResponse(tenants=[use("", claims_total=1)])]]}
TENANT_CASES = [
    (["tenants", "team/agents", "-t", "me"], TENANTS),
    (["tenants", "-o", "json"], TENANTS),
    (["tenants", "-o", "name"], TENANTS),
    (["tenants", "A"], {}),
    (["tenants"], {"ListTenants": [status("PERMISSION_DENIED", "not you")]}),
    (["tenants"], {"ListTenants": [pb.ListTenantsResponse(
        next_page_token=LONG_PAGE)]}),
]

FULL = pb.Pool(
    ref=AGENTS, template="python", target=3, warming=1, ready=3, leased=5,
    quarantined=6, dying=7, waiting=8, created_total=9, destroyed_total=10,
    failed_total=11, lost_total=12, served_warm_total=29,
    served_queued_total=2, served_cold_total=1, refused_total=13,
    released_total=14, expired_total=15, cold_start=pb.COLD_START_ALLOWED,
    ttl_default_ms=600000, ttl_max_ms=7200000, missed_total=3)


def pool(name, **more):
    return pb.Pool(ref=pb.PoolRef(namespace="default", name=name),
                   template="t", **more)


FAILING = pool("failing", target=2, breaker_open=True, last_failure="no image")
POOL = pb.ListPoolsResponse(pools=[
    FULL, pool("filling", target=2, ready=1, warming=1),
    pool("short", target=2, ready=1), FAILING,
    pool("unsaid", target=1, breaker_open=True),
    pool("leaving", draining=True, last_failure="is old"),
    pool("others", target=4, ready=4, partial=True)])
WATCHED = [pb.WatchPoolsResponse(pools=[FULL]),
           pb.WatchPoolsResponse(pools=[FAILING])]
POOLS = [
    *[(["pools", *output], {"ListPools": [POOL]})
      for output in ([], ["-o", "json"], ["-o", "name"])],
    (["pools", "team/agents"], {"GetPool": [FULL]}),
    (["pools", "agents"], {"GetPool": [status("NOT_FOUND", "pool: none")]}),
    (["pools", "a/b/c"], {}),
    (["scale", "team/agents", "1048576"], {"SetPool": [FULL]}),
    (["scale", "agents", "1048577"], {}),
    (["scale", "agents", "-o", "json", "x"], {}),
    (["scale", "a_b", "1"], {}),
    (["scale", "agents", "1"],
     {"SetPool": [status("FAILED_PRECONDITION", "it is replicated")]}),
    (["watch", "team/agents"], {"WatchPools": WATCHED}),
    (["watch"], {"WatchPools": WATCHED}, TERMINAL),
    (["watch", "-o", "json"], {"WatchPools": WATCHED}),
    (["watch", "-o", "json"], {"WatchPools": WATCHED}, TERMINAL),
    (["watch", "-o", "name"], {"WatchPools": [WATCHED[0], Odd()]}),
    (["watch"], {"WatchPools": [status("UNAVAILABLE", "leaving")]}),
    (["watch", "_"], {}),
    *[(["drain", *words], {"Drain": [pb.DrainResponse(leased=4)]})
      for words in (["team/agents", "--grace", "5m"], ["--grace", "5m"], [],
                    ["agents", "--undo"], ["agents", "-o", "json"],
                    ["--undo"], ["A"])],
    (["drain"], {"Drain": [status("PERMISSION_DENIED", "not you")]}),
]

POLICY = {"objective": "99.9%", "max": "60"}
SCALED = pb.Pool(ref=AGENTS, target=9, ready=7, warming=2, autoscale=POLICY,
                 missed_total=3, scaling=pb.Scaling(replicas=4))
SET = [
    *[(["set", "team/agents", "--target", "3", "-s", "objective=99.9%", "-s",
        "max=60", *output], {"SetPool": [SCALED]})
      for output in ([], ["-o", "json"], ["-o", "name"])],
    (["set", "agents", "-s", "schedule=", "-o", "json"], {"SetPool": [FULL]}),
    (["set", "agents", "--target", "5"], {"SetPool": [FULL]}),
    (["set", "agents", "--target", "1048577"], {}),
    (["set", "agents"], {}),
    (["set", "A", "--target", "1"], {}),
    (["set", "agents", "--target", "1"],
     {"SetPool": [status("INVALID_ARGUMENT", "target: too much")]}),
    (["create", "team/ci", "--template", "python", "--target", "1048576", "-s",
      "objective=99%", "-s", "max=5"], {"CreatePool": [FULL]}),
    (["create", "ci", "--template", "python", "-s", "max=5", "-o", "name"],
     {"CreatePool": [FULL]}),
    (["create", "--file", "pool.json", "-o", "name"], {"CreatePool": [FULL]}),
    (["create", "--file", "pool.json"],
     {"CreatePool": [status("ALREADY_EXISTS", "there is one")]}),
    *[(["create", *words], {}) for words in (
        ["--file", "gone.yaml"], ["--file", "nul.yaml"], ["--file", "."], [],
        ["ci"], ["ci", "--template", "t"], ["ci", "--target", "1"],
        ["Ci", "--template", "t", "--target", "1"],
        ["ci", "--template", "t", "--target", "1048577"],
        ["--file", "pool.json", "ci"], ["--file", "pool.json", "-s", "max=1"],
        ["--file", "pool.json", "--template", "t"],
        ["--file", "pool.json", "--target", "1"])],
    (["delete", "team/ci"], {"DeletePool": [pb.DeletePoolResponse(leased=3)]}),
    (["delete", "ci", "-o", "json"],
     {"DeletePool": [pb.DeletePoolResponse(leased=3)]}),
    (["delete", "ci"], {"DeletePool": [status("NOT_FOUND", "pool: gone")]}),
    (["delete", "C"], {}),
]


# Numbers are such as binary fractions have.
def decision(number, reason, **more):
    values = {"target": 5, "target_before": 4, "wanted": 6,
              "rate_per_s": 1 / 16, "rate_fast_per_s": 1 / 2048,
              "rate_slow_per_s": 1 / 64, "lead_mean_s": 8.25, "lead_p99_s": 12.5,
              "expected": 0.375, "spread": 3.625, "dispersion": 1.25,
              "hit_rate": 511 / 512, "idle": 12.5, "hit_rate_seen": 127 / 128,
              "seen_claims": 1234567, "hit_rate_best": math.nan,
              "makes_per_s": math.nan, "queue_s": math.nan, **more}
    return pb.ScaleDecision(
        number=number, unix_ms=AT_MS + number * HOUR_MS, reason=reason,
        sentence=f"target {values['target']}: {reason}", **values)


RESERVED = pb.Reservation(id="nightly", sandboxes=20, left=12,
                          not_before_unix_ms=AT_MS,
                          until_unix_ms=AT_MS + HOUR_MS)
STUCK = decision(8, "no-progress", learned=True, reserved=3, floor=2,
                 at_once=4, shared_bound=True, makes_per_s=0.875, queue_s=2.5,
                 hit_rate_best=63 / 64, burst_unix_ms=AT_MS)
EARLIER = [decision(7, "forecast", target=3, target_before=2,
                    rate_per_s=1 / 2048, lead_mean_s=1 / 256, queue_s=0.125,
                    at_once=2, seen_claims=12345),
           decision(6, "min", lead_mean_s=math.nan, hit_rate=math.nan,
                    hit_rate_seen=math.nan, lead_p99_s=math.inf)]


def explained(*decisions, **more):
    whole = pb.Pool()
    whole.CopyFrom(SCALED)
    whole.scaling.decisions.extend(decisions)
    whole.last_failure = "no image"
    for key, value in more.items():
        if key == "reservations":
            whole.scaling.reservations.extend(value)
        else:
            whole.scaling.group_unknown = value
    return whole


STUCK_POOL = explained(STUCK, *EARLIER, reservations=[RESERVED],
                       group_unknown=True)
EXPLAIN = [
    *[(["explain", "team/agents", *words], {"GetPool": [STUCK_POOL]})
      for words in ([], ["--terms"], ["-o", "json"], ["-o", "name"])],
    *[(["explain", "agents", *terms],
       {"GetPool": [explained(each, *before)]})
      for each, before, terms in (
          (EARLIER[0], [], ["--terms"]), (EARLIER[1], [], ["--terms"]),
          (EARLIER[0], [EARLIER[0], EARLIER[1]], ["--terms"]),
          (decision(1, "by-hand"), [], []),
          (decision(1, "no-claims-yet"), [], []),
          (decision(1, "saturated", expected=4, at_once=4, makes_per_s=0.5),
           [], []),
          (decision(1, "between-bursts", learned=True,
                    due_unix_ms=AT_MS + 99 * HOUR_MS), [], []),
          (decision(1, "burst", learned=True, spread=0, seen_claims=999), [],
           []))],
    (["explain", "agents"], {"GetPool": [SCALED]}),
    (["explain", "agents"], {"GetPool": [FULL]}),
    (["explain", "agents", "-o", "json"], {"GetPool": [FULL]}),
    (["explain", "A"], {}),
    (["explain", "agents"], {"GetPool": [status("INTERNAL", "broken")]}),
    (["explain", "agents"], {"GetPool": [Odd()]}),
    *[(["reserve", "team/agents", "20", *words], {"Reserve": [RESERVED]})
      for words in ([], ["--in", "15m", "--for", "5m", "--id", "nightly"],
                    ["--id", "nightly", "-o", "json"], ["-o", "name"])],
    (["reserve", "agents", "1"],
     {"Reserve": [status("FAILED_PRECONDITION", "no objective")]}),
    *[(["reserve", *words], {"Reserve": [RESERVED]}) for words in (
        ["agents", "0"], ["agents", "1048577"], ["agents", "1048576"],
        ["agents", "many"], ["A", "1"], ["agents"])],
    *[(["unreserve", "team/agents", "nightly", *output],
       {"CancelReservation": [pb.CancelReservationResponse()]})
      for output in ([], ["-o", "json"])],
    (["unreserve", "agents", "x"],
     {"CancelReservation": [status("NOT_FOUND", "no such reservation")]}),
    (["unreserve", "A", "x"], {}),
]


def row(kind, name, setting, **more):
    values = {"claims": 200, "hit_rate": 31 / 32, "hit_rate_low": 61 / 64,
              "hit_rate_high": 63 / 64, "wait_p50_s": 0, "wait_p99_s": 1.5,
              "idle_mean": 2.25, "idle_sandbox_s": 7200,
              "warming_sandbox_s": 3600, "created": 210, "unused": 10,
              "stock_max": 7, **more}
    return pb.AdviseRow(kind=kind, name=name, setting=setting, **values)


ROWS = [row(pb.ADVISE_KIND_TODAY, "today", "replicas=4"),
        row(pb.ADVISE_KIND_OBJECTIVE, "objective", "objective=99%",
            hit_rate=1015 / 1024, wait_p99_s=0),
        row(pb.ADVISE_KIND_FIXED, "fixed size", "replicas=9"),
        row(pb.ADVISE_KIND_CLAIRVOYANT, "clairvoyant", "-"),
        row(0, "another", "x=1", hit_rate=math.nan)]
REPORT = pb.AdviseReport(
    from_unix_ms=AT_MS, until_unix_ms=AT_MS + 50 * HOUR_MS, claims=200,
    known_ms=49 * HOUR_MS, dropped=1, gaps=2, lead_times=190, lead_mean_s=8.25,
    lead_p99_s=12.5, rows=ROWS, recommended=1, at_once=3, peaks=4,
    lines=["set objective=99%.", "The claims of " + "many " * 20 + "days."])
NO_ADVICE = pb.AdviseReport(rows=ROWS[:1], recommended=-1)
ADVICE = [pb.AdviseResponse(progress=0.26), pb.AdviseResponse(progress=7),
          pb.AdviseResponse(progress=1, report=REPORT)]
ADVISE = [
    (["advise", "team/agents", "--objective", "99%", "--objective", "95%",
      "--lead", "1500ms"], {"Advise": ADVICE}),
    (["advise", "agents"], {"Advise": ADVICE}, TERMINAL),
    (["advise", "agents", "-o", "name"], {"Advise": ADVICE}, TERMINAL),
    (["advise", "agents", "-o", "json"], {"Advise": ADVICE}),
    *[(["advise", "agents", "-o", output],
       {"Advise": [pb.AdviseResponse(report=NO_ADVICE)]})
      for output in ("table", "json", "name")],
    (["advise", "agents", "--csv", "claims.csv", "-o", "name"],
     {"Advise": ADVICE}),
    (["advise", "agents", "--csv", "too-many.csv"], {"Advise": ADVICE}),
    (["advise", "agents", "--csv", "sparse.csv"], {"Advise": ADVICE}),
    (["advise", "agents", "--csv", "bad.csv"], {}),
    (["advise", "agents", "--csv", "gone.csv"], {}),
    (["advise", "agents", "--plot", "gone/x.svg"], {"Advise": ADVICE}),
    (["advise", "agents", "--plot", "/dev/full"], {"Advise": ADVICE}),
    (["advise", "agents", "--plot", "x.svg", "-o", "name"],
     {"Advise": ADVICE}),
    (["advise", "agents"], {"Advise": ADVICE[:1]}),
    (["advise", "agents"], {"Advise": [ADVICE[0], Odd()]}),
    (["advise", "agents"], {"Advise": [status("UNAVAILABLE", "off", 1)]}),
    (["advise", "A"], {}),
    (["advise"], {}),
    (["advise", "--csv", "claims.csv"], {}),
    (["advise", "--csv", "gone.csv", "--lead", "1s"], {}),
    (["advise", "agents", "--objective", "2"], {}),
    (["advise", "agents", "--objective", "cost"], {}),
]

CASES = [*CLAIM, *BATCH, *LEASES, *TENANT_CASES, *POOLS, *SET, *EXPLAIN,
         *ADVISE]
