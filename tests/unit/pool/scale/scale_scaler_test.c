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
#include "pool/scale/scaler_impl.h"
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

/* So is it with another objective; an easier one, or another bound, leaves what
 * was learned. */
static void
another_policy(void **state)
{
    struct world w = world_make(10);
    struct wp_scaler *scaler = w.scaler;

    (void)state;
    world_start(&w);
    scaler->theory_slack_log = 1;
    w.policy.max = 500;
    world_start(&w);
    assert_true(scaler->theory_slack_log == 1);
    w.policy.hit_rate = 0.99;
    world_start(&w);
    assert_true(scaler->theory_slack_log == 1);
    w.policy.hit_rate = 0.991;
    world_start(&w);
    assert_true(scaler->theory_slack_log == 0);
    scaler->theory_slack_log = 1;
    w.policy.objective = WP_SCALE_COST;
    w.policy.miss_cost_s = 60;
    world_start(&w);
    assert_true(scaler->theory_slack_log == 0);
    wp_scaler_destroy(scaler);
}

/* Whoever sets a policy may set replicas with it: that is no hand. */
static void
replicas_with_a_policy(void **state)
{
    struct world w = world_make(10);

    (void)state;
    world_start(&w);
    (void)world_claims(&w, 20, 1);
    w.policy.max = 500;
    world_start(&w);
    w.view.replicas = 17;
    assert_int_not_equal(world_decide(&w).reason, WP_SCALE_BY_HAND);
    /* Nor when what was due meanwhile is decided first. */
    w.policy.max = 600;
    world_start(&w);
    while (w.view.mono_ns < w.next_ns) {
        world_pass(&w, 1);
    }
    w.view.replicas = 16;
    assert_int_not_equal(world_decide(&w).reason, WP_SCALE_BY_HAND);
    w.view.replicas = 18;
    assert_int_equal(world_claims(&w, 1, 1).reason, WP_SCALE_BY_HAND);
    wp_scaler_destroy(w.scaler);
    /* So with the first one, once something was decided without any. */
    for (int decided = 0; decided < 2; decided++) {
        w = world_make(10);
        if (decided == 1) {
            (void)world_decide(&w);
        }
        world_start(&w);
        w.view.replicas = 17;
        assert_int_equal(world_decide(&w).reason == WP_SCALE_BY_HAND,
                         decided == 0);
        wp_scaler_destroy(w.scaler);
    }
}

/* So long after the latest claim there is a forecast, and then none. */
static void
quiet_after(struct world *w, double s)
{
    w->policy.down_window_ns = 0;
    world_start(w);
    (void)world_claims(w, 20, 60);
    w->scaler->gap_s = 60;
    world_pass(w, s - 1);
    w->scaler->fresh = true;
    (void)world_decide(w);
    assert_true(w->scaler->forecast.stock > 0);
    world_pass(w, 2);
    w->scaler->fresh = true;
    (void)world_decide(w);
    assert_int_equal(w->scaler->forecast.stock, 0);
    wp_scaler_destroy(w->scaler);
}

/* By the hit rate a fifth of the misses may come after silence: one in a
 * thousand gives 60 s ln(5000); by the cost every second claim may. */
