/* bench/harness/stats.h - figures of samples, as other harnesses define them. */
#ifndef WP_BENCH_HARNESS_STATS_H
#define WP_BENCH_HARNESS_STATS_H

#include <stdbool.h>
#include <stdint.h>

#include "pool/base/compiler.h"

void wp_stats_sort(double *values, uint64_t n);
/* Of sorted values; 0 when there are none. q from 0 to 1. */
/* The value at (n - 1) q, with what lies between two in proportion. */
double wp_stats_linear(const double *sorted, uint64_t n, double q);
/* The value that ceil(q n) of them do not exceed. */
double wp_stats_nearest(const double *sorted, uint64_t n, double q);
double wp_stats_mean(const double *values, uint64_t n);

/* Events per second, of sorted times in seconds. */
struct wp_stats_rate {
    uint64_t count;
    double duration_s; /* From the first to the last. */
    double overall;    /* count / duration. */
    double steady;     /* Without the first and last tenth of events. */
    double best_10s;   /* Of any window of that length. */
    double best_60s;
};
void wp_stats_rate(const double *sorted_s, uint64_t n,
                   struct wp_stats_rate *out);

/* How many times b is a: the medians' ratio, and where it lies with 95 %
 * confidence, by drawing both again and again. The same values give the same
 * answer. Empty or all 0: false. */
struct wp_stats_ratio {
    double ratio;
    double low;
    double high;
};
WP_MUST_CHECK bool wp_stats_ratio(const double *a, uint64_t n_a,
                                  const double *b, uint64_t n_b,
                                  struct wp_stats_ratio *out);
/* The same of values that belong together, by their place. */
WP_MUST_CHECK bool wp_stats_ratio_paired(const double *a, const double *b,
                                         uint64_t n,
                                         struct wp_stats_ratio *out);

#endif
