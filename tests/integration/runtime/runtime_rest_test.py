"""The REST API of the in-sandbox server, against the real program."""
import concurrent.futures
import ctypes
import hashlib
import http.client
import json
import os
import resource
import signal
import socket
import subprocess
import tempfile
import time
import unittest

from runtime_rig import (BINARY, DEADLINE_S, Server, ServerCase, main,
                         process_gone, read_bytes, read_text, wait_until)


class Status(ServerCase):
    def test_status_and_health(self):
        status, answer = self.server.get_json("/")
        self.assertEqual((status, answer["status"]), (200, "ok"))
        self.assertIn("message", answer)
        self.assertEqual(self.server.request("GET", "/healthz")[0], 200)
        status, headers, body = self.server.request("HEAD", "/")
        self.assertEqual((status, body), (200, b""))
        self.assertGreater(int(headers["Content-Length"]), 0)

    def test_keep_alive_and_pipelining(self):
        with socket.create_connection(("127.0.0.1", self.server.port)) as sock:
            sock.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n" * 3)
            got = b""
            while got.count(b"ok\n") < 3:
                got += sock.recv(4096)
            self.assertEqual(got.count(b"HTTP/1.1 200 OK"), 3)

    def test_foreign_origin_is_refused(self):
        for origin, want in (("http://evil.example", 403),
                             ("http://localhost.evil.example", 403),
                             ("null", 403),
                             ("http://localhost:3000", 200),
                             ("http://[::1]:3000", 200)):
            status = self.server.request("GET", "/healthz",
                                         headers={"Origin": origin})[0]
            self.assertEqual(status, want, origin)

    def test_malformed_heads(self):
        def answer(data):
            with socket.create_connection(("127.0.0.1", self.server.port),
                                          timeout=90) as sock:
                try:
                    sock.sendall(data)
                except ConnectionError:
                    pass
                got = b""
                while True:
                    piece = sock.recv(4096)
                    if not piece:
                        return got
                    got += piece
        self.assertIn(b"400 Bad Request", answer(b"\x00\x01\x02\r\n\r\n"))
        self.assertIn(b" 431 ", answer(b"GET / HTTP/1.1\r\nA: " + b"a" * 20000
                                       + b"\r\n\r\n"))
        self.assertIn(b" 431 ", answer(b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 80
                                       + b"\r\n"))
        self.assertIn(b" 400 ", answer(
            b"POST /execute HTTP/1.1\r\nContent-Length: 3\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n"))
        self.assertIn(b" 413 ", answer(
            b"POST /execute HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n"))


class Token(unittest.TestCase):
    """Who shows the sandbox's token, and what is open without."""
    TOKEN = "sesame"
    DIGEST = hashlib.sha256(TOKEN.encode()).hexdigest()
    EXEC = ("POST", "/v1/exec", json.dumps({"argv": ["true"]}))

    def start(self, **env):
        server = Server(env={"WARMPOOL_RUNTIME_TOKEN_DIGEST": self.DIGEST,
                             **env})
        self.addCleanup(lambda: self.assertEqual(server.stop(), 0))
        return server

    def statuses(self, server, token):
        headers = {} if token is None else {"X-Warmpool-Token": token}
        return [server.request(*ask, headers=headers)[0] for ask in (
            self.EXEC, ("GET", "/"), ("GET", "/list"), ("GET", "/healthz"))]

    def test_control_needs_it(self):
        server = self.start()
        for token in (None, "", "wrong", self.DIGEST):
            self.assertEqual(self.statuses(server, token),
                             [401, 200, 200, 200], token)
        # Without Upgrade it is a request that cannot be served; it was let in.
        self.assertEqual(self.statuses(server, self.TOKEN),
                         [426, 200, 200, 200])

    def test_a_template_may_have_it_asked_for_everywhere(self):
        server = self.start(WARMPOOL_RUNTIME_TOKEN_FOR="all")
        for token in (None, self.DIGEST):
            self.assertEqual(self.statuses(server, token),
                             [401, 401, 401, 200], token)
        self.assertEqual(server.rpc({"jsonrpc": "2.0", "id": 1,
                                     "method": "ping"})[0], 401)
        self.assertEqual(self.statuses(server, self.TOKEN),
                         [426, 200, 200, 200])

    def test_settings_that_would_open_it_are_refused(self):
        for env, words in (
                ({"WARMPOOL_RUNTIME_TOKEN_FOR": "all"},
                 "all needs --token-digest"),
                ({"WARMPOOL_RUNTIME_TOKEN_DIGEST": "abc"},
                 "64 hexadecimal digits"),
                ({"WARMPOOL_RUNTIME_TOKEN_DIGEST": self.DIGEST.upper()},
                 "64 hexadecimal digits"),
                ({"WARMPOOL_RUNTIME_TOKEN_FOR": "some"}, "--token-for")):
            run = subprocess.run([BINARY, "--port", "0"], text=True,
                                 env={**os.environ, **env},
                                 capture_output=True, timeout=DEADLINE_S,
                                 check=False)
            self.assertEqual(run.returncode, 2, run.stderr)
            self.assertIn(words, run.stderr)


