/* tests/unit/pool/core/pool_store_test.c - a lease store that is away, answers late, or
 * leaves its outcome unknown. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/support/pool/pool_rig.h"

#define S WP_NS_PER_S

static void
unreachable_store_grants_nothing_and_drops_nothing(void **state)
{
    struct wp_rig rig;
    struct wp_rig_claim a;
    struct wp_rig_claim b;

    (void)state;
    wp_rig_init(&rig, 16, 2, NULL);
    wp_rig_claim_init(&a, "a", "", 10 * S, 0);
    assert_int_equal(wp_rig_claim(&rig, &a), WP_OK);
    wp_rig_settle(&rig);
    rig.store_status = WP_UNAVAILABLE;
    wp_rig_claim_init(&b, "b", "", 0, 0);
    assert_int_equal(wp_rig_claim(&rig, &b), WP_UNAVAILABLE);
    assert_int_equal(wp_rig_stats(&rig).ready, 2);
    assert_int_equal(wp_rig_release(&rig, &a, NULL), WP_UNAVAILABLE);
    wp_rig_advance(&rig, 60 * S);
    /* Expired, but the store does not know: still held. */
    assert_int_equal(wp_rig_stats(&rig).leased, 1);
    rig.store_status = WP_OK;
    wp_rig_advance(&rig, S);
    assert_int_equal(wp_rig_stats(&rig).leased, 0);
    wp_rig_fini(&rig);
}

static void
unknown_outcome_is_quarantined_until_the_lease_is_over(void **state)
{
    struct wp_rig rig;
    struct wp_rig_claim a;
    struct wp_rig_claim b;

    (void)state;
    wp_rig_init(&rig, 16, 1, NULL);
    rig.store_status = WP_UNKNOWN_OUTCOME;
    wp_rig_claim_init(&a, "a", "", 10 * S, 0);
    assert_int_equal(wp_rig_claim(&rig, &a), WP_UNAVAILABLE);
    assert_int_equal(wp_rig_stats(&rig).quarantined, 1);
    rig.store_status = WP_OK;
    wp_rig_settle(&rig);
    wp_rig_claim_init(&b, "b", "", 60 * S, 0);
    assert_int_equal(wp_rig_claim(&rig, &b), WP_OK);
    wp_rig_advance(&rig, 9 * S);
    assert_int_equal(wp_rig_stats(&rig).quarantined, 1);
    wp_rig_advance(&rig, 2 * S);
    assert_int_equal(wp_rig_stats(&rig).quarantined, 0);
    assert_int_equal(wp_rig_stats(&rig).leased, 1);
    wp_rig_fini(&rig);
}

static void
store_that_answers_later(void **state)
{
    struct wp_rig rig;
    struct wp_rig_claim a;
    struct wp_rig_claim again;
    struct wp_rig_claim b;

    (void)state;
    wp_rig_init(&rig, 16, 3, NULL);
    rig.store_later = true;
    wp_rig_claim_init(&a, "a", "", 10 * S, 0);
    assert_int_equal(wp_rig_claim(&rig, &a), WP_PENDING);
    wp_rig_claim_init(&again, "a", "", 10 * S, 0);
    assert_int_equal(wp_rig_claim(&rig, &again), WP_PENDING);
    assert_false(wp_pools_cancel(rig.pools, &a.claim));
    assert_int_equal(wp_rig_store_answer(&rig, WP_OK), 1);
    assert_int_equal(a.answers, 1);
    assert_int_equal(again.answers, 1);
    assert_true(again.claim.replayed);
    /* Taken by another replica: the next sandbox is tried. */
    wp_rig_claim_init(&b, "b", "", 10 * S, 0);
    assert_int_equal(wp_rig_claim(&rig, &b), WP_PENDING);
    assert_int_equal(wp_rig_store_answer(&rig, WP_TAKEN), 1);
    assert_int_equal(b.answers, 0);
    assert_int_equal(wp_rig_store_answer(&rig, WP_OK), 1);
    assert_int_equal(b.answers, 1);
    assert_int_equal(b.claim.status, WP_OK);
    rig.store_later = false;
    wp_rig_fini(&rig);
}

static void
sandbox_that_dies_while_being_claimed_is_not_granted(void **state)
{
    struct wp_rig rig;
    struct wp_rig_claim a;
    struct wp_slot_ref dead;

    (void)state;
    wp_rig_init(&rig, 16, 2, NULL);
    rig.store_later = true;
    wp_rig_claim_init(&a, "a", "", 10 * S, 0);
    assert_int_equal(wp_rig_claim(&rig, &a), WP_PENDING);
    dead = wp_lease_op_of(rig.store_ops)->ref;
    assert_true(wp_fake_backend_lose(&rig.backend, dead, "killed"));
    assert_int_equal(wp_rig_store_answer(&rig, WP_OK), 1);
    assert_int_equal(a.answers, 0);
    assert_int_equal(wp_rig_store_answer(&rig, WP_OK), 1);
    assert_int_equal(a.answers, 1);
    assert_false(wp_slot_ref_eq(a.claim.grant.ref, dead));
    rig.store_later = false;
    wp_rig_settle(&rig);
    assert_int_equal(wp_rig_stats(&rig).leased, 1);
    wp_rig_fini(&rig);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unreachable_store_grants_nothing_and_drops_nothing),
        cmocka_unit_test(
            unknown_outcome_is_quarantined_until_the_lease_is_over),
        cmocka_unit_test(store_that_answers_later),
        cmocka_unit_test(sandbox_that_dies_while_being_claimed_is_not_granted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
