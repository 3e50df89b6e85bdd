/* A session of exec, from the system's calls upwards: what is waited for, what
 * goes to the sandbox and to the outputs, and what ends it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <ctype.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "allocator/ctl/sandbox/exec_stream_client.h"
#include "tests/support/base/golden.h"

#define GOLDEN(name) WP_TEST_GOLDEN "/" name ".txt"

enum {
    SOCKET_FD = 1001,
    IN_FD = 1002,
    SIGNAL_FD = 1003,
    SHOWN_MAX = 80,
};

/* What the system's calls answer, one after the other. */
struct step {
    const char *call;  /* NULL: no more. */
    long result;       /* Negative: -errno. */
    short revents[3];  /* Of poll. */
    const char *bytes; /* Of read and recv, `result` of them; NULL: zeros. */
};

static struct golden seen;
static const struct step *steps;
static const struct step none = {NULL, -EIO, {0}, NULL};

static void
note_bytes(const char *bytes, size_t len)
{
    for (size_t i = 0; i < len && i < SHOWN_MAX; i++) {
        golden_add(&seen, isprint((unsigned char)bytes[i]) ? "%c" : "\\x%02x",
                   (unsigned char)bytes[i]);
    }
    golden_add(&seen, "%s\n", len > SHOWN_MAX ? "..." : "");
}

static long
take(const char *call, const struct step **out)
{
    const struct step *step = steps;

    if (step == NULL || step->call == NULL || strcmp(step->call, call) != 0) {
        golden_add(&seen, "  (no answer for %s)\n", call);
        step = &none;
    } else {
        steps++;
    }
    *out = step;
    if (step->result < 0) {
        errno = (int)-step->result;
        golden_add(&seen, "    %s\n", strerror(errno));
        return -1;
    }
    errno = EDOM; /* What succeeds says nothing there. */
    return step->result;
}

int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout_ms);
int
__wrap_poll(struct pollfd *fds, nfds_t n, int timeout_ms)
{
    const struct step *step;
    long result;

    golden_add(&seen, "  poll");
    for (nfds_t i = 0; i < n; i++) {
        golden_add(&seen, " %d%s%s", fds[i].fd,
                   (fds[i].events & POLLIN) != 0 ? " in" : "",
                   (fds[i].events & POLLOUT) != 0 ? " out" : "");
    }
    golden_add(&seen, ", %d ms\n", timeout_ms);
    result = take("poll", &step);
    for (nfds_t i = 0; i < n && i < 3; i++) {
        fds[i].revents = step->revents[i];
    }
    return (int)result;
}

ssize_t __wrap_send(int fd, const void *bytes, size_t len, int flags);
ssize_t
__wrap_send(int fd, const void *bytes, size_t len, int flags)
{
    const struct step *step;
    long result;

    assert_int_equal(fd, SOCKET_FD);
    assert_int_equal(flags, MSG_NOSIGNAL);
    golden_add(&seen, "  send %zu: ", len);
    note_bytes(bytes, len);
    result = take("send", &step);
    return result > (long)len ? (ssize_t)len : result;
}

static ssize_t
give(const char *call, void *bytes, size_t cap)
{
    const struct step *step;
    long result = take(call, &step);

    assert_true(result <= (long)cap);
    if (result > 0 && step->bytes != NULL) {
        memcpy(bytes, step->bytes, (size_t)result);
    } else if (result > 0) {
        memset(bytes, 'z', (size_t)result);
    }
    return result;
}

ssize_t __wrap_recv(int fd, void *bytes, size_t cap, int flags);
ssize_t
__wrap_recv(int fd, void *bytes, size_t cap, int flags)
{
    assert_int_equal(fd, SOCKET_FD);
    assert_int_equal(flags, 0);
    golden_add(&seen, "  recv %zu\n", cap);
    return give("recv", bytes, cap);
}

