/* ClaimBatch: up to WP_BATCH_MAX claims in one call.
 *
 * The claims are in a batch object of a fixed pool, because a call's arena is
 * too small. Each claim is answered by the pool on any thread; `left` counts
 * those that are not, and one more for each thread that is still giving claims
 * in or withdrawing them. Who takes it to 0 settles the batch, so nobody looks
 * at it any more by then, but for a client that goes:
 *
 *   OPEN -- left is 0 --> SETTLED                   the reply is sent
 *     `---- client gone -> LEAVING -- left is 0 -----> SETTLED by the transport
 *                             `---- withdrawn -> LEFT -- left is 0 -> SETTLED
 *
 * `phase` is in the call's arena, so that the transport's thread may look at it
 * when the batch object is already another call's. While LEAVING, that thread
 * withdraws what still waits; the second to arrive settles. */
#include "allocator/services/services.h"

#include <inttypes.h>
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>

#include "allocator/services/services_private.h"
#include "pool/base/assert.h"

enum phase {
    PHASE_OPEN,
    PHASE_LEAVING, /* The client has gone; its claims are being withdrawn. */
    PHASE_LEFT,    /* ... and have been. */
    PHASE_DONE,    /* All are answered; somebody settles or has settled it. */
};

/* Of one claim: which thread may withdraw it, and whether it counts yet. */
enum item {
    ITEM_NEW,     /* Being given to the pool. */
    ITEM_PENDING, /* The pool answers later. */
    ITEM_ENDED,   /* Answered or withdrawn. */
};

struct batch_call {
    struct wp_batch *batch;
    _Atomic(int) phase;
};

struct wp_batch {
    struct wp_services *services;
    struct wp_call *call;
    struct batch_call *shared;
    uint32_t index; /* In services->batches. */
    uint32_t n_claims;
    bool all_or_nothing;
    _Atomic(uint32_t) left;
    _Atomic(bool) failed; /* All or nothing: some claim got nothing. */
    _Atomic(int) item[WP_BATCH_MAX];
    struct wp_claim claims[WP_BATCH_MAX];
    struct wp_wire_batch_item items[WP_BATCH_MAX];
    alignas(max_align_t) char arena[WP_WIRE_ARENA_BATCH];
};

bool
wp_service_batch_create(struct wp_services *services)
{
    services->batches =
        calloc(services->config.batches_max, sizeof *services->batches);
    return services->batches != NULL;
}

void
wp_service_batch_destroy(struct wp_services *services)
{
    free(services->batches);
    services->batches = NULL;
}

/* A free batch object; NULL when all are in use. Any thread. */
static struct wp_batch *
batch_take(struct wp_services *services)
{
    uint64_t used =
        atomic_load_explicit(&services->batches_in_use, memory_order_relaxed);

    for (uint32_t i = 0; i < services->config.batches_max;) {
        uint64_t bit = UINT64_C(1) << i;

        if ((used & bit) != 0) {
            i++;
            continue;
        }
        /* Acquire pairs with the release in batch_give. */
        if (atomic_compare_exchange_weak_explicit(
                &services->batches_in_use, &used, used | bit,
                memory_order_acquire, memory_order_relaxed)) {
            services->batches[i].index = i;
            return &services->batches[i];
        }
        i = 0;
    }
    return NULL;
}

static void
batch_give(struct wp_batch *batch)
{
    /* Release pairs with the acquire in batch_take: all reads are over. */
    (void)atomic_fetch_and_explicit(&batch->services->batches_in_use,
                                    ~(UINT64_C(1) << batch->index),
                                    memory_order_release);
}

/* --- The answer --- */

static void
undo_all(struct wp_batch *batch)
{
    for (uint32_t i = 0; i < batch->n_claims; i++) {
        const struct wp_claim *claim = &batch->claims[i];

        if (claim->status == WP_OK) {
            wp_pools_undo(batch->services->config.pools, claim);
        }
    }
}

/* All or nothing, and one of them got nothing: says which and why. */
static void
reply_nothing(struct wp_batch *batch)
{
    struct wp_call *call = batch->call;
    enum wp_status status = WP_RESOURCE_EXHAUSTED;
    int64_t retry_after_ns = 0;
    struct wp_err why;
    struct wp_err err;

    (void)wp_err_set(&err, status, "claim_ids: not all could be served");
    for (uint32_t i = 0; i < batch->n_claims; i++) {
        const struct wp_claim *claim = &batch->claims[i];

        /* Withdrawn ones only followed the first failure. */
        if (claim->status == WP_OK || claim->status == WP_CANCELLED) {
            continue;
        }
        status = claim->status;
        retry_after_ns = claim->retry_after_ns;
        (void)wp_err_set(
            &err, status,
            "claim_ids[%" PRIu32 "]: %s; none of the %" PRIu32 " is held", i,
            wp_service_claim_reason(batch->services, claim, &why),
            batch->n_claims);
        break;
    }
    undo_all(batch);
    batch_give(batch);
    call->ops->finish(call, err.status, err.msg, retry_after_ns);
}

