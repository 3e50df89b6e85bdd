#include <stdio.h>
#include <string.h>

#include "pool/base/assert.h"
#include "tests/sim/sim.h"

#define WALL_START_NS (INT64_C(1700000000) * SIM_S)

void
sim_replica_enter(struct sim_replica *replica)
{
    struct sim *sim = replica->sim;

    replica->clock.now_mono_ns = sim->now_ns;
    replica->clock.now_wall_ns =
        WALL_START_NS + sim->now_ns + replica->wall_skew_ns;
}

bool
sim_replica_lives(const struct sim_replica *replica, uint32_t life)
{
    return replica->pools != NULL && !replica->ending && replica->life == life;
}

static void take_turn(struct sim *sim, void *ctx, uint64_t arg);

static void
plan_turn(struct sim_replica *replica, int64_t at_ns)
{
    if (replica->turn_at_ns > replica->sim->now_ns &&
        replica->turn_at_ns <= at_ns) {
        return;
    }
    replica->turn_at_ns = at_ns;
    replica->turn++;
    sim_at(replica->sim, at_ns, replica, take_turn, replica, replica->turn);
}

static void
take_turn(struct sim *sim, void *ctx, uint64_t arg)
{
    struct sim_replica *replica = ctx;
    int64_t next_ns;

    if (replica->pools == NULL || arg != replica->turn) {
        return;
    }
    sim_replica_enter(replica);
    replica->turn_at_ns = WP_TIME_NEVER;
    next_ns = wp_pools_run(replica->pools);
    if (next_ns < WP_TIME_NEVER) {
        /* A thread that is told to come back at once needs a moment too. */
        plan_turn(replica,
                  next_ns > sim->now_ns ? next_ns : sim->now_ns + WP_NS_PER_US);
    }
}

/* The core asks for a turn; a sleeping thread takes its time to wake. */
static void
wake(void *ctx)
{
    struct sim_replica *replica = ctx;
    struct sim *sim = replica->sim;

    plan_turn(replica, sim->now_ns + 1 + sim_between(sim, 0, 2 * SIM_MS));
}

struct wp_pool_spec
sim_replica_spec(const struct sim_replica *replica)
{
    const struct sim_profile *profile = &replica->sim->profile;
    struct wp_pool_spec spec;

    wp_pool_spec_init(&spec);
    (void)snprintf(spec.name, sizeof spec.name, "p");
    (void)snprintf(spec.template_name, sizeof spec.template_name, "t");
    spec.target = replica->sim->target;
    spec.waiters_max = SIM_CLIENTS_MAX / 2;
    spec.tenant_waiters_max = SIM_CLIENTS_MAX / 4;
    spec.tenant_leases_max = profile->tenant_leases_max;
    spec.create_inflight_max = profile->target;
    spec.ttl_default_ns = profile->ttl_max_ns / 2;
    spec.ttl_max_ns = profile->ttl_max_ns;
    spec.hold_max_ns = WP_TTL_MAX_NS;
    spec.wait_max_ns = 10 * SIM_S;
    spec.ready_within_ns = 5 * SIM_S;
    spec.cold_start = profile->cold_start;
    spec.scale = profile->scale;
    return spec;
}

static void
add_pool(struct sim_replica *replica)
{
    struct wp_pool_spec spec = sim_replica_spec(replica);
    struct wp_err err;

    WP_ASSERT(wp_pools_add(replica->pools, &spec, NULL, &err) == WP_OK);
}

static void
load(struct sim_replica *replica)
{
    struct sim *sim = replica->sim;

    for (uint32_t i = 0; i < sim->kept.n; i++) {
        wp_pools_on_record(replica->pools, &sim->kept.records[i]);
    }
}

static void
become_keeper(struct sim_replica *replica)
{
    struct sim *sim = replica->sim;

    sim_trace(sim, "r%u: is the keeper", replica->index);
    sim->lock = replica;
    replica->keeper = true;
    sim_backend_take_over(replica);
    wp_pools_lose_unseen(replica->pools);
    wp_pools_set_keeper(replica->pools, true);
}

/* Whoever wants the lock and finds it free has it; to be the keeper it must know
 * the records as they are. */
static void
take_lock(struct sim *sim, void *ctx, uint64_t arg)
{
    struct sim_replica *replica = ctx;

    if (!sim_replica_lives(replica, (uint32_t)arg) || sim->lock != NULL) {
        return;
    }
    sim_trace(sim, "r%u: has the lock", replica->index);
    sim->lock = replica;
    sim_feed_follow(replica);
}

/* It has served for a moment, with the lock, before it looks what there is. */
static void
keep_later(struct sim *sim, void *ctx, uint64_t arg)
{
    struct sim_replica *replica = ctx;

    if (sim_replica_lives(replica, (uint32_t)arg) && !replica->keeper &&
        replica->generation != 0) {
        sim_replica_enter(replica);
        become_keeper(replica);
        plan_turn(replica, sim->now_ns);
    }
}

/* A sandbox that it does not know, a keeper asks the store for; so it begins
 * when that is open to it. */
void
sim_replica_synced(struct sim_replica *replica)
{
    if (replica->sim->lock == replica && !replica->keeper &&
        replica->generation != 0) {
        become_keeper(replica);
    }
}

static void
drop_lock(struct sim_replica *replica)
{
    struct sim *sim = replica->sim;

    if (sim->lock != replica) {
        return;
    }
    sim->lock = NULL;
    for (uint32_t i = 0; i < sim->n_replicas; i++) {
        struct sim_replica *other = &sim->replicas[i];

        if (other->pools != NULL && other != replica) {
            sim_in(sim, sim_between(sim, 0, 20 * SIM_MS), other, take_lock,
                   other, other->life);
        }
    }
}

