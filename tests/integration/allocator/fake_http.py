"""The HTTP of a fake daemon: what is sent to it is told as text, and it answers
each connection as a script says."""

import contextlib
import os
import re
import socket
import threading
import zlib


class Answer:
    """early: before the body is read. then: called between head and body."""

    def __init__(self, code=200, body=b"", raw=None, early=False, then=None,
                 reset=False, silent=False):
        self.raw = raw if raw is not None else (
            b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n%s"
            % (code, len(body), body))
        self.early = early
        self.then = then
        self.reset = reset
        self.silent = silent


class FakeHttp:
    def __init__(self, directory):
        self.answers = []
        self.requests = []
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(os.path.join(directory, "warmpoold-http.sock"))
        self.listener.listen(8)
        self.thread = threading.Thread(target=self.serve)
        self.thread.start()

    def stop(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.thread.join()
        self.listener.close()

    def serve(self):
        with contextlib.suppress(OSError):
            while True:
                peer, _ = self.listener.accept()
                with peer, contextlib.suppress(OSError):
                    self.talk(peer)

    def talk(self, peer):
        text = b""
        while b"\r\n\r\n" not in text:
            part = peer.recv(65536)
            if not part:
                return
            text += part
        head, body = text.split(b"\r\n\r\n", 1)
        length = re.search(rb"\r\nContent-Length: (\d+)", head)
        length = int(length[1]) if length else 0
        place = len(self.requests)
        answer = self.answers.pop(0) if self.answers else Answer(raw=b"")
        self.requests.append(told(head, None))
        if answer.then is not None:
            answer.then()
        if not answer.early and not answer.reset:
            while len(body) < length:
                part = peer.recv(65536)
                if not part:
                    return
                body += part
            self.requests[place] = told(head, body)
        if answer.reset:  # What was not read is thrown away: a reset.
            peer.recv(1, socket.MSG_PEEK)
            return
        if not answer.silent:
            peer.sendall(answer.raw)
            peer.shutdown(socket.SHUT_WR)
        while peer.recv(65536):
            pass


def told(head, body):
    """Lines of a request; a long body as its length and sum."""
    text = head.decode()
    boundary = re.search(r"boundary=([0-9a-f]{24})\b", text)
    if boundary:
        text = text.replace(boundary[1], "BOUNDARY")
        body = body and body.replace(boundary[1].encode(), b"BOUNDARY")
    if body is None:
        text += "\n(its body is not read)"
    elif len(body) > 1000:
        text += f"\n({len(body)} bytes, {zlib.crc32(body):08x})"
    elif body:
        text += "\n" + body.decode()
    text = re.sub(r"User-Agent: warmpoolctl/[0-9.]+", "User-Agent: X", text)
    return "".join(f"> {line}\n" for line in text.split("\n")).replace("\r", "")
