/* tests/unit/pool/core/pool_replicas_news_test.c - replicas that hear of each
 * other late, out of turn, or not at all, and commits in doubt meanwhile. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "tests/support/pool/replica_rig.h"

static void
changed(struct wp_lease_change *change)
{
    *(bool *)change->ctx = true;
}

static void
old_news_do_not_bring_a_sandbox_back(void **state)
{
    struct replica a;
    struct replica b;
    struct wp_rig_claim c;
    struct wp_lease_record ended;

    (void)state;
    replica_open(&a, 0, 2, true);
    wp_pools_lose_unseen(a.pools);
    replica_open(&b, 1, 2, false);
    replica_settle_both(&a, &b);
    assert_int_equal(replica_claim(&b, &c, "c1"), WP_OK);
    replica_settle_both(&a, &b);
    assert_int_equal(replica_change(&b, &c, false, NULL), WP_OK);
    ended = replica_store.ports[0].feed[0];
    replica_store.ports[0].n_feed = 0;
    assert_int_equal(replica_change(&a, &c, false, NULL), WP_OK);
    replica_settle(&a);
    wp_pools_on_record(a.pools, &ended);
    replica_settle_both(&a, &b);
    assert_int_equal(replica_stats(&a).dying, 0);
    assert_int_equal(wp_model_count(&replica_store, WP_RECORD_ENDED), 0);
    replica_close(&b);
    replica_close(&a);
}

static void
what_is_forgotten_while_in_doubt_is_let_go(void **state)
{
    struct replica a;
    struct replica b;
    struct wp_rig_claim c;

    (void)state;
    replica_open(&a, 0, 1, true);
    replica_open(&b, 1, 1, false);
    replica_settle_both(&a, &b);
    replica_store.ports[1].fault = WP_UNKNOWN_OUTCOME;
    assert_int_equal(replica_claim(&b, &c, "c1"), WP_UNAVAILABLE);
    replica_store.ports[1].fault = WP_OK;
    replica_store.ports[1].later = true;
    (void)wp_pools_run(b.pools);
    assert_int_equal(wp_model_answer(&replica_store, 1),
                     1); /* Held by nobody. */
    (void)wp_pools_run(b.pools);
    replica_store.ports[1].fault = WP_UNAVAILABLE;
    assert_true(wp_model_answer(&replica_store, 1) >= 1); /* So it may go. */
    assert_int_equal(wp_pools_set_target(a.pools, 0, 0, NULL), WP_OK);
    replica_settle(&a);
    replica_settle(&b);
    replica_store.ports[1].fault = WP_OK;
    replica_store.ports[1].later = false;
    wp_clock_manual_advance(&replica_clock, WP_NS_PER_S);
    replica_settle_both(&a, &b);
    assert_int_equal(replica_stats(&b).quarantined + replica_stats(&b).dying,
                     0);
    replica_close(&b);
    replica_close(&a);
}

static void
a_release_that_the_store_took_was_of_a_held_lease(void **state)
{
    struct replica a;
    struct replica b;
    struct wp_rig_claim c;
    struct wp_lease_change release = {.done = changed};
    struct wp_lease_op *op;
    bool done = false;

    (void)state;
    replica_open(&a, 0, 2, true);
    replica_open(&b, 1, 2, false);
    replica_settle_both(&a, &b);
    assert_int_equal(replica_claim(&b, &c, "c1"), WP_OK);
    replica_settle_both(&a, &b);
    memcpy(release.token, c.claim.grant.token, WP_TOKEN_LEN);
    release.ctx = &done;
    replica_store.ports[1].later = true;
    assert_int_equal(wp_pools_release(b.pools, &release), WP_PENDING);
    op = wp_lease_op_of(replica_store.ports[1].kept);
    assert_int_equal(op->kind, WP_LEASE_RELEASE);
    replica_store.ports[1].kept = NULL;
    replica_store.ports[1].later = false;
    /* What the commit does in the store, and what comes of it, reaches b before
     * the commit's answer. */
    assert_int_equal(replica_change(&a, &c, false, NULL), WP_OK);
    replica_settle_both(&a, &b);
    assert_int_equal(wp_model_count(&replica_store, WP_RECORD_ENDED), 0);
    op->done(op, WP_OK);
    assert_true(done);
    assert_int_equal(release.status, WP_OK);
    assert_true(release.was_held);
    replica_settle_both(&a, &b);
    replica_close(&b);
    replica_close(&a);
}

