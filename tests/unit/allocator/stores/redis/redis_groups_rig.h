/* tests/unit/allocator/stores/redis/redis_groups_rig.h - the groups of links of a
 * store, with the placing thread run by the test's thread and clock. What lies
 * below is a plan that writes a journal; "*" behind a call: under the lock. A
 * test links the wraps of CMakeLists.txt. */
#ifndef WP_TESTS_UNIT_ALLOCATOR_STORES_REDIS_REDIS_GROUPS_RIG_H
#define WP_TESTS_UNIT_ALLOCATOR_STORES_REDIS_REDIS_GROUPS_RIG_H

#include "allocator/stores/redis/impl.h"
#include "pool/base/clock.h"

enum {
    SETS_MAX = WP_REDIS_GROUPS_MAX + 2,
    POOLS_MAX = 70,
};

/* Near the end of a second: the ends of waits are in the next one. */
#define BEGIN_NS (50 * WP_NS_PER_S + 950 * WP_NS_PER_MS)

/* What comes to pass while the thread waits; after the last one it ends. */
struct step {
    int64_t lasts_ns;
    void (*act)(void);
};

struct groups_plan {
    const struct step *steps;
    uint32_t n_steps;
    uint32_t step;
    bool create_fails;
    bool reopen_fails;
    int thread_fails;
    uint16_t ports[POOLS_MAX]; /* Where the router finds pools; 0: it fails. */
    uint32_t stops_at;         /* The thread is to end at this find, from 1. */
    uint32_t finds;
    bool silent_finds;
    uint32_t closes; /* Calls until links are closed. */
    bool busy;       /* Something is in flight. */
    struct wp_redis_stats stats[SETS_MAX];
    struct wp_redis_hooks hooks; /* Of the links made last. */
};

extern struct groups_plan plan;
extern int64_t clock_ns;
extern struct wp_lease_redis *redis;

/* A store with pools "p0" and so on, each with a generation. */
void groups_begin(uint32_t n_pools, bool cluster, bool routed);
/* The same with a router; the groups are there. */
void groups_begin_running(uint32_t n_pools, bool cluster);
void groups_end(void);
/* The whole life of the placing thread; returns what was logged. */
const char *groups_run(const struct step *steps, uint32_t n);
#define RUN(steps) groups_run(steps, sizeof(steps) / sizeof(steps)[0])
/* Into the journal. */
void note_pools(void);
void note_groups(void);

#endif
