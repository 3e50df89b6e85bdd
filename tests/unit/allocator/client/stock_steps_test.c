/* A stock of leases ahead, step by step: what is said on its stream, what it
 * calls for, when it looks again, and what becomes of each slot. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pool/base/clock.h"
#include "tests/unit/allocator/client/stock_rig.h"

/* --- The stream --- */

static void
test_a_stream_from_its_opening_on(void **state)
{
    (void)state;
    show();
    turn();
    client.connected = true;
    stock->reopen_ns = BEGIN_NS + 1;
    turn();
    may_start = false;
    turn_at(BEGIN_NS + 1);
    show();
    may_start = true;
    turn_at(BEGIN_NS + MS(20));
    turn_at(BEGIN_NS + MS(20) + 1);
    show();
    turn();
    take();
    hear_leases(1, 3, TTL_MS);
    show();
    turn();
    show();
    /* Not sent yet: it looks again soon. */
    may_send = false;
    take();
    take();
    stock->slots[2].useful_ns = now_ns;
    take();
    turn();
    show();
    may_send = true;
    turn_at(now_ns + MS(10));
    show();
    turn_at(now_ns + MS(50) - 1);
    turn_at(now_ns + 1);
    show();
    hear_of(1, 2);
    show();
    turn();
    golden_compare(seen.text, GOLDEN("stock_opens"));
}

/* One that is taken and one that is given back, each alone and together. */
static void
test_what_is_told(void **state)
{
    (void)state;
    bring_open();
    hear_leases(1, 4, TTL_MS);
    take();
    turn();
    stock->slots[1].useful_ns = now_ns;
    stock->slots[3].useful_ns = now_ns + 1;
    wp_stock_set_slot_state(stock, wp_stock_get(stock), WP_STOCK_SLOT_OLD);
    turn();
    wp_stock_set_slot_state(stock, wp_stock_get(stock), WP_STOCK_SLOT_OLD);
    take();
    show();
    turn();
    show();
    turn_at(BEGIN_NS + MS(50));
    /* The one doze is for the first of those that come. */
    hear_leases(8, 3, TTL_MS);
    take();
    take();
    show();
    hear_of(1, 0);
    hear_of(4, 0);
    may_send = false;
    turn();
    show();
    /* What is in stock is no news, of whatever number. */
    stock->busy_until_ns = 0;
    drain();
    for (uint32_t i = 0; i < WP_STOCK_SLOTS; i++) {
        wp_stock_set_slot_state(stock, i, WP_STOCK_SLOT_FREE);
    }
    hear_leases(4, 1, TTL_MS);
    turn();
    show();
    golden_compare(seen.text, GOLDEN("stock_tells"));
}

/* What is left of the last one's time is of no use to the next in its place. */
static void
test_a_slot_begins_anew(void **state)
{
    (void)state;
    bring_open();
    hear_leases(1, 1, TTL_MS);
    stock->slots[0].told = true;
    stock->slots[0].settled = true;
    take();
    hear_of(1, 0);
    now_ns += MS(7);
    hear_leases(2, 2, TTL_MS + 1);
    show();
    hear_of(0, 2);
    show();
    take();
    show();
    hear_of(2, 2);
    hear_of(0, 3);
    show();
    /* A number whose lowest byte is zero is no free slot either. */
    wp_stock_set_slot_state(stock, 0, WP_STOCK_SLOT_FREE);
    wp_stock_set_slot_state(stock, 1, WP_STOCK_SLOT_FREE);
    for (uint32_t i = 0; i < 5; i++) {
        hear_leases(256 + 100 * i, 100, TTL_MS);
    }
    hear_leases(1000, 12, TTL_MS);
    hear_leases(2000, 1, TTL_MS);
    hear_of(2000, 2000);
    show_head();
    show_slot(0);
    show_slot(499);
    show_slot(511);
    golden_compare(seen.text, GOLDEN("stock_slots"));
}

