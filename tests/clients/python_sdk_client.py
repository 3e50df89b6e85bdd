"""agent-sandbox's Python SDK, as it is published, against warmpool-runtime.

Run by ctest: python_sdk_client.py BUILD_FOLDER [unittest arguments].

The sandboxes are real: a warmpool-runtime each, as the image starts it, on a
loopback address of its own. What the SDK asks of Kubernetes is answered by a
small stand-in here (claims, sandboxes, watches); tests/e2e has the real one.
"""
import asyncio
import concurrent.futures
import hashlib
import http.server
import io
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.path.abspath(sys.argv[1])
RUNTIME = os.path.join(BUILD, "runtime", "warmpool-runtime")
DEADLINE_S = 90

if os.environ.get("WP_CLIENTS_PYTHON") is None:
    setup = subprocess.run([os.path.join(HERE, "setup.sh")], text=True,
                           stdout=subprocess.PIPE)
    if setup.returncode == 77:
        sys.exit(77)
    setup.check_returncode()
    python = os.path.join(setup.stdout.strip(), "python/bin/python3")
    os.execve(python, [python, os.path.abspath(__file__), *sys.argv[1:]],
              {**os.environ, "WP_CLIENTS_PYTHON": python,
               "PYTHONDONTWRITEBYTECODE": "1"})

import kubernetes  # noqa: E402
import kubernetes_asyncio  # noqa: E402
from k8s_agent_sandbox import SandboxClient  # noqa: E402
from k8s_agent_sandbox.async_sandbox_client import (  # noqa: E402
    AsyncSandboxClient)
from k8s_agent_sandbox.exceptions import (  # noqa: E402
    SandboxClaimFailedError, SandboxNotFoundError, SandboxRequestError,
    SandboxTemplateNotFoundError, SandboxWarmPoolNotFoundError)
from k8s_agent_sandbox.models import (  # noqa: E402
    SandboxDirectConnectionConfig, SandboxdInClusterConnectionConfig,
    SandboxdPodTunnelConnectionConfig, SandboxInClusterConnectionConfig)

# "kubectl port-forward pod/NAME LOCAL:PORT...": from here to the sandbox, whose
# address the stand-in has put where this finds it.
KUBECTL = '''#!%s
import os, socket, sys, threading
words = sys.argv[1:]
assert words[0] == "port-forward" and words[1].startswith("pod/"), words
with open(os.path.join(os.environ["WP_PODS"], words[1][4:])) as file:
    host = file.read()
def pump(source, sink):
    try:
        while data := source.recv(65536):
            sink.sendall(data)
    except OSError:
        pass
    try:
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        pass
def serve(local, port):
    with socket.create_server(("127.0.0.1", local)) as server:
        while True:
            near = server.accept()[0]
            far = socket.create_connection((host, port))
            for pair in ((near, far), (far, near)):
                threading.Thread(target=pump, args=pair, daemon=True).start()
threads = [threading.Thread(target=serve, args=map(int, word.split(":")))
           for word in words if word[0].isdigit()]
for thread in threads:
    thread.start()
''' % sys.executable

CLAIMS = "/apis/extensions.agents.x-k8s.io/v1beta1/namespaces/%s/sandboxclaims"
SANDBOXES = "/apis/agents.x-k8s.io/v1beta1/namespaces/%s/sandboxes"


