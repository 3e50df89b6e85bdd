"""AX's client of an agent in a sandbox: AgentService and gRPC health, with the client that
protoc makes of deploy/examples/ax/ax.proto, against the agent beside it, which runs in real
sandboxes of this machine.

Run by ctest: ax_client.py BUILD_DIR. Needs protoc, python3-grpcio, and a host that lets it
make sandboxes; exits with 77 elsewhere.
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

try:
    import grpc
except ImportError:
    print("SKIP: python3-grpcio is missing (deploy/packages.txt, test)")
    sys.exit(77)
import mcp_daemon

BUILD = os.path.abspath(sys.argv[1])
AX = pathlib.Path(__file__).resolve().parents[2] / "deploy" / "examples" / "ax"
PATIENCE = 120
CONNECTS = 200


def manifests():
    """As kubectl kustomize prints them."""
    config_map = {"apiVersion": "v1", "kind": "ConfigMap",
                  "metadata": {"name": "ax-agent"},
                  "data": {"agent.py": (AX / "agent.py").read_text()}}
    return json.dumps(config_map) + "\n---\n" + (AX / "pool.yaml").read_text()


class Client:
    """RemoteAgent's rules: no waiting for the server, one header, ids that come back."""

    def __init__(self, pb, target):
        self.pb = pb
        self.channel = grpc.insecure_channel(target)

    def method(self, kind, path, request, answer):
        return getattr(self.channel, kind)(
            path, request_serializer=request.SerializeToString,
            response_deserializer=answer.FromString)

    def connect(self, prompt, number=1):
        request = self.pb.AgentRequest(conversation_id="c7", exec_id=f"e{number}")
        if prompt is not None:
            message = request.start.messages.add(role="user")
            message.content.text.text = prompt
        call = self.method("unary_stream", "/ax.AgentService/Connect",
                           self.pb.AgentRequest, self.pb.AgentResponse)
        return call(request, timeout=PATIENCE,
                    metadata=[("execution-id", request.exec_id)])

    def run(self, prompt, number=1):
        """All of its output."""
        text, ends = "", 0
        for answer in self.connect(prompt, number):
            assert (answer.conversation_id, answer.exec_id) == ("c7", f"e{number}")
            assert not ends, "an answer after the end"
            ends += answer.WhichOneof("type") == "end"
            for message in answer.outputs.messages:
                assert message.role == "assistant"
                text += message.content.text.text
        assert ends == 1
        return text

    def health(self, service):
        call = self.channel.unary_unary("/grpc.health.v1.Health/Check")
        name = service.encode()
        return call((b"\n" + bytes([len(name)]) + name) if name else b"",
                    timeout=PATIENCE)


class Ax(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="wp-ax-")
        subprocess.run(["protoc", f"--python_out={cls.folder}", f"-I{AX}", "ax.proto"],
                       check=True)
        sys.path.insert(0, cls.folder)
        import ax_pb2
        cls.pb = ax_pb2
        cls.daemon = mcp_daemon.Daemon(BUILD, cls.folder, {}, text=manifests(),
                                       pool="ax-agent")
        try:
            cls.daemon.__enter__()
        except mcp_daemon.NoSandboxes as error:
            print("SKIP:", error)
            sys.exit(77)

    @classmethod
    def tearDownClass(cls):
        cls.daemon.__exit__()
        shutil.rmtree(cls.folder, ignore_errors=True)

    def client(self, name):
        client = Client(self.pb, self.daemon.claimed(name)["endpoint"])
        self.addCleanup(client.channel.close)
        return client

    def test_a_prompt(self):
        client = self.client("prompt")
        self.assertEqual(client.run("print(6 * 7)"), "42\n")
        self.assertEqual(client.run("Please run\n```python\nprint('in')\n```\nnow", 2),
                         "in\n")
        failed = client.run("import os\nprint(os.getcwd())\nraise SystemExit(3)", 3)
        self.assertEqual(failed, "/workspace\n[exit status 3]\n")
        self.assertIn("NameError", client.run("no_such_name", 4))
        with self.assertRaises(grpc.RpcError) as caught:
            client.run(None)
        self.assertEqual(caught.exception.code(), grpc.StatusCode.INVALID_ARGUMENT)
        # It runs in the sandbox: nothing of this machine is seen.
        self.assertEqual(client.run(
            f"import os; print(os.path.exists({self.folder!r}), os.getuid())", 5),
            "False 1000\n")

    def test_output_comes_as_it_is_made(self):
        client = self.client("stream")
        answers = client.connect(
            "import time\nopen('beat', 'w').write('x')\nprint('first')\n"
            "while True:\n    open('beat', 'w').write('x')\n    time.sleep(0.01)")
        self.assertTrue(next(answers).outputs.messages[0].content.text.text.startswith(
            "first"))
        # Who hangs up ends the program.
        answers.cancel()
        silent = ("import os, time\nwas = os.stat('beat').st_mtime_ns\n"
                  "time.sleep(1)\nprint(os.stat('beat').st_mtime_ns == was)")
        end = time.monotonic() + PATIENCE
        while client.run(silent) != "True\n":
            self.assertLess(time.monotonic(), end, "it runs on")

    def test_health(self):
        client = self.client("health")
        call = client.method("unary_unary", "/ax.AgentService/HealthCheck",
                             self.pb.HealthCheckRequest, self.pb.HealthCheckResponse)
        self.assertTrue(call(self.pb.HealthCheckRequest(), timeout=PATIENCE).healthy)
        serving = b"\x08\x01"
        self.assertEqual(client.health(""), serving)
        self.assertEqual(client.health("ax.AgentService"), serving)
        with self.assertRaises(grpc.RpcError) as caught:
            client.health("other")
        self.assertEqual(caught.exception.code(), grpc.StatusCode.NOT_FOUND)

    def test_an_address_that_serves(self):
        """Whoever is given a sandbox is answered at once, each time."""
        target = self.daemon.claimed("connects")["endpoint"]
        for number in range(CONNECTS):
            client = Client(self.pb, target)
            self.assertEqual(client.health(""), b"\x08\x01", number)
            client.channel.close()


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
