/* bench/scale_figures.c - the autoscaler's figures: against theory, against how
 * others size their pools, and against who knows the future.
 *
 *     scale_figures [--quick] [--jobs N] [--seeds N] [--first-seed N]
 *                   [--shorten N] [--only NAME] [--brief] [--matrix]
 *                   [--plots DIR]
 *                   [--azure-2019 FILE | --azure-2021 FILE] [--app HASH]
 *
 * --shorten divides the lengths of traces, --only takes one kind of traffic,
 * --brief leaves all rivals out but fixed sizes, and the sweeps;
 * --matrix adds a table of every kind with every lead time.
 *
 * With a file of the public traces of Azure Functions only that is shown, of
 * all apps or of one.
 *
 * Prints tables in Markdown; --plots writes a chart for each kind of traffic.
 * Exits with 1 when something happened that never may: more than the target, a
 * breaker that does not hold, and with --quick a rival that is better at
 * both. */
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/figure_cost.h"
#include "bench/figure_search.h"
#include "pool/base/clock.h"
#include "pool/refill.h"
#include "pool/scale/plot.h"
#include "pool/scale/scaler.h"

enum {
    OURS_POINTS = 5,
    SWEEP_POINTS = 8,
    CONTENDERS_MAX = OURS_POINTS + WP_RIVAL_COUNT * SWEEP_POINTS,
};

static const double ours_at[OURS_POINTS] = {0.9, 0.97, 0.99, 0.999, 0.9999};
/* Around the knob that reaches 99 %. */
static const double sweep_at[SWEEP_POINTS] = {0.06, 0.15, 0.3, 0.55,
                                              0.75, 1,    1.5, 3};
/* Everyone but those that are told. */
static const enum wp_rival blind[] = {
    WP_RIVAL_FIXED,         WP_RIVAL_HPA_CLAIM_RATE, WP_RIVAL_KEDA_CLAIM_RATE,
    WP_RIVAL_AGONES_BUFFER, WP_RIVAL_AGONES_PERCENT, WP_RIVAL_OPENSANDBOX,
    WP_RIVAL_WATERMARK,     WP_RIVAL_IN_USE_PLUS,    WP_RIVAL_OPENWHISK,
    WP_RIVAL_KNATIVE_KPA,
};
enum {
    BLIND = sizeof(blind) / sizeof(blind[0]),
};

struct program {
    struct wp_figure_settings settings;
    bool quick;
    bool matrix;
    bool brief;
    const char *only;            /* A trace; NULL: all. */
    const char *plots;           /* A folder; NULL: none. */
    struct wp_trace_recipe read; /* Its path is NULL: nothing is read. */
    uint32_t over_target_max;
    bool broken; /* Something that never may be. */
};

static void
die(const char *what)
{
    (void)fprintf(stderr, "scale_figures: %s\n", what);
    exit(2);
}

static void
note(struct program *program, const struct wp_figure_result *results,
     unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        if (results[i].over_target_max > program->over_target_max) {
            program->over_target_max = results[i].over_target_max;
        }
    }
}

static void
run(struct program *program, const struct wp_figure_world *world,
    const struct wp_figure_contender *contenders, unsigned n,
    struct wp_figure_result *results)
{
    if (!wp_figure_run(&program->settings, world, contenders, n, results)) {
        die("no memory");
    }
    note(program, results, n);
}

static struct wp_figure_best
least(struct program *program, const struct wp_figure_world *world,
      enum wp_rival rival, double hit, double start)
{
    struct wp_figure_best best;

    if (!wp_figure_least(&program->settings, world, rival, hit, start, &best)) {
        die("no memory");
    }
    note(program, &best.result, best.found ? 1 : 0);
    return best;
}

static struct wp_figure_contender
ours(double objective, bool announced)
{
    return (struct wp_figure_contender){
        .ours = true, .objective = objective, .announced = announced};
}

static const char *
verdict_hits(const struct wp_figure_mean *hit, double goal)
{
    if (hit->mean >= goal) {
        return "reached";
    }
    return hit->mean + hit->half >= goal ? "within the interval" : "missed";
}

