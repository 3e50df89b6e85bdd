/* tests/unit/allocator/stores/redis/redis_feed_test.c - the thread that follows
 * the other replicas: whom it calls, what it says, how long it waits and what it
 * does when a connection is lost. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "tests/unit/allocator/stores/redis/redis_feed_rig.h"
#include "tests/unit/allocator/stores/redis/redis_journal.h"

/* --- following --- */

static void
wants_the_second(struct wp_redis_feed *feed)
{
    feed->pools[1].wanted = true;
    feed->pools[1].read_at_ns = clock_ns + 30 * WP_NS_PER_MS;
}

static void
wants_both_late(struct wp_redis_feed *feed)
{
    feed->pools[0].wanted = true;
    feed->pools[0].read_at_ns = clock_ns + 800 * WP_NS_PER_MS;
    feed->pools[1].wanted = true;
    feed->pools[1].read_at_ns = clock_ns + 200 * WP_NS_PER_MS;
}

static void
is_in_a_hurry(struct wp_redis_feed *feed)
{
    hears_itself(feed);
    wp_lease_redis_set_state(feed->redis, 4000000000U, true);
    atomic_store(&feed->says_now, true);
}

static void
test_turns(void **state)
{
    static const struct step steps[] = {
        {300000, false, hears_itself},
        {200000, false, wants_the_second},
        {30000, false, NULL},
        {1, false, NULL},
        {468999, false, NULL},
        {1000, false, NULL},
        {100000, false, is_in_a_hurry},
        {999999, false, hears_itself},
        {1, false, NULL},
    };

    (void)state;
    (void)follow(2);
    assert_string_equal(RUN(steps), "");
    assert_string_equal(
        said(),
        "awake\n"
        "open 1 wp:{ns/p0} and where\n"
        "open 2 wp:{ns/p0}\n"
        "send 1: SUBSCRIBE wp:peers\n"
        "send 1: SUBSCRIBE wp:{ns/p0}:feed wp:{ns/p1}:feed\n"
        "receive 1, 1, 1\n"
        "SAYS 2, read wanted wanted; drop; listen 1001, to run1 since 0, pause "
        "0\n"
        "read - -; drop; listen 701, to run1 since 0, pause 0\n"
        "read - wanted at 530; drop; listen 501, to run1 since 0, pause 0\n"
        "read - - at 530; drop; listen 471, to run1 since 0, pause 0\n"
        "read - - at 530; drop; listen 470, to run1 since 0, pause 0\n"
        "read - - at 530; drop; listen 2, to run1 since 0, pause 0\n"
        "SAYS 2, read - - at 530; drop; listen 1001, to run1 since 0, pause 0\n"
        "call 2: PUBLISH wp:peers 10123456789abcdef14000000000here\n"
        "read - - at 530; drop; listen 1001, to run1 since 0, pause 0\n"
        "read - - at 530; drop; listen 1, to run1 since 0, pause 0\n"
        "close 1, 2\n");
    feed_end();
}

static void
test_waits_for_the_first_that_is_wanted(void **state)
{
    static const struct step steps[] = {
        {1, false, wants_both_late},
        {1, false, NULL},
        {199998, false, NULL},
        {1, false, NULL},
        {1, false, NULL},
        {1000, false, wants_both_late},
        {900000, false, wants_the_second},
        {40000, false, NULL},
    };

    (void)state;
    (void)follow(2);
    keep_wanted = true;
    assert_string_equal(RUN(steps), "");
    keep_wanted = false;
    assert_string_equal(
        said(),
        "awake\n"
        "open 1 wp:{ns/p0} and where\n"
        "open 2 wp:{ns/p0}\n"
        "send 1: SUBSCRIBE wp:peers\n"
        "send 1: SUBSCRIBE wp:{ns/p0}:feed wp:{ns/p1}:feed\n"
        "receive 1, 1, 1\n"
        "SAYS 2, read wanted wanted; drop; listen 0, to run1 since 0, pause 0\n"
        "read wanted at 800 wanted at 200; drop; listen 201, to run1 since 0, "
        "pause 0\n"
        "read wanted at 800 wanted at 200; drop; listen 200, to run1 since 0, "
        "pause 0\n"
        "read wanted at 800 wanted at 200; drop; listen 1, to run1 since 0, "
        "pause 0\n"
        "read wanted at 800 wanted at 200; drop; listen 0, to run1 since 0, "
        "pause 0\n"
        "read wanted at 800 wanted at 200; drop; listen 0, to run1 since 0, "
        "pause 0\n"
        "read wanted at 1001 wanted at 401; drop; listen 201, to run1 since 0, "
        "pause 0\n"
        "SAYS 2, read wanted at 1001 wanted at 1131; drop; listen 0, to run1 "
        "since 0, pause 0\n"
        "close 1, 2\n");
    feed_end();
}

