/* tests/unit/pool/core/pool_replicas_recovery_test.c - a shared store that has
 * forgotten, or tells of older times: what the replicas know is told to it,
 * and what it lacks is let go. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "pool/table/pools.h"
#include "tests/support/pool/replica_rig.h"

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
    assert_int_equal(replica_records(&a, false, WP_RECORD_OPEN), 3);
    assert_int_equal(replica_records(&a, false, WP_RECORD_HELD), 1);
    /* A follower may know less of ready ones: it tells of leases. */
    assert_int_equal(replica_records(&b, false, WP_RECORD_OPEN), 0);
    assert_int_equal(replica_records(&b, false, WP_RECORD_HELD), 1);
    assert_int_equal(replica_records(&a, true, WP_RECORD_ENDED), 3);
    replica_settle_both(&a, &b);
    assert_int_equal(replica_stats(&a).leased, 1);
    assert_int_equal(replica_stats(&a).ready, 3);
    replica_close(&b);
    replica_close(&a);
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
    assert_int_equal(replica_records(&a, true, WP_RECORD_ENDED), 3);
    replica_settle_both(&a, &b);
    assert_int_equal(replica_stats(&a).leased, 1);
    assert_int_equal(replica_stats(&a).ready, 3);
    assert_int_equal(replica_change(&a, &c, true, NULL), WP_OK);
    assert_int_equal(wp_fake_backend_counts(&a.backend).live, 4);
    replica_close(&b);
    replica_close(&a);
}

/* The same heard by a third one, which has not heard of the grant either: whoever
 * asks it to renew is not told that the lease is over. */
