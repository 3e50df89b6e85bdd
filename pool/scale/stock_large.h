/* pool/scale/stock_large.h - the sizes of stock.h at a cost that does not grow.
 *
 * Up to WP_STOCK_EXACT_MAX claims expected in a lead time these are the exact
 * ones. Beyond, where the sums would take long and one more or less is nothing,
 * they are the normal form's: with z = (s - a) / sqrt(a) and g(z) the density
 * over the distribution, B(s, a) = g(z) / sqrt(a). Pure; any thread. */
#ifndef WP_POOL_SCALE_STOCK_LARGE_H
#define WP_POOL_SCALE_STOCK_LARGE_H

#include <stdint.h>

#include "pool/scale/stock.h"

enum {
    WP_STOCK_EXACT_MAX = 1000,
};

/* As wp_stock_miss, wp_stock_idle, wp_stock_for_hit_rate, wp_stock_for_cost and
 * wp_stock_for_dispersion. */
double wp_stock_large_miss(enum wp_miss miss, uint32_t s, double a);
double wp_stock_large_idle(enum wp_miss miss, uint32_t s, double a);
uint32_t wp_stock_large_for_hit_rate(enum wp_miss miss, double hit, double a);
uint32_t wp_stock_large_for_cost(enum wp_miss miss, double rate_per_s,
                                 double miss_cost_s, double a);
uint32_t wp_stock_large_for_dispersion(double hit, double a, double idc);

#endif
