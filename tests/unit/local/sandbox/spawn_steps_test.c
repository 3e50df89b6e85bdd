/* tests/unit/local/sandbox/spawn_steps_test.c - what a new process does before
 * it executes, and what is told when a step fails. The process is this one:
 * clone calls what it is to run, and its end leads back. */
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
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "local/sandbox/spawn.h"
#include "local/walls/clone_into.h"
#include "pool/base/compiler.h"
#include "tests/support/local/journal.h"

static bool running; /* The code under test. */
static int calls;
static int fails_at; /* The call that fails; 0: none. */
static jmp_buf ended;
static char *stack;
static size_t stack_bytes;
static int signals; /* That were set to their default. */

static bool
fails(void)
{
    if (running && ++calls == fails_at) {
        NOTE("  fails\n");
        errno = EDQUOT;
        return true;
    }
    return false;
}

void *__real_mmap(void *at, size_t len, int prot, int flags, int fd, off_t off);
void *__wrap_mmap(void *at, size_t len, int prot, int flags, int fd, off_t off);
int __real_munmap(void *at, size_t len);
int __wrap_munmap(void *at, size_t len);
int __wrap_clone(int (*fn)(void *), void *top, int flags, void *arg,
                 int *pidfd);
void __wrap__exit(int status);
int __wrap_execve(const char *path, char *const argv[], char *const envp[]);
long __wrap_syscall(long number, unsigned long a, unsigned long b,
                    unsigned long c);
ssize_t __real_write(int fd, const void *bytes, size_t len);
ssize_t __wrap_write(int fd, const void *bytes, size_t len);
int __real_close(int fd);
int __wrap_close(int fd);
int __real_dup2(int from, int to);
int __wrap_dup2(int from, int to);
pid_t __wrap_setsid(void);
int __wrap_chdir(const char *path);
int __wrap_prctl(int option, unsigned long a, unsigned long b, unsigned long c,
                 unsigned long d);
int __real_sigaction(int signo, const struct sigaction *act,
                     struct sigaction *old);
int __wrap_sigaction(int signo, const struct sigaction *act,
                     struct sigaction *old);
int __wrap_sigprocmask(int how, const sigset_t *set, sigset_t *old);
int __wrap_pthread_sigmask(int how, const sigset_t *set, sigset_t *old);
pid_t __wrap_waitpid(pid_t pid, int *status, int options);
int __real_fcntl(int fd, int command, int what);
int __wrap_fcntl(int fd, int command, int what);

void *
__wrap_mmap(void *at, size_t len, int prot, int flags, int fd, off_t off)
{
    if (!running) {
        return __real_mmap(at, len, prot, flags, fd, off);
    }
    assert_int_equal(prot, PROT_READ | PROT_WRITE);
    assert_int_equal(flags, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK);
    NOTE("stack of %zu\n", len);
    if (fails()) {
        return MAP_FAILED;
    }
    stack = __real_mmap(at, len, prot, flags, fd, off);
    stack_bytes = len;
    return stack;
}

int
__wrap_munmap(void *at, size_t len)
{
    if (running) {
        assert_ptr_equal(at, stack);
        assert_int_equal(len, stack_bytes);
        NOTE("stack is free\n");
    }
    return __real_munmap(at, len);
}

static pid_t
child(int (*fn)(void *), void (*fn_in_group)(void *), void *arg, int *pidfd)
{
    signals = 0;
    *pidfd = 4000;
    if (setjmp(ended) == 0) {
        if (fn != NULL) {
            (void)fn(arg);
        } else {
            fn_in_group(arg);
        }
        NOTE("it returns\n");
    }
    return 4321;
}

int
__wrap_clone(int (*fn)(void *), void *top, int flags, void *arg, int *pidfd)
{
    assert_ptr_equal(top, stack + stack_bytes);
    NOTE("clone %x\n", (unsigned)flags);
    *pidfd = 4001; /* Made before what fails. */
    return fails() ? -1 : child(fn, NULL, arg, pidfd);
}

pid_t
wp_clone_into(int group_fd, void (*fn)(void *), void *arg, void *at,
              size_t bytes, int *pidfd)
{
    assert_ptr_equal(at, stack);
    assert_int_equal(bytes, stack_bytes);
    NOTE("clone into %d\n", group_fd);
    return fails() ? -1 : child(NULL, fn, arg, pidfd);
}

void
__wrap__exit(int status)
{
    NOTE("exit %d\n", status);
    longjmp(ended, 1);
}

int
__wrap_execve(const char *path, char *const argv[], char *const envp[])
{
    NOTE("%d signals are as at first\nexecute %s %s %s\n", signals, path,
         argv[0], envp[0]);
    if (fails()) {
        return -1;
    }
    longjmp(ended, 1);
}

long
__wrap_syscall(long number, unsigned long a, unsigned long b, unsigned long c)
{
    switch (number) {
    case SYS_setgroups:
        assert_int_equal(b, 0);
        NOTE("groups %u\n", (unsigned)a);
        break;
    case SYS_setresgid:
    case SYS_setresuid:
        NOTE("%s %u %u %u\n", number == SYS_setresgid ? "gid" : "uid",
             (unsigned)a, (unsigned)b, (unsigned)c);
        break;
    default:
        assert_int_equal(number, SYS_close_range);
        NOTE("close all from %u to %x flags %u\n", (unsigned)a, (unsigned)b,
             (unsigned)c);
        break;
    }
    return fails() ? -1 : 0;
}

ssize_t
__wrap_write(int fd, const void *bytes, size_t len)
{
    if (!running) {
        return __real_write(fd, bytes, len);
    }
    NOTE("write '%.*s' to %d\n", (int)len, (const char *)bytes, fd);
    return fails() ? -1 : (ssize_t)len;
}

