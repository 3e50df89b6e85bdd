"""libwarmpool by its shared library, behind a proxy that breaks connections in
every way, before a real daemon.

Run by ctest: client_test.py WARMPOOLD GENERATED_DIR DEPLOY_DIR LIBRARY
[unittest arguments]. Sandboxes are files.
"""

import ctypes
import glob
import os
import selectors
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from concurrent import futures

import grpc

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "..", "attack")]
import rig  # noqa: E402
import wire  # noqa: E402
from daemon_test import (DEPLOY, PATIENCE, Daemon, eventually,  # noqa: E402
                         pb)

LIBRARY = os.path.abspath(sys.argv[4])
OK, INVALID, DEADLINE, UNAVAILABLE = 0, 3, 4, 14
SIZE = 16


class Error(ctypes.Structure):
    _fields_ = [("code", ctypes.c_int), ("message", ctypes.c_char * 240)]


class Options(ctypes.Structure):
    _fields_ = [(name, ctypes.c_char_p) for name in (
        "address", "tls_ca", "tls_cert", "tls_key", "tls_name",
        "access_token_file", "tenant")]


class Lease(ctypes.Structure):
    _fields_ = [("claim_id", ctypes.c_char * 129),
                ("sandbox", ctypes.c_char * 64),
                ("endpoint", ctypes.c_char * 108),
                ("token", ctypes.c_ubyte * 68),
                ("fence", ctypes.c_uint64),
                ("deadline_unix_ms", ctypes.c_int64)]


Lost = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p)


class StockOptions(ctypes.Structure):
    _fields_ = [("pool", ctypes.c_char_p), ("ahead", ctypes.c_uint),
                ("ttl_ms", ctypes.c_int64), ("lost", Lost),
                ("ctx", ctypes.c_void_p)]


LIB = ctypes.CDLL(LIBRARY)
for function in ("warmpool_connect", "warmpool_stock_open"):
    getattr(LIB, function).restype = ctypes.c_void_p
for function in ("warmpool_disconnect", "warmpool_stock_close"):
    getattr(LIB, function).argtypes = [ctypes.c_void_p]
    getattr(LIB, function).restype = None
LIB.warmpool_claim.argtypes = [
    ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_int64,
    ctypes.c_int64, ctypes.POINTER(Lease), ctypes.POINTER(Error)]
LIB.warmpool_renew.argtypes = [
    ctypes.c_void_p, ctypes.POINTER(Lease), ctypes.c_int64,
    ctypes.POINTER(Error)]
LIB.warmpool_release.argtypes = [
    ctypes.c_void_p, ctypes.POINTER(Lease), ctypes.POINTER(Error)]
LIB.warmpool_stock_open.argtypes = [
    ctypes.c_void_p, ctypes.POINTER(StockOptions), ctypes.POINTER(Error)]
LIB.warmpool_stock_take.argtypes = [ctypes.c_void_p, ctypes.POINTER(Lease)]
LIB.warmpool_stock_take.restype = ctypes.c_bool
LIB.warmpool_stock_state.argtypes = [ctypes.c_void_p, ctypes.POINTER(Error)]
LIB.warmpool_stock_state.restype = ctypes.c_uint


