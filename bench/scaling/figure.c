#include "bench/scaling/figure.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench/scaling/outlook.h"
#include "pool/base/clock.h"
#include "pool/base/extreme.h"

/* Of what is simulated about those that hold sandboxes. */
#define HOLD_MEDIAN_S 120.0
#define HOLD_SIGMA 1.2
/* A Monday at midnight, UTC. */
#define START_WALL_NS (INT64_C(1767571200) * WP_NS_PER_S)

struct run {
    struct wp_replay_result result;
    double outlook;
};

struct work {
    const struct wp_figure_settings *settings;
    const struct wp_figure_world *world;
    const struct wp_figure_contender *contenders;
    unsigned n;
    struct run *runs; /* [contender][seed]. */
    int64_t ahead_ns; /* How long before they begin jobs announce. */
    atomic_uint next_seed;
    atomic_bool failed;
};

/* Student's t for 95 %, two-sided, by degrees of freedom. */
static double
student_t(unsigned freedom)
{
    static const double table[] = {
        0,     12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262,
        2.228, 2.201,  2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093,
        2.086, 2.080,  2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045};

    return freedom < sizeof(table) / sizeof(table[0]) ? table[freedom] : 1.96;
}

struct wp_figure_mean
wp_figure_mean_of(const double *values, unsigned n)
{
    struct wp_figure_mean out = {0, 0};
    double squares = 0;

    for (unsigned i = 0; i < n; i++) {
        out.mean += values[i] / n;
    }
    for (unsigned i = 0; i < n; i++) {
        squares += (values[i] - out.mean) * (values[i] - out.mean);
    }
    if (n > 1) {
        out.half = student_t(n - 1) * sqrt(squares / (n - 1) / n);
    }
    return out;
}

/* When batches count as known, if any comes after that: what comes at random
 * times may have come less often by then than its mean has it. */
static int64_t
known_ns(const struct wp_trace_recipe *recipe, const struct wp_trace *trace)
{
    if (recipe->kind != WP_TRACE_RECURRING ||
        trace->n_jobs <= WP_TRACE_KNOWN_AFTER + 1) {
        return 0;
    }
    return trace->jobs[WP_TRACE_KNOWN_AFTER].until_ns;
}

/* Bounds of a run's time: what is measured, and what is warm-up. */
static void
set_times(const struct work *work, const struct wp_trace *trace,
          struct wp_replay_config *config)
{
    const struct wp_trace_recipe *recipe = work->world->recipe;

    const struct wp_figure_settings *settings = work->settings;
    double whole_ns = (double)trace->end_ns;

    config->end_ns = trace->end_ns;
    config->begin_ns =
        (int64_t)(whole_ns * recipe->warm_up_s / recipe->length_s);
    config->begin_ns = wp_max_i64(config->begin_ns, known_ns(recipe, trace));
    if (settings->until > 0) {
        config->begin_ns = (int64_t)(whole_ns * settings->from);
        config->end_ns = (int64_t)(whole_ns * settings->until);
    }
}

static bool
make_ours(const struct wp_figure_contender *contender,
          const struct wp_lead_regime *regime, struct wp_replay_policy *out)
{
    struct wp_scale_policy policy;

    wp_scale_policy_init(&policy);
    policy.objective = WP_SCALE_HIT_RATE;
    policy.hit_rate = contender->objective;
    if (!wp_replay_policy_ours(
            &policy, WP_MISS_LOST, 1,
            (int64_t)(regime->lead.median_s * (double)WP_NS_PER_S),
            START_WALL_NS, out)) {
        return false;
    }
    wp_replay_policy_ours_at_once(out, regime->at_once);
    return true;
}

static bool
make_baseline(const struct wp_figure_contender *contender,
              const struct wp_lead_regime *regime, const struct wp_trace *trace,
              int64_t begin_ns, struct wp_trace_cursor *cursor,
              struct wp_replay_policy *out)
{
    const struct wp_baseline_config config = {
        .baseline = contender->baseline,
        .a = contender->a,
        .b = contender->b,
        .min = contender->min,
        .max = contender->max == 0 ? UINT32_MAX : contender->max,
        .miss = WP_MISS_LOST,
        .future = wp_trace_source(trace, cursor, false, 0),
        .lead = regime->lead,
        .true_rate_per_s = wp_trace_rate_per_s(trace, begin_ns),
    };

