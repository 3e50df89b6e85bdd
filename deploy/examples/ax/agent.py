#!/usr/bin/env python3
"""An agent for AX that runs the Python of its prompt: AgentService of ax.proto, and
grpc.health.v1. It needs Python 3 with grpcio and protobuf, and nothing generated.

    agent.py [ADDRESS]       default: 0.0.0.0:8494

The sandbox is the wall around what it runs. A prompt is the last message's text, or what
stands in its first ``` block. Output is sent as it comes, and the program's end is told.
AX_TIMEOUT_S (300) ends a program that takes longer.
"""
import concurrent.futures
import os
import re
import signal
import subprocess
import sys
import threading

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

OUTPUT_MAX = 1 << 20  # Bytes of one program; more are dropped.
PROGRAMS_MAX = 8      # At once; a further request waits.

STRING, BYTES, BOOL, ENUM, MESSAGE = 9, 12, 8, 14, 11
# Of each message its fields: name, number, type, message or enum; + is repeated.
AX = {
    "AgentRequest": [("conversation_id", 1, STRING), ("exec_id", 2, STRING),
                     ("start", 3, MESSAGE, "AgentStart")],
    "AgentStart": [("agent_id", 1, STRING), ("agent_config", 2, BYTES),
                   ("messages", 3, MESSAGE, "+Message")],
    "AgentResponse": [("conversation_id", 1, STRING), ("exec_id", 2, STRING),
                      ("outputs", 3, MESSAGE, "AgentOutputs"),
                      ("end", 4, MESSAGE, "AgentEnd")],
    "AgentOutputs": [("messages", 1, MESSAGE, "+Message")],
    "AgentEnd": [],
    "Message": [("role", 1, STRING), ("content", 2, MESSAGE, "Content"),
                ("internal_only", 3, BOOL)],
    "Content": [("text", 10, MESSAGE, "TextContent")],
    "TextContent": [("text", 3, STRING)],
    "HealthCheckRequest": [],
    "HealthCheckResponse": [("healthy", 1, BOOL), ("message", 2, STRING)],
}
HEALTH = {
    "HealthCheckRequest": [("service", 1, STRING)],
    "HealthCheckResponse": [("status", 1, ENUM, "Status")],
}
STATUS = {"UNKNOWN": 0, "SERVING": 1, "NOT_SERVING": 2, "SERVICE_UNKNOWN": 3}


def messages_of(package, table, enums=()):
    """Classes of the package's messages, by name."""
    file = descriptor_pb2.FileDescriptorProto(
        name=package + ".proto", package=package, syntax="proto3")
    for name, values in dict(enums).items():
        enum = file.enum_type.add(name=name)
        for word, number in values.items():
            enum.value.add(name=word, number=number)
    for name, fields in table.items():
        message = file.message_type.add(name=name)
        for field, number, kind, *of in fields:
            made = message.field.add(name=field, number=number, type=kind,
                                     label=3 if of and of[0][0] == "+" else 1)
            if of:
                made.type_name = f".{package}.{of[0].lstrip('+')}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    if hasattr(message_factory, "GetMessageClass"):
        make = message_factory.GetMessageClass
    else:  # protobuf before 4.22
        make = message_factory.MessageFactory(pool).GetPrototype
    return {name: make(pool.FindMessageTypeByName(f"{package}.{name}"))
            for name in table}


ax = messages_of("ax", AX)
health = messages_of("grpc.health.v1", HEALTH, {"Status": STATUS})
programs = threading.BoundedSemaphore(PROGRAMS_MAX)


def prompt_of(request):
    """The program in the last message that has a text."""
    for message in reversed(request.start.messages):
        text = message.content.text.text
        if text.strip():
            block = re.search(r"```(?:python)?\n(.*?)```", text, re.S)
            return block.group(1) if block else text
    return None


def end_group(process):
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass  # It has ended by itself.


def output_of(process):
    """What it prints, as it comes; then how it ended."""
    seen = 0
    while piece := os.read(process.stdout.fileno(), 65536):
        if seen < OUTPUT_MAX:
            yield piece[:OUTPUT_MAX - seen].decode(errors="replace")
        seen += len(piece)
    if seen > OUTPUT_MAX:
        yield f"\n[{seen - OUTPUT_MAX} more bytes]\n"
    code = process.wait()
    if code != 0:
        yield f"[exit status {code}]\n"


def run(program, context):
    process = subprocess.Popen(
        [sys.executable, "-u", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, start_new_session=True)
    timer = threading.Timer(float(os.environ.get("AX_TIMEOUT_S", "300")), end_group,
                            [process])
    timer.start()
    # False: the client is gone already, and nobody will be told of that again.
    if not context.add_callback(lambda: end_group(process)):
        end_group(process)
    try:
        try:
            with process.stdin:
                process.stdin.write(program.encode())
        except BrokenPipeError:
            pass  # It has ended without reading all of itself.
        yield from output_of(process)
    finally:
        timer.cancel()
        end_group(process)
        process.stdout.close()
        process.wait()


def connect(request, context):
    def answer(**fields):
        return ax["AgentResponse"](conversation_id=request.conversation_id,
                                   exec_id=request.exec_id, **fields)

    program = prompt_of(request)
    if program is None:
        context.abort(grpc.StatusCode.INVALID_ARGUMENT,
                      "start.messages: a message with a text was expected")
    with programs:
        for text in run(program, context):
            content = ax["Content"](text=ax["TextContent"](text=text))
            yield answer(outputs=ax["AgentOutputs"](messages=[
                ax["Message"](role="assistant", content=content)]))
    yield answer(end=ax["AgentEnd"]())


def agent_health(_request, _context):
    return ax["HealthCheckResponse"](healthy=True, message="runs Python")


def check(request, context):
    if request.service not in ("", "ax.AgentService"):
        context.abort(grpc.StatusCode.NOT_FOUND, "no such service")
    return health["HealthCheckResponse"](status=STATUS["SERVING"])


def watch(request, context):
    known = request.service in ("", "ax.AgentService")
    yield health["HealthCheckResponse"](
        status=STATUS["SERVING" if known else "SERVICE_UNKNOWN"])
    ended = threading.Event()
    if context.add_callback(ended.set):
        ended.wait()


def handlers(service, methods):
    return grpc.method_handlers_generic_handler(service, {
        name: make(function, request_deserializer=request.FromString,
                   response_serializer=response.SerializeToString)
        for name, (make, function, request, response) in methods.items()})


def main():
    address = sys.argv[1] if len(sys.argv) > 1 else "0.0.0.0:8494"
    one, many = grpc.unary_unary_rpc_method_handler, grpc.unary_stream_rpc_method_handler
    # A program, or a watch, holds a thread.
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(4 * PROGRAMS_MAX),
                         options=[("grpc.so_reuseport", 0)])
    server.add_generic_rpc_handlers((
        handlers("ax.AgentService", {
            "Connect": (many, connect, ax["AgentRequest"], ax["AgentResponse"]),
            "HealthCheck": (one, agent_health, ax["HealthCheckRequest"],
                            ax["HealthCheckResponse"])}),
        handlers("grpc.health.v1.Health", {
            "Check": (one, check, *health.values()),
            "Watch": (many, watch, *health.values())})))
    server.add_insecure_port(address)
    server.start()
    signal.signal(signal.SIGTERM, lambda *_: server.stop(1))
    server.wait_for_termination()


if __name__ == "__main__":
    main()
