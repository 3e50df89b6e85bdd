"""warmpool-load against whole daemons whose sandboxes are files, against bare
servers that do wrong, and against nobody.

Run by ctest: load_test.py WARMPOOLD WARMPOOL_LOAD WARMPOOLCTL METRICS_MANUAL
[unittest arguments].
Its outputs are read by other code than wrote them. No figure is judged: only that
they fit each other.
"""

import csv
import html.parser
import io
import json
import math
import os
import pathlib
import pty
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import xml.etree.ElementTree

DAEMON, LOAD, CTL, MANUAL = map(os.path.abspath, sys.argv[1:5])
PATIENCE = 120  # Seconds for an awaited event.
SIZE = 64

POOL = f"""\
apiVersion: extensions.agents.x-k8s.io/v1beta1
kind: SandboxTemplate
metadata: {{name: bench}}
spec:
  podTemplate:
    spec:
      containers:
        - {{name: c, image: host, command: ["true"], ports: [{{containerPort: 80}}]}}
---
apiVersion: extensions.agents.x-k8s.io/v1beta1
kind: SandboxWarmPool
metadata: {{name: bench}}
spec:
  replicas: {SIZE}
  sandboxTemplateRef: {{name: bench}}
"""


def eventually(check, what):
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        value = check()
        if value:
            return value
        time.sleep(0.01)
    raise AssertionError("still not: " + what)


class Daemon:
    def __init__(self, *flags):
        self.dir = tempfile.mkdtemp(prefix="wp-load-")
        self.run = os.path.join(self.dir, "run")
        self.address = f"unix:{self.run}/warmpoold.sock"
        manifest = os.path.join(self.dir, "pool.yaml")
        with open(manifest, "w", encoding="utf-8") as file:
            file.write(POOL)
        self.log = open(os.path.join(self.dir, "log"), "w+", encoding="utf-8")
        self.process = subprocess.Popen(
            [DAEMON, "--manifests", manifest, "--synthetic",
             "--synthetic-ready=0", "--lease-store=memory", "--runtime-dir",
             self.run, "--state-dir", os.path.join(self.dir, "state"), *flags],
            stdout=self.log, stderr=self.log, stdin=subprocess.DEVNULL)
        try:
            eventually(self.full, "all sandboxes ready")
        except BaseException:
            self.log.seek(0)
            print(self.log.read(), file=sys.stderr)
            self.stop()
            raise

    def ctl(self, *words):
        return subprocess.run([CTL, "-a", self.address, *words], check=False,
                              capture_output=True, text=True)

    def full(self):
        done = self.ctl("pools", "bench", "-o", "json")
        if done.returncode != 0:
            return False
        return f'"ready": {SIZE}' in done.stdout

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.log.close()
        shutil.rmtree(self.dir, ignore_errors=True)


