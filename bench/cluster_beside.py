"""Two control planes at once: our controllers in one, agent-sandbox's own in the other,
and one warmpool-load that claims from both by turns. For cluster.py --beside."""
import pathlib
import subprocess

import cluster as control_plane
import loads

NAMESPACE = "beside"
# Named by its options for warmpool-load: what comes slowly, one at a time, together.
LOADS = {"two a second": ("-r", "2", "-d", "20s"),
         "one after the other": ("-n", "60"),
         "20 at a time": ("-c", "20", "-n", "100")}
POOL = 150


def fill(bench):
    """The same namespace, template and pool in each of them."""
    bench.world.namespace = bench.world.make_namespace(NAMESPACE)
    bench.begin_here(slots_max=16384, leader_elect="true")
    bench.world.pool("p", POOL)
    bench.world.wait_pool("p", POOL, 300, exact=False)


def compare(ours, theirs, words, turns):
    """warmpool-load's own report, which says the ratio and how sure it is."""
    command = [loads.program(ours.build), f"{NAMESPACE}/p", "-q",
               "-k", ours.world.cluster.kubeconfig,
               "--against", theirs.world.cluster.kubeconfig,
               "--timeout", "60s", "--turns", str(turns), *words]
    done = subprocess.run([str(word) for word in command], text=True,
                          stdout=subprocess.PIPE, timeout=900, check=False)
    ours.say("\n$ warmpool-load " + " ".join(str(word) for word in command[1:]))
    ours.say(done.stdout)
    return done.returncode


def run(make_bench, directory, turns, fsync=True):
    """make_bench(directory, cluster, upstream): see cluster.py. Returns how many loads
    went wrong."""
    upstream = control_plane.programs("upstream") / "agent-sandbox-controller"
    places = [pathlib.Path(directory) / name for name in ("ours", "theirs")]
    for place in places:
        place.mkdir()
    with control_plane.Cluster(places[0], fsync=fsync) as one, \
            control_plane.Cluster(places[1], fsync=fsync) as other:
        ours = make_bench(places[0], one, None)
        theirs = make_bench(places[1], other, upstream)
        try:
            for bench in (ours, theirs):
                fill(bench)
            return sum(compare(ours, theirs, words, turns) != 0
                       for words in LOADS.values())
        finally:
            ours.world.stop_daemons()
            theirs.stop_other()