class Execute(ServerCase):
    ARGS = ("--output-max", "65536")

    def test_streams_and_exit_code(self):
        status, answer = self.server.execute(
            "sh -c 'echo out; echo err >&2; exit 7'")
        self.assertEqual((status, answer), (200, {
            "stdout": "out\n", "stderr": "err\n", "exit_code": 7,
            "timed_out": False}))

    def test_no_shell_and_words(self):
        _, answer = self.server.execute("printf '%s|' $HOME \"a b\" c\\ d ''")
        self.assertEqual(answer["stdout"], "$HOME|a b|c d||")

    def test_runs_in_the_workspace(self):
        _, answer = self.server.execute("pwd")
        self.assertEqual(answer["stdout"].strip(),
                         os.path.realpath(self.server.workspace))

    def test_what_cannot_run_is_a_failed_command(self):
        for command in ("", "   ", "/no/such/program", "'unfinished",
                        "/etc/passwd", "trailing\\"):
            status, answer = self.server.execute(command)
            self.assertEqual((status, answer["exit_code"]), (200, 1), command)
            self.assertIn("Failed to execute command", answer["stderr"])

    def test_bad_bodies(self):
        def post(body):
            return self.server.request("POST", "/execute", body)[0]
        self.assertEqual(post("{"), 400)
        self.assertEqual(post("{}"), 422)
        self.assertEqual(post('{"command":7}'), 422)
        self.assertEqual(post("[]"), 422)
        self.assertEqual(post('{"command":"echo \\u0000"}'), 200)

    def test_signal_is_a_negative_exit_code(self):
        _, answer = self.server.execute("sh -c 'kill -TERM $$'")
        self.assertEqual(answer["exit_code"], -15)

    def test_output_that_is_not_text(self):
        _, answer = self.server.execute("printf 'a\\200b\\000c\\303\\251'")
        self.assertEqual(answer["stdout"], "a\ufffdb\0c\u00e9")

    def test_flood_is_cut_and_said(self):
        _, answer = self.server.execute(
            "sh -c 'head -c 10000000 /dev/zero | tr \"\\0\" x'")
        self.assertEqual(answer["stdout"], "x" * 65536)
        self.assertIn("9934464 more bytes of stdout were dropped",
                      answer["stderr"])
        self.assertEqual(answer["exit_code"], 0)

    def test_grandchild_that_holds_the_pipes_does_not_hang(self):
        pids = self.server.path("holder")
        started = time.monotonic()
        _, answer = self.server.execute(
            "sh -c 'sleep 1000 & echo $! > %s; echo done'" % pids)
        self.assertLess(time.monotonic() - started, 60)
        self.assertEqual((answer["stdout"], answer["exit_code"]), ("done\n", 0))
        pid = int(read_text(pids))
        self.assertFalse(process_gone(pid), "a background process lives on")
        os.kill(pid, 9)
        wait_until(lambda: process_gone(pid), "the orphan's end")
        # Reaped as well, as the server is its subreaper.
        wait_until(lambda: not os.path.exists("/proc/%d" % pid), "reaping")

    def test_leftover_may_go_on_writing(self):
        flag = self.server.path("flag")
        self.server.execute("sh -c '(sleep 0.5; seq 100000; echo x > %s) &'"
                            % flag)
        wait_until(lambda: read_text(flag) == "x\n",
                   "a background writer that was not stopped by its pipe")

    def test_closed_stdout(self):
        _, answer = self.server.execute("sh -c 'exec >&-; sleep 0.1; exit 4'")
        self.assertEqual(answer, {"stdout": "", "stderr": "", "exit_code": 4,
                                  "timed_out": False})

    def test_client_gone_kills_the_command(self):
        pids = self.server.path("left")
        conn = http.client.HTTPConnection("127.0.0.1", self.server.port)
        conn.request("POST", "/execute", json.dumps(
            {"command": "sh -c 'echo $$ > %s; exec sleep 1000'" % pids}))
        pid = int(wait_until(lambda: read_text(pids).strip(), "the start"))
        conn.close()
        wait_until(lambda: process_gone(pid), "the command's death")

    def test_half_closed_client_is_answered_in_full(self):
        self.server.upload("big", b"0123456789abcdef" * (3 << 16))
        request = "GET /download/big HTTP/1.1\r\nHost: h\r\n\r\n"
        head, body, _ = self.half_closed(request)
        self.assertTrue(head.startswith(b"HTTP/1.1 200 OK\r\n"), head)
        self.assertEqual(len(body), 3 << 20)
        command = json.dumps({"command": "sh -c 'sleep 3.6; echo late'"})
        head, body, early = self.half_closed(
            "POST /execute HTTP/1.1\r\nHost: h\r\n"
            "Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
            % (len(command), command))
        self.assertTrue(head.startswith(b"HTTP/1.1 200 OK\r\n"), head)
        self.assertEqual(json.loads(body)["stdout"], "late\n")
        # The first bytes come alone: at once, after 1 s, 2 s, 4 s, ...
        self.assertIn(early, (1, 2, 3))

    def half_closed(self, request):
        """(head, body) of the answer to a client that sends no more, and how
        many bytes of it came alone."""
        with socket.create_connection(("127.0.0.1", self.server.port),
                                      DEADLINE_S) as sock:
            sock.sendall(request.encode())
            sock.shutdown(socket.SHUT_WR)
            chunks = list(iter(lambda: sock.recv(1 << 16), b""))
        head, _, body = b"".join(chunks).partition(b"\r\n\r\n")
        return head, body, sum(len(chunk) == 1 for chunk in chunks)

    def test_stdin_is_empty(self):
        _, answer = self.server.execute("cat")
        self.assertEqual(answer["exit_code"], 0)