/* Paired by seed: each seed's ratio, then their mean. */
static struct wp_figure_mean
ratio(const struct program *program, const struct wp_figure_result *a,
      const struct wp_figure_result *b)
{
    double ratios[WP_FIGURE_SEEDS_MAX];

    for (unsigned i = 0; i < program->settings.seeds; i++) {
        ratios[i] = a->idles[i] / fmax(b->idles[i], 1e-9);
    }
    return wp_figure_mean_of(ratios, program->settings.seeds);
}

static bool
is_wanted(const struct program *program, const char *name)
{
    return program->only == NULL || strcmp(program->only, name) == 0;
}

static struct wp_figure_world
world_of(const char *recipe, const char *regime)
{
    struct wp_figure_world world = {wp_trace_recipe_named(recipe),
                                    wp_lead_regime_named(regime)};

    if (world.recipe == NULL || world.regime == NULL) {
        die("unknown world");
    }
    (void)fprintf(stderr, "%s, %s\n", recipe, regime);
    return world;
}

/* Stationary: against the least constant stock of theory, told the rate. */
static void
show_poisson(struct program *program)
{
    if (!is_wanted(program, "poisson")) {
        return;
    }
    (void)printf("\n### Steady traffic (goal: 99.9 %% of claims hit, idle at "
                 "most 1.2 times the optimum of theory)\n\n"
                 "| lead times | hits | idle | optimum's hits | its idle | "
                 "ratio | verdict |\n|---|---|---|---|---|---|---|\n");
    for (unsigned i = 0; wp_lead_regime_at(i) != NULL; i++) {
        const char *name = wp_lead_regime_at(i)->name;
        const struct wp_figure_contender contenders[2] = {
            ours(0.999, false), {.rival = WP_RIVAL_ERLANG_TRUE, .a = 999}};
        struct wp_figure_result results[2];
        struct wp_figure_world world;
        struct wp_figure_mean over;

        if (program->quick && strcmp(name, "gvisor") != 0 &&
            strcmp(name, "cloud-8s") != 0) {
            continue;
        }
        world = world_of("poisson", name);
        run(program, &world, contenders, 2, results);
        over = ratio(program, &results[0], &results[1]);
        (void)printf("| %s | %.3f ± %.3f %% | %.1f ± %.1f | %.3f %% | %.1f | "
                     "%.2f ± %.2f | hits %s, idle %s |\n",
                     name, 100 * results[0].hit.mean, 100 * results[0].hit.half,
                     results[0].idle.mean, results[0].idle.half,
                     100 * results[1].hit.mean, results[1].idle.mean, over.mean,
                     over.half, verdict_hits(&results[0].hit, 0.999),
                     over.mean <= 1.2 ? "reached" : "missed");
        (void)fflush(stdout);
    }
}

static void
show_diurnal(struct program *program)
{
    static const char *const regimes[] = {"cloud-8s", "gvisor", "node-45s"};

    if (!is_wanted(program, "diurnal") || program->quick) {
        return;
    }
    (void)printf("\n### A daily wave (goal: 99.9 %%, idle at most 0.7 times "
                 "that of the best fixed size that gets there)\n\n"
                 "| lead times | hits | idle | best fixed size | its hits | "
                 "its idle | ratio | verdict |\n"
                 "|---|---|---|---|---|---|---|---|\n");
    for (unsigned i = 0; i < sizeof(regimes) / sizeof(regimes[0]); i++) {
        struct wp_figure_world world = world_of("diurnal", regimes[i]);
        const struct wp_figure_contender contender = ours(0.999, false);
        struct wp_figure_result result;
        struct wp_figure_best fixed;
        struct wp_figure_mean under;

        run(program, &world, &contender, 1, &result);
        fixed = least(program, &world, WP_RIVAL_FIXED, 0.999, 16);
        under = ratio(program, &result, &fixed.result);
        (void)printf("| %s | %.3f ± %.3f %% | %.1f ± %.1f | %.0f | %.3f %% | "
                     "%.1f | %.2f ± %.2f | hits %s, idle %s |\n",
                     regimes[i], 100 * result.hit.mean, 100 * result.hit.half,
                     result.idle.mean, result.idle.half, fixed.p,
                     100 * fixed.result.hit.mean, fixed.result.idle.mean,
                     under.mean, under.half, verdict_hits(&result.hit, 0.999),
                     under.mean <= 0.7 ? "reached" : "missed");
        (void)fflush(stdout);
    }
}

