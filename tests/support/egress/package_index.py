"""A package index for pip, with one package: wp-small, the module wp_small."""
import http.server
import io
import socket
import threading
import zipfile


def wheel():
    """(name, bytes) of a package that is nothing but a module with a line."""
    out = io.BytesIO()
    about = "wp_small-1.0.dist-info/"
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("wp_small.py", "WORD = 'there'\n")
        archive.writestr(about + "METADATA", "Metadata-Version: 2.1\n"
                         "Name: wp-small\nVersion: 1.0\n")
        archive.writestr(about + "WHEEL", "Wheel-Version: 1.0\nGenerator: t\n"
                         "Root-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(about + "RECORD", "".join(
            name + ",,\n" for name in ("wp_small.py", about + "METADATA",
                                       about + "WHEEL", about + "RECORD")))
    return "wp_small-1.0-py3-none-any.whl", out.getvalue()


class Page(http.server.BaseHTTPRequestHandler):

    def do_GET(self):
        name, archive = wheel()
        page = archive if self.path.endswith(".whl") else (
            f'<!DOCTYPE html><a href="/files/{name}">{name}</a>'.encode())
        self.send_response(200)
        self.send_header("Content-Type", "text/html" if page[:1] == b"<"
                         else "application/octet-stream")
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        self.wfile.write(page)

    def log_message(self, *_):
        pass


class Index:
    """By the machine's name: clients pass a proxy by for loopback."""

    def __init__(self):
        self.name = socket.gethostname()
        self.address = socket.gethostbyname(self.name)
        self.server = http.server.ThreadingHTTPServer((self.address, 0), Page)
        self.thread = threading.Thread(target=self.server.serve_forever,
                                       args=(0.02,))
        self.thread.start()
        self.host = f"{self.name}:{self.server.server_port}"
        self.url = f"http://{self.host}/simple/"
        # What lets somebody reach it: the name, and the address that it has.
        self.rules = f"{self.host} {self.address}:{self.server.server_port}"

    def stop(self):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()
