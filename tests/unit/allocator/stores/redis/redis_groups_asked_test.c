/* tests/unit/allocator/stores/redis/redis_groups_asked_test.c - what other
 * threads ask of the groups of links, and tell them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>

#include "tests/support/base/heard.h"
#include "tests/unit/allocator/stores/redis/redis_groups_rig.h"
#include "tests/unit/allocator/stores/redis/redis_journal.h"

static struct heard heard;

static void
test_a_pool_that_moves_is_in_doubt(void **state)
{
    struct wp_redis_server server = {.host = "h", .port = 1};
    struct wp_redis_pool *pool;
    struct wp_err err;

    (void)state;
    groups_begin(1, true, true);
    pool = &redis->pools[0];
    atomic_store(&pool->misplaced, true);
    heard_begin(&heard);
    (void)wp_redis_pool_place(redis, pool, &server, &err);
    note_pools();
    atomic_store(&pool->misplaced, true);
    clock_ns += WP_NS_PER_MS;
    (void)wp_redis_pool_place(redis, pool, &server, &err);
    note_pools();
    server.port = 2;
    (void)wp_redis_pool_place(redis, pool, &server, &err);
    note_pools();
    assert_string_equal(heard_end(&heard),
                        "WARN redis may have forgotten: the pool takes no "
                        "commits until it is recovered namespace=ns pool=p0\n");
    note_groups();
    assert_string_equal(journal_take(),
                        "create 0: 3 to h:1 for \"wp:{ns/p0}\" as me*\n"
                        "p0 in 0, 100\n"
                        "p0 in 0, 100\n"
                        "create 1: 3 to h:2 for \"wp:{ns/p0}\" as me*\n"
                        "in doubt: p0, 1 pinned to 1\n"
                        "p0 in 1, 0\n"
                        "0: live h:1, 0 pins, used at 1 ms, \"\"\n"
                        "1: live h:2, 0 pins, used at 1 ms, \"\"\n"
                        "locks 6\n");
    groups_end();
}

static void
test_a_redirect_moves_no_pool(void **state)
{
    struct wp_redis_redirect redirect = {.server = {.port = 7}};
    struct wp_redis_server server = {.host = "h", .port = 1};
    struct wp_redis_group *first;
    struct wp_err err;

    (void)state;
    groups_begin(1, true, true);
    first = wp_redis_pool_place(redis, &redis->pools[0], &server, &err);
    /* What has not been used yet is no server. */
    atomic_store(&redis->groups[1].state, WP_REDIS_GROUP_LIVE);
    redis->groups[1].server = (struct wp_redis_server){.host = "h", .port = 7};
    clock_ns += WP_NS_PER_MS;
    assert_ptr_equal(wp_redis_group_for(first, &redirect), &redis->groups[1]);
    (void)snprintf(redirect.server.host, 8, "g");
    assert_ptr_equal(wp_redis_group_for(first, &redirect), &redis->groups[2]);
    clock_ns += WP_NS_PER_MS;
    assert_ptr_equal(wp_redis_group_for(first, &redirect), &redis->groups[2]);
    plan.create_fails = true;
    redirect.server.port = 8;
    assert_null(wp_redis_group_for(first, &redirect));
    note_pools();
    note_groups();
    assert_string_equal(journal_take(),
                        "create 0: 3 to h:1 for \"wp:{ns/p0}\" as me*\n"
                        "create 1: 3 to h:7 for \"\" as me*\n"
                        "create 2: 3 to g:7 for \"\" as me*\n"
                        "create 3: 3 to g:8 for \"\" as me*\n"
                        "p0 in 0, 100\n"
                        "0: live h:1, 0 pins, used at 0 ms, \"\"\n"
                        "1: live h:7, 0 pins, used at 1 ms, \"\"\n"
                        "2: live g:7, 0 pins, used at 2 ms, \"\"\n"
                        "locks 6\n");
    groups_end();
}

static void
test_wakes_the_thread_once(void **state)
{
    (void)state;
    groups_begin(2, true, true);
    wp_redis_pool_misplaced(redis, &redis->pools[0]);
    wp_redis_pool_misplaced(redis, &redis->pools[0]);
    wp_redis_pool_misplaced(redis, &redis->pools[1]);
    note_pools();
    note_groups();
    assert_string_equal(journal_take(),
                        "signal*\n"
                        "signal*\n"
                        "p0 in -1, 100 misplaced; p1 in -1, 101 misplaced\n"
                        "locks 2\n");
    groups_end();
}

