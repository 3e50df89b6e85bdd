#include "bench/harness/run.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "bench/harness/lane.h"
#include "bench/load/procs.h"
#include "bench/load/signals.h"
#include "pool/base/assert.h"
#include "pool/base/clock.h"
#include "pool/base/rng.h"

enum {
    LANES_MAX = 64,
    TERMINAL = 80, /* Columns. */
};

/* Until all threads stand ready. */
#define START_NS (10 * WP_NS_PER_MS)
#define LOOK_NS (100 * WP_NS_PER_MS)
#define LOOK_OBJECTS_NS WP_NS_PER_S /* It costs an API server more. */
#define PROGRESS_NS WP_NS_PER_S

struct lane_thread {
    struct wp_lane *lane;
    pthread_t thread;
    enum wp_status status;
    struct wp_err err;
    _Atomic(bool) over;
};

struct phase {
    struct wp_run *run;
    struct wp_outcome *outcome;
    struct wp_target *target;
    struct lane_thread lanes[LANES_MAX];
    uint32_t n_lanes;
    struct wp_lane_signals signals;
    const struct wp_arrival_times *times;
    int64_t start_ns;
    int64_t told_ns;
    uint64_t told_granted;
    struct wp_stock seen; /* The last. */
    bool on_terminal;
};

static void *
lane_main(void *arg)
{
    struct lane_thread *t = arg;

    t->status = wp_lane_run(t->lane, &t->err);
    atomic_store(&t->over, true);
    return NULL;
}

static int64_t
process_cpu_ns(pid_t pid)
{
    struct timespec ts;
    clockid_t clock;

    if (pid == 0 || clock_getcpuclockid(pid, &clock) != 0 ||
        clock_gettime(clock, &ts) != 0) {
        return -1;
    }
    return (int64_t)ts.tv_sec * WP_NS_PER_S + ts.tv_nsec;
}

/* --- While it runs. --- */

static bool
can_wipe_lines(void)
{
    const char *term = getenv("TERM"); /* NOLINT(concurrency-mt-unsafe) */

    return isatty(STDERR_FILENO) == 1 && term != NULL &&
           strcmp(term, "dumb") != 0;
}

static pid_t
server_of(const struct phase *phase)
{
    if (phase->outcome->plan->server_pid != 0) {
        return phase->outcome->plan->server_pid;
    }
    return phase->n_lanes > 0 ? wp_lane_peer(phase->lanes[0].lane) : 0;
}

static void
look_at_target(struct phase *phase)
{
    struct wp_outcome *outcome = phase->outcome;
    struct wp_stock now = {.descriptors = -1};
    pid_t server = server_of(phase);
    struct wp_pool_stats stats;
    struct wp_err err;

    if (outcome->stock == NULL) {
        return;
    }
    now.told = wp_target_pool(phase->target, outcome->plan, true, &stats, &err);
    if (now.told) {
        now.ready = stats.ready;
        now.waiting = stats.waiting;
        now.leased = stats.leased;
    }
    if (server != 0) {
        now.rss_bytes = wp_proc_rss_bytes(server);
        now.descriptors = wp_proc_descriptors(server);
    }
    if (!now.told && now.rss_bytes == 0) {
        return;
    }
    now.at_ns = wp_lane_now_ns() - phase->start_ns - outcome->plan->warmup_ns;
    phase->seen = now;
    wp_outcome_add_stock(outcome, &now);
}

