/* What a scaler tells of its season, and what it keeps of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pool/scale/bursts.h"
#include "pool/scale/learn.h"
#include "pool/scale/scaler.h"
#include "pool/scale/window.h"
#include "tests/support/pool/scaler_seal.h"
#include "tests/support/pool/season_weeks.h"

struct world {
    struct wp_scaler *scaler;
    struct wp_scale_view view;
    int64_t next_ns;
};

static struct world
world_make(void)
{
    struct world w = {
        .view = {.wall_ns = WALL0, .room = UINT32_MAX, .budget = UINT32_MAX}};
    struct wp_scale_policy policy;

    w.scaler = wp_scaler_create(WP_MISS_LOST, 0, 40 * S, 0, WALL0);
    assert_non_null(w.scaler);
    wp_scale_policy_init(&policy);
    policy.objective = WP_SCALE_HIT_RATE;
    policy.hit_rate = 0.99;
    policy.max = 1000;
    wp_scaler_set_policy(w.scaler, &policy);
    return w;
}

static struct wp_scale_decision
world_decide(struct world *w)
{
    struct wp_scale_decision decision =
        wp_scaler_decide(w->scaler, &w->view, &w->next_ns);

    assert_true(w->next_ns > w->view.mono_ns);
    return decision;
}

static void
world_pass(struct world *w, int64_t ns)
{
    w->view.mono_ns += ns;
    w->view.wall_ns += ns;
}

/* Each quarter of a minute what the step's hour brings in it. */
static void
world_live(struct world *w, int64_t for_ns)
{
    const int64_t each_ns = 15 * S;

    for (int64_t at = 0; at < for_ns; at += each_ns) {
        int64_t hour = (w->view.wall_ns - WALL0) / HOUR;

        world_pass(w, each_ns);
        wp_scaler_on_claims(w->scaler, w->view.mono_ns,
                            step_at_nine(hour) / 240, 0);
        if (at + each_ns >= for_ns || at % (60 * S) == 0) {
            (void)world_decide(w);
        }
    }
}

static double
number_after(const char *text, const char *words)
{
    const char *at = strstr(text, words);

    assert_non_null(at);
    return strtod(at + strlen(words), NULL);
}

/* Whoever reads the sentence can reckon it up. */
static void
sentence(void **state)
{
    struct world w = world_make();
    struct wp_scale_decision decision;
    char text[WP_SCALE_TEXT_MAX];
    double rate;
    double today;
    double season;
    double lead_s;
    double expected;

    (void)state;
    world_live(&w, 2 * WEEK + 9 * HOUR - 60 * S);
    /* Asked when it begins to matter, though nothing comes. */
    assert_true(w.next_ns <= w.view.mono_ns + 20 * S);
    world_pass(&w, 20 * S);
    decision = world_decide(&w);
    assert_int_equal(decision.reason, WP_SCALE_SEASON);
    assert_true(fabs(decision.season_per_s - 8) < 0.1);
    assert_true(decision.rate_per_s > 7);
    assert_true(decision.rate_fast_per_s < 2);
    assert_string_equal(wp_scale_reason_word(decision.reason), "season");
    wp_scale_decision_format(&decision, text, sizeof text);
    assert_non_null(strstr(text, "; usual at this time of the week"));
    rate = number_after(text, ": ");
    today = number_after(text, "claims/s (");
    season = number_after(text, "x season ");
    lead_s = number_after(text, ") x ");
    expected = number_after(text, "lead = ");
    assert_true(fabs(today * season / rate - 1) < 0.01);
    assert_true(fabs(rate * lead_s / expected - 1) < 0.01);
    wp_scaler_destroy(w.scaler);
}

/* What the season knows survives, and the two decide alike. */
static void
restart(void **state)
{
    static uint8_t bytes[WP_SCALE_STATE_MAX];
    struct world a = world_make();
    struct world b = world_make();
    struct wp_err err;
    uint32_t seasonal = 0;
    size_t len;

    (void)state;
    world_live(&a, 2 * WEEK + 8 * HOUR + HOUR / 2);
    len = wp_scaler_save(a.scaler, a.view.mono_ns, a.view.wall_ns, bytes,
                         sizeof bytes);
    /* Saving is no telling. */
    assert_int_equal(wp_scaler_save(a.scaler, a.view.mono_ns + HOUR,
                                    a.view.wall_ns + HOUR, bytes, 0),
                     len);
    b.view = a.view;
    b.view.mono_ns = 0;
    assert_int_equal(
        wp_scaler_load(b.scaler, 0, b.view.wall_ns, bytes, len, &err), WP_OK);
    for (int i = 0; i < 3 * 3600; i++) {
        struct wp_scale_decision x;
        struct wp_scale_decision y;

        world_pass(&a, S);
        world_pass(&b, S);
        wp_scaler_on_claims(a.scaler, a.view.mono_ns, 1, 0);
        wp_scaler_on_claims(b.scaler, b.view.mono_ns, 1, 0);
        x = world_decide(&a);
        y = world_decide(&b);
        assert_int_equal(x.target, y.target);
        assert_int_equal(x.reason, y.reason);
        assert_true(x.season_per_s == y.season_per_s);
        seasonal += x.reason == WP_SCALE_SEASON;
    }
    assert_true(seasonal > 0);
    wp_scaler_destroy(a.scaler);
    wp_scaler_destroy(b.scaler);
}

