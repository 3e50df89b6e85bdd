/* What replays are made of: what is due, lead times, and how long claims
 * waited. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "allocator/advice/replay_parts.h"
#include "pool/base/clock.h"
#include "pool/base/compiler.h"
#include "pool/base/rng.h"

enum {
    DUE = 1000,
};

/* Whatever comes in, the earliest goes out first, and nothing is lost. */
static void
test_earliest_first(void **state)
{
    struct wp_replay_heap heap = {0};
    int64_t at_ns[DUE];
    bool seen[DUE] = {false};
    struct wp_rng rng;

    (void)state;
    wp_rng_init(&rng, 1);
    assert_true(wp_replay_heap_next_ns(&heap) == WP_TIME_NEVER);
    for (int i = 0; i < DUE; i++) {
        at_ns[i] = (int64_t)wp_rng_below(&rng, DUE / 2);
        assert_true(wp_replay_heap_push(&heap, at_ns[i], i));
    }
    for (int i = 0; i < DUE; i++) {
        int64_t next_ns = wp_replay_heap_next_ns(&heap);
        struct wp_replay_due due = wp_replay_heap_pop(&heap);

        assert_int_equal(due.at_ns, next_ns);
        assert_in_range(due.what, 0, DUE - 1);
        assert_int_equal(due.at_ns, at_ns[due.what]);
        assert_false(seen[due.what]);
        seen[due.what] = true;
        if (i + 1 < DUE) {
            assert_true(due.at_ns <= wp_replay_heap_next_ns(&heap));
        }
    }
    assert_true(wp_replay_heap_next_ns(&heap) == WP_TIME_NEVER);
    wp_replay_heap_fini(&heap);
    assert_null(heap.due);
}

static int64_t
lead_ns(const struct wp_replay_lead *lead, bool *fails)
{
    struct wp_replay_draw draw;

    wp_replay_draw_init(&draw, 7);
    return wp_replay_draw_lead_ns(&draw, lead, fails);
}

static void
test_lead_times(void **state)
{
    static const int64_t measured[] = {3 * WP_NS_PER_S};
    static const int64_t odd[] = {-5};
    struct wp_replay_lead lead = {.median_s = 2};
    bool fails = true;

    (void)state;
    assert_int_equal(lead_ns(&lead, &fails), 2 * WP_NS_PER_S);
    assert_false(fails);
    assert_true(wp_replay_lead_mean_s(&lead) == 2);
    lead.slow_share = 1;
    lead.slow_extra_s = 0.5;
    lead.fail_share = 1;
    assert_int_equal(lead_ns(&lead, &fails), 2500 * WP_NS_PER_MS);
    assert_true(fails);
    assert_true(wp_replay_lead_mean_s(&lead) == HUGE_VAL);
    lead.fail_share = 0.5;
    assert_true(wp_replay_lead_mean_s(&lead) == 5); /* Twice, in the mean. */
    lead = (struct wp_replay_lead){
        .measured_ns = measured, .n_measured = 1, .median_s = 9};
    assert_int_equal(lead_ns(&lead, &fails), 3 * WP_NS_PER_S);
    assert_true(wp_replay_lead_mean_s(&lead) == 3);
    lead.measured_ns = odd;
    assert_int_equal(lead_ns(&lead, &fails), 0);
    assert_true(wp_replay_lead_mean_s(&lead) == 0);
    lead = (struct wp_replay_lead){.median_s = 1, .sigma = 2};
    assert_true(fabs(wp_replay_lead_mean_s(&lead) - exp(2)) < 1e-9);
    /* A year at most. */
    lead = (struct wp_replay_lead){.median_s = 1e12};
    assert_int_equal(lead_ns(&lead, &fails),
                     INT64_C(365) * 86400 * WP_NS_PER_S);
}

/* Around its median, as wide as it is said to be; the same seed, the same. */
static void
test_draws(void **state)
{
    struct wp_replay_draw draw;
    struct wp_replay_draw again;
    double sum = 0;
    double squares = 0;
    const int n = 20000;

    (void)state;
    memset(&again, 0xff, sizeof again);
    again.has_spare = true;
    again.spare = 100;
    wp_replay_draw_init(&draw, 3);
    wp_replay_draw_init(&again, 3);
    for (int i = 0; i < n; i++) {
        int64_t ns = wp_replay_draw_lognormal_ns(&draw, 10, 0.5);
        double x = log((double)ns / 1e10);

        assert_int_equal(wp_replay_draw_lognormal_ns(&again, 10, 0.5), ns);
        sum += x;
        squares += x * x;
    }
    assert_true(fabs(sum / n) < 0.02);
    assert_true(fabs(sqrt(squares / n) - 0.5) < 0.02);
    assert_int_equal(wp_replay_draw_lognormal_ns(&draw, 10, 0),
                     10 * WP_NS_PER_S);
    assert_int_equal(wp_replay_draw_lognormal_ns(&draw, -1, 0), 0);
}

/* A wait is told to a part in 64 of it, as the middle of its bin. */
static void
test_waits(void **state)
{
    static const struct {
        int64_t ns;
        double us;
    } rows[] = {
        {-5, 0.5},       {0, 0.5},        {999, 0.5},      {1000, 1.5},
        {63999, 63.5},   {64000, 64.5},   {127999, 127.5}, {128000, 129},
        {129999, 129},   {130000, 131},   {255999, 255},   {256000, 258},
        {1000000, 1004}, {1023999, 1020}, {1024000, 1032},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        struct wp_replay_waits *waits = calloc(1, sizeof *waits);
        double us;

        assert_non_null(waits);
        wp_replay_waits_add(waits, rows[i].ns);
        us = wp_replay_waits_quantile_s(waits, 1, 1) * 1e6;
        if (fabs(us - rows[i].us) > 1e-6) {
            fail_msg("%lld ns: %g us expected, got %g", (long long)rows[i].ns,
                     rows[i].us, us);
        }
        free(waits);
    }
}

/* Of four claims two waited: 10 and 20 us. */
static void
test_quantiles(void **state)
{
    struct wp_replay_waits *waits = calloc(1, sizeof *waits);

    (void)state;
    assert_non_null(waits);
    assert_true(wp_replay_waits_quantile_s(waits, 0, 0.5) == 0);
    wp_replay_waits_add(waits, 20000);
    wp_replay_waits_add(waits, 10000);
    assert_true(wp_replay_waits_quantile_s(waits, 4, 0.25) == 0);
    assert_true(wp_replay_waits_quantile_s(waits, 4, 0.5) == 0);
    assert_true(fabs(wp_replay_waits_quantile_s(waits, 4, 0.51) - 10.5e-6) <
                1e-12);
    assert_true(fabs(wp_replay_waits_quantile_s(waits, 4, 0.75) - 10.5e-6) <
                1e-12);
    assert_true(fabs(wp_replay_waits_quantile_s(waits, 4, 0.76) - 20.5e-6) <
                1e-12);
    assert_true(fabs(wp_replay_waits_quantile_s(waits, 4, 1) - 20.5e-6) <
                1e-12);
    /* None is too long for a bin. */
    wp_replay_waits_add(waits, INT64_MAX);
    assert_int_equal(waits->n, 3);
    assert_true(fabs(wp_replay_waits_quantile_s(waits, 3, 1) / 9223372036.85 -
                     1) < 0.01);
    free(waits);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_earliest_first),
        cmocka_unit_test(test_lead_times),
        cmocka_unit_test(test_draws),
        cmocka_unit_test(test_waits),
        cmocka_unit_test(test_quantiles),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