class Leftovers(ServerCase):
    """Of a server whose pipes are only those of this test."""

    def pipes(self):
        return sum(target.startswith("pipe:")
                   for target in self.server.open_files())

    def leave(self, _=None):
        _, answer = self.server.execute(
            "sh -c 'sleep 1000 2>/dev/null & echo $!'")
        return int(answer["stdout"])

    def test_they_have_a_bound(self):
        """The pipes of 64 are read on; those of more are closed."""
        before = self.pipes()
        pids = []
        try:
            with concurrent.futures.ThreadPoolExecutor(16) as pool:
                pids += pool.map(self.leave, range(64))
            for _ in range(2):
                self.assertEqual(self.pipes() - before, 64)
                pids.append(self.leave())
            self.assertEqual(self.pipes() - before, 64)
        finally:
            for pid in pids:
                os.kill(pid, 9)
        wait_until(lambda: self.pipes() == before, "the pipes' end")


class ExecuteLimit(ServerCase):
    ARGS = ("--rest-timeout-ms", "2500", "--output-max", "65536")

    def test_endless_flood_that_ignores_signals_ends_by_the_limit(self):
        started = time.monotonic()
        _, answer = self.server.execute(
            "sh -c 'trap \"\" TERM INT HUP; yes'")
        self.assertEqual(answer["exit_code"], -1)
        self.assertIn("killed after the limit of 2500 ms", answer["stderr"])
        self.assertLess(time.monotonic() - started, 60)

    def test_limit_kills_grandchildren_too(self):
        pids = self.server.path("pids")
        _, answer = self.server.execute(
            "sh -c 'sleep 1000 & echo $! > %s; wait'" % pids)
        self.assertEqual(answer["exit_code"], -1)
        pid = int(read_text(pids))
        wait_until(lambda: process_gone(pid), "the grandchild's death")