/* Everything that was run in one world. */
struct field {
    struct wp_figure_contender contenders[CONTENDERS_MAX];
    struct wp_figure_result results[CONTENDERS_MAX];
    unsigned n;
    unsigned n_ours; /* The first ones. */
    struct wp_figure_best at_99[BLIND];
};

static unsigned
rivals_of(const struct program *program)
{
    return program->brief ? 1 : BLIND;
}

static void
sweep(struct program *program, const struct wp_figure_world *world,
      struct field *field)
{
    double start = 16;

    field->n = 0;
    for (unsigned i = 0; i < OURS_POINTS; i++) {
        if (!program->brief || (ours_at[i] > 0.95 && ours_at[i] < 0.9995)) {
            field->contenders[field->n++] = ours(ours_at[i], false);
        }
    }
    field->n_ours = field->n;
    for (unsigned i = 0; i < rivals_of(program); i++) {
        double p;

        field->at_99[i] = least(program, world, blind[i], 0.99,
                                wp_figure_knob_whole(blind[i]) ? start : 1);
        p = field->at_99[i].found ? field->at_99[i].p : 64;
        start = i == 0 ? p : start;
        for (unsigned k = 0; k < SWEEP_POINTS && !program->brief; k++) {
            field->contenders[field->n++] =
                wp_figure_rival_at(blind[i], p * sweep_at[k]);
        }
    }
    run(program, world, field->contenders, field->n, field->results);
}

/* The first of the rivals that has both more hits and less idle than the i-th;
 * NULL: none. With margins that it must exceed. */
static const struct wp_figure_contender *
dominates(const struct field *field, unsigned i, double hits, double idle)
{
    const struct wp_figure_result *mine = &field->results[i];

    for (unsigned k = field->n_ours; k < field->n; k++) {
        const struct wp_figure_result *it = &field->results[k];

        if (it->hit.mean > mine->hit.mean + hits &&
            it->idle.mean < mine->idle.mean * (1 - idle)) {
            return &field->contenders[k];
        }
    }
    return NULL;
}

static void
show_field(struct program *program, const struct field *field)
{
    (void)printf("\n| objective | hits | idle | better at both |\n"
                 "|---|---|---|---|\n");
    for (unsigned i = 0; i < field->n_ours; i++) {
        const struct wp_figure_result *it = &field->results[i];
        const struct wp_figure_contender *by = dominates(field, i, 0, 0);
        char name[64] = "none";

        if (by != NULL) {
            wp_figure_contender_name(by, name, sizeof(name));
        }
        (void)printf("| %g %% | %.3f ± %.3f %% | %.1f ± %.1f | %s |\n",
                     100 * field->contenders[i].objective, 100 * it->hit.mean,
                     100 * it->hit.half, it->idle.mean, it->idle.half, name);
        if (program->quick && dominates(field, i, 0.005, 0.1) != NULL) {
            (void)fprintf(stderr, "%g %%: %s is better at both\n",
                          100 * field->contenders[i].objective, name);
            program->broken = true;
        }
    }
    (void)printf("\n| at 99 %% hits | knob | its least | hits | idle |\n"
                 "|---|---|---|---|---|\n");
    for (unsigned i = 0; i < rivals_of(program); i++) {
        const struct wp_figure_best *it = &field->at_99[i];

        if (it->found) {
            (void)printf("| %s | %s | %.4g | %.2f %% | %.1f ± %.1f |\n",
                         wp_rival_name(blind[i]), wp_figure_knob(blind[i]),
                         it->p, 100 * it->result.hit.mean, it->result.idle.mean,
                         it->result.idle.half);
        } else {
            (void)printf("| %s | %s | never | | |\n", wp_rival_name(blind[i]),
                         wp_figure_knob(blind[i]));
        }
    }
}

