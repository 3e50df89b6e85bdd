/* bench/scaling/scale_figures.c - the autoscaler's figures: against theory, against how
 * others size their pools, and against who knows the future.
 *
 *     scale_figures [--quick] [--jobs N] [--seeds N] [--first-seed N]
 *                   [--shorten N] [--only NAME] [--brief] [--baseline NAME]...
 *                   [--coarse] [--matrix] [--plots DIR]
 *                   [--azure-2019 FILE | --azure-2021 FILE] [--app HASH]
 *
 * --shorten divides the lengths of traces, --only takes one kind of traffic,
 * --brief leaves all baselines out but fixed sizes, and the sweeps; --baseline does
 * so, too, but for this one (keda-claim-rate, agones-buffer...); --coarse looks
 * for the baselines' settings on one seed and to a tenth, and shows fewer of them:
 * a chart of days of traffic in minutes; --matrix adds a table of every kind
 * with every lead time.
 *
 * With a file of the public traces of Azure Functions only that is shown, of
 * all apps or of one.
 *
 * Prints tables in Markdown; --plots writes a chart for each kind of traffic.
 * Exits with 1 when something happened that never may: more than the target, a
 * breaker that does not hold, and with --quick a baseline that is better at
 * both. */
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/scaling/figure_cost.h"
#include "bench/scaling/figure_report.h"
#include "pool/base/clock.h"
#include "pool/refill/refill.h"
#include "pool/scale/scaler.h"

static bool
is_wanted(const struct wp_report *report, const char *name)
{
    return report->only == NULL || strcmp(report->only, name) == 0;
}

static struct wp_figure_world
world_of(const char *recipe, const char *regime)
{
    struct wp_figure_world world = {wp_trace_recipe_named(recipe),
                                    wp_lead_regime_named(regime)};

    if (world.recipe == NULL || world.regime == NULL) {
        wp_report_die("unknown world");
    }
    (void)fprintf(stderr, "%s, %s\n", recipe, regime);
    return world;
}

/* Stationary: against the least constant stock of theory, told the rate. */
static void
show_poisson(struct wp_report *report)
{
    if (!is_wanted(report, "poisson")) {
        return;
    }
    (void)printf("\n### Steady traffic (goal: 99.9 %% of claims hit, idle at "
                 "most 1.2 times the optimum of theory)\n\n"
                 "| lead times | hits | idle | optimum's hits | its idle | "
                 "ratio | verdict |\n|---|---|---|---|---|---|---|\n");
    for (unsigned i = 0; wp_lead_regime_at(i) != NULL; i++) {
        const char *name = wp_lead_regime_at(i)->name;
        const struct wp_figure_contender contenders[2] = {
            wp_report_ours(0.999, false),
            {.baseline = WP_BASELINE_ERLANG_TRUE, .a = 999}};
        struct wp_figure_result results[2];
        struct wp_figure_world world;
        struct wp_figure_mean over;

        if (report->quick && strcmp(name, "gvisor") != 0 &&
            strcmp(name, "cloud-8s") != 0) {
            continue;
        }
        world = world_of("poisson", name);
        wp_report_run(report, &world, contenders, 2, results);
        over = wp_report_ratio(report, &results[0], &results[1]);
        (void)printf("| %s | %.3f ± %.3f %% | %.1f ± %.1f | %.3f %% | %.1f | "
                     "%.2f ± %.2f | hits %s, idle %s |\n",
                     name, 100 * results[0].hit.mean, 100 * results[0].hit.half,
                     results[0].idle.mean, results[0].idle.half,
                     100 * results[1].hit.mean, results[1].idle.mean, over.mean,
                     over.half, wp_report_verdict(&results[0].hit, 0.999),
                     over.mean <= 1.2 ? "reached" : "missed");
        (void)fflush(stdout);
    }
}

