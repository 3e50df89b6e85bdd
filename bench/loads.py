"""bench/loads.py - warmpool-load for the scripts beside it."""
import json
import os
import pathlib
import subprocess


class Failed(Exception):
    """It could not be run; that a check failed is in the summary."""


def program(build):
    return pathlib.Path(build) / "bench/harness/warmpool-load"


def summary(build, *words, core=None):
    """What warmpool-load's JSON says, and whether all its checks passed."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("WARMPOOL_")}
    pinned = [] if core is None else ["taskset", "-c", str(core)]
    run = subprocess.run(
        [*pinned, str(program(build)), "-q", "-o", "json", *map(str, words)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env,
        check=False)
    if run.returncode not in (0, 1) or not run.stdout:
        raise Failed(f"warmpool-load {' '.join(map(str, words))}: {run.stderr}")
    return json.loads(run.stdout)


def phase(build, *words, core=None):
    """The only phase of a load, with the breaches of its check in "wrong"."""
    told = summary(build, *words, core=core)
    only, = told["phases"]
    only["wrong"] = told["check"]["breaches"]
    only["duplicates"] = told["check"]["duplicates"]
    return only


def cpu_us(only, side):
    """Processor time of a call; side: "server" or "client". None: not known."""
    seconds = only[f"{side}_cpu_s"]
    return None if seconds is None else seconds * 1e6 / max(only["calls"], 1)
