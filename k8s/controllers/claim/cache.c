#include "k8s/controllers/claim/cache.h"

#include <stdlib.h>
#include <string.h>

#include "pool/base/assert.h"
#include "pool/base/fnv.h"

enum {
    BUCKETS_MIN = 64,
};

struct bucket {
    struct wp_claim_entry *first;
};

struct wp_claim_cache {
    struct bucket *buckets; /* mask + 1 of them. */
    uint32_t mask;
    uint32_t count;
};

static uint32_t
hash_of(const char *ns, const char *name)
{
    uint64_t hash = wp_fnv_name(wp_str_from(ns), wp_str_from(name));

    return (uint32_t)(hash ^ hash >> 32);
}

struct wp_claim_cache *
wp_claim_cache_create(void)
{
    struct wp_claim_cache *cache = calloc(1, sizeof *cache);

    if (cache == NULL) {
        return NULL;
    }
    cache->buckets = calloc(BUCKETS_MIN, sizeof *cache->buckets);
    if (cache->buckets == NULL) {
        free(cache);
        return NULL;
    }
    cache->mask = BUCKETS_MIN - 1;
    return cache;
}

void
wp_claim_cache_destroy(struct wp_claim_cache *cache)
{
    if (cache == NULL) {
        return;
    }
    for (uint32_t i = 0; i <= cache->mask; i++) {
        while (cache->buckets[i].first != NULL) {
            struct wp_claim_entry *entry = cache->buckets[i].first;

            cache->buckets[i].first = entry->next;
            free(entry);
        }
    }
    free(cache->buckets);
    free(cache);
}

static struct wp_claim_entry **
bucket_of(const struct wp_claim_cache *cache, const char *ns, const char *name)
{
    return &cache->buckets[hash_of(ns, name) & cache->mask].first;
}

struct wp_claim_entry *
wp_claim_cache_find(struct wp_claim_cache *cache, const char *ns,
                    const char *name)
{
    struct wp_claim_entry *entry = *bucket_of(cache, ns, name);

    while (entry != NULL &&
           (strcmp(entry->name, name) != 0 || strcmp(entry->ns, ns) != 0)) {
        entry = entry->next;
    }
    return entry;
}

/* Twice as many buckets. Without memory it stays as it is, only slower. */
static void
grow(struct wp_claim_cache *cache)
{
    struct bucket *old = cache->buckets;
    uint32_t old_len = cache->mask + 1;
    struct bucket *buckets = calloc((size_t)old_len * 2, sizeof *buckets);

    if (buckets == NULL) {
        return;
    }
    cache->buckets = buckets;
    cache->mask = old_len * 2 - 1;
    for (uint32_t i = 0; i < old_len; i++) {
        while (old[i].first != NULL) {
            struct wp_claim_entry *entry = old[i].first;
            struct wp_claim_entry **to =
                bucket_of(cache, entry->ns, entry->name);

            old[i].first = entry->next;
            entry->next = *to;
            *to = entry;
        }
    }
    free(old);
}

struct wp_claim_entry *
wp_claim_cache_enter(struct wp_claim_cache *cache,
                     const struct wp_object *claim)
{
    struct wp_claim_entry *entry =
        wp_claim_cache_find(cache, claim->ns, claim->name);
    size_t ns = strlen(claim->ns) + 1;
    size_t name = strlen(claim->name) + 1;
    size_t uid = strlen(claim->uid) + 1;
    struct wp_claim_entry **bucket;

    if (entry != NULL) {
        WP_ASSERT(strcmp(entry->uid, claim->uid) == 0);
        return entry;
    }
    if (cache->count > cache->mask) {
        grow(cache);
    }
    entry = calloc(1, sizeof *entry + ns + name + uid);
    WP_ASSERT(entry != NULL);
    entry->ns = (char *)(entry + 1);
    entry->name = entry->ns + ns;
    entry->uid = entry->name + name;
    entry->observed = entry->annotated = WP_WRITE_NONE;
    entry->adoption = entry->creation = WP_WRITE_NONE;
    entry->first_ready = WP_FIRST_READY_AFTER;
    memcpy(entry->ns, claim->ns, ns);
    memcpy(entry->name, claim->name, name);
    memcpy(entry->uid, claim->uid, uid);
    bucket = bucket_of(cache, entry->ns, entry->name);
    entry->next = *bucket;
    *bucket = entry;
    cache->count++;
    return entry;
}

void
wp_claim_cache_remove(struct wp_claim_cache *cache,
                      struct wp_claim_entry *entry)
{
    struct wp_claim_entry **at = bucket_of(cache, entry->ns, entry->name);

    WP_ASSERT(entry->ask == NULL && entry->joins == NULL);
    while (*at != entry) {
        at = &(*at)->next;
    }
    *at = entry->next;
    cache->count--;
    free(entry);
}

bool
wp_claim_entry_is_served(const struct wp_claim_entry *entry)
{
    return entry->adoption == WP_WRITE_SENT || entry->creation == WP_WRITE_SENT;
}

void
wp_claim_entry_drop_ask(struct wp_claim_entry *entry)
{
    struct wp_claim_ask *ask = entry->ask;

    entry->ask = NULL;
    if (ask != NULL) {
        wp_claim_ask_drop(ask);
    }
}

void
wp_claim_cache_walk(struct wp_claim_cache *cache,
                    void (*each)(void *ctx, struct wp_claim_entry *entry),
                    void *ctx)
{
    for (uint32_t i = 0; i <= cache->mask; i++) {
        struct wp_claim_entry *entry = cache->buckets[i].first;

        while (entry != NULL) {
            struct wp_claim_entry *next = entry->next;

            each(ctx, entry);
            entry = next;
        }
    }
}
