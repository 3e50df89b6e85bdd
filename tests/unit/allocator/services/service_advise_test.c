/* Advise: replays on a thread of its own, one at a time; progress, then the
 * report; clients that go, daemons that leave. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/support/base/held_locks.h"
#include "tests/support/services/service_world.h"

static struct wp_world world;
static struct wp_fake_call advise;
static struct wp_fake_call other;
static struct wp_fake_call claim;
static uint32_t gaps[WP_WIRE_ADVISE_CLAIMS_MAX];

static bool follows; /* Another replica makes the sandboxes. */

bool __real_wp_pools_is_keeper(const struct wp_pools *pools);
bool __wrap_wp_pools_is_keeper(const struct wp_pools *pools);

bool
__wrap_wp_pools_is_keeper(const struct wp_pools *pools)
{
    return !follows && __real_wp_pools_is_keeper(pools);
}

static int
setup(void **state)
{
    (void)state;
    follows = false;
    wp_world_init(&world, 64, 4);
    wp_world_call(&world, &advise);
    wp_world_call(&world, &other);
    wp_world_call(&world, &claim);
    return 0;
}

static int
teardown(void **state)
{
    (void)state;
    held_locks_are_free();
    wp_fake_call_cancel(&advise);
    wp_fake_call_cancel(&other);
    wp_fake_call_fini(&advise);
    wp_fake_call_fini(&other);
    wp_fake_call_fini(&claim);
    wp_world_fini(&world);
    return 0;
}

static struct wp_wire_advise_request
request_of(const char *pool)
{
    return (struct wp_wire_advise_request){
        .pool = {WP_STR("default"), wp_str_from(pool)}};
}

static void
start(struct wp_fake_call *fake, const struct wp_wire_advise_request *request)
{
    WP_WORLD_START(&world.admin, fake, "Advise", advise_request, request);
}

/* Enough claims that a replay is still going on when it is looked at. */
static struct wp_wire_advise_request
long_request(void)
{
    struct wp_wire_advise_request request = request_of("p");

    for (size_t i = 0; i < WP_ARRAY_LEN(gaps); i++) {
        gaps[i] = 90;
    }
    request.claim_gaps_ms = gaps;
    request.n_claims = WP_ARRAY_LEN(gaps);
    request.lead_ms = 8000;
    return request;
}

static struct wp_wire_advise_response
report(const struct wp_fake_call *fake)
{
    static struct wp_wire_advise_response out;

    WP_WORLD_REPLY(&world, fake, advise_response, &out);
    return out;
}

static void
expect_end(struct wp_fake_call *fake, enum wp_status status, const char *says)
{
    assert_true(wp_fake_call_wait(fake));
    assert_int_equal(fake->status, status);
    if (strstr(fake->message, says) == NULL) {
        fail_msg("'%s' does not say '%s'", fake->message, says);
    }
}

/* What the daemon recorded is replayed, with today's setting among the rows. */
static void
test_recorded_claims(void **state)
{
    struct wp_wire_advise_request request = request_of("p");
    static const double objectives[] = {0.9};
    struct wp_wire_advise_response got;
    uint32_t n_today = 0;

    (void)state;
    for (uint32_t i = 0; i < 40; i++) {
        char id[16];

        (void)snprintf(id, sizeof id, "c%u", i);
        wp_fake_call_fini(&claim);
        wp_world_call(&world, &claim);
        wp_world_claim(&world, &claim, id, "", 0);
        wp_world_advance(&world, WP_NS_PER_S);
    }
    request.objectives = objectives;
    request.n_objectives = 1;
    request.lead_ms = 500;
    start(&advise, &request);
    expect_end(&advise, WP_OK, "");
    got = report(&advise);
    assert_true(got.has_report);
    assert_true(got.progress == 1);
    assert_int_equal(got.facts.claims, 40);
    assert_int_equal(got.facts.n_gaps, 0);
    for (uint32_t i = 0; i < got.n_rows; i++) {
        assert_true(got.rows[i].result.claims > 30);
        if (got.rows[i].kind == WP_ADVICE_TODAY) {
            n_today++;
            assert_string_equal(got.rows[i].setting, "replicas=4");
            assert_true(got.rows[i].result.hit_rate == 1);
        }
    }
    assert_int_equal(n_today, 1);
    assert_true(got.words.n_lines > 1);
}