static void
test_a_stream_that_was_cut_resumes(void **state)
{
    (void)state;
    bring_open();
    hear_leases(1, 7, TTL_MS);
    take();
    turn();
    take();
    wp_stock_set_slot_state(stock, wp_stock_get(stock), WP_STOCK_SLOT_OLD);
    wp_stock_set_slot_state(stock, wp_stock_get(stock), WP_STOCK_SLOT_RENEWING);
    stock->slots[5].number = WP_STOCK_NUMBER_NONE;
    stock->n_in = 4;
    stock->reopen_ns = now_ns + MS(5);
    wp_stock_unreachable(stock, "no route");
    wp_stock_cut(stock);
    show();
    take();
    client.connected = false;
    turn();
    client.connected = true;
    turn_at(now_ns + 1);
    show();
    take();
    assert_true(hear(&(struct wp_wire_stream_response){.n_leases = 0}));
    show();
    turn();
    golden_compare(seen.text, GOLDEN("stock_resumes"));
}

/* Of each no more than a message may have. */
static void
test_more_than_a_message_holds(void **state)
{
    (void)state;
    bring_open();
    for (uint32_t i = 0; i < 5; i++) {
        hear_leases(1 + 100 * i, 100, TTL_MS);
    }
    for (uint32_t i = 0; i < 257; i++) {
        wp_stock_set_slot_state(stock, wp_stock_get(stock),
                                WP_STOCK_SLOT_TAKEN);
    }
    turn();
    turn();
    wp_stock_cut(stock);
    turn();
    assert_true(hear(&(struct wp_wire_stream_response){.n_leases = 0}));
    for (uint32_t i = 0; i < 257; i++) {
        wp_stock_set_slot_state(stock, i, WP_STOCK_SLOT_OLD);
    }
    turn();
    show_head();
    show_slot(255);
    show_slot(256);
    turn();
    for (uint32_t i = 0; i < 257; i++) {
        wp_stock_set_slot_state(stock, i, WP_STOCK_SLOT_STOCKED);
    }
    wp_stock_cut(stock);
    turn();
    golden_compare(seen.text, GOLDEN("stock_much"));
}

/* And a name of its own for each stream that begins anew. */
static void
test_each_end_of_a_stream(void **state)
{
    static const struct {
        int status;
        const char *details;
    } ends[] = {
        {WARMPOOL_OK, "well"},
        {WP_H2_NO_STATUS, ""},
        {WP_H2_NO_STATUS, "goodbye"},
        {WARMPOOL_RESOURCE_EXHAUSTED, "too many streams"},
    };
    char much[240];

    (void)state;
    memset(much, 'm', sizeof much - 1);
    much[sizeof much - 1] = '\0';
    for (size_t i = 0; i < WP_ARRAY_LEN(ends); i++) {
        bring_open();
        hear_leases(1, 2, TTL_MS);
        take();
        stock->n_in = 3;
        stream_ends(ends[i].status, ends[i].details);
        turn();
        drain();
        for (uint32_t k = 0; k < WP_STOCK_SLOTS; k++) {
            wp_stock_set_slot_state(stock, k, WP_STOCK_SLOT_FREE);
        }
        while (!wp_list_empty(&client.queue)) {
            answer(start_job(), WARMPOOL_OK);
        }
        now_ns += MS(33);
    }
    /* Before the first answer there is nothing to be settled. */
    stock->resumes = false;
    turn();
    stream_ends(14, "leaves");
    turn_at(now_ns + MS(33) - 1);
    turn_at(now_ns + 1);
    stream_ends(WP_H2_NO_STATUS, much);
    turn_at(now_ns + MS(33));
    stream_ends(14, much);
    golden_compare(seen.text, GOLDEN("stock_ends"));
}

