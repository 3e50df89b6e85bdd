/* pool/core/turn.c - one pool's turn: its waiting claims, its target, its
 * refill. */
#include <stdlib.h>
#include <string.h>

#include "pool/base/assert.h"
#include "pool/base/extreme.h"
#include "pool/base/mutant.h"
#include "pool/core/control.h"
#include "pool/grant/grant.h"
#include "pool/records/records.h"
#include "pool/refill/refill.h"
#include "pool/sizing/history.h"
#include "pool/sizing/scale.h"
#include "pool/sizing/snapshot.h"
#include "pool/slots/sandbox_name.h"
#include "pool/table/ready.h"

enum {
    BATCHES_MAX = 16,
};

struct wp_pool_turns {
    struct wp_refill refill;
    int64_t turn_at_ns; /* When the next one is due. */
    /* What was ordered together and is warming, the oldest first. Sandboxes are
     * taken to become ready in the order of their orders. */
    struct {
        int64_t at_ns;
        uint32_t orders;
    } batches[BATCHES_MAX];
    uint32_t batches_len;
};

bool
wp_pool_turns_create(struct wp_pool *pool)
{
    uint64_t seed = wp_rng_next(&pool->pools->rng);

    pool->turns = wp_pools_reserve(pool->pools, 1, sizeof *pool->turns);
    if (pool->turns == NULL) {
        return false;
    }
    wp_refill_init(&pool->turns->refill, seed);
    return true;
}

void
wp_pool_turns_destroy(struct wp_pool *pool)
{
    free(pool->turns);
}

/* Orders one sandbox. Not WP_OK: the backend took no order. */
static enum wp_status
create_sandbox(struct wp_pool *pool, int64_t now_ns)
{
    struct wp_pools *pools = pool->pools;
    const struct wp_backend *backend = &pools->config.backend;
    uint64_t uid[WP_UID_LEN / 8] = {wp_rng_next(&pools->rng),
                                    wp_rng_next(&pools->rng)};
    char name[WP_SANDBOX_NAME_MAX + 1];
    struct wp_sandbox_order order;
    struct wp_err err = {.msg = ""};
    enum wp_status status;

    order.ref = wp_pools_alloc_slot(pools, pool, (const uint8_t *)uid, now_ns);
    if (order.ref.generation == 0) {
        return WP_RESOURCE_EXHAUSTED;
    }
    wp_sandbox_name_make(pools->name_key, wp_str_from(pool->spec.name),
                         order.ref, name);
    wp_slot_set_suffix(&pools->slots, order.ref,
                       wp_str_from(name + strlen(pool->spec.name) + 1));
    order.pool_namespace = wp_str_from(pool->spec.pool_namespace);
    order.pool = wp_str_from(pool->spec.name);
    order.template_name = wp_str_from(pool->spec.template_name);
    order.name = wp_str_from(name);
    order.uid = (const uint8_t *)uid;
    order.egress = wp_str_from(pool->spec.egress);
    order.ready_within_ns = pool->spec.ready_within_ns;
    status = backend->ops->create(backend->self, &order, &err);
    if (status != WP_OK) {
        bool undone = wp_slot_move(&pools->slots, order.ref, WP_SLOT_WARMING,
                                   WP_SLOT_DYING);

        WP_ASSERT(undone);
        wp_pools_free_slot(pools, order.ref);
        if (status != WP_RESOURCE_EXHAUSTED) {
            wp_counter_add(&pool->failures, 1);
            wp_pool_record_failure(pool, wp_str_from(err.msg));
        }
    }
    return status;
}

/* The two newest are one when there is no room. */
static void
add_batch(struct wp_pool_turns *turns, uint32_t orders, int64_t now_ns)
{
    if (orders == 0) {
        return;
    }
    if (turns->batches_len < BATCHES_MAX) {
        turns->batches[turns->batches_len].orders = 0;
        turns->batches_len++;
    }
    turns->batches[turns->batches_len - 1].orders += orders;
    turns->batches[turns->batches_len - 1].at_ns = now_ns;
}

/* Only so many are warming: the oldest are not any more. */
static void
trim_batches(struct wp_pool_turns *turns, uint32_t warming)
{
    uint64_t orders = 0;
    uint32_t first = turns->batches_len;

    while (first > 0 && orders < warming) {
        orders += turns->batches[--first].orders;
    }
    if (orders > warming) {
        turns->batches[first].orders -= (uint32_t)(orders - warming);
    }
    turns->batches_len -= first;
    memmove(turns->batches, turns->batches + first,
            turns->batches_len * sizeof turns->batches[0]);
}

