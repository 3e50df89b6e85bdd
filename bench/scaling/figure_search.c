#include "bench/scaling/figure_search.h"

#include <math.h>

struct knob {
    const char *text;
    bool whole; /* Sandboxes: whole numbers only. */
    double max;
};

static const struct knob knobs[WP_BASELINE_COUNT] = {
    [WP_BASELINE_FIXED] = {"replicas", true, 1 << 13},
    [WP_BASELINE_HPA_CLAIM_RATE] = {"maxReplicas, target 0.5/s", true, 1 << 13},
    [WP_BASELINE_KEDA_CLAIM_RATE] = {"seconds of demand (1/threshold)", false,
                                     1 << 12},
    [WP_BASELINE_AGONES_BUFFER] = {"bufferSize", true, 1 << 13},
    [WP_BASELINE_AGONES_PERCENT] = {"ready for each allocated", false, 1 << 12},
    [WP_BASELINE_OPENSANDBOX] = {"bufferMin, bufferMax half more", true,
                                 1 << 13},
    [WP_BASELINE_WATERMARK] = {"available", true, 1 << 13},
    [WP_BASELINE_IN_USE_PLUS] = {"targetSpare", true, 1 << 13},
    [WP_BASELINE_OPENWHISK] = {"increment for each cold start", false, 1 << 12},
    [WP_BASELINE_KNATIVE_KPA] = {"headroom (1/utilisation - 1)", false,
                                 1 << 12},
    [WP_BASELINE_RULE] = {"sandboxes beyond the last lead time's claims", true,
                          1 << 13},
    [WP_BASELINE_ERLANG_TRUE] = {"odds of a hit", false, 1 << 13},
    [WP_BASELINE_CLAIRVOYANT] = {"seconds ahead", false, 1 << 12},
};

const char *
wp_figure_knob(enum wp_baseline baseline)
{
    return knobs[baseline].text;
}

bool
wp_figure_knob_whole(enum wp_baseline baseline)
{
    return knobs[baseline].whole;
}

struct wp_figure_contender
wp_figure_baseline_at(enum wp_baseline baseline, double p)
{
    /* None has more than any could use, however its knob multiplies. */
    struct wp_figure_contender out = {
        .baseline = baseline, .a = p, .max = 1 << 13};

    switch (baseline) {
    case WP_BASELINE_HPA_CLAIM_RATE:
        out.a = 0.5;
        out.min = p < 10 ? (uint32_t)p : 10;
        out.max = (uint32_t)p;
        break;
    case WP_BASELINE_KEDA_CLAIM_RATE:
        out.a = 1 / p;
        break;
    case WP_BASELINE_AGONES_PERCENT:
        out.a = 100 * p / (1 + p);
        break;
    case WP_BASELINE_OPENSANDBOX:
        out.b = ceil(1.5 * p);
        break;
    case WP_BASELINE_OPENWHISK:
        out.b = 120;
        break;
    case WP_BASELINE_KNATIVE_KPA:
        out.a = 100 / (1 + p);
        break;
    case WP_BASELINE_RULE:
        out.b = 60;
        break;
    case WP_BASELINE_ERLANG_TRUE:
        out.a = 1000 * p / (1 + p);
        break;
    case WP_BASELINE_FIXED:
    case WP_BASELINE_AGONES_BUFFER:
    case WP_BASELINE_WATERMARK:
    case WP_BASELINE_IN_USE_PLUS:
    case WP_BASELINE_CLAIRVOYANT:
    case WP_BASELINE_COUNT:
        break;
    }
    return out;
}

/* What is searched over: a baseline's knob, or the calm size of a pair. */
struct search {
    const struct wp_figure_settings *settings;
    const struct wp_figure_world *world;
    double hit;
    enum wp_baseline baseline;
    double busy; /* Times the calm size; 0: the baseline. */
    bool whole;
    double max;
};

/* Tries p; keeps it when it reaches the hits. */
static bool
try(const struct search *search, double p, struct wp_figure_best *best,
    bool *reached)
{
    struct wp_figure_contender contender =
        search->busy > 0
            ? (struct wp_figure_contender){.state_told = true,
                                           .a = p,
                                           .b = round(p * search->busy)}
            : wp_figure_baseline_at(search->baseline, p);
    struct wp_figure_result result;

    if (!wp_figure_run(search->settings, search->world, &contender, 1,
                       &result)) {
        return false;
    }
    *reached = result.hit.mean >= search->hit;
    if (*reached) {
        *best = (struct wp_figure_best){true, p, contender, result};
    }
    return true;
}

/* Closer than that nobody looks. */
static double
least_step(const struct search *search, double p)
{
    double share = search->settings->coarse ? 0.1 : 0.01;

    return search->whole ? fmax(1, search->settings->coarse ? share * p : 1)
                         : share * p;
}

static bool
least(const struct search *search, double start, struct wp_figure_best *out)
{
    double p = search->whole ? fmax(1, round(start)) : start;
    double below = 0; /* Known not to reach. */
    bool reached = false;

    *out = (struct wp_figure_best){.found = false};
    for (;;) {
        if (!try(search, p, out, &reached)) {
            return false;
        }
        if (reached) {
            break;
        }
        below = p;
        if (p >= search->max) {
            return true;
        }
        p = fmin(2 * p, search->max);
    }
    while (below == 0 && reached && p > (search->whole ? 1 : start / 1024)) {
        p = search->whole ? floor(p / 2) : p / 2;
        if (!try(search, p, out, &reached)) {
            return false;
        }
        below = reached ? 0 : p;
    }
    while (out->p - below > least_step(search, out->p)) {
        p = (out->p + below) / 2;
        p = search->whole ? floor(p) : p;
        if (!try(search, p, out, &reached)) {
            return false;
        }
        if (!reached) {
            below = p;
        }
    }
    return true;
}

bool
wp_figure_least(const struct wp_figure_settings *settings,
                const struct wp_figure_world *world, enum wp_baseline baseline,
                double hit, double start, struct wp_figure_best *out)
{
    const struct search search = {.settings = settings,
                                  .world = world,
                                  .hit = hit,
                                  .baseline = baseline,
                                  .whole = knobs[baseline].whole,
                                  .max = knobs[baseline].max};

    return least(&search, start, out);
}

bool
wp_figure_least_told(const struct wp_figure_settings *settings,
                     const struct wp_figure_world *world, double hit,
                     double start, struct wp_figure_best *out)
{
    static const double ratios[] = {1, 1.5, 2, 3, 4};

    *out = (struct wp_figure_best){.found = false};
    for (unsigned i = 0; i < sizeof(ratios) / sizeof(ratios[0]); i++) {
        const struct search search = {.settings = settings,
                                      .world = world,
                                      .hit = hit,
                                      .busy = ratios[i],
                                      .whole = true,
                                      .max = 1 << 13};
        struct wp_figure_best best;

        if (!least(&search, start, &best)) {
            return false;
        }
        if (best.found &&
            (!out->found || best.result.idle.mean < out->result.idle.mean)) {
            *out = best;
        }
        start = best.found ? best.p : start;
    }
    return true;
}
