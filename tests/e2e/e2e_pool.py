#!/usr/bin/env python3
"""Pools: what kubectl shows of them, scaling, roll-outs, orphans, and the
NetworkPolicy of their templates."""
import contextlib
import itertools
import queue
import sys
import time
import urllib.error

import world as e2e
from cluster import wait_for

POOL_LABEL = "agents.x-k8s.io/warm-pool-sandbox"
REF_LABEL = "agents.x-k8s.io/sandbox-template-ref-hash"
LAUNCH_LABEL = "agents.x-k8s.io/launch-type"


def name_hash(name):
    value = 2166136261
    for byte in name.encode():
        value = (value ^ byte) * 16777619 & 0xFFFFFFFF
    return f"{value:08x}"


def kubectl(world, *arguments, **options):
    return world.cluster.kubectl("-n", world.namespace, *arguments, **options)


def members(world, pool):
    """The unclaimed sandboxes of the pool: {name: object}."""
    uid = world.get("SandboxWarmPool", pool)["metadata"]["uid"]
    return {s["metadata"]["name"]: s for s in world.list("Sandbox")
            if any(r["uid"] == uid and r.get("controller")
                   for r in s["metadata"].get("ownerReferences", []))}


def image_of(item):
    spec = item["spec"].get("podTemplate", item)["spec"]
    return spec["containers"][0]["image"]


def set_image(world, image, template="python"):
    item = world.get("SandboxTemplate", template)
    containers = item["spec"]["podTemplate"]["spec"]["containers"]
    containers[0]["image"] = image
    world.patch("SandboxTemplate", template, {
        "spec": {"podTemplate": {"spec": {"containers": containers}}}})


def columns(text):
    """A table of kubectl as a list of rows by column name."""
    lines = text.strip().splitlines()
    names = lines[0].split()
    return [dict(zip(names, line.split())) for line in lines[1:]]


def most_alive(watch, pool_uid):
    """How many unclaimed sandboxes of the pool were there at most, by the events
    of a watch that began before any."""
    alive = set()
    most = 0
    with contextlib.suppress(queue.Empty):
        while True:
            _, kind, item = watch.events.get(timeout=0.5)
            name = item["metadata"]["name"]
            owned = any(r["uid"] == pool_uid for r in
                        item["metadata"].get("ownerReferences", []))
            if kind == "DELETED" or not owned:
                alive.discard(name)
            else:
                alive.add(name)
            most = max(most, len(alive))
    return most


def counted(world, *labels):
    """Requests with these labels so far, by the API server's own count."""
    found = world.cluster.metrics("apiserver_request_total")
    return sum(value for key, value in found.items()
               if all(label in key for label in labels))


STATUS_WRITES = ('resource="sandboxwarmpools"', 'subresource="status"')
CREATIONS = ('resource="sandboxes"', 'verb="POST"', 'code="201"')


def test_kubectl_shows_a_pool(world):
    """Columns, short name, wait, and a status that says what is there."""
    world.daemon()
    world.template()
    world.pool("agents", 3, wait=False)
    kubectl(world, "wait", "swp/agents", "--timeout=300s",
            "--for=jsonpath={.status.readyReplicas}=3")
    row = columns(kubectl(world, "get", "swp"))[0]
    assert row["NAME"] == "agents" and row["READY"] == "3", row
    assert row["DESIRED"] == "3" and "AGE" in row, row
    pool = world.get("SandboxWarmPool", "agents")
    assert pool["status"] == {
        "replicas": 3, "readyReplicas": 3,
        "selector": f"{POOL_LABEL}={name_hash('agents')}",
        "observedGeneration": pool["metadata"]["generation"]}, pool["status"]
    selected = world.list("Pod", pool["status"]["selector"])
    assert len(selected) == 3, len(selected)
    for sandbox in members(world, "agents").values():
        labels = sandbox["metadata"]["labels"]
        assert labels[POOL_LABEL] == name_hash("agents"), labels
        assert labels[REF_LABEL] == name_hash("python"), labels
        assert labels[LAUNCH_LABEL] == "warm", labels
        pod = sandbox["spec"]["podTemplate"]["spec"]
        assert pod["automountServiceAccountToken"] is False
        assert pod["dnsPolicy"] == "None", pod


