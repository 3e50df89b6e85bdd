"""PerfKitBenchmarker's deletion benchmark, as its contract has it: a pool goes up to N
sandboxes and down to none; how fast their Pods are gone, and their addresses.

    perfkit_drain.py NAMESPACE POOL N POLL_S
"""
import json
import sys
import time

from kubernetes import client, config
from perfkit_load import GROUP, percentile

PROVISION_S = 300
DRAIN_S = 300


class Pool:
    def __init__(self, namespace, name, poll_s):
        self.namespace, self.name, self.poll_s = namespace, name, poll_s
        self.api = client.CustomObjectsApi()
        self.core = client.CoreV1Api()

    def scale(self, replicas):
        self.api.patch_namespaced_custom_object(
            *GROUP, self.namespace, "sandboxwarmpools", self.name,
            {"spec": {"replicas": replicas}})

    def pods(self):
        """{name: address} of all there are in the namespace."""
        return {pod.metadata.name: pod.status.pod_ip
                for pod in self.core.list_namespaced_pod(self.namespace).items}

    def until(self, within_s, done):
        """Looks every poll_s; seconds until done says so of what is there."""
        begun = time.monotonic()
        while True:
            took = time.monotonic() - begun
            if done(took):
                return took
            if took > within_s:
                raise TimeoutError(f"{self.name}: not done in {within_s} s")
            time.sleep(self.poll_s)

    def run(self, replicas):
        begun = time.monotonic()
        self.scale(replicas)
        provision = self.until(PROVISION_S, lambda _: len(
            [ip for ip in self.pods().values() if ip]) == replicas)
        before = self.pods()
        gone, freed = {}, []

        def drained(took):
            there = self.pods()
            for name in before.keys() - there.keys():
                gone.setdefault(name, took)
            if not freed and not any(there.values()):
                freed.append(took)
            return not there

        self.scale(0)
        drain = self.until(DRAIN_S, drained)
        latencies = list(gone.values())
        return {
            "provision_time": provision, "total_drain_time": drain,
            **{f"latency_p{p}": percentile(latencies, p / 100)
               for p in (50, 95, 99)},
            "latency_max": max(latencies), "rate": replicas / drain,
            "ip_before": len(set(before.values())),
            "ip_after": len([ip for ip in self.pods().values() if ip]),
            "ip_reclaim_time": freed[0], "wall_time": time.monotonic() - begun}


def main():
    config.load_kube_config()
    namespace, name, replicas, poll_s = sys.argv[1:]
    pool = Pool(namespace, name, float(poll_s))
    print(json.dumps(pool.run(int(replicas))))


if __name__ == "__main__":
    main()
