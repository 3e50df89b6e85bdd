#include "bench/scaling/figure_report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "allocator/advice/plot.h"

enum {
    OURS_POINTS = 7,
    SWEEP_POINTS = 8,
    CONTENDERS_MAX = OURS_POINTS + WP_BASELINE_COUNT * SWEEP_POINTS,
};

static const double ours_at[OURS_POINTS] = {0.9,   0.95, 0.97, 0.98,
                                            0.985, 0.99, 0.999};
/* Around the knob that reaches 99 %. */
static const double sweep_at[SWEEP_POINTS] = {0.06, 0.15, 0.3, 0.55,
                                              0.75, 1,    1.5, 3};
/* The same, where runs are long. */
static const double coarse_at[] = {0.35, 0.6, 0.8, 1, 1.5};
/* Everyone but those that are told. */
static const enum wp_baseline blind[] = {
    WP_BASELINE_FIXED,
    WP_BASELINE_HPA_CLAIM_RATE,
    WP_BASELINE_KEDA_CLAIM_RATE,
    WP_BASELINE_AGONES_BUFFER,
    WP_BASELINE_AGONES_PERCENT,
    WP_BASELINE_OPENSANDBOX,
    WP_BASELINE_WATERMARK,
    WP_BASELINE_IN_USE_PLUS,
    WP_BASELINE_OPENWHISK,
    WP_BASELINE_KNATIVE_KPA,
    WP_BASELINE_RULE,
};
enum {
    BLIND = sizeof(blind) / sizeof(blind[0]),
};

void
wp_report_die(const char *what)
{
    (void)fprintf(stderr, "scale_figures: %s\n", what);
    exit(2);
}

static void
note(struct wp_report *report, const struct wp_figure_result *results,
     unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        if (results[i].over_target_max > report->over_target_max) {
            report->over_target_max = results[i].over_target_max;
        }
    }
}

void
wp_report_run(struct wp_report *report, const struct wp_figure_world *world,
              const struct wp_figure_contender *contenders, unsigned n,
              struct wp_figure_result *results)
{
    if (!wp_figure_run(&report->settings, world, contenders, n, results)) {
        wp_report_die("no memory");
    }
    note(report, results, n);
}

struct wp_figure_best
wp_report_least(struct wp_report *report, const struct wp_figure_world *world,
                enum wp_baseline baseline, double hit, double start)
{
    struct wp_figure_best best;

    struct wp_figure_settings settings = report->settings;

    settings.seeds = settings.coarse ? 1 : settings.seeds;
    if (!wp_figure_least(&settings, world, baseline, hit, start, &best)) {
        wp_report_die("no memory");
    }
    if (best.found && settings.coarse) {
        wp_report_run(report, world, &best.contender, 1, &best.result);
    }
    note(report, &best.result, best.found ? 1 : 0);
    return best;
}

struct wp_figure_contender
wp_report_ours(double objective, bool announced)
{
    return (struct wp_figure_contender){
        .ours = true, .objective = objective, .announced = announced};
}

const char *
wp_report_verdict(const struct wp_figure_mean *hit, double goal)
{
    if (hit->mean >= goal) {
        return "reached";
    }
    return hit->mean + hit->half >= goal ? "within the interval" : "missed";
}

/* Paired by seed: each seed's ratio, then their mean. */
struct wp_figure_mean
wp_report_ratio(const struct wp_report *report,
                const struct wp_figure_result *a,
                const struct wp_figure_result *b)
{
    double ratios[WP_FIGURE_SEEDS_MAX];

    for (unsigned i = 0; i < report->settings.seeds; i++) {
        ratios[i] = a->idles[i] / fmax(b->idles[i], 1e-9);
    }
    return wp_figure_mean_of(ratios, report->settings.seeds);
}

/* Everything that was run in one world. */
struct wp_report_field {
    struct wp_figure_contender contenders[CONTENDERS_MAX];
    struct wp_figure_result results[CONTENDERS_MAX];
    unsigned n;
    unsigned n_ours; /* The first ones. */
    unsigned points; /* Of each baseline, behind them. */
    struct wp_figure_best at_99[BLIND];
};

/* In short: fixed sizes, and whom somebody asked for. */
static bool
is_shown(const struct wp_report *report, unsigned i)
{
    return !report->brief || i == 0 ||
           (report->baselines & 1U << blind[i]) != 0;
}

