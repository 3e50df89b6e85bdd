#include "bench/load/hist.h"

#include <math.h>
#include <string.h>

enum {
    SUB = 1 << WP_HIST_SUB_BITS
};
#define VALUE_MAX ((INT64_C(1) << (WP_HIST_OCTAVES + WP_HIST_SUB_BITS - 1)) - 1)

void
wp_hist_reset(struct wp_hist *hist)
{
    memset(hist, 0, sizeof(*hist));
    hist->min_ns = INT64_MAX;
}

/* Values below 1024 have a bucket each; above, the top ten bits after the
 * leading one choose it. */
static unsigned
bucket_of(int64_t value)
{
    unsigned log2;
    unsigned shift;

    if (value < SUB) {
        return (unsigned)value;
    }
    log2 = 63 - (unsigned)__builtin_clzll((unsigned long long)value);
    shift = log2 - WP_HIST_SUB_BITS;
    return ((shift + 1) << WP_HIST_SUB_BITS) +
           (unsigned)((value >> shift) & (SUB - 1));
}

int64_t
wp_hist_bound_ns(unsigned i)
{
    unsigned octave = i >> WP_HIST_SUB_BITS;
    int64_t low;

    if (octave == 0) {
        return (int64_t)i;
    }
    low = (int64_t)(i & (SUB - 1)) | SUB;
    return ((low + 1) << (octave - 1)) - 1;
}

void
wp_hist_record(struct wp_hist *hist, int64_t value_ns)
{
    if (value_ns < 0) {
        value_ns = 0;
    } else if (value_ns > VALUE_MAX) {
        value_ns = VALUE_MAX;
    }
    hist->count++;
    hist->bucket[bucket_of(value_ns)]++;
    if (value_ns < hist->min_ns) {
        hist->min_ns = value_ns;
    }
    if (value_ns > hist->max_ns) {
        hist->max_ns = value_ns;
    }
}

void
wp_hist_merge(struct wp_hist *into, const struct wp_hist *from)
{
    into->count += from->count;
    for (unsigned i = 0; i < WP_HIST_BUCKETS; i++) {
        into->bucket[i] += from->bucket[i];
    }
    if (from->min_ns < into->min_ns) {
        into->min_ns = from->min_ns;
    }
    if (from->max_ns > into->max_ns) {
        into->max_ns = from->max_ns;
    }
}

int64_t
wp_hist_quantile_ns(const struct wp_hist *hist, double q)
{
    uint64_t rank = (uint64_t)ceil(q * (double)hist->count);
    uint64_t below = 0;

    if (hist->count == 0) {
        return 0;
    }
    if (rank == 0) {
        return hist->min_ns;
    }
    for (unsigned i = 0; i < WP_HIST_BUCKETS; i++) {
        below += hist->bucket[i];
        if (below >= rank) {
            int64_t end = wp_hist_bound_ns(i);

            return end < hist->max_ns ? end : hist->max_ns;
        }
    }
    return hist->max_ns;
}
