/* allocator/stores/redis/message.h - what replicas tell each other through
 * Redis.
 *
 *   change      "1", writer (16 hex), number (20), uid (32 hex), the record
 *               after it, packed (allocator/stores/codec.h)
 *   changes     "2", writer, number of the first, and each: "r", uid, length
 *               (4), the record; what one call of a script has changed
 *   heartbeat   "1", replica (16 hex), keeper ("0", "1"; "2", "3": and
 *               it leaves), waiting (10), host
 *
 * Scripts write changes. One alone is said the first way: who does not know the
 * other one misses some numbers, and reads the pool again when the next single
 * change comes. Any thread; pure. */
#ifndef WP_ALLOCATOR_STORES_REDIS_MESSAGE_H
#define WP_ALLOCATOR_STORES_REDIS_MESSAGE_H

#include "allocator/stores/redis/store.h"

enum {
    WP_REDIS_HEARTBEAT_MAX =
        1 + 2 * WP_REPLICA_ID_LEN + 1 + 10 + WP_PEER_HOST_MAX,
};

/* What is left of a message. */
struct wp_redis_changes {
    uint8_t writer[WP_REPLICA_ID_LEN];
    uint64_t number; /* Of the next change. */
    bool several;    /* The second way. */
    struct wp_str left;
};

/* One of them; its texts lie in the message. */
struct wp_redis_change {
    uint64_t number;
    struct wp_str uid; /* Hex. */
    struct wp_str packed;
};

/* False: it is no message of changes; *out is undefined. */
WP_MUST_CHECK bool wp_redis_changes_open(struct wp_str payload,
                                         struct wp_redis_changes *out);
/* False when nothing is left, or (left is not empty) what is left is no change;
 * *out is undefined. */
WP_MUST_CHECK bool wp_redis_changes_next(struct wp_redis_changes *changes,
                                         struct wp_redis_change *out);
/* False: the record cannot be read; *out is undefined. */
WP_MUST_CHECK bool wp_redis_change_read(const struct wp_redis_change *change,
                                        struct wp_lease_record *out);
/* Returns the length; not terminated. */
size_t wp_redis_heartbeat_make(const struct wp_lease_redis_peer *peer,
                               char out[WP_REDIS_HEARTBEAT_MAX]);
WP_MUST_CHECK bool wp_redis_heartbeat_parse(struct wp_str payload,
                                            struct wp_lease_redis_peer *out);

#endif
