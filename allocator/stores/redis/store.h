/* allocator/stores/redis/store.h - the lease store that several replicas share.
 *
 * Redis is the arbiter. Everything of a pool is one hash, PREFIX:{NAMESPACE/
 * POOL}, so it lies in one slot of a cluster, and the commits that a thread has
 * for it at the same moment, up to WP_REDIS_BATCH_MAX, are one call of one
 * script that reads it once and writes it once; each has its own outcome:
 *
 *   field          value
 *   r UID          the record, packed (allocator/stores/codec.h)
 *   c CLAIM        r UID: the record that this claim has, HELD or LOST
 *   g              "o" or "c" (open, closed for recovery) and the generation
 *   q              number of the last change, for the feed
 *   a              while closed: the generation, and the replicas that have
 *                  asserted their records in it
 *   s              the same: the server process that was told to close it
 *
 * The snapshot of the pool is beside it, PREFIX:{NAMESPACE/POOL}:note.
 *
 * A claim costs one round trip on a connection that its thread owns: no lock
 * shared with other threads, no allocation, no extra hop between threads; one
 * thread parses the answers of all connections and completes the ops.
 *
 * Which thread uses which connection: a thread that calls ops->flush gets a
 * connection of its own, while there are any (config.threads); what it commits
 * goes out at its next flush, and it must go on flushing. Any other thread
 * shares one connection, and what it commits goes out at once.
 *
 * Redis may forget: it was restarted without its last writes, another server
 * was promoted, somebody said FLUSHALL. Every script compares the generation
 * that this replica believes in with the pool's; when they differ nothing is
 * changed, the op ends UNAVAILABLE, and so does every later commit to that pool
 * until it is recovered. The sink is told once (on_doubt). The same happens
 * when a connection comes back to another server process than before, which
 * may have lost what the old one had acknowledged. The way out:
 *
 *   begin_recovery    closes the pool: nobody's commits are taken
 *   assert_record     writes what this replica knows, where Redis knows less
 *   end_assert        says that this replica has restored everything
 *   open_generation   opens it, once every replica that is asked for has
 *
 * Replicas that find it closed by another join: the calls are the same. Those
 * that follow are told that it was closed; the others meet it.
 *
 * The login must be allowed EVAL, EVALSHA, SCRIPT LOAD and INFO; HSET, HGET,
 * HMGET, HDEL, HSCAN, SET and GETRANGE on the keys; with other replicas PUBLISH
 * and SUBSCRIBE.
 */
#ifndef WP_ALLOCATOR_STORES_REDIS_STORE_H
#define WP_ALLOCATOR_STORES_REDIS_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "allocator/stores/redis/link/link.h"
#include "pool/base/status.h"
#include "pool/lease_store.h"
#include "pool/limits.h"

enum {
    WP_REDIS_PREFIX_MAX = 64,
    WP_REPLICA_ID_LEN = 8,
    WP_PEER_HOST_MAX = 63,
    WP_PEERS_MAX = 64,
};

struct wp_lease_redis;

struct wp_lease_redis_pool {
    char pool_namespace[WP_NAMESPACE_MAX + 1];
    char pool[WP_POOL_NAME_MAX + 1];
};

struct wp_lease_redis_peer {
    uint8_t replica_id[WP_REPLICA_ID_LEN];
    char host[WP_PEER_HOST_MAX + 1];
    uint32_t waiting; /* Claims that wait there. */
    bool keeper;
    bool leaves; /* It is stopping: it takes nothing over. */
};

/* What other replicas do. All functions are called from the store's feed
 * thread, on_doubt also from its other threads; they must not block for long
 * nor call the store. Any may be NULL. */
struct wp_lease_redis_sink {
    void *ctx;
    /* The record after a change by another replica (state NONE: forgotten), or
     * between the marks of on_sync any record. False: the receiver is full; the
     * store reads the pool again a little later. */
    bool (*on_record)(void *ctx, const struct wp_lease_record *record);
    /* begin: every record of the pool follows, and what others change
     * meanwhile; end: that was all, so what was not among it is no longer
     * there. A begin without an end is void: another one follows. False: full,
     * as above. */
    bool (*on_sync)(void *ctx, const struct wp_lease_redis_pool *pool,
                    bool begin);
    /* A replica said something new about itself; gone: not heard for
     * config.peer_gone_ns, while it could have been. */
    void (*on_peer)(void *ctx, const struct wp_lease_redis_peer *peer,
                    bool gone);
    /* The pool is closed to this replica until it is recovered. */
    void (*on_doubt)(void *ctx, const struct wp_lease_redis_pool *pool);
};

