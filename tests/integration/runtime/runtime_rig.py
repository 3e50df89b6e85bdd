"""Starts the real warmpool-runtime for the tests, and speaks to it."""
import ctypes
import http.client
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest

BINARY = os.path.abspath(os.environ.get("WP_RUNTIME_BINARY", "missing"))
DEADLINE_S = 90


def wait_until(condition, what, deadline_s=DEADLINE_S):
    """Polls condition until it gives something true, which is returned."""
    end = time.monotonic() + deadline_s
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.01)
    raise AssertionError("not within %d s: %s" % (deadline_s, what))


def read_text(path):
    try:
        with open(path) as file:
            return file.read()
    except FileNotFoundError:
        return ""


def read_bytes(path):
    with open(path, "rb") as file:
        return file.read()


def bound_by_modes():
    """For preexec_fn: to root's program, too, file modes say what it may."""
    for capability in (1, 2):  # DAC_OVERRIDE and DAC_READ_SEARCH.
        ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP


def process_gone(pid):
    """True when pid is no process, or a dead one that nobody has reaped."""
    try:
        with open("/proc/%d/stat" % pid) as file:
            return file.read().rsplit(")", 1)[1].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def events(body):
    """[(id or None, decoded data or None)] of a text/event-stream."""
    found = []
    for block in body.decode().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.split("\n")
                      if ": " in line and not line.startswith(":"))
        if fields:
            data = fields.get("data")
            found.append((fields.get("id"), json.loads(data) if data else None))
    return found