static void
an_offer_in_doubt_costs_no_slot(void **state)
{
    struct replica a;
    struct replica b;
    struct wp_rig_claim c;
    char id[16];

    (void)state;
    replica_open(&a, 0, 1, true);
    replica_open(&b, 1, 1, false);
    for (int i = 0; i < 2 * SLOTS; i++) {
        replica_store.ports[0].fault = WP_UNKNOWN_OUTCOME;
        replica_store.ports[0].although = true;
        replica_settle(&a);
        replica_settle(&b);
        (void)snprintf(id, sizeof id, "c%d", i);
        assert_int_equal(replica_claim(&b, &c, id), WP_OK);
        replica_settle(
            &a); /* Hears of the lease before it knows of its offer. */
        replica_store.ports[0].fault = WP_OK;
        assert_int_equal(replica_change(&b, &c, false, NULL), WP_OK);
        for (int k = 0; k < 2; k++) {
            wp_clock_manual_advance(&replica_clock, WP_NS_PER_S);
            replica_settle_both(&a, &b);
        }
        assert_int_equal(replica_stats(&a).ready, 1);
        assert_int_equal(wp_pools_set_target(a.pools, 0, 0, NULL), WP_OK);
        replica_settle_both(&a, &b);
        assert_int_equal(wp_pools_set_target(a.pools, 0, 1, NULL), WP_OK);
    }
    replica_close(&b);
    replica_close(&a);
}

/* The keeper, which has not heard of a renewal, is expiring the lease. */
static void
a_renewal_overtakes_an_expiry(void **state)
{
    struct replica a;
    struct replica b;
    struct wp_rig_claim c;
    bool done = false;
    struct wp_lease_change request = {.done = changed, .ctx = &done};
    struct wp_lease_op *expire;

    (void)state;
    replica_history_max = 0; /* Else a snapshot is among what the store has. */
    replica_open(&a, 0, 2, true);
    replica_open(&b, 1, 2, false);
    replica_settle_both(&a, &b);
    assert_int_equal(replica_claim(&a, &c, "c1"), WP_OK); /* For 60 s. */
    replica_settle_both(&a, &b);
    wp_clock_manual_advance(&replica_clock, 50 * WP_NS_PER_S);
    assert_int_equal(replica_change(&b, &c, true, NULL),
                     WP_OK); /* For 120 s. */
    replica_store.ports[0].n_feed = 0;
    wp_clock_manual_advance(&replica_clock, 20 * WP_NS_PER_S);
    memcpy(request.token, c.claim.grant.token, sizeof request.token);
    replica_store.ports[0].later = true;
    assert_int_equal(wp_pools_renew(a.pools, &request), WP_PENDING);
    (void)wp_pools_run(a.pools);
    expire = wp_lease_op_of(replica_store.ports[0].kept);
    assert_int_equal(expire->kind, WP_LEASE_EXPIRE);
    replica_store.ports[0].kept = expire->link.next;
    assert_int_equal(wp_model_answer(&replica_store, 0), 1); /* Who holds it? */
    (void)wp_pools_run(a.pools);
    assert_int_equal(wp_model_answer(&replica_store, 0), 1); /* Renewed. */
    assert_true(done);
    assert_int_equal(request.status, WP_OK);
    expire->link.next = NULL;
    replica_store.ports[0].kept = &expire->link;
    assert_int_equal(wp_model_answer(&replica_store, 0), 1);
    replica_store.ports[0].later = false;
    replica_settle_both(&a, &b);
    replica_close(&b);
    replica_close(&a);
}

/* A keeper that has not heard of a renewal: the store does not let it expire
 * the lease, and tells until when it lasts. */