static void
what_another_gives_up_may_be_held(void **state)
{
    struct replica a;
    struct replica b;
    struct replica third;
    struct wp_lease_record given_up;
    struct wp_rig_claim c;

    (void)state;
    replica_open(&a, 0, 1, true);
    replica_open(&b, 1, 1, false);
    replica_open(&third, 2, 1, false);
    replica_settle_both(&a, &b);
    replica_settle(&third);
    assert_int_equal(replica_stats(&third).ready, 1);
    given_up = replica_store.records[0];
    given_up.state = WP_RECORD_ENDED;
    assert_int_equal(replica_claim(&b, &c, "c1"), WP_OK);
    replica_store.ports[2].n_feed = 0;
    wp_pools_on_record(third.pools, &given_up);
    replica_settle(&third);
    assert_int_equal(replica_change(&third, &c, true, NULL), WP_OK);
    assert_int_equal(replica_stats(&third).leased, 1);
    assert_int_equal(replica_stats(&third).dying, 0);
    replica_settle_both(&a, &b);
    /* When nobody has it, it goes. */
    replica_settle(&third);
    assert_int_equal(replica_stats(&third).ready, 1);
    replica_close(&third);
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

/* The store has forgotten a grant when it is taken back, and gives the same
 * fence to another claim. The replica that took the first one back hears of the
 * second while it waits for its answer. */
static void
a_fence_that_the_store_gave_twice_is_the_later_claim_s(void **state)
{
    struct replica a;
    struct replica b;
    struct wp_rig_claim c;
    struct wp_rig_claim later;
    struct wp_lease_record open;

    (void)state;
    replica_open(&a, 0, 1, true);
    replica_open(&b, 1, 1, false);
    replica_settle_both(&a, &b);
    open = replica_store.records[0];
    assert_int_equal(replica_claim(&b, &c, "c1"), WP_OK);
    replica_store.records[0] = open;
    replica_store.ports[0].n_feed = 0; /* a never hears of it. */
    replica_store.ports[1].later = true;
    wp_pools_undo(b.pools, &c.claim);
    replica_settle(&b);
    (void)wp_model_answer(&replica_store, 1);
    assert_int_equal(replica_claim(&a, &later, "c2"), WP_OK);
    assert_int_equal(later.claim.grant.fence, c.claim.grant.fence);
    replica_settle(&b);
    replica_store.ports[1].later = false;
    (void)wp_model_answer(&replica_store, 1);
    replica_settle_both(&a, &b);
    assert_int_equal(replica_stats(&b).leased, 1);
    assert_int_equal(replica_change(&b, &later, true, NULL), WP_OK);
    replica_close(&b);
    replica_close(&a);
}

/* Its client left, the store has not answered that the lease ends, and forgets
 * the grant. */
static void
a_sandbox_that_was_bound_is_told_as_ended(void **state)
{
    struct replica a;
    struct wp_rig_claim c;
    struct wp_lease_record told;
    uint32_t cursor = 0;

    (void)state;
    replica_open(&a, 0, 1, true);
    replica_settle(&a);
    assert_int_equal(replica_claim(&a, &c, "c1"), WP_OK);
    c.claim.bound = true;
    replica_store.ports[0].later = true;
    wp_pools_undo(a.pools, &c.claim);
    replica_settle(&a);
    assert_int_equal(
        wp_pools_known_records(a.pools, 0, false, &cursor, &told, 1), 1);
    assert_int_equal(told.state, WP_RECORD_ENDED);
    assert_string_equal(told.sandbox, c.claim.grant.sandbox);
    assert_int_equal(told.fence, c.claim.grant.fence);
    replica_store.ports[0].later = false;
    (void)wp_model_answer(&replica_store, 0);
    replica_settle(&a);
    assert_int_equal(replica_stats(&a).leased, 0);
    replica_close(&a);
}

/* A store forgets a grant that another replica has heard of, and gives its fence
 * to another claim. */
static void
of_two_claims_with_one_fence_the_store_s_counts(void **state)
{
    struct replica a;
    struct replica b;
    struct wp_rig_claim c;
    struct wp_lease_record record;
    struct wp_claim_info info;

    (void)state;
    replica_open(&a, 0, 2, true);
    replica_open(&b, 1, 2, false);
    replica_settle_both(&a, &b);
    assert_int_equal(replica_claim(&a, &c, "c1"), WP_OK);
    replica_settle_both(&a, &b);
    record = *wp_model_claimed(&replica_store, "c1");
    memcpy(record.claim_id, "c2", 2);
    record.deadline_wall_ms -= 1000;
    wp_pools_on_record(b.pools, &record);
    wp_pools_check(b.pools);
    assert_int_equal(wp_pools_get(b.pools, WP_STR(""), WP_STR("c1"), &info),
                     WP_NOT_FOUND);
    assert_int_equal(wp_pools_get(b.pools, WP_STR(""), WP_STR("c2"), &info),
                     WP_OK);
    assert_int_equal(info.deadline_wall_ms, record.deadline_wall_ms);
    replica_close(&b);
    replica_close(&a);
}

/* A claim was released elsewhere and made again, and nothing was heard of that
 * here: what the store says of it is the lease to tell of. */
static void
the_lease_that_a_claim_has_now_is_told(void **state)
{
    struct replica a;
    struct replica b;
    struct wp_rig_claim first;
    struct wp_rig_claim c;
    struct wp_lease_record told[2];
    uint32_t cursor = 0;

    (void)state;
    replica_open(&a, 0, 2, true);
    replica_open(&b, 1, 2, false);
    replica_settle_both(&a, &b);
    assert_int_equal(replica_claim(&a, &first, "c1"), WP_OK);
    replica_settle_both(&a, &b);
    assert_int_equal(replica_change(&a, &first, false, NULL), WP_OK);
    assert_int_equal(replica_claim(&a, &c, "c1"), WP_OK);
    replica_store.ports[1].n_feed = 0;
    assert_int_equal(replica_claim(&b, &c, "c1"), WP_OK);
    assert_string_not_equal(c.claim.grant.sandbox, first.claim.grant.sandbox);
    assert_int_equal(
        wp_pools_known_records(b.pools, 0, false, &cursor, told, 2), 1);
    assert_int_equal(told[0].state, WP_RECORD_HELD);
    assert_string_equal(told[0].sandbox, c.claim.grant.sandbox);
    replica_settle_both(&a, &b);
    assert_int_equal(replica_stats(&b).leased, 1);
    replica_close(&b);
    replica_close(&a);
}

/* The record becomes that of a lease on the other of two sandboxes, which is
 * idle. */
static void
lead_to_the_idle_one(struct wp_lease_record *record)
{
    for (uint32_t i = 0; i < 2; i++) {
        const struct wp_lease_record *other = &replica_store.records[i];

        if (other->state == WP_RECORD_OPEN) {
            memcpy(record->uid, other->uid, sizeof record->uid);
            memcpy(record->sandbox, other->sandbox, sizeof record->sandbox);
            record->fence = other->fence + 1;
        }
    }
}

/* b hears of two leases of one claim, in the wrong order: the earlier one, of
 * which it did not know, has no claim until the later one is over. */
static void
an_earlier_lease_is_told_once_the_later_is_over(void **state)
{
    struct replica a;
    struct replica b;
    struct wp_rig_claim c;
    struct wp_lease_record later;
    struct wp_lease_record earlier;
    struct wp_claim_info info;

    (void)state;
    replica_open(&a, 0, 2, true);
    replica_open(&b, 1, 2, false);
    replica_settle_both(&a, &b);
    assert_int_equal(replica_claim(&a, &c, "c1"), WP_OK);
    replica_settle_both(&a, &b);
    later = *wp_model_claimed(&replica_store, "c1");
    earlier = later;
    lead_to_the_idle_one(&earlier);
    assert_string_not_equal(earlier.sandbox, later.sandbox);
    earlier.granted_wall_ms--;
    wp_pools_on_record(b.pools, &earlier);
    assert_int_equal(replica_stats(&b).leased, 2);
    assert_int_equal(wp_pools_get(b.pools, WP_STR(""), WP_STR("c1"), &info),
                     WP_OK);
    assert_string_equal(info.sandbox, later.sandbox);
    later.state = WP_RECORD_ENDED;
    wp_pools_on_record(b.pools, &later);
    assert_int_equal(wp_pools_get(b.pools, WP_STR(""), WP_STR("c1"), &info),
                     WP_NOT_FOUND);
    wp_pools_on_record(b.pools, &earlier);
    assert_int_equal(wp_pools_get(b.pools, WP_STR(""), WP_STR("c1"), &info),
                     WP_OK);
    assert_string_equal(info.sandbox, earlier.sandbox);
    replica_close(&b);
    replica_close(&a);
}

/* It is lost where it was granted: who held it, or heard of nothing yet, is told
 * that and why. */
static void
what_was_lost_elsewhere_is_told_as_lost(void **state)
{
    struct replica a;
    struct replica b;
    struct wp_rig_claim c;
    struct wp_lease_record record;
    struct wp_claim_info info;

    (void)state;
    for (int heard = 0; heard < 2; heard++) {
        (void)replica_set_up_shared(state);
        replica_open(&a, 0, 1, true);
        replica_open(&b, 1, 1, false);
        replica_settle_both(&a, &b);
        assert_int_equal(replica_claim(&a, &c, "c1"), WP_OK);
        if (heard == 1) {
            replica_settle_both(&a, &b);
        }
        assert_int_equal(replica_stats(&b).leased, heard);
        record = *wp_model_claimed(&replica_store, "c1");
        record.state = WP_RECORD_LOST;
        (void)snprintf(record.lost_reason, sizeof record.lost_reason,
                       "its node died");
        wp_pools_on_record(b.pools, &record);
        assert_int_equal(wp_pools_get(b.pools, WP_STR(""), WP_STR("c1"), &info),
                         WP_OK);
        assert_true(info.lost);
        assert_string_equal(info.lost_reason, "its node died");
        /* The claim was made elsewhere, once. */
        assert_int_equal(wp_pools_at(b.pools, 0)->granted_elsewhere, 1);
        replica_close(&b);
        replica_close(&a);
    }
}

/* A claim has one lease: when b hears of its next one, the last, whose sandbox is
 * lost, is over. */
static void
the_lease_of_a_lost_sandbox_ends_with_the_next(void **state)
{
    struct replica a;
    struct replica b;
    struct wp_rig_claim c;
    struct wp_lease_record lost;
    struct wp_lease_record next;
    struct wp_claim_info info;

    (void)state;
    replica_open(&a, 0, 2, true);
    replica_open(&b, 1, 2, false);
    replica_settle_both(&a, &b);
    assert_int_equal(replica_claim(&a, &c, "c1"), WP_OK);
    replica_settle_both(&a, &b);
    lost = *wp_model_claimed(&replica_store, "c1");
    next = lost;
    lead_to_the_idle_one(&next);
    lost.state = WP_RECORD_LOST;
    wp_pools_on_record(b.pools, &lost);
    assert_int_equal(wp_pools_get(b.pools, WP_STR(""), WP_STR("c1"), &info),
                     WP_OK);
    assert_true(info.lost);
    next.granted_wall_ms++;
    wp_pools_on_record(b.pools, &next);
    assert_int_equal(replica_stats(&b).leased, 1);
    assert_int_equal(replica_stats(&b).dying, 1);
    assert_int_equal(wp_pools_get(b.pools, WP_STR(""), WP_STR("c1"), &info),
                     WP_OK);
    assert_false(info.lost);
    assert_string_equal(info.sandbox, next.sandbox);
    replica_close(&b);
    replica_close(&a);
}

/* The store forgets it while a claim is asked for, which is refused: it is not
 * told of, and nobody else could ever be granted it. */
static void
what_a_claim_had_for_a_moment_is_asked_for(void **state)
{
    struct replica a;
    struct wp_rig_claim c;
    uint8_t uid[WP_UID_LEN];
    struct wp_slot_ref ref;

    (void)state;
    replica_open(&a, 0, 1, true);
    replica_settle(&a);
    memcpy(uid, replica_store.records[0].uid, sizeof uid);
    replica_store.ports[0].later = true;
    wp_rig_claim_init(&c, "c1", "", 60 * WP_NS_PER_S, 0);
    assert_int_equal(wp_pools_claim(a.pools, &c.claim), WP_PENDING);
    replica_store.records[0].state = WP_RECORD_NONE;
    assert_int_equal(replica_records(&a, false, WP_RECORD_OPEN), 0);
    replica_store.ports[0].later = false;
    replica_store.ports[0].fault = WP_UNAVAILABLE;
    assert_int_equal(wp_model_answer(&replica_store, 0), 1);
    assert_int_equal(c.claim.status, WP_UNAVAILABLE);
    replica_store.ports[0].fault = WP_OK;
    replica_settle(&a);
    assert_false(wp_pools_seen(a.pools, uid, &ref));
    assert_int_equal(replica_stats(&a).ready, 1);
    assert_int_equal(wp_model_count(&replica_store, WP_RECORD_OPEN), 1);
    replica_close(&a);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_sync_lets_go_of_what_the_store_no_longer_has,
                               replica_set_up_shared),
        cmocka_unit_test_setup(a_replica_can_tell_what_the_store_had,
                               replica_set_up_shared),
        cmocka_unit_test_setup(what_is_given_up_may_be_held,
                               replica_set_up_shared),
        cmocka_unit_test_setup(what_another_gives_up_may_be_held,
                               replica_set_up_shared),
        cmocka_unit_test_setup(what_is_over_is_not_known,
                               replica_set_up_shared),
        cmocka_unit_test_setup(an_old_deadline_shortens_nothing,
                               replica_set_up_shared),
        cmocka_unit_test_setup(a_sandbox_that_was_bound_is_told_as_ended,
                               replica_set_up_shared),
        cmocka_unit_test_setup(of_two_claims_with_one_fence_the_store_s_counts,
                               replica_set_up_shared),
        cmocka_unit_test_setup(the_lease_that_a_claim_has_now_is_told,
                               replica_set_up_shared),
        cmocka_unit_test_setup(an_earlier_lease_is_told_once_the_later_is_over,
                               replica_set_up_shared),
        cmocka_unit_test_setup(the_lease_of_a_lost_sandbox_ends_with_the_next,
                               replica_set_up_shared),
        cmocka_unit_test_setup(what_was_lost_elsewhere_is_told_as_lost,
                               replica_set_up_shared),
        cmocka_unit_test_setup(what_a_claim_had_for_a_moment_is_asked_for,
                               replica_set_up_shared),
        cmocka_unit_test_setup(
            a_fence_that_the_store_gave_twice_is_the_later_claim_s,
            replica_set_up_shared),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
