/* tests/unit/allocator/daemon/redis_fakes.h - leases in Redis as the daemon
 * keeps them, between fakes: the store, the recovery, the core and the system.
 * Every call that is made to one is a line of the journal. One thread. */
#ifndef WP_TESTS_UNIT_ALLOCATOR_DAEMON_REDIS_FAKES_H
#define WP_TESTS_UNIT_ALLOCATOR_DAEMON_REDIS_FAKES_H

#include "allocator/daemon/redis_impl.h"
#include "allocator/stores/known_pools.h"
#include "tests/support/base/golden.h"
#include "tests/support/base/heard.h"
#include "tests/support/pool/manual_clock.h"

/* What is logged goes into the journal as well. */
#define LOGGED(...)                                                            \
    do {                                                                       \
        heard_begin(&heard);                                                   \
        __VA_ARGS__;                                                           \
        golden_add(&journal, "%s", heard_end(&heard));                         \
    } while (0)

enum {
    SPECS = 4,
};

extern struct golden journal;
extern struct heard heard;
extern struct wp_conf *conf;
extern struct wp_daemon_core core;
extern struct wp_daemon_redis *redis;
extern struct wp_clock_manual manual;
extern struct wp_pool_spec specs[SPECS]; /* Of the manifest. */
extern size_t n_specs;
extern struct wp_known_pool known[WP_POOLS_MAX];
extern uint32_t n_known;
extern enum wp_status known_status;
extern struct wp_pool_stats pools[SPECS];
extern uint32_t n_pools;
extern struct wp_lease_redis_peer peers[WP_PEERS_MAX];
extern uint32_t n_peers;
extern struct wp_lease_redis_sink sink;
extern const char *fails;
extern uint32_t refuses; /* That many records have no slot. */
extern uint64_t refused;
extern bool knows_all;      /* The store has every pool. */
extern bool is_full;        /* It takes no more of them. */
extern uint32_t links_down; /* For so many looks. */
extern uint32_t naps;
extern int allocs; /* So many succeed; < 0: all. */

/* cmocka's; zeroes all: two pools, of which nothing is known yet. */
int begin(void **state);
int end(void **state);
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

/* More settings, and new ones. */
void set(const char *text);
void renew_conf(const char *text);
void name(struct wp_pool_spec *spec, const char *ns, const char *pool);
/* Opens redis; what is logged, and why it did not, is in the journal. */
void open_all(void);
/* A title in the journal. */
void again(const char *title);
/* Closes redis, and compares the journal with golden/redis_FILE.txt. */
void finish(const char *file);

#endif
