/* pool/core/run.c - the control thread's turn.
 *
 * Everything that is not a claim's own way happens here: leases end, slots are
 * destroyed and freed, waiting claims time out, pools are refilled. Claims and
 * reports mark slots; after a turn that found some, the next one comes in 2 ms
 * by itself, so that a busy daemon is not woken for each claim, and an idle one
 * not at all. */
#include "pool/base/assert.h"
#include "pool/base/extreme.h"
#include "pool/base/mutant.h"
#include "pool/core/budget.h"
#include "pool/core/claim_way.h"
#include "pool/core/history.h"
#include "pool/core/ready.h"
#include "pool/core/scale.h"
#include "pool/slots/sandbox_name.h"

/* How soon the control thread looks again by itself after finding work. */
#define BUSY_TURN_NS (2 * WP_NS_PER_MS)
/* How soon a refused destroy or end of a lease is tried again. */
#define RETRY_NS (20 * WP_NS_PER_MS)
/* After which a follower asks the store for what should long be over. */
#define LINGER_NS (10 * WP_NS_PER_S)

/* Counts the leases of a leaving daemon too. */
static bool
is_due(const struct wp_slot *slot, int64_t now_ns)
{
    if (WP_MUTANT(EXPIRED_EARLY)) {
        now_ns += WP_NS_PER_S;
    }
    return atomic_load_explicit(&slot->deadline_ns, memory_order_relaxed) <=
               now_ns ||
           (atomic_load_explicit(&slot->work, memory_order_relaxed) &
            (WP_WORK_UNDO | WP_WORK_STOP)) != 0;
}

static bool
is_stopped(const struct wp_slot *slot)
{
    return (atomic_load_explicit(&slot->work, memory_order_relaxed) &
            WP_WORK_STOP) != 0;
}

/* Looks at the slot then; at a lease that lasts for ever only when marked. */
static void
wake_at(struct wp_pools *pools, struct wp_slot_ref ref, int64_t deadline_ns)
{
    if (deadline_ns == WP_TIME_NEVER) {
        (void)wp_timing_wheel_remove(&pools->wheel, ref.index);
    } else {
        wp_timing_wheel_insert(&pools->wheel, ref.index, deadline_ns);
    }
}

static bool
is_keeper(const struct wp_pools *pools)
{
    return atomic_load_explicit(&pools->keeper, memory_order_relaxed);
}

static void
look_again(struct wp_pools *pools, struct wp_slot_ref ref, int64_t now_ns)
{
    wp_timing_wheel_insert(&pools->wheel, ref.index, now_ns + RETRY_NS);
}

/* Nothing of the sandbox is left: so let nothing be left in the store. */
static void
forget_slot(struct wp_pools *pools, struct wp_slot_ref ref, int64_t now_ns)
{
    struct wp_slot *slot = wp_slot_at(&pools->slots, ref.index);
    uint32_t work = atomic_load_explicit(&slot->work, memory_order_relaxed);
    enum wp_lease_op_kind kind = WP_LEASE_FORGET;

    if ((slot->control_bits & WP_CONTROL_TOLD) != 0) {
        slot->control_bits &= ~(uint32_t)WP_CONTROL_TOLD;
        (void)atomic_fetch_and_explicit(
            &slot->work, ~(uint32_t)WP_WORK_FORGOTTEN, memory_order_relaxed);
        work &= ~(uint32_t)WP_WORK_FORGOTTEN;
    }
    if (!pools->durable || (work & WP_WORK_FORGOTTEN) != 0) {
        wp_pools_free_slot(pools, ref);
        return;
    }
    if ((work & WP_WORK_RELEASE) != 0) {
        (void)atomic_fetch_and_explicit(&slot->work, ~(uint32_t)WP_WORK_RELEASE,
                                        memory_order_relaxed);
        kind = WP_LEASE_FETCH; /* By which fence is it held? */
    }
    if (!wp_store_request_send(pools, ref, kind)) {
        (void)atomic_fetch_or_explicit(&slot->work, work & WP_WORK_RELEASE,
                                       memory_order_relaxed);
        look_again(pools, ref, now_ns);
    }
}