static void
show_diurnal(struct wp_report *report)
{
    static const char *const regimes[] = {"cloud-8s", "gvisor", "node-45s"};

    if (!is_wanted(report, "diurnal") || report->quick ||
        report->settings.coarse) {
        return;
    }
    (void)printf("\n### A daily wave (goal: 99.9 %%, idle at most 0.7 times "
                 "that of the best fixed size that gets there)\n\n"
                 "| lead times | hits | idle | best fixed size | its hits | "
                 "its idle | ratio | verdict |\n"
                 "|---|---|---|---|---|---|---|---|\n");
    for (unsigned i = 0; i < sizeof(regimes) / sizeof(regimes[0]); i++) {
        struct wp_figure_world world = world_of("diurnal", regimes[i]);
        const struct wp_figure_contender contender =
            wp_report_ours(0.999, false);
        struct wp_figure_result result;
        struct wp_figure_best fixed;
        struct wp_figure_mean under;

        wp_report_run(report, &world, &contender, 1, &result);
        fixed = wp_report_least(report, &world, WP_BASELINE_FIXED, 0.999, 16);
        under = wp_report_ratio(report, &result, &fixed.result);
        (void)printf("| %s | %.3f ± %.3f %% | %.1f ± %.1f | %.0f | %.3f %% | "
                     "%.1f | %.2f ± %.2f | hits %s, idle %s |\n",
                     regimes[i], 100 * result.hit.mean, 100 * result.hit.half,
                     result.idle.mean, result.idle.half, fixed.p,
                     100 * fixed.result.hit.mean, fixed.result.idle.mean,
                     under.mean, under.half,
                     wp_report_verdict(&result.hit, 0.999),
                     under.mean <= 0.7 ? "reached" : "missed");
        (void)fflush(stdout);
    }
}

/* Traffic that comes in bursts, and the rest. */
static void
show_fields(struct wp_report *report)
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
    struct wp_report_field *field = wp_report_field_create();

    if (field == NULL) {
        wp_report_die("no memory");
    }
    for (unsigned i = 0; i < sizeof(worlds) / sizeof(worlds[0]); i++) {
        if (is_wanted(report, worlds[i].recipe) &&
            (!report->quick || worlds[i].quick)) {
            struct wp_figure_world world =
                world_of(worlds[i].recipe, worlds[i].regime);

            wp_report_field_show(report, &world, field);
        }
    }
    free(field);
}

/* A public trace, with two lead times. */
static void
show_read(struct wp_report *report)
{
    static const char *const regimes[] = {"gvisor", "cloud-8s"};
    struct wp_report_field *field = wp_report_field_create();
    struct wp_trace trace;
    struct wp_err err;

    if (field == NULL) {
        wp_report_die("no memory");
    }
    if (wp_azure_load(report->read.path, report->read.format,
                      wp_str_from(report->read.app), 1, &trace,
                      &err) != WP_OK) {
        wp_report_die(err.msg);
    }
    (void)printf("\n%llu calls in %.1f hours; the first quarter is warm-up.\n",
                 (unsigned long long)trace.n,
                 (double)trace.end_ns / (double)WP_NS_PER_S / 3600);
    wp_trace_fini(&trace);
    for (unsigned i = 0; i < sizeof(regimes) / sizeof(regimes[0]); i++) {
        struct wp_figure_world world = {&report->read,
                                        wp_lead_regime_named(regimes[i])};

        wp_report_field_show(report, &world, field);
    }
    free(field);
}

/* Every kind of traffic with every lead time: ours against the least fixed
 * size that hits as often. */
