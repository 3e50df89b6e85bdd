/* tests/unit/pool/core/pool_replicas_keeper_test.c - replicas whose keeper
 * changes: what the last one left, and what comes of it late. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "pool/records/records.h"
#include "tests/support/pool/replica_rig.h"

static void
a_follower_becomes_the_keeper(void **state)
{
    struct replica a;
    struct replica b;
    struct wp_rig_claim c;
    struct wp_rig_claim gone;

    (void)state;
    replica_open(&a, 0, 3, true);
    replica_open(&b, 1, 3, false);
    replica_settle_both(&a, &b);
    assert_int_equal(replica_claim(&a, &c, "c1"), WP_OK);
    assert_int_equal(replica_claim(&a, &gone, "c2"), WP_OK);
    assert_int_equal(replica_change(&a, &gone, false, NULL), WP_OK);
    replica_close(&a);
    replica_settle(&b);
    assert_int_equal(replica_stats(&b).leased, 1);
    replica_adopt_all(&b, 0);
    wp_pools_set_keeper(b.pools, true);
    replica_settle(&b);
    assert_int_equal(replica_stats(&b).leased, 1);
    assert_int_equal(replica_stats(&b).ready, 3);
    assert_int_equal(replica_stats(&b).dying, 0);
    assert_int_equal(wp_model_count(&replica_store, WP_RECORD_ENDED), 0);
    wp_clock_manual_advance(&replica_clock, 62 * WP_NS_PER_S);
    replica_settle(&b);
    assert_int_equal(replica_stats(&b).leased, 0);
    replica_close(&b);
}

/* A process that serves before its backend has looked grants no sandbox that may
 * be gone. Leases are answered for meanwhile. */
static void
what_is_not_seen_yet_is_not_granted(void **state)
{
    struct replica a;
    struct replica b;
    struct wp_rig_claim held;
    struct wp_rig_claim again;
    struct wp_rig_claim hasty;
    struct wp_rig_claim waits;

    (void)state;
    replica_open(&a, 0, 3, true);
    replica_settle(&a);
    assert_int_equal(replica_claim(&a, &held, "held"), WP_OK);
    replica_settle(&a);
    replica_close(&a);
    replica_holds = true;
    replica_open(&b, 0, 3, false);
    replica_settle(&b);
    assert_int_equal(replica_stats(&b).ready, 3);
    assert_true(wp_pools_holds_unseen(b.pools));
    assert_int_equal(replica_claim(&b, &again, "held"), WP_OK);
    assert_string_equal(again.claim.grant.sandbox, held.claim.grant.sandbox);
    assert_int_equal(replica_change(&b, &held, true, NULL), WP_OK);
    assert_int_equal(replica_claim(&b, &hasty, "hasty"), WP_UNAVAILABLE);
    assert_true(hasty.claim.retry_after_ns > 0);
    wp_rig_claim_init(&waits, "waits", "", 60 * WP_NS_PER_S, 60 * WP_NS_PER_S);
    assert_int_equal(wp_pools_claim(b.pools, &waits.claim), WP_PENDING);
    replica_settle(&b);
    assert_int_equal(waits.answers, 0);
    /* Of four records the first two are of sandboxes that are gone. */
    replica_adopt_all(&b, 2);
    assert_false(wp_pools_holds_unseen(b.pools));
    replica_settle(&b);
    assert_int_equal(waits.answers, 1);
    assert_int_equal(waits.claim.status, WP_OK);
    wp_pools_set_keeper(b.pools, true);
    replica_settle(&b);
    assert_int_equal(replica_stats(&b).ready, 3);
    assert_int_equal(replica_stats(&b).dying, 0);
    assert_int_equal(replica_claim(&b, &hasty, "hasty"), WP_OK);
    wp_pools_stop(b.pools);
    replica_settle(&b);
    assert_true(wp_pools_quiet(b.pools));
    assert_int_equal(wp_fake_backend_counts(&b.backend).live, 0);
    replica_close(&b);
}

