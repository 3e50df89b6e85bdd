"""A daemon that is attacked, the honest client beside it, and what is measured.

Everything lies in a directory that any user may pass through, since attackers on
Unix sockets are another user where the tests run as root.
"""

import http.client
import json
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
PATIENCE = 60
READY = 200  # Sandboxes, as files.
STRANGER, NEIGHBOUR = 65533, 65534  # Users: refused, and allowed.
# All of 127/8 is one peer. Where there is IPv6, the attacker on TCP comes from ::1
# and is another peer than the honest client; else he only has another address.
ATTACKER_ADDRESS = "127.0.0.2"
MANIFEST = """\
apiVersion: extensions.agents.x-k8s.io/v1beta1
kind: SandboxTemplate
metadata:
  name: nothing
spec:
  podTemplate:
    spec:
      containers:
        - name: nothing
          image: host
          command: ["true"]
          ports:
            - containerPort: 80
---
apiVersion: extensions.agents.x-k8s.io/v1beta1
kind: SandboxWarmPool
metadata:
  name: attack
  annotations:
    pool.warmpool.io/create-inflight-max: "64"
spec:
  replicas: %d
  sandboxTemplateRef:
    name: nothing
"""


def eventually(check, what, patience=PATIENCE):
    end = time.monotonic() + patience
    while time.monotonic() < end:
        value = check()
        if value:
            return value
        time.sleep(0.05)
    raise AssertionError("still not: " + what)


def has_ipv6():
    try:
        with socket.socket(socket.AF_INET6) as sock:
            sock.bind(("::1", 0))
        return True
    except OSError:
        return False


IPV6 = has_ipv6()


