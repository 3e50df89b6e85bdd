/* PoolAdmin's requests, and pools as they are shown. */
#include "proto/wire/wire.h"

#include "proto/wire/check.h"
#include "proto/wire/decode.h"
#include "proto/wire/encode.h"
#include "proto/wire/parts.h"
#include "proto/wire/policy.h"
#include "proto/wire/scale.h"

/* --- Pool --- */

static int64_t
ttl_in_ns(int64_t ttl_ms)
{
    const int64_t max_ms = WP_TTL_MAX_NS / WP_NS_PER_MS;

    if (ttl_ms < 0) {
        return 0;
    }
    return (ttl_ms > max_ms ? max_ms : ttl_ms) * WP_NS_PER_MS;
}

static void
pool_counts_in(const Warmpool__V1__Pool *pb, struct wp_pool_stats *out)
{
    *out = (struct wp_pool_stats){
        .spec.target = pb->target,
        .spec.cold_start =
            pb->cold_start == WARMPOOL__V1__COLD_START__COLD_START_ALLOWED
                ? WP_COLD_ALLOWED
                : WP_COLD_NEVER,
        .spec.ttl_default_ns = ttl_in_ns(pb->ttl_default_ms),
        .spec.ttl_max_ns = ttl_in_ns(pb->ttl_max_ms),
        .warming = pb->warming,
        .ready = pb->ready,
        .leased = pb->leased,
        .quarantined = pb->quarantined,
        .dying = pb->dying,
        .waiting = pb->waiting,
        .created_total = pb->created_total,
        .destroyed_total = pb->destroyed_total,
        .failed_total = pb->failed_total,
        .lost_total = pb->lost_total,
        .served_total[WP_SERVED_WARM] = pb->served_warm_total,
        .served_total[WP_SERVED_QUEUED] = pb->served_queued_total,
        .served_total[WP_SERVED_COLD] = pb->served_cold_total,
        .refused_total = pb->refused_total,
        .released_total = pb->released_total,
        .expired_total = pb->expired_total,
        .missed_total = pb->missed_total,
        .draining = pb->draining,
        .breaker_open = pb->breaker_open,
        .partial = pb->partial,
    };
}

static enum wp_status
pool_in(const Warmpool__V1__Pool *pb, struct wp_pool_stats *out,
        struct wp_err *err)
{
    enum wp_status status;

    pool_counts_in(pb, out);
    status = wp_wire_pool_copy(pb->ref, out->spec.pool_namespace,
                               out->spec.name, err);
    if (status == WP_OK) {
        status = wp_wire_copy_text("template", pb->template_,
                                   out->spec.template_name,
                                   sizeof out->spec.template_name, err);
    }
    if (status == WP_OK) {
        status =
            wp_wire_copy_text("last_failure", pb->last_failure,
                              out->last_failure, sizeof out->last_failure, err);
    }
    if (status == WP_OK) {
        status = wp_wire_scaling_in(pb->scaling, out, err);
    }
    return status;
}

enum wp_status
wp_wire_unpack_pool(struct wp_arena *arena, const uint8_t *bytes, size_t len,
                    struct wp_pool_stats *out, struct wp_err *err)
{
    const Warmpool__V1__Pool *pb =
        wp_wire_decode(arena, &warmpool__v1__pool__descriptor, bytes, len, err);

    return pb != NULL ? pool_in(pb, out, err) : WP_INVALID_ARGUMENT;
}

enum wp_status
wp_wire_unpack_pool_detail(struct wp_arena *arena, const uint8_t *bytes,
                           size_t len, struct wp_wire_pool_detail *out,
                           struct wp_err *err)
{
    const Warmpool__V1__Pool *pb =
        wp_wire_decode(arena, &warmpool__v1__pool__descriptor, bytes, len, err);
    enum wp_status status;

