/* What a scaler knows, saved and loaded into another one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "pool/scale/bursts.h"
#include "pool/scale/hold.h"
#include "pool/scale/learn.h"
#include "pool/scale/scaler_impl.h"
#include "pool/scale/window.h"
#include "tests/support/pool/scaler_world.h"

/* Until what bursts need is learned. */
static struct wp_scale_decision
burst_often(struct world *w)
{
    struct wp_scale_decision last = {0};

    for (int i = 0; i < 30; i++) {
        (void)world_claims(w, 1, 200);
        last = world_claims(w, 100, 0.02);
    }
    return last;
}

#define ASSERT_SAME(a, b, part)                                                \
    assert_memory_equal(&(a)->part, &(b)->part, sizeof(a)->part)

/* All that was seen is known again, whatever will be decided of it. */
static void
assert_same(const struct wp_scaler *a, const struct wp_scaler *b)
{
    ASSERT_SAME(a, b, windows);
    ASSERT_SAME(a, b, lead);
    ASSERT_SAME(a, b, need.slot_ns);
    ASSERT_SAME(a, b, need.n_slots);
    ASSERT_SAME(a, b, need.slot);
    ASSERT_SAME(a, b, need.count);
    ASSERT_SAME(a, b, need.plan);
    ASSERT_SAME(a, b, need.most);
    ASSERT_SAME(a, b, need.state);
    ASSERT_SAME(a, b, need.due);
    ASSERT_SAME(a, b, trial);
    ASSERT_SAME(a, b, bursts);
    ASSERT_SAME(a, b, theory_stock);
    ASSERT_SAME(a, b, solve_at_ns);
    ASSERT_SAME(a, b, slack_log);
    ASSERT_SAME(a, b, slack_allowed);
    ASSERT_SAME(a, b, theory_slack_log);
    ASSERT_SAME(a, b, ordered_ns);
    ASSERT_SAME(a, b, background);
    ASSERT_SAME(a, b, background_ns);
    ASSERT_SAME(a, b, claims);
    ASSERT_SAME(a, b, claims_seen);
    ASSERT_SAME(a, b, missed_seen);
    ASSERT_SAME(a, b, gap_s);
    ASSERT_SAME(a, b, gaps);
    ASSERT_SAME(a, b, last_claim_ns);
    ASSERT_SAME(a, b, hold);
    ASSERT_SAME(a, b, target);
    ASSERT_SAME(a, b, decided);
    ASSERT_SAME(a, b, reason);
    ASSERT_SAME(a, b, other);
    ASSERT_SAME(a, b, decisions);
    assert_int_equal(a->learn != NULL, b->learn != NULL);
    if (a->learn != NULL) {
        ASSERT_SAME(a, b, learn[0]);
    }
}

/* Saved and loaded at once into a new one, whose monotonic clock began
 * elsewhere: the two decide alike from then on. */
static void
restart(void **state)
{
    struct world a = world_make(10);
    struct world b = world_make(10);
    static uint8_t bytes[16384];
    struct wp_err err;
    size_t len;

    (void)state;
    world_start(&a);
    (void)world_decide(&a);
    (void)world_claims(&a, 2000, 0.1);
    assert_int_equal(wp_scaler_reserve(a.scaler, WP_STR("r"), 9,
                                       a.view.wall_ns + 50 * S,
                                       a.view.wall_ns + 90 * S, &err),
                     WP_OK);
    len = wp_scaler_save(a.scaler, a.view.mono_ns, a.view.wall_ns, NULL, 0);
    assert_true(len <= sizeof bytes);
    assert_int_equal(wp_scaler_save(a.scaler, a.view.mono_ns, a.view.wall_ns,
                                    bytes, sizeof bytes),
                     len);
    world_start(&b);
    b.view = a.view;
    b.view.mono_ns = 5 * S;
    assert_int_equal(wp_scaler_load(b.scaler, b.view.mono_ns, b.view.wall_ns,
                                    bytes, len, &err),
                     WP_OK);
    assert_same(a.scaler, b.scaler);
    for (int i = 0; i < 3000; i++) {
        struct wp_scale_decision x = world_claims(&a, 1, i < 900 ? 0.02 : 0.5);
        struct wp_scale_decision y = world_claims(&b, 1, i < 900 ? 0.02 : 0.5);

        assert_int_equal(x.target, y.target);
        assert_int_equal(x.reason, y.reason);
        /* It has kept its own first one besides. */
        assert_int_equal(x.number + 1, y.number);
        assert_true(x.expected == y.expected);
        assert_true(a.next_ns - a.view.mono_ns == b.next_ns - b.view.mono_ns);
    }
    /* Cut anywhere: refused. */
    for (size_t i = 0; i < len; i += 11) {
        assert_int_equal(wp_scaler_load(b.scaler, b.view.mono_ns,
                                        b.view.wall_ns, bytes, i, &err),
                         WP_INVALID_ARGUMENT);
    }
    wp_scaler_destroy(a.scaler);
    wp_scaler_destroy(b.scaler);
}