static void
an_expiry_that_is_refused_tells_the_deadline(void **state)
{
    struct wp_claim_info renewed;
    struct wp_claim_info info;
    struct wp_rig_claim c;
    struct replica a;
    struct replica b;
    uint32_t commits;

    (void)state;
    replica_history_max = 0;
    replica_open(&a, 0, 2, true);
    replica_open(&b, 1, 2, false);
    replica_settle_both(&a, &b);
    assert_int_equal(replica_claim(&a, &c, "c1"), WP_OK); /* For 60 s. */
    replica_settle_both(&a, &b);
    wp_clock_manual_advance(&replica_clock, 50 * WP_NS_PER_S);
    assert_int_equal(replica_change(&b, &c, true, NULL), WP_OK); /* 120 s. */
    assert_int_equal(wp_pools_get(b.pools, WP_STR(""), WP_STR("c1"), &renewed),
                     WP_OK);
    replica_store.ports[0].n_feed = 0;
    wp_clock_manual_advance(&replica_clock, 20 * WP_NS_PER_S);
    replica_settle(&a);
    assert_int_equal(wp_pools_get(a.pools, WP_STR(""), WP_STR("c1"), &info),
                     WP_OK);
    assert_int_equal(info.deadline_wall_ms, renewed.deadline_wall_ms);
    assert_int_equal(info.fence, renewed.fence);
    assert_int_equal(replica_stats(&a).leased, 1);
    assert_int_equal(replica_stats(&a).expired_total, 0);
    /* It does not ask again before that. */
    commits = replica_store.ports[0].commits;
    wp_clock_manual_advance(&replica_clock, 90 * WP_NS_PER_S);
    replica_settle(&a);
    assert_int_equal(replica_store.ports[0].commits, commits);
    wp_clock_manual_advance(&replica_clock, 20 * WP_NS_PER_S);
    replica_settle_both(&a, &b);
    assert_int_equal(replica_stats(&a).leased, 0);
    assert_int_equal(replica_stats(&a).expired_total, 1);
    replica_close(&b);
    replica_close(&a);
}

static void
hold_leases(struct replica *r)
{
    struct wp_pool_spec spec = replica_stats(r).spec;

    spec.hold_max_ns = 1000 * WP_NS_PER_S;
    assert_int_equal(wp_pools_update(r->pools, 0, &spec, NULL), WP_OK);
}

/* Use keeps a lease that was renewed elsewhere meanwhile: the store is asked
 * before it is taken for over. */
static void
use_keeps_what_another_replica_renewed(void **state)
{
    bool done = false;
    /* What the change before left there says nothing of this one. */
    struct wp_lease_change keep = {
        .done = changed, .ctx = &done, .hold = true, .settled = true};
    struct wp_rig_claim c;
    struct replica a;
    struct replica b;

    (void)state;
    replica_open(&a, 0, 2, true);
    replica_open(&b, 1, 2, false);
    hold_leases(&a);
    hold_leases(&b);
    replica_settle_both(&a, &b);
    assert_int_equal(replica_claim(&b, &c, "c1"), WP_OK); /* For 60 s. */
    replica_settle_both(&a, &b);
    wp_clock_manual_advance(&replica_clock, 50 * WP_NS_PER_S);
    assert_int_equal(replica_change(&a, &c, true, NULL), WP_OK); /* 120 s. */
    replica_store.ports[1].n_feed = 0;
    wp_clock_manual_advance(&replica_clock, 20 * WP_NS_PER_S);
    keep.ttl_ns = 300 * WP_NS_PER_S;
    assert_int_equal(wp_pools_keep(b.pools, &keep, c.claim.grant.ref),
                     WP_PENDING);
    assert_false(done);
    (void)wp_pools_run(b.pools);
    (void)wp_pools_run(b.pools);
    assert_true(done);
    assert_int_equal(keep.status, WP_OK);
    assert_int_equal(
        keep.deadline_wall_ms >> 1,
        (replica_clock.now_wall_ns + 300 * WP_NS_PER_S) / WP_NS_PER_MS >> 1);
    replica_close(&b);
    replica_close(&a);
}

/* The store says that nobody has renewed it: then it is over, and the store is
 * not asked for ever. */
static void
what_is_past_its_deadline_in_the_store_is_over(void **state)
{
    bool done = false;
    struct wp_lease_change renew = {.done = changed, .ctx = &done};
    struct wp_rig_claim c;
    struct replica a;
    struct replica b;
    uint32_t commits;
    uint32_t wakes;

    (void)state;
    replica_open(&a, 0, 2, true);
    replica_open(&b, 1, 2, false);
    replica_settle_both(&a, &b);
    assert_int_equal(replica_claim(&b, &c, "c1"), WP_OK); /* For 60 s. */
    replica_settle_both(&a, &b);
    wp_clock_manual_advance(&replica_clock, 60 * WP_NS_PER_S);
    memcpy(renew.token, c.claim.grant.token, sizeof renew.token);
    wakes = replica_wakes;
    assert_int_equal(wp_pools_renew(b.pools, &renew), WP_PENDING);
    assert_true(replica_wakes > wakes); /* Control has the store asked. */
    commits = replica_store.ports[1].commits;
    for (int i = 0; i < 5; i++) {
        (void)wp_pools_run(b.pools);
    }
    assert_true(done);
    assert_int_equal(renew.status, WP_NOT_FOUND);
    assert_string_equal(renew.reason, "token: its lease has ended");
    assert_int_equal(replica_store.ports[1].commits, commits + 1);
    replica_close(&b);
    replica_close(&a);
}

