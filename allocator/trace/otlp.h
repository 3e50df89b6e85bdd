/* allocator/trace/otlp.h - spans as a request of OTLP over HTTP, in JSON.
 *
 * The form is opentelemetry-proto's, with the names of OpenTelemetry's semantic
 * conventions where there are some and "warmpool." before our own. Pure. */
#ifndef WP_ALLOCATOR_TRACE_OTLP_H
#define WP_ALLOCATOR_TRACE_OTLP_H

#include <stddef.h>
#include <stdint.h>

#include "pool/trace/tracer.h"

/* Who measured the spans. */
struct wp_otlp_resource {
    const char *version; /* Of this program. */
    const char *host;
    int64_t pid;
};

/* The body of a POST to /v1/traces, terminated; the caller frees it. offset_ns:
 * wall minus monotonic time. NULL when memory lacks. */
WP_MUST_CHECK char *wp_otlp_request(const struct wp_otlp_resource *resource,
                                    const struct wp_span *spans, size_t n,
                                    int64_t offset_ns);

#endif
