/* tests/unit/pool/core/pool_hold_test.c - leases that use or a hold prolongs:
 * by how much, up to where, and what the backend hears of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "tests/support/pool/pool_rig.h"

#define S WP_NS_PER_S

/* Leases of 20 s at most, held for 100 s. */
static void
begin(struct wp_rig *rig, struct wp_rig_claim *a, int64_t hold_max_ns)
{
    struct wp_pool_spec spec;

    wp_pool_spec_init(&spec);
    spec.ttl_default_ns = 10 * S;
    spec.ttl_max_ns = 20 * S;
    spec.hold_max_ns = hold_max_ns;
    wp_rig_init(rig, 16, 1, &spec);
    wp_rig_claim_init(a, "a", "", 10 * S, 0);
    assert_int_equal(wp_rig_claim(rig, a), WP_OK);
    wp_rig_settle(rig);
}

static enum wp_status
hold(struct wp_rig *rig, const struct wp_rig_claim *a, int64_t ttl_ns,
     struct wp_lease_change *change)
{
    memset(change, 0, sizeof *change);
    memcpy(change->token, a->claim.grant.token, sizeof change->token);
    change->ttl_ns = ttl_ns;
    change->hold = true;
    return wp_pools_renew(rig->pools, change);
}

static enum wp_status
keep(struct wp_rig *rig, const struct wp_rig_claim *a, int64_t ttl_ns,
     struct wp_lease_change *change)
{
    memset(change, 0, sizeof *change);
    change->ttl_ns = ttl_ns;
    return wp_pools_keep(rig->pools, change, a->claim.grant.ref);
}

static void
a_hold_goes_beyond_the_longest_lease_up_to_its_end(void **state)
{
    struct wp_lease_change change;
    struct wp_rig_claim a;
    struct wp_rig rig;

    (void)state;
    begin(&rig, &a, 100 * S);
    assert_int_equal(wp_rig_renew(&rig, &a, 30 * S), WP_INVALID_ARGUMENT);
    assert_int_equal(hold(&rig, &a, 50 * S, &change), WP_OK);
    wp_rig_advance(&rig, 45 * S);
    assert_int_equal(wp_rig_stats(&rig).leased, 1);
    /* Counted from the grant on, however often it is held. */
    assert_int_equal(hold(&rig, &a, 60 * S, &change), WP_INVALID_ARGUMENT);
    assert_int_equal(change.ttl_max_ns, 55 * S);
    assert_int_equal(hold(&rig, &a, 0, &change), WP_OK);
    wp_rig_advance(&rig, 54 * S);
    assert_int_equal(wp_rig_stats(&rig).leased, 1);
    /* Who is there may renew it all the same. */
    assert_int_equal(wp_rig_renew(&rig, &a, 20 * S), WP_OK);
    wp_rig_advance(&rig, 10 * S);
    assert_int_equal(hold(&rig, &a, 0, &change), WP_FAILED_PRECONDITION);
    assert_non_null(strstr(change.reason, "hold-max"));
    assert_int_equal(wp_rig_stats(&rig).leased, 1);
    wp_rig_advance(&rig, 11 * S);
    assert_int_equal(wp_rig_stats(&rig).expired_total, 1);
    assert_int_equal(hold(&rig, &a, 0, &change), WP_NOT_FOUND);
    wp_rig_fini(&rig);
}

static void
use_keeps_a_lease_up_to_the_same_end(void **state)
{
    struct wp_lease_change change;
    struct wp_rig_claim a;
    struct wp_rig rig;

    (void)state;
    begin(&rig, &a, 100 * S);
    for (int i = 0; i < 12; i++) {
        wp_rig_advance(&rig, 8 * S);
        assert_int_equal(wp_rig_stats(&rig).leased, 1);
        assert_int_equal(keep(&rig, &a, 10 * S, &change), WP_OK);
    }
    /* 96 s: it was prolonged to 100 s only. */
    wp_rig_advance(&rig, 3 * S);
    assert_int_equal(wp_rig_stats(&rig).leased, 1);
    wp_rig_advance(&rig, 2 * S);
    assert_int_equal(wp_rig_stats(&rig).leased, 0);
    assert_int_equal(wp_rig_stats(&rig).expired_total, 1);
    assert_int_equal(keep(&rig, &a, 10 * S, &change), WP_NOT_FOUND);
    wp_rig_fini(&rig);
}

