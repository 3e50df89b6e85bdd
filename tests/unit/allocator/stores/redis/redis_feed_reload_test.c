/* tests/unit/allocator/stores/redis/redis_feed_reload_test.c - when the feed
 * reads pools, what it tells between its marks, and when it does so again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>

#include "tests/support/base/heard.h"
#include "tests/unit/allocator/stores/redis/redis_hears_rig.h"
#include "tests/unit/allocator/stores/redis/redis_journal.h"

static struct heard heard;

static void
read_wanted(void)
{
    note("-> %d", wp_redis_feed_read_wanted(feed));
    note_feed();
}

/* --- when --- */

static void
test_reads_what_is_wanted_in_its_time(void **state)
{
    (void)state;
    hears_begin();
    feed->pools[0].read_at_ns = 1;
    feed->pools[1].wanted = true;
    feed->pools[1].read_at_ns = clock_ns + 1;
    feed->pools[2].wanted = true;
    feed->pools[2].read_at_ns = clock_ns;
    read_wanted();
    read_wanted();
    clock_ns++;
    read_wanted();
    atomic_store(&redis->pools[2].again, true);
    clock_ns--;
    read_wanted();
    assert_false(redis->pools[2].again);
    atomic_store(&redis->pools[1].again, true);
    atomic_store(&redis->pools[3].again, true); /* Not called for. */
    read_wanted();
    assert_false(redis->pools[1].again);
    assert_true(redis->pools[3].again);
    assert_string_equal(
        journal_take(),
        "begin of ns/q\n"
        "scan wp:{ns/q} by 2 |0 0 at -49999999 |0 0 wanted at 0 |0 -2 read at "
        "0| heard 0, gaps 0, corrupt 0, syncs 0 - 0\n"
        "end of ns/q\n"
        "-> 1 |0 0 at -49999999 |0 0 wanted at 0 |0 -2 at 0| heard 0, gaps 0, "
        "corrupt 0, syncs 1 - 0\n"
        "-> 1 |0 0 at -49999999 |0 0 wanted at 0 |0 -2 at 0| heard 0, gaps 0, "
        "corrupt 0, syncs 1 - 0\n"
        "begin of ns/p2\n"
        "scan wp:{ns/p2} by 2 |0 0 at -49999999 |0 -2 read at 0 |0 -2 at 0| "
        "heard 0, gaps 0, corrupt 0, syncs 1 - 0\n"
        "end of ns/p2\n"
        "-> 1 |0 0 at -49999999 |0 -2 at 0 |0 -2 at 0| heard 0, gaps 0, "
        "corrupt 0, syncs 2 - 0\n"
        "begin of ns/q\n"
        "scan wp:{ns/q} by 2 |0 0 at -49999999 |0 -2 at 0 |0 -2 read at 0| "
        "heard 0, gaps 0, corrupt 0, syncs 2 - 0\n"
        "end of ns/q\n"
        "-> 1 |0 0 at -49999999 |0 -2 at 0 |0 -2 at 0| heard 0, gaps 0, "
        "corrupt 0, syncs 3 - 0\n"
        "-> 1 |0 0 at -49999999 |0 -2 wanted at 0 |0 -2 at 0| heard 0, gaps 0, "
        "corrupt 0, syncs 3 - 0\n");
    hears_end();
}

/* It looks again after 50 ms. */
static void
test_reads_nothing_that_is_in_doubt(void **state)
{
    (void)state;
    hears_begin();
    atomic_store(&redis->pools[0].generation, 0);
    feed->pools[0].wanted = true;
    feed->pools[1].wanted = true;
    read_wanted();
    clock_ns += 50 * WP_NS_PER_MS - 1;
    read_wanted();
    clock_ns++;
    read_wanted();
    assert_string_equal(journal_take(),
                        "begin of ns/p2\n"
                        "scan wp:{ns/p2} by 2 |0 0 wanted at 50000 |0 -2 read "
                        "|0 0| heard 0, gaps 0, corrupt 0, syncs 0 - 0\n"
                        "end of ns/p2\n"
                        "-> 1 |0 0 wanted at 50000 |0 -2 |0 0| heard 0, gaps "
                        "0, corrupt 0, syncs 1 - 0\n"
                        "-> 1 |0 0 wanted at 50000 |0 -2 |0 0| heard 0, gaps "
                        "0, corrupt 0, syncs 1 - 0\n"
                        "-> 1 |0 0 wanted at 100000 |0 -2 |0 0| heard 0, gaps "
                        "0, corrupt 0, syncs 1 - 0\n");
    hears_end();
}

