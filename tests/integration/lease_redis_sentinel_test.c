/* The Redis store across a failover that sentinels decide. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "allocator/redis_topology.h"
#include "tests/support/redis_world.h"

enum {
    MASTER = 0,
    REPLICA = 1,
    KNOWN_MAX = 64,
};

/* A store, and what its replica has been told: it recovers with that. */
struct replica {
    struct redis_world world;
    struct wp_redis_topology *topology;
    struct wp_lease_record known[KNOWN_MAX];
    uint32_t n_known;
};

static void
start(struct replica *r)
{
    struct wp_lease_redis_config config;
    struct wp_redis_topology_config follow = {.poll_ns = 100 * WP_NS_PER_MS};
    struct wp_redis_url url;
    struct wp_err err = {.msg = ""};
    char text[256];

    memset(r, 0, sizeof *r);
    redis_world_start_server(&r->world, NULL, "sesame");
    (void)redis_rig_start_replica(&r->world.rig, MASTER);
    for (int i = 0; i < 3; i++) {
        (void)redis_rig_start_sentinel(&r->world.rig, MASTER, "m", 2, 500);
    }
    redis_rig_wait_sentinels(&r->world.rig, "m", 3, 1);
    (void)snprintf(text, sizeof text,
                   "redis+sentinel://:sesame@127.0.0.1:%u,127.0.0.1:%u/m",
                   r->world.rig.servers[2].port, r->world.rig.servers[3].port);
    if (wp_redis_url_parse(wp_str_from(text), &url, &err) != WP_OK ||
        wp_redis_topology_create(&url, &follow, &r->topology, &err) != WP_OK) {
        fail_msg("%s", err.msg);
    }
    config = redis_world_config_of(&r->world);
    memset(&config.redis.server, 0, sizeof config.redis.server);
    config.redis.router = wp_redis_topology_router(r->topology);
    redis_world_open_store(&r->world, &config);
}

static void
stop(struct replica *r)
{
    redis_world_stop(&r->world);
    wp_redis_topology_destroy(r->topology);
}

/* A claim of its own for each sandbox. */
static struct wp_lease_op
claim_of(uint8_t uid, char name[16])
{
    struct wp_lease_op op = redis_world_op_of(WP_LEASE_GRANT, uid, 1);

    (void)snprintf(name, 16, "claim-%u", uid);
    op.claim_id = wp_str_from(name);
    return op;
}

static void
note(struct replica *r, uint8_t uid)
{
    assert_in_range(r->n_known, 0, KNOWN_MAX - 1);
    assert_int_equal(redis_world_fetch(&r->world, uid, &r->known[r->n_known++]),
                     WP_OK);
}

/* Offers and grants sandboxes first..last. */
static void
grant(struct replica *r, uint8_t first, uint8_t last)
{
    for (uint8_t uid = first; uid <= last; uid++) {
        char name[16];
        struct wp_lease_op op = claim_of(uid, name);

        assert_int_equal(redis_world_do_op(&r->world, WP_LEASE_OFFER, uid, 0),
                         WP_OK);
        assert_int_equal(redis_world_commit(&r->world.store, &op), WP_OK);
        note(r, uid);
    }
}

/* True unless it has to be tried again. */
static bool
tell(struct replica *r, const struct wp_lease_record *record,
     const struct wp_lease_redis_pool *pool)
{
    struct wp_err err = {.msg = ""};
    enum wp_status status;

    if (strcmp(record->pool, pool->pool) != 0) {
        return true;
    }
    status = wp_lease_redis_assert_record(r->world.redis, record, &err);
    return status == WP_OK || status == WP_ABORTED;
}

