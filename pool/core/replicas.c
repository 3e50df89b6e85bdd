/* pool/core/replicas.c - a replica among others: which sandboxes it prefers,
 * what it keeps, what it tells a store that has forgotten. */
#include "pool/base/assert.h"
#include "pool/base/mutant.h"
#include "pool/core/control.h"
#include "pool/grant/grant.h"
#include "pool/records/records.h"
#include "pool/table/pools.h"

/* Into zeroed memory: what is behind a text is never told. */
#define COPY_TEXT(to, from) memcpy(to, from, strlen(from) + 1)

/* --- A store that tells all it has, or has forgotten --- */

static bool
is_of_pool(struct wp_pools *pools, uint32_t index, uint32_t pool_index)
{
    return atomic_load_explicit(&wp_slot_at(&pools->slots, index)->pool_index,
                                memory_order_relaxed) == pool_index;
}

void
wp_pools_sync_begin(struct wp_pools *pools, uint32_t pool_index)
{
    for (uint32_t i = 0; i < wp_slots_used_max(&pools->slots); i++) {
        if (is_of_pool(pools, i, pool_index) &&
            wp_slot_state(&pools->slots, wp_slot_ref_at(&pools->slots, i)) !=
                WP_SLOT_FREE) {
            (void)wp_slot_control_change(wp_slot_at(&pools->slots, i),
                                         WP_CONTROL_ON_SYNC_BEGUN);
        }
    }
}

void
wp_pools_sync_end(struct wp_pools *pools, uint32_t pool_index)
{
    static const struct wp_lease_record none = {.state = WP_RECORD_NONE};

    for (uint32_t i = 0; i < wp_slots_used_max(&pools->slots); i++) {
        struct wp_slot *slot = wp_slot_at(&pools->slots, i);
        struct wp_slot_ref ref = wp_slot_ref_at(&pools->slots, i);

        if (is_of_pool(pools, i, pool_index) &&
            wp_slot_control_change(slot, WP_CONTROL_ON_SYNCED) &&
            wp_slot_state(&pools->slots, ref) != WP_SLOT_FREE) {
            wp_records_apply(pools, ref, &none);
        }
    }
    wp_pools_at(pools, pool_index)->unread = false;
}

/* The claim's part of a record. False when it is just changing. */
static bool
tell_lease(struct wp_pools *pools, struct wp_slot_ref ref,
           const struct wp_slot_info *info, struct wp_lease_record *out)
{
    struct wp_claim_view view;

    if (!wp_pools_claim_of(pools, ref, &view)) {
        return false;
    }
    out->state = info->state == WP_SLOT_LOST ? WP_RECORD_LOST : WP_RECORD_HELD;
    out->deadline_wall_ms = atomic_load_explicit(
        &wp_slot_at(&pools->slots, ref.index)->deadline_wall_ms,
        memory_order_relaxed);
    out->granted_wall_ms = view.granted_wall_ms;
    out->fingerprint = view.fingerprint;
    out->served = view.served;
    COPY_TEXT(out->claim_id, view.claim_id);
    COPY_TEXT(out->tenant, view.tenant);
    COPY_TEXT(out->lost_reason, info->lost_reason);
    return true;
}

/* False when there is nothing to tell of it. */
static bool
tell(struct wp_pools *pools, const struct wp_pool *pool, struct wp_slot_ref ref,
     bool retire_idle, struct wp_lease_record *out)
{
    struct wp_slot *slot = wp_slot_at(&pools->slots, ref.index);
    bool keeper = atomic_load_explicit(&pools->keeper, memory_order_relaxed);
    struct wp_slot_info info;

    if (!wp_slot_read(&pools->slots, ref, &info)) {
        return false;
    }
    memset(out, 0, sizeof *out);
    memcpy(out->uid, info.uid, sizeof out->uid);
    out->fence = atomic_load_explicit(&slot->fence, memory_order_relaxed);
    COPY_TEXT(out->pool_namespace, pool->spec.pool_namespace);
    COPY_TEXT(out->pool, pool->spec.name);
    wp_pools_sandbox_name(pool, info.suffix, out->sandbox);
    COPY_TEXT(out->endpoint, info.endpoint);
    if (info.state == WP_SLOT_LEASED || info.state == WP_SLOT_LOST) {
        if (tell_lease(pools, ref, &info, out)) {
            return true;
        }
        /* Should it be nobody's after all, the store is asked: it may have no
         * record of it. */
        if (keeper) {
            (void)wp_slot_control_change(slot, WP_CONTROL_ON_RECORD_UNUSED);
        }
        /* What a claim brought is in it, and nobody was shown it: nobody else
         * may have it. */
        out->state = WP_RECORD_ENDED;
        return wp_slot_has_work(slot, WP_WORK_STOP);
    }
    if (info.state == WP_SLOT_READY && keeper) {
        out->state = WP_RECORD_OPEN;
        if (retire_idle) {
            /* A claim that takes it this moment is told TAKEN. And one that
             * another replica was given may be unheard here: the store has the
             * last word, once it is open. */
            bool retired =
                wp_slot_move(&pools->slots, ref, WP_SLOT_READY,
                             WP_MUTANT(RETIRED_UNASKED) ? WP_SLOT_DYING
                                                        : WP_SLOT_QUARANTINED);

            out->state = WP_RECORD_ENDED;
            wp_pools_mark_on(pools, ref.index,
                             retired ? WP_WORK_ON_UNWANTED : WP_WORK_ON_LIST);
        }
        return true;
    }
    if (info.state != WP_SLOT_DYING) {
        return false;
    }
    out->state = WP_RECORD_ENDED;
    (void)wp_slot_control_change(slot, WP_CONTROL_ON_REWRITE);
    return true;
}

