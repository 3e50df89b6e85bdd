/* tests/unit/allocator/stores/redis/redis_nodes_test.c - which server a key
 * is on, by what was found, what was moved, and whom to doubt. No thread looks:
 * the test says what is found. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "allocator/stores/redis/topology/topology_impl.h"
#include "pool/base/clock.h"

static struct wp_redis_topology t;

static struct wp_redis_server
node(uint16_t port)
{
    struct wp_redis_server server = {.port = port};

    (void)snprintf(server.host, sizeof server.host, "h");
    return server;
}

static void
begin_as(enum wp_redis_kind kind)
{
    memset(&t, 0, sizeof t);
    t.url.kind = kind;
    t.wake_fd = -1; /* Nobody waits for it. */
    (void)pthread_mutex_init(&t.lock, NULL);
    (void)pthread_cond_init(&t.known, NULL);
    wp_redis_slot_map_clear(&t.map);
    wp_redis_slot_map_clear(&t.found);
}

/* What a look brings: the slots from first to last are that node's. */
static void
is_found(uint16_t port, uint16_t first, uint16_t last)
{
    struct wp_redis_server server = node(port);
    uint16_t i = wp_redis_slot_map_add(&t.found, &server);

    for (uint32_t slot = first; slot <= last; slot++) {
        t.found.owner[slot] = i;
    }
}

/* Every slot of the kind is asked for; port 0: for a reason, why. */
static void
is_at(uint16_t slot, uint16_t port, const char *why)
{
    struct wp_redis_server server = {.port = 0};
    struct wp_err err = {.msg = ""};
    enum wp_status status = wp_redis_topology_lookup(&t, slot, &server, &err);

    assert_int_equal(status, port != 0 ? WP_OK : WP_UNAVAILABLE);
    assert_int_equal(server.port, port);
    assert_string_equal(err.msg, why);
}

static void
counts(uint64_t changes, uint64_t moved, uint32_t nodes, uint32_t in_doubt)
{
    struct wp_redis_topology_stats stats;

    wp_redis_topology_read_stats(&t, &stats);
    assert_int_equal(stats.changes, changes);
    assert_int_equal(stats.moved, moved);
    assert_int_equal(stats.nodes, nodes);
    assert_int_equal(stats.in_doubt, in_doubt);
    assert_int_equal(t.changed, changes > 0);
}

#define NO_NODE "redis: no node has this key's slot"
#define GONE "redis: the server of this key may be gone"

static void
test_what_is_found_is_said(void **state)
{
    (void)state;
    begin_as(WP_REDIS_CLUSTER);
    is_at(0, 0, NO_NODE);
    (void)wp_err_set(&t.err, WP_UNAVAILABLE, "nobody answers");
    is_at(0, 0, "redis: nobody answers");
    t.err = (struct wp_err){.status = WP_OK};
    wp_redis_topology_publish(&t); /* Nothing more. */
    counts(0, 0, 0, 0);
    is_found(1, 0, 99);
    is_found(2, 101, WP_REDIS_SLOTS - 1);
    wp_redis_topology_publish(&t);
    counts(1, 0, 2, 0);
    is_at(0, 1, "");
    is_at(99, 1, "");
    is_at(100, 0, NO_NODE);
    is_at(101, 2, "");
    is_at(WP_REDIS_SLOTS - 1, 2, "");
    is_at(WP_REDIS_SLOTS, 0, NO_NODE);
    is_at(UINT16_MAX, 0, NO_NODE);
    wp_redis_topology_publish(&t); /* The same again. */
    counts(1, 0, 2, 0);
    /* The same by other numbers is the same. */
    wp_redis_slot_map_clear(&t.found);
    is_found(2, 101, WP_REDIS_SLOTS - 1);
    is_found(1, 0, 99);
    wp_redis_topology_publish(&t);
    counts(1, 0, 2, 0);
    /* One slot more, and one less. */
    is_found(1, 100, 100);
    wp_redis_topology_publish(&t);
    counts(2, 0, 2, 0);
    is_at(100, 1, "");
    is_at(101, 2, "");
    t.found.owner[WP_REDIS_SLOTS - 1] = WP_REDIS_NO_NODE;
    wp_redis_topology_publish(&t);
    counts(3, 0, 2, 0);
    is_at(WP_REDIS_SLOTS - 1, 0, NO_NODE);
    is_at(WP_REDIS_SLOTS - 2, 2, "");
    /* A node that has nothing left is none. */
    wp_redis_slot_map_clear(&t.found);
    is_found(1, 0, WP_REDIS_SLOTS - 1);
    wp_redis_topology_publish(&t);
    counts(4, 0, 1, 0);
    is_at(101, 1, "");
}

