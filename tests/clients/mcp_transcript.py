"""What a client says to kagent's own sandbox-mcp, and what it hears there.

Each item is one thing a client can do; speak() does them all with any server that
has the five tools, and gives what came back, with what differs from run to run
(paths, numbers of requests) replaced. mcp_transcript.json has for each item what
kagent's server answers (seen from one built by the same SDK, at the same version,
with the same tools), and where warmpool-runtime answers something else: what, and
why. Needs nothing but Python.
"""
import http.client
import json
import os
import re
import time

NEWEST = "2025-11-25"
BOTH = "application/json, text/event-stream"
ITEMS = []


def item(function):
    """Marks a step of the transcript; they are done from first to last."""
    ITEMS.append((function.__name__, function))
    return function


def messages(kind, body):
    """The JSON messages of an answer, whatever its kind."""
    if kind.startswith("text/event-stream"):
        found = []
        for block in body.decode().replace("\r\n", "\n").split("\n\n"):
            data = [line[5:].strip() for line in block.split("\n")
                    if line.startswith("data:")]
            if data and data[0]:
                found.append(json.loads("\n".join(data)))
        return found
    return [json.loads(body)] if body else []


class Wire:
    """A client on one address."""

    def __init__(self, port, folder):
        self.port = port
        self.folder = folder
        self.session = None
        self.version = None
        self.next_id = 0

    def send(self, method="POST", body=None, headers=None, path="/mcp",
             use_session=True):
        conn = http.client.HTTPConnection("127.0.0.1", self.port, timeout=90)
        send = {"Accept": BOTH, "Content-Type": "application/json"}
        if use_session and self.session:
            send["Mcp-Session-Id"] = self.session
        if use_session and self.version:
            send["MCP-Protocol-Version"] = self.version
        send.update(headers or {})
        send = {name: value for name, value in send.items() if value is not None}
        if body is not None and not isinstance(body, (bytes, str)):
            body = json.dumps(body)
        try:
            conn.request(method, path, body, send)
            answer = conn.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            conn.close()

    def say(self, body, **how):
        """(status, kind of answer, messages) of a POST."""
        status, headers, answer = self.send("POST", body, **how)
        kind = headers.get("Content-Type", "").split(";")[0]
        if kind not in ("application/json", "text/event-stream"):
            return [status, kind]
        return [status, kind, *messages(kind, answer)]

    def ask(self, method, params=None, **how):
        self.next_id += 1
        message = {"jsonrpc": "2.0", "id": self.next_id, "method": method}
        if params is not None:
            message["params"] = params
        return self.say(message, **how)

    def call(self, tool, arguments=None):
        """The result or the error of a call, as one short value."""
        params = {"name": tool}
        if arguments is not None:
            params["arguments"] = arguments
        status, kind, *answers = self.ask("tools/call", params)
        if not answers:
            return [status, kind]
        answer = answers[-1]
        if "error" in answer:
            return ["error", answer["error"]["code"], answer["error"]["message"]]
        result = answer["result"]
        told = ["isError" if result.get("isError") else "ok"]
        told += [one["text"] for one in result["content"]]
        extra = sorted(set(result) - {"content", "isError"})
        return told + ([extra] if extra else [])

    def path(self, *parts):
        return os.path.join(self.folder, *parts)


def until(condition):
    end = time.monotonic() + 90
    while not condition():
        assert time.monotonic() < end, "it does not come"
        time.sleep(0.01)


def refused(told, field):
    """An error's code, and whether its text names the field: no server's words."""
    return [told[0], told[1], field in told[2]] if told[0] == "error" else told


def as_json(told):
    """The same with the text read as JSON: its spelling is nobody's business."""
    return told[:1] + [json.loads(told[1])] if told[0] == "ok" else told


# ------------------------------------------------------------- the protocol

def hello(version):
    return {"protocolVersion": version, "capabilities": {},
            "clientInfo": {"name": "transcript", "version": "1"}}


@item
def initialize_newest(wire):
    status, headers, body = wire.send("POST", {
        "jsonrpc": "2.0", "id": 0, "method": "initialize",
        "params": hello(NEWEST)})
    wire.session = headers["Mcp-Session-Id"]
    wire.version = NEWEST
    answer = messages(headers["Content-Type"], body)[-1]
    return [status, headers["Content-Type"], bool(wire.session), answer]


def negotiated(asked):
    def step(wire):
        _, _, answer = wire.ask("initialize", hello(asked), use_session=False)
        return answer["result"]["protocolVersion"]
    step.__name__ = "initialize_" + asked.replace("-", "_")
    return item(step)


for revision in ("2025-06-18", "2025-03-26", "2024-11-05", "2099-01-01"):
    negotiated(revision)


