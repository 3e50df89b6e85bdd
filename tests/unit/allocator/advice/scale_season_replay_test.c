/* Whole weeks replayed with the season and without it: what it is good for, and
 * that it does no harm. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

#include "pool/base/rng.h"
#include "allocator/advice/replay.h"
#include "pool/scale/scaler.h"
#include "tests/support/pool/season_weeks.h"

/* These are weeks: before the time that counts it is asked so seldom, and in
 * whole weeks that count. */
#define SELDOM_NS (60 * S)
#define WEEKS_SELDOM_NS (10 * S)

/* Ours, as allocator/advice/replay_ours.c, or with a clock that stands still: that
 * one never sees a second week. */
struct driver {
    struct wp_scaler *scaler;
    bool season;
    double target_s; /* From begin_ns on. */
    int64_t begin_ns;
    int64_t last_ns;
    int64_t each_ns; /* Asked so often at most: now, and in the time */
    int64_t then_ns; /* that counts. */
    uint32_t target;
    uint32_t seasonal; /* Decisions that the season made. */
};

static void
drive_claims(void *self, int64_t now_ns, uint32_t n, uint32_t missed)
{
    wp_scaler_on_claims(((struct driver *)self)->scaler, now_ns, n, missed);
}

static void
drive_ready(void *self, int64_t now_ns, int64_t lead_ns)
{
    wp_scaler_on_ready(((struct driver *)self)->scaler, now_ns, lead_ns);
}

static uint32_t
drive_target(void *self, const struct wp_replay_view *view, int64_t *next_ns)
{
    struct driver *driver = self;
    struct wp_scale_view seen = {
        .mono_ns = view->now_ns,
        .wall_ns = driver->season ? WALL0 + view->now_ns : WALL0,
        .ready = view->ready,
        .warming = view->warming,
        .room = 1U << 30,
        .budget = UINT32_MAX,
        .stuck = view->stuck,
    };
    struct wp_scale_decision decision;

    if (view->now_ns < driver->last_ns + driver->each_ns) {
        *next_ns = driver->last_ns + driver->each_ns;
        return driver->target;
    }
    driver->each_ns =
        view->now_ns < driver->begin_ns - HOUR ? SELDOM_NS : driver->then_ns;
    decision = wp_scaler_decide(driver->scaler, &seen, next_ns);
    if (view->now_ns > driver->begin_ns) {
        driver->target_s +=
            driver->target * (double)(view->now_ns - driver->last_ns) / S;
    }
    driver->seasonal += decision.reason == WP_SCALE_SEASON;
    driver->last_ns = view->now_ns;
    driver->target = decision.target;
    return decision.target;
}

/* Poisson claims at a rate that changes with time. */
struct traffic {
    struct wp_rng rng;
    double (*rate)(double at_s);
    double most_per_s;
    double at_s;
};

static bool
traffic_next(void *self, int64_t *mono_ns, uint32_t *n)
{
    struct traffic *traffic = self;

    do {
        traffic->at_s -=
            log(1 - wp_rng_unit(&traffic->rng)) / traffic->most_per_s;
    } while (wp_rng_unit(&traffic->rng) * traffic->most_per_s >=
             traffic->rate(traffic->at_s));
    *mono_ns = (int64_t)(traffic->at_s * S);
    *n = 1;
    return true;
}

struct outcome {
    struct wp_replay_result result;
    double target_mean;
    uint32_t seasonal;
};