def test_kubectl_scale(world):
    """kubectl scale up, down and to nothing; claims are not touched."""
    world.daemon()
    world.template()
    world.pool("agents", 2)
    world.claim("mine", "agents")
    claimed = world.wait_claim("mine")["status"]["sandbox"]["name"]
    for replicas in (6, 1, 4, 0):
        kubectl(world, "scale", "swp/agents", f"--replicas={replicas}")
        kubectl(world, "wait", "swp/agents", "--timeout=300s",
                f"--for=jsonpath={{.status.replicas}}={replicas}")
        wait_for(f"{replicas} sandboxes", lambda wanted=replicas:
                 len(members(world, "agents")) == wanted)
        world.wait_pool("agents", replicas)
    assert world.get("Sandbox", claimed) is not None
    assert e2e.is_ready(world.get("SandboxClaim", "mine"))


def test_autoscaler(world):
    """A HorizontalPodAutoscaler reads and writes the scale of a pool."""
    world.daemon()
    world.template()
    world.pool("agents", 1)
    kubectl(world, "apply", "-f", "-", stdin="""
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: agents}
spec:
  scaleTargetRef:
    apiVersion: extensions.agents.x-k8s.io/v1beta1
    kind: SandboxWarmPool
    name: agents
  minReplicas: 3
  maxReplicas: 5
  metrics:
  - type: External
    external:
      metric: {name: claims}
      target: {type: AverageValue, averageValue: "1"}
""")
    world.wait_pool("agents", 3, timeout_s=300)
    kubectl(world, "wait", "hpa/agents", "--for=condition=AbleToScale",
            "--timeout=300s")


def roll(world, strategy):
    """A pool of five, one of them claimed, whose template changes; returns what
    its members were called before."""
    world.daemon(cold_grace="60s")
    world.template()
    world.pool("agents", 5, updateStrategy={"type": strategy})
    world.claim("mine", "agents")
    claimed = world.wait_claim("mine")["status"]["sandbox"]["name"]
    world.wait_pool("agents", 5)
    before = members(world, "agents")
    assert claimed not in before and len(before) == 5, before.keys()
    set_image(world, "registry.invalid/pause:2")
    return before


def test_recreate_rolls_out(world):
    """Recreate replaces every idle sandbox; the claimed one stays as it is."""
    before = roll(world, "Recreate")

    def replaced():
        now = members(world, "agents")
        return len(now) == 5 and not set(now) & set(before) and all(
            e2e.is_ready(s) for s in now.values())
    wait_for("five new sandboxes", replaced)
    world.wait_pool("agents", 5)
    for sandbox in members(world, "agents").values():
        assert image_of(sandbox).endswith(":2"), sandbox["metadata"]["name"]
    mine = world.wait_claim("mine")["status"]["sandbox"]["name"]
    assert image_of(world.get("Sandbox", mine)).endswith(":1")
    world.claim("next", "agents")
    name = world.wait_claim("next")["status"]["sandbox"]["name"]
    assert image_of(world.get("Pod", name)).endswith(":2")
    world.check_no_double_grant()


def test_recreate_ignores_labels(world):
    """What does not change the sandbox does not replace it."""
    world.daemon()
    world.template()
    world.pool("agents", 3, updateStrategy={"type": "Recreate"})
    before = set(members(world, "agents"))
    world.patch("SandboxTemplate", "python", {
        "metadata": {"labels": {"team": "x"}},
        "spec": {"envVarsInjectionPolicy": "Allowed", "podTemplate": {
            "metadata": {"annotations": {"note": "changed"}}}}})
    # A change that counts, in another pool, shows that this one was looked at.
    world.template("other")
    world.pool("others", 1, template="other")
    kubectl(world, "scale", "swp/agents", "--replicas=4")
    world.wait_pool("agents", 4)
    assert before < set(members(world, "agents"))


