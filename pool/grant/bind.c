/* pool/grant/bind.c - what a claim brings reaches its sandbox, between the
 * grant and the answer.
 *
 *   granted --bind--> the backend binds --all of it--> answered
 *                          | not all, or not in time
 *                          '--> the lease ends, the claim says what was not
 *
 * A process that dies between the two leaves a lease that nobody was told of.
 * Its sandbox is whole all the same: it takes a binding as one message, and
 * ends by itself when it cannot take all of it. So whoever repeats the claim,
 * with the same binding, gets a sandbox that has it, or that takes it now. */
#include <stdio.h>

#include "pool/base/assert.h"
#include "pool/base/mutant.h"
#include "pool/grant/claim_way.h"

uint64_t
wp_pools_fingerprint(const struct wp_pools *pools, struct wp_str bytes)
{
    static const char purpose[] = "binding";
    struct wp_hash128 own =
        wp_siphash128(pools->config.hash_key, purpose, sizeof purpose - 1);
    struct wp_hash_key key = {own.low, own.high};
    uint64_t low = wp_siphash128(key, bytes.ptr, bytes.len).low;

    return low != 0 ? low : 1;
}

/* What is in the pool's specification may change meanwhile. */
static void
copy_text(struct wp_pool *pool, const char *field, char *out, size_t size)
{
    (void)pthread_mutex_lock(&pool->wait_lock);
    memcpy(out, field, size);
    (void)pthread_mutex_unlock(&pool->wait_lock);
}

enum wp_status
wp_pools_may_bind(struct wp_pools *pools, struct wp_str pool_namespace,
                  struct wp_str name, struct wp_err *err)
{
    const struct wp_backend *backend = &pools->config.backend;
    struct wp_pool *pool = wp_pools_find(pools, pool_namespace, name);
    char template_name[WP_TEMPLATE_NAME_MAX + 1];
    const char *why;

    if (pool == NULL) {
        return WP_OK;
    }
    if (backend->ops->bind == NULL) {
        return wp_err_set(err, WP_FAILED_PRECONDITION,
                          "binding: sandboxes of the backend '%s' cannot be "
                          "bound",
                          backend->ops->name);
    }
    if (!wp_pools_is_keeper(pools)) {
        return wp_err_set(err, WP_UNAVAILABLE,
                          "binding: this daemon does not keep the sandboxes "
                          "now; try again, or at the one that does");
    }
    copy_text(pool, pool->spec.template_name, template_name,
              sizeof template_name);
    why = backend->ops->unbound(backend->self, pool_namespace,
                                wp_str_from(template_name));
    return why == NULL ? WP_OK
                       : wp_err_set(err, WP_FAILED_PRECONDITION,
                                    "binding: sandboxes of template '%s' "
                                    "cannot be bound: %s",
                                    template_name, why);
}

bool
wp_pools_must_bind(struct wp_pools *pools, struct wp_str pool_namespace,
                   struct wp_str name)
{
    const struct wp_backend *backend = &pools->config.backend;
    char template_name[WP_TEMPLATE_NAME_MAX + 1];
    struct wp_pool *pool;

    if (WP_LIKELY(backend->ops->passes == NULL) ||
        !backend->ops->passes(backend->self)) {
        return false;
    }
    pool = wp_pools_find(pools, pool_namespace, name);
    /* Relaxed: a claim beside the change may be before or behind it. */
    if (pool == NULL ||
        !atomic_load_explicit(&pool->has_egress, memory_order_relaxed)) {
        return false;
    }
    copy_text(pool, pool->spec.template_name, template_name,
              sizeof template_name);
    return backend->ops->unbound(backend->self, pool_namespace,
                                 wp_str_from(template_name)) == NULL;
}

enum wp_status
wp_pools_may_bring(const struct wp_pools *pools,
                   const struct wp_binding *binding, struct wp_err *err)
{
    const struct wp_backend *backend = &pools->config.backend;

    if (binding->n_repositories + binding->n_volumes == 0) {
        return WP_OK;
    }
    return backend->ops->may_bring != NULL
               ? backend->ops->may_bring(backend->self, binding, err)
               : wp_err_set(err, WP_FAILED_PRECONDITION,
                            "binding.%s: sandboxes of the backend '%s' get "
                            "none",
                            binding->n_volumes > 0 ? "volumes" : "repositories",
                            backend->ops->name);
}

enum wp_status
wp_pools_may_narrow(struct wp_pools *pools, struct wp_str pool_namespace,
                    struct wp_str name, struct wp_str by, struct wp_err *err)
{
    const struct wp_backend *backend = &pools->config.backend;
    struct wp_pool *pool = wp_pools_find(pools, pool_namespace, name);
    char egress[WP_EGRESS_TEXT_MAX + 1];

    if (pool == NULL) {
        return WP_OK;
    }
    if (backend->ops->narrows == NULL) {
        return wp_err_set(err, WP_FAILED_PRECONDITION,
                          "binding.egress: no claim can narrow what sandboxes "
                          "of the backend '%s' reach",
                          backend->ops->name);
    }
    copy_text(pool, pool->spec.egress, egress, sizeof egress);
    return backend->ops->narrows(backend->self, wp_str_from(egress), by, err) ==
                   WP_OK
               ? WP_OK
               : wp_err_wrap(err, "binding.egress");
}