static void
carry_out(struct wp_pool *pool, const struct wp_refill_plan *plan,
          int64_t now_ns)
{
    struct wp_pools *pools = pool->pools;

    for (uint32_t i = 0; i < plan->create; i++) {
        enum wp_status status = create_sandbox(pool, now_ns);

        if (status != WP_OK) {
            add_batch(pool->turns, i, now_ns);
            wp_refill_on_create_refused(&pool->turns->refill, status, now_ns);
            /* The pause it began decides when to ask again. */
            wp_pools_touch(pool);
            return;
        }
    }
    add_batch(pool->turns, plan->create, now_ns);
    wp_pool_scale_ordered(pool, plan->create > 0);
    for (uint32_t i = 0; i < plan->destroy; i++) {
        /* Another replica may have granted it: the store is asked first. */
        bool ask = pools->shared && !WP_MUTANT(WITHDRAWN_UNASKED);
        struct wp_slot_ref ref =
            wp_pools_pop(pool, ask ? WP_SLOT_QUARANTINED : WP_SLOT_DYING);

        if (ref.generation == 0) {
            return;
        }
        if (ask) {
            wp_pools_mark_on(pools, ref.index, WP_WORK_ON_UNWANTED);
        } else {
            wp_slot_give_up(pools, ref, now_ns);
        }
    }
}

static void
tell_refill(struct wp_pool *pool, int64_t now_ns)
{
    uint32_t failed =
        atomic_exchange_explicit(&pool->failed, 0, memory_order_acquire);
    uint32_t ready =
        atomic_exchange_explicit(&pool->became_ready, 0, memory_order_acquire);
    uint32_t young =
        atomic_exchange_explicit(&pool->died_young, 0, memory_order_acquire);

    for (uint32_t i = 0; i < failed; i++) {
        wp_refill_on_failed(&pool->turns->refill, now_ns);
    }
    if (ready > 0) {
        wp_refill_on_ready(&pool->turns->refill,
                           atomic_exchange_explicit(&pool->lead_last_ns, -1,
                                                    memory_order_relaxed));
    }
    /* Last: who died young was ready before. */
    for (uint32_t i = 0; i < young; i++) {
        wp_refill_on_died_young(&pool->turns->refill, now_ns);
    }
}

/* With an objective a waiting claim is demand like any other: the stock is
 * chosen for orders that are placed as claims come, not as they are served. A
 * budget is for what is made, waited for or not, and so is a size that was set
 * by hand. */
static uint32_t
waiting_max(const struct wp_pool *pool)
{
    const struct wp_scale_policy *policy = &pool->spec.scale;
    const struct wp_pool_scale *scale = wp_pool_scale_active(pool);

    if (pool->spec.cold_start == WP_COLD_ALLOWED) {
        return UINT32_MAX;
    }
    return scale != NULL && !wp_pool_scale_by_hand(scale) &&
                   policy->budget_group[0] == '\0'
               ? policy->max
               : 0;
}

static struct wp_refill_view
view_of(struct wp_pool *pool, int64_t now_ns)
{
    struct wp_pools *pools = pool->pools;
    const struct wp_slots *slots = &pools->slots;

    return (struct wp_refill_view){
        .target = atomic_load_explicit(&pool->target, memory_order_relaxed),
        .ready = wp_slots_count(slots, pool->index, WP_SLOT_READY),
        .warming = wp_slots_count(slots, pool->index, WP_SLOT_WARMING),
        .waiting = atomic_load_explicit(&pool->waiting, memory_order_relaxed),
        .create_inflight_max = pool->spec.create_inflight_max,
        .slots_free = pools->config.slots_max - pools->slots_used,
        .waiting_max = waiting_max(pool),
        .draining = atomic_load_explicit(&pool->draining, memory_order_relaxed),
        .now_ns = now_ns,
    };
}

static void
publish(struct wp_pool *pool, const struct wp_refill_view *view)
{
    struct wp_pool_turns *turns = pool->turns;
    const struct wp_refill *refill = &turns->refill;

    atomic_store_explicit(&pool->retry_after_ns,
                          wp_refill_retry_after_ns(refill, view),
                          memory_order_relaxed);
    atomic_store_explicit(&pool->breaker_open, wp_refill_breaker_open(refill),
                          memory_order_relaxed);
    atomic_store_explicit(
        &pool->lead_mean_ns,
        wp_refill_lead_measured(refill) ? wp_refill_lead_ns(refill) : 0,
        memory_order_relaxed);
    trim_batches(turns, view->warming);
    if (turns->batches_len > 0) {
        atomic_store_explicit(&pool->order_oldest_ns, turns->batches[0].at_ns,
                              memory_order_relaxed);
        atomic_store_explicit(&pool->order_newest_ns,
                              turns->batches[turns->batches_len - 1].at_ns,
                              memory_order_relaxed);
    }
}

