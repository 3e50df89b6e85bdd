/* What a shared store tells the replicas: each change, in order, as long as the
 * subscription lasts; after a break, a copy of all records, and the changes
 * that came while it was being read.
 *
 * This is the adapter's half of the contract of wp_pools_on_record: a replica
 * is not told of its own changes, and what a copy does not have is let go. */
#include <stdlib.h>
#include <string.h>

#include "pool/base/assert.h"
#include "tests/sim/sim.h"

#define MISSED_NS (50 * SIM_MS)

/* A sandbox that was forgotten since the replica asked for a copy. */
struct sim_told {
    uint8_t uid[WP_UID_LEN];
};

struct change {
    struct sim_replica *to;
    uint32_t life;
    uint32_t epoch;
    const struct sim_replica *writer;
    uint32_t writer_life;
    struct wp_lease_record record;
};

struct copy {
    struct sim_replica *to;
    uint32_t life;
    uint32_t epoch;
    uint64_t generation; /* Of the store, then. */
    uint32_t n;
    struct wp_lease_record records[];
};

static int64_t
one_way_ns(struct sim *sim)
{
    return sim_between(sim, 20 * WP_NS_PER_US,
                       sim_chance(sim, 5) ? 300 * SIM_MS : 3 * SIM_MS);
}

static bool
is_current(const struct sim_replica *to, uint32_t life, uint32_t epoch)
{
    return sim_replica_lives(to, life) && to->feed.epoch == epoch;
}

static bool
was_told(const struct sim_feed *feed, const uint8_t *uid)
{
    for (uint32_t i = 0; i < feed->n_told; i++) {
        if (memcmp(feed->told[i].uid, uid, WP_UID_LEN) == 0) {
            return true;
        }
    }
    return false;
}

static void
keep_heard(struct sim_feed *feed, const uint8_t *uid)
{
    if (feed->n_told == feed->told_cap) {
        feed->told_cap = feed->told_cap == 0 ? 64 : 2 * feed->told_cap;
        feed->told = realloc(feed->told, feed->told_cap * sizeof *feed->told);
        WP_ASSERT(feed->told != NULL);
    }
    memcpy(feed->told[feed->n_told++].uid, uid, WP_UID_LEN);
}

static void
follow_again(struct sim *sim, void *ctx, uint64_t arg)
{
    struct sim_replica *replica = ctx;

    (void)sim;
    if (is_current(replica, replica->life, (uint32_t)arg)) {
        sim_feed_follow(replica);
    }
}

static void begin_sync(struct sim *sim, void *ctx, uint64_t arg);

/* A copy that is on its way may be older than what was missed: it is asked for
 * another one after it. */
static void
read_missed(struct sim *sim, void *ctx, uint64_t arg)
{
    struct sim_replica *to = ctx;

    if (!is_current(to, to->life, (uint32_t)arg) || !to->feed.missed) {
        return;
    }
    if (to->feed.syncing) {
        sim_in(sim, MISSED_NS, to, read_missed, to, arg);
    } else {
        begin_sync(sim, to, arg);
    }
}

/* A replica that had no slot for it is told everything again when it has had
 * time to free some. */
static void
tell(struct sim_replica *to, const struct wp_lease_record *record)
{
    uint64_t refused = wp_pools_records_refused(to->pools);

    wp_pools_on_record(to->pools, record);
    if (wp_pools_records_refused(to->pools) != refused && !to->feed.missed) {
        to->feed.missed = true;
        sim_in(to->sim, MISSED_NS, to, read_missed, to, to->feed.epoch);
    }
}

static void
deliver_change(struct sim *sim, void *ctx, uint64_t arg)
{
    struct change *change = ctx;
    struct sim_replica *to = change->to;

    (void)arg;
    if (is_current(to, change->life, change->epoch)) {
        if (to->feed.syncing && change->record.state == WP_RECORD_NONE) {
            keep_heard(&to->feed, change->record.uid);
        }
        if (change->writer != to || change->writer_life != to->life) {
            sim_trace(sim, "r%u: hears that %s is now %d, fence %llu",
                      to->index, change->record.sandbox,
                      (int)change->record.state,
                      (unsigned long long)change->record.fence);
            sim_replica_enter(to);
            tell(to, &change->record);
        }
    }
    free(change);
}

void
sim_feed_changed(struct sim *sim, const struct sim_kept *kept,
                 const struct wp_lease_record *record,
                 const struct sim_replica *writer, uint32_t writer_life)
{
    for (uint32_t i = 0; i < sim->n_replicas; i++) {
        struct sim_replica *to = &sim->replicas[i];
        struct change *change;
        int64_t at_ns = sim->now_ns + one_way_ns(sim);

        if (!to->feed.up || to->feed.store_run != kept->run) {
            continue;
        }
        change = sim_alloc(sizeof *change);
        change->to = to;
        change->life = to->life;
        change->epoch = to->feed.epoch;
        change->writer = writer;
        change->writer_life = writer_life;
        change->record = *record;
        to->feed.last_ns = at_ns > to->feed.last_ns ? at_ns : to->feed.last_ns;
        sim_send(sim, to->feed.last_ns - sim->now_ns, to, deliver_change,
                 change);
    }
}

