/* What pools record of their claims. That the record replays to the decisions
 * of a pool's scaler: pool_retrace_test. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "pool/history/history.h"
#include "tests/support/pool/pool_rig.h"
#include "tests/support/pool/replica_rig.h"

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

/* The first 64 are there; those behind them came a second after the one before,
 * each. */
static void
expect_thinned(struct wp_history *history)
{
    struct wp_history_cursor cursor;
    struct wp_history_event event;
    int64_t last_ns = 0;
    uint32_t n = 0;

    wp_history_first(history, &cursor);
    while (wp_history_next(&cursor, &event)) {
        if (event.kind == WP_HISTORY_READY) {
            n++;
            assert_true(n <= 64 || event.wall_ns == last_ns + S);
            assert_true(n > 64 || event.wall_ns <= last_ns + 50 * MS ||
                        last_ns == 0);
            last_ns = event.wall_ns;
        }
    }
    wp_history_destroy(history);
    assert_true(n > 64);
}

/* A sample of the lead times is enough for who reads them. */
static void
many_lead_times_are_thinned(void **state)
{
    struct wp_rig rig;
    struct sums sums;

    (void)state;
    wp_rig_init(&rig, 1000, 3, NULL);
    for (uint32_t i = 0; i < 400; i++) {
        claim(&rig);
        wp_rig_advance(&rig, 50 * MS);
    }
    sums = sums_of(wp_pools_history(rig.pools, 0));
    assert_int_equal(sums.claims, 400);
    assert_true(wp_rig_stats(&rig).created_total > 390);
    /* 20 seconds, of which three and a bit have all. */
    assert_in_range(sums.leads, 64 + 14, 64 + 18);
    expect_thinned(wp_pools_history(rig.pools, 0));
    wp_rig_fini(&rig);
}

static struct replica a;
static struct replica b;

/* Claims that are served and released, each so long after the one before. */
static void
work(struct replica *r, uint32_t n, int64_t apart_ns)
{
    static uint32_t serial;

    for (uint32_t i = 0; i < n; i++) {
        struct wp_rig_claim c;
        char id[32];

        (void)snprintf(id, sizeof id, "c%u", serial++);
        if (replica_claim(r, &c, id) == WP_OK) {
            (void)replica_change(r, &c, false, NULL);
        }
        wp_clock_manual_advance(&replica_clock, apart_ns);
        replica_settle(r);
    }
}

static struct sums
recorded(struct replica *r)
{
    return sums_of(wp_pools_history(r->pools, 0));
}

/* The latest part comes back with the snapshot, and what lies between is a gap;
 * whether the pool has an objective or not. */
static void
survives_kills(const char *objective)
{
    struct sums before;
    struct sums after;

    replica_policy = spec_of(objective).scale;
    replica_open(&a, 0, 2, true);
    replica_settle(&a);
    work(&a, 70, S);
    assert_true(replica_store.snapshots >= 1);
    before = recorded(&a);
    assert_int_equal(before.claims, 70);
    replica_close(&a);

    wp_clock_manual_advance(&replica_clock, 30 * S);
    replica_open(&a, 0, 2, true);
    replica_adopt_all(&a, 0);
    replica_settle(&a);
    after = recorded(&a);
    /* Saved once a minute. */
    assert_in_range(after.claims, 55, 70);
    assert_int_equal(after.gaps, 1);
    assert_true(after.leads > 0);
    work(&a, 70, S);
    replica_close(&a);

    replica_open(&a, 0, 2, true);
    replica_settle(&a);
    assert_in_range(recorded(&a).claims, after.claims + 55, after.claims + 70);
    assert_int_equal(recorded(&a).gaps, 2);
    assert_int_equal(replica_unlearned.status, WP_OK);
    replica_close(&a);
}

static void
survives_a_kill(void **state)
{
    (void)state;
    survives_kills("99%");
}

static void
survives_a_kill_without_an_objective(void **state)
{
    (void)state;
    survives_kills(NULL);
}

static void
leave(struct replica *r)
{
    wp_pools_leave(r->pools, true);
    replica_settle(r);
    assert_true(wp_pools_learned_saved(r->pools));
    replica_close(r);
}

