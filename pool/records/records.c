/* pool/records/records.c - what a durable store's records say of sandboxes.
 *
 * At start, and for as long as other replicas write to the same store, records
 * become slots: OPEN ones are ready, HELD ones are leased with their claim in
 * the table, so that any replica answers for them from memory. The store stays
 * the arbiter: a copy may be late, and then a grant here is TAKEN.
 *
 * A slot that a claim of this replica has just taken, and whose lease the store
 * is being asked for, is left alone: the store's answer tells. */
#include <string.h>

#include "pool/base/assert.h"
#include "pool/base/mutant.h"
#include "pool/grant/grant.h"
#include "pool/leases/rules.h"
#include "pool/records/records.h"
#include "pool/table/ready.h"

/* What a lease of another process lasts longer here: its clock may differ. With
 * what expiry itself takes, no lease lasts a second longer than shown. */
#define CLOCK_SLACK_NS (500 * WP_NS_PER_MS)

/* --- Leases --- */

/* A claim has one lease at a time. Of another one that is known here, and was
 * granted before that moment, the end has not been heard yet: the store is
 * asked who has that sandbox. */
static void
leave_past_lease(struct wp_pools *pools, struct wp_hash128 claim_hash,
                 struct wp_slot_ref ref, int64_t granted_wall_ms)
{
    struct wp_claim_ref claim;
    struct wp_claim_view view;

    if (wp_claim_table_find(&pools->claims, claim_hash, &claim) &&
        wp_claim_table_read(&pools->claims, claim, &view) && view.held &&
        !wp_slot_ref_eq(view.slot, ref) &&
        view.granted_wall_ms < granted_wall_ms) {
        wp_pools_doubt_lease(pools, view.slot);
    }
}

/* Has the record's claim lead to the slot. An id that is pending here, or a
 * full table: its claim, or the next question for it, will bring the store's
 * answer. */
static void
lead_claim(struct wp_pools *pools, const struct wp_pool *pool,
           struct wp_slot_ref ref, const struct wp_lease_record *record)
{
    struct wp_claim_key key = {
        .fingerprint = record->fingerprint,
        .claim_id = wp_str_from(record->claim_id),
        .tenant = wp_str_from(record->tenant),
        .pool_index = pool->index,
    };
    struct wp_claim_ref claim;

    key.hash = wp_claim_hash(pools->config.hash_key, key.tenant, key.claim_id);
    leave_past_lease(pools, key.hash, ref, record->granted_wall_ms);
    if (wp_claim_table_begin(&pools->claims, &key, &claim) != WP_CLAIM_NEW) {
        return;
    }
    atomic_store_explicit(&wp_slot_at(&pools->slots, ref.index)->claim_entry,
                          claim.index, memory_order_relaxed);
    if (wp_claim_table_hold(&pools->claims, claim, ref, record->granted_wall_ms,
                            record->served)) {
        wp_claim_notify_followers(wp_pools_at(pools, pool->index),
                                  wp_claim_ref_pack(claim), NULL);
    }
    (void)!wp_claim_table_share(&pools->claims, claim);
}

/* Writes the record's lease into the slot, which is LEASED, and has the claim
 * lead to it. */
static void
set_lease(struct wp_pools *pools, const struct wp_pool *pool,
          struct wp_slot_ref ref, const struct wp_lease_record *record)
{
    struct wp_slot *slot = wp_slot_at(&pools->slots, ref.index);
    int64_t now = wp_pools_now(pools);
    int64_t deadline =
        wp_pools_deadline_ns(pools, now, record->deadline_wall_ms);
    pthread_mutex_t *lock = wp_pools_change_lock(pools, ref.index);

    (void)wp_slot_control_change(slot, WP_CONTROL_ON_LEASE_READ);
    /* A renewal here may be answered at this moment: the deadline that control
     * acts on and the one that it tells the store are of one lease. */
    (void)pthread_mutex_lock(lock);
    atomic_store_explicit(&slot->fence, record->fence, memory_order_relaxed);
    atomic_store_explicit(
        &slot->deadline_ns,
        wp_time_add(deadline, pools->shared ? CLOCK_SLACK_NS : 0),
        memory_order_relaxed);
    atomic_store_explicit(&slot->deadline_wall_ms, record->deadline_wall_ms,
                          memory_order_relaxed);
    (void)pthread_mutex_unlock(lock);
    lead_claim(pools, pool, ref, record);
    wp_pools_mark(pools, ref.index);
}

