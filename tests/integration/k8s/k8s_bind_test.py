"""What claims by gRPC bring, in a cluster: against a fake API server, with the
real server at the addresses of its Pods.

Run by ctest: k8s_bind_test.py WARMPOOLD FAKE_API GENERATED_DIR [unittest
arguments].
"""

import base64
import concurrent.futures
import http.client
import json
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import unittest

import grpc

sys.path.insert(0, os.path.abspath(sys.argv[3]))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                "../../support/otlp"))

import k8s_rig
from collector import ERROR, PARENT, SAMPLED, TRACE, Collector, lies_in, plain
from fake_api_rig import PATIENCE, eventually
from k8s_judge import assigned, controller, leased, ready
from k8s_rig import NS, Case
from warmpool.v1 import allocator_pb2 as pb

RUNTIME = os.path.abspath(os.environ.get("WP_RUNTIME_BINARY", "missing"))
BINDING = "template.warmpool.io/binding"
SECRET = "wp-secret-" + os.urandom(8).hex()


def hold_port():
    """A socket that has a port to itself, as long as it is open. Tests beside
    this one have the same addresses. Servers may listen there all the same:
    they set SO_REUSEADDR, as the socket does once it is bound. It is below the
    ports that connections are given: nobody gets it by chance."""
    with open("/proc/sys/net/ipv4/ip_local_port_range",
              encoding="ascii") as handle:
        ceiling = int(handle.read().split()[0])
    while True:
        port = random.SystemRandom().randrange(ceiling // 2, ceiling)
        sock = socket.socket()
        try:
            sock.bind(("0.0.0.0", port))
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            return sock
        except OSError:
            sock.close()


class Holder:
    """A server that takes a request whole, and does not answer."""

    def __init__(self, address, port):
        self.listener = socket.create_server((address, port))
        self.heard = threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        try:
            connection, _ = self.listener.accept()
        except OSError:
            return  # It was closed.
        with connection:
            got = b""
            while SECRET.encode() not in got:
                piece = connection.recv(65536)
                if not piece:
                    return
                got += piece
            self.heard.set()
            connection.recv(1)  # Until the other side has had enough.

    def close(self):
        if self.listener.fileno() >= 0:
            self.listener.shutdown(socket.SHUT_RDWR)
            self.listener.close()
        self.thread.join(PATIENCE)


class World(Case):
    def setUp(self):
        super().setUp()
        self.dir = tempfile.mkdtemp(prefix="wp-k8s-bind-")
        self.addCleanup(shutil.rmtree, self.dir)
        self.port = self.hold_port()
        self.servers = {}
        self.key = os.path.join(self.dir, "key")
        with open(os.open(self.key, os.O_WRONLY | os.O_CREAT, 0o600), "w",
                  encoding="ascii") as handle:
            handle.write("5a" * 32)

    def hold_port(self):
        sock = hold_port()
        self.addCleanup(sock.close)
        return sock.getsockname()[1]

    def begin(self, *flags, replicas=2, binding="allowed", key=True,
              bind_env=None, egress="", **template):
        """All objects are there before the daemon, which so acts on no other."""
        self.make_pool(replicas=replicas)
        if egress:
            self.api.patch("sandboxwarmpools", NS, "pool", {"metadata": {
                "annotations": {"pool.warmpool.io/egress": egress}}})
        if bind_env is not None:
            self.api.patch("sandboxwarmpools", NS, "pool", {"metadata": {
                "annotations": {"pool.warmpool.io/bind-env": bind_env}}})
            self.api.patch("sandboxtemplates", NS, "pool-template",
                           {"spec": {"envVarsInjectionPolicy": "Allowed",
                                     **template}})
        if binding is not None:
            self.api.patch("sandboxtemplates", NS, "pool-template",
                           {"metadata": {"annotations": {BINDING: binding}}})
        if key:
            flags += ("--token-key-file=" + self.key,)
        daemon = self.daemon("--cold-grace=60s", f"--sandbox-port={self.port}",
                             *flags)
        self.wait_filled(replicas=replicas)
        eventually(daemon.ready, "the daemon to be ready")
        return daemon

    def address(self, name):
        def known():
            pod = self.api.get("pods", NS, name) or {}
            return pod.get("status", {}).get("podIP")
        return eventually(known, "the address of Pod " + name)

    def serve(self, name):
        """The server in that sandbox's Pod."""
        own = os.path.join(self.dir, name)
        ports, workspace = os.path.join(own, "ports"), os.path.join(own, "ws")
        os.makedirs(workspace)
        address = self.address(name)
        pod = self.api.get("pods", NS, name)
        env = {one["name"]: one["value"]
               for one in pod["spec"]["containers"][0]["env"]}
        with open(os.path.join(own, "log"), "wb") as log:
            server = subprocess.Popen(
                [RUNTIME, "--bind", address, "--port",
                 str(self.port), "--port-file", ports, "--workspace",
                 workspace, "--bound-dir", os.path.join(own, "bound")],
                env={**env, "PATH": os.environ["PATH"]}, stdout=log,
                stderr=log)
        self.servers[name] = server
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        eventually(lambda: os.path.exists(ports), "the server's port")
        return workspace

    def serve_all(self):
        names = [one["metadata"]["name"] for one in self.pool_sandboxes()]
        for name in names:
            self.serve(name)
        return names

    def hold_all(self):
        holders = {}
        for one in self.pool_sandboxes():
            name = one["metadata"]["name"]
            holders[name] = Holder(self.address(name), self.port)
        self.addCleanup(lambda: [one.close() for one in holders.values()])
        return holders

    def sh(self, name, script):
        connection = http.client.HTTPConnection(self.address(name), self.port,
                                                timeout=PATIENCE)
        try:
            connection.request("POST", "/execute", json.dumps(
                {"command": f"sh -c '{script}'"}),
                {"Content-Type": "application/json"})
            answer = json.loads(connection.getresponse().read())
        finally:
            connection.close()
        self.assertEqual(answer["exit_code"], 0, answer)
        return answer["stdout"]

    def call(self, daemon, method, request, reply):
        path = os.path.join(daemon.dir, "r", "warmpoold.sock")
        with grpc.insecure_channel(
                "unix:" + path,
                options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
            return channel.unary_unary(
                "/warmpool.v1.Allocator/" + method,
                request_serializer=lambda m: m.SerializeToString(),
                response_deserializer=reply.FromString)(
                    request, timeout=PATIENCE, wait_for_ready=True)

    def claim(self, daemon, claim_id, **binding):
        return self.call(daemon, "Claim", pb.ClaimRequest(
            pool=pb.PoolRef(namespace=NS, name="pool"), claim_id=claim_id,
            wait_ms=PATIENCE * 1000, ttl_ms=600000,
            binding=pb.Binding(**binding) if binding else None),
            pb.ClaimResponse)

    def refused(self, daemon, claim_id, **binding):
        """Its code, and its words."""
        with self.assertRaises(grpc.RpcError) as caught:
            self.claim(daemon, claim_id, **binding)
        return caught.exception.code(), caught.exception.details()

    def brings(self, **more):
        return {"env": [pb.EnvVar(name="A", value="1")],
                "secrets": [pb.Secret(name="TOKEN", value=SECRET.encode(),
                                      in_env=True)], **more}

    def leads(self, daemon):
        try:
            self.call(daemon, "GetClaim", pb.GetClaimRequest(claim_id="none"),
                      pb.ClaimInfo)
        except grpc.RpcError as error:
            return error.code() == grpc.StatusCode.NOT_FOUND
        raise AssertionError("there is no such claim")

    def condition(self, name="c"):
        status = self.api.get("sandboxclaims", NS, name).get("status", {})
        return next(({key: one[key] for key in ("status", "reason", "message")}
                     for one in status.get("conditions", [])
                     if one["type"] == "Ready"), {})

    def names_none(self, name="c"):
        """A sandbox that has not got what the claim brings is not shown."""
        status = self.api.get("sandboxclaims", NS, name)["status"]
        self.assertFalse(status.get("sandbox", {}).get("name"))

    def becomes(self, reason, words, name="c"):
        return eventually(lambda: self.condition(name).get("reason") == reason
                          and words in self.condition(name)["message"],
                          f"{reason}: {words}")

    def check_writes(self, position, name):
        """No write more than of a claim that brings nothing."""
        self.assertEqual(
            sorted((one["kind"], one["subresource"])
                   for one in self.writes(position)
                   if one["name"] in ("c", name) and one["kind"] != "pods"
                   and (one["kind"], one["subresource"]) !=
                   ("sandboxes", "status")),
            [("sandboxclaims", ""), ("sandboxclaims", "status"),
             ("sandboxes", "")])


class Bind(World):
    """Of claims over gRPC."""

    def test_all_of_it(self):
        daemon = self.begin()
        names = self.serve_all()
        position = self.log_position()
        answer = self.claim(daemon, "g", **self.brings(
            files=[pb.File(path="in.txt", content=b"x" * 300000)],
            working_dir="wd", command=["sh", "-c", "echo $A > started"]))
        lease = answer.lease
        # One write of the cluster stands before the answer: whose it is.
        written = [one for one in self.writes(position)
                   if (one["kind"], one["name"], one["subresource"]) ==
                   ("sandboxes", lease.sandbox, "")]
        self.assertEqual([one["verb"] for one in written], ["PATCH"])
        self.assertEqual(leased(self.api.get("sandboxes", NS, lease.sandbox)),
                         "g")
        self.assertEqual(lease.served, pb.SERVED_WARM)
        self.assertEqual(
            (list(answer.bound.env), list(answer.bound.secrets),
             list(answer.bound.files), answer.bound.working_dir,
             answer.bound.started),
            (["A"], ["TOKEN"], ["in.txt"], "wd", True))
        self.assertEqual(
            self.sh(lease.sandbox, "echo $A $TOKEN; wc -c < ../in.txt"),
            f"1 {SECRET}\n300000\n")
        eventually(lambda: self.sh(lease.sandbox, "cat started || true") ==
                   "1\n", "the command's work")
        # The same request again has the same answer; another is another's.
        again = self.claim(daemon, "g", **self.brings(
            files=[pb.File(path="in.txt", content=b"x" * 300000)],
            working_dir="wd", command=["sh", "-c", "echo $A > started"]))
        self.assertEqual((again.lease.sandbox, again.bound),
                         (lease.sandbox, answer.bound))
        self.assertEqual(self.refused(daemon, "g", **self.brings())[0],
                         grpc.StatusCode.ALREADY_EXISTS)
        # Nobody else hears of it.
        other = next(name for name in names if name != lease.sandbox)
        self.assertEqual(self.sh(other, "echo $A$TOKEN"), "\n")
        for kind in ("sandboxes", "pods"):
            self.assertNotIn(SECRET, json.dumps(self.api.all(kind)))
        self.assertNotIn(SECRET, daemon.messages())
        self.call(daemon, "Release", pb.ReleaseRequest(token=lease.token),
                  pb.ReleaseResponse)
        eventually(lambda: not self.api.get("sandboxes", NS, lease.sandbox),
                   "the sandbox to go")
        self.judge(leases=1)

    def test_not_all_of_it(self):
        daemon = self.begin(replicas=1)
        name, = self.serve_all()
        os.mkdir(os.path.join(self.dir, name, "ws", "taken"))
        self.assertEqual(
            self.refused(daemon, "g", **self.brings(
                files=[pb.File(path="taken", content=b"x")])),
            (grpc.StatusCode.FAILED_PRECONDITION,
             "binding: file 'taken': Is a directory"))
        eventually(lambda: not self.api.get("sandboxes", NS, name),
                   "the sandbox to go")
        self.wait_filled(replicas=1)
        # The same id is free, and has another sandbox.
        fresh, = self.serve_all()
        self.assertEqual(self.claim(daemon, "g", **self.brings()).lease.sandbox,
                         fresh)

    def test_nobody_there(self):
        """The Pod is Ready; its server is gone, or another one."""
        daemon = self.begin(replicas=1)
        name = self.pool_sandboxes()[0]["metadata"]["name"]
        self.assertEqual(
            self.refused(daemon, "g", **self.brings()),
            (grpc.StatusCode.UNAVAILABLE,
             "binding: the sandbox's server cannot be reached"))
        eventually(lambda: not self.api.get("sandboxes", NS, name),
                   "the sandbox to go")
        self.wait_filled(replicas=1)
        holder, = self.hold_all().values()
        self.assertEqual(
            self.refused(daemon, "h", **self.brings()),
            (grpc.StatusCode.DEADLINE_EXCEEDED,
             "binding: the sandbox did not answer in time"))
        self.assertTrue(holder.heard.is_set())

    def test_the_lease_is_written_first(self):
        """Else a sandbox that took a part of a binding may be in its pool."""
        daemon = self.begin()
        holders = self.hold_all()
        self.fault(verbs="PATCH", kind="sandboxes", action="status", code=500)
        self.assertEqual(
            self.refused(daemon, "g", **self.brings()),
            (grpc.StatusCode.DEADLINE_EXCEEDED,
             "binding: the lease could not be written on the sandbox in time"))
        self.assertFalse(any(one.heard.is_set() for one in holders.values()))
        self.api.control("clear")

    def test_whose_program_takes_none(self):
        daemon = self.begin(binding=None)
        code, words = self.refused(daemon, "g", **self.brings())
        self.assertEqual(code, grpc.StatusCode.FAILED_PRECONDITION)
        self.assertEqual(
            words, "binding: sandboxes of template 'pool-template' cannot be "
            "bound: the template does not say that its program takes bindings "
            f"({BINDING}: allowed)")
        # It may say so later, and take that back.
        for value, says in (("allowed", "cannot be reached"),
                            ("none", "does not say")):
            self.api.patch("sandboxtemplates", NS, "pool-template",
                           {"metadata": {"annotations": {BINDING: value}}})
            eventually(lambda: says in self.refused(
                daemon, "g", **self.brings())[1], says)
        self.claim(daemon, "g")

    def test_without_a_key(self):
        daemon = self.begin(key=False)
        self.assertIn("the daemon has no token_key_file",
                      self.refused(daemon, "g", **self.brings())[1])

    def half_bound(self, daemon):
        """The name of a sandbox that a claim brings something to, now."""
        holders = self.hold_all()
        pool = concurrent.futures.ThreadPoolExecutor(1)
        self.addCleanup(pool.shutdown)
        pool.submit(self.refused, daemon, "g", **self.brings())
        name = eventually(lambda: next(
            (name for name, one in holders.items() if one.heard.is_set()),
            None), "a request to bind")
        return name, holders

    def kill_half_way(self, *flags):
        """The daemon dies when a sandbox may have taken a part of a binding."""
        daemon = self.begin(*flags)
        name, holders = self.half_bound(daemon)
        # That it is in no pool any more was written before.
        self.assertEqual(leased(self.api.get("sandboxes", NS, name)), "g")
        self.assertEqual(controller(self.api.get("sandboxes", NS, name)),
                         (None, None))
        daemon.kill()
        for one in holders.values():
            one.close()
        daemon.start()
        eventually(lambda: self.leads(daemon), "the daemon to lead again")
        self.wait_filled(replicas=2)
        for i in range(3):
            lease = self.claim(daemon, f"other-{i}").lease
            self.assertNotEqual(lease.sandbox, name)
        # Whoever asks again has what it was to have.
        self.serve(name)
        again = self.claim(daemon, "g", **self.brings()).lease
        self.assertEqual(again.sandbox, name)
        self.assertEqual(self.sh(name, "echo $A $TOKEN"), f"1 {SECRET}\n")
        self.judge(leases=4)

    def test_killed_half_way(self):
        self.kill_half_way()

    def test_killed_half_way_with_leases_on_disk(self):
        self.kill_half_way("--lease-store=sqlite")


class Variables(World):
    """Of SandboxClaims, whose pool binds them."""
    ENV = [{"name": "A", "value": "1"}, {"name": "TOKEN", "value": SECRET}]

    def test_warm_all_the_same(self):
        self.begin(bind_env="true")
        names = self.serve_all()
        position = self.log_position()
        self.make_claim("c", env=self.ENV)
        self.wait_ready("c")
        claim = self.api.get("sandboxclaims", NS, "c")
        name = assigned(claim)
        self.assertIn(name, names)
        self.assertEqual(self.sh(name, "echo $A $TOKEN"), f"1 {SECRET}\n")
        self.check_writes(position, name)
        self.judge()

    def test_without_the_annotation(self):
        """As upstream: cold."""
        self.begin(bind_env="false")
        self.make_claim("c", env=self.ENV)
        eventually(lambda: any(one["metadata"]["name"] == "c"
                               for one in self.api.all("sandboxes")),
                   "a sandbox of its own")

    def test_not_taken(self):
        self.begin(bind_env="true", replicas=1)
        name, = self.serve_all()
        os.mkdir(os.path.join(self.dir, name, "bound"), 0o700)
        os.mkdir(os.path.join(self.dir, name, "bound", "env"))
        self.make_claim("c", env=self.ENV)
        self.becomes("BindingFailed", "binding: env: Is a directory")
        self.assertEqual(self.condition()["status"], "False")
        self.names_none()

    def test_not_there_yet(self):
        self.begin(bind_env="true", replicas=1)
        name = self.pool_sandboxes()[0]["metadata"]["name"]
        self.make_claim("c", env=self.ENV)
        self.becomes("SandboxNotReady", "cannot be reached")
        self.names_none()
        self.serve(name)
        self.wait_ready("c")
        self.assertEqual(self.sh(name, "echo $A"), "1\n")

    def test_what_is_refused(self):
        self.begin(bind_env="true", binding="none")
        self.make_claim("none", env=self.ENV)
        self.becomes("BindingFailed", BINDING + ": allowed", "none")
        self.api.patch("sandboxtemplates", NS, "pool-template",
                       {"metadata": {"annotations": {BINDING: "allowed"}}})
        eventually(lambda: self.api.get("sandboxtemplates", NS, "pool-template")
                   ["metadata"]["annotations"][BINDING] == "allowed", "it")
        self.serve_all()
        for name, env, reason, words in (
                ("other", [{"name": "A", "value": "1",
                            "containerName": "side"}],
                 "ReconcilerError", "side"),
                ("own", [{"name": "WARMPOOL_X", "value": "1"}],
                 "BindingFailed", "begin with WARMPOOL_")):
            self.make_claim(name, env=env)
            self.becomes(reason, words, name)
        self.assertEqual(len(self.pool_sandboxes()), 2)

    def test_what_is_changed_later(self):
        """It is judged as what was there before a sandbox was taken."""
        self.begin(bind_env="true", replicas=1)
        name = self.pool_sandboxes()[0]["metadata"]["name"]
        self.make_claim("c", env=self.ENV)
        self.becomes("SandboxNotReady", "cannot be reached")
        self.api.patch("sandboxclaims", NS, "c", {"spec": {"env": [
            {"name": "A", "value": "2", "containerName": "side"}]}})
        # Before there is a server: it would get what the claim brought first.
        self.becomes("ReconcilerError", "a container of the template")
        self.serve(name)
        self.assertEqual(self.sh(name, "echo $A"), "\n")
        self.api.patch("sandboxclaims", NS, "c", {"spec": {"env": self.ENV}})
        self.wait_ready("c")
        self.assertEqual(self.sh(name, "echo $A"), "1\n")

    def test_another_pod(self):
        """It has them as well, before the claim is Ready again."""
        self.begin(bind_env="true", replicas=1)
        name, = self.serve_all()
        self.make_claim("c", env=self.ENV)
        self.wait_ready("c")
        self.assertEqual(self.sh(name, "echo $A"), "1\n")
        before = self.address(name)
        self.api.delete("pods", NS, name)
        eventually(lambda: (self.api.get("pods", NS, name) or {}).get(
            "status", {}).get("podIP", before) != before, "another Pod")
        self.becomes("SandboxNotReady", "cannot be reached")
        shutil.rmtree(os.path.join(self.dir, name))
        self.serve(name)
        self.wait_ready("c")
        self.assertEqual(self.sh(name, "echo $A"), "1\n")

    def test_the_next_leader_brings_them(self):
        daemon = self.begin(bind_env="true", replicas=1)
        holders = self.hold_all()
        name, holder = next(iter(holders.items()))
        self.make_claim("c", env=self.ENV)
        eventually(holder.heard.is_set, "a request to bind")
        self.assertFalse(ready(self.api.get("sandboxclaims", NS, "c")))
        self.assertEqual(controller(self.api.get("sandboxes", NS, name))[0],
                         "SandboxClaim")
        daemon.kill()
        holder.close()
        self.serve(name)
        daemon.start()
        self.wait_ready("c")
        self.assertEqual(assigned(self.api.get("sandboxclaims", NS, "c")), name)
        self.assertEqual(self.sh(name, "echo $A"), "1\n")
        self.judge()


class Annotations(World):
    """Of SandboxClaims: files, secrets by reference, a folder, a command."""
    FILES = {"in.txt": "plain", "bin/run.sh": {
        "contentBase64": base64.b64encode(b"echo run").decode(),
        "mode": "0755"}}

    def bring(self, name="c", env=None, **annotations):
        self.api.create(
            "sandboxclaims", NS, name,
            metadata={"annotations": {
                "claim.warmpool.io/" + key.replace("_", "-"):
                    value if isinstance(value, str) else json.dumps(value)
                for key, value in annotations.items()}},
            spec={"warmPoolRef": {"name": "pool"},
                  **({"env": env} if env else {})})

    def secret(self, name="login", **values):
        self.api.create("secrets", NS, name, metadata={"labels": {
            "claim.warmpool.io/secret": "allowed"}}, data={
            key: base64.b64encode(value.encode()).decode()
            for key, value in values.items()})

    def nobody_tells(self, daemon):
        for kind in ("sandboxclaims", "sandboxes", "pods", "events"):
            text = json.dumps(self.api.all(kind))
            self.assertNotIn(SECRET, text)
            self.assertNotIn(base64.b64encode(SECRET.encode()).decode(), text)
        self.assertNotIn(SECRET, daemon.messages())

    def test_warm_all_the_same(self):
        daemon = self.begin()
        names = self.serve_all()
        self.secret(token=SECRET, user="me")
        position = self.log_position()
        self.bring(files=self.FILES, working_dir="wd", secrets={
            "TOKEN": {"name": "login", "key": "token", "env": True},
            "user.txt": {"name": "login", "key": "user"}},
            command=["sh", "-c", "echo $TOKEN > started"])
        self.wait_ready("c")
        name = assigned(self.api.get("sandboxclaims", NS, "c"))
        self.assertIn(name, names)
        self.assertEqual(
            self.sh(name, "echo $TOKEN; cat ../in.txt; ../bin/run.sh; "
                          "cat $WARMPOOL_BOUND_DIR/secrets/user.txt"),
            f"{SECRET}\nplainrun\nme")
        eventually(lambda: self.sh(name, "cat started || true") ==
                   SECRET + "\n", "the command's work")
        self.check_writes(position, name)
        # One read for both, when it was needed.
        self.assertEqual(
            [one["verb"] for one in self.api.control(
                "requests", **{"from": position}) if one["kind"] == "secrets"
             and one["agent"].startswith("warmpool")], ["GET"])
        self.nobody_tells(daemon)
        self.judge()

    def test_without_the_annotation(self):
        """Variables start cold; the rest is brought to that sandbox, too."""
        self.begin(bind_env="false")
        self.bring(env=[{"name": "A", "value": "1"}], files=self.FILES)
        eventually(lambda: self.api.get("sandboxes", NS, "c"),
                   "a sandbox of its own")
        self.becomes("SandboxNotReady", "cannot be reached")
        self.serve("c")
        self.wait_ready("c")
        self.assertEqual(assigned(self.api.get("sandboxclaims", NS, "c")), "c")
        self.assertEqual(self.sh("c", "cat in.txt"), "plain")

    def test_secrets_that_are_not_there(self):
        daemon = self.begin(replicas=1)
        name, = self.serve_all()
        self.bring(secrets={"TOKEN": {"name": "login", "key": "token",
                                      "env": True}})
        self.becomes("BindingFailed",
                     'binding: Secret "login": there is none of that name')
        self.secret(other="x")
        self.becomes("BindingFailed", "binding: secret 'TOKEN': Secret "
                     '"login" has no key "token"')
        self.fault(verbs="GET", kind="secrets", action="status", code=403)
        self.becomes("BindingFailed", 'may not read Secret "login"')
        self.api.control("clear")
        self.api.patch("secrets", NS, "login", {
            "metadata": {"labels": {"claim.warmpool.io/secret": "no"}}, "data": {
                "token": base64.b64encode(SECRET.encode()).decode()}})
        self.becomes("BindingFailed", 'Secret "login" is not for claims')
        self.api.patch("secrets", NS, "login", {"metadata": {"labels": {
            "claim.warmpool.io/secret": "allowed"}}})
        self.wait_ready("c")
        self.assertEqual(assigned(self.api.get("sandboxclaims", NS, "c")), name)
        self.assertEqual(self.sh(name, "echo $TOKEN"), SECRET + "\n")
        self.nobody_tells(daemon)

    def test_what_is_refused(self):
        self.begin(binding="none")
        self.bring("none", files=self.FILES)
        self.becomes("BindingFailed", BINDING + ": allowed", "none")
        self.api.patch("sandboxtemplates", NS, "pool-template",
                       {"metadata": {"annotations": {BINDING: "allowed"}}})
        eventually(lambda: self.api.get("sandboxtemplates", NS, "pool-template")
                   ["metadata"]["annotations"][BINDING] == "allowed", "it")
        self.serve_all()
        for i, (annotation, value, words) in enumerate((
                ("files", "{", "expected a JSON object"),
                ("files", {"../x": "y"}, "'../x': expected a path"),
                ("files", {"x": {"content": "y", "mode": "8"}},
                 "'x': expected a text"),
                ("secrets", {"T": "value"}, "a value is not written here"),
                ("secrets", {"-T": {"name": "a", "key": "b"}},
                 "'-T': expected a name"),
                ("working_dir", "a//b", "expected a path"),
                ("command", [], "expected 1 to 64 words, got 0"),
                ("command", {"a": 1}, "expected a JSON array"))):
            self.bring(f"c{i}", **{annotation: value})
            self.becomes("BindingFailed", words, f"c{i}")
            self.assertIn("annotation claim.warmpool.io/" +
                          annotation.replace("_", "-"),
                          self.condition(f"c{i}")["message"])
        self.assertEqual(len(self.pool_sandboxes()), 2)

    def test_a_mistake_put_right(self):
        """Whoever corrects an annotation need not make the claim anew."""
        self.begin(replicas=1)
        self.serve_all()
        self.bring(files={"../x": "1"})
        self.becomes("BindingFailed", "below the workspace")
        self.api.patch("sandboxclaims", NS, "c", {"metadata": {"annotations": {
            "claim.warmpool.io/files": json.dumps({"x": "1"})}}})
        self.wait_ready("c")
        name = assigned(self.api.get("sandboxclaims", NS, "c"))
        self.assertEqual(self.sh(name, "cat x"), "1")

    def test_not_taken(self):
        self.begin(replicas=1)
        name, = self.serve_all()
        os.mkdir(os.path.join(self.dir, name, "ws", "in.txt"))
        self.bring(files=self.FILES)
        self.becomes("BindingFailed", "file 'in.txt': Is a directory")

    def test_not_there_yet(self):
        self.begin(replicas=1)
        name = self.pool_sandboxes()[0]["metadata"]["name"]
        self.bring(files=self.FILES)
        self.becomes("SandboxNotReady", "cannot be reached")
        self.serve(name)
        self.wait_ready("c")
        self.assertEqual(self.sh(name, "cat in.txt"), "plain")


class Traces(World):
    """Of SandboxClaims, whose annotation names the trace of their client."""

    def setUp(self):
        super().setUp()
        self.collector = Collector()
        self.addCleanup(self.collector.stop)
        self.flag = "--otlp-endpoint=" + self.collector.url

    def claim_object(self, traceparent, **annotations):
        self.api.create(
            "sandboxclaims", NS, "c", spec={"warmPoolRef": {"name": "pool"}},
            metadata={"annotations": {
                "opentelemetry.io/trace-context": traceparent, **annotations}})

    def steps(self):
        """What the claim's own span has in it, in order."""
        root = eventually(lambda: self.collector.named("SandboxClaim"),
                          "the claim's span")[0]
        self.assertEqual(root["parentSpanId"], PARENT)
        self.assertEqual({s["traceId"] for s in self.collector.spans}, {TRACE})
        steps = sorted((s for s in self.collector.spans if s is not root),
                       key=lambda s: int(s["endTimeUnixNano"]))
        for before, step in zip([None] + steps, steps):
            self.assertEqual(step["parentSpanId"], root["spanId"])
            self.assertTrue(lies_in(step, root), (step, root))
            if before is not None:
                self.assertEqual(before["endTimeUnixNano"],
                                 step["startTimeUnixNano"])
        return root, steps

    def test_in_several_batches(self):
        """Its times are of one clock, whenever its parts are sent."""
        self.begin(self.flag, replicas=1)
        name = self.pool_sandboxes()[0]["metadata"]["name"]
        self.claim_object(json.dumps({"traceparent": SAMPLED}), **{
            "claim.warmpool.io/files": json.dumps({"in.txt": "plain"})})
        self.becomes("SandboxNotReady", "cannot be reached")
        eventually(lambda: self.collector.spans, "the first batch")
        self.serve(name)
        self.wait_ready("c")
        self.steps()

    def test_warm_with_files(self):
        self.begin(self.flag, replicas=1)
        name, = self.serve_all()
        carrier = json.dumps({"traceparent": SAMPLED, "tracestate": "a=b"})
        self.claim_object(carrier, **{
            "claim.warmpool.io/files": json.dumps(Annotations.FILES)})
        self.wait_ready("c")
        root, steps = self.steps()
        self.assertEqual([s["name"] for s in steps],
                         ["grant", "adopt", "bind", "write status"])
        self.assertEqual(plain(root["attributes"]), {
            "warmpool.namespace": NS, "warmpool.pool": "pool",
            "warmpool.claim": "c", "warmpool.sandbox": name})
        # The sandbox's own part of the trace can go on from there.
        self.assertEqual(self.api.get("sandboxes", NS, name)["metadata"]
                         ["annotations"]["opentelemetry.io/trace-context"],
                         carrier)

    def test_cold(self):
        self.begin("--cold-grace=0s", self.flag, replicas=0)
        self.claim_object(json.dumps({"traceparent": SAMPLED}))
        self.wait_ready("c")
        _, steps = self.steps()
        names = [s["name"] for s in steps]
        self.assertEqual((names[0], steps[0]["status"]["code"]),
                         ("grant", ERROR))
        self.assertEqual(names[1], "create")
        self.assertEqual(names[-2:], ["start Pod", "write status"])

    def test_none_that_makes_sense(self):
        self.begin(self.flag, replicas=3)
        for text in ("{", "[]", "{}", '{"traceparent": 1}', SAMPLED,
                     json.dumps({"traceparent": SAMPLED[:-1] + "0"})):
            self.claim_object(text)
            self.wait_ready("c")
            self.api.delete("sandboxclaims", NS, "c")
            eventually(lambda: self.api.get("sandboxclaims", NS, "c") is None,
                       "the end of it")
        self.claim_object(json.dumps({"traceparent": SAMPLED}))
        self.wait_ready("c")
        self.steps()
        self.assertEqual(len(self.collector.named("SandboxClaim")), 1)


if __name__ == "__main__":
    k8s_rig.PROGRAMS["warmpoold"] = os.path.abspath(sys.argv.pop(1))
    k8s_rig.PROGRAMS["fake_api"] = os.path.abspath(sys.argv.pop(1))
    sys.argv.pop(1)
    unittest.main()
