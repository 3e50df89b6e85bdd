/* pool/core/store_request.c - what the control thread asks of a durable store.
 *
 * A request is one op that nobody but us waits for: a fixed number of them,
 * so when the store is slow the rest stays marked on its slot and comes
 * later. What the store answers either moves the slot here, from whatever
 * thread, or comes back to the control thread, when it needs the store's
 * record.
 *
 *   OFFER     READY, not yet pushed: pushed once it is recorded
 *   WITHDRAW  QUARANTINED: DYING once the store says that nobody holds it
 *   FETCH     QUARANTINED, claims and changes that await it: what is known?
 *   LOSE      LOST: so that replicas and the next process know
 *   RELEASE   DYING: a lease that the store has of a sandbox that is gone
 *   FORGET    DYING and gone: then its slot is free
 * / */
#include "pool/base/assert.h"
#include "pool/core/claim_way.h"

struct wp_store_request *
wp_store_request_take(struct wp_pools *pools)
{
    struct wp_list *node;

    (void)pthread_mutex_lock(&pools->requests_lock);
    node = wp_list_pop_front(&pools->requests_free);
    (void)pthread_mutex_unlock(&pools->requests_lock);
    return node != NULL ? WP_CONTAINER_OF(node, struct wp_store_request, node)
                        : NULL;
}

void
wp_store_request_give(struct wp_store_request *request)
{
    struct wp_pools *pools = request->pools;

    request->claim = NULL;
    request->change = NULL;
    (void)pthread_mutex_lock(&pools->requests_lock);
    wp_list_push_back(&pools->requests_free, &request->node);
    (void)pthread_mutex_unlock(&pools->requests_lock);
}

static void
bring_back(struct wp_store_request *request, enum wp_status status)
{
    struct wp_pools *pools = request->pools;

    request->status = status;
    (void)pthread_mutex_lock(&pools->requests_lock);
    wp_list_push_back(&pools->requests_answered, &request->node);
    (void)pthread_mutex_unlock(&pools->requests_lock);
    wp_store_requests_look_again(pools);
    wp_pools_wake(pools);
}

/* The request is over: this work stays or comes to the slot. */
static void
conclude(struct wp_store_request *request, uint32_t work)
{
    struct wp_pools *pools = request->pools;
    struct wp_slot_ref ref = request->op.ref;

    wp_store_request_give(request);
    (void)atomic_fetch_and_explicit(&wp_slot_at(&pools->slots, ref.index)->work,
                                    ~(uint32_t)WP_WORK_REQUESTED,
                                    memory_order_relaxed);
    wp_pools_mark(pools, ref.index, work);
}

static bool
may_retry(enum wp_status status)
{
    return status == WP_UNAVAILABLE || status == WP_UNKNOWN_OUTCOME ||
           status == WP_RESOURCE_EXHAUSTED;
}

static void
offered(struct wp_store_request *request, enum wp_status status)
{
    struct wp_pools *pools = request->pools;
    struct wp_slot_ref ref = request->op.ref;
    struct wp_pool *pool = wp_pools_of_slot(pools, ref.index);

    if (may_retry(status)) {
        conclude(request, WP_WORK_OFFER | WP_WORK_RETRY);
        return;
    }
    if (status != WP_OK) {
        /* The store knows better: it is asked what. */
        (void)!wp_slot_move(&pools->slots, ref, WP_SLOT_READY,
                            WP_SLOT_QUARANTINED);
    }
    /* Dead or not, it is pushed once. */
    wp_pools_offer(pool, ref);
    conclude(request, 0);
}

/* It was lost while it was idle, soon after it had become ready. */
static bool
died_young(struct wp_pools *pools, struct wp_slot_ref ref)
{
    struct wp_slot_info info;

    return (atomic_load_explicit(&wp_slot_at(&pools->slots, ref.index)->work,
                                 memory_order_relaxed) &
            WP_WORK_DEAD) != 0 &&
           wp_slot_read(&pools->slots, ref, &info) &&
           info.ready_ns > wp_pools_now(pools) - WP_REFILL_YOUNG_NS;
}

static void
withdrawn(struct wp_store_request *request, enum wp_status status)
{
    struct wp_pools *pools = request->pools;
    struct wp_slot_ref ref = request->op.ref;
    uint32_t work = 0;

    if (may_retry(status)) {
        work = WP_WORK_WITHDRAW | WP_WORK_RETRY;
    } else if (status == WP_OK || status == WP_NOT_FOUND) {
        bool young = died_young(pools, ref);

        if (wp_slot_move(&pools->slots, ref, WP_SLOT_QUARANTINED,
                         WP_SLOT_DYING) &&
            young) {
            (void)atomic_fetch_add_explicit(
                &wp_pools_of_slot(pools, ref.index)->died_young, 1,
                memory_order_release);
        }
        work = status == WP_NOT_FOUND ? WP_WORK_FORGOTTEN : 0;
    }
    conclude(request, work);
}