/* A map without room for one more. */
static void
test_as_many_nodes_as_there_may_be(void **state)
{
    (void)state;
    begin_as(WP_REDIS_CLUSTER);
    for (uint16_t i = 0; i < WP_REDIS_NODES_MAX; i++) {
        is_found((uint16_t)(i + 1), i, i);
    }
    wp_redis_topology_publish(&t);
    counts(1, 0, WP_REDIS_NODES_MAX, 0);
    wp_redis_topology_failed(&t, NULL);
    counts(2, 0, WP_REDIS_NODES_MAX, WP_REDIS_NODES_MAX);
    t.found.owner[WP_REDIS_SLOTS - 1] = 0;
    wp_redis_topology_publish(&t);
    counts(3, 0, WP_REDIS_NODES_MAX, WP_REDIS_NODES_MAX);
}

static void
test_who_is_in_doubt_is_not_named(void **state)
{
    struct wp_redis_server first = node(1);
    struct wp_redis_server second = node(2);
    struct wp_redis_server stranger = node(3);
    uint64_t doubt;

    (void)state;
    begin_as(WP_REDIS_CLUSTER);
    is_found(1, 0, 9);
    is_found(2, 10, 19);
    wp_redis_topology_publish(&t);
    wp_redis_topology_failed(&t, &stranger);
    assert_false(t.look);
    counts(1, 0, 2, 0);
    wp_redis_topology_failed(&t, &first);
    assert_true(t.look);
    counts(2, 0, 2, 1);
    is_at(0, 0, GONE);
    is_at(10, 2, "");
    doubt = t.last_doubt;
    /* Told again it is no news, but a doubt that a look of before leaves. */
    wp_redis_topology_failed(&t, &first);
    counts(2, 0, 2, 1);
    wp_redis_topology_verified(&t, &first, doubt);
    counts(2, 0, 2, 1);
    is_at(0, 0, GONE);
    wp_redis_topology_verified(&t, &second, t.last_doubt);
    wp_redis_topology_verified(&t, &stranger, t.last_doubt);
    counts(2, 0, 2, 1);
    wp_redis_topology_verified(&t, &first, t.last_doubt);
    counts(3, 0, 2, 0);
    is_at(0, 1, "");
    wp_redis_topology_doubt_all(&t);
    counts(4, 0, 2, 2);
    is_at(0, 0, GONE);
    is_at(10, 0, GONE);
    (void)wp_err_set(&t.err, WP_UNAVAILABLE, "silent");
    is_at(10, 0, "redis: silent");
    /* A doubt goes with its node to another number; a new one has none. */
    wp_redis_topology_verified(&t, &second, t.last_doubt);
    wp_redis_slot_map_clear(&t.found);
    is_found(3, 0, 4);
    is_found(2, 10, 19);
    is_found(1, 5, 9);
    wp_redis_topology_publish(&t);
    counts(6, 0, 3, 1);
    is_at(4, 3, "");
    is_at(5, 0, "redis: silent");
    is_at(10, 2, "");
    wp_redis_topology_failed(&t, NULL);
    counts(7, 0, 3, 3);
}

static void
test_what_was_moved(void **state)
{
    struct wp_redis_server third = node(3);
    struct wp_redis_server nobody = node(0);

    (void)state;
    begin_as(WP_REDIS_CLUSTER);
    is_found(1, 0, 9);
    is_found(2, 10, WP_REDIS_SLOTS - 1);
    wp_redis_topology_publish(&t);
    wp_redis_topology_moved(&t, 0, &third);
    counts(2, 1, 3, 0);
    assert_true(t.look);
    assert_int_equal(t.hint.port, 3);
    is_at(0, 3, "");
    is_at(1, 1, "");
    t.look = false;
    wp_redis_topology_moved(&t, 0, &third); /* It is known. */
    counts(2, 2, 3, 0);
    assert_true(t.look);
    wp_redis_topology_moved(&t, WP_REDIS_SLOTS - 1, &third);
    counts(3, 3, 3, 0);
    is_at(WP_REDIS_SLOTS - 1, 3, "");
    wp_redis_topology_moved(&t, WP_REDIS_SLOTS, &third);
    counts(3, 3, 3, 0);
    /* To nobody that can be reached: it is looked up. */
    t.look = false;
    wp_redis_topology_moved(&t, 1, &nobody);
    nobody = (struct wp_redis_server){.port = 9};
    wp_redis_topology_moved(&t, 1, &nobody);
    counts(3, 5, 3, 0);
    assert_true(t.look);
    assert_int_equal(t.hint.port, 3);
    is_at(1, 1, "");
}

