"""The fake API server keeps the rules that a real one has.

Run by ctest: fake_api_test.py FAKE_API [unittest arguments].
"""

import http.client
import sys
import unittest

from fake_api_rig import PATIENCE, FakeApi, eventually, path_of

PROGRAM = None


class Case(unittest.TestCase):
    options = ()

    def setUp(self):
        self.api = FakeApi(PROGRAM, *self.options)
        self.addCleanup(self.api.stop)

    def pod(self, name="a", **fields):
        return self.api.create("pods", "ns", name, **fields)

    def claim(self, name="c", **fields):
        fields.setdefault("spec", {"warmPoolRef": {"name": "p"}})
        return self.api.create("sandboxclaims", "ns", name, **fields)


class Writes(Case):
    def test_create(self):
        made = self.claim()
        self.assertEqual(made.code, 201)
        meta = made["metadata"]
        self.assertEqual(meta["generation"], 1)
        self.assertTrue(meta["uid"] and meta["creationTimestamp"])
        again = self.claim()
        self.assertEqual((again.code, again["reason"]), (409, "AlreadyExists"))
        self.assertEqual(self.claim(metadata={"resourceVersion": "1"}).code,
                         400)
        names = {self.claim(None, metadata={"generateName": "g-"})
                 ["metadata"]["name"] for _ in range(50)}
        self.assertEqual(len(names), 50)
        wrong = self.api.request("POST", path_of("pods", "ns"), {
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "x"}})
        self.assertEqual(wrong.code, 400)

    def test_status_is_apart(self):
        made = self.claim(status={"conditions": []})
        self.assertNotIn("status", made.body)
        patched = self.api.patch("sandboxclaims", "ns", "c", {
            "metadata": {"labels": {"x": "y"}}, "spec": {"env": []},
            "status": {"sandbox": {"name": "s"}}}, "status")
        self.assertEqual(patched.code, 200)
        self.assertEqual(patched["status"], {"sandbox": {"name": "s"}})
        self.assertNotIn("env", patched["spec"])
        self.assertNotIn("labels", patched["metadata"])
        self.assertEqual(patched["metadata"]["generation"], 1)
        spec = self.api.patch("sandboxclaims", "ns", "c", {
            "spec": {"env": []}, "status": None})
        self.assertEqual(spec["metadata"]["generation"], 2)
        self.assertEqual(spec["status"], {"sandbox": {"name": "s"}})
        # A template has no status of its own.
        self.api.create("sandboxtemplates", "ns", "t", spec={})
        self.assertEqual(self.api.patch("sandboxtemplates", "ns", "t", {},
                                        "status").code, 404)

    def test_preconditions(self):
        version = self.pod()["metadata"]["resourceVersion"]
        first = {"metadata": {"resourceVersion": version,
                              "labels": {"n": "1"}}}
        self.assertEqual(self.api.patch("pods", "ns", "a", first).code, 200)
        second = self.api.patch("pods", "ns", "a", first)
        self.assertEqual((second.code, second["reason"]), (409, "Conflict"))
        uid = self.api.get("pods", "ns", "a")["metadata"]["uid"]
        self.assertEqual(self.api.delete(
            "pods", "ns", "a", preconditions={"uid": uid + "x"}).code, 409)
        self.assertEqual(self.api.delete(
            "pods", "ns", "a", preconditions={"resourceVersion": version}
        ).code, 409)
        self.assertEqual(self.api.delete(
            "pods", "ns", "a", preconditions={"uid": uid}).code, 200)
        self.assertEqual(self.api.delete("pods", "ns", "a").code, 404)

    def test_nothing_changed(self):
        version = self.pod(metadata={"labels": {"n": "1"}})[
            "metadata"]["resourceVersion"]
        same = self.api.patch("pods", "ns", "a",
                              {"metadata": {"labels": {"n": "1"}}})
        self.assertEqual(same["metadata"]["resourceVersion"], version)

    def test_put_and_apply(self):
        body = self.claim().body
        body["spec"] = {"warmPoolRef": {"name": "q"}}
        path = path_of("sandboxclaims", "ns", "c")
        self.assertEqual(self.api.request("PUT", path, body).code, 200)
        self.assertEqual(self.api.request("PUT", path, body).code, 409)
        apply = {"apiVersion": "v1", "kind": "Service",
                 "metadata": {"name": "s"}, "spec": {"clusterIP": "None"}}
        path = path_of("services", "ns", "s")
        kind = "application/apply-patch+yaml"
        self.assertEqual(self.api.request("PATCH", path, apply, kind).code,
                         422)
        path += "?fieldManager=m&force=true"
        self.assertEqual(self.api.request("PATCH", path, apply, kind).code,
                         201)
        apply["spec"] = {"ports": []}
        again = self.api.request("PATCH", path, apply, kind)
        self.assertEqual(again.code, 200)
        self.assertEqual(again["spec"], {"clusterIP": "None", "ports": []})

    def test_finalizers(self):
        self.claim(metadata={"finalizers": ["x/y"]})
        self.assertEqual(self.api.delete("sandboxclaims", "ns", "c").code, 200)
        held = self.api.get("sandboxclaims", "ns", "c")
        self.assertIn("deletionTimestamp", held["metadata"])
        self.api.patch("sandboxclaims", "ns", "c",
                       {"metadata": {"finalizers": None}})
        self.assertIsNone(self.api.get("sandboxclaims", "ns", "c"))


