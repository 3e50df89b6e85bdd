#include "pool/scale/forecast.h"

#include <math.h>

#include "pool/base/extreme.h"
#include "pool/scale/capacity.h"

/* Of the misses allowed so many are planned: what is not known well enough
 * takes the rest. */
static const double AIM = 0.8;
static const double MISS_MAX = 0.5;

/* Nearer to saturation than this the queue of orders is as long as chance has
 * it: no stock is planned for that. */
static const double LOAD_MAX = 0.8;

/* More than max is of no interest, and bounds what the sums cost. */
static uint32_t
beyond(const struct wp_scale_policy *policy)
{
    return policy->max < UINT32_MAX ? policy->max + 1 : UINT32_MAX;
}

static double
planned_hit_rate(const struct wp_forecast *forecast,
                 const struct wp_scale_policy *policy)
{
    return 1 - fmin(AIM * forecast->leeway * (1 - policy->hit_rate), MISS_MAX);
}

uint32_t
wp_forecast_stock(const struct wp_forecast *forecast,
                  const struct wp_scale_policy *policy, enum wp_miss miss)
{
    uint32_t most = beyond(policy);
    double a = forecast->expected;
    double hit = planned_hit_rate(forecast, policy);
    uint32_t stock;

    if (!(a > 0)) {
        return 0;
    }
    /* No stock serves more than comes out of it: s >= a hit. */
    if (a / 2 > most) {
        return most;
    }
    if (policy->objective == WP_SCALE_COST) {
        stock = wp_stock_for_cost(miss, forecast->rate_per_s,
                                  policy->miss_cost_s, a);
    } else {
        double z = fmin(forecast->dispersion, 1);

        stock = (uint32_t)ceil(z * wp_stock_for_hit_rate(miss, hit, a / z));
    }
    return wp_min_u32(stock, most);
}

/* Hayward's way for claims that are more regular than independent ones: as many
 * times fewer, larger ones, which are independent. */
double
wp_forecast_miss(enum wp_miss miss, uint32_t stock, double a, double idc)
{
    double z = fmin(idc, 1);

    return wp_stock_miss(miss, (uint32_t)(stock / z), a / z);
}

double
wp_forecast_idle(enum wp_miss miss, uint32_t stock, double a, double idc)
{
    double z = fmin(idc, 1);

    return z * wp_stock_idle(miss, (uint32_t)(stock / z), a / z);
}

void
wp_forecast_fit(struct wp_forecast *forecast,
                const struct wp_scale_policy *policy, enum wp_miss miss,
                uint32_t at_once)
{
    double a = forecast->expected;
    uint32_t needed;

    if (at_once == 0 || !(a > 0) || !wp_capacity_binds(a, at_once) ||
        forecast->stock == 0) {
        return;
    }
    if (a >= at_once) {
        struct wp_forecast busy = *forecast;

        busy.expected = at_once;
        forecast->saturated = true;
        forecast->stock = wp_forecast_stock(&busy, policy, miss);
        return;
    }
    if (policy->objective == WP_SCALE_HIT_RATE) {
        needed =
            wp_capacity_for_hit_rate(miss, planned_hit_rate(forecast, policy),
                                     fmin(a, LOAD_MAX * at_once), at_once);
        forecast->stock =
            wp_min_u32(wp_max_u32(forecast->stock, needed), beyond(policy));
    }
}

void
wp_forecast_rates(struct wp_forecast *forecast,
                  const struct wp_windows *windows, double spread)
{
    double lead_s = fmax(forecast->lead_mean_s, WP_WINDOW_FIRST_S);
    unsigned fast = wp_window_near(lead_s / 2);

    forecast->rate_per_s = wp_windows_level(
        windows, lead_s / 2, wp_window_tau_s(WP_WINDOWS - 1), spread);
    forecast->rate_fast_per_s = wp_window_rate(windows, fast);
    forecast->rate_slow_per_s = wp_window_rate(windows, WP_WINDOWS - 1);
    forecast->expected = forecast->rate_per_s * forecast->lead_mean_s;
}
