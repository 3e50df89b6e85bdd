/* pool/trace/context.h - which trace a claim belongs to, as its client says.
 *
 * The form is W3C Trace Context's (www.w3.org/TR/trace-context): the header
 * "traceparent" of a call, and the same name in the annotation
 * "opentelemetry.io/trace-context" of an object. Pure; any thread. */
#ifndef WP_POOL_TRACE_CONTEXT_H
#define WP_POOL_TRACE_CONTEXT_H

#include <stdbool.h>
#include <stdint.h>

#include "pool/base/compiler.h"
#include "pool/base/str.h"

enum {
    WP_TRACE_ID_LEN = 16,
    WP_SPAN_ID_LEN = 8,
    WP_TRACEPARENT_LEN = 55, /* "00-" and two ids in hexadecimal, "-01". */
};

struct wp_trace_context {
    uint8_t trace_id[WP_TRACE_ID_LEN];
    uint8_t span_id[WP_SPAN_ID_LEN]; /* The client's own: the parent. */
    bool sampled; /* The client keeps its part; else nobody is to. */
};

/* False, and out is zeroed, when text is no traceparent. One of a later version
 * is read as far as this version knows it, as the standard has it. */
bool wp_trace_context_parse(struct wp_str text, struct wp_trace_context *out);
/* The traceparent, terminated. */
void wp_trace_context_format(const struct wp_trace_context *context,
                             char out[WP_TRACEPARENT_LEN + 1]);

#endif