static void
test_what_makes_no_sense(void **state)
{
    static const uint8_t parts[] = {0, 0, 0, 0, 2, 0x12};
    static uint8_t much[WP_STOCK_IN + 1];
    uint8_t head[WP_H2_FRAME_HEAD] = {0};

    (void)state;
    bring_open();
    hear_leases(1, 1, TTL_MS);
    assert_true(wp_stock_received(&stock->call, parts, 5));
    assert_true(wp_stock_received(&stock->call, parts + 5, 1));
    show();
    assert_memory_equal(stock->in, parts, sizeof parts);
    assert_false(wp_stock_received(&stock->call, (const uint8_t *)"\xff", 1));
    show();
    stock->n_in = 0;
    /* As much as there is room for, and one more. */
    memcpy(much, "\0\0\0\xff\xfb", 5);
    assert_true(wp_stock_received(&stock->call, much, WP_STOCK_IN - 1));
    assert_false(wp_stock_received(&stock->call, much, 2));
    show();
    wp_stock_note_lacking(stock, WARMPOOL_OK, "");
    assert_false(wp_stock_received(&stock->call, much, 1));
    show();
    stock->n_in = 0;
    assert_false(wp_stock_received(&stock->call, much, sizeof much));
    for (unsigned i = 0; i < 5; i++) {
        memset(head, 0, sizeof head);
        head[i] = 1;
        stock->n_in = 0;
        NOTE("head %u: %d\n", i,
             wp_stock_received(&stock->call, head, sizeof head));
    }
    stock->n_in = 0;
    assert_true(hear(&(struct wp_wire_stream_response){
        .lacking_code = 8, .lacking = WP_STR("none is ready")}));
    show_head();
    assert_true(hear(&(struct wp_wire_stream_response){.n_leases = 0}));
    show_head();
    hear_leases(2, 1, TTL_MS);
    show_head();
    golden_compare(seen.text, GOLDEN("stock_hears"));
}

/* Whole ones are heard at once, and the rest is kept for what follows. */
static void
test_messages_that_come_together(void **state)
{
    const struct wp_wire_stream_response lacks[] = {
        {.lacking_code = 8, .lacking = WP_STR("the first")},
        {.lacking_code = 4, .lacking = WP_STR("second")},
        {.lacking_code = 14, .lacking = WP_STR("the third, in two parts")},
    };
    static uint8_t bytes[256];
    size_t len = 0;

    (void)state;
    bring_open();
    for (size_t i = 0; i < WP_ARRAY_LEN(lacks); i++) {
        size_t size = wp_wire_size_stream_response(&lacks[i]);

        assert_true(len + WP_H2_FRAME_HEAD + size <= sizeof bytes);
        bytes[len + 4] = (uint8_t)size;
        len += WP_H2_FRAME_HEAD;
        len += wp_wire_pack_stream_response(&lacks[i], bytes + len);
    }
    assert_true(wp_stock_received(&stock->call, bytes, len - 9));
    show();
    assert_memory_equal(stock->in, bytes + len - 9 - stock->n_in, stock->n_in);
    assert_true(wp_stock_received(&stock->call, bytes + len - 9, 8));
    show();
    assert_true(wp_stock_received(&stock->call, bytes + len - 1, 1));
    show();
    golden_compare(seen.text, GOLDEN("stock_together"));
}

/* No more is moved to the front than there is behind it. */
static void
test_a_message_of_half_the_room(void **state)
{
    static struct wp_wire_lease_ahead leases[100];
    static char id[WP_CLAIM_ID_MAX + 1];
    struct wp_grant grant = {.fence = 1,
                             .deadline_wall_ms = WALL_MS + TTL_MS,
                             .served = WP_SERVED_WARM};
    struct wp_wire_stream_response response = {
        .leases = leases, .n_leases = WP_ARRAY_LEN(leases)};

    (void)state;
    memset(id, 'i', sizeof id - 1);
    memset(grant.sandbox, 'b', sizeof grant.sandbox - 1);
    memset(grant.endpoint, 'e', sizeof grant.endpoint - 1);
    memset(grant.token, 't', sizeof grant.token);
    (void)snprintf(grant.pool, sizeof grant.pool, "p");
    for (uint32_t i = 0; i < WP_ARRAY_LEN(leases); i++) {
        leases[i] =
            (struct wp_wire_lease_ahead){i + 1, wp_str_from(id), &grant};
    }
    assert_true(wp_wire_size_stream_response(&response) > WP_STOCK_IN / 2);
    bring_open();
    (void)snprintf(stock->details, sizeof stock->details, "kept");
    assert_true(hear(&response));
    assert_string_equal(stock->details, "kept");
    assert_int_equal(stock->n_in, 0);
    assert_int_equal(warmpool_stock_state(stock, NULL), WP_ARRAY_LEN(leases));
    assert_string_equal(stock->slots[99].lease.claim_id, id);
    assert_string_equal(stock->slots[99].lease.sandbox, grant.sandbox);
    assert_string_equal(stock->slots[99].lease.endpoint, grant.endpoint);
}

