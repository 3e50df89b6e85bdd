/* What a pool's scaler decided, decided again from the pool's record: the same
 * decisions at the same times, in every term and to the last bit; under bursts
 * and pauses, floors by the clock, reservations, hands, clocks that are set,
 * turns that come late and daemons that die. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include <string.h>

#include "pool/base/rng.h"
#include "pool/refill/refill.h"
#include "tests/support/pool/retrace.h"
#include "tests/support/pool/pool_rig.h"
#include "tests/support/pool/replica_rig.h"

#define MS WP_NS_PER_MS
#define S WP_NS_PER_S
#define BEGIN_MONO_NS (1000 * S)
#define BEGIN_WALL_NS (INT64_C(1700000000) * S)

enum {
    LOG_MAX = 40000,
};

/* Decisions in order; those of the pool by its own clock. */
struct log {
    struct wp_scale_decision all[LOG_MAX];
    uint32_t n;
};

static struct log seen;  /* Of the pool. */
static struct log again; /* Of its record. */

static void
set_key(struct wp_scale_policy *policy, const char *key, const char *value)
{
    struct wp_err err;

    assert_int_equal(
        wp_scale_policy_set(policy, wp_str_from(key), wp_str_from(value), &err),
        WP_OK);
}

/* Those that the pool has kept since the last look. */
static void
look(struct wp_pools *pools)
{
    static struct wp_scale_decision kept[WP_SCALE_DECISIONS_KEPT];
    uint32_t n =
        wp_pools_scale_decisions(pools, 0, kept, WP_SCALE_DECISIONS_KEPT);
    uint64_t last = seen.n > 0 ? seen.all[seen.n - 1].number : 0;

    for (uint32_t i = n; i > 0; i--) {
        struct wp_scale_decision *decision = &kept[i - 1];

        if (decision->number > last) {
            assert_true(decision->number == last + 1 || last == 0);
            assert_true(seen.n < LOG_MAX);
            last = decision->number;
            seen.all[seen.n++] = *decision;
        }
    }
}

static void
take(void *ctx, const struct wp_scale_decision *decision)
{
    (void)ctx;
    assert_true(again.n < LOG_MAX);
    again.all[again.n++] = *decision;
}

static bool
same_double(double a, double b)
{
    uint64_t bits_a;
    uint64_t bits_b;

    /* What is not a number is the same as itself, too. */
    memcpy(&bits_a, &a, sizeof bits_a);
    memcpy(&bits_b, &b, sizeof bits_b);
    return bits_a == bits_b;
}

static bool
same(const struct wp_scale_decision *a, const struct wp_scale_decision *b)
{
    return a->number == b->number && a->wall_ns == b->wall_ns &&
           a->target_before == b->target_before && a->target == b->target &&
           a->wanted == b->wanted && a->reason == b->reason &&
           same_double(a->rate_per_s, b->rate_per_s) &&
           same_double(a->rate_fast_per_s, b->rate_fast_per_s) &&
           same_double(a->rate_slow_per_s, b->rate_slow_per_s) &&
           same_double(a->lead_mean_s, b->lead_mean_s) &&
           same_double(a->lead_p99_s, b->lead_p99_s) &&
           same_double(a->expected, b->expected) &&
           same_double(a->spread, b->spread) &&
           same_double(a->dispersion, b->dispersion) &&
           a->learned == b->learned && a->reserved == b->reserved &&
           a->floor == b->floor && same_double(a->hit_rate, b->hit_rate) &&
           same_double(a->idle, b->idle) &&
           same_double(a->hit_rate_seen, b->hit_rate_seen) &&
           same_double(a->hit_rate_best, b->hit_rate_best);
}

/* The first n that were seen are those that were taken again. */
static void
assert_same(uint64_t seed, uint32_t n)
{
    assert_true(n <= seen.n);
    for (uint32_t i = 0; i < n; i++) {
        const struct wp_scale_decision *a = &seen.all[i];
        const struct wp_scale_decision *b = &again.all[i];

        if (i >= again.n || !same(a, b) ||
            a->mono_ns - BEGIN_MONO_NS != b->mono_ns - BEGIN_WALL_NS) {
            char was[WP_SCALE_TEXT_MAX];
            char is[WP_SCALE_TEXT_MAX] = "none";

            wp_scale_decision_format(a, was, sizeof was);
            if (i < again.n) {
                wp_scale_decision_format(b, is, sizeof is);
            }
            fail_msg("seed %llu: decision %u of %u at %lld ms was\n%s\nand "
                     "again at %lld ms\n%s",
                     (unsigned long long)seed, i, n,
                     (long long)(a->mono_ns - BEGIN_MONO_NS) / MS, was,
                     (long long)(b->mono_ns - BEGIN_WALL_NS) / MS, is);
        }
    }
}

