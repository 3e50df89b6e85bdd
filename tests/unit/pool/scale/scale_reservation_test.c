/* Announced demand: what a scaler makes of it, and what it takes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/pool/scaler_world.h"

/* Announced demand: ordered a lead time ahead, used up as it comes, given up
 * at the end. */
static void
reservations(void **state)
{
    struct world w = world_make(0);
    struct wp_scale_reservation one;
    struct wp_err err;

    (void)state;
    w.policy.down_window_ns = 0;
    w.policy.down_rate = 1;
    world_start(&w);
    assert_int_equal(wp_scaler_reserve(w.scaler, WP_STR("epoch"), 50,
                                       WALL0 + 100 * S, WALL0 + 160 * S, &err),
                     WP_OK);
    assert_int_equal(world_decide(&w).target, 0);
    assert_true(w.next_ns == 92 * S - WP_SCALE_QUANTUM_NS);
    world_pass(&w, 92);
    assert_int_equal(world_decide(&w).target, 50);
    world_pass(&w, 8);
    wp_scaler_on_claims(w.scaler, w.view.mono_ns, 20, 0);
    assert_int_equal(world_decide(&w).reserved, 30);
    assert_true(wp_scaler_reservation(w.scaler, 0, &one));
    assert_int_equal(one.left, 30);
    assert_int_equal(one.n, 50);
    assert_false(wp_scaler_reservation(w.scaler, 1, &one));
    world_pass(&w, 60);
    assert_int_equal(world_decide(&w).reserved, 0);
    assert_false(wp_scaler_reservation(w.scaler, 0, &one));
    wp_scaler_destroy(w.scaler);
}

/* The brakes hold what was forecast, not what was announced: that has its own
 * end, and with the usual window the stock would stay for minutes. */
static void
reservation_ends_unbraked(void **state)
{
    struct world w = world_make(0);
    struct wp_scale_decision before;
    struct wp_scale_decision decision;
    struct wp_err err;

    (void)state;
    world_start(&w);
    before = world_claims(&w, 600, 0.5);
    assert_int_equal(wp_scaler_reserve(w.scaler, WP_STR("epoch"), 100,
                                       w.view.wall_ns, w.view.wall_ns + 10 * S,
                                       &err),
                     WP_OK);
    decision = world_decide(&w);
    assert_int_equal(decision.reserved, 100);
    assert_int_equal(decision.reason, WP_SCALE_RESERVED);
    assert_in_range(decision.target, before.target + 95, before.target + 100);
    decision = world_claims(&w, 21, 0.5);
    assert_int_equal(decision.reserved, 0);
    assert_in_range(decision.target, 1, before.target + 1);
    wp_scaler_destroy(w.scaler);
}

/* While there is stock besides, a few late ones do no harm: ordered later. */
static void
reservation_relies_on_stock(void **state)
{
    static const double leads_s[] = {6, 6, 7, 7, 7, 8, 8, 8, 8,  8,
                                     8, 8, 8, 8, 9, 9, 9, 9, 10, 20};
    struct world w = world_make(0);
    struct wp_scale_decision decision;
    struct wp_err err;

    (void)state;
    world_start(&w);
    for (int i = 0; i < 400; i++) {
        wp_scaler_on_ready(w.scaler, w.view.mono_ns,
                           (int64_t)(leads_s[i % 20] * S));
    }
    assert_int_equal(wp_scaler_reserve(w.scaler, WP_STR("alone"), 20,
                                       WALL0 + 15 * S, WALL0 + 60 * S, &err),
                     WP_OK);
    assert_int_equal(world_decide(&w).reserved, 20);
    assert_int_equal(wp_scaler_cancel(w.scaler, WP_STR("alone")), WP_OK);
    decision = world_claims(&w, 600, 0.5);
    assert_true((double)decision.target > decision.expected + 4);
    assert_int_equal(wp_scaler_reserve(w.scaler, WP_STR("beside"), 20,
                                       w.view.wall_ns + 15 * S,
                                       w.view.wall_ns + 60 * S, &err),
                     WP_OK);
    assert_int_equal(world_decide(&w).reserved, 0);
    decision = world_claims(&w, 14, 0.5);
    assert_int_equal(decision.reserved, 20);
    wp_scaler_destroy(w.scaler);
}

static void
bad_reservations(void **state)
{
    struct world w = world_make(0);
    struct wp_err err;
    char id[80];

    (void)state;
    world_start(&w);
    assert_int_equal(
        wp_scaler_reserve(w.scaler, WP_STR(""), 1, WALL0, WALL0 + S, &err),
        WP_INVALID_ARGUMENT);
    memset(id, 'x', sizeof id);
    assert_int_equal(wp_scaler_reserve(w.scaler, (struct wp_str){id, 64}, 1,
                                       WALL0, WALL0 + S, &err),
                     WP_INVALID_ARGUMENT);
    assert_int_equal(
        wp_scaler_reserve(w.scaler, WP_STR("a"), 0, WALL0, WALL0 + S, &err),
        WP_INVALID_ARGUMENT);
    assert_int_equal(
        wp_scaler_reserve(w.scaler, WP_STR("a"), 1, WALL0 + S, WALL0 + S, &err),
        WP_INVALID_ARGUMENT);
    assert_int_equal(wp_scaler_reserve(w.scaler, WP_STR("a"), 1, WALL0 - 2 * S,
                                       WALL0 - S, &err),
                     WP_INVALID_ARGUMENT);
    for (int i = 0; i < WP_SCALE_RESERVATIONS_MAX; i++) {
        int len = snprintf(id, sizeof id, "r%d", i);

        assert_int_equal(wp_scaler_reserve(w.scaler,
                                           (struct wp_str){id, (size_t)len}, 1,
                                           WALL0, WALL0 + 9 * S, &err),
                         WP_OK);
    }
    assert_int_equal(wp_scaler_reserve(w.scaler, WP_STR("r7"), 1, WALL0,
                                       WALL0 + 9 * S, &err),
                     WP_OK);
    assert_int_equal(wp_scaler_reserve(w.scaler, WP_STR("r7"), 2, WALL0,
                                       WALL0 + 9 * S, &err),
                     WP_ALREADY_EXISTS);
    assert_int_equal(wp_scaler_reserve(w.scaler, WP_STR("more"), 1, WALL0,
                                       WALL0 + 9 * S, &err),
                     WP_RESOURCE_EXHAUSTED);
    assert_int_equal(wp_scaler_cancel(w.scaler, WP_STR("r7")), WP_OK);
    assert_int_equal(wp_scaler_cancel(w.scaler, WP_STR("r7")), WP_NOT_FOUND);
    wp_scaler_destroy(w.scaler);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reservations),
        cmocka_unit_test(reservation_ends_unbraked),
        cmocka_unit_test(reservation_relies_on_stock),
        cmocka_unit_test(bad_reservations),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
