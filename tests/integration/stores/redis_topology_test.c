/* The server that has a key, followed through failovers and moving slots of
 * real servers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "allocator/stores/redis/topology/topology.h"
#include "pool/base/clock.h"
#include "tests/support/stores/redis_rig.h"

enum {
    /* A busy machine's servers are not down. */
    DOWN_AFTER_MS = 1500,
    NODE_TIMEOUT_MS = 2500,
};

struct watch {
    struct redis_rig rig;
    struct wp_redis_topology *topology;
    _Atomic(int) changes;
};

static void
on_change(void *ctx)
{
    struct watch *w = ctx;

    (void)atomic_fetch_add(&w->changes, 1);
}

static void
open_topology(struct watch *w, const char *text, int64_t recheck_ns)
{
    struct wp_redis_topology_config config = {
        .poll_ns = 100 * WP_NS_PER_MS,
        .recheck_ns = recheck_ns,
        .on_change = on_change,
        .ctx = w,
    };
    struct wp_redis_url url;
    struct wp_err err = {.msg = ""};

    if (wp_redis_url_parse(wp_str_from(text), &url, &err) != WP_OK ||
        wp_redis_topology_create(&url, &config, &w->topology, &err) != WP_OK) {
        fail_msg("%s: %s", text, err.msg);
    }
}

static void
close_topology(struct watch *w)
{
    wp_redis_topology_destroy(w->topology);
    redis_rig_fini(&w->rig);
}

static uint16_t
port_of(const struct watch *w, uint32_t i)
{
    return w->rig.servers[i].port;
}

static struct wp_redis_server
address_of(const struct watch *w, uint32_t i)
{
    return (struct wp_redis_server){.host = "127.0.0.1", .port = port_of(w, i)};
}

/* The port that is named for slot; 0: none. */
static uint16_t
named(const struct watch *w, uint16_t slot)
{
    struct wp_redis_server server;
    struct wp_err err = {.msg = ""};

    if (wp_redis_topology_lookup(w->topology, slot, &server, &err) != WP_OK) {
        assert_int_equal(err.status, WP_UNAVAILABLE);
        assert_true(err.msg[0] != '\0');
        return 0;
    }
    assert_string_equal(server.host, "127.0.0.1");
    return server.port;
}

static void
wait_named(const struct watch *w, uint16_t slot, uint32_t i)
{
    int64_t since = 0;

    while (named(w, slot) != port_of(w, i)) {
        redis_rig_pause(&since, "a server that is named");
    }
}

static struct wp_redis_topology_stats
stats_of(const struct watch *w)
{
    struct wp_redis_topology_stats stats;

    wp_redis_topology_read_stats(w->topology, &stats);
    return stats;
}

/* Until it has looked so often in all: count from before what makes it look,
 * since it may be faster than the test. */
static void
wait_looks(const struct watch *w, uint64_t enough)
{
    int64_t since = 0;

    while (stats_of(w).looks < enough) {
        redis_rig_pause(&since, "looks");
    }
}

/* --- one server --- */

static void
test_single(void **state)
{
    struct watch w = {.changes = 0};
    struct wp_redis_server server;
    const struct wp_redis_router *router;

    (void)state;
    open_topology(&w, "unix:/some/socket?db=1", 0);
    router = wp_redis_topology_router(w.topology);
    wp_redis_topology_failed(w.topology, NULL);
    router->doubt(router->self, WP_STR(""));
    router->doubt(router->self, WP_STR("MOVED 1 h:1"));
    assert_int_equal(router->find(router->self, WP_STR("k"), &server, NULL),
                     WP_OK);
    assert_string_equal(server.path, "/some/socket");
    assert_int_equal(w.changes, 0);
    wp_redis_topology_destroy(w.topology);
}

/* --- sentinels: servers 0 and 1, sentinels 2 to 4 --- */

static void
start_sentinels(struct watch *w, const char *password)
{
    memset(w, 0, sizeof *w);
    redis_rig_init(&w->rig);
    w->rig.password = password;
    (void)redis_rig_start(&w->rig, NULL);
    (void)redis_rig_start_replica(&w->rig, 0);
    for (int i = 0; i < 3; i++) {
        (void)redis_rig_start_sentinel(&w->rig, 0, "m", 2, DOWN_AFTER_MS);
    }
    redis_rig_wait_sentinels(&w->rig, "m", 3, 1);
}

/* The master dies: the new one is named, and the old one, back before it knows
 * better, is not named again. Only one sentinel is configured: the others are
 * learned, and asked when it is gone too. */
