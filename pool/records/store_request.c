/* pool/records/store_request.c - what the control thread asks of a durable
 * store.
 *
 * A request is one op that nobody but us waits for: a fixed number of them,
 * so when the store is slow the rest stays marked on its slot and comes
 * later. What the store answers either moves the slot here, from whatever
 * thread, or comes back to the control thread, when it needs the store's
 * record.
 *
 *   OFFER     READY, not yet pushed: pushed once it is recorded
 *   WITHDRAW  QUARANTINED: DYING once the store says that nobody holds it
 *   EXPIRE    QUARANTINED: a grant whose answer was lost is taken back
 *   RENEW     by a millisecond, before a repeat is shown a lease
 *   FETCH     QUARANTINED, claims and changes that await it: what is known?
 *   LOSE      LOST: so that replicas and the next process know
 *   RELEASE   DYING: a lease that the store has of a sandbox that is gone
 *   FORGET    DYING and gone: then its slot is free
 * / */
#include <stdlib.h>
#include <string.h>

#include "pool/base/assert.h"
#include "pool/grant/grant.h"
#include "pool/records/records.h"
#include "pool/refill/refill.h"

enum {
    REQUESTS_MAX = 256, /* What control asks of the store at once. */
};

/* How soon the store is asked again, and how late at most: by half of the time
 * that it has been out of reach. */
#define PAUSE_NS (20 * WP_NS_PER_MS)
#define PAUSE_MAX_NS (1 * WP_NS_PER_S)

struct wp_store_requests {
    pthread_mutex_t lock; /* guards: the three lists */
    struct wp_list unused;
    struct wp_list answered; /* For the control thread. */
    struct wp_list changes;  /* Of leases that the store may know. */
    struct wp_store_request all[REQUESTS_MAX];
};

bool
wp_store_requests_create(struct wp_pools *pools)
{
    struct wp_store_requests *requests =
        wp_pools_reserve(pools, 1, sizeof *requests);

    if (requests == NULL) {
        return false;
    }
    (void)pthread_mutex_init(&requests->lock, NULL);
    wp_list_init(&requests->unused);
    wp_list_init(&requests->answered);
    wp_list_init(&requests->changes);
    for (size_t i = 0; i < REQUESTS_MAX; i++) {
        requests->all[i].pools = pools;
        wp_list_push_back(&requests->unused, &requests->all[i].node);
    }
    pools->requests = requests;
    return true;
}

void
wp_store_requests_destroy(struct wp_pools *pools)
{
    if (pools->requests != NULL) {
        (void)pthread_mutex_destroy(&pools->requests->lock);
        free(pools->requests);
    }
}

struct wp_store_request *
wp_store_request_take(struct wp_pools *pools)
{
    struct wp_list *node;

    (void)pthread_mutex_lock(&pools->requests->lock);
    node = wp_list_pop_front(&pools->requests->unused);
    (void)pthread_mutex_unlock(&pools->requests->lock);
    return node != NULL ? WP_CONTAINER_OF(node, struct wp_store_request, node)
                        : NULL;
}

void
wp_store_request_give(struct wp_store_request *request)
{
    struct wp_pools *pools = request->pools;

    request->claim = NULL;
    request->change = NULL;
    (void)pthread_mutex_lock(&pools->requests->lock);
    wp_list_push_back(&pools->requests->unused, &request->node);
    (void)pthread_mutex_unlock(&pools->requests->lock);
}

static void
bring_back(struct wp_store_request *request, enum wp_status status)
{
    struct wp_pools *pools = request->pools;

    request->status = status;
    (void)pthread_mutex_lock(&pools->requests->lock);
    wp_list_push_back(&pools->requests->answered, &request->node);
    (void)pthread_mutex_unlock(&pools->requests->lock);
    wp_pools_look_again(pools);
    wp_pools_wake(pools);
}

/* The request is over, which the slot learns as this event. */
static void
conclude(struct wp_store_request *request, enum wp_work_event event)
{
    struct wp_pools *pools = request->pools;
    struct wp_slot_ref ref = request->op.ref;

    wp_store_request_give(request);
    wp_pools_mark_on(pools, ref.index, event);
}

static bool
may_retry(enum wp_status status)
{
    return status == WP_UNAVAILABLE || status == WP_UNKNOWN_OUTCOME ||
           status == WP_RESOURCE_EXHAUSTED;
}

bool
wp_store_note_answer(struct wp_pools *pools, enum wp_status status)
{
    bool out_of_reach = may_retry(status);
    int64_t none = 0;

    if (!out_of_reach) {
        atomic_store_explicit(&pools->store_out_since_ns, 0,
                              memory_order_relaxed);
    } else {
        (void)atomic_compare_exchange_strong_explicit(
            &pools->store_out_since_ns, &none, wp_pools_now(pools),
            memory_order_relaxed, memory_order_relaxed);
    }
    return out_of_reach;
}

int64_t
wp_store_pause_ns(struct wp_pools *pools, int64_t now_ns)
{
    int64_t since_ns =
        atomic_load_explicit(&pools->store_out_since_ns, memory_order_relaxed);
    int64_t pause_ns = since_ns != 0 ? (now_ns - since_ns) / 2 : 0;

    pause_ns = pause_ns > PAUSE_NS ? pause_ns : PAUSE_NS;
    return pause_ns < PAUSE_MAX_NS ? pause_ns : PAUSE_MAX_NS;
}

