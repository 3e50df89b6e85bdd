/* What streams through the HTTP server between a client and a sandbox: bodies
 * of any size, and pipes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/support/http/http_server_rig.h"

enum {
    BIG = 8 << 20,
};

/* Takes BIG bytes of body, slowly at first, and answers with as many. */
static void
script_big(int fd)
{
    static char buffer[1 << 16];
    size_t got = 0;
    char *body;

    (void)rig_read_until(fd, "\r\n\r\n", rig.seen, sizeof rig.seen);
    body = strstr(rig.seen, "\r\n\r\n");
    got = body != NULL ? strlen(body + 4) : 0;
    while (got < BIG) {
        ssize_t n = recv(fd, buffer, sizeof buffer, 0);

        if (n <= 0) {
            return;
        }
        got += (size_t)n;
    }
    (void)snprintf(buffer, sizeof buffer,
                   "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", BIG);
    rig_send_text(fd, buffer);
    memset(buffer, 'r', sizeof buffer);
    for (size_t i = 0; i < BIG / sizeof buffer; i++) {
        rig_send(fd, buffer, sizeof buffer);
    }
}

/* A body far beyond every buffer goes through both ways, whole. */
static void
test_big_bodies(void **state)
{
    static char buffer[1 << 16];
    size_t got = 0;
    char *body;
    int fd;

    (void)state;
    rig_sandbox_start(script_big);
    rig_start();
    fd = rig_dial(rig.unix_listen);
    (void)snprintf(buffer, sizeof buffer,
                   "PUT /sandboxes/box-1/ HTTP/1.1\r\nExpect: 100-continue"
                   "\r\nContent-Length: %d\r\n\r\n",
                   BIG);
    rig_send_text(fd, buffer);
    (void)rig_read_until(fd, "\r\n\r\n", rig.answer, sizeof rig.answer);
    assert_begins(rig.answer, "HTTP/1.1 100 Continue\r\n\r\n");
    memset(buffer, 'q', sizeof buffer);
    for (size_t i = 0; i < BIG / sizeof buffer; i++) {
        rig_send(fd, buffer, sizeof buffer);
    }
    got = rig_read_until(fd, "\r\n\r\n", rig.answer, sizeof rig.answer);
    assert_begins(rig.answer, "HTTP/1.1 200 OK\r\n");
    body = strstr(rig.answer, "\r\n\r\n");
    assert_non_null(body);
    got -= (size_t)(body + 4 - rig.answer);
    while (got < BIG) {
        ssize_t n = recv(fd, buffer, sizeof buffer, 0);

        assert_true(n > 0);
        assert_int_equal(buffer[0], 'r');
        assert_int_equal(buffer[n - 1], 'r');
        got += (size_t)n;
    }
    assert_int_equal(got, BIG);
    assert_lacks(rig.seen, "Expect");
    (void)close(fd);
}

static _Atomic(size_t) flood_sent;
static _Atomic(bool) flood_stalled;

