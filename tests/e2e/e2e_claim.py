"""SandboxClaims: warm ones in two writes, waiting, cold starts, expiry, the end of a
claim, and a daemon that is killed at every step.
"""
import datetime
import time

import world
from cluster import wait_for
from world import condition, is_ready

PREFIX = "agents.x-k8s.io/"
FAULTS = ("claim.before_claim", "claim.after_claim", "claim.before_adopt",
          "claim.adopt_sent", "claim.after_adopt", "claim.after_status",
          "claim.before_stamps")
COLD_FAULTS = ("claim.before_create", "claim.after_create")


def later(seconds):
    when = datetime.datetime.now(datetime.timezone.utc)
    when += datetime.timedelta(seconds=seconds)
    return when.strftime("%Y-%m-%dT%H:%M:%SZ")


def sandbox_of(item):
    return item.get("status", {}).get("sandbox", {}).get("name", "")


def start(w, replicas, **settings):
    daemon = w.daemon(**settings)
    w.template()
    w.pool("p", replicas)
    return daemon


def wait_reason(w, name, reason, timeout_s=30.0):
    def probe():
        item = w.get("SandboxClaim", name)
        return item if item and condition(item).get("reason") == reason else None
    return wait_for(f"claim {name}: {reason}", probe, timeout_s)


def writes(w, *resources):
    """Writes of these resources that the API server let through."""
    return sum(
        value for key, value in
        w.cluster.metrics("apiserver_request_total").items()
        if any(f'resource="{r}"' in key for r in resources)
        and any(f'verb="{v}"' in key for v in ("POST", "PATCH", "PUT"))
        and 'code="2' in key)


def conflicts(w):
    return sum(value for key, value in
               w.cluster.metrics("apiserver_request_total").items()
               if 'code="409"' in key and 'resource="leases"' not in key)


def test_warm_claim(w):
    """Every field of the contract, and nothing of the pool left."""
    start(w, 2)
    w.claim("c", "p", {"labels": {PREFIX + "created-by": "python-client"}},
            additionalPodMetadata={
                "labels": {"sandbox.users.io/team": "red"}})
    item = w.wait_claim("c")
    notes = item["metadata"]["annotations"]
    observed = notes[PREFIX + "controller-first-observed-at"]
    assert "." in observed and not observed.endswith(".000000000Z"), observed
    ready = condition(item)
    assert ready["reason"] == "DependenciesReady", ready
    assert ready["observedGeneration"] == 1, ready
    name = sandbox_of(item)
    assert item["status"]["sandbox"]["podIPs"], item["status"]
    sandbox = w.get("Sandbox", name)
    labels = sandbox["metadata"]["labels"]
    for gone in ("warm-pool-sandbox", "sandbox-template-hash",
                 "sandbox-pod-template-hash"):
        assert PREFIX + gone not in labels, labels
    assert labels[PREFIX + "launch-type"] == "warm", labels
    assert labels[PREFIX + "claim-uid"] == item["metadata"]["uid"], labels
    assert labels[PREFIX + "created-by"] == "python-client", labels
    assert PREFIX + "sandbox-template-ref-hash" in labels, labels
    owners = sandbox["metadata"]["ownerReferences"]
    assert [(o["kind"], o["uid"], o["controller"], o["blockOwnerDeletion"])
            for o in owners] == [("SandboxClaim", item["metadata"]["uid"],
                                  True, True)], owners
    pod = sandbox["spec"]["podTemplate"]["metadata"]["labels"]
    assert pod["sandbox.users.io/team"] == "red", pod
    # The Pod is named by name alone once it is in no pool.
    wait_for("the Pod without the pool's label", lambda: (
        PREFIX + "warm-pool-sandbox" not in
        w.get("Pod", name)["metadata"]["labels"]))
    wait_for("the annotations after Ready", lambda: (
        w.get("SandboxClaim", "c")["metadata"]["annotations"]
        .get(PREFIX + "sandbox-name") == name and
        w.get("SandboxClaim", "c")["metadata"]["annotations"]
        .get(PREFIX + "claim-first-ready-at")))
    wait_for("the event", lambda: w.events("SandboxAdopted"))
    columns = w.cluster.kubectl("get", "sandboxclaim", "-n", w.namespace)
    assert "READY" in columns and name in columns, columns
    w.wait_pool("p", 2)


