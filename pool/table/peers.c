/* pool/table/peers.c - this replica among the others: which sandboxes it
 * prefers, and whether it is the keeper. */
#include <stdlib.h>
#include <string.h>

#include "pool/table/pools.h"

struct wp_peers {
    pthread_mutex_t lock; /* guards: all */
    uint64_t own;
    uint64_t ids[WP_REPLICAS_MAX];
    uint32_t n;
};

bool
wp_peers_create(struct wp_pools *pools)
{
    pools->peers = wp_pools_reserve(pools, 1, sizeof *pools->peers);
    if (pools->peers == NULL) {
        return false;
    }
    (void)pthread_mutex_init(&pools->peers->lock, NULL);
    return true;
}

void
wp_peers_destroy(struct wp_pools *pools)
{
    if (pools->peers != NULL) {
        (void)pthread_mutex_destroy(&pools->peers->lock);
        free(pools->peers);
    }
}

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
    (void)pthread_mutex_lock(&pools->peers->lock);
    own = mix(uid ^ mix(pools->peers->own));
    for (uint32_t i = 0; i < pools->peers->n && best; i++) {
        best = pools->peers->ids[i] == pools->peers->own ||
               mix(uid ^ mix(pools->peers->ids[i])) < own;
    }
    (void)pthread_mutex_unlock(&pools->peers->lock);
    return best;
}

void
wp_pools_set_replicas(struct wp_pools *pools, uint64_t own, const uint64_t *ids,
                      uint32_t n)
{
    n = n < WP_REPLICAS_MAX ? n : WP_REPLICAS_MAX;
    (void)pthread_mutex_lock(&pools->peers->lock);
    pools->peers->own = own;
    memcpy(pools->peers->ids, ids, n * sizeof *ids);
    pools->peers->n = n;
    (void)pthread_mutex_unlock(&pools->peers->lock);
}

bool
wp_pools_holds_unseen(const struct wp_pools *pools)
{
    return atomic_load_explicit(&pools->holds_unseen, memory_order_relaxed);
}

bool
wp_pools_is_keeper(const struct wp_pools *pools)
{
    return atomic_load_explicit(&pools->keeper, memory_order_relaxed);
}
