/* A shared store that comes back without its last writes, and the way out: it is
 * closed under a new generation until every replica has told what it knows. The
 * replicas all live through it; what is lost with one of them is another matter.
 */
#include <stdlib.h>
#include <string.h>

#include "pool/base/assert.h"
#include "pool/lease_rules.h"
#include "tests/sim/sim.h"

static void
take_backup(struct sim *sim, void *ctx, uint64_t arg)
{
    (void)ctx;
    (void)arg;
    if (!sim->store_closed) {
        free(sim->backup);
        sim->backup = sim_alloc((sim->n_records + 1) * sizeof *sim->backup);
        if (sim->n_records > 0) {
            memcpy(sim->backup, sim->records,
                   sim->n_records * sizeof *sim->backup);
        }
        sim->n_backup = sim->n_records;
        sim->backup_ns = sim->now_ns;
    }
    if (!sim->healed) {
        sim_in(sim, sim_between(sim, SIM_MS, 1500 * SIM_MS), NULL, take_backup,
               NULL, 0);
    }
}

void
sim_recover_start(struct sim *sim)
{
    if (sim->profile.store == SIM_STORE_SHARED &&
        sim_has_fault(sim, SIM_STORE_FORGETS)) {
        take_backup(sim, NULL, 0);
    }
}

/* Is what b says of the sandbox newer than what a says? */
static bool
is_newer(const struct wp_lease_record *b, const struct wp_lease_record *a)
{
    if (a->fence != b->fence) {
        return b->fence > a->fence;
    }
    return a->state != b->state ? b->state > a->state
                                : b->deadline_wall_ms > a->deadline_wall_ms;
}

static void
assert_record(struct sim *sim, const struct wp_lease_record *told)
{
    struct wp_lease_record *record = NULL;

    for (uint32_t i = 0; i < sim->n_records; i++) {
        struct wp_lease_record *have = &sim->records[i];

        if (memcmp(have->uid, told->uid, sizeof told->uid) == 0) {
            record = have;
        } else if (wp_record_is_claimed(have->state) &&
                   wp_record_is_claimed(told->state) &&
                   strcmp(have->claim_id, told->claim_id) == 0 &&
                   strcmp(have->tenant, told->tenant) == 0) {
            return;
        }
    }
    if (record == NULL) {
        sim_store_add(sim, told);
    } else if (is_newer(told, record)) {
        *record = *told;
    }
}

/* Records of sandboxes that were forgotten since the backup are back: whoever
 * has the sandboxes ends them before the store opens. Without this, replicas
 * would grant what is gone. */
static void
retire_gone(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->n_records; i++) {
        struct wp_lease_record *record = &sim->records[i];
        const struct sim_sandbox *sandbox =
            sim_backend_find(sim, record->sandbox);

        if (sandbox->gone) {
            record->state = WP_RECORD_ENDED;
            record->claim_id[0] = '\0';
            record->tenant[0] = '\0';
        }
    }
}

static void
open_again(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->n_replicas; i++) {
        if (!sim->replicas[i].asserted) {
            return;
        }
    }
    retire_gone(sim);
    sim_trace(sim, "store: open again, with %u records", sim->n_records);
    sim->store_closed = false;
    for (uint32_t i = 0; i < sim->n_replicas; i++) {
        sim->replicas[i].generation = sim->generation;
        sim_feed_follow(&sim->replicas[i]);
    }
}

static void
recover(struct sim *sim, void *ctx, uint64_t arg)
{
    struct sim_replica *replica = ctx;
    struct wp_lease_record known[SIM_SLOTS_MAX];
    uint32_t cursor = 0;
    uint32_t n;

    (void)arg;
    sim_replica_enter(replica);
    n = wp_pools_known_records(replica->pools, 0, false, &cursor, known,
                               SIM_SLOTS_MAX);
    sim_trace(sim, "r%u: tells the store %u records", replica->index, n);
    for (uint32_t i = 0; i < n; i++) {
        assert_record(sim, &known[i]);
    }
    replica->asserted = true;
    open_again(sim);
}

static void
lose_store(struct sim *sim, void *ctx, uint64_t arg)
{
    (void)sim;
    (void)arg;
    sim_conn_break(ctx);
    sim_feed_break(ctx);
}

void
sim_recover_forget(struct sim *sim)
{
    if (sim->store_closed || sim->backup == NULL) {
        return;
    }
    for (uint32_t i = 0; i < sim->n_replicas; i++) {
        if (sim->replicas[i].pools == NULL ||
            sim->replicas[i].start_ns > sim->backup_ns) {
            return;
        }
    }
    sim_trace(sim, "store: comes back as it was %lld ms ago",
              (long long)((sim->now_ns - sim->backup_ns) / SIM_MS));
    sim->store_closed = true;
    sim->generation++;
    sim_store_replace(sim, sim->backup, sim->n_backup);
    for (uint32_t i = 0; i < sim->n_replicas; i++) {
        struct sim_replica *replica = &sim->replicas[i];

        replica->asserted = false;
        sim_in(sim, sim_between(sim, 0, 5 * SIM_MS), replica, lose_store,
               replica, 0);
        sim_in(sim, sim_between(sim, 5 * SIM_MS, 500 * SIM_MS), replica,
               recover, replica, 0);
    }
}
