/* How soon what is announced is ordered: a job alone, and one after another. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "pool/base/clock.h"
#include "pool/base/rng.h"
#include "pool/scale/ahead.h"
#include "tests/support/base/golden.h"

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
due_at_ns(struct world *w, int64_t at_ns, double spare)
{
    const struct wp_ahead ahead = {.reservations = &w->reservations,
                                   .lead = &w->lead,
                                   .prior_lead_ns = 8 * S,
                                   .wall_ns = WALL0 + at_ns,
                                   .spare = spare,
                                   .miss = 0.001};
    int64_t changes_at_ns;
    uint32_t due = wp_ahead_due(&ahead, &w->ordered_ns, &changes_at_ns);

    assert_true(changes_at_ns > ahead.wall_ns);
    return due;
}

static uint32_t
due_at(struct world *w, double at_s, double spare)
{
    return due_at_ns(w, (int64_t)(at_s * S), spare);
}

/* Next to none of it is late; more of it where other stock makes up for it. */
static void
alone(void **state)
{
    struct world w;

    (void)state;
    world_init(&w, 600);
    announce(&w, 100, 40);
    assert_int_equal(due_at(&w, 24.95, 0), 0);
    /* However much there is besides, nine of ten are in time. */
    assert_int_equal(due_at(&w, 26.6, 9), 0);
    assert_int_equal(due_at(&w, 26.6, 1000), 0);
    assert_int_equal(due_at(&w, 26.7, 1000), 100);
    w.ordered_ns = 0;
    assert_int_equal(due_at(&w, 25.05, 0), 100);
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
    static const uint32_t taken[] = {0, 4, 12, 18, 90};
    static const double ordered_s[] = {26.65, 26.45, 26.2, 25.05, 25.05};

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
        assert_true(fabs(at_s - ordered_s[i]) < 0.01);
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
    announce(&w, 7, 5);
    assert_int_equal(due_at(&w, 0, 0), 7);
    wp_reservations_fini(&w.reservations);
}