ssize_t __wrap_read(int fd, void *bytes, size_t cap);
ssize_t
__wrap_read(int fd, void *bytes, size_t cap)
{
    if (fd == SIGNAL_FD) {
        struct signalfd_siginfo info = {0};
        const struct step *step;
        long result;

        assert_int_equal(cap, sizeof info);
        golden_add(&seen, "  read a signal\n");
        result = take("signal", &step);
        info.ssi_signo = (uint32_t)(result > 0 ? result : 0);
        memcpy(bytes, &info, sizeof info);
        return result > 0 ? (ssize_t)sizeof info : result;
    }
    golden_add(&seen, "  read %d %zu\n", fd, cap);
    return give("read", bytes, cap);
}

ssize_t __wrap_write(int fd, const void *bytes, size_t len);
ssize_t
__wrap_write(int fd, const void *bytes, size_t len)
{
    const struct step *step;
    long result;

    golden_add(&seen, "  write %d %zu: ", fd, len);
    note_bytes(bytes, len);
    result = take("write", &step);
    return result > (long)len ? (ssize_t)len : result;
}

int __wrap_signalfd(int fd, const sigset_t *mask, int flags);
int
__wrap_signalfd(int fd, const sigset_t *mask, int flags)
{
    sigset_t now;

    assert_int_equal(fd, -1);
    assert_int_equal(flags, SFD_CLOEXEC | SFD_NONBLOCK);
    assert_int_equal(pthread_sigmask(SIG_SETMASK, NULL, &now), 0);
    golden_add(&seen, "  signals");
    for (int i = 1; i < SIGRTMIN; i++) {
        if (sigismember(mask, i) == 1) {
            assert_int_equal(sigismember(&now, i), 1);
            golden_add(&seen, " %d", i);
        }
    }
    golden_add(&seen, "\n");
    return SIGNAL_FD;
}

int __real_close(int fd);
int __wrap_close(int fd);
int
__wrap_close(int fd)
{
    if (fd != SIGNAL_FD) {
        return __real_close(fd);
    }
    golden_add(&seen, "  signals closed\n");
    return 0;
}

#define POLL(socket, signal, in)                                               \
    {                                                                          \
        "poll", 1, {socket, signal, in}, NULL                                  \
    }
#define SENDS                                                                  \
    {                                                                          \
        "send", 1 << 20, {0}, NULL                                             \
    }
#define SENDS_NONE                                                             \
    {                                                                          \
        "send", -EAGAIN, {0}, NULL                                             \
    }
#define COMES(bytes)                                                           \
    {                                                                          \
        "recv", sizeof(bytes) - 1, {0}, bytes                                  \
    }
#define EXITS COMES("\x12\0\0\0\0\0\0\x0f{\"exit_code\":7}")
#define ENDS POLL(POLLIN, 0, 0), EXITS
#define SAYS(type, text) COMES(type "\0\0\0\0\0\0\x05" text)
#define END                                                                    \
    {                                                                          \
        NULL, 0, {0}, NULL                                                     \
    }

struct session {
    const char *what;
    int in_fd;
    struct step steps[16];
};

static void
run_all(const struct session *sessions, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct wp_exec_exit end;
        struct wp_err err = {.status = WP_OK};
        sigset_t before;
        sigset_t after;
        enum wp_status status;

        golden_add(&seen, "%s\n", sessions[i].what);
        steps = sessions[i].steps;
        assert_int_equal(pthread_sigmask(SIG_SETMASK, NULL, &before), 0);
        status = wp_exec_session_run(SOCKET_FD, sessions[i].in_fd, NULL, 0,
                                     &end, &err);
        assert_int_equal(pthread_sigmask(SIG_SETMASK, NULL, &after), 0);
        for (int number = 1; number < SIGRTMIN; number++) {
            assert_int_equal(sigismember(&before, number),
                             sigismember(&after, number));
        }
        if (status == WP_OK) {
            golden_add(&seen, "ok, exit code %d\n", end.exit_code);
        } else {
            golden_add(&seen, "%s: %s\n", wp_status_name(status), err.msg);
        }
        if (steps->call != NULL) {
            golden_add(&seen, "(%s was not called)\n", steps->call);
        }
        golden_add(&seen, "\n");
    }
}

