/* tests/support/stores/redis_follower.h - a replica that hears what others change in
 * Redis, with a copy of the first pool, as its daemon would keep one. What fails
 * fails the test. */
#ifndef WP_TESTS_SUPPORT_STORES_REDIS_FOLLOWER_H
#define WP_TESTS_SUPPORT_STORES_REDIS_FOLLOWER_H

#include <pthread.h>

#include "tests/support/stores/redis_world.h"

enum {
    REDIS_FOLLOWER_UIDS = 16, /* Sandboxes are 1 .. this - 1. */
    /* The id of one that uses another database. */
    REDIS_FOLLOWER_ELSEWHERE = 'z',
};

struct redis_follower {
    struct redis_world *world; /* Whose server it uses. */
    struct wp_lease_redis *redis;
    struct wp_lease_store store;
    pthread_mutex_t lock;
    struct wp_lease_record copy[REDIS_FOLLOWER_UIDS];
    bool seen[REDIS_FOLLOWER_UIDS]; /* Since the last begin. */
    bool syncing;
    uint32_t n_heard;
    uint32_t n_syncs;
    uint32_t n_let_go;
    uint32_t refuse; /* So many records to come. */
    struct wp_lease_redis_peer peer;
    uint32_t peers_heard;
    uint32_t peers_gone;
};

/* For those that start from now on: it is known that there are so many
 * others. */
extern bool redis_followers_known;
extern uint32_t redis_followers_others;

/* One server, for all of them. */
void redis_follower_server(struct redis_world *world);
/* With the pools of the world, all read; id is its own. */
void redis_follower_start(struct redis_follower *follower,
                          struct redis_world *world, uint8_t id);
/* The same with one pool only, unless that is NULL; what is there may not be
 * read yet. */
void redis_follower_start_with(struct redis_follower *follower,
                               struct redis_world *world, uint8_t id,
                               const struct wp_lease_redis_pool *only);
void redis_follower_stop(struct redis_follower *follower);
/* One of its counts. */
uint32_t redis_follower_count(struct redis_follower *follower,
                              const uint32_t *count);
/* A commit by it, for a claim of that sandbox's own. */
enum wp_status redis_follower_commit(const struct redis_follower *follower,
                                     enum wp_lease_op_kind kind, uint8_t uid,
                                     uint64_t fence);
/* Does its copy have that? */
bool redis_follower_knows(struct redis_follower *follower, uint8_t uid,
                          enum wp_record_state state, uint64_t fence);

#endif
