/* local/sandbox/sandbox_identity.c: when a sandbox's identity is made, sent and
 * made anew, by the test's clocks. The journals are in golden/. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "pool/base/clock.h"
#include "tests/unit/local/sandbox/sandbox_rig.h"

static int
set_up(void **state)
{
    (void)state;
    rig.seen.len = 0;
    rig_reset(WP_SANDBOX_READY);
    return 0;
}

static int64_t
wall_ms(void)
{
    return rig.wall_ns / WP_NS_PER_MS;
}

static void
pass(int64_t ns)
{
    rig.now_ns += ns;
    rig.wall_ns += ns;
}

static void
identify(const char *audience, int64_t ttl_ms)
{
    struct wp_err err = {.msg = ""};
    enum wp_status status =
        wp_sandbox_identify(&rig.sandbox, audience, ttl_ms, &err);

    rig_note("=> %s '%s'", wp_status_name(status), err.msg);
    rig_dump();
}

static void
time_out(void)
{
    wp_sandbox_on_identity_timer(-1, EV_TIMEOUT, &rig.sandbox);
    rig_dump();
}

static void
record(void)
{
    struct wp_err err = {.msg = ""};
    enum wp_status status = wp_sandbox_record_identity(&rig.sandbox, &err);

    rig_note("=> %s '%s'", wp_status_name(status), err.msg);
    rig_dump();
}

static void
one_is_given_and_the_next_is_planned(void **state)
{
    /* What is left of it, in milliseconds. */
    static const int64_t left_ms[] = {-5000, 0,     2499,   2500,
                                      2503,  49999, 100000, 3600000};

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(left_ms); i++) {
        rig_note("--- good for %" PRId64, left_ms[i]);
        rig_reset(WP_SANDBOX_READY);
        rig.sign_until_ms = wall_ms() + left_ms[i];
        identify("audience", 60000);
    }
    rig_compare("identity/given");
}

static void
the_same_one_is_not_sent_again(void **state)
{
    (void)state;
    rig.sign_until_ms = wall_ms() + 60000;
    identify("audience", 60000);
    record();
    identify("audience", 60000);
    record();
    rig_note("--- for longer");
    identify("audience", 60001);
    record();
    rig_note("--- for another");
    rig.sign_until_ms++;
    identify("other", 60001);
    rig_note("--- not recorded");
    rig.record_answer = WP_UNAVAILABLE;
    record();
    rig.record_answer = WP_OK;
    record();
    record();
    rig_compare("identity/same");
}

static void
one_that_cannot_be_had_is_none(void **state)
{
    static char longest[WP_IDENTITY_TOKEN_MAX + 1];

    (void)state;
    rig.sign_until_ms = wall_ms() + 60000;
    rig.sign_answer = WP_PERMISSION_DENIED;
    identify("audience", 60000);
    rig.sign_answer = WP_OK;
    rig.send_answer = -1;
    identify("audience", 60000);
    rig.send_answer = 5; /* Not all of it. */
    identify("audience", 60000);
    rig.send_answer = 6;
    identify("audience", 60000);
    rig.send_answer = INT32_MAX;
    memset(longest, 't', sizeof longest - 1);
    rig.token = longest;
    rig.sign_until_ms++;
    identify("audience", 60000);
    rig_compare("identity/none");
}

static void
the_next_one_comes_when_it_is_due(void **state)
{
    (void)state;
    rig.sign_until_ms = wall_ms() + 100000; /* So it is due in 40 s. */
    identify("audience", 100000);
    rig_note("--- a look before");
    pass(20 * WP_NS_PER_S);
    time_out();
    pass(20 * WP_NS_PER_S - 1);
    time_out();
    rig_note("--- due, but the lease has not been renewed");
    pass(1);
    time_out();
    rig_note("--- due, and renewed");
    rig.sign_until_ms += 100000;
    pass(24 * WP_NS_PER_S);
    time_out();
    rig_note("--- due, and no key");
    rig.sign_answer = WP_UNAVAILABLE;
    pass(200 * WP_NS_PER_S);
    time_out();
    rig_compare("identity/due");
}

static void
a_clock_that_was_set_makes_a_new_one(void **state)
{
    static const int64_t by_ns[] = {10 * WP_NS_PER_S, 10 * WP_NS_PER_S + 1,
                                    -10 * WP_NS_PER_S, -10 * WP_NS_PER_S - 1};

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(by_ns); i++) {
        rig_note("--- by %" PRId64, by_ns[i]);
        rig_reset(WP_SANDBOX_READY);
        rig.sign_until_ms = wall_ms() + 100000;
        identify("audience", 100000);
        rig.wall_ns += by_ns[i];
        time_out();
    }
    rig_compare("identity/clock");
}

static void
who_is_not_ready_gets_none(void **state)
{
    (void)state;
    for (int i = WP_SANDBOX_STARTING; i <= WP_SANDBOX_REMOVING; i++) {
        for (int lost = 0; lost < 2; lost++) {
            rig_note("--- state %d, %s", i, lost != 0 ? "lost" : "there");
            rig_reset((enum wp_sandbox_state)i);
            rig.sandbox.lost = lost != 0;
            time_out();
        }
    }
    rig_compare("identity/states");
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, set_up)
    const struct CMUnitTest tests[] = {
        TEST(one_is_given_and_the_next_is_planned),
        TEST(the_same_one_is_not_sent_again),
        TEST(one_that_cannot_be_had_is_none),
        TEST(the_next_one_comes_when_it_is_due),
        TEST(a_clock_that_was_set_makes_a_new_one),
        TEST(who_is_not_ready_gets_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
