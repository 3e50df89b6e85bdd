/* When a sandbox's next identity is due, and how many are under way at once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "k8s/bind/identity.h"
#include "tests/support/pool/manual_clock.h"

#define START_MS INT64_C(1700000000000)

static struct wp_clock_manual time_;
static struct wp_identity_renewals renewals;

static int
set_up(void **state)
{
    (void)state;
    wp_clock_manual_init(&time_, WP_NS_PER_S, START_MS * WP_NS_PER_MS);
    renewals = (struct wp_identity_renewals){.clock = &time_.clock};
    return 0;
}

static int64_t
wait_s(const struct wp_identity *identity)
{
    return wp_identity_wait_ns(identity, &time_.clock) / WP_NS_PER_S;
}

static void
due_after_two_fifths(void **state)
{
    struct wp_identity identity = {.due_ns = 0};

    (void)state;
    assert_int_equal(wait_s(&identity), 0);
    wp_identity_given(&identity, START_MS + 100000, &time_.clock);
    assert_int_equal(wait_s(&identity), 40);
    /* What is about to end is looked at once a second. */
    wp_identity_given(&identity, START_MS + 100, &time_.clock);
    assert_int_equal(wait_s(&identity), 1);
    wp_identity_given(&identity, START_MS - 100000, &time_.clock);
    assert_int_equal(wait_s(&identity), 1);
}

/* Set forward, it makes what the Pod has old; set back, not yet good. */
static void
due_when_the_clock_is_set(void **state)
{
    static const int64_t steps_s[] = {3600, -3600};

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(steps_s); i++) {
        struct wp_identity identity = {.due_ns = 0};

        wp_identity_given(&identity, time_.now_wall_ns / WP_NS_PER_MS + 3600000,
                          &time_.clock);
        assert_int_equal(wait_s(&identity), 1440);
        assert_int_equal(wp_identity_look_ns(&identity, &time_.clock),
                         300 * WP_NS_PER_S);
        time_.now_wall_ns += 5 * WP_NS_PER_S; /* It drifts, too. */
        assert_int_equal(wait_s(&identity), 1440);
        time_.now_wall_ns += (steps_s[i] - 5) * WP_NS_PER_S;
        assert_int_equal(wait_s(&identity), 0);
        assert_int_equal(wp_identity_look_ns(&identity, &time_.clock), 0);
        assert_true(wp_identity_renewal_begin(&renewals, &identity));
        /* What the Pod has may end at the same time, and is replaced. */
        assert_int_equal(identity.until_wall_ms, 0);
        /* One that fails waits as ever. */
        wp_identity_not_renewed(&renewals, &identity, "n", "s", "it hangs");
        assert_int_equal(wait_s(&identity), 5);
        wp_clock_manual_advance(&time_, 5 * WP_NS_PER_S);
        assert_true(wp_identity_renewal_begin(&renewals, &identity));
        wp_identity_renewed(&renewals, &identity,
                            time_.now_wall_ns / WP_NS_PER_MS + 100000);
        assert_int_equal(wait_s(&identity), 40);
        time_.now_wall_ns -= steps_s[i] * WP_NS_PER_S;
    }
}

static void
not_too_many_at_once(void **state)
{
    static struct wp_identity all[WP_IDENTITY_RENEWALS_MAX + 1];

    (void)state;
    for (size_t i = 0; i < WP_IDENTITY_RENEWALS_MAX; i++) {
        assert_true(wp_identity_renewal_begin(&renewals, &all[i]));
    }
    assert_false(
        wp_identity_renewal_begin(&renewals, &all[WP_IDENTITY_RENEWALS_MAX]));
    assert_int_equal(wait_s(&all[WP_IDENTITY_RENEWALS_MAX]), 1);
    wp_identity_renewed(&renewals, &all[0], START_MS + 100000);
    assert_false(wp_identity_renewal_begin(&renewals, &all[0]));
    wp_clock_manual_advance(&time_, WP_NS_PER_S);
    assert_true(
        wp_identity_renewal_begin(&renewals, &all[WP_IDENTITY_RENEWALS_MAX]));
    for (size_t i = 0; i < WP_IDENTITY_RENEWALS_MAX; i++) {
        wp_identity_renewal_drop(&renewals);
    }
    assert_int_equal(renewals.under_way, 0);
    assert_int_equal(renewals.given_total, 1);
}

/* It is good for left_ms more. */
static int64_t
pause_s(int64_t left_ms)
{
    struct wp_identity identity = {.until_wall_ms = START_MS + left_ms};

    assert_true(wp_identity_renewal_begin(&renewals, &identity));
    wp_identity_not_renewed(&renewals, &identity, "n", "s", "it hangs");
    assert_int_equal(renewals.under_way, 0);
    return wait_s(&identity);
}

static void
a_failure_is_tried_again(void **state)
{
    (void)state;
    assert_int_equal(pause_s(100000), 20);
    assert_int_equal(pause_s(0), 5);
    assert_int_equal(pause_s(-START_MS), 5);
    assert_int_equal(pause_s(INT64_C(86400000)), 300);
    assert_int_equal(renewals.failed_total, 4);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(due_after_two_fifths, set_up),
        cmocka_unit_test_setup(due_when_the_clock_is_set, set_up),
        cmocka_unit_test_setup(not_too_many_at_once, set_up),
        cmocka_unit_test_setup(a_failure_is_tried_again, set_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
