/* pool/grant/claim.c - how a claim gets its sandbox.
 *
 *   start: begin its id -- known: repeat() answers as before, or follows
 *        | new              the first
 *   nobody waits, and a pop succeeds: grant         the warm path, no lock
 *        | otherwise
 *   await, under the pool's lock: pop once more, then queue or refuse
 *
 * A ready sandbox always goes through the ready queue, and wait.c pairs
 * the oldest one with the claim whose turn it is. */
#include <stdlib.h>

#include "pool/base/assert.h"
#include "pool/base/mutant.h"
#include "pool/grant/claim_way.h"
#include "pool/table/ready.h"

/* So long a repeat waits in any case: the answer may be on its way. */
#define FOLLOW_MIN_NS WP_NS_PER_S

/* How often a repeat looks again at a claim that is just ending. */
enum {
    REPEAT_TRIES = 64,
};

/* The ring of pool/grant/claim_way.h. NOLINTBEGIN(misc-no-recursion) */

enum wp_status
wp_claim_answer(struct wp_claim *claim, enum wp_status status,
                const char *reason)
{
    claim->status = status;
    claim->reason = reason;
    return status;
}

void
wp_claim_finish(struct wp_claim *claim, enum wp_status status)
{
    if (status != WP_PENDING) {
        claim->done(claim);
    }
}

/* Tells the claims that repeat this one: with its lease when it has one, which
 * is then not undone any more, else each has its own try. */
void
wp_claim_notify_followers(struct wp_pool *pool, uint64_t entry,
                          const struct wp_claim *leader)
{
    struct wp_list mine;
    struct wp_list *node;

    wp_list_init(&mine);
    (void)pthread_mutex_lock(&pool->wait_lock);
    for (node = pool->followers.next; node != &pool->followers;) {
        struct wp_claim *claim =
            WP_CONTAINER_OF(node, struct wp_claim, followers);

        node = node->next;
        if (claim->entry == entry) {
            wp_list_remove(&claim->followers);
            claim->phase = WP_PHASE_BUSY;
            wp_list_push_back(&mine, &claim->followers);
        }
    }
    (void)pthread_mutex_unlock(&pool->wait_lock);
    while ((node = wp_list_pop_front(&mine)) != NULL) {
        struct wp_claim *claim =
            WP_CONTAINER_OF(node, struct wp_claim, followers);

        if (wp_claim_has_left(claim)) {
            wp_claim_finish(
                claim, wp_claim_answer(claim, WP_CANCELLED, WP_REASON_LEFT));
        } else if (leader != NULL &&
                   wp_claim_table_share_once(&pool->pools->claims,
                                             wp_claim_ref_unpack(entry))) {
            claim->grant = leader->grant;
            claim->replayed = true;
            claim->may_leave = true;
            wp_claim_finish(claim, wp_claim_answer(claim, WP_OK, NULL));
        } else {
            wp_claim_finish(claim, wp_claim_start(claim));
        }
    }
}

void
wp_claim_give_up(struct wp_claim *claim)
{
    bool followers = false;
    bool mine =
        wp_claim_table_end(&wp_claim_pool(claim)->pools->claims,
                           wp_claim_ref_unpack(claim->entry), &followers);

    WP_ASSERT(mine);
    if (followers) {
        wp_claim_notify_followers(wp_claim_pool(claim), claim->entry, NULL);
    }
}

enum wp_status
wp_claim_refuse(struct wp_claim *claim, enum wp_status status,
                const char *reason)
{
    struct wp_pool *pool = wp_claim_pool(claim);

    wp_claim_give_up(claim);
    if (status == WP_RESOURCE_EXHAUSTED && claim->quota != WP_QUOTA_RATE) {
        claim->retry_after_ns =
            atomic_load_explicit(&pool->retry_after_ns, memory_order_relaxed);
    }
    if (!claim->ahead) {
        wp_counter_add(&pool->refused, 1);
    }
    return wp_claim_answer(claim, status, reason);
}

enum wp_status
wp_claim_refuse_closed(struct wp_claim *claim)
{
    return atomic_load_explicit(&wp_claim_pool(claim)->removed,
                                memory_order_relaxed)
               ? wp_claim_refuse(claim, WP_NOT_FOUND, "pool: no such pool")
               : wp_claim_refuse(claim, WP_UNAVAILABLE, "the pool is draining");
}

