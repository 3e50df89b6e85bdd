"""Long MCP calls: streams of events, progress, what a lost connection may miss."""
import http.client
import json
import os
import time

from runtime_rig import (DEADLINE_S, ServerCase, events, main, process_gone,
                         read_text, wait_until)

NEWEST = "2025-11-25"


def call(command, number=1, token=None, **arguments):
    params = {"name": "exec", "arguments": dict(arguments, command=command)}
    if token is not None:
        params["_meta"] = {"progressToken": token}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call",
            "params": params}


class Stream:
    """An answer that is read event by event."""
    opened = []

    def __init__(self, port, method, message=None, headers=None):
        self.conn = http.client.HTTPConnection("127.0.0.1", port,
                                               timeout=DEADLINE_S)
        send = {"Accept": "application/json, text/event-stream",
                "Content-Type": "application/json",
                "MCP-Protocol-Version": NEWEST}
        send.update(headers or {})
        self.conn.request(method, "/mcp", message and json.dumps(message), send)
        self.answer = None
        Stream.opened.append(self)

    def open(self):
        self.answer = self.answer or self.conn.getresponse()
        return self.answer

    def block(self):
        """All that is sent of the next event or comment."""
        self.open()
        block = b""
        while not block.endswith(b"\n\n"):
            line = self.answer.readline()
            assert line, "the stream has ended"
            block += line
        return block

    def next(self):
        """(id, data) of the next event; (None, None) of a comment."""
        return (events(self.block()) or [(None, None)])[0]

    def next_data(self):
        """The next event that is more than an id or a comment."""
        while True:
            number, data = self.next()
            if data is not None:
                return number, data

    def rest(self):
        self.open()
        body = self.answer.read()
        self.close()
        return events(body)

    def close(self):
        if self.answer is not None:
            self.answer.close()
        self.conn.close()


class StreamCase(ServerCase):
    ARGS = ("--progress-ms", "100")

    def setUp(self):
        _, headers, _ = self.server.rpc({
            "jsonrpc": "2.0", "id": 0, "method": "initialize",
            "params": {"protocolVersion": NEWEST}})
        self.session = {"Mcp-Session-Id": headers["Mcp-Session-Id"]}

    def tearDown(self):
        while Stream.opened:
            Stream.opened.pop().close()

    def stream(self, method, message=None, **headers):
        return Stream(self.server.port, method, message,
                      dict(self.session, **headers))

    def gate(self, name):
        """(a command that waits for the gate, a function that opens it)."""
        path = self.server.path(name)
        os.mkfifo(path)

        def open_it():
            with open(path, "w"):
                pass
        return "cat %s; echo through" % path, open_it

    def said(self, data):
        return json.loads(data["result"]["content"][0]["text"])


class LargeAnswers(StreamCase):
    ARGS = ("--progress-ms", "100", "--output-max", str(32 << 20))

    def test_one_alone_waits_however_long_it_is(self):
        """Longer than what all together may have."""
        size = 17 << 20
        mark = self.server.path("large-mark")
        command, open_it = self.gate("large")
        lost = self.stream("POST", call(
            f"{command}; head -c {size} /dev/zero | tr '\\0' y; touch {mark}"))
        number, _ = lost.next()
        lost.close()
        open_it()
        wait_until(lambda: os.path.exists(mark), "the command's end")
        (_, data), = self.stream("GET", **{"Last-Event-ID": number}).rest()
        self.assertEqual(len(self.said(data)["stdout"]), size + 8)


