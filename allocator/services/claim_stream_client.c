/* ClaimStream: how a stream begins, what its client says, and how the client
 * leaves. See claim_stream.h. */
#include "allocator/services/claim_stream.h"

#include <stdalign.h>

#include "pool/base/assert.h"

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

/* False after having set err to the first of the numbers that was not. Under
 * the lock. */
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
give_back(struct wp_claim_stream *stream, uint64_t number,
          struct wp_stream_ends *ends)
{
    uint32_t i = wp_stream_find_shown(stream, number);

    if (i < stream->n_shown) {
        ends->ref[ends->n++] = stream->shown[i].ref;
        wp_stream_forget_shown(stream, i);
    }
}

/* One whose sandbox was lost before is no use to it. Under the lock. */
static void
take(struct wp_claim_stream *stream, uint64_t number,
     struct wp_stream_ends *ends)
{
    uint32_t i = wp_stream_find_shown(stream, number);
    struct wp_claim_info info;
    bool held = wp_stream_look_up(stream, number, &info);
    bool told;

    if (i < stream->n_shown) {
        held = held && wp_slot_ref_eq(info.ref, stream->shown[i].ref);
        if (held && info.lost) {
            ends->ref[ends->n++] = info.ref;
            held = false;
        }
        wp_stream_forget_shown(stream, i);
    }
    told = wp_stream_tell(stream, number, held);
    WP_ASSERT(told); /* The caller has seen that there is room. */
}

/* All of what it says, or nothing. False: the call has ended. Under the lock.
 */
static bool
apply(struct wp_claim_stream *stream,
      const struct wp_wire_stream_request *request, struct wp_stream_ends *ends)
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
    struct wp_stream_ends ends = {.n = 0};
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
    wp_stream_end_all(stream, &ends);
    wp_stream_work(stream);
}

/* --- How it leaves --- */

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
        wp_stream_close(stream, false);
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
             const struct wp_wire_stream_request *request,
             struct wp_stream_ends *ends)
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
        bool told =
            wp_stream_find_shown(stream, open->keep[i]) < stream->n_shown ||
            wp_stream_tell(stream, open->keep[i], false);

        WP_ASSERT(told); /* Besides these, only what it took is to be told. */
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
       const struct wp_wire_stream_request *request,
       struct wp_stream_ends *ends)
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
    stream->check_ns = wp_stream_now_ns(stream);
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
    struct wp_stream_ends ends = {.n = 0};
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
    wp_stream_end_all(stream, &ends);
    (void)atomic_fetch_add_explicit(&services->streams_opened, 1,
                                    memory_order_relaxed);
    wp_stream_work(stream);
}
