"""h2spec against the daemon's gRPC listener: go/h2spec.

Run by ctest: h2spec_client.py BUILD_FOLDER. All cases pass but two, which want a
body after a request that is no gRPC call: such a request gets an answer without
one, and its connection counts as silent until its first call.
"""
import os
import re
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
DEADLINE_S = 300
WANTS_A_BODY = {
    "Sends a WINDOW_UPDATE frame on half-closed (remote) stream",
    "Sends a PRIORITY frame on half-closed (remote) stream",
}
CASES_MIN = 140


def listening(folder, log):
    with open(log, encoding="utf-8") as file:
        return re.search(r"protocol=grpc address=(127\.0\.0\.1:\d+)",
                         file.read())


def main():
    setup = subprocess.run([os.path.join(HERE, "setup.sh")], text=True,
                           stdout=subprocess.PIPE)
    if setup.returncode == 77:
        return 77
    setup.check_returncode()
    client = os.path.join(setup.stdout.strip(), "go", "h2spec", "h2spec")
    with tempfile.TemporaryDirectory(prefix="wp-h2spec-") as folder:
        log = os.path.join(folder, "log")
        empty = os.path.join(folder, "manifests")
        os.mkdir(empty)
        with open(log, "wb") as out:
            daemon = subprocess.Popen(
                [os.path.join(os.path.abspath(sys.argv[1]), "allocator",
                              "warmpoold"), "--manifests=" + empty,
                 "--lease-store=memory", "--runtime-dir=" + folder + "/r",
                 "--state-dir=" + folder + "/s",
                 f"--listen=unix:{folder}/r/warmpoold.sock,127.0.0.1:0"],
                stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        try:
            end = time.monotonic() + DEADLINE_S
            while not (address := listening(folder, log)):
                assert daemon.poll() is None and time.monotonic() < end
                time.sleep(0.01)
            said = subprocess.run([client, address[1]], timeout=DEADLINE_S,
                                  text=True, stdout=subprocess.PIPE).stdout
        finally:
            daemon.terminate()
            daemon.wait(DEADLINE_S)
    passed = int(re.search(r"(\d+) passed", said)[1])
    failed = set(re.findall(r"× \d+: (.*)", said)) - WANTS_A_BODY
    if failed or passed < CASES_MIN:
        print(said)
        print("failed:", sorted(failed), "passed:", passed)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