static void
retrace(struct wp_pools *pools, const struct wp_scale_policy *policy,
        enum wp_miss miss, int64_t end_mono_ns)
{
    struct wp_history *history = wp_pools_history(pools, 0);
    struct wp_retrace run = {.history = history,
                             .policy = policy,
                             .miss = miss,
                             .prior_lead_ns = WP_REFILL_LEAD_GUESS_NS,
                             .end_ns =
                                 end_mono_ns - BEGIN_MONO_NS + BEGIN_WALL_NS,
                             .decided = take};
    struct wp_err err;

    assert_non_null(history);
    again.n = 0;
    if (wp_retrace_run(&run, &err) != WP_OK) {
        fail_msg("%s", err.msg);
    }
    wp_history_destroy(history);
}

/* --- One daemon --- */

/* What a seed makes of the day. */
struct world {
    struct wp_rig rig;
    struct wp_rng rng;
    uint32_t ids;
    uint32_t reserved;
    bool by_hand;
    bool leapt; /* The wall, so that a history leaves a gap. */
};

static int64_t
below(struct world *world, int64_t n)
{
    return (int64_t)wp_rng_below(&world->rng, (uint64_t)n);
}

static void
claims(struct world *world, int64_t n)
{
    static struct wp_rig_claim c;
    char id[32];

    while (n-- > 0) {
        (void)snprintf(id, sizeof id, "c%u", world->ids++);
        wp_rig_claim_init(&c, id, "", S, 0);
        (void)wp_rig_claim(&world->rig, &c);
    }
}

/* Time passes in turns of any length, as a busy machine makes them. */
static void
turns(struct world *world, int64_t ns)
{
    struct wp_rig *rig = &world->rig;
    int64_t end_ns = rig->clock.now_mono_ns + ns;
    int64_t next_ns;

    do {
        next_ns = wp_pools_run(rig->pools);
        look(rig->pools);
        (void)wp_fake_backend_turn(&rig->backend);
        if (next_ns > end_ns) {
            next_ns = end_ns;
        }
        next_ns +=
            below(world, 8) == 0 ? below(world, 50 * MS) : below(world, 3 * MS);
        if (next_ns > rig->clock.now_mono_ns) {
            wp_clock_manual_advance(&rig->clock,
                                    next_ns - rig->clock.now_mono_ns);
        }
    } while (rig->clock.now_mono_ns < end_ns);
}

static void
announce(struct world *world)
{
    int64_t now_ns = world->rig.clock.now_wall_ns;
    int64_t from_ns = now_ns + below(world, 30 * S);
    struct wp_err err;
    char id[32];

    if (world->reserved > 0 && below(world, 3) == 0) {
        (void)snprintf(id, sizeof id, "job%u", world->reserved - 1);
        (void)wp_pools_scale_cancel(world->rig.pools, 0, wp_str_from(id), &err);
        return;
    }
    (void)snprintf(id, sizeof id, "job%u", world->reserved++);
    /* Said again it is the same one. */
    for (int i = 0; i < 2; i++) {
        assert_int_equal(
            wp_pools_scale_reserve(world->rig.pools, 0, wp_str_from(id),
                                   1 + (uint32_t)world->reserved * 7 % 40,
                                   from_ns, from_ns + 20 * S, &err),
            WP_OK);
    }
}

/* Something happens besides claims. */
static void
befall(struct world *world)
{
    struct wp_clock_manual *clock = &world->rig.clock;
    struct wp_err err;

    switch (below(world, 8)) {
    case 0:
    case 1:
    case 2:
        announce(world);
        break;
    case 3:
        clock->now_wall_ns += below(world, 400 * MS) - 200 * MS;
        break;
    case 4:
        clock->now_wall_ns += world->leapt ? 5 * S : 300 * S;
        world->leapt = true;
        break;
    case 5:
        /* The daemon was stopped. */
        wp_clock_manual_advance(clock, 50 * S + below(world, 200 * S));
        break;
    case 6:
        world->rig.backend.ready_delay_ns = 20 * MS + below(world, 2 * S);
        break;
    default:
        if (world->by_hand) {
            assert_int_equal(wp_pools_set_target(world->rig.pools, 0,
                                                 5 + (uint32_t)below(world, 3),
                                                 &err),
                             WP_OK);
        }
        break;
    }
}