/* When the nth, from 0, of so many that are warming was ordered: between the
 * oldest and the newest they are taken to be spread evenly. */
static int64_t
ordered_at_ns(const struct wp_pool *pool, uint32_t nth, uint32_t warming)
{
    int64_t oldest =
        atomic_load_explicit(&pool->order_oldest_ns, memory_order_relaxed);
    int64_t newest =
        atomic_load_explicit(&pool->order_newest_ns, memory_order_relaxed);

    return warming < 2 ? oldest
                       : oldest + (int64_t)((double)(newest - oldest) * nth /
                                            (warming - 1));
}

bool
wp_pools_outlook(const struct wp_pools *pools, uint32_t pool_index,
                 struct wp_pool_outlook *out)
{
    const struct wp_pool *pool = wp_pools_at(pools, pool_index);
    uint32_t ready = wp_slots_count(&pools->slots, pool_index, WP_SLOT_READY);
    uint32_t warming =
        wp_slots_count(&pools->slots, pool_index, WP_SLOT_WARMING);
    uint32_t waiting =
        atomic_load_explicit(&pool->waiting, memory_order_relaxed);
    uint32_t target = atomic_load_explicit(&pool->target, memory_order_relaxed);

    out->lead_ns =
        atomic_load_explicit(&pool->lead_mean_ns, memory_order_relaxed);
    if (out->lead_ns == 0) {
        return false;
    }
    if (waiting < ready) {
        out->wait_ns = 0;
    } else if (waiting - ready < warming) {
        int64_t since =
            wp_pools_now(pools) - ordered_at_ns(pool, waiting - ready, warming);

        out->wait_ns = wp_max_i64(out->lead_ns - wp_max_i64(since, 0), 0);
    } else if (waiting < target) {
        out->wait_ns = out->lead_ns; /* Of one that is just being ordered. */
    } else {
        out->wait_ns = out->lead_ns * 2; /* Ordered when another one goes. */
    }
    return true;
}

static void
purge_tombstones(struct wp_pool *pool)
{
    if (wp_ready_queue_purge_due(&pool->ready)) {
        /* Under the lock that the empty decision takes: see purge. */
        (void)pthread_mutex_lock(&pool->wait_lock);
        (void)wp_ready_queue_purge(&pool->ready, UINT32_MAX);
        (void)wp_ready_queue_purge(&pool->others, UINT32_MAX);
        (void)pthread_mutex_unlock(&pool->wait_lock);
    }
}

/* One pool's turn; returns when its next one is due at the latest. */
int64_t
wp_pool_turn(struct wp_pool *pool, int64_t now_ns, bool *worked)
{
    struct wp_pools *pools = pool->pools;
    bool touched =
        atomic_exchange_explicit(&pool->touched, false, memory_order_seq_cst);
    struct wp_refill_view view;
    struct wp_refill_plan plan;
    int64_t next_wait;
    int64_t next_scale;
    int64_t next_snapshot;
    uint32_t before;
    bool unscaled;

    if (!touched && now_ns < pool->turns->turn_at_ns) {
        return pool->turns->turn_at_ns;
    }
    *worked = *worked || touched;
    tell_refill(pool, now_ns);
    if (atomic_load_explicit(&pool->draining, memory_order_relaxed)) {
        wp_pools_refuse_waiters(pool);
    }
    if (pools->durable) {
        wp_answers_ask_for_claims(pool);
    }
    wp_pools_match(pool);
    next_wait = wp_pools_expire_waiters(pool, now_ns);
    view = view_of(pool, now_ns);
    before = view.target;
    wp_pool_history_look(pool, now_ns);
    next_scale = wp_pool_scale_turn(
        pool, &view, wp_refill_breaker_open(&pool->turns->refill), &unscaled);
    if (wp_pool_history_turn(pool, now_ns)) {
        wp_snapshot_changed(pool);
    }
    next_snapshot = wp_snapshot_turn(pool, now_ns);
    view.target = atomic_load_explicit(&pool->target, memory_order_relaxed);
    plan = wp_refill_plan(&pool->turns->refill, &view);
    if (wp_pools_is_keeper(pools) && !pools->leaving && !unscaled) {
        carry_out(pool, &plan, now_ns);
    } else {
        plan.ask_again_ns = WP_TIME_NEVER;
    }
    purge_tombstones(pool);
    view = view_of(pool, now_ns);
    publish(pool, &view);
    if ((touched || view.target != before) && pools->config.changed != NULL) {
        pools->config.changed(pools->config.ctx, pool->index);
    }
    pool->turns->turn_at_ns =
        wp_min_i64(wp_min_i64(plan.ask_again_ns, next_wait),
                   wp_min_i64(next_scale, next_snapshot));
    return pool->turns->turn_at_ns;
}
