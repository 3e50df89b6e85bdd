"""From upstream's controllers to this one, and back: what upstream's leave behind is made
here as its contract says, field by field, and claims live through the change. What is
then left when this daemon goes is what upstream's controllers read.
"""
import datetime
import threading
import time

import world
from cluster import wait_for
from world import condition, is_ready, path_of

AGENTS = "agents.x-k8s.io/"
POOL = AGENTS + "warm-pool-sandbox"
TEMPLATE = AGENTS + "sandbox-template-ref-hash"
SYSTEM = "agent-sandbox-system"
LEASE = "a3317529.agent-sandbox.x-k8s.io"
EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"


def name_hash(name):
    value = 2166136261
    for byte in name.encode():
        value = (value ^ byte) * 16777619 % 2**32
    return f"{value:08x}"


def now():
    return datetime.datetime.now(datetime.timezone.utc).strftime(
        "%Y-%m-%dT%H:%M:%SZ")


def owner(kind, item, version="v1beta1"):
    group = "agents" if kind == "Sandbox" else "extensions.agents"
    return {"apiVersion": f"{group}.x-k8s.io/{version}", "kind": kind,
            "name": item["metadata"]["name"], "uid": item["metadata"]["uid"],
            "controller": True, "blockOwnerDeletion": True}


class Upstream:
    """Makes what its controllers make."""

    def __init__(self, w):
        self.w = w
        self.template = w.template()
        w.patch("SandboxTemplate", "python", {"metadata": {"labels": {
            TEMPLATE: name_hash("python")}}})

    def pool(self, name, replicas, **spec):
        pool = self.w.pool(name, replicas, wait=False, **spec)
        self.w.patch("SandboxWarmPool", name, {"status": {
            "replicas": replicas, "readyReplicas": replicas,
            "selector": f"{POOL}={name_hash(name)}", "observedGeneration": 1}},
            "status")
        return pool

    def sandbox(self, name, labels, pod_labels, references, evict):
        """As Go writes it: what is empty is there, and defaults are filled in."""
        w = self.w
        sandbox = w.create("Sandbox", name, {
            "podTemplate": {
                "metadata": {"labels": pod_labels, **(
                    {"annotations": {EVICT: "true"}} if evict else {})},
                "spec": {
                    "containers": [{
                        "name": "main", "image": "registry.invalid/pause:1",
                        "ports": [{"containerPort": 8888, "protocol": "TCP"}],
                        "resources": {}}],
                    "automountServiceAccountToken": False, "dnsPolicy": "None",
                    "dnsConfig": {"nameservers": ["8.8.8.8", "1.1.1.1"]}}},
            "shutdownPolicy": "Retain"}, {
                "labels": labels, "ownerReferences": references,
                "annotations": {AGENTS + "sandbox-template-ref": "python",
                                AGENTS + "pod-name": name}})
        w.cluster.request("POST", path_of("Pod", w.namespace), {
            "apiVersion": "v1", "kind": "Pod", "metadata": {
                "name": name, "labels": {
                    AGENTS + "sandbox-name-hash": name_hash(name),
                    **{k: v for k, v in labels.items() if k in (
                        POOL, TEMPLATE, AGENTS + "created-by")}},
                "annotations": {EVICT: "true"} if evict else {},
                "ownerReferences": [owner("Sandbox", sandbox)]},
            "spec": sandbox["spec"]["podTemplate"]["spec"]})
        pod = wait_for(f"pod {name}", lambda: next(
            (p for p in [w.get("Pod", name)] if is_ready(p)
             and p["status"].get("podIPs")), None))
        status = {
            "podIPs": [ip["ip"] for ip in pod["status"]["podIPs"]],
            "nodeName": pod["spec"]["nodeName"],
            "selector": f"{AGENTS}sandbox-name-hash={name_hash(name)}",
            "conditions": [
                {"type": kind, "status": status, "reason": reason,
                 "message": message, "observedGeneration": 1,
                 "lastTransitionTime": now()}
                for kind, status, reason, message in (
                    ("Suspended", "False", "NotSuspended", ""),
                    ("Ready", "True", "DependenciesReady", "Pod is Ready"))]}
        return w.patch("Sandbox", name, {"status": status}, "status")

    def member(self, name, pool):
        labels = {
            POOL: name_hash(pool["metadata"]["name"]),
            TEMPLATE: name_hash("python"),
            # Of the bytes that Go made of its types: not for us to know.
            AGENTS + "sandbox-template-hash": "0badf00d",
            AGENTS + "sandbox-pod-template-hash": "0badf00d",
        }
        return self.sandbox(
            name, {**labels, AGENTS + "launch-type": "warm",
                   AGENTS + "created-by": "controller"}, labels,
            [owner("SandboxWarmPool", pool)], True)

    def claim(self, name, pool, sandbox_name, launch="warm", version="v1beta1"):
        w = self.w
        stamp = now().replace("Z", ".123456789Z")
        claim = w.claim(name, pool, {"annotations": {
            AGENTS + "sandbox-name": sandbox_name,
            AGENTS + "controller-first-observed-at": stamp,
            AGENTS + "claim-first-ready-at": stamp}})
        uid = claim["metadata"]["uid"]
        labels = {AGENTS + "claim-uid": uid, TEMPLATE: name_hash("python")}
        sandbox = self.sandbox(
            sandbox_name, {**labels, AGENTS + "launch-type": launch}, labels,
            [owner("SandboxClaim", claim, version)], False)
        ready = dict(condition(sandbox), observedGeneration=1)
        w.patch("SandboxClaim", name, {"status": {
            "sandbox": {"name": sandbox_name,
                        "podIPs": sandbox["status"]["podIPs"]},
            "conditions": [ready]}}, "status")
        return claim


