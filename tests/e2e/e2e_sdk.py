"""agent-sandbox's Python SDK, as it is published, on a real control plane with real
data paths: KWOK says that a Pod runs, and a warmpool-runtime on a loopback address,
which becomes the Pod's, is what answers there."""
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

import world
from cluster import ROOT, free_port, wait_for

sys.path.insert(0, str(ROOT / "tests/support/git"))
sys.path.insert(0, str(ROOT / "tests/support/identity"))
sys.path.insert(0, str(ROOT / "tests/support/egress"))
import git_rig
from package_index import Index
from verifier import Verifier

LIVES = 13  # Of SDK below, with the one that fails.
ROUTED = 4  # The same by way of the router.

# What the SDK does, by itself, in its own Python.
SDK = r'''
import asyncio, io, os, sys
from concurrent.futures import ThreadPoolExecutor
from k8s_agent_sandbox import SandboxClient
from k8s_agent_sandbox.async_sandbox_client import AsyncSandboxClient
from k8s_agent_sandbox.exceptions import (SandboxClaimFailedError,
    SandboxRequestError, SandboxWarmPoolNotFoundError)
from k8s_agent_sandbox.models import (SandboxDirectConnectionConfig,
    SandboxGatewayConnectionConfig, SandboxInClusterConnectionConfig,
    SandboxdInClusterConnectionConfig)
ns, rest, grpc = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
routers = [SandboxDirectConnectionConfig(api_url=url, server_port=rest)
           for url in sys.argv[4:5]]
routers += [SandboxGatewayConnectionConfig(gateway_name=name, gateway_namespace=ns,
                                           server_port=rest) for name in sys.argv[5:]]
in_cluster = SandboxInClusterConnectionConfig(server_port=rest)
sandboxd = SandboxdInClusterConnectionConfig(
    mode="in-cluster-pod-ip", rest_port=rest, grpc_port=grpc)

def life(config):
    client = SandboxClient(config)
    sandbox = client.create_sandbox("p", namespace=ns)
    assert sandbox.status()[0] == "SandboxReady", sandbox.status()
    assert sandbox.sandbox_id.startswith("p-"), sandbox.sandbox_id
    assert sandbox.get_pod_ip().startswith("127."), sandbox.get_pod_ip()
    assert sandbox.commands.run("echo hello").stdout == "hello\n"
    sandbox.files.write("dir/file", io.BytesIO(b"x" * 3000000))
    assert sandbox.files.read("dir/file") == b"x" * 3000000
    assert sandbox.files.exists("dir/file")
    assert [e.name for e in sandbox.files.list("dir")] == ["file"]
    try:
        sandbox.files.read("none")
        raise AssertionError("read")
    except SandboxRequestError as error:
        assert error.status_code == 404
    if config is sandboxd:
        sandbox.files.delete("dir", recursive=True)
        assert not sandbox.files.exists("dir")
        late = sandbox.commands.run("sleep 1000", command_timeout=1)
        assert late.timed_out
    assert sandbox.claim_name in client.list_all_sandboxes(namespace=ns)
    again = SandboxClient(config).get_sandbox(sandbox.claim_name, namespace=ns)
    assert again.sandbox_id == sandbox.sandbox_id
    again.close_connection()
    sandbox.terminate()
    return sandbox.sandbox_id

async def async_life(config):
    async with AsyncSandboxClient(config) as client:
        sandbox = await client.create_sandbox("p", namespace=ns)
        assert (await sandbox.commands.run("echo hi")).stdout == "hi\n"
        await sandbox.files.write("a", "b")
        assert await sandbox.files.read("a") == b"b"
        await client.delete_sandbox(sandbox.claim_name, namespace=ns)

for config in routers or (in_cluster, sandboxd):
    life(config)
    asyncio.run(async_life(config))
if routers:
    print("done")
    sys.exit()
with ThreadPoolExecutor(8) as pool:
    names = list(pool.map(life, [sandboxd] * 8))
assert len(set(names)) == 8, names
try:
    SandboxClient(in_cluster).create_sandbox("none", namespace=ns)
    raise AssertionError("a pool that is not there")
except SandboxWarmPoolNotFoundError:
    pass
try:
    SandboxClient(in_cluster).create_sandbox(
        "p", namespace=ns, volume_claim_templates=[
            {"metadata": {"name": "x"}, "spec": {}}])
    raise AssertionError("a volume claim without a size")
except SandboxClaimFailedError:
    pass
except Exception as error:
    assert getattr(error, "status", None) in (400, 403, 422), repr(error)
print("done")
'''


