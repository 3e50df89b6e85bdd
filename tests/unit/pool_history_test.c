/* What pools record of their claims: all of them, and for a scaled pool exactly
 * what its scaler was told, so that the record replays to its decisions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "pool/refill.h"
#include "pool/scale/history.h"
#include "pool/scale/retrace.h"
#include "tests/support/pool_rig.h"
#include "tests/support/replica_rig.h"

#define MS WP_NS_PER_MS
#define S WP_NS_PER_S

static struct wp_pool_spec
spec_of(const char *objective)
{
    struct wp_pool_spec spec;
    struct wp_err err;

    wp_pool_spec_init(&spec);
    spec.create_inflight_max = 1000;
    if (objective != NULL) {
        assert_int_equal(wp_scale_policy_set(&spec.scale, WP_STR("objective"),
                                             wp_str_from(objective), &err),
                         WP_OK);
    }
    return spec;
}

static void
claim(struct wp_rig *rig)
{
    static struct wp_rig_claim c;
    static uint32_t n;
    char id[32];

    (void)snprintf(id, sizeof id, "c%u", n++);
    wp_rig_claim_init(&c, id, "", S, 0);
    (void)wp_rig_claim(rig, &c);
}

struct sums {
    uint64_t claims;
    uint64_t missed;
    uint32_t leads;
    uint32_t gaps;
    int64_t lead_ns; /* The shortest that took any time. */
};

static struct sums
sums_of(struct wp_history *history)
{
    struct sums sums = {0};
    struct wp_history_cursor cursor;
    struct wp_history_event event;

    assert_non_null(history);
    wp_history_first(history, &cursor);
    while (wp_history_next(&cursor, &event)) {
        sums.claims += event.n;
        sums.missed += event.missed;
        sums.gaps += event.kind == WP_HISTORY_GAP ? 1 : 0;
        if (event.kind == WP_HISTORY_READY) {
            sums.leads++;
            if (event.lead_ns > 0 &&
                (sums.lead_ns == 0 || event.lead_ns < sums.lead_ns)) {
                sums.lead_ns = event.lead_ns;
            }
        }
    }
    wp_history_destroy(history);
    return sums;
}

/* A pool that nothing scales has its claims recorded, too. */
static void
records_without_an_objective(void **state)
{
    struct wp_rig rig;
    struct sums sums;
    int64_t from_ns;
    int64_t until_ns;
    struct wp_history *history;

    (void)state;
    wp_rig_init(&rig, 200, 3, NULL);
    rig.backend.ready = WP_FAKE_READY_DELAYED;
    rig.backend.ready_delay_ns = 300 * MS;
    wp_rig_advance(&rig, S);
    for (uint32_t i = 0; i < 50; i++) {
        claim(&rig);
        wp_rig_advance(&rig, 50 * MS);
    }
    wp_rig_advance(&rig, S);
    history = wp_pools_history(rig.pools, 0);
    assert_true(wp_history_span(history, &from_ns, &until_ns));
    assert_in_range(until_ns - from_ns, 2400 * MS, 5 * S);
    sums = sums_of(history);
    assert_int_equal(sums.claims, 50);
    assert_int_equal(sums.missed, wp_rig_stats(&rig).refused_total);
    assert_true(sums.missed > 10);
    assert_true(sums.leads > 10);
    assert_int_equal(sums.lead_ns, wp_history_lead_round(300 * MS));
    assert_null(wp_pools_history(rig.pools, 1));
    wp_rig_fini(&rig);
}

/* Of the pool, the newest first, and whether each was taken again. */
struct again {
    struct wp_scale_decision kept[WP_SCALE_DECISIONS_KEPT];
    int64_t asked_wall_ns[WP_SCALE_DECISIONS_KEPT]; /* The oldest first. */
    bool taken[WP_SCALE_DECISIONS_KEPT];
    uint32_t n;
};

#define BEGIN_MONO_NS (1000 * S)
#define BEGIN_WALL_NS (INT64_C(1700000000) * S)

/* What fades is faded in steps as often as it is asked, which costs the last
 * bits. */
static bool
near(double a, double b)
{
    return fabs(a - b) < 1e-6 * (1 + fabs(a));
}

/* What is wanted before bounds and hold may depend on when the scaler was asked
 * before, which is known of kept decisions only: by one at most. The target and
 * its reason do not. */
static bool
wanted_near(const struct wp_scale_decision *a,
            const struct wp_scale_decision *b)
{
    return a->wanted <= b->wanted + 1 && b->wanted <= a->wanted + 1;
}

static void
take(void *ctx, const struct wp_scale_decision *decision)
{
    struct again *again = ctx;

    for (uint32_t i = 0; i < again->n; i++) {
        const struct wp_scale_decision *kept = &again->kept[i];

        if (kept->mono_ns == decision->mono_ns + BEGIN_MONO_NS) {
            /* At one moment the pool may have decided before and after it heard
             * of an event. */
            again->taken[i] = again->taken[i] ||
                              (kept->target == decision->target &&
                               wanted_near(kept, decision) &&
                               kept->reason == decision->reason &&
                               near(kept->expected, decision->expected) &&
                               near(kept->lead_mean_s, decision->lead_mean_s));
        }
    }
}

