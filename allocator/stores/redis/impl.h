/* allocator/stores/redis/impl.h - the parts of the Redis store among
 * themselves.
 *
 * Each layer knows those before it only: texts.c writes fields and generations,
 * pools.c is what this replica believes of each pool, groups.c which server has
 * which pool, with the links to it; on them command.c and commit.c, the
 * commits, and scan.c, which reads pools; on that feed*.c, the other replicas,
 * and recover.c, the steps of recovery; store.c puts them together. */
#ifndef WP_ALLOCATOR_STORES_REDIS_IMPL_H
#define WP_ALLOCATOR_STORES_REDIS_IMPL_H

#include <pthread.h>
#include <stdatomic.h>

#include "allocator/stores/redis/store.h"
#include "allocator/stores/redis/link/cluster.h"

struct wp_redis_sync;
struct wp_redis_feed;

enum {
    /* The prefix, and the number of a database. */
    WP_REDIS_NAMES_MAX = WP_REDIS_PREFIX_MAX + 6,
    WP_REDIS_KEY_MAX =
        WP_REDIS_NAMES_MAX + 4 + WP_NAMESPACE_MAX + WP_POOL_NAME_MAX,
    WP_REDIS_GENERATION_LEN = 16, /* Hex digits. */
    WP_REDIS_FIELD_LEN = 1 + 2 * WP_UID_LEN,
    WP_REDIS_WRITER_LEN = 2 * WP_REPLICA_ID_LEN,
    WP_REDIS_GROUPS_MAX = 64,
};

/* One pool: its hash, and what this replica believes of it. */
struct wp_redis_pool {
    struct wp_lease_redis_pool name;
    char key[WP_REDIS_KEY_MAX + 1];
    size_t key_len;
    uint64_t name_hash;
    /* Whose links its commits take; NULL: not known yet. */
    _Atomic(struct wp_redis_group *) group;
    _Atomic(bool) misplaced; /* That server says it is not there. */
    /* Commits carry it. 0: none are sent (not loaded yet, or in doubt). */
    _Atomic(uint64_t) generation;
    /* That begin_recovery gave; 0 again once open, or when the server was lost
     * meanwhile, with what had been asserted: then it is distrusted. */
    _Atomic(uint64_t) recovering;
    _Atomic(uint64_t) distrusted;
    /* The server process that recovering restores. Under admin_lock. */
    char restored_to[WP_REDIS_RUN_ID_MAX + 1];
    /* Added while others are followed: its generation is still to be learned,
     * by the feed. */
    _Atomic(bool) fresh;
    _Atomic(bool) again; /* The feed is asked to read it again. */
};

/* Where a connection leads. */
struct wp_redis_place {
    struct wp_redis_server server;
    char run_id[WP_REDIS_RUN_ID_MAX + 1]; /* Its process. */
};

enum wp_redis_group_state {
    WP_REDIS_GROUP_FREE, /* Without threads and connections. */
    WP_REDIS_GROUP_LIVE,
    WP_REDIS_GROUP_ENDING,
};

/* The links to one server; see groups.c. The memory stays: who has read of a
 * group that has ended since sends to links that refuse it, or to another
 * server, which refuses it. */
struct wp_redis_group {
    struct wp_lease_redis *redis;
    uint32_t number;
    struct wp_redis_links *links;
    _Atomic(int) state; /* enum wp_redis_group_state; under groups_lock. */
    /* Under groups_lock. */
    struct wp_redis_server server;
    uint32_t pins;        /* It is being given to so many pools. */
    int64_t used_ns;      /* When it was last asked for. */
    pthread_mutex_t lock; /* Guards run_id. */
    char run_id[WP_REDIS_RUN_ID_MAX + 1];
};

