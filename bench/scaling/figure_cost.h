/* bench/scaling/figure_cost.h - what a decision costs, in processor time of the thread,
 * so that a busy machine does not count. */
#ifndef WP_BENCH_SCALING_FIGURE_COST_H
#define WP_BENCH_SCALING_FIGURE_COST_H

#include <stdint.h>

#include "pool/base/compiler.h"

/* Mean nanoseconds to tell a scaler of 10 ms of claims at that rate and to ask
 * it for its decision; negative when memory lacks. */
double wp_figure_decision_ns(double rate_per_s);
/* The share of a core that so many pools take, each with rate_per_s claims, all
 * of them asked after their claims and when they say; negative when memory
 * lacks. */
double wp_figure_pools_share(uint32_t pools, double rate_per_s);

#endif
