/* What must be true, seen from outside: by what the clients were shown and by
 * what became of the sandboxes. */
#include <string.h>

#include "pool/base/assert.h"
#include "tests/sim/sim.h"

/* How long a lease may last that nobody was told of. */
#define UNSHOWN_MAX_NS (5 * SIM_S)

/* How much earlier than shown a lease may end: deadlines that outlive a process
 * are kept as wall time, in whole milliseconds, and clocks differ. */
static int64_t
allowance_ns(const struct sim *sim)
{
    return sim->profile.store == SIM_STORE_MEMORY && !sim->profile.noted
               ? 0
               : 2 * sim->profile.skew_max_ns + 2 * SIM_MS;
}

bool
sim_oracle_is_live(const struct sim *sim, const struct sim_sandbox *sandbox)
{
    return sandbox->shown.claim_id[0] != '\0' && !sandbox->shown.given_up &&
           sim->now_ns < sandbox->shown.live_until_ns;
}

void
sim_oracle_shown(struct sim *sim, struct sim_client *client,
                 const struct wp_grant *grant, int64_t until_ns)
{
    struct sim_sandbox *sandbox = sim_backend_find(sim, grant->sandbox);
    struct sim_shown *shown;

    sim->n_shown++;
    sim_trace(sim, "c%u: is shown %s, fence %llu, for claim %s", client->index,
              grant->sandbox, (unsigned long long)grant->fence,
              client->claim_id);
    if (sandbox == NULL || !sandbox->answers || grant->endpoint[0] == '\0') {
        sim_wrong(sim, "I3: %s was shown before it answered", grant->sandbox);
    }
    if (sandbox->bound != sim_call_binding(sim, client)) {
        sim_wrong(sim, "I8: %s is shown to claim %s, and has %s binding",
                  sandbox->name, client->claim_id,
                  sandbox->bound == 0 ? "no" : "another");
    }
    shown = &sandbox->shown;
    if (shown->claim_id[0] != '\0' &&
        strcmp(shown->claim_id, client->claim_id) != 0) {
        sim_wrong(sim, "I1, I3: %s was shown to claim %s, and now to %s",
                  sandbox->name, shown->claim_id, client->claim_id);
    }
    if (sandbox->claim_told[0] != '\0' &&
        strcmp(sandbox->claim_told, client->claim_id) != 0) {
        sim_wrong(sim,
                  "I3: %s was told to be claim %s's, and is now shown to "
                  "%s",
                  sandbox->name, sandbox->claim_told, client->claim_id);
    }
    if (client->holds != NULL && client->holds != sandbox &&
        sim_oracle_is_live(sim, client->holds)) {
        sim_wrong(sim, "I2: claim %s has %s, and is now shown %s",
                  client->claim_id, client->holds->name, sandbox->name);
    }
    if (shown->claim_id[0] != '\0' && shown->fence != grant->fence) {
        sim_wrong(sim, "I2: claim %s has fence %llu of %s, and now %llu",
                  client->claim_id, (unsigned long long)shown->fence,
                  sandbox->name, (unsigned long long)grant->fence);
    }
    if (shown->claim_id[0] == '\0') {
        shown->live_until_ns = until_ns - allowance_ns(sim);
    }
    memcpy(shown->claim_id, client->claim_id, sizeof shown->claim_id);
    shown->fence = grant->fence;
    client->holds = sandbox;
    if (sandbox->destroying && !sandbox->dead &&
        sim_oracle_is_live(sim, sandbox)) {
        sim_wrong(sim, "I1: %s was destroyed before its lease was over",
                  sandbox->name);
    }
}

void
sim_oracle_told(struct sim *sim, const char *claim_id, const char *name)
{
    struct sim_sandbox *sandbox = sim_backend_find(sim, name);

    if (sandbox == NULL) {
        return; /* A replica behind tells of one that is gone. */
    }
    if (sandbox->shown.claim_id[0] != '\0' &&
        strcmp(sandbox->shown.claim_id, claim_id) != 0) {
        sim_wrong(sim, "I3: %s was shown to claim %s, and is told to be %s's",
                  sandbox->name, sandbox->shown.claim_id, claim_id);
    }
    (void)snprintf(sandbox->claim_told, sizeof sandbox->claim_told, "%s",
                   claim_id);
    sandbox->told = true;
}

