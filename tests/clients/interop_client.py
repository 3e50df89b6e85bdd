"""gRPC's public interoperability cases: grpc-go's client against our transport.

`interop_server` serves grpc.testing.TestService on allocator/grpc; `go/interop` names
the cases. Not among them: those of metadata that a service reads, of compression, and
of credentials, which services of this transport do not see; empty_stream, since a
stream here begins with a message; and status_code_and_message, which wants UNKNOWN, a
status that no service here ends with.

Run by ctest: interop_client.py BUILD_DIR.
"""
import os
import subprocess
import sys

BUILD = os.path.abspath(sys.argv[1])
HERE = os.path.dirname(os.path.abspath(__file__))
PATIENCE_S = 300
CASES = 11


def main():
    setup = subprocess.run([os.path.join(HERE, "setup.sh")], text=True,
                           stdout=subprocess.PIPE)
    if setup.returncode == 77:
        return 77
    setup.check_returncode()
    client = os.path.join(setup.stdout.strip(), "go", "interop", "interop")
    server = subprocess.Popen(
        [os.path.join(BUILD, "tests", "interop_server")],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    try:
        address = server.stdout.readline().split()[1]
        said = subprocess.run([client, address], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True,
                              timeout=PATIENCE_S)
        print(said.stdout)
    finally:
        server.terminate()
        left = server.wait(PATIENCE_S)
    good = said.returncode == 0 and said.stdout.count("passed ") == CASES
    return 0 if good and left == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
