"""What clients of sandboxd call in the in-sandbox server: files by REST."""
import hashlib
import http.client
import json
import os
import resource
import shutil
import signal
import tempfile
import unittest

from runtime_rig import Server, ServerCase, bound_by_modes, main, read_bytes


class RestCase(ServerCase):
    def ask(self, method, path, body=None, headers=None):
        status, got, data = self.server.request(method, path, body,
                                                headers=headers or {})
        return status, got, data

    def code(self, method, path, body=None, headers=None):
        """The status and the error's code, which comes with a sentence."""
        status, _, data = self.ask(method, path, body, headers)
        answer = json.loads(data)
        self.assertTrue(answer["message"])
        return status, answer["code"]

    def path(self, *parts):
        return os.path.join(self.server.workspace, *parts)

    def put(self, path, text):
        os.makedirs(os.path.dirname(self.path(path)), exist_ok=True)
        with open(self.path(path), "w") as file:
            file.write(text)


class Files(RestCase):
    def test_write_read_and_overwrite(self):
        for content in (b"first", b"", bytes(range(256)) * 5000):
            status, _, data = self.ask("PUT", "/v1/files/a%2Fb%2Fc.bin",
                                       content)
            self.assertEqual((status, data), (204, b""))
            self.assertEqual(read_bytes(self.path("a", "b", "c.bin")), content)
            status, headers, data = self.ask("GET", "/v1/files/a/b/c.bin")
            self.assertEqual((status, data), (200, content))
            self.assertEqual(headers["Content-Type"],
                             "application/octet-stream")
        self.assertEqual(os.listdir(self.path("a", "b")), ["c.bin"])

    def test_mode(self):
        self.assertEqual(self.ask("PUT", "/v1/files/run.sh?mode=0755",
                                  b"x")[0], 204)
        self.assertEqual(os.stat(self.path("run.sh")).st_mode & 0o777, 0o755)
        for mode in ("755", "0999", "00755", "", "rwx"):
            self.assertEqual(self.code("PUT", "/v1/files/m?mode=" + mode, b"x"),
                             (400, "INVALID_ARGUMENT"), mode)
        self.assertFalse(os.path.exists(self.path("m")))

    def test_streamed_body(self):
        conn = http.client.HTTPConnection("127.0.0.1", self.server.port,
                                          timeout=90)
        pieces = [os.urandom(70000) for _ in range(40)]
        conn.request("PUT", "/v1/files/streamed", body=iter(pieces),
                     encode_chunked=True,
                     headers={"Transfer-Encoding": "chunked"})
        self.assertEqual(conn.getresponse().status, 204)
        conn.close()
        self.assertEqual(
            hashlib.sha256(read_bytes(self.path("streamed"))).digest(),
            hashlib.sha256(b"".join(pieces)).digest())

    def test_form(self):
        body = (b"--XX\r\nContent-Disposition: form-data; name=\"note\"\r\n\r\n"
                b"no\r\n--XX\r\nContent-Disposition: form-data; name=\"file\"; "
                b"filename=\"other\"\r\n\r\nyes\r\n--XX--\r\n")
        form = {"Content-Type": "multipart/form-data; boundary=XX"}
        self.assertEqual(self.ask("PUT", "/v1/files/form", body, form)[0], 204)
        self.assertEqual(read_bytes(self.path("form")), b"yes")
        for bad in (body.replace(b'"file"', b'"data"'), body[:-8],
                    b"nothing at all",
                    body.replace(b"no\r\n--XX", b"no\r\n--XX--ends", 1),
                    body.replace(b"filename", b"x" * 70000 + b"; filename")):
            self.assertEqual(self.code("PUT", "/v1/files/form", bad, form),
                             (400, "INVALID_ARGUMENT"))
        self.assertEqual(self.code(
            "PUT", "/v1/files/form", body,
            {"Content-Type": "multipart/form-data"}),
            (400, "INVALID_ARGUMENT"))
        self.assertEqual(read_bytes(self.path("form")), b"yes")
        # Nothing of what was refused is left, under any name.
        self.assertEqual([name for name in os.listdir(self.path(""))
                          if "form" in name or name.startswith(".")],
                         ["form"])

    def test_a_body_cut_off_leaves_the_old_file(self):
        self.put("kept", "old")
        conn = http.client.HTTPConnection("127.0.0.1", self.server.port)
        conn.putrequest("PUT", "/v1/files/kept")
        conn.putheader("Content-Length", "100")
        conn.endheaders(b"half")
        conn.close()
        self.server.request("GET", "/healthz")
        self.assertEqual(read_bytes(self.path("kept")), b"old")

    def test_ranges(self):
        self.put("digits", "0123456789")
        for text, want in (("bytes=0-3", (206, b"0123", "bytes 0-3/10")),
                           ("bytes=4-", (206, b"456789", "bytes 4-9/10")),
                           ("bytes=-2", (206, b"89", "bytes 8-9/10")),
                           ("bytes=8-99", (206, b"89", "bytes 8-9/10")),
                           ("bytes=5-4", (200, b"0123456789", None)),
                           ("lines=1-2", (200, b"0123456789", None))):
            status, headers, data = self.ask("GET", "/v1/files/digits",
                                             headers={"Range": text})
            self.assertEqual((status, data, headers.get("Content-Range")),
                             want, text)
        status, headers, data = self.ask("GET", "/v1/files/digits",
                                         headers={"Range": "bytes=10-"})
        self.assertEqual((status, headers["Content-Range"]),
                         (416, "bytes */10"))

    def test_listing(self):
        self.put("list/b.txt", "four")
        os.mkdir(self.path("list", "a"))
        os.symlink("b.txt", self.path("list", "link"))
        os.symlink("/etc/passwd", self.path("list", "outside"))
        os.symlink("nothing", self.path("list", "broken"))
        os.chmod(self.path("list", "b.txt"), 0o640)
        os.utime(self.path("list", "b.txt"), (0, 1700000000))
        listing = json.loads(self.ask("GET", "/v1/files/list")[2])
        self.assertEqual(listing["path"], "/list")
        self.assertEqual([(e["name"], e["type"]) for e in listing["entries"]],
                         [("a", "directory"), ("b.txt", "file"),
                          ("link", "file")])
        self.assertEqual(listing["entries"][1],
                         {"name": "b.txt", "type": "file", "size": 4,
                          "modified_at": "2023-11-14T22:13:20Z",
                          "mode": "0640"})
        for root in ("/v1/files/", "/v1/files", "/v1/files/%2F", "/v1/files/."):
            names = [e["name"] for e in
                     json.loads(self.ask("GET", root)[2])["entries"]]
            self.assertIn("list", names)

    def test_exists(self):
        self.put("there", "x")
        self.assertEqual(self.ask("HEAD", "/v1/files/there")[0], 200)
        self.assertEqual(self.ask("HEAD", "/v1/files/")[0], 200)
        self.assertEqual(self.ask("HEAD", "/v1/files/gone")[0], 404)

    def test_what_leads_out(self):
        os.symlink("/etc", self.path("etc"))
        for method in ("GET", "PUT", "DELETE"):
            for path in ("../x", "%2E%2E%2Fx", "a/../../x", "etc/passwd"):
                want = (404, "NOT_FOUND") if path == "a/../../x" and \
                    method != "PUT" and not os.path.exists(self.path("a")) \
                    else (403, "PERMISSION_DENIED")
                self.assertEqual(self.code(method, "/v1/files/" + path, b""),
                                 want, (method, path))
        # The workspace is the root of absolute paths.
        self.assertEqual(self.code("GET", "/v1/files/%2Fetc%2Fpasswd"),
                         (403, "PERMISSION_DENIED"))
        self.put("here", "x")
        for path in ("%2Fhere", "%2F" + self.server.workspace[1:].replace(
                "/", "%2F") + "%2Fhere"):
            self.assertEqual(self.ask("GET", "/v1/files/" + path)[2], b"x")
        for path, want in (("a%00b", 400), ("a%zz", 400), ("x" * 5000, 400)):
            self.assertEqual(self.code("GET", "/v1/files/" + path),
                             (want, "INVALID_ARGUMENT"))

    def test_errors_of_writing(self):
        self.put("plain", "x")
        os.makedirs(self.path("folder"))
        for path, want in (("folder", (400, "INVALID_ARGUMENT")),
                           ("folder/", (400, "INVALID_ARGUMENT")),
                           ("", (400, "INVALID_ARGUMENT")),
                           ("plain/x", (404, "NOT_FOUND"))):
            self.assertEqual(self.code("PUT", "/v1/files/" + path, b"x"), want,
                             path)

    def test_what_cannot_be_found(self):
        self.put("plain", "x")
        os.makedirs(self.path("way"), exist_ok=True)
        os.symlink("round", self.path("round"))
        long = "n" * 256
        for method, path, want in (
                ("GET", "round", (403, "PERMISSION_DENIED")),
                ("GET", "round/x", (403, "PERMISSION_DENIED")),
                ("PUT", "round/x", (403, "PERMISSION_DENIED")),
                ("DELETE", "round/x", (403, "PERMISSION_DENIED")),
                ("GET", "plain/x", (404, "NOT_FOUND")),
                ("DELETE", "plain/x", (404, "NOT_FOUND")),
                ("DELETE", "none/x", (404, "NOT_FOUND")),
                ("GET", long, (400, "INVALID_ARGUMENT")),
                ("PUT", long, (400, "INVALID_ARGUMENT")),
                ("DELETE", long, (400, "INVALID_ARGUMENT")),
                ("PUT", long + "/x", (400, "INVALID_ARGUMENT")),
                ("PUT", "way/.", (400, "INVALID_ARGUMENT")),
                ("PUT", "way/..", (403, "PERMISSION_DENIED")),
                ("DELETE", "way/.", (400, "INVALID_ARGUMENT")),
                ("DELETE", "way/..", (403, "PERMISSION_DENIED"))):
            self.assertEqual(self.code(method, "/v1/files/" + path, b""), want,
                             (method, path))
        self.assertTrue(os.path.isdir(self.path("way")))

    def test_other_methods(self):
        status, headers, _ = self.ask("PATCH", "/v1/files/x", b"")
        self.assertIn(status, (404, 405, 406))


