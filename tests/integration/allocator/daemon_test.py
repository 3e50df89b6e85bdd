"""warmpoold as its users see it: real sandboxes, gRPC, HTTP, signals.

Run by ctest: daemon_test.py WARMPOOLD GENERATED_DIR DEPLOY_DIR [unittest
arguments]. Needs a host that lets it make sandboxes; exits with 77 elsewhere.
"""

import contextlib
import http.client
import json
import os
import re
import resource
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest

import grpc

DAEMON, GENERATED, DEPLOY = (os.path.abspath(a) for a in sys.argv[1:4])
sys.path.insert(0, GENERATED)

from warmpool.v1 import allocator_pb2 as pb  # noqa: E402

PATIENCE = 90  # Of an awaited event; a sanitizer's build is slow.
ENDS_WITHIN_S = 10  # The store that it would ask may be gone.
MANIFEST = os.path.join(DEPLOY, "examples", "quickstart.yaml")
POOL = pb.PoolRef(name="quickstart")
NO_DESCRIPTORS = ("not ready: no connection can be accepted for want of "
                  "descriptors\n")


def eventually(check, what):
    """Polls until check() is true (its value is returned), or fails."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        value = check()
        if value:
            return value
        time.sleep(0.01)
    raise AssertionError("still not: " + what)


class UnixHTTPConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=PATIENCE)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Daemon:
    """A warmpoold in a directory of its own."""

    def __init__(self, *flags, manifest=MANIFEST, directory=None, replicas=3,
                 prefix=()):
        self.dir = directory or tempfile.mkdtemp(prefix="wp-daemon-")
        os.chmod(self.dir, 0o755)  # Sandboxes' users pass through it.
        self.manifest = os.path.join(self.dir, "m.yaml")
        self.write_manifest(replicas, manifest)
        self.state = os.path.join(self.dir, "s")
        run = os.path.join(self.dir, "r")
        self.http_path = os.path.join(run, "warmpoold-http.sock")
        self.log_path = os.path.join(self.dir, "log")
        self.notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        notify_path = os.path.join(self.dir, "notify")
        if os.path.exists(notify_path):
            os.unlink(notify_path)
        self.notify.bind(notify_path)
        self.notify.settimeout(PATIENCE)
        self.log = open(self.log_path, "ab")
        # What these tests are about does not depend on what keeps leases, and
        # a stop leaves nothing; daemon_lease_test.py is about the others.
        self.args = [DAEMON, "--manifests=" + self.manifest,
                     "--state-dir=" + self.state, "--runtime-dir=" + run]
        # They run where no control group can be made, too.
        self.args.append("--sandbox-limits=best_effort")
        if not any(f.startswith("--lease-store=") for f in flags):
            self.args.append("--lease-store=memory")
        self.process = subprocess.Popen(
            [*prefix, *self.args, *flags], stdout=self.log, stderr=self.log,
            env=dict(os.environ, NOTIFY_SOCKET=notify_path))
        self.grpc_path = os.path.join(run, "warmpoold.sock")
        self.channel = grpc.insecure_channel(
            "unix:" + self.grpc_path,
            options=[("grpc.use_local_subchannel_pool", 1)])

    def listening(self):
        """Asked with a socket: a channel pauses between its attempts."""
        with socket.socket(socket.AF_UNIX) as sock:
            return sock.connect_ex(self.grpc_path) == 0

    def write_manifest(self, replicas, source=MANIFEST):
        with open(source, encoding="utf-8") as handle:
            text = handle.read()
        with open(self.manifest, "w", encoding="utf-8") as handle:
            handle.write(re.sub(r"replicas: \d+", f"replicas: {replicas}",
                                text))

    def messages(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as handle:
            return handle.read()

    def rpc(self, method, request, reply, timeout=PATIENCE):
        call = self.channel.unary_unary(
            "/warmpool.v1." + method,
            request_serializer=lambda m: m.SerializeToString(),
            response_deserializer=reply.FromString)
        return call(request, timeout=timeout)

    def claim(self, claim_id, **more):
        return self.rpc("Allocator/Claim",
                        pb.ClaimRequest(pool=POOL, claim_id=claim_id, **more),
                        pb.ClaimResponse).lease

    def release(self, lease):
        return self.rpc("Allocator/Release",
                        pb.ReleaseRequest(token=lease.token),
                        pb.ReleaseResponse)

    def pool(self):
        return self.rpc("PoolAdmin/GetPool", pb.GetPoolRequest(pool=POOL),
                        pb.Pool)

    def get(self, path, method="GET", body=None, headers=None):
        connection = UnixHTTPConnection(self.http_path)
        try:
            connection.request(method, path, body, headers or {})
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def ready(self):
        try:
            return self.get("/readyz")[0] == 200
        except OSError:
            if self.process.poll() is not None:
                raise AssertionError("it ended: " + self.messages()) from None
            return False

    def wait_full(self, n):
        # With a durable store one counts as ready some ms before it is offered to
        # claims: looked at several times.
        looks = []

        def full():
            looks.append(self.ready() and self.pool().ready == n)
            return all(looks[-3:]) and len(looks) > 2
        eventually(full, f"{n} ready")
        return self

    def sandboxes(self):
        path = os.path.join(self.state, "sandboxes")
        return sorted(os.listdir(path)) if os.path.isdir(path) else []

    def pids(self, sandbox):
        path = os.path.join(self.state, "sandboxes", sandbox, "record")
        eventually(lambda: os.path.exists(path), "a record of " + sandbox)
        with open(path, encoding="utf-8") as handle:
            return dict(re.findall(r"^(outer|inner) (\d+)", handle.read(),
                                   re.M))

    def stop(self, sig=signal.SIGTERM):
        self.channel.close()
        if self.process.poll() is None:
            self.process.send_signal(sig)
        code = self.process.wait(PATIENCE)
        self.notify.close()
        self.log.close()
        return code

    def end(self, within_s=None):
        """By SIGTERM, so that a sanitizer has its say. "", or what is wrong with
        that; nothing is with one that does not heed it yet. within_s: one that
        takes longer is ended by force, and that is not wrong."""
        code = 0
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.send_signal(signal.SIGTERM)
            try:
                code = self.process.wait(within_s or PATIENCE)
            except subprocess.TimeoutExpired:
                code = 0 if within_s else "none: it does not end"
        self.stop(signal.SIGKILL)
        return "" if code in (0, -signal.SIGTERM) else \
            f"exit code {code}\n{self.messages()[-4000:]}"

    def clean(self):
        wrong = self.end()
        shutil.rmtree(self.dir, ignore_errors=True)
        assert not wrong, wrong


def end_each(test, daemons, within_s=ENDS_WITHIN_S):
    tell_if_failed(test, daemons)
    for wrong in filter(None, [daemon.end(within_s) for daemon in daemons]):
        test.addCleanup(test.fail, wrong)


def tell_if_failed(test, daemons):
    """The ends of the daemons' logs, where the test's failure is read."""
    result = test._outcome.result
    if any(one is test for one, _ in result.errors + result.failures):
        for daemon in daemons:
            print(f"--- {test.id()}: the end of a daemon's log\n"
                  + daemon.messages()[-4000:], file=sys.stderr)


def end_all(test, daemons, directory, *flags):
    """Ends what a test left running, through a daemon of its own."""
    end_each(test, daemons)
    if os.path.isdir(os.path.join(directory, "s")):
        last = Daemon("--lease-store=memory", *flags, directory=directory,
                      replicas=0)
        eventually(lambda: last.ready() or last.process.poll() is not None,
                   "the sweeping daemon")
        last.stop()
    shutil.rmtree(directory, ignore_errors=True)


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as handle:
            return handle.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def metrics(text):
    """Parses the exposition format strictly; {(name, labels): value}."""
    samples, types, done, current = {}, {}, set(), None
    for line in text.splitlines():
        if line.startswith("# "):
            kind, name, rest = line[2:].split(" ", 2)
            assert kind in ("HELP", "TYPE"), line
            if kind == "HELP":
                assert name not in done, "two families " + name
                done.add(name)
                current = name
            else:
                assert name == current and name not in types, line
                assert rest in ("counter", "gauge", "histogram"), line
                types[name] = rest
            continue
        match = re.fullmatch(
            r'([a-zA-Z_:][a-zA-Z0-9_:]*)'
            r'(?:\{((?:[a-zA-Z_]\w*="(?:[^"\\\n]|\\["\\n])*",?)*)\})? '
            r'([0-9.e+-]+|\+Inf|NaN)', line)
        assert match, "not a sample: " + line
        name, labels, value = match.groups()
        family = current if types[current] == "histogram" and re.fullmatch(
            re.escape(current) + "_(bucket|sum|count)", name) else name
        assert family == current, f"{name} among the samples of {current}"
        key = (name, labels or "")
        assert key not in samples, "twice: " + line
        samples[key] = float(value)
    return samples


class DaemonTest(unittest.TestCase):
    def start(self, *flags, **more):
        daemon = Daemon(*flags, **more)
        self.addCleanup(daemon.clean)
        self.addCleanup(tell_if_failed, self, [daemon])
        return daemon

    # --- Serving ---

    def test_as_many_connections_as_are_set(self):
        daemon = self.start("--rpc-connections-max=5",
                            "--rpc-peer-connections-max=0", replicas=0)
        eventually(daemon.listening, "the socket")
        served, socks = 0, []
        for _ in range(8):
            sock = socket.socket(socket.AF_UNIX)
            self.addCleanup(sock.close)
            socks.append(sock)
            sock.settimeout(PATIENCE)
            sock.connect(daemon.grpc_path)
            with contextlib.suppress(ConnectionError):
                sock.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) +
                             b"\x04" + bytes(5))
                # A frame of settings, and no end behind it: it is served.
                head = sock.recv(9)
                served += len(head) == 9 and head[3] == 4
        self.assertEqual(served, 5)

    def test_closed_streams(self):
        """A stream that is closed is not another descriptor of the daemon."""
        daemon = self.start(
            prefix=("sh", "-c", 'exec "$0" "$@" <&- >&- 2>&-'), replicas=0)
        eventually(daemon.listening, "listening")
        for stream in range(3):
            self.assertEqual(
                os.readlink(f"/proc/{daemon.process.pid}/fd/{stream}"),
                "/dev/null")

    def test_claim_use_release(self):
        daemon = self.start().wait_full(3)
        self.assertEqual(daemon.notify.recv(100), b"READY=1")
        lease = daemon.claim("c1")
        self.assertEqual(lease.served, pb.SERVED_WARM)
        base = "/sandboxes/" + lease.sandbox
        status, body = daemon.get(base + "/healthz")
        self.assertEqual(status, 200, body)
        status, body = daemon.get(
            base + "/execute", "POST", json.dumps({"command": "echo hi"}),
            {"Content-Type": "application/json"})
        self.assertEqual((status, json.loads(body)["stdout"]), (200, "hi\n"))
        # The same through the headers of agent-sandbox's router.
        status, body = daemon.get("/healthz", headers={
            "X-Sandbox-ID": lease.sandbox, "X-Sandbox-Namespace": "default",
            "X-Sandbox-Port": "8888"})
        self.assertEqual(status, 200)
        self.assertTrue(daemon.release(lease).was_held)
        self.assertEqual(daemon.get(base + "/")[0], 404)
        daemon.wait_full(3)
        self.assertEqual(daemon.stop(), 0, daemon.messages())

    @unittest.skipIf(len(os.sched_getaffinity(0)) < 2, "one processor")
    def test_spin_ends(self):
        """Calls find a thread that looks for them; without calls it sleeps."""
        daemon = self.start("--rpc-spin=200ms", "--rpc-threads=1", replicas=0)
        eventually(daemon.listening, "listening")
        tasks = f"/proc/{daemon.process.pid}/task"

        def served():
            for task in os.listdir(tasks):
                with open(f"{tasks}/{task}/stat", encoding="ascii") as stat:
                    name, rest = stat.read().split("(")[1].split(")")
                if name == "wp-rpc-0":
                    fields = rest.split()
                    return fields[0], int(fields[11]) + int(fields[12])
            return None

        def spins():
            daemon.rpc("Allocator/ListClaims", pb.ListClaimsRequest(),
                       pb.ListClaimsResponse)
            return served()[1] - before >= 0.3 * os.sysconf("SC_CLK_TCK")

        before = eventually(served, "a serving thread")[1]
        eventually(spins, "processor time of a spinning thread")
        eventually(lambda: served()[0] == "S", "sleep")

    def test_idle_sandboxes_are_not_reachable(self):
        daemon = self.start().wait_full(3)
        for name in daemon.sandboxes():
            self.assertEqual(daemon.get(f"/sandboxes/{name}/")[0], 404)

    def test_upload_and_download(self):
        daemon = self.start().wait_full(3)
        lease = daemon.claim("c1")
        blob = os.urandom(3 << 20)
        mark = b"warmpool-test-boundary"
        body = (b"--" + mark + b'\r\nContent-Disposition: form-data; '
                b'name="file"; filename="blob"\r\n\r\n' + blob +
                b"\r\n--" + mark + b"--\r\n")
        connection = UnixHTTPConnection(daemon.http_path)
        connection.request(
            "POST", f"/sandboxes/{lease.sandbox}/upload", body,
            {"Content-Type":
             "multipart/form-data; boundary=" + mark.decode()})
        answer = connection.getresponse()
        self.assertEqual(answer.status, 200, answer.read())
        answer.read()
        # On the same connection: it is kept alive over a proxied exchange.
        connection.request("GET", f"/sandboxes/{lease.sandbox}/download/blob")
        answer = connection.getresponse()
        self.assertEqual(answer.status, 200)
        self.assertEqual(answer.read(), blob)
        connection.close()

    def test_tcp_needs_the_leases_token(self):
        daemon = self.start("--http-listen=127.0.0.1:0," +
                            "unix:/proc/none")
        # A path that cannot be bound is named in the message.
        self.assertEqual(daemon.process.wait(PATIENCE), 1)
        self.assertIn("listen address unix:/proc/none",
                      daemon.messages())
        daemon = self.start("--http-listen=127.0.0.1:0",
                            "--http-listen=unix:" +
                            tempfile.gettempdir() + f"/wp-t-{os.getpid()}")
        daemon.http_path = tempfile.gettempdir() + f"/wp-t-{os.getpid()}"
        daemon.wait_full(3)
        port = int(re.search(r"protocol=http address=127.0.0.1:(\d+)",
                             daemon.messages()).group(1))
        a, b = daemon.claim("a"), daemon.claim("b")

        def get(path, token=None):
            connection = http.client.HTTPConnection("127.0.0.1", port,
                                                    timeout=PATIENCE)
            headers = {"Authorization": "Bearer " + token} if token else {}
            connection.request("GET", path, headers=headers)
            status = connection.getresponse().status
            connection.close()
            return status

        path = f"/sandboxes/{a.sandbox}/healthz"
        self.assertEqual(get("/healthz"), 200)
        self.assertEqual(get(path), 401)
        self.assertEqual(get(path, b.token.hex()), 401)
        self.assertEqual(get(path, a.token.hex()), 200)
        daemon.release(a)
        self.assertEqual(get(path, a.token.hex()), 401)

    def test_metrics(self):
        daemon = self.start().wait_full(3)
        lease = daemon.claim("c1")
        daemon.get(f"/sandboxes/{lease.sandbox}/healthz")
        daemon.wait_full(3)
        status, text = daemon.get("/metrics")
        self.assertEqual(status, 200)
        got = metrics(text)
        pool = 'namespace="default",pool="quickstart"'
        self.assertEqual(got["warmpool_claims_total",
                             pool + ',served="warm"'], 1)
        self.assertEqual(got["warmpool_sandboxes", pool + ',state="leased"'],
                         1)
        self.assertEqual(got["warmpool_sandboxes", pool + ',state="ready"'],
                         3)
        self.assertEqual(got["warmpool_claim_wait_seconds_count", pool], 1)
        self.assertEqual(
            got["warmpool_claim_wait_seconds_bucket", pool + ',le="+Inf"'],
            1)
        self.assertEqual(got["warmpool_lead_time_seconds_count", pool], 4)
        self.assertEqual(got["warmpool_http_proxied_total", ""], 1)
        self.assertGreater(got["process_resident_memory_bytes", ""], 1 << 20)
        self.assertEqual(
            got["agent_sandbox_claim_creation_total",
                'namespace="default",sandbox_template="quickstart",'
                'launch_type="warm",warmpool_name="quickstart",'
                'pod_condition="ready",created_by="warmpool"'], 1)
        buckets = [v for (name, labels), v in got.items()
                   if name == "warmpool_lead_time_seconds_bucket"]
        self.assertEqual(buckets, sorted(buckets))

    # --- Faults ---

    def test_sandbox_killed_while_ready(self):
        daemon = self.start().wait_full(3)
        victim = daemon.sandboxes()[0]
        os.kill(int(daemon.pids(victim)["inner"]), signal.SIGKILL)
        eventually(lambda: victim not in daemon.sandboxes(), "victim gone")
        daemon.wait_full(3)
        self.assertEqual(daemon.pool().lost_total, 1)
        leases = [daemon.claim(f"c{i}") for i in range(3)]
        self.assertNotIn(victim, [lease.sandbox for lease in leases])

    def test_sandbox_killed_while_claimed(self):
        daemon = self.start().wait_full(3)
        lease = daemon.claim("c1")
        os.kill(int(daemon.pids(lease.sandbox)["inner"]), signal.SIGKILL)

        def lost():
            info = daemon.rpc("Allocator/GetClaim",
                              pb.GetClaimRequest(claim_id="c1"), pb.ClaimInfo)
            return info.state == pb.CLAIM_STATE_LOST and info.lost_reason
        eventually(lost, "told as lost")
        status, body = daemon.get(f"/sandboxes/{lease.sandbox}/")
        self.assertEqual(status, 502)
        self.assertIn("lost", json.loads(body)["error"])
        self.assertTrue(daemon.release(lease).was_held)
        daemon.wait_full(3)

    def test_sigterm_leaves_nothing(self):
        daemon = self.start().wait_full(3)
        daemon.claim("c1")
        pids = [pid for name in daemon.sandboxes()
                for pid in daemon.pids(name).values()]
        self.assertEqual(daemon.stop(), 0, daemon.messages())
        self.assertEqual([pid for pid in pids if alive(pid)], [])
        self.assertEqual(daemon.sandboxes(), [])
        self.assertEqual(os.listdir(os.path.join(daemon.dir, "r")), [])
        self.assertFalse(os.path.exists(
            os.path.join(daemon.state, "warmpoold.pid")))

    def test_kill_then_restart_sweeps(self):
        for outlive in ("false", "true"):
            daemon = self.start("--sandbox-outlive=" + outlive).wait_full(3)
            daemon.claim("c1")
            pids = [pid for name in daemon.sandboxes()
                    for pid in daemon.pids(name).values()]
            self.assertGreaterEqual(len(pids), 6)
            swept = "swept what an earlier daemon left"
            self.assertNotIn(swept, daemon.messages())
            self.assertEqual(daemon.stop(signal.SIGKILL), -signal.SIGKILL)
            again = self.start(directory=daemon.dir).wait_full(3)
            eventually(lambda: not any(alive(p) for p in pids), "swept")
            self.assertIn(swept, again.messages())
            eventually(lambda d=again: len(d.sandboxes()) == 3,
                       "no folder left of the dead")
            # What the dead daemon granted is gone with it (memory store).
            with self.assertRaises(grpc.RpcError) as caught:
                again.rpc("Allocator/GetClaim",
                          pb.GetClaimRequest(claim_id="c1"), pb.ClaimInfo)
            self.assertEqual(caught.exception.code(),
                             grpc.StatusCode.NOT_FOUND)
            self.assertEqual(again.stop(), 0, again.messages())

    def test_kill_at_any_moment(self):
        """Also while sandboxes are in the making."""
        directory = tempfile.mkdtemp(prefix="wp-daemon-")
        self.addCleanup(shutil.rmtree, directory, True)
        for pause in (0.02, 0.06, 0.1, 0.15, 0.25):
            daemon = Daemon(directory=directory, replicas=8)
            time.sleep(pause)
            daemon.stop(signal.SIGKILL)
        daemon = self.start(directory=directory, replicas=8).wait_full(8)
        eventually(lambda: len(daemon.sandboxes()) == 8,
                   "no folder left of the dead")
        self.assertEqual(daemon.stop(), 0, daemon.messages())
        self.assertEqual(daemon.sandboxes(), [])

    def test_two_daemons(self):
        daemon = self.start().wait_full(3)
        second = self.start(directory=daemon.dir)
        self.assertEqual(second.process.wait(PATIENCE), 1)
        self.assertIn(f"another warmpoold (pid {daemon.process.pid}) runs",
                      daemon.messages())
        self.assertTrue(daemon.ready())

    def test_reload(self):
        daemon = self.start().wait_full(3)
        daemon.write_manifest(5)
        daemon.process.send_signal(signal.SIGHUP)
        daemon.wait_full(5)
        daemon.write_manifest(1)
        daemon.process.send_signal(signal.SIGHUP)
        daemon.wait_full(1)
        with open(daemon.manifest, "a", encoding="utf-8") as handle:
            handle.write("nonsense: [")
        daemon.process.send_signal(signal.SIGHUP)
        eventually(lambda: "reload refused" in daemon.messages(), "refused")
        self.assertEqual(daemon.pool().target, 1)

    def test_reload_of_a_policy(self):
        """It comes with the file, and is gone without it."""
        daemon = self.start(replicas=1).wait_full(1)
        with open(daemon.manifest, encoding="utf-8") as handle:
            plain = handle.read()
        self.assertIn("  annotations:\n", plain)
        with open(daemon.manifest, "w", encoding="utf-8") as handle:
            handle.write(plain.replace(
                "  annotations:\n", "  annotations:\n"
                "    autoscale.warmpool.io/objective: 99%\n"
                '    autoscale.warmpool.io/min: "4"\n'))
        daemon.process.send_signal(signal.SIGHUP)
        daemon.wait_full(4)
        self.assertEqual(daemon.pool().scaling.replicas, 1)
        with open(daemon.manifest, "w", encoding="utf-8") as handle:
            handle.write(plain)
        daemon.process.send_signal(signal.SIGHUP)
        daemon.wait_full(1)

    def test_reload_adds_and_removes_pools(self):
        """With the same template; leases of a pool that goes live on."""
        daemon = self.start().wait_full(3)
        with open(daemon.manifest, encoding="utf-8") as handle:
            first = handle.read()
        template, pool = first.split("---\n", 1)
        second = re.sub(r"name: quickstart\n(  annot|spec)",
                        r"name: second\n\1", pool, count=1)
        self.assertNotEqual(second, pool)
        with open(daemon.manifest, "w", encoding="utf-8") as handle:
            handle.write(template + "---\n" + pool + "\n---\n" + second)
        daemon.process.send_signal(signal.SIGHUP)
        claim = pb.ClaimRequest(pool=pb.PoolRef(name="second"), claim_id="s",
                                wait_ms=60000)
        eventually(lambda: "new pool" in daemon.messages(), "added")
        lease = daemon.rpc("Allocator/Claim", claim, pb.ClaimResponse).lease
        with open(daemon.manifest, "w", encoding="utf-8") as handle:
            handle.write(first)
        daemon.process.send_signal(signal.SIGHUP)
        eventually(lambda: "gone from the manifests" in daemon.messages(),
                   "removed")
        claim.claim_id = "t"
        with self.assertRaises(grpc.RpcError) as raised:
            daemon.rpc("Allocator/Claim", claim, pb.ClaimResponse)
        self.assertEqual(raised.exception.code(), grpc.StatusCode.NOT_FOUND)
        self.assertTrue(daemon.release(lease).was_held)

    def test_reload_of_templates(self):
        """New sandboxes come from the new one, what is leased stays as it was;
        one that cannot be is refused; one that is new can be used."""
        daemon = self.start(replicas=1).wait_full(1)

        def says(lease):
            _, body = daemon.get(
                f"/sandboxes/{lease.sandbox}/execute", "POST",
                json.dumps({"command": "sh -c 'ls -d /of-*'"}),
                {"Content-Type": "application/json"})
            return json.loads(body)["stdout"].strip()

        def reload(text, said):
            before = daemon.messages().count(said)
            with open(daemon.manifest, "w", encoding="utf-8") as handle:
                handle.write(text)
            daemon.process.send_signal(signal.SIGHUP)
            eventually(lambda: daemon.messages().count(said) > before, said)

        with open(daemon.manifest, encoding="utf-8") as handle:
            first = handle.read()
        self.assertIn("mountPath: /workspace\n", first)
        old = daemon.claim("old")
        daemon.wait_full(1)
        changed = first.replace("mountPath: /workspace\n",
                                "mountPath: /of-second\n").replace(
            '"--workspace", "/workspace"', '"--workspace", "/of-second"')
        reload(changed, "template changed")
        # The idle one of the former goes; whatever is ready then is new.
        eventually(lambda: daemon.pool().destroyed_total >= 1
                   and daemon.pool().ready == 1, "replaced")
        self.assertEqual(says(daemon.claim("new")), "/of-second")
        self.assertEqual(says(old), "")
        reload(changed.replace("image: host", "image: nowhere"),
               "change of a template refused")
        self.assertIn("image 'nowhere'", daemon.messages())
        daemon.release(old)
        daemon.wait_full(1)
        self.assertEqual(says(daemon.claim("newer")), "/of-second")
        template, pool = changed.split("---\n", 1)
        third = template.replace("name: quickstart", "name: third").replace(
            "/of-second", "/of-third")
        reload("---\n".join((template, third, pool.replace(
            "sandboxTemplateRef:\n    name: quickstart",
            "sandboxTemplateRef:\n    name: third"))), "new template")
        eventually(lambda: "pool changed" in daemon.messages(), "changed")

        def of_third():
            lease = daemon.claim(f"third-{time.monotonic_ns()}",
                                 wait_ms=60000)
            return says(lease) == "/of-third"
        eventually(of_third, "a sandbox of the third template")
        self.assertEqual(daemon.stop(), 0, daemon.messages())

    # --- Pools that come and go by calls ---

    def refused(self, daemon, code, say, method, request):
        with self.assertRaises(grpc.RpcError) as caught:
            daemon.rpc("PoolAdmin/" + method, request, pb.Pool)
        self.assertEqual((caught.exception.code().name,
                          say in caught.exception.details()), (code, True),
                         caught.exception.details())

    def parts(self, daemon, name, template):
        """The manifest's template under that name, and a pool of it."""
        with open(daemon.manifest, encoding="utf-8") as handle:
            one, pool = handle.read().split("---\n", 1)
        return (one.replace("name: quickstart", f"name: {template}", 1),
                re.sub(r"name: quickstart\n(  annot|spec)",
                       rf"name: {name}\n\1", pool, count=1).replace(
                    "Ref:\n    name: quickstart", f"Ref:\n    name: {template}"))

    def test_a_pool_that_is_refused(self):
        daemon = self.start(replicas=1).wait_full(1)
        template, pool = self.parts(daemon, "made", "quickstart")

        def create(code, say, manifest):
            self.refused(daemon, code, say, "CreatePool",
                         pb.CreatePoolRequest(manifest=manifest))

        create("INVALID_ARGUMENT", "not YAML", "kind: x\n[")
        create("INVALID_ARGUMENT", "spec.replicaz", pool.replace(
            "replicas:", "replicaz:"))
        create("INVALID_ARGUMENT", "one SandboxWarmPool expected, got 0",
               template)
        create("INVALID_ARGUMENT", "no SandboxTemplate expected but",
               template.replace("name: quickstart", "name: other", 1) +
               "---\n" + pool)
        create("FAILED_PRECONDITION", "no SandboxTemplate 'gone'",
               self.parts(daemon, "made", "gone")[1])
        create("FAILED_PRECONDITION", "slots_max",
               re.sub(r"replicas: \d+", "replicas: 1000000", pool))
        create("ALREADY_EXISTS", "another one of this name",
               template.replace("mountPath: /workspace\n",
                                "mountPath: /other\n").replace(
                   '"--workspace", "/workspace"', '"--workspace", "/other"') +
               "---\n" + pool)
        create("ALREADY_EXISTS", "there is one of this name",
               self.parts(daemon, "quickstart", "quickstart")[1])
        self.refused(daemon, "FAILED_PRECONDITION", "not made by CreatePool",
                     "DeletePool", pb.DeletePoolRequest(pool=POOL))
        self.assertEqual(len(daemon.rpc("PoolAdmin/ListPools",
                                        pb.ListPoolsRequest(),
                                        pb.ListPoolsResponse).pools), 1)
        self.assertFalse(os.path.exists(os.path.join(daemon.state, "pools.d")))

    def test_a_pool_comes_and_goes(self):
        """It is there after a kill and through SIGHUP; its leases outlive
        it."""
        daemon = self.start(replicas=1).wait_full(1)
        made, needs = pb.PoolRef(name="made"), pb.PoolRef(name="needs")
        template, pool = self.parts(daemon, "made", "own")

        def create(manifest):
            return daemon.rpc("PoolAdmin/CreatePool",
                              pb.CreatePoolRequest(manifest=manifest), pb.Pool)

        def delete(ref):
            return daemon.rpc("PoolAdmin/DeletePool",
                              pb.DeletePoolRequest(pool=ref),
                              pb.DeletePoolResponse)

        def claim(ref, name):
            return daemon.rpc("Allocator/Claim", pb.ClaimRequest(
                pool=ref, claim_id=name, wait_ms=60000),
                pb.ClaimResponse).lease

        said = create(template + "---\n" + pool)
        self.assertEqual((said.ref.name, said.template, said.target),
                         ("made", "own", 1))
        claim(made, "first")
        create(self.parts(daemon, "needs", "own")[1])
        self.refused(daemon, "FAILED_PRECONDITION", "default_needs.yaml",
                     "DeletePool", pb.DeletePoolRequest(pool=made))
        daemon.process.send_signal(signal.SIGHUP)
        eventually(lambda: "reloaded the manifests" in daemon.messages(),
                   "reloaded")
        claim(made, "second")
        daemon.stop(signal.SIGKILL)
        daemon = self.start(directory=daemon.dir, replicas=1).wait_full(1)
        lease = claim(made, "third")
        claim(needs, "fourth")
        self.assertEqual(delete(needs).leased, 1)
        self.assertEqual(delete(made).leased, 1)
        self.refused(daemon, "NOT_FOUND", "made", "DeletePool",
                     pb.DeletePoolRequest(pool=made))
        with self.assertRaises(grpc.RpcError) as caught:
            claim(made, "fifth")
        self.assertEqual(caught.exception.code(), grpc.StatusCode.NOT_FOUND)
        self.assertTrue(daemon.release(lease).was_held)
        self.assertEqual(os.listdir(os.path.join(daemon.state, "pools.d")), [])
        # Made again, of the template that is still known.
        create(pool)
        claim(made, "sixth")
        self.assertEqual(daemon.stop(), 0, daemon.messages())

    def test_waiting_claims_are_told_at_sigterm(self):
        daemon = self.start(replicas=0)
        eventually(daemon.ready, "ready")
        call = daemon.channel.unary_unary(
            "/warmpool.v1.Allocator/Claim",
            request_serializer=lambda m: m.SerializeToString(),
            response_deserializer=pb.ClaimResponse.FromString).future(
                pb.ClaimRequest(pool=POOL, claim_id="w", wait_ms=60000),
                timeout=PATIENCE)
        eventually(lambda: daemon.pool().waiting == 1, "waiting")
        daemon.process.send_signal(signal.SIGTERM)
        self.assertEqual(call.exception(PATIENCE).code(),
                         grpc.StatusCode.UNAVAILABLE)
        self.assertEqual(daemon.process.wait(PATIENCE), 0)

    def test_drain_by_admin(self):
        daemon = self.start().wait_full(3)
        lease = daemon.claim("c1")
        reply = daemon.rpc("PoolAdmin/Drain",
                           pb.DrainRequest(grace_ms=60000), pb.DrainResponse)
        self.assertEqual(reply.leased, 1)
        eventually(lambda: daemon.get("/readyz")[0] == 503, "not ready")
        self.assertEqual(
            daemon.get(f"/sandboxes/{lease.sandbox}/healthz")[0], 200)
        with self.assertRaises(grpc.RpcError):
            daemon.claim("c2")
        daemon.release(lease)
        self.assertEqual(daemon.process.wait(PATIENCE), 0, daemon.messages())

    def test_not_ready_while_descriptors_have_run_out(self):
        """A probe that is connected learns of it, and that it is over."""
        daemon = self.start("--synthetic")
        daemon.wait_full(3)
        probe = UnixHTTPConnection(daemon.http_path)
        self.addCleanup(probe.close)

        def ready():
            probe.request("GET", "/readyz")
            answer = probe.getresponse()
            return answer.status, answer.read().decode()
        self.assertEqual(ready(), (200, "ready\n"))
        pid = daemon.process.pid
        limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        # The standard ones have these numbers: no other can be had.
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, limits[1]))
        with socket.socket(socket.AF_UNIX) as caller:
            caller.connect(daemon.grpc_path)
            eventually(lambda: ready() == (503, NO_DESCRIPTORS), "not ready")
        resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)
        eventually(lambda: ready() == (200, "ready\n"), "ready again")
        self.assertEqual(daemon.get("/readyz")[0], 200)
        daemon.release(daemon.claim("c1"))

    def test_abandoned_http_clients(self):
        """Connections that vanish in every state leave nothing behind."""
        daemon = self.start().wait_full(3)
        lease = daemon.claim("c1")
        target = f"/sandboxes/{lease.sandbox}/execute".encode()
        for part in (b"", b"GET /", b"POST " + target +
                     b" HTTP/1.1\r\nContent-Length: 100\r\n\r\n{",
                     b"GET /metrics HTTP/1.1\r\n\r\n"):
            for _ in range(50):
                sock = socket.socket(socket.AF_UNIX)
                sock.connect(daemon.http_path)
                sock.sendall(part)
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                                struct.pack("ii", 1, 0))
                sock.close()
        eventually(lambda: metrics(daemon.get("/metrics")[1])[
            "warmpool_http_connections", ""] == 1, "connections gone")


