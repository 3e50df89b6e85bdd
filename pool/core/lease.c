/* pool/core/lease.c - leases after the grant: renewed, released, ended.
 *
 * Each change asks the lease store first and then acts on its answer under the
 * slot's change lock, where the slot's state and fence decide: of several ends
 * of one lease (release, expiry, undo, loss) exactly one moves the slot. */
#include "pool/base/assert.h"
#include "pool/base/mutant.h"
#include "pool/core/pools.h"

enum {
    /* How often the store is asked for a lease while its slot changes. */
    ASKS_MAX = 200,
};

static enum wp_status
answer(struct wp_lease_change *change, enum wp_status status,
       const char *reason)
{
    change->status = status;
    change->reason = reason;
    return status;
}

bool
wp_pools_claim_of(struct wp_pools *pools, struct wp_slot_ref ref,
                  struct wp_claim_view *view)
{
    uint32_t index =
        atomic_load_explicit(&wp_slot_at(&pools->slots, ref.index)->claim_entry,
                             memory_order_relaxed);

    return index < wp_claim_table_used_max(&pools->claims) &&
           wp_claim_table_read_at(&pools->claims, index, view) && view->held &&
           wp_slot_ref_eq(view->slot, ref);
}

bool
wp_pools_lease_names(struct wp_pools *pools, struct wp_slot_ref ref,
                     struct wp_lease_names *names)
{
    struct wp_claim_view view;
    struct wp_slot_info info;
    bool claimed = wp_pools_claim_of(pools, ref, &view);

    memset(names, 0, sizeof *names);
    if (wp_slot_read(&pools->slots, ref, &info)) {
        wp_pools_sandbox_name(wp_pools_of_slot(pools, ref.index), info.suffix,
                              names->sandbox);
    }
    if (claimed) {
        memcpy(names->claim_id, view.claim_id, sizeof names->claim_id);
        memcpy(names->tenant, view.tenant, sizeof names->tenant);
    }
    return claimed;
}

void
wp_pools_lease_op(struct wp_pools *pools, struct wp_slot_ref ref,
                  enum wp_lease_op_kind kind,
                  const struct wp_lease_names *names, struct wp_lease_op *op)
{
    const struct wp_pool *pool = wp_pools_of_slot(pools, ref.index);
    const struct wp_slot *slot = wp_slot_at(&pools->slots, ref.index);

    memset(op, 0, sizeof *op);
    wp_slot_uid(&pools->slots, ref, op->uid);
    op->kind = kind;
    op->ref = ref;
    op->fence = atomic_load_explicit(&slot->fence, memory_order_relaxed);
    op->deadline_wall_ms =
        atomic_load_explicit(&slot->deadline_wall_ms, memory_order_relaxed);
    op->pool_namespace = wp_str_from(pool->spec.pool_namespace);
    op->pool = wp_str_from(pool->spec.name);
    op->sandbox = wp_str_from(names->sandbox);
    op->claim_id = wp_str_from(names->claim_id);
    op->tenant = wp_str_from(names->tenant);
}

static enum wp_status
commit(struct wp_pools *pools, struct wp_lease_op *op)
{
    return pools->config.store.ops->commit(pools->config.store.self, op);
}

static bool
is_held(enum wp_slot_state state)
{
    return state == WP_SLOT_LEASED || state == WP_SLOT_LOST;
}

/* The claim is looked up first: once the slot is DYING, the control thread may
 * have it destroyed and used anew at any moment. */
bool
wp_pools_end_held(struct wp_pools *pools, struct wp_slot_ref ref)
{
    struct wp_claim_view view;
    bool claimed = wp_pools_claim_of(pools, ref, &view);
    bool push = false;

    if (WP_MUTANT(USED_OFFERED_AGAIN) &&
        wp_slot_reopen(&pools->slots, ref, &push)) {
        wp_pools_push(wp_pools_of_slot(pools, ref.index), ref);
    } else if (!wp_slot_move(&pools->slots, ref, WP_SLOT_LEASED,
                             WP_SLOT_DYING) &&
               !wp_slot_move(&pools->slots, ref, WP_SLOT_LOST, WP_SLOT_DYING)) {
        return false;
    }
    if (claimed) {
        bool ended = wp_claim_table_end(&pools->claims, view.ref, NULL);

        (void)ended; /* Or an undo was faster: the same end. */
    }
    return true;
}

