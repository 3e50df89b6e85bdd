/* pool/scale/stock.h - how much stock a demand needs: theory.
 *
 * Stock is what is ready and warming together. With one sandbox ordered for
 * each that is claimed, the number warming is that of a queue with infinitely
 * many servers: Poisson with mean a = rate * mean lead time, whatever the law
 * of the lead time (Palm). Claims that find nothing ready either go elsewhere,
 * and are lost to the stock (Erlang's loss formula), or wait for the next
 * sandbox (the tail of the Poisson distribution).
 *
 * Up to WP_STOCK_EXACT_MAX claims expected in a lead time it is exact. Beyond,
 * where the sums would take long and one more or less is nothing, it is the
 * normal form: with z = (s - a) / sqrt(a) and g(z) the density over the
 * distribution, B(s, a) = g(z) / sqrt(a). So no call costs more than some
 * hundreds of steps.
 *
 * Pure functions; any thread. Arguments outside their range are the caller's
 * bug. */
#ifndef WP_POOL_SCALE_STOCK_H
#define WP_POOL_SCALE_STOCK_H

#include <stdint.h>

enum {
    WP_STOCK_EXACT_MAX = 1000,
};

enum wp_miss {
    WP_MISS_LOST,   /* Refused, or served from outside the pool. */
    WP_MISS_QUEUED, /* Waits for the next one that becomes ready. */
};

/* The share of claims that find nothing ready, with stock s and a claims
 * expected in one lead time (a >= 0). LOST: B(s, a) by the recursion
 * B(0) = 1, B(n) = a B(n-1) / (n + a B(n-1)). QUEUED: P(Poisson(a) >= s). To
 * 1e-9 where it is exact. */
double wp_stock_miss(enum wp_miss miss, uint32_t s, double a);
/* The mean number ready with stock s: s - a (1 - B) when misses are lost;
 * E[(s - N)+] when they queue. */
double wp_stock_idle(enum wp_miss miss, uint32_t s, double a);
/* The smallest stock whose misses are at most 1 - hit (0 < hit < 1). a = 0
 * needs none: 0. */
uint32_t wp_stock_for_hit_rate(enum wp_miss miss, double hit, double a);
/* The stock beyond which one more costs more than it saves (newsvendor): the
 * smallest s with
 *   rate * miss_cost_s * (miss(s) - miss(s+1)) <= idle(s+1) - idle(s). */
uint32_t wp_stock_for_cost(enum wp_miss miss, double rate_per_s,
                           double miss_cost_s, double a);
/* So many standard deviations above its mean a normal number is with a chance
 * of p, to 5e-4 (Hastings); 0 < p < 1. */
double wp_stock_deviations(double p);

#endif