class Reads(Case):
    def test_pages_are_one_snapshot(self):
        for i in range(7):
            self.pod(f"p{i}", metadata={"labels": {"odd": str(i % 2)}})
        page = self.api.request("GET", path_of("pods") + "?limit=3")
        self.pod("p31")
        names = []
        versions = set()
        while True:
            names += [pod["metadata"]["name"] for pod in page["items"]]
            versions.add(page["metadata"]["resourceVersion"])
            token = page["metadata"].get("continue")
            if not token:
                break
            page = self.api.request(
                "GET", path_of("pods") + "?limit=3&continue=" +
                token.replace("+", "%2B").replace("=", "%3D").replace(
                    "&", "%26"))
        self.assertEqual(names, [f"p{i}" for i in range(7)])
        self.assertEqual(len(versions), 1)
        odd = self.api.request(
            "GET", path_of("pods") + "?labelSelector=odd%20in%20(1,5),odd!=0")
        self.assertEqual(len(odd["items"]), 3)
        one = self.api.request(
            "GET", path_of("pods") + "?fieldSelector=metadata.name%3Dp3")
        self.assertEqual(len(one["items"]), 1)
        # As real servers do, for built-in kinds.
        self.assertNotIn("kind", one["items"][0])

    def test_continue_is_gone_after_compaction(self):
        for i in range(3):
            self.pod(f"p{i}")
        page = self.api.request("GET", path_of("pods") + "?limit=2")
        self.api.control("compact")
        token = page["metadata"]["continue"].split("+")[0]
        self.assertEqual(self.api.request(
            "GET", path_of("pods") + f"?continue={token}%2B2%3D%26").code, 410)

    def test_watch(self):
        version = self.pod()["metadata"]["resourceVersion"]
        watch = self.api.watch("pods", resourceVersion=version,
                               labelSelector="x=1")
        self.addCleanup(watch.close)
        self.api.patch("pods", "ns", "a", {"metadata": {"labels": {"x": "1"}}})
        self.api.patch("pods", "ns", "a", {"metadata": {"labels": {"y": "1"}}})
        self.api.patch("pods", "ns", "a", {"metadata": {"labels": {"x": "2"}}})
        self.pod("b", metadata={"labels": {"x": "1"}})
        self.api.delete("pods", "ns", "b")
        eventually(lambda: len(watch.events) == 5, "five events")
        self.assertEqual(watch.types(), ["ADDED", "MODIFIED", "DELETED",
                                         "ADDED", "DELETED"])
        versions = [int(event["object"]["metadata"]["resourceVersion"])
                    for _, event in watch.events]
        self.assertEqual(versions, sorted(versions))

    def test_watch_ends(self):
        version = self.pod()["metadata"]["resourceVersion"]
        timed = self.api.watch("pods", resourceVersion=version,
                               timeoutSeconds=1)
        self.addCleanup(timed.close)
        self.assertTrue(timed.ended.wait(PATIENCE))
        self.api.control("compact")
        gone = self.api.watch("pods", resourceVersion=version)
        self.addCleanup(gone.close)
        self.assertEqual(gone.code, 410)
        ahead = self.api.watch("pods", resourceVersion=100000)
        self.addCleanup(ahead.close)
        self.assertEqual(ahead.code, 504)


class GoneAsEvent(Case):
    options = ("gone_as_event=1", "bookmark_ms=20")

    def test_error_event(self):
        version = self.pod()["metadata"]["resourceVersion"]
        self.api.control("compact")
        watch = self.api.watch("pods", resourceVersion=version)
        self.addCleanup(watch.close)
        self.assertTrue(watch.ended.wait(PATIENCE))
        self.assertEqual(watch.types(), ["ERROR"])
        self.assertEqual(watch.events[0][1]["object"]["code"], 410)

    def test_bookmarks(self):
        version = self.pod()["metadata"]["resourceVersion"]
        watch = self.api.watch("pods", resourceVersion=version,
                               allowWatchBookmarks="true")
        self.addCleanup(watch.close)
        self.claim()

        def marks():
            return [int(event["object"]["metadata"]["resourceVersion"])
                    for _, event in watch.events]
        # Some may have come before the claim did.
        eventually(lambda: [mark for mark in marks() if mark > int(version)],
                   "a bookmark")
        self.assertEqual(set(watch.types()), {"BOOKMARK"})
        self.assertEqual(marks(), sorted(marks()))


