/* The token bucket: bursts, the rate, and what is left for claims. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "k8s/api/rate.h"
#include "pool/base/clock.h"

static void
unbounded(void **state)
{
    struct wp_rate rate;

    (void)state;
    wp_rate_init(&rate, 0, 1, 0);
    for (int i = 0; i < 1000; i++) {
        assert_true(wp_rate_take(&rate, 0, 0));
        assert_int_equal(wp_rate_wait_ns(&rate, 0, 0), 0);
    }
}

/* The wait it names is enough, and not much too long. */
static void
burst_and_rate(void **state)
{
    struct wp_rate rate;
    int64_t now = 5 * WP_NS_PER_S;
    int64_t start;

    (void)state;
    wp_rate_init(&rate, 100, 10, now);
    for (int i = 0; i < 10; i++) {
        assert_true(wp_rate_take(&rate, 0, now));
    }
    assert_false(wp_rate_take(&rate, 0, now));
    start = now;
    for (int i = 0; i < 500; i++) {
        now += wp_rate_wait_ns(&rate, 0, now);
        assert_true(wp_rate_take(&rate, 0, now));
    }
    assert_in_range(now - start, 4999 * WP_NS_PER_MS, 5001 * WP_NS_PER_MS);
    /* However long nobody came: a burst, no more. */
    now += 3600 * WP_NS_PER_S;
    for (int i = 0; i < 10; i++) {
        assert_true(wp_rate_take(&rate, 0, now));
    }
    assert_false(wp_rate_take(&rate, 0, now));
}

/* Who leaves half of it alone stops there; the other half is still there. */
static void
reserve(void **state)
{
    struct wp_rate rate;
    int taken = 0;

    (void)state;
    wp_rate_init(&rate, 1, 8, 0);
    while (wp_rate_take(&rate, 4, 0)) {
        taken++;
    }
    assert_int_equal(taken, 4);
    assert_true(wp_rate_wait_ns(&rate, 4, 0) > 0);
    assert_int_equal(wp_rate_wait_ns(&rate, 0, 0), 0);
    while (wp_rate_take(&rate, 0, 0)) {
        taken++;
    }
    assert_int_equal(taken, 8);
    /* A reserve as large as the bucket does not shut it for ever. */
    assert_true(wp_rate_take(&rate, 100, 8 * WP_NS_PER_S));
}

static void
without_a_burst_it_is_one_by_one(void **state)
{
    struct wp_rate rate;

    (void)state;
    wp_rate_init(&rate, 1, 0, 0);
    assert_true(wp_rate_take(&rate, 0, 0));
    assert_false(wp_rate_take(&rate, 0, 0));
    assert_true(wp_rate_take(&rate, 0, WP_NS_PER_S));
    assert_false(wp_rate_take(&rate, 0, WP_NS_PER_S));
}

/* Also where the wait is no whole number of nanoseconds. */
static void
the_wait_it_names_is_enough(void **state)
{
    struct wp_rate rate;
    int64_t now = 0;

    (void)state;
    wp_rate_init(&rate, 3, 1, now);
    for (int i = 0; i < 100; i++) {
        now += wp_rate_wait_ns(&rate, 0, now);
        assert_true(wp_rate_take(&rate, 0, now));
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unbounded),
        cmocka_unit_test(burst_and_rate),
        cmocka_unit_test(reserve),
        cmocka_unit_test(the_wait_it_names_is_enough),
        cmocka_unit_test(without_a_burst_it_is_one_by_one),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
