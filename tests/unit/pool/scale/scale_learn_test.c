/* What is made of the past: needs by slots, the theory's trial, learned stock.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>

#include "pool/base/clock.h"
#include "pool/scale/hold.h"
#include "pool/scale/learn.h"
#include "pool/scale/need.h"
#include "pool/scale/trial.h"
#include "pool/scale/window.h"

#define S WP_NS_PER_S

/* Lead time 4 s: a claim counts for four seconds and no longer. */
static void
need_window(void **state)
{
    struct wp_need need;

    (void)state;
    wp_need_init(&need, 0, 4);
    wp_need_add(&need, 10 * S, 3);
    wp_need_add(&need, 12 * S, 2);
    assert_int_equal(wp_need_now(&need), 5);
    wp_need_add(&need, 13 * S + 800 * WP_NS_PER_MS, 0);
    assert_int_equal(wp_need_now(&need), 5);
    wp_need_add(&need, 14 * S + 200 * WP_NS_PER_MS, 0);
    assert_int_equal(wp_need_now(&need), 2);
    wp_need_add(&need, 17 * S, 0);
    assert_int_equal(wp_need_now(&need), 0);
    wp_need_add(&need, 1000000 * S, UINT32_MAX);
    wp_need_add(&need, 1000000 * S, UINT32_MAX);
    assert_int_equal(wp_need_now(&need), UINT32_MAX);
}

/* Another lead time keeps what has come. */
static void
need_other_lead(void **state)
{
    struct wp_need need;

    (void)state;
    wp_need_init(&need, 0, 1);
    for (int i = 0; i < 40; i++) {
        wp_need_add(&need, 100 * S + i * S / 40, 1);
    }
    wp_need_set_lead(&need, 101 * S, 60);
    assert_int_equal(wp_need_now(&need), 40);
    wp_need_set_lead(&need, 102 * S, 1);
    wp_need_set_lead(&need, 104 * S, 1);
    assert_int_equal(wp_need_now(&need), 0);
}

/* Where only two are made at once, those that wait for their turn are needed,
 * too. */
static void
need_bounded(void **state)
{
    struct wp_need need;

    (void)state;
    wp_need_init(&need, 0, 1);
    wp_need_set_at_once(&need, 2);
    wp_need_add(&need, 90 * S, 3);
    /* Two are made in each second: twenty are on order for ten. */
    wp_need_add(&need, 101 * S, 20);
    for (int i = 1; i <= 8; i++) {
        assert_int_equal(wp_need_now(&need), 22 - 2 * i);
        wp_need_add(&need, (101 + i) * S, 0);
        /* What was in force before is what the latest claim is held against:
         * nothing that was ordered since is there. */
        assert_int_equal(wp_need_least_state(&need), wp_learn_state(true, 0));
        assert_true(wp_need_state(&need) >=
                    wp_learn_state(true, wp_learn_level(4)));
    }
    wp_need_add(&need, 200 * S, 0);
    assert_int_equal(wp_need_now(&need), 0);
    /* Who is behind for good is not so for ever. */
    wp_need_add(&need, 201 * S, UINT32_MAX);
    assert_int_equal(wp_need_now(&need), UINT32_MAX);
    wp_need_add(&need, 203 * S, 0);
    assert_true(wp_need_now(&need) <= 1024);
    wp_need_set_at_once(&need, 0);
    assert_int_equal(wp_need_now(&need), 0);
}

/* The state rises with what comes and stays up for a lead time; a claim is held
 * against the least plan of the lead time before it. */
static void
need_in_force(void **state)
{
    struct wp_need need;

    (void)state;
    wp_need_init(&need, 0, 4);
    wp_need_plan(&need, 7);
    for (int64_t ns = 0; ns < 20 * S; ns += S / 20) {
        if (ns == 10 * S) {
            wp_need_add(&need, ns, 9);
        }
        while (need.slot < ns / need.slot_ns) {
            wp_need_next_slot(&need, ns < 10 * S ? 7 : 30);
        }
        if (ns > 5 * S && ns < 13 * S) {
            assert_int_equal(wp_need_least_plan(&need), 7);
            assert_int_equal(wp_need_least_state(&need),
                             wp_learn_state(true, 0));
        }
        if (ns >= 10 * S && ns < 17 * S) {
            assert_int_equal(wp_need_state(&need),
                             wp_learn_state(true, wp_learn_level(9)));
        }
    }
    assert_int_equal(wp_need_state(&need), wp_learn_state(true, 0));
    assert_int_equal(wp_need_least_plan(&need), 30);
    /* Lowered: at once. */
    wp_need_plan(&need, 4);
    assert_int_equal(wp_need_least_plan(&need), 4);
}

