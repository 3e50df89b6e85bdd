/* tests/unit/scale_season_test.c - the hours of the week: what counts as
 * history, which full hours are jumps, and what a scaler makes of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pool/base/rng.h"
#include "pool/base/siphash.h"
#include "pool/scale/replay.h"
#include "pool/scale/scaler.h"
#include "pool/scale/season.h"

#define S WP_NS_PER_S
#define HOUR (3600 * S)
#define WEEK (168 * HOUR)
/* Begin of a week of the epoch: 2025-12-25, a Thursday. */
#define WALL0 (2921 * WEEK)

/* --- The hours alone --- */

/* One hour, with so many claims. */
static void
hour_with(struct wp_season *season, int64_t hour, uint32_t n)
{
    wp_season_pass(season, WALL0 + hour * HOUR, HOUR / 2);
    wp_season_claims(season, WALL0 + hour * HOUR + HOUR / 2, n);
    wp_season_pass(season, WALL0 + hour * HOUR + HOUR / 2, HOUR / 2);
}

/* Weeks from..until - 1: quiet ones, but from nine on busy ones. */
static uint32_t
step_at_nine(int64_t hour)
{
    return hour % 24 >= 9 && hour % 24 < 17 ? 8 * 3600 : 3600;
}

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

/* --- What the scaler makes of it --- */

/* These are weeks: before the time that counts it is asked so seldom, and in
 * whole weeks that count. */
#define SELDOM_NS (60 * S)
#define WEEKS_SELDOM_NS (10 * S)

/* Ours, as pool/scale/replay_ours.c, or with a clock that stands still: that
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

/* The first step of the third week is met. */
static void
step_met(void **state)
{
    const int64_t nine = 2 * WEEK + 9 * HOUR;
    struct outcome with =
        drive(rate_step, 2, nine - HOUR / 6, nine + HOUR / 6, true);
    struct outcome without =
        drive(rate_step, 2, nine - HOUR / 6, nine + HOUR / 6, false);
    uint64_t missed = with.result.claims - with.result.hits;
    uint64_t missed_without = without.result.claims - without.result.hits;

    (void)state;
    print_two("step", &with, &without);
    assert_int_equal(with.result.claims, without.result.claims);
    assert_true(missed_without > 25);
    assert_true(5 * missed <= missed_without);
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
    assert_true(with.result.hit_rate >= without.result.hit_rate - 1e-4);
    assert_true(with.result.idle_mean <= 1.01 * without.result.idle_mean);
}

/* --- Kept, and told --- */

struct world {
    struct wp_scaler *scaler;
    struct wp_scale_view view;
    int64_t next_ns;
};

static struct world
world_make(void)
{
    struct world w = {
        .view = {.wall_ns = WALL0, .room = UINT32_MAX, .budget = UINT32_MAX}};
    struct wp_scale_policy policy;

    w.scaler = wp_scaler_create(WP_MISS_LOST, 0, 40 * S, 0, WALL0);
    assert_non_null(w.scaler);
    wp_scale_policy_init(&policy);
    policy.objective = WP_SCALE_HIT_RATE;
    policy.hit_rate = 0.99;
    policy.max = 1000;
    wp_scaler_set_policy(w.scaler, &policy);
    return w;
}

static struct wp_scale_decision
world_decide(struct world *w)
{
    struct wp_scale_decision decision =
        wp_scaler_decide(w->scaler, &w->view, &w->next_ns);

    assert_true(w->next_ns > w->view.mono_ns);
    return decision;
}

static void
world_pass(struct world *w, int64_t ns)
{
    w->view.mono_ns += ns;
    w->view.wall_ns += ns;
}

/* Each quarter of a minute what the step's hour brings in it. */
static void
world_live(struct world *w, int64_t for_ns)
{
    const int64_t each_ns = 15 * S;

    for (int64_t at = 0; at < for_ns; at += each_ns) {
        int64_t hour = (w->view.wall_ns - WALL0) / HOUR;

        world_pass(w, each_ns);
        wp_scaler_on_claims(w->scaler, w->view.mono_ns,
                            step_at_nine(hour) / 240, 0);
        if (at + each_ns >= for_ns || at % (60 * S) == 0) {
            (void)world_decide(w);
        }
    }
}

static double
number_after(const char *text, const char *words)
{
    const char *at = strstr(text, words);

    assert_non_null(at);
    return strtod(at + strlen(words), NULL);
}

/* Whoever reads the sentence can reckon it up. */
static void
sentence(void **state)
{
    struct world w = world_make();
    struct wp_scale_decision decision;
    char text[WP_SCALE_TEXT_MAX];
    double rate;
    double today;
    double season;
    double lead_s;
    double expected;

    (void)state;
    world_live(&w, 2 * WEEK + 9 * HOUR - 60 * S);
    /* Asked when it begins to matter, though nothing comes. */
    assert_true(w.next_ns <= w.view.mono_ns + 20 * S);
    world_pass(&w, 20 * S);
    decision = world_decide(&w);
    assert_int_equal(decision.reason, WP_SCALE_SEASON);
    assert_true(fabs(decision.season_per_s - 8) < 0.1);
    assert_true(decision.rate_per_s > 7);
    assert_true(decision.rate_fast_per_s < 2);
    assert_string_equal(wp_scale_reason_word(decision.reason), "season");
    wp_scale_decision_format(&decision, text, sizeof text);
    assert_non_null(strstr(text, "; usual at this time of the week"));
    rate = number_after(text, ": ");
    today = number_after(text, "claims/s (");
    season = number_after(text, "x season ");
    lead_s = number_after(text, ") x ");
    expected = number_after(text, "lead = ");
    assert_true(fabs(today * season / rate - 1) < 0.01);
    assert_true(fabs(rate * lead_s / expected - 1) < 0.01);
    wp_scaler_destroy(w.scaler);
}