static void
deliver_copy(struct sim *sim, void *ctx, uint64_t arg)
{
    struct copy *copy = ctx;
    struct sim_replica *to = copy->to;

    (void)arg;
    if (is_current(to, copy->life, copy->epoch)) {
        sim_trace(sim, "r%u: has read all %u records", to->index, copy->n);
        sim_replica_enter(to);
        for (uint32_t i = 0; i < copy->n; i++) {
            /* The core knows what is older by fence and state, but not what it
             * has let go of. */
            if (!was_told(&to->feed, copy->records[i].uid)) {
                tell(to, &copy->records[i]);
            }
        }
        to->feed.syncing = false;
        /* It may have been closed while nobody told of that here. */
        if (to->generation != 0 && to->generation != copy->generation) {
            sim_recover_doubt(to);
        }
        if (to->generation != to->feed.synced_generation) {
            sim_in(sim, 50 * SIM_MS, to, begin_sync, to, to->feed.epoch);
            free(copy);
            return;
        }
        wp_pools_sync_end(to->pools, 0);
        sim_replica_synced(to);
    }
    free(copy);
}

static void
make_copy(struct sim *sim, void *ctx, uint64_t arg)
{
    struct sim_replica *to = ctx;
    const struct sim_kept *kept = sim_store_of(sim, to->feed.store_run);
    struct copy *copy;

    if (!is_current(to, to->life, (uint32_t)arg)) {
        return;
    }
    if (kept == NULL || (kept == &sim->kept && !sim_store_reachable(sim))) {
        sim_in(sim, 10 * SIM_MS, NULL, make_copy, to, arg);
        return;
    }
    copy = sim_alloc(sizeof *copy + kept->n * sizeof *copy->records);
    copy->to = to;
    copy->life = to->life;
    copy->epoch = to->feed.epoch;
    copy->generation = kept->generation;
    copy->n = kept->n;
    if (copy->n > 0) {
        memcpy(copy->records, kept->records, copy->n * sizeof *copy->records);
    }
    sim_send(sim, one_way_ns(sim), to, deliver_copy, copy);
}

static void
begin_sync(struct sim *sim, void *ctx, uint64_t arg)
{
    struct sim_replica *to = ctx;

    if (!is_current(to, to->life, (uint32_t)arg) || to->feed.syncing) {
        return;
    }
    if (to->generation == 0) {
        /* What the store has not may be what it has forgotten. */
        sim_in(sim, 50 * SIM_MS, to, begin_sync, to, arg);
    } else {
        to->feed.synced_generation = to->generation;
        to->feed.syncing = true;
        to->feed.missed = false;
        to->feed.n_told = 0;
        sim_replica_enter(to);
        wp_pools_sync_begin(to->pools, 0);
        sim_in(sim, one_way_ns(sim), NULL, make_copy, to, arg);
    }
}

/* Subscribed first, read then: nothing is missed. */
static void
subscribe(struct sim *sim, void *ctx, uint64_t arg)
{
    struct sim_replica *to = ctx;

    if (!is_current(to, to->life, (uint32_t)arg)) {
        return;
    }
    if (!sim_store_reachable(sim)) {
        sim_in(sim, 10 * SIM_MS, NULL, subscribe, to, arg);
        return;
    }
    to->feed.up = true;
    to->feed.store_run = sim->kept.run;
    to->feed.up_since_ns = sim->now_ns;
    if (to->feed.first_up_ns == 0) {
        to->feed.first_up_ns = sim->now_ns;
    }
    sim_recover_met(to);
    /* Nothing of the new subscription is heard before this. */
    to->feed.last_ns = sim->now_ns + one_way_ns(sim);
    sim_at(sim, to->feed.last_ns, to, begin_sync, to, arg);
}

void
sim_feed_follow(struct sim_replica *replica)
{
    struct sim *sim = replica->sim;

    replica->feed.epoch++;
    replica->feed.up = false;
    replica->feed.syncing = false;
    replica->feed.missed = false;
    sim_in(sim, one_way_ns(sim), NULL, subscribe, replica, replica->feed.epoch);
}

void
sim_feed_break(struct sim_replica *replica)
{
    struct sim *sim = replica->sim;

    if (replica->pools == NULL || !replica->feed.up) {
        return;
    }
    sim_trace(sim, "r%u: its feed breaks", replica->index);
    replica->feed.epoch++;
    replica->feed.up = false;
    sim_in(sim,
           sim_between(sim, SIM_MS,
                       sim_chance(sim, 30)   ? 10 * SIM_S
                       : sim_chance(sim, 50) ? 500 * SIM_MS
                                             : 10 * SIM_MS),
           replica, follow_again, replica, replica->feed.epoch);
}

void
sim_feed_lose(struct sim_replica *replica)
{
    if (replica->feed.up && (replica->paused_until_ns > replica->sim->now_ns ||
                             sim_chance(replica->sim, 50))) {
        replica->feed.epoch++;
    }
}

void
sim_feed_fini(struct sim_replica *replica)
{
    replica->feed.epoch++;
    replica->feed.up = false;
    replica->feed.first_up_ns = 0;
    free(replica->feed.told);
    replica->feed.told = NULL;
    replica->feed.n_told = 0;
    replica->feed.told_cap = 0;
}