static void
show_matrix(struct wp_report *report)
{
    if (!report->matrix) {
        return;
    }
    (void)printf("\n### Everything (objective 99.9 %%; the fixed size is the "
                 "least with at least the hits that warmpool had)\n\n"
                 "| traffic | lead times | hits | idle | fixed size | its "
                 "idle | wait p99.9 | made for nothing |\n"
                 "|---|---|---|---|---|---|---|---|\n");
    for (unsigned i = 0; wp_trace_recipe_at(i) != NULL; i++) {
        const char *recipe = wp_trace_recipe_at(i)->name;

        if (!is_wanted(report, recipe)) {
            continue;
        }
        for (unsigned k = 0; wp_lead_regime_at(k) != NULL; k++) {
            struct wp_figure_world world =
                world_of(recipe, wp_lead_regime_at(k)->name);
            const struct wp_figure_contender contender =
                wp_report_ours(0.999, false);
            struct wp_figure_result it;
            struct wp_figure_best fixed;

            wp_report_run(report, &world, &contender, 1, &it);
            fixed = wp_report_least(report, &world, WP_BASELINE_FIXED,
                                    it.hit.mean, fmax(1, it.idle.mean));
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
show_never_ready(struct wp_report *report)
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
        wp_report_die("no memory");
    }
    config.source = wp_trace_source(&trace, &cursor, false, 0);
    if (wp_replay_run(&config, &policy, &result, &err) != WP_OK) {
        wp_report_die(err.msg);
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
        report->broken = true;
    }
}

static void
show_cost(const struct wp_report *report)
{
    static const double rates[] = {1, 100, 10000};
    uint32_t pools = report->quick ? 1000 : 10000;

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
        wp_report_die("a number from 1 on was expected");
    }
    return (unsigned)n;
}

static void
parse(int argc, char **argv, struct wp_report *report)
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
        {"baseline", required_argument, NULL, 'r'},
        {"coarse", no_argument, NULL, 'c'},
        {"plots", required_argument, NULL, 'p'},
        {"azure-2019", required_argument, NULL, '9'},
        {"azure-2021", required_argument, NULL, '1'},
        {"app", required_argument, NULL, 'a'},
        {NULL, 0, NULL, 0}};
    int option;

    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (option) {
        case 'q':
            report->quick = true;
            report->settings.seeds = 3;
            report->settings.shorten = 4;
            break;
        case 'j':
            report->settings.jobs = number(optarg, 16);
            break;
        case 's':
            report->settings.seeds = number(optarg, WP_FIGURE_SEEDS_MAX);
            break;
        case 'f':
            report->settings.first_seed = number(optarg, 1U << 30);
            break;
        case 'l':
            report->settings.shorten = number(optarg, 1000);
            break;
        case 'b':
            report->brief = true;
            break;
        case 'r':
            report->brief = true;
            if (!wp_report_add_baseline(report, optarg)) {
                wp_report_die("no such baseline; see the tables");
            }
            break;
        case 'c':
            report->settings.coarse = true;
            break;
        case 'm':
            report->matrix = true;
            break;
        case 'o':
            report->only = optarg;
            break;
        case 'p':
            report->plots = optarg;
            break;
        case '9':
        case '1':
            report->read.path = optarg;
            report->read.format = option == '9' ? WP_AZURE_2019 : WP_AZURE_2021;
            break;
        case 'a':
            report->read.app = optarg;
            break;
        default:
            wp_report_die("see the head of bench/scaling/scale_figures.c");
        }
    }
}

int
main(int argc, char **argv)
{
    struct wp_report report = {
        .settings = {.seeds = 10, .first_seed = 1, .jobs = 1, .shorten = 1},
        .read = {.name = "azure",
                 .title = "Azure Functions",
                 .sentence = "calls of Azure Functions",
                 .kind = WP_TRACE_READ,
                 .length_s = 4,
                 .warm_up_s = 1}};

    parse(argc, argv, &report);
    (void)printf("%u seeds from %llu, traces shortened %g times; ± is half of "
                 "a 95 %% interval over seeds.\n",
                 report.settings.seeds,
                 (unsigned long long)report.settings.first_seed,
                 report.settings.shorten);
    if (report.read.path != NULL) {
        show_read(&report);
    } else {
        show_poisson(&report);
        show_diurnal(&report);
        show_fields(&report);
        show_matrix(&report);
        show_never_ready(&report);
        show_cost(&report);
    }
    (void)printf("\nMost that was ever above the target right after an order, "
                 "over all runs: %u.\n",
                 report.over_target_max);
    return report.broken || report.over_target_max > 0 ? 1 : 0;
}
