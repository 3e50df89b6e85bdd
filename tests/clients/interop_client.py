"""gRPC's public interoperability cases: the clients of grpc-go and grpc-java against
our transport.

`interop_server` serves grpc.testing.TestService on allocator/grpc; `go/interop` and
JAVA_CASES name the cases. Not among them: those of metadata that a service reads, of compression, and
of credentials, which services of this transport do not see; empty_stream, since a
stream here begins with a message; and status_code_and_message, which wants UNKNOWN, a
status that no service here ends with.

Run by ctest: interop_client.py BUILD_DIR go|java.
"""
import os
import shutil
import subprocess
import sys

BUILD = os.path.abspath(sys.argv[1])
HERE = os.path.dirname(os.path.abspath(__file__))
PATIENCE_S = 300
GO_CASES = 11
JAVA_CASES = ("empty_unary", "large_unary", "client_streaming", "server_streaming",
              "ping_pong", "timeout_on_sleeping_server", "cancel_after_begin",
              "cancel_after_first_response", "unimplemented_method",
              "unimplemented_service", "rpc_soak", "channel_soak")
# A program of a second need not be compiled well; the first call of a soak has to
# load it, beside whatever else runs here.
JAVA_QUICK = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
JAVA_PATIENT = ("--soak_per_iteration_max_acceptable_latency_ms=30000",
                "--soak_overall_timeout_seconds=120")


def run(words):
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, timeout=PATIENCE_S, check=False)
    print(done.stdout)
    return done


def go(clients, address):
    said = run([os.path.join(clients, "go", "interop", "interop"), address])
    return said.returncode == 0 and said.stdout.count("passed ") == GO_CASES


def java(clients, address):
    """Each case is a run of grpc-java's program."""
    jars = os.path.join(clients, "java", "interop", "lib")
    if not os.path.isdir(jars) or not shutil.which("java"):
        print("SKIP: no client of grpc-java: no Java, or no Maven that brings it")
        sys.exit(77)
    host, port = address.split(":")
    failed = [case for case in JAVA_CASES if run(
        ["java", *JAVA_QUICK, "-cp", os.path.join(jars, "*"),
         "io.grpc.testing.integration.TestServiceClient", "--server_host=" + host,
         "--server_port=" + port, "--use_tls=false",
         *JAVA_PATIENT, "--test_case=" + case]).returncode != 0]
    print("failed in Java:", failed)
    return not failed


def main():
    setup = subprocess.run([os.path.join(HERE, "setup.sh")], text=True,
                           stdout=subprocess.PIPE)
    if setup.returncode == 77:
        return 77
    setup.check_returncode()
    clients = setup.stdout.strip()
    server = subprocess.Popen(
        [os.path.join(BUILD, "tests", "interop_server")],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    try:
        address = server.stdout.readline().split()[1]
        good = {"go": go, "java": java}[sys.argv[2]](clients, address)
    finally:
        server.terminate()
        left = server.wait(PATIENCE_S)
    return 0 if good and left == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