bool
wp_report_add_baseline(struct wp_report *report, const char *name)
{
    for (unsigned i = 0; i < BLIND; i++) {
        if (strcmp(name, wp_baseline_name(blind[i])) == 0) {
            report->baselines |= 1U << blind[i];
            return true;
        }
    }
    return false;
}

static void
sweep(struct wp_report *report, const struct wp_figure_world *world,
      struct wp_report_field *field)
{
    const bool coarse = report->settings.coarse;
    const double *at = coarse ? coarse_at : sweep_at;
    double start = 16;

    field->n = 0;
    field->points =
        coarse ? sizeof(coarse_at) / sizeof(coarse_at[0]) : SWEEP_POINTS;
    for (unsigned i = 0; i < OURS_POINTS; i++) {
        if (!report->brief || (ours_at[i] > 0.97)) {
            field->contenders[field->n++] = wp_report_ours(ours_at[i], false);
        }
    }
    field->n_ours = field->n;
    for (unsigned i = 0; i < BLIND; i++) {
        double p;

        field->at_99[i] = (struct wp_figure_best){.found = false};
        if (!is_shown(report, i)) {
            continue;
        }
        field->at_99[i] =
            wp_report_least(report, world, blind[i], 0.99,
                            wp_figure_knob_whole(blind[i]) ? start : 1);
        p = field->at_99[i].found ? field->at_99[i].p : 64;
        start = i == 0 ? p : start;
        for (unsigned k = 0; k < field->points && !report->brief; k++) {
            field->contenders[field->n++] =
                wp_figure_baseline_at(blind[i], p * at[k]);
        }
    }
    wp_report_run(report, world, field->contenders, field->n, field->results);
}

/* The first of the baselines that has both more hits and less idle than the i-th;
 * NULL: none. With margins that it must exceed. */
static const struct wp_figure_contender *
dominates(const struct wp_report_field *field, unsigned i, double hits,
          double idle)
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
show_field(struct wp_report *report, const struct wp_report_field *field)
{
    (void)printf("\n| objective | hits | idle | in the making | made a claim | "
                 "better at both |\n|---|---|---|---|---|---|\n");
    for (unsigned i = 0; i < field->n_ours; i++) {
        const struct wp_figure_result *it = &field->results[i];
        const struct wp_figure_contender *by = dominates(field, i, 0, 0);
        char name[64] = "none";

        if (by != NULL) {
            wp_figure_contender_name(by, name, sizeof(name));
        }
        (void)printf(
            "| %g %% | %.3f ± %.3f %% | %.1f ± %.1f | %.1f | %.2f | %s "
            "|\n",
            100 * field->contenders[i].objective, 100 * it->hit.mean,
            100 * it->hit.half, it->idle.mean, it->idle.half, it->warming.mean,
            it->made.mean, name);
        if (report->quick && dominates(field, i, 0.005, 0.1) != NULL) {
            (void)fprintf(stderr, "%g %%: %s is better at both\n",
                          100 * field->contenders[i].objective, name);
            report->broken = true;
        }
    }
    (void)printf("\n| at 99 %% hits | knob | its least | hits | idle | in the "
                 "making | made a claim |\n|---|---|---|---|---|---|---|\n");
    for (unsigned i = 0; i < BLIND; i++) {
        const struct wp_figure_best *it = &field->at_99[i];

        if (!is_shown(report, i)) {
            continue;
        }
        if (it->found) {
            (void)printf(
                "| %s | %s | %.4g | %.2f %% | %.1f ± %.1f | %.1f | %.2f |\n",
                wp_baseline_name(blind[i]), wp_figure_knob(blind[i]), it->p,
                100 * it->result.hit.mean, it->result.idle.mean,
                it->result.idle.half, it->result.warming.mean,
                it->result.made.mean);
        } else {
            (void)printf("| %s | %s | never | | | | |\n",
                         wp_baseline_name(blind[i]), wp_figure_knob(blind[i]));
        }
    }
}

/* Ours at 99 % against the best that gets there. */
static void
judge_99(const struct wp_report *report, const struct wp_report_field *field)
{
    const struct wp_figure_best *best = NULL;
    const struct wp_figure_result *mine = NULL;
    struct wp_figure_mean under;

    for (unsigned i = 0; i < BLIND; i++) {
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
                                  : "no baseline got there: reached");
        return;
    }
    under = wp_report_ratio(report, mine, &best->result);
    (void)printf(
        " is idle %.2f ± %.2f times as much as the best baseline there, "
        "%s (goal 0.8: %s).\n",
        under.mean, under.half, wp_baseline_name(best->contender.baseline),
        under.mean <= 0.8 ? "reached" : "missed");
}

