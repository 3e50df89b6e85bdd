/* The queue of other replicas' changes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "allocator/stores/feed.h"

enum {
    ROUNDS = 200000
};

static struct {
    _Atomic(uint32_t) wakes;
    uint64_t taken;
    uint64_t expected; /* Fence of the next record. */
    enum wp_feed_kind kind;
} seen;

static void
wake(void *ctx)
{
    assert_ptr_equal(ctx, &seen);
    atomic_fetch_add(&seen.wakes, 1);
}

static void
take(void *ctx, enum wp_feed_kind kind, const struct wp_lease_record *record)
{
    assert_ptr_equal(ctx, &seen);
    assert_int_equal(record->fence, seen.expected);
    seen.expected++;
    seen.taken++;
    seen.kind = kind;
}

static struct wp_feed *
make(uint32_t messages_max)
{
    struct wp_err err;
    const struct wp_feed_config config = {messages_max, wake, take, &seen};
    struct wp_feed *feed = wp_feed_create(&config, &err);

    assert_non_null(feed);
    seen.taken = 0;
    seen.expected = 0;
    atomic_store(&seen.wakes, 0);
    return feed;
}

static bool
push(struct wp_feed *feed, uint64_t fence)
{
    const struct wp_lease_record record = {.fence = fence};

    return wp_feed_push(feed, WP_FEED_RECORD, &record);
}

static void
full_is_refused_and_order_is_kept(void **state)
{
    struct wp_feed *feed = make(3); /* 4 */
    uint64_t next = 0;

    (void)state;
    for (int round = 0; round < 10; round++) {
        while (push(feed, next)) {
            next++;
        }
        assert_int_equal(wp_feed_refused(feed), round + 1);
        assert_int_equal(atomic_load(&seen.wakes), next);
        assert_true(wp_feed_run(feed, 3));
        assert_int_equal(seen.taken, next - 1);
        assert_false(wp_feed_run(feed, 3));
        assert_int_equal(seen.taken, next);
    }
    assert_int_equal(next, 40);
    wp_feed_destroy(feed);
}

static void
kinds_are_kept(void **state)
{
    static const enum wp_feed_kind kinds[] = {WP_FEED_SYNC_BEGIN,
                                              WP_FEED_RECORD, WP_FEED_SYNC_END};
    struct wp_feed *feed = make(16);

    (void)state;
    for (uint64_t i = 0; i < 3; i++) {
        const struct wp_lease_record record = {.fence = i};

        assert_true(wp_feed_push(feed, kinds[i], &record));
    }
    for (uint64_t i = 0; i < 3; i++) {
        assert_int_equal(wp_feed_run(feed, 1), i < 2);
        assert_int_equal(seen.kind, kinds[i]);
    }
    wp_feed_destroy(feed);
}

static void *
push_all(void *arg)
{
    for (uint64_t i = 0; i < ROUNDS;) {
        if (push(arg, i)) {
            i++;
        } else {
            sched_yield();
        }
    }
    return NULL;
}

static void
another_thread_pushes(void **state)
{
    struct wp_feed *feed = make(64);
    pthread_t thread;

    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, push_all, feed), 0);
    while (seen.taken < ROUNDS) {
        if (!wp_feed_run(feed, 100)) {
            sched_yield();
        }
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_false(wp_feed_run(feed, 100));
    wp_feed_destroy(feed);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(full_is_refused_and_order_is_kept),
        cmocka_unit_test(kinds_are_kept),
        cmocka_unit_test(another_thread_pushes),
    };

    return cmocka_run_group_tests_name("feed", tests, NULL, NULL);
}