class Certificates:
    """An authority and what it signed; made once in a run."""

    def __init__(self, directory):
        self.dir = directory
        self.openssl("req", "-x509", "-newkey", "ec", "-pkeyopt",
                     "ec_paramgen_curve:prime256v1", "-nodes", "-keyout",
                     "ca.key", "-out", "ca.pem", "-subj", "/CN=attack-ca",
                     "-days", "2")
        self.issue("server", "DNS:localhost,IP:127.0.0.1")
        for name in ("honest", "attacker", "stranger"):
            self.issue(name, f"DNS:{name}.example.org")

    def openssl(self, *words):
        subprocess.run(["openssl", *words], cwd=self.dir, check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def issue(self, name, names):
        self.openssl("req", "-newkey", "ec", "-pkeyopt",
                     "ec_paramgen_curve:prime256v1", "-nodes", "-keyout",
                     name + ".key", "-out", name + ".csr", "-subj",
                     "/CN=" + name)
        with open(self.path(name + ".ext"), "w", encoding="ascii") as handle:
            handle.write(f"subjectAltName={names}\n")
        self.openssl("x509", "-req", "-in", name + ".csr", "-CA", "ca.pem",
                     "-CAkey", "ca.key", "-CAcreateserial", "-out",
                     name + ".pem", "-days", "2", "-extfile", name + ".ext")
        # The attacker is another user.
        os.chmod(self.path(name + ".key"), 0o644)

    def path(self, name):
        return os.path.join(self.dir, name)


class Daemon:
    """A warmpoold whose listener of one kind is attacked."""

    def __init__(self, program, kind, certificates, descriptors=None,
                 flags=()):
        self.kind = kind
        self.dir = tempfile.mkdtemp(prefix="wp-attack-")
        os.chmod(self.dir, 0o755)
        self.admin = os.path.join(self.dir, "admin.sock")
        self.http = os.path.join(self.dir, "http.sock")
        manifest = os.path.join(self.dir, "pool.yaml")
        with open(manifest, "w", encoding="utf-8") as handle:
            handle.write(MANIFEST % READY)
        other = IPV6 and kind in ("tcp", "tls", "mtls", "http", "metrics",
                                  "https", "trusting")
        tcp = "127.0.0.1:0" + (",[::1]:0" if other else "")
        # What is served beyond loopback listens everywhere.
        far = "0.0.0.0:0" + (",[::]:0" if IPV6 else "")
        own = {"https": "," + far, "trusting": ""}.get(kind, "," + tcp)
        args = [program, "--synthetic", "--manifests=" + manifest,
                "--runtime-dir=" + self.dir, "--lease-store=memory",
                "--slots-max=4096", "--http-listen=unix:" + self.http +
                own, "--metrics-listen=" + tcp,
                f"--allowed-uids={NEIGHBOUR}", *flags]
        self.unix = os.path.join(self.dir, "rpc.sock")
        listen = ["unix:" + self.admin]
        listen.append("unix:" + self.unix if kind == "unix" or
                      kind.startswith("http") or
                      kind in ("metrics", "trusting") else tcp)
        if kind == "trusting":
            args += ["--trusting-listen=" + far,
                     "--trust-sessions=127.0.0.1,::1"]
        if kind in ("tls", "mtls", "https"):
            args += ["--tls-cert=" + certificates.path("server.pem"),
                     "--tls-key=" + certificates.path("server.key")]
        if kind == "mtls":
            args += ["--tls-client-ca=" + certificates.path("ca.pem"),
                     "--identities=honest.example.org=team-a,"
                     "attacker.example.org=team-b"]
        args.append("--listen=" + ",".join(listen))
        self.log = os.path.join(self.dir, "log")

        def limit():
            if descriptors:
                resource.setrlimit(resource.RLIMIT_NOFILE,
                                   (descriptors, descriptors))
        with open(self.log, "wb") as out:
            self.process = subprocess.Popen(
                args, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                preexec_fn=limit)
        try:
            eventually(self.is_ready, "the daemon is ready")
        except BaseException:
            print(self.tail(), file=sys.stderr)
            self.stop()
            raise
        self.certificates = certificates

    def messages(self):
        with open(self.log, encoding="utf-8", errors="replace") as handle:
            return handle.read(1 << 20)

    def tail(self):
        return "".join(self.messages().splitlines(True)[-12:])

    def address(self, protocol, host="127.0.0.1"):
        """Where it said that it listens for it on TCP."""
        said = f"[{host}]" if ":" in host else host
        port = re.search(rf'listening protocol={protocol} '
                         rf'address="?{re.escape(said)}:(\d+)',
                         self.messages())[1]
        return [host, int(port)]

    def far_address(self, host):
        """The same for a listener on all addresses."""
        return [host, self.address("http", "::" if ":" in host
                                   else "0.0.0.0")[1]]

    def is_ready(self):
        if self.process.poll() is not None:
            raise AssertionError("the daemon has ended by itself")
        connection = http.client.HTTPConnection("localhost", timeout=PATIENCE)
        try:
            connection.sock = socket.socket(socket.AF_UNIX)
            connection.sock.settimeout(PATIENCE)
            connection.sock.connect(self.http)
            connection.request("GET", "/readyz")
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def target(self, who):
        """For an attacker ("attacker", "stranger") or the honest client."""
        kind = self.kind
        host = "::1" if IPV6 and who != "honest" else "127.0.0.1"
        target = {"kind": "unix", "address": self.unix, "source": None}
        if kind in ("tcp", "tls", "mtls"):
            target = {"kind": kind,
                      "address": self.address("grpc", host),
                      "ca": self.certificates.path("ca.pem"),
                      "cert": self.certificates.path(who + ".pem"),
                      "key": self.certificates.path(who + ".key")}
            if kind != "mtls" and who != "stranger":
                # An attacker that is let in reaches more than one that is not.
                with open(os.path.join(self.dir, "access.token"),
                          encoding="ascii") as handle:
                    target["bearer"] = handle.read().strip()
        elif kind != "unix":
            # Who is not trusted comes from another address than who is.
            near = kind == "trusting" and who == "stranger"
            place = (self.http if kind == "http-unix" else
                     self.far_address("127.0.0.1" if near else host)
                     if kind in ("https", "trusting") else
                     self.address(kind, host))
            ca = self.certificates.path("ca.pem") if kind == "https" else None
            if who == "honest":
                target["http"] = place
                target["http_ca"] = ca
            else:
                target = {"kind": "unix" if kind == "http-unix" else
                          "tls" if kind == "https" else "tcp",
                          "address": place, "ca": ca, "alpn": "http/1.1"}
            if near:
                return {**target, "source": ATTACKER_ADDRESS,
                        "uid": NEIGHBOUR}
        if who != "honest":
            target["source"] = None if IPV6 else ATTACKER_ADDRESS
            target["uid"] = STRANGER if who == "stranger" else NEIGHBOUR
        return target

    # --- What it uses ---

    def field(self, name):
        with open(f"/proc/{self.process.pid}/status",
                  encoding="ascii") as handle:
            return next(int(line.split()[1]) for line in handle
                        if line.startswith(name))

    def peak_mib(self):
        return self.field("VmHWM") / 1024

    def cpu_s(self):
        with open(f"/proc/{self.process.pid}/stat", encoding="ascii") as f:
            words = f.read().rpartition(")")[2].split()
        return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def watch(self, until, stop_mib):
        """Until until() is true. Returns the most descriptors that were seen;
        fails once it has grown to stop_mib."""
        most = 0
        while not until():
            if self.process.poll() is not None:
                raise AssertionError("the daemon has ended")
            most = max(most, self.descriptors())
            if self.field("VmRSS") / 1024 > stop_mib:
                raise AssertionError(
                    f"the daemon has grown to {stop_mib} MiB")
            time.sleep(0.02)
        return most

    def stop(self):
        """Its exit status; None when it had to be killed."""
        try:
            if self.process.poll() is None:
                self.process.send_signal(signal.SIGTERM)
            return self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return None
        finally:
            shutil.rmtree(self.dir, ignore_errors=True)


class Honest:
    """The honest client as a process."""

    def __init__(self, generated, target, rate):
        self.probes = "http" in target
        self.process = subprocess.Popen(
            [sys.executable, os.path.join(HERE, "honest.py"), generated,
             json.dumps(target), str(rate)], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True)
        self.lines = []
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        """Its lines: "new PHASE" for a claim that a new connection was opened
        for in that phase, "probe PHASE" for a probe; at the end, figures."""
        for line in self.process.stdout:
            self.lines.append(line)

    def phase(self, name):
        self.process.stdin.write(f"phase {name}\n")
        self.process.stdin.flush()

    def was_served(self, phase):
        """A connection that was opened in that phase, and a probe if any."""
        kinds = ["new"] + (["probe"] if self.probes else [])
        return all(f"{k} {phase}\n" in self.lines for k in kinds)

    def stop(self):
        """Its figures, once all that was under way has ended."""
        self.process.stdin.write("stop\n")
        self.process.stdin.close()
        self.reader.join(4 * PATIENCE)
        self.process.wait(PATIENCE)
        return json.loads(self.lines[-1])

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.reader.join()
        self.process.stdout.close()


class Attacker:
    def __init__(self, name, seconds, target):
        self.process = subprocess.Popen(
            [sys.executable, os.path.join(HERE, "attacker.py"), name,
             str(seconds), json.dumps(target)], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True)
        self.process.stdout.readline()

    def stop(self):
        """What it says it did. It may have ended by itself."""
        out, _ = self.process.communicate(timeout=2 * PATIENCE)
        if self.process.returncode != 0:
            raise AssertionError("the attacker failed: it proves nothing")
        return json.loads(out)

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()