/* The keeper destroys it, and the store tells when it is forgotten. Should that
 * have been missed, it is asked. */
static void
linger(struct wp_pools *pools, struct wp_slot_ref ref, int64_t now_ns)
{
    struct wp_slot *slot = wp_slot_at(&pools->slots, ref.index);

    if ((atomic_load_explicit(&slot->work, memory_order_relaxed) &
         WP_WORK_FORGOTTEN) != 0) {
        wp_pools_free_slot(pools, ref);
        return;
    }
    if ((slot->control_bits & WP_CONTROL_LINGERS) == 0) {
        slot->control_bits |= WP_CONTROL_LINGERS;
    } else if (wp_timing_wheel_contains(&pools->wheel, ref.index)) {
        return; /* Marked; its time has not come. */
    } else if (wp_store_request_send(pools, ref, WP_LEASE_FETCH)) {
        slot->control_bits &= ~(uint32_t)WP_CONTROL_LINGERS;
        return; /* Looked at again when that is back. */
    }
    wp_timing_wheel_insert(&pools->wheel, ref.index, now_ns + LINGER_NS);
}

static void
destroy_slot(struct wp_pools *pools, struct wp_slot_ref ref, int64_t now_ns)
{
    struct wp_slot *slot = wp_slot_at(&pools->slots, ref.index);
    const struct wp_backend *backend = &pools->config.backend;

    if (!is_keeper(pools)) {
        linger(pools, ref, now_ns);
        return;
    }
    /* Acquire: paired with the release in wp_pools_on_destroyed. */
    if (atomic_load_explicit(&slot->gone, memory_order_acquire) ==
        ref.generation) {
        forget_slot(pools, ref, now_ns);
        return;
    }
    if ((slot->control_bits & WP_CONTROL_DESTROYING) != 0) {
        return;
    }
    if (backend->ops->destroy(backend->self, ref) == WP_OK) {
        slot->control_bits |= WP_CONTROL_DESTROYING;
        (void)wp_timing_wheel_remove(&pools->wheel, ref.index);
    } else {
        look_again(pools, ref, now_ns);
    }
}

/* Sends the request that the slot's work ask for. False: there is none. */
static bool
send_request(struct wp_pools *pools, struct wp_slot_ref ref, uint32_t work,
             enum wp_lease_op_kind kind, int64_t now_ns)
{
    struct wp_slot *slot = wp_slot_at(&pools->slots, ref.index);
    uint32_t before =
        atomic_fetch_and_explicit(&slot->work, ~work, memory_order_relaxed);

    if (work != 0 && (before & work) == 0) {
        return false;
    }
    if (!wp_store_request_send(pools, ref, kind)) {
        (void)atomic_fetch_or_explicit(&slot->work, work, memory_order_relaxed);
        look_again(pools, ref, now_ns);
    }
    return true;
}

static void
attend_quarantined(struct wp_pools *pools, struct wp_slot_ref ref,
                   int64_t now_ns)
{
    struct wp_slot *slot = wp_slot_at(&pools->slots, ref.index);
    int64_t deadline =
        atomic_load_explicit(&slot->deadline_ns, memory_order_relaxed);

    if (pools->durable) {
        (void)wp_timing_wheel_remove(&pools->wheel, ref.index);
        if (!send_request(pools, ref, WP_WORK_WITHDRAW, WP_LEASE_WITHDRAW,
                          now_ns)) {
            (void)send_request(pools, ref, 0, WP_LEASE_FETCH, now_ns);
        }
        return;
    }
    /* Whoever may hold it holds it no longer than the lease lasts. */
    if (deadline > now_ns && !is_stopped(slot)) {
        wake_at(pools, ref, deadline);
    } else if (wp_slot_move(&pools->slots, ref, WP_SLOT_QUARANTINED,
                            WP_SLOT_DYING)) {
        destroy_slot(pools, ref, now_ns);
    }
}

