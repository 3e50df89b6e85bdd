/* The pool core in a simulated world: many seeds, each a run with faults of its
 * own, checked after every step.
 *
 *   sim_test [--seeds=N] [--from=M]     N seeds from M on (default 1000 from 1)
 *   sim_test --seed=N [--trace]         one seed, and what happens in it
 *
 * A run that fails prints its seed and is repeated exactly by it. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/sim/sim.h"

static struct sim world;

/* A failed assertion, here or in the core: say which seed it was. */
static void
on_abort(int signal)
{
    char text[96];
    int len =
        snprintf(text, sizeof text, "replay: sim_test --seed=%llu --trace\n",
                 (unsigned long long)world.seed);
    ssize_t ignored = write(STDERR_FILENO, text, (size_t)len);

    (void)ignored;
    (void)signal;
    _exit(1);
}

struct options {
    uint64_t from;
    uint64_t seeds;
    bool trace;
};

static bool
parse(int argc, char **argv, struct options *options)
{
    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], "--seeds=", 8) == 0) {
            options->seeds = strtoull(argv[i] + 8, NULL, 10);
        } else if (strncmp(argv[i], "--from=", 7) == 0) {
            options->from = strtoull(argv[i] + 7, NULL, 10);
        } else if (strncmp(argv[i], "--seed=", 7) == 0) {
            options->from = strtoull(argv[i] + 7, NULL, 10);
            options->seeds = 1;
        } else if (strcmp(argv[i], "--trace") == 0) {
            options->trace = true;
        } else {
            (void)fprintf(stderr, "sim_test: unknown option '%s'\n", argv[i]);
            return false;
        }
    }
    return true;
}

static double
seconds(void)
{
    return (double)wp_clock_mono_ns(wp_clock_system()) / 1e9;
}

int
main(int argc, char **argv)
{
    struct options options = {.from = 1, .seeds = 1000};
    uint64_t events = 0;
    uint64_t shown = 0;
    uint64_t faults = 0;
    uint64_t unknown = 0;
    double begin = seconds();

    if (!parse(argc, argv, &options)) {
        return 2;
    }
    (void)signal(SIGABRT, on_abort);
    (void)signal(SIGSEGV, on_abort);
    (void)printf("seeds %llu to %llu\n", (unsigned long long)options.from,
                 (unsigned long long)(options.from + options.seeds - 1));
    for (uint64_t i = 0; i < options.seeds; i++) {
        sim_init(&world, options.from + i, options.trace);
        sim_run(&world);
        events += world.n_fired;
        shown += world.n_shown;
        faults += world.n_faults;
        unknown += world.n_unknown;
        sim_fini(&world);
    }
    (void)printf("%llu seeds: %llu events, %llu grants shown, %llu faults, "
                 "%llu unknown outcomes; %.1f seeds/s\n",
                 (unsigned long long)options.seeds, (unsigned long long)events,
                 (unsigned long long)shown, (unsigned long long)faults,
                 (unsigned long long)unknown,
                 (double)options.seeds / (seconds() - begin));
    return 0;
}
