/* Where only so many are made at once: the closed forms against the plain sums
 * of the queue's states, and what the controller makes of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "pool/base/rng.h"
#include "pool/scale/capacity.h"
#include "pool/scale/forecast.h"
#include "pool/scale/gaps.h"
#include "pool/scale/stock.h"
#include "tests/support/pool/scaler_world.h"

enum {
    STATES = 4000,
};

/* Of a queue with c servers, up to the state `last`: P(N >= s), and
 * E[(s - N)+]. */
static void
sums(double a, uint32_t c, uint32_t last, uint32_t s, double *miss,
     double *idle)
{
    double weight = 1;
    double all = 0;
    double below = 0;

    *idle = 0;
    for (uint32_t n = 0; n <= last; n++) {
        if (n > 0) {
            weight *= a / (n < c ? n : c);
        }
        all += weight;
        below += n < s ? weight : 0;
        *idle += n < s ? weight * (s - n) : 0;
    }
    *miss = 1 - below / all;
    *idle /= all;
}

static void
test_against_the_states(void **state)
{
    static const struct {
        double a;
        uint32_t c;
    } rows[] = {{0.5, 1}, {3.2, 4}, {3.8, 4}, {14, 16}, {30, 33}};

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        double a = rows[i].a;
        uint32_t c = rows[i].c;

        for (uint32_t s = 1; s < 150; s++) {
            double miss;
            double idle;

            sums(a, c, s, s, &miss, &idle);
            assert_true(fabs(wp_capacity_miss(WP_MISS_LOST, s, a, c) - miss) <
                        1e-7);
            assert_true(fabs(wp_capacity_idle(WP_MISS_LOST, s, a, c) - idle) <
                        1e-5 * s);
            sums(a, c, STATES, s, &miss, &idle);
            assert_true(fabs(wp_capacity_miss(WP_MISS_QUEUED, s, a, c) - miss) <
                        1e-7);
            assert_true(fabs(wp_capacity_idle(WP_MISS_QUEUED, s, a, c) - idle) <
                        1e-5 * s);
        }
    }
}

/* As many claims as can be made, to the last digit, and about that. */
static void
test_at_full_load(void **state)
{
    static const double loads[] = {1, 1 + 1e-12, 1 - 1e-12, 0.9999, 1.1};
    static const uint32_t servers[] = {1, 4, 16};

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(loads); i++) {
        for (size_t j = 0; j < WP_ARRAY_LEN(servers); j++) {
            uint32_t c = servers[j];
            double a = loads[i] * c;

            for (uint32_t s = 1; s < 100; s++) {
                double miss;
                double idle;

                sums(a, c, s, s, &miss, &idle);
                assert_true(fabs(wp_capacity_miss(WP_MISS_LOST, s, a, c) -
                                 miss) < 1e-7);
                assert_true(fabs(wp_capacity_idle(WP_MISS_LOST, s, a, c) -
                                 idle) < 1e-5 * s);
            }
        }
    }
}

/* The smallest that does, and at most what can be made when too many come. */
static void
test_stock_for(void **state)
{
    static const double hits[] = {0.9, 0.99, 0.999};
    static const enum wp_miss kinds[] = {WP_MISS_LOST, WP_MISS_QUEUED};

    (void)state;
    for (size_t k = 0; k < 2; k++) {
        for (size_t i = 0; i < WP_ARRAY_LEN(hits); i++) {
            for (double a = 0.4; a < 8; a += 0.7) {
                uint32_t s = wp_capacity_for_hit_rate(kinds[k], hits[i], a, 8);

                assert_true(wp_capacity_miss(kinds[k], s, a, 8) <=
                            1 - hits[i] + 1e-9);
                assert_true(s == 0 || wp_capacity_miss(kinds[k], s - 1, a, 8) >
                                          1 - hits[i] - 1e-9);
            }
        }
    }
    assert_true(
        fabs(1 - wp_capacity_miss(WP_MISS_LOST, 500, 6.6, 4) - 4 / 6.6) < 1e-9);
    assert_true(wp_capacity_miss(WP_MISS_QUEUED, 500, 6.6, 4) == 1);
    assert_true(wp_capacity_binds(6.6, 4));
    assert_false(wp_capacity_binds(6.6, 64));
}

/* Twice as many claims as can be made: the target does not chase them, and
 * nothing is promised that cannot be. Told of four at once, leads of 8 s. */
static void
test_saturated(void **state)
{
    struct world w = world_make(10);
    struct wp_scale_decision decision;
    char text[WP_SCALE_TEXT_MAX];
    uint32_t target;

    (void)state;
    world_start(&w);
    wp_scaler_set_at_once(w.scaler, 0, 4);
    (void)world_decide(&w);
    wp_scaler_on_ready(w.scaler, 0, 8 * S);
    decision = world_uneven_claims(&w, 300, 1);
    target = decision.target;
    assert_int_equal(decision.at_once, 4);
    assert_true(decision.expected > 4);
    assert_true(fabs(decision.makes_per_s - 0.5) < 0.05);
    assert_true(decision.hit_rate < 0.55);
    assert_true(target < 60);
    wp_scale_decision_format(&decision, text, sizeof text);
    assert_non_null(strstr(text, "creation saturated: 0.5 sandboxes/s"));
    decision = world_uneven_claims(&w, 600, 0.5);
    assert_true(decision.target < 20);
    /* With room again it follows. */
    wp_scaler_set_at_once(w.scaler, w.view.mono_ns, 0);
    decision = world_uneven_claims(&w, 600, 0.5);
    assert_int_equal(decision.reason, WP_SCALE_FORECAST);
    assert_true(decision.target > 20 && decision.hit_rate > 0.999);
    wp_scaler_destroy(w.scaler);
}