/* Bursts again and again: what was learned survives too. */
static void
restart_learned(void **state)
{
    struct world a = world_make(10);
    struct world b = world_make(10);
    static uint8_t bytes[WP_SCALE_STATE_MAX];
    struct wp_scale_decision x;
    struct wp_err err;
    size_t len;

    (void)state;
    world_start(&a);
    (void)world_decide(&a);
    x = burst_often(&a);
    assert_true(x.learned);
    /* A promise for one burst: its hundred claims, some of them missed. */
    assert_in_range(x.target, 80, 130);
    len = wp_scaler_save(a.scaler, a.view.mono_ns, a.view.wall_ns, bytes,
                         sizeof bytes);
    assert_true(len <= sizeof bytes);
    world_start(&b);
    b.view = a.view;
    assert_int_equal(wp_scaler_load(b.scaler, b.view.mono_ns, b.view.wall_ns,
                                    bytes, len, &err),
                     WP_OK);
    assert_same(a.scaler, b.scaler);
    for (int i = 0; i < 1000; i++) {
        double each_s = i % 100 == 0 ? 150 : 0.03;
        struct wp_scale_decision y = world_claims(&b, 1, each_s);

        x = world_claims(&a, 1, each_s);
        assert_int_equal(x.target, y.target);
        assert_int_equal(x.learned, y.learned);
    }
    wp_scaler_destroy(a.scaler);
    wp_scaler_destroy(b.scaler);
}

/* Saved yesterday: what was usual is still believed, what is announced stays,
 * and nothing is given up before a whole window was seen. */
static void
restart_late(void **state)
{
    struct world a = world_make(0);
    struct world b = world_make(0);
    static uint8_t bytes[WP_SCALE_STATE_MAX];
    struct wp_scale_decision x;
    struct wp_scale_decision y;
    struct wp_err err;
    size_t len;

    (void)state;
    world_start(&a);
    (void)world_decide(&a);
    x = world_claims(&a, 3000, 0.2);
    len = wp_scaler_save(a.scaler, a.view.mono_ns, a.view.wall_ns, bytes,
                         sizeof bytes);
    world_start(&b);
    b.view.wall_ns = a.view.wall_ns + 24 * 3600 * S;
    assert_int_equal(wp_scaler_load(b.scaler, b.view.mono_ns, b.view.wall_ns,
                                    bytes, len, &err),
                     WP_OK);
    y = world_decide(&b);
    assert_true(y.target >= x.target);
    assert_true(fabs(y.lead_mean_s - x.lead_mean_s) < 1e-9);
    wp_scaler_destroy(a.scaler);
    wp_scaler_destroy(b.scaler);
}

/* With all reservations: room for the largest table of what was learned
 * (WP_LEARN_STATES * WP_LEARN_BINS cells of 10 bytes, and a head), and of
 * bursts. */
