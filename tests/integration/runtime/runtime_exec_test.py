"""Streaming exec of the in-sandbox server, against the real program."""
import json
import os
import signal
import socket
import tempfile
import time
import unittest

from runtime_rig import (ExecStream, Server, ServerCase, main, process_gone, read_text,
                         wait_until)


class Stream(ServerCase):
    def run_one(self, argv, stdin=None, **request):
        stream = ExecStream(self.server.port, dict(request, argv=argv))
        self.assertEqual(stream.status, 101)
        if stdin is not None:
            stream.send(ExecStream.STDIN, stdin)
        stream.send(ExecStream.STDIN_EOF)
        return stream.finish()

    def idle(self):
        """True when no command runs any more: all 32 slots can be had."""
        streams = []
        try:
            for _ in range(32):
                streams.append(ExecStream(self.server.port,
                                          {"argv": ["sleep", "1000"]}))
            return all(stream.status == 101 for stream in streams)
        finally:
            for stream in streams:
                stream.sock.close()

    def refused(self, body, headers=b"Connection: Upgrade\r\n"
                                    b"Upgrade: warmpool-exec/1\r\n"):
        with socket.create_connection(("127.0.0.1", self.server.port)) as sock:
            sock.sendall(b"POST /v1/exec HTTP/1.1\r\n%sContent-Length: %d\r\n"
                         b"\r\n%s" % (headers, len(body), body))
            got = b""
            while b"}" not in got:
                got += sock.recv(4096)
        return int(got.split()[1]), json.loads(got[got.index(b"{"):])["error"]

    def test_output_and_exit_code(self):
        out, err, last = self.run_one(["sh", "-c", "echo a; echo b >&2; exit 5"])
        self.assertEqual((out, err), (b"a\n", b"b\n"))
        self.assertEqual(last, {"exit_code": 5, "signal": 0,
                                "timed_out": False})

    def test_stdin_with_the_request(self):
        # Frames that arrive in one packet with the request are not lost.
        extra = (ExecStream.frame(ExecStream.STDIN, b"early") +
                 ExecStream.frame(ExecStream.STDIN_EOF))
        stream = ExecStream(self.server.port, {"argv": ["cat"]}, extra=extra)
        self.assertEqual(stream.finish()[0], b"early")

    def test_environment_and_folder(self):
        out, _, _ = self.run_one(["sh", "-c", "echo $GREETING; pwd; echo $HOME"],
                                 env={"GREETING": "hi there"}, cwd="/")
        self.assertEqual(out.decode().split("\n")[:2], ["hi there", "/"])
        self.assertNotEqual(out.decode().split("\n")[2], "")
        out, _, _ = self.run_one(["pwd"])
        self.assertEqual(out.decode().strip(),
                         os.path.realpath(self.server.workspace))

    def test_a_replaced_variable_is_there_once(self):
        out, _, _ = self.run_one(["env"], env={"PATH": "/bin:/usr/bin"})
        self.assertEqual([line for line in out.split(b"\n")
                          if line.startswith(b"PATH=")],
                         [b"PATH=/bin:/usr/bin"])

    def test_much_data_both_ways(self):
        data = os.urandom(1 << 20)
        stream = ExecStream(self.server.port, {"argv": ["cat"]})
        got = b""
        stream.sock.settimeout(0)
        outgoing = b"".join(
            ExecStream.frame(ExecStream.STDIN, data[at:at + 50000])
            for at in range(0, len(data), 50000))
        outgoing += ExecStream.frame(ExecStream.STDIN_EOF)
        incoming = b""
        end = time.monotonic() + 120
        while b'"exit_code"' not in incoming[-100:]:
            self.assertLess(time.monotonic(), end)
            try:
                outgoing = outgoing[stream.sock.send(outgoing[:100000]):] \
                    if outgoing else b""
            except BlockingIOError:
                pass
            try:
                incoming += stream.sock.recv(1 << 20)
            except BlockingIOError:
                time.sleep(0.001)
        at = 0
        while at < len(incoming):
            kind, length = incoming[at], int.from_bytes(incoming[at + 4:at + 8],
                                                        "big")
            if kind == ExecStream.STDOUT:
                got += incoming[at + 8:at + 8 + length]
            at += 8 + length
        stream.sock.close()
        self.assertTrue(got == data)

    def test_signal(self):
        stream = ExecStream(self.server.port, {"argv": ["sleep", "1000"]})
        stream.send(ExecStream.SIGNAL, bytes([signal.SIGINT]))
        self.assertEqual(stream.finish()[2], {
            "exit_code": -1, "signal": 2, "timed_out": False})

    def test_time_limit(self):
        stream = ExecStream(self.server.port, {
            "argv": ["sh", "-c", "trap '' TERM INT; echo on; sleep 1000"],
            "timeout_ms": 2000})
        out, _, last = stream.finish()
        self.assertEqual((out, last["timed_out"], last["exit_code"]),
                         (b"on\n", True, -1))

    def held_back(self, much, other):
        """A command that writes more to the stream much than is read."""
        count = self.server.path("count%d" % much)
        script = ("i=0; while [ $i -lt 200 ]; do head -c 65536 /dev/zero >&%d; "
                  "i=$((i+1)); echo $i > %s; done; echo end >&%d"
                  % (much, count, other))
        stream = ExecStream(self.server.port, {"argv": ["sh", "-c", script]},
                            receive_buffer=65536)
        wait_until(lambda: read_text(count).strip(), "the first output")

        def standing():
            before = read_text(count)
            time.sleep(0.3)
            return before == read_text(count) and before
        stuck_at = int(wait_until(standing, "the command to be held back"))
        self.assertLess(stuck_at, 150)
        *output, last = stream.finish()
        self.assertEqual((len(output[much - 1]), output[other - 1],
                          last["exit_code"]), (200 * 65536, b"end\n", 0))

    def test_a_slow_reader_holds_the_command_back(self):
        self.held_back(much=1, other=2)
        self.held_back(much=2, other=1)

    def test_a_command_that_does_not_read_holds_the_client_back(self):
        # The limit ends it: a close cannot overtake what is still to be sent.
        stream = ExecStream(self.server.port, {"argv": ["sleep", "1000"],
                                               "timeout_ms": 5000})
        stream.sock.settimeout(1)
        sent = 0
        with self.assertRaises(TimeoutError):
            while sent < 64 << 20:
                stream.send(ExecStream.STDIN, b"x" * 65536)
                sent += 65536
        self.assertLess(sent, 32 << 20)
        stream.sock.close()

    def test_a_command_that_closes_stdin(self):
        stream = ExecStream(self.server.port, {
            "argv": ["sh", "-c", "exec <&-; sleep 0.2; echo fine"]})
        for _ in range(64):
            stream.send(ExecStream.STDIN, b"x" * 65536)
        out, _, last = stream.finish()
        self.assertEqual((out, last["exit_code"]), (b"fine\n", 0))

    def test_input_after_the_end_does_no_harm(self):
        # A server that closed with it unread would reset the connection.
        stream = ExecStream(self.server.port, {"argv": ["true"]})
        wait_until(lambda: b"exit_code" in stream.sock.recv(
            4096, socket.MSG_PEEK), "the last frame")
        for _ in range(3):
            stream.send(ExecStream.STDIN, b"x" * 65536)
            time.sleep(0.05)
        self.assertEqual(stream.finish()[2]["exit_code"], 0)

    def test_client_gone_kills_the_group(self):
        pids = self.server.path("pids")
        stream = ExecStream(self.server.port, {"argv": [
            "sh", "-c", "sleep 1000 & echo $! $$ > %s; wait" % pids]})
        both = [int(pid) for pid in
                wait_until(lambda: read_text(pids).split(), "the start")]
        stream.sock.close()
        for pid in both:
            wait_until(lambda: process_gone(pid), "the group's death")

    def test_grandchild_does_not_hold_the_exit(self):
        started = time.monotonic()
        out, _, last = self.run_one(["sh", "-c", "sleep 1000 & echo $!"])
        self.assertLess(time.monotonic() - started, 60)
        self.assertEqual(last["exit_code"], 0)
        os.kill(int(out), 9)

    def test_flooding_grandchild_does_not_hold_the_exit(self):
        pids = self.server.path("flood")
        _, _, last = self.run_one(["sh", "-c",
                                   "yes & echo $! > %s; sleep 0.1" % pids])
        self.assertEqual(last["exit_code"], 0)
        os.kill(int(read_text(pids)), 9)

    def test_protocol_errors(self):
        frames = (b"\x63" + bytes(7), b"\x10" + bytes(7),
                  b"\x00\x01" + bytes(6), bytes(4) + b"\xff\xff\xff\xff",
                  b"\x01\0\0\0\0\0\0\x01x", b"\x02\0\0\0\0\0\0\x02xx",
                  b"\x02\0\0\0\0\0\0\x01\xff")
        for frame in frames:
            stream = ExecStream(self.server.port, {"argv": ["sleep", "1000"]})
            stream.sock.sendall(frame)
            self.assertIsInstance(stream.finish()[2], str, frame)
        wait_until(self.idle, "every command's death")

    def test_requests_that_cannot_start(self):
        for body, status, word in (
                (b"{", 400, "JSON"), (b"{}", 400, "argv"),
                (b'{"argv":[]}', 400, "argv"), (b'{"argv":[1]}', 400, "argv"),
                (b'{"argv":["true"],"cwd":1}', 400, "cwd"),
                (b'{"argv":["true"],"cwd":"/no/such"}', 422, "chdir /no/such"),
                (b'{"argv":["true"],"env":{"A":1}}', 400, "env"),
                (b'{"argv":["true"],"env":{"A=B":"1"}}', 400, "env"),
                (b'{"argv":["true"],"timeout_ms":-1}', 400, "timeout_ms"),
                (b'{"argv":["no-such-program"]}', 422,
                 "exec no-such-program: no such file or directory")):
            got, error = self.refused(body)
            self.assertEqual(got, status, body)
            self.assertIn(word, error)
        status, error = self.refused(b'{"argv":["true"]}', b"")
        self.assertEqual(status, 426)
        self.assertIn("warmpool-exec/1", error)


