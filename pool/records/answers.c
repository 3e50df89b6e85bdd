/* pool/records/answers.c - what control asks the store on behalf of claims,
 * lease changes and slots in doubt, and what it does with the answers. */
#include <string.h>

#include "pool/base/assert.h"
#include "pool/base/mutant.h"
#include "pool/grant/grant.h"
#include "pool/leases/rules.h"
#include "pool/records/records.h"

static void
fetch(struct wp_store_request *request, const struct wp_pool *pool)
{
    memset(&request->op, 0, sizeof request->op);
    request->op.kind = WP_LEASE_FETCH;
    request->op.ref = WP_SLOT_REF_NONE;
    request->op.pool_namespace = pool->pool_namespace;
    request->op.pool = pool->name;
}

void
wp_answers_ask_for_claims(struct wp_pool *pool)
{
    for (;;) {
        struct wp_store_request *request = wp_store_request_take(pool->pools);
        struct wp_claim *claim;

        if (request == NULL) {
            wp_pools_touch(pool);
            return;
        }
        claim = wp_pools_take_awaiting(pool);
        if (claim == NULL) {
            wp_store_request_give(request);
            return;
        }
        fetch(request, pool);
        request->claim = claim;
        request->op.claim_id = claim->claim_id;
        request->op.tenant = claim->tenant;
        wp_store_request_submit(request);
    }
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
        struct wp_store_request *request = wp_store_request_take(pools);
        struct wp_lease_change *change;
        struct wp_token_fields token;
        const struct wp_pool *pool;
        bool ours;

        if (request == NULL) {
            wp_pools_look_again(pools);
            return;
        }
        change = wp_lease_change_take_awaiting(pools);
        if (change == NULL) {
            wp_store_request_give(request);
            return;
        }
        ours = wp_lease_token_verify(&pools->token_key, change->token, &token);
        WP_ASSERT(ours); /* It was verified before it began to wait. */
        pool = pool_of_token(pools, &token);
        if (pool == NULL) {
            wp_store_request_give(request);
            wp_pools_resume_change(pools, change, WP_OK);
            continue;
        }
        fetch(request, pool);
        memcpy(request->op.uid, token.uid, sizeof request->op.uid);
        request->change = change;
        wp_store_request_submit(request);
    }
}

static void
fetched_for_slot(struct wp_pools *pools, struct wp_store_request *request)
{
    struct wp_slot_ref ref = request->op.ref;
    enum wp_slot_state state = wp_slot_state(&pools->slots, ref);
    bool unanswered =
        request->status != WP_OK && request->status != WP_NOT_FOUND;
    struct wp_slot *slot = wp_slot_at(&pools->slots, ref.index);
    enum wp_work_event event = WP_WORK_ON_DONE;

    if (state == WP_SLOT_QUARANTINED &&
        !wp_slot_has_control(slot, WP_CONTROL_HEARD)) {
        if (!unanswered) {
            (void)wp_slot_work_change(slot, WP_WORK_ON_DONE);
            wp_records_settle_doubt(pools, ref, request);
            return;
        }
        event = WP_WORK_ON_FAILED;
    } else if (state == WP_SLOT_DYING &&
               !atomic_load_explicit(&pools->keeper, memory_order_relaxed)) {
        event =
            request->status == WP_NOT_FOUND ? WP_WORK_ON_DONE_FORGOTTEN : event;
    } else if (state == WP_SLOT_DYING && unanswered) {
        event = WP_WORK_ON_RELEASE_FAILED;
    } else if (state == WP_SLOT_DYING && request->status == WP_OK &&
               wp_record_is_claimed(request->found.state)) {
        /* The lease of a sandbox that is gone ends by the fence it has. */
        atomic_store_explicit(&slot->fence, request->found.fence,
                              memory_order_relaxed);
        (void)wp_slot_work_change(slot, WP_WORK_ON_DONE);
        if (wp_store_request_send(pools, ref, WP_LEASE_RELEASE)) {
            return;
        }
        event = WP_WORK_ON_RELEASE_LATER;
    }
    wp_pools_mark_on(pools, ref.index, event);
}

