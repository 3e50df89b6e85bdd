#include "allocator/metrics/pool_metrics.h"

#include <event2/buffer.h>
#include <string.h>

#include "allocator/metrics/prometheus.h"

/* One family with one number for each pool. */
struct pool_family {
    const char *name;
    const char *type;
    const char *help;
    double (*value)(const struct wp_pool_stats *s);
    enum wp_view view; /* Who sees it. */
};

#define NUMBER(name)                                                           \
    static double get_##name(const struct wp_pool_stats *s)                    \
    {                                                                          \
        return (double)s->name;                                                \
    }
NUMBER(waiting)
NUMBER(refused_total)
NUMBER(missed_total)
NUMBER(released_total)
NUMBER(expired_total)
NUMBER(undone_total)
NUMBER(bound_total)
NUMBER(unbound_total)
NUMBER(created_total)
NUMBER(destroyed_total)
NUMBER(failed_total)
NUMBER(lost_total)
NUMBER(draining)
NUMBER(breaker_open)

static double
get_target(const struct wp_pool_stats *s)
{
    return (double)s->spec.target;
}

static const struct pool_family pool_families[] = {
    {"warmpool_pool_target", "gauge",
     "Sandboxes the pool keeps ready or warming.", get_target, WP_VIEW_TENANT},
    {"warmpool_claims_waiting", "gauge", "Claims that wait for a sandbox now.",
     get_waiting, WP_VIEW_ALL},
    {"warmpool_claims_refused_total", "counter",
     "Claims that got no sandbox: pool empty, wait over, or queue full.",
     get_refused_total, WP_VIEW_ALL},
    {"warmpool_claims_missed_total", "counter",
     "Claims that found no sandbox ready, whatever became of them.",
     get_missed_total, WP_VIEW_ALL},
    {"warmpool_claims_bound_total", "counter",
     "Claims whose sandbox took what they brought.", get_bound_total,
     WP_VIEW_ALL},
    {"warmpool_claims_unbound_total", "counter",
     "Claims that failed because their sandbox did not take it.",
     get_unbound_total, WP_VIEW_ALL},
    {"warmpool_leases_released_total", "counter",
     "Leases ended by their holder.", get_released_total, WP_VIEW_ALL},
    {"warmpool_leases_expired_total", "counter", "Leases that ran out.",
     get_expired_total, WP_VIEW_ALL},
    {"warmpool_leases_undone_total", "counter",
     "Grants taken back because the client had gone before the answer.",
     get_undone_total, WP_VIEW_ALL},
    {"warmpool_sandboxes_created_total", "counter",
     "Sandboxes ordered from the backend.", get_created_total, WP_VIEW_ALL},
    {"warmpool_sandboxes_destroyed_total", "counter",
     "Sandboxes of which nothing is left.", get_destroyed_total, WP_VIEW_ALL},
    {"warmpool_sandboxes_failed_total", "counter",
     "Sandboxes that never became ready.", get_failed_total, WP_VIEW_ALL},
    {"warmpool_sandboxes_lost_total", "counter",
     "Sandboxes that were ready and then stopped answering.", get_lost_total,
     WP_VIEW_ALL},
    {"warmpool_pool_draining", "gauge", "1 when the pool takes no new claims.",
     get_draining, WP_VIEW_TENANT},
    {"warmpool_breaker_open", "gauge",
     "1 while creation is paused because nothing becomes ready.",
     get_breaker_open, WP_VIEW_TENANT},
};

static void
put_pool_families(const struct wp_pool_scrape *sc)
{
    for (size_t f = 0; f < WP_ARRAY_LEN(pool_families); f++) {
        const struct pool_family *family = &pool_families[f];

        if (family->view > sc->view) {
            continue;
        }
        wp_prom_family(sc->out, family->name, family->type, family->help);
        for (uint32_t i = 0; i < sc->n; i++) {
            const struct wp_pool_stats *s = &sc->stats[i];
            struct wp_prom_label labels[] = {
                {"namespace", s->spec.pool_namespace},
                {"pool", s->spec.name},
            };

            wp_prom_sample(sc->out, family->name, labels, 2, family->value(s));
        }
    }
}