class Waiting(ServerCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="wp-wait-")
        cls.socket = os.path.join(cls.folder.name, "socket")
        cls.server = Server("--execs-max", "1", "--execs-waiting-max", "2",
                            "--unix", cls.socket)

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        cls.folder.cleanup()

    def begin(self, path, body):
        """A POST whose answer is read later."""
        conn = http.client.HTTPConnection("127.0.0.1", self.server.port,
                                          timeout=DEADLINE_S)
        conn.request("POST", path, json.dumps(body), {
            "Accept": "application/json", "Content-Type": "application/json"})
        return conn

    def settle(self):
        """What was sent before has been looked at: the server has one loop."""
        for _ in range(3):
            self.assertEqual(self.server.request("GET", "/healthz")[0], 200)

    @staticmethod
    def end(conn):
        answer = conn.getresponse()
        body = json.loads(answer.read())
        conn.close()
        return answer.status, body

    def running(self, name):
        """A command that has all the room until its gate is closed."""
        gate = self.server.path(name)
        os.mkfifo(gate)
        first = self.begin("/execute", {"command": "cat " + gate})
        return first, open(gate, "w")  # Opening waits for the other side.

    def test_commands_wait_for_room(self):
        """One runs, two wait; the next is refused."""
        order = self.server.path("order")
        first, gate = self.running("gate")
        second = self.begin("/execute", {
            "command": "sh -c 'echo second >> %s'" % order})
        self.settle()
        third = self.begin("/mcp", {
            "jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": {"name": "exec", "arguments": {
                "command": "echo third >> " + order}}})
        self.settle()
        status, headers, body = self.server.request(
            "POST", "/execute", '{"command": "true"}')
        self.assertEqual((status, headers["Retry-After"]), (429, "1"))
        self.assertIn("1 commands are running and 2 wait",
                      json.loads(body)["error"])
        is_error, text = self.server.tool("exec", {"command": "true"})
        self.assertTrue(is_error)
        self.assertIn("failed to run command: 1 commands", text)
        gate.close()
        for one in (first, second, third):
            self.assertEqual(self.end(one)[0], 200)
        self.assertEqual(read_text(order), "second\nthird\n")

    def test_who_leaves_gives_up_its_place(self):
        """Over a Unix socket, where a close is seen at once."""
        first, gate = self.running("gate-leave")
        mark = self.server.path("mark")
        body = json.dumps({"command": "touch " + mark}).encode()
        for _ in range(5):  # More than may wait at once.
            with socket.socket(socket.AF_UNIX) as sock:
                sock.connect(self.socket)
                sock.sendall(b"POST /execute HTTP/1.1\r\nHost: x\r\n"
                             b"Content-Length: %d\r\n\r\n%s"
                             % (len(body), body))
                self.settle()
            self.settle()
        stays = self.begin("/execute", {"command": "echo stays"})
        self.settle()
        gate.close()
        self.assertEqual(self.end(first)[0], 200)
        status, answer = self.end(stays)
        self.assertEqual((status, answer["stdout"]), (200, "stays\n"))
        self.assertFalse(os.path.exists(mark))


class TimeLimit(ServerCase):
    def ask(self, body):
        status, _, answer = self.server.request("POST", "/execute",
                                                json.dumps(body))
        return status, json.loads(answer)

    def test_timeout_seconds(self):
        status, answer = self.ask({"command": "sleep 1000",
                                   "timeout_seconds": 0.2})
        self.assertEqual((status, answer["timed_out"], answer["exit_code"]),
                         (200, True, -1))
        self.assertIn("200 ms", answer["stderr"])
        for none in ({}, {"timeout_seconds": None}, {"timeout_seconds": 90}):
            status, answer = self.ask(dict(none, command="echo x"))
            self.assertEqual((status, answer), (200, {
                "stdout": "x\n", "stderr": "", "exit_code": 0,
                "timed_out": False}))

    def test_unfit_limits(self):
        for unfit in (0, -1, "5", True, [], 86401, 1e300):
            status, answer = self.ask({"command": "true",
                                       "timeout_seconds": unfit})
            self.assertEqual(status, 422, unfit)
            self.assertIn("timeout_seconds: a number above 0",
                          answer["error"])


class Limits(ServerCase):
    ARGS = ("--execs-max", "2", "--execs-waiting-max", "0")

    def test_too_many_commands(self):
        # A pipe's opening waits for its other end, on both sides.
        gates = [self.server.path("gate%d" % number) for number in range(2)]
        for gate in gates:
            os.mkfifo(gate)
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            running = [pool.submit(self.server.execute, "cat " + gate)
                       for gate in gates]
            writers = [open(gate, "w") for gate in gates]
            status, answer = self.server.execute("true")
            self.assertEqual(status, 429)
            self.assertIn("2 commands are running", answer["error"])
            is_error, text = self.server.tool("exec", {"command": "true"})
            self.assertTrue(is_error)
            self.assertIn("failed to run command: 2 commands", text)
            for writer in writers:
                writer.write("go")
                writer.close()
            for one in running:
                status, answer = one.result()
                self.assertEqual((status, answer["stdout"]), (200, "go"))
        self.assertEqual(self.server.execute("true")[0], 200)

    def test_two_hundred_at_once(self):
        def one(number):
            status, _, body = self.server.request("GET", "/exists/n%d" % number)
            return status == 200 and not json.loads(body)["exists"]
        with concurrent.futures.ThreadPoolExecutor(200) as pool:
            self.assertTrue(all(pool.map(one, range(200))))


