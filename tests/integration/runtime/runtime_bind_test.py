"""What a claim brings in a cluster: the request that the daemon sends, against
the real program."""
import hashlib
import json
import os
import shutil
import socket
import stat
import struct
import tempfile
import unittest

from runtime_rig import Server, main, read_text, wait_until

TOKEN = "sesame"
ENV, SECRET, FILE, DIR, WORD, IDENTITY = range(1, 7)


FOLDER, PLAIN, LINK = range(1, 4)  # Of a tree image.


def entry(kind, first, second=b"", number=0):
    first, second = (one.encode() if isinstance(one, str) else one
                     for one in (first, second))
    return struct.pack("<4I", kind, number, len(first), len(second)) \
        + first + second


def leaf(kind, path, content=b"", mode=0o644):
    path, content = path.encode(), content.encode() \
        if isinstance(content, str) else content
    return struct.pack("<4I", kind, mode, len(path), len(content)) \
        + path + content


def frame(folder, *leaves):
    folder, image = folder.encode(), b"".join(leaves)
    return struct.pack("<IQ", len(folder), len(image)) + folder + image


class Bind(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="wp-bind-")
        self.addCleanup(shutil.rmtree, self.dir)
        self.bound = os.path.join(self.dir, "bound")
        self.workspace = os.path.join(self.dir, "workspace")

    def start(self, digest=hashlib.sha256(TOKEN.encode()).hexdigest()):
        server = Server("--bound-dir", self.bound, workspace=self.workspace,
                        env={"WARMPOOL_RUNTIME_TOKEN_DIGEST": digest})
        self.addCleanup(lambda: self.assertEqual(server.stop(), 0))
        return server

    def bind(self, server, parcel, fingerprint="0123456789abcdef",
             token=TOKEN, trees=b"", said=None):
        """Its status, what it confirms, and its answer."""
        headers = {"X-Warmpool-Token": token}
        if trees or said is not None:
            headers["X-Warmpool-Trees"] = str(len(trees)) if said is None \
                else said
        parcel = trees + parcel
        if fingerprint is not None:
            headers["X-Warmpool-Binding"] = fingerprint
        status, fields, body = server.request("POST", "/v1/bind", parcel,
                                              headers)
        return status, fields.get("X-Warmpool-Binding"), json.loads(body)

    def sh(self, server, script):
        status, answer = server.execute(f"sh -c '{script}'")
        self.assertEqual((status, answer["exit_code"]), (200, 0), answer)
        return answer["stdout"]

    def test_all_of_it(self):
        server = self.start()
        self.assertEqual(self.sh(server, "echo $A$WARMPOOL_BOUND_DIR"), "\n")
        parcel = (entry(ENV, "A", "1") + entry(SECRET, "tls.key", b"\0\xff")
                  + entry(SECRET, "TOKEN", "t0k", 1)
                  + entry(FILE, "bin/run", "#!", 0o755) + entry(DIR, "wd")
                  + entry(WORD, "sh") + entry(WORD, "-c")
                  + entry(WORD, "echo $A $TOKEN > started; sleep 600"))
        first = self.bind(server, parcel)
        self.assertEqual(first, (200, "0123456789abcdef", {
            "env": ["A"], "secrets": ["tls.key", "TOKEN"],
            "files": ["bin/run"], "working_dir": "wd", "started": True}))
        self.assertEqual(self.sh(server, "pwd"),
                         os.path.join(self.workspace, "wd") + "\n")
        self.assertEqual(self.sh(
            server, "echo $A $TOKEN; stat -c %a ../bin/run;"
            "cd $WARMPOOL_BOUND_DIR; stat -c %a:%s secrets/*"),
            "1 t0k\n755\n400:3\n400:2\n")
        self.assertEqual(stat.S_IMODE(os.stat(self.bound).st_mode), 0o700)
        started = os.path.join(self.workspace, "wd", "started")
        wait_until(lambda: read_text(started) == "1 t0k\n", "the command")
        # The same again is answered as the first, and does nothing.
        os.unlink(started)
        os.unlink(os.path.join(self.workspace, "bin", "run"))
        self.assertEqual(self.bind(server, parcel), first)
        self.assertEqual(os.listdir(os.path.join(self.workspace, "bin")), [])
        self.assertEqual(self.bind(server, parcel, "f" * 16),
                         (409, None, {"error": "it has another binding"}))
        self.assertNotIn("t0k", read_text(server.log_path))

    def test_a_container_that_starts_again(self):
        server = self.start()
        self.assertEqual(self.bind(server, entry(ENV, "A", "1"))[0], 200)
        self.assertEqual(server.stop(), 0)
        server = self.start()
        self.assertEqual(self.sh(server, "echo $A"), "1\n")
        self.assertEqual(self.bind(server, entry(ENV, "A", "1"))[:2],
                         (200, "0123456789abcdef"))
        self.assertEqual(self.bind(server, entry(ENV, "A", "2"), "1" * 16)[0],
                         409)
        self.assertEqual(self.sh(server, "echo $A"), "1\n")

    def test_a_part_of_it(self):
        """No variable is seen, and no other binding is taken, ever."""
        server = self.start()
        os.makedirs(os.path.join(self.workspace, "taken"))
        self.assertEqual(
            self.bind(server, entry(ENV, "A", "1") + entry(FILE, "one", "1")
                      + entry(FILE, "taken", "2")),
            (422, None, {"error": "file 'taken': Is a directory"}))
        for _ in range(2):
            self.assertEqual(
                self.bind(server, entry(ENV, "A", "1")),
                (422, None, {"error": "it took a part of a binding only"}))
            self.assertEqual(self.sh(server, "echo $A"), "\n")
            self.assertEqual(server.stop(), 0)
            server = self.start()

    def test_what_cannot_be_started(self):
        server = self.start()
        status, _, answer = self.bind(server, entry(WORD, "no-such-program"))
        self.assertEqual(status, 422)
        self.assertRegex(answer["error"], "^command: .*no-such-program")
        self.assertEqual(self.bind(server, entry(ENV, "A", "1"))[0], 422)

    def identify(self, server, identity="one.two.three", token=TOKEN):
        """Its status, what it confirms, and its error."""
        headers = {"X-Warmpool-Token": token}
        if identity is not None:
            headers["X-Warmpool-Identity"] = identity
        status, fields, body = server.request("POST", "/v1/identity", b"", headers)
        return (status, fields.get("X-Warmpool-Identity"),
                json.loads(body).get("error"))

    def bind_identified(self, server, identity):
        return server.request("POST", "/v1/bind", entry(
            IDENTITY, "WARMPOOL_IDENTITY_FILE"), {
                "X-Warmpool-Token": TOKEN, "X-Warmpool-Identity": identity,
                "X-Warmpool-Binding": "0123456789abcdef"})

    def test_an_identity(self):
        server = self.start()
        self.assertEqual(self.identify(server), (409, None, "nothing is bound"))
        self.assertFalse(os.path.exists(self.bound))
        status, fields, _ = self.bind_identified(server, "a.b.c")
        self.assertEqual((status, fields["X-Warmpool-Identity"]), (200, "taken"))
        show = "cat $WARMPOOL_IDENTITY_FILE"
        self.assertEqual(self.sh(server, show), "a.b.c")
        self.assertEqual(self.identify(server), (200, "taken", None))
        self.assertEqual(self.sh(server, show), "one.two.three")
        self.assertEqual(self.sh(server, "stat -c %a $WARMPOOL_IDENTITY_FILE"),
                         "400\n")
        # A repeat of the binding may have the next one.
        self.assertEqual(self.bind_identified(server, "d.e.f")[0], 200)
        self.assertEqual(self.sh(server, show), "d.e.f")
        # What is refused changes nothing, nor does another process.
        for wrong in ("", "a b", "a/b", "x" * 4096):
            status, _, error = self.identify(server, wrong)
            self.assertEqual(status, 400, wrong)
            self.assertIn("at most 4095 bytes", error)
        self.assertEqual(self.identify(server, None)[0], 400)
        for token in ("", "wrong"):
            self.assertEqual(self.identify(server, token=token)[0], 401)
        self.assertEqual(server.stop(), 0)
        server = self.start()
        self.assertEqual(self.sh(server, show), "d.e.f")
        self.assertEqual(self.identify(server)[0], 200)
        self.assertNotIn("one.two", read_text(server.log_path))

    def test_an_identity_that_is_none(self):
        server = self.start()
        status, _, body = self.bind_identified(server, "a b")
        self.assertEqual(status, 422)
        self.assertIn("identity: expected a signed token", body.decode())
        # It has a part of a binding now.
        self.assertEqual(self.bind(server, entry(ENV, "A", "1"))[0], 422)

    def test_an_identity_that_did_not_come(self):
        server = self.start()
        status, _, answer = self.bind(server, entry(
            IDENTITY, "WARMPOOL_IDENTITY_FILE"))
        self.assertEqual(status, 422)
        self.assertIn("identity 'WARMPOOL_IDENTITY_FILE'", answer["error"])

    def test_without_a_digest_no_identity(self):
        server = Server("--bound-dir", self.bound, workspace=self.workspace)
        self.addCleanup(lambda: self.assertEqual(server.stop(), 0))
        self.assertEqual(self.identify(server)[0], 403)

    def test_garbage(self):
        server = self.start()
        self.assertEqual(self.bind(server, b"x" * 100),
                         (422, None, {"error": "what came is no binding"}))

    def test_who_may(self):
        server = self.start()
        parcel = entry(ENV, "A", "1")
        for token in ("", "wrong"):
            self.assertEqual(self.bind(server, parcel, token=token)[0], 401)
        for fingerprint in (None, "", "0123456789ABCDEF", "0" * 17):
            status, _, answer = self.bind(server, parcel, fingerprint)
            self.assertEqual(status, 400)
            self.assertIn("X-Warmpool-Binding: 16 hexa", answer["error"])
        self.assertEqual(self.bind(server, b"\0" * (2 << 20) + b"\0")[0], 413)
        self.assertFalse(os.path.exists(self.bound))
        self.assertEqual(self.bind(server, parcel)[0], 200)

    def test_without_a_token_nobody_may(self):
        status, _, answer = self.bind(self.start(digest=""),
                                      entry(ENV, "A", "1"))
        self.assertEqual((status, answer["error"].split(":")[0]),
                         (403, "this server takes no binding"))

    def test_a_folder_of_others(self):
        os.mkdir(self.bound)
        os.chmod(self.bound, 0o777)
        server = self.start()
        self.assertEqual(
            self.bind(server, entry(ENV, "A", "1")),
            (422, None,
             {"error": f"{self.bound}: operation not permitted"}))


    def test_trees(self):
        """Repositories are there before the files are, and the answer names
        where."""
        server = self.start()
        trees = frame("src/app", leaf(FOLDER, "lib"),
                      leaf(PLAIN, "lib/a", "a\n"), leaf(PLAIN, "run", "#!", 0o755),
                      leaf(LINK, "to", "lib/a")) \
            + frame("", leaf(PLAIN, "README", "read\n"))
        parcel = entry(FILE, "src/app/lib/a", "mine\n") + entry(DIR, "src/app")
        self.assertEqual(self.bind(server, parcel, trees=trees)[2], {
            "env": [], "secrets": [], "files": ["src/app/lib/a"],
            "working_dir": "src/app", "repositories": ["src/app", ""],
            "started": False})
        self.assertEqual(self.sh(server, "cat to ../../README; stat -c %a run"),
                         "mine\nread\n755\n")
        # Nothing is left of how they came.
        self.assertEqual(sorted(os.listdir(self.workspace)), ["README", "src"])
        with open(f"/proc/{server.process.pid}/maps",
                  encoding="utf-8") as handle:
            self.assertNotIn(self.workspace, handle.read())
        # The same again: it is read, answered, and puts nothing.
        os.unlink(os.path.join(self.workspace, "README"))
        self.assertEqual(self.bind(server, parcel, trees=trees)[0], 200)
        self.assertEqual(os.listdir(self.workspace), ["src"])

    def test_trees_alone(self):
        server = self.start()
        self.assertEqual(
            self.bind(server, b"", trees=frame("", leaf(PLAIN, "a", "b")))[0],
            200)
        self.assertEqual(self.sh(server, "cat a"), "b")

    def test_a_large_tree(self):
        server = self.start()
        content = os.urandom(24 << 20)
        self.assertEqual(self.bind(
            server, entry(ENV, "A", "1"),
            trees=frame("x", leaf(PLAIN, "y", content)))[0], 200)
        with open(os.path.join(self.workspace, "x", "y"), "rb") as handle:
            self.assertEqual(handle.read(), content)

    def test_trees_that_cannot_be_put(self):
        outside = os.path.join(self.dir, "outside")
        os.mkdir(outside)
        for trees, why in (
                (frame("a/../b", leaf(PLAIN, "x")), "folder 'a/../b'"),
                (frame("out", leaf(PLAIN, "x")), "folder 'out'"),
                (frame("", leaf(PLAIN, "../x")), "'../x'"),
                (frame("", leaf(PLAIN, "out/x")), "'out/x'"),
                (frame("", leaf(PLAIN, "a"))[:-1], "are no trees"),
                (frame("", leaf(PLAIN, "a") + b"x"), "is no tree"),
                (b"x" * 11, "are no trees")):
            with self.subTest(why=why):
                shutil.rmtree(self.bound, ignore_errors=True)
                shutil.rmtree(self.workspace, ignore_errors=True)
                server = self.start()
                os.symlink(outside, os.path.join(self.workspace, "out"))
                status, _, answer = self.bind(server, b"", trees=trees)
                self.assertEqual(status, 422)
                self.assertIn(why, answer["error"])
                self.assertEqual(
                    self.bind(server, b""),
                    (422, None,
                     {"error": "it took a part of a binding only"}))
        self.assertEqual(os.listdir(outside), [])

    def test_a_length_of_trees_that_is_none(self):
        server = self.start()
        for said in ("x", "-1", "", "1" * 30):
            status, _, answer = self.bind(server, b"", said=said)
            self.assertEqual(status, 400, said)
            self.assertIn("X-Warmpool-Trees", answer["error"])
        self.assertEqual(self.bind(server, b"abc", said="4")[0], 400)
        # Nothing was tried.
        self.assertEqual(self.bind(server, entry(ENV, "A", "1"))[0], 200)

    def test_a_client_that_leaves_half_way(self):
        server = self.start()
        trees = frame("", leaf(PLAIN, "big", b"x" * (8 << 20)))
        with socket.create_connection(("127.0.0.1", server.port)) as sock:
            sock.sendall(
                (f"POST /v1/bind HTTP/1.1\r\nHost: x\r\n"
                 f"X-Warmpool-Token: {TOKEN}\r\n"
                 f"X-Warmpool-Binding: {'0' * 16}\r\n"
                 f"X-Warmpool-Trees: {len(trees)}\r\n"
                 f"Content-Length: {len(trees)}\r\n\r\n").encode()
                + trees[:4 << 20])
        self.assertEqual(self.bind(server, b"", trees=trees)[0], 200)
        self.assertEqual(os.listdir(self.workspace), ["big"])


if __name__ == "__main__":
    main()