/* --- what --- */

static bool
tell(const struct wp_redis_scan *scan, const char *pool, uint8_t number)
{
    const struct wp_lease_record record = record_of(pool, number);
    bool takes = scan->each(scan->ctx, &record);

    note("taken: %d\n", takes);
    return takes;
}

static enum wp_status
scan_two_pages(const struct wp_redis_scan *scan, struct wp_err *err)
{
    (void)err;
    *scan->number = 77;
    (void)tell(scan, "p", 1);
    note("on: %d\n", scan->page(scan->ctx));
    (void)tell(scan, "p", 2);
    plan.full = true;
    (void)tell(scan, "p", 3);
    plan.full = false;
    redis->config.sink.on_record = NULL;
    (void)tell(scan, "p", 4);
    return WP_OK;
}

static void
test_tells_records_between_marks(void **state)
{
    (void)state;
    hears_begin();
    feed->pools[0] = (struct wp_feed_pool){
        .wanted = true, .expect = 5, .base = 3, .again_ms = 40};
    plan.scan = scan_two_pages;
    read_wanted();
    redis->config.sink.on_sync = NULL;
    feed->pools[1].wanted = true;
    plan.scan = NULL;
    read_wanted();
    assert_null(feed->reading);
    assert_string_equal(journal_take(),
                        "begin of ns/p\n"
                        "scan wp:{ns/p} by 2 |0 -2 read again 40 |0 0 |0 0| "
                        "heard 0, gaps 0, corrupt 0, syncs 0 - 0\n"
                        "record 01 of ns/p, state 1, fence 1001\n"
                        "taken: 1\n"
                        "poll 2 for 0 ms\n"
                        "on: 1\n"
                        "record 02 of ns/p, state 1, fence 1002\n"
                        "taken: 1\n"
                        "record 03 of ns/p, state 1, fence 1003\n"
                        "taken: 0\n"
                        "taken: 1\n"
                        "end of ns/p\n"
                        "-> 1 |0 77 |0 0 |0 0| heard 0, gaps 0, corrupt 0, "
                        "syncs 1 - 0, another\n"
                        "scan wp:{ns/p2} by 2 |0 77 |0 -2 read |0 0| heard 0, "
                        "gaps 0, corrupt 0, syncs 1 - 0, another\n"
                        "-> 1 |0 77 |0 -2 |0 0| heard 0, gaps 0, corrupt 0, "
                        "syncs 2 - 0, another\n");
    hears_end();
}

/* It goes on to the next page only while that makes sense. */
static enum wp_status
scan_pages_in_vain(const struct wp_redis_scan *scan, struct wp_err *err)
{
    (void)err;
    note("on: %d\n", scan->page(scan->ctx));
    plan.poll_result = 1;
    plan.has_come = true;
    plan.take_fails = true;
    note("lost, on: %d\n", scan->page(scan->ctx));
    plan.poll_result = 0;
    atomic_store(&feed->stop, true);
    note("at the end, on: %d\n", scan->page(scan->ctx));
    atomic_store(&feed->stop, false);
    feed->reading->wanted = true;
    note("wanted anew, on: %d\n", scan->page(scan->ctx));
    return WP_CANCELLED;
}

static void
test_stops_between_pages(void **state)
{
    (void)state;
    hears_begin();
    feed->pools[0].wanted = true;
    plan.scan = scan_pages_in_vain;
    heard_begin(&heard);
    read_wanted();
    assert_string_equal(heard_end(&heard), "");
    assert_string_equal(journal_take(),
                        "begin of ns/p\n"
                        "scan wp:{ns/p} by 2 |0 -2 read |0 0 |0 0| heard 0, "
                        "gaps 0, corrupt 0, syncs 0 - 0\n"
                        "poll 2 for 0 ms\n"
                        "on: 1\n"
                        "poll 2 for 0 ms\n"
                        "take in 1\n"
                        "lost, on: 0\n"
                        "poll 2 for 0 ms\n"
                        "at the end, on: 0\n"
                        "poll 2 for 0 ms\n"
                        "wanted anew, on: 0\n"
                        "is 2 broken? 0\n"
                        "-> 1 |0 -2 wanted at 20000 again 20 |0 0 |0 0| heard "
                        "0, gaps 0, corrupt 0, syncs 0 - 0, another\n");
    hears_end();
}

