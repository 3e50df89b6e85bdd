#!/usr/bin/env python3
"""What the egress proxy costs: pages of 64 KiB through it and directly by turns,
and bytes through a tunnel.

    bench/egress.py [--build build/release] [--pages N] [--mib N]

The server and the client are this script's own processes, so they share the
machine with the proxy. Prints a table; the last lines are the ratios.
"""
import argparse
import multiprocessing
import os
import pathlib
import re
import socket
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = b"p" * 65536
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 65536\r\n\r\n" + PAGE


def serve(server, mib):
    """A page for each GET, until the client closes; mib MiB for a lone byte."""
    blob = b"b" * (1 << 20)
    while True:
        peer, _ = server.accept()
        with peer:
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while True:
                asked = peer.recv(65536)
                if not asked:
                    break
                if asked == b"!":
                    for _ in range(mib):
                        peer.sendall(blob)
                else:
                    peer.sendall(ANSWER)


def fetch(address, target):
    """Seconds from before the connect to the page's last byte."""
    began = time.perf_counter()
    with socket.create_connection(address) as sock:
        sock.sendall(b"GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
                     % target.encode())
        got, end = 0, None
        while end is None or got < end:
            piece = sock.recv(1 << 18)
            if not piece:
                raise SystemExit("the page was cut")
            if end is None:
                end = piece.index(b"\r\n\r\n") + 4 + len(PAGE)
            got += len(piece)
    return time.perf_counter() - began


def stream(sock, mib):
    """Gbit/s of mib MiB that the server sends."""
    view = memoryview(bytearray(1 << 20))
    sock.sendall(b"!")
    began = time.perf_counter()
    left = mib << 20
    while left > 0:
        n = sock.recv_into(view)
        if n == 0:
            raise SystemExit("the stream was cut")
        left -= n
    return (mib << 23) / (time.perf_counter() - began) / 1e9


def tunnel(address, target):
    sock = socket.create_connection(address)
    sock.sendall(b"CONNECT %s HTTP/1.1\r\n\r\n" % target.encode())
    head = b""
    while b"\r\n\r\n" not in head:
        head += sock.recv(1)
    if b" 200 " not in head:
        raise SystemExit(head.decode())
    return sock


def start_proxy(build, policy):
    proxy = subprocess.Popen(
        [build / "runtime" / "warmpool-egress", "--listen", "127.0.0.1:0",
         "--policy", policy], stderr=subprocess.PIPE, text=True)
    for line in proxy.stderr:
        found = re.search(r"listening address=127\.0\.0\.1:(\d+)", line)
        if found:
            # Its further lines, one a request, are read and dropped.
            subprocess.Popen(["cat"], stdin=proxy.stderr,
                             stdout=subprocess.DEVNULL)
            return proxy, ("127.0.0.1", int(found.group(1)))
    raise SystemExit("warmpool-egress does not start")


def quarters(values):
    low, middle, high = statistics.quantiles(values, n=4)
    return f"{middle:.2f} ({low:.2f}-{high:.2f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--build", type=pathlib.Path,
                        default=ROOT / "build" / "release")
    parser.add_argument("--pages", type=int, default=2000)
    parser.add_argument("--mib", type=int, default=512)
    args = parser.parse_args()
    server = socket.create_server(("127.0.0.1", 0), backlog=128)
    here = "127.0.0.1:%d" % server.getsockname()[1]
    origin = multiprocessing.Process(target=serve, args=(server, args.mib),
                                     daemon=True)
    origin.start()
    proxy, address = start_proxy(args.build, here)
    try:
        direct, through = [], []
        for _ in range(args.pages):
            direct.append(1e3 * fetch(server.getsockname(), "/"))
            through.append(1e3 * fetch(address, f"http://{here}/"))
        rates = {"direct": [], "through": []}
        for _ in range(5):
            with socket.create_connection(server.getsockname()) as sock:
                rates["direct"].append(stream(sock, args.mib))
            with tunnel(address, here) as sock:
                rates["through"].append(stream(sock, args.mib))
    finally:
        proxy.terminate()
        proxy.wait()
        origin.terminate()
    print("| figure | direct | through the proxy |\n|---|---|---|")
    print(f"| 64 KiB page on a new connection, ms, median (quarters), n "
          f"{args.pages} | {quarters(direct)} | {quarters(through)} |")
    print(f"| one stream of {args.mib} MiB, Gbit/s, median (quarters), n 5 | "
          f"{quarters(rates['direct'])} | {quarters(rates['through'])} |")
    print("| load | | %s |" % " ".join(f"{x:.1f}" for x in os.getloadavg()))
    more = statistics.median(through) - statistics.median(direct)
    print(f"\npage: {more:+.2f} ms; stream: "
          f"{statistics.median(rates['through']):.2f} Gbit/s")


if __name__ == "__main__":
    sys.exit(main())