enum wp_status
wp_claim_refuse_left(struct wp_claim *claim)
{
    wp_claim_give_up(claim);
    return wp_claim_answer(claim, WP_CANCELLED, WP_REASON_LEFT);
}

bool
wp_pools_fill_grant(struct wp_pools *pools, const struct wp_pool *pool,
                    struct wp_slot_ref ref, uint64_t claim_hash,
                    struct wp_grant *grant)
{
    struct wp_slot *slot = wp_slot_at(&pools->slots, ref.index);
    struct wp_slot_info info;

    if (!wp_slot_read(&pools->slots, ref, &info)) {
        return false;
    }
    grant->ref = ref;
    grant->fence = atomic_load_explicit(&slot->fence, memory_order_relaxed);
    grant->deadline_ns =
        atomic_load_explicit(&slot->deadline_ns, memory_order_relaxed);
    grant->deadline_wall_ms =
        atomic_load_explicit(&slot->deadline_wall_ms, memory_order_relaxed);
    memcpy(grant->pool_namespace, pool->spec.pool_namespace,
           sizeof grant->pool_namespace);
    memcpy(grant->pool, pool->spec.name, sizeof grant->pool);
    memcpy(grant->endpoint, info.endpoint, sizeof grant->endpoint);
    wp_pools_sandbox_name(pool, info.suffix, grant->sandbox);
    if (!pools->config.no_tokens) {
        struct wp_token_fields fields = {.ref = ref,
                                         .fence = grant->fence,
                                         .expiry_wall_ms =
                                             grant->deadline_wall_ms,
                                         .claim_hash = claim_hash,
                                         .pool_tag = wp_pool_tag(pool)};

        memcpy(fields.uid, info.uid, sizeof fields.uid);
        wp_lease_token_sign(&pools->token_key, &fields, grant->token);
    }
    return true;
}

/* The store has the lease: the claim holds the sandbox from here. */
static enum wp_status
hold(struct wp_claim *claim)
{
    struct wp_pool *pool = wp_claim_pool(claim);
    struct wp_pools *pools = pool->pools;
    struct wp_grant *grant = &claim->grant;
    bool followers;

    if (wp_slot_state(&pools->slots, grant->ref) != WP_SLOT_LEASED) {
        /* It died on the way. Nobody has seen this lease: end it, and let the
         * claim have another sandbox. */
        wp_pools_mark_on(pools, grant->ref.index, WP_WORK_ON_UNDONE);
        return WP_TAKEN;
    }
    if (grant->served != WP_SERVED_WARM) {
        grant->waited_ns = wp_pools_now(pools) - claim->arrived_ns;
    }
    followers = wp_claim_table_hold(
        &pools->claims, wp_claim_ref_unpack(claim->entry), grant->ref,
        wp_pools_wall_ms(pools, claim->arrived_ns), claim->commit.served);
    /* A served claim is seen in the latencies before it is seen by its kind,
     * and in both when control looks. */
    wp_histogram_record(&pool->claim_latency, grant->waited_ns);
    if (grant->served != WP_SERVED_WARM) {
        wp_counter_add(&pool->served[grant->served], 1);
    }
    wp_pools_mark(pools, grant->ref.index);
    if (followers) {
        wp_claim_notify_followers(pool, claim->entry, claim);
    }
    return wp_claim_answer(claim, WP_OK, NULL);
}

/* The store has nothing of this grant: the sandbox is offered again, and the
 * fence it was to have is not used up, so that it stays the store's. */
static bool
give_back(struct wp_pool *pool, struct wp_slot_ref ref)
{
    struct wp_slot *slot = wp_slot_at(&pool->pools->slots, ref.index);
    uint64_t fence = atomic_load_explicit(&slot->fence, memory_order_relaxed);
    pthread_mutex_t *lock = wp_pools_change_lock(pool->pools, ref.index);
    bool reopened;
    bool push;

    (void)pthread_mutex_lock(lock);
    (void)wp_slot_work_change(slot, WP_WORK_ON_REOPENS);
    atomic_store_explicit(&slot->fence, fence - 1, memory_order_relaxed);
    reopened = wp_slot_reopen(&pool->pools->slots, ref, &push);
    (void)pthread_mutex_unlock(lock);
    if (!reopened) {
        return false;
    }
    if (push) {
        wp_pools_push(pool, ref);
    }
    /* Whoever waits for it gets it from the control thread: matching here would
     * go one deeper for each of them. */
    wp_pools_mark(pool->pools, ref.index);
    wp_pools_touch(pool);
    return true;
}