def uids(w, kind):
    return {item["metadata"]["name"]: item["metadata"]["uid"]
            for item in w.list(kind)}


def drain(watch):
    found = []
    while not watch.events.empty():
        found.append(watch.events.get()[1:])
    return found


def holder(w, name):
    return w.get("SandboxClaim", name).get("status", {}).get(
        "sandbox", {}).get("name")


def check_left_for_upstream(w, pools):
    """What its controllers look for, on every object."""
    for claim in w.list("SandboxClaim"):
        meta, status = claim["metadata"], claim["status"]
        name = status["sandbox"]["name"]
        assert meta["annotations"][AGENTS + "sandbox-name"] == name
        assert meta["annotations"][AGENTS + "claim-first-ready-at"]
        sandbox = w.get("Sandbox", name)
        labels = sandbox["metadata"]["labels"]
        assert labels[AGENTS + "claim-uid"] == meta["uid"]
        assert labels[TEMPLATE] == name_hash("python")
        assert labels[AGENTS + "launch-type"] in ("warm", "cold")
        for gone in (POOL, AGENTS + "sandbox-template-hash",
                     AGENTS + "sandbox-pod-template-hash"):
            assert gone not in labels, labels
        references = sandbox["metadata"]["ownerReferences"]
        assert [(r["kind"], r["uid"], r["controller"]) for r in references] == [
            ("SandboxClaim", meta["uid"], True)]
        assert sandbox["metadata"]["annotations"][AGENTS + "pod-name"] == name
        pod = w.get("Pod", name)
        assert POOL not in pod["metadata"]["labels"]
    for pool in pools:
        members = w.list("Sandbox", f"{POOL}={name_hash(pool)}")
        status = w.get("SandboxWarmPool", pool)["status"]
        assert status["replicas"] == len(members)
        assert status["selector"] == f"{POOL}={name_hash(pool)}"
        for member in members:
            references = member["metadata"]["ownerReferences"]
            assert [(r["kind"], r["name"], r["controller"])
                    for r in references] == [("SandboxWarmPool", pool, True)]
            assert member["metadata"]["annotations"][
                AGENTS + "sandbox-template-ref"] == "python"
    template = w.get("SandboxTemplate", "python")
    assert template["metadata"]["labels"][TEMPLATE] == name_hash("python")
    policy = w.get("NetworkPolicy", "python-network-policy")
    assert policy["spec"]["podSelector"]["matchLabels"] == {
        TEMPLATE: name_hash("python")}
    assert policy["metadata"]["ownerReferences"][0]["uid"] == template[
        "metadata"]["uid"]