class Burst(ServerCase):
    ARGS = ("--execs-max", "256", "--conns-max", "64")

    def test_two_hundred_commands_with_few_connections(self):
        def one(number):
            status, answer = self.server.execute("echo %d" % number)
            return status == 200 and answer["stdout"] == "%d\n" % number
        with concurrent.futures.ThreadPoolExecutor(200) as pool:
            self.assertTrue(all(pool.map(one, range(200))))

    def processor_s(self):
        with open("/proc/%d/stat" % self.server.process.pid) as stat:
            words = stat.read().rsplit(")", 1)[1].split()
        return sum(map(int, words[11:13])) / os.sysconf("SC_CLK_TCK")

    def test_connections_that_wait_cost_nothing(self):
        ask = b"GET /exists/x HTTP/1.1\r\nHost: x\r\n\r\n"
        held = [socket.create_connection(("127.0.0.1", self.server.port))
                for _ in range(65)]
        for one in held[:64]:
            one.sendall(ask)
            self.assertIn(b" 200 ", one.recv(4096))
        held[64].sendall(ask)
        before = self.processor_s()
        held[64].settimeout(1)
        self.assertRaises(TimeoutError, held[64].recv, 1)
        self.assertLess(self.processor_s() - before, 0.2)
        held[64].settimeout(DEADLINE_S)
        held[0].close()
        self.assertIn(b" 200 ", held[64].recv(4096))
        for one in held:
            one.close()


