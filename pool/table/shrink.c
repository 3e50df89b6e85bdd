/* pool/table/shrink.c - a pool that is to be smaller. */
#include "pool/table/pools.h"

/* At most max of those that are not ready yet are not waited for. */
void
wp_pools_give_up_warming(struct wp_pools *pools, uint32_t pool_index,
                         uint32_t max)
{
    for (uint32_t i = wp_slots_used_max(&pools->slots); i-- > 0 && max > 0;) {
        struct wp_slot_ref ref = wp_slot_ref_at(&pools->slots, i);

        if (wp_pools_of_slot(pools, i)->index == pool_index &&
            wp_slot_state(&pools->slots, ref) == WP_SLOT_WARMING &&
            wp_slot_move(&pools->slots, ref, WP_SLOT_WARMING, WP_SLOT_DYING)) {
            wp_pools_mark(pools, i);
            max--;
        }
    }
}

void
wp_pools_shrink(struct wp_pool *pool)
{
    struct wp_pools *pools = pool->pools;
    uint32_t ready = wp_slots_count(&pools->slots, pool->index, WP_SLOT_READY);
    uint32_t warming =
        wp_slots_count(&pools->slots, pool->index, WP_SLOT_WARMING);
    uint64_t wanted =
        atomic_load_explicit(&pool->waiting, memory_order_relaxed);

    if (!pools->config.backend.ops->foreign) {
        return;
    }
    if (!atomic_load_explicit(&pool->draining, memory_order_relaxed)) {
        wanted += atomic_load_explicit(&pool->target, memory_order_relaxed);
    }
    if (wanted < (uint64_t)ready + warming) {
        wp_pools_give_up_warming(pools, pool->index,
                                 (uint32_t)(ready + warming - wanted));
    }
}
