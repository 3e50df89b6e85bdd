/* The controller, term by term, by steps worked out by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pool/base/rng.h"
#include "tests/support/pool/scaler_world.h"

static void
nothing_seen(void **state)
{
    struct world w = world_make(7);
    struct wp_scale_decision decision;

    (void)state;
    world_start(&w);
    decision = world_decide(&w);
    assert_int_equal(decision.target, 7);
    assert_int_equal(decision.reason, WP_SCALE_NOTHING_SEEN);
    assert_true(w.next_ns == WP_TIME_NEVER);
    assert_true(isnan(decision.hit_rate_seen));
    w.policy.max = 5;
    world_start(&w);
    decision = world_decide(&w);
    assert_int_equal(decision.target, 5);
    assert_int_equal(decision.reason, WP_SCALE_MAX);
    wp_scaler_destroy(w.scaler);
}

/* Ten minutes of 5 claims/s at a lead time of 8 s: 40 expected; Erlang's
 * formula asks for 60, what the rate is not known to asks for little, and one
 * or two less will do, since none missed. */
static void
forecast(void **state)
{
    struct world w = world_make(10);
    struct wp_scale_decision decision;

    (void)state;
    world_start(&w);
    (void)world_decide(&w);
    decision = world_uneven_claims(&w, 3000, 0.2);
    assert_true(fabs(decision.rate_per_s - 5) < 0.2);
    assert_true(fabs(decision.expected - 40) < 2);
    assert_int_equal(decision.reason, WP_SCALE_FORECAST);
    assert_in_range(decision.target, 57, 62);
    /* Whoever reads it can reckon it up. */
    assert_int_equal(decision.target, decision.wanted);
    assert_true(fabs(decision.expected + decision.spread - decision.wanted) <
                1e-9);
    assert_true(fabs(decision.rate_per_s * decision.lead_mean_s -
                     decision.expected) < 1e-9);
    assert_true(decision.hit_rate >= 0.999);
    assert_true(fabs(decision.idle - (decision.target - decision.expected)) <
                0.1);
    assert_true(isnan(decision.hit_rate_best));
    wp_scaler_destroy(w.scaler);
}

static struct wp_scale_decision
live_with_misses(struct world *w, int claims, int of_which_one_in)
{
    struct wp_scale_decision decision = {0};

    for (int i = 0; i < claims; i++) {
        world_pass(w, 0.2);
        wp_scaler_on_claims(w->scaler, w->view.mono_ns, 1,
                            i % of_which_one_in == 0);
        decision = world_decide(w);
    }
    return decision;
}

/* Where none misses for thousands of claims, though the theory lets one in a
 * thousand miss, less is kept. Misses end that at once, and what missed beyond
 * what is allowed is paid back first. */
static void
leeway(void **state)
{
    struct world w = world_make(10);
    struct wp_scale_decision decision;
    uint32_t theory;

    (void)state;
    world_start(&w);
    (void)world_decide(&w);
    theory = world_uneven_claims(&w, 600, 0.2).target;
    decision = world_uneven_claims(&w, 20000, 0.2);
    assert_in_range(decision.target, 41, theory - 4);
    assert_int_equal(decision.reason, WP_SCALE_FORECAST);
    /* As it was seen, not as the theory has it. */
    assert_true(decision.hit_rate >= 0.999);
    assert_true(live_with_misses(&w, 400, 10).target >= theory - 3);
    assert_true(world_uneven_claims(&w, 15000, 0.2).target >= theory - 2);
    assert_true(world_uneven_claims(&w, 20000, 0.2).target <= theory - 4);
    wp_scaler_destroy(w.scaler);
}

/* What was learned of a lax objective says nothing of a strict one. */
static void
stricter(void **state)
{
    struct world w = world_make(10);
    uint32_t lax;

    (void)state;
    w.policy.hit_rate = 0.99;
    world_start(&w);
    (void)world_decide(&w);
    lax = world_uneven_claims(&w, 20000, 0.2).target;
    w.policy.hit_rate = 0.995;
    world_start(&w);
    assert_true(world_uneven_claims(&w, 2, 0.2).target > lax + 4);
    wp_scaler_destroy(w.scaler);
}