static void
quiet(void **state)
{
    struct world w = world_make(10);

    (void)state;
    quiet_after(&w, 60 * log(5000));
    w = world_make(10);
    w.policy.objective = WP_SCALE_COST;
    w.policy.miss_cost_s = 3600;
    quiet_after(&w, 60 * log(2));
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

/* A bound that is just what is wanted anyway is no reason, and one that is one
 * off is. */
static void
bounds_that_just_fit(void **state)
{
    struct world w = world_make(10);
    struct wp_scale_decision decision;
    uint32_t wanted;

    (void)state;
    world_start(&w);
    (void)world_decide(&w);
    wanted = world_uneven_claims(&w, 3000, 0.2).wanted;
    w.policy.max = wanted;
    w.view.budget = wanted;
    world_start(&w);
    decision = world_decide(&w);
    assert_int_equal(decision.target, wanted);
    assert_int_equal(decision.reason, WP_SCALE_FORECAST);
    assert_true(isnan(decision.hit_rate_best));
    w.policy.min = wanted;
    world_start(&w);
    assert_int_equal(world_decide(&w).reason, WP_SCALE_FORECAST);
    w.policy.min = 0;
    w.policy.max = wanted - 1;
    world_start(&w);
    decision = world_decide(&w);
    assert_int_equal(decision.target, wanted - 1);
    assert_int_equal(decision.reason, WP_SCALE_MAX);
    assert_true(decision.hit_rate_best > 0.99 &&
                decision.hit_rate_best < 0.9999);
    w.policy.max = 1000;
    w.view.budget = wanted - 1;
    world_start(&w);
    decision = world_decide(&w);
    assert_int_equal(decision.target, wanted - 1);
    assert_int_equal(decision.reason, WP_SCALE_BUDGET);
    assert_true(isnan(decision.hit_rate_best));
    w.view.budget = UINT32_MAX;
    /* Of what is there and what there is room for all is taken. */
    w.view.ready = wanted - 4;
    w.view.warming = 1;
    w.view.room = 3;
    decision = world_decide(&w);
    assert_int_equal(decision.target, wanted);
    assert_int_equal(decision.reason, WP_SCALE_FORECAST);
    w.policy.min = wanted + 1;
    world_start(&w);
    decision = world_decide(&w);
    assert_int_equal(decision.target, wanted + 1);
    assert_int_equal(decision.reason, WP_SCALE_MIN);
    wp_scaler_destroy(w.scaler);
}

/* Nobody looks for a minute: what was due then is not made up, and what was
 * announced for that time is over. */
static void
late(void **state)
{
    struct world w = world_make(10);
    struct wp_scale_reservation one;
    int64_t due_ns;
    struct wp_err err;

    (void)state;
    world_start(&w);
    (void)world_decide(&w);
    (void)world_claims(&w, 20, 1);
    assert_int_equal(wp_scaler_reserve(w.scaler, WP_STR("r"), 3, w.view.wall_ns,
                                       w.view.wall_ns + 30 * S, &err),
                     WP_OK);
    (void)world_decide(&w);
    assert_true(wp_scaler_reservation(w.scaler, 0, &one));
    assert_false(wp_scaler_reservation(w.scaler, 1, &one));
    due_ns = wp_scaler_due_ns(w.scaler);
    assert_int_equal(due_ns, w.next_ns);
    w.view.wall_ns += due_ns - w.view.mono_ns + WP_SCALE_LATE_NS;
    w.view.mono_ns = due_ns + WP_SCALE_LATE_NS;
    assert_int_equal(
        wp_scaler_pass(w.scaler, w.view.mono_ns - S, w.view.wall_ns - S), 0);
    due_ns = wp_scaler_due_ns(w.scaler);
    assert_true(due_ns > w.view.mono_ns - S && due_ns < WP_TIME_NEVER);
    w.view.wall_ns += due_ns - w.view.mono_ns + WP_SCALE_LATE_NS;
    w.view.mono_ns = due_ns + WP_SCALE_LATE_NS + WP_SCALE_QUANTUM_NS;
    w.view.wall_ns += WP_SCALE_QUANTUM_NS;
    assert_int_equal(wp_scaler_pass(w.scaler, w.view.mono_ns, w.view.wall_ns),
                     WP_SCALE_PASSED_LATE);
    assert_int_equal(wp_scaler_due_ns(w.scaler), WP_TIME_NEVER);
    assert_false(wp_scaler_reservation(w.scaler, 0, &one));
    assert_int_equal(wp_scaler_cancel(w.scaler, WP_STR("r")), WP_NOT_FOUND);
    assert_true(world_decide(&w).reserved == 0);
    /* A wall that is off is followed from a tenth of a second on. */
    w.view.wall_ns += WP_SCALE_WALL_SLACK_NS - WP_SCALE_QUANTUM_NS;
    assert_int_equal(wp_scaler_pass(w.scaler, w.view.mono_ns, w.view.wall_ns),
                     0);
    w.view.wall_ns += WP_SCALE_QUANTUM_NS;
    assert_int_equal(wp_scaler_pass(w.scaler, w.view.mono_ns, w.view.wall_ns),
                     WP_SCALE_PASSED_CLOCK);
    assert_int_equal(wp_scaler_wall_ns(w.scaler), w.view.wall_ns);
    w.view.wall_ns -= WP_SCALE_WALL_SLACK_NS;
    assert_int_equal(wp_scaler_pass(w.scaler, w.view.mono_ns, w.view.wall_ns),
                     WP_SCALE_PASSED_CLOCK);
    wp_scaler_destroy(w.scaler);
}

/* --- In words --- */

static const struct wp_scale_decision told = {
    .target_before = 40,
    .target = 57,
    .wanted = 58,
    .reason = WP_SCALE_FORECAST,
    .rate_per_s = 5.125,
    .lead_mean_s = 8.25,
    .expected = 42.28,
    .spread = 15.72,
    .dispersion = 1,
    .hit_rate = NAN,
    .idle = 15.25,
    .hit_rate_seen = NAN,
    .hit_rate_best = NAN,
    .makes_per_s = NAN,
};
#define DEMAND "5.125 claims/s x 8.25 s lead = 42.28 expected + 15.72 spread"

#define TELL(field, value, text)                                               \
    do {                                                                       \
        struct wp_scale_decision with = told;                                  \
        char line[WP_SCALE_TEXT_MAX];                                          \
                                                                               \
        with.field = (value);                                                  \
        wp_scale_decision_format(&with, line, sizeof line);                    \
        assert_string_equal(line, text);                                       \
    } while (0)

static void
words(void **state)
{
    struct wp_scale_decision d = told;
    char seen[WP_SCALE_TEXT_MAX];

    (void)state;
#define REST " = 58 wanted; what the next lead time will take"
    TELL(target, 57, "target 40 -> 57: " DEMAND REST);
    TELL(target, 40, "target 40: " DEMAND REST);
    TELL(learned, true, "target 40 -> 57: " DEMAND " (learned)" REST);
    TELL(dispersion, 0.951, "target 40 -> 57: " DEMAND REST);
    TELL(dispersion, 0.5, "target 40 -> 57: " DEMAND " (dispersion 0.5)" REST);
    TELL(dispersion, 1.06,
         "target 40 -> 57: " DEMAND " (dispersion 1.06)" REST);
    TELL(spread, -2.5,
         "target 40 -> 57: 5.125 claims/s x 8.25 s lead = 42.28 expected - 2.5 "
         "spread" REST);
    TELL(lead_mean_s, 0.01,
         "target 40 -> 57: 5.125 claims/s x 0.01 s lead = 42.28 expected + "
         "15.72 spread" REST);
    TELL(lead_mean_s, 0.0099,
         "target 40 -> 57: 5.125 claims/s x 0.01 s lead (the least that "
         "counts; measured 0.0099 s) = 42.28 expected + 15.72 spread" REST);
    TELL(reserved, 9, "target 40 -> 57: " DEMAND " + 9 reserved" REST);
    TELL(floor, 3,
         "target 40 -> 57: " DEMAND " = 58 wanted, floor 3; what the next lead "
         "time will take");
    TELL(hit_rate, 0.9987,
         "target 40 -> 57: " DEMAND REST
         "; expect 99.870 % hits with 15.25 idle");
    TELL(hit_rate_seen, 0.5, "target 40 -> 57: " DEMAND REST ", seen 50.000 %");
    TELL(hit_rate_best, 0.25,
         "target 40 -> 57: " DEMAND REST
         "; the objective cannot be had within max, 25.000 % can");
    TELL(reason, WP_SCALE_NOTHING_SEEN,
         "target 40 -> 57: no claim yet: spec.replicas within the bounds");
    d.makes_per_s = 3.5;
    d.at_once = 42;
    d.expected = 42;
    wp_scale_decision_format(&d, seen, sizeof seen);
    assert_non_null(
        strstr(seen, "; creation saturated: 3.5 sandboxes/s can be made"));
    d.expected = 41.9;
    wp_scale_decision_format(&d, seen, sizeof seen);
    assert_null(strstr(seen, "saturated"));
#undef REST
}

/* Each reason has a word of its own and a sentence, as the manual has them. */
static void
reasons(void **state)
{
    static const char *const rows[][2] = {
        {"forecast", "what the next lead time will take"},
        {"burst", "a burst is under way: what such bursts took"},
        {"reserved", "announced demand on top"},
        {"scheduled", "raised to the floor of the schedule"},
        {"min", "raised to min"},
        {"max", "capped by max"},
        {"quota", "not raised: no room for more sandboxes"},
        {"budget", "capped by its share of the group's budget"},
        {"held", "less would do; scaled down slowly"},
        {"no-progress", "not raised: nothing becomes ready"},
        {"by-hand", "spec.replicas rules"},
        {"saturated", "not raised: more claims come than can be made"},
        {"between-bursts", "no burst is due yet"},
    };

    (void)state;
    assert_string_equal(wp_scale_reason_word(WP_SCALE_NOTHING_SEEN),
                        "nothing-seen");
    assert_int_equal(WP_ARRAY_LEN(rows), WP_SCALE_REASON_COUNT - 1);
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        enum wp_scale_reason reason = (enum wp_scale_reason)(i + 1);
        char expected[WP_SCALE_TEXT_MAX];

        (void)snprintf(expected, sizeof expected,
                       "target 40 -> 57: " DEMAND " = 58 wanted; %s",
                       rows[i][1]);
        assert_string_equal(wp_scale_reason_word(reason), rows[i][0]);
        TELL(reason, reason, expected);
    }
}

