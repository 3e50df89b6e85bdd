/* bench/harness/help.h - what warmpool-load says of itself, at 80 columns. */
#ifndef WP_BENCH_HARNESS_HELP_H
#define WP_BENCH_HARNESS_HELP_H

#include <stdio.h>

void wp_help_usage(FILE *out);
void wp_help_all(FILE *out);
void wp_help_scenarios(FILE *out);

#endif
