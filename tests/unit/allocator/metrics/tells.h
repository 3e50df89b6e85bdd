/* tests/unit/allocator/metrics/tells.h - a daemon whose parts tell what a test
 * wants to see on its pages. */
#ifndef WP_TESTS_UNIT_ALLOCATOR_METRICS_TELLS_H
#define WP_TESTS_UNIT_ALLOCATOR_METRICS_TELLS_H

#include "allocator/metrics/page.h"
#include "pool/tenants.h"
#include "tests/support/pool/manual_clock.h"

/* What the daemon's parts tell; 0 where the test says nothing. */
extern struct tells {
    struct wp_pool_stats pools[6];
    uint32_t n_pools;
    struct wp_histogram claim_latency[6];
    struct wp_histogram lead_time[6];
    struct wp_histogram reaction[6];
    struct wp_budget_total budgets[2];
    uint32_t n_budgets;
    bool keeper;
    bool holds_unseen;
    struct wp_tenant_stats tenants[600];
    uint32_t n_tenants;
    uint32_t tenants_at_once;
    struct wp_rpc_duration durations[4];
    uint32_t n_durations;
    bool accepts;
    const char *not_ready;
    struct wp_lease_meter meter;
    struct wp_clock_manual manual;
    struct wp_http_metrics metrics;
} tells;

/* Of each test: a daemon with all parts, which tell nothing yet. */
int tells_set_up(void **state);
/* A pool with numbers from first on. */
struct wp_pool_stats *tells_add_pool(const char *ns, const char *name,
                                     const char *templ, uint32_t first);
/* For metrics.not_ready. */
const char *tells_not_ready(void *ctx);
/* The page, with that status; valid until the next one. */
char *tells_render(unsigned status, enum wp_view view,
                   unsigned (*fn)(void *, enum wp_view, struct evbuffer *,
                                  const char **));

#endif
