/* tests/support/base/stress.h - what the stress programs share.
 *
 * A program takes "[operations per thread [threads [seed]]]". It checks while it
 * runs and again at the end, prints its seed, and exits with 1 at the first thing
 * that must not be. */
#ifndef WP_TESTS_SUPPORT_BASE_STRESS_H
#define WP_TESTS_SUPPORT_BASE_STRESS_H

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "pool/base/rng.h"

#define STRESS_CHECK(cond)                                                     \
    ((cond) ? (void)0 : stress_failed(#cond, __FILE__, __LINE__))

enum {
    STRESS_THREADS_MAX = 8
};

struct stress {
    uint64_t ops; /* Of each thread. */
    unsigned threads;
    uint64_t seed;
};

struct stress_thread {
    const struct stress *stress;
    unsigned number; /* 0..threads-1 */
    struct wp_rng rng;
    void (*body)(struct stress_thread *self);
    pthread_t id;
};

_Noreturn static inline void
stress_failed(const char *what, const char *file, int line)
{
    (void)fprintf(stderr, "%s:%d: does not hold: %s\n", file, line, what);
    exit(1);
}

/* The arguments, or the defaults where there are none. */
static inline struct stress
stress_args(int argc, char **argv, const char *name, uint64_t ops)
{
    struct stress stress = {ops, 4, 0};

    if (argc > 1) {
        stress.ops = strtoull(argv[1], NULL, 10);
    }
    if (argc > 2) {
        stress.threads = (unsigned)strtoul(argv[2], NULL, 10);
    }
    if (argc > 3) {
        stress.seed = strtoull(argv[3], NULL, 10);
    } else {
        wp_random_bytes(&stress.seed, sizeof stress.seed);
    }
    STRESS_CHECK(stress.threads >= 1 && stress.threads <= STRESS_THREADS_MAX);
    (void)printf("%s: %llu operations in each of %u threads, seed %llu\n", name,
                 (unsigned long long)stress.ops, stress.threads,
                 (unsigned long long)stress.seed);
    (void)fflush(stdout);
    return stress;
}

static inline void *
stress_start(void *arg)
{
    struct stress_thread *self = arg;

    self->body(self);
    return NULL;
}

/* Runs body in every thread and waits for all. */
static inline void
stress_run(const struct stress *stress, void (*body)(struct stress_thread *))
{
    struct stress_thread threads[STRESS_THREADS_MAX];

    for (unsigned i = 0; i < stress->threads; i++) {
        threads[i].stress = stress;
        threads[i].number = i;
        threads[i].body = body;
        wp_rng_init(&threads[i].rng, stress->seed + i);
        STRESS_CHECK(pthread_create(&threads[i].id, NULL, stress_start,
                                    &threads[i]) == 0);
    }
    for (unsigned i = 0; i < stress->threads; i++) {
        STRESS_CHECK(pthread_join(threads[i].id, NULL) == 0);
    }
}

#endif
