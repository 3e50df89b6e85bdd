/* Any bytes, cut anywhere: the first byte is the bound, the second the length
 * of the pieces. Lines hold no newline and keep the bound; none is lost. */
#include <stdlib.h>
#include <string.h>

#include "k8s/watch/line.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct total {
    size_t bytes; /* Newlines too. */
    size_t len_max;
};

static void
check(bool truth)
{
    if (!truth) {
        abort();
    }
}

static bool
add(void *ctx, struct wp_str line)
{
    struct total *total = ctx;

    check(line.len <= total->len_max);
    check(line.len == 0 || memchr(line.ptr, '\n', line.len) == NULL);
    total->bytes += line.len + 1;
    return true;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct wp_line line;
    struct total total = {0};
    size_t piece;
    enum wp_line_result result = WP_LINE_OK;

    if (size < 2) {
        return 0;
    }
    total.len_max = (size_t)data[0] + 1;
    piece = (size_t)data[1] + 1;
    wp_line_init(&line, total.len_max);
    for (size_t at = 2; at < size && result == WP_LINE_OK; at += piece) {
        struct wp_str bytes = {(const char *)data + at,
                               size - at < piece ? size - at : piece};

        result = wp_line_feed(&line, bytes, add, &total);
        check(line.len <= total.len_max);
    }
    check(result == WP_LINE_TOO_LONG || total.bytes + line.len == size - 2);
    wp_line_fini(&line);
    return 0;
}
