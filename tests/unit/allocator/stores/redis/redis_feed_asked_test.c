/* tests/unit/allocator/stores/redis/redis_feed_asked_test.c - what other threads
 * ask of the one that follows the other replicas. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>

#include "tests/unit/allocator/stores/redis/redis_feed_rig.h"
#include "tests/unit/allocator/stores/redis/redis_journal.h"

static uint32_t
tell_others(void *ctx)
{
    assert_ptr_equal(ctx, &plan);
    return plan.others;
}

static void
assert_refused(enum wp_status status, const char *text)
{
    struct wp_redis_feed *before = redis->feed;
    struct wp_err err;

    assert_int_equal(wp_lease_redis_follow(redis, &err), status);
    assert_int_equal(err.status, status);
    assert_string_equal(err.msg, text);
    assert_ptr_equal(redis->feed, before);
}

static void
test_what_cannot_be_followed(void **state)
{
    (void)state;
    feed_begin(1);
    redis->config.replicas = false;
    assert_refused(WP_FAILED_PRECONDITION, "this store has no other replicas");
    redis->config.replicas = true;
    plan.allocs = 0;
    plan.alloc_fails = 1 << 1;
    assert_refused(WP_RESOURCE_EXHAUSTED, "memory for the feed");
    assert_string_equal(journal_take(), "");
    plan.allocs = 0;
    plan.alloc_fails = 1 << 2;
    assert_refused(WP_RESOURCE_EXHAUSTED,
                   "the thread of the feed: Cannot allocate memory");
    assert_string_equal(journal_take(), "eventfd 0\n");
    journal_begin();
    plan.alloc_fails = 0;
    plan.eventfd_fails = true;
    assert_refused(WP_RESOURCE_EXHAUSTED,
                   "the thread of the feed: Too many open files");
    assert_string_equal(journal_take(), "eventfd 0\n");
    journal_begin();
    plan.eventfd_fails = false;
    plan.thread_fails = EAGAIN;
    assert_refused(WP_RESOURCE_EXHAUSTED,
                   "the thread of the feed: Resource temporarily unavailable");
    assert_string_equal(journal_take(), "eventfd 0\n");
    journal_begin();
    plan.eventfd_is_0 = true;
    assert_refused(WP_RESOURCE_EXHAUSTED,
                   "the thread of the feed: Resource temporarily unavailable");
    assert_string_equal(journal_take(), "eventfd 0\nclose of 0\n");
    journal_begin();
    plan.thread_fails = 0;
    assert_int_equal(wp_lease_redis_follow(redis, NULL), WP_OK);
    assert_int_equal(redis->feed->stop_fd, 0);
    journal_begin();
    wp_redis_feed_destroy(redis->feed);
    assert_string_equal(journal_take(), "wake 1\njoin\nclose of 0\n");
    redis->feed = NULL;
    feed_end();
    (void)follow(1);
    assert_refused(WP_FAILED_PRECONDITION, "followed already");
    assert_string_equal(journal_take(), "");
    feed_end();
}

static void
test_nothing_is_asked_of_no_feed(void **state)
{
    struct wp_lease_redis_pool name = {.pool_namespace = "ns", .pool = "p0"};

    (void)state;
    feed_begin(1);
    wp_lease_redis_read_again(redis, &name);
    wp_lease_redis_set_state(redis, 1, true);
    wp_lease_redis_leave(redis);
    assert_int_equal(wp_lease_redis_peers(redis, NULL, 0), 0);
    assert_false(atomic_load(&redis->pools[0].again));
    wp_redis_feed_destroy(NULL);
    assert_string_equal(journal_take(), "");
    feed_end();
}

static void
test_is_asked_to_read_again(void **state)
{
    struct wp_lease_redis_pool name = {.pool_namespace = "ns", .pool = "p2"};
    struct wp_redis_feed *feed = follow(2);

    (void)state;
    wp_lease_redis_read_again(redis, &name);
    assert_string_equal(journal_take(), "");
    name.pool[1] = '1';
    wp_lease_redis_read_again(redis, &name);
    assert_string_equal(journal_take(), "wake 1\n");
    assert_false(atomic_load(&redis->pools[0].again));
    assert_true(atomic_load(&redis->pools[1].again));
    assert_false(feed->pools[1].wanted);
    feed_end();
}

static void
test_state_and_leaving(void **state)
{
    struct wp_redis_feed *feed = follow(1);

    (void)state;
    wp_lease_redis_set_state(redis, 12, true);
    assert_string_equal(journal_take(), "");
    assert_int_equal(atomic_load(&feed->waiting), 12);
    assert_true(atomic_load(&feed->keeper));
    assert_false(atomic_load(&feed->leaves));
    assert_false(atomic_load(&feed->says_now));
    wp_lease_redis_leave(redis);
    assert_string_equal(journal_take(), "wake 1\n");
    assert_true(atomic_load(&feed->leaves));
    assert_true(atomic_load(&feed->says_now));
    feed_end();
}

static void
test_copies_the_peers_there_is_room_for(void **state)
{
    struct wp_lease_redis_peer peers[3];
    struct wp_redis_feed *feed = follow(1);

    (void)state;
    feed->n_peers = 3;
    for (uint32_t i = 0; i < 3; i++) {
        feed->peers[i].peer.waiting = 10 + i;
    }
    for (uint32_t max = 0; max < 4; max++) {
        memset(peers, 0, sizeof peers);
        assert_int_equal(wp_lease_redis_peers(redis, peers, max), 3);
        for (uint32_t i = 0; i < 3; i++) {
            assert_int_equal(peers[i].waiting, i < max ? 10 + i : 0);
        }
    }
    feed->n_peers = 1;
    memset(peers, 0, sizeof peers);
    assert_int_equal(wp_lease_redis_peers(redis, peers, 3), 1);
    assert_int_equal(peers[0].waiting, 10);
    assert_int_equal(peers[1].waiting, 0);
    assert_int_equal(n_locks, 5);
    feed_end();
}

/* After two heartbeats, or once all others that stay were met. */
static void
test_has_heard(void **state)
{
    struct wp_redis_feed *feed = follow(1);

    (void)state;
    assert_false(wp_redis_feed_has_heard(feed));
    atomic_store(&feed->listens_since_ns, clock_ns);
    assert_false(wp_redis_feed_has_heard(feed));
    clock_ns += 2000 * WP_NS_PER_MS - 1;
    assert_false(wp_redis_feed_has_heard(feed));
    clock_ns += 1;
    assert_true(wp_redis_feed_has_heard(feed));
    assert_int_equal(n_locks, 0);
    atomic_store(&feed->listens_since_ns, clock_ns);
    redis->config.others = tell_others;
    redis->config.others_ctx = &plan;
    assert_true(wp_redis_feed_has_heard(feed));
    plan.others = 1;
    assert_false(wp_redis_feed_has_heard(feed));
    feed->n_peers = 3;
    feed->peers[0].met = true;
    feed->peers[0].peer.leaves = true;
    assert_false(wp_redis_feed_has_heard(feed));
    feed->peers[1].met = true;
    assert_true(wp_redis_feed_has_heard(feed));
    plan.others = 2;
    assert_false(wp_redis_feed_has_heard(feed));
    feed->peers[2].peer.leaves = true;
    feed->peers[3].met = true;
    assert_false(wp_redis_feed_has_heard(feed));
    feed->n_peers = 4;
    assert_true(wp_redis_feed_has_heard(feed));
    atomic_store(&feed->listens_since_ns, 0);
    assert_false(wp_redis_feed_has_heard(feed));
    feed_end();
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_cannot_be_followed),
        cmocka_unit_test(test_nothing_is_asked_of_no_feed),
        cmocka_unit_test(test_is_asked_to_read_again),
        cmocka_unit_test(test_state_and_leaving),
        cmocka_unit_test(test_copies_the_peers_there_is_room_for),
        cmocka_unit_test(test_has_heard),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
