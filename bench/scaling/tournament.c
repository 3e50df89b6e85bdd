/* bench/scaling/tournament.c - the autoscaler on traffic that nobody tuned it for.
 *
 *     tournament [--worlds N] [--first N] [--seeds N] [--jobs N] [--named[=PART]]
 *                [--tuned] [--alone] [--gate] [--plots DIR]
 *
 * Each world is drawn from its number: how often claims come, how large batches
 * are and how long apart, how regular, and how long a sandbox takes. In each the
 * controller runs with objectives of 90, 99 and 99.9 %, beside the best fixed
 * size in hindsight. Measured is what comes after the third recurrence of what
 * recurs. --named takes the recipes with names instead.
 *
 * Prints a row for each world, marked where it misses: an objective beyond the
 * interval, or more than 1.3 times the best fixed size idle, or a stricter
 * objective that serves less beyond the paired interval. Then how many there
 * were. --gate: missed objectives and stricter ones that serve less are a
 * failure. --alone: without the fixed sizes. --plots: a chart of each world.
 *
 * --tuned: for 99.9 % also the best of a fixed size and of the three-line rule
 * (baseline_rule.c), each with its knob tuned on the first 40 % of the trace,
 * and judged, as the controller is, by the rest. */
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "allocator/advice/plot.h"
#include "bench/scaling/figure_search.h"
#include "pool/base/clock.h"
#include "pool/base/rng.h"

#define DAY 86400.0
#define IDLE_RATIO_MAX 1.3
/* Of a trace: where tuning begins and ends. */
#define TUNE_FROM 0.1
#define TUNE_UNTIL 0.4

enum {
    CLAIMS_MAX = 50000,
    RECURRENCES = 14,
    LEARNED_AFTER = 3,
    OBJECTIVES = 3,
    WORLDS_MAX = 4096,
};

static const double objectives[OBJECTIVES] = {0.90, 0.99, 0.999};

struct world {
    struct wp_trace_recipe recipe;
    struct wp_lead_regime regime;
    char text[160];
};

struct verdict {
    struct wp_figure_result ours[OBJECTIVES];
    struct wp_figure_best fixed[OBJECTIVES];
    bool missed[OBJECTIVES];
    bool idles[OBJECTIVES];
    bool serves_less; /* With a stricter objective. */
    double tuned;     /* Our idle by that of the best tuned baseline, 99.9 %; 0:
                       * none of them held. */
};

struct options {
    struct wp_figure_settings settings;
    unsigned worlds;
    unsigned first;
    const char *named; /* "": all. NULL: drawn ones. */
    const char *plots; /* Folder; NULL: none. */
    bool alone;        /* Without the fixed sizes. */
    bool tuned;
    bool gate;
};

/* Of all worlds. */
struct sums {
    unsigned worlds;
    unsigned missed;
    unsigned idles;
    unsigned less;
    double tuned[WORLDS_MAX]; /* Ratios, where there are any. */
    unsigned n_tuned;
};

static void
die(const char *why)
{
    (void)fprintf(stderr, "tournament: %s\n", why);
    exit(2);
}

/* Between low and high, each octave as likely. */
static double
draw(struct wp_rng *rng, double low, double high)
{
    return low * pow(high / low, wp_rng_unit(rng));
}

static void
draw_batches(struct wp_rng *rng, struct wp_trace_recipe *recipe)
{
    static const double jitters[] = {0, 0.2, 1};

    recipe->off_s = draw(rng, 60, 7 * DAY);
    recipe->on_s = fmin(draw(rng, 0.5, 120), recipe->off_s / 4);
    recipe->batch = (uint32_t)draw(rng, 2, 500);
    recipe->jitter = jitters[wp_rng_below(rng, 3)];
}

static void
draw_background(struct wp_rng *rng, struct wp_trace_recipe *recipe)
{
    recipe->rate_per_s = draw(rng, 0.01, 100);
    recipe->regular = wp_rng_below(rng, 4) == 0;
    recipe->ratio = wp_rng_below(rng, 4) == 0 ? draw(rng, 0.05, 200) : 1;
}

/* As long as 14 batches last, or a thousand lead times and some, within what
 * CLAIMS_MAX allows. */
static void
set_length(struct wp_trace_recipe *recipe, double lead_s)
{
    double rate = recipe->rate_per_s * (1 + recipe->ratio) / 2;
    double usual_s = fmax(3000 * lead_s, 3600);

    if (recipe->off_s > 0) {
        usual_s = fmax(usual_s, RECURRENCES * recipe->off_s);
        rate += recipe->batch / recipe->off_s;
    }
    recipe->length_s = fmin(usual_s, CLAIMS_MAX / rate);
    recipe->warm_up_s = recipe->length_s / 4;
    if (recipe->off_s > 0) {
        recipe->warm_up_s =
            fmin(fmax(recipe->warm_up_s, (LEARNED_AFTER + 1) * recipe->off_s),
                 recipe->length_s / 2);
    }
}

