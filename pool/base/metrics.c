#include "pool/base/metrics.h"

#include <string.h>

#include "pool/base/clock.h"

/* How many threads were dealt a shard. */
static _Atomic(uint64_t) dealt;

unsigned
wp_metric_shard(void)
{
    static _Thread_local unsigned mine; /* Shard plus one; 0 is unset. */

    if (WP_UNLIKELY(mine == 0)) {
        mine = (unsigned)(atomic_fetch_add_explicit(&dealt, 1,
                                                    memory_order_relaxed) %
                          WP_METRIC_SHARDS) +
               1;
    }
    return mine - 1;
}

/* Shards that somebody may have written to; the rest holds zeros. A reader that
 * was told of a record by its thread sees that thread's shard, too. */
static unsigned
shards_used(void)
{
    uint64_t n = atomic_load_explicit(&dealt, memory_order_relaxed);

    return n < WP_METRIC_SHARDS ? (unsigned)n : WP_METRIC_SHARDS;
}

uint64_t
wp_counter_read(const struct wp_counter *counter)
{
    const unsigned used = shards_used();
    uint64_t sum = 0;

    for (unsigned i = 0; i < used; i++) {
        sum += atomic_load_explicit(&counter->shard[i].value,
                                    memory_order_relaxed);
    }
    return sum;
}

/* Buckets 0..3 are whole microseconds; above, the octave and the next two bits
 * of the duration in microseconds name the bucket. */
static unsigned
bucket_of(int64_t duration_ns)
{
    uint64_t us = duration_ns > 0 ? (uint64_t)duration_ns / 1000 : 0;
    unsigned octave;
    unsigned index;

    if (us < WP_HISTOGRAM_SUB) {
        return (unsigned)us;
    }
    octave = 63 - (unsigned)__builtin_clzll(us);
    index = (octave - 1) * WP_HISTOGRAM_SUB +
            (unsigned)((us >> (octave - 2)) & (WP_HISTOGRAM_SUB - 1));
    return index < WP_HISTOGRAM_BUCKETS ? index : WP_HISTOGRAM_BUCKETS - 1;
}

int64_t
wp_histogram_bound_ns(unsigned i)
{
    unsigned octave = i / WP_HISTOGRAM_SUB + 1;
    uint64_t step;

    if (i >= WP_HISTOGRAM_BUCKETS - 1) {
        return INT64_MAX;
    }
    if (i < WP_HISTOGRAM_SUB) {
        return (int64_t)(i + 1) * WP_NS_PER_US;
    }
    step = UINT64_C(1) << (octave - 2);
    return (int64_t)((UINT64_C(1) << octave) +
                     step * (i % WP_HISTOGRAM_SUB + 1)) *
           WP_NS_PER_US;
}

void
wp_histogram_record(struct wp_histogram *histogram, int64_t duration_ns)
{
    unsigned shard = wp_metric_shard();

    atomic_fetch_add_explicit(
        &histogram->shard[shard].bucket[bucket_of(duration_ns)], 1,
        memory_order_relaxed);
    if (duration_ns > 0) {
        atomic_fetch_add_explicit(&histogram->shard[shard].sum_ns,
                                  (uint64_t)duration_ns, memory_order_relaxed);
    }
}

void
wp_histogram_read(const struct wp_histogram *histogram,
                  struct wp_histogram_view *out)
{
    const unsigned used = shards_used();

    memset(out, 0, sizeof *out);
    for (unsigned s = 0; s < used; s++) {
        out->sum_ns += atomic_load_explicit(&histogram->shard[s].sum_ns,
                                            memory_order_relaxed);
        for (unsigned i = 0; i < WP_HISTOGRAM_BUCKETS; i++) {
            uint64_t n = atomic_load_explicit(&histogram->shard[s].bucket[i],
                                              memory_order_relaxed);
            out->bucket[i] += n;
            out->count += n;
        }
    }
}

int64_t
wp_histogram_quantile_ns(const struct wp_histogram_view *view, double q)
{
    double wanted = q * (double)view->count;
    uint64_t seen = 0;

    if (view->count == 0) {
        return 0;
    }
    for (unsigned i = 0; i < WP_HISTOGRAM_BUCKETS; i++) {
        seen += view->bucket[i];
        if ((double)seen >= wanted && seen > 0) {
            return wp_histogram_bound_ns(i);
        }
    }
    return wp_histogram_bound_ns(WP_HISTOGRAM_BUCKETS - 1);
}
