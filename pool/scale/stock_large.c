#include "pool/scale/stock_large.h"

#include <math.h>

/* Beyond these nothing of a normal tail is left in a double. */
static const double Z_MIN = -37;
static const double Z_MAX = 37;

static double
density(double z)
{
    return exp(-z * z / 2) / sqrt(2 * M_PI);
}

static double
below(double z)
{
    return erfc(-z * M_SQRT1_2) / 2;
}

/* Density over distribution: falls from about -z to 0. */
static double
hazard(double z)
{
    return z < Z_MIN ? -z : density(z) / below(z);
}

/* Where a falling function of z comes down to y. */
static double
solve(double (*f)(double z), double y)
{
    double low = Z_MIN;
    double high = Z_MAX;

    for (int i = 0; i < 40; i++) {
        double z = (low + high) / 2;

        if (f(z) > y) {
            low = z;
        } else {
            high = z;
        }
    }
    return high;
}

static double
above(double z)
{
    return below(-z);
}

/* a (B(s) - B(s + 1)): the derivative of the hazard, its sign turned. */
static double
gain(double z)
{
    double g = hazard(z);

    return g * (z + g);
}

static uint32_t
stock_at(double z, double a)
{
    double s = ceil(a + z * sqrt(a));

    if (!(s > 0)) {
        return 0;
    }
    return s < UINT32_MAX ? (uint32_t)s : UINT32_MAX;
}

static double
z_of(uint32_t s, double a)
{
    return ((double)s - a) / sqrt(a);
}

double
wp_stock_large_miss(enum wp_miss miss, uint32_t s, double a)
{
    if (a <= WP_STOCK_EXACT_MAX) {
        return wp_stock_miss(miss, s, a);
    }
    if (miss == WP_MISS_QUEUED) {
        return above(z_of(s, a));
    }
    return fmin(hazard(z_of(s, a)) / sqrt(a), 1);
}

double
wp_stock_large_idle(enum wp_miss miss, uint32_t s, double a)
{
    double z;

    if (a <= WP_STOCK_EXACT_MAX) {
        return wp_stock_idle(miss, s, a);
    }
    z = z_of(s, a);
    if (miss == WP_MISS_QUEUED) {
        return fmax(sqrt(a) * (z * below(z) + density(z)), 0);
    }
    return fmax(s - a * (1 - wp_stock_large_miss(miss, s, a)), 0);
}

uint32_t
wp_stock_large_for_hit_rate(enum wp_miss miss, double hit, double a)
{
    if (a <= WP_STOCK_EXACT_MAX) {
        return wp_stock_for_hit_rate(miss, hit, a);
    }
    if (miss == WP_MISS_QUEUED) {
        return stock_at(solve(above, 1 - hit), a);
    }
    /* Below the range the hazard is -z. */
    if ((1 - hit) * sqrt(a) > -Z_MIN) {
        return stock_at(-(1 - hit) * sqrt(a), a);
    }
    return stock_at(solve(hazard, (1 - hit) * sqrt(a)), a);
}

uint32_t
wp_stock_large_for_cost(enum wp_miss miss, double rate_per_s,
                        double miss_cost_s, double a)
{
    double saved = rate_per_s * miss_cost_s;

    if (a <= WP_STOCK_EXACT_MAX) {
        return wp_stock_for_cost(miss, rate_per_s, miss_cost_s, a);
    }
    if (miss == WP_MISS_QUEUED) {
        return saved <= 1 ? 0
                          : wp_stock_large_for_hit_rate(WP_MISS_LOST,
                                                        1 - 1 / saved, a);
    }
    return saved > 0 ? stock_at(solve(gain, a / (saved + a)), a) : 0;
}

uint32_t
wp_stock_large_for_dispersion(double hit, double a, double idc)
{
    if (a <= WP_STOCK_EXACT_MAX) {
        return wp_stock_for_dispersion(hit, a, idc);
    }
    return stock_at(solve(above, 1 - hit) * sqrt(fmax(idc, 1)), a);
}