/* The clock moves from quantum to quantum, so that nothing is asked late. */
static void
run_quanta(struct wp_rig *rig, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        wp_clock_manual_advance(&rig->clock, WP_SCALE_QUANTUM_NS);
        (void)wp_pools_run(rig->pools);
        (void)wp_fake_backend_turn(&rig->backend);
        (void)wp_pools_run(rig->pools);
    }
}

/* Traffic that comes and goes: waves of other rates, pauses between them. */
static void
run_waves(struct wp_rig *rig)
{
    for (uint32_t wave = 0; wave < 8; wave++) {
        for (uint32_t i = 0; i < 120; i++) {
            for (uint32_t k = 0; k < 1 + wave * i % 5; k++) {
                claim(rig);
            }
            run_quanta(rig, 1 + 4 * wave);
        }
        run_quanta(rig, 2000);
    }
}

/* A recorded run of the pool, told to the same controller again, gives the
 * decisions of the pool. */
static void
replays_to_the_same_decisions(void **state)
{
    static struct again again;
    struct wp_pool_spec spec = spec_of("99%");
    uint32_t most = 0;
    struct wp_retrace retrace = {.policy = &spec.scale,
                                 .miss = spec.waiters_max > 0 ? WP_MISS_QUEUED
                                                              : WP_MISS_LOST,
                                 .replicas = 2,
                                 .prior_lead_ns = WP_REFILL_LEAD_GUESS_NS,
                                 .begin_wall_ns = BEGIN_WALL_NS,
                                 .asked_wall_ns = again.asked_wall_ns,
                                 .decided = take,
                                 .ctx = &again};
    struct wp_history *history;
    struct wp_rig rig;
    struct wp_err err;

    (void)state;
    memset(&again, 0, sizeof again);
    assert_int_equal(wp_scale_policy_set(&spec.scale,
                                         WP_STR("scale-down-window"),
                                         WP_STR("5s"), &err),
                     WP_OK);
    assert_int_equal(wp_scale_policy_set(&spec.scale, WP_STR("scale-down-rate"),
                                         WP_STR("100%"), &err),
                     WP_OK);
    wp_rig_init(&rig, 2000, 2, &spec);
    rig.backend.ready = WP_FAKE_READY_DELAYED;
    rig.backend.ready_delay_ns = 400 * MS;
    run_waves(&rig);
    again.n = wp_pools_scale_decisions(rig.pools, 0, again.kept,
                                       WP_SCALE_DECISIONS_KEPT);
    assert_int_equal(again.n, WP_SCALE_DECISIONS_KEPT);
    for (uint32_t i = 0; i < again.n; i++) {
        again.asked_wall_ns[i] =
            again.kept[again.n - 1 - i].mono_ns - BEGIN_MONO_NS + BEGIN_WALL_NS;
    }
    retrace.n_asked = again.n;
    history = wp_pools_history(rig.pools, 0);
    retrace.history = history;
    retrace.end_wall_ns = rig.clock.now_wall_ns;
    assert_int_equal(wp_retrace_run(&retrace, &err), WP_OK);
    for (uint32_t i = 0; i < again.n; i++) {
        const struct wp_scale_decision *kept = &again.kept[i];

        most = kept->target > most ? kept->target : most;
        if (!again.taken[i]) {
            fail_msg("decision %llu (target %u, %s) at %lld was not taken "
                     "again",
                     (unsigned long long)kept->number, kept->target,
                     wp_scale_reason_word(kept->reason),
                     (long long)(kept->mono_ns - BEGIN_MONO_NS));
        }
    }
    assert_true(most > 8);
    wp_history_destroy(history);
    wp_rig_fini(&rig);
}

static struct replica a;

/* The latest part comes back with the note, and what lies between is a gap. */
static void
survives_a_kill(void **state)
{
    struct wp_rig_claim c;
    char id[32];
    struct sums before;
    struct sums after;

    (void)state;
    replica_policy = spec_of("99%").scale;
    replica_open(&a, 0, 2, true);
    replica_settle(&a);
    for (int i = 0; i < 700; i++) {
        if (i % 10 == 0) {
            bool held;

            (void)snprintf(id, sizeof id, "c%d", i);
            if (replica_claim(&a, &c, id) == WP_OK) {
                (void)replica_change(&a, &c, false, &held);
            }
        }
        wp_clock_manual_advance(&replica_clock, 100 * MS);
        replica_settle(&a);
    }
    assert_true(replica_store.notes >= 1);
    before = sums_of(wp_pools_history(a.pools, 0));
    assert_int_equal(before.claims, 70);
    replica_close(&a);

    wp_clock_manual_advance(&replica_clock, 30 * S);
    replica_open(&a, 0, 2, true);
    replica_adopt_all(&a, 0);
    replica_settle(&a);
    after = sums_of(wp_pools_history(a.pools, 0));
    /* Saved once a minute. */
    assert_in_range(after.claims, 55, 70);
    assert_int_equal(after.gaps, 1);
    assert_true(after.leads > 0);
    replica_close(&a);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_without_an_objective),
        cmocka_unit_test(replays_to_the_same_decisions),
        cmocka_unit_test_setup(survives_a_kill, replica_set_up),
    };

    return cmocka_run_group_tests_name("pool_history", tests, NULL, NULL);
}
