/* One leader at most, whatever the network does to calls, and others to the
 * Lease. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "k8s/objects/json.h"
#include "tests/support/k8s/election_rig.h"

/* A renewal whose answer is lost was done nevertheless: it goes on. */
static void
answer_lost(void **state)
{
    struct election_rig *rig = *state;

    election_rig_start(rig, 0);
    election_rig_settle(rig);
    rig->all[0].api.fate = ELECTION_ANSWER_LOST;
    election_rig_advance(rig, 1200 * WP_NS_PER_MS);
    rig->all[0].api.fate = ELECTION_SERVED;
    election_rig_advance(rig, 10 * WP_NS_PER_S);
    assert_int_equal(rig->all[0].begun, 1);
    assert_int_equal(rig->all[0].ended, 0);
    assert_int_equal(json_integer_value(wp_json_at(rig->lease, "spec",
                                                   "leaseTransitions", NULL)),
                     0);
}

/* One renewal that nobody answers is made good before leadership ends. */
static void
renewal_lost(void **state)
{
    struct election_rig *rig = *state;

    election_rig_start(rig, 0);
    election_rig_settle(rig);
    for (int i = 0; i < 5; i++) {
        rig->all[0].api.fate = ELECTION_LATE;
        election_rig_advance(rig, 1100 * WP_NS_PER_MS);
        rig->all[0].api.fate = ELECTION_SERVED;
        election_rig_advance(rig, 3 * WP_NS_PER_S);
    }
    assert_int_equal(rig->all[0].begun, 1);
    assert_int_equal(rig->all[0].ended, 0);
}

/* The write that takes it, its answer lost: the next read says whose it is. */
static void
taking_lost(void **state)
{
    struct election_rig *rig = *state;

    election_rig_start(rig, 0);
    rig->all[0].api.fate = ELECTION_ANSWER_LOST;
    election_rig_settle(rig);
    assert_false(rig->all[0].led);
    rig->all[0].api.fate = ELECTION_SERVED;
    election_rig_advance(rig, WP_NS_PER_S);
    assert_true(rig->all[0].led);
}

/* The first read that nobody answers is done again. */
static void
read_lost(void **state)
{
    struct election_rig *rig = *state;

    election_rig_start(rig, 0);
    rig->all[0].api.fate = ELECTION_LATE;
    election_rig_advance(rig, 500 * WP_NS_PER_MS);
    assert_false(rig->all[0].led);
    assert_int_equal(rig->all[0].api.sent, 1);
    rig->all[0].api.fate = ELECTION_SERVED;
    election_rig_advance(rig, 3 * WP_NS_PER_S);
    assert_true(rig->all[0].led);
}

/* A leader that hears nothing stops by itself, before anybody else begins; the
 * checks in advance see to the order. */
static void
cut_off(void **state)
{
    struct election_rig *rig = *state;

    election_rig_start(rig, 1); /* The slowest clock leads. */
    election_rig_settle(rig);
    election_rig_start(rig, 2); /* The fastest one waits. */
    election_rig_advance(rig, 5 * WP_NS_PER_S);
    rig->all[1].api.fate = ELECTION_LATE;
    election_rig_advance(rig, 2 * WP_NS_PER_S);
    assert_true(rig->all[1].led);
    election_rig_advance(rig, 1500 * WP_NS_PER_MS);
    assert_false(rig->all[1].led);
    assert_string_equal(rig->all[1].told, "");
    election_rig_advance(rig, 2 * WP_NS_PER_S);
    assert_true(rig->all[2].led);
    /* What it had sent comes late, and changes nothing. */
    rig->all[1].api.fate = ELECTION_SERVED;
    for (size_t i = 0; i < rig->calls_len; i++) {
        rig->calls[i].late = false;
    }
    election_rig_advance(rig, 10 * WP_NS_PER_S);
    assert_true(rig->all[2].led);
    assert_int_equal(rig->all[2].ended, 0);
    assert_int_equal(rig->all[1].begun, 1);
}

/* The loop was late: leads says no by the clock, before any timer ran. */
static void
late_loop(void **state)
{
    struct election_rig *rig = *state;

    election_rig_start(rig, 0);
    election_rig_settle(rig);
    wp_clock_manual_advance(&rig->all[0].clock, 3 * WP_NS_PER_S);
    assert_false(wp_election_leads(rig->all[0].election));
}

/* An account that may only read the Lease: it says so once it is its turn, and
 * leads as soon as it may. */
static void
forbidden(void **state)
{
    struct election_rig *rig = *state;

    election_rig_start(rig, 0);
    election_rig_settle(rig);
    election_rig_start(rig, 1);
    rig->all[1].api.fate = ELECTION_FORBIDDEN;
    election_rig_advance(rig, 3 * WP_NS_PER_S);
    assert_false(wp_election_refused(rig->all[1].election));
    wp_election_stop(rig->all[0].election);
    rig->all[0].election = NULL;
    election_rig_advance(rig, 6 * WP_NS_PER_S);
    assert_false(rig->all[1].led);
    assert_true(wp_election_refused(rig->all[1].election));
    rig->all[1].api.fate = ELECTION_SERVED;
    election_rig_advance(rig, 3 * WP_NS_PER_S);
    assert_true(rig->all[1].led);
    assert_false(wp_election_refused(rig->all[1].election));
}