static void
attend_held(struct wp_pools *pools, struct wp_slot_ref ref, int64_t now_ns)
{
    struct wp_slot *slot = wp_slot_at(&pools->slots, ref.index);
    uint32_t work = atomic_load_explicit(&slot->work, memory_order_relaxed);
    bool undo = (work & WP_WORK_UNDO) != 0;

    if ((work & WP_WORK_LOSE) != 0 &&
        wp_slot_state(&pools->slots, ref) == WP_SLOT_LOST &&
        send_request(pools, ref, WP_WORK_LOSE, WP_LEASE_LOSE, now_ns)) {
        return;
    }
    if (!is_due(slot, now_ns)) {
        wake_at(pools, ref,
                atomic_load_explicit(&slot->deadline_ns, memory_order_relaxed) -
                    (WP_MUTANT(EXPIRED_EARLY) ? WP_NS_PER_S : 0));
        return;
    }
    if ((!is_keeper(pools) || pools->leaving) && !undo &&
        (work & WP_WORK_STOP) == 0 && !WP_MUTANT(FOLLOWER_EXPIRES)) {
        /* The keeper ends it; this replica may become the keeper. */
        wp_timing_wheel_insert(&pools->wheel, ref.index, now_ns + WP_NS_PER_S);
        if (pools->shared && !pools->leaving &&
            now_ns - atomic_load_explicit(&slot->deadline_ns,
                                          memory_order_relaxed) >
                LINGER_NS) {
            wp_pools_doubt_lease(pools, ref);
        }
        return;
    }
    /* Looks again in a while: the store may be out of reach. */
    look_again(pools, ref, now_ns);
    if (wp_pools_end_lease(pools, ref, now_ns) &&
        wp_slot_state(&pools->slots, ref) == WP_SLOT_DYING) {
        destroy_slot(pools, ref, now_ns);
    }
}

static void
attend_ready(struct wp_pools *pools, struct wp_slot_ref ref, int64_t now_ns)
{
    struct wp_slot *slot = wp_slot_at(&pools->slots, ref.index);
    bool heard = (slot->control_bits & WP_CONTROL_HEARD) != 0;

    slot->control_bits &= ~(uint32_t)(WP_CONTROL_MIRRORED | WP_CONTROL_HEARD);
    (void)wp_timing_wheel_remove(&pools->wheel, ref.index);
    if (send_request(pools, ref, WP_WORK_OFFER, WP_LEASE_OFFER, now_ns)) {
        return;
    }
    /* A claim here had it for a moment, and what another replica did with it
     * was not taken in: the store is asked. */
    if (heard &&
        wp_slot_move(&pools->slots, ref, WP_SLOT_READY, WP_SLOT_QUARANTINED)) {
        attend_quarantined(pools, ref, now_ns);
    }
}

/* A slot that somebody marked, or whose time has come. */
static void
attend_slot(struct wp_pools *pools, uint32_t index, int64_t now_ns)
{
    struct wp_slot *slot = wp_slot_at(&pools->slots, index);
    struct wp_slot_ref ref = wp_slot_ref_at(&pools->slots, index);
    uint32_t work = atomic_load_explicit(&slot->work, memory_order_relaxed);

    if ((work & WP_WORK_REQUESTED) != 0) {
        return; /* It is marked again when the request is back. */
    }
    if ((work & WP_WORK_RETRY) != 0) {
        (void)atomic_fetch_and_explicit(&slot->work, ~(uint32_t)WP_WORK_RETRY,
                                        memory_order_relaxed);
        look_again(pools, ref, now_ns);
        return;
    }
    switch (wp_slot_state(&pools->slots, ref)) {
    case WP_SLOT_LEASED:
        wp_pool_scale_on_leased(wp_pools_of_slot(pools, index), ref);
        if (pools->reported != NULL) {
            wp_pools_report_lease(pools, ref);
        }
        attend_held(pools, ref, now_ns);
        break;
    case WP_SLOT_LOST:
        attend_held(pools, ref, now_ns);
        break;
    case WP_SLOT_QUARANTINED:
        attend_quarantined(pools, ref, now_ns);
        break;
    case WP_SLOT_DYING:
        destroy_slot(pools, ref, now_ns);
        break;
    case WP_SLOT_READY:
        attend_ready(pools, ref, now_ns);
        break;
    case WP_SLOT_FREE:
    case WP_SLOT_WARMING:
    case WP_SLOT_STATE_COUNT:
        (void)wp_timing_wheel_remove(&pools->wheel, index);
        break;
    }
}