static void
offered(struct wp_store_request *request, enum wp_status status)
{
    struct wp_pools *pools = request->pools;
    struct wp_slot_ref ref = request->op.ref;
    struct wp_pool *pool = wp_pools_of_slot(pools, ref.index);

    if (may_retry(status)) {
        conclude(request, WP_WORK_ON_OFFER_FAILED);
        return;
    }
    if (status != WP_OK) {
        /* The store knows better: it is asked what. */
        (void)!wp_slot_move(&pools->slots, ref, WP_SLOT_READY,
                            WP_SLOT_QUARANTINED);
    }
    /* Dead or not, it is pushed once. */
    wp_pools_offer(pool, ref);
    conclude(request, WP_WORK_ON_DONE);
}

/* It was lost while it was idle, soon after it had become ready. */
static bool
died_young(struct wp_pools *pools, struct wp_slot_ref ref)
{
    struct wp_slot_info info;

    return wp_slot_has_work(wp_slot_at(&pools->slots, ref.index),
                            WP_WORK_DEAD) &&
           wp_slot_read(&pools->slots, ref, &info) &&
           info.ready_ns > wp_pools_now(pools) - WP_REFILL_YOUNG_NS;
}

static void
withdrawn(struct wp_store_request *request, enum wp_status status)
{
    struct wp_pools *pools = request->pools;
    struct wp_slot_ref ref = request->op.ref;
    enum wp_work_event event = WP_WORK_ON_DONE;

    if (may_retry(status)) {
        event = WP_WORK_ON_WITHDRAW_FAILED;
    } else if (status == WP_OK || status == WP_NOT_FOUND) {
        bool young = died_young(pools, ref);

        if (wp_slot_move(&pools->slots, ref, WP_SLOT_QUARANTINED,
                         WP_SLOT_DYING) &&
            young) {
            (void)atomic_fetch_add_explicit(
                &wp_pools_of_slot(pools, ref.index)->died_young, 1,
                memory_order_release);
        }
        event = status == WP_NOT_FOUND ? WP_WORK_ON_DONE_FORGOTTEN : event;
    }
    conclude(request, event);
}

static void
answered(struct wp_lease_op *op, enum wp_status status)
{
    struct wp_store_request *request =
        WP_CONTAINER_OF(op, struct wp_store_request, op);

    (void)wp_store_note_answer(request->pools, status);
    switch (op->kind) {
    case WP_LEASE_OFFER:
        offered(request, status);
        break;
    case WP_LEASE_WITHDRAW:
        withdrawn(request, status);
        break;
    case WP_LEASE_LOSE:
        conclude(request,
                 may_retry(status) ? WP_WORK_ON_LOSE_FAILED : WP_WORK_ON_DONE);
        break;
    case WP_LEASE_RELEASE:
        conclude(request, may_retry(status) ? WP_WORK_ON_RELEASE_FAILED
                                            : WP_WORK_ON_DONE);
        break;
    case WP_LEASE_FORGET:
        conclude(request, may_retry(status)    ? WP_WORK_ON_FAILED
                          : status == WP_TAKEN ? WP_WORK_ON_DONE_LEASED
                                               : WP_WORK_ON_DONE_FORGOTTEN);
        break;
    case WP_LEASE_EXPIRE:
        /* It is over, or a repeat was shown it: the store is asked which. */
        conclude(request,
                 may_retry(status) ? WP_WORK_ON_FAILED : WP_WORK_ON_DONE);
        break;
    case WP_LEASE_FETCH:
    case WP_LEASE_RENEW:
        bring_back(request, status);
        break;
    case WP_LEASE_GRANT:
    case WP_LEASE_UNDO:
    case WP_LEASE_PUT_SNAPSHOT:
    case WP_LEASE_GET_SNAPSHOT:
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
    struct wp_slot *slot = wp_slot_at(&pools->slots, ref.index);
    struct wp_slot_info info;
    bool known;

    if (request == NULL) {
        return false;
    }
    known = wp_slot_read(&pools->slots, ref, &info);
    WP_ASSERT(known); /* Only control frees slots. */
    (void)wp_slot_work_change(slot, WP_WORK_ON_SEND);
    (void)wp_pools_lease_names(pools, ref, &request->names);
    wp_pools_lease_op(pools, ref, kind, &request->names, &request->op);
    memcpy(request->endpoint, info.endpoint, sizeof request->endpoint);
    memcpy(request->reason, info.lost_reason, sizeof request->reason);
    request->op.endpoint = wp_str_from(request->endpoint);
    request->op.reason = wp_str_from(request->reason);
    if (kind == WP_LEASE_FETCH) {
        (void)wp_slot_control_change(slot, WP_CONTROL_ON_ASK);
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
    (void)pthread_mutex_lock(&pools->requests->lock);
    wp_list_push_back(&pools->requests->changes, &change->awaiting);
    (void)pthread_mutex_unlock(&pools->requests->lock);
    wp_pools_look_again(pools);
    wp_pools_wake(pools);
}

struct wp_lease_change *
wp_lease_change_take_awaiting(struct wp_pools *pools)
{
    struct wp_list *node;

    (void)pthread_mutex_lock(&pools->requests->lock);
    node = wp_list_pop_front(&pools->requests->changes);
    (void)pthread_mutex_unlock(&pools->requests->lock);
    return node != NULL
               ? WP_CONTAINER_OF(node, struct wp_lease_change, awaiting)
               : NULL;
}

/* --- For the control thread's turn --- */

struct wp_store_request *
wp_store_requests_take_answered(struct wp_pools *pools)
{
    struct wp_list *node;

    (void)pthread_mutex_lock(&pools->requests->lock);
    node = wp_list_pop_front(&pools->requests->answered);
    (void)pthread_mutex_unlock(&pools->requests->lock);
    return node != NULL ? WP_CONTAINER_OF(node, struct wp_store_request, node)
                        : NULL;
}