static void
test_input(void **state)
{
    static const struct session sessions[] = {
        {"no input", -1, {POLL(POLLOUT, 0, 0), SENDS, ENDS, END}},
        {"a word, and its end",
         IN_FD,
         {POLL(0, 0, POLLIN),
          {"read", 5, {0}, "hello"},
          SENDS,
          POLL(0, 0, POLLHUP),
          {"read", 0, {0}, NULL},
          SENDS,
          ENDS,
          END}},
        {"it cannot be read",
         IN_FD,
         {POLL(0, 0, POLLIN),
          {"read", -EAGAIN, {0}, NULL},
          POLL(0, 0, POLLIN),
          {"read", -EINTR, {0}, NULL},
          POLL(0, 0, POLLIN),
          {"read", -EIO, {0}, NULL},
          SENDS,
          ENDS,
          END}},
        {"as much as is read at once, in pieces, and nothing more meanwhile",
         IN_FD,
         {POLL(0, 0, POLLIN),
          {"read", 32768, {0}, NULL},
          SENDS_NONE,
          POLL(POLLOUT, 0, 0),
          {"send", 8, {0}, NULL},
          POLL(POLLOUT, 0, 0),
          {"send", -EINTR, {0}, NULL},
          POLL(POLLOUT, 0, 0),
          {"send", 32767, {0}, NULL},
          POLL(POLLOUT, 0, 0),
          SENDS,
          ENDS,
          END}},
        {"nobody takes it, but there is an answer",
         IN_FD,
         {POLL(0, 0, POLLIN),
          {"read", 5, {0}, "hello"},
          {"send", -EPIPE, {0}, NULL},
          ENDS,
          END}},
        {"it is reset, and there is an answer",
         IN_FD,
         {POLL(0, 0, POLLIN),
          {"read", 5, {0}, "hello"},
          {"send", -ECONNRESET, {0}, NULL},
          ENDS,
          END}},
        {"it breaks",
         IN_FD,
         {POLL(0, 0, POLLIN),
          {"read", 5, {0}, "hello"},
          {"send", -ENETDOWN, {0}, NULL},
          END}},
    };

    (void)state;
    run_all(sessions, WP_ARRAY_LEN(sessions));
    golden_compare(seen.text, GOLDEN("session_input"));
}

static void
test_signals(void **state)
{
    static const struct session sessions[] = {
        {"one is passed on",
         IN_FD,
         {POLL(0, POLLIN, 0),
          {"signal", SIGTERM, {0}, NULL},
          SENDS,
          ENDS,
          END}},
        {"it was somebody else's",
         IN_FD,
         {POLL(0, POLLIN, 0), {"signal", -EAGAIN, {0}, NULL}, ENDS, END}},
        {"several, behind one that is on its way",
         -1,
         {POLL(0, POLLIN, 0),
          {"signal", SIGHUP, {0}, NULL},
          SENDS_NONE,
          POLL(0, POLLIN, 0),
          {"signal", SIGINT, {0}, NULL},
          {"send", 3, {0}, NULL},
          POLL(0, POLLIN, 0),
          {"signal", SIGQUIT, {0}, NULL},
          SENDS,
          ENDS,
          END}},
        {"the second interrupt",
         IN_FD,
         {POLL(0, POLLIN, 0),
          {"signal", SIGINT, {0}, NULL},
          SENDS,
          POLL(0, POLLIN, 0),
          {"signal", SIGINT, {0}, NULL},
          END}},
        {"all at once",
         IN_FD,
         {POLL(POLLIN, POLLIN, POLLIN),
          SAYS("\x10", "hello"),
          {"write", 100, {0}, NULL},
          {"signal", SIGTERM, {0}, NULL},
          {"read", 5, {0}, "input"},
          SENDS,
          ENDS,
          END}},
        {"the end, and nothing else any more",
         IN_FD,
         {POLL(POLLIN, POLLIN, POLLIN),
          EXITS,
          {"signal", SIGTERM, {0}, NULL},
          {"read", 5, {0}, "input"},
          SENDS,
          END}},
    };

    (void)state;
    run_all(sessions, WP_ARRAY_LEN(sessions));
    golden_compare(seen.text, GOLDEN("session_signals"));
}

