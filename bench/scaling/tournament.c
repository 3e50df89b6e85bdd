/* bench/scaling/tournament.c - the autoscaler on traffic that nobody tuned it for.
 *
 *     tournament [--worlds N] [--first N] [--long] [--named[=PART]]
 *                [--kept FILE] [--seeds N] [--jobs N] [--claims N]
 *                [--objective PER-CENT]... [--brief | --alone] [--gate]
 *                [--plots DIR]
 *
 * Each world is drawn from its number (world.c). In each the controller runs
 * with objectives of 99 and 99.9 %, or those given, from the laxest on; beside
 * it the best fixed size in hindsight, and for the last objective every
 * baseline with its knob tuned on the first 40 % of the trace and judged, as
 * the controller is, by the rest; and the advice of its claims. Measured is
 * what comes after the third recurrence of what recurs. --named takes the
 * recipes with names instead, --kept the worlds of a file. --brief: without
 * tuned baselines. --alone: without the fixed sizes and advice, too. --claims:
 * shorter worlds. --long: 200 worlds. --plots: a chart of each.
 *
 * Prints a row for each world and objective ("made": sandboxes for each claim),
 * and says in its last cell
 *
 *     missed        the objective, beyond the 95 % interval
 *     missed, said  the same, and the outlook had expected it beforehand
 *     idles         more than 1.3 times the best fixed size
 *     serves less   than with the laxer objective, beyond the paired interval
 *     starred       the advice stars a row below the objective stated
 *
 * then how many there were, how the baselines did, and the worst worlds.
 *
 * Exits with 1 when a stricter objective served less, when advice breaks one,
 * and when a world of a file is worse than its line allows; --gate: also when
 * an objective was missed and nobody had said so. */
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "allocator/advice/plot.h"
#include "bench/scaling/contest.h"

enum {
    CLAIMS_MAX = 50000,
    WORLDS_MAX = 4096,
    WORLDS_USUAL = 20,
    WORLDS_LONG = 200,
    WORST = 10,
};

struct options {
    struct wp_contest_settings contest;
    unsigned worlds;
    unsigned first;
    uint32_t claims_max;
    const char *named; /* "": those that recur. NULL: drawn ones. */
    const char *kept;
    const char *plots; /* Folder; NULL: none. */
    bool gate;
};

/* Numbers of which the median is wanted. */
struct list {
    double of[WORLDS_MAX];
    unsigned n;
};

struct bad {
    char name[32];
    double how; /* The higher, the worse. */
};

/* Of all worlds. */
struct sums {
    unsigned worlds;
    unsigned tries;
    unsigned missed;
    unsigned said;
    unsigned idles;
    unsigned less;
    unsigned starred;
    unsigned broken; /* Worse than its line allows. */
    struct list by_best;
    struct list by_baseline[WP_BASELINE_COUNT];
    struct bad worst[WORST];
};

static void
die(const char *why)
{
    (void)fprintf(stderr, "tournament: %s\n", why);
    exit(2);
}

/* --- One world --- */

/* Ours and the best fixed sizes of a world as a chart. */
static void
plot(const struct options *options, const struct wp_world *world,
     const struct wp_contest *contest)
{
    unsigned n = options->contest.n_objectives;
    struct wp_plot_point points[2][WP_CONTEST_OBJECTIVES_MAX];
    const struct wp_plot_series series[] = {
        {"warmpool", WP_PLOT_LINE, points[0], n},
        {"best fixed size", WP_PLOT_LINE, points[1], n}};
    char path[512];
    struct wp_plot chart = {
        .title = world->text[0] != '\0' ? world->text : world->name,
        .reading = "Each objective, and the fixed size that just reaches it in "
                   "hindsight. Up and left is better.",
        .x_label = "idle: mean number of ready sandboxes",
        .y_label = "claims served at once",
        .x_scale = WP_PLOT_LOG,
        .y_scale = WP_PLOT_NINES,
        .series = series,
        .n_series = options->contest.alone ? 1 : 2};
    size_t len;
    char *svg;
    FILE *file;

    for (unsigned i = 0; i < n; i++) {
        const struct wp_contest_try *try = &contest->tries[i];

        points[0][i] = (struct wp_plot_point){try->ours.idle.mean,
                                              try->ours.hit.mean, NULL};
        points[1][i] = (struct wp_plot_point){
            try->fixed.found ? try->fixed.result.idle.mean : NAN,
            try->fixed.result.hit.mean, NULL};
    }
    (void)snprintf(path, sizeof path, "%s/world-%s.svg", options->plots,
                   world->name);
    svg = wp_plot_svg(&chart, &len);
    file = fopen(path, "w");
    if (svg == NULL || file == NULL || fwrite(svg, 1, len, file) != len ||
        fclose(file) != 0) {
        die("a plot could not be written");
    }
    free(svg);
}

