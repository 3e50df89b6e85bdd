/* allocator/daemon/redis_impl.h - what redis*.c share; private to them.
 *
 * redis.c        settings, connecting, following, the end
 * redis_heard.c  what other replicas do, on its way to the core */
#ifndef WP_ALLOCATOR_DAEMON_REDIS_IMPL_H
#define WP_ALLOCATOR_DAEMON_REDIS_IMPL_H

#include <pthread.h>
#include <stdatomic.h>

#include "allocator/daemon/recover.h"
#include "allocator/daemon/redis.h"
#include "allocator/stores/redis/link/tls.h"
#include "allocator/stores/redis/topology/topology.h"
#include "pool/base/channel.h"

enum {
    WP_DAEMON_REDIS_FEED = 8192, /* Messages. */
};

/* Of one daemon; see each part for its thread. */
struct wp_daemon_redis {
    struct wp_daemon_core *core;
    const struct wp_manifest *manifest;
    const struct wp_daemon_locks *locks;
    struct wp_lease_redis *redis;
    struct wp_redis_topology *topology; /* NULL: one server. */
    /* To the control thread, which alone may tell the core. When it is full the
     * store reads the pool again later: nothing is lost, only late. */
    struct wp_channel feed;
    _Atomic(uint64_t) feed_refused;
    struct wp_redis_url url;
    struct wp_redis_tls tls;           /* Counts when url says so. */
    struct wp_lease_redis_pool *pools; /* Owned. */
    uint32_t n_pools;
    uint8_t replica_id[WP_REPLICA_ID_LEN];
    /* Control thread: what the heartbeats say, and since when. */
    int64_t state_said_ns;
    bool keeper_said;
    bool full_logged;     /* There is no room for another pool. */
    bool *missed;         /* Owned. Of that pool a record was left out. */
    bool *read;           /* Owned. Of that pool all were told once. */
    int64_t missed_at_ns; /* When they are read again at the earliest. */
    int64_t missed_pause_ns;

    struct wp_recovery *recovery;

    pthread_mutex_t lock;               /* Guards what follows. */
    uint64_t replicas[WP_REPLICAS_MAX]; /* Alive, this one among them. */
    uint32_t n_replicas;
};

/* On its way to the core. */
struct wp_daemon_redis_change {
    enum {
        CHANGE_RECORD,     /* A record as it is now; state NONE: forgotten. */
        CHANGE_SYNC_BEGIN, /* All records of its pool follow. */
        CHANGE_SYNC_END,   /* That was all of them. */
    } kind;
    struct wp_lease_record record; /* Of a SYNC only the pool is said. */
};

/* --- redis.c --- */

/* True when it is new. Control thread, once the daemon runs. */
bool wp_daemon_redis_add_pool(struct wp_daemon_redis *r,
                              const char *pool_namespace, const char *pool);
uint64_t wp_daemon_redis_number(const uint8_t id[WP_REPLICA_ID_LEN]);

/* --- redis_heard.c --- */

/* What the store calls, with a struct wp_daemon_redis. */
struct wp_lease_redis_sink wp_daemon_redis_sink(struct wp_daemon_redis *r);
/* Tells the core all that waits now. Control thread. */
void wp_daemon_redis_catch_up(void *r);

#endif
