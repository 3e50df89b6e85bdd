/* What is kept between bursts that come by a clock, and what a restart knows of
 * it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "pool/scale/scaler_impl.h"
#include "tests/support/pool/scaler_world.h"

enum {
    HOUR_S = 3600,
    BURST = 120,
};

/* Decides whenever something is due, and lets the time pass. */
static struct wp_scale_decision
live(struct world *w, double s)
{
    int64_t until_ns = w->view.mono_ns + (int64_t)(s * S);
    struct wp_scale_decision decision = world_decide(w);

    while (w->next_ns < until_ns) {
        world_pass(w, (double)(w->next_ns - w->view.mono_ns) / S);
        decision = world_decide(w);
    }
    world_pass(w, (double)(until_ns - w->view.mono_ns) / S);
    return decision;
}

/* A burst of twelve seconds, and the rest of an hour. */
static void
live_an_hour(struct world *w)
{
    (void)world_claims(w, BURST, 0.1);
    (void)live(w, HOUR_S - BURST * 0.1);
}

static struct world
world_of_hours(int hours)
{
    struct world w = world_make(10);

    world_start(&w);
    for (int i = 0; i < hours; i++) {
        live_an_hour(&w);
    }
    return w;
}

/* Every hour, exactly: next to none is kept but for the time around the next
 * one, and it says so. */
static void
by_a_clock(void **state)
{
    struct world w = world_of_hours(4);
    struct wp_scale_decision decision = world_decide(&w);
    char text[WP_SCALE_TEXT_MAX];
    int64_t due_ms;

    (void)state;
    assert_int_equal(decision.due_unix_ms, 0);
    assert_int_not_equal(decision.reason, WP_SCALE_BETWEEN);
    for (int i = 0; i < 4; i++) {
        live_an_hour(&w);
    }
    (void)world_claims(&w, BURST, 0.1);
    decision = live(&w, HOUR_S / 2.0);
    assert_in_range(decision.target, 0, 3);
    assert_int_equal(decision.reason, WP_SCALE_BETWEEN);
    assert_string_equal(wp_scale_reason_word(decision.reason),
                        "between-bursts");
    wp_scale_decision_format(&decision, text, sizeof text);
    assert_non_null(strstr(text, "no burst is due yet"));
    /* Within the sixteenth of an hour before the next one, but for what making
     * them takes. */
    due_ms = decision.due_unix_ms - w.view.wall_ns / WP_NS_PER_MS;
    assert_true(due_ms > 24 * 60 * 1000 && due_ms < 27 * 60 * 1000);
    decision = live(&w, (double)due_ms / 1000 - 1);
    assert_in_range(decision.target, 0, 3);
    decision = live(&w, 2);
    assert_true(decision.target >= BURST / 2);
    assert_int_equal(decision.due_unix_ms, 0);
    assert_int_not_equal(decision.reason, WP_SCALE_BETWEEN);
    wp_scaler_destroy(w.scaler);
}

/* One that comes long before its time: what it took is kept again. */
static void
before_its_time(void **state)
{
    struct world w = world_of_hours(12);
    struct wp_scale_decision decision;

    (void)state;
    (void)world_claims(&w, BURST, 0.1);
    decision = live(&w, 600);
    assert_in_range(decision.target, 0, 3);
    (void)world_claims(&w, BURST, 0.1);
    decision = live(&w, 900);
    assert_true(decision.target >= BURST / 2);
    assert_int_equal(decision.due_unix_ms, 0);
    wp_scaler_destroy(w.scaler);
}

/* The later the more there is to make, where only so many are made at once. */
static void
made_one_by_one(void **state)
{
    struct world w = world_make(10);
    struct wp_scale_decision decision;
    int64_t due_ms;

    (void)state;
    world_start(&w);
    wp_scaler_set_at_once(w.scaler, 0, 10);
    for (int i = 0; i < 14; i++) {
        live_an_hour(&w);
    }
    (void)world_claims(&w, BURST, 0.1);
    decision = live(&w, HOUR_S / 2.0);
    assert_int_equal(decision.reason, WP_SCALE_BETWEEN);
    due_ms = decision.due_unix_ms - w.view.wall_ns / WP_NS_PER_MS;
    /* A dozen turns of eight seconds, and more. */
    assert_true(due_ms > 20 * 60 * 1000 && due_ms < 24 * 60 * 1000 + 30 * 1000);
    wp_scaler_destroy(w.scaler);
}

static void
decide_alike(struct world *a, struct world *b, int hours)
{
    for (int i = 0; i < hours * 60; i++) {
        struct wp_scale_decision x;
        struct wp_scale_decision y;

        if (i % 60 == 0) {
            (void)world_claims(a, BURST, 0.1);
            (void)world_claims(b, BURST, 0.1);
        }
        x = live(a, i % 60 == 59 ? 60 - BURST * 0.1 : 60);
        y = live(b, i % 60 == 59 ? 60 - BURST * 0.1 : 60);
        assert_int_equal(x.target, y.target);
        assert_int_equal(x.reason, y.reason);
        assert_int_equal(x.due_unix_ms, y.due_unix_ms);
    }
}