class Descriptors(RestCase):
    def test_each_answer_closes_what_it_opened(self):
        self.put("d/f", "text")
        os.mkfifo(self.path("fifo"))

        def ask_all():
            for path, status, headers in (
                    ("d", 200, {}), ("d/f", 200, {}), ("none", 404, {}),
                    ("fifo", 400, {}), ("d/f", 416, {"Range": "bytes=9-"}),
                    ("d/f", 206, {"Range": "bytes=1-2"})):
                self.assertEqual(self.ask("GET", "/v1/files/" + path,
                                          headers=headers)[0], status, path)

        def descriptors():
            return len(os.listdir(f"/proc/{self.server.process.pid}/fd"))
        ask_all()
        before = descriptors()
        for _ in range(20):
            ask_all()
        self.assertLess(descriptors(), before + 10)


class Modes(RestCase):
    """A server that file modes bind; each refusal leaves all as it is."""
    PREEXEC = staticmethod(bound_by_modes)
    DENIED = (403, "PERMISSION_DENIED")

    def chmod(self, path, mode):
        os.chmod(self.path(path), mode)
        self.addCleanup(os.chmod, self.path(path), 0o700)

    def test_what_may_not_be_read(self):
        self.put("secret", "x")
        self.put("unlisted/x", "x")
        self.chmod("secret", 0)
        self.chmod("unlisted", 0o300)
        for path in ("secret", "unlisted"):
            self.assertEqual(self.code("GET", "/v1/files/" + path),
                             self.DENIED, path)
        self.assertEqual(self.ask("GET", "/v1/files/unlisted/x")[2], b"x")

    def test_what_may_not_be_written(self):
        self.put("fixed/x", "old")
        self.chmod("fixed", 0o500)
        for path in ("fixed/x", "fixed/new", "fixed/new/x"):
            self.assertEqual(self.code("PUT", "/v1/files/" + path, b"new"),
                             self.DENIED, path)
        for path in ("fixed/x", "fixed/x?recursive=true"):
            self.assertEqual(self.code("DELETE", "/v1/files/" + path),
                             self.DENIED, path)
        self.assertEqual(os.listdir(self.path("fixed")), ["x"])
        self.assertEqual(read_bytes(self.path("fixed", "x")), b"old")

    def test_a_tree_is_removed_as_far_as_may_be(self):
        for name, mode in (("unwritable", 0o500), ("unreadable", 0o300)):
            self.put("tree/a/" + name + "/x", "x")
            os.chmod(self.path("tree", "a", name), mode)
            self.assertEqual(
                self.code("DELETE", "/v1/files/tree?recursive=true"),
                self.DENIED, name)
            self.assertEqual(read_bytes(self.path("tree", "a", name, "x")),
                             b"x")
            os.chmod(self.path("tree", "a", name), 0o700)
            self.assertEqual(
                self.ask("DELETE", "/v1/files/tree?recursive=true")[0], 204)
            self.assertFalse(os.path.exists(self.path("tree")))


