#include "pool/scale/ahead.h"

#include <math.h>
#include <stdbool.h>

#include "pool/base/clock.h"
#include "pool/base/extreme.h"
#include "pool/scale/scaler.h"
#include "pool/scale/stock.h"

enum {
    STEPS = 64,        /* The longest lead time that counts, in steps. */
    SLOTS = 3 * STEPS, /* So long before now, and twice as long from now on. */
};

/* Ordered so long ahead that this share is there in time; the lesser where
 * there is stock besides that makes up for late ones. */
static const double IN_TIME = 0.999;
static const double IN_TIME_LEAST = 0.9;
/* Claims that came sooner than announced have taken of that stock; but about
 * half of the time it is chance, and so many fewer come next. */
static const double EARLY_SHARE = 0.5;
/* Lead times measured before their distribution is relied on. */
static const double LEADS_LEAST = 20;

/* What is announced, slot by slot; the first begins STEPS before now. */
struct plan {
    double n[SLOTS];
    double left[SLOTS];
    double ready[STEPS + 1]; /* Share of orders ready after so many steps. */
    double in_time;          /* The share that a job alone asks for. */
    double z;                /* Standard deviations for the objective. */
    int64_t step_ns;
};

static int
slot_of(const struct plan *plan, int64_t in_ns)
{
    int64_t at_ns = wp_time_add(STEPS * plan->step_ns, in_ns);

    return (int)wp_min_i64(wp_max_i64(at_ns, 0) / plan->step_ns, SLOTS);
}

static void
make_plan(const struct wp_ahead *ahead, int64_t longest_ns, uint32_t due,
          struct plan *plan)
{
    const struct wp_reservations *reservations = ahead->reservations;
    double early = 0;

    *plan = (struct plan){
        .step_ns = wp_max_i64(longest_ns / STEPS, WP_SCALE_QUANTUM_NS),
        .z = wp_stock_deviations(fmin(fmax(ahead->miss, 1e-12), 0.5))};
    for (uint32_t i = 0; i < reservations->n; i++) {
        const struct wp_scale_reservation *one = &reservations->all[i];
        /* Wall times are not negative. */
        int slot = slot_of(plan, one->from_wall_ns - ahead->wall_ns);

        if (one->until_wall_ns > ahead->wall_ns && slot < SLOTS) {
            plan->n[slot] += one->n;
            plan->left[slot] += one->left;
            early += slot < STEPS ? 0 : one->n - one->left;
        }
    }
    plan->in_time = 1 - (ahead->spare - EARLY_SHARE * early) / due;
    plan->in_time = fmin(fmax(plan->in_time, IN_TIME_LEAST), IN_TIME);
    wp_lead_time_ready(ahead->lead, (double)plan->step_ns / WP_NS_PER_S,
                       STEPS + 1, plan->ready);
}

/* What begins `steps` from now need not be ordered yet. Looked at is the moment
 * at which all that was announced until then is claimed, while each was, and
 * is, ordered so long ahead. */
static bool
may_wait(const struct wp_ahead *ahead, const struct plan *plan, int steps)
{
    double follows = 0; /* On order by then for what begins later. */
    double missing = 0; /* Of all that are on order by then: not ready. */
    double early = 0;   /* Claimed sooner than announced. */
    double variance = 0;
    double spare = ahead->spare;

    if (plan->ready[steps] >= plan->in_time) {
        return true;
    }
    for (int i = 0; i < SLOTS && i - STEPS <= 2 * steps; i++) {
        int at = i - STEPS;
        int age = 2 * steps - at;
        double ready = age < STEPS ? plan->ready[age] : 1;

        missing += plan->n[i] * (1 - ready);
        variance += plan->n[i] * ready * (1 - ready);
        if (at > steps) {
            follows += plan->left[i];
        } else if (at >= 0) {
            early += plan->n[i] - plan->left[i];
            variance += plan->n[i];
        }
    }
    return spare + follows - missing - early >=
           sqrt(spare * spare + plan->z * plan->z * variance);
}

uint32_t
wp_ahead_due(const struct wp_ahead *ahead, int64_t *ordered_ns,
             int64_t *changes_at_ns)
{
    double longest_s =
        wp_lead_time_quantile_s(ahead->lead, IN_TIME, ahead->prior_lead_ns);
    /* A quantum more, since a step is as much late at most. */
    int64_t longest_ns = wp_time_add(
        longest_s < 9e9 ? (int64_t)(longest_s * WP_NS_PER_S) : INT64_MAX / 2,
        WP_SCALE_QUANTUM_NS);
    uint32_t due = wp_reservations_due(ahead->reservations, ahead->wall_ns,
                                       longest_ns, changes_at_ns);
    struct plan plan;
    int64_t ahead_ns;
    int64_t ignored_ns;
    int steps = STEPS;

    if (due == 0 || wp_lead_time_weight(ahead->lead) < LEADS_LEAST) {
        return due;
    }
    make_plan(ahead, longest_ns, due, &plan);
    while (steps > 0 &&
           (plan.left[STEPS + steps] <= 0 || may_wait(ahead, &plan, steps))) {
        steps--;
    }
    ahead_ns = wp_max_i64((steps + 1) * plan.step_ns - 1,
                          *ordered_ns - ahead->wall_ns);
    ahead_ns = wp_min_i64(ahead_ns, longest_ns);
    *ordered_ns = wp_time_add(ahead->wall_ns, ahead_ns);
    *changes_at_ns =
        wp_min_i64(*changes_at_ns, wp_time_add(ahead->wall_ns, plan.step_ns));
    return wp_reservations_due(ahead->reservations, ahead->wall_ns, ahead_ns,
                               &ignored_ns);
}
