/* allocator/metrics/tenant_metrics.h - what tenants have of pools, as a part of
 * /metrics: those that have claims, or have claimed within the last minute. Any
 * thread. */
#ifndef WP_ALLOCATOR_METRICS_TENANT_METRICS_H
#define WP_ALLOCATOR_METRICS_TENANT_METRICS_H

#include "pool/pool.h"

struct evbuffer;

enum {
    /* The tenants of a page, all pools together: a page is no longer for more
     * of them, and says how many it leaves out. */
    WP_TENANT_METRICS_MAX = 512,
};

void wp_tenant_metrics(struct evbuffer *out, struct wp_pools *pools);

#endif