/* What it had acknowledged may be lost with it. */
static void
test_another_server_process_is_doubted(void **state)
{
    struct wp_redis_server server = {.host = "h", .port = 1};
    struct wp_err err;

    (void)state;
    groups_begin(3, true, true);
    (void)wp_redis_pool_place(redis, &redis->pools[0], &server, &err);
    (void)wp_redis_pool_place(redis, &redis->pools[2], &server, &err);
    server.port = 2;
    (void)wp_redis_pool_place(redis, &redis->pools[1], &server, &err);
    atomic_store(&redis->pools[0].recovering, 55);
    atomic_store(&redis->pools[1].recovering, 56);
    /* One that is just being added is not in doubt. */
    atomic_store(&redis->pools[3].group, &redis->groups[0]);
    atomic_store(&redis->pools[3].generation, 5);
    journal_begin();
    heard_begin(&heard);
    wp_redis_server_met(&redis->groups[0],
                        "0123456789012345678901234567890123456789");
    wp_redis_server_met(&redis->groups[0],
                        "0123456789012345678901234567890123456789");
    plan.hooks.on_server(plan.hooks.ctx,
                         "9876543210987654321098765432109876543210");
    note_pools();
    wp_redis_server_met(&redis->groups[0],
                        "0123456789012345678901234567890123456788");
    note_pools();
    assert_string_equal(heard_end(&heard),
                        "WARN redis may have forgotten: the pool takes no "
                        "commits until it is recovered namespace=ns pool=p0\n"
                        "WARN redis may have forgotten: the pool takes no "
                        "commits until it is recovered namespace=ns pool=p2\n");
    note_groups();
    assert_string_equal(journal_take(),
                        "p0 in 0, 100; p1 in 1, 101; p2 in 0, 102\n"
                        "in doubt: p0\n"
                        "in doubt: p2\n"
                        "p0 in 0, 0; p1 in 1, 101; p2 in 0, 0\n"
                        "0: live h:1, 0 pins, used at 0 ms, "
                        "\"0123456789012345678901234567890123456788\"\n"
                        "1: live h:2, 0 pins, used at 0 ms, "
                        "\"9876543210987654321098765432109876543210\"\n"
                        "locks 10\n");
    assert_int_equal(atomic_load(&redis->pools[0].recovering), 0);
    assert_int_equal(atomic_load(&redis->pools[0].distrusted), 55);
    assert_int_equal(atomic_load(&redis->pools[1].recovering), 56);
    assert_int_equal(atomic_load(&redis->pools[1].distrusted), 0);
    groups_end();
}

static void
test_sums(void **state)
{
    static const struct wp_redis_stats each[3] = {
        {1, 2, false, 3, 4, 5, 6, 7, 8, 9},
        {10, 20, false, 30, 40, 50, 60, 70, 80, 90},
        {100, 200, true, 300, 400, 500, 600, 700, 800, 900},
    };
    struct wp_redis_server server = {.host = "h"};
    struct wp_lease_redis_stats sum;
    struct wp_err err;

    (void)state;
    groups_begin(3, true, true);
    for (uint16_t i = 0; i < 3; i++) {
        server.port = (uint16_t)(i + 1);
        (void)wp_redis_pool_place(redis, &redis->pools[i], &server, &err);
        plan.stats[i] = each[i];
    }
    atomic_store(&redis->groups_ended, 12);
    for (int last = 0; last < 2; last++) {
        memset(&sum, 0, sizeof sum);
        atomic_store(&redis->groups[2].state,
                     last == 0 ? WP_REDIS_GROUP_ENDING : WP_REDIS_GROUP_LIVE);
        atomic_store(&redis->groups[1].state,
                     last == 0 ? WP_REDIS_GROUP_LIVE : WP_REDIS_GROUP_FREE);
        wp_redis_groups_read_stats(redis, &sum);
        assert_int_equal(sum.servers, 2);
        assert_int_equal(sum.servers_ended, 12);
        assert_int_equal(sum.redis.links, last == 0 ? 11 : 101);
        assert_int_equal(sum.redis.links_up, last == 0 ? 22 : 202);
        assert_int_equal(sum.redis.breaker_open, last != 0);
        assert_int_equal(sum.redis.connects, 333);
        assert_int_equal(sum.redis.connect_failures, 444);
        assert_int_equal(sum.redis.disconnects, 555);
        assert_int_equal(sum.redis.timeouts, 666);
        assert_int_equal(sum.redis.refused, 777);
        assert_int_equal(sum.redis.full, 888);
        assert_int_equal(sum.redis.unknown, 999);
    }
    plan.stats[0].breaker_open = true;
    plan.stats[2].breaker_open = false;
    memset(&sum, 0, sizeof sum);
    wp_redis_groups_read_stats(redis, &sum);
    assert_true(sum.redis.breaker_open);
    groups_end();
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_pool_that_moves_is_in_doubt),
        cmocka_unit_test(test_a_redirect_moves_no_pool),
        cmocka_unit_test(test_wakes_the_thread_once),
        cmocka_unit_test(test_another_server_process_is_doubted),
        cmocka_unit_test(test_sums),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
