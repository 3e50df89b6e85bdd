#!/usr/bin/env python3
"""Who calls whom, as the linker sees it, for what #include lines do not show.

    symbols.py BUILD_DIRECTORY [--circles | --tests-only]

Reads with nm the objects of a build and prints one line for each breach:

  - a circle of more than CIRCLE_STOP files that call each other: such files are
    one file in pieces, which nobody can read or test alone;
  - a public name that two files of the product define: which one a program gets
    depends on the order of its libraries;
  - a public function that neither the product nor a test calls from another
    file: dead, or it should be static.

KNOWN and KNOWN_NAMES say what is not mended yet. An entry that has become better
than it says is a breach too, so that nothing gets worse again.

--circles prints the calls that close each circle of more than CIRCLE_STOP files,
--tests-only the public functions that only tests and benchmarks call. Exits with
77 where the objects hold more than the product: sanitizers, fuzz targets.
"""
import json
import os
import re
import shlex
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HOUSES = ("pool", "proto", "runtime", "local", "k8s", "allocator")
CIRCLE_STOP = 5

# Room that most files of a circle are in -> its files.
KNOWN = {}
# Names that two files define, or that no other file calls.
KNOWN_NAMES = set()


class Object:
    """What one source file defines and uses."""

    def __init__(self, path):
        self.path = path
        self.names = set()      # all public names defined here
        self.functions = set()  # those of them that are functions
        self.uses = set()
        self.inner = set()      # public names used in the file that defines them

    def product(self):
        return self.path.split("/")[0] in HOUSES


def read_nm(text, found):
    for line in text.splitlines():
        kind, name = line.split()[-2:]
        if kind in "Uvw":
            found.uses.add(name)
        elif kind.isupper():
            found.names.add(name)
            if kind in "TW":
                found.functions.add(name)


def objects_of(build, inner):
    """{source path: Object}; a source that is built for several targets is one.
    inner: look for names used in the file that defines them too, which is slow."""
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
        commands = json.load(file)
    found, binaries = {}, {}
    for entry in commands:
        source = os.path.normpath(os.path.join(entry["directory"], entry["file"]))
        if source.startswith(build) or not source.startswith(ROOT):
            continue
        path = os.path.relpath(source, ROOT)
        words = shlex.split(entry["command"])
        binary = os.path.join(entry["directory"], words[words.index("-o") + 1])
        if not os.path.exists(binary):
            raise SystemExit(f"symbols.py: {binary} is not built: build all first")
        binaries[binary] = found.setdefault(path, Object(path))
    for part in run("nm", "-g", *binaries).split("\n\n"):
        binary, _, text = part.strip().partition(":\n")
        read_nm(text, binaries[binary])
    for binary, one in binaries.items() if inner else ():
        if one.product():
            one.inner |= one.names & set(
                re.findall(r" ([\w.]+) [+-] ", run("readelf", "-rW", binary)))
    return found


def run(*command):
    return subprocess.run(command, text=True, stdout=subprocess.PIPE,
                          check=True).stdout


def owners_of(objects):
    """{public name: [product files that define it]}; main is every program's."""
    owners = {}
    for one in objects:
        if one.product() and "main" not in one.names:
            for name in one.names:
                owners.setdefault(name, []).append(one.path)
    return owners


def graph_of(objects):
    """{file: {file it calls: names}} of the product."""
    owners = owners_of(objects)
    graph = {}
    for one in objects:
        if one.product():
            calls = graph.setdefault(one.path, {})
            for name in one.uses:
                for owner in owners.get(name, [])[:1]:
                    if owner != one.path:
                        calls.setdefault(owner, set()).add(name)
    return graph


def circles(graph):
    """The strongly connected components of two nodes and more: Tarjan's."""
    index, low, stack, found = {}, {}, [], []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in graph.get(node, ()):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            at = stack.index(node)
            found.append(sorted(stack[at:]))
            del stack[at:]

    for node in sorted(graph):
        if node not in index:
            visit(node)
    return [circle for circle in found if len(circle) > 1]


def room_of(circle):
    rooms = [os.path.dirname(path) for path in circle]
    return max(sorted(set(rooms)), key=rooms.count)


def check_circles(objects, known):
    largest = {}
    for circle in circles(graph_of(objects)):
        room = room_of(circle)
        largest[room] = max(len(circle), largest.get(room, 0))
        if len(circle) > max(CIRCLE_STOP, known.get(room, 0)):
            yield (f"{room}: {len(circle)} files call each other in a circle"
                   f" (at most {CIRCLE_STOP}): {' '.join(circle)}")
    for room, size in known.items():
        if largest.get(room, 0) < size:
            yield (f"symbols.py: KNOWN: the circle of {room} has"
                   f" {largest.get(room, 0)} files now, not {size}")