void
sim_oracle_renewed(struct sim *sim, struct sim_client *client,
                   int64_t received_ns, int64_t until_ns)
{
    struct sim_sandbox *sandbox = client->holds;
    struct sim_shown *shown = &sandbox->shown;
    /* A renewal may have been overtaken by a later one. The later one counts,
     * and may shorten the lease; a durable store keeps the longer one. */
    bool counts = sim->profile.store == SIM_STORE_MEMORY &&
                  received_ns >= shown->renewed_ns;

    until_ns -= allowance_ns(sim);
    if (counts || until_ns > shown->live_until_ns) {
        shown->live_until_ns = until_ns;
    }
    if (received_ns > shown->renewed_ns) {
        shown->renewed_ns = received_ns;
    }
    if (sandbox->destroying && !sandbox->dead &&
        sim_oracle_is_live(sim, sandbox)) {
        sim_wrong(sim, "I1: %s was destroyed, and its lease then renewed",
                  sandbox->name);
    }
}

void
sim_oracle_crashed(struct sim *sim, struct sim_sandbox *sandbox,
                   int64_t noted_until_ns)
{
    struct sim_shown *shown = &sandbox->shown;

    if (sim_backend_is_noted(sandbox, shown->claim_id, shown->fence)) {
        noted_until_ns -= allowance_ns(sim);
        if (noted_until_ns < shown->live_until_ns) {
            shown->live_until_ns = noted_until_ns;
        }
        return;
    }
    if (sim_oracle_is_live(sim, sandbox)) {
        sim->n_met[SIM_MET_FORGOTTEN]++;
        sim_trace(sim, "the lease of %s is forgotten", sandbox->name);
    }
    sim_client_forget(sim, sandbox);
    *shown = (struct sim_shown){.fence = 0};
    sandbox->claim_told[0] = '\0';
}

void
sim_oracle_destroy(struct sim *sim, struct sim_sandbox *sandbox)
{
    if (sim_oracle_is_live(sim, sandbox) && !sandbox->dead) {
        sim_wrong(sim, "I1: %s is destroyed under the live lease of claim %s",
                  sandbox->name, sandbox->shown.claim_id);
    }
}

/* With so many claims that wait, which add to what is made where cold starts
 * are allowed, and with an objective up to its max. */
static uint32_t
most_with(const struct sim *sim, uint32_t target, uint32_t waiting)
{
    uint32_t most = target + waiting;

    if (sim->profile.cold_start == WP_COLD_ALLOWED) {
        return most;
    }
    if (sim->profile.scale.objective == WP_SCALE_PLAIN) {
        return target;
    }
    most = most < sim->profile.scale.max ? most : sim->profile.scale.max;
    return most > target ? most : target;
}

/* At the very moment of the order, wherever the target is moving to. */
void
sim_oracle_ordered(struct sim *sim, struct sim_replica *replica)
{
    struct wp_pool_stats stats;
    uint32_t most;

    wp_pools_stats(replica->pools, 0, &stats);
    most = most_with(sim, stats.spec.target, stats.waiting);
    if (stats.warming + stats.ready > most) {
        sim_wrong(sim, "I7: r%u orders the %uth of %u that are wanted",
                  replica->index, stats.warming + stats.ready, most);
    }
}

/* What a scaler says, within what it was told. By hand a pool is set at once,
 * and its scaler takes that up in its next turn. */
static void
check_scale(struct sim *sim, const struct sim_replica *replica,
            const struct wp_pool_stats *stats)
{
    const struct wp_scale_policy *policy = &sim->profile.scale;

    if (!stats->scaled || !replica->keeper || stats->scale.number == 0 ||
        stats->scale.reason == WP_SCALE_BY_HAND ||
        stats->replicas != sim->profile.target) {
        return;
    }
    if (stats->scale.target > policy->max) {
        sim_wrong(sim, "r%u is scaled to %u, where %u is the most",
                  replica->index, stats->scale.target, policy->max);
    }
}

static uint32_t
count_foreign(const struct sim *sim)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < sim->n_sandboxes; i++) {
        count += sim->sandboxes[i]->foreign && !sim->sandboxes[i]->gone ? 1 : 0;
    }
    return count;
}

/* In memory there are no claims but those that were granted here; elsewhere what
 * is found again counts, however much it is. That an account counts the claims
 * that there are, wp_pools_check sees. */
