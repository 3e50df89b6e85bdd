"""What the daemon says of pools that it cannot take as they are.

Run by ctest: daemon_pools_test.py WARMPOOLD WARMPOOLCTL GENERATED_DIR
DEPLOY_DIR [unittest arguments]. Sandboxes are files.
"""

import os
import shutil
import signal
import sys
import tempfile
import time
import unittest

import grpc

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from access_token_test import PATIENCE, Daemon, pb  # noqa: E402

TEMPLATE = """apiVersion: extensions.agents.x-k8s.io/v1beta1
kind: SandboxTemplate
metadata: {{name: {name}}}
spec:
  podTemplate:
    spec:
      containers:
      - {{name: c, image: host, command: [x], ports: [{{containerPort: 80}}]}}
"""
POOL = """apiVersion: extensions.agents.x-k8s.io/v1beta1
kind: SandboxWarmPool
metadata: {{name: {name}, annotations: {{{annotations}}}}}
spec: {{replicas: {replicas}, sandboxTemplateRef: {{name: {template}}}}}
"""


def pool(name, replicas=1, template="t", annotations=""):
    return POOL.format(name=name, replicas=replicas, template=template,
                       annotations=annotations)


class Pools(unittest.TestCase):
    def setUp(self):
        self.place = tempfile.mkdtemp(prefix="wp-pools-")
        self.addCleanup(shutil.rmtree, self.place, ignore_errors=True)
        self.manifest = os.path.join(self.place, "m.yaml")
        self.state = os.path.join(self.place, "s")

    def write(self, *pools):
        with open(self.manifest, "w", encoding="ascii") as handle:
            handle.write("---\n".join((TEMPLATE.format(name="t"), *pools)))

    def start(self, *flags):
        self.daemon = Daemon("--state-dir=" + self.state, *flags,
                             manifest=self.manifest)
        self.addCleanup(shutil.rmtree, self.daemon.dir, ignore_errors=True)
        self.addCleanup(self.daemon.end)
        return self.daemon.started()

    def says(self, *words):
        """All of it in one line."""
        end = time.monotonic() + PATIENCE
        while not any(all(word in line for word in words)
                      for line in self.daemon.log().splitlines()):
            self.assertLess(time.monotonic(), end,
                            f"{words}: {self.daemon.log()}")
            time.sleep(0.02)

    def reload(self, *pools):
        self.write(*pools)
        self.daemon.process.send_signal(signal.SIGHUP)

    def names(self):
        token = "Bearer " + self.daemon.token()
        reply = self.daemon.call("PoolAdmin/ListPools", pb.ListPoolsRequest(),
                                 pb.ListPoolsResponse, token)
        return sorted(one.ref.name for one in reply.pools)

    def test_one_that_was_kept_and_is_damaged(self):
        """It is said, with its file; the others are there."""
        self.write(pool("a"))
        kept = os.path.join(self.state, "pools.d")
        os.makedirs(kept, 0o700)
        with open(os.path.join(kept, "default_b.yaml"), "w",
                  encoding="ascii") as handle:
            handle.write("kind: [")
        self.start()
        self.says("a pool that CreatePool has kept is left out",
                  "default_b.yaml", "not YAML")
        self.assertEqual(self.names(), ["a"])

    def test_none(self):
        self.write()
        self.start()
        self.says("no pools: the setting 'manifests' names none, and none was "
                  "created by a call")

    def test_budgets(self):
        group = "autoscale.warmpool.io/budget-group: {}, " \
            "autoscale.warmpool.io/objective: 99%, " \
            'autoscale.warmpool.io/min: "{}"'
        self.write(pool("a", annotations=group.format("known", 3)),
                   pool("b", annotations=group.format("unknown", 1)))
        self.start("--autoscale-budgets=known=2")
        self.says("a pool names a budget group that autoscale_budgets does "
                  "not have: no bound", "group=unknown")
        self.says("the mins of a budget group are more than its total",
                  "group=known", "mins=3", "total=2")
        self.reload(pool("a", annotations=group.format("known", 2)),
                    pool("b", annotations=group.format("unknown", 1)))
        self.says("the mins of a budget group are within its total again",
                  "group=known", "mins=2", "total=2")

    def test_another_egress_policy(self):
        """What is idle was made for the former, and goes."""
        egress = 'pool.warmpool.io/egress: "{}"'
        self.write(pool("a", 2, annotations=egress.format("none")))
        self.start()
        self.full("a", 2)
        self.reload(pool("a", 2, annotations=egress.format("example.com")))
        self.says("pool changed", "pool=a")
        end = time.monotonic() + PATIENCE
        while self.pool("a").destroyed_total < 2:
            self.assertLess(time.monotonic(), end, self.daemon.log())
            time.sleep(0.02)
        self.full("a", 2)

    def pool(self, name):
        return self.daemon.call(
            "PoolAdmin/GetPool", pb.GetPoolRequest(pool=pb.PoolRef(name=name)),
            pb.Pool, "Bearer " + self.daemon.token())

    def full(self, name, n):
        end = time.monotonic() + PATIENCE
        while self.pool(name).ready != n:
            self.assertLess(time.monotonic(), end, self.daemon.log())
            time.sleep(0.02)

    def test_more_than_there_is_room_for(self):
        """All of the file is refused, and all stays as it was."""
        self.write(pool("a"))
        self.start("--slots-max=8")
        self.reload(pool("a", 2), pool("b", 9))
        self.says("reload refused, all stays as it was", "slots_max")
        self.assertEqual(self.names(), ["a"])
        self.assertEqual(self.pool("a").target, 1)

    def test_what_is_not_there(self):
        self.write(pool("a"))
        self.start()
        with self.assertRaises(grpc.RpcError) as caught:
            self.daemon.call(
                "PoolAdmin/DeletePool",
                pb.DeletePoolRequest(pool=pb.PoolRef(name="none")),
                pb.DeletePoolResponse, "Bearer " + self.daemon.token())
        self.assertEqual(caught.exception.code(), grpc.StatusCode.NOT_FOUND)
        self.assertEqual(caught.exception.details(), "pool: 'none' in "
                         "namespace 'default' does not exist")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[5:])