static void
reply_items(struct wp_batch *batch)
{
    struct wp_call *call = batch->call;
    const struct wp_wire_batch_response response = {
        .items = batch->items,
        .n_items = batch->n_claims,
    };
    const char *reason = NULL; /* The first; most often it is everyone's. */
    const char *why = NULL;
    struct wp_err err;
    uint8_t *buf;

    for (uint32_t i = 0; i < batch->n_claims; i++) {
        const struct wp_claim *claim = &batch->claims[i];
        bool ok = claim->status == WP_OK;

        if (!ok && reason == NULL) {
            reason = claim->reason;
            why = wp_service_claim_reason(batch->services, claim, &err);
        }
        batch->items[i] = (struct wp_wire_batch_item){
            .claim_id = claim->claim_id,
            .code = wp_status_grpc_code(claim->status),
            .message = wp_str_from(ok                        ? ""
                                   : claim->reason == reason ? why
                                                             : claim->reason),
            .grant = ok ? &claim->grant : NULL,
            .replayed = ok && claim->replayed,
        };
    }
    buf = call->ops->reserve(call, wp_wire_size_batch_response(&response));
    if (buf == NULL) {
        undo_all(batch);
        batch_give(batch);
        call->ops->finish(call, WP_RESOURCE_EXHAUSTED,
                          "no memory for the reply", 0);
        return;
    }
    (void)wp_wire_pack_batch_response(&response, buf);
    batch_give(batch);
    call->ops->finish(call, WP_OK, NULL, 0);
}

/* The client has gone: nothing is held in its name that it does not know of. */
static void
reply_cancelled(struct wp_batch *batch)
{
    struct wp_call *call = batch->call;

    undo_all(batch);
    batch_give(batch);
    call->ops->finish(call, WP_CANCELLED, NULL, 0);
}

/* Every claim is answered; this thread took `left` to 0. */
static void
batch_done(struct wp_batch *batch)
{
    /* acq_rel: the second to arrive sees what the first one did. */
    switch ((enum phase)atomic_exchange_explicit(
        &batch->shared->phase, PHASE_DONE, memory_order_acq_rel)) {
    case PHASE_LEAVING:
        return; /* The transport's thread comes, and settles it. */
    case PHASE_LEFT:
        reply_cancelled(batch);
        return;
    case PHASE_OPEN:
    case PHASE_DONE:
        break;
    }
    if (batch->all_or_nothing &&
        atomic_load_explicit(&batch->failed, memory_order_relaxed)) {
        reply_nothing(batch);
    } else {
        reply_items(batch);
    }
}

/* --- Claims on their way --- */

static void
batch_leave(struct wp_batch *batch, uint32_t n)
{
    /* acq_rel: the last one sees every claim's answer. */
    if (atomic_fetch_sub_explicit(&batch->left, n, memory_order_acq_rel) == n) {
        batch_done(batch);
    }
}

/* Withdraws what still waits; returns how many claims that ended. The caller is
 * counted in `left`, or keeps the batch from being settled by LEAVING. */
static uint32_t
withdraw(struct wp_batch *batch)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < batch->n_claims; i++) {
        struct wp_claim *claim = &batch->claims[i];

        /* seq_cst, see submit. */
        if (atomic_load_explicit(&batch->item[i], memory_order_seq_cst) !=
                ITEM_PENDING ||
            !wp_pools_cancel(batch->services->config.pools, claim)) {
            continue;
        }
        atomic_store_explicit(&batch->item[i], ITEM_ENDED,
                              memory_order_relaxed);
        claim->status = WP_CANCELLED;
        claim->reason = "withdrawn";
        n++;
    }
    return n;
}

/* The claim is answered; the caller is counted in `left` for it. */
static void
item_ended(struct wp_batch *batch, const struct wp_claim *claim)
{
    uint32_t ended = 1;

    if (claim->status != WP_OK && batch->all_or_nothing &&
        !atomic_exchange_explicit(&batch->failed, true,
                                  memory_order_seq_cst)) { /* See submit. */
        ended += withdraw(batch);
    }
    batch_leave(batch, ended);
}

/* The pool's answer. Any thread. */
static void
item_done(struct wp_claim *claim)
{
    struct wp_batch *batch = claim->ctx;

    atomic_store_explicit(&batch->item[claim - batch->claims], ITEM_ENDED,
                          memory_order_relaxed);
    item_ended(batch, claim);
}

static void
batch_cancelled(struct wp_call *call)
{
    struct batch_call *shared = call->state;
    int phase = PHASE_OPEN;
    uint32_t ended;

    /* Acquire pairs with nothing but the start on this thread; when it fails,
     * the batch object may be another call's already. */
    if (!atomic_compare_exchange_strong_explicit(
            &shared->phase, &phase, PHASE_LEAVING, memory_order_acq_rel,
            memory_order_relaxed)) {
        return;
    }
    ended = withdraw(shared->batch);
    if (ended > 0 && atomic_fetch_sub_explicit(&shared->batch->left, ended,
                                               memory_order_acq_rel) == ended) {
        reply_cancelled(shared->batch);
        return;
    }
    phase = PHASE_LEAVING;
    if (!atomic_compare_exchange_strong_explicit(
            &shared->phase, &phase, PHASE_LEFT, memory_order_acq_rel,
            memory_order_acquire)) {
        reply_cancelled(shared->batch);
    }
}

