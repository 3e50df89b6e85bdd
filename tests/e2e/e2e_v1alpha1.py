"""Clients of v1alpha1: what they write and read, converted by the daemon's webhook; the
calls of kagent, AX and kagenti one after the other; and the same objects in v1beta1."""
import contextlib
import json
import os
import socket
import subprocess
import threading
import time
import urllib.error

import world
from cluster import free_port, wait_for
from world import condition, is_ready

EXTENSIONS = "extensions.agents.x-k8s.io"
CORE = "agents.x-k8s.io"
PLURALS = {"Sandbox": (CORE, "sandboxes"), "SandboxClaim": (EXTENSIONS, "sandboxclaims"),
           "SandboxTemplate": (EXTENSIONS, "sandboxtemplates"),
           "SandboxWarmPool": (EXTENSIONS, "sandboxwarmpools")}
# By hand: 1000.
CYCLES = int(os.environ.get("WARMPOOL_E2E_CYCLES", "100"))


def path_of(w, kind, name=None, version="v1alpha1"):
    group, plural = PLURALS[kind]
    path = f"/apis/{group}/{version}/namespaces/{w.namespace}/{plural}"
    return path if name is None else f"{path}/{name}"


def make(w, kind, name, spec, **metadata):
    return w.cluster.request("POST", path_of(w, kind), {
        "apiVersion": f"{PLURALS[kind][0]}/v1alpha1", "kind": kind,
        "metadata": {"name": name, **metadata}, "spec": spec})


def read(w, kind, name, version="v1alpha1"):
    return w.cluster.get(path_of(w, kind, name, version))


def wait_converts(w):
    """Lists need no conversion while there is nothing; so one object is made, of which
    nothing comes until the definitions trust the certificate."""
    def converts():
        try:
            return w.cluster.request(
                "GET", path_of(w, "SandboxTemplate", "probe"), raw=True)[0] == 200
        except urllib.error.HTTPError:
            return False
    w.template("probe")
    wait_for("a webhook that is trusted", converts)
    w.delete("SandboxTemplate", "probe")


def begin(w, **settings):
    """A daemon whose webhook the API server trusts."""
    port = free_port()
    one = w.daemon(webhook_listen=f"127.0.0.1:{port}",
                   webhook_url=f"https://127.0.0.1:{port}/convert", **settings)
    wait_converts(w)
    return one


class Relay:
    """Stands for the Service: each connection goes to the next of the ports that takes
    one. cut() ends those that there are, so that the next request makes another."""

    def __init__(self, ports):
        self.ports, self.asked, self.open = list(ports), {p: 0 for p in ports}, set()
        self.lock = threading.Lock()  # Guards open.
        self.server = socket.create_server(("127.0.0.1", 0))
        self.port = self.server.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                near = self.server.accept()[0]
                far = self.connect()
                if far is None:
                    near.close()
                    continue
                with self.lock:
                    self.open |= {near, far}
                for pair in ((near, far), (far, near)):
                    threading.Thread(target=self.carry, args=pair, daemon=True).start()

    def connect(self):
        for _ in self.ports:
            port = self.ports.pop(0)
            self.ports.append(port)
            with contextlib.suppress(OSError):
                far = socket.create_connection(("127.0.0.1", port))
                self.asked[port] += 1
                return far
        return None

    def carry(self, source, sink):
        with contextlib.suppress(OSError):
            while piece := source.recv(65536):
                sink.sendall(piece)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def cut(self):
        with self.lock:
            ends, self.open = self.open, set()
        for end in ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self):
        self.server.close()
        self.cut()


