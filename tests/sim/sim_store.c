#include <stdlib.h>
#include <string.h>

#include "pool/base/assert.h"
#include "pool/leases/memory.h"
#include "pool/leases/rules.h"
#include "tests/sim/sim.h"

static struct wp_lease_record *
find_by_claim(struct sim_kept *kept, struct wp_str claim_id,
              struct wp_str tenant)
{
    for (uint32_t i = 0; i < kept->n; i++) {
        struct wp_lease_record *record = &kept->records[i];

        if (wp_record_is_claimed(record->state) &&
            wp_str_is(claim_id, record->claim_id) &&
            wp_str_is(tenant, record->tenant)) {
            return record;
        }
    }
    return NULL;
}

static struct wp_lease_record *
find_by_uid(struct sim_kept *kept, const uint8_t *uid)
{
    for (uint32_t i = 0; i < kept->n; i++) {
        if (memcmp(kept->records[i].uid, uid, WP_UID_LEN) == 0) {
            return &kept->records[i];
        }
    }
    return NULL;
}

static struct wp_lease_record *
add_record(struct sim_kept *kept)
{
    if (kept->n == kept->cap) {
        kept->cap = kept->cap == 0 ? 64 : 2 * kept->cap;
        kept->records =
            realloc(kept->records, kept->cap * sizeof *kept->records);
        WP_ASSERT(kept->records != NULL);
    }
    return &kept->records[kept->n++];
}

int64_t
sim_store_closed_until_ns(const struct sim *sim)
{
    return sim->store_stalled_until_ns > sim->store_away_until_ns
               ? sim->store_stalled_until_ns
               : sim->store_away_until_ns;
}

bool
sim_store_reachable(const struct sim *sim)
{
    return sim_store_closed_until_ns(sim) <= sim->now_ns;
}

void
sim_store_add(struct sim_kept *kept, const struct wp_lease_record *record)
{
    *add_record(kept) = *record;
}

void
sim_store_copy(struct sim_kept *to, const struct sim_kept *from)
{
    to->generation = from->generation;
    to->closed = from->closed;
    to->closed_at = from->closed_at;
    memcpy(to->restored_life, from->restored_life, sizeof to->restored_life);
    to->n = 0;
    for (uint32_t i = 0; i < from->n; i++) {
        sim_store_add(to, &from->records[i]);
    }
}

struct sim_kept *
sim_store_of(struct sim *sim, uint32_t run)
{
    if (run == sim->kept.run) {
        return &sim->kept;
    }
    return run != 0 && run == sim->old.run ? &sim->old : NULL;
}

void
sim_store_away(struct sim *sim, int64_t for_ns)
{
    sim->store_away_until_ns = sim->now_ns + for_ns;
}

/* What the store does with a snapshot. Now and then it comes back damaged. */
static enum wp_status
apply_snapshot(struct sim *sim, const struct wp_lease_op *op)
{
    struct wp_pool_snapshot *snapshot = op->snapshot;

    if (op->kind == WP_LEASE_PUT_SNAPSHOT) {
        WP_ASSERT(snapshot->len <= WP_SNAPSHOT_MAX);
        free(sim->snapshot);
        sim->snapshot = sim_alloc(snapshot->len);
        sim->snapshot_len = snapshot->len;
        memcpy(sim->snapshot, snapshot->bytes, snapshot->len);
        sim_trace(sim, "store: has a snapshot of %zu bytes", snapshot->len);
        return WP_OK;
    }
    sim_trace(sim, "store: is asked for its snapshot of %zu bytes",
              sim->snapshot_len);
    if (sim->snapshot_len == 0 || sim->snapshot_len > snapshot->cap) {
        return WP_NOT_FOUND;
    }
    memcpy(snapshot->bytes, sim->snapshot, sim->snapshot_len);
    snapshot->len = sim->snapshot_len;
    if (sim_chance(sim, 5)) {
        snapshot->bytes[wp_rng_below(&sim->rng, snapshot->len)] ^= 1;
    }
    return WP_OK;
}

bool
sim_store_is_snapshot(const struct wp_lease_op *op)
{
    return op->kind == WP_LEASE_PUT_SNAPSHOT ||
           op->kind == WP_LEASE_GET_SNAPSHOT;
}