/* A backend that is ready at once: a claim still wants one to be there. */
static void
no_lead(void **state)
{
    struct world w = world_make(0);

    (void)state;
    world_start(&w);
    (void)world_decide(&w);
    /* The first claim of a new pool is no reason for hundreds. */
    assert_in_range(world_claims(&w, 1, 0.001).target, 1, 20);
    for (int i = 0; i < 10000; i++) {
        (void)world_claims(&w, 1, 0.1);
        wp_scaler_on_ready(w.scaler, w.view.mono_ns, 0);
    }
    assert_in_range(world_decide(&w).target, 2, 4);
    wp_scaler_destroy(w.scaler);
}

/* The one that is asked for more than max may have says what can be had. */
static void
impossible(void **state)
{
    struct world w = world_make(10);
    struct wp_scale_decision decision;
    char text[WP_SCALE_TEXT_MAX];

    (void)state;
    w.policy.max = 42;
    world_start(&w);
    (void)world_decide(&w);
    decision = world_uneven_claims(&w, 3000, 0.2);
    assert_int_equal(decision.target, 42);
    assert_int_equal(decision.reason, WP_SCALE_MAX);
    assert_true(decision.wanted > 42);
    assert_true(fabs(decision.hit_rate_best -
                     (1 - wp_stock_miss(WP_MISS_LOST, 42, decision.expected))) <
                1e-12);
    wp_scale_decision_format(&decision, text, sizeof text);
    assert_non_null(strstr(text, "cannot be had"));
    wp_scaler_destroy(w.scaler);
}

/* Floors, bounds, quota, budget and a stuck refill, one after the other. */
static void
bounds(void **state)
{
    struct world w = world_make(10);
    struct wp_scale_decision decision;

    (void)state;
    w.policy.min = 80;
    w.policy.max = 90;
    world_start(&w);
    (void)world_decide(&w);
    decision = world_uneven_claims(&w, 3000, 0.2);
    assert_int_equal(decision.target, 80);
    assert_int_equal(decision.reason, WP_SCALE_MIN);
    w.policy.min = 0;
    w.view.budget = 30;
    world_start(&w);
    decision = world_decide(&w);
    assert_int_equal(decision.target, 30);
    assert_int_equal(decision.reason, WP_SCALE_BUDGET);
    /* Twenty of the thirty are there and there is room for five more. */
    w.view.budget = UINT32_MAX;
    w.view.ready = 35;
    w.view.room = 5;
    decision = world_decide(&w);
    assert_int_equal(decision.target, 40);
    assert_int_equal(decision.reason, WP_SCALE_QUOTA);
    w.view.room = UINT32_MAX;
    w.view.stuck = true;
    decision = world_decide(&w);
    assert_int_equal(decision.target, 40);
    assert_int_equal(decision.reason, WP_SCALE_NO_PROGRESS);
    w.view.stuck = false;
    decision = world_decide(&w);
    assert_true(decision.target > 55);
    wp_scaler_destroy(w.scaler);
}

/* spec.replicas written by somebody else: theirs, until the policy changes. */
static void
by_hand(void **state)
{
    struct world w = world_make(10);
    struct wp_scale_decision decision;

    (void)state;
    world_start(&w);
    (void)world_decide(&w);
    decision = world_uneven_claims(&w, 3000, 0.2);
    assert_true(decision.target > 50);
    w.view.replicas = 3;
    decision = world_decide(&w);
    assert_int_equal(decision.target, 3);
    assert_int_equal(decision.reason, WP_SCALE_BY_HAND);
    assert_true(decision.wanted > 50);
    /* Back to what it was is still by hand. */
    w.view.replicas = 10;
    decision = world_decide(&w);
    assert_int_equal(decision.target, 10);
    assert_int_equal(decision.reason, WP_SCALE_BY_HAND);
    /* The same policy again changes nothing; another takes the pool back. */
    world_start(&w);
    assert_int_equal(world_decide(&w).reason, WP_SCALE_BY_HAND);
    strcpy(w.policy.resume, "monday");
    world_start(&w);
    decision = world_decide(&w);
    assert_int_equal(decision.reason, WP_SCALE_FORECAST);
    assert_true(decision.target > 50);
    wp_scaler_destroy(w.scaler);
}

