/* pool/core/shape.c - adding, changing and removing pools.
 *
 * A pool has an index, and a struct, which is never freed before the end: a
 * claim may have found it a moment ago. A removed pool is not found any more;
 * what is left of it lives on under its index. Once nothing is, another pool
 * may have the index: it gets a struct of its own, takes over the queues, which
 * are empty, and the old struct is retired: closed for ever, so that
 * whoever still comes to it is refused. Indexes that were never used go first.
 *
 * Nothing is left when no slot is of that index, dead or linked, and no claim
 * is under way in it: each of them has an entry in the claim table from before
 * it looks whether the pool is closed.
 */
#include <stdlib.h>

#include "pool/base/assert.h"
#include "pool/base/fnv.h"
#include "pool/core/control.h"
#include "pool/refill/refill.h"
#include "pool/sizing/history.h"
#include "pool/sizing/scale.h"
#include "pool/sizing/snapshot.h"

static bool
is_removed(const struct wp_pool *pool)
{
    return atomic_load_explicit(&pool->removed, memory_order_relaxed);
}

static enum wp_status
check_spec(const struct wp_pool_spec *spec, struct wp_err *err)
{
    if (!wp_str_is_dns_name(wp_str_from(spec->pool_namespace),
                            WP_NAMESPACE_MAX) ||
        !wp_str_is_dns_name(wp_str_from(spec->name), WP_POOL_NAME_MAX)) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "pool '%s/%s': DNS names expected",
                          spec->pool_namespace, spec->name);
    }
    if (spec->target > WP_TARGET_MAX) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "pool '%s': target: at most %d expected, got %u",
                          spec->name, WP_TARGET_MAX, spec->target);
    }
    if (spec->ttl_default_ns < WP_TTL_MIN_NS ||
        spec->ttl_max_ns > WP_TTL_MAX_NS ||
        spec->ttl_default_ns > spec->ttl_max_ns) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "pool '%s': ttl: 1 s <= default <= max <= 30 days "
                          "expected",
                          spec->name);
    }
    if (spec->ready_within_ns <= 0 || spec->wait_max_ns < 0 ||
        spec->wait_max_ns > WP_WAIT_MAX_NS) {
        return wp_err_set(
            err, WP_INVALID_ARGUMENT,
            "pool '%s': ready-within must be above 0, wait-max at most 10 min",
            spec->name);
    }
    return WP_OK;
}

/* What of spec is said of tenants. */
static void
set_tenants(struct wp_pool *pool, const struct wp_pool_spec *spec)
{
    struct wp_quota quota = {
        .leases_max = spec->tenant_leases_max,
        .waiters_max = WP_QUOTA_NONE, /* The wait queue holds to it. */
        .claims_per_minute = spec->tenant_claims_per_minute,
    };

    wp_accounts_set_pool(&pool->pools->accounts, pool->index, pool->identity,
                         &quota);
}

/* All of spec but the names, which are there. */
static enum wp_status
apply_spec(struct wp_pool *pool, const struct wp_pool_spec *spec,
           struct wp_err *err)
{
    enum wp_status status = wp_pool_scale_make(pool, spec, err);
    bool fits;

    if (status != WP_OK) {
        return status;
    }
    (void)pthread_mutex_lock(&pool->wait_lock);
    fits = wp_wait_queue_resize(&pool->waiters, spec->waiters_max,
                                spec->tenant_waiters_max);
    if (fits) {
        struct wp_pool_spec *to = &pool->spec;

        memcpy(to->template_name, spec->template_name,
               sizeof to->template_name);
        to->target = spec->target;
        to->waiters_max = spec->waiters_max;
        to->tenant_waiters_max = spec->tenant_waiters_max;
        to->tenant_leases_max = spec->tenant_leases_max;
        to->tenant_claims_per_minute = spec->tenant_claims_per_minute;
        to->fair_share = spec->fair_share;
        to->create_inflight_max = spec->create_inflight_max;
        to->ttl_default_ns = spec->ttl_default_ns;
        to->ttl_max_ns = spec->ttl_max_ns;
        to->hold_max_ns = spec->hold_max_ns;
        to->freeze_after_ns = spec->freeze_after_ns;
        to->wait_max_ns = spec->wait_max_ns;
        to->ready_within_ns = spec->ready_within_ns;
        to->cold_start = spec->cold_start;
        to->cold_start_said = spec->cold_start_said;
        to->bind_env = spec->bind_env;
        memcpy(to->egress, spec->egress, sizeof to->egress);
        to->scale = spec->scale;
    }
    (void)pthread_mutex_unlock(&pool->wait_lock);
    if (!fits) {
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED,
                          "pool '%s': no memory for %u waiting claims",
                          spec->name, spec->waiters_max);
    }
    set_tenants(pool, spec);
    wp_pool_scale_set(pool, spec);
    /* Else its scaler decides, in the next run. */
    if (wp_pool_scale_active(pool) == NULL) {
        atomic_store_explicit(&pool->target, spec->target,
                              memory_order_relaxed);
    }
    atomic_store_explicit(&pool->ttl_default_ns, spec->ttl_default_ns,
                          memory_order_relaxed);
    atomic_store_explicit(&pool->ttl_max_ns, spec->ttl_max_ns,
                          memory_order_relaxed);
    atomic_store_explicit(&pool->hold_max_ns, spec->hold_max_ns,
                          memory_order_relaxed);
    atomic_store_explicit(&pool->has_egress, spec->egress[0] != '\0',
                          memory_order_relaxed);
    return WP_OK;
}