/* --- Renewals --- */

static void
test_when_leases_are_renewed(void **state)
{
    struct wp_job *job;

    (void)state;
    bring_open();
    hear_leases(1, 3, TTL_MS);
    stock->slots[1].renew_ns += MS(5);
    stock->slots[2].renew_ns += MS(3);
    turn_at(stock->slots[0].renew_ns - 1);
    no_memory = true;
    turn_at(stock->slots[0].renew_ns);
    show();
    no_memory = false;
    turn();
    show();
    job = start_job();
    now_ns += MS(2);
    answer_renewal(job, 0x33, 777);
    show();
    turn();
    turn_at(stock->slots[2].renew_ns);
    show();
    /* It ended as it was asked for. */
    job = start_job();
    hear_of(0, 3);
    answer_renewal(job, 0x34, 778);
    show();
    turn();
    /* Nothing is known, to the moment when it is too old. */
    turn_at(stock->slots[1].renew_ns);
    now_ns = stock->slots[1].useful_ns - 1;
    answer(start_job(), WARMPOOL_UNAVAILABLE);
    show();
    turn_at(stock->slots[1].renew_ns);
    show();
    while (!wp_list_empty(&client.queue)) {
        answer(start_job(), NOT_FOUND);
    }
    show();
    golden_compare(seen.text, GOLDEN("stock_renews"));
}

static void
test_how_renewals_fail(void **state)
{
    static const int codes[] = {WARMPOOL_OK, 4, 8, 14, NOT_FOUND, 13};

    (void)state;
    bring_open();
    for (size_t i = 0; i < WP_ARRAY_LEN(codes) * 3; i++) {
        struct wp_job *job;

        hear_leases(1, 1, TTL_MS);
        turn_at(stock->slots[0].renew_ns);
        job = start_job();
        now_ns = stock->slots[0].useful_ns - 1 + (int64_t)(i % 3);
        job->reply[WP_H2_FRAME_HEAD] = 0xff;
        job->call.reply_len = 1;
        answer(job, codes[i / 3]);
        show();
        drain();
        wp_stock_set_slot_state(stock, 0, WP_STOCK_SLOT_FREE);
    }
    golden_compare(seen.text, GOLDEN("stock_renewals"));
}

/* --- What a stream has left --- */

/* Leases 1, 2 and 3 are taken, 4 is being renewed, 5 and 6 are in stock. */
static void
bring_orphans(void)
{
    bring_open();
    hear_leases(1, 6, TTL_MS);
    take();
    take();
    take();
    turn();
    wp_stock_set_slot_state(stock, wp_stock_get(stock), WP_STOCK_SLOT_RENEWING);
    stock->slots[2].ask_ns = 5;
    show();
    stream_ends(WARMPOOL_UNAVAILABLE, "leaves");
}

static void
test_orphans_are_settled(void **state)
{
    struct wp_job *asked[3];

    (void)state;
    bring_orphans();
    stock->slots[1].settled = true;
    no_memory = true;
    turn();
    show();
    no_memory = false;
    turn();
    show();
    asked[0] = start_job();
    asked[1] = start_job();
    asked[2] = start_job();
    answer(start_job(), WARMPOOL_DEADLINE_EXCEEDED);
    show();
    now_ns += MS(1);
    answer(asked[0], WARMPOOL_RESOURCE_EXHAUSTED);
    answer_renewal(asked[1], 3, 5);
    show();
    answer(asked[2], WARMPOOL_OK);
    turn();
    turn_at(stock->slots[0].ask_ns - 1);
    turn_at(stock->slots[0].ask_ns);
    asked[0] = start_job();
    show();
    now_ns = stock->slots[0].useful_ns + MS(TTL_MS) / 4 - 1;
    answer(asked[0], WARMPOOL_UNAVAILABLE);
    show();
    turn_at(stock->slots[0].ask_ns);
    answer(start_job(), WARMPOOL_UNAVAILABLE);
    show();
    wp_stock_set_slot_state(stock, 3, WP_STOCK_SLOT_OLD);
    turn();
    answer(start_job(), NOT_FOUND);
    turn_at(now_ns + MS(33));
    show();
    golden_compare(seen.text, GOLDEN("stock_orphans"));
}

