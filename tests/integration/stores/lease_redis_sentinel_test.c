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
#include <pthread.h>
#include <sys/stat.h>

#include "tests/support/stores/redis_replica.h"

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

/* No program that the daemon starts gets a connection that is logged in; one
 * that is just being made is not yet. */
static bool
nothing_is_inherited(void)
{
    int sockets = 0;

    for (int fd = 3; fd < 1024; fd++) {
        struct stat status;

        if (fstat(fd, &status) == 0 && S_ISSOCK(status.st_mode)) {
            if ((fcntl(fd, F_GETFD) & FD_CLOEXEC) == 0) {
                return false;
            }
            sockets++;
        }
    }
    /* The links', and the one that a sentinel tells of failovers on. */
    return sockets >= 4;
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
    WAIT_UNTIL(nothing_is_inherited());
    (void)redis_rig_must(rig, REPLICA, "CONFIG SET masterauth wrong");
    (void)redis_rig_must(rig, MASTER, "CLIENT KILL TYPE replica");
    redis_rig_wait_for(rig, MASTER, "INFO replication", "connected_slaves:0");
    redis_replica_grant(&r, 0, 9, 16);
    redis_rig_kill(rig, MASTER, SIGKILL);
    (void)redis_rig_must(rig, REPLICA, "CONFIG SET masterauth sesame");

    /* Both pools are in doubt before the first link leads to the new one. */
    while (r.world.doubts < REDIS_WORLD_POOLS) {
        assert_int_not_equal(redis_world_do_op(&r.world, WP_LEASE_OFFER, 99, 0),
                             WP_OK);
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
static _Atomic(bool) holds_placer;
static _Atomic(bool) switches_while_connecting;
static _Atomic(uint32_t) looks;
static _Thread_local bool is_test;

/* The store's threads get their names just after they began. */
static bool
is_thread(const char *name)
{
    char own[16] = "";

    while (!is_test && strncmp(own, "redis-", 6) != 0) {
        assert_int_equal(pthread_getname_np(pthread_self(), own, sizeof own),
                         0);
    }
    return strcmp(own, name) == 0;
}

static enum wp_status
name_server(void *self, struct wp_str key, struct wp_redis_server *out,
            struct wp_err *err)
{
    const struct redis_rig *rig = self;
    bool is_placer = is_thread("redis-place");
    uint32_t now;

    (void)key;
    (void)err;
    while (is_placer && atomic_load(&holds_placer)) {
        (void)usleep(1000);
    }
    now = atomic_load(&named);
    if (is_thread("redis-connect") &&
        atomic_exchange(&switches_while_connecting, false)) {
        uint32_t since = atomic_load(&looks);

        atomic_store(&named, 1);
        /* What the placing thread does about it is done with its next look. */
        WAIT_UNTIL(atomic_load(&looks) - since >= 3);
    }
    if (is_placer) {
        (void)atomic_fetch_add(&looks, 1);
    }
    *out = (struct wp_redis_server){.port = 0};
    (void)snprintf(out->path, sizeof out->path, "%s", rig->servers[now].socket);
    return WP_OK;
}

static void
take_doubt(void *self, struct wp_str reply)
{
    (void)self;
    (void)reply;
}

/* Two servers behind the router. */
static struct wp_lease_redis_config
start_servers(struct redis_replica *r, struct wp_redis_router *router)
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
    return config;
}

/* With links for so many threads that flush, and with so many leases. */
static void
start_routed(struct redis_replica *r, struct wp_redis_router *router,
             uint32_t threads, uint8_t leases)
{
    struct wp_lease_redis_config config = start_servers(r, router);

    config.threads = threads;
    redis_world_open_store(&r->world, &config);
    redis_replica_grant(r, 0, 1, leases);
}

/* The router names server 1 by now: the links go there, with all that is known.
 */
static void
check_moved(struct redis_replica *r)
{
    WAIT_UNTIL(r->world.doubts == REDIS_WORLD_POOLS);
    assert_int_equal(redis_world_do_op(&r->world, WP_LEASE_OFFER, 9, 0),
                     WP_UNAVAILABLE);
    redis_replica_recover(r);
    redis_world_wait_until_up(&r->world);
    redis_replica_check(r, 0, 1, 3);
    assert_string_equal(
        redis_rig_must(&r->world.rig, 1, "EXISTS warmpool:{default/agents}"),
        "1");
}

/* The old master answers still, and its connections stand: the links leave it
 * as soon as another one is named. */
static void
test_leaves_old_master(void **state)
{
    static struct redis_replica r;
    static struct wp_redis_router router;

    (void)state;
    start_routed(&r, &router, 2, 3);
    assert_int_equal(r.world.doubts, 0);
    atomic_store(&named, 1);
    check_moved(&r);
    redis_world_stop(&r.world);
}

/* The same when the other one was named before anybody looked a second time. */
static void
test_leaves_a_master_of_its_start(void **state)
{
    static struct redis_replica r;
    static struct wp_redis_router router;

    (void)state;
    atomic_store(&holds_placer, true);
    start_routed(&r, &router, 2, 3);
    atomic_store(&named, 1);
    atomic_store(&holds_placer, false);
    check_moved(&r);
    redis_world_stop(&r.world);
}

/* The same when that happens while a link is being made. */
static void
test_leaves_a_master_just_met(void **state)
{
    static struct redis_replica r;
    static struct wp_redis_router router;

    (void)state;
    start_routed(&r, &router, 0, 3);
    atomic_store(&switches_while_connecting, true);
    (void)redis_rig_must(&r.world.rig, 0, "CLIENT KILL TYPE normal");
    check_moved(&r);
    redis_world_stop(&r.world);
}

/* What the old one tells of other replicas, which it may go on to do, is not
 * heard any more when the new one is told what is known. */
static void
test_hears_no_old_master(void **state)
{
    static const char listeners[] = "PUBSUB NUMSUB warmpool:peers";
    static struct redis_replica r;
    static struct wp_redis_router router;
    struct redis_rig *rig = &r.world.rig;
    struct wp_lease_redis_config config;
    struct wp_err err;

    (void)state;
    config = start_servers(&r, &router);
    config.replicas = true;
    config.host = "host.example";
    config.heartbeat_ns = 50 * WP_NS_PER_MS;
    redis_world_open_store(&r.world, &config);
    assert_int_equal(wp_lease_redis_follow(r.world.redis, &err), WP_OK);
    redis_rig_wait_for(rig, 0, listeners, "\n1");
    atomic_store(&named, 1);
    WAIT_UNTIL(r.world.doubts == REDIS_WORLD_POOLS);
    WAIT_UNTIL(wp_lease_redis_begin_recovery(
                   r.world.redis, &redis_world_pools[0], &err) == WP_OK);
    redis_rig_wait_for(rig, 0, listeners, "\n0");
    redis_replica_recover(&r);
    redis_rig_wait_for(rig, 1, listeners, "\n1");
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
    start_routed(&r, &router, 2, LEASES);
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
        cmocka_unit_test(test_leaves_a_master_of_its_start),
        cmocka_unit_test(test_leaves_a_master_just_met),
        cmocka_unit_test(test_hears_no_old_master),
        cmocka_unit_test(test_recovery_keeps_its_connection),
    };

    is_test = true;
    if (!redis_rig_available()) {
        return 77;
    }
    return cmocka_run_group_tests_name("lease_redis_sentinel", tests, NULL,
                                       NULL);
}
