#include "k8s/controllers/pool/progress.h"

#include <stdlib.h>
#include <string.h>

#include "pool/base/assert.h"
#include "pool/base/fnv.h"
#include "pool/base/list.h"
#include "pool/limits.h"

/* A pool that does not get on; most do, so the list is short. */
struct hindered {
    struct wp_list node;
    enum wp_pool_hindrance hindrance;
    uint64_t words; /* A hash, where other words are news. */
    char uid[];     /* Of the pool. */
};

struct concern {
    struct wp_event stopped;
    struct wp_event resumed;
    const char *resumed_words;
    bool by_words;
};

static const struct concern concerns[] = {
    [WP_POOL_SANDBOXES] =
        {
            .stopped = {.controller = "sandboxwarmpool-controller",
                        .action = "Reconciling",
                        .reason = "WarmPoolNotProgressing",
                        .warning = true},
            .resumed = {.controller = "sandboxwarmpool-controller",
                        .action = "Reconciling",
                        .reason = "WarmPoolProgressing"},
            .resumed_words = "The pool is getting on again",
        },
    [WP_POOL_POLICY] =
        {
            .stopped = {.controller = "sandboxwarmpool-controller",
                        .action = "Scaling",
                        .reason = "InvalidPolicy",
                        .warning = true},
            .resumed = {.controller = "sandboxwarmpool-controller",
                        .action = "Scaling",
                        .reason = "PolicyAccepted"},
            .resumed_words = "The annotations are followed again",
            .by_words = true,
        },
    [WP_POOL_HAND] =
        {
            .stopped = {.controller = "sandboxwarmpool-controller",
                        .action = "Scaling",
                        .reason = "ScaledByHand"},
            .resumed = {.controller = "sandboxwarmpool-controller",
                        .action = "Scaling",
                        .reason = "ScaledByPolicy"},
            .resumed_words = "The pool has the size that its policy asks for",
            .by_words = true,
        },
};

struct wp_pool_progress {
    struct wp_events *events;
    const struct concern *concern;
    struct wp_list hindered; /* In the order of their coming. */
    uint32_t len;
};

struct wp_pool_progress *
wp_pool_progress_create(struct wp_events *events, enum wp_pool_concern concern)
{
    struct wp_pool_progress *progress = calloc(1, sizeof(*progress));

    if (progress != NULL) {
        progress->events = events;
        progress->concern = &concerns[concern];
        wp_list_init(&progress->hindered);
    }
    return progress;
}

static void
drop(struct wp_pool_progress *progress, struct hindered *entry)
{
    wp_list_remove(&entry->node);
    progress->len--;
    free(entry);
}

void
wp_pool_progress_destroy(struct wp_pool_progress *progress)
{
    struct wp_list *node;

    if (progress == NULL) {
        return;
    }
    while ((node = wp_list_pop_front(&progress->hindered)) != NULL) {
        free(WP_CONTAINER_OF(node, struct hindered, node));
    }
    free(progress);
}

static struct hindered *
find(struct wp_pool_progress *progress, const char *uid)
{
    WP_LIST_FOREACH (node, &progress->hindered) {
        struct hindered *entry = WP_CONTAINER_OF(node, struct hindered, node);

        if (strcmp(entry->uid, uid) == 0) {
            return entry;
        }
    }
    return NULL;
}

static struct hindered *
add(struct wp_pool_progress *progress, const char *uid)
{
    size_t room = strlen(uid) + 1;
    struct hindered *entry = malloc(sizeof(*entry) + room);

    WP_ASSERT(entry != NULL);
    if (progress->len == WP_POOLS_MAX) {
        drop(progress,
             WP_CONTAINER_OF(progress->hindered.next, struct hindered, node));
    }
    memcpy(entry->uid, uid, room);
    wp_list_push_back(&progress->hindered, &entry->node);
    progress->len++;
    return entry;
}

static uint64_t
hash_of(const char *words)
{
    return wp_fnv_str(WP_FNV_BASIS, wp_str_from(words));
}

void
wp_pool_progress_report(struct wp_pool_progress *progress,
                        const struct wp_object *pool,
                        enum wp_pool_hindrance hindrance, const char *words)
{
    const struct concern *concern = progress->concern;
    struct hindered *known = find(progress, pool->uid);
    uint64_t hash;

    if (hindrance == WP_POOL_PROGRESSING) {
        if (known != NULL) {
            drop(progress, known);
            wp_events_record(progress->events, pool, &concern->resumed, "%s",
                             concern->resumed_words);
        }
        return;
    }
    hash = concern->by_words || hindrance == WP_POOL_BAD_TEMPLATE
               ? hash_of(words)
               : 0;
    if (known != NULL && known->hindrance == hindrance &&
        known->words == hash) {
        return;
    }
    if (known == NULL) {
        known = add(progress, pool->uid);
    }
    known->hindrance = hindrance;
    known->words = hash;
    wp_events_record(progress->events, pool, &concern->stopped, "%s", words);
}

void
wp_pool_progress_forget(struct wp_pool_progress *progress, const char *pool_uid)
{
    struct hindered *known = find(progress, pool_uid);

    if (known != NULL) {
        drop(progress, known);
    }
}