/* Nobody knows who holds the sandbox. When the answer was lost, perhaps this
 * claim does, which will not be shown it: then the lease is taken back. One
 * that has died is LOST, and its lease, if the store has one, ends in its
 * time. */
static void
doubt(struct wp_claim *claim, struct wp_slot_ref ref, bool lost)
{
    struct wp_pools *pools = wp_claim_pool(claim)->pools;
    struct wp_slot *slot = wp_slot_at(&pools->slots, ref.index);
    pthread_mutex_t *lock = wp_pools_change_lock(pools, ref.index);

    /* Under the lock nobody ends the lease for the bit. Its entry is given up:
     * what stands in its place tells whose the lease would be. */
    (void)pthread_mutex_lock(lock);
    if (lost && !WP_MUTANT(DOUBT_NOT_TAKEN_BACK)) {
        atomic_store_explicit(&slot->claim_entry,
                              wp_pools_doubted_claim(&claim->hash),
                              memory_order_relaxed);
        (void)wp_slot_work_change(slot, WP_WORK_ON_UNDONE);
    }
    if (!wp_slot_move(&pools->slots, ref, WP_SLOT_LEASED,
                      WP_SLOT_QUARANTINED)) {
        (void)wp_slot_work_change(slot, WP_WORK_ON_UNDO_OVER);
    }
    (void)pthread_mutex_unlock(lock);
    wp_pools_mark(pools, ref.index);
}

/* What the store said of a grant. WP_TAKEN: try another sandbox. */
static enum wp_status
settle(struct wp_claim *claim, enum wp_status status)
{
    struct wp_pool *pool = wp_claim_pool(claim);
    struct wp_slot_ref ref = claim->grant.ref;

    if (status == WP_OK ||
        (WP_MUTANT(SHOWN_UNCONFIRMED) && status == WP_UNKNOWN_OUTCOME)) {
        return hold(claim);
    }
    if ((status != WP_UNAVAILABLE && status != WP_ALREADY_EXISTS &&
         !WP_MUTANT(REISSUED_THOUGH_IN_DOUBT)) ||
        !give_back(pool, ref)) {
        doubt(claim, ref, status == WP_UNKNOWN_OUTCOME);
    }
    if (status == WP_ALREADY_EXISTS) {
        return wp_claim_await_store(claim);
    }
    if (status != WP_UNAVAILABLE && status != WP_UNKNOWN_OUTCOME) {
        return wp_claim_has_left(claim) ? wp_claim_refuse_left(claim)
                                        : WP_TAKEN;
    }
    claim->retry_after_ns =
        atomic_load_explicit(&pool->retry_after_ns, memory_order_relaxed);
    return wp_claim_refuse(claim, WP_UNAVAILABLE,
                           status == WP_UNAVAILABLE ? WP_REASON_REFUSED
                                                    : WP_REASON_UNKNOWN);
}

static void
commit_done(struct wp_lease_op *op, enum wp_status status)
{
    struct wp_claim *claim = WP_CONTAINER_OF(op, struct wp_claim, commit);
    enum wp_status result = settle(claim, status);

    if (result == WP_TAKEN) {
        struct wp_slot_ref ref =
            wp_pools_pop(wp_claim_pool(claim), WP_SLOT_LEASED);

        result = ref.generation != 0 ? wp_claim_grant(claim, ref)
                                     : wp_claim_await(claim);
    }
    wp_claim_finish(claim, result);
}

static enum wp_served
served_how(const struct wp_claim *claim, int64_t created_ns)
{
    if (claim->wait_until_ns == 0) {
        return WP_SERVED_WARM;
    }
    return created_ns >= claim->arrived_ns ? WP_SERVED_COLD : WP_SERVED_QUEUED;
}

