/* tests/unit/pool/core/pool_foreign_retire_test.c - sandboxes that somebody else gives
 * up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/support/pool/replica_rig.h"

#define S WP_NS_PER_S

static void
a_retired_sandbox_is_replaced_and_is_no_failure(void **state)
{
    struct wp_rig rig;
    struct wp_slot_ref ref;

    (void)state;
    wp_rig_init(&rig, 16, 2, NULL);
    for (uint32_t i = 0; i < 12; i++) {
        struct wp_rig_claim c;

        wp_rig_claim_init(&c, "peek", "", 10 * S, 0);
        assert_int_equal(wp_rig_claim(&rig, &c), WP_OK);
        ref = c.claim.grant.ref;
        wp_pools_undo(rig.pools, &c.claim);
        wp_rig_settle(&rig);
        wp_pools_retire(rig.pools, ref, WP_STR("an old template"));
        wp_pools_retire(rig.pools, ref, WP_STR("an old template"));
        wp_rig_settle(&rig);
    }
    assert_int_equal(wp_rig_stats(&rig).retired_total, 12);
    assert_int_equal(wp_rig_stats(&rig).lost_total, 0);
    assert_int_equal(wp_rig_stats(&rig).failed_total, 0);
    assert_int_equal(wp_rig_stats(&rig).ready, 2);
    assert_int_equal(wp_rig_stats(&rig).destroyed_total, 12);
    assert_false(wp_rig_stats(&rig).breaker_open);
    assert_string_equal(wp_rig_stats(&rig).last_retired, "an old template");
    assert_string_equal(wp_rig_stats(&rig).last_failure, "");
    wp_rig_fini(&rig);
}

static void
a_warming_sandbox_can_be_retired(void **state)
{
    struct wp_rig rig;
    struct wp_pool_stats stats;

    (void)state;
    wp_rig_init(&rig, 16, 0, NULL);
    rig.backend.ready = WP_FAKE_READY_TOLD;
    assert_int_equal(wp_pools_set_target(rig.pools, 0, 1, NULL), WP_OK);
    wp_rig_settle(&rig);
    wp_pools_retire(rig.pools, (struct wp_slot_ref){0, 1}, WP_STR("stuck"));
    wp_rig_settle(&rig);
    stats = wp_rig_stats(&rig);
    assert_int_equal(stats.retired_total, 1);
    assert_int_equal(stats.failed_total, 0);
    assert_int_equal(stats.warming, 1);
    assert_int_equal(stats.destroyed_total, 1);
    wp_rig_fini(&rig);
}

static void
a_leased_sandbox_is_never_retired(void **state)
{
    struct wp_rig rig;
    struct wp_rig_claim c;

    (void)state;
    wp_rig_init(&rig, 16, 2, NULL);
    assert_int_equal(wp_rig_claim_lasting(&rig, &c, "a"), WP_OK);
    wp_pools_retire(rig.pools, c.claim.grant.ref, WP_STR("old"));
    wp_pools_retire(rig.pools, WP_SLOT_REF_NONE, WP_STR("old"));
    wp_rig_settle(&rig);
    assert_int_equal(wp_rig_stats(&rig).leased, 1);
    assert_int_equal(wp_rig_stats(&rig).retired_total, 0);
    wp_rig_fini(&rig);
}

static struct wp_slot_ref
ref_of_a_ready_one(struct replica *r)
{
    for (uint32_t i = 0; i < WP_MODEL_RECORDS; i++) {
        struct wp_slot_ref ref;

        if (replica_store.records[i].state == WP_RECORD_OPEN &&
            wp_pools_seen(r->pools, replica_store.records[i].uid, &ref)) {
            return ref;
        }
    }
    return WP_SLOT_REF_NONE;
}

static void
a_retirement_asks_a_shared_store_first(void **state)
{
    struct replica a;
    struct replica b;
    struct wp_rig_claim c;
    struct wp_slot_ref ref;

    (void)state;
    replica_open(&a, 0, 1, true);
    replica_open(&b, 1, 1, false);
    replica_settle_both(&a, &b);
    ref = ref_of_a_ready_one(&a);
    /* b grants it, and a has not heard of that. */
    assert_int_equal(replica_claim(&b, &c, "c1"), WP_OK);
    wp_pools_retire(a.pools, ref, WP_STR("old"));
    replica_settle_both(&a, &b);
    assert_int_equal(replica_stats(&a).leased, 1);
    assert_int_equal(replica_stats(&a).ready, 1);
    ref = ref_of_a_ready_one(&a);
    wp_pools_retire(a.pools, ref, WP_STR("old"));
    replica_settle_both(&a, &b);
    assert_int_equal(replica_stats(&a).ready, 1);
    assert_int_equal(wp_fake_backend_counts(&a.backend).destroyed, 1);
    assert_int_equal(wp_model_count(&replica_store, WP_RECORD_OPEN), 1);
    assert_int_equal(wp_model_count(&replica_store, WP_RECORD_ENDED), 0);
    replica_close(&b);
    replica_close(&a);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_retired_sandbox_is_replaced_and_is_no_failure),
        cmocka_unit_test(a_warming_sandbox_can_be_retired),
        cmocka_unit_test(a_leased_sandbox_is_never_retired),
        cmocka_unit_test_setup(a_retirement_asks_a_shared_store_first,
                               replica_set_up_shared),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
