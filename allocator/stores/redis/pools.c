/* The pools, and what this replica believes of each. Below all that acts on
 * it: nothing here talks to Redis. */
#include <stdio.h>
#include <stdlib.h>

#include "allocator/stores/redis/impl.h"
#include "pool/base/fnv.h"
#include "pool/base/log.h"

static uint64_t
hash_names(struct wp_str pool_namespace, struct wp_str pool)
{
    uint64_t hash = wp_fnv_name(pool_namespace, pool);

    return hash ^ hash >> 32;
}

struct wp_redis_pool *
wp_redis_pool_find(struct wp_lease_redis *redis, struct wp_str pool_namespace,
                   struct wp_str pool)
{
    uint64_t hash = hash_names(pool_namespace, pool);

    for (uint64_t at = hash;; at++) {
        uint32_t number = atomic_load_explicit(
            &redis->index[at & redis->index_mask], memory_order_acquire);
        struct wp_redis_pool *known;

        if (number == 0) {
            return NULL;
        }
        known = &redis->pools[number - 1];
        if (known->name_hash == hash &&
            wp_str_is(pool_namespace, known->name.pool_namespace) &&
            wp_str_is(pool, known->name.pool)) {
            return known;
        }
    }
}

/* --- doubt --- */

void
wp_redis_pool_doubt(struct wp_lease_redis *redis, struct wp_redis_pool *pool,
                    uint64_t generation)
{
    const struct wp_lease_redis_sink *sink = &redis->config.sink;
    bool any = generation == 0;

    if (any) {
        generation = atomic_exchange(&pool->generation, 0);
    } else if (!atomic_compare_exchange_strong(&pool->generation, &generation,
                                               0)) {
        return;
    }
    if (generation == 0) {
        return; /* Known already, or not loaded yet. */
    }
    wp_log_warn("redis may have forgotten: the pool takes no commits until it"
                " is recovered",
                wp_kv_str("namespace", pool->name.pool_namespace),
                wp_kv_str("pool", pool->name.pool));
    if (sink->on_doubt != NULL) {
        sink->on_doubt(sink->ctx, &pool->name);
    }
}

void
wp_redis_generation_met(struct wp_lease_redis *redis,
                        struct wp_redis_pool *pool, struct wp_str text)
{
    bool open;
    uint64_t met = wp_redis_generation_parse(text, &open);
    uint64_t believed = atomic_load(&pool->generation);

    /* An older word about the generation that is open here says nothing. */
    if (believed != 0 && met != believed) {
        wp_redis_pool_doubt(redis, pool, believed);
    }
}

void
wp_redis_pool_distrust(struct wp_redis_pool *pool)
{
    uint64_t recovering = atomic_exchange(&pool->recovering, 0);

    if (recovering != 0) {
        atomic_store(&pool->distrusted, recovering);
    }
}

bool
wp_lease_redis_in_doubt(struct wp_lease_redis *redis,
                        const struct wp_lease_redis_pool *pool)
{
    const struct wp_redis_pool *known = wp_redis_pool_find(
        redis, wp_str_from(pool->pool_namespace), wp_str_from(pool->pool));

    return known == NULL || atomic_load(&known->generation) == 0;
}

/* --- adding --- */

enum wp_status
wp_redis_pool_add(struct wp_lease_redis *redis,
                  const struct wp_lease_redis_pool *name, struct wp_err *err)
{
    uint32_t n = wp_redis_pools_len(redis);
    struct wp_redis_pool *pool = &redis->pools[n];
    struct wp_str pool_namespace = wp_str_from(name->pool_namespace);
    struct wp_str pool_name = wp_str_from(name->pool);
    uint64_t at;

    if (wp_redis_pool_find(redis, pool_namespace, pool_name) != NULL) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "redis pools: '%s/%s' is named twice",
                          name->pool_namespace, name->pool);
    }
    pool->name = *name;
    pool->name_hash = hash_names(pool_namespace, pool_name);
    pool->key_len = (size_t)snprintf(pool->key, sizeof pool->key, "%s:{%s/%s}",
                                     redis->config.prefix, name->pool_namespace,
                                     name->pool);
    at = pool->name_hash;
    if (redis->feed != NULL) {
        atomic_store(&pool->fresh, true);
    }
    if (!redis->config.redis.cluster && n > 0) {
        atomic_store(&pool->group, atomic_load(&redis->pools[0].group));
    }
    while (atomic_load(&redis->index[at & redis->index_mask]) != 0) {
        at++;
    }
    atomic_store_explicit(&redis->index[at & redis->index_mask], n + 1,
                          memory_order_release);
    atomic_store_explicit(&redis->n_pools, n + 1, memory_order_release);
    return WP_OK;
}

enum wp_status
wp_redis_pools_init(struct wp_lease_redis *redis,
                    const struct wp_lease_redis_config *config,
                    struct wp_err *err)
{
    uint32_t size = 16;
    enum wp_status status = WP_OK;

    redis->pools_max = config->grows ? WP_POOLS_MAX : config->n_pools;
    while (size < 4 * redis->pools_max) {
        size *= 2;
    }
    redis->index = calloc(size, sizeof redis->index[0]);
    redis->pools = calloc(redis->pools_max, sizeof redis->pools[0]);
    if (redis->index == NULL || redis->pools == NULL) {
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED, "memory for redis");
    }
    redis->index_mask = size - 1;
    for (uint32_t i = 0; i < config->n_pools && status == WP_OK; i++) {
        status = wp_redis_pool_add(redis, &config->pools[i], err);
    }
    return status;
}

bool
wp_lease_redis_knows(struct wp_lease_redis *redis, struct wp_str pool_namespace,
                     struct wp_str pool)
{
    return wp_redis_pool_find(redis, pool_namespace, pool) != NULL;
}
