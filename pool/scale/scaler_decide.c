/* What the target is now: the forecast's stock, raised and capped term by term.
 * The order of the terms is the order in which explain tells them. What room
 * and budget allow comes last, and elsewhere (scaler_show.c). */
#include <math.h>

#include "pool/base/extreme.h"
#include "pool/scale/ahead.h"
#include "pool/scale/scaler.h"
#include "pool/scale/scaler_impl.h"

/* A forecast fades while nothing comes: looked at again after this share of the
 * time that nothing came, but not more often than this. */
static const int64_t FADE_SHARE = 8;
static const int64_t FADE_MIN_NS = 250 * WP_NS_PER_MS;
/* Of the misses allowed so many may come after silence: the theory's stock is
 * planned with the rest (forecast.c). */
static const double QUIET_SHARE = 0.2;

static int64_t
ns_of(double s)
{
    return s < 9e9 ? (int64_t)(s * WP_NS_PER_S) : INT64_MAX / 2;
}

/* The same moment on the scaler's clock, as the clocks stand now. */
static int64_t
mono_of(const struct wp_scaler *scaler, int64_t wall_ns)
{
    if (wall_ns == WP_TIME_NEVER) {
        return WP_TIME_NEVER;
    }
    return wp_time_add(scaler->now_ns, wall_ns > scaler->wall_ns
                                           ? wall_ns - scaler->wall_ns
                                           : 0);
}

/* Nothing came for so long that even an empty pool breaks no promise: at the
 * usual gap g an exponential one lasts longer than g ln(1 / p) for only p of
 * the claims. */
static int64_t
quiet_from_ns(const struct wp_scaler *scaler)
{
    double missed = scaler->policy.objective == WP_SCALE_HIT_RATE
                        ? QUIET_SHARE * (1 - scaler->policy.hit_rate)
                        : 0.5;
    int64_t gap_ns = ns_of(scaler->gap_s * -log(missed));
    int64_t window_ns = scaler->policy.down_window_ns;

    return wp_time_add(scaler->last_claim_ns,
                       gap_ns > window_ns ? gap_ns : window_ns);
}

static void
make_forecast(struct wp_scaler *scaler)
{
    struct wp_forecast *forecast = &scaler->forecast;

    *forecast = (struct wp_forecast){
        .leeway = 1,
        .lead_measured_s =
            wp_lead_time_mean_s(&scaler->lead, scaler->prior_lead_ns),
        .lead_p99_s = wp_lead_time_quantile_s(&scaler->lead, 0.99,
                                              scaler->prior_lead_ns)};
    /* What came within one quantum came at once: no lead time is shorter. */
    forecast->lead_mean_s = fmax(forecast->lead_measured_s,
                                 (double)WP_SCALE_QUANTUM_NS / WP_NS_PER_S);
    wp_forecast_rates(forecast, &scaler->windows,
                      wp_gaps_spread(&scaler->gaps));
    forecast->dispersion = wp_gaps_peakedness(
        &scaler->gaps, forecast->lead_measured_s,
        wp_lead_time_mean_square_s2(&scaler->lead, scaler->prior_lead_ns));
    if (scaler->claims > 0 && scaler->now_ns < quiet_from_ns(scaler)) {
        forecast->stock =
            wp_forecast_stock(forecast, &scaler->policy, scaler->miss);
    }
}

/* One step of the chain from wanted to target: value, and why. */
struct choice {
    uint32_t target;
    enum wp_scale_reason reason;
};

static void
raise_to(struct choice *choice, uint32_t least, enum wp_scale_reason reason)
{
    if (choice->target < least) {
        *choice = (struct choice){least, reason};
    }
}

static void
cap_at(struct choice *choice, uint32_t most, enum wp_scale_reason reason)
{
    if (choice->target > most) {
        *choice = (struct choice){most, reason};
    }
}

static struct choice
choose_wanted(struct wp_scaler *scaler)
{
    const struct wp_forecast *forecast = &scaler->forecast;
    struct choice choice = {forecast->stock, WP_SCALE_FORECAST};

    if (forecast->saturated) {
        choice.reason = WP_SCALE_SATURATED;
    } else if (forecast->burst) {
        choice.reason = WP_SCALE_BURST;
    } else if (forecast->between) {
        choice.reason = WP_SCALE_BETWEEN;
    }
    if (scaler->claims == 0) {
        choice = (struct choice){scaler->replicas, WP_SCALE_NOTHING_SEEN};
    }
    return choice;
}