class Client:
    """A client, and its stocks."""

    def __init__(self, test, address, **more):
        self.error = Error()
        self.lost = []
        self.on_lost = Lost(lambda ctx, claim_id: self.lost.append(claim_id))
        options = Options(address=address.encode(), **more)
        self.client = LIB.warmpool_connect(ctypes.byref(options),
                                           ctypes.byref(self.error))
        test.assertTrue(self.client, self.error.message)
        test.addCleanup(self.disconnect)

    def disconnect(self):
        LIB.warmpool_disconnect(self.client)
        self.client = None

    def claim(self, claim_id=None, wait_ms=0):
        """The lease; or None, and self.error says why."""
        lease = Lease()
        code = LIB.warmpool_claim(self.client, b"quickstart", claim_id, 60000,
                                  wait_ms, ctypes.byref(lease),
                                  ctypes.byref(self.error))
        return lease if code == OK else None

    def release(self, lease):
        return LIB.warmpool_release(self.client, ctypes.byref(lease),
                                    ctypes.byref(self.error))

    def renew(self, lease, ttl_ms):
        return LIB.warmpool_renew(self.client, ctypes.byref(lease), ttl_ms,
                                  ctypes.byref(Error()))

    def stock(self, ahead, ttl_ms=60000):
        return LIB.warmpool_stock_open(
            self.client, ctypes.byref(StockOptions(
                b"quickstart", ahead, ttl_ms, self.on_lost)),
            ctypes.byref(self.error))

    def state(self, stock):
        """How many there are, and the code of what is lacking."""
        n = LIB.warmpool_stock_state(stock, ctypes.byref(self.error))
        return n, self.error.code

    def take(self, stock):
        lease = Lease()
        return lease if LIB.warmpool_stock_take(
            stock, ctypes.byref(lease)) else None


class Proxy:
    """Before a daemon's Unix socket: a thread that carries bytes, or not."""

    def __init__(self, test, path, to):
        self.path, self.to = path, to
        self.address = "unix:" + path
        self.accepted = 0
        self.hangs_up = False  # On all that come.
        self.pairs = {}  # From each socket to its other end.
        self.clients = []
        self.swallowed = {}
        self.lock = threading.Lock()
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path)
        self.listener.listen(64)
        self.over = False
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.listener, selectors.EVENT_READ)
        self.thread = threading.Thread(target=self.run)
        self.thread.start()
        test.addCleanup(self.close)

    def accept(self):
        client = self.listener.accept()[0]
        self.accepted += 1
        daemon = socket.socket(socket.AF_UNIX)
        if self.hangs_up or daemon.connect_ex(self.to) != 0:
            client.close()
            daemon.close()
            return
        self.pairs[client], self.pairs[daemon] = daemon, client
        self.clients.append(client)
        for sock in (client, daemon):
            self.selector.register(sock, selectors.EVENT_READ)

    def cut(self, sock):
        other = self.pairs.pop(sock)
        del self.pairs[other]
        for one in (sock, other):
            self.selector.unregister(one)
            one.close()
            if one in self.clients:
                self.clients.remove(one)

    def run(self):
        while not self.over:
            for key, _ in self.selector.select(0.02):
                with self.lock:
                    if key.fileobj is self.listener:
                        self.accept()
                    elif key.fileobj in self.pairs:
                        try:
                            data = key.fileobj.recv(1 << 16)
                            self.pairs[key.fileobj].sendall(data)
                        except OSError:
                            data = b""
                        if not data:
                            self.cut(key.fileobj)

    def cut_all(self):
        with self.lock:
            while self.clients:
                self.cut(self.clients[0])

    def swallow(self):
        """What the connections that are there carry. They stay open."""
        with self.lock:
            for sock in self.pairs:
                self.selector.unregister(sock)
            self.swallowed.update(self.pairs)
            self.pairs = {}
            self.clients = []

    def goaway(self):
        """To all: no more calls here; those under way may end. No frame of the
        daemon's is on its way."""
        with self.lock:
            for client in self.clients:
                client.sendall(wire.frame(
                    wire.GOAWAY, 0, 0, b"\x7f\xff\xff\xff" + bytes(4)))

    def close(self):
        self.over = True
        self.thread.join()
        self.cut_all()
        for sock in self.swallowed:
            sock.close()
        self.listener.close()
        self.selector.close()