/* A burst is not due, and later it is: what is lowered counts at once, what is
 * raised a lead time later. */
static void
need_due(void **state)
{
    struct wp_need need;

    (void)state;
    wp_need_init(&need, 0, 4);
    wp_need_add(&need, 20 * S, 3);
    assert_int_equal(wp_need_least_state(&need), wp_learn_state(true, 0));
    wp_need_set_due(&need, false);
    assert_int_equal(wp_need_state(&need), wp_learn_state(false, 2));
    assert_int_equal(wp_need_least_state(&need), wp_learn_state(false, 2));
    wp_need_add(&need, 40 * S, 0);
    assert_int_equal(wp_need_least_state(&need), wp_learn_state(false, 0));
    wp_need_set_due(&need, true);
    assert_int_equal(wp_need_state(&need), wp_learn_state(true, 0));
    wp_need_add(&need, 43 * S, 0);
    assert_int_equal(wp_need_least_state(&need), wp_learn_state(false, 0));
    wp_need_add(&need, 45 * S, 0);
    assert_int_equal(wp_need_least_state(&need), wp_learn_state(true, 0));
    /* Long after all that is remembered it is as it is now. */
    wp_need_set_due(&need, false);
    wp_need_add(&need, 4000 * S, 0);
    assert_int_equal(wp_need_least_state(&need), wp_learn_state(false, 0));
}

static void
states(void **state)
{
    (void)state;
    assert_int_equal(wp_learn_level(0), 0);
    assert_int_equal(wp_learn_level(1), 1);
    assert_int_equal(wp_learn_level(2), 2);
    assert_int_equal(wp_learn_level(3), 2);
    assert_int_equal(wp_learn_level(4), 3);
    assert_int_equal(wp_learn_level(UINT32_MAX), WP_LEARN_LEVELS - 1);
    assert_int_equal(wp_learn_state(false, 3), 3);
    assert_int_equal(wp_learn_state(true, WP_LEARN_LEVELS - 1),
                     WP_LEARN_STATES - 1);
}

static const double HALF_LIFE_S = 6 * 3600;

/* Ten claims of a hundred need 50, the others 5, half of the time each need;
 * at one miss in ten the ten are given up. */
static void
one_state(void **state)
{
    struct wp_learn *learn = malloc(sizeof *learn);

    (void)state;
    assert_non_null(learn);
    wp_learn_init(learn);
    for (int i = 0; i < 100; i++) {
        wp_learn_claims(learn, 0, 4, 9);
        wp_learn_claims(learn, 0, 49, 1);
        wp_learn_time(learn, 0, 5, 1, HALF_LIFE_S);
    }
    for (int i = 0; i < 50; i++) {
        wp_learn_solve(learn, 0.12);
    }
    assert_int_equal(learn->stock[0], 13);
    assert_true(fabs(learn->missed - 0.1) < 1e-6);
    assert_true(fabs(learn->idle - 8) < 1e-6);
    for (int i = 0; i < 50; i++) {
        wp_learn_solve(learn, 0.01);
    }
    assert_in_range(learn->stock[0], 50, 51);
    assert_true(learn->missed < 1e-9);
    free(learn);
}

/* Bursts that begin out of calm: the misses that are allowed are spent on the
 * calm state, which lasts long; the busy one gets all it needs. */
