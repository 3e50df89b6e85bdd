/* pool/grant/leave.c - claims whose client goes: withdrawn while they wait,
 * taken back once they are granted. */
#include "pool/base/assert.h"
#include "pool/base/mutant.h"
#include "pool/grant/claim_way.h"

bool
wp_pools_cancel(struct wp_pools *pools, struct wp_claim *claim)
{
    struct wp_pool *pool = wp_claim_pool(claim);
    uint32_t phase;

    (void)pools;
    if (pool == NULL) {
        return false;
    }
    (void)pthread_mutex_lock(&pool->wait_lock);
    phase = claim->phase;
    if (phase == WP_PHASE_WAITING) {
        bool removed = wp_wait_queue_remove(&pool->waiters, claim);

        WP_ASSERT(removed);
        wp_claim_count_waiting(pool);
    } else if (phase == WP_PHASE_FOLLOWING ||
               phase == WP_PHASE_AWAITING_STORE) {
        wp_list_remove(&claim->followers);
    }
    claim->phase = WP_PHASE_BUSY;
    if (phase == WP_PHASE_BUSY) {
        /* Whatever it comes to next, it gets no further. */
        atomic_store_explicit(&claim->left, true, memory_order_relaxed);
    }
    (void)pthread_mutex_unlock(&pool->wait_lock);
    if (phase == WP_PHASE_BUSY) {
        return false;
    }
    if (phase == WP_PHASE_WAITING ||
        (phase == WP_PHASE_AWAITING_STORE && !claim->confirms)) {
        wp_claim_give_up(claim);
        wp_pools_touch(pool);
    }
    (void)wp_claim_answer(claim, WP_CANCELLED, WP_REASON_LEFT);
    return true;
}

void
wp_pools_undo(struct wp_pools *pools, const struct wp_claim *claim)
{
    struct wp_slot_ref ref = claim->grant.ref;
    struct wp_slot *slot = wp_slot_at(&pools->slots, ref.index);
    pthread_mutex_t *lock = wp_pools_change_lock(pools, ref.index);
    bool undone = false;

    if (claim->status != WP_OK || (claim->replayed && !claim->may_leave) ||
        (pools->shared && WP_MUTANT(NOT_UNDONE_ACROSS_REPLICAS))) {
        return;
    }
    (void)pthread_mutex_lock(lock);
    /* The lock keeps the lease from ending, and so the work bit from reaching
     * the slot's next life. Whether another replica has shown the lease to a
     * repeat of the claim, the store knows: then it comes back (lease_end.c,
     * superseded). */
    if (wp_slot_state(&pools->slots, ref) == WP_SLOT_LEASED &&
        atomic_load_explicit(&slot->fence, memory_order_relaxed) ==
            claim->grant.fence &&
        (WP_MUTANT(UNDONE_THOUGH_SHOWN)
             ? wp_claim_table_end(&pools->claims,
                                  wp_claim_ref_unpack(claim->entry), NULL)
             : wp_claim_table_leave(&pools->claims,
                                    wp_claim_ref_unpack(claim->entry)))) {
        /* Another claim must not find what was bound. */
        (void)wp_slot_work_change(slot,
                                  claim->bound && !WP_MUTANT(BOUND_OFFERED)
                                      ? WP_WORK_ON_STOPPED
                                      : WP_WORK_ON_UNDONE);
        undone = true;
    }
    (void)pthread_mutex_unlock(lock);
    if (undone) {
        wp_counter_add(&wp_claim_pool(claim)->undone, 1);
        wp_pools_mark(pools, ref.index);
    }
}
