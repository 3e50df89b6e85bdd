"""A collector of OpenTelemetry, for tests: takes OTLP over HTTP, as JSON."""

import http.server
import json
import socket
import threading

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = "00f067aa0ba902b7"
SAMPLED = f"00-{TRACE}-{PARENT}-01"
INTERNAL, SERVER = 1, 2
ERROR = 2


def plain(attributes):
    """{key: value} of OTLP's list."""
    return {a["key"]: next(iter(a["value"].values())) for a in attributes}


def lies_in(inner, outer):
    times = [int(outer["startTimeUnixNano"]), int(inner["startTimeUnixNano"]),
             int(inner["endTimeUnixNano"]), int(outer["endTimeUnixNano"])]
    return times == sorted(times)


class Collector:
    """Keeps the spans, and answers as it is told."""

    def __init__(self, port=0):
        outer = self
        self.spans = []
        self.resources = []
        self.posts = 0
        self.answer = 200
        self.goes_on = threading.Event()  # While it does not answer at all.
        self.goes_on.set()

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.posts += 1
                outer.goes_on.wait(60)
                if outer.answer == 200:
                    outer.take(self.path, self.headers, json.loads(body))
                self.send_response(outer.answer)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *_):
                pass

        # Bound besides, and never closed: nobody else gets the port while there
        # is no collector.
        self.holder = socket.socket()
        self.holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.holder.bind(("127.0.0.1", port))
        self.server = http.server.ThreadingHTTPServer(
            self.holder.getsockname(), Handler)
        self.server.daemon_threads = True
        self.server.handle_error = lambda *_: None  # The daemon hung up.
        self.port = self.server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()

    def take(self, path, headers, request):
        assert path == "/v1/traces", path
        assert headers["Content-Type"] == "application/json"
        for part in request["resourceSpans"]:
            self.resources.append(plain(part["resource"]["attributes"]))
            for scope in part["scopeSpans"]:
                assert scope["scope"]["name"] == "warmpool"
                self.spans += scope["spans"]

    def named(self, name):
        return [s for s in self.spans if s["name"] == name]

    def stop(self):
        self.goes_on.set()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()
