#include "allocator/metrics/tenant_metrics.h"

#include <stdlib.h>

#include "allocator/metrics/prometheus.h"
#include "pool/base/compiler.h"

enum {
    PAGE = 64,
};

static double
get_leases(const struct wp_tenant_stats *use)
{
    return (double)use->leases;
}

static double
get_waiting(const struct wp_tenant_stats *use)
{
    return (double)use->waiting;
}

static double
get_claims(const struct wp_tenant_stats *use)
{
    return (double)use->claims_total;
}

static double
get_refused(const struct wp_tenant_stats *use)
{
    return (double)use->refused_total;
}

/* Below 0: no bound, no sample. */
static double
get_leases_max(const struct wp_tenant_stats *use)
{
    return use->quota.leases_max != WP_QUOTA_NONE
               ? (double)use->quota.leases_max
               : -1;
}

static const struct {
    const char *name;
    const char *type;
    const char *help;
    double (*value)(const struct wp_tenant_stats *use);
} families[] = {
    {"warmpool_tenant_leases", "gauge",
     "Leases that a tenant has, or is just being granted.", get_leases},
    {"warmpool_tenant_leases_max", "gauge",
     "Leases and waiting claims that a tenant may have.", get_leases_max},
    {"warmpool_tenant_claims_waiting", "gauge",
     "Claims of a tenant that wait now.", get_waiting},
    {"warmpool_tenant_claims_total", "counter",
     "New claims of a tenant that came to this daemon.", get_claims},
    {"warmpool_tenant_quota_refused_total", "counter",
     "Claims of a tenant that were refused for its quota.", get_refused},
};

void
wp_tenant_metrics(struct evbuffer *out, struct wp_pools *pools)
{
    struct wp_tenant_stats *uses = calloc(WP_TENANT_METRICS_MAX, sizeof *uses);
    struct wp_tenant_stats more[PAGE];
    uint32_t cursor = 0;
    uint32_t left_out = 0;
    uint32_t n = 0;

    if (uses == NULL) {
        return;
    }
    do {
        if (n + PAGE <= WP_TENANT_METRICS_MAX) {
            n += wp_pools_tenants(pools, UINT32_MAX, NULL, &cursor, &uses[n],
                                  PAGE);
        } else {
            left_out +=
                wp_pools_tenants(pools, UINT32_MAX, NULL, &cursor, more, PAGE);
        }
    } while (cursor != 0);
    for (size_t f = 0; f < WP_ARRAY_LEN(families); f++) {
        wp_prom_family(out, families[f].name, families[f].type,
                       families[f].help);
        for (uint32_t i = 0; i < n; i++) {
            struct wp_prom_label labels[] = {
                {"namespace", uses[i].pool_namespace},
                {"pool", uses[i].pool},
                {"tenant", uses[i].tenant},
            };
            double value = families[f].value(&uses[i]);

            if (value >= 0) {
                wp_prom_sample(out, families[f].name, labels,
                               WP_ARRAY_LEN(labels), value);
            }
        }
    }
    wp_prom_family(out, "warmpool_tenants_left_out", "gauge",
                   "Tenants of pools that this page has no room for.");
    wp_prom_sample(out, "warmpool_tenants_left_out", NULL, 0, left_out);
    free(uses);
}
