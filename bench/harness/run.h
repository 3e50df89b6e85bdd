/* bench/harness/run.h - all phases, against one target or two by turns. */
#ifndef WP_BENCH_HARNESS_RUN_H
#define WP_BENCH_HARNESS_RUN_H

#include "bench/harness/arrivals.h"
#include "bench/harness/plan.h"
#include "bench/harness/tally.h"
#include "bench/harness/target.h"

enum {
    WP_RUN_PHASES_MAX = 64,
    WP_STOCK_MAX = 512,
};

/* How the target was at a moment of a phase. */
struct wp_stock {
    int64_t at_ns; /* Since the end of the warm-up. */
    bool told;     /* The target has told of its pool: the next three. */
    uint32_t ready;
    uint32_t waiting;
    uint32_t leased;
    uint64_t rss_bytes;  /* Of its process; 0: not known. */
    int32_t descriptors; /* The same; -1: not known. */
};

/* One phase against one target. */
struct wp_outcome {
    const struct wp_plan *plan;
    uint32_t target; /* 0, or 1 for --against. */
    uint32_t turn;
    struct wp_tally *tally; /* Owned. */
    int64_t server_cpu_ns;  /* -1: not known. */
    struct wp_stock *stock; /* WP_STOCK_MAX; owned. */
    uint32_t n_stock;
    int64_t stock_apart_ns; /* Two of them are, at least. */
    bool cut;               /* It did not come to its end. */
};

struct wp_run {
    const struct wp_plan *plan; /* What the command said. */
    struct wp_plan *phases;     /* Owned. */
    uint32_t n_phases;
    struct wp_arrival_times *times; /* Of each phase; owned. */
    struct wp_target targets[2];
    uint32_t n_targets;
    struct wp_outcome *outcomes; /* Owned; in the order they were made. */
    uint32_t n_outcomes;
    uint32_t outcomes_room;
    struct wp_leftovers leftovers[2];
    uint64_t duplicates[2]; /* Sandboxes given out twice, all phases. */
    uint32_t tag;
    int64_t began_wall_ns;
    int signal;        /* What cut it; 0: nothing. */
    bool hurried;      /* A second one came. */
    struct wp_err err; /* WP_OK: nothing went wrong. */
    char machine[256];
};

/* Keeps that moment, unless one of shortly before is kept: those that are lie
 * evenly over the phase, however long it is. */
void wp_outcome_add_stock(struct wp_outcome *outcome,
                          const struct wp_stock *now);

/* What the target's process took in the first and the last tenth of a phase: the
 * medians. The warm-up is not looked at. */
struct wp_growth {
    double first_bytes;
    double last_bytes;
    int32_t first_descriptors; /* -1: not known. */
    int32_t last_descriptors;
};
/* False: its memory is not known, or was seen too seldom. */
WP_MUST_CHECK bool wp_outcome_growth(const struct wp_outcome *outcome,
                                     struct wp_growth *out);

/* Reads the records that phases replay. Before wp_run. */
enum wp_status wp_run_read_times(struct wp_run *run, struct wp_err *err);

/* Makes all phases. SIGINT and SIGTERM have to be blocked in all threads: the
 * first ends the phase, the second gives up what is under way. What was seen
 * until then is in run, whatever happens; run->err says what went wrong. */
void wp_run(struct wp_run *run);
void wp_run_fini(struct wp_run *run);

#endif