struct wp_lease_redis_config {
    struct wp_redis_config redis; /* Servers, login, bounds, timeouts. */
    /* Names begin with it, and with ":N" in database N but for 0; so "x:3" in
     * database 0 is not to be used beside "x" in database 3. "" and NULL:
     * "warmpool". */
    const char *prefix;
    const struct wp_lease_redis_pool *pools; /* Copied. */
    uint32_t n_pools;                        /* 1..WP_POOLS_MAX */
    bool grows;       /* wp_lease_redis_add_pool will be called. */
    uint32_t threads; /* Connections for threads that flush; 0..64. */
    /* There are others: changes and heartbeats are published. */
    bool replicas;
    uint8_t replica_id[WP_REPLICA_ID_LEN]; /* Random for each process. */
    const char *host;                      /* Of this replica, for people. */
    int64_t heartbeat_ns;                  /* 0: 1 s */
    int64_t peer_gone_ns;                  /* 0: 3 s */
    /* Of a cluster: connections to a server end after so long without a pool
     * there. 0: 10 s */
    int64_t server_idle_ns;
    /* How many other replicas there are, for certain; any thread. A recovery
     * then waits to hear of so many. NULL: nobody knows, and it waits for as
     * long as it may take to hear of all. */
    uint32_t (*others)(void *ctx);
    void *others_ctx;
    struct wp_lease_redis_sink sink;
};

struct wp_lease_redis_stats {
    struct wp_redis_stats redis;
    uint32_t servers;       /* That there are connections to, or ought to be. */
    uint64_t servers_ended; /* Whose connections have been ended. */
    uint64_t commits;
    uint64_t errors;   /* Error replies to commits. */
    uint64_t noscript; /* Scripts that Redis had lost; sent again. */
    uint64_t stale;    /* Commits that met another generation. */
    uint64_t corrupt;  /* Records that could not be read. */
    uint64_t records_heard;
    uint64_t gaps;          /* Numbers missing in a pool's feed. */
    uint64_t syncs;         /* Times a pool was read again. */
    uint64_t sync_failures; /* Times it could not be read. */
    uint32_t in_doubt;      /* Pools closed to this replica now. */
    uint32_t peers;         /* Others that are alive. */
};

/* Checks the configuration and starts the threads that connect; does not wait
 * for Redis. INVALID_ARGUMENT names what is wrong. The process must ignore
 * SIGPIPE. */
enum wp_status wp_lease_redis_create(const struct wp_lease_redis_config *config,
                                     struct wp_lease_redis **out,
                                     struct wp_err *err);
/* After the last commit. Ops that are still unanswered end UNKNOWN_OUTCOME
 * first, from this thread. NULL is allowed. */
void wp_lease_redis_destroy(struct wp_lease_redis *redis);

/* The port. load reads every pool of the configuration and learns its
 * generation; a pool that Redis does not know gets one, and is empty. Commits
 * before load, or to a pool that is not configured, are UNAVAILABLE. Ops name
 * their pool always. */
struct wp_lease_store wp_lease_redis_store(struct wp_lease_redis *redis);

/* Starts to follow the others, and tells them of this one: each pool is read
 * once (on_sync), then what changes. After load, and only with
 * config.replicas. */
enum wp_status wp_lease_redis_follow(struct wp_lease_redis *redis,
                                     struct wp_err *err);

/* One more pool, from now on; fine when it is known. Its commits are
 * UNAVAILABLE until the feed has learned its generation, a moment later; then
 * what Redis has of it is told as after any gap, and so is that of all others.
 * RESOURCE_EXHAUSTED: WP_POOLS_MAX have been added, those that are gone among
 * them. With config.grows; after follow; any thread. */
enum wp_status wp_lease_redis_add_pool(struct wp_lease_redis *redis,
                                       const struct wp_lease_redis_pool *name,
                                       struct wp_err *err);

/* Has the feed read the pool again, between its marks: something of what it had
 * told was not taken in. Nothing for a pool that is not known, or without a
 * feed. Any thread. */
