"""Files that `warmpoolctl claim` brings: folders, skills, archives, and what is
too large for the claim itself.

Run by ctest: claim_files_test.py WARMPOOLD GENERATED_DIR DEPLOY_DIR WARMPOOLCTL
[unittest arguments]. Needs a host that lets it make sandboxes; exits with 77
elsewhere.
"""

import contextlib
import gzip
import hashlib
import io
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import unittest

from daemon_test import PATIENCE, Daemon, end_all, eventually, host_can

CTL = os.path.abspath(sys.argv[4])
MIB = 1 << 20


def tar_of(*files):
    """Of (name, content)."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, content in files:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return out.getvalue()


def heeds(pid, number):
    """Does the process block or catch the signal?"""
    masks = [int(line.split()[1], 16)
             for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
             if line.startswith(("SigBlk:", "SigCgt:"))]
    return any(mask >> (number - 1) & 1 for mask in masks)


class ClaimFiles(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="wp-files-")
        self.addCleanup(self.clean)
        self.daemons = [Daemon("--lease-store=memory", directory=self.dir)]
        self.daemon = self.daemons[0].wait_full(3)

    def clean(self):
        end_all(self, self.daemons, self.dir)

    def environment(self):
        return dict(os.environ, RUNTIME_DIRECTORY=os.path.join(self.dir, "r"),
                    XDG_STATE_HOME=os.path.join(self.dir, "home"))

    def ctl(self, *words, data=b""):
        return subprocess.run(
            [CTL, *words], input=data, capture_output=True, check=False,
            timeout=PATIENCE, cwd=self.dir, env=self.environment())

    def claim(self, *words, data=b""):
        done = self.ctl("claim", "quickstart", "--wait=1m", "-o", "json",
                        *words, data=data)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def refused(self, *words, code=2, data=b""):
        done = self.ctl("claim", "quickstart", "--wait=1m", *words,
                        data=data)
        self.assertEqual(done.returncode, code, done)
        self.assertEqual(done.stdout, b"")
        return done.stderr.decode()

    def sh(self, claim, script):
        done = self.ctl("exec", claim["claim_id"], "--", "sh", "-c", script)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.decode()

    def put(self, path, content=b"", mode=0o644):
        path = os.path.join(self.dir, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as handle:
            handle.write(content)
        os.chmod(path, mode)
        return path

    def test_a_folder(self):
        self.put("app/main.py", b"print(1)\n")
        self.put("app/run", b"#!/bin/sh\necho ran\n", 0o700)
        self.put("app/a/b/\u00e4 'q'", b"deep")
        os.mkdir(os.path.join(self.dir, "app/empty"))
        claim = self.claim("--copy", "app:src")
        self.assertEqual(claim["bound"]["files"],
                         ["src/a/b/\u00e4 'q'", "src/main.py", "src/run"])
        self.assertNotIn("uploaded", claim)
        self.assertEqual(
            self.sh(claim, "cd src; ./run; cat a/b/*; stat -c %a run main.py"),
            "ran\ndeep755\n644\n")
        # Into the workspace itself; the command finds it all.
        claim = self.claim("--copy", "app/:.", "--run", "--", "sh", "-c",
                           "./run > out")
        eventually(lambda: self.sh(claim, "cat out || true") == "ran\n",
                   "the command's work")
        # The same claim, made again, is the same.
        again = [self.claim("--id", "same", "--copy", "app:x")
                 for _ in range(2)]
        self.assertEqual([one["replayed"] for one in again], [False, True])

    def test_skills(self):
        self.put("lib/pdf/SKILL.md", b"how to")
        self.put("lib/pdf/tool", b"#!", 0o755)
        claim = self.claim("--skill", "lib/pdf/")
        self.assertEqual(claim["bound"]["files"],
                         [".claude/skills/pdf/SKILL.md",
                          ".claude/skills/pdf/tool"])
        self.assertIn("--skill: lib: expected a folder with a file SKILL.md",
                      self.refused("--skill", "lib"))
        self.assertIn("--skill: nowhere: no such file",
                      self.refused("--skill", "nowhere"))

    def test_large(self):
        """More than a claim brings itself: uploaded before the answer."""
        big = os.urandom(5 * MIB)
        self.put("data/big #1?.bin", big)
        self.put("data/run", b"#!/bin/sh\necho ran\n", 0o755)
        self.put("data/none")
        claim = self.claim("--copy", "data:in", "--env", "A=1")
        self.assertEqual(claim["uploaded"],
                         {"files": 3, "bytes": len(big) + 19})
        self.assertEqual(claim["bound"]["env"], ["A"])
        self.assertEqual(claim["bound"]["files"], [])
        self.assertEqual(
            self.sh(claim, "cd in; cat big* | sha256sum; ./run; echo $A; wc -c < none; ls -A"),
            hashlib.sha256(big).hexdigest() +
            "  -\nran\n1\n0\nbig #1?.bin\nnone\nrun\n")
        # So are many; and nothing else needs to be brought.
        for i in range(300):
            self.put(f"many/{i:03}", b"%d" % i)
        claim = self.claim("--copy", "many:.")
        self.assertEqual(self.sh(claim, "cat * | sha256sum; ls | wc -l"),
                         hashlib.sha256(b"".join(
                             b"%d" % i for i in range(300))).hexdigest() +
                         "  -\n300\n")
        done = self.ctl("claim", "quickstart", "--wait=1m", "--copy", "many:.")
        self.assertIn(b"uploaded  300 files, 0.0 MiB\n", done.stdout)
        self.assertIn("--run: at most 1 MiB in 256 files", self.refused(
            "--copy", "data:in", "--run", "--", "true"))

    def slow_way(self):
        """The address of a socket behind which the daemon is, which reads
        nothing for a while, and then a little at a time."""
        path = os.path.join(self.dir, "slow.sock")
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(path)
        listener.listen()
        self.addCleanup(listener.close)

        def carry(source, target, pause_s, size):
            with contextlib.suppress(OSError):
                while data := source.recv(size):
                    target.sendall(data)
                    time.sleep(pause_s)

        def serve():
            client, _ = listener.accept()
            with client, socket.socket(socket.AF_UNIX) as daemon:
                daemon.connect(self.daemon.grpc_path)
                back = threading.Thread(target=carry,
                                        args=(daemon, client, 0, 65536))
                back.start()
                daemon.sendall(client.recv(100))
                time.sleep(0.5)
                carry(client, daemon, 0.001, 8192)
                with contextlib.suppress(OSError):
                    daemon.shutdown(socket.SHUT_WR)
                back.join()

        threading.Thread(target=serve, daemon=True).start()
        return "unix:" + path

    def test_a_daemon_that_reads_slowly(self):
        big = os.urandom(MIB - 4096)
        self.put("big", big)
        claim = self.claim("--copy", "big:big", "--address", self.slow_way())
        self.assertEqual(self.sh(claim, "sha256sum < big"),
                         hashlib.sha256(big).hexdigest() + "  -\n")

    def test_archives(self):
        plain = tar_of(("./one", b"1"), ("d/two", b"22"))
        for name, data in (("a.tar", plain), ("a.tgz", gzip.compress(plain)),
                           ("two.gz", gzip.compress(plain[:700]) +
                            gzip.compress(plain[700:]))):
            path = self.put(name, data)
            claim = self.claim("--archive", path + ":lib")
            self.assertEqual(claim["bound"]["files"], ["lib/one", "lib/d/two"])
            self.assertEqual(self.sh(claim, "cat lib/one lib/d/two"), "122")
            self.ctl("release", claim["claim_id"])
        claim = self.claim("--archive", "-", data=gzip.compress(plain))
        self.assertEqual(claim["bound"]["files"], ["one", "d/two"])
        big = os.urandom(3 * MIB)
        claim = self.claim("--archive", "-",
                           data=gzip.compress(tar_of(("big", big)), 1))
        self.assertEqual(claim["uploaded"]["files"], 1)
        self.assertEqual(self.sh(claim, "sha256sum < big"),
                         hashlib.sha256(big).hexdigest() + "  -\n")

    def test_bad_ones(self):
        plain = tar_of(("one", b"1"))
        packed = gzip.compress(plain)
        bomb = gzip.compress(bytes(64 * MIB)) * 17  # In members.
        damaged = bytearray(packed)
        damaged[len(damaged) // 2] ^= 0x55
        for data, says in ((packed[:-9], "it ends before it is complete"),
                           (bytes(damaged), "it is damaged"),
                           (packed + b"more", "it is damaged"),
                           (bomb, "it is too large"),
                           (plain[:300], "a tar archive, not"),
                           (tar_of(("../up", b"1")), "a path below the work"),
                           (tar_of(("\x1b[1mx", b"1"), ("/etc/x", b"")),
                            "a path below the work"),
                           (tar_of(("f", b"1"), ("f", b"2")),
                            "'f' in the sandbox: two files are to be there")):
            said = self.refused("--archive", "-", data=data)
            self.assertIn(says, said)
            self.assertNotIn("\x1b", said)
        self.put("app/ok", b"1")
        os.symlink("/etc/passwd", os.path.join(self.dir, "app/link"))
        self.assertIn("--copy: app/link: a symbolic link",
                      self.refused("--copy", "app:."))
        os.unlink(os.path.join(self.dir, "app/link"))
        os.mkfifo(os.path.join(self.dir, "app/pipe"))
        self.assertIn("--copy: app/pipe: only plain files",
                      self.refused("--copy", "app:."))
        os.unlink(os.path.join(self.dir, "app/pipe"))
        deep = "app" + "/d" * 70
        self.put(deep + "/f")
        self.assertIn("deeper than 64", self.refused("--copy", "app:."))
        self.assertIn("--copy: nowhere: no such file",
                      self.refused("--copy", "nowhere:x"))
        self.assertIn("a path below the workspace",
                      self.refused("--copy", self.put("a.py") + ":../a.py"))
        huge = os.path.join(self.dir, "huge")
        with open(huge, "wb") as handle:
            handle.truncate((1 << 30) + 1)
        self.assertIn("at most 1 GiB", self.refused("--copy", "huge:x"))
        self.assertEqual(self.daemon.pool().leased, 0)

    def test_sources(self):
        """A policy beside the claim refuses before anybody is asked."""
        self.put("sources.json", json.dumps({
            "version": "1.0",
            "allowed_remotes": ["https://git.example/team/*"],
            "denied_remotes": ["https://git.example/team/old"],
            "resource_limits": {"max_repos": 1}}).encode())
        repo = ("--repo", "https://git.example/team/a")
        for words, says in (
                (("--repo", "https://git.example/lib"),
                 "--sources: sources.json: allowed_remotes: the repository"),
                (("--repo", "https://git.example/team/old/x@main:y"),
                 "denied_remotes: the repository on git.example"),
                ((*repo, *repo), "max_repos: at most 1 repositories, got 2")):
            self.assertIn(says, self.refused("--sources", "sources.json",
                                             *words))
        # What it allows, the daemon has to allow as well.
        self.assertIn("git_remotes", self.refused(
            "--sources", "sources.json", *repo, code=1))
        self.put("bad.json", b'{"allowed_remotes": "x"}')
        self.assertIn("bad.json: allowed_remotes: an array of texts expected",
                      self.refused("--sources", "bad.json"))
        self.assertIn("--sources: none: no such file",
                      self.refused("--sources", "none"))
        # It narrows what can be reached; this pool reaches nothing.
        self.put("hosts.json", b'{"allowed_domains": [".example.org"]}')
        self.assertIn("binding.egress: 'example.org' is not within",
                      self.refused("--sources", "hosts.json", code=1))
        self.assertIn("bound", self.claim("--sources", "hosts.json",
                                          "--egress", "none"))

    def test_what_cannot_be_uploaded(self):
        """The claim is released, and its sandbox goes."""
        self.put("data/big", bytes(300 * MIB))  # More than the workspace has.
        destroyed = self.daemon.pool().destroyed_total
        said = self.refused("--copy", "data:in", "--id=c1", code=1)
        self.assertIn("not all was uploaded, and the claim is released: "
                      "'in/big' is not there: no space left", said)
        eventually(lambda: self.daemon.pool().leased == 0, "its release")
        eventually(lambda: self.daemon.pool().destroyed_total == destroyed + 1,
                   "its sandbox's end")
        # One that the claim had before may be in use.
        first = self.claim("--id=c2")
        said = self.refused("--copy", "data:in", "--id=c2", code=1)
        self.assertIn("the lease is kept", said)
        self.assertEqual(self.sh(first, "echo here"), "here\n")

    def test_a_signal(self):
        for i in range(3000):
            self.put(f"many/{i:04}", b"x")
        with subprocess.Popen(
                [CTL, "claim", "quickstart", "--id=c1", "--wait=1m", "--copy",
                 "many:."],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=self.dir,
                env=self.environment()) as child:
            eventually(lambda: self.daemon.pool().leased == 1, "its lease")
            eventually(lambda: heeds(child.pid, signal.SIGINT), "its upload")
            time.sleep(0.05)
            child.send_signal(signal.SIGINT)
            out, errors = child.communicate(timeout=PATIENCE)
        self.assertNotEqual(child.returncode, 0)
        self.assertEqual(out, b"")
        # Within a file, or between two.
        self.assertRegex(errors, rb"the claim is released: ('\d+' is not there: )?"
                         rb"stopped by a signal\n$")
        eventually(lambda: self.daemon.pool().leased == 0, "its release")


if __name__ == "__main__":
    reason = host_can()
    if reason:
        print("SKIP:", reason)
        sys.exit(77)
    unittest.main(argv=[sys.argv[0]] + sys.argv[5:], verbosity=2)
