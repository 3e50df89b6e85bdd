/* tests/unit/local/sandbox/lock_steps_test.c - the lock of a state directory,
 * step by step: who is asked for it, for how long it is waited, and what is
 * told when it cannot be had. The kernel is this test. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "local/sandbox/backend_local.h"
#include "local/sandbox/lock.h"
#include "local/walls/rootfs.h"
#include "pool/base/compiler.h"
#include "tests/support/local/journal.h"

enum {
    LOCK_FD = 5000,
    PID_FD = 6000,
};

/* What a try meets; the last one comes again. */
struct turn {
    int flock_errno;
    const char *holder; /* What the file says. */
    int pidfd_errno;
    bool stopped; /* Somebody ends the wait. */
    bool died;    /* The holder does. */
};

static const struct turn *turn;
static int turns;
static bool running; /* The code under test. */
static int open_errno;
static int lock_fd;
static int pid_fd;
static int fstat_errno;
static int stat_errno;
static ino_t inode;
static dev_t device;
static int fcntl_errno;
static int naps; /* Of a thousandth of a second, with nothing to look at. */

static int
result(int error, int good)
{
    errno = error;
    return error != 0 ? -1 : good;
}

int __real_open(const char *path, int flags, mode_t mode);
int __wrap_open(const char *path, int flags, mode_t mode);
int __real_close(int fd);
int __wrap_close(int fd);
int __wrap_flock(int fd, int how);
int __real_fstat(int fd, struct stat *out);
int __wrap_fstat(int fd, struct stat *out);
int __wrap_stat(const char *path, struct stat *out);
ssize_t __real_pread(int fd, void *out, size_t cap, off_t at);
ssize_t __wrap_pread(int fd, void *out, size_t cap, off_t at);
ssize_t __wrap_pwrite(int fd, const void *bytes, size_t len, off_t at);
int __wrap_poll(struct pollfd *fds, nfds_t n, int ms);
long __wrap_syscall(long number, int pid, int flags);
int __real_fcntl(int fd, int command, int what);
int __wrap_fcntl(int fd, int command, int what);
pid_t __wrap_getpid(void);

int
__wrap_open(const char *path, int flags, mode_t mode)
{
    if (!running) {
        return __real_open(path, flags, mode);
    }
    assert_int_equal(flags, O_RDWR | O_CREAT | O_CLOEXEC);
    NOTE("open %.40s %o\n", path, mode);
    return result(open_errno, lock_fd);
}

int
__wrap_close(int fd)
{
    if (!running) {
        return __real_close(fd);
    }
    NOTE("close %d\n", fd);
    return 0;
}

int
__wrap_flock(int fd, int how)
{
    assert_int_equal(how, LOCK_EX | LOCK_NB);
    NOTE("lock %d\n", fd);
    return result(turn->flock_errno, 0);
}

int
__wrap_fstat(int fd, struct stat *out)
{
    if (!running) {
        return __real_fstat(fd, out);
    }
    *out = (struct stat){.st_dev = 3, .st_ino = 4};
    return result(fstat_errno, 0);
}

int
__wrap_stat(const char *path, struct stat *out)
{
    NOTE("compare with %.40s\n", path);
    *out = (struct stat){.st_dev = device, .st_ino = inode};
    return result(stat_errno, 0);
}

ssize_t
__wrap_pread(int fd, void *out, size_t cap, off_t at)
{
    size_t len;

    if (!running) {
        return __real_pread(fd, out, cap, at);
    }
    assert_int_equal(at, 0);
    NOTE("read %d\n", fd);
    len = strlen(turn->holder);
    memset(out, '\n', cap);
    memcpy(out, turn->holder, len < cap ? len : cap);
    return (ssize_t)(len < cap ? len : cap);
}

ssize_t
__wrap_pwrite(int fd, const void *bytes, size_t len, off_t at)
{
    assert_int_equal(at, 0);
    NOTE("write %d '%.*s'\n", fd, (int)len, (const char *)bytes);
    return -1;
}

static void
next_turn(void)
{
    if (turns > 1) {
        turns--;
        turn++;
    }
}