def test_serial_claims_are_few_writes(w):
    """Twenty, one after the other: 4 writes of claims and Sandboxes each (their
    creation left out), no conflicts; and how long each took."""
    wait_for("what other scenarios left to be gone", lambda: not w.cluster.get(
        f"{world.EXTENSIONS}/sandboxclaims")["items"])
    start(w, 30)
    count = 20
    time.sleep(2.0)  # The pool comes to rest.
    watch = w.watch("SandboxClaim")
    before = writes(w, "sandboxclaims")
    clashes = conflicts(w)
    took = []
    for i in range(count):
        at = time.monotonic()
        w.claim(f"c{i}", "p")
        seen, _ = watch.until(
            lambda _, item, i=i: item["metadata"]["name"] == f"c{i}"
            and is_ready(item), what=f"c{i} Ready")
        took.append((seen - at) * 1000)
    watch.close()
    time.sleep(2.0)  # What follows Ready.
    ours = writes(w, "sandboxclaims") - before - count
    took.sort()
    print(f"     create to Ready: p50 {took[count // 2]:.1f} ms, "
          f"max {took[-1]:.1f} ms; {ours / count:.2f} writes a claim")
    assert ours <= 3 * count, ours
    assert conflicts(w) - clashes == 0, conflicts(w) - clashes
    assert len(w.check_no_double_grant()) == count
    launches = {s["metadata"]["labels"].get(PREFIX + "launch-type")
                for s in w.list("Sandbox")
                if sandbox_of({"status": {"sandbox": s["metadata"]}})}
    assert "cold" not in launches, launches


def test_more_claims_than_sandboxes(w):
    """Those that find none wait for the next ones; all are served, each once."""
    start(w, 10, cold_grace="30s")
    for i in range(25):
        w.claim(f"c{i}", "p")
    for i in range(25):
        w.wait_claim(f"c{i}", 60.0)
    assert len(w.check_no_double_grant()) == 25
    launches = [w.get("Sandbox", sandbox_of(item))["metadata"]["labels"]
                [PREFIX + "launch-type"] for item in w.list("SandboxClaim")]
    assert launches.count("warm") == 25, launches