class Server:
    """One process of the server, with a workspace of its own."""

    def __init__(self, *args, workspace=None, env=None, ports=("--port", "0"),
                 preexec_fn=None):
        self.dir = tempfile.mkdtemp(prefix="wp-runtime-")
        self.workspace = workspace or os.path.join(self.dir, "workspace")
        self.skills = os.path.join(self.dir, "skills")
        os.makedirs(self.workspace, exist_ok=True)
        port_file = os.path.join(self.dir, "ports")
        self.log_path = os.path.join(self.dir, "log")
        self.args = [BINARY, *ports, "--bind", "127.0.0.1", "--port-file",
                     port_file, "--workspace", self.workspace,
                     "--skills-dir", self.skills, *args]
        environ = {k: v for k, v in os.environ.items() if k != "PORT"}
        environ.update(env or {})
        started = time.monotonic()
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(
                self.args, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                cwd=self.dir, env=environ, preexec_fn=preexec_fn)

        def told():
            assert self.process.poll() is None, read_text(self.log_path)
            return read_text(port_file)
        text = wait_until(told, "the port file")
        self.start_s = time.monotonic() - started
        self.ports = {name: int(port) for name, port in
                      (line.split() for line in text.splitlines())}
        self.port = self.ports.get("all", 0)
        self.files = self.lasting_files()

    def open_files(self):
        """What its descriptors lead to."""
        found = []
        folder = f"/proc/{self.process.pid}/fd"
        for name in os.listdir(folder):
            try:
                found.append(os.readlink(os.path.join(folder, name)))
            except FileNotFoundError:  # Closed meanwhile.
                pass
        return sorted(found)

    def lasting_files(self):
        """Those without connections and the pipes of processes."""
        return [target for target in self.open_files()
                if not target.startswith(("socket:", "pipe:"))]

    def stop(self):
        """Ends the server by SIGTERM; its exit code."""
        if self.process.poll() is None:
            self.process.terminate()
        try:
            code = self.process.wait(DEADLINE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        if code != 0:
            sys.stderr.write(read_text(self.log_path))
        shutil.rmtree(self.dir, ignore_errors=True)
        return code

    def path(self, *parts):
        return os.path.join(self.workspace, *parts)

    def request(self, method, target, body=None, headers=None, port=None,
                timeout=DEADLINE_S):
        """(status, headers, body) of one request on its own connection."""
        conn = http.client.HTTPConnection("127.0.0.1", port or self.port,
                                          timeout=timeout)
        try:
            conn.request(method, target, body, headers or {})
            answer = conn.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            conn.close()

    def get_json(self, target):
        status, _, body = self.request("GET", target)
        return status, json.loads(body)

    def execute(self, command, timeout=DEADLINE_S):
        status, _, body = self.request(
            "POST", "/execute", json.dumps({"command": command}),
            {"Content-Type": "application/json"}, timeout=timeout)
        return status, json.loads(body)

    def upload(self, filename, content, field="file"):
        boundary = "----warmpooltest"
        body = (("--%s\r\nContent-Disposition: form-data; name=\"%s\"; "
                 "filename=\"%s\"\r\nContent-Type: application/octet-stream"
                 "\r\n\r\n" % (boundary, field, filename)).encode() + content +
                ("\r\n--%s--\r\n" % boundary).encode())
        status, _, answer = self.request(
            "POST", "/upload", body,
            {"Content-Type": "multipart/form-data; boundary=" + boundary})
        return status, json.loads(answer)

    def rpc(self, message, headers=None, path="/mcp", **options):
        """(status, headers, decoded body or None) of an MCP POST."""
        send = {"Content-Type": "application/json",
                "Accept": "application/json, text/event-stream"}
        send.update(headers or {})
        body = message if isinstance(message, (bytes, str)) \
            else json.dumps(message)
        status, got, answer = self.request("POST", path, body, send, **options)
        if got.get("Content-Type") == "text/event-stream":
            return status, got, events(answer)[-1][1]
        return status, got, json.loads(answer) if answer else None

    def tool(self, name, arguments, **options):
        """(is_error, text) of a tools/call."""
        status, _, answer = self.rpc(
            {"jsonrpc": "2.0", "id": 1, "method": "tools/call",
             "params": {"name": name, "arguments": arguments}}, **options)
        assert status == 200, answer
        result = answer["result"]
        assert len(result["content"]) == 1, result
        assert result["content"][0]["type"] == "text", result
        return result.get("isError", False), result["content"][0]["text"]

    def exec_tool(self, command, **arguments):
        is_error, text = self.tool("exec", dict(arguments, command=command))
        assert not is_error, text
        return json.loads(text)


class ExecStream:
    """The client side of POST /v1/exec."""
    STDIN, STDIN_EOF, SIGNAL, STDOUT, STDERR, EXIT, ERROR = \
        0, 1, 2, 16, 17, 18, 19

    def __init__(self, where, request, receive_buffer=None, extra=b""):
        """where is a port, or the path of a Unix socket."""
        is_port = isinstance(where, int)
        self.sock = socket.socket(
            socket.AF_INET if is_port else socket.AF_UNIX)
        if receive_buffer:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF,
                                 receive_buffer)
        self.sock.settimeout(DEADLINE_S)
        self.sock.connect(("127.0.0.1", where) if is_port else where)
        body = json.dumps(request).encode()
        self.sock.sendall(
            b"POST /v1/exec HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\n"
            b"Upgrade: warmpool-exec/1\r\nContent-Length: %d\r\n\r\n%s%s"
            % (len(body), body, extra))
        head = b""
        while b"\r\n\r\n" not in head:
            byte = self.sock.recv(1)
            assert byte, head
            head += byte
        self.status = int(head.split()[1])

    @staticmethod
    def frame(kind, payload=b""):
        return struct.pack(">B3xI", kind, len(payload)) + payload

    def send(self, kind, payload=b""):
        self.sock.sendall(self.frame(kind, payload))

    def _exactly(self, count):
        data = b""
        while len(data) < count:
            piece = self.sock.recv(count - len(data))
            if not piece:
                raise EOFError("connection closed in a frame")
            data += piece
        return data

    def receive(self):
        kind, length = struct.unpack(">B3xI", self._exactly(8))
        assert length <= 65536
        return kind, self._exactly(length)

    def finish(self):
        """(stdout, stderr, what EXIT says, or the text of ERROR)."""
        output = {self.STDOUT: b"", self.STDERR: b""}
        while True:
            kind, payload = self.receive()
            if kind in output:
                output[kind] += payload
                continue
            assert self.sock.recv(1) == b"", "something after the last frame"
            self.sock.close()
            last = json.loads(payload) if kind == self.EXIT \
                else payload.decode()
            return output[self.STDOUT], output[self.STDERR], last


class ServerCase(unittest.TestCase):
    """A test class with one server for all its tests, which has closed in the
    end what it has opened."""
    ARGS = ()
    PREEXEC = None

    @classmethod
    def setUpClass(cls):
        cls.server = Server(*cls.ARGS, preexec_fn=cls.PREEXEC)

    @classmethod
    def check_files(cls):
        end = time.monotonic() + DEADLINE_S
        while time.monotonic() < end and \
                cls.server.lasting_files() != cls.server.files:
            time.sleep(0.01)
        assert cls.server.lasting_files() == cls.server.files, (
            cls.server.lasting_files(), cls.server.files)

    @classmethod
    def tearDownClass(cls):
        try:
            if cls.server.process.poll() is None:  # No test has killed it.
                cls.check_files()
        finally:
            code = cls.server.stop()
        assert code == 0, "the server ended with %d" % code


def main():
    signal.alarm(600)  # Never hang a test run.
    if not os.access(BINARY, os.X_OK):
        sys.exit("WP_RUNTIME_BINARY must name the server's program")
    unittest.main()