/* What came since the last save is saved when the daemon leaves. */
static void
survives_a_stop(void **state)
{
    (void)state;
    replica_open(&a, 0, 2, true);
    replica_settle(&a);
    work(&a, 7, S);
    assert_int_equal(replica_store.snapshots, 0);
    leave(&a);
    assert_int_equal(replica_store.snapshots, 1);

    replica_open(&a, 0, 2, true);
    replica_settle(&a);
    assert_int_equal(recorded(&a).claims, 7);
    replica_close(&a);
}

/* However many claims came, a snapshot stays within its bounds, which a stop
 * widens. */
static void
is_bounded(void **state)
{
    uint64_t kept;

    (void)state;
    replica_open(&a, 0, 2, true);
    replica_settle(&a);
    work(&a, 24000, 50 * MS);
    assert_int_equal(recorded(&a).claims, 24000);
    assert_in_range(replica_store.snapshot_len, 20 * 1024, 25 * 1024);
    replica_close(&a);

    replica_open(&a, 0, 2, true);
    replica_settle(&a);
    kept = recorded(&a).claims;
    assert_in_range(kept, 8000, 23000);
    work(&a, 24000, 50 * MS);
    /* Nothing is new then. */
    wp_clock_manual_advance(&replica_clock, 60 * S);
    replica_settle(&a);
    assert_in_range(replica_store.snapshot_len, 20 * 1024, 25 * 1024);
    leave(&a);
    assert_in_range(replica_store.snapshot_len, 32 * 1024, WP_SNAPSHOT_MAX);
    replica_open(&a, 0, 2, true);
    replica_settle(&a);
    assert_true(recorded(&a).claims > kept * 3 / 2);
    replica_close(&a);
}

/* A pool without a scaler is filled while the store is still being asked, and
 * what comes late goes before what was recorded meanwhile. */
static void
nothing_waits_for_it(void **state)
{
    (void)state;
    replica_open(&a, 0, 2, true);
    replica_settle(&a);
    work(&a, 5, S);
    leave(&a);

    replica_open(&a, 0, 8, true);
    replica_store.ports[0].later = true;
    (void)wp_pools_run(a.pools);
    assert_true(wp_fake_backend_counts(&a.backend).creates > 0);
    replica_store.ports[0].later = false;
    (void)wp_model_answer(&replica_store, 0);
    replica_settle(&a);
    work(&a, 3, S);
    assert_int_equal(recorded(&a).claims, 8);
    replica_close(&a);
}

/* A store that does not answer is asked again, and nothing is written over what
 * it has. */
static void
is_not_overwritten_unread(void **state)
{
    uint32_t snapshots;

    (void)state;
    replica_open(&a, 0, 2, true);
    replica_settle(&a);
    work(&a, 5, S);
    leave(&a);
    snapshots = replica_store.snapshots;

    replica_open(&a, 0, 2, true);
    replica_store.ports[0].fault = WP_UNAVAILABLE;
    for (int i = 0; i < 700; i++) {
        (void)wp_pools_run(a.pools);
        wp_clock_manual_advance(&replica_clock, 100 * MS);
    }
    assert_int_equal(replica_store.snapshots, snapshots);
    assert_int_equal(recorded(&a).claims, 0);
    replica_store.ports[0].fault = WP_OK;
    replica_settle(&a);
    wp_clock_manual_advance(&replica_clock, 100 * MS);
    replica_settle(&a);
    assert_int_equal(recorded(&a).claims, 5);
    replica_close(&a);
}

/* The objective goes and comes back, with a restart each time: what the scaler
 * had learned is there, and so are the claims that came meanwhile. */
static void
carries_what_was_learned(void **state)
{
    double rate;

    (void)state;
    replica_policy = spec_of("99%").scale;
    replica_open(&a, 0, 2, true);
    replica_settle(&a);
    work(&a, 600, 100 * MS);
    rate = replica_stats(&a).scale.rate_slow_per_s;
    assert_true(rate > 1);
    leave(&a);

    replica_policy = spec_of(NULL).scale;
    for (int run = 0; run < 2; run++) {
        replica_open(&a, 0, 2, true);
        replica_settle(&a);
        work(&a, 10, 100 * MS);
        leave(&a);
    }

    replica_policy = spec_of("99%").scale;
    replica_open(&a, 0, 2, true);
    replica_settle(&a);
    assert_int_equal(replica_unlearned.status, WP_OK);
    assert_true(replica_stats(&a).scale.rate_slow_per_s > rate / 4);
    assert_int_equal(recorded(&a).claims, 620);
    assert_int_equal(recorded(&a).gaps, 3);
    replica_close(&a);
}

