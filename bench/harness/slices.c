#include "bench/harness/slices.h"

#include <math.h>
#include <string.h>

#include "pool/base/clock.h"

enum {
    SUB = 1 << WP_SLICE_SUB_BITS,
};

void
wp_slices_init(struct wp_slices *slices)
{
    memset(slices, 0, sizeof *slices);
    slices->width_ns = WP_NS_PER_MS;
}

static void
add(struct wp_slice *into, const struct wp_slice *from)
{
    into->due += from->due;
    into->granted += from->granted;
    into->warm += from->warm;
    into->failed += from->failed;
    for (unsigned i = 0; i < WP_SLICE_BUCKETS; i++) {
        into->bucket[i] += from->bucket[i];
    }
}

/* Each two become one. */
static void
widen(struct wp_slices *slices)
{
    for (uint32_t i = 0; i < WP_SLICES_MAX / 2; i++) {
        struct wp_slice *into = &slices->slice[i];

        if (2 * i >= slices->n) {
            break;
        }
        if (i > 0) {
            *into = slices->slice[2 * i];
        }
        if (2 * i + 1 < slices->n) {
            add(into, &slices->slice[2 * i + 1]);
        }
    }
    slices->n = (slices->n + 1) / 2;
    memset(&slices->slice[slices->n], 0,
           (WP_SLICES_MAX - slices->n) * sizeof slices->slice[0]);
    slices->width_ns *= 2;
}

struct wp_slice *
wp_slices_at(struct wp_slices *slices, int64_t at_ns)
{
    int64_t i;

    if (at_ns < 0) {
        at_ns = 0;
    }
    while (at_ns / slices->width_ns >= WP_SLICES_MAX) {
        widen(slices);
    }
    i = at_ns / slices->width_ns;
    if (i >= slices->n) {
        slices->n = (uint32_t)i + 1;
    }
    return &slices->slice[i];
}

void
wp_slice_record(struct wp_slice *slice, int64_t latency_ns)
{
    uint64_t value = latency_ns > 0 ? (uint64_t)latency_ns : 0;
    unsigned i;

    if (value < SUB) {
        i = (unsigned)value;
    } else {
        unsigned shift =
            63 - WP_SLICE_SUB_BITS - (unsigned)__builtin_clzll(value);

        i = ((shift + 1) << WP_SLICE_SUB_BITS) +
            (unsigned)((value >> shift) & (SUB - 1));
    }
    slice->bucket[i < WP_SLICE_BUCKETS ? i : WP_SLICE_BUCKETS - 1]++;
}

void
wp_slices_merge(struct wp_slices *into, struct wp_slices *from)
{
    while (into->width_ns < from->width_ns) {
        widen(into);
    }
    while (from->width_ns < into->width_ns) {
        widen(from);
    }
    for (uint32_t i = 0; i < from->n; i++) {
        add(&into->slice[i], &from->slice[i]);
    }
    into->n = from->n > into->n ? from->n : into->n;
}

double
wp_slice_quantile_ns(const struct wp_slice *slice, double q)
{
    uint64_t total = 0;
    uint64_t below = 0;
    uint64_t rank;

    for (unsigned i = 0; i < WP_SLICE_BUCKETS; i++) {
        total += slice->bucket[i];
    }
    rank = (uint64_t)ceil(q * (double)total);
    rank = rank == 0 ? 1 : rank;
    for (unsigned i = 0; i < WP_SLICE_BUCKETS && total > 0; i++) {
        below += slice->bucket[i];
        if (below >= rank) {
            unsigned octave = i >> WP_SLICE_SUB_BITS;
            unsigned shift = octave > 0 ? octave - 1 : 0;
            double low =
                octave == 0
                    ? (double)i
                    : (double)((uint64_t)((i & (SUB - 1)) | SUB) << shift);

            return low + (double)(UINT64_C(1) << shift) / 2 - 0.5;
        }
    }
    return 0;
}
