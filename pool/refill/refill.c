#include "pool/refill/refill.h"

#include "pool/base/mutant.h"
#include "pool/base/extreme.h"

/* Sandboxes that should be ready or warming. 64 bits: target and waiting may
 * add up to more than 32 hold. */
static int64_t
wanted(const struct wp_refill_view *view)
{
    int64_t target = view->target;

    if (view->draining) {
        return 0;
    }
    return wp_max_i64(target,
                      wp_min_i64(target + view->waiting, view->waiting_max));
}

/* What the stock and the bounds leave room to create, batch size aside. */
static int64_t
room(const struct wp_refill_view *view)
{
    int64_t warming = WP_MUTANT(WARMING_NOT_COUNTED) ? 0 : view->warming;
    int64_t missing = wanted(view) - (int64_t)view->ready - warming;
    int64_t inflight = (int64_t)view->create_inflight_max - warming;

    return wp_max_i64(
        0, wp_min_i64(missing, wp_min_i64(inflight, view->slots_free)));
}

void
wp_refill_init(struct wp_refill *refill, uint64_t seed)
{
    *refill = (struct wp_refill){.backoff_ns = WP_REFILL_BACKOFF_MIN_NS,
                                 .pause_ns = WP_REFILL_PAUSE_MIN_NS};
    wp_rng_init(&refill->rng, seed);
}

static void
breaker_close(struct wp_refill *refill)
{
    refill->breaker = WP_BREAKER_CLOSED;
    refill->failures_in_row = 0;
    refill->backoff_ns = WP_REFILL_BACKOFF_MIN_NS;
    refill->pause_ns = WP_REFILL_PAUSE_MIN_NS;
}

/* Those that became ready after young deaths have lived long enough: the deaths
 * are forgotten. */
static void
judge_young(struct wp_refill *refill, int64_t now_ns)
{
    if (!refill->on_trial) {
        return;
    }
    if (refill->proven_at_ns == 0) {
        refill->proven_at_ns = wp_time_add(now_ns, WP_REFILL_YOUNG_NS);
    }
    if (now_ns >= refill->proven_at_ns) {
        refill->young_in_row = 0;
        refill->on_trial = false;
        refill->proven_at_ns = 0;
        breaker_close(refill);
    }
}

/* How many of n the breaker and the pause let through now; *ask_again_ns when
 * it is time that holds the others back. */
static int64_t
let_through(struct wp_refill *refill, const struct wp_refill_view *view,
            int64_t n, int64_t *ask_again_ns)
{
    if (n == 0) {
        return 0;
    }
    if (view->now_ns < refill->paused_until_ns) {
        *ask_again_ns = refill->paused_until_ns;
        return 0;
    }
    if (refill->breaker == WP_BREAKER_CLOSED) {
        return n;
    }
    /* What is still warming or on trial, the last probe included, will tell as
     * much as another probe would. */
    if (view->warming > 0 || refill->on_trial) {
        return 0;
    }
    if (refill->breaker == WP_BREAKER_OPEN &&
        view->now_ns < refill->retry_at_ns) {
        *ask_again_ns = refill->retry_at_ns;
        return 0;
    }
    refill->breaker = WP_BREAKER_PROBING;
    return 1;
}

struct wp_refill_plan
wp_refill_plan(struct wp_refill *refill, const struct wp_refill_view *view)
{
    struct wp_refill_plan plan = {0, 0, WP_TIME_NEVER};
    /* Ready ones that neither the target nor a claim about to be handed one
     * needs. Those warming do not count: they may fail, and are given up once
     * ready. */
    int64_t surplus = (int64_t)view->ready - (int64_t)view->waiting -
                      (view->draining ? 0 : (int64_t)view->target);
    int64_t create;

    judge_young(refill, view->now_ns);
    if (surplus > 0) {
        plan.destroy = (uint32_t)wp_min_i64(surplus, WP_REFILL_BATCH_MAX);
        if (surplus > WP_REFILL_BATCH_MAX) {
            plan.ask_again_ns = view->now_ns;
        }
        return plan;
    }
    create = let_through(refill, view, room(view), &plan.ask_again_ns);
    if (create > WP_REFILL_BATCH_MAX) {
        create = WP_REFILL_BATCH_MAX;
        plan.ask_again_ns = view->now_ns;
    }
    plan.create = (uint32_t)create;
    if (refill->on_trial) {
        plan.ask_again_ns = wp_min_i64(plan.ask_again_ns, refill->proven_at_ns);
    }
    return plan;
}

