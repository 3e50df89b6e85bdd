#!/usr/bin/env python3
"""Would the images of deploy/Dockerfile run what they are made for?

Building them needs a registry and minutes; what usually breaks them can be seen without:
programs that are not installed, or not where the Dockerfile takes them from, and
libraries that the packages it selects do not bring. Asks the dynamic linker and dpkg:

    images.py BUILD_DIRECTORY
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
DOCKERFILE = ROOT / "deploy" / "Dockerfile"
# Whom the manifests run each image as.
USERS = {"warmpoold": "65532:65532", "runtime": "65532:65532", "fetch": "65533:65532"}


def output(*command):
    return subprocess.run(command, text=True, stdout=subprocess.PIPE,
                          check=True).stdout


class Stage:
    """What one FROM adds to another."""

    def __init__(self, parent):
        self.parent = parent
        self.copies = []
        self.packages = []
        self.user = None

    def all(self, field):
        return ([] if self.parent is None else self.parent.all(field)) + \
            getattr(self, field)


def selected(command):
    """The packages that a RUN installs: by its awk program from packages.txt, and by
    name."""
    names = []
    for program in re.findall(r"awk '([^']*)'", command):
        names += output("awk", program, str(ROOT / "deploy/packages.txt")).split()
    install = re.search(r"apt-get install ([^&|]*)", command)
    words = install[1].split() if install else []
    return names + [word for word in words if not word.startswith("-")]


def stages():
    """{name: Stage}, in order."""
    found = {}
    text = re.sub(r"(?m)^#.*\n", "", DOCKERFILE.read_text())
    for line in re.sub(r"\\\n", " ", text).splitlines():
        word, _, rest = line.partition(" ")
        if word == "FROM":
            parent, name = re.fullmatch(r"(\S+) AS (\S+)", rest).groups()
            stage = found[name] = Stage(found.get(parent))
        elif word == "COPY" and rest.startswith("--from=build "):
            stage.copies.append(rest.split()[1:])
        elif word == "COPY":
            missing = [n for n in rest.split()[:-1] if not (ROOT / n).exists()]
            assert not missing, f"the Dockerfile copies {missing}: no such file"
        elif word == "RUN":
            stage.packages += selected(rest)
        elif word == "USER":
            stage.user = rest
    return found


class Installed:
    """Packages of this machine, which are Debian's as those of the images are."""

    def __init__(self):
        self.needs = {}
        self.always = set()
        rows = output("dpkg-query", "-W", "-f=${Package}\t${Priority}\t"
                      "${Essential}\t${Depends}, ${Pre-Depends}\t"
                      "${Provides}\n")
        provides = {}
        for row in rows.splitlines():
            name, priority, essential, needs, gives = row.split("\t")
            self.needs.setdefault(name, set()).update(
                re.findall(r"(?:^|[,|])\s*([a-z0-9][a-z0-9+.-]+)", needs))
            if priority == "required" or essential == "yes":
                self.always.add(name)
            for other in re.findall(r"(?:^|,)\s*([a-z0-9][a-z0-9+.-]+)", gives):
                provides.setdefault(other, set()).add(name)
        for other, names in provides.items():
            self.needs.setdefault(other, set()).update(names)

    def closure(self, names):
        """They, and what they bring with them."""
        seen = set()
        todo = list(names)
        while todo:
            name = todo.pop()
            if name not in seen:
                seen.add(name)
                todo += self.needs.get(name, ())
        return seen


def libraries_of(program):
    """{soname: path} of all that the dynamic linker loads; path None: not found."""
    found = {}
    for line in output("ldd", str(program)).splitlines():
        match = re.match(r"\s*(\S+) => (\S+)", line)
        if match:
            found[match[1]] = match[2] if match[2].startswith("/") else None
    return found


def candidates(library):
    """Its path as it is, and as packages from before /usr was merged name it."""
    real = str(pathlib.Path(library).resolve())
    return {library, real, real.removeprefix("/usr")}


def packages_of(libraries):
    """{path: package}, in one call: each reads dpkg's whole list of files."""
    run = subprocess.run(
        ["dpkg", "-S", *{c for l in libraries for c in candidates(l)}],
        text=True, check=False, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL)
    owner = {}
    for line in run.stdout.splitlines():
        names, _, path = line.partition(": ")
        owner[path] = names.split(":")[0]
    return {l: next((owner[c] for c in candidates(l) if c in owner), None)
            for l in libraries}


def main():
    if shutil.which("dpkg-query") is None:
        print("SKIP: no dpkg: which package has which library is not known")
        return 77
    build = pathlib.Path(sys.argv[1])
    problems = []
    installed = Installed()
    images = [(n, s) for n, s in stages().items() if s.all("copies")]
    assert {n for n, _ in images} == set(USERS), images
    with tempfile.TemporaryDirectory(prefix="warmpool-images-") as out:
        subprocess.run(["cmake", "--install", str(build), "--prefix",
                        f"{out}/usr"], check=True, stdout=subprocess.DEVNULL)
        uses = {}  # (image, where in it): {soname: path}
        for name, stage in images:
            problems += [f"{name}: {package} is not among the packages that the "
                         "programs run with here"
                         for package in stage.all("packages")
                         if package.startswith("lib")
                         and package not in installed.needs]
            if stage.user != USERS[name]:
                problems.append(f"{name}: expected USER {USERS[name]}, which the "
                                "manifests run it as")
            for source, target in stage.all("copies"):
                program = pathlib.Path(out) / source.removeprefix("/out/")
                if program.is_file() and not os.access(program, os.X_OK):
                    continue  # It tells of the programs.
                if program.is_file():
                    uses[name, target + program.name] = libraries_of(program)
                else:
                    problems.append(f"{name}: {source} is not installed")
    owners = packages_of({path for libraries in uses.values()
                          for path in libraries.values() if path})
    for (name, where), libraries in uses.items():
        brought = installed.closure(
            [*dict(images)[name].all("packages"), *installed.always])
        for soname, path in libraries.items():
            if path is None:
                problems.append(f"{name}: {where}: {soname} is not found")
            elif owners[path] not in brought:
                problems.append(f"{name}: {where}: {soname} is of "
                                f"{owners[path]}, which it does not install")
    for problem in problems:
        print(problem)
    print(f"{len(uses)} programs of {len(images)} images looked at")
    return 1 if problems or not uses else 0


if __name__ == "__main__":
    sys.exit(main())
