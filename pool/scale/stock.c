#include "pool/scale/stock.h"

#include <math.h>
#include <stdbool.h>

#include "pool/base/assert.h"

/* Sums stop where what is left could not change the last digits. */
static const double NEGLIGIBLE = 1e-16;

/* Beyond these nothing of a normal tail is left in a double. */
static const double Z_MIN = -37;
static const double Z_MAX = 37;

/* --- Exactly --- */

/* P(N = s) of a Poisson number with mean a > 0. Numbers of up to 1e4 are
 * subtracted where it is not negligible: so it is true to 1e-11. */
static double
poisson_at(uint32_t s, double a)
{
    int sign;

    return exp(s * log(a) - a - lgamma_r(s + 1.0, &sign));
}

/* P(N >= s), s >= a: terms that fall from the first on. */
static double
poisson_tail_above(uint32_t s, double a)
{
    double term = 1;
    double sum = 1;
    double k = s;

    while (term > NEGLIGIBLE * sum) {
        k += 1;
        term *= a / k;
        sum += term;
    }
    return poisson_at(s, a) * sum;
}

/* P(N <= s) / P(N = s): 1 + s/a + s(s-1)/a^2 + ..., s <= a. This is also
 * 1 / B(s, a). */
static double
below_over_at(uint32_t s, double a)
{
    double term = 1;
    double sum = 1;
    double k = s;

    while (term > NEGLIGIBLE * sum) { /* After s terms it is 0. */
        term *= k / a;
        sum += term;
        k -= 1;
    }
    return sum;
}

static double
poisson_tail(uint32_t s, double a)
{
    if (s == 0) {
        return 1;
    }
    if (s >= a) {
        return poisson_tail_above(s, a);
    }
    return 1 - poisson_at(s - 1, a) * below_over_at(s - 1, a);
}

/* B(s, a) = P(N = s) / P(N <= s). */
static double
erlang_b(uint32_t s, double a)
{
    if (s <= a) {
        return 1 / below_over_at(s, a);
    }
    return poisson_at(s, a) /
           (1 - (s == UINT32_MAX ? 0 : poisson_tail(s + 1, a)));
}

/* --- By the normal form --- */

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

static double
above(double z)
{
    return below(-z);
}

/* Density over distribution: falls from about -z to 0. */
static double
hazard(double z)
{
    return z < Z_MIN ? -z : density(z) / below(z);
}