static void
show_progress(struct phase *phase, int64_t now_ns)
{
    const struct wp_plan *plan = phase->outcome->plan;
    uint64_t granted = 0;
    uint64_t warm = 0;
    uint64_t failed = 0;
    uint64_t in_flight = 0;
    char stock[32] = "";
    char line[160];

    if (plan->quiet || now_ns - phase->told_ns < PROGRESS_NS) {
        return;
    }
    for (uint32_t i = 0; i < phase->n_lanes; i++) {
        const struct wp_lane_progress *p =
            wp_lane_progress(phase->lanes[i].lane);

        granted += atomic_load_explicit(&p->granted, memory_order_relaxed);
        warm += atomic_load_explicit(&p->warm, memory_order_relaxed);
        failed += atomic_load_explicit(&p->failed, memory_order_relaxed);
        in_flight += atomic_load_explicit(&p->in_flight, memory_order_relaxed);
    }
    if (phase->seen.told) {
        (void)snprintf(stock, sizeof stock, ", %u ready", phase->seen.ready);
    }
    (void)snprintf(
        line, sizeof line,
        "%-16.16s %4.0f s %7.0f/s %5.1f %% warm, %llu failed, %llu in "
        "flight%s",
        plan->name, (double)(now_ns - phase->start_ns) / 1e9,
        (double)(granted - phase->told_granted) * 1e9 /
            (double)(now_ns - phase->told_ns),
        granted > 0 ? 100.0 * (double)warm / (double)granted : 0.0,
        (unsigned long long)failed, (unsigned long long)in_flight, stock);
    if (phase->on_terminal) {
        /* What goes on in a second line is not wiped. */
        (void)fprintf(stderr, "\r\033[K%.*s", TERMINAL - 1, line);
    } else {
        (void)fprintf(stderr, "%s\n", line);
    }
    phase->told_ns = now_ns;
    phase->told_granted = granted;
}

static bool
all_over(const struct phase *phase)
{
    for (uint32_t i = 0; i < phase->n_lanes; i++) {
        if (!atomic_load(&phase->lanes[i].over)) {
            return false;
        }
    }
    return true;
}

/* The first signal lets what is under way end; the second does not. */
static void
take_signal(struct phase *phase, int number)
{
    if (phase->run->signal != 0) {
        atomic_store(&phase->signals.abort, true);
        phase->run->hurried = true;
    }
    phase->run->signal = number;
    phase->outcome->cut = true;
    atomic_store(&phase->signals.stop, true);
}

static void
watch(struct phase *phase)
{
    int64_t look_ns =
        phase->target->objects.api != NULL ? LOOK_OBJECTS_NS : LOOK_NS;
    int64_t stock_ns = 0;

    while (!all_over(phase)) {
        int number = wp_signals_take(LOOK_NS / 5);
        int64_t now_ns = wp_lane_now_ns();

        if (number > 0) {
            take_signal(phase, number);
        }
        /* It may be what is waited for. */
        if (now_ns - stock_ns >= look_ns && phase->run->signal == 0) {
            stock_ns = now_ns;
            look_at_target(phase);
        }
        show_progress(phase, now_ns);
    }
    if (phase->on_terminal) {
        (void)fputs("\r\033[K", stderr);
    }
}

/* --- One phase. --- */

static enum wp_status
make_lanes(struct phase *phase, uint32_t number, struct wp_hash_key key,
           struct wp_err *err)
{
    const struct wp_plan *plan = phase->outcome->plan;
    struct wp_target *target = phase->target;
    struct wp_lane_config config = {
        .plan = plan,
        .times = phase->times,
        .target = target->address,
        .tls = target->tls,
        .authorization =
            target->authorization[0] != '\0' ? target->authorization : NULL,
        .server = target->objects.api != NULL ? &target->server : NULL,
        .signals = &phase->signals,
        .key = key,
        .tag = phase->run->tag,
        .phase = number,
        .shares = plan->threads,
    };

    phase->start_ns = wp_lane_now_ns() + START_NS;
    for (uint32_t i = 0; i < plan->threads; i++) {
        config.share = i;
        config.start_ns = phase->start_ns;
        phase->lanes[i].lane = wp_lane_create(&config, err);
        if (phase->lanes[i].lane == NULL) {
            return err->status;
        }
        phase->n_lanes++;
    }
    return WP_OK;
}

static void
run_lanes(struct phase *phase)
{
    uint32_t started = 0;

    for (uint32_t i = 0; i < phase->n_lanes; i++, started++) {
        if (pthread_create(&phase->lanes[i].thread, NULL, lane_main,
                           &phase->lanes[i]) != 0) {
            break;
        }
    }
    WP_ASSERT(started == phase->n_lanes); /* Before any claim was made. */
    watch(phase);
    for (uint32_t i = 0; i < phase->n_lanes; i++) {
        (void)pthread_join(phase->lanes[i].thread, NULL);
    }
}

