/* tests/unit/allocator/stores/redis/redis_groups_test.c - which server has which
 * pool: which links are made, led elsewhere and closed, what is doubted, and how
 * long the placing thread waits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>

#include "tests/unit/allocator/stores/redis/redis_groups_rig.h"
#include "tests/unit/allocator/stores/redis/redis_journal.h"

/* --- one server --- */

static void
test_one_server_has_all_pools(void **state)
{
    const struct wp_redis_server server = {.host = "other", .port = 3};
    const struct wp_redis_redirect redirect = {.server = server};
    struct wp_err err;

    (void)state;
    groups_begin(2, false, false);
    assert_int_equal(wp_redis_groups_init(redis, &err), WP_OK);
    assert_null(atomic_load(&redis->pools[2].group)); /* Not added yet. */
    atomic_store(&redis->pools[1].misplaced, true);
    assert_ptr_equal(
        wp_redis_pool_place(redis, &redis->pools[1], &server, &err),
        &redis->groups[0]);
    assert_null(wp_redis_group_for(&redis->groups[0], &redirect));
    note_pools();
    note_groups();
    assert_string_equal(journal_take(),
                        "create 0: 3 to first:9 for \"wp:{ns/p0}\" as me\n"
                        "p0 in 0, 100; p1 in 0, 101 misplaced\n"
                        "0: live first:9, 0 pins, used at -50950 ms, \"\"\n"
                        "locks 0\n");
    groups_end();
    assert_string_equal(journal_take(), "stop 0\n"
                                        "destroy 0\n");
}

static void
test_no_links_for_one_server(void **state)
{
    struct wp_err err;

    (void)state;
    groups_begin(1, false, true);
    plan.create_fails = true;
    assert_int_equal(wp_redis_groups_init(redis, &err), WP_RESOURCE_EXHAUSTED);
    assert_string_equal(err.msg, "no links");
    note_pools();
    note_groups();
    assert_string_equal(
        journal_take(),
        "create 0: 3 to first:9 for \"wp:{ns/p0}\" by router as me\n"
        "p0 in -1, 100\n"
        "locks 0\n");
    groups_end();
    assert_string_equal(journal_take(), "");
}

static void
test_no_thread(void **state)
{
    struct wp_err err;

    (void)state;
    groups_begin(1, false, true);
    plan.thread_fails = EAGAIN;
    assert_int_equal(wp_redis_groups_init(redis, &err), WP_RESOURCE_EXHAUSTED);
    assert_string_equal(err.msg,
                        "a thread for redis: Resource temporarily unavailable");
    assert_int_equal(err.os_errno, EAGAIN);
    groups_end();
    assert_string_equal(journal_take(), "stop 0\n"
                                        "destroy 0\n");
}

static void
finds_nothing(void)
{
    plan.ports[0] = 0;
}

static void
test_leads_the_links_to_the_master(void **state)
{
    static const struct step steps[] = {
        {100, NULL}, {WP_NS_PER_S, finds_nothing}, {1, NULL}};

    (void)state;
    groups_begin_running(2, false);
    plan.ports[0] = 5;
    plan.ports[1] = 6;
    assert_string_equal(RUN(steps), "");
    note_groups();
    assert_string_equal(
        journal_take(),
        "create 0: 3 to first:9 for \"wp:{ns/p0}\" by router as me\n"
        "thread\n"
        "named redis-place\n"
        "find 0\n"
        "lead 0 to h:5\n"
        "wait 100000 us*\n"
        "find 0\n"
        "lead 0 to h:5\n"
        "wait 100000 us*\n"
        "find 0\n"
        "wait 100000 us*\n"
        "0: live first:9, 0 pins, used at -50950 ms, \"\"\n"
        "locks 3\n");
    groups_end();
    assert_string_equal(journal_take(), "signal*\n"
                                        "join\n"
                                        "stop 0\n"
                                        "destroy 0\n");
}

/* --- a cluster --- */

static void
moves_the_second(void)
{
    plan.ports[1] = 2;
}

