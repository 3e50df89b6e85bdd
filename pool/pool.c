/* pool/pool.c - the life of all pools together, and their numbers. */
#include "pool/pool.h"

#include <stdio.h>
#include <stdlib.h>

#include "pool/base/assert.h"
#include "pool/pools.h"
#include "pool/sandbox_name.h"

void
wp_pool_spec_init(struct wp_pool_spec *spec)
{
    memset(spec, 0, sizeof *spec);
    memcpy(spec->pool_namespace, "default", sizeof "default");
    spec->waiters_max = 1024;
    spec->tenant_waiters_max = 256;
    spec->create_inflight_max = 16;
    spec->ttl_default_ns = 3600 * WP_NS_PER_S;
    spec->ttl_max_ns = 24 * 3600 * WP_NS_PER_S;
    spec->wait_max_ns = 60 * WP_NS_PER_S;
    spec->ready_within_ns = 60 * WP_NS_PER_S;
    spec->cold_start = WP_COLD_NEVER;
}

/* Zeroed memory aligned to a cache line; counted in the memory plan. */
static void *
reserve(struct wp_pools *pools, size_t count, size_t size)
{
    size_t bytes =
        (count * size + WP_CACHELINE - 1) / WP_CACHELINE * WP_CACHELINE;
    void *block = aligned_alloc(WP_CACHELINE, bytes);

    if (block != NULL) {
        memset(block, 0, bytes);
        pools->memory_bytes += bytes;
    }
    return block;
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

static void
init_errands(struct wp_pools *pools)
{
    (void)pthread_mutex_init(&pools->errand_lock, NULL);
    wp_list_init(&pools->errands_free);
    wp_list_init(&pools->errands_back);
    wp_list_init(&pools->parked_changes);
    for (size_t i = 0; i < WP_ERRANDS_MAX; i++) {
        pools->errands[i].pools = pools;
        wp_list_push_back(&pools->errands_free, &pools->errands[i].node);
    }
}

static bool
reserve_all(struct wp_pools *pools)
{
    const struct wp_pools_config *config = &pools->config;

    pools->pool = reserve(pools, WP_POOLS_MAX, sizeof(struct wp_pool *));
    pools->by_name = reserve(pools, WP_NAME_BUCKETS, sizeof *pools->by_name);
    pools->errands = reserve(pools, WP_ERRANDS_MAX, sizeof *pools->errands);
    if (pools->pool == NULL || pools->by_name == NULL ||
        pools->errands == NULL ||
        !wp_slots_init(&pools->slots, config->slots_max, WP_POOLS_MAX)) {
        return false;
    }
    if (!wp_claim_table_init(&pools->claims, config->claims_max)) {
        wp_slots_fini(&pools->slots);
        return false;
    }
    if (!wp_timing_wheel_init(&pools->wheel, config->slots_max,
                              wp_pools_now(pools))) {
        wp_claim_table_fini(&pools->claims);
        wp_slots_fini(&pools->slots);
        return false;
    }
    pools->durable = config->store.ops->durable;
    pools->shared = config->store.ops->shared;
    pools->mapped = pools->durable || config->backend.ops->foreign;
    if (config->backend.ops->leased != NULL) {
        pools->noted = reserve(pools, config->slots_max, sizeof *pools->noted);
    }
    if ((config->backend.ops->leased != NULL && pools->noted == NULL) ||
        /* By uid and by name. */
        (pools->mapped &&
         !wp_slot_map_init(&pools->map, 2 * config->slots_max))) {
        wp_timing_wheel_fini(&pools->wheel);
        wp_claim_table_fini(&pools->claims);
        wp_slots_fini(&pools->slots);
        return false;
    }
    if (pools->mapped) {
        pools->memory_bytes += wp_slot_map_bytes(2 * config->slots_max);
    }
    pools->memory_bytes += wp_slots_memory_bytes(&pools->slots) +
                           wp_claim_table_memory_bytes(&pools->claims) +
                           wp_timing_wheel_bytes(config->slots_max);
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
        free(pools->noted);
        free(pools->errands);
        free(pools->by_name);
        free(pools->pool);
        free(pools);
        return NULL;
    }
    wp_token_key_init(&pools->token_key, 1, config->token_key);
    wp_rng_init(&pools->rng, config->seed);
    pools->name_key = (struct wp_hash_key){wp_rng_next(&pools->rng),
                                           wp_rng_next(&pools->rng)};
    atomic_init(&pools->news, WP_SLOT_NONE);
    atomic_init(&pools->wall_offset_ns,
                wp_clock_wall_ns(config->clock) - wp_pools_now(pools));
    for (size_t i = 0; i < WP_CHANGE_STRIPES; i++) {
        (void)pthread_mutex_init(&pools->change_lock[i], NULL);
    }
    (void)pthread_mutex_init(&pools->peers_lock, NULL);
    init_errands(pools);
    atomic_init(&pools->keeper, true);
    return pools;
}

