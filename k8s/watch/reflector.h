/* k8s/watch/reflector.h - keeps a store the same as what the API server has.
 *
 * LIST in pages, remember the version, WATCH from there with bookmarks, and so
 * on from the last version seen when a watch ends. A version that is gone (410,
 * by the status, by an ERROR event, or for a page) leads to a new list from the
 * start, with what is known kept until the new list is whole. Failures are
 * retried with full jitter: up to 0.5 s, doubling to 30 s, or to 5 s while
 * there is no answer at all; the first answer after that begins anew at 0.5 s.
 * A watch that stands still (no byte, not even a bookmark) is ended and leads
 * to a list. After a connection that broke the server is asked for its version
 * first: an older one means that its storage was restored, and leads to a list
 * of which all is taken. An event may be at most WP_OBJECT_BYTES_MAX long: a
 * longer one ends the watch and leads to a list.
 * Loop thread only. */
#ifndef WP_K8S_WATCH_REFLECTOR_H
#define WP_K8S_WATCH_REFLECTOR_H

#include "k8s/api/api.h"
#include "k8s/watch/store.h"

struct event_base;
struct wp_reflector; /* Opaque. */

struct wp_reflector_config {
    struct event_base *base;
    const struct wp_clock *clock;
    struct wp_api *api;
    struct wp_store *store;
    enum wp_kind kind;
    const char *ns;             /* NULL: all namespaces. */
    const char *label_selector; /* NULL: all objects. */
    uint64_t seed;              /* Of the jitter. */
    uint32_t page_limit;        /* 0: 500. */
    int64_t idle_timeout_ns;    /* 0: 90 s; servers send a bookmark a minute. */
    /* The store has a whole list; after each. */
    void (*on_synced)(void *ctx);
    /* 403 or 404 on the list: the kind is not there, or not allowed. It goes on
     * trying. message is borrowed. May be NULL. */
    void (*on_refused)(void *ctx, int code, const char *message);
    /* The server is older than it was, and this list of it is being taken:
     * other reflectors of it need one as well. May be NULL. */
    void (*on_went_back)(void *ctx);
    /* True: the watch ended before the time that was asked for, so that what is
     * known may be of another world than the server's. False: a list was taken,
     * or the next watch has told something or goes on for a second. Told when
     * it changes; at first there is no doubt. May be NULL. */
    void (*on_doubt)(void *ctx, bool doubtful);
    void *ctx;
};

struct wp_reflector_stats {
    uint64_t lists;
    uint64_t watches;
    uint64_t probes; /* Of the version, after a connection broke. */
    uint64_t events;
    uint64_t bookmarks;
    uint64_t gone;    /* 410, in whatever form. */
    uint64_t stalled; /* Watches ended for their silence. */
    uint64_t broken;  /* Lines that were too long or made no sense. */
};

/* config's texts are borrowed. NULL when memory lacks. */
struct wp_reflector *
wp_reflector_start(const struct wp_reflector_config *config);
/* Another reflector found that the server went back: lists as soon as it may,
 * and takes all of it. Not from on_synced. */
void wp_reflector_went_back(struct wp_reflector *reflector);
void
wp_reflector_stop(struct wp_reflector *reflector); /* Frees. NULL is fine. */
void wp_reflector_stats(const struct wp_reflector *reflector,
                        struct wp_reflector_stats *out);

#endif
