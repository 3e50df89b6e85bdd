"""Something between clients and a server that can cut all connections."""
import socket
import threading


class Between:
    """Listens on port and passes on what comes; cut_port: see mcp_tools.py. The
    server is a port, or the path of a Unix socket."""

    def __init__(self, server):
        self.server = server
        self.lock = threading.Lock()
        self.open = set()
        self.cuts = 0
        self.listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
        self.port, self.cut_port = (one.getsockname()[1] for one in self.listeners)

    def __enter__(self):
        for listener, serve in zip(self.listeners, (self.carry, self.cut)):
            threading.Thread(target=self.accept, args=(listener, serve),
                             daemon=True).start()
        return self

    def __exit__(self, *_):
        for listener in self.listeners:
            listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        self.cut_all()

    @staticmethod
    def accept(listener, serve):
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            serve(client)

    def cut_all(self):
        with self.lock:
            for one in self.open:
                try:
                    one.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass  # It has gone already.

    def cut(self, client):
        self.cuts += 1
        self.cut_all()
        client.close()

    def carry(self, client):
        try:
            is_port = isinstance(self.server, int)
            server = socket.socket(socket.AF_INET if is_port else socket.AF_UNIX)
            server.connect(("127.0.0.1", self.server) if is_port else self.server)
        except OSError:
            client.close()
            return
        pair = {"ends": 0}
        with self.lock:
            self.open |= {client, server}
        for ends in ((client, server), (server, client)):
            threading.Thread(target=self.pump, args=(*ends, pair),
                             daemon=True).start()

    def pump(self, source, sink, pair):
        try:
            while data := source.recv(65536):
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # Cut, or closed by the other side.
        with self.lock:
            pair["ends"] += 1
            if pair["ends"] == 2:
                self.open -= {source, sink}
                source.close()
                sink.close()