static void
live(struct world *world)
{
    for (int wave = 0; wave < 60; wave++) {
        int64_t pause_ns = (1 + below(world, 200)) * 2 * MS;
        int64_t most = 1 + below(world, wave % 3 == 0 ? 12 : 2);
        int64_t n = 10 + below(world, 120);

        while (n-- > 0) {
            claims(world, 1 + below(world, most));
            turns(world, below(world, pause_ns));
        }
        if (below(world, 3) == 0) {
            befall(world);
        }
        turns(world, below(world, wave % 5 == 0 ? 200 * S : 2 * S));
        world->by_hand = wave >= 55;
    }
}

static void
set_policy_of_seed(struct wp_scale_policy *policy, uint64_t seed)
{
    set_key(policy, "objective", seed % 3 == 0 ? "cost" : "99%");
    if (seed % 3 == 0) {
        set_key(policy, "miss-cost", "20");
    }
    set_key(policy, "max", "400");
    if (seed % 2 == 0) {
        set_key(policy, "schedule", "*/3 * * * * for 1m at least 25");
        set_key(policy, "scale-down-window", "5s");
        set_key(policy, "scale-down-rate", "100%");
    } else {
        set_key(policy, "min", "2");
    }
}

static void
a_daemons_decisions(void **state)
{
    uint32_t most = 0;
    uint32_t by_reason[WP_SCALE_REASON_COUNT] = {0};

    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        static struct world world;
        struct wp_pool_spec spec;

        memset(&world, 0, sizeof world);
        wp_rng_init(&world.rng, seed);
        wp_pool_spec_init(&spec);
        spec.create_inflight_max = 1000;
        set_policy_of_seed(&spec.scale, seed);
        wp_rig_init(&world.rig, 3000, 2, &spec);
        world.rig.backend.ready = WP_FAKE_READY_DELAYED;
        world.rig.backend.ready_delay_ns = 400 * MS;
        seen.n = 0;
        live(&world);
        (void)wp_pools_run(world.rig.pools);
        look(world.rig.pools);
        retrace(world.rig.pools, &spec.scale,
                spec.waiters_max > 0 ? WP_MISS_QUEUED : WP_MISS_LOST,
                world.rig.clock.now_mono_ns);
        print_message("seed %llu: %u decisions\n", (unsigned long long)seed,
                      seen.n);
        assert_true(seen.n > 40);
        assert_same(seed, seen.n);
        assert_int_equal(again.n, seen.n);
        for (uint32_t i = 0; i < seen.n; i++) {
            by_reason[seen.all[i].reason]++;
            most = seen.all[i].target > most ? seen.all[i].target : most;
        }
        wp_rig_fini(&world.rig);
    }
    /* It was worth looking at. */
    assert_true(most > 40);
    assert_true(by_reason[WP_SCALE_FORECAST] > 50);
    assert_true(by_reason[WP_SCALE_HELD] > 50);
    assert_true(by_reason[WP_SCALE_BURST] > 0);
    assert_true(by_reason[WP_SCALE_BURST] < by_reason[WP_SCALE_FORECAST] / 4);
    assert_true(by_reason[WP_SCALE_RESERVED] > 0);
    assert_true(by_reason[WP_SCALE_SCHEDULED] > 0);
    assert_true(by_reason[WP_SCALE_BY_HAND] > 0);
}

/* --- Daemons that follow each other --- */

static struct replica a;

/* Busy for a while, quiet for a while. */
static void
run_replica(uint64_t seed, int steps)
{
    static uint32_t ids;
    struct wp_rng rng;
    struct wp_rig_claim c;
    char id[32];

    wp_rng_init(&rng, seed);
    for (int i = 0; i < steps; i++) {
        bool busy = i / 40 % 2 == 0;
        bool held;

        for (uint64_t n = busy ? wp_rng_below(&rng, 3) : 0; n > 0; n--) {
            (void)snprintf(id, sizeof id, "c%u", ids++);
            if (replica_claim(&a, &c, id) == WP_OK) {
                (void)replica_change(&a, &c, false, &held);
            }
            look(a.pools);
        }
        wp_clock_manual_advance(
            &replica_clock,
            (int64_t)wp_rng_below(&rng, (busy ? 300 : 3000) * MS));
        replica_settle(&a);
        look(a.pools);
    }
}

