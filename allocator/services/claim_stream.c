/* ClaimStream: how a stream begins, what its client says, and how it ends. See
 * claim_stream.h. */
#include "allocator/services/claim_stream.h"

#include <inttypes.h>
#include <stdalign.h>
#include <stdlib.h>

#include "pool/base/assert.h"

/* Between two looks at the shown leases of a stream, and how many are looked at
 * each time: all of them once a second. */
#define CHECK_NS (250 * WP_NS_PER_MS)

enum {
    CHECK_COUNT = 64,
};

/* Sandboxes whose leases are to end once the lock is free. */
struct ends {
    uint32_t n;
    struct wp_slot_ref ref[WP_AHEAD_MAX];
};

static void
end_all(struct wp_claim_stream *stream, const struct ends *ends)
{
    for (uint32_t i = 0; i < ends->n; i++) {
        wp_pools_end(stream->services->config.pools, ends->ref[i]);
    }
}

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

static int64_t
now_ns(const struct wp_claim_stream *stream)
{
    return wp_clock_mono_ns(stream->services->config.clock);
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
    if (wp_stream_lacks(stream) && stream->retry_ns < next_ns) {
        next_ns = stream->retry_ns;
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

/* --- Shown leases; under the lock --- */

/* Its index among those shown, or n_shown. */
static uint32_t
find_shown(const struct wp_claim_stream *stream, uint64_t number)
{
    uint32_t i = 0;

    while (i < stream->n_shown && stream->shown[i].number != number) {
        i++;
    }
    return i;
}

static void
forget_shown(struct wp_claim_stream *stream, uint32_t i)
{
    stream->shown[i] = stream->shown[--stream->n_shown];
}

/* False when there is no room: the client reads nothing. */
static bool
tell(struct wp_claim_stream *stream, uint64_t number, bool taken)
{
    if (stream->n_told == WP_STREAM_TOLD_MAX) {
        return false;
    }
    stream->told[stream->n_told++] = (struct wp_stream_told){number, taken};
    return true;
}

/* What the pools know of the claim; false: it is held no more. */
static bool
look_up(const struct wp_claim_stream *stream, uint64_t number,
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
    stream->grace_ns = wp_time_add(now_ns(stream), WP_STREAM_GRACE_NS);
    stream->call = NULL;
    call->ops->finish(call, status, message, 0);
}

/* Releases what was shown. After a grace, what its holder has renewed
 * meanwhile is held: the client says so in this way where it cannot resume.
 * The stream is CLOSING, and FREE when it returns. */
static void
close_stream(struct wp_claim_stream *stream, bool after_grace)
{
    wp_stream_take_back(stream);
    /* CLOSING: nobody else looks at shown. */
    for (uint32_t i = 0; i < stream->n_shown; i++) {
        const struct wp_stream_shown *shown = &stream->shown[i];
        struct wp_claim_info info;

        if (look_up(stream, shown->number, &info) &&
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

static void
stream_cancelled(struct wp_call *call)
{
    struct wp_claim_stream *stream = call->state;

    (void)pthread_mutex_lock(&stream->lock);
    /* A call is not used again while its `cancelled` runs, so the same pointer
     * is the same call. */
    if (stream->call == call) {
        wp_stream_park(stream, WP_CANCELLED, NULL);
    }
    (void)pthread_mutex_unlock(&stream->lock);
    wp_stream_take_back(stream);
    wp_stream_keep_time(stream);
}

/* The client wants no more. */
static void
stream_ended(struct wp_call *call)
{
    struct wp_claim_stream *stream = call->state;
    bool mine;

    (void)pthread_mutex_lock(&stream->lock);
    mine = stream->call == call;
    if (mine) {
        stream->state = WP_STREAM_CLOSING;
        stream->call = NULL;
        call->ops->finish(call, WP_OK, NULL, 0);
    }
    (void)pthread_mutex_unlock(&stream->lock);
    if (mine) {
        close_stream(stream, false);
    }
}

static void
stream_writable(struct wp_call *call)
{
    struct wp_claim_stream *stream = call->state;

    (void)pthread_mutex_lock(&stream->lock);
    if (stream->call == call) {
        stream->blocked = false;
    }
    (void)pthread_mutex_unlock(&stream->lock);
    wp_stream_work(stream);
}

/* --- What the client says --- */

/* Was that lease shown once? Its number has been given, and it is not on its
 * way. Under the lock. */
static bool
was_shown(const struct wp_claim_stream *stream, uint64_t number)
{
    bool shown = number > 0 && number < stream->next;

    for (uint32_t i = 0; i < WP_STREAM_CELLS && shown; i++) {
        const struct wp_stream_cell *cell = &stream->cells[i];

        shown = cell->state == WP_CELL_FREE || cell->number != number;
    }
    return shown;
}

/* False after having set err to the first of the numbers that was not. Under the
 * lock. */
static bool
were_shown(const struct wp_claim_stream *stream, const char *field,
           const uint64_t *numbers, uint32_t n, struct wp_err *err)
{
    for (uint32_t i = 0; i < n; i++) {
        if (!was_shown(stream, numbers[i])) {
            (void)wp_err_set(err, WP_INVALID_ARGUMENT,
                             "%s: a number that this stream was given "
                             "expected, got %llu",
                             field, (unsigned long long)numbers[i]);
            return false;
        }
    }
    return true;
}

/* Under the lock. */
static void
give_back(struct wp_claim_stream *stream, uint64_t number, struct ends *ends)
{
    uint32_t i = find_shown(stream, number);

    if (i < stream->n_shown) {
        ends->ref[ends->n++] = stream->shown[i].ref;
        forget_shown(stream, i);
    }
}

/* One whose sandbox was lost before is no use to it. Under the lock. */
static void
take(struct wp_claim_stream *stream, uint64_t number, struct ends *ends)
{
    uint32_t i = find_shown(stream, number);
    struct wp_claim_info info;
    bool held = look_up(stream, number, &info);
    bool told;

    if (i < stream->n_shown) {
        held = held && wp_slot_ref_eq(info.ref, stream->shown[i].ref);
        if (held && info.lost) {
            ends->ref[ends->n++] = info.ref;
            held = false;
        }
        forget_shown(stream, i);
    }
    told = tell(stream, number, held);
    WP_ASSERT(told); /* The caller has seen that there is room. */
}

/* All of what it says, or nothing. False: the call has ended. Under the lock. */
static bool
apply(struct wp_claim_stream *stream,
      const struct wp_wire_stream_request *request, struct ends *ends)
{
    struct wp_err err;

    if (!were_shown(stream, "took", request->took, request->n_took, &err) ||
        !were_shown(stream, "back", request->back, request->n_back, &err)) {
        wp_stream_park(stream, err.status, err.msg);
        return false;
    }
    if (stream->n_told + request->n_took > WP_STREAM_TOLD_MAX) {
        wp_stream_park(stream, WP_RESOURCE_EXHAUSTED,
                       "took: the client reads too few of the answers");
        return false;
    }
    for (uint32_t i = 0; i < request->n_took; i++) {
        take(stream, request->took[i], ends);
    }
    for (uint32_t i = 0; i < request->n_back; i++) {
        give_back(stream, request->back[i], ends);
    }
    return true;
}

static void
stream_received(struct wp_call *call, const uint8_t *bytes, size_t len)
{
    struct wp_claim_stream *stream = call->state;
    alignas(max_align_t) char room[WP_WIRE_ARENA_STREAM];
    struct wp_wire_stream_request request;
    struct ends ends = {.n = 0};
    struct wp_arena arena;
    struct wp_err err = {.status = WP_OK};

    wp_arena_init(&arena, room, sizeof room);
    if (wp_wire_unpack_stream_request(&arena, bytes, len, &request, &err) ==
            WP_OK &&
        request.has_open) {
        (void)wp_err_set(&err, WP_INVALID_ARGUMENT,
                         "open: expected in the first request only");
    }
    (void)pthread_mutex_lock(&stream->lock);
    if (stream->call == call) {
        if (err.status != WP_OK) {
            wp_stream_park(stream, err.status, err.msg);
        } else {
            (void)apply(stream, &request, &ends);
        }
    }
    (void)pthread_mutex_unlock(&stream->lock);
    end_all(stream, &ends);
    wp_stream_work(stream);
}

/* --- How it begins --- */

static bool
is_one_of(uint64_t number, const uint64_t *numbers, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        if (numbers[i] == number) {
            return true;
        }
    }
    return false;
}

/* What the client has not, was on its way when the stream broke; what it has
 * and the stream has not, has ended. Under the lock. */
static void
compare_kept(struct wp_claim_stream *stream,
             const struct wp_wire_stream_request *request, struct ends *ends)
{
    const struct wp_wire_stream_open *open = &request->open;

    for (uint32_t i = stream->n_shown; i-- > 0;) {
        uint64_t number = stream->shown[i].number;

        if (!is_one_of(number, open->keep, open->n_keep) &&
            !is_one_of(number, request->took, request->n_took)) {
            give_back(stream, number, ends);
        }
    }
    for (uint32_t i = 0; i < open->n_keep; i++) {
        if (find_shown(stream, open->keep[i]) == stream->n_shown) {
            /* Room: told is empty, and has twice as much. */
            (void)tell(stream, open->keep[i], false);
        }
    }
}

/* The stream of that tenant and id, locked; or NULL. n_tenant: how many the
 * tenant has; unused: one that is free, or NULL. Under streams_lock. */
static struct wp_claim_stream *
find(struct wp_services *services, struct wp_str tenant, struct wp_str id,
     uint32_t *n_tenant, struct wp_claim_stream **unused)
{
    *n_tenant = 0;
    *unused = NULL;
    for (uint32_t i = 0; i < WP_STREAMS_MAX; i++) {
        struct wp_claim_stream *stream = &services->streams[i];
        bool theirs = false;

        (void)pthread_mutex_lock(&stream->lock);
        if (stream->state != WP_STREAM_FREE) {
            theirs = wp_str_is(tenant, stream->tenant);
            *n_tenant += theirs;
        } else if (stream->n_busy == 0) {
            *unused = stream;
        }
        if (theirs && stream->state != WP_STREAM_CLOSING &&
            wp_str_is(id, stream->id)) {
            return stream;
        }
        (void)pthread_mutex_unlock(&stream->lock);
    }
    return NULL;
}

static void
refuse_crowd(struct wp_call *call, bool tenants)
{
    struct wp_err err;

    (void)wp_err_set(&err, WP_RESOURCE_EXHAUSTED,
                     "%d streams are open, as many as %s",
                     tenants ? WP_STREAMS_TENANT_MAX : WP_STREAMS_MAX,
                     tenants ? "one tenant may have" : "may be");
    wp_service_refuse(call, &err);
}

/* A new one, locked; NULL after having finished the call. Under streams_lock.
 */
static struct wp_claim_stream *
begin(struct wp_call *call, struct wp_claim_stream *unused, uint32_t n_tenant,
      struct wp_str tenant, const struct wp_wire_stream_open *open)
{
    uint32_t pool_index;
    bool copied;

    if (n_tenant >= WP_STREAMS_TENANT_MAX || unused == NULL) {
        refuse_crowd(call, unused != NULL);
        return NULL;
    }
    pool_index = wp_service_find_pool(call, &open->pool);
    if (pool_index == UINT32_MAX) {
        return NULL;
    }
    (void)pthread_mutex_lock(&unused->lock);
    copied = wp_str_copy(open->stream_id, unused->id, sizeof unused->id) &&
             wp_str_copy(tenant, unused->tenant, sizeof unused->tenant) &&
             wp_str_copy(open->pool.pool_namespace, unused->pool_namespace,
                         sizeof unused->pool_namespace) &&
             wp_str_copy(open->pool.name, unused->pool, sizeof unused->pool);
    WP_ASSERT(copied); /* The wire has bounded them. */
    unused->pool_index = pool_index;
    unused->ttl_ns = open->ttl_ms * WP_NS_PER_MS;
    unused->next = 1;
    unused->n_shown = 0;
    unused->n_told = 0;
    return unused;
}

/* A parked one, or one whose old call has not broken yet, locked; unlocked and
 * false after having finished the call. */
static bool
resume(struct wp_call *call, struct wp_claim_stream *stream,
       const struct wp_wire_stream_open *open)
{
    if (!wp_str_is(open->pool.name, stream->pool) ||
        !wp_str_is(open->pool.pool_namespace, stream->pool_namespace) ||
        open->ttl_ms * WP_NS_PER_MS != stream->ttl_ns) {
        (void)pthread_mutex_unlock(&stream->lock);
        call->ops->finish(call, WP_INVALID_ARGUMENT,
                          "resume: the stream's own pool and ttl_ms expected",
                          0);
        return false;
    }
    if (stream->call != NULL) {
        wp_stream_park(stream, WP_ABORTED,
                       "the stream was opened again by another call");
    }
    return true;
}

/* The stream of the call, locked; NULL after having finished the call. */
static struct wp_claim_stream *
find_or_begin(struct wp_call *call, struct wp_str tenant,
              const struct wp_wire_stream_open *open)
{
    struct wp_services *services = wp_services_of(call);
    struct wp_claim_stream *stream;
    struct wp_claim_stream *unused;
    uint32_t n_tenant;

    (void)pthread_mutex_lock(&services->streams_lock);
    stream = find(services, tenant, open->stream_id, &n_tenant, &unused);
    if (stream != NULL && !open->resume) {
        (void)pthread_mutex_unlock(&stream->lock);
        stream = NULL;
        call->ops->finish(call, WP_ALREADY_EXISTS,
                          "stream_id: in use; resume that stream, or choose "
                          "another id",
                          0);
    } else if (stream != NULL) {
        stream = resume(call, stream, open) ? stream : NULL;
    } else if (open->resume) {
        call->ops->finish(call, WP_NOT_FOUND,
                          "stream_id: no stream of that id; it broke too long "
                          "ago, or another daemon had it",
                          0);
    } else {
        stream = begin(call, unused, n_tenant, tenant, open);
    }
    (void)pthread_mutex_unlock(&services->streams_lock);
    return stream;
}

/* The stream, which is locked, is the call's. */
static void
attach(struct wp_claim_stream *stream, struct wp_call *call,
       const struct wp_wire_stream_request *request, struct ends *ends)
{
    stream->state = WP_STREAM_OPEN;
    stream->call = call;
    stream->ahead = request->open.ahead;
    stream->blocked = false;
    stream->greets = true;
    stream->starved = false;
    stream->lacking_due = false;
    stream->lacking.status = WP_OK;
    stream->retry_ns = 0;
    stream->check_at = 0;
    stream->check_ns = wp_time_add(now_ns(stream), CHECK_NS);
    stream->n_told = 0;
    call->state = stream;
    call->cancelled = stream_cancelled;
    call->writable = stream_writable;
    call->received = stream_received;
    call->ended = stream_ended;
    /* Acquire pairs with the release in wp_service_stream_end; under the lock,
     * so that the sweep there either finds this stream or is seen here. */
    if (atomic_load_explicit(&stream->services->streams_end,
                             memory_order_acquire)) {
        wp_stream_park(stream, WP_UNAVAILABLE, "the daemon is leaving");
    } else if (apply(stream, request, ends)) {
        compare_kept(stream, request, ends);
    }
}

void
wp_service_stream_start(struct wp_call *call, const uint8_t *bytes, size_t len)
{
    struct wp_services *services = wp_services_of(call);
    alignas(max_align_t) char room[WP_WIRE_ARENA_STREAM];
    struct wp_wire_stream_request request;
    struct ends ends = {.n = 0};
    struct wp_claim_stream *stream;
    struct wp_str tenant;
    struct wp_arena arena;
    struct wp_err err;

    wp_arena_init(&arena, room, sizeof room);
    if (wp_wire_unpack_stream_request(&arena, bytes, len, &request, &err) !=
        WP_OK) {
        wp_service_refuse(call, &err);
        return;
    }
    if (!request.has_open) {
        call->ops->finish(call, WP_INVALID_ARGUMENT,
                          "open: expected in the first request", 0);
        return;
    }
    if (!wp_service_serves(call) ||
        !wp_service_tenant(call, request.open.tenant, &tenant)) {
        return;
    }
    stream = find_or_begin(call, tenant, &request.open);
    if (stream == NULL) {
        return;
    }
    attach(stream, call, &request, &ends);
    (void)pthread_mutex_unlock(&stream->lock);
    end_all(stream, &ends);
    (void)atomic_fetch_add_explicit(&services->streams_opened, 1,
                                    memory_order_relaxed);
    wp_stream_work(stream);
}

/* --- On the control thread --- */

/* Those that have ended are told of, and others come in their place. Under the
 * lock. */
static void
check(struct wp_claim_stream *stream, struct ends *ends)
{
    uint32_t n = stream->n_shown < CHECK_COUNT ? stream->n_shown : CHECK_COUNT;

    for (; n > 0 && stream->n_shown > 0; n--) {
        uint32_t i = stream->check_at % stream->n_shown;
        struct wp_stream_shown *shown = &stream->shown[i];
        struct wp_claim_info info;
        bool held = look_up(stream, shown->number, &info) &&
                    wp_slot_ref_eq(info.ref, shown->ref);

        if (held && !info.lost) {
            shown->deadline_wall_ms = info.deadline_wall_ms;
            stream->check_at = i + 1;
            continue;
        }
        if (!tell(stream, shown->number, false)) {
            return; /* When the client has read. */
        }
        if (held) {
            ends->ref[ends->n++] = shown->ref;
        }
        forget_shown(stream, i);
    }
}

static int64_t
run(struct wp_claim_stream *stream)
{
    struct ends ends = {.n = 0};
    bool works = false;
    bool closes = false;
    int64_t next_ns;

    (void)pthread_mutex_lock(&stream->lock);
    if (stream->state == WP_STREAM_PARKED &&
        stream->grace_ns <= now_ns(stream)) {
        stream->state = WP_STREAM_CLOSING;
        closes = true;
    } else if (stream->state == WP_STREAM_OPEN) {
        if (stream->check_ns <= now_ns(stream)) {
            check(stream, &ends);
            stream->check_ns = wp_time_add(now_ns(stream), CHECK_NS);
        }
        works = stream->n_told > 0 ||
                (wp_stream_lacks(stream) && stream->retry_ns <= now_ns(stream));
    }
    (void)pthread_mutex_unlock(&stream->lock);
    if (closes) {
        close_stream(stream, true);
    }
    end_all(stream, &ends);
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

        next_ns = at_ns < next_ns ? at_ns : next_ns;
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