int
__wrap_close(int fd)
{
    if (!running) {
        return __real_close(fd);
    }
    NOTE("close %d\n", fd);
    errno = EBADF;
    return -1;
}

int
__wrap_dup2(int from, int to)
{
    if (!running) {
        return __real_dup2(from, to);
    }
    NOTE("%d becomes %d\n", from, to);
    return fails() ? -1 : to;
}

pid_t
__wrap_setsid(void)
{
    NOTE("session\n");
    return fails() ? -1 : 77;
}

int
__wrap_chdir(const char *path)
{
    NOTE("go to %s\n", path);
    return fails() ? -1 : 0;
}

int
__wrap_prctl(int option, unsigned long a, unsigned long b, unsigned long c,
             unsigned long d)
{
    assert_int_equal(option, PR_SET_NO_NEW_PRIVS);
    NOTE("no new rights %u %u %u %u\n", (unsigned)a, (unsigned)b, (unsigned)c,
         (unsigned)d);
    return fails() ? -1 : 0;
}

int
__wrap_sigaction(int signo, const struct sigaction *act, struct sigaction *old)
{
    if (!running) {
        return __real_sigaction(signo, act, old);
    }
    assert_ptr_equal(act->sa_handler, SIG_DFL);
    assert_true(signo != SIGKILL && signo != SIGSTOP && signo >= 1 &&
                signo < NSIG);
    signals++;
    return 0;
}

static void
note_mask(const char *what, int how, const sigset_t *set)
{
    int n = 0;

    assert_int_equal(how, SIG_SETMASK);
    for (int signo = 1; signo < NSIG; signo++) {
        n += sigismember(set, signo) == 1;
    }
    NOTE("%s %s\n", what,
         n == 0                                     ? "none"
         : sigismember(set, SIGUSR2) != 1           ? "others"
         : n == 1                                   ? "as before"
         : sigismember(set, SIGTERM) == 1 && n > 50 ? "all"
                                                    : "some");
}

int
__wrap_sigprocmask(int how, const sigset_t *set, sigset_t *old)
{
    assert_null(old);
    note_mask("the new one blocks", how, set);
    return fails() ? -1 : 0;
}

int
__wrap_pthread_sigmask(int how, const sigset_t *set, sigset_t *old)
{
    note_mask("block", how, set);
    if (old != NULL) {
        (void)sigemptyset(old);
        (void)sigaddset(old, SIGUSR2);
    }
    errno = EBADF;
    return 0;
}

pid_t
__wrap_waitpid(pid_t pid, int *status, int options)
{
    assert_null(status);
    NOTE("reap %d %d\n", pid, options);
    return pid;
}

int
__wrap_fcntl(int fd, int command, int what)
{
    if (!running) {
        return __real_fcntl(fd, command, what);
    }
    NOTE("fcntl %d %d %d\n", fd, command, what);
    return fails() ? -1 : what + 5;
}

/* --- Tests --- */

static void
spawn_it(const char *what, const struct wp_spawn *spawn)
{
    struct wp_spawned out = {.pid = 55, .pidfd = 66};
    struct wp_err err = {.status = WP_OK};
    enum wp_status status;

    NOTE("--- %s\n", what);
    calls = 0;
    running = true;
    status = wp_spawn(spawn, &out, &err);
    running = false;
    journal_status("spawn", status, &err);
    NOTE("= pid %d pidfd %d\n", out.pid, out.pidfd);
}

static void
test_each_step_that_fails_is_named(void **state)
{
    static char program[] = "program";
    static char variable[] = "A=b";
    char *const argv[] = {program, NULL};
    char *const envp[] = {variable, NULL};
    struct wp_spawn spawn = {
        .path = "/bin/it",
        .argv = argv,
        .envp = envp,
        .fds = {100, 101, 102},
        .fds_len = 3,
        .procs_fds = {200, 201},
        .procs_len = 2,
        .close_fd = 300,
        .drop = true,
        .uid = 1000,
        .gid = 2000,
    };

    (void)state;
    journal_begin();
    for (int n = 0; n == 0 || calls >= n - 1; n++) {
        char what[32];

        fails_at = n;
        (void)snprintf(what, sizeof what, "call %d fails", n);
        spawn_it(what, &spawn);
    }
    fails_at = 0;
    spawn.group_fd = 400;
    spawn_it("born in its group", &spawn);
    fails_at = 2;
    spawn_it("not born in its group", &spawn);
    fails_at = 0;
    spawn.group_fd = -1;
    spawn.drop = false;
    spawn.close_fd = 0;
    spawn.procs_len = 0;
    spawn.fds_len = 0;
    spawn_it("nothing to do", &spawn);
    journal_compare("spawn_steps");
}

static void
test_descriptors_are_moved_out_of_the_way(void **state)
{
    static const int fds[] = {-1, 0, 1, 15, 16, 143, 144, 200};

    (void)state;
    journal_begin();
    for (size_t i = 0; i < WP_ARRAY_LEN(fds); i++) {
        for (fails_at = 0; fails_at < 2; fails_at++) {
            int low;
            int high;

            NOTE("--- %d\n", fds[i]);
            calls = 0;
            running = true;
            errno = 0;
            low = wp_spawn_fd(fds[i]);
            NOTE("= %d, errno %d\n", low, errno == EDQUOT);
            calls = 0;
            high = wp_spawn_fd_above(fds[i]);
            running = false;
            NOTE("= %d\n", high);
        }
    }
    journal_compare("spawn_moves");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_step_that_fails_is_named),
        cmocka_unit_test(test_descriptors_are_moved_out_of_the_way),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