    *out = (struct wp_wire_pool_detail){0};
    if (pb == NULL) {
        return WP_INVALID_ARGUMENT;
    }
    out->stats = wp_arena_alloc(arena, sizeof *out->stats);
    if (out->stats == NULL) {
        return wp_wire_too_long(err);
    }
    status = pool_in(pb, out->stats, err);
    if (status == WP_OK) {
        status = wp_wire_policy_in(arena, pb, out, err);
    }
    return status == WP_OK
               ? wp_wire_scaling_detail_in(arena, pb->scaling, out, err)
               : status;
}

struct pool {
    Warmpool__V1__Pool pool;
    Warmpool__V1__PoolRef ref;
    struct wp_wire_scaling scaling;
};

static void
fill_pool(const struct wp_pool_stats *in, struct pool *pb)
{
    Warmpool__V1__Pool *pool = &pb->pool;

    warmpool__v1__pool_ref__init(&pb->ref);
    pb->ref.namespace_ = wp_wire_borrow(in->spec.pool_namespace);
    pb->ref.name = wp_wire_borrow(in->spec.name);
    warmpool__v1__pool__init(pool);
    pool->ref = &pb->ref;
    pool->template_ = wp_wire_borrow(in->spec.template_name);
    pool->target = in->spec.target;
    pool->warming = in->warming;
    pool->ready = in->ready;
    pool->leased = in->leased;
    pool->quarantined = in->quarantined;
    pool->dying = in->dying;
    pool->waiting = in->waiting;
    pool->draining = in->draining;
    pool->breaker_open = in->breaker_open;
    pool->partial = in->partial;
    pool->last_failure = wp_wire_borrow(in->last_failure);
    pool->created_total = in->created_total;
    pool->destroyed_total = in->destroyed_total;
    pool->failed_total = in->failed_total;
    pool->lost_total = in->lost_total;
    pool->served_warm_total = in->served_total[WP_SERVED_WARM];
    pool->served_queued_total = in->served_total[WP_SERVED_QUEUED];
    pool->served_cold_total = in->served_total[WP_SERVED_COLD];
    pool->refused_total = in->refused_total;
    pool->released_total = in->released_total;
    pool->expired_total = in->expired_total;
    pool->cold_start = in->spec.cold_start == WP_COLD_ALLOWED
                           ? WARMPOOL__V1__COLD_START__COLD_START_ALLOWED
                           : WARMPOOL__V1__COLD_START__COLD_START_NEVER;
    pool->ttl_default_ms = in->spec.ttl_default_ns / WP_NS_PER_MS;
    pool->ttl_max_ms = in->spec.ttl_max_ns / WP_NS_PER_MS;
    pool->missed_total = in->missed_total;
    if (in->scaled) {
        pool->scaling = wp_wire_scaling_out(in, &pb->scaling);
    }
}

WP_WIRE_DEFINE_PACK(pool, wp_pool_stats, struct pool, fill_pool)

/* With its scaler's history, which is on the stack only here. */
struct pool_detail {
    struct pool pool; /* First. */
    struct wp_wire_scaling_detail scaling;
    struct wp_wire_policy policy;
};

static void
fill_pool_detail(const struct wp_wire_pool_detail *in, struct pool_detail *pb)
{
    fill_pool(in->stats, &pb->pool);
    wp_wire_policy_out(in, &pb->policy, &pb->pool.pool);
    if (in->stats->scaled) {
        pb->pool.pool.scaling = wp_wire_scaling_detail_out(in, &pb->scaling);
    }
}

WP_WIRE_DEFINE_PACK(pool_detail, wp_wire_pool_detail, struct pool_detail,
                    fill_pool_detail)

/* --- ListPoolsResponse, WatchPoolsResponse --- */

enum wp_status
wp_wire_unpack_pools(struct wp_arena *arena, const uint8_t *bytes, size_t len,
                     struct wp_wire_pools *out, struct wp_err *err)
{
    const Warmpool__V1__ListPoolsResponse *pb = wp_wire_decode(
        arena, &warmpool__v1__list_pools_response__descriptor, bytes, len, err);
    struct wp_pool_stats *pools;
    enum wp_status status;

