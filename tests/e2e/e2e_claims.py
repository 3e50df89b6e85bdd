"""SandboxClaims: warm, waiting, cold; what is written for them, and how they end."""
import datetime
import time

import world
from cluster import wait_for
from world import condition, is_ready

LABEL = "agents.x-k8s.io/"


def later(seconds):
    when = datetime.datetime.now(datetime.timezone.utc)
    when += datetime.timedelta(seconds=seconds)
    return when.strftime("%Y-%m-%dT%H:%M:%SZ")


def wait_reason(w, name, wanted, timeout_s=300.0):
    return wait_for(f"claim {name}: {wanted}", lambda: condition(
        w.get("SandboxClaim", name)).get("reason") == wanted and
        w.get("SandboxClaim", name), timeout_s)


def test_warm_claim(w):
    """Everything the contract says of an adopted sandbox, in one update for clients."""
    w.daemon(cold_grace="60s")
    w.template()
    w.pool("p", 3)
    before = {s["metadata"]["name"] for s in w.list("Sandbox")}
    watch = w.watch("SandboxClaim")
    w.claim("c", "p")
    seen = []
    _, item = watch.until(lambda kind, o: seen.append(o) or is_ready(o))
    watch.close()
    # Never Ready without its sandbox, and never a reason that a client gives up at.
    for each in seen:
        assert is_ready(each) == ("sandbox" in each.get("status", {})), each
    name = item["status"]["sandbox"]["name"]
    assert name in before
    sandbox = w.get("Sandbox", name)
    labels = sandbox["metadata"]["labels"]
    assert item["status"]["sandbox"]["podIPs"] == sandbox["status"]["podIPs"]
    assert LABEL + "warm-pool-sandbox" not in labels
    assert labels[LABEL + "launch-type"] == "warm"
    assert labels[LABEL + "claim-uid"] == item["metadata"]["uid"]
    owner, = sandbox["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == (
        "SandboxClaim", item["metadata"]["uid"], True)
    # Read once, right after Ready, as upstream's own test does.
    first = w.get("SandboxClaim", "c")["metadata"]["annotations"][
        LABEL + "controller-first-observed-at"]
    assert "." in first and first.endswith("Z"), first
    wait_for("the other annotations", lambda: w.get("SandboxClaim", "c")[
        "metadata"]["annotations"].get(LABEL + "sandbox-name") == name)
    wait_for("a pod that routers see", lambda: LABEL + "warm-pool-sandbox"
             not in w.get("Pod", name)["metadata"]["labels"])
    w.wait_pool("p", 3)
    # Events go last, when nothing else waits.
    wait_for("the event", lambda: [
        e["note"] for e in w.events("SandboxAdopted")] == [
            f'Adopted warm pool Sandbox "{name}"'])
    text = w.cluster.kubectl("-n", w.namespace, "get", "sandboxclaim", "c")
    assert text.split()[:5] == ["NAME", "READY", "SANDBOX", "REASON", "AGE"]
    assert text.split()[5:9] == ["c", "True", name, "DependenciesReady"]


def test_pool_of_none_starts_cold(w):
    """A pool without replicas: a sandbox of the claim's own name, at once."""
    w.daemon()
    w.template()
    w.pool("p", 0)
    w.claim("c", "p")
    item = w.wait_claim("c")
    assert item["status"]["sandbox"]["name"] == "c"
    labels = w.get("Sandbox", "c")["metadata"]["labels"]
    assert labels[LABEL + "launch-type"] == "cold"
    wait_for("the event", lambda: len(w.events("SandboxProvisioned")) == 1)


def test_more_claims_than_sandboxes(w):
    """All are served, warm or cold, each by a sandbox of its own."""
    w.daemon()
    w.template()
    w.pool("p", 5)
    for i in range(20):
        w.claim(f"c{i}", "p")
    for i in range(20):
        w.wait_claim(f"c{i}")
    assert len(w.check_no_double_grant()) == 20
    w.wait_pool("p", 5)


def test_waits_without_cold_start(w):
    """With cold starts off a claim waits, and is served by the next that is ready."""
    w.daemon(cold_start="false")
    w.template()
    w.pool("p", 0)
    w.claim("c", "p")
    time.sleep(3)  # Longer than the grace: it must not have started cold.
    assert not is_ready(w.get("SandboxClaim", "c"))
    assert w.list("Sandbox") == []
    w.patch("SandboxWarmPool", "p", {"spec": {"replicas": 1}})
    name = w.wait_claim("c")["status"]["sandbox"]["name"]
    assert name.startswith("p-")


