/* local/volumes/mount_into.c, call by call: what is opened, mapped, entered and
 * mounted, and which step an error names. The children are real, but in no
 * namespaces of their own: what they ask of the kernel is answered here, and
 * descriptors are numbers. The journals are in golden/. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/nsfs.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "local/volumes/mount_into.h"
#include "proto/checkout/inside.h"
#include "tests/support/base/golden.h"

enum {
    FDS = 1000,
    PIDFD = 999,
    LINE_MAX_BYTES = 256,
};

static struct {
    bool on;
    int calls; /* That may fail, so far. */
    int fail_at;
    int next_fd;
    bool forbidden; /* What may not be opened by us may be by a child. */
    bool children_die;
    int gone; /* What the poll of the sandbox's process says. */
    int wait_errors;
    int short_writes;
    dev_t dev; /* Added to those of the place. */
    ino_t ino;
    pid_t child;
    int mappings; /* That are there. */
} rig;
static struct golden seen;
/* Which of the descriptors is 0, as where the caller began without a standard
 * input; -1: none. The journals are the same. */
static int zero = -1;

static void note(const char *fmt, ...) WP_PRINTF(1, 2);

static void
note(const char *fmt, ...)
{
    char text[LINE_MAX_BYTES];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    golden_add(&seen, "%s\n", text);
}

static bool
fails(const char *what)
{
    if (++rig.calls != rig.fail_at) {
        return false;
    }
    note("%s fails", what);
    errno = EIO;
    return true;
}

static int
new_fd(const char *what)
{
    int fd;

    if (fails(what)) {
        return -1;
    }
    fd = rig.next_fd++;
    return fd - FDS == zero ? 0 : fd;
}

/* As it is noted. */
static int
named(int fd)
{
    return fd == 0 && zero >= 0 ? FDS + zero : fd;
}

static bool
is_real(int fd)
{
    return named(fd) < FDS;
}

/* --- What lies below --- */

int __wrap_open_tree(int at, const char *path, unsigned flags);
int __wrap_mount_setattr(int fd, const char *path, unsigned flags,
                         struct mount_attr *attr, size_t len);
int __wrap_move_mount(int from, const char *from_path, int to,
                      const char *to_path, unsigned flags);
int __wrap_setns(int fd, int what);
int __wrap_ioctl(int fd, unsigned long what, ...);
int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
ssize_t __real_write(int fd, const void *bytes, size_t len);
ssize_t __wrap_write(int fd, const void *bytes, size_t len);
int __real_close(int fd);
int __wrap_close(int fd);
int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout_ms);
long __wrap_syscall(long number, ...);
int __real_fstat(int fd, struct stat *out);
int __wrap_fstat(int fd, struct stat *out);
void *__real_mmap(void *at, size_t len, int protection, int flags, int fd,
                  off_t from);
void *__wrap_mmap(void *at, size_t len, int protection, int flags, int fd,
                  off_t from);
int __real_munmap(void *at, size_t len);
int __wrap_munmap(void *at, size_t len);
int __real_pthread_sigmask(int how, const sigset_t *set, sigset_t *old);
int __wrap_pthread_sigmask(int how, const sigset_t *set, sigset_t *old);
int __real_clone(int (*fn)(void *), void *stack, int flags, void *arg, ...);
int __wrap_clone(int (*fn)(void *), void *stack, int flags, void *arg, ...);
pid_t __real_waitpid(pid_t pid, int *status, int options);
pid_t __wrap_waitpid(pid_t pid, int *status, int options);
bool __wrap_wp_inside_make(int top, const char *path, mode_t mode);
int __wrap_wp_inside_open(int top, const char *path,
                          enum wp_inside_links links);

int
__wrap_open_tree(int at, const char *path, unsigned flags)
{
    note("open_tree %s%s", path,
         at == AT_FDCWD && flags == (OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC |
                                     AT_SYMLINK_NOFOLLOW)
             ? ""
             : " otherwise");
    if (rig.forbidden) {
        rig.forbidden = false;
        errno = EPERM;
        return -1;
    }
    if (rig.children_die && rig.child == -1) {
        (void)raise(SIGKILL);
    }
    return new_fd("open_tree");
}

