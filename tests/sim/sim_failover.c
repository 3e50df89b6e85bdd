/* Processes of a shared store: one ends, and comes back with all it had; or
 * another one takes its place, as a replica that is promoted or an old copy that
 * is restored, and lacks the last writes. The one before may go on for a while:
 * who has not heard of the other commits to it still, and its answers may come
 * late.
 *
 * A store that lost nothing may meet anything meanwhile: replicas that end, that
 * start, that stand still. One that lost writes is spared two faults at once:
 * the replicas all live through it, and none is given up. */
#include <stdlib.h>
#include <string.h>

#include "tests/sim/sim.h"

static void
take_backup(struct sim *sim)
{
    sim_store_copy(&sim->backup, &sim->kept);
    sim->backup.run = sim->kept.run;
    sim->backup_ns = sim->now_ns;
}

static void
copy_now(struct sim *sim, void *ctx, uint64_t arg)
{
    (void)ctx;
    (void)arg;
    take_backup(sim);
}

static void
copy_often(struct sim *sim, void *ctx, uint64_t arg)
{
    (void)ctx;
    (void)arg;
    /* One that was made in a recovery is seldom, and worth keeping. */
    if (!sim->backup.closed || sim_chance(sim, 30)) {
        take_backup(sim);
    }
    if (!sim->healed) {
        sim_in(sim, sim_between(sim, SIM_MS, 1500 * SIM_MS), NULL, copy_often,
               NULL, 0);
    }
}

static bool
may_forget(const struct sim *sim)
{
    return sim->profile.store == SIM_STORE_SHARED &&
           sim_has_fault(sim, SIM_STORE_FORGETS);
}

void
sim_failover_start(struct sim *sim)
{
    if (may_forget(sim)) {
        copy_often(sim, NULL, 0);
    }
}

/* --- A process ends. --- */

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
    sim->kept.run++;
    sim->old.run = 0;
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
sim_failover_restart(struct sim *sim, struct sim_replica *replica)
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

/* --- Another one takes its place. --- */

static void
leave_conn(struct sim *sim, void *ctx, uint64_t arg)
{
    struct sim_replica *replica = ctx;

    if (replica->conn.store_run == arg && arg != sim->kept.run) {
        sim_conn_break(replica);
    }
}

static void
leave_feed(struct sim *sim, void *ctx, uint64_t arg)
{
    struct sim_replica *replica = ctx;

    if (replica->feed.store_run == arg && arg != sim->kept.run) {
        sim_feed_break(replica);
    }
}

/* Soon, or when that process ends. */
static int64_t
leave_ns(struct sim *sim, int64_t lives_ns)
{
    return sim_between(sim, 0, sim_chance(sim, 60) ? 5 * SIM_MS : lives_ns + 1);
}

static void
end_old(struct sim *sim, void *ctx, uint64_t arg)
{
    (void)ctx;
    if (sim->old.run == arg) {
        sim_trace(sim, "store %u: ends", sim->old.run);
        sim->old.run = 0;
    }
}

static void
fail_over(struct sim *sim)
{
    int64_t lives_ns = sim_between(sim, 0, 3 * SIM_S);
    struct sim_kept before = sim->kept;

    sim->kept = sim->old;
    sim->kept.run = before.run + 1;
    sim->old = before;
    sim_store_copy(&sim->kept, &sim->backup);
    sim_store_away(sim,
                   sim_chance(sim, 50) ? 0 : sim_between(sim, 0, 200 * SIM_MS));
    for (uint32_t i = 0; i < sim->n_replicas; i++) {
        struct sim_replica *replica = &sim->replicas[i];

        sim_feed_lose(replica);
        replica->conn.lag_ns =
            sim_chance(sim, 60) ? sim_between(sim, 0, 900 * SIM_MS) : 0;
        sim_in(sim, leave_ns(sim, lives_ns), replica, leave_conn, replica,
               before.run);
        sim_in(sim, leave_ns(sim, lives_ns), replica, leave_feed, replica,
               before.run);
    }
    sim_in(sim, lives_ns, NULL, end_old, NULL, before.run);
}

static void
forget(struct sim *sim)
{
    if (sim->backup.run == 0) {
        return;
    }
    for (uint32_t i = 0; i < sim->n_replicas; i++) {
        if (sim->replicas[i].pools == NULL ||
            sim->replicas[i].start_ns > sim->backup_ns) {
            return;
        }
    }
    sim_trace(sim, "store: is as it was %lld ms ago",
              (long long)((sim->now_ns - sim->backup_ns) / SIM_MS));
    sim->n_met[SIM_MET_FAILOVERS]++;
    sim->n_met[SIM_MET_AGAIN] += sim->kept.closed ? 1 : 0;
    sim->lossy = true;
    if (sim_chance(sim, 30)) {
        sim_store_copy(&sim->kept, &sim->backup);
        restart(sim);
    } else {
        fail_over(sim);
    }
}

static void
forget_open(struct sim *sim, void *ctx, uint64_t arg)
{
    (void)ctx;
    (void)arg;
    if (!sim->kept.closed && !sim->healed) {
        forget(sim);
    }
}

/* What replicas want at the same time is what they can disagree on. */
void
sim_failover_forget(struct sim *sim)
{
    int64_t rush_ns = sim_chance(sim, 50) ? 0 : sim_between(sim, 0, 5 * SIM_MS);

    if (rush_ns > 0) {
        sim_client_rush(sim);
    }
    sim_in(sim, rush_ns, NULL, forget_open, NULL, 0);
}

static void
forget_again(struct sim *sim, void *ctx, uint64_t arg)
{
    (void)ctx;
    if (!sim->healed && sim->kept.closed && sim->kept.generation == arg) {
        forget(sim);
    }
}

void
sim_failover_closed(struct sim *sim)
{
    if (!may_forget(sim) || sim->healed) {
        return;
    }
    if (sim_chance(sim, 50)) {
        sim_in(sim, sim_between(sim, 0, 50 * SIM_MS), NULL, copy_now, NULL, 0);
    }
    if (sim->lossy && sim_chance(sim, 30)) {
        sim_in(sim,
               sim_between(sim, SIM_MS,
                           sim_chance(sim, 70) ? 300 * SIM_MS : 3 * SIM_S),
               NULL, forget_again, NULL, sim->kept.generation);
    }
}
