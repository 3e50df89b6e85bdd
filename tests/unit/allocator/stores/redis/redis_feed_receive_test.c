/* tests/unit/allocator/stores/redis/redis_feed_receive_test.c - what the feed
 * hears: changes in order and out of it, replicas that come and go, and for how
 * long it listens. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>

#include <hiredis/hiredis.h>

#include "tests/support/base/heard.h"
#include "tests/unit/allocator/stores/redis/redis_hears_rig.h"
#include "tests/unit/allocator/stores/redis/redis_journal.h"

/* The pools' channel does not matter: records name their pool. */
#define CHANNEL "wp:{ns/p}:feed"

#define OTHER_2 "00000000000000a2"
#define OTHER_3 "10000000000000a2"
#define OTHER_4 "20000000000000a2"

static void
change(const char *writer, unsigned n, const char *pool, uint8_t uid)
{
    hear(CHANNEL, change_text(writer, n, pool, uid));
    note_feed();
}

/* --- messages --- */

static void
test_takes_messages_only(void **state)
{
    static const char *const others[] = {
        "$7\r\nmessage\r\n",
        "*2\r\n$7\r\nmessage\r\n$8\r\nwp:peers\r\n",
        "*4\r\n$7\r\nmessage\r\n$8\r\nwp:peers\r\n$1\r\nx\r\n$1\r\ny\r\n",
        "*3\r\n+message\r\n$8\r\nwp:peers\r\n$1\r\nx\r\n",
        "*3\r\n$7\r\nmessage\r\n+wp:peers\r\n$1\r\nx\r\n",
        "*3\r\n$7\r\nmessage\r\n$8\r\nwp:peers\r\n+x\r\n",
        "*3\r\n$8\r\nmessages\r\n$8\r\nwp:peers\r\n$1\r\nx\r\n",
        "*3\r\n$9\r\nsubscribe\r\n$8\r\nwp:peers\r\n:1\r\n",
    };

    (void)state;
    hears_begin();
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        struct redisReply *reply = reply_of(others[i]);

        wp_redis_feed_on_message(feed, reply);
        freeReplyObject(reply);
    }
    note_feed();
    hear("wp:peers", "x");
    note_feed();
    hear("wp:peer", "x");
    note_feed();
    hear("wp:peers:", "");
    note_feed();
    assert_string_equal(
        journal_take(),
        " |0 0 |0 0 |0 0| heard 0, gaps 0, corrupt 0, syncs 0 - 0\n"
        " |0 0 |0 0 |0 0| heard 0, gaps 0, corrupt 1, syncs 0 - 0\n"
        " |0 0 |0 0 |0 0| heard 0, gaps 0, corrupt 2, syncs 0 - 0, another\n"
        " |0 0 |0 0 |0 0| heard 0, gaps 0, corrupt 3, syncs 0 - 0, another\n");
    hears_end();
}

/* --- changes --- */

static void
test_changes_in_order(void **state)
{
    (void)state;
    hears_begin();
    feed->pools[0].base = 40;
    change(OTHER, 41, "p", 1);
    change(OTHER, 42, "p", 2);
    clock_ns += 1000;
    change(OTHER, 42, "p", 2); /* Told twice. */
    change(OTHER, 43, "p2", 3);
    change(OTHER, 42, "p", 4);
    feed->pools[0].wanted = false;
    clock_ns += 5 * WP_NS_PER_MS;
    change(OTHER, 45, "p", 5);
    assert_string_equal(
        journal_take(),
        "record 01 of ns/p, state 1, fence 1001\n"
        " |42 40 |0 0 |0 0| heard 1, gaps 0, corrupt 0, syncs 0 - 0, another\n"
        "record 02 of ns/p, state 1, fence 1002\n"
        " |43 40 |0 0 |0 0| heard 2, gaps 0, corrupt 0, syncs 0 - 0, another\n"
        "record 02 of ns/p, state 1, fence 1002\n"
        " |43 40 wanted at 20001 |0 0 |0 0| heard 3, gaps 1, corrupt 0, syncs "
        "0 - 0, another\n"
        "record 03 of ns/p2, state 1, fence 1003\n"
        " |43 40 wanted at 20001 |44 0 wanted at 20001 |0 0| heard 4, gaps 2, "
        "corrupt 0, syncs 0 - 0, another\n"
        "record 04 of ns/p, state 1, fence 1004\n"
        " |43 40 wanted at 20001 |44 0 wanted at 20001 |0 0| heard 5, gaps 2, "
        "corrupt 0, syncs 0 - 0, another\n"
        "record 05 of ns/p, state 1, fence 1005\n"
        " |46 40 wanted at 25001 |44 0 wanted at 20001 |0 0| heard 6, gaps 3, "
        "corrupt 0, syncs 0 - 0, another\n");
    hears_end();
}