/* What the threads saw becomes one. */
static enum wp_status
gather(struct phase *phase, struct wp_err *err)
{
    struct wp_outcome *outcome = phase->outcome;
    const struct wp_plan *plan = outcome->plan;
    enum wp_status status = WP_OK;

    for (uint32_t i = 0; i < phase->n_lanes; i++) {
        struct lane_thread *t = &phase->lanes[i];

        if (!wp_tally_merge(outcome->tally, wp_lane_tally(t->lane))) {
            status = wp_err_set(err, WP_RESOURCE_EXHAUSTED,
                                "no memory for the records");
        }
        if (t->status != WP_OK && status == WP_OK) {
            *err = t->err;
            status = t->status;
        }
    }
    outcome->cut |= status != WP_OK;
    if (plan->claims == 0 && plan->arrivals != WP_ARRIVALS_CSV &&
        !outcome->cut && outcome->tally->elapsed_ns < plan->duration_ns) {
        outcome->tally->elapsed_ns = plan->duration_ns;
    }
    wp_tally_sort(outcome->tally);
    return status;
}

static enum wp_status
run_phase(struct phase *phase, uint32_t number, struct wp_hash_key key)
{
    struct wp_outcome *outcome = phase->outcome;
    const struct wp_plan *plan = outcome->plan;
    struct wp_err *err = &phase->run->err;
    enum wp_status status = wp_target_prepare(phase->target, plan, err);
    int64_t before_ns;

    if (status == WP_OK) {
        status = make_lanes(phase, number, key, err);
    }
    if (status == WP_OK) {
        before_ns = process_cpu_ns(server_of(phase));
        outcome->server_cpu_ns = before_ns;
        phase->told_ns = phase->start_ns;
        phase->target->asked = true;
        run_lanes(phase);
        if (before_ns >= 0) {
            outcome->server_cpu_ns =
                process_cpu_ns(server_of(phase)) - before_ns;
        }
        status = gather(phase, err);
    } else {
        outcome->cut = true;
        phase->run->signal = wp_signals_take(0);
        if (phase->run->signal != 0) {
            status = WP_OK; /* It is why nothing was begun. */
        }
    }
    for (uint32_t i = 0; i < phase->n_lanes; i++) {
        wp_lane_destroy(phase->lanes[i].lane);
    }
    err->status = status;
    return status;
}

/* --- All of them. --- */

static struct wp_outcome *
add_outcome(struct wp_run *run)
{
    struct wp_outcome *outcome;

    if (run->n_outcomes == run->outcomes_room) {
        uint32_t room = run->outcomes_room == 0 ? 16 : run->outcomes_room * 2;
        struct wp_outcome *moved =
            realloc(run->outcomes, room * sizeof *run->outcomes);

        WP_ASSERT(moved != NULL);
        run->outcomes = moved;
        run->outcomes_room = room;
    }
    outcome = &run->outcomes[run->n_outcomes++];
    *outcome = (struct wp_outcome){.server_cpu_ns = -1};
    outcome->tally = wp_tally_create();
    outcome->stock = calloc(WP_STOCK_MAX, sizeof *outcome->stock);
    WP_ASSERT(outcome->tally != NULL);
    return outcome;
}

/* Was the rate more than the target could do? */
static bool
is_saturated(const struct wp_outcome *outcome)
{
    const struct wp_plan *plan = outcome->plan;
    double asked =
        (double)outcome->tally->due * 1e9 / (double)plan->duration_ns;

    if (plan->claims > 0) { /* They end it, not the duration. */
        asked = plan->rate_per_s;
    }

    return wp_tally_rate(outcome->tally) < 0.95 * asked;
}

static bool
run_one(struct wp_run *run, uint32_t i, uint32_t target, uint32_t turn,
        struct wp_hash_key key)
{
    struct wp_outcome *outcome = add_outcome(run);
    struct phase *phase = calloc(1, sizeof *phase);
    enum wp_status status;

    WP_ASSERT(phase != NULL);
    outcome->plan = &run->phases[i];
    outcome->target = target;
    outcome->turn = turn;
    phase->run = run;
    phase->outcome = outcome;
    phase->target = &run->targets[target];
    phase->times = &run->times[i];
    phase->on_terminal = !outcome->plan->quiet && can_wipe_lines();
    status = run_phase(phase, run->n_outcomes, key);
    free(phase);
    return status == WP_OK && run->signal == 0;
}