class Files(ServerCase):
    ARGS = ("--upload-max", "2000000")

    def setUp(self):
        os.makedirs(self.server.path("sub/deep"), exist_ok=True)
        with open(self.server.path("sub/hello world"), "wb") as file:
            file.write(b"hello\n\0\xff")

    def test_upload_list_exists_download(self):
        content = os.urandom(1500000)
        status, answer = self.server.upload("data.bin", content)
        self.assertEqual(status, 200, answer)
        self.assertIn("data.bin", answer["message"])
        self.assertEqual(self.server.get_json("/exists/data.bin"),
                         (200, {"path": "data.bin", "exists": True}))
        status, headers, got = self.server.request("GET", "/download/data.bin")
        self.assertEqual(status, 200)
        self.assertEqual(headers["Content-Type"], "application/octet-stream")
        self.assertTrue(got == content)
        status, entries = self.server.get_json("/list/")
        entry = next(e for e in entries if e["name"] == "data.bin")
        self.assertEqual((entry["size"], entry["type"]), (1500000, "file"))
        self.assertAlmostEqual(entry["mod_time"], time.time(), delta=3600)
        self.assertEqual([e["name"] for e in entries],
                         sorted(e["name"] for e in entries))

    def test_paths_in_many_spellings(self):
        for spelling in ("sub/hello%20world", "sub%2Fhello%20world",
                         "./sub/../sub/hello%20world", "/sub/../" + "x"):
            status = self.server.request("GET", "/download/" + spelling)[0]
            self.assertEqual(status, 403 if spelling.endswith("x") else 200,
                             spelling)
        inside = os.path.realpath(self.server.path("sub/hello world"))
        status = self.server.request(
            "GET", "/download/" + inside.replace(" ", "%20"))[0]
        self.assertEqual(status, 200)

    def test_escapes_are_forbidden(self):
        link = self.server.path("link")
        if not os.path.islink(link):
            os.symlink("/etc", link)
            os.symlink("../..", self.server.path("sub/up"))
            os.symlink("loop", self.server.path("loop"))
        for path in ("../log", "..%2Flog", "sub/../../log", "/etc/passwd",
                     "%2Fetc%2Fpasswd", "link/passwd", "sub/up/log", "loop"):
            for verb in ("download", "list", "exists"):
                target = "/%s/%s" % (verb, path)
                if target == "/exists/loop":
                    continue
                self.assertEqual(self.server.request("GET", target)[0], 403,
                                 target)
        for name in ("../evil", "/etc/evil", "link/evil", "sub/../../evil",
                     ".."):
            status, answer = self.server.upload(name, b"x")
            self.assertEqual(status, 403, name)
            self.assertIn("message", answer)
        self.assertFalse(os.path.exists("/etc/evil"))
        self.assertFalse(os.path.exists(os.path.join(self.server.dir, "evil")))

    def test_what_is_not_there(self):
        for target in ("/download/nothing", "/list/nothing", "/download/sub",
                       "/list/sub/hello%20world", "/download/"):
            self.assertEqual(self.server.request("GET", target)[0], 404, target)
        self.assertEqual(self.server.request("GET", "/list/%zz")[0], 400)
        self.assertEqual(self.server.request("GET", "/list/a%00b")[0], 400)

    def test_pipes_and_devices_are_no_files(self):
        fifo = self.server.path("fifo")
        if not os.path.exists(fifo):
            os.mkfifo(fifo)
        self.assertEqual(self.server.request("GET", "/download/fifo")[0], 404)

    def test_upload_makes_folders_and_replaces(self):
        for content in (b"one", b"three"):
            self.assertEqual(self.server.upload("new/er/file", content)[0], 200)
            self.assertEqual(read_bytes(self.server.path("new/er/file")),
                             content)

    def test_bad_uploads_leave_nothing(self):
        def leftovers():
            return [name for name in os.listdir(self.server.workspace)
                    if "upload" in name or name == "bad"]
        self.assertEqual(self.server.upload("bad", b"x", field="other")[0], 422)
        self.assertEqual(self.server.upload("sub", b"x")[0], 404)
        status, answer = self.server.upload("bad", b"x" * 2100000)
        self.assertEqual(status, 413, answer)
        status = self.server.request(
            "POST", "/upload", b"--b\r\nContent-Disposition: form-data; "
            b"name=\"file\"; filename=\"bad\"\r\n\r\nhalf",
            {"Content-Type": "multipart/form-data; boundary=b"})[0]
        self.assertEqual(status, 400)
        self.assertEqual(self.server.request("POST", "/upload", b"x")[0], 422)
        # A client that leaves in the middle.
        with socket.create_connection(("127.0.0.1", self.server.port)) as sock:
            sock.sendall(b"POST /upload HTTP/1.1\r\nContent-Length: 9999\r\n"
                         b"Content-Type: multipart/form-data; boundary=b\r\n\r\n"
                         b"--b\r\nContent-Disposition: form-data; name=\"file\";"
                         b" filename=\"bad\"\r\n\r\nhalf")
            wait_until(leftovers, "the upload to begin")
        wait_until(lambda: not leftovers(), "the upload's traces to go")

    def test_expect_continue_and_chunks(self):
        with socket.create_connection(("127.0.0.1", self.server.port)) as sock:
            sock.sendall(b"POST /execute HTTP/1.1\r\nExpect: 100-continue\r\n"
                         b"Transfer-Encoding: chunked\r\n\r\n")
            self.assertIn(b"100 Continue", sock.recv(4096))
            for piece in (b'{"comm', b'and":"ec', b'ho hi"}'):
                sock.sendall(b"%x\r\n%s\r\n" % (len(piece), piece))
            sock.sendall(b"0\r\n\r\n")
            got = b""
            while b"}" not in got:
                got += sock.recv(4096)
            self.assertIn(b'"stdout":"hi\\n"', got)

    def test_download_of_a_large_sparse_file_stays_small(self):
        path = self.server.path("large")
        with open(path, "wb") as file:
            file.truncate(300 << 20)
        conn = http.client.HTTPConnection("127.0.0.1", self.server.port)
        conn.request("GET", "/download/large")
        answer = conn.getresponse()
        total = 0
        while True:
            piece = answer.read(1 << 20)
            if not piece:
                break
            total += len(piece)
        conn.close()
        os.unlink(path)
        self.assertEqual(total, 300 << 20)
        status = read_text("/proc/%d/status" % self.server.process.pid)
        peak_kb = int(status.split("VmHWM:")[1].split()[0])
        if "asan" not in BINARY:
            self.assertLess(peak_kb, 32 << 10)


class FullDisk(unittest.TestCase):
    def check(self, server):
        self.assertEqual(server.upload("kept", b"old")[0], 200)
        status, answer = server.upload("kept", b"x" * 400000)
        self.assertEqual(status, 500, answer)
        self.assertRegex(answer["error"], "no space left|file too large")
        self.assertEqual(read_bytes(server.path("kept")), b"old")
        self.assertEqual(os.listdir(server.workspace), ["kept"])
        is_error, text = server.tool("write_file", {
            "path": server.path("other"), "content": "x" * 400000})
        self.assertTrue(is_error)
        self.assertIn("failed to write file", text)
        self.assertEqual(server.execute("true")[1]["exit_code"], 0)

    def test_file_size_limit(self):
        server = Server(preexec_fn=lambda: resource.setrlimit(
            resource.RLIMIT_FSIZE, (100000, 100000)))
        try:
            self.check(server)
        finally:
            self.assertEqual(server.stop(), 0)

    def test_tiny_file_system(self):
        libc = ctypes.CDLL(None, use_errno=True)
        disk = tempfile.mkdtemp(prefix="wp-disk-")
        if libc.mount(b"tmpfs", disk.encode(), b"tmpfs", 0, b"size=128k") != 0:
            os.rmdir(disk)
            print("SKIP: a tmpfs cannot be mounted here; the file size limit "
                  "stands in for it")
            self.skipTest("no mount")
        try:
            server = Server(workspace=disk)
            try:
                self.check(server)
            finally:
                self.assertEqual(server.stop(), 0)
        finally:
            libc.umount2(disk.encode(), 2)
            os.rmdir(disk)


