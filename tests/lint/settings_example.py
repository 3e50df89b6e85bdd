#!/usr/bin/env python3
"""deploy/examples/warmpoold.yaml says of each setting what warmpoold itself says.

    settings_example.py WARMPOOLD            compares
    settings_example.py WARMPOOLD --write    writes the file anew
"""
import pathlib
import re
import subprocess
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
EXAMPLE = ROOT / "deploy" / "examples" / "warmpoold.yaml"
BEGIN = "## == "  # Before that is what people wrote.


def default_of(value, text):
    """A default as the file says it."""
    if text == "empty":
        return "[]" if value.startswith("a list") else '""'
    return f'"{text}"' if ":" in text else text


def settings_of(reference):
    """The file's part that follows from the output of --help-settings."""
    out = ""
    for part in re.split(r"\n(?=##+ )", reference.strip()):
        head, _, body = part.partition("\n")
        if head.startswith("## "):
            out += f"{BEGIN}{head[3:]} ==\n\n"
            continue
        name = head.removeprefix("### ")
        said, _, facts = body.strip().partition("\n\n- Value: ")
        found = re.fullmatch(r"(.*)\n- Default: (.*)\n- Change: .*", facts)
        if found is None:
            raise SystemExit(f"--help-settings: cannot read '{name}'")
        if name == "config":
            continue  # Only as a flag.
        out += textwrap.fill(" ".join(said.split()), 79, initial_indent="## ",
                             subsequent_indent="## ", break_long_words=False,
                             break_on_hyphens=False)
        out += f"\n# {name}: {default_of(*found.groups())}\n\n"
    return out[:-1]


def check_self():
    """A changed text is seen, and so is one that is not a reference."""
    one = ("## A\n\n### x\n\nSays\nit.\n\n- Value: a list of texts\n"
           "- Default: empty\n- Change: needs a restart\n")
    assert settings_of(one) == "## == A ==\n\n## Says it.\n# x: []\n"
    assert settings_of(one) != settings_of(one.replace("Says", "said"))


def main():
    check_self()
    reference = subprocess.run([sys.argv[1], "--help-settings"], check=True,
                               capture_output=True, text=True,
                               timeout=60).stdout
    text = EXAMPLE.read_text()
    wanted = text[:text.index(BEGIN)] + settings_of(reference)
    if "--write" in sys.argv[2:]:
        EXAMPLE.write_text(wanted)
        return 0
    for has, want in zip(text.splitlines(), wanted.splitlines()):
        if has != want:
            print(f"{EXAMPLE.relative_to(ROOT)}: '{has}'; expected '{want}'")
            break
    if text != wanted:
        print("settings_example.py WARMPOOLD --write writes it anew")
    return 1 if text != wanted else 0


if __name__ == "__main__":
    sys.exit(main())
