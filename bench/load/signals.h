/* bench/load/signals.h - SIGINT and SIGTERM, taken when there is time.
 *
 * They are blocked in all threads from before the first is made, and wait to be
 * taken. Any thread may look; the one that runs the phases takes them. */
#ifndef WP_BENCH_LOAD_SIGNALS_H
#define WP_BENCH_LOAD_SIGNALS_H

#include <stdbool.h>
#include <stdint.h>

/* Until then they end the program, as they do any other: it has seen nothing
 * yet. Before any thread is made. */
void wp_signals_block(void);
/* Waits at most so long for one and takes it; 0: none came. */
int wp_signals_take(int64_t wait_ns);
/* Is there one to be taken? Whoever waits for the target then stops. */
bool wp_signals_pending(void);

#endif