static void
check_tenants(struct sim *sim, struct sim_replica *replica)
{
    uint32_t most = sim->profile.tenant_leases_max;
    struct wp_tenant_stats uses[8];
    uint32_t cursor = 0;
    uint32_t n;

    if (most == 0 || sim->profile.store != SIM_STORE_MEMORY ||
        sim->profile.noted) {
        return;
    }
    n = wp_pools_tenants(replica->pools, UINT32_MAX, NULL, &cursor, uses,
                         WP_ARRAY_LEN(uses));
    for (uint32_t i = 0; i < n; i++) {
        if (uses[i].leases + uses[i].waiting > most) {
            sim_wrong(sim, "r%u: tenant %s has %u claims, where %u is the most",
                      replica->index, uses[i].tenant,
                      uses[i].leases + uses[i].waiting, most);
        }
    }
}

static void
check_counts(struct sim *sim, struct sim_replica *replica)
{
    struct wp_pool_stats stats;
    uint32_t most = sim->target_max;

    wp_pools_stats(replica->pools, 0, &stats);
    if (stats.created_total != stats.warming + stats.ready + stats.leased +
                                   stats.quarantined + stats.dying +
                                   stats.destroyed_total) {
        sim_wrong(sim, "I4: r%u lost count of its sandboxes", replica->index);
    }
    check_scale(sim, replica, &stats);
    if (!replica->keeper) {
        return; /* It makes none, and may see more than there are. */
    }
    most = most_with(sim, most, SIM_CLIENTS_MAX);
    if (sim_has_fault(sim, SIM_FOUND) || sim->profile.noted) {
        most += count_foreign(sim);
    }
    if (stats.warming > most) {
        sim_wrong(sim, "I7: r%u makes %u at once, where %u is the most",
                  replica->index, stats.warming, most);
    }
    /* An undo, or a grant that the store did not take, brings back what was
     * replaced already. */
    if (stats.warming + stats.ready > most + SIM_CLIENTS_MAX) {
        sim_wrong(sim, "I7: r%u has %u in stock, where %u is the most",
                  replica->index, stats.warming + stats.ready,
                  most + SIM_CLIENTS_MAX);
    }
}

/* Nothing keeps the replicas from taking back a lease. */
static bool
is_calm(const struct sim *sim)
{
    if (!sim_store_reachable(sim) || sim->lossy ||
        sim->store_slow_until_ns > sim->now_ns ||
        sim->store_late_until_ns > sim->now_ns) {
        return false;
    }
    for (uint32_t i = 0; i < sim->n_replicas; i++) {
        const struct sim_replica *replica = &sim->replicas[i];

        if (replica->pools == NULL || replica->paused_until_ns > sim->now_ns ||
            !replica->conn.up ||
            (sim->profile.store == SIM_STORE_SHARED &&
             replica->generation == 0)) {
            return false;
        }
    }
    return true;
}

/* What the store has as held, and no answer has told of, is not held for long.
 * An odd deadline says that a repeat was about to be told. */
static void
check_unshown(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->kept.n; i++) {
        const struct wp_lease_record *record = &sim->kept.records[i];
        struct sim_sandbox *sandbox = sim_backend_find(sim, record->sandbox);

        if (sandbox == NULL || record->state != WP_RECORD_HELD ||
            sandbox->told || (record->deadline_wall_ms & 1) != 0 ||
            sim_call_waits(sim, record->claim_id)) {
            if (sandbox != NULL) {
                sim->n_met[SIM_MET_TAKEN_BACK] +=
                    sandbox->unshown_since_ns != 0 && !sandbox->told;
                sandbox->unshown_since_ns = 0;
            }
        } else if (sandbox->unshown_since_ns <= sim->uncalm_ns) {
            sandbox->unshown_since_ns = sim->now_ns;
        } else if (sim->now_ns - sandbox->unshown_since_ns > UNSHOWN_MAX_NS) {
            sim_wrong(sim, "%s is held for claim %s, and nobody was told",
                      sandbox->name, record->claim_id);
        }
    }
}

void
sim_oracle_step(struct sim *sim)
{
    struct sim_replica *replica = sim->stepped;

    if (!is_calm(sim)) {
        sim->uncalm_ns = sim->now_ns;
    }
    /* Who crashes may have told somebody just before. */
    if (sim->profile.store != SIM_STORE_MEMORY &&
        !sim_has_fault(sim, SIM_CRASHES) &&
        (sim->careful || sim->n_fired % 64 == 0)) {
        check_unshown(sim);
    }
    if (replica == NULL || replica->pools == NULL) {
        return;
    }
    /* They cost more than the step itself. */
    if (sim->careful || sim->n_fired % 8 == 0) {
        check_counts(sim, replica);
        check_tenants(sim, replica);
    }
    if (sim->careful || sim->n_fired % 128 == 0) {
        wp_pools_check(replica->pools);
    }
}

