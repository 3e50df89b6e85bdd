/* bench/scaling/trace_recipe.h - traces made from a seed.
 *
 * One table: a row is a recipe with its parameters, its length and how much of
 * its beginning is not measured. The same seed gives the same trace
 * everywhere. */
#ifndef WP_BENCH_SCALING_TRACE_RECIPE_H
#define WP_BENCH_SCALING_TRACE_RECIPE_H

#include "bench/scaling/trace.h"
#include "bench/scaling/trace_azure.h"

enum wp_trace_kind {
    WP_TRACE_POISSON,
    WP_TRACE_DIURNAL,
    WP_TRACE_MMPP,
    WP_TRACE_FAN_OUT,
    WP_TRACE_FLASH,
    WP_TRACE_RL,
    WP_TRACE_TENANTS,
    WP_TRACE_RECURRING, /* Batches on a background. */
    WP_TRACE_OFFICE,    /* Monday to Friday, 8 to 18 h: ratio times as much. */
    WP_TRACE_READ, /* From a file; the seed puts calls within their minutes. */
};

enum {
    /* Recurrences of a batch after which it counts as known. */
    WP_TRACE_KNOWN_AFTER = 3,
};

struct wp_trace_recipe {
    const char *name;
    const char *title;    /* For people. */
    const char *sentence; /* Who claims like that. */
    enum wp_trace_kind kind;
    double length_s;
    double warm_up_s;  /* Not measured. */
    double rate_per_s; /* Claims; of jobs: FAN_OUT, RL; outside bursts: MMPP,
                        * FLASH, RECURRING. */
    double ratio;      /* Of the rate in a burst: MMPP, FLASH. Of the rate at
                        * the end, reached evenly: RECURRING; 0: none. */
    double on_s;       /* Mean length of a burst: MMPP, FLASH exactly. */
    double off_s;      /* Mean time between: MMPP, FLASH. From one beginning to
                        * the next: RECURRING; 0: no batches. */
    double jitter;     /* RECURRING: 0 on the clock, 1 memoryless. */
    bool steep;        /* RECURRING: most of a batch comes at its beginning. */
    bool regular;      /* RECURRING: the background comes evenly spaced. */
    const char *path;  /* READ. */
    const char *app;   /* READ; NULL: all. */
    enum wp_azure_format format; /* READ. */
    uint32_t batch; /* Most claims of a job: FAN_OUT; problems: RL; claims of
                     * each: RECURRING. */
};

/* NULL beyond the last. */
const struct wp_trace_recipe *wp_trace_recipe_at(unsigned i);
/* By its name; NULL: unknown. */
const struct wp_trace_recipe *wp_trace_recipe_named(const char *name);
/* False when memory lacks, or a file cannot be read; call its fini in any
 * case. */
WP_MUST_CHECK bool wp_trace_recipe_make(const struct wp_trace_recipe *recipe,
                                        uint64_t seed, struct wp_trace *out);

#endif
