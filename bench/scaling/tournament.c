/* bench/scaling/tournament.c - the autoscaler on traffic that nobody tuned it for.
 *
 *     tournament [--worlds N] [--first N] [--seeds N] [--jobs N] [--world N]
 *                [--named]
 *
 * Each world is drawn from its number: how often claims come, how large batches
 * are and how long apart, how regular, and how long a sandbox takes. In each the
 * controller runs with objectives of 90, 99 and 99.9 %, beside the best fixed
 * size in hindsight. Measured is what comes after the third recurrence of what
 * recurs. --named takes the recipes with names instead.
 *
 * Prints a row for each world that misses: an objective beyond the interval, or
 * more than 1.3 times the best fixed size idle, or a stricter objective that
 * serves less beyond the paired interval. Then how many there were. */
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/scaling/figure_search.h"
#include "pool/base/clock.h"
#include "pool/base/rng.h"

#define DAY 86400.0
#define IDLE_RATIO_MAX 1.3

enum {
    CLAIMS_MAX = 50000,
    RECURRENCES = 14,
    LEARNED_AFTER = 3,
    OBJECTIVES = 3,
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
};

struct options {
    struct wp_figure_settings settings;
    unsigned worlds;
    unsigned first;
    const char *named; /* "": all. NULL: drawn ones. */
    bool alone;        /* Without the fixed sizes. */
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
        {"shorten", required_argument, NULL, 'l'},
        {NULL, 0, NULL, 0}};
    struct options out = {
        .settings = {.seeds = 4, .first_seed = 1, .jobs = 1, .shorten = 1},
        .worlds = 200};
    int option;

    while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
        switch (option) {
        case 'w':
            out.worlds = number(optarg, 1U << 20);
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
        case 'l':
            out.settings.shorten = number(optarg, 1000);
            break;
        default:
            die("see the head of bench/scaling/tournament.c");
        }
    }
    return out;
}

int
main(int argc, char **argv)
{
    struct options options = parse(argc, argv);
    unsigned missed = 0;
    unsigned idles = 0;
    unsigned less = 0;
    unsigned worlds = 0;

    (void)printf("| world | | 90 %%: hits | idle / fixed | 99 %%: hits | "
                 "idle / fixed | 99.9 %%: hits | idle / fixed |\n"
                 "|---|---|---|---|---|---|---|---|\n");
    for (unsigned i = 0; options.named != NULL || i < options.worlds; i++) {
        struct world world = draw_world(options.first + i);
        struct verdict verdict;
        char name[32];

        (void)snprintf(name, sizeof name, "%u", options.first + i);
        if (options.named != NULL) {
            const struct wp_trace_recipe *recipe = wp_trace_recipe_at(i);

            if (recipe == NULL) {
                break;
            }
            if (recipe->kind != WP_TRACE_RECURRING ||
                strstr(recipe->name, options.named) == NULL) {
                continue;
            }
            world.recipe = *recipe;
            world.regime = *wp_lead_regime_named("cloud-8s");
            (void)snprintf(name, sizeof name, "%s", recipe->name);
            world.text[0] = '\0';
        }
        run(&options, &world, &verdict);
        worlds++;
        for (unsigned k = 0; k < OBJECTIVES; k++) {
            missed += verdict.missed[k];
            idles += verdict.idles[k];
        }
        less += verdict.serves_less;
        show(name, &world, &verdict);
    }
    (void)printf("\n%u worlds, %u objectives each: %u missed beyond the "
                 "interval, %u idle more than %.1f times the best fixed size, "
                 "%u where a stricter one serves less.\n",
                 worlds, (unsigned)OBJECTIVES, missed, idles, IDLE_RATIO_MAX,
                 less);
    return 0;
}
