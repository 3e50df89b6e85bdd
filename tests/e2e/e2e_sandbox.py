"""Sandboxes under the core controller: Pods, Services, volume claims, suspension,
expiry, and how little of it is written.
"""
import datetime
import os
import subprocess
import time

import world
from cluster import wait_for
from world import condition, is_ready

SPEC = {"podTemplate": {"spec": {"containers": [{
    "name": "main", "image": "registry.invalid/pause:1",
    "ports": [{"containerPort": 8888, "name": "http"}]}]}}}
POD_NAME = "agents.x-k8s.io/pod-name"
HASH = "agents.x-k8s.io/sandbox-name-hash"


def later(seconds):
    when = datetime.datetime.now(datetime.timezone.utc)
    when += datetime.timedelta(seconds=seconds)
    return when.strftime("%Y-%m-%dT%H:%M:%SZ")


def wait_sandbox(w, name, wanted, what, timeout_s=300.0):
    def probe():
        item = w.get("Sandbox", name)
        return item if item and wanted(item) else None
    return wait_for(f"sandbox {name}: {what}", probe, timeout_s)


def make(w, name, metadata=None, **spec):
    w.create("Sandbox", name, {**SPEC, **spec}, metadata)
    return wait_sandbox(w, name, is_ready, "Ready")


def reason(item, kind="Ready"):
    return condition(item, kind).get("reason")


def bind(w, name):
    """What a provisioner does: without a volume no Pod is scheduled."""
    wait_for(f"volume claim {name}",
             lambda: w.get("PersistentVolumeClaim", name))
    volume = f"{w.namespace}-{name}"
    w.cluster.request("POST", "/api/v1/persistentvolumes", {
        "apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": {"name": volume}, "spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
            "hostPath": {"path": "/nowhere"}, "claimRef": {
                "namespace": w.namespace, "name": name}}})
    w.patch("PersistentVolumeClaim", name, {
        "metadata": {"annotations": {
            "pv.kubernetes.io/bind-completed": "yes"}},
        "spec": {"volumeName": volume}})


def test_status_of_a_ready_sandbox(w):
    """Every field and condition that the contract names, and what kubectl shows."""
    w.daemon()
    item = make(w, "one")
    pod = w.get("Pod", "one")
    status = item["status"]
    assert status["podIPs"] == [i["ip"] for i in pod["status"]["podIPs"]]
    assert status["nodeName"] == pod["spec"]["nodeName"]
    assert status["selector"] == f"{HASH}={pod['metadata']['labels'][HASH]}"
    assert "service" not in status and "serviceFQDN" not in status
    assert reason(item) == "DependenciesReady"
    assert condition(item)["message"] == "Pod is Ready"
    assert reason(item, "Suspended") == "NotSuspended"
    assert condition(item, "PodScheduled")["status"] == "True"
    assert condition(item, "Finished") == {}
    assert item["metadata"]["annotations"][POD_NAME] == "one"
    for entry in status["conditions"]:
        assert entry["observedGeneration"] == item["metadata"]["generation"]
    owner = pod["metadata"]["ownerReferences"][0]
    assert owner["uid"] == item["metadata"]["uid"] and owner["controller"]
    w.cluster.kubectl("-n", w.namespace, "wait", "--for=condition=Ready",
                      "sandbox/one", "--timeout=300s")