/* Stored in records, as a part of what a claim asked for: never change it. */
static uint64_t
identity_of(const struct wp_pool *pool)
{
    return wp_fnv_name(pool->pool_namespace, pool->name);
}

static void
destroy_pool(struct wp_pool *pool)
{
    wp_pool_scale_destroy(wp_pool_scale_of(pool));
    wp_pool_history_destroy(pool->history);
    wp_snapshot_destroy(pool);
    wp_pool_turns_destroy(pool);
    wp_wait_queue_fini(&pool->waiters);
    (void)pthread_mutex_destroy(&pool->wait_lock);
    free(pool);
}

static struct wp_pool *
create_pool(struct wp_pools *pools, const struct wp_pool_spec *spec,
            uint32_t index)
{
    const uint64_t bytes = pools->memory_bytes;
    struct wp_pool *pool = wp_pools_reserve(pools, 1, sizeof *pool);

    if (pool == NULL) {
        return NULL;
    }
    if (!wp_wait_queue_init(&pool->waiters, spec->waiters_max,
                            spec->tenant_waiters_max, pools->config.hash_key)) {
        pools->memory_bytes = bytes;
        free(pool);
        return NULL;
    }
    pools->memory_bytes += wp_wait_queue_bytes(spec->waiters_max);
    pool->pools = pools;
    pool->spec = *spec;
    pool->pool_namespace = wp_str_from(pool->spec.pool_namespace);
    pool->name = wp_str_from(pool->spec.name);
    pool->index = index;
    pool->identity = identity_of(pool);
    (void)pthread_mutex_init(&pool->wait_lock, NULL);
    wp_list_init(&pool->followers);
    pool->followers_until_ns = WP_TIME_NEVER;
    wp_list_init(&pool->awaiting_store);
    atomic_store_explicit(&pool->target, spec->target, memory_order_relaxed);
    atomic_store_explicit(&pool->ttl_default_ns, spec->ttl_default_ns,
                          memory_order_relaxed);
    atomic_store_explicit(&pool->ttl_max_ns, spec->ttl_max_ns,
                          memory_order_relaxed);
    atomic_store_explicit(&pool->hold_max_ns, spec->hold_max_ns,
                          memory_order_relaxed);
    atomic_store_explicit(&pool->has_egress, spec->egress[0] != '\0',
                          memory_order_relaxed);
    atomic_store_explicit(&pool->retry_after_ns, WP_REFILL_LEAD_GUESS_NS,
                          memory_order_relaxed);
    atomic_store_explicit(&pool->lead_last_ns, -1, memory_order_relaxed);
    atomic_store_explicit(&pool->draining, pools->closing,
                          memory_order_relaxed);
    if (!wp_pool_turns_create(pool) || !wp_snapshot_create(pool) ||
        !wp_pool_history_create(pool) ||
        wp_pool_scale_make(pool, spec, NULL) != WP_OK) {
        destroy_pool(pool);
        pools->memory_bytes = bytes;
        return NULL;
    }
    set_tenants(pool, spec);
    wp_pool_scale_set(pool, spec);
    return pool;
}

void
wp_pools_free_all(struct wp_pools *pools)
{
    for (uint32_t i = 0; i < wp_pools_count(pools); i++) {
        destroy_pool(wp_pools_at(pools, i));
    }
    while (pools->retired_pools != NULL) {
        struct wp_pool *retired = pools->retired_pools;

        pools->retired_pools = retired->next_retired;
        destroy_pool(retired);
    }
}

static bool
nobody_waits(struct wp_pool *pool)
{
    bool nobody;

    (void)pthread_mutex_lock(&pool->wait_lock);
    nobody = wp_wait_queue_count(&pool->waiters) == 0 &&
             wp_list_empty(&pool->followers) &&
             wp_list_empty(&pool->awaiting_store);
    (void)pthread_mutex_unlock(&pool->wait_lock);
    return nobody;
}

