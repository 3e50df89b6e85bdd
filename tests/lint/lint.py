#!/usr/bin/env python3
"""House rules that a compiler cannot check; run from anywhere in the tree.

Prints one line for each breach and exits with 1 if there is any. Each rule has a
test of its own: --self-test feeds it a breach and expects it to be seen.
"""
import os
import re
import subprocess
import sys
import tomllib

# Which room may include which: rooms.toml.
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "rooms.toml"),
          "rb") as table:
    ROOMS = tomllib.load(table)
HOUSES = {room.split("/")[0] for room in ROOMS}

# Library header -> the only files that may include it.
LIBRARIES = [
    (r"grpc/(?!.*\.pb-c\.h$)",
     r"allocator/ctl/rpc_client\.c|bench/.*|tests/.*"),
    (r"(protobuf-c/|.*\.pb-c\.h)", r"proto/wire/[^/]*|runtime/sandboxd/process_wire\.c|"
     r"tests/clients/interop_server\.c|tests/unit/proto/wire/wire_fields_test\.c"),
    (r"nettle/", r"proto/checkout/trust_look\.c|pool/leases/token\.c|pool/egress/pass\.c|"
                 r"proto/formats/sandbox_token\.c|allocator/http/trigger_signature\.c"),
    (r"hiredis/",
     r"allocator/stores/redis/.*\.c"
     r"|bench/micro/bench_store_redis\.c|tests/.*"),
    (r"sqlite3\.h", r"allocator/stores/sqlite/[^/]*|tests/.*"),
    (r"curl/", r"k8s/api/http[^/]*\.c|allocator/trace/exporter\.c|tests/unit/.*"),
    (r"ares\.h", r"runtime/egress/resolver\.c"),
    (r"nghttp2/",
     r"proto/(h2|client)/[^/]*|tests/support/http/http_peer_h2\.c"
     r"|bench/load/echo_bare\.c"),
    (r"event2/",
     r"(allocator|bench|local|runtime|k8s|tests|"
     r"proto/(checkout|formats|h2|loop))/.*"),
    (r"http_parser\.h",
     r"proto/formats/http_[^/]*|allocator/ctl/sandbox/sandbox_client\.c"),
    (r"zlib\.h", r"allocator/ctl/sandbox/gunzip\.c|tests/unit/.*"),
    (r"yaml\.h", r"proto/formats/yaml_tree\.c"),
    (r"seccomp\.h", r"(tests/unit/)?local/.*"),
]

LINES_WARN, LINES_STOP = 600, 1000
FILES_STOP = 40
FUNCTION_LINES = 80


def room_of(path):
    return os.path.dirname(path)


def check_includes(path, text):
    own = room_of(path)
    for number, line in enumerate(text.splitlines(), 1):
        match = re.match(r'\s*#\s*include\s*([<"])([^>"]+)[>"]', line)
        if not match:
            continue
        header = match.group(2)
        target = room_of(header)
        if (match.group(1) == '"' and own in ROOMS and target in ROOMS
                and target not in [own, "pool/base", *ROOMS[own]]):
            yield f"{path}:{number}: {own}/ may not know {target}/"
        for library, users in LIBRARIES:
            if re.match(library, header) and not re.fullmatch(users, path):
                yield f"{path}:{number}: {header} is not for this file"


def check_rooms(rooms, files):
    """The table of rooms has no circle and names what there is; no folder has
    more files than a reader takes in."""
    left = {room: set(known) for room, known in rooms.items()}
    while left:
        free = [room for room, known in left.items() if not known & left.keys()]
        if not free:
            yield f"tests/lint/rooms.toml: a circle among {sorted(left)}"
            break
        for room in free:
            del left[room]
    folders = {}
    for path in files:
        folders.setdefault(room_of(path), []).append(path)
    for room in rooms:
        if room not in folders:
            yield f"tests/lint/rooms.toml: {room}: no such room"
    for folder, paths in folders.items():
        if folder.split("/")[0] in HOUSES and folder not in rooms:
            yield f"{folder}: not in tests/lint/rooms.toml"
        if len(paths) > FILES_STOP:
            yield f"{folder}: {len(paths)} files; at most {FILES_STOP}"


def check_guard(path, text):
    if not path.endswith(".h"):
        return
    name = re.sub(r"[^A-Z0-9]", "_", path.upper().replace("POOL/BASE/", "BASE/"))
    if f"#ifndef WP_{name}" not in text:
        yield f"{path}:1: include guard WP_{name} expected"


def check_size(path, text):
    lines = text.count("\n")
    if lines > LINES_STOP:
        yield f"{path}:1: {lines} lines; at most {LINES_STOP}: is it one noun?"
    start = None
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("{"):
            start = number
        elif line.startswith("}") and start is not None:
            if not line.startswith("};") and number - start > FUNCTION_LINES:
                yield (f"{path}:{start}: a function of {number - start} lines;"
                       f" at most {FUNCTION_LINES}")
            start = None