static void
know_peers(struct sim_replica *replica)
{
    uint64_t ids[SIM_REPLICAS_MAX];

    for (uint32_t i = 0; i < replica->sim->n_replicas; i++) {
        ids[i] = i + 1;
    }
    wp_pools_set_replicas(replica->pools, replica->index + 1, ids,
                          replica->sim->n_replicas);
}

static void
start(struct sim *sim, void *ctx, uint64_t arg)
{
    struct sim_replica *replica = ctx;
    struct wp_pools_config config = {
        .slots_max = SIM_SLOTS_MAX,
        .claims_max = 2 * SIM_SLOTS_MAX,
        .clock = &replica->clock.clock,
        .backend = sim_backend_port(replica),
        .store = sim_store_port(replica),
        .hash_key = {1, 2},
        .seed = wp_rng_next(&sim->rng),
        .wake = wake,
        .ctx = replica,
    };
    struct wp_err err;
    bool later;

    (void)arg;
    if (!sim_store_reachable(sim)) {
        /* It would not get the records: it gives up and is started again. */
        sim_in(sim, sim_between(sim, SIM_MS, SIM_S), replica, start, replica,
               0);
        return;
    }
    memset(config.token_key, 7, sizeof config.token_key);
    replica->life++;
    replica->turn_at_ns = WP_TIME_NEVER;
    replica->ending = false;
    replica->keeper = false;
    replica->start_ns = sim->now_ns;
    replica->generation = sim->kept.closed ? 0 : sim->kept.generation;
    replica->recovering = 0;
    replica->distrusted = 0;
    replica->recovery_nr++;
    replica->store_run = sim->kept.run;
    replica->admin_run = sim->kept.run;
    /* One that this one had heard of may have gone long ago. */
    replica->one_left =
        sim_has_fault(sim, SIM_STORE_RESTARTS) && sim_chance(sim, 50);
    sim_conn_init(&replica->conn, sim->kept.run);
    wp_list_init(&replica->calls);
    sim_replica_enter(replica);
    replica->pools = wp_pools_create(&config, &err);
    WP_ASSERT(replica->pools != NULL);
    sim_trace(sim, "r%u: starts, life %u", replica->index, replica->life);
    know_peers(replica);
    add_pool(replica);
    later = sim->profile.store == SIM_STORE_SHARED && sim->lock == NULL &&
            replica->generation != 0 && (sim->seed + replica->life) % 3 != 0;
    if (later) {
        wp_pools_hold_unseen(replica->pools);
    }
    load(replica);
    if (sim->profile.store == SIM_STORE_SHARED) {
        sim_feed_follow(replica);
    }
    if (later) {
        sim->lock = replica;
        wp_pools_set_keeper(replica->pools, false);
        sim_in(sim, sim_between(sim, SIM_MS, 2 * SIM_S), replica, keep_later,
               replica, replica->life);
    } else if (sim->lock == NULL && replica->generation != 0) {
        become_keeper(replica);
    } else {
        sim->lock = sim->lock != NULL ? sim->lock : replica;
        wp_pools_set_keeper(replica->pools, false);
    }
    if (replica->generation == 0) {
        sim_recover_doubt(replica);
    }
    plan_turn(replica, sim->now_ns);
}

void
sim_replica_init(struct sim *sim, uint32_t index)
{
    struct sim_replica *replica = &sim->replicas[index];

    replica->sim = sim;
    replica->index = index;
    wp_clock_manual_init(&replica->clock, sim->now_ns,
                         WALL_START_NS + sim->now_ns);
    start(sim, replica, 0);
}

int64_t
sim_replica_true_ns(const struct sim_replica *replica, int64_t wall_ms)
{
    return wall_ms * SIM_MS - WALL_START_NS - replica->wall_skew_ns;
}

/* Its process is gone, with everything in flight. */
static void
end(struct sim_replica *replica)
{
    /* From here on nothing of what the core says leaves the replica. */
    replica->ending = true;
    if (replica->paused_until_ns <= replica->sim->now_ns) {
        replica->silent_since_ns = replica->sim->now_ns;
    }
    sim_replica_enter(replica);
    sim_call_drop_all(replica);
    sim_conn_drop(replica);
    wp_pools_destroy(replica->pools);
    replica->pools = NULL;
    replica->keeper = false;
    sim_feed_fini(replica);
    drop_lock(replica);
}

void
sim_replica_pause(struct sim_replica *replica, int64_t until_ns)
{
    int64_t now_ns = replica->sim->now_ns;

    if (replica->pools != NULL && replica->paused_until_ns <= now_ns) {
        replica->silent_since_ns = now_ns;
    }
    if (until_ns > replica->paused_until_ns) {
        replica->paused_until_ns = until_ns;
    }
}

void
sim_replica_crash(struct sim_replica *replica)
{
    struct sim *sim = replica->sim;

    if (replica->pools == NULL) {
        return;
    }
    sim_trace(sim, "r%u: crashes", replica->index);
    end(replica);
    for (uint32_t i = 0; sim->profile.noted && i < sim->n_sandboxes; i++) {
        struct sim_sandbox *sandbox = sim->sandboxes[i];

        sim_oracle_crashed(
            sim, sandbox,
            sim_replica_true_ns(replica, sandbox->note.until_wall_ms));
    }
    sim_in(sim,
           sim_between(sim, SIM_MS,
                       sim_chance(sim, 30) ? 8 * SIM_S : 500 * SIM_MS),
           replica, start, replica, 0);
}

void
sim_replica_fini(struct sim_replica *replica)
{
    if (replica->pools != NULL) {
        end(replica);
    }
}