int
__wrap_poll(struct pollfd *fds, nfds_t n, int ms)
{
    if (n == 0) {
        assert_int_equal(ms, 1);
        naps++;
        next_turn();
        return 0;
    }
    if (n == 1) {
        assert_int_equal(fds[0].events, POLLIN);
        assert_int_equal(ms, 0);
        NOTE("is %d at its end\n", fds[0].fd);
        return turn->died ? 1 : 0;
    }
    assert_int_equal(n, 2);
    assert_true(fds[0].events == POLLIN && fds[1].events == POLLIN);
    NOTE("wait %d ms for %d and %d\n", ms, fds[0].fd, fds[1].fd);
    fds[0].revents = turn->stopped ? POLLIN : 0;
    fds[1].revents = turn->died && fds[1].fd >= 0 ? POLLIN : 0;
    next_turn();
    return 0;
}

long
__wrap_syscall(long number, int pid, int flags)
{
    assert_int_equal(number, SYS_pidfd_open);
    NOTE("look at %d %d\n", pid, flags);
    return result(turn->pidfd_errno, pid_fd);
}

int
__wrap_fcntl(int fd, int command, int what)
{
    if (!running) {
        return __real_fcntl(fd, command, what);
    }
    assert_int_equal(command, F_SETFD);
    NOTE("fcntl %d %d\n", fd, what);
    return result(fcntl_errno, 0);
}

pid_t
__wrap_getpid(void)
{
    return 4321;
}

enum wp_status
wp_dir_make(const char *dir, unsigned mode, struct wp_err *err)
{
    NOTE("make %s %o\n", dir, mode);
    return strcmp(dir, "/bad") == 0 ? wp_err_set(err, WP_ABORTED, "no way")
                                    : WP_OK;
}

/* --- Steps --- */

static void
begin(const struct turn *first, int n)
{
    turn = first;
    turns = n;
    open_errno = fstat_errno = stat_errno = fcntl_errno = naps = 0;
    lock_fd = LOCK_FD;
    pid_fd = PID_FD;
    device = 3;
    inode = 4;
}

static const char *dir = "/s";

static void
take(const char *what)
{
    struct wp_err err = {.status = WP_OK};
    enum wp_status status;
    int fd = 77;

    NOTE("--- %s\n", what);
    running = true;
    status = wp_lock_take(dir, &fd, &err);
    running = false;
    journal_status("take", status, &err);
    NOTE("= %d, %d naps\n", fd, naps);
}

static void
await(const char *what, int stop_fd)
{
    struct wp_err err = {.status = WP_OK};
    enum wp_status status;
    int fd = 77;

    NOTE("--- %s\n", what);
    running = true;
    status = wp_local_lock_wait(dir, stop_fd, &fd, &err);
    running = false;
    journal_status("wait", status, &err);
    NOTE("= %d\n", fd);
}

static void
check(const char *what, int fd)
{
    struct wp_err err = {.status = WP_OK};
    enum wp_status status;

    NOTE("--- %s\n", what);
    running = true;
    status = wp_lock_check(dir, fd, &err);
    running = false;
    journal_status("check", status, &err);
}

static const struct turn free_ = {.holder = ""};

/* --- Tests --- */

static void
test_it_is_taken_or_refused(void **state)
{
    static const char *const holders[] = {"0000000042\n",
                                          "42\n",
                                          "\n",
                                          "",
                                          "4",
                                          "0000000042",
                                          "x\n",
                                          "2147483647\n",
                                          "2147483648\n",
                                          "0000000000\n",
                                          "0000000000000042\n",
                                          "000000000000042\n"};
    static const struct turn bad = {.flock_errno = ENOLCK, .holder = "1\n"};
    struct turn rows[3] = {{0}};
    static char longest[WP_ROOT_PATH_MAX];

    (void)state;
    journal_begin();
    begin(&free_, 1);
    take("free");
    begin(&free_, 1);
    lock_fd = 0;
    take("the first descriptor");
    begin(&free_, 1);
    open_errno = EACCES;
    take("it cannot be opened");
    begin(&bad, 1);
    take("it cannot be locked");
    begin(&free_, 1);
    inode = 5;
    take("another file is there");
    begin(&free_, 1);
    device = 5;
    take("another one elsewhere is there");
    begin(&free_, 1);
    fstat_errno = EIO;
    take("ours cannot be looked at");
    begin(&free_, 1);
    stat_errno = ENOENT;
    take("none is there");
    for (size_t i = 0; i < WP_ARRAY_LEN(holders); i++) {
        char what[48];

        rows[0] =
            (struct turn){.flock_errno = EWOULDBLOCK, .holder = holders[i]};
        begin(rows, 1);
        (void)snprintf(what, sizeof what, "'%s' has it", holders[i]);
        take(what);
    }
    memset(longest, 'd', sizeof longest - 1);
    dir = longest;
    longest[WP_ROOT_PATH_MAX - 6] = '\0';
    begin(&free_, 1);
    take("the path just fits");
    longest[WP_ROOT_PATH_MAX - 6] = 'd';
    longest[WP_ROOT_PATH_MAX - 5] = '\0';
    begin(&free_, 1);
    take("the path does not fit");
    check("the path does not fit", 5);
    dir = "/s";
    journal_compare("lock_taken");
}

