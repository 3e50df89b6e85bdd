#include "tests/sim/sim.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "pool/base/assert.h"

/* How long the world may take to come to rest once it is healed: leases run
 * out, and a breaker may wait for a minute, several times. */
#define REST_LIMIT_NS (600 * SIM_S)

static bool
is_before(const struct sim_event *a, const struct sim_event *b)
{
    if (a->at_ns != b->at_ns) {
        return a->at_ns < b->at_ns;
    }
    return a->due_ns != b->due_ns ? a->due_ns < b->due_ns : a->seq < b->seq;
}

static void
push_event(struct sim *sim, const struct sim_event *event)
{
    uint32_t at = sim->n_events++;

    if (sim->n_events > sim->events_cap) {
        sim->events_cap = sim->events_cap == 0 ? 256 : 2 * sim->events_cap;
        sim->events =
            realloc(sim->events, sim->events_cap * sizeof *sim->events);
        WP_ASSERT(sim->events != NULL);
    }
    while (at > 0 && is_before(event, &sim->events[(at - 1) / 2])) {
        sim->events[at] = sim->events[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    sim->events[at] = *event;
}

static struct sim_event
pop_event(struct sim *sim)
{
    struct sim_event first = sim->events[0];
    struct sim_event last = sim->events[--sim->n_events];
    uint32_t at = 0;

    for (;;) {
        uint32_t child = 2 * at + 1;

        if (child + 1 < sim->n_events &&
            is_before(&sim->events[child + 1], &sim->events[child])) {
            child++;
        }
        if (child >= sim->n_events || !is_before(&sim->events[child], &last)) {
            break;
        }
        sim->events[at] = sim->events[child];
        at = child;
    }
    sim->events[at] = last;
    return first;
}

static void
plan(struct sim *sim, int64_t at_ns, const struct sim_event *given)
{
    struct sim_event event = *given;

    event.at_ns = at_ns > sim->now_ns ? at_ns : sim->now_ns;
    event.due_ns = event.at_ns;
    event.seq = sim->event_seq++;
    push_event(sim, &event);
}

void
sim_at(struct sim *sim, int64_t at_ns, struct sim_replica *to, sim_event_fn fn,
       void *ctx, uint64_t arg)
{
    struct sim_event event = {.fn = fn, .ctx = ctx, .arg = arg, .to = to};

    plan(sim, at_ns, &event);
}

void
sim_in(struct sim *sim, int64_t delay_ns, struct sim_replica *to,
       sim_event_fn fn, void *ctx, uint64_t arg)
{
    sim_at(sim, wp_time_add(sim->now_ns, delay_ns), to, fn, ctx, arg);
}

void
sim_send(struct sim *sim, int64_t delay_ns, struct sim_replica *to,
         sim_event_fn fn, void *message)
{
    struct sim_event event = {
        .fn = fn, .ctx = message, .to = to, .owned = true};

    plan(sim, wp_time_add(sim->now_ns, delay_ns), &event);
}

void *
sim_alloc(size_t size)
{
    void *block = calloc(1, size);

    WP_ASSERT(block != NULL);
    return block;
}

int64_t
sim_between(struct sim *sim, int64_t low, int64_t high)
{
    return low + (int64_t)wp_rng_below(&sim->rng, (uint64_t)(high - low));
}

bool
sim_chance(struct sim *sim, uint32_t percent)
{
    return wp_rng_below(&sim->rng, 100) < percent;
}

bool
sim_has_fault(const struct sim *sim, enum sim_fault fault)
{
    return (sim->profile.faults >> fault & 1) != 0;
}

const char *
sim_fault_name(enum sim_fault fault)
{
    static const char *const names[] = {
#define X(name, text) text,
        SIM_FAULTS(X)
#undef X
    };

    return names[fault];
}

WP_PRINTF(4, 0)
static void
print_line(const struct sim *sim, FILE *out, const char *what, const char *fmt,
           va_list args)
{
    (void)fprintf(out, "%s%4lld.%06lld ", what,
                  (long long)(sim->now_ns / SIM_S),
                  (long long)(sim->now_ns % SIM_S / WP_NS_PER_US));
    (void)vfprintf(out, fmt, args);
    (void)fputc('\n', out);
}

void
sim_trace(struct sim *sim, const char *fmt, ...)
{
    va_list args;

    if (sim->trace) {
        va_start(args, fmt);
        print_line(sim, stdout, "", fmt, args);
        va_end(args);
    }
}

void
sim_wrong(struct sim *sim, const char *fmt, ...)
{
    va_list args;

    (void)fflush(stdout);
    va_start(args, fmt);
    print_line(sim, stderr, "wrong at ", fmt, args);
    va_end(args);
    abort();
}

void
sim_init(struct sim *sim, uint64_t seed, bool trace)
{
    memset(sim, 0, sizeof *sim);
    sim->seed = seed;
    sim->trace = trace;
    sim->careful = trace;
    sim->now_ns = 1000 * SIM_S;
    wp_rng_init(&sim->rng, seed);
    wp_list_init(&sim->requests);
    sim->kept.run = 1;
    sim->kept.generation = 1;
    sim->last_generation = 1;
    sim_profile_draw(sim);
    sim->profile.tenant_leases_max =
        seed % 4 == 0 ? 1 + (uint32_t)(seed / 4 % 3) : 0;
    sim->target = sim->profile.target;
    sim->target_max = sim->profile.scale.objective != WP_SCALE_PLAIN &&
                              sim->profile.scale.max > sim->target
                          ? sim->profile.scale.max
                          : sim->target;
    sim->n_replicas = sim->profile.n_replicas;
    for (uint32_t i = 0; i < sim->n_replicas; i++) {
        sim_replica_init(sim, i);
    }
    for (uint32_t i = 0; i < sim->profile.n_clients; i++) {
        sim_client_init(sim, i);
    }
    sim_nemesis_start(sim);
}

/* Fires the next event; a replica that pauses gets it when it goes on, in the
 * order in which it would have. */
static void
step(struct sim *sim)
{
    struct sim_event event;

    if (sim->n_events == 0 || sim->n_fired++ > SIM_EVENTS_PER_SEED_MAX) {
        sim_wrong(sim, "liveness: %u events planned, %llu fired", sim->n_events,
                  (unsigned long long)sim->n_fired);
    }
    event = pop_event(sim);
    sim->now_ns = event.at_ns;
    if (event.to != NULL && event.to->paused_until_ns > sim->now_ns) {
        event.at_ns = event.to->paused_until_ns;
        push_event(sim, &event);
        return;
    }
    sim->stepped = event.to;
    event.fn(sim, event.ctx, event.arg);
    sim_oracle_step(sim);
}

void
sim_run(struct sim *sim)
{
    int64_t limit_ns;
    const char *unrest = "not looked yet";

    while (sim->now_ns < sim->profile.faults_end_ns) {
        step(sim);
    }
    sim_trace(sim, "healed: no more faults, no new claims");
    sim->healed = true;
    limit_ns = sim->now_ns + REST_LIMIT_NS;
    while (unrest != NULL) {
        int64_t until_ns = sim->now_ns + SIM_S;

        while (sim->now_ns < until_ns && sim->n_events > 0) {
            step(sim);
        }
        sim->now_ns = until_ns;
        unrest = sim_oracle_unrest(sim);
        if (unrest != NULL && sim->now_ns > limit_ns) {
            sim_oracle_describe(sim);
            sim_wrong(sim, "liveness: no rest: %s", unrest);
        }
    }
    sim_trace(sim, "at rest: %llu events, %llu grants shown, %u sandboxes made",
              (unsigned long long)sim->n_fired,
              (unsigned long long)sim->n_shown, sim->n_sandboxes);
}

void
sim_fini(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->n_replicas; i++) {
        sim_replica_fini(&sim->replicas[i]);
    }
    sim_conn_fini(sim);
    sim_store_fini(sim);
    for (uint32_t i = 0; i < sim->n_events; i++) {
        if (sim->events[i].owned) {
            free(sim->events[i].ctx);
        }
    }
    for (uint32_t i = 0; i < sim->n_sandboxes; i++) {
        free(sim->sandboxes[i]);
    }
    free(sim->sandboxes);
    free(sim->kept.records);
    free(sim->old.records);
    free(sim->backup.records);
    free(sim->events);
}
