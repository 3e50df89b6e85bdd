"""The egress proxy by itself, against clients and servers of another stack."""
import contextlib
import os
import socket
import ssl
import subprocess
import tempfile
import threading
import unittest
import urllib.request

from egress_rig import BINARY, PAGE, Case, Origin, main, wait_until


class Allowed(Case):
    def test_http(self):
        proxy = self.proxy(self.here)
        status, head, body = proxy.get("http://%s/a?b=c" % self.here,
                                       "Proxy-Authorization: Basic eDp5",
                                       "Proxy-Connection: keep-alive",
                                       "X-Mine: 1")
        self.assertEqual((status, body), (200, PAGE), head)
        line, fields, _ = self.origin.asked[0]
        self.assertEqual(line, "GET /a?b=c HTTP/1.1")
        self.assertEqual(fields["Host"], self.here)
        self.assertEqual(fields["X-Mine"], "1")
        self.assertFalse([name for name in fields
                          if name.lower().startswith("proxy")])

    def test_other_clients(self):
        proxy = self.proxy(self.here)
        url = "http://127.0.0.1:%d" % proxy.port
        done = subprocess.run(
            ["curl", "-sS", "-x", url, "http://%s/" % self.here],
            capture_output=True, check=True, timeout=90)
        self.assertEqual(done.stdout, PAGE)
        # Through CONNECT, two requests on one tunnel.
        done = subprocess.run(
            ["curl", "-sS", "-p", "-x", url, "http://%s/1" % self.here,
             "http://%s/2" % self.here], capture_output=True, check=True,
            timeout=90)
        self.assertEqual(done.stdout, 2 * PAGE)
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({"http": url}))
        with opener.open("http://%s/" % self.here, timeout=90) as answer:
            self.assertEqual(answer.read(), PAGE)

    def test_bodies(self):
        proxy = self.proxy(self.here)
        for framing, sent in (
                (b"Content-Length: 65536\r\n\r\n", PAGE),
                (b"Transfer-Encoding: chunked\r\n\r\n",
                 b"8000;x=y\r\n" + PAGE[:32768] + b"\r\n8000\r\n" +
                 PAGE[32768:] + b"\r\n0\r\nTrailer: x\r\n\r\n")):
            status, _, body = proxy.raw(
                b"POST http://%s/ HTTP/1.1\r\nConnection: close\r\n"
                % self.here.encode() + framing + sent)
            self.assertEqual((status, body), (200, PAGE))

    def test_keep_alive(self):
        proxy = self.proxy(self.here)
        with proxy.connect() as sock:
            one = b"GET http://%s/ HTTP/1.1\r\n\r\n" % self.here.encode()
            sock.sendall(one + one)  # Pipelined: the second one waits.
            got = b""
            while got.count(PAGE) < 2:
                piece = sock.recv(65536)
                self.assertTrue(piece)
                got += piece
        self.assertEqual(len(self.origin.asked), 2)

    def test_half_closed(self):
        proxy = self.proxy(self.here)
        status, _, body = proxy.raw(b"GET http://%s/ HTTP/1.0\r\n\r\n" %
                                    self.here.encode(), half_close=True)
        self.assertEqual((status, body), (200, PAGE))
        # In a tunnel the server learns of the end, and says its last words.
        with socket.create_server(("127.0.0.1", 0)) as server:
            target = "127.0.0.1:%d" % server.getsockname()[1]
            status, sock = self.proxy(target).tunnel(target)
            self.assertEqual(status, 200)
            with sock, server.accept()[0] as peer:
                sock.sendall(b"all")
                sock.shutdown(socket.SHUT_WR)
                got = b""
                while True:
                    piece = peer.recv(100)
                    if not piece:
                        break
                    got += piece
                self.assertEqual(got, b"all")
                peer.sendall(b"bye")
                peer.close()
                self.assertEqual(sock.recv(100), b"bye")
                self.assertEqual(sock.recv(100), b"")

    def test_told(self):
        proxy = self.proxy(self.here)
        proxy.get("http://%s/secret-path" % self.here, "Authorization: s3cret")
        proxy.get("http://evil.test/")
        lines = wait_until(lambda: len(proxy.lines("egress")) == 2 and
                           proxy.lines("egress"), "two lines")
        self.assertEqual((lines[0]["verdict"], lines[0]["to"],
                          lines[0]["address"]),
                         ("allowed", self.here, self.here))
        self.assertGreaterEqual(lines[0]["received"], len(PAGE))
        self.assertEqual((lines[1]["verdict"], lines[1]["to"]),
                         ("refused", "evil.test:80"))
        for secret in ("s3cret", "secret-path"):
            self.assertNotIn(secret, proxy.log())


