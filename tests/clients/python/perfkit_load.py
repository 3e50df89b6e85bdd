"""PerfKitBenchmarker's load generator for agent-sandbox, as its contract has it: claims at
an even rate, one watch for all of them, JSON lines, and the samples made of these.

    perfkit_load.py NAMESPACE POOL QPS DURATION_S READY_TIMEOUT_S
"""
import dataclasses
import json
import os
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from kubernetes import client, config, watch

GROUP = ("extensions.agents.x-k8s.io", "v1beta1")
MAX_CONCURRENT = 200


@dataclasses.dataclass
class ClaimRecord:
    name: str
    requested_at: float = None
    ready_at: float = None
    error: str = None
    warm_served: bool = None
    exec_started_at: float = None
    exec_completed_at: float = None
    released_at: float = None


class Load:
    def __init__(self, namespace, pool, ready_timeout):
        self.namespace, self.pool, self.ready_timeout = namespace, pool, ready_timeout
        self.api = client.CustomObjectsApi()
        self.core = client.CoreV1Api()
        self.records, self.created = {}, set()
        self.dropped = set()
        self.lock = threading.Lock()
        self.live = self.peak = 0
        self.ending = threading.Event()
        self.workers = ThreadPoolExecutor(MAX_CONCURRENT)

    def create(self, name):
        record = self.records[name] = ClaimRecord(name, requested_at=time.monotonic())
        body = {"apiVersion": "/".join(GROUP), "kind": "SandboxClaim",
                "metadata": {"name": name}, "spec": {
                    "warmPoolRef": {"name": self.pool},
                    "lifecycle": {"shutdownPolicy": "Delete"}}}
        for _ in range(5):
            try:
                self.api.create_namespaced_custom_object(
                    *GROUP, self.namespace, "sandboxclaims", body)
                break
            except client.ApiException as error:
                if error.status != 429:
                    record.error = type(error).__name__
                    return
                time.sleep(min(float(error.headers.get("Retry-After", 1)), 5))
        else:
            record.error = "ApiException"
            return
        with self.lock:
            self.created.add(name)
            self.live += 1
            self.peak = max(self.peak, self.live)

    # What is Ready before its POST was answered is dropped here, as there: a later
    # event has to come.
    def consume(self):
        version = None
        while not self.ending.is_set():
            stream = watch.Watch()
            options = {"resource_version": version} if version else {}
            try:
                for event in stream.stream(
                        self.api.list_namespaced_custom_object, *GROUP,
                        self.namespace, "sandboxclaims", timeout_seconds=60,
                        allow_watch_bookmarks=True, **options):
                    item = event["object"]
                    version = item["metadata"]["resourceVersion"]
                    if event["type"] != "BOOKMARK":
                        self.seen(item)
                    if self.ending.is_set():
                        break
            except client.ApiException as error:
                version = None
                if error.status != 410:
                    time.sleep(1)

    def seen(self, item):
        name = item["metadata"]["name"]
        status = item.get("status", {})
        ready = any(c["type"] == "Ready" and c["status"] == "True"
                    for c in status.get("conditions", []))
        with self.lock:
            if name not in self.created:
                if ready:
                    self.dropped.add(name)
                return
        record = self.records[name]
        if not ready or record.ready_at is not None:
            return
        now = time.monotonic()
        sandbox = status["sandbox"]["name"]
        record.warm_served = sandbox.startswith(self.pool)
        self.workers.submit(self.use, record, sandbox)
        record.ready_at = now  # The last one of these ends the wait.

    # Where its workload would be started; then it is let go.
    def use(self, record, sandbox):
        try:
            self.find_pod(sandbox)
            self.release(record)
        except (AssertionError, client.ApiException) as error:
            record.error = type(error).__name__

    def find_pod(self, sandbox):
        item = self.api.get_namespaced_custom_object(
            "agents.x-k8s.io", "v1beta1", self.namespace, "sandboxes", sandbox)
        name = item["metadata"].get("annotations", {}).get(
            "agents.x-k8s.io/pod-name", sandbox)
        pod = self.core.read_namespaced_pod(name, self.namespace)
        assert pod.status.phase == "Running", pod.status.phase

    def release(self, record):
        self.api.delete_namespaced_custom_object(
            *GROUP, self.namespace, "sandboxclaims", record.name)
        record.released_at = time.monotonic()
        with self.lock:
            self.live -= 1

    def run(self, qps, total):
        consumer = threading.Thread(target=self.consume, daemon=True)
        consumer.start()
        start = time.monotonic()
        with ThreadPoolExecutor(MAX_CONCURRENT) as pool:
            for number in range(total):
                time.sleep(max(0, start + number / qps - time.monotonic()))
                pool.submit(self.create, f"claim-{number}")
        end = time.monotonic() + self.ready_timeout
        while time.monotonic() < end and any(
                r.ready_at is None and r.error is None for r in self.records.values()):
            time.sleep(0.1)
        self.ending.set()
        self.workers.shutdown()
        for record in self.records.values():
            if record.ready_at is None and record.error is None:
                record.error = "Timeout"


def percentile(values, p):
    """By linear interpolation; 0 of none."""
    if not values:
        return 0.0
    values = sorted(values)
    place = (len(values) - 1) * p
    low = int(place)
    high = min(low + 1, len(values) - 1)
    return values[low] + (values[high] - values[low]) * (place - low)


def build_samples(records, peak):
    good = [r for r in records if r.error is None]
    starts = [r.ready_at - r.requested_at for r in good]
    lives = [r.released_at - r.requested_at for r in good if r.released_at]
    asked = [r.requested_at for r in records]
    samples = {}
    for name, values in (("startup_time", starts), ("total_lifecycle_s", lives)):
        for p in (50, 90, 95, 99):
            samples[f"{name}_p{p}"] = percentile(values, p / 100)
        samples[f"{name}_max"] = max(values, default=0.0)
    samples["submit_qps"] = len(records) / (max(asked) - min(asked))
    samples["completion_qps"] = len(good) / (
        max(r.ready_at for r in good) - min(asked)) if good else 0.0
    samples["peak_concurrency"] = peak
    samples["warm_served_fraction"] = sum(
        bool(r.warm_served) for r in good) / len(good) if good else 0.0
    samples["success_count"] = len(good)
    samples["error_count"] = len(records) - len(good)
    for error in {r.error for r in records} - {None}:
        samples[f"error_count_{error}"] = sum(r.error == error for r in records)
    return samples


def main():
    namespace, pool = sys.argv[1:3]
    qps, duration, ready_timeout = map(float, sys.argv[3:])
    config.load_kube_config()
    load = Load(namespace, pool, ready_timeout)
    load.run(qps, round(qps * duration))
    print("---RESULTS---")
    for record in load.records.values():
        print(json.dumps(dataclasses.asdict(record)))
    print(json.dumps({"summary": {"peak_concurrency": load.peak,
                                  "dropped": sorted(load.dropped)}}))
    print(json.dumps(build_samples(list(load.records.values()), load.peak)), flush=True)
    # The watch's thread may stand in a read, which Python's own end does not survive.
    os._exit(0)


if __name__ == "__main__":
    main()
