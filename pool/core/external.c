/* pool/core/external.c - sandboxes that others see too.
 *
 * Where sandboxes are objects that other programs make, take and delete, the
 * backend must be able to end a lease, to give a sandbox up, to bring one in
 * that was not ordered here, and to hear which ones are leased. */
#include "pool/base/assert.h"
#include "pool/table/pools.h"

void
wp_pools_end(struct wp_pools *pools, struct wp_slot_ref ref)
{
    pthread_mutex_t *lock;
    enum wp_slot_state state;
    bool leased;

    if (!wp_pools_ref_is_ours(pools, ref)) {
        return;
    }
    lock = wp_pools_change_lock(pools, ref.index);
    (void)pthread_mutex_lock(lock);
    /* The lock keeps the slot from its next life, and from being offered again
     * with this word in it. */
    state = wp_slot_state(&pools->slots, ref);
    leased = state == WP_SLOT_LEASED || state == WP_SLOT_LOST ||
             state == WP_SLOT_QUARANTINED;
    if (leased) {
        (void)wp_slot_work_change(wp_slot_at(&pools->slots, ref.index),
                                  WP_WORK_ON_STOPPED);
    }
    (void)pthread_mutex_unlock(lock);
    if (leased) {
        wp_pools_mark(pools, ref.index);
    }
}

void
wp_pools_retire(struct wp_pools *pools, struct wp_slot_ref ref,
                struct wp_str reason)
{
    struct wp_slots *slots = &pools->slots;
    struct wp_slot_info info;
    struct wp_pool *pool;
    bool unwanted;
    bool asks;

    if (!wp_pools_ref_is_ours(pools, ref) || !wp_slot_read(slots, ref, &info)) {
        return;
    }
    pool = wp_pools_of_slot(pools, ref.index);
    asks = wp_pools_asks_first(pools, &info);
    /* It may become ready between the two. */
    if (wp_slot_move(slots, ref, WP_SLOT_WARMING,
                     asks ? WP_SLOT_QUARANTINED : WP_SLOT_DYING)) {
        unwanted = asks;
    } else {
        /* Another replica may have granted it: the store is asked first. */
        if (!wp_slot_move(slots, ref, WP_SLOT_READY,
                          pools->shared ? WP_SLOT_QUARANTINED
                                        : WP_SLOT_DYING)) {
            return;
        }
        unwanted = pools->shared;
    }
    wp_counter_add(&pool->retired, 1);
    wp_pool_record_retired(pool, reason);
    wp_pools_mark_on(pools, ref.index,
                     unwanted ? WP_WORK_ON_UNWANTED : WP_WORK_ON_LIST);
    wp_pools_touch(pool);
}

void
wp_pools_retire_idle(struct wp_pools *pools, uint32_t pool_index,
                     struct wp_str reason)
{
    struct wp_slots *slots = &pools->slots;

    for (uint32_t i = 0; i < wp_slots_used_max(slots); i++) {
        struct wp_slot_ref ref = wp_slot_ref_at(slots, i);
        enum wp_slot_state state = wp_slot_state(slots, ref);

        if ((state == WP_SLOT_READY || state == WP_SLOT_WARMING) &&
            wp_pools_of_slot(pools, i)->index == pool_index) {
            wp_pools_retire(pools, ref, reason);
        }
    }
}

bool
wp_pools_found(struct wp_pools *pools, uint32_t pool_index,
               const uint8_t uid[WP_UID_LEN], struct wp_str name,
               struct wp_slot_ref *ref)
{
    struct wp_pool *pool;
    struct wp_str suffix;

    WP_ASSERT(pools->config.backend.ops->foreign);
    if (wp_pools_seen(pools, uid, ref)) {
        return true;
    }
    if (pool_index >= wp_pools_count(pools)) {
        return false;
    }
    pool = wp_pools_at(pools, pool_index);
    if (atomic_load_explicit(&pool->removed, memory_order_relaxed) ||
        !wp_pools_suffix_of(pool, name, &suffix)) {
        return false;
    }
    *ref = wp_pools_alloc_slot(pools, pool, uid, WP_CREATED_ELSEWHERE);
    if (ref->generation == 0) {
        return false;
    }
    wp_slot_set_suffix(&pools->slots, *ref, suffix);
    wp_slot_map_add(&pools->map, wp_pools_map_hash(pools, name), ref->index);
    wp_pools_touch(pool);
    return true;
}