static void
loses_the_first(void)
{
    plan.ports[0] = 0;
}

static void
test_places_pools(void **state)
{
    static const struct step steps[] = {
        {60 * WP_NS_PER_MS, NULL},
        {60 * WP_NS_PER_MS, moves_the_second},
        {60 * WP_NS_PER_MS, loses_the_first},
        {60 * WP_NS_PER_MS, NULL},
    };

    (void)state;
    groups_begin_running(3, true);
    assert_string_equal(journal_take(), "thread\nnamed redis-place\n");
    journal_begin();
    plan.ports[0] = 1;
    plan.ports[1] = 1;
    plan.ports[2] = 2;
    atomic_store(&redis->pools[2].misplaced, true);
    assert_string_equal(RUN(steps),
                        "WARN redis may have forgotten: the pool takes no "
                        "commits until it is recovered namespace=ns pool=p1\n");
    note_pools();
    note_groups();
    assert_string_equal(journal_take(),
                        "find 0\n"
                        "create 0: 3 to h:1 for \"wp:{ns/p0}\" as me*\n"
                        "find 1\n"
                        "find 2\n"
                        "create 1: 3 to h:2 for \"wp:{ns/p2}\" as me*\n"
                        "wait 100000 us*\n"
                        "find 0\n"
                        "find 1\n"
                        "find 2\n"
                        "wait 100000 us*\n"
                        "find 0\n"
                        "find 1\n"
                        "in doubt: p1, 1 pinned to 1\n"
                        "find 2\n"
                        "wait 100000 us*\n"
                        "find 0\n"
                        "find 1\n"
                        "find 2\n"
                        "wait 50000 us*\n"
                        "p0 in 0, 100; p1 in 1, 0; p2 in 1, 102\n"
                        "0: live h:1, 0 pins, used at 120 ms, \"\"\n"
                        "1: live h:2, 0 pins, used at 180 ms, \"\"\n"
                        "locks 34\n");
    groups_end();
    assert_string_equal(journal_take(), "signal*\n"
                                        "join\n"
                                        "stop 0\n"
                                        "stop 1\n"
                                        "destroy 0\n"
                                        "destroy 1\n");
}

static void
test_no_links_for_a_pool(void **state)
{
    static const struct step steps[] = {{1, NULL}};

    (void)state;
    groups_begin_running(2, true);
    plan.ports[0] = 1;
    plan.ports[1] = 1;
    plan.create_fails = true;
    atomic_store(&redis->pools[0].misplaced, true);
    assert_string_equal(RUN(steps), "");
    note_pools();
    note_groups();
    assert_string_equal(journal_take(),
                        "thread\n"
                        "named redis-place\n"
                        "find 0\n"
                        "create 0: 3 to h:1 for \"wp:{ns/p0}\" as me*\n"
                        "find 1\n"
                        "create 0: 3 to h:1 for \"wp:{ns/p1}\" as me*\n"
                        "wait 50000 us*\n"
                        "p0 in -1, 100 misplaced; p1 in -1, 101\n"
                        "locks 3\n");
    groups_end();
}

static void
test_ends_among_pools(void **state)
{
    static const struct step steps[] = {{1, NULL}};

    (void)state;
    groups_begin_running(3, true);
    plan.ports[0] = 1;
    plan.ports[1] = 1;
    plan.ports[2] = 1;
    plan.stops_at = 2;
    assert_string_equal(RUN(steps), "");
    assert_string_equal(journal_take(),
                        "thread\n"
                        "named redis-place\n"
                        "find 0\n"
                        "create 0: 3 to h:1 for \"wp:{ns/p0}\" as me*\n"
                        "find 1\n");
    groups_end();
}

/* A server that is out of reach is a reason to look anew, once a second. */
static void
opens_the_breaker(void)
{
    plan.stats[0].links_up = 1;
    plan.stats[0].breaker_open = true;
}

static void
is_well(void)
{
    plan.stats[0].breaker_open = false;
}

