"""What goes wrong: the daemon dies at every step of a claim, leaders contend, the API
server and etcd die or stand still. No sandbox is given out twice, nothing is lost.
"""
import signal
import threading
import time

import world
from cluster import wait_for
from world import is_ready

STEPS = ("before_claim", "after_claim", "before_adopt", "adopt_sent",
         "after_adopt", "after_status")
COLD_STEPS = ("before_create", "after_create", "before_annotations")


def claims(w, prefix, count):
    for i in range(count):
        w.claim(f"{prefix}{i}", "p")


def all_ready(w, prefix, count, timeout_s=300.0):
    for i in range(count):
        w.wait_claim(f"{prefix}{i}", timeout_s)
    w.check_no_double_grant()


def standby(w):
    """A second replica, which knows all there is."""
    second = w.daemon("two")
    wait_for("the standby", lambda: "every watch has its whole list"
             in second.log())
    return second


def holder(w):
    """Who leads, by the Lease; None: nobody."""
    lease = w.cluster.get(world.path_of("Lease", world.SYSTEM,
                                        "warmpool-controller"))
    return lease["spec"].get("holderIdentity") or None


def check_size(w, replicas):
    """The pool comes to rest at its size, with nothing beside it."""
    w.wait_pool("p", replicas)
    held = set(w.check_no_double_grant())

    def settled():
        free = [s for s in w.list("Sandbox")
                if s["metadata"]["name"] not in held
                and "deletionTimestamp" not in s["metadata"]]
        return len(free) == replicas
    wait_for(f"{replicas} sandboxes beside those held", settled)


def test_killed_at_every_step(w):
    """SIGKILL at each step of a warm claim, and a restart: the claim is served."""
    w.template()
    # Not cold while a daemon that has just begun is busy: it would miss the step.
    daemon = w.daemon(leader_elect="false", cold_grace="120s")
    w.pool("p", 3)
    for number, step in enumerate(STEPS):
        daemon.restart(fault=f"claim.{step}:kill")
        w.claim(f"k{number}", "p")
        wait_for(f"the daemon to die at {step}", daemon.died)
        daemon.restart()
        w.wait_claim(f"k{number}")
        w.check_no_double_grant()
    check_size(w, 3)


def test_killed_at_every_cold_step(w):
    """The same for a cold start: one sandbox of the claim's name, no second one."""
    w.template()
    daemon = w.daemon(leader_elect="false")
    w.pool("p", 0)
    for number, step in enumerate(COLD_STEPS):
        daemon.restart(fault=f"claim.{step}:kill")
        w.claim(f"k{number}", "p")
        wait_for(f"the daemon to die at {step}", daemon.died)
        daemon.restart()
        item = w.wait_claim(f"k{number}")
        assert item["status"]["sandbox"]["name"] == f"k{number}"
    assert len(w.list("Sandbox")) == len(COLD_STEPS)


def test_killed_under_load(w):
    """kill -9 again and again while claims come: each is served once."""
    w.template()
    daemon = w.daemon(leader_elect="false")
    w.pool("p", 10)
    for round_ in range(4):
        claims(w, f"r{round_}-", 8)
        time.sleep(0.1 + 0.15 * round_)
        daemon.restart()
    for round_ in range(4):
        all_ready(w, f"r{round_}-", 8)
    check_size(w, 10)


def test_standby_takes_over(w):
    """The leader is killed: the standby serves some seconds later."""
    w.template()
    first = w.daemon("one")
    w.pool("p", 5)
    standby(w)
    first.kill()
    start = time.monotonic()
    w.claim("c", "p")
    w.wait_claim("c")
    print(f"     takeover after kill -9: {time.monotonic() - start:.2f} s")
    check_size(w, 5)


def test_leader_leaves(w):
    """SIGTERM gives leadership up: the standby serves in a moment."""
    w.template()
    pair = {"one": w.daemon("one")}
    w.pool("p", 5)
    pair["two"] = standby(w)
    # On a busy machine it may be either.
    before = wait_for("a leader", lambda: holder(w))
    assert pair[before.rsplit("_", 1)[0]].stop()
    start = time.monotonic()
    # Given up, and not left to run out.
    assert holder(w) != before
    w.claim("c", "p")
    w.wait_claim("c")
    print(f"     takeover after SIGTERM: {time.monotonic() - start:.2f} s")


