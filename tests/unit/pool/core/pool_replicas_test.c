/* tests/unit/pool/core/pool_replicas_test.c - several replicas on one store:
 * what they see of each other, and whose word counts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "pool/records/records.h"
#include "pool/table/pools.h"
#include "tests/support/pool/replica_rig.h"

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
a_release_reaches_the_store_before_the_copy_does(void **state)
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
a_renewal_reaches_the_store_before_the_copy_does(void **state)
{
    const struct wp_lease_record *record;
    struct replica a;
    struct replica b;
    struct wp_rig_claim c;

    (void)state;
    replica_open(&a, 0, 2, true);
    replica_open(&b, 1, 2, false);
    replica_settle_both(&a, &b);
    assert_int_equal(replica_claim(&a, &c, "c1"), WP_OK);
    /* b still takes that sandbox for ready. */
    assert_int_equal(replica_change(&b, &c, true, NULL), WP_OK);
    record = wp_model_claimed(&replica_store, "c1");
    assert_non_null(record);
    assert_int_equal(
        record->deadline_wall_ms >> 1,
        (replica_clock.now_wall_ns + 120 * WP_NS_PER_S) / WP_NS_PER_MS >> 1);
    replica_close(&b);
    replica_close(&a);
}

static uint64_t
released_by(struct replica *a, struct replica *b)
{
    return replica_stats(a).released_total + replica_stats(b).released_total;
}

/* Also when the second has not heard of the first, and when the id has another
 * lease by then. */
static void
a_release_ends_a_lease_once(void **state)
{
    struct replica a;
    struct replica b;
    struct wp_rig_claim c;
    struct wp_rig_claim again;
    bool was_held;

    (void)state;
    replica_open(&a, 0, 2, true);
    replica_open(&b, 1, 2, false);
    replica_settle_both(&a, &b);
    assert_int_equal(replica_claim(&a, &c, "c1"), WP_OK);
    replica_settle_both(&a, &b);
    assert_int_equal(replica_change(&a, &c, false, &was_held), WP_OK);
    assert_true(was_held);
    assert_int_equal(replica_change(&b, &c, false, &was_held), WP_OK);
    assert_false(was_held);
    assert_int_equal(replica_claim(&a, &again, "c1"), WP_OK);
    assert_int_equal(replica_change(&b, &c, false, &was_held), WP_OK);
    assert_false(was_held);
    assert_int_equal(released_by(&a, &b), 1);
    replica_settle_both(&a, &b);
    assert_int_equal(replica_stats(&a).leased, 1);
    assert_int_equal(replica_change(&b, &again, false, &was_held), WP_OK);
    assert_true(was_held);
    replica_settle_both(&a, &b);
    assert_int_equal(released_by(&a, &b), 2);
    replica_close(&b);
    replica_close(&a);
}

/* The keeper, which has not heard of a release, finds nothing to expire. */
static void
what_was_released_does_not_expire(void **state)
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
    wp_clock_manual_advance(&replica_clock, 59 * WP_NS_PER_S);
    assert_int_equal(replica_change(&b, &c, false, NULL), WP_OK);
    replica_store.ports[0].n_feed = 0;
    wp_clock_manual_advance(&replica_clock, 5 * WP_NS_PER_S);
    replica_settle_both(&a, &b);
    assert_int_equal(replica_stats(&a).leased, 0);
    assert_int_equal(replica_stats(&a).expired_total, 0);
    assert_int_equal(released_by(&a, &b), 1);
    replica_close(&b);
    replica_close(&a);
}

/* Clocks differ; but no lease lasts a second longer than shown. */
static void
the_keeper_expires_what_a_follower_granted_within_a_second(void **state)
{
    struct replica a;
    struct replica b;
    struct wp_rig_claim c;

    (void)state;
    replica_open(&a, 0, 1, true);
    replica_open(&b, 1, 1, false);
    replica_settle_both(&a, &b);
    assert_int_equal(replica_claim(&b, &c, "c1"), WP_OK); /* For 60 s. */
    replica_settle_both(&a, &b);
    wp_clock_manual_advance(&replica_clock, 60 * WP_NS_PER_S);
    replica_settle(&a);
    assert_int_equal(replica_stats(&a).leased, 1);
    wp_clock_manual_advance(&replica_clock, 700 * WP_NS_PER_MS);
    replica_settle_both(&a, &b);
    assert_int_equal(replica_stats(&a).leased, 0);
    replica_close(&b);
    replica_close(&a);
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

/* The store is asked by whoever did not grant it: then it stands. */
static void
a_grant_that_a_replica_has_shown_is_not_undone(void **state)
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
    assert_int_equal(replica_stats(&b).leased, 1);
    assert_int_equal(replica_claim(&a, &again, "c1"), WP_OK);
    assert_true(again.claim.replayed);
    assert_int_equal(replica_change(&b, &c, true, NULL), WP_OK);
    replica_close(&b);
    replica_close(&a);
}