static void
test_doubts_what_is_out_of_reach(void **state)
{
    static const struct step steps[] = {
        {100 * WP_NS_PER_MS, NULL},
        {999 * WP_NS_PER_MS + 999999, opens_the_breaker},
        {1, NULL},
        {WP_NS_PER_S, is_well},
        {1, opens_the_breaker},
        {1, NULL},
    };

    (void)state;
    groups_begin_running(2, true);
    plan.ports[0] = 1;
    plan.ports[1] = 2;
    plan.stats[0].links_up = 0;
    assert_string_equal(RUN(steps), "");
    assert_string_equal(journal_take(),
                        "thread\n"
                        "named redis-place\n"
                        "find 0\n"
                        "create 0: 3 to h:1 for \"wp:{ns/p0}\" as me*\n"
                        "find 1\n"
                        "create 1: 3 to h:2 for \"wp:{ns/p1}\" as me*\n"
                        "wait 100000 us*\n"
                        "doubt \"\"\n"
                        "find 0\n"
                        "find 1\n"
                        "wait 100000 us*\n"
                        "find 0\n"
                        "find 1\n"
                        "wait 100000 us*\n"
                        "doubt \"\"\n"
                        "find 0\n"
                        "find 1\n"
                        "wait 100000 us*\n"
                        "find 0\n"
                        "find 1\n"
                        "wait 100000 us*\n"
                        "doubt \"\"\n"
                        "find 0\n"
                        "find 1\n"
                        "wait 100000 us*\n");
    groups_end();
}

/* --- servers without pools --- */

static void
moves_the_first(void)
{
    plan.ports[0] = 2;
}

static void
is_busy(void)
{
    plan.busy = true;
}

static void
is_quiet(void)
{
    plan.busy = false;
    plan.closes = 1;
}

/* While the one it was on still ends. */
static void
moves_back(void)
{
    note_groups();
    plan.ports[0] = 1;
}

static void
moves_on(void)
{
    note_groups();
    plan.ports[0] = 3;
}

static void
test_ends_what_is_unused(void **state)
{
    static const struct step steps[] = {
        {WP_NS_PER_MS, moves_the_first},
        {9999 * WP_NS_PER_MS - 1, is_busy},
        {1, NULL},
        {1, is_quiet},
        {1, moves_back},
        {1, moves_on},
        {1, NULL},
    };

    (void)state;
    groups_begin_running(2, true);
    plan.ports[0] = 1;
    plan.ports[1] = 2;
    (void)snprintf(redis->groups[0].run_id, 8, "abc");
    assert_string_equal(
        RUN(steps),
        "WARN redis may have forgotten: the pool takes no commits until it is "
        "recovered namespace=ns pool=p0\n"
        "INFO no pool is on this redis server any more server=h:1\n");
    note_pools();
    note_groups();
    note("ended %u\n", (unsigned)atomic_load(&redis->groups_ended));
    assert_string_equal(journal_take(),
                        "thread\n"
                        "named redis-place\n"
                        "find 0\n"
                        "create 0: 3 to h:1 for \"wp:{ns/p0}\" as me*\n"
                        "find 1\n"
                        "create 1: 3 to h:2 for \"wp:{ns/p1}\" as me*\n"
                        "wait 100000 us*\n"
                        "find 0\n"
                        "in doubt: p0, 1 pinned to 1\n"
                        "find 1\n"
                        "wait 100000 us*\n"
                        "find 0\n"
                        "find 1\n"
                        "wait 100000 us*\n"
                        "find 0\n"
                        "find 1\n"
                        "quiet? 0*\n"
                        "wait 100000 us*\n"
                        "find 0\n"
                        "find 1\n"
                        "quiet? 0*\n"
                        "close 0\n"
                        "wait 100000 us*\n"
                        "0: ending h:1, 0 pins, used at 0 ms, \"abc\"\n"
                        "1: live h:2, 0 pins, used at 10000 ms, \"\"\n"
                        "locks 35\n"
                        "find 0\n"
                        "create 2: 3 to h:1 for \"wp:{ns/p0}\" as me*\n"
                        "find 1\n"
                        "close 0\n"
                        "wait 100000 us*\n"
                        "0: free h:1, 0 pins, used at 0 ms, \"\"\n"
                        "1: live h:2, 0 pins, used at 10000 ms, \"\"\n"
                        "2: live h:1, 0 pins, used at 10000 ms, \"\"\n"
                        "locks 45\n"
                        "find 0\n"
                        "reopen 0 to h:3*\n"
                        "find 1\n"
                        "wait 100000 us*\n"
                        "p0 in 0, 0; p1 in 1, 101\n"
                        "0: live h:3, 0 pins, used at 10000 ms, \"\"\n"
                        "1: live h:2, 0 pins, used at 10000 ms, \"\"\n"
                        "2: live h:1, 0 pins, used at 10000 ms, \"\"\n"
                        "locks 53\n"
                        "ended 1\n");
    groups_end();
    assert_string_equal(journal_take(), "signal*\n"
                                        "join\n"
                                        "stop 0\n"
                                        "stop 1\n"
                                        "stop 2\n"
                                        "destroy 0\n"
                                        "destroy 1\n"
                                        "destroy 2\n");
}

