/* pool/core/peers.c - this replica among the others: which sandboxes it
 * prefers, and whether it is the keeper. */
#include <string.h>

#include "pool/core/pools.h"

/* splitmix64's finaliser. */
static uint64_t
mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

bool
wp_pools_prefer(struct wp_pools *pools, struct wp_slot_ref ref)
{
    struct wp_slot_info info;
    uint64_t uid;
    uint64_t own;
    bool best = true;

    if (!pools->shared || !wp_slot_read(&pools->slots, ref, &info)) {
        return true;
    }
    memcpy(&uid, info.uid, sizeof uid);
    (void)pthread_mutex_lock(&pools->peers_lock);
    own = mix(uid ^ mix(pools->replica));
    for (uint32_t i = 0; i < pools->n_replicas && best; i++) {
        best = pools->replicas[i] == pools->replica ||
               mix(uid ^ mix(pools->replicas[i])) < own;
    }
    (void)pthread_mutex_unlock(&pools->peers_lock);
    return best;
}

void
wp_pools_set_replicas(struct wp_pools *pools, uint64_t own, const uint64_t *ids,
                      uint32_t n)
{
    n = n < WP_REPLICAS_MAX ? n : WP_REPLICAS_MAX;
    (void)pthread_mutex_lock(&pools->peers_lock);
    pools->replica = own;
    memcpy(pools->replicas, ids, n * sizeof *ids);
    pools->n_replicas = n;
    (void)pthread_mutex_unlock(&pools->peers_lock);
}

bool
wp_pools_is_keeper(const struct wp_pools *pools)
{
    return atomic_load_explicit(&pools->keeper, memory_order_relaxed);
}