class Refused(Case):
    def refusal(self, answer, status, *words):
        self.assertEqual(answer[0], status, answer)
        for word in words:
            self.assertIn(word, answer[2].decode())

    def test_by_policy(self):
        proxy = self.proxy("good.test *.below.test 127.0.0.1:1")
        self.refusal(proxy.get("http://evil.test/"), 403, "evil.test:80",
                     "good.test *.below.test")
        for url in ("good.test:8080", "below.test", "xbelow.test",
                    "good.test.evil.test", "127.0.0.1", self.here,
                    "2130706433:%d" % self.origin.port, "0x7f.1", "[::1]",
                    "[::ffff:127.0.0.1]:%d" % self.origin.port,
                    "169.254.169.254", "[fd00:ec2::254]"):
            self.refusal(proxy.get("http://%s/" % url), 403)
        for target in ("evil.test:443", "good.test:80", "good.test:22",
                       "169.254.169.254:443"):
            status, sock = proxy.tunnel(target)
            sock.close()
            self.assertEqual(status, 403, target)
        self.assertEqual(self.origin.asked, [])

    def test_nothing_or_everything(self):
        self.refusal(self.proxy("none").get("http://a.test/"), 403, "none")
        proxy = self.proxy("open")
        for url in (self.here, "169.254.169.254", "10.0.0.1", "0", "127.1",
                    "[::1]", "[64:ff9b::7f00:1]", "100.64.0.1", "224.0.0.1"):
            self.refusal(proxy.get("http://%s/" % url), 403)

    def test_targets_that_are_none(self):
        proxy = self.proxy("open " + self.here)
        for line in ("GET https://a.test/", "GET a.test", "GET *", "GET /",
                     "GET /x/y", "GET http://", "GET http:///x",
                     "GET http://u:p@a.test/", "GET http://a.test/#x",
                     "GET http://a.test:0/", "GET http://a.test:99999/",
                     "GET http://a..test/", "GET http://a%2etest/",
                     "GET ftp://a.test/", "GET http:/a.test/",
                     "CONNECT a.test", "CONNECT /", "CONNECT http://a.test:443",
                     "CONNECT a.test:443/", "CONNECT u@a.test:443",
                     "CONNECT :443", "CONNECT a.test:"):
            status, _, body = proxy.raw(line.encode() +
                                        b" HTTP/1.1\r\nHost: a.test\r\n\r\n",
                                        half_close=True)
            self.assertEqual(status, 400, (line, body))

    def test_what_two_parsers_read_in_two_ways(self):
        proxy = self.proxy(self.here)
        post = b"POST http://%s/ HTTP/1.1\r\n" % self.here.encode()
        for request in (
                post + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n"
                b"\r\n0\r\n\r\n",
                post + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
                post + b"Content-Length: 0x3\r\n\r\nabc",
                post + b"Content-Length: +3\r\n\r\nabc",
                post + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
                post + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
                post + b"A: b\r\n c\r\nContent-Length: 0\r\n\r\n",
                post + b"A: b\nContent-Length: 0\r\n\r\n",
                post + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
                b"CONNECT %s HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc"
                % self.here.encode(),
                b"GET http://%s/ HTTP/2.0\r\n\r\n" % self.here.encode(),
                b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\x16\x03\x01\x02\x00\r\n"
                b"\r\n"):
            status, _, body = proxy.raw(request, half_close=True)
            self.assertEqual(status, 400, (request, body))
        self.assertEqual([line for line, _, body in self.origin.asked if body],
                         [])

    def test_huge_heads(self):
        proxy = self.proxy(self.here)
        for field in (b"A: " + b"x" * 20000, b"\r\n".join(
                b"A%d: b" % i for i in range(200))):
            status, _, _ = proxy.raw(b"GET http://%s/ HTTP/1.1\r\n%s\r\n\r\n" %
                                     (self.here.encode(), field))
            self.assertEqual(status, 431)

    def test_bytes_are_bounded(self):
        proxy = self.proxy(self.here, "--source-bytes-max", "100000")
        self.assertEqual(proxy.get("http://%s/" % self.here)[2], PAGE)
        self.assertLess(len(proxy.get("http://%s/" % self.here)[2]), len(PAGE))
        self.refusal(proxy.get("http://%s/" % self.here), 403, "used up")
        verdicts = wait_until(lambda: len(proxy.lines("egress")) == 3 and
                              proxy.lines("egress"), "three lines")
        self.assertEqual([line["verdict"] for line in verdicts],
                         ["allowed", "cut", "refused"])

    def test_lines_of_the_log_are_bounded(self):
        proxy = self.proxy("none")
        with contextlib.suppress(ConnectionError):
            for _ in range(300):
                proxy.get("http://evil.test/")
        self.assertLess(len(proxy.lines("egress")), 300)
        wait_until(lambda: (proxy.get("http://evil.test/"),
                            proxy.lines("egress not told of"))[1],
                   "how many were not told of")


