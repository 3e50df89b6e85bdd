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
#include "pool/scale/window.h"
#include "tests/support/pool/scaler_seal.h"
#include "tests/support/pool/scaler_world.h"

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
    /* Damaged anywhere: refused, and nothing taken. */
    for (size_t i = 0; i < len; i += 7) {
        bytes[i] ^= 0x10;
        assert_int_equal(wp_scaler_load(b.scaler, b.view.mono_ns,
                                        b.view.wall_ns, bytes, len, &err),
                         WP_INVALID_ARGUMENT);
        bytes[i] ^= 0x10;
    }
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
    for (int i = 0; i < 30; i++) {
        (void)world_claims(&a, 1, 200);
        x = world_claims(&a, 100, 0.02);
    }
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

/* With the right sum, but what cannot be: a rate is known as of a later time
 * than that of the whole. */
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

/* Loads it, as of a version, into a new scaler, which is asked then. */
static enum wp_status
load_as(uint8_t *bytes, size_t len, uint8_t version, double *lead_mean_s,
        struct wp_err *err)
{
    struct world w = world_make(0);
    enum wp_status status;

    world_start(&w);
    scaler_seal(bytes, len, version);
    status = wp_scaler_load(w.scaler, S, WALL0, bytes, len, err);
    w.view.mono_ns = S;
    *lead_mean_s = world_decide(&w).lead_mean_s;
    wp_scaler_destroy(w.scaler);
    return status;
}

/* Of another version than this one or the one before: nothing of it counts. The
 * one before has a table of 168 hours behind what was learned, or none. */
static void
versions(void **state)
{
    static uint8_t bytes[WP_SCALE_STATE_MAX];
    enum {
        SUM = 8,
        HEAD = 41,
        HOUR = 1 + 10,
        SLACK = 9, /* What the one before did not have, and all behind it. */
        BEHIND = 4 * WP_HOLD_PARTS + 28 + 22 + 4 + 1 + SUM,
    };
    struct world a = world_make(0);
    double lead_s;
    struct wp_err err;
    size_t len;

    (void)state;
    wp_scaler_on_ready(a.scaler, S, 3 * S);
    len = wp_scaler_save(a.scaler, S, WALL0, bytes, sizeof bytes);
    assert_int_equal(bytes[4], 8);
    for (uint8_t version = 6; version <= 9; version += 3) {
        assert_int_equal(load_as(bytes, len, version, &lead_s, &err),
                         WP_INVALID_ARGUMENT);
        assert_non_null(strstr(err.msg, "version"));
    }
    assert_int_equal(load_as(bytes, len, 8, &lead_s, &err), WP_OK);
    assert_true(fabs(lead_s - 3) < 1e-6);
    memmove(bytes + len - BEHIND - SLACK, bytes + len - BEHIND, BEHIND);
    len -= SLACK;
    /* The table is missing. */
    assert_int_equal(load_as(bytes, len, 7, &lead_s, &err),
                     WP_INVALID_ARGUMENT);
    bytes[len - SUM] = 0;
    assert_int_equal(load_as(bytes, len + 1, 7, &lead_s, &err), WP_OK);
    assert_true(fabs(lead_s - 3) < 1e-6);
    /* It has one reason more, in the middle. */
    for (uint8_t reason = 0; reason <= WP_SCALE_REASON_COUNT + 1; reason++) {
        bytes[len - SUM - 1 - 4 - 4] = reason;
        assert_int_equal(load_as(bytes, len + 1, 7, &lead_s, &err),
                         reason <= WP_SCALE_REASON_COUNT ? WP_OK
                                                         : WP_INVALID_ARGUMENT);
    }
    bytes[len - SUM - 1 - 4 - 4] = 0;
    /* Each other hour was seen. */
    bytes[len - SUM] = 1;
    memset(bytes + len - SUM + 1, 0x55, HEAD);
    len += 1 + HEAD;
    bytes[len - SUM - 1] = 0; /* A sign. */
    for (int i = 0; i < 168; i++) {
        bytes[len - SUM] = (uint8_t)(i % 2);
        memset(bytes + len - SUM + 1, 0x33, HOUR - 1);
        len += i % 2 == 0 ? 1 : HOUR;
    }
    assert_int_equal(load_as(bytes, len, 7, &lead_s, &err), WP_OK);
    assert_true(fabs(lead_s - 3) < 1e-6);
    assert_int_equal(load_as(bytes, len - 1, 7, &lead_s, &err),
                     WP_INVALID_ARGUMENT);
    wp_scaler_destroy(a.scaler);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(restart),        cmocka_unit_test(restart_learned),
        cmocka_unit_test(restart_late),   cmocka_unit_test(bound),
        cmocka_unit_test(what_cannot_be), cmocka_unit_test(versions),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
