"""What claims bring: with real sandboxes, and a search for its secrets.

Run by ctest: binding_test.py WARMPOOLD GENERATED_DIR DEPLOY_DIR WARMPOOLCTL
[unittest arguments]. Needs a host that lets it make sandboxes; exits with 77
elsewhere.
"""

import gzip
import io
import json
import os
import re
import signal
import subprocess
import sys
import tarfile
import tempfile
import unittest

import grpc

from daemon_test import (MANIFEST, PATIENCE, POOL, Daemon, alive, eventually,
                         end_all, host_can, pb)

CTL = os.path.abspath(sys.argv[4])
BOUND = "/opt/warmpool/bound"
SECRET = "wp-secret-" + os.urandom(8).hex()


def env(**values):
    return [pb.EnvVar(name=n, value=v) for n, v in values.items()]


def a_file(path, content=b"", mode=0):
    return pb.File(path=path, content=content, mode=mode)


def plain_manifest(directory):
    """The template says that it cannot be bound."""
    path = os.path.join(directory, "plain.yaml")
    with open(MANIFEST, encoding="utf-8") as source:
        text = source.read()
    with open(path, "w", encoding="utf-8") as target:
        target.write(text.replace(
            "  name: quickstart\nspec:\n  podTemplate:",
            "  name: quickstart\n  annotations:\n"
            "    template.warmpool.io/binding: none\nspec:\n  podTemplate:", 1))
    return path


def own_namespace(pid):
    """Is it a process of the machine, not of a sandbox?"""
    return os.readlink(f"/proc/{pid}/ns/pid") == os.readlink(
        "/proc/self/ns/pid")


def read(path):
    with open(path, "rb") as handle:
        return handle.read()


