#include "bench/scaling/trace_recipe.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "pool/base/clock.h"

#define HOUR 3600.0
#define DAY 86400.0
#define TWO_PI 6.283185307179586

enum {
    TENANTS = 1000,
    GENERATIONS_MIN = 8,
    GENERATIONS_MAX = 16,
};

static const struct wp_trace_recipe recipes[] = {
    {.name = "poisson",
     .title = "Steady traffic",
     .sentence = "steady traffic, claims independent of each other",
     .kind = WP_TRACE_POISSON,
     .length_s = 5 * HOUR,
     .warm_up_s = 1 * HOUR,
     .rate_per_s = 5},
    {.name = "diurnal",
     .title = "A daily wave",
     .sentence = "people at work: a daily wave with a lunch dip, calmer "
                 "weekends",
     .kind = WP_TRACE_DIURNAL,
     .length_s = 3 * DAY,
     .warm_up_s = 1 * DAY,
     .rate_per_s = 1.5},
    {.name = "mmpp-long",
     .title = "Bursts of about a minute",
     .sentence = "calm traffic with bursts of about a minute at 12 times the "
                 "rate, memoryless",
     .kind = WP_TRACE_MMPP,
     .length_s = 12 * HOUR,
     .warm_up_s = 3 * HOUR,
     .rate_per_s = 1,
     .ratio = 12,
     .on_s = 60,
     .off_s = 300},
    {.name = "mmpp-short",
     .title = "Bursts of about 15 seconds",
     .sentence = "the same with bursts of about 15 seconds at 40 times",
     .kind = WP_TRACE_MMPP,
     .length_s = 12 * HOUR,
     .warm_up_s = 3 * HOUR,
     .rate_per_s = 0.5,
     .ratio = 40,
     .on_s = 15,
     .off_s = 600},
    {.name = "fan-out",
     .title = "Jobs that start many at once",
     .sentence = "agents that start many helpers at once: jobs of 1 to 500 "
                 "claims within two seconds",
     .kind = WP_TRACE_FAN_OUT,
     .length_s = 12 * HOUR,
     .warm_up_s = 3 * HOUR,
     .rate_per_s = 0.05,
     .on_s = 2,
     .batch = 500},
    {.name = "flash",
     .title = "Flash crowds",
     .sentence =
         "a launch: 20 times the rate for two minutes, some times a day",
     .kind = WP_TRACE_FLASH,
     .length_s = 12 * HOUR,
     .warm_up_s = 3 * HOUR,
     .rate_per_s = 1,
     .ratio = 20,
     .on_s = 120,
     .off_s = 3600},
    {.name = "rl",
     .title = "Reinforcement learning",
     .sentence =
         "reinforcement learning: every few minutes 8 to 16 tries of each "
         "of 16 problems, all at once",
     .kind = WP_TRACE_RL,
     .length_s = 12 * HOUR,
     .warm_up_s = 3 * HOUR,
     .rate_per_s = 1 / 200.0,
     .on_s = 1,
     .batch = 16},
    {.name = "tenants",
     .title = "A thousand tenants",
     .sentence = "a thousand tenants, few of whom make most of the claims, in "
                 "sessions of heavy-tailed length",
     .kind = WP_TRACE_TENANTS,
     .length_s = 8 * HOUR,
     .warm_up_s = 2 * HOUR,
     .rate_per_s = 3},
    {.name = "rare-2.5h",
     .title = "Rare bursts, 2.5 hours apart",
     .sentence = "200 claims within 20 s every 2.5 hours, over a calm of one "
                 "claim in 20 s",
     .kind = WP_TRACE_RECURRING,
     .length_s = 14 * DAY,
     .warm_up_s = 10 * HOUR,
     .rate_per_s = 0.05,
     .on_s = 20,
     .off_s = 2.5 * HOUR,
     .batch = 200},
    {.name = "rare-5h",
     .title = "Rare bursts, 5 hours apart",
     .sentence = "the same every 5 hours",
     .kind = WP_TRACE_RECURRING,
     .length_s = 14 * DAY,
     .warm_up_s = 20 * HOUR,
     .rate_per_s = 0.05,
     .on_s = 20,
     .off_s = 5 * HOUR,
     .batch = 200},
    {.name = "daily-batch",
     .title = "A daily batch",
     .sentence = "300 claims within 20 s at the same minute of each day, over "
                 "a calm of one claim in 20 s",
     .kind = WP_TRACE_RECURRING,
     .length_s = 14 * DAY,
     .warm_up_s = 4 * DAY,
     .rate_per_s = 0.05,
     .on_s = 20,
     .off_s = DAY,
     .batch = 300},
    {.name = "silence",
     .title = "Silence, then a batch",
     .sentence = "nothing for 3 to 9 hours, then 200 claims within 20 s",
     .kind = WP_TRACE_RECURRING,
     .length_s = 14 * DAY,
     .warm_up_s = 24 * HOUR,
     .on_s = 20,
     .off_s = 6 * HOUR,
     .jitter = 0.3,
     .batch = 200},
    {.name = "ten-minutes",
     .title = "Ten minutes of work, 5 hours apart",
     .sentence = "5 claims a second for 10 minutes every 5 hours",
     .kind = WP_TRACE_RECURRING,
     .length_s = 7 * DAY,
     .warm_up_s = 20 * HOUR,
     .rate_per_s = 0.05,
     .on_s = 600,
     .off_s = 5 * HOUR,
     .batch = 3000},
    {.name = "office",
     .title = "Office hours",
     .sentence = "one claim a second Monday to Friday from 8 to 18 h, one in "
                 "50 s else",
     .kind = WP_TRACE_OFFICE,
     .length_s = 21 * DAY,
     .warm_up_s = 7 * DAY,
     .rate_per_s = 0.02,
     .ratio = 50},
    {.name = "ramp",
     .title = "A ramp",
     .sentence = "from 0.1 to 20 claims a second in 12 hours",
     .kind = WP_TRACE_RECURRING,
     .length_s = 12 * HOUR,
     .warm_up_s = 1 * HOUR,
     .rate_per_s = 0.1,
     .ratio = 200},
    {.name = "regular",
     .title = "One claim exactly every second",
     .sentence = "a cron job of its own kind: one claim exactly every second",
     .kind = WP_TRACE_RECURRING,
     .length_s = 6 * HOUR,
     .warm_up_s = 1 * HOUR,
     .rate_per_s = 1,
     .regular = true},
};

