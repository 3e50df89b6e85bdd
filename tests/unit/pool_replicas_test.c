/* tests/unit/pool_replicas_test.c - several replicas on one store: what they see
 * of each other. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "tests/support/replica_rig.h"

static void
changed(struct wp_lease_change *change)
{
    *(bool *)change->ctx = true;
}

static void
a_follower_sees_and_claims_the_keepers_sandboxes(void **state)
{
    struct replica a;
    struct replica b;
    struct wp_rig_claim c;
    struct wp_rig_claim again;
    bool was_held;

    (void)state;
    replica_open(&a, 0, 3, true);
    replica_open(&b, 1, 3, false);
    replica_settle_both(&a, &b);
    assert_int_equal(replica_stats(&b).ready, 3);
    assert_int_equal(wp_fake_backend_counts(&b.backend).creates, 0);
    assert_int_equal(replica_claim(&b, &c, "c1"), WP_OK);
    replica_settle_both(&a, &b);
    /* The keeper has seen it, refilled, and answers for it. */
    assert_int_equal(replica_stats(&a).leased, 1);
    assert_int_equal(replica_stats(&a).ready, 3);
    assert_int_equal(replica_claim(&a, &again, "c1"), WP_OK);
    assert_string_equal(again.claim.grant.sandbox, c.claim.grant.sandbox);
    assert_int_equal(again.claim.grant.fence, c.claim.grant.fence);
    assert_int_equal(replica_change(&a, &c, true, NULL), WP_OK);
    replica_settle_both(&a, &b);
    assert_int_equal(replica_change(&b, &c, false, &was_held), WP_OK);
    assert_true(was_held);
    replica_settle_both(&a, &b);
    assert_int_equal(replica_stats(&a).leased, 0);
    assert_int_equal(replica_stats(&b).leased, 0);
    assert_int_equal(replica_stats(&b).dying, 0);
    assert_int_equal(wp_fake_backend_counts(&a.backend).live, 3);
    assert_int_equal(wp_model_count(&replica_store, WP_RECORD_ENDED), 0);
    replica_close(&b);
    replica_close(&a);
}

static void
two_who_want_the_same_get_two(void **state)
{
    struct replica a;
    struct replica b;
    struct wp_rig_claim ca;
    struct wp_rig_claim cb;

    (void)state;
    replica_open(&a, 0, 2, true);
    replica_open(&b, 1, 2, false);
    replica_settle_both(&a, &b);
    /* Neither hears of the other between the two. */
    assert_int_equal(replica_claim(&a, &ca, "a1"), WP_OK);
    assert_int_equal(replica_claim(&b, &cb, "b1"), WP_OK);
    assert_string_not_equal(ca.claim.grant.sandbox, cb.claim.grant.sandbox);
    replica_settle_both(&a, &b);
    assert_int_equal(replica_stats(&a).leased, 2);
    assert_int_equal(replica_stats(&b).leased, 2);
    assert_int_equal(replica_stats(&a).quarantined, 0);
    assert_int_equal(replica_stats(&b).quarantined, 0);
    replica_close(&b);
    replica_close(&a);
}

static void
one_id_at_two_replicas_has_one_sandbox(void **state)
{
    struct replica a;
    struct replica b;
    struct wp_rig_claim ca;
    struct wp_rig_claim cb;

    (void)state;
    replica_open(&a, 0, 2, true);
    replica_open(&b, 1, 2, false);
    replica_settle_both(&a, &b);
    assert_int_equal(replica_claim(&a, &ca, "same"), WP_OK);
    /* b has not heard of it: the store tells. */
    assert_int_equal(replica_claim(&b, &cb, "same"), WP_OK);
    assert_true(cb.claim.replayed);
    assert_string_equal(ca.claim.grant.sandbox, cb.claim.grant.sandbox);
    assert_int_equal(ca.claim.grant.fence, cb.claim.grant.fence);
    replica_settle_both(&a, &b);
    assert_int_equal(replica_stats(&a).leased, 1);
    assert_int_equal(replica_stats(&b).leased, 1);
    assert_int_equal(replica_stats(&b).ready, 2);
    replica_close(&b);
    replica_close(&a);
}