/* Of a record that one daemon began and others went on with: each is killed
 * right after it has saved. */
static void
decisions_over_restarts(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        struct wp_pool_spec spec;
        uint32_t of_run[4] = {0};

        (void)replica_set_up(NULL);
        set_key(&replica_policy, "objective", "99%");
        set_key(&replica_policy, "max", "6");
        set_key(&replica_policy, "scale-down-window", "2s");
        set_key(&replica_policy, "scale-down-rate", "100%");
        wp_pool_spec_init(&spec);
        seen.n = 0;
        for (uint32_t run = 0; run < 3; run++) {
            replica_open(&a, 0, 2, true);
            if (run > 0) {
                replica_adopt_all(&a, 0);
            }
            replica_settle(&a);
            look(a.pools);
            assert_string_equal(replica_unlearned.msg, "");
            run_replica(10 * seed + run, 600);
            of_run[run] = seen.n;
            if (run < 2) {
                /* A moment at which all is saved, and then the kill. */
                struct wp_err err;
                char id[16];

                (void)snprintf(id, sizeof id, "later%u", run);
                assert_int_equal(wp_pools_scale_reserve(
                                     a.pools, 0, wp_str_from(id), 1,
                                     replica_clock.now_wall_ns + 600 * S,
                                     replica_clock.now_wall_ns + 601 * S, &err),
                                 WP_OK);
                replica_settle(&a);
                look(a.pools);
                of_run[run] = seen.n;
                replica_close(&a);
                wp_clock_manual_advance(&replica_clock, 7 * S + 3 * MS);
                continue;
            }
        }
        print_message("seed %llu: %u, %u, %u decisions\n",
                      (unsigned long long)seed, of_run[0], of_run[1],
                      of_run[2]);
        assert_true(of_run[2] > of_run[1] && of_run[1] > of_run[0] &&
                    of_run[0] > 3);
        retrace(a.pools, &replica_policy,
                spec.waiters_max > 0 ? WP_MISS_QUEUED : WP_MISS_LOST,
                replica_clock.now_mono_ns);
        assert_same(seed, seen.n);
        replica_close(&a);
    }
}

/* Reading it takes as long as three quanta. */
static int64_t
slow_mono_ns(const struct wp_clock *clock)
{
    (void)clock;
    wp_clock_manual_advance(&replica_clock, 3 * WP_SCALE_QUANTUM_NS);
    return replica_clock.now_mono_ns;
}

/* What a turn decides is of the time at which it began, however long it takes:
 * a snapshot that is taken in within it does not lead the scaler into the
 * future, from where the turns that follow would bring it back. */
static void
decisions_are_of_their_turns_time(void **state)
{
    struct wp_err err;

    (void)state;
    set_key(&replica_policy, "objective", "99%");
    seen.n = 0;
    replica_open(&a, 0, 2, true);
    replica_settle(&a);
    run_replica(1, 100);
    assert_int_equal(wp_pools_scale_reserve(a.pools, 0, WP_STR("later"), 1,
                                            replica_clock.now_wall_ns + 600 * S,
                                            replica_clock.now_wall_ns + 601 * S,
                                            &err),
                     WP_OK);
    replica_settle(&a);
    assert_true(replica_store.snapshots > 0);
    replica_close(&a);

    replica_open(&a, 0, 2, true);
    replica_adopt_all(&a, 0);
    replica_clock.clock.mono_ns = slow_mono_ns;
    seen.n = 0;
    for (int i = 0; i < 20; i++) {
        int64_t began_ns = replica_clock.now_mono_ns + 3 * WP_SCALE_QUANTUM_NS;
        uint32_t before = seen.n;

        (void)wp_pools_run(a.pools);
        look(a.pools);
        for (uint32_t k = before; k < seen.n; k++) {
            assert_in_range(seen.all[k].mono_ns, 0, began_ns);
        }
    }
    assert_true(seen.n > 0);
    /* It was taken in. */
    assert_true(replica_stats(&a).scale.rate_slow_per_s > 0.1);
    assert_string_equal(replica_unlearned.msg, "");
    replica_close(&a);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_daemons_decisions),
        cmocka_unit_test_setup(decisions_over_restarts, replica_set_up),
        cmocka_unit_test_setup(decisions_are_of_their_turns_time,
                               replica_set_up),
    };

    return cmocka_run_group_tests_name("pool_retrace", tests, NULL, NULL);
}
