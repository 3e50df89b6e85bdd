/* pool/base/metrics.h - counters and histograms that cost a few nanoseconds.
 *
 * Each thread adds to its own shard with a relaxed atomic; a reader sums the
 * shards. Sums are exact once writers are quiet and monotone while they run. */
#ifndef WP_BASE_METRICS_H
#define WP_BASE_METRICS_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdint.h>

#include "pool/base/compiler.h"

enum {
    WP_METRIC_SHARDS = 8,
    /* Buckets of a histogram: four to an octave, from 1 us to over an hour. */
    WP_HISTOGRAM_SUB = 4,
    WP_HISTOGRAM_BUCKETS = 132,
};

struct wp_counter {
    struct {
        alignas(WP_CACHELINE) _Atomic(uint64_t) value;
    } shard[WP_METRIC_SHARDS];
};

struct wp_histogram {
    struct {
        alignas(WP_CACHELINE) _Atomic(uint64_t) sum_ns;
        _Atomic(uint64_t) bucket[WP_HISTOGRAM_BUCKETS];
    } shard[WP_METRIC_SHARDS];
};

struct wp_histogram_view {
    uint64_t count;
    uint64_t sum_ns;
    uint64_t bucket[WP_HISTOGRAM_BUCKETS];
};

/* This thread's shard: threads are dealt shards in turn. */
unsigned wp_metric_shard(void);

static inline void
wp_counter_add(struct wp_counter *counter, uint64_t n)
{
    atomic_fetch_add_explicit(&counter->shard[wp_metric_shard()].value, n,
                              memory_order_relaxed);
}
uint64_t wp_counter_read(const struct wp_counter *counter);

/* Negative durations count as 0. Any thread. */
void wp_histogram_record(struct wp_histogram *histogram, int64_t duration_ns);
void wp_histogram_read(const struct wp_histogram *histogram,
                       struct wp_histogram_view *out);
/* Upper bound of bucket i in nanoseconds; the last one is unbounded
 * (INT64_MAX). */
int64_t wp_histogram_bound_ns(unsigned i);
/* The upper bound of the bucket that holds quantile q (0..1); 0 when empty. */
int64_t wp_histogram_quantile_ns(const struct wp_histogram_view *view,
                                 double q);

#endif