/* Own changes that come meanwhile are told, and count. */
static enum wp_status
scan_while_it_writes(const struct wp_redis_scan *scan, struct wp_err *err)
{
    (void)err;
    *scan->number = 10;
    hear("x", change_text(SELF, 11, "p", 1));
    hear("x", change_text(SELF, 5, "p2", 2));
    return WP_OK;
}

static enum wp_status
scan_before_its_number(const struct wp_redis_scan *scan, struct wp_err *err)
{
    (void)scan;
    (void)err;
    hear("x", change_text(OTHER, 1234567, "p", 1));
    return WP_OK;
}

static void
test_tells_what_changes_meanwhile(void **state)
{
    (void)state;
    hears_begin();
    feed->pools[0].wanted = true;
    plan.scan = scan_while_it_writes;
    read_wanted();
    feed->pools[0].wanted = true;
    plan.scan = scan_before_its_number;
    read_wanted();
    assert_string_equal(journal_take(),
                        "begin of ns/p\n"
                        "scan wp:{ns/p} by 2 |0 -2 read |0 0 |0 0| heard 0, "
                        "gaps 0, corrupt 0, syncs 0 - 0\n"
                        "record 01 of ns/p, state 1, fence 1001\n"
                        "end of ns/p\n"
                        "-> 1 |12 10 |6 0 wanted at 20000 |0 0| heard 1, gaps "
                        "1, corrupt 0, syncs 1 - 0\n"
                        "begin of ns/p\n"
                        "scan wp:{ns/p} by 2 |0 -2 read |6 0 wanted at 20000 "
                        "|0 0| heard 1, gaps 1, corrupt 0, syncs 1 - 0\n"
                        "record 01 of ns/p, state 1, fence 1001\n"
                        "end of ns/p\n"
                        "-> 1 |1234568 -2 |6 0 wanted at 20000 |0 0| heard 2, "
                        "gaps 1, corrupt 0, syncs 2 - 0, another\n");
    hears_end();
}

/* --- when it fails --- */

static enum wp_status
scan_fails(const struct wp_redis_scan *scan, struct wp_err *err)
{
    (void)scan;
    return wp_err_set(err, WP_UNAVAILABLE, "no scan");
}

static enum wp_status
scan_is_refused(const struct wp_redis_scan *scan, struct wp_err *err)
{
    (void)scan;
    return wp_err_set(err, WP_CANCELLED, "the receiver is full");
}

static enum wp_status
scan_another_generation(const struct wp_redis_scan *scan, struct wp_err *err)
{
    (void)scan;
    (void)err;
    atomic_fetch_add(&redis->pools[0].generation, 1);
    return WP_OK;
}

static enum wp_status
scan_what_is_wanted_anew(const struct wp_redis_scan *scan, struct wp_err *err)
{
    (void)scan;
    (void)err;
    feed->pools[0].wanted = true;
    return WP_OK;
}

/* Later each time; and said once, until it can be read. */
static void
test_reads_later_each_time(void **state)
{
    static const int64_t pauses_ms[] = {20, 40, 80, 160, 320, 640, 1000, 1000};
    int n_wrong = 0;

    (void)state;
    hears_begin();
    feed->pools[0].wanted = true;
    plan.scan = scan_fails;
    heard_begin(&heard);
    for (size_t i = 0; i < 8; i++) {
        int64_t pause_ns = pauses_ms[i] * WP_NS_PER_MS;

        if (!wp_redis_feed_read_wanted(feed) ||
            feed->pools[0].read_at_ns != clock_ns + pause_ns) {
            n_wrong++;
        }
        clock_ns = feed->pools[0].read_at_ns;
    }
    journal_begin();
    note_feed();
    plan.scan = NULL;
    read_wanted();
    feed->pools[0].wanted = true;
    read_wanted();
    feed->pools[0].wanted = true;
    plan.scan = scan_fails;
    read_wanted();
    assert_string_equal(
        heard_end(&heard),
        "WARN a pool cannot be read from redis: what other replicas did with "
        "it may be unknown here pool=p error=\"no scan\"\n"
        "INFO the pool can be read from redis again pool=p\n"
        "WARN a pool cannot be read from redis: what other replicas did with "
        "it may be unknown here pool=p error=\"no scan\"\n");
    assert_string_equal(journal_take(),
                        " |0 -2 wanted at 3260000 again 1000 |0 0 |0 0| heard "
                        "0, gaps 0, corrupt 0, syncs 0 - 8\n"
                        "begin of ns/p\n"
                        "scan wp:{ns/p} by 2 |0 -2 read at 3260000 again 1000 "
                        "|0 0 |0 0| heard 0, gaps 0, corrupt 0, syncs 0 - 8\n"
                        "end of ns/p\n"
                        "-> 1 |0 -2 at 3260000 |0 0 |0 0| heard 0, gaps 0, "
                        "corrupt 0, syncs 1 - 8\n"
                        "begin of ns/p\n"
                        "scan wp:{ns/p} by 2 |0 -2 read at 3260000 |0 0 |0 0| "
                        "heard 0, gaps 0, corrupt 0, syncs 1 - 8\n"
                        "end of ns/p\n"
                        "-> 1 |0 -2 at 3260000 |0 0 |0 0| heard 0, gaps 0, "
                        "corrupt 0, syncs 2 - 8\n"
                        "begin of ns/p\n"
                        "scan wp:{ns/p} by 2 |0 -2 read at 3260000 |0 0 |0 0| "
                        "heard 0, gaps 0, corrupt 0, syncs 2 - 8\n"
                        "is 2 broken? 0\n"
                        "-> 1 |0 -2 wanted at 3280000 again 20 |0 0 |0 0| "
                        "heard 0, gaps 0, corrupt 0, syncs 2 - 9\n");
    assert_int_equal(n_wrong, 0);
    hears_end();
}