/* On top of all that: it has its own end, and is given up then. */
static void
add_reserved(struct choice *choice, uint32_t reserved)
{
    if (reserved > 0) {
        choice->target = wp_scaler_add_u32(choice->target, reserved);
        choice->reason = WP_SCALE_RESERVED;
    }
}

/* The target, but for what was announced. */
static uint32_t
own_target(const struct wp_scaler *scaler)
{
    return scaler->target > scaler->reserved ? scaler->target - scaler->reserved
                                             : 0;
}

/* The brakes guard against forecasts that know no better. Where it has been
 * learned what comes back, and how soon, they only cost; unless what is given
 * up could not be made again in a lead time while a burst may come, or somebody
 * asked for others than the usual ones. */
static bool
is_braked(const struct wp_scaler *scaler, uint32_t lowered)
{
    struct wp_scale_policy usual;

    wp_scale_policy_init(&usual);
    return !scaler->forecast.learned ||
           (scaler->at_once > 0 && lowered > scaler->at_once &&
            !scaler->forecast.between) ||
           scaler->policy.down_window_ns != usual.down_window_ns ||
           fabs(scaler->policy.down_rate - usual.down_rate) > 1e-9;
}

/* Not down at once; but for what was reserved. */
static void
brake(struct wp_scaler *scaler, struct choice *choice, int64_t *next_ns)
{
    uint32_t before = own_target(scaler);
    uint32_t most =
        wp_min_u32(wp_hold_most(&scaler->hold, scaler->now_ns), before);
    int64_t again_ns;

    if (!is_braked(scaler,
                   before > choice->target ? before - choice->target : 0)) {
        return;
    }
    raise_to(choice, most, WP_SCALE_HELD);
    raise_to(choice,
             wp_hold_step(&scaler->hold, scaler->now_ns,
                          scaler->policy.down_rate, before, choice->target,
                          &again_ns),
             WP_SCALE_HELD);
    *next_ns = wp_min_i64(*next_ns, again_ns);
    if (choice->reason == WP_SCALE_HELD) {
        *next_ns = wp_min_i64(*next_ns,
                              wp_hold_next_ns(&scaler->hold, scaler->now_ns));
    }
}

static void
bound(const struct wp_scaler *scaler, uint32_t floor, struct choice *choice)
{
    raise_to(choice, floor, WP_SCALE_SCHEDULED);
    raise_to(choice, scaler->policy.min, WP_SCALE_MIN);
    cap_at(choice, scaler->policy.max, WP_SCALE_MAX);
}

static int64_t
latest_burst_ms(const struct wp_scaler *scaler)
{
    if (!scaler->forecast.learned) {
        return 0;
    }
    return (scaler->wall_ns - ns_of(scaler->trial.since_s)) / WP_NS_PER_MS;
}

static int64_t
due_ms(const struct wp_scaler *scaler)
{
    const struct wp_forecast *forecast = &scaler->forecast;

    return forecast->between ? wp_time_add(scaler->wall_ns,
                                           forecast->due_ns - scaler->now_ns) /
                                   WP_NS_PER_MS
                             : 0;
}

static struct wp_scale_decision
fill(const struct wp_scaler *scaler)
{
    const struct wp_forecast *forecast = &scaler->forecast;

    return (struct wp_scale_decision){
        .rate_per_s = forecast->rate_per_s,
        .rate_fast_per_s = forecast->rate_fast_per_s,
        .rate_slow_per_s = forecast->rate_slow_per_s,
        .lead_mean_s = forecast->lead_measured_s,
        .lead_p99_s = forecast->lead_p99_s,
        .expected = forecast->expected,
        .spread = (double)forecast->stock - forecast->expected,
        .dispersion = forecast->dispersion,
        .learned = forecast->learned,
        .hit_rate_seen = wp_scaler_hit_rate_seen(scaler),
        .seen_claims = scaler->claims_seen,
        .burst_unix_ms = latest_burst_ms(scaler),
        .due_unix_ms = due_ms(scaler)};
}

static uint32_t
reserved_now(struct wp_scaler *scaler, int64_t *changes_ns)
{
    const struct wp_forecast *forecast = &scaler->forecast;
    const struct wp_ahead ahead = {
        .reservations = &scaler->reservations,
        .lead = &scaler->lead,
        .prior_lead_ns = scaler->prior_lead_ns,
        .wall_ns = scaler->wall_ns,
        .spare = fmax((double)forecast->stock - forecast->expected, 0),
        .miss = wp_scaler_miss_allowed(scaler)};

    return wp_ahead_due(&ahead, &scaler->ordered_ns, changes_ns);
}

