/* pool/core/answers.c - what control asks the store on behalf of claims, lease
 * changes and slots in doubt, and what it does with the answers. */
#include <string.h>

#include "pool/base/assert.h"
#include "pool/core/claim_way.h"
#include "pool/leases/rules.h"

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
            wp_store_requests_look_again(pools);
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
    uint32_t work = 0;

    (void)atomic_fetch_and_explicit(&wp_slot_at(&pools->slots, ref.index)->work,
                                    ~(uint32_t)WP_WORK_REQUESTED,
                                    memory_order_relaxed);
    if (state == WP_SLOT_QUARANTINED &&
        (wp_slot_at(&pools->slots, ref.index)->control_bits &
         WP_CONTROL_HEARD) == 0) {
        wp_records_settle_doubt(pools, ref, request);
        return;
    }
    if (state == WP_SLOT_DYING &&
        !atomic_load_explicit(&pools->keeper, memory_order_relaxed)) {
        work = request->status == WP_NOT_FOUND ? WP_WORK_FORGOTTEN : 0;
    } else if (state == WP_SLOT_DYING) {
        if (unanswered) {
            work = WP_WORK_RELEASE | WP_WORK_RETRY;
        } else if (request->status == WP_OK &&
                   wp_record_is_claimed(request->found.state)) {
            /* The lease of a sandbox that is gone ends by the fence it has. */
            atomic_store_explicit(&wp_slot_at(&pools->slots, ref.index)->fence,
                                  request->found.fence, memory_order_relaxed);
            if (wp_store_request_send(pools, ref, WP_LEASE_RELEASE)) {
                return;
            }
            work = WP_WORK_RELEASE | WP_WORK_RETRY;
        }
    }
    wp_pools_mark(pools, ref.index, work);
}

static bool
is_answer(enum wp_status status)
{
    return status == WP_OK || status == WP_NOT_FOUND;
}

static void
fetched_for_claim(struct wp_pools *pools, struct wp_store_request *request)
{
    struct wp_claim *claim = request->claim;
    const struct wp_lease_record *record = &request->found;
    struct wp_slot_ref ref = WP_SLOT_REF_NONE;
    enum wp_status status = is_answer(request->status) ? WP_OK : WP_UNAVAILABLE;

    if (request->status == WP_OK && wp_record_is_claimed(record->state)) {
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
        fetched_for_claim(pools, request);
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

    if (!wp_store_requests_come(pools)) {
        return false;
    }
    while ((request = wp_store_requests_take_answered(pools)) != NULL) {
        take_in(pools, request);
    }
    run_changes(pools);
    return true;
}
