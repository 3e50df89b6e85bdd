/* bench/scaling/figure.h - one policy in one world, over many seeds, with an interval.
 *
 * A world is a recipe of claims and a regime of lead times. A contender is a
 * sizing policy with its parameter. Each seed makes its own claims and lead
 * times; all contenders of a world see the same ones. */
#ifndef WP_BENCH_SCALING_FIGURE_H
#define WP_BENCH_SCALING_FIGURE_H

#include "bench/scaling/lead_regime.h"
#include "bench/scaling/trace_recipe.h"
#include "bench/scaling/baseline.h"

enum {
    WP_FIGURE_SEEDS_MAX = 64,
};

struct wp_figure_world {
    const struct wp_trace_recipe *recipe;
    const struct wp_lead_regime *regime;
};

struct wp_figure_contender {
    bool ours;
    double objective; /* Of ours: the share of hits. */
    bool announced;   /* Jobs announce what they will claim. */
    bool state_told;  /* Of neither: a outside jobs, b while one lasts. */
    enum wp_baseline baseline; /* Of others. */
    double a;
    double b;
    uint32_t min;
    uint32_t max; /* 0: none. */
};

/* Mean and half of the 95 % interval (Student's t) over the seeds. */
struct wp_figure_mean {
    double mean;
    double half;
};

struct wp_figure_result {
    struct wp_figure_mean hit;     /* Share. */
    struct wp_figure_mean outlook; /* Of ours: the share it expected. */
    struct wp_figure_mean idle;    /* Mean number ready. */
    struct wp_figure_mean warming; /* Mean number in the making. */
    struct wp_figure_mean made;    /* For each claim. */
    struct wp_figure_mean wait_p999_s;
    struct wp_figure_mean unused;     /* Share of those created. */
    double claims;                    /* In all, measured. */
    uint32_t over_target_max;         /* Over all seeds; must be 0. */
    double hits[WP_FIGURE_SEEDS_MAX]; /* Seed by seed, to be paired. */
    double idles[WP_FIGURE_SEEDS_MAX];
};

struct wp_figure_settings {
    unsigned seeds;
    uint64_t first_seed;
    unsigned jobs;  /* Threads. */
    double shorten; /* Lengths are divided by it. */
    bool coarse;    /* Searches are to a tenth, on the first seed. */
    /* Measured from and until these shares of a trace, to tune on one part and
     * judge by another; until 0: as the recipe says. */
    double from;
    double until;
};

/* Runs each contender in the world; results[n]. False when memory lacks, or a
 * run failed. Deterministic, however many jobs. */
WP_MUST_CHECK bool wp_figure_run(const struct wp_figure_settings *settings,
                                 const struct wp_figure_world *world,
                                 const struct wp_figure_contender *contenders,
                                 unsigned n, struct wp_figure_result *results);

/* "warmpool 99.9 %", "agones-buffer 20". */
void wp_figure_contender_name(const struct wp_figure_contender *contender,
                              char *out, size_t cap);

/* n values' mean and interval. */
struct wp_figure_mean wp_figure_mean_of(const double *values, unsigned n);

#endif
