#include "local/sandbox/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "local/walls/clone_into.h"

enum {
    STACK_BYTES = 64 << 10
};

/* Shared with the child, which runs in our memory while we wait. */
struct child {
    const struct wp_spawn *spawn;
    bool in_group;    /* It is born in its control group. */
    const char *step; /* What it was doing when it failed. */
    int error;
};

/* Raw calls: the C library's set*id would change every thread of the daemon. */
static bool
become(const struct wp_spawn *spawn)
{
    return syscall(SYS_setgroups, 0, NULL) == 0 &&
           syscall(SYS_setresgid, spawn->gid, spawn->gid, spawn->gid) == 0 &&
           syscall(SYS_setresuid, spawn->uid, spawn->uid, spawn->uid) == 0;
}

static bool
reset_signals(void)
{
    const struct sigaction act = {.sa_handler = SIG_DFL};
    sigset_t none;

    for (int signo = 1; signo < NSIG; signo++) {
        if (signo != SIGKILL && signo != SIGSTOP) {
            (void)sigaction(signo, &act, NULL); /* The C library keeps two. */
        }
    }
    return sigemptyset(&none) == 0 &&
           sigprocmask(SIG_SETMASK, &none, NULL) == 0;
}

__attribute__((no_sanitize("address", "undefined"))) static int
child_main(void *arg)
{
    struct child *child = arg;
    const struct wp_spawn *spawn = child->spawn;

    /* A lock in it must not outlive a daemon that is killed now: to join a
     * group of version 2 can take a tenth of a second. */
    if (spawn->close_fd > 0) {
        (void)close(spawn->close_fd);
    }
    child->step = "join its control group";
    for (int i = 0; i < spawn->procs_len && !child->in_group; i++) {
        if (write(spawn->procs_fds[i], "0", 1) != 1) {
            goto failed;
        }
    }
    child->step = "change user";
    if (spawn->drop && !become(spawn)) {
        goto failed;
    }
    child->step = "prepare";
    for (int i = 0; i < spawn->fds_len; i++) {
        if (dup2(spawn->fds[i], i) < 0) {
            goto failed;
        }
    }
    /* Whatever the daemon's libraries forgot to mark stays outside. */
    if (syscall(SYS_close_range, (unsigned)spawn->fds_len, ~0U, 0) != 0 ||
        setsid() < 0 || chdir("/") != 0 ||
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || !reset_signals()) {
        goto failed;
    }
    child->step = "execute";
    (void)execve(spawn->path, spawn->argv, spawn->envp);
failed:
    child->error = errno;
    _exit(127);
}

__attribute__((no_sanitize("address", "undefined"))) static void
child_in_group(void *arg)
{
    (void)child_main(arg); /* It does not return. */
}

static pid_t
clone_child(struct child *child, char *stack, int *pidfd)
{
    pid_t pid = -1;

    if (child->spawn->group_fd > 0) {
        child->in_group = true;
        pid = wp_clone_into(child->spawn->group_fd, child_in_group, child,
                            stack, STACK_BYTES, pidfd);
        child->in_group = pid >= 0;
    }
    /* Whatever kept it from being born there. */
    return pid >= 0 ? pid
                    : clone(child_main, stack + STACK_BYTES,
                            CLONE_VM | CLONE_VFORK | CLONE_PIDFD | SIGCHLD,
                            child, pidfd);
}

enum wp_status
wp_spawn(const struct wp_spawn *spawn, struct wp_spawned *out,
         struct wp_err *err)
{
    struct child child = {.spawn = spawn, .step = "start"};
    sigset_t all;
    sigset_t old;
    char *stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    int error;

    *out = (struct wp_spawned){-1, -1};
    if (stack == MAP_FAILED) {
        return wp_err_sys(err, WP_RESOURCE_EXHAUSTED, errno,
                          "cannot start a process");
    }
    /* No handler of ours may run in the child while it has our memory. */
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &old);
    out->pid = clone_child(&child, stack, &out->pidfd);
    error = errno;
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
    (void)munmap(stack, STACK_BYTES);
    if (out->pid < 0) {
        out->pidfd = -1;
        return wp_err_sys(err, WP_RESOURCE_EXHAUSTED, error,
                          "cannot start a process");
    }
    if (child.error != 0) {
        (void)waitpid(out->pid, NULL, 0);
        (void)close(out->pidfd);
        *out = (struct wp_spawned){-1, -1};
        return wp_err_sys(err, WP_UNAVAILABLE, child.error,
                          "the new process could not %s: %s", child.step,
                          spawn->path);
    }
    return WP_OK;
}

static int
move_to(int fd, int floor)
{
    int high;
    int saved;

    if (fd < 0 || fd >= floor) {
        return fd;
    }
    high = fcntl(fd, F_DUPFD_CLOEXEC, floor);
    saved = errno;
    (void)close(fd);
    errno = saved;
    return high;
}

int
wp_spawn_fd(int fd)
{
    return move_to(fd, WP_SPAWN_FD_FLOOR);
}

int
wp_spawn_fd_above(int fd)
{
    return move_to(fd, WP_SPAWN_FDS_MAX);
}
