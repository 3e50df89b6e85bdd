/* How a stock closes, and the calls of those who use it, to their end. */
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

/* --- Closing --- */

static void
leaves(void)
{
    bool left = wp_stock_leaves(stock);

    NOTE("leaves at %s: %d, still listed %d\n", at(now_ns), left,
         client.stocks.next == &stock->node);
}

static void
test_a_stock_says_all_before_it_leaves(void **state)
{
    (void)state;
    bring_open();
    hear_leases(1, 2, TTL_MS);
    leaves();
    take();
    stock->closing = true;
    leaves();
    stock->slots[1].renew_ns = 0;
    turn();
    show();
    take();
    turn();
    show();
    turn_at(now_ns + MS(50));
    leaves();
    stock->n_jobs = 1;
    stock->failures = 3;
    stream_ends(WARMPOOL_OK, "well");
    leaves();
    stock->n_jobs = 0;
    stock->has_orphans = true;
    leaves();
    turn();
    leaves();
    assert_true(stock->left);
    golden_compare(seen.text, GOLDEN("stock_closes"));
}

static void
test_a_stock_leaves_when_it_is_late(void **state)
{
    (void)state;
    bring_open();
    hear_leases(1, 1, TTL_MS);
    take();
    may_send = false;
    stock->closing = true;
    turn();
    show();
    turn_at(now_ns + MS(2000) - 1);
    leaves();
    now_ns++;
    stock->n_jobs = 1;
    leaves();
    stock->n_jobs = 0;
    leaves();
    assert_true(stock->left);
    golden_compare(seen.text, GOLDEN("stock_late"));
}

/* What the daemon may know is told to it, even then; else there is nothing. */
static void
test_a_stock_closes_without_a_stream(void **state)
{
    (void)state;
    client.connected = true;
    stock->closing = true;
    turn();
    leaves();
    assert_true(stock->left);
    wp_list_push_back(&client.stocks, &stock->node);
    stock->left = false;
    stock->resumes = true;
    (void)snprintf(stock->id, sizeof stock->id, "known");
    stock->reopen_ns = now_ns + 7;
    turn();
    leaves();
    turn_at(now_ns + 7);
    wp_stock_cut(stock);
    now_ns = stock->close_ns;
    leaves();
    golden_compare(seen.text, GOLDEN("stock_closed"));
}

static struct warmpool_stock *three[3];

static void
nothing_happens(void)
{
}

static void
leave(int which)
{
    for (int i = 0; i < 3; i++) {
        if (three[i] != NULL) {
            NOTE("%d: closing %d, left %d\n", i, three[i]->closing,
                 three[i]->left);
        }
    }
    wp_list_remove(&three[which]->node);
    three[which]->left = true;
    three[which] = NULL;
}

static void
the_first_leaves(void)
{
    leave(0);
}

static void
the_second_leaves(void)
{
    leave(1);
}

static void
the_third_leaves(void)
{
    leave(2);
}

static void
test_closing_waits_until_it_has_left(void **state)
{
    static void (*const one[])(void) = {nothing_happens, the_second_leaves,
                                        NULL};
    static void (*const all[])(void) = {nothing_happens,   the_third_leaves,
                                        the_second_leaves, nothing_happens,
                                        the_first_leaves,  NULL};

    (void)state;
    warmpool_stock_close(NULL);
    wp_list_remove(&stock->node);
    wp_stock_close_all(&client);
    for (int i = 0; i < 3; i++) {
        three[i] = open_stock("p");
    }
    script = one;
    warmpool_stock_close(three[1]);
    assert_null(*script);
    three[1] = three[2];
    three[2] = open_stock("p");
    /* All are asked before the last is waited for. */
    script = all;
    NOTE("all\n");
    wp_stock_close_all(&client);
    assert_null(*script);
    golden_compare(seen.text, GOLDEN("stock_waits"));
}

/* --- Calls --- */

static void
is_answered(void)
{
    struct wp_job *job = start_job();

    (void)snprintf(job->details, sizeof job->details, "none in time");
    answer(job, WARMPOOL_DEADLINE_EXCEEDED);
    assert_true(job->is_done);
}

static void
is_over(void)
{
    struct wp_list *node = wp_list_pop_front(&client.queue);

    assert_non_null(node);
    wp_job_fail(WP_CONTAINER_OF(node, struct wp_job, node), 14, "no daemon");
}

static void
claim(struct warmpool_stock *from, int64_t wait_ms)
{
    static void (*const answers[])(void) = {nothing_happens, is_answered, NULL};
    struct warmpool_error error = {99, "of old"};
    struct warmpool_lease lease;
    int status;

    script = answers;
    status = warmpool_stock_claim(from, wait_ms, &lease, &error);
    NOTE("claimed: %d; %d %s\n", status, error.code, error.message);
}