class Fake:
    """A daemon that does what no real one does, by gRPC's own server."""

    def __init__(self, test):
        self.dir = tempfile.mkdtemp(prefix="wp-fake-")
        test.addCleanup(shutil.rmtree, self.dir)
        self.address = f"unix:{self.dir}/s"
        self.behind_ms = 0  # Its clock.
        self.breaks = threading.Event()  # The stream ends.
        self.told = []  # What it was told to be taken.
        self.renewals = []  # Their ttl_ms.
        self.refusals = 0  # How many renewals are to be refused.
        self.refuses_by = grpc.StatusCode.UNAVAILABLE
        self.authorization = self.authority = None  # Of the last release.
        self.answers = threading.Event()  # Renewals.
        self.answers.set()
        self.pool = futures.ThreadPoolExecutor(16)
        test.addCleanup(self.pool.shutdown)
        test.addCleanup(lambda: self.server.stop(0).wait())
        self.serve(self.address)

    def serve(self, address, credentials=None):
        """Its port."""
        self.server = grpc.server(self.pool)
        self.server.add_generic_rpc_handlers((
            grpc.method_handlers_generic_handler("warmpool.v1.Allocator", {
                "ClaimStream": grpc.stream_stream_rpc_method_handler(
                    self.stream, pb.ClaimStreamRequest.FromString,
                    lambda m: m.SerializeToString()),
                "Renew": grpc.unary_unary_rpc_method_handler(
                    self.renew, pb.RenewRequest.FromString,
                    lambda m: m.SerializeToString()),
                "Release": grpc.unary_unary_rpc_method_handler(
                    self.release, pb.ReleaseRequest.FromString,
                    lambda m: m.SerializeToString())}),))
        port = (self.server.add_secure_port(address, credentials)
                if credentials else self.server.add_insecure_port(address))
        self.server.start()
        return port

    def deadline(self, ttl_ms):
        return int(time.time() * 1000) + ttl_ms - self.behind_ms

    def stream(self, requests, context):
        opening = next(requests).open
        if opening.resume:
            context.abort(grpc.StatusCode.NOT_FOUND, "it forgot")

        def listen():
            try:
                for request in requests:
                    self.told.extend(request.took)
            except grpc.RpcError:
                pass
        threading.Thread(target=listen, daemon=True).start()
        yield pb.ClaimStreamResponse(leases=[
            pb.LeaseAhead(number=n, lease=pb.Lease(
                claim_id=f"{opening.stream_id}/{n}", pool=opening.pool,
                sandbox=f"sandbox-{n}", endpoint="unix:/nowhere",
                token=bytes([n]) * 68, fence=n, served=pb.SERVED_WARM,
                deadline_unix_ms=self.deadline(opening.ttl_ms)))
            for n in range(1, opening.ahead + 1)])
        while context.is_active() and not self.breaks.wait(0.02):
            pass
        self.breaks.clear()

    def release(self, request, context):
        self.authorization = dict(context.invocation_metadata()).get(
            "authorization")
        # No public name of grpcio's tells it.
        self.authority = context._rpc_event.call_details.host.decode()
        return pb.ReleaseResponse()

    def renew(self, request, context):
        self.renewals.append(request.ttl_ms)
        self.answers.wait(PATIENCE)
        if self.refusals > 0:
            self.refusals -= 1
            context.abort(self.refuses_by, "not now")
        return pb.RenewResponse(token=request.token, fence=1,
                                deadline_unix_ms=self.deadline(request.ttl_ms))