static void
lose(struct wp_pools *pools, struct wp_slot_ref ref, const char *reason)
{
    if (wp_slot_lose(&pools->slots, ref, wp_str_from(reason))) {
        wp_pools_mark(pools, ref.index);
    }
}

/* --- A record of a sandbox that has no slot yet --- */

static void
refuse_record(struct wp_pools *pools)
{
    (void)atomic_fetch_add_explicit(&pools->records_refused, 1,
                                    memory_order_relaxed);
}

/* A pool that came after the sandboxes were counted. A foreign backend may have
 * some of it: it hears of their leases, and says if they are gone. */
static bool
hears_of_late(const struct wp_pools *pools, const struct wp_pool *pool,
              const struct wp_lease_record *record)
{
    const struct wp_backend_ops *ops = pools->config.backend.ops;

    return pool->unread && wp_record_is_claimed(record->state) &&
           ops->foreign && ops->leased != NULL;
}

static void
restore(struct wp_pools *pools, struct wp_pool *pool,
        const struct wp_lease_record *record)
{
    int64_t now = wp_pools_now(pools);
    struct wp_str endpoint = wp_str_from(record->endpoint);
    bool serves =
        record->state == WP_RECORD_OPEN || record->state == WP_RECORD_HELD;
    struct wp_slot_ref ref;
    struct wp_str suffix;
    struct wp_slot *slot;
    bool moved = false;

    if (!wp_pools_suffix_of(pool, wp_str_from(record->sandbox), &suffix) ||
        (serves && endpoint.len == 0)) {
        refuse_record(pools);
        return;
    }
    /* A replica keeps no endpoint of what is over, and may have had to tell the
     * store of it anew. Whatever stands here, a lost one's reason replaces. */
    endpoint = endpoint.len > 0 ? endpoint : WP_STR("gone");
    ref = wp_pools_alloc_slot(pools, pool, record->uid, now);
    if (ref.generation == 0) {
        refuse_record(pools);
        return;
    }
    slot = wp_slot_at(&pools->slots, ref.index);
    (void)wp_slot_control_change(slot, WP_CONTROL_ON_RESTORED);
    wp_slot_set_suffix(&pools->slots, ref, suffix);
    wp_slot_map_add(&pools->map,
                    wp_pools_map_hash(pools, wp_str_from(record->sandbox)),
                    ref.index);
    atomic_store_explicit(&slot->fence, record->fence, memory_order_relaxed);
    if (pools->swept && !hears_of_late(pools, pool, record)) {
        /* Old news of a sandbox that is forgotten, or the last words of a
         * keeper that is gone: nothing is left of it but perhaps the record. */
        moved =
            wp_slot_move(&pools->slots, ref, WP_SLOT_WARMING, WP_SLOT_DYING);
        WP_ASSERT(moved);
        atomic_store_explicit(&slot->gone, ref.generation,
                              memory_order_release);
        wp_pools_mark_on(pools, ref.index, WP_WORK_ON_LEASED_GONE);
        return;
    }
    switch (record->state) {
    case WP_RECORD_OPEN:
        moved = wp_slot_make_ready(&pools->slots, ref, endpoint, now);
        if (wp_pools_holds_unseen(pools) && !WP_MUTANT(UNSEEN_OFFERED)) {
            (void)wp_slot_control_change(slot, WP_CONTROL_ON_HOLD_BACK);
        } else {
            wp_pools_offer(pool, ref);
        }
        break;
    case WP_RECORD_HELD:
    case WP_RECORD_LOST:
        moved = wp_slot_restore_leased(&pools->slots, ref, endpoint, now);
        set_lease(pools, pool, ref, record);
        if (record->state == WP_RECORD_LOST) {
            lose(pools, ref, record->lost_reason);
        }
        break;
    case WP_RECORD_ENDED:
    case WP_RECORD_NONE:
        if (WP_MUTANT(USED_ADOPTED)) {
            moved = wp_slot_make_ready(&pools->slots, ref, endpoint, now);
            wp_pools_mark_on(pools, ref.index, WP_WORK_ON_ANSWERS);
            break;
        }
        moved =
            wp_slot_move(&pools->slots, ref, WP_SLOT_WARMING, WP_SLOT_DYING);
        wp_pools_mark(pools, ref.index);
        break;
    }
    WP_ASSERT(moved); /* Nobody else knew the slot. */
}

