/* What a scaler knows, saved and loaded into another one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

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

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(restart),
        cmocka_unit_test(restart_learned),
        cmocka_unit_test(restart_late),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
