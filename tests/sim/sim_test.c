/* The pool core in a simulated world: many seeds, each a run with faults of its
 * own, checked after every step.
 *
 *   sim_test [--seeds=N] [--from=M]     N seeds from M on (default 1000 from 1,
 *                                       and those that failed once)
 *   sim_test --fault=NAME [...]         of those that have this fault alone
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

/* Those that failed once, and what for. */
static const uint64_t failed_once[] = {
    315143, /* An answer told late of a lease that others had ended. */
    360522, /* A record had no room while an older copy was on its way. */
    397357, /* A target set by hand was taken for one of the scaler's. */
};

static const char *const met_names[] = {
#define X(name, text) text,
    SIM_MET(X)
#undef X
};

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
    int fault; /* enum sim_fault; -1: any */
    bool trace;
};

struct totals {
    uint64_t seeds;
    uint64_t events;
    uint64_t shown;
    uint64_t faults;
    uint64_t unknown;
    uint64_t met[SIM_MET_COUNT];
};

static int
find_fault(const char *name)
{
    for (int i = 0; i < SIM_FAULT_COUNT; i++) {
        if (strcmp(name, sim_fault_name((enum sim_fault)i)) == 0) {
            return i;
        }
    }
    return -1;
}

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
        } else if (strncmp(argv[i], "--fault=", 8) == 0 &&
                   find_fault(argv[i] + 8) >= 0) {
            options->fault = find_fault(argv[i] + 8);
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

static void
run_seed(uint64_t seed, bool trace, struct totals *totals)
{
    sim_init(&world, seed, trace);
    sim_run(&world);
    totals->seeds++;
    totals->events += world.n_fired;
    totals->shown += world.n_shown;
    totals->faults += world.n_faults;
    totals->unknown += world.n_unknown;
    for (int i = 0; i < SIM_MET_COUNT; i++) {
        totals->met[i] += world.n_met[i];
    }
    sim_fini(&world);
}

int
main(int argc, char **argv)
{
    struct options options = {.from = 1, .seeds = 1000, .fault = -1};
    struct totals totals = {0};
    double begin = seconds();

    if (!parse(argc, argv, &options)) {
        return 2;
    }
    (void)signal(SIGABRT, on_abort);
    (void)signal(SIGSEGV, on_abort);
    (void)printf("seeds %llu to %llu\n", (unsigned long long)options.from,
                 (unsigned long long)(options.from + options.seeds - 1));
    for (size_t i = 0; argc == 1 && i < WP_ARRAY_LEN(failed_once); i++) {
        run_seed(failed_once[i], false, &totals);
    }
    for (uint64_t i = 0; i < options.seeds; i++) {
        run_seed(options.fault < 0
                     ? options.from + i
                     : sim_fault_seed((enum sim_fault)options.fault,
                                      options.from + i),
                 options.trace, &totals);
    }
    (void)printf(
        "%llu seeds: %llu events, %llu grants shown, %llu faults, "
        "%llu unknown outcomes; %.1f seeds/s\n",
        (unsigned long long)totals.seeds, (unsigned long long)totals.events,
        (unsigned long long)totals.shown, (unsigned long long)totals.faults,
        (unsigned long long)totals.unknown,
        (double)totals.seeds / (seconds() - begin));
    for (int i = 0; i < SIM_MET_COUNT; i++) {
        (void)printf("%s%llu %s", i == 0 ? "" : ", ",
                     (unsigned long long)totals.met[i], met_names[i]);
    }
    (void)printf("\n");
    return 0;
}