class Pod:
    """A sandbox: the server of the image, with a workspace of its own."""
    numbers = itertools.count(2)

    def __init__(self, name):
        self.name = name
        self.dir = tempfile.mkdtemp(prefix="wp-sdk-")
        self.workspace = os.path.join(self.dir, "workspace")
        os.mkdir(self.workspace)
        # Every test process has addresses of its own, as Pods do; ports are
        # the system's choice.
        number = next(Pod.numbers)
        self.ip = "127.%d.%d.%d" % (100 + os.getpid() % 100,
                                    os.getpid() // 100 % 200, number)
        ports = os.path.join(self.dir, "ports")
        with open(os.path.join(self.dir, "log"), "wb") as log:
            self.process = subprocess.Popen(
                [RUNTIME, "--bind", self.ip, "--port", "0", "--rest-port", "0",
                 "--grpc-port", "0", "--workspace", self.workspace,
                 "--port-file", ports], stdin=subprocess.DEVNULL, stdout=log,
                stderr=log)
        end = time.monotonic() + DEADLINE_S
        while not os.path.exists(ports):
            assert self.process.poll() is None and time.monotonic() < end
            time.sleep(0.01)
        with open(ports) as file:
            self.ports = {name: int(port) for name, port in
                          (line.split() for line in file)}

    def stop(self):
        self.process.terminate()
        code = self.process.wait(DEADLINE_S)
        shutil.rmtree(self.dir, ignore_errors=True)
        assert code == 0, code


class Kubernetes:
    """What the SDK asks of a cluster in which claims are served at once."""

    def __init__(self):
        self.lock = threading.Condition()
        self.claims, self.pods = {}, {}
        self.version = 1
        self.dir = tempfile.mkdtemp(prefix="wp-sdk-pods-")
        cluster = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def answer(self, code, body):
                data = json.dumps(body).encode()
                self.send_response(code)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def do_POST(self):
                length = int(self.headers["Content-Length"])
                self.answer(*cluster.create(
                    json.loads(self.rfile.read(length))))

            def do_GET(self):
                path, _, query = self.path.partition("?")
                watched = re.search(r"metadata.name(?:=|%3D)([^&]+)", query)
                if "watch=" in query:
                    self.send_response(200)
                    self.send_header("Content-Type", "application/json")
                    self.send_header("Connection", "close")
                    self.end_headers()
                    claim = cluster.claims.get(watched.group(1))
                    if claim:
                        self.wfile.write(json.dumps(
                            {"type": "ADDED", "object": claim}).encode() +
                            b"\n")
                    self.close_connection = True
                else:
                    self.answer(*cluster.get(path))

            def do_DELETE(self):
                length = int(self.headers.get("Content-Length") or 0)
                self.rfile.read(length)
                self.answer(*cluster.delete(self.path.split("?")[0]))

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0),
                                                      Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = "http://127.0.0.1:%d" % self.server.server_port

    def create(self, claim):
        name = claim["metadata"]["name"]
        pool = claim["spec"]["warmPoolRef"]["name"]
        sandbox = "%s-%s" % (pool, name[-5:])
        assert claim["metadata"]["labels"][
            "agents.x-k8s.io/created-by"] == "python-client"
        ready, reason = pool == "pool", {
            "pool": "Ready", "no-pool": "WarmPoolNotFound",
            "no-template": "TemplateNotFound"}.get(pool, "InvalidMetadata")
        pod = Pod(sandbox) if ready else None
        with self.lock:
            self.version += 1
            claim["metadata"].update(uid=name, resourceVersion=str(
                self.version), namespace="default")
            claim["status"] = {"conditions": [
                {"type": "Ready", "status": str(ready), "reason": reason}]}
            if ready:
                claim["status"]["sandbox"] = {"name": sandbox,
                                              "podIPs": [pod.ip]}
                self.pods[sandbox] = pod
                with open(os.path.join(self.dir, sandbox), "w") as file:
                    file.write(pod.ip)
            self.claims[name] = claim
        return 201, claim

    def get(self, path):
        folder, _, name = path.rpartition("/")
        if path == CLAIMS % "default":
            return 200, {"kind": "List", "metadata": {},
                         "items": list(self.claims.values())}
        if folder == SANDBOXES % "default" and name in self.pods:
            return 200, {"metadata": {
                "name": name, "annotations": {
                    "agents.x-k8s.io/pod-name": name}},
                "status": {"podIPs": [self.pods[name].ip], "conditions": [
                    {"type": "Ready", "status": "True", "message": "up"}]}}
        if folder == CLAIMS % "default" and name in self.claims:
            return 200, self.claims[name]
        return 404, {"kind": "Status", "reason": "NotFound", "code": 404}

    def delete(self, path):
        with self.lock:
            claim = self.claims.pop(path.rpartition("/")[2], None)
        if claim is None:
            return 404, {"kind": "Status", "reason": "NotFound", "code": 404}
        sandbox = claim["status"].get("sandbox", {}).get("name")
        if sandbox:
            os.unlink(os.path.join(self.dir, sandbox))
            self.pods.pop(sandbox).stop()
        return 200, {"kind": "Status", "status": "Success"}

    def stop(self):
        self.server.shutdown()
        self.server.server_close()
        for pod in self.pods.values():
            pod.stop()
        shutil.rmtree(self.dir)


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Kubernetes()
        configuration = kubernetes.client.Configuration(host=cls.cluster.url)
        configuration.no_proxy = "*"
        cls.api = kubernetes.client.ApiClient(configuration)

    @classmethod
    def tearDownClass(cls):
        cls.api.close()
        assert not cls.cluster.claims, cls.cluster.claims
        cls.cluster.stop()

    def config(self, pod):
        raise NotImplementedError

    def sandbox(self):
        """(handle, Pod): the ports are known once the Pod is there, so the
        handle is made anew by the SDK's own way of attaching again."""
        client = SandboxClient(SandboxInClusterConnectionConfig(),
                               api_client=self.api)
        made = client.create_sandbox("pool")
        pod = self.cluster.pods[made.sandbox_id]
        client = SandboxClient(self.config(pod), api_client=self.api)
        sandbox = client.get_sandbox(made.claim_name)
        self.addCleanup(sandbox.terminate)
        made.close_connection()
        return sandbox, pod

    def error(self, status, call, *args, **more):
        with self.assertRaises(SandboxRequestError) as caught:
            call(*args, **more)
        self.assertEqual(caught.exception.status_code, status)