/* Ours at 99 % against the best that gets there. */
static void
judge_99(const struct program *program, const struct field *field)
{
    const struct wp_figure_best *best = NULL;
    const struct wp_figure_result *mine = NULL;
    struct wp_figure_mean under;

    for (unsigned i = 0; i < rivals_of(program); i++) {
        if (field->at_99[i].found &&
            (best == NULL ||
             field->at_99[i].result.idle.mean < best->result.idle.mean)) {
            best = &field->at_99[i];
        }
    }
    for (unsigned i = 0; i < field->n_ours && mine == NULL; i++) {
        if (field->results[i].hit.mean >= 0.99) {
            mine = &field->results[i];
            (void)printf("\nAt 99 %% hits: warmpool with objective %g %%",
                         100 * field->contenders[i].objective);
        }
    }
    if (mine == NULL || best == NULL) {
        (void)printf("\nAt 99 %% hits: %s\n",
                     mine == NULL ? "warmpool did not get there: missed"
                                  : "no rival got there: reached");
        return;
    }
    under = ratio(program, mine, &best->result);
    (void)printf(" is idle %.2f ± %.2f times as much as the best rival there, "
                 "%s (goal 0.8: %s).\n",
                 under.mean, under.half, wp_rival_name(best->contender.rival),
                 under.mean <= 0.8 ? "reached" : "missed");
}

/* How little anybody could idle at 99 % who must find out that a burst has
 * begun: not less, at any rate, than who is told in that moment. */
static void
show_bound(struct program *program, const struct wp_figure_world *world,
           const struct field *field)
{
    struct wp_figure_best told;
    struct wp_figure_mean under;

    if (world->recipe->off_s <= 0 || !field->at_99[0].found) {
        return;
    }
    if (!wp_figure_least_told(&program->settings, world, 0.99,
                              field->at_99[0].p, &told) ||
        !told.found) {
        die("no memory");
    }
    under = ratio(program, &told.result, &field->at_99[0].result);
    (void)printf("Who is told at once when a burst begins and ends: sizes %.0f "
                 "and %.0f, idle %.1f, %.2f ± %.2f times the fixed size's.\n",
                 told.contender.a, told.contender.b, told.result.idle.mean,
                 under.mean, under.half);
}

/* Told one lead time (its 99.9th percentile) ahead, against who knows all. */
static struct wp_figure_result
judge_told(struct program *program, const struct wp_figure_world *world)
{
    const struct wp_figure_contender contender = ours(0.999, true);
    struct wp_figure_result result;
    struct wp_figure_best seer =
        least(program, world, WP_RIVAL_CLAIRVOYANT, 0.999, 8);
    struct wp_figure_mean over;

    run(program, world, &contender, 1, &result);
    if (!seer.found) {
        (void)printf("\nNobody reaches 99.9 %% here.\n");
        return result;
    }
    over = ratio(program, &result, &seer.result);
    (void)printf("\nWith jobs announced: hits %.3f ± %.3f %% (99.9 %%: %s), "
                 "idle %.1f ± %.1f, %.2f ± %.2f times the clairvoyant's %.1f "
                 "(goal 2: %s).\n",
                 100 * result.hit.mean, 100 * result.hit.half,
                 verdict_hits(&result.hit, 0.999), result.idle.mean,
                 result.idle.half, over.mean, over.half, seer.result.idle.mean,
                 over.mean <= 2 ? "reached" : "missed");
    return result;
}