def check_program(path, text):
    """Its closed standard streams become nothing of its own; init is started
    with all of them, and puts /dev/null there."""
    if (path.split("/")[0] in HOUSES and path != "local/init/init.c"
            and re.search(r"^main\(int argc", text, re.M)
            and "WP_OPENS_STREAMS;" not in text):
        yield f"{path}: a program says WP_OPENS_STREAMS beside its main"


def check_text(path, text):
    for number, line in enumerate(text.splitlines(), 1):
        if line.rstrip() != line:
            yield f"{path}:{number}: white space at the end of the line"
        if "\t" in line and not path.endswith((".sh", "Makefile")):
            yield f"{path}:{number}: a tab"
        if len(line) > 80 and path.split("/")[0] in HOUSES:
            yield f"{path}:{number}: {len(line)} columns; at most 80"
        if re.search(r"\b(TODO|FIXME|XXX|HACK)\b", line):
            yield f"{path}:{number}: an unfinished mark"
        if re.search(r"\bvolatile\b", line) and path.startswith("pool/"):
            yield f"{path}:{number}: volatile is not a way to share memory"


def table_rows(text, header):
    """The first cells of the table below that line."""
    lines = text.split(header + "\n", 1)[1].splitlines()[1:]
    for line in lines:
        if not line.startswith("| "):
            return
        yield line[2:].split(" | ")[0]


def check_failure(row, read):
    """One row of tests/failures/failures.toml against the tree; read(path) is
    a file's text, "" when there is none."""
    place = f"tests/failures/failures.toml: {row['mechanism']}"
    if "mutant" in row:
        if '{"%s",' % row["mutant"] not in read("tests/sim/sim_mutants.c"):
            yield f"{place}: no mutant {row['mutant']}"
        return
    if "model" in row:
        if not re.search(rf"\bBREAK_{row['model']}\b",
                         read("tests/model/lease.pml")):
            yield f"{place}: no rule {row['model']}"
        return
    path, name = row["test"].split(": ")
    if (not re.search(rf"\b{name.split('.')[-1]}\(", read(path))
            or (path.endswith(".py") and "." not in name)):
        yield f"{place}: no test {row['test']}"
    if read(row["file"]).count(row["off"]) != 1:
        yield (f"{place}: {row['file']} has not once what is to be switched "
               f"off: {row['off'].strip()}")


def check_failures(read):
    """Each row of the tables of failures has a test that needs its
    mechanism."""
    text = read("ARCHITECTURE.md")
    named = {cell for header in FAILURE_TABLES
             for cell in table_rows(text, header)}
    rows = tomllib.loads(read("tests/failures/failures.toml"))["row"]
    for missing in sorted(named - {row["failure"] for row in rows}):
        yield f"ARCHITECTURE.md: no test is named for: {missing}"
    for row in rows:
        if row["failure"] not in named:
            yield (f"tests/failures/failures.toml: ARCHITECTURE.md has no "
                   f"row: {row['failure']}")
        yield from check_failure(row, read)


def check_documents(documents, files, read):
    """What a document names in backquotes as a path of the tree is there."""
    folders = {os.path.dirname(path) for path in files}
    folders |= {os.path.dirname(folder) for folder in folders}
    for document in documents:
        for number, line in enumerate(read(document).splitlines(), 1):
            for path in re.findall(r"`([a-z0-9]+/[\w./-]+)`", line):
                if (path.split("/")[0] in HOUSES | {"tests", "bench", "deploy"}
                        and path.rstrip("/") not in folders
                        and path not in files):
                    yield f"{document}:{number}: there is no {path}"


def check_shown(document, text, read):
    """What a document shows by a test, `FILE: NAME`, is there; each row of a
    table "shown by" names one."""
    shows = False
    for number, line in enumerate(text.splitlines(), 1):
        shows = line.startswith("|") and (
            shows or line.endswith("| shown by |"))
        tests = re.findall(r"`([\w-]+/[\w./-]+): (\w+)`", line)
        for path, name in tests:
            if not re.search(rf"\b{name}\b", read(path)):
                yield f"{document}:{number}: no {name} in {path}"
        if shows and not tests and not line.endswith(("shown by |", "---|")):
            yield f"{document}:{number}: no test is named"


# The first lines of ARCHITECTURE.md's tables of failures.
FAILURE_TABLES = ["| failure | outcome |", "| fault | outcome | shown by |",
                  "| in a cluster | outcome |"]
CHECKS = [check_includes, check_guard, check_size, check_program, check_text]


def check_file(path, text):
    for check in CHECKS:
        yield from check(path, text)


