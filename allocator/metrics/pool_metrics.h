/* allocator/metrics/pool_metrics.h - what pools count, as a part of /metrics.
 * Any thread. */
#ifndef WP_ALLOCATOR_METRICS_POOL_METRICS_H
#define WP_ALLOCATOR_METRICS_POOL_METRICS_H

#include "allocator/access/view.h"
#include "pool/pool.h"

struct evbuffer;

/* What one scrape looks at. Borrowed. */
struct wp_pool_scrape {
    struct evbuffer *out;
    struct wp_pool_stats *stats;
    uint32_t n;
    enum wp_view view;
};

/* What everybody may see of pools, and, by its view, the rest. */
void wp_pool_metrics(const struct wp_pool_scrape *scrape);
/* Claims by how they were served, and how long they and sandboxes took. */
void wp_pool_metrics_claims(const struct wp_pool_scrape *scrape,
                            struct wp_pools *pools);
/* The names that agent-sandbox's dashboards, HPA and KEDA examples read. */
void wp_pool_metrics_agent(const struct wp_pool_scrape *scrape);

#endif
