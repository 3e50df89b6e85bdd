/* tests/unit/allocator/daemon/daemon_redis_heard_test.c - what is heard of the
 * other replicas, and when the core and the store are told. golden/ has each
 * whole. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/allocator/daemon/redis_fakes.h"

static bool
hear(const char *ns, const char *pool, uint64_t fence)
{
    struct wp_lease_record record;

    memset(&record, 0, sizeof record);
    (void)snprintf(record.pool_namespace, sizeof record.pool_namespace, "%s",
                   ns);
    (void)snprintf(record.pool, sizeof record.pool, "%s", pool);
    record.fence = fence;
    return sink.on_record(sink.ctx, &record);
}

static bool
mark(const char *ns, const char *pool, bool is_begin)
{
    struct wp_lease_redis_pool of;

    memset(&of, 0, sizeof of);
    (void)snprintf(of.pool_namespace, sizeof of.pool_namespace, "%s", ns);
    (void)snprintf(of.pool, sizeof of.pool, "%s", pool);
    return sink.on_sync(sink.ctx, &of, is_begin);
}

static void
hear_of(uint8_t id, bool keeper, bool leaves, bool gone)
{
    struct wp_lease_redis_peer peer;

    memset(&peer, 0, sizeof peer);
    peer.replica_id[0] = id;
    (void)snprintf(peer.host, sizeof peer.host, "host-%u", id);
    peer.keeper = keeper;
    peer.leaves = leaves;
    golden_add(&journal, "heard of %u%s%s%s\n", id, keeper ? ", keeper" : "",
               leaves ? ", leaves" : "", gone ? ", gone" : "");
    LOGGED(sink.on_peer(sink.ctx, &peer, gone));
}

static void
run(void)
{
    int64_t next;

    LOGGED(next = wp_daemon_redis_run(redis));
    golden_add(&journal, "again in %lld ms\n",
               (long long)((next - manual.now_mono_ns) / WP_NS_PER_MS));
}

static void
test_replicas_are_heard(void **state)
{
    (void)state;
    open_all();
    assert_ptr_equal(sink.ctx, redis);
    hear_of(1, false, false, false);
    hear_of(1, false, false, false);
    hear_of(2, true, false, false);
    hear_of(3, false, true, false);
    hear_of(1, false, false, true);
    hear_of(1, false, false, true);
    hear_of(3, false, true, true);
    hear_of(4, true, false, true);
    again("two keepers");
    core.keeper = true;
    hear_of(5, true, false, false);
    hear_of(5, false, false, false);
    hear_of(5, true, false, true);
    renew_conf("backend: kubernetes\n");
    hear_of(6, true, false, false);
    again("as many as may be");
    for (uint32_t i = 0; i < WP_REPLICAS_MAX - 1; i++) {
        hear_of((uint8_t)(i + 100), false, false, false);
    }
    sink.on_doubt(sink.ctx, &(struct wp_lease_redis_pool){"a", "one"});
    finish("replicas");
}

static void
test_the_core_is_told_in_order(void **state)
{
    (void)state;
    open_all();
    run();
    again("both begin");
    assert_true(mark("a", "one", true));
    assert_true(hear("a", "one", 1));
    assert_true(mark("a", "other", true));
    assert_true(hear("a", "two", 2));
    assert_true(mark("a", "other", false));
    assert_true(mark("a", "one", false));
    run();
    golden_add(&journal, "read: %d\n", wp_daemon_redis_is_read(redis));
    assert_true(mark("a", "two", false));
    wp_daemon_redis_catch_up(redis);
    golden_add(&journal, "read: %d\n", wp_daemon_redis_is_read(redis));
    finish("order");
}

static void
test_a_turn_has_its_bound(void **state)
{
    struct wp_lease_redis_stats stats;
    uint64_t n_refused;
    uint32_t sent = 0;

    (void)state;
    open_all();
    n_pools = 0;
    while (hear("a", "one", sent) && sent < 10000) {
        sent++;
    }
    assert_int_equal(sent, 8192);
    assert_false(mark("a", "one", true));
    wp_daemon_redis_stats(redis, &stats, &n_refused);
    assert_int_equal(n_refused, 2);
    assert_int_equal(stats.redis.links, 5);
    for (uint32_t i = 0; i < 5; i++) {
        journal.len = 0;
        run();
        golden_add(&journal, "turn %u\n", i);
        if (i < 4) {
            char first[64];

            (void)snprintf(first, sizeof first, "record of a/one, fence %u\n",
                           2048 * i);
            assert_memory_equal(journal.text, first, strlen(first));
            assert_non_null(strstr(journal.text, "again in 0 ms"));
        }
    }
    golden_add(&journal, "the last turn tells the state\n");
    journal.text[journal.len] = '\0';
    wp_daemon_redis_close(redis);
    redis = NULL;
    finish("bound");
}

static void
test_the_state_is_said_twice_a_second(void **state)
{
    (void)state;
    pools[0].waiting = 3;
    pools[1].waiting = 4;
    open_all();
    run();
    manual.now_mono_ns += 500 * WP_NS_PER_MS - 1;
    run();
    manual.now_mono_ns += 1;
    pools[1].waiting = 1;
    pools[1].gone = true;
    run();
    core.keeper = true;
    run();
    run();
    finish("state");
}

static void
pass(int64_t ms)
{
    manual.now_mono_ns += ms * WP_NS_PER_MS;
    golden_add(&journal, "%lld ms pass\n", (long long)ms);
    run();
}

static void
test_what_was_left_out_is_read_again(void **state)
{
    (void)state;
    open_all();
    again("the first is read at once, the next are not");
    refuses = 1;
    assert_true(hear("a", "two", 1));
    run();
    for (uint32_t i = 0; i < 12; i++) {
        refuses = i < 10 ? 1 : 0;
        assert_true(hear("a", i % 2 == 0 ? "one" : "two", i));
        pass(i < 2 ? 999 : 501);
    }
    again("none is left out any more");
    pass(5000);
    refuses = 1;
    assert_true(hear("a", "one", 100));
    pass(1000);
    again("after a while without any the pause is short again");
    pass(5000);
    pass(5000);
    pass(5000);
    for (uint32_t i = 0; i < 3; i++) {
        refuses = 1;
        assert_true(hear("a", "one", 200 + i));
        pass(1000);
    }
    pass(5000);
    pass(5000);
    again("a pool that the core does not know is read once it does");
    refuses = 1;
    assert_true(hear("x", "one", 101));
    n_pools = 1;
    refuses = 2;
    assert_true(hear("a", "two", 102));
    assert_true(mark("a", "two", false));
    pass(5000);
    golden_add(&journal, "read: %d\n", wp_daemon_redis_is_read(redis));
    n_pools = 2;
    golden_add(&journal, "read: %d\n", wp_daemon_redis_is_read(redis));
    pass(5000);
    assert_true(mark("a", "one", false));
    assert_true(mark("a", "two", false));
    pass(1);
    golden_add(&journal, "read: %d\n", wp_daemon_redis_is_read(redis));
    finish("missed");
}

static void
test_a_pool_is_read_once_the_core_has_all_of_it(void **state)
{
    (void)state;
    open_all();
    again("what was left out of a pool that the core knows");
    refuses = 1;
    assert_true(hear("a", "one", 1));
    assert_true(mark("a", "one", false));
    assert_true(mark("a", "two", false));
    run();
    golden_add(&journal, "read: %d\n", wp_daemon_redis_is_read(redis));
    wp_daemon_redis_close(redis);
    open_all();
    again("of one that it does not know");
    assert_true(mark("a", "one", false));
    n_pools = 1;
    refuses = 1;
    assert_true(hear("a", "two", 1));
    assert_true(mark("a", "two", false));
    run();
    n_pools = 2;
    golden_add(&journal, "read: %d\n", wp_daemon_redis_is_read(redis));
    assert_true(mark("a", "two", false));
    wp_daemon_redis_catch_up(redis);
    golden_add(&journal, "read: %d\n", wp_daemon_redis_is_read(redis));
    wp_daemon_redis_close(redis);
    open_all();
    again("nothing of one that it does not know");
    assert_true(mark("a", "one", false));
    n_pools = 1;
    assert_true(mark("a", "two", false));
    run();
    n_pools = 2;
    golden_add(&journal, "read: %d\n", wp_daemon_redis_is_read(redis));
    finish("all_read");
}

static void
test_pools_that_come_are_taken_in(void **state)
{
    (void)state;
    open_all();
    n_pools = 4;
    name(&pools[2].spec, "b", "new");
    name(&pools[3].spec, "b", "over");
    pools[3].gone = true;
    knows_all = false;
    run();
    golden_add(&journal, "read: %d\n", wp_daemon_redis_is_read(redis));
    again("it has no room");
    pools[3].gone = false;
    is_full = true;
    LOGGED(golden_add(&journal, "read: %d\n", wp_daemon_redis_is_read(redis)));
    pass(500);
    again("it has");
    is_full = false;
    pass(500);
    pass(500);
    finish("comes");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_replicas_are_heard),
        TEST(test_the_core_is_told_in_order),
        TEST(test_a_turn_has_its_bound),
        TEST(test_the_state_is_said_twice_a_second),
        TEST(test_what_was_left_out_is_read_again),
        TEST(test_a_pool_is_read_once_the_core_has_all_of_it),
        TEST(test_pools_that_come_are_taken_in),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