def load(*words, data=None):
    """Runs warmpool-load to its end."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("WARMPOOL_")}
    return subprocess.run([LOAD, *words], input=data, capture_output=True,
                          text=True, check=False, env=env, timeout=PATIENCE)


class WithDaemon(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon()

    @classmethod
    def tearDownClass(cls):
        cls.daemon.stop()

    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="wp-load-out-")
        self.addCleanup(shutil.rmtree, self.dir)

    def path(self, name):
        return os.path.join(self.dir, name)

    def load(self, *words, code=0, data=None):
        done = load("bench", "-a", self.daemon.address, "-q", *words, data=data)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def json(self, *words, code=0, data=None):
        run = json.loads(self.load("-o", "json", *words, code=code,
                                   data=data).stdout)
        self.assertEqual(run["check"]["passed"], code == 0)
        return run


class Loads(WithDaemon):
    """Each kind of arrivals makes the claims that were meant."""

    def phase(self, *words, data=None):
        run = self.json(*words, data=data)
        self.assertEqual(len(run["phases"]), 1)
        phase = run["phases"][0]
        self.assertEqual(phase["granted"], phase["due"])
        self.assertEqual(phase["claim"]["count"], phase["granted"])
        self.assertEqual(phase["released"], phase["granted"])
        self.assertEqual(run["check"]["leases_left"], 0)
        self.assertEqual(run["check"]["duplicates"], 0)
        times = [phase["claim"][k] for k in
                 ("min_ms", "p50_ms", "p90_ms", "p99_ms", "max_ms")]
        self.assertEqual(times, sorted(times))
        self.assertEqual(sum(s["granted"] for s in phase["slices"]),
                         phase["granted"])
        return phase

    def test_closed(self):
        phase = self.phase("-c", "8", "-n", "200")
        self.assertEqual(phase["granted"], 200)
        self.assertEqual(phase["load"]["arrivals"], "closed")
        self.assertLessEqual(phase["in_flight_max"], 8)

    def test_closed_over_threads_and_connections(self):
        phase = self.phase("-c", "8", "-n", "201", "--threads", "3",
                           "--connections", "5")
        self.assertEqual(phase["granted"], 201)

    def test_pause(self):
        phase = self.phase("--pause", "5ms", "-n", "20")
        self.assertGreaterEqual(phase["elapsed_s"], 0.005 * 19)

    def test_constant(self):
        phase = self.phase("-r", "400", "-d", "500ms")
        self.assertEqual(phase["due"], 200)
        self.assertEqual(phase["load"]["arrivals"], "constant")

    def test_poisson(self):
        first = self.phase("-r", "400", "-d", "500ms", "--arrivals", "poisson")
        again = self.phase("-r", "400", "-d", "500ms", "--arrivals", "poisson",
                           "--threads", "2")
        self.assertEqual(first["due"], again["due"])
        self.assertGreater(first["due"], 100)

    def test_burst(self):
        phase = self.phase("--burst", "20", "--every", "100ms", "-d", "250ms")
        self.assertEqual(phase["due"], 60)

    def test_burst_that_is_kept(self):
        phase = self.phase("--burst", "50", "--keep", "-n", "50")
        self.assertEqual(phase["in_flight_max"], 50)

    def test_record(self):
        phase = self.phase("--csv", "-", "--min-samples", "5",
                           data="time,count\n1\n1.1,5\n1.2,3\n")
        self.assertEqual(phase["due"], 9)
        # As programs on Windows write it.
        phase = self.phase("--csv", "-", "--min-samples", "5",
                           data="\ufefftime,count\r\n1,5\r\n1.1,1\r\n")
        self.assertEqual(phase["due"], 6)
        done = self.load("--csv", self.dir, code=2)
        self.assertIn("Is a directory", done.stderr)

    def test_hold(self):
        phase = self.phase("-r", "100", "-d", "300ms", "--hold", "50ms")
        self.assertEqual(phase["due"], 30)

    def test_batch(self):
        phase = self.phase("--batch", "10", "-n", "100")
        self.assertEqual(phase["granted"], 100)

    def test_warm_up_is_not_counted(self):
        phase = self.phase("-r", "200", "-d", "300ms", "--warmup", "200ms")
        self.assertEqual(phase["due"], 60)
        self.assertGreaterEqual(phase["calls"], 200)

    def test_steps(self):
        run = self.json("--steps", "50,100", "-d", "300ms")
        self.assertEqual([(p["name"], p["due"]) for p in run["phases"]],
                         [("rate-50", 15), ("rate-100", 30)])
        # A rate that comes again is a phase of its own, not a second turn.
        run = self.json("--steps", "50,100,50,50", "-d", "300ms")
        self.assertEqual([p["name"] for p in run["phases"]],
                         ["rate-50", "rate-100", "rate-50-2", "rate-50-3"])

    def test_pool_size_is_put_back(self):
        run = self.json("-s", "empty-storm", "-d", "200ms")
        phase = run["phases"][0]
        self.assertEqual(phase["failed_by_code"], {"RESOURCE_EXHAUSTED": 40})
        eventually(self.daemon.full, "the size that the pool had")

    def test_scenario_file_and_options(self):
        with open(self.path("s.yaml"), "w", encoding="utf-8") as file:
            file.write("rate: 100\nduration: 9s\nphases:\n- {name: one}\n"
                       "- {name: two, arrivals: poisson}\n")
        run = self.json("-s", self.path("s.yaml"), "-d", "200ms")
        self.assertEqual([p["name"] for p in run["phases"]], ["one", "two"])
        self.assertEqual(run["phases"][0]["due"], 20)

    def test_what_is_of_the_whole_run_is_said_of_all_phases(self):
        for key in ("leave: true", "turns: 3"):
            pathlib.Path(self.path("s.yaml")).write_text(
                "claims: 20\nphases:\n- {name: one}\n- {name: two, %s}\n" % key,
                "utf-8")
            done = self.load("-s", self.path("s.yaml"), code=2)
            self.assertIn(key.split(":")[0] + ": expected the same in all",
                          done.stderr)
        # What does not go together is said of its phase.
        pathlib.Path(self.path("s.yaml")).write_text(
            "phases:\n- {name: one}\n- {name: two, arrivals: burst}\n", "utf-8")
        done = self.load("-s", self.path("s.yaml"), code=2)
        self.assertIn("phase two: burst: ", done.stderr)

    def test_a_rate_is_judged_by_the_rate_when_claims_end_it(self):
        run = self.json("--steps", "10,1000000,11", "-n", "20", "--until-saturated")
        self.assertEqual([p["name"] for p in run["phases"]],
                         ["rate-10", "rate-1000000"])

    def test_two_targets_by_turns(self):
        done = self.load("--against", self.daemon.address, "-n", "40",
                         "--turns", "3")
        self.assertIn("verdict", done.stdout)
        self.assertEqual(done.stdout.count("turn 3"), 2)

    def test_stock_is_seen(self):
        phase = self.phase("-r", "50", "-d", "300ms")
        self.assertTrue(phase["stock"])
        self.assertLessEqual(max(s["ready"] for s in phase["stock"]), SIZE)


class Outputs(WithDaemon):
    """Each format, read by somebody else's code."""

    def run_all(self):
        files = {k: self.path(k) for k in
                 ("hgrm", "pkb", "pkb-records", "summary")}
        files["report"] = self.path("report.html")
        done = self.load("-o", "jsonl", "-r", "300", "-d", "500ms",
                         *(w for k, v in files.items() for w in ("--" + k, v)))
        records = [json.loads(line) for line in done.stdout.splitlines()]
        return records, {k: pathlib.Path(v).read_text("utf-8")
                         for k, v in files.items()}

    def test_files_say_what_the_records_say(self):
        records, files = self.run_all()
        self.assertEqual(len(records), 150)
        self.assertEqual(sorted(r["claim"] for r in records), list(range(150)))
        for i, r in enumerate(records):
            self.assertAlmostEqual(r["due_s"], i / 300, places=6)
            self.assertLessEqual(r["due_s"], r["sent_s"])
            self.assertLessEqual(r["sent_s"], r["done_s"])
            self.assertLessEqual(r["done_s"], r["released_s"])
        took = sorted(r["done_s"] - r["due_s"] for r in records)
        self.check_hgrm(files["hgrm"], took)
        self.check_pkb(files["pkb"], records, took)
        self.check_pkb_records(files["pkb-records"], records)
        self.check_summary(files["summary"], took)
        self.check_page(files["report"])

    def check_hgrm(self, text, took):
        rows = [line.split() for line in text.splitlines()
                if re.match(r" *[\d.]+ +[01]\.", line)]
        self.assertGreater(len(rows), 20)
        for value, share, count, *_ in rows:
            rank = math.ceil(float(share) * len(took))
            exact = took[max(rank, 1) - 1] * 1000
            self.assertEqual(int(count), rank)
            self.assertAlmostEqual(float(value), exact,
                                   delta=exact / 1000 + 0.0011)
        self.assertRegex(text, r"#\[Max +=.*Total count +=  +150\]")

    def check_pkb(self, text, records, took):
        samples = {}
        for line in text.splitlines():
            s = json.loads(line)
            samples[s["metric"]] = (s["value"], s["unit"])
            self.assertEqual(s["metadata"]["target_qps"], 300)

        def linear(values, p):
            at = (len(values) - 1) * p
            low = int(at)
            high = min(low + 1, len(values) - 1)
            return values[low] + (at - low) * (values[high] - values[low])

        for p in (50, 90, 95, 99):
            value, unit = samples[f"startup_time_p{p}"]
            self.assertEqual(unit, "seconds")
            self.assertAlmostEqual(value, linear(took, p / 100), places=7)
        self.assertAlmostEqual(samples["startup_time_max"][0], took[-1], places=7)
        due = [r["due_s"] for r in records]
        self.assertAlmostEqual(samples["submit_qps"][0],
                               150 / (max(due) - min(due)), places=3)
        self.assertEqual(samples["submit_qps"][1], "count/sec")
        done = [r["done_s"] for r in records]
        self.assertAlmostEqual(samples["completion_qps"][0],
                               150 / (max(done) - min(due)), places=3)
        self.assertEqual(samples["success_count"], (150, "count"))
        self.assertEqual(samples["error_count"], (0, "count"))
        warm = sum(r["served"] == "warm" for r in records) / 150
        self.assertAlmostEqual(samples["warm_served_fraction"][0], warm)
        events = sorted([(r["due_s"], 1) for r in records] +
                        [(r["released_s"], -1) for r in records])
        live = peak = 0
        for _, step in events:
            live += step
            peak = max(peak, live)
        self.assertEqual(samples["peak_concurrency"], (peak, "count"))

    def check_pkb_records(self, text, records):
        *lines, last = map(json.loads, text.splitlines())
        self.assertEqual(set(last), {"summary"})
        self.assertEqual(set(last["summary"]), {"peak_concurrency"})
        self.assertEqual(len(lines), len(records))
        self.assertEqual(len({l["name"] for l in lines}), len(lines))
        for line in lines:
            self.assertEqual(
                set(line), {"name", "requested_at", "ready_at", "error",
                            "warm_served", "exec_started_at",
                            "exec_completed_at", "released_at"})
            self.assertIsNone(line["error"])

    def check_summary(self, text, took):
        summary = json.loads(text)
        phase, = summary["phases"]
        stats = phase["latency"]["endToEndReady"]
        self.assertEqual(stats["count"], 150)
        for name, q in (("p50Ms", .5), ("p90Ms", .9), ("p95Ms", .95),
                        ("p99Ms", .99), ("maxMs", 1)):
            self.assertAlmostEqual(stats[name],
                                   took[math.ceil(q * 150) - 1] * 1000, places=4)
        self.assertAlmostEqual(stats["meanMs"], sum(took) / 150 * 1000, places=4)
        self.assertGreater(phase["timeToAllReadySeconds"], 0)
        window, = phase["sustainedWindows"]
        self.assertEqual((window["arrivals"], window["ready"]), (150, 150))
        self.assertLessEqual({"overallPerSecond", "steadyStatePerSecond",
                              "best10sPerSecond", "best60sPerSecond"},
                             set(phase["readyThroughput"]))

    def check_page(self, text):
        tags = []
        parser = html.parser.HTMLParser()
        parser.handle_starttag = lambda tag, attrs: tags.append((tag, attrs))
        parser.feed(text)
        self.assertEqual(sum(t == "svg" for t, _ in tags), 4)
        # Of one file: nothing is fetched, nothing runs.
        self.assertNotIn("script", [t for t, _ in tags])
        self.assertFalse([a for _, attrs in tags for a in attrs
                          if a[0] in ("src", "href")])
        for svg in re.findall(r"<svg.*?</svg>", text, re.S):
            xml.etree.ElementTree.fromstring(svg)
            self.assertNotRegex(svg, r"\b(nan|inf)\b")
        self.browse(text)

    def browse(self, text):
        """A browser draws what the page says, where there is one."""
        browser = next(filter(None, map(shutil.which, (
            "chromium", "chromium-browser", "google-chrome"))), None)
        if browser is None:
            return
        page, shot = self.path("seen.html"), self.path("seen.png")
        with open(page, "w", encoding="utf-8") as file:
            file.write(text)
        subprocess.run([browser, "--headless", "--no-sandbox", "--disable-gpu",
                        f"--user-data-dir={self.dir}/profile",
                        f"--screenshot={shot}", "file://" + page],
                       check=True, capture_output=True, timeout=PATIENCE)
        self.assertGreater(os.path.getsize(shot), 5000)

    def test_csv(self):
        text = self.load("-o", "csv", "-n", "30").stdout
        rows = list(csv.DictReader(io.StringIO(text)))
        self.assertEqual(len(rows), 30)
        self.assertEqual({r["code"] for r in rows}, {"OK"})
        self.assertTrue(all(float(r["released_s"]) >= float(r["done_s"])
                            for r in rows))

    def test_table_fits_a_terminal(self):
        text = self.load("-s", "ladder", "--steps", "100,200", "-d",
                         "200ms").stdout
        self.assertIn("Check: no sandbox was given out twice", text)
        # Long enough for what its process took.
        text += self.load("-n", "200", "--pause", "5ms", "--turns", "3",
                          "--against", self.daemon.address).stdout
        self.assertIn("memory", text)
        self.assertEqual([l for l in text.splitlines() if len(l) > 80], [])

    def on_terminal(self, term):
        """What is shown as a load goes on."""
        main, end = pty.openpty()
        process = subprocess.Popen(
            [LOAD, "bench", "-a", self.daemon.address, "-r", "20", "-d", "2s"],
            stdout=subprocess.DEVNULL, stderr=end,
            env={**os.environ, "TERM": term})
        os.close(end)
        text = b""
        with open(main, "rb", buffering=0) as stream:
            try:
                while piece := stream.read(4096):
                    text += piece
            except OSError:
                pass  # The other end is closed.
        self.assertEqual(process.wait(PATIENCE), 0)
        return text.decode()

    def test_progress_fits_the_terminal(self):
        text = self.on_terminal("xterm")
        self.assertIn("\x1b[K", text)
        for line in re.split(r"[\r\n]|\x1b\[K", text):
            self.assertLess(len(line), 80)
        self.assertNotIn("\x1b", self.on_terminal("dumb"))

    def test_svg_of_a_ladder(self):
        path = self.path("ladder.svg")
        self.load("--steps", "100,200", "-d", "200ms", "--report", path)
        root = xml.etree.ElementTree.parse(path).getroot()
        words = "".join(root.itertext())
        self.assertIn("Latency over load", words)
        self.assertIn("p99.9", words)

    def test_ladders_write_over_no_run(self):
        path = pathlib.Path(self.path("a.json"))
        path.write_text(self.load("-o", "json", "-n", "20").stdout, "utf-8")
        before = path.read_text("utf-8")
        done = load("ladders", str(path), str(path))
        self.assertEqual(done.returncode, 2)
        self.assertIn("expected OUT.svg first", done.stderr)
        self.assertEqual(path.read_text("utf-8"), before)
        self.assertEqual(load("ladders", os.devnull, str(path)).returncode, 0)

    def test_compare(self):
        for name in "ab":
            text = self.load("-o", "json", "-r", "200", "-d", "500ms").stdout
            with open(self.path(name), "w", encoding="utf-8") as file:
                file.write(text)
        done = load("compare", self.path("a"), self.path("b"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"claim p50 .*(better|worse|no difference)")

    def test_compare_says_what_does_not_fit(self):
        runs = {"a": ("-r", "100"), "b": ("-r", "200"), "c": ("-c", "1"),
                "d": ("-r", "100", "--against", self.daemon.address, "--turns", "2")}
        for name, words in runs.items():
            text = self.load("-o", "json", "-d", "200ms", *words).stdout
            pathlib.Path(self.path(name)).write_text(text, "utf-8")
        done = load("compare", self.path("a"), self.path("b"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("not the same load: rate_per_s is 100.0 in A, 200.0 in B",
                      done.stdout)
        # Nothing to compare is no comparison.
        done = load("compare", self.path("a"), self.path("c"))
        self.assertEqual(done.returncode, 2)
        self.assertIn("no phase in common", done.stderr)
        self.assertIn(f"{self.path('c')} has no phase 'constant'", done.stderr)
        # What the second target did is not the first one's.
        text = json.loads(pathlib.Path(self.path("d")).read_text("utf-8"))
        for phase in text["phases"]:
            if phase["target"] == "B":
                phase["claim"]["p50_ms"] = 9e9
        pathlib.Path(self.path("d")).write_text(json.dumps(text), "utf-8")
        done = load("compare", self.path("d"), self.path("d"))
        self.assertIn("only A is looked at", done.stderr)
        self.assertNotIn("e+09", done.stdout)

    def test_what_is_not_written_is_no_success(self):
        text = self.load("-o", "json", "-n", "20").stdout
        pathlib.Path(self.path("a")).write_text(text, "utf-8")
        for words in (("compare", self.path("a"), self.path("a")), ("--help",),
                      ("ladders", self.path("l.svg"), self.path("a")),
                      ("scenarios",), ("--version",)):
            with open("/dev/full", "w", encoding="utf-8") as full:
                done = subprocess.run([LOAD, *words], stdout=full, check=False,
                                      stderr=subprocess.PIPE, timeout=PATIENCE)
            self.assertEqual(done.returncode, 1, words)
            self.assertIn(b"cannot write the output", done.stderr)

    def test_compare_refuses_what_is_no_summary(self):
        for text in ("{", "[]", "{}", '{"schema": 1, "phases": [1]}',
                     '{"schema": 2, "phases": [{}]}'):
            with open(self.path("x"), "w", encoding="utf-8") as file:
                file.write(text)
            done = load("compare", self.path("x"), self.path("x"))
            self.assertEqual(done.returncode, 2, text)
            self.assertIn(self.path("x"), done.stderr)
        run = self.json("-r", "100", "-d", "300ms")
        for keys in (("granted_per_s",), ("slice_s",), ("claim", "p99_ms"),
                     ("claim", "count"), ("slices", 0, "p50_ms")):
            broken = json.loads(json.dumps(run))
            at = broken["phases"][0]
            for key in keys[:-1]:
                at = at[key]
            at[keys[-1]] = str(at[keys[-1]])
            pathlib.Path(self.path("x")).write_text(json.dumps(broken), "utf-8")
            done = load("compare", self.path("x"), self.path("x"))
            self.assertEqual((done.returncode, done.stdout), (2, ""), keys)
            self.assertRegex(done.stderr, r"phases\[0\]: \w+: expected a number")

    def test_an_output_that_cannot_be_written(self):
        done = self.load("-n", "20", "--hgrm", "/nowhere/x", code=1)
        self.assertIn("cannot write /nowhere/x", done.stderr)
        # Before the load, not after it.
        for path in ("/nowhere/x", self.dir, self.path("no") + "/x"):
            done = self.load("-d", "1h", "--report", path, code=1)
            self.assertIn(f"cannot write {path}: ", done.stderr)
            self.assertEqual(done.stdout, "")
        self.load("-n", "20", "--report", self.path("r.svg"))
        self.load("-n", "20", "--report", self.path("r.svg"))
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = subprocess.run(
                [LOAD, "bench", "-a", self.daemon.address, "-q", "-n", "20"],
                stdout=full, stderr=subprocess.PIPE, check=False,
                timeout=PATIENCE)
        self.assertEqual(done.returncode, 1)


def manual_rows():
    """{metric: (type, labels)} of the manual's table."""
    rows = {}
    for line in pathlib.Path(MANUAL).read_text("utf-8").splitlines():
        cells = [c.strip() for c in line.split("|")]
        if len(cells) == 7 and cells[1].startswith("`"):
            rows[cells[1].strip("`")] = (
                cells[2], set(cells[3].split(", ")) - {"-"})
    return rows


class Metrics(WithDaemon):
    """What the daemon says of itself, and what was seen from outside."""

    def page(self):
        sock = socket.socket(socket.AF_UNIX)
        sock.connect(self.daemon.run + "/warmpoold-http.sock")
        with sock, sock.makefile("rwb") as stream:
            stream.write(b"GET /metrics HTTP/1.0\r\nHost: x\r\n\r\n")
            stream.flush()
            text = stream.read().decode()
        self.assertTrue(text.startswith("HTTP/1.1 200"), text[:200])
        return text

    @staticmethod
    def samples(text):
        for line in text.splitlines():
            match = re.fullmatch(r'(\w+)(?:\{(.*)\})? (\S+)', line)
            if match:
                yield (match[1], dict(re.findall(r'(\w+)="([^"]*)"',
                                                 match[2] or "")),
                       float(match[3]))

    def test_rpc_durations_are_the_calls_that_were_made(self):
        def calls(method):
            name = "warmpool_rpc_duration_seconds"
            found = {}
            for sample, labels, value in self.samples(self.page()):
                if labels.get("method") == f"warmpool.v1.Allocator/{method}":
                    key = labels["code"], sample.removeprefix(name)
                    found.setdefault(key, []).append((labels.get("le"), value))
            return found

        before = calls("Claim").get(("OK", "_count"), [(None, 0)])[0][1]
        run = self.json("-n", "300", "-c", "4")
        after = calls("Claim")
        self.assertEqual(after["OK", "_count"][0][1] - before, 300)
        self.assertEqual(calls("Release")["OK", "_count"][0][1],
                         after["OK", "_count"][0][1])
        buckets = after["OK", "_bucket"]
        self.assertEqual((buckets[0][0], buckets[-1][0]), ("1e-05", "+Inf"))
        values = [v for _, v in buckets]
        self.assertEqual(values, sorted(values))
        self.assertEqual(values[-1], after["OK", "_count"][0][1])
        # The same claims, by how they were served.
        served = [v for name, _, v in self.samples(self.page())
                  if name == "warmpool_claim_duration_seconds_count"]
        self.assertEqual(len(served), 3)
        self.assertEqual(sum(served), after["OK", "_count"][0][1])
        # All that the target took is a part of what was seen from outside.
        self.assertLessEqual(run["phases"][0]["claim"]["count"], values[-1])
        # A refusal is told by its code.
        self.load("--pool-size", "0", "-n", "20", "--wait", "0",
                  "--min-samples", "0", "--min-granted", "0")
        self.assertEqual(
            calls("Claim")["RESOURCE_EXHAUSTED", "_count"][0][1], 20)
        eventually(self.daemon.full, "the size that the pool had")

    def test_the_page_is_as_the_manual_has_it(self):
        rows = manual_rows()
        text = self.page()
        types = dict(re.findall(r"(?m)^# TYPE (\S+) (\S+)$", text))
        self.assertGreater(len(types), 40)
        for name, kind in types.items():
            self.assertEqual(rows[name][0], kind, name)
        for sample, labels, _ in self.samples(text):
            family = sample
            if family not in types:
                family = re.sub(r"_(bucket|sum|count)$", "", family)
            self.assertEqual(set(labels) - {"le"}, rows[family][1], sample)


class Failures(WithDaemon):
    def test_a_check_that_fails(self):
        self.assertIn("min-samples",
                      self.load("-n", "5", code=1).stdout)
        self.assertIn("max-p99",
                      self.load("-n", "50", "--max-p99", "1us", code=1).stdout)
        done = self.load("--burst", str(SIZE * 20), "--keep", "--wait", "0",
                         "-n", str(SIZE * 20), "--pool-size", str(SIZE),
                         "--min-granted", "100%", "-o", "json", code=1)
        run = json.loads(done.stdout)
        self.assertIn("were granted", run["check"]["breaches"][0])
        eventually(self.daemon.full, "a full pool")

    def test_no_such_pool(self):
        done = load("nobody", "-a", self.daemon.address, "-n", "10")
        self.assertEqual(done.returncode, 3)
        self.assertIn("does not exist", done.stderr)

    def test_a_signal_leaves_what_was_seen(self):
        for number, name in ((signal.SIGINT, "SIGINT"),
                             (signal.SIGTERM, "SIGTERM")):
            before = self.daemon.ctl("pools", "bench", "-o", "json").stdout
            process = subprocess.Popen(
                [LOAD, "bench", "-a", self.daemon.address, "-r", "100", "-d",
                 "1h", "-o", "json", "-q", "--hold", "10ms"],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            eventually(lambda: self.daemon.ctl(
                "pools", "bench", "-o", "json").stdout != before, "claims")
            process.send_signal(number)
            out, errors = process.communicate(timeout=PATIENCE)
            self.assertEqual(process.returncode, 128 + number, errors)
            run = json.loads(out)
            self.assertEqual(run["signal"], name)
            self.assertTrue(run["phases"][0]["cut"])
            self.assertFalse(run["check"]["passed"])
            self.assertEqual(run["check"]["leases_left"], 0)
            self.assertIn("cut short", errors)

    def test_a_signal_is_heard_before_the_load(self):
        # Nobody writes the pipe that it reads; nobody fills the pool.
        os.mkfifo(self.path("never"))
        for words in (("--csv", self.path("never")), ("-s", self.path("never")),
                      ("--pool-size", "1048576")):
            process = subprocess.Popen(
                [LOAD, "bench", "-a", self.daemon.address, "-n", "10", *words],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            if words[0] == "--pool-size":
                eventually(lambda: not self.daemon.full(), "another size")
            else:
                status = pathlib.Path(f"/proc/{process.pid}/status")
                eventually(lambda at=status: "State:\tS" in at.read_text("utf-8"),
                           "it sleeps, at the pipe")
            process.send_signal(signal.SIGINT)
            out, errors = process.communicate(timeout=PATIENCE / 2)
            self.assertIn(process.returncode, (130, -signal.SIGINT), errors)
        self.assertIn("CUT SHORT by SIGINT", out)  # The last was under way.
        eventually(self.daemon.full, "the size that the pool had")

    def test_a_program_that_was_stopped_says_so(self):
        process = subprocess.Popen(
            [LOAD, "bench", "-a", self.daemon.address, "-r", "50", "-d", "3s",
             "-o", "json"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        process.stderr.readline()  # Progress: it runs.
        process.send_signal(signal.SIGSTOP)
        state = pathlib.Path(f"/proc/{process.pid}/stat")
        eventually(lambda: state.read_text("utf-8").split()[2] == "T",
                   "a stopped program")
        time.sleep(0.4)  # Time has to go by: it is what is measured.
        process.send_signal(signal.SIGCONT)
        out, _ = process.communicate(timeout=PATIENCE)
        phase = json.loads(out)["phases"][0]
        # Nothing is left out: what was due meanwhile is sent late, and says so.
        self.assertEqual(phase["due"], 150)
        self.assertGreaterEqual(phase["sent_late"]["max_ms"], 300)
        self.assertGreaterEqual(phase["claim"]["max_ms"], 300)
        self.assertGreaterEqual(phase["stall_max_ms"], 300)


class Slow(unittest.TestCase):
    """A target that stands still, and what it keeps open."""

    def under_way(self, daemon, *words, rate="100"):
        process = subprocess.Popen(
            [LOAD, "bench", "-a", daemon.address, "-r", rate, *words],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.kill)
        process.stderr.readline()  # Progress: it runs.
        return process

    def test_a_target_that_stands_still_is_seen_in_all_that_was_due(self):
        daemon = Daemon()
        self.addCleanup(daemon.stop)
        process = self.under_way(daemon, "-d", "2s", "--wait", "60s",
                                 "--timeout", "60s", "-o", "jsonl")
        daemon.process.send_signal(signal.SIGSTOP)
        time.sleep(0.5)  # Time has to go by: it is what is measured.
        daemon.process.send_signal(signal.SIGCONT)
        out, errors = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 0, errors)
        took = [r["done_s"] - r["due_s"] for r in map(json.loads, out.splitlines())]
        self.assertEqual(len(took), 200)
        # The 40 that were due in the first 0.4 s waited for 0.1 s and more.
        self.assertGreaterEqual(sum(t >= 0.1 for t in took), 35)
        self.assertGreaterEqual(max(took), 0.4)

    def interrupted(self, process, times):
        """Signals it so often; its document."""
        began = time.monotonic()
        for _ in range(times):
            process.send_signal(signal.SIGINT)
            time.sleep(0.2)  # Signals of one moment are one.
        out, errors = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 130, errors)
        self.assertLess(time.monotonic() - began, PATIENCE / 2)
        return json.loads(out)

    def test_a_second_signal_does_not_wait_for_a_target_that_stands_still(self):
        daemon = Daemon()
        self.addCleanup(daemon.stop)
        # With claims under way, and with none: what is left is being asked.
        for rate in ("100", "0.3"):
            with self.subTest(rate=rate):
                process = self.under_way(daemon, "-d", "1h", "--wait", "600s",
                                         "--timeout", "600s", "-o", "json",
                                         rate=rate)
                daemon.process.send_signal(signal.SIGSTOP)
                try:
                    run = self.interrupted(process, 2)
                finally:
                    daemon.process.send_signal(signal.SIGCONT)
                self.assertEqual(run["signal"], "SIGINT")
                self.assertIsNone(run["check"]["leases_left"])

    def test_a_signal_does_not_wait_for_a_target_that_never_answers(self):
        with socket.create_server(("127.0.0.1", 0)) as mute, \
                tempfile.TemporaryDirectory() as folder:
            mute.settimeout(PATIENCE / 2)
            port = mute.getsockname()[1]
            config = os.path.join(folder, "config")
            with open(config, "w", encoding="utf-8") as file:
                json.dump({"apiVersion": "v1", "kind": "Config", "current-context": "c",
                           "contexts": [{"name": "c", "context": {"cluster": "c",
                                                               "user": "u"}}],
                           "users": [{"name": "u", "user": {}}],
                           "clusters": [{"name": "c", "cluster": {
                               "server": f"http://127.0.0.1:{port}"}}]}, file)
            for target in (["-a", f"127.0.0.1:{port}"],
                           ["--kubeconfig", config]):
                with self.subTest(target=target[0]):
                    process = subprocess.Popen(
                        [LOAD, "bench", *target, "-r", "100", "-d", "1h", "--timeout",
                         "600s", "-o", "json"], stdout=subprocess.PIPE,
                        stderr=subprocess.PIPE, text=True)
                    self.addCleanup(process.kill)
                    with mute.accept()[0]:  # A question is on its way.
                        self.assertEqual(self.interrupted(process, 1)["signal"],
                                         "SIGINT")

    def test_a_wall_clock_that_leaps_changes_no_figure(self):
        daemon = Daemon()
        self.addCleanup(daemon.stop)
        env = {**os.environ, "LD_PRELOAD": os.environ["WP_LEAPING_CLOCK"],
               "ASAN_OPTIONS": "verify_asan_link_order=0"}
        done = subprocess.run(
            [LOAD, "bench", "-a", daemon.address, "-r", "100", "-d", "1500ms", "-q",
             "-o", "json"], capture_output=True, text=True, check=False, env=env,
            timeout=PATIENCE)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        phase, = json.loads(done.stdout)["phases"]
        self.assertEqual((phase["due"], phase["granted"]), (150, 150))
        self.assertLess(phase["claim"]["max_ms"], 1000 * PATIENCE)
        self.assertLess(phase["elapsed_s"], PATIENCE)
        self.assertGreaterEqual(phase["elapsed_s"], 1.5)

    def test_growth_of_a_target(self):
        daemon = Daemon()
        self.addCleanup(daemon.stop)

        def run(*words):
            done = load("bench", "-a", daemon.address, "-s", "soak", "-d", "2s",
                        "--warmup", "200ms", "--hold", "50ms", "-q", "-o", "json",
                        *words)
            return done.returncode, json.loads(done.stdout)

        code, told = run("--max-growth", "100%")
        self.assertEqual(code, 0, told["check"])
        growth = told["phases"][0]["growth"]
        self.assertGreater(growth["first_rss_bytes"], 1 << 20)
        # Of those under way, some for a moment: files, connections.
        self.assertGreater(growth["first_descriptors"], 3)
        self.assertAlmostEqual(growth["first_descriptors"],
                               growth["last_descriptors"], delta=4)
        self.assertEqual(told["check"]["leases_left"], 0)
        # Of a process that is not there nobody knows.
        code, told = run("--server-pid", "4194304")
        self.assertEqual(code, 1)
        self.assertIn("memory is not known", told["check"]["breaches"][0])

    def test_what_is_left_on_purpose(self):
        daemon = Daemon()
        self.addCleanup(daemon.stop)
        done = load("bench", "-a", daemon.address, "-n", "20", "--leave", "-q", "-o",
                    "json")
        run = json.loads(done.stdout)
        self.assertEqual((done.returncode, run["phases"][0]["released"]), (0, 0))
        self.assertIsNone(run["check"]["leases_left"])
        held = json.loads(daemon.ctl("list", "-o", "json").stdout)["claims"]
        self.assertEqual(len(held), 20)


class Hopeless(unittest.TestCase):
    """Without a daemon that is well."""

    def test_nobody_listens(self):
        with tempfile.TemporaryDirectory() as place:
            done = load("bench", "-a", f"unix:{place}/x", "-n", "10")
            self.assertEqual((done.returncode, done.stdout), (4, ""))
            self.assertIn("cannot reach", done.stderr)
            done = load("--echo", "-a", f"unix:{place}/x", "-n", "10")
            self.assertEqual(done.returncode, 4)

    def test_somebody_listens_who_does_not_answer(self):
        with (tempfile.TemporaryDirectory() as place,
              socket.socket(socket.AF_UNIX) as listener):
            listener.bind(f"{place}/x")
            listener.listen()
            done = load("bench", "-a", f"unix:{place}/x", "-n", "10")
            self.assertEqual((done.returncode, done.stdout), (4, ""), done.stderr)
            self.assertIn(f"unix:{place}/x does not answer", done.stderr)
            began = time.monotonic()
            done = load("bench", "-a", f"unix:{place}/x", "-n", "10",
                        "--timeout", "100ms")
            self.assertEqual((done.returncode, done.stdout), (4, ""), done.stderr)
            self.assertLess(time.monotonic() - began, 8)

    def test_usage(self):
        wrong = {
            ("bench", "--rate", "fast"): "--rate: rate 'fast': expected a number",
            ("bench", "--ratte", "1"): "did you mean --rate",
            ("bench", "--rate"): "--rate needs a value",
            ("bench", "more"): "'more' is too much",
            ("Bad_Name",): "expected POOL",
            ("-n", "1"): "which pool",
            ("bench", "-s", "ladderr"): "did you mean ladder",
            ("bench", "-s", "./nothing.yaml"): "nothing.yaml",
            ("bench", "--csv", "/nowhere/x"): "csv",
            ("bench", "--csv", "-", "-d", "1s"): "duration: expected closed",
            ("bench", "--wait", "500us"): "wait, ttl: expected whole milli",
            ("bench", "--connections", "4000"): "at most 64 for each thread",
            ("bench", "--keep=7"): "expected true or false",
            ("bench", "-a", "http://x"): "expected HOST:PORT",
            ("bench", "-a", "10.0.0.1:1"): "beyond loopback",
            ("bench", "-a", "[2001:db8::1]:1"): "beyond loopback",
            ("bench", "-a", "127.0.0.1:99999"): "a port from 1 to 65535",
            ("bench", "-a", "localhost:"): "a port from 1 to 65535",
            ("bench", "-a", "[::1]"): "expected HOST:PORT, [IPv6]:PORT",
            ("bench", "-a", "::1:50"): "expected HOST:PORT, [IPv6]:PORT",
            ("bench", "-a", "uinx:/x"): "expected HOST:PORT",
        }
        for words, says in wrong.items():
            done = load(*words)
            self.assertIn(done.returncode, (2, 4), words)
            self.assertIn(says, done.stderr, words)

    def test_more_connections_than_descriptors(self):
        done = subprocess.run(
            ["sh", "-c", 'ulimit -n 64; exec "$0" "$@"', LOAD, "bench",
             "--connections", "60"], capture_output=True, text=True,
            check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("64 descriptors", done.stderr)
        # Threads need some of their own.
        for words in (("--threads", "30"), ("--threads", "10", "--ahead", "2")):
            done = subprocess.run(
                ["sh", "-c", 'ulimit -n 64; exec "$0" "$@"', LOAD, "bench", "-c",
                 "30", *words], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 2)
            self.assertIn("64 descriptors", done.stderr)

    def test_help_fits_a_terminal(self):
        text = load("--help").stdout
        self.assertEqual([l for l in text.splitlines()
                          if len(l) > 79 or l.endswith(" ")], [])
        for word in ("--rps", "--vus", "--total", "--connections",
                     "iterations", "threshold"):
            self.assertIn(word, text)

    def test_scenarios_are_listed(self):
        text = load("scenarios").stdout
        for name in ("serial", "rested", "ladder", "burst-300", "burst-3600",
                     "batch-100", "ahead", "sizes", "churn", "empty-storm", "tenants",
                     "soak"):
            self.assertRegex(text, rf"(?m)^{name}$")

    def test_a_target_that_dies(self):
        daemon = Daemon()
        self.addCleanup(daemon.stop)
        process = subprocess.Popen(
            [LOAD, "bench", "-a", daemon.address, "-r", "100", "-d", "1h",
             "-o", "json", "--timeout", "300ms", "--wait", "0"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        process.stderr.readline()
        daemon.process.kill()
        out, errors = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 4, errors)
        run = json.loads(out)
        self.assertIn("the target has gone", run["error"])
        self.assertTrue(run["phases"][0]["cut"])
        self.assertGreater(run["phases"][0]["granted"], 0)
        self.assertFalse(run["check"]["passed"])

    def bare(self, answer, *words):
        """Runs against a server that only does what answer says."""
        listener = socket.socket(socket.AF_INET)
        listener.bind(("127.0.0.1", 0))
        listener.listen(16)
        kept = []

        def serve():
            while True:
                try:
                    peer, _ = listener.accept()
                except OSError:
                    return
                kept.append(peer)
                try:
                    answer(peer)
                except OSError:
                    pass

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            return load("--echo", "-a", "127.0.0.1:%d" % listener.getsockname()[1],
                        "-q", "-o", "json", "--timeout", "200ms", "--wait", "0",
                        *words)
        finally:
            # accept() in another thread is ended by this, not by close alone.
            listener.shutdown(socket.SHUT_RDWR)
            listener.close()
            thread.join(PATIENCE)
            for peer in kept:
                peer.close()

    def test_a_target_that_never_answers(self):
        done = self.bare(lambda peer: None, "-r", "100", "-d", "200ms")
        self.assertEqual(done.returncode, 1, done.stderr)
        phase = json.loads(done.stdout)["phases"][0]
        self.assertEqual(phase["failed_by_code"], {"NO_ANSWER": 20})

    def test_a_target_that_speaks_something_else(self):
        done = self.bare(lambda peer: peer.sendall(b"HTTP/1.1 400 No\r\n\r\n"),
                         "-r", "100", "-d", "200ms")
        self.assertIn(done.returncode, (1, 4), done.stderr)
        self.assertEqual(json.loads(done.stdout)["phases"][0]["granted"], 0)

    def test_a_target_that_hangs_up(self):
        done = self.bare(lambda peer: peer.shutdown(socket.SHUT_RDWR),
                         "-r", "100", "-d", "200ms")
        self.assertIn(done.returncode, (1, 4), done.stderr)
        phase = json.loads(done.stdout)["phases"][0]
        self.assertGreater(phase["connections_lost"], 0)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[5:]], verbosity=1)