/* The first one after a reading may be one that was read, but none may be
 * missing. */
static void
test_the_first_change_after_a_reading(void **state)
{
    (void)state;
    hears_begin();
    for (unsigned n = 9; n < 13; n++) {
        feed->pools[2] = (struct wp_feed_pool){.base = 10};
        change(OTHER, n, "q", (uint8_t)n);
    }
    assert_string_equal(
        journal_take(),
        "record 09 of ns/q, state 1, fence 1009\n"
        " |0 0 |0 0 |10 10| heard 1, gaps 0, corrupt 0, syncs 0 - 0, another\n"
        "record 0a of ns/q, state 1, fence 1010\n"
        " |0 0 |0 0 |11 10| heard 2, gaps 0, corrupt 0, syncs 0 - 0, another\n"
        "record 0b of ns/q, state 1, fence 1011\n"
        " |0 0 |0 0 |12 10| heard 3, gaps 0, corrupt 0, syncs 0 - 0, another\n"
        "record 0c of ns/q, state 1, fence 1012\n"
        " |0 0 |0 0 |13 10 wanted at 20000| heard 4, gaps 1, corrupt 0, syncs "
        "0 - 0, another\n");
    hears_end();
}

static void
test_a_gap_is_read_again_after_a_while(void **state)
{
    (void)state;
    hears_begin();
    feed->pools[0] = (struct wp_feed_pool){.expect = 5, .again_ms = 70};
    change(OTHER, 6, "p", 1);
    feed->pools[0] = (struct wp_feed_pool){
        .expect = 5, .read_at_ns = clock_ns + 20 * WP_NS_PER_MS + 1000};
    change(OTHER, 6, "p", 1);
    feed->pools[0] = (struct wp_feed_pool){
        .expect = 5, .read_at_ns = clock_ns + 20 * WP_NS_PER_MS - 1000};
    change(OTHER, 6, "p", 1);
    feed->pools[0] = (struct wp_feed_pool){
        .expect = 5, .again_ms = 1, .read_at_ns = clock_ns};
    change(OTHER, 6, "p", 1);
    assert_string_equal(journal_take(),
                        "record 01 of ns/p, state 1, fence 1001\n"
                        " |7 0 wanted at 70000 again 70 |0 0 |0 0| heard 1, "
                        "gaps 1, corrupt 0, syncs 0 - 0, another\n"
                        "record 01 of ns/p, state 1, fence 1001\n"
                        " |7 0 wanted at 20001 |0 0 |0 0| heard 2, gaps 2, "
                        "corrupt 0, syncs 0 - 0, another\n"
                        "record 01 of ns/p, state 1, fence 1001\n"
                        " |7 0 wanted at 20000 |0 0 |0 0| heard 3, gaps 3, "
                        "corrupt 0, syncs 0 - 0, another\n"
                        "record 01 of ns/p, state 1, fence 1001\n"
                        " |7 0 wanted at 1000 again 1 |0 0 |0 0| heard 4, gaps "
                        "4, corrupt 0, syncs 0 - 0, another\n");
    hears_end();
}

/* Several in one message: of this replica's own only the first is read, to know
 * the pool. */
