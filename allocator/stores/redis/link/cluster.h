/* allocator/stores/redis/link/cluster.h - how Redis Cluster divides keys, and
 * what its servers say about it. Pure; any thread. */
#ifndef WP_ALLOCATOR_STORES_REDIS_LINK_CLUSTER_H
#define WP_ALLOCATOR_STORES_REDIS_LINK_CLUSTER_H

#include "allocator/stores/redis/link/link.h"

enum {
    WP_REDIS_SLOTS = 16384,
};

/* The slot of key: of what is between its first '{' and the next '}', when
 * that is not empty, else of all. Below WP_REDIS_SLOTS. */
uint16_t wp_redis_slot(struct wp_str key);

/* A server's answer that another one has the key. */
struct wp_redis_redirect {
    bool ask; /* For this command only, behind ASKING. Else for good. */
    uint16_t slot;
    /* host "": the same as that of who said it. */
    struct wp_redis_server server;
};

/* From an error's text, "MOVED 3999 127.0.0.1:6381" or "ASK ...", without its
 * '-'. The host may be empty, or an IPv6 address with or without brackets.
 * False: it is something else, or names no server ("?" as host, port 0). */
WP_MUST_CHECK bool wp_redis_redirect_parse(struct wp_str error,
                                           struct wp_redis_redirect *out);

#endif
