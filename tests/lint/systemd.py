#!/usr/bin/env python3
"""Is the unit what Debian's systemd understands, and as closed as it can be?

Asks systemd-analyze, which needs no running systemd. Each setting that it would
still like must be named in the unit's comments, with the reason.
"""
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
UNIT = ROOT / "deploy/systemd/warmpoold.service"
EXPOSURE_MOST = 50  # Tenths.


def analyze(*words):
    return subprocess.run(["systemd-analyze", *words, "--no-pager"], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          check=False)


def verify(text):
    """What is wrong with a unit, apart from programs and pages that are not
    installed here."""
    with tempfile.TemporaryDirectory(prefix="warmpool-unit-") as place:
        path = pathlib.Path(place) / UNIT.name
        text = re.sub(r"(?m)^Documentation=.*$", "", text)
        path.write_text(re.sub(r"/usr/sbin/warmpoold", "/bin/true", text))
        run = analyze("verify", str(path))
        said = run.stderr.strip()
        return said.splitlines() if run.returncode or said else []


def findings(path):
    """The names of what systemd-analyze would like better."""
    run = analyze("security", "--offline=true", "--json=short", str(path))
    return [row["name"] for row in json.loads(run.stdout)
            if row["exposure"] and not row["set"]]


def unexplained(names, text):
    """Those whose setting, or what it leaves open, no comment names."""
    said = "\n".join(line for line in text.splitlines()
                     if line.startswith("#"))
    open_to = " ".join(re.findall(
        r"(?m)^(?:CapabilityBoundingSet|RestrictAddressFamilies)=(.*)$", text))
    for name in names:
        setting, _, what = name.partition("=")
        parts = [w for w in re.findall(r"@\w[\w-]*|(?:CAP|AF)_\w+", what)
                 if w.startswith("@") or w in open_to.split()]
        for word in [setting] + parts:
            if not re.search(rf"{re.escape(word)}(?![\w-])", said):
                yield f"{name}: no comment of the unit names {word}"
                break


def main():
    if shutil.which("systemd-analyze") is None:
        print("SKIP: no systemd-analyze: what the unit leaves open is not known")
        return 77
    text = UNIT.read_text()
    problems = verify(text)
    if not verify(text.replace("[Service]", "[Service]\nNoSuchKey=1")):
        problems.append("self-test: an unknown key passes")
    names = findings(UNIT)
    problems += unexplained(names, text)
    if not names or not list(unexplained(names, re.sub("(?m)^#.*$", "", text))):
        problems.append("self-test: nothing has to be explained")
    run = analyze("security", "--offline=true",
                  f"--threshold={EXPOSURE_MOST}", str(UNIT))
    if run.returncode != 0:
        problems.append(f"exposure above {EXPOSURE_MOST / 10}: " +
                        run.stdout.strip().splitlines()[-1])
    for problem in problems:
        print(problem)
    print(f"{len(names)} findings, each explained" if not problems else "")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
