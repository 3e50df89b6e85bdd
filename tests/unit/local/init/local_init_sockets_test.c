/* tests/unit/local/init/local_init_sockets_test.c - warmpool-init's own
 * sockets: where the egress proxy's clients come, and the probe of the port. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "local/egress_env.h"
#include "local/init/egress.h"
#include "tests/unit/local/init/parts.h"

enum {
    PATIENCE_MS = 60000
};

/* --- Egress --- */

static int
take_port(uint16_t *port)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET,
                             .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof v4;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_int_equal(bind(fd, (struct sockaddr *)&v4, sizeof v4), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&v4, &len), 0);
    *port = ntohs(v4.sin_port);
    return fd;
}

static int
connect_to(uint16_t port)
{
    const struct sockaddr_in v4 = {.sin_family = AF_INET,
                                   .sin_port = htons(port),
                                   .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_int_equal(connect(fd, (const struct sockaddr *)&v4, sizeof v4), 0);
    return fd;
}

/* In use while somebody is connected to that port, accepted or not. */
static void
test_egress_is_in_use(void **state)
{
    struct pollfd waits = {.events = POLLIN};
    uint16_t port;
    int listener = -1;
    int client;

    (void)state;
    /* Another process may take a port that was free a moment ago. */
    for (int i = 0; i < 100 && listener < 0; i++) {
        (void)close(take_port(&port));
        listener = wp_init_egress_listen(port);
    }
    assert_true(listener >= 0);
    assert_true((fcntl(listener, F_GETFD) & FD_CLOEXEC) != 0);
    assert_false(wp_init_egress_in_use(port));
    client = connect_to(port);
    /* A client may be connected before its server knows. */
    waits.fd = listener;
    assert_int_equal(poll(&waits, 1, PATIENCE_MS), 1);
    assert_true(wp_init_egress_in_use(port));
    assert_int_equal(wp_init_egress_listen(port), -1);
    assert_true(wp_init_egress_in_use(port));
    (void)close(accept(listener, NULL, NULL));
    (void)close(client);
    while (wp_init_egress_in_use(port)) {
        (void)usleep(1000); /* The kernel is at it. */
    }
    (void)close(listener);
}

/* What the template sets stays. */
static void
test_egress_variables(void **state)
{
    static const char *const own = "http://own:1";

    (void)state;
#define CLEAR(name, value) assert_int_equal(unsetenv(name), 0);
    WP_EGRESS_ENV(CLEAR)
#undef CLEAR
    assert_true(wp_init_egress_env());
    assert_string_equal(getenv("http_proxy"), "http://127.0.0.1:3128");
#define EXPECT(name, value) assert_string_equal(getenv(name), value);
    WP_EGRESS_ENV(EXPECT)
#undef EXPECT
    assert_int_equal(setenv("https_proxy", own, 1), 0);
    assert_true(wp_init_egress_env());
    assert_string_equal(getenv("https_proxy"), own);
    assert_string_equal(getenv("HTTPS_PROXY"), WP_EGRESS_PROXY_URL);
}

/* --- The probe of the port --- */

static struct {
    int times;
    bool answered;
} outcome;

static void
on_done(struct wp_inner_probe *probe, bool answered)
{
    (void)probe;
    outcome.times++;
    outcome.answered = answered;
}

static void
start(struct wp_inner_probe *probe, int epoll_fd, uint16_t port,
      const char *path)
{
    outcome.times = 0;
    wp_inner_probe_init(probe, epoll_fd, port, path);
    probe->done = on_done;
    assert_false(wp_inner_probe_running(probe));
    wp_inner_probe_start(probe);
}

/* One event, which it must come to. */
static void
turn(int epoll_fd)
{
    struct epoll_event event;
    struct wp_watch *watch;

    assert_int_equal(epoll_wait(epoll_fd, &event, 1, PATIENCE_MS), 1);
    watch = event.data.ptr;
    watch->on_events(watch, event.events);
}

static void
expect_outcome(const struct wp_inner_probe *probe, bool answered)
{
    assert_int_equal(outcome.times, 1);
    assert_int_equal(outcome.answered, answered);
    assert_false(wp_inner_probe_running(probe));
    assert_int_equal(probe->fd, -1);
    /* The next try is at the other address, after one without an answer. */
    assert_int_equal(probe->v6, !answered);
}

static void
test_a_connection_is_an_answer(void **state)
{
    struct wp_inner_probe probe;
    int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    uint16_t port;
    int listener = take_port(&port);

    (void)state;
    start(&probe, epoll_fd, port, NULL);
    if (wp_inner_probe_running(&probe)) {
        turn(epoll_fd);
    }
    expect_outcome(&probe, false); /* Nobody listens. */
    assert_int_equal(listen(listener, 4), 0);
    start(&probe, epoll_fd, port, NULL);
    turn(epoll_fd);
    expect_outcome(&probe, true);
    start(&probe, epoll_fd, port, NULL);
    assert_true(wp_inner_probe_running(&probe));
    wp_inner_probe_give_up(&probe);
    expect_outcome(&probe, false);
    wp_inner_probe_give_up(&probe);
    assert_int_equal(outcome.times, 1);
    (void)close(listener);
    (void)close(epoll_fd);
}

/* In one piece or in many; what is no status line is no answer, nor is an end
 * before it. */
static void
test_answers_by_http(void **state)
{
    static const struct {
        const char *pieces[5];
        bool answered;
    } rows[] = {
        {{"HTTP/1.1 200 OK\r\n\r\n"}, true},
        {{"H", "TTP/1", ".1 20", "4"}, true},
        {{"HTTP/1.1 399 x"}, true},
        {{"HTTP/1.1 400 x"}, false},
        {{"HTTP/1.1 ", "500 x"}, false},
        {{"SSH-2.0-OpenSSH"}, false},
        {{"HTTP/1.1", ""}, false}, /* "": it closes. */
        {{""}, false},
    };
    int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    uint16_t port;
    int listener = take_port(&port);

    (void)state;
    assert_int_equal(listen(listener, 4), 0);
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        struct wp_inner_probe probe;
        char request[WP_HTTP_PROBE_MAX] = "";
        char asked[WP_HTTP_PROBE_MAX] = "";
        int fd;

        start(&probe, epoll_fd, port, "/ok");
        turn(epoll_fd);
        assert_int_equal(outcome.times, 0);
        fd = accept(listener, NULL, NULL);
        assert_true(fd >= 0);
        assert_true(recv(fd, asked, sizeof asked - 1, 0) > 0);
        assert_true(wp_http_probe_request("/ok", request, sizeof request) > 0);
        assert_string_equal(asked, request);
        for (int p = 0; rows[i].pieces[p] != NULL; p++) {
            const char *piece = rows[i].pieces[p];

            assert_int_equal(outcome.times, 0);
            if (piece[0] != '\0') {
                assert_int_equal(send(fd, piece, strlen(piece), MSG_NOSIGNAL),
                                 strlen(piece));
            } else {
                (void)shutdown(fd, SHUT_WR);
            }
            turn(epoll_fd);
        }
        if (outcome.times != 1 || outcome.answered != rows[i].answered) {
            fail_msg("row %zu: %d outcomes, %d", i, outcome.times,
                     (int)outcome.answered);
        }
        expect_outcome(&probe, rows[i].answered);
        (void)close(fd);
    }
    (void)close(listener);
    (void)close(epoll_fd);
}

