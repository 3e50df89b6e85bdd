/* bench/micro/gbench.h - Google Benchmark for benchmarks written in C.
 *
 * A C function registers itself with the arguments and thread counts it wants
 * and runs its loop in batches, so that the call across the language border is
 * paid once a batch and vanishes from the figure:
 *
 *   static void bench_x(struct wp_bench_state *state)
 *   {
 *       while (wp_bench_keep(state, 64)) {
 *           for (int i = 0; i < 64; i++) { ... }
 *       }
 *   }
 *
 * Everything between the first wp_bench_keep and the one that returns false is
 * timed, unless the benchmark asked for manual time. */
#ifndef WP_BENCH_MICRO_GBENCH_H
#define WP_BENCH_MICRO_GBENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct wp_bench_state; /* Opaque; one per thread of a run. */

typedef void (*wp_bench_fn)(struct wp_bench_state *state);

/* How a counter is divided before it is printed. */
enum wp_bench_counter {
    WP_BENCH_COUNTER_PLAIN, /* As it is; summed over the threads. */
    WP_BENCH_COUNTER_AVG,   /* Divided by the number of threads. */
    WP_BENCH_COUNTER_RATE,  /* Divided by the seconds of the run. */
};

/* What to register. Copied, but ctx is kept as it is. */
struct wp_bench {
    const char *name;
    wp_bench_fn fn;
    const void *ctx;     /* The function's own; see wp_bench_ctx. */
    const int64_t *args; /* One run for each; NULL: one run without. */
    size_t n_args;
    const int *threads; /* One run for each; NULL: one thread. */
    size_t n_threads;
    bool manual_time; /* Only what wp_bench_add_time is told counts. */
};

void wp_bench_register(const struct wp_bench *bench);

/* True: run `batch` more iterations. False: the run is over. */
bool wp_bench_keep(struct wp_bench_state *state, uint32_t batch);
/* Manual time: the last batch took this long. */
void wp_bench_add_time(struct wp_bench_state *state, int64_t duration_ns);
/* The argument of this run; 0 when it has none. */
int64_t wp_bench_arg(const struct wp_bench_state *state);
const void *wp_bench_ctx(const struct wp_bench_state *state);
unsigned wp_bench_thread(const struct wp_bench_state *state);
unsigned wp_bench_threads(const struct wp_bench_state *state);
/* Shown beside the figures. Call after the loop, once a name. */
void wp_bench_count(struct wp_bench_state *state, const char *name,
                    double value, enum wp_bench_counter kind);
void wp_bench_label(struct wp_bench_state *state, const char *label);
/* Ends the run and prints why instead of a figure; leave the loop after it. */
void wp_bench_fail(struct wp_bench_state *state, const char *why);

/* Parses Google Benchmark's flags and runs what was registered; the program's
 * exit status. */
int wp_bench_run(int argc, char **argv);

/* Keeps the compiler from dropping a result nobody reads. */
static inline void
wp_bench_use(uint64_t value)
{
    __asm__ volatile("" : : "r"(value) : "memory");
}

#ifdef __cplusplus
}
#endif

#endif