def test_frozen_leader(w):
    """A leader that stood still for longer than its lease writes nothing after it."""
    w.template()
    first = w.daemon("one")
    w.pool("p", 6)
    standby(w)
    first.process.send_signal(signal.SIGSTOP)
    claims(w, "a", 4)
    all_ready(w, "a", 4)
    first.process.send_signal(signal.SIGCONT)
    claims(w, "b", 4)
    all_ready(w, "b", 4)
    check_size(w, 6)


def test_api_server_killed(w):
    """kill -9 of the API server while claims come; all are served afterwards. Where
    scheduler or kubelet lost a Pod over it, another sandbox comes in its place."""
    w.template()
    w.daemon(readiness_grace="60s")
    w.pool("p", 10)
    claims(w, "a", 8)
    w.cluster.restart("kube-apiserver")
    start = time.monotonic()
    claims(w, "b", 8)
    wait_for("one of them", lambda: any(
        is_ready(item) for item in w.list("SandboxClaim")
        if item["metadata"]["name"].startswith("b")))
    print(f"     first one of then: {time.monotonic() - start:.2f} s")
    all_ready(w, "a", 8)
    all_ready(w, "b", 8)
    check_size(w, 10)


def test_etcd_stands_still(w):
    """Two seconds without an answer from etcd, while claims come; see above."""
    w.template()
    w.daemon(readiness_grace="60s")
    w.pool("p", 10)
    pause = threading.Thread(target=w.cluster.pause, args=("etcd", 2.0))
    pause.start()
    time.sleep(0.2)
    claims(w, "a", 8)
    pause.join()
    all_ready(w, "a", 8)
    check_size(w, 10)


def test_etcd_restored(w):
    """etcd is brought back from a backup under a daemon that goes on: claims of then
    have their sandboxes, the pool its size, and what claims had that are gone is given
    to nobody."""
    w.template()
    daemon = w.daemon(cold_grace="60s", readiness_grace="60s")
    w.pool("p", 4)
    claims(w, "a", 2)
    all_ready(w, "a", 2)
    w.wait_pool("p", 4)
    held = {n: w.get("SandboxClaim", n)["status"]["sandbox"]["name"]
            for n in ("a0", "a1")}
    w.cluster.backup()
    claims(w, "b", 2)
    all_ready(w, "b", 2)
    used = {w.get("SandboxClaim", f"b{i}")["status"]["sandbox"]["name"]
            for i in range(2)}
    w.delete("SandboxClaim", "a1")
    w.wait_gone("Sandbox", held["a1"])
    w.patch("SandboxWarmPool", "p", {"spec": {"replicas": 6}})
    w.wait_pool("p", 6)
    # More versions than can be written again before the daemon asks.
    for number in range(200):
        w.patch("SandboxTemplate", "python", {
            "metadata": {"annotations": {"example.com/number": str(number)}}})
    w.cluster.restore()
    assert w.get("SandboxClaim", "b0") is None
    assert w.get("SandboxWarmPool", "p")["spec"]["replicas"] == 4
    wait_for("the daemon to notice",
             lambda: "storage was restored" in daemon.log())
    all_ready(w, "a", 2)
    assert w.get("SandboxClaim", "a0")["status"]["sandbox"]["name"] == held["a0"]
    claims(w, "c", 4)
    all_ready(w, "c", 4)
    given = {w.get("SandboxClaim", f"c{i}")["status"]["sandbox"]["name"]
             for i in range(4)}
    assert not given & used, (given, used)
    check_size(w, 4)
    assert not daemon.died()


