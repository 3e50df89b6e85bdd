"""What warmpoolctl asks a daemon, and every word that it prints of the reply.

Run by ctest: ctl_output_test.py WARMPOOLCTL GENERATED_DIR [unittest arguments].
The daemon is one that answers as ctl_output_cases.py says; all that is seen is
ctl_output.txt, which WP_WRITE_OUTPUT=1 writes anew: read the difference.
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

from ctl_output_cases import CASES, FILES, POOL  # noqa: E402
from fake_daemon import FOREVER, PATIENCE, FakeDaemon  # noqa: E402

EXPECTED = os.path.join(HERE, "ctl_output.txt")


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

    def test_all_of_it(self):
        text = ""
        for case in CASES:
            words, replies, *options = case
            options = options[0] if options else {}
            said = [f"{key}={value}" for key, value in options.items()]
            text += "$ " + " ".join(["warmpoolctl", *words, *said]) + "\n"
            text += self.daemon.run(CTL, words, replies, **options) + "\n"
        if os.environ.get("WP_WRITE_OUTPUT"):
            with open(EXPECTED, "w", encoding="utf-8") as file:
                file.write(text)
        with open(EXPECTED, encoding="utf-8") as file:
            expected = file.read()
        if text != expected:
            self.fail("\n".join(difflib.unified_diff(
                expected.splitlines(), text.splitlines(), "expected", "seen",
                lineterm="", n=6)))

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
