#!/usr/bin/env python3
"""The manual's table of metrics against the code: every family that the daemon
writes is in it, with the type and the meaning that the daemon writes, and none else.

    metrics.py [--write]

--write puts the names, types and meanings of the code into the table; labels of new
rows are to be filled in by hand. integration/load holds them to a daemon's page.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TABLE = ROOT / "deploy/man/warmpoold-metrics.7.md"
SOURCES = ("allocator/metrics", "allocator/daemon")
NAME = r'"((?:warmpool|agent_sandbox|process)_[a-z0-9_]+|agent_sandboxes)"'
STRING = r'"((?:[^"\\]|\\.)*)"'
TYPES = ("counter", "gauge", "histogram")
UNITS = (("_seconds", "seconds"), ("_seconds_total", "seconds"),
         ("_bytes", "bytes"), ("_ms", "milliseconds"),
         ("makes_per_second", "sandboxes a second"),
         ("_per_second", "claims a second"), ("hit_rate", "share"),
         ("hit_rate_seen", "share"), ("hit_rate_best", "share"),
         ("hit_rate_objective", "share"), ("_dispersion", "ratio"))
# Where the name, or its type, is in a variable: {variable: name}.
CALL = re.compile(r"wp_prom_(family|put)\(\s*[^,]+,\s*(\w+|" + STRING + r"),\s*")


def unit_of(name):
    return next((unit for end, unit in UNITS if name.endswith(end)), "count")


def strings_at(text, at):
    """The string literals that follow each other from there on, as one."""
    found = ""
    while True:
        match = re.compile(r"\s*" + STRING).match(text, at)
        if match is None:
            return found, at
        found += match[1]
        at = match.end()


def families_of(text):
    """(name, type, meaning) of each family in a source file."""
    names = {}  # A variable's latest value, by where it is set.
    for match in re.finditer(r"(?:\*name|\b\w+\[\]) =\s*" + NAME, text):
        names[match.start()] = (re.match(r"\*?(\w+)", match[0])[1], match[1])
    # Rows of tables: "name", ["type",] "meaning".
    for match in re.finditer(r"\{[^{}\"]*" + NAME + r",\s*(?=\")", text):
        first, at = strings_at(text, match.end())
        if first in TYPES:
            meaning, _ = strings_at(text, at + 1)
            yield match[1], first, meaning
        else:
            yield match[1], "histogram", first
    for match in CALL.finditer(text):
        name = match[3]
        if name is None:
            before = [v for at, (k, v) in sorted(names.items())
                      if k == match[2] and at < match.start()]
            if not before:
                continue
            name = before[-1]
        if not re.fullmatch(NAME[1:-1], name):
            continue
        kind, at = ("counter" if name.endswith("_total") else "gauge",
                    match.end())
        if match[1] == "family":
            kind, at = strings_at(text, at)
            at += 1
        meaning, _ = strings_at(text, at)
        if meaning:
            yield name, kind, meaning
    for match in re.finditer(r"put_(?:priorities|kinds)\(\s*[^,]+,\s*" + NAME
                             + r",\s*\"(\w+)\",", text):
        meaning, _ = strings_at(text, match.end())
        yield match[1], match[2], meaning


def code_families():
    found = {}
    for folder in SOURCES:
        for path in sorted((ROOT / folder).glob("*.c")):
            text = path.read_text()
            here = {name: (kind, meaning)
                    for name, kind, meaning in families_of(text)}
            for name in set(re.findall(NAME, text)) - set(here) - set(found):
                # A label, or a thread's name.
                if re.search(r'\{"%s",\s' % name, text) is None and \
                        "metrics" in path.name:
                    yield name, None
            for name, (kind, meaning) in here.items():
                # Of two writers of one name the one machine's comes last.
                if name not in found or path.name == "pool_metrics.c":
                    found[name] = (kind, meaning)
    yield from found.items()


def table_rows(text):
    for line in text.splitlines():
        cells = [c.strip() for c in line.split("|")]
        if len(cells) == 7 and cells[1].startswith("`"):
            yield cells[1].strip("`"), cells[2:6]


def main():
    families = dict(code_families())
    text = TABLE.read_text()
    rows = dict(table_rows(text))
    if sys.argv[1:] == ["--write"]:
        head = text[:text.index("|---")] + "|---|---|---|---|---|\n"
        tail = text[text.rindex("|\n") + 2:] if rows else ""
        lines = [f"| `{name}` | {kind} | {rows.get(name, ['', '-'])[1]} | "
                 f"{unit_of(name)} | {meaning} |\n"
                 for name, (kind, meaning) in sorted(families.items())]
        TABLE.write_text(head + "".join(lines) + tail)
        return 0
    problems = [f"{name}: the table has no row" for name in families.keys() - rows]
    problems += [f"{name}: no such metric in the code"
                 for name in rows.keys() - families]
    for name in families.keys() & rows.keys():
        found = families[name]
        if found is None:
            problems.append(f"{name}: its type and meaning cannot be read")
        elif (rows[name][0], rows[name][3]) != found:
            problems.append(f"{name}: the table says {rows[name]}, the code {found}")
        elif rows[name][2] != unit_of(name):
            problems.append(f"{name}: unit {rows[name][2]}, not {unit_of(name)}")
    for problem in sorted(problems):
        print(f"{TABLE.name}: {problem}")
    print(f"{len(families)} metrics looked at")
    return 1 if problems or len(families) < 100 else 0


if __name__ == "__main__":
    sys.exit(main())
