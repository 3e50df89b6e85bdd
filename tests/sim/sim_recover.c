/* A shared store whose process ends and comes back, with all it had or without
 * its last writes, and the way out, as allocator/daemon_recover.c goes it: the
 * first replica that notices closes the store under a new generation, each
 * tells a few records at a time what it knows, the keeper ends what it does not
 * know, and whoever has told tries to open the store, which it does when all
 * that can be heard have told.
 *
 * A store that lost nothing may meet anything meanwhile: replicas that end, that
 * start, that stand still. One that lost writes is spared two faults at once:
 * the replicas all live through it, and none is given up. */
#include <stdlib.h>
#include <string.h>

#include "pool/base/assert.h"
#include "pool/lease_rules.h"
#include "tests/sim/sim.h"

#define AGAIN_NS (50 * SIM_MS)
#define HEARTBEAT_NS (1 * SIM_S)
#define GONE_NS (3 * HEARTBEAT_NS)

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

/* --- Who is heard --- */

static bool
is_silent(const struct sim_replica *replica)
{
    return replica->pools == NULL ||
           replica->paused_until_ns > replica->sim->now_ns;
}

/* The last moment at which it said that it is alive. */
static int64_t
last_word_ns(const struct sim_replica *replica)
{
    return is_silent(replica) ? replica->silent_since_ns : replica->sim->now_ns;
}

/* Has the replica heard of the other one, and not given it up yet? Those that
 * it gives up it remembers. */
static bool
is_peer(struct sim_replica *replica, const struct sim_replica *other)
{
    const struct sim *sim = replica->sim;
    int64_t word_ns = last_word_ns(other);
    int64_t silent_ns = word_ns > replica->feed.up_since_ns
                            ? word_ns
                            : replica->feed.up_since_ns;

    if (sim->lossy) {
        return true;
    }
    if (replica->feed.first_up_ns == 0 || word_ns < replica->feed.first_up_ns) {
        return false;
    }
    if (sim->now_ns - silent_ns < GONE_NS) {
        return true;
    }
    replica->one_left = true;
    return false;
}

/* Is there anybody to wait for? */
static bool
all_told(struct sim_replica *replica)
{
    struct sim *sim = replica->sim;
    bool all = true;

    for (uint32_t i = 0; i < sim->n_replicas; i++) {
        struct sim_replica *other = &sim->replicas[i];

        if (other != replica && is_peer(replica, other) &&
            sim->told_life[i] != other->life) {
            all = false;
        }
    }
    return all && sim->told_life[replica->index] == replica->life;
}

/* --- What is told --- */

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

static bool
is_same_claim(const struct wp_lease_record *a, const struct wp_lease_record *b)
{
    return wp_record_is_claimed(a->state) && wp_record_is_claimed(b->state) &&
           strcmp(a->claim_id, b->claim_id) == 0 &&
           strcmp(a->tenant, b->tenant) == 0;
}

static void
assert_record(struct sim_replica *from, const struct wp_lease_record *told)
{
    struct sim *sim = from->sim;
    struct wp_lease_record *record = NULL;

    for (uint32_t i = 0; i < sim->n_records; i++) {
        struct wp_lease_record *have = &sim->records[i];

        if (memcmp(have->uid, told->uid, sizeof told->uid) == 0) {
            record = have;
        } else if (is_same_claim(have, told)) {
            return;
        }
    }
    if (record != NULL &&
        (!is_newer(told, record) ||
         (told->fence == record->fence && wp_record_is_claimed(told->state) &&
          wp_record_is_claimed(record->state) &&
          !is_same_claim(told, record)))) {
        return;
    }
    sim_trace(sim, "store: is told by r%u that %s is %d, fence %llu",
              from->index, told->sandbox, (int)told->state,
              (unsigned long long)told->fence);
    if (record == NULL) {
        sim_store_add(sim, told);
    } else {
        *record = *told;
    }
    sim_feed_changed(sim, told, from, from->life);
}

/* --- The steps of one replica's recovery --- */

static void begin(struct sim *sim, void *ctx, uint64_t arg);

static int64_t
round_trip_ns(struct sim *sim)
{
    return sim_between(sim, 40 * WP_NS_PER_US,
                       sim_chance(sim, 10) ? 200 * SIM_MS : 4 * SIM_MS);
}

/* The next step, unless the replica begins anew before it. */
static void
go_on(struct sim_replica *replica, int64_t delay_ns, sim_event_fn step)
{
    sim_in(replica->sim, delay_ns, replica, step, replica,
           replica->recovery_nr);
}

