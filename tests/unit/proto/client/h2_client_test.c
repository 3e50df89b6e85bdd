/* The light gRPC client against a server that reads when it pleases. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "proto/client/h2_client.h"
#include "tests/support/base/temp_dir.h"

enum {
    CALLS = 16,
    REQUEST_BYTES = 60000, /* All of them: more than a socket holds. */
};

/* SETTINGS with an initial window of 1 MiB, and a WINDOW_UPDATE of the whole
 * connection by 16 MiB. */
static const uint8_t windows[] = {0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 4, 0, 0x10, 0,
                                  0, 0, 0, 4, 8, 0, 0, 0, 0, 0, 1, 0, 0,    0};

static char dir[256];
static struct wp_h2 *h2;
static int server = -1;

static int
set_up(void **state)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    char target[300];
    struct wp_err err;

    (void)state;
    temp_dir_make_fast(dir, sizeof dir);
    (void)snprintf(name.sun_path, sizeof name.sun_path, "%.90s/s", dir);
    (void)snprintf(target, sizeof target, "unix:%s", name.sun_path);
    assert_true(listener >= 0);
    assert_int_equal(
        bind(listener, (const struct sockaddr *)&name, sizeof name), 0);
    assert_int_equal(listen(listener, 1), 0);
    h2 = wp_h2_connect(target, 1, &err);
    assert_non_null(h2);
    server = accept(listener, NULL, NULL);
    assert_true(server >= 0);
    (void)close(listener);
    return 0;
}

static int
tear_down(void **state)
{
    (void)state;
    wp_h2_close(h2);
    (void)close(server);
    temp_dir_remove(dir);
    return 0;
}

static size_t
drain(void)
{
    static uint8_t bytes[1 << 16];
    size_t all = 0;
    ssize_t n;

    while ((n = recv(server, bytes, sizeof bytes, MSG_DONTWAIT)) > 0) {
        all += (size_t)n;
    }
    assert_true(n < 0 && errno == EAGAIN);
    return all;
}

static bool
is_readable(int wait_ms)
{
    struct pollfd pfd = {.fd = wp_h2_fd(h2), .events = POLLIN};

    return poll(&pfd, 1, wait_ms) == 1;
}

static void
never_done(struct wp_h2_call *call)
{
    (void)call;
    fail_msg("a call ended that nobody answered");
}

/* What does not fit waits, and whoever polls is told when there is room. */
static void
waits_for_a_server_that_does_not_read(void **state)
{
    static uint8_t requests[CALLS][WP_H2_FRAME_HEAD + REQUEST_BYTES];
    static struct wp_h2_call calls[CALLS];
    uint8_t reply[16];
    unsigned method = wp_h2_method(h2, "/a.B/C");
    struct wp_err err;
    size_t sent = 0;

    (void)state;
    assert_int_equal(write(server, windows, sizeof windows), sizeof windows);
    assert_true(is_readable(10000));
    assert_int_equal(wp_h2_turn(h2, 0, &err), WP_OK);
    for (int i = 0; i < CALLS; i++) {
        calls[i] = (struct wp_h2_call){.method = method,
                                       .request_len = REQUEST_BYTES,
                                       .request = requests[i],
                                       .done = never_done,
                                       .reply = reply,
                                       .reply_cap = sizeof reply};
        assert_true(wp_h2_start(h2, &calls[i]));
    }
    assert_true(wp_h2_has_output(h2));
    assert_int_equal(wp_h2_turn(h2, 0, &err), WP_OK);
    assert_false(wp_h2_has_output(h2)); /* Nothing a turn could send now. */
    assert_false(is_readable(0));
    for (int turns = 0; sent < (size_t)CALLS * REQUEST_BYTES; turns++) {
        assert_true(turns < 1000);
        sent += drain();
        if (sent < (size_t)CALLS * REQUEST_BYTES) {
            assert_true(is_readable(10000));
        }
        assert_int_equal(wp_h2_turn(h2, 0, &err), WP_OK);
    }
    sent += drain();
    assert_int_equal(wp_h2_turn(h2, 0, &err), WP_OK);
    assert_false(is_readable(0)); /* With room it is not told again. */
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(waits_for_a_server_that_does_not_read,
                                        set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