/* Only the keeper hears of all claims. Who takes over goes on with its record;
 * who had to let others keep for a while has a gap. */
static void
the_next_keeper_goes_on(void **state)
{
    struct wp_rig_claim c;

    (void)state;
    replica_open(&a, 0, 2, true);
    replica_open(&b, 1, 2, false);
    replica_settle_both(&a, &b);
    for (int i = 0; i < 65; i++) {
        work(&a, 1, S);
        replica_settle(&b);
    }
    assert_int_equal(replica_claim(&b, &c, "at-b"), WP_OK);
    replica_settle_both(&a, &b);
    assert_int_equal(recorded(&a).claims, 66);
    assert_int_equal(recorded(&b).claims, 0);
    assert_int_equal(recorded(&b).gaps, 0);

    wp_pools_set_keeper(a.pools, false);
    wp_pools_set_keeper(b.pools, true);
    replica_settle_both(&a, &b);
    assert_in_range(recorded(&b).claims, 55, 66);
    assert_int_equal(recorded(&a).gaps, 0);
    wp_pools_set_keeper(b.pools, false);
    wp_pools_set_keeper(a.pools, true);
    replica_settle_both(&a, &b);
    assert_int_equal(recorded(&a).gaps, 1);
    assert_int_equal(recorded(&a).claims, 66);
    /* From here on nothing is missed any more. */
    work(&a, 3, S);
    assert_int_equal(recorded(&a).gaps, 1);
    assert_int_equal(recorded(&a).claims, 69);
    replica_close(&b);
    replica_close(&a);
}

/* A lease at another replica that was over when the keeper heard of it. */
static void
counts_leases_that_were_over_at_once(void **state)
{
    struct wp_model_port *port = &replica_store.ports[0];
    struct wp_rig_claim c;
    bool held;

    (void)state;
    replica_open(&a, 0, 2, true);
    replica_open(&b, 1, 2, false);
    replica_settle_both(&a, &b);
    assert_int_equal(replica_claim(&b, &c, "short"), WP_OK);
    assert_int_equal(replica_change(&b, &c, false, &held), WP_OK);
    /* The feed brings the latest of what it has of a sandbox. */
    assert_int_equal(port->n_feed, 2);
    assert_int_equal(port->feed[0].state, WP_RECORD_HELD);
    assert_int_equal(port->feed[1].state, WP_RECORD_ENDED);
    port->feed[0] = port->feed[1];
    port->n_feed = 1;
    replica_settle_both(&a, &b);
    assert_int_equal(recorded(&a).claims, 1);
    replica_close(&b);
    replica_close(&a);
}

/* The same of a sandbox that a claim at the keeper wanted, too: the store was
 * asked who has it, and nobody had it any more. */
static void
counts_leases_over_before_they_were_asked_for(void **state)
{
    struct wp_rig_claim c;
    bool held;

    (void)state;
    replica_open(&a, 0, 1, true);
    replica_open(&b, 1, 1, false);
    replica_settle_both(&a, &b);
    assert_int_equal(replica_claim(&b, &c, "short"), WP_OK);
    assert_int_equal(replica_change(&b, &c, false, &held), WP_OK);
    assert_int_equal(replica_claim(&a, &c, "late"), WP_RESOURCE_EXHAUSTED);
    replica_settle_both(&a, &b);
    assert_int_equal(recorded(&a).missed, 1);
    assert_int_equal(recorded(&a).claims, 2);

    /* An order that nobody took and that is given up is no lease. */
    wp_clock_manual_advance(&replica_clock, S);
    replica_settle_both(&a, &b);
    assert_int_equal(wp_model_count(&replica_store, WP_RECORD_OPEN), 1);
    assert_int_equal(wp_pools_set_target(a.pools, 0, 0, NULL), WP_OK);
    replica_settle_both(&a, &b);
    assert_int_equal(wp_model_count(&replica_store, WP_RECORD_OPEN), 0);
    assert_int_equal(recorded(&a).claims, 2);
    replica_close(&b);
    replica_close(&a);
}

/* --- All that a scaler is told --- */

