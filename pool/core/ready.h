/* pool/core/ready.h - the ready sandboxes of a pool: those that this replica
 * prefers first. Inline, since the warm path goes through it. */
#ifndef WP_POOL_CORE_READY_H
#define WP_POOL_CORE_READY_H

#include "pool/core/pools.h"

/* The next ready sandbox, moved to `to`: one that this replica prefers, else
 * any. Any thread. */
WP_MUST_CHECK static inline struct wp_slot_ref
wp_pools_pop(struct wp_pool *pool, enum wp_slot_state to)
{
    struct wp_slot_ref ref = wp_ready_queue_pop(&pool->ready, to);

    return ref.generation != 0 ? ref : wp_ready_queue_pop(&pool->others, to);
}

/* Appends a READY slot to its queue. Any thread. */
static inline void
wp_pools_push(struct wp_pool *pool, struct wp_slot_ref ref)
{
    wp_ready_queue_push(
        wp_pools_prefer(pool->pools, ref) ? &pool->ready : &pool->others, ref);
}

#endif
