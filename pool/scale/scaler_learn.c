/* What the scaler makes of the past: slot by slot, how the theory would have
 * done, and, where it fails, what was needed in which state. */
#include <stdlib.h>

#include <math.h>

#include "pool/base/extreme.h"
#include "pool/scale/scaler_impl.h"

/* Lead times a state must have been seen for before what was learned of it is
 * believed against the theory. */
static const double STATE_LEADS = 8;
/* Misses so many lead times apart are not of one jump of the rate. */
static const double EPISODE_LEADS = 4;

/* Of the misses allowed so many may be bursts before their time; and what they
 * take is ordered so many lead times (p99) before. */
static const double EARLY_SHARE = 0.1;
static const double MAKE_LEADS = 2;

/* See unseen. */
static const double ALLOWED_SEEN = 3;
static const double SPREADS = 3;

/* Of what is allowed so much is aimed at. With 0.9 a rate that rises each
 * morning would get 99.898 % of 99.9. */
static const double AIM = 0.8;
/* So many misses move the plan by a factor of e: few at first, more as there is
 * more to go by. Misses come in clumps of hundreds. */
static const double SLACK_FIRST = 15;
static const double SLACK_LAST = 200;
static const double SLACK_MIN = -2;
static const double SLACK_MAX = 3.5;
/* Those of the theory's traffic do not. */
static const double THEORY_SLACK = 4;

double
wp_scaler_miss_allowed(const struct wp_scaler *scaler)
{
    const struct wp_scale_policy *policy = &scaler->policy;
    double saved;

    if (policy->objective == WP_SCALE_HIT_RATE) {
        return 1 - policy->hit_rate;
    }
    saved = scaler->forecast.rate_per_s * policy->miss_cost_s;
    return fmin(1 / fmax(saved, 2), 0.5);
}

double
wp_scaler_miss_aimed(const struct wp_scaler *scaler)
{
    return AIM * wp_scaler_miss_allowed(scaler);
}

static void
record_time(struct wp_scaler *scaler, double dt_s)
{
    uint32_t now = wp_need_now(&scaler->need);

    wp_trial_time(&scaler->trial, dt_s);
    if (scaler->learn != NULL) {
        wp_learn_time(scaler->learn, wp_need_least_state(&scaler->need), now,
                      dt_s, wp_trial_half_life_s(&scaler->trial));
    }
}

void
wp_scaler_learn_time(struct wp_scaler *scaler)
{
    struct wp_need *need = &scaler->need;
    double slot_s = (double)need->slot_ns / WP_NS_PER_S;
    int64_t slots = scaler->now_ns / need->slot_ns - need->slot;

    for (int64_t i = 0; i < slots && i < WP_NEED_SLOTS; i++) {
        record_time(scaler, slot_s);
        wp_need_next_slot(need, scaler->theory_stock);
    }
    if (slots > WP_NEED_SLOTS) {
        /* Nothing of what came is in the ring any more. */
        record_time(scaler, (double)(slots - WP_NEED_SLOTS) * slot_s);
        wp_need_add(need, scaler->now_ns, 0);
    }
}

static double
within(double log, double least)
{
    return fmin(fmax(log, least), SLACK_MAX);
}

static void
see_misses(struct wp_scaler *scaler, uint32_t n, uint32_t missed)
{
    double allowed = wp_scaler_miss_aimed(scaler) * n;
    double per_e = fmin(SLACK_FIRST + scaler->slack_allowed / 2, SLACK_LAST);

    if (scaler->forecast.learned) {
        scaler->slack_allowed = fmin(scaler->slack_allowed + allowed, 1e6);
        scaler->slack_log =
            within(scaler->slack_log + (allowed - missed) / per_e, SLACK_MIN);
    } else if (missed > 0 || scaler->inner.reason == WP_SCALE_FORECAST) {
        /* Where more is kept than the theory asks for, it tells nothing that
         * none missed. */
        scaler->theory_slack_log = within(
            scaler->theory_slack_log + (allowed - missed) / THEORY_SLACK, 0);
    }
}

void
wp_scaler_take_leeway(struct wp_scaler *scaler)
{
    struct wp_forecast *forecast = &scaler->forecast;
    double allowed = wp_scaler_miss_aimed(scaler) * scaler->claims_seen;

    /* For long enough no more may have missed than is allowed, bursts and the
     * first claims of all included. */
    if (scaler->policy.objective != WP_SCALE_HIT_RATE ||
        scaler->theory_slack_log <= 0 || scaler->missed_seen > allowed ||
        forecast->stock == 0) {
        return;
    }
    forecast->leeway = exp(scaler->theory_slack_log);
    forecast->stock = wp_max_u32(
        wp_forecast_stock(forecast, &scaler->policy, scaler->miss), 1);
}

/* More come than can be made, and not in a burst only: no stock would serve
 * them. */
static bool
is_saturated(const struct wp_scaler *scaler)
{
    const struct wp_forecast *forecast = &scaler->forecast;

    return forecast->saturated &&
           forecast->rate_slow_per_s * forecast->lead_mean_s >= scaler->at_once;
}

