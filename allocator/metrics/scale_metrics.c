#include "allocator/metrics/scale_metrics.h"

#include <math.h>
#include <string.h>

#include "allocator/metrics/prometheus.h"

/* What one scrape looks at. */
struct scrape {
    struct evbuffer *out;
    const struct wp_pool_stats *stats;
    uint32_t n;
};

#define TERM(name)                                                             \
    static double get_##name(const struct wp_pool_stats *s)                    \
    {                                                                          \
        return (double)s->scale.name;                                          \
    }
TERM(wanted)
TERM(reserved)
TERM(floor)
TERM(rate_per_s)
TERM(lead_mean_s)
TERM(lead_p99_s)
TERM(expected)
TERM(spread)
TERM(dispersion)
TERM(hit_rate)
TERM(hit_rate_seen)
TERM(hit_rate_best)
TERM(idle)
TERM(makes_per_s)
TERM(queue_s)

static double
get_objective(const struct wp_pool_stats *s)
{
    return s->spec.scale.objective == WP_SCALE_HIT_RATE ? s->spec.scale.hit_rate
                                                        : NAN;
}

static double
get_replicas(const struct wp_pool_stats *s)
{
    return s->replicas;
}

static double
get_leads_lost(const struct wp_pool_stats *s)
{
    return (double)s->leads_lost;
}

static double
get_budget_share(const struct wp_pool_stats *s)
{
    return s->budget == UINT32_MAX ? NAN : (double)s->budget;
}

/* One family with one number for each pool that has it; what is not known is
 * not shown. */
static const struct family {
    const char *name;
    const char *type;
    const char *help;
    double (*value)(const struct wp_pool_stats *s);
} families[] = {
    {"warmpool_scale_replicas", "gauge",
     "The target as it was given, before the scaler.", get_replicas},
    {"warmpool_scale_wanted", "gauge",
     "What demand asks for, before bounds, budget, hold and hand.", get_wanted},
    {"warmpool_scale_reserved", "gauge", "Announced for this time.",
     get_reserved},
    {"warmpool_scale_floor", "gauge", "The schedule's floor now.", get_floor},
    {"warmpool_scale_claims_per_second", "gauge",
     "Claims expected over the next lead time.", get_rate_per_s},
    {"warmpool_scale_lead_seconds", "gauge",
     "Mean time to make a sandbox, as believed.", get_lead_mean_s},
    {"warmpool_scale_lead_p99_seconds", "gauge", "The same, 99th percentile.",
     get_lead_p99_s},
    {"warmpool_scale_expected_claims", "gauge",
     "Claims expected in one lead time.", get_expected},
    {"warmpool_scale_spread", "gauge", "Stock on top of those.", get_spread},
    {"warmpool_scale_dispersion", "gauge",
     "Variance / mean of the claims in a lead time.", get_dispersion},
    {"warmpool_scale_hit_rate_objective", "gauge",
     "Share of claims to be served at once.", get_objective},
    {"warmpool_scale_hit_rate", "gauge", "Expected with the target as it is.",
     get_hit_rate},
    {"warmpool_scale_hit_rate_seen", "gauge",
     "Share of claims served at once, over what is remembered.",
     get_hit_rate_seen},
    {"warmpool_scale_hit_rate_best", "gauge",
     "The best that can be had, while the objective cannot.",
     get_hit_rate_best},
    {"warmpool_scale_budget_share", "gauge",
     "The most that the pool's budget group leaves it now.", get_budget_share},
    {"warmpool_scale_idle", "gauge",
     "Sandboxes ready in the mean, as expected with the target.", get_idle},
    {"warmpool_scale_makes_per_second", "gauge",
     "Sandboxes that can be made in a second, where that is bounded.",
     get_makes_per_s},
    {"warmpool_scale_queue_seconds", "gauge",
     "Mean time for which an order waits for its turn.", get_queue_s},
    {"warmpool_scale_lead_times_lost_total", "counter",
     "Lead times that came too many at once to be counted.", get_leads_lost},
};

static void
put_families(const struct scrape *sc)
{
    for (size_t f = 0; f < WP_ARRAY_LEN(families); f++) {
        const struct family *family = &families[f];

        wp_prom_family(sc->out, family->name, family->type, family->help);
        for (uint32_t i = 0; i < sc->n; i++) {
            const struct wp_pool_stats *s = &sc->stats[i];
            const struct wp_prom_label labels[] = {
                {"namespace", s->spec.pool_namespace},
                {"pool", s->spec.name},
            };

            if (s->scaled && s->scale.number > 0 &&
                isfinite(family->value(s))) {
                wp_prom_sample(sc->out, family->name, labels, 2,
                               family->value(s));
            }
        }
    }
}