static void
a_release_reaches_the_store_before_the_mirror_does(void **state)
{
    struct replica a;
    struct replica b;
    struct wp_rig_claim c;
    bool was_held;

    (void)state;
    replica_open(&a, 0, 2, true);
    replica_open(&b, 1, 2, false);
    replica_settle_both(&a, &b);
    assert_int_equal(replica_claim(&a, &c, "c1"), WP_OK);
    /* b still takes that sandbox for ready. */
    assert_int_equal(replica_change(&b, &c, false, &was_held), WP_OK);
    assert_true(was_held);
    assert_int_equal(wp_model_count(&replica_store, WP_RECORD_ENDED), 1);
    replica_settle_both(&a, &b);
    assert_int_equal(replica_stats(&a).leased, 0);
    assert_int_equal(replica_stats(&b).leased, 0);
    replica_close(&b);
    replica_close(&a);
}

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

static void
a_follower_does_not_expire(void **state)
{
    struct replica a;
    struct replica b;
    struct wp_rig_claim c;

    (void)state;
    replica_open(&a, 0, 1, true);
    replica_open(&b, 1, 1, false);
    replica_settle_both(&a, &b);
    assert_int_equal(replica_claim(&b, &c, "c1"), WP_OK);
    replica_settle_both(&a, &b);
    wp_clock_manual_advance(&replica_clock, 70 * WP_NS_PER_S);
    replica_settle(&b);
    assert_int_equal(replica_stats(&b).leased, 1);
    assert_non_null(wp_model_claimed(&replica_store, "c1"));
    replica_settle_both(&a, &b);
    assert_int_equal(replica_stats(&a).leased, 0);
    assert_int_equal(replica_stats(&b).leased, 0);
    replica_close(&b);
    replica_close(&a);
}

/* A ready sandbox dies while another replica, unaware, grants it. */
static void
an_idle_death_asks_the_store_first(void **state)
{
    struct replica a;
    struct replica b;
    struct wp_rig_claim c;
    struct wp_claim_info info;

    (void)state;
    replica_open(&a, 0, 1, true);
    replica_open(&b, 1, 1, false);
    replica_settle_both(&a, &b);
    assert_int_equal(replica_claim(&b, &c, "c1"), WP_OK);
    assert_true(wp_fake_backend_lose(
        &a.backend,
        wp_fake_backend_find(&a.backend, wp_str_from(c.claim.grant.sandbox)),
        "it crashed"));
    replica_settle_both(&a, &b);
    assert_int_equal(wp_pools_get(b.pools, WP_STR(""), WP_STR("c1"), &info),
                     WP_OK);
    assert_true(info.lost);
    assert_int_equal(replica_change(&b, &c, false, NULL), WP_OK);
    replica_settle_both(&a, &b);
    assert_int_equal(wp_model_count(&replica_store, WP_RECORD_LOST), 0);
    assert_int_equal(wp_fake_backend_counts(&a.backend).live, 1);
    replica_close(&b);
    replica_close(&a);
}

static void
scale_down_asks_the_store_first(void **state)
{
    struct replica a;
    struct replica b;
    struct wp_rig_claim c[4];
    struct wp_err err;

    (void)state;
    replica_open(&a, 0, 4, true);
    replica_open(&b, 1, 4, false);
    replica_settle_both(&a, &b);
    assert_int_equal(replica_claim(&b, &c[0], "c0"), WP_OK);
    assert_int_equal(replica_claim(&b, &c[1], "c1"), WP_OK);
    assert_int_equal(wp_pools_set_target(a.pools, 0, 0, &err), WP_OK);
    replica_settle_both(&a, &b);
    assert_int_equal(replica_stats(&a).leased, 2);
    assert_int_equal(replica_stats(&b).leased, 2);
    assert_int_equal(replica_stats(&a).ready, 0);
    assert_int_equal(replica_stats(&b).ready, 0);
    assert_int_equal(wp_fake_backend_counts(&a.backend).live, 2);
    replica_close(&b);
    replica_close(&a);
}