@item
def initialize_without_version(wire):
    return wire.ask("initialize", {"capabilities": {}, "clientInfo": {
        "name": "transcript", "version": "1"}}, use_session=False)[2:]


@item
def initialize_twice(wire):
    return wire.ask("initialize", hello(NEWEST))


@item
def initialized(wire):
    return wire.say({"jsonrpc": "2.0", "method": "notifications/initialized"})


@item
def ping(wire):
    return wire.ask("ping")


@item
def ping_with_a_text_as_id(wire):
    return wire.say({"jsonrpc": "2.0", "id": "a", "method": "ping"})


@item
def ping_without_a_session(wire):
    return wire.ask("ping", use_session=False)


@item
def any_path(wire):
    return wire.ask("ping", path="/any/where")[0]


@item
def unknown_version_header(wire):
    return wire.ask("ping", headers={"MCP-Protocol-Version": "1999-01-01"})[0]


@item
def no_version_header(wire):
    return wire.ask("ping", headers={"MCP-Protocol-Version": None})[0]


@item
def unknown_session(wire):
    return wire.ask("ping", headers={"Mcp-Session-Id": "made-up"})[0]


@item
def unknown_method(wire):
    return wire.ask("no/such")


@item
def prompts_are_none(wire):
    return wire.ask("prompts/list")[2:]


@item
def resources_are_none(wire):
    return wire.ask("resources/list")[2:]


@item
def unknown_notification(wire):
    return wire.say({"jsonrpc": "2.0", "method": "notifications/no_such"})


@item
def answer_nobody_asked_for(wire):
    return wire.say({"jsonrpc": "2.0", "id": 99, "result": {}})[0]


@item
def cancelled_of_nothing(wire):
    return wire.say({"jsonrpc": "2.0", "method": "notifications/cancelled",
                     "params": {"requestId": 12345}})[0]


@item
def not_json(wire):
    return wire.say("{")[0]


@item
def empty_body(wire):
    return wire.say("")[0]


@item
def json_rpc_1(wire):
    return wire.say({"jsonrpc": "1.0", "id": 5, "method": "ping"})[0]


@item
def batch_in_the_newest(wire):
    return wire.say([{"jsonrpc": "2.0", "id": 6, "method": "ping"}])[0]


@item
def batch_in_2025_03_26(wire):
    status, kind, *answers = wire.say(
        [{"jsonrpc": "2.0", "id": 7, "method": "ping"},
         {"jsonrpc": "2.0", "id": 8, "method": "ping"}],
        headers={"MCP-Protocol-Version": "2025-03-26"})
    flat = [one for answer in answers
            for one in (answer if isinstance(answer, list) else [answer])]
    return [status, sorted(one["id"] for one in flat)]


@item
def accept_json_only(wire):
    return wire.ask("ping", headers={"Accept": "application/json"})[0]


@item
def accept_events_only(wire):
    return wire.ask("ping", headers={"Accept": "text/event-stream"})[0]


@item
def accept_neither(wire):
    return wire.ask("ping", headers={"Accept": "image/png"})[0]


@item
def accept_anything(wire):
    return wire.ask("ping", headers={"Accept": "*/*"})[:2]


@item
def get_without_a_session(wire):
    return wire.send("GET", headers={"Accept": "text/event-stream"},
                     use_session=False)[0]


@item
def get_that_accepts_no_events(wire):
    return wire.send("GET", headers={"Accept": "application/json"})[0]


@item
def get_opens_a_stream(wire):
    conn = http.client.HTTPConnection("127.0.0.1", wire.port, timeout=90)
    try:
        conn.request("GET", "/mcp", headers={
            "Accept": "text/event-stream", "Mcp-Session-Id": wire.session,
            "MCP-Protocol-Version": wire.version})
        answer = conn.getresponse()
        return [answer.status, answer.headers.get("Content-Type")]
    finally:
        conn.close()


@item
def put(wire):
    status, headers, _ = wire.send("PUT", "{}")
    return [status, headers.get("Allow")]


@item
def delete_without_a_session(wire):
    return wire.send("DELETE", use_session=False)[0]


@item
def foreign_host(wire):
    return wire.ask("ping", headers={"Host": "example.org"})[0]


@item
def foreign_origin(wire):
    return wire.ask("ping", headers={"Origin": "https://example.org"})[0]


# ------------------------------------------------------------------ the tools

@item
def tools_before_initialized(wire):
    _, headers, _ = wire.send("POST", {
        "jsonrpc": "2.0", "id": 0, "method": "initialize",
        "params": hello(NEWEST)}, use_session=False)
    answer = wire.ask("tools/list", headers={
        "Mcp-Session-Id": headers["Mcp-Session-Id"]})[2]
    return len(answer["result"]["tools"])