static void
two_states(void **state)
{
    struct wp_learn *learn = malloc(sizeof *learn);
    unsigned busy = wp_learn_level(100);

    (void)state;
    assert_non_null(learn);
    wp_learn_init(learn);
    for (int i = 0; i < 100; i++) {
        wp_learn_time(learn, 0, 0, 300, HALF_LIFE_S);
        wp_learn_claims(learn, 0, 0, 1 + (uint32_t)i % 20);
        wp_learn_time(learn, busy, 100, 10, HALF_LIFE_S);
        wp_learn_claims(learn, busy, 100, 100);
    }
    for (int i = 0; i < 50; i++) {
        wp_learn_solve(learn, 0.05);
    }
    /* 1050 of 11050 claims begin bursts: all but a twentieth of all. */
    assert_true(learn->missed <= 0.051);
    assert_in_range(learn->stock[0], 3, 8);
    assert_in_range(learn->stock[busy], 200, 210);
    assert_int_equal(learn->stock[WP_LEARN_LEVELS - 1], learn->stock[busy]);
    /* The others are learned by themselves. */
    assert_true(learn->group[WP_LEARN_LEVELS] == WP_LEARN_LEVELS);
    assert_int_equal(learn->stock[WP_LEARN_STATES - 1], 0);
    /* States in between were never seen: they go with a neighbour. */
    assert_true(wp_learn_group_s(learn, 0) > 15000);
    assert_true(wp_learn_seen_s(learn, 1) == 0);
    /* A price instead: a miss worth little is missed. */
    wp_learn_solve_cost(learn, 1);
    assert_int_equal(learn->stock[0], 0);
    wp_learn_solve_cost(learn, 1e9);
    assert_in_range(learn->stock[0], 20, 21);
    free(learn);
}

/* What a rare state happened to need is no reason to treat it by itself. */
static void
few_groups(void **state)
{
    struct wp_learn *learn = malloc(sizeof *learn);

    (void)state;
    assert_non_null(learn);
    wp_learn_init(learn);
    for (int i = 0; i < 1000; i++) {
        unsigned s = (unsigned)i % 10 == 0 ? 3 : 2;

        wp_learn_time(learn, s, 3, 10, HALF_LIFE_S);
        wp_learn_claims(learn, s, 0, 40 + (uint32_t)i % 7);
    }
    for (int i = 0; i < 50; i++) {
        wp_learn_solve(learn, 0.01);
    }
    assert_int_equal(learn->group[2], learn->group[3]);
    assert_int_equal(learn->stock[2], learn->stock[3]);
    free(learn);
}

/* Hours later what was learned counts half, and years wear nothing out. */
static void
fades(void **state)
{
    struct wp_learn *learn = malloc(sizeof *learn);

    (void)state;
    assert_non_null(learn);
    wp_learn_init(learn);
    wp_learn_time(learn, 1, 1, 1000, HALF_LIFE_S);
    wp_learn_time(learn, 2, 2, 6 * 3600, HALF_LIFE_S);
    /* The two are one group; both are past the half of their life. */
    assert_true(fabs(wp_learn_group_s(learn, 1) - 11285) < 10);
    assert_true(fabs(wp_learn_seen_s(learn, 2) - 10800) < 10);
    for (int i = 0; i < 10000; i++) {
        wp_learn_time(learn, 3, 5, 6 * 3600, HALF_LIFE_S);
        wp_learn_claims(learn, 3, 3, 2);
    }
    wp_learn_solve(learn, 0.001);
    assert_true(isfinite(learn->missed));
    assert_in_range(learn->stock[3], 5, 5);
    wp_learn_claims(learn, 3, UINT32_MAX, UINT32_MAX);
    wp_learn_solve(learn, 0.001);
    assert_true(isfinite(learn->missed));
    free(learn);
}

/* One jump is no failure; the fourth one is. */
static void
trial(void **state)
{
    struct wp_trial t = {.claims = 0};

    (void)state;
    for (int i = 0; i < 4; i++) {
        assert_false(wp_trial_fails(&t, 0.001));
        wp_trial_time(&t, 100);
        wp_trial_claims(&t, 10, 0, 5, 30);
        wp_trial_claims(&t, 10, 4, 40, 30);
        wp_trial_claims(&t, 10, 44, 40, 30);
    }
    assert_true(wp_trial_fails(&t, 0.001));
    /* Single misses within what is allowed are none either. */
    t = (struct wp_trial){.claims = 0};
    for (int i = 0; i < 1000; i++) {
        wp_trial_time(&t, 1);
        wp_trial_claims(&t, 10, 0, i % 100 == 0 ? 11 : 10, 0.5);
    }
    assert_false(wp_trial_fails(&t, 0.001));
}

