"""What deploy/ installs: the kinds as users see them, Pods that are restricted, and a
daemon with no more rights than deploy/kubernetes/base gives it.
"""
import json
import os
import pathlib
import secrets
import socket
import subprocess
import time
import urllib.error
import urllib.request

import yaml

import world
from cluster import ROOT, free_port, wait_for
from world import is_ready, world_binary

BASE = ROOT / "deploy/kubernetes/base"
SYSTEM = "agent-sandbox-system"
ACCOUNT = "agent-sandbox-controller"


def refused(w, *arguments, words):
    run = w.cluster.kubectl("-n", w.namespace, *arguments, check=False)
    assert run.returncode != 0 and words in run.stderr, (
        f"{arguments}: {run.stdout}{run.stderr}")


def patch(kind, name, body):
    return ("patch", kind, name, "--type=merge", "-p", json.dumps(body))


def test_schemas(w):
    """Defaults are filled in, mistakes are refused with their field's name."""
    w.template()
    w.create("SandboxWarmPool", "p", {"sandboxTemplateRef": {"name": "python"}})
    w.create("SandboxClaim", "c", {"warmPoolRef": {"name": "p"}, "lifecycle": {}})
    volume = {"metadata": {"name": "v"}, "spec": {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}}}}
    w.create("Sandbox", "s", {
        "podTemplate": {"spec": {"containers": [{"name": "c", "image": "i"}]}},
        "volumeClaimTemplates": [volume]})
    assert w.get("SandboxWarmPool", "p")["spec"]["replicas"] == 1
    assert w.get("SandboxClaim", "c")["spec"]["lifecycle"] == {
        "shutdownPolicy": "Retain"}
    sandbox = w.get("Sandbox", "s")["spec"]
    assert sandbox["operatingMode"] == "Running"
    assert sandbox["podTemplate"]["spec"]["containers"][0]["image"] == "i"
    template = w.get("SandboxTemplate", "python")["spec"]
    assert template["networkPolicyManagement"] == "Managed"
    assert template["envVarsInjectionPolicy"] == "Disallowed"
    volume["spec"]["resources"]["requests"]["storage"] = "2Gi"
    for templates in ([volume], [], None):
        refused(w, *patch("sandbox", "s", {"spec": {
            "volumeClaimTemplates": templates}}),
                words="volumeClaimTemplates is immutable")
    refused(w, *patch("swp", "p", {"spec": {"replicas": -1}}),
            words="spec.replicas")
    refused(w, *patch("swp", "p", {"spec": {"updateStrategy": {"type": "x"}}}),
            words='"Recreate", "OnReplenish"')
    refused(w, *patch("sandboxclaim", "c", {"spec": {"warmPoolRef": None}}),
            words="spec.warmPoolRef: Required value")
    refused(w, *patch("sandbox", "s", {"spec": {
        "shutdownPolicy": "DeleteForeground"}}), words="shutdownPolicy")


def test_columns_and_scale(w):
    """kubectl shows what upstream's definitions show, and scales a pool."""
    w.template()
    w.create("SandboxWarmPool", "p", {"sandboxTemplateRef": {"name": "python"}})
    w.create("SandboxClaim", "c", {"warmPoolRef": {"name": "p"}})
    for kind, columns in (("swp", "NAME READY DESIRED AGE"),
                          ("sandboxclaim", "NAME READY SANDBOX REASON AGE")):
        text = w.cluster.kubectl("-n", w.namespace, "get", kind)
        assert text.splitlines()[0].split() == columns.split(), text
    w.cluster.kubectl("-n", w.namespace, "scale", "swp", "p", "--replicas=4")
    assert w.get("SandboxWarmPool", "p")["spec"]["replicas"] == 4
    text = w.cluster.kubectl("explain", "swp.spec.replicas")
    assert "<integer>" in text, text