/* More frames than there is room for behind a whole piece of input. */
static void
test_many_signals(void **state)
{
    static struct step many[400];
    size_t n = 0;
    struct wp_exec_exit end;
    struct wp_err err;

    (void)state;
    many[n++] = (struct step)POLL(0, 0, POLLIN);
    many[n++] = (struct step){"read", 32768, {0}, NULL};
    many[n++] = (struct step)SENDS_NONE;
    for (int i = 0; i < 6; i++) {
        many[n++] = (struct step)POLL(0, POLLIN, 0);
        many[n++] = (struct step){"signal", SIGTERM, {0}, NULL};
        many[n++] = (struct step)SENDS_NONE;
    }
    many[n++] = (struct step)POLL(POLLIN, 0, 0);
    many[n++] = (struct step)EXITS;
    many[n++] = (struct step)SENDS;
    steps = many;
    assert_int_equal(wp_exec_session_run(SOCKET_FD, IN_FD, NULL, 0, &end, &err),
                     WP_OK);
    golden_compare(seen.text, GOLDEN("session_many_signals"));
}

static void
test_output(void **state)
{
    static const struct session sessions[] = {
        {"each where it belongs",
         IN_FD,
         {POLL(POLLIN, 0, 0),
          SAYS("\x10", "hello"),
          {"write", 100, {0}, NULL},
          POLL(POLLIN, 0, 0),
          SAYS("\x11", "error"),
          {"write", 100, {0}, NULL},
          ENDS,
          END}},
        {"a slow reader",
         IN_FD,
         {POLL(POLLIN, 0, 0),
          SAYS("\x11", "hello"),
          {"write", 2, {0}, NULL},
          {"write", -EINTR, {0}, NULL},
          {"write", -EAGAIN, {0}, NULL},
          {"poll", 1, {POLLOUT}, NULL},
          {"write", 0, {0}, NULL},
          {"write", 100, {0}, NULL},
          ENDS,
          END}},
        {"nobody reads it",
         IN_FD,
         {POLL(POLLIN, 0, 0),
          SAYS("\x10", "hello"),
          {"write", -EPIPE, {0}, NULL},
          END}},
        {"nothing came",
         IN_FD,
         {POLL(POLLIN, 0, 0),
          {"recv", -EAGAIN, {0}, NULL},
          POLL(POLLIN, 0, 0),
          {"recv", -EINTR, {0}, NULL},
          ENDS,
          END}},
        {"it is closed",
         IN_FD,
         {POLL(POLLHUP, 0, 0), {"recv", 0, {0}, NULL}, END}},
        {"it breaks",
         IN_FD,
         {POLL(POLLERR, 0, 0), {"recv", -ECONNRESET, {0}, NULL}, END}},
        {"it makes no sense",
         IN_FD,
         {POLL(POLLIN, 0, 0), SAYS("\x63", "hello"), END}},
        {"the wait is interrupted",
         IN_FD,
         {{"poll", -EINTR, {0}, NULL}, ENDS, END}},
        {"the wait fails", IN_FD, {{"poll", -ENOMEM, {0}, NULL}, END}},
    };

    (void)state;
    run_all(sessions, WP_ARRAY_LEN(sessions));
    golden_compare(seen.text, GOLDEN("session_output"));
}

static int
set_up(void **state)
{
    (void)state;
    memset(&seen, 0, sizeof seen);
    return 0;
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_input, set_up),
        cmocka_unit_test_setup(test_signals, set_up),
        cmocka_unit_test_setup(test_many_signals, set_up),
        cmocka_unit_test_setup(test_output, set_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
