#include "tests/support/base/journal.h"

#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/base/golden.h"

enum {
    JOURNAL_MAX = 128 << 10,
    ID_LEN = 32,
    SHOWN_MAX = 2000,
};

static char text[JOURNAL_MAX];
static size_t used;
static bool muted;

static void
put(const char *data, size_t len)
{
    if (muted) {
        return;
    }
    if (used + len >= sizeof text) {
        abort();
    }
    memcpy(text + used, data, len);
    used += len;
    text[used] = '\0';
}

/* How many bytes a random id has here; 0: it is none. */
static size_t
id_here(const char *data, size_t len)
{
    if (len < ID_LEN || !isxdigit((unsigned char)data[0]) ||
        !isxdigit((unsigned char)data[1])) {
        return 0;
    }
    for (size_t i = 2; i < ID_LEN; i++) {
        if (data[i] != data[i - 2]) {
            return 0;
        }
    }
    return ID_LEN;
}

static void
put_shown(const char *data, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)data[i];
        char shown[8];

        if (id_here(data + i, len - i) > 0) {
            (void)snprintf(shown, sizeof shown, "#%.2s", data + i);
            i += ID_LEN - 1;
        } else if (c == '\n') {
            (void)snprintf(shown, sizeof shown, "|");
        } else if (c < ' ' || c > '~') {
            (void)snprintf(shown, sizeof shown, "\\%02X", c);
        } else {
            (void)snprintf(shown, sizeof shown, "%c", c);
        }
        put(shown, strlen(shown));
    }
}

void
journal_bytes(const char *data, size_t len)
{
    char shown[32];

    if (len > SHOWN_MAX) {
        (void)snprintf(shown, sizeof shown, "(%zu bytes)", len);
        put(shown, strlen(shown));
    } else {
        put_shown(data, len);
    }
}

void
journal(const char *fmt, ...)
{
    char *line;
    va_list ap;
    int len;

    va_start(ap, fmt);
    len = vasprintf(&line, fmt, ap);
    va_end(ap);
    if (len < 0) {
        abort();
    }
    put_shown(line, (size_t)len);
    free(line);
}

void
journal_line(void)
{
    put("\n", 1);
}

const char *
journal_text(void)
{
    return text;
}

void
journal_put(const char *data, size_t len)
{
    put(data, len);
}

void
journal_mute(bool on)
{
    muted = on;
}

void
journal_drop(void)
{
    used = 0;
    text[0] = '\0';
}

void
journal_check(const char *expected, const char *file, int line)
{
    bool same = strcmp(text, expected) == 0;

    if (!same) {
        print_error("the journal is:\n%s\nand was to be:\n%s\n", text,
                    expected);
    }
    used = 0;
    text[0] = '\0';
    _assert_true(same, "the journal", file, line);
}

void
journal_compare(const char *path)
{
    used = 0;
    golden_compare(text, path);
    text[0] = '\0';
}
