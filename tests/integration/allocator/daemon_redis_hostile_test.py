"""Somebody writes what they like into the Redis that several warmpoold share.

Run by ctest: daemon_redis_hostile_test.py WARMPOOLD GENERATED_DIR DEPLOY_DIR
[unittest arguments]. Exits with 77 where there is no redis-server. SEED and
SECONDS in the environment choose another run, and a longer one.
"""

import collections
import os
import random
import socket
import threading
import time

import grpc

from daemon_redis_test import Rig, run
from daemon_test import POOL, eventually, pb

SEED = int(os.environ.get("SEED", "1"))
SECONDS = float(os.environ.get("SECONDS", "8"))
DIGITS = b"0123456789"


class Connection:
    """To Redis; words and answers are bytes."""

    def __init__(self, path):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(path)
        self.file = self.sock.makefile("rb")

    def send(self, *words):
        self.sock.sendall(b"*%d\r\n" % len(words) + b"".join(
            b"$%d\r\n%s\r\n" % (len(word), word) for word in words))

    def read(self):
        line = self.file.readline()
        kind, rest = line[:1], line[1:-2]
        if kind == b"$":
            size = int(rest)
            return None if size < 0 else self.file.read(size + 2)[:-2]
        if kind == b"*":
            return [self.read() for _ in range(int(rest))]
        return rest  # A word, a number, an error.

    def ask(self, *words):
        self.send(*words)
        return self.read()

    def close(self):
        self.sock.shutdown(socket.SHUT_RDWR)
        self.file.close()
        self.sock.close()


def damaged(rng, text):
    """The same but for something small, as a rule."""
    text = bytearray(text)
    at = rng.randrange(len(text) + 1)
    end = min(len(text), at + rng.randrange(1, 9))
    kind = rng.randrange(6)
    if kind == 0:
        text[at:end] = b""
    elif kind == 1:
        text[at:at] = bytes(rng.randrange(256) for _ in range(4))
    elif kind == 2:
        text[at:] = b""
    elif kind == 3:
        text = bytearray(rng.choice([b"", b"-1", b"9" * 40, bytes(30)]))
    else:
        text[at:end] = bytes(rng.choice(DIGITS) for _ in range(end - at))
    return bytes(text)


class Hostile(Rig):
    flags = ("--synthetic", "--synthetic-ready=20ms", "--slots-max=64")

    def setUp(self):
        super().setUp()
        self.rng = random.Random(SEED)
        print(f"seed {SEED}", flush=True)
        for name in ("a", "b"):
            self.start(name)
        for daemon in self.daemons:
            daemon.wait_full(3)
        self.leases = []
        self.granted = 0
        self.redis_link = self.connect()

    def connect(self):
        link = Connection(self.redis.path)
        self.addCleanup(link.close)
        return link

    def call(self, daemon, method, request, answer):
        try:
            return daemon.rpc("Allocator/" + method, request, answer, timeout=2)
        except grpc.RpcError as error:
            self.assertNotEqual(error.code(), grpc.StatusCode.INTERNAL)
            return None

    def use(self, number):
        """Claims come and go meanwhile, some ids more than once."""
        daemon = self.rng.choice(self.daemons)
        claim_id = f"c{self.rng.choice([number, number % 16])}"
        answer = self.call(daemon, "Claim", pb.ClaimRequest(
            pool=POOL, claim_id=claim_id,
            ttl_ms=self.rng.choice([0, 1000, 3000])), pb.ClaimResponse)
        if answer is not None:
            self.granted += 1
            self.leases.append(answer.lease.token)
        if self.leases and self.rng.random() < 0.8:
            at = self.rng.randrange(len(self.leases))
            self.call(daemon, "Release",
                      pb.ReleaseRequest(token=self.leases.pop(at)),
                      pb.ReleaseResponse)
        if self.leases and self.rng.random() < 0.3:
            self.call(daemon, "Renew",
                      pb.RenewRequest(token=self.rng.choice(self.leases)),
                      pb.RenewResponse)

    def while_somebody(self, attacks):
        end = time.monotonic() + SECONDS
        number = 0
        while time.monotonic() < end:
            if self.rng.random() < 0.4:
                attacks()
            for _ in range(3):
                self.use(number)
                number += 1
            time.sleep(0.01)
            for daemon in self.daemons:
                self.assertIsNone(daemon.process.poll(), daemon.messages())
        print(f"{self.granted} of {number} claims granted", flush=True)
        self.assertGreater(self.granted, 0)

    def goes_on(self):
        """Once nobody writes there any more, and what they wrote is gone."""
        self.redis_link.ask(b"FLUSHALL")
        for daemon in self.daemons:
            daemon.wait_full(3)
            eventually(lambda d=daemon: self.code(d.claim, "after") ==
                       grpc.StatusCode.OK, "a claim")

    def test_edited_keys(self):
        """Put right again, as a rule."""
        before = []

        def edit():
            while before:
                self.redis_link.ask(b"HSET", *before.pop())
            keys = self.redis_link.ask(b"KEYS", b"*")
            key = self.rng.choice(keys)
            if self.redis_link.ask(b"TYPE", key) != b"hash":
                return
            field = self.rng.choice(self.redis_link.ask(b"HKEYS", key))
            value = self.redis_link.ask(b"HGET", key, field)
            self.redis_link.ask(b"HSET", key, field, damaged(self.rng, value))
            if self.rng.random() < 0.9:
                before.append((key, field, value))

        self.while_somebody(edit)
        self.goes_on()

    def test_edited_news(self):
        """What daemons tell each other is told again, a little changed."""
        heard = collections.deque(maxlen=200)  # Never gets shorter.
        link = self.connect()
        link.send(b"PSUBSCRIBE", b"warmpool:*")
        link.read()

        def listen():
            try:
                while True:
                    _, _, channel, text = link.read()
                    heard.append((channel, text))
            except (OSError, ValueError):
                pass  # Closed.

        thread = threading.Thread(target=listen, daemon=True)
        thread.start()

        def tell():
            for _ in range(8):
                if heard:
                    channel, text = self.rng.choice(heard)
                    self.redis_link.ask(b"PUBLISH", channel,
                                        damaged(self.rng, text))

        self.while_somebody(tell)
        self.goes_on()


if __name__ == "__main__":
    run()
