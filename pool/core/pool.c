/* pool/core/pool.c - the life of all pools together, and their numbers. */
#include "pool/pool.h"

#include <stdio.h>
#include <stdlib.h>

#include "pool/base/assert.h"
#include "pool/core/control.h"
#include "pool/records/records.h"
#include "pool/sizing/budget.h"
#include "pool/sizing/scale.h"
#include "pool/sizing/snapshot.h"
#include "pool/slots/sandbox_name.h"

_Static_assert((int)WP_TARGET_MAX == (int)WP_SCALE_TARGET_MAX,
               "policies and pools have one bound");

void
wp_pool_spec_init(struct wp_pool_spec *spec)
{
    memset(spec, 0, sizeof *spec);
    memcpy(spec->pool_namespace, "default", sizeof "default");
    spec->waiters_max = 1024;
    spec->tenant_waiters_max = 256;
    spec->fair_share = true;
    spec->create_inflight_max = 16;
    spec->ttl_default_ns = 3600 * WP_NS_PER_S;
    spec->ttl_max_ns = 24 * 3600 * WP_NS_PER_S;
    spec->wait_max_ns = 60 * WP_NS_PER_S;
    spec->ready_within_ns = 60 * WP_NS_PER_S;
    spec->cold_start = WP_COLD_NEVER;
    wp_scale_policy_init(&spec->scale);
}

static enum wp_status
check_config(const struct wp_pools_config *config, struct wp_err *err)
{
    if (config->slots_max == 0 || config->slots_max > WP_SLOTS_MAX) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "slots_max: 1 to %d expected, got %u", WP_SLOTS_MAX,
                          config->slots_max);
    }
    if (config->claims_max < config->slots_max ||
        config->claims_max > WP_CLAIMS_MAX) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "claims_max: %u (slots_max) to %d expected, got %u",
                          config->slots_max, WP_CLAIMS_MAX, config->claims_max);
    }
    return WP_OK;
}

/* Frees what reserve_all got, all of it or a part. */
static void
free_parts(struct wp_pools *pools)
{
    wp_slot_map_fini(&pools->map);
    wp_attention_destroy(pools);
    wp_claim_table_fini(&pools->claims);
    wp_accounts_fini(&pools->accounts);
    wp_slots_fini(&pools->slots);
    wp_pool_budgets_destroy(pools);
    wp_store_requests_destroy(pools);
    wp_peers_destroy(pools);
    free(pools->snapshots);
    free(pools->reported);
    free(pools->by_name);
    free(pools->pool);
    free(pools);
}

static bool
reserve_all(struct wp_pools *pools)
{
    const struct wp_pools_config *config = &pools->config;

    pools->durable = config->store.ops->durable;
    pools->shared = config->store.ops->shared;
    pools->mapped = pools->durable || config->backend.ops->foreign;
    pools->pool = wp_pools_reserve(pools, WP_POOLS_MAX, sizeof *pools->pool);
    pools->by_name =
        wp_pools_reserve(pools, WP_NAME_BUCKETS, sizeof *pools->by_name);
    if (pools->pool == NULL || pools->by_name == NULL ||
        !wp_slots_init(&pools->slots, config->slots_max, WP_POOLS_MAX) ||
        !wp_accounts_init(&pools->accounts, config->claims_max,
                          config->hash_key) ||
        !wp_claim_table_init(&pools->claims, config->claims_max,
                             &pools->accounts) ||
        !wp_peers_create(pools) || !wp_store_requests_create(pools) ||
        !wp_attention_create(pools) || !wp_snapshots_create(pools) ||
        !wp_pool_budgets_create(pools) || !wp_reported_leases_create(pools)) {
        return false;
    }
    if (pools->mapped) {
        uint32_t names = 2 * config->slots_max; /* By uid and by name. */

        if (!wp_slot_map_init(&pools->map, names)) {
            return false;
        }
        pools->memory_bytes += wp_slot_map_bytes(names);
    }
    pools->memory_bytes += wp_slots_memory_bytes(&pools->slots) +
                           wp_claim_table_memory_bytes(&pools->claims) +
                           wp_accounts_bytes(&pools->accounts);
    return true;
}