/* Phases of one turn; targets take turns in each. */
static bool
run_turn(struct wp_run *run, uint32_t turn, struct wp_hash_key key)
{
    for (uint32_t i = 0; i < run->n_phases; i++) {
        bool saturated = false;

        for (uint32_t t = 0; t < run->n_targets; t++) {
            /* Who begins changes, so that neither has the better half. */
            uint32_t target = (t + turn) % run->n_targets;

            if (!run_one(run, i, target, turn, key)) {
                return false;
            }
            saturated |= is_saturated(&run->outcomes[run->n_outcomes - 1]);
        }
        if (saturated && run->phases[i].until_saturated) {
            break;
        }
    }
    return true;
}

static void
count_duplicates(struct wp_run *run)
{
    for (uint32_t t = 0; t < run->n_targets; t++) {
        uint64_t *names = NULL;
        uint64_t n = 0;
        uint64_t at = 0;

        for (uint32_t i = 0; i < run->n_outcomes; i++) {
            n += run->outcomes[i].target == t ? run->outcomes[i].tally->n_names
                                              : 0;
        }
        names = malloc((n + 1) * sizeof *names);
        WP_ASSERT(names != NULL);
        for (uint32_t i = 0; i < run->n_outcomes; i++) {
            struct wp_tally *tally = run->outcomes[i].tally;

            if (run->outcomes[i].target != t) {
                continue;
            }
            run->duplicates[t] += tally->duplicates; /* Seen as it went. */
            if (tally->n_names > 0) {
                memcpy(names + at, tally->names,
                       tally->n_names * sizeof *names);
                at += tally->n_names;
                tally->duplicates +=
                    wp_tally_count_duplicates(tally->names, tally->n_names);
            }
        }
        run->duplicates[t] += wp_tally_count_duplicates(names, n);
        free(names);
    }
}

static void
tidy_up(struct wp_run *run)
{
    struct wp_err err;
    int number;

    for (uint32_t t = 0; t < run->n_targets; t++) {
        wp_target_settle(&run->targets[t], run->plan, run->tag, run->hurried,
                         &run->leftovers[t]);
        if (wp_target_restore(&run->targets[t], run->plan, &err) != WP_OK) {
            (void)fprintf(stderr,
                          "warmpool-load: the pool's size was not put back: "
                          "%s\n",
                          err.msg);
        }
    }
    number = wp_signals_take(0);
    run->signal = run->signal != 0 ? run->signal : number;
}

enum wp_status
wp_run_read_times(struct wp_run *run, struct wp_err *err)
{
    run->times = calloc(run->n_phases, sizeof *run->times);
    WP_ASSERT(run->times != NULL);
    for (uint32_t i = 0; i < run->n_phases; i++) {
        const struct wp_plan *plan = &run->phases[i];

        if (plan->arrivals == WP_ARRIVALS_CSV &&
            wp_arrival_times_read(plan->csv, plan->speed, &run->times[i],
                                  err) != WP_OK) {
            return err->status;
        }
    }
    return WP_OK;
}

void
wp_run(struct wp_run *run)
{
    struct wp_hash_key key;
    uint32_t turns =
        run->plan->turns > 0 ? run->plan->turns : (run->n_targets > 1 ? 5 : 1);

    wp_random_bytes(&key, sizeof key);
    wp_random_bytes(&run->tag, sizeof run->tag);
    run->began_wall_ns = wp_clock_wall_ns(wp_clock_system());
    wp_proc_machine(run->machine, sizeof run->machine);
    for (uint32_t turn = 0; turn < turns; turn++) {
        if (!run_turn(run, turn, key)) {
            break;
        }
    }
    count_duplicates(run);
    tidy_up(run);
}

void
wp_run_fini(struct wp_run *run)
{
    for (uint32_t i = 0; i < run->n_outcomes; i++) {
        wp_tally_destroy(run->outcomes[i].tally);
        free(run->outcomes[i].stock);
    }
    for (uint32_t t = 0; t < run->n_targets; t++) {
        wp_target_close(&run->targets[t]);
    }
    for (uint32_t i = 0; run->times != NULL && i < run->n_phases; i++) {
        wp_arrival_times_fini(&run->times[i]);
    }
    free(run->times);
    free(run->outcomes);
    free(run->phases);
}
