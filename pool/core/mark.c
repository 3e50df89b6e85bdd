/* pool/core/mark.c - what any thread leaves for the control thread: slots and
 * pools to look at, reasons for people. */
#include <string.h>

#include "pool/core/pools.h"

void
wp_pools_wake(struct wp_pools *pools)
{
    /* seq_cst pairs with the clear in wp_pools_run: either control sees the
     * work, or this thread sees that it sleeps. */
    if (!atomic_load_explicit(&pools->awake, memory_order_seq_cst) &&
        !atomic_exchange_explicit(&pools->awake, true, memory_order_seq_cst)) {
        pools->config.wake(pools->config.ctx);
    }
}

void
wp_pools_mark(struct wp_pools *pools, uint32_t slot_index, uint32_t work)
{
    struct wp_slot *slot = wp_slot_at(&pools->slots, slot_index);
    uint32_t before = atomic_fetch_or_explicit(
        &slot->work, work | WP_WORK_LISTED, memory_order_acq_rel);

    if ((before & WP_WORK_LISTED) == 0) {
        uint32_t head =
            atomic_load_explicit(&pools->marked, memory_order_relaxed);

        do {
            atomic_store_explicit(&slot->work_next, head, memory_order_relaxed);
            /* Publishes work_next: pairs with the exchange in wp_pools_run. */
        } while (!atomic_compare_exchange_weak_explicit(
            &pools->marked, &head, slot_index, memory_order_seq_cst,
            memory_order_relaxed));
    }
    wp_pools_wake(pools);
}

void
wp_pools_touch(struct wp_pool *pool)
{
    atomic_store_explicit(&pool->touched, true, memory_order_seq_cst);
    wp_pools_wake(pool->pools);
}

static void
record_reason(struct wp_pool *pool, char out[WP_REASON_MAX + 1],
              struct wp_str reason)
{
    size_t len = reason.len < WP_REASON_MAX ? reason.len : WP_REASON_MAX;

    (void)pthread_mutex_lock(&pool->wait_lock);
    if (len > 0) {
        memcpy(out, reason.ptr, len);
    }
    out[len] = '\0';
    (void)pthread_mutex_unlock(&pool->wait_lock);
}

void
wp_pool_record_failure(struct wp_pool *pool, struct wp_str reason)
{
    record_reason(pool, pool->last_failure, reason);
}

void
wp_pool_record_retired(struct wp_pool *pool, struct wp_str reason)
{
    record_reason(pool, pool->last_retired, reason);
}