static void
test_several_changes(void **state)
{
    char text[4096];
    size_t len = 0;

    (void)state;
    hears_begin();
    for (int own = 0; own < 2; own++) {
        len = (size_t)snprintf(text, sizeof text, "2%s%020u",
                               own ? SELF : OTHER, 1 + 3 * own);
        for (uint8_t i = 1; i < 4; i++) {
            const char *packed = packed_text("p", i);

            len += (size_t)snprintf(text + len, sizeof text - len,
                                    "r%032x%04zu%s", i, strlen(packed), packed);
        }
        hear(CHANNEL, text);
        note_feed();
        feed->heard_other = false;
    }
    feed->reading = &feed->pools[0];
    hear(CHANNEL, text);
    note_feed();
    feed->reading = &feed->pools[1];
    hear(CHANNEL, text);
    note_feed();
    feed->reading = NULL;
    text[len - 1] = 'x';
    hear(CHANNEL, text);
    note_feed();
    text[0] = '1';
    hear(CHANNEL, text);
    note_feed();
    assert_string_equal(
        journal_take(),
        "record 01 of ns/p, state 1, fence 1001\n"
        "record 02 of ns/p, state 1, fence 1002\n"
        "record 03 of ns/p, state 1, fence 1003\n"
        " |4 0 |0 0 |0 0| heard 3, gaps 0, corrupt 0, syncs 0 - 0, another\n"
        " |7 0 |0 0 |0 0| heard 3, gaps 0, corrupt 0, syncs 0 - 0\n"
        "record 01 of ns/p, state 1, fence 1001\n"
        "record 02 of ns/p, state 1, fence 1002\n"
        "record 03 of ns/p, state 1, fence 1003\n"
        " |7 0 wanted read at 20000 |0 0 |0 0| heard 6, gaps 1, corrupt 0, "
        "syncs 0 - 0\n"
        " |7 0 wanted at 20000 |0 0 read |0 0| heard 6, gaps 1, corrupt 0, "
        "syncs 0 - 0\n"
        " |7 0 wanted at 20000 |0 0 |0 0| heard 6, gaps 1, corrupt 0, syncs 0 "
        "- 0\n"
        " |7 0 wanted at 20000 |0 0 |0 0| heard 6, gaps 1, corrupt 1, syncs 0 "
        "- 0\n");
    hears_end();
}

/* The changes before one that cannot be read count; it is missed later. */
static void
test_changes_that_cannot_be_read(void **state)
{
    const char *packed;
    char text[2048];

    (void)state;
    hears_begin();
    hear(CHANNEL, "");
    note_feed();
    hear(CHANNEL, "3" OTHER);
    note_feed();
    change(OTHER, 1, "unknown", 1);
    packed = packed_text("p", 1);
    (void)snprintf(text, sizeof text, "1%s%020u%032x%s9", OTHER, 1, 1, packed);
    hear(CHANNEL, text);
    note_feed();
    (void)snprintf(text, sizeof text, "2%s%020ur%032x%04zu%sr%032x0002xx",
                   OTHER, 1, 1, strlen(packed), packed, 2);
    hear(CHANNEL, text);
    note_feed();
    (void)snprintf(text, sizeof text, "2%s%020ur%032x%04zu%ss%032x0002xx",
                   OTHER, 2, 1, strlen(packed), packed, 2);
    hear(CHANNEL, text);
    note_feed();
    assert_string_equal(
        journal_take(),
        " |0 0 |0 0 |0 0| heard 0, gaps 0, corrupt 1, syncs 0 - 0, another\n"
        " |0 0 |0 0 |0 0| heard 0, gaps 0, corrupt 2, syncs 0 - 0, another\n"
        " |0 0 |0 0 |0 0| heard 0, gaps 0, corrupt 3, syncs 0 - 0, another\n"
        " |0 0 |0 0 |0 0| heard 0, gaps 0, corrupt 4, syncs 0 - 0, another\n"
        "record 01 of ns/p, state 1, fence 1001\n"
        " |2 0 |0 0 |0 0| heard 1, gaps 0, corrupt 5, syncs 0 - 0, another\n"
        "record 01 of ns/p, state 1, fence 1001\n"
        " |3 0 |0 0 |0 0| heard 2, gaps 0, corrupt 6, syncs 0 - 0, another\n");
    hears_end();
}

