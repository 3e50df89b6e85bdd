/* A pool whose target is its scaler's, on a clock of the test's own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include <string.h>

#include "pool/base/siphash.h"
#include "pool/history/history.h"
#include "pool/table/pools.h"
#include "tests/support/pool/pool_rig.h"
#include "tests/support/pool/replica_rig.h"

#define MS WP_NS_PER_MS
#define S WP_NS_PER_S

static void
set_key(struct wp_scale_policy *policy, const char *key, const char *value)
{
    struct wp_err err;

    assert_int_equal(
        wp_scale_policy_set(policy, wp_str_from(key), wp_str_from(value), &err),
        WP_OK);
}

static struct wp_scale_policy
policy_of(uint32_t min, uint32_t max)
{
    struct wp_scale_policy policy;
    char number[16];

    wp_scale_policy_init(&policy);
    set_key(&policy, "objective", "99%");
    (void)snprintf(number, sizeof number, "%u", min);
    set_key(&policy, "min", number);
    (void)snprintf(number, sizeof number, "%u", max);
    set_key(&policy, "max", number);
    return policy;
}

static struct wp_pool_spec
spec_of(uint32_t min, uint32_t max)
{
    struct wp_pool_spec spec;

    wp_pool_spec_init(&spec);
    spec.create_inflight_max = 1000;
    spec.scale = policy_of(min, max);
    return spec;
}

static enum wp_status
claim(struct wp_rig *rig, uint32_t n)
{
    static struct wp_rig_claim c;
    char id[32];

    (void)snprintf(id, sizeof id, "c%u", n);
    wp_rig_claim_init(&c, id, "", S, 0);
    return wp_rig_claim(rig, &c);
}

static void
without_an_objective_nothing_is_scaled(void **state)
{
    struct wp_scale_decision decision;
    struct wp_rig rig;
    struct wp_err err;

    (void)state;
    wp_rig_init(&rig, 16, 3, NULL);
    for (uint32_t i = 0; i < 50; i++) {
        (void)claim(&rig, i);
        wp_rig_advance(&rig, 100 * MS);
    }
    assert_false(wp_rig_stats(&rig).scaled);
    assert_int_equal(wp_rig_stats(&rig).spec.target, 3);
    assert_int_equal(wp_pools_scale_decisions(rig.pools, 0, &decision, 1), 0);
    assert_null(wp_pools_scale_reaction(rig.pools, 0));
    assert_int_equal(wp_pools_scale_reserve(rig.pools, 0, WP_STR("r"), 1, 0,
                                            INT64_MAX, &err),
                     WP_FAILED_PRECONDITION);
    assert_non_null(strstr(err.msg, "objective"));
    assert_int_equal(wp_pools_scale_cancel(rig.pools, 0, WP_STR("r"), &err),
                     WP_FAILED_PRECONDITION);
    wp_rig_fini(&rig);
}

/* In every single turn: what it saw is ordered when it ends, and never more
 * than the target is. */
static void
orders_leave_in_the_turn_that_sees_the_claim(void **state)
{
    struct wp_pool_spec spec = spec_of(1, 400);
    struct wp_histogram_view view;
    struct wp_rig rig;
    uint32_t top = 0;
    uint64_t reactions = 0;

    (void)state;
    wp_rig_init(&rig, 1000, 1, &spec);
    rig.backend.ready = WP_FAKE_READY_DELAYED;
    rig.backend.ready_delay_ns = 500 * MS;
    for (uint32_t i = 0; i < 600; i++) {
        uint64_t ordered = wp_fake_backend_counts(&rig.backend).creates;
        struct wp_pool_stats stats;

        (void)claim(&rig, i);
        wp_clock_manual_advance(&rig.clock, 2 * MS);
        (void)wp_pools_run(rig.pools);
        stats = wp_rig_stats(&rig);
        assert_true(stats.ready + stats.warming >= stats.spec.target);
        assert_true(stats.ready + stats.warming == stats.spec.target ||
                    wp_fake_backend_counts(&rig.backend).creates == ordered);
        if (wp_fake_backend_counts(&rig.backend).creates > ordered) {
            reactions++;
        }
        top = stats.spec.target > top ? stats.spec.target : top;
        (void)wp_fake_backend_turn(&rig.backend);
        wp_clock_manual_advance(&rig.clock, 8 * MS);
        (void)wp_pools_run(rig.pools);
    }
    /* 100 a second for half a second each, evenly: some 50. */
    assert_true(top >= 45 && top < 200);
    assert_true(wp_rig_stats(&rig).scale.rate_per_s > 50);
    assert_true(wp_rig_stats(&rig).scale.lead_mean_s > 0.4);
    wp_histogram_read(wp_pools_scale_reaction(rig.pools, 0), &view);
    assert_true(view.count > 100);
    /* Each turn that ordered anything, as of the claim it saw. */
    assert_int_equal(view.count, reactions);
    assert_int_equal(view.sum_ns, reactions * 2 * MS);
    wp_rig_fini(&rig);
}