class Binding(unittest.TestCase):
    store = "--lease-store=sqlite"

    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="wp-bind-")
        self.daemons = []
        self.addCleanup(self.clean)

    def clean(self):
        end_all(self, self.daemons, self.dir)

    def start(self, *flags, **more):
        daemon = Daemon(self.store, *flags, directory=self.dir, **more)
        self.daemons.append(daemon)
        return daemon

    def claim(self, daemon, claim_id, wait_ms=60000, **binding):
        return daemon.rpc(
            "Allocator/Claim",
            pb.ClaimRequest(pool=POOL, claim_id=claim_id, wait_ms=wait_ms,
                            binding=pb.Binding(**binding)),
            pb.ClaimResponse)

    def refused(self, code, *arguments, **more):
        with self.assertRaises(grpc.RpcError) as caught:
            self.claim(*arguments, **more)
        self.assertEqual(caught.exception.code(), code,
                         caught.exception.details())
        return caught.exception.details()

    def sh(self, daemon, lease, script):
        status, body = daemon.get(
            f"/sandboxes/{lease.sandbox}/execute", "POST",
            json.dumps({"command": "sh -c " + "'" + script + "'"}),
            {"Content-Type": "application/json"})
        self.assertEqual(status, 200, body)
        answer = json.loads(body)
        self.assertEqual(answer["exit_code"], 0, answer)
        return answer["stdout"]

    def test_all_of_it(self):
        daemon = self.start().wait_full(3)
        answer = self.claim(
            daemon, "c1", env=env(A="1", LONG="x" * 60000, LINES="a\nb"),
            secrets=[pb.Secret(name="tls.key", value=b"\0\xff"),
                     pb.Secret(name="TOKEN", value=b"t0k", in_env=True)],
            files=[a_file("in.txt", b"in"), a_file("bin/run", b"#!", 0o755),
                   a_file("big", os.urandom(900000))],
            working_dir="wd", command=["sh", "-c", 'echo "$A" > started'])
        lease = answer.lease
        self.assertEqual(lease.served, pb.SERVED_WARM)
        self.assertEqual(
            (list(answer.bound.env), list(answer.bound.secrets),
             list(answer.bound.files), answer.bound.working_dir,
             answer.bound.started),
            (["A", "LONG", "LINES"], ["tls.key", "TOKEN"],
             ["in.txt", "bin/run", "big"], "wd", True))
        self.assertEqual(self.sh(daemon, lease, "pwd"), "/workspace/wd\n")
        self.assertEqual(
            self.sh(daemon, lease, 'echo "$A $TOKEN ${#LONG}"; '
                    'echo "$LINES"'), "1 t0k 60000\na\nb\n")
        self.assertEqual(
            self.sh(daemon, lease, "cat ../in.txt; stat -c %a ../bin/run; "
                    "wc -c < ../big"), "in755\n900000\n")
        self.assertEqual(
            self.sh(daemon, lease, "cd $WARMPOOL_BOUND_DIR && pwd && "
                    "stat -c %a:%s secrets/*"),
            BOUND + "\n400:3\n400:2\n")
        eventually(lambda: self.sh(daemon, lease, "cat started || true") ==
                   "1\n", "the command's work")
        # Of the one that is idle nothing is known.
        other = daemon.claim("c2")
        self.assertEqual(self.sh(daemon, other, "ls -A /workspace " + BOUND +
                                 "; echo $A"), "/opt/warmpool/bound:\n\n"
                         "/workspace:\n\n")
        # The same again is the same; another is refused.
        again = self.claim(
            daemon, "c3", env=env(A="1"), files=[a_file("f", b"1")])
        repeat = self.claim(
            daemon, "c3", env=env(A="1"), files=[a_file("f", b"1")])
        self.assertTrue(repeat.replayed)
        self.assertEqual(repeat.lease.sandbox, again.lease.sandbox)
        self.assertEqual(list(repeat.bound.files), ["f"])
        self.refused(grpc.StatusCode.ALREADY_EXISTS, daemon, "c3",
                     env=env(A="2"), files=[a_file("f", b"1")])

    def test_what_triggers_it_is_told(self):
        """Each mark of a trigger is a variable of what runs in the sandbox."""
        daemon = self.start(f"--trigger-template=default/{POOL.name}")
        daemon.wait_full(3)
        for body, said in (
                ({"type": "cron", "skill": "rca:ci", "schedule": "0 2 * * *"},
                 "TRIGGER_SCHEDULE=0 2 * * *\nTRIGGER_SKILL=rca:ci\n"
                 "TRIGGER_TYPE=cron\n"),
                ({"type": "webhook", "event": "push", "repo": "org/name",
                  "pr_number": 7},
                 "TRIGGER_BRANCH=main\nTRIGGER_EVENT=push\nTRIGGER_PR=7\n"
                 "TRIGGER_REPO=org/name\nTRIGGER_TYPE=webhook\n")):
            status, answer = daemon.get("/api/v1/sandbox/trigger", "POST",
                                        json.dumps(body))
            self.assertEqual(status, 200, answer)
            claim = daemon.rpc(
                "Allocator/GetClaim",
                pb.GetClaimRequest(
                    claim_id=json.loads(answer)["sandbox_claim"]),
                pb.ClaimInfo)
            self.assertEqual(
                self.sh(daemon, claim, "env | grep ^TRIGGER_ | sort"), said)

    def archive(self, entries, form=tarfile.PAX_FORMAT):
        """Of (name, content or None, more); as another program makes it."""
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w", format=form) as tar:
            for name, content, more in entries:
                info = tarfile.TarInfo(name)
                info.size = len(content or b"")
                for key, value in more.items():
                    setattr(info, key, value)
                tar.addfile(info, io.BytesIO(content or b""))
        return out.getvalue()

    def test_archives(self):
        daemon = self.start().wait_full(3)
        long = "/".join(["a-rather-long-name-of-a-folder"] * 6) + "/end"
        entries = [("./", None, {"type": tarfile.DIRTYPE}),
                   ("./run", b"#!/bin/sh\necho ran\n", {"mode": 0o755}),
                   ("d", None, {"type": tarfile.DIRTYPE}),
                   ("d/\u00e4", b"x" * 1000, {}), (long, b"deep", {})]
        for form in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
            answer = self.claim(
                daemon, f"c{form}", files=[a_file("first")],
                archives=[pb.Archive(content=self.archive(entries, form)),
                          pb.Archive(directory="in/here", content=self.archive(
                              [("f", b"f", {"mode": 0o600})]))])
            self.assertEqual(list(answer.bound.files),
                             ["first", "run", "d/\u00e4", long, "in/here/f"])
            self.assertEqual(
                self.sh(daemon, answer.lease,
                        f"./run; cat d/* | wc -c; cat {long}; stat -c %a in/here/f"),
                "ran\n1000\ndeep600\n")
            daemon.release(answer.lease)
        # The machine's own tar makes one, and warmpoolctl brings it.
        source = os.path.join(self.dir, "source")
        os.makedirs(os.path.join(source, "sub"))
        for name in ("one", "sub/two"):
            with open(os.path.join(source, name), "w",
                      encoding="ascii") as handle:
                handle.write(name)
        path = os.path.join(self.dir, "it.tar")
        subprocess.run(["tar", "-C", source, "-cf", path, "."], check=True)
        done = subprocess.run(
            [CTL, "--address=unix:" + daemon.grpc_path, "claim", "quickstart",
             "--id=ctl", "--wait=1m", f"--archive={path}:lib"],
            env=dict(os.environ, XDG_STATE_HOME=self.dir), check=False,
            capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("2 files", done.stdout)

    def test_bad_archives(self):
        daemon = self.start().wait_full(3)

        def refused(*entries, directory=""):
            return self.refused(
                grpc.StatusCode.INVALID_ARGUMENT, daemon, "bad",
                archives=[pb.Archive(directory=directory,
                                     content=self.archive(entries))])

        ok = ("ok", b"1", {})
        for name in ("../up", "/etc/x", "a/../b", "a//b"):
            self.assertIn("a path below the workspace",
                          refused(ok, (name, b"1", {})))
        for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE,
                     tarfile.BLKTYPE, tarfile.FIFOTYPE):
            self.assertIn("without links and devices, expected, at 'it'",
                          refused(ok, ("it", None, {"type": kind,
                                                    "linkname": "/etc"})))
        self.assertIn("another one has that path", refused(ok, ok))
        self.assertIn("binding.archives[0].directory", refused(
            ok, directory="../x"))
        self.assertIn("at most 256 files", refused(
            *((f"f{i}", b"", {}) for i in range(257))))
        packed = gzip.compress(self.archive([ok]))
        self.assertIn("not compressed", self.refused(
            grpc.StatusCode.INVALID_ARGUMENT, daemon, "bad",
            archives=[pb.Archive(content=packed)]))
        self.assertEqual(daemon.pool().leased, 0)
        self.assertEqual(daemon.pool().ready, 3)

    def test_not_all_of_it(self):
        daemon = self.start().wait_full(3)
        before = daemon.pool().destroyed_total
        said = self.refused(grpc.StatusCode.FAILED_PRECONDITION, daemon, "c1",
                            files=[a_file("a", b"x"), a_file("a/b", b"y")])
        self.assertEqual(said, "binding: file 'a/b': Not a directory")
        said = self.refused(grpc.StatusCode.FAILED_PRECONDITION, daemon, "c2",
                            command=["/no/such/program"])
        self.assertEqual(said, "binding: command '/no/such/program': "
                         "No such file or directory")
        said = self.refused(grpc.StatusCode.FAILED_PRECONDITION, daemon, "c3",
                            working_dir="/no/such/folder")
        self.assertIn("working_dir '/no/such/folder'", said)
        eventually(lambda: daemon.pool().destroyed_total == before + 3,
                   "their sandboxes gone")
        self.assertEqual(daemon.pool().leased, 0)
        # The id is free, and what it gets is whole.
        self.assertEqual(self.sh(daemon, self.claim(
            daemon, "c1", env=env(A="1")).lease, "ls; echo $A"), "1\n")

    def test_an_init_that_stands_still(self):
        daemon = self.start("--sandbox-probe-interval=60s",
                            replicas=1).wait_full(1)
        sandbox = daemon.sandboxes()[0]
        inner = int(daemon.pids(sandbox)["inner"])
        os.kill(inner, signal.SIGSTOP)
        said = self.refused(grpc.StatusCode.DEADLINE_EXCEEDED, daemon, "c1",
                            env=env(A="1"))
        self.assertIn("no answer in time", said)
        eventually(lambda: not alive(inner), "its end")
        eventually(lambda: daemon.pool().leased == 0, "the lease's end")

    def half_bound(self, **binding):
        """A sandbox that has yet to take that, and whose daemon was killed;
        sooner than it gave the sandbox up, which a busy machine may not be."""
        for _ in range(5):
            sandbox, inner = self.try_half_bound(**binding)
            if alive(inner):
                return sandbox, inner
            self.clean()
            self.dir = tempfile.mkdtemp(prefix="wp-bind-")
            self.daemons = []
        raise AssertionError("always given up before the daemon was killed")

    def try_half_bound(self, **binding):
        daemon = self.start("--sandbox-probe-interval=60s",
                            replicas=1).wait_full(1)
        # Only what is recorded is granted, and outlives it.
        lease = daemon.claim("first", wait_ms=60000)
        daemon.wait_full(1)
        daemon.release(lease)
        sandbox, = [s for s in daemon.sandboxes() if s != lease.sandbox]
        inner = int(daemon.pids(sandbox)["inner"])
        os.kill(inner, signal.SIGSTOP)
        call = daemon.channel.unary_unary(
            "/warmpool.v1.Allocator/Claim",
            request_serializer=lambda m: m.SerializeToString(),
            response_deserializer=pb.ClaimResponse.FromString)
        future = call.future(
            pb.ClaimRequest(pool=POOL, claim_id="c", wait_ms=60000,
                            binding=pb.Binding(**binding)), timeout=PATIENCE)
        eventually(lambda: daemon.pool().leased == 1, "the grant")
        self.assertFalse(future.done())
        # Bindings are handed over in turn: once this one is there, so is that.
        self.claim(daemon, "later", env=env(B="1"))
        daemon.stop(signal.SIGKILL)
        return sandbox, inner

    def test_killed_while_it_binds(self):
        sandbox, inner = self.half_bound(env=env(A="1"))
        os.kill(inner, signal.SIGCONT)
        again = self.start(replicas=1)
        eventually(again.listening, "listening")
        # Whoever repeats the claim has the sandbox, and all of what it brings,
        # once the daemon has taken up its sandboxes.
        eventually(again.ready, "the sandboxes taken up")
        answer = self.claim(again, "c", env=env(A="1"))
        self.assertTrue(answer.replayed)
        self.assertEqual(answer.lease.sandbox, sandbox)
        self.assertEqual(self.sh(again, answer.lease, "echo $A"), "1\n")

    def test_killed_and_half_bound(self):
        sandbox, inner = self.half_bound(
            files=[a_file("a", b"x"), a_file("a/b", b"y")])
        os.kill(inner, signal.SIGCONT)
        eventually(lambda: not alive(inner), "the end of what is half bound")
        again = self.start(replicas=1).wait_full(1)
        info = again.rpc("Allocator/GetClaim", pb.GetClaimRequest(
            claim_id="c"), pb.ClaimInfo)
        self.assertEqual(info.state, pb.CLAIM_STATE_LOST)
        self.assertNotEqual(again.get(f"/sandboxes/{sandbox}/")[0], 200)

    def test_refusals(self):
        plain = self.start(
            manifest=plain_manifest(self.dir)).wait_full(3)
        said = self.refused(grpc.StatusCode.FAILED_PRECONDITION, plain, "c1",
                            env=env(A="1"))
        self.assertEqual(
            said, "binding: sandboxes of template 'quickstart' cannot be "
            "bound: the template says so (template.warmpool.io/binding)")
        self.assertEqual(plain.pool().leased, 0)
        said = self.refused(grpc.StatusCode.INVALID_ARGUMENT, plain, "c1",
                            files=[a_file("../x")])
        self.assertIn("binding.files[0].path: ", said)
        said = self.refused(grpc.StatusCode.INVALID_ARGUMENT, plain, "c1")
        self.assertEqual(said, "binding: something expected in it, or no "
                         "binding")
        plain.claim("c1")

    def test_secrets_over_plain_tcp(self):
        daemon = self.start("--listen=127.0.0.1:0",
                            f"--listen=unix:{self.dir}/r/warmpoold.sock")
        daemon.wait_full(3)
        port = re.search(r"protocol=grpc address=127.0.0.1:(\d+)",
                         daemon.messages())[1]
        token = read(os.path.join(self.dir, "r", "access.token")
                     ).decode().strip()
        with grpc.insecure_channel("127.0.0.1:" + port) as channel:
            call = channel.unary_unary(
                "/warmpool.v1.Allocator/Claim",
                request_serializer=lambda m: m.SerializeToString(),
                response_deserializer=pb.ClaimResponse.FromString)
            request = pb.ClaimRequest(
                pool=POOL, claim_id="c1", binding=pb.Binding(
                    secrets=[pb.Secret(name="T", value=b"x")]))
            meta = [("authorization", "Bearer " + token)]
            with self.assertRaises(grpc.RpcError) as caught:
                call(request, metadata=meta, timeout=PATIENCE)
            self.assertEqual(caught.exception.code(),
                             grpc.StatusCode.FAILED_PRECONDITION)
            self.assertIn("binding.secrets: ", caught.exception.details())
            request.binding.CopyFrom(pb.Binding(env=env(A="1")))
            self.assertEqual(list(call(request, metadata=meta,
                                       timeout=PATIENCE).bound.env), ["A"])

    def search(self, daemon, claim_ids):
        """Where the secret is that must not be there."""
        needle = SECRET.encode()
        found = [path for base, _, names in os.walk(self.dir)
                 for path in (os.path.join(base, n) for n in names)
                 if os.path.isfile(path) and needle in read(path)]
        for pid in filter(str.isdigit, os.listdir("/proc")):
            for name in ("cmdline", "environ"):
                try:
                    if needle in read(f"/proc/{pid}/{name}") and \
                            (name == "cmdline" or own_namespace(pid)):
                        found.append(f"/proc/{pid}/{name}")
                except OSError:
                    continue  # It has ended.
        for path in ("/metrics", "/readyz"):
            if SECRET in daemon.get(path)[1]:
                found.append(path)
        for claim_id in claim_ids:
            if needle in daemon.rpc(
                    "Allocator/GetClaim", pb.GetClaimRequest(
                        claim_id=claim_id), pb.ClaimInfo).SerializeToString():
                found.append("GetClaim " + claim_id)
        return found

    def test_a_search_for_the_secrets(self):
        daemon = self.start("--log-level=debug").wait_full(3)
        value = SECRET.encode()
        with self.assertRaises(grpc.RpcError) as caught:
            self.claim(daemon, "bad", secrets=[
                pb.Secret(name="T", value=value, in_env=True),
                pb.Secret(name="T", value=value, in_env=True)])
        self.assertNotIn(SECRET, caught.exception.details())
        with self.assertRaises(grpc.RpcError) as caught:
            self.claim(daemon, "half", secrets=[
                pb.Secret(name="T", value=value, in_env=True)],
                files=[a_file("a", value), a_file("a/b")])
        self.assertNotIn(SECRET, caught.exception.details())
        answer = self.claim(
            daemon, "c1", env=env(E=SECRET),
            secrets=[pb.Secret(name="T", value=value, in_env=True),
                     pb.Secret(name="F", value=value)],
            files=[a_file("f", value)], command=["sleep", "600"])
        self.assertNotIn(value, answer.SerializeToString())
        self.assertEqual(self.sh(daemon, answer.lease,
                                 "echo $T; cat $WARMPOOL_BOUND_DIR/secrets/F"),
                         SECRET + "\n" + SECRET)
        self.assertEqual(self.search(daemon, ["c1"]), [])
        inner = int(daemon.pids(answer.lease.sandbox)["inner"])
        daemon.release(answer.lease)
        eventually(lambda: not alive(inner), "the sandbox gone")
        eventually(lambda: answer.lease.sandbox not in daemon.sandboxes(),
                   "its directory gone")
        self.assertEqual(self.search(daemon, []), [])

    def ctl(self, *words, data=b""):
        return subprocess.run(
            [CTL, *words], input=data, capture_output=True, check=False,
            timeout=PATIENCE, env=dict(
                os.environ, RUNTIME_DIRECTORY=os.path.join(self.dir, "r"),
                XDG_STATE_HOME=os.path.join(self.dir, "home")))

    def test_warmpoolctl(self):
        daemon = self.start().wait_full(3)
        local = os.path.join(self.dir, "local.txt")
        with open(local, "wb") as handle:
            handle.write(SECRET.encode())
        done = self.ctl(
            "claim", "quickstart", "--id", "c1", "--env", "A=1=2", "-e", "B=",
            "--secret-env", "TOKEN=@" + local, "--secret", "raw=-", "--copy",
            local + ":in/f.txt", "--workdir", "in", "-o", "json", "--run",
            "--", "sh", "-c", "echo $A > ../started", data=b"by stdin")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn(SECRET.encode(), done.stdout)
        bound = json.loads(done.stdout)["bound"]
        self.assertEqual(bound, {
            "env": ["A", "B"], "secrets": ["raw", "TOKEN"],
            "files": ["in/f.txt"], "repositories": [], "volumes": [],
            "working_dir": "in",
            "started": True, "egress": "", "identity": ""})
        done = self.ctl("exec", "c1", "--", "sh", "-c",
                        "pwd; echo $A $TOKEN; cat f.txt; "
                        "cat $WARMPOOL_BOUND_DIR/secrets/raw")
        self.assertEqual(done.stdout.decode(),
                         f"/workspace/in\n1=2 {SECRET}\n{SECRET}by stdin",
                         done.stderr)
        eventually(lambda: self.ctl(
            "exec", "c1", "--", "cat", "../started").stdout == b"1=2\n",
            "the command's work")
        done = self.ctl("claim", "quickstart", "-e", "A=1")
        self.assertIn(b"bound     1 variable, 0 secrets, 0 files",
                      done.stdout)
        for words, says in (
                (["--secret", "T=" + SECRET],
                 b"--secret: expected NAME=@FILE"),
                (["--secret", "T=@/no/such"], b"--secret: /no/such: no such"),
                (["--copy", "x"], b"--copy 'x': expected LOCAL:PATH"),
                (["--copy", local + ":../x"], b"'../x': expected a path below"),
                (["--run"], b"--run: expected -- and a command"),
                (["-n", "2", "-e", "A=1"], b"--count: claims that bring")):
            done = self.ctl("claim", "quickstart", *words)
            self.assertEqual(done.returncode, 2, done)
            self.assertIn(says, done.stderr)
            self.assertNotIn(SECRET.encode(), done.stderr)
        self.assertEqual(daemon.pool().leased, 2)


if __name__ == "__main__":
    reason = host_can()
    if reason:
        print("SKIP:", reason)
        sys.exit(77)
    unittest.main(argv=[sys.argv[0]] + sys.argv[5:], verbosity=2)