/* The same, when whoever granted it has heard of that before. */
static void
a_grant_that_is_heard_to_be_shown_is_not_undone(void **state)
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
    assert_int_equal(replica_claim(&a, &again, "c1"), WP_OK);
    replica_settle_both(&a, &b);
    wp_pools_undo(b.pools, &c.claim);
    replica_settle_both(&a, &b);
    assert_int_equal(wp_model_count(&replica_store, WP_RECORD_HELD), 1);
    assert_int_equal(replica_change(&a, &again, true, NULL), WP_OK);
    replica_close(&b);
    replica_close(&a);
}

static void
a_grant_that_nobody_was_shown_is_undone(void **state)
{
    struct replica a;
    struct replica b;
    struct wp_rig_claim c;
    struct wp_rig_claim again;
    struct wp_rig_claim other;

    (void)state;
    replica_open(&a, 0, 2, true);
    replica_open(&b, 1, 2, false);
    replica_settle_both(&a, &b);
    assert_int_equal(replica_claim(&b, &c, "c1"), WP_OK);
    replica_settle_both(&a, &b);
    wp_pools_undo(b.pools, &c.claim);
    replica_settle_both(&a, &b);
    assert_int_equal(wp_model_count(&replica_store, WP_RECORD_HELD), 0);
    assert_int_equal(replica_stats(&a).leased, 0);
    assert_int_equal(replica_stats(&b).leased, 0);
    assert_int_equal(replica_stats(&b).undone_total, 1);
    /* Its id is free, and the sandbox nobody's: a replica behind may tell that
     * the claim holds it. */
    assert_int_equal(replica_claim(&a, &again, "c1"), WP_OK);
    assert_false(again.claim.replayed);
    assert_string_not_equal(again.claim.grant.sandbox, c.claim.grant.sandbox);
    assert_int_equal(replica_claim(&b, &other, "c2"), WP_OK);
    assert_string_not_equal(other.claim.grant.sandbox, c.claim.grant.sandbox);
    replica_close(&b);
    replica_close(&a);
}

/* A repeat at the replica that granted it has the store's word as well. */
static void
a_grant_that_its_own_replica_has_shown_is_not_undone(void **state)
{
    struct replica a;
    struct wp_rig_claim c;
    struct wp_rig_claim again;

    (void)state;
    replica_open(&a, 0, 2, true);
    replica_settle(&a);
    assert_int_equal(replica_claim(&a, &c, "c1"), WP_OK);
    assert_int_equal(replica_claim(&a, &again, "c1"), WP_OK);
    assert_true(again.claim.replayed);
    wp_pools_undo(a.pools, &c.claim);
    replica_settle(&a);
    assert_int_equal(wp_model_count(&replica_store, WP_RECORD_HELD), 1);
    assert_int_equal(replica_change(&a, &again, true, NULL), WP_OK);
    replica_close(&a);
}

/* A grant here had no answer and no effect; another replica granted the
 * sandbox, by the very fence and until the very deadline. */
static void
grant_beside_a_lost_one(const char *lost_id)
{
    struct replica a;
    struct replica b;
    struct wp_rig_claim lost;
    struct wp_rig_claim c;

    replica_open(&a, 0, 1, true);
    replica_open(&b, 1, 1, false);
    replica_settle_both(&a, &b);
    replica_store.ports[0].fault = WP_UNKNOWN_OUTCOME;
    assert_int_equal(replica_claim(&a, &lost, lost_id), WP_UNAVAILABLE);
    replica_store.ports[0].fault = WP_OK;
    assert_int_equal(replica_claim(&b, &c, "c1"), WP_OK);
    replica_settle_both(&a, &b);
    assert_int_equal(wp_model_count(&replica_store, WP_RECORD_HELD), 1);
    assert_int_equal(replica_stats(&a).leased, 1);
    assert_int_equal(replica_change(&a, &c, true, NULL), WP_OK);
    replica_close(&b);
    replica_close(&a);
}

