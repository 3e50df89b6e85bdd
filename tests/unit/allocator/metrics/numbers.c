#include "tests/unit/allocator/metrics/numbers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <event2/buffer.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pool/base/clock.h"
#include "tests/support/base/golden.h"

static char text[1 << 18];
static char seen[1 << 18];

void
numbers_fill(uint64_t *values, size_t len, uint64_t first)
{
    for (size_t i = 0; i < len; i++) {
        values[i] = first + i;
    }
}

void
numbers_record(struct wp_histogram *histogram, uint32_t first)
{
    /* The last one is above all bounds of a page. */
    static const int64_t durations_ns[] = {3 * WP_NS_PER_US, WP_NS_PER_MS,
                                           WP_NS_PER_S, 200 * WP_NS_PER_S};

    memset(histogram, 0, sizeof *histogram);
    for (size_t d = 0; d < WP_ARRAY_LEN(durations_ns); d++) {
        for (uint32_t i = 0; i < first + d; i++) {
            wp_histogram_record(histogram, durations_ns[d]);
        }
    }
}

char *
page_take(struct evbuffer *page)
{
    size_t len = evbuffer_get_length(page);

    assert_true(len < sizeof text);
    assert_int_equal(evbuffer_remove(page, text, len), len);
    text[len] = '\0';
    return text;
}

/* Copies in to out, where to stands for from. */
static void
replace(const char *in, const char *from, const char *to, char *out, size_t cap)
{
    size_t len = 0;

    while (*in != '\0') {
        bool found = strncmp(in, from, strlen(from)) == 0;

        assert_true(len + strlen(to) + 1 < cap);
        if (found) {
            len += (size_t)sprintf(&out[len], "%s", to);
        } else {
            out[len++] = *in;
        }
        in += found ? strlen(from) : 1;
    }
    out[len] = '\0';
}

void
page_compare(const char *page, const char *name)
{
    char path[4096];

    (void)snprintf(path, sizeof path, "%s/%s", WP_TEST_GOLDEN, name);
    replace(page, WP_VERSION, "VERSION", seen, sizeof seen);
    golden_compare(seen, path);
}
