/* PoolAdmin's requests, and pools as they are shown. */
#include "proto/wire/wire.h"

#include "proto/wire/check.h"
#include "proto/wire/decode.h"
#include "proto/wire/encode.h"
#include "proto/wire/parts.h"
#include "proto/wire/policy.h"
#include "proto/wire/scale.h"

/* --- Pool --- */

/* What Pool and wp_pool_stats call the same. */
#define POOL_FIELDS(COPY)                                                      \
    COPY(warming)                                                              \
    COPY(ready)                                                                \
    COPY(leased)                                                               \
    COPY(quarantined)                                                          \
    COPY(dying)                                                                \
    COPY(waiting)                                                              \
    COPY(created_total)                                                        \
    COPY(destroyed_total)                                                      \
    COPY(failed_total)                                                         \
    COPY(lost_total)                                                           \
    COPY(refused_total)                                                        \
    COPY(released_total)                                                       \
    COPY(expired_total)                                                        \
    COPY(missed_total)                                                         \
    COPY(draining)                                                             \
    COPY(breaker_open)                                                         \
    COPY(partial)

static void
pool_counts_in(const Warmpool__V1__Pool *pb, struct wp_pool_stats *out)
{
    const int64_t ttl_max_ms = WP_TTL_MAX_NS / WP_NS_PER_MS;

    *out = (struct wp_pool_stats){
        .spec.target = pb->target,
        .spec.cold_start =
            pb->cold_start == WARMPOOL__V1__COLD_START__COLD_START_ALLOWED
                ? WP_COLD_ALLOWED
                : WP_COLD_NEVER,
        .spec.ttl_default_ns = wp_wire_ms_in_ns(pb->ttl_default_ms, ttl_max_ms),
        .spec.ttl_max_ns = wp_wire_ms_in_ns(pb->ttl_max_ms, ttl_max_ms),
        .served_total[WP_SERVED_WARM] = pb->served_warm_total,
        .served_total[WP_SERVED_QUEUED] = pb->served_queued_total,
        .served_total[WP_SERVED_COLD] = pb->served_cold_total,
    };
#define COPY_IN(field) out->field = pb->field;
    POOL_FIELDS(COPY_IN)
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

WP_WIRE_DEFINE_UNPACK(pool, wp_pool_stats, Warmpool__V1__Pool,
                      warmpool__v1__pool, pool_in)

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
#define COPY_OUT(field) pool->field = in->field;
    POOL_FIELDS(COPY_OUT)
    pool->template_ = wp_wire_borrow(in->spec.template_name);
    pool->target = in->spec.target;
    pool->last_failure = wp_wire_borrow(in->last_failure);
    pool->served_warm_total = in->served_total[WP_SERVED_WARM];
    pool->served_queued_total = in->served_total[WP_SERVED_QUEUED];
    pool->served_cold_total = in->served_total[WP_SERVED_COLD];
    pool->cold_start = in->spec.cold_start == WP_COLD_ALLOWED
                           ? WARMPOOL__V1__COLD_START__COLD_START_ALLOWED
                           : WARMPOOL__V1__COLD_START__COLD_START_NEVER;
    pool->ttl_default_ms = in->spec.ttl_default_ns / WP_NS_PER_MS;
    pool->ttl_max_ms = in->spec.ttl_max_ns / WP_NS_PER_MS;
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
    pools = wp_wire_list_in("pools", pb->n_pools, WP_POOLS_MAX, sizeof *pools,
                            arena, err);
    status = pools != NULL ? WP_OK : WP_INVALID_ARGUMENT;
    for (size_t i = 0; status == WP_OK && i < pb->n_pools; i++) {
        status = pool_in(pb->pools[i], &pools[i], err);
    }
    out->pools = pools;
    out->n_pools = (uint32_t)pb->n_pools;
    return status;
}

/* A list and nothing else. */
static void
fill_pools(const struct wp_wire_pools *in, Warmpool__V1__ListPoolsResponse *pb)
{
    (void)in;
    warmpool__v1__list_pools_response__init(pb);
}

WP_WIRE_DEFINE_PACK_LIST(pools, wp_wire_pools, pools, struct pool, fill_pool,
                         Warmpool__V1__ListPoolsResponse, fill_pools)

/* --- ListPoolsRequest --- */

WP_WIRE_DEFINE_EMPTY(list_pools_request, wp_wire_list_pools_request,
                     warmpool__v1__list_pools_request)

/* --- GetPoolRequest --- */

static enum wp_status
get_pool_request_in(const Warmpool__V1__GetPoolRequest *pb,
                    struct wp_wire_get_pool_request *out, struct wp_err *err)
{
    return wp_wire_pool_in(pb->pool, &out->pool, err);
}

WP_WIRE_DEFINE_UNPACK(get_pool_request, wp_wire_get_pool_request,
                      Warmpool__V1__GetPoolRequest,
                      warmpool__v1__get_pool_request, get_pool_request_in)

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

