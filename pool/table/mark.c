/* pool/table/mark.c - what any thread leaves for the control thread: slots and
 * pools to look at, reasons for people. */
#include <string.h>

#include "pool/table/pools.h"

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
wp_pools_mark(struct wp_pools *pools, uint32_t slot_index)
{
    struct wp_slot *slot = wp_slot_at(&pools->slots, slot_index);

    if (wp_slot_work_change(slot, WP_WORK_ON_LIST)) {
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
wp_pools_mark_on(struct wp_pools *pools, uint32_t slot_index,
                 enum wp_work_event event)
{
    if (event != WP_WORK_ON_LIST) {
        (void)wp_slot_work_change(wp_slot_at(&pools->slots, slot_index), event);
    }
    wp_pools_mark(pools, slot_index);
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
    (void)pthread_mutex_lock(&pool->wait_lock);
    (void)wp_str_make_printable(reason, out, WP_REASON_MAX + 1);
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

void
wp_pools_look_again(struct wp_pools *pools)
{
    /* seq_cst: control looks at it before it sleeps. */
    atomic_store_explicit(&pools->answers_due, true, memory_order_seq_cst);
}

bool
wp_pools_answers_due(struct wp_pools *pools)
{
    return atomic_exchange_explicit(&pools->answers_due, false,
                                    memory_order_seq_cst);
}