static void
test_failover(void **state)
{
    static struct watch w;
    struct wp_redis_server old;
    char url[256];
    uint64_t looks;

    (void)state;
    start_sentinels(&w, "sesame");
    (void)snprintf(url, sizeof url, "redis+sentinel://:sesame@127.0.0.1:%u/m",
                   port_of(&w, 2));
    open_topology(&w, url, 0);
    wait_named(&w, 7, 0);
    assert_int_equal(stats_of(&w).nodes, 1);

    old = address_of(&w, 0);
    redis_rig_kill(&w.rig, 0, SIGKILL);
    wp_redis_topology_failed(w.topology, &old);
    assert_int_equal(named(&w, 7), 0);
    wait_named(&w, 7, 1);
    assert_string_equal(redis_rig_role(&w.rig, 1), "master");
    assert_true(w.changes >= 2);

    redis_rig_restart(&w.rig, 0);
    do {
        looks = stats_of(&w).looks;
        wp_redis_topology_failed(w.topology, NULL);
        wait_looks(&w, looks + 1);
        assert_int_not_equal(named(&w, 7), port_of(&w, 0));
    } while (strcmp(redis_rig_role(&w.rig, 0), "slave") != 0);
    wait_named(&w, 7, 1);

    redis_rig_kill(&w.rig, 2, SIGKILL);
    wp_redis_topology_failed(w.topology, NULL);
    wait_named(&w, 7, 1);
    redis_rig_wait_for(&w.rig, 0, "INFO replication", "master_link_status:up");
    redis_rig_kill(&w.rig, 1, SIGKILL);
    wait_named(&w, 7, 0);
    close_topology(&w);
}

/* Nobody doubts and the next look is an hour away: the sentinel tells. */
static void
test_told_of_switch(void **state)
{
    static struct watch w;
    char url[256];
    int64_t since = 0;

    (void)state;
    start_sentinels(&w, NULL);
    (void)snprintf(url, sizeof url,
                   "redis+sentinel://127.0.0.1:%u,127.0.0.1:%u/m",
                   port_of(&w, 3), port_of(&w, 4));
    open_topology(&w, url, 3600 * WP_NS_PER_S);
    wait_named(&w, 0, 0);
    /* It looks once more when it has subscribed. */
    while (stats_of(&w).looks < 2) {
        redis_rig_pause(&since, "a second look");
    }
    while (named(&w, 0) != port_of(&w, 1)) {
        (void)redis_rig_ask(&w.rig, 2, "SENTINEL FAILOVER m");
        redis_rig_pause(&since, "the new master");
    }
    close_topology(&w);
}

/* A name that no sentinel knows, and a master behind a password that is not
 * given: unavailable, with the reason. */
static void
test_says_why(void **state)
{
    static struct watch w;
    struct wp_redis_server server;
    struct wp_err err = {.msg = ""};
    char url[256];

    (void)state;
    start_sentinels(&w, "sesame");
    (void)snprintf(url, sizeof url, "redis+sentinel://127.0.0.1:%u/other",
                   port_of(&w, 2));
    open_topology(&w, url, 0);
    wait_looks(&w, 2);
    assert_int_equal(wp_redis_topology_lookup(w.topology, 0, &server, &err),
                     WP_UNAVAILABLE);
    assert_non_null(strstr(err.msg, "No such master"));
    wp_redis_topology_destroy(w.topology);

    (void)snprintf(url, sizeof url, "redis+sentinel://127.0.0.1:%u/m",
                   port_of(&w, 2));
    open_topology(&w, url, 0);
    wait_looks(&w, 2);
    assert_int_equal(wp_redis_topology_lookup(w.topology, 0, &server, &err),
                     WP_UNAVAILABLE);
    assert_non_null(strstr(err.msg, "NOAUTH"));
    close_topology(&w);
}

/* --- a cluster: masters 0 to 2, their replicas 3 to 5 --- */

enum {
    FOO_SLOT = 12182, /* Node 2's. */
    BAR_SLOT = 5061,  /* Node 0's. */
    MID_SLOT = 8000,  /* Node 1's. */
};

static void
start_cluster(struct watch *w, uint32_t n_replicas)
{
    char url[256];

    memset(w, 0, sizeof *w);
    redis_rig_init(&w->rig);
    (void)redis_rig_start_cluster(&w->rig, 3, n_replicas, NODE_TIMEOUT_MS);
    (void)snprintf(url, sizeof url, "redis+cluster://127.0.0.1:1,127.0.0.1:%u",
                   port_of(w, 1));
    open_topology(w, url, 3600 * WP_NS_PER_S);
    wait_named(w, FOO_SLOT, 2);
    assert_int_equal(named(w, BAR_SLOT), port_of(w, 0));
    assert_int_equal(named(w, MID_SLOT), port_of(w, 1));
    assert_int_equal(named(w, 0), port_of(w, 0));
    assert_int_equal(named(w, WP_REDIS_SLOTS - 1), port_of(w, 2));
    assert_int_equal(stats_of(w).nodes, 3);
}

/* While a slot moves, ASK changes nothing; then MOVED does at once, for this
 * slot, and the look that it asks for keeps it. */