struct wp_pools *
wp_pools_create(const struct wp_pools_config *config, struct wp_err *err)
{
    struct wp_pools *pools;

    if (check_config(config, err) != WP_OK) {
        return NULL;
    }
    pools = aligned_alloc(alignof(struct wp_pools), sizeof *pools);
    if (pools == NULL) {
        (void)wp_err_set(err, WP_RESOURCE_EXHAUSTED, "out of memory");
        return NULL;
    }
    memset(pools, 0, sizeof *pools);
    pools->config = *config;
    pools->memory_bytes = sizeof *pools;
    if (!reserve_all(pools)) {
        (void)wp_err_set(err, WP_RESOURCE_EXHAUSTED,
                         "no memory for %u slots and %u claims",
                         config->slots_max, config->claims_max);
        free_parts(pools);
        return NULL;
    }
    wp_token_key_init(&pools->token_key, 1, config->token_key);
    wp_rng_init(&pools->rng, config->seed);
    pools->name_key = (struct wp_hash_key){wp_rng_next(&pools->rng),
                                           wp_rng_next(&pools->rng)};
    if (pools->shared) {
        pools->grant_mark =
            1 + (uint32_t)(wp_siphash128(pools->name_key, "grant", 5).low %
                           WP_RECORD_MARK_MAX);
    }
    atomic_init(&pools->marked, WP_SLOT_NONE);
    atomic_init(&pools->wall_offset_ns, wp_clock_wall_offset_ns(config->clock));
    for (size_t i = 0; i < WP_CHANGE_STRIPES; i++) {
        (void)pthread_mutex_init(&pools->change_lock[i], NULL);
    }
    wp_expired_init(&pools->expired);
    atomic_init(&pools->keeper, true);
    return pools;
}

void
wp_pools_destroy(struct wp_pools *pools)
{
    if (pools == NULL) {
        return;
    }
    wp_pools_free_all(pools);
    wp_expired_fini(&pools->expired);
    for (size_t i = 0; i < WP_CHANGE_STRIPES; i++) {
        (void)pthread_mutex_destroy(&pools->change_lock[i]);
    }
    wp_token_key_fini(&pools->token_key);
    free_parts(pools);
}

uint64_t
wp_pools_memory_bytes(const struct wp_pools *pools)
{
    return pools->memory_bytes;
}

void
wp_pools_stats(struct wp_pools *pools, uint32_t pool_index,
               struct wp_pool_stats *out)
{
    struct wp_pool *pool;
    const struct wp_slots *slots = &pools->slots;
    struct wp_histogram_view latency;

    WP_ASSERT(pool_index < wp_pools_count(pools));
    pool = wp_pools_at(pools, pool_index);
    memset(out, 0, sizeof *out);
    out->index = pool_index;
    out->warming = wp_slots_count(slots, pool_index, WP_SLOT_WARMING);
    out->ready = wp_slots_count(slots, pool_index, WP_SLOT_READY);
    out->leased = wp_slots_count(slots, pool_index, WP_SLOT_LEASED) +
                  wp_slots_count(slots, pool_index, WP_SLOT_LOST);
    out->quarantined = wp_slots_count(slots, pool_index, WP_SLOT_QUARANTINED);
    out->dying = wp_slots_count(slots, pool_index, WP_SLOT_DYING);
    out->waiting = atomic_load_explicit(&pool->waiting, memory_order_relaxed);
    out->created_total =
        wp_slots_created(slots, pool_index) -
        atomic_load_explicit(&pool->created_before, memory_order_relaxed);
    out->destroyed_total =
        wp_slots_destroyed(slots, pool_index) -
        atomic_load_explicit(&pool->destroyed_before, memory_order_relaxed);
    out->failed_total = wp_counter_read(&pool->failures);
    out->retired_total = wp_counter_read(&pool->retired);
    out->lost_total = wp_counter_read(&pool->lost);
    wp_histogram_read(&pool->claim_latency, &latency);
    out->served_total[WP_SERVED_WARM] = latency.count;
    for (int i = WP_SERVED_QUEUED; i <= WP_SERVED_COLD; i++) {
        uint64_t n = wp_counter_read(&pool->served[i]);

        out->served_total[i] = n;
        /* Each is counted after the other: one may be seen too early. */
        out->served_total[WP_SERVED_WARM] -=
            n < out->served_total[WP_SERVED_WARM]
                ? n
                : out->served_total[WP_SERVED_WARM];
    }
    out->refused_total = wp_counter_read(&pool->refused);
    out->missed_total = wp_counter_read(&pool->missed);
    out->released_total = wp_counter_read(&pool->released);
    out->expired_total = wp_counter_read(&pool->expired);
    out->undone_total = wp_counter_read(&pool->undone);
    out->bound_total = wp_counter_read(&pool->bound);
    out->unbound_total = wp_counter_read(&pool->unbound);
    out->draining = atomic_load_explicit(&pool->draining, memory_order_relaxed);
    out->breaker_open =
        atomic_load_explicit(&pool->breaker_open, memory_order_relaxed);
    out->removed = atomic_load_explicit(&pool->removed, memory_order_relaxed);
    out->gone = out->removed && out->warming + out->ready + out->leased +
                                        out->quarantined + out->dying +
                                        out->waiting ==
                                    0;
    (void)pthread_mutex_lock(&pool->wait_lock);
    out->spec = pool->spec;
    memcpy(out->last_failure, pool->last_failure, sizeof out->last_failure);
    memcpy(out->last_retired, pool->last_retired, sizeof out->last_retired);
    (void)pthread_mutex_unlock(&pool->wait_lock);
    out->replicas = out->spec.target;
    out->spec.target =
        atomic_load_explicit(&pool->target, memory_order_relaxed);
    out->at_once = wp_pool_at_once(pool, &out->spec);
    wp_pool_scale_stats(pool, out);
}

