"""The server says what kagent's own says, but for stated differences."""
import os
import sys
import tempfile

from runtime_rig import Server, main
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                "..", "..", "clients"))
import mcp_transcript  # noqa: E402


class Transcript(unittest.TestCase):
    maxDiff = None

    def test_transcript(self):
        with tempfile.TemporaryDirectory(prefix="wp-mcp-") as folder:
            skills = os.path.join(folder, "skills")
            work = os.path.join(folder, "work")
            os.mkdir(work)
            mcp_transcript.skills_make(skills)
            server = Server("--skills-dir", skills)
            try:
                heard = mcp_transcript.speak(server.port, work, skills)
            finally:
                self.assertEqual(server.stop(), 0)
        expected = mcp_transcript.expected("warmpool")
        self.assertEqual(list(heard), list(expected))
        for name in expected:
            with self.subTest(name):
                self.assertEqual(heard[name], expected[name])


if __name__ == "__main__":
    main()
