/* Any bytes as what a warmpool-fetch that serves is asked: refused, or read and
 * written back as the same run, whose part is one file's name. */
#include <stdint.h>
#include <string.h>

#include "pool/base/assert.h"
#include "proto/checkout/fetch_message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool
same(const char *a, const char *b)
{
    return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char bytes[WP_FETCH_MESSAGE_MAX];
    char again[WP_FETCH_MESSAGE_MAX];
    struct wp_fetch_run run;
    struct wp_fetch_run back;
    size_t len;

    if (size > sizeof bytes) {
        return 0;
    }
    if (size > 0) {
        memcpy(bytes, data, size);
    }
    if (!wp_fetch_message_read(bytes, size, &run)) {
        return 0;
    }
    WP_ASSERT(run.part == NULL ||
              (run.part[0] != '\0' && strchr(run.part, '/') == NULL &&
               strcmp(run.part, "..") != 0 && strcmp(run.part, ".") != 0));
    /* Numbers may have been written with zeros in front. */
    len = wp_fetch_message_write(&run, again);
    WP_ASSERT(len <= size);
    WP_ASSERT(wp_fetch_message_read(again, len, &back));
    WP_ASSERT(same(run.part, back.part) && same(run.url, back.url) &&
              same(run.ref, back.ref) && run.bytes_max == back.bytes_max &&
              run.age_s == back.age_s);
    return 0;
}