static void
what_another_replica_granted_is_not_taken_back(void **state)
{
    (void)state;
    grant_beside_a_lost_one("lost");
}

/* Its client asked both. */
static void
what_another_replica_granted_the_same_claim_is_not_either(void **state)
{
    (void)state;
    grant_beside_a_lost_one("c1");
}

/* Its client has gone while the store was asked, has repeated it at another
 * replica, and released it there. */
static void
who_has_gone_is_granted_nothing(void **state)
{
    struct replica a;
    struct replica b;
    struct wp_rig_claim gone;
    struct wp_rig_claim c;

    (void)state;
    replica_open(&a, 0, 3, true);
    replica_open(&b, 1, 3, false);
    replica_settle_both(&a, &b);
    replica_store.ports[0].later = true;
    wp_rig_claim_init(&gone, "c1", "", 60 * WP_NS_PER_S, 0);
    assert_int_equal(wp_pools_claim(a.pools, &gone.claim), WP_PENDING);
    assert_false(wp_pools_cancel(a.pools, &gone.claim));
    assert_int_equal(replica_claim(&b, &c, "c1"), WP_OK);
    /* The commit at a comes too late. */
    (void)wp_model_answer(&replica_store, 0);
    assert_int_equal(replica_change(&b, &c, false, NULL), WP_OK);
    replica_store.ports[0].later = false;
    (void)wp_model_answer(&replica_store, 0);
    replica_settle_both(&a, &b);
    assert_int_equal(gone.answers, 1);
    assert_int_equal(gone.claim.status, WP_CANCELLED);
    assert_int_equal(wp_model_count(&replica_store, WP_RECORD_HELD), 0);
    assert_int_equal(replica_stats(&a).leased, 0);
    assert_int_equal(replica_stats(&a).waiting, 0);
    replica_close(&b);
    replica_close(&a);
}

/* A claim at b of an id that a has granted, and of which b has not heard: it
 * awaits what the store says of it. */
static void
await_store(struct replica *a, struct replica *b, struct wp_rig_claim *held,
            struct wp_rig_claim *c)
{
    replica_open(a, 0, 3, true);
    replica_open(b, 1, 3, false);
    replica_settle_both(a, b);
    assert_int_equal(replica_claim(a, held, "c1"), WP_OK);
    replica_settle(a);
    wp_rig_claim_init(c, "c1", "", 60 * WP_NS_PER_S, 0);
    assert_int_equal(wp_pools_claim(b->pools, &c->claim), WP_PENDING);
}

static void
who_goes_before_the_store_is_asked_is_answered_at_once(void **state)
{
    struct replica a;
    struct replica b;
    struct wp_rig_claim held;
    struct wp_rig_claim gone;
    struct wp_rig_claim again;
    uint32_t commits;

    (void)state;
    await_store(&a, &b, &held, &gone);
    commits = replica_store.ports[1].commits;
    assert_true(wp_pools_cancel(b.pools, &gone.claim));
    assert_int_equal(gone.claim.status, WP_CANCELLED);
    assert_int_equal(gone.answers, 0);
    (void)wp_pools_run(b.pools);
    assert_int_equal(gone.answers, 0);
    assert_int_equal(replica_store.ports[1].commits, commits);
    replica_settle_both(&a, &b);
    /* The id is free for another try, which is told of the lease. */
    assert_int_equal(replica_claim(&b, &again, "c1"), WP_OK);
    assert_string_equal(again.claim.grant.sandbox, held.claim.grant.sandbox);
    assert_int_equal(replica_stats(&b).leased, 1);
    /* Of a lease that is known here, whoever goes leaves it alone. */
    wp_rig_claim_init(&gone, "c1", "", 60 * WP_NS_PER_S, 0);
    assert_int_equal(wp_pools_claim(b.pools, &gone.claim), WP_PENDING);
    assert_true(wp_pools_cancel(b.pools, &gone.claim));
    assert_int_equal(gone.claim.status, WP_CANCELLED);
    replica_settle_both(&a, &b);
    assert_int_equal(gone.answers, 0);
    assert_int_equal(wp_model_count(&replica_store, WP_RECORD_HELD), 1);
    assert_int_equal(replica_claim(&b, &again, "c1"), WP_OK);
    assert_true(again.claim.replayed);
    assert_string_equal(again.claim.grant.sandbox, held.claim.grant.sandbox);
    replica_close(&b);
    replica_close(&a);
}