/* --- A record of a sandbox that has one --- */

bool
wp_records_is_of(const struct wp_lease_record *record,
                 const struct wp_claim_view *claim)
{
    return strcmp(claim->claim_id, record->claim_id) == 0 &&
           strcmp(claim->tenant, record->tenant) == 0;
}

/* The lease of a slot that is held ends, and with it the sandbox: where records
 * are shared what somebody held is offered to nobody else (lease_end.c). */
static void
end_copied(struct wp_pools *pools, struct wp_slot_ref ref,
           const struct wp_lease_record *record)
{
    pthread_mutex_t *lock = wp_pools_change_lock(pools, ref.index);
    bool ended;

    (void)pthread_mutex_lock(lock);
    ended = wp_pools_end_held(pools, ref);
    (void)pthread_mutex_unlock(lock);
    (void)ended; /* Or an end of ours was faster. */
    wp_pools_mark_on(pools, ref.index,
                     record->state == WP_RECORD_NONE ? WP_WORK_ON_NO_RECORD
                                                     : WP_WORK_ON_LIST);
}

/* The slot is LEASED or LOST, and not by a claim that the store is being asked
 * for. */
static void
apply_to_held(struct wp_pools *pools, struct wp_pool *pool,
              struct wp_slot_ref ref, const struct wp_lease_record *record)
{
    struct wp_slot *slot = wp_slot_at(&pools->slots, ref.index);
    uint64_t fence = atomic_load_explicit(&slot->fence, memory_order_relaxed);
    pthread_mutex_t *lock = wp_pools_change_lock(pools, ref.index);
    struct wp_claim_view view;
    bool other;

    if (record->state != WP_RECORD_NONE && record->fence < fence) {
        return;
    }
    if (!wp_record_is_claimed(record->state)) {
        end_copied(pools, ref, record);
        return;
    }
    if (wp_slot_state(&pools->slots, ref) != WP_SLOT_LEASED) {
        return;
    }
    (void)pthread_mutex_lock(lock);
    other = wp_pools_claim_of(pools, ref, &view) &&
            (record->fence > fence || !wp_records_is_of(record, &view));
    if (other) {
        /* That lease is over: what came between was missed, or the store has
         * forgotten it and given its fence to another claim. */
        bool mine = wp_claim_table_end(&pools->claims, view.ref, NULL);

        (void)mine;
    }
    (void)pthread_mutex_unlock(lock);
    /* Of one lease the latest deadline counts: a store that forgot a renewal
     * does not shorten what its holder was told. */
    if (other || record->fence > fence ||
        record->deadline_wall_ms > atomic_load_explicit(&slot->deadline_wall_ms,
                                                        memory_order_relaxed)) {
        set_lease(pools, pool, ref, record);
    } else if (!wp_pools_claim_of(pools, ref, &view)) {
        lead_claim(pools, pool, ref, record); /* It had another lease here. */
    }
    if (record->state == WP_RECORD_LOST) {
        lose(pools, ref, record->lost_reason);
    }
}

static void
apply_to_ready(struct wp_pools *pools, struct wp_pool *pool,
               struct wp_slot_ref ref, const struct wp_lease_record *record)
{
    struct wp_slot *slot = wp_slot_at(&pools->slots, ref.index);
    uint64_t fence = atomic_load_explicit(&slot->fence, memory_order_relaxed);
    bool keeper = atomic_load_explicit(&pools->keeper, memory_order_relaxed);