static const char *const kind_words[WP_HISTORY_KIND_COUNT] = {
    [WP_HISTORY_CLAIMS] = "claims",     [WP_HISTORY_READY] = "ready",
    [WP_HISTORY_GAP] = "gap",           [WP_HISTORY_BEGIN] = "begin",
    [WP_HISTORY_POLICY] = "policy",     [WP_HISTORY_REPLICAS] = "replicas",
    [WP_HISTORY_CLOCK] = "clock",       [WP_HISTORY_UNSEEN] = "unseen",
    [WP_HISTORY_RESTORED] = "restored", [WP_HISTORY_RESERVED] = "reserved",
    [WP_HISTORY_CANCELLED] = "cancel",  [WP_HISTORY_STEP] = "step",
    [WP_HISTORY_AT_ONCE] = "at once",
};

/* One line for each event; times from the first one on. Of a policy, whether it
 * is another one than the last. */
static void
tell(struct wp_history *history, char *out, size_t cap)
{
    struct wp_history_cursor cursor;
    struct wp_history_event e;
    int64_t first_ns = -1;
    uint32_t policy = 0;
    size_t len = 0;

    wp_history_first(history, &cursor);
    while (wp_history_next(&cursor, &e)) {
        first_ns = first_ns < 0 ? e.wall_ns : first_ns;
        len += (size_t)snprintf(out + len, cap - len, "%lld %s",
                                (long long)((e.wall_ns - first_ns) / MS),
                                kind_words[e.kind]);
        assert_true(len < cap - 200);
        if (e.kind == WP_HISTORY_POLICY) {
            len += (size_t)sprintf(out + len, " %s",
                                   e.n == policy ? "same" : "other");
            policy = e.n;
        } else if (e.kind != WP_HISTORY_STEP && e.kind != WP_HISTORY_CLOCK) {
            len += (size_t)sprintf(out + len, " %u", e.n);
        }
        if (e.missed > 0) {
            len += (size_t)sprintf(out + len, " missed %u", e.missed);
        }
        if (e.lead_ns > 0) {
            len += (size_t)sprintf(out + len, " lead %lld",
                                   (long long)(e.lead_ns / MS));
        }
        if (e.clock_ns > 0) {
            len += (size_t)sprintf(out + len, " clock %lld",
                                   (long long)((e.clock_ns - first_ns) / MS));
        }
        if (e.until_ns > 0) {
            len += (size_t)sprintf(out + len, " %lld to %lld",
                                   (long long)((e.from_ns - first_ns) / MS),
                                   (long long)((e.until_ns - first_ns) / MS));
        }
        out[len++] = '\n';
    }
    out[len] = '\0';
    wp_history_destroy(history);
}

static enum wp_status
reserve(struct wp_rig *rig, const char *id, uint32_t n, int64_t in_ns)
{
    int64_t now_ns = rig->clock.now_wall_ns;

    return wp_pools_scale_reserve(rig->pools, 0, wp_str_from(id), n,
                                  now_ns + in_ns, now_ns + 2 * in_ns, NULL);
}

static const char all_told[] = "0 begin 2 clock 0\n"
                               "0 policy other\n"
                               "0 at once 7\n"
                               "0 step\n"
                               "0 ready 0\n"
                               "0 ready 0\n"
                               "300 claims 3 missed 1\n"
                               "300 reserved 4 100300 to 200300\n"
                               "300 reserved 5 200300 to 400300\n"
                               "400 step\n"
                               "400 cancel 1\n"
                               "450 step\n"
                               "500 replicas 4\n"
                               "500 step\n"
                               "550 at once 9\n"
                               "550 step\n"
                               "550 policy other\n"
                               "600 step\n"
                               "600 ready 0 lead 300\n"
                               "600 ready 0 lead 300\n"
                               "650 clock clock 20650\n"
                               "650 step\n"
                               "660 claims 1\n"
                               "1360 claims 2 missed 1\n"
                               "1360 ready 0 lead 858\n"
                               "1360 ready 0 lead 858\n"
                               "3601360 unseen 360000\n"
                               "3601360 policy other\n"
                               "3601410 step\n"
                               "3601410 ready 0 lead 3592117\n";

