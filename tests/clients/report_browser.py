"""warmpool-load's reports, looked at in a real browser: what is drawn, and where.

Run by ctest: report_browser.py BUILD_DIR. Needs Debian's chromium
(deploy/install-packages.sh browser); exits with 77 where there is none. The page gets a
script that measures it: a report itself has none.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

BUILD = pathlib.Path(sys.argv[1]).absolute()
LOAD = BUILD / "bench/harness/warmpool-load"
PATIENCE = 120
BEFORE = "<script>const errors = []; onerror = m => { errors.push(String(m)); };</script>"
# Of each picture: its texts and its lines, in the pixels that they take.
AFTER = """<script>
const box = e => { const r = e.getBoundingClientRect();
                   return [r.left, r.top, r.right, r.bottom]; };
const seen = [...document.querySelectorAll("svg")].map(svg => ({
  box: box(svg),
  frame: box(svg.querySelector(".f")),
  texts: [...svg.querySelectorAll("text")].map(t => ({text: t.textContent, box: box(t)})),
  lines: [...svg.querySelectorAll("path")].map(p => ({
    length: p.getTotalLength(), shown: getComputedStyle(p).stroke !== "none",
    box: box(p)})),
}));
const out = document.createElement("pre");
out.id = "seen";
out.textContent = JSON.stringify({errors, seen, wide: document.body.scrollWidth >
                                  document.documentElement.clientWidth});
document.body.append(out);
</script>"""
POOL = """\
apiVersion: extensions.agents.x-k8s.io/v1beta1
kind: SandboxTemplate
metadata: {name: bench}
spec: {podTemplate: {spec: {containers: [{name: c, image: host, command: ["true"],
  ports: [{containerPort: 80}]}]}}}
---
apiVersion: extensions.agents.x-k8s.io/v1beta1
kind: SandboxWarmPool
metadata: {name: bench}
spec: {replicas: 64, sandboxTemplateRef: {name: bench}}
"""


def overlap(a, b):
    """How many pixels of two boxes are the same; a hair is none."""
    wide = min(a[2], b[2]) - max(a[0], b[0])
    high = min(a[3], b[3]) - max(a[1], b[1])
    return wide * high if wide > 1 and high > 2 else 0


def inside(a, b):
    return (a[0] >= b[0] - 1 and a[1] >= b[1] - 1 and a[2] <= b[2] + 1
            and a[3] <= b[3] + 1)


class Reports(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = pathlib.Path(tempfile.mkdtemp(prefix="wp-browser-"))
        cls.addClassCleanup(shutil.rmtree, cls.dir)
        (cls.dir / "pool.yaml").write_text(POOL, "utf-8")
        cls.address = f"unix:{cls.dir}/run/warmpoold.sock"
        with open(cls.dir / "log", "wb") as log:
            cls.daemon = subprocess.Popen(
                [BUILD / "allocator/warmpoold", "--synthetic", "--synthetic-ready=0",
                 "--lease-store=memory", f"--manifests={cls.dir}/pool.yaml",
                 f"--runtime-dir={cls.dir}/run", f"--state-dir={cls.dir}/state"],
                stdout=log, stderr=log)
        cls.addClassCleanup(cls.stop)
        end = time.monotonic() + PATIENCE
        while cls.load("-n", "10").returncode == 4:
            if cls.daemon.poll() is not None or time.monotonic() > end:
                raise RuntimeError((cls.dir / "log").read_text("utf-8"))
            time.sleep(0.05)

    @classmethod
    def stop(cls):
        cls.daemon.terminate()
        cls.daemon.wait(PATIENCE)

    @classmethod
    def load(cls, *words):
        return subprocess.run([LOAD, "bench", "-a", cls.address, "-q", *words],
                              capture_output=True, text=True, check=False,
                              timeout=PATIENCE)

    def look(self, page):
        """What the browser says of a page's pictures."""
        path = self.dir / "page.html"
        text = page.replace("<body>", f"<body>{BEFORE}", 1)
        self.assertIn(BEFORE, text)
        path.write_text(text.replace("</body>", f"{AFTER}</body>", 1), "utf-8")
        run = subprocess.run(
            [shutil.which("chromium"), "--headless", "--no-sandbox", "--disable-gpu",
             f"--user-data-dir={self.dir}/browser", "--window-size=1280,900",
             "--dump-dom", path.as_uri()],
            capture_output=True, text=True, check=False, timeout=PATIENCE)
        found = re.search(r'<pre id="seen">(.*?)</pre>', run.stdout, re.S)
        self.assertTrue(found, run.stderr[-2000:])
        seen = json.loads(found[1].replace("&gt;", ">").replace("&lt;", "<")
                          .replace("&amp;", "&"))
        self.assertEqual(seen["errors"], [])
        return seen

    def check_picture(self, picture, lines):
        texts = [t for t in picture["texts"] if t["text"]]
        self.assertGreater(len(texts), 6)
        for i, a in enumerate(texts):
            self.assertTrue(inside(a["box"], picture["box"]), a)
            for b in texts[i + 1:]:
                self.assertEqual(overlap(a["box"], b["box"]), 0, (a, b))
        self.assertEqual(len(picture["lines"]), lines)
        for line in picture["lines"]:
            self.assertTrue(line["shown"])
            self.assertGreater(line["length"], 20)
            self.assertTrue(inside(line["box"], picture["frame"]), line)

    def test_a_page_of_one_load(self):
        done = self.load("-r", "300", "-d", "2s", "--hold", "20ms", "--report",
                         str(self.dir / "r.html"))
        self.assertEqual(done.returncode, 0, done.stdout)
        page = (self.dir / "r.html").read_text("utf-8")
        self.assertNotIn("<script", page)
        seen = self.look(page)
        self.assertFalse(seen["wide"])
        # Percentiles; rate; hits; stock.
        self.assertEqual(len(seen["seen"]), 4)
        for picture, lines in zip(seen["seen"], (1, 2, 1, 2)):
            self.check_picture(picture, lines)

    def test_a_page_of_a_ladder(self):
        done = self.load("--steps", "50,100,200,400", "-d", "500ms", "--report",
                         str(self.dir / "l.html"))
        self.assertEqual(done.returncode, 0, done.stdout)
        seen = self.look((self.dir / "l.html").read_text("utf-8"))
        self.check_picture(seen["seen"][0], 4)

    def test_ladders_beside_each_other(self):
        files = []
        for name in ("memory, 1 thread", "memory, 2 threads"):
            done = self.load("--steps", "50,100,200", "-d", "300ms", "-o", "json")
            files.append(self.dir / f"{name}.json")
            files[-1].write_text(done.stdout, "utf-8")
        run = subprocess.run([LOAD, "ladders", self.dir / "p.svg", *files],
                             capture_output=True, text=True, check=True)
        self.assertIn("| memory, 2 threads | ", run.stdout)
        svg = (self.dir / "p.svg").read_text("utf-8")
        seen = self.look(f"<!DOCTYPE html><html><body>{svg}</body></html>")
        self.check_picture(seen["seen"][0], 2)

    def test_a_terminal_sees_80_columns(self):
        done = self.load("--steps", "50,100", "-d", "300ms", "--hold", "10ms")
        self.assertEqual([l for l in done.stdout.splitlines() if len(l) > 80], [])


if __name__ == "__main__":
    if shutil.which("chromium") is None:
        print("SKIP: no chromium here: deploy/install-packages.sh browser",
              file=sys.stderr)
        sys.exit(77)
    unittest.main(argv=sys.argv[:1] + sys.argv[2:], verbosity=1)