static void
test_a_full_receiver_is_told_again(void **state)
{
    (void)state;
    hears_begin();
    plan.full = true;
    change(OTHER, 1, "p", 1);
    plan.full = false;
    redis->config.sink.on_record = NULL;
    change(OTHER, 1, "q", 1);
    assert_string_equal(journal_take(),
                        "record 01 of ns/p, state 1, fence 1001\n"
                        " |2 0 wanted at 20000 |0 0 |0 0| heard 1, gaps 0, "
                        "corrupt 0, syncs 0 - 0, another\n"
                        " |2 0 wanted at 20000 |0 0 |2 0| heard 2, gaps 0, "
                        "corrupt 0, syncs 0 - 0, another\n");
    hears_end();
}

/* --- pools that were closed --- */

static void
test_pools_that_were_closed(void **state)
{
    static struct heard heard;

    (void)state;
    hears_begin();
    heard_begin(&heard);
    hear("wp:{ns/p", "c0000000000000009");
    hear("wp:{ns/p}", "c0000000000000009");
    hear("wp:{ns/p}.feed", "c0000000000000009");
    hear("wp:{ns/x}:feed", "c0000000000000009");
    note_feed();
    (void)snprintf(redis->pools[3].key, sizeof redis->pools[3].key,
                   "wp:{ns/z}");
    redis->pools[3].key_len = 9;
    atomic_store(&redis->pools[3].generation, 8);
    hear("wp:{ns/z}:feed", "c0000000000000009"); /* Not added yet. */
    hear("wp:{ns/p2}:", "c0000000000000009");
    feed->heard_other = false;
    hear("wp:{ns/q}:feed", "c0000000000000003");
    hear("wp:{ns/p}:feed", "c0000000000000002");
    note_feed();
    assert_string_equal(heard_end(&heard),
                        "WARN redis may have forgotten: the pool takes no "
                        "commits until it is recovered namespace=ns pool=p2\n"
                        "WARN redis may have forgotten: the pool takes no "
                        "commits until it is recovered namespace=ns pool=p\n");
    assert_string_equal(
        journal_take(),
        " |0 0 |0 0 |0 0| heard 0, gaps 0, corrupt 0, syncs 0 - 0, another\n"
        "in doubt: p2\n"
        "in doubt: p\n"
        " |0 0 |0 0 |0 0| heard 0, gaps 0, corrupt 0, syncs 0 - 0, another\n");
    assert_int_equal(redis->pools[0].generation, 0);
    assert_int_equal(redis->pools[1].generation, 0);
    assert_int_equal(redis->pools[2].generation, 3);
    hears_end();
}

/* --- replicas --- */

static void
beat(const char *payload)
{
    hear("wp:peers", payload);
    note("then%s%s: ", feed->heard_other ? " another" : "",
         feed->says_now ? " says" : "");
    note_peers();
    feed->heard_other = false;
    atomic_store(&feed->says_now, false);
    clock_ns += WP_NS_PER_MS;
}

