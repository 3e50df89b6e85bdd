/* The hours of the week alone: what counts as history, and which full hours are
 * jumps. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

#include "pool/base/rng.h"
#include "pool/scale/season.h"
#include "tests/support/pool/season_weeks.h"

/* One hour, with so many claims. */
static void
hour_with(struct wp_season *season, int64_t hour, uint32_t n)
{
    wp_season_pass(season, WALL0 + hour * HOUR, HOUR / 2);
    wp_season_claims(season, WALL0 + hour * HOUR + HOUR / 2, n);
    wp_season_pass(season, WALL0 + hour * HOUR + HOUR / 2, HOUR / 2);
}

/* Weeks from..until - 1. */
static void
weeks_of(struct wp_season *season, uint32_t (*claims)(int64_t hour), int from,
         int until)
{
    for (int64_t hour = 168 * from; hour < 168 * until; hour++) {
        hour_with(season, hour, claims(hour));
    }
}

static struct wp_season_due
due_at(const struct wp_season *season, int64_t since_ns, double lately_per_s)
{
    return wp_season_due(season, WALL0 + since_ns, lately_per_s, 50 * S,
                         90 * S);
}

static void
size(void **state)
{
    (void)state;
    assert_true(sizeof(struct wp_season) <= 2048);
}

/* Nothing after one week, all of it after two. */
static void
two_weeks(void **state)
{
    struct wp_season season;

    (void)state;
    wp_season_init(&season);
    weeks_of(&season, step_at_nine, 0, 1);
    hour_with(&season, 168, step_at_nine(168));
    assert_true(wp_season_rate(&season, WALL0 + WEEK + 12 * HOUR) == 0);
    assert_true(due_at(&season, WEEK + 9 * HOUR, 1).usual_per_s == 0);
    weeks_of(&season, step_at_nine, 1, 2);
    hour_with(&season, 336, step_at_nine(336));
    for (int h = 0; h < 168; h++) {
        double usual = step_at_nine(h) / 3600.0;

        assert_true(fabs(wp_season_rate(&season, WALL0 + 2 * WEEK + h * HOUR) -
                         usual) < 1e-6);
        assert_true(fabs(wp_season_rate(&season, WALL0 + 2 * WEEK + h * HOUR +
                                                     HOUR - S) -
                         usual) < 1e-6);
    }
}

/* Ordered ahead of the step, believed for a while after it, and told when. */
static void
step(void **state)
{
    const int64_t nine = 2 * WEEK + 33 * HOUR;
    struct wp_season season;
    struct wp_season_due due;

    (void)state;
    wp_season_init(&season);
    weeks_of(&season, step_at_nine, 0, 2);
    due = due_at(&season, nine - 51 * S, 1);
    assert_true(due.rate_per_s == 0);
    assert_true(fabs(due.usual_per_s - 1) < 1e-6);
    assert_true(due.next_wall_ns == WALL0 + nine - 50 * S);
    due = due_at(&season, nine - 50 * S, 1);
    assert_true(fabs(due.rate_per_s - 8) < 1e-6);
    assert_true(fabs(due.usual_per_s - 8) < 1e-6);
    /* As today compares: half as busy, or twice; not more. */
    assert_true(fabs(due_at(&season, nine - S, 0.5).rate_per_s - 4) < 1e-6);
    assert_true(fabs(due_at(&season, nine - S, 2).rate_per_s - 16) < 1e-6);
    assert_true(fabs(due_at(&season, nine - S, 9).rate_per_s - 16) < 1e-6);
    assert_true(due_at(&season, nine - S, 0).rate_per_s == 0);
    /* After it what came lately is part old, part new. */
    due = due_at(&season, nine + 60 * S, 8 - 7 * exp(-60 / WP_SEASON_TODAY_S));
    assert_true(fabs(due.rate_per_s - 8) < 1e-2);
    assert_true(due.next_wall_ns == WALL0 + nine + 90 * S);
    assert_true(due_at(&season, nine + 90 * S, 8).rate_per_s == 0);
    /* Downwards is for what is seen. */
    assert_true(due_at(&season, nine + 8 * HOUR - S, 8).rate_per_s == 0);
}

static uint32_t
ramp(int64_t hour)
{
    int64_t of_day = hour % 24;

    return (uint32_t)(3600 * (4 + (of_day < 12 ? of_day : 24 - of_day)));
}

/* A rise over hours is seen as it goes: the lines meet. */
static void
no_step(void **state)
{
    struct wp_season season;

    (void)state;
    wp_season_init(&season);
    weeks_of(&season, ramp, 0, 2);
    wp_season_pass(&season, WALL0 + 2 * WEEK, 1);
    for (int64_t h = 2 * 168; h < 3 * 168; h++) {
        assert_true(due_at(&season, h * HOUR, 5).rate_per_s == 0);
        assert_true(fabs(wp_season_rate(&season, WALL0 + h * HOUR) -
                         wp_season_rate(&season, WALL0 + h * HOUR - 1)) <= 1);
    }
    assert_true(fabs(wp_season_rate(&season, WALL0 + 2 * WEEK + 6 * HOUR) -
                     9.5) < 1e-6);
}