/* Answers without end until nobody takes it any more. */
static void
script_flood(int fd)
{
    static char buffer[1 << 16];
    struct pollfd p = {fd, POLLOUT, 0};

    (void)rig_read_until(fd, "\r\n\r\n", rig.seen, sizeof rig.seen);
    rig_send_text(fd, "HTTP/1.1 200 OK\r\n\r\n");
    while (poll(&p, 1, 300) == 1) {
        ssize_t n =
            send(fd, buffer, sizeof buffer, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (n <= 0 && errno != EAGAIN) {
            return;
        }
        flood_sent += n > 0 ? (size_t)n : 0;
    }
    flood_stalled = true; /* The proxy does not read. */
}

/* A client that does not read stops the sandbox, not the daemon's memory; when
 * it reads at last, all is there. */
static void
test_back_pressure(void **state)
{
    static char buffer[1 << 16];
    size_t got = 0;
    ssize_t n;
    int fd;

    (void)state;
    flood_sent = 0;
    flood_stalled = false;
    rig_sandbox_start(script_flood);
    rig_start();
    fd = rig_dial(rig.unix_listen);
    rig_send_text(fd, "GET /sandboxes/box-1/ HTTP/1.1\r\n\r\n");
    for (int i = 0; i < RIG_PATIENCE_MS && !flood_stalled; i++) {
        (void)usleep(1000);
    }
    assert_true(flood_stalled);
    assert_true(flood_sent > 0);
    assert_true(flood_sent < 4 << 20);
    while ((n = recv(fd, buffer, sizeof buffer, 0)) > 0) {
        got += (size_t)n;
    }
    assert_true(got > flood_sent);
    (void)close(fd);
}

static void
script_upgrade(int fd)
{
    char byte;

    (void)rig_read_until(fd, "{}", rig.seen, sizeof rig.seen);
    rig_send_text(fd,
                  "HTTP/1.1 101 Switching Protocols\r\n"
                  "Connection: Upgrade\r\nUpgrade: warmpool-exec/1\r\n\r\n>");
    while (recv(fd, &byte, 1, 0) == 1) {
        rig_send(fd, &byte, 1);
    }
    rig_send_text(fd, "<"); /* After the client's half-close. */
}

static void
test_upgrade(void **state)
{
    int fd;

    (void)state;
    rig_sandbox_start(script_upgrade);
    rig_start();
    fd = rig_dial(rig.unix_listen);
    rig_send_text(fd, "POST /sandboxes/box-1/v1/exec HTTP/1.1\r\n"
                      "Connection: Upgrade\r\nUpgrade: warmpool-exec/1\r\n"
                      "Content-Length: 2\r\n\r\n{}");
    (void)rig_read_until(fd, "\r\n\r\n>", rig.answer, sizeof rig.answer);
    assert_begins(rig.answer, "HTTP/1.1 101 Switching Protocols\r\n");
    assert_has(rig.answer, "Upgrade: warmpool-exec/1\r\n");
    assert_has(rig.answer, "Connection: Upgrade\r\n");
    assert_has(rig.seen, "Upgrade: warmpool-exec/1\r\n");
    assert_has(rig.seen, "Connection: Upgrade\r\n");
    rig_send_text(fd, "abc");
    (void)rig_read_until(fd, "abc", rig.answer, sizeof rig.answer);
    assert_string_equal(rig.answer, "abc");
    (void)shutdown(fd, SHUT_WR);
    (void)rig_read_until(fd, NULL, rig.answer, sizeof rig.answer);
    assert_string_equal(rig.answer, "<");
    (void)close(fd);
}

static _Atomic(bool) last_words_said;

/* Says all that is taken, and closes without having read. */
static void
script_last_words(int fd)
{
    static char buffer[1 << 12];
    struct pollfd p = {fd, POLLOUT, 0};

    (void)rig_read_until(fd, "{}", rig.seen, sizeof rig.seen);
    rig_send_text(fd,
                  "HTTP/1.1 101 Switching Protocols\r\n"
                  "Connection: Upgrade\r\nUpgrade: warmpool-exec/1\r\n\r\n");
    while (poll(&p, 1, 300) == 1) {
        ssize_t n =
            send(fd, buffer, sizeof buffer, MSG_NOSIGNAL | MSG_DONTWAIT);

        flood_sent += n > 0 ? (size_t)n : 0;
    }
    last_words_said = true;
}

/* Writing to a sandbox that has said its last words and closed fails, while
 * they still wait in the kernel to be read: the client gets all of them. */
static void
test_last_words_are_read(void **state)
{
    static char buffer[1 << 16];
    size_t got = 0;
    ssize_t n;
    int fd;

    (void)state;
    flood_sent = 0;
    last_words_said = false;
    rig_sandbox_start(script_last_words);
    rig_start();
    fd = rig_dial(rig.unix_listen);
    rig_send_text(fd, "POST /sandboxes/box-1/v1/exec HTTP/1.1\r\n"
                      "Connection: Upgrade\r\nUpgrade: warmpool-exec/1\r\n"
                      "Content-Length: 2\r\n\r\n{}");
    for (int i = 0; i < RIG_PATIENCE_MS && !last_words_said; i++) {
        (void)usleep(1000);
    }
    assert_true(last_words_said);
    rig_send_text(fd, "x");
    for (int i = 0; i < 20; i++) {
        (void)usleep(1000); /* For the write to be tried. */
        (void)rig_stats();
    }
    n = (ssize_t)rig_read_until(fd, "\r\n\r\n", rig.answer, sizeof rig.answer);
    assert_begins(rig.answer, "HTTP/1.1 101 Switching Protocols\r\n");
    got = (size_t)(rig.answer + n - strstr(rig.answer, "\r\n\r\n") - 4);
    while ((n = recv(fd, buffer, sizeof buffer, 0)) > 0) {
        got += (size_t)n;
    }
    assert_int_equal(got, flood_sent);
    (void)close(fd);
}

/* Answers once the request is whole, and at its leisure. */
static void
script_late_big(int fd)
{
    static char buffer[1 << 16];

    (void)rig_read_until(fd, "{}", rig.seen, sizeof rig.seen);
    (void)snprintf(buffer, sizeof buffer,
                   "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", BIG);
    rig_send_text(fd, buffer);
    memset(buffer, 'r', sizeof buffer);
    for (size_t i = 0; i < BIG / sizeof buffer; i++) {
        rig_send(fd, buffer, sizeof buffer);
    }
}

static void
assert_proxied_in_full(int fd)
{
    static char buffer[1 << 16];
    size_t got = 0;
    ssize_t n;

    for (int i = 0; i < 2; i++) {
        rig_send_text(fd, "POST /sandboxes/box-1/ HTTP/1.1\r\n"
                          "Authorization: Bearer " RIG_ADMIN "\r\n"
                          "Content-Length: 2\r\n\r\n{}");
    }
    assert_int_equal(shutdown(fd, SHUT_WR), 0);
    while ((n = recv(fd, buffer, sizeof buffer, 0)) > 0) {
        got += (size_t)n;
    }
    assert_int_equal(n, 0);
    assert_in_range(got, 2 * BIG, 2 * BIG + 500);
    (void)close(fd);
}

static void
test_half_closed_client_is_answered(void **state)
{
    (void)state;
    rig_sandbox_start(script_late_big);
    rig_start();
    assert_proxied_in_full(rig_dial(rig_tcp()));
    assert_proxied_in_full(rig_dial(rig.unix_listen));
    assert_int_equal(rig_stats().upstream_failed_total, 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        RIG_TEST(test_big_bodies),
        RIG_TEST(test_back_pressure),
        RIG_TEST(test_upgrade),
        RIG_TEST(test_last_words_are_read),
        RIG_TEST(test_half_closed_client_is_answered),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