static void
write_plot(const struct program *program, const struct wp_figure_world *world,
           const struct field *field, const struct wp_figure_result *told)
{
    struct wp_plot_point points[CONTENDERS_MAX];
    struct wp_plot_point star = {0, 0, "told"};
    struct wp_plot_series series[BLIND + 2];
    char title[120];
    char reading[600];
    char path[512];
    struct wp_plot plot = {
        .title = title,
        .reading = reading,
        .x_label = "idle: mean number of ready sandboxes",
        .y_label = "claims served at once",
        .x_scale = WP_PLOT_LOG,
        .y_scale = WP_PLOT_NINES,
        .series = series,
        .n_series = BLIND + 1,
    };
    size_t len;
    char *svg;
    FILE *file;

    for (unsigned i = 0; i < field->n; i++) {
        points[i] = (struct wp_plot_point){field->results[i].idle.mean,
                                           field->results[i].hit.mean, NULL};
    }
    series[0] =
        (struct wp_plot_series){"warmpool", WP_PLOT_LINE, points, OURS_POINTS};
    for (unsigned i = 0; i < BLIND; i++) {
        series[i + 1] = (struct wp_plot_series){
            wp_rival_name(blind[i]), WP_PLOT_LINE,
            &points[OURS_POINTS + i * SWEEP_POINTS], SWEEP_POINTS};
    }
    if (told != NULL) {
        star.x = told->idle.mean;
        star.y = told->hit.mean;
        series[plot.n_series++] = (struct wp_plot_series){
            "warmpool, jobs announced", WP_PLOT_STAR, &star, 1};
    }
    (void)snprintf(title, sizeof(title),
                   "%s: claims served at once against idle sandboxes",
                   world->recipe->title);
    (void)snprintf(reading, sizeof(reading),
                   "Up and left is better. Each line is one way to size a pool "
                   "of warm sandboxes, with its knob turned from small to "
                   "large. Traffic: %s. Sandboxes: %s. Means over %u seeds.",
                   world->recipe->sentence, world->regime->sentence,
                   program->settings.seeds);
    (void)snprintf(path, sizeof(path), "%s/%s-%s.svg", program->plots,
                   world->recipe->name, world->regime->name);
    svg = wp_plot_svg(&plot, &len);
    file = fopen(path, "w");
    if (svg == NULL || file == NULL || fwrite(svg, 1, len, file) != len ||
        fclose(file) != 0) {
        die("a plot could not be written");
    }
    free(svg);
}

/* One world with all its rivals, each with its knob turned. */
static void
show_one_field(struct program *program, const struct wp_figure_world *world,
               struct field *field)
{
    bool has_jobs = world->recipe->on_s > 0;
    struct wp_figure_result told;

    (void)printf("\n### %s, %s: %s; %s\n", world->recipe->name,
                 world->regime->name, world->recipe->sentence,
                 world->regime->sentence);
    sweep(program, world, field);
    show_field(program, field);
    judge_99(program, field);
    show_bound(program, world, field);
    if (has_jobs) {
        told = judge_told(program, world);
    }
    if (program->plots != NULL && !program->brief) {
        write_plot(program, world, field, has_jobs ? &told : NULL);
    }
    (void)fflush(stdout);
}

/* Traffic that comes in bursts, and the rest. */
static void
show_fields(struct program *program)
{
    static const struct {
        const char *recipe;
        const char *regime;
        bool quick;
    } worlds[] = {
        {"mmpp-long", "cloud-8s", true},   {"mmpp-long", "gvisor", false},
        {"mmpp-short", "cloud-8s", false}, {"mmpp-short", "gvisor", false},
        {"fan-out", "cloud-8s", false},    {"flash", "cloud-8s", false},
        {"rl", "cloud-8s", false},         {"tenants", "cloud-8s", false},
        {"poisson", "cloud-8s", false},    {"diurnal", "cloud-8s", false},
    };
    struct field *field = calloc(1, sizeof(*field));

    if (field == NULL) {
        die("no memory");
    }
    for (unsigned i = 0; i < sizeof(worlds) / sizeof(worlds[0]); i++) {
        if (is_wanted(program, worlds[i].recipe) &&
            (!program->quick || worlds[i].quick)) {
            struct wp_figure_world world =
                world_of(worlds[i].recipe, worlds[i].regime);

            show_one_field(program, &world, field);
        }
    }
    free(field);
}

/* A public trace, with two lead times. */
static void
show_read(struct program *program)
{
    static const char *const regimes[] = {"gvisor", "cloud-8s"};
    struct field *field = calloc(1, sizeof(*field));
    struct wp_trace trace;
    struct wp_err err;

    if (field == NULL) {
        die("no memory");
    }
    if (wp_azure_load(program->read.path, program->read.format,
                      wp_str_from(program->read.app), 1, &trace,
                      &err) != WP_OK) {
        die(err.msg);
    }
    (void)printf("\n%llu calls in %.1f hours; the first quarter is warm-up.\n",
                 (unsigned long long)trace.n,
                 (double)trace.end_ns / (double)WP_NS_PER_S / 3600);
    wp_trace_fini(&trace);
    for (unsigned i = 0; i < sizeof(regimes) / sizeof(regimes[0]); i++) {
        struct wp_figure_world world = {&program->read,
                                        wp_lead_regime_named(regimes[i])};

        show_one_field(program, &world, field);
    }
    free(field);
}

