/* pool/records/lease.c - leases after the grant: renewed, released, ended.
 *
 * Each change asks the lease store first and then acts on its answer under the
 * slot's change lock, where the slot's state and fence decide: of several ends
 * of one lease (release, expiry, undo, loss) exactly one moves the slot. */
#include <string.h>

#include "pool/base/assert.h"
#include "pool/base/mutant.h"
#include "pool/records/records.h"
#include "pool/table/pools.h"

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

/* The claim of the lease is of the tenant that asks, when one is named. */
static bool
tenant_may(const struct wp_lease_change *change)
{
    return change->tenant.len == 0 ||
           wp_str_is(change->tenant, change->names.tenant);
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
    /* A store knows which release it took: here the slot may have heard of that
     * already, or not yet of another one's. */
    change->was_held = pools->durable ? status == WP_OK : ended;
    if (change->was_held) {
        wp_counter_add(&pool->released, 1);
    }
    if (ended) {
        wp_pools_mark(pools, ref.index);
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
    uint32_t barred =
        WP_WORK_UNDO | WP_WORK_STOP | (pools->durable ? 0 : WP_WORK_ENDING);

    return wp_slot_state(&pools->slots, ref) == WP_SLOT_LEASED &&
           atomic_load_explicit(&slot->fence, memory_order_relaxed) == fence &&
           !wp_slot_has_work(slot, barred);
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
    wp_pools_mark(pools, ref.index);
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

/* For how long the lease may still be held. */
static enum wp_status
find_hold(struct wp_pools *pools, struct wp_lease_change *change,
          struct wp_slot_ref ref, int64_t now, int64_t *left)
{
    int64_t hold_max = atomic_load_explicit(
        &wp_pools_of_slot(pools, ref.index)->hold_max_ns, memory_order_relaxed);
    struct wp_claim_view view;

    if (hold_max == 0) {
        return answer(change, WP_FAILED_PRECONDITION,
                      "hold: this pool holds no leases (its annotation "
                      "pool.warmpool.io/hold-max)");
    }
    if (!wp_pools_claim_of(pools, ref, &view)) {
        return answer(change, WP_UNAVAILABLE,
                      "the lease is just changing; try again");
    }
    *left = wp_pools_deadline_ns(
                pools, now, view.granted_wall_ms + hold_max / WP_NS_PER_MS) -
            now;
    return *left > 0 || change->keeps
               ? WP_OK
               : answer(change, WP_FAILED_PRECONDITION,
                        "hold: the lease has lasted for as long as its pool "
                        "holds one (pool.warmpool.io/hold-max)");
}

/* Until when the lease is to last: change->deadline_ns. */
static enum wp_status
choose_deadline(struct wp_pools *pools, struct wp_lease_change *change,
                struct wp_slot_ref ref, int64_t now)
{
    const struct wp_pool *pool = wp_pools_of_slot(pools, ref.index);
    int64_t ttl = change->ttl_ns;
    int64_t max = atomic_load_explicit(&pool->ttl_max_ns, memory_order_relaxed);

    if (change->hold || change->keeps) {
        enum wp_status status = find_hold(pools, change, ref, now, &max);

        if (status != WP_OK) {
            return status;
        }
        if (ttl == 0 || (change->keeps && ttl > max)) {
            ttl = max;
        }
    } else if (ttl == 0) {
        ttl = atomic_load_explicit(&pool->ttl_default_ns, memory_order_relaxed);
    }
    if (ttl > max) {
        change->ttl_max_ns = max;
        return answer(change, WP_INVALID_ARGUMENT,
                      "ttl_ms: longer than this pool allows");
    }
    change->deadline_ns = wp_time_add(now, ttl);
    return WP_OK;
}

static enum wp_status
renew(struct wp_pools *pools, struct wp_lease_change *change)
{
    struct wp_token_fields token;
    enum wp_status status = find_lease(pools, change, &token);
    int64_t now = wp_pools_now(pools);
    int64_t deadline;
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
    status = choose_deadline(pools, change, token.ref, now);
    if (status != WP_OK) {
        return status;
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
    if (change->keeps && deadline >= change->deadline_ns) {
        return answer(change, WP_OK, NULL); /* It lasts longer as it is. */
    }
    if (deadline == WP_TIME_NEVER) {
        change->deadline_ns = WP_TIME_NEVER;
    }
    wp_pools_lease_op(pools, token.ref, WP_LEASE_RENEW, &change->names,
                      &change->commit);
    change->commit.fence = token.fence;
    change->commit.deadline_wall_ms =
        wp_pools_deadline_wall_ms(pools, change->deadline_ns);
    if (pools->shared) {
        change->commit.deadline_wall_ms =
            wp_deadline_as_shown(change->commit.deadline_wall_ms);
    }
    change->commit.done = renew_done;
    status = commit(pools, &change->commit);
    return status == WP_PENDING ? status : finish_renew(pools, change, status);
}

enum wp_status
wp_pools_renew(struct wp_pools *pools, struct wp_lease_change *change)
{
    change->asked = 0;
    change->settled = false;
    change->keeps = false;
    return renew(pools, change);
}

enum wp_status
wp_pools_keep(struct wp_pools *pools, struct wp_lease_change *change,
              struct wp_slot_ref ref)
{
    struct wp_token_fields fields = {.ref = ref};
    struct wp_slot_info info;

    if (!wp_pools_ref_is_ours(pools, ref) ||
        wp_slot_state(&pools->slots, ref) != WP_SLOT_LEASED ||
        !wp_slot_read(&pools->slots, ref, &info)) {
        return answer(change, WP_NOT_FOUND, "its lease has ended");
    }
    fields.fence = atomic_load_explicit(
        &wp_slot_at(&pools->slots, ref.index)->fence, memory_order_relaxed);
    fields.pool_tag = wp_pool_tag(wp_pools_of_slot(pools, ref.index));
    memcpy(fields.uid, info.uid, sizeof fields.uid);
    wp_lease_token_sign(&pools->token_key, &fields, change->token);
    change->asked = 0;
    change->settled = false;
    change->keeps = true;
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
