#!/usr/bin/env python3
"""A function does what it did, and with a switch what its copy does."""
import os
import subprocess
import tempfile
import unittest

from switched import switched, told

SOURCE = """#include <stdarg.h>
#include <stdio.h>

/* Not a function: int f(void) { */
static const struct {
    int (*call)(int);
} *unused;

static int
twice(int a,
      int (*more)(int of))
{
    if (a > 100) {
        return twice(a - 100, more);
    }
    return more(a) + more(a);
}

static void
put(const char *text, int *to)
{
    *to = text[0] == '{';
}

static int
kept(void)
{
    static int n;

    n += 1;
    return n;
}

static int
any(int n, ...)
{
    va_list list;

    va_start(list, n);
    n += va_arg(list, int);
    va_end(list);
    return n;
}

static int
same(int of)
{
    return of + 1;
}

int
main(void)
{
    int is = 0;

    put("{", &is);
    printf("%d %d %d %d\\n", twice(103, same), is, kept(), any(1, 2));
    return unused != NULL;
}
"""


def line_of(text):
    return next(at for at, line in enumerate(SOURCE.split("\n"), 1)
                if text in line)


MISTAKES = {
    3: (line_of("return more"), "    return more(a) - more(a);"),
    4: (line_of("return of + 1"), "    return of + 0;"),
    7: (line_of("*to = "), "    ;"),
    8: (line_of("n += 1"), "    n += 2;"),
    9: (line_of("n += va_arg"), "    ;"),
    11: (line_of("int is = 0"), "    int is = 1;"),
}


class Switched(unittest.TestCase):
    def test_each_function_that_can_be_copied(self):
        text, placed = switched(SOURCE, MISTAKES)
        self.assertEqual(placed, {3, 4, 7})
        with tempfile.TemporaryDirectory() as folder:
            program = os.path.join(folder, "program")
            subprocess.run(["cc", "-Wall", "-Werror", "-x", "c", "-", "-o",
                            program], input=text, text=True, check=True)
            for number, expected in ((None, "8 1 1 3"), (3, "0 1 1 3"),
                                     (4, "6 1 1 3"), (7, "8 0 1 3"),
                                     (8, "8 1 1 3")):
                command = [] if number is None else told(number)
                # Through a process that leaves it no environment.
                self.assertEqual(subprocess.run(
                    [*command, "env", "-i", program], check=True, text=True,
                    capture_output=True).stdout.strip(), expected, number)

    def test_without_a_mistake_nothing_is_changed(self):
        self.assertEqual(switched(SOURCE, {}), (SOURCE, set()))
        self.assertEqual(switched(SOURCE, {8: MISTAKES[8]}), (SOURCE, set()))


if __name__ == "__main__":
    unittest.main()
