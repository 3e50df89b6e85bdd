"""What every scenario needs: a control plane with the CRDs, warmpoold beside it, and
short ways to make pools and claims and to wait for them by watch.

A scenario file defines functions named test_*(world), each in a namespace of its own
(world.namespace), and ends with `world.main(__name__)`. Its doc string is its goal.
"""
import collections
import contextlib
import http.client
import itertools
import json
import os
import pathlib
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import urllib.error
import urllib.parse

import cluster as control_plane
from cluster import ROOT, wait_for

SYSTEM = "agent-sandbox-system"
AGENTS = "/apis/agents.x-k8s.io/v1beta1"
EXTENSIONS = "/apis/extensions.agents.x-k8s.io/v1beta1"
PATHS = {
    "Sandbox": (AGENTS, "sandboxes"),
    "SandboxClaim": (EXTENSIONS, "sandboxclaims"),
    "SandboxTemplate": (EXTENSIONS, "sandboxtemplates"),
    "SandboxWarmPool": (EXTENSIONS, "sandboxwarmpools"),
    "Pod": ("/api/v1", "pods"),
    "Service": ("/api/v1", "services"),
    "PersistentVolumeClaim": ("/api/v1", "persistentvolumeclaims"),
    "NetworkPolicy": ("/apis/networking.k8s.io/v1", "networkpolicies"),
    "Lease": ("/apis/coordination.k8s.io/v1", "leases"),
    "Event": ("/apis/events.k8s.io/v1", "events"),
}


def path_of(kind, namespace, name=None, subresource=None):
    base, plural = PATHS[kind]
    path = f"{base}/namespaces/{namespace}/{plural}"
    if name is not None:
        path += f"/{name}"
    if subresource is not None:
        path += f"/{subresource}"
    return path


def condition(item, kind="Ready"):
    """The condition of that type; {} when there is none."""
    for entry in item.get("status", {}).get("conditions", []):
        if entry["type"] == kind:
            return entry
    return {}


def is_ready(item):
    return condition(item).get("status") == "True"


def clients():
    """The folder of others' clients; see tests/clients/setup.sh."""
    setup = subprocess.run([ROOT / "tests/clients/setup.sh"], text=True,
                           stdout=subprocess.PIPE, check=False)
    if setup.returncode == 77:
        raise control_plane.Unavailable("no clients of others")
    assert setup.returncode == 0
    return pathlib.Path(setup.stdout.strip())


def upstream_module():
    """The folder of agent-sandbox's published Go module, as it is."""
    tools = ROOT / "tests/e2e/tools/upstream"
    module = "sigs.k8s.io/agent-sandbox"
    subprocess.run(["go", "mod", "download", module], cwd=tools, check=True)
    return pathlib.Path(subprocess.run(
        ["go", "list", "-m", "-f", "{{.Dir}}", module], cwd=tools, check=True,
        text=True, stdout=subprocess.PIPE).stdout.strip())


class Watch:
    """Events of one kind in one namespace as they arrive, with the time of arrival
    (monotonic): iterate, or use until(). A thread reads; close() ends it."""

    def __init__(self, cluster, kind, namespace):
        self.events = queue.Queue()
        base = path_of(kind, namespace)
        start = cluster.get(base)
        query = urllib.parse.urlencode({
            "watch": "1", "allowWatchBookmarks": "true",
            "resourceVersion": start["metadata"]["resourceVersion"]})
        self.connection = http.client.HTTPSConnection(
            "127.0.0.1", cluster.port, context=cluster.context())
        self.connection.request("GET", f"{base}?{query}", headers={
            "Authorization": "Bearer " + cluster.tokens["admin"]})
        self.answer = self.connection.getresponse()
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            for line in self.answer:
                event = json.loads(line)
                if event["type"] != "BOOKMARK":
                    self.events.put((time.monotonic(), event["type"],
                                     event["object"]))

    def until(self, wanted, timeout_s=300.0, what="the event"):
        """The first event for which wanted(type, object); the others are dropped."""
        end = time.monotonic() + timeout_s
        while True:
            left = end - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"{what}: not within {timeout_s:g} s")
            with contextlib.suppress(queue.Empty):
                at, kind, item = self.events.get(timeout=left)
                if wanted(kind, item):
                    return at, item

    def close(self):
        """Nothing more is read."""
        with contextlib.suppress(OSError):
            self.connection.sock.close()