/* To zero and back: down when nothing comes, up at the first claim. */
static void
to_zero(void **state)
{
    struct world w = world_make(0);
    struct wp_scale_decision decision;
    int asked = 0;

    (void)state;
    world_start(&w);
    assert_int_equal(world_decide(&w).target, 0);
    decision = world_claims(&w, 20, 1);
    assert_true(decision.target > 10);
    while (decision.target > 0 && asked < 1000) {
        assert_true(w.next_ns != WP_TIME_NEVER);
        w.view.wall_ns += w.next_ns - w.view.mono_ns;
        w.view.mono_ns = w.next_ns;
        decision = world_decide(&w);
        asked++;
    }
    assert_int_equal(decision.target, 0);
    assert_true(w.view.mono_ns > 320 * S);
    /* Nothing ticks any more. */
    assert_true(w.next_ns == WP_TIME_NEVER);
    assert_true(world_claims(&w, 1, 5000).target > 0);
    wp_scaler_destroy(w.scaler);
}

/* No less than the last five minutes needed, then a tenth in 30 s. */
static void
slowly_down(void **state)
{
    struct world w = world_make(0);
    struct wp_scale_decision decision;
    uint32_t before;
    bool held = false;

    (void)state;
    world_start(&w);
    (void)world_decide(&w);
    before = world_uneven_claims(&w, 3000, 0.2).target;
    for (int s = 0; s < 3600; s++) {
        world_pass(&w, 1);
        decision = world_decide(&w);
        if (s < 290) {
            /* Forty came within one lead time. */
            assert_true(decision.target >= 40);
        }
        if (s % 30 == 0) {
            /* Two steps may begin within any 30 s. */
            assert_true(decision.target + before / 5 + 2 >= before);
            before = decision.target;
        }
        held = held || decision.reason == WP_SCALE_HELD;
    }
    assert_true(held);
    assert_int_equal(decision.target, 0);
    wp_scaler_destroy(w.scaler);
}

/* Weighing costs: as the newsvendor would with what was seen. */
static void
cost(void **state)
{
    struct world w = world_make(0);
    struct wp_scale_decision decision;

    (void)state;
    w.policy.objective = WP_SCALE_COST;
    w.policy.miss_cost_s = 60;
    world_start(&w);
    (void)world_decide(&w);
    decision = world_uneven_claims(&w, 6000, 0.2);
    assert_true(abs((int)decision.target -
                    (int)wp_stock_for_cost(WP_MISS_LOST, 5, 60, 40)) <= 2);
    assert_true(isnan(decision.hit_rate_best));
    wp_scaler_destroy(w.scaler);
}

/* The kept ones, newest first; each has a line that fits. */
static void
kept(void **state)
{
    struct world w = world_make(0);
    struct wp_scale_decision last;
    struct wp_scale_decision one;
    char text[WP_SCALE_TEXT_MAX];
    uint64_t number;
    uint32_t n = 0;

    (void)state;
    world_start(&w);
    (void)world_decide(&w);
    (void)world_uneven_claims(&w, 100, 3);
    last = world_uneven_claims(&w, 1000, 0.05);
    assert_true(wp_scaler_kept(w.scaler, 0, &one));
    assert_int_equal(one.target, last.target);
    number = one.number;
    while (wp_scaler_kept(w.scaler, n, &one)) {
        assert_int_equal(one.number, number - n);
        wp_scale_decision_format(&one, text, sizeof text);
        assert_true(strlen(text) > 20 && strlen(text) < sizeof text - 1);
        n++;
    }
    assert_true(n > 5 && n <= WP_SCALE_DECISIONS_KEPT);
    wp_scaler_destroy(w.scaler);
}

