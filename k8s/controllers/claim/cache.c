#include "k8s/controllers/claim/cache.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "k8s/objects/names.h"
#include "pool/base/assert.h"

struct wp_claim_cache {
    void *entries; /* A tree by name. */
};

struct wp_claim_cache *
wp_claim_cache_create(void)
{
    return calloc(1, sizeof(struct wp_claim_cache));
}

void
wp_claim_cache_destroy(struct wp_claim_cache *cache)
{
    if (cache != NULL) {
        tdestroy(cache->entries, free);
        free(cache);
    }
}

struct wp_claim_entry *
wp_claim_cache_find(struct wp_claim_cache *cache, const char *ns,
                    const char *name)
{
    const struct wp_name_key key = {ns, name};
    struct wp_claim_entry **found =
        tfind(&key, &cache->entries, wp_name_key_compare);

    return found != NULL ? *found : NULL;
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
    const void *found;
    char *text;

    if (entry != NULL) {
        WP_ASSERT(strcmp(entry->uid, claim->uid) == 0);
        return entry;
    }
    entry = calloc(1, sizeof *entry + ns + name + uid);
    WP_ASSERT(entry != NULL);
    text = (char *)(entry + 1);
    entry->key.ns = memcpy(text, claim->ns, ns);
    entry->key.name = memcpy(text + ns, claim->name, name);
    entry->uid = memcpy(text + ns + name, claim->uid, uid);
    /* Zeroed: observed, annotated, adoption and creation are NONE. */
    _Static_assert(WP_WRITE_NONE == 0, "the first of claim_states.def");
    entry->first_ready = WP_FIRST_READY_AFTER;
    found = tsearch(entry, &cache->entries, wp_name_key_compare);
    WP_ASSERT(found != NULL);
    return entry;
}

void
wp_claim_cache_remove(struct wp_claim_cache *cache,
                      struct wp_claim_entry *entry)
{
    WP_ASSERT(entry->ask == NULL && entry->joins == NULL);
    (void)tdelete(entry, &cache->entries, wp_name_key_compare);
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

struct walk {
    void (*each)(void *ctx, struct wp_claim_entry *entry);
    void *ctx;
};

static void
walk_one(const void *node, VISIT visit, void *closure)
{
    const struct walk *walk = closure;

    if (visit == postorder || visit == leaf) { /* Once for each. */
        walk->each(walk->ctx, *(struct wp_claim_entry *const *)node);
    }
}

void
wp_claim_cache_walk(struct wp_claim_cache *cache,
                    void (*each)(void *ctx, struct wp_claim_entry *entry),
                    void *ctx)
{
    struct walk walk = {each, ctx};

    twalk_r(cache->entries, walk_one, &walk);
}