/* In the order in which it is told, and nothing twice. */
static void
records_all_that_its_scaler_is_told(void **state)
{
    struct wp_pool_spec spec = spec_of("99%");
    struct wp_pool_stats stats;
    static char text[8192];
    struct wp_rig rig;

    (void)state;
    spec.create_inflight_max = 7;
    wp_rig_init(&rig, 64, 2, &spec);
    rig.backend.ready = WP_FAKE_READY_DELAYED;
    rig.backend.ready_delay_ns = 300 * MS;
    for (int i = 0; i < 3; i++) {
        claim(&rig);
    }
    wp_rig_advance(&rig, 300 * MS);
    assert_int_equal(reserve(&rig, "a", 4, 100 * S), WP_OK);
    assert_int_equal(reserve(&rig, "b", 5, 200 * S), WP_OK);
    wp_rig_advance(&rig, 100 * MS);
    /* Said again, it is the same one. */
    rig.clock.now_wall_ns -= 100 * MS;
    assert_int_equal(reserve(&rig, "b", 5, 200 * S), WP_OK);
    rig.clock.now_wall_ns += 100 * MS;
    assert_int_equal(wp_pools_scale_cancel(rig.pools, 0, WP_STR("b"), NULL),
                     WP_OK);
    wp_rig_advance(&rig, 50 * MS);
    assert_int_equal(wp_pools_set_target(rig.pools, 0, 4, NULL), WP_OK);
    wp_rig_advance(&rig, 50 * MS);
    stats = wp_rig_stats(&rig);
    stats.spec.target = stats.replicas;
    stats.spec.create_inflight_max = 9;
    assert_int_equal(wp_pools_update(rig.pools, 0, &stats.spec, NULL), WP_OK);
    wp_rig_advance(&rig, 50 * MS);
    assert_int_equal(wp_scale_policy_set(&stats.spec.scale, WP_STR("min"),
                                         WP_STR("3"), NULL),
                     WP_OK);
    assert_int_equal(wp_pools_update(rig.pools, 0, &stats.spec, NULL), WP_OK);
    wp_rig_advance(&rig, 50 * MS);
    rig.clock.now_wall_ns += 20 * S;
    wp_rig_advance(&rig, 50 * MS);
    claim(&rig);
    wp_rig_advance(&rig, 10 * MS);
    claim(&rig);
    claim(&rig);
    wp_rig_advance(&rig, 700 * MS);
    /* Until then the last policy held, though nobody looked. */
    wp_clock_manual_advance(&rig.clock, 3600 * S);
    assert_int_equal(wp_scale_policy_set(&stats.spec.scale, WP_STR("min"),
                                         WP_STR("2"), NULL),
                     WP_OK);
    assert_int_equal(wp_pools_update(rig.pools, 0, &stats.spec, NULL), WP_OK);
    wp_rig_advance(&rig, 50 * MS);
    tell(wp_pools_history(rig.pools, 0), text, sizeof text);
    assert_string_equal(text, all_told);
    wp_rig_fini(&rig);
}

/* Each was decided on before the next one came, though no time passed. */
static void
claims_of_one_moment_stay_apart(void **state)
{
    struct wp_pool_spec spec = spec_of("99%");
    static char text[4096];
    struct wp_rig rig;

    (void)state;
    wp_rig_init(&rig, 64, 4, &spec);
    claim(&rig);
    (void)wp_pools_run(rig.pools);
    claim(&rig);
    claim(&rig);
    (void)wp_pools_run(rig.pools);
    tell(wp_pools_history(rig.pools, 0), text, sizeof text);
    assert_non_null(strstr(text, "claims 1\n"));
    assert_non_null(strstr(text, "claims 2\n"));
    assert_null(strstr(text, "claims 3\n"));
    wp_rig_fini(&rig);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_without_an_objective),
        cmocka_unit_test(records_all_that_its_scaler_is_told),
        cmocka_unit_test(claims_of_one_moment_stay_apart),
        cmocka_unit_test(many_lead_times_are_thinned),
        cmocka_unit_test_setup(survives_a_kill, replica_set_up),
        cmocka_unit_test_setup(survives_a_kill_without_an_objective,
                               replica_set_up),
        cmocka_unit_test_setup(survives_a_stop, replica_set_up),
        cmocka_unit_test_setup(is_bounded, replica_set_up),
        cmocka_unit_test_setup(nothing_waits_for_it, replica_set_up),
        cmocka_unit_test_setup(is_not_overwritten_unread, replica_set_up),
        cmocka_unit_test_setup(carries_what_was_learned, replica_set_up),
        cmocka_unit_test_setup(the_next_keeper_goes_on, replica_set_up_shared),
        cmocka_unit_test_setup(counts_leases_that_were_over_at_once,
                               replica_set_up_shared),
        cmocka_unit_test_setup(counts_leases_over_before_they_were_asked_for,
                               replica_set_up_shared),
    };

    return cmocka_run_group_tests_name("pool_history", tests, NULL, NULL);
}
