/* tests/support/stores/redis_world.h - a Redis store with a redis-server of its own,
 * and commits that wait for their answer. What fails fails the test. */
#ifndef WP_TESTS_SUPPORT_STORES_REDIS_WORLD_H
#define WP_TESTS_SUPPORT_STORES_REDIS_WORLD_H

#include <stdatomic.h>
#include <stdint.h>

#include <unistd.h>

#include "allocator/stores/redis/store.h"
#include "pool/base/clock.h"
#include "tests/support/stores/redis_rig.h"

enum {
    REDIS_WORLD_WAIT_S = 60, /* For anything that must happen. */
    REDIS_WORLD_POOLS = 2,
};

struct redis_world {
    struct redis_rig rig;
    struct wp_lease_redis *redis;
    struct wp_lease_store store;
    _Atomic(uint32_t) doubts;
    uint32_t loaded;
};

/* default/agents, default/others */
extern const struct wp_lease_redis_pool redis_world_pools[REDIS_WORLD_POOLS];

/* Server 0 of the rig; conf and password may be NULL. */
void redis_world_start_server(struct redis_world *world, const char *conf,
                              const char *password);
/* For the server's Unix socket. */
struct wp_lease_redis_config redis_world_config_of(struct redis_world *world);
/* Loads, and waits until all links are up. */
void redis_world_open_store(struct redis_world *world,
                            const struct wp_lease_redis_config *config);
/* All of that. */
void redis_world_start(struct redis_world *world, const char *conf);
void redis_world_stop(struct redis_world *world);

struct wp_lease_redis_stats
redis_world_stats_of(const struct redis_world *world);
void redis_world_wait_until_up(const struct redis_world *world);

enum wp_status redis_world_commit(const struct wp_lease_store *store,
                                  const struct wp_lease_op *op);
/* An op of the first pool with every field set, the same each time; uid is all
 * that byte. */
struct wp_lease_op redis_world_op_of(enum wp_lease_op_kind kind, uint8_t uid,
                                     uint64_t fence);
enum wp_status redis_world_do_op(const struct redis_world *world,
                                 enum wp_lease_op_kind kind, uint8_t uid,
                                 uint64_t fence);
enum wp_status redis_world_fetch(const struct redis_world *world, uint8_t uid,
                                 struct wp_lease_record *found);
enum wp_record_state redis_world_state_of(const struct redis_world *world,
                                          uint8_t uid);

#define WAIT_UNTIL(condition)                                                  \
    do {                                                                       \
        int64_t wait_ns = wp_clock_mono_ns(wp_clock_system());                 \
                                                                               \
        wait_ns += REDIS_WORLD_WAIT_S * WP_NS_PER_S;                           \
        while (!(condition)) {                                                 \
            assert_true(wp_clock_mono_ns(wp_clock_system()) < wait_ns);        \
            (void)usleep(2000);                                                \
        }                                                                      \
    } while (0)

#endif