class World(Case):
    options = ("pod_ready_ms=5", "pod_stop_ms=5", "gc=1")

    def owner(self, made, kind):
        return {"ownerReferences": [{
            "apiVersion": made["apiVersion"], "kind": kind,
            "name": made["metadata"]["name"], "uid": made["metadata"]["uid"],
            "controller": True, "blockOwnerDeletion": True}]}

    def family(self):
        claim = self.claim()
        sandbox = self.api.create("sandboxes", "ns", "s", spec={},
                                  metadata=self.owner(claim, "SandboxClaim"))
        self.pod(metadata=self.owner(sandbox, "Sandbox"), spec={})
        return claim

    def test_pods_become_ready_and_go(self):
        self.pod(spec={"containers": []})
        pod = eventually(
            lambda: (self.api.get("pods", "ns", "a") or {}).get(
                "status", {}).get("podIP") and self.api.get("pods", "ns", "a"),
            "the pod is ready")
        self.assertEqual(pod["status"]["phase"], "Running")
        self.assertIn("nodeName", pod["spec"])
        held = self.api.delete("pods", "ns", "a").body
        self.assertIn("deletionTimestamp", held["metadata"])
        eventually(lambda: not self.api.get("pods", "ns", "a"), "it is gone")

    def test_garbage_goes_with_its_owner(self):
        self.family()
        self.api.delete("sandboxclaims", "ns", "c")
        eventually(lambda: not self.api.all("pods") and
                   not self.api.all("sandboxes"), "all is gone")

    def test_foreground(self):
        self.family()
        # The answer itself: the next read may come after the collector's turn.
        held = self.api.delete("sandboxclaims", "ns", "c",
                               propagationPolicy="Foreground").body
        self.assertIn("deletionTimestamp", held["metadata"])
        self.assertIn("foregroundDeletion", held["metadata"]["finalizers"])
        eventually(lambda: not self.api.all("sandboxclaims"), "it is gone")
        self.assertFalse(self.api.all("sandboxes"))

    def test_orphans_of_nobody(self):
        self.pod(metadata={"ownerReferences": [{
            "apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "none"}]})
        eventually(lambda: not self.api.all("pods"), "it is gone")

    def test_given_to_an_owner_that_is_gone(self):
        claim = self.claim()
        self.api.delete("sandboxclaims", "ns", "c")
        self.pod()
        self.api.patch("pods", "ns", "a",
                       {"metadata": self.owner(claim, "SandboxClaim")})
        eventually(lambda: not self.api.all("pods"), "it is gone")


class Faults(Case):
    def test_rules_count(self):
        self.api.control("fault", verbs="PATCH", kind="pods", action="status",
                         code=409, skip=1, every=2, count=2)
        self.pod()
        codes = [self.api.patch("pods", "ns", "a", {
            "metadata": {"labels": {"n": str(i)}}}).code for i in range(8)]
        self.assertEqual(codes, [200, 200, 409, 200, 409, 200, 200, 200])
        self.api.control("fault", verbs="GET", action="status", code=429,
                         retry_after_s=3)
        answer = self.api.request("GET", path_of("pods", "ns", "a"))
        self.assertEqual(answer.headers["Retry-After"], "3")

    def test_lost_answers(self):
        self.api.control("fault", verbs="POST", action="drop_before", count=1)
        with self.assertRaises((OSError, http.client.HTTPException)):
            self.pod()
        self.assertEqual(self.api.all("pods"), [])
        self.api.control("fault", verbs="POST", action="drop_after", count=1)
        with self.assertRaises((OSError, http.client.HTTPException)):
            self.pod()
        self.assertEqual(len(self.api.all("pods")), 1)

    def test_drip(self):
        self.api.control("fault", action="drip", verbs="GET", bytes=7, ms=1)
        self.pod()
        self.assertEqual(self.api.get("pods", "ns", "a")["kind"], "Pod")

    def test_cut_and_stalled_watches(self):
        version = self.pod()["metadata"]["resourceVersion"]
        cut = self.api.watch("pods", resourceVersion=version)
        self.addCleanup(cut.close)
        stalled = self.api.watch("services", resourceVersion=version)
        self.addCleanup(stalled.close)
        self.assertEqual(self.api.control("watches", kind="pods", act="cut"),
                         1)
        self.assertTrue(cut.ended.wait(PATIENCE))
        self.api.control("watches", kind="services", act="stall")
        self.api.create("services", "ns", "s")
        self.assertEqual(stalled.events, [])
        self.assertFalse(stalled.ended.is_set())

    def test_down_and_up(self):
        self.pod()
        self.api.control("down")
        with self.assertRaises(ConnectionRefusedError):
            self.api.request("GET", "/healthz")
        self.api.control("up")
        self.assertEqual(self.api.get("pods", "ns", "a")["kind"], "Pod")

    def test_the_log(self):
        self.pod()
        self.api.patch("pods", "ns", "a", {"metadata": {"labels": {"a": "b"}}})
        log = self.api.control("requests")
        self.assertEqual([(entry["verb"], entry["name"], entry["code"])
                          for entry in log],
                         [("POST", "", 201), ("PATCH", "a", 200)])
        self.assertEqual(log[1]["body"], {"metadata": {"labels": {"a": "b"}}})
        history = self.api.control("history")
        self.assertEqual([event["type"] for event in history],
                         ["ADDED", "MODIFIED"])


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main()