/* Nothing is said of what will come right, and nothing counted. */
static void
test_what_is_void_is_read_again(void **state)
{
    static enum wp_status (*const scans[])(const struct wp_redis_scan *,
                                           struct wp_err *) = {
        scan_is_refused, scan_another_generation, scan_what_is_wanted_anew};

    (void)state;
    hears_begin();
    heard_begin(&heard);
    for (size_t i = 0; i < 3; i++) {
        feed->pools[0] = (struct wp_feed_pool){.wanted = true};
        plan.scan = scans[i];
        read_wanted();
    }
    plan.scan = NULL;
    plan.begin_full = true;
    feed->pools[0] = (struct wp_feed_pool){.wanted = true};
    read_wanted();
    plan.begin_full = false;
    plan.end_full = true;
    feed->pools[0] = (struct wp_feed_pool){.wanted = true};
    read_wanted();
    assert_string_equal(heard_end(&heard), "");
    assert_string_equal(journal_take(),
                        "begin of ns/p\n"
                        "scan wp:{ns/p} by 2 |0 -2 read |0 0 |0 0| heard 0, "
                        "gaps 0, corrupt 0, syncs 0 - 0\n"
                        "is 2 broken? 0\n"
                        "-> 1 |0 -2 wanted at 20000 again 20 |0 0 |0 0| heard "
                        "0, gaps 0, corrupt 0, syncs 0 - 0\n"
                        "begin of ns/p\n"
                        "scan wp:{ns/p} by 2 |0 -2 read |0 0 |0 0| heard 0, "
                        "gaps 0, corrupt 0, syncs 0 - 0\n"
                        "is 2 broken? 0\n"
                        "-> 1 |0 -2 wanted at 20000 again 20 |0 0 |0 0| heard "
                        "0, gaps 0, corrupt 0, syncs 0 - 0\n"
                        "begin of ns/p\n"
                        "scan wp:{ns/p} by 2 |0 -2 read |0 0 |0 0| heard 0, "
                        "gaps 0, corrupt 0, syncs 0 - 0\n"
                        "is 2 broken? 0\n"
                        "-> 1 |0 -2 wanted at 20000 again 20 |0 0 |0 0| heard "
                        "0, gaps 0, corrupt 0, syncs 0 - 0\n"
                        "begin of ns/p\n"
                        "is 2 broken? 0\n"
                        "-> 1 |0 -2 wanted at 20000 again 20 |0 0 |0 0| heard "
                        "0, gaps 0, corrupt 0, syncs 0 - 0\n"
                        "begin of ns/p\n"
                        "scan wp:{ns/p} by 2 |0 -2 read |0 0 |0 0| heard 0, "
                        "gaps 0, corrupt 0, syncs 0 - 0\n"
                        "end of ns/p\n"
                        "is 2 broken? 0\n"
                        "-> 1 |0 -2 wanted at 20000 again 20 |0 0 |0 0| heard "
                        "0, gaps 0, corrupt 0, syncs 0 - 0\n");
    hears_end();
}

