/* local/sandbox/sandbox_ready.c: how a sandbox is seen to be ready, and how often
 * it is probed. The journals are in golden/. */
#include <errno.h>
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
    rig_reset(WP_SANDBOX_STARTING);
    return 0;
}

static void
reset(const char *what)
{
    rig_note("--- %s", what);
    rig_reset(WP_SANDBOX_STARTING);
    rig.sandbox.ordered_ns = rig.now_ns - 1234567;
    rig.local.config.probe_every_ms = 1000;
    wp_rng_init(&rig.local.rng, 1);
}

static void
look(void)
{
    wp_sandbox_bridge_check(&rig.sandbox);
    rig_dump();
}

static void
a_port_that_takes_connections_is_ready(void **state)
{
    (void)state;
    reset("it takes one");
    look();
    reset("no descriptor");
    rig.socket_answer = -1;
    look();
    reset("nobody accepts");
    rig.connect_answer = -1;
    look();
    reset("a longest path");
    memset(rig.sandbox.socket_path, 's', WP_ENDPOINT_MAX);
    rig.sandbox.socket_path[WP_ENDPOINT_MAX] = '\0';
    look();
    rig_compare("ready/port");
}

static void
begin(const char *what)
{
    reset(what);
    rig.tmpl.probe = WP_READY_HTTP;
    rig.tmpl.probe_path = "/healthy";
    look();
}

static void
answer(struct rig_piece piece)
{
    rig_piece(piece);
    wp_sandbox_on_bridge(RIG_BRIDGE, EV_READ, &rig.sandbox);
    rig_dump();
}

static void
a_page_must_be_healthy(void **state)
{
    static const char *const replies[] = {"HTTP/1.1 200", "HTTP/1.0 399",
                                          "HTTP/1.1 199", "HTTP/1.1 400",
                                          "SSH-2.0-x\r\n"};

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(replies); i++) {
        begin(replies[i]);
        answer(
            (struct rig_piece){.bytes = replies[i], .len = strlen(replies[i])});
    }
    begin("in pieces");
    answer((struct rig_piece){.bytes = "HTTP/1", .len = 6});
    answer((struct rig_piece){.error = EAGAIN});
    answer((struct rig_piece){.error = EINTR});
    answer((struct rig_piece){.bytes = ".1 204 and more", .len = 15});
    begin("it ends");
    answer((struct rig_piece){.bytes = "HTTP/1", .len = 6});
    answer((struct rig_piece){.bytes = ""});
    begin("it breaks");
    answer((struct rig_piece){.error = ECONNRESET});
    reset("it cannot be asked");
    rig.tmpl.probe = WP_READY_HTTP;
    rig.tmpl.probe_path = "/healthy";
    rig.send_answer = 5;
    look();
    rig.sandbox.reply_len = 3;
    rig.send_answer = INT32_MAX;
    look();
    rig_compare("ready/page");
}

static void
looks_become_rarer(void **state)
{
    (void)state;
    rig.connect_answer = -1;
    for (int i = 0; i < 10; i++) {
        wp_sandbox_bridge_check(&rig.sandbox);
    }
    rig_dump();
    rig_compare("ready/retries");
}

static void
the_next_look_is_only_for_one_that_starts(void **state)
{
    (void)state;
    for (int i = WP_SANDBOX_QUEUED; i <= WP_SANDBOX_REMOVING; i++) {
        for (int lost = 0; lost < 2; lost++) {
            rig_note("--- state %d, %s", i, lost != 0 ? "lost" : "there");
            rig_reset((enum wp_sandbox_state)i);
            rig.sandbox.lost = lost != 0;
            rig.connect_answer = -1;
            wp_sandbox_on_bridge_timer(-1, EV_TIMEOUT, &rig.sandbox);
        }
    }
    rig_compare("ready/timer");
}

static void
what_is_to_outlive_the_daemon_is_recorded_first(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        reset(i == 0 ? "kept" : i == 1 ? "no record" : "its init is busy");
        rig.local.config.outlive = true;
        rig.record_answer = i == 1 ? WP_UNAVAILABLE : WP_OK;
        rig.send_answer = i == 2 ? -1 : INT32_MAX;
        look();
    }
    rig_compare("ready/outlives");
}

static void
probes_are_spread_by_a_quarter(void **state)
{
    static const uint32_t every_ms[] = {0, 1, 2, 3, 4, 1000, UINT32_MAX};

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(every_ms); i++) {
        reset("every so often");
        rig.local.config.probe_every_ms = every_ms[i];
        for (int j = 0; j < 8; j++) {
            wp_sandbox_next_probe(&rig.sandbox);
        }
    }
    rig_compare("ready/probes");
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, set_up)
    const struct CMUnitTest tests[] = {
        TEST(a_port_that_takes_connections_is_ready),
        TEST(a_page_must_be_healthy),
        TEST(looks_become_rarer),
        TEST(the_next_look_is_only_for_one_that_starts),
        TEST(what_is_to_outlive_the_daemon_is_recorded_first),
        TEST(probes_are_spread_by_a_quarter),
    };

    RIG_RUN(tests);
}
