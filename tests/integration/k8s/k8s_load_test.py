"""warmpool-load creates SandboxClaims: with a whole warmpoold, with a controller that
does wrong, and with nobody who serves.

Run by ctest: k8s_load_test.py WARMPOOLD FAKE_API WARMPOOL_LOAD [unittest arguments].
No figure is judged: only that they fit each other and what the server saw.
"""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import k8s_rig
from fake_api_rig import PATIENCE, eventually
from k8s_rig import KUBECONFIG, NS, Case

# With a second context.
TWO = KUBECONFIG.replace("contexts: [", "contexts: [{{name: y, context: {{cluster: c, "
                                        "user: u}}}}, ")


class Loads(Case):
    def setUp(self):
        super().setUp()
        self.dir = tempfile.mkdtemp(prefix="wp-load-")
        self.addCleanup(shutil.rmtree, self.dir)
        self.config = self.path("config")
        pathlib.Path(self.config).write_text(
            TWO.format(url=self.api.url, token="secret"), "utf-8")

    def path(self, name):
        return os.path.join(self.dir, name)

    def command(self, *words):
        return [k8s_rig.PROGRAMS["load"], f"{NS}/pool", "--kubeconfig", self.config,
                "-q", "-o", "json", *words]

    def load(self, *words, code=0):
        done = subprocess.run(self.command(*words), capture_output=True, text=True,
                              check=False, timeout=PATIENCE * 3)
        self.assertEqual(done.returncode, code, done.stdout[-3000:] + done.stderr)
        return json.loads(done.stdout) if done.stdout else done.stderr

    def served(self, replicas=10):
        self.make_pool(replicas=replicas)
        self.daemon()
        self.wait_filled(replicas=replicas)

    def nothing_left(self, run, replicas=10):
        self.assertEqual(run["check"]["leases_left"], 0)
        self.assertEqual(run["check"]["sandboxes_left"], 0)
        self.assertEqual(run["check"]["duplicates"], 0)
        self.assertEqual(self.api.all("sandboxclaims"), [])
        self.wait_filled(replicas=replicas)

    def posts(self, since=0):
        return [one for one in self.api.control("requests", **{"from": since})
                if one["verb"] == "POST" and one["kind"] == "sandboxclaims"]


class Served(Loads):
    def test_closed(self):
        self.served()
        files = {k: self.path(k) for k in ("summary", "pkb", "pkb-records")}
        run = self.load("-c", "4", "-n", "40",
                        *(w for k, v in files.items() for w in ("--" + k, v)))
        phase, = run["phases"]
        self.assertEqual((phase["due"], phase["granted"], phase["released"]),
                         (40, 40, 40))
        self.assertEqual(phase["warm"] + phase["cold"], 40)
        self.assertLessEqual(phase["in_flight_max"], 4)
        self.assertEqual(len(self.posts()), 40)
        self.nothing_left(run)
        with open(files["summary"], encoding="utf-8") as file:
            stats, = json.load(file)["phases"]
        ack, ready = (stats["latency"][k] for k in ("createAck", "endToEndReady"))
        self.assertEqual(ready["count"], 40)
        # The answer of a POST may come when all is over: then nobody looks at it.
        self.assertTrue(0 < ack["count"] <= 40)
        self.assertGreater(ack["p50Ms"], 0)
        with open(files["pkb-records"], encoding="utf-8") as file:
            self.assertEqual(len(file.readlines()), 41)
        with open(files["pkb"], encoding="utf-8") as file:
            samples = {s["metric"]: s["value"] for s in map(json.loads, file)}
        self.assertEqual(samples["success_count"], 40)

    def test_open_loop_that_holds(self):
        self.served()
        run = self.load("-r", "40", "-d", "1s", "--hold", "100ms", "--wait", "30s")
        self.assertEqual(run["phases"][0]["granted"], 40)
        self.nothing_left(run)

    def test_a_burst_that_is_kept_and_one_that_is_left(self):
        self.served()
        run = self.load("--burst", "10", "--keep", "-n", "10")
        self.assertEqual(run["phases"][0]["in_flight_max"], 10)
        self.nothing_left(run)
        run = self.load("--burst", "10", "--leave", "-n", "10")
        self.assertEqual(run["phases"][0]["released"], 0)
        self.assertIsNone(run["check"]["leases_left"])
        self.assertEqual(len(self.api.all("sandboxclaims")), 10)

    def test_the_pools_size(self):
        self.served(replicas=4)
        # Held, so that who looks at the pool now and then does so in time.
        run = self.load("--pool-size", "8", "-n", "10", "--hold", "200ms")
        self.assertEqual(max(s["ready"] for s in run["phases"][0]["stock"]), 8)
        self.nothing_left(run, replicas=4)

    def test_two_contexts_by_turns(self):
        self.served()
        run = self.load("--against", "y", "-n", "10", "--turns", "2")
        self.assertEqual([p["target"] for p in run["phases"]], ["A", "B", "B", "A"])
        self.assertNotEqual(run["phases"][0]["address"], run["phases"][1]["address"])
        self.nothing_left(run)
        self.load("--against", self.config, "-n", "10", "--turns", "1")

    def test_a_watch_that_is_cut(self):
        self.served()
        process = subprocess.Popen(self.command("-r", "20", "-d", "2s"),
                                   stdout=subprocess.PIPE, text=True)
        eventually(lambda: len(self.posts()) > 5, "claims")
        self.api.control("watches", kind="sandboxclaims", act="cut")
        out, _ = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 0, out)
        run = json.loads(out)
        self.assertEqual(run["phases"][0]["granted"], 40)
        self.assertEqual(run["phases"][0]["connections_lost"], 1)
        self.nothing_left(run)

    def test_a_signal_leaves_what_was_seen_and_nothing_else(self):
        self.served()
        process = subprocess.Popen(
            self.command("-r", "20", "-d", "1h", "--hold", "1s"),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        eventually(lambda: len(self.posts()) > 5, "claims")
        process.send_signal(signal.SIGTERM)
        out, errors = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 128 + signal.SIGTERM, errors)
        run = json.loads(out)
        self.assertTrue(run["phases"][0]["cut"])
        self.nothing_left(run)


