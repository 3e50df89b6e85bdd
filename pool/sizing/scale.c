#include "pool/sizing/scale.h"

#include <math.h>
#include <stdlib.h>

#include "pool/base/extreme.h"
#include "pool/sizing/budget.h"
#include "pool/sizing/history.h"
#include "pool/sizing/snapshot_state.h"

/* A change of target is told at most so often; the next one tells of those
 * between, too. */
#define SAY_PAUSE_NS (1 * WP_NS_PER_S)

/* --- Life --- */

static uint32_t
at_most_u32(uint64_t n)
{
    return n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
}

static int64_t
wall_of(struct wp_pools *pools, int64_t now_ns)
{
    return now_ns +
           atomic_load_explicit(&pools->wall_offset_ns, memory_order_relaxed);
}

static struct wp_pool_scale *
create_scale(struct wp_pool *pool, const struct wp_pool_spec *spec)
{
    struct wp_pools *pools = pool->pools;
    struct wp_pool_scale *scale = wp_pools_reserve(pools, 1, sizeof *scale);
    int64_t now_ns = wp_pools_now(pools);

    if (scale == NULL) {
        return NULL;
    }
    /* Where claims may wait, one that finds nothing ready takes the next
     * sandbox that is. */
    scale->scaler = wp_scaler_create(
        spec->waiters_max > 0 ? WP_MISS_QUEUED : WP_MISS_LOST, spec->target,
        WP_REFILL_LEAD_GUESS_NS, now_ns, wall_of(pools, now_ns));
    if (scale->scaler == NULL) {
        free(scale);
        return NULL;
    }
    (void)pthread_mutex_init(&scale->lock, NULL);
    atomic_init(&scale->budget, UINT32_MAX);
    scale->group = UINT32_MAX;
    scale->replicas_given = spec->target;
    scale->seen_quantum = now_ns / WP_SCALE_QUANTUM_NS;
    wp_pool_scale_record(pool, scale, now_ns,
                         (struct wp_history_event){
                             .kind = WP_HISTORY_BEGIN,
                             .n = spec->target,
                             .clock_ns = wp_scaler_wall_ns(scale->scaler)});
    return scale;
}

void
wp_pool_scale_destroy(struct wp_pool_scale *scale)
{
    if (scale != NULL) {
        wp_scaler_destroy(scale->scaler);
        (void)pthread_mutex_destroy(&scale->lock);
        free(scale);
    }
}

enum wp_status
wp_pool_scale_make(struct wp_pool *pool, const struct wp_pool_spec *spec,
                   struct wp_err *err)
{
    struct wp_pool_scale *scale = wp_pool_scale_of(pool);

    if (scale != NULL || spec->scale.objective == WP_SCALE_PLAIN) {
        return WP_OK;
    }
    scale = create_scale(pool, spec);
    if (scale == NULL) {
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED,
                          "pool '%s': no memory for its scaler", spec->name);
    }
    /* Pairs with the acquire in wp_pool_scale_of. */
    atomic_store_explicit(&pool->scale, scale, memory_order_release);
    return WP_OK;
}

static void
set_policy(struct wp_pool *pool, struct wp_pool_scale *scale,
           const struct wp_scale_policy *policy)
{
    int64_t now_ns = wp_pools_now(pool->pools);

    wp_pool_scale_pass(pool, scale, now_ns);
    wp_scaler_set_policy(scale->scaler, policy);
    wp_pool_scale_record(pool, scale, now_ns,
                         (struct wp_history_event){
                             .kind = WP_HISTORY_POLICY,
                             .n = (uint32_t)wp_scaler_policy_print(policy)});
}

void
wp_pool_scale_set(struct wp_pool *pool, const struct wp_pool_spec *spec)
{
    bool active = spec->scale.objective != WP_SCALE_PLAIN;
    struct wp_pool_scale *scale = wp_pool_scale_of(pool);

    if (scale == NULL) {
        return;
    }
    scale->declared = spec->target;
    scale->set_by_call = false;
    wp_snapshot_changed(pool);
    scale->scales = scale->scales && active;
    wp_pool_budget_join(pool, scale, &spec->scale);
    (void)pthread_mutex_lock(&scale->lock);
    if (!wp_scale_policy_eq(wp_scaler_policy(scale->scaler), &spec->scale)) {
        set_policy(pool, scale, &spec->scale);
    }
    (void)pthread_mutex_unlock(&scale->lock);
    if (active && !atomic_load_explicit(&scale->active, memory_order_relaxed)) {
        /* Of a time when nobody asked. */
        atomic_store_explicit(&pool->missed_at_ns, 0, memory_order_relaxed);
    }
    atomic_store_explicit(&scale->active, active, memory_order_relaxed);
}

