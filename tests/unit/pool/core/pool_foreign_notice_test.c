/* tests/unit/pool/core/pool_foreign_notice_test.c - what a backend whose sandboxes
 * others see is told of their leases. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/support/pool/replica_rig.h"

#define S WP_NS_PER_S

static void
the_backend_is_told_of_each_lease_behind_its_answer(void **state)
{
    struct wp_rig rig;
    struct wp_rig_claim c;

    (void)state;
    wp_rig_init_foreign(&rig, 16, 2, NULL);
    assert_int_equal(rig.backend.notices, 0);
    assert_int_equal(wp_rig_claim_lasting(&rig, &c, "a"), WP_OK);
    assert_int_equal(rig.backend.notices, 0);
    wp_rig_settle(&rig);
    assert_int_equal(rig.backend.notices, 1);
    assert_true(wp_slot_ref_eq(rig.backend.notice.ref, c.claim.grant.ref));
    assert_string_equal(rig.backend.notice.claim_id, "a");
    assert_string_equal(rig.backend.notice.tenant, "system:t");
    assert_string_equal(rig.backend.notice.pool, "p");
    assert_string_equal(rig.backend.notice.sandbox, c.claim.grant.sandbox);
    assert_int_equal(rig.backend.notice.fence, c.claim.grant.fence);
    assert_int_equal(rig.backend.notice.deadline_wall_ms, WP_WALL_NEVER_MS);
    /* Once for each lease, until it becomes the keeper again. */
    assert_int_equal(wp_rig_renew(&rig, &c, 10 * S), WP_OK);
    wp_rig_settle(&rig);
    assert_int_equal(rig.backend.notices, 1);
    wp_pools_set_keeper(rig.pools, false);
    wp_rig_settle(&rig);
    assert_int_equal(rig.backend.notices, 1);
    wp_pools_set_keeper(rig.pools, true);
    wp_rig_settle(&rig);
    assert_int_equal(rig.backend.notices, 2);
    wp_rig_fini(&rig);
}

static uint32_t
notices_after_a_renewal(struct wp_rig *rig, const struct wp_rig_claim *c)
{
    assert_int_equal(wp_rig_renew(rig, c, 10 * S), WP_OK);
    wp_rig_settle(rig);
    return rig->backend.notices;
}

/* A store that outlives the daemon has the new deadline: the backend needs it
 * only where it keeps what is in use. */
static void
a_new_deadline_is_told_where_the_backend_needs_it(void **state)
{
    struct wp_pool_spec spec;
    struct wp_rig rig;
    struct wp_rig_claim c;
    struct replica r;

    (void)state;
    wp_rig_init_foreign(&rig, 16, 1, NULL);
    wp_rig_claim_init(&c, "a", "", 5 * S, 0);
    assert_int_equal(wp_rig_claim(&rig, &c), WP_OK);
    wp_rig_settle(&rig);
    assert_int_equal(rig.backend.notices, 1);
    assert_int_equal(notices_after_a_renewal(&rig, &c), 2);
    assert_int_equal(notices_after_a_renewal(&rig, &c), 2);
    wp_rig_fini(&rig);
    for (int keep = 0; keep < 2; keep++) {
        assert_int_equal(replica_set_up(state), 0);
        replica_open(&r, 0, 1, true);
        spec = replica_stats(&r).spec;
        spec.hold_max_ns = keep * 100 * S;
        assert_int_equal(wp_pools_update(r.pools, 0, &spec, NULL), WP_OK);
        replica_settle(&r);
        assert_int_equal(replica_claim(&r, &c, "c1"), WP_OK);
        replica_settle(&r);
        assert_int_equal(r.backend.notices, 1);
        assert_int_equal(r.backend.notice.keep, keep);
        assert_int_equal(replica_change(&r, &c, true, NULL), WP_OK);
        replica_settle(&r);
        assert_int_equal(r.backend.notices, 1 + keep);
        replica_close(&r);
    }
}

static void
a_lease_after_an_undo_is_told_too(void **state)
{
    struct wp_rig rig;
    struct wp_rig_claim c;

    (void)state;
    wp_rig_init_foreign(&rig, 16, 1, NULL);
    assert_int_equal(wp_rig_claim_lasting(&rig, &c, "a"), WP_OK);
    wp_rig_settle(&rig);
    wp_pools_undo(rig.pools, &c.claim);
    wp_rig_settle(&rig);
    assert_int_equal(wp_rig_claim_lasting(&rig, &c, "b"), WP_OK);
    wp_rig_settle(&rig);
    assert_int_equal(rig.backend.notices, 2);
    assert_string_equal(rig.backend.notice.claim_id, "b");
    assert_int_equal(rig.backend.notice.fence, 2);
    wp_rig_fini(&rig);
}

static void
the_keeper_is_told_of_leases_of_others(void **state)
{
    struct replica a;
    struct replica b;
    struct replica c;
    struct wp_rig_claim claim;

    (void)state;
    replica_open(&a, 0, 2, true);
    replica_open(&b, 1, 2, false);
    replica_settle_both(&a, &b);
    assert_int_equal(replica_claim(&b, &claim, "c1"), WP_OK);
    replica_settle_both(&a, &b);
    assert_int_equal(a.backend.notices, 1);
    assert_int_equal(b.backend.notices, 0);
    assert_string_equal(a.backend.notice.claim_id, "c1");
    assert_int_equal(a.backend.notice.fence, claim.claim.grant.fence);
    replica_close(&b);
    replica_close(&a);
    /* And of those that its predecessor left. */
    replica_open(&c, 0, 2, true);
    replica_adopt_all(&c, 0);
    replica_settle(&c);
    assert_int_equal(c.backend.notices, 1);
    assert_string_equal(c.backend.notice.sandbox, claim.claim.grant.sandbox);
    replica_close(&c);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_backend_is_told_of_each_lease_behind_its_answer),
        cmocka_unit_test(a_new_deadline_is_told_where_the_backend_needs_it),
        cmocka_unit_test(a_lease_after_an_undo_is_told_too),
        cmocka_unit_test_setup(the_keeper_is_told_of_leases_of_others,
                               replica_set_up_shared),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
