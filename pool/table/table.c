/* pool/table/table.c - the pools there are, found by index and by name.
 *
 * Control adds and removes; any thread finds, without a lock. */
#include <stdlib.h>
#include <string.h>

#include "pool/table/pools.h"

/* In by_name: there was a pool here; go on looking. */
#define NAME_REMOVED UINT32_MAX

/* 2^64 over the golden ratio: by it a low bit reaches all that are higher. */
#define SPREAD UINT64_C(0x9e3779b97f4a7c15)

void *
wp_pools_reserve(struct wp_pools *pools, size_t count, size_t size)
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

uint32_t
wp_pools_count(const struct wp_pools *pools)
{
    /* Pairs with the release in wp_pools_add. */
    return atomic_load_explicit(&pools->n_pools, memory_order_acquire);
}

/* All bytes of a text of at most eight; the last eight of a longer one. Nothing
 * is called for it. */
static uint64_t
last_word(struct wp_str text)
{
    const unsigned char *at = (const unsigned char *)text.ptr;
    uint64_t word;
    uint32_t first;
    uint32_t last;

    if (text.len >= sizeof word) {
        memcpy(&word, at + text.len - sizeof word, sizeof word);
        return word;
    }
    if (text.len >= sizeof first) {
        memcpy(&first, at, sizeof first);
        memcpy(&last, at + text.len - sizeof last, sizeof last);
        return first | (uint64_t)last << 32;
    }
    return text.len == 0 ? 0
                         : (uint64_t)at[0] | (uint64_t)at[text.len / 2] << 8 |
                               (uint64_t)at[text.len - 1] << 16;
}

/* Eight bytes at a time. A byte is in the highest bits of its word, which a
 * product takes no lower: so each product's upper half comes down. */
static uint64_t
mix(uint64_t hash, struct wp_str text)
{
    for (size_t at = 0; at + sizeof hash < text.len; at += sizeof hash) {
        uint64_t word;

        memcpy(&word, text.ptr + at, sizeof word);
        hash = (hash ^ word) * SPREAD;
        hash ^= hash >> 32;
    }
    hash = (hash ^ last_word(text) ^ text.len) * SPREAD;
    return hash ^ hash >> 32;
}

/* Only administrators put names into this table, so it needs no secret hash;
 * whoever asks for names that are not there pays for a short probe. */
static uint32_t
name_bucket(struct wp_str pool_namespace, struct wp_str name)
{
    uint64_t hash = mix(mix(0, pool_namespace), name) * SPREAD;

    return (uint32_t)(hash >> 32) % WP_NAME_BUCKETS;
}

struct wp_pool *
wp_pools_find(const struct wp_pools *pools, struct wp_str pool_namespace,
              struct wp_str name)
{
    uint32_t bucket;

    if (pool_namespace.len > WP_NAMESPACE_MAX || name.len > WP_POOL_NAME_MAX ||
        pool_namespace.len == 0 || name.len == 0) {
        return NULL;
    }
    bucket = name_bucket(pool_namespace, name);
    /* Bounded, since removed names may fill the table. */
    for (uint32_t n = 0; n < WP_NAME_BUCKETS; n++) {
        /* Pairs with the release in publish. */
        uint32_t at =
            atomic_load_explicit(&pools->by_name[bucket], memory_order_acquire);

        if (at == 0) {
            break;
        }
        if (at != NAME_REMOVED) {
            struct wp_pool *pool = wp_pools_at(pools, at - 1);

            if (wp_str_eq(name, pool->name) &&
                wp_str_eq(pool_namespace, pool->pool_namespace)) {
                return pool;
            }
        }
        bucket = (bucket + 1) % WP_NAME_BUCKETS;
    }
    return NULL;
}

uint32_t
wp_pools_index(const struct wp_pools *pools, struct wp_str pool_namespace,
               struct wp_str name)
{
    const struct wp_pool *pool = wp_pools_find(pools, pool_namespace, name);

    return pool != NULL ? pool->index : UINT32_MAX;
}

struct wp_pool *
wp_pools_find_removed(const struct wp_pools *pools, struct wp_str ns,
                      struct wp_str name)
{
    for (uint32_t i = 0; i < wp_pools_count(pools); i++) {
        struct wp_pool *pool = wp_pools_at(pools, i);

        if (atomic_load_explicit(&pool->removed, memory_order_relaxed) &&
            wp_str_eq(name, pool->name) &&
            wp_str_eq(ns, pool->pool_namespace)) {
            return pool;
        }
    }
    return NULL;
}

uint32_t
wp_pools_index_of_records(const struct wp_pools *pools,
                          struct wp_str pool_namespace, struct wp_str name)
{
    const struct wp_pool *pool = wp_pools_find(pools, pool_namespace, name);

    if (pool == NULL) {
        pool = wp_pools_find_removed(pools, pool_namespace, name);
    }
    return pool != NULL ? pool->index : UINT32_MAX;
}

/* The pool is found by its name from here on, which it was not before. */
void
wp_pools_publish_name(struct wp_pools *pools, const struct wp_pool *pool)
{
    uint32_t bucket = name_bucket(pool->pool_namespace, pool->name);

    for (;;) {
        uint32_t at =
            atomic_load_explicit(&pools->by_name[bucket], memory_order_relaxed);

        if (at == 0 || at == NAME_REMOVED) {
            break;
        }
        bucket = (bucket + 1) % WP_NAME_BUCKETS;
    }
    /* Paired with the acquire in find. */
    atomic_store_explicit(&pools->by_name[bucket], pool->index + 1,
                          memory_order_release);
}

void
wp_pools_remove_name(struct wp_pools *pools, const struct wp_pool *pool)
{
    uint32_t bucket = name_bucket(pool->pool_namespace, pool->name);
    uint32_t after;

    while (atomic_load_explicit(&pools->by_name[bucket],
                                memory_order_relaxed) != pool->index + 1) {
        bucket = (bucket + 1) % WP_NAME_BUCKETS;
    }
    atomic_store_explicit(&pools->by_name[bucket], NAME_REMOVED,
                          memory_order_relaxed);
    /* Where nothing follows, nothing need be gone past. */
    after = (bucket + 1) % WP_NAME_BUCKETS;
    while (atomic_load_explicit(&pools->by_name[after], memory_order_relaxed) ==
               0 &&
           atomic_load_explicit(&pools->by_name[bucket],
                                memory_order_relaxed) == NAME_REMOVED) {
        atomic_store_explicit(&pools->by_name[bucket], 0, memory_order_relaxed);
        after = bucket;
        bucket = (bucket + WP_NAME_BUCKETS - 1) % WP_NAME_BUCKETS;
    }
}
