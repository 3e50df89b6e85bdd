"""h2spec, the public conformance test of HTTP/2, against proto/h2.

Every listener for gRPC and the webhook's stands on proto/h2. `h2_page_server` puts
a page behind it, for h2spec speaks no gRPC, and would only be refused elsewhere.

Run by ctest: h2spec_client.py BUILD_DIR.
"""
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

BUILD = os.path.abspath(sys.argv[1])
HERE = os.path.dirname(os.path.abspath(__file__))
PATIENCE_S = 300

# What h2spec counts as a failure and is none: it was written for RFC 7540.
CLOSED = "closed streams are not remembered: their frames are ignored"
ANSWERED = "the whole answer may have closed the stream before: as above"
NO_PRIORITIES = "RFC 9113 has no priorities; the server's settings say so"
ALLOWED = {
    ("http2/5.1", "half closed (remote): Sends a DATA frame"): ANSWERED,
    ("http2/5.1", "half closed (remote): Sends a HEADERS frame"): ANSWERED,
    ("http2/6.1", 'Sends a DATA frame on the stream that is not in "open" or'
     ' "half-closed (local)" state'): ANSWERED,
    ("http2/5.1", "closed: Sends a DATA frame after sending RST_STREAM frame"):
        CLOSED,
    ("http2/5.1", "closed: Sends a HEADERS frame after sending RST_STREAM frame"):
        CLOSED,
    ("http2/5.1", "closed: Sends a DATA frame"): CLOSED,
    ("http2/5.1", "closed: Sends a HEADERS frame"): CLOSED,
    ("http2/5.1.1",
     "Sends stream identifier that is numerically smaller than previous"): CLOSED,
    ("http2/5.3.1", "Sends PRIORITY frame that depend on itself"): NO_PRIORITIES,
    ("http2/6.3", "Sends a PRIORITY frame with 0x0 stream identifier"):
        NO_PRIORITIES,
}


def judge(client, port, folder):
    """Says what failed; returns whether all of it is allowed."""
    report = os.path.join(folder, "report.xml")
    said = subprocess.run([client, "127.0.0.1", port, "/", report], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          timeout=PATIENCE_S)
    cases = list(xml.etree.ElementTree.parse(report).iter("testcase"))
    failed = {(case.get("package"), case.get("classname")): case
              for case in cases if case.find("failure") is not None or
              case.find("error") is not None}
    skipped = sum(case.find("skipped") is not None for case in cases)
    print(f"{len(cases)} cases, {len(failed)} differ from h2spec's expectation,"
          f" {skipped} are not for this server")
    good = len(cases) > 140
    for key, case in failed.items():
        why = ALLOWED.get(key)
        print("allowed," if why else "FAILED,", *key, "-",
              why or "".join(case.itertext()).strip())
        good = good and why is not None
    if not good:
        print(said.stdout)
    return good


def main():
    setup = subprocess.run([os.path.join(HERE, "setup.sh")], text=True,
                           stdout=subprocess.PIPE)
    if setup.returncode == 77:
        return 77
    setup.check_returncode()
    client = os.path.join(setup.stdout.strip(), "go", "h2spec", "h2spec")
    with tempfile.TemporaryDirectory(prefix="wp-h2spec-") as folder:
        server = subprocess.Popen(
            [os.path.join(BUILD, "tests", "h2_page_server")],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        try:
            good = judge(client, server.stdout.readline().strip().split(":")[1],
                         folder)
        finally:
            server.terminate()
            left = server.wait(PATIENCE_S)
    return 0 if good and left == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