/* What servers answer, as links hand it on. */
static void
test_which_answers_raise_doubts(void **state)
{
    static const struct {
        const char *text;
        uint64_t changes, moved;
        uint32_t nodes, in_doubt;
        bool look;
    } rows[] = {
        {"", 2, 0, 1, 1, true},
        {"READONLY You can't write", 2, 0, 1, 1, true},
        {"MASTERDOWN Link with MASTER", 2, 0, 1, 1, true},
        {"CLUSTERDOWN The cluster is down", 2, 0, 1, 1, true},
        {"MOVED 5 h:2", 2, 1, 2, 0, true},
        {"MOVED 5 h:1", 1, 1, 1, 0, true},
        {"ASK 5 h:2", 1, 0, 1, 0, false},
        {"NOSCRIPT No matching script", 1, 0, 1, 0, false},
        {"ERR READONLY", 1, 0, 1, 0, false},
    };
    const struct wp_redis_topology_config config = {.timeout_ns = 0};
    const struct wp_redis_url url = {.kind = WP_REDIS_SINGLE};
    struct wp_redis_topology *single;
    struct wp_redis_router router;
    struct wp_err err;

    (void)state;
    assert_int_equal(wp_redis_topology_create(&url, &config, &single, &err),
                     WP_OK);
    router = *wp_redis_topology_router(single);
    assert_ptr_equal(router.self, single);
    wp_redis_topology_destroy(single);
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        begin_as(WP_REDIS_CLUSTER);
        is_found(1, 0, WP_REDIS_SLOTS - 1);
        wp_redis_topology_publish(&t);
        router.doubt(&t, wp_str_from(rows[i].text));
        counts(rows[i].changes, rows[i].moved, rows[i].nodes, rows[i].in_doubt);
        assert_int_equal(t.look, rows[i].look);
    }
}

/* One master: every slot is its, and nothing is moved. */
static void
test_one_master(void **state)
{
    struct wp_redis_server first = node(1);
    struct wp_redis_server second = node(2);

    (void)state;
    begin_as(WP_REDIS_SENTINEL);
    is_at(5, 0, NO_NODE);
    is_found(1, 0, 0);
    wp_redis_topology_publish(&t);
    counts(1, 0, 1, 0);
    is_at(0, 1, "");
    is_at(UINT16_MAX, 1, "");
    wp_redis_topology_publish(&t);
    counts(1, 0, 1, 0);
    wp_redis_topology_moved(&t, 0, &second);
    counts(1, 0, 1, 0);
    assert_false(t.look);
    wp_redis_topology_failed(&t, &first);
    counts(2, 0, 1, 1);
    is_at(0, 0, GONE);
    wp_redis_slot_map_clear(&t.found);
    is_found(2, 0, 0);
    wp_redis_topology_publish(&t);
    counts(3, 0, 1, 0);
    is_at(0, 2, "");
}

static void
test_one_server(void **state)
{
    const struct wp_redis_topology_config config = {.timeout_ns = 0};
    const struct wp_redis_url url = {.kind = WP_REDIS_SINGLE,
                                     .server = {.host = "one", .port = 6379}};
    struct wp_redis_topology_stats stats;
    const struct wp_redis_router *router;
    struct wp_redis_topology *single;
    struct wp_redis_server server;
    struct wp_err err;

    (void)state;
    assert_int_equal(wp_redis_topology_create(&url, &config, &single, &err),
                     WP_OK);
    router = wp_redis_topology_router(single);
    wp_redis_topology_failed(single, NULL);
    router->doubt(single, WP_STR(""));
    for (unsigned slot = 0; slot < 2; slot++) {
        memset(&server, 0, sizeof server);
        assert_int_equal(wp_redis_topology_wait(single,
                                                slot == 0 ? 0 : UINT16_MAX, 0,
                                                &server, &err),
                         WP_OK);
        assert_string_equal(server.host, "one");
        assert_int_equal(server.port, 6379);
    }
    memset(&server, 0, sizeof server);
    assert_int_equal(router->find(single, WP_STR("key"), &server, &err), WP_OK);
    assert_int_equal(server.port, 6379);
    wp_redis_topology_read_stats(single, &stats);
    assert_int_equal(stats.nodes, 1);
    assert_int_equal(stats.in_doubt, 0);
    assert_int_equal(stats.changes, 0);
    assert_int_equal(stats.looks, 0);
    wp_redis_topology_destroy(single);
    wp_redis_topology_destroy(NULL);
}

/* In vain it waits as long as it may, not less. */
static void
test_how_long_is_waited(void **state)
{
    const struct wp_clock *clock = wp_clock_system();
    pthread_condattr_t attr;
    struct wp_redis_server server;
    struct wp_err err;
    int64_t begun_ns;

    (void)state;
    begin_as(WP_REDIS_CLUSTER);
    (void)pthread_cond_destroy(&t.known);
    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&t.known, &attr);
    begun_ns = wp_clock_mono_ns(clock);
    assert_int_equal(
        wp_redis_topology_wait(&t, 0, 30 * WP_NS_PER_MS, &server, &err),
        WP_UNAVAILABLE);
    assert_true(wp_clock_mono_ns(clock) - begun_ns >= 30 * WP_NS_PER_MS);
    assert_string_equal(err.msg, NO_NODE);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_found_is_said),
        cmocka_unit_test(test_as_many_nodes_as_there_may_be),
        cmocka_unit_test(test_who_is_in_doubt_is_not_named),
        cmocka_unit_test(test_what_was_moved),
        cmocka_unit_test(test_which_answers_raise_doubts),
        cmocka_unit_test(test_one_master),
        cmocka_unit_test(test_one_server),
        cmocka_unit_test(test_how_long_is_waited),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