def check_names(objects, known):
    twice = {name: paths for name, paths in owners_of(objects).items()
             if len(paths) > 1}
    for name, paths in sorted(twice.items()):
        if name not in known:
            yield f"{name} is defined twice: {' '.join(sorted(paths))}"
    dead = {name: path for path, name in unused(objects, objects)}
    for name, path in sorted(dead.items()):
        if name not in known:
            yield f"{path}: {name} is called by no other file"
    for name in sorted(known - twice.keys() - dead.keys()):
        yield f"symbols.py: KNOWN_NAMES: {name} is mended"


def unused(objects, users):
    """Public functions of the product that no other file of the users calls."""
    used = set().union(*(user.uses for user in users))
    for one in objects:
        if one.product() and "main" not in one.names:
            for name in sorted(one.functions - used):
                yield one.path, name


def check(objects, known, known_names):
    yield from check_circles(objects, known)
    yield from check_names(objects, known_names)


def made(path, names, uses):
    one = Object(path)
    read_nm("\n".join([f"0 T {name}" for name in names.split()]
                      + [f"U {name}" for name in uses.split()]), one)
    return one


def self_test():
    """Each breach is seen, and only it."""
    ring = [made(f"pool/core/{n}.c", f"f{n}", f"f{(n + 1) % 6}") for n in range(6)]
    chain = ring[:5] + [made("pool/core/5.c", "f5", "puts")]
    user = made("tests/unit/a.c", "main", "f0 g")
    expected = [
        ([*chain, user], {}, set(), ""),
        ([*ring, user], {}, set(), "6 files call each other"),
        ([*ring, user], {"pool/core": 6}, set(), ""),
        ([*ring, user], {"pool/core": 7}, set(), "has 6 files now, not 7"),
        ([*chain, user], {"pool/core": 6}, set(), "has 0 files now, not 6"),
        ([made("local/a.c", "g", ""), made("k8s/a.c", "g", ""), user], {}, set(),
         "g is defined twice: k8s/a.c local/a.c"),
        ([made("local/a.c", "g", ""), made("k8s/a.c", "g", ""), user], {}, {"g"}, ""),
        ([made("local/a.c", "g", ""), user], {}, {"g"}, "g is mended"),
        ([made("local/a.c", "g h", ""), user], {}, set(), "h is called by no other"),
        ([made("local/a.c", "g h", ""), user], {}, {"h"}, ""),
        ([made("local/a.c", "g h", ""), made("local/b.c", "main", "h"), user], {},
         set(), ""),
    ]
    ok = True
    for number, (objects, known, names, text) in enumerate(expected):
        breaches = list(check(objects, known, names))
        if [text in breach for breach in breaches] != [True] * (text != ""):
            print(f"self-test: case {number}: {breaches}, not '{text}'")
            ok = False
    return ok


def print_circles(graph):
    for circle in circles(graph):
        if len(circle) > CIRCLE_STOP:
            print(f"{len(circle)}: {room_of(circle)}")
            for path in circle:
                for other, names in sorted(graph[path].items()):
                    if other in circle:
                        print(f"  {path} -> {other}: {' '.join(sorted(names))}")


def main():
    build = os.path.abspath(sys.argv[1])
    with open(os.path.join(build, "CMakeCache.txt"), encoding="utf-8") as cache:
        if re.search(r"(?m)^WP_(SANITIZE:\w+=.+|(FUZZ|CORE_ONLY):\w+=ON)$",
                     cache.read()):
            print("SKIP: the objects of this build hold more than the product, or less")
            return 77
    ok = self_test()
    objects = list(objects_of(build, "--tests-only" in sys.argv).values())
    if "--circles" in sys.argv:
        print_circles(graph_of(objects))
        return 0
    if "--tests-only" in sys.argv:
        product = [one for one in objects if one.product()]
        inner = {one.path: one.inner for one in objects}
        for path, name in unused(objects, product):
            if name not in inner[path]:
                print(f"{path}: {name}")
        return 0
    breaches = list(check(objects, KNOWN, KNOWN_NAMES))
    for breach in breaches:
        print(breach)
    sizes = [len(circle) for circle in circles(graph_of(objects))]
    print(f"{len(objects)} files, {len(sizes)} circles of at most"
          f" {max(sizes, default=0)} files, {len(breaches)} breaches")
    return 0 if ok and not breaches else 1


if __name__ == "__main__":
    sys.exit(main())