class Limits(Case):
    def test_as_many_files_as_may_be(self):
        """Each sandbox adds a socket; the soft limit is for other programs."""
        with tempfile.TemporaryFile() as log:
            process = subprocess.Popen(
                ["sh", "-c", 'ulimit -S -n 128; exec "$0" --listen 127.0.0.1:0 '
                 "--policy none", BINARY], stdout=log, stderr=log)
            self.addCleanup(process.wait)
            self.addCleanup(process.kill)

            def limits():
                with open(f"/proc/{process.pid}/limits",
                          encoding="utf-8") as file:
                    return next(line.split()[3:5] for line in file
                                if line.startswith("Max open files"))
            wait_until(lambda: limits()[0] == limits()[1] != "128",
                       "its limit is raised")

    def test_closed_streams(self):
        """A stream that is closed is not another descriptor of the proxy."""
        process = subprocess.Popen(
            ["sh", "-c", 'exec "$0" --listen 127.0.0.1:0 --policy none '
             "<&- >&- 2>&-", BINARY])
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        folder = f"/proc/{process.pid}/fd/"

        def listens():
            with contextlib.suppress(FileNotFoundError):  # Closed meanwhile.
                return any(os.readlink(folder + name).startswith("socket:")
                           for name in os.listdir(folder))
            return False
        wait_until(listens, "it listens")
        for stream in "012":
            self.assertEqual(os.readlink(folder + stream), "/dev/null")


