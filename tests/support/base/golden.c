#include "tests/support/base/golden.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    FILE_MAX = 1 << 20,
};

void
golden_add(struct golden *golden, const char *fmt, ...)
{
    size_t room = sizeof golden->text - golden->len;
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(golden->text + golden->len, room, fmt, ap);
    va_end(ap);
    assert_true(n >= 0 && (size_t)n < room);
    golden->len += (size_t)n;
}

char *
golden_read(const char *path)
{
    FILE *file = fopen(path, "re");
    char *text = calloc(1, FILE_MAX);

    if (file == NULL || text == NULL) {
        fail_msg("%s cannot be read; WP_WRITE_OUTPUT=1 writes it", path);
    }
    assert_true(fread(text, 1, FILE_MAX, file) < FILE_MAX);
    assert_int_equal(fclose(file), 0);
    return text;
}

void
golden_compare(const char *text, const char *path)
{
    char *expected;
    size_t line = 0;
    size_t at = 0;
    int number = 1;

    if (getenv("WP_WRITE_OUTPUT") != NULL) {
        FILE *file = fopen(path, "we");

        assert_non_null(file);
        assert_true(fputs(text, file) >= 0);
        assert_int_equal(fclose(file), 0);
    }
    expected = golden_read(path);
    for (; text[at] == expected[at] && text[at] != '\0'; at++) {
        if (text[at] == '\n') {
            line = at + 1;
            number++;
        }
    }
    if (text[at] != expected[at]) {
        fail_msg("%s, line %d: expected \"%.*s\", seen \"%.*s\"; "
                 "WP_WRITE_OUTPUT=1 writes it anew",
                 path, number, (int)strcspn(expected + line, "\n"),
                 expected + line, (int)strcspn(text + line, "\n"), text + line);
    }
    free(expected);
}