struct maker {
    const struct wp_trace_recipe *recipe;
    struct wp_trace *trace;
    struct wp_rng rng;
};

static double
exponential(struct maker *maker, double mean)
{
    return -mean * log(1 - wp_rng_unit(&maker->rng));
}

static void
add(struct maker *maker, double at_s)
{
    if (at_s < maker->recipe->length_s) {
        wp_trace_add(maker->trace, (int64_t)(at_s * (double)WP_NS_PER_S));
    }
}

static void
add_job(struct maker *maker, double from_s, double until_s, uint32_t n)
{
    wp_trace_add_job(maker->trace, (int64_t)(from_s * (double)WP_NS_PER_S),
                     (int64_t)(until_s * (double)WP_NS_PER_S), n);
}

/* Poisson claims within a span; how many. */
static uint32_t
add_span(struct maker *maker, double rate, double from_s, double until_s)
{
    uint32_t n = 0;
    double t = from_s;

    while ((t += exponential(maker, 1 / rate)) < until_s) {
        add(maker, t);
        n++;
    }
    return n;
}

static void
make_poisson(struct maker *maker)
{
    (void)add_span(maker, maker->recipe->rate_per_s, 0,
                   maker->recipe->length_s);
}

/* Thinned from the highest rate. The phase is the seed's: no two pools see
 * their day begin at the same hour. */
static void
make_diurnal(struct maker *maker)
{
    const struct wp_trace_recipe *recipe = maker->recipe;
    static const double of_day[7] = {1.1, 1.05, 1, 1, 0.95, 0.65, 0.6};
    double phase = TWO_PI * wp_rng_unit(&maker->rng);
    double most = recipe->rate_per_s * 1.8 * 1.1;
    double t = 0;

    while ((t += exponential(maker, 1 / most)) < recipe->length_s) {
        double wave = 1 + 0.6 * sin(TWO_PI * t / DAY - phase) +
                      0.2 * sin(2 * TWO_PI * t / DAY);
        double rate = recipe->rate_per_s * wave * of_day[(int)(t / DAY) % 7];

        if (wp_rng_unit(&maker->rng) * most < rate) {
            add(maker, t);
        }
    }
}

