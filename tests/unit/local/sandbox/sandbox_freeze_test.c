/* local/sandbox/sandbox_freeze.c: when a leased sandbox is looked at, frozen and
 * thawed, by the test's clock. The journals are in golden/. */
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

static void
reset(const char *what)
{
    rig_note("--- %s", what);
    rig_reset(WP_SANDBOX_READY);
    rig.sandbox.freeze_after_ms = 10000;
    rig.sandbox.looked_ns = rig.now_ns;
}

static void
pass_ms(int64_t ms)
{
    rig.now_ns += ms * WP_NS_PER_MS;
    rig.wall_ns += ms * WP_NS_PER_MS;
}

static void
time_out(void)
{
    wp_sandbox_on_look_timer(-1, EV_TIMEOUT, &rig.sandbox);
    rig_dump();
}

static void
idle(const char *text, int fd)
{
    wp_sandbox_on_idle(&rig.sandbox, text, fd);
    rig_dump();
}

/* --- Leases --- */

static char longest_name[WP_SANDBOX_NAME_MAX + 1];

static void
lease_for(int64_t freeze_ms, int64_t left_ms, bool keep)
{
    const struct wp_lease_notice notice = {
        .ref = {.index = 7, .generation = 3},
        .sandbox = {longest_name, WP_SANDBOX_NAME_MAX},
        .deadline_wall_ms = rig.wall_ns / WP_NS_PER_MS + left_ms,
        .freeze_after_ns = freeze_ms * WP_NS_PER_MS,
        .keep = keep,
    };

    memset(longest_name, 'n', WP_SANDBOX_NAME_MAX);
    wp_local_leased(&rig.local, &notice);
    rig_dump();
}

static void
a_lease_says_what_is_watched(void **state)
{
    static const struct {
        int64_t freeze_ms;
        int64_t left_ms;
        bool keep;
    } rows[] = {
        {0, 30000, false},
        {10000, 30000, false},
        {0, 30000, true},
        {10000, 30000, true},
        {10000, -1, true},
        {10000, 0, true},
        {10000, 1, true},
        {INT64_C(4294967294), 9000, true},
        {INT64_C(4294967296), 1, 1},
        {10000, INT64_C(4294967294), true},
        {-1, 30000, true},
        {10000, INT64_C(4294967296), true},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        rig_note("--- %" PRId64 ", %" PRId64 ", %d", rows[i].freeze_ms,
                 rows[i].left_ms, (int)rows[i].keep);
        rig_reset(WP_SANDBOX_READY);
        lease_for(rows[i].freeze_ms, rows[i].left_ms, rows[i].keep);
        rig_note("and once it was looked at");
        rig.sandbox.looking = false;
        rig.sandbox.looked_ns = rig.now_ns;
        lease_for(rows[i].freeze_ms, rows[i].left_ms, rows[i].keep);
    }
    rig_compare("freeze/leases");
}

static void
a_lease_of_one_that_is_not_watched_changes_little(void **state)
{
    (void)state;
    for (int i = WP_SANDBOX_STARTING; i <= WP_SANDBOX_REMOVING; i++) {
        rig_note("--- state %d", i);
        rig_reset((enum wp_sandbox_state)i);
        rig.sandbox.lost = i == WP_SANDBOX_READY;
        lease_for(10000, 30000, true);
    }
    rig_note("--- gone");
    rig_reset(WP_SANDBOX_READY);
    rig.gone = true;
    lease_for(10000, 30000, true);
    rig_note("--- too much to do");
    rig_reset(WP_SANDBOX_READY);
    rig.post_full = true;
    lease_for(10000, 30000, true);
    rig_note("--- frozen");
    rig_reset(WP_SANDBOX_READY);
    rig.sandbox.frozen = true;
    lease_for(10000, 30000, true);
    rig_note("--- asked already");
    rig_reset(WP_SANDBOX_READY);
    rig.sandbox.looking = true;
    lease_for(10000, 30000, true);
    rig_note("--- no freezer");
    rig_reset(WP_SANDBOX_READY);
    rig.can_freeze = false;
    lease_for(10000, 0, false);
    rig_note("--- no group");
    rig_reset(WP_SANDBOX_READY);
    rig.sandbox.has_group = false;
    lease_for(10000, 30000, true);
    rig_compare("freeze/no_leases");
}