class Faked(unittest.TestCase):
    def setUp(self):
        self.fake = Fake(self)
        self.client = Client(self, self.fake.address)

    def test_clocks_that_do_not_agree(self):
        """What has just come seems old: it is renewed, once."""
        self.fake.behind_ms = 50000
        stock = self.client.stock(4)
        eventually(lambda: len(self.fake.renewals) >= 4, "renewals")
        eventually(lambda: self.client.state(stock)[0] == 4, "4 in stock")
        time.sleep(1)
        self.assertEqual(len(self.fake.renewals), 4)
        self.assertTrue(self.client.take(stock))

    def test_no_answer_is_no_loss(self):
        """Whether a lease is held is asked until there is an answer."""
        stock = self.client.stock(1)
        eventually(lambda: self.client.state(stock)[0] == 1, "1 in stock")
        self.assertTrue(self.client.take(stock))
        eventually(lambda: self.fake.told, "what was taken")
        self.fake.refusals = 3
        self.fake.breaks.set()
        eventually(lambda: len(self.fake.renewals) >= 4, "an answer")
        self.assertEqual(self.client.lost, [])

    def test_what_its_holder_renews_is_not_made_less(self):
        """Though nothing on the stream has confirmed that it was taken."""
        stock = self.client.stock(1)
        for waits in (False, True):
            eventually(lambda: self.client.state(stock)[0] == 1, "1 in stock")
            lease = self.client.take(stock)
            eventually(lambda: self.fake.told, "what was taken")
            self.fake.told, self.fake.renewals = [], []
            if waits:
                self.fake.answers.clear()
            renewal = threading.Thread(target=self.client.renew,
                                       args=(lease, 8 * 3600000))
            renewal.start()
            eventually(lambda: self.fake.renewals, "a renewal")
            if not waits:
                renewal.join()
            self.fake.breaks.set()
            eventually(lambda: self.client.state(stock)[0] == 1, "a new stream")
            time.sleep(0.2)
            self.fake.answers.set()
            renewal.join()
            time.sleep(0.2)
            self.assertEqual(self.fake.renewals, [8 * 3600000])
        self.assertEqual(self.client.lost, [])

    def test_what_its_holder_releases_is_not_lost(self):
        stock = self.client.stock(1)
        eventually(lambda: self.client.state(stock)[0] == 1, "1 in stock")
        lease = self.client.take(stock)
        self.assertEqual(self.client.release(lease), OK)
        self.fake.refusals, self.fake.refuses_by = 1, grpc.StatusCode.NOT_FOUND
        self.fake.breaks.set()
        eventually(lambda: self.client.state(stock)[0] == 1, "a new stream")
        time.sleep(0.2)
        self.assertEqual(self.client.lost, [])
        # What nobody has released is.
        lease = self.client.take(stock)
        self.fake.breaks.set()
        eventually(lambda: self.client.lost == [lease.claim_id], "a loss")

    def test_no_answer_is_no_end(self):
        """A lease in stock that cannot be renewed yet stays there."""
        self.fake.refusals = 2
        stock = self.client.stock(1, ttl_ms=8000)
        eventually(lambda: len(self.fake.renewals) >= 3, "a renewal")
        eventually(lambda: self.client.state(stock)[0] == 1, "1 in stock")
        lease = self.client.take(stock)
        self.assertEqual(lease.sandbox, b"sandbox-1")


