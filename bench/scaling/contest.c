#include "bench/scaling/contest.h"

#include <math.h>

#include "allocator/advice/advice.h"
#include "pool/base/clock.h"

/* Of a trace: where tuning begins and ends. */
static const double TUNE_FROM = 0.1;
static const double TUNE_UNTIL = 0.4;
/* The advice's claims begin on a Monday at midnight, UTC. */
#define START_WALL_NS (INT64_C(1767571200) * WP_NS_PER_S)

enum {
    HISTORY_BYTES = 4 << 20,
};

bool
wp_contest_is_fair(enum wp_baseline baseline)
{
    return baseline != WP_BASELINE_ERLANG_TRUE &&
           baseline != WP_BASELINE_CLAIRVOYANT;
}

/* Half of the 95 % interval of a's hits less b's, seed by seed. */
static struct wp_figure_mean
paired(const struct wp_figure_result *a, const struct wp_figure_result *b,
       unsigned n)
{
    double differences[WP_FIGURE_SEEDS_MAX];

    for (unsigned i = 0; i < n; i++) {
        differences[i] = a->hits[i] - b->hits[i];
    }
    return wp_figure_mean_of(differences, n);
}

static void
judge(const struct wp_contest_settings *settings, struct wp_contest *contest)
{
    for (unsigned i = 0; i < settings->n_objectives; i++) {
        struct wp_contest_try *try = &contest->tries[i];
        const struct wp_figure_result *ours = &try->ours;
        double objective = settings->objectives[i];
        double best_idle = fmax(try->fixed.result.idle.mean, 1);

        try->missed = ours->hit.mean + ours->hit.half < objective;
        try->said = ours->outlook.mean <= (objective + ours->hit.mean) / 2;
        try->idles = try->fixed.found &&
                     ours->idle.mean > WP_CONTEST_IDLE_MAX * best_idle;
        if (i > 0) {
            struct wp_figure_mean gain = paired(
                ours, &contest->tries[i - 1].ours, settings->figure.seeds);

            try->serves_less = gain.mean + gain.half < -1e-9;
        }
    }
}

/* Each baseline tuned on one part, and judged by the other. */
static bool
tune(const struct wp_contest_settings *settings,
     const struct wp_figure_world *in, struct wp_contest *out)
{
    double objective = settings->objectives[settings->n_objectives - 1];
    const struct wp_figure_contender ours = {.ours = true,
                                             .objective = objective};
    struct wp_figure_settings first = settings->figure;
    struct wp_figure_settings rest = settings->figure;
    struct wp_figure_result mine;

    first.from = TUNE_FROM;
    first.until = TUNE_UNTIL;
    first.coarse = true;
    first.seeds = 1; /* Whoever tunes has one record. */
    rest.from = TUNE_UNTIL;
    rest.until = 1;
    if (!wp_figure_run(&rest, in, &ours, 1, &mine)) {
        return false;
    }
    for (unsigned i = 0; i < WP_BASELINE_COUNT; i++) {
        enum wp_baseline baseline = (enum wp_baseline)i;
        struct wp_figure_best tuned;
        struct wp_figure_result result;

        if (!wp_contest_is_fair(baseline)) {
            continue;
        }
        if (!wp_figure_least(&first, in, baseline, objective, 16, &tuned)) {
            return false;
        }
        if (!tuned.found) {
            continue;
        }
        if (!wp_figure_run(&rest, in, &tuned.contender, 1, &result)) {
            return false;
        }
        if (result.hit.mean + result.hit.half >= objective) {
            out->by_baseline[i] = mine.idle.mean / fmax(result.idle.mean, 1e-3);
            out->by_best = fmax(out->by_best, out->by_baseline[i]);
        }
    }
    return true;
}

/* The claims of the first seed as a daemon would have recorded them; NULL when
 * memory lacks. */
static struct wp_history *
record(const struct wp_contest_settings *settings, const struct wp_world *world)
{
    struct wp_history *history = wp_history_create(HISTORY_BYTES);
    struct wp_trace_recipe recipe = world->recipe;
    struct wp_trace trace;

    recipe.length_s /= settings->figure.shorten;
    if (!wp_trace_recipe_make(&recipe, settings->figure.first_seed, &trace)) {
        wp_history_destroy(history);
        history = NULL;
    }
    for (uint64_t i = 0; history != NULL && i < trace.n; i++) {
        wp_history_add(history, trace.at_ns[i],
                       &(struct wp_history_event){.kind = WP_HISTORY_CLAIMS,
                                                  .wall_ns = START_WALL_NS +
                                                             trace.at_ns[i],
                                                  .n = 1});
    }
    wp_trace_fini(&trace);
    return history;
}

/* Who has the laxest of the objectives asks for advice. Too few claims for any
 * have no star. */
static bool
advise(const struct wp_contest_settings *settings, const struct wp_world *world,
       struct wp_contest *out)
{
    struct wp_history *history = record(settings, world);
    struct wp_advice_config config = {
        .history = history,
        .has_today = true,
        .miss = WP_MISS_LOST,
        .lead_ns = (int64_t)(wp_replay_lead_mean_s(&world->regime.lead) *
                             (double)WP_NS_PER_S),
        .at_once = world->regime.at_once,
        .n_objectives = settings->n_objectives,
        .seed = settings->figure.first_seed};
    struct wp_advice *advice = NULL;
    struct wp_advice_words words;
    struct wp_err err;
    bool whole = history != NULL;

    wp_scale_policy_init(&config.policy);
    config.policy.objective = WP_SCALE_HIT_RATE;
    config.policy.hit_rate = settings->objectives[0];
    for (unsigned i = 0; i < settings->n_objectives; i++) {
        config.objectives[i] = settings->objectives[i];
    }
    if (whole && wp_advice_create(&config, &advice, &err) == WP_OK) {
        for (uint32_t i = 0; whole && i < wp_advice_n_rows(advice); i++) {
            whole = wp_advice_run(advice, i, NULL, NULL, &err) == WP_OK;
        }
        wp_advice_conclude(wp_advice_facts(advice), wp_advice_row(advice, 0),
                           wp_advice_n_rows(advice), &words);
        out->starred = whole && words.recommended >= 0 &&
                       wp_advice_row(advice, (uint32_t)words.recommended)
                               ->result.hit_rate < settings->objectives[0];
    }
    wp_advice_destroy(advice);
    wp_history_destroy(history);
    return whole;
}

bool
wp_contest_run(const struct wp_contest_settings *settings,
               const struct wp_world *world, struct wp_contest *out)
{
    const struct wp_figure_world in = {&world->recipe, &world->regime};
    unsigned n = settings->n_objectives;
    struct wp_figure_contender contenders[WP_CONTEST_OBJECTIVES_MAX] = {0};
    struct wp_figure_result results[WP_CONTEST_OBJECTIVES_MAX];

    *out = (struct wp_contest){.starred = false};
    for (unsigned i = 0; i < n; i++) {
        contenders[i] = (struct wp_figure_contender){
            .ours = true, .objective = settings->objectives[i]};
    }
    if (!wp_figure_run(&settings->figure, &in, contenders, n, results)) {
        return false;
    }
    for (unsigned i = 0; i < n; i++) {
        out->tries[i].ours = results[i];
        if (!settings->alone &&
            !wp_figure_least(&settings->figure, &in, WP_BASELINE_FIXED,
                             settings->objectives[i], 16,
                             &out->tries[i].fixed)) {
            return false;
        }
    }
    judge(settings, out);
    return (!settings->tuned || tune(settings, &in, out)) &&
           (!settings->advice || advise(settings, world, out));
}