def test_on_replenish_leaves(world):
    """OnReplenish leaves stale sandboxes to be claimed; new ones are new."""
    before = roll(world, "OnReplenish")
    # Templates and claims come by watches of their own: another pool shows that the
    # daemon has heard of the change.
    world.pool("others", 1, wait=False, updateStrategy={"type": "Recreate"})
    wait_for("a new sandbox elsewhere", lambda: [
        image_of(s)[-2:] for s in members(world, "others").values()] == [":2"])
    world.claim("next", "agents")
    name = world.wait_claim("next")["status"]["sandbox"]["name"]
    assert name in before, (name, before.keys())
    world.wait_pool("agents", 5)
    now = members(world, "agents")
    assert set(before) - {name} < set(now), (before.keys(), now.keys())
    fresh = [s for n, s in now.items() if n not in before]
    assert len(fresh) == 1 and image_of(fresh[0]).endswith(":2")


def test_other_template(world):
    """Another template of the same contents is another template."""
    world.daemon()
    world.template()
    world.template("python2")
    world.pool("agents", 3, updateStrategy={"type": "Recreate"})
    before = set(members(world, "agents"))
    world.patch("SandboxWarmPool", "agents",
                {"spec": {"sandboxTemplateRef": {"name": "python2"}}})

    def replaced():
        now = members(world, "agents")
        return len(now) == 3 and not set(now) & before and all(
            s["metadata"]["labels"][REF_LABEL] == name_hash("python2")
            for s in now.values())
    wait_for("three of the other template", replaced)
    world.wait_pool("agents", 3)


def test_big_pool(world):
    """500 sandboxes up and down: never more than wanted, few status writes."""
    size = 500
    world.daemon(readiness_grace="30m")
    world.template()
    pool = world.pool("agents", 0)
    watch = world.watch("Sandbox")
    writes = counted(world, *STATUS_WRITES)
    creations = counted(world, *CREATIONS)
    begin = start = time.monotonic()
    kubectl(world, "scale", "swp/agents", f"--replicas={size}")
    world.wait_pool("agents", size, timeout_s=900)
    print(f"     {size} ready after {time.monotonic() - start:.1f} s")
    start = time.monotonic()
    kubectl(world, "scale", "swp/agents", "--replicas=0")
    wait_for("an empty pool", lambda: not world.get(
        "SandboxWarmPool", "agents")["status"]["replicas"], 900)
    took = time.monotonic() - start
    print(f"     none left after {took:.1f} s")
    wait_for("no objects", lambda: not world.list("Sandbox"), 900,
             every_s=0.5)
    assert most_alive(watch, pool["metadata"]["uid"]) <= size
    watch.close()
    creations = counted(world, *CREATIONS) - creations
    assert creations == size, f"{creations:.0f} sandboxes were made"
    writes = counted(world, *STATUS_WRITES) - writes
    print(f"     {writes:.0f} status writes")
    # Two a second at most, however many sandboxes change in it.
    assert writes <= 5 + 2 * (time.monotonic() - begin), writes


def test_orphan_is_taken_in(world):
    """A sandbox that lost its controller belongs to the pool again; a stale one
    goes."""
    world.daemon()
    world.template()
    world.pool("agents", 2)
    first = min(members(world, "agents"))
    uid = world.get("SandboxWarmPool", "agents")["metadata"]["uid"]
    watch = world.watch("Sandbox")
    lost = world.patch("Sandbox", first, {"metadata": {
        "ownerReferences": [], "labels": {LAUNCH_LABEL: None}}})
    assert LAUNCH_LABEL not in lost["metadata"]["labels"], lost["metadata"]
    # By what the watch says: it may be given up again, for one that came since.
    watch.until(lambda _, item: item["metadata"]["name"] == first
                and item["metadata"]["labels"].get(LAUNCH_LABEL) == "warm"
                and any(r["uid"] == uid for r in
                        item["metadata"].get("ownerReferences", [])),
                what="the orphan at home")
    watch.close()
    world.wait_pool("agents", 2)

    def lose():
        """Another one; while it was away a replacement came, and one is going."""
        for name in members(world, "agents"):
            try:
                world.patch("Sandbox", name, {
                    "metadata": {"ownerReferences": []},
                    "spec": {"podTemplate": {"spec": {"containers": [
                        {"name": "main",
                         "image": "registry.invalid/other:1"}]}}}})
                return name
            except urllib.error.HTTPError as error:
                if error.code != 404:
                    raise
        return None
    second = wait_for("a stale orphan", lose)
    world.wait_gone("Sandbox", second)
    world.wait_pool("agents", 2)