class Clients(unittest.TestCase):
    def setUp(self):
        self.daemon = Daemon("--synthetic", replicas=SIZE)
        self.addCleanup(self.daemon.clean)
        self.daemon.wait_full(SIZE)
        self.proxy = Proxy(self, os.path.join(self.daemon.dir, "p"),
                           self.daemon.grpc_path)
        self.client = Client(self, self.proxy.address)

    def fill(self, stock, n):
        eventually(lambda: self.client.state(stock)[0] == n, f"{n} in stock")

    def test_connection_that_is_cut(self):
        """Calls are repeated, and the stock is what it was."""
        stock = self.client.stock(4)
        self.fill(stock, 4)
        self.proxy.cut_all()
        self.assertTrue(self.client.claim(b"one"), self.client.error.message)
        eventually(lambda: self.client.take(stock), "the same stock")
        self.assertEqual(self.client.lost, [])

    def test_goodbye_of_a_connection(self):
        """Another is made for what comes next, while a stream is open."""
        stock = self.client.stock(4)
        self.fill(stock, 4)
        self.proxy.goaway()
        lease = self.client.claim(b"one")
        self.assertTrue(lease, self.client.error.message)
        self.assertEqual(self.proxy.accepted, 2)
        eventually(lambda: self.client.take(stock), "the same stock")
        self.assertEqual(self.client.lost, [])

    def test_connection_that_leads_nowhere(self):
        """Nobody says that it is over. What comes next is tried on another."""
        self.assertTrue(self.client.claim(b"one"), self.client.error.message)
        self.proxy.swallow()
        self.assertIsNone(self.client.claim(b"two"))
        self.assertEqual(self.client.error.code, DEADLINE)
        self.assertTrue(self.client.claim(b"two"), self.client.error.message)
        # The renewals of a stock find out sooner.
        stock = self.client.stock(4, ttl_ms=4000)
        self.fill(stock, 4)
        self.proxy.swallow()
        self.assertTrue(self.client.claim(b"three"), self.client.error.message)

    def test_stocks_of_a_client_that_leaves_wait_at_once(self):
        for stock in [self.client.stock(1) for _ in range(10)]:
            self.fill(stock, 1)
        self.proxy.swallow()
        begun = time.monotonic()
        self.client.disconnect()
        self.assertLess(time.monotonic() - begun, 10)  # 2, and not 20.

    def test_who_is_hung_up_on_comes_seldom(self):
        """And calls wait for as long as they may."""
        stock = self.client.stock(4)
        self.fill(stock, 4)
        self.proxy.hangs_up = True
        self.proxy.cut_all()
        begun = time.monotonic()
        self.assertIsNone(self.client.claim(b"one"))
        self.assertEqual(self.client.error.code, UNAVAILABLE)
        self.assertGreaterEqual(time.monotonic() - begun, 9)
        self.assertLess(self.proxy.accepted, 40)
        self.proxy.hangs_up = False
        self.assertTrue(self.client.claim(b"one"), self.client.error.message)

    def test_who_wants_nothing_comes_seldom(self):
        """The daemon lets go who says nothing; that is nobody's loss."""
        eventually(lambda: self.proxy.clients, "a connection")
        eventually(lambda: not self.proxy.clients, "the daemon's goodbye")
        time.sleep(0.5)
        self.assertEqual(self.proxy.accepted, 1)
        self.assertTrue(self.client.claim(b"one"), self.client.error.message)
        self.assertEqual(self.proxy.accepted, 2)

    def test_who_cannot_be_reached_is_told_of(self):
        """By a stock that cannot be taken from, and by a call."""
        stock = self.client.stock(4)
        self.fill(stock, 4)
        self.assertEqual(self.client.state(stock)[1], OK)
        os.unlink(self.proxy.path)
        self.proxy.cut_all()
        eventually(lambda: self.client.state(stock)[1] == UNAVAILABLE and
                   b"No such file" in self.client.error.message,
                   "why nothing can be taken")
        self.assertIsNone(self.client.take(stock))
        self.assertIsNone(self.client.claim(b"one"))
        self.assertIn(b"in time: cannot reach", self.client.error.message)
        os.link(self.daemon.grpc_path, self.proxy.path)
        eventually(lambda: self.client.state(stock) == (4, OK), "its return")


