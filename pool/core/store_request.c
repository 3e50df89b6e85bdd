/* pool/core/store_request.c - what the control thread asks of a durable store.
 *
 * An errand is one op that nobody but us waits for: a fixed number of them, so
 * when the store is slow the rest stays noted on its slot and comes later. What
 * the store answers either moves the slot here, from whatever thread, or comes
 * back to the control thread, when it needs the store's record.
 *
 *   OFFER     READY, not yet pushed: pushed once it is recorded
 *   WITHDRAW  QUARANTINED: DYING once the store says that nobody holds it
 *   FETCH     QUARANTINED, parked claims and changes: what does the store say?
 *   LOSE      LOST: so that replicas and the next process know
 *   RELEASE   DYING: a lease that the store has of a sandbox that is gone
 *   FORGET    DYING and gone: then its slot is free
 */
#include "pool/base/assert.h"
#include "pool/core/pools.h"

struct wp_errand *
wp_errand_take(struct wp_pools *pools)
{
    struct wp_list *node;

    (void)pthread_mutex_lock(&pools->errand_lock);
    node = wp_list_pop_front(&pools->errands_free);
    (void)pthread_mutex_unlock(&pools->errand_lock);
    return node != NULL ? WP_CONTAINER_OF(node, struct wp_errand, node) : NULL;
}

void
wp_errand_give(struct wp_errand *errand)
{
    struct wp_pools *pools = errand->pools;

    errand->claim = NULL;
    errand->change = NULL;
    (void)pthread_mutex_lock(&pools->errand_lock);
    wp_list_push_back(&pools->errands_free, &errand->node);
    (void)pthread_mutex_unlock(&pools->errand_lock);
}

static void
bring_back(struct wp_errand *errand, enum wp_status status)
{
    struct wp_pools *pools = errand->pools;

    errand->status = status;
    (void)pthread_mutex_lock(&pools->errand_lock);
    wp_list_push_back(&pools->errands_back, &errand->node);
    (void)pthread_mutex_unlock(&pools->errand_lock);
    /* seq_cst: control looks at it before it sleeps. */
    atomic_store_explicit(&pools->mail, true, memory_order_seq_cst);
    wp_pools_wake(pools);
}

/* The errand is over: these news stay or come to the slot. */
static void
conclude(struct wp_errand *errand, uint32_t news)
{
    struct wp_pools *pools = errand->pools;
    struct wp_slot_ref ref = errand->op.ref;

    wp_errand_give(errand);
    (void)atomic_fetch_and_explicit(&wp_slot_at(&pools->slots, ref.index)->news,
                                    ~(uint32_t)WP_NEWS_ERRAND,
                                    memory_order_relaxed);
    wp_pools_note(pools, ref.index, news);
}

static bool
may_retry(enum wp_status status)
{
    return status == WP_UNAVAILABLE || status == WP_UNKNOWN_OUTCOME ||
           status == WP_RESOURCE_EXHAUSTED;
}

static void
offered(struct wp_errand *errand, enum wp_status status)
{
    struct wp_pools *pools = errand->pools;
    struct wp_slot_ref ref = errand->op.ref;
    struct wp_pool *pool = wp_pools_of_slot(pools, ref.index);

    if (may_retry(status)) {
        conclude(errand, WP_NEWS_OFFER | WP_NEWS_RETRY);
        return;
    }
    if (status != WP_OK) {
        /* The store knows better: it is asked what. */
        (void)!wp_slot_move(&pools->slots, ref, WP_SLOT_READY,
                            WP_SLOT_QUARANTINED);
    }
    /* Dead or not, it is pushed once. */
    wp_pools_offer(pool, ref);
    conclude(errand, 0);
}

/* It was lost while it was idle, soon after it had become ready. */
static bool
died_young(struct wp_pools *pools, struct wp_slot_ref ref)
{
    struct wp_slot_info info;

    return (atomic_load_explicit(&wp_slot_at(&pools->slots, ref.index)->news,
                                 memory_order_relaxed) &
            WP_NEWS_DEAD) != 0 &&
           wp_slot_read(&pools->slots, ref, &info) &&
           info.ready_ns > wp_pools_now(pools) - WP_REFILL_YOUNG_NS;
}

