"""Repositories that claims bring in a cluster: fetched by a warmpool-fetch that
serves, from Git servers on loopback, into real servers at the addresses of Pods
of a fake API server.

Run by ctest: k8s_repositories_test.py WARMPOOLD FAKE_API GENERATED_DIR [unittest
arguments]. Needs git and a kernel with Landlock; exits with 77 elsewhere.
"""

import array
import concurrent.futures
import contextlib
import ctypes
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import unittest

import grpc

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                "../../support/git"))

import k8s_rig
from fake_api_rig import PATIENCE, eventually
from git_rig import BACKEND, Repository, Server, git, hang
import k8s_bind_test
from k8s_bind_test import SECRET, World
from k8s_judge import assigned
from k8s_rig import NS
from warmpool.v1 import allocator_pb2 as pb

FETCH = os.path.abspath(os.environ.get("WP_FETCH_BINARY", "missing"))
LANDLOCK_CREATE_RULESET = 444


def host_can():
    libc = ctypes.CDLL(None, use_errno=True)
    return os.path.exists(BACKEND) and \
        libc.syscall(LANDLOCK_CREATE_RULESET, None, 0, 1) > 0


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as handle:
        return [int(one) for one in handle.read().split()]


class Fetching(World):
    bring = k8s_bind_test.Annotations.bring
    secret = k8s_bind_test.Annotations.secret
    nobody_tells = k8s_bind_test.Annotations.nobody_tells

    def setUp(self):
        super().setUp()
        self.git = Server(self.dir)
        self.addCleanup(self.git.end)
        self.repository = Repository(self.dir, "app")
        self.first = self.commit(**{"README": b"first\n"})
        self.head = self.commit(**{"README": b"hello\n", "run.sh": b"#!/bin/sh\n"})
        self.socket = os.path.join(self.dir, "fetch.sock")
        self.cache = os.path.join(self.dir, "cache")
        self.fetch = None
        self.serve_fetches()

    def commit(self, **files):
        it = self.repository
        return it.commit(it.tree(*(
            ("100755" if name.endswith(".sh") else "100644", "blob",
             it.blob(content), name) for name, content in files.items())))

    def serve_fetches(self):
        log = open(os.path.join(self.dir, "fetch.log"), "ab")
        with log:
            self.fetch = subprocess.Popen(
                [FETCH, "serve", self.socket, self.cache], stdout=log,
                stderr=log, env={})
        self.addCleanup(self.end_fetches, self.fetch)
        eventually(self.listens, "the socket")

    def listens(self):
        """It is there a moment before anybody listens."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as sock:
            return sock.connect_ex(self.socket) == 0

    @staticmethod
    def end_fetches(process):
        process.send_signal(signal.SIGTERM)
        process.wait(10)

    def begin(self, *flags, **more):
        return super().begin(f"--git-remotes={self.git.base}",
                             f"--fetch-socket={self.socket}", *flags, **more)

    def url(self, name="app"):
        return f"{self.git.base}/{name}"

    def app(self, ref="", directory="", name="app", **more):
        return pb.Repository(url=self.url(name), ref=ref, directory=directory,
                             **more)


class Peers(Fetching):
    """Of the process that fetches."""

    def peer(self):
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.addCleanup(sock.close)
        sock.connect(self.socket)
        sock.settimeout(PATIENCE)
        return sock

    def test_who_asks_nothing(self):
        """Keeps its place for some seconds only. Of these there are 32; who
        comes when all are taken waits, and is heard then."""
        peers = [self.peer() for _ in range(33)]
        last = peers.pop()
        last.sendall(b"nothing that it knows")
        for peer in peers:
            self.assertEqual(peer.recv(1), b"")
        self.assertIn(b"what was asked is not understood", last.recv(1000))
        self.assertEqual(last.recv(1), b"")


class Calls(Fetching):
    """Over gRPC."""

    def test_it_is_there(self):
        daemon = self.begin()
        self.serve_all()
        answer = self.claim(daemon, "g", **self.brings(
            repositories=[self.app(directory="src"),
                          self.app(self.first, "old/one")],
            files=[pb.File(path="src/README", content=b"mine\n")],
            working_dir="src"))
        self.assertEqual(answer.lease.served, pb.SERVED_WARM)
        self.assertEqual(list(answer.bound.repositories),
                         [self.url(), self.url()])
        name = answer.lease.sandbox
        # Files come after them.
        self.assertEqual(
            self.sh(name, "cat README ../old/one/README; test -x run.sh; "
                          f"git -C ../old/one rev-parse HEAD; echo $TOKEN"),
            f"mine\nfirst\n{self.first}\n{SECRET}\n")
        # From the cache, the next time.
        fetches = self.git.fetches()
        again = self.claim(daemon, "h", repositories=[self.app()])
        self.assertEqual(self.sh(again.lease.sandbox, "cat README"), "hello\n")
        self.assertEqual(self.git.fetches(), fetches)
        self.assertNotIn(SECRET, daemon.messages())
        # Asked again, it is the same sandbox.
        self.assertEqual(
            self.claim(daemon, "h", repositories=[self.app()]).lease.sandbox,
            again.lease.sandbox)
        self.judge(leases=2)

    def test_a_password(self):
        """Sent to its remote only, and seen nowhere."""
        self.git.passwords["/app"] = ("me", SECRET)
        daemon = self.begin()
        self.serve_all()
        code, words = self.refused(daemon, "g", repositories=[self.app()])
        self.assertEqual(code, grpc.StatusCode.FAILED_PRECONDITION)
        self.assertIn(f"repository '{self.url()[:60]}", words)
        self.wait_filled(replicas=2)
        self.serve_missing()
        lease = self.claim(daemon, "h", repositories=[
            self.app(user="me", password=SECRET.encode())]).lease
        self.assertEqual(self.sh(lease.sandbox, "cat README"), "hello\n")
        self.assertEqual(self.git.astray, 0)
        self.assertEqual(subprocess.run(
            ["grep", "-r", SECRET, self.dir, "--include=*.log", "--exclude-dir=app",
             "-l"], capture_output=True, check=False).stdout, b"")
        self.assertEqual(subprocess.run(
            ["grep", "-r", SECRET, self.cache, "-l"], capture_output=True,
            check=False).stdout, b"")
        self.nobody_tells(daemon)

    def serve_missing(self):
        for one in self.pool_sandboxes():
            name = one["metadata"]["name"]
            if not os.path.exists(os.path.join(self.dir, name)):
                self.serve(name)

    def test_what_is_refused(self):
        """Before a sandbox is taken."""
        daemon = self.begin()
        position = self.log_position()
        for it, code, words in (
                (pb.Repository(url="https://elsewhere.example/x"),
                 grpc.StatusCode.FAILED_PRECONDITION,
                 "is not allowed here (setting git_remotes"),
                (pb.Repository(url="file:///etc"),
                 grpc.StatusCode.INVALID_ARGUMENT, "repositories[0].url"),
                (self.app("a..b"), grpc.StatusCode.INVALID_ARGUMENT,
                 "repositories[0].ref")):
            self.assertEqual(self.refused(daemon, "g", repositories=[it])[0],
                             code)
            self.assertIn(words, self.refused(daemon, "g",
                                              repositories=[it])[1])
        self.assertEqual(self.writes(position), [])

    def test_larger_than_is_allowed_now(self):
        """It is in the cache, from before the setting was lowered."""
        self.commit(**{"large": os.urandom(300000)})
        daemon = self.begin(replicas=2)
        self.serve_all()
        self.claim(daemon, "g", repositories=[self.app()])
        daemon.kill()
        daemon.args.append("--git-repository-size=200000")
        daemon.start()
        eventually(lambda: self.leads(daemon), "the daemon to lead again")
        self.assertIn("larger than the setting git_repository_size says",
                      self.refused(daemon, "h", repositories=[self.app()])[1])

    def test_what_cannot_be_had(self):
        daemon = self.begin("--git-timeout=6s", replicas=1)
        name, = self.serve_all()
        self.git.tricks["/slow"] = hang
        for it, words in ((self.app("none"), "none"),
                          (self.app(name="missing"), "missing"),
                          (self.app(name="slow"), "it takes too long")):
            code, said = self.refused(daemon, "g", repositories=[it])
            self.assertEqual(code, grpc.StatusCode.FAILED_PRECONDITION)
            self.assertIn("binding: repository 'http://127.0.0.1", said)
            self.assertIn(words, said)
            eventually(lambda gone=name: not self.api.get(
                "sandboxes", NS, gone), "the sandbox to go")
            self.wait_filled(replicas=1)
            name, = self.serve_all()
        eventually(lambda: not children(self.fetch.pid), "no process left")
        self.git.over.set()
        # The id is free, and the sandbox that is there is good.
        self.assertEqual(self.claim(daemon, "g", repositories=[
            self.app()]).lease.sandbox, name)

    def test_nobody_serves_fetches(self):
        daemon = self.begin(replicas=1)
        self.serve_all()
        self.end_fetches(self.fetch)
        code, words = self.refused(daemon, "g", repositories=[self.app()])
        self.assertEqual(code, grpc.StatusCode.FAILED_PRECONDITION)
        self.assertIn(f"warmpool-fetch at {self.socket}", words)
        # Killed, it leaves its socket; the next one takes its place.
        self.serve_fetches()
        self.fetch.kill()
        self.fetch.wait()
        self.serve_fetches()
        self.wait_filled(replicas=1)
        self.serve_all()
        self.claim(daemon, "h", repositories=[self.app()])

    def test_killed_while_it_fetches(self):
        """Its claim fails; no process is left."""
        daemon = self.begin(replicas=1)
        self.serve_all()
        self.git.tricks["/slow"] = hang
        pool = concurrent.futures.ThreadPoolExecutor(1)
        self.addCleanup(pool.shutdown)
        asked = pool.submit(self.refused, daemon, "g",
                            repositories=[self.app(name="slow")])
        eventually(lambda: children(self.fetch.pid), "a fetch")
        running = children(self.fetch.pid)
        daemon.kill()
        eventually(lambda: not children(self.fetch.pid), "no process left")
        self.assertEqual([one for one in running
                          if os.path.exists(f"/proc/{one}")], [])
        self.git.over.set()
        self.assertEqual(asked.result()[0], grpc.StatusCode.UNAVAILABLE)

    def test_a_setting_lacks(self):
        done = subprocess.run(
            [k8s_rig.PROGRAMS["warmpoold"], "--backend=kubernetes",
             "--git-remotes=git.example.com", "--check-config"],
            capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("setting 'fetch_socket'", done.stderr)


class Objects(Fetching):
    """Of SandboxClaims."""

    def test_warm_all_the_same(self):
        self.git.passwords["/app"] = ("me", SECRET)
        daemon = self.begin()
        names = self.serve_all()
        self.secret(token=SECRET)
        position = self.log_position()
        self.bring(repositories=[
            {"url": self.url(), "ref": "main", "directory": "src",
             "user": "me", "password": {"name": "login", "key": "token"}}],
            working_dir="src")
        self.wait_ready("c")
        name = assigned(self.api.get("sandboxclaims", NS, "c"))
        self.assertIn(name, names)
        self.assertEqual(self.sh(name, "cat README; git rev-parse HEAD"),
                         f"hello\n{self.head}\n")
        self.check_writes(position, name)
        self.nobody_tells(daemon)
        self.judge()

    def test_what_cannot_be_had_yet(self):
        """It is tried again, and the claim says what lacks."""
        self.begin(replicas=1)
        name, = self.serve_all()
        self.bring(repositories=[{"url": self.url(), "ref": "later"}])
        self.becomes("BindingFailed", f"binding: repository '{self.url()}'")
        git(self.repository.path, "branch", "later", self.first)
        self.wait_ready("c")
        self.assertEqual(self.sh(name, "cat README"), "first\n")

    def test_what_is_refused(self):
        """Before a sandbox is taken; the message names the field."""
        self.begin()
        self.serve_all()
        good = self.url()
        for i, (value, words) in enumerate((
                ("{}", "expected a JSON array"),
                ([{"url": "https://elsewhere.example/x"}],
                 "is not allowed here (setting git_remotes"),
                ([{"url": "git@x:y"}], "repositories[0].url"),
                ([{"url": good, "ref": "a..b"}], "repositories[0].ref"),
                ([{"url": good}, {"url": good}],
                 "repositories[1].directory: another one"),
                ([{"url": good, "directory": "../x"}],
                 "repositories[0].directory"),
                ([{"url": good, "user": "me"}],
                 "repositories[0].password: it is missing"),
                ([{"url": good, "password": SECRET}],
                 "which names name and key of a Secret"),
                ([{"url": "http://git.example/x",
                   "password": {"name": "a", "key": "b"}}],
                 "it is not sent in clear"),
                ([{"url": good, "branch": "main"}], "perhaps ref, directory"),
                ([{"url": good, "ref": 7}], "perhaps ref, directory"),
                ([{}], "expected an object with url"),
                (["x"], "expected an object with url"),
                ([{"url": good, "directory": str(n)} for n in range(9)],
                 "expected at most 8, got 9"))):
            with self.subTest(words=words):
                self.bring(name=f"c{i}", repositories=value)
                self.becomes("BindingFailed", words, f"c{i}")
                self.assertNotIn(SECRET, self.condition(f"c{i}")["message"])
        self.assertEqual(len(self.pool_sandboxes()), 2)

    def change(self, **repository):
        self.api.patch("sandboxclaims", NS, "c", {"metadata": {"annotations": {
            "claim.warmpool.io/repositories": json.dumps([repository])}}})

    def test_what_is_changed_later(self):
        """It is judged as what was there before a sandbox was taken."""
        Repository(self.dir, "secret")
        daemon = self.begin(f"--git-remotes-denied={self.url('secret')}",
                            replicas=1)
        name, = self.serve_all()
        self.bring(repositories=[{"url": self.url(), "ref": "later"}])
        self.becomes("BindingFailed", "it has no branch or tag 'later'")
        self.change(url=self.url("secret"))
        self.becomes("BindingFailed", "is not allowed here")
        # In its one spelling it is longer than a URL may be.
        self.change(url="http://127.1/" + "a" * 227)
        self.becomes("BindingFailed", "a shorter one expected")
        self.change(url=self.url())
        self.wait_ready("c")
        self.assertEqual(self.sh(name, "cat README"), "hello\n")
        # Another Pod is no way around it.
        before = self.address(name)
        self.change(url=self.url("secret"))
        self.api.delete("pods", NS, name)
        eventually(lambda: (self.api.get("pods", NS, name) or {}).get(
            "status", {}).get("podIP", before) != before, "another Pod")
        shutil.rmtree(os.path.join(self.dir, name))
        self.serve(name)
        self.becomes("BindingFailed", "is not allowed here")
        self.assertFalse([path for _, path, _ in self.git.seen
                          if path.startswith("/secret")])
        self.nobody_tells(daemon)

    def test_the_next_leader_brings_them(self):
        daemon = self.begin(replicas=1)
        name, = self.serve_all()
        self.git.tricks["/app"] = hang
        self.bring(repositories=[{"url": self.url()}])
        eventually(lambda: children(self.fetch.pid), "a fetch")
        daemon.kill()
        self.git.tricks.clear()
        self.git.over.set()
        daemon.start()
        self.wait_ready("c")
        self.assertEqual(self.sh(name, "cat README"), "hello\n")
        self.judge()

    def test_a_password_that_is_none(self):
        self.begin(replicas=1)
        self.serve_all()
        self.secret(token="a\nb", none="")
        for name, key in (("c", "token"), ("d", "none"), ("e", "missing")):
            self.bring(name=name, repositories=[{
                "url": self.url(), "password": {"name": "login", "key": key}}])
        self.becomes("BindingFailed", "expected a password of 1 to 1024")
        self.api.delete("sandboxclaims", NS, "c")
        self.serve_late("d")
        self.becomes("BindingFailed", "expected a password of 1 to 1024", "d")
        self.api.delete("sandboxclaims", NS, "d")
        self.serve_late("e")
        self.becomes("BindingFailed", 'has no key "missing"', "e")

    def serve_late(self, claim):
        name = eventually(lambda: assigned(
            self.api.get("sandboxclaims", NS, claim)) or next(
                (one["metadata"]["name"] for one in self.api.all("sandboxes")
                 if not os.path.exists(os.path.join(
                     self.dir, one["metadata"]["name"]))), None), "a sandbox")
        if not os.path.exists(os.path.join(self.dir, name)):
            self.serve(name)


class Trust(Fetching):
    """On first use: what was first seen is in ConfigMaps of the daemon's own
    namespace."""
    CHANGED = "not as first trusted: CLAUDE.md CHANGED"

    def begin(self, mode, *flags, **more):
        self.commit(**{"CLAUDE.md": b"be good\n", "a": b"1"})
        return super().begin(f"--git-trust={mode}", *flags, **more)

    def change(self):
        self.commit(**{"CLAUDE.md": b"be evil\n", "a": b"2"})

    def records(self):
        return [one for one in self.api.all("configmaps")
                if one["metadata"].get("labels", {}).get("warmpool.dev/trust")]

    def forget(self):
        for one in self.records():
            self.api.delete("configmaps", one["metadata"]["namespace"],
                            one["metadata"]["name"])

    def serve_new(self):
        for one in self.pool_sandboxes():
            name = one["metadata"]["name"]
            if not os.path.exists(os.path.join(self.dir, name)):
                self.serve(name)

    def test_enforced(self):
        daemon = self.begin("enforce")
        self.serve_all()
        lease = self.claim(daemon, "first", repositories=[self.app()]).lease
        self.assertEqual(self.sh(lease.sandbox, "cat CLAUDE.md"), "be good\n")
        record, = self.records()
        self.assertEqual(record["metadata"]["namespace"], "default")
        self.assertIn(f"url {self.url()}\n", record["data"]["record"])
        self.assertIn("- .claude/settings.json\n", record["data"]["record"])
        # The same again writes nothing; what is not listed may change.
        self.commit(**{"CLAUDE.md": b"be good\n", "a": b"3"})
        self.wait_filled(replicas=2)
        self.serve_new()
        self.claim(daemon, "second", repositories=[self.app()])
        self.assertEqual(self.records(), [record])
        self.change()
        self.wait_filled(replicas=2)
        self.serve_new()
        code, words = self.refused(daemon, "third", repositories=[self.app()])
        self.assertEqual(code, grpc.StatusCode.FAILED_PRECONDITION)
        self.assertEqual(words, f"binding: repository '{self.url()}': "
                                + self.CHANGED)
        self.assertIn(record["metadata"]["name"], daemon.messages())
        # Another restart knows it; a commit that is as before is trusted.
        daemon.kill()
        daemon.start()
        eventually(lambda: self.leads(daemon), "the daemon to lead again")
        self.wait_filled(replicas=2)
        self.serve_new()
        self.assertIn("CHANGED", self.refused(
            daemon, "fourth", repositories=[self.app()])[1])
        self.forget()
        self.wait_filled(replicas=2)
        self.serve_new()
        lease = self.claim(daemon, "fifth", repositories=[self.app()]).lease
        self.assertEqual(self.sh(lease.sandbox, "cat CLAUDE.md"), "be evil\n")

    def test_enforced_for_objects(self):
        self.begin("enforce", replicas=3)
        self.serve_all()
        self.bring(repositories=[{"url": self.url()}])
        self.wait_ready("c")
        self.change()
        self.bring(name="d", repositories=[{"url": self.url()}])
        self.becomes("BindingFailed", self.CHANGED, "d")
        name = eventually(lambda: next(
            (one["metadata"]["name"] for one in self.api.all("sandboxes")
             if any(owner["name"] == "d" for owner in
                    one["metadata"].get("ownerReferences", []))), None), "its sandbox")
        self.assertNotIn("CLAUDE.md", os.listdir(os.path.join(
            self.dir, name, "ws")))
        self.forget()
        self.wait_ready("d")
        self.assertEqual(self.sh(name, "cat CLAUDE.md"), "be evil\n")

    def test_reported(self):
        daemon = self.begin("report", replicas=3)
        self.serve_all()
        self.claim(daemon, "first", repositories=[self.app()])
        self.bring(repositories=[{"url": self.url()}])
        self.wait_ready("c")
        self.assertEqual(len(self.records()), 2)  # One of each tenant.
        self.change()
        self.bring(name="d", repositories=[{"url": self.url()}])
        self.wait_ready("d")
        eventually(lambda: [one for one in self.api.all("events")
                            if one.get("reason") == "RepositoryNotTrusted"
                            and self.CHANGED in one["note"]], "the event")
        self.assertIn("gets it all the same", daemon.messages())

    def test_records_that_cannot_be_had(self):
        """They count as a difference."""
        daemon = self.begin("enforce", replicas=1)
        for rule, words in (
                ({"verbs": "GET", "code": 403}, "its record cannot be read"),
                ({"verbs": "POST", "code": 403}, "its record cannot be written")):
            self.wait_filled(replicas=1)
            self.serve_new()
            self.fault(kind="configmaps", action="status", **rule)
            self.assertIn(words, self.refused(
                daemon, "g", repositories=[self.app()])[1])
            self.api.control("clear")
        self.wait_filled(replicas=1)
        self.serve_new()
        self.claim(daemon, "h", repositories=[self.app()])
        record, = self.records()
        self.api.patch("configmaps", "default", record["metadata"]["name"],
                       {"data": {"record": "warmpool-trust 1\nnonsense"}})
        self.wait_filled(replicas=1)
        self.serve_new()
        self.assertIn("its record is damaged", self.refused(
            daemon, "i", repositories=[self.app()])[1])

    def test_a_tenant_has_no_end_of_records(self):
        daemon = self.begin("enforce", replicas=3)
        self.serve_all()
        self.claim(daemon, "a", repositories=[self.app()])
        record, = self.records()
        meta = record["metadata"]
        self.repository = Repository(self.dir, "other")
        self.commit(**{"CLAUDE.md": b"other\n"})
        for i in range(1023):
            self.api.create("configmaps", meta["namespace"], f"more-{i}",
                            metadata={"labels": meta["labels"]})
        self.assertIn("its tenant has as many records as there may be",
                      self.refused(daemon, "b", repositories=[
                          self.app(name="other")])[1])
        # What is recorded is known all the same, and another tenant has room.
        self.claim(daemon, "c", repositories=[self.app()])
        self.wait_filled(replicas=3)
        self.serve_new()
        self.bring(repositories=[{"url": self.url("other")}])
        self.wait_ready("c")

    def test_several_at_once(self):
        """One record, which all of them are told of."""
        daemon = self.begin("enforce", replicas=8)
        self.serve_all()
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda i: self.claim(
                daemon, f"g{i}", repositories=[self.app(directory=f"d{i % 2}")]),
                range(8)))
        record, = self.records()
        self.assertEqual(record["data"]["record"].count("CLAUDE.md"), 1)


class Socket(Fetching):
    """What the socket is asked by others."""

    def ask(self, message, credential=b"", descriptors=1):
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.addCleanup(sock.close)
        sock.connect(self.socket)
        sock.settimeout(PATIENCE)
        ends = []
        for _ in range(descriptors):
            out, back = os.pipe()
            os.write(back, credential)
            os.close(back)
            ends.append(out)
        sock.sendmsg([message], [(socket.SOL_SOCKET, socket.SCM_RIGHTS,
                                  array.array("i", ends))] if ends else [])
        for one in ends:
            os.close(one)
        return sock

    def hear(self, sock):
        text, fds, _, _ = socket.recv_fds(sock, 4096, 4)
        for one in fds:
            os.close(one)
        return text, len(fds)

    def open_at_rest(self):
        """How many descriptors it has once its one socket is the one it
        listens at: who looked whether it does was a connection, too."""
        folder = f"/proc/{self.fetch.pid}/fd"
        found = []

        def rests():
            found.clear()
            for name in os.listdir(folder):
                with contextlib.suppress(FileNotFoundError):  # Closed now.
                    found.append(os.readlink(os.path.join(folder, name)))
            return sum(to.startswith("socket:") for to in found) == 1
        eventually(rests, "no connections")
        return len(found)

    def order(self, part="x", url=None, ref=b"", size=b"1000000"):
        return b"\0".join([b"checkout", part if isinstance(part, bytes)
                           else part.encode(), (url or self.url()).encode(),
                           ref, size, b""])

    def test_asked_rightly(self):
        text, fds = self.hear(self.ask(self.order()))
        self.assertEqual((text[:1], fds), (b"M", 1))
        text, fds = self.hear(self.ask(self.order()))
        self.assertEqual((text[:1], fds), (b"K", 1))
        self.assertEqual(self.hear(self.ask(b"sweep\x001000000\x003600\0")),
                         (b"S", 0))
        self.assertEqual(os.listdir(self.cache), ["x"])

    def test_a_part_is_a_file_of_the_cache(self):
        outside = os.path.join(self.dir, "outside")
        os.mkdir(outside)
        for part in ("", ".", "..", "../outside", "a/b", "/etc", "a" * 256):
            text, _ = self.hear(self.ask(self.order(part)))
            self.assertEqual(text[:1], b"F", part)
            self.assertIn(b"not understood", text)
        # A link leads out of the cache, where Landlock lets nothing be written.
        self.assertEqual(os.listdir(outside), [])

    def test_nonsense(self):
        before = self.open_at_rest()
        for message in (b"x", b"\0", b"checkout\0", b"sweep\0a\x001\0",
                        self.order(size=b"many"), self.order()[:-1],
                        self.order() + b"more\0", os.urandom(2000),
                        b"\0" * 2000):
            sock = self.ask(message)
            text, _ = self.hear(sock)
            self.assertTrue(text == b"" or text.startswith(b"F"), text)
        # Without a descriptor, and with several: one is taken, none stay open.
        self.assertNotEqual(self.hear(self.ask(self.order(),
                                               descriptors=0))[0][:1], b"M")
        self.hear(self.ask(self.order(), descriptors=3))
        self.assertEqual(self.open_at_rest(), before)

    def test_who_says_nothing_makes_room(self):
        """They stay connected, and would be waited for without end."""
        silent = []
        for _ in range(40):
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            self.addCleanup(sock.close)
            sock.connect(self.socket)
            silent.append(sock)
        text, _ = self.hear(self.ask(self.order()))
        self.assertEqual(text[:1], b"M")

    def test_who_leaves_ends_it(self):
        self.git.tricks["/slow"] = hang
        sock = self.ask(self.order(url=self.url("slow")))
        eventually(lambda: children(self.fetch.pid), "a fetch")
        sock.close()
        eventually(lambda: not children(self.fetch.pid), "its end")
        self.git.over.set()
        eventually(lambda: os.listdir(self.cache) == [], "nothing of it left")

    def test_starting_it(self):
        for args, words in ((["serve"], "Usage"),
                            (["serve", "/nonexistent/s", self.cache],
                             "/nonexistent/s"),
                            (["serve", self.socket + "x", "/dev/null"],
                             "/dev/null"),
                            (["serve", "/" + "x" * 200, self.cache], "socket")):
            done = subprocess.run([FETCH, *args], capture_output=True,
                                  text=True, check=False)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(words, done.stderr)


if __name__ == "__main__":
    if not host_can():
        print("SKIP: needs git and Landlock")
        sys.exit(77)
    k8s_rig.PROGRAMS["warmpoold"] = os.path.abspath(sys.argv.pop(1))
    k8s_rig.PROGRAMS["fake_api"] = os.path.abspath(sys.argv.pop(1))
    sys.argv.pop(1)
    unittest.main()
