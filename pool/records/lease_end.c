/* pool/records/lease_end.c - ends of leases that nobody here asks for: expiry,
 * undo, and the daemon's leaving.
 *
 * As in lease.c the store is asked first, and the slot moves under its change
 * lock. */
#include "pool/base/assert.h"
#include "pool/base/mutant.h"
#include "pool/grant/grant.h"
#include "pool/records/records.h"
#include "pool/table/ready.h"

static bool
is_held(enum wp_slot_state state)
{
    return state == WP_SLOT_LEASED || state == WP_SLOT_LOST;
}

/* The store's lease is the one that is held here, renewed elsewhere. One fence
 * may have two claims, when a store has forgotten one grant: the claim that
 * it knows counts. Under the change lock, as is the next. */
static bool
is_renewed(struct wp_pools *pools, const struct wp_store_request *end)
{
    const struct wp_lease_record *found = &end->found;
    struct wp_claim_view view;

    return found->fence == end->op.fence &&
           wp_pools_claim_of(pools, end->op.ref, &view) &&
           wp_records_is_of(found, &view);
}

static void
take_deadline(struct wp_pools *pools, struct wp_slot *slot,
              const struct wp_lease_record *found)
{
    atomic_store_explicit(&slot->deadline_ns,
                          wp_pools_deadline_ns(pools, wp_pools_now(pools),
                                               found->deadline_wall_ms),
                          memory_order_relaxed);
    atomic_store_explicit(&slot->deadline_wall_ms, found->deadline_wall_ms,
                          memory_order_relaxed);
}

/* The lease has long ended, and the sandbox has another: an end whose answer
 * was lost, and that came again. Who holds it the store will tell. Under the
 * change lock. */
static void
superseded(struct wp_pools *pools, struct wp_slot_ref ref)
{
    struct wp_slot *slot = wp_slot_at(&pools->slots, ref.index);
    struct wp_claim_view view;
    bool claimed = wp_pools_claim_of(pools, ref, &view);

    (void)wp_slot_work_change(slot, WP_WORK_ON_UNDO_OVER);
    if (!wp_slot_move(&pools->slots, ref, WP_SLOT_LEASED,
                      WP_SLOT_QUARANTINED)) {
        (void)!wp_pools_end_held(pools, ref);
    } else if (claimed) {
        bool mine = wp_claim_table_end(&pools->claims, view.ref, NULL);

        (void)mine; /* Or an undo was faster: the same end. */
    }
}

void
wp_pools_doubt_lease(struct wp_pools *pools, struct wp_slot_ref ref)
{
    struct wp_slot *slot = wp_slot_at(&pools->slots, ref.index);
    pthread_mutex_t *lock = wp_pools_change_lock(pools, ref.index);

    (void)pthread_mutex_lock(lock);
    if (!wp_slot_has_work(slot, WP_WORK_ENDING) &&
        is_held(wp_slot_state(&pools->slots, ref))) {
        superseded(pools, ref);
    }
    (void)pthread_mutex_unlock(lock);
    wp_pools_mark(pools, ref.index);
}

/* What the store said of an end. Any thread. */
static void
finish_end(struct wp_store_request *end, enum wp_status status)
{
    struct wp_pools *pools = end->pools;
    struct wp_slot_ref ref = end->op.ref;
    struct wp_slot *slot = wp_slot_at(&pools->slots, ref.index);
    struct wp_pool *pool = wp_pools_of_slot(pools, ref.index);
    pthread_mutex_t *lock = wp_pools_change_lock(pools, ref.index);
    /* A store that has forgotten a grant which nobody was shown may give its
     * fence to another claim: who holds the sandbox it will tell. */
    bool forgot = end->undo && pools->shared && status == WP_NOT_FOUND;
    bool ended = status == WP_OK || (status == WP_NOT_FOUND && !forgot);
    bool expires = end->op.kind == WP_LEASE_EXPIRE;
    struct wp_claim_view view;
    bool offer = false;
    bool push = false;
    bool dying = false;
    bool out_of_reach;

    out_of_reach = wp_store_note_answer(pools, status);
    (void)pthread_mutex_lock(lock);
    /* ENDING was set for this generation, which lasts until the move below. */
    (void)wp_slot_work_change(slot, WP_WORK_ON_END_ANSWERED);
    if (ended && end->undo) {
        (void)wp_slot_work_change(slot, WP_WORK_ON_UNDO_OVER);
        if (end->op.kind == WP_LEASE_UNDO && status == WP_OK) {
            (void)wp_slot_work_change(slot, WP_WORK_ON_REOPENS);
            offer = wp_slot_reopen(&pools->slots, ref, &push);
        }
    }
    if (ended && !offer) {
        bool told =
            expires && !end->undo && wp_pools_claim_of(pools, ref, &view);

        dying = wp_pools_end_held(pools, ref);
        if (dying && told) {
            wp_expired_add(&pools->expired, view.hash,
                           end->op.deadline_wall_ms);
        }
    } else if (status == WP_ABORTED && expires && !end->undo &&
               is_renewed(pools, end)) {
        take_deadline(pools, slot, &end->found);
    } else if (forgot || (status == WP_ABORTED && pools->durable)) {
        superseded(pools, ref);
    }
    (void)pthread_mutex_unlock(lock);
    if (!end->undo && (pools->durable ? status == WP_OK : dying)) {
        wp_counter_add(expires ? &pool->expired : &pool->released, 1);
    }
    wp_store_request_give(end);
    if (offer) {
        if (push) {
            wp_pools_push(pool, ref);
        }
        wp_pools_match(pool);
    }
    wp_pools_mark_on(pools, ref.index,
                     out_of_reach ? WP_WORK_ON_ASK_LATER : WP_WORK_ON_LIST);
}