/* What is asked already is not asked again when another stream is gone. */
static void
test_orphans_of_two_streams(void **state)
{
    (void)state;
    bring_orphans();
    turn();
    now_ns += MS(33);
    bring_open();
    hear_leases(7, 2, TTL_MS);
    take();
    stream_ends(WARMPOOL_UNAVAILABLE, "leaves again");
    turn();
    show();
    while (!wp_list_empty(&client.queue)) {
        answer(start_job(), WARMPOOL_OK);
    }
    show();
    golden_compare(seen.text, GOLDEN("stock_two_streams"));
}

static void
test_orphans_without_a_daemon(void **state)
{
    int64_t end_ns;

    (void)state;
    bring_orphans();
    client.connected = false;
    stock->slots[1].useful_ns += 1;
    stock->slots[2].told = true;
    wp_stock_set_slot_state(stock, 3, WP_STOCK_SLOT_FREE);
    end_ns = stock->slots[0].useful_ns + MS(TTL_MS) / 4;
    turn();
    turn_at(end_ns - 1);
    show();
    turn_at(end_ns);
    show();
    turn_at(end_ns + 1);
    show();
    /* Its end comes while nothing may be asked for a while. */
    stock->slots[2].told = false;
    stock->slots[2].ask_ns = end_ns + MS(500);
    stock->slots[2].useful_ns += MS(100);
    client.connected = true;
    stock->reopen_ns = WP_TIME_NEVER;
    turn();
    turn_at(end_ns + MS(100));
    show();
    golden_compare(seen.text, GOLDEN("stock_alone"));
}

/* Nobody is told of what its holder has let go, or lets go just now. */
static void
test_who_is_told_of_a_loss(void **state)
{
    struct wp_job own;

    (void)state;
    bring_open();
    hear_leases(1, 5, TTL_MS);
    for (int i = 0; i < 5; i++) {
        take();
    }
    stock->slots[0].settled = true;
    wp_job_init(&own, &client, WP_CALL_RELEASE, MS(10));
    wp_job_release(&own, stock->slots[1].lease.token);
    wp_job_queue(&own);
    hear_of(0, 1);
    hear_of(0, 2);
    assert_ptr_equal(start_job(), &own);
    wp_stock_lose(stock, 1);
    hear_of(0, 3);
    /* Another's release of it, a stock's own, says nothing of its holder. */
    memcpy(own.token, stock->slots[3].lease.token, sizeof own.token);
    own.over = (void (*)(struct wp_job *))abort;
    hear_of(0, 4);
    stock->options.lost = NULL;
    hear_of(0, 5);
    show();
    wp_list_remove(&own.node);
    golden_compare(seen.text, GOLDEN("stock_losses"));
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_a_stream_from_its_opening_on),
        TEST(test_what_is_told),
        TEST(test_a_slot_begins_anew),
        TEST(test_a_stream_that_was_cut_resumes),
        TEST(test_more_than_a_message_holds),
        TEST(test_each_end_of_a_stream),
        TEST(test_what_makes_no_sense),
        TEST(test_messages_that_come_together),
        TEST(test_a_message_of_half_the_room),
        TEST(test_when_leases_are_renewed),
        TEST(test_how_renewals_fail),
        TEST(test_orphans_are_settled),
        TEST(test_orphans_of_two_streams),
        TEST(test_orphans_without_a_daemon),
        TEST(test_who_is_told_of_a_loss),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