class Shared(Case):
    """What one address may take of a proxy that listens for many."""

    def setUp(self):
        super().setUp()
        try:
            socket.create_server(("::1", 0), family=socket.AF_INET6).close()
        except OSError:
            self.skipTest("no IPv6 here")

    def ask(self, proxy, address):
        """(socket, status): of a connection that stays open if it is served."""
        sock = socket.create_connection((address, proxy.port), timeout=60)
        self.addCleanup(sock.close)
        sock.sendall(f"GET http://{self.here}/ HTTP/1.1\r\n"
                     f"Host: {self.here}\r\n\r\n".encode())
        return sock, int(sock.recv(4096).split()[1])

    def test_connections(self):
        proxy = self.proxy(self.here, "--source-conns-max", "3", listen="[::]")
        held = [self.ask(proxy, "127.0.0.1") for _ in range(3)]
        self.assertEqual([status for _, status in held], [200] * 3)
        self.assertEqual(self.ask(proxy, "127.0.0.1")[1], 403)
        self.assertEqual(self.ask(proxy, "::1")[1], 200)
        held[0][0].close()
        wait_until(lambda: self.ask(proxy, "127.0.0.1")[1] == 200,
                   "room for another one")

    def test_lines_of_the_log(self):
        proxy = self.proxy("none", listen="[::]")
        for _ in range(300):
            proxy.get("http://evil.test/")
        self.ask(proxy, "::1")
        wait_until(lambda: [line for line in proxy.lines("egress")
                            if "::1" in line["sandbox"]],
                   "the other one's line")
        self.assertLess(len(proxy.lines("egress")), 300)
        wait_until(lambda: (proxy.get("http://evil.test/"), [
            line for line in proxy.lines("egress not told of")
            if "127.0.0.1" in line["sandbox"]])[1],
            "how many were not told of")


class Narrowed(Case):
    """The daemon's words over the channel, without a daemon."""

    def setUp(self):
        super().setUp()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.channel = ours
        ours.settimeout(90)
        self.process = subprocess.Popen(
            ["sh", "-c", f'exec "$0" --channel 3<&{theirs.fileno()}', BINARY],
            pass_fds=[theirs.fileno()], stderr=subprocess.DEVNULL)
        theirs.close()
        self.addCleanup(self.ended)
        self.addCleanup(ours.close)
        self.way = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(self.way.close)

    def ended(self):
        self.assertEqual(self.process.wait(90), 0)

    def join(self, *texts):
        socket.send_fds(self.channel, ["\0".join(("Js", *texts)).encode()],
                        [self.way.fileno()])

    def open_tunnel(self):
        """(status, socket)"""
        sock = socket.create_connection(self.way.getsockname(), timeout=90)
        self.addCleanup(sock.close)
        sock.sendall(b"CONNECT %s HTTP/1.1\r\n\r\n" % self.here.encode())
        head = b""
        while b"\r\n\r\n" not in head:
            head += sock.recv(1)
        return int(head.split()[1]), sock

    def test_what_is_open_ends(self):
        self.join(self.here, "")
        status, sock = self.open_tunnel()
        self.assertEqual(status, 200)
        self.join(self.here + " other.test", "other.test")
        self.assertEqual(self.channel.recv(100), b"Ns")
        with contextlib.suppress(ConnectionResetError):
            self.assertEqual(sock.recv(1), b"")
        self.assertEqual(self.open_tunnel()[0], 403)

    def test_more_reaches_nothing(self):
        self.join(self.here, "")
        self.assertEqual(self.open_tunnel()[0], 200)
        self.join(self.here, "other.test")
        self.assertEqual(self.channel.recv(100), b"Rs")
        # Its socket is not accepted from any more.
        waits = socket.create_connection(self.way.getsockname(), timeout=90)
        self.addCleanup(waits.close)
        self.way.settimeout(90)
        self.way.accept()[0].close()