class Both:
    """What either runtime does."""

    def test_life(self):
        sandbox, pod = self.sandbox()
        self.assertEqual(sandbox.status(), ("SandboxReady", "up"))
        files, commands = sandbox.files, sandbox.commands
        result = commands.run("echo hello")
        self.assertEqual((result.stdout, result.stderr, result.exit_code,
                          result.timed_out), ("hello\n", "", 0, False))
        self.assertNotEqual(commands.run("ls /no/such").exit_code, 0)
        files.write("folder/a.txt", "text")
        files.write("b.bin", bytes(range(256)))
        self.assertEqual(files.read("folder/a.txt"), b"text")
        self.assertEqual(commands.run("cat folder/a.txt").stdout, "text")
        self.assertTrue(files.exists("b.bin"))
        self.assertFalse(files.exists("c.bin"))
        listed = {e.name: (e.type, e.size) for e in files.list(".")}
        self.assertEqual(listed["b.bin"], ("file", 256))
        self.assertEqual(listed["folder"][0], "directory")
        self.error(404, files.read, "none")
        self.error(404, files.list, "none")
        self.error(403, files.read, "../../etc/passwd",
                   allow_unsafe_paths=True)
        name = sandbox.claim_name
        sandbox.terminate()
        self.assertNotIn(name, self.cluster.claims)
        self.assertFalse(os.path.exists(pod.workspace))

    def test_names_of_files(self):
        sandbox, _ = self.sandbox()
        for name in ("with space", "ünï¢ødé", "per%cent", "a+b&c=d?e#f",
                     "deep/er/and/deeper", "...", "quote's"):
            sandbox.files.write(name, name)
            self.assertEqual(sandbox.files.read(name).decode(), name)
            self.assertTrue(sandbox.files.exists(name))

    def test_large_files_in_a_stream(self):
        sandbox, pod = self.sandbox()
        data = os.urandom(1 << 20) * 24
        sandbox.files.write("large", io.BytesIO(data))
        with open(os.path.join(pod.workspace, "large"), "rb") as file:
            self.assertEqual(hashlib.sha256(file.read()).digest(),
                             hashlib.sha256(data).digest())
        got = io.BytesIO()
        self.assertEqual(sandbox.files.read_to("large", got), len(data))
        self.assertTrue(got.getvalue() == data)
        with self.assertRaisesRegex(RuntimeError, "exceeds limit"):
            sandbox.files.read_to("large", io.BytesIO(), max_bytes=1000)

    def test_64_at_once(self):
        sandbox, _ = self.sandbox()

        def one(i):
            sandbox.files.write("n/%d" % i, str(i))
            return sandbox.files.read("n/%d" % i)
        with concurrent.futures.ThreadPoolExecutor(64) as pool:
            self.assertEqual(list(pool.map(one, range(128))),
                             [b"%d" % i for i in range(128)])
        self.assertEqual(len(sandbox.files.list("n")), 128)