static bool
is_answer(enum wp_status status)
{
    return status == WP_OK || status == WP_NOT_FOUND;
}

/* Before a repeat is shown a lease that another replica may still undo, that is
 * made impossible. True: the store is asked for it. */
static bool
make_safe(struct wp_pools *pools, struct wp_store_request *request)
{
    struct wp_lease_op *op = &request->op;

    if (!pools->shared || op->kind != WP_LEASE_FETCH ||
        request->status != WP_OK || request->found.state != WP_RECORD_HELD ||
        request->found.fingerprint != request->claim->commit.fingerprint ||
        !wp_deadline_is_granted(request->found.deadline_wall_ms) ||
        WP_MUTANT(UNDONE_ACROSS_REPLICAS)) {
        return false;
    }
    op->kind = WP_LEASE_RENEW;
    memcpy(op->uid, request->found.uid, sizeof op->uid);
    op->fence = request->found.fence;
    op->deadline_wall_ms =
        wp_deadline_as_shown(request->found.deadline_wall_ms);
    wp_store_request_submit(request);
    return true;
}

/* What the store said to that; PENDING: it has just changed, so ask again. */
static enum wp_status
made_safe(const struct wp_store_request *request)
{
    enum wp_status status = request->status;
    bool changed = status == WP_NOT_FOUND || status == WP_ABORTED ||
                   status == WP_FAILED_PRECONDITION;

    return status == WP_OK ? WP_OK : changed ? WP_PENDING : WP_UNAVAILABLE;
}

static void
answered_for_claim(struct wp_pools *pools, struct wp_store_request *request)
{
    struct wp_claim *claim = request->claim;
    struct wp_lease_record *record = &request->found;
    struct wp_slot_ref ref = WP_SLOT_REF_NONE;
    enum wp_status status = is_answer(request->status) ? WP_OK : WP_UNAVAILABLE;

    if (request->op.kind == WP_LEASE_RENEW) {
        status = made_safe(request);
        record->deadline_wall_ms = request->op.deadline_wall_ms;
    }
    if (status == WP_OK && request->status == WP_OK &&
        wp_record_is_claimed(record->state)) {
        struct wp_claim_view view;

        status = record->fingerprint != claim->commit.fingerprint
                     ? WP_ALREADY_EXISTS
                     : wp_records_take_found(pools, record, &ref);
        if (status == WP_OK && !claim->confirms &&
            wp_pools_claim_of(pools, ref, &view)) {
            status = WP_PENDING;
        }
    }
    wp_pools_resume_claim(claim, status, ref, record);
}

static void
fetched_for_change(struct wp_pools *pools, struct wp_store_request *request)
{
    enum wp_status status = is_answer(request->status) ? WP_OK : WP_UNAVAILABLE;
    struct wp_slot_ref ref;

    if (request->status == WP_OK &&
        wp_record_is_claimed(request->found.state)) {
        status = wp_records_take_found(pools, &request->found, &ref);
    }
    wp_pools_resume_change(pools, request->change, status);
}

static void
take_in(struct wp_pools *pools, struct wp_store_request *request)
{
    if (request->claim != NULL) {
        if (make_safe(pools, request)) {
            return; /* It comes again. */
        }
        answered_for_claim(pools, request);
    } else if (request->change != NULL) {
        fetched_for_change(pools, request);
    } else {
        fetched_for_slot(pools, request);
    }
    wp_store_request_give(request);
}

bool
wp_answers_run(struct wp_pools *pools)
{
    struct wp_store_request *request;

    if (!wp_pools_answers_due(pools)) {
        return false;
    }
    while ((request = wp_store_requests_take_answered(pools)) != NULL) {
        take_in(pools, request);
    }
    run_changes(pools);
    return true;
}