def test_pool_goes(world):
    """A pool's idle sandboxes go with it; a claimed one stays."""
    world.daemon()
    world.template()
    world.pool("agents", 3)
    world.claim("mine", "agents")
    claimed = world.wait_claim("mine")["status"]["sandbox"]["name"]
    world.wait_pool("agents", 3)
    world.delete("SandboxWarmPool", "agents")
    wait_for("the claimed one alone", lambda: [
        s["metadata"]["name"] for s in world.list("Sandbox")] == [claimed])
    assert e2e.is_ready(world.get("SandboxClaim", "mine"))
    # One of its name is another pool, and as good as any.
    world.pool("agents", 2)
    assert claimed not in members(world, "agents")


def test_template_comes_late(world):
    """A pool without a template says so, and fills once there is one."""
    world.daemon()
    world.pool("agents", 2, wait=False)
    wait_for("the warning", lambda: world.events("WarmPoolNotProgressing"))
    assert not world.list("Sandbox")
    world.template()
    world.wait_pool("agents", 2)
    wait_for("the good news", lambda: world.events("WarmPoolProgressing"))
    # The first warning of this one shows that the daemon has heard that the template
    # has gone: claims come by a watch of their own.
    world.pool("others", 1)
    world.delete("SandboxTemplate", "python")
    wait_for("the other pool's warning", lambda: any(
        event["regarding"]["name"] == "others"
        for event in world.events("WarmPoolNotProgressing")))
    # What is there is kept; nothing is made in place of what goes.
    world.claim("mine", "agents")
    world.wait_claim("mine")
    wait_for("one idle sandbox", lambda: world.get(
        "SandboxWarmPool", "agents")["status"]["replicas"] == 1)
    world.template()
    world.wait_pool("agents", 2)


def test_template_mistakes_are_told(world):
    """The API server's own words, with the field, on template, pool and claim;
    and everything goes well once the template does."""
    mistakes = {
        "misspelt": ([{"name": "main", "imagee": "registry.invalid/a:1"}],
                     ('unknown field "spec.containers[0].imagee"',
                      "spec.containers[0].image: Required value")),
        "empty": ([], ("spec.containers: Required value",)),
        "port": ([{"name": "main", "image": "registry.invalid/a:1",
                   "ports": [{"containerPort": "http"}]}],
                 ("ports.containerPort of type int32",)),
    }
    world.daemon()
    world.template()
    world.pool("good", 1)
    for name, (containers, _) in mistakes.items():
        world.create("SandboxTemplate", name, {
            "podTemplate": {"spec": {"containers": containers}}})
        world.create("SandboxWarmPool", name, {
            "replicas": 1, "sandboxTemplateRef": {"name": name},
            "updateStrategy": {"type": "Recreate"}},
            {"annotations": {"pool.warmpool.io/cold-start": "never"}})

    def notes(kind, name, reason):
        return [e["note"] for e in world.events(reason)
                if e["regarding"]["kind"] == kind
                and e["regarding"]["name"] == name]

    for name, (_, words) in mistakes.items():
        for kind, reason in (("SandboxTemplate", "PodRefused"),
                             ("SandboxWarmPool", "WarmPoolNotProgressing")):
            wait_for(f"{reason} of {name}", lambda: notes(kind, name, reason))
            for word in words:
                assert any(word in note for note in notes(
                    kind, name, reason)), notes(kind, name, reason)
    world.claim("waits", "empty")
    wait_for("the claim's words", lambda: any(
        "spec.containers: Required value" in c.get("message", "")
        for c in world.get("SandboxClaim", "waits").get(
            "status", {}).get("conditions", [])))
    assert not notes("SandboxTemplate", "python", "PodRefused")
    for name in mistakes:
        world.patch("SandboxTemplate", name, {"spec": {"podTemplate": {"spec": {
            "containers": [{"name": "main",
                            "image": "registry.invalid/a:1"}]}}}})
    for name in mistakes:
        wait_for(f"{name} is good", lambda: notes(
            "SandboxTemplate", name, "PodAccepted"))
        world.wait_pool(name, 1)
    world.wait_claim("waits")


