/* tests/unit/pool/core/claim_path_test.c - nothing on the way of a warm claim allocates,
 * locks or enters the kernel.
 *
 * A tenant's first claim of a pool opens its account, under a lock: it is none of
 * these. See tests/support/base/call_counts.h. That the counters count is tested too: making
 * the pools allocates, and a claim that finds nothing takes a lock. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "bench/micro/pool_rig.h"
#include "tests/support/base/call_counts.h"

enum {
    CLAIMS = 2000,
    READY = 2100,
};

static void
assert_untouched(void)
{
    assert_int_equal(wp_call_counts_allocations(), 0);
    assert_int_equal(wp_call_counts_locks(), 0);
    assert_int_equal(wp_call_counts_kernel(), 0);
}

static struct wp_pool_rig rig;
static struct wp_pool_rig_claim claims[CLAIMS];

static int
setup(void **state)
{
    (void)state;
    wp_call_counts_reset();
    wp_pool_rig_init(&rig, READY, READY * 2, true);
    for (int i = 0; i < CLAIMS; i++) {
        wp_pool_rig_fill(&rig, &claims[i]);
    }
    return 0;
}

static int
teardown(void **state)
{
    (void)state;
    wp_pool_rig_fini(&rig);
    return 0;
}

static void
assert_warm_claims_touch_nothing(int from)
{
    uint64_t warm = 0;

    wp_call_counts_reset();
    for (int i = from; i < CLAIMS; i++) {
        warm += wp_pools_claim(rig.pools, &claims[i].claim) == WP_OK &&
                claims[i].claim.grant.served == WP_SERVED_WARM;
    }
    assert_untouched();
    assert_int_equal(warm, CLAIMS - from);
}

static void
test_warm_claims_touch_nothing(void **state)
{
    (void)state;
    assert_int_equal(wp_pools_claim(rig.pools, &claims[0].claim), WP_OK);
    assert_warm_claims_touch_nothing(1);
}

static void
test_warm_claims_of_two_tenants_touch_nothing(void **state)
{
    (void)state;
    for (int i = 0; i < CLAIMS; i++) {
        claims[i].claim.tenant = i % 2 == 0 ? WP_STR("even") : WP_STR("odd");
    }
    assert_int_equal(wp_pools_claim(rig.pools, &claims[0].claim), WP_OK);
    assert_int_equal(wp_pools_claim(rig.pools, &claims[1].claim), WP_OK);
    assert_warm_claims_touch_nothing(2);
}

/* A retry of a granted claim is answered from the table. */
static void
test_repeated_claims_touch_nothing(void **state)
{
    uint64_t replayed = 0;

    (void)state;
    for (int i = 0; i < CLAIMS; i++) {
        assert_int_equal(wp_pools_claim(rig.pools, &claims[i].claim), WP_OK);
    }
    wp_call_counts_reset();
    for (int i = 0; i < CLAIMS; i++) {
        replayed += wp_pools_claim(rig.pools, &claims[i].claim) == WP_OK &&
                    claims[i].claim.replayed;
    }
    assert_untouched();
    assert_int_equal(replayed, CLAIMS);
}

static void
test_the_counters_count(void **state)
{
    static struct wp_pool_rig_claim waiting;
    struct wp_pool_stats stats;

    (void)state;
    assert_true(wp_call_counts_allocations() > 0); /* In setup. */
    do {
        wp_pool_rig_fill(&rig, &waiting);
        wp_call_counts_reset();
    } while (wp_pools_claim(rig.pools, &waiting.claim) == WP_OK);
    /* Refused, since it asked not to wait: which is decided under a lock. */
    assert_int_equal(waiting.claim.status, WP_RESOURCE_EXHAUSTED);
    assert_true(wp_call_counts_locks() > 0);
    wp_pools_stats(rig.pools, rig.pool_index, &stats);
    assert_int_equal(stats.leased, READY);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_the_counters_count, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(
            test_warm_claims_of_two_tenants_touch_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(test_warm_claims_touch_nothing, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_repeated_claims_touch_nothing,
                                        setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
