"""The commands of ctl_output_test.py that read and bring files."""

import gzip
import io
import os
import tarfile

from ctl_output_cases import FAR_MS, lease, status, TOKEN
from fake_http import Answer
from warmpool.v1 import allocator_pb2 as pb

MIB = 1 << 20
HELD = pb.ClaimInfo(claim_id="c1", state=pb.CLAIM_STATE_HELD, sandbox="sb-1")
GET = {"GetClaim": [HELD]}
WITH = ["--token-file", "lease.json"]  # With the sandbox's name.
LEASE = '{"claim_id": "c1", "sandbox": "sb-9", "token": "%s"}' % TOKEN.hex()
BIG = 700 * 1024


def tar(*members, packed=False):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT,
                      ) as archive:
        for name, content, kind in members:
            info = tarfile.TarInfo(name)
            info.type = kind
            info.size = len(content)
            info.mode = 0o755
            archive.addfile(info, io.BytesIO(content))
    return gzip.compress(out.getvalue(), mtime=0) if packed else out.getvalue()


def make_files(directory):
    def put(name, content, mode=0o644):
        path = os.path.join(directory, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(content)
        os.chmod(path, mode)

    put("lease.json", LEASE.encode())
    put("app/run.sh", b"#!\n", 0o755)
    put("app/.hidden/b.txt", b"b\n")
    put("app/a.txt", b"a\n")
    put("pdf/SKILL.md", b"---\n")
    put("sources.json", b'{"allowed_domains": ["a.test"], "allowed_remotes": '
                        b'["https://g.test/t/*", "https://g.test:84/*"]}')
    put("denied.json", b'{"denied_remotes": ["https://g.test:84/*"]}')
    put("linked/one", b"")
    os.symlink("one", os.path.join(directory, "linked/link"))
    os.makedirs(os.path.join(directory, "piped"))
    os.mkfifo(os.path.join(directory, "piped/fifo"))
    put("deep/" + "d/" * 64 + "f", b"deep\n")
    put("deeper/" + "d/" * 65 + "f", b"")
    put("big1", b"1" * BIG)
    put("big2", b"2" * BIG, 0o700)
    put("packed.tgz", tar(("t/x", b"x\n", tarfile.REGTYPE), packed=True))
    put("plain.tar", tar(("t/y", b"y\n", tarfile.REGTYPE)))
    put("link.tar", tar(("l", b"", tarfile.SYMTYPE)))
    put("cut.tgz", gzip.compress(b"x" * 2000)[:-9])
    for name, size in (("gib", 1 << 30), ("gib1", (1 << 30) + 1)):
        put(name, b"")
        os.truncate(os.path.join(directory, name), size)


def cases(directory):
    """Shorter: a file that loses its end while it is read."""
    def shorter(name):
        path = os.path.join(directory, name)
        with open(path, "wb") as file:
            file.truncate(64 * MIB)
        return Answer(then=lambda: os.truncate(path, 0))

    return [*COPIES, *refusals(), *brings(), *uploads(shorter("sparse")),
            (["cp", "sparse2", "c1:s", *WITH], {},
             {"http": [shorter("sparse2")]}),
            (["cp", "big1", "c1:s", *WITH], {},
             {"http": [Answer(413, b'{"error": "too long"}', early=True)]}),
            *HELP]


COPIES = [
    (["cp", "one.txt", "c1:"], GET, {"http": [Answer()]}),
    (["cp", "one.txt", "c1:a/", *WITH, "-o", "json"], {},
     {"http": [Answer()]}),
    (["cp", "big1", "c1:/workspace/b", *WITH], {}, {"http": [Answer()]}),
    (["cp", "-", "c1:from-pipe", *WITH], {},
     {"http": [Answer()], "data": b"piped\n"}),
    (["cp", "c1:a b/\u00e9~._-z", "-", *WITH], {},
     {"http": [Answer(body=b"copied\n")]}),
    (["cp", "c1:x", "-", *WITH, "-o", "json"], {},
     {"http": [Answer(raw=b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n"
                      b"\r\n3\r\nabc\r\n4\r\ndef\n\r\n0\r\n\r\n")]}),
    (["cp", "c1:x", "copy", *WITH, "-o", "json"], {},
     {"http": [Answer(body=b"x" * 200000)]}),
    (["cp", "c1:x", "/dev/full", *WITH], {}, {"http": [Answer(body=b"x")]}),
    (["cp", "c1:x", "gone/copy", *WITH], {}, {"http": [Answer(body=b"x")]}),
    (["cp", "c1:x/", "copy", *WITH], {}),
    (["cp", "c1:" + "x" * 4096, "copy", *WITH], {}),
    (["cp", "c1:" + "x" * 4095, "-", *WITH], {}, {"http": [Answer(404)]}),
    (["cp", "one.txt", "c1:" + "x" * 4096, *WITH], {}),
    (["cp", "-", "c1:a/", *WITH], {}),
    (["cp", "-", "c1:", *WITH], {}),
    (["cp", "one.txt", 'c1:a"b', *WITH], {}),
    (["cp", "one.txt", "c1:a\\b", *WITH], {}),
    (["cp", "./c1:x", "/c1:x"], {}),
    (["cp", "c1:x", "c1:y"], {}),
    (["cp", ":x", "y"], {}),
    (["cp", "gone", "c1:", *WITH], {}),
    (["cp", "one.txt/x", "c1:", *WITH], {}),
    (["cp", "app", "c1:", *WITH], {}),
    (["cp", "one.txt", "c1:"], {"GetClaim": [status("NOT_FOUND", "none")]}),
    (["cp", "one.txt", "c1:"], {"GetClaim": [status("INTERNAL", "broken")]}),
    (["cp", "one.txt", "c1:"], {"GetClaim": [pb.ClaimInfo(
        claim_id="c1", state=pb.CLAIM_STATE_LOST, lost_reason="it died")]}),
    (["cp", "one.txt", "c1:"], {"GetClaim": [pb.ClaimInfo(
        claim_id="c1", state=pb.CLAIM_STATE_WAITING)]}),
    (["cp", "c1:x", "-", *WITH, "--http", "unix:DIR/none"], GET),
    (["cp", "c1:x", "-", *WITH, "--http", "127.0.0.1:1"], GET),
    (["cp", "c1:x", "-", *WITH, "--http", "somewhere"], GET),
    (["exec", "c1", *WITH, "--env", "A=b=c", "-C", "/d", "--time-limit", "1s",
      "--", "ls", "-l"], {}, {"http": [Answer()]}),
    (["exec", "c1", *WITH, "--", "ls"], GET,
     {"http": [Answer(422, b'{"error": "exec ls: no such file"}')]}),
    (["exec", "c1", *WITH, "--", "ls"], GET,
     {"http": [Answer(422, b'{"error": "exec ls: is a directory"}')]}),
    (["exec", "c1", *WITH, "--", "ls"], GET,
     {"http": [Answer(422, b'{"error": "no room"}')]}),
]


def refusals():
    """Each status, and where its text is looked for."""
    said = (b'{"error": "said"}', b'{"message": "said", "detail": "not"}',
            b'{"detail": "said"}', b'{"error": 1}', b"[]", b"",
            b'{"error": "' + b"x" * 4096 + b'"}')
    for code in (199, 299, 300, 400, 401, 403, 404, 418, 429, 499, 500,
                 502, 503, 504):
        yield (["cp", "c1:x", "-", *WITH], GET,
               {"http": [Answer(code, said[0])]})
    for body in said:
        yield (["cp", "c1:x", "-", *WITH], GET, {"http": [Answer(400, body)]})
    gone = {"GetClaim": [status("NOT_FOUND", "none")]}
    for code in (404, 503, 500):
        yield (["cp", "c1:x", "-", *WITH], gone,
               {"http": [Answer(code, said[0])]})
    for raw in (b"hello\r\n", b"", b"HTTP/1.1 200 OK\r\n",
                b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf\n",
                b"HTTP/1.1 400 No\r\nContent-Length: 9\r\n\r\nhalf\n"):
        yield (["cp", "c1:x", "-", *WITH], GET, {"http": [Answer(raw=raw)]})
    yield (["cp", "c1:x", "-", *WITH, "--timeout", "50ms"], GET,
           {"http": [Answer(silent=True)]})
    yield ["cp", "big1", "c1:x", *WITH], GET, {"http": [Answer(reset=True)]}


def brings():
    """What is read before a daemon is asked."""
    def claim(*options, **more):
        done = {"Claim": [pb.ClaimResponse(lease=lease("c1"))]}
        return ["claim", "agents", "-o", "name", *options], done, more

    yield claim("--copy", "app:x", "--copy", "one.txt:x/one")
    yield claim("--copy", "app:.")
    yield claim("--copy", "-:p", data=b"piped\n")
    yield claim("--copy", "/dev/null:empty")
    yield claim("--archive", "packed.tgz", "--archive", "plain.tar:sub")
    yield claim("--archive", "-:sub", data=tar(("z", b"z\n", tarfile.REGTYPE)))
    yield claim("--copy", "deep:d", "-t", "me")
    for copy in ("gone:x", "app", "linked:x", "piped:x", "deeper:x", "gib1:x",
                 "one.txt:/x", "one.txt:../x", "one.txt:" + "x" * 513,
                 "one.txt:.warmpool"):
        yield claim("--copy", copy)
    yield claim("--copy", "one.txt:a", "--copy", "app:.", "--copy",
                "secret.txt:a")
    yield claim("--copy", "gib:a", "--copy", "one.txt:b")
    for archive in ("gone.tar", "link.tar", "cut.tgz", "one.txt", "app",
                    "gib1"):
        yield claim("--archive", archive)
    for skill in ("pdf", "./pdf/", "app", "gone", "one.txt"):
        yield claim("--skill", skill)
    repo = ("--repo", "https://g.test/t/a@main", "--repo",
            "https://g.test:84/t/b:b")
    for password in ("g.test=@secret.txt", "me@g.test=@secret.txt",
                     "g.test:84=@secret.txt", "h.test=@secret.txt",
                     "g.tes=@secret.txt", "g.test=secret.txt", "g.test",
                     "=@secret.txt", "me@=@secret.txt", "g.test=@gone"):
        yield claim(*repo, "--repo-password", password)
    yield claim(*repo, "--repo-password", "g.test=-", data=b"word\n")
    yield claim("--repo", "somewhere")
    yield claim(*repo, "--sources", "sources.json")
    yield claim(*repo, "--sources", "sources.json", "--egress", "none")
    yield claim(*repo, "--sources", "denied.json")
    yield claim("--sources", "one.txt")
    yield claim("--sources", "gone")
    yield claim("--run")
    yield claim("--volume", "notes", "--workdir", "w")
    yield claim("--secret", "A=@gone")
    yield claim("--secret", "A=@app")
    yield claim("--secret-env", "A=@secret.txt", "--secret", "B=-",
                data=b"two\n")
    yield claim("--secret", "A=@big1")


def uploads(shorter):
    """More than a claim brings by itself."""
    words = ["claim", "agents", "--id", "u1", "--copy", "big1:a b", "--copy",
             "big2:two", "--copy", "-:three"]
    granted = {"Claim": [pb.ClaimResponse(lease=lease("u1", token=TOKEN))]}
    back = {**granted, "Release": [pb.ReleaseResponse(was_held=True)]}
    again = {"Claim": [pb.ClaimResponse(lease=lease("u1"), replayed=True)]}
    kept = {**granted, "Release": [status("UNAVAILABLE", "leaving")]}
    fine = [Answer(), Answer(), Answer()]
    failing = [Answer(), Answer(507, b'{"error": "no room"}')]

    yield words, granted, {"http": fine, "data": b"3\n"}
    yield [*words, "-o", "json"], granted, {"http": fine, "data": b"3\n"}
    for replies in (back, again, kept):
        yield words, replies, {"http": failing, "data": b"3\n"}
        yield ["renew", "u1", "-o", "name"], {"Renew": [pb.RenewResponse(
            token=TOKEN, deadline_unix_ms=FAR_MS)]}
    yield (["claim", "agents", "--id", "u2", "--copy", "sparse:s"], back,
           {"http": [shorter]})


HELP = [(words, {}) for words in (
    [], ["help"], ["-h"], ["help", "get"],
    ["help", "gett"], ["get", "-h", "-o", "json"],
    ["gett", "c1"], ["wholly-unknown"],
    ["--output", "name", "version", "x"], ["-o", "xml", "version"],
    ["--bogus", "version"], ["get"], ["get", "a", "b"], ["version", "-a"])]