/* The claim of the lease is of the tenant that asks, when one is named. */
static bool
tenant_may(const struct wp_lease_change *change)
{
    return change->tenant.len == 0 ||
           wp_str_is(change->tenant, change->names.tenant);
}

/* A slot is named by its place in the process that signed the token; in another
 * one, the sandbox's uid leads to it. */
struct wp_slot_ref
wp_pools_slot_of_token(struct wp_pools *pools,
                       const struct wp_token_fields *token)
{
    struct wp_slot_info info;

    if (!pools->durable ||
        (wp_slot_read(&pools->slots, token->ref, &info) &&
         memcmp(info.uid, token->uid, sizeof info.uid) == 0)) {
        return token->ref;
    }
    return wp_pools_find_uid(pools, token->uid);
}

/* Verifies the token and finds its lease; token->ref is its slot here. WP_OK:
 * held, with that fence; WP_TAKEN: held, but its sandbox is lost; WP_PENDING:
 * perhaps the store knows it. */
static enum wp_status
find_lease(struct wp_pools *pools, struct wp_lease_change *change,
           struct wp_token_fields *token)
{
    enum wp_slot_state state;
    uint64_t fence;
    bool claimed;
    bool held;

    if (!wp_lease_token_verify(&pools->token_key, change->token, token)) {
        return answer(change, WP_PERMISSION_DENIED,
                      "token: not signed by this daemon");
    }
    token->ref = wp_pools_slot_of_token(pools, token);
    state = wp_slot_state(&pools->slots, token->ref);
    fence = is_held(state)
                ? atomic_load_explicit(
                      &wp_slot_at(&pools->slots, token->ref.index)->fence,
                      memory_order_relaxed)
                : 0;
    held = is_held(state) && fence >= token->fence;
    claimed = held && wp_pools_lease_names(pools, token->ref, &change->names);
    /* A record of another replica may still be on its way here; and a slot
     * without its claim may be one that a claim here has taken in vain, with
     * the very fence that the other one got. */
    if (!claimed && pools->shared && !change->settled &&
        state != WP_SLOT_DYING) {
        return WP_PENDING;
    }
    if (!held) {
        return answer(change, WP_NOT_FOUND, "token: its lease has ended");
    }
    if (fence != token->fence) {
        return answer(change, WP_ABORTED,
                      "token: a newer lease of this sandbox exists");
    }
    if (claimed && !tenant_may(change)) {
        return answer(change, WP_PERMISSION_DENIED,
                      "token: of a lease of another tenant");
    }
    return state == WP_SLOT_LOST ? WP_TAKEN : WP_OK;
}

static enum wp_status
await_store(struct wp_pools *pools, struct wp_lease_change *change, bool renews)
{
    change->renews = renews;
    wp_lease_change_await_store(pools, change);
    return WP_PENDING;
}

static enum wp_status
finish_release(struct wp_pools *pools, struct wp_lease_change *change,
               enum wp_status status)
{
    struct wp_slot_ref ref = change->commit.ref;
    struct wp_pool *pool = wp_pools_of_slot(pools, ref.index);
    pthread_mutex_t *lock = wp_pools_change_lock(pools, ref.index);
    bool ended;

