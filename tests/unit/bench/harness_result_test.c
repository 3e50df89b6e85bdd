/* What warmpool-load has seen becomes figures that can be believed:
 * percentiles, slices, the outside check, ratios. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/harness/check.h"
#include "bench/harness/compare.h"
#include "bench/harness/report.h"
#include "bench/harness/stats.h"
#include "pool/base/clock.h"
#include "pool/base/rng.h"

enum {
    SAMPLES = 200000,
};

static int
compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a;
    int64_t y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

/* Of samples over six decades: sorting them is the reference. */
static void
test_percentiles_are_those_of_sorted_samples(void **state)
{
    static const double quantiles[] = {0,     0.5,    0.75,    0.9, 0.99,
                                       0.999, 0.9999, 0.99999, 1};
    int64_t *samples = calloc(SAMPLES, sizeof *samples);
    struct wp_hist *hist = calloc(1, sizeof *hist);
    struct wp_rng rng;

    (void)state;
    assert_non_null(samples);
    assert_non_null(hist);
    wp_rng_init(&rng, 7);
    wp_hist_reset(hist);
    for (int i = 0; i < SAMPLES; i++) {
        samples[i] = (int64_t)(exp(wp_rng_unit(&rng) * 14) * 1000);
        wp_hist_record(hist, samples[i]);
    }
    qsort(samples, SAMPLES, sizeof *samples, compare);
    for (size_t i = 0; i < WP_ARRAY_LEN(quantiles); i++) {
        double rank = ceil(quantiles[i] * SAMPLES);
        int64_t exact = samples[rank > 0 ? (size_t)rank - 1 : 0];
        int64_t got = wp_hist_quantile_ns(hist, quantiles[i]);

        assert_true(got >= exact && got - exact <= exact / 1024);
    }
    free(samples);
    free(hist);
}

static void
test_a_histogram_is_the_same_in_parts(void **state)
{
    struct wp_tally *whole = wp_tally_create();
    struct wp_tally *part[2] = {wp_tally_create(), wp_tally_create()};
    struct wp_rng rng;

    (void)state;
    wp_rng_init(&rng, 1);
    for (int i = 0; i < 5000; i++) {
        int64_t value = (int64_t)wp_rng_below(&rng, 1000000);
        int64_t at_ns = (int64_t)i * WP_NS_PER_MS;

        wp_hist_record(&whole->claim, value);
        wp_hist_record(&part[i % 2]->claim, value);
        wp_slices_at(&whole->slices, at_ns)->granted++;
        wp_slice_record(wp_slices_at(&whole->slices, at_ns), value);
        /* The second part ends early: its slices are narrower. */
        wp_slices_at(&part[i > 100]->slices, at_ns)->granted++;
        wp_slice_record(wp_slices_at(&part[i > 100]->slices, at_ns), value);
        assert_true(wp_tally_name(part[i % 2], (uint64_t)i / 2));
    }
    assert_true(wp_tally_merge(part[0], part[1]));
    assert_memory_equal(&whole->claim, &part[0]->claim, sizeof whole->claim);
    assert_memory_equal(&whole->slices, &part[0]->slices, sizeof whole->slices);
    assert_in_range(whole->slices.n, WP_SLICES_MAX / 2, WP_SLICES_MAX);
    /* Each name twice. */
    assert_int_equal(
        wp_tally_count_duplicates(part[0]->names, part[0]->n_names), 2500);
    wp_tally_destroy(whole);
    wp_tally_destroy(part[0]);
    wp_tally_destroy(part[1]);
}

static void
test_a_slice_knows_its_percentiles(void **state)
{
    static struct wp_slice slice;

    (void)state;
    assert_true(wp_slice_quantile_ns(&slice, 0.5) == 0);
    for (int i = 1; i <= 1000; i++) {
        wp_slice_record(&slice, i * WP_NS_PER_US);
    }
    for (double q = 0.1; q < 1; q += 0.1) {
        double got = wp_slice_quantile_ns(&slice, q) / 1e6;

        assert_true(fabs(got - q) < 0.032 * q);
    }
}

static void
test_records_are_bounded(void **state)
{
    struct wp_tally *tally = wp_tally_create();

    (void)state;
    for (int i = 0; i < 10; i++) {
        struct wp_record *r = wp_tally_record(tally, 7);

        assert_true((r != NULL) == (i < 7));
        if (r != NULL) {
            *r = (struct wp_record){.due_ns = 10 - i};
        }
    }
    assert_int_equal(tally->records_left_out, 3);
    wp_tally_sort(tally);
    assert_int_equal(tally->records[0].due_ns, 4);
    wp_tally_destroy(tally);
}

/* --- The check. --- */

static struct wp_plan plan;
static struct wp_check check;

/* A run of one phase in which all is well. */
static void
good_run(struct wp_run *run, struct wp_outcome *outcome)
{
    wp_plan_init(&plan);
    (void)strcpy(plan.name, "p");
    *outcome = (struct wp_outcome){.plan = &plan, .tally = wp_tally_create()};
    outcome->tally->due = 100;
    outcome->tally->granted = 100;
    outcome->tally->elapsed_ns = WP_NS_PER_S;
    for (int i = 0; i < 100; i++) {
        wp_hist_record(&outcome->tally->claim, WP_NS_PER_MS);
    }
    *run = (struct wp_run){
        .plan = &plan,
        .n_targets = 1,
        .outcomes = outcome,
        .n_outcomes = 1,
        .leftovers[0].known = true,
    };
}