static void
who_goes_while_the_store_is_asked_is_answered_behind_it(void **state)
{
    struct replica a;
    struct replica b;
    struct wp_rig_claim held;
    struct wp_rig_claim gone;

    (void)state;
    await_store(&a, &b, &held, &gone);
    replica_store.ports[1].later = true;
    (void)wp_pools_run(b.pools);
    assert_false(wp_pools_cancel(b.pools, &gone.claim));
    assert_int_equal(gone.answers, 0);
    /* Meanwhile the lease has ended: there is nothing to be shown. */
    assert_int_equal(replica_change(&a, &held, false, NULL), WP_OK);
    replica_settle(&a);
    replica_store.ports[1].later = false;
    assert_true(wp_model_answer(&replica_store, 1) > 0);
    replica_settle_both(&a, &b);
    assert_int_equal(gone.answers, 1);
    assert_int_equal(gone.claim.status, WP_CANCELLED);
    assert_int_equal(replica_stats(&a).leased, 0);
    assert_int_equal(replica_stats(&b).leased, 0);
    assert_int_equal(wp_model_count(&replica_store, WP_RECORD_HELD), 0);
    replica_close(&b);
    replica_close(&a);
}

static void
an_id_that_the_store_does_not_tell_of_is_asked_for_soon(void **state)
{
    struct replica a;
    struct replica b;
    struct wp_rig_claim held;
    struct wp_rig_claim c;

    (void)state;
    await_store(&a, &b, &held, &c);
    replica_store.ports[1].fault = WP_UNAVAILABLE;
    for (int i = 0; i < 8 && c.answers == 0; i++) {
        (void)wp_pools_run(b.pools);
    }
    assert_int_equal(c.answers, 1);
    assert_int_equal(c.claim.status, WP_UNAVAILABLE);
    assert_int_equal(c.claim.retry_after_ns, WP_NS_PER_MS);
    assert_int_equal(replica_stats(&b).refused_total, 1);
    replica_store.ports[1].fault = WP_OK;
    replica_settle_both(&a, &b);
    assert_int_equal(replica_claim(&b, &c, "c1"), WP_OK);
    /* So is one of which this replica knows the lease. */
    replica_store.ports[1].fault = WP_UNAVAILABLE;
    assert_int_equal(replica_claim(&b, &c, "c1"), WP_UNAVAILABLE);
    assert_int_equal(c.claim.retry_after_ns, WP_NS_PER_MS);
    assert_int_equal(replica_stats(&b).refused_total, 2);
    replica_store.ports[1].fault = WP_OK;
    replica_close(&b);
    replica_close(&a);
}

/* All but the first left of the requests that control may have at the store. */
static uint32_t
take_requests(struct replica *r, struct wp_store_request *taken[512],
              uint32_t left)
{
    uint32_t n = 0;

    while ((taken[n] = wp_store_request_take(r->pools)) != NULL) {
        n++;
        assert_true(n < 512);
    }
    assert_true(n > left);
    while (left-- > 0) {
        wp_store_request_give(taken[--n]);
    }
    return n;
}

static void
a_claim_awaits_a_free_request(void **state)
{
    static struct wp_store_request *taken[512];
    struct replica a;
    struct replica b;
    struct wp_rig_claim held;
    struct wp_rig_claim c;
    uint32_t n;

    (void)state;
    await_store(&a, &b, &held, &c);
    n = take_requests(&b, taken, 0);
    for (int i = 0; i < 4; i++) {
        (void)wp_pools_run(b.pools);
    }
    assert_int_equal(c.answers, 0);
    while (n > 0) {
        wp_store_request_give(taken[--n]);
    }
    for (int i = 0; i < 4; i++) {
        (void)wp_pools_run(b.pools);
    }
    assert_int_equal(c.answers, 1);
    assert_int_equal(c.claim.status, WP_OK);
    assert_string_equal(c.claim.grant.sandbox, held.claim.grant.sandbox);
    replica_close(&b);
    replica_close(&a);
}