class Life(unittest.TestCase):
    def test_ports_by_role(self):
        server = Server(ports=("--mcp-port", "0", "--rest-port", "0"))
        try:
            self.assertEqual(sorted(server.ports), ["mcp", "rest"])
            rest, mcp = server.ports["rest"], server.ports["mcp"]
            self.assertEqual(server.request("GET", "/", port=rest)[0], 200)
            self.assertEqual(server.request("GET", "/", port=mcp)[0], 400)
            self.assertEqual(server.request("POST", "/mcp", port=rest)[0], 404)
            self.assertEqual(server.request("PUT", "/upload", port=rest)[0],
                             405)
            self.assertEqual(server.rpc(
                {"jsonrpc": "2.0", "id": 1, "method": "ping"}, port=mcp)[0],
                200)
            for port in (rest, mcp):
                self.assertEqual(
                    server.request("GET", "/healthz", port=port)[0], 200)
        finally:
            self.assertEqual(server.stop(), 0)

    def test_port_variable_and_unix_socket(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "socket")
            with socket.socket(socket.AF_UNIX) as stale:
                stale.bind(path)
            server = Server("--unix", path, ports=(), env={"PORT": "0"})
            try:
                self.assertIn("all", server.ports)
                with socket.socket(socket.AF_UNIX) as sock:
                    sock.connect(path)
                    sock.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
                    self.assertIn(b"200 OK", sock.recv(4096))
            finally:
                self.assertEqual(server.stop(), 0)
            self.assertFalse(os.path.exists(path))

    def test_term_lets_a_request_finish_and_kills_the_rest(self):
        server = Server("--grace-ms", "60000")
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            flag = server.path("flag")
            slow = pool.submit(server.execute,
                               "sh -c 'echo > %s; sleep 0.5; echo end'" % flag)
            wait_until(lambda: os.path.exists(flag), "the start")
            server.process.terminate()
            status, answer = slow.result()
        self.assertEqual((status, answer["stdout"]), (200, "end\n"))
        self.assertEqual(server.stop(), 0)

    def test_term_waits_for_no_idle_connection(self):
        server = Server("--grace-ms", "600000")
        started, go = server.path("started"), server.path("go")
        address = ("127.0.0.1", server.port)
        with socket.create_connection(address, DEADLINE_S) as idle:
            idle.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            got = b""
            while not got.endswith(b"ok\n"):
                got += idle.recv(4096)
            busy = http.client.HTTPConnection(*address, timeout=DEADLINE_S)
            busy.request("POST", "/execute", json.dumps({"command":
                "sh -c 'echo > %s; while [ ! -e %s ]; do sleep 0.02; done; "
                "echo end'" % (started, go)}))
            wait_until(lambda: os.path.exists(started), "the start")
            server.process.terminate()
            # It is closed while a request is still served, whose time limit
            # comes before that of connections without one.
            self.assertEqual(idle.recv(1), b"")
            with open(go, "w"):
                pass
            answer = busy.getresponse()
            self.assertEqual(json.loads(answer.read())["stdout"], "end\n")
            self.assertEqual(answer.headers["Connection"], "close")
            busy.close()
        self.assertEqual(server.stop(), 0)

    def test_term_cuts_off_after_the_grace_time(self):
        server = Server("--grace-ms", "100")
        flag = server.path("flag")
        conn = http.client.HTTPConnection("127.0.0.1", server.port)
        conn.request("POST", "/execute", json.dumps(
            {"command": "sh -c 'echo $$ > %s; exec sleep 1000'" % flag}))
        pid = int(wait_until(lambda: read_text(flag).strip(), "the start"))
        self.assertEqual(server.stop(), 0)
        wait_until(lambda: process_gone(pid), "the command's death")
        conn.close()

    def test_started_with_signals_blocked(self):
        server = Server(preexec_fn=lambda: signal.pthread_sigmask(
            signal.SIG_BLOCK, {signal.SIGCHLD, signal.SIGTERM}))
        try:
            self.assertEqual(server.execute("echo x")[1]["stdout"], "x\n")
        finally:
            self.assertEqual(server.stop(), 0)

    def test_bad_settings(self):
        for args in (("--port", "70000"), ("--nonsense",), ("--port",),
                     ("--log-level", "loud"), ("--execs-max=0",)):
            run = subprocess.run([BINARY, *args], capture_output=True,
                                 text=True, timeout=90)
            self.assertEqual(run.returncode, 2, args)
            self.assertIn(args[0].split("=")[0], run.stderr)
        run = subprocess.run([BINARY, "--workspace", "/no/such"],
                             capture_output=True, text=True, timeout=90)
        self.assertEqual(run.returncode, 1)
        self.assertIn("/no/such", run.stderr)
        for flag in ("--help", "--version"):
            run = subprocess.run([BINARY, flag], capture_output=True, text=True,
                                 timeout=90)
            self.assertEqual(run.returncode, 0)
            self.assertIn("warmpool-runtime", run.stdout)

    def test_no_processes_to_be_had(self):
        # A limit that root would not feel: only tried as another user.
        if os.getuid() == 0:
            def limit():
                os.setgid(65534)
                os.setuid(65534)
                resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
            with tempfile.TemporaryDirectory() as folder:
                os.chmod(folder, 0o777)
                self.refused(folder, limit)
        else:
            with tempfile.TemporaryDirectory() as folder:
                self.refused(folder, lambda: resource.setrlimit(
                    resource.RLIMIT_NPROC, (1, 1)))

    def refused(self, folder, limit):
        path = os.path.join(folder, "socket")
        told = os.path.join(folder, "ports")
        # A leak check at exit would need a process of its own.
        process = subprocess.Popen(
            [BINARY, "--unix", path, "--workspace", folder,
             "--port-file", told], cwd="/",
            env=dict(os.environ, ASAN_OPTIONS="detect_leaks=0"), stderr=subprocess.DEVNULL, preexec_fn=limit)
        try:
            # The socket's name is there before anybody listens on it.
            wait_until(lambda: os.path.exists(told), "the server to listen")
            with socket.socket(socket.AF_UNIX) as sock:
                sock.connect(path)
                sock.sendall(b"POST /execute HTTP/1.0\r\nContent-Length: 18"
                             b"\r\n\r\n{\"command\":\"true\"}")
                got = b""
                while b"}" not in got:
                    got += sock.recv(4096)
            self.assertIn(b" 429 ", got)
            self.assertIn(b"fork: resource temporarily unavailable", got)
        finally:
            process.terminate()
            self.assertEqual(process.wait(30), 0)

    def test_confined(self):
        server = Server("--confine")
        try:
            if "not confined" in read_text(server.log_path):
                print("SKIP: this kernel has no Landlock")
                self.skipTest("no Landlock")
            # /tmp stays writable, so the forbidden place is the home folder.
            outside = os.path.join(os.path.expanduser("~"),
                                   ".warmpool-runtime-test")
            _, answer = server.execute("touch inside")
            self.assertEqual(answer["exit_code"], 0, answer)
            _, answer = server.execute("touch " + outside)
            self.assertNotEqual(answer["exit_code"], 0)
            is_error, _ = server.tool("write_file", {"path": outside,
                                                     "content": "x"})
            self.assertTrue(is_error)
            self.assertEqual(server.execute("cat /etc/hostname")[1]
                             ["exit_code"], 0)
        finally:
            self.assertEqual(server.stop(), 0)

    def test_confined_to_what_is_readable(self):
        # /tmp stays readable, so the forbidden place is the home folder.
        home = os.path.expanduser("~")
        server = Server("--confine", "--readable",
                        "/usr:/bin:/sbin:/lib:/lib64:/etc:/proc:/dev:/none")
        try:
            if "not confined" in read_text(server.log_path):
                print("SKIP: this kernel has no Landlock")
                self.skipTest("no Landlock")
            for command, works in (
                    ("echo text >note && cat note", True),
                    ("cat /etc/hostname", True), ("ls /usr/bin", True),
                    ("ls " + home, False), ("ls /", False),
                    ("ls /var", False),
                    ("sh -c 'cat /etc/hostname && ! ls " + home + "'", True)):
                _, answer = server.execute(command)
                self.assertEqual(answer["exit_code"] == 0, works,
                                 (command, answer))
        finally:
            self.assertEqual(server.stop(), 0)


if __name__ == "__main__":
    main()