def test_cold_claims(w):
    """A pool of none, and claims with wishes of their own."""
    w.daemon()
    w.template(envVarsInjectionPolicy="Allowed")
    w.pool("none", 0, wait=False)
    w.claim("plain", "none")
    w.claim("env", "none", env=[{"name": "A", "value": "1"}])
    for name in ("plain", "env"):
        item = w.wait_claim(name)
        assert sandbox_of(item) == name, item
        labels = w.get("Sandbox", name)["metadata"]["labels"]
        assert labels[PREFIX + "launch-type"] == "cold", labels
    containers = w.get("Sandbox", "env")["spec"]["podTemplate"]["spec"]
    assert containers["containers"][0]["env"] == [
        {"name": "A", "value": "1"}], containers
    w.claim("volumes", "none", volumeClaimTemplates=[{
        "metadata": {"name": "v"}, "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}}}}])
    wait_reason(w, "volumes", "VolumeClaimTemplatesError")
    wait_for("the event", lambda: w.events("SandboxProvisioned"))


def test_what_is_missing(w):
    """Told only when it is so, and served as soon as it is there."""
    w.daemon()
    w.claim("c", "later")
    wait_reason(w, "c", "WarmPoolNotFound")
    w.pool("later", 1, wait=False)
    wait_reason(w, "c", "TemplateNotFound")
    w.template()
    w.wait_claim("c")
    w.claim("bad", "later", additionalPodMetadata={"labels": {"x": "y"}})
    wait_reason(w, "bad", "InvalidMetadata")


def test_pool_and_claim_at_once(w):
    """The claim may be heard of before its pool: nobody is told that it is missing."""
    w.daemon()
    w.template()
    watch = w.watch("SandboxClaim")
    for i in range(10):
        w.pool(f"p{i}", 0, wait=False)
        w.claim(f"c{i}", f"p{i}")
    waiting = {f"c{i}" for i in range(10)}
    while waiting:
        _, item = watch.until(lambda *_: True)
        assert condition(item).get("reason") not in (
            "WarmPoolNotFound", "TemplateNotFound"), item
        if is_ready(item):
            waiting.discard(item["metadata"]["name"])
    watch.close()


def test_expiry(w):
    """Each shutdown policy."""
    start(w, 3)
    for policy in ("Delete", "DeleteForeground", "Retain"):
        w.claim(policy.lower(), "p", lifecycle={
            "shutdownTime": later(8), "shutdownPolicy": policy})
    names = {p: sandbox_of(w.wait_claim(p))
             for p in ("delete", "deleteforeground", "retain")}
    w.wait_gone("SandboxClaim", "delete", 40)
    w.wait_gone("SandboxClaim", "deleteforeground", 40)
    wait_reason(w, "retain", "ClaimExpired")
    for name in names.values():
        w.wait_gone("Sandbox", name)
    wait_for("the retained claim without a sandbox", lambda: (
        not sandbox_of(w.get("SandboxClaim", "retain"))))
    assert w.events("ClaimExpired")


def test_end_of_a_claim(w):
    """Its Sandbox and Pod go with it, and the pool stays as large as it was."""
    start(w, 2)
    w.claim("c", "p")
    name = sandbox_of(w.wait_claim("c"))
    w.wait_pool("p", 2)
    w.delete("SandboxClaim", "c")
    w.wait_gone("Sandbox", name)
    w.wait_gone("Pod", name)
    w.claim("c", "p")
    again = sandbox_of(w.wait_claim("c"))
    assert again != name
    w.wait_pool("p", 2)


def test_sandbox_deleted_under_its_claim(w):
    """The claim says so, or has another one at once."""
    start(w, 2)
    w.claim("c", "p")
    name = sandbox_of(w.wait_claim("c"))
    w.wait_pool("p", 2)
    w.delete("Sandbox", name)
    wait_for("another sandbox", lambda: (
        sandbox_of(w.get("SandboxClaim", "c")) not in ("", name)))
    w.wait_claim("c")
    w.check_no_double_grant()


def kill_at(w, fault, pool, name):
    daemon = w.daemon(name="one", fault=f"{fault}:kill")
    w.wait_pool(pool, w.get("SandboxWarmPool", pool)["spec"]["replicas"])
    w.claim(name, pool)
    wait_for(f"{fault} to end the daemon", daemon.died, 30)
    daemon.restart()
    item = w.wait_claim(name, 60)
    owned = [s["metadata"]["name"] for s in w.list("Sandbox")
             if any(o["uid"] == item["metadata"]["uid"]
                    for o in s["metadata"].get("ownerReferences", []))]
    assert owned == [sandbox_of(item)], (fault, owned)
    w.check_no_double_grant()
    w.stop_daemons()


def test_killed_at_every_step(w):
    """Wherever the daemon is killed, the next one finishes what was begun."""
    w.template()
    w.pool("p", 3, wait=False)
    for i, fault in enumerate(FAULTS):
        kill_at(w, fault, "p", f"c{i}")


def test_killed_at_every_step_of_a_cold_start(w):
    """The same, of a claim that gets a Sandbox of its own making."""
    w.template()
    w.pool("none", 0, wait=False)
    for i, fault in enumerate(COLD_FAULTS):
        kill_at(w, fault, "none", f"c{i}")


world.main(__name__)
