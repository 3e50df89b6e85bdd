#!/usr/bin/env python3
"""Does a release say truly what it is made of?

    release.py BUILD_DIRECTORY VERSION

Makes one with deploy/release.sh, twice. The digests are those of the files, both
runs give the same bytes, and the list names each program with its digest, the package
of each library that the dynamic linker loads, and what is linked into the two static
programs.
"""
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile

import images

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PROGRAMS = ["bin/warmpool-load", "bin/warmpool-runtime", "bin/warmpoolctl",
            "libexec/warmpool/warmpool-egress",
            "libexec/warmpool/warmpool-fetch",
            "libexec/warmpool/warmpool-init", "sbin/warmpoold"]


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def make(build, version, out):
    subprocess.run([ROOT / "deploy/release.sh", build, version, out],
                   check=True, stdout=subprocess.DEVNULL,
                   env={**os.environ, "SOURCE_DATE_EPOCH": "1700000000"})
    return {line.split()[1]: line.split()[0] for line in
            (out / "SHA256SUMS").read_text().splitlines()}


def links_of(document, name):
    """The packages that a program is said to link."""
    packages = {p["SPDXID"]: p["name"] for p in document["packages"]}
    return {packages[r["relatedSpdxElement"]]
            for r in document["relationships"]
            if r["spdxElementId"] == f"SPDXRef-File-{name}"
            and r["relationshipType"].endswith("_LINK")}


def program_faults(document, path):
    said = {f["fileName"]: f["checksums"][0]["checksumValue"]
            for f in document["files"]}
    if said.get(f"./{path.name}") != digest(path):
        yield f"{path.name}: its digest is not in the list"
    libraries = {p for p in images.libraries_of(path).values() if p}
    owners = set(images.packages_of(libraries).values()) if libraries else {
        "libc6-dev"}
    missing = owners - links_of(document, path.name)
    if missing:
        yield f"{path.name}: the list leaves out {sorted(missing)}"


def main():
    if shutil.which("dpkg-query") is None:
        print("SKIP: no dpkg: which package has which library is not known")
        return 77
    build, version = sys.argv[1:3]
    problems = []
    with tempfile.TemporaryDirectory(prefix="warmpool-release-") as place:
        place = pathlib.Path(place)
        sums = make(build, version, place / "a")
        if make(build, version, place / "b") != sums:
            problems.append("the same build gives other bytes")
        files = {p.name: p for p in (place / "a").iterdir()
                 if p.name != "SHA256SUMS"}
        if sums != {name: digest(path) for name, path in files.items()}:
            problems.append("SHA256SUMS does not name the files as they are")
        archive, = (p for n, p in files.items() if n.endswith(".tar.gz"))
        document = json.loads(next(
            p for n, p in files.items() if n.endswith(".spdx.json")).read_text())
        with tarfile.open(archive) as tar:
            tar.extractall(place / "x")
        top = place / "x" / archive.name.removesuffix(".tar.gz")
        for program in PROGRAMS:
            problems += program_faults(document, top / program)
        document["packages"][0]["name"] = "warmpool"
        document["relationships"] = []
        if not list(program_faults(document, top / PROGRAMS[0])):
            problems.append("self-test: a list without packages passes")
        for needed in ("share/doc/warmpool/warmpool.spdx.json",
                       "share/warmpool/systemd/warmpoold.service"):
            if not (top / needed).exists():
                problems.append(f"the archive has no {needed}")
    for problem in problems:
        print(problem)
    print(f"{len(PROGRAMS)} programs looked at")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