static void
test_replicas_that_are_heard(void **state)
{
    (void)state;
    hears_begin();
    beat("1" OTHER "00000000000a");
    beat("1" OTHER "00000000000a");
    beat("1" OTHER "00000000007a");
    beat("1" OTHER "10000000007a");
    beat("1" OTHER "30000000007a");
    beat("1" OTHER "30000000007b");
    beat("1" SELF "30000000007b");
    beat("1" OTHER_2 "00000000001c");
    beat("1" OTHER_3 "00000000001d");
    feed->peers[0].met = false;
    beat("1" OTHER "30000000007b");
    beat("1" OTHER "40000000007b");
    note_feed();
    redis->config.sink.on_peer = NULL;
    beat("1" OTHER_4 "00000000001e");
    assert_string_equal(
        journal_take(),
        "peer a\n"
        "then another says: a1 a waits 0, heard at 0 met\n"
        "itself at -1, locks 1, says\n"
        "then another: a1 a waits 0, heard at 1000 met\n"
        "itself at -1, locks 2\n"
        "peer a\n"
        "then another: a1 a waits 7, heard at 2000 met\n"
        "itself at -1, locks 3\n"
        "peer a\n"
        "then another: a1 a waits 7 keeps, heard at 3000 met\n"
        "itself at -1, locks 4\n"
        "peer a\n"
        "then another: a1 a waits 7 keeps leaves, heard at 4000 met\n"
        "itself at -1, locks 5\n"
        "then another: a1 b waits 7 keeps leaves, heard at 5000 met\n"
        "itself at -1, locks 6\n"
        "then: a1 b waits 7 keeps leaves, heard at 5000 met\n"
        "itself at 6000, locks 6\n"
        "peer c\n"
        "then another says: a1 b waits 7 keeps leaves, heard at 5000 met\n"
        "a2 c waits 1, heard at 7000 met\n"
        "itself at 6000, locks 7, says\n"
        "peer d\n"
        "then another says: a1 b waits 7 keeps leaves, heard at 5000 met\n"
        "a2 c waits 1, heard at 7000 met\n"
        "a2 d waits 1, heard at 8000 met\n"
        "itself at 6000, locks 8, says\n"
        "then another says: a1 b waits 7 keeps leaves, heard at 9000 met\n"
        "a2 c waits 1, heard at 7000 met\n"
        "a2 d waits 1, heard at 8000 met\n"
        "itself at 6000, locks 9, says\n"
        "then: a1 b waits 7 keeps leaves, heard at 9000 met\n"
        "a2 c waits 1, heard at 7000 met\n"
        "a2 d waits 1, heard at 8000 met\n"
        "itself at 6000, locks 9\n"
        " |0 0 |0 0 |0 0| heard 0, gaps 0, corrupt 1, syncs 0 - 0\n"
        "then another says: a1 b waits 7 keeps leaves, heard at 9000 met\n"
        "a2 c waits 1, heard at 7000 met\n"
        "a2 d waits 1, heard at 8000 met\n"
        "a2 e waits 1, heard at 11000 met\n"
        "itself at 6000, locks 10, says\n");
    hears_end();
}

static void
test_as_many_replicas_as_there_may_be(void **state)
{
    char text[64];

    (void)state;
    hears_begin();
    for (unsigned i = 0; i < WP_PEERS_MAX - 1; i++) {
        (void)snprintf(text, sizeof text, "1%016x00000000000h", 0x100 + i);
        hear("wp:peers", text);
    }
    assert_int_equal(feed->n_peers, WP_PEERS_MAX - 1);
    journal_begin();
    /* It was there before, and has gone. */
    feed->peers[WP_PEERS_MAX - 1].met = true;
    feed->peers[WP_PEERS_MAX - 1].peer.replica_id[7] = 0xa1;
    atomic_store(&feed->says_now, false);
    hear("wp:peers", "1" OTHER "00000000000last");
    assert_true(feed->says_now);
    assert_int_equal(feed->n_peers, WP_PEERS_MAX);
    assert_string_equal(feed->peers[WP_PEERS_MAX - 1].peer.host, "last");
    atomic_store(&feed->says_now, false);
    hear("wp:peers", "100000000000000a200000000000more");
    assert_false(feed->says_now);
    hear("wp:peers", "1" OTHER "00000000001last");
    assert_int_equal(feed->n_peers, WP_PEERS_MAX);
    assert_string_equal(journal_take(), "peer last\npeer last\n");
    hears_end();
}

static void
test_replicas_that_fall_silent(void **state)
{
    (void)state;
    hears_begin();
    for (uint32_t i = 0; i < 5; i++) {
        struct wp_feed_peer *peer = &feed->peers[i];

        peer->heard_ns = clock_ns - 3 * WP_NS_PER_S + (i % 2 == 0 ? 0 : 1);
        (void)snprintf(peer->peer.host, sizeof peer->peer.host, "h%u", i);
    }
    feed->n_peers = 5;
    wp_redis_feed_drop_silent(feed);
    note_peers();
    redis->config.sink.on_peer = NULL;
    clock_ns++;
    wp_redis_feed_drop_silent(feed);
    note_peers();
    assert_string_equal(journal_take(), "gone h0\n"
                                        "gone h4\n"
                                        "gone h2\n"
                                        "00 h3 waits 0, heard at -2999999\n"
                                        "00 h1 waits 0, heard at -2999999\n"
                                        "itself at -1, locks 3\n"
                                        "itself at -1, locks 5\n");
    hears_end();
}