    /* Each move may lose against a claim here: then that one is told. */
    switch (record->state) {
    case WP_RECORD_HELD:
    case WP_RECORD_LOST:
        if (record->fence > fence &&
            wp_slot_move(&pools->slots, ref, WP_SLOT_READY, WP_SLOT_LEASED)) {
            pool->granted_elsewhere++;
            set_lease(pools, pool, ref, record);
            if (record->state == WP_RECORD_LOST) {
                lose(pools, ref, record->lost_reason);
            }
            wp_pools_touch(pool);
        }
        break;
    case WP_RECORD_ENDED:
        if (record->fence > fence &&
            wp_slot_move(&pools->slots, ref, WP_SLOT_READY, WP_SLOT_DYING)) {
            /* The feed tells the latest only: it was granted, too. */
            pool->granted_elsewhere++;
            wp_pools_mark(pools, ref.index);
        } else if (record->fence == fence &&
                   wp_slot_move(&pools->slots, ref, WP_SLOT_READY,
                                pools->durable ? WP_SLOT_QUARANTINED
                                               : WP_SLOT_DYING)) {
            /* It is not wanted any more. But when the store has forgotten
             * something, who says so may not have heard of a grant, and who
             * granted it tells later: the store has the last word. */
            wp_pools_mark(pools, ref.index);
        }
        break;
    case WP_RECORD_NONE:
        if (!keeper &&
            wp_slot_move(&pools->slots, ref, WP_SLOT_READY, WP_SLOT_DYING)) {
            wp_pools_mark_on(pools, ref.index, WP_WORK_ON_NO_RECORD);
        }
        break;
    case WP_RECORD_OPEN:
        /* Granted and undone meanwhile. A claim that takes it now, with an
         * older fence, is told. */
        while (fence < record->fence &&
               !atomic_compare_exchange_weak_explicit(
                   &slot->fence, &fence, record->fence, memory_order_relaxed,
                   memory_order_relaxed)) {
        }
        break;
    }
}

/* A sandbox that was found, not ordered, may have had a lease before this
 * replica saw it. One that was ordered here has no record yet. */
static void
apply_to_warming(struct wp_pools *pools, struct wp_pool *pool,
                 struct wp_slot_ref ref, const struct wp_lease_record *record)
{
    struct wp_slot_info info;

    if (!wp_slot_read(&pools->slots, ref, &info) ||
        info.created_ns != WP_CREATED_ELSEWHERE) {
        return;
    }
    if (wp_record_is_claimed(record->state)) {
        struct wp_str endpoint = wp_str_from(record->endpoint);

        /* It may become ready at this moment: then it is offered, and the store
         * says who has it. */
        if (wp_slot_restore_leased(&pools->slots, ref,
                                   endpoint.len > 0 ? endpoint : WP_STR("gone"),
                                   wp_pools_now(pools))) {
            set_lease(pools, pool, ref, record);
            if (record->state == WP_RECORD_LOST) {
                lose(pools, ref, record->lost_reason);
            }
            wp_pools_touch(pool);
        }
    } else if (record->state == WP_RECORD_ENDED &&
               wp_slot_move(&pools->slots, ref, WP_SLOT_WARMING,
                            WP_SLOT_DYING)) {
        wp_pools_mark(pools, ref.index);
    }
}

/* A lease that a claim here holds or that a record told of; not one that the
 * store is being asked for. */
static bool
is_settled(struct wp_pools *pools, struct wp_slot_ref ref)
{
    struct wp_claim_view view;

    return wp_slot_state(&pools->slots, ref) == WP_SLOT_LOST ||
           wp_slot_has_control(wp_slot_at(&pools->slots, ref.index),
                               WP_CONTROL_FROM_RECORD) ||
           wp_pools_claim_of(pools, ref, &view);
}

