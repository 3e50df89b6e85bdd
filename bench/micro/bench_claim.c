/* bench/micro/bench_claim.c - a whole claim inside the process: hash of its id,
 * known-id check, pop, slot, fence, signed token, lease in the memory store.
 *
 * Timed by hand: BATCH claims between two readings of the clock. Making the
 * requests, and giving the sandboxes back (release, destroy, create, ready)
 * happen outside. The queue is first in first out, so with a million ready each
 * claim meets a slot that was last touched a million claims ago: the figure at
 * 1e6 holds the memory's latency, nothing is flattered by a warm cache.
 *
 * The mean is Google Benchmark's; the counter median_ns is the median over the
 * batches, which a neighbour on the machine does not move: quote that one.
 *
 *   same_table   all sizes in a table for 1 050 000 slots
 *   own_table    the table fits the size
 *   no_token     without the signature (sandboxes come back by undo) */
#include <string.h>

#include "bench/micro/gbench.h"
#include "bench/load/hist.h"
#include "bench/micro/pool_rig.h"
#include "pool/base/assert.h"

enum {
    BATCH = 16, /* As many requests stay in the first-level cache. */
    ROOM = 256,
    SLOTS_SAME = 1050000,
};

static const int64_t sizes[] = {100, 10000, 1000000};

struct variant {
    bool same_table;
    bool tokens;
};

static void
give_back(struct wp_pool_rig *rig, struct wp_pool_rig_claim *claims,
          bool tokens)
{
    for (int i = 0; i < BATCH; i++) {
        if (tokens) {
            wp_pool_rig_release(rig, claims[i].claim.grant.token);
        } else {
            wp_pools_undo(rig->pools, &claims[i].claim);
        }
    }
    wp_pool_rig_settle(rig);
}

static void
bench_claim(struct wp_bench_state *state)
{
    static struct wp_pool_rig_claim claims[BATCH];
    static struct wp_hist batches;
    const struct variant *variant = wp_bench_ctx(state);
    const struct wp_clock *clock = wp_clock_system();
    uint32_t ready = (uint32_t)wp_bench_arg(state);
    uint64_t not_warm = 0;
    struct wp_pool_rig rig;

    wp_pool_rig_init(&rig, ready,
                     variant->same_table ? SLOTS_SAME : ready + ROOM,
                     variant->tokens);
    wp_hist_reset(&batches);
    while (wp_bench_keep(state, BATCH)) {
        int64_t start_ns;
        int64_t took_ns;

        for (int i = 0; i < BATCH; i++) {
            wp_pool_rig_fill(&rig, &claims[i]);
        }
        start_ns = wp_clock_mono_ns(clock);
        for (int i = 0; i < BATCH; i++) {
            if (wp_pools_claim(rig.pools, &claims[i].claim) != WP_OK) {
                wp_bench_fail(state, "a claim was not granted at once");
                return;
            }
        }
        took_ns = wp_clock_mono_ns(clock) - start_ns;
        wp_bench_add_time(state, took_ns);
        wp_hist_record(&batches, took_ns);
        for (int i = 0; i < BATCH; i++) {
            not_warm += claims[i].claim.grant.served != WP_SERVED_WARM;
        }
        give_back(&rig, claims, variant->tokens);
    }
    wp_bench_count(state, "median_ns",
                   (double)wp_hist_quantile_ns(&batches, 0.5) / BATCH,
                   WP_BENCH_COUNTER_PLAIN);
    wp_bench_count(state, "not_warm", (double)not_warm, WP_BENCH_COUNTER_PLAIN);
    wp_pools_check(rig.pools);
    wp_pool_rig_fini(&rig);
}

/* Known id: the same claim again gets the same answer. */
static void
bench_replay(struct wp_bench_state *state)
{
    static struct wp_pool_rig_claim claim;
    struct wp_pool_rig rig;

    wp_pool_rig_init(&rig, 100, 100 + ROOM, true);
    wp_pool_rig_fill(&rig, &claim);
    WP_ASSERT(wp_pools_claim(rig.pools, &claim.claim) == WP_OK);
    while (wp_bench_keep(state, BATCH)) {
        for (int i = 0; i < BATCH; i++) {
            WP_ASSERT(wp_pools_claim(rig.pools, &claim.claim) == WP_OK);
            WP_ASSERT(claim.claim.replayed);
        }
    }
    wp_pool_rig_release(&rig, claim.claim.grant.token);
    wp_pool_rig_fini(&rig);
}

int
main(int argc, char **argv)
{
    static const struct variant same = {true, true};
    static const struct variant own = {false, true};
    static const struct variant same_no_token = {true, false};
    static const struct variant own_no_token = {false, false};
    const struct wp_bench all[] = {
        {"claim/same_table", bench_claim, &same, sizes, 3, NULL, 0, true},
        {"claim/own_table", bench_claim, &own, sizes, 3, NULL, 0, true},
        {"claim/same_table/no_token", bench_claim, &same_no_token, sizes, 3,
         NULL, 0, true},
        {"claim/own_table/no_token", bench_claim, &own_no_token, sizes, 3, NULL,
         0, true},
        {"claim/replay", bench_replay, NULL, NULL, 0, NULL, 0, false},
    };

    for (size_t i = 0; i < WP_ARRAY_LEN(all); i++) {
        wp_bench_register(&all[i]);
    }
    return wp_bench_run(argc, argv);
}