    return wp_baseline_create(&config, out);
}

/* Told when jobs begin and end, but not before. */
struct two_sizes {
    const struct wp_trace *trace;
    uint32_t calm;
    uint32_t busy;
    uint32_t job; /* The next to end. */
};

static uint32_t
two_sizes_target(void *self, const struct wp_replay_view *view,
                 int64_t *next_ns)
{
    struct two_sizes *it = self;
    const struct wp_trace *trace = it->trace;

    while (it->job < trace->n_jobs &&
           trace->jobs[it->job].until_ns <= view->now_ns) {
        it->job++;
    }
    if (it->job == trace->n_jobs) {
        *next_ns = WP_TIME_NEVER;
        return it->calm;
    }
    if (view->now_ns < trace->jobs[it->job].from_ns) {
        *next_ns = trace->jobs[it->job].from_ns;
        return it->calm;
    }
    *next_ns = trace->jobs[it->job].until_ns;
    return it->busy;
}

static bool
make_two_sizes(const struct wp_figure_contender *contender,
               const struct wp_trace *trace, struct wp_replay_policy *out)
{
    struct two_sizes *it = calloc(1, sizeof(*it));

    if (it == NULL) {
        return false;
    }
    *it = (struct two_sizes){.trace = trace,
                             .calm = (uint32_t)contender->a,
                             .busy = (uint32_t)contender->b};
    *out = (struct wp_replay_policy){.name = "state-told",
                                     .self = it,
                                     .target = two_sizes_target,
                                     .destroy = free};
    return true;
}

static bool
make(const struct wp_figure_contender *contender,
     const struct wp_lead_regime *regime, const struct wp_trace *trace,
     int64_t begin_ns, struct wp_trace_cursor *cursor,
     struct wp_replay_policy *out)
{
    if (contender->ours) {
        return make_ours(contender, regime, out);
    }
    if (contender->state_told) {
        return make_two_sizes(contender, trace, out);
    }
    return make_baseline(contender, regime, trace, begin_ns, cursor, out);
}

static bool
run_one(struct work *work, const struct wp_trace *trace, uint64_t seed,
        const struct wp_figure_contender *contender, struct run *out)
{
    const struct wp_lead_regime *regime = work->world->regime;
    struct wp_trace_cursor claims;
    struct wp_trace_cursor future;
    struct wp_replay_config config = {
        .source = wp_trace_source(trace, &claims, contender->announced,
                                  work->ahead_ns),
        .lead = regime->lead,
        .miss = WP_MISS_LOST,
        .hold_median_s = HOLD_MEDIAN_S,
        .hold_sigma = HOLD_SIGMA,
        .inflight_max = regime->at_once > 0 ? regime->at_once : UINT32_MAX,
        .creates_per_s_max = regime->creates_per_s_max,
        .ceiling = UINT32_MAX,
        .seed = seed,
    };
    struct wp_outlook outlook = {.claims = 0};
    struct wp_replay_policy policy;
    struct wp_err err;
    bool ok;

    set_times(work, trace, &config);
    ok = make(contender, regime, trace, config.begin_ns, &future, &policy);
    if (!ok) {
        return false;
    }
    if (contender->ours) {
        wp_outlook_watch(&outlook, &policy, config.begin_ns);
    }
    ok = wp_replay_run(&config, &policy, &out->result, &err) == WP_OK;
    policy.destroy(policy.self);
    out->outlook = wp_outlook_mean(&outlook);
    return ok;
}