/* Nothing is left of the pool, and nobody can come to anything of its index but
 * its struct. */
static bool
is_gone(struct wp_pools *pools, struct wp_pool *pool)
{
    if (!is_removed(pool)) {
        return false;
    }
    /* A claim stores its entry, passes a fence of its own (claim.c), and then
     * looks whether the pool is closed. Here the pool was closed, then comes
     * this fence, then the look at the entries. Of the two fences one is before
     * the other in the one order of all; what was stored before it is seen by
     * the loads behind the other. That is all it rests on. */
    atomic_thread_fence(memory_order_seq_cst);
    return !wp_claim_table_has_pool(&pools->claims, pool->index) &&
           nobody_waits(pool) && wp_ready_queue_is_empty(&pool->ready) &&
           wp_ready_queue_is_empty(&pool->others) &&
           wp_slots_none_left(&pools->slots, pool->index);
}

/* The removed pool of which nothing has been left for the longest time; NULL
 * when there is none. */
static struct wp_pool *
find_gone(struct wp_pools *pools)
{
    struct wp_pool *oldest = NULL;

    for (uint32_t i = 0; i < wp_pools_count(pools); i++) {
        struct wp_pool *pool = wp_pools_at(pools, i);

        if ((oldest == NULL || pool->removed_nr < oldest->removed_nr) &&
            is_gone(pools, pool)) {
            oldest = pool;
        }
    }
    return oldest;
}

static enum wp_status
revive(struct wp_pools *pools, struct wp_pool *pool,
       const struct wp_pool_spec *spec, struct wp_err *err)
{
    enum wp_status status = apply_spec(pool, spec, err);

    if (status == WP_OK) {
        if (wp_pool_scale_of(pool) != NULL) {
            wp_pool_scale_forget_hand(pool, wp_pool_scale_of(pool));
        }
        atomic_store_explicit(&pool->draining, pools->closing,
                              memory_order_relaxed);
        atomic_store_explicit(&pool->removed, false, memory_order_relaxed);
        wp_pools_publish_name(pools, pool);
    }
    return status;
}

/* A new pool takes the place of one of which nothing is left. */
static struct wp_pool *
replace_pool(struct wp_pools *pools, struct wp_pool *gone,
             const struct wp_pool_spec *spec)
{
    struct wp_pool *pool = create_pool(pools, spec, gone->index);

    if (pool == NULL) {
        return NULL;
    }
    wp_ready_queue_take_over(&pool->ready, &gone->ready);
    wp_ready_queue_take_over(&pool->others, &gone->others);
    atomic_store_explicit(&pool->created_before,
                          wp_slots_created(&pools->slots, gone->index),
                          memory_order_relaxed);
    atomic_store_explicit(&pool->destroyed_before,
                          wp_slots_destroyed(&pools->slots, gone->index),
                          memory_order_relaxed);
    gone->next_retired = pools->retired_pools;
    pools->retired_pools = gone;
    return pool;
}

static struct wp_pool *
place_pool(struct wp_pools *pools, const struct wp_pool_spec *spec)
{
    uint32_t count = wp_pools_count(pools);
    struct wp_pool *gone;
    struct wp_pool *pool;

    if (count == WP_POOLS_MAX) {
        gone = find_gone(pools);
        return gone != NULL ? replace_pool(pools, gone, spec) : NULL;
    }
    pool = create_pool(pools, spec, count);
    if (pool != NULL) {
        wp_ready_queue_init(&pool->ready, &pools->slots, count);
        wp_ready_queue_init_second(&pool->others, &pools->slots, count);
    }
    return pool;
}

enum wp_status
wp_pools_add(struct wp_pools *pools, const struct wp_pool_spec *spec,
             uint32_t *index, struct wp_err *err)
{
    struct wp_str ns = wp_str_from(spec->pool_namespace);
    struct wp_str name = wp_str_from(spec->name);
    struct wp_pool *pool;

    if (check_spec(spec, err) != WP_OK) {
        return WP_INVALID_ARGUMENT;
    }
    if (wp_pools_find(pools, ns, name) != NULL) {
        return wp_err_set(err, WP_ALREADY_EXISTS, "pool '%s/%s' exists already",
                          spec->pool_namespace, spec->name);
    }
    pool = wp_pools_find_removed(pools, ns, name);
    if (pool != NULL) {
        enum wp_status status = revive(pools, pool, spec, err);

        if (status != WP_OK) {
            return status;
        }
    } else {
        pool = place_pool(pools, spec);
        if (pool == NULL) {
            return wp_err_set(err, WP_RESOURCE_EXHAUSTED,
                              "pool '%s': no room for it; at most %d pools",
                              spec->name, WP_POOLS_MAX);
        }
        pool->unread = pools->swept;
        /* Publish the pool: paired with the acquires in at, find and count. */
        atomic_store_explicit(&pools->pool[pool->index], pool,
                              memory_order_release);
        wp_pools_publish_name(pools, pool);
        if (pool->index == wp_pools_count(pools)) {
            atomic_store_explicit(&pools->n_pools, pool->index + 1,
                                  memory_order_release);
        }
    }
    if (index != NULL) {
        *index = pool->index;
    }
    wp_pools_touch(pool);
    return WP_OK;
}