def test_unknown_field_is_told(world):
    """A Pod starts without what the API server does not know."""
    world.daemon()
    world.create("SandboxTemplate", "python", {"podTemplate": {"spec": {
        "fromTheFuture": True,
        "containers": [{"name": "main", "image": "registry.invalid/a:1"}]}}})
    world.pool("agents", 1)
    wait_for("the warning", lambda: world.events("UnknownPodFields"))
    assert not world.events("PodRefused")


def test_unschedulable_is_held(world):
    """Sandboxes that find no room are kept and told about, not made anew; with
    room they are as good as any."""
    world.daemon(readiness_grace="30s")
    world.create("SandboxTemplate", "python", {"podTemplate": {"spec": {
        "nodeSelector": {"room": "yes"},
        "containers": [{"name": "main", "image": "registry.invalid/a:1"}]}}})
    world.pool("agents", 2, wait=False)
    wait_for("the warning", lambda: world.events("WarmPoolNotProgressing"))
    held = set(members(world, "agents"))
    assert len(held) == 2, held
    wait_for("a status of two", lambda: world.get(
        "SandboxWarmPool", "agents")["status"]["replicas"] == 2)
    world.cluster.patch("/api/v1/nodes/node-0",
                        {"metadata": {"labels": {"room": "yes"}}})
    world.wait_pool("agents", 2)
    assert set(members(world, "agents")) == held
    wait_for("the good news", lambda: world.events("WarmPoolProgressing"))


def test_stuck_is_replaced(world):
    """What is scheduled but not ready in time is replaced, one for one."""
    world.daemon(readiness_grace="15s")
    world.create("SandboxTemplate", "python", {"podTemplate": {
        "metadata": {"annotations": {"e2e.warmpool.dev/hold": "yes"}},
        "spec": {"containers": [
            {"name": "main", "image": "registry.invalid/a:1"}]}}})
    world.pool("agents", 2, wait=False)
    first = wait_for("two", lambda: len(members(world, "agents")) == 2
                     and set(members(world, "agents")))
    for name in first:
        world.wait_gone("Sandbox", name)
    # New ones are made from the template as it is now.
    world.patch("SandboxTemplate", "python", {"spec": {"podTemplate": {
        "metadata": {"annotations": {"e2e.warmpool.dev/hold": None}}}}})
    world.wait_pool("agents", 2, timeout_s=300)
    assert len(members(world, "agents")) == 2