void
wp_refill_on_ready(struct wp_refill *refill, int64_t lead_ns)
{
    if (lead_ns >= 0) {
        lead_ns = wp_max_i64(lead_ns, 1);
        refill->lead_ns =
            refill->lead_ns == 0
                ? lead_ns
                : refill->lead_ns + (lead_ns - refill->lead_ns) / 5;
    }
    refill->on_trial = refill->young_in_row > 0;
    if (refill->young_in_row < WP_REFILL_BREAKER_FAILURES) {
        breaker_close(refill);
    }
}

static void
breaker_open(struct wp_refill *refill, int64_t now_ns)
{
    int64_t jitter = (int64_t)wp_rng_below(
        &refill->rng, (uint64_t)(refill->backoff_ns / 4) + 1);

    refill->breaker = WP_BREAKER_OPEN;
    refill->retry_at_ns = wp_time_add(now_ns, refill->backoff_ns - jitter);
    refill->backoff_ns =
        wp_min_i64(2 * refill->backoff_ns, WP_REFILL_BACKOFF_MAX_NS);
}

void
wp_refill_on_failed(struct wp_refill *refill, int64_t now_ns)
{
    if (refill->failures_in_row < UINT32_MAX) {
        refill->failures_in_row++;
    }
    switch (refill->breaker) {
    case WP_BREAKER_CLOSED:
        if (refill->failures_in_row >= WP_REFILL_BREAKER_FAILURES) {
            breaker_open(refill, now_ns);
        }
        break;
    case WP_BREAKER_OPEN:
        /* One that was ordered before the breaker opened: no news. */
        break;
    case WP_BREAKER_PROBING:
        breaker_open(refill, now_ns);
        break;
    }
}

void
wp_refill_on_died_young(struct wp_refill *refill, int64_t now_ns)
{
    refill->on_trial = false;
    refill->proven_at_ns = 0;
    if (refill->young_in_row < UINT32_MAX) {
        refill->young_in_row++;
    }
    if (refill->young_in_row >= WP_REFILL_BREAKER_FAILURES) {
        refill->failures_in_row = WP_REFILL_BREAKER_FAILURES;
        wp_refill_on_failed(refill, now_ns);
    }
}

void
wp_refill_on_create_refused(struct wp_refill *refill, enum wp_status status,
                            int64_t now_ns)
{
    if (status != WP_RESOURCE_EXHAUSTED) {
        wp_refill_on_failed(refill, now_ns);
        return;
    }
    refill->paused_until_ns = wp_time_add(now_ns, refill->pause_ns);
    refill->pause_ns = wp_min_i64(2 * refill->pause_ns, WP_REFILL_PAUSE_MAX_NS);
}

bool
wp_refill_breaker_open(const struct wp_refill *refill)
{
    return refill->breaker != WP_BREAKER_CLOSED;
}

int64_t
wp_refill_breaker_retry_in_ns(const struct wp_refill *refill, int64_t now_ns)
{
    if (refill->breaker != WP_BREAKER_OPEN) {
        return 0;
    }
    return wp_max_i64(0, refill->retry_at_ns - now_ns);
}

bool
wp_refill_lead_measured(const struct wp_refill *refill)
{
    return refill->lead_ns != 0;
}

int64_t
wp_refill_lead_ns(const struct wp_refill *refill)
{
    return refill->lead_ns == 0 ? WP_REFILL_LEAD_GUESS_NS : refill->lead_ns;
}

int64_t
wp_refill_retry_after_ns(const struct wp_refill *refill,
                         const struct wp_refill_view *view)
{
    double lead = (double)wp_refill_lead_ns(refill);
    double k = (double)view->waiting + 1;
    double warming = view->warming;
    double at_once;
    double after_ns;

    if (view->warming == 0 && (wanted(view) == 0 || view->slots_free == 0 ||
                               view->create_inflight_max == 0)) {
        return WP_REFILL_RETRY_MAX_NS;
    }
    if (k <= warming) {
        after_ns = lead * k / (warming + 1);
    } else {
        at_once = (double)wp_min_i64(wanted(view), view->create_inflight_max);
        after_ns = lead + lead * (k - warming) / (at_once + 1);
    }
    if (view->warming == 0) {
        after_ns += (double)wp_max_i64(
            wp_refill_breaker_retry_in_ns(refill, view->now_ns),
            refill->paused_until_ns - view->now_ns);
    }
    if (after_ns > (double)WP_REFILL_RETRY_MAX_NS) {
        return WP_REFILL_RETRY_MAX_NS;
    }
    return wp_max_i64((int64_t)after_ns, WP_REFILL_RETRY_MIN_NS);
}