/* A mark for who must find out that a burst has begun: who is told in that
 * moment, and has one size for then and one for the rest. */
static void
show_bound(struct wp_report *report, const struct wp_figure_world *world,
           const struct wp_report_field *field)
{
    struct wp_figure_best told;
    struct wp_figure_mean under;

    if (world->recipe->off_s <= 0 || !field->at_99[0].found) {
        return;
    }
    if (!wp_figure_least_told(&report->settings, world, 0.99, field->at_99[0].p,
                              &told) ||
        !told.found) {
        wp_report_die("no memory");
    }
    under = wp_report_ratio(report, &told.result, &field->at_99[0].result);
    (void)printf("Who is told at once when a burst begins and ends: sizes %.0f "
                 "and %.0f, idle %.1f, %.2f ± %.2f times the fixed size's.\n",
                 told.contender.a, told.contender.b, told.result.idle.mean,
                 under.mean, under.half);
}

/* Told one lead time (its 99.9th percentile) ahead, against who knows all. */
static struct wp_figure_result
judge_told(struct wp_report *report, const struct wp_figure_world *world)
{
    const struct wp_figure_contender contender = wp_report_ours(0.999, true);
    struct wp_figure_result result;
    struct wp_figure_best seer =
        wp_report_least(report, world, WP_BASELINE_CLAIRVOYANT, 0.999, 8);
    struct wp_figure_mean over;

    wp_report_run(report, world, &contender, 1, &result);
    if (!seer.found) {
        (void)printf("\nNobody reaches 99.9 %% here.\n");
        return result;
    }
    over = wp_report_ratio(report, &result, &seer.result);
    (void)printf("\nWith jobs announced: hits %.3f ± %.3f %% (99.9 %%: %s), "
                 "idle %.1f ± %.1f, %.2f ± %.2f times the clairvoyant's %.1f "
                 "(goal 2: %s).\n",
                 100 * result.hit.mean, 100 * result.hit.half,
                 wp_report_verdict(&result.hit, 0.999), result.idle.mean,
                 result.idle.half, over.mean, over.half, seer.result.idle.mean,
                 over.mean <= 2 ? "reached" : "missed");
    return result;
}

static void
write_plot(const struct wp_report *report, const struct wp_figure_world *world,
           const struct wp_report_field *field,
           const struct wp_figure_result *told)
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
            wp_baseline_name(blind[i]), WP_PLOT_LINE,
            &points[OURS_POINTS + i * field->points], field->points};
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
    (void)snprintf(
        reading, sizeof(reading),
        "Up and left is better. Each line is one way to size a pool, its "
        "knob turned from small to large. Traffic: %s. Sandboxes: "
        "%s; %u seeds.",
        world->recipe->sentence, world->regime->sentence,
        report->settings.seeds);
    (void)snprintf(path, sizeof(path), "%s/%s-%s.svg", report->plots,
                   world->recipe->name, world->regime->name);
    svg = wp_plot_svg(&plot, &len);
    file = fopen(path, "w");
    if (svg == NULL || file == NULL || fwrite(svg, 1, len, file) != len ||
        fclose(file) != 0) {
        wp_report_die("a plot could not be written");
    }
    free(svg);
}

/* One world with all its baselines, each with its knob turned. */
void
wp_report_field_show(struct wp_report *report,
                     const struct wp_figure_world *world,
                     struct wp_report_field *field)
{
    bool has_jobs = world->recipe->on_s > 0;
    struct wp_figure_result told;

    (void)printf("\n### %s, %s: %s; %s\n", world->recipe->name,
                 world->regime->name, world->recipe->sentence,
                 world->regime->sentence);
    sweep(report, world, field);
    show_field(report, field);
    judge_99(report, field);
    show_bound(report, world, field);
    if (has_jobs) {
        told = judge_told(report, world);
    }
    if (report->plots != NULL && !report->brief) {
        write_plot(report, world, field, has_jobs ? &told : NULL);
    }
    (void)fflush(stdout);
}

struct wp_report_field *
wp_report_field_create(void)
{
    return calloc(1, sizeof(struct wp_report_field));
}
