/* What is kept between bursts that come by a clock, and what a restart knows of
 * it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "pool/scale/learn.h"
#include "tests/support/pool/scaler_seal.h"
#include "tests/support/pool/scaler_world.h"

enum {
    HOUR_S = 3600,
    BURST = 120,
    CELL_LEN = 10,
    BURST_LEN = 20,
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

/* --- The version before --- */

struct text {
    uint8_t bytes[WP_SCALE_STATE_MAX];
    size_t len;
};

static void
copy(struct text *out, const uint8_t **from, size_t n)
{
    memcpy(out->bytes + out->len, *from, n);
    out->len += n;
    *from += n;
}

static void
copy_states(struct text *out, const uint8_t **from, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint8_t state = *(*from)++;

        assert_true(state < WP_LEARN_STATES);
        /* A group may have begun with those that were not. */
        out->bytes[out->len++] =
            (uint8_t)(state < WP_LEARN_LEVELS ? 0 : state - WP_LEARN_LEVELS);
    }
}

static uint32_t
u32_at(const uint8_t *at)
{
    return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 |
           (uint32_t)at[3] << 24;
}

/* As the version before would have written it: that knew no bursts, and of the
 * states those only in which one is due. plain: of a scaler that has learned
 * nothing, its length. */
static void
write_as_before(struct text *out, const uint8_t *from, size_t len, size_t plain)
{
    /* Behind the bursts all is of one length, but for what was learned. */
    const size_t behind = 111;
    const uint8_t *end = from + len;
    const size_t states_at = plain - 10 - behind - 13 - 40 - 128;
    uint32_t cells;
    uint32_t n;

    out->len = 0;
    copy(out, &from, states_at);
    copy_states(out, &from, 128);
    copy(out, &from, 40);
    n = u32_at(from);
    assert_in_range(n, 8, 32);
    from += 4 + n * BURST_LEN + 8 + 1;
    copy(out, &from, behind);
    assert_int_equal(*from, 1); /* Something was learned. */
    copy(out, &from, 1 + 6 * sizeof(double));
    from += WP_LEARN_LEVELS;
    copy_states(out, &from, WP_LEARN_LEVELS);
    from += WP_LEARN_LEVELS * sizeof(uint32_t);
    copy(out, &from, WP_LEARN_LEVELS * sizeof(uint32_t));
    cells = u32_at(from);
    assert_true(cells > 5);
    copy(out, &from, 4);
    for (uint32_t i = 0; i < cells; i++) {
        uint32_t cell = u32_at(from) & 0xffff;

        assert_true(cell >= WP_LEARN_LEVELS * WP_LEARN_BINS);
        cell -= WP_LEARN_LEVELS * WP_LEARN_BINS;
        out->bytes[out->len] = (uint8_t)cell;
        out->bytes[out->len + 1] = (uint8_t)(cell >> 8);
        memcpy(out->bytes + out->len + 2, from + 2, CELL_LEN - 2);
        out->len += CELL_LEN;
        from += CELL_LEN;
    }
    copy(out, &from, (size_t)(end - from));
    scaler_seal(out->bytes, out->len, 6);
}

/* What is random in when they come: a burst is due always. */
static void
live_at_random(struct world *w, int bursts)
{
    static const double gaps_s[] = {900, 3000, 400, 7000, 1500, 200, 5000};

    for (int i = 0; i < bursts; i++) {
        (void)world_claims(w, BURST, 0.1);
        (void)live(w, gaps_s[i % 7]);
    }
}

static void
version_before(void **state)
{
    static uint8_t bytes[WP_SCALE_STATE_MAX];
    static struct text before;
    struct world a = world_make(10);
    struct world b = world_make(10);
    struct world fresh = world_make(10);
    struct wp_scale_decision x;
    struct wp_scale_decision y;
    struct wp_err err;
    size_t plain = wp_scaler_save(fresh.scaler, 0, WALL0, NULL, 0);
    size_t len;

    (void)state;
    world_start(&a);
    live_at_random(&a, 20);
    len = wp_scaler_save(a.scaler, a.view.mono_ns, a.view.wall_ns, bytes,
                         sizeof bytes);
    assert_true(len <= sizeof bytes);
    write_as_before(&before, bytes, len, plain);
    world_start(&b);
    b.view = a.view;
    assert_int_equal(wp_scaler_load(b.scaler, b.view.mono_ns, b.view.wall_ns,
                                    before.bytes, before.len, &err),
                     WP_OK);
    /* What was learned counts, though nothing is known of a clock. */
    x = live(&a, 100);
    y = live(&b, 100);
    assert_true(x.learned && y.learned);
    assert_true(x.target >= BURST / 2);
    /* That bursts were alike it has yet to see. */
    assert_in_range(y.target, x.target, x.target + 10);
    /* One as unlikely to be right as any other. */
    before.bytes[before.len / 2] ^= 0x55;
    assert_int_equal(wp_scaler_load(b.scaler, b.view.mono_ns, b.view.wall_ns,
                                    before.bytes, before.len, &err),
                     WP_INVALID_ARGUMENT);
    wp_scaler_destroy(a.scaler);
    wp_scaler_destroy(b.scaler);
    wp_scaler_destroy(fresh.scaler);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_a_clock),      cmocka_unit_test(before_its_time),
        cmocka_unit_test(made_one_by_one), cmocka_unit_test(restart),
        cmocka_unit_test(version_before),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