static void
describe(struct world *world)
{
    const struct wp_trace_recipe *recipe = &world->recipe;
    int n = snprintf(world->text, sizeof world->text, "lead %.3g s",
                     world->regime.lead.median_s);

    if (recipe->rate_per_s > 0) {
        n += snprintf(world->text + n, sizeof world->text - (size_t)n,
                      "; %.3g/s%s", recipe->rate_per_s,
                      recipe->regular ? " evenly" : "");
    }
    if (recipe->rate_per_s > 0 && fabs(recipe->ratio - 1) > 1e-9) {
        n += snprintf(world->text + n, sizeof world->text - (size_t)n,
                      " to %.3g/s", recipe->rate_per_s * recipe->ratio);
    }
    if (recipe->off_s > 0) {
        (void)snprintf(world->text + n, sizeof world->text - (size_t)n,
                       "; %u in %.3g s every %.3g s, jitter %g", recipe->batch,
                       recipe->on_s, recipe->off_s, recipe->jitter);
    }
}

static struct world
draw_world(unsigned number)
{
    struct world world = {.recipe = {.name = "drawn",
                                     .title = "Drawn",
                                     .sentence = "drawn",
                                     .kind = WP_TRACE_RECURRING,
                                     .ratio = 1}};
    struct wp_rng rng;
    unsigned kind;

    wp_rng_init(&rng, UINT64_C(0x746f75726e61) + number);
    world.regime = (struct wp_lead_regime){
        .name = "drawn",
        .lead = {.median_s = draw(&rng, 0.3, 45), .sigma = 0.3}};
    kind = (unsigned)wp_rng_below(&rng, 4);
    if (kind != 0) { /* 0: a background alone; 1: batches alone; else both. */
        draw_batches(&rng, &world.recipe);
    }
    if (kind != 1) {
        draw_background(&rng, &world.recipe);
    }
    if (kind > 1) { /* Or the batches are lost in it. */
        world.recipe.rate_per_s =
            fmin(world.recipe.rate_per_s, world.recipe.batch / 10.0);
    }
    set_length(&world.recipe, world.regime.lead.median_s);
    describe(&world);
    return world;
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
judge(const struct options *options, struct verdict *verdict)
{
    for (unsigned i = 0; i < OBJECTIVES; i++) {
        const struct wp_figure_result *ours = &verdict->ours[i];
        const struct wp_figure_best *fixed = &verdict->fixed[i];
        double beyond;

        verdict->missed[i] = ours->hit.mean + ours->hit.half < objectives[i];
        beyond =
            ours->idle.mean - IDLE_RATIO_MAX * fmax(fixed->result.idle.mean, 1);
        verdict->idles[i] = fixed->found && beyond > 0;
        if (i > 0) {
            struct wp_figure_mean gain =
                paired(ours, &verdict->ours[i - 1], options->settings.seeds);

            if (gain.mean + gain.half < -1e-9) {
                verdict->serves_less = true;
            }
        }
    }
}

/* Fixed sizes and the rule, tuned on one part and judged by the other. */
static double
contest(const struct options *options, const struct wp_figure_world *in)
{
    static const enum wp_baseline rivals[] = {WP_BASELINE_FIXED,
                                              WP_BASELINE_RULE};
    const double objective = objectives[OBJECTIVES - 1];
    struct wp_figure_settings tune = options->settings;
    struct wp_figure_settings judged = options->settings;
    struct wp_figure_contender ours = {.ours = true, .objective = objective};
    struct wp_figure_result mine;
    double best = INFINITY;

    tune.from = TUNE_FROM;
    tune.until = TUNE_UNTIL;
    judged.from = TUNE_UNTIL;
    judged.until = 1;
    if (!wp_figure_run(&judged, in, &ours, 1, &mine)) {
        die("no memory");
    }
    for (size_t i = 0; i < sizeof(rivals) / sizeof(rivals[0]); i++) {
        struct wp_figure_best tuned;
        struct wp_figure_result result;

        if (!wp_figure_least(&tune, in, rivals[i], objective, 16, &tuned)) {
            die("no memory");
        }
        if (tuned.found &&
            !wp_figure_run(&judged, in, &tuned.contender, 1, &result)) {
            die("no memory");
        }
        if (tuned.found && result.hit.mean + result.hit.half >= objective) {
            best = fmin(best, result.idle.mean);
        }
    }
    return isfinite(best) ? mine.idle.mean / fmax(best, 1e-3) : 0;
}

static void
run(const struct options *options, const struct world *world,
    struct verdict *verdict)
{
    const struct wp_figure_world in = {&world->recipe, &world->regime};
    struct wp_figure_contender contenders[OBJECTIVES];

    *verdict = (struct verdict){.serves_less = false};
    for (unsigned i = 0; i < OBJECTIVES; i++) {
        contenders[i] = (struct wp_figure_contender){
            .ours = true, .objective = objectives[i]};
    }
    if (!wp_figure_run(&options->settings, &in, contenders, OBJECTIVES,
                       verdict->ours)) {
        die("no memory");
    }
    for (unsigned i = 0; i < OBJECTIVES && !options->alone; i++) {
        if (!wp_figure_least(&options->settings, &in, WP_BASELINE_FIXED,
                             objectives[i], 16, &verdict->fixed[i])) {
            die("no memory");
        }
    }
    judge(options, verdict);
    if (options->tuned) {
        verdict->tuned = contest(options, &in);
    }
}

/* Ours and the best fixed sizes of a world as a chart. */
static void
plot(const struct options *options, const char *name, const struct world *world,
     const struct verdict *verdict)
{
    struct wp_plot_point points[2][OBJECTIVES];
    const struct wp_plot_series series[] = {
        {"warmpool", WP_PLOT_LINE, points[0], OBJECTIVES},
        {"best fixed size", WP_PLOT_LINE, points[1], OBJECTIVES}};
    char path[512];
    struct wp_plot chart = {
        .title = world->text[0] != '\0' ? world->text : name,
        .reading = "Objectives of 90, 99 and 99.9 %, and the fixed sizes that "
                   "just reach them in hindsight. Up and left is better.",
        .x_label = "idle: mean number of ready sandboxes",
        .y_label = "claims served at once",
        .x_scale = WP_PLOT_LOG,
        .y_scale = WP_PLOT_NINES,
        .series = series,
        .n_series = options->alone ? 1 : 2};
    size_t len;
    char *svg;
    FILE *file;

    for (unsigned i = 0; i < OBJECTIVES; i++) {
        points[0][i] = (struct wp_plot_point){verdict->ours[i].idle.mean,
                                              verdict->ours[i].hit.mean, NULL};
        points[1][i] = (struct wp_plot_point){
            verdict->fixed[i].found ? verdict->fixed[i].result.idle.mean : NAN,
            verdict->fixed[i].result.hit.mean, NULL};
    }
    (void)snprintf(path, sizeof path, "%s/world-%s.svg", options->plots, name);
    svg = wp_plot_svg(&chart, &len);
    file = fopen(path, "w");
    if (svg == NULL || file == NULL || fwrite(svg, 1, len, file) != len ||
        fclose(file) != 0) {
        die("a plot could not be written");
    }
    free(svg);
}

static void
show(const char *name, const struct world *world, const struct verdict *verdict)
{
    (void)printf("| %s | %s |", name, world->text);
    for (unsigned i = 0; i < OBJECTIVES; i++) {
        const struct wp_figure_result *ours = &verdict->ours[i];

        (void)printf(
            " %s%.3f ± %.3f%s | %s%.1f / %.1f%s |",
            verdict->missed[i] ? "**" : "", 100 * ours->hit.mean,
            100 * ours->hit.half, verdict->missed[i] ? "**" : "",
            verdict->idles[i] ? "**" : "", ours->idle.mean,
            verdict->fixed[i].found ? verdict->fixed[i].result.idle.mean : NAN,
            verdict->idles[i] ? "**" : "");
    }
    if (verdict->tuned > 0) {
        (void)printf(" %.2f |", verdict->tuned);
    }
    (void)printf("%s\n", verdict->serves_less ? " stricter serves less |" : "");
    (void)fflush(stdout);
}

static unsigned
number(const char *text, unsigned most)
{
    char *end;
    unsigned long n = strtoul(text, &end, 10);

    if (*end != '\0' || n > most) {
        die("a number was expected");
    }
    return (unsigned)n;
}

static struct options
parse(int argc, char **argv)
{
    static const struct option known[] = {
        {"worlds", required_argument, NULL, 'w'},
        {"first", required_argument, NULL, 'f'},
        {"seeds", required_argument, NULL, 's'},
        {"jobs", required_argument, NULL, 'j'},
        {"named", optional_argument, NULL, 'n'},
        {"alone", no_argument, NULL, 'a'},
        {"tuned", no_argument, NULL, 't'},
        {"gate", no_argument, NULL, 'g'},
        {"plots", required_argument, NULL, 'p'},
        {"shorten", required_argument, NULL, 'l'},
        {NULL, 0, NULL, 0}};
    struct options out = {
        .settings = {.seeds = 4, .first_seed = 1, .jobs = 1, .shorten = 1},
        .worlds = 200};
    int option;

    while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
        switch (option) {
        case 'w':
            out.worlds = number(optarg, WORLDS_MAX);
            break;
        case 'f':
            out.first = number(optarg, 1U << 30);
            break;
        case 's':
            out.settings.seeds = number(optarg, WP_FIGURE_SEEDS_MAX);
            break;
        case 'j':
            out.settings.jobs = number(optarg, 16);
            break;
        case 'n':
            out.named = optarg != NULL ? optarg : "";
            break;
        case 'a':
            out.alone = true;
            break;
        case 't':
            out.tuned = true;
            break;
        case 'g':
            out.gate = true;
            break;
        case 'p':
            out.plots = optarg;
            break;
        case 'l':
            out.settings.shorten = number(optarg, 1000);
            break;
        default:
            die("see the head of bench/scaling/tournament.c");
        }
    }
    return out;
}

