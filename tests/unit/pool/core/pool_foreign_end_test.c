/* tests/unit/pool/core/pool_foreign_end_test.c - leases without a deadline, and leases
 * that somebody else ends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/support/pool/replica_rig.h"

#define S WP_NS_PER_S
#define YEAR (365 * 24 * 3600 * S)

static void
a_lasting_lease_never_expires(void **state)
{
    struct wp_rig rig;
    struct wp_rig_claim c;
    bool was_held;

    (void)state;
    wp_rig_init(&rig, 16, 2, NULL);
    assert_int_equal(wp_rig_claim_lasting(&rig, &c, "a"), WP_OK);
    assert_true(c.claim.grant.deadline_ns == WP_TIME_NEVER);
    assert_int_equal(c.claim.grant.deadline_wall_ms, WP_WALL_NEVER_MS);
    wp_rig_advance(&rig, 20 * YEAR);
    assert_int_equal(wp_rig_stats(&rig).leased, 1);
    assert_true(rig.next_run_ns > rig.clock.now_mono_ns + YEAR);
    /* A renewal leaves it as it is. */
    assert_int_equal(wp_rig_renew(&rig, &c, 10 * S), WP_OK);
    wp_rig_advance(&rig, YEAR);
    assert_int_equal(wp_rig_stats(&rig).leased, 1);
    assert_int_equal(wp_rig_release(&rig, &c, &was_held), WP_OK);
    assert_true(was_held);
    wp_rig_settle(&rig);
    assert_int_equal(wp_rig_stats(&rig).leased, 0);
    assert_int_equal(wp_rig_stats(&rig).destroyed_total, 1);
    wp_rig_fini(&rig);
}

static void
a_repeat_must_be_lasting_too(void **state)
{
    struct wp_rig rig;
    struct wp_rig_claim c;
    struct wp_rig_claim again;

    (void)state;
    wp_rig_init(&rig, 16, 2, NULL);
    assert_int_equal(wp_rig_claim_lasting(&rig, &c, "a"), WP_OK);
    assert_int_equal(wp_rig_claim_lasting(&rig, &again, "a"), WP_OK);
    assert_true(again.claim.replayed);
    assert_string_equal(again.claim.grant.sandbox, c.claim.grant.sandbox);
    wp_rig_claim_init(&again, "a", "system:t", 10 * S, 0);
    assert_int_equal(wp_rig_claim(&rig, &again), WP_ALREADY_EXISTS);
    wp_rig_fini(&rig);
}

static void
a_lasting_lease_is_restored_as_one(void **state)
{
    struct replica a;
    struct replica b;
    struct wp_rig_claim c;
    struct wp_claim_info info;

    (void)state;
    replica_open(&a, 0, 2, true);
    replica_settle(&a);
    wp_rig_claim_init(&c, "kept", "", 0, 0);
    c.claim.lasting = true;
    assert_int_equal(wp_pools_claim(a.pools, &c.claim), WP_OK);
    assert_int_equal(wp_model_claimed(&replica_store, "kept")->deadline_wall_ms,
                     WP_WALL_NEVER_MS);
    replica_close(&a);
    replica_open(&b, 0, 2, true);
    replica_adopt_all(&b, 0);
    replica_settle(&b);
    wp_clock_manual_advance(&replica_clock, 20 * YEAR);
    replica_settle(&b);
    assert_int_equal(replica_stats(&b).leased, 1);
    assert_int_equal(wp_pools_get(b.pools, WP_STR(""), WP_STR("kept"), &info),
                     WP_OK);
    assert_int_equal(info.deadline_wall_ms, WP_WALL_NEVER_MS);
    wp_pools_end(b.pools, info.ref);
    replica_settle(&b);
    assert_int_equal(replica_stats(&b).leased, 0);
    assert_null(wp_model_claimed(&replica_store, "kept"));
    replica_close(&b);
}

static void
an_end_is_a_release(void **state)
{
    struct wp_rig rig;
    struct wp_rig_claim c;

    (void)state;
    wp_rig_init(&rig, 16, 2, NULL);
    assert_int_equal(wp_rig_claim_lasting(&rig, &c, "a"), WP_OK);
    wp_pools_end(rig.pools, c.claim.grant.ref);
    wp_pools_end(rig.pools, c.claim.grant.ref);
    wp_rig_settle(&rig);
    assert_int_equal(wp_rig_stats(&rig).leased, 0);
    assert_int_equal(wp_rig_stats(&rig).destroyed_total, 1);
    assert_int_equal(wp_rig_stats(&rig).released_total, 1);
    assert_int_equal(wp_rig_stats(&rig).expired_total, 0);
    assert_int_equal(wp_rig_renew(&rig, &c, 10 * S), WP_NOT_FOUND);
    /* The slot's next life is not meant. */
    wp_pools_end(rig.pools, c.claim.grant.ref);
    assert_int_equal(wp_rig_claim_lasting(&rig, &c, "a"), WP_OK);
    assert_int_equal(wp_rig_claim_lasting(&rig, &c, "b"), WP_OK);
    wp_rig_settle(&rig);
    assert_int_equal(wp_rig_stats(&rig).leased, 2);
    wp_rig_fini(&rig);
}

