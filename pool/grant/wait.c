/* pool/grant/wait.c - claims that wait for a sandbox, and how each gets one.
 *
 * Why nobody is missed: a claim first raises `waiting` and then looks at the
 * queue, an offer first fills the queue and then looks at `waiting`, all
 * sequentially consistent. */
#include "pool/base/assert.h"
#include "pool/grant/claim_way.h"
#include "pool/table/ready.h"

/* After which a claim that may not wait is to ask again, while a backend looks
 * which sandboxes live. */
#define UNSEEN_AGAIN_NS (100 * WP_NS_PER_MS)

/* The ring of pool/grant/claim_way.h. NOLINTBEGIN(misc-no-recursion) */

void
wp_claim_count_waiting(struct wp_pool *pool)
{
    /* seq_cst: see the head of this file. */
    atomic_store_explicit(&pool->waiting, wp_wait_queue_count(&pool->waiters),
                          memory_order_seq_cst);
}

static void
match(struct wp_pool *pool)
{
    for (;;) {
        struct wp_claim *claim = NULL;
        struct wp_slot_ref ref = WP_SLOT_REF_NONE;

        (void)pthread_mutex_lock(&pool->wait_lock);
        claim = wp_wait_queue_next(&pool->waiters, wp_claim_may_take);
        if (claim != NULL) {
            ref = wp_pools_pop(pool, WP_SLOT_LEASED);
        }
        if (ref.generation != 0) {
            wp_wait_queue_serve(&pool->waiters, claim);
            claim->phase = WP_PHASE_BUSY;
            wp_claim_count_waiting(pool);
        }
        (void)pthread_mutex_unlock(&pool->wait_lock);
        if (ref.generation == 0) {
            return;
        }
        wp_claim_finish(claim, wp_claim_grant(claim, ref));
    }
}

void
wp_pools_match(struct wp_pool *pool)
{
    if (atomic_load_explicit(&pool->waiting, memory_order_seq_cst) > 0) {
        match(pool);
    }
}

void
wp_pools_offer(struct wp_pool *pool, struct wp_slot_ref ref)
{
    wp_pools_push(pool, ref);
    wp_pools_match(pool);
}

static const char *
full_reason(enum wp_wait_result result)
{
    switch (result) {
    case WP_WAIT_TENANT_FULL:
        return "no sandbox is ready and this tenant has too many claims "
               "waiting";
    case WP_WAIT_TENANTS_FULL:
        return "no sandbox is ready and claims of too many tenants wait";
    case WP_WAIT_QUEUED:
    case WP_WAIT_FULL:
        break;
    }
    return "no sandbox is ready and too many claims wait";
}

/* Queues the claim; under the pool's lock. NULL, or why it cannot wait. */
static const char *
enqueue(struct wp_pool *pool, struct wp_claim *claim)
{
    int64_t wait_ns = claim->wait_ns < pool->spec.wait_max_ns
                          ? claim->wait_ns
                          : pool->spec.wait_max_ns;
    enum wp_wait_result result;

    if (wait_ns <= 0) {
        return wp_claim_may_take(claim)
                   ? "no sandbox is ready"
                   : "no sandbox is ready but those kept for tenants below "
                     "their share";
    }
    if (!wp_claim_may_wait(claim)) {
        return "no sandbox is ready and this tenant has as many claims waiting "
               "as its quota allows";
    }
    claim->wait_until_ns = wp_time_add(claim->arrived_ns, wait_ns);
    result = wp_wait_queue_push(&pool->waiters, claim);
    if (result != WP_WAIT_QUEUED) {
        return full_reason(result);
    }
    claim->phase = WP_PHASE_WAITING;
    wp_claim_count_waiting(pool);
    return NULL;
}