def test_everybody_writes(w):
    """Conflicts: somebody labels sandboxes and claims all the while."""
    w.template()
    w.daemon()
    w.pool("p", 10)
    done = threading.Event()

    def scribble():
        number = 0
        while not done.is_set():
            for kind in ("Sandbox", "SandboxClaim"):
                for item in w.list(kind):
                    number += 1
                    try:
                        w.patch(kind, item["metadata"]["name"], {
                            "metadata": {"annotations": {
                                "example.com/scribble": str(number)}}})
                    except OSError:
                        pass  # It has gone meanwhile.
    thread = threading.Thread(target=scribble)
    thread.start()
    try:
        claims(w, "a", 20)
        all_ready(w, "a", 20)
    finally:
        done.set()
        thread.join()
    check_size(w, 10)


def most_of_pool(watch, alive):
    """The most of a pool's sandboxes at one moment, by what the watch has told since;
    alive, the names of those that are there, is kept."""
    most = len(alive)
    while not watch.events.empty():
        _, kind, item = watch.events.get()
        meta = item["metadata"]
        pooled = any(ref["kind"] == "SandboxWarmPool"
                     for ref in meta.get("ownerReferences", []))
        if kind == "DELETED" or "deletionTimestamp" in meta or not pooled:
            alive.discard(meta["name"])
        else:
            alive.add(meta["name"])
        most = max(most, len(alive))
    return most


def test_up_and_down(w):
    """0 to 100 and back and up again: never above the target, leases untouched."""
    w.template()
    w.daemon()
    watch = w.watch("Sandbox")
    alive = set()
    w.pool("p", 4)
    w.claim("c", "p")
    held = w.wait_claim("c")["status"]["sandbox"]["name"]
    for before, replicas in ((4, 100), (100, 10), (10, 60)):
        w.patch("SandboxWarmPool", "p", {"spec": {"replicas": replicas}})
        check_size(w, replicas)
        most = [0]

        def told():
            most.append(most_of_pool(watch, alive))
            return len(alive) == replicas
        wait_for("the watch to tell of it", told)
        assert max(most) <= max(before, replicas), most
    assert held in {s["metadata"]["name"] for s in w.list("Sandbox")}
    watch.close()
    assert is_ready(w.get("SandboxClaim", "c"))


def test_second_controller_is_refused(w):
    """Beside upstream's controllers of the same kinds the daemon does not start."""
    now = time.strftime("%Y-%m-%dT%H:%M:%S.000000Z", time.gmtime())
    before, w.namespace = w.namespace, "agent-sandbox-system"
    w.create("Lease", "a3317529.agent-sandbox.x-k8s.io", {
        "holderIdentity": "agent-sandbox-controller-0",
        "leaseDurationSeconds": 60, "renewTime": now, "acquireTime": now})
    try:
        renewing = threading.Event()

        def renew():
            while not renewing.wait(1):
                w.patch("Lease", "a3317529.agent-sandbox.x-k8s.io", {
                    "spec": {"renewTime": time.strftime(
                        "%Y-%m-%dT%H:%M:%S.000000Z", time.gmtime())}})
        thread = threading.Thread(target=renew)
        thread.start()
        daemon = w.daemon()
        wait_for("the daemon to leave", daemon.died)
        assert "agent-sandbox" in daemon.log(), daemon.log()
    finally:
        renewing.set()
        thread.join()
        w.delete("Lease", "a3317529.agent-sandbox.x-k8s.io")
        w.namespace = before


def test_second_installation_is_refused(w):
    """Another installation of our own, in another namespace, leaves and names the
    first one's; the first one serves on, and the pool has its size."""
    home = w.make_namespace("team-b")
    w.template()
    first = w.daemon("first", leader_election_namespace="agent-sandbox-system")
    w.pool("p", 3)
    wait_for("the first one's Lease to say that it serves", lambda: w.cluster.get(
        "/apis/coordination.k8s.io/v1/leases?labelSelector="
        "warmpool.dev%2Fserving%3Dtrue")["items"])
    second = w.daemon("second", kubeconfig=w.cluster.kubeconfig,
                      leader_election_namespace=home)
    wait_for("the second one to leave", second.died)
    assert "in the namespace agent-sandbox-system" in second.log(), second.log()
    check_size(w, 3)
    assert not first.died(), first.log()


world.main(__name__)