/* The i-th world that the options ask for, and its name. False: there are no
 * more. */
static bool
world_at(const struct options *options, unsigned i, struct world *world,
         char name[32])
{
    unsigned drawn = options->first + i;

    if (options->named != NULL) {
        const struct wp_trace_recipe *recipe = wp_trace_recipe_at(i);

        if (recipe == NULL) {
            return false;
        }
        *world = (struct world){.recipe = *recipe,
                                .regime = *wp_lead_regime_named("cloud-8s")};
        (void)snprintf(name, 32, "%s", recipe->name);
        return true;
    }
    if (i >= options->worlds) {
        return false;
    }
    *world = draw_world(drawn);
    (void)snprintf(name, 32, "%u", drawn);
    return true;
}

/* Those with names: what recurs, or any whose name has the given part. */
static bool
is_asked_for(const struct options *options, const struct world *world)
{
    const struct wp_trace_recipe *recipe = &world->recipe;

    if (options->named == NULL) {
        return true;
    }
    return options->named[0] != '\0'
               ? strstr(recipe->name, options->named) != NULL
               : recipe->kind == WP_TRACE_RECURRING ||
                     recipe->kind == WP_TRACE_OFFICE;
}

static void
count(const struct verdict *verdict, struct sums *sums)
{
    sums->worlds++;
    for (unsigned k = 0; k < OBJECTIVES; k++) {
        sums->missed += verdict->missed[k];
        sums->idles += verdict->idles[k];
    }
    sums->less += verdict->serves_less;
    if (verdict->tuned > 0 && sums->n_tuned < WORLDS_MAX) {
        sums->tuned[sums->n_tuned++] = verdict->tuned;
    }
}

