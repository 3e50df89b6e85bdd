"""MCP of the in-sandbox server, against the real program."""
import json
import os
import signal

from runtime_rig import (Server, ServerCase, main, process_gone, read_text,
                         wait_until)

TOOLS = {
    "exec": ("Execute a shell command in the sandbox",
             {"command": "string", "timeout_ms": "integer",
              "working_dir": "string"}, ["command"]),
    "read_file": ("Read the content of a file", {"path": "string"}, ["path"]),
    "write_file": ("Write content to a file (creates parent directories if "
                   "needed)", {"path": "string", "content": "string"},
                   ["path", "content"]),
    "list_dir": ("List entries in a directory", {"path": "string"}, None),
    "get_skill": ("Load the full content of a skill by name.",
                  {"name": "string"}, ["name"]),
}


def call(method, params=None, number=1):
    message = {"jsonrpc": "2.0", "id": number, "method": method}
    if params is not None:
        message["params"] = params
    return message


class Protocol(ServerCase):
    def test_golden_transcript(self):
        """What a client of revision 2025-06-18 says, from first to last."""
        status, headers, answer = self.server.rpc(call("initialize", {
            "protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": {"name": "test", "version": "0"}}, 0))
        self.assertEqual((status, answer), (200, {
            "jsonrpc": "2.0", "id": 0, "result": {
                "protocolVersion": "2025-06-18",
                "capabilities": {"logging": {}, "tools": {"listChanged": True}},
                "serverInfo": {"name": "kagent-sandbox-mcp",
                               "version": "0.1.0"}}}))
        self.assertEqual(headers["Content-Type"], "text/event-stream")
        session = {"Mcp-Session-Id": headers["Mcp-Session-Id"],
                   "MCP-Protocol-Version": "2025-06-18"}
        self.assertRegex(headers["Mcp-Session-Id"], "^[!-~]{16,}$")
        status, _, answer = self.server.rpc(
            {"jsonrpc": "2.0", "method": "notifications/initialized"}, session)
        self.assertEqual((status, answer), (202, None))
        status, _, answer = self.server.rpc(call("tools/list"), session)
        self.assertEqual(status, 200)
        tools = answer["result"]["tools"]
        self.assertEqual([tool["name"] for tool in tools], sorted(TOOLS))
        for tool in tools:
            description, arguments, required = TOOLS[tool["name"]]
            self.assertEqual(tool["description"], description)
            schema = tool["inputSchema"]
            self.assertEqual(schema["type"], "object")
            self.assertEqual({name: value["type"] for name, value in
                              schema["properties"].items()}, arguments)
            self.assertEqual(schema.get("required"), required)
            self.assertNotIn("outputSchema", tool)
        status, _, answer = self.server.rpc(
            call("tools/call", {"name": "exec",
                                "arguments": {"command": "echo hi"}}, "a"),
            session)
        self.assertEqual((status, answer), (200, {
            "jsonrpc": "2.0", "id": "a", "result": {"content": [{
                "type": "text",
                "text": '{"stdout":"hi\\n","stderr":"","exit_code":0}'}]}}))
        status, _, _ = self.server.request("DELETE", "/mcp", headers=session)
        self.assertEqual(status, 204)
        self.assertEqual(self.server.rpc(call("ping"), session)[0], 404)
        self.assertEqual(
            self.server.request("DELETE", "/mcp", headers=session)[0], 404)

    def test_versions(self):
        for asked, given in (("2025-11-25", "2025-11-25"),
                             ("2025-06-18", "2025-06-18"),
                             ("2025-03-26", "2025-03-26"),
                             ("2024-11-05", "2024-11-05"),
                             ("2099-01-01", "2025-11-25"),
                             (None, "2025-11-25"), (7, "2025-11-25")):
            params = {} if asked is None else {"protocolVersion": asked}
            _, _, answer = self.server.rpc(call("initialize", params))
            self.assertEqual(answer["result"]["protocolVersion"], given)
        status, _, answer = self.server.rpc(
            call("ping"), {"MCP-Protocol-Version": "1999-01-01"})
        self.assertEqual(status, 400)
        self.assertIn("error", answer)

    def test_every_path_serves(self):
        for path in ("/mcp", "/mcp/", "/any/where", "/sse?x=1"):
            _, _, answer = self.server.rpc(call("ping"), path=path)
            self.assertEqual(answer["result"], {}, path)

    def test_without_a_session_and_with_a_wrong_one(self):
        self.assertEqual(self.server.rpc(call("ping"))[0], 200)
        self.assertEqual(self.server.rpc(
            call("ping"), {"Mcp-Session-Id": "made-up"})[0], 404)

    def test_event_stream_when_only_that_is_accepted(self):
        status, headers, body = self.server.request(
            "POST", "/mcp", json.dumps(call("ping")),
            {"Accept": "text/event-stream",
             "Content-Type": "application/json"})
        self.assertEqual((status, headers["Content-Type"], body), (
            200, "text/event-stream",
            b'event: message\ndata: {"jsonrpc":"2.0","id":1,"result":{}}\n\n'))
        self.assertEqual(self.server.rpc(call("ping"),
                                         {"Accept": "image/png"})[0], 400)
        for accept in ("application/json", "*/*"):
            self.assertEqual(self.server.rpc(
                call("ping"), {"Accept": accept})[1]["Content-Type"],
                "application/json")
        self.assertEqual(self.server.rpc(
            call("ping"), {"Content-Type": "text/plain"})[0], 415)

    def test_methods(self):
        for method in ("PUT", "OPTIONS"):
            status, headers, _ = self.server.request(method, "/mcp")
            self.assertEqual((status, headers["Allow"]),
                             (405, "GET, POST, DELETE"))
        self.assertEqual(self.server.request("GET", "/mcp")[0], 400)
        self.assertEqual(self.server.request("DELETE", "/mcp")[0], 400)

    def test_errors(self):
        for message, status, code in (
                ("{", 400, -32700), ("", 400, -32700), (b"\xff", 400, -32700),
                ("7", 400, -32600), ('"x"', 400, -32600),
                ({"id": 1, "method": "ping"}, 400, -32600),
                ({"jsonrpc": "1.0", "id": 1, "method": "ping"}, 400, -32600),
                ({"jsonrpc": "2.0", "id": {}, "method": "ping"}, 400, -32600),
                ({"jsonrpc": "2.0", "id": None, "method": "ping"}, 400, -32600),
                ({"jsonrpc": "2.0", "id": 1}, 400, -32600),
                ({"jsonrpc": "2.0", "id": 1, "method": 7}, 400, -32600),
                (call("no/such"), 200, -32601),
                (call("ping", [1]), 200, -32602),
                (call("tools/call"), 200, -32602),
                (call("tools/call", {"name": 7}), 200, -32602),
                (call("tools/call", {"name": "rm"}), 200, -32602),
                (call("tools/call", {"name": "exec", "arguments": 7}), 200,
                 -32602),
                (call("tools/call", {"name": "exec", "arguments":
                                     {"command": 7}}), 200, -32602),
                (call("tools/call", {"name": "exec", "arguments":
                                     {"command": "a\0b"}}), 200, -32602),
                (call("tools/call", {"name": "exec", "arguments":
                                     {"command": "a", "timeout_ms": "x"}}),
                 200, -32602),
                (call("tools/call", {"name": "exec", "arguments":
                                     {"command": "a", "timeout_ms": 1.5}}),
                 200, -32602),
                (call("tools/call", {"name": "exec", "arguments":
                                     {"command": "a", "timeout_ms": None}}),
                 200, -32602),
                (call("tools/call", {"name": "exec", "arguments":
                                     {"command": "a", "no_such": 1}}),
                 200, -32602),
                (call("tools/call", {"name": "exec", "arguments": {}}), 200,
                 -32602),
                (call("tools/call", {"name": "write_file", "arguments":
                                     {"path": "x"}}), 200, -32602)):
            got, _, answer = self.server.rpc(message)
            self.assertEqual((got, answer["error"]["code"]), (status, code),
                             message)
            self.assertEqual(answer["jsonrpc"], "2.0")
            self.assertTrue(answer["error"]["message"])
            if isinstance(message, dict) and isinstance(message.get("id"), int) \
                    and "jsonrpc" in message and message["jsonrpc"] == "2.0":
                self.assertEqual(answer["id"], message["id"])

    def test_batches(self):
        batch = [call("ping", number=1),
                 {"jsonrpc": "2.0", "method": "notifications/x"},
                 call("tools/call", {"name": "exec", "arguments": {
                     "command": "sleep 0.1; echo slow"}}, 2),
                 call("no/such", number=3), 7, call("initialize", number=4)]
        status, _, answer = self.server.rpc(batch)
        self.assertEqual(status, 200)
        by_id = {one["id"]: one for one in answer}
        self.assertEqual(by_id[1]["result"], {})
        self.assertIn("slow", by_id[2]["result"]["content"][0]["text"])
        self.assertEqual(by_id[3]["error"]["code"], -32601)
        self.assertEqual(by_id[4]["error"]["code"], -32600)
        self.assertEqual(by_id[None]["error"]["code"], -32600)
        self.assertEqual(len(answer), 5)
        only_notes = [{"jsonrpc": "2.0", "method": "notifications/x"}]
        self.assertEqual(self.server.rpc(only_notes)[0], 202)
        for refused in ([], [call("ping")] * 65):
            self.assertEqual(self.server.rpc(refused)[0], 400)
        self.assertEqual(self.server.rpc(
            [call("ping")], {"MCP-Protocol-Version": "2025-06-18"})[0], 400)

    def test_answers_from_the_client_are_taken(self):
        self.assertEqual(self.server.rpc(
            {"jsonrpc": "2.0", "id": 9, "result": {}})[0], 202)

    def test_old_sessions_make_room(self):
        first = self.server.rpc(call("initialize"))[1]["Mcp-Session-Id"]
        for _ in range(1024):
            last = self.server.rpc(call("initialize"))[1]["Mcp-Session-Id"]
        self.assertEqual(self.server.rpc(
            call("ping"), {"Mcp-Session-Id": first})[0], 404)
        self.assertEqual(self.server.rpc(
            call("ping"), {"Mcp-Session-Id": last})[0], 200)