static void
destroy_pool(struct wp_pool *pool)
{
    wp_wait_queue_fini(&pool->waiters);
    (void)pthread_mutex_destroy(&pool->wait_lock);
    free(pool);
}

void
wp_pools_destroy(struct wp_pools *pools)
{
    if (pools == NULL) {
        return;
    }
    for (uint32_t i = 0; i < wp_pools_count(pools); i++) {
        destroy_pool(pools->pool[i]);
    }
    for (size_t i = 0; i < WP_CHANGE_STRIPES; i++) {
        (void)pthread_mutex_destroy(&pools->change_lock[i]);
    }
    (void)pthread_mutex_destroy(&pools->errand_lock);
    (void)pthread_mutex_destroy(&pools->peers_lock);
    wp_token_key_fini(&pools->token_key);
    wp_slot_map_fini(&pools->map);
    wp_timing_wheel_fini(&pools->wheel);
    wp_claim_table_fini(&pools->claims);
    wp_slots_fini(&pools->slots);
    free(pools->noted);
    free(pools->errands);
    free(pools->by_name);
    free(pools->pool);
    free(pools);
}

uint64_t
wp_pools_memory_bytes(const struct wp_pools *pools)
{
    return pools->memory_bytes;
}

uint32_t
wp_pools_count(const struct wp_pools *pools)
{
    /* Pairs with the release in wp_pools_add. */
    return atomic_load_explicit(&pools->n_pools, memory_order_acquire);
}

/* Only administrators put names into this table, so it needs no secret hash;
 * whoever asks for names that are not there pays for a short probe. */
static uint32_t
name_bucket(struct wp_str pool_namespace, struct wp_str name)
{
    uint64_t hash = pool_namespace.len * UINT64_C(0x9e3779b97f4a7c15);

    for (size_t i = 0; i < name.len; i++) {
        hash = (hash ^ (unsigned char)name.ptr[i]) * UINT64_C(0x100000001b3);
    }
    return (uint32_t)(hash >> 20) % WP_NAME_BUCKETS;
}

struct wp_pool *
wp_pools_find(const struct wp_pools *pools, struct wp_str pool_namespace,
              struct wp_str name)
{
    if (pool_namespace.len > WP_NAMESPACE_MAX || name.len > WP_POOL_NAME_MAX ||
        pool_namespace.len == 0 || name.len == 0) {
        return NULL;
    }
    for (uint32_t i = name_bucket(pool_namespace, name);;
         i = (i + 1) % WP_NAME_BUCKETS) {
        /* Pairs with the release in wp_pools_add. */
        uint32_t at =
            atomic_load_explicit(&pools->by_name[i], memory_order_acquire);

        if (at == 0) {
            return NULL;
        }
        if (wp_str_eq(name, pools->pool[at - 1]->name) &&
            wp_str_eq(pool_namespace, pools->pool[at - 1]->pool_namespace)) {
            return pools->pool[at - 1];
        }
    }
}

uint32_t
wp_pools_index(const struct wp_pools *pools, struct wp_str pool_namespace,
               struct wp_str name)
{
    const struct wp_pool *pool = wp_pools_find(pools, pool_namespace, name);

    return pool != NULL ? pool->index : UINT32_MAX;
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
    if (spec->create_inflight_max == 0 || spec->ready_within_ns <= 0 ||
        spec->wait_max_ns < 0 || spec->wait_max_ns > WP_WAIT_MAX_NS) {
        return wp_err_set(
            err, WP_INVALID_ARGUMENT,
            "pool '%s': create-inflight-max and ready-within must "
            "be above 0, wait-max at most 10 min",
            spec->name);
    }
    return WP_OK;
}

/* FNV-1a of "<namespace>/<name>". Stored in records, as a part of what a claim
 * asked for: never change it. */
static uint64_t
identity_of(const struct wp_pool *pool)
{
    const struct wp_str parts[] = {pool->pool_namespace, WP_STR("/"),
                                   pool->name};
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    for (size_t i = 0; i < WP_ARRAY_LEN(parts); i++) {
        for (size_t at = 0; at < parts[i].len; at++) {
            hash = (hash ^ (unsigned char)parts[i].ptr[at]) *
                   UINT64_C(0x100000001b3);
        }
    }
    return hash;
}