def test_network_policy(world):
    """Label and managed policy; drift is repaired; unmanaged removes it."""
    world.daemon()
    world.template()
    name = "python-network-policy"
    policy = wait_for("the policy", lambda: world.get("NetworkPolicy", name))
    wait_for("the label", lambda: world.get("SandboxTemplate", "python")
             ["metadata"].get("labels", {}).get(REF_LABEL)
             == name_hash("python"))
    wanted = policy["spec"]
    assert wanted["podSelector"] == {
        "matchLabels": {REF_LABEL: name_hash("python")}}, wanted
    assert sorted(wanted["policyTypes"]) == ["Egress", "Ingress"]
    for drift in ({"egress": [{}]}, {"ingress": None},
                  {"podSelector": {"matchLabels": {"more": "x"}}}):
        world.patch("NetworkPolicy", name, {"spec": drift})
        wait_for("the repair", lambda: world.get("NetworkPolicy", name)["spec"]
                 == wanted)
    world.delete("NetworkPolicy", name)
    wait_for("another one", lambda: world.get("NetworkPolicy", name))
    # Rules of its own, with what the API server fills in: no endless repair.
    world.patch("SandboxTemplate", "python", {"spec": {"networkPolicy": {
        "egress": [{"ports": [{"port": 443}], "to": [{"podSelector": {}}]}]}}})
    wait_for("the own rules", lambda: world.get("NetworkPolicy", name)["spec"]
             .get("egress", [{}])[0].get("ports"))
    version = world.get("NetworkPolicy", name)["metadata"]["resourceVersion"]
    world.patch("SandboxTemplate", "python",
                {"metadata": {"annotations": {"look": "again"}}})
    world.pool("agents", 1)
    assert version == world.get(
        "NetworkPolicy", name)["metadata"]["resourceVersion"]
    world.patch("SandboxTemplate", "python",
                {"spec": {"networkPolicyManagement": "Unmanaged"}})
    world.wait_gone("NetworkPolicy", name)


CONTAINER_T1 = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]}}
POD_T1 = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}


def test_tiers(world):
    """Pods carry what their template's tier asks for; another tier replaces what
    is idle; what goes out is what the tier lets out."""
    with contextlib.suppress(urllib.error.HTTPError):
        world.cluster.request("POST", "/apis/node.k8s.io/v1/runtimeclasses", {
            "apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass",
            "metadata": {"name": "gvisor"}, "handler": "runsc"})
    world.daemon(default_tier="T1")
    world.template()
    world.pool("agents", 1, updateStrategy={"type": "Recreate"})

    def pod():
        """Of the one Pod: what a tier may fill."""
        pods = [p["spec"] for p in world.list("Pod")
                if "deletionTimestamp" not in p["metadata"]]
        if len(pods) != 1:
            return None
        container = pods[0]["containers"][0]
        env = {e["name"] for e in container.get("env", [])}
        return (pods[0]["automountServiceAccountToken"],
                pods[0].get("securityContext"), container.get("securityContext"),
                "WARMPOOL_RUNTIME_CONFINE" in env, "HTTPS_PROXY" in env,
                pods[0].get("runtimeClassName"))

    wait_for("the policy",
             lambda: world.get("NetworkPolicy", "python-network-policy"))

    def egress():
        return world.get("NetworkPolicy", "python-network-policy")["spec"]["egress"]

    for tier, confined, runtime, ports in (
            (None, False, None, [53]), ("T0", False, None, []),
            ("T2", True, None, [53]), ("T3", True, None, [53, 3128]),
            ("T4", False, "gvisor", [53, 3128])):
        if tier:
            world.patch("SandboxTemplate", "python", {"metadata": {"annotations": {
                "template.warmpool.io/tier": tier}}})
        contexts = ({}, None) if tier == "T0" else (POD_T1, CONTAINER_T1)
        wait_for(f"a Pod of {tier}", lambda: pod() == (
            False, *contexts, confined, 3128 in ports, runtime))
        wait_for(f"the egress of {tier}", lambda: sorted({
            port["port"] for rule in egress()
            for port in rule.get("ports", [])}) == ports)


