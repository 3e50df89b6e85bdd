/* How many claims came, and how many in vain. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "pool/table/pools.h"

static struct wp_pool pool;

static void
served(enum wp_served how, int n)
{
    for (int i = 0; i < n; i++) {
        wp_histogram_record(&pool.claim_latency, 1000);
        if (how != WP_SERVED_WARM) {
            wp_counter_add(&pool.served[how], 1);
        }
    }
}

/* Goal: a claim counts once, when it comes: at once served ones, those that
 * found nothing, whether they were served later or not, and other replicas'. */
static void
test_each_claim_counts_once(void **state)
{
    uint64_t claims_seen = 0;
    uint64_t missed_seen = 0;
    uint32_t n = 77;
    uint32_t missed = 77;
    uint64_t claims;
    uint64_t in_vain;

    (void)state;
    assert_false(
        wp_pool_new_claims(&pool, &claims_seen, &missed_seen, &n, &missed));
    assert_int_equal(n, 77);
    served(WP_SERVED_WARM, 5);
    wp_pool_missed(&pool, 40);
    wp_pool_missed(&pool, 50);
    wp_pool_missed(&pool, 60);
    /* For whoever looks: since the first of them. */
    assert_int_equal(atomic_load(&pool.missed_at_ns), 40);
    served(WP_SERVED_QUEUED, 1);
    served(WP_SERVED_COLD, 1);
    pool.granted_elsewhere = 4;
    wp_pool_count_claims(&pool, &claims, &in_vain);
    assert_int_equal(claims, 5 + 3 + 4);
    assert_int_equal(in_vain, 3);
    assert_true(
        wp_pool_new_claims(&pool, &claims_seen, &missed_seen, &n, &missed));
    assert_int_equal(n, 12);
    assert_int_equal(missed, 3);
    assert_int_equal(claims_seen, 12);
    assert_int_equal(missed_seen, 3);
    /* They are served, and none came. */
    served(WP_SERVED_COLD, 1);
    assert_false(
        wp_pool_new_claims(&pool, &claims_seen, &missed_seen, &n, &missed));
    assert_int_equal(claims_seen, 12);
    served(WP_SERVED_WARM, 1);
    assert_true(
        wp_pool_new_claims(&pool, &claims_seen, &missed_seen, &n, &missed));
    assert_int_equal(n, 1);
    assert_int_equal(missed, 0);
    assert_int_equal(claims_seen, 13);
    assert_int_equal(missed_seen, 3);
}

/* Goal: no more were in vain than came; the rest is told the next time. */
static void
test_no_more_in_vain_than_came(void **state)
{
    uint64_t claims_seen = 11;
    uint64_t missed_seen = 0;
    uint32_t n;
    uint32_t missed;

    (void)state;
    assert_true(
        wp_pool_new_claims(&pool, &claims_seen, &missed_seen, &n, &missed));
    assert_int_equal(n, 2);
    assert_int_equal(missed, 2);
    assert_int_equal(missed_seen, 2);
    assert_int_equal(claims_seen, 13);
    served(WP_SERVED_WARM, 3);
    assert_true(
        wp_pool_new_claims(&pool, &claims_seen, &missed_seen, &n, &missed));
    assert_int_equal(n, 3);
    assert_int_equal(missed, 1);
    assert_int_equal(missed_seen, 3);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_claim_counts_once),
        cmocka_unit_test(test_no_more_in_vain_than_came),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