static void
test_no_pool_is_wanted_before_its_time(void **state)
{
    static const struct step steps[] = {{1, false, NULL}};
    struct wp_redis_feed *feed = follow(3);

    (void)state;
    feed->pools[0] = (struct wp_feed_pool){.read_at_ns = clock_ns};
    feed->pools[1] =
        (struct wp_feed_pool){.read_at_ns = clock_ns + 1, .again_ms = 1};
    assert_string_equal(RUN(steps), "");
    assert_string_equal(
        said(),
        "awake\n"
        "open 1 wp:{ns/p0} and where\n"
        "open 2 wp:{ns/p0}\n"
        "send 1: SUBSCRIBE wp:peers\n"
        "send 1: SUBSCRIBE wp:{ns/p0}:feed wp:{ns/p1}:feed wp:{ns/p2}:feed\n"
        "receive 1, 1, 1, 1\n"
        "SAYS 2, read wanted wanted at 0 wanted; drop; listen 1001, to run1 "
        "since 0, pause 0\n"
        "close 1, 2\n");
    feed_end();
}

/* --- calling --- */

static void
test_subscribes_in_groups(void **state)
{
    static const struct step steps[] = {{1, false, NULL}};

    (void)state;
    (void)follow(16);
    assert_string_equal(RUN(steps), "");
    assert_string_equal(
        said(),
        "awake\n"
        "open 1 wp:{ns/p0} and where\n"
        "open 2 wp:{ns/p0}\n"
        "send 1: SUBSCRIBE wp:peers\n"
        "send 1: SUBSCRIBE wp:{ns/p0}:feed wp:{ns/p1}:feed wp:{ns/p2}:feed "
        "wp:{ns/p3}:feed wp:{ns/p4}:feed wp:{ns/p5}:feed wp:{ns/p6}:feed "
        "wp:{ns/p7}:feed wp:{ns/p8}:feed wp:{ns/p9}:feed wp:{ns/p10}:feed "
        "wp:{ns/p11}:feed wp:{ns/p12}:feed wp:{ns/p13}:feed wp:{ns/p14}:feed "
        "wp:{ns/p15}:feed\n"
        "receive 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1\n"
        "SAYS 2, read wanted wanted wanted wanted wanted wanted wanted wanted "
        "wanted wanted wanted wanted wanted wanted wanted wanted; drop; listen "
        "1001, to run1 since 0, pause 0\n"
        "close 1, 2\n");
    feed_end();
    (void)follow(33);
    plan.replies[0] = "";
    assert_string_equal(
        RUN(steps),
        "WARN the other replicas cannot be heard error=\"no answer 1\"\n");
    assert_string_equal(
        said(),
        "awake\n"
        "open 1 wp:{ns/p0} and where\n"
        "open 2 wp:{ns/p0}\n"
        "send 1: SUBSCRIBE wp:peers\n"
        "send 1: SUBSCRIBE wp:{ns/p0}:feed wp:{ns/p1}:feed wp:{ns/p2}:feed "
        "wp:{ns/p3}:feed wp:{ns/p4}:feed wp:{ns/p5}:feed wp:{ns/p6}:feed "
        "wp:{ns/p7}:feed wp:{ns/p8}:feed wp:{ns/p9}:feed wp:{ns/p10}:feed "
        "wp:{ns/p11}:feed wp:{ns/p12}:feed wp:{ns/p13}:feed wp:{ns/p14}:feed "
        "wp:{ns/p15}:feed\n"
        "send 1: SUBSCRIBE wp:{ns/p16}:feed wp:{ns/p17}:feed wp:{ns/p18}:feed "
        "wp:{ns/p19}:feed wp:{ns/p20}:feed wp:{ns/p21}:feed wp:{ns/p22}:feed "
        "wp:{ns/p23}:feed wp:{ns/p24}:feed wp:{ns/p25}:feed wp:{ns/p26}:feed "
        "wp:{ns/p27}:feed wp:{ns/p28}:feed wp:{ns/p29}:feed wp:{ns/p30}:feed "
        "wp:{ns/p31}:feed\n"
        "send 1: SUBSCRIBE wp:{ns/p32}:feed\n"
        "receive 1\n"
        "close 1, 2\n"
        "pause 250 ms\n");
    feed_end();
}

#define MESSAGE "*3\r\n$7\r\nmessage\r\n$1\r\nb\r\n$1\r\nx\r\n"

