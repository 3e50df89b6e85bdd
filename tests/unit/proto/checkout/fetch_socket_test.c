/* How a warmpool-fetch that serves is asked for a run: what it gets, what the
 * fetcher has of it, and what is said when it cannot be asked. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "proto/checkout/fetch_message.h"
#include "proto/checkout/fetch_socket.h"
#include "proto/sockets/passing.h"
#include "tests/support/base/descriptors.h"
#include "tests/support/base/journal.h"
#include "tests/support/base/temp_dir.h"

enum {
    PATIENCE_MS = 60000,
};

#define FAKE(type, name, ...)                                                  \
    type __wrap_##name(__VA_ARGS__);                                           \
    type __wrap_##name(__VA_ARGS__)

static bool told;           /* What is called goes into the journal. */
static const char *failing; /* A call; "send short" takes less than all. */
static int fails_with;

int __real_socket(int domain, int type, int protocol);
int __real_connect(int fd, const struct sockaddr *address, socklen_t len);
ssize_t __real_wp_passing_send(int fd, const void *bytes, size_t len,
                               int passed, int flags);
int __real_wp_fetch_credential_pipe(struct wp_str credential);
int __real_fcntl(int fd, int command, ...);
int __real_close(int fd);

static bool
fails(const char *call)
{
    if (!told || failing == NULL || strcmp(failing, call) != 0) {
        return false;
    }
    errno = fails_with;
    return true;
}

FAKE(int, socket, int domain, int type, int protocol)
{
    if (told) {
        journal("socket %d %s %d", domain,
                type == (SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC)
                    ? "of packets"
                    : "otherwise",
                protocol);
        journal_line();
    }
    return fails("socket") ? -1 : __real_socket(domain, type, protocol);
}

FAKE(int, connect, int fd, const struct sockaddr *address, socklen_t len)
{
    if (told) {
        const struct sockaddr_un *name = (const void *)address;

        journal("connect %d '%s'", name->sun_family, name->sun_path);
        journal_line();
        assert_int_equal(len, sizeof *name);
    }
    return fails("connect") ? -1 : __real_connect(fd, address, len);
}

FAKE(int, wp_fetch_credential_pipe, struct wp_str credential)
{
    journal("pipe of %zu", credential.len);
    journal_line();
    return fails("pipe") ? -1 : __real_wp_fetch_credential_pipe(credential);
}

FAKE(ssize_t, wp_passing_send, int fd, const void *bytes, size_t len,
     int passed, int flags)
{
    if (!told) {
        return __real_wp_passing_send(fd, bytes, len, passed, flags);
    }
    journal("send %zu %s %s", len, passed >= 0 ? "with it" : "alone",
            flags == MSG_NOSIGNAL ? "without a signal" : "otherwise");
    journal_line();
    if (fails("send")) {
        return -1;
    }
    return fails("send short")
               ? (ssize_t)len - 1
               : __real_wp_passing_send(fd, bytes, len, passed, flags);
}

FAKE(int, fcntl, int fd, int command, ...)
{
    va_list ap;
    int value;

    if (command == F_GETFD || command == F_GETFL) {
        return __real_fcntl(fd, command);
    }
    va_start(ap, command);
    value = va_arg(ap, int);
    va_end(ap);
    if (told) {
        journal("another %s from %d",
                command == F_DUPFD_CLOEXEC ? "that closes" : "otherwise",
                value);
        journal_line();
    }
    return fails("fcntl") ? -1 : __real_fcntl(fd, command, value);
}

/* What the caller says of an error is not what came of cleaning up. */
FAKE(int, close, int fd)
{
    int rc = __real_close(fd);

    if (told) {
        journal("close");
        journal_line();
        errno = EXDEV;
    }
    return rc;
}

/* --------------------------------------------------------------- the rig */

static char dir[512];
static int listener;