static void
test_given_claims_with_progress(void **state)
{
    struct wp_wire_advise_request request = long_request();
    struct wp_wire_advise_response got;
    int64_t began_ns = wp_clock_mono_ns(wp_clock_system());
    int64_t took_ns;

    (void)state;
    start(&advise, &request);
    while (!wp_fake_call_wait(&advise)) {
    }
    took_ns = wp_clock_mono_ns(wp_clock_system()) - began_ns;
    expect_end(&advise, WP_OK, "");
    got = report(&advise);
    assert_true(got.has_report);
    assert_int_equal(got.facts.claims, WP_ARRAY_LEN(gaps));
    assert_int_equal(got.facts.lead_mean_s, 8);
    /* At once, and then ten times a second at most. */
    assert_in_range(advise.sends, 1, 1 + took_ns / (100 * WP_NS_PER_MS));
}

/* One at a time; the next one is told when to come again. */
static void
test_one_at_a_time(void **state)
{
    struct wp_wire_advise_request request = long_request();

    (void)state;
    start(&advise, &request);
    start(&other, &request);
    expect_end(&other, WP_RESOURCE_EXHAUSTED, "one is done at a time");
    assert_int_equal(other.retry_after_ns, 2 * WP_NS_PER_S);
    wp_fake_call_cancel(&advise);
    expect_end(&advise, WP_CANCELLED, "");
}

/* A client that goes is let go at once, and makes way for the next. */
static void
test_cancelled(void **state)
{
    struct wp_wire_advise_request request = long_request();
    enum wp_status status = WP_RESOURCE_EXHAUSTED;

    (void)state;
    start(&advise, &request);
    wp_fake_call_cancel(&advise);
    assert_true(wp_fake_call_finished(&advise));
    assert_int_equal(advise.status, WP_CANCELLED);
    request = request_of("p"); /* Nothing is recorded: refused, but heard. */
    while (status == WP_RESOURCE_EXHAUSTED) {
        wp_fake_call_fini(&other);
        wp_world_call(&world, &other);
        start(&other, &request);
        assert_true(wp_fake_call_wait(&other));
        status = other.status;
    }
    expect_end(&other, WP_INVALID_ARGUMENT, "too little history: 0 claims");
}

static void
test_slow_reader_gets_the_report(void **state)
{
    struct wp_wire_advise_request request = long_request();

    (void)state;
    request.n_claims = 2000;
    advise.block_sends = true;
    start(&advise, &request);
    while (!wp_fake_call_wait(&advise)) {
    }
    expect_end(&advise, WP_OK, "");
    assert_true(report(&advise).has_report);
}

static void
test_leaving(void **state)
{
    struct wp_wire_advise_request request = long_request();

    (void)state;
    start(&advise, &request);
    wp_services_stop(world.services);
    assert_true(wp_fake_call_finished(&advise));
    expect_end(&advise, WP_UNAVAILABLE, "leaving");
    start(&other, &request);
    expect_end(&other, WP_UNAVAILABLE, "leaving");
}

static void
test_refusals(void **state)
{
    struct wp_wire_advise_request request = request_of("nowhere");

    (void)state;
    start(&advise, &request);
    expect_end(&advise, WP_NOT_FOUND, "pool: 'nowhere'");
    request = request_of("p");
    request.lead_ms = -1;
    start(&other, &request);
    expect_end(&other, WP_INVALID_ARGUMENT, "lead_ms");
}

/* The record of all claims is with the one that makes the sandboxes; given
 * claims are replayed by any. */
static void
test_only_the_keeper_has_the_record(void **state)
{
    struct wp_wire_advise_request request = request_of("p");

    (void)state;
    follows = true;
    start(&other, &request);
    expect_end(&other, WP_UNAVAILABLE,
               "another replica makes the sandboxes, and has the record of all "
               "claims; ask that one");
    assert_int_equal(other.retry_after_ns, 0);
    request = long_request();
    request.n_claims = 100;
    start(&advise, &request);
    follows = false; /* The pool itself asks, too. */
    expect_end(&advise, WP_OK, "");
    assert_int_equal(report(&advise).facts.claims, 100);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_recorded_claims),
        TEST(test_given_claims_with_progress),
        TEST(test_one_at_a_time),
        TEST(test_cancelled),
        TEST(test_slow_reader_gets_the_report),
        TEST(test_leaving),
        TEST(test_refusals),
        TEST(test_only_the_keeper_has_the_record),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