    if (status != WP_OK && status != WP_NOT_FOUND) {
        return answer(change,
                      status == WP_ABORTED ? WP_ABORTED : WP_UNAVAILABLE,
                      status == WP_ABORTED
                          ? "token: a newer lease of this sandbox exists"
                          : "the lease store did not confirm; try again");
    }
    (void)pthread_mutex_lock(lock);
    ended = wp_pools_end_held(pools, ref);
    (void)pthread_mutex_unlock(lock);
    /* The keeper may have heard of it first, and the sandbox be gone from here
     * already; but it was this release that the store took. */
    change->was_held = ended || (pools->durable && status == WP_OK);
    if (change->was_held) {
        wp_counter_add(&pool->released, 1);
    }
    if (ended) {
        wp_pools_mark(pools, ref.index, 0);
    }
    return answer(change, WP_OK, NULL);
}

static void
release_done(struct wp_lease_op *op, enum wp_status status)
{
    struct wp_lease_change *change =
        WP_CONTAINER_OF(op, struct wp_lease_change, commit);

    (void)finish_release(change->owner, change, status);
    change->done(change);
}

static enum wp_status
release(struct wp_pools *pools, struct wp_lease_change *change)
{
    struct wp_token_fields token;
    enum wp_status status = find_lease(pools, change, &token);

    if (status == WP_PENDING) {
        return await_store(pools, change, false);
    }
    change->was_held = false;
    if (status == WP_NOT_FOUND) {
        return answer(change, WP_OK, NULL);
    }
    if (status != WP_OK && status != WP_TAKEN) {
        return status;
    }
    change->owner = pools;
    wp_pools_lease_op(pools, token.ref, WP_LEASE_RELEASE, &change->names,
                      &change->commit);
    change->commit.fence = token.fence;
    change->commit.done = release_done;
    status = commit(pools, &change->commit);
    return status == WP_PENDING ? status
                                : finish_release(pools, change, status);
}

enum wp_status
wp_pools_release(struct wp_pools *pools, struct wp_lease_change *change)
{
    change->asked = 0;
    change->settled = false;
    return release(pools, change);
}

/* The lease is held, by this fence, and nobody is ending it. Under the lock. A
 * durable store arbitrates between a renewal and an expiry that is under way:
 * what it says of the one tells the end of the other. */
static bool
can_renew(struct wp_pools *pools, struct wp_slot_ref ref, uint64_t fence)
{
    struct wp_slot *slot = wp_slot_at(&pools->slots, ref.index);
    uint32_t barred = WP_WORK_UNDO | WP_WORK_STOP |
                      (pools->durable ? 0 : (uint32_t)WP_WORK_ENDING);

    return wp_slot_state(&pools->slots, ref) == WP_SLOT_LEASED &&
           atomic_load_explicit(&slot->fence, memory_order_relaxed) == fence &&
           (atomic_load_explicit(&slot->work, memory_order_relaxed) & barred) ==
               0;
}

static void
sign_renewed(struct wp_pools *pools, struct wp_lease_change *change)
{
    struct wp_token_fields fields;
    bool ours =
        wp_lease_token_verify(&pools->token_key, change->token, &fields);

    WP_ASSERT(ours); /* It was verified when the renewal began. */
    fields.expiry_wall_ms = change->deadline_wall_ms;
    wp_lease_token_sign(&pools->token_key, &fields, change->new_token);
}

static enum wp_status
finish_renew(struct wp_pools *pools, struct wp_lease_change *change,
             enum wp_status status)
{
    struct wp_slot_ref ref = change->commit.ref;
    struct wp_slot *slot = wp_slot_at(&pools->slots, ref.index);
    pthread_mutex_t *lock = wp_pools_change_lock(pools, ref.index);
    bool renewed;