class Names(Case):
    def test_the_address_must_be_allowed(self):
        names = self.name_server()
        port = self.origin.port
        names.names = {"a.test": [["127.0.0.1"]], "meta.test":
                       [["169.254.169.254"]], "six.test": [["fd00:ec2::254"]],
                       "mapped.test": [["::ffff:169.254.169.254"]],
                       "nat.test": [["64:ff9b::a9fe:a9fe"]], "slow.test": None}
        asked = " ".join("%s:%d" % (name, port) for name in names.names)
        proxy = self.proxy(asked, "--name-servers", names.address,
                           "--connect-timeout", "500ms")
        for name, word in (("a", "loopback"), ("meta", "metadata"),
                           ("six", "metadata"), ("mapped", "metadata"),
                           ("nat", "translated")):
            status, _, body = proxy.get("http://%s.test:%d/" % (name, port))
            self.assertEqual(status, 403, body)
            self.assertIn(name + ".test:%d" % port, body.decode())
            self.assertIn(word, body.decode())
        self.assertEqual(proxy.get("http://slow.test:%d/" % port)[0], 504)
        proxy = self.proxy("%s gone.test:%d %s" % (asked, port, self.here),
                           "--name-servers", names.address)
        status, _, body = proxy.get("http://A.Test.:%d/" % port)
        self.assertEqual((status, body), (200, PAGE))
        self.assertEqual(self.origin.asked[0][1]["Host"], "a.test:%d" % port)
        status, _, body = proxy.get("http://gone.test:%d/" % port)
        self.assertEqual(status, 502, body)
        self.assertIn("gone.test cannot be resolved", body.decode())

    def test_an_answer_that_comes_too_late(self):
        names = self.name_server()
        port = self.origin.port
        names.names = {"late.test": [["127.0.0.1"]], "a.test": [["127.0.0.1"]]}
        names.held["late.test"] = threading.Event()
        proxy = self.proxy("late.test:%d a.test:%d %s" % (port, port,
                                                          self.here),
                           "--name-servers", names.address,
                           "--connect-timeout", "300ms")
        with proxy.connect() as sock:
            sock.sendall(b"GET http://late.test:%d/ HTTP/1.1\r\n\r\n" % port)
            got = sock.recv(1000)
            self.assertIn(b" 504 ", got)
            names.held["late.test"].set()  # The client has not left yet.
            self.assertEqual(proxy.get("http://a.test:%d/" % port)[0], 200)
            while True:
                piece = sock.recv(1000)
                if not piece:
                    break
                got += piece
        self.assertEqual(got.count(b"HTTP/1.1"), 1)
        self.assertEqual(len(self.origin.asked), 1)

    def test_rebinding(self):
        # What was checked is what is connected to: each request by its own
        # answer, and of an answer only what may be.
        names = self.name_server()
        port = self.origin.port
        names.names = {"re.test": [["127.0.0.1"], ["169.254.169.254"]],
                       "two.test": [["10.255.255.1", "127.0.0.1"]]}
        proxy = self.proxy("re.test:%d two.test:%d %s" % (port, port,
                                                          self.here),
                           "--name-servers", names.address)
        self.assertEqual(proxy.get("http://re.test:%d/" % port)[0], 200)
        status, _, body = proxy.get("http://re.test:%d/" % port)
        self.assertEqual(status, 403)
        self.assertIn("169.254.169.254", body.decode())
        self.assertEqual(proxy.get("http://two.test:%d/" % port)[0], 200)
        self.assertEqual(names.asked["re.test", 1], 2)

    def test_the_next_address(self):
        # One that does not answer is left for the next.
        names = self.name_server()
        port = self.origin.port
        names.names = {"a.test": [["127.0.0.2", "127.0.0.1"]]}
        proxy = self.proxy("a.test:%d 127.0.0.0/8:%d" % (port, port),
                           "--name-servers", names.address)
        self.assertEqual(proxy.get("http://a.test:%d/" % port)[0], 200)
        closed = socket.create_server(("127.0.0.1", 0))
        gone = closed.getsockname()[1]
        closed.close()
        status, _, body = self.proxy("127.0.0.1:%d" % gone).get(
            "http://127.0.0.1:%d/" % gone)
        self.assertEqual(status, 502)
        self.assertIn("cannot be reached", body.decode())