def test_base_is_taken(w):
    """The API server takes all of the base, and a namespace that enforces the
    standard "restricted" takes its Pod."""
    rendered = w.cluster.kubectl("kustomize", str(BASE))
    w.cluster.kubectl("apply", "-f", "-", stdin=rendered)
    w.cluster.kubectl("label", "namespace", w.namespace,
                      "pod-security.kubernetes.io/enforce=restricted")
    w.cluster.kubectl("-n", w.namespace, "create", "serviceaccount", ACCOUNT)
    deployment = w.cluster.get(
        f"/apis/apps/v1/namespaces/{SYSTEM}/deployments/{ACCOUNT}")
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {
        "name": "one", "namespace": w.namespace},
        "spec": deployment["spec"]["template"]["spec"]}
    context = pod["spec"]["containers"][0]["securityContext"]
    capabilities, context["capabilities"] = context["capabilities"], {}

    def enforced():
        """Admission hears of the label by a watch of its own."""
        run = w.cluster.kubectl("apply", "--dry-run=server", "-f", "-",
                                stdin=json.dumps(pod), check=False)
        return run.returncode != 0 and "restricted" in run.stderr
    wait_for("the standard to be enforced", enforced)
    context["capabilities"] = capabilities
    w.cluster.kubectl("apply", "--dry-run=server", "-f", "-",
                      stdin=json.dumps(pod))
    w.cluster.kubectl("-n", SYSTEM, "delete", "deployment", ACCOUNT)


def denied(w):
    """Of all requests ever; that no role allows one counts as having no opinion."""
    return sum(v for k, v in
               w.cluster.metrics("authorization_attempts_total").items()
               if 'result="allowed"' not in k)


def test_rights_are_enough(w):
    """A whole life under the ServiceAccount of the base, and nothing was denied."""
    w.cluster.kubectl("-n", SYSTEM, "apply", "-f", str(BASE / "rbac.yaml"))
    config = w.cluster.service_account_kubeconfig(SYSTEM, ACCOUNT)
    before = denied(w)
    daemon = w.daemon(kubeconfig=config, leader_election_namespace=SYSTEM)
    w.template()
    w.pool("p", 2)
    policy = wait_for("the template's NetworkPolicy",
                      lambda: w.get("NetworkPolicy", "python-network-policy"))
    w.claim("c", "p")
    w.wait_claim("c")
    wait_for("the event of the adoption", lambda: w.events("SandboxAdopted"))
    w.create("Sandbox", "own", {
        "podTemplate": {"spec": {"containers": [{
            "name": "main", "image": "registry.invalid/pause:1",
            "ports": [{"containerPort": 8888}]}]}}, "service": True})
    wait_for("a sandbox with a Service",
             lambda: is_ready(w.get("Sandbox", "own")))
    w.patch("Sandbox", "own", {"spec": {"operatingMode": "Suspended"}})
    w.wait_gone("Pod", "own")
    w.patch("Sandbox", "own", {"spec": {"service": False}})
    w.wait_gone("Service", "own")
    w.patch("SandboxTemplate", "python", {"spec": {
        "networkPolicy": {"ingress": []}}})
    wait_for("other rules", lambda: w.get(
        "NetworkPolicy", "python-network-policy")["spec"] != policy["spec"])
    w.patch("SandboxTemplate", "python", {"spec": {
        "networkPolicyManagement": "Unmanaged"}})
    w.wait_gone("NetworkPolicy", "python-network-policy")
    w.patch("SandboxClaim", "c", {"spec": {"lifecycle": {
        "shutdownTime": "2026-01-01T00:00:00Z", "shutdownPolicy": "Delete"}}})
    w.wait_gone("SandboxClaim", "c")
    w.patch("SandboxWarmPool", "p", {"spec": {"replicas": 0}})
    w.wait_pool("p", 0)
    assert daemon.stop()
    words = [line for line in daemon.log().splitlines()
             if "forbidden" in line.lower() or "answered 403" in line]
    assert not words, words
    assert denied(w) == before, f"{denied(w) - before} requests were denied"
    # And that is counted here.
    run = subprocess.run(
        [w.cluster.bin / "kubectl", "--kubeconfig", config, "get", "secrets"],
        capture_output=True, text=True, check=False)
    assert "forbidden" in run.stderr and denied(w) > before, run.stderr


def test_repositories(w):
    """The component adds a container to the base, and the API server takes it."""
    overlay = w.dir / "repositories"
    overlay.mkdir()
    where = pathlib.Path(os.path.relpath(BASE.parent, overlay.resolve()))
    (overlay / "kustomization.yaml").write_text(yaml.safe_dump({
        "apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization",
        "namespace": w.namespace, "resources": [str(where / "base")],
        "components": [str(where / "repositories")]}))
    made, = (doc for doc in yaml.safe_load_all(
        w.cluster.kubectl("kustomize", str(overlay))) if doc["kind"] == "Deployment")
    pod = made["spec"]["template"]["spec"]
    daemon, fetch = pod["containers"]
    assert fetch["image"].endswith("/warmpool-fetch:0.1.0"), fetch["image"]
    mounts = [{mount["name"] for mount in one["volumeMounts"]}
              for one in (daemon, fetch)]
    assert mounts[0] & mounts[1] == {"fetch"}, mounts
    assert len(mounts[0]) == 7, mounts
    w.cluster.kubectl("apply", "--dry-run=server", "-f", "-",
                      stdin=yaml.safe_dump(made))


