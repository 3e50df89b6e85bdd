"""How the in-sandbox server starts, what it says when it cannot, how it stops."""
import os
import resource
import signal
import socket
import subprocess
import tempfile
import unittest

from runtime_rig import BINARY, DEADLINE_S, Server, main, read_text, wait_until


def run(folder, *args, **more):
    """What a server says that does not start."""
    done = subprocess.run(
        [BINARY, *args], cwd=folder, capture_output=True, text=True,
        timeout=DEADLINE_S, env=dict(os.environ), **more)
    return done.returncode, done.stderr


class Refusals(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.TemporaryDirectory(prefix="wp-runtime-")
        self.addCleanup(self.dir.cleanup)

    def path(self, name):
        return os.path.join(self.dir.name, name)

    def test_places(self):
        os.mkdir(self.path("folder"))
        plain = self.path("plain")
        with open(plain, "w"):
            pass
        for args, words in (
                (["--bind", "nowhere"], "--bind: 'nowhere' is no IP address"),
                (["--port-file", self.path("none/ports")],
                 f"--port-file {self.path('none/ports')}: no such file or "
                 "directory"),
                (["--port-file", "/" + "x" * 5000], "--port-file /xxx"),
                # Its name is taken by what no file can replace.
                (["--port-file", self.path("folder")],
                 f"--port-file {self.path('folder')}: is a directory"),
                (["--workspace", self.path("none")],
                 f"workspace {self.path('none')}: no such file or directory"),
                (["--workspace", plain],
                 f"workspace {plain}: not a directory"),
                (["--workspace", "/" + "x" * 5000], "workspace /xxx"),
                (["--unix", self.path("plain/socket")], "plain"),
                (["--unix", "/" + "x" * 200], "--unix: "),
                (["--confine", "--readable", "usr"],
                 "--readable: expected absolute paths with ':' between them, "
                 "got 'usr'"),
                (["--confine", "--readable", "/usr:/" + "x" * 4096],
                 "--readable: expected absolute paths")):
            code, said = run(self.dir.name, "--port", "0", *args)
            self.assertEqual(code, 1, (args, said))
            # The system's words, in whatever case they begin.
            self.assertIn(words.lower(), said.lower())

    def test_taken_ports(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = str(taken.getsockname()[1])
            for args, words in (
                    (["--port", port], f"127.0.0.1:{port}"),
                    (["--port", "0", "--grpc-port", port], "--grpc-port: "),
                    (["--port", "0", "--mcp-port", port],
                     f"127.0.0.1:{port}")):
                code, said = run(self.dir.name, "--bind", "127.0.0.1",
                                 "--port-file", self.path("ports"), *args)
                self.assertEqual(code, 1, (args, said))
                self.assertIn(words, said)
                self.assertIn("address already in use", said.lower())
                # No word of ports that nobody answers at.
                self.assertFalse(os.path.exists(self.path("ports")))

    def test_full_disk(self):
        os.symlink("/dev/full", self.path("ports.new"))
        code, said = run(self.dir.name, "--port", "0", "--port-file",
                         self.path("ports"))
        self.assertEqual(code, 1, said)
        self.assertIn("no space left on device", said.lower())
        self.assertFalse(os.path.exists(self.path("ports")))


class Starts(unittest.TestCase):
    def start(self, *args, **more):
        server = Server(*args, **more)
        self.addCleanup(server.stop)
        return server

    def test_ports(self):
        server = self.start("--mcp-port", "0", "--rest-port", "0",
                            "--grpc-port", "0")
        self.assertEqual(list(server.ports), ["all", "mcp", "rest", "grpc"])
        self.assertEqual(len(set(server.ports.values())), 4)
        said = read_text(server.log_path)
        for name, port in server.ports.items():
            self.assertIn(f"listening for={name} port={port}\n", said)

    def test_too_few_descriptors(self):
        server = self.start("--conns-max", "1000", preexec_fn=lambda: (
            resource.setrlimit(resource.RLIMIT_NOFILE, (300, 300))))
        said = read_text(server.log_path)
        self.assertIn("fewer connections than asked: too few descriptors "
                      "conns_max=", said)
        self.assertEqual(server.execute("echo hi")[1]["stdout"], "hi\n")

    def test_closed_descriptors(self):
        """A command's own are open, and none is a socket of the server, nor
        are the server's."""
        server = self.start(preexec_fn=lambda: (
            os.close(0), os.close(1), os.close(2)))
        for stream in range(3):
            self.assertEqual(
                os.readlink(f"/proc/{server.process.pid}/fd/{stream}"),
                "/dev/null")
        _, answer = server.execute("sh -c 'readlink /proc/self/fd/0; "
                                   "ls /proc/self/fd | wc -l'")
        self.assertEqual(answer["stdout"].split(), ["/dev/null", "4"])


class Stops(unittest.TestCase):
    def busy(self, *args):
        server = Server(*args)
        self.addCleanup(server.process.kill)
        sock = socket.create_connection(("127.0.0.1", server.port),
                                        timeout=DEADLINE_S)
        self.addCleanup(sock.close)
        # A request of which the rest does not come.
        sock.sendall(b"POST /execute HTTP/1.1\r\nHost: x\r\n"
                     b"Content-Length: 24\r\n\r\n{")
        self.assertEqual(server.request("GET", "/healthz")[0], 200)
        return server

    def test_a_second_signal_ends_it_at_once(self):
        server = self.busy("--grace-ms", "600000")
        server.process.send_signal(signal.SIGTERM)
        wait_until(lambda: "stopping signal=15" in read_text(server.log_path),
                   "the end to begin")
        self.assertIsNone(server.process.poll())
        server.process.send_signal(signal.SIGINT)
        self.assertEqual(server.process.wait(DEADLINE_S), 0)
        said = read_text(server.log_path)
        self.assertNotIn("the grace time is over", said)
        server.stop()


if __name__ == "__main__":
    main()