/* A pool that is just being added is left for the next call. */
static void
test_calls_for_the_pools_there_are(void **state)
{
    static const struct step steps[] = {{1, false, NULL}};
    struct wp_redis_feed *feed = follow(2);

    (void)state;
    atomic_store(&redis->pools[2].fresh, true);
    feed->pools[2] = (struct wp_feed_pool){.wanted = true, .read_at_ns = 1};
    assert_string_equal(RUN(steps), "");
    assert_true(atomic_load(&redis->pools[2].fresh));
    assert_int_equal(feed->pools[2].read_at_ns, 1);
    assert_string_equal(said(),
                        "awake\n"
                        "open 1 wp:{ns/p0} and where\n"
                        "open 2 wp:{ns/p0}\n"
                        "send 1: SUBSCRIBE wp:peers\n"
                        "send 1: SUBSCRIBE wp:{ns/p0}:feed wp:{ns/p1}:feed\n"
                        "receive 1, 1, 1\n"
                        "SAYS 2, read wanted wanted; drop; listen 1001, to "
                        "run1 since 0, pause 0\n"
                        "close 1, 2\n");
    feed_end();
}

static void
test_the_longest_names(void **state)
{
    static const struct step steps[] = {{1, false, NULL}};
    struct wp_lease_redis_pool name;
    char prefix[WP_REDIS_NAMES_MAX + 1];
    char wanted[512];
    struct wp_err err;

    (void)state;
    memset(prefix, 'x', sizeof prefix - 1);
    memset(&name, 'n', sizeof name);
    prefix[sizeof prefix - 1] = '\0';
    name.pool_namespace[WP_NAMESPACE_MAX] = '\0';
    name.pool[WP_POOL_NAME_MAX] = '\0';
    feed_begin(1);
    redis->config.prefix = prefix;
    assert_int_equal(wp_redis_pool_add(redis, &name, &err), WP_OK);
    assert_int_equal(wp_lease_redis_follow(redis, &err), WP_OK);
    assert_string_equal(RUN(steps), "");
    (void)snprintf(wanted, sizeof wanted,
                   "send 1: SUBSCRIBE %s:peers\n"
                   "send 1: SUBSCRIBE wp:{ns/p0}:feed %s:{%s/%s}:feed\n",
                   prefix, prefix, name.pool_namespace, name.pool);
    assert_non_null(strstr(said(), wanted));
    feed_end();
}

static void
test_answers_among_messages(void **state)
{
    static const struct step steps[] = {{1, false, NULL}};

    (void)state;
    (void)follow(1);
    plan.replies[0] = MESSAGE;
    plan.replies[1] = "*3\r\n$7\r\nmessagE\r\n$1\r\nb\r\n$1\r\nx\r\n";
    plan.replies[2] = MESSAGE;
    plan.replies[3] = "$7\r\nmessage\r\n";
    plan.replies[4] = MESSAGE;
    assert_string_equal(RUN(steps), "");
    assert_string_equal(
        said(),
        "awake\n"
        "open 1 wp:{ns/p0} and where\n"
        "open 2 wp:{ns/p0}\n"
        "send 1: SUBSCRIBE wp:peers\n"
        "send 1: SUBSCRIBE wp:{ns/p0}:feed\n"
        "receive 1\n"
        "message b\n"
        "receive 1, 1\n"
        "message b\n"
        "receive 1\n"
        "SAYS 2, read wanted; drop; listen 1001, to run1 since 0, pause 0\n"
        "close 1, 2\n");
    feed_end();
    (void)follow(4);
    plan.replies[0] = "*2\r\n$7\r\nmessage\r\n$1\r\nb\r\n";
    plan.replies[1] = "*3\r\n:7\r\n$1\r\nb\r\n$1\r\nx\r\n";
    plan.replies[2] =
        "*4\r\n$7\r\nmessage\r\n$1\r\nb\r\n$1\r\nx\r\n$1\r\nx\r\n";
    plan.replies[3] = "*3\r\n+message\r\n$1\r\nb\r\n$1\r\nx\r\n";
    plan.replies[4] = ":3\r\n";
    assert_string_equal(RUN(steps), "");
    assert_string_equal(said(),
                        "awake\n"
                        "open 1 wp:{ns/p0} and where\n"
                        "open 2 wp:{ns/p0}\n"
                        "send 1: SUBSCRIBE wp:peers\n"
                        "send 1: SUBSCRIBE wp:{ns/p0}:feed wp:{ns/p1}:feed "
                        "wp:{ns/p2}:feed wp:{ns/p3}:feed\n"
                        "receive 1, 1, 1, 1, 1\n"
                        "SAYS 2, read wanted wanted wanted wanted; drop; "
                        "listen 1001, to run1 since 0, pause 0\n"
                        "close 1, 2\n");
    feed_end();
}

