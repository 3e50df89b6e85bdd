#include "pool/scale/capacity.h"

#include <math.h>

/* So many standard deviations above the mean nothing queues that counts. */
static const double FAR = 6;
/* Powers beyond e to this are cut: what they multiply is nothing by then. */
static const double LOG_MAX = 600;

bool
wp_capacity_binds(double a, uint32_t c)
{
    return c < a + FAR * (sqrt(a) + 1);
}

/* r^k. */
static double
power(double r, double k)
{
    return exp(fmin(k * log(r), LOG_MAX));
}

/* 1 / B(s) for s = c + k: each more in the queue makes it 1 + r times the one
 * before, with r = c / a. x is that for s = c. */
static double
inverse_lost(double x, double r, double k)
{
    if (fabs(r - 1) < 1e-9) {
        return x + k;
    }
    return power(r, k) * (x + 1 / (r - 1)) - 1 / (r - 1);
}

/* P(N >= c), Erlang's C. */
static double
all_busy(double a, uint32_t c)
{
    double b = wp_stock_miss(WP_MISS_LOST, c, a);
    double load = a / c;

    return load < 1 ? b / (1 - load + load * b) : 1;
}

/* What the number on order below c is rarer than without the bound. */
static double
rarer(double a, uint32_t c)
{
    double load = a / c;
    double b = wp_stock_miss(WP_MISS_LOST, c, a);

    return (1 - wp_stock_miss(WP_MISS_QUEUED, c + 1, a)) *
           (1 + b * load / (1 - load));
}

double
wp_capacity_miss(enum wp_miss miss, uint32_t s, double a, uint32_t c)
{
    double k = (double)s - c;
    double below;

    if (miss == WP_MISS_LOST) {
        double b = wp_stock_miss(WP_MISS_LOST, s < c ? s : c, a);

        return s <= c ? b : 1 / inverse_lost(1 / b, c / a, k);
    }
    if (a >= c) {
        return 1;
    }
    if (s >= c) {
        return all_busy(a, c) * power(a / c, k);
    }
    below = 1 - wp_stock_miss(WP_MISS_QUEUED, s, a);
    return fmin(fmax(1 - below / rarer(a, c), 0), 1);
}

/* The mean number that wait to be made, when misses are lost: the sum of
 * j P(N = c + j), where each P is r times the next one's. */
static double
waiting_lost(double r, double missed, double k)
{
    if (fabs(r - 1) < 1e-9) {
        return missed * k * (k + 1) / 2;
    }
    return missed * (r * (power(r, k) - 1) / (r - 1) - k) / (r - 1);
}

double
wp_capacity_idle(enum wp_miss miss, uint32_t s, double a, uint32_t c)
{
    double k = (double)s - c;
    double load = a / c;

    if (miss == WP_MISS_LOST) {
        double missed = wp_capacity_miss(miss, s, a, c);
        double wait = s > c ? waiting_lost(1 / load, missed, k) : 0;

        return fmax(s - a * (1 - missed) - wait, 0);
    }
    if (load >= 1) {
        return 0;
    }
    if (s < c) {
        return wp_stock_idle(miss, s, a) / rarer(a, c);
    }
    return fmax(
        s - a - all_busy(a, c) * load * (1 - power(load, k)) / (1 - load), 0);
}

static uint32_t
beyond(uint32_t c, double k)
{
    double s = c + ceil(fmax(k, 0));

    return s < UINT32_MAX ? (uint32_t)s : UINT32_MAX;
}

uint32_t
wp_capacity_for_hit_rate(enum wp_miss miss, double hit, double a, uint32_t c)
{
    double missed = 1 - hit;
    double r = c / a;
    double b;

    if (miss == WP_MISS_QUEUED) {
        double busy = all_busy(a, c);
        double plain = 1 - hit * rarer(a, c);

        if (busy > missed) {
            return beyond(c, log(missed / busy) / -log(r));
        }
        return plain > 0 ? wp_stock_for_hit_rate(miss, 1 - plain, a) : c;
    }
    b = wp_stock_miss(WP_MISS_LOST, c, a);
    if (b <= missed) {
        return wp_stock_for_hit_rate(miss, hit, a);
    }
    return beyond(c, log((1 / missed + 1 / (r - 1)) / (1 / b + 1 / (r - 1))) /
                         log(r));
}