static void
withdrawn(struct wp_errand *errand, enum wp_status status)
{
    struct wp_pools *pools = errand->pools;
    struct wp_slot_ref ref = errand->op.ref;
    uint32_t news = 0;

    if (may_retry(status)) {
        news = WP_NEWS_WITHDRAW | WP_NEWS_RETRY;
    } else if (status == WP_OK || status == WP_NOT_FOUND) {
        bool young = died_young(pools, ref);

        if (wp_slot_move(&pools->slots, ref, WP_SLOT_QUARANTINED,
                         WP_SLOT_DYING) &&
            young) {
            (void)atomic_fetch_add_explicit(
                &wp_pools_of_slot(pools, ref.index)->died_young, 1,
                memory_order_release);
        }
        news = status == WP_NOT_FOUND ? WP_NEWS_FORGOTTEN : 0;
    }
    conclude(errand, news);
}

static void
answered(struct wp_lease_op *op, enum wp_status status)
{
    struct wp_errand *errand = WP_CONTAINER_OF(op, struct wp_errand, op);

    switch (op->kind) {
    case WP_LEASE_OFFER:
        offered(errand, status);
        break;
    case WP_LEASE_WITHDRAW:
        withdrawn(errand, status);
        break;
    case WP_LEASE_LOSE:
        conclude(errand, may_retry(status) ? WP_NEWS_LOSE | WP_NEWS_RETRY : 0);
        break;
    case WP_LEASE_RELEASE:
        conclude(errand,
                 may_retry(status) ? WP_NEWS_RELEASE | WP_NEWS_RETRY : 0);
        break;
    case WP_LEASE_FORGET:
        conclude(errand, may_retry(status)    ? WP_NEWS_RETRY
                         : status == WP_TAKEN ? WP_NEWS_RELEASE
                                              : WP_NEWS_FORGOTTEN);
        break;
    case WP_LEASE_FETCH:
        bring_back(errand, status);
        break;
    case WP_LEASE_GRANT:
    case WP_LEASE_RENEW:
    case WP_LEASE_UNDO:
    case WP_LEASE_EXPIRE:
    case WP_LEASE_PUT_NOTE:
    case WP_LEASE_GET_NOTE:
        WP_ASSERT(false); /* Not errands. */
    }
}

static void
send(struct wp_errand *errand)
{
    const struct wp_lease_store *store = &errand->pools->config.store;
    enum wp_status status;

    errand->op.found = &errand->found;
    errand->op.done = answered;
    status = store->ops->commit(store->self, &errand->op);
    if (status != WP_PENDING) {
        answered(&errand->op, status);
    }
}

bool
wp_errand_send(struct wp_pools *pools, struct wp_slot_ref ref,
               enum wp_lease_op_kind kind)
{
    struct wp_errand *errand = wp_errand_take(pools);
    struct wp_slot_info info;
    bool known;

    if (errand == NULL) {
        return false;
    }
    known = wp_slot_read(&pools->slots, ref, &info);
    WP_ASSERT(known); /* Only control frees slots. */
    (void)atomic_fetch_or_explicit(&wp_slot_at(&pools->slots, ref.index)->news,
                                   WP_NEWS_ERRAND, memory_order_relaxed);
    (void)wp_pools_lease_names(pools, ref, &errand->names);
    wp_pools_lease_op(pools, ref, kind, &errand->names, &errand->op);
    memcpy(errand->endpoint, info.endpoint, sizeof errand->endpoint);
    memcpy(errand->reason, info.lost_reason, sizeof errand->reason);
    errand->op.endpoint = wp_str_from(errand->endpoint);
    errand->op.reason = wp_str_from(errand->reason);
    if (kind == WP_LEASE_FETCH) {
        wp_slot_at(&pools->slots, ref.index)->control_bits &=
            ~(uint32_t)WP_CONTROL_HEARD;
        errand->op.claim_id = WP_STR("");
    }
    send(errand);
    return true;
}