/* Whatever comes: within the bounds, finite, asked again later than now. */
static void
anything(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 40; seed++) {
        struct world w = world_make((uint32_t)seed % 50);
        struct wp_rng rng;

        wp_rng_init(&rng, seed);
        w.policy.objective = seed % 3 == 0 ? WP_SCALE_COST : WP_SCALE_HIT_RATE;
        w.policy.miss_cost_s = seed % 2 == 0 ? 0.001 : 1e9;
        w.policy.hit_rate = seed % 2 == 0 ? 0.5 : 0.99999;
        w.policy.min = (uint32_t)wp_rng_below(&rng, 5);
        w.policy.max = w.policy.min + (uint32_t)wp_rng_below(&rng, 1 << 20);
        world_start(&w);
        for (int i = 0; i < 400; i++) {
            uint32_t n =
                (uint32_t)(wp_rng_next(&rng) >> (32 + wp_rng_below(&rng, 32)));
            struct wp_scale_decision decision;
            struct wp_err err;
            char id[16];
            int len = snprintf(id, sizeof id, "r%d", i);

            w.view.mono_ns +=
                (int64_t)(wp_rng_next(&rng) >> (16 + wp_rng_below(&rng, 40)));
            w.view.wall_ns =
                (int64_t)wp_rng_next(&rng) >> wp_rng_below(&rng, 30);
            w.view.ready = n / 2;
            w.view.room = wp_rng_below(&rng, 2) == 0 ? 0 : UINT32_MAX;
            w.view.stuck = wp_rng_below(&rng, 9) == 0;
            /* Now and then a clock that goes back. */
            wp_scaler_on_claims(w.scaler,
                                wp_rng_below(&rng, 9) == 0 ? 0 : w.view.mono_ns,
                                n, n / 3);
            wp_scaler_on_ready(w.scaler, w.view.mono_ns,
                               (int64_t)wp_rng_next(&rng) >>
                                   wp_rng_below(&rng, 64));
            (void)wp_scaler_reserve(w.scaler, (struct wp_str){id, (size_t)len},
                                    n, w.view.wall_ns / 2,
                                    w.view.wall_ns / 2 + 1 + n, &err);
            decision = wp_scaler_decide(w.scaler, &w.view, &w.next_ns);
            assert_true(w.next_ns > w.view.mono_ns);
            assert_in_range(decision.target, w.policy.min, w.policy.max);
            assert_true(isfinite(decision.expected));
            assert_true(isfinite(decision.spread));
            assert_true(isfinite(decision.rate_per_s));
            assert_true(decision.hit_rate >= 0 && decision.hit_rate <= 1);
            assert_true(decision.idle >= 0 && isfinite(decision.idle));
            assert_true(wp_scaler_marginal(w.scaler, n) >= 0);
        }
        wp_scaler_destroy(w.scaler);
    }
}

/* What is shorter than a quantum is shown as it was measured, and counts as a
 * quantum. */
static void
short_lead_times_are_shown_as_they_are(void **state)
{
    struct world w = world_make(10);
    struct wp_scale_decision decision;
    char text[WP_SCALE_TEXT_MAX];

    (void)state;
    world_start(&w);
    for (int i = 0; i < 100; i++) {
        wp_scaler_on_ready(w.scaler, w.view.mono_ns, 3 * WP_NS_PER_MS);
    }
    decision = world_uneven_claims(&w, 500, 0.2);
    assert_true(fabs(decision.lead_mean_s - 0.003) < 1e-6);
    assert_true(decision.lead_p99_s > 0.0025 && decision.lead_p99_s < 0.004);
    assert_true(fabs(decision.rate_per_s * 0.01 - decision.expected) < 1e-9);
    wp_scale_decision_format(&decision, text, sizeof text);
    if (strstr(text, " x 0.01 s lead (the least that counts; measured 0.003 "
                     "s) = ") == NULL) {
        fail_msg("%s", text);
    }
    wp_scaler_destroy(w.scaler);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_seen),
        cmocka_unit_test(forecast),
        cmocka_unit_test(leeway),
        cmocka_unit_test(stricter),
        cmocka_unit_test(short_lead_times_are_shown_as_they_are),
        cmocka_unit_test(no_lead),
        cmocka_unit_test(impossible),
        cmocka_unit_test(bounds),
        cmocka_unit_test(by_hand),
        cmocka_unit_test(to_zero),
        cmocka_unit_test(slowly_down),
        cmocka_unit_test(cost),
        cmocka_unit_test(kept),
        cmocka_unit_test(anything),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