/* a (B(s) - B(s + 1)): the derivative of the hazard, its sign turned. */
static double
gain(double z)
{
    double g = hazard(z);

    return g * (z + g);
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

static uint32_t
stock_at(double z, double a)
{
    return (uint32_t)fmin(fmax(ceil(a + z * sqrt(a)), 0), UINT32_MAX);
}

double
wp_stock_deviations(double p)
{
    double tail = fmin(fmax(fmin(p, 1 - p), 1e-300), 0.5);
    double t = sqrt(-2 * log(tail));
    double z = t - (2.515517 + t * (0.802853 + t * 0.010328)) /
                       (1 + t * (1.432788 + t * (0.189269 + t * 0.001308)));

    return p < 0.5 ? z : -z;
}

/* --- Either --- */

double
wp_stock_miss(enum wp_miss miss, uint32_t s, double a)
{
    double z;

    WP_ASSERT(a >= 0 && isfinite(a));
    if (s == 0) {
        return 1;
    }
    if (a == 0) {
        return 0;
    }
    if (a <= WP_STOCK_EXACT_MAX) {
        return miss == WP_MISS_LOST ? erlang_b(s, a) : poisson_tail(s, a);
    }
    z = (s - a) / sqrt(a);
    return miss == WP_MISS_LOST ? fmin(hazard(z) / sqrt(a), 1) : above(z);
}

double
wp_stock_idle(enum wp_miss miss, uint32_t s, double a)
{
    double idle;

    WP_ASSERT(a >= 0 && isfinite(a));
    if (s == 0 || a == 0) {
        return s;
    }
    if (miss == WP_MISS_LOST) {
        idle = s - a * (1 - wp_stock_miss(WP_MISS_LOST, s, a));
    } else if (a <= WP_STOCK_EXACT_MAX) {
        /* E[(s - N)+] = (s - a) P(N <= s - 1) + s P(N = s). */
        idle = (s - a) * (1 - poisson_tail(s, a)) + s * poisson_at(s, a);
    } else {
        double z = (s - a) / sqrt(a);

        idle = sqrt(a) * (z * below(z) + density(z));
    }
    return idle > 0 ? idle : 0;
}

/* A walk by the recursion is only exact upwards: steps back until the goal is
 * behind. */
static uint32_t
step_back(uint32_t s, double *step)
{
    uint32_t back = (uint32_t)fmin(*step, s);

    *step *= 4;
    return s - back;
}

/* B(s + 1, a), with b = B(s, a). */
static double
erlang_next(uint32_t s, double b, double a)
{
    return a * b / (s + 1.0 + a * b);
}

/* Falls with s either way, since B is convex. */
static double
erlang_value(uint32_t s, double b, double a, bool of_gain)
{
    return of_gain ? b - erlang_next(s, b, a) : b;
}

/* The smallest s with B(s, a) <= bound, or, of_gain, with B(s, a) - B(s + 1, a)
 * <= bound; near s. */
static uint32_t
erlang_for(double bound, bool of_gain, double a, uint32_t s)
{
    double step = 1 + sqrt(a) / 16;
    double b = erlang_b(s, a);

    while (s > 0 && erlang_value(s, b, a, of_gain) <= bound) {
        s = step_back(s, &step);
        b = erlang_b(s, a);
    }
    while (erlang_value(s, b, a, of_gain) > bound && s < UINT32_MAX) {
        b = erlang_next(s, b, a);
        s++;
    }
    return s;
}

static uint32_t
lost_for(double miss, double a)
{
    if (a <= WP_STOCK_EXACT_MAX) {
        return erlang_for(miss, false, a,
                          stock_at(wp_stock_deviations(miss), a));
    }
    /* Below the range the hazard is -z. */
    if (miss * sqrt(a) > -Z_MIN) {
        return stock_at(-miss * sqrt(a), a);
    }
    return stock_at(solve(hazard, miss * sqrt(a)), a);
}

/* The smallest s with P(N >= s) <= miss. */
static uint32_t
queued_for(double miss, double a)
{
    double z = wp_stock_deviations(miss);
    double step = 1 + sqrt(a) / 16;
    uint32_t s;
    double tail;
    double at;

    if (a > WP_STOCK_EXACT_MAX) {
        return stock_at(solve(above, miss), a);
    }
    s = stock_at(z + z * z / 6 / sqrt(a), a);
    tail = poisson_tail(s, a);
    while (s > 0 && tail <= miss) {
        s = step_back(s, &step);
        tail = poisson_tail(s, a);
    }
    at = poisson_at(s, a);
    while (tail > miss && s < UINT32_MAX) {
        tail -= at; /* P(N >= s + 1) */
        s++;
        at *= a / s;
    }
    return s;
}

uint32_t
wp_stock_for_hit_rate(enum wp_miss miss, double hit, double a)
{
    WP_ASSERT(hit > 0 && hit < 1 && a >= 0 && isfinite(a));
    if (a == 0) {
        return 0;
    }
    return miss == WP_MISS_LOST ? lost_for(1 - hit, a) : queued_for(1 - hit, a);
}

uint32_t
wp_stock_for_cost(enum wp_miss miss, double rate_per_s, double miss_cost_s,
                  double a)
{
    double saved = rate_per_s * miss_cost_s; /* By serving all, in a second. */
    uint32_t s;

    WP_ASSERT(saved >= 0 && a >= 0 && isfinite(a) && isfinite(saved));
    if (a == 0 || saved == 0) {
        return 0;
    }
    if (miss == WP_MISS_QUEUED) {
        /* saved P(N = s) <= P(N <= s): the same as B(s, a) <= 1 / saved. */
        return saved <= 1 ? 0 : lost_for(1 / saved, a);
    }
    /* idle(s+1) - idle(s) = 1 - a (B(s) - B(s+1)). */
    s = stock_at(solve(gain, a / (saved + a)), a);
    return a <= WP_STOCK_EXACT_MAX ? erlang_for(1 / (saved + a), true, a, s)
                                   : s;
}