static void
test_a_dead_holder_is_waited_for_a_little(void **state)
{
    static const struct turn rows[] = {
        {.flock_errno = EWOULDBLOCK, .holder = "42\n", .pidfd_errno = ESRCH},
        {.flock_errno = EWOULDBLOCK, .holder = "42\n", .died = true},
        {.holder = ""},
    };
    static const struct turn odd = {
        .flock_errno = EWOULDBLOCK, .holder = "42\n", .pidfd_errno = EINVAL};
    size_t len;

    (void)state;
    journal_begin();
    begin(rows, 3);
    take("gone, then at its end, then free");
    begin(rows + 1, 2);
    pid_fd = 0;
    take("at its end, then free, the first descriptor");
    begin(&odd, 1);
    take("nobody knows");
    begin(rows, 1);
    len = journal.len;
    take("gone, for ever");
    journal.len = len;
    NOTE("--- gone, for ever\n= %d naps\n", naps);
    journal_compare("lock_dead");
}

static void
test_it_is_waited_for(void **state)
{
    static const struct turn living[] = {
        {.flock_errno = EWOULDBLOCK, .holder = "42\n"},
        {.flock_errno = EWOULDBLOCK, .holder = "42\n", .died = true},
        {.flock_errno = EWOULDBLOCK, .holder = "42\n"},
        {.flock_errno = EWOULDBLOCK, .holder = "43\n"},
        {.flock_errno = EWOULDBLOCK, .holder = "43\n"},
        {.holder = ""},
    };
    static const struct turn unknown[] = {
        {.flock_errno = EWOULDBLOCK, .holder = ""},
        {.flock_errno = EWOULDBLOCK, .holder = "1\n"},
        {.flock_errno = EWOULDBLOCK, .holder = "2\n", .pidfd_errno = EPERM},
        {.flock_errno = EWOULDBLOCK, .holder = "2\n", .stopped = true},
    };

    (void)state;
    journal_begin();
    begin(&free_, 1);
    await("free", -1);
    begin(living, 6);
    await("who has it dies, and the next one has it", 9);
    begin(living + 4, 2);
    pid_fd = 0;
    await("the first descriptor", 9);
    begin(unknown, 4);
    await("nobody knows who has it, and the wait is ended", 9);
    begin(&free_, 1);
    open_errno = EACCES;
    await("it cannot be opened", 9);
    dir = "/bad";
    begin(&free_, 1);
    await("no directory", 9);
    dir = "/s";
    journal_compare("lock_waited");
}

static void
test_a_lock_that_is_given_is_checked(void **state)
{
    static const struct turn taken = {.flock_errno = EWOULDBLOCK};

    (void)state;
    journal_begin();
    begin(&free_, 1);
    check("good", 5);
    begin(&free_, 1);
    inode = 5;
    check("another file", 5);
    begin(&taken, 1);
    check("another one's", 5);
    begin(&free_, 1);
    fcntl_errno = EBADF;
    check("it cannot be kept", 5);
    journal_compare("lock_checked");
}

static void
test_who_is_dead(void **state)
{
    static const struct turn alive = {.holder = ""};
    static const struct turn dead = {.died = true};
    static const struct turn gone = {.pidfd_errno = ESRCH};
    static const struct turn odd = {.pidfd_errno = EMFILE};

    (void)state;
    journal_begin();
    running = true;
    begin(&alive, 1);
    assert_false(wp_lock_holder_is_dead(1));
    begin(&dead, 1);
    assert_true(wp_lock_holder_is_dead(1));
    assert_false(wp_lock_holder_is_dead(0));
    assert_false(wp_lock_holder_is_dead(-1));
    begin(&gone, 1);
    assert_true(wp_lock_holder_is_dead(1));
    begin(&odd, 1);
    assert_false(wp_lock_holder_is_dead(1));
    running = false;
    journal_compare("lock_holders");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_it_is_taken_or_refused),
        cmocka_unit_test(test_a_dead_holder_is_waited_for_a_little),
        cmocka_unit_test(test_it_is_waited_for),
        cmocka_unit_test(test_a_lock_that_is_given_is_checked),
        cmocka_unit_test(test_who_is_dead),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
