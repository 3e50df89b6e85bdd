/* bench/scaling/figure_report.h - tables and charts of one world: ours beside all its
 * baselines, in Markdown on stdout. */
#ifndef WP_BENCH_SCALING_FIGURE_REPORT_H
#define WP_BENCH_SCALING_FIGURE_REPORT_H

#include "bench/scaling/figure_search.h"

/* What was asked for, and what was seen on the way. */
struct wp_report {
    struct wp_figure_settings settings;
    bool quick;
    bool matrix;
    bool brief;
    unsigned baselines;          /* In short, but with these: 1 << each. */
    const char *only;            /* A trace; NULL: all. */
    const char *plots;           /* A folder; NULL: none. */
    struct wp_trace_recipe read; /* Its path is NULL: nothing is read. */
    uint32_t over_target_max;
    bool broken; /* Something that never may be. */
};

/* Ends the program with 2. */
_Noreturn void wp_report_die(const char *what);
/* As wp_figure_run and wp_figure_least, noting what may never be; what fails
 * ends the program. */
void wp_report_run(struct wp_report *report,
                   const struct wp_figure_world *world,
                   const struct wp_figure_contender *contenders, unsigned n,
                   struct wp_figure_result *results);
struct wp_figure_best wp_report_least(struct wp_report *report,
                                      const struct wp_figure_world *world,
                                      enum wp_baseline baseline, double hit,
                                      double start);
/* In short, but with this baseline; false: there is none of that name. */
bool wp_report_add_baseline(struct wp_report *report, const char *name);
/* Ours, with an objective; announced: jobs tell it what they will claim. */
struct wp_figure_contender wp_report_ours(double objective, bool announced);
/* "reached", "within the interval", "missed". */
const char *wp_report_verdict(const struct wp_figure_mean *hit, double goal);
/* Of the idling, paired by seed: each seed's ratio, then their mean. */
struct wp_figure_mean wp_report_ratio(const struct wp_report *report,
                                      const struct wp_figure_result *a,
                                      const struct wp_figure_result *b);

/* One world with all its baselines, each with its knob turned. */
struct wp_report_field; /* Opaque; NULL when memory lacks; freed by free. */
struct wp_report_field *wp_report_field_create(void);
void wp_report_field_show(struct wp_report *report,
                          const struct wp_figure_world *world,
                          struct wp_report_field *field);

#endif