void
sim_oracle_describe(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->n_replicas; i++) {
        struct wp_pool_stats stats;

        if (sim->replicas[i].pools == NULL) {
            sim_trace(sim, "r%u: is down", i);
            continue;
        }
        wp_pools_stats(sim->replicas[i].pools, 0, &stats);
        sim_trace(sim,
                  "r%u%s: %u warming, %u ready, %u leased, %u quarantined, %u "
                  "dying, %u waiting; target %u; %s; last failure: %s",
                  i, sim->replicas[i].keeper ? ", keeper" : "", stats.warming,
                  stats.ready, stats.leased, stats.quarantined, stats.dying,
                  stats.waiting, sim->target,
                  stats.breaker_open ? "breaker open" : "breaker closed",
                  stats.last_failure);
    }
    for (uint32_t i = 0; i < sim->n_replicas; i++) {
        struct wp_lease_record known[SIM_SLOTS_MAX];
        uint32_t cursor = 0;
        uint32_t n =
            sim->replicas[i].pools == NULL
                ? 0
                : wp_pools_known_records(sim->replicas[i].pools, 0, false,
                                         &cursor, known, SIM_SLOTS_MAX);

        for (uint32_t k = 0; k < n; k++) {
            sim_trace(sim, "r%u knows: %s is %d, fence %llu, claim %s", i,
                      known[k].sandbox, (int)known[k].state,
                      (unsigned long long)known[k].fence, known[k].claim_id);
        }
    }
    for (uint32_t i = 0; i < sim->kept.n; i++) {
        const struct wp_lease_record *record = &sim->kept.records[i];

        sim_trace(sim, "record: %s is %d, fence %llu, claim %s",
                  record->sandbox, (int)record->state,
                  (unsigned long long)record->fence, record->claim_id);
    }
    for (uint32_t i = 0; i < sim->n_sandboxes; i++) {
        const struct sim_sandbox *sandbox = sim->sandboxes[i];

        if (!sandbox->gone) {
            sim_trace(sim, "sandbox: %s of r%u, slot %u.%u%s%s%s",
                      sandbox->name, sandbox->owner->index, sandbox->ref.index,
                      sandbox->ref.generation,
                      sandbox->answers ? ", answers" : "",
                      sandbox->dead ? ", dead" : "",
                      sandbox->destroying ? ", being destroyed" : "");
        }
    }
    for (uint32_t i = 0; i < sim->profile.n_clients; i++) {
        if (sim->clients[i].state != SIM_IDLE) {
            sim_trace(sim, "c%u: is not done with %s", i,
                      sim->clients[i].claim_id);
        }
    }
}

/* Of the pool, in the end: as it was set, or as its scaler has it. */
static uint32_t
final_target(const struct sim *sim)
{
    struct wp_pool_stats stats;

    if (sim->profile.scale.objective == WP_SCALE_PLAIN || sim->lock == NULL ||
        sim->lock->pools == NULL) {
        return sim->target;
    }
    wp_pools_stats(sim->lock->pools, 0, &stats);
    return stats.spec.target;
}

const char *
sim_oracle_unrest(struct sim *sim)
{
    uint32_t target = final_target(sim);
    uint32_t open = 0;

    for (uint32_t i = 0; i < sim->n_replicas; i++) {
        struct wp_pool_stats stats;

        if (sim->replicas[i].pools == NULL) {
            return "a replica is down";
        }
        sim_replica_enter(&sim->replicas[i]);
        wp_pools_stats(sim->replicas[i].pools, 0, &stats);
        wp_pools_check(sim->replicas[i].pools);
        if (stats.ready != target) {
            return "a pool is not at its target";
        }
        if (stats.leased + stats.quarantined + stats.dying + stats.warming +
                stats.waiting !=
            0) {
            return "a slot or a claim is left over";
        }
    }
    for (uint32_t i = 0; i < sim->kept.n; i++) {
        open += sim->kept.records[i].state == WP_RECORD_OPEN ? 1 : 0;
    }
    if (sim->profile.store != SIM_STORE_MEMORY &&
        (open != target || sim->kept.n != open)) {
        return "a record is left over, or one is missing";
    }
    if (sim_backend_living(sim) != target) {
        return "a sandbox is left over";
    }
    if (sim->calls_open > 0) {
        return "a call was never answered";
    }
    for (uint32_t i = 0; i < sim->profile.n_clients; i++) {
        if (sim->clients[i].state != SIM_IDLE) {
            return "a client is not done";
        }
    }
    return NULL;
}