static void
show(const struct options *options, const struct wp_world *world,
     const struct wp_contest *contest)
{
    unsigned n = options->contest.n_objectives;

    for (unsigned i = 0; i < n; i++) {
        const struct wp_contest_try *try = &contest->tries[i];
        const struct wp_figure_result *ours = &try->ours;
        bool last = i + 1 == n;

        (void)printf(
            "| %s | %s | %g %% | %.3f ± %.3f | %.3f | %.2f ± %.2f | %.2f | ",
            world->name, world->text, 100 * options->contest.objectives[i],
            100 * ours->hit.mean, 100 * ours->hit.half,
            100 * ours->outlook.mean, ours->idle.mean, ours->idle.half,
            ours->made.mean);
        if (try->fixed.found) {
            (void)printf("%.2f", try->fixed.result.idle.mean);
        }
        (void)printf(" | ");
        if (last && contest->by_best > 0) {
            (void)printf("%.2f", contest->by_best);
        }
        (void)printf(" |%s%s%s%s%s |\n", try->missed ? " missed" : "",
                     try->missed && try->said ? ", said" : "",
                     try->idles ? " idles" : "",
                     try->serves_less ? " serves less" : "",
                     last && contest->starred ? " starred" : "");
    }
    (void)fflush(stdout);
}

/* --- All of them --- */

static void
add(struct list *list, double value)
{
    if (list->n < WORLDS_MAX) {
        list->of[list->n++] = value;
    }
}

static int
compare(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return x < y ? -1 : x > y;
}

/* n is not 0. */
static double
median(struct list *list)
{
    qsort(list->of, list->n, sizeof list->of[0], compare);
    return list->of[list->n / 2];
}

/* Puts the world where it belongs among the worst. */
static void
rank(struct sums *sums, const struct wp_world *world, double how)
{
    unsigned at = WORST;

    while (at > 0 && how > sums->worst[at - 1].how) {
        at--;
    }
    for (unsigned i = WORST - 1; i > at; i--) {
        sums->worst[i] = sums->worst[i - 1];
    }
    if (at < WORST) {
        sums->worst[at].how = how;
        memcpy(sums->worst[at].name, world->name, sizeof world->name);
    }
}

static void
count(const struct options *options, const struct wp_world *world,
      const struct wp_contest *contest, struct sums *sums)
{
    double how = 0;

    for (unsigned i = 0; i < options->contest.n_objectives; i++) {
        const struct wp_contest_try *try = &contest->tries[i];
        double objective = options->contest.objectives[i];

        sums->tries++;
        sums->missed += try->missed;
        sums->said += try->missed && try->said;
        sums->idles += try->idles;
        sums->less += try->serves_less;
        if (try->missed) {
            how += (objective - try->ours.hit.mean) / (1 - objective);
        }
        if (try->idles) {
            how +=
                log(try->ours.idle.mean / fmax(try->fixed.result.idle.mean, 1));
        }
    }
    sums->worlds++;
    sums->starred += contest->starred;
    if (contest->by_best > 0) {
        add(&sums->by_best, contest->by_best);
    }
    for (unsigned i = 0; i < WP_BASELINE_COUNT; i++) {
        if (contest->by_baseline[i] > 0) {
            add(&sums->by_baseline[i], contest->by_baseline[i]);
        }
    }
    rank(sums, world, how);
}