static void
set_deadline(struct wp_pools *pools, struct wp_slot *slot,
             const struct wp_claim *claim, int64_t now)
{
    int64_t ttl =
        claim->ttl_ns > 0
            ? claim->ttl_ns
            : atomic_load_explicit(&wp_claim_pool(claim)->ttl_default_ns,
                                   memory_order_relaxed);
    int64_t deadline = wp_time_add(now, ttl);
    int64_t wall_ms = wp_pools_deadline_wall_ms(pools, deadline);

    if (pools->shared && !wp_deadline_is_granted(wall_ms)) {
        deadline = wp_time_add(deadline, WP_NS_PER_MS);
        wall_ms = wp_deadline_as_granted(wall_ms);
    }
    atomic_store_explicit(&slot->deadline_ns, deadline, memory_order_relaxed);
    atomic_store_explicit(&slot->deadline_wall_ms, wall_ms,
                          memory_order_relaxed);
}

/* Writes the lease into the slot, which is the claim's, and asks the store. The
 * claim may be gone when this returns WP_PENDING. */
static enum wp_status
commit(struct wp_claim *claim, struct wp_slot_ref ref)
{
    struct wp_pool *pool = wp_claim_pool(claim);
    struct wp_pools *pools = pool->pools;
    struct wp_slot *slot = wp_slot_at(&pools->slots, ref.index);
    bool waited = claim->wait_until_ns != 0;
    struct wp_grant *g = &claim->grant;
    struct wp_lease_op *op = &claim->commit;
    bool filled;

    (void)wp_slot_fence_next(&pools->slots, ref);
    set_deadline(pools, slot, claim,
                 waited ? wp_pools_now(pools) : claim->arrived_ns);
    atomic_store_explicit(&slot->claim_entry,
                          wp_claim_ref_unpack(claim->entry).index,
                          memory_order_relaxed);
    g->waited_ns = 0;
    g->served =
        served_how(claim, waited ? wp_slot_created_ns(&pools->slots, ref) : 0);
    filled = wp_pools_fill_grant(pools, pool, ref, claim->hash.low, g);
    WP_ASSERT(filled); /* A leased slot keeps its generation. */
    wp_slot_uid(&pools->slots, ref, op->uid);
    op->kind = WP_LEASE_GRANT;
    op->ref = ref;
    op->fence = g->fence;
    op->deadline_wall_ms = g->deadline_wall_ms;
    op->granted_wall_ms = wp_pools_wall_ms(pools, claim->arrived_ns);
    op->served = wp_record_served_pack(g->served, pools->grant_mark);
    op->pool_namespace = claim->pool_namespace;
    op->pool = claim->pool;
    op->sandbox = wp_str_from(g->sandbox);
    op->endpoint = wp_str_from(g->endpoint);
    op->claim_id = claim->claim_id;
    op->tenant = claim->tenant;
    op->done = commit_done;
    return pools->config.store.ops->commit(pools->config.store.self, op);
}

/* Gives the slot, which is LEASED and the caller's, to the claim. */
enum wp_status
wp_claim_grant(struct wp_claim *claim, struct wp_slot_ref ref)
{
    struct wp_pool *pool = wp_claim_pool(claim);

    wp_claim_count_taken(claim);
    for (;;) {
        enum wp_status status = commit(claim, ref);

        if (status == WP_PENDING) {
            return WP_PENDING;
        }
        status = settle(claim, status);
        if (status != WP_TAKEN) {
            return status;
        }
        ref = wp_pools_pop(pool, WP_SLOT_LEASED);
        if (ref.generation == 0) {
            return wp_claim_await(claim);
        }
    }
}

/* For the answer of the claim whose entry that is; under the pool's lock. */
static void
follow(struct wp_pool *pool, struct wp_claim *claim, struct wp_claim_ref ref)
{
    int64_t wait_ns = claim->wait_ns < pool->spec.wait_max_ns
                          ? claim->wait_ns
                          : pool->spec.wait_max_ns;

    claim->entry = wp_claim_ref_pack(ref);
    claim->phase = WP_PHASE_FOLLOWING;
    claim->follow_until_ns = wp_time_add(
        claim->arrived_ns, wait_ns > FOLLOW_MIN_NS ? wait_ns : FOLLOW_MIN_NS);
    if (claim->follow_until_ns < pool->followers_until_ns) {
        pool->followers_until_ns = claim->follow_until_ns;
    }
    wp_list_push_back(&pool->followers, &claim->followers);
}