class Hostile(Case):
    def test_slow_heads(self):
        proxy = self.proxy(self.here, "--idle-timeout", "300ms")
        with proxy.connect() as sock:
            sock.sendall(b"GET http://%s/ HT" % self.here.encode())
            self.assertIn(b"408", sock.recv(1000))
        with proxy.connect() as sock:  # Says nothing at all.
            self.assertIn(b"408", sock.recv(1000))
        with proxy.connect() as sock:  # A body that does not come.
            sock.sendall(b"POST http://%s/ HTTP/1.1\r\nContent-Length: 9\r\n"
                         b"\r\nabc" % self.here.encode())
            self.assertIn(b"408", sock.recv(1000))

    def test_silent_tunnels(self):
        with socket.create_server(("127.0.0.1", 0)) as server:
            target = "127.0.0.1:%d" % server.getsockname()[1]
            status, sock = self.proxy(target, "--silence-timeout",
                                      "300ms").tunnel(target)
            with sock, server.accept()[0] as peer:
                self.assertEqual(status, 200)
                self.assertEqual(sock.recv(100), b"")
                self.assertEqual(peer.recv(100), b"")

    def test_a_reader_that_stalls(self):
        # The proxy holds no more than its buffers; the server waits.
        with socket.create_server(("127.0.0.1", 0)) as server:
            target = "127.0.0.1:%d" % server.getsockname()[1]
            proxy = self.proxy(target, "--idle-timeout", "500ms")
            status, sock = proxy.tunnel(target)
            self.assertEqual(status, 200)
            with sock, server.accept()[0] as peer:
                peer.settimeout(90)
                with self.assertRaises(OSError):
                    while True:  # Cut when the other side takes nothing.
                        peer.sendall(PAGE)

    def test_many_connections(self):
        # Idle ones take all places; an honest request is served when they have
        # had their time.
        count = int(os.environ.get("WP_EGRESS_CONNECTIONS", "500"))
        proxy = self.proxy(self.here, "--conns-max", str(max(64, count // 8)),
                           "--idle-timeout", "500ms")
        socks = []
        try:
            for _ in range(count):
                sock = socket.socket()
                sock.setblocking(False)
                sock.connect_ex(("127.0.0.1", proxy.port))
                socks.append(sock)
            status, _, body = proxy.get("http://%s/" % self.here)
            self.assertEqual((status, body), (200, PAGE))
        finally:
            for sock in socks:
                sock.close()

    def test_many_at_once(self):
        proxy = self.proxy(self.here)
        wrong = []

        def ask():
            for _ in range(20):
                if proxy.get("http://%s/" % self.here)[2] != PAGE:
                    wrong.append(1)

        threads = [threading.Thread(target=ask) for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])


class Keys(Case):
    def setUp(self):
        super().setUp()
        place = tempfile.TemporaryDirectory(prefix="wp-egress-keys-")
        self.addCleanup(place.cleanup)
        self.path = os.path.join(place.name, "keys")
        self.ca = os.path.join(place.name, "ca.pem")
        key = os.path.join(place.name, "key.pem")
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
             "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj",
             "/CN=localhost", "-addext", "subjectAltName=DNS:localhost",
             "-keyout", key, "-out", self.ca], check=True, capture_output=True)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.ca, key)
        self.secure = Origin(context)
        self.addCleanup(self.secure.stop)
        with open(self.path, "w", encoding="ascii") as file:
            file.write(
                "# Two keys.\n"
                "plain http://%s/api Authorization: Bearer s3cret-1\n"
                "sealed https://localhost:%d/v1/ X-Key: s3cret-2\n"
                "elsewhere https://127.0.0.1:%d X-Key: s3cret-3\n" %
                (self.here, self.secure.port, self.secure.port))
        os.chmod(self.path, 0o600)
        self.policy = "key:plain key:sealed key:elsewhere %s 127.0.0.1:%d" % (
            self.here, self.secure.port)

    def test_added(self):
        proxy = self.proxy(self.policy, "--keys", self.path, "--ca", self.ca)
        mine = "Authorization: mine"
        self.assertEqual(proxy.get("/plain/x?y=1", mine)[0], 200)
        self.assertEqual(proxy.get("http://%s/z" % self.here, mine)[0], 200)
        asked = self.origin.asked
        self.assertEqual([line for line, _, _ in asked],
                         ["GET /api/x?y=1 HTTP/1.1", "GET /z HTTP/1.1"])
        for _, fields, _ in asked:
            self.assertEqual(fields["Authorization"], "Bearer s3cret-1")
        status, _, body = proxy.get("/sealed/chat", mine)
        self.assertEqual((status, body), (200, PAGE))
        line, fields, _ = self.secure.asked[0]
        self.assertEqual((line, fields["Host"], fields["X-Key"]),
                         ("GET /v1/chat HTTP/1.1",
                          "localhost:%d" % self.secure.port, "s3cret-2"))
        # A server that does not prove its name gets nothing.
        self.assertEqual(proxy.get("/elsewhere/")[0], 502)
        self.assertEqual(len(self.secure.asked), 1)
        self.assertNotIn("s3cret", proxy.log())
        with open("/proc/%d/cmdline" % proxy.process.pid, "rb") as file:
            self.assertNotIn(b"s3cret", file.read())

    def test_below_its_url(self):
        """What a key is for is below the path of its URL."""
        proxy = self.proxy(self.policy, "--keys", self.path, "--ca", self.ca)
        for path in ("../x", "a/../../x", "..", "a/..", "%2e%2E/x", ".%2e/x",
                     "..%2fx", "..%5Cx", "a/..;b/x", "../x?y"):
            self.assertEqual(proxy.get("/sealed/" + path)[0], 400, path)
        self.assertEqual(self.secure.asked, [])
        for path in ("...", "a..", "..a", "%2ex", "a?b=../..", "a/.b;c"):
            self.assertEqual(proxy.get("/sealed/" + path)[0], 200, path)
        self.assertEqual(self.secure.asked[-1][0], "GET /v1/a/.b;c HTTP/1.1")

    def test_not_for_everybody(self):
        proxy = self.proxy(self.here, "--keys", self.path, "--ca", self.ca)
        self.assertEqual(proxy.get("/plain/x")[0], 400)
        self.assertEqual(proxy.get("http://%s/" % self.here)[0], 200)
        self.assertNotIn("Authorization", self.origin.asked[0][1])

    def test_files_that_are_none(self):
        for mode, text in ((0o644, "a http://b C: d\n"), (0o600, "a\n"),
                           (0o600, "a ftp://b C: d\n"), (0o600, "a http://b C\n"),
                           (0o600, "a http://b C: \n"),
                           (0o600, "a http://b C: s3cret\na http://b C: d\n")):
            with open(self.path, "w", encoding="ascii") as file:
                file.write(text)
            os.chmod(self.path, mode)
            done = subprocess.run(
                [os.environ["WP_EGRESS_BINARY"], "--listen", "127.0.0.1:0",
                 "--policy", "none", "--keys", self.path], timeout=90,
                capture_output=True, check=False)
            self.assertEqual(done.returncode, 1, text)
            self.assertIn(b"keys", done.stderr)
            self.assertNotIn(b"s3cret", done.stderr)