/* Claims that wait, where nothing becomes ready: what is made beyond the
 * target. */
static uint32_t
made_for_waiting(uint32_t max, const char *budget_group, bool by_hand)
{
    struct wp_pool_spec spec = spec_of(2, max);
    struct wp_rig_claim claims[7]; /* Two of them are served at once. */
    struct wp_pool_stats stats;
    struct wp_rig rig;

    (void)snprintf(spec.scale.budget_group, sizeof spec.scale.budget_group,
                   "%s", budget_group);
    wp_rig_init(&rig, 100, 2, &spec);
    rig.backend.ready = WP_FAKE_READY_NEVER;
    if (by_hand) {
        assert_int_equal(wp_pools_set_target(rig.pools, 0, 3, NULL), WP_OK);
        wp_rig_advance(&rig, 10 * MS);
    }
    for (int i = 0; i < 7; i++) {
        char id[16];

        (void)snprintf(id, sizeof id, "c%d", i);
        wp_rig_claim_init(&claims[i], id, "", 0, 30 * S);
        (void)wp_rig_claim(&rig, &claims[i]);
    }
    wp_rig_advance(&rig, 10 * MS);
    stats = wp_rig_stats(&rig);
    assert_int_equal(stats.ready, 0);
    assert_int_equal(stats.waiting, 5);
    wp_rig_fini(&rig);
    return stats.warming - stats.spec.target;
}

/* The stock is chosen for orders that are placed as claims come. Only then does
 * a pool that was too small for a rate catch up. */
static void
waiting_claims_are_ordered_for(void **state)
{
    (void)state;
    assert_int_equal(made_for_waiting(1000, "", false), 5);
    assert_int_equal(made_for_waiting(4, "", false), 2);
    assert_int_equal(made_for_waiting(1000, "group", false), 0);
    assert_int_equal(made_for_waiting(1000, "", true), 0);
}

/* Watchers hear of a target that moved by itself, once a turn. */
static void
a_moved_target_is_told(void **state)
{
    struct wp_pool_spec spec = spec_of(1, 50);
    struct wp_rig rig;
    uint32_t changes;
    struct wp_err err;

    (void)state;
    wp_rig_init(&rig, 64, 1, &spec);
    assert_int_equal(wp_pools_scale_reserve(rig.pools, 0, WP_STR("job"), 20,
                                            rig.clock.now_wall_ns + 3600 * S,
                                            rig.clock.now_wall_ns + 3660 * S,
                                            &err),
                     WP_OK);
    wp_rig_settle(&rig);
    rig.backend.create_status = WP_RESOURCE_EXHAUSTED;
    wp_clock_manual_advance(&rig.clock, 3600 * S);
    changes = rig.changes;
    (void)wp_pools_run(rig.pools);
    assert_int_equal(wp_rig_stats(&rig).spec.target, 21);
    assert_int_equal(rig.changes, changes + 1);
    rig.backend.create_status = WP_OK;
    wp_rig_advance(&rig, 5 * S);
    wp_rig_fini(&rig);
}

static void
scales_to_zero_and_back(void **state)
{
    struct wp_pool_spec spec = spec_of(0, 50);
    struct wp_rig rig;

    (void)state;
    wp_rig_init(&rig, 64, 0, &spec);
    /* Its store keeps nothing: nothing is left to be saved. */
    assert_true(wp_pools_learned_saved(rig.pools));
    assert_int_equal(wp_rig_stats(&rig).spec.target, 0);
    assert_int_equal(wp_rig_stats(&rig).ready, 0);
    /* It misses, and that is what brings the first sandbox. */
    assert_int_equal(claim(&rig, 1), WP_RESOURCE_EXHAUSTED);
    wp_rig_settle(&rig);
    assert_int_equal(wp_rig_stats(&rig).missed_total, 1);
    assert_true(wp_rig_stats(&rig).ready > 0);
    assert_int_equal(claim(&rig, 2), WP_OK);
    for (int i = 0; i < 24 * 60; i++) {
        wp_rig_advance(&rig, 60 * S);
    }
    assert_int_equal(wp_rig_stats(&rig).spec.target, 0);
    assert_int_equal(wp_rig_stats(&rig).ready, 0);
    assert_true(rig.next_run_ns == WP_TIME_NEVER ||
                rig.next_run_ns > rig.clock.now_mono_ns + S);
    wp_rig_fini(&rig);
}

