/* tests/support/stores/redis_replica.h - a Redis store behind a topology, and what its
 * replica has been told: with that it recovers the pools. What fails fails the
 * test. */
#ifndef WP_TESTS_SUPPORT_STORES_REDIS_REPLICA_H
#define WP_TESTS_SUPPORT_STORES_REDIS_REPLICA_H

#include "allocator/stores/redis/topology/topology.h"
#include "tests/support/stores/redis_world.h"

enum {
    REDIS_REPLICA_KNOWN_MAX = 64,
};

struct redis_replica {
    struct redis_world world;
    struct wp_redis_topology *topology;
    struct wp_lease_record known[REDIS_REPLICA_KNOWN_MAX];
    uint32_t n_known;
};

/* The rig runs: opens the topology at url, and the store. */
void redis_replica_open(struct redis_replica *r, const char *url);
/* Ends the rig too. */
void redis_replica_stop(struct redis_replica *r);

/* Offers and grants sandboxes first..last of pool (a number of
 * redis_world_pools), to a claim of its own each. */
void redis_replica_grant(struct redis_replica *r, uint32_t pool, uint8_t first,
                         uint8_t last);
/* The status of one commit for such a sandbox, tried once. */
enum wp_status redis_replica_commit(struct redis_replica *r, uint32_t pool,
                                    enum wp_lease_op_kind kind, uint8_t uid,
                                    uint64_t fence);
/* The same of any op, with the patience of a daemon's clients: UNAVAILABLE has
 * changed nothing, and links may be made anew at any time. */
enum wp_status redis_replica_settle(struct redis_replica *r,
                                    const struct wp_lease_op *op);
/* Tries until every pool is open again, with all that is known. */
void redis_replica_recover(struct redis_replica *r);
/* Each lease that was acknowledged is there, and nobody else gets its sandbox.
 */
void redis_replica_check(struct redis_replica *r, uint32_t pool, uint8_t first,
                         uint8_t last);

#endif
