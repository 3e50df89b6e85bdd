/* allocator/stores/redis/topology/topology.h - which server has a key now.
 *
 * For one server that is its address. For sentinels it is the master that they
 * name, once it said itself that it is one. For a cluster it is the node that
 * serves the key's slot. A thread of the topology asks, follows what changes,
 * and asks again when somebody doubts.
 *
 * What is in doubt is not named: a server that failed is UNAVAILABLE until it,
 * or another in its place, was found to be right. So a master that comes back
 * after a failover, and does not know yet that it is none, is not used, as long
 * as its connections had broken and a sentinel knows better. What a failover
 * loses, and a master that is cut off from its replicas, only Redis itself can
 * bound (min-replicas-to-write, and WAIT).
 *
 *   sentinels   asked in turn, the one that answered last first; others are
 *               learned from them, up to WP_REDIS_SEEDS_MAX. An answer older
 *               than one heard before (by its configuration epoch) counts only
 *               when most of them give none newer. Told of a failover by a
 *               subscription; looked at again every recheck_ns, and every
 *               poll_ns while in doubt.
 *   cluster     CLUSTER SLOTS of any node that is known, else of a seed; again
 *               when a server said MOVED (at most once in 100 ms), when a node
 *               failed, and every recheck_ns. */
#ifndef WP_ALLOCATOR_STORES_REDIS_TOPOLOGY_TOPOLOGY_H
#define WP_ALLOCATOR_STORES_REDIS_TOPOLOGY_TOPOLOGY_H

#include "allocator/stores/redis/link/cluster.h"
#include "allocator/stores/redis/link/link.h"
#include "allocator/conf/redis_url.h"

enum {
    WP_REDIS_NODES_MAX = 256, /* Of a cluster, that serve slots. */
};

struct wp_redis_topology;

struct wp_redis_topology_config {
    int64_t timeout_ns; /* 0: 1 s. To connect; for each answer. */
    int64_t poll_ns;    /* 0: 1 s. Between looks while something is unknown. */
    int64_t recheck_ns; /* 0: 10 s. Between looks while nothing is. */
    /* To sentinels and servers alike; must outlive the topology. NULL: none. */
    const struct wp_redis_tls *tls;
    /* Something that lookup says has changed. From the topology's thread,
     * which must not be blocked for long; not under a lock. May be NULL. */
    void (*on_change)(void *ctx);
    void *ctx;
};

struct wp_redis_topology_stats {
    uint64_t changes; /* Times that lookup began to say something else. */
    uint64_t looks;
    uint64_t moved;    /* MOVED that were reported. */
    uint32_t nodes;    /* That serve now; 1 but for a cluster. */
    uint32_t in_doubt; /* Of them: not named now. */
};

/* Copies what it needs of url and config, and starts the thread (none for one
 * server); does not wait for it. RESOURCE_EXHAUSTED: no memory or no thread. */
WP_MUST_CHECK enum wp_status
wp_redis_topology_create(const struct wp_redis_url *url,
                         const struct wp_redis_topology_config *config,
                         struct wp_redis_topology **out, struct wp_err *err);
/* Joins the thread, which may first wait for an answer, timeout_ns at most (and
 * as long as the system takes to resolve a name). No other call may be under
 * way or follow. NULL is allowed. */
void wp_redis_topology_destroy(struct wp_redis_topology *t);

/* The server that has slot (any number, unless it is a cluster). UNAVAILABLE:
 * not known now; err says what is wrong. Any thread; takes a short lock. */
WP_MUST_CHECK enum wp_status
wp_redis_topology_lookup(struct wp_redis_topology *t, uint16_t slot,
                         struct wp_redis_server *out, struct wp_err *err);
/* The same, waiting for up to limit_ns until it is known. */
WP_MUST_CHECK enum wp_status wp_redis_topology_wait(struct wp_redis_topology *t,
                                                    uint16_t slot,
                                                    int64_t limit_ns,
                                                    struct wp_redis_server *out,
                                                    struct wp_err *err);

/* A server said MOVED: server (with a host) has slot, which lookup says from
 * now on; the whole map is read again. Ignored unless it is a cluster. Any
 * thread. */
void wp_redis_topology_moved(struct wp_redis_topology *t, uint16_t slot,
                             const struct wp_redis_server *server);
/* A connection to server broke or was refused, it was silent, or it said that
 * it is no master: it is not named again until it was looked at. NULL: any
 * server. Ignored for one that is not named now anyway. Any thread. */
void wp_redis_topology_failed(struct wp_redis_topology *t,
                              const struct wp_redis_server *server);

/* The topology as links know it: find waits for timeout_ns; doubt takes the
 * text of an error reply for what it says, and an empty one as failed(NULL).
 * Valid as long as t. */
const struct wp_redis_router *
wp_redis_topology_router(struct wp_redis_topology *t);

/* Any thread. */
void wp_redis_topology_read_stats(struct wp_redis_topology *t,
                                  struct wp_redis_topology_stats *out);

#endif