/* How many miss, and from when on it is another episode. */
static void
trial_counts(void **state)
{
    struct wp_trial t = {.claims = 0};

    (void)state;
    wp_trial_time(&t, 1000);
    assert_int_equal(wp_trial_claims(&t, 10, 4, 6, 30), 0);
    assert_int_equal(wp_trial_claims(&t, 10, 4, 7, 30), 1);
    assert_int_equal(wp_trial_claims(&t, 10, 10, 2, 30), 2);
    assert_int_equal(wp_trial_claims(&t, 10, 11, 3, 30), 3);
    assert_true(t.claims == 18 && t.missed == 6 && t.episodes == 1);
    assert_true(t.since_s == 0);
    /* Just so far apart is no other one. */
    wp_trial_time(&t, 30);
    assert_int_equal(wp_trial_claims(&t, 0, 0, 1, 30), 1);
    assert_true(t.episodes < 1 && t.since_s == 0);
    wp_trial_time(&t, 31);
    assert_int_equal(wp_trial_claims(&t, 0, 0, 1, 30), 1);
    assert_true(t.episodes > 1.9);
}

/* It is doubted once more than chance allows missed, in more than one and a
 * half episodes, and fails with twice as many, and more. */
static void
trial_doubts(void **state)
{
    struct wp_trial t = {.claims = 1024, .missed = 2, .episodes = 2};

    (void)state;
    assert_true(wp_trial_doubts(&t, 1.0 / 1024));
    assert_false(wp_trial_doubts(&t, 2.0 / 1024));
    t.episodes = 1.5;
    assert_false(wp_trial_doubts(&t, 1.0 / 1024));
    t = (struct wp_trial){.claims = 1024, .missed = 1024, .episodes = 3};
    assert_false(wp_trial_fails(&t, 1.0 / 1024));
    t.episodes = 3.1;
    assert_true(wp_trial_fails(&t, 1.0 / 1024));
    t.episodes = 1.6; /* As before, that is enough. */
    assert_true(wp_trial_fails(&t, 1.0 / 1024));
    t.episodes = 1.5;
    assert_false(wp_trial_fails(&t, 1.0 / 1024));
}

/* What misses belie was seen over more than the time asked for, in as many
 * episodes, and by more than chance. */
static void
trial_belies(void **state)
{
    const struct wp_trial seen = {
        .claims = 1000, .missed = 100, .episodes = 4, .apart_s = 60};
    struct wp_trial t = seen;

    (void)state;
    assert_true(wp_trial_belies(&seen, 0.001, 59));
    assert_false(wp_trial_belies(&seen, 0.001, 60));
    assert_false(wp_trial_belies(&seen, 0.1, 59));
    t.episodes = 2.5;
    assert_false(wp_trial_belies(&t, 0.001, 59));
    t.episodes = 2.6;
    assert_true(wp_trial_belies(&t, 0.001, 59));
    /* Eight are allowed, and chance makes it sixteen. */
    t = (struct wp_trial){
        .claims = 8192, .missed = 16, .episodes = 8, .apart_s = 60};
    assert_false(wp_trial_belies(&t, 1.0 / 1024, 59));
    t.missed = 16.1;
    assert_true(wp_trial_belies(&t, 1.0 / 1024, 59));
}

/* What comes once an hour, a day or a week is known the fourth time. When it
 * does not come any more, it is forgotten after some ten times that. */
static void
trial_far_apart(void **state)
{
    static const double apart_s[] = {3600, 86400, 7 * 86400};

    (void)state;
    for (size_t k = 0; k < sizeof apart_s / sizeof apart_s[0]; k++) {
        struct wp_trial t = {.claims = 0};
        int quiet = 0;

        for (int i = 0; i < 40; i++) {
            assert_int_equal(wp_trial_fails(&t, 0.001), i > 3);
            for (int hour = 0; hour < (int)(apart_s[k] / 3600); hour++) {
                wp_trial_time(&t, 3600);
                wp_trial_claims(&t, 10, 4, 1, 30);
            }
            wp_trial_claims(&t, 10, 0, 200, 30);
        }
        for (; quiet < 1000 && wp_trial_fails(&t, 0.001); quiet++) {
            wp_trial_time(&t, apart_s[k]);
        }
        assert_in_range(quiet, 5, 60);
    }
}

/* A batch of a few per cent of all claims: what is promised is true from the
 * fourth on, and soon it is learned. Between two of them that stays so. */