    if (status == WP_NOT_FOUND) {
        return answer(change, status, "token: its lease has ended");
    }
    if (status == WP_ABORTED) {
        return answer(change, status,
                      "token: a newer lease of this sandbox exists");
    }
    if (status == WP_FAILED_PRECONDITION) {
        return answer(change, status,
                      "the sandbox was lost: release the claim");
    }
    if (status != WP_OK && !WP_MUTANT(RENEWED_UNCONFIRMED)) {
        return answer(change, WP_UNAVAILABLE,
                      "the lease store did not confirm; try again");
    }
    (void)pthread_mutex_lock(lock);
    renewed = can_renew(pools, ref, change->commit.fence);
    if (renewed) {
        atomic_store_explicit(&slot->deadline_ns, change->deadline_ns,
                              memory_order_relaxed);
        atomic_store_explicit(&slot->deadline_wall_ms,
                              change->commit.deadline_wall_ms,
                              memory_order_relaxed);
    }
    (void)pthread_mutex_unlock(lock);
    if (!renewed) {
        return answer(change, WP_NOT_FOUND, "token: its lease has ended");
    }
    change->fence = change->commit.fence;
    change->deadline_wall_ms = change->commit.deadline_wall_ms;
    sign_renewed(pools, change);
    wp_pools_mark(pools, ref.index, 0);
    return answer(change, WP_OK, NULL);
}

static void
renew_done(struct wp_lease_op *op, enum wp_status status)
{
    struct wp_lease_change *change =
        WP_CONTAINER_OF(op, struct wp_lease_change, commit);

    (void)finish_renew(change->owner, change, status);
    change->done(change);
}

static enum wp_status
renew(struct wp_pools *pools, struct wp_lease_change *change)
{
    struct wp_token_fields token;
    enum wp_status status = find_lease(pools, change, &token);
    const struct wp_pool *pool;
    int64_t now = wp_pools_now(pools);
    int64_t deadline;
    int64_t ttl;
    bool live;

    if (status == WP_PENDING) {
        return await_store(pools, change, true);
    }
    if (status == WP_TAKEN) {
        return answer(change, WP_FAILED_PRECONDITION,
                      "the sandbox was lost: release the claim");
    }
    if (status != WP_OK) {
        return status;
    }
    pool = wp_pools_of_slot(pools, token.ref.index);
    ttl = change->ttl_ns > 0 ? change->ttl_ns
                             : atomic_load_explicit(&pool->ttl_default_ns,
                                                    memory_order_relaxed);
    if (ttl > atomic_load_explicit(&pool->ttl_max_ns, memory_order_relaxed)) {
        return answer(change, WP_INVALID_ARGUMENT,
                      "ttl_ms: longer than this pool allows");
    }
    (void)pthread_mutex_lock(wp_pools_change_lock(pools, token.ref.index));
    deadline = atomic_load_explicit(
        &wp_slot_at(&pools->slots, token.ref.index)->deadline_ns,
        memory_order_relaxed);
    live = can_renew(pools, token.ref, token.fence) && deadline > now;
    (void)pthread_mutex_unlock(wp_pools_change_lock(pools, token.ref.index));
    if (!live && pools->shared && !change->settled) {
        /* Perhaps another replica has renewed it: the store knows. */
        return await_store(pools, change, true);
    }
    if (!live) {
        return answer(change, WP_NOT_FOUND, "token: its lease has ended");
    }
    change->owner = pools;
    change->deadline_ns =
        deadline == WP_TIME_NEVER ? WP_TIME_NEVER : wp_time_add(now, ttl);
    wp_pools_lease_op(pools, token.ref, WP_LEASE_RENEW, &change->names,
                      &change->commit);
    change->commit.fence = token.fence;
    change->commit.deadline_wall_ms =
        wp_pools_deadline_wall_ms(pools, change->deadline_ns);
    change->commit.done = renew_done;
    status = commit(pools, &change->commit);
    return status == WP_PENDING ? status : finish_renew(pools, change, status);
}

enum wp_status
wp_pools_renew(struct wp_pools *pools, struct wp_lease_change *change)
{
    change->asked = 0;
    change->settled = false;
    return renew(pools, change);
}

void
wp_pools_resume_change(struct wp_pools *pools, struct wp_lease_change *change,
                       enum wp_status status)
{
    if (status == WP_PENDING && change->asked++ < ASKS_MAX) {
        wp_lease_change_await_store(pools, change);
        return;
    }
    change->settled = true;
    if (status == WP_OK) {
        status = change->renews ? renew(pools, change) : release(pools, change);
    } else {
        status = answer(change, WP_UNAVAILABLE,
                        "the lease store has not told yet who holds the "
                        "lease; try again");
    }
    if (status != WP_PENDING) {
        change->done(change);
    }
}