bool
wp_pools_fails(struct wp_pools *pools, uint32_t pool_index,
               char why[WP_REASON_MAX + 1])
{
    struct wp_pool *pool;

    WP_ASSERT(pool_index < wp_pools_count(pools));
    pool = wp_pools_at(pools, pool_index);
    if (!atomic_load_explicit(&pool->breaker_open, memory_order_relaxed)) {
        return false;
    }
    (void)pthread_mutex_lock(&pool->wait_lock);
    memcpy(why, pool->last_failure, sizeof pool->last_failure);
    (void)pthread_mutex_unlock(&pool->wait_lock);
    return true;
}

const struct wp_histogram *
wp_pools_claim_latency(const struct wp_pools *pools, uint32_t pool_index)
{
    return &wp_pools_at(pools, pool_index)->claim_latency;
}

const struct wp_histogram *
wp_pools_lead_time(const struct wp_pools *pools, uint32_t pool_index)
{
    return &wp_pools_at(pools, pool_index)->lead_time;
}

bool
wp_pools_quiet(const struct wp_pools *pools)
{
    for (uint32_t i = 0; i < wp_pools_count(pools); i++) {
        for (int state = WP_SLOT_WARMING; state < WP_SLOT_STATE_COUNT;
             state++) {
            if (wp_slots_count(&pools->slots, i, (enum wp_slot_state)state) >
                0) {
                return false;
            }
        }
    }
    return true;
}

void
wp_pools_check(struct wp_pools *pools)
{
    uint32_t held = 0;
    uint32_t leased = 0;

    wp_slots_check(&pools->slots);
    wp_claim_table_check(&pools->claims);
    for (uint32_t i = 0; i < wp_claim_table_used_max(&pools->claims); i++) {
        struct wp_claim_view view;
        enum wp_slot_state state;

        if (!wp_claim_table_read_at(&pools->claims, i, &view) || !view.held) {
            continue;
        }
        /* One claim, one slot, and that slot says the same (I1, I2). */
        state = wp_slot_state(&pools->slots, view.slot);
        WP_ASSERT(state == WP_SLOT_LEASED || state == WP_SLOT_LOST);
        WP_ASSERT(atomic_load_explicit(
                      &wp_slot_at(&pools->slots, view.slot.index)->claim_entry,
                      memory_order_relaxed) == i);
        held++;
    }
    for (uint32_t i = 0; i < wp_pools_count(pools); i++) {
        leased += wp_slots_count(&pools->slots, i, WP_SLOT_LEASED) +
                  wp_slots_count(&pools->slots, i, WP_SLOT_LOST);
    }
    WP_ASSERT(held <= leased);
}
