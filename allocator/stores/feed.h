/* allocator/stores/feed.h - what other replicas did, on its way to the core.
 *
 * A bounded queue from the one thread of a lease store that hears the others to
 * the control thread, which alone may tell the core. When it is full the
 * message is refused, and the store reads the pool again later: nothing is
 * lost, only late. Nothing is allocated after create. */
#ifndef WP_ALLOCATOR_STORES_FEED_H
#define WP_ALLOCATOR_STORES_FEED_H

#include <stdbool.h>
#include <stdint.h>

#include "pool/base/status.h"
#include "pool/lease_record.h"

struct wp_feed; /* Opaque. */

enum wp_feed_kind {
    WP_FEED_RECORD,     /* A record after a change; state NONE: forgotten. */
    WP_FEED_SYNC_BEGIN, /* All records of its pool follow. */
    WP_FEED_SYNC_END,   /* That was all of them. */
};

struct wp_feed_config {
    uint32_t messages_max; /* Rounded up to a power of two; at least 2. */
    /* There is something for the control thread. Called by who pushes; must not
     * block. */
    void (*wake)(void *ctx);
    /* Control thread, from wp_feed_run. Of a SYNC only the pool is said. */
    void (*take)(void *ctx, enum wp_feed_kind kind,
                 const struct wp_lease_record *record);
    void *ctx;
};

/* NULL and err when memory lacks. */
struct wp_feed *wp_feed_create(const struct wp_feed_config *config,
                               struct wp_err *err);
/* After the pushing thread has ended. NULL is fine. */
void wp_feed_destroy(struct wp_feed *feed);

/* Copies record. False: full. One thread. */
WP_MUST_CHECK bool wp_feed_push(struct wp_feed *feed, enum wp_feed_kind kind,
                                const struct wp_lease_record *record);
/* Hands at most max messages over, in order; true when more are waiting.
 * Control thread. */
bool wp_feed_run(struct wp_feed *feed, uint32_t max);

/* Messages refused so far. Any thread. */
uint64_t wp_feed_refused(const struct wp_feed *feed);

#endif
