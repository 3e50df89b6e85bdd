/* ClaimStream: what a stream has shown, how that ends, and what the control
 * thread does for it. See claim_stream.h. */
#include "allocator/services/claim_stream.h"

#include <stdlib.h>

#include "pool/base/assert.h"
#include "pool/base/extreme.h"

/* Between two looks at the shown leases of a stream, and how many are looked at
 * each time: all of them once a second. */
#define CHECK_NS (250 * WP_NS_PER_MS)

enum {
    CHECK_COUNT = 64,
};

bool
wp_service_stream_create(struct wp_services *services)
{
    services->streams = calloc(WP_STREAMS_MAX, sizeof *services->streams);
    if (services->streams == NULL) {
        return false;
    }
    WP_ASSERT(pthread_mutex_init(&services->streams_lock, NULL) == 0);
    for (uint32_t i = 0; i < WP_STREAMS_MAX; i++) {
        struct wp_claim_stream *stream = &services->streams[i];

        WP_ASSERT(pthread_mutex_init(&stream->lock, NULL) == 0);
        stream->services = services;
        stream->timed_ns = WP_TIME_NEVER;
        for (uint32_t k = 0; k < WP_STREAM_CELLS; k++) {
            stream->cells[k].stream = stream;
        }
    }
    return true;
}

void
wp_service_stream_destroy(struct wp_services *services)
{
    if (services->streams == NULL) {
        return;
    }
    for (uint32_t i = 0; i < WP_STREAMS_MAX; i++) {
        WP_ASSERT(services->streams[i].call == NULL);
        WP_ASSERT(services->streams[i].n_busy == 0);
        (void)pthread_mutex_destroy(&services->streams[i].lock);
    }
    (void)pthread_mutex_destroy(&services->streams_lock);
    free(services->streams);
    services->streams = NULL;
}

/* When it is to be looked at again. Under the lock. */
static int64_t
next_look(const struct wp_claim_stream *stream)
{
    int64_t next_ns = WP_TIME_NEVER;

    if (stream->state == WP_STREAM_PARKED) {
        return stream->grace_ns;
    }
    if (stream->state == WP_STREAM_OPEN && stream->n_shown > 0) {
        next_ns = stream->check_ns;
    }
    if (wp_stream_lacks(stream)) {
        next_ns = wp_min_i64(next_ns, stream->retry_ns);
    }
    return next_ns;
}

void
wp_stream_keep_time(struct wp_claim_stream *stream)
{
    const struct wp_services_config *config = &stream->services->config;
    int64_t next_ns;
    bool earlier;

    (void)pthread_mutex_lock(&stream->lock);
    next_ns = next_look(stream);
    earlier = next_ns < stream->timed_ns;
    if (earlier) {
        stream->timed_ns = next_ns;
    }
    (void)pthread_mutex_unlock(&stream->lock);
    if (earlier) {
        config->wake(config->ctx);
    }
}

void
wp_stream_end_all(struct wp_claim_stream *stream,
                  const struct wp_stream_ends *ends)
{
    for (uint32_t i = 0; i < ends->n; i++) {
        wp_pools_end(stream->services->config.pools, ends->ref[i]);
    }
}

/* --- Shown leases --- */

uint32_t
wp_stream_find_shown(const struct wp_claim_stream *stream, uint64_t number)
{
    uint32_t i = 0;

    while (i < stream->n_shown && stream->shown[i].number != number) {
        i++;
    }
    return i;
}

void
wp_stream_forget_shown(struct wp_claim_stream *stream, uint32_t i)
{
    stream->shown[i] = stream->shown[--stream->n_shown];
}

bool
wp_stream_tell(struct wp_claim_stream *stream, uint64_t number, bool taken)
{
    if (stream->n_told == WP_STREAM_TOLD_MAX) {
        return false;
    }
    stream->told[stream->n_told++] = (struct wp_stream_told){number, taken};
    return true;
}

bool
wp_stream_look_up(const struct wp_claim_stream *stream, uint64_t number,
                  struct wp_claim_info *info)
{
    char id[WP_CLAIM_ID_MAX + 1];

    wp_stream_claim_id(stream, number, id);
    return wp_pools_get(stream->services->config.pools,
                        wp_str_from(stream->tenant), wp_str_from(id),
                        info) == WP_OK &&
           !info->waiting;
}

/* --- How it ends --- */

void
wp_stream_park(struct wp_claim_stream *stream, enum wp_status status,
               const char *message)
{
    struct wp_call *call = stream->call;

    stream->state = WP_STREAM_PARKED;
    stream->grace_ns =
        wp_time_add(wp_stream_now_ns(stream), WP_STREAM_GRACE_NS);
    stream->call = NULL;
    call->ops->finish(call, status, message, 0);
}

void
wp_stream_close(struct wp_claim_stream *stream, bool after_grace)
{
    wp_stream_take_back(stream);
    /* CLOSING: nobody else looks at shown. */
    for (uint32_t i = 0; i < stream->n_shown; i++) {
        const struct wp_stream_shown *shown = &stream->shown[i];
        struct wp_claim_info info;

        if (wp_stream_look_up(stream, shown->number, &info) &&
            wp_slot_ref_eq(info.ref, shown->ref) &&
            !(after_grace &&
              info.deadline_wall_ms != shown->deadline_wall_ms)) {
            wp_pools_end(stream->services->config.pools, shown->ref);
        }
    }
    (void)pthread_mutex_lock(&stream->lock);
    stream->n_shown = 0;
    stream->n_told = 0;
    stream->state = WP_STREAM_FREE;
    (void)pthread_mutex_unlock(&stream->lock);
}