def test_two_replicas_convert(w):
    """Either of two replicas is asked, also when one is gone; and a certificate that is
    lost is replaced by another, which the definitions trust."""
    ports = [free_port(), free_port()]
    relay = Relay(ports)
    try:
        daemons = [w.daemon(f"replica-{port}", webhook_listen=f"127.0.0.1:{port}",
                            webhook_url=f"https://127.0.0.1:{relay.port}/convert",
                            leader_election_namespace=world.SYSTEM) for port in ports]
        wait_converts(w)

        def both():
            relay.cut()
            wait_converts(w)
            return all(relay.asked.values())
        wait_for("both are asked", both)
        daemons[0].kill()
        relay.cut()
        wait_converts(w)
        secret = f"/api/v1/namespaces/{world.SYSTEM}/secrets/warmpool-webhook"
        crd = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/" + ".".join(
            PLURALS["SandboxClaim"][::-1])

        def trusted():
            return w.cluster.get(crd)["spec"]["conversion"]["webhook"]["clientConfig"][
                "caBundle"]
        before = trusted()
        w.cluster.patch(secret, {"data": None})
        wait_for("another certificate", lambda: trusted() != before)
        relay.cut()
        wait_converts(w)
        daemons[0].start()
        relay.asked[ports[0]] = 0

        def first_again():
            relay.cut()
            wait_converts(w)
            return relay.asked[ports[0]] > 0
        wait_for("the first replica with the new certificate", first_again)
    finally:
        relay.close()


def make_template(w, name="agent", **spec):
    return make(w, "SandboxTemplate", name, {"podTemplate": {"spec": {"containers": [{
        "name": "sandbox", "image": "registry.invalid/mcp:1",
        "ports": [{"containerPort": 8080}]}]}}, **spec})


def make_pool(w, name="warm", replicas=2, template="agent"):
    make(w, "SandboxWarmPool", name, {
        "replicas": replicas, "sandboxTemplateRef": {"name": template}})
    w.wait_pool(name, replicas)


def make_claim(w, name, template="agent", spec=None, **metadata):
    return make(w, "SandboxClaim", name,
                {"sandboxTemplateRef": {"name": template}, **(spec or {})}, **metadata)


def poll(w, what, probe):
    """As clients do: at once, and then each 250 ms. How often it took."""
    for number in range(1, 1200):
        found = probe()
        if found:
            return number, found
        time.sleep(0.25)
    raise TimeoutError(what)


def kagent_url(w, name):
    """Its test of readiness: the claim, then the Sandbox of the same name."""
    claim = read(w, "SandboxClaim", name)
    if claim is None or condition(claim).get("status") != "True":
        assert condition(claim or {}).get("reason") not in (
            "TemplateNotFound", "ReconcilerError", "SandboxExpired",
            "ClaimExpired"), condition(claim)
        return None
    sandbox = read(w, "Sandbox", name)
    host = (sandbox or {}).get("status", {}).get("serviceFQDN")
    return f"http://{host}:8080/mcp" if host else None


def at(item):
    return item["metadata"]["resourceVersion"]


def write_back(w, kind, name):
    """Reads v1alpha1 and writes it as it was read: (what v1beta1 said before, what was
    written, what v1beta1 says after). A controller may write meanwhile, so this is done
    until all of it is of one version and of the next, or of one alone."""
    while True:
        before, shown = w.get(kind, name), read(w, kind, name)
        if at(before) != at(shown):
            continue
        try:
            done = w.cluster.request("PUT", path_of(w, kind, name), shown)
        except urllib.error.HTTPError as error:
            if error.code != 409:
                raise
            continue
        after = w.get(kind, name)
        if at(after) == at(done):
            return before, shown, after