class Credentials(unittest.TestCase):
    """Files that change while a program runs count from the next connection."""

    def test_another_token(self):
        fake = Fake(self)
        with socket.create_server(("127.0.0.1", 0)) as unused:
            address = f"127.0.0.1:{unused.getsockname()[1]}"
        fake.server.stop(0).wait()
        fake.serve(address)
        path = os.path.join(fake.dir, "token")

        def write(token):
            with open(path + ".new", "w", encoding="ascii") as handle:
                handle.write(token + "\n")
            os.rename(path + ".new", path)

        write("a" * 32)
        client = Client(self, address, access_token_file=path.encode())
        self.assertEqual(client.release(Lease()), OK)
        self.assertEqual(fake.authorization, "Bearer " + "a" * 32)
        fake.server.stop(0).wait()
        write("b" * 40)
        fake.serve(address)
        self.assertEqual(client.release(Lease()), OK)
        self.assertEqual(fake.authorization, "Bearer " + "b" * 40)
        # One that cannot be used changes nothing.
        fake.server.stop(0).wait()
        write("short")
        fake.serve(address)
        self.assertEqual(client.release(Lease()), OK)
        self.assertEqual(fake.authorization, "Bearer " + "b" * 40)

    def test_another_authority(self):
        directory = tempfile.mkdtemp(prefix="wp-tls-")
        self.addCleanup(shutil.rmtree, directory)
        for name in ("old", "new"):
            os.mkdir(os.path.join(directory, name))
        old, new = (rig.Certificates(os.path.join(directory, name))
                    for name in ("old", "new"))
        server = Handshakes(self, old)
        client = Client(self, server.address, tls_name=b"localhost",
                        tls_ca=old.path("ca.pem").encode())
        client.stock(1)
        server.use(new)
        eventually(lambda: server.failed, "a refusal")
        os.rename(new.path("ca.pem"), old.path("ca.pem"))
        eventually(lambda: server.done, "a handshake")


    def test_the_name_that_is_asked_for(self):
        """A proxy that has several daemons behind it goes by that."""
        fake = Fake(self)
        certificates = rig.Certificates(fake.dir)
        ca = certificates.path("ca.pem").encode()
        with open(certificates.path("server.key"), "rb") as key, open(
                certificates.path("server.pem"), "rb") as chain:
            fake.server.stop(0).wait()
            port = fake.serve("127.0.0.1:0", grpc.ssl_server_credentials(
                [(key.read(), chain.read())]))
        for more, authority in (({}, f"127.0.0.1:{port}"),
                                ({"tls_name": b"localhost"}, "localhost")):
            client = Client(self, f"127.0.0.1:{port}", tls_ca=ca, **more)
            self.assertEqual(client.release(Lease()), OK)
            self.assertEqual(fake.authority, authority)

    def test_a_certificate_that_is_asked_for(self):
        """The server's own word is told, which comes after the handshake."""
        directory = tempfile.mkdtemp(prefix="wp-tls-")
        self.addCleanup(shutil.rmtree, directory)
        certificates = rig.Certificates(directory)
        server = Handshakes(self, certificates)
        server.context.load_verify_locations(certificates.path("ca.pem"))
        server.context.verify_mode = ssl.CERT_REQUIRED
        client = Client(self, server.address, tls_name=b"localhost",
                        tls_ca=certificates.path("ca.pem").encode())
        stock = client.stock(1)
        eventually(lambda: client.state(stock)[1] == UNAVAILABLE and
                   b"certificate required" in client.error.message, "why")


class Handshakes:
    """TLS that ends after the handshake."""

    def __init__(self, test, certificates):
        self.use(certificates)
        self.listener = socket.create_server(("127.0.0.1", 0))
        test.addCleanup(self.listener.close)
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.run, daemon=True).start()

    def use(self, certificates):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificates.path("server.pem"),
                                certificates.path("server.key"))
        context.set_alpn_protocols(["h2"])
        self.context = context
        self.done = self.failed = 0  # With these certificates.

    def run(self):
        while True:
            try:
                sock = self.listener.accept()[0]
            except OSError:
                return
            context = self.context
            try:
                with context.wrap_socket(sock, server_side=True) as secure:
                    secure.recv(1)  # What a client says has verified us.
                self.done += context is self.context
            except OSError:
                self.failed += context is self.context