/* What is given back asks for nobody any more, whoever takes it next. */
static void
a_free_request_is_nobody_s(void **state)
{
    static struct wp_store_request *taken[512];
    static struct wp_lease_change change;
    static struct wp_claim claim;
    struct replica a;
    uint32_t n;

    (void)state;
    replica_open(&a, 0, 1, true);
    replica_settle(&a);
    for (int times = 0; times < 2; times++) {
        n = take_requests(&a, taken, 0);
        assert_int_equal(n, 256);
        while (n > 0) {
            n--;
            assert_null(taken[n]->claim);
            assert_null(taken[n]->change);
            assert_ptr_equal(taken[n]->pools, a.pools);
            taken[n]->claim = &claim;
            taken[n]->change = &change;
            wp_store_request_give(taken[n]);
        }
    }
    replica_close(&a);
}

/* Each sandbox is preferred by one replica; who has not heard of the others
 * prefers them all. */
static void
each_sandbox_has_one_who_prefers_it(void **state)
{
    static const uint64_t ids[] = {11, 22, 33};
    uint32_t of[WP_ARRAY_LEN(ids)] = {0};
    struct replica a;

    (void)state;
    replica_open(&a, 0, 12, true);
    replica_settle(&a);
    assert_int_equal(replica_stats(&a).ready, 12);
    for (uint32_t i = 0; i < 12; i++) {
        struct wp_slot_ref ref = wp_slot_ref_at(&a.pools->slots, i);
        uint32_t who = 0;

        wp_pools_set_replicas(a.pools, 11, ids, 0);
        assert_true(wp_pools_prefer(a.pools, ref));
        for (size_t k = 0; k < WP_ARRAY_LEN(ids); k++) {
            wp_pools_set_replicas(a.pools, ids[k], ids, WP_ARRAY_LEN(ids));
            if (wp_pools_prefer(a.pools, ref)) {
                of[k]++;
                who++;
            }
        }
        assert_int_equal(who, 1);
        ref.generation++;
        assert_true(wp_pools_prefer(a.pools, ref)); /* There is none. */
    }
    for (size_t k = 0; k < WP_ARRAY_LEN(ids); k++) {
        assert_true(of[k] > 0);
    }
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
        cmocka_unit_test_setup(a_renewal_reaches_the_store_before_the_copy_does,
                               replica_set_up_shared),
        cmocka_unit_test_setup(a_release_reaches_the_store_before_the_copy_does,
                               replica_set_up_shared),
        cmocka_unit_test_setup(a_release_ends_a_lease_once,
                               replica_set_up_shared),
        cmocka_unit_test_setup(what_was_released_does_not_expire,
                               replica_set_up_shared),
        cmocka_unit_test_setup(
            the_keeper_expires_what_a_follower_granted_within_a_second,
            replica_set_up_shared),
        cmocka_unit_test_setup(a_follower_does_not_expire,
                               replica_set_up_shared),
        cmocka_unit_test_setup(an_idle_death_asks_the_store_first,
                               replica_set_up_shared),
        cmocka_unit_test_setup(scale_down_asks_the_store_first,
                               replica_set_up_shared),
        cmocka_unit_test_setup(a_grant_that_a_replica_has_shown_is_not_undone,
                               replica_set_up_shared),
        cmocka_unit_test_setup(a_grant_that_is_heard_to_be_shown_is_not_undone,
                               replica_set_up_shared),
        cmocka_unit_test_setup(a_grant_that_nobody_was_shown_is_undone,
                               replica_set_up_shared),
        cmocka_unit_test_setup(
            a_grant_that_its_own_replica_has_shown_is_not_undone,
            replica_set_up_shared),
        cmocka_unit_test_setup(what_another_replica_granted_is_not_taken_back,
                               replica_set_up_shared),
        cmocka_unit_test_setup(
            what_another_replica_granted_the_same_claim_is_not_either,
            replica_set_up_shared),
        cmocka_unit_test_setup(
            who_goes_before_the_store_is_asked_is_answered_at_once,
            replica_set_up_shared),
        cmocka_unit_test_setup(
            who_goes_while_the_store_is_asked_is_answered_behind_it,
            replica_set_up_shared),
        cmocka_unit_test_setup(
            an_id_that_the_store_does_not_tell_of_is_asked_for_soon,
            replica_set_up_shared),
        cmocka_unit_test_setup(a_free_request_is_nobody_s,
                               replica_set_up_shared),
        cmocka_unit_test_setup(a_claim_awaits_a_free_request,
                               replica_set_up_shared),
        cmocka_unit_test_setup(each_sandbox_has_one_who_prefers_it,
                               replica_set_up_shared),
        cmocka_unit_test_setup(who_has_gone_is_granted_nothing,
                               replica_set_up_shared),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