/* The first claim of all, a moment after the start, says little. */
static void
one_claim_asks_for_no_crowd(void **state)
{
    struct wp_pool_spec spec = spec_of(0, 500);
    struct wp_rig rig;

    (void)state;
    wp_rig_init(&rig, 600, 0, &spec);
    wp_clock_manual_advance(&rig.clock, 20 * MS);
    assert_int_equal(claim(&rig, 1), WP_RESOURCE_EXHAUSTED);
    wp_rig_settle(&rig);
    assert_in_range(wp_rig_stats(&rig).spec.target, 1, 20);
    wp_rig_fini(&rig);
}

static void
by_hand_until_the_policy_changes(void **state)
{
    struct wp_pool_spec spec = spec_of(2, 50);
    struct wp_pool_stats stats;
    struct wp_rig rig;
    struct wp_err err;

    (void)state;
    wp_rig_init(&rig, 64, 2, &spec);
    assert_int_equal(wp_pools_set_target(rig.pools, 0, 9, &err), WP_OK);
    assert_int_equal(wp_rig_stats(&rig).spec.target, 9);
    wp_rig_settle(&rig);
    stats = wp_rig_stats(&rig);
    assert_int_equal(stats.spec.target, 9);
    assert_int_equal(stats.replicas, 9);
    assert_int_equal(stats.ready, 9);
    assert_int_equal(stats.scale.reason, WP_SCALE_BY_HAND);
    for (uint32_t i = 0; i < 20; i++) {
        (void)claim(&rig, i);
        wp_rig_advance(&rig, 10 * S);
    }
    assert_int_equal(wp_rig_stats(&rig).spec.target, 9);
    wp_pools_stats(rig.pools, 0, &stats);
    stats.spec.target = stats.replicas;
    set_key(&stats.spec.scale, "resume", "1");
    assert_int_equal(wp_pools_update(rig.pools, 0, &stats.spec, &err), WP_OK);
    wp_rig_settle(&rig);
    assert_int_not_equal(wp_rig_stats(&rig).scale.reason, WP_SCALE_BY_HAND);
    for (int i = 0; i < 600; i++) {
        wp_rig_advance(&rig, 10 * S);
    }
    assert_int_equal(wp_rig_stats(&rig).spec.target, 2);
    wp_rig_fini(&rig);
}

/* What is given up is idle and the stalest; a lease is never touched. */
static void
scale_down_leaves_leases_alone(void **state)
{
    struct wp_pool_spec spec = spec_of(8, 50);
    struct wp_rig_claim lasting;
    struct wp_pool_stats stats;
    struct wp_rig rig;
    struct wp_err err;

    (void)state;
    wp_rig_init(&rig, 64, 8, &spec);
    wp_rig_claim_init(&lasting, "lasting", "", 0, 0);
    assert_int_equal(wp_rig_claim(&rig, &lasting), WP_OK);
    wp_rig_settle(&rig);
    wp_pools_stats(rig.pools, 0, &stats);
    stats.spec.target = stats.replicas;
    stats.spec.scale = policy_of(0, 50);
    assert_int_equal(wp_pools_update(rig.pools, 0, &stats.spec, &err), WP_OK);
    for (int i = 0; i < 300; i++) {
        wp_rig_advance(&rig, 10 * S);
    }
    assert_true(wp_rig_stats(&rig).ready < 8);
    assert_int_equal(wp_rig_stats(&rig).leased, 1);
    assert_int_equal(wp_rig_renew(&rig, &lasting, 60 * S), WP_OK);
    wp_rig_fini(&rig);
}