class Refusals(unittest.TestCase):
    def refused(self, words, code=INVALID, **options):
        error = Error()
        client = LIB.warmpool_connect(ctypes.byref(Options(
            **{name: value.encode() for name, value in options.items()})),
            ctypes.byref(error))
        self.assertIsNone(client)
        self.assertIn(words, error.message.decode())
        self.assertEqual(error.code, code)

    def test_errors_say_what_was_expected(self):
        self.refused("a socket's path has at most 107 bytes",
                     address="unix:/" + "x" * 200)
        self.refused("expected an absolute path after 'unix:'",
                     address="unix:here")
        self.refused("tls_ca for TLS", address="example.invalid:1")
        local = "127.0.0.1:1"
        self.refused("tls_ca /nowhere: No such file or directory",
                     address=local, tls_ca="/nowhere")
        with tempfile.NamedTemporaryFile() as empty:
            self.refused(f"tls_ca {empty.name}: no certificate",
                         address=local, tls_ca=empty.name)
        with tempfile.TemporaryDirectory() as directory:
            mine, others = (
                os.path.join(directory, name) for name in ("mine", "others"))
            for place in (mine, others):
                os.mkdir(place)
            certificates = rig.Certificates(mine)
            ca = certificates.path("ca.pem")
            self.refused("tls_cert /nowhere: No such file", address=local,
                         tls_ca=ca, tls_cert="/nowhere", tls_key="/nowhere")
            self.refused(f"tls_key {ca}: ", address=local, tls_ca=ca,
                         tls_cert=certificates.path("honest.pem"), tls_key=ca)
            address = Handshakes(self, certificates).address
            self.refused("the certificate for localhost: unable to get local "
                         "issuer certificate", UNAVAILABLE, address=address,
                         tls_name="localhost",
                         tls_ca=rig.Certificates(others).path("ca.pem"))
            self.refused("the certificate for other.example: hostname mismatch",
                         UNAVAILABLE, address=address, tls_ca=ca,
                         tls_name="other.example")


class Strangers(unittest.TestCase):
    def test_who_is_no_grpc_server_is_told_of(self):
        """As a proxy is whose daemon is not there."""
        directory = tempfile.mkdtemp(prefix="wp-no-")
        self.addCleanup(shutil.rmtree, directory)
        listener = socket.socket(socket.AF_UNIX)
        self.addCleanup(listener.close)
        listener.bind(directory + "/s")
        listener.listen(8)

        def serve():
            with listener.accept()[0] as sock, sock.makefile("rb") as frames:
                sock.sendall(wire.frame(wire.SETTINGS, 0, 0))
                frames.read(len(wire.PREFACE))
                while head := frames.read(9):
                    frames.read(int.from_bytes(head[:3], "big"))
                    if head[3] == wire.HEADERS:
                        sock.sendall(wire.frame(  # :status 503
                            wire.HEADERS, wire.END_STREAM | wire.END_HEADERS,
                            int.from_bytes(head[5:], "big"), b"\x08\x03503"))
        thread = threading.Thread(target=serve)
        thread.start()
        client = Client(self, f"unix:{directory}/s")
        self.assertIsNone(client.claim(b"one"))
        self.assertEqual(client.error.code, UNAVAILABLE)
        self.assertIn(b"the call without an answer: HTTP status 503",
                      client.error.message)
        stock = client.stock(1)
        eventually(lambda: client.state(stock) == (0, UNAVAILABLE), "why")
        self.assertIn(b"the stream without an answer: HTTP status 503",
                      client.error.message)
        client.disconnect()
        thread.join()


SLEEPS = """
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <warmpool.h>

static volatile long slept_s;

int clock_gettime(clockid_t id, struct timespec *ts)
{
    long failed = syscall(SYS_clock_gettime, id, ts);

    if (id == CLOCK_BOOTTIME || id == CLOCK_REALTIME) {
        ts->tv_sec += slept_s;
    }
    return (int)failed;
}

int main(void)
{
    const struct warmpool_stock_options wanted = {
        .pool = "quickstart", .ahead = 4, .ttl_ms = 60000};
    struct warmpool *client = warmpool_connect(NULL, NULL);
    struct warmpool_stock *stock = warmpool_stock_open(client, &wanted, NULL);
    struct warmpool_lease lease;
    int awake;
    int asleep;

    while (warmpool_stock_state(stock, NULL) < 4) {
        usleep(1000);
    }
    awake = warmpool_stock_take(stock, &lease);
    slept_s = 50;
    asleep = warmpool_stock_take(stock, &lease);
    slept_s = 0;
    warmpool_disconnect(client);
    return awake && !asleep ? 0 : 1;
}
"""


