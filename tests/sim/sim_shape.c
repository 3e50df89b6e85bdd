/* What others do: pools that change and go, leases that are ended for their
 * holders, sandboxes that are given up or come from elsewhere. */
#include <string.h>

#include "pool/base/assert.h"
#include "tests/sim/sim.h"

/* The n-th of those that fit, n at random; NULL when none does. */
static struct sim_sandbox *
pick(struct sim *sim,
     bool (*fits)(const struct sim *sim, const struct sim_sandbox *sandbox))
{
    struct sim_sandbox *picked = NULL;
    uint32_t n = 0;

    for (uint32_t i = 0; i < sim->n_sandboxes; i++) {
        if (fits(sim, sim->sandboxes[i]) && wp_rng_below(&sim->rng, ++n) == 0) {
            picked = sim->sandboxes[i];
        }
    }
    return picked;
}

void
sim_shape_end(struct sim *sim, struct sim_replica *replica)
{
    struct sim_sandbox *sandbox = pick(sim, sim_oracle_is_live);
    struct wp_claim_info info;

    if (sandbox == NULL || replica->pools == NULL) {
        return;
    }
    sim_replica_enter(replica);
    if (wp_pools_find_sandbox(replica->pools, wp_str_from(sandbox->name),
                              &info) == WP_OK &&
        strcmp(info.claim_id, sandbox->shown.claim_id) == 0) {
        sim_trace(sim, "r%u: ends the lease of %s", replica->index,
                  sandbox->name);
        sandbox->shown.given_up = true;
        wp_pools_end(replica->pools, info.ref);
    }
}

static bool
may_retire(const struct sim *sim, const struct sim_sandbox *sandbox)
{
    const struct sim_replica *owner = sandbox->owner;

    (void)sim;
    return !sandbox->gone && owner->keeper &&
           sim_replica_lives(owner, sandbox->owner_life);
}

void
sim_shape_retire(struct sim *sim)
{
    struct sim_sandbox *sandbox = pick(sim, may_retire);

    if (sandbox != NULL) {
        sim_trace(sim, "r%u: retires %s", sandbox->owner->index, sandbox->name);
        sim_replica_enter(sandbox->owner);
        wp_pools_retire(sandbox->owner->pools, sandbox->ref,
                        WP_STR("it is old"));
    }
}

void
sim_shape_found(struct sim *sim)
{
    struct sim_replica *keeper = sim->lock;

    if (keeper != NULL && keeper->keeper && keeper->pools != NULL) {
        sim_backend_find_foreign(keeper);
    }
}

void
sim_shape_announce(struct sim *sim, void *ctx, uint64_t arg)
{
    struct sim_replica *keeper = sim->lock;
    struct wp_err err;
    char id[24];

    (void)ctx;
    if (sim->healed) {
        return;
    }
    (void)snprintf(id, sizeof id, "%llu", (unsigned long long)arg);
    if (keeper != NULL && keeper->keeper && keeper->pools != NULL) {
        uint32_t n = (uint32_t)sim_between(sim, 1, 4);
        int64_t for_ns = sim_between(sim, SIM_S, 10 * SIM_S);
        enum wp_status status;

        sim_replica_enter(keeper);
        status = wp_pools_scale_reserve(
            keeper->pools, 0, wp_str_from(id), n, keeper->clock.now_wall_ns,
            keeper->clock.now_wall_ns + for_ns, &err);
        sim_trace(sim, "r%u: is told of demand %s: %s", keeper->index, id,
                  wp_status_name(status));
    }
    sim_in(sim, sim_between(sim, SIM_S, 9 * SIM_S), NULL, sim_shape_announce,
           NULL, arg + 1);
}

/* The pool as it is to be, on every replica that lives. */
static void
restore(struct sim *sim, void *ctx, uint64_t arg)
{
    (void)ctx;
    (void)arg;
    for (uint32_t i = 0; i < sim->n_replicas; i++) {
        struct sim_replica *replica = &sim->replicas[i];
        struct wp_pool_spec spec = sim_replica_spec(replica);
        struct wp_err err;

        if (replica->pools == NULL) {
            continue;
        }
        sim_replica_enter(replica);
        if (wp_pools_index(replica->pools, WP_STR("default"), WP_STR("p")) ==
            UINT32_MAX) {
            uint32_t index = UINT32_MAX;

            sim_trace(sim, "r%u: adds its pool again", i);
            WP_ASSERT(wp_pools_add(replica->pools, &spec, &index, &err) ==
                          WP_OK &&
                      index == 0);
        } else {
            WP_ASSERT(wp_pools_update(replica->pools, 0, &spec, &err) == WP_OK);
        }
    }
}

void
sim_shape_change(struct sim *sim, int64_t for_ns)
{
    uint32_t inflight =
        (uint32_t)wp_rng_below(&sim->rng, sim->profile.target + 1);
    uint32_t waiters = (uint32_t)wp_rng_below(&sim->rng, 2 * SIM_CLIENTS_MAX);

    for (uint32_t i = 0; i < sim->n_replicas; i++) {
        struct sim_replica *replica = &sim->replicas[i];
        struct wp_pool_spec spec = sim_replica_spec(replica);

        if (replica->pools != NULL) {
            spec.create_inflight_max = inflight;
            spec.waiters_max = waiters;
            spec.tenant_waiters_max = waiters;
            spec.wait_max_ns = SIM_S;
            sim_replica_enter(replica);
            (void)wp_pools_update(replica->pools, 0, &spec, NULL);
        }
    }
    sim_in(sim, for_ns, NULL, restore, NULL, 0);
}

void
sim_shape_remove(struct sim *sim, int64_t for_ns)
{
    for (uint32_t i = 0; i < sim->n_replicas; i++) {
        struct sim_replica *replica = &sim->replicas[i];

        if (replica->pools != NULL) {
            sim_replica_enter(replica);
            wp_pools_remove(replica->pools, 0);
        }
    }
    sim_in(sim, for_ns, NULL, restore, NULL, 0);
}