    if (pb == NULL) {
        return WP_INVALID_ARGUMENT;
    }
    status = wp_wire_check_range("pools", (int64_t)pb->n_pools, 0, WP_POOLS_MAX,
                                 err);
    if (status != WP_OK) {
        return status;
    }
    pools = wp_arena_alloc(arena, pb->n_pools * sizeof *pools);
    if (pools == NULL) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "pools: a shorter message expected");
    }
    for (size_t i = 0; status == WP_OK && i < pb->n_pools; i++) {
        status = pool_in(pb->pools[i], &pools[i], err);
    }
    out->pools = pools;
    out->n_pools = (uint32_t)pb->n_pools;
    return status;
}

size_t
wp_wire_size_pools(const struct wp_wire_pools *message)
{
    size_t size = 0;

    for (uint32_t i = 0; i < message->n_pools; i++) {
        struct pool pb;

        fill_pool(&message->pools[i], &pb);
        size += wp_wire_part_size(&pb.pool.base);
    }
    return size;
}

size_t
wp_wire_pack_pools(const struct wp_wire_pools *message, uint8_t *buf)
{
    size_t size = 0;

    for (uint32_t i = 0; i < message->n_pools; i++) {
        struct pool pb;

        fill_pool(&message->pools[i], &pb);
        size += wp_wire_part_pack(1, &pb.pool.base, buf + size);
    }
    return size;
}

/* --- ListPoolsRequest --- */

enum wp_status
wp_wire_unpack_list_pools_request(struct wp_arena *arena, const uint8_t *bytes,
                                  size_t len,
                                  struct wp_wire_list_pools_request *out,
                                  struct wp_err *err)
{
    *out = (struct wp_wire_list_pools_request){0};
    return wp_wire_decode(arena, &warmpool__v1__list_pools_request__descriptor,
                          bytes, len, err) != NULL
               ? WP_OK
               : WP_INVALID_ARGUMENT;
}

size_t
wp_wire_size_list_pools_request(
    const struct wp_wire_list_pools_request *message)
{
    (void)message;
    return 0;
}

size_t
wp_wire_pack_list_pools_request(
    const struct wp_wire_list_pools_request *message,
    uint8_t *buf) /* NOLINT(readability-non-const-parameter): as all. */
{
    (void)message;
    (void)buf;
    return 0;
}

/* --- GetPoolRequest --- */

enum wp_status
wp_wire_unpack_get_pool_request(struct wp_arena *arena, const uint8_t *bytes,
                                size_t len,
                                struct wp_wire_get_pool_request *out,
                                struct wp_err *err)
{
    const Warmpool__V1__GetPoolRequest *pb = wp_wire_decode(
        arena, &warmpool__v1__get_pool_request__descriptor, bytes, len, err);

    return pb != NULL ? wp_wire_pool_in(pb->pool, &out->pool, err)
                      : WP_INVALID_ARGUMENT;
}

struct get_pool_request {
    Warmpool__V1__GetPoolRequest request;
    Warmpool__V1__PoolRef pool;
};

static void
fill_get_pool_request(const struct wp_wire_get_pool_request *in,
                      struct get_pool_request *pb)
{
    warmpool__v1__get_pool_request__init(&pb->request);
    wp_wire_pool_out(&in->pool, &pb->pool);
    pb->request.pool = &pb->pool;
}

WP_WIRE_DEFINE_PACK(get_pool_request, wp_wire_get_pool_request,
                    struct get_pool_request, fill_get_pool_request)

/* --- WatchPoolsRequest --- */