class Daemon:
    """One warmpoold of this world."""

    def __init__(self, world, name, settings, fault=None):
        self.world = world
        self.name = name
        self.dir = world.dir / name
        self.dir.mkdir(exist_ok=True)
        # Of one that had this name before: tests wait for words in it.
        (self.dir / "log").unlink(missing_ok=True)
        self.settings = {
            "backend": "kubernetes", "kubeconfig": world.daemon_kubeconfig,
            "runtime-dir": self.dir, "lease-store": "memory",
            "replica-name": name, **settings}
        self.environment = dict(os.environ)
        if fault is not None:
            self.environment["WARMPOOL_FAULT"] = fault
        self.process = None
        self.start()

    def start(self):
        command = [world_binary("warmpoold")]
        command += [f"--{key}={value}" for key, value in self.settings.items()]
        with open(self.dir / "log", "ab") as log:
            self.process = subprocess.Popen(
                command, stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                env=self.environment, start_new_session=True)

    def log(self):
        return (self.dir / "log").read_text(errors="replace")

    def kill(self, sig=signal.SIGKILL):
        self.process.send_signal(sig)
        return self.process.wait(60)

    def restart(self, fault=None):
        if self.process.poll() is None:
            self.kill()
        self.environment.pop("WARMPOOL_FAULT", None)
        if fault is not None:
            self.environment["WARMPOOL_FAULT"] = fault
        self.start()

    def died(self):
        return self.process.poll() is not None

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.terminate()
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                return False
        return True


def world_binary(name):
    build = pathlib.Path(os.environ.get("WARMPOOL_BUILD", ROOT / "build/dev"))
    for folder in ("allocator", "allocator/ctl", "bench", "."):
        if (build / folder / name).exists():
            return build / folder / name
    raise FileNotFoundError(f"{name} in {build}")


