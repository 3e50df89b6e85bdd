"""Git repositories on loopback: an honest server, and some that are not."""

import base64
import http.server
import os
import socket
import subprocess
import threading

BACKEND = "/usr/lib/git-core/git-http-backend"
ENV = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "LC_ALL": "C",
       "GIT_CONFIG_NOSYSTEM": "1", "GIT_AUTHOR_NAME": "a",
       "GIT_AUTHOR_EMAIL": "a@example.com", "GIT_COMMITTER_NAME": "a",
       "GIT_COMMITTER_EMAIL": "a@example.com",
       "GIT_AUTHOR_DATE": "1700000000 +0000",
       "GIT_COMMITTER_DATE": "1700000000 +0000"}


def git(where, *words, data=b""):
    done = subprocess.run(["git", "-c", "safe.directory=*", "-C", where,
                           *words], env=ENV, input=data, capture_output=True,
                          check=False)
    if done.returncode != 0:
        raise AssertionError(f"git {words}: {done.stderr.decode()}")
    return done.stdout.decode().strip()


class Repository:
    """A bare one, filled without a working folder, so with any names."""

    def __init__(self, root, name):
        self.path = os.path.join(root, name)
        subprocess.run(["git", "init", "-q", "--bare", "-b", "main",
                        self.path], env=ENV, check=True)

    def blob(self, content):
        return git(self.path, "hash-object", "-w", "--stdin", data=content)

    def tree(self, *entries):
        """Of (mode, kind, id, name)."""
        text = "".join(f"{mode} {kind} {at}\t{name}\0"
                       for mode, kind, at, name in entries)
        return git(self.path, "mktree", "-z", data=text.encode())

    def commit(self, tree, ref="refs/heads/main", parent=None):
        more = ["-p", parent] if parent else []
        at = git(self.path, "commit-tree", tree, "-m", "a change", *more)
        git(self.path, "update-ref", ref, at)
        return at


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers as git http-backend; paths of `tricks` otherwise."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def serve(self):
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length)
        path, _, query = self.path.partition("?")
        self.server.seen.append((self.command, self.path, body))
        for part, (user, password) in self.server.passwords.items():
            login = base64.b64encode(f"{user}:{password}".encode()).decode()
            if (path.startswith(part) and
                    self.headers.get("Authorization") != f"Basic {login}"):
                self.send_response(401)
                self.send_header("WWW-Authenticate", 'Basic realm="x"')
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            if not path.startswith(part) and self.headers.get("Authorization"):
                self.server.astray += 1
        for part, trick in self.server.tricks.items():
            if path.startswith(part):
                trick(self)
                return
        env = dict(
            ENV, GIT_PROJECT_ROOT=self.server.root, GIT_HTTP_EXPORT_ALL="1",
            GIT_CONFIG_COUNT="2", GIT_CONFIG_KEY_0="safe.directory",
            GIT_CONFIG_VALUE_0="*",
            GIT_CONFIG_KEY_1="uploadpack.allowAnySHA1InWant",
            GIT_CONFIG_VALUE_1="true", PATH_INFO=path, QUERY_STRING=query,
            REQUEST_METHOD=self.command, REMOTE_ADDR="127.0.0.1",
            CONTENT_TYPE=self.headers.get("Content-Type") or "",
            CONTENT_LENGTH=str(length),
            HTTP_CONTENT_ENCODING=self.headers.get("Content-Encoding") or "",
            GIT_PROTOCOL=self.headers.get("Git-Protocol") or "")
        done = subprocess.run([BACKEND], env=env, input=body,
                              capture_output=True, check=False)
        head, _, answer = done.stdout.partition(b"\r\n\r\n")
        status = 200
        fields = []
        for line in head.decode().split("\r\n"):
            name, _, value = line.partition(": ")
            if name == "Status":
                status = int(value.split()[0])
            elif name:
                fields.append((name, value))
        self.send_response(status)
        for name, value in fields:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    do_GET = serve
    do_POST = serve


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    address_family = socket.AF_INET

    def __init__(self, root):
        super().__init__(("127.0.0.1", 0), Handler)
        self.root = root
        self.tricks = {}
        self.passwords = {}  # Of what begins so: (user, password).
        self.astray = 0      # Logins that nobody asked for.
        self.seen = []
        self.over = threading.Event()  # Those that hang wait for it.
        self.base = f"http://127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, request, client_address):
        pass  # A client that has had enough.

    def fetches(self):
        return sum(b"command=fetch" in body for _, _, body in self.seen)

    def end(self):
        self.over.set()
        self.shutdown()
        self.server_close()


def redirect(to):
    def trick(handler):
        handler.send_response(302)
        handler.send_header("Location", to)
        handler.send_header("Content-Length", "0")
        handler.end_headers()
    return trick


def say(body, kind="application/x-git-upload-pack-advertisement"):
    def trick(handler):
        handler.send_response(200)
        handler.send_header("Content-Type", kind)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)
    return trick


def hang(handler):
    handler.server.over.wait(120)
    handler.close_connection = True