def test_suspend_and_resume(w):
    """Suspended: the Pod goes, Service and volume claims stay; resumed: all is back,
    and each change is told with the generation that asked for it."""
    w.daemon()
    w.create("Sandbox", "one", {
        **SPEC, "service": True, "volumeClaimTemplates": [{
            "metadata": {"name": "data"}, "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}}}}]})
    wait_sandbox(w, "one", lambda i: reason(i, "PodScheduled") ==
                 "Unschedulable", "no volume yet")
    bind(w, "data-one")
    wait_sandbox(w, "one", is_ready, "Ready")
    claim = w.get("PersistentVolumeClaim", "data-one")
    service = w.get("Service", "one")
    volumes = w.get("Pod", "one")["spec"]["volumes"]
    assert {"name": "data", "persistentVolumeClaim":
            {"claimName": "data-one"}} in volumes, volumes
    for _ in range(2):
        asked = w.patch("Sandbox", "one",
                        {"spec": {"operatingMode": "Suspended"}})
        item = wait_sandbox(w, "one", lambda i: condition(
            i, "Suspended").get("status") == "True", "suspended")
        told = condition(item, "Suspended")
        assert told["reason"] == "PodTerminated"
        assert told["observedGeneration"] == asked["metadata"]["generation"]
        assert reason(item) == "SandboxSuspended"
        assert "podIPs" not in item["status"]
        assert w.get("Pod", "one") is None
        assert POD_NAME not in item["metadata"].get("annotations", {})
        w.patch("Sandbox", "one", {"spec": {"operatingMode": "Running"}})
        item = wait_sandbox(w, "one", is_ready, "Ready again")
        assert reason(item, "Suspended") == "NotSuspended"
        assert item["metadata"]["annotations"][POD_NAME] == "one"
    for kind, name, old in (("PersistentVolumeClaim", "data-one", claim),
                            ("Service", "one", service)):
        assert w.get(kind, name)["metadata"]["uid"] == old["metadata"]["uid"]


def test_shutdown_retain(w):
    """shutdownTime with Retain: told, Pod and Service gone, the sandbox stays with
    nothing but conditions; a later time brings it back."""
    w.daemon()
    make(w, "one", service=True)
    w.patch("Sandbox", "one", {"spec": {"shutdownTime": later(2)}})
    item = wait_sandbox(
        w, "one", lambda i: list(i["status"]) == ["conditions"], "expired")
    assert reason(item) == "SandboxExpired"
    w.wait_gone("Pod", "one")
    w.wait_gone("Service", "one")
    w.patch("Sandbox", "one", {"spec": {"shutdownTime": later(3600)}})
    wait_sandbox(w, "one", is_ready, "Ready again")


def test_shutdown_delete(w):
    """shutdownTime with Delete: all of it goes, and Expired was told before."""
    w.daemon()
    watch = w.watch("Sandbox")
    make(w, "one", service=True, shutdownTime=later(3600),
         shutdownPolicy="Delete")
    w.patch("Sandbox", "one", {"spec": {"shutdownTime": later(2)}})
    try:
        watch.until(lambda _, i: reason(i) == "SandboxExpired", what="expired")
        watch.until(lambda kind, _: kind == "DELETED", what="deleted")
    finally:
        watch.close()
    w.wait_gone("Pod", "one")
    w.wait_gone("Service", "one")


def wait_new_pod(w, name, old_uid):
    """The sandbox is Ready by another Pod, which is returned. KWOK deletes by name, and
    late, so that it may well end the new one, too; then there is yet another."""
    def probe():
        pod, item = w.get("Pod", name), w.get("Sandbox", name)
        ips = [i["ip"] for i in (pod or {}).get("status", {})
               .get("podIPs", [])]
        good = (ips and pod["metadata"]["uid"] != old_uid and is_ready(item)
                and item["status"]["podIPs"] == ips)
        return pod if good else None
    return wait_for(f"another pod of {name}", probe)


def test_pod_deleted(w):
    """A Pod that is deleted under a sandbox is made again; Ready is False meanwhile."""
    w.daemon()
    old = make(w, "one")
    watch = w.watch("Sandbox")
    uid = w.get("Pod", "one")["metadata"]["uid"]
    try:
        w.delete("Pod", "one")
        watch.until(lambda _, i: not is_ready(i), what="not Ready")
    finally:
        watch.close()
    wait_new_pod(w, "one", uid)
    assert w.get("Sandbox", "one")["metadata"]["uid"] == old["metadata"]["uid"]


def test_service(w):
    """spec.service: true makes a headless Service, a drift is put right, false ends
    it, nothing at all keeps what is there."""
    w.daemon()
    make(w, "one")
    w.patch("Sandbox", "one", {"spec": {"service": True}})
    item = wait_sandbox(w, "one", lambda i: "service" in i["status"],
                        "service")
    assert item["status"]["serviceFQDN"] == (
        f"one.{w.namespace}.svc.cluster.local")
    assert condition(item)["message"] == "Pod is Ready; Service Exists"
    made = w.get("Service", "one")
    assert made["spec"]["clusterIP"] == "None"
    assert [(p["name"], p["port"]) for p in made["spec"]["ports"]] == [
        ("http", 8888)]
    w.patch("Service", "one", {"spec": {"selector": {"app": "other"}}})
    wait_for("the selector", lambda: w.get("Service", "one")["spec"][
        "selector"] == made["spec"]["selector"])
    w.patch("Sandbox", "one", {"spec": {"service": None}})
    w.patch("Sandbox", "one", {"spec": {"service": False}})
    wait_sandbox(w, "one", lambda i: "service" not in i["status"],
                 "no service")
    w.wait_gone("Service", "one")


def test_finished(w):
    """A Pod that ended is told by Finished and Ready."""
    w.daemon()
    for name, phase in (("good", "Succeeded"), ("bad", "Failed")):
        make(w, name)
        w.patch("Pod", name, {"metadata": {"annotations": {
            "e2e.warmpool.dev/finish": phase}}})
        item = wait_sandbox(w, name, lambda i: condition(i, "Finished"),
                            "finished")
        assert reason(item, "Finished") == "Pod" + phase
        assert reason(item) == "Pod" + phase


def test_refused_pod(w):
    """What the API server refuses is told in Ready; put right, it goes on."""
    w.daemon()
    w.create("Sandbox", "one", {"podTemplate": {"spec": {"containers": []}}})
    item = wait_sandbox(w, "one", lambda i: reason(i) == "ReconcilerError",
                        "an error")
    assert "containers" in condition(item)["message"]
    w.patch("Sandbox", "one", {"spec": SPEC})
    wait_sandbox(w, "one", is_ready, "Ready")


def test_pod_of_somebody_else(w):
    """A Pod that is nobody's is taken only when it is offered."""
    w.daemon()
    spec = SPEC["podTemplate"]["spec"]
    w.create("Pod", "taken", spec)
    w.create("Sandbox", "taken", SPEC)
    item = wait_sandbox(w, "taken", lambda i: reason(i) == "ReconcilerError",
                        "refused")
    assert "taken" in condition(item)["message"]
    made = w.create("Pod", "offered", spec, {"labels": {
        "agents.x-k8s.io/adoptable": "true"}})
    make(w, "offered")
    now = w.get("Pod", "offered")
    assert now["metadata"]["uid"] == made["metadata"]["uid"]
    assert now["metadata"]["ownerReferences"][0]["name"] == "offered"


def test_restarts(w):
    """Sandboxes that are made while the API server restarts, and then while the daemon
    is killed, are all Ready in the end, each with one Pod."""
    daemon = w.daemon()
    make(w, "first")
    for i in range(20):
        w.create("Sandbox", f"a{i}", {**SPEC, "service": i % 2 == 0})
    w.cluster.restart("kube-apiserver")
    for i in range(20):
        w.create("Sandbox", f"b{i}", {**SPEC, "service": i % 2 == 0})
    daemon.restart()
    names = {"first"} | {f"{p}{i}" for p in "ab" for i in range(20)}
    wait_for("all Ready", lambda: all(
        is_ready(i) for i in w.list("Sandbox")), timeout_s=300)
    pods = w.list("Pod")
    assert sorted(p["metadata"]["name"] for p in pods) == sorted(names)
    assert len(w.list("Service")) == 20
    assert {i["metadata"]["annotations"][POD_NAME]
            for i in w.list("Sandbox")} == names


def claimed(w, **spec):
    """A pool of one and a claim on it: (sandbox, claim)."""
    w.template()
    w.pool("warm", 1)
    name = w.list("Sandbox")[0]["metadata"]["name"]
    w.claim("mine", "warm", **spec)
    item = w.wait_claim("mine")
    assert item["status"]["sandbox"]["name"] == name
    return w.get("Sandbox", name), item


def test_adopted_pod(w):
    """A claimed sandbox' Pod leaves the pool: its labels and what lets an autoscaler
    evict it go, the claim's come, and it is the same Pod, Ready all the while, also for
    `kubectl wait`."""
    w.daemon(cold_grace="60s")
    sandbox, _ = claimed(w, additionalPodMetadata={
        "labels": {"sandbox.users.io/team": "blue"}, "annotations": {"note": "x"}})
    name = sandbox["metadata"]["name"]
    pool_label = "agents.x-k8s.io/warm-pool-sandbox"
    evict = "cluster-autoscaler.kubernetes.io/safe-to-evict"

    def left():
        pod = w.get("Pod", name)["metadata"]
        return (pool_label not in pod["labels"] and
                evict not in pod.get("annotations", {}) and
                pod["labels"].get("sandbox.users.io/team") == "blue" and
                pod["annotations"].get("note") == "x")
    wait_for("the pod to leave the pool", left)
    assert sandbox["metadata"]["annotations"][POD_NAME] == name
    w.cluster.kubectl("-n", w.namespace, "wait", "--for=condition=Ready",
                      f"sandbox/{name}", "--timeout=300s")
    ready = condition(w.get("Sandbox", name))
    assert (ready["lastTransitionTime"] ==
            condition(sandbox)["lastTransitionTime"])


def test_pod_deleted_under_a_claim(w):
    """The claim sees its sandbox fail and come back, and keeps it."""
    w.daemon(cold_grace="60s")
    sandbox, _ = claimed(w)
    name = sandbox["metadata"]["name"]
    uid = w.get("Pod", name)["metadata"]["uid"]
    watch = w.watch("SandboxClaim")
    try:
        w.delete("Pod", name)
        watch.until(lambda _, i: not is_ready(i), what="claim not Ready")
    finally:
        watch.close()
    wait_new_pod(w, name, uid)

    def follows():
        """Between the two looks KWOK may have ended the new Pod, too."""
        claim, item = w.get("SandboxClaim", "mine"), w.get("Sandbox", name)
        return is_ready(claim) and claim["status"]["sandbox"] == {
            "name": name, "podIPs": item["status"].get("podIPs")}
    wait_for("the claim to follow", follows)


def test_next_pod_of_a_lease(w):
    """A gRPC client's sandbox is nobody's object; its Pod is left by the pool, and made
    again with the label that its template's network policy selects by."""
    daemon = w.daemon()
    w.template()
    w.pool("warm", 1)
    name = w.list("Sandbox")[0]["metadata"]["name"]
    policy = "agents.x-k8s.io/sandbox-template-ref-hash"
    subprocess.run(
        [world.world_binary("warmpoolctl"), "--address",
         f"unix:{daemon.dir}/warmpoold.sock", "claim", f"{w.namespace}/warm",
         "--id", "one", "--ttl", "10m", "--wait", "2m"], check=True,
        stdout=subprocess.DEVNULL,
        env={**os.environ, "XDG_STATE_HOME": str(w.dir)})
    wait_for("the pod to leave the pool", lambda:
             "agents.x-k8s.io/warm-pool-sandbox" not in
             w.get("Pod", name)["metadata"]["labels"])
    old = w.get("Pod", name)["metadata"]
    assert policy in old["labels"]
    w.delete("Pod", name)
    pod = wait_new_pod(w, name, old["uid"])
    assert pod["metadata"]["labels"][policy] == old["labels"][policy]


def test_no_garbage_collector(w):
    """Without a controller manager nothing ends what a sandbox leaves; asked to, the
    daemon does, also for what was left while it was away."""
    # What it needs for that, a real cluster's does not get.
    daemon = w.daemon(garbage_collect="true",
                      kubeconfig=w.cluster.kubeconfig)
    # Made by the controller manager; without it no Pod is admitted.
    wait_for("the service account", lambda: w.cluster.get(
        f"/api/v1/namespaces/{w.namespace}/serviceaccounts/default"))
    w.cluster.kill("kube-controller-manager")
    try:
        for name in ("one", "two", "three"):
            make(w, name, service=True)
        w.delete("Sandbox", "one")
        w.wait_gone("Pod", "one")
        w.wait_gone("Service", "one")
        daemon.kill()
        w.delete("Sandbox", "two")
        daemon.restart()
        w.wait_gone("Pod", "two")
        w.wait_gone("Service", "two")
        assert w.get("Pod", "three") and w.get("Service", "three")
    finally:
        w.cluster.restart("kube-controller-manager")


def test_writes_per_sandbox(w):
    """From its creation to Ready a sandbox that names its Pod costs two writes: the
    Pod and one status. A watch sees each; nobody else writes Sandboxes."""
    w.daemon()
    make(w, "first", {"annotations": {POD_NAME: "first"}})
    watch = w.watch("Sandbox")
    count = 20
    for i in range(count):
        w.create("Sandbox", f"s{i}", SPEC,
                 {"annotations": {POD_NAME: f"s{i}"}})
    written = []
    ready = set()
    while len(ready) < count:
        _, item = watch.until(lambda kind, i: kind == "MODIFIED" and
                              i["metadata"]["name"] != "first", what="Ready")
        written.append(item)
        if is_ready(item):
            ready.add(item["metadata"]["name"])
    time.sleep(1.0)  # What might still be written by mistake.
    watch.close()
    while not watch.events.empty():
        _, kind, item = watch.events.get()
        if kind == "MODIFIED" and item["metadata"]["name"] != "first":
            written.append(item)
    writes = len(written)
    # Those whose Pod took more than a second told a step on the way, or two.
    assert count <= writes <= 3 * count, writes
    assert len(w.list("Pod")) == count + 1
    print(f"     {1 + writes / count:g} writes per sandbox")


world.main(__name__)