void
wp_records_apply(struct wp_pools *pools, struct wp_slot_ref ref,
                 const struct wp_lease_record *record)
{
    struct wp_pool *pool = wp_pools_of_slot(pools, ref.index);
    struct wp_slot *slot = wp_slot_at(&pools->slots, ref.index);
    bool keeper = atomic_load_explicit(&pools->keeper, memory_order_relaxed);

    switch (wp_slot_state(&pools->slots, ref)) {
    case WP_SLOT_READY:
        apply_to_ready(pools, pool, ref, record);
        break;
    case WP_SLOT_LEASED:
    case WP_SLOT_LOST:
        if (!is_settled(pools, ref)) {
            (void)wp_slot_control_change(slot, WP_CONTROL_ON_RECORD_UNUSED);
        } else if (record->state != WP_RECORD_NONE || !keeper) {
            apply_to_held(pools, pool, ref, record);
        }
        break;
    case WP_SLOT_QUARANTINED:
        (void)wp_slot_control_change(slot, WP_CONTROL_ON_RECORD_UNUSED);
        /* It is freed when what is being asked is answered. */
        if (record->state == WP_RECORD_NONE && !keeper) {
            wp_pools_mark_on(pools, ref.index, WP_WORK_ON_NO_RECORD);
        }
        break;
    case WP_SLOT_DYING:
        if (record->state == WP_RECORD_NONE && !keeper) {
            wp_pools_mark_on(pools, ref.index, WP_WORK_ON_NO_RECORD);
        }
        break;
    case WP_SLOT_WARMING:
        apply_to_warming(pools, pool, ref, record);
        break;
    case WP_SLOT_FREE:
    case WP_SLOT_STATE_COUNT:
        break;
    }
}

void
wp_pools_on_record(struct wp_pools *pools, const struct wp_lease_record *record)
{
    struct wp_slot_ref ref = wp_pools_find_uid(pools, record->uid);
    uint32_t index;

    if (ref.generation != 0) {
        (void)wp_slot_control_change(wp_slot_at(&pools->slots, ref.index),
                                     WP_CONTROL_ON_SYNCED);
        wp_records_apply(pools, ref, record);
        return;
    }
    if (record->state == WP_RECORD_NONE) {
        return;
    }
    /* Here its pool may have been removed before others know of that: whoever
     * is the keeper next must know of leases that they still grant. */
    index = wp_pools_index_of_records(
        pools, wp_str_from(record->pool_namespace), wp_str_from(record->pool));
    if (index == UINT32_MAX) {
        refuse_record(pools);
        return;
    }
    restore(pools, wp_pools_at(pools, index), record);
}

uint64_t
wp_pools_records_refused(const struct wp_pools *pools)
{
    return atomic_load_explicit(&pools->records_refused, memory_order_relaxed);
}

/* --- What a FETCH brought --- */

/* A lease was over before the store was asked for it. A claim here that came
 * too late has written into the slot the very fence that the other one got;
 * what nobody was granted has none. */
static bool
was_granted(struct wp_pools *pools, const struct wp_store_request *request)
{
    const struct wp_slot *slot =
        wp_slot_at(&pools->slots, request->op.ref.index);

    return request->status == WP_OK && request->found.fence > 0 &&
           request->found.fence >=
               atomic_load_explicit(&slot->fence, memory_order_relaxed);
}

/* The lease that the store tells of is of the claim here whose answer was lost,
 * and nobody else has renewed it since. */
static bool
is_unshown(struct wp_pools *pools, const struct wp_slot *slot,
           const struct wp_lease_record *record)
{
    struct wp_hash128 hash;

    if (record->state != WP_RECORD_HELD ||
        wp_record_mark(record->served) != pools->grant_mark ||
        record->fence !=
            atomic_load_explicit(&slot->fence, memory_order_relaxed) ||
        record->deadline_wall_ms !=
            atomic_load_explicit(&slot->deadline_wall_ms,
                                 memory_order_relaxed)) {
        return false;
    }
    hash = wp_claim_hash(pools->config.hash_key, wp_str_from(record->tenant),
                         wp_str_from(record->claim_id));
    return wp_pools_doubted_claim(&hash) ==
           atomic_load_explicit(&slot->claim_entry, memory_order_relaxed);
}

/* True: it is taken back, and looked at again. */
static bool
take_back(struct wp_pools *pools, struct wp_slot_ref ref,
          const struct wp_lease_record *record)
{
    struct wp_slot *slot = wp_slot_at(&pools->slots, ref.index);

    if (!wp_slot_has_work(slot, WP_WORK_UNDO)) {
        return false;
    }
    if (!is_unshown(pools, slot, record)) {
        /* An open one: the grant may still be on its way to the store. */
        if (record->state != WP_RECORD_OPEN) {
            (void)wp_slot_work_change(slot, WP_WORK_ON_UNDO_OVER);
        }
        return false;
    }
    if (!wp_store_request_send(pools, ref, WP_LEASE_EXPIRE)) {
        wp_pools_mark_on(pools, ref.index, WP_WORK_ON_ASK_LATER);
    }
    return true;
}