/* Every kind of traffic with every lead time: ours against the least fixed
 * size that hits as often. */
static void
show_matrix(struct program *program)
{
    if (!program->matrix) {
        return;
    }
    (void)printf("\n### Everything (objective 99.9 %%; the fixed size is the "
                 "least with at least the hits that warmpool had)\n\n"
                 "| traffic | lead times | hits | idle | fixed size | its "
                 "idle | wait p99.9 | made for nothing |\n"
                 "|---|---|---|---|---|---|---|---|\n");
    for (unsigned i = 0; wp_trace_recipe_at(i) != NULL; i++) {
        const char *recipe = wp_trace_recipe_at(i)->name;

        if (!is_wanted(program, recipe)) {
            continue;
        }
        for (unsigned k = 0; wp_lead_regime_at(k) != NULL; k++) {
            struct wp_figure_world world =
                world_of(recipe, wp_lead_regime_at(k)->name);
            const struct wp_figure_contender contender = ours(0.999, false);
            struct wp_figure_result it;
            struct wp_figure_best fixed;

            run(program, &world, &contender, 1, &it);
            fixed = least(program, &world, WP_RIVAL_FIXED, it.hit.mean,
                          fmax(1, it.idle.mean));
            (void)printf("| %s | %s | %.3f ± %.3f %% | %.1f ± %.1f | %.0f | "
                         "%.1f | %.1f s | %.1f %% |\n",
                         recipe, world.regime->name, 100 * it.hit.mean,
                         100 * it.hit.half, it.idle.mean, it.idle.half, fixed.p,
                         fixed.result.idle.mean, it.wait_p999_s.mean,
                         100 * it.unused.mean);
            (void)fflush(stdout);
        }
    }
}

/* A backend that never makes one ready: what was ordered at first, then what
 * the breaker lets through in an hour. */
static void
show_never_ready(struct program *program)
{
    enum {
        INFLIGHT = 32,
        HOUR_S = 3600,
    };
    struct wp_trace_recipe recipe = *wp_trace_recipe_named("poisson");
    struct wp_trace trace;
    struct wp_trace_cursor cursor;
    struct wp_scale_policy objective;
    struct wp_replay_policy policy;
    struct wp_replay_result result;
    struct wp_err err;
    uint64_t most = INFLIGHT + WP_REFILL_BREAKER_FAILURES - 1 + 7 +
                    (HOUR_S - 63 * 3 / 4) / (60 * 3 / 4);
    struct wp_replay_config config = {
        .lead = {.median_s = 2, .sigma = 0.3, .fail_share = 1},
        .end_ns = HOUR_S * WP_NS_PER_S,
        .inflight_max = INFLIGHT,
        .ceiling = UINT32_MAX,
        .seed = 1,
    };

    recipe.length_s = HOUR_S;
    wp_scale_policy_init(&objective);
    objective.objective = WP_SCALE_HIT_RATE;
    objective.hit_rate = 0.999;
    if (!wp_trace_recipe_make(&recipe, 1, &trace) ||
        !wp_replay_policy_ours(&objective, WP_MISS_LOST, 1, 2 * WP_NS_PER_S, 0,
                               &policy)) {
        die("no memory");
    }
    config.source = wp_trace_source(&trace, &cursor, false, 0);
    if (wp_replay_run(&config, &policy, &result, &err) != WP_OK) {
        die(err.msg);
    }
    policy.destroy(policy.self);
    wp_trace_fini(&trace);
    (void)printf("\n### A backend that never makes one ready, an hour of 5 "
                 "claims a second, at most %d in flight\n\n"
                 "%llu created; the breaker's bound is %llu: %s.\n",
                 INFLIGHT, (unsigned long long)result.created,
                 (unsigned long long)most,
                 result.created <= most ? "reached" : "missed");
    if (result.created > most) {
        program->broken = true;
    }
}