static void
test_the_check_passes_what_is_well(void **state)
{
    struct wp_outcome outcome;
    struct wp_run run;

    (void)state;
    good_run(&run, &outcome);
    wp_check_run(&run, &check);
    assert_int_equal(check.n_breaches, 0);
    assert_int_equal(check.n_doubts, 0);
    wp_tally_destroy(outcome.tally);
}

static void
test_the_check_finds_each_breach(void **state)
{
    (void)state;
    for (int which = 0; which < 10; which++) {
        struct wp_outcome outcome;
        struct wp_tally *t;
        struct wp_run run;

        good_run(&run, &outcome);
        t = outcome.tally;
        t->lost += which == 0;
        t->bad_answers += which == 1;
        t->failed[WP_TALLY_NO_ANSWER] += which == 2;
        t->releases_failed += which == 3;
        run.duplicates[0] += which == 4;
        run.leftovers[0].found += which == 5;
        run.leftovers[0].ended += which == 5;
        t->granted -= which == 6 ? 2 : 0; /* 98 of 100 */
        t->granted = which == 7 ? 9 : t->granted;
        t->due = which == 7 ? 9 : t->due;
        plan.p99_max_ns = which == 8 ? WP_NS_PER_US : 0;
        t->granted = which == 9 ? 0 : t->granted;
        t->due = which == 9 ? 0 : t->due;
        wp_check_run(&run, &check);
        if (check.n_breaches == 0) {
            fail_msg("breach %d was not found", which);
        }
        wp_tally_destroy(t);
    }
}

static void
test_leases_of_calls_without_an_answer_are_no_leak(void **state)
{
    struct wp_outcome outcome;
    struct wp_run run;

    (void)state;
    good_run(&run, &outcome);
    outcome.tally->failed[14] = 1;
    outcome.tally->due = 101;
    run.leftovers[0].found = 1;
    run.leftovers[0].ended = 1;
    wp_check_run(&run, &check);
    assert_int_equal(check.n_breaches, 0);
    assert_int_equal(check.n_doubts, 1);
    wp_tally_destroy(outcome.tally);
}

/* --- Figures. --- */

static void
test_percentiles_as_others_define_them(void **state)
{
    static const double ten[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};

    (void)state;
    /* PerfKitBenchmarker: in proportion; agent-sandbox: the nearest rank. */
    assert_true(fabs(wp_stats_linear(ten, 10, 0.5) - 5.5) < 1e-12);
    assert_true(fabs(wp_stats_linear(ten, 10, 0.99) - 9.91) < 1e-12);
    assert_true(wp_stats_linear(ten, 10, 1) == 10);
    assert_true(wp_stats_nearest(ten, 10, 0.5) == 5);
    assert_true(wp_stats_nearest(ten, 10, 0.99) == 10);
    assert_true(wp_stats_nearest(ten, 10, 0) == 1);
    assert_true(wp_stats_linear(ten, 0, 0.5) == 0);
    assert_true(wp_stats_nearest(ten, 0, 0.5) == 0);
}

static void
test_rates_of_events(void **state)
{
    struct wp_stats_rate rate;
    double times[200];

    (void)state;
    for (int i = 0; i < 200; i++) {
        /* One a second, and ten a second in the middle. */
        times[i] = i < 50 ? i : i < 150 ? 50 + (i - 50) / 10.0 : i - 90;
    }
    wp_stats_rate(times, 200, &rate);
    assert_int_equal(rate.count, 200);
    assert_true(fabs(rate.overall - 200.0 / 109) < 1e-9);
    assert_true(rate.best_10s > 10 && rate.best_10s < 10.4);
    assert_true(rate.steady > rate.overall);
    wp_stats_rate(times, 0, &rate);
    assert_true(rate.overall == 0);
}

static void
test_ratios_have_intervals_that_hold_them(void **state)
{
    double a[40];
    double b[40];
    struct wp_stats_ratio r;
    struct wp_rng rng;

    (void)state;
    wp_rng_init(&rng, 3);
    for (int i = 0; i < 40; i++) {
        a[i] = 10 + wp_rng_unit(&rng);
        b[i] = 20 + 2 * wp_rng_unit(&rng);
    }
    assert_true(wp_stats_ratio(a, 40, b, 40, &r));
    assert_true(r.low < 2 && r.high > 1.98 && r.low <= r.ratio &&
                r.ratio <= r.high && r.high - r.low < 0.2);
    assert_true(wp_stats_ratio_paired(a, b, 40, &r));
    assert_true(r.low > 1.8 && r.high < 2.2);
    assert_true(wp_stats_ratio(a, 40, a, 40, &r));
    assert_true(r.low < 1 && r.high > 1);
    assert_false(wp_stats_ratio(a, 0, b, 40, &r));
    b[0] = 0;
    assert_false(wp_stats_ratio(b, 1, a, 40, &r));
}