static bool
take_marked(struct wp_pools *pools, int64_t now_ns)
{
    /* Acquire: paired with the push in wp_pools_mark. */
    uint32_t index = atomic_exchange_explicit(&pools->marked, WP_SLOT_NONE,
                                              memory_order_seq_cst);
    bool found = index != WP_SLOT_NONE;

    while (index != WP_SLOT_NONE) {
        struct wp_slot *slot = wp_slot_at(&pools->slots, index);
        uint32_t next =
            atomic_load_explicit(&slot->work_next, memory_order_relaxed);

        /* Off the list before it is looked at: what comes now is marked anew.
         * Acquire: sees what was written before the mark. */
        (void)atomic_fetch_and_explicit(&slot->work, ~(uint32_t)WP_WORK_LISTED,
                                        memory_order_acq_rel);
        attend_slot(pools, index, now_ns);
        /* What befalls a slot may concern its pool's refill. */
        atomic_store_explicit(&wp_pools_of_slot(pools, index)->touched, true,
                              memory_order_relaxed);
        index = next;
    }
    return found;
}

struct due {
    struct wp_pools *pools;
    int64_t now_ns;
};

static void
fire(void *ctx, uint32_t index)
{
    struct due *due = ctx;

    attend_slot(due->pools, index, due->now_ns);
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

static void
carry_out(struct wp_pool *pool, const struct wp_refill_plan *plan,
          int64_t now_ns)
{
    struct wp_pools *pools = pool->pools;

    for (uint32_t i = 0; i < plan->create; i++) {
        enum wp_status status = create_sandbox(pool, now_ns);

        if (status != WP_OK) {
            wp_refill_on_create_refused(&pool->refill, status, now_ns);
            /* The pause it began decides when to ask again. */
            wp_pools_touch(pool);
            return;
        }
    }
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
            wp_pools_mark(pools, ref.index, WP_WORK_WITHDRAW);
        } else {
            destroy_slot(pools, ref, now_ns);
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
        wp_refill_on_failed(&pool->refill, now_ns);
    }
    if (ready > 0) {
        wp_refill_on_ready(
            &pool->refill,
            atomic_load_explicit(&pool->lead_last_ns, memory_order_relaxed));
    }
    /* Last: who died young was ready before. */
    for (uint32_t i = 0; i < young; i++) {
        wp_refill_on_died_young(&pool->refill, now_ns);
    }
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
        .cold_start = pool->spec.cold_start,
        .draining = atomic_load_explicit(&pool->draining, memory_order_relaxed),
        .now_ns = now_ns,
    };
}