/* No words yet, or a path that makes no request. */
static void
test_probe_waits_for_words(void **state)
{
    static char long_path[2 * WP_HTTP_PROBE_MAX];
    struct wp_inner_probe probe;
    int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    uint16_t port;
    int listener = take_port(&port);

    (void)state;
    assert_int_equal(listen(listener, 4), 0);
    start(&probe, epoll_fd, port, "/ok");
    turn(epoll_fd);
    assert_true(probe.sent);
    /* An event without bytes, as another one of the same batch leaves it. */
    probe.watch.on_events(&probe.watch, EPOLLIN);
    assert_int_equal(outcome.times, 0);
    assert_true(wp_inner_probe_running(&probe));
    wp_inner_probe_give_up(&probe);
    expect_outcome(&probe, false);
    probe.watch.on_events(&probe.watch, EPOLLIN);
    assert_int_equal(outcome.times, 1);
    memset(long_path, 'a', sizeof long_path - 1);
    start(&probe, epoll_fd, port, long_path);
    turn(epoll_fd);
    expect_outcome(&probe, false);
    (void)close(listener);
    (void)close(epoll_fd);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_egress_is_in_use),
        cmocka_unit_test(test_egress_variables),
        cmocka_unit_test(test_a_connection_is_an_answer),
        cmocka_unit_test(test_answers_by_http),
        cmocka_unit_test(test_probe_waits_for_words),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
