/* bench/load/cache_rest.c - how much of what a thread had in the processor's caches
 * is still there after a rest in which nothing else ran here.
 *
 *   cache_rest [REST_MS]                          default 50
 *
 * A thread follows a chain of pointers through a block of memory, rests, and
 * follows it again. It rests in three ways: for 10 us, for REST_MS while it looks
 * at the clock all the time, and for as long asleep. Prints nanoseconds for each
 * pointer, medians. What the second is above the first, others have taken: on a
 * machine of one's own that is next to nothing. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "pool/base/assert.h"
#include "pool/base/clock.h"
#include "pool/base/rng.h"

enum {
    LINE = 64,
    TURNS = 100,
    SHORT_NS = 10000,
};

struct line {
    _Alignas(LINE) struct line *next;
};

/* One way through all lines, in an order that no processor foresees. */
static struct line *
make_chain(size_t n)
{
    struct line *lines = aligned_alloc(LINE, n * sizeof *lines);
    size_t *order = calloc(n, sizeof *order);
    struct wp_rng rng;

    WP_ASSERT(lines != NULL && order != NULL);
    wp_rng_init(&rng, 1);
    for (size_t i = 0; i < n; i++) {
        size_t j = wp_rng_below(&rng, (uint32_t)i + 1);

        order[i] = order[j];
        order[j] = i;
    }
    for (size_t i = 0; i < n; i++) {
        lines[order[i]].next = &lines[order[(i + 1) % n]];
    }
    free(order);
    return lines;
}

static void
rest(int64_t rest_ns, bool asleep)
{
    const struct wp_clock *clock = wp_clock_system();
    int64_t end_ns = wp_clock_mono_ns(clock) + rest_ns;
    struct timespec time = {.tv_sec = rest_ns / WP_NS_PER_S,
                            .tv_nsec = rest_ns % WP_NS_PER_S};

    if (asleep) {
        (void)nanosleep(&time, NULL);
    }
    while (wp_clock_mono_ns(clock) < end_ns) {
    }
}

static int
compare(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return (x > y) - (x < y);
}

static double
median_ns(struct line *lines, size_t n, int64_t rest_ns, bool asleep)
{
    const struct wp_clock *clock = wp_clock_system();
    double took[TURNS];
    struct line *volatile at = lines;

    for (int turn = 0; turn < TURNS; turn++) {
        int64_t start_ns;

        rest(rest_ns, asleep);
        start_ns = wp_clock_mono_ns(clock);
        for (size_t i = 0; i < n; i++) {
            at = at->next;
        }
        took[turn] = (double)(wp_clock_mono_ns(clock) - start_ns) / (double)n;
    }
    qsort(took, TURNS, sizeof took[0], compare);
    return took[TURNS / 2];
}

int
main(int argc, char **argv)
{
    static const size_t kib[] = {24, 256, 768};
    int64_t rest_ns = (argc > 1 ? atoll(argv[1]) : 50) * WP_NS_PER_MS;

    printf("| block | after 10 us | after %lld ms, awake | asleep |\n"
           "|---|---|---|---|\n",
           (long long)(rest_ns / WP_NS_PER_MS));
    for (size_t i = 0; i < sizeof kib / sizeof kib[0]; i++) {
        size_t n = kib[i] * 1024 / LINE;
        struct line *lines = make_chain(n);

        printf("| %zu KiB | %.1f ns | %.1f ns | %.1f ns |\n", kib[i],
               median_ns(lines, n, SHORT_NS, false),
               median_ns(lines, n, rest_ns, false),
               median_ns(lines, n, rest_ns, true));
        (void)fflush(stdout);
        free(lines);
    }
    return 0;
}