class Space(unittest.TestCase):
    @staticmethod
    def preexec():
        """No file may be longer; a write says so, without a signal."""
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))

    def test_a_file_that_does_not_fit(self):
        server = Server(preexec_fn=self.preexec)
        self.addCleanup(lambda: self.assertEqual(server.stop(), 0))
        with open(server.path("kept"), "w") as file:
            file.write("old")
        part = (b"--XX\r\nContent-Disposition: form-data; name=file\r\n\r\n"
                b"%s\r\n--XX--\r\n")
        form = {"Content-Type": "multipart/form-data; boundary=XX"}
        for body, headers in ((b"%s", {}), (part, form)):
            status, _, data = server.request("PUT", "/v1/files/kept",
                                             body % (b"y" * (3 << 19)),
                                             headers)
            self.assertEqual((status, json.loads(data)),
                             (500, {"code": "INTERNAL",
                                    "message": "file too large"}))
            self.assertEqual(os.listdir(server.workspace), ["kept"])
            self.assertEqual(read_bytes(server.path("kept")), b"old")
            self.assertEqual(server.request("PUT", "/v1/files/kept",
                                            body % b"old", headers)[0], 204)


class Limits(unittest.TestCase):
    def test_a_folder_with_too_many_entries(self):
        memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        workspace = tempfile.mkdtemp(prefix="wp-many-", dir=memory)
        self.addCleanup(shutil.rmtree, workspace)
        server = Server(workspace=workspace)
        self.addCleanup(lambda: self.assertEqual(server.stop(), 0))
        with open(server.path("0"), "w"):
            pass
        os.mkdir(server.path("many"))
        for i in range(65537):  # Links to nothing are cheap, and not shown.
            os.symlink("none", server.path("many", str(i)))
        status, _, data = server.request("GET", "/v1/files/many")
        self.assertEqual((status, json.loads(data)),
                         (413, {"code": "RESOURCE_EXHAUSTED",
                                "message": "path: the folder has more than "
                                           "65536 entries"}))
        os.unlink(server.path("many", "7"))
        os.unlink(server.path("many", "8"))
        os.link(server.path("0"), server.path("many", "z"))
        status, _, data = server.request("GET", "/v1/files/many")
        self.assertEqual((status, [e["name"] for e in
                                   json.loads(data)["entries"]]),
                         (200, ["z"]))  # The last of 65536 is there.

    def test_too_long(self):
        server = Server("--upload-max", "2048")
        self.addCleanup(lambda: self.assertEqual(server.stop(), 0))
        status, _, data = server.request("PUT", "/v1/files/x", b"y" * 4096,
                                         headers={})
        self.assertEqual((status, json.loads(data)["code"]),
                         (413, "RESOURCE_EXHAUSTED"))
        self.assertEqual(os.listdir(server.workspace), [])

    def test_token(self):
        token = "sesame"
        server = Server(env={
            "WARMPOOL_RUNTIME_TOKEN_DIGEST":
                hashlib.sha256(token.encode()).hexdigest(),
            "WARMPOOL_RUNTIME_TOKEN_FOR": "all"})
        self.addCleanup(lambda: self.assertEqual(server.stop(), 0))
        for path in ("/v1/files/", "/v1/metadata"):
            self.assertEqual(server.request("GET", path)[0], 401)
            self.assertEqual(server.request(
                "GET", path, headers={"X-Warmpool-Token": token})[0], 200)
        self.assertEqual(server.request("GET", "/v1/health")[0], 200)