/* --- Looks --- */

/* So long after a look that told of so much idleness. */
static void
it_is_asked_to_hold_still_when_it_has_been_idle_for_long(void **state)
{
    static const struct {
        int64_t idle_ms;
        int64_t passed_ms;
        bool binds;
        bool never;
        bool no_freeze;
    } rows[] = {
        {0, 9999, false, false, false},    {0, 10000, false, false, false},
        {4000, 5999, false, false, false}, {4000, 6000, false, false, false},
        {4000, 6000, true, false, false},  {10000, 6000, false, true, false},
        {10000, 6000, false, false, true},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        struct wp_list bind;

        reset("a look");
        rig.sandbox.idle_ms = rows[i].idle_ms;
        pass_ms(rows[i].passed_ms);
        if (rows[i].binds) {
            wp_list_push_back(&rig.sandbox.binds, &bind);
        }
        if (rows[i].never) {
            rig.sandbox.looked_ns = 0;
        }
        if (rows[i].no_freeze) {
            rig.sandbox.freeze_after_ms = 0;
        }
        time_out();
    }
    rig_compare("freeze/looks");
}

static void
who_cannot_be_asked_is_asked_later(void **state)
{
    (void)state;
    for (int i = WP_SANDBOX_STARTING; i <= WP_SANDBOX_REMOVING; i++) {
        reset("a state");
        rig.sandbox.state = (enum wp_sandbox_state)i;
        rig.sandbox.lost = i == WP_SANDBOX_READY;
        time_out();
    }
    reset("frozen");
    rig.sandbox.frozen = true;
    time_out();
    reset("it does not read");
    rig.sandbox.idle_ms = 20;
    pass_ms(10000);
    rig.send_answer = -1;
    time_out();
    reset("not all of it");
    rig.send_answer = 1;
    time_out();
    rig_compare("freeze/asks");
}

/* When the next look is: by what it may be idle, and by its lease. */
static void
looks_come_in_time_for_both(void **state)
{
    static const struct {
        int64_t freeze_ms;
        int64_t lease_ms;
        const char *idle;
        int64_t passed_ms; /* Of a lease that comes later. */
    } rows[] = {
        {10000, 0, "0", 0},       {10000, 0, "9899", 0},
        {10000, 0, "9900", 0},    {10000, 0, "9901", 0},
        {10000, 0, "20000", 0},   {0, 9000, "0", 0},
        {0, 180000, "0", 0},      {0, 180003, "0", 0},
        {0, 240000, "0", 0},      {10000, 9000, "0", 0},
        {10000, 30000, "0", 0},   {10000, 30003, "0", 0},
        {10000, 30000, "500", 0}, {0, 2, "0", 0},
        {0, 0, "0", 0},           {10000, 9000, "0", 2500},
        {10000, 0, "10", 4000},   {10000, 9000, "6000", 2500},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        reset("a look");
        rig.sandbox.freeze_after_ms = rows[i].freeze_ms;
        rig.sandbox.lease_ms = rows[i].lease_ms;
        rig.sandbox.looking = true;
        idle(rows[i].idle, -1);
        if (rows[i].passed_ms > 0) {
            pass_ms(rows[i].passed_ms);
            lease_for(rows[i].freeze_ms, rows[i].lease_ms, true);
        }
    }
    rig_compare("freeze/next_looks");
}

/* --- What init says --- */

static void
what_nobody_asked_for_is_not_heeded(void **state)
{
    static const char *const odd[] = {"", "x", "-1", "1x", "4294967296"};

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(odd); i++) {
        reset(odd[i]);
        rig.sandbox.looking = true;
        idle(odd[i], RIG_PASSED);
        idle(odd[i], -1);
    }
    reset("not asked");
    idle("20000", RIG_PASSED);
    reset("frozen");
    rig.sandbox.looking = true;
    rig.sandbox.frozen = true;
    idle("20000", RIG_PASSED);
    reset("lost");
    rig.sandbox.looking = true;
    rig.sandbox.lost = true;
    idle("20000", RIG_PASSED);
    reset("the longest");
    rig.sandbox.looking = true;
    idle("4294967295", -1);
    rig_compare("freeze/odd_words");
}

