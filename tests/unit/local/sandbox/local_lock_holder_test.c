/* tests/unit/local/sandbox/local_lock_holder_test.c - one daemon a state directory:
 * who has its lock, who is refused, and who waits for it. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "local/sandbox/backend_local.h"
#include "local/sandbox/lock.h"
#include "local/walls/rootfs.h"
#include "tests/support/base/temp_dir.h"

static char dir[256];

static int
set_up(void **state)
{
    (void)state;
    temp_dir_make(dir, sizeof dir);
    return 0;
}

static int
tear_down(void **state)
{
    (void)state;
    temp_dir_remove(dir);
    return 0;
}

static void
expect_message(const struct wp_err *err, const char *before, const char *path,
               const char *after)
{
    char expected[1024];

    (void)snprintf(expected, sizeof expected, "%s%s%s", before, path, after);
    expected[sizeof err->msg - 1] = '\0';
    assert_string_equal(err->msg, expected);
}

/* The file names its holder, in one width. */
static void
test_one_has_it(void **state)
{
    struct wp_err err = {.msg = ""};
    char expected[32];
    char text[32] = "";
    int other;
    int fd;

    (void)state;
    assert_int_equal(wp_lock_take(dir, &fd, &err), WP_OK);
    assert_true((fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
    (void)snprintf(expected, sizeof expected, "%010d\n", (int)getpid());
    assert_int_equal(pread(fd, text, sizeof text, 0), 11);
    assert_string_equal(text, expected);
    assert_int_equal(wp_lock_take(dir, &other, &err), WP_FAILED_PRECONDITION);
    assert_int_equal(other, -1);
    expect_message(&err, "another daemon uses the state directory ", dir, "");
    (void)close(fd);
    assert_int_equal(wp_lock_take(dir, &fd, &err), WP_OK);
    (void)close(fd);
}

static void
test_where_no_lock_can_be(void **state)
{
    static char path[WP_ROOT_PATH_MAX];
    struct wp_err err = {.msg = ""};
    int fd = 7;

    (void)state;
    memset(path, 'x', sizeof path - 1);
    /* With "/lock" a byte too long, and as long as may be. */
    path[sizeof path - 5] = '\0';
    assert_int_equal(wp_lock_take(path, &fd, &err), WP_INVALID_ARGUMENT);
    assert_string_equal(err.msg, "the state directory's path is too long");
    path[sizeof path - 6] = '\0';
    assert_int_equal(wp_lock_take(path, &fd, &err), WP_UNAVAILABLE);
    assert_int_equal(wp_lock_take("/nonexistent", &fd, &err), WP_UNAVAILABLE);
    assert_string_equal(err.msg, "cannot open /nonexistent/lock: No such file "
                                 "or directory");
}

/* A descriptor that was handed over. */
static void
test_lock_that_is_given(void **state)
{
    struct wp_err err = {.msg = ""};
    char path[300];
    int other;
    int fd;

    (void)state;
    assert_int_equal(wp_lock_take(dir, &fd, &err), WP_OK);
    assert_int_equal(fcntl(fd, F_SETFD, 0), 0);
    assert_int_equal(wp_lock_check(dir, fd, &err), WP_OK);
    assert_true((fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
    /* The right file, and no lock on it. */
    (void)snprintf(path, sizeof path, "%s/lock", dir);
    other = open(path, O_RDWR | O_CLOEXEC);
    assert_true(other >= 0);
    assert_int_equal(wp_lock_check(dir, other, &err), WP_FAILED_PRECONDITION);
    expect_message(&err, "the lock given is not that of the state directory ",
                   dir, "");
    (void)close(other);
    /* The directory was made anew meanwhile. */
    assert_int_equal(unlink(path), 0);
    assert_int_equal(wp_lock_check(dir, fd, &err), WP_FAILED_PRECONDITION);
    other = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(wp_lock_check(dir, fd, &err), WP_FAILED_PRECONDITION);
    assert_int_equal(wp_lock_check(dir, other, &err), WP_OK);
    assert_int_equal(wp_lock_check(dir, -1, &err), WP_FAILED_PRECONDITION);
    (void)close(other);
    (void)close(fd);
}

static void
test_who_is_dead(void **state)
{
    siginfo_t info;
    pid_t pid = fork();

    (void)state;
    if (pid == 0) {
        _exit(0);
    }
    assert_true(pid > 0);
    assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
    assert_true(wp_lock_holder_is_dead(pid));
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_true(wp_lock_holder_is_dead(pid));
    assert_false(wp_lock_holder_is_dead(getpid()));
    assert_false(wp_lock_holder_is_dead(0));
    assert_false(wp_lock_holder_is_dead(-1));
}

/* Holds the lock until told, or killed; returns when it has it. */
static pid_t
hold(int *go)
{
    int pair[2];
    int told[2];
    char byte;
    pid_t pid;

    assert_int_equal(pipe2(pair, O_CLOEXEC), 0);
    assert_int_equal(pipe2(told, O_CLOEXEC), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct wp_err err;
        int fd;

        (void)close(told[1]);
        if (wp_lock_take(dir, &fd, &err) != WP_OK ||
            write(pair[1], "x", 1) < 0) {
            _exit(1);
        }
        _exit(read(told[0], &byte, 1) < 0 ? 1 : 0);
    }
    assert_int_equal(read(pair[0], &byte, 1), 1);
    (void)close(pair[0]);
    (void)close(pair[1]);
    (void)close(told[0]);
    *go = told[1];
    return pid;
}

/* Until its holder is gone, or it is told to stop. */
static void
test_waiting(void **state)
{
    struct wp_err err = {.msg = ""};
    int stop_fd = eventfd(0, EFD_CLOEXEC);
    uint64_t one = 1;
    int go;
    pid_t holder = hold(&go);
    int fd;

    (void)state;
    assert_int_equal(write(stop_fd, &one, sizeof one), sizeof one);
    assert_int_equal(wp_local_lock_wait(dir, stop_fd, &fd, &err), WP_CANCELLED);
    assert_int_equal(fd, -1);
    expect_message(&err, "waiting for the state directory ", dir, " was ended");
    assert_int_equal(read(stop_fd, &one, sizeof one), sizeof one);
    (void)close(go); /* It ends now. */
    assert_int_equal(wp_local_lock_wait(dir, stop_fd, &fd, &err), WP_OK);
    assert_int_equal(wp_lock_check(dir, fd, &err), WP_OK);
    assert_int_equal(waitpid(holder, NULL, 0), holder);
    (void)close(fd);
    /* One that was killed leaves it, and nobody waits for long. */
    holder = hold(&go);
    assert_int_equal(kill(holder, SIGKILL), 0);
    assert_int_equal(wp_local_lock_wait(dir, stop_fd, &fd, &err), WP_OK);
    assert_int_equal(waitpid(holder, NULL, 0), holder);
    (void)close(go);
    (void)close(fd);
    (void)close(stop_fd);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_one_has_it, set_up, tear_down),
        cmocka_unit_test(test_where_no_lock_can_be),
        cmocka_unit_test_setup_teardown(test_lock_that_is_given, set_up,
                                        tear_down),
        cmocka_unit_test(test_who_is_dead),
        cmocka_unit_test_setup_teardown(test_waiting, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