static void
bound(void **state)
{
    struct world w = world_make(0);
    struct wp_err err;
    size_t len;

    (void)state;
    world_start(&w);
    (void)world_claims(&w, 100, 10);
    for (int i = 0; i < WP_SCALE_RESERVATIONS_MAX; i++) {
        char id[8];
        int n = snprintf(id, sizeof id, "r%d", i);

        assert_int_equal(wp_scaler_reserve(w.scaler,
                                           (struct wp_str){id, (size_t)n}, 1,
                                           w.view.wall_ns + 3600 * S,
                                           w.view.wall_ns + 7200 * S, &err),
                         WP_OK);
    }
    len = wp_scaler_save(w.scaler, w.view.mono_ns, w.view.wall_ns, NULL, 0);
    print_message("state: %zu bytes\n", len);
    assert_true(len + WP_LEARN_STATES * WP_LEARN_BINS * 10 + 300 +
                    WP_BURSTS * 20 <=
                WP_SCALE_STATE_MAX);
    wp_scaler_destroy(w.scaler);
}

/* What cannot be: a rate is known as of a later time than that of the whole. */
static void
what_cannot_be(void **state)
{
    static uint8_t bytes[WP_SCALE_STATE_MAX];
    struct world a = world_make(0);
    struct world b = world_make(0);
    /* Behind the head, what is said of claims, and two sums of each window. */
    const size_t at = 110 + 2 * 8 * WP_WINDOWS;
    struct wp_err err;
    size_t len;

    (void)state;
    wp_scaler_on_ready(a.scaler, S, 3 * S);
    len = wp_scaler_save(a.scaler, S, WALL0, bytes, sizeof bytes);
    bytes[at + 7] = 0x7f;
    assert_int_equal(wp_scaler_load(b.scaler, S, WALL0, bytes, len, &err),
                     WP_INVALID_ARGUMENT);
    assert_string_equal(err.msg, "scaler state: damaged");
    bytes[at + 7] = 0;
    assert_int_equal(wp_scaler_load(b.scaler, S, WALL0, bytes, len, &err),
                     WP_OK);
    wp_scaler_destroy(a.scaler);
    wp_scaler_destroy(b.scaler);
}

/* Into one that has decided nothing yet. */
static void
all_that_was_seen(void **state)
{
    struct world a = world_make(10);
    struct world b = world_make(0);
    static uint8_t bytes[WP_SCALE_STATE_MAX];
    struct wp_err err;
    size_t len;

    (void)state;
    world_start(&a);
    world_start(&b);
    (void)world_decide(&a);
    (void)burst_often(&a);
    for (int i = 0; i < 30; i++) {
        wp_scaler_on_ready(a.scaler, a.view.mono_ns,
                           a.view.mono_ns + (3 + i % 4) * S);
    }
    wp_scaler_on_claims(a.scaler, a.view.mono_ns, 9, 2);
    assert_non_null(a.scaler->learn);
    assert_true(a.scaler->missed_seen > 0);
    /* What came to nothing here, or to what a new one has, too. */
    a.scaler->background = 3.5;
    a.scaler->need.due = false;
    a.scaler->learn->missed = 0.25;
    a.scaler->learn->grouped_s = 77;
    len = wp_scaler_save(a.scaler, a.view.mono_ns, a.view.wall_ns, bytes,
                         sizeof bytes);
    assert_int_equal(wp_scaler_load(b.scaler, a.view.mono_ns, a.view.wall_ns,
                                    bytes, len, &err),
                     WP_OK);
    assert_same(a.scaler, b.scaler);
    wp_scaler_destroy(a.scaler);
    wp_scaler_destroy(b.scaler);
}

/* Where the first cell that holds anything is in the state. */
static uint8_t *
find_cell(const struct wp_scaler *scaler, uint8_t *bytes, size_t len)
{
    const float *claims = &scaler->learn->claims[0][0];
    const float *seconds = &scaler->learn->seconds[0][0];
    float cell[2];
    size_t at = 0;

    while (!(claims[at] > 0)) {
        at++;
    }
    cell[0] = claims[at];
    cell[1] = seconds[at];
    return memmem(bytes, len, cell, sizeof cell);
}

