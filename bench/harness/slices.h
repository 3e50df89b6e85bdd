/* bench/harness/slices.h - how a phase went over time, in 32 to 64 slices.
 *
 * Nobody knows beforehand how long a phase takes that ends after so many
 * claims. So slices begin short, and when there are too many, each two become
 * one. Latencies are kept to within 3 %: enough to draw, and to say how much a
 * figure moves. One thread. */
#ifndef WP_BENCH_HARNESS_SLICES_H
#define WP_BENCH_HARNESS_SLICES_H

#include <stdint.h>

enum {
    WP_SLICES_MAX = 64,
    WP_SLICE_SUB_BITS = 5,
    WP_SLICE_BUCKETS = 36 << WP_SLICE_SUB_BITS,
};

struct wp_slice {
    uint64_t due;
    uint64_t granted;
    uint64_t warm;
    uint64_t failed;
    uint32_t bucket[WP_SLICE_BUCKETS]; /* Claims' latency, by their answer. */
};

struct wp_slices {
    int64_t width_ns;
    uint32_t n; /* In use. */
    struct wp_slice slice[WP_SLICES_MAX];
};

void wp_slices_init(struct wp_slices *slices);
/* The slice of a time since the phase's start; negative ones are the first's.
 * Valid until the next call. */
struct wp_slice *wp_slices_at(struct wp_slices *slices, int64_t at_ns);
void wp_slice_record(struct wp_slice *slice, int64_t latency_ns);
/* Both may end up with wider slices. */
void wp_slices_merge(struct wp_slices *into, struct wp_slices *from);
/* Of its claims' latencies, in the middle of its bucket; 0 when empty. */
double wp_slice_quantile_ns(const struct wp_slice *slice, double q);

#endif