/* The answer of the claim that has this id already; WP_TAKEN: it is ending,
 * look again. */
static enum wp_status
repeat(struct wp_claim *claim, struct wp_claim_ref ref, uint64_t fingerprint)
{
    struct wp_pool *pool = wp_claim_pool(claim);
    struct wp_pools *pools = pool->pools;
    struct wp_claim_view view;
    enum wp_slot_state state;
    bool follows;

    if (!wp_claim_table_read(&pools->claims, ref, &view)) {
        return WP_TAKEN;
    }
    if (view.fingerprint != fingerprint) {
        return wp_claim_answer(claim, WP_ALREADY_EXISTS, WP_REASON_OTHER);
    }
    if (!view.held && claim->may_follow != NULL && !claim->may_follow(claim)) {
        wp_counter_add(&pool->refused, 1);
        claim->retry_after_ns =
            atomic_load_explicit(&pool->retry_after_ns, memory_order_relaxed);
        return wp_claim_answer(claim, WP_RESOURCE_EXHAUSTED,
                               "an earlier request for this claim waits, and "
                               "too many claims wait");
    }
    if (!view.held) {
        (void)pthread_mutex_lock(&pool->wait_lock);
        follows = wp_claim_table_follow(&pools->claims, ref);
        if (follows) {
            follow(pool, claim, ref);
        }
        (void)pthread_mutex_unlock(&pool->wait_lock);
        if (!follows) {
            return WP_TAKEN;
        }
        wp_pools_touch(pool); /* Control knows when the wait is over. */
        return WP_PENDING;
    }
    if (pools->shared) {
        /* Another replica may have ended it, unheard as yet. */
        claim->confirms = true;
        return wp_claim_await_store(claim);
    }
    if (!wp_pools_fill_grant(pools, pool, view.slot, claim->hash.low,
                             &claim->grant)) {
        return WP_TAKEN;
    }
    state = wp_slot_state(&pools->slots, view.slot);
    /* Last, so that what was read above was of this lease; and it keeps an undo
     * from taking back what is shown now. */
    if ((state != WP_SLOT_LEASED && state != WP_SLOT_LOST) ||
        !wp_claim_table_share_once(&pools->claims, ref)) {
        return WP_TAKEN;
    }
    claim->entry = wp_claim_ref_pack(ref);
    claim->may_leave = true;
    if (state == WP_SLOT_LOST) {
        return wp_claim_answer(claim, WP_FAILED_PRECONDITION, WP_REASON_LOST);
    }
    claim->grant.served = wp_record_served(view.served);
    claim->grant.waited_ns = 0;
    claim->replayed = true;
    return wp_claim_answer(claim, WP_OK, NULL);
}

/* The request but for its id: what a repeat must have the same, in whatever
 * process it comes. */
static uint64_t
fingerprint_of(const struct wp_claim *claim)
{
    uint64_t x = (uint64_t)claim->ttl_ns * UINT64_C(0x9e3779b97f4a7c15);

    return x ^ wp_claim_pool(claim)->identity ^ claim->binding;
}

/* The claim has an entry, which was counted as that. */
static enum wp_status
begin_new(struct wp_claim *claim, struct wp_counted counted)
{
    struct wp_pool *pool = wp_claim_pool(claim);
    struct wp_slot_ref slot = WP_SLOT_REF_NONE;
    const char *over;

    claim->account = counted.account;
    claim->tenant_waiting =
        &pool->pools->accounts.account[counted.account].waiting;
    /* Two fences, here and in shape.c, is_gone: either it is seen here that the
     * pool was closed, or the claim's entry is seen there. */
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load_explicit(&pool->draining, memory_order_relaxed)) {
        return wp_claim_refuse_closed(claim);
    }
    if (wp_claim_has_left(claim)) {
        return wp_claim_refuse_left(claim);
    }
    over = wp_claim_over_quota(claim, counted.live);
    if (over != NULL && !WP_MUTANT(QUOTA_NOT_KEPT)) {
        return wp_claim_refuse(claim, WP_RESOURCE_EXHAUSTED, over);
    }
    if (claim->ahead &&
        atomic_load_explicit(&pool->waiting, memory_order_relaxed) > 0) {
        return wp_claim_refuse(claim, WP_RESOURCE_EXHAUSTED,
                               "claims wait, and come before those ahead of "
                               "need");
    }
    if (claim->n_after > 0 && claim->wait_ns <= 0 &&
        wp_slots_count(&pool->pools->slots, pool->index, WP_SLOT_READY) <=
            claim->n_after) {
        wp_pool_missed(pool, claim->arrived_ns);
        wp_pools_touch(pool);
        return wp_claim_refuse(claim, WP_RESOURCE_EXHAUSTED,
                               "fewer sandboxes are ready than the batch "
                               "needs");
    }
    if (wp_claim_may_pass(claim)) {
        slot = wp_pools_pop(pool, WP_SLOT_LEASED);
    }
    return slot.generation != 0 ? wp_claim_grant(claim, slot)
                                : wp_claim_await(claim);
}