static void
use_prolongs_a_lease(void **state)
{
    (void)state;
    for (int i = 0; i < 6; i++) {
        reset("a look");
        rig.sandbox.looking = true;
        rig.sandbox.lease_ms = i == 2 ? 0 : 30000;
        if (i == 3) {
            rig.sandbox.looked_ns = 0;
        }
        if (i == 4) {
            rig.local.events.on_used = NULL;
        }
        pass_ms(5000);
        idle(i == 0 ? "4999" : i == 1 ? "5000" : i == 5 ? "5001" : "10", -1);
    }
    rig_compare("freeze/use");
}

static void
one_that_was_idle_for_long_is_frozen(void **state)
{
    struct wp_list bind;

    (void)state;
    reset("long enough");
    rig.sandbox.looking = true;
    rig.sandbox.asked = true;
    idle("10000", RIG_PASSED);
    reset("not long enough");
    rig.sandbox.looking = true;
    idle("9999", RIG_PASSED);
    reset("no socket");
    rig.sandbox.looking = true;
    idle("10000", -1);
    reset("a binding has come");
    rig.sandbox.looking = true;
    wp_list_push_back(&rig.sandbox.binds, &bind);
    idle("10000", RIG_PASSED);
    reset("not to be frozen any more");
    rig.sandbox.looking = true;
    rig.sandbox.freeze_after_ms = 0;
    rig.sandbox.lease_ms = 9000;
    idle("10000", RIG_PASSED);
    reset("it cannot be");
    rig.sandbox.looking = true;
    rig.sandbox.asked = true;
    rig.freezes = false;
    idle("10000", RIG_PASSED);
    reset("it cannot be, and has a lease");
    rig.sandbox.looking = true;
    rig.sandbox.lease_ms = 9000;
    rig.freezes = false;
    idle("10000", RIG_PASSED);
    rig_compare("freeze/frozen");
}

static void
a_connection_thaws_it(void **state)
{
    struct wp_sandbox *sandbox = &rig.sandbox;

    (void)state;
    for (int i = 0; i < 4; i++) {
        reset("frozen, then thawed");
        sandbox->looking = true;
        rig.local.frozen_total = 5;
        rig.local.frozen = 2;
        idle("12000", RIG_DOOR);
        pass_ms(7000);
        if (i == 1) {
            (void)snprintf(sandbox->audience, sizeof sandbox->audience, "%s",
                           "audience");
            sandbox->identity_due_ns = rig.now_ns + 1;
        }
        rig.freezes = i != 2;
        rig.send_answer = i == 3 ? -1 : INT32_MAX;
        event_get_callback (&sandbox->door_event)(
            RIG_DOOR, EV_READ, event_get_callback_arg(&sandbox->door_event));
        rig_dump();
        wp_sandbox_thaw(sandbox);
    }
    rig_compare("freeze/thawed");
}

static void
nobody_looks_any_more(void **state)
{
    (void)state;
    reset("not frozen");
    wp_sandbox_unlook(&rig.sandbox);
    reset("frozen");
    rig.sandbox.looking = true;
    idle("12000", RIG_DOOR);
    wp_sandbox_unlook(&rig.sandbox);
    rig_dump();
    rig_compare("freeze/unlook");
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, set_up)
    const struct CMUnitTest tests[] = {
        TEST(a_lease_says_what_is_watched),
        TEST(a_lease_of_one_that_is_not_watched_changes_little),
        TEST(it_is_asked_to_hold_still_when_it_has_been_idle_for_long),
        TEST(who_cannot_be_asked_is_asked_later),
        TEST(looks_come_in_time_for_both),
        TEST(what_nobody_asked_for_is_not_heeded),
        TEST(use_prolongs_a_lease),
        TEST(one_that_was_idle_for_long_is_frozen),
        TEST(a_connection_thaws_it),
        TEST(nobody_looks_any_more),
    };

    RIG_RUN(tests);
}
