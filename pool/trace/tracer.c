#include "pool/trace/tracer.h"

#include <stdlib.h>
#include <string.h>

#include "pool/base/channel.h"
#include "pool/base/rng.h"

struct wp_tracer {
    struct wp_channel spans;
    uint64_t seed;
    _Atomic(uint64_t) ids;
    _Atomic(uint64_t) exported;
    _Atomic(uint64_t) dropped;
    _Atomic(uint64_t) failed;
};

/* All counters are relaxed: nothing is read by them. */
static void
count(_Atomic(uint64_t) *counter, uint64_t n)
{
    (void)atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

struct wp_tracer *
wp_tracer_create(uint32_t spans_max)
{
    struct wp_tracer *tracer =
        aligned_alloc(_Alignof(struct wp_tracer), sizeof *tracer);

    if (tracer == NULL) {
        return NULL;
    }
    memset(tracer, 0, sizeof *tracer);
    if (!wp_channel_init_sized(&tracer->spans, spans_max,
                               sizeof(struct wp_span))) {
        free(tracer);
        return NULL;
    }
    wp_random_bytes(&tracer->seed, sizeof tracer->seed);
    return tracer;
}

void
wp_tracer_destroy(struct wp_tracer *tracer)
{
    if (tracer != NULL) {
        wp_channel_fini(&tracer->spans);
        free(tracer);
    }
}

bool
wp_tracer_take(struct wp_tracer *tracer, struct wp_span *out)
{
    return wp_channel_receive(&tracer->spans, out);
}

void
wp_tracer_exported(struct wp_tracer *tracer, uint64_t n, bool taken)
{
    count(taken ? &tracer->exported : &tracer->failed, n);
}

struct wp_tracer_stats
wp_tracer_stats(const struct wp_tracer *tracer)
{
    return (struct wp_tracer_stats){
        .exported =
            atomic_load_explicit(&tracer->exported, memory_order_relaxed),
        .dropped = atomic_load_explicit(&tracer->dropped, memory_order_relaxed),
        .failed = atomic_load_explicit(&tracer->failed, memory_order_relaxed),
    };
}

/* splitmix64 of a counter: no id comes twice from one tracer, and no thread
 * waits for another. */
static void
new_id(struct wp_tracer *tracer, uint8_t out[WP_SPAN_ID_LEN])
{
    uint64_t z =
        tracer->seed +
        (atomic_fetch_add_explicit(&tracer->ids, 1, memory_order_relaxed) + 1) *
            UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    z ^= z >> 31;
    z += z == 0; /* That id is not valid. */
    memcpy(out, &z, WP_SPAN_ID_LEN);
}

static void
add(struct wp_tracer *tracer, const struct wp_span *span)
{
    if (!wp_channel_send_sized(&tracer->spans, span)) {
        count(&tracer->dropped, 1);
    }
}

void
wp_trace_begin(struct wp_trace *trace, struct wp_tracer *tracer,
               const struct wp_trace_context *client, int64_t now_ns)
{
    if (tracer == NULL || !client->sampled) {
        trace->tracer = NULL;
        return;
    }
    trace->tracer = tracer;
    trace->began_ns = now_ns;
    trace->step_ns = now_ns;
    memcpy(trace->trace_id, client->trace_id, WP_TRACE_ID_LEN);
    memcpy(trace->parent_id, client->span_id, WP_SPAN_ID_LEN);
    new_id(tracer, trace->span_id);
}

void
wp_trace_step(struct wp_trace *trace, struct wp_span *span, int64_t now_ns)
{
    if (trace->tracer == NULL) {
        return;
    }
    span->begin_ns = trace->step_ns;
    span->end_ns = now_ns;
    trace->step_ns = now_ns;
    memcpy(span->trace_id, trace->trace_id, WP_TRACE_ID_LEN);
    memcpy(span->parent_id, trace->span_id, WP_SPAN_ID_LEN);
    new_id(trace->tracer, span->span_id);
    add(trace->tracer, span);
}

void
wp_trace_end(struct wp_trace *trace, struct wp_span *span, int64_t now_ns)
{
    if (trace->tracer == NULL) {
        return;
    }
    span->begin_ns = trace->began_ns;
    span->end_ns = now_ns;
    memcpy(span->trace_id, trace->trace_id, WP_TRACE_ID_LEN);
    memcpy(span->span_id, trace->span_id, WP_SPAN_ID_LEN);
    memcpy(span->parent_id, trace->parent_id, WP_SPAN_ID_LEN);
    add(trace->tracer, span);
    trace->tracer = NULL;
}

void
wp_span_text(char *out, size_t cap, struct wp_str text)
{
    size_t len = text.len < cap ? text.len : cap - 1;

    if (len > 0) {
        memcpy(out, text.ptr, len);
    }
    out[len] = '\0';
}