/* The pool looked empty: decides that under its lock, then waits or refuses. */
enum wp_status
wp_claim_await(struct wp_claim *claim)
{
    struct wp_pool *pool = wp_claim_pool(claim);
    struct wp_slot_ref ref = WP_SLOT_REF_NONE;
    const char *reason = NULL;
    int64_t arrived_ns = claim->arrived_ns;
    bool counted = claim->wait_until_ns != 0; /* It has waited before. */
    bool left;

    (void)pthread_mutex_lock(&pool->wait_lock);
    left = wp_claim_has_left(claim);
    if (!left && wp_claim_may_pass(claim)) {
        ref = wp_pools_pop(pool, WP_SLOT_LEASED);
    }
    if (!left && ref.generation == 0) {
        reason = enqueue(pool, claim);
    }
    (void)pthread_mutex_unlock(&pool->wait_lock);
    if (left) {
        return wp_claim_refuse_left(claim);
    }
    if (ref.generation != 0) {
        return wp_claim_grant(claim, ref);
    }
    if (reason != NULL && claim->ahead) {
        return wp_claim_refuse(claim, WP_RESOURCE_EXHAUSTED, reason);
    }
    if (!counted) {
        wp_pool_missed(pool, arrived_ns);
    }
    wp_pools_touch(pool);
    if (reason != NULL && wp_pools_holds_unseen(pool->pools)) {
        claim->retry_after_ns = UNSEEN_AGAIN_NS;
        return wp_claim_refuse(claim, WP_UNAVAILABLE,
                               "the daemon has just started: it has not found "
                               "out yet which sandboxes live");
    }
    if (reason != NULL) {
        return wp_claim_refuse(claim, WP_RESOURCE_EXHAUSTED, reason);
    }
    /* The claim may be answered and gone from here on. */
    match(pool);
    return WP_PENDING;
}

/* NOLINTEND(misc-no-recursion) */

/* Those whose wait is over; returns when that is so of another one. */
static int64_t
expire_followers(struct wp_pool *pool, int64_t now_ns)
{
    int64_t next_ns;
    struct wp_list mine;
    struct wp_list *node;

    wp_list_init(&mine);
    (void)pthread_mutex_lock(&pool->wait_lock);
    next_ns = pool->followers_until_ns;
    if (next_ns <= now_ns) {
        next_ns = WP_TIME_NEVER;
        for (node = pool->followers.next; node != &pool->followers;) {
            struct wp_claim *claim =
                WP_CONTAINER_OF(node, struct wp_claim, followers);

            node = node->next;
            if (claim->follow_until_ns <= now_ns) {
                wp_list_remove(&claim->followers);
                claim->phase = WP_PHASE_BUSY;
                wp_list_push_back(&mine, &claim->followers);
            } else if (claim->follow_until_ns < next_ns) {
                next_ns = claim->follow_until_ns;
            }
        }
        pool->followers_until_ns = next_ns;
    }
    (void)pthread_mutex_unlock(&pool->wait_lock);
    while ((node = wp_list_pop_front(&mine)) != NULL) {
        struct wp_claim *claim =
            WP_CONTAINER_OF(node, struct wp_claim, followers);

        wp_counter_add(&pool->refused, 1);
        claim->retry_after_ns =
            atomic_load_explicit(&pool->retry_after_ns, memory_order_relaxed);
        (void)wp_claim_answer(claim, WP_RESOURCE_EXHAUSTED,
                              "an earlier request for this claim waits still");
        claim->done(claim);
    }
    return next_ns;
}

static int64_t
expire_waiting(struct wp_pool *pool, int64_t now_ns)
{
    for (;;) {
        struct wp_claim *claim;
        int64_t next;

        (void)pthread_mutex_lock(&pool->wait_lock);
        claim = wp_wait_queue_pop_expired(&pool->waiters, now_ns);
        if (claim != NULL) {
            claim->phase = WP_PHASE_BUSY;
            wp_claim_count_waiting(pool);
        }
        next = wp_wait_queue_next_deadline(&pool->waiters);
        (void)pthread_mutex_unlock(&pool->wait_lock);
        if (claim == NULL) {
            return next;
        }
        (void)wp_claim_refuse(claim, WP_RESOURCE_EXHAUSTED,
                              "no sandbox became ready within wait_ms");
        claim->done(claim);
    }
}

int64_t
wp_pools_expire_waiters(struct wp_pool *pool, int64_t now_ns)
{
    int64_t waiting_ns = expire_waiting(pool, now_ns);
    int64_t following_ns = expire_followers(pool, now_ns);

    return waiting_ns < following_ns ? waiting_ns : following_ns;
}

void
wp_pools_refuse_waiters(struct wp_pool *pool)
{
    for (;;) {
        struct wp_claim *claim;

        (void)pthread_mutex_lock(&pool->wait_lock);
        claim = wp_wait_queue_pop_next(&pool->waiters);
        if (claim != NULL) {
            claim->phase = WP_PHASE_BUSY;
            wp_claim_count_waiting(pool);
        }
        (void)pthread_mutex_unlock(&pool->wait_lock);
        if (claim == NULL) {
            return;
        }
        (void)wp_claim_refuse_closed(claim);
        claim->done(claim);
    }
}