static void
trial_is_told(void **state)
{
    struct wp_trial t = {.claims = 0};
    int told = 0;

    (void)state;
    for (int i = 0; i < 6; i++) {
        told += wp_trial_belies(&t, 0.01, 100);
        assert_int_equal(wp_trial_belies(&t, 0.01, 100), i >= 3);
        assert_false(wp_trial_belies(&t, 0.01, 86400)); /* Not so far apart. */
        assert_false(wp_trial_belies(&t, 0.03, 100));   /* More is allowed. */
        wp_trial_time(&t, 40000);
        wp_trial_claims(&t, 10000, 0, 9600, 30);
        assert_int_equal(wp_trial_fails(&t, 0.01), i >= 4);
        wp_trial_claims(&t, 10, 0, 400, 30);
        assert_int_equal(wp_trial_fails(&t, 0.01), i >= 3);
    }
    assert_int_equal(told, 3);
    /* Less is enough for it to stay so than for it to begin. */
    t.missed = 0.023 * t.claims;
    assert_true(wp_trial_fails(&t, 0.01));
    t.missed = 0.013 * t.claims;
    assert_false(wp_trial_fails(&t, 0.01));
    t.missed = 0.023 * t.claims;
    assert_false(wp_trial_fails(&t, 0.01));
    /* One jump, however large, is no reason. */
    t = (struct wp_trial){.claims = 0};
    wp_trial_claims(&t, 10, 0, 5000, 30);
    assert_false(wp_trial_belies(&t, 0.01, 0));
}

/* Steady traffic: the longest window. A jump: soon one that knows of it only. */
static void
windows(void **state)
{
    struct wp_windows w;
    double level;
    int64_t ns = 0;

    (void)state;
    wp_windows_init(&w, 0, 1);
    for (int i = 0; i < 40000; i++) {
        ns += S / 4;
        wp_windows_add(&w, ns, 1);
    }
    level = wp_windows_level(&w, 4, 20000, 1);
    assert_true(fabs(level - 4) < 0.1);
    assert_true(fabs(level - wp_window_rate(&w, wp_window_near(20000))) < 1e-9);
    for (int i = 0; i < 400; i++) {
        ns += S / 40;
        wp_windows_add(&w, ns, 1);
    }
    level = wp_windows_level(&w, 4, 20000, 1);
    assert_true(level > 25);
    /* A gap in which nobody looked: as fast, less sure. */
    wp_windows_skip(&w, ns + 600 * S);
    assert_true(isfinite(wp_windows_level(&w, 4, 20000, 1)));
    assert_true(fabs(wp_window_rate(&w, WP_WINDOWS - 1) - 4) < 1);
}

/* A rate that creeps up: of evenly spaced claims it is known sooner than of
 * independent ones, of which chance may look like that. */
static void
windows_of_regular_claims(void **state)
{
    struct wp_windows w;
    double rate = 4;
    int64_t ns = 0;

    (void)state;
    wp_windows_init(&w, 0, 1);
    for (int i = 0; i < 20000; i++) {
        ns += (int64_t)((double)S / rate);
        wp_windows_add(&w, ns, 1);
        rate *= i < 19000 ? 1 : 1.0002;
    }
    assert_true(wp_windows_level(&w, 4, 20000, 0.05) > 0.93 * rate);
    assert_true(wp_windows_level(&w, 4, 20000, 1) < 0.85 * rate);
}

/* A rate that grows evenly is not followed from behind. */
static void
windows_of_a_ramp(void **state)
{
    const double per_s2 = 0.5;
    struct wp_windows w;
    double rate = 4;
    int64_t ns = 0;

    (void)state;
    wp_windows_init(&w, 0, 1);
    for (int i = 0; i < 20000; i++) {
        ns += S / 4;
        wp_windows_add(&w, ns, 1);
    }
    for (int i = 0; rate < 80; i++) {
        double gap_s = 1 / rate;

        ns += (int64_t)(gap_s * S);
        rate += per_s2 * gap_s;
        wp_windows_add(&w, ns, 1);
        if (rate > 20) {
            double level = wp_windows_level(&w, 1, 20000, 0.05);

            /* Half a second of growth, and what the count wavers. */
            assert_true(fabs(level - rate) < 0.05 * rate);
        }
    }
}

/* A jump looks like a ramp until it is over: no more is made of it than an
 * eighth of it. */
static void
windows_of_a_step(void **state)
{
    struct wp_windows w;
    int64_t ns = 0;
    double most = 0;

    (void)state;
    wp_windows_init(&w, 0, 1);
    for (int i = 0; i < 20000; i++) {
        ns += S / 4;
        wp_windows_add(&w, ns, 1);
    }
    for (int i = 0; i < 40 * 1800; i++) {
        ns += S / 40;
        wp_windows_add(&w, ns, 1);
        most = fmax(most, wp_windows_level(&w, 1, 20000, 1));
    }
    assert_true(most < 40 + 36.0 / 8 + 1);
    assert_true(fabs(wp_windows_level(&w, 1, 20000, 1) - 40) < 1);
}