class InCluster(Both, Case):
    """The first runtime's calls, to the Pod's address."""

    def config(self, pod):
        return SandboxInClusterConnectionConfig(server_port=pod.ports["rest"])


class Direct(Case):
    """The same to an URL, with the fields that a router reads."""
    test_life = Both.test_life

    def config(self, pod):
        return SandboxDirectConnectionConfig(
            api_url="http://%s:%d" % (pod.ip, pod.ports["all"]))


class Sandboxd(Both):
    """What only sandboxd does."""

    def test_commands_with_folder_and_environment(self):
        sandbox, pod = self.sandbox()
        sandbox.files.write("sub/x", "")
        result = sandbox.commands.run("echo $A; pwd; ls", env={"A": "b c"},
                                      cwd="sub")
        self.assertEqual(result.stdout,
                         "b c\n%s/sub\nx\n" % pod.workspace)
        with self.assertRaisesRegex(RuntimeError, "PERMISSION_DENIED"):
            sandbox.commands.run("pwd", cwd="../..")
        result = sandbox.commands.run("echo out | tee /dev/stderr; exit 9")
        self.assertEqual((result.stdout, result.stderr, result.exit_code),
                         ("out\n", "out\n", 9))

    def test_time_limit(self):
        sandbox, _ = self.sandbox()
        result = sandbox.commands.run("sleep 1000", command_timeout=1)
        self.assertTrue(result.timed_out)
        self.assertEqual(result.exit_code, 124)
        with self.assertRaisesRegex(RuntimeError, "DEADLINE_EXCEEDED"):
            sandbox.commands.run("sleep 1000", timeout=1)
        self.assertEqual(sandbox.commands.run("echo on").stdout, "on\n")

    def test_delete(self):
        sandbox, _ = self.sandbox()
        sandbox.files.write("d/e", "x")
        self.error(409, sandbox.files.delete, "d")
        sandbox.files.delete("d/e")
        sandbox.files.write("d/e/f", "x")
        sandbox.files.delete("d", recursive=True)
        self.assertFalse(sandbox.files.exists("d"))
        self.error(404, sandbox.files.delete, "d")

    def test_64_commands_at_once(self):
        sandbox, _ = self.sandbox()
        with concurrent.futures.ThreadPoolExecutor(64) as pool:
            self.assertEqual(
                [r.stdout for r in pool.map(
                    lambda i: sandbox.commands.run("sleep 0.1; echo %d" % i),
                    range(128))], ["%d\n" % i for i in range(128)])


class SandboxdInCluster(Sandboxd, Case):
    def config(self, pod):
        return SandboxdInClusterConnectionConfig(
            mode="in-cluster-pod-ip", rest_port=pod.ports["all"],
            grpc_port=pod.ports["grpc"])