void
wp_pool_scale_forget_hand(struct wp_pool *pool, struct wp_pool_scale *scale)
{
    struct wp_scale_policy policy;
    struct wp_scale_policy plain;

    wp_scale_policy_init(&plain);
    (void)pthread_mutex_lock(&scale->lock);
    policy = *wp_scaler_policy(scale->scaler);
    wp_pool_scale_pass(pool, scale, wp_pools_now(pool->pools));
    wp_scaler_set_policy(scale->scaler, &plain);
    set_policy(pool, scale, &policy);
    (void)pthread_mutex_unlock(&scale->lock);
}

/* --- Its inputs --- */

void
wp_pool_scale_record(struct wp_pool *pool, struct wp_pool_scale *scale,
                     int64_t now_ns, struct wp_history_event event)
{
    /* Claims are decided on anyway, lead times in the next quantum. */
    scale->undecided = scale->undecided || (event.kind != WP_HISTORY_CLAIMS &&
                                            event.kind != WP_HISTORY_READY);
    wp_pool_history_add(pool, now_ns, event);
}

void
wp_pool_scale_pass(struct wp_pool *pool, struct wp_pool_scale *scale,
                   int64_t now_ns)
{
    unsigned passed =
        wp_scaler_pass(scale->scaler, now_ns, wall_of(pool->pools, now_ns));

    int64_t unseen = now_ns / WP_SCALE_QUANTUM_NS - scale->seen_quantum;

    if ((passed & WP_SCALE_PASSED_LATE) != 0) {
        wp_pool_scale_record(
            pool, scale, now_ns,
            (struct wp_history_event){.kind = WP_HISTORY_UNSEEN,
                                      .n = at_most_u32((uint64_t)unseen)});
    }
    if (unseen > 0) {
        scale->seen_quantum += unseen;
    }
    if ((passed & WP_SCALE_PASSED_CLOCK) != 0) {
        wp_pool_scale_record(pool, scale, now_ns,
                             (struct wp_history_event){
                                 .kind = WP_HISTORY_CLOCK,
                                 .clock_ns = wp_scaler_wall_ns(scale->scaler)});
    }
}

void
wp_pool_scale_on_ready(struct wp_pool *pool, int64_t lead_ns)
{
    struct wp_pool_scale *scale = wp_pool_scale_active(pool);

    if (scale == NULL) {
        wp_pool_history_add_lead(pool, wp_pools_now(pool->pools), lead_ns);
        return;
    }
    (void)pthread_mutex_lock(&scale->lock);
    scale->leads_lost += scale->n_leads >= WP_SCALE_LEADS_MAX ? 1 : 0;
    scale->leads_ns[scale->n_leads % WP_SCALE_LEADS_MAX] = lead_ns;
    /* Goes round over the oldest ones. */
    scale->n_leads = scale->n_leads < 2 * WP_SCALE_LEADS_MAX - 1
                         ? scale->n_leads + 1
                         : WP_SCALE_LEADS_MAX;
    (void)pthread_mutex_unlock(&scale->lock);
}

void
wp_pool_scale_on_leased(struct wp_pool *pool, struct wp_slot_ref ref)
{
    struct wp_pool_scale *scale = wp_pool_scale_active(pool);
    struct wp_pools *pools = pool->pools;
    struct wp_claim_view view;
    int64_t arrived_ns;

    if (scale == NULL || !wp_pools_claim_of(pools, ref, &view)) {
        return;
    }
    arrived_ns =
        view.granted_wall_ms * WP_NS_PER_MS -
        atomic_load_explicit(&pools->wall_offset_ns, memory_order_relaxed);
    /* Else it is here for another reason than that it is new. */
    if (arrived_ns > scale->seen_until_ns) {
        scale->seen_until_ns = arrived_ns;
        if (scale->event_ns == 0 || arrived_ns < scale->event_ns) {
            scale->event_ns = arrived_ns;
        }
    }
}