/* Two states, exponential stays; a burst is a job. */
static void
make_mmpp(struct maker *maker)
{
    const struct wp_trace_recipe *recipe = maker->recipe;
    double t = 0;

    while (t < recipe->length_s) {
        double calm_s = exponential(maker, recipe->off_s);
        double burst_s = exponential(maker, recipe->on_s);
        uint32_t n;

        (void)add_span(maker, recipe->rate_per_s, t, t + calm_s);
        t += calm_s;
        n = add_span(maker, recipe->rate_per_s * recipe->ratio, t, t + burst_s);
        add_job(maker, t, t + burst_s, n);
        t += burst_s;
    }
}

/* 1..most, the k-th as likely as k^-1.5. */
static uint32_t
zipf(struct maker *maker, uint32_t most)
{
    double sum = 0;
    double at;

    for (uint32_t k = 1; k <= most; k++) {
        sum += pow(k, -1.5);
    }
    at = wp_rng_unit(&maker->rng) * sum;
    for (uint32_t k = 1; k < most; k++) {
        at -= pow(k, -1.5);
        if (at < 0) {
            return k;
        }
    }
    return most;
}

static void
make_fan_out(struct maker *maker)
{
    const struct wp_trace_recipe *recipe = maker->recipe;
    double gap_s = 1 / recipe->rate_per_s;
    double t = 0;

    while ((t += exponential(maker, gap_s)) < recipe->length_s) {
        uint32_t n = zipf(maker, recipe->batch);

        for (uint32_t i = 0; i < n; i++) {
            add(maker, t + recipe->on_s * wp_rng_unit(&maker->rng));
        }
        add_job(maker, t, t + recipe->on_s, n);
    }
}

static void
make_flash(struct maker *maker)
{
    const struct wp_trace_recipe *recipe = maker->recipe;
    double t = 0;

    while (t < recipe->length_s) {
        double calm_s = exponential(maker, recipe->off_s);
        uint32_t n;

        (void)add_span(maker, recipe->rate_per_s, t, t + calm_s);
        t += calm_s;
        n = add_span(maker, recipe->rate_per_s * recipe->ratio, t,
                     t + recipe->on_s);
        add_job(maker, t, t + recipe->on_s, n);
        t += recipe->on_s;
    }
}

/* Epochs of 0.3 to 1.7 times the mean length; each claims for every problem as
 * many as it generates tries, within a second. */
static void
make_rl(struct maker *maker)
{
    const struct wp_trace_recipe *recipe = maker->recipe;
    double mean_s = 1 / recipe->rate_per_s;
    double t = mean_s * wp_rng_unit(&maker->rng);

    while (t < recipe->length_s) {
        uint32_t tries =
            GENERATIONS_MIN +
            (uint32_t)wp_rng_below(&maker->rng,
                                   GENERATIONS_MAX - GENERATIONS_MIN + 1);
        uint32_t n = recipe->batch * tries;

        for (uint32_t i = 0; i < n; i++) {
            add(maker, t + recipe->on_s * wp_rng_unit(&maker->rng));
        }
        add_job(maker, t, t + recipe->on_s, n);
        t += mean_s * (0.3 + 1.4 * wp_rng_unit(&maker->rng));
    }
}

/* Sessions begin as a tenant's share of the whole asks (Zipf 1.1), and hold 1
 * to 500 claims (Pareto 1.5), some seconds apart. */
static void
make_tenants(struct maker *maker)
{
    const struct wp_trace_recipe *recipe = maker->recipe;
    const double claims_per_session = 2.52; /* Mean of what is drawn below. */
    double sessions = recipe->rate_per_s / claims_per_session;
    double sum = 0;

    for (int k = 1; k <= TENANTS; k++) {
        sum += pow(k, -1.1);
    }
    for (int k = 1; k <= TENANTS; k++) {
        double gap_s = sum / (pow(k, -1.1) * sessions);
        double t = 0;

        while ((t += exponential(maker, gap_s)) < recipe->length_s) {
            double u = 1 - wp_rng_unit(&maker->rng);
            int n = (int)fmin(500, pow(u, -1 / 1.5));
            double at = t;

            for (int i = 0; i < n; i++) {
                add(maker, at);
                at += exponential(maker, 3);
            }
        }
    }
}

