"""The Go client of agent-sandbox's sandboxd, as it is published: go/sandboxd.

Run by ctest: go_sandboxd_client.py BUILD_FOLDER.
"""
import os
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
DEADLINE_S = 300


def main():
    setup = subprocess.run([os.path.join(HERE, "setup.sh")], text=True,
                           stdout=subprocess.PIPE)
    if setup.returncode == 77:
        return 77
    setup.check_returncode()
    client = os.path.join(setup.stdout.strip(), "go", "sandboxd", "sandboxd")
    with tempfile.TemporaryDirectory(prefix="wp-sandboxd-") as folder:
        ports = os.path.join(folder, "ports")
        server = subprocess.Popen(
            [os.path.join(os.path.abspath(sys.argv[1]), "runtime",
                          "warmpool-runtime"), "--bind", "127.0.0.1",
             "--port", "0", "--grpc-port", "0", "--workspace", folder,
             "--port-file", ports], stdin=subprocess.DEVNULL)
        try:
            end = time.monotonic() + DEADLINE_S
            while not os.path.exists(ports):
                assert server.poll() is None and time.monotonic() < end
                time.sleep(0.01)
            with open(ports) as file:
                port = dict(line.split() for line in file)["grpc"]
            subprocess.run([client, "127.0.0.1:" + port], check=True,
                           timeout=DEADLINE_S)
        finally:
            server.terminate()
            code = server.wait(DEADLINE_S)
    return code


if __name__ == "__main__":
    sys.exit(main())