static void
reservation_raises_the_stock_before_its_time(void **state)
{
    struct wp_pool_spec spec = spec_of(1, 50);
    struct wp_scale_reservation reservation;
    int64_t begins_ns;
    struct wp_rig rig;
    struct wp_err err;

    (void)state;
    wp_rig_init(&rig, 64, 1, &spec);
    begins_ns = rig.clock.now_wall_ns + 60 * S;
    assert_int_equal(wp_pools_scale_reserve(rig.pools, 0, WP_STR("job"), 20,
                                            begins_ns, begins_ns + 60 * S,
                                            &err),
                     WP_OK);
    wp_rig_settle(&rig);
    assert_true(wp_rig_stats(&rig).spec.target < 20);
    assert_int_equal(wp_pools_scale_reservations(rig.pools, 0, &reservation, 1),
                     1);
    assert_string_equal(reservation.id, "job");
    /* By itself, without anybody's wake. */
    while (rig.next_run_ns < rig.clock.now_mono_ns + 60 * S &&
           rig.clock.now_wall_ns < begins_ns &&
           wp_rig_stats(&rig).spec.target < 20) {
        wp_rig_advance(&rig, rig.next_run_ns - rig.clock.now_mono_ns);
    }
    assert_true(rig.clock.now_wall_ns < begins_ns);
    assert_true(wp_rig_stats(&rig).ready >= 20);
    assert_int_equal(wp_pools_scale_cancel(rig.pools, 0, WP_STR("job"), &err),
                     WP_OK);
    assert_int_equal(wp_pools_scale_cancel(rig.pools, 0, WP_STR("job"), &err),
                     WP_NOT_FOUND);
    assert_int_equal(wp_pools_scale_reservations(rig.pools, 0, &reservation, 1),
                     0);
    wp_rig_fini(&rig);
}

/* --- What was learned outlives the process --- */

static struct replica a;
static struct replica b;

/* Claims come for so long, ten a second. */
static void
work(struct replica *r, uint32_t first, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        struct wp_rig_claim c;
        char id[32];

        (void)snprintf(id, sizeof id, "w%u", first + i);
        if (replica_claim(r, &c, id) == WP_OK) {
            (void)replica_change(r, &c, false, NULL);
        }
        wp_clock_manual_advance(&replica_clock, 100 * MS);
        replica_settle(r);
    }
}

static void
state_survives_a_kill(void **state)
{
    uint32_t target;
    double rate;

    (void)state;
    replica_policy = policy_of(0, 12);
    replica_open(&a, 0, 0, true);
    replica_settle(&a);
    work(&a, 0, 700);
    assert_true(replica_store.snapshots >= 1);
    target = replica_stats(&a).spec.target;
    rate = replica_stats(&a).scale.rate_per_s;
    assert_true(target >= 2);
    replica_close(&a);

    replica_open(&a, 0, 0, true);
    replica_adopt_all(&a, 0);
    replica_settle(&a);
    assert_int_equal(replica_unlearned.status, WP_OK);
    assert_true(replica_stats(&a).spec.target > target / 2);
    assert_true(replica_stats(&a).scale.rate_per_s > rate / 2);
    replica_close(&a);
}

/* Nothing is ordered or given up before what was learned is there. */
static void
waits_for_the_snapshot_but_not_for_ever(void **state)
{
    (void)state;
    replica_policy = policy_of(3, 12);
    replica_open(&a, 0, 3, true);
    replica_store.ports[0].later = true;
    for (int i = 0; i < 19; i++) {
        (void)wp_pools_run(a.pools);
        assert_int_equal(wp_fake_backend_counts(&a.backend).creates, 0);
        wp_clock_manual_advance(&replica_clock, 100 * MS);
    }
    wp_clock_manual_advance(&replica_clock, 100 * MS - 1);
    assert_int_equal(wp_pools_run(a.pools), replica_clock.now_mono_ns + 1);
    assert_int_equal(wp_fake_backend_counts(&a.backend).creates, 0);
    wp_clock_manual_advance(&replica_clock, 1);
    (void)wp_pools_run(a.pools);
    assert_int_equal(wp_fake_backend_counts(&a.backend).creates, 3);
    replica_store.ports[0].later = false;
    (void)wp_model_answer(&replica_store, 0);
    replica_settle(&a);
    replica_close(&a);
}

