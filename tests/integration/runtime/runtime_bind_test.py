"""What a claim brings in a cluster: the request that the daemon sends, against
the real program."""
import hashlib
import json
import os
import shutil
import stat
import struct
import tempfile
import unittest

from runtime_rig import Server, main, read_text, wait_until

TOKEN = "sesame"
ENV, SECRET, FILE, DIR, WORD = range(1, 6)


def entry(kind, first, second=b"", number=0):
    first, second = (one.encode() if isinstance(one, str) else one
                     for one in (first, second))
    return struct.pack("<4I", kind, number, len(first), len(second)) \
        + first + second


class Bind(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="wp-bind-")
        self.addCleanup(shutil.rmtree, self.dir)
        self.bound = os.path.join(self.dir, "bound")
        self.workspace = os.path.join(self.dir, "workspace")

    def start(self, digest=hashlib.sha256(TOKEN.encode()).hexdigest()):
        server = Server("--bound-dir", self.bound, workspace=self.workspace,
                        env={"WARMPOOL_RUNTIME_TOKEN_DIGEST": digest})
        self.addCleanup(server.stop)
        return server

    def bind(self, server, parcel, fingerprint="0123456789abcdef",
             token=TOKEN):
        """Its status, what it confirms, and its answer."""
        headers = {"X-Warmpool-Token": token}
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


if __name__ == "__main__":
    main()
