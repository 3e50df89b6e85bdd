/* allocator/advice/replay_parts.h - what the simulation is made of: a heap of
 * what will happen, draws of lead times, and a histogram of waits. Private to
 * replay*.c. */
#ifndef WP_ALLOCATOR_ADVICE_REPLAY_PARTS_H
#define WP_ALLOCATOR_ADVICE_REPLAY_PARTS_H

#include <stdbool.h>
#include <stdint.h>

#include "allocator/advice/replay.h"

/* Something due at at_ns, the earliest first; what is due together comes in an
 * order that depends on nothing but the calls made before. */
struct wp_replay_due {
    int64_t at_ns;
    int64_t what; /* The owner's. */
};
struct wp_replay_heap {
    struct wp_replay_due *due;
    uint32_t n;
    uint32_t cap;
};
/* WP_TIME_NEVER when there is none. */
int64_t wp_replay_heap_next_ns(const struct wp_replay_heap *heap);
/* False when memory lacks. */
WP_MUST_CHECK bool wp_replay_heap_push(struct wp_replay_heap *heap,
                                       int64_t at_ns, int64_t what);
/* There must be one. */
struct wp_replay_due wp_replay_heap_pop(struct wp_replay_heap *heap);
void wp_replay_heap_fini(struct wp_replay_heap *heap);

/* Normal deviates by Marsaglia's polar method, two at a time. */
struct wp_replay_draw {
    struct wp_rng rng;
    double spare;
    bool has_spare;
};
void wp_replay_draw_init(struct wp_replay_draw *draw, uint64_t seed);
/* Lognormal: the median is median_s. At least 0, at most a year. */
int64_t wp_replay_draw_lognormal_ns(struct wp_replay_draw *draw,
                                    double median_s, double sigma);
/* One lead time; *fails: it will not become ready. */
int64_t wp_replay_draw_lead_ns(struct wp_replay_draw *draw,
                               const struct wp_replay_lead *lead, bool *fails);

/* Waits of the claims that waited, to one in 64. */
enum {
    WP_REPLAY_WAIT_BINS = 64 * 64,
};
struct wp_replay_waits {
    uint64_t bins[WP_REPLAY_WAIT_BINS];
    uint64_t n;
};
void wp_replay_waits_add(struct wp_replay_waits *waits, int64_t wait_ns);
/* The wait that a share q of all claims did not exceed, `all` of them in sum:
 * those that are not in waits did not wait. */
double wp_replay_waits_quantile_s(const struct wp_replay_waits *waits,
                                  uint64_t all, double q);

#endif