static void
test_migration(void **state)
{
    static struct watch w;
    const struct wp_redis_router *router;
    struct wp_redis_redirect redirect;
    const char *answer;
    uint64_t looks;

    (void)state;
    start_cluster(&w, 0);
    router = wp_redis_topology_router(w.topology);
    redis_rig_migrate_begin(&w.rig, FOO_SLOT, 2, 0);
    answer = redis_rig_ask(&w.rig, 2, "GET foo");
    assert_true(wp_redis_redirect_parse(wp_str_from(answer + 1), &redirect));
    assert_true(redirect.ask);
    assert_int_equal(redirect.server.port, port_of(&w, 0));
    router->doubt(router->self, wp_str_from(answer + 1));
    assert_int_equal(named(&w, FOO_SLOT), port_of(&w, 2));
    assert_int_equal(stats_of(&w).moved, 0);

    redis_rig_migrate_end(&w.rig, FOO_SLOT, 2, 0);
    answer = redis_rig_ask(&w.rig, 2, "GET foo");
    looks = stats_of(&w).looks;
    router->doubt(router->self, wp_str_from(answer + 1));
    assert_int_equal(named(&w, FOO_SLOT), port_of(&w, 0));
    assert_int_equal(stats_of(&w).moved, 1);
    wait_looks(&w, looks + 1);
    assert_int_equal(named(&w, FOO_SLOT), port_of(&w, 0));
    assert_int_equal(named(&w, FOO_SLOT + 1), port_of(&w, 2));
    close_topology(&w);
}

/* However many say MOVED, few looks follow. */
static void
test_moved_coalesced(void **state)
{
    static struct watch w;
    struct wp_redis_server server;
    uint64_t looks;

    (void)state;
    start_cluster(&w, 0);
    server = address_of(&w, 0);
    looks = stats_of(&w).looks;
    for (int i = 0; i < 10000; i++) {
        wp_redis_topology_moved(w.topology, BAR_SLOT, &server);
    }
    assert_int_equal(stats_of(&w).moved, 10000);
    wait_looks(&w, looks + 1);
    assert_true(stats_of(&w).looks < looks + 1000);
    /* Unreasonable ones are ignored. */
    wp_redis_topology_moved(w.topology, WP_REDIS_SLOTS, &server);
    server.host[0] = '\0';
    wp_redis_topology_moved(w.topology, FOO_SLOT, &server);
    assert_int_equal(named(&w, FOO_SLOT), port_of(&w, 2));
    close_topology(&w);
}

/* A node that failed is not named until its replica has taken over; the others
 * are all the while. */
static void
test_node_dies(void **state)
{
    static struct watch w;
    struct wp_redis_server dead;
    uint64_t before;
    int64_t since = 0;

    (void)state;
    start_cluster(&w, 1);
    dead = address_of(&w, 2);
    before = stats_of(&w).changes;
    wp_redis_topology_failed(w.topology, &dead);
    /* Not named for a moment, until it has said itself that it is a master. */
    wait_named(&w, FOO_SLOT, 2);
    assert_int_equal(stats_of(&w).changes, before + 2);

    redis_rig_kill(&w.rig, 2, SIGKILL);
    wp_redis_topology_failed(w.topology, &dead);
    assert_int_equal(stats_of(&w).in_doubt, 1);
    while (named(&w, FOO_SLOT) != port_of(&w, 5)) {
        assert_int_equal(named(&w, FOO_SLOT), 0);
        assert_int_equal(named(&w, BAR_SLOT), port_of(&w, 0));
        assert_int_equal(named(&w, MID_SLOT), port_of(&w, 1));
        redis_rig_pause(&since, "the replica");
    }
    assert_string_equal(redis_rig_role(&w.rig, 5), "master");
    assert_int_equal(stats_of(&w).in_doubt, 0);
    /* The old one is its replica now. */
    redis_rig_restart(&w.rig, 2);
    redis_rig_wait_for(&w.rig, 2, "ROLE", "slave");
    wp_redis_topology_failed(w.topology, NULL);
    wait_named(&w, FOO_SLOT, 5);
    close_topology(&w);
}

/* Nobody answers: unavailable, and it ends in time. */
static void
test_nobody(void **state)
{
    struct watch w = {.changes = 0};
    struct wp_redis_server server;
    struct wp_err err = {.msg = ""};

    (void)state;
    open_topology(&w, "redis+cluster://127.0.0.1:1,127.0.0.1:2", 0);
    wait_looks(&w, 1); /* Until then there is no reason to tell. */
    assert_int_equal(wp_redis_topology_wait(w.topology, 3, 300 * WP_NS_PER_MS,
                                            &server, &err),
                     WP_UNAVAILABLE);
    assert_non_null(strstr(err.msg, "refused"));
    wp_redis_topology_destroy(w.topology);
    assert_int_equal(w.changes, 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_single),
        cmocka_unit_test(test_failover),
        cmocka_unit_test(test_told_of_switch),
        cmocka_unit_test(test_says_why),
        cmocka_unit_test(test_migration),
        cmocka_unit_test(test_moved_coalesced),
        cmocka_unit_test(test_node_dies),
        cmocka_unit_test(test_nobody),
    };

    if (!redis_rig_available()) {
        return 77;
    }
    return cmocka_run_group_tests_name("redis_topology", tests, NULL, NULL);
}