/* The store was asked who holds a sandbox in doubt. */
void
wp_records_settle_doubt(struct wp_pools *pools, struct wp_slot_ref ref,
                        const struct wp_store_request *request)
{
    struct wp_pool *pool = wp_pools_of_slot(pools, ref.index);
    struct wp_slot *slot = wp_slot_at(&pools->slots, ref.index);
    const struct wp_lease_record *record = &request->found;
    bool moved;

    if (request->status == WP_OK && take_back(pools, ref, record)) {
        return;
    }
    if (request->status == WP_OK && wp_record_is_claimed(record->state)) {
        moved = wp_slot_move(&pools->slots, ref, WP_SLOT_QUARANTINED,
                             WP_SLOT_LEASED);
        WP_ASSERT(moved);          /* Only control moves a slot in doubt. */
        pool->granted_elsewhere++; /* Or here, by a claim that was refused. */
        set_lease(pools, pool, ref, record);
        if (record->state == WP_RECORD_LOST) {
            (void)wp_slot_work_change(slot, WP_WORK_ON_TAKE_DEAD);
            lose(pools, ref, record->lost_reason);
        } else if (wp_slot_has_work(slot, WP_WORK_DEAD) &&
                   wp_slot_lose(&pools->slots, ref, WP_STR("it died"))) {
            wp_pools_mark(pools, ref.index);
        }
    } else if (request->status == WP_OK && record->state == WP_RECORD_OPEN) {
        /* It may have been meant for somebody: nobody gets it now (I6). */
        wp_pools_mark_on(pools, ref.index, WP_WORK_ON_UNWANTED);
    } else {
        moved = wp_slot_move(&pools->slots, ref, WP_SLOT_QUARANTINED,
                             WP_SLOT_DYING);
        WP_ASSERT(moved);
        pool->granted_elsewhere += was_granted(pools, request) ? 1 : 0;
        wp_pools_mark_on(pools, ref.index,
                         request->status == WP_NOT_FOUND ? WP_WORK_ON_NO_RECORD
                                                         : WP_WORK_ON_LIST);
    }
}

/* Takes what was fetched for somebody into the copy: OK, *ref is settled and
 * has that lease; PENDING, it is just changing here, so ask again; UNAVAILABLE,
 * this replica has not heard of the sandbox yet. Never makes a slot: by now the
 * record may be an old one, of a sandbox that is forgotten. */
enum wp_status
wp_records_take_found(struct wp_pools *pools,
                      const struct wp_lease_record *record,
                      struct wp_slot_ref *ref)
{
    struct wp_hash128 hash;
    enum wp_slot_state state;

    *ref = wp_pools_find_uid(pools, record->uid);
    if (ref->generation == 0) {
        return WP_UNAVAILABLE;
    }
    if (wp_slot_state(&pools->slots, *ref) == WP_SLOT_QUARANTINED) {
        /* The store is asked for the slot as well. It may have been meant to be
         * taken back; but its client has come again. */
        if (wp_slot_work_change(wp_slot_at(&pools->slots, ref->index),
                                WP_WORK_ON_UNDO_OVER)) {
            wp_pools_mark(pools, ref->index);
        }
        return WP_PENDING;
    }
    /* The store has just said which lease its claim has. Only what was granted
     * since, here, is newer. */
    hash = wp_claim_hash(pools->config.hash_key, wp_str_from(record->tenant),
                         wp_str_from(record->claim_id));
    leave_past_lease(pools, hash, *ref,
                     record->granted_wall_ms + CLOCK_SLACK_NS / WP_NS_PER_MS);
    wp_records_apply(pools, *ref, record);
    state = wp_slot_state(&pools->slots, *ref);
    return (state == WP_SLOT_LEASED || state == WP_SLOT_LOST) &&
                   is_settled(pools, *ref) &&
                   atomic_load_explicit(
                       &wp_slot_at(&pools->slots, ref->index)->fence,
                       memory_order_relaxed) == record->fence
               ? WP_OK
               : WP_PENDING;
}