static void
unavailable_store_is_asked_again(void **state)
{
    (void)state;
    replica_policy = policy_of(0, 12);
    replica_open(&a, 0, 0, true);
    replica_settle(&a);
    work(&a, 0, 700);
    replica_close(&a);

    replica_open(&a, 0, 0, true);
    replica_adopt_all(&a, 0);
    replica_store.ports[0].fault = WP_UNAVAILABLE;
    for (int i = 0; i < 5; i++) {
        (void)wp_pools_run(a.pools);
        wp_clock_manual_advance(&replica_clock, 100 * MS);
    }
    assert_int_equal(replica_stats(&a).scale.number, 0);
    replica_store.ports[0].fault = WP_OK;
    replica_settle(&a);
    wp_clock_manual_advance(&replica_clock, 100 * MS);
    replica_settle(&a);
    assert_true(replica_stats(&a).spec.target > 1);
    replica_close(&a);

    /* Whoever becomes the keeper anew asks at once. */
    replica_open(&a, 0, 0, true);
    replica_adopt_all(&a, 0);
    replica_store.ports[0].fault = WP_UNAVAILABLE;
    for (int i = 0; i < 3; i++) {
        (void)wp_pools_run(a.pools);
    }
    assert_int_equal(replica_stats(&a).scale.number, 0);
    wp_pools_set_keeper(a.pools, false);
    (void)wp_pools_run(a.pools);
    replica_store.ports[0].fault = WP_OK;
    wp_pools_set_keeper(a.pools, true);
    for (int i = 0; i < 5; i++) {
        (void)wp_pools_run(a.pools);
    }
    assert_true(replica_stats(&a).scale.number > 0);
    assert_true(replica_stats(&a).spec.target > 1);
    replica_settle(&a);
    replica_close(&a);
}

/* What pools expect to be made is of one bound; a pool that is drained makes
 * nothing more. */
static void
a_drained_pool_expects_nothing(void **state)
{
    struct wp_pool_spec spec = spec_of(3, 40);
    struct wp_rig rig;

    (void)state;
    wp_rig_init(&rig, 64, 3, &spec);
    rig.backend.ready = WP_FAKE_READY_DELAYED;
    rig.backend.ready_delay_ns = 500 * MS;
    for (uint32_t i = 0; i < 40; i++) {
        (void)claim(&rig, i);
        wp_rig_advance(&rig, 50 * MS);
    }
    assert_true(rig.pools->creations > 0);
    wp_pools_drain(rig.pools, 0);
    wp_rig_settle(&rig);
    assert_true(rig.pools->creations == 0);
    wp_rig_fini(&rig);
}

static void
damaged_snapshot_is_said_and_left_out(void **state)
{
    size_t len;

    (void)state;
    replica_policy = policy_of(2, 12);
    replica_open(&a, 0, 2, true);
    replica_settle(&a);
    work(&a, 0, 650);
    replica_close(&a);
    len = replica_store.snapshot_len;
    assert_true(len > 24);
    /* Each byte of its head, and many of what is behind it. */
    for (size_t at = 0; at < len; at += at < 32 ? 1 : 1 + len / 37) {
        replica_store.snapshot[at] ^= 0x40;
        replica_unlearned.status = WP_OK;
        replica_open(&a, 0, 2, true);
        replica_settle(&a);
        assert_int_equal(replica_unlearned.status, WP_INVALID_ARGUMENT);
        assert_true(replica_stats(&a).spec.target >= 2);
        replica_close(&a);
        replica_store.snapshot[at] ^= 0x40;
    }
    replica_store.snapshot_len = len / 2;
    replica_unlearned.status = WP_OK;
    replica_open(&a, 0, 2, true);
    replica_settle(&a);
    assert_int_equal(replica_unlearned.status, WP_INVALID_ARGUMENT);
    replica_close(&a);
}

enum {
    LEARNED_LEN_AT = 6,
    SUM_AT = 16,
    HEAD_LEN = 32,
};

/* What comes of the first len bytes of a snapshot whose head says that so many
 * of them were learned. */
static void
expect_snapshot(const uint8_t *whole, size_t len, size_t learned,
                const char *error)
{
    uint8_t *bytes = replica_store.snapshot;
    uint64_t sum;

    memcpy(bytes, whole, len);
    bytes[LEARNED_LEN_AT] = (uint8_t)learned;
    bytes[LEARNED_LEN_AT + 1] = (uint8_t)(learned >> 8);
    memset(bytes + SUM_AT, 0, sizeof sum);
    sum = wp_siphash128((struct wp_hash_key){0, 0}, bytes, len).low;
    for (size_t i = 0; i < sizeof sum; i++) {
        bytes[SUM_AT + i] = (uint8_t)(sum >> 8 * i);
    }
    replica_store.snapshot_len = len;
    replica_unlearned = (struct wp_err){.status = WP_OK};
    replica_open(&a, 0, 2, true);
    replica_settle(&a);
    assert_string_equal(replica_unlearned.msg, error);
    assert_int_equal(replica_unlearned.status,
                     error[0] == '\0' ? WP_OK : WP_INVALID_ARGUMENT);
    assert_true((replica_stats(&a).scale.rate_per_s > 5) == (error[0] == '\0'));
    replica_close(&a);
}