enum wp_status
wp_wire_unpack_watch_pools_request(struct wp_arena *arena, const uint8_t *bytes,
                                   size_t len,
                                   struct wp_wire_watch_pools_request *out,
                                   struct wp_err *err)
{
    const Warmpool__V1__WatchPoolsRequest *pb = wp_wire_decode(
        arena, &warmpool__v1__watch_pools_request__descriptor, bytes, len, err);

    return pb != NULL ? wp_wire_pool_in_optional(pb->pool, &out->pool, err)
                      : WP_INVALID_ARGUMENT;
}

struct watch_pools_request {
    Warmpool__V1__WatchPoolsRequest request;
    Warmpool__V1__PoolRef pool;
};

static void
fill_watch_pools_request(const struct wp_wire_watch_pools_request *in,
                         struct watch_pools_request *pb)
{
    warmpool__v1__watch_pools_request__init(&pb->request);
    wp_wire_pool_out(&in->pool, &pb->pool);
    pb->request.pool = &pb->pool;
}

WP_WIRE_DEFINE_PACK(watch_pools_request, wp_wire_watch_pools_request,
                    struct watch_pools_request, fill_watch_pools_request)

/* --- Drain --- */

enum wp_status
wp_wire_unpack_drain_request(struct wp_arena *arena, const uint8_t *bytes,
                             size_t len, struct wp_wire_drain_request *out,
                             struct wp_err *err)
{
    const Warmpool__V1__DrainRequest *pb = wp_wire_decode(
        arena, &warmpool__v1__drain_request__descriptor, bytes, len, err);
    enum wp_status status;

    if (pb == NULL) {
        return WP_INVALID_ARGUMENT;
    }
    out->grace_ms = pb->grace_ms;
    out->undo = pb->undo;
    status = wp_wire_pool_in_optional(pb->pool, &out->pool, err);
    if (status == WP_OK) {
        status = wp_wire_check_range("grace_ms", pb->grace_ms, 0,
                                     WP_WIRE_GRACE_MAX_MS, err);
    }
    if (status == WP_OK && out->pool.name.len != 0 && out->grace_ms != 0) {
        status = wp_err_set(err, WP_INVALID_ARGUMENT,
                            "grace_ms: 0 expected when one pool is drained, "
                            "whose leases live on");
    }
    if (status == WP_OK && out->pool.name.len == 0 && out->undo) {
        status = wp_err_set(err, WP_INVALID_ARGUMENT,
                            "undo: false expected when the whole daemon is "
                            "drained, which then leaves");
    }
    return status;
}

struct drain_request {
    Warmpool__V1__DrainRequest request;
    Warmpool__V1__PoolRef pool;
};

static void
fill_drain_request(const struct wp_wire_drain_request *in,
                   struct drain_request *pb)
{
    warmpool__v1__drain_request__init(&pb->request);
    wp_wire_pool_out(&in->pool, &pb->pool);
    pb->request.pool = &pb->pool;
    pb->request.grace_ms = in->grace_ms;
    pb->request.undo = in->undo;
}

WP_WIRE_DEFINE_PACK(drain_request, wp_wire_drain_request, struct drain_request,
                    fill_drain_request)

enum wp_status
wp_wire_unpack_drain_response(struct wp_arena *arena, const uint8_t *bytes,
                              size_t len, struct wp_wire_drain_response *out,
                              struct wp_err *err)
{
    const Warmpool__V1__DrainResponse *pb = wp_wire_decode(
        arena, &warmpool__v1__drain_response__descriptor, bytes, len, err);

    if (pb == NULL) {
        return WP_INVALID_ARGUMENT;
    }
    out->leased = pb->leased;
    return WP_OK;
}

static void
fill_drain_response(const struct wp_wire_drain_response *in,
                    Warmpool__V1__DrainResponse *pb)
{
    warmpool__v1__drain_response__init(pb);
    pb->leased = in->leased;
}

WP_WIRE_DEFINE_PACK(drain_response, wp_wire_drain_response,
                    Warmpool__V1__DrainResponse, fill_drain_response)