/* A connection that broke is the end of the turn. */
static void
test_no_more_after_a_broken_connection(void **state)
{
    (void)state;
    hears_begin();
    feed->pools[0].wanted = true;
    feed->pools[1].wanted = true;
    plan.scan = scan_is_refused;
    plan.broken = true;
    read_wanted();
    plan.broken = false;
    read_wanted();
    assert_string_equal(
        journal_take(),
        "begin of ns/p\n"
        "scan wp:{ns/p} by 2 |0 -2 read |0 0 wanted |0 0| heard 0, gaps 0, "
        "corrupt 0, syncs 0 - 0\n"
        "is 2 broken? 1\n"
        "-> 0 |0 -2 wanted at 20000 again 20 |0 0 wanted |0 0| heard 0, gaps "
        "0, corrupt 0, syncs 0 - 0\n"
        "begin of ns/p2\n"
        "scan wp:{ns/p2} by 2 |0 -2 wanted at 20000 again 20 |0 -2 read |0 0| "
        "heard 0, gaps 0, corrupt 0, syncs 0 - 0\n"
        "is 2 broken? 0\n"
        "-> 1 |0 -2 wanted at 20000 again 20 |0 -2 wanted at 20000 again 20 |0 "
        "0| heard 0, gaps 0, corrupt 0, syncs 0 - 0\n");
    hears_end();
}

/* --- behind a router --- */

static void
test_reads_pools_where_they_are(void **state)
{
    static const struct wp_redis_router router;

    (void)state;
    hears_begin();
    redis->config.redis.router = &router;
    feed->pools[0].wanted = true;
    feed->pools[1].wanted = true;
    heard_begin(&heard);
    read_wanted();
    plan.open_fails = true;
    plan.broken = true;
    feed->pools[0].wanted = true;
    feed->pools[0].expect = 9;
    feed->pools[1].wanted = true;
    read_wanted();
    plan.open_fails = false;
    plan.begin_full = true;
    plan.broken = false;
    feed->pools[2].wanted = true;
    read_wanted();
    assert_string_equal(
        heard_end(&heard),
        "WARN a pool cannot be read from redis: what other replicas did with "
        "it may be unknown here pool=p error=\"no open\"\n"
        "WARN a pool cannot be read from redis: what other replicas did with "
        "it may be unknown here pool=p2 error=\"no open\"\n");
    assert_string_equal(
        journal_take(),
        "open wp:{ns/p}\n"
        "begin of ns/p\n"
        "scan wp:{ns/p} by 3 |0 -2 read |0 0 wanted |0 0| heard 0, gaps 0, "
        "corrupt 0, syncs 0 - 0\n"
        "close 3\n"
        "end of ns/p\n"
        "open wp:{ns/p2}\n"
        "begin of ns/p2\n"
        "scan wp:{ns/p2} by 3 |0 -2 |0 -2 read |0 0| heard 0, gaps 0, corrupt "
        "0, syncs 1 - 0\n"
        "close 3\n"
        "end of ns/p2\n"
        "-> 1 |0 -2 |0 -2 |0 0| heard 0, gaps 0, corrupt 0, syncs 2 - 0\n"
        "open wp:{ns/p}\n"
        "open wp:{ns/p2}\n"
        "-> 1 |9 -2 wanted at 20000 again 20 |0 -2 wanted at 20000 again 20 |0 "
        "0| heard 0, gaps 0, corrupt 0, syncs 2 - 2\n"
        "open wp:{ns/q}\n"
        "begin of ns/q\n"
        "close 3\n"
        "is 2 broken? 0\n"
        "-> 1 |9 -2 wanted at 20000 again 20 |0 -2 wanted at 20000 again 20 |0 "
        "-2 wanted at 20000 again 20| heard 0, gaps 0, corrupt 0, syncs 2 - "
        "2\n");
    hears_end();
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reads_what_is_wanted_in_its_time),
        cmocka_unit_test(test_reads_nothing_that_is_in_doubt),
        cmocka_unit_test(test_tells_records_between_marks),
        cmocka_unit_test(test_stops_between_pages),
        cmocka_unit_test(test_tells_what_changes_meanwhile),
        cmocka_unit_test(test_reads_later_each_time),
        cmocka_unit_test(test_what_is_void_is_read_again),
        cmocka_unit_test(test_no_more_after_a_broken_connection),
        cmocka_unit_test(test_reads_pools_where_they_are),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
