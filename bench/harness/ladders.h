/* bench/harness/ladders.h - several runs of one ladder, in one table and plot. */
#ifndef WP_BENCH_HARNESS_LADDERS_H
#define WP_BENCH_HARNESS_LADDERS_H

/* warmpool-load ladders OUT.svg A.json ...: files that --output json wrote of
 * loads with several rates. Says of each how many claims a second it granted
 * with a p99 below 1 ms, and at most; draws p99 over the rate, a line for each.
 * Returns the exit code. */
int wp_ladders_main(int argc, char **argv);

#endif
