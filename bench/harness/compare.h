/* bench/harness/compare.h - two runs, or two targets of one, in words. */
#ifndef WP_BENCH_HARNESS_COMPARE_H
#define WP_BENCH_HARNESS_COMPARE_H

#include <jansson.h>
#include <stdio.h>

/* warmpool-load compare A B: two files that --output json wrote. Phases of one
 * name are compared. Returns the exit code. */
int wp_compare_main(int argc, char **argv);
/* A summary that --output json wrote, for the caller to give back. NULL: it was
 * told on stderr what is wrong. */
json_t *wp_compare_load(const char *path);
/* Target B against target A, of one run with both. */
void wp_compare_targets(const json_t *run, FILE *out);

#endif