/* No claims were counted, or for no time that there is. */
static void
cells_that_cannot_be(void **state)
{
    static const float wrong[] = {-1, NAN, INFINITY, 1e30F};
    static uint8_t bytes[WP_SCALE_STATE_MAX];
    struct world a = world_make(10);
    struct world b = world_make(10);
    struct wp_err err;
    uint8_t *cell;
    size_t len;

    (void)state;
    world_start(&a);
    (void)world_decide(&a);
    (void)burst_often(&a);
    len = wp_scaler_save(a.scaler, a.view.mono_ns, a.view.wall_ns, bytes,
                         sizeof bytes);
    cell = find_cell(a.scaler, bytes, len);
    assert_non_null(cell);
    for (size_t i = 0; i < 2 * WP_ARRAY_LEN(wrong); i++) {
        uint8_t *part = cell + i % 2 * sizeof(float);
        float right;

        memcpy(&right, part, sizeof right);
        memcpy(part, &wrong[i / 2], sizeof right);
        assert_int_equal(wp_scaler_load(b.scaler, b.view.mono_ns,
                                        b.view.wall_ns, bytes, len, &err),
                         WP_INVALID_ARGUMENT);
        assert_string_equal(err.msg, "scaler state: damaged");
        memcpy(part, &right, sizeof right);
    }
    assert_int_equal(wp_scaler_load(b.scaler, b.view.mono_ns, b.view.wall_ns,
                                    bytes, len, &err),
                     WP_OK);
    wp_scaler_destroy(a.scaler);
    wp_scaler_destroy(b.scaler);
}

/* Of another version than this one or the one before: nothing of it counts. The
 * one before ends in a sum. */
static void
versions(void **state)
{
    static uint8_t bytes[WP_SCALE_STATE_MAX];
    struct world a = world_make(0);
    struct world b = world_make(0);
    struct wp_err err;
    size_t len;

    (void)state;
    world_start(&b);
    wp_scaler_on_ready(a.scaler, S, 3 * S);
    len = wp_scaler_save(a.scaler, S, WALL0, bytes, sizeof bytes);
    assert_int_equal(bytes[4], 9);
    for (uint8_t version = 7; version <= 10; version += 3) {
        bytes[4] = version;
        assert_int_equal(wp_scaler_load(b.scaler, S, WALL0, bytes, len, &err),
                         WP_INVALID_ARGUMENT);
        assert_non_null(strstr(err.msg, "version"));
        assert_true(fabs(world_decide(&b).lead_mean_s - 3) > 1e-6);
    }
    for (uint8_t version = 8; version <= 9; version++) {
        size_t sum = version == 8 ? 8 : 0;

        bytes[4] = version;
        for (size_t cut = 1; cut <= 10; cut++) {
            assert_int_equal(wp_scaler_load(b.scaler, S, WALL0, bytes,
                                            len + sum - cut, &err),
                             WP_INVALID_ARGUMENT);
        }
        assert_int_equal(
            wp_scaler_load(b.scaler, S, WALL0, bytes, len + sum, &err), WP_OK);
        assert_true(fabs(world_decide(&b).lead_mean_s - 3) < 1e-6);
        wp_scaler_destroy(b.scaler);
        b = world_make(0);
        world_start(&b);
    }
    bytes[4] = 8;
    for (size_t i = 0; i < 20; i++) {
        assert_int_equal(wp_scaler_load(b.scaler, S, WALL0, bytes, i, &err),
                         WP_INVALID_ARGUMENT);
    }
    wp_scaler_destroy(a.scaler);
    wp_scaler_destroy(b.scaler);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(restart),
        cmocka_unit_test(restart_learned),
        cmocka_unit_test(restart_late),
        cmocka_unit_test(bound),
        cmocka_unit_test(what_cannot_be),
        cmocka_unit_test(cells_that_cannot_be),
        cmocka_unit_test(versions),
        cmocka_unit_test(all_that_was_seen),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