/* Who left its idle sandboxes to others may hear that there are none. */
static void
what_was_left_to_others_can_still_be_ended(void **state)
{
    struct replica a;
    struct wp_rig_claim c;

    (void)state;
    for (int stops = 0; stops < 2; stops++) {
        replica_open(&a, 0, 3, true);
        replica_settle(&a);
        assert_int_equal(replica_claim(&a, &c, "c1"), WP_OK);
        replica_settle(&a);
        wp_pools_leave(a.pools, true);
        replica_settle(&a);
        assert_int_equal(replica_stats(&a).ready, 3);
        if (stops == 0) {
            wp_pools_leave(a.pools, false);
            replica_settle(&a);
            assert_int_equal(replica_stats(&a).ready, 0);
            assert_int_equal(replica_stats(&a).leased, 1);
        }
        wp_pools_stop(a.pools);
        replica_settle(&a);
        assert_true(wp_pools_quiet(a.pools));
        assert_int_equal(wp_fake_backend_counts(&a.backend).live, 0);
        replica_close(&a);
    }
}

/* While but one request may be at the store: what it tells of the lease uses it,
 * and what is to be done then waits. */
static void
have_one_request(struct replica *a)
{
    static struct wp_store_request *taken[512];
    uint32_t n = 0;
    uint32_t commits;

    while ((taken[n] = wp_store_request_take(a->pools)) != NULL) {
        n++;
        assert_true(n < WP_ARRAY_LEN(taken));
    }
    wp_store_request_give(taken[--n]);
    commits = replica_store.ports[0].commits;
    replica_settle(a);
    assert_int_equal(replica_store.ports[0].commits, commits + 1);
    assert_int_equal(wp_model_count(&replica_store, WP_RECORD_HELD), 1);
    assert_int_equal(replica_stats(a).dying, 1);
    wp_clock_manual_advance(&replica_clock, WP_NS_PER_S);
    replica_settle(a);
    assert_int_equal(wp_model_count(&replica_store, WP_RECORD_HELD), 1);
    while (n > 0) {
        wp_store_request_give(taken[--n]);
    }
    /* It was asked again once, and not in haste. */
    assert_int_equal(replica_store.ports[0].commits, commits + 2);
}

/* The sandbox was destroyed when nothing was recorded of it yet. Another
 * replica may grant it before the keeper has heard: that lease ends. */
static void
late_offer_of_a_dead_keeper(bool busy)
{
    struct wp_lease_op op = {
        .kind = WP_LEASE_OFFER,
        .uid = {7},
        .pool_namespace = WP_STR("default"),
        .pool = WP_STR("p"),
        .sandbox = WP_STR("p-x7k2q"),
        .endpoint = WP_STR("unix:/gone"),
    };
    struct replica a;
    struct replica b;
    struct wp_rig_claim c;
    struct wp_lease_store dead = wp_model_port(&replica_store, 2);
    struct wp_claim_info info;

    replica_open(&a, 0, 0, true);
    wp_pools_lose_unseen(a.pools);
    replica_open(&b, 1, 0, false);
    replica_settle_both(&a, &b);
    assert_int_equal(dead.ops->commit(dead.self, &op), WP_OK);
    replica_settle(&b);
    assert_int_equal(replica_claim(&b, &c, "c1"), WP_OK);
    assert_string_equal(c.claim.grant.sandbox, "p-x7k2q");
    if (busy) {
        have_one_request(&a);
    }
    replica_settle_both(&a, &b);
    wp_clock_manual_advance(&replica_clock, WP_NS_PER_S);
    replica_settle_both(&a, &b);
    assert_int_equal(wp_pools_get(b.pools, WP_STR(""), WP_STR("c1"), &info),
                     WP_NOT_FOUND);
    assert_int_equal(wp_model_count(&replica_store, WP_RECORD_HELD), 0);
    assert_int_equal(wp_model_count(&replica_store, WP_RECORD_OPEN), 0);
    assert_int_equal(replica_stats(&a).dying + replica_stats(&b).dying, 0);
    replica_close(&b);
    replica_close(&a);
}