static void
is_pinned(void)
{
    redis->groups[0].pins = 1;
}

static void
is_not_pinned(void)
{
    redis->groups[0].pins = 0;
}

static void
test_stays_while_it_is_given(void **state)
{
    static const struct step steps[] = {
        {WP_NS_PER_MS, moves_the_first},
        {10 * WP_NS_PER_S, is_pinned},
        {1, is_not_pinned},
        {1, NULL},
    };

    (void)state;
    groups_begin_running(1, true);
    plan.ports[0] = 1;
    /* One that is just being added does not count yet. */
    atomic_store(&redis->pools[1].group, &redis->groups[0]);
    assert_string_equal(
        RUN(steps),
        "WARN redis may have forgotten: the pool takes no commits until it is "
        "recovered namespace=ns pool=p0\n"
        "INFO no pool is on this redis server any more server=h:1\n");
    assert_string_equal(journal_take(),
                        "thread\n"
                        "named redis-place\n"
                        "find 0\n"
                        "create 0: 3 to h:1 for \"wp:{ns/p0}\" as me*\n"
                        "wait 100000 us*\n"
                        "find 0\n"
                        "create 1: 3 to h:2 for \"wp:{ns/p0}\" as me*\n"
                        "in doubt: p0, 1 pinned to 1\n"
                        "wait 100000 us*\n"
                        "find 0\n"
                        "wait 100000 us*\n"
                        "find 0\n"
                        "quiet? 0*\n"
                        "close 0\n"
                        "wait 100000 us*\n");
    groups_end();
}

/* However long nobody knows where the pool is. */
static void
test_stays_with_a_pool(void **state)
{
    static const struct step steps[] = {
        {WP_NS_PER_MS, loses_the_first},
        {60 * WP_NS_PER_S, NULL},
        {1, NULL},
    };

    (void)state;
    groups_begin_running(2, true);
    plan.ports[0] = 1;
    plan.ports[1] = 2;
    assert_string_equal(RUN(steps), "");
    note_pools();
    note_groups();
    assert_string_equal(journal_take(),
                        "thread\n"
                        "named redis-place\n"
                        "find 0\n"
                        "create 0: 3 to h:1 for \"wp:{ns/p0}\" as me*\n"
                        "find 1\n"
                        "create 1: 3 to h:2 for \"wp:{ns/p1}\" as me*\n"
                        "wait 100000 us*\n"
                        "find 0\n"
                        "find 1\n"
                        "wait 50000 us*\n"
                        "find 0\n"
                        "find 1\n"
                        "wait 50000 us*\n"
                        "p0 in 0, 100; p1 in 1, 101\n"
                        "0: live h:1, 0 pins, used at 0 ms, \"\"\n"
                        "1: live h:2, 0 pins, used at 60001 ms, \"\"\n"
                        "locks 17\n");
    groups_end();
}