/* Each step that may fail, alone. */
static void
test_calls_that_fail(void **state)
{
    static const struct step steps[] = {{1000, false, NULL}};

    (void)state;
    (void)follow(2);
    plan.open_fails = 1 << 1;
    assert_string_equal(
        RUN(steps),
        "WARN the other replicas cannot be heard error=\"no open 1\"\n");
    assert_string_equal(said(), "awake\n"
                                "open 1 wp:{ns/p0} and where\n"
                                "pause 250 ms\n");
    feed_end();
    (void)follow(2);
    plan.open_fails = 1 << 2;
    assert_string_equal(
        RUN(steps),
        "WARN the other replicas cannot be heard error=\"no open 2\"\n");
    assert_string_equal(said(), "awake\n"
                                "open 1 wp:{ns/p0} and where\n"
                                "open 2 wp:{ns/p0}\n"
                                "close 1\n"
                                "pause 250 ms\n");
    feed_end();
    (void)follow(2);
    plan.send_fails = 1 << 1;
    assert_string_equal(
        RUN(steps),
        "WARN the other replicas cannot be heard error=\"no send 1\"\n");
    assert_string_equal(said(), "awake\n"
                                "open 1 wp:{ns/p0} and where\n"
                                "open 2 wp:{ns/p0}\n"
                                "send 1: SUBSCRIBE wp:peers\n"
                                "close 1, 2\n"
                                "pause 250 ms\n");
    feed_end();
    (void)follow(18);
    plan.send_fails = 1 << 2;
    assert_string_equal(
        RUN(steps),
        "WARN the other replicas cannot be heard error=\"no send 2\"\n");
    assert_string_equal(
        said(),
        "awake\n"
        "open 1 wp:{ns/p0} and where\n"
        "open 2 wp:{ns/p0}\n"
        "send 1: SUBSCRIBE wp:peers\n"
        "send 1: SUBSCRIBE wp:{ns/p0}:feed wp:{ns/p1}:feed wp:{ns/p2}:feed "
        "wp:{ns/p3}:feed wp:{ns/p4}:feed wp:{ns/p5}:feed wp:{ns/p6}:feed "
        "wp:{ns/p7}:feed wp:{ns/p8}:feed wp:{ns/p9}:feed wp:{ns/p10}:feed "
        "wp:{ns/p11}:feed wp:{ns/p12}:feed wp:{ns/p13}:feed wp:{ns/p14}:feed "
        "wp:{ns/p15}:feed\n"
        "close 1, 2\n"
        "pause 250 ms\n");
    feed_end();
    (void)follow(1);
    plan.replies[1] = "";
    assert_string_equal(
        RUN(steps),
        "WARN the other replicas cannot be heard error=\"no answer 2\"\n");
    assert_string_equal(said(), "UP 1 2\n"
                                "close 1, 2\n"
                                "pause 250 ms\n");
    feed_end();
    (void)follow(1);
    plan.replies[1] = "-NOPERM no channels\r\n";
    assert_string_equal(RUN(steps),
                        "WARN the other replicas cannot be heard "
                        "error=\"redis: SUBSCRIBE: NOPERM no channels\"\n");
    assert_string_equal(said(), "UP 1 2\n"
                                "close 1, 2\n"
                                "pause 250 ms\n");
    feed_end();
}

/* Said once, and once more after it was well. */
static void
test_what_is_said_of_calls_that_fail(void **state)
{
    static const struct step steps[] = {
        {250000, false, NULL}, {250000, false, NULL}, {1, true, NULL},
        {1, false, NULL},      {250000, false, NULL}, {250000, true, NULL},
        {1, false, NULL},      {250000, true, NULL},
    };

    (void)state;
    (void)follow(1);
    plan.open_fails = 1 << 1 | 1 << 3 | 1 << 6;
    assert_string_equal(
        RUN(steps),
        "WARN the other replicas cannot be heard error=\"no open 1\"\n"
        "INFO the feed of the other replicas is back\n"
        "WARN the other replicas cannot be heard error=\"no open 6\"\n"
        "INFO the feed of the other replicas is back\n");
    assert_string_equal(
        said(),
        "awake\n"
        "open 1 wp:{ns/p0} and where\n"
        "pause 250 ms\n"
        "awake\n"
        "open 2 wp:{ns/p0} and where\n"
        "open 3 wp:{ns/p0}\n"
        "close 2\n"
        "pause 250 ms\n"
        "UP 4 5\n"
        "SAYS 5, read wanted; drop; listen 1001, to run4 since 500, pause 0\n"
        "close 4, 5\n"
        "pause 0 ms\n"
        "awake\n"
        "open 6 wp:{ns/p0} and where\n"
        "pause 250 ms\n"
        "UP 7 8\n"
        "SAYS 8, read wanted; drop; listen 1001, to run7 since 750, pause 20\n"
        "close 7, 8\n"
        "pause 20 ms\n"
        "UP 9 10\n"
        "SAYS 10, read wanted; drop; listen 1001, to run9 since 1000, pause "
        "40\n"
        "close 9, 10\n"
        "pause 40 ms\n"
        "UP 11 12\n"
        "close 11, 12\n");
    feed_end();
}