/* Somebody wrote the object beside us: a conflict is read, and renewed. */
static void
touched(void **state)
{
    struct election_rig *rig = *state;

    election_rig_start(rig, 0);
    election_rig_settle(rig);
    for (int i = 0; i < 10; i++) {
        (void)wp_json_set(wp_json_at(rig->lease, "metadata", NULL), "labels",
                          json_pack("{s:i}", "touched", i));
        election_rig_stamp(rig);
        election_rig_advance(rig, 1500 * WP_NS_PER_MS);
    }
    assert_true(rig->conflicts > 5);
    assert_int_equal(rig->all[0].begun, 1);
    assert_true(rig->all[0].led);
    /* And what it had written stays. */
    assert_int_equal(json_integer_value(wp_json_at(rig->lease, "metadata",
                                                   "labels", "touched", NULL)),
                     9);
}

/* Taken by force: it ends with the first answer that says so. */
static void
taken(void **state)
{
    struct election_rig *rig = *state;

    election_rig_start(rig, 0);
    election_rig_settle(rig);
    (void)wp_json_set_text(wp_json_at(rig->lease, "spec", NULL),
                           "holderIdentity", "force");
    election_rig_stamp(rig);
    election_rig_advance(rig, 1200 * WP_NS_PER_MS);
    assert_false(rig->all[0].led);
    assert_string_equal(rig->all[0].told, "force");
    election_rig_advance(rig, 6 * WP_NS_PER_S); /* That one never renews. */
    assert_true(rig->all[0].led);
}

/* A deleted Lease: the leader stops; a standby that has seen it waits its time
 * out, so whoever is first there is alone. */
static void
deleted(void **state)
{
    struct election_rig *rig = *state;

    election_rig_start(rig, 0);
    election_rig_settle(rig);
    election_rig_start(rig, 1);
    election_rig_advance(rig, 3 * WP_NS_PER_S);
    rig->all[0].api.fate = ELECTION_LATE; /* It does not even hear of it. */
    json_decref(rig->lease);
    rig->lease = NULL;
    election_rig_advance(rig, 2500 * WP_NS_PER_MS);
    assert_int_equal(rig->all[1].begun, 0);
    election_rig_advance(rig, 3 * WP_NS_PER_S);
    assert_true(rig->all[1].led);

    json_decref(rig->lease);
    rig->lease = NULL;
    election_rig_advance(rig, 1500 * WP_NS_PER_MS);
    assert_true(rig->all[1].led); /* It made a new one. */
    assert_int_equal(rig->all[1].begun, 2);
}

/* Whoever claims it for a day is not believed beyond ten minutes. */
static void
long_claim(void **state)
{
    struct election_rig *rig = *state;

    rig->lease =
        json_pack("{s:{s:s}, s:{s:s, s:i}}", "metadata", "name", "lead", "spec",
                  "holderIdentity", "old", "leaseDurationSeconds", 86400);
    assert_non_null(rig->lease);
    election_rig_stamp(rig);
    election_rig_start(rig, 0);
    election_rig_advance(rig, 590 * WP_NS_PER_S);
    assert_false(rig->all[0].led);
    election_rig_advance(rig, 15 * WP_NS_PER_S);
    assert_true(rig->all[0].led);
}

/* Calls lost, late and answered twice over, contenders that come and go: never
 * two leaders (advance checks), and one in the end. */
static void
storm(void **state)
{
    struct election_rig *rig = *state;

    for (size_t i = 0; i < ELECTION_CONTENDERS; i++) {
        election_rig_start(rig, i);
    }
    for (int round = 0; round < 400; round++) {
        size_t i = (size_t)wp_rng_below(&rig->rng, ELECTION_CONTENDERS);

        rig->faults = round % 40 < 30 ? 25 : 0;
        if (wp_rng_below(&rig->rng, 10) == 0) {
            election_rig_stop(rig, i);
            election_rig_advance(rig, WP_NS_PER_S);
            election_rig_start(rig, i);
        }
        rig->all[i].api.fate =
            wp_rng_below(&rig->rng, 6) == 0 ? ELECTION_LATE : ELECTION_SERVED;
        if (wp_rng_below(&rig->rng, 3) == 0) {
            for (size_t j = 0; j < rig->calls_len; j++) {
                rig->calls[j].late = false; /* They come after all. */
            }
        }
        if (rig->calls_len > ELECTION_CALLS_MAX / 2) {
            election_rig_end_call(rig, 0, ELECTION_SERVED);
        }
        election_rig_advance(rig, 700 * WP_NS_PER_MS);
    }
    rig->faults = 0;
    for (size_t i = 0; i < ELECTION_CONTENDERS; i++) {
        rig->all[i].api.fate = ELECTION_SERVED;
    }
    election_rig_advance(rig, 10 * WP_NS_PER_S);
    assert_int_equal(election_rig_leaders(rig), 1);
    assert_true(rig->conflicts > 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        ELECTION_TEST(answer_lost), ELECTION_TEST(renewal_lost),
        ELECTION_TEST(taking_lost), ELECTION_TEST(read_lost),
        ELECTION_TEST(cut_off),     ELECTION_TEST(late_loop),
        ELECTION_TEST(forbidden),   ELECTION_TEST(touched),
        ELECTION_TEST(taken),       ELECTION_TEST(deleted),
        ELECTION_TEST(long_claim),  ELECTION_TEST(storm),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