class SandboxdTunnel(Case):
    test_life = Both.test_life
    test_time_limit = Sandboxd.test_time_limit

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.bin = tempfile.mkdtemp(prefix="wp-sdk-bin-")
        with open(os.path.join(cls.bin, "kubectl"), "w") as file:
            file.write(KUBECTL)
        os.chmod(os.path.join(cls.bin, "kubectl"), 0o755)
        cls.before = os.environ["PATH"]
        os.environ.update(PATH=cls.bin + ":" + cls.before,
                          WP_PODS=cls.cluster.dir)

    @classmethod
    def tearDownClass(cls):
        os.environ["PATH"] = cls.before
        shutil.rmtree(cls.bin)
        super().tearDownClass()

    def config(self, pod):
        return SandboxdPodTunnelConnectionConfig(
            rest_port=pod.ports["all"], grpc_port=pod.ports["grpc"],
            port_forward_ready_timeout=DEADLINE_S)


class Claims(Case):
    def test_failures_have_their_exceptions(self):
        client = SandboxClient(SandboxInClusterConnectionConfig(),
                               api_client=self.api)
        for pool, error in (("no-pool", SandboxWarmPoolNotFoundError),
                            ("no-template", SandboxTemplateNotFoundError),
                            ("bad", SandboxClaimFailedError)):
            with self.assertRaises(error):
                client.create_sandbox(pool)
        self.assertEqual(self.cluster.claims, {})
        with self.assertRaises(SandboxNotFoundError):
            client.get_sandbox("none")


class Async(Case):
    def run_async(self, config_of, work):
        async def run():
            configuration = kubernetes_asyncio.client.Configuration(
                host=self.cluster.url)
            async with kubernetes_asyncio.client.ApiClient(
                    configuration) as api:
                async with AsyncSandboxClient(
                        SandboxInClusterConnectionConfig(),
                        api_client=api) as first:
                    made = await first.create_sandbox("pool")
                    pod = self.cluster.pods[made.sandbox_id]
                    async with AsyncSandboxClient(config_of(pod),
                                                  api_client=api) as client:
                        await work(await client.get_sandbox(made.claim_name))
                    await first.delete_all()
        asyncio.run(run())

    async def life(self, sandbox):
        self.assertEqual((await sandbox.commands.run("echo hi")).stdout, "hi\n")
        await sandbox.files.write("a/b", b"x" * 100000)
        self.assertEqual(await sandbox.files.read("a/b"), b"x" * 100000)
        self.assertTrue(await sandbox.files.exists("a/b"))
        self.assertEqual([e.name for e in await sandbox.files.list("a")],
                         ["b"])
        with self.assertRaises(SandboxRequestError):
            await sandbox.files.read("none")

        async def one(i):
            await sandbox.files.write("n/%d" % i, str(i))
            return (await sandbox.files.read("n/%d" % i)).decode()
        self.assertEqual(await asyncio.gather(*map(one, range(64))),
                         [str(i) for i in range(64)])

    def test_in_cluster(self):
        self.run_async(lambda pod: SandboxInClusterConnectionConfig(
            server_port=pod.ports["rest"]), self.life)

    def test_direct(self):
        self.run_async(lambda pod: SandboxDirectConnectionConfig(
            api_url="http://%s:%d" % (pod.ip, pod.ports["rest"])), self.life)

    def test_sandboxd(self):
        async def work(sandbox):
            await self.life(sandbox)
            result = await sandbox.commands.run("sleep 1000",
                                                command_timeout=1)
            self.assertTrue(result.timed_out)
            results = await asyncio.gather(*(
                sandbox.commands.run("echo %d" % i) for i in range(64)))
            self.assertEqual([r.stdout for r in results],
                             ["%d\n" % i for i in range(64)])
            await sandbox.files.delete("a", recursive=True)
            self.assertFalse(await sandbox.files.exists("a"))
        self.run_async(lambda pod: SandboxdInClusterConnectionConfig(
            mode="in-cluster-pod-ip", rest_port=pod.ports["all"],
            grpc_port=pod.ports["grpc"]), work)


if __name__ == "__main__":
    del sys.argv[1]
    unittest.main(verbosity=2, warnings="ignore")
