/* The Redis store on a cluster: pools on several nodes, a slot that moves, a
 * node that dies. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "allocator/stores/redis/topology/topology.h"
#include "tests/support/stores/redis_world.h"

enum {
    NODES = 3,
    POOLS = NODES, /* One on each. */
};

struct cluster {
    struct redis_world world;
    struct wp_redis_topology *topology;
    struct wp_lease_redis_pool pools[POOLS];
    uint16_t slots[POOLS];
};

/* A pool whose slot is on node i. */
static void
name_pool(struct cluster *c, uint32_t i)
{
    for (int n = 0;; n++) {
        char key[128];

        (void)snprintf(c->pools[i].pool_namespace,
                       sizeof c->pools[i].pool_namespace, "default");
        (void)snprintf(c->pools[i].pool, sizeof c->pools[i].pool, "p%d", n);
        (void)snprintf(key, sizeof key, "warmpool:{default/p%d}", n);
        c->slots[i] = wp_redis_slot(wp_str_from(key));
        if ((uint32_t)c->slots[i] * NODES / WP_REDIS_SLOTS == i &&
            (uint32_t)(c->slots[i] + 1) * NODES / WP_REDIS_SLOTS == i) {
            return;
        }
    }
}

static void
start(struct cluster *c)
{
    struct wp_redis_topology_config follow = {.poll_ns = 100 * WP_NS_PER_MS};
    struct wp_lease_redis_config config;
    struct wp_redis_url url;
    struct wp_err err = {.msg = ""};
    char text[128];

    memset(c, 0, sizeof *c);
    (void)signal(SIGPIPE, SIG_IGN);
    redis_rig_init(&c->world.rig);
    assert_int_equal(redis_rig_start_cluster(&c->world.rig, NODES, 1, 2500), 0);
    (void)snprintf(text, sizeof text, "redis+cluster://127.0.0.1:%u",
                   c->world.rig.servers[1].port);
    if (wp_redis_url_parse(wp_str_from(text), &url, &err) != WP_OK ||
        wp_redis_topology_create(&url, &follow, &c->topology, &err) != WP_OK) {
        fail_msg("%s", err.msg);
    }
    for (uint32_t i = 0; i < POOLS; i++) {
        name_pool(c, i);
    }
    config = redis_world_config_of(&c->world);
    memset(&config.redis.server, 0, sizeof config.redis.server);
    config.redis.router = wp_redis_topology_router(c->topology);
    config.redis.cluster = true;
    config.pools = c->pools;
    config.n_pools = POOLS;
    redis_world_open_store(&c->world, &config);
}

static void
stop(struct cluster *c)
{
    redis_world_stop(&c->world);
    wp_redis_topology_destroy(c->topology);
}

static enum wp_status
do_op(const struct cluster *c, uint32_t pool, enum wp_lease_op_kind kind,
      uint64_t fence)
{
    struct wp_lease_op op = redis_world_op_of(kind, (uint8_t)(1 + pool), fence);

    op.pool = wp_str_from(c->pools[pool].pool);
    return redis_world_commit(&c->world.store, &op);
}

static void
recover(struct cluster *c, uint32_t i)
{
    struct wp_lease_redis *redis = c->world.redis;
    const struct wp_lease_redis_pool *pool = &c->pools[i];
    struct wp_err err;

    WAIT_UNTIL(wp_lease_redis_begin_recovery(redis, pool, &err) == WP_OK &&
               wp_lease_redis_end_assert(redis, pool, &err) == WP_OK &&
               wp_lease_redis_open_generation(redis, pool, NULL, 0, &err) ==
                   WP_OK);
    WAIT_UNTIL(do_op(c, i, WP_LEASE_FETCH, 0) != WP_UNAVAILABLE);
}

static void
test_pools_on_several_nodes(void **state)
{
    struct cluster c;

    (void)state;
    start(&c);
    for (uint32_t i = 0; i < POOLS; i++) {
        char count[64];

        assert_int_equal(do_op(&c, i, WP_LEASE_OFFER, 0), WP_OK);
        assert_int_equal(do_op(&c, i, WP_LEASE_GRANT, 1), WP_OK);
        (void)snprintf(count, sizeof count, "CLUSTER COUNTKEYSINSLOT %u",
                       c.slots[i]);
        assert_string_equal(redis_rig_must(&c.world.rig, i, count), "1");
    }
    assert_true(redis_world_stats_of(&c.world).redis.links >= 3 * NODES);
    stop(&c);
}

static void
test_a_slot_moves(void **state)
{
    struct cluster c;

    (void)state;
    start(&c);
    for (uint32_t i = 0; i < POOLS; i++) {
        assert_int_equal(do_op(&c, i, WP_LEASE_OFFER, 0), WP_OK);
    }
    redis_rig_migrate_begin(&c.world.rig, c.slots[0], 0, 1);
    assert_int_equal(do_op(&c, 0, WP_LEASE_GRANT, 1), WP_OK);
    redis_rig_migrate_end(&c.world.rig, c.slots[0], 0, 1);
    /* Nothing is taken from it until it was recovered where it is now. */
    WAIT_UNTIL(do_op(&c, 0, WP_LEASE_RENEW, 1) == WP_UNAVAILABLE &&
               wp_lease_redis_in_doubt(c.world.redis, &c.pools[0]));
    recover(&c, 0);
    assert_int_equal(do_op(&c, 0, WP_LEASE_RENEW, 1), WP_OK);
    /* The others were not disturbed. */
    for (uint32_t i = 1; i < POOLS; i++) {
        assert_int_equal(do_op(&c, i, WP_LEASE_GRANT, 1), WP_OK);
    }
    stop(&c);
}

static bool
replica_has_all(struct redis_rig *rig, uint32_t master)
{
    const char *info = redis_rig_must(rig, master, "INFO replication");
    const char *mine = strstr(info, "master_repl_offset:");
    const char *its = strstr(info, "state=online,offset=");

    if (mine == NULL || its == NULL) {
        return false;
    }
    mine += strlen("master_repl_offset:");
    its += strlen("state=online,offset=");
    return strtoull(mine, NULL, 10) == strtoull(its, NULL, 10);
}

static void
test_a_node_dies(void **state)
{
    struct cluster c;

    (void)state;
    start(&c);
    for (uint32_t i = 0; i < POOLS; i++) {
        assert_int_equal(do_op(&c, i, WP_LEASE_OFFER, 0), WP_OK);
    }
    WAIT_UNTIL(replica_has_all(&c.world.rig, 2));
    redis_rig_kill(&c.world.rig, 2, SIGKILL);
    assert_int_equal(do_op(&c, 0, WP_LEASE_GRANT, 1), WP_OK);
    WAIT_UNTIL(wp_lease_redis_in_doubt(c.world.redis, &c.pools[2]));
    assert_int_equal(do_op(&c, 2, WP_LEASE_GRANT, 1), WP_UNAVAILABLE);
    recover(&c, 2);
    assert_int_equal(do_op(&c, 2, WP_LEASE_GRANT, 1), WP_OK);
    stop(&c);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pools_on_several_nodes),
        cmocka_unit_test(test_a_slot_moves),
        cmocka_unit_test(test_a_node_dies),
    };

    if (!redis_rig_available()) {
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