enum wp_status
sim_store_apply(struct sim *sim, struct sim_kept *kept,
                const struct wp_lease_op *op, const struct sim_replica *from,
                uint32_t life, struct wp_lease_record *found)
{
    static const char *const names[] = {
        "offer",  "grant",    "renew", "release", "undo",
        "expire", "withdraw", "lose",  "fetch",   "forget"};
    struct wp_lease_record *record =
        op->kind == WP_LEASE_FETCH && op->claim_id.len > 0
            ? find_by_claim(kept, op->claim_id, op->tenant)
            : find_by_uid(kept, op->uid);
    const struct wp_lease_record *claimed = NULL;
    struct wp_lease_record none;
    struct wp_lease_record before;
    enum wp_status status;

    memset(&none, 0, sizeof none);
    if (sim_store_is_snapshot(op)) {
        *found = none;
        return apply_snapshot(sim, op);
    }
    if (op->kind == WP_LEASE_GRANT) {
        claimed = find_by_claim(kept, op->claim_id, op->tenant);
    }
    if (record == NULL) {
        record = &none;
    }
    before = *record;
    status = wp_lease_rules_apply(op, claimed, record);
    *found = *record;
    if (record == &none) {
        if (record->state != WP_RECORD_NONE) {
            *add_record(kept) = *record;
        }
    } else if (record->state == WP_RECORD_NONE) {
        *record = kept->records[--kept->n];
    } else if (record->fence < before.fence) {
        sim_wrong(sim, "I5: the fence of a record went back");
    }
    if (sim->profile.store == SIM_STORE_SHARED && status == WP_OK &&
        memcmp(&before, found, sizeof before) != 0) {
        memcpy(found->uid, op->uid, sizeof found->uid);
        sim_feed_changed(sim, kept, found, from, life);
    }
    sim_trace(sim, "store: %s %.*s claim %.*s fence %llu: %s", names[op->kind],
              WP_STR_ARG(op->sandbox), WP_STR_ARG(op->claim_id),
              (unsigned long long)op->fence, wp_status_name(status));
    return status;
}

void
sim_store_fini(struct sim *sim)
{
    free(sim->snapshot);
}

/* --- The port. --- */

/* A store in the same process: the answer is known when commit returns, though
 * now and then it is that nobody knows. */
static enum wp_status
commit_inline(struct sim_replica *replica, struct wp_lease_op *op)
{
    struct sim *sim = replica->sim;
    struct wp_lease_record found;
    enum wp_status status;

    if (sim->store_away_until_ns > sim->now_ns) {
        return WP_UNAVAILABLE;
    }
    if (sim->store_stalled_until_ns > sim->now_ns) {
        if (sim_chance(sim, 50)) {
            (void)sim_store_apply(sim, &sim->kept, op, replica, replica->life,
                                  &found);
        }
        sim->n_unknown++;
        return WP_UNKNOWN_OUTCOME;
    }
    status =
        sim_store_apply(sim, &sim->kept, op, replica, replica->life, &found);
    if (op->found != NULL && (status == WP_OK || status == WP_ABORTED)) {
        *op->found = found;
    }
    return status;
}

static enum wp_status
commit(void *self, struct wp_lease_op *op)
{
    struct sim_replica *replica = self;
    struct sim *sim = replica->sim;

    if (replica->ending) {
        return WP_PENDING;
    }
    if (sim->profile.store_inline) {
        return commit_inline(replica, op);
    }
    if (sim->profile.store == SIM_STORE_SHARED && replica->generation == 0) {
        return WP_UNAVAILABLE; /* In doubt. */
    }
    return sim_conn_send(replica, op);
}

struct wp_lease_store
sim_store_port(struct sim_replica *replica)
{
    static const struct wp_lease_store_ops local = {
        .name = "local", .durable = true, .commit = commit};
    static const struct wp_lease_store_ops shared = {
        .name = "shared", .durable = true, .shared = true, .commit = commit};

    switch (replica->sim->profile.store) {
    case SIM_STORE_MEMORY:
        break;
    case SIM_STORE_LOCAL:
        return (struct wp_lease_store){&local, replica};
    case SIM_STORE_SHARED:
        return (struct wp_lease_store){&shared, replica};
    }
    return wp_lease_memory();
}