/* All behind the head is what was learned where a version before has not said
 * how much of it is; the record may be missing, no byte of the rest. */
static void
snapshots_parts_are_as_its_head_says(void **state)
{
    static uint8_t whole[sizeof replica_store.snapshot];
    size_t len;
    size_t learned;

    (void)state;
    replica_policy = policy_of(2, 12);
    replica_open(&a, 0, 2, true);
    replica_settle(&a);
    work(&a, 0, 650);
    replica_close(&a);
    len = replica_store.snapshot_len;
    memcpy(whole, replica_store.snapshot, len);
    learned = whole[LEARNED_LEN_AT] | (size_t)whole[LEARNED_LEN_AT + 1] << 8;
    assert_true(learned > 0 && HEAD_LEN + learned < len);
    expect_snapshot(whole, len, learned, "");
    expect_snapshot(whole, HEAD_LEN + learned, learned, "");
    expect_snapshot(whole, HEAD_LEN + learned, 0, "");
    expect_snapshot(whole, HEAD_LEN + learned - 1, learned,
                    "the pool's snapshot is shorter than it says");
    expect_snapshot(whole, HEAD_LEN, 1,
                    "the pool's snapshot is shorter than it says");
}

static void
restart_remembers_the_hand(void **state)
{
    struct wp_err err;

    (void)state;
    replica_policy = policy_of(1, 12);
    replica_open(&a, 0, 1, true);
    replica_settle(&a);
    assert_int_equal(wp_pools_set_target(a.pools, 0, 7, &err), WP_OK);
    replica_settle(&a);
    replica_close(&a);

    replica_open(&a, 0, 1, true);
    replica_settle(&a);
    assert_int_equal(replica_stats(&a).spec.target, 7);
    assert_int_equal(replica_stats(&a).scale.reason, WP_SCALE_BY_HAND);
    replica_close(&a);

    /* Somebody wrote another number into the manifest meanwhile. */
    replica_open(&a, 0, 5, true);
    replica_settle(&a);
    assert_int_equal(replica_stats(&a).spec.target, 5);
    assert_int_equal(replica_stats(&a).scale.reason, WP_SCALE_BY_HAND);
    replica_close(&a);

    /* Or another policy. */
    replica_policy = policy_of(2, 12);
    replica_open(&a, 0, 5, true);
    replica_settle(&a);
    assert_int_not_equal(replica_stats(&a).scale.reason, WP_SCALE_BY_HAND);
    /* Then the call's number is forgotten, too, whatever was declared. */
    assert_int_equal(wp_pools_set_target(a.pools, 0, 9, &err), WP_OK);
    replica_settle(&a);
    replica_close(&a);
    replica_policy = policy_of(3, 12);
    replica_open(&a, 0, 5, true);
    replica_settle(&a);
    assert_int_equal(replica_stats(&a).replicas, 5);
    assert_int_not_equal(replica_stats(&a).scale.reason, WP_SCALE_BY_HAND);
    replica_close(&a);
}

/* A pool that was removed and is declared anew is nobody's by hand, in the same
 * process or the next one. */
static void
removed_pool_forgets_the_hand(void **state)
{
    struct wp_pool_spec spec;
    struct wp_err err;
    uint32_t index;

    (void)state;
    replica_policy = policy_of(1, 12);
    replica_open(&a, 0, 1, true);
    replica_settle(&a);
    assert_int_equal(wp_pools_set_target(a.pools, 0, 7, &err), WP_OK);
    replica_settle(&a);
    assert_int_equal(replica_stats(&a).scale.reason, WP_SCALE_BY_HAND);
    spec = replica_stats(&a).spec;
    spec.target = 3;
    wp_pools_remove(a.pools, 0);
    replica_settle(&a);
    assert_int_equal(wp_pools_add(a.pools, &spec, &index, &err), WP_OK);
    assert_int_equal(index, 0);
    replica_settle(&a);
    assert_int_not_equal(replica_stats(&a).scale.reason, WP_SCALE_BY_HAND);
    assert_int_equal(wp_pools_set_target(a.pools, 0, 7, &err), WP_OK);
    replica_settle(&a);
    wp_pools_remove(a.pools, 0);
    replica_settle(&a);
    replica_close(&a);

    replica_open(&a, 0, 5, true);
    replica_settle(&a);
    assert_int_not_equal(replica_stats(&a).scale.reason, WP_SCALE_BY_HAND);
    assert_int_equal(replica_stats(&a).replicas, 5);
    replica_close(&a);
}