void wp_lease_redis_read_again(struct wp_lease_redis *redis,
                               const struct wp_lease_redis_pool *name);

/* Is it one of the configuration, or added? Any thread. */
bool wp_lease_redis_knows(struct wp_lease_redis *redis,
                          struct wp_str pool_namespace, struct wp_str pool);

/* What the next heartbeats say. Any thread. */
void wp_lease_redis_set_state(struct wp_lease_redis *redis, uint32_t waiting,
                              bool keeper);
/* They say at once, and from now on, that this replica leaves. Any thread. */
void wp_lease_redis_leave(struct wp_lease_redis *redis);
/* The replicas heard lately, at most max of them; returns how many there are.
 * Any thread. */
uint32_t wp_lease_redis_peers(struct wp_lease_redis *redis,
                              struct wp_lease_redis_peer *peers, uint32_t max);

void wp_lease_redis_read_stats(struct wp_lease_redis *redis,
                               struct wp_lease_redis_stats *out);

/* The pool takes no commits of this replica: not loaded yet, or in doubt. Any
 * thread. */
bool wp_lease_redis_in_doubt(struct wp_lease_redis *redis,
                             const struct wp_lease_redis_pool *pool);

/* --- recovery; each blocks, within connect + commit timeout; any thread but
 * the sink's --- */

/* Every record that Redis has of the pool, closed or not; in no order. On
 * failure what was restored is not all. */
enum wp_status wp_lease_redis_read_pool(
    struct wp_lease_redis *redis, const struct wp_lease_redis_pool *name,
    void (*each)(void *ctx, const struct wp_lease_record *record), void *ctx,
    struct wp_err *err);
/* Closes the pool under a new generation, or joins the recovery that another
 * replica has begun. UNAVAILABLE: Redis is out of reach, or others are still
 * heard through another server; what was heard before it was OK is to be told
 * with the rest. */
enum wp_status
wp_lease_redis_begin_recovery(struct wp_lease_redis *redis,
                              const struct wp_lease_redis_pool *name,
                              struct wp_err *err);
/* Writes the record unless Redis has one of a newer fence, or of the same fence
 * and a later state (OPEN < HELD < LOST < ENDED); its claim with it. OK:
 * written, or Redis knew as much. ABORTED: Redis knows more. ALREADY_EXISTS:
 * its claim has another sandbox there, whose lease may be over without Redis
 * knowing: restore it again once every replica has restored what has ended.
 * FAILED_PRECONDITION: the pool is not closed,
 * or closed under another generation than begin_recovery gave: begin again. */
enum wp_status
wp_lease_redis_assert_record(struct wp_lease_redis *redis,
                             const struct wp_lease_record *record,
                             struct wp_err *err);
/* The same of one that was refused. ALREADY_EXISTS does not come: of two leases
 * of one claim the one that was granted later stays, by the replicas' wall
 * clocks, and the sandbox of the other one ends. */
enum wp_status wp_lease_redis_assert_last(struct wp_lease_redis *redis,
                                          const struct wp_lease_record *record,
                                          struct wp_err *err);
/* This replica has asserted what it knows of the pool. */
enum wp_status wp_lease_redis_end_assert(struct wp_lease_redis *redis,
                                         const struct wp_lease_redis_pool *name,
                                         struct wp_err *err);
/* Has that replica? PENDING: not yet; else as end_assert. */
enum wp_status wp_lease_redis_has_ended(
    struct wp_lease_redis *redis, const struct wp_lease_redis_pool *name,
    const uint8_t replica_id[WP_REPLICA_ID_LEN], struct wp_err *err);
/* Opens the pool, when this replica and each of peers (whose records would be
 * missing otherwise) have ended their assertions; or learns that another
 * replica has opened it since. OK: this replica's commits are taken again.
 * PENDING: some have not, or a replica that follows does not hear the others
 * yet; ask again. FAILED_PRECONDITION: begin again.
 *
 * Who recovers several pools ends its assertions in all of them before it waits
 * for one to open: others may wait for it in another one. */
enum wp_status
wp_lease_redis_open_generation(struct wp_lease_redis *redis,
                               const struct wp_lease_redis_pool *name,
                               const struct wp_lease_redis_peer *peers,
                               uint32_t n_peers, struct wp_err *err);

#endif