/* --- Parked claims and changes --- */

void
wp_errands_park(struct wp_pools *pools, struct wp_lease_change *change)
{
    (void)pthread_mutex_lock(&pools->errand_lock);
    wp_list_push_back(&pools->parked_changes, &change->parked);
    (void)pthread_mutex_unlock(&pools->errand_lock);
    atomic_store_explicit(&pools->mail, true, memory_order_seq_cst);
    wp_pools_wake(pools);
}

static void
fetch(struct wp_errand *errand, const struct wp_pool *pool)
{
    memset(&errand->op, 0, sizeof errand->op);
    errand->op.kind = WP_LEASE_FETCH;
    errand->op.ref = WP_SLOT_REF_NONE;
    errand->op.pool_namespace = pool->pool_namespace;
    errand->op.pool = pool->name;
}

void
wp_errands_run_claims(struct wp_pool *pool)
{
    for (;;) {
        struct wp_errand *errand = wp_errand_take(pool->pools);
        struct wp_claim *claim;

        if (errand == NULL) {
            wp_pools_touch(pool);
            return;
        }
        claim = wp_pools_take_parked(pool);
        if (claim == NULL) {
            wp_errand_give(errand);
            return;
        }
        fetch(errand, pool);
        errand->claim = claim;
        errand->op.claim_id = claim->claim_id;
        errand->op.tenant = claim->tenant;
        send(errand);
    }
}

static struct wp_lease_change *
take_parked_change(struct wp_pools *pools)
{
    struct wp_list *node;

    (void)pthread_mutex_lock(&pools->errand_lock);
    node = wp_list_pop_front(&pools->parked_changes);
    (void)pthread_mutex_unlock(&pools->errand_lock);
    return node != NULL ? WP_CONTAINER_OF(node, struct wp_lease_change, parked)
                        : NULL;
}

/* The pool that the token names; NULL when there is none any more. */
static struct wp_pool *
pool_of_token(struct wp_pools *pools, const struct wp_token_fields *token)
{
    for (uint32_t i = 0; i < wp_pools_count(pools); i++) {
        if (wp_pool_tag(wp_pools_at(pools, i)) == token->pool_tag) {
            return wp_pools_at(pools, i);
        }
    }
    return NULL;
}

static void
run_changes(struct wp_pools *pools)
{
    for (;;) {
        struct wp_errand *errand = wp_errand_take(pools);
        struct wp_lease_change *change;
        struct wp_token_fields token;
        const struct wp_pool *pool;
        bool ours;

        if (errand == NULL) {
            atomic_store_explicit(&pools->mail, true, memory_order_seq_cst);
            return;
        }
        change = take_parked_change(pools);
        if (change == NULL) {
            wp_errand_give(errand);
            return;
        }
        ours = wp_lease_token_verify(&pools->token_key, change->token, &token);
        WP_ASSERT(ours); /* It was verified before it was parked. */
        pool = pool_of_token(pools, &token);
        if (pool == NULL) {
            wp_errand_give(errand);
            wp_pools_resume_change(pools, change, WP_OK);
            continue;
        }
        fetch(errand, pool);
        memcpy(errand->op.uid, token.uid, sizeof errand->op.uid);
        errand->change = change;
        send(errand);
    }
}

bool
wp_errands_run(struct wp_pools *pools)
{
    bool mail =
        atomic_exchange_explicit(&pools->mail, false, memory_order_seq_cst);

    if (!mail) {
        return false;
    }
    for (;;) {
        struct wp_list *node;

        (void)pthread_mutex_lock(&pools->errand_lock);
        node = wp_list_pop_front(&pools->errands_back);
        (void)pthread_mutex_unlock(&pools->errand_lock);
        if (node == NULL) {
            break;
        }
        wp_mirror_fetched(pools, WP_CONTAINER_OF(node, struct wp_errand, node));
    }
    run_changes(pools);
    return true;
}