class Many(ServerCase):
    ARGS = ("--execs-max", "3")

    def test_limit(self):
        streams = [ExecStream(self.server.port, {"argv": ["cat"]})
                   for _ in range(3)]
        fourth = ExecStream(self.server.port, {"argv": ["true"]})
        self.assertEqual(fourth.status, 429)
        fourth.sock.close()
        for stream in streams:
            stream.send(ExecStream.STDIN_EOF)
            self.assertEqual(stream.finish()[2]["exit_code"], 0)
        fourth = ExecStream(self.server.port, {"argv": ["true"]})
        self.assertEqual(fourth.status, 101)
        fourth.finish()


class OverUnixSocket(unittest.TestCase):
    def test_leaving_is_seen_while_nothing_is_read(self):
        # Over TCP a close waits behind the data that nobody reads.
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "socket")
            server = Server("--unix", path)
            try:
                stream = ExecStream(path, {"argv": [
                    "sh", "-c", "echo $$ > pid; exec sleep 1000"]})
                pid = int(wait_until(
                    lambda: read_text(server.path("pid")).strip(),
                    "the start"))
                stream.sock.settimeout(1)
                with self.assertRaises(TimeoutError):
                    while True:
                        stream.send(ExecStream.STDIN, b"x" * 65536)
                stream.sock.close()
                wait_until(lambda: process_gone(pid), "the command's death")
            finally:
                self.assertEqual(server.stop(), 0)


if __name__ == "__main__":
    main()