static void
put_sandboxes(const struct wp_pool_scrape *sc)
{
    const char *name = "warmpool_sandboxes";

    wp_prom_family(sc->out, name, "gauge",
                   "Sandboxes by state; leased includes lost ones.");
    for (uint32_t i = 0; i < sc->n; i++) {
        const struct wp_pool_stats *s = &sc->stats[i];
        const struct {
            const char *state;
            uint32_t n;
        } rows[] = {
            {"warming", s->warming},
            {"ready", s->ready},
            /* Not for tenants. */
            {"leased", s->leased},
            {"dying", s->dying},
            {"quarantined", s->quarantined},
        };
        size_t n = sc->view == WP_VIEW_ALL ? WP_ARRAY_LEN(rows) : 2;

        for (size_t r = 0; r < n; r++) {
            struct wp_prom_label labels[] = {
                {"namespace", s->spec.pool_namespace},
                {"pool", s->spec.name},
                {"state", rows[r].state},
            };

            wp_prom_sample(sc->out, name, labels, 3, rows[r].n);
        }
    }
}

static void
put_claims(const struct wp_pool_scrape *sc)
{
    const char *name = "warmpool_claims_total";

    wp_prom_family(sc->out, name, "counter",
                   "Claims granted, by how: warm at once, queued for one "
                   "already in the making, cold by one made for it.");
    for (uint32_t i = 0; i < sc->n; i++) {
        const struct wp_pool_stats *s = &sc->stats[i];

        for (unsigned k = WP_SERVED_WARM; k <= WP_SERVED_COLD; k++) {
            struct wp_prom_label labels[] = {
                {"namespace", s->spec.pool_namespace},
                {"pool", s->spec.name},
                {"served", wp_served_text(k)},
            };

            wp_prom_sample(sc->out, name, labels, 3,
                           (double)s->served_total[k]);
        }
    }
}

static void
put_histograms(const struct wp_pool_scrape *sc, struct wp_pools *pools)
{
    static const struct {
        const char *name;
        const char *help;
        const struct wp_histogram *(*get)(const struct wp_pools *pools,
                                          uint32_t index);
    } families[] = {
        {"warmpool_claim_wait_seconds",
         "How long claims waited for a sandbox; those served warm "
         "count as 0.",
         wp_pools_claim_latency},
        {"warmpool_lead_time_seconds",
         "From the start of a sandbox's making to its readiness.",
         wp_pools_lead_time},
    };

    for (size_t f = 0; f < WP_ARRAY_LEN(families); f++) {
        wp_prom_family(sc->out, families[f].name, "histogram",
                       families[f].help);
        for (uint32_t i = 0; i < sc->n; i++) {
            struct wp_prom_label labels[] = {
                {"namespace", sc->stats[i].spec.pool_namespace},
                {"pool", sc->stats[i].spec.name},
            };
            struct wp_histogram_view view;

            wp_histogram_read(families[f].get(pools, sc->stats[i].index),
                              &view);
            wp_prom_histogram(sc->out, families[f].name, labels, 2, &view);
        }
    }
}

static void
put_agent_sandbox_claims(const struct wp_pool_scrape *sc)
{
    const char *name = "agent_sandbox_claim_creation_total";

    wp_prom_family(sc->out, name, "counter",
                   "Claims granted, under agent-sandbox's name; queued ones "
                   "count as cold.");
    for (uint32_t i = 0; i < sc->n; i++) {
        const struct wp_pool_stats *s = &sc->stats[i];

        for (int warm = 1; warm >= 0; warm--) {
            struct wp_prom_label labels[] = {
                {"namespace", s->spec.pool_namespace},
                {"sandbox_template", s->spec.template_name},
                {"launch_type", warm != 0 ? "warm" : "cold"},
                {"warmpool_name", s->spec.name},
                {"pod_condition", "ready"},
                {"created_by", "warmpool"},
            };

            wp_prom_sample(sc->out, name, labels, WP_ARRAY_LEN(labels),
                           (double)(warm != 0
                                        ? s->served_total[WP_SERVED_WARM]
                                        : s->served_total[WP_SERVED_QUEUED] +
                                              s->served_total[WP_SERVED_COLD]));
        }
    }
}