static void
what_was_learned_is_saved_when_it_leaves(void **state)
{
    uint32_t snapshots;

    (void)state;
    replica_policy = policy_of(0, 12);
    replica_open(&a, 0, 0, true);
    replica_settle(&a);
    work(&a, 0, 20);
    snapshots = replica_store.snapshots;
    replica_store.ports[0].later = true;
    wp_pools_leave(a.pools, true);
    assert_false(wp_pools_learned_saved(a.pools));
    (void)wp_pools_run(a.pools);
    assert_false(wp_pools_learned_saved(a.pools));
    replica_store.ports[0].later = false;
    (void)wp_model_answer(&replica_store, 0);
    (void)wp_pools_run(a.pools);
    assert_true(wp_pools_learned_saved(a.pools));
    assert_int_equal(replica_store.snapshots, snapshots + 1);
    replica_close(&a);
}

/* So many become ready between two turns of control. */
static void
many_are_ready(uint32_t n, uint64_t lost)
{
    struct wp_pool_spec spec = spec_of(0, 1000);
    struct wp_history_cursor cursor;
    struct wp_history_event event;
    struct wp_history *history;
    struct wp_rig rig;
    uint32_t told = 0;

    wp_rig_init(&rig, 400, 0, &spec);
    rig.backend.ready = WP_FAKE_READY_DELAYED;
    rig.backend.ready_delay_ns = 10 * S;
    assert_int_equal(wp_pools_set_target(rig.pools, 0, n, NULL), WP_OK);
    for (int i = 0; i < 100; i++) {
        (void)wp_pools_run(rig.pools);
    }
    assert_int_equal(wp_rig_stats(&rig).warming, n);
    wp_clock_manual_advance(&rig.clock, 10 * S);
    (void)wp_fake_backend_turn(&rig.backend);
    assert_int_equal(wp_rig_stats(&rig).ready, n);
    wp_rig_settle(&rig);
    wp_rig_advance(&rig, 20 * MS);
    assert_int_equal(wp_rig_stats(&rig).leads_lost, lost);
    assert_true(wp_rig_stats(&rig).scale.lead_mean_s > 9.9 &&
                wp_rig_stats(&rig).scale.lead_mean_s < 10.1);
    history = wp_pools_history(rig.pools, 0);
    wp_history_first(history, &cursor);
    while (wp_history_next(&cursor, &event)) {
        told += event.kind == WP_HISTORY_READY ? 1 : 0;
    }
    wp_history_destroy(history);
    assert_int_equal(told, n - lost);
    wp_rig_fini(&rig);
}

static void
lead_times_that_come_too_many_at_once_are_counted(void **state)
{
    (void)state;
    many_are_ready(255, 0);
    many_are_ready(256, 0);
    many_are_ready(257, 1);
    many_are_ready(300, 44);
}