def test_own_environment_is_cold(w):
    """env is refused unless the template allows it, and then starts cold."""
    w.daemon()
    w.template()
    w.template("open", envVarsInjectionPolicy="Allowed")
    w.pool("p", 1)
    w.pool("q", 1, template="open")
    env = [{"name": "KEY", "value": "value"}]
    w.claim("refused", "p", env=env)
    w.claim("taken", "q", env=env)
    wait_reason(w, "refused", "EnvVarsInjectionRejected")
    assert w.wait_claim("taken")["status"]["sandbox"]["name"] == "taken"
    spec = w.get("Pod", "taken")["spec"]["containers"][0]
    assert env[0] in spec["env"]


def test_what_is_missing(w):
    """No pool, no template, and both once they come."""
    w.daemon()
    w.claim("c", "p")
    wait_reason(w, "c", "WarmPoolNotFound")
    w.pool("p", 1, wait=False)
    w.template()
    w.wait_claim("c")


def test_metadata(w):
    """additionalPodMetadata reaches the pod; what is not allowed is refused."""
    w.daemon()
    w.template()
    w.pool("p", 2)
    w.claim("good", "p", additionalPodMetadata={
        "labels": {"sandbox.users.io/team": "blue"}})
    w.claim("bad", "p", additionalPodMetadata={"labels": {"team": "blue"}})
    wait_reason(w, "bad", "InvalidMetadata")
    name = w.wait_claim("good")["status"]["sandbox"]["name"]
    wait_for("the label on the pod", lambda: w.get("Pod", name)["metadata"][
        "labels"].get("sandbox.users.io/team") == "blue")


def test_deleted_claim(w):
    """Its sandbox and pod go, by the cluster's own garbage collector."""
    w.daemon()
    w.template()
    w.pool("p", 2)
    w.claim("c", "p")
    name = w.wait_claim("c")["status"]["sandbox"]["name"]
    w.delete("SandboxClaim", "c")
    w.wait_gone("Sandbox", name)
    w.wait_gone("Pod", name)
    w.wait_pool("p", 2)
    assert len(w.list("Sandbox")) == 2


def test_expiry(w):
    """shutdownTime: Retain keeps the claim and says ClaimExpired, Delete deletes it."""
    w.daemon()
    w.template()
    w.pool("p", 2)
    w.claim("kept", "p", lifecycle={"shutdownTime": later(3600)})
    w.claim("gone", "p", lifecycle={"shutdownTime": later(3600),
                                    "shutdownPolicy": "Delete"})
    name = w.wait_claim("kept")["status"]["sandbox"]["name"]
    w.wait_claim("gone")
    for claim in ("kept", "gone"):
        w.patch("SandboxClaim", claim,
                {"spec": {"lifecycle": {"shutdownTime": later(2)}}})
    w.wait_gone("SandboxClaim", "gone")
    wait_reason(w, "kept", "ClaimExpired")
    w.wait_gone("Sandbox", name)


def test_finished(w):
    """A pod that ended: Finished, and after its time to live the claim goes."""
    w.daemon()
    w.template()
    w.pool("p", 1)
    w.claim("c", "p", lifecycle={"ttlSecondsAfterFinished": 2,
                                 "shutdownPolicy": "Delete"})
    name = w.wait_claim("c")["status"]["sandbox"]["name"]
    watch = w.watch("SandboxClaim")
    w.patch("Pod", name, {"metadata": {"annotations": {
        "e2e.warmpool.dev/finish": "Succeeded"}}})
    watch.until(lambda _, item: condition(item, "Finished").get("status")
                == "True", what="Finished")
    watch.close()
    w.wait_gone("SandboxClaim", "c")


def test_pod_deleted_under_a_lease(w):
    """The claim says that it is not Ready, and is Ready again with the new pod."""
    w.daemon()
    w.template()
    w.pool("p", 1)
    w.claim("c", "p")
    name = w.wait_claim("c")["status"]["sandbox"]["name"]
    old = w.get("Pod", name)["metadata"]["uid"]
    w.delete("Pod", name)
    wait_for("another pod", lambda: (w.get("Pod", name) or {}).get(
        "metadata", {}).get("uid") not in (None, old))
    again = w.wait_claim("c")
    assert again["status"]["sandbox"]["name"] == name


def test_sandbox_deleted_under_a_lease(w):
    """The claim is not left with a name of nothing."""
    w.daemon()
    w.template()
    w.pool("p", 2)
    w.claim("c", "p")
    name = w.wait_claim("c")["status"]["sandbox"]["name"]
    w.delete("Sandbox", name)
    w.wait_gone("Sandbox", name)

    def settled():
        item = w.get("SandboxClaim", "c")
        other = item.get("status", {}).get("sandbox", {}).get("name")
        return not is_ready(item) or other != name
    wait_for("the claim to hear of it", settled)
    w.check_no_double_grant()


world.main(__name__)
