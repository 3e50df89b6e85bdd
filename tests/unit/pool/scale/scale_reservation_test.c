/* Announced demand: what a scaler makes of it, and what it takes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "pool/scale/reservation.h"
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

static void
expect_due(const struct wp_reservations *all, int64_t wall_ns, int64_t ahead_ns,
           uint32_t due, int64_t changes_ns)
{
    int64_t changes_at_ns;

    assert_int_equal(
        wp_reservations_due(all, wall_ns, ahead_ns, &changes_at_ns), due);
    assert_int_equal(changes_at_ns, changes_ns);
}

/* To the nanosecond: from when to when each counts, which is used first, and
 * when it goes. */
static void
bounds_in_time(void **state)
{
    static const struct wp_scale_reservation a = {"a", 5, 5, 100, 200};
    static const struct wp_scale_reservation b = {"b", 7, 7, 150, 180};
    struct wp_reservations all;

    (void)state;
    wp_reservations_init(&all);
    expect_due(&all, 0, 10, 0, WP_TIME_NEVER);
    assert_int_equal(wp_reservations_add(&all, &a, NULL), WP_OK);
    assert_int_equal(wp_reservations_add(&all, &b, NULL), WP_OK);
    expect_due(&all, 89, 10, 0, 90);
    expect_due(&all, 90, 10, 5, 140);
    expect_due(&all, 139, 10, 5, 140);
    expect_due(&all, 140, 10, 12, 180);
    expect_due(&all, 179, 10, 12, 180);
    expect_due(&all, 180, 10, 5, 200);
    expect_due(&all, 199, 10, 5, 200);
    expect_due(&all, 200, 10, 0, WP_TIME_NEVER);
    expect_due(&all, 0, INT64_MAX, 12, 180);
    /* None before its time; then the one that ends first. */
    assert_int_equal(wp_reservations_use(&all, 89, 10, 3), 0);
    assert_int_equal(wp_reservations_use(&all, 90, 10, 3), 3);
    assert_int_equal(all.all[0].left, 2);
    assert_int_equal(wp_reservations_use(&all, 140, 10, 8), 8);
    assert_int_equal(all.all[1].left, 0);
    assert_int_equal(all.all[0].left, 1);
    assert_int_equal(wp_reservations_use(&all, 200, 10, 8), 0);
    assert_int_equal(wp_reservations_use(&all, 199, 10, 8), 1);
    expect_due(&all, 199, 10, 0, 200);
    wp_reservations_expire(&all, 179);
    assert_int_equal(all.n, 2);
    wp_reservations_expire(&all, 180);
    assert_int_equal(all.n, 1);
    assert_string_equal(all.all[0].id, "a");
    assert_int_equal(all.next_end_ns, 200);
    wp_reservations_expire(&all, 200);
    assert_int_equal(all.n, 0);
    assert_int_equal(all.next_end_ns, WP_TIME_NEVER);
    wp_reservations_fini(&all);
}

/* As many as there may be, and each is found again. */
static void
as_many_as_there_may_be(void **state)
{
    struct wp_reservations all;
    struct wp_scale_reservation one = {"", 1, 1, 100, 200};
    struct wp_err err;

    (void)state;
    wp_reservations_init(&all);
    for (int i = 0; i < WP_SCALE_RESERVATIONS_MAX; i++) {
        (void)snprintf(one.id, sizeof one.id, "r%d", i);
        assert_int_equal(wp_reservations_add(&all, &one, &err), WP_OK);
        assert_int_equal(wp_reservations_add(&all, &one, &err), WP_OK);
        assert_int_equal(all.n, i + 1);
    }
    one.n = 2;
    assert_int_equal(wp_reservations_add(&all, &one, &err), WP_ALREADY_EXISTS);
    assert_string_equal(err.msg, "reservation 'r255' exists with other "
                                 "numbers: cancel it first, or take another "
                                 "id");
    strcpy(one.id, "r");
    assert_int_equal(wp_reservations_add(&all, &one, &err),
                     WP_RESOURCE_EXHAUSTED);
    assert_string_equal(err.msg, "the pool has 256 reservations already, the "
                                 "most it can have");
    assert_int_equal(wp_reservations_remove(&all, WP_STR("r")), WP_NOT_FOUND);
    assert_int_equal(wp_reservations_remove(&all, WP_STR("r2555")),
                     WP_NOT_FOUND);
    assert_int_equal(wp_reservations_remove(&all, WP_STR("r255")), WP_OK);
    assert_int_equal(wp_reservations_remove(&all, WP_STR("r0")), WP_OK);
    assert_int_equal(all.n, 254);
    assert_string_equal(all.all[0].id, "r1");
    assert_string_equal(all.all[253].id, "r254");
    wp_reservations_fini(&all);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reservations),
        cmocka_unit_test(reservation_ends_unbraked),
        cmocka_unit_test(reservation_relies_on_stock),
        cmocka_unit_test(bad_reservations),
        cmocka_unit_test(bounds_in_time),
        cmocka_unit_test(as_many_as_there_may_be),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
