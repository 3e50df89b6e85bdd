"""A real warmpoold with one pool of real sandboxes on this machine."""
import json
import os
import re
import shutil
import socket
import subprocess
import time

PATIENCE = 120
MANIFEST = """apiVersion: extensions.agents.x-k8s.io/v1beta1
kind: SandboxTemplate
metadata:
  name: tools
spec:
  podTemplate:
    spec:
%(more)s      containers:
        - name: sandbox
          image: %(image)s
          command: %(command)s
          args: %(args)s
          env: %(env)s
          ports:
            - containerPort: 8080
          readinessProbe:
            tcpSocket:
              port: 8080
          volumeMounts: %(mounts)s
      volumes: %(volumes)s
---
apiVersion: extensions.agents.x-k8s.io/v1beta1
kind: SandboxWarmPool
metadata:
  name: tools
spec:
  replicas: 1
  sandboxTemplateRef:
    name: tools
"""


class NoSandboxes(Exception):
    """This machine cannot make them."""


class Daemon:
    """Listens on a Unix socket, http_path, where nobody needs a token."""

    def __init__(self, build, folder, container, more=None, text=None, pool="tools"):
        self.build = build
        self.pool = pool
        self.folder = os.path.join(folder, "daemon")
        os.makedirs(self.folder)
        for part in (folder, self.folder):
            os.chmod(part, 0o755)  # Sandboxes' users pass through it.
        self.run = os.path.join(self.folder, "r")
        self.http_path = os.path.join(self.run, "warmpoold-http.sock")
        manifest = os.path.join(self.folder, "m.yaml")
        workspace = [{"name": "workspace", "mountPath": "/workspace"}]
        fields = {"image": container.get("image"),
                  "command": json.dumps(container.get("command")),
                  "args": json.dumps(container.get("args", [])),
                  "env": json.dumps(container.get("env", [])),
                  "mounts": json.dumps(workspace + container.get("mounts", [])),
                  "volumes": json.dumps([{"name": "workspace", "emptyDir": {}}] +
                                        container.get("volumes", [])),
                  "more": more or ""}
        with open(manifest, "w", encoding="utf-8") as file:
            file.write(text or MANIFEST % fields)
        self.log_path = os.path.join(self.folder, "log")
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(
                [os.path.join(build, "allocator", "warmpoold"),
                 "--manifests=" + manifest, "--runtime-dir=" + self.run,
                 "--state-dir=" + os.path.join(self.folder, "s"),
                 "--rootfs-dir=" + container.get("rootfs", ""),
                 "--sandbox-limits=best_effort", "--lease-store=memory"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def log(self):
        with open(self.log_path, encoding="utf-8") as file:
            return file.read()

    def get(self, path):
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(PATIENCE)
            sock.connect(self.http_path)
            sock.sendall(b"GET %s HTTP/1.0\r\n\r\n" % path.encode())
            got = b""
            while piece := sock.recv(65536):
                got += piece
        return int(got.split()[1])

    def __enter__(self):
        end = time.monotonic() + PATIENCE
        while True:
            try:
                if self.get("/readyz") == 200:
                    return self
            except OSError:
                pass  # It does not listen yet.
            if self.process.poll() is not None or time.monotonic() > end:
                self.__exit__()
                why = re.search("this machine cannot make sandboxes.*", self.log())
                if why:
                    raise NoSandboxes(why.group(0))
                raise AssertionError("no daemon: " + self.log())
            time.sleep(0.02)

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.terminate()
        self.process.wait(PATIENCE)

    def claim(self, name):
        """The name of a sandbox that is this claim's."""
        return self.claimed(name)["sandbox"]

    def claimed(self, name):
        """What is told of it."""
        done = subprocess.run(
            [os.path.join(self.build, "allocator", "ctl", "warmpoolctl"), "claim",
             self.pool, "--id", name, "--ttl", "10m", "--wait", "60s", "--output",
             "json"], text=True, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, env=dict(
                os.environ, HOME=self.folder, XDG_STATE_HOME=self.folder,
                WARMPOOL_ADDRESS="unix:" + os.path.join(self.run,
                                                        "warmpoold.sock")))
        if done.returncode != 0:
            raise AssertionError(done.stderr + self.log())
        return json.loads(done.stdout)


def image(folder, name, *programs):
    """A root filesystem with a shell, and with programs at its root."""
    root = os.path.join(folder, name)
    for part in ("bin", "lib", "lib64", "usr", "etc", "tmp", "workspace"):
        os.makedirs(os.path.join(root, part), exist_ok=True)
    for program in ("sh", "cat", "sleep", "touch", "cp", "mkdir"):
        path = shutil.which(program)
        shutil.copy(path, os.path.join(root, "bin", program))
        libraries = subprocess.run(["ldd", path], text=True,
                                   stdout=subprocess.PIPE).stdout
        for library in re.findall(r"(/\S+) \(0x", libraries):
            os.makedirs(os.path.dirname(root + library), exist_ok=True)
            shutil.copy(os.path.realpath(library), root + library)
    for program in programs:
        shutil.copy(program, root)
    return root