/* --- pools that were added --- */

static void
add_two(struct wp_redis_feed *feed)
{
    struct wp_lease_redis_pool name = {.pool_namespace = "ns", .pool = "a"};
    struct wp_err err;

    (void)wp_redis_pool_add(feed->redis, &name, &err);
    name.pool[0] = 'b';
    (void)wp_redis_pool_add(feed->redis, &name, &err);
}

static void
note_fresh(void)
{
    for (uint32_t i = 0; i < wp_redis_pools_len(redis); i++) {
        note("%s%s", i == 0 ? "" : " ",
             atomic_load(&redis->pools[i].fresh) ? "fresh" : "old");
    }
    note("\n");
}

static void
test_learns_pools_that_were_added(void **state)
{
    static const struct step steps[] = {{1000, false, add_two},
                                        {1, false, NULL}};

    (void)state;
    (void)follow(1);
    assert_string_equal(RUN(steps), "");
    note_fresh();
    assert_string_equal(
        said(),
        "UP 1 2\n"
        "SAYS 2, read wanted; drop; listen 1001, to run1 since 0, pause 0\n"
        "close 1, 2\n"
        "awake\n"
        "open 3 wp:{ns/p0} and where\n"
        "open 4 wp:{ns/p0}\n"
        "send 3: SUBSCRIBE wp:peers\n"
        "send 3: SUBSCRIBE wp:{ns/p0}:feed wp:{ns/a}:feed wp:{ns/b}:feed\n"
        "receive 3, 3, 3, 3\n"
        "learn wp:{ns/a} by 4\n"
        "learn wp:{ns/b} by 4\n"
        "SAYS 4, read wanted wanted wanted; drop; listen 1001, to run3 since "
        "1, pause 0\n"
        "close 3, 4\n"
        "old old old\n");
    feed_end();
    (void)follow(1);
    plan.learn_fails = 1 << 2;
    assert_string_equal(
        RUN(steps),
        "WARN the other replicas cannot be heard error=\"no learn 2\"\n");
    note_fresh();
    assert_string_equal(
        said(),
        "UP 1 2\n"
        "SAYS 2, read wanted; drop; listen 1001, to run1 since 0, pause 0\n"
        "close 1, 2\n"
        "awake\n"
        "open 3 wp:{ns/p0} and where\n"
        "open 4 wp:{ns/p0}\n"
        "send 3: SUBSCRIBE wp:peers\n"
        "send 3: SUBSCRIBE wp:{ns/p0}:feed wp:{ns/a}:feed wp:{ns/b}:feed\n"
        "receive 3, 3, 3, 3\n"
        "learn wp:{ns/a} by 4\n"
        "learn wp:{ns/b} by 4\n"
        "close 3, 4\n"
        "pause 250 ms\n"
        "old old fresh\n");
    feed_end();
}

static enum wp_status
find_nothing(void *self, struct wp_str key, struct wp_redis_server *out,
             struct wp_err *err)
{
    (void)self;
    (void)key;
    (void)out;
    return wp_err_set(err, WP_UNAVAILABLE, "not asked");
}

