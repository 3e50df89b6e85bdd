/* Who leads, and how that passes from one to the next. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "k8s/objects/json.h"
#include "tests/support/k8s/election_rig.h"

/* As deployed: nobody may be without a leader for five seconds. */
static void
by_default(void **state)
{
    struct election_rig *rig = *state;

    rig->by_default = true;
    election_rig_start(rig, 0);
    election_rig_settle(rig);
    assert_int_equal(json_integer_value(wp_json_at(
                         rig->lease, "spec", "leaseDurationSeconds", NULL)),
                     3);
    election_rig_advance(rig, 60 * WP_NS_PER_S);
    assert_int_equal(rig->all[0].begun, 1);
    assert_int_equal(rig->all[0].ended, 0);
}

/* The first one makes the Lease and leads at once; it renews for good. */
static void
first(void **state)
{
    struct election_rig *rig = *state;

    election_rig_start(rig, 0);
    election_rig_settle(rig);
    assert_true(rig->all[0].led);
    assert_true(wp_election_valid_until_ns(rig->all[0].election) >
                rig->all[0].clock.now_mono_ns);
    assert_int_equal(json_integer_value(wp_json_at(
                         rig->lease, "spec", "leaseDurationSeconds", NULL)),
                     4);
    election_rig_advance(rig, 60 * WP_NS_PER_S);
    assert_int_equal(rig->all[0].begun, 1);
    assert_int_equal(rig->all[0].ended, 0);
    assert_int_equal(json_integer_value(wp_json_at(rig->lease, "spec",
                                                   "leaseTransitions", NULL)),
                     0);
    /* One write a second, no reads. */
    assert_in_range(rig->all[0].api.sent, 58, 64);
}

/* A leader that is gone is followed within the lease's time and a little, and
 * not before. */
static void
crash(void **state)
{
    struct election_rig *rig = *state;

    election_rig_start(rig, 0);
    election_rig_settle(rig);
    election_rig_start(rig, 1);
    election_rig_advance(rig, 10 * WP_NS_PER_S);
    assert_int_equal(rig->all[1].begun, 0);
    election_rig_stop(rig, 0);
    election_rig_advance(rig, 2500 * WP_NS_PER_MS);
    assert_int_equal(rig->all[1].begun, 0);
    election_rig_advance(rig, 2500 * WP_NS_PER_MS);
    assert_true(rig->all[1].led);
    assert_int_equal(json_integer_value(wp_json_at(rig->lease, "spec",
                                                   "leaseTransitions", NULL)),
                     1);
}

/* A planned change takes a moment only. */
static void
release(void **state)
{
    struct election_rig *rig = *state;

    election_rig_start(rig, 0);
    election_rig_settle(rig);
    election_rig_start(rig, 1);
    election_rig_advance(rig, 2 * WP_NS_PER_S);
    wp_election_release(rig->all[0].election, election_rig_released,
                        &rig->all[0]);
    assert_false(rig->all[0].led);
    assert_false(rig->all[0].released);
    election_rig_settle(rig);
    assert_true(rig->all[0].released);
    assert_string_equal(election_rig_holder(rig), "");
    election_rig_advance(rig, 800 * WP_NS_PER_MS);
    assert_true(rig->all[1].led);
    assert_string_equal(election_rig_holder(rig), "c1");
}

/* A standby has nothing to give up, and says so without waiting. */
static void
release_of_standby(void **state)
{
    struct election_rig *rig = *state;

    election_rig_start(rig, 0);
    election_rig_settle(rig);
    election_rig_start(rig, 1);
    election_rig_settle(rig);
    wp_election_release(rig->all[1].election, election_rig_released,
                        &rig->all[1]);
    election_rig_settle(rig);
    assert_true(rig->all[1].released);
    assert_string_equal(election_rig_holder(rig), "c0");
}

/* Giving it up does not wait for a server that does not answer. */
static void
release_unanswered(void **state)
{
    struct election_rig *rig = *state;
    uint32_t sent;

    election_rig_start(rig, 0);
    election_rig_settle(rig);
    rig->all[0].api.fate = ELECTION_LATE;
    wp_election_release(rig->all[0].election, election_rig_released,
                        &rig->all[0]);
    election_rig_advance(rig, 1900 * WP_NS_PER_MS);
    assert_false(rig->all[0].released);
    election_rig_advance(rig, 200 * WP_NS_PER_MS);
    assert_true(rig->all[0].released);
    /* It may be gone when what it had asked is answered. */
    sent = rig->all[0].api.sent;
    wp_election_stop(rig->all[0].election);
    rig->all[0].election = NULL;
    rig->all[0].api.fate = ELECTION_SERVED;
    for (size_t i = 0; i < rig->calls_len; i++) {
        rig->calls[i].late = false;
    }
    election_rig_advance(rig, 10 * WP_NS_PER_S);
    assert_int_equal(rig->all[0].api.sent, sent);
    assert_false(rig->all[0].led);
    assert_int_equal(rig->all[0].begun, 1);
}

/* That the holder serves is said of it alone, from its next renewal on. */
static void
serving(void **state)
{
    struct election_rig *rig = *state;

    election_rig_start(rig, 0);
    election_rig_settle(rig);
    assert_string_equal(wp_json_text(rig->lease, "metadata", "labels",
                                     WP_ELECTION_SERVING, NULL),
                        "");
    wp_election_serving(rig->all[0].election, true);
    election_rig_advance(rig, 5 * WP_NS_PER_S);
    assert_string_equal(wp_json_text(rig->lease, "metadata", "labels",
                                     WP_ELECTION_SERVING, NULL),
                        "true");
    election_rig_stop(rig, 0);
    election_rig_start(rig, 1);
    election_rig_advance(rig, 10 * WP_NS_PER_S);
    assert_true(rig->all[1].led);
    assert_string_equal(wp_json_text(rig->lease, "metadata", "labels",
                                     WP_ELECTION_SERVING, NULL),
                        "");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        ELECTION_TEST(by_default),
        ELECTION_TEST(first),
        ELECTION_TEST(crash),
        ELECTION_TEST(release),
        ELECTION_TEST(release_of_standby),
        ELECTION_TEST(release_unanswered),
        ELECTION_TEST(serving),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