struct wp_lease_redis {
    struct wp_lease_redis_config config; /* With defaults; texts are owned. */
    struct wp_redis_router router;
    struct wp_redis_hooks hooks; /* Of all links; each group is its own ctx. */
    char host[WP_PEER_HOST_MAX + 1];
    char writer[WP_REDIS_WRITER_LEN + 1]; /* Of the feed; "": not published. */
    pthread_mutex_t pools_lock; /* For adding pools; nothing is removed. */
    struct wp_redis_pool *pools;
    uint32_t pools_max;
    /* Released after the pool behind it; acquired by whoever walks them. */
    _Atomic(uint32_t) n_pools;
    /* Hash of the name -> pool + 1; 0 is empty. The same. */
    _Atomic(uint32_t) *index;
    uint32_t index_mask;
    uint64_t id; /* Tells stores apart, also one at the address of another. */
    uint32_t n_links;            /* Of each group. */
    pthread_mutex_t groups_lock; /* For groups; with groups_cond. */
    pthread_cond_t groups_cond;  /* A pool is misplaced. */
    struct wp_redis_group groups[WP_REDIS_GROUPS_MAX];
    _Atomic(uint32_t) n_groups; /* That have ever been used. */
    _Atomic(uint64_t) groups_ended;
    pthread_t placer;
    bool placer_runs;
    _Atomic(bool) stop;
    _Atomic(uint32_t) links_given;

    /* Guards what blocks: load and recovery, and their connection. */
    pthread_mutex_t admin_lock;
    struct wp_redis_sync *admin;
    struct wp_redis_place admin_place; /* Where it leads. */
    struct wp_redis_feed *feed;

    _Atomic(int64_t) renewed_ns;
    _Atomic(int64_t) logged_ns; /* Last word about an error reply. */
    _Atomic(uint64_t) commits;
    _Atomic(uint64_t) stale;
    _Atomic(uint64_t) corrupt;
    _Atomic(uint64_t) errors;
    _Atomic(uint64_t) noscript;
    _Atomic(uint64_t) records_heard;
    _Atomic(uint64_t) gaps;
    _Atomic(uint64_t) syncs;
    _Atomic(uint64_t) sync_failures;
};

static inline uint32_t
wp_redis_pools_len(const struct wp_lease_redis *redis)
{
    return atomic_load_explicit(&redis->n_pools, memory_order_acquire);
}

#define WP_REDIS_COUNT(counter)                                                \
    atomic_fetch_add_explicit(&(counter), 1, memory_order_relaxed)

/* --- texts.c --- */

/* "rUID" as it names a record; false: it is none. */
WP_MUST_CHECK bool wp_redis_field_parse(struct wp_str field,
                                        struct wp_lease_record *record);
void wp_redis_field_make(const uint8_t uid[WP_UID_LEN],
                         char out[WP_REDIS_FIELD_LEN + 1]);
/* "oGENERATION" or "cGENERATION"; 0: neither. */
uint64_t wp_redis_generation_parse(struct wp_str text, bool *open);
void wp_redis_generation_make(char phase, uint64_t generation,
                              char out[WP_REDIS_GENERATION_LEN + 2]);
/* Never 0. */
uint64_t wp_redis_generation_new(void);

/* --- pools.c --- */

enum wp_status wp_redis_pools_init(struct wp_lease_redis *redis,
                                   const struct wp_lease_redis_config *config,
                                   struct wp_err *err);
/* One more; it is fresh when others are followed. INVALID_ARGUMENT: it is
 * known already. There is room for it; pools_lock is held, or no other thread
 * is there yet. */
enum wp_status wp_redis_pool_add(struct wp_lease_redis *redis,
                                 const struct wp_lease_redis_pool *name,
                                 struct wp_err *err);
/* NULL when it is not configured. Any thread. */
struct wp_redis_pool *wp_redis_pool_find(struct wp_lease_redis *redis,
                                         struct wp_str pool_namespace,
                                         struct wp_str pool);
/* No more commits to the pool, if it believes in generation (0: in any); tells
 * the sink, once. Any thread. */
void wp_redis_pool_doubt(struct wp_lease_redis *redis,
                         struct wp_redis_pool *pool, uint64_t generation);
/* This is what the pool's "g" says; doubt, when this replica believes otherwise
 * and is not in this very recovery. Any thread. */
void wp_redis_generation_met(struct wp_lease_redis *redis,
                             struct wp_redis_pool *pool, struct wp_str text);