/* Each is recorded as it is told, and in the same order, so that a replay sees
 * the same. */

static void
tell_replicas(struct wp_pool *pool, struct wp_pool_scale *scale, int64_t now_ns)
{
    if (pool->spec.target != scale->replicas_given) {
        scale->replicas_given = pool->spec.target;
        wp_pool_scale_record(
            pool, scale, now_ns,
            (struct wp_history_event){.kind = WP_HISTORY_REPLICAS,
                                      .n = scale->replicas_given});
    }
}

static void
tell_at_once(struct wp_pool *pool, struct wp_pool_scale *scale, int64_t now_ns)
{
    uint32_t at_once = wp_pool_at_once(pool, &pool->spec);

    if (at_once != scale->at_once_given) {
        scale->at_once_given = at_once;
        wp_scaler_set_at_once(scale->scaler, now_ns, at_once);
        wp_pool_scale_record(pool, scale, now_ns,
                             (struct wp_history_event){
                                 .kind = WP_HISTORY_AT_ONCE, .n = at_once});
    }
}

/* Rounded as they are recorded. */
static void
tell_leads(struct wp_pool *pool, struct wp_pool_scale *scale, int64_t now_ns)
{
    uint32_t n = wp_min_u32(scale->n_leads, WP_SCALE_LEADS_MAX);

    for (uint32_t i = 0; i < n; i++) {
        int64_t lead_ns = wp_history_lead_round(scale->leads_ns[i]);

        wp_scaler_on_ready(scale->scaler, now_ns, lead_ns);
        wp_pool_scale_record(pool, scale, now_ns,
                             (struct wp_history_event){.kind = WP_HISTORY_READY,
                                                       .lead_ns = lead_ns});
    }
    scale->n_leads = 0;
}

/* Last: with them goes a decision. False: there are none. */
static bool
tell_claims(struct wp_pool *pool, struct wp_pool_scale *scale, int64_t now_ns)
{
    uint32_t n;
    uint32_t missed;

    if (!wp_pool_new_claims(pool, &scale->claims_seen, &scale->missed_seen, &n,
                            &missed)) {
        return false;
    }
    wp_snapshot_changed(pool);
    wp_scaler_on_claims(scale->scaler, now_ns, n, missed);
    wp_pool_scale_record(pool, scale, now_ns,
                         (struct wp_history_event){.kind = WP_HISTORY_CLAIMS,
                                                   .n = n,
                                                   .missed = missed,
                                                   .apart = true});
    return true;
}

/* All that came since the last turn. Under the lock. */
static void
tell(struct wp_pool *pool, struct wp_pool_scale *scale, int64_t now_ns)
{
    wp_pool_scale_pass(pool, scale, now_ns);
    tell_replicas(pool, scale, now_ns);
    tell_at_once(pool, scale, now_ns);
    tell_leads(pool, scale, now_ns);
    if (!tell_claims(pool, scale, now_ns) && scale->undecided) {
        wp_pool_scale_record(
            pool, scale, now_ns,
            (struct wp_history_event){.kind = WP_HISTORY_STEP});
    }
    scale->undecided = false;
}

/* This replica becomes the one that scales: what came before was another's
 * business, and is in what that one saved. */
static void
take_up(struct wp_pool *pool, struct wp_pool_scale *scale, int64_t now_ns)
{
    wp_pool_count_claims(pool, &scale->claims_seen, &scale->missed_seen);
    (void)pthread_mutex_lock(&scale->lock);
    scale->n_leads = 0;
    (void)pthread_mutex_unlock(&scale->lock);
    scale->scales = true;
    wp_snapshot_want(pool, now_ns);
}

/* --- The decision --- */

static void
say(struct wp_pool *pool, struct wp_pool_scale *scale,
    const struct wp_scale_decision *decision, int64_t now_ns)
{
    const struct wp_pools_config *config = &pool->pools->config;
    struct wp_scale_decision said = *decision;

    if (!scale->said) {
        scale->said = true;
        scale->said_target = decision->target_before;
    }
    if (decision->target == scale->said_target) {
        return;
    }
    if (now_ns < scale->say_at_ns) {
        scale->next_ns = wp_min_i64(scale->say_at_ns, scale->next_ns);
        return;
    }
    said.target_before = scale->said_target;
    scale->said_target = decision->target;
    scale->say_at_ns = wp_time_add(now_ns, SAY_PAUSE_NS);
    if (config->scaled != NULL) {
        config->scaled(config->ctx, pool->index, &said);
    }
}

