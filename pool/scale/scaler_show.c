/* What is shown of a decision: what room, budget and a stuck refill leave of
 * it, and those decisions that are kept for explain. Nothing in here decides
 * what is decided next. */
#include <math.h>
#include <stdlib.h>

#include "pool/base/extreme.h"
#include "pool/scale/capacity.h"
#include "pool/scale/scaler.h"
#include "pool/scale/scaler_impl.h"

/* What the theory missed counts for what comes when it recurs so many lead
 * times apart: a pool that begins misses sooner than that. */
static const double RECUR_LEADS = 20;

static void
cap_at(struct wp_scale_decision *decision, uint32_t most,
       enum wp_scale_reason reason)
{
    if (decision->target > most) {
        decision->target = most;
        decision->reason = reason;
    }
}

/* Sandboxes that can be made at once: the pool's own bound, within its share of
 * the backend's. 0: no bound. */
static uint32_t
at_once(const struct wp_scaler *scaler, double a, bool *shared)
{
    const struct wp_scale_view *view = &scaler->view;
    double all = view->backend_at_once;
    double left = fmax(all - view->others, all * a / (a + view->others));

    *shared = all > 0 && (scaler->at_once == 0 || left < scaler->at_once ||
                          view->backend_at_once <= scaler->at_once);
    return *shared ? (uint32_t)fmax(left, 1) : scaler->at_once;
}

/* What claims can be made for, and how long orders wait for their turn. */
static void
show_capacity(const struct wp_scaler *scaler,
              struct wp_scale_decision *decision)
{
    bool measured = wp_lead_time_weight(&scaler->lead) > 0;

    decision->at_once = at_once(scaler, fmax(decision->expected, 1e-9),
                                &decision->shared_bound);
    decision->makes_per_s =
        decision->at_once > 0 && measured
            ? decision->at_once / scaler->forecast.lead_mean_s
            : NAN;
    decision->queue_s = scaler->view.queue_s;
}

/* The bounds that others set. */
static void
bound(const struct wp_scaler *scaler, struct wp_scale_decision *decision)
{
    const struct wp_scale_view *view = &scaler->view;
    uint32_t min = scaler->policy.min;
    uint32_t stock = wp_scaler_add_u32(view->ready, view->warming);
    uint32_t before = wp_max_u32(scaler->shown.target, min);

    if (decision->reason == WP_SCALE_BY_HAND) {
        return;
    }
    cap_at(decision, wp_max_u32(view->budget, min), WP_SCALE_BUDGET);
    /* These two only keep it from rising: what is asked for already stays, or
     * each claim would move the target. */
    cap_at(decision, wp_max_u32(wp_scaler_add_u32(stock, view->room), before),
           WP_SCALE_QUOTA);
    if (view->stuck) {
        cap_at(decision, before, WP_SCALE_NO_PROGRESS);
    }
    if (decision->at_once > 0 && decision->expected >= decision->at_once) {
        cap_at(decision, wp_max_u32(stock, before), WP_SCALE_SATURATED);
    }
}

/* The theory's misses as far as it has been seen to be right. Leeway is taken
 * until as many miss as it aims at: no fewer are promised. */
static double
seen_right(const struct wp_scaler *scaler,
           const struct wp_scale_decision *decision, double miss)
{
    double leeway = scaler->forecast.leeway;

    if (leeway <= 1 || decision->target > decision->wanted) {
        return miss / leeway;
    }
    return fmax(miss / leeway, wp_scaler_miss_aimed(scaler));
}

/* No more than what can be made allows: for good, when what was learned counts
 * what waits to be made in a burst already. */
static void
promise_within_capacity(const struct wp_scaler *scaler, uint32_t stock,
                        struct wp_scale_decision *decision)
{
    double a = decision->learned
                   ? decision->rate_slow_per_s * decision->lead_mean_s
                   : decision->expected;
    double idle;

    if (decision->at_once == 0 || !(a > 0) ||
        !wp_capacity_binds(a, decision->at_once)) {
        return;
    }
    idle = wp_capacity_idle(scaler->miss, stock, a, decision->at_once);
    decision->hit_rate =
        fmin(decision->hit_rate,
             1 - seen_right(scaler, decision,
                            wp_capacity_miss(scaler->miss, stock, a,
                                             decision->at_once)));
    decision->idle = fmin(decision->idle, idle);
}

/* What the target promises, by the theory the stock was chosen with, as far as
 * it can be had. */
