#!/usr/bin/env python3
"""What counts as a mistake, and what is left alone."""
import unittest

from operators import mask, mutations


def of(line):
    """Of one line inside a function: {operator: [mutated]}."""
    found = {}
    for number, name, mutated in mutations("f(void)\n" + line):
        assert number == 2
        found.setdefault(name, []).append(mutated.strip())
    return found


class Operators(unittest.TestCase):
    def test_mask_keeps_positions(self):
        text = 'a = "x < y"; /* b < c\n d */ e = \'<\';'
        masked = mask(text)
        self.assertEqual(len(masked), len(text))
        self.assertEqual(masked.count("\n"), 1)
        self.assertNotIn("<", masked)
        self.assertIn("e = ", masked)

    def test_each_operator(self):
        self.assertEqual(of("    if (a < b) {"), {
            "condition": ["if (!(a < b)) {"], "boundary": ["if (a <= b) {"]})
        self.assertEqual(of("    while (x->n == y && z) {")["connective"],
                         ["while (x->n == y || z) {"])
        self.assertEqual(of("    return a + 1;"),
                         {"sign": ["return a - 1;"], "one": ["return a + 0;"]})
        self.assertEqual(of("    x->stopped = true;"), {
            "statement": [";"], "constant": ["x->stopped = false;"]})
        self.assertEqual(of("    (void)close(fd);"), {"statement": [";"]})
        self.assertEqual(of("    n++;"), {"statement": [";"]})

    def test_what_is_left_alone(self):
        for line in ("    WP_ASSERT(a < b);", "#if A < B",
                     "    struct x *a = b + c;", "    /* a < b */",
                     '    wp_log_info("a < b");', "    const char *a,",
                     "    (void)pthread_mutex_destroy(&a->lock);",
                     "                wp_os_error(errno));"):
            self.assertEqual(of(line), {}, line)

    def test_planted_mistakes_are_left_alone(self):
        text = ("f(void)\n{\n    if (WP_MUTANT(A) &&\n        a == b) {\n"
                "        c++;\n    }\n    if (d && !WP_MUTANT(B)) {\n"
                "        e++;\n    }\n}\n")
        self.assertEqual({number for number, _, _ in mutations(text)}, {7, 8})

    def test_boundaries_that_give_the_same(self):
        for line in ("    return a->n < LEN_MAX ? a->n : LEN_MAX;",
                     "    x = f(a, b) >= c[i] ? c[i] : f(a, b);",
                     "    return a.fd >= 0;", "    f(fds[i] < 0);",
                     "    a = self->wake_fd >= 0 ? 1 : 2;"):
            self.assertNotIn("boundary", of(line), line)
        for line in ("    return a < b ? a : c;", "    return a < b ? b : b;",
                     "    x = y + a < b ? a : b;", "    x = a < b ? a : b + 1;",
                     "    f(fd < 1);", "    f(fd < last_fd);",
                     "    f(n_fds(a) < 0);", "    f(left < 0);"):
            self.assertEqual(len(of(line)["boundary"]), 1, line)
        self.assertEqual(of("    x = a < b && c < d ? c : d;")["boundary"],
                         ["x = a <= b && c < d ? c : d;"])

    def test_texts_are_not_changed(self):
        self.assertEqual(of('    say("1 + 1", a + b);')["sign"],
                         ['say("1 + 1", a - b);'])
        self.assertEqual(of("    if (c == '(') {")["condition"],
                         ["if (!(c == '(')) {"])


if __name__ == "__main__":
    unittest.main()
