#!/usr/bin/env python3
"""tests/systemd/run.py - the unit of deploy/systemd under a running systemd.

    tests/systemd/run.py [BUILD_DIR]

Boots Debian's user-mode Linux on this machine's own files, with what is written kept in
memory, and with this machine's systemd as its process 1. Inside, check.sh starts the
unit with the quickstart's pool, claims, kills, restarts and stops it. By hand: it takes
some minutes, and needs root, Debian 12's packages systemd and user-mode-linux, and a
release build. Ends with 77 where that is not to be had.
"""
import argparse
import os
import pathlib
import select
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
KERNEL = pathlib.Path("/usr/bin/linux.uml")
TARGETS = ("warmpoold", "warmpoolctl", "warmpool-init", "warmpool-runtime",
           "warmpool-load")
VERDICT = "systemd check: "
LONGEST_S = 900


def missing():
    if os.geteuid() != 0:
        return "root is needed to install the programs as root's"
    for path in (KERNEL, pathlib.Path("/lib/systemd/systemd")):
        if not path.exists():
            return f"{path} is not there"
    return None


def listen(process):
    """All that the machine says, as it comes; False when it takes too long."""
    said = b""
    end = time.monotonic() + LONGEST_S
    while time.monotonic() < end:
        if not select.select([process.stdout], [], [], 1)[0]:
            continue
        piece = os.read(process.stdout.fileno(), 65536)
        if not piece:
            break
        sys.stdout.write(piece.decode(errors="replace"))
        sys.stdout.flush()
        said += piece
    return said.decode(errors="replace")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=
                                     argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", nargs="?", default=ROOT / "build/release",
                        type=pathlib.Path, metavar="BUILD_DIR")
    build = parser.parse_args().build.resolve()
    reason = missing()
    if reason is not None:
        print(f"SKIP: {reason}")
        return 77
    subprocess.run(["cmake", "--build", build, "--target", *TARGETS], check=True,
                   stdout=subprocess.DEVNULL)
    with tempfile.TemporaryDirectory(prefix="warmpool-systemd-") as folder:
        stage = pathlib.Path(folder) / "stage"
        subprocess.run(["cmake", "--install", build, "--prefix", stage / "usr"],
                       check=True, stdout=subprocess.DEVNULL)
        process = subprocess.Popen(
            [KERNEL, "rootfstype=hostfs", "rootflags=/", "ro",
             f"init={HERE / 'init.py'}", "mem=1024M", "con=null",
             "con0=null,fd:1", "panic=-1", "loglevel=3", f"uml_dir={folder}",
             f"WP_STAGE={stage}", f"WP_TREE={ROOT}"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, env={**os.environ, "TMPDIR": folder},
            start_new_session=True)
        try:
            said = listen(process)
        finally:
            # The machine's processes are those of its group.
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    print(VERDICT + ("passed" if VERDICT + "0 failed" in said else "FAILED"))
    return 0 if VERDICT + "0 failed" in said else 1


if __name__ == "__main__":
    sys.exit(main())