int
__wrap_mount_setattr(int fd, const char *path, unsigned flags,
                     struct mount_attr *attr, size_t len)
{
    note("mount_setattr %d '%s'%s: set%s%s%s, clear %" PRIu64
         ", propagation%s, map %" PRIu64,
         named(fd), path,
         flags == AT_EMPTY_PATH && len == sizeof *attr ? "" : " otherwise",
         (attr->attr_set & MOUNT_ATTR_NOSUID) != 0 ? " nosuid" : "",
         (attr->attr_set & MOUNT_ATTR_NODEV) != 0 ? " nodev" : "",
         (attr->attr_set & MOUNT_ATTR_IDMAP) != 0 ? " idmap" : "",
         (uint64_t)attr->attr_clr,
         attr->propagation == MS_PRIVATE ? " private" : " ?",
         (attr->attr_set & MOUNT_ATTR_IDMAP) != 0
             ? (uint64_t)named((int)attr->userns_fd)
             : (uint64_t)attr->userns_fd);
    return fails("mount_setattr") ? -1 : 0;
}

int
__wrap_move_mount(int from, const char *from_path, int to, const char *to_path,
                  unsigned flags)
{
    note("move_mount %d '%s' to %d '%s'%s", named(from), from_path, named(to),
         to_path,
         flags == (MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH)
             ? ""
             : " otherwise");
    return fails("move_mount") ? -1 : 0;
}

int
__wrap_setns(int fd, int what)
{
    note("setns %d %s", named(fd),
         what == CLONE_NEWUSER ? "user"
         : what == CLONE_NEWNS ? "mounts"
                               : "?");
    return fails("setns") ? -1 : 0;
}

int
__wrap_ioctl(int fd, unsigned long what, ...)
{
    note("ioctl %d%s", named(fd), what == NS_GET_USERNS ? " userns" : " ?");
    return new_fd("ioctl");
}