/* --- as many servers as there may be --- */

static void
test_as_many_servers_as_there_may_be(void **state)
{
    static const struct step none[] = {{1, NULL}};
    struct wp_redis_server server = {.host = "h"};
    struct wp_err err;

    (void)state;
    groups_begin(WP_REDIS_GROUPS_MAX, true, true);
    for (uint16_t i = 0; i < WP_REDIS_GROUPS_MAX; i++) {
        server.port = (uint16_t)(i + 1);
        assert_ptr_equal(
            wp_redis_pool_place(redis, &redis->pools[i], &server, &err),
            &redis->groups[i]);
        assert_int_equal(redis->groups[i].number, i);
        plan.ports[i] = (uint16_t)(i + 1);
    }
    journal_begin();
    server.port = 99;
    assert_null(wp_redis_pool_place(redis, &redis->pools[0], &server, &err));
    assert_int_equal(err.status, WP_RESOURCE_EXHAUSTED);
    assert_string_equal(err.msg, "the pools are on more than 64 redis servers");
    assert_string_equal(journal_take(), "");
    /* A server whose pool has moved is not kept for a while then. */
    plan.ports[0] = 2;
    plan.silent_finds = true;
    assert_int_equal(wp_redis_groups_init(redis, &err), WP_OK);
    journal_begin();
    assert_string_equal(
        RUN(none),
        "WARN redis may have forgotten: the pool takes no commits until it is "
        "recovered namespace=ns pool=p0\n"
        "INFO no pool is on this redis server any more server=h:1\n");
    assert_string_equal(journal_take(), "in doubt: p0, 1 pinned to 1\n"
                                        "quiet? 0*\n"
                                        "close 0\n"
                                        "wait 100000 us*\n");
    journal_begin();
    plan.reopen_fails = true;
    assert_null(wp_redis_pool_place(redis, &redis->pools[0], &server, &err));
    assert_string_equal(err.msg, "no reopening");
    assert_int_equal(redis->groups[0].state, WP_REDIS_GROUP_FREE);
    assert_int_equal(redis->groups[0].server.port, 1);
    plan.reopen_fails = false;
    assert_ptr_equal(
        wp_redis_pool_place(redis, &redis->pools[0], &server, &err),
        &redis->groups[0]);
    assert_int_equal(redis->groups[0].state, WP_REDIS_GROUP_LIVE);
    assert_int_equal(redis->groups[0].server.port, 99);
    assert_string_equal(journal_take(), "reopen 0 to h:99*\n"
                                        "reopen 0 to h:99*\n");
    plan.ports[1] = 99;
    plan.ports[0] = 99;
    /* With room again each is kept for a while. */
    atomic_store(&redis->groups[63].state, WP_REDIS_GROUP_FREE);
    atomic_store(&redis->pools[63].group, NULL);
    plan.ports[63] = 0;
    journal_begin();
    assert_string_equal(RUN(none),
                        "WARN redis may have forgotten: the pool takes no "
                        "commits until it is recovered namespace=ns pool=p1\n");
    assert_string_equal(journal_take(), "in doubt: p1, 1 pinned to 0\n"
                                        "wait 50000 us*\n");
    groups_end();
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_server_has_all_pools),
        cmocka_unit_test(test_no_links_for_one_server),
        cmocka_unit_test(test_no_thread),
        cmocka_unit_test(test_leads_the_links_to_the_master),
        cmocka_unit_test(test_places_pools),
        cmocka_unit_test(test_no_links_for_a_pool),
        cmocka_unit_test(test_ends_among_pools),
        cmocka_unit_test(test_doubts_what_is_out_of_reach),
        cmocka_unit_test(test_ends_what_is_unused),
        cmocka_unit_test(test_stays_while_it_is_given),
        cmocka_unit_test(test_stays_with_a_pool),
        cmocka_unit_test(test_as_many_servers_as_there_may_be),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
