#include "allocator/advice/replay_parts.h"

#include <math.h>
#include <stdlib.h>

#include "pool/base/assert.h"
#include "pool/base/clock.h"
#include "pool/base/extreme.h"

/* Four children to a node: as many compares as a binary heap has, half of its
 * cache misses. */
enum {
    ARITY = 4,
    HEAP_CAP_MIN = 64,
};

int64_t
wp_replay_heap_next_ns(const struct wp_replay_heap *heap)
{
    return heap->n == 0 ? WP_TIME_NEVER : heap->due[0].at_ns;
}

bool
wp_replay_heap_push(struct wp_replay_heap *heap, int64_t at_ns, int64_t what)
{
    uint32_t i = heap->n;

    if (heap->n == heap->cap) {
        uint32_t cap = heap->cap == 0 ? HEAP_CAP_MIN : 2 * heap->cap;
        struct wp_replay_due *due;

        if (cap < heap->cap) {
            return false;
        }
        due = realloc(heap->due, cap * sizeof(*due));
        if (due == NULL) {
            return false;
        }
        heap->due = due;
        heap->cap = cap;
    }
    heap->n++;
    while (i > 0 && heap->due[(i - 1) / ARITY].at_ns > at_ns) {
        heap->due[i] = heap->due[(i - 1) / ARITY];
        i = (i - 1) / ARITY;
    }
    heap->due[i] = (struct wp_replay_due){at_ns, what};
    return true;
}

struct wp_replay_due
wp_replay_heap_pop(struct wp_replay_heap *heap)
{
    struct wp_replay_due top;
    struct wp_replay_due last;
    uint32_t i = 0;

    WP_ASSERT(heap->n > 0);
    top = heap->due[0];
    last = heap->due[--heap->n];
    for (;;) {
        uint32_t child = ARITY * i + 1;
        uint32_t least = child;

        if (child >= heap->n) {
            break;
        }
        for (uint32_t k = child + 1; k < child + ARITY && k < heap->n; k++) {
            if (heap->due[k].at_ns < heap->due[least].at_ns) {
                least = k;
            }
        }
        if (heap->due[least].at_ns >= last.at_ns) {
            break;
        }
        heap->due[i] = heap->due[least];
        i = least;
    }
    heap->due[i] = last;
    return top;
}

void
wp_replay_heap_fini(struct wp_replay_heap *heap)
{
    free(heap->due);
    *heap = (struct wp_replay_heap){0};
}

void
wp_replay_draw_init(struct wp_replay_draw *draw, uint64_t seed)
{
    *draw = (struct wp_replay_draw){.has_spare = false};
    wp_rng_init(&draw->rng, seed);
}

static double
draw_normal(struct wp_replay_draw *draw)
{
    double x;
    double y;
    double r2;
    double scale;

    if (draw->has_spare) {
        draw->has_spare = false;
        return draw->spare;
    }
    do {
        x = 2 * wp_rng_unit(&draw->rng) - 1;
        y = 2 * wp_rng_unit(&draw->rng) - 1;
        r2 = x * x + y * y;
    } while (r2 >= 1 || r2 == 0);
    scale = sqrt(-2 * log(r2) / r2);
    draw->spare = y * scale;
    draw->has_spare = true;
    return x * scale;
}

static int64_t
ns_of(double s)
{
    const double year_s = 365.0 * 86400;

    return (int64_t)(fmin(fmax(s, 0), year_s) * (double)WP_NS_PER_S);
}

int64_t
wp_replay_draw_lognormal_ns(struct wp_replay_draw *draw, double median_s,
                            double sigma)
{
    return ns_of(sigma > 0 ? median_s * exp(sigma * draw_normal(draw))
                           : median_s);
}

int64_t
wp_replay_draw_lead_ns(struct wp_replay_draw *draw,
                       const struct wp_replay_lead *lead, bool *fails)
{
    int64_t lead_ns;

    if (lead->n_measured > 0) {
        lead_ns = lead->measured_ns[wp_rng_below(&draw->rng, lead->n_measured)];
        lead_ns = lead_ns < 0 ? 0 : lead_ns;
    } else {
        lead_ns =
            wp_replay_draw_lognormal_ns(draw, lead->median_s, lead->sigma);
    }
    if (lead->slow_share > 0 && wp_rng_unit(&draw->rng) < lead->slow_share) {
        lead_ns = wp_time_add(lead_ns, ns_of(lead->slow_extra_s));
    }
    *fails = lead->fail_share > 0 && wp_rng_unit(&draw->rng) < lead->fail_share;
    return lead_ns;
}

double
wp_replay_lead_mean_s(const struct wp_replay_lead *lead)
{
    double mean_s = 0;

    for (uint32_t i = 0; i < lead->n_measured; i++) {
        mean_s += fmax(0, (double)lead->measured_ns[i]) / (double)WP_NS_PER_S /
                  lead->n_measured;
    }
    if (lead->n_measured == 0) {
        mean_s = lead->median_s * exp(lead->sigma * lead->sigma / 2);
    }
    mean_s += lead->slow_share * lead->slow_extra_s;
    return lead->fail_share >= 1 ? HUGE_VAL : mean_s / (1 - lead->fail_share);
}

/* Below 64 us each microsecond has a bin; above, each octave has 64 of equal
 * width. */
static uint32_t
wait_bin(int64_t wait_ns)
{
    uint64_t us = (uint64_t)(wait_ns < 0 ? 0 : wait_ns) / 1000;
    uint32_t octave = 0;
    uint32_t bin;

    while ((us >> octave) >= 128) {
        octave++;
    }
    bin = us < 64 ? (uint32_t)us
                  : 64 * (octave + 1) + (uint32_t)(us >> octave) - 64;
    return wp_min_u32(bin, WP_REPLAY_WAIT_BINS - 1);
}

/* The middle of what the bin holds. */
static double
wait_of_bin_s(uint32_t bin)
{
    uint32_t octave = bin < 64 ? 0 : bin / 64 - 1;
    double width = ldexp(1, (int)octave);
    double from = bin < 64 ? bin : ldexp(64 + bin % 64, (int)octave);

    return (from + width / 2) * 1e-6;
}

void
wp_replay_waits_add(struct wp_replay_waits *waits, int64_t wait_ns)
{
    waits->bins[wait_bin(wait_ns)]++;
    waits->n++;
}

double
wp_replay_waits_quantile_s(const struct wp_replay_waits *waits, uint64_t all,
                           double q)
{
    double rank = q * (double)all;
    double seen = (double)(all - waits->n);

    WP_ASSERT(waits->n <= all);
    if (seen >= rank) {
        return 0;
    }
    for (uint32_t bin = 0; bin < WP_REPLAY_WAIT_BINS; bin++) {
        seen += (double)waits->bins[bin];
        if (seen >= rank) {
            return wait_of_bin_s(bin);
        }
    }
    return wait_of_bin_s(WP_REPLAY_WAIT_BINS - 1);
}
