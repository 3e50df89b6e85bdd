/* bench/load/hist.h - latencies of one run, kept to within 0.1 %.
 *
 * Log-linear buckets, 1024 to an octave, so three digits count, from 1 ns to 18 minutes; the smallest and
 * largest value are exact. Not thread-safe. About 250 KiB. */
#ifndef WP_BENCH_LOAD_HIST_H
#define WP_BENCH_LOAD_HIST_H

#include <stdint.h>

enum {
    WP_HIST_SUB_BITS = 10,
    WP_HIST_OCTAVES = 31, /* Of 1024 buckets each; the last value is 2^40 ns. */
    WP_HIST_BUCKETS = WP_HIST_OCTAVES << WP_HIST_SUB_BITS,
};

struct wp_hist {
    uint64_t count;
    int64_t min_ns;
    int64_t max_ns;
    uint64_t bucket[WP_HIST_BUCKETS];
};

void wp_hist_reset(struct wp_hist *hist);
/* Negative values count as 0, larger than the range as its end. */
void wp_hist_record(struct wp_hist *hist, int64_t value_ns);
void wp_hist_merge(struct wp_hist *into, const struct wp_hist *from);
/* The value that share q (0..1) of the samples do not exceed, rounded up to its
 * bucket's end but never above the maximum; 0 when empty. */
int64_t wp_hist_quantile_ns(const struct wp_hist *hist, double q);
/* The largest value of bucket i. */
int64_t wp_hist_bound_ns(unsigned i);

#endif