class World:
    def __init__(self, directory, cluster):
        self.dir = pathlib.Path(directory)
        self.cluster = cluster
        self.daemons = []
        self.namespace = None
        self.numbers = itertools.count(1)
        for crd in sorted((ROOT / "deploy/kubernetes/crds").glob("*.yaml")):
            cluster.kubectl("apply", "--server-side", "-f", crd)
        for kind in ("sandboxes.agents.x-k8s.io",
                     "sandboxclaims.extensions.agents.x-k8s.io",
                     "sandboxtemplates.extensions.agents.x-k8s.io",
                     "sandboxwarmpools.extensions.agents.x-k8s.io"):
            cluster.kubectl("wait", "--for=condition=Established",
                            f"crd/{kind}", "--timeout=300s")
        # The garbage collector hears of new kinds every 30 s only.
        cluster.restart("kube-controller-manager")
        # Daemons have the rights of deploy/kubernetes, and no more.
        self.make_namespace(SYSTEM)
        cluster.kubectl("-n", SYSTEM, "apply", "-f",
                        ROOT / "deploy/kubernetes/base/rbac.yaml")
        self.daemon_kubeconfig = cluster.service_account_kubeconfig(
            SYSTEM, "agent-sandbox-controller")

    # --- the daemon ---

    def daemon(self, name=None, fault=None, **settings):
        """Starts one; settings are its flags with _ for -. One without a name is alone,
        and elects nobody unless it is told to: on a busy machine it would lose its
        lease at times, and with it an event, or the one write that is counted."""
        if name is None and not {"config", "leader_election_namespace"} & set(
                settings):
            settings.setdefault("leader_elect", "false")
        one = Daemon(self, name or f"replica-{next(self.numbers)}",
                     {k.replace("_", "-"): v for k, v in settings.items()},
                     fault)
        self.daemons.append(one)
        return one

    def stop_daemons(self):
        while self.daemons:
            self.daemons.pop().stop()

    # --- objects ---

    def make_namespace(self, name):
        with contextlib.suppress(urllib.error.HTTPError):
            self.cluster.request("POST", "/api/v1/namespaces", {
                "apiVersion": "v1", "kind": "Namespace",
                "metadata": {"name": name}})
        # No Pod is admitted before.
        wait_for(f"the service account of {name}", lambda: self.cluster.get(
            f"/api/v1/namespaces/{name}/serviceaccounts/default"))
        return name

    def create(self, kind, name, spec, metadata=None):
        base, _ = PATHS[kind]
        return self.cluster.request("POST", path_of(kind, self.namespace), {
            "apiVersion": base.split("/apis/")[-1].removeprefix("/api/"),
            "kind": kind, "metadata": {"name": name, **(metadata or {})},
            "spec": spec})

    def get(self, kind, name):
        return self.cluster.get(path_of(kind, self.namespace, name))

    def patch(self, kind, name, body, subresource=None):
        return self.cluster.patch(
            path_of(kind, self.namespace, name, subresource), body)

    def delete(self, kind, name):
        return self.cluster.delete(path_of(kind, self.namespace, name))

    def list(self, kind, selector=None):
        path = path_of(kind, self.namespace)
        if selector:
            path += "?" + urllib.parse.urlencode({"labelSelector": selector})
        return self.cluster.get(path)["items"]

    def watch(self, kind):
        return Watch(self.cluster, kind, self.namespace)

    def template(self, name="python", **spec):
        return self.create("SandboxTemplate", name, {
            "podTemplate": {"spec": {"containers": [{
                "name": "main", "image": "registry.invalid/pause:1",
                "ports": [{"containerPort": 8888}]}]}}, **spec})

    def pool(self, name, replicas, template="python", wait=True, **spec):
        made = self.create("SandboxWarmPool", name, {
            "replicas": replicas, "sandboxTemplateRef": {"name": template},
            **spec})
        if wait:
            self.wait_pool(name, replicas)
        return made

    def wait_pool(self, name, ready, timeout_s=300.0, exact=True):
        """So many are ready by the pool's status, and (exact) it has so many and no
        other, all of them ready: a status may be of a moment ago."""
        def full():
            pool = self.get("SandboxWarmPool", name)
            # None: one that the daemon has still to make.
            if not pool or pool.get("status", {}).get(
                    "readyReplicas", 0) != ready:
                return False
            if not exact:
                return True
            members = [s for s in self.list("Sandbox")
                       if "deletionTimestamp" not in s["metadata"]
                       and any(r["uid"] == pool["metadata"]["uid"]
                               and r.get("controller") for r in
                               s["metadata"].get("ownerReferences", []))]
            return len(members) == ready and all(map(is_ready, members))
        what = f"pool {name} with {ready} ready"
        soon_s = min(30.0, timeout_s / 2)
        try:
            return wait_for(what, full, soon_s)
        except TimeoutError as error:
            # What is late is seen before the daemon replaces it.
            print(f"     {error}; {self.account(name)}", flush=True)
        try:
            return wait_for(what, full, timeout_s - soon_s)
        except TimeoutError as error:
            raise TimeoutError(f"{error}; {self.account(name)}") from None

    def account(self, name):
        """What is to be seen of a pool that is not as it should be: how many sandboxes
        there are, by owner and whether Ready, and some of those that are not."""
        pool = self.get("SandboxWarmPool", name) or {}
        pods = {p["metadata"]["name"]: (p["spec"].get("nodeName"),
                                        p.get("status", {}).get("phase"))
                for p in self.list("Pod")}
        sandboxes = self.list("Sandbox")
        counts = collections.Counter(
            (ref["kind"], is_ready(s)) for s in sandboxes
            for ref in s["metadata"].get("ownerReferences", []))
        late = [f"{s['metadata']['name']} since {s['metadata']['creationTimestamp']}, "
                f"goes {s['metadata'].get('deletionTimestamp')}, {condition(s)}, "
                f"pod {pods.get(s['metadata']['name'])}"
                for s in sandboxes if not is_ready(s)]
        return "; ".join([f"status {pool.get('status')}", f"{dict(counts)}",
                          *late[:10]])

    def claim(self, name, pool, metadata=None, **spec):
        return self.create("SandboxClaim", name,
                           {"warmPoolRef": {"name": pool}, **spec}, metadata)

    def wait_claim(self, name, timeout_s=300.0):
        def bound():
            item = self.get("SandboxClaim", name)
            good = item and is_ready(item) and item["status"].get("sandbox")
            return item if good else None
        return wait_for(f"claim {name} Ready", bound, timeout_s)

    def wait_gone(self, kind, name, timeout_s=300.0):
        return wait_for(f"{kind} {name} gone",
                        lambda: self.get(kind, name) is None, timeout_s)

    def events(self, reason):
        return [e for e in self.list("Event") if e.get("reason") == reason]

    # --- what must always be true ---

    def check_no_double_grant(self):
        """No two claims name one sandbox, and each has the one it names."""
        holders = {}
        # Claims first: what one of them names is its own by then.
        claims = self.list("SandboxClaim")
        owners = {s["metadata"]["name"]: s for s in self.list("Sandbox")}
        for item in claims:
            name = item.get("status", {}).get("sandbox", {}).get("name")
            if not name:
                continue
            assert name not in holders, (
                f"{name} is held by {holders[name]} and "
                f"{item['metadata']['name']}")
            holders[name] = item["metadata"]["name"]
            if name in owners:
                refs = owners[name]["metadata"].get("ownerReferences", [])
                assert [r["uid"] for r in refs if r.get("controller")] == [
                    item["metadata"]["uid"]], f"{name}: {refs}"
        return holders