static struct outcome
drive(double (*rate)(double at_s), double most_per_s, int64_t begin_ns,
      int64_t end_ns, bool season)
{
    struct driver driver = {.season = season,
                            .begin_ns = begin_ns,
                            .then_ns =
                                end_ns - begin_ns < WEEK ? 0 : WEEKS_SELDOM_NS};
    struct traffic traffic = {.rate = rate, .most_per_s = most_per_s};
    const struct wp_replay_config config = {
        .source = {.next = traffic_next, .self = &traffic},
        .lead = {.median_s = 45, .sigma = 0.2},
        .miss = WP_MISS_LOST,
        .begin_ns = begin_ns,
        .end_ns = end_ns,
        .inflight_max = UINT32_MAX,
        .ceiling = UINT32_MAX,
        .seed = 7,
    };
    struct wp_replay_policy policy = {.name = "driver",
                                      .self = &driver,
                                      .on_claims = drive_claims,
                                      .on_ready = drive_ready,
                                      .target = drive_target};
    struct wp_scale_policy objective;
    struct outcome outcome;
    struct wp_err err;

    wp_rng_init(&traffic.rng, 11);
    wp_scale_policy_init(&objective);
    objective.objective = WP_SCALE_HIT_RATE;
    objective.hit_rate = 0.995;
    objective.max = 5000;
    driver.scaler = wp_scaler_create(WP_MISS_LOST, 0, 45 * S, 0, WALL0);
    assert_non_null(driver.scaler);
    wp_scaler_set_policy(driver.scaler, &objective);
    assert_int_equal(wp_replay_run(&config, &policy, &outcome.result, &err),
                     WP_OK);
    wp_scaler_destroy(driver.scaler);
    outcome.target_mean = driver.target_s / ((double)(end_ns - begin_ns) / S);
    outcome.seasonal = driver.seasonal;
    return outcome;
}

static void
print_two(const char *name, const struct outcome *with,
          const struct outcome *without)
{
    print_message("%s: with season %.4f hits %.3f idle, without %.4f %.3f; "
                  "%u decisions by season\n",
                  name, with->result.hit_rate, with->result.idle_mean,
                  without->result.hit_rate, without->result.idle_mean,
                  with->seasonal);
}

static double
rate_steady(double at_s)
{
    (void)at_s;
    return 0.02;
}

/* Three weeks of the same: the season adds nothing. */
static void
stationary(void **state)
{
    struct outcome with = drive(rate_steady, 0.02, 2 * WEEK, 3 * WEEK, true);
    struct outcome without =
        drive(rate_steady, 0.02, 2 * WEEK, 3 * WEEK, false);

    (void)state;
    print_two("stationary", &with, &without);
    assert_true(without.target_mean > 1);
    assert_true(fabs(with.target_mean / without.target_mean - 1) < 0.01);
}

/* Next to nothing, one claim in four seconds from eight on, eight from
 * nine to ten. */
static double
rate_step(double at_s)
{
    int hour = (int)(at_s / 3600) % 24;

    return hour == 8 ? 0.25 : hour == 9 ? 2 : 0.02;
}

/* The first step of the third week is met. Over three weeks that takes less
 * than to keep stock for steps that nobody knows the time of. */
static void
step_met(void **state)
{
    const int64_t nine = 2 * WEEK + 9 * HOUR;
    struct outcome first =
        drive(rate_step, 2, nine - HOUR / 6, nine + HOUR / 6, true);
    struct outcome with = drive(rate_step, 2, 2 * WEEK, 5 * WEEK, true);
    struct outcome without = drive(rate_step, 2, 2 * WEEK, 5 * WEEK, false);
    uint64_t missed = first.result.claims - first.result.hits;

    (void)state;
    print_two("step", &with, &without);
    assert_true(missed <= first.result.claims / 100);
    assert_int_equal(with.result.claims, without.result.claims);
    assert_true(with.result.hit_rate >= 0.995);
    assert_true(with.result.idle_mean < 0.95 * without.result.idle_mean);
    assert_true(with.seasonal > 0);
    assert_int_equal(without.seasonal, 0);
}

/* The wave of the figures' recipe, a fiftieth of its rate. */
static double
rate_wave(double at_s)
{
    static const double of_day[7] = {1.1, 1.05, 1, 1, 0.95, 0.65, 0.6};
    const double turn = 2 * M_PI * at_s / 86400;

    return 0.03 * of_day[(int)(at_s / 86400) % 7] *
           (1 + 0.6 * sin(turn - 2) + 0.2 * sin(2 * turn));
}

/* No more idle for nothing, no fewer hits. */
static void
wave(void **state)
{
    struct outcome with = drive(rate_wave, 0.06, 2 * WEEK, 3 * WEEK, true);
    struct outcome without = drive(rate_wave, 0.06, 2 * WEEK, 3 * WEEK, false);

    (void)state;
    print_two("wave", &with, &without);
    assert_true(with.result.hit_rate >= without.result.hit_rate - 5e-4);
    assert_true(with.result.idle_mean <= 1.01 * without.result.idle_mean);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stationary),
        cmocka_unit_test(step_met),
        cmocka_unit_test(wave),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