static void
show_cost(const struct program *program)
{
    static const double rates[] = {1, 100, 10000};
    uint32_t pools = program->quick ? 1000 : 10000;

    (void)printf("\n### What a decision costs\n\n| claims a second | "
                 "processor time of a decision |\n|---|---|\n");
    for (unsigned i = 0; i < sizeof(rates) / sizeof(rates[0]); i++) {
        (void)printf("| %g | %.2f us |\n", rates[i],
                     wp_figure_decision_ns(rates[i]) / 1000);
    }
    (void)printf("\n%u pools of one claim in 10 s each: %.1f %% of a core.\n",
                 pools, 100 * wp_figure_pools_share(pools, 0.1));
    (void)fflush(stdout);
}

static unsigned
number(const char *text, unsigned most)
{
    char *end;
    unsigned long n = strtoul(text, &end, 10);

    if (*end != '\0' || n < 1 || n > most) {
        die("a number from 1 on was expected");
    }
    return (unsigned)n;
}

static void
parse(int argc, char **argv, struct program *program)
{
    static const struct option options[] = {
        {"quick", no_argument, NULL, 'q'},
        {"jobs", required_argument, NULL, 'j'},
        {"seeds", required_argument, NULL, 's'},
        {"first-seed", required_argument, NULL, 'f'},
        {"shorten", required_argument, NULL, 'l'},
        {"only", required_argument, NULL, 'o'},
        {"matrix", no_argument, NULL, 'm'},
        {"brief", no_argument, NULL, 'b'},
        {"plots", required_argument, NULL, 'p'},
        {"azure-2019", required_argument, NULL, '9'},
        {"azure-2021", required_argument, NULL, '1'},
        {"app", required_argument, NULL, 'a'},
        {NULL, 0, NULL, 0}};
    int option;

    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (option) {
        case 'q':
            program->quick = true;
            program->settings.seeds = 3;
            program->settings.shorten = 4;
            break;
        case 'j':
            program->settings.jobs = number(optarg, 16);
            break;
        case 's':
            program->settings.seeds = number(optarg, WP_FIGURE_SEEDS_MAX);
            break;
        case 'f':
            program->settings.first_seed = number(optarg, 1U << 30);
            break;
        case 'l':
            program->settings.shorten = number(optarg, 1000);
            break;
        case 'b':
            program->brief = true;
            break;
        case 'm':
            program->matrix = true;
            break;
        case 'o':
            program->only = optarg;
            break;
        case 'p':
            program->plots = optarg;
            break;
        case '9':
        case '1':
            program->read.path = optarg;
            program->read.format =
                option == '9' ? WP_AZURE_2019 : WP_AZURE_2021;
            break;
        case 'a':
            program->read.app = optarg;
            break;
        default:
            die("see the head of bench/scale_figures.c");
        }
    }
}

int
main(int argc, char **argv)
{
    struct program program = {
        .settings = {.seeds = 10, .first_seed = 1, .jobs = 1, .shorten = 1},
        .read = {.name = "azure",
                 .title = "Azure Functions",
                 .sentence = "calls of Azure Functions",
                 .kind = WP_TRACE_READ,
                 .length_s = 4,
                 .warm_up_s = 1}};

    parse(argc, argv, &program);
    (void)printf("%u seeds from %llu, traces shortened %g times; ± is half of "
                 "a 95 %% interval over seeds.\n",
                 program.settings.seeds,
                 (unsigned long long)program.settings.first_seed,
                 program.settings.shorten);
    if (program.read.path != NULL) {
        show_read(&program);
    } else {
        show_poisson(&program);
        show_diurnal(&program);
        show_fields(&program);
        show_matrix(&program);
        show_never_ready(&program);
        show_cost(&program);
    }
    (void)printf("\nMost that was ever above the target right after an order, "
                 "over all runs: %u.\n",
                 program.over_target_max);
    return program.broken || program.over_target_max > 0 ? 1 : 0;
}