/* A release at one replica, and the same id at the other before it has heard
 * of that: what is over is not shown. */
static void
a_repeat_is_not_shown_what_is_over(void **state)
{
    struct replica a;
    struct replica b;
    struct wp_rig_claim first;
    struct wp_rig_claim second;

    (void)state;
    replica_open(&a, 0, 3, true);
    replica_open(&b, 1, 3, false);
    replica_settle_both(&a, &b);
    assert_int_equal(replica_claim(&a, &first, "c1"), WP_OK);
    replica_settle_both(&a, &b);
    assert_int_equal(replica_change(&a, &first, false, NULL), WP_OK);
    wp_rig_claim_init(&second, "c1", "", 60 * WP_NS_PER_S, 0);
    assert_int_equal(wp_pools_claim(b.pools, &second.claim), WP_PENDING);
    (void)wp_pools_run(b.pools);
    assert_int_equal(second.answers, 0);
    replica_settle_both(&a, &b);
    assert_int_equal(second.answers, 1);
    assert_int_equal(second.claim.status, WP_OK);
    assert_false(second.claim.replayed);
    assert_string_not_equal(second.claim.grant.sandbox,
                            first.claim.grant.sandbox);
    replica_close(&b);
    replica_close(&a);
}

/* The store tells of a lease, which ends before a repeat of its claim can be
 * shown it: the store is asked again, and the claim is a new one. */
static void
a_repeat_is_not_shown_what_ends_meanwhile(void **state)
{
    struct replica a;
    struct replica b;
    struct wp_rig_claim first;
    struct wp_rig_claim second;
    bool released = false;

    (void)state;
    replica_history_max = 0;
    replica_open(&a, 0, 3, true);
    replica_open(&b, 1, 3, false);
    replica_settle_both(&a, &b);
    assert_int_equal(replica_claim(&a, &first, "c1"), WP_OK);
    replica_store.ports[1].n_feed = 0;
    replica_store.ports[1].later = true;
    wp_rig_claim_init(&second, "c1", "", 60 * WP_NS_PER_S, 0);
    assert_int_equal(wp_pools_claim(b.pools, &second.claim), WP_PENDING);
    for (int i = 0; i < 30 && second.answers == 0; i++) {
        const struct wp_linked_message *kept = replica_store.ports[1].kept;

        if (kept != NULL && !released &&
            wp_lease_op_of(replica_store.ports[1].kept)->kind ==
                WP_LEASE_RENEW) {
            assert_int_equal(replica_change(&a, &first, false, NULL), WP_OK);
            replica_settle(&a);
            released = true;
        }
        (void)wp_model_answer(&replica_store, 1);
        (void)wp_pools_run(b.pools);
    }
    assert_true(released);
    assert_int_equal(second.answers, 1);
    assert_int_equal(second.claim.status, WP_OK);
    assert_false(second.claim.replayed);
    assert_string_not_equal(second.claim.grant.sandbox,
                            first.claim.grant.sandbox);
    replica_store.ports[1].later = false;
    (void)wp_model_answer(&replica_store, 1);
    replica_settle_both(&a, &b);
    replica_close(&b);
    replica_close(&a);
}

/* A follower that missed how a lease ended asks, once it should long be
 * over. */
static void
a_follower_asks_for_what_should_be_over(void **state)
{
    struct replica a;
    struct replica b;
    struct wp_rig_claim c;

    (void)state;
    replica_open(&a, 0, 2, true);
    replica_open(&b, 1, 2, false);
    replica_settle_both(&a, &b);
    assert_int_equal(replica_claim(&a, &c, "c1"), WP_OK);
    replica_settle_both(&a, &b);
    assert_int_equal(replica_change(&a, &c, false, NULL), WP_OK);
    replica_settle(&a);
    replica_store.ports[1].n_feed = 0;
    wp_clock_manual_advance(&replica_clock, 65 * WP_NS_PER_S);
    replica_settle(&b);
    assert_int_equal(replica_stats(&b).leased, 1);
    wp_clock_manual_advance(&replica_clock, 10 * WP_NS_PER_S);
    replica_settle(&b);
    assert_int_equal(replica_stats(&b).leased, 0);
    assert_int_equal(replica_stats(&b).quarantined, 0);
    assert_int_equal(replica_stats(&b).dying, 0);
    replica_close(&b);
    replica_close(&a);
}