static void
a_late_offer_of_a_dead_keeper_ends(void **state)
{
    (void)state;
    late_offer_of_a_dead_keeper(false);
}

static void
a_late_offer_ends_when_a_request_is_free(void **state)
{
    (void)state;
    late_offer_of_a_dead_keeper(true);
}

/* Who knew what there is knows it no more once another one was the keeper. */
static void
a_keeper_knows_what_there_is_until_it_gives_way(void **state)
{
    struct wp_lease_op op = {
        .kind = WP_LEASE_OFFER,
        .pool_namespace = WP_STR("default"),
        .pool = WP_STR("p"),
        .endpoint = WP_STR("unix:/there"),
    };
    static const struct {
        bool sweeps;
        bool keeper[3];
        bool heard;
    } cases[] = {
        {false, {true, true, true}, true},  {true, {true, true, true}, false},
        {true, {true, true, false}, true},  {true, {true, false, true}, true},
        {false, {true, false, true}, true},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(cases); i++) {
        struct wp_lease_store other;
        struct replica a;

        assert_int_equal(replica_set_up_shared(state), 0);
        replica_open(&a, 0, 0, true);
        other = wp_model_port(&replica_store, 1);
        if (cases[i].sweeps) {
            wp_pools_lose_unseen(a.pools);
        }
        for (int k = 0; k < 3; k++) {
            wp_pools_set_keeper(a.pools, cases[i].keeper[k]);
        }
        memset(op.uid, 7, sizeof op.uid);
        op.sandbox = WP_STR("p-x7k2q");
        assert_int_equal(other.ops->commit(other.self, &op), WP_OK);
        (void)wp_model_feed(&replica_store, 0, a.pools);
        if (replica_stats(&a).ready != (cases[i].heard ? 1 : 0)) {
            fail_msg("case %zu", i);
        }
        replica_close(&a);
    }
}

static uint32_t
add_pool(struct replica *a, const char *name)
{
    struct wp_pool_spec spec;
    uint32_t index = UINT32_MAX;

    wp_pool_spec_init(&spec);
    (void)snprintf(spec.name, sizeof spec.name, "%s", name);
    (void)snprintf(spec.template_name, sizeof spec.template_name, "t");
    assert_int_equal(wp_pools_add(a->pools, &spec, &index, NULL), WP_OK);
    return index;
}

/* Whether a lease of the pool counts that it has not heard of before. */
static bool
hears(struct replica *a, uint32_t index, const char *pool)
{
    static uint8_t n;
    struct wp_lease_record record = {
        .uid = {++n},
        .state = WP_RECORD_HELD,
        .fence = 5,
        .deadline_wall_ms = replica_clock.now_wall_ns / WP_NS_PER_MS + 60000,
        .granted_wall_ms = replica_clock.now_wall_ns / WP_NS_PER_MS,
        .served = WP_SERVED_WARM,
        .pool_namespace = "default",
        .endpoint = "unix:/there",
    };
    struct wp_pool_stats stats;
    uint32_t before;

    (void)snprintf(record.pool, sizeof record.pool, "%s", pool);
    (void)snprintf(record.sandbox, sizeof record.sandbox, "%s-%u", pool, n);
    (void)snprintf(record.claim_id, sizeof record.claim_id, "late-%u", n);
    wp_pools_stats(a->pools, index, &stats);
    before = stats.leased;
    wp_pools_on_record(a->pools, &record);
    wp_pools_stats(a->pools, index, &stats);
    assert_int_equal(wp_pools_records_refused(a->pools), 0);
    assert_true(stats.leased == before || stats.leased == before + 1);
    return stats.leased > before;
}

/* Goal: a keeper that knows what there is takes the records of a pool that came
 * later for news, once: until they were all told, or it has looked anew. */