static void
run_seed(struct work *work, unsigned i)
{
    const struct wp_figure_settings *settings = work->settings;
    struct wp_trace_recipe recipe = *work->world->recipe;
    uint64_t seed = settings->first_seed + i;
    struct wp_trace trace;
    bool ok;

    recipe.length_s /= settings->shorten;
    ok = wp_trace_recipe_make(&recipe, seed, &trace);
    for (unsigned k = 0; ok && k < work->n; k++) {
        ok = run_one(work, &trace, seed * 7919, &work->contenders[k],
                     &work->runs[k * settings->seeds + i]);
    }
    if (!ok) {
        atomic_store(&work->failed, true);
    }
    wp_trace_fini(&trace);
}

static void *
work_on(void *arg)
{
    struct work *work = arg;

    for (;;) {
        unsigned i = atomic_fetch_add(&work->next_seed, 1);

        if (i >= work->settings->seeds) {
            return NULL;
        }
        run_seed(work, i);
    }
}

static void
sum_up(const struct run *runs, unsigned n, struct wp_figure_result *out)
{
    double outlooks[WP_FIGURE_SEEDS_MAX];
    double waits[WP_FIGURE_SEEDS_MAX];
    double unused[WP_FIGURE_SEEDS_MAX];
    double warming[WP_FIGURE_SEEDS_MAX];
    double made[WP_FIGURE_SEEDS_MAX];

    *out = (struct wp_figure_result){.claims = 0};
    for (unsigned i = 0; i < n; i++) {
        const struct wp_replay_result *result = &runs[i].result;

        outlooks[i] = runs[i].outlook;
        out->hits[i] = result->hit_rate;
        out->idles[i] = result->idle_mean;
        waits[i] = result->wait_p999_s;
        warming[i] = result->idle_s > 0 ? result->warming_s / result->idle_s *
                                              result->idle_mean
                                        : 0;
        made[i] = (double)result->created / fmax((double)result->claims, 1);
        unused[i] = result->created == 0
                        ? 0
                        : (double)result->unused / (double)result->created;
        out->claims += (double)result->claims;
        if (result->over_target_max > out->over_target_max) {
            out->over_target_max = result->over_target_max;
        }
    }
    out->hit = wp_figure_mean_of(out->hits, n);
    out->outlook = wp_figure_mean_of(outlooks, n);
    out->idle = wp_figure_mean_of(out->idles, n);
    out->wait_p999_s = wp_figure_mean_of(waits, n);
    out->warming = wp_figure_mean_of(warming, n);
    out->made = wp_figure_mean_of(made, n);
    out->unused = wp_figure_mean_of(unused, n);
}

bool
wp_figure_run(const struct wp_figure_settings *settings,
              const struct wp_figure_world *world,
              const struct wp_figure_contender *contenders, unsigned n,
              struct wp_figure_result *results)
{
    struct work work = {
        .settings = settings, .world = world, .contenders = contenders, .n = n};
    pthread_t threads[16];
    unsigned started = 0;
    unsigned jobs = settings->jobs < 16 ? settings->jobs : 16;

    work.ahead_ns = wp_lead_regime_quantile_ns(world->regime, 0.999);
    work.runs = calloc((size_t)n * settings->seeds, sizeof(*work.runs));
    if (work.runs == NULL) {
        return false;
    }
    while (started + 1 < jobs &&
           pthread_create(&threads[started], NULL, work_on, &work) == 0) {
        started++;
    }
    (void)work_on(&work);
    for (unsigned i = 0; i < started; i++) {
        (void)pthread_join(threads[i], NULL);
    }
    for (unsigned k = 0; k < n; k++) {
        sum_up(&work.runs[k * settings->seeds], settings->seeds, &results[k]);
    }
    free(work.runs);
    return !atomic_load(&work.failed);
}

void
wp_figure_contender_name(const struct wp_figure_contender *contender, char *out,
                         size_t cap)
{
    if (contender->ours) {
        (void)snprintf(out, cap, "warmpool %g %%%s", contender->objective * 100,
                       contender->announced ? ", told" : "");
    } else {
        (void)snprintf(out, cap, "%s %g", wp_baseline_name(contender->baseline),
                       contender->a);
    }
}
