"""A warmpoold that answers whatever it is told to, and what warmpoolctl makes
of it as text: the call that came, what was printed, the exit code."""

import contextlib
import os
import pty
import re
import select
import subprocess
import time
from concurrent import futures

import grpc
from google.protobuf import text_format
from warmpool.v1 import allocator_pb2 as pb

from fake_http import FakeHttp

PATIENCE = 90
# What still lasts for 3 days and 12 hours; a slow machine has half an hour.
FAR_MS = (int(time.time()) + (3 * 24 + 12) * 3600 + 1800) * 1000
METHODS = {f"/warmpool.v1.{service.name}/{method.name}": method
           for service in pb.DESCRIPTOR.services_by_name.values()
           for method in service.methods}


class Refusal:
    def __init__(self, code, text, details=b""):
        self.code = getattr(grpc.StatusCode, code)
        self.text = text
        self.details = details


FOREVER = object()  # Empty messages, for as long as they are wanted.


def method_reply(method):
    return getattr(pb, method.output_type.name)()


class Odd:
    """Bytes that are no message."""

    def SerializeToString(self, deterministic):
        del deterministic
        return b"\xff\xff\xff"


class FakeDaemon(grpc.GenericRpcHandler):
    def __init__(self, directory):
        self.dir = directory
        self.replies = {}
        self.calls = []
        self.server = grpc.server(futures.ThreadPoolExecutor(4))
        self.server.add_generic_rpc_handlers((self,))
        self.server.add_insecure_port(f"unix:{directory}/warmpoold.sock")
        self.server.start()
        self.http = FakeHttp(directory)
        self.env = {key: value for key, value in os.environ.items()
                    if not key.startswith(("WARMPOOL_", "XDG_"))}
        self.env.update(RUNTIME_DIRECTORY=directory, LC_ALL="C.UTF-8",
                        XDG_STATE_HOME=os.path.join(directory, "home"))

    def stop(self):
        self.http.stop()
        self.server.stop(None).wait()

    def service(self, details):
        method = METHODS.get(details.method)
        return method and grpc.unary_stream_rpc_method_handler(
            lambda request, context: self.answer(method, request, context),
            getattr(pb, method.input_type.name).FromString,
            lambda message: message.SerializeToString(
                deterministic=True))

    def answer(self, method, request, context):
        said = text_format.MessageToString(request, as_one_line=True)
        name = f"{method.containing_service.name}/{method.name}"
        self.calls.append(f"{name} {said}".rstrip())
        replies = self.replies[method.name]
        # Those of one call; of several calls, a list each.
        if replies and isinstance(replies[0], list):
            replies = replies.pop(0)
        for reply in replies:
            while reply is FOREVER and context.is_active():
                yield method_reply(method)
                time.sleep(0.01)
            if isinstance(reply, Refusal):
                context.set_trailing_metadata(
                    [("grpc-status-details-bin", reply.details)])
                context.abort(reply.code, reply.text)
            yield reply

    def run(self, ctl, words, replies, terminal=False, data=b"", env=None,
            http=()):
        """What the command did, as text without what changes."""
        self.replies = {name: list(each) for name, each in replies.items()}
        self.calls = []
        self.http.answers = list(http)
        self.http.requests = []
        began_ms = int(time.time() * 1000)
        options = {"env": {**self.env, **(env or {})}, "cwd": self.dir}
        if terminal:
            code, out = on_terminal([ctl, *words], **options)
            errors = ""
        else:
            done = subprocess.run([ctl, *words], input=data, timeout=PATIENCE,
                                  capture_output=True, check=False, **options)
            code, out, errors = (done.returncode, done.stdout.decode(),
                                 done.stderr.decode())
        text = "".join(f"> {call}\n" for call in self.calls)
        text += "".join(self.http.requests) + out
        text += "".join(f"! {line}\n" for line in errors.splitlines())
        return self.plain(text, began_ms) + f"[{code}]\n"

    def plain(self, text, began_ms):
        """Moments near this one are minutes from it."""
        far = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(FAR_MS / 1000))
        text = text.replace(str(FAR_MS), "FAR").replace(far, "FAR")
        text = text.replace(self.dir, "DIR")
        text = re.sub(r"ctl-[0-9a-f]{16}\b", "ctl-RANDOM", text)
        return re.sub(
            r"(?<=unix_ms: )\d{13}",
            lambda m: f"NOW+{(int(m[0]) - began_ms) // 60000}m"
            if abs(int(m[0]) - began_ms) < 30 * 86400000 else m[0], text)


def on_terminal(words, **options):
    """Its exit code, and what one would see, with escapes spelled out."""
    master, slave = pty.openpty()
    process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=slave,
                               stderr=slave, **options)
    os.close(slave)
    out = b""
    with contextlib.suppress(OSError):
        while select.select([master], [], [], PATIENCE)[0]:
            part = os.read(master, 65536)
            if not part:
                break
            out += part
    os.close(master)
    text = out.decode().replace("\r\n", "\n")
    return (process.wait(PATIENCE),
            text.replace("\r", "\\r").replace("\033", "\\e"))