static void
a_pool_that_comes_late_is_heard_of_once(void **state)
{
    struct replica a;
    uint32_t q;
    uint32_t r;

    (void)state;
    replica_open(&a, 0, 0, true);
    assert_true(hears(&a, 0, "p"));
    wp_pools_lose_unseen(a.pools);
    q = add_pool(&a, "q");
    r = add_pool(&a, "r");
    assert_false(hears(&a, 0, "p"));
    assert_true(hears(&a, q, "q"));
    wp_pools_sync_end(a.pools, q);
    assert_false(hears(&a, q, "q"));
    assert_true(hears(&a, r, "r"));
    wp_pools_set_keeper(a.pools, false);
    wp_pools_set_keeper(a.pools, true);
    assert_true(hears(&a, 0, "p"));
    wp_pools_lose_unseen(a.pools);
    assert_false(hears(&a, 0, "p"));
    assert_false(hears(&a, q, "q"));
    assert_false(hears(&a, r, "r"));
    replica_close(&a);
}

/* It knows of the removal first, and is the keeper next. */
static void
a_removed_pool_hears_of_leases(void **state)
{
    struct replica a;
    struct replica b;
    struct wp_rig_claim c;

    (void)state;
    replica_open(&a, 0, 2, true);
    replica_open(&b, 1, 2, false);
    wp_pools_remove(b.pools, 0);
    assert_int_equal(
        wp_pools_index_of_records(b.pools, WP_STR("default"), WP_STR("p")), 0);
    assert_int_equal(
        wp_pools_index_of_records(b.pools, WP_STR("default"), WP_STR("q")),
        UINT32_MAX);
    replica_settle_both(&a, &b);
    assert_int_equal(replica_claim(&a, &c, "c1"), WP_OK);
    assert_int_equal(replica_change(&a, &c, true, NULL), WP_OK);
    replica_close(&a);
    replica_settle(&b);
    assert_int_equal(wp_pools_records_refused(b.pools), 0);
    assert_int_equal(replica_stats(&b).leased, 1);
    replica_adopt_all(&b, 0);
    wp_pools_set_keeper(b.pools, true);
    replica_settle(&b);
    /* Its first deadline is over, but not the one that it was renewed to. */
    wp_clock_manual_advance(&replica_clock, 70 * WP_NS_PER_S);
    replica_settle(&b);
    assert_int_equal(replica_stats(&b).ready, 0);
    assert_int_equal(replica_stats(&b).leased, 1);
    assert_int_equal(replica_change(&b, &c, true, NULL), WP_OK);
    assert_int_equal(replica_records(&b, false, WP_RECORD_HELD), 1);
    wp_clock_manual_advance(&replica_clock, 122 * WP_NS_PER_S);
    replica_settle(&b);
    assert_true(replica_stats(&b).gone);
    assert_int_equal(wp_fake_backend_counts(&b.backend).live, 0);
    replica_close(&b);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_follower_becomes_the_keeper,
                               replica_set_up_shared),
        cmocka_unit_test_setup(what_is_not_seen_yet_is_not_granted,
                               replica_set_up_shared),
        cmocka_unit_test_setup(what_is_not_seen_yet_is_not_granted,
                               replica_set_up),
        cmocka_unit_test_setup(what_was_left_to_others_can_still_be_ended,
                               replica_set_up_shared),
        cmocka_unit_test_setup(a_late_offer_of_a_dead_keeper_ends,
                               replica_set_up_shared),
        cmocka_unit_test_setup(a_late_offer_ends_when_a_request_is_free,
                               replica_set_up_shared),
        cmocka_unit_test(a_keeper_knows_what_there_is_until_it_gives_way),
        cmocka_unit_test_setup(a_pool_that_comes_late_is_heard_of_once,
                               replica_set_up_shared),
        cmocka_unit_test_setup(a_removed_pool_hears_of_leases,
                               replica_set_up_shared),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