static void
publish(struct wp_pool *pool, const struct wp_refill_view *view)
{
    const struct wp_refill *refill = &pool->refill;
    bool open = wp_refill_breaker_open(refill);

    atomic_store_explicit(&pool->retry_after_ns,
                          wp_refill_retry_after_ns(refill, view),
                          memory_order_relaxed);
    atomic_store_explicit(
        &pool->breaker_retry_at_ns,
        view->now_ns + wp_refill_breaker_retry_in_ns(refill, view->now_ns),
        memory_order_relaxed);
    atomic_store_explicit(&pool->breaker_open, open, memory_order_relaxed);
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
static int64_t
turn(struct wp_pool *pool, int64_t now_ns, bool *worked)
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

    if (!touched && now_ns < pool->turn_at_ns) {
        return pool->turn_at_ns;
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
    next_scale = wp_pool_scale_turn(pool, &view, &unscaled);
    if (wp_pool_history_turn(pool, now_ns)) {
        wp_snapshot_changed(pool);
    }
    next_snapshot = wp_snapshot_turn(pool, now_ns);
    view.target = atomic_load_explicit(&pool->target, memory_order_relaxed);
    plan = wp_refill_plan(&pool->refill, &view);
    if (is_keeper(pools) && !pools->leaving && !unscaled) {
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
    pool->turn_at_ns = wp_min_i64(wp_min_i64(plan.ask_again_ns, next_wait),
                                  wp_min_i64(next_scale, next_snapshot));
    return pool->turn_at_ns;
}

/* True when nothing came between the turn and now: control may sleep. */
static bool
fall_asleep(struct wp_pools *pools)
{
    /* seq_cst pairs with wake_control: see there. */
    atomic_store_explicit(&pools->awake, false, memory_order_seq_cst);
    if (atomic_load_explicit(&pools->marked, memory_order_seq_cst) ==
            WP_SLOT_NONE &&
        !atomic_load_explicit(&pools->answers_due, memory_order_seq_cst)) {
        bool touched = false;

        for (uint32_t i = 0; i < wp_pools_count(pools) && !touched; i++) {
            touched = atomic_load_explicit(&wp_pools_at(pools, i)->touched,
                                           memory_order_seq_cst);
        }
        if (!touched) {
            return true;
        }
    }
    atomic_store_explicit(&pools->awake, true, memory_order_relaxed);
    return false;
}

int64_t
wp_pools_run(struct wp_pools *pools)
{
    int64_t now = wp_pools_now(pools);
    struct due due = {pools, now};
    int64_t next = WP_TIME_NEVER;
    bool worked;

    atomic_store_explicit(&pools->awake, true, memory_order_relaxed);
    atomic_store_explicit(&pools->wall_offset_ns,
                          wp_clock_wall_offset_ns(pools->config.clock),
                          memory_order_relaxed);
    worked = wp_answers_run(pools);
    worked = wp_snapshots_run(pools, now) || worked;
    worked = take_marked(pools, now) || worked;
    (void)wp_timing_wheel_advance(&pools->wheel, now, fire, &due);
    wp_pool_budgets_turn(pools, now);
    for (uint32_t i = 0; i < wp_pools_count(pools); i++) {
        int64_t at = turn(wp_pools_at(pools, i), now, &worked);

        next = at < next ? at : next;
    }
    next = wp_min_i64(next, wp_pool_budgets_next_ns(pools));
    if (wp_timing_wheel_next_ns(&pools->wheel) < next) {
        next = wp_timing_wheel_next_ns(&pools->wheel);
    }
    if (worked || !fall_asleep(pools)) {
        int64_t soon = now + BUSY_TURN_NS;

        next = soon < next ? soon : next;
    }
    return next;
}

void
wp_pools_stop(struct wp_pools *pools)
{
    pools->closing = true;
    pools->leaving = false;
    for (uint32_t i = 0; i < wp_pools_count(pools); i++) {
        wp_snapshot_save_soon(wp_pools_at(pools, i), wp_pools_now(pools));
        wp_pools_drain(pools, i);
    }
    for (uint32_t i = 0; i < wp_slots_used_max(&pools->slots); i++) {
        struct wp_slot_ref ref = wp_slot_ref_at(&pools->slots, i);
        enum wp_slot_state state = wp_slot_state(&pools->slots, ref);

        if (state == WP_SLOT_LEASED || state == WP_SLOT_LOST) {
            wp_pools_mark(pools, i, WP_WORK_STOP);
        } else if (state == WP_SLOT_QUARANTINED || state == WP_SLOT_WARMING) {
            if (wp_slot_move(&pools->slots, ref, state, WP_SLOT_DYING)) {
                wp_pools_mark(pools, i, 0);
            }
        }
    }
}

void
wp_pools_leave(struct wp_pools *pools, bool idle_too)
{
    pools->closing = true;
    for (uint32_t i = 0; i < wp_pools_count(pools); i++) {
        wp_snapshot_save_soon(wp_pools_at(pools, i), wp_pools_now(pools));
        wp_pools_drain(pools, i);
    }
    pools->leaving = idle_too;
}