/* NULL when there is none of that index that is not removed. */
static struct wp_pool *
find_index(struct wp_pools *pools, uint32_t pool_index, struct wp_err *err)
{
    struct wp_pool *pool = pool_index < wp_pools_count(pools)
                               ? wp_pools_at(pools, pool_index)
                               : NULL;

    if (pool == NULL || is_removed(pool)) {
        (void)wp_err_set(err, WP_NOT_FOUND, "no such pool");
        return NULL;
    }
    return pool;
}

enum wp_status
wp_pools_update(struct wp_pools *pools, uint32_t pool_index,
                const struct wp_pool_spec *spec, struct wp_err *err)
{
    struct wp_pool *pool = find_index(pools, pool_index, err);
    enum wp_status status;

    if (pool == NULL) {
        return WP_NOT_FOUND;
    }
    if (check_spec(spec, err) != WP_OK) {
        return WP_INVALID_ARGUMENT;
    }
    if (!wp_str_is(pool->name, spec->name) ||
        !wp_str_is(pool->pool_namespace, spec->pool_namespace)) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "pool '%s': it cannot be renamed to '%s/%s'",
                          pool->spec.name, spec->pool_namespace, spec->name);
    }
    status = apply_spec(pool, spec, err);
    wp_pools_shrink(pool);
    wp_pools_touch(pool);
    return status;
}

void
wp_pools_remove(struct wp_pools *pools, uint32_t pool_index)
{
    struct wp_pool *pool = find_index(pools, pool_index, NULL);

    if (pool == NULL) {
        return;
    }
    pool->removed_nr = ++pools->removals;
    atomic_store_explicit(&pool->removed, true, memory_order_relaxed);
    /* Before the fence in is_gone. */
    atomic_store_explicit(&pool->draining, true, memory_order_relaxed);
    wp_pools_remove_name(pools, pool);
    wp_pools_give_up_warming(pools, pool_index, UINT32_MAX);
    if (wp_pool_scale_active(pool) != NULL) {
        wp_snapshot_changed(pool);
    }
    wp_snapshot_save_soon(pool, wp_pools_now(pools));
    wp_pools_touch(pool);
}

enum wp_status
wp_pools_set_target(struct wp_pools *pools, uint32_t pool_index,
                    uint32_t target, struct wp_err *err)
{
    struct wp_pool *pool = find_index(pools, pool_index, err);
    struct wp_pool_scale *scale;
    bool by_hand;

    if (pool == NULL) {
        return WP_NOT_FOUND;
    }
    scale = wp_pool_scale_active(pool);
    if (target > WP_TARGET_MAX) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "target: at most %d expected, got %u", WP_TARGET_MAX,
                          target);
    }
    (void)pthread_mutex_lock(&pool->wait_lock);
    by_hand = scale == NULL || pool->spec.target != target;
    pool->spec.target = target;
    (void)pthread_mutex_unlock(&pool->wait_lock);
    if (scale != NULL) {
        scale->set_by_call = scale->set_by_call || by_hand;
        wp_snapshot_changed(pool);
        wp_snapshot_save_soon(pool, wp_pools_now(pools));
    }
    if (by_hand) {
        atomic_store_explicit(&pool->target, target, memory_order_relaxed);
        wp_pools_shrink(pool);
    }
    wp_pools_touch(pool);
    return WP_OK;
}

void
wp_pools_drain(struct wp_pools *pools, uint32_t pool_index)
{
    struct wp_pool *pool;

    WP_ASSERT(pool_index < wp_pools_count(pools));
    pool = wp_pools_at(pools, pool_index);
    atomic_store_explicit(&pool->draining, true, memory_order_seq_cst);
    wp_pools_touch(pool);
}

enum wp_status
wp_pools_undrain(struct wp_pools *pools, uint32_t pool_index,
                 struct wp_err *err)
{
    struct wp_pool *pool = find_index(pools, pool_index, err);

    if (pool == NULL) {
        return WP_NOT_FOUND;
    }
    if (pools->closing) {
        return wp_err_set(err, WP_FAILED_PRECONDITION,
                          "the daemon leaves: its drain is not taken back");
    }
    atomic_store_explicit(&pool->draining, false, memory_order_seq_cst);
    wp_pools_touch(pool);
    return WP_OK;
}