static void
use_shortens_no_lease(void **state)
{
    struct wp_lease_change change;
    struct wp_rig_claim a;
    struct wp_rig rig;
    uint32_t commits;

    (void)state;
    begin(&rig, &a, 100 * S);
    commits = rig.store_commits;
    assert_int_equal(keep(&rig, &a, 5 * S, &change), WP_OK);
    assert_int_equal(rig.store_commits, commits);
    wp_rig_advance(&rig, 9 * S);
    assert_int_equal(wp_rig_stats(&rig).leased, 1);
    assert_int_equal(wp_rig_release(&rig, &a, NULL), WP_OK);
    assert_int_equal(keep(&rig, &a, 5 * S, &change), WP_NOT_FOUND);
    wp_rig_fini(&rig);
}

static void
a_pool_that_holds_none_says_so(void **state)
{
    struct wp_lease_change change;
    struct wp_rig_claim a;
    struct wp_rig rig;

    (void)state;
    begin(&rig, &a, 0);
    assert_int_equal(hold(&rig, &a, 5 * S, &change), WP_FAILED_PRECONDITION);
    assert_non_null(strstr(change.reason, "pool.warmpool.io/hold-max"));
    assert_int_equal(keep(&rig, &a, 15 * S, &change), WP_FAILED_PRECONDITION);
    wp_rig_advance(&rig, 11 * S);
    assert_int_equal(wp_rig_stats(&rig).leased, 0);
    wp_rig_fini(&rig);
}

static void
a_lease_without_a_deadline_stays_so(void **state)
{
    struct wp_lease_change change;
    struct wp_pool_spec spec;
    struct wp_rig_claim a;
    struct wp_rig rig;

    (void)state;
    wp_pool_spec_init(&spec);
    spec.hold_max_ns = 100 * S;
    wp_rig_init(&rig, 16, 1, &spec);
    assert_int_equal(wp_rig_claim_lasting(&rig, &a, "a"), WP_OK);
    wp_rig_settle(&rig);
    assert_int_equal(keep(&rig, &a, 10 * S, &change), WP_OK);
    assert_int_equal(hold(&rig, &a, 10 * S, &change), WP_OK);
    assert_int_equal(change.deadline_wall_ms, WP_WALL_NEVER_MS);
    wp_rig_advance(&rig, 1000 * S);
    assert_int_equal(wp_rig_stats(&rig).leased, 1);
    wp_rig_fini(&rig);
}

/* One whose sandboxes nobody else sees hears of pools only that want it. */
static void
the_backend_hears_what_it_needs(void **state)
{
    struct wp_lease_change change;
    struct wp_pool_spec spec;
    struct wp_rig_claim a;
    struct wp_rig rig;

    (void)state;
    begin(&rig, &a, 0);
    assert_int_equal(rig.backend.notices, 0);
    wp_rig_fini(&rig);

    begin(&rig, &a, 100 * S);
    assert_int_equal(rig.backend.notices, 1);
    assert_true(rig.backend.notice.keep);
    assert_int_equal(rig.backend.notice.freeze_after_ns, 0);
    assert_int_equal(rig.backend.notice.deadline_wall_ms,
                     a.claim.grant.deadline_wall_ms);
    /* And of each new deadline, since it is to be looked at before that. */
    wp_rig_advance(&rig, S);
    assert_int_equal(keep(&rig, &a, 10 * S, &change), WP_OK);
    wp_rig_settle(&rig);
    assert_int_equal(rig.backend.notices, 2);
    assert_int_equal(rig.backend.notice.deadline_wall_ms,
                     change.deadline_wall_ms);
    wp_rig_fini(&rig);

    wp_pool_spec_init(&spec);
    spec.freeze_after_ns = 3 * S;
    wp_rig_init(&rig, 16, 1, &spec);
    wp_rig_claim_init(&a, "a", "", 10 * S, 0);
    assert_int_equal(wp_rig_claim(&rig, &a), WP_OK);
    wp_rig_settle(&rig);
    assert_int_equal(rig.backend.notices, 1);
    assert_false(rig.backend.notice.keep);
    assert_int_equal(rig.backend.notice.freeze_after_ns, 3 * S);
    wp_rig_fini(&rig);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_hold_goes_beyond_the_longest_lease_up_to_its_end),
        cmocka_unit_test(use_keeps_a_lease_up_to_the_same_end),
        cmocka_unit_test(use_shortens_no_lease),
        cmocka_unit_test(a_pool_that_holds_none_says_so),
        cmocka_unit_test(a_lease_without_a_deadline_stays_so),
        cmocka_unit_test(the_backend_hears_what_it_needs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