static void
answered(struct wp_lease_op *op, enum wp_status status)
{
    struct wp_store_request *request =
        WP_CONTAINER_OF(op, struct wp_store_request, op);

    switch (op->kind) {
    case WP_LEASE_OFFER:
        offered(request, status);
        break;
    case WP_LEASE_WITHDRAW:
        withdrawn(request, status);
        break;
    case WP_LEASE_LOSE:
        conclude(request, may_retry(status) ? WP_WORK_LOSE | WP_WORK_RETRY : 0);
        break;
    case WP_LEASE_RELEASE:
        conclude(request,
                 may_retry(status) ? WP_WORK_RELEASE | WP_WORK_RETRY : 0);
        break;
    case WP_LEASE_FORGET:
        conclude(request, may_retry(status)    ? WP_WORK_RETRY
                          : status == WP_TAKEN ? WP_WORK_RELEASE
                                               : WP_WORK_FORGOTTEN);
        break;
    case WP_LEASE_FETCH:
        bring_back(request, status);
        break;
    case WP_LEASE_GRANT:
    case WP_LEASE_RENEW:
    case WP_LEASE_UNDO:
    case WP_LEASE_EXPIRE:
    case WP_LEASE_PUT_NOTE:
    case WP_LEASE_GET_NOTE:
        WP_ASSERT(false); /* Not requests. */
    }
}

void
wp_store_request_submit(struct wp_store_request *request)
{
    const struct wp_lease_store *store = &request->pools->config.store;
    enum wp_status status;

    request->op.found = &request->found;
    request->op.done = answered;
    status = store->ops->commit(store->self, &request->op);
    if (status != WP_PENDING) {
        answered(&request->op, status);
    }
}

bool
wp_store_request_send(struct wp_pools *pools, struct wp_slot_ref ref,
                      enum wp_lease_op_kind kind)
{
    struct wp_store_request *request = wp_store_request_take(pools);
    struct wp_slot_info info;
    bool known;

    if (request == NULL) {
        return false;
    }
    known = wp_slot_read(&pools->slots, ref, &info);
    WP_ASSERT(known); /* Only control frees slots. */
    (void)atomic_fetch_or_explicit(&wp_slot_at(&pools->slots, ref.index)->work,
                                   WP_WORK_REQUESTED, memory_order_relaxed);
    (void)wp_pools_lease_names(pools, ref, &request->names);
    wp_pools_lease_op(pools, ref, kind, &request->names, &request->op);
    memcpy(request->endpoint, info.endpoint, sizeof request->endpoint);
    memcpy(request->reason, info.lost_reason, sizeof request->reason);
    request->op.endpoint = wp_str_from(request->endpoint);
    request->op.reason = wp_str_from(request->reason);
    if (kind == WP_LEASE_FETCH) {
        wp_slot_at(&pools->slots, ref.index)->control_bits &=
            ~(uint32_t)WP_CONTROL_HEARD;
        request->op.claim_id = WP_STR("");
    }
    wp_store_request_submit(request);
    return true;
}

/* --- Claims and changes that await the store --- */

void
wp_lease_change_await_store(struct wp_pools *pools,
                            struct wp_lease_change *change)
{
    (void)pthread_mutex_lock(&pools->requests_lock);
    wp_list_push_back(&pools->awaiting_changes, &change->awaiting);
    (void)pthread_mutex_unlock(&pools->requests_lock);
    wp_store_requests_look_again(pools);
    wp_pools_wake(pools);
}

struct wp_lease_change *
wp_lease_change_take_awaiting(struct wp_pools *pools)
{
    struct wp_list *node;

    (void)pthread_mutex_lock(&pools->requests_lock);
    node = wp_list_pop_front(&pools->awaiting_changes);
    (void)pthread_mutex_unlock(&pools->requests_lock);
    return node != NULL
               ? WP_CONTAINER_OF(node, struct wp_lease_change, awaiting)
               : NULL;
}

/* --- For the control thread's turn --- */

void
wp_store_requests_look_again(struct wp_pools *pools)
{
    /* seq_cst: control looks at it before it sleeps. */
    atomic_store_explicit(&pools->answers_due, true, memory_order_seq_cst);
}

bool
wp_store_requests_come(struct wp_pools *pools)
{
    return atomic_exchange_explicit(&pools->answers_due, false,
                                    memory_order_seq_cst);
}

struct wp_store_request *
wp_store_requests_take_answered(struct wp_pools *pools)
{
    struct wp_list *node;

    (void)pthread_mutex_lock(&pools->requests_lock);
    node = wp_list_pop_front(&pools->requests_answered);
    (void)pthread_mutex_unlock(&pools->requests_lock);
    return node != NULL ? WP_CONTAINER_OF(node, struct wp_store_request, node)
                        : NULL;
}