static void
end_done(struct wp_lease_op *op, enum wp_status status)
{
    finish_end(WP_CONTAINER_OF(op, struct wp_store_request, op), status);
}

/* Another replica's copy may still name the claim as the sandbox's holder, and
 * tell whoever asks for the claim: so there nobody else is offered what is
 * undone. */
static enum wp_lease_op_kind
end_kind(const struct wp_pools *pools, bool undo, bool stopping)
{
    if (undo) {
        return pools->shared && !WP_MUTANT(UNDONE_OFFERED_ACROSS_REPLICAS)
                   ? WP_LEASE_EXPIRE
                   : WP_LEASE_UNDO;
    }
    return stopping || WP_MUTANT(FOLLOWER_EXPIRES) ? WP_LEASE_RELEASE
                                                   : WP_LEASE_EXPIRE;
}

/* Why the lease on the slot is to end now. Under the change lock. */
static bool
end_is_due(struct wp_slot *slot, uint32_t work, int64_t now_ns)
{
    if (WP_MUTANT(EXPIRED_EARLY)) {
        now_ns += WP_NS_PER_S;
    }
    return (work & (WP_WORK_UNDO | WP_WORK_STOP)) != 0 ||
           atomic_load_explicit(&slot->deadline_ns, memory_order_relaxed) <=
               now_ns;
}

bool
wp_pools_end_lease(struct wp_pools *pools, struct wp_slot_ref ref,
                   int64_t now_ns)
{
    struct wp_slot *slot = wp_slot_at(&pools->slots, ref.index);
    pthread_mutex_t *lock = wp_pools_change_lock(pools, ref.index);
    struct wp_store_request *end = wp_store_request_take(pools);
    enum wp_status status;
    uint32_t work = 0;
    bool begun = false;

    if (end == NULL) {
        return false;
    }
    (void)pthread_mutex_lock(lock);
    /* Looked at anew: an end that was out may have come back since, and the
     * slot have its next lease. */
    if (is_held(wp_slot_state(&pools->slots, ref))) {
        work = atomic_load_explicit(&slot->work, memory_order_relaxed);
        begun = (work & WP_WORK_ENDING) == 0 && end_is_due(slot, work, now_ns);
    }
    if (begun) {
        (void)wp_slot_work_change(slot, WP_WORK_ON_END_SENT);
        /* Who wants the sandbox gone does not want it offered again. */
        end->undo = (work & (WP_WORK_UNDO | WP_WORK_STOP)) == WP_WORK_UNDO;
        (void)wp_pools_lease_names(pools, ref, &end->names);
        wp_pools_lease_op(
            pools, ref, end_kind(pools, end->undo, (work & WP_WORK_STOP) != 0),
            &end->names, &end->op);
        if (end->undo && pools->shared) {
            /* What was shown meanwhile is odd, in the store, perhaps here. */
            end->op.deadline_wall_ms &= ~INT64_C(1);
        }
    }
    (void)pthread_mutex_unlock(lock);
    if (!begun) {
        wp_store_request_give(end);
        return true;
    }
    end->op.found = &end->found;
    end->op.done = end_done;
    status =
        pools->config.store.ops->commit(pools->config.store.self, &end->op);
    if (status != WP_PENDING) {
        finish_end(end, status);
    }
    return true;
}