/* Whose bound is told of: the pool's own, unless the backend leaves it less, or
 * has no more at all. */
static void
test_whose_bound(void **state)
{
    static const struct {
        uint32_t own;
        uint32_t all;
        double others;
        uint32_t at_once;
        bool shared;
    } rows[] = {
        {0, 0, 0, 0, false},  {0, 0, 9, 0, false},  {4, 0, 9, 4, false},
        {0, 10, 0, 10, true}, {0, 10, 9, 1, true},  {4, 10, 6, 4, false},
        {4, 10, 7, 3, true},  {4, 10, 5, 4, false}, {4, 4, 0, 4, true},
        {4, 5, 0, 4, false},  {4, 3, 0, 3, true},   {1, 10, 10, 1, true},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        struct world w = world_make(10);
        struct wp_scale_decision decision;

        world_start(&w);
        wp_scaler_set_at_once(w.scaler, 0, rows[i].own);
        w.view.backend_at_once = rows[i].all;
        w.view.others = rows[i].others;
        decision = world_decide(&w);
        if (decision.at_once != rows[i].at_once ||
            decision.shared_bound != rows[i].shared) {
            fail_msg("row %zu: %u, %s", i, decision.at_once,
                     decision.shared_bound ? "shared" : "its own");
        }
        wp_scaler_destroy(w.scaler);
    }
}

/* The backend's bound is shared: what others make is not there. */
static void
test_shared(void **state)
{
    struct world w = world_make(10);
    struct wp_scale_decision decision;

    (void)state;
    world_start(&w);
    w.view.backend_at_once = 20;
    (void)world_decide(&w);
    decision = world_uneven_claims(&w, 600, 1);
    assert_int_equal(decision.at_once, 20);
    assert_true(decision.shared_bound && decision.hit_rate > 0.999);
    w.view.others = 19;
    decision = world_uneven_claims(&w, 30, 1);
    assert_true(decision.at_once < 8 && decision.hit_rate < 0.9);
    w.view.stuck = true;
    decision = world_uneven_claims(&w, 1, 1);
    assert_true(decision.hit_rate == 0);
    wp_scaler_destroy(w.scaler);
}

/* One claim each second needs hardly more than one lead time takes; independent
 * ones are never taken for that. */
static void
test_regular(void **state)
{
    struct world w = world_make(10);
    struct wp_gaps gaps = {0};
    struct wp_rng rng;
    struct wp_scale_decision decision;

    (void)state;
    world_start(&w);
    (void)world_decide(&w);
    decision = world_claims(&w, 2000, 1);
    assert_true(decision.dispersion < 0.5);
    assert_true(decision.target <= 12);
    assert_true(decision.hit_rate >= 0.999);
    wp_scaler_destroy(w.scaler);
    wp_rng_init(&rng, 7);
    for (int i = 0; i < 100000; i++) {
        wp_gaps_add(&gaps, -log(1 - wp_rng_unit(&rng)), 1);
        assert_true(wp_gaps_peakedness(&gaps, 8, 70) > 0.75);
    }
}

/* A plan is raised where the bound makes a difference, and only there. */
static void
test_fitted(void **state)
{
    struct wp_scale_policy policy;
    struct wp_forecast plan = {.leeway = 1, .expected = 8, .dispersion = 0.2};
    uint32_t stock;

    (void)state;
    wp_scale_policy_init(&policy);
    policy.objective = WP_SCALE_HIT_RATE;
    policy.hit_rate = 0.99;
    policy.max = UINT32_MAX;
    stock = wp_forecast_stock(&plan, &policy, WP_MISS_LOST);
    assert_in_range(stock, 9, 14);
    plan.stock = stock;
    wp_forecast_fit(&plan, &policy, WP_MISS_LOST, 0);
    assert_int_equal(plan.stock, stock);
    wp_forecast_fit(&plan, &policy, WP_MISS_LOST, 1000);
    assert_int_equal(plan.stock, stock);
    wp_forecast_fit(&plan, &policy, WP_MISS_LOST, 9);
    assert_true(plan.stock > stock);
    assert_false(plan.saturated);
    /* None is wanted: none it stays. */
    plan.stock = 0;
    wp_forecast_fit(&plan, &policy, WP_MISS_LOST, 9);
    assert_int_equal(plan.stock, 0);
    /* As many come as can be made. */
    plan.stock = stock;
    wp_forecast_fit(&plan, &policy, WP_MISS_LOST, 8);
    assert_true(plan.saturated);
    assert_int_equal(plan.stock, stock);
    /* More than max is not looked for. */
    policy.max = 8;
    plan.stock = 9;
    wp_forecast_fit(&plan, &policy, WP_MISS_LOST, 9);
    assert_int_equal(plan.stock, 9);
    policy.max = 3;
    assert_int_equal(wp_forecast_stock(&plan, &policy, WP_MISS_LOST), 4);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_the_states),
        cmocka_unit_test(test_at_full_load),
        cmocka_unit_test(test_stock_for),
        cmocka_unit_test(test_saturated),
        cmocka_unit_test(test_whose_bound),
        cmocka_unit_test(test_shared),
        cmocka_unit_test(test_regular),
        cmocka_unit_test(test_fitted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