static void
a_grant_that_replicas_may_have_shown_is_not_undone(void **state)
{
    struct replica a;
    struct replica b;
    struct wp_rig_claim c;
    struct wp_rig_claim again;

    (void)state;
    replica_open(&a, 0, 2, true);
    replica_open(&b, 1, 2, false);
    replica_settle_both(&a, &b);
    assert_int_equal(replica_claim(&b, &c, "c1"), WP_OK);
    /* a has not heard of that, and has the store confirm the same lease. */
    assert_int_equal(replica_claim(&a, &again, "c1"), WP_OK);
    assert_string_equal(again.claim.grant.sandbox, c.claim.grant.sandbox);
    wp_pools_undo(a.pools, &again.claim);
    wp_pools_undo(b.pools, &c.claim);
    replica_settle_both(&a, &b);
    assert_int_equal(wp_model_count(&replica_store, WP_RECORD_HELD), 1);
    assert_int_equal(replica_claim(&a, &again, "c1"), WP_OK);
    assert_true(again.claim.replayed);
    assert_int_equal(replica_change(&b, &c, true, NULL), WP_OK);
    replica_close(&b);
    replica_close(&a);
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

/* The sandbox was destroyed when nothing was recorded of it yet. Another replica
 * may grant it before the keeper has heard: that lease ends. */
static void
a_late_offer_of_a_dead_keeper_ends(void **state)
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

    (void)state;
    replica_open(&a, 0, 0, true);
    wp_pools_lose_unseen(a.pools);
    replica_open(&b, 1, 0, false);
    replica_settle_both(&a, &b);
    assert_int_equal(dead.ops->commit(dead.self, &op), WP_OK);
    replica_settle(&b);
    assert_int_equal(replica_claim(&b, &c, "c1"), WP_OK);
    assert_string_equal(c.claim.grant.sandbox, "p-x7k2q");
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
    op = replica_store.ports[1].kept;
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
    replica_history_max = 0; /* Else a note is among what the store has. */
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
    expire = replica_store.ports[0].kept;
    assert_int_equal(expire->kind, WP_LEASE_EXPIRE);
    replica_store.ports[0].kept = expire->next;
    assert_int_equal(wp_model_answer(&replica_store, 0), 1); /* Who holds it? */
    (void)wp_pools_run(a.pools);
    assert_int_equal(wp_model_answer(&replica_store, 0), 1); /* Renewed. */
    assert_true(done);
    assert_int_equal(request.status, WP_OK);
    expire->next = NULL;
    replica_store.ports[0].kept = expire;
    assert_int_equal(wp_model_answer(&replica_store, 0), 1);
    replica_store.ports[0].later = false;
    replica_settle_both(&a, &b);
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

static void
a_sync_lets_go_of_what_the_store_no_longer_has(void **state)
{
    struct replica a;
    struct replica b;
    struct wp_rig_claim c;

    (void)state;
    replica_open(&a, 0, 3, true);
    replica_open(&b, 1, 3, false);
    replica_settle_both(&a, &b);
    assert_int_equal(replica_claim(&a, &c, "c1"), WP_OK);
    replica_settle_both(&a, &b);
    assert_int_equal(replica_change(&a, &c, false, NULL), WP_OK);
    replica_settle(&a);
    replica_store.ports[1].n_feed = 0; /* b does not hear of any of that. */
    replica_settle(&b);
    assert_int_equal(replica_stats(&b).leased, 1);
    wp_pools_sync_begin(b.pools, 0);
    wp_model_load(&replica_store, b.pools);
    wp_pools_sync_end(b.pools, 0);
    replica_settle(&b);
    assert_int_equal(replica_stats(&b).leased, 0);
    assert_int_equal(replica_stats(&b).ready, 3);
    replica_close(&b);
    replica_close(&a);
}

static uint32_t
told(struct replica *r, bool retire, enum wp_record_state kind)
{
    struct wp_lease_record out[2];
    uint32_t cursor = 0;
    uint32_t count = 0;

    do {
        uint32_t n = wp_pools_known_records(r->pools, 0, retire, &cursor, out,
                                            WP_ARRAY_LEN(out));

        for (uint32_t i = 0; i < n; i++) {
            const struct wp_lease_record *have = NULL;

            for (size_t k = 0; k < WP_MODEL_RECORDS; k++) {
                if (memcmp(replica_store.records[k].uid, out[i].uid,
                           WP_UID_LEN) == 0) {
                    have = &replica_store.records[k];
                }
            }
            assert_non_null(have);
            count += out[i].state == kind ? 1 : 0;
            if (!retire) {
                assert_memory_equal(have, &out[i], sizeof *have);
            }
        }
    } while (cursor != 0);
    return count;
}

static void
a_replica_can_tell_what_the_store_had(void **state)
{
    struct replica a;
    struct replica b;
    struct wp_rig_claim c;

    (void)state;
    replica_open(&a, 0, 3, true);
    replica_open(&b, 1, 3, false);
    replica_settle_both(&a, &b);
    assert_int_equal(replica_claim(&b, &c, "c1"), WP_OK);
    replica_settle_both(&a, &b);
    assert_int_equal(told(&a, false, WP_RECORD_OPEN), 3);
    assert_int_equal(told(&a, false, WP_RECORD_HELD), 1);
    /* A follower may know less of ready ones: it tells of leases. */
    assert_int_equal(told(&b, false, WP_RECORD_OPEN), 0);
    assert_int_equal(told(&b, false, WP_RECORD_HELD), 1);
    assert_int_equal(told(&a, true, WP_RECORD_ENDED), 3);
    replica_settle_both(&a, &b);
    assert_int_equal(replica_stats(&a).leased, 1);
    assert_int_equal(replica_stats(&a).ready, 3);
    replica_close(&b);
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
    assert_int_equal(told(&b, false, WP_RECORD_HELD), 1);
    wp_clock_manual_advance(&replica_clock, 122 * WP_NS_PER_S);
    replica_settle(&b);
    assert_true(replica_stats(&b).gone);
    assert_int_equal(wp_fake_backend_counts(&b.backend).live, 0);
    replica_close(&b);
}

/* An idle one is given up for a replica that is not there to say whether it has
 * granted it; but it had, and nothing was heard of it here. */
static void
what_is_given_up_may_be_held(void **state)
{
    struct replica a;
    struct replica b;
    struct wp_rig_claim c;

    (void)state;
    replica_open(&a, 0, 3, true);
    replica_open(&b, 1, 3, false);
    replica_settle_both(&a, &b);
    assert_int_equal(replica_claim(&b, &c, "c1"), WP_OK);
    replica_store.ports[0].n_feed = 0;
    assert_int_equal(told(&a, true, WP_RECORD_ENDED), 3);
    replica_settle_both(&a, &b);
    assert_int_equal(replica_stats(&a).leased, 1);
    assert_int_equal(replica_stats(&a).ready, 3);
    assert_int_equal(replica_change(&a, &c, true, NULL), WP_OK);
    assert_int_equal(wp_fake_backend_counts(&a.backend).live, 4);
    replica_close(&b);
    replica_close(&a);
}

/* A record of what is over comes back with an old copy of the store. The keeper
 * hears of it while it tells what it knows: that does not make it known. */
static void
what_is_over_is_not_known(void **state)
{
    struct replica a;
    struct wp_lease_record old;

    (void)state;
    replica_open(&a, 0, 1, true);
    replica_settle(&a);
    wp_pools_lose_unseen(a.pools);
    old = replica_store.records[0];
    assert_true(wp_pools_knows(a.pools, old.uid));
    old.uid[0] ^= 0xff;
    old.sandbox[strlen(old.sandbox) - 1] ^= 1;
    assert_false(wp_pools_knows(a.pools, old.uid));
    wp_pools_on_record(a.pools, &old);
    assert_int_equal(replica_stats(&a).dying, 1);
    assert_false(wp_pools_knows(a.pools, old.uid));
    replica_settle(&a);
    replica_close(&a);
}

/* A store that lost a renewal tells of the lease as it was before. */
static void
an_old_deadline_shortens_nothing(void **state)
{
    struct replica a;
    struct replica b;
    struct wp_rig_claim c;
    struct wp_lease_record old;
    struct wp_claim_info info;

    (void)state;
    replica_open(&a, 0, 2, true);
    replica_open(&b, 1, 2, false);
    replica_settle_both(&a, &b);
    assert_int_equal(replica_claim(&a, &c, "c1"), WP_OK);
    old = *wp_model_claimed(&replica_store, "c1");
    assert_int_equal(replica_change(&a, &c, true, NULL), WP_OK);
    replica_settle_both(&a, &b);
    wp_pools_on_record(a.pools, &old);
    wp_pools_on_record(b.pools, &old);
    assert_int_equal(wp_pools_get(a.pools, WP_STR(""), WP_STR("c1"), &info),
                     WP_OK);
    assert_true(info.deadline_wall_ms > old.deadline_wall_ms);
    assert_int_equal(wp_pools_get(b.pools, WP_STR(""), WP_STR("c1"), &info),
                     WP_OK);
    assert_true(info.deadline_wall_ms > old.deadline_wall_ms);
    replica_close(&b);
    replica_close(&a);
}

/* A follower that missed how a lease ended asks, once it should long be over. */
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
    for (int i = 0; i < 3; i++) {
        wp_clock_manual_advance(&replica_clock, 10 * WP_NS_PER_S);
        replica_settle(&b);
    }
    assert_int_equal(replica_stats(&b).dying, 0);
    replica_close(&b);
    replica_close(&a);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_follower_sees_and_claims_the_keepers_sandboxes,
                               replica_set_up_shared),
        cmocka_unit_test_setup(two_who_want_the_same_get_two,
                               replica_set_up_shared),
        cmocka_unit_test_setup(one_id_at_two_replicas_has_one_sandbox,
                               replica_set_up_shared),
        cmocka_unit_test_setup(
            a_release_reaches_the_store_before_the_mirror_does,
            replica_set_up_shared),
        cmocka_unit_test_setup(a_follower_becomes_the_keeper,
                               replica_set_up_shared),
        cmocka_unit_test_setup(a_removed_pool_hears_of_leases,
                               replica_set_up_shared),
        cmocka_unit_test_setup(what_was_left_to_others_can_still_be_ended,
                               replica_set_up_shared),
        cmocka_unit_test_setup(a_follower_does_not_expire,
                               replica_set_up_shared),
        cmocka_unit_test_setup(an_idle_death_asks_the_store_first,
                               replica_set_up_shared),
        cmocka_unit_test_setup(scale_down_asks_the_store_first,
                               replica_set_up_shared),
        cmocka_unit_test_setup(
            a_grant_that_replicas_may_have_shown_is_not_undone,
            replica_set_up_shared),
        cmocka_unit_test_setup(old_news_do_not_bring_a_sandbox_back,
                               replica_set_up_shared),
        cmocka_unit_test_setup(a_late_offer_of_a_dead_keeper_ends,
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
        cmocka_unit_test_setup(a_repeat_is_not_shown_what_is_over,
                               replica_set_up_shared),
        cmocka_unit_test_setup(a_sync_lets_go_of_what_the_store_no_longer_has,
                               replica_set_up_shared),
        cmocka_unit_test_setup(a_replica_can_tell_what_the_store_had,
                               replica_set_up_shared),
        cmocka_unit_test_setup(what_is_given_up_may_be_held,
                               replica_set_up_shared),
        cmocka_unit_test_setup(what_is_over_is_not_known,
                               replica_set_up_shared),
        cmocka_unit_test_setup(an_old_deadline_shortens_nothing,
                               replica_set_up_shared),
        cmocka_unit_test_setup(a_follower_asks_for_what_should_be_over,
                               replica_set_up_shared),
        cmocka_unit_test_setup(a_follower_asks_for_what_lingers,
                               replica_set_up_shared),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