def test_both_versions_say_the_same(w):
    begin(w)
    make_template(w)
    make_pool(w)
    made = make_claim(w, "c", spec={"warmpool": "warm", "lifecycle": {
        "shutdownPolicy": "Delete"}})
    assert made["spec"]["warmpool"] == "warm"
    w.wait_claim("c")
    wait_for("annotations", lambda: "agents.x-k8s.io/sandbox-name" in w.get(
        "SandboxClaim", "c")["metadata"]["annotations"])
    # Written back as it was read, it is what it was.
    item, shown, again = write_back(w, "SandboxClaim", "c")
    assert item["spec"]["warmPoolRef"] == {"name": "warm"}
    assert "sandboxTemplateRef" not in item["spec"] and "warmpool" not in item["spec"]
    assert shown["status"] == item["status"]
    assert shown["spec"]["sandboxTemplateRef"] == {"name": "agent"}
    assert not [key for key in shown["metadata"]["annotations"] if "v1alpha1" in key]
    assert again["spec"] == item["spec"], again["spec"]
    assert again["metadata"]["generation"] == item["metadata"]["generation"]
    # Each of the others, too, and what v1beta1 alone has.
    w.patch("SandboxTemplate", "agent", {
        "spec": {"volumeClaimTemplatesPolicy": "Allowed"}})
    for kind, name in (("SandboxTemplate", "agent"), ("SandboxWarmPool", "warm"),
                       ("Sandbox", item["status"]["sandbox"]["name"])):
        before, _, after = write_back(w, kind, name)
        assert after["spec"] == before["spec"], (kind, before["spec"], after["spec"])
        assert after.get("status") == before.get("status"), kind
    # Suspended in one version, it is in the other.
    name = item["status"]["sandbox"]["name"]
    w.cluster.patch(path_of(w, "Sandbox", name), {"spec": {"replicas": 0}})
    assert w.get("Sandbox", name)["spec"]["operatingMode"] == "Suspended"
    w.patch("Sandbox", name, {"spec": {"operatingMode": "Running"}})
    assert read(w, "Sandbox", name)["spec"]["replicas"] == 1
    text = w.cluster.kubectl(
        "-n", w.namespace, "get", f"sandboxclaims.v1alpha1.{EXTENSIONS}", "c",
        check=False)
    assert "is deprecated" in text.stderr, text.stderr


def test_kagent(w):
    """Create, poll, the Sandbox of the claim's name, its URL, delete by label."""
    begin(w)
    make_template(w)
    make_pool(w)
    name = "kagent-" + "s" * 20
    pods = {p["metadata"]["name"] for p in w.list("Pod")}
    make_claim(w, name, labels={"kagent.dev/session-id": "s1"})
    polls, url = poll(w, "an MCP URL", lambda: kagent_url(w, name))
    print(f"     {polls} polls of 250 ms", flush=True)
    bound = w.get("SandboxClaim", name)["status"]["sandbox"]
    assert bound["name"] in pods and bound["name"] != name
    assert url == (f"http://{bound['name']}.{w.namespace}.svc.cluster.local:8080/mcp")
    alias = read(w, "Sandbox", name)
    assert alias["status"]["podIPs"] == bound["podIPs"]
    assert is_ready(alias)
    # Never a second Pod, and no member of the pool.
    w.wait_pool("warm", 2)
    assert w.get("Pod", name) is None
    # It lives on through a restart, as one.
    w.daemons[0].restart()
    w.claim("later", "warm")
    w.wait_claim("later")
    assert read(w, "Sandbox", name)["metadata"]["uid"] == alias["metadata"]["uid"]
    selector = "?labelSelector=kagent.dev%2Fsession-id%3Ds1"
    for item in w.cluster.get(f"/apis/{EXTENSIONS}/v1alpha1/sandboxclaims{selector}")["items"]:
        w.cluster.delete(path_of(w, "SandboxClaim", item["metadata"]["name"]))
    w.wait_gone("Sandbox", name)
    w.wait_gone("Sandbox", bound["name"])


def test_kagents_provider(w):
    """Its provider in Go, which reads through a cache, with the types of both versions of
    the API that it has been built with: create, poll, alias, URL, delete."""
    programs = world.clients() / "go"
    begin(w)
    make_template(w)
    make_pool(w, replicas=8)
    for name in ("kagent", "kagent-late"):
        run = subprocess.run(
            [programs / name / name, str(w.cluster.kubeconfig), w.namespace, "agent"],
            text=True, timeout=900, check=False, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT)
        assert run.returncode == 0 and run.stdout.endswith("done\n"), run.stdout[-4000:]
        print(f"     {name}:", next(line for line in run.stdout.splitlines()
                                    if " polls at most" in line), flush=True)
        wait_for("no claim", lambda: not w.list("SandboxClaim"))
        w.wait_pool("warm", 8)


