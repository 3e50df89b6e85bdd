"""The fake Kubernetes API server (tests/support/fake_api/fake_api.h) for tests in Python."""

import http.client
import json
import socket
import subprocess
import threading
import time
import urllib.parse

PATIENCE = 60  # Of an awaited event, on a machine that is busy.
CLAIMS = "/apis/extensions.agents.x-k8s.io/v1beta1"
CORE = "/apis/agents.x-k8s.io/v1beta1"
PLURAL_PATHS = {
    "sandboxes": CORE,
    "sandboxclaims": CLAIMS,
    "sandboxtemplates": CLAIMS,
    "sandboxwarmpools": CLAIMS,
    "pods": "/api/v1",
    "services": "/api/v1",
    "secrets": "/api/v1",
    "configmaps": "/api/v1",
    "leases": "/apis/coordination.k8s.io/v1",
    "networkpolicies": "/apis/networking.k8s.io/v1",
    "events": "/apis/events.k8s.io/v1",
}
KINDS = {
    "sandboxes": "Sandbox",
    "sandboxclaims": "SandboxClaim",
    "sandboxtemplates": "SandboxTemplate",
    "sandboxwarmpools": "SandboxWarmPool",
    "pods": "Pod",
    "services": "Service",
    "secrets": "Secret",
    "configmaps": "ConfigMap",
    "leases": "Lease",
    "networkpolicies": "NetworkPolicy",
    "events": "Event",
}


def eventually(check, what, patience=PATIENCE):
    """What check returned once it was true."""
    end = time.monotonic() + patience
    while True:
        value = check()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"waited too long for: {what}")
        time.sleep(0.01)


def path_of(plural, ns=None, name=None, subresource=None):
    path = PLURAL_PATHS[plural]
    if ns:
        path += f"/namespaces/{ns}"
    path += f"/{plural}"
    if name:
        path += f"/{name}"
    if subresource:
        path += f"/{subresource}"
    return path


class Answer:
    def __init__(self, code, headers, body):
        self.code = code
        self.headers = headers
        self.body = body

    def __getitem__(self, key):
        return self.body[key]


class Watch:
    """The events of a watch, collected by a thread."""

    def __init__(self, port, path):
        self.connection = http.client.HTTPConnection("127.0.0.1", port)
        self.connection.request("GET", path)
        self.socket = self.connection.sock
        self.response = self.connection.getresponse()
        self.code = self.response.status
        self.events = []
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self):
        try:
            for line in self.response:
                self.events.append((time.monotonic(), json.loads(line)))
        except (OSError, ValueError, http.client.HTTPException):
            pass
        self.ended.set()

    def types(self):
        return [event["type"] for _, event in self.events]

    def close(self):
        try:
            self.socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.thread.join(PATIENCE)
        self.response.close()
        self.connection.close()


class FakeApi:
    def __init__(self, program, *options):
        self.process = subprocess.Popen(
            [program, *options], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True)
        self.url = self.process.stdout.readline().strip()
        self.port = urllib.parse.urlparse(self.url).port
        self.lock = threading.Lock()

    def control(self, operation, **args):
        with self.lock:
            self.process.stdin.write(f"{operation} {json.dumps(args)}\n")
            self.process.stdin.flush()
            return json.loads(self.process.stdout.readline())

    def request(self, method, path, body=None,
                content_type="application/json"):
        connection = http.client.HTTPConnection("127.0.0.1", self.port,
                                                timeout=PATIENCE)
        try:
            connection.request(
                method, path, None if body is None else json.dumps(body),
                {} if body is None else {"Content-Type": content_type})
            response = connection.getresponse()
            text = response.read()
            try:
                parsed = json.loads(text)
            except ValueError:
                parsed = text
            return Answer(response.status, response.headers, parsed)
        finally:
            connection.close()

    def create(self, plural, ns, name, **fields):
        prefix = PLURAL_PATHS[plural]
        version = prefix.split("/", 2)[2]
        meta = fields.pop("metadata", {})
        if name:
            meta = {"name": name, **meta}
        return self.request("POST", path_of(plural, ns), {
            "apiVersion": version, "kind": KINDS[plural], "metadata": meta,
            **fields})

    def get(self, plural, ns, name):
        answer = self.request("GET", path_of(plural, ns, name))
        return answer.body if answer.code == 200 else None

    def patch(self, plural, ns, name, body, subresource=None):
        return self.request("PATCH", path_of(plural, ns, name, subresource),
                            body, "application/merge-patch+json")

    def delete(self, plural, ns, name, **options):
        return self.request("DELETE", path_of(plural, ns, name),
                            options or None)

    def all(self, plural):
        return self.control("all", kind=plural)

    def watch(self, plural, ns=None, **query):
        query = urllib.parse.urlencode({"watch": "true", **query})
        return Watch(self.port, f"{path_of(plural, ns)}?{query}")

    def stop(self):
        if self.process.poll() is None:
            self.process.stdin.close()
            try:
                self.process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self.process.kill()
        self.process.stdout.close()