class Tools(ServerCase):
    def fails(self, name, arguments, text):
        is_error, got = self.server.tool(name, arguments)
        self.assertTrue(is_error, got)
        self.assertEqual(got, text)

    def test_exec(self):
        self.assertEqual(self.server.exec_tool("echo a; echo b >&2; exit 3"), {
            "stdout": "a\n", "stderr": "b\n", "exit_code": 3})
        got = self.server.exec_tool("pwd; echo $0", working_dir="/etc")
        self.assertEqual(got["stdout"], "/etc\nsh\n")
        got = self.server.exec_tool("kill -9 $$")
        self.assertEqual(got["exit_code"], -1)
        self.fails("exec", {"command": ""}, "command must not be empty")
        self.fails("exec", {"command": "true", "working_dir": "/no/such"},
                   "failed to run command: chdir /no/such: no such file or "
                   "directory")

    def test_exec_time_limit(self):
        """The shell is killed; what it has started goes on."""
        pids = self.server.path("time-limit-pids")
        got = self.server.exec_tool(
            "trap '' TERM; echo part; sleep 1000 & echo $$ $! > %s; wait" % pids,
            timeout_ms=2000)
        self.assertEqual(got, {"stdout": "part\n", "stderr": "",
                               "exit_code": -1})
        shell, child = map(int, read_text(pids).split())
        self.assertTrue(process_gone(shell))
        self.assertFalse(process_gone(child))
        os.kill(child, signal.SIGKILL)
        for none in (0, -5, 5000000.0):
            got = self.server.exec_tool("echo x", timeout_ms=none)
            self.assertEqual(got["exit_code"], 0)

    def test_exec_output_is_kept_up_to_its_bound(self):
        got = self.server.exec_tool("head -c 9000000 /dev/zero | tr '\\0' y")
        self.assertEqual(len(got["stdout"]), 8 << 20)
        self.assertIn("611392 more bytes of stdout were dropped",
                      got["stderr"])

    def test_command_goes_on_when_the_client_leaves(self):
        flag = self.server.path("flag")
        gate = self.server.path("flag-gate")
        with self.assertRaises(TimeoutError):
            self.server.tool("exec", {
                "command": "while [ ! -e %s ]; do sleep 0.05; done; "
                           "echo done > %s" % (gate, flag)}, timeout=0.3)
        with open(gate, "wb"):
            pass
        wait_until(lambda: read_text(flag) == "done\n", "the command's end")

    def test_files(self):
        path = self.server.path("a/b/c.txt")
        text = "caf\u00e9 \U0001f600 \0 <&>\n"
        self.assertEqual(self.server.tool("write_file", {
            "path": path, "content": text}), (False, '{"ok":true}'))
        self.assertEqual(os.stat(path).st_mode & 0o777, 0o644)
        self.assertEqual(os.stat(os.path.dirname(path)).st_mode & 0o777, 0o755)
        self.assertEqual(self.server.tool("read_file", {"path": path}),
                         (False, text))
        self.server.tool("write_file", {"path": path, "content": ""})
        self.assertEqual(self.server.tool("read_file", {"path": path}),
                         (False, ""))
        # Relative to where the server runs, not to the workspace.
        self.server.tool("write_file", {"path": "beside", "content": "1"})
        self.assertTrue(os.path.exists(os.path.join(self.server.dir, "beside")))
        self.assertEqual(self.server.tool("read_file", {
            "path": "/proc/self/comm"}), (False, "warmpool-runtim\n"))

    def test_binary_is_read_as_text(self):
        path = self.server.path("binary")
        with open(path, "wb") as file:
            file.write(b"a\xff\xc3\xa9\xed\xa0\x80")
        self.assertEqual(self.server.tool("read_file", {"path": path}),
                         (False, "a\ufffd\u00e9\ufffd\ufffd\ufffd"))

    def test_file_errors(self):
        folder = self.server.workspace
        blocker = self.server.path("blocker")
        with open(blocker, "w"):
            pass
        self.fails("read_file", {"path": ""}, "path must not be empty")
        self.fails("write_file", {"path": "", "content": ""},
                   "path must not be empty")
        self.fails("read_file", {"path": "/no/such"},
                   "failed to read file /no/such: open /no/such: no such file "
                   "or directory")
        self.fails("read_file", {"path": folder},
                   "failed to read file %s: read %s: is a directory"
                   % (folder, folder))
        self.fails("write_file", {"path": folder, "content": ""},
                   "failed to write file %s: open %s: is a directory"
                   % (folder, folder))
        self.fails("write_file", {"path": blocker + "/x/y", "content": ""},
                   "failed to create directory %s/x: mkdir %s: not a directory"
                   % (blocker, blocker))
        self.fails("list_dir", {"path": "/no/such"},
                   "failed to list directory /no/such: open /no/such: no such "
                   "file or directory")
        fifo = self.server.path("fifo")
        os.mkfifo(fifo)
        self.assertEqual(self.server.tool("read_file", {"path": fifo}),
                         (False, ""))

    def test_list_dir(self):
        folder = self.server.path("listed")
        os.makedirs(os.path.join(folder, "b"))
        with open(os.path.join(folder, "a.txt"), "w") as file:
            file.write("12345")
        os.symlink("b", os.path.join(folder, "link"))
        is_error, text = self.server.tool("list_dir", {"path": folder})
        self.assertFalse(is_error)
        entries = json.loads(text)["entries"]
        self.assertEqual([(e["name"], e["type"]) for e in entries], [
            ("a.txt", "file"), ("b", "dir"), ("link", "file")])
        self.assertEqual(entries[0]["size"], 5)
        self.assertEqual(list(entries[0]), ["name", "type", "size"])
        _, text = self.server.tool("list_dir", {})
        self.assertIn("ports", [e["name"] for e in json.loads(text)["entries"]])

    def test_a_long_answer_is_plain(self):
        """Clients bound an event, but not JSON."""
        path = self.server.path("long")
        for size, kind in ((400000, "text/event-stream"),
                           (2000000, "application/json")):
            with open(path, "w", encoding="ascii") as file:
                file.write("y" * size)
            _, headers, answer = self.server.rpc(call("tools/call", {
                "name": "read_file", "arguments": {"path": path}}))
            self.assertEqual(headers["Content-Type"], kind)
            self.assertEqual(len(answer["result"]["content"][0]["text"]), size)

    def test_a_large_file_is_refused(self):
        path = self.server.path("large")
        with open(path, "wb") as file:
            file.truncate(100 << 20)
        is_error, text = self.server.tool("read_file", {"path": path})
        self.assertTrue(is_error)
        self.assertIn("larger than 67108864 bytes", text)
        is_error, text = self.server.tool("read_file", {"path": "/dev/zero"})
        self.assertTrue(is_error)


