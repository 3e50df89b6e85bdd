#include <string.h>

#include "tests/sim/sim.h"

/* One seed in three of each kind has its target set by a scaler. */
static void
draw_policy(struct sim *sim)
{
    struct wp_scale_policy *policy = &sim->profile.scale;

    wp_scale_policy_init(policy);
    if (sim->seed / (SIM_FAULT_COUNT + 4) % 3 != 1) {
        return;
    }
    policy->objective = WP_SCALE_HIT_RATE;
    policy->hit_rate = 0.9;
    policy->min = (uint32_t)sim_between(sim, 0, 3);
    policy->max = (uint32_t)sim_between(sim, 4, 13);
    policy->down_window_ns = sim_between(sim, 0, 10 * SIM_S);
    policy->down_rate = 0.5;
}

uint64_t
sim_fault_seed(enum sim_fault fault, uint64_t n)
{
    return 1 + (uint64_t)fault + n * (SIM_FAULT_COUNT + 4);
}

void
sim_profile_draw(struct sim *sim)
{
    struct sim_profile *profile = &sim->profile;
    static const char *const stores[] = {", memory", ", local", ", shared"};
    uint64_t kind = sim->seed % (SIM_FAULT_COUNT + 4);

    /* Seeds take turns: no fault, one kind of fault, a mixture of them. */
    if (kind >= 1 && kind <= SIM_FAULT_COUNT) {
        profile->faults = 1u << (kind - 1);
    } else if (kind > SIM_FAULT_COUNT) {
        profile->faults = (uint32_t)wp_rng_next(&sim->rng);
    }
    profile->n_clients = (uint32_t)sim_between(sim, 1, SIM_CLIENTS_MAX + 1);
    profile->target = (uint32_t)sim_between(sim, 1, 9);
    profile->cold_start = sim_chance(sim, 30) ? WP_COLD_ALLOWED : WP_COLD_NEVER;
    profile->store = (enum sim_store_kind)wp_rng_below(&sim->rng, 4);
    if (profile->store > SIM_STORE_SHARED) {
        profile->store = SIM_STORE_SHARED;
    }
    profile->n_replicas =
        profile->store == SIM_STORE_SHARED
            ? (uint32_t)sim_between(sim, 1, SIM_REPLICAS_MAX + 1)
            : 1;
    profile->store_inline =
        profile->store == SIM_STORE_LOCAL && sim_chance(sim, 50);
    profile->noted =
        profile->store == SIM_STORE_MEMORY && sim_has_fault(sim, SIM_CRASHES);
    profile->skew_max_ns = profile->store == SIM_STORE_MEMORY && !profile->noted
                               ? 3600 * SIM_S
                               : 500 * SIM_MS;
    profile->ttl_max_ns = sim_between(sim, 3 * SIM_S, 12 * SIM_S);
    profile->lead_ns = sim_between(sim, SIM_MS, 500 * SIM_MS);
    profile->faults_end_ns =
        sim->now_ns + sim_between(sim, 10 * SIM_S, 60 * SIM_S);
    profile->fault_gap_ns = sim_between(sim, 100 * SIM_MS, 4 * SIM_S);
    profile->claims_again = profile->store == SIM_STORE_SHARED &&
                            sim_has_fault(sim, SIM_STORE_FORGETS);
    draw_policy(sim);
    sim_trace(
        sim,
        "seed %llu: faults %06x, %u replicas, %u clients, target %u%s%s%s, "
        "lead %lld "
        "ms, ttl up to %lld ms",
        (unsigned long long)sim->seed,
        profile->faults & ((1u << SIM_FAULT_COUNT) - 1), profile->n_replicas,
        profile->n_clients, profile->target,
        profile->cold_start == WP_COLD_ALLOWED ? ", cold starts" : "",
        profile->scale.objective != WP_SCALE_PLAIN ? ", scaled" : "",
        stores[profile->store], (long long)(profile->lead_ns / SIM_MS),
        (long long)(profile->ttl_max_ns / SIM_MS));
}

static void
kill_one(struct sim *sim)
{
    uint32_t living = sim_backend_living(sim);
    uint32_t n = living > 0 ? (uint32_t)wp_rng_below(&sim->rng, living) : 0;

    for (uint32_t i = 0; i < sim->n_sandboxes; i++) {
        if (!sim->sandboxes[i]->gone && n-- == 0) {
            sim_backend_kill(sim, sim->sandboxes[i]);
            return;
        }
    }
}

static void
move_target(struct sim *sim)
{
    sim->target = (uint32_t)wp_rng_below(&sim->rng, 10);
    if (sim->target > sim->target_max) {
        sim->target_max = sim->target;
    }
    for (uint32_t i = 0; i < sim->n_replicas; i++) {
        struct sim_replica *replica = &sim->replicas[i];

        if (replica->pools != NULL) {
            sim_replica_enter(replica);
            (void)wp_pools_set_target(replica->pools, 0, sim->target, NULL);
        }
    }
}