uint32_t
wp_pools_known_records(struct wp_pools *pools, uint32_t pool_index,
                       bool retire_idle, uint32_t *cursor,
                       struct wp_lease_record *out, uint32_t max)
{
    uint32_t end = wp_slots_used_max(&pools->slots);
    uint32_t count = 0;
    uint32_t i = *cursor;

    for (; i < end && count < max; i++) {
        if (is_of_pool(pools, i, pool_index) &&
            tell(pools, wp_pools_at(pools, pool_index),
                 wp_slot_ref_at(&pools->slots, i), retire_idle, &out[count])) {
            count++;
        }
    }
    *cursor = i < end ? i : 0;
    return count;
}

/* --- The keeper --- */

bool
wp_pools_knows(struct wp_pools *pools, const uint8_t uid[WP_UID_LEN])
{
    struct wp_slot_ref ref = wp_pools_find_uid(pools, uid);

    return ref.generation != 0 &&
           wp_slot_state(&pools->slots, ref) != WP_SLOT_DYING;
}

bool
wp_pools_ends(struct wp_pools *pools, const uint8_t uid[WP_UID_LEN])
{
    struct wp_slot_ref ref = wp_pools_find_uid(pools, uid);

    /* Acquire: paired with the release in wp_pools_on_destroyed. */
    return ref.generation != 0 &&
           atomic_load_explicit(&wp_slot_at(&pools->slots, ref.index)->gone,
                                memory_order_acquire) == ref.generation;
}

/* What was held back enters its queue, whatever has become of it: a slot that
 * was READY once is expected there. */
static void
let_go(struct wp_pools *pools, struct wp_slot_ref ref)
{
    if (wp_slot_control_change(wp_slot_at(&pools->slots, ref.index),
                               WP_CONTROL_ON_LET_GO)) {
        wp_pools_offer(wp_pools_of_slot(pools, ref.index), ref);
    }
}

bool
wp_pools_seen(struct wp_pools *pools, const uint8_t uid[WP_UID_LEN],
              struct wp_slot_ref *ref)
{
    *ref = wp_pools_find_uid(pools, uid);
    if (ref->generation == 0) {
        return false;
    }
    (void)wp_slot_control_change(wp_slot_at(&pools->slots, ref->index),
                                 WP_CONTROL_ON_SOUGHT);
    let_go(pools, *ref);
    return true;
}

void
wp_pools_hold_unseen(struct wp_pools *pools)
{
    atomic_store_explicit(&pools->holds_unseen, true, memory_order_relaxed);
}

void
wp_pools_lose_unseen(struct wp_pools *pools)
{
    pools->swept = true;
    for (uint32_t i = 0; i < wp_pools_count(pools); i++) {
        wp_pools_at(pools, i)->unread = false;
    }
    atomic_store_explicit(&pools->holds_unseen, false, memory_order_relaxed);
    for (uint32_t i = 0; i < wp_slots_used_max(&pools->slots); i++) {
        struct wp_slot *slot = wp_slot_at(&pools->slots, i);
        struct wp_slot_ref ref = wp_slot_ref_at(&pools->slots, i);

        if (wp_slot_state(&pools->slots, ref) == WP_SLOT_FREE ||
            !wp_slot_control_change(slot, WP_CONTROL_ON_SOUGHT)) {
            continue;
        }
        /* Nothing is left of it, so the backend is not asked to destroy it. */
        atomic_store_explicit(&slot->gone, ref.generation,
                              memory_order_release);
        wp_pools_on_lost(pools, ref,
                         WP_STR("it was gone when the daemon came back"));
        let_go(pools, ref);
    }
}

void
wp_pools_set_keeper(struct wp_pools *pools, bool keeper)
{
    atomic_store_explicit(&pools->keeper, keeper, memory_order_relaxed);
    pools->swept = pools->swept && keeper;
    if (keeper) {
        wp_reported_leases_forget(pools);
    }
    /* What waited for a keeper is looked at. */
    for (uint32_t i = 0; i < wp_slots_used_max(&pools->slots); i++) {
        if (wp_slot_state(&pools->slots, wp_slot_ref_at(&pools->slots, i)) !=
            WP_SLOT_FREE) {
            wp_pools_mark(pools, i);
        }
    }
    for (uint32_t i = 0; i < wp_pools_count(pools); i++) {
        wp_pools_touch(wp_pools_at(pools, i));
    }
}