/* The background: its rate goes evenly from the first to the last one. */
static void
add_background(struct maker *maker)
{
    const struct wp_trace_recipe *recipe = maker->recipe;
    double last = recipe->rate_per_s * (recipe->ratio > 0 ? recipe->ratio : 1);
    double slope = (last - recipe->rate_per_s) / recipe->length_s;
    double most = fmax(recipe->rate_per_s, last);
    double t = 0;

    if (most <= 0) {
        return;
    }
    while (t < recipe->length_s) {
        double rate = recipe->rate_per_s + slope * t;

        if (recipe->regular) {
            t += 1 / rate;
            add(maker, t);
        } else {
            t += exponential(maker, 1 / most);
            if (wp_rng_unit(&maker->rng) * most < rate) {
                add(maker, t);
            }
        }
    }
}

/* Each batch comes evenly spread at random over on_s, or half of it in the first
 * eighth. jitter is the share of the time between two that is exponential: what
 * a memoryless process and a clock have in common. */
static void
make_recurring(struct maker *maker)
{
    const struct wp_trace_recipe *recipe = maker->recipe;
    double t = recipe->off_s * wp_rng_unit(&maker->rng);

    add_background(maker);
    while (recipe->off_s > 0 && t < recipe->length_s) {
        for (uint32_t i = 0; i < recipe->batch; i++) {
            double at = wp_rng_unit(&maker->rng);

            add(maker, t + recipe->on_s * (recipe->steep ? at * at * at : at));
        }
        add_job(maker, t, t + recipe->on_s, recipe->batch);
        t += recipe->off_s * (1 - recipe->jitter) +
             (recipe->jitter > 0
                  ? exponential(maker, recipe->off_s * recipe->jitter)
                  : 0);
    }
}

const struct wp_trace_recipe *
wp_trace_recipe_at(unsigned i)
{
    return i < sizeof(recipes) / sizeof(recipes[0]) ? &recipes[i] : NULL;
}

const struct wp_trace_recipe *
wp_trace_recipe_named(const char *name)
{
    const struct wp_trace_recipe *recipe;

    for (unsigned i = 0; (recipe = wp_trace_recipe_at(i)) != NULL; i++) {
        if (strcmp(recipe->name, name) == 0) {
            return recipe;
        }
    }
    return NULL;
}

/* From a Monday's midnight on. */
static void
make_office(struct maker *maker)
{
    const struct wp_trace_recipe *recipe = maker->recipe;

    for (double day = 0; day * DAY < recipe->length_s; day++) {
        double busy = (int)day % 7 < 5 ? recipe->ratio : 1;
        double from = day * DAY;

        (void)add_span(maker, recipe->rate_per_s, from, from + 8 * HOUR);
        (void)add_span(maker, recipe->rate_per_s * busy, from + 8 * HOUR,
                       from + 18 * HOUR);
        (void)add_span(maker, recipe->rate_per_s, from + 18 * HOUR, from + DAY);
    }
}

bool
wp_trace_recipe_make(const struct wp_trace_recipe *recipe, uint64_t seed,
                     struct wp_trace *out)
{
    static void (*const makers[])(struct maker *) = {
        [WP_TRACE_POISSON] = make_poisson,
        [WP_TRACE_DIURNAL] = make_diurnal,
        [WP_TRACE_MMPP] = make_mmpp,
        [WP_TRACE_FAN_OUT] = make_fan_out,
        [WP_TRACE_FLASH] = make_flash,
        [WP_TRACE_RL] = make_rl,
        [WP_TRACE_TENANTS] = make_tenants,
        [WP_TRACE_RECURRING] = make_recurring,
        [WP_TRACE_OFFICE] = make_office,
    };
    struct maker maker = {.recipe = recipe, .trace = out};
    struct wp_err err;

    if (recipe->kind == WP_TRACE_READ) {
        return wp_azure_load(recipe->path, recipe->format,
                             wp_str_from(recipe->app), seed, out,
                             &err) == WP_OK;
    }
    wp_rng_init(&maker.rng, seed);
    wp_trace_init(out, (int64_t)(recipe->length_s * (double)WP_NS_PER_S));
    makers[recipe->kind](&maker);
    return wp_trace_finish(out);
}