int
__wrap_open(const char *path, int flags, ...)
{
    char child[32];
    const char *at = path;
    int fd;

    /* What is made is made by what counts the lines that are executed. */
    if (!rig.on || (flags & O_CREAT) != 0) {
        return __real_open(path, flags, 0666);
    }
    (void)snprintf(child, sizeof child, "/proc/%d/", (int)rig.child);
    at += strncmp(path, child, strlen(child)) == 0 ? strlen(child) : 0;
    fd = new_fd("open");
    note("open %s%s%s%s: %d", at != path ? "the child's " : "", at,
         (flags & O_ACCMODE) == O_WRONLY ? ", w" : "",
         flags == (O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
             ? ", a folder's name"
         : (flags & ~O_WRONLY) == O_CLOEXEC ? ""
                                            : ", otherwise",
         named(fd));
    return fd;
}

ssize_t
__wrap_write(int fd, const void *bytes, size_t len)
{
    if (is_real(fd)) {
        return __real_write(fd, bytes, len);
    }
    note("write %d '%.*s'", named(fd), (int)len - 1, (const char *)bytes);
    assert_int_equal(((const char *)bytes)[len - 1], '\n');
    return fails("write") ? -1 : (ssize_t)len - rig.short_writes;
}

int
__wrap_close(int fd)
{
    if (is_real(fd)) {
        return __real_close(fd);
    }
    note("close %d", named(fd));
    if (rig.on) {
        errno = EBADF; /* Nobody may tell that one. */
    }
    return 0;
}

int
__wrap_poll(struct pollfd *fds, nfds_t n, int timeout_ms)
{
    note("poll %d%s, %d ms: %d", fds[0].fd,
         n == 1 && fds[0].events == POLLIN ? "" : " ?", timeout_ms, rig.gone);
    errno = rig.gone != 0 ? EDOM : errno; /* Nobody may tell that one. */
    return rig.gone;
}

long
__wrap_syscall(long number, ...)
{
    va_list ap;
    unsigned long args[3];

    va_start(ap, number);
    if (number == SYS_setgroups) {
        args[0] = va_arg(ap, unsigned);
        args[1] = va_arg(ap, unsigned long);
        note("setgroups %lu %lu", args[0], args[1]);
    } else {
        for (int i = 0; i < 3; i++) {
            args[i] = va_arg(ap, unsigned);
        }
        note("%s %lu %lu %lu",
             number == SYS_setresgid   ? "setresgid"
             : number == SYS_setresuid ? "setresuid"
                                       : "another call",
             args[0], args[1], args[2]);
    }
    va_end(ap);
    return fails("the change of user") ? -1 : 0;
}

/* Each is another; the place, as the test says. */
int
__wrap_fstat(int fd, struct stat *out)
{
    if (is_real(fd)) {
        return __real_fstat(fd, out);
    }
    memset(out, 0, sizeof *out);
    out->st_dev = named(fd) == FDS ? 5 : 5 + rig.dev;
    out->st_ino = named(fd) == FDS ? 6 : 6 + rig.ino;
    return fails("fstat") ? -1 : 0;
}

void *
__wrap_mmap(void *at, size_t len, int protection, int flags, int fd, off_t from)
{
    if (rig.on) {
        note("mmap %zu%s", len,
             at == NULL && protection == (PROT_READ | PROT_WRITE) &&
                     flags == (MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK) &&
                     fd == -1 && from == 0
                 ? ""
                 : " otherwise");
        if (fails("mmap")) {
            return MAP_FAILED;
        }
        rig.mappings++;
    }
    return __real_mmap(at, len, protection, flags, fd, from);
}

int
__wrap_munmap(void *at, size_t len)
{
    if (rig.on) {
        note("munmap %zu", len);
        rig.mappings--;
    }
    return __real_munmap(at, len);
}

int
__wrap_pthread_sigmask(int how, const sigset_t *set, sigset_t *old)
{
    note("%s signals", how != SIG_SETMASK               ? "?"
                       : sigismember(set, SIGTERM) == 1 ? "no"
                                                        : "all");
    return __real_pthread_sigmask(how, set, old);
}

int
__wrap_clone(int (*fn)(void *), void *stack, int flags, void *arg, ...)
{
    const int shared = CLONE_VM | CLONE_VFORK | CLONE_FILES | SIGCHLD;

    note("clone%s%s%s%s", (flags & CLONE_NEWUSER) != 0 ? " user" : "",
         (flags & CLONE_NEWNS) != 0 ? " mounts" : "",
         (flags & shared) == shared ? "" : ", not shared",
         (flags & ~(shared | CLONE_NEWUSER | CLONE_NEWNS)) == 0
             ? ""
             : ", otherwise");
    if (fails("clone")) {
        return -1;
    }
    rig.child = -1; /* It runs. */
    rig.child = __real_clone(fn, stack, shared, arg);
    return rig.child;
}

pid_t
__wrap_waitpid(pid_t pid, int *status, int options)
{
    note("waitpid %s, %d", pid == rig.child ? "the child" : "?", options);
    if (rig.wait_errors > 0) {
        rig.wait_errors--;
        errno = EINTR;
        return -1;
    }
    return __real_waitpid(pid, status, options);
}

bool
__wrap_wp_inside_make(int top, const char *path, mode_t mode)
{
    note("make %s in %d, %03o", path, named(top), (unsigned)mode);
    return !fails("make");
}

int
__wrap_wp_inside_open(int top, const char *path, enum wp_inside_links links)
{
    note("open %s in %d%s", path, named(top),
         links == WP_INSIDE_NO_LINKS ? "" : " with links");
    return new_fd("open inside");
}

/* --- The test's side --- */

static struct wp_mount_into mount_one;

static int
set_up(void **state)
{
    (void)state;
    memset(&rig, 0, sizeof rig);
    seen.len = 0;
    mount_one = (struct wp_mount_into){.from = "/the/folder",
                                       .pid = 4321,
                                       .pidfd = PIDFD,
                                       .top = "/workspace",
                                       .path = "a/b",
                                       .user = 5001,
                                       .owner = 1234};
    return 0;
}

static void
told(enum wp_status status, const struct wp_err *err)
{
    rig.on = false;
    note("=> %s%s%s", wp_status_name(status), status == WP_OK ? "" : " ",
         status == WP_OK ? "" : err->msg);
    assert_int_equal(rig.mappings, 0);
    assert_int_equal(__real_waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
}

static void
mount_it(void)
{
    struct wp_err err;

    rig.calls = 0;
    rig.next_fd = FDS;
    rig.child = 0;
    rig.on = true;
    told(wp_mount_into(&mount_one, &err), &err);
}

static void
check_it(void)
{
    struct wp_err err;

    rig.next_fd = FDS;
    rig.child = 0;
    rig.on = true;
    told(wp_mount_into_check(&mount_one, &err), &err);
}

static void
a_folder_is_mounted_step_by_step(void **state)
{
    (void)state;
    rig.ino = 1;
    note("--- as the caller");
    mount_it();
    note("--- for a user of its own");
    mount_one.own_user = true;
    rig.wait_errors = 2;
    mount_it();
    note("--- where the caller may not");
    rig.forbidden = true;
    mount_it();
    mount_one.own_user = false;
    rig.forbidden = true;
    mount_it();
    note("--- tried only");
    check_it();
    mount_one.own_user = true;
    check_it();
    golden_compare(seen.text, WP_TEST_GOLDEN "/mount_steps.txt");
}

static void
what_is_there_already_is_left(void **state)
{
    static const struct {
        dev_t dev;
        ino_t ino;
    } rows[] = {{0, 0}, {1, 0}, {0, 1}};

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        note("--- device + %d, file + %d", (int)rows[i].dev, (int)rows[i].ino);
        rig.dev = rows[i].dev;
        rig.ino = rows[i].ino;
        mount_it();
    }
    golden_compare(seen.text, WP_TEST_GOLDEN "/mount_there.txt");
}

static void
another_process_is_not_entered(void **state)
{
    (void)state;
    rig.gone = 1;
    mount_it();
    rig.gone = -1;
    mount_it();
    golden_compare(seen.text, WP_TEST_GOLDEN "/mount_gone.txt");
}

/* Each call in turn; at last all go through. */
static void
every_failure_names_its_step(void **state)
{
    (void)state;
    rig.ino = 1;
    for (int kind = 0; kind < 3; kind++) {
        rig.fail_at = 0;
        do {
            rig.fail_at++;
            note("--- %d", rig.fail_at);
            mount_one.own_user = kind == 1;
            rig.forbidden = kind == 2;
            mount_it();
        } while (rig.calls >= rig.fail_at);
    }
    golden_compare(seen.text, WP_TEST_GOLDEN "/mount_failures.txt");
}

static void
odd_children_are_told(void **state)
{
    (void)state;
    rig.ino = 1;
    note("--- killed");
    rig.forbidden = true;
    rig.children_die = true;
    mount_it();
    note("--- half a map");
    rig.children_die = false;
    mount_one.own_user = true;
    rig.short_writes = 1;
    mount_it();
    golden_compare(seen.text, WP_TEST_GOLDEN "/mount_odd.txt");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_folder_is_mounted_step_by_step, set_up),
        cmocka_unit_test_setup(what_is_there_already_is_left, set_up),
        cmocka_unit_test_setup(another_process_is_not_entered, set_up),
        cmocka_unit_test_setup(every_failure_names_its_step, set_up),
        cmocka_unit_test_setup(odd_children_are_told, set_up),
    };

    int failed = cmocka_run_group_tests(tests, NULL, NULL);

    for (zero = 0; zero < 8; zero++) {
        failed += cmocka_run_group_tests(tests, NULL, NULL);
    }
    return failed;
}