def test_one_namespace(w):
    """The overlay for one namespace: a life with Roles alone, and no right beyond."""
    overlay = w.dir / "namespaced"
    overlay.mkdir()
    text = (ROOT / "deploy/kubernetes/overlays/namespaced/kustomization.yaml"
            ).read_text()
    for old, new in ((f"\nnamespace: {SYSTEM}\n", f"\nnamespace: {w.namespace}\n"),
                     ("../../base", os.path.relpath(BASE, overlay.resolve()))):
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    (overlay / "kustomization.yaml").write_text(text)
    objects = [doc for doc in yaml.safe_load_all(
        w.cluster.kubectl("kustomize", str(overlay))) if doc["kind"] in (
            "ServiceAccount", "Role", "RoleBinding", "ClusterRole",
            "ClusterRoleBinding", "Namespace")]
    assert sorted(doc["kind"] for doc in objects) == [
        "Role", "Role", "RoleBinding", "RoleBinding", "ServiceAccount"], objects
    assert {doc["metadata"]["namespace"] for doc in objects} == {w.namespace}
    assert {subject["namespace"] for doc in objects
            for subject in doc.get("subjects", [])} == {w.namespace}
    w.cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(objects))
    config = w.cluster.service_account_kubeconfig(w.namespace, ACCOUNT)
    daemon = w.daemon(kubeconfig=config, watch_namespace=w.namespace,
                      leader_election_namespace=w.namespace)
    w.template()
    w.pool("p", 1)
    wait_for("the template's NetworkPolicy",
             lambda: w.get("NetworkPolicy", "python-network-policy"))
    w.claim("c", "p")
    w.wait_claim("c")
    wait_for("the event of the adoption", lambda: w.events("SandboxAdopted"))
    w.wait_pool("p", 1)
    w.patch("SandboxWarmPool", "p", {"spec": {"replicas": 0}})
    w.wait_pool("p", 0)
    assert daemon.stop()
    words = [line for line in daemon.log().splitlines()
             if "forbidden" in line.lower() or "answered 403" in line]
    assert not words, words
    for words in (("-n", "default", "get", "pods"), ("get", "pods", "-A"),
                  ("-n", w.namespace, "get", "secrets")):
        run = subprocess.run(
            [w.cluster.bin / "kubectl", "--kubeconfig", config, *words],
            capture_output=True, text=True, check=False)
        assert run.returncode != 0 and "forbidden" in run.stderr, (words, run)


class Secrets:
    """What the base mounts, as files; and its settings that name them."""

    def __init__(self, directory, redis_port):
        self.dir = directory
        for name in ("redis", "keys", "tls"):
            (directory / name).mkdir(parents=True)
        self.password = secrets.token_hex(24)
        self.write("redis/password", self.password)
        self.write("keys/token.key", secrets.token_hex(32))
        self.openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days",
                     "2", "-subj", "/CN=authority", "-keyout", "tls/ca.key",
                     "-out", "tls/ca.crt")
        self.certificate("tls", "subjectAltName=IP:127.0.0.1")
        self.certificate("client", "subjectAltName=DNS:client")
        self.certificate("redis", "subjectAltName=IP:127.0.0.1")
        self.write("redis/ca.crt", (directory / "tls/ca.crt").read_text())
        text = (BASE / "warmpoold.yaml").read_text()
        for old, new in (("/etc/warmpool/", f"{directory}/"),
                         ("warmpool-redis:6379", f"127.0.0.1:{redis_port}"),
                         ("0.0.0.0:8443", "0.0.0.0:0"),
                         ("0.0.0.0:8080", "0.0.0.0:0"),
                         ("unix:/run/warmpool/warmpoold.sock", None),
                         ("runtime_dir:", None)):
            assert old in text, old
            text = (text.replace(old, new) if new is not None else "".join(
                line + "\n" for line in text.splitlines() if old not in line))
        self.config = directory / "warmpoold.yaml"
        self.config.write_text(text)

    def write(self, name, text):
        (self.dir / name).write_text(text)
        (self.dir / name).chmod(0o600)

    def openssl(self, *words):
        subprocess.run(["openssl", *words], cwd=self.dir, check=True,
                       capture_output=True)

    def certificate(self, name, extension):
        (self.dir / f"tls/{name}.ext").write_text(extension)
        self.openssl("req", "-newkey", "rsa:2048", "-nodes", "-subj",
                     f"/CN={name}", "-keyout", f"tls/{name}.key", "-out",
                     f"tls/{name}.csr")
        self.openssl("x509", "-req", "-in", f"tls/{name}.csr", "-CA",
                     "tls/ca.crt", "-CAkey", "tls/ca.key", "-CAcreateserial",
                     "-days", "2", "-extfile", f"tls/{name}.ext", "-out",
                     f"tls/{name}.crt")