static void
test_what_is_not_in_stock_is_claimed(void **state)
{
    static char longest[WP_NAMESPACE_MAX + WP_POOL_NAME_MAX + 2];
    struct warmpool_stock *other = open_stock("p");
    struct warmpool_stock *of_long;

    (void)state;
    bring_open();
    hear_leases(1, 1, TTL_MS);
    claim(stock, 0);
    claim(stock, 600000);
    claim(other, 1);
    memset(longest, 'n', sizeof longest - 1);
    longest[WP_NAMESPACE_MAX] = '/';
    of_long = open_stock(longest);
    claim(of_long, 0);
    free(of_long);
    free(other);
    golden_compare(seen.text, GOLDEN("stock_claims"));
}

static void
test_there_is_no_memory_for_a_stock(void **state)
{
    static const struct warmpool_stock_options options = {.pool = "p",
                                                          .ahead = 1};
    struct warmpool_error error;

    (void)state;
    no_memory = true;
    assert_null(warmpool_stock_open(&client, &options, &error));
    assert_int_equal(error.code, WARMPOOL_RESOURCE_EXHAUSTED);
    assert_string_equal(error.message, "out of memory");
    assert_ptr_equal(client.stocks.prev, &stock->node);
    assert_string_equal(seen.text, "wake\n");
}

/* Which calls of a holder settle its lease for a stock. */
static void
test_what_settles_a_lease(void **state)
{
    static const struct {
        enum wp_method_of_client method;
        int status;
    } rows[] = {
        {WP_CALL_RENEW, WARMPOOL_OK}, {WP_CALL_RELEASE, WARMPOOL_OK},
        {WP_CALL_CLAIM, WARMPOOL_OK}, {WP_CALL_RENEW, NOT_FOUND},
        {WP_CALL_RELEASE, 14},
    };

    (void)state;
    bring_open();
    hear_leases(1, 2, TTL_MS);
    take();
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        struct wp_job job;

        wp_job_init(&job, &client, rows[i].method, MS(10));
        wp_job_renew(&job, stock->slots[0].lease.token, 1234);
        wp_list_push_back(&client.under_way, &job.node);
        NOTE("%d: ", rows[i].method);
        answer(&job, rows[i].status);
        assert_true(job.is_done);
        assert_int_equal(job.call.status, rows[i].status);
        show();
        stock->slots[0].settled = false;
    }
    /* Only what was taken, and only that lease. */
    wp_stock_settled(stock, stock->slots[1].lease.token);
    show();
    golden_compare(seen.text, GOLDEN("stock_settled"));
}

static void
run_release(void (*const *some)(void))
{
    struct warmpool_error error = {99, "of old"};
    uint8_t token[WP_TOKEN_LEN];
    struct wp_job job;
    int status;

    memset(token, 0x77, sizeof token);
    memset(&job, 0x5a, sizeof job);
    wp_job_init(&job, &client, WP_CALL_RELEASE, MS(10));
    wp_job_release(&job, token);
    script = some;
    status = wp_job_run(&job, &error);
    assert_null(*script);
    NOTE("run: %d; %d %s\n", status, error.code, error.message);
}

static void
is_not_answered(void)
{
    struct wp_job *job = start_job();

    answer(job, WP_H2_NO_STATUS);
}

static void
is_not_answered_at_length(void)
{
    struct wp_job *job = start_job();

    memset(job->details, 'd', sizeof job->details - 1);
    answer(job, WP_H2_NO_STATUS);
}

static void
test_a_call_to_its_end(void **state)
{
    static void (*const answered[])(void) = {nothing_happens, is_answered,
                                             NULL};
    static void (*const over[])(void) = {is_over, NULL};
    static void (*const never[])(void) = {is_not_answered,
                                          is_not_answered,
                                          is_not_answered,
                                          is_not_answered,
                                          is_not_answered,
                                          is_not_answered,
                                          NULL};
    static void (*const at_length[])(void) = {is_not_answered,
                                              is_not_answered,
                                              is_not_answered,
                                              is_not_answered,
                                              is_not_answered_at_length,
                                              is_not_answered_at_length,
                                              NULL};

    (void)state;
    run_release(answered);
    run_release(over);
    run_release(never);
    run_release(at_length);
    golden_compare(seen.text, GOLDEN("stock_jobs"));
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_a_stock_says_all_before_it_leaves),
        TEST(test_a_stock_leaves_when_it_is_late),
        TEST(test_a_stock_closes_without_a_stream),
        TEST(test_closing_waits_until_it_has_left),
        TEST(test_what_is_not_in_stock_is_claimed),
        TEST(test_there_is_no_memory_for_a_stock),
        TEST(test_what_settles_a_lease),
        TEST(test_a_call_to_its_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