static void
set_target(struct wp_pool *pool, uint32_t target)
{
    uint32_t before = atomic_load_explicit(&pool->target, memory_order_relaxed);

    if (target != before) {
        atomic_store_explicit(&pool->target, target, memory_order_relaxed);
        if (target < before) {
            wp_pools_shrink(pool);
        }
    }
}

/* The oldest claim that no turn has seen before. */
static void
take_missed(struct wp_pool *pool, struct wp_pool_scale *scale)
{
    int64_t missed_ns =
        atomic_exchange_explicit(&pool->missed_at_ns, 0, memory_order_relaxed);

    if (missed_ns != 0 &&
        (scale->event_ns == 0 || missed_ns < scale->event_ns)) {
        scale->event_ns = missed_ns;
    }
}

/* Of all pools together: what the backend's bound is shared by. */
static void
expect_creations(struct wp_pool *pool, struct wp_pool_scale *scale, double n)
{
    pool->pools->creations += n - scale->creations;
    scale->creations = n;
}

static void
decide(struct wp_pool *pool, struct wp_pool_scale *scale,
       const struct wp_refill_view *is, bool stuck)
{
    struct wp_scale_view view = {
        .mono_ns = is->now_ns,
        .wall_ns = wall_of(pool->pools, is->now_ns),
        .replicas = pool->spec.target,
        .ready = is->ready,
        .warming = is->warming,
        /* Without a template nothing can be made. */
        .room = is->create_inflight_max > 0 ? is->slots_free : 0,
        .budget = atomic_load_explicit(&scale->budget, memory_order_relaxed),
        .stuck = stuck,
        .backend_at_once = pool->pools->config.backend.at_once,
        .others = fmax(pool->pools->creations - scale->creations, 0),
        .queue_s = (double)atomic_load_explicit(&pool->queue_mean_ns,
                                                memory_order_relaxed) /
                   (double)WP_NS_PER_S,
    };
    struct wp_scale_decision decision;

    (void)pthread_mutex_lock(&scale->lock);
    tell(pool, scale, is->now_ns);
    decision = wp_scaler_decide(scale->scaler, &view, &scale->next_ns);
    if (scale->latest.number == 0 || decision.target != scale->latest.target) {
        scale->changes[decision.reason]++;
    }
    scale->latest = decision;
    (void)pthread_mutex_unlock(&scale->lock);
    expect_creations(pool, scale, decision.expected);
    wp_pool_budget_look(pool, scale);
    set_target(pool, decision.target);
    say(pool, scale, &decision, is->now_ns);
}

int64_t
wp_pool_scale_turn(struct wp_pool *pool, const struct wp_refill_view *view,
                   bool stuck, bool *wait)
{
    struct wp_pool_scale *scale = wp_pool_scale_active(pool);
    struct wp_pools *pools = pool->pools;

    *wait = false;
    if (scale == NULL) {
        return WP_TIME_NEVER;
    }
    if (view->draining || pools->leaving ||
        !atomic_load_explicit(&pools->keeper, memory_order_relaxed)) {
        scale->scales = false;
        expect_creations(pool, scale, 0);
        wp_pool_budget_look(pool, scale);
        return WP_TIME_NEVER;
    }
    if (!scale->scales) {
        take_up(pool, scale, view->now_ns);
    }
    take_missed(pool, scale);
    if (pool->snapshot->learned != WP_LEARNED_KNOWN &&
        view->now_ns < pool->snapshot->wait_until_ns) {
        *wait = true;
        return pool->snapshot->wait_until_ns;
    }
    decide(pool, scale, view, stuck);
    return scale->next_ns;
}

void
wp_pool_scale_ordered(struct wp_pool *pool, bool any)
{
    struct wp_pool_scale *scale = wp_pool_scale_active(pool);

    if (scale == NULL || scale->event_ns == 0) {
        return;
    }
    if (any) {
        wp_histogram_record(&scale->reaction,
                            wp_pools_now(pool->pools) - scale->event_ns);
    }
    scale->event_ns = 0;
}