/* The replica goes on with this recovery, and the store is closed for it. When
 * it is not, or out of reach, the replica begins again. */
static bool
may_go_on(struct sim_replica *replica, uint64_t recovery_nr)
{
    struct sim *sim = replica->sim;

    if (replica->pools == NULL || replica->recovery_nr != recovery_nr) {
        return false;
    }
    if (!sim_store_reachable(sim) || !sim->store_closed ||
        replica->recovering != sim->generation) {
        go_on(replica, AGAIN_NS, begin);
        return false;
    }
    return true;
}

static void
opened(struct sim_replica *replica)
{
    struct sim *sim = replica->sim;

    sim_trace(sim, "r%u: the store is open to it", replica->index);
    replica->generation = replica->recovering;
    replica->recovering = 0;
    replica->recovery_nr++;
    if (sim->lock == replica && !replica->keeper) {
        sim_feed_follow(replica);
    }
}

static void
try_open(struct sim *sim, void *ctx, uint64_t arg)
{
    struct sim_replica *replica = ctx;

    if (replica->pools == NULL || replica->recovery_nr != arg) {
        return;
    }
    if (!sim_store_reachable(sim) || replica->recovering != sim->generation) {
        go_on(replica, AGAIN_NS, begin);
        return;
    }
    if (sim->store_closed) {
        if (!replica->feed.up ||
            sim->now_ns - replica->feed.up_since_ns < 2 * HEARTBEAT_NS ||
            !all_told(replica)) {
            go_on(replica, AGAIN_NS, try_open);
            return;
        }
        sim_trace(sim, "store: open again, with %u records", sim->n_records);
        sim->store_closed = false;
        sim->lossy = false;
    }
    opened(replica);
}

static void
end_telling(struct sim *sim, void *ctx, uint64_t arg)
{
    struct sim_replica *replica = ctx;

    if (may_go_on(replica, arg)) {
        sim->told_life[replica->index] = replica->life;
        go_on(replica, round_trip_ns(sim), try_open);
    }
}

/* The keeper's answer to what the store had a moment ago. */
static void
end_unknown(struct sim *sim, void *ctx, uint64_t arg)
{
    struct sim_replica *replica = ctx;

    if (!may_go_on(replica, arg)) {
        return;
    }
    for (uint32_t i = 0; i < replica->n_telling; i++) {
        assert_record(replica, &replica->telling[i]);
    }
    go_on(replica, round_trip_ns(sim), end_telling);
}

static void
find_unknown(struct sim *sim, void *ctx, uint64_t arg)
{
    struct sim_replica *replica = ctx;

    if (!may_go_on(replica, arg)) {
        return;
    }
    sim_replica_enter(replica);
    replica->n_telling = 0;
    for (uint32_t i = 0; i < replica->n_had; i++) {
        if (!wp_pools_knows(replica->pools, replica->had[i].uid)) {
            replica->telling[replica->n_telling] = replica->had[i];
            replica->telling[replica->n_telling++].state = WP_RECORD_ENDED;
        }
    }
    go_on(replica, round_trip_ns(sim), end_unknown);
}

static void
read_all(struct sim *sim, void *ctx, uint64_t arg)
{
    struct sim_replica *replica = ctx;

    if (!may_go_on(replica, arg)) {
        return;
    }
    WP_ASSERT(sim->n_records <= SIM_HAD_MAX);
    replica->n_had = sim->n_records;
    if (replica->n_had > 0) {
        memcpy(replica->had, sim->records,
               replica->n_had * sizeof *replica->had);
    }
    go_on(replica, round_trip_ns(sim), find_unknown);
}

static void ask_core(struct sim *sim, void *ctx, uint64_t arg);

static void
tell(struct sim *sim, void *ctx, uint64_t arg)
{
    struct sim_replica *replica = ctx;

    if (!may_go_on(replica, arg)) {
        return;
    }
    for (uint32_t i = 0; i < replica->n_telling; i++) {
        assert_record(replica, &replica->telling[i]);
    }
    go_on(replica, round_trip_ns(sim),
          replica->cursor != 0 ? ask_core
          : replica->keeper    ? read_all
                               : end_telling);
}

static void
ask_core(struct sim *sim, void *ctx, uint64_t arg)
{
    struct sim_replica *replica = ctx;

    if (may_go_on(replica, arg)) {
        sim_replica_enter(replica);
        replica->n_telling = wp_pools_known_records(
            replica->pools, 0, replica->one_left, &replica->cursor,
            replica->telling, SIM_TELLING_MAX);
        go_on(replica, round_trip_ns(sim), tell);
    }
}