def test_without_a_pool(w):
    """A template alone: a sandbox of its own; without a template: told at once."""
    begin(w)
    make_template(w)
    make_claim(w, "c", labels={"kagent.dev/session-id": "s1"})
    poll(w, "an MCP URL", lambda: kagent_url(w, "c"))
    assert w.get("SandboxClaim", "c")["status"]["sandbox"]["name"] == "c"
    make_claim(w, "missing", template="nowhere")
    wait_for("its reason", lambda: condition(read(w, "SandboxClaim", "missing")).get(
        "reason") == "TemplateNotFound")
    make_pool(w)
    make_claim(w, "own", spec={"warmpool": "none"})
    assert w.wait_claim("own")["status"]["sandbox"]["name"] == "own"


def test_implicit_pool(w):
    """A template that nobody made a pool for: the first claim starts cold, the next one is
    warm; people see whose pool it is; and it goes when its template says no."""
    begin(w, implicit_pool=2)
    make_template(w)
    make_claim(w, "first")
    assert w.wait_claim("first")["status"]["sandbox"]["name"] == "first"
    w.wait_pool("shadow-pool-agent", 2)
    pool = w.get("SandboxWarmPool", "shadow-pool-agent")
    assert pool["metadata"]["labels"]["warmpool.dev/implicit-pool"] == "true"
    owner, = pool["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"]) == ("SandboxTemplate", "agent")
    wait_for("an event", lambda: [e for e in w.list("Event")
                                  if e["reason"] == "ImplicitPoolMade"])
    make_claim(w, "second", labels={"kagent.dev/session-id": "s2"})
    assert w.wait_claim("second")["status"]["sandbox"]["name"].startswith(
        "shadow-pool-agent-")
    poll(w, "an MCP URL", lambda: kagent_url(w, "second"))
    w.cluster.kubectl("-n", w.namespace, "annotate", "sandboxtemplate", "agent",
                      "warmpool.dev/implicit-pool=0")
    w.wait_gone("SandboxWarmPool", "shadow-pool-agent")
    # Never a pool that is missed: neither by who was served, nor by who comes now.
    make_claim(w, "third")
    assert w.wait_claim("third")["status"]["sandbox"]["name"] == "third"
    assert is_ready(read(w, "SandboxClaim", "second"))


def test_ax_cycles(w):
    """One name, made and deleted again and again: each gets an address of its own Pod."""
    begin(w)
    make_template(w, "axp")
    make_pool(w, "axp-pool", 8, "axp")
    took = []
    for _ in range(CYCLES):
        start = time.monotonic()
        made = make_claim(w, "conversation", "axp")

        def address(uid=made["metadata"]["uid"]):
            item = read(w, "SandboxClaim", "conversation")
            assert item["metadata"]["uid"] == uid
            assert "deletionTimestamp" not in item["metadata"]
            sandbox = item.get("status", {}).get("sandbox", {})
            return sandbox if sandbox.get("podIPs") else None
        sandbox = wait_for("an address", address, every_s=0.01)
        took.append(time.monotonic() - start)
        pod = w.get("Pod", sandbox["name"])
        assert pod["status"]["podIP"] == sandbox["podIPs"][0]
        assert "deletionTimestamp" not in pod["metadata"]
        w.cluster.delete(path_of(w, "SandboxClaim", "conversation"))
    took.sort()
    print(f"     {CYCLES} cycles: p50 {took[len(took) // 2] * 1000:.0f} ms, "
          f"p99 {took[len(took) * 99 // 100] * 1000:.0f} ms", flush=True)
    w.wait_pool("axp-pool", 8)
    wait_for("nothing left over", lambda: len(w.list("Sandbox")) == 8 and
             len(w.list("Pod")) == 8)


