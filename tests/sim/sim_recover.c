/* The way out when a shared store may have lost writes, as
 * allocator/daemon/recover.c and allocator/stores/redis/recover.c go it: the
 * first replica that notices closes the store under a new generation, each
 * tells a few records at a time what it knows, the keeper ends what it does not
 * know, and whoever has told tries to open the store, which it does when all
 * that can be heard have told.
 *
 * Each replica's questions have a connection of their own, which finds another
 * process of the store sooner or later than those of its commits and its feed.
 */
#include <string.h>

#include "pool/base/assert.h"
#include "pool/base/mutant.h"
#include "pool/leases/rules.h"
#include "tests/sim/sim.h"

#define AGAIN_NS (50 * SIM_MS)
#define HEARTBEAT_NS (1 * SIM_S)
#define GONE_NS (3 * HEARTBEAT_NS)
#define KEEPER_NS (5 * SIM_S)

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
all_told(struct sim_replica *replica, const struct sim_kept *kept)
{
    struct sim *sim = replica->sim;
    bool all = true;

    for (uint32_t i = 0; i < sim->n_replicas; i++) {
        struct sim_replica *other = &sim->replicas[i];

        if (other != replica && is_peer(replica, other) &&
            kept->restored_life[i] != other->life) {
            all = false;
        }
    }
    return all && kept->restored_life[replica->index] == replica->life;
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
count_again(struct sim_replica *from, const struct wp_lease_record *told)
{
    if (from->again && from->refused && wp_record_is_claimed(told->state)) {
        from->sim->n_met[SIM_MET_TOLD_AGAIN]++;
    }
}

/* Who is told of it is this replica, too. */
static void
end_record(struct sim_replica *from, struct sim_kept *kept,
           struct wp_lease_record *record)
{
    record->state = WP_RECORD_ENDED;
    sim_trace(from->sim, "store %u: %s is the past lease of its claim",
              kept->run, record->sandbox);
    sim_feed_changed(from->sim, kept, record, NULL, 0);
}

/* False: the claim has another sandbox there. The last time the lease that was
 * granted later stays. */
static bool
assert_record(struct sim_replica *from, struct sim_kept *kept,
              struct wp_lease_record *told, bool last)
{
    struct sim *sim = from->sim;
    struct wp_lease_record *record = NULL;
    struct wp_lease_record *rival = NULL;

    for (uint32_t i = 0; i < kept->n; i++) {
        struct wp_lease_record *have = &kept->records[i];

        if (memcmp(have->uid, told->uid, sizeof told->uid) == 0) {
            record = have;
        } else if (is_same_claim(have, told)) {
            rival = have;
        }
    }
    if (rival != NULL && !last) {
        return false;
    }
    if (rival != NULL && rival->granted_wall_ms >= told->granted_wall_ms) {
        told->state = WP_RECORD_ENDED;
        rival = NULL;
    }
    if (record != NULL &&
        (!is_newer(told, record) ||
         (told->fence == record->fence && wp_record_is_claimed(told->state) &&
          wp_record_is_claimed(record->state) &&
          !is_same_claim(told, record)))) {
        return true;
    }
    sim_trace(sim, "store %u: is told by r%u that %s is %d, fence %llu",
              kept->run, from->index, told->sandbox, (int)told->state,
              (unsigned long long)told->fence);
    count_again(from, told);
    if (rival != NULL) {
        end_record(from, kept, rival);
    }
    if (record == NULL) {
        sim_store_add(kept, told);
    } else {
        *record = *told;
    }
    sim_feed_changed(sim, kept, told, from, from->life);
    return true;
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

/* Where its next question goes. NULL: nobody answers. */
static struct sim_kept *
ask(struct sim_replica *replica)
{
    struct sim *sim = replica->sim;
    struct sim_kept *kept = sim_store_of(sim, replica->admin_run);

    /* Sooner or later it is said who is the one that counts. */
    if (kept == NULL || (kept == &sim->old && sim_chance(sim, 30))) {
        replica->admin_run = sim->kept.run;
        kept = &sim->kept;
    }
    return kept == &sim->old || sim_store_reachable(sim) ? kept : NULL;
}

static void
distrust(struct sim_replica *replica)
{
    replica->distrusted =
        replica->recovering != 0 ? replica->recovering : replica->distrusted;
    replica->recovering = 0;
}

/* What is told to one process counts nothing at another. */
static bool
goes_on_there(struct sim_replica *replica)
{
    if (replica->restored_to == replica->admin_run) {
        return true;
    }
    replica->sim->n_met[SIM_MET_TWO_SERVERS]++;
    if (WP_MUTANT(TOLD_TO_TWO_SERVERS)) {
        return true;
    }
    sim_trace(replica->sim, "r%u: meets another process in its recovery",
              replica->index);
    distrust(replica);
    return false;
}

/* The replica goes on with this recovery, and the store is closed for it. When
 * it is not, or out of reach, the replica begins again. */
static struct sim_kept *
may_go_on(struct sim_replica *replica, uint64_t recovery_nr)
{
    struct sim_kept *kept;

    if (replica->pools == NULL || replica->recovery_nr != recovery_nr) {
        return NULL;
    }
    kept = ask(replica);
    if (kept == NULL || !goes_on_there(replica) || !kept->closed ||
        replica->recovering != kept->generation) {
        go_on(replica, AGAIN_NS, begin);
        return NULL;
    }
    return kept;
}

static void
opened(struct sim_replica *replica)
{
    struct sim *sim = replica->sim;

    sim_trace(sim, "r%u: the store is open to it", replica->index);
    replica->generation = replica->recovering;
    replica->recovering = 0;
    replica->one_left = false;
    replica->recovery_nr++;
    if (sim->lock == replica && !replica->keeper) {
        sim_feed_follow(replica);
    }
}

static void
try_open(struct sim *sim, void *ctx, uint64_t arg)
{
    struct sim_replica *replica = ctx;
    struct sim_kept *kept;

    if (replica->pools == NULL || replica->recovery_nr != arg) {
        return;
    }
    kept = ask(replica);
    if (kept == NULL || !goes_on_there(replica) ||
        replica->recovering != kept->generation) {
        go_on(replica, AGAIN_NS, begin);
        return;
    }
    if (kept->closed) {
        if (!replica->feed.up ||
            sim->now_ns - replica->feed.up_since_ns < 2 * HEARTBEAT_NS ||
            !all_told(replica, kept)) {
            go_on(replica, AGAIN_NS, try_open);
            return;
        }
        if (replica->one_left != replica->told_left) {
            go_on(replica, AGAIN_NS, begin);
            return;
        }
        sim_trace(sim, "store %u: open again, with %u records", kept->run,
                  kept->n);
        kept->closed = false;
        sim->lossy = sim->lossy && kept != &sim->kept;
    }
    opened(replica);
}

static void
end_telling(struct sim *sim, void *ctx, uint64_t arg)
{
    struct sim_replica *replica = ctx;
    struct sim_kept *kept = may_go_on(replica, arg);

    if (kept != NULL) {
        kept->restored_life[replica->index] = replica->life;
        go_on(replica, round_trip_ns(sim), try_open);
    }
}

static void ask_core(struct sim *sim, void *ctx, uint64_t arg);

/* What was refused was perhaps so for a claim whose lease is over. */
static void
tell_again(struct sim *sim, void *ctx, uint64_t arg)
{
    struct sim_replica *replica = ctx;

    replica->again = true;
    replica->cursor = 0;
    ask_core(sim, ctx, arg);
}

/* The keeper's answer to what the store had a moment ago. */
static void
end_unknown(struct sim *sim, void *ctx, uint64_t arg)
{
    struct sim_replica *replica = ctx;
    struct sim_kept *kept = may_go_on(replica, arg);

    if (kept == NULL) {
        return;
    }
    for (uint32_t i = 0; i < replica->n_telling; i++) {
        (void)assert_record(replica, kept, &replica->telling[i], false);
    }
    go_on(replica, round_trip_ns(sim),
          replica->refused ? tell_again : end_telling);
}

static void
find_unknown(struct sim *sim, void *ctx, uint64_t arg)
{
    struct sim_replica *replica = ctx;

    if (may_go_on(replica, arg) == NULL) {
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
    const struct sim_kept *kept = may_go_on(replica, arg);

    if (kept == NULL) {
        return;
    }
    WP_ASSERT(kept->n <= SIM_HAD_MAX);
    replica->n_had = kept->n;
    if (replica->n_had > 0) {
        memcpy(replica->had, kept->records,
               replica->n_had * sizeof *replica->had);
    }
    go_on(replica, round_trip_ns(sim), find_unknown);
}

/* Of some sandboxes that are over only the keeper knows so. When none is heard
 * of, one may take over. */
static void
await_keeper(struct sim *sim, void *ctx, uint64_t arg)
{
    struct sim_replica *replica = ctx;
    const struct sim_kept *kept = may_go_on(replica, arg);
    const struct sim_replica *keeper = sim->lock;
    bool ended;

    if (kept == NULL) {
        return;
    }
    if (keeper != NULL && keeper != replica && keeper->keeper &&
        is_peer(replica, keeper)) {
        ended = kept->restored_life[keeper->index] == keeper->life;
    } else {
        ended =
            replica->keeper || sim->now_ns - replica->refused_ns > KEEPER_NS;
    }
    if (!ended) {
        go_on(replica, AGAIN_NS, await_keeper);
    } else {
        go_on(replica, round_trip_ns(sim),
              replica->keeper ? read_all : tell_again);
    }
}

static void
tell(struct sim *sim, void *ctx, uint64_t arg)
{
    struct sim_replica *replica = ctx;
    struct sim_kept *kept = may_go_on(replica, arg);
    sim_event_fn next = ask_core;

    if (kept == NULL) {
        return;
    }
    for (uint32_t i = 0; i < replica->n_telling; i++) {
        struct wp_lease_record *told = &replica->telling[i];

        if (!assert_record(replica, kept, told, replica->again)) {
            sim->n_met[SIM_MET_REFUSED]++;
            replica->refused = !WP_MUTANT(SECOND_LEASE_NOT_TOLD);
        }
    }
    if (replica->cursor == 0) {
        replica->refused_ns = sim->now_ns;
        next = replica->again     ? end_telling
               : replica->keeper  ? read_all
               : replica->refused ? await_keeper
                                  : end_telling;
    }
    go_on(replica, round_trip_ns(sim), next);
}

static void
ask_core(struct sim *sim, void *ctx, uint64_t arg)
{
    struct sim_replica *replica = ctx;

    if (may_go_on(replica, arg) != NULL) {
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
close_store(struct sim *sim, struct sim_kept *kept,
            const struct sim_replica *by)
{
    sim_trace(sim, "store %u: is closed by r%u", kept->run, by->index);
    kept->closed = true;
    kept->closed_at = kept->run;
    kept->generation = ++sim->last_generation;
    memset(kept->restored_life, 0, sizeof kept->restored_life);
    for (uint32_t i = 0; i < sim->n_replicas; i++) {
        const struct sim_feed *feed = &sim->replicas[i].feed;

        if (feed->up && feed->store_run == kept->run) {
            sim_in(sim, round_trip_ns(sim), &sim->replicas[i], hear_closed,
                   &sim->replicas[i], kept->generation);
        }
    }
    if (kept == &sim->kept) {
        sim_failover_closed(sim);
    }
}

static bool
is_copy(const struct sim_kept *kept)
{
    return kept->closed_at != kept->run && !WP_MUTANT(TOLD_TO_TWO_SERVERS);
}

/* Whoever listens to another process than the one that is to be restored would
 * believe what that one goes on to tell: it calls this one first. */
static bool
hears_it(struct sim_replica *replica, const struct sim_kept *kept)
{
    if (replica->feed.first_up_ns == 0 ||
        replica->feed.store_run == kept->run) {
        return true;
    }
    sim_feed_break(replica);
    return false;
}

static void
begin(struct sim *sim, void *ctx, uint64_t arg)
{
    struct sim_replica *replica = ctx;
    struct sim_kept *kept;

    if (replica->pools == NULL || replica->recovery_nr != arg) {
        return;
    }
    replica->recovery_nr++;
    kept = ask(replica);
    if (kept == NULL) {
        go_on(replica, AGAIN_NS, begin);
        return;
    }
    /* Recovered without this replica, it is closed again for what this one
     * knows; and a copy that was made in a recovery is, for what those that had
     * told know since. */
    if (!kept->closed || replica->distrusted == kept->generation ||
        is_copy(kept)) {
        sim->n_met[SIM_MET_COPIED] += kept->closed && is_copy(kept) ? 1 : 0;
        close_store(sim, kept, replica);
    }
    if (!hears_it(replica, kept)) {
        go_on(replica, AGAIN_NS, begin);
        return;
    }
    replica->recovering = kept->generation;
    replica->restored_to = kept->run;
    replica->refused = false;
    replica->again = false;
    replica->cursor = 0;
    for (uint32_t i = 0; i < sim->n_replicas; i++) {
        if (&sim->replicas[i] != replica) {
            (void)is_peer(replica, &sim->replicas[i]);
        }
    }
    replica->told_left = replica->one_left;
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
    const struct sim *sim = replica->sim;

    if (replica->store_run != sim->kept.run) {
        replica->store_run = sim->kept.run;
        distrust(replica);
        sim_recover_doubt(replica);
    }
}
