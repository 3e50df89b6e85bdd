/* allocator/redis_message.h - what replicas tell each other through Redis.
 *
 *   change      "1", writer (16 hex), number (20), uid (32 hex), the record
 *               after it, packed (allocator/lease_codec.h); written by scripts
 *   heartbeat   "1", replica (16 hex), keeper ("0", "1"; "2", "3": and
 *               it leaves), waiting (10), host
 *
 * Any thread; pure. */
#ifndef WP_ALLOCATOR_REDIS_MESSAGE_H
#define WP_ALLOCATOR_REDIS_MESSAGE_H

#include "allocator/lease_redis.h"

enum {
    WP_REDIS_HEARTBEAT_MAX =
        1 + 2 * WP_REPLICA_ID_LEN + 1 + 10 + WP_PEER_HOST_MAX,
};

struct wp_redis_change {
    uint8_t writer[WP_REPLICA_ID_LEN];
    uint64_t number;
    struct wp_lease_record record;
};

/* False: it is none; *out is undefined. */
WP_MUST_CHECK bool wp_redis_change_parse(struct wp_str payload,
                                         struct wp_redis_change *out);
/* Returns the length; not terminated. */
size_t wp_redis_heartbeat_make(const struct wp_lease_redis_peer *peer,
                               char out[WP_REDIS_HEARTBEAT_MAX]);
WP_MUST_CHECK bool wp_redis_heartbeat_parse(struct wp_str payload,
                                            struct wp_lease_redis_peer *out);

#endif
