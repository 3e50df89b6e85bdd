/* allocator/stores/redis/feed_impl.h - the parts of the feed among themselves.
 *
 * feed.c is its thread and its connections, feed_receive.c what others
 * say, feed_reload.c the reading of pools. All of it is the feed's thread,
 * where nothing else is said. */
#ifndef WP_ALLOCATOR_STORES_REDIS_FEED_IMPL_H
#define WP_ALLOCATOR_STORES_REDIS_FEED_IMPL_H

#include "allocator/stores/redis/impl.h"
#include "pool/base/clock.h"

struct redisReply;

enum {
    /* A receiver that was full is asked again after this, and then after twice
     * as long each time; so is a pool that could not be read, until it was. */
    WP_FEED_AGAIN_MS = 20,
    WP_FEED_AGAIN_MAX_MS = 1000,
};

struct wp_feed_pool {
    uint64_t expect;    /* Number of the next change; 0: the first to come. */
    uint64_t base;      /* Number of the last change before it was read. */
    bool wanted;        /* To be read (again). */
    bool logged;        /* That it cannot be read. */
    int64_t read_at_ns; /* Not before. */
    int64_t again_ms;   /* 0: the last reading went well. */
};

struct wp_feed_peer {
    struct wp_lease_redis_peer peer;
    int64_t heard_ns;
    bool met; /* Heard since the latest call. */
};

struct wp_redis_feed {
    struct wp_lease_redis *redis;
    pthread_t thread;
    int stop_fd;
    _Atomic(bool) stop;
    _Atomic(uint32_t) waiting;
    _Atomic(bool) keeper;
    _Atomic(bool) leaves;
    _Atomic(bool) says_now;            /* A heartbeat, out of turn. */
    _Atomic(int64_t) listens_since_ns; /* 0: it does not. */

    /* The feed's thread. */
    struct wp_redis_sync *listen;
    struct wp_redis_sync *talk;
    struct wp_feed_pool *pools;   /* redis->pools_max. */
    uint32_t n_pools;             /* That it has called for. */
    struct wp_feed_pool *reading; /* Between its marks; NULL: none. */
    char peers_channel[WP_REDIS_NAMES_MAX + 8];
    int64_t heartbeat_at_ns; /* The next one. */
    int64_t heard_self_ns;
    int64_t called_ns; /* When it had called up. */
    int64_t pause_ms;  /* Before it calls again; 0 once it has heard itself. */
    bool heard_other;  /* In what was taken last; else it rests. */
    bool logged;

    _Atomic(bool) elsewhere; /* Its server is to be looked for anew. */

    pthread_mutex_t peers_lock; /* Guards these; written by the thread only. */
    struct wp_feed_peer peers[WP_PEERS_MAX];
    uint32_t n_peers;
    /* The server process that is heard; "": none, and nothing more of any. */
    char heard[WP_REDIS_RUN_ID_MAX + 1];
};

static inline int64_t
wp_redis_feed_now_ns(void)
{
    return wp_clock_mono_ns(wp_clock_system());
}

static inline const struct wp_lease_redis_sink *
wp_redis_feed_sink(const struct wp_redis_feed *feed)
{
    return &feed->redis->config.sink;
}

/* The pool is read again, after a while. */
static inline void
wp_redis_feed_want(struct wp_feed_pool *pool)
{
    int64_t again_ms = pool->again_ms > 0 ? pool->again_ms : WP_FEED_AGAIN_MS;
    int64_t at_ns = wp_redis_feed_now_ns() + again_ms * WP_NS_PER_MS;

    pool->wanted = true;
    if (pool->read_at_ns < at_ns) {
        pool->read_at_ns = at_ns;
    }
}

/* --- feed_receive.c --- */

/* One message, or the answer to a subscription. */
void wp_redis_feed_on_message(struct wp_redis_feed *feed,
                              const struct redisReply *reply);
/* Takes what has come, waiting at most wait_ms for it; false: the connection is
 * lost. */
bool wp_redis_feed_listen(struct wp_redis_feed *feed, int wait_ms);
/* Says of replicas that were not heard for peer_gone_ns that they are gone. */
void wp_redis_feed_drop_silent(struct wp_redis_feed *feed);

/* --- feed_reload.c --- */

/* Pools that are wanted, once it is time. False: the connection is lost. */
bool wp_redis_feed_read_wanted(struct wp_redis_feed *feed);

#endif