@item
def tools_list(wire):
    tools = {}
    for tool in wire.ask("tools/list")[2]["result"]["tools"]:
        schema = tool["inputSchema"]
        tools[tool["name"]] = {
            "description": tool["description"],
            "arguments": {name: value["type"] for name, value
                          in sorted(schema["properties"].items())},
            "required": schema.get("required"),
            "additionalProperties": schema.get("additionalProperties"),
            "also": sorted(set(tool) - {"name", "description", "inputSchema"})}
    return tools


@item
def tools_are_listed_in_order(wire):
    return [tool["name"] for tool in
            wire.ask("tools/list")[2]["result"]["tools"]]


@item
def call_without_a_name(wire):
    return wire.ask("tools/call", {})[2]["error"]["code"]


@item
def call_of_no_tool(wire):
    return wire.call("rm", {})


@item
def arguments_of_the_wrong_kind(wire):
    return refused(wire.call("exec", 7), "arguments")


@item
def argument_missing(wire):
    return refused(wire.call("exec", {}), "command")


@item
def arguments_missing(wire):
    return refused(wire.call("exec"), "command")


@item
def argument_of_the_wrong_type(wire):
    return refused(wire.call("exec", {"command": 7}), "command")


@item
def argument_null(wire):
    return refused(wire.call("exec", {"command": "echo x", "working_dir": None}),
                   "working_dir")


@item
def argument_too_many(wire):
    return refused(wire.call("exec", {"command": "echo x", "shell": "bash"}),
                   "shell")


@item
def timeout_a_fraction(wire):
    return refused(wire.call("exec", {"command": "echo x", "timeout_ms": 1500.5}),
                   "timeout_ms")


@item
def timeout_a_text(wire):
    return refused(wire.call("exec", {"command": "echo x", "timeout_ms": "1500"}),
                   "timeout_ms")


@item
def timeout_a_whole_float(wire):
    return wire.call("exec", {"command": "echo x", "timeout_ms": 60000.0})


@item
def timeout_negative(wire):
    return wire.call("exec", {"command": "echo x", "timeout_ms": -5})


@item
def exec_both_streams(wire):
    return wire.call("exec", {"command": "echo a; echo b >&2; exit 3"})


@item
def exec_html(wire):
    return as_json(wire.call("exec", {"command": "echo '<a&b>'"}))


@item
def exec_empty(wire):
    return wire.call("exec", {"command": ""})


@item
def exec_elsewhere(wire):
    return wire.call("exec", {"command": "pwd", "working_dir": "/etc"})


@item
def exec_nowhere(wire):
    return wire.call("exec", {"command": "pwd", "working_dir": "/no/such"})


@item
def exec_killed(wire):
    return wire.call("exec", {"command": "kill -9 $$"})


@item
def exec_out_of_time(wire):
    return wire.call("exec", {"command": "echo part; exec sleep 1000",
                              "timeout_ms": 2000})


@item
def exec_out_of_time_leaves_its_children(wire):
    wire.call("exec", {
        "command": "(sleep 3; echo late > %s) >/dev/null 2>&1 & wait"
                   % wire.path("late"), "timeout_ms": 2000})
    return wire.call("exec", {
        "command": "for i in $(seq 600); do [ -s %s ] && break; sleep 0.1; done;"
                   " cat %s" % (wire.path("late"), wire.path("late"))})


@item
def exec_cancelled_goes_on(wire):
    conn = http.client.HTTPConnection("127.0.0.1", wire.port, timeout=90)
    told = {"Accept": BOTH, "Content-Type": "application/json",
            "Mcp-Session-Id": wire.session, "MCP-Protocol-Version": wire.version}
    gate, mark = wire.path("cancel-gate"), wire.path("cancel-mark")
    begun = wire.path("cancel-begun")
    try:
        conn.request("POST", "/mcp", json.dumps({
            "jsonrpc": "2.0", "id": "long", "method": "tools/call",
            "params": {"name": "exec", "arguments": {
                "command": "touch %s; for i in $(seq 600); do [ -e %s ] && break;"
                           " sleep 0.1; done; touch %s" % (begun, gate, mark)}}}),
                     told)
        until(lambda: os.path.exists(begun))
        wire.say({"jsonrpc": "2.0", "method": "notifications/cancelled",
                  "params": {"requestId": "long", "reason": "enough"}})
        with open(gate, "wb"):
            pass
        answer = conn.getresponse()
        heard = messages(answer.headers["Content-Type"], answer.read())
        until(lambda: os.path.exists(mark))
        return [answer.status, len(heard), "went on"]
    finally:
        conn.close()


@item
def exec_background_output(wire):
    return wire.call("exec", {"command": "echo soon; (sleep 1; echo late) &"})


@item
def exec_background_server(wire):
    return wire.call("exec", {
        "command": "sleep 1000 >/dev/null 2>&1 & echo started; kill $!"})


