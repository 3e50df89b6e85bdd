#include "k8s/pool_progress.h"

#include <stdlib.h>
#include <string.h>

#include "pool/base/assert.h"
#include "pool/base/list.h"
#include "pool/limits.h"

/* A pool that does not get on; most do, so the list is short. */
struct hindered {
    struct wp_list node;
    enum wp_pool_hindrance hindrance;
    char uid[]; /* Of the pool. */
};

struct wp_pool_progress {
    struct wp_events *events;
    struct wp_list hindered; /* In the order of their coming. */
    uint32_t len;
};

struct wp_pool_progress *
wp_pool_progress_create(struct wp_events *events)
{
    struct wp_pool_progress *progress = calloc(1, sizeof(*progress));

    if (progress != NULL) {
        progress->events = events;
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

static void
add(struct wp_pool_progress *progress, const char *uid,
    enum wp_pool_hindrance hindrance)
{
    size_t room = strlen(uid) + 1;
    struct hindered *entry = malloc(sizeof(*entry) + room);

    WP_ASSERT(entry != NULL);
    if (progress->len == WP_POOLS_MAX) {
        drop(progress,
             WP_CONTAINER_OF(progress->hindered.next, struct hindered, node));
    }
    entry->hindrance = hindrance;
    memcpy(entry->uid, uid, room);
    wp_list_push_back(&progress->hindered, &entry->node);
    progress->len++;
}

void
wp_pool_progress_tell(struct wp_pool_progress *progress,
                      const struct wp_object *pool,
                      enum wp_pool_hindrance hindrance, const char *words)
{
    static const struct wp_event stopped = {
        .controller = "sandboxwarmpool-controller",
        .action = "Reconciling",
        .reason = "WarmPoolNotProgressing",
        .warning = true,
    };
    static const struct wp_event resumed = {
        .controller = "sandboxwarmpool-controller",
        .action = "Reconciling",
        .reason = "WarmPoolProgressing",
    };
    struct hindered *known = find(progress, pool->uid);
    enum wp_pool_hindrance before =
        known == NULL ? WP_POOL_PROGRESSING : known->hindrance;

    if (hindrance == before) {
        return;
    }
    if (hindrance == WP_POOL_PROGRESSING) {
        drop(progress, known);
        wp_events_tell(progress->events, pool, &resumed, "%s",
                       "The pool is getting on again");
        return;
    }
    if (known == NULL) {
        add(progress, pool->uid, hindrance);
    } else {
        known->hindrance = hindrance;
    }
    wp_events_tell(progress->events, pool, &stopped, "%s", words);
}

void
wp_pool_progress_forget(struct wp_pool_progress *progress, const char *pool_uid)
{
    struct hindered *known = find(progress, pool_uid);

    if (known != NULL) {
        drop(progress, known);
    }
}