class Installed(unittest.TestCase):
    """Programs that are built with what is installed."""

    def setUp(self):
        self.prefix = tempfile.mkdtemp(prefix="wp-client-")
        self.addCleanup(shutil.rmtree, self.prefix)
        self.run_well("cmake", "-DCMAKE_INSTALL_PREFIX=" + self.prefix, "-P",
                      os.path.join(os.path.dirname(LIBRARY),
                                   "cmake_install.cmake"))
        self.pc = os.path.dirname(glob.glob(
            self.prefix + "/**/warmpool.pc", recursive=True)[0])
        self.libraries = os.path.dirname(self.pc)

    def run_well(self, *args, **more):
        done = subprocess.run(args, stdout=subprocess.PIPE, timeout=PATIENCE,
                              stderr=subprocess.STDOUT, text=True, check=False,
                              env=dict(os.environ, **more))
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout

    def flags(self, *what):
        return self.run_well("pkg-config", *what,
                             PKG_CONFIG_PATH=self.pc).split()

    def build(self, name, *args):
        program = os.path.join(self.prefix, name)
        self.run_well(*args, "-Wall", "-Wextra", "-Werror", "-pedantic", "-o",
                      program)
        return program

    def test_example(self):
        example = os.path.join(DEPLOY, "examples", "claims_ahead.c")
        linked = self.build(
            "shared", "cc", example,
            *self.flags("--cflags", "--libs", "warmpool"))
        alone = self.build(
            "static", "cc", example, *self.flags("--cflags", "warmpool"),
            os.path.join(self.libraries, "libwarmpool.a"),
            *self.flags("--libs", "libnghttp2", "libprotobuf-c", "openssl"))
        daemon = Daemon("--synthetic", replicas=SIZE)
        self.addCleanup(daemon.clean)
        daemon.wait_full(SIZE)
        for program in (linked, alone):
            said = self.run_well(program, "quickstart",
                                 LD_LIBRARY_PATH=self.libraries,
                                 WARMPOOL_ADDRESS="unix:" + daemon.grpc_path)
            self.assertIn("100 claims", said)

    def test_what_ends_while_the_machine_sleeps(self):
        """A clock of the program's own stands for the machine's."""
        source = os.path.join(self.prefix, "sleeps.c")
        with open(source, "w", encoding="ascii") as handle:
            handle.write(SLEEPS)
        program = self.build(
            "sleeps", "cc", source,
            *self.flags("--cflags", "--libs", "warmpool"))
        daemon = Daemon("--synthetic", replicas=SIZE)
        self.addCleanup(daemon.clean)
        daemon.wait_full(SIZE)
        self.run_well(program, LD_LIBRARY_PATH=self.libraries,
                      WARMPOOL_ADDRESS="unix:" + daemon.grpc_path)

    def test_cxx(self):
        source = os.path.join(self.prefix, "x.cc")
        with open(source, "w", encoding="ascii") as handle:
            handle.write("#include <warmpool.h>\nint main() {\n"
                         "    warmpool_error error;\n"
                         "    warmpool_options options = warmpool_options();\n"
                         "    options.address = \"unix:/nowhere/at.all\";\n"
                         "    return warmpool_connect(&options, &error) != 0 ||\n"
                         "           error.code != WARMPOOL_UNAVAILABLE;\n}\n")
        for standard in ("c++98", "c++20"):
            self.run_well(
                self.build(standard, "c++", "-std=" + standard, source,
                           *self.flags("--cflags", "--libs", "warmpool")),
                LD_LIBRARY_PATH=self.libraries)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]] + sys.argv[5:], verbosity=2)