static void
break_conn(struct sim *sim, void *ctx, uint64_t arg)
{
    (void)sim;
    (void)arg;
    sim_conn_break(ctx);
}

/* Not one of those that alone know what the store has lost. */
static void
crash_one(struct sim *sim, struct sim_replica *replica)
{
    if ((sim->profile.store != SIM_STORE_MEMORY || sim->profile.noted) &&
        !sim->lossy) {
        sim_replica_crash(replica);
    }
}

/* Until when such a fault lasts; NULL: it is over at once, or strikes one. */
static int64_t *
until_of(struct sim *sim, enum sim_fault fault)
{
    int64_t *const untils[SIM_FAULT_COUNT] = {
        [SIM_CREATE_FAILS] = &sim->create_fails_until_ns,
        [SIM_BACKEND_SLOW] = &sim->backend_slow_until_ns,
        [SIM_BACKEND_FULL] = &sim->backend_full_until_ns,
        [SIM_CALLS_LOST] = &sim->calls_lost_until_ns,
        [SIM_STORE_SLOW] = &sim->store_slow_until_ns,
        [SIM_STORE_STALLS] = &sim->store_stalled_until_ns,
        [SIM_STORE_LATE] = &sim->store_late_until_ns,
    };

    return untils[fault];
}

static void
strike(struct sim *sim, enum sim_fault fault)
{
    struct sim_replica *replica =
        &sim->replicas[wp_rng_below(&sim->rng, sim->n_replicas)];
    int64_t until_ns =
        sim->now_ns +
        sim_between(sim, SIM_MS, sim_chance(sim, 30) ? 10 * SIM_S : SIM_S);
    int64_t *lasting_ns = until_of(sim, fault);

    sim->n_faults++;
    sim_trace(sim, "fault: %s, r%u", sim_fault_name(fault), replica->index);
    if (lasting_ns != NULL) {
        *lasting_ns = until_ns;
        return;
    }
    switch (fault) {
    case SIM_SANDBOX_DIES:
        kill_one(sim);
        break;
    case SIM_TARGET_MOVES:
        move_target(sim);
        break;
    case SIM_STORE_AWAY:
        sim_store_away(sim, until_ns - sim->now_ns);
        break;
    case SIM_CONN_BREAKS:
        sim_in(sim, 0, replica, break_conn, replica, 0);
        break;
    case SIM_WALL_JUMPS:
        replica->wall_skew_ns = sim_between(sim, -sim->profile.skew_max_ns,
                                            sim->profile.skew_max_ns);
        break;
    case SIM_PAUSES:
        sim_replica_pause(replica, until_ns);
        break;
    case SIM_CRASHES:
        crash_one(sim, replica);
        break;
    case SIM_STORE_FORGETS:
        sim_failover_forget(sim);
        break;
    case SIM_STORE_RESTARTS:
        sim_failover_restart(sim, replica);
        break;
    case SIM_FEED_BREAKS:
        sim_feed_break(replica);
        break;
    case SIM_LEASES_END:
        sim_shape_end(sim, replica);
        break;
    case SIM_RETIRES:
        sim_shape_retire(sim);
        break;
    case SIM_FOUND:
        sim_shape_found(sim);
        break;
    case SIM_POOL_CHANGES:
        sim_shape_change(sim, until_ns - sim->now_ns);
        break;
    case SIM_POOL_GOES:
        sim_shape_remove(sim, until_ns - sim->now_ns);
        break;
    case SIM_REPORTS_REPEAT: /* All the time. */
    case SIM_CALLS_SLOW:
    case SIM_CALLERS_GO:
    case SIM_CREATE_FAILS: /* See until_of. */
    case SIM_BACKEND_SLOW:
    case SIM_BACKEND_FULL:
    case SIM_CALLS_LOST:
    case SIM_STORE_SLOW:
    case SIM_STORE_STALLS:
    case SIM_STORE_LATE:
    case SIM_FAULT_COUNT:
        break;
    }
}

static void
act(struct sim *sim, void *ctx, uint64_t arg)
{
    enum sim_fault fault =
        (enum sim_fault)wp_rng_below(&sim->rng, SIM_FAULT_COUNT);

    (void)ctx;
    (void)arg;
    if (sim->healed) {
        return;
    }
    for (uint32_t i = 0; i < SIM_FAULT_COUNT && !sim_has_fault(sim, fault);
         i++) {
        fault = (fault + 1) % SIM_FAULT_COUNT;
    }
    if (sim_has_fault(sim, fault)) {
        strike(sim, fault);
    }
    sim_in(sim, sim_between(sim, 0, 2 * sim->profile.fault_gap_ns), NULL, act,
           NULL, 0);
}

void
sim_nemesis_start(struct sim *sim)
{
    sim_failover_start(sim);
    act(sim, NULL, 0);
    if (sim->profile.scale.objective != WP_SCALE_PLAIN) {
        sim_in(sim, 2 * SIM_S, NULL, sim_shape_announce, NULL, 1);
    }
}