class Delete(RestCase):
    def test_files_and_folders(self):
        self.put("d/e/f", "x")
        self.assertEqual(self.code("DELETE", "/v1/files/d/e"),
                         (409, "CONFLICT"))
        self.assertEqual(self.ask("DELETE", "/v1/files/d/e/f")[0], 204)
        self.assertEqual(self.ask("DELETE", "/v1/files/d/e/")[0], 204)
        self.assertEqual(self.code("DELETE", "/v1/files/d/e"),
                         (404, "NOT_FOUND"))
        self.assertEqual(self.code("DELETE", "/v1/files/d?recursive=maybe"),
                         (400, "INVALID_ARGUMENT"))
        self.assertTrue(os.path.isdir(self.path("d")))

    def test_a_large_tree_and_no_links(self):
        outside = os.path.join(self.server.dir, "outside")
        os.makedirs(outside)
        with open(os.path.join(outside, "precious"), "w") as file:
            file.write("x")
        for i in range(40):
            for j in range(30):
                self.put("tree/%d/x/%d" % (i, j), "")
            os.symlink(outside, self.path("tree", str(i), "link"))
        self.assertEqual(self.ask("DELETE", "/v1/files/tree?recursive=true")[0],
                         204)
        self.assertFalse(os.path.exists(self.path("tree")))
        self.assertEqual(os.listdir(outside), ["precious"])

    def test_the_workspace_itself_stays(self):
        self.put("one/two", "x")
        self.assertEqual(self.code("DELETE", "/v1/files/"), (409, "CONFLICT"))
        self.assertEqual(self.ask("DELETE", "/v1/files/?recursive=1")[0], 204)
        self.assertEqual(os.listdir(self.server.workspace), [])

    def test_a_link_is_removed_not_its_target(self):
        self.put("target/x", "x")
        os.symlink("target", self.path("pointer"))
        self.assertEqual(self.ask("DELETE",
                                  "/v1/files/pointer?recursive=true")[0], 204)
        self.assertEqual(os.listdir(self.path("target")), ["x"])

    def test_too_deep_is_refused(self):
        path = self.path("deep")
        for _ in range(140):
            path = os.path.join(path, "d")
        os.makedirs(path)
        self.assertEqual(self.code("DELETE", "/v1/files/deep?recursive=true"),
                         (400, "INVALID_ARGUMENT"))


class About(unittest.TestCase):
    def test_health_and_metadata(self):
        server = Server(env={"SANDBOX_ID": "s-1", "SANDBOX_API_KEY": "hidden",
                             "SANDBOX_PATH_AUTHORITY": "hidden",
                             "OTHER": "hidden"})
        self.addCleanup(lambda: self.assertEqual(server.stop(), 0))
        health = server.get_json("/v1/health")[1]
        self.assertEqual(health["status"], "ok")
        self.assertGreaterEqual(health["uptime_seconds"], 0)
        self.assertEqual(server.get_json("/v1/metadata")[1],
                         {"env": {"SANDBOX_ID": "s-1"}})


if __name__ == "__main__":
    main()