static void
an_end_leaves_idle_and_unknown_ones_alone(void **state)
{
    struct wp_rig rig;

    (void)state;
    wp_rig_init(&rig, 4, 3, NULL);
    for (uint32_t i = 0; i < 6; i++) {
        wp_pools_end(rig.pools, (struct wp_slot_ref){i, 1});
    }
    wp_pools_end(rig.pools, WP_SLOT_REF_NONE);
    wp_rig_settle(&rig);
    assert_int_equal(wp_rig_stats(&rig).ready, 3);
    assert_int_equal(wp_rig_stats(&rig).created_total, 3);
    wp_rig_fini(&rig);
}

static void
an_end_of_a_lost_lease_frees_it(void **state)
{
    struct wp_rig rig;
    struct wp_rig_claim c;

    (void)state;
    wp_rig_init(&rig, 16, 2, NULL);
    assert_int_equal(wp_rig_claim_lasting(&rig, &c, "a"), WP_OK);
    assert_true(
        wp_fake_backend_lose(&rig.backend, c.claim.grant.ref, "it died"));
    wp_rig_settle(&rig);
    assert_int_equal(wp_rig_stats(&rig).leased, 1);
    wp_pools_end(rig.pools, c.claim.grant.ref);
    wp_rig_settle(&rig);
    assert_int_equal(wp_rig_stats(&rig).leased, 0);
    assert_int_equal(wp_rig_stats(&rig).destroyed_total, 1);
    wp_rig_fini(&rig);
}

static void
an_end_waits_for_the_store(void **state)
{
    struct replica a;
    struct wp_rig_claim c;

    (void)state;
    replica_open(&a, 0, 2, true);
    replica_settle(&a);
    assert_int_equal(replica_claim(&a, &c, "c1"), WP_OK);
    replica_settle(&a);
    replica_store.ports[0].fault = WP_UNAVAILABLE;
    wp_pools_end(a.pools, c.claim.grant.ref);
    replica_settle(&a);
    assert_int_equal(replica_stats(&a).leased, 1);
    replica_store.ports[0].fault = WP_OK;
    wp_clock_manual_advance(&replica_clock, S);
    replica_settle(&a);
    assert_int_equal(replica_stats(&a).leased, 0);
    assert_null(wp_model_claimed(&replica_store, "c1"));
    replica_close(&a);
}

static void
a_follower_ends_a_lease_too(void **state)
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
    wp_pools_end(b.pools, c.claim.grant.ref);
    replica_settle_both(&a, &b);
    assert_int_equal(replica_stats(&a).leased, 0);
    assert_int_equal(replica_stats(&b).leased, 0);
    assert_int_equal(wp_fake_backend_counts(&a.backend).live, 2);
    replica_close(&b);
    replica_close(&a);
}

static void
an_end_beats_an_undo(void **state)
{
    struct wp_rig rig;
    struct wp_rig_claim c;

    (void)state;
    wp_rig_init(&rig, 16, 2, NULL);
    assert_int_equal(wp_rig_claim_lasting(&rig, &c, "a"), WP_OK);
    wp_pools_undo(rig.pools, &c.claim);
    wp_pools_end(rig.pools, c.claim.grant.ref);
    wp_rig_settle(&rig);
    assert_int_equal(wp_rig_stats(&rig).leased, 0);
    assert_int_equal(wp_rig_stats(&rig).destroyed_total, 1);
    wp_rig_fini(&rig);
}

static void
an_end_that_comes_after_the_undo_does_not_hit_the_next_lease(void **state)
{
    struct wp_rig rig;
    struct wp_rig_claim c;
    struct wp_slot_ref ref;

    (void)state;
    wp_rig_init(&rig, 16, 1, NULL);
    assert_int_equal(wp_rig_claim_lasting(&rig, &c, "a"), WP_OK);
    ref = c.claim.grant.ref;
    /* The undo is on its way to the store when the end comes. */
    rig.store_later = true;
    wp_pools_undo(rig.pools, &c.claim);
    (void)wp_pools_run(rig.pools);
    assert_int_equal(rig.store_kept, 1);
    wp_pools_end(rig.pools, ref);
    rig.store_later = false;
    (void)wp_rig_store_answer(&rig, WP_OK);
    assert_int_equal(wp_rig_claim_lasting(&rig, &c, "b"), WP_OK);
    assert_int_equal(c.claim.grant.ref.index, ref.index);
    assert_int_equal(c.claim.grant.ref.generation, ref.generation);
    wp_rig_settle(&rig);
    assert_int_equal(wp_rig_stats(&rig).leased, 1);
    wp_rig_fini(&rig);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lasting_lease_never_expires),
        cmocka_unit_test(a_repeat_must_be_lasting_too),
        cmocka_unit_test_setup(a_lasting_lease_is_restored_as_one,
                               replica_set_up),
        cmocka_unit_test(an_end_is_a_release),
        cmocka_unit_test(an_end_leaves_idle_and_unknown_ones_alone),
        cmocka_unit_test(an_end_of_a_lost_lease_frees_it),
        cmocka_unit_test_setup(an_end_waits_for_the_store, replica_set_up),
        cmocka_unit_test_setup(a_follower_ends_a_lease_too,
                               replica_set_up_shared),
        cmocka_unit_test(an_end_beats_an_undo),
        cmocka_unit_test(
            an_end_that_comes_after_the_undo_does_not_hit_the_next_lease),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
