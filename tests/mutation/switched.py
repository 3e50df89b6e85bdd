"""Many mistakes in one tree, each behind a switch, so that it is built once.

A function has a copy for each mistake in it, and begins by calling the copy of
the one that the process is told. Told by the soft limit of file locks: Linux has
no use for that limit any more, and processes inherit it through everything, the
walls of a sandbox included."""
import re
from collections import namedtuple

from operators import mask

# Where it begins and its name stands, where its body begins and ends; indices.
Function = namedtuple("Function", "start name_at brace end name")
NAME = re.compile(r"^([a-z_]\w*)\(")
KEPT = re.compile(r"^\s+static (?!const)")  # A copy would have one of its own.
PARAMETER = re.compile(r"\(\*(\w+)\)\(|(\w+)(?:\[[^\]]*\])?$")
STORAGE = re.compile(r"\b(static|inline|extern)\b ?")
READ = """
#include <sys/resource.h>
/* By a name that no test puts a fake in the place of. */
extern int wp_mistake_limit(int, int, const void *, struct rlimit *)
    __asm__("prlimit64");
static int wp_mistake = -1;
__attribute__((constructor)) static void
wp_mistake_read(void)
{
    struct rlimit told;

    if (wp_mistake_limit(0, RLIMIT_LOCKS, 0, &told) == 0 &&
        told.rlim_cur != RLIM_INFINITY) {
        wp_mistake = (int)told.rlim_cur;
    }
}
""".split("\n")


def told(number):
    """What stands before the command of a process that makes this mistake."""
    return ["prlimit", f"--locks={number}:"]


def functions(code):
    """Those of a file, whose lines without comments and texts are code."""
    end = 0
    for brace, line in enumerate(code):
        if line != "{" or brace < end:
            continue
        end = code.index("}", brace)
        name_at = brace - 1
        while name_at > 0 and not NAME.match(code[name_at]):
            name_at -= 1
        start = name_at - 1
        while start > 0 and re.match(r"[\w_]", code[start - 1]) and \
                not code[start - 1].endswith((";", "{", "}", ",")):
            start -= 1
        if start >= 0:
            yield Function(start, name_at, brace, end,
                           NAME.match(code[name_at]).group(1))


def parameters(head):
    """The names between the parentheses; None: it takes any number of them."""
    inside = head[head.index("(") + 1:head.rindex(")")]
    parts, depth = [""], 0
    for char in re.sub(r"\s+", " ", inside):
        depth += {"(": 1, ")": -1}.get(char, 0)
        if char == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += char
    names = [PARAMETER.search(part.strip()) for part in parts
             if part.strip() not in ("", "void")]
    if inside.rstrip().endswith("...") or None in names:
        return None
    return [found.group(1) or found.group(2) for found in names]


def can_switch(function, code):
    body = code[function.brace:function.end]
    head = "\n".join(code[function.name_at:function.brace])
    return function.name != "main" and parameters(head) is not None and \
        not any(KEPT.match(line) for line in body)


def copy_of(function, number, at, line, lines):
    """The function with the mistake, under a name of its own."""
    copy = lines[function.start:function.end + 1]
    copy[at - function.start] = line
    for k in range(function.name_at - function.start):
        copy[k] = STORAGE.sub("", copy[k])
    name_at = function.name_at - function.start
    copy[name_at] = copy[name_at].replace(
        function.name, f"{function.name}_mistake_{number}", 1)
    return ["static"] + copy


def beginning_of(function, numbers, code):
    """Of its body: the calls of the copies."""
    head = "\n".join(code[function.name_at:function.brace])
    arguments = ", ".join(parameters(head))
    returned = STORAGE.sub("", " ".join(code[function.start:function.name_at]))
    is_void = re.sub(r"_Noreturn|__attribute__\(\(.*?\)\)", "",
                     returned).strip() == "void"
    lines = ["    switch (wp_mistake) {"]
    for number in numbers:
        call = f"{function.name}_mistake_{number}({arguments});"
        lines += [f"    case {number}:", f"        {call} return;" if is_void
                  else f"        return {call}"]
    return lines + ["    default:", "        break;", "    }"]


def last_include(code):
    """The index of the last one before the file's own code; -1: there is none."""
    last = -1
    for at, line in enumerate(code):
        if line.startswith("#include"):
            last = at
        elif line.strip() and line[0] != "#" and \
                not (at > 0 and code[at - 1].endswith("\\")):
            break
    return last


def switched(text, mistakes):
    """The file with those of {number: (line number, mutated line)} that can be
    switched on, and their numbers."""
    lines, code = text.split("\n"), mask(text).split("\n")
    included = last_include(code)
    out, done, placed = lines[:included + 1] + READ, included + 1, set()
    for function in functions(code):
        mine = {number: (at - 1, line)
                for number, (at, line) in mistakes.items()
                if function.brace < at - 1 < function.end}
        if not mine or not can_switch(function, code):
            continue
        head = lines[function.start:function.brace]
        out += lines[done:function.start]
        if "static" in " ".join(head):
            out += head + [";"]  # A copy may call it.
        for number, (at, line) in mine.items():
            out += copy_of(function, number, at, line, lines)
        out += head + ["{"] + beginning_of(function, mine, code)
        out += lines[function.brace + 1:function.end + 1]
        done = function.end + 1
        placed |= set(mine)
    return ("\n".join(out + lines[done:]) if placed else text), placed