static void
show_baselines(const struct options *options, struct sums *sums)
{
    unsigned last = options->contest.n_objectives - 1;

    (void)printf("\nWith the knob tuned on the first 40 %%, %g %%; ratios are "
                 "medians over the worlds where it held:\n\n"
                 "| baseline | held in | our idle by its |\n|---|---|---|\n",
                 100 * options->contest.objectives[last]);
    for (unsigned i = 0; i < WP_BASELINE_COUNT; i++) {
        struct list *list = &sums->by_baseline[i];

        if (wp_contest_is_fair((enum wp_baseline)i)) {
            (void)printf("| %s | %u | ", wp_baseline_name((enum wp_baseline)i),
                         list->n);
            if (list->n > 0) {
                (void)printf("%.2f", median(list));
            }
            (void)printf(" |\n");
        }
    }
    if (sums->by_best.n > 0) {
        (void)printf("| the best of those that held | %u | %.2f |\n",
                     sums->by_best.n, median(&sums->by_best));
    }
}

static void
sum_up(const struct options *options, struct sums *sums)
{
    (void)printf("\n%u worlds, %u objectives in all: %u missed beyond the "
                 "interval, %u of them as the outlook had said; %u idle more "
                 "than %.1f times the best fixed size; %u stricter ones serve "
                 "less; %u stars below the objective.\n",
                 sums->worlds, sums->tries, sums->missed, sums->said,
                 sums->idles, WP_CONTEST_IDLE_MAX, sums->less, sums->starred);
    if (options->contest.tuned && sums->worlds > 0) {
        show_baselines(options, sums);
    }
    if (sums->worst[0].how > 0) {
        (void)printf("\nThe worst:");
        for (unsigned i = 0; i < WORST && sums->worst[i].how > 0; i++) {
            (void)printf(" %s", sums->worst[i].name);
        }
        (void)printf("\n");
    }
}

static void
run(const struct options *options, const struct wp_world *world,
    struct sums *sums, struct wp_contest *contest)
{
    if (!wp_contest_run(&options->contest, world, contest)) {
        die("no memory");
    }
    count(options, world, contest, sums);
    show(options, world, contest);
    if (options->plots != NULL) {
        plot(options, world, contest);
    }
}

static void
run_drawn(const struct options *options, struct sums *sums)
{
    struct wp_contest contest;

    for (unsigned i = 0; i < options->worlds; i++) {
        struct wp_world world =
            wp_world_draw(options->first + i, options->claims_max);

        run(options, &world, sums, &contest);
    }
}

/* Those with names: what recurs, or any whose name has the given part. */
static bool
is_asked_for(const struct options *options,
             const struct wp_trace_recipe *recipe)
{
    return options->named[0] != '\0'
               ? strstr(recipe->name, options->named) != NULL
               : recipe->kind == WP_TRACE_RECURRING ||
                     recipe->kind == WP_TRACE_OFFICE;
}

static void
run_named(const struct options *options, struct sums *sums)
{
    const struct wp_trace_recipe *recipe;
    struct wp_contest contest;

    for (unsigned i = 0; (recipe = wp_trace_recipe_at(i)) != NULL; i++) {
        if (is_asked_for(options, recipe)) {
            struct wp_world world = wp_world_named(recipe);

            run(options, &world, sums, &contest);
        }
    }
}

/* Holds a world against its line: the least hits and the most idle. */
static void
hold(const struct options *options, const struct wp_world *world,
     const struct wp_contest *contest, const double *bounds, struct sums *sums)
{
    for (unsigned i = 0; i < options->contest.n_objectives; i++) {
        const struct wp_figure_result *ours = &contest->tries[i].ours;

        if (100 * ours->hit.mean < bounds[2 * i] ||
            ours->idle.mean > bounds[2 * i + 1]) {
            (void)printf("world %s, objective %g %%: at least %g %% of hits "
                         "with at most %g idle were expected\n",
                         world->name, 100 * options->contest.objectives[i],
                         bounds[2 * i], bounds[2 * i + 1]);
            sums->broken++;
        }
    }
}

/* Lines of a number and, for either objective, hits in per cent and idle. */
static void
run_kept(const struct options *options, struct sums *sums)
{
    FILE *file = fopen(options->kept, "r");
    struct wp_contest contest;
    char line[256];

    if (file == NULL) {
        die("the file of worlds cannot be read");
    }
    while (fgets(line, sizeof line, file) != NULL) {
        double bounds[4];
        unsigned number;
        struct wp_world world;

        if (line[0] == '#') {
            continue;
        }
        if (sscanf(line, "%u %lf %lf %lf %lf", &number, &bounds[0], &bounds[1],
                   &bounds[2], &bounds[3]) != 5) {
            die("a world's number, and hits and idle twice, were expected");
        }
        world = wp_world_draw(number, options->claims_max);
        run(options, &world, sums, &contest);
        hold(options, &world, &contest, bounds, sums);
    }
    (void)fclose(file);
}