/* --- On the control thread --- */

/* Those that have ended are told of, and others come in their place. Under the
 * lock. */
static void
check(struct wp_claim_stream *stream, struct wp_stream_ends *ends)
{
    uint32_t n = wp_min_u32(stream->n_shown, CHECK_COUNT);

    for (; n > 0 && stream->n_shown > 0; n--) {
        uint32_t i = stream->check_at % stream->n_shown;
        struct wp_stream_shown *shown = &stream->shown[i];
        struct wp_claim_info info;
        bool held = wp_stream_look_up(stream, shown->number, &info) &&
                    wp_slot_ref_eq(info.ref, shown->ref);

        if (held && !info.lost) {
            shown->deadline_wall_ms = info.deadline_wall_ms;
            stream->check_at = i + 1;
            continue;
        }
        if (!wp_stream_tell(stream, shown->number, false)) {
            return; /* When the client has read. */
        }
        if (held) {
            ends->ref[ends->n++] = shown->ref;
        }
        wp_stream_forget_shown(stream, i);
    }
}

static int64_t
run(struct wp_claim_stream *stream)
{
    struct wp_stream_ends ends = {.n = 0};
    bool works = false;
    bool closes = false;
    int64_t next_ns;

    (void)pthread_mutex_lock(&stream->lock);
    if (stream->state == WP_STREAM_PARKED &&
        stream->grace_ns <= wp_stream_now_ns(stream)) {
        stream->state = WP_STREAM_CLOSING;
        closes = true;
    } else if (stream->state == WP_STREAM_OPEN) {
        if (stream->check_ns <= wp_stream_now_ns(stream)) {
            check(stream, &ends);
            stream->check_ns = wp_time_add(wp_stream_now_ns(stream), CHECK_NS);
        }
        works = stream->n_told > 0 ||
                (wp_stream_lacks(stream) &&
                 stream->retry_ns <= wp_stream_now_ns(stream));
    }
    (void)pthread_mutex_unlock(&stream->lock);
    if (closes) {
        wp_stream_close(stream, true);
    }
    wp_stream_end_all(stream, &ends);
    if (works) {
        wp_stream_work(stream);
    }
    (void)pthread_mutex_lock(&stream->lock);
    next_ns = next_look(stream);
    stream->timed_ns = next_ns;
    (void)pthread_mutex_unlock(&stream->lock);
    return next_ns;
}

int64_t
wp_service_stream_run(struct wp_services *services)
{
    int64_t next_ns = WP_TIME_NEVER;

    if (atomic_load_explicit(&services->streams_opened, memory_order_relaxed) ==
        0) {
        return WP_TIME_NEVER;
    }
    for (uint32_t i = 0; i < WP_STREAMS_MAX; i++) {
        int64_t at_ns = run(&services->streams[i]);

        next_ns = wp_min_i64(next_ns, at_ns);
    }
    return next_ns;
}

void
wp_service_stream_changed(struct wp_services *services, uint32_t pool_index)
{
    if (atomic_load_explicit(&services->streams_opened, memory_order_relaxed) ==
        0) {
        return;
    }
    for (uint32_t i = 0; i < WP_STREAMS_MAX; i++) {
        struct wp_claim_stream *stream = &services->streams[i];

        (void)pthread_mutex_lock(&stream->lock);
        if (stream->state == WP_STREAM_OPEN && stream->starved &&
            stream->pool_index == pool_index) {
            stream->starved = false;
            stream->retry_ns = 0;
        }
        (void)pthread_mutex_unlock(&stream->lock);
    }
}

void
wp_services_stream_stats(struct wp_services *services,
                         struct wp_stream_stats *out)
{
    *out = (struct wp_stream_stats){.open = 0};
    for (uint32_t i = 0; i < WP_STREAMS_MAX; i++) {
        struct wp_claim_stream *stream = &services->streams[i];

        (void)pthread_mutex_lock(&stream->lock);
        out->open += stream->state == WP_STREAM_OPEN ? 1 : 0;
        out->broken += stream->state == WP_STREAM_PARKED ? 1 : 0;
        out->ahead += stream->n_shown;
        (void)pthread_mutex_unlock(&stream->lock);
    }
}

void
wp_service_stream_end(struct wp_services *services)
{
    /* Release pairs with the acquire in attach. */
    atomic_store_explicit(&services->streams_end, true, memory_order_release);
    for (uint32_t i = 0; i < WP_STREAMS_MAX; i++) {
        struct wp_claim_stream *stream = &services->streams[i];

        (void)pthread_mutex_lock(&stream->lock);
        if (stream->state == WP_STREAM_OPEN) {
            wp_stream_park(stream, WP_UNAVAILABLE, "the daemon is leaving");
        }
        (void)pthread_mutex_unlock(&stream->lock);
        wp_stream_take_back(stream);
        wp_stream_keep_time(stream);
    }
}