@item
def exec_reads_nothing(wire):
    return wire.call("exec", {"command": "cat; echo end"})


@item
def exec_binary(wire):
    return as_json(wire.call("exec", {"command": r"printf 'a\377b\303\251'"}))


@item
def exec_much_output(wire):
    told = wire.call("exec", {"command": "head -c 9000000 /dev/zero | tr '\\0' y"})
    result = json.loads(told[1])
    return [len(result["stdout"]), bool(result["stderr"])]


@item
def write_makes_folders(wire):
    return wire.call("write_file", {"path": wire.path("a/b/c"),
                                    "content": "caf\u00e9 <&>\n"})


@item
def write_modes(wire):
    return [oct(os.stat(wire.path(part)).st_mode & 0o777)
            for part in ("a", "a/b", "a/b/c")]


@item
def write_without_content(wire):
    return refused(wire.call("write_file", {"path": wire.path("x")}), "content")


@item
def write_without_path(wire):
    return wire.call("write_file", {"path": "", "content": ""})


@item
def write_onto_a_folder(wire):
    return wire.call("write_file", {"path": wire.path("a"), "content": ""})


@item
def write_below_a_file(wire):
    return wire.call("write_file", {"path": wire.path("a/b/c/d/e"),
                                    "content": ""})


@item
def read_it(wire):
    return wire.call("read_file", {"path": wire.path("a/b/c")})


@item
def read_nothing(wire):
    return wire.call("read_file", {"path": ""})


@item
def read_no_file(wire):
    return wire.call("read_file", {"path": "/no/such"})


@item
def read_a_folder(wire):
    return wire.call("read_file", {"path": wire.path("a")})


@item
def read_binary(wire):
    with open(wire.path("binary"), "wb") as file:
        file.write(b"a\xff\xc3\xa9\0z")
    return wire.call("read_file", {"path": wire.path("binary")})


@item
def list_a_folder(wire):
    with open(wire.path("a/file"), "w", encoding="ascii") as file:
        file.write("12345")
    os.symlink("b", wire.path("a/link"))
    told = as_json(wire.call("list_dir", {"path": wire.path("a")}))
    for one in told[1]["entries"]:
        if one["type"] == "dir":
            one["size"] = 0  # The file system's own.
    return told


@item
def list_keys_in_order(wire):
    told = wire.call("list_dir", {"path": wire.path("a")})
    return list(json.loads(told[1])["entries"][0])


@item
def list_an_empty_folder(wire):
    os.mkdir(wire.path("empty"))
    return wire.call("list_dir", {"path": wire.path("empty")})


@item
def list_here(wire):
    return [wire.call("list_dir", {})[0], wire.call("list_dir")[0]]


@item
def list_no_folder(wire):
    return wire.call("list_dir", {"path": "/no/such"})


@item
def list_a_file(wire):
    return wire.call("list_dir", {"path": wire.path("a/file")})


@item
def skill(wire):
    return wire.call("get_skill", {"name": "pdf"})


@item
def skill_of_no_name(wire):
    return wire.call("get_skill", {"name": "none"})


@item
def skill_outside(wire):
    return [wire.call("get_skill", {"name": name})
            for name in ("../pdf", "a/b", "a\\b", "..")]


@item
def delete_ends_the_session(wire):
    return [wire.send("DELETE")[0], wire.ask("ping")[0],
            wire.send("DELETE")[0]]


# -------------------------------------------------------------------- the end

SKILLS = {"bare": "no front matter\n", "empty": None,
          "pdf": "---\nname: \"pdf-tools\"\ndescription: 'Read: PDF'\n---\n# Body\n",
          "quoted": "---\nname: it's\nother: 1\ndescription: \"a 'b'\"\n---\n",
          "twice": "intro\n---\nname: second\n---\nname: third\n"}


def skills_make(folder):
    """The skills that a server of the transcript is started with."""
    for name, text in SKILLS.items():
        os.makedirs(os.path.join(folder, name))
        if text is not None:
            with open(os.path.join(folder, name, "SKILL.md"), "w",
                      encoding="utf-8") as file:
                file.write(text)


def speak(port, folder, skills):
    """{item: outcome}; folder is an empty one that the server can reach, too."""
    wire = Wire(port, folder)
    heard = {}
    for name, step in ITEMS:
        text = json.dumps(step(wire))
        text = text.replace(folder, "FOLDER").replace(skills, "SKILLS")
        heard[name] = json.loads(re.sub(r'"id": \d+, ', '"id": 0, ', text))
    return heard


def expected(server):
    """{item: outcome} of "kagent", or of "warmpool"."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                        "mcp_transcript.json")
    with open(path, encoding="utf-8") as file:
        rows = json.load(file)
    return {name: row.get(server, row["kagent"]) for name, row in rows.items()}