static enum wp_status
watch_pools_request_in(const Warmpool__V1__WatchPoolsRequest *pb,
                       struct wp_wire_watch_pools_request *out,
                       struct wp_err *err)
{
    return wp_wire_pool_in_optional(pb->pool, &out->pool, err);
}

WP_WIRE_DEFINE_UNPACK(watch_pools_request, wp_wire_watch_pools_request,
                      Warmpool__V1__WatchPoolsRequest,
                      warmpool__v1__watch_pools_request, watch_pools_request_in)

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

/* --- CreatePool, DeletePool --- */

static enum wp_status
create_pool_request_in(const Warmpool__V1__CreatePoolRequest *pb,
                       struct wp_wire_create_pool_request *out,
                       struct wp_err *err)
{
    out->manifest = wp_str_from(pb->manifest);
    if (out->manifest.len == 0) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "manifest: a SandboxWarmPool expected, got nothing");
    }
    if (out->manifest.len > WP_WIRE_MANIFEST_MAX) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "manifest: at most %d bytes expected, got %zu",
                          (int)WP_WIRE_MANIFEST_MAX, out->manifest.len);
    }
    return WP_OK;
}

WP_WIRE_DEFINE_UNPACK(create_pool_request, wp_wire_create_pool_request,
                      Warmpool__V1__CreatePoolRequest,
                      warmpool__v1__create_pool_request, create_pool_request_in)

static void
fill_create_pool_request(const struct wp_wire_create_pool_request *in,
                         Warmpool__V1__CreatePoolRequest *pb)
{
    warmpool__v1__create_pool_request__init(pb);
    pb->manifest = wp_wire_borrow_str(in->manifest);
}

WP_WIRE_DEFINE_PACK(create_pool_request, wp_wire_create_pool_request,
                    Warmpool__V1__CreatePoolRequest, fill_create_pool_request)

static enum wp_status
delete_pool_request_in(const Warmpool__V1__DeletePoolRequest *pb,
                       struct wp_wire_delete_pool_request *out,
                       struct wp_err *err)
{
    return wp_wire_pool_in(pb->pool, &out->pool, err);
}

WP_WIRE_DEFINE_UNPACK(delete_pool_request, wp_wire_delete_pool_request,
                      Warmpool__V1__DeletePoolRequest,
                      warmpool__v1__delete_pool_request, delete_pool_request_in)

struct delete_pool_request {
    Warmpool__V1__DeletePoolRequest request;
    Warmpool__V1__PoolRef pool;
};

static void
fill_delete_pool_request(const struct wp_wire_delete_pool_request *in,
                         struct delete_pool_request *pb)
{
    warmpool__v1__delete_pool_request__init(&pb->request);
    wp_wire_pool_out(&in->pool, &pb->pool);
    pb->request.pool = &pb->pool;
}

WP_WIRE_DEFINE_PACK(delete_pool_request, wp_wire_delete_pool_request,
                    struct delete_pool_request, fill_delete_pool_request)

static enum wp_status
delete_pool_response_in(const Warmpool__V1__DeletePoolResponse *pb,
                        struct wp_wire_delete_pool_response *out,
                        struct wp_err *err)
{
    (void)err;
    out->leased = pb->leased;
    return WP_OK;
}

WP_WIRE_DEFINE_UNPACK(delete_pool_response, wp_wire_delete_pool_response,
                      Warmpool__V1__DeletePoolResponse,
                      warmpool__v1__delete_pool_response,
                      delete_pool_response_in)

static void
fill_delete_pool_response(const struct wp_wire_delete_pool_response *in,
                          Warmpool__V1__DeletePoolResponse *pb)
{
    warmpool__v1__delete_pool_response__init(pb);
    pb->leased = in->leased;
}

WP_WIRE_DEFINE_PACK(delete_pool_response, wp_wire_delete_pool_response,
                    Warmpool__V1__DeletePoolResponse, fill_delete_pool_response)

/* --- Drain --- */

static enum wp_status
drain_request_in(const Warmpool__V1__DrainRequest *pb,
                 struct wp_wire_drain_request *out, struct wp_err *err)
{
    enum wp_status status;

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

WP_WIRE_DEFINE_UNPACK(drain_request, wp_wire_drain_request,
                      Warmpool__V1__DrainRequest, warmpool__v1__drain_request,
                      drain_request_in)

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

static enum wp_status
drain_response_in(const Warmpool__V1__DrainResponse *pb,
                  struct wp_wire_drain_response *out, struct wp_err *err)
{
    (void)err;
    out->leased = pb->leased;
    return WP_OK;
}

WP_WIRE_DEFINE_UNPACK(drain_response, wp_wire_drain_response,
                      Warmpool__V1__DrainResponse, warmpool__v1__drain_response,
                      drain_response_in)

static void
fill_drain_response(const struct wp_wire_drain_response *in,
                    Warmpool__V1__DrainResponse *pb)
{
    warmpool__v1__drain_response__init(pb);
    pb->leased = in->leased;
}

WP_WIRE_DEFINE_PACK(drain_response, wp_wire_drain_response,
                    Warmpool__V1__DrainResponse, fill_drain_response)
