"""Claims over gRPC in a cluster: beside SandboxClaims, across restarts, at every replica."""
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import time

import world
from cluster import wait_for
from world import is_ready

LEASE = "warmpool.dev/lease"
POOL_LABEL = "agents.x-k8s.io/warm-pool-sandbox"


def ctl(daemon, *arguments, check=True):
    run = subprocess.run(
        [world.world_binary("warmpoolctl"), "--address",
         f"unix:{daemon.dir}/warmpoold.sock", *arguments], text=True,
        # Tokens are kept by claim id: not beside those of another run.
        env={**os.environ, "XDG_STATE_HOME": str(daemon.world.dir)},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    if check and run.returncode != 0:
        raise RuntimeError(f"warmpoolctl {' '.join(arguments)}: {run.stderr}")
    return run


def claim(daemon, w, claim_id, ttl="10m", check=True):
    """What was granted; with a wait, since a pool may be filling."""
    run = ctl(daemon, "claim", f"{w.namespace}/p", "--id", claim_id, "--ttl",
              ttl, "--wait", "2m", "-o", "json", check=check)
    return json.loads(run.stdout) if run.returncode == 0 else run


def wait_adopted(w, name, claim_id):
    def adopted():
        item = w.get("Sandbox", name)
        note = item["metadata"].get("annotations", {}).get(LEASE)
        if note is None or POOL_LABEL in item["metadata"]["labels"]:
            return None
        assert json.loads(note)["claimId"] == claim_id, note
        return item
    return wait_for(f"{name} with the lease of {claim_id}", adopted)


def redis(w):
    """A redis-server on a socket of its own, which ends with the world's."""
    path = pathlib.Path(w.dir) / "redis.sock"

    def takes():
        """It is there a moment before; a daemon that finds nobody there ends."""
        with socket.socket(socket.AF_UNIX) as sock:
            sock.connect(str(path))
        return True
    if not path.exists():
        w.cluster.spawn("redis", [
            shutil.which("redis-server"), "--port", "0", "--unixsocket", path,
            "--appendonly", "yes", "--save", "", "--dir", w.dir])
        wait_for("redis", takes)
    return f"unix:{path}"


def test_claim_and_release(w):
    """The lease shows on the Sandbox; a release deletes it, and the pool is full."""
    daemon = w.daemon()
    w.template()
    w.pool("p", 3)
    granted = claim(daemon, w, "g1")
    name = granted["sandbox"]
    item = wait_adopted(w, name, "g1")
    assert "ownerReferences" not in item["metadata"], item["metadata"]
    assert granted["endpoint"].split(":")[0] in item["status"]["podIPs"]
    w.wait_pool("p", 3)
    # The same sandbox is nobody else's.
    for i in range(3):
        w.claim(f"c{i}", "p")
    for i in range(3):
        assert w.wait_claim(f"c{i}")["status"]["sandbox"]["name"] != name
    assert claim(daemon, w, "g1")["sandbox"] == name
    ctl(daemon, "release", "g1")
    w.wait_gone("Sandbox", name)
    w.wait_gone("Pod", name)


def test_target_is_the_objects(w):
    """SetPool does not fight over spec.replicas: it says who decides."""
    daemon = w.daemon()
    w.template()
    w.pool("p", 1)
    run = ctl(daemon, "scale", f"{w.namespace}/p", "5", check=False)
    assert run.returncode != 0 and "spec.replicas" in run.stderr, run.stderr
    w.cluster.kubectl("-n", w.namespace, "scale", "swp/p", "--replicas=2")
    w.wait_pool("p", 2)
    assert "2" in ctl(daemon, "pools").stdout


def test_lease_ends(w):
    """A lease that is not renewed ends, and its sandbox goes."""
    daemon = w.daemon()
    w.template()
    w.pool("p", 1)
    name = claim(daemon, w, "g1", ttl="3s")["sandbox"]
    w.wait_gone("Sandbox", name)
    w.wait_pool("p", 1)


def test_restart_with_sqlite(w):
    """kill -9: the leases are held, their ids answer as before, nothing is granted
    twice."""
    daemon = w.daemon(lease_store="sqlite", leader_elect="false")
    w.template()
    w.pool("p", 4)
    held = {f"g{i}": claim(daemon, w, f"g{i}")["sandbox"] for i in range(4)}
    daemon.restart()
    wait_for("the daemon", lambda: ctl(
        daemon, "get", "g0", check=False).returncode == 0)
    for claim_id, name in held.items():
        assert claim(daemon, w, claim_id)["sandbox"] == name
        wait_adopted(w, name, claim_id)
    more = {claim(daemon, w, f"h{i}")["sandbox"] for i in range(4)}
    assert not more & set(held.values())
    ctl(daemon, "release", "g0")
    w.wait_gone("Sandbox", held["g0"])
    w.wait_pool("p", 4)


def test_restart_with_nothing_kept(w):
    """kill -9, again and again, with a store that keeps nothing: the Sandboxes tell of
    the leases, before the daemon serves. One id has one sandbox, and its token is good."""
    daemon = w.daemon(lease_store="memory", leader_elect="false")
    w.template()
    w.pool("p", 4)
    held = {f"g{i}": claim(daemon, w, f"g{i}")["sandbox"] for i in range(4)}
    for claim_id, name in held.items():
        wait_adopted(w, name, claim_id)
    for _ in range(5):
        daemon.restart()
        wait_for("the daemon", lambda: ctl(
            daemon, "get", "g0", check=False).returncode == 0)
        for claim_id, name in held.items():
            assert claim(daemon, w, claim_id)["sandbox"] == name
    more = {claim(daemon, w, f"h{i}")["sandbox"] for i in range(4)}
    assert not more & set(held.values())
    daemon.restart()
    wait_for("the daemon", lambda: ctl(
        daemon, "get", "g0", check=False).returncode == 0)
    ctl(daemon, "renew", "g1", "--ttl", "20m")
    ctl(daemon, "release", "g0")
    w.wait_gone("Sandbox", held["g0"])
    w.wait_pool("p", 4)


def test_killed_behind_the_answer(w):
    """kill -9 right after the answer, before the Sandbox was written: with a store
    that keeps leases it is found again, and written then."""
    daemon = w.daemon(lease_store="sqlite", leader_elect="false")
    w.template()
    w.pool("p", 4)
    held = {}
    for i in range(4):
        held[f"g{i}"] = claim(daemon, w, f"g{i}")["sandbox"]
        daemon.restart()
        wait_for("the daemon", lambda i=i: ctl(
            daemon, "get", f"g{i}", check=False).returncode == 0)
    assert len(set(held.values())) == 4
    for claim_id, name in held.items():
        wait_adopted(w, name, claim_id)
    for i in range(4):
        w.claim(f"c{i}", "p")
    for i in range(4):
        item = w.wait_claim(f"c{i}")
        assert item["status"]["sandbox"]["name"] not in held.values()


# By hand, with the numbers of the proof: WARMPOOL_LONG=1.
KILLS, ROLL_OUTS = (20, 5) if os.environ.get("WARMPOOL_LONG") else (2, 1)


def check_leases(daemon, w, held):
    """Each id has the sandbox that it was given, and no other id has that."""
    wait_for("the daemon", lambda: ctl(
        daemon, "get", next(iter(held)), check=False).returncode == 0)
    for claim_id, name in held.items():
        assert claim(daemon, w, claim_id)["sandbox"] == name, claim_id
    assert len(set(held.values())) == len(held)


def take_one(daemon, w, held, store):
    claim_id = f"g{len(held)}"
    held[claim_id] = claim(daemon, w, claim_id)["sandbox"]
    if store == "memory":  # It promises no more than what the Sandbox tells.
        wait_adopted(w, held[claim_id], claim_id)


def outlive(w, store, settings):
    daemon = w.daemon("r0", lease_store=store, **settings)
    w.template()
    w.pool("p", 3)
    held = {}
    for _ in range(3):
        take_one(daemon, w, held, store)
    for _ in range(KILLS):
        daemon.restart()
        check_leases(daemon, w, held)
        take_one(daemon, w, held, store)
    for i in range(ROLL_OUTS):
        before = daemon
        if store == "sqlite":  # One at a time has the file.
            daemon.stop()
            daemon.start()
        else:
            daemon = w.daemon(f"r{i + 1}", lease_store=store, **settings)
            wait_for("the next replica", lambda one=daemon: ctl(
                one, "pools", check=False).returncode == 0)
            before.stop()
        check_leases(daemon, w, held)
        take_one(daemon, w, held, store)
    for claim_id in held:
        ctl(daemon, "release", claim_id)
    for name in held.values():
        w.wait_gone("Sandbox", name)
    print(f"     {store}: {KILLS} kills, {ROLL_OUTS} roll-outs, {len(held)} "
          "leases, none lost")


def test_outlive_memory(w):
    """Kills and roll-outs: no lease is lost, and no id has two sandboxes."""
    outlive(w, "memory", {})


def test_outlive_sqlite(w):
    """The same with leases in a file."""
    outlive(w, "sqlite", {"lease_store_path": w.dir / "outlive.db"})


def test_outlive_redis(w):
    """The same in Redis."""
    outlive(w, "redis", {"redis_url": redis(w), "redis_prefix": "outlive"})


def test_somebody_else_takes_it(w):
    """A sandbox that another controller gives away under a lease: its holder is
    told, and the new owner keeps it."""
    daemon = w.daemon()
    w.template()
    w.pool("p", 2)
    name = claim(daemon, w, "g1")["sandbox"]
    wait_adopted(w, name, "g1")
    w.claim("other", "p")
    uid = w.wait_claim("other")["metadata"]["uid"]
    w.patch("Sandbox", name, {"metadata": {
        "annotations": {LEASE: None}, "ownerReferences": [{
            "apiVersion": "extensions.agents.x-k8s.io/v1beta1",
            "kind": "SandboxClaim", "name": "other", "uid": uid,
            "controller": True, "blockOwnerDeletion": True}]}})

    def told():
        run = ctl(daemon, "get", "g1", check=False)
        return run.returncode != 0 or "lost" in run.stdout
    wait_for("the holder to be told", told)
    ctl(daemon, "release", "g1", check=False)
    time.sleep(1)  # Long enough for a delete that must not come.
    assert w.get("Sandbox", name) is not None


def test_replicas_with_redis(w):
    """Both replicas grant, from the same sandboxes; the leader's death changes
    nothing for leases."""
    url = redis(w)
    settings = {"lease_store": "redis", "redis_url": url,
                "redis_prefix": w.namespace.replace("-", "")}
    one = w.daemon("one", **settings)
    w.template()
    w.pool("p", 6)
    two = w.daemon("two", **settings)
    wait_for("the standby to serve", lambda: ctl(
        two, "pools", check=False).returncode == 0 and "p" in ctl(
        two, "pools").stdout)
    held = {}
    for i in range(6):
        daemon = (one, two)[i % 2]
        held[f"g{i}"] = claim(daemon, w, f"g{i}")["sandbox"]
    assert len(set(held.values())) == 6
    for claim_id, name in held.items():
        wait_adopted(w, name, claim_id)
    assert claim(two, w, "g0")["sandbox"] == held["g0"]
    one.kill(signal.SIGKILL)
    # No pause: a follower needs no leadership to grant.
    start = time.monotonic()
    claim(two, w, "after")
    print(f"     claim at the follower after kill -9 of the leader: "
          f"{time.monotonic() - start:.2f} s")
    for claim_id, name in held.items():
        assert claim(two, w, claim_id)["sandbox"] == name
    ctl(two, "release", "g1")
    w.wait_gone("Sandbox", held["g1"])
    w.wait_pool("p", 6)
    w.claim("c", "p")
    assert is_ready(w.wait_claim("c"))


world.main(__name__)