static void
test_times_have_three_digits(void **state)
{
    static const struct {
        int64_t ns;
        const char *text;
    } cases[] = {{0, "0 ns"},
                 {7, "7 ns"},
                 {999, "999 ns"},
                 {1000, "1.00 us"},
                 {9994, "9.99 us"},
                 {9996, "10.0 us"},
                 {99960, "100 us"},
                 {999400, "999 us"},
                 {999600, "1.00 ms"},
                 {12345678, "12.3 ms"},
                 {61000000000, "61.0 s"}};

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(cases); i++) {
        char text[16];

        assert_string_equal(wp_report_time(cases[i].ns, text), cases[i].text);
    }
}

/* Goal: of a long phase all of it is seen, and its growth is that of all. */
static void
test_long_phases_are_seen_evenly(void **state)
{
    struct wp_outcome outcome = {
        .stock = calloc(WP_STOCK_MAX, sizeof *outcome.stock)};
    struct wp_growth growth;
    uint32_t moments;

    (void)state;
    assert_non_null(outcome.stock);
    for (moments = 1; moments <= 36000; moments++) {
        const struct wp_stock now = {.at_ns = moments * WP_NS_PER_S / 10,
                                     .rss_bytes = 1000000 + moments};

        wp_outcome_add_stock(&outcome, &now);
        if (moments % 777 == 0 && moments > 1000) {
            int64_t even = now.at_ns / outcome.n_stock;

            assert_in_range(outcome.n_stock, WP_STOCK_MAX / 2, WP_STOCK_MAX);
            assert_int_equal(outcome.stock[0].at_ns, WP_NS_PER_S / 10);
            for (uint32_t i = 1; i < outcome.n_stock; i++) {
                int64_t apart =
                    outcome.stock[i].at_ns - outcome.stock[i - 1].at_ns;

                assert_in_range(apart, even / 2, even * 2);
            }
        }
    }
    assert_true(wp_outcome_growth(&outcome, &growth));
    assert_in_range((uint64_t)growth.first_bytes, 1001000, 1002600);
    assert_in_range((uint64_t)growth.last_bytes, 1033400, 1035000);
    free(outcome.stock);
}

/* What a comparison says of two targets: claims of each turn, p50 and p99. */
static char *
compared(int claims, const double p50[2][2], const double p99[2][2])
{
    json_t *phases = json_array();
    json_t *run = json_pack("{s:i, s:o}", "schema", 1, "phases", phases);
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);

    assert_non_null(out);
    for (int target = 0; target < 2; target++) {
        for (int turn = 0; turn < 2; turn++) {
            json_t *slices = json_array();

            for (int i = 0; i < 8; i++) {
                assert_int_equal(
                    json_array_append_new(
                        slices,
                        json_pack("{s:f, s:f, s:i}", "p50_ms",
                                  p50[target][turn] * (1 + i * 0.01), "p99_ms",
                                  p99[target][turn], "granted", claims / 8)),
                    0);
            }
            assert_int_equal(
                json_array_append_new(
                    phases,
                    json_pack("{s:s, s:s, s:f, s:f, s:{s:i, s:f, s:f}, s:o}",
                              "name", "x", "target", target == 0 ? "A" : "B",
                              "granted_per_s", 10.0, "slice_s", 1.0, "claim",
                              "count", claims, "p50_ms", p50[target][turn],
                              "p99_ms", p99[target][turn], "slices", slices)),
                0);
        }
    }
    wp_compare_targets(run, out);
    assert_int_equal(fclose(out), 0);
    json_decref(run);
    return text;
}

/* Goal: two turns count both, and a p99 of few claims is no verdict. */
static void
test_comparison(void **state)
{
    static const double p50[2][2] = {{10, 30}, {40, 80}};
    static const double p99[2][2] = {{100, 100}, {50, 50}};
    char *text = compared(40, p50, p99);

    (void)state;
    assert_non_null(strstr(text, "claim p50              20       60"));
    assert_non_null(strstr(text, "claim p99             100       50  too "
                                 "few to say"));
    free(text);
    text = compared(1000, p50, p99);
    assert_null(strstr(text, "too few"));
    assert_non_null(strstr(text, "B is better"));
    free(text);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_percentiles_are_those_of_sorted_samples),
        cmocka_unit_test(test_long_phases_are_seen_evenly),
        cmocka_unit_test(test_comparison),
        cmocka_unit_test(test_a_histogram_is_the_same_in_parts),
        cmocka_unit_test(test_a_slice_knows_its_percentiles),
        cmocka_unit_test(test_records_are_bounded),
        cmocka_unit_test(test_the_check_passes_what_is_well),
        cmocka_unit_test(test_the_check_finds_each_breach),
        cmocka_unit_test(test_leases_of_calls_without_an_answer_are_no_leak),
        cmocka_unit_test(test_percentiles_as_others_define_them),
        cmocka_unit_test(test_rates_of_events),
        cmocka_unit_test(test_ratios_have_intervals_that_hold_them),
        cmocka_unit_test(test_times_have_three_digits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
