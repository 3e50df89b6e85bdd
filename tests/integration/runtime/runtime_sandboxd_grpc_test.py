"""process.v1.ProcessService of the in-sandbox server, by gRPC's own client."""
import concurrent.futures
import hashlib
import os
import signal
import socket
import struct
import time
import unittest

import grpc

from runtime_rig import (DEADLINE_S, Server, bound_by_modes, main,
                         process_gone, read_text, wait_until)

CODE = grpc.StatusCode


def varint(number):
    number &= (1 << 64) - 1
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def field(number, value):
    """One field: a whole number, or bytes."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def fields(data):
    """{number: value} of a message without repeated fields."""
    def take():
        nonlocal at
        shift = value = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value
    at, out = 0, {}
    while at < len(data):
        key = take()
        if key & 7 == 0:
            out[key >> 3] = take()
        else:
            size = take()
            out[key >> 3] = data[at:at + size]
            at += size
    return out


def config(*argv, env=None, cwd=None):
    body = b"".join(field(1, word) for word in argv)
    for name, value in (env or {}).items():
        body += field(2, field(1, name) + field(2, value))
    return field(1, body + (field(3, cwd) if cwd is not None else b""))


def signed(number):
    return number - (1 << 64) if number >> 63 else number


class Stream:
    """A call of Start: its number, and what it says."""

    def __init__(self, client, *argv, pty=None, **more):
        body = config(*argv, **more)
        if pty:
            body += field(2, field(1, pty[0]) + field(2, pty[1]))
        self.call = client.start(body, timeout=DEADLINE_S,
                                 metadata=client.metadata)
        self.out, self.err, self.exit = b"", b"", None
        self.id = fields(fields(next(self.call))[1]).get(1)

    def step(self):
        event = fields(next(self.call))
        self.out += event.get(2, b"")
        self.err += event.get(3, b"")
        if 4 in event:
            self.exit = signed(fields(event[4]).get(1, 0))

    def until(self, text):
        while text not in self.out:
            self.step()

    def end(self):
        while self.exit is None:
            self.step()
        assert next(self.call, None) is None
        return self.exit


class Client:
    def __init__(self, port, metadata=()):
        self.metadata = metadata
        self.channel = grpc.insecure_channel(
            "127.0.0.1:%d" % port,
            options=[("grpc.max_receive_message_length", -1),
                     ("grpc.use_local_subchannel_pool", 1)])
        service = "/process.v1.ProcessService/"
        self.start = self.channel.unary_stream(service + "Start")
        for name, method in (("execute", "Execute"), ("write", "WriteStdin"),
                             ("kill", "SendSignal"), ("resize", "ResizeTTY"),
                             ("unknown", "Nothing")):
            setattr(self, name + "_rpc", self.channel.unary_unary(
                service + method))

    def ask(self, name, body, timeout=DEADLINE_S):
        return fields(getattr(self, name + "_rpc")(
            body, timeout=timeout, metadata=self.metadata))

    def execute(self, *argv, timeout=DEADLINE_S, **more):
        """(exit code, stdout, stderr)"""
        answer = self.ask("execute", config(*argv, **more), timeout)
        return (signed(answer.get(1, 0)), answer.get(2, b""),
                answer.get(3, b""))

    def shell(self, command, **more):
        return self.execute("/bin/sh", "-c", command, **more)


class Case(unittest.TestCase):
    ARGS = ()
    ENV = {}
    PREEXEC = None

    @classmethod
    def setUpClass(cls):
        cls.server = Server("--grpc-port", "0", *cls.ARGS, env=cls.ENV,
                            preexec_fn=cls.PREEXEC)
        cls.client = Client(cls.server.ports["grpc"])

    @classmethod
    def tearDownClass(cls):
        cls.client.channel.close()
        code = cls.server.stop()
        assert code == 0, code

    def refused(self, code, call, *args, **more):
        with self.assertRaises(grpc.RpcError) as caught:
            call(*args, **more)
        self.assertEqual(caught.exception.code(), code,
                         caught.exception.details())
        return caught.exception.details()


class Execute(Case):
    def test_result(self):
        self.assertEqual(self.client.shell("echo out; echo err >&2; exit 3"),
                         (3, b"out\n", b"err\n"))
        self.assertEqual(self.client.execute("true"), (0, b"", b""))
        self.assertEqual(self.client.shell("kill -9 $$")[0], -1)

    def test_its_input_is_empty(self):
        self.assertEqual(self.client.execute("cat"), (0, b"", b""))

    def test_environment_and_folder(self):
        os.makedirs(self.server.path("sub"))
        self.assertEqual(
            self.client.shell("echo $A $B; pwd", env={"A": "1", "B": "2"},
                              cwd="sub")[1],
            b"1 2\n%s\n" % self.server.path("sub").encode())
        self.assertEqual(self.client.execute("pwd")[1].strip(),
                         self.server.workspace.encode())
        self.assertEqual(self.client.execute("pwd", cwd="/sub")[1].strip(),
                         self.server.path("sub").encode())
        self.assertIn("NUL", self.refused(
            CODE.INVALID_ARGUMENT, self.client.execute, "x", env={"A": "\0"}))
        for name in ("", "A=B"):
            self.refused(CODE.INVALID_ARGUMENT, self.client.execute, "x",
                         env={name: "1"})

    def test_a_folder_that_is_none_of_the_workspace(self):
        os.symlink("/etc", self.server.path("out"))
        os.symlink("loop", self.server.path("loop"))
        with open(self.server.path("plain"), "w"):
            pass
        for cwd in ("../..", "out", "loop"):
            self.assertEqual(self.refused(
                CODE.PERMISSION_DENIED, self.client.execute, "pwd", cwd=cwd),
                "config.cwd: a folder of the workspace is expected", cwd)
        for cwd, why in (("none", "no such file or directory"),
                         ("/etc", "no such file or directory"),
                         ("plain", "not a directory"),
                         ("x" * 300, "file name too long")):
            self.assertEqual(self.refused(
                CODE.NOT_FOUND, self.client.execute, "pwd", cwd=cwd),
                "config.cwd: " + why, cwd)
        # Start says the same.
        for code, cwd in ((CODE.PERMISSION_DENIED, "out"),
                          (CODE.NOT_FOUND, "none")):
            self.assertIn("config.cwd", self.refused(
                code, Stream, self.client, "pwd", cwd=cwd))

    def test_bounds(self):
        for more, why in (
                ({"cwd": "a\0b"}, "config.cwd"),
                ({"cwd": "x" * 4096}, "config.cwd"),
                ({"env": {"E%d" % i: "" for i in range(1025)}},
                 "config.env_vars: at most 1024")):
            self.assertIn(why, self.refused(
                CODE.INVALID_ARGUMENT, self.client.execute, "pwd", **more))
        self.assertEqual(self.client.execute(
            "true", env={"E%d" % i: "" for i in range(1024)})[0], 0)
        self.assertEqual(self.client.execute("true", *"x" * 4095)[0], 0)
        self.assertIn("config.command: 1 to 4096", self.refused(
            CODE.INVALID_ARGUMENT, self.client.execute, "true", *"x" * 4096))

    def test_commands_that_cannot_run(self):
        self.assertIn("command", self.refused(CODE.INVALID_ARGUMENT,
                                              self.client.execute))
        self.refused(CODE.INVALID_ARGUMENT, self.client.execute, "")
        self.refused(CODE.INVALID_ARGUMENT, self.client.execute, "a\0b")
        self.refused(CODE.INVALID_ARGUMENT, self.client.ask, "execute", b"")
        self.refused(CODE.INVALID_ARGUMENT, self.client.ask, "execute",
                     b"\x0a\xff")
        self.refused(CODE.NOT_FOUND, self.client.execute, "/no/such")
        self.refused(CODE.PERMISSION_DENIED, self.client.execute, "/etc")
        self.refused(CODE.UNIMPLEMENTED, self.client.ask, "unknown", b"")
        self.refused(CODE.RESOURCE_EXHAUSTED, self.client.execute, "echo",
                     "x" * (2 << 20))

    def test_much_output(self):
        code, out, err = self.client.shell(
            "head -c 5000000 /dev/zero; head -c 3000000 /dev/zero >&2")
        self.assertEqual((code, len(out), len(err)), (0, 5000000, 3000000))
        code, out, err = self.client.shell("head -c 9000000 /dev/zero")
        self.assertEqual((code, len(out)), (0, 8 << 20))
        self.assertIn(b"611392 more bytes of stdout were dropped", err)

    def test_late_is_killed(self):
        pid_file = self.server.path("late")
        self.refused(CODE.DEADLINE_EXCEEDED, self.client.shell,
                     "echo $$ > %s; sleep 1000" % pid_file, timeout=3)
        pid = int(wait_until(lambda: read_text(pid_file), "its number"))
        wait_until(lambda: process_gone(pid), "its end")

    def test_many_at_once(self):
        """More than may run: the others wait their turn."""
        with concurrent.futures.ThreadPoolExecutor(96) as pool:
            results = pool.map(
                lambda i: self.client.shell("sleep 0.05; echo %d" % i),
                range(192))
            self.assertEqual([r[1] for r in results],
                             [b"%d\n" % i for i in range(192)])


class Modes(Case):
    PREEXEC = staticmethod(bound_by_modes)

    def test_a_folder_that_may_not_be_entered(self):
        os.makedirs(self.server.path("locked", "in"))
        os.chmod(self.server.path("locked"), 0o600)
        self.assertEqual(self.refused(
            CODE.PERMISSION_DENIED, self.client.execute, "pwd",
            cwd="locked/in"),
            "config.cwd: a folder of the workspace is expected")
        os.chmod(self.server.path("locked"), 0o700)
        self.assertEqual(self.client.execute("pwd", cwd="locked/in")[0], 0)


class Start(Case):
    def test_streams(self):
        stream = Stream(self.client, "/bin/sh", "-c",
                        "echo a; echo b >&2; exit 7")
        self.assertEqual((stream.end(), stream.out, stream.err),
                         (7, b"a\n", b"b\n"))
        self.assertGreater(stream.id, 0)

    def test_input(self):
        stream = Stream(self.client, "cat")
        self.client.ask("write", field(1, stream.id) + field(2, "hello\n"))
        stream.until(b"hello\n")
        self.client.ask("write", field(1, stream.id) + field(3, b""))
        self.assertEqual(stream.end(), 0)
        self.refused(CODE.NOT_FOUND, self.client.ask, "write",
                     field(1, stream.id) + field(2, "x"))

    def test_closed_input(self):
        stream = Stream(self.client, "/bin/sh", "-c", "cat; sleep 1000")
        self.client.ask("write", field(1, stream.id) + field(3, b""))
        self.refused(CODE.FAILED_PRECONDITION, self.client.ask, "write",
                     field(1, stream.id) + field(2, "x"))
        stream.call.cancel()

    def test_signals(self):
        for number, want in ((signal.SIGTERM, -1), (signal.SIGKILL, -1),
                             (signal.SIGINT, 5)):
            # A shell that has just forked may miss a signal: this one does not.
            stream = Stream(self.client, "/bin/sh", "-c",
                            "trap 'exit 5' INT; echo up; while :; do :; done")
            stream.until(b"up")
            self.client.ask("kill", field(1, stream.id) +
                            field(2, int(number)))
            self.assertEqual(stream.end(), want)
        stream = Stream(self.client, "sleep", "1000")
        for number in (0, 1, 99, -1):
            self.refused(CODE.INVALID_ARGUMENT, self.client.ask, "kill",
                         field(1, stream.id) + field(2, number))
        self.refused(CODE.NOT_FOUND, self.client.ask, "kill",
                     field(1, 999999) + field(2, 15))
        stream.call.cancel()

    def test_who_hangs_up_ends_it(self):
        stream = Stream(self.client, "/bin/sh", "-c",
                        "sleep 1000 & echo $$ $!; wait")
        stream.until(b"\n")
        stream.call.cancel()
        for pid in stream.out.split():
            wait_until(lambda p=int(pid): process_gone(p), "the end of all")

    def test_much_output_arrives_whole(self):
        stream = Stream(self.client, "/bin/sh", "-c",
                        "seq 1 400000; seq 1 1000 >&2")
        self.assertEqual(stream.end(), 0)
        self.assertEqual(
            hashlib.sha256(stream.out).digest(),
            hashlib.sha256("".join("%d\n" % i for i in range(1, 400001))
                           .encode()).digest())

    def test_who_does_not_read_holds_the_command(self):
        count = self.server.path("count")
        stream = Stream(self.client, "/bin/sh", "-c",
                        "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do "
                        "head -c 1000000 /dev/zero; echo $i >> %s; done"
                        % count)
        wait_until(lambda: read_text(count), "the first part")
        # gRPC's client reads ahead a little, the server holds the rest back;
        # that all of it comes shows that it is let go again.
        self.assertEqual(stream.end(), 0)
        self.assertEqual(len(stream.out), 12 * 1000000)

    def test_long_input_waits_for_the_command(self):
        stream = Stream(self.client, "/bin/sh", "-c",
                        "read go; sha256sum | cut -d' ' -f1")
        data = os.urandom(1 << 20)
        parts = [self.client.write_rpc.future(
            field(1, stream.id) + field(2, piece), timeout=DEADLINE_S)
            for piece in [b"go\n"] + [data] * 3]
        for part in parts:
            part.result()
        self.client.ask("write", field(1, stream.id) + field(3, b""))
        self.assertEqual(stream.end(), 0)
        self.assertEqual(stream.out.decode().strip(),
                         hashlib.sha256(data * 3).hexdigest())

    def test_input_that_nobody_reads_ends_with_the_command(self):
        stream = Stream(self.client, "sleep", "1000")
        waiting = self.client.write_rpc.future(
            field(1, stream.id) + field(2, b"x" * (1 << 20)),
            timeout=DEADLINE_S)
        self.client.ask("kill", field(1, stream.id) + field(2, 9))
        self.assertEqual(stream.end(), -1)
        error = waiting.exception()  # Answered, either way.
        self.assertIn(error and error.code(),
                      (None, CODE.FAILED_PRECONDITION, CODE.NOT_FOUND))


class Terminal(Case):
    def test_it_has_one(self):
        stream = Stream(self.client, "/bin/sh", "-c",
                        "tty; stty size; read line; stty size; echo $line",
                        pty=(80, 24))
        stream.until(b"24 80")
        self.client.ask("resize", field(1, stream.id) + field(2, 132) +
                        field(3, 50))
        self.client.ask("write", field(1, stream.id) + field(2, "typed\n"))
        self.assertEqual(stream.end(), 0)
        self.assertIn(b"/dev/pts/", stream.out)
        self.assertIn(b"50 132", stream.out)
        self.assertIn(b"typed", stream.out)

    def test_interrupt_and_end_of_file(self):
        stream = Stream(self.client, "/bin/sh", "-c",
                        "trap 'echo caught' INT; echo up; cat; echo after",
                        pty=(0, 0))
        stream.until(b"up")
        self.client.ask("write", field(1, stream.id) + field(2, b"line\n"))
        stream.until(b"line\r\nline\r\n")
        self.client.ask("write", field(1, stream.id) + field(3, b""))
        self.assertEqual(stream.end(), 0)
        self.assertIn(b"after", stream.out)

    def test_control_c(self):
        stream = Stream(self.client, "sleep", "1000", pty=(80, 24))
        self.client.ask("write", field(1, stream.id) + field(2, b"\x03"))
        self.assertEqual(stream.end(), -1)

    def test_without_one(self):
        stream = Stream(self.client, "sleep", "1000")
        self.refused(CODE.FAILED_PRECONDITION, self.client.ask, "resize",
                     field(1, stream.id) + field(2, 80) + field(3, 24))
        self.refused(CODE.INVALID_ARGUMENT, self.client.ask, "resize",
                     field(1, stream.id) + field(2, 70000) + field(3, 24))
        stream.call.cancel()

    def test_a_size_that_none_has(self):
        for pty in ((65536, 24), (80, 65536)):
            self.assertIn("pty.cols and rows", self.refused(
                CODE.INVALID_ARGUMENT, Stream, self.client, "true", pty=pty))
        stream = Stream(self.client, "stty", "size", pty=(65535, 65535))
        self.assertEqual(stream.end(), 0)
        self.assertEqual(stream.out, b"65535 65535\r\n")


class Malformed(Case):
    def test_each_call_says_so(self):
        for name in ("execute", "write", "kill", "resize"):
            self.assertEqual(self.refused(
                CODE.INVALID_ARGUMENT, self.client.ask, name, b"\x0a\xff"),
                "request: a message of process.v1 is expected", name)
        self.assertEqual(self.refused(
            CODE.INVALID_ARGUMENT, self.client.ask, "execute", b""),
            "config: a command is expected")

    def test_a_process_that_is_none(self):
        for name in ("write", "kill", "resize"):
            self.assertEqual(self.refused(
                CODE.NOT_FOUND, self.client.ask, name,
                field(1, 999999) + (field(2, 15) if name == "kill" else b"")),
                "process_id: no running process of Start has it", name)


class Full(Case):
    ARGS = ("--execs-max", "2")
    WAITING = 256  # Calls of Execute, and bytes of them.
    WAITING_BYTES = 8 << 20

    def occupy(self):
        """As many as may run; those of before may still be ending."""
        def start():
            try:
                return Stream(self.client, "sleep", "1000")
            except grpc.RpcError as error:
                self.assertEqual(error.code(), CODE.RESOURCE_EXHAUSTED)
                return None
        return [wait_until(start, "room") for _ in range(2)]

    def fill(self, clients, body, count):
        """What runs, and that many calls with body that wait; one more is
        refused."""
        streams = self.occupy()
        waiting = [clients[i % len(clients)].execute_rpc.future(
            body, timeout=DEADLINE_S) for i in range(count + 1)]
        refused = wait_until(
            lambda: [call for call in waiting if call.done()], "a refusal")
        self.assertEqual(len(refused), 1)
        self.assertEqual(refused[0].exception().code(),
                         CODE.RESOURCE_EXHAUSTED)
        self.assertEqual(refused[0].exception().details(),
                         "as many commands run and wait as may")
        waiting.remove(refused[0])
        return streams, waiting

    def full(self, clients, body, count):
        """All that waited are answered in the end."""
        streams, waiting = self.fill(clients, body, count)
        for stream in streams:
            stream.call.cancel()
        for call in waiting:
            self.assertEqual(fields(call.result())[2], b"here\n")

    def test_so_many_wait_and_no_more(self):
        # One connection has fewer calls at once than may wait.
        clients = [Client(self.server.ports["grpc"]) for _ in range(4)]
        self.full(clients, config("echo", "here"), self.WAITING)
        for client in clients:
            client.channel.close()

    def test_so_many_bytes_wait_and_no_more(self):
        body = config("/bin/sh", "-c", "echo here",
                      *["x" * 100000] * 10)
        count = self.WAITING_BYTES // len(body)
        # Twice: what waited counts no more once it has begun,
        for _ in range(2):
            self.full([self.client], body, count)
        # or when nobody waits for it any more.
        streams, waiting = self.fill([self.client], body, count)
        for call in waiting + [stream.call for stream in streams]:
            call.cancel()
        self.assertEqual(self.client.execute("true")[0], 0)
        self.full([self.client], body, count)

    def test_start_is_refused_and_execute_waits(self):
        streams = self.occupy()
        with self.assertRaises(grpc.RpcError) as caught:
            Stream(self.client, "true")
        self.assertEqual(caught.exception.code(), CODE.RESOURCE_EXHAUSTED)
        waiting = [self.client.execute_rpc.future(config("echo", "%d" % i),
                                                  timeout=DEADLINE_S)
                   for i in range(20)]
        self.refused(CODE.DEADLINE_EXCEEDED, self.client.execute, "true",
                     timeout=1)
        self.assertFalse(any(call.done() for call in waiting))
        waiting.pop().cancel()
        streams[0].call.cancel()
        for i, call in enumerate(waiting):
            self.assertEqual(fields(call.result())[2], b"%d\n" % i)
        streams[1].call.cancel()


class Late(Case):
    ARGS = ("--exec-timeout-max-ms", "300")

    def test_its_call_is_told_at_once(self):
        """Nothing else has to come from the client."""
        begin = time.monotonic()
        self.assertEqual(
            self.refused(CODE.DEADLINE_EXCEEDED, self.client.shell,
                         "exec sleep 1000", timeout=None),
            "the command ran longer than --exec-timeout-max-ms")
        self.assertGreater(time.monotonic() - begin, 0.25)
        self.assertEqual(self.client.execute("true")[0], 0)


class Deadline(Case):
    def test_the_server_keeps_to_it(self):
        """Also when its client does not hang up."""
        pid_file = self.server.path("deadline")
        client = Client(self.server.ports["grpc"],
                        (("grpc-timeout", "3S"),))
        body = config("/bin/sh", "-c",
                      "echo $$ > %s; exec sleep 1000" % pid_file)
        self.assertEqual(
            self.refused(CODE.DEADLINE_EXCEEDED, client.ask, "execute", body,
                         timeout=None), "the deadline has passed")
        pid = int(wait_until(lambda: read_text(pid_file), "its number"))
        wait_until(lambda: process_gone(pid), "its end")
        client.channel.close()


class Token(Case):
    TOKEN = "sesame"
    ENV = {"WARMPOOL_RUNTIME_TOKEN_DIGEST":
           hashlib.sha256(TOKEN.encode()).hexdigest(),
           "WARMPOOL_RUNTIME_TOKEN_FOR": "all"}

    def test_is_asked_for(self):
        for metadata, want in (
                ((), False), ((("x-warmpool-token", "wrong"),), False),
                ((("authorization", "Bearer wrong"),), False),
                ((("x-warmpool-token", self.TOKEN),), True),
                ((("authorization", "Bearer " + self.TOKEN),), True)):
            client = Client(self.server.ports["grpc"], metadata)
            if want:
                self.assertEqual(client.execute("true")[0], 0)
            else:
                self.refused(CODE.UNAUTHENTICATED, client.execute, "true")
            client.channel.close()
        self.assertNotIn(self.TOKEN, read_text(self.server.log_path))


class End(unittest.TestCase):
    def test_commands_end_with_the_server(self):
        server = Server("--grpc-port", "0", "--grace-ms", "100")
        client = Client(server.ports["grpc"])
        stream = Stream(client, "/bin/sh", "-c", "echo $$; sleep 1000")
        stream.until(b"\n")
        self.assertEqual(server.stop(), 0)
        with self.assertRaises(grpc.RpcError):
            stream.end()
        wait_until(lambda: process_gone(int(stream.out)), "its end")
        client.channel.close()

    def test_it_waits_for_commands(self):
        server = Server("--grpc-port", "0", "--grace-ms", "60000")
        client = Client(server.ports["grpc"])
        go = server.path("go")
        call = client.execute_rpc.future(
            config("/bin/sh", "-c", "echo > %s.up; while ! test -e %s; do "
                   "sleep 0.02; done; echo done" % (go, go)),
            timeout=DEADLINE_S)
        wait_until(lambda: read_text(go + ".up"), "the command")
        server.process.send_signal(signal.SIGTERM)
        wait_until(lambda: "stopping" in read_text(server.log_path), "it")
        with open(go, "w"):
            pass
        self.assertEqual(fields(call.result())[2], b"done\n")
        self.assertEqual(server.stop(), 0)
        client.channel.close()


class Hostile(Case):
    PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"

    def sent(self, data):
        """What comes before the server hangs up, or b"" when it waits."""
        with socket.create_connection(
                ("127.0.0.1", self.server.ports["grpc"]), timeout=90) as sock:
            sock.sendall(data)
            sock.shutdown(socket.SHUT_WR)
            got = b""
            while True:
                try:
                    piece = sock.recv(65536)
                except ConnectionError:
                    return got
                if not piece:
                    return got
                got += piece

    def test_others_are_served(self):
        rst = struct.pack(">I", 4)[1:] + b"\3\0" + struct.pack(">II", 1, 8)
        for data in (b"GET / HTTP/1.1\r\n\r\n", b"\0" * 100,
                     self.PREFACE + b"\xff" * 1000,
                     self.PREFACE + rst * 5000,
                     self.PREFACE + b"\0\0\x08\6\0\0\0\0\0" + b"12345678",
                     self.PREFACE + (b"\0\0\x08\6\0\0\0\0\0" + b"x" * 8) * 4000):
            self.sent(data)
            self.assertEqual(self.client.execute("true")[0], 0)


if __name__ == "__main__":
    main()