/* --- listening --- */

static void
listen_for(int wait_ms)
{
    note("-> %d", wp_redis_feed_listen(feed, wait_ms));
    note("%s\n", feed->heard_other ? ", another" : "");
}

/* After its own only it rests for two milliseconds, without looking. */
static void
test_how_long_it_waits(void **state)
{
    (void)state;
    hears_begin();
    listen_for(3);
    listen_for(3);
    feed->heard_other = false;
    listen_for(2);
    feed->heard_other = false;
    plan.poll_result = -1;
    plan.has_come = true;
    listen_for(-1);
    assert_string_equal(journal_take(), "poll 1 for 2 ms\n"
                                        "-> 1, another\n"
                                        "poll 2 for 3 ms\n"
                                        "-> 1, another\n"
                                        "poll 2 for 2 ms\n"
                                        "-> 1, another\n"
                                        "poll 2 for -1 ms\n"
                                        "-> 1, another\n");
    hears_end();
}

static void
test_what_it_takes_in(void **state)
{
    static char change_of_other[2048];

    (void)state;
    hears_begin();
    feed->heard_other = true;
    plan.poll_result = 1;
    plan.woken = true;
    listen_for(9); /* Only woken. */
    plan.has_come = true;
    plan.poll_result = 2;
    listen_for(9); /* Both; nothing whole has come. */
    plan.woken = false;
    feed->heard_other = true;
    plan.take_fails = true;
    listen_for(9);
    plan.take_fails = false;
    plan.next_fails = true;
    listen_for(9);
    (void)snprintf(change_of_other, sizeof change_of_other, "%s",
                   message_text(CHANNEL, change_text(OTHER, 1, "p", 1)));
    plan.come[0] = change_of_other;
    plan.come[1] = "*3\r\n$9\r\nsubscribe\r\n$1\r\nx\r\n:1\r\n";
    plan.come[2] = change_of_other;
    plan.next_fails = false;
    feed->heard_other = true;
    listen_for(9);
    note_feed();
    assert_string_equal(journal_take(),
                        "poll 2 for 9 ms\n"
                        "awake\n"
                        "-> 1, another\n"
                        "poll 2 for 9 ms\n"
                        "awake\n"
                        "take in 1\n"
                        "no next 1\n"
                        "-> 1\n"
                        "poll 2 for 9 ms\n"
                        "take in 1\n"
                        "-> 0, another\n"
                        "poll 2 for 9 ms\n"
                        "take in 1\n"
                        "no next 1\n"
                        "-> 0\n"
                        "poll 2 for 9 ms\n"
                        "take in 1\n"
                        "record 01 of ns/p, state 1, fence 1001\n"
                        "record 01 of ns/p, state 1, fence 1001\n"
                        "no next 1\n"
                        "-> 1, another\n"
                        " |2 0 wanted at 20000 |0 0 |0 0| heard 2, gaps 1, "
                        "corrupt 0, syncs 0 - 0, another\n");
    hears_end();
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_takes_messages_only),
        cmocka_unit_test(test_changes_in_order),
        cmocka_unit_test(test_the_first_change_after_a_reading),
        cmocka_unit_test(test_a_gap_is_read_again_after_a_while),
        cmocka_unit_test(test_several_changes),
        cmocka_unit_test(test_changes_that_cannot_be_read),
        cmocka_unit_test(test_a_full_receiver_is_told_again),
        cmocka_unit_test(test_pools_that_were_closed),
        cmocka_unit_test(test_replicas_that_are_heard),
        cmocka_unit_test(test_as_many_replicas_as_there_may_be),
        cmocka_unit_test(test_replicas_that_fall_silent),
        cmocka_unit_test(test_how_long_it_waits),
        cmocka_unit_test(test_what_it_takes_in),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
