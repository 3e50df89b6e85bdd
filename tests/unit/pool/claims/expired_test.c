/* Claims whose lease ran out: the latest of each bucket are remembered. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "pool/claims/expired.h"

static struct wp_expired expired;

static struct wp_hash128
hash(uint64_t low, uint64_t high)
{
    return (struct wp_hash128){.low = low, .high = high};
}

static int64_t
find(uint64_t low, uint64_t high)
{
    return wp_expired_find(&expired, hash(low, high));
}

static void
the_oldest_of_a_bucket_goes_first(void **state)
{
    const uint64_t n = WP_EXPIRED_BUCKETS;

    (void)state;
    wp_expired_init(&expired);
    assert_int_equal(find(0, 0), 0);
    /* Four of one bucket, and one of each bucket beside it. */
    for (uint64_t i = 0; i < WP_EXPIRED_WAYS; i++) {
        wp_expired_add(&expired, hash(5 + i * n, 0), 100 + (int64_t)i);
    }
    wp_expired_add(&expired, hash(4, 0), 1);
    wp_expired_add(&expired, hash(6, 0), 2);
    wp_expired_add(&expired, hash(0, 0), 3);
    wp_expired_add(&expired, hash(n - 1, 0), 4);
    /* Once more: it is not new, and its time is the latest. */
    wp_expired_add(&expired, hash(5 + n, 0), 201);
    for (uint64_t i = 0; i < WP_EXPIRED_WAYS; i++) {
        assert_int_equal(find(5 + i * n, 0), i == 1 ? 201 : 100 + (int64_t)i);
        assert_int_equal(find(5 + i * n, 1), 0);
    }
    /* One that differs in the other half only. */
    wp_expired_add(&expired, hash(5 + n, 1), 300);
    assert_int_equal(find(5, 0), 0);
    assert_int_equal(find(5 + n, 0), 201);
    assert_int_equal(find(5 + n, 1), 300);
    assert_int_equal(find(5 + 2 * n, 0), 102);
    assert_int_equal(find(5 + 3 * n, 0), 103);
    wp_expired_add(&expired, hash(5, 2), 301);
    assert_int_equal(find(5 + n, 0), 0);
    assert_int_equal(find(5 + 2 * n, 0), 102);
    assert_int_equal(find(5, 2), 301);
    assert_int_equal(find(4, 0), 1);
    assert_int_equal(find(6, 0), 2);
    assert_int_equal(find(0, 0), 3);
    assert_int_equal(find(n - 1, 0), 4);
    wp_expired_fini(&expired);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_oldest_of_a_bucket_goes_first),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