static void
recover(struct replica *r)
{
    struct redis_world *w = &r->world;
    struct wp_err err = {.msg = ""};
    int64_t since = 0;
    bool done = false;

    while (!done) {
        done = true;
        for (uint32_t i = 0; i < REDIS_WORLD_POOLS && done; i++) {
            const struct wp_lease_redis_pool *pool = &redis_world_pools[i];

            done = wp_lease_redis_begin_recovery(w->redis, pool, &err) == WP_OK;
            for (uint32_t k = 0; k < r->n_known && done; k++) {
                done = tell(r, &r->known[k], pool);
            }
            done = done &&
                   wp_lease_redis_end_assert(w->redis, pool, &err) == WP_OK &&
                   wp_lease_redis_open_generation(w->redis, pool, NULL, 0,
                                                  &err) == WP_OK;
        }
        redis_rig_pause(&since, err.msg);
    }
}

/* Each lease that was acknowledged is there, and nobody else gets its
 * sandbox. */
static void
check_granted(struct replica *r, uint8_t first, uint8_t last)
{
    for (uint8_t uid = first; uid <= last; uid++) {
        struct wp_lease_record found;
        char name[16];
        struct wp_lease_op op = claim_of(uid, name);

        assert_int_equal(redis_world_fetch(&r->world, uid, &found), WP_OK);
        assert_int_equal(found.state, WP_RECORD_HELD);
        assert_string_equal(found.claim_id, name);
        op.claim_id = WP_STR("somebody-else");
        op.fence = 2;
        assert_int_equal(redis_world_commit(&r->world.store, &op), WP_TAKEN);
    }
}

/* The master acknowledges grants that its replica never hears of, and dies. No
 * commit is taken by the new master before this replica has told what it knows;
 * then every lease is there. The old master, with what the new one forgot and
 * back as a replica, changes nothing. */
static void
test_failover(void **state)
{
    static struct replica r;
    struct redis_rig *rig = &r.world.rig;
    int64_t since = 0;

    (void)state;
    start(&r);
    grant(&r, 1, 8);
    (void)redis_rig_must(rig, REPLICA, "CONFIG SET masterauth wrong");
    (void)redis_rig_must(rig, MASTER, "CLIENT KILL TYPE replica");
    redis_rig_wait_for(rig, MASTER, "INFO replication", "connected_slaves:0");
    grant(&r, 9, 16);
    redis_rig_kill(rig, MASTER, SIGKILL);
    (void)redis_rig_must(rig, REPLICA, "CONFIG SET masterauth sesame");

    while (redis_world_do_op(&r.world, WP_LEASE_OFFER, 99, 0) != WP_OK &&
           redis_world_stats_of(&r.world).redis.links_up == 0) {
        redis_rig_pause(&since, "a new master");
    }
    assert_string_equal(redis_rig_role(rig, REPLICA), "master");
    /* It lacks grants that were acknowledged, and knows others. */
    assert_string_equal(redis_rig_must(rig, REPLICA,
                                       "HEXISTS warmpool:{default/agents} %s",
                                       "r10101010101010101010101010101010"),
                        "0");
    assert_int_equal(redis_world_do_op(&r.world, WP_LEASE_OFFER, 99, 0),
                     WP_UNAVAILABLE);
    assert_int_equal(r.world.doubts, REDIS_WORLD_POOLS);
    recover(&r);
    redis_world_wait_until_up(&r.world);
    check_granted(&r, 1, 16);
    grant(&r, 17, 20);

    redis_rig_restart(rig, MASTER);
    redis_rig_wait_for(rig, MASTER, "ROLE", "slave");
    redis_rig_wait_for(rig, MASTER, "INFO replication",
                       "master_link_status:up");
    assert_int_equal(redis_world_do_op(&r.world, WP_LEASE_RELEASE, 17, 1),
                     WP_OK);
    assert_int_equal(r.world.doubts, REDIS_WORLD_POOLS);

    /* And back again, as an operator asks for it. */
    redis_rig_wait_for(rig, 4, "SENTINEL FAILOVER m", "OK");
    redis_rig_wait_for(rig, MASTER, "ROLE", "master");
    recover(&r);
    redis_world_wait_until_up(&r.world);
    check_granted(&r, 1, 16);
    check_granted(&r, 18, 20);
    stop(&r);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_failover),
    };

    if (!redis_rig_available()) {
        return 77;
    }
    return cmocka_run_group_tests_name("lease_redis_sentinel", tests, NULL,
                                       NULL);
}