/* What does not fit is cut, and nothing is written behind it. */
static void
words_are_cut(void **state)
{
    char whole[WP_SCALE_TEXT_MAX];

    (void)state;
    wp_scale_decision_format(&told, whole, sizeof whole);
    for (size_t cap = 0; cap <= strlen(whole) + 1; cap++) {
        char seen[WP_SCALE_TEXT_MAX];

        memset(seen, '#', sizeof seen);
        wp_scale_decision_format(&told, seen, cap);
        assert_int_equal(seen[cap], '#');
        if (cap > 0) {
            assert_int_equal(strlen(seen), cap - 1);
            assert_memory_equal(seen, whole, cap - 1);
        }
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_seen),
        cmocka_unit_test(forecast),
        cmocka_unit_test(leeway),
        cmocka_unit_test(stricter),
        cmocka_unit_test(another_policy),
        cmocka_unit_test(quiet),
        cmocka_unit_test(replicas_with_a_policy),
        cmocka_unit_test(short_lead_times_are_shown_as_they_are),
        cmocka_unit_test(no_lead),
        cmocka_unit_test(impossible),
        cmocka_unit_test(bounds_that_just_fit),
        cmocka_unit_test(late),
        cmocka_unit_test(words),
        cmocka_unit_test(reasons),
        cmocka_unit_test(words_are_cut),
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