static void
promise(const struct wp_scaler *scaler, struct wp_scale_decision *decision)
{
    const struct wp_scale_policy *policy = &scaler->policy;
    const struct wp_scale_view *view = &scaler->view;
    uint32_t asked = decision->target > decision->reserved
                         ? decision->target - decision->reserved
                         : 0;
    uint32_t possible = wp_scaler_add_u32(
        wp_scaler_add_u32(view->ready, view->warming), view->room);
    uint32_t stock = wp_min_u32(asked, possible);
    double a = decision->expected;

    decision->hit_rate_best = NAN;
    decision->hit_rate = 1 - seen_right(scaler, decision,
                                        wp_forecast_miss(scaler->miss, stock, a,
                                                         decision->dispersion));
    decision->idle =
        wp_forecast_idle(scaler->miss, stock, a, decision->dispersion);
    if (policy->objective == WP_SCALE_HIT_RATE &&
        wp_trial_belies(&scaler->trial, 1 - policy->hit_rate,
                        RECUR_LEADS * scaler->forecast.lead_mean_s)) {
        decision->hit_rate =
            fmin(decision->hit_rate,
                 1 - scaler->trial.missed / scaler->trial.claims);
    }
    if (scaler->forecast.learned && stock == asked &&
        decision->target >= decision->wanted) {
        /* Over all states, bursts included; as far as the reckoning, which is
         * on the safe side, has been set right. */
        decision->hit_rate =
            1 - fmin(scaler->learn->missed * exp(-scaler->slack_log), 1);
        decision->idle = scaler->learn->idle;
    }
    promise_within_capacity(scaler, stock, decision);
    if (view->stuck) {
        /* Nothing becomes ready: what is ready is all there will be. */
        decision->hit_rate = 0;
        decision->idle = view->ready;
    }
    if (policy->objective == WP_SCALE_HIT_RATE &&
        decision->wanted > policy->max) {
        decision->hit_rate_best =
            1 - wp_stock_miss(scaler->miss, policy->max, a);
    }
}

static void
keep(struct wp_scaler *scaler)
{
    scaler->shown.number = ++scaler->decisions;
    scaler->reason = scaler->shown.reason;
    if (scaler->kept_at == scaler->kept_cap &&
        scaler->kept_cap < WP_SCALE_DECISIONS_KEPT) {
        uint32_t cap = scaler->kept_cap == 0 ? 8 : 2 * scaler->kept_cap;
        struct wp_scale_decision *kept =
            realloc(scaler->kept, cap * sizeof *kept);

        if (kept != NULL) {
            scaler->kept = kept;
            scaler->kept_cap = cap;
        }
    }
    if (scaler->kept_cap == 0) {
        return; /* No memory: explain has nothing to show. */
    }
    scaler->kept_at %= scaler->kept_cap;
    scaler->kept[scaler->kept_at++] = scaler->shown;
    if (scaler->n_kept < scaler->kept_cap) {
        scaler->n_kept++;
    }
}

/* The reason is another one than that of the latest that was kept, and not for
 * a moment only. */
static bool
reason_lasts(struct wp_scaler *scaler)
{
    enum wp_scale_reason reason = scaler->shown.reason;

    if (reason != scaler->other) {
        scaler->other = reason;
        scaler->other_since_ns = scaler->now_ns;
    }
    if (reason == scaler->reason) {
        return false;
    }
    return reason == WP_SCALE_BY_HAND || scaler->reason == WP_SCALE_BY_HAND ||
           scaler->now_ns - scaler->other_since_ns >= WP_SCALE_REASON_LASTS_NS;
}

void
wp_scaler_show(struct wp_scaler *scaler, bool stepped)
{
    struct wp_scale_decision decision = scaler->inner;
    uint32_t before = scaler->shown.target;

    show_capacity(scaler, &decision);
    bound(scaler, &decision);
    if (!stepped && decision.target == before &&
        decision.reason == scaler->shown.reason) {
        return;
    }
    decision.mono_ns = wp_scaler_mono_ns(scaler, scaler->now_ns);
    decision.wall_ns = scaler->wall_ns;
    decision.number = scaler->decisions;
    decision.target_before = before;
    promise(scaler, &decision);
    scaler->shown = decision;
    if (reason_lasts(scaler) || scaler->n_kept == 0 ||
        decision.target != before) {
        keep(scaler);
    }
}

bool
wp_scaler_kept(const struct wp_scaler *scaler, uint32_t i,
               struct wp_scale_decision *out)
{
    if (i >= scaler->n_kept) {
        return false;
    }
    *out = scaler->kept[(scaler->kept_at + scaler->kept_cap - 1 - i) %
                        scaler->kept_cap];
    return true;
}