/* --- What is asked for --- */

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

static void
add_objective(struct wp_contest_settings *contest, const char *text)
{
    char *end;
    double share = strtod(text, &end) / 100;

    if (*end != '\0' || !(share > 0 && share < 1) ||
        contest->n_objectives == WP_CONTEST_OBJECTIVES_MAX) {
        die("at most four objectives between 0 and 100 were expected");
    }
    contest->objectives[contest->n_objectives++] = share;
}

/* What was not given, by what was. */
static void
complete(struct options *options)
{
    struct wp_contest_settings *contest = &options->contest;

    if (contest->n_objectives == 0) {
        contest->n_objectives = 2;
        contest->objectives[0] = 0.99;
        contest->objectives[1] = 0.999;
    }
    if (options->kept != NULL && contest->n_objectives != 2) {
        die("the worlds of a file have two objectives");
    }
}

/* False: there is no such option. */
static bool
take(struct options *out, int option, const char *value)
{
    struct wp_contest_settings *contest = &out->contest;

    switch (option) {
    case 'w':
        out->worlds = number(value, WORLDS_MAX);
        break;
    case 'f':
        out->first = number(value, 1U << 30);
        break;
    case 'L':
        out->worlds = WORLDS_LONG;
        break;
    case 's':
        contest->figure.seeds = number(value, WP_FIGURE_SEEDS_MAX);
        break;
    case 'j':
        contest->figure.jobs = number(value, 16);
        break;
    case 'c':
        out->claims_max = number(value, 1U << 30);
        break;
    case 'n':
        out->named = value != NULL ? value : "";
        break;
    case 'k':
        out->kept = value;
        break;
    case 'o':
        add_objective(contest, value);
        break;
    case 'a':
        contest->alone = true;
        contest->tuned = false;
        contest->advice = false;
        break;
    case 'b':
        contest->tuned = false;
        break;
    case 'g':
        out->gate = true;
        break;
    case 'p':
        out->plots = value;
        break;
    default:
        return false;
    }
    return true;
}

static struct options
parse(int argc, char **argv)
{
    static const struct option known[] = {
        {"worlds", required_argument, NULL, 'w'},
        {"first", required_argument, NULL, 'f'},
        {"long", no_argument, NULL, 'L'},
        {"seeds", required_argument, NULL, 's'},
        {"jobs", required_argument, NULL, 'j'},
        {"claims", required_argument, NULL, 'c'},
        {"named", optional_argument, NULL, 'n'},
        {"kept", required_argument, NULL, 'k'},
        {"objective", required_argument, NULL, 'o'},
        {"brief", no_argument, NULL, 'b'},
        {"alone", no_argument, NULL, 'a'},
        {"gate", no_argument, NULL, 'g'},
        {"plots", required_argument, NULL, 'p'},
        {NULL, 0, NULL, 0}};
    struct options out = {.contest = {.figure = {.seeds = 4,
                                                 .first_seed = 1,
                                                 .jobs = 1,
                                                 .shorten = 1},
                                      .tuned = true,
                                      .advice = true},
                          .worlds = WORLDS_USUAL,
                          .claims_max = CLAIMS_MAX};
    int option;

    while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
        if (!take(&out, option, optarg)) {
            die("see the head of bench/scaling/tournament.c");
        }
    }
    complete(&out);
    return out;
}

int
main(int argc, char **argv)
{
    static struct sums sums;
    struct options options = parse(argc, argv);
    unsigned unsaid;

    (void)printf("| world | | objective | hits %% | outlook %% | idle | made | "
                 "best fixed | by the best tuned | |\n"
                 "|---|---|---|---|---|---|---|---|---|---|\n");
    if (options.kept != NULL) {
        run_kept(&options, &sums);
    } else if (options.named != NULL) {
        run_named(&options, &sums);
    } else {
        run_drawn(&options, &sums);
    }
    sum_up(&options, &sums);
    unsaid = options.gate ? sums.missed - sums.said : 0;
    return unsaid + sums.less + sums.starred + sums.broken > 0 ? 1 : 0;
}