def test_kagenti(w):
    """Its three templates and claims with a time to live, applied as they are."""
    begin(w)
    hardened = {"podTemplate": {"metadata": {"labels": {
        "app.kubernetes.io/part-of": "kagenti"}}, "spec": {
            "automountServiceAccountToken": False,
            "securityContext": {"runAsNonRoot": True,
                                "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [{
                "name": "agent", "image": "registry.invalid/agent:1",
                "ports": [{"containerPort": 8080, "protocol": "TCP"}],
                "resources": {"requests": {"cpu": "250m", "memory": "512Mi"},
                              "limits": {"cpu": "2", "memory": "4Gi"}},
                "securityContext": {"allowPrivilegeEscalation": False,
                                    "capabilities": {"drop": ["ALL"]}},
                "volumeMounts": [{"name": "workspace", "mountPath": "/workspace"},
                                 {"name": "tmp", "mountPath": "/tmp"}]}],
            "volumes": [{"name": "workspace", "emptyDir": {}},
                        {"name": "tmp", "emptyDir": {}}]}},
                "networkPolicy": {"ingress": [], "egress": [{"ports": [
                    {"protocol": "UDP", "port": 53}, {"protocol": "TCP", "port": 53}]}]}}
    for name in ("kagenti-agent-sandbox", "basic", "proxy"):
        make(w, "SandboxTemplate", name, hardened)
    made = w.cluster.kubectl("-n", w.namespace, "apply", "-f", "-", stdin=f"""
apiVersion: {EXTENSIONS}/v1alpha1
kind: SandboxClaim
metadata:
  name: alert-disk-0a1b2c
  labels: {{app.kubernetes.io/part-of: kagenti, trigger-type: alert}}
spec:
  sandboxTemplateRef: {{name: kagenti-agent-sandbox}}
  lifecycle: {{shutdownPolicy: Delete, shutdownTime: "2099-01-01T00:00:00Z"}}
""")
    assert "created" in made
    item = w.wait_claim("alert-disk-0a1b2c")
    assert item["spec"]["lifecycle"]["shutdownTime"] == "2099-01-01T00:00:00Z"
    assert read(w, "SandboxClaim", "alert-disk-0a1b2c")["spec"]["lifecycle"] == item[
        "spec"]["lifecycle"]


def test_kagentis_triggers(w):
    """A real API server takes the labels and annotations of each, and the claims
    are served warm by a pool of the template."""
    daemon = begin(w, trigger_template=w.namespace + "/agent")
    w.template("agent")
    w.pool("agents", 3, "agent")
    for body, labels, annotations in (
            ({"type": "cron", "skill": "rca:ci", "schedule": "0 2 * * *"},
             {}, {"trigger-skill": "rca:ci", "trigger-schedule": "0 2 * * *"}),
            ({"type": "webhook", "event": "push", "repo": "org/name",
              "branch": "feat/x", "pr_number": 7},
             {"trigger-event": "push", "trigger-pr": "7"},
             {"trigger-repo": "org/name", "trigger-branch": "feat/x"}),
            ({"type": "alert", "alert": "Disk Full"}, {"trigger-severity": "warning"},
             {"trigger-alert": "Disk Full"})):
        said = subprocess.run(
            ["curl", "--silent", "--fail-with-body", "--unix-socket",
             daemon.dir / "warmpoold-http.sock", "--json", json.dumps(body),
             "http://warmpoold/api/v1/sandbox/trigger"],
            capture_output=True, text=True, timeout=120, check=False)
        assert said.returncode == 0, said
        claim = w.wait_claim(json.loads(said.stdout)["sandbox_claim"])
        meta = claim["metadata"]
        assert labels.items() <= meta["labels"].items(), meta
        assert meta["labels"]["trigger-type"] == body["type"], meta
        assert annotations.items() <= meta["annotations"].items(), meta
        assert claim["spec"]["lifecycle"]["shutdownPolicy"] == "Delete", claim
        assert claim["status"]["sandbox"]["name"].startswith("agents-"), claim


def test_others_pay_nothing(w):
    """Claims of v1beta1 cost as many writes as where nobody knows v1alpha1."""
    begin(w)
    w.template()
    w.pool("p", 2)
    for number in range(10):
        w.claim(f"c{number}", "p")
        w.wait_claim(f"c{number}")
    assert not [s for s in w.list("Sandbox")
                if "warmpool.dev/alias" in s["metadata"].get("labels", {})]


world.main(__name__)
