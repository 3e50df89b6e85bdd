/* The Redis store across a failover that sentinels decide. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "tests/support/redis_replica.h"

enum {
    MASTER = 0,
    REPLICA = 1,
    DOWN_AFTER_MS = 1500, /* A busy machine's master is not down. */
};

static void
start(struct redis_replica *r)
{
    char url[256];

    memset(r, 0, sizeof *r);
    redis_world_start_server(&r->world, NULL, "sesame");
    (void)redis_rig_start_replica(&r->world.rig, MASTER);
    for (int i = 0; i < 3; i++) {
        (void)redis_rig_start_sentinel(&r->world.rig, MASTER, "m", 2,
                                       DOWN_AFTER_MS);
    }
    redis_rig_wait_sentinels(&r->world.rig, "m", 3, 1);
    (void)snprintf(url, sizeof url,
                   "redis+sentinel://:sesame@127.0.0.1:%u,127.0.0.1:%u/m",
                   r->world.rig.servers[2].port, r->world.rig.servers[3].port);
    redis_replica_open(r, url);
}

/* No program that the daemon starts gets a connection that is logged in. */
static void
check_nothing_is_inherited(void)
{
    int sockets = 0;

    for (int fd = 3; fd < 1024; fd++) {
        struct stat status;

        if (fstat(fd, &status) == 0 && S_ISSOCK(status.st_mode)) {
            assert_true((fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
            sockets++;
        }
    }
    /* The links', and the one that a sentinel tells of failovers on. */
    assert_true(sockets >= 4);
}

/* The master acknowledges grants that its replica never hears of, and dies. No
 * commit is taken by the new master before this replica has told what it knows;
 * then every lease is there. The old master, with what the new one forgot and
 * back as a replica, changes nothing. */
static void
test_failover(void **state)
{
    static struct redis_replica r;
    struct redis_rig *rig = &r.world.rig;
    enum wp_status status;
    int64_t since = 0;

    (void)state;
    start(&r);
    redis_replica_grant(&r, 0, 1, 8);
    check_nothing_is_inherited();
    (void)redis_rig_must(rig, REPLICA, "CONFIG SET masterauth wrong");
    (void)redis_rig_must(rig, MASTER, "CLIENT KILL TYPE replica");
    redis_rig_wait_for(rig, MASTER, "INFO replication", "connected_slaves:0");
    redis_replica_grant(&r, 0, 9, 16);
    redis_rig_kill(rig, MASTER, SIGKILL);
    (void)redis_rig_must(rig, REPLICA, "CONFIG SET masterauth sesame");

    while (redis_world_do_op(&r.world, WP_LEASE_OFFER, 99, 0) != WP_OK &&
           redis_world_stats_of(&r.world).redis.links_up == 0) {
        redis_rig_pause(&since, "a new master");
    }
    since = 0;
    assert_string_equal(redis_rig_role(rig, REPLICA), "master");
    /* It lacks grants that were acknowledged, and knows others. */
    assert_string_equal(redis_rig_must(rig, REPLICA,
                                       "HEXISTS warmpool:{default/agents} %s",
                                       "r10101010101010101010101010101010"),
                        "0");
    assert_int_equal(redis_world_do_op(&r.world, WP_LEASE_OFFER, 99, 0),
                     WP_UNAVAILABLE);
    assert_int_equal(r.world.doubts, REDIS_WORLD_POOLS);
    redis_replica_recover(&r);
    redis_world_wait_until_up(&r.world);
    redis_replica_check(&r, 0, 1, 16);
    redis_replica_grant(&r, 0, 17, 20);

    redis_rig_restart(rig, MASTER);
    redis_rig_wait_for(rig, MASTER, "ROLE", "slave");
    redis_rig_wait_for(rig, MASTER, "INFO replication",
                       "master_link_status:up");
    while ((status = redis_replica_commit(&r, 0, WP_LEASE_RELEASE, 17, 1)) ==
           WP_UNAVAILABLE) {
        redis_rig_pause(&since, "a release");
    }
    assert_int_equal(status, WP_OK);
    assert_int_equal(r.world.doubts, REDIS_WORLD_POOLS);

    /* And back again. */
    redis_rig_kill(rig, REPLICA, SIGKILL);
    redis_rig_wait_for(rig, MASTER, "ROLE", "master");
    WAIT_UNTIL(r.world.doubts == 2 * REDIS_WORLD_POOLS);
    redis_replica_recover(&r);
    redis_world_wait_until_up(&r.world);
    redis_replica_check(&r, 0, 1, 16);
    redis_replica_check(&r, 0, 18, 20);
    redis_replica_stop(&r);
}

/* A router that names server 0, then server 1. */
static _Atomic(uint32_t) named;

static enum wp_status
name_server(void *self, struct wp_str key, struct wp_redis_server *out,
            struct wp_err *err)
{
    const struct redis_rig *rig = self;

    (void)key;
    (void)err;
    *out = (struct wp_redis_server){.port = 0};
    (void)snprintf(out->path, sizeof out->path, "%s",
                   rig->servers[atomic_load(&named)].socket);
    return WP_OK;
}

static void
take_doubt(void *self, struct wp_str reply)
{
    (void)self;
    (void)reply;
}

/* Two servers behind the router. */
static void
start_routed(struct redis_replica *r, struct wp_redis_router *router)
{
    struct redis_rig *rig = &r->world.rig;
    struct wp_lease_redis_config config;

    memset(r, 0, sizeof *r);
    redis_world_start_server(&r->world, NULL, NULL);
    (void)redis_rig_start(rig, NULL);
    atomic_store(&named, 0);
    *router = (struct wp_redis_router){
        .self = rig, .find = name_server, .doubt = take_doubt};
    config = redis_world_config_of(&r->world);
    memset(&config.redis.server, 0, sizeof config.redis.server);
    config.redis.router = router;
    redis_world_open_store(&r->world, &config);
}

/* The old master answers still, and its connections stand: the links leave it
 * as soon as another one is named. */
static void
test_leaves_old_master(void **state)
{
    static struct redis_replica r;
    static struct wp_redis_router router;
    struct redis_rig *rig = &r.world.rig;

    (void)state;
    start_routed(&r, &router);
    redis_replica_grant(&r, 0, 1, 3);
    assert_int_equal(r.world.doubts, 0);
    atomic_store(&named, 1);
    WAIT_UNTIL(r.world.doubts == REDIS_WORLD_POOLS);
    assert_int_equal(redis_world_do_op(&r.world, WP_LEASE_OFFER, 9, 0),
                     WP_UNAVAILABLE);
    redis_replica_recover(&r);
    redis_world_wait_until_up(&r.world);
    redis_replica_check(&r, 0, 1, 3);
    assert_string_equal(
        redis_rig_must(rig, 1, "EXISTS warmpool:{default/agents}"), "1");
    redis_world_stop(&r.world);
}

static uint64_t
connections_of(struct redis_rig *rig, uint32_t i)
{
    static const char name[] = "total_connections_received:";
    const char *at = strstr(redis_rig_must(rig, i, "INFO stats"), name);
    uint64_t n;

    assert_non_null(at);
    at += sizeof name - 1;
    assert_true(
        wp_str_to_u64((struct wp_str){at, strspn(at, "0123456789")}, &n));
    return n;
}

/* All that is known goes over one connection, as long as the router names its
 * server: one for each record would take a slow machine minutes. */
static void
test_recovery_keeps_its_connection(void **state)
{
    enum {
        LEASES = 60,
    };
    static struct redis_replica r;
    static struct wp_redis_router router;
    struct redis_rig *rig = &r.world.rig;
    uint64_t before;
    int64_t since = 0;

    (void)state;
    start_routed(&r, &router);
    redis_replica_grant(&r, 0, 1, LEASES);
    (void)redis_rig_must(rig, 0, "FLUSHALL");
    while (r.world.doubts == 0) {
        (void)redis_world_do_op(&r.world, WP_LEASE_OFFER, 99, 0);
        redis_rig_pause(&since, "doubt");
    }
    before = connections_of(rig, 0);
    redis_replica_recover(&r);
    assert_in_range(connections_of(rig, 0) - before, 1, LEASES / 3);
    redis_world_wait_until_up(&r.world);
    redis_replica_check(&r, 0, 1, LEASES);
    redis_world_stop(&r.world);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_failover),
        cmocka_unit_test(test_leaves_old_master),
        cmocka_unit_test(test_recovery_keeps_its_connection),
    };

    if (!redis_rig_available()) {
        return 77;
    }
    return cmocka_run_group_tests_name("lease_redis_sentinel", tests, NULL,
                                       NULL);
}