class Wrong(Loads):
    options = ("pod_ready_ms=20", "pod_stop_ms=5")  # Nobody collects garbage.

    def test_nobody_serves(self):
        self.make_pool(replicas=0)
        run = self.load("-n", "3", "-c", "3", "--wait", "0", "--timeout", "3s",
                        code=1)
        self.assertEqual(run["phases"][0]["failed_by_code"],
                         {"DEADLINE_EXCEEDED": 3})
        self.assertEqual(self.api.all("sandboxclaims"), [])

    def test_claims_that_are_refused(self):
        self.make_pool(replicas=0)
        self.api.control("fault", verbs="POST", kind="sandboxclaims",
                         action="status", code=403)
        run = self.load("-n", "5", "--min-samples", "0", "--min-granted", "0")
        self.assertEqual(run["phases"][0]["failed_by_code"],
                         {"PERMISSION_DENIED": 5})

    def test_no_such_pool(self):
        self.assertIn("SandboxWarmPool ns/pool", self.load("-n", "3", code=3))

    def test_no_such_server(self):
        self.api.stop()
        self.assertIn("the API server", self.load("-n", "3", code=4))

    def test_usage(self):
        for words, says in {
                ("--batch", "3"): "have no batch",
                ("--context", "z"): "'z'",
                ("--in-cluster",): "not together",
                ("--threads", "2"): "one is enough",
                ("--against", "nowhere"): "nowhere",
        }.items():
            self.assertIn(says, self.load(*words, code=2))

    def test_a_server_that_goes(self):
        self.make_pool(replicas=0)
        process = subprocess.Popen(
            self.command("-r", "20", "-d", "1h", "--timeout", "3s", "--wait", "0"),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        eventually(lambda: len(self.posts()) > 5, "claims")
        self.api.control("down")
        out, errors = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 4, errors)
        run = json.loads(out)
        self.assertIn("the target has gone", run["error"])
        self.assertTrue(run["phases"][0]["cut"])

    def serve_all(self, sandbox, ended):
        """A controller without a conscience: all get the same one."""
        while not ended.is_set():
            for claim in self.api.all("sandboxclaims"):
                if "status" not in claim:
                    self.api.patch(
                        "sandboxclaims", NS, claim["metadata"]["name"],
                        {"status": {"sandbox": {"name": sandbox}, "conditions": [
                            {"type": "Ready", "status": "True", "reason": "x",
                             "message": "", "lastTransitionTime":
                             "2024-01-01T00:00:00Z"}]}}, "status")
            time.sleep(0.01)

    def with_bad_controller(self, *words, code):
        self.make_pool(replicas=0)
        ended = threading.Event()
        thread = threading.Thread(target=self.serve_all, args=("one", ended))
        thread.start()
        try:
            return self.load(*words, code=code)
        finally:
            ended.set()
            thread.join()

    def test_one_sandbox_held_by_two(self):
        run = self.with_bad_controller("--burst", "5", "--keep", "-n", "5",
                                       "--min-samples", "0", code=1)
        self.assertEqual(run["check"]["duplicates"], 4)
        self.assertIn("given out twice", run["check"]["breaches"][0])

    def test_a_name_that_comes_again_is_no_second_holder(self):
        run = self.with_bad_controller("-c", "1", "-n", "5", "--min-samples", "0",
                                       code=0)
        self.assertEqual(run["check"]["duplicates"], 0)

    def test_sandboxes_that_are_left(self):
        """Owned by a claim that is gone, and nobody collects them."""
        self.make_pool(replicas=0)
        process = subprocess.Popen(
            self.command("-n", "1", "--wait", "60s", "--timeout", "500ms",
                         "--min-samples", "0", "--min-granted", "0"),
            stdout=subprocess.PIPE, text=True)
        claim = eventually(lambda: self.api.all("sandboxclaims"), "a claim")[0]
        meta = claim["metadata"]
        self.api.create("sandboxes", NS, "left", metadata={
            "finalizers": [], "ownerReferences": [{
                "apiVersion": claim["apiVersion"], "kind": "SandboxClaim",
                "name": meta["name"], "uid": "of-nobody", "controller": True}]},
            spec={"podTemplate": {"spec": {"containers": [
                {"name": "main", "image": "x"}]}}})
        self.api.delete("sandboxclaims", NS, meta["name"])
        out, _ = process.communicate(timeout=PATIENCE * 3)
        run = json.loads(out)
        self.assertEqual(run["phases"][0]["failed_by_code"], {"ABORTED": 1})
        self.assertEqual(run["check"]["sandboxes_left"], 1)
        self.assertEqual(process.returncode, 1)


if __name__ == "__main__":
    k8s_rig.PROGRAMS["warmpoold"] = sys.argv.pop(1)
    k8s_rig.PROGRAMS["fake_api"] = sys.argv.pop(1)
    k8s_rig.PROGRAMS["load"] = sys.argv.pop(1)
    unittest.main()