/* The same for one of which it heard the end, but not that it is forgotten. */
static void
a_follower_asks_for_what_lingers(void **state)
{
    struct replica a;
    struct replica b;
    struct wp_rig_claim c;
    uint32_t asked;

    (void)state;
    replica_open(&a, 0, 2, true);
    replica_open(&b, 1, 2, false);
    replica_settle_both(&a, &b);
    assert_int_equal(replica_claim(&b, &c, "c1"), WP_OK);
    replica_settle_both(&a, &b);
    assert_int_equal(replica_change(&b, &c, false, NULL), WP_OK);
    replica_settle(&b);
    assert_int_equal(replica_stats(&b).dying, 1);
    replica_settle(&a);
    replica_store.ports[1].n_feed = 0;
    /* A store that is out of reach is asked at times, not all the time. */
    replica_store.ports[1].fault = WP_UNAVAILABLE;
    asked = replica_store.ports[1].commits;
    for (int i = 0; i < 60; i++) {
        wp_clock_manual_advance(&replica_clock, WP_NS_PER_S);
        replica_settle(&b);
    }
    assert_int_equal(replica_store.ports[1].commits - asked, 6);
    replica_store.ports[1].fault = WP_OK;
    for (int i = 0; i < 3; i++) {
        wp_clock_manual_advance(&replica_clock, 10 * WP_NS_PER_S);
        replica_settle(&b);
    }
    assert_int_equal(replica_stats(&b).dying, 0);
    replica_close(&b);
    replica_close(&a);
}

/* Somebody edited the record, or a later version wrote it. */
static void
a_way_of_serving_that_is_none_counts_as_warm(void **state)
{
    static const uint32_t told[] = {0, 4, 255, 256, UINT32_MAX};
    struct wp_claim_info info;
    struct wp_rig_claim again;
    struct replica a;
    struct replica b;

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(told); i++) {
        struct wp_rig_claim c;

        (void)replica_set_up_shared(NULL);
        replica_open(&a, 0, 1, true);
        replica_settle(&a);
        assert_int_equal(replica_claim(&a, &c, "c1"), WP_OK);
        replica_store.records[0].served = told[i];
        replica_open(&b, 1, 1, false);
        replica_settle(&b);
        assert_int_equal(wp_pools_get(b.pools, WP_STR(""), WP_STR("c1"), &info),
                         WP_OK);
        assert_int_equal(info.served, WP_SERVED_WARM);
        assert_int_equal(replica_claim(&b, &again, "c1"), WP_OK);
        assert_int_equal(again.claim.grant.served, WP_SERVED_WARM);
        replica_close(&b);
        replica_close(&a);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(old_news_do_not_bring_a_sandbox_back,
                               replica_set_up_shared),
        cmocka_unit_test_setup(what_is_forgotten_while_in_doubt_is_let_go,
                               replica_set_up_shared),
        cmocka_unit_test_setup(
            a_release_that_the_store_took_was_of_a_held_lease,
            replica_set_up_shared),
        cmocka_unit_test_setup(an_offer_in_doubt_costs_no_slot,
                               replica_set_up_shared),
        cmocka_unit_test_setup(a_renewal_overtakes_an_expiry,
                               replica_set_up_shared),
        cmocka_unit_test_setup(an_expiry_that_is_refused_tells_the_deadline,
                               replica_set_up_shared),
        cmocka_unit_test_setup(use_keeps_what_another_replica_renewed,
                               replica_set_up_shared),
        cmocka_unit_test_setup(what_is_past_its_deadline_in_the_store_is_over,
                               replica_set_up_shared),
        cmocka_unit_test_setup(a_repeat_is_not_shown_what_is_over,
                               replica_set_up_shared),
        cmocka_unit_test_setup(a_repeat_is_not_shown_what_ends_meanwhile,
                               replica_set_up_shared),
        cmocka_unit_test_setup(a_follower_asks_for_what_should_be_over,
                               replica_set_up_shared),
        cmocka_unit_test_setup(a_follower_asks_for_what_lingers,
                               replica_set_up_shared),
        cmocka_unit_test_setup(a_way_of_serving_that_is_none_counts_as_warm,
                               replica_set_up_shared),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