/* Behind a router each may be on another server. */
static void
test_learns_pools_where_they_are(void **state)
{
    static const struct wp_redis_router router = {.find = find_nothing};
    static const struct step steps[] = {{1000, false, add_two},
                                        {1, false, NULL}};

    (void)state;
    (void)follow(1);
    redis->config.redis.router = &router;
    assert_string_equal(RUN(steps), "");
    note_fresh();
    assert_string_equal(
        said(),
        "UP 1 2\n"
        "SAYS 2, read wanted; drop; listen 1001, to run1 since 0, pause 0\n"
        "close 1, 2\n"
        "awake\n"
        "open 3 wp:{ns/p0} and where\n"
        "open 4 wp:{ns/p0}\n"
        "send 3: SUBSCRIBE wp:peers\n"
        "send 3: SUBSCRIBE wp:{ns/p0}:feed wp:{ns/a}:feed wp:{ns/b}:feed\n"
        "receive 3, 3, 3, 3\n"
        "open 5 wp:{ns/a}\n"
        "learn wp:{ns/a} by 5\n"
        "close 5\n"
        "open 6 wp:{ns/b}\n"
        "learn wp:{ns/b} by 6\n"
        "close 6\n"
        "SAYS 4, read wanted wanted wanted; drop; listen 1001, to run3 since "
        "1, pause 0\n"
        "close 3, 4\n"
        "old old old\n");
    feed_end();
    (void)follow(1);
    redis->config.redis.router = &router;
    plan.open_fails = 1 << 6;
    plan.learn_fails = 1 << 3;
    assert_string_equal(
        RUN(steps),
        "WARN the other replicas cannot be heard error=\"no open 6\"\n");
    note_fresh();
    assert_string_equal(
        said(),
        "UP 1 2\n"
        "SAYS 2, read wanted; drop; listen 1001, to run1 since 0, pause 0\n"
        "close 1, 2\n"
        "awake\n"
        "open 3 wp:{ns/p0} and where\n"
        "open 4 wp:{ns/p0}\n"
        "send 3: SUBSCRIBE wp:peers\n"
        "send 3: SUBSCRIBE wp:{ns/p0}:feed wp:{ns/a}:feed wp:{ns/b}:feed\n"
        "receive 3, 3, 3, 3\n"
        "open 5 wp:{ns/a}\n"
        "learn wp:{ns/a} by 5\n"
        "close 5\n"
        "open 6 wp:{ns/b}\n"
        "close 3, 4\n"
        "pause 250 ms\n"
        "old old fresh\n");
    feed_end();
}

/* --- connections that are lost --- */

/* Twice as long each time, until it has heard itself. */
static void
test_pauses_after_what_was_lost(void **state)
{
    static const struct step steps[] = {
        {1000, true, NULL},
        {1, false, NULL},
        {1000, true, NULL},
        {1, false, NULL},
        {1000, true, NULL},
        {1, false, NULL},
        {1000, true, NULL},
        {1, false, NULL},
        {1000, true, NULL},
        {1, false, NULL},
        {1000, true, NULL},
        {1, false, NULL},
        {1000, true, NULL},
        {1, false, NULL},
        {1000, true, NULL},
        {1, false, NULL},
        {1000, false, hears_itself},
        {1000, true, NULL},
        {1, false, NULL},
        {1000, true, NULL},
        {1, false, NULL},
    };

    (void)state;
    (void)follow(1);
    assert_string_equal(RUN(steps), "");
    assert_string_equal(
        said(),
        "UP 1 2\n"
        "SAYS 2, read wanted; drop; listen 1001, to run1 since 0, pause 0\n"
        "close 1, 2\n"
        "pause 0 ms\n"
        "UP 3 4\n"
        "SAYS 4, read wanted; drop; listen 1001, to run3 since 1, pause 20\n"
        "close 3, 4\n"
        "pause 20 ms\n"
        "UP 5 6\n"
        "SAYS 6, read wanted; drop; listen 1001, to run5 since 2, pause 40\n"
        "close 5, 6\n"
        "pause 40 ms\n"
        "UP 7 8\n"
        "SAYS 8, read wanted; drop; listen 1001, to run7 since 3, pause 80\n"
        "close 7, 8\n"
        "pause 80 ms\n"
        "UP 9 10\n"
        "SAYS 10, read wanted; drop; listen 1001, to run9 since 4, pause 160\n"
        "close 9, 10\n"
        "pause 160 ms\n"
        "UP 11 12\n"
        "SAYS 12, read wanted; drop; listen 1001, to run11 since 5, pause 320\n"
        "close 11, 12\n"
        "pause 320 ms\n"
        "UP 13 14\n"
        "SAYS 14, read wanted; drop; listen 1001, to run13 since 6, pause 640\n"
        "close 13, 14\n"
        "pause 640 ms\n"
        "UP 15 16\n"
        "SAYS 16, read wanted; drop; listen 1001, to run15 since 7, pause "
        "1000\n"
        "close 15, 16\n"
        "pause 1000 ms\n"
        "UP 17 18\n"
        "SAYS 18, read wanted; drop; listen 1001, to run17 since 8, pause "
        "1000\n"
        "read -; drop; listen 1000, to run17 since 8, pause 0\n"
        "close 17, 18\n"
        "pause 0 ms\n"
        "UP 19 20\n"
        "SAYS 20, read wanted; drop; listen 1001, to run19 since 10, pause 20\n"
        "close 19, 20\n"
        "pause 20 ms\n"
        "UP 21 22\n"
        "close 21, 22\n");
    feed_end();
}