/* The brakes by themselves. */
static void
hold(void **state)
{
    struct wp_hold h;
    int64_t again_ns;

    (void)state;
    wp_hold_init(&h, 70 * S);
    wp_hold_need(&h, 1000 * S, 40);
    wp_hold_need(&h, 1050 * S, 10);
    assert_int_equal(wp_hold_most(&h, 1069 * S), 40);
    assert_int_equal(wp_hold_most(&h, 1081 * S), 10);
    assert_int_equal(wp_hold_most(&h, 1131 * S), 0);
    assert_true(wp_hold_next_ns(&h, 1131 * S) == WP_TIME_NEVER);
    /* A tenth of 100, then of 90; at least one. */
    assert_int_equal(wp_hold_step(&h, 2000 * S, 0.1, 100, 0, &again_ns), 90);
    assert_true(again_ns == 2030 * S);
    assert_int_equal(wp_hold_step(&h, 2029 * S, 0.1, 90, 0, &again_ns), 90);
    assert_int_equal(wp_hold_step(&h, 2030 * S, 0.1, 90, 0, &again_ns), 81);
    assert_int_equal(wp_hold_step(&h, 2060 * S, 0.1, 3, 0, &again_ns), 2);
    assert_int_equal(wp_hold_step(&h, 2061 * S, 0.1, 2, 7, &again_ns), 7);
    /* No more goes than there is. */
    assert_int_equal(wp_hold_step(&h, 2100 * S, 1, 5, 0, &again_ns), 0);
    assert_int_equal(wp_hold_step(&h, 2130 * S, 0.1, 1, 0, &again_ns), 0);
    /* After all of the window nothing of it is left. */
    for (int64_t i = 0; i < WP_HOLD_PARTS; i++) {
        wp_hold_need(&h, (2200 + 10 * i) * S, 30);
    }
    assert_int_equal(wp_hold_most(&h, 2270 * S), 30);
    assert_int_equal(wp_hold_most(&h, 2900 * S), 0);
    /* Another window: what is held is held for all of it. */
    wp_hold_need(&h, 2900 * S, 40);
    wp_hold_set_window(&h, 2960 * S, 140 * S);
    assert_int_equal(wp_hold_most(&h, 3099 * S), 40);
    assert_true(wp_hold_next_ns(&h, 3099 * S) == 3100 * S);
    assert_int_equal(wp_hold_most(&h, 3120 * S), 0);
    /* No window: nothing is held. */
    wp_hold_set_window(&h, 3200 * S, 0);
    wp_hold_need(&h, 3200 * S, 40);
    assert_int_equal(wp_hold_most(&h, 3200 * S), 0);
}

/* Another lead time is as of now, and what was claimed is in the slots that it
 * came in. */
static void
a_lead_time_is_as_of_now(void **state)
{
    struct wp_need need;

    (void)state;
    wp_need_init(&need, 0, 4);
    wp_need_add(&need, 10 * S, 3);
    wp_need_set_lead(&need, 12 * S, 4.1);
    assert_int_equal(need.slot, 12 * S / need.slot_ns);
    assert_int_equal(wp_need_now(&need), 3);
    wp_need_set_lead(&need, 20 * S, 4.1);
    assert_int_equal(need.slot, 20 * S / need.slot_ns);
    assert_int_equal(wp_need_now(&need), 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(need_window),
        cmocka_unit_test(need_other_lead),
        cmocka_unit_test(need_bounded),
        cmocka_unit_test(need_in_force),
        cmocka_unit_test(need_due),
        cmocka_unit_test(states),
        cmocka_unit_test(one_state),
        cmocka_unit_test(two_states),
        cmocka_unit_test(few_groups),
        cmocka_unit_test(fades),
        cmocka_unit_test(trial),
        cmocka_unit_test(trial_counts),
        cmocka_unit_test(trial_doubts),
        cmocka_unit_test(trial_far_apart),
        cmocka_unit_test(trial_belies),
        cmocka_unit_test(trial_is_told),
        cmocka_unit_test(windows),
        cmocka_unit_test(windows_of_regular_claims),
        cmocka_unit_test(windows_of_a_ramp),
        cmocka_unit_test(windows_of_a_step),
        cmocka_unit_test(a_lead_time_is_as_of_now),
        cmocka_unit_test(hold),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