/* What changed is saved once a minute; what somebody asked for, at once. */
static void
is_saved_each_minute(void **state)
{
    uint32_t saved;
    int64_t wall_ns;
    struct wp_err err;

    (void)state;
    replica_policy = policy_of(1, 12);
    replica_open(&a, 0, 1, true);
    replica_settle(&a);
    work(&a, 0, 1);
    wp_clock_manual_advance(&replica_clock, 60 * S);
    replica_settle(&a);
    saved = replica_store.snapshots;
    assert_true(saved > 0);
    /* Nothing is new. */
    wp_clock_manual_advance(&replica_clock, 300 * S);
    replica_settle(&a);
    assert_int_equal(replica_store.snapshots, saved);
    wall_ns = replica_clock.now_wall_ns;
    assert_int_equal(wp_pools_scale_reserve(a.pools, 0, WP_STR("r"), 2,
                                            wall_ns + 600 * S,
                                            wall_ns + 900 * S, &err),
                     WP_OK);
    replica_settle(&a);
    assert_int_equal(replica_store.snapshots, saved + 1);
    assert_int_equal(wp_pools_scale_cancel(a.pools, 0, WP_STR("s"), &err),
                     WP_NOT_FOUND);
    assert_string_equal(err.msg,
                        "id: the pool has no reservation 's', or it is over");
    replica_settle(&a);
    assert_int_equal(replica_store.snapshots, saved + 1);
    work(&a, 1, 1);
    wp_clock_manual_advance(&replica_clock, 59900 * MS - 1);
    replica_settle(&a);
    assert_int_equal(replica_store.snapshots, saved + 1);
    wp_clock_manual_advance(&replica_clock, 1);
    replica_settle(&a);
    assert_int_equal(replica_store.snapshots, saved + 2);
    assert_int_equal(wp_pools_scale_cancel(a.pools, 0, WP_STR("r"), &err),
                     WP_OK);
    replica_settle(&a);
    assert_int_equal(replica_store.snapshots, saved + 3);
    replica_close(&a);
}

/* Claims at a follower count once, and only the keeper scales. */
static void
keeper_hears_of_claims_at_others(void **state)
{
    struct wp_err err;

    (void)state;
    replica_policy = policy_of(4, 12);
    replica_open(&a, 0, 4, true);
    replica_open(&b, 1, 4, false);
    replica_settle_both(&a, &b);
    for (uint32_t i = 0; i < 30; i++) {
        struct wp_rig_claim c;
        char id[32];

        (void)snprintf(id, sizeof id, "b%u", i);
        assert_int_equal(replica_claim(&b, &c, id), WP_OK);
        (void)replica_change(&b, &c, false, NULL);
        wp_clock_manual_advance(&replica_clock, 200 * MS);
        replica_settle_both(&a, &b);
    }
    assert_int_equal(replica_stats(&b).scale.number, 0);
    assert_int_equal(replica_stats(&b).spec.target, 4);
    assert_int_equal(
        wp_pools_scale_reserve(b.pools, 0, WP_STR("r"), 1, 0, INT64_MAX, &err),
        WP_UNAVAILABLE);
    /* 5 a second; twice as many had each been counted twice. */
    assert_true(replica_stats(&a).scale.rate_per_s > 2.5);
    assert_true(replica_stats(&a).scale.rate_per_s < 7.5);
    replica_close(&a);

    wp_pools_lose_unseen(b.pools);
    wp_pools_set_keeper(b.pools, true);
    replica_settle(&b);
    assert_true(replica_stats(&b).scale.number > 0);
    replica_close(&b);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_an_objective_nothing_is_scaled),
        cmocka_unit_test(orders_leave_in_the_turn_that_sees_the_claim),
        cmocka_unit_test(a_moved_target_is_told),
        cmocka_unit_test(scales_to_zero_and_back),
        cmocka_unit_test(one_claim_asks_for_no_crowd),
        cmocka_unit_test(by_hand_until_the_policy_changes),
        cmocka_unit_test(a_drained_pool_expects_nothing),
        cmocka_unit_test(scale_down_leaves_leases_alone),
        cmocka_unit_test(reservation_raises_the_stock_before_its_time),
        cmocka_unit_test_setup(state_survives_a_kill, replica_set_up),
        cmocka_unit_test(waiting_claims_are_ordered_for),
        cmocka_unit_test(lead_times_that_come_too_many_at_once_are_counted),
        cmocka_unit_test_setup(waits_for_the_snapshot_but_not_for_ever,
                               replica_set_up),
        cmocka_unit_test_setup(unavailable_store_is_asked_again,
                               replica_set_up),
        cmocka_unit_test_setup(damaged_snapshot_is_said_and_left_out,
                               replica_set_up),
        cmocka_unit_test_setup(snapshots_parts_are_as_its_head_says,
                               replica_set_up),
        cmocka_unit_test_setup(restart_remembers_the_hand, replica_set_up),
        cmocka_unit_test_setup(removed_pool_forgets_the_hand, replica_set_up),
        cmocka_unit_test_setup(what_was_learned_is_saved_when_it_leaves,
                               replica_set_up),
        cmocka_unit_test_setup(is_saved_each_minute, replica_set_up),
        cmocka_unit_test_setup(keeper_hears_of_claims_at_others,
                               replica_set_up_shared),
    };

    return cmocka_run_group_tests_name("pool_scale", tests, NULL, NULL);
}