static void
test_turns_that_fail(void **state)
{
    static const struct step steps[] = {
        {1000000, false, hears_itself}, {1000, false, NULL}, {1, false, NULL}};

    (void)state;
    (void)follow(1);
    plan.call_fails = 1 << 2;
    assert_string_equal(RUN(steps), "");
    assert_string_equal(
        said(),
        "UP 1 2\n"
        "SAYS 2, read wanted; drop; listen 1001, to run1 since 0, pause 0\n"
        "SAYS 2, close 1, 2\n"
        "pause 0 ms\n"
        "UP 3 4\n"
        "SAYS 4, read wanted; drop; listen 1001, to run3 since 1001, pause 20\n"
        "close 3, 4\n");
    feed_end();
    (void)follow(1);
    plan.read_fails = 1 << 1;
    assert_string_equal(RUN(steps), "");
    assert_string_equal(
        said(),
        "UP 1 2\n"
        "SAYS 2, read wanted;close 1, 2\n"
        "pause 0 ms\n"
        "UP 3 4\n"
        "SAYS 4, read wanted; drop; listen 1001, to run3 since 1000, pause 20\n"
        "read -; drop; listen 1000, to run3 since 1000, pause 20\n"
        "close 3, 4\n");
    feed_end();
}

/* It has not heard itself for as long as another one would be gone, and a
 * heartbeat. */
static void
test_goes_deaf(void **state)
{
    static const struct step steps[] = {{1000000, false, hears_itself},
                                        {4000000, false, NULL},
                                        {1, false, NULL},
                                        {1, false, NULL}};

    (void)state;
    (void)follow(1);
    assert_string_equal(RUN(steps), "");
    assert_string_equal(
        said(),
        "UP 1 2\n"
        "SAYS 2, read wanted; drop; listen 1001, to run1 since 0, pause 0\n"
        "SAYS 2, read -; drop; listen 1001, to run1 since 0, pause 0\n"
        "SAYS 2, read -; drop; listen 1001, to run1 since 0, pause 0\n"
        "read -; drop; close 1, 2\n"
        "pause 0 ms\n"
        "UP 3 4\n"
        "close 3, 4\n");
    feed_end();
}

static void
meets_another_server(struct wp_redis_feed *feed)
{
    note("of it: %d %d\n", wp_redis_feed_is_of(feed, "run1"),
         wp_redis_feed_is_of(feed, "run9"));
}

/* Others are heard through another one: it calls anew, without a pause. */
static void
test_looks_for_its_server_anew(void **state)
{
    static const struct step steps[] = {{1000, false, meets_another_server},
                                        {1000, false, NULL}};
    struct wp_redis_feed *feed = follow(1);

    (void)state;
    assert_string_equal(RUN(steps), "");
    note("of none: %d, %d, locks %u\n", wp_redis_feed_is_of(feed, "run9"),
         atomic_load(&feed->elsewhere), n_locks);
    assert_string_equal(
        said(),
        "UP 1 2\n"
        "SAYS 2, read wanted; drop; listen 1001, to run1 since 0, pause 0\n"
        "wake 1\n"
        "of it: 1 0\n"
        "close 1, 2\n"
        "UP 3 4\n"
        "SAYS 4, read wanted; drop; listen 1001, to run3 since 1, pause 0\n"
        "close 3, 4\n"
        "of none: 1, 0, locks 9\n");
    feed_end();
}

/* What it is told while it does not hear anything is looked at when it calls. */
static void
hears_of_another_server(struct wp_redis_feed *feed)
{
    atomic_store(&feed->elsewhere, true);
}

static void
test_calls_once_when_it_has_to(void **state)
{
    static const struct step steps[] = {{1000, false, hears_of_another_server},
                                        {1000, false, NULL},
                                        {1000, false, NULL}};

    (void)state;
    (void)follow(1);
    plan.open_fails = 1 << 1;
    (void)RUN(steps);
    assert_string_equal(
        said(),
        "awake\n"
        "open 1 wp:{ns/p0} and where\n"
        "pause 250 ms\n"
        "UP 2 3\n"
        "SAYS 3, read wanted; drop; listen 1001, to run2 since 1, pause 0\n"
        "read -; drop; listen 1000, to run2 since 1, pause 0\n"
        "close 2, 3\n");
    feed_end();
}