static int
begin(void **state)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "socket"};

    (void)state;
    told = false;
    failing = NULL;
    journal_drop();
    temp_dir_make(dir, sizeof dir);
    assert_int_equal(chdir(dir), 0);
    listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    assert_true(listener >= 0);
    assert_int_equal(
        bind(listener, (const struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(listener, 8), 0);
    return 0;
}

static int
end(void **state)
{
    (void)state;
    if (listener >= 0) {
        (void)close(listener);
    }
    assert_int_equal(chdir("/"), 0);
    temp_dir_remove(dir);
    return 0;
}

static const struct wp_fetch_run checkout = {
    .part = "part",
    .url = "https://example.com/a.git",
    .ref = "main",
    .bytes_max = 4711,
    .credential = {"user\0pass", 9},
};

static enum wp_status
start(const char *path, const struct wp_fetch_run *run,
      struct wp_fetch_started *started)
{
    struct wp_fetch_runner runner = wp_fetch_socket_runner(path);
    struct wp_err err = {0};
    enum wp_status status;

    told = true;
    status = runner.start(runner.self, run, started, &err);
    told = false;
    journal("= %d", (int)status);
    if (status != WP_OK) {
        journal(" %d %s", (int)err.status, err.msg);
    }
    journal(" %s %s", started->report_fd < 0 ? "no report" : "a report",
            started->end_fd < 0 ? "no end" : "an end");
    journal_line();
    return status;
}

static void
wait_for(int fd)
{
    struct pollfd one = {.fd = fd, .events = POLLIN};

    assert_int_equal(poll(&one, 1, PATIENCE_MS), 1);
}

/* The server's side: what it is asked. */
static int
served(void)
{
    char bytes[WP_FETCH_MESSAGE_MAX];
    char secret[64];
    int pipe;
    ssize_t len;
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

    assert_true(fd >= 0);
    wait_for(fd);
    len = wp_passing_receive(fd, bytes, sizeof bytes, &pipe);
    assert_true(len > 0);
    for (ssize_t i = 0; i < len; i++) {
        bytes[i] = bytes[i] == '\0' ? ';' : bytes[i];
    }
    assert_true(pipe >= 0);
    journal("asked ");
    journal_bytes(bytes, (size_t)len);
    len = read(pipe, secret, sizeof secret);
    assert_true(len >= 0);
    journal(" with ");
    journal_bytes(secret, (size_t)len);
    journal_line();
    assert_int_equal(read(pipe, secret, sizeof secret), 0);
    (void)close(pipe);
    return fd;
}

/* ----------------------------------------------------------------- tests */

static void
a_run_is_asked_for_and_reports_on_its_connection(void **state)
{
    const struct wp_fetch_run sweep = {.bytes_max = 1000, .age_s = 60};
    struct wp_fetch_runner runner = wp_fetch_socket_runner("socket");
    const size_t descriptors = descriptors_count();
    struct wp_fetch_started started;
    char text[16];
    int fd;

    (void)state;
    assert_null(runner.wait);
    assert_null(runner.drop);
    assert_int_equal(start("socket", &checkout, &started), WP_OK);
    fd = served();
    assert_int_not_equal(started.report_fd, started.end_fd);
    assert_int_equal(fcntl(started.report_fd, F_GETFD), FD_CLOEXEC);
    assert_int_equal(fcntl(started.end_fd, F_GETFD), FD_CLOEXEC);
    assert_int_equal(read(started.report_fd, text, sizeof text), -1);
    assert_int_equal(errno, EAGAIN);
    assert_int_equal(send(fd, "report", 6, MSG_NOSIGNAL), 6);
    wait_for(started.end_fd);
    assert_true(runner.has_ended(runner.self, started.end_fd));
    assert_int_equal(read(started.report_fd, text, sizeof text), 6);
    assert_memory_equal(text, "report", 6);
    runner.kill(runner.self, started.end_fd);
    assert_int_equal(recv(fd, text, sizeof text, 0), 0);
    assert_int_equal(send(fd, "more", 4, MSG_NOSIGNAL), -1);
    (void)close(fd);
    (void)close(started.report_fd);
    (void)close(started.end_fd);
    assert_int_equal(start("socket", &sweep, &started), WP_OK);
    fd = served();
    (void)close(fd);
    (void)close(started.report_fd);
    (void)close(started.end_fd);
    assert_int_equal(descriptors_count(), descriptors);
    journal_is("socket 1 of packets 0\n"
               "connect 1 'socket'\n"
               "pipe of 9\n"
               "close\n"
               "send 50 with it without a signal\n"
               "close\n"
               "another that closes from 0\n"
               "= 0 a report an end\n"
               "asked checkout;part;https://example.com/a.git;main;4711; with "
               "user\\00pass\n"
               "socket 1 of packets 0\n"
               "connect 1 'socket'\n"
               "pipe of 0\n"
               "close\n"
               "send 14 with it without a signal\n"
               "close\n"
               "another that closes from 0\n"
               "= 0 a report an end\n"
               "asked sweep;1000;60; with \n");
}

static void
what_fails_is_told_and_leaves_nothing(void **state)
{
    static const char *const calls[] = {"socket", "connect",    "pipe",
                                        "send",   "send short", "fcntl"};
    const size_t descriptors = descriptors_count();
    struct wp_fetch_started started;

    (void)state;
    fails_with = EMFILE;
    for (size_t i = 0; i < sizeof calls / sizeof(calls[0]); i++) {
        journal("-- %s", calls[i]);
        journal_line();
        failing = calls[i];
        assert_int_equal(start("socket", &checkout, &started), WP_UNAVAILABLE);
        assert_int_equal(descriptors_count(), descriptors);
    }
    journal_is("-- socket\n"
               "socket 1 of packets 0\n"
               "= 13 13 warmpool-fetch at socket: Too many open files no "
               "report no end\n"
               "-- connect\n"
               "socket 1 of packets 0\n"
               "connect 1 'socket'\n"
               "close\n"
               "= 13 13 warmpool-fetch at socket: Too many open files no "
               "report no end\n"
               "-- pipe\n"
               "socket 1 of packets 0\n"
               "connect 1 'socket'\n"
               "pipe of 9\n"
               "close\n"
               "= 13 13 warmpool-fetch at socket: Too many open files no "
               "report no end\n"
               "-- send\n"
               "socket 1 of packets 0\n"
               "connect 1 'socket'\n"
               "pipe of 9\n"
               "close\n"
               "send 50 with it without a signal\n"
               "close\n"
               "close\n"
               "= 13 13 warmpool-fetch at socket: Too many open files no "
               "report no end\n"
               "-- send short\n"
               "socket 1 of packets 0\n"
               "connect 1 'socket'\n"
               "pipe of 9\n"
               "close\n"
               "send 50 with it without a signal\n"
               "close\n"
               "close\n"
               "= 13 13 warmpool-fetch at socket: Too many open files no "
               "report no end\n"
               "-- fcntl\n"
               "socket 1 of packets 0\n"
               "connect 1 'socket'\n"
               "pipe of 9\n"
               "close\n"
               "send 50 with it without a signal\n"
               "close\n"
               "another that closes from 0\n"
               "close\n"
               "= 13 13 warmpool-fetch at socket: Too many open files no "
               "report no end\n");
}

static void
a_path_is_as_long_as_an_address_has_room(void **state)
{
    struct sockaddr_un address;
    char path[sizeof address.sun_path + 1];
    struct wp_fetch_started started;
    const size_t longest = sizeof address.sun_path - 1;

    (void)state;
    memset(path, '/', sizeof path);
    path[0] = '.';
    (void)snprintf(path + longest - 6, 7, "socket");
    assert_int_equal(start(path, &checkout, &started), WP_OK);
    (void)close(started.report_fd);
    (void)close(started.end_fd);
    memset(path, '/', sizeof path);
    path[0] = '.';
    (void)snprintf(path + longest - 5, 7, "socket");
    journal_drop();
    assert_int_equal(start(path, &checkout, &started), WP_UNAVAILABLE);
    journal("%zu", strlen(path));
    journal_line();
    assert_int_equal(close(listener), 0);
    listener = -1;
    assert_int_equal(start("socket", &checkout, &started), WP_UNAVAILABLE);
    assert_int_equal(start("nowhere", &checkout, &started), WP_UNAVAILABLE);
    journal_is("= 13 13 warmpool-fetch at "
               ".//////////////////////////////////////////////////////////////"
               "///////////////////////////////////////socket: File name too "
               "long no report no end\n"
               "108\n"
               "socket 1 of packets 0\n"
               "connect 1 'socket'\n"
               "close\n"
               "= 13 13 warmpool-fetch at socket: Connection refused no report "
               "no end\n"
               "socket 1 of packets 0\n"
               "connect 1 'nowhere'\n"
               "close\n"
               "= 13 13 warmpool-fetch at nowhere: No such file or directory "
               "no report no end\n");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            a_run_is_asked_for_and_reports_on_its_connection, begin, end),
        cmocka_unit_test_setup_teardown(what_fails_is_told_and_leaves_nothing,
                                        begin, end),
        cmocka_unit_test_setup_teardown(
            a_path_is_as_long_as_an_address_has_room, begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