/* As long as nothing is due it is not looked at before something is. */
static void
nothing_due(void **state)
{
    struct world w;
    int64_t changes_at_ns;
    struct wp_ahead ahead = {.reservations = &w.reservations,
                             .lead = &w.lead,
                             .wall_ns = WALL0,
                             .miss = 0.001};

    (void)state;
    world_init(&w, 600);
    assert_int_equal(wp_ahead_due(&ahead, &w.ordered_ns, &changes_at_ns), 0);
    assert_true(changes_at_ns == WP_TIME_NEVER);
    announce(&w, 40, 40);
    assert_int_equal(wp_ahead_due(&ahead, &w.ordered_ns, &changes_at_ns), 0);
    assert_in_range(changes_at_ns, WALL0 + 24 * S, WALL0 + 26 * S);
    ahead.wall_ns = changes_at_ns - 1;
    assert_int_equal(wp_ahead_due(&ahead, &w.ordered_ns, &changes_at_ns), 0);
    assert_true(changes_at_ns == ahead.wall_ns + 1);
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
    /* Of nineteen it is not known how late the latest will be. */
    world_init(&w, 19);
    announce(&w, 40, 40);
    assert_int_equal(due_at(&w, 34.75, 100), 40);
    wp_reservations_fini(&w.reservations);
    world_init(&w, 21);
    announce(&w, 40, 40);
    assert_int_equal(due_at(&w, 34.75, 100), 0);
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

/* Sixty jobs, one a second, and what is on order for them whenever that
 * changes. */
static void
tell_stream(struct golden *out, const char *what, double spare,
            void (*claim)(struct world *, double))
{
    struct world w;
    uint32_t told = 0;

    world_init(&w, 600);
    for (int64_t i = 0; i < 60; i++) {
        announce(&w, 40, 40 + i);
    }
    golden_add(out, "%s\n", what);
    for (int i = 25 * 20; i < 105 * 20; i++) {
        double at_s = i / 20.0;
        uint32_t due;

        claim(&w, at_s);
        due = due_at(&w, at_s, spare);
        if (due != told) {
            golden_add(out, "%.2f s: %u\n", at_s, due);
        }
        told = due;
    }
    wp_reservations_fini(&w.reservations);
}

static void
claim_from(struct world *w, double at_s, uint32_t left)
{
    for (uint32_t i = 0; i < w->reservations.n; i++) {
        uint32_t *of = &w->reservations.all[i].left;

        if (40 + i <= at_s && *of > left) {
            *of = left;
        }
    }
}

static void
none(struct world *w, double at_s)
{
    (void)w;
    (void)at_s;
}

/* All of it when it was announced for. */
static void
in_time(struct world *w, double at_s)
{
    claim_from(w, at_s, 0);
}

/* A quarter of it two seconds before. */
static void
early(struct world *w, double at_s)
{
    claim_from(w, at_s + 2, 30);
    claim_from(w, at_s, 0);
}

/* All of it three seconds late. */
static void
late(struct world *w, double at_s)
{
    claim_from(w, at_s - 3, 0);
}

/* Jobs of all sizes, near each other and far apart, some of them given up. */
static void
tell_mixed(struct golden *out)
{
    struct world w;
    struct wp_rng rng;
    uint32_t told = 0;

    world_init(&w, 600);
    wp_rng_init(&rng, 1);
    for (int i = 0; i < 40; i++) {
        struct wp_scale_reservation *one;
        int64_t from_s = 40 + (int64_t)wp_rng_below(&rng, 120);
        uint32_t n = 1 + (uint32_t)wp_rng_below(&rng, 100);

        announce(&w, n, from_s);
        one = &w.reservations.all[i];
        one->until_wall_ns =
            one->from_wall_ns + (int64_t)wp_rng_below(&rng, 8) * S;
    }
    golden_add(out, "mixed\n");
    for (int at_s = 25; at_s < 180; at_s++) {
        uint32_t due = due_at(&w, at_s, 10);

        if (due != told) {
            golden_add(out, "%d s: %u\n", at_s, due);
        }
        told = due;
    }
    wp_reservations_fini(&w.reservations);
}

/* To the twentieth of a second. */
static void
orders(void **state)
{
    static struct golden out;

    (void)state;
    out.len = 0;
    tell_stream(&out, "never claimed", 0, none);
    tell_stream(&out, "claimed in time", 0, in_time);
    tell_stream(&out, "claimed in time, stock besides", 30, in_time);
    tell_stream(&out, "a quarter claimed early, stock besides", 30, early);
    tell_stream(&out, "claimed late", 5, late);
    tell_mixed(&out);
    golden_compare(out.text, WP_TEST_GOLDEN "/ahead.txt");
}

/* Lead times so short that what is announced is looked at hundredth by
 * hundredth of a second: what begins one later is ordered one later. */
static void
step_by_step(void **state)
{
    const int64_t step_ns = 10 * WP_NS_PER_MS;
    int64_t at_ns = 39 * S;
    struct world w;

    (void)state;
    world_init(&w, 0);
    for (int i = 0; i < 400; i++) {
        wp_lead_time_add(&w.lead, (100 + i % 200) * WP_NS_PER_MS);
    }
    announce(&w, 40, 40);
    for (int i = 0; i < 3; i++) {
        announce(&w, 1, 40);
        w.reservations.all[i + 1].from_wall_ns += i * step_ns;
    }
    while (due_at_ns(&w, at_ns, 0) == 0) {
        at_ns += step_ns;
    }
    /* The longest took 0.299 s. */
    assert_int_equal(at_ns, 39 * S + 700 * WP_NS_PER_MS);
    assert_int_equal(due_at_ns(&w, at_ns, 0), 41);
    assert_int_equal(due_at_ns(&w, at_ns += step_ns, 0), 42);
    assert_int_equal(due_at_ns(&w, at_ns += step_ns, 0), 43);
    wp_reservations_fini(&w.reservations);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(alone),
        cmocka_unit_test(one_after_another),
        cmocka_unit_test(never_taken_back),
        cmocka_unit_test(nothing_due),
        cmocka_unit_test(little_measured),
        cmocka_unit_test(taken_early),
        cmocka_unit_test(many),
        cmocka_unit_test(orders),
        cmocka_unit_test(step_by_step),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