class Streams(StreamCase):

    def test_progress_for_who_asks(self):
        command, open_it = self.gate("progress")
        begin = time.monotonic()
        stream = self.stream("POST", call(command, token="t7"))
        number, data = stream.next()
        self.assertRegex(number, "^[0-9a-f]{32}-0$")
        self.assertIsNone(data)
        seen = [stream.next()[1] for _ in range(3)]
        for one in seen:
            self.assertEqual(one["method"], "notifications/progress")
            self.assertEqual(one["params"]["progressToken"], "t7")
            self.assertRegex(one["params"]["message"], "^running for [0-9]+ s$")
        told = [one["params"]["progress"] for one in seen]
        self.assertEqual(told, sorted(set(told)))
        # Seconds, told each tenth of one.
        self.assertGreater(told[-1], 0.1)
        self.assertLess(told[-1], time.monotonic() - begin + 0.05)
        open_it()
        *progress, (last, data) = stream.rest()
        self.assertEqual(self.said(data)["stdout"], "through\n")
        self.assertEqual(int(last.split("-")[1]), 4 + len(progress))

    def test_a_comment_for_who_does_not(self):
        command, open_it = self.gate("comment")
        stream = self.stream("POST", call(command))
        stream.next()
        for _ in range(2):
            self.assertEqual(stream.block(), b": it goes on\n\n")
        open_it()
        self.assertEqual([self.said(data)["exit_code"] for _, data in
                          stream.rest()], [0])

    def test_older_revisions_get_no_empty_event(self):
        command, open_it = self.gate("older")
        stream = self.stream("POST", call(command),
                             **{"MCP-Protocol-Version": "2025-06-18"})
        self.assertEqual(stream.next(), (None, None))
        open_it()
        (number, data), = stream.rest()
        self.assertEqual(self.said(data)["exit_code"], 0)
        self.assertTrue(number)

    def test_a_lost_call_is_taken_up_again(self):
        command, open_it = self.gate("lost")
        mark = self.server.path("lost-mark")
        lost = self.stream("POST", call(command + "; touch " + mark, "call-9"))
        number, _ = lost.next()
        lost.close()
        again = self.stream("GET", **{"Last-Event-ID": number})
        self.assertEqual(again.open().status, 200)
        # One that still seems to be there makes room for the newer one.
        newer = self.stream("GET", **{"Last-Event-ID": number})
        self.assertEqual(newer.open().status, 200)
        with self.assertRaises((http.client.IncompleteRead, AssertionError,
                                ConnectionError)):
            while True:
                again.next()
        open_it()
        last, data = newer.next_data()
        self.assertEqual((data["id"], self.said(data)["stdout"]),
                         ("call-9", "through\n"))
        newer.close()
        # It may have been lost on its way, so it is there once more.
        once_more = self.stream("GET", **{"Last-Event-ID": number})
        self.assertEqual([data["id"] for _, data in once_more.rest()],
                         ["call-9"])
        # Nothing follows the last event, nor one that was never sent.
        name, _, number = last.partition("-")
        for none in (int(number), int(number) + 1, 2 ** 64 - 1):
            self.assertEqual(self.stream(
                "GET", **{"Last-Event-ID": "%s-%d" % (name, none)})
                .open().status, 400)
        self.assertEqual([data["id"] for _, data in self.stream(
            "GET", **{"Last-Event-ID": "%s-%d" % (name, int(number) - 1)})
            .rest()], ["call-9"])
        self.assertTrue(os.path.exists(mark))

    def test_an_answer_waits_for_its_client(self):
        mark = self.server.path("waits-mark")
        command, open_it = self.gate("waits")
        lost = self.stream("POST", call(
            command + "; head -c 300000 /dev/zero | tr '\\0' y; touch " + mark))
        number, _ = lost.next()
        lost.close()
        open_it()
        wait_until(lambda: os.path.exists(mark), "the command's end")
        (_, data), = [one for one in
                      self.stream("GET", **{"Last-Event-ID": number}).rest()]
        self.assertEqual(len(self.said(data)["stdout"]), 300008)

    def test_nobody_elses_stream(self):
        command, open_it = self.gate("mine")
        mine = self.stream("POST", call(command))
        number, _ = mine.next()
        for session, last in (
                (None, number), (self.session, "x"), (self.session, "-1"),
                (self.session, "0" * 32 + "-0"), (self.session, number + "x"),
                (self.session, number[:-1]),
                (self.session, number.replace("-", "_"))):
            other = Stream(self.server.port, "GET", None,
                           dict(session or {}, **{"Last-Event-ID": last}))
            self.assertEqual(other.open().status, 400, last)
            self.assertIn("Last-Event-ID", other.answer.read().decode())
            other.close()
        open_it()
        self.assertEqual(len(mine.rest()), 1)

    def test_cancelled(self):
        command, open_it = self.gate("cancelled")
        mark = self.server.path("cancelled-mark")
        stream = self.stream("POST", call(command + "; touch " + mark, "c"))
        stream.next()
        note = {"jsonrpc": "2.0", "method": "notifications/cancelled",
                "params": {"requestId": "c"}}
        self.assertEqual(self.server.rpc(note)[0], 202)  # Not of this session.
        self.assertEqual(stream.next(), (None, None))
        self.assertEqual(self.server.rpc(note, self.session)[0], 202)
        self.assertEqual([data for _, data in stream.rest() if data], [])
        open_it()
        wait_until(lambda: os.path.exists(mark), "the command's end")

    def test_listening(self):
        first = self.stream("GET")
        self.assertEqual(first.open().headers["Content-Type"],
                         "text/event-stream")
        self.assertEqual(first.next(), (None, None))
        second = self.stream("GET")
        self.assertEqual(second.next(), (None, None))
        with self.assertRaises((http.client.IncompleteRead, AssertionError,
                                ConnectionError)):
            while True:
                first.next()
        self.assertEqual(self.server.request(
            "DELETE", "/mcp", headers=self.session)[0], 204)
        self.assertEqual(second.rest(), [])

    def test_a_session_ends_its_streams(self):
        command, open_it = self.gate("ends")
        mark = self.server.path("ends-mark")
        stream = self.stream("POST", call(command + "; touch " + mark))
        number, _ = stream.next()
        other, open_other = self.gate("ends-plain")
        plain = self.stream("POST", call(other), Accept="application/json")
        self.assertEqual(self.server.request(
            "DELETE", "/mcp", headers=self.session)[0], 204)
        self.assertEqual([data for _, data in stream.rest() if data], [])
        self.assertEqual(plain.open().status, 404)
        open_other()
        self.assertEqual(self.stream(
            "GET", **{"Last-Event-ID": number}).open().status, 404)
        open_it()
        wait_until(lambda: os.path.exists(mark), "the command's end")

    def test_one_connection_serves_on(self):
        """A stream's end is the answer's end, not the connection's."""
        stream = self.stream("POST", call("sleep 0.2; echo one"))
        body = stream.open().read()
        self.assertIn("one", self.said(events(body)[-1][1])["stdout"])
        stream.conn.request("POST", "/mcp", json.dumps(call("echo two")), {
            "Accept": "application/json"})
        answer = stream.conn.getresponse()
        self.assertIn("two", answer.read().decode())
        stream.close()

    def test_http_1_0(self):
        import socket
        body = json.dumps(call("sleep 0.2; echo old")).encode()
        with socket.create_connection(("127.0.0.1", self.server.port),
                                      DEADLINE_S) as sock:
            sock.sendall(b"POST /mcp HTTP/1.0\r\nAccept: text/event-stream\r\n"
                         b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
            got = b""
            while piece := sock.recv(65536):
                got += piece
        head, _, body = got.partition(b"\r\n\r\n")
        self.assertNotIn(b"chunked", head)
        self.assertIn("old", self.said(events(body)[-1][1])["stdout"])


class Stop(ServerCase):
    ARGS = ("--grace-ms", "600000")

    def test_listeners_do_not_hold_the_end_up(self):
        _, headers, _ = self.server.rpc({
            "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {}})
        listener = Stream(self.server.port, "GET", None, {
            "Mcp-Session-Id": headers["Mcp-Session-Id"]})
        self.assertEqual(listener.open().status, 200)
        self.server.process.terminate()
        self.assertEqual(self.server.process.wait(DEADLINE_S), 0)
        self.assertEqual(listener.rest(), [])
        Stream.opened.clear()


class Background(ServerCase):
    ARGS = ("--background-ms", "300")

    def test_what_holds_the_output_is_not_waited_for_without_end(self):
        pids = self.server.path("pids")
        got = self.server.exec_tool("sleep 1000 & echo $! > %s; echo on" % pids)
        self.assertEqual((got["stdout"], got["exit_code"]), ("on\n", 0))
        pid = int(read_text(pids))
        self.assertFalse(process_gone(pid))
        os.kill(pid, 9)


class BackgroundLimit(ServerCase):
    ARGS = ("--background-ms", "600000")

    def test_nor_beyond_the_limit_asked_for(self):
        pids = self.server.path("pids")
        got = self.server.exec_tool(
            "(sleep 60; echo late) & echo $! > %s; echo on" % pids,
            timeout_ms=3000)
        self.assertEqual((got["stdout"], got["exit_code"]), ("on\n", 0))
        os.killpg(os.getpgid(int(read_text(pids))), 9)


if __name__ == "__main__":
    main()
