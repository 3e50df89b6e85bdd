"""Small mistakes in a line of C: what a tired programmer might have written.

mutations(text) yields (line number, name of the operator, the mutated line) for
a source file. Comments, texts, preprocessor lines, assertions and log calls are
left alone: a change there changes no behaviour that a test should notice. So is
the boundary where both sides give the same: the smaller or greater of two
(a < b ? a : b), and a descriptor against 0, which is always a standard stream
(WP_OPENS_STREAMS). Code that is only run with a planted mistake (WP_MUTANT) is
none of the product."""
import re

SPACE = re.compile(r"[^\n]")
MASKED = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|'
                    r"'(?:\\.|[^'\\\n])*'", re.S)
LEFT_ALONE = re.compile(r"^\s*(#|WP_ASSERT|wp_log_|wp_kv_|_Static_assert|va_end|"
                        r"enum |struct |static |typedef |\}|WP_MUTANT)")
CALL = re.compile(r"^\s+(\(void\))?!?[a-z_][\w>.\[\]-]*\(.*\);\s*$")
ASSIGNMENT = re.compile(r"^\s+[a-z*][\w>.\[\]*()-]* (=|\+=|-=|\|=|&=) .*;\s*$")
STEP = re.compile(r"^\s+[\w>.\[\]-]+(\+\+|--);\s*$")
PLANTED = re.compile(r"^( +)if \(WP_MUTANT\(")
# On Linux these only tell the memory that it was one.
NOTHING = re.compile(r"^\s+(\(void\))?pthread_(mutex|cond|attr|condattr|mutexattr)"
                     r"_destroy\(")
TERM = r"[\w.>\[\]-]+(?:\([\w.>, -]*\))?"
EXTREME = re.compile(rf"(?:[(,=?:]|return|&&|\|\|)\s*({TERM}) (?:<=|>=|<|>)"
                     rf"(?= ({TERM}) \? ({TERM}) : ({TERM})[;,)])")
DESCRIPTOR = re.compile(r"fd\w*(?:\[\w+\])? (?:<=|>=|<|>)(?= 0\b)")
SWAPS = [
    ("boundary", re.compile(r" (<=|>=|<|>) "),
     {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}),
    ("equality", re.compile(r" (==|!=) "), {"==": "!=", "!=": "=="}),
    ("connective", re.compile(r" (&&|\|\|)(?=\s|$)"), {"&&": "||", "||": "&&"}),
    ("sign", re.compile(r"(?<=[\w)\]]) (\+|-) (?=[\w(])"),
     {"+": "-", "-": "+"}),
    ("constant", re.compile(r"(?<![\w.])(true|false)(?!\w)"),
     {"true": "false", "false": "true"}),
    ("one", re.compile(r"(?<=[+-] )(1)(?![\w.])"), {"1": "0"}),
]


def mask(text):
    """The same text with blanks for what is no code; positions stay."""
    return MASKED.sub(lambda m: SPACE.sub(" ", m.group()), text)


def negate(line, code):
    """An if or while whose condition ends on its line, the other way round."""
    found = re.search(r"\b(if|while) \(", code)
    if found is None:
        return None
    depth = 0
    for at in range(found.end() - 1, len(code)):
        depth += {"(": 1, ")": -1}.get(code[at], 0)
        if depth == 0:
            inside = line[found.end():at]
            return f"{line[:found.end()]}!({inside}){line[at:]}"
    return None


def drop(line):
    """A statement that is whole on its line, left out."""
    if line.count("(") != line.count(")"):
        return None  # The end of a statement that began above.
    if NOTHING.match(line):
        return None
    if CALL.match(line) or ASSIGNMENT.match(line) or STEP.match(line):
        return re.match(r"\s*", line).group() + ";"
    return None


def gives_the_same(code):
    """Where the comparisons end whose boundary changes nothing."""
    return ({m.end() for m in DESCRIPTOR.finditer(code)} |
            {m.end() for m in EXTREME.finditer(code)
             if {m[1], m[2]} == {m[3], m[4]}})


def of_line(line, code):
    """(operator, mutated line) for a line whose code without texts is code."""
    negated = negate(line, code)
    if negated is not None and "WP_UNLIKELY" not in line:
        yield "condition", negated
    dropped = drop(code.rstrip())
    if dropped is not None:
        yield "statement", dropped
    same = gives_the_same(code)
    for name, pattern, other in SWAPS:
        for found in pattern.finditer(code):
            if name == "boundary" and found.end(1) in same:
                continue
            yield name, (line[:found.start(1)] + other[found.group(1)] +
                         line[found.end(1):])


def mutations(text):
    lines = text.split("\n")
    planted = None  # How deep its end stands.
    for at, code in enumerate(mask(text).split("\n")):
        if planted is not None:
            planted = None if code.startswith(planted + "}") else planted
            continue
        found = PLANTED.match(code)
        if found is not None:
            planted = found[1]
        elif code.strip() and not LEFT_ALONE.match(code) and code[0] == " ":
            for name, line in of_line(lines[at], code):
                if line != lines[at]:
                    yield at + 1, name, line
