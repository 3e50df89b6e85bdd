/* bench/scaling/figure_search.h - the baselines, each with one knob that makes its pool
 * larger, so that the best of each can be looked for. */
#ifndef WP_BENCH_SCALING_FIGURE_SEARCH_H
#define WP_BENCH_SCALING_FIGURE_SEARCH_H

#include "bench/scaling/figure.h"

/* The baseline with its knob at p > 0: more p, more stock. What the knob is: see
 * the table in figure_search.c. */
struct wp_figure_contender wp_figure_baseline_at(enum wp_baseline baseline,
                                                 double p);
/* What the knob is called, with its unit. */
const char *wp_figure_knob(enum wp_baseline baseline);
/* It counts sandboxes. */
bool wp_figure_knob_whole(enum wp_baseline baseline);

struct wp_figure_best {
    bool found; /* False: it did not get there with the largest knob tried. */
    double p;
    struct wp_figure_contender contender;
    struct wp_figure_result result;
};
/* Who is told when jobs begin and end, with the two sizes that idle least for
 * so many hits: searched for over their ratio. */
WP_MUST_CHECK bool
wp_figure_least_told(const struct wp_figure_settings *settings,
                     const struct wp_figure_world *world, double hit,
                     double start, struct wp_figure_best *out);
/* The least knob, to 1 % or one sandbox (coarse: to a tenth), with which the mean share of hits is
 * at least `hit`. From a start that may be far off. False as wp_figure_run. */
WP_MUST_CHECK bool wp_figure_least(const struct wp_figure_settings *settings,
                                   const struct wp_figure_world *world,
                                   enum wp_baseline baseline, double hit,
                                   double start, struct wp_figure_best *out);

#endif
