"""HTTP/2 and TLS by hand: what no well-behaved library would send.

A target is a dictionary: kind (unix, tcp, tls, mtls), address (a path, or [host,
port]), source (the attacker's own address), uid (whom a Unix socket sees), ca, cert
and key (files), bearer (a token), and pool.
"""

import os
import socket
import ssl
import struct
import time

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST, SETTINGS, PUSH, PING, GOAWAY, WINDOW, CONT = range(
    10)
END_STREAM, END_HEADERS = 1, 4
CLAIM = b"/warmpool.v1.Allocator/Claim"
GET_CLAIM = b"/warmpool.v1.Allocator/GetClaim"
LIST_POOLS = b"/warmpool.v1.PoolAdmin/ListPools"
WATCH = b"/warmpool.v1.Allocator/WatchPools"
PATIENCE = 5  # Seconds, of a connect or a handshake.


def frame(kind, flags, stream, payload=b""):
    return (struct.pack(">I", len(payload))[1:] + bytes((kind, flags)) +
            struct.pack(">I", stream) + payload)


def integer(value, bits, first=0):
    """HPACK's: in the low bits of a first byte, and what follows."""
    most = (1 << bits) - 1
    if value < most:
        return bytes((first | value,))
    out = bytearray((first | most,))
    value -= most
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def literal(name, value, indexed=False):
    """A field with its name in full; indexed: it enters the dynamic table."""
    return (b"\x40" if indexed else b"\x00") + integer(
        len(name), 7) + name + integer(len(value), 7) + value


def fields(path, target, indexed=False):
    """The header block of a gRPC request."""
    secure = target["kind"] in ("tls", "mtls")
    block = b"\x83" + (b"\x87" if secure else b"\x86")
    pairs = [(b":path", path), (b":authority", b"x"), (b"te", b"trailers"),
             (b"content-type", b"application/grpc")]
    if target.get("bearer"):
        pairs.append((b"authorization",
                      b"Bearer " + target["bearer"].encode()))
    return block + b"".join(literal(n, v, indexed) for n, v in pairs)


def repeated(target, n_fields=None):
    """The block again, once fields(..., indexed=True) was sent: a few bytes."""
    n_fields = n_fields or (5 if target.get("bearer") else 4)
    secure = target["kind"] in ("tls", "mtls")
    return b"\x83" + (b"\x87" if secure else b"\x86") + bytes(
        0x80 | 62 + i for i in reversed(range(n_fields)))


def message(body):
    return struct.pack(">BI", 0, len(body)) + body


def claim_request(target, claim_id, wait_ms=0):
    """A ClaimRequest of a second's lease."""
    def varint(value):
        return integer(value, 8) if value < 128 else bytes(
            (value & 127 | 128,)) + varint(value >> 7)
    name = target.get("pool", "attack").encode()
    pool = b"\x12" + varint(len(name)) + name
    body = b"\x0a" + varint(len(pool)) + pool
    body += b"\x12" + varint(len(claim_id)) + claim_id
    return message(body + b"\x20" + varint(1000) + b"\x28" + varint(wait_ms))


def dial(target, patience=PATIENCE):
    """A connected socket, before any TLS."""
    if target["kind"] == "unix":
        sock = socket.socket(socket.AF_UNIX)
        sock.settimeout(patience)
        sock.connect(target["address"])
        return sock
    sock = socket.socket(socket.AF_INET6 if ":" in target["address"][0]
                         else socket.AF_INET)
    sock.settimeout(patience)
    # Ports are free again at once, and the server hears of the end.
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if target.get("source"):
        sock.setsockopt(socket.IPPROTO_IP, 24, 1)  # IP_BIND_ADDRESS_NO_PORT
        sock.bind((target["source"], 0))
    sock.connect(tuple(target["address"]))
    return sock


def tls_context(target):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(target["ca"])
    context.check_hostname = False
    context.set_alpn_protocols([target.get("alpn", "h2")])
    if target["kind"] == "mtls":
        context.load_cert_chain(target["cert"], target["key"])
    return context


class Connection:
    """One connection that sends what a generator yields and reads what comes,
    or does not read. Never blocks once it is open."""

    contexts = {}

    def __init__(self, target, script=None, reads=True, settings=b"",
                 plain=False):
        self.sock = dial(target)
        self.reads = reads
        self.left = memoryview(b"")
        self.sent = self.read = 0
        try:
            if target["kind"] in ("tls", "mtls"):
                key = target["ca"] + target.get("cert", "")
                if key not in self.contexts:
                    self.contexts[key] = tls_context(target)
                self.sock = self.contexts[key].wrap_socket(self.sock)
            self.sock.setblocking(False)
        except BaseException:
            self.sock.close()
            raise
        begin = b"" if plain else (
            PREFACE + frame(SETTINGS, 0, 0, settings))
        self.left = memoryview(begin)
        self.script = script(self) if script is not None else iter(())

    def drain(self):
        """Reads what has come. False: the peer has ended it."""
        try:
            while True:
                got = self.sock.recv(1 << 18)
                if not got:
                    return False
                self.read += len(got)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return True
        except (OSError, ssl.SSLError):
            return False

    def push(self):
        """Sends on. Returns the bytes taken, or None when it has ended."""
        if self.reads and not self.drain():
            return None
        if not self.left:
            more = next(self.script, None)
            if more is None:
                return 0
            self.left = memoryview(more)
            if not more:
                return 0
        try:
            n = self.sock.send(self.left)
        except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
            return 0
        except (OSError, ssl.SSLError):
            return None
        self.left = self.left[n:]
        self.sent += n
        return n

    def close(self):
        self.sock.close()


class Attack:
    """What an attacker does until its time is over; counts for the report."""

    def __init__(self, target, seconds):
        self.target = target
        self.end = time.monotonic() + seconds
        self.opened = self.cut = self.refused = self.sent = 0

    def going(self):
        return time.monotonic() < self.end

    def open(self, *args, **more):
        """A Connection, or None when none is to be had just now."""
        try:
            connection = Connection(self.target, *args, **more)
        except OSError:
            self.refused += 1
            time.sleep(0.005)
            return None
        self.opened += 1
        return connection

    def flood(self, script, connections=1, reads=True, settings=b"",
              plain=False, pace=0):
        """Keeps so many connections at the script, each as fast as it is
        taken; a new one for each that is ended, and for one that takes
        nothing for a second. pace: seconds between rounds."""
        held = [None] * connections
        moved = [0.0] * connections
        while self.going():
            progress = 0
            for i, connection in enumerate(held):
                if not self.going():
                    break
                now = time.monotonic()
                if connection is None:
                    held[i] = self.open(script, reads, settings, plain)
                    moved[i] = now
                    continue
                n = connection.push()
                if n:
                    self.sent += n
                    progress += n
                    moved[i] = now
                elif n is None or (now - moved[i] > 1 and connection.left):
                    self.cut += n is None
                    connection.close()
                    held[i] = None
            if pace or not progress:
                time.sleep(pace or 0.002)
        for connection in held:
            if connection is not None:
                connection.close()


def become(target):
    """Niced, on the last processor, with the attacker's user."""
    os.nice(10)
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    if target.get("uid") is not None and os.geteuid() == 0:
        os.setgroups([])
        os.setgid(target["uid"])
        os.setuid(target["uid"])