/* When the forecast will have faded enough to be looked at again. */
static int64_t
fade_next_ns(const struct wp_scaler *scaler)
{
    int64_t quiet_ns = scaler->now_ns - scaler->last_claim_ns;
    int64_t wait_ns = quiet_ns / FADE_SHARE;

    if (scaler->forecast.stock == 0) {
        return WP_TIME_NEVER;
    }
    return wp_time_add(scaler->now_ns,
                       wait_ns > FADE_MIN_NS ? wait_ns : FADE_MIN_NS);
}

/* The grid's next line at or after own_ns, behind now. */
static int64_t
on_grid(const struct wp_scaler *scaler, int64_t own_ns)
{
    int64_t least_ns = wp_time_add(scaler->now_ns, WP_SCALE_QUANTUM_NS);
    int64_t over_ns = own_ns % WP_SCALE_QUANTUM_NS;

    if (own_ns <= least_ns || own_ns == WP_TIME_NEVER) {
        return own_ns == WP_TIME_NEVER ? own_ns : least_ns;
    }
    return over_ns == 0 ? own_ns
                        : wp_time_add(own_ns, WP_SCALE_QUANTUM_NS - over_ns);
}

/* Forecast and what was learned, as of now. */
static void
look_ahead(struct wp_scaler *scaler)
{
    make_forecast(scaler);
    wp_scaler_see_due(scaler);
    scaler->theory_stock = scaler->forecast.stock;
    wp_scaler_take_leeway(scaler);
    wp_forecast_fit(&scaler->forecast, &scaler->policy, scaler->miss,
                    scaler->at_once);
    /* Quiet is no proof where what was learned says what comes after it. */
    if (scaler->claims > 0) {
        wp_scaler_learned_stock(scaler);
    }
    /* What came, but no more than what was meant to serve: the peak of many
     * lead times is more than any one is planned for. */
    wp_hold_need(
        &scaler->hold, scaler->now_ns,
        wp_min_u32(wp_need_now(&scaler->need), scaler->forecast.stock));
}

void
wp_scaler_step(struct wp_scaler *scaler)
{
    struct wp_scale_decision *decision = &scaler->inner;
    struct choice choice;
    int64_t due_changes_ns;
    int64_t floor_changes_ns;
    int64_t next_ns;

    scaler->fresh = false;
    scaler->background_ns = scaler->now_ns;
    wp_windows_add(&scaler->windows, scaler->now_ns, 0);
    wp_scaler_learn_time(scaler);
    wp_reservations_expire(&scaler->reservations, scaler->wall_ns);
    look_ahead(scaler);

    *decision = fill(scaler);
    decision->reserved = reserved_now(scaler, &due_changes_ns);
    decision->floor = wp_scale_policy_floor(&scaler->policy, scaler->wall_ns,
                                            &floor_changes_ns);
    next_ns =
        wp_min_i64(scaler->forecast.due_ns, mono_of(scaler, due_changes_ns));
    next_ns = wp_min_i64(next_ns, mono_of(scaler, floor_changes_ns));
    next_ns = wp_min_i64(next_ns, fade_next_ns(scaler));

    choice = choose_wanted(scaler);
    decision->wanted = wp_scaler_add_u32(choice.target, decision->reserved);
    if (scaler->by_hand || scaler->policy.objective == WP_SCALE_PLAIN) {
        choice = (struct choice){scaler->replicas, WP_SCALE_BY_HAND};
    } else {
        brake(scaler, &choice, &next_ns);
        add_reserved(&choice, decision->reserved);
        bound(scaler, decision->floor, &choice);
    }
    decision->target = choice.target;
    decision->reason = choice.reason;
    scaler->due_ns = on_grid(scaler, next_ns);
    scaler->target = decision->target;
    scaler->reserved = scaler->by_hand ? 0 : decision->reserved;
    wp_need_plan(&scaler->need, scaler->theory_stock);
    wp_scaler_show(scaler, true);
    scaler->decided = true;
}

double
wp_scaler_marginal(const struct wp_scaler *scaler, uint32_t s)
{
    const struct wp_forecast *forecast = &scaler->forecast;
    double a = forecast->expected;

    /* By the loss formula, whatever becomes of a miss: that is convex from 0
     * on. The tail of the Poisson law is so above its mode only, and a budget
     * that is too small has the stock below it. */
    return forecast->rate_per_s *
           (wp_stock_miss(WP_MISS_LOST, s, a) -
            wp_stock_miss(WP_MISS_LOST, wp_scaler_add_u32(s, 1), a));
}