/* The server that its recovery restored is not the one there is: it counts
 * nothing, and is not to be joined again. Harmless when there is none. Any
 * thread. */
void wp_redis_pool_distrust(struct wp_redis_pool *pool);

/* --- groups.c --- */

/* This server process was met; if it is another than the last, the group's
 * pools are in doubt. Any thread. */
void wp_redis_server_met(struct wp_redis_group *group, const char *run_id);
/* The pool is on this server: its commits go there from now on. Without a
 * cluster, all are in the one group. NULL: no room or memory for it now. */
struct wp_redis_group *wp_redis_pool_place(struct wp_lease_redis *redis,
                                           struct wp_redis_pool *pool,
                                           const struct wp_redis_server *server,
                                           struct wp_err *err);
/* The group that the redirect of a server of group leads to, for one command;
 * no pool is moved. NULL: none can be made. Any thread. */
struct wp_redis_group *
wp_redis_group_for(struct wp_redis_group *group,
                   const struct wp_redis_redirect *redirect);
/* Its server says that it is not there. Any thread. */
void wp_redis_pool_misplaced(struct wp_lease_redis *redis,
                             struct wp_redis_pool *pool);
/* redis->hooks are set. */
enum wp_status wp_redis_groups_init(struct wp_lease_redis *redis,
                                    struct wp_err *err);
void wp_redis_groups_fini(struct wp_lease_redis *redis);
/* Sums. */
void wp_redis_groups_read_stats(struct wp_lease_redis *redis,
                                struct wp_lease_redis_stats *out);

/* --- scan.c --- */

/* Opens a blocking connection to the pool's server. place, which may be NULL:
 * where that is. On failure *out is as it was, or NULL. */
enum wp_status wp_redis_pool_open(struct wp_lease_redis *redis,
                                  struct wp_redis_pool *pool,
                                  struct wp_redis_sync **out,
                                  struct wp_redis_place *place,
                                  struct wp_err *err);
/* Every record of the pool, in pages. each returns false to stop: then the
 * result is CANCELLED. page, which may be NULL, is called between pages. number
 * receives the number of the last change before the first page; may be NULL. */
struct wp_redis_scan {
    void *ctx;
    bool (*each)(void *ctx, const struct wp_lease_record *record);
    bool (*page)(void *ctx);
    uint64_t *number;
};
enum wp_status wp_redis_pool_scan(struct wp_lease_redis *redis,
                                  struct wp_redis_sync *context,
                                  struct wp_redis_pool *pool,
                                  const struct wp_redis_scan *scan,
                                  struct wp_err *err);
/* Learns the generation of a pool that nothing was read of yet, or doubts it
 * when it is closed. */
enum wp_status wp_redis_pool_learn(struct wp_lease_redis *redis,
                                   struct wp_redis_pool *pool,
                                   struct wp_redis_sync *context,
                                   struct wp_err *err);
enum wp_status wp_redis_load(void *self,
                             void (*each)(void *ctx,
                                          const struct wp_lease_record *record),
                             void *ctx, struct wp_err *err);

/* --- commit.c --- */

/* The port's commit and flush; and the hooks of the links. */
enum wp_status wp_redis_commit(void *self, struct wp_lease_op *op);
void wp_redis_commit_flush(void *self);
void wp_redis_commit_on_reply(void *ctx, uint32_t link, void *call,
                              uint32_t tag, const struct wp_redis_reply *reply);
void wp_redis_commit_on_end(void *ctx, void *call, enum wp_status status);

/* --- feed.c --- */

/* It has listened for long enough to know who else is there. Any thread. */
bool wp_redis_feed_has_heard(struct wp_redis_feed *feed);
/* What it hears is of this server process, or it hears nothing. If not, it
 * looks for its server anew, soon. Any thread. */
bool wp_redis_feed_is_of(struct wp_redis_feed *feed, const char *run_id);
/* Pools were added: it calls anew, for all of them. Any thread. */
void wp_redis_feed_wake(struct wp_redis_feed *feed);
/* Stops the feed, if there is one. */
void wp_redis_feed_destroy(struct wp_redis_feed *feed);

#endif
