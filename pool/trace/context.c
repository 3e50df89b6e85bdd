#include "pool/trace/context.h"

#include <stdio.h>
#include <string.h>

enum {
    TRACE_AT = 3,
    SPAN_AT = TRACE_AT + 2 * WP_TRACE_ID_LEN + 1,
    FLAGS_AT = SPAN_AT + 2 * WP_SPAN_ID_LEN + 1,
};

_Static_assert(FLAGS_AT + 2 == WP_TRACEPARENT_LEN, "the parts of the text");

/* The standard has no capitals, which wp_hex_decode takes. */
static bool
decode(struct wp_str text, size_t at, uint8_t *out, size_t len)
{
    for (size_t i = at; i < at + 2 * len; i++) {
        if (text.ptr[i] >= 'A' && text.ptr[i] <= 'F') {
            return false;
        }
    }
    return wp_hex_decode((struct wp_str){text.ptr + at, 2 * len}, out, len);
}

static bool
is_zero(const uint8_t *bytes, size_t len)
{
    uint8_t any = 0;

    for (size_t i = 0; i < len; i++) {
        any |= bytes[i];
    }
    return any == 0;
}

static bool
parse(struct wp_str text, struct wp_trace_context *out)
{
    uint8_t version;
    uint8_t flags;

    if (text.len < WP_TRACEPARENT_LEN || text.ptr[TRACE_AT - 1] != '-' ||
        text.ptr[SPAN_AT - 1] != '-' || text.ptr[FLAGS_AT - 1] != '-' ||
        !decode(text, 0, &version, 1) || version == 0xff ||
        !decode(text, TRACE_AT, out->trace_id, WP_TRACE_ID_LEN) ||
        !decode(text, SPAN_AT, out->span_id, WP_SPAN_ID_LEN) ||
        !decode(text, FLAGS_AT, &flags, 1)) {
        return false;
    }
    if (text.len > WP_TRACEPARENT_LEN &&
        (version == 0 || text.ptr[WP_TRACEPARENT_LEN] != '-')) {
        return false;
    }
    out->sampled = (flags & 1) != 0;
    return !is_zero(out->trace_id, WP_TRACE_ID_LEN) &&
           !is_zero(out->span_id, WP_SPAN_ID_LEN);
}

bool
wp_trace_context_parse(struct wp_str text, struct wp_trace_context *out)
{
    if (!parse(text, out)) {
        *out = (struct wp_trace_context){.sampled = false};
        return false;
    }
    return true;
}

void
wp_trace_context_format(const struct wp_trace_context *context,
                        char out[WP_TRACEPARENT_LEN + 1])
{
    memcpy(out, "00-", TRACE_AT);
    wp_hex_encode(context->trace_id, WP_TRACE_ID_LEN, out + TRACE_AT);
    out[SPAN_AT - 1] = '-';
    wp_hex_encode(context->span_id, WP_SPAN_ID_LEN, out + SPAN_AT);
    memcpy(out + FLAGS_AT - 1, context->sampled ? "-01" : "-00", 4);
}