/* The store says that the lease was renewed meanwhile, elsewhere. Under the
 * change lock. */
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

    (void)atomic_fetch_and_explicit(&slot->work, ~(uint32_t)WP_WORK_UNDO,
                                    memory_order_relaxed);
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
    if ((atomic_load_explicit(&slot->work, memory_order_relaxed) &
         WP_WORK_ENDING) == 0 &&
        is_held(wp_slot_state(&pools->slots, ref))) {
        superseded(pools, ref);
    }
    (void)pthread_mutex_unlock(lock);
    wp_pools_mark(pools, ref.index, 0);
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
    bool ended = status == WP_OK || status == WP_NOT_FOUND;
    bool expires = end->op.kind == WP_LEASE_EXPIRE;
    bool offer = false;
    bool push = false;
    bool dying = false;

    (void)pthread_mutex_lock(lock);
    /* ENDING was set for this generation, which lasts until the move below. */
    (void)atomic_fetch_and_explicit(&slot->work, ~(uint32_t)WP_WORK_ENDING,
                                    memory_order_relaxed);
    if (ended && end->undo) {
        (void)atomic_fetch_and_explicit(&slot->work, ~(uint32_t)WP_WORK_UNDO,
                                        memory_order_relaxed);
        if (end->op.kind == WP_LEASE_UNDO && status == WP_OK) {
            wp_pools_keep_open(slot);
            offer = wp_slot_reopen(&pools->slots, ref, &push);
        }
    }
    if (ended && !offer) {
        dying = wp_pools_end_held(pools, ref);
    } else if (status == WP_ABORTED && expires &&
               end->found.fence == end->op.fence) {
        take_deadline(pools, slot, &end->found);
    } else if (status == WP_ABORTED && pools->durable) {
        superseded(pools, ref);
    }
    (void)pthread_mutex_unlock(lock);
    if (dying && !end->undo) {
        wp_counter_add(expires ? &pool->expired : &pool->released, 1);
    }
    wp_store_request_give(end);
    if (offer) {
        if (push) {
            wp_pools_push(pool, ref);
        }
        wp_pools_match(pool);
    }
    wp_pools_mark(pools, ref.index, 0);
}

static void
end_done(struct wp_lease_op *op, enum wp_status status)
{
    finish_end(WP_CONTAINER_OF(op, struct wp_store_request, op), status);
}

/* Of a sandbox that died nobody else may be offered what is undone. */
static enum wp_lease_op_kind
end_kind(struct wp_pools *pools, struct wp_slot_ref ref, bool undo,
         bool stopping)
{
    if (undo && wp_slot_state(&pools->slots, ref) == WP_SLOT_LEASED) {
        return WP_LEASE_UNDO;
    }
    return undo || stopping || WP_MUTANT(FOLLOWER_EXPIRES) ? WP_LEASE_RELEASE
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
        (void)atomic_fetch_or_explicit(&slot->work, WP_WORK_ENDING,
                                       memory_order_relaxed);
        /* Who wants the sandbox gone does not want it offered again. */
        end->undo = (work & (WP_WORK_UNDO | WP_WORK_STOP)) == WP_WORK_UNDO;
        (void)wp_pools_lease_names(pools, ref, &end->names);
        wp_pools_lease_op(
            pools, ref,
            end_kind(pools, ref, end->undo, (work & WP_WORK_STOP) != 0),
            &end->names, &end->op);
    }
    (void)pthread_mutex_unlock(lock);
    if (!begun) {
        wp_store_request_give(end);
        return true;
    }
    end->op.found = &end->found;
    end->op.done = end_done;
    status = commit(pools, &end->op);
    if (status != WP_PENDING) {
        finish_end(end, status);
    }
    return true;
}
