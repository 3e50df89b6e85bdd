/* pool/grant/tenants.c - questions about tenants, and named tenants' quotas. */
#include "pool/table/pools.h"

enum {
    ASK_MAX = 64, /* Accounts in one look. */
};

bool
wp_pools_set_quotas(struct wp_pools *pools,
                    const struct wp_tenant_quota *quotas, uint32_t n)
{
    return wp_accounts_set_named(&pools->accounts, quotas, n);
}

uint32_t
wp_pools_tenants(struct wp_pools *pools, uint32_t pool_index,
                 const struct wp_str *tenant, uint32_t *cursor,
                 struct wp_tenant_stats *out, uint32_t max)
{
    uint32_t index[ASK_MAX];
    uint32_t n = wp_accounts_list(
        &pools->accounts, &(struct wp_account_filter){pool_index, tenant},
        cursor, out, index, max < ASK_MAX ? max : (uint32_t)ASK_MAX);

    for (uint32_t i = 0; i < n; i++) {
        struct wp_pool *pool = wp_pools_at(pools, index[i]);

        memcpy(out[i].pool_namespace, pool->spec.pool_namespace,
               sizeof out[i].pool_namespace);
        memcpy(out[i].pool, pool->spec.name, sizeof out[i].pool);
        /* Whichever is less says how many may wait. */
        (void)pthread_mutex_lock(&pool->wait_lock);
        if (pool->spec.tenant_waiters_max < out[i].quota.waiters_max) {
            out[i].quota.waiters_max = pool->spec.tenant_waiters_max;
        }
        (void)pthread_mutex_unlock(&pool->wait_lock);
    }
    return n;
}
