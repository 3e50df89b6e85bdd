"""What warmpoolctl asks a daemon, and every word that it prints of the reply.

Run by ctest: ctl_output_test.py WARMPOOLCTL GENERATED_DIR [unittest arguments].
The daemon is one that answers as ctl_output_cases.py and ctl_files_cases.py say;
all that is seen is ctl_output.txt and ctl_files.txt, which WP_WRITE_OUTPUT=1
writes anew: read the difference.
"""

import difflib
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

CTL, GENERATED = (os.path.abspath(a) for a in sys.argv[1:3])
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [GENERATED, HERE]

from ctl_files_cases import cases, make_files  # noqa: E402
from ctl_output_cases import CASES, FILES, POOL  # noqa: E402
from fake_daemon import FOREVER, PATIENCE, FakeDaemon  # noqa: E402


class Output(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="wp-output-")
        self.addCleanup(shutil.rmtree, self.dir)
        self.daemon = FakeDaemon(self.dir)
        self.addCleanup(self.daemon.stop)
        for name, text in FILES.items():
            with open(os.path.join(self.dir, name), "w",
                      encoding="utf-8") as file:
                file.write(text)

    def ctl(self, *words, **options):
        return subprocess.run([CTL, *words], env=self.daemon.env, cwd=self.dir,
                              timeout=PATIENCE, check=False, **options)

    def compare(self, name, cases):
        text = ""
        for words, replies, *options in cases:
            options = options[0] if options else {}
            said = ["on a terminal"] if "terminal" in options else []
            said += [f"{key}={value}"
                     for key, value in options.get("env", {}).items()]
            words = [word.replace("DIR", self.dir) for word in words]
            text += "$ " + " ".join(["warmpoolctl", *words])
            text = text.replace(self.dir, "DIR")
            text += (" # " + ", ".join(said) if said else "") + "\n"
            text += self.daemon.run(CTL, words, replies, **options) + "\n"
        path = os.path.join(HERE, name)
        if os.environ.get("WP_WRITE_OUTPUT"):
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        with open(path, encoding="utf-8") as file:
            expected = file.read()
        if text != expected:
            self.fail("\n".join(difflib.unified_diff(
                expected.splitlines(), text.splitlines(), "expected", "seen",
                lineterm="", n=6)))

    def test_replies(self):
        self.compare("ctl_output.txt", CASES)

    def test_files(self):
        make_files(self.dir)
        self.compare("ctl_files.txt", cases(self.dir))

    def test_output_that_cannot_be_written(self):
        self.daemon.replies = {"ListPools": [POOL], "WatchPools": [FOREVER]}
        for command in ("pools", "watch"):
            with open("/dev/full", "wb") as full, self.subTest(command):
                done = self.ctl(command, stdout=full, stderr=subprocess.PIPE)
                self.assertEqual(
                    (done.returncode, done.stderr),
                    (1, b"warmpoolctl: cannot write the output\n"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
