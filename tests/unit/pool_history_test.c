/* What pools record of their claims. That the record replays to the decisions of
 * a pool's scaler: pool_retrace_test. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "pool/scale/history.h"
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
        sums.claims += event.kind == WP_HISTORY_CLAIMS ? event.n : 0;
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
        cmocka_unit_test_setup(survives_a_kill, replica_set_up),
    };

    return cmocka_run_group_tests_name("pool_history", tests, NULL, NULL);
}
