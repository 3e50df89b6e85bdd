"""The tests of a build folder, as ctest has them, each run behind a wall."""
import contextlib
import copy
import hashlib
import json
import os
import signal
import subprocess
import time

from switched import told

# A mistake in a signal's target must not reach beyond the test, nor what never
# ends beyond this tool. The shell buries what the test leaves behind, as init
# does; it would have it ignore SIGINT.
WALL = ["setpriv", "--pdeathsig", "KILL", "unshare", "--pid", "--fork",
        "--kill-child", "--mount-proc", "sh",
        "-c", 'env --default-signal=INT,QUIT "$@" & wait $!', "sh"] \
    if os.geteuid() == 0 else []
# What tests find by a path that was compiled in, or that the environment says.
PROGRAMS = ["warmpoold", "warmpoolctl", "warmpool-init", "warmpool-fetch",
            "warmpool-runtime", "warmpool-egress", "static_server", "fake_api",
            "rpc_fixture"]

SIDE_BY_SIDE = 5  # Most of them wait for processes most of the time.
LOOK_S = 0.2  # How often one that runs is looked at.


def wait(process, limit_s, stop):
    """Its exit code, 0 once stop is set; None: it takes too long."""
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.wait(LOOK_S)
        if stop is not None and stop.is_set():
            return 0
    return None


class Test:
    """One of them."""

    def __init__(self, entry):
        self.name = entry["name"]
        self.command = entry["command"]
        properties = {p["name"]: p["value"] for p in entry["properties"]}
        self.folder = properties["WORKING_DIRECTORY"]
        self.limit_s = properties.get("TIMEOUT", 600)
        self.environment = dict(pair.split("=", 1) for pair in
                                properties.get("ENVIRONMENT", []))
        self.integration = "integration" in properties.get("LABELS", [])

    def goals(self, build):
        """What ninja has to make for it."""
        goals = [os.path.relpath(word, build) for word in self.command
                 if word.startswith(build + "/") and "." not in
                 os.path.basename(word) and not os.path.isdir(word)]
        return goals + PROGRAMS if self.integration else goals

    def moved(self, build, other):
        """The same test of another build folder."""
        test = copy.copy(self)
        test.command = [word.replace(build, other) for word in self.command]
        test.folder = self.folder.replace(build, other)
        return test

    def run(self, limit_s, stop=None, switch=None, **environment):
        """True: it passed, had to be left out, or was stopped. switch: the number
        of the mistake that is made meanwhile."""
        command = WALL + self.command
        if switch is not None:
            command = told(switch) + command
        with subprocess.Popen(
                command, cwd=self.folder, stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                start_new_session=True,
                env=dict(os.environ, **self.environment,
                         **environment)) as process:
            try:
                code = wait(process, limit_s, stop)
            finally:  # What it started ends with it.
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
        return code in (0, 77)

    def digest(self):
        """Of what it is made of, beside the product."""
        total = hashlib.sha256()
        for word in self.command:
            if os.path.isfile(word) and not word.startswith("/usr/"):
                with open(word, "rb") as handle:
                    total.update(handle.read())
        return total.hexdigest()


def entries(build, pattern):
    said = subprocess.run(
        ["ctest", "--test-dir", build, "--show-only=json-v1", "-R", pattern],
        capture_output=True, text=True, check=True).stdout
    return json.loads(said)["tests"]


def names_of(build, pattern):
    """Of those that are not built as well."""
    return {entry["name"] for entry in entries(build, pattern)}


def tests_of(build, pattern):
    """Those that are built and whose names the pattern is found in; ctest says
    nothing of the others."""
    return [Test(t) for t in entries(build, pattern) if "command" in t]