void
wp_scaler_learn_claims(struct wp_scaler *scaler, uint32_t n, uint32_t missed)
{
    uint32_t before = wp_need_now(&scaler->need);
    double apart_s = EPISODE_LEADS * scaler->forecast.lead_mean_s;
    uint32_t beyond;

    if (!is_saturated(scaler) && scaler->reservations.n == 0) {
        see_misses(scaler, n, missed < n ? missed : n);
    }
    beyond = wp_trial_claims(&scaler->trial, wp_need_least_plan(&scaler->need),
                             before, n, apart_s);
    if (beyond > 0 &&
        wp_bursts_add(&scaler->bursts, scaler->now_ns,
                      wp_scaler_add_u32(before, n), beyond,
                      (int64_t)(apart_s * WP_NS_PER_S)) &&
        scaler->learn != NULL) {
        scaler->learn->grouped_s = 0; /* Looked at anew. */
    }
    if (scaler->learn != NULL) {
        wp_learn_claims(scaler->learn, wp_need_least_state(&scaler->need),
                        before, n);
    }
    wp_need_add(&scaler->need, scaler->now_ns, n);
}

/* Learning begins before the theory has failed, so that there is something to
 * go by when it has. */
static bool
learning(struct wp_scaler *scaler)
{
    if (scaler->learn == NULL &&
        wp_trial_doubts(&scaler->trial, wp_scaler_miss_allowed(scaler))) {
        scaler->learn = malloc(sizeof *scaler->learn);
        if (scaler->learn != NULL) {
            wp_learn_init(scaler->learn);
        }
    }
    return scaler->learn != NULL;
}

static void
solve(struct wp_scaler *scaler)
{
    double every_s = fmax(scaler->forecast.lead_mean_s / 2, 0.5);

    if (scaler->now_ns < scaler->solve_at_ns) {
        return;
    }
    scaler->solve_at_ns =
        wp_time_add(scaler->now_ns, (int64_t)(every_s * WP_NS_PER_S));
    if (scaler->policy.objective == WP_SCALE_COST) {
        wp_learn_solve_cost(scaler->learn, scaler->policy.miss_cost_s);
    } else {
        wp_learn_solve(
            scaler->learn,
            fmin(wp_scaler_miss_allowed(scaler) * exp(scaler->slack_log), 0.9));
    }
}

/* What is kept for a burst is made before it is due. */
void
wp_scaler_see_due(struct wp_scaler *scaler)
{
    struct wp_forecast *forecast = &scaler->forecast;
    double early = EARLY_SHARE * wp_scaler_miss_allowed(scaler);
    uint32_t stock = scaler->learn != NULL
                         ? scaler->learn->stock[wp_learn_state(true, 0)]
                         : 0;
    double turns = scaler->at_once > 0 ? (double)stock / scaler->at_once : 0;
    double make_ns =
        (MAKE_LEADS + turns) * forecast->lead_p99_s * (double)WP_NS_PER_S;
    int64_t due_ns = wp_bursts_due_ns(&scaler->bursts, early);
    bool ebbs;

    due_ns = (double)due_ns > make_ns ? due_ns - (int64_t)make_ns : 0;
    ebbs = wp_learn_level(wp_need_now(&scaler->need)) + 1 <
               wp_need_state(&scaler->need) % WP_LEARN_LEVELS ||
           scaler->now_ns - scaler->bursts.latest_ns >
               (int64_t)(EPISODE_LEADS * forecast->lead_mean_s * WP_NS_PER_S);
    wp_need_set_due(&scaler->need,
                    due_ns <= scaler->now_ns || (scaler->need.due && !ebbs));
    forecast->due_ns = scaler->need.due ? WP_TIME_NEVER : due_ns;
}

/* So many claims that may miss must have been seen before the need that so few
 * exceed is known. With fewer than that the next burst may well need more than
 * any before it: by as much as chance moves a number of that size, or by less
 * where bursts have hardly differed. */
static uint32_t
unseen(const struct wp_scaler *scaler, uint32_t stock)
{
    double allowed =
        fmin(scaler->learn->grouped_claims * wp_scaler_miss_allowed(scaler),
             ALLOWED_SEEN);
    double more = sqrt(stock);

    if (scaler->need.due) {
        more = fmin(more, SPREADS * wp_bursts_spread(&scaler->bursts));
    }
    return (uint32_t)ceil((1 - allowed / ALLOWED_SEEN) * more);
}

void
wp_scaler_learned_stock(struct wp_scaler *scaler)
{
    struct wp_forecast *forecast = &scaler->forecast;
    const double known_s = STATE_LEADS * forecast->lead_mean_s;
    unsigned level;
    unsigned state;
    uint32_t stock;
    uint32_t when_due;

    if (!learning(scaler) ||
        !wp_trial_fails(&scaler->trial, wp_scaler_miss_allowed(scaler))) {
        return;
    }
    solve(scaler);
    state = wp_need_state(&scaler->need);
    level = state % WP_LEARN_LEVELS;
    stock = scaler->learn->stock[state];
    when_due = scaler->learn->stock[wp_learn_state(true, level)];
    if (!scaler->need.due && wp_learn_seen_s(scaler->learn, state) < known_s) {
        /* How a burst goes on after its first claims is not known yet. */
        stock = wp_max_u32(stock, when_due);
    }
    stock = wp_scaler_add_u32(stock, unseen(scaler, stock));
    forecast->learned = true;
    forecast->burst = level > wp_learn_level(wp_need_now(&scaler->need)) + 1;
    /* Between bursts it is the theory's traffic, and more where that missed. */
    if (!scaler->need.due || wp_learn_group_s(scaler->learn, state) < known_s) {
        stock = wp_max_u32(stock, forecast->stock);
    }
    forecast->between = stock < when_due && !scaler->need.due;
    forecast->stock = stock;
}