/* What the season knows survives, and the two decide alike. */
static void
restart(void **state)
{
    static uint8_t bytes[WP_SCALE_STATE_MAX];
    struct world a = world_make();
    struct world b = world_make();
    struct wp_err err;
    uint32_t seasonal = 0;
    size_t len;

    (void)state;
    world_live(&a, 2 * WEEK + 8 * HOUR + HOUR / 2);
    len = wp_scaler_save(a.scaler, a.view.mono_ns, a.view.wall_ns, bytes,
                         sizeof bytes);
    /* Saving is no telling. */
    assert_int_equal(wp_scaler_save(a.scaler, a.view.mono_ns + HOUR,
                                    a.view.wall_ns + HOUR, bytes, 0),
                     len);
    b.view = a.view;
    b.view.mono_ns = 0;
    assert_int_equal(
        wp_scaler_load(b.scaler, 0, b.view.wall_ns, bytes, len, &err), WP_OK);
    for (int i = 0; i < 3 * 3600; i++) {
        struct wp_scale_decision x;
        struct wp_scale_decision y;

        world_pass(&a, S);
        world_pass(&b, S);
        wp_scaler_on_claims(a.scaler, a.view.mono_ns, 1, 0);
        wp_scaler_on_claims(b.scaler, b.view.mono_ns, 1, 0);
        x = world_decide(&a);
        y = world_decide(&b);
        assert_int_equal(x.target, y.target);
        assert_int_equal(x.reason, y.reason);
        assert_true(x.season_per_s == y.season_per_s);
        seasonal += x.reason == WP_SCALE_SEASON;
    }
    assert_true(seasonal > 0);
    wp_scaler_destroy(a.scaler);
    wp_scaler_destroy(b.scaler);
}

/* With all hours and all reservations: room for the largest table of what was
 * learned (WP_LEARN_STATES * WP_LEARN_BINS cells of 10 bytes, and a head). */
static void
bound(void **state)
{
    struct world w = world_make();
    struct wp_err err;
    size_t len;

    (void)state;
    world_live(&w, 2 * WEEK + HOUR);
    for (int i = 0; i < WP_SCALE_RESERVATIONS_MAX; i++) {
        char id[8];
        int n = snprintf(id, sizeof id, "r%d", i);

        assert_int_equal(wp_scaler_reserve(w.scaler,
                                           (struct wp_str){id, (size_t)n}, 1,
                                           w.view.wall_ns + HOUR,
                                           w.view.wall_ns + 2 * HOUR, &err),
                         WP_OK);
    }
    len = wp_scaler_save(w.scaler, w.view.mono_ns, w.view.wall_ns, NULL, 0);
    print_message("state: %zu bytes\n", len);
    assert_true(len + 16 * 112 * 10 + 200 <= WP_SCALE_STATE_MAX);
    wp_scaler_destroy(w.scaler);
}

static void
seal(uint8_t *bytes, size_t len, uint8_t version)
{
    static const struct wp_hash_key key = {0x7761726d706f6f6c, 0x53617057};
    uint64_t sum;

    bytes[4] = version;
    sum = wp_siphash128(key, bytes, len - 8).low;
    for (unsigned i = 0; i < 8; i++) {
        bytes[len - 8 + i] = (uint8_t)(sum >> (8 * i));
    }
}

/* The version before this one had no season: it is read. One that is not known
 * is not. */
static void
versions(void **state)
{
    static uint8_t bytes[WP_SCALE_STATE_MAX];
    struct world a = world_make();
    struct world b = world_make();
    struct wp_err err;
    size_t len;

    (void)state;
    wp_scaler_on_ready(a.scaler, S, 3 * S);
    len = wp_scaler_save(a.scaler, S, WALL0, bytes, sizeof bytes);
    assert_int_equal(bytes[4], 2);
    seal(bytes, len, 3);
    assert_int_equal(wp_scaler_load(b.scaler, S, WALL0, bytes, len, &err),
                     WP_INVALID_ARGUMENT);
    assert_non_null(strstr(err.msg, "version"));
    /* Without claims it ends with a byte that says: no season. */
    seal(bytes, len - 1, 1);
    assert_int_equal(wp_scaler_load(b.scaler, S, WALL0, bytes, len - 1, &err),
                     WP_OK);
    b.view.mono_ns = S;
    assert_true(fabs(world_decide(&b).lead_mean_s - 3) < 1e-6);
    wp_scaler_destroy(a.scaler);
    wp_scaler_destroy(b.scaler);
}

/* Nobody asked for hours, though it was to be asked: nobody looked. */
static void
not_asked(void **state)
{
    struct world w = world_make();

    (void)state;
    for (int week = 0; week < 2; week++) {
        world_live(&w, 12 * HOUR);
        world_pass(&w, WEEK - 12 * HOUR);
        (void)world_decide(&w);
    }
    world_live(&w, 10 * HOUR);
    assert_true(fabs(world_decide(&w).season_per_s - 8) < 0.5);
    world_pass(&w, 10 * HOUR);
    assert_true(world_decide(&w).season_per_s == 0);
    wp_scaler_destroy(w.scaler);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(size),       cmocka_unit_test(two_weeks),
        cmocka_unit_test(step),       cmocka_unit_test(no_step),
        cmocka_unit_test(chance),     cmocka_unit_test(clock_steps),
        cmocka_unit_test(unseen),     cmocka_unit_test(fading),
        cmocka_unit_test(stationary), cmocka_unit_test(step_met),
        cmocka_unit_test(wave),       cmocka_unit_test(sentence),
        cmocka_unit_test(restart),    cmocka_unit_test(bound),
        cmocka_unit_test(versions),   cmocka_unit_test(not_asked),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