def self_test():
    bad = {
        "pool/slots/slot.c": '#include "allocator/services/service.h"\n',
        "local/a.c": '#include "proto/wire/wire.h"\n',
        "allocator/daemon/main.c": "#include <grpc/grpc.h>\n",
        "pool/pool.h": "#ifndef WP_WRONG_H\n",
        "pool/long.c": "{\n" + "x;\n" * 90 + "}\n",
        "pool/huge.c": "x;\n" * 1001,
        "pool/space.c": "int a; \n",
        "pool/tab.c": "\tint a;\n",
        "pool/wide.c": "x" * 81 + "\n",
        "pool/mark.c": "/* TO" "DO */\n",
        "pool/vol.c": "volatile int a;\n",
        "runtime/main.c": "int\nmain(int argc, char **argv)\n{\n}\n",
    }
    missed = [p for p, t in bad.items() if not list(check_file(p, t))]
    good = {
        "pool/slots/slot.c": '#include "pool/base/str.h"\n',
        "proto/h2/session.c": "#include <nghttp2/nghttp2.h>\n",
        "pool/slots/slot.h": "#ifndef WP_POOL_SLOTS_SLOT_H\n",
        "runtime/main.c": "WP_OPENS_STREAMS;\n\nint\nmain(int argc)\n{\n}\n",
    }
    wrong = [p for p, t in good.items() if list(check_file(p, t))]
    if not list(check_rooms({"a": ["b"], "b": ["a"]}, ["a/x.c", "b/x.c"])):
        missed.append("a circle of rooms")
    if list(check_rooms({"a": ["b"], "b": []}, ["a/x.c", "b/x.c"])):
        wrong.append("rooms without a circle")
    named = {"a.md": "`pool/gone.c`", "b.md": "`pool/pool.h` `pool/`"}
    if not list(check_documents(["a.md"], ["pool/pool.h"], named.get)):
        missed.append("a document that names what is gone")
    if list(check_documents(["b.md"], ["pool/pool.h"], named.get)):
        wrong.append("a document that names what is there")
    head = "| a | shown by |\n|---|---|\n| b | `%s` |\n"
    tests = {"a/t.c": "void test_x(void)"}
    for shown in ("a/t.c: test_y", "a/gone.c: test_x", "nothing"):
        if not list(check_shown("S.md", head % shown,
                                lambda p: tests.get(p, ""))):
            missed.append(f"a document that shows by {shown}")
    if list(check_shown("S.md", head % "a/t.c: test_x", tests.get)):
        wrong.append("a document that shows by a test")
    row = {"mechanism": "m", "test": "a.c: t", "file": "a.c", "off": "x"}
    tree = {"a.c": "t(void) x", "tests/sim/sim_mutants.c": '{"M",',
            "tests/model/lease.pml": "#ifdef BREAK_R\n"}
    for wrong_row, right in ((dict(row, test="a.c: u"), row),
                             (dict(row, off="y"), dict(row, test="a.c: t")),
                             (dict(row, mutant="N"), dict(row, mutant="M")),
                             (dict(row, model="S"), dict(row, model="R"))):
        if not list(check_failure(wrong_row, lambda p: tree.get(p, ""))):
            missed.append(f"failures.toml ({wrong_row})")
        if list(check_failure(right, lambda p: tree.get(p, ""))):
            wrong.append(f"failures.toml ({right})")
    if list(table_rows("| h |\n|---|\n| a | b |\n| c | d |\n\n| e |",
                       "| h |")) != ["a", "c"]:
        wrong.append("a table")
    for path in missed:
        print(f"self-test: the breach in {path} was not seen")
    for path in wrong:
        print(f"self-test: {path} is fine but was refused")
    return not missed and not wrong


def main():
    root = subprocess.run(
        ["git", "-C", os.path.dirname(os.path.abspath(__file__)), "rev-parse",
         "--show-toplevel"], capture_output=True, text=True,
        check=True).stdout.strip()
    everything = subprocess.run(
        ["git", "-C", root, "ls-files"], capture_output=True,
        text=True, check=True).stdout.split()
    files = [path for path in everything if path.endswith((".c", ".h"))]

    def read(path):
        try:
            with open(os.path.join(root, path), encoding="utf-8") as handle:
                return handle.read()
        except FileNotFoundError:
            return ""

    breaches = 0
    for breach in check_failures(read):
        print(breach)
        breaches += 1
    documents = [path for path in everything if path.endswith(".md")]
    for breach in [*check_rooms(ROOMS, files),
                   *check_documents(documents, everything, read),
                   *check_shown("SECURITY.md", read("SECURITY.md"), read)]:
        print(breach)
        breaches += 1
    for path in files:
        text = read(path)
        for breach in check_file(path, text):
            print(breach)
            breaches += 1
        if LINES_WARN < text.count("\n") <= LINES_STOP:
            print(f"note: {path} has {text.count(chr(10))} lines")
    ok = self_test()
    print(f"{len(files)} files, {breaches} breaches")
    return 0 if ok and breaches == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
