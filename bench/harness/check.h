/* bench/harness/check.h - the outside check: may the figures be believed, and
 * did the target keep its promises?
 *
 * Every run has it. A breach ends the program with 1, whatever the figures. */
#ifndef WP_BENCH_HARNESS_CHECK_H
#define WP_BENCH_HARNESS_CHECK_H

#include "bench/harness/run.h"

enum {
    WP_BREACHES_MAX = 64,
    WP_BREACH_TEXT_MAX = 256,
};

struct wp_check {
    char breach[WP_BREACHES_MAX][WP_BREACH_TEXT_MAX]; /* Sentences. */
    uint32_t n_breaches;
    /* What could not be checked, and what makes figures doubtful. */
    char doubt[WP_BREACHES_MAX][WP_BREACH_TEXT_MAX];
    uint32_t n_doubts;
};

void wp_check_run(const struct wp_run *run, struct wp_check *out);

#endif
