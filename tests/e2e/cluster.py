"""A real control plane on loopback: etcd, kube-apiserver, kube-controller-manager,
kube-scheduler, and KWOK for nodes and pods.

Everything lives in one folder and listens on ports that the kernel chose; only the
processes that were started here are ended. `python3 cluster.py --dir D` runs one until
it is interrupted, for work by hand.
"""
import argparse
import base64
import http.client
import json
import os
import pathlib
import secrets
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent


# Memory for processor time: a sixth less of it, where several run beside each other.
GO = {"GOGC": "400", "GOMEMLIMIT": "1GiB"}


class Unavailable(Exception):
    """The programs of a control plane cannot be had here."""


def programs(*more):
    """The folder with the programs; builds them when they are not there. more:
    "upstream", for agent-sandbox's own controllers too."""
    run = subprocess.run([HERE / "tools" / "build.sh", *more], text=True,
                         stdout=subprocess.PIPE, check=False)
    if run.returncode == 77:
        raise Unavailable("see above")
    if run.returncode != 0:
        raise RuntimeError("tools/build.sh failed")
    return pathlib.Path(run.stdout.strip())


HELD = []  # What keeps the ports of this process its own.


def free_port():
    """A port for a server that is started by this process, and started again. It
    stays bound here, without listening: the kernel gives it to nobody else, neither
    to a bind nor to a connection, and lets a server with SO_REUSEADDR (Go's,
    Redis) listen on it."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind(("127.0.0.1", 0))
    HELD.append(sock)
    return sock.getsockname()[1]


def wait_for(what, probe, timeout_s=300.0, every_s=0.05):
    """Calls probe until it returns something true, which is returned."""
    end = time.monotonic() + timeout_s
    last = None
    while time.monotonic() < end:
        try:
            found = probe()
            if found:
                return found
        except (OSError, http.client.HTTPException) as error:
            last = error
        time.sleep(every_s)
    raise TimeoutError(f"{what}: not within {timeout_s:g} s ({last})")


class Cluster:
    """Use as a context manager. The admin's kubeconfig is `kubeconfig`."""

    def __init__(self, directory, nodes=4, fsync=True, stages=(),
                 controllers=(), start_ms=0):
        """stages: files of KWOK beside kwok.yaml; controllers: of the controller
        manager, beside those that it always runs; start_ms: how long each pod takes
        to start."""
        self.dir = pathlib.Path(directory)
        self.stages = stages
        self.start_ms = start_ms
        self.controllers = controllers
        self.nodes = nodes
        self.fsync = fsync
        self.bin = programs()
        self.processes = {}
        self.commands = {}
        self.tokens = {}
        self.etcd_port = free_port()
        self.port = free_port()
        self.server = f"https://127.0.0.1:{self.port}"
        self.kubeconfig = self.dir / "admin.kubeconfig"

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_):
        self.stop()

    # --- processes ---

    def spawn(self, name, command):
        self.commands[name] = [str(part) for part in command]
        with open(self.dir / f"{name}.log", "ab") as log:
            # A group of its own: an interrupt reaches this program first.
            self.processes[name] = subprocess.Popen(
                self.commands[name], stdout=log, stderr=log,
                stdin=subprocess.DEVNULL, cwd=self.dir,
                start_new_session=True, env={**os.environ, **GO})
        return self.processes[name]

    def kill(self, name, sig=signal.SIGKILL):
        process = self.processes.pop(name)
        process.send_signal(sig)
        process.wait()

    def restart(self, name):
        if name in self.processes:
            self.kill(name)
        self.spawn(name, self.commands[name])
        if name == "kube-apiserver":
            self.wait_ready()

    def pause(self, name, seconds):
        """The process stands still for so long."""
        process = self.processes[name]
        process.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        process.send_signal(signal.SIGCONT)

    def backup(self):
        """etcd's files as they are, as a crash at this moment would leave them."""
        self.processes["etcd"].send_signal(signal.SIGSTOP)
        try:
            shutil.copytree(self.dir / "etcd", self.dir / "etcd-backup")
        finally:
            self.processes["etcd"].send_signal(signal.SIGCONT)

    def restore(self):
        """That is all there is again, versions included. What keeps copies of its own
        is started anew, as Kubernetes asks for; the daemons are not told."""
        names = ("kwok", "kube-scheduler", "kube-controller-manager",
                 "kube-apiserver", "etcd")
        for name in names:
            self.kill(name)
        shutil.rmtree(self.dir / "etcd")
        shutil.move(self.dir / "etcd-backup", self.dir / "etcd")
        for name in reversed(names):
            self.restart(name)
            if name == "etcd":
                self.wait_etcd()

    def stop(self):
        order = ["kwok", "kube-scheduler", "kube-controller-manager",
                 "kube-apiserver", "etcd"]
        names = [n for n in self.processes if n not in order]
        for name in names + order:
            if name in self.processes:
                process = self.processes.pop(name)
                process.send_signal(signal.SIGCONT)
                process.terminate()
                try:
                    process.wait(5)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()

    # --- start ---

    def start(self):
        self.dir.mkdir(parents=True, exist_ok=True)
        self._write_secrets()
        self._start_etcd()
        self._start_apiserver()
        self.wait_ready()
        self._start_managers()
        self._add_nodes()
        wait_for("the default service account", lambda: self.get(
            "/api/v1/namespaces/default/serviceaccounts/default") is not None)

    def _write_secrets(self):
        key = self.dir / "sa.key"
        subprocess.run(["openssl", "genrsa", "-out", key, "2048"], check=True,
                       stderr=subprocess.DEVNULL)
        for user, groups in (("admin", "system:masters"),
                             ("kcm", "system:masters"),
                             ("scheduler", "system:masters"),
                             ("kwok", "system:masters")):
            self.tokens[user] = secrets.token_hex(16)
            self._token_line(user, groups)

    def _token_line(self, user, groups):
        with open(self.dir / "tokens.csv", "a", encoding="ascii") as out:
            out.write(f'{self.tokens[user]},{user},{user},"{groups}"\n')

    def _start_etcd(self):
        peer = free_port()
        url = f"http://127.0.0.1:{self.etcd_port}"
        command = [self.bin / "etcd", "--data-dir", self.dir / "etcd",
                   "--listen-client-urls", url,
                   "--advertise-client-urls", url,
                   "--listen-peer-urls", f"http://127.0.0.1:{peer}",
                   "--initial-advertise-peer-urls",
                   f"http://127.0.0.1:{peer}",
                   "--initial-cluster", f"default=http://127.0.0.1:{peer}",
                   "--quota-backend-bytes", "4294967296"]
        if not self.fsync:
            command.append("--unsafe-no-fsync")
        self.spawn("etcd", command)

        self.wait_etcd()

    def wait_etcd(self):
        url = f"http://127.0.0.1:{self.etcd_port}/health"

        def healthy():
            with urllib.request.urlopen(url, timeout=2) as answer:
                return b"true" in answer.read()
        wait_for("etcd", healthy)

    def _start_apiserver(self):
        key = self.dir / "sa.key"
        self.spawn("kube-apiserver", [
            self.bin / "kube-apiserver",
            "--etcd-servers", f"http://127.0.0.1:{self.etcd_port}",
            "--bind-address", "127.0.0.1",
            "--advertise-address", "127.0.0.1",
            "--secure-port", self.port,
            "--cert-dir", self.dir / "apiserver-certs",
            "--authorization-mode", "RBAC",
            "--token-auth-file", self.dir / "tokens.csv",
            "--service-account-issuer", self.server,
            "--service-account-key-file", key,
            "--service-account-signing-key-file", key,
            "--service-cluster-ip-range", "10.96.0.0/16",
            "--max-requests-inflight", "2000",
            "--max-mutating-requests-inflight", "1000",
            "--endpoint-reconciler-type", "none",
            # Nobody here takes the taint of a new node away.
            "--disable-admission-plugins", "TaintNodesByCondition",
            "--v", "1"])

    def _start_managers(self):
        for user in ("admin", "kcm", "scheduler", "kwok"):
            self.write_kubeconfig(user)
        key = self.dir / "sa.key"
        self.spawn("kube-controller-manager", [
            self.bin / "kube-controller-manager",
            "--kubeconfig", self.dir / "kcm.kubeconfig",
            "--service-account-private-key-file", key,
            "--root-ca-file", self.dir / "apiserver-certs" / "apiserver.crt",
            "--leader-elect=false", "--secure-port", free_port(),
            "--bind-address", "127.0.0.1",
            "--cert-dir", self.dir / "kcm-certs",
            "--kube-api-qps", "1000", "--kube-api-burst", "2000",
            "--controllers",
            "garbage-collector-controller,namespace-controller,"
            "serviceaccount-controller,deployment-controller,"
            "replicaset-controller,horizontal-pod-autoscaler-controller" +
            "".join(f",{name}" for name in self.controllers)])
        self.spawn("kube-scheduler", [
            self.bin / "kube-scheduler",
            "--kubeconfig", self.dir / "scheduler.kubeconfig",
            "--leader-elect=false", "--secure-port", free_port(),
            "--bind-address", "127.0.0.1",
            "--cert-dir", self.dir / "scheduler-certs",
            "--kube-api-qps", "1000", "--kube-api-burst", "2000"])
        self.spawn("kwok", [
            self.bin / "kwok", "--kubeconfig", self.dir / "kwok.kubeconfig",
            "--manage-all-nodes=true", "--node-lease-duration-seconds", "0",
            "--cidr", "10.244.0.0/16", "--node-ip", "127.0.0.1",
            *(part for file in [self._write_stages(), *self.stages]
              for part in ("--config", file))])

    def _write_stages(self):
        path = self.dir / "kwok.yaml"
        path.write_text((HERE / "kwok.yaml").read_text().replace(
            "durationMilliseconds: 0}",
            f"durationMilliseconds: {self.start_ms}}}"))
        return path

    def _add_nodes(self):
        for number in range(self.nodes):
            name = f"node-{number}"
            # Not 20000, which is told as "20k": load harnesses read a number.
            room = {"cpu": "4000", "memory": "16Ti", "pods": "20001",
                    "ephemeral-storage": "16Ti"}
            self.request("POST", "/api/v1/nodes", {
                "apiVersion": "v1", "kind": "Node",
                "metadata": {"name": name, "labels": {
                    "kubernetes.io/hostname": name, "type": "kwok"},
                    "annotations": {"kwok.x-k8s.io/node": "fake"}},
                "status": {"allocatable": room, "capacity": room}})

    def wait_ready(self):
        wait_for("kube-apiserver", lambda: self.request(
            "GET", "/readyz", raw=True)[0] == 200, timeout_s=300)

    # --- access ---

    def ca_file(self):
        return self.dir / "apiserver-certs" / "apiserver.crt"

    def write_kubeconfig(self, user, namespace="default"):
        """For a user of the token file; returns its path."""
        path = self.dir / f"{user}.kubeconfig"
        authority = base64.b64encode(self.ca_file().read_bytes()).decode()
        path.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "e2e",
            "clusters": [{"name": "e2e", "cluster": {
                "server": self.server,
                "certificate-authority-data": authority}}],
            "users": [{"name": user, "user": {"token": self.tokens[user]}}],
            "contexts": [{"name": "e2e", "context": {
                "cluster": "e2e", "user": user, "namespace": namespace}}]}),
            encoding="ascii")
        path.chmod(0o600)
        return path

    def service_account_kubeconfig(self, namespace, account):
        """As the service account of a Deployment would be: with its rights."""
        answer = self.request(
            "POST", f"/api/v1/namespaces/{namespace}/serviceaccounts/"
            f"{account}/token", {"apiVersion": "authentication.k8s.io/v1",
                                 "kind": "TokenRequest", "spec": {}})
        name = f"{namespace}.{account}"
        self.tokens[name] = answer["status"]["token"]
        return self.write_kubeconfig(name, namespace)

    def context(self):
        return ssl.create_default_context(cafile=str(self.ca_file()))

    def request(self, method, path, body=None, content_type="application/json",
                raw=False):
        """The decoded answer; raises HTTPError. raw: (code, bytes)."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            self.server + path, data=data, method=method, headers={
                "Authorization": "Bearer " + self.tokens["admin"],
                "Content-Type": content_type, "Accept": "application/json"})
        again = False
        for attempt in range(30):
            try:
                with urllib.request.urlopen(request, context=self.context(),
                                            timeout=120) as answer:
                    text = answer.read()
                return (answer.status, text) if raw else json.loads(text)
            except urllib.error.HTTPError as error:
                if error.code == 409 and again and method == "POST":
                    # Done, though the answer said something else.
                    return self.request(
                        "GET", f"{path}/{body['metadata']['name']}")
                # 429: not done, the storage of a new kind is being set up.
                # The others: etcd was too slow, on a machine that is busy.
                if error.code not in (429, 500, 503, 504) or raw or \
                        attempt == 29:
                    raise
                again = again or error.code != 429
                time.sleep(float(error.headers.get("Retry-After", 1)))

    def get(self, path):
        """None when there is no such object."""
        try:
            return self.request("GET", path)
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return None
            raise

    def patch(self, path, body):
        return self.request("PATCH", path, body,
                            "application/merge-patch+json")

    def delete(self, path):
        try:
            return self.request("DELETE", path)
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return None
            raise

    def kubectl(self, *arguments, stdin=None, check=True):
        run = subprocess.run(
            [self.bin / "kubectl", "--kubeconfig", self.kubeconfig,
             *arguments], input=stdin, text=True, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, check=False)
        if check and run.returncode != 0:
            raise RuntimeError(f"kubectl {' '.join(map(str, arguments))}: "
                               f"{run.stderr.strip()}")
        return run.stdout if check else run

    def metrics(self, *names):
        """Samples of the API server whose name is among names:
        {(name, labels): value}."""
        text = self.request("GET", "/metrics", raw=True)[1].decode()
        found = {}
        for line in text.splitlines():
            name = line.split("{", 1)[0].split(" ", 1)[0]
            if name in names:
                key, value = line.rsplit(" ", 1)
                found[key] = float(value)
        return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dir", required=True)
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument("--no-fsync", action="store_true")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        with Cluster(options.dir, options.nodes,
                     not options.no_fsync) as cluster:
            print(f"export KUBECONFIG={cluster.kubeconfig}")
            print(f"export PATH={cluster.bin}:$PATH", flush=True)
            signal.pause()
    except Unavailable as reason:
        print(f"SKIP: {reason}", file=sys.stderr)
        return 77
    except KeyboardInterrupt:
        pass
    return 0


if __name__ == "__main__":
    sys.exit(main())
