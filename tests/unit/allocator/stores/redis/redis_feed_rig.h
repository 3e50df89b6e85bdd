/* tests/unit/allocator/stores/redis/redis_feed_rig.h - the feed's thread, run by
 * the test's thread and clock. What lies below it is a plan that writes a
 * journal: a test links the wraps of CMakeLists.txt. */
#ifndef WP_TESTS_UNIT_ALLOCATOR_STORES_REDIS_REDIS_FEED_RIG_H
#define WP_TESTS_UNIT_ALLOCATOR_STORES_REDIS_REDIS_FEED_RIG_H

#include "allocator/stores/redis/feed_impl.h"

enum {
    REPLIES_MAX = 8,
};

/* What comes to pass at a wait of the thread; after the last one it ends. */
struct step {
    int64_t lasts_us;
    bool breaks; /* Of one that listens: the connection is lost. */
    void (*act)(struct wp_redis_feed *feed);
};

/* Bits of n: the call of that number, from 1, fails. */
struct feed_plan {
    const struct step *steps;
    uint32_t n_steps;
    uint32_t step;
    uint32_t opens, open_fails;
    uint32_t sends, send_fails;
    uint32_t calls, call_fails;
    uint32_t learns, learn_fails;
    uint32_t reads, read_fails;
    uint32_t allocs, alloc_fails;
    bool eventfd_fails;
    bool eventfd_is_0;
    int thread_fails;
    const char *replies[REPLIES_MAX]; /* NULL: taken; "": none comes. */
    uint32_t receives;
    size_t received_at; /* Where the journal was then. */
    size_t closed_at;
    uint32_t others;
};

extern struct feed_plan plan;
extern int64_t clock_ns;
extern bool keep_wanted; /* Nobody reads what is wanted: the waits show. */
extern struct wp_lease_redis *redis;
extern uint32_t n_locks; /* Times that the lock of the peers was taken. */

/* A store that nobody follows, with pools "p0" and so on. */
void feed_begin(uint32_t n_pools);
/* The same, followed. */
struct wp_redis_feed *follow(uint32_t n_pools);
void feed_end(void);
/* The whole life of the thread; returns what it logged. */
const char *feed_run_for(const struct step *steps, uint32_t n);
#define RUN(steps) feed_run_for(steps, sizeof(steps) / sizeof(steps)[0])
/* The journal; what is done for one pool where all goes well is a word. */
const char *said(void);
/* -1: never. */
long long since_begin_ms(int64_t at_ns);
/* A step. */
void hears_itself(struct wp_redis_feed *feed);

#endif
