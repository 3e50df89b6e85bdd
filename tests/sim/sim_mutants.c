/* Bugs that the simulation must catch: each is switched on in a copy of the core
 * (pool/base/mutant.h), and seed after seed is run until one fails.
 *
 *   sim_mutants [NAME...] [--seeds=N]    those (default all), N seeds at most
 *
 * A mutant that survives is a hole in the simulation. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pool/base/assert.h"
#include "pool/base/mutant.h"
#include "tests/sim/sim.h"

static const struct mutant {
    const char *name;
    const char *what;
    int fault; /* Caught among the seeds of that fault alone; -1: of all. */
} mutants[] = {
    {"NO_FENCE_CHECK", "the store takes ops of any fence", -1},
    {"EXPIRE_THOUGH_RENEWED", "the store ends a lease that was renewed", -1},
    {"REISSUED_THOUGH_IN_DOUBT", "offered again after an unknown outcome", -1},
    {"SHOWN_UNCONFIRMED", "a grant of unknown outcome is shown", -1},
    {"RENEWED_UNCONFIRMED", "a renewal of unknown outcome is shown", -1},
    {"EXPIRED_EARLY", "expiry a second before the deadline", -1},
    {"GENERATION_REUSED", "a slot's next sandbox has the same name", -1},
    {"USED_OFFERED_AGAIN", "a released sandbox is offered again", -1},
    {"USED_ADOPTED", "a used sandbox is ready after a restart", -1},
    {"UNSEEN_OFFERED", "granted before the backend has found it", -1},
    {"CLAIM_ID_FORGOTTEN", "a repeat is taken for a new claim", -1},
    {"UNDONE_THOUGH_SHOWN", "undone though a follower was shown it", -1},
    {"UNDONE_ACROSS_REPLICAS", "undone though a replica has shown it",
     SIM_CALLERS_GO},
    {"NOT_UNDONE_ACROSS_REPLICAS", "nothing is undone where replicas are",
     SIM_CALLERS_GO},
    {"UNDONE_OFFERED_ACROSS_REPLICAS",
     "offered again though a replica still tells of its lease", SIM_CALLERS_GO},
    {"DOUBT_NOT_TAKEN_BACK", "a lease of unknown outcome is left to expire",
     SIM_STORE_LATE},
    {"FOLLOWER_EXPIRES", "a follower ends leases by its own clock", -1},
    {"WITHDRAWN_UNASKED", "scale-down without asking the store", -1},
    {"RETIRED_UNASKED", "given up for a lost replica, whoever holds it",
     SIM_STORE_RESTARTS},
    {"WARMING_NOT_COUNTED", "refill forgets what is being made", -1},
    {"SECOND_LEASE_NOT_TOLD", "a lease refused in recovery is left at that",
     SIM_STORE_FORGETS},
    {"LATE_ANSWER_BELIEVED", "a replaced store's late answer is taken for true",
     SIM_STORE_FORGETS},
    {"QUOTA_NOT_KEPT", "a tenant has more than its quota", -1},
    {"ACCOUNT_LEAKED", "the end of a waiting claim is not counted", -1},
    {"LEASE_NOT_REBUILT", "a sandbox that says it is leased is offered",
     SIM_CRASHES},
    {"REBUILT_WITHOUT_RENEWALS", "a lease that was renewed ends as granted",
     SIM_CRASHES},
    {"SHOWN_UNBOUND", "answered though not all was bound", -1},
    {"BOUND_OFFERED", "offered again after it was bound", -1},
    {"TOLD_TO_TWO_SERVERS", "a recovery is bound to no server",
     SIM_STORE_FORGETS},
};

static const char *chosen = "";

bool
wp_mutant_is(const char *name)
{
    return strcmp(name, chosen) == 0;
}

/* In a process of its own, which ends when a seed fails. Says first, on fd, at
 * which seed it is. */
static void
run_seeds(const struct mutant *mutant, uint64_t seeds, int fd)
{
    static struct sim world;
    /* Of processor time, for one seed: a mutant may go round for ever. */
    static const struct itimerval patience = {{0, 0}, {10, 0}};
    struct rlimit core = {0, 0};

    chosen = mutant->name;
    (void)setrlimit(RLIMIT_CORE, &core);
    (void)dup2(fd, STDERR_FILENO);
    for (uint64_t i = 0; i < seeds; i++) {
        uint64_t seed = mutant->fault < 0
                            ? 1 + i
                            : sim_fault_seed((enum sim_fault)mutant->fault, i);

        (void)setitimer(ITIMER_PROF, &patience, NULL);
        (void)dprintf(fd, "seed %llu\n", (unsigned long long)seed);
        sim_init(&world, seed, false);
        sim_run(&world);
        sim_fini(&world);
    }
    _exit(0);
}

/* True when a seed failed; says which, and how. */
static bool
is_caught(const struct mutant *mutant, uint64_t seeds)
{
    char line[512];
    char last[512] = "";
    unsigned long long seed = 0;
    int fds[2];
    int status;
    FILE *in;
    pid_t pid;

    (void)fflush(stdout);
    WP_ASSERT(pipe(fds) == 0);
    pid = fork();
    WP_ASSERT(pid >= 0);
    if (pid == 0) {
        (void)close(fds[0]);
        run_seeds(mutant, seeds, fds[1]);
    }
    (void)close(fds[1]);
    in = fdopen(fds[0], "r");
    WP_ASSERT(in != NULL);
    while (fgets(line, sizeof line, in) != NULL) {
        if (sscanf(line, "seed %llu", &seed) != 1) {
            (void)snprintf(last, sizeof last, "%s", line);
        }
    }
    (void)fclose(in);
    WP_ASSERT(waitpid(pid, &status, 0) == pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
        (void)printf("%s %-24s %llu seeds: %s\n",
                     mutant->name[0] != '\0' ? "SURVIVED" : "well    ",
                     mutant->name, seed, mutant->what);
        return false;
    }
    last[strcspn(last, "\n")] = '\0';
    (void)printf("caught   %-24s at seed %llu: %s\n", mutant->name, seed,
                 last[0] != '\0' ? last : "it went round for ever");
    return true;
}

int
main(int argc, char **argv)
{
    uint64_t seeds = 3000;
    uint32_t named = 0;
    bool all_caught = true;

    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], "--seeds=", 8) == 0) {
            seeds = strtoull(argv[i] + 8, NULL, 10);
        } else {
            named++;
        }
    }
    /* Without a mutant, all is well: what is caught below is the mutant. */
    if (named == 0 &&
        is_caught(&(struct mutant){"", "the unchanged core", -1}, 40)) {
        return 1;
    }
    for (size_t m = 0; m < WP_ARRAY_LEN(mutants); m++) {
        bool wanted = named == 0;

        for (int i = 1; i < argc; i++) {
            wanted = wanted || strcmp(argv[i], mutants[m].name) == 0;
        }
        if (wanted && !is_caught(&mutants[m], seeds)) {
            all_caught = false;
        }
    }
    return all_caught ? 0 : 1;
}