static void
put_reasons(const struct scrape *sc)
{
    const char *name = "warmpool_scale_info";

    wp_prom_family(sc->out, name, "gauge",
                   "1; which of the terms decides the target, in a label.");
    for (uint32_t i = 0; i < sc->n; i++) {
        const struct wp_pool_stats *s = &sc->stats[i];

        if (s->scaled && s->scale.number > 0) {
            const struct wp_prom_label labels[] = {
                {"namespace", s->spec.pool_namespace},
                {"pool", s->spec.name},
                {"reason", wp_scale_reason_word(s->scale.reason)},
            };

            wp_prom_sample(sc->out, name, labels, 3, 1);
        }
    }
}

static void
put_changes(const struct scrape *sc)
{
    const char *name = "warmpool_scale_changes_total";

    wp_prom_family(sc->out, name, "counter",
                   "Changes of the target by the scaler, by reason.");
    for (uint32_t i = 0; i < sc->n; i++) {
        const struct wp_pool_stats *s = &sc->stats[i];

        for (int r = 0; s->scaled && r < WP_SCALE_REASON_COUNT; r++) {
            const struct wp_prom_label labels[] = {
                {"namespace", s->spec.pool_namespace},
                {"pool", s->spec.name},
                {"reason", wp_scale_reason_word((enum wp_scale_reason)r)},
            };

            if (s->scale_changes[r] > 0) {
                wp_prom_sample(sc->out, name, labels, 3,
                               (double)s->scale_changes[r]);
            }
        }
    }
}

static void
put_reaction(const struct scrape *sc, struct wp_pools *pools)
{
    const char *name = "warmpool_scale_reaction_seconds";

    wp_prom_family(sc->out, name, "histogram",
                   "A claim's arrival to the orders it led to, the lease "
                   "store's time included; up to 1 ms too long.");
    for (uint32_t i = 0; i < sc->n; i++) {
        const struct wp_pool_stats *s = &sc->stats[i];
        const struct wp_histogram *reaction =
            wp_pools_scale_reaction(pools, s->index);

        if (reaction != NULL) {
            const struct wp_prom_label labels[] = {
                {"namespace", s->spec.pool_namespace},
                {"pool", s->spec.name},
            };
            struct wp_histogram_view view;

            wp_histogram_read(reaction, &view);
            wp_prom_histogram(sc->out, name, labels, 2, &view);
        }
    }
}

/* The targets of the group's pools together. */
static double
used_of(const struct scrape *sc, const char *group)
{
    double used = 0;

    for (uint32_t i = 0; i < sc->n; i++) {
        const struct wp_pool_stats *s = &sc->stats[i];

        if (s->scaled && !s->draining &&
            strcmp(s->spec.scale.budget_group, group) == 0) {
            used += s->spec.target;
        }
    }
    return used;
}

/* Only the keeper shares budgets. */
static void
put_budgets(const struct scrape *sc, const struct wp_pools *pools)
{
    static const char total[] = "warmpool_scale_budget";
    static const char used[] = "warmpool_scale_budget_used";
    const struct wp_budget_total *budget;

    if (!wp_pools_is_keeper(pools) || wp_pools_budget(pools, 0) == NULL) {
        return;
    }
    wp_prom_family(sc->out, total, "gauge",
                   "What the pools of a budget group may have together.");
    for (uint32_t i = 0; (budget = wp_pools_budget(pools, i)) != NULL; i++) {
        const struct wp_prom_label label = {"group", budget->group};

        wp_prom_sample(sc->out, total, &label, 1, budget->total);
    }
    wp_prom_family(sc->out, used, "gauge", "Their targets together.");
    for (uint32_t i = 0; (budget = wp_pools_budget(pools, i)) != NULL; i++) {
        const struct wp_prom_label label = {"group", budget->group};

        wp_prom_sample(sc->out, used, &label, 1, used_of(sc, budget->group));
    }
}

void
wp_scale_metrics(struct evbuffer *out, struct wp_pools *pools,
                 const struct wp_pool_stats *stats, uint32_t n)
{
    const struct scrape sc = {out, stats, n};

    for (uint32_t i = 0; i < n; i++) {
        if (stats[i].scaled) {
            put_families(&sc);
            put_reasons(&sc);
            put_changes(&sc);
            put_reaction(&sc, pools);
            put_budgets(&sc, pools);
            return;
        }
    }
}