def test_weaker_templates_are_refused(world):
    """One that states less than its tier is told about; with the policy of
    deploy/kubernetes/tiers it is refused, and what is there keeps working."""
    folder = e2e.ROOT / "deploy/kubernetes/tiers"
    world.daemon(default_tier="T1")

    def make(name, container=None, pod=None, tier=None):
        return world.create("SandboxTemplate", name, {"podTemplate": {"spec": {
            **(pod or {}), "containers": [{
                "name": "main", "image": "registry.invalid/a:1",
                "securityContext": container or {}}]}}},
            {"annotations": {"template.warmpool.io/tier": tier}} if tier else None)

    make("old", {"privileged": True})
    told = wait_for("the warning", lambda: world.events("TierWeakened"))[0]
    assert "containers[0].securityContext.privileged" in told["note"], told
    world.cluster.kubectl("apply", "-k", folder)
    try:
        names = (f"probe-{number}" for number in itertools.count())
        wait_for("the policy", lambda: "weaker" in refusal(
            make, next(names), {"privileged": True}))
        for number, (container, pod, word) in enumerate((
                ({"runAsUser": 0}, {}, "runAsUser"),
                ({}, {"securityContext": {"runAsNonRoot": False}}, "runAsNonRoot"),
                ({}, {"securityContext": {"seccompProfile": {"type": "Unconfined"}}},
                 "Unconfined"),
                ({}, {"hostPID": True}, "hostPID"),
                ({}, {"automountServiceAccountToken": True}, "automount"),
                ({"allowPrivilegeEscalation": True}, {}, "PrivilegeEscalation"),
                ({"readOnlyRootFilesystem": False}, {}, "readOnlyRoot"),
                ({"capabilities": {"drop": ["NET_RAW"]}}, {}, "capabilities"),
                ({"capabilities": {"add": ["CHOWN"]}}, {}, "capabilities"))):
            said = refusal(make, f"weak-{number}", container, pod)
            assert said and word in said, (container, pod, said)
            make(f"free-{number}", container, pod, "T0")
        assert "T0 to T4" in refusal(make, "typo", tier="T9")
        make("good", CONTAINER_T1, {"securityContext": POD_T1}, "T3")
        make("bare")
        # What changes neither spec nor tier passes.
        world.patch("SandboxTemplate", "old", {"metadata": {"labels": {"a": "b"}}})
        said = refusal(world.patch, "SandboxTemplate", "old", {
            "metadata": {"annotations": {"template.warmpool.io/tier": "T2"}}})
        assert "privileged" in said, said
    finally:
        world.cluster.kubectl("delete", "-k", folder)


def refusal(call, *arguments, **more):
    """What the API server says against it; "" when it was done."""
    try:
        call(*arguments, **more)
    except urllib.error.HTTPError as error:
        return error.read().decode()
    return ""


def test_foreign_policy_stays(world):
    """A policy of that name that somebody else has made is not touched."""
    world.cluster.request(
        "POST", e2e.path_of("NetworkPolicy", world.namespace), {
            "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
            "metadata": {"name": "python-network-policy"},
            "spec": {"podSelector": {}, "policyTypes": ["Ingress"]}})
    world.daemon()
    world.template()
    wait_for("the warning", lambda: world.events("NetworkPolicyNotOwned"))
    kept = world.get("NetworkPolicy", "python-network-policy")
    assert kept["spec"]["podSelector"] == {}, kept
    assert "ownerReferences" not in kept["metadata"], kept


def test_quota_is_told(world):
    """Sandboxes that the API server refuses to make are told about, and made
    once it does not."""
    base = f"/api/v1/namespaces/{world.namespace}/resourcequotas"
    hard = {"count/sandboxes.agents.x-k8s.io": "1"}
    world.cluster.request("POST", base, {
        "apiVersion": "v1", "kind": "ResourceQuota",
        "metadata": {"name": "few"}, "spec": {"hard": hard}})
    # No controller counts quotas here; admission counts on from this.
    world.cluster.patch(f"{base}/few/status", {"status": {
        "hard": hard, "used": {"count/sandboxes.agents.x-k8s.io": "0"}}})
    world.daemon()
    world.template()
    world.pool("agents", 3, wait=False)
    wait_for("the warning", lambda: world.events("WarmPoolNotProgressing"))
    assert len(members(world, "agents")) <= 1
    kubectl(world, "delete", "quota", "few")
    world.wait_pool("agents", 3)


if __name__ == "__main__":
    sys.exit(e2e.main(__name__))