static int
compare(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return x < y ? -1 : x > y;
}

static void
sum_up(struct sums *sums)
{
    (void)printf("\n%u worlds, %u objectives each: %u missed beyond the "
                 "interval, %u idle more than %.1f times the best fixed size, "
                 "%u where a stricter one serves less.\n",
                 sums->worlds, (unsigned)OBJECTIVES, sums->missed, sums->idles,
                 IDLE_RATIO_MAX, sums->less);
    if (sums->n_tuned > 0) {
        qsort(sums->tuned, sums->n_tuned, sizeof(double), compare);
        (void)printf("Idle by that of the best baseline tuned out of sample, "
                     "99.9 %%, where one held: median %.2f of %u worlds.\n",
                     sums->tuned[sums->n_tuned / 2], sums->n_tuned);
    }
}

int
main(int argc, char **argv)
{
    static struct sums sums;
    struct options options = parse(argc, argv);
    struct world world;
    char name[32];

    (void)printf("| world | | 90 %%: hits | idle / fixed | 99 %%: hits | "
                 "idle / fixed | 99.9 %%: hits | idle / fixed |%s\n"
                 "|---|---|---|---|---|---|---|---|%s\n",
                 options.tuned ? " tuned |" : "", options.tuned ? "---|" : "");
    for (unsigned i = 0; world_at(&options, i, &world, name); i++) {
        struct verdict verdict;

        if (!is_asked_for(&options, &world)) {
            continue;
        }
        run(&options, &world, &verdict);
        count(&verdict, &sums);
        show(name, &world, &verdict);
        if (options.plots != NULL) {
            plot(&options, name, &world, &verdict);
        }
    }
    sum_up(&sums);
    return options.gate && sums.missed + sums.less > 0 ? 1 : 0;
}