def port_of(daemon, protocol):
    def probe():
        for line in daemon.log().split("\n")[:-1]:  # The last is not whole.
            entry = json.loads(line) if line.startswith("{") else {}
            if entry.get("protocol") == protocol:
                return entry["address"].rsplit(":", 1)[1]
        return None
    return wait_for(f"{daemon.name}'s port for {protocol}", probe)


def page(daemon, path):
    """(status, text) of its port for metrics."""
    url = f"http://127.0.0.1:{port_of(daemon, 'metrics')}{path}"
    try:
        with urllib.request.urlopen(url, timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def leads(daemon):
    return not daemon.died() and "\nwarmpool_leader 1" in page(
        daemon, "/metrics")[1]


def accepts(port):
    with socket.create_connection(("127.0.0.1", port), timeout=5):
        return True


def test_base_settings(w):
    """Two replicas with the very settings of the base: Redis, TLS both ways, the
    port for probes and scrapers. One is killed; its leases are held."""
    port = free_port()
    files = Secrets(w.dir / "secrets", port)
    redis = w.cluster.spawn("redis", [
        "redis-server", "--port", "0", "--tls-port", str(port), "--bind",
        "127.0.0.1", "--tls-cert-file", str(files.dir / "tls/redis.crt"),
        "--tls-key-file", str(files.dir / "tls/redis.key"),
        "--tls-auth-clients", "no", "--save", "",
        "--requirepass", files.password, "--dir", str(w.dir)])
    # A daemon that cannot read its leases at the start ends.
    wait_for("Redis listens", lambda: accepts(port))

    def control(daemon, *words):
        folder = files.dir / "tls"
        run = subprocess.run(
            [world_binary("warmpoolctl"), *words, "--address",
             f"127.0.0.1:{port_of(daemon, 'grpc')}", "--tls-ca",
             folder / "ca.crt", "--tls-cert", folder / "client.crt",
             "--tls-key", folder / "client.key", "--output", "json"],
            capture_output=True, text=True, check=False,
            env={"XDG_STATE_HOME": str(files.dir), "HOME": str(files.dir)})
        assert run.returncode == 0, run.stderr
        return json.loads(run.stdout)

    w.template()
    # They share a host here, so each has ports of its own.
    pair = [w.daemon(config=files.config, lease_store="redis",
                     leader_election_namespace=SYSTEM,
                     webhook_listen=f"127.0.0.1:{free_port()}",
                     trusting_listen=f"127.0.0.1:{free_port()}")
            for _ in range(2)]
    for daemon in pair:
        wait_for(f"{daemon.name} ready",
                 lambda d=daemon: page(d, "/readyz")[0] == 200)
        assert page(daemon, "/healthz")[0] == 200
        assert page(daemon, "/sandboxes/any/")[0] == 404
    w.pool("p", 2)
    leader = wait_for("a leader", lambda: next(filter(leads, pair), None))
    other = pair[1 - pair.index(leader)]
    claim = ("claim", f"{w.namespace}/p", "--id", "one", "--wait", "2m",
             "--ttl", "10m")
    first = control(other, *claim)
    leader.kill()
    start = time.monotonic()
    wait_for("the other leads", lambda: leads(other))
    print(f"     takeover after a kill: {time.monotonic() - start:.1f} s")
    # Who shows a lease of another renews it first: it lasts a moment longer.
    again = control(other, *claim)
    renewed = {key: again[key] for key in
               ("token", "deadline", "deadline_unix_ms", "waited_us")}
    assert again == {**first, "replayed": True, **renewed}, (first, again)
    assert 0 <= again["deadline_unix_ms"] - first["deadline_unix_ms"] <= 2
    w.wait_pool("p", 2)
    control(other, "claim", f"{w.namespace}/p", "--id", "two", "--wait", "2m")
    w.stop_daemons()
    redis.terminate()
    redis.wait()
    w.cluster.processes.pop("redis")


world.main(__name__)