def test_switch_and_back(w):
    """Claims stay Ready with their sandboxes, pools keep their members, what was
    under way is completed, what waited is served."""
    up = Upstream(w)
    pools = [up.pool("keeps", 3), up.pool("strict", 2, updateStrategy={
        "type": "Recreate"})]
    for i in range(3):
        up.member(f"keeps-{i}", pools[0])
    for i in range(2):
        up.member(f"strict-{i}", pools[1])
    up.claim("warm", "keeps", "keeps-claimed")
    up.claim("cold", "keeps", "cold", launch="cold")
    # Made before v1beta1 was: the reference names a version that is gone.
    up.claim("old", "keeps", "keeps-old", version="v1alpha1")
    # It died between the reservation and the transfer: nothing else may be taken.
    w.claim("half", "keeps", {"annotations": {
        AGENTS + "sandbox-name": "keeps-1"}})
    w.claim("waits", "strict")
    sandboxes, pods = uids(w, "Sandbox"), uids(w, "Pod")
    watch = w.watch("SandboxClaim")

    w.daemon(cold_grace="60s")
    for name in ("half", "waits"):
        w.wait_claim(name)
    assert holder(w, "half") == "keeps-1"
    assert holder(w, "waits").startswith("strict-")
    w.wait_pool("keeps", 3)
    w.wait_pool("strict", 2)
    w.claim("fresh", "keeps")
    w.wait_claim("fresh")
    w.wait_pool("keeps", 3)
    for kind, before in (("Sandbox", sandboxes), ("Pod", pods)):
        after = uids(w, kind)
        lost = {n for n, uid in before.items() if after.get(n) != uid}
        assert not lost, f"{kind}: {lost} did not live through the change"
    for name, sandbox in (("warm", "keeps-claimed"), ("cold", "cold"),
                          ("old", "keeps-old")):
        assert holder(w, name) == sandbox
    for kind, item in drain(watch):
        if item["metadata"]["name"] in ("warm", "cold", "old"):
            assert kind != "DELETED" and is_ready(item), item
    watch.close()
    w.check_no_double_grant()

    # And back: what it leaves behind, and it deletes nothing as it goes.
    def settled():
        try:
            check_left_for_upstream(w, ("keeps", "strict"))
        except (AssertionError, KeyError, TypeError):
            return False
        return True
    wait_for("what follows Ready", settled)
    w.wait_pool("keeps", 3)
    w.wait_pool("strict", 2)
    sandboxes, pods = uids(w, "Sandbox"), uids(w, "Pod")
    w.stop_daemons()
    assert uids(w, "Sandbox") == sandboxes and uids(w, "Pod") == pods
    check_left_for_upstream(w, ("keeps", "strict"))


def micro():
    return datetime.datetime.now(datetime.timezone.utc).strftime(
        "%Y-%m-%dT%H:%M:%S.%fZ")


def test_beside_upstream(w):
    """It leaves, and says why, while upstream's controller renews its Lease; one that
    a stopped controller left behind holds it up for the Lease's time only."""
    path = path_of("Lease", SYSTEM)
    w.cluster.request("POST", path, {
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": LEASE}, "spec": {
            "holderIdentity": "upstream-0", "leaseDurationSeconds": 15,
            "renewTime": micro()}})
    stopped = threading.Event()

    def renew():
        while not stopped.wait(0.5):
            w.cluster.patch(f"{path}/{LEASE}", {"spec": {"renewTime": micro()}})

    renewer = threading.Thread(target=renew, daemon=True)
    renewer.start()
    try:
        daemon = w.daemon()
        wait_for("the daemon to leave", daemon.died)
        assert daemon.process.returncode != 0
        assert "another controller of the same kinds is active" in daemon.log()
        assert "upstream-0" in daemon.log()
    finally:
        stopped.set()
        renewer.join()
    w.template()
    start = time.monotonic()
    w.daemon()
    w.pool("p", 1)
    print(f"     after the last renewal: {time.monotonic() - start:.1f} s")
    w.cluster.delete(f"{path}/{LEASE}")


world.main(__name__)