static uint32_t
erratic(int64_t hour)
{
    struct wp_rng rng;

    wp_rng_init(&rng, (uint64_t)hour);
    return wp_rng_below(&rng, 4) == 0 ? 8 * 3600 : 360;
}

/* Hours that differ from week to week are no season, however many claims they
 * have. */
static void
chance(void **state)
{
    struct wp_season season;
    int jumps = 0;

    (void)state;
    wp_season_init(&season);
    weeks_of(&season, erratic, 0, 4);
    for (int64_t h = 4 * 168; h < 5 * 168; h++) {
        jumps += due_at(&season, h * HOUR, 2).rate_per_s > 0;
    }
    assert_in_range(jumps, 0, 2);
}

/* Clocks that step credit no time, and the same week twice is one week. */
static void
clock_steps(void **state)
{
    struct wp_season season;
    struct wp_season before;

    (void)state;
    wp_season_init(&season);
    for (int i = 0; i < 5; i++) {
        hour_with(&season, 9, 3600);
        hour_with(&season, 10, 3600);
    }
    assert_int_equal(season.weeks[9], 1);
    assert_true(wp_season_rate(&season, WALL0 + 9 * HOUR) == 0);
    /* A year on and back: an hour of it was seen, nothing between. */
    hour_with(&season, 52 * 168 + 9, 3600);
    hour_with(&season, 9, 3600);
    hour_with(&season, 10, 3600);
    assert_true(wp_season_rate(&season, WALL0 + 9 * HOUR) > 0.9);
    assert_int_equal(season.weeks[11], 0);
    assert_int_equal(season.weeks[8], 0);
    /* No such clocks. */
    before = season;
    wp_season_pass(&season, -1, HOUR);
    wp_season_pass(&season, WALL0, -1);
    wp_season_pass(&season, INT64_MAX - 5, INT64_MAX);
    wp_season_claims(&season, -5, 7);
    assert_memory_equal(&season, &before, sizeof season);
    assert_true(wp_season_rate(&season, -1) == 0);
    assert_true(due_at(&season, INT64_MAX - WALL0, 1).next_wall_ns ==
                WP_TIME_NEVER);
    assert_true(wp_season_is_sound(&season));
}

/* An hour that nobody saw stays unknown; a minute of it tells nothing; a long
 * silence that was watched is hours without claims. */
static void
unseen(void **state)
{
    struct wp_season season;

    (void)state;
    wp_season_init(&season);
    for (int week = 0; week < 3; week++) {
        hour_with(&season, 168 * week + 5, 3600);
        wp_season_pass(&season, WALL0 + week * WEEK + 6 * HOUR, 60 * S);
        hour_with(&season, 168 * week + 7, 3600);
        hour_with(&season, 168 * week + 8, 3600);
    }
    assert_int_equal(season.weeks[6], 0);
    assert_true(fabs(wp_season_rate(&season, WALL0 + 3 * WEEK + 7 * HOUR) - 1) <
                1e-6);
    wp_season_init(&season);
    wp_season_claims(&season, WALL0, 1);
    wp_season_pass(&season, WALL0, 3 * WEEK);
    wp_season_pass(&season, WALL0 + 3 * WEEK, 2 * WEEK);
    for (int i = 0; i < 167; i++) {
        assert_int_equal(season.weeks[i], 2);
        assert_true(season.claims[i] < 2);
    }
}

static uint32_t
always_busy(int64_t hour)
{
    (void)hour;
    return 8 * 3600;
}

/* Weeks fade, and what was not seen for two months is no history. */
static void
fading(void **state)
{
    struct wp_season season;
    const int64_t ten = 10 * HOUR;

    (void)state;
    wp_season_init(&season);
    weeks_of(&season, step_at_nine, 0, 10);
    assert_true(due_at(&season, 10 * WEEK + 9 * HOUR, 1).rate_per_s > 7.9);
    weeks_of(&season, always_busy, 10, 14);
    /* Half of what there was, and about as much new. */
    assert_in_range(100 * wp_season_rate(&season, WALL0 + 14 * WEEK + HOUR),
                    440, 520);
    assert_true(wp_season_rate(&season, WALL0 + 20 * WEEK + ten) > 7.9);
    assert_true(wp_season_rate(&season, WALL0 + 23 * WEEK + ten) == 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(size),   cmocka_unit_test(two_weeks),
        cmocka_unit_test(step),   cmocka_unit_test(no_step),
        cmocka_unit_test(chance), cmocka_unit_test(clock_steps),
        cmocka_unit_test(unseen), cmocka_unit_test(fading),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
