/* pool/scale/capacity.h - how much stock a demand needs where only so many
 * sandboxes can be made at once.
 *
 * As stock.h, but at most c of the orders are being made; the others wait their
 * turn. The number on order is then that of a queue with c servers: it is not
 * bounded by what comes in one lead time, and grows for ever where a, the
 * claims of one lead time, is c or more. Times to make one are taken as
 * exponential, which is on the safe side of those that vary less.
 *
 * Pure functions; any thread. a > 0, c >= 1. The cost does not grow with s. */
#ifndef WP_POOL_SCALE_CAPACITY_H
#define WP_POOL_SCALE_CAPACITY_H

#include <stdbool.h>
#include <stdint.h>

#include "pool/scale/stock.h"

/* Does it make a difference that only c are made at once? Where it does not,
 * the functions of stock.h say the same. */
bool wp_capacity_binds(double a, uint32_t c);
/* The share of claims that find nothing ready with stock s. a >= c: in the long
 * run. */
double wp_capacity_miss(enum wp_miss miss, uint32_t s, double a, uint32_t c);
/* The mean number ready. */
double wp_capacity_idle(enum wp_miss miss, uint32_t s, double a, uint32_t c);
/* The smallest stock whose misses are at most 1 - hit; a < c. */
uint32_t wp_capacity_for_hit_rate(enum wp_miss miss, double hit, double a,
                                  uint32_t c);

#endif