enum wp_status
wp_claim_start(struct wp_claim *claim)
{
    struct wp_pool *pool = wp_claim_pool(claim);
    struct wp_pools *pools = pool->pools;
    struct wp_counted counted;
    struct wp_claim_key key = {
        .hash = claim->hash,
        .fingerprint = fingerprint_of(claim),
        .claim_id = claim->claim_id,
        .tenant = claim->tenant,
        .pool_index = pool->index,
        .now_ns = claim->arrived_ns,
        .counted = &counted,
    };
    struct wp_claim_ref ref;

    claim->commit.fingerprint = key.fingerprint;
    claim->confirms = false;
    claim->may_leave = false;
    for (int i = 0; i < REPEAT_TRIES; i++) {
        enum wp_claim_begin begun =
            wp_claim_table_begin(&pools->claims, &key, &ref);
        enum wp_status status;

        if (begun == WP_CLAIM_FULL) {
            wp_counter_add(&pool->refused, 1);
            claim->retry_after_ns = WP_NS_PER_S;
            return wp_claim_answer(claim, WP_RESOURCE_EXHAUSTED,
                                   "too many claims are held or waiting");
        }
        if (begun == WP_CLAIM_NEW) {
            claim->entry = wp_claim_ref_pack(ref);
            return begin_new(claim, counted);
        }
        status = repeat(claim, ref, key.fingerprint);
        if (status != WP_TAKEN) {
            return status;
        }
    }
    claim->retry_after_ns = WP_NS_PER_MS;
    return wp_claim_answer(
        claim, WP_ABORTED,
        "claim_id: its last claim is just ending; try again");
}

/* NOLINTEND(misc-no-recursion) */

enum wp_status
wp_pools_claim(struct wp_pools *pools, struct wp_claim *claim)
{
    struct wp_pool *pool;

    WP_ASSERT(claim->ttl_ns >= 0 && claim->claim_id.len > 0);
    WP_ASSERT(!claim->ahead || claim->wait_ns == 0);
    claim->hash =
        wp_claim_hash(pools->config.hash_key, claim->tenant, claim->claim_id);
    if (WP_MUTANT(CLAIM_ID_FORGOTTEN)) {
        claim->hash.low ^= (uint64_t)wp_pools_now(pools);
    }
    pool = wp_pools_find(pools, claim->pool_namespace, claim->pool);
    claim->owner = pool;
    if (pool == NULL) {
        return wp_claim_answer(claim, WP_NOT_FOUND, "pool: no such pool");
    }
    if (claim->lasting) {
        claim->ttl_ns = WP_TIME_NEVER;
    } else if (claim->ttl_ns >
               atomic_load_explicit(&pool->ttl_max_ns, memory_order_relaxed)) {
        claim->ttl_max_ns =
            atomic_load_explicit(&pool->ttl_max_ns, memory_order_relaxed);
        return wp_claim_answer(claim, WP_INVALID_ARGUMENT,
                               "ttl_ms: longer than this pool allows");
    }
    claim->arrived_ns = wp_pools_now(pools);
    claim->asked = 0;
    claim->quota = WP_QUOTA_NOT;
    atomic_store_explicit(&claim->left, false, memory_order_relaxed);
    return wp_claim_start(claim);
}
