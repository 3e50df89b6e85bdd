/* bench/scaling/contest.h - the controller and all baselines in one world, and
 * what is wrong with how it did. */
#ifndef WP_BENCH_SCALING_CONTEST_H
#define WP_BENCH_SCALING_CONTEST_H

#include "bench/scaling/figure_search.h"
#include "bench/scaling/world.h"

/* More than so many times the best fixed size idle is a waste. */
#define WP_CONTEST_IDLE_MAX 1.3

enum {
    WP_CONTEST_OBJECTIVES_MAX = 4,
};

struct wp_contest_settings {
    struct wp_figure_settings figure;
    double objectives[WP_CONTEST_OBJECTIVES_MAX]; /* From the laxest on. */
    unsigned n_objectives;
    bool alone;  /* Without the fixed sizes. */
    bool tuned;  /* With the baselines, for the last objective. */
    bool advice; /* With the advice of its claims. */
};

/* With one objective. */
struct wp_contest_try {
    struct wp_figure_result ours;
    struct wp_figure_best fixed; /* In hindsight. */
    bool missed;                 /* The objective, beyond the interval. */
    bool said;  /* That, beforehand: the outlook had half of it or more. */
    bool idles; /* WP_CONTEST_IDLE_MAX. */
    bool
        serves_less; /* Than the laxer one before, beyond the paired interval. */
};

struct wp_contest {
    struct wp_contest_try tries[WP_CONTEST_OBJECTIVES_MAX];
    /* Our idle by that of each baseline, which had its knob tuned on the first
     * 40 % of the trace; both are judged by the rest. 0: it was not tuned, or
     * it missed the objective there. */
    double by_baseline[WP_BASELINE_COUNT];
    double by_best; /* The highest of those. */
    bool starred;   /* The advice stars a row below the objective stated. */
};

/* False when memory lacks. */
WP_MUST_CHECK bool wp_contest_run(const struct wp_contest_settings *settings,
                                  const struct wp_world *world,
                                  struct wp_contest *out);
/* Are the baseline's claims its only knowledge? The others are told the future,
 * or the true rate. */
bool wp_contest_is_fair(enum wp_baseline baseline);

#endif
