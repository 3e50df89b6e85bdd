/* pool/trace/tracer.h - spans, from who measures them to who exports them.
 *
 * A span is made once, when what it measures is over, of times that its owner
 * kept; there is no open span that could be forgotten. What is not traced costs
 * the look at one pointer. A span costs a copy into a queue with a bound; when
 * it is full the span is dropped and counted, and nobody waits. */
#ifndef WP_POOL_TRACE_TRACER_H
#define WP_POOL_TRACE_TRACER_H

#include <stdbool.h>
#include <stdint.h>

#include "pool/base/compiler.h"
#include "pool/base/status.h"
#include "pool/base/str.h"
#include "pool/limits.h"
#include "pool/trace/context.h"

enum {
    WP_SPAN_CLAIM_MAX = 253, /* A claim's id, or its object's name. */
};

/* OTLP's numbers. */
enum wp_span_kind {
    WP_SPAN_INTERNAL = 1,
    WP_SPAN_SERVER = 2,
    WP_SPAN_CLIENT = 3,
};

struct wp_span {
    const char *name; /* Static storage; of an RPC "package.Service/Method". */
    enum wp_span_kind kind;
    bool is_rpc;
    enum wp_status status;
    const char *served; /* Static storage; NULL: not said. So "" below. */
    char pool_namespace[WP_NAMESPACE_MAX + 1];
    char pool[WP_POOL_NAME_MAX + 1];
    char claim[WP_SPAN_CLAIM_MAX + 1];
    char sandbox[WP_SANDBOX_NAME_MAX + 1];

    /* Set by the functions below. */
    int64_t begin_ns; /* Monotonic. */
    int64_t end_ns;
    uint8_t trace_id[WP_TRACE_ID_LEN];
    uint8_t span_id[WP_SPAN_ID_LEN];
    uint8_t parent_id[WP_SPAN_ID_LEN];
};

struct wp_tracer; /* Opaque. */

/* A span that is under way, kept by who measures it; zeroed: there is none. */
struct wp_trace {
    struct wp_tracer *tracer; /* NULL: not traced. */
    uint8_t trace_id[WP_TRACE_ID_LEN];
    uint8_t span_id[WP_SPAN_ID_LEN];
    uint8_t parent_id[WP_SPAN_ID_LEN];
    int64_t began_ns;
    int64_t step_ns; /* When its last step ended. */
};

struct wp_tracer_stats {
    uint64_t exported; /* Taken by the collector. */
    uint64_t dropped;  /* The queue was full. */
    uint64_t failed;   /* The collector did not take them. */
};

/* spans_max wait at most; rounded up to a power of two. NULL when memory lacks.
 */
WP_MUST_CHECK struct wp_tracer *wp_tracer_create(uint32_t spans_max);
/* After all who may add have stopped. NULL is fine. */
void wp_tracer_destroy(struct wp_tracer *tracer);
/* Copies the oldest span out; false: there is none. One thread, the exporter's.
 */
WP_MUST_CHECK bool wp_tracer_take(struct wp_tracer *tracer,
                                  struct wp_span *out);
/* So many were taken by the collector, or were not. Any thread. */
void wp_tracer_exported(struct wp_tracer *tracer, uint64_t n, bool taken);
/* Any thread. */
struct wp_tracer_stats wp_tracer_stats(const struct wp_tracer *tracer);

/* A span of the client's trace begins; none when tracer is NULL or the client
 * does not ask for it. Any thread, as all below. */
void wp_trace_begin(struct wp_trace *trace, struct wp_tracer *tracer,
                    const struct wp_trace_context *client, int64_t now_ns);
/* A step of it is over, which began where the last one ended: a span below it.
 * Of span the name, the status and what it is about are the caller's. */
void wp_trace_step(struct wp_trace *trace, struct wp_span *span,
                   int64_t now_ns);
/* All of it is over, and it is none afterwards. Both do nothing where there is
 * none. */
void wp_trace_end(struct wp_trace *trace, struct wp_span *span, int64_t now_ns);

/* Cuts text to the room of one of a span's arrays. */
#define WP_SPAN_TEXT(field, text) wp_span_text((field), sizeof(field), (text))
void wp_span_text(char *out, size_t cap, struct wp_str text);

#endif