class Options(unittest.TestCase):
    def test_what_is_only_asked(self):
        for option, says in (("--help", b"Usage: warmpool-egress --listen"),
                             ("--version", b"warmpool-egress ")):
            done = subprocess.run([os.environ["WP_EGRESS_BINARY"], option],
                                  capture_output=True, timeout=90, check=False)
            self.assertEqual((done.returncode, done.stderr), (0, b""), option)
            self.assertTrue(done.stdout.startswith(says), done.stdout)

    def test_bad_ones(self):
        for words, error in (
                ([], b"--listen and --policy are needed"),
                (["--listen", "127.0.0.1:0", "--policy", "a b/c"], b"'b/c'"),
                (["--listen", "127.0.0.1:0", "--policy", "none", "x"], b"'x'"),
                (["--conns-max", "0"], b"from 1 to"),
                (["--idle-timeout", "1"], b"a duration"),
                (["--listen", "127.0.0.1:0", "--policy", "packages",
                  "--packages", "key:a"], b"--packages")):
            done = subprocess.run([os.environ["WP_EGRESS_BINARY"], *words],
                                  capture_output=True, timeout=90, check=False)
            self.assertEqual(done.returncode, 2, words)
            self.assertIn(error, done.stderr)


if __name__ == "__main__":
    main()
