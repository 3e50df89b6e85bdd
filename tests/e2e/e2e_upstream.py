"""The real thing: agent-sandbox's own controllers run, then this daemon, then they again,
on one cluster, with claims that live through both changes.
"""
import os
import subprocess
import sys

import yaml

import cluster as control_plane
import world
from cluster import wait_for
from world import is_ready

PROGRAM = "agent-sandbox-controller"
OURS = ("agents.x-k8s.io/", "extensions.agents.x-k8s.io/")
LEASE = ("/apis/coordination.k8s.io/v1/namespaces/agent-sandbox-system/leases/"
         "a3317529.agent-sandbox.x-k8s.io")


class Upstream:
    """Its controllers, all four, as its manifests start them."""

    def __init__(self, w):
        program = control_plane.programs("upstream") / PROGRAM
        with open(w.dir / "upstream.log", "ab") as log:
            self.process = subprocess.Popen(
                [program, "--extensions",
                 "--leader-election-namespace=agent-sandbox-system",
                 "--metrics-bind-address=0",
                 "--health-probe-bind-address=127.0.0.1:0"],
                stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                env={**os.environ, "KUBECONFIG": str(w.cluster.kubeconfig)},
                start_new_session=True)

    def stop(self):
        """As a Deployment that is scaled to nothing: it gives its Lease up."""
        self.process.terminate()
        self.process.wait(60)


def bound(w, name):
    return w.wait_claim(name)["status"]["sandbox"]["name"]


def test_examples_apply(w):
    """The API server takes every object of ours in the examples that the project
    publishes, as it takes them with its own definitions."""
    kinds, refused = {}, []
    for path in sorted((world.upstream_module() / "examples").rglob("*.yaml")):
        if ".chainsaw" in str(path):  # Templates of another program.
            continue
        for item in yaml.safe_load_all(path.read_text("utf-8")):
            if not str((item or {}).get("apiVersion")).startswith(OURS):
                continue
            if "${" in str(item):  # To be filled in by a shell.
                continue
            item["metadata"]["namespace"] = w.namespace
            verb = "apply" if "name" in item["metadata"] else "create"
            run = w.cluster.kubectl("-n", w.namespace, verb, "--dry-run=server", "-f",
                                    "-", stdin=yaml.safe_dump(item), check=False)
            kinds[item["kind"]] = kinds.get(item["kind"], 0) + 1
            if run.returncode != 0:
                refused.append(f"{path.name}: {run.stderr}")
    assert not refused, refused
    assert len(kinds) == 4 and sum(kinds.values()) > 60, kinds


def test_there_and_back(w):
    """Pools and claims of either serve under the other, pods and all."""
    upstream = Upstream(w)
    try:
        w.template()
        w.pool("p", 4, wait=False)
        w.wait_pool("p", 4)
        w.claim("theirs", "p")
        held = {"theirs": bound(w, "theirs")}
        w.wait_pool("p", 4)
        idle = {s["metadata"]["name"] for s in w.list("Sandbox")} - set(
            held.values())
        assert len(idle) == 4, idle
        pods = {n: w.get("Pod", n)["metadata"]["uid"]
                for n in [*held.values(), *idle]}
    finally:
        upstream.stop()

    daemon = w.daemon(cold_grace="60s")
    w.wait_pool("p", 4)
    w.claim("ours", "p")
    held["ours"] = bound(w, "ours")
    # What upstream had made was taken in, not made again.
    assert held["ours"] in idle, (held, idle)
    w.wait_pool("p", 4)
    assert len(w.list("Sandbox")) == 6
    for name, uid in pods.items():
        assert w.get("Pod", name)["metadata"]["uid"] == uid, name
    w.claim("short", "p")
    short = bound(w, "short")
    w.delete("SandboxClaim", "short")
    w.wait_gone("Sandbox", short)
    w.check_no_double_grant()
    w.wait_pool("p", 4)
    made = {s["metadata"]["name"]: s["metadata"]["uid"]
            for s in w.list("Sandbox")}
    assert daemon.stop()

    upstream = Upstream(w)
    try:
        w.claim("again", "p")
        held["again"] = bound(w, "again")
        assert held["again"] in made, "a pool that we filled serves upstream"
        for claim, name in held.items():
            item = w.get("SandboxClaim", claim)
            assert is_ready(item), item
            assert item["status"]["sandbox"]["name"] == name
        w.check_no_double_grant()
        w.wait_pool("p", 4)
        # None of ours was thrown away for being another's.
        now = {s["metadata"]["name"]: s["metadata"]["uid"]
               for s in w.list("Sandbox")}
        assert made.items() <= now.items(), set(made) - set(now)
    finally:
        upstream.stop()


def test_beside_each_other(w):
    """While upstream's controllers run, the daemon says so and leaves."""
    upstream = Upstream(w)
    try:
        wait_for("upstream to lead", lambda: (w.cluster.get(LEASE) or {}).get(
            "spec", {}).get("holderIdentity"))
        daemon = w.daemon()
        wait_for("the daemon to leave", daemon.died)
        assert "agent-sandbox-controller" in daemon.log(), daemon.log()
    finally:
        upstream.stop()


if __name__ == "__main__":
    try:
        control_plane.programs("upstream")
    except control_plane.Unavailable:
        sys.exit(77)
world.main(__name__)