enum wp_status
wp_pools_may_sign(const struct wp_pools *pools, struct wp_err *err)
{
    const struct wp_backend *backend = &pools->config.backend;

    if (backend->ops->may_sign == NULL) {
        return wp_err_set(err, WP_FAILED_PRECONDITION,
                          "binding.identity: sandboxes of the backend '%s' "
                          "get none",
                          backend->ops->name);
    }
    return backend->ops->may_sign(backend->self, err) == WP_OK
               ? WP_OK
               : wp_err_wrap(err, "binding.identity");
}

/* Is the claim's lease still held? Under the change lock. */
static bool
is_held(struct wp_pools *pools, const struct wp_claim *claim)
{
    enum wp_slot_state state = wp_slot_state(&pools->slots, claim->grant.ref);

    return (state == WP_SLOT_LEASED || state == WP_SLOT_LOST) &&
           atomic_load_explicit(
               &wp_slot_at(&pools->slots, claim->grant.ref.index)->fence,
               memory_order_relaxed) == claim->grant.fence;
}

/* The lease is nobody's yet: it ends, and the sandbox with it. Here the claim's
 * id is free at once, so that a repeat has another sandbox; the store has to
 * hear of the end first. When a repeat was told of the lease, it stands. */
static void
end_unshown(struct wp_pools *pools, const struct wp_claim *claim)
{
    uint32_t index = claim->grant.ref.index;
    struct wp_slot *slot = wp_slot_at(&pools->slots, index);
    pthread_mutex_t *lock = wp_pools_change_lock(pools, index);
    bool ends;

    (void)pthread_mutex_lock(lock);
    ends = is_held(pools, claim) && !wp_slot_has_work(slot, WP_WORK_BOUND);
    if (ends) {
        (void)!wp_claim_table_end(&pools->claims,
                                  wp_claim_ref_unpack(claim->entry), NULL);
        (void)wp_slot_work_change(slot, WP_WORK_ON_STOPPED);
    }
    (void)pthread_mutex_unlock(lock);
    if (ends) {
        wp_pools_mark(pools, index);
    }
}

/* From here on somebody is told. False: the lease has ended meanwhile. */
static bool
may_show(struct wp_pools *pools, const struct wp_claim *claim)
{
    uint32_t index = claim->grant.ref.index;
    struct wp_slot *slot = wp_slot_at(&pools->slots, index);
    pthread_mutex_t *lock = wp_pools_change_lock(pools, index);
    bool shown;

    (void)pthread_mutex_lock(lock);
    shown = is_held(pools, claim) && !wp_slot_has_work(slot, WP_WORK_STOP);
    if (shown) {
        (void)wp_slot_work_change(slot, WP_WORK_ON_WAS_BOUND);
    }
    (void)pthread_mutex_unlock(lock);
    return shown;
}

/* What the backend said. */
static enum wp_status
settle(struct wp_bind *bind, enum wp_status status)
{
    struct wp_claim *claim = bind->claim;
    struct wp_pool *pool = wp_claim_pool(claim);
    const char *reason = bind->op.reason;

    if (status == WP_OK && !may_show(pool->pools, claim)) {
        status = WP_UNAVAILABLE;
        reason = "the lease ended while its sandbox was bound; try again";
    }
    if (status == WP_OK || WP_MUTANT(SHOWN_UNBOUND)) {
        wp_counter_add(&pool->bound, 1);
        return WP_OK;
    }
    wp_counter_add(&pool->unbound, 1);
    if (!claim->replayed) {
        end_unshown(pool->pools, claim);
    }
    return wp_claim_answer(claim, status, reason);
}

static void
bind_done(struct wp_bind_op *op)
{
    struct wp_bind *bind = WP_CONTAINER_OF(op, struct wp_bind, op);

    (void)settle(bind, op->status);
    bind->done(bind);
}

enum wp_status
wp_pools_bind(struct wp_pools *pools, struct wp_bind *bind)
{
    const struct wp_backend *backend = &pools->config.backend;
    struct wp_claim *claim = bind->claim;
    struct wp_pool *pool = wp_claim_pool(claim);
    char egress[WP_EGRESS_TEXT_MAX + 1];
    enum wp_status status;

    WP_ASSERT(
        claim->status == WP_OK && bind->binding->fingerprint != 0 &&
        (claim->binding == 0 || bind->binding->fingerprint == claim->binding));
    copy_text(pool, pool->spec.egress, egress, sizeof egress);
    claim->bound = true;
    bind->op.binding = bind->binding;
    bind->op.tenant = claim->tenant;
    bind->op.policy = wp_str_from(egress);
    bind->op.ref = claim->grant.ref;
    bind->op.within_ns = WP_BIND_MAX_NS;
    bind->op.done = bind_done;
    status = backend->ops->bind(backend->self, &bind->op);
    return status == WP_PENDING ? WP_PENDING : settle(bind, status);
}