def run(module, build=None):
    """All test_* functions of a module, in order; returns an exit code."""
    if build is not None:
        os.environ["WARMPOOL_BUILD"] = str(build)
    wanted = [a for a in sys.argv[1:] if a.startswith("test_")]
    tests = [(n, f) for n, f in vars(module).items()
             if n.startswith("test_") and (not wanted or n in wanted)]
    failed = []
    with tempfile.TemporaryDirectory(prefix="warmpool-e2e-") as directory:
        try:
            with control_plane.Cluster(directory) as cluster:
                world = World(directory, cluster)
                for name, function in tests:
                    world.namespace = world.make_namespace(
                        name.replace("_", "-")[:60])
                    start = time.monotonic()
                    try:
                        function(world)
                        print(f"ok   {name} "
                              f"({time.monotonic() - start:.1f} s)", flush=True)
                    except Exception:  # One scenario must not hide the others.
                        failed.append(name)
                        print(f"FAIL {name}", flush=True)
                        traceback.print_exc()
                        for one in world.daemons:
                            print(f"--- {one.name}\n{one.log()[-6000:]}",
                                  file=sys.stderr)
                    finally:
                        world.stop_daemons()
                        # The next daemon would serve on what these tell of.
                        cluster.kubectl(
                            "-n", world.namespace, "delete", "--wait=false",
                            "--all", "sandboxclaims,sandboxwarmpools,sandboxes")
                        cluster.kubectl("delete", "namespace",
                                        world.namespace, "--wait=false")
        except control_plane.Unavailable:
            return 77
    print(f"{len(tests) - len(failed)} of {len(tests)} scenarios passed")
    return 1 if failed else 0


def main(name):
    """For the end of a scenario file: python3 FILE BUILD_DIR [test_NAME ...]"""
    if name == "__main__":
        build = sys.argv[1] if len(sys.argv) > 1 else None
        sys.exit(run(sys.modules["__main__"], build))