class Sandboxes:
    """Answers for the Pods of a namespace: a real server for each that runs, at an
    address that the Pod gets, until the Pod is gone."""

    def __init__(self, w):
        self.w = w
        self.dir = tempfile.mkdtemp(prefix="warmpool-e2e-sdk-")
        # One port for all of them, as in Pods; it is nobody else's here.
        self.rest, self.grpc = free_port(), free_port()
        self.running, self.count = {}, 0
        self.ending = threading.Event()
        self.failed = None
        self.thread = threading.Thread(target=self.follow, daemon=True)
        self.thread.start()

    def start(self, name, pod):
        """The server has the variables that its Pod's first container has."""
        self.count += 1
        number = os.getpid() % 200 * 200 + self.count
        ip = f"127.{90 + number // 62500}.{number // 250 % 250}.{number % 250 + 1}"
        folder = os.path.join(self.dir, name)
        os.mkdir(folder)
        with open(folder + ".log", "wb") as log:
            process = subprocess.Popen(
                [world.world_binary("runtime/warmpool-runtime"), "--bind", ip,
                 "--port", str(self.rest), "--grpc-port", str(self.grpc),
                 "--workspace", folder, "--port-file", folder + ".ports",
                 "--bound-dir", folder + ".bound"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env={**os.environ, **{
                    one["name"]: one.get("value", "")
                    for one in pod["spec"]["containers"][0].get("env", [])}})
        self.running[name] = process
        wait_for(f"the server of {name}",
                 lambda: os.path.exists(folder + ".ports"))
        return ip

    def look(self):
        pods = {p["metadata"]["name"]: p for p in self.w.list("Pod")}
        for name, pod in pods.items():
            status = pod.get("status", {})
            if (name not in self.running and status.get("phase") == "Running"
                    and "deletionTimestamp" not in pod["metadata"]):
                ip = self.start(name, pod)
                self.w.patch("Pod", name, {"status": {
                    "podIP": ip, "podIPs": [{"ip": ip}]}}, "status")
        for name in set(self.running) - set(pods):
            self.end(name)

    def follow(self):
        while not self.ending.is_set():
            try:
                self.look()
            except Exception as error:  # Told by whoever waits in vain.
                self.failed = error
            time.sleep(0.05)

    def end(self, name):
        process = self.running.pop(name)
        process.terminate()
        process.wait(60)
        shutil.rmtree(os.path.join(self.dir, name), ignore_errors=True)

    def stop(self):
        self.ending.set()
        self.thread.join()
        for name in list(self.running):
            self.end(name)
        shutil.rmtree(self.dir, ignore_errors=True)


def fill(w, lives):
    """As many as the SDK takes in all: none is Ready, and taken, before its Pod has the
    address of a real server."""
    w.pool("p", lives)
    wait_for("addresses of real sandboxes", lambda: all(
        s.get("status", {}).get("podIPs", ["none"])[0].startswith("127.")
        for s in w.list("Sandbox")))


def answers(port):
    with socket.socket() as sock:
        return sock.connect_ex(("127.0.0.1", port)) == 0


def run_sdk(w, sandboxes, *routers):
    run = subprocess.run(
        [world.clients() / "python/bin/python3", "-W", "ignore", "-c", SDK,
         w.namespace, str(sandboxes.rest), str(sandboxes.grpc), *routers],
        text=True, timeout=900, check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env={**os.environ, "KUBECONFIG": str(w.cluster.kubeconfig),
             "PYTHONDONTWRITEBYTECODE": "1"})
    assert run.returncode == 0 and run.stdout.endswith("done\n"), (
        run.stdout[-4000:], sandboxes.failed)


def make_gateway(w, address):
    """A Gateway that some controller has given that address."""
    w.cluster.kubectl("apply", "-f", "-", stdin=GATEWAYS)
    w.cluster.kubectl("wait", "--for=condition=Established", "--timeout=300s",
                      "crd/gateways.gateway.networking.k8s.io")
    path = f"/apis/gateway.networking.k8s.io/v1/namespaces/{w.namespace}/gateways"
    wait_for("the kind Gateway", lambda: w.cluster.get(path) is not None)
    w.cluster.request("POST", path, {
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway",
        "metadata": {"name": "sandboxes"}, "spec": {},
        "status": {"addresses": [{"type": "IPAddress", "value": address}]}})


def may_listen(address, port):
    with socket.socket() as probe:
        try:
            probe.bind((address, port))
        except PermissionError:
            return False
    return True


def answer_of(router, sandbox, namespace):
    """The status of the sandbox's answer; the router's own, where it has none."""
    request = urllib.request.Request(f"http://{router}/", headers={
        "X-Sandbox-ID": sandbox, "X-Sandbox-Namespace": namespace})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


def test_python_sdk_by_the_router(w):
    """Direct mode, and a Gateway in front of sandbox-router-svc: the daemon finds the
    Pod by the SDK's headers."""
    address = f"127.88.{os.getpid() >> 8 & 255}.{os.getpid() & 255 or 1}"
    has_gateway = may_listen(address, 80)  # The SDK adds no port.
    routers = [f"127.0.0.1:{free_port()}"] + [f"{address}:80"] * has_gateway
    w.template()
    sandboxes = Sandboxes(w)
    try:
        w.daemon(trusting_listen=",".join(routers), trust_sandboxes="127.0.0.0/8",
                 sandbox_port=sandboxes.rest)
        if has_gateway:
            make_gateway(w, address)
        fill(w, ROUTED)
        run_sdk(w, sandboxes, "http://" + routers[0], *["sandboxes"] * has_gateway)
        wait_for("no claim", lambda: not w.list("SandboxClaim"))
        # A Sandbox that started cold, and one that nobody claimed.
        w.pool("none", 0)
        w.claim("cold", "none")
        w.create("Sandbox", "bare", {"podTemplate": {"spec": {"containers": [
            {"name": "main", "image": "registry.invalid/pause:1"}]}}})
        for name in ("cold", "bare"):
            wait_for(f"{name} by the router",
                     lambda n=name: answer_of(routers[0], n, w.namespace) == 200)
        # Nobody reaches what waits in a pool, or lies in another namespace. What the
        # SDK had is reached for as long as the garbage collector leaves it there.
        idle = next(s["metadata"]["name"] for s in w.list(
            "Sandbox", "agents.x-k8s.io/warm-pool-sandbox"))
        assert answer_of(routers[0], idle, w.namespace) == 404
        assert answer_of(routers[0], "bare", "default") == 404
    finally:
        sandboxes.stop()


def test_python_sdk(w):
    """In-cluster mode with both runtimes, at once and async; nothing is left over."""
    w.daemon()
    w.template()
    sandboxes = Sandboxes(w)
    try:
        fill(w, LIVES)
        run_sdk(w, sandboxes)
        wait_for("no claim", lambda: not w.list("SandboxClaim"))
        w.wait_pool("p", LIVES)
        wait_for("no sandbox without a Pod", lambda: len(
            sandboxes.running) == len(w.list("Pod")) == LIVES)
    finally:
        sandboxes.stop()


def execute(ip, port, command):
    request = urllib.request.Request(
        f"http://{ip}:{port}/execute", json.dumps({"command": command}).encode(),
        {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.loads(answer.read())["stdout"]


class Repository:
    """A private one, on loopback, and a warmpool-fetch that serves."""

    def __init__(self, w, password):
        self.root = tempfile.mkdtemp(prefix="warmpool-e2e-git-")
        self.server = git_rig.Server(self.root)
        self.server.passwords["/app"] = ("me", password)
        it = git_rig.Repository(self.root, "app")
        it.commit(it.tree(("100644", "blob", it.blob(b"cloned\n"), "README")))
        self.url = f"{self.server.base}/app"
        self.socket = os.path.join(self.root, "fetch.sock")
        self.process = subprocess.Popen(
            [world.world_binary("local/warmpool-fetch"), "serve", self.socket,
             os.path.join(self.root, "cache")], stdin=subprocess.DEVNULL, env={})
        wait_for("warmpool-fetch", lambda: os.path.exists(self.socket))

    def stop(self):
        self.process.terminate()
        self.process.wait(60)
        self.server.end()
        shutil.rmtree(self.root, ignore_errors=True)


class Way:
    """The way out of a Pod, by whose address the other side knows it."""

    def __init__(self, to):
        self.to, self.source = ("127.0.0.1", to), None
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            try:
                taken, _ = self.listener.accept()
                made = socket.create_connection(
                    self.to, source_address=(self.source, 0) if self.source else None)
            except OSError:
                return  # It was closed.
            for one, other in ((taken, made), (made, taken)):
                threading.Thread(target=self.copy, args=(one, other),
                                 daemon=True).start()

    @staticmethod
    def copy(one, other):
        try:
            while piece := one.recv(65536):
                other.sendall(piece)
            other.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def stop(self):
        self.listener.close()


class Egress:
    """The proxy of the namespace, and a package index that it lets claims reach."""

    def __init__(self, w, key):
        self.index = Index()
        path, port, out = w.dir / "egress-key", free_port(), w.dir / "egress.log"
        path.touch(0o600)
        path.write_bytes(subprocess.run(
            [world.world_binary("allocator/warmpoold"), "--backend=kubernetes",
             f"--token-key-file={key}", f"--egress-key={w.namespace}"],
            check=True, stdout=subprocess.PIPE, timeout=60).stdout)
        with open(out, "wb") as log:
            self.process = subprocess.Popen(
                [world.world_binary("runtime/warmpool-egress"), "--listen",
                 f"127.0.0.1:{port}", "--policy", "packages", "--packages",
                 self.index.rules, "--passes", path], stdin=subprocess.DEVNULL,
                stdout=log, stderr=log)
        self.log = out
        self.way = Way(port)

    def stop(self):
        self.process.terminate()
        self.process.wait(60)
        self.way.stop()
        self.index.stop()


def check_egress(w, egress, ip, port):
    """A package comes through the proxy, and nothing else does."""
    egress.way.source = ip
    pip = (f"{sys.executable} -m pip install --quiet --disable-pip-version-check "
           f"--no-deps --target lib --index-url {egress.index.url} "
           f"--trusted-host {egress.index.name} wp-small")
    assert execute(ip, port, f"sh -c '{pip} && PYTHONPATH=lib {sys.executable} -c "
                   '"import wp_small; print(wp_small.WORD)"\'') == "there\n"
    assert execute(ip, port, "curl -s -o /dev/null -w %{http_code} "
                   "http://elsewhere.test/") == "403"
    egress.way.source = "127.0.0.1"
    assert execute(ip, port, "curl -s -o /dev/null -w %{http_code} "
                   f"{egress.index.url}") == "403"
    assert f"sandbox={w.namespace}/" in egress.log.read_text()


def test_what_claims_bring(w):
    """Files, Secrets, a repository, an identity and a policy that annotations name,
    with the rights that are shipped; the template has no NetworkPolicy here, and no
    controller would enforce one."""
    secret = "wp-" + os.urandom(8).hex()
    sandboxes = Sandboxes(w)
    repository = Repository(w, secret)
    key = w.dir / "token-key"
    key.touch(0o600)
    key.write_text("5a" * 32)
    pages = f"127.0.0.1:{free_port()}"
    egress = Egress(w, key)
    try:
        w.daemon(token_key_file=key, sandbox_port=sandboxes.rest,
                 egress_proxy=f"127.0.0.1:{egress.way.port}",
                 git_remotes=repository.server.base, fetch_socket=repository.socket,
                 git_trust="enforce", identity_secret="warmpool-identity",
                 metrics_listen=pages)
        w.template()
        w.patch("SandboxTemplate", "python", {"metadata": {"annotations": {
            "template.warmpool.io/binding": "allowed"}}})
        fill(w, 2)
        w.patch("SandboxWarmPool", "p", {"metadata": {"annotations": {
            "pool.warmpool.io/egress": "packages elsewhere.test"}}})
        w.cluster.request("POST", f"/api/v1/namespaces/{w.namespace}/secrets", {
            "apiVersion": "v1", "kind": "Secret", "stringData": {"token": secret},
            "metadata": {"name": "login", "labels": {
                "claim.warmpool.io/secret": "allowed"}}})
        w.create("SandboxClaim", "c", {"warmPoolRef": {"name": "p"}}, {"annotations": {
            "claim.warmpool.io/files": json.dumps({"in/it.txt": "brought"}),
            "claim.warmpool.io/secrets": json.dumps({"TOKEN": {
                "name": "login", "key": "token", "env": True}}),
            "claim.warmpool.io/identity": json.dumps({"audience": "https://api.test"}),
            "claim.warmpool.io/egress": "packages",
            "claim.warmpool.io/repositories": json.dumps([{
                "url": repository.url, "directory": "src", "user": "me",
                "password": {"name": "login", "key": "token"}}])}})

        def says(words):
            return words in world.condition(w.get("SandboxClaim", "c")).get(
                "message", "")
        wait_for("no right to read it", lambda: says("may not read Secret"))
        w.cluster.kubectl("apply", "-n", w.namespace, "-k",
                          ROOT / "deploy/kubernetes/claim-secrets")
        wait_for("no right to records", lambda: says("its record cannot be read"))
        w.cluster.kubectl("apply", "-n", world.SYSTEM, "-f",
                          ROOT / "deploy/kubernetes/repositories/role.yaml")
        wait_for("the claim to be Ready",
                 lambda: world.is_ready(w.get("SandboxClaim", "c")))
        claim = w.get("SandboxClaim", "c")
        assert f"url {repository.url}\n" in w.cluster.kubectl(
            "get", "configmap", "-n", world.SYSTEM, "-l", "warmpool.dev/trust=record",
            "-o", "jsonpath={.items[*].data.record}")
        sandbox = w.get("Sandbox", claim["status"]["sandbox"]["name"])
        assert sandbox["metadata"]["labels"]["agents.x-k8s.io/launch-type"] == "warm"
        assert execute(sandbox["status"]["podIPs"][0], sandboxes.rest,
                       "sh -c 'cat in/it.txt; echo $TOKEN; cat src/README'") == \
            f"brought{secret}\ncloned\n"
        token = execute(sandbox["status"]["podIPs"][0], sandboxes.rest,
                        "sh -c 'cat $WARMPOOL_IDENTITY_FILE'")
        with urllib.request.urlopen(f"http://{pages}/.well-known/jwks.json") as keys:
            said = Verifier(keys.read(), str(w.dir)).good(token)
        assert said["sub"] == "/".join((
            "system:sandboxclaims", "c", w.namespace, "p",
            sandbox["metadata"]["name"])), said
        check_egress(w, egress, sandbox["status"]["podIPs"][0], sandboxes.rest)
        for kind in ("SandboxClaim", "Sandbox", "Pod"):
            assert secret not in json.dumps(w.list(kind))
        assert secret not in w.daemons[0].log()
    finally:
        sandboxes.stop()
        repository.stop()
        egress.stop()


# As much of the kind as the SDK looks at.
GATEWAYS = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: gateways.gateway.networking.k8s.io
  annotations: {api-approved.kubernetes.io: "unapproved, for a test"}
spec:
  group: gateway.networking.k8s.io
  scope: Namespaced
  names: {kind: Gateway, plural: gateways, singular: gateway}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
"""

# As its template has it, on a cluster whose nodes have no labels.
PERFKIT = """
apiVersion: extensions.agents.x-k8s.io/v1beta1
kind: SandboxTemplate
metadata: {name: agent-sandbox}
spec:
  podTemplate:
    spec:
      automountServiceAccountToken: false
      restartPolicy: OnFailure
      securityContext: {runAsNonRoot: true}
      tolerations:
      - {key: sandbox.gke.io/runtime, operator: Equal, value: runsc, effect: NoSchedule}
      containers:
      - name: python-runtime
        image: registry.k8s.io/agent-sandbox/python-runtime-sandbox:v0.4.6
        ports: [{containerPort: 8888}]
        readinessProbe: {httpGet: {path: /, port: 8888}, periodSeconds: 1}
        resources:
          requests: {cpu: 100m, memory: 256Mi, ephemeral-storage: 256Mi}
          limits: {cpu: 500m, memory: 1Gi, ephemeral-storage: 256Mi}
        securityContext: {capabilities: {drop: [ALL]}}
---
apiVersion: extensions.agents.x-k8s.io/v1beta1
kind: SandboxWarmPool
metadata: {name: agent-sandbox}
spec: {replicas: 20, sandboxTemplateRef: {name: agent-sandbox}}
"""


# An agent's client of that server, in the official SDK of MCP.
MCP = r'''
import asyncio, sys
from fastmcp import Client
from fastmcp.exceptions import ToolError
url, ns = sys.argv[1:]

async def main():
    async with Client(url) as client:
        async def call(tool, **arguments):
            return (await client.call_tool(
                tool, {"namespace": ns, **arguments})).structured_content
        name = (await call("create_sandbox", warmpool="p"))["sandbox_claim_name"]
        mine = {"sandbox_claim_name": name}
        assert (await call("get_sandbox_status", **mine))["status"] == "SandboxReady"
        done = await call("execute_command", command="echo hello", **mine)
        assert done == {"exit_code": 0, "stdout": "hello\n", "stderr": ""}, done
        done = await call("execute_command", command="sh -c 'echo no >&2; exit 3'", **mine)
        assert (done["exit_code"], done["stderr"]) == (3, "no\n"), done
        await call("upload_file", path="dir/file", content="text", **mine)
        assert (await call("file_exists", path="dir/file", **mine))["exists"]
        listed = await call("list_files", path="dir", **mine)
        assert "file" in str(listed), listed
        assert "text" in str(await call("download_file", path="dir/file", **mine))
        async with Client(url) as other:  # Another session's sandbox is not its own.
            try:
                await other.call_tool("execute_command", {
                    "namespace": ns, "command": "true", **mine})
                raise AssertionError("another session")
            except ToolError as error:
                assert "is not found" in str(error), error
        await call("delete_sandbox", **mine)

asyncio.run(main())
print("done")
'''


def test_mcp_server(w):
    """agent-sandbox's own MCP server, as its Go module carries it, between an agent
    and our control plane."""
    python = world.clients() / "python-mcp-server/bin/python3"
    env = {**os.environ, "KUBECONFIG": str(w.cluster.kubeconfig),
           "PYTHONDONTWRITEBYTECODE": "1"}
    w.daemon()
    w.template()
    sandboxes = Sandboxes(w)
    port = free_port()
    log = open(os.path.join(sandboxes.dir, "mcp.log"), "wb")
    server = subprocess.Popen(
        [python, "-m", "uvicorn", "k8s_agent_sandbox_mcp_server.app:app",
         "--host", "127.0.0.1", "--port", str(port)], stdout=log, stderr=log,
        cwd=sandboxes.dir, env={
            **env, "PYTHONPATH": str(
                world.upstream_module() / "clients/integrations/mcp-server"),
            "K8S_SANDBOX_PROBE_NAMESPACE": w.namespace,
            "K8S_SANDBOX_CONNECTION__TYPE": "in-cluster",
            "K8S_SANDBOX_CONNECTION__SERVER_PORT": str(sandboxes.rest)})

    def said():
        with open(log.name, encoding="utf-8") as handle:
            return handle.read()[-4000:]

    try:
        fill(w, 2)
        wait_for("the MCP server", lambda: answers(port) or server.poll() is not None)
        run = subprocess.run(
            [python, "-W", "ignore", "-c", MCP, f"http://127.0.0.1:{port}/mcp",
             w.namespace], text=True, timeout=300, check=False, env=env,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        assert run.returncode == 0 and run.stdout.endswith("done\n"), (
            run.stdout[-4000:], said(), sandboxes.failed)
        wait_for("no claim", lambda: not w.list("SandboxClaim"))
        assert urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz",
                                      timeout=60).status == 200, said()
    finally:
        server.terminate()
        server.wait(60)
        log.close()
        sandboxes.stop()


def test_perfkit(w):
    """PerfKitBenchmarker's resource: the controller's flags, its template, a pool of
    exactly so many, and its load, of which every claim is served warm."""
    python = world.clients() / "python/bin/python3"
    one = w.daemon(kube_api_qps="-1", kube_api_burst="1000", enable_tracing="false",
                   extensions="true", sandbox_claim_concurrent_workers="400",
                   sandbox_concurrent_workers="400",
                   sandbox_warm_pool_concurrent_workers="4",
                   sandbox_warm_pool_max_batch_size="100")
    w.cluster.kubectl("-n", w.namespace, "apply", "-f", "-", stdin=PERFKIT)
    w.cluster.kubectl("-n", w.namespace, "wait", "sandboxwarmpool/agent-sandbox",
                      "--for=jsonpath={.status.readyReplicas}=20", "--timeout=600s")
    assert "sandbox-claim-concurrent-workers" in one.log()
    run = subprocess.run(
        [python, ROOT / "tests/clients/python/perfkit_load.py", w.namespace,
         "agent-sandbox", "10", "2", "180"], text=True, timeout=900, check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env={**os.environ, "KUBECONFIG": str(w.cluster.kubeconfig),
             "PYTHONDONTWRITEBYTECODE": "1"})
    assert run.returncode == 0, run.stdout[-4000:]
    lines = run.stdout.split("---RESULTS---\n")[1].splitlines()
    records, samples = [json.loads(line) for line in lines[:-2]], json.loads(lines[-1])
    # Ready before its own thread had the POST's answer: on a busy machine the client
    # misses some for good, as the original does. The claims were served all the same.
    missed = set(json.loads(lines[-2])["summary"]["dropped"]) & {
        record["name"] for record in records if record["error"]}
    print(f"     startup p50 {samples['startup_time_p50'] * 1000:.0f} ms, "
          f"p99 {samples['startup_time_p99'] * 1000:.0f} ms", flush=True)
    assert len(records) == samples["success_count"] + len(missed) == 20, samples
    assert samples["error_count"] == len(missed) <= 10, samples
    assert samples["warm_served_fraction"] == 1, samples
    for name in missed:
        w.cluster.kubectl("-n", w.namespace, "wait", f"sandboxclaim/{name}",
                          "--for=condition=Ready", "--timeout=5s")
        w.cluster.kubectl("-n", w.namespace, "delete", "sandboxclaim", name)
    wait_for("no claim", lambda: not w.list("SandboxClaim"))
    w.wait_pool("agent-sandbox", 20)


def test_perfkit_drain(w):
    """PerfKitBenchmarker's deletion benchmark: a pool of 100 goes, with every Pod and
    address, and nothing is left of it."""
    python = world.clients() / "python/bin/python3"
    w.daemon(kube_api_qps="-1")
    w.cluster.kubectl("-n", w.namespace, "apply", "-f", "-",
                      stdin=PERFKIT.replace("replicas: 20", "replicas: 0"))
    run = subprocess.run(
        [python, ROOT / "tests/clients/python/perfkit_drain.py", w.namespace,
         "agent-sandbox", "100", "0.1"], text=True, timeout=700, check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env={**os.environ, "KUBECONFIG": str(w.cluster.kubeconfig),
             "PYTHONDONTWRITEBYTECODE": "1"})
    assert run.returncode == 0, run.stdout[-4000:]
    samples = json.loads(run.stdout.splitlines()[-1])
    print("     up {provision_time:.1f} s, down {total_drain_time:.1f} s, p50 "
          "{latency_p50:.1f} s, {rate:.0f} Pods/s".format(**samples), flush=True)
    assert (samples["ip_before"], samples["ip_after"]) == (100, 0), samples
    assert not w.list("Sandbox") and not w.list("SandboxClaim")


world.main(__name__)