/* All or nothing: says to each claim how many new ones come after it. */
static void
count_after(struct wp_batch *batch)
{
    uint32_t n = 0;

    for (uint32_t i = batch->n_claims; i-- > 0;) {
        struct wp_claim *claim = &batch->claims[i];
        struct wp_claim_info info;

        claim->n_after = n;
        if (wp_pools_get(batch->services->config.pools, claim->tenant,
                         claim->claim_id, &info) != WP_OK) {
            n++;
        }
    }
}

/* Gives the claims to the pool. The caller is counted in `left` until it
 * returns. */
static void
submit(struct wp_batch *batch)
{
    if (batch->all_or_nothing) {
        count_after(batch);
    }
    for (uint32_t i = 0; i < batch->n_claims; i++) {
        struct wp_claim *claim = &batch->claims[i];
        int item = ITEM_NEW;

        if (atomic_load_explicit(&batch->failed, memory_order_relaxed)) {
            claim->status = WP_CANCELLED;
            claim->reason = "withdrawn";
            atomic_store_explicit(&batch->item[i], ITEM_ENDED,
                                  memory_order_relaxed);
            batch_leave(batch, 1);
            continue;
        }
        if (wp_pools_claim(batch->services->config.pools, claim) !=
            WP_PENDING) {
            item_done(claim);
            continue;
        }
        /* Loses against item_done when the answer was faster. seq_cst, and so
         * are the load of `failed` below, its setting in item_ended and the
         * load of the item in withdraw: either the one who fails sees this
         * claim pending, or the load below sees that one failed. */
        (void)atomic_compare_exchange_strong_explicit(
            &batch->item[i], &item, ITEM_PENDING, memory_order_seq_cst,
            memory_order_relaxed);
    }
    if (batch->all_or_nothing &&
        atomic_load_explicit(&batch->failed, memory_order_seq_cst)) {
        batch_leave(batch, 1 + withdraw(batch));
    } else {
        batch_leave(batch, 1);
    }
}

static bool
batch_fill(struct wp_batch *batch, const struct wp_wire_batch_request *request)
{
    struct wp_call *call = batch->call;
    int64_t wait_ns = wp_service_wait_ns(call, request->wait_ms);
    struct wp_str tenant;

    if (!wp_service_tenant(call, request->tenant, &tenant) ||
        wp_service_find_pool(call, &request->pool) == UINT32_MAX) {
        return false;
    }
    batch->n_claims = request->n_claims;
    batch->all_or_nothing = request->all_or_nothing;
    atomic_store_explicit(&batch->left, request->n_claims + 1,
                          memory_order_relaxed);
    atomic_store_explicit(&batch->failed, false, memory_order_relaxed);
    for (uint32_t i = 0; i < request->n_claims; i++) {
        atomic_store_explicit(&batch->item[i], ITEM_NEW, memory_order_relaxed);
        batch->claims[i] = (struct wp_claim){
            .pool_namespace = request->pool.pool_namespace,
            .pool = request->pool.name,
            .claim_id = request->claim_ids[i],
            .tenant = tenant,
            .ttl_ns = request->ttl_ms * WP_NS_PER_MS,
            .wait_ns = wait_ns,
            .done = item_done,
            .ctx = batch,
        };
    }
    return true;
}

void
wp_service_batch_start(struct wp_call *call, const uint8_t *bytes, size_t len)
{
    struct wp_services *services = wp_services_of(call);
    struct batch_call *shared = wp_service_state(call, sizeof *shared);
    struct wp_wire_batch_request request;
    struct wp_batch *batch;
    struct wp_arena arena;
    struct wp_err err;

    if (shared == NULL || !wp_service_serves(call)) {
        return;
    }
    batch = batch_take(services);
    if (batch == NULL) {
        call->ops->finish(call, WP_RESOURCE_EXHAUSTED,
                          "too many batches are in progress; try again",
                          100 * WP_NS_PER_MS);
        return;
    }
    batch->services = services;
    batch->call = call;
    batch->shared = shared;
    shared->batch = batch;
    atomic_init(&shared->phase, PHASE_OPEN);
    wp_arena_init(&arena, batch->arena, sizeof batch->arena);
    if (wp_wire_unpack_batch_request(&arena, bytes, len, &request, &err) !=
        WP_OK) {
        batch_give(batch);
        wp_service_refuse(call, &err);
        return;
    }
    if (!batch_fill(batch, &request)) {
        batch_give(batch);
        return;
    }
    call->state = shared;
    call->cancelled = batch_cancelled;
    submit(batch);
}