class Skills(ServerCase):
    @classmethod
    def setUpClass(cls):
        # The folder must be there before the start: it is read once.
        import tempfile
        cls.folder = tempfile.TemporaryDirectory()
        for name, text in (
                ("pdf", '---\nname: "pdf-tools"\ndescription: \'Read: PDF\'\n'
                        '---\n# Body\n'),
                ("bare", "no front matter\n"), ("empty", None)):
            os.makedirs(os.path.join(cls.folder.name, name))
            if text is not None:
                with open(os.path.join(cls.folder.name, name, "SKILL.md"),
                          "w") as file:
                    file.write(text)
        cls.server = Server("--skills-dir", cls.folder.name)

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        cls.folder.cleanup()

    def test_description_lists_them(self):
        _, _, answer = self.server.rpc(call("tools/list"))
        self.assertEqual(
            answer["result"]["tools"][1]["description"],
            "Load the full content of a skill by name.\n\nAvailable skills:\n"
            "- bare: \n- pdf-tools: Read: PDF")

    def test_load(self):
        is_error, text = self.server.tool("get_skill", {"name": "pdf"})
        self.assertFalse(is_error)
        self.assertTrue(text.endswith("# Body\n"))
        for name in ("../pdf", "a/b", "a\\b", ".."):
            self.assertEqual(self.server.tool("get_skill", {"name": name}),
                             (True, "invalid skill name: " + name))
        is_error, text = self.server.tool("get_skill", {"name": "none"})
        self.assertTrue(is_error)
        self.assertTrue(text.startswith("failed to read skill none: open "))


class Capped(ServerCase):
    ARGS = ("--exec-timeout-max-ms", "1500")

    def test_no_command_outlives_the_cap(self):
        for asked in ({}, {"timeout_ms": 0}, {"timeout_ms": 100000}):
            got = self.server.exec_tool("echo $$; exec sleep 1000", **asked)
            self.assertEqual(got["exit_code"], -1)
            self.assertTrue(process_gone(int(got["stdout"])))


if __name__ == "__main__":
    main()