static struct wp_pool *
create_pool(struct wp_pools *pools, const struct wp_pool_spec *spec)
{
    struct wp_pool *pool = reserve(pools, 1, sizeof *pool);

    if (pool == NULL) {
        return NULL;
    }
    if (!wp_wait_queue_init(&pool->waiters, spec->waiters_max,
                            spec->tenant_waiters_max, pools->config.hash_key)) {
        free(pool);
        return NULL;
    }
    pools->memory_bytes += wp_wait_queue_bytes(spec->waiters_max);
    pool->pools = pools;
    pool->spec = *spec;
    pool->pool_namespace = wp_str_from(pool->spec.pool_namespace);
    pool->name = wp_str_from(pool->spec.name);
    pool->index = wp_pools_count(pools);
    pool->identity = identity_of(pool);
    wp_ready_queue_init(&pool->ready, &pools->slots, pool->index);
    wp_ready_queue_init_second(&pool->others, &pools->slots, pool->index);
    (void)pthread_mutex_init(&pool->wait_lock, NULL);
    wp_list_init(&pool->followers);
    wp_list_init(&pool->parked);
    wp_refill_init(&pool->refill, wp_rng_next(&pools->rng));
    atomic_store_explicit(&pool->target, spec->target, memory_order_relaxed);
    atomic_store_explicit(&pool->retry_after_ns, WP_REFILL_LEAD_GUESS_NS,
                          memory_order_relaxed);
    return pool;
}

enum wp_status
wp_pools_add(struct wp_pools *pools, const struct wp_pool_spec *spec,
             uint32_t *index, struct wp_err *err)
{
    struct wp_str ns = wp_str_from(spec->pool_namespace);
    struct wp_str name = wp_str_from(spec->name);
    uint32_t count = wp_pools_count(pools);
    struct wp_pool *pool;
    uint32_t bucket;

    if (check_spec(spec, err) != WP_OK) {
        return WP_INVALID_ARGUMENT;
    }
    if (wp_pools_find(pools, ns, name) != NULL) {
        return wp_err_set(err, WP_ALREADY_EXISTS, "pool '%s/%s' exists already",
                          spec->pool_namespace, spec->name);
    }
    if (count == WP_POOLS_MAX || (pool = create_pool(pools, spec)) == NULL) {
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED,
                          "pool '%s': no room for it; at most %d pools",
                          spec->name, WP_POOLS_MAX);
    }
    pools->pool[count] = pool;
    bucket = name_bucket(ns, name);
    while (atomic_load_explicit(&pools->by_name[bucket],
                                memory_order_relaxed) != 0) {
        bucket = (bucket + 1) % WP_NAME_BUCKETS;
    }
    /* Publish the pool: paired with the acquires in find and count. */
    atomic_store_explicit(&pools->by_name[bucket], count + 1,
                          memory_order_release);
    atomic_store_explicit(&pools->n_pools, count + 1, memory_order_release);
    if (index != NULL) {
        *index = count;
    }
    wp_pools_touch(pool);
    return WP_OK;
}

enum wp_status
wp_pools_set_target(struct wp_pools *pools, uint32_t pool_index,
                    uint32_t target, struct wp_err *err)
{
    if (pool_index >= wp_pools_count(pools)) {
        return wp_err_set(err, WP_NOT_FOUND, "no such pool");
    }
    if (target > WP_TARGET_MAX) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "target: at most %d expected, got %u", WP_TARGET_MAX,
                          target);
    }
    atomic_store_explicit(&pools->pool[pool_index]->target, target,
                          memory_order_relaxed);
    wp_pools_touch(pools->pool[pool_index]);
    return WP_OK;
}

void
wp_pools_drain(struct wp_pools *pools, uint32_t pool_index)
{
    WP_ASSERT(pool_index < wp_pools_count(pools));
    atomic_store_explicit(&pools->pool[pool_index]->draining, true,
                          memory_order_relaxed);
    wp_pools_touch(pools->pool[pool_index]);
}

uint64_t
wp_pools_map_hash(const struct wp_pools *pools, struct wp_str bytes)
{
    return wp_siphash128(pools->config.hash_key, bytes.ptr, bytes.len).low;
}

void
wp_pools_wake(struct wp_pools *pools)
{
    /* seq_cst pairs with the clear in wp_pools_run: either control sees the
     * news, or this thread sees that it sleeps. */
    if (!atomic_load_explicit(&pools->awake, memory_order_seq_cst) &&
        !atomic_exchange_explicit(&pools->awake, true, memory_order_seq_cst)) {
        pools->config.wake(pools->config.ctx);
    }
}

void
wp_pools_note(struct wp_pools *pools, uint32_t slot_index, uint32_t news)
{
    struct wp_slot *slot = wp_slot_at(&pools->slots, slot_index);
    uint32_t before = atomic_fetch_or_explicit(
        &slot->news, news | WP_NEWS_LISTED, memory_order_acq_rel);

    if ((before & WP_NEWS_LISTED) == 0) {
        uint32_t head =
            atomic_load_explicit(&pools->news, memory_order_relaxed);

        do {
            atomic_store_explicit(&slot->news_next, head, memory_order_relaxed);
            /* Publishes news_next: pairs with the exchange in wp_pools_run. */
        } while (!atomic_compare_exchange_weak_explicit(
            &pools->news, &head, slot_index, memory_order_seq_cst,
            memory_order_relaxed));
    }
    wp_pools_wake(pools);
}