/* Saved and loaded between two bursts: both know the same. */
static void
restart(void **state)
{
    static uint8_t bytes[WP_SCALE_STATE_MAX];
    struct world a = world_of_hours(12);
    struct world b = world_make(10);
    struct wp_err err;
    size_t len;

    (void)state;
    (void)world_claims(&a, BURST, 0.1);
    (void)live(&a, HOUR_S - BURST * 0.1 - 1200);
    (void)world_claims(&a, 1, 1);
    len = wp_scaler_save(a.scaler, a.view.mono_ns, a.view.wall_ns, bytes,
                         sizeof bytes);
    world_start(&b);
    b.view = a.view;
    assert_int_equal(wp_scaler_load(b.scaler, b.view.mono_ns, b.view.wall_ns,
                                    bytes, len, &err),
                     WP_OK);
    assert_int_equal(world_claims(&a, 1, 1).target,
                     world_claims(&b, 1, 1).target);
    assert_int_equal(live(&a, 1198).target, live(&b, 1198).target);
    decide_alike(&a, &b, 3);
    wp_scaler_destroy(a.scaler);
    wp_scaler_destroy(b.scaler);
}

/* What is learned to be needed is 100 in all states. */
static uint32_t
stock_of_100(struct wp_scaler *scaler, bool due, double claims)
{
    scaler->need.due = due;
    scaler->learn->grouped_claims = claims;
    for (unsigned i = 0; i < WP_LEARN_STATES; i++) {
        scaler->learn->stock[i] = 100;
    }
    scaler->solve_at_ns = WP_TIME_NEVER; /* So it stays. */
    scaler->forecast.stock = 0;
    wp_scaler_learned_stock(scaler);
    return scaler->forecast.stock;
}

/* Six bursts that needed so much more, or less, than 100. */
static void
differ_by(struct wp_bursts *bursts, uint32_t by)
{
    bursts->n = 6;
    for (uint32_t i = 0; i < bursts->n; i++) {
        bursts->of[i].missed = 50;
        bursts->of[i].needed = i % 2 == 0 ? 100 + by : 100 - by;
    }
}

/* The next burst may need more than was ever seen: as long as fewer than three
 * claims might have missed, so much as chance moves what is needed, or, in a
 * burst, three times what bursts have differed by. */
static void
more_than_was_seen(void **state)
{
    struct world w = world_of_hours(8);
    struct wp_scaler *scaler = w.scaler;

    (void)state;
    differ_by(&scaler->bursts, 0);
    assert_int_equal(stock_of_100(scaler, true, 0), 100);
    assert_int_equal(stock_of_100(scaler, false, 0), 110);
    /* One of a thousand claims may miss. */
    assert_int_equal(stock_of_100(scaler, false, 1470), 106);
    assert_int_equal(stock_of_100(scaler, false, 2900), 101);
    assert_int_equal(stock_of_100(scaler, false, 3100), 100);
    assert_int_equal(stock_of_100(scaler, false, 1e9), 100);
    differ_by(&scaler->bursts, 2);
    assert_int_equal(stock_of_100(scaler, true, 0), 106);
    assert_int_equal(stock_of_100(scaler, true, 1600), 103);
    assert_int_equal(stock_of_100(scaler, false, 0), 110);
    differ_by(&scaler->bursts, 20);
    assert_int_equal(stock_of_100(scaler, true, 0), 110);
    scaler->bursts.n = 0; /* Too few of them to tell. */
    assert_int_equal(stock_of_100(scaler, true, 0), 110);
    wp_scaler_destroy(scaler);
}

/* What is needed is worked out anew twice in a lead time, from the moment on
 * that it is due. */
static void
solved_when_due(void **state)
{
    struct world w = world_of_hours(8);
    struct wp_scaler *scaler = w.scaler;

    (void)state;
    scaler->forecast.lead_mean_s = 8;
    scaler->solve_at_ns = scaler->now_ns + 1;
    wp_scaler_learned_stock(scaler);
    assert_true(scaler->solve_at_ns == scaler->now_ns + 1);
    scaler->solve_at_ns = scaler->now_ns;
    wp_scaler_learned_stock(scaler);
    assert_true(scaler->solve_at_ns == scaler->now_ns + 4 * S);
    /* But not more often than twice in a second. */
    scaler->forecast.lead_mean_s = 0.1;
    scaler->solve_at_ns = 0;
    wp_scaler_learned_stock(scaler);
    assert_true(scaler->solve_at_ns == scaler->now_ns + S / 2);
    wp_scaler_destroy(scaler);
}

/* The target when 100 are learned to be needed and 200 were kept. */
static uint32_t
lowered(struct world *w, uint32_t at_once)
{
    struct wp_scaler *scaler = w->scaler;

    world_start(w);
    scaler->need.due = true;
    for (unsigned i = 0; i < WP_LEARN_STATES; i++) {
        scaler->learn->stock[i] = 100;
    }
    scaler->learn->grouped_claims = 1e9;
    scaler->solve_at_ns = WP_TIME_NEVER;
    scaler->at_once = at_once;
    scaler->target = 200;
    scaler->hold.step_ends_ns = 0;
    wp_scaler_step(scaler);
    return scaler->target;
}

/* What was learned is not braked; but where the window or the rate is not the
 * usual one, or more than can be made at once would go while a burst may come.
 */
static void
braked(void **state)
{
    struct world w = world_of_hours(8);
    const struct wp_scale_policy usual = w.policy;

    (void)state;
    assert_int_equal(lowered(&w, 0), 100);
    assert_int_equal(lowered(&w, 100), 100);
    assert_true(lowered(&w, 99) > 100);
    w.policy.down_window_ns += S;
    assert_true(lowered(&w, 0) > 100);
    w.policy = usual;
    w.policy.down_rate += 0.01;
    assert_true(lowered(&w, 0) > 100);
    w.policy = usual;
    assert_int_equal(lowered(&w, 0), 100);
    wp_scaler_destroy(w.scaler);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_a_clock),
        cmocka_unit_test(before_its_time),
        cmocka_unit_test(made_one_by_one),
        cmocka_unit_test(restart),
        cmocka_unit_test(more_than_was_seen),
        cmocka_unit_test(solved_when_due),
        cmocka_unit_test(braked),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
