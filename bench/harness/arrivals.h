/* bench/harness/arrivals.h - when claims are due.
 *
 * Times are nanoseconds from the phase's start, never back. Each thread makes
 * the whole sequence for itself and takes every n-th of it: nothing is shared,
 * and the same plan is the same load on any number of threads. One thread. */
#ifndef WP_BENCH_HARNESS_ARRIVALS_H
#define WP_BENCH_HARNESS_ARRIVALS_H

#include "bench/harness/plan.h"
#include "pool/base/rng.h"

/* A record's times, read once and shared. */
struct wp_arrival_times {
    int64_t *at_ns; /* Owned. */
    uint64_t n;
};

/* From a CSV of claim times; the first is 0. speed > 0. INVALID_ARGUMENT: err
 * names the line. */
WP_MUST_CHECK enum wp_status wp_arrival_times_read(const char *path,
                                                   double speed,
                                                   struct wp_arrival_times *out,
                                                   struct wp_err *err);
/* The same of bytes in memory. */
WP_MUST_CHECK enum wp_status
wp_arrival_times_parse(struct wp_str text, double speed,
                       struct wp_arrival_times *out, struct wp_err *err);
void wp_arrival_times_fini(struct wp_arrival_times *times);

struct wp_arrivals {
    enum wp_arrivals_kind kind;
    double rate_per_s;
    uint32_t burst;
    int64_t every_ns;
    const struct wp_arrival_times *times; /* Borrowed; csv only. */
    struct wp_rng rng;
    double at_s;   /* Poisson: of the arrival before. */
    uint64_t next; /* Of the whole sequence. */
    uint32_t share;
    uint32_t shares;
};

/* This thread's share, counted from 0. kind is an open one. */
void wp_arrivals_init(struct wp_arrivals *arrivals, const struct wp_plan *plan,
                      const struct wp_arrival_times *times, uint32_t share,
                      uint32_t shares);
/* WP_TIME_NEVER when there are no more; else *number is its place in the whole
 * sequence, from 0. */
int64_t wp_arrivals_next(struct wp_arrivals *arrivals, uint64_t *number);

#endif
