/* pool/tenants.h - what a tenant may have of a pool, and what it has.
 *
 * An account is kept for each tenant of each pool that has claims, or had some
 * lately. It counts every claim that this daemon knows: those that came here,
 * those that were read from the lease store at start, and, with a shared store,
 * those that other replicas have told of. So each replica holds a tenant to its
 * quota of all replicas' leases, as far as it has heard of them; the rate is
 * of the claims that came to this daemon. */
#ifndef WP_POOL_TENANTS_H
#define WP_POOL_TENANTS_H

#include <stdbool.h>
#include <stdint.h>

#include "pool/base/compiler.h"
#include "pool/base/str.h"
#include "pool/limits.h"

struct wp_pools;

enum {
    WP_TENANT_QUOTAS_MAX = 1024, /* Of named tenants. */
    WP_CLAIM_RATE_MAX = 60 * 1000 * 1000,
};

/* No bound; of a named tenant's quota: as its pool says. */
#define WP_QUOTA_NONE UINT32_MAX

struct wp_quota {
    uint32_t leases_max;  /* Claims held or waiting. */
    uint32_t waiters_max; /* Claims waiting. */
    /* Claims a minute; as many at once as come to ten seconds, at least 1. */
    uint32_t claims_per_minute;
};

/* A quota of one tenant by its name; it goes before its pool's. */
struct wp_tenant_quota {
    char tenant[WP_TENANT_MAX + 1];
    char pool_namespace[WP_NAMESPACE_MAX + 1]; /* Empty as pool is. */
    char pool[WP_POOL_NAME_MAX + 1];           /* Empty: of every pool. */
    struct wp_quota quota;
};

/* What one tenant has of one pool. */
struct wp_tenant_stats {
    char tenant[WP_TENANT_MAX + 1];
    char pool_namespace[WP_NAMESPACE_MAX + 1];
    char pool[WP_POOL_NAME_MAX + 1];
    struct wp_quota quota;  /* The one that holds. */
    uint32_t leases;        /* Held, or just being granted. */
    uint32_t waiting;       /* Claims waiting. */
    uint64_t claims_total;  /* New claims that came here; repeats are none. */
    uint64_t refused_total; /* For the quota. */
    bool active;            /* It has claimed within the last minute. */
};

/* These named tenants' quotas from now on, instead of all before; copied. At
 * most WP_TENANT_QUOTAS_MAX. What a tenant has beyond a smaller quota it keeps.
 * False when memory lacks: nothing was changed. Control thread, or before any
 * other thread uses pools. */
WP_MUST_CHECK bool wp_pools_set_quotas(struct wp_pools *pools,
                                       const struct wp_tenant_quota *quotas,
                                       uint32_t n);
/* The accounts from *cursor (0 at first) on, at most max; advances *cursor, to
 * 0 at the end. pool_index UINT32_MAX: of all pools. tenant NULL: of all
 * tenants. An account that nobody has used for a minute may be left out. Any
 * thread; takes locks for a moment, none of which a claim that is served at
 * once waits for. */
uint32_t wp_pools_tenants(struct wp_pools *pools, uint32_t pool_index,
                          const struct wp_str *tenant, uint32_t *cursor,
                          struct wp_tenant_stats *out, uint32_t max);

#endif