void
wp_pools_touch(struct wp_pool *pool)
{
    atomic_store_explicit(&pool->touched, true, memory_order_seq_cst);
    wp_pools_wake(pool->pools);
}

static void
record_reason(struct wp_pool *pool, char out[WP_REASON_MAX + 1],
              struct wp_str reason)
{
    size_t len = reason.len < WP_REASON_MAX ? reason.len : WP_REASON_MAX;

    (void)pthread_mutex_lock(&pool->wait_lock);
    if (len > 0) {
        memcpy(out, reason.ptr, len);
    }
    out[len] = '\0';
    (void)pthread_mutex_unlock(&pool->wait_lock);
}

void
wp_pool_record_failure(struct wp_pool *pool, struct wp_str reason)
{
    record_reason(pool, pool->last_failure, reason);
}

void
wp_pool_record_retired(struct wp_pool *pool, struct wp_str reason)
{
    record_reason(pool, pool->last_retired, reason);
}

void
wp_pools_sandbox_name(const struct wp_pool *pool, const char *suffix,
                      char out[WP_SANDBOX_NAME_MAX + 1])
{
    size_t len = pool->name.len;

    memcpy(out, pool->name.ptr, len);
    out[len] = '-';
    memcpy(out + len + 1, suffix, WP_SANDBOX_SUFFIX_LEN + 1);
}

void
wp_pools_stats(struct wp_pools *pools, uint32_t pool_index,
               struct wp_pool_stats *out)
{
    struct wp_pool *pool;
    const struct wp_slots *slots = &pools->slots;
    struct wp_histogram_view latency;
    int64_t retry_at;

    WP_ASSERT(pool_index < wp_pools_count(pools));
    pool = pools->pool[pool_index];
    memset(out, 0, sizeof *out);
    out->spec = pool->spec;
    out->spec.target =
        atomic_load_explicit(&pool->target, memory_order_relaxed);
    out->index = pool_index;
    out->warming = wp_slots_count(slots, pool_index, WP_SLOT_WARMING);
    out->ready = wp_slots_count(slots, pool_index, WP_SLOT_READY);
    out->leased = wp_slots_count(slots, pool_index, WP_SLOT_LEASED) +
                  wp_slots_count(slots, pool_index, WP_SLOT_LOST);
    out->quarantined = wp_slots_count(slots, pool_index, WP_SLOT_QUARANTINED);
    out->dying = wp_slots_count(slots, pool_index, WP_SLOT_DYING);
    out->waiting = atomic_load_explicit(&pool->waiting, memory_order_relaxed);
    out->created_total = wp_slots_created(slots, pool_index);
    out->destroyed_total = wp_slots_destroyed(slots, pool_index);
    out->failed_total = wp_counter_read(&pool->failures);
    out->retired_total = wp_counter_read(&pool->retired);
    out->lost_total = wp_counter_read(&pool->lost);
    wp_histogram_read(&pool->claim_latency, &latency);
    out->served_total[WP_SERVED_WARM] = latency.count;
    for (int i = WP_SERVED_QUEUED; i <= WP_SERVED_COLD; i++) {
        uint64_t n = wp_counter_read(&pool->served[i]);

        out->served_total[i] = n;
        out->served_total[WP_SERVED_WARM] -= n < latency.count ? n : 0;
    }
    out->refused_total = wp_counter_read(&pool->refused);
    out->released_total = wp_counter_read(&pool->released);
    out->expired_total = wp_counter_read(&pool->expired);
    out->undone_total = wp_counter_read(&pool->undone);
    out->draining = atomic_load_explicit(&pool->draining, memory_order_relaxed);
    out->breaker_open =
        atomic_load_explicit(&pool->breaker_open, memory_order_relaxed);
    retry_at =
        atomic_load_explicit(&pool->breaker_retry_at_ns, memory_order_relaxed);
    if (out->breaker_open && retry_at > wp_pools_now(pools)) {
        out->breaker_retry_in_ns = retry_at - wp_pools_now(pools);
    }
    (void)pthread_mutex_lock(&pool->wait_lock);
    memcpy(out->last_failure, pool->last_failure, sizeof out->last_failure);
    memcpy(out->last_retired, pool->last_retired, sizeof out->last_retired);
    (void)pthread_mutex_unlock(&pool->wait_lock);
}

const struct wp_histogram *
wp_pools_claim_latency(const struct wp_pools *pools, uint32_t pool_index)
{
    return &pools->pool[pool_index]->claim_latency;
}

const struct wp_histogram *
wp_pools_lead_time(const struct wp_pools *pools, uint32_t pool_index)
{
    return &pools->pool[pool_index]->lead_time;
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
