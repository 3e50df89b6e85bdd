/* How soon what is announced is ordered: a job alone, and one after another. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "pool/base/clock.h"
#include "pool/scale/ahead.h"

#define S WP_NS_PER_S
#define WALL0 (1000 * S)

struct world {
    struct wp_reservations reservations;
    struct wp_lead_time lead;
    int64_t ordered_ns;
    uint32_t announced;
};

/* Leads from 4.05 to 14 s, 9 s in the mean. */
static void
world_init(struct world *w, unsigned leads)
{
    *w = (struct world){.ordered_ns = 0};
    wp_reservations_init(&w->reservations);
    wp_lead_time_init(&w->lead);
    for (unsigned i = 0; i < leads; i++) {
        wp_lead_time_add(&w->lead, (int64_t)((4 + 0.05 * (i % 200 + 1)) * S));
    }
}

static void
announce(struct world *w, uint32_t n, int64_t from_s)
{
    struct wp_scale_reservation one = {.n = n,
                                       .left = n,
                                       .from_wall_ns = WALL0 + from_s * S,
                                       .until_wall_ns = WALL0 + 1000 * S};
    struct wp_err err;

    (void)snprintf(one.id, sizeof one.id, "r%u", w->announced++);
    assert_int_equal(wp_reservations_add(&w->reservations, &one, &err), WP_OK);
}

static uint32_t
due_at(struct world *w, double at_s, double spare)
{
    const struct wp_ahead ahead = {.reservations = &w->reservations,
                                   .lead = &w->lead,
                                   .prior_lead_ns = 8 * S,
                                   .wall_ns = WALL0 + (int64_t)(at_s * S),
                                   .spare = spare,
                                   .miss = 0.001};
    int64_t changes_at_ns;
    uint32_t due = wp_ahead_due(&ahead, &w->ordered_ns, &changes_at_ns);

    assert_true(changes_at_ns > ahead.wall_ns);
    return due;
}

/* Next to none of it is late; more of it where other stock makes up for it. */
static void
alone(void **state)
{
    struct world w;

    (void)state;
    world_init(&w, 600);
    announce(&w, 100, 40);
    assert_int_equal(due_at(&w, 24, 0), 0);
    assert_int_equal(due_at(&w, 26.5, 9), 0);
    assert_int_equal(due_at(&w, 26.5, 0), 100);
    wp_reservations_fini(&w.reservations);
}

/* In the middle of much that is announced an order is good for whoever comes
 * next; at its end it is not. */
static void
one_after_another(void **state)
{
    struct world w;
    uint32_t due;

    (void)state;
    world_init(&w, 600);
    for (int64_t i = 0; i < 60; i++) {
        announce(&w, 40, 40 + i);
    }
    due = due_at(&w, 28, 0);
    assert_in_range(due, 0, 2 * 40);
    for (int i = 28 * 4 + 1; i <= 40 * 4; i++) {
        due = due_at(&w, i / 4.0, 0);
    }
    /* What a mean lead time asks for, and not what the longest does. */
    assert_in_range(due, 9 * 40, 12 * 40);
    for (int i = 40 * 4 + 1; i <= 87 * 4; i++) {
        due = due_at(&w, i / 4.0, 0);
    }
    assert_int_equal(due, 60 * 40);
    wp_reservations_fini(&w.reservations);
}

/* Of a job that has begun to claim before its time, half of what it took is
 * missing from the stock that makes up for late ones: it is ordered sooner. */
static void
taken_early(void **state)
{
    static const uint32_t taken[] = {0, 4, 12};
    double last_s = 1000;

    (void)state;
    for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++) {
        struct world w;
        double at_s = 20;

        world_init(&w, 600);
        announce(&w, 100, 40);
        w.reservations.all[0].left = 100 - taken[i];
        while (due_at(&w, at_s, 9) == 0) {
            at_s += 0.05;
        }
        assert_true(at_s < last_s);
        last_s = at_s;
        wp_reservations_fini(&w.reservations);
    }
}

/* What is on order stays so, though more is announced behind it. */
static void
never_taken_back(void **state)
{
    struct world w;

    (void)state;
    world_init(&w, 600);
    announce(&w, 40, 40);
    assert_int_equal(due_at(&w, 26.5, 0), 40);
    for (int64_t i = 1; i < 60; i++) {
        announce(&w, 40, 40 + i);
    }
    assert_true(due_at(&w, 26.6, 0) >= 40);
    /* Unless the clock was set: then it is far away again. */
    assert_int_equal(due_at(&w, 0, 0), 0);
    wp_reservations_fini(&w.reservations);
}

/* Without a distribution: so early as the longest lead time known. */
static void
little_measured(void **state)
{
    struct world w;

    (void)state;
    world_init(&w, 0);
    announce(&w, 40, 40);
    announce(&w, 40, 41);
    assert_int_equal(due_at(&w, 31.5, 100), 0);
    assert_int_equal(due_at(&w, 32, 100), 40);
    assert_int_equal(due_at(&w, 33, 100), 80);
    wp_reservations_fini(&w.reservations);
}

/* As many as there may be, far apart and near: nothing is lost. */
static void
many(void **state)
{
    struct world w;

    (void)state;
    world_init(&w, 600);
    for (int64_t i = 0; i < WP_SCALE_RESERVATIONS_MAX; i++) {
        announce(&w, 3, i * i % 97 - 20);
    }
    for (int i = 0; i < 80 * 2; i++) {
        assert_in_range(due_at(&w, i / 2.0, 5), 1,
                        3 * WP_SCALE_RESERVATIONS_MAX);
    }
    assert_int_equal(due_at(&w, 80, 5), 3 * WP_SCALE_RESERVATIONS_MAX);
    wp_reservations_fini(&w.reservations);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(alone),
        cmocka_unit_test(one_after_another),
        cmocka_unit_test(never_taken_back),
        cmocka_unit_test(little_measured),
        cmocka_unit_test(taken_early),
        cmocka_unit_test(many),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
