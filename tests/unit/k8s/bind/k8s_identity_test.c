/* When a sandbox's next identity is due, and how many are under way at once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "k8s/bind/identity.h"
#include "tests/support/base/heard.h"
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

/* People hear of it, and again after ten seconds. */
static void
a_failure_is_said_now_and_then(void **state)
{
    static const struct {
        int64_t at_ns;
        bool said;
    } rows[] = {
        {WP_NS_PER_S, true},
        {11 * WP_NS_PER_S - 1, false},
        {11 * WP_NS_PER_S, true},
        {21 * WP_NS_PER_S - 1, false},
    };
    static struct heard heard;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct wp_identity identity = {.until_wall_ms = START_MS};
        char line[256] = "";

        time_.now_mono_ns = rows[i].at_ns;
        assert_true(wp_identity_renewal_begin(&renewals, &identity));
        heard_begin(&heard);
        wp_identity_not_renewed(&renewals, &identity, "n", "s", "it hangs");
        if (rows[i].said) {
            (void)snprintf(line, sizeof line,
                           "WARN an identity was not renewed; it is tried "
                           "again namespace=n sandbox=s reason=\"it hangs\" "
                           "failed_total=%zu\n",
                           i + 1);
        }
        assert_string_equal(heard_end(&heard), line);
        assert_int_equal(identity.due_ns, rows[i].at_ns + 5 * WP_NS_PER_S);
    }
}

/* What is left of its life, in steps of a fifth, from five seconds to five
 * minutes. */
static void
a_failure_waits_for_a_fifth(void **state)
{
    static const struct {
        int64_t left_ms;
        int64_t pause_ms;
    } rows[] = {
        {24999, 5000}, {25000, 5000},     {25001, 5000},     {25005, 5001},
        {30000, 6000}, {1499999, 299999}, {1500000, 300000}, {1500001, 300000},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct wp_identity identity = {.until_wall_ms =
                                           START_MS + rows[i].left_ms};

        assert_true(wp_identity_renewal_begin(&renewals, &identity));
        wp_identity_not_renewed(&renewals, &identity, "n", "s", "it hangs");
        assert_int_equal(identity.due_ns - time_.now_mono_ns,
                         rows[i].pause_ms * WP_NS_PER_MS);
    }
}

/* Two fifths of its life, a second at least; looked at in five minutes. */
static void
it_is_due_to_the_millisecond(void **state)
{
    static const struct {
        int64_t left_ms;
        int64_t wait_ms;
        int64_t look_ms;
    } rows[] = {
        {-1, 1000, 1000},         {2500, 1000, 1000},
        {2503, 1001, 1001},       {100000, 40000, 40000},
        {749999, 299999, 299999}, {750000, 300000, 300000},
        {750003, 300001, 300000}, {3600000, 1440000, 300000},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct wp_identity identity = {.due_ns = 0};

        wp_identity_given(&identity, START_MS + rows[i].left_ms, &time_.clock);
        assert_int_equal(identity.until_wall_ms, START_MS + rows[i].left_ms);
        assert_int_equal(identity.offset_ns,
                         wp_clock_wall_offset_ns(&time_.clock));
        assert_int_equal(wp_identity_wait_ns(&identity, &time_.clock),
                         rows[i].wait_ms * WP_NS_PER_MS);
        assert_int_equal(wp_identity_look_ns(&identity, &time_.clock),
                         rows[i].look_ms * WP_NS_PER_MS);
        time_.now_mono_ns = identity.due_ns - 1;
        time_.now_wall_ns = time_.now_mono_ns + identity.offset_ns;
        assert_int_equal(wp_identity_wait_ns(&identity, &time_.clock), 1);
        assert_false(wp_identity_renewal_begin(&renewals, &identity));
        wp_clock_manual_advance(&time_, 1);
        assert_int_equal(wp_identity_wait_ns(&identity, &time_.clock), 0);
        (void)set_up(NULL);
    }
}

/* Ten seconds are a drift; more is another time. */
static void
a_clock_that_drifts_was_not_set(void **state)
{
    static const struct {
        int64_t by_ns;
        bool set;
    } rows[] = {
        {10 * WP_NS_PER_S, false},
        {10 * WP_NS_PER_S + 1, true},
        {-10 * WP_NS_PER_S, false},
        {-10 * WP_NS_PER_S - 1, true},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct wp_identity identity = {.due_ns = 0};

        wp_identity_given(&identity, START_MS + 100000, &time_.clock);
        time_.now_wall_ns += rows[i].by_ns;
        assert_int_equal(wp_identity_wait_ns(&identity, &time_.clock),
                         rows[i].set ? 0 : 40 * WP_NS_PER_S);
        /* Of none that was given the clock says nothing. */
        identity = (struct wp_identity){.due_ns = 2 * WP_NS_PER_S};
        assert_int_equal(wp_identity_wait_ns(&identity, &time_.clock),
                         WP_NS_PER_S);
        (void)set_up(NULL);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(due_after_two_fifths, set_up),
        cmocka_unit_test_setup(due_when_the_clock_is_set, set_up),
        cmocka_unit_test_setup(not_too_many_at_once, set_up),
        cmocka_unit_test_setup(a_failure_is_tried_again, set_up),
        cmocka_unit_test_setup(a_failure_is_said_now_and_then, set_up),
        cmocka_unit_test_setup(a_failure_waits_for_a_fifth, set_up),
        cmocka_unit_test_setup(it_is_due_to_the_millisecond, set_up),
        cmocka_unit_test_setup(a_clock_that_drifts_was_not_set, set_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