class BadConfigTest(unittest.TestCase):
    """Nothing starts, and the message says what was wrong, and where."""

    def refused(self, *flags, message, code=2, files=None):
        with tempfile.TemporaryDirectory() as directory:
            os.chmod(directory, 0o755)
            for name, text in (files or {}).items():
                with open(os.path.join(directory, name), "w",
                          encoding="utf-8") as handle:
                    handle.write(text)
            flags = [f.replace("DIR", directory) for f in flags]
            done = subprocess.run(
                [DAEMON, "--state-dir=" + directory + "/s",
                 "--runtime-dir=" + directory + "/r"] + flags,
                capture_output=True, text=True, timeout=PATIENCE, check=False)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertIn(message.replace("DIR", directory), done.stderr)
            self.assertNotIn("sesame", done.stderr)

    def test_flags(self):
        self.refused("--rpc-threads=many",
                     message="--rpc-threads: setting 'rpc_threads': expected "
                             "a whole number from 0 to 64, got 'many'")
        self.refused("--manifest=x", message="did you mean --manifests?")
        self.refused("--lease-store=redis", "--redis-url=redis:sesame@h",
                     message="setting 'redis_url': expected ")
        self.refused("--lease-store=redis", "--synthetic",
                     message="and there are none")
        self.refused("--listen=0.0.0.0:1",
                     message="'0.0.0.0:1' is not loopback, which needs TLS")
        self.refused("--http-listen=0.0.0.0:1",
                     message="'0.0.0.0:1' is not loopback")

    def test_files(self):
        self.refused("--config=DIR/none", message="DIR/none")
        self.refused("--config=DIR/c", files={"c": "a: b\n"},
                     message="DIR/c:1: unknown setting 'a'")
        self.refused("--config=DIR/c", files={"c": "\nslots_max: -1\n"},
                     message="DIR/c:2: setting 'slots_max'")

    def test_host(self):
        self.refused("--bwrap-path=/nonexistent/bwrap",
                     "--manifests=" + MANIFEST, code=1,
                     message="this machine cannot make sandboxes")
        self.refused("--state-dir=/proc/nowhere", code=1,
                     message="'/proc/nowhere'")
        self.refused("--runtime-dir=/dev/null", code=1,
                     message="'/dev/null' is not a directory")
        with tempfile.TemporaryDirectory() as shared:
            os.chmod(shared, 0o777)
            for flag in ("--runtime-dir=", "--state-dir="):
                self.refused(flag + shared, code=1,
                             message="others can write in '" + shared)

    def test_manifests(self):
        self.refused("--manifests=DIR/none", message="DIR/none",
                     code=1)
        bad = "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\n"
        self.refused("--manifests=DIR/m", files={"m": bad}, message="DIR/m")
        self.refused("--check-config", "--manifests=DIR/m", files={"m": bad},
                     message="DIR/m")
        self.refused("--check-config", "--manifests=" + MANIFEST,
                     "--slots-max=7",
                     message="setting 'slots_max': the pools of the manifests "
                             "want 8 ready sandboxes together")

    def test_secrets(self):
        self.refused("--token-key-file=DIR/none", "--manifests=" + MANIFEST,
                     message="setting 'token_key_file': cannot read "
                             "'DIR/none'", code=1)
        self.refused("--http-token-file=DIR/t", files={"t": "x" * 32},
                     message="expected a file that only its owner can read",
                     code=1)

        self.refused("--lease-store=redis", "--manifests=" + MANIFEST,
                     "--synthetic", "--redis-password-file=DIR/p",
                     files={"p": "sesame"}, code=1,
                     message="setting 'redis_password_file': expected a file "
                             "that only its owner can read")
        for url in ("redis://:sesame@h", "unix:/s?password=sesame",
                    "redis+sentinel://h/m?sentinel_password=sesame"):
            self.refused("--lease-store=redis", "--redis-url=" + url,
                         message="setting 'redis_url': expected no password "
                                 "in a flag or the environment")

    def test_tls_to_redis(self):
        to_redis = ("--check-config", "--lease-store=redis",
                    "--manifests=" + MANIFEST, "--redis-url=rediss://h")
        self.refused(*to_redis, "--redis-tls-ca=DIR/none",
                     message="setting 'redis_tls_ca': DIR/none: ")
        self.refused(*to_redis, "--redis-tls-ca=DIR/c", files={"c": "no"},
                     message="setting 'redis_tls_ca': DIR/c: expected "
                             "readable PEM certificates")
        self.refused(*to_redis, "--redis-tls-key=DIR/k",
                     message="expected both or none, only 'redis_tls_key'")
        self.refused(*to_redis, "--redis-tls-key=DIR/k",
                     "--redis-tls-cert=DIR/c", files={"c": "no", "k": "no"},
                     message="setting 'redis_tls_cert': DIR/c: expected "
                             "readable PEM certificates")
        self.refused(*to_redis, "--redis-password-file=DIR/p",
                     message="setting 'redis_password_file': cannot read "
                             "'DIR/p'")

    def test_tls(self):
        self.refused("--tls-cert=DIR/c", message="expected both or none")
        self.refused("--tls-cert=DIR/c", "--tls-key=DIR/k",
                     "--listen=127.0.0.1:0", message="DIR/c",
                     files={"c": "no", "k": "no"})

    def test_check_config(self):
        done = subprocess.run(
            [DAEMON, "--check-config", "--manifests=" + MANIFEST,
             "--log-level=warn"], capture_output=True, text=True,
            timeout=PATIENCE, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("log_level: warn # flag\n", done.stdout)
        self.assertIn("lease_store: sqlite # default\n", done.stdout)
        self.assertIn("# default/quickstart: 8 of template quickstart\n",
                      done.stdout)

    def test_examples_are_fine(self):
        """Those for one machine."""
        folder = os.path.join(DEPLOY, "examples")
        names = [n for n in os.listdir(folder)
                 if n.endswith(".yaml") and n != "warmpoold.yaml"]
        self.assertIn("autoscale.yaml", names)
        for name in names:
            done = subprocess.run(
                [DAEMON, "--check-config",
                 "--manifests=" + os.path.join(folder, name)],
                capture_output=True, text=True, timeout=PATIENCE, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_documents_say_what_the_program_says(self):
        """The man page's reference and the example are the table's."""
        reference = subprocess.run([DAEMON, "--help-settings"],
                                   capture_output=True, text=True,
                                   timeout=PATIENCE, check=True).stdout
        with open(os.path.join(DEPLOY, "man", "warmpoold.conf.5.md"),
                  encoding="utf-8") as handle:
            self.assertIn(reference, handle.read())
        example = os.path.join(DEPLOY, "examples", "warmpoold.yaml")
        with open(example, encoding="utf-8") as handle:
            lines = [line[2:] for line in handle
                     if re.match(r"# [a-z_]+: ", line)]
        self.assertEqual(
            [line.partition(":")[0] for line in lines],
            [n for n in re.findall(r"^### (\w+)$", reference, re.M)
             if n != "config"])
        # Every default, said in the file, is what holds without it.
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as said:
            said.writelines(lines)
            said.flush()
            for path in (example, said.name):
                done = subprocess.run(
                    [DAEMON, "--check-config", "--config=" + path],
                    capture_output=True, text=True, timeout=PATIENCE,
                    check=False)
                self.assertEqual(done.returncode, 0, done.stderr)
                shown = re.sub(r" # .*", "", done.stdout)
                # What a note names is the cluster's, and said there only.
                shown = re.sub(r"^# note: .*\n", "", shown, flags=re.M)
                if path == example:
                    expected = shown
        self.assertEqual(shown, expected)


def host_can():
    """Says why the host cannot make sandboxes, or None."""
    daemon = Daemon(replicas=1)
    try:
        daemon.wait_full(1)
        return None
    except AssertionError:
        match = re.search(r"this machine cannot make sandboxes.*",
                          daemon.messages())
        if not match:
            raise
        return match.group(0)
    finally:
        daemon.clean()


if __name__ == "__main__":
    reason = host_can()
    if reason:
        print("SKIP:", reason)
        sys.exit(77)
    unittest.main(argv=[sys.argv[0]] + sys.argv[4:], verbosity=2)