/* Their silence counts from the latest call. */
static void
test_others_are_not_silent_before_it_hears(void **state)
{
    static const struct step steps[] = {
        {7000, true, NULL}, {20000, false, NULL}, {1, false, NULL}};
    struct wp_redis_feed *feed = follow(1);

    (void)state;
    feed->n_peers = 2;
    feed->peers[0] = (struct wp_feed_peer){
        .peer = {.host = "a"}, .heard_ns = 1, .met = true};
    feed->peers[1] = (struct wp_feed_peer){
        .peer = {.host = "b"}, .heard_ns = 2, .met = true};
    feed->peers[2] = (struct wp_feed_peer){.heard_ns = 3, .met = true};
    assert_string_equal(RUN(steps), "");
    assert_int_equal(feed->peers[2].heard_ns, 3);
    assert_true(feed->peers[2].met);
    note("heard itself at %lld, called at %lld, locks %u\n",
         since_begin_ms(feed->heard_self_ns), since_begin_ms(feed->called_ns),
         n_locks);
    assert_string_equal(said(), "UP 1 2\n"
                                "SAYS 2, read wanted; drop a of 0 b of 0; "
                                "listen 1001, to run1 since 0, pause 0\n"
                                "close 1, 2\n"
                                "pause 0 ms\n"
                                "UP 3 4\n"
                                "SAYS 4, read wanted; drop a of 27 b of 27; "
                                "listen 1001, to run3 since 27, pause 20\n"
                                "close 3, 4\n"
                                "heard itself at 27, called at 27, locks 8\n");
    feed_end();
}

/* --- the end --- */

static void
leaves(struct wp_redis_feed *feed)
{
    wp_lease_redis_set_state(feed->redis, 7, false);
    wp_lease_redis_leave(feed->redis);
}

static void
test_says_that_it_leaves(void **state)
{
    static const struct step leaves_at_last[] = {{1000, false, leaves}};
    static const struct step leaves_before[] = {{1000, false, leaves},
                                                {1000, false, NULL}};
    static const struct step leaves_unheard[] = {{1000, true, leaves},
                                                 {1000, false, NULL}};

    (void)state;
    (void)follow(1);
    assert_string_equal(RUN(leaves_at_last), "");
    assert_string_equal(
        said(),
        "UP 1 2\n"
        "SAYS 2, read wanted; drop; listen 1001, to run1 since 0, pause 0\n"
        "wake 1\n"
        "call 2: PUBLISH wp:peers 10123456789abcdef20000000007here\n"
        "close 1, 2\n");
    feed_end();
    (void)follow(1);
    assert_string_equal(RUN(leaves_before), "");
    assert_string_equal(
        said(),
        "UP 1 2\n"
        "SAYS 2, read wanted; drop; listen 1001, to run1 since 0, pause 0\n"
        "wake 1\n"
        "call 2: PUBLISH wp:peers 10123456789abcdef20000000007here\n"
        "read -; drop; listen 1001, to run1 since 0, pause 0\n"
        "close 1, 2\n");
    feed_end();
    (void)follow(1);
    assert_string_equal(RUN(leaves_unheard), "");
    assert_string_equal(
        said(),
        "UP 1 2\n"
        "SAYS 2, read wanted; drop; listen 1001, to run1 since 0, pause 0\n"
        "wake 1\n"
        "close 1, 2\n"
        "pause 0 ms\n"
        "UP 3 4\n"
        "call 4: PUBLISH wp:peers 10123456789abcdef20000000007here\n"
        "close 3, 4\n");
    feed_end();
    (void)follow(1);
    plan.open_fails = 1 << 1;
    assert_string_equal(
        RUN(leaves_at_last),
        "WARN the other replicas cannot be heard error=\"no open 1\"\n");
    assert_string_equal(said(), "awake\n"
                                "open 1 wp:{ns/p0} and where\n"
                                "pause 250 ms\n"
                                "wake 1\n");
    feed_end();
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_turns),
        cmocka_unit_test(test_waits_for_the_first_that_is_wanted),
        cmocka_unit_test(test_no_pool_is_wanted_before_its_time),
        cmocka_unit_test(test_subscribes_in_groups),
        cmocka_unit_test(test_calls_for_the_pools_there_are),
        cmocka_unit_test(test_the_longest_names),
        cmocka_unit_test(test_answers_among_messages),
        cmocka_unit_test(test_calls_that_fail),
        cmocka_unit_test(test_what_is_said_of_calls_that_fail),
        cmocka_unit_test(test_learns_pools_that_were_added),
        cmocka_unit_test(test_learns_pools_where_they_are),
        cmocka_unit_test(test_pauses_after_what_was_lost),
        cmocka_unit_test(test_turns_that_fail),
        cmocka_unit_test(test_goes_deaf),
        cmocka_unit_test(test_looks_for_its_server_anew),
        cmocka_unit_test(test_calls_once_when_it_has_to),
        cmocka_unit_test(test_others_are_not_silent_before_it_hears),
        cmocka_unit_test(test_says_that_it_leaves),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
