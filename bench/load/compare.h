/* bench/load/compare.h - the echo server and the claim server, side by side.
 *
 * Each cell (a transport, a placement, a load) is run on both servers in turn,
 * several times over, all cells of one repetition before the next, so that what
 * disturbs the machine for a while disturbs both. Figures are medians over the
 * repetitions, with their range; ratios are taken within each repetition. */
#ifndef WP_BENCH_LOAD_COMPARE_H
#define WP_BENCH_LOAD_COMPARE_H

#include <stdbool.h>
#include <stdint.h>

#include "pool/base/compiler.h"
#include "pool/base/status.h"

enum {
    WP_COMPARE_CELLS_MAX = 32,
    WP_COMPARE_REPS_MAX = 31,
};

struct wp_compare_cell {
    bool tcp;
    bool same_core; /* Client and server share one; else each has its own. */
    unsigned in_flight; /* Closed loop, or the most that may wait. */
    double rate_per_s;  /* Open loop when > 0: claims per second. */
    unsigned connections;
};

struct wp_compare_config {
    const char *echo_server; /* Programs. */
    const char *claim_server;
    const char *directory; /* For sockets; exists. */
    struct wp_compare_cell cells[WP_COMPARE_CELLS_MAX];
    unsigned n_cells;
    unsigned reps;
    int64_t warmup_ns;
    int64_t run_ns;
};

/* Runs all and prints a report in Markdown on standard output. Not WP_OK when a
 * run failed, or an answer was wrong, or a sandbox was granted twice. */
WP_MUST_CHECK enum wp_status
wp_compare_run(const struct wp_compare_config *config, struct wp_err *err);

#endif
