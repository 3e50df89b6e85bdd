/* Any text as a traceparent: what is taken is written again as it was, but for
 * its version, what follows, and flags that nobody here knows; what is not
 * leaves nothing. */
#include <stdlib.h>
#include <string.h>

#include "pool/trace/context.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
check(bool truth)
{
    if (!truth) {
        abort();
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct wp_trace_context none = {.sampled = false};
    const struct wp_str text = {(const char *)data, size};
    struct wp_trace_context context;
    struct wp_trace_context again;
    char out[WP_TRACEPARENT_LEN + 1];

    if (!wp_trace_context_parse(text, &context)) {
        check(memcmp(&context, &none, sizeof none) == 0);
        return 0;
    }
    wp_trace_context_format(&context, out);
    check(strlen(out) == WP_TRACEPARENT_LEN);
    check(memcmp(out + 2, data + 2, WP_TRACEPARENT_LEN - 4) == 0);
    check(wp_trace_context_parse(wp_str_from(out), &again));
    check(memcmp(&context, &again, sizeof again) == 0);
    return 0;
}