static uint32_t
count_ready(const struct wp_pool_stats *s)
{
    return s->ready;
}

static uint32_t
count_warming(const struct wp_pool_stats *s)
{
    return s->warming;
}

static uint32_t
count_leased(const struct wp_pool_stats *s)
{
    return s->leased;
}

static bool
same_template(const struct wp_pool_stats *a, const struct wp_pool_stats *b)
{
    return strcmp(a->spec.pool_namespace, b->spec.pool_namespace) == 0 &&
           strcmp(a->spec.template_name, b->spec.template_name) == 0;
}

/* The labels name a template, not a pool: pools of one template make one sum,
 * told by the first of them. False: pool i is not the first. */
static bool
sum_of_template(const struct wp_pool_scrape *sc, uint32_t i,
                uint32_t (*count)(const struct wp_pool_stats *s), double *sum)
{
    *sum = 0;
    for (uint32_t j = 0; j < sc->n; j++) {
        if (!same_template(&sc->stats[i], &sc->stats[j])) {
            continue;
        }
        if (j < i) {
            return false;
        }
        *sum += count(&sc->stats[j]);
    }
    return true;
}

static void
put_agent_sandboxes(const struct wp_pool_scrape *sc)
{
    static const struct {
        const char *ready;
        const char *owner;
        uint32_t (*count)(const struct wp_pool_stats *s);
    } rows[] = {
        {"true", "SandboxWarmPool", count_ready},
        {"false", "SandboxWarmPool", count_warming},
        {"true", "SandboxClaim", count_leased},
    };
    const char *name = "agent_sandboxes";

    wp_prom_family(sc->out, name, "gauge",
                   "Sandboxes, under agent-sandbox's name.");
    for (uint32_t i = 0; i < sc->n; i++) {
        for (size_t r = 0; r < WP_ARRAY_LEN(rows); r++) {
            struct wp_prom_label labels[] = {
                {"namespace", sc->stats[i].spec.pool_namespace},
                {"ready_condition", rows[r].ready},
                {"expired", "false"},
                {"launch_type", "warm"},
                {"sandbox_template", sc->stats[i].spec.template_name},
                {"owned_by", rows[r].owner},
                {"created_by", "warmpool"},
            };
            double sum;

            if (sum_of_template(sc, i, rows[r].count, &sum)) {
                wp_prom_sample(sc->out, name, labels, WP_ARRAY_LEN(labels),
                               sum);
            }
        }
    }
}

static void
put_agent_warmpool_size(const struct wp_pool_scrape *sc)
{
    const char *name = "agent_sandbox_warmpool_size";

    wp_prom_family(sc->out, name, "gauge",
                   "Idle sandboxes of a pool, under agent-sandbox's name.");
    for (uint32_t i = 0; i < sc->n; i++) {
        const struct wp_pool_stats *s = &sc->stats[i];

        for (int ready = 1; ready >= 0; ready--) {
            struct wp_prom_label labels[] = {
                {"namespace", s->spec.pool_namespace},
                {"warmpool_name", s->spec.name},
                {"sandbox_template", s->spec.template_name},
                {"sandbox_status", ready != 0 ? "ready" : "not_ready"},
            };

            wp_prom_sample(sc->out, name, labels, WP_ARRAY_LEN(labels),
                           ready != 0 ? s->ready : s->warming);
        }
    }
}

void
wp_pool_metrics(const struct wp_pool_scrape *scrape)
{
    put_sandboxes(scrape);
    put_pool_families(scrape);
    put_agent_warmpool_size(scrape);
}

void
wp_pool_metrics_claims(const struct wp_pool_scrape *scrape,
                       struct wp_pools *pools)
{
    put_claims(scrape);
    put_histograms(scrape, pools);
}

void
wp_pool_metrics_agent(const struct wp_pool_scrape *scrape)
{
    put_agent_sandbox_claims(scrape);
    put_agent_sandboxes(scrape);
}