static void
hear_closed(struct sim *sim, void *ctx, uint64_t arg)
{
    struct sim_replica *replica = ctx;

    (void)sim;
    if (replica->pools != NULL && replica->generation != 0 &&
        replica->generation != arg) {
        sim_recover_doubt(replica);
    }
}

static void
close_store(struct sim *sim, const struct sim_replica *by)
{
    sim_trace(sim, "store: is closed by r%u", by->index);
    sim->store_closed = true;
    sim->generation = ++sim->last_generation;
    memset(sim->told_life, 0, sizeof sim->told_life);
    for (uint32_t i = 0; i < sim->n_replicas; i++) {
        if (sim->replicas[i].feed.up) {
            sim_in(sim, round_trip_ns(sim), &sim->replicas[i], hear_closed,
                   &sim->replicas[i], sim->generation);
        }
    }
}

static void
begin(struct sim *sim, void *ctx, uint64_t arg)
{
    struct sim_replica *replica = ctx;

    if (replica->pools == NULL || replica->recovery_nr != arg) {
        return;
    }
    replica->recovery_nr++;
    if (!sim_store_reachable(sim)) {
        go_on(replica, AGAIN_NS, begin);
        return;
    }
    /* Recovered without this replica, it is closed again for what this one
     * knows. */
    if (!sim->store_closed || replica->distrusted == sim->generation) {
        close_store(sim, replica);
    }
    replica->recovering = sim->generation;
    replica->cursor = 0;
    for (uint32_t i = 0; i < sim->n_replicas; i++) {
        if (&sim->replicas[i] != replica) {
            (void)is_peer(replica, &sim->replicas[i]);
        }
    }
    go_on(replica, round_trip_ns(sim), ask_core);
}

void
sim_recover_doubt(struct sim_replica *replica)
{
    struct sim *sim = replica->sim;

    sim_trace(sim, "r%u: the store may have forgotten", replica->index);
    replica->generation = 0;
    replica->recovery_nr++;
    go_on(replica, round_trip_ns(sim), begin);
}

void
sim_recover_met(struct sim_replica *replica)
{
    struct sim *sim = replica->sim;

    if (replica->store_run == sim->store_run) {
        return;
    }
    replica->store_run = sim->store_run;
    replica->distrusted =
        replica->recovering != 0 ? replica->recovering : replica->distrusted;
    replica->recovering = 0;
    sim_recover_doubt(replica);
}

/* --- The faults --- */

static void
lose_store(struct sim *sim, void *ctx, uint64_t arg)
{
    (void)sim;
    (void)arg;
    sim_conn_break(ctx);
    sim_feed_break(ctx);
}

/* Another process of the store takes the place of this one: what was on its way
 * to it is lost, and some of what it had said. */
static void
restart(struct sim *sim)
{
    sim->store_run++;
    sim_store_away(sim,
                   sim_between(sim, 10 * SIM_MS,
                               sim_chance(sim, 30) ? 2 * SIM_S : 200 * SIM_MS));
    for (uint32_t i = 0; i < sim->n_replicas; i++) {
        struct sim_replica *replica = &sim->replicas[i];

        sim_feed_lose(replica);
        sim_in(sim, sim_between(sim, 0, 5 * SIM_MS), replica, lose_store,
               replica, 0);
    }
}

static void
restart_whole(struct sim *sim, void *ctx, uint64_t arg)
{
    (void)ctx;
    (void)arg;
    sim_trace(sim, "store: ends, and comes back with all it had");
    restart(sim);
}

void
sim_recover_restart(struct sim *sim, struct sim_replica *replica)
{
    int64_t pause_ns =
        sim_chance(sim, 50)
            ? 0
            : sim_between(sim, 100 * SIM_MS,
                          sim_chance(sim, 30) ? 6 * SIM_S : 2 * SIM_S);

    if (sim->profile.store != SIM_STORE_SHARED) {
        return;
    }
    if (pause_ns > 0) {
        sim_replica_pause(replica, sim->now_ns + pause_ns);
    }
    sim_in(sim, sim_between(sim, 0, pause_ns + 1), NULL, restart_whole, NULL,
           0);
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
    sim->lossy = true;
    sim_store_replace(sim, sim->backup, sim->n_backup);
    restart(sim);
}