/* With all hours and all reservations: room for the largest table of what was
 * learned (WP_LEARN_STATES * WP_LEARN_BINS cells of 10 bytes, and a head), and
 * of bursts. */
static void
bound(void **state)
{
    struct world w = world_make();
    struct wp_err err;
    size_t len;

    (void)state;
    world_live(&w, 2 * WEEK + HOUR);
    for (int i = 0; i < WP_SCALE_RESERVATIONS_MAX; i++) {
        char id[8];
        int n = snprintf(id, sizeof id, "r%d", i);

        assert_int_equal(wp_scaler_reserve(w.scaler,
                                           (struct wp_str){id, (size_t)n}, 1,
                                           w.view.wall_ns + HOUR,
                                           w.view.wall_ns + 2 * HOUR, &err),
                         WP_OK);
    }
    len = wp_scaler_save(w.scaler, w.view.mono_ns, w.view.wall_ns, NULL, 0);
    print_message("state: %zu bytes\n", len);
    assert_true(len + WP_LEARN_STATES * WP_LEARN_BINS * 10 + 300 +
                    WP_BURSTS * 20 <=
                WP_SCALE_STATE_MAX);
    wp_scaler_destroy(w.scaler);
}

/* With the right sum, but what cannot be: a rate is known as of a later time
 * than that of the whole. */
static void
what_cannot_be(void **state)
{
    static uint8_t bytes[WP_SCALE_STATE_MAX];
    struct world a = world_make();
    struct world b = world_make();
    /* Behind the head, what is said of claims, and two sums of each window. */
    const size_t at = 110 + 2 * 8 * WP_WINDOWS;
    struct wp_err err;
    size_t len;

    (void)state;
    wp_scaler_on_ready(a.scaler, S, 3 * S);
    len = wp_scaler_save(a.scaler, S, WALL0, bytes, sizeof bytes);
    bytes[at + 7] = 0x7f;
    scaler_seal(bytes, len, bytes[4]);
    assert_int_equal(wp_scaler_load(b.scaler, S, WALL0, bytes, len, &err),
                     WP_INVALID_ARGUMENT);
    assert_string_equal(err.msg, "scaler state: damaged");
    bytes[at + 7] = 0;
    scaler_seal(bytes, len, bytes[4]);
    assert_int_equal(wp_scaler_load(b.scaler, S, WALL0, bytes, len, &err),
                     WP_OK);
    wp_scaler_destroy(a.scaler);
    wp_scaler_destroy(b.scaler);
}

/* Of another version than this one: nothing of it counts. */
static void
versions(void **state)
{
    static uint8_t bytes[WP_SCALE_STATE_MAX];
    struct world a = world_make();
    struct world b = world_make();
    struct wp_err err;
    size_t len;

    (void)state;
    wp_scaler_on_ready(a.scaler, S, 3 * S);
    len = wp_scaler_save(a.scaler, S, WALL0, bytes, sizeof bytes);
    assert_int_equal(bytes[4], 7);
    for (uint8_t version = 5; version <= 8; version += 3) {
        scaler_seal(bytes, len, version);
        assert_int_equal(wp_scaler_load(b.scaler, S, WALL0, bytes, len, &err),
                         WP_INVALID_ARGUMENT);
        assert_non_null(strstr(err.msg, "version"));
    }
    scaler_seal(bytes, len, 7);
    assert_int_equal(wp_scaler_load(b.scaler, S, WALL0, bytes, len, &err),
                     WP_OK);
    b.view.mono_ns = S;
    assert_true(fabs(world_decide(&b).lead_mean_s - 3) < 1e-6);
    wp_scaler_destroy(a.scaler);
    wp_scaler_destroy(b.scaler);
}

/* Nobody asked for hours, though it was to be asked: nobody looked. */
static void
not_asked(void **state)
{
    struct world w = world_make();

    (void)state;
    for (int week = 0; week < 2; week++) {
        world_live(&w, 12 * HOUR);
        world_pass(&w, WEEK - 12 * HOUR);
        (void)world_decide(&w);
    }
    world_live(&w, 10 * HOUR);
    assert_true(fabs(world_decide(&w).season_per_s - 8) < 0.5);
    world_pass(&w, 10 * HOUR);
    assert_true(world_decide(&w).season_per_s == 0);
    wp_scaler_destroy(w.scaler);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sentence),       cmocka_unit_test(restart),
        cmocka_unit_test(bound),          cmocka_unit_test(versions),
        cmocka_unit_test(what_cannot_be), cmocka_unit_test(not_asked),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
