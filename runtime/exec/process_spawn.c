/* posix_spawn does what is wanted and shares memory with the child until it
 * execs, so a start costs the same however large this process has grown. It
 * cannot say which step failed; so the working directory is opened here, which
 * leaves the execution itself as the only thing that can go wrong. */
#include "runtime/exec/process_spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "pool/base/os_error.h"
#include "runtime/exec/bound.h"

extern char **environ;

/* The child's ends and ours. -1 where there is none. */
struct pipes {
    int child[3];
    int ours[3];
    int cwd;
    char terminal[64]; /* The child's end of it, or "". */
};

static void
close_if_open(int fd)
{
    if (fd >= 0) {
        close(fd);
    }
}

static int
pipe_open(struct pipes *pipes, int index)
{
    int ends[2];
    int our_end = index == 0 ? 1 : 0;

    if (pipe2(ends, O_CLOEXEC) != 0) {
        return -1;
    }
    pipes->ours[index] = ends[our_end];
    pipes->child[index] = ends[1 - our_end];
    return fcntl(ends[our_end], F_SETFL, O_NONBLOCK);
}

/* Our end twice: for its output, and to write to. */
static int
terminal_open(struct pipes *pipes, const struct winsize *size)
{
    int fd = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);

    pipes->ours[1] = fd;
    if (fd < 0 || grantpt(fd) != 0 || unlockpt(fd) != 0 ||
        ptsname_r(fd, pipes->terminal, sizeof(pipes->terminal)) != 0 ||
        ioctl(fd, TIOCSWINSZ, size) != 0 ||
        fcntl(fd, F_SETFL, O_RDWR | O_NONBLOCK) != 0) {
        return -1;
    }
    pipes->ours[0] = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    return pipes->ours[0] < 0 ? -1 : 0;
}

static int
pipes_open(struct pipes *pipes, bool open_stdin)
{
    int rc;

    if (open_stdin) {
        rc = pipe_open(pipes, 0);
    } else {
        pipes->child[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
        rc = pipes->child[0] < 0 ? -1 : 0;
    }
    if (rc == 0) {
        rc = pipe_open(pipes, 1);
    }
    return rc == 0 ? pipe_open(pipes, 2) : rc;
}

static int
attr_fill(posix_spawnattr_t *attr)
{
    sigset_t all;
    sigset_t none;
    short flags =
        POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK;
    int rc;

    sigfillset(&all);
    sigemptyset(&none);
    rc = posix_spawnattr_setflags(attr, flags);
    rc = rc == 0 ? posix_spawnattr_setsigdefault(attr, &all) : rc;
    return rc == 0 ? posix_spawnattr_setsigmask(attr, &none) : rc;
}

static int
actions_fill(posix_spawn_file_actions_t *actions, const struct pipes *pipes,
             int cwd)
{
    int rc = 0;

    if (cwd >= 0) {
        rc = posix_spawn_file_actions_addfchdir_np(actions, cwd);
    }
    if (rc == 0 && pipes->terminal[0] != '\0') {
        /* The first that a new session opens becomes its own. */
        rc = posix_spawn_file_actions_addopen(actions, 0, pipes->terminal,
                                              O_RDWR, 0);
        rc = rc == 0 ? posix_spawn_file_actions_adddup2(actions, 0, 1) : rc;
        rc = rc == 0 ? posix_spawn_file_actions_adddup2(actions, 0, 2) : rc;
        return rc == 0 ? posix_spawn_file_actions_addclosefrom_np(actions, 3)
                       : rc;
    }
    for (int i = 0; i < 3 && rc == 0; i++) {
        rc = posix_spawn_file_actions_adddup2(actions, pipes->child[i], i);
    }
    return rc == 0 ? posix_spawn_file_actions_addclosefrom_np(actions, 3) : rc;
}

/* Returns 0 or an errno. */
static int
run(const struct wp_process_spec *spec, const struct pipes *pipes, pid_t *pid)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    int cwd = spec->cwd_fd >= 0 ? spec->cwd_fd : pipes->cwd;
    int rc = posix_spawn_file_actions_init(&actions);

    if (rc != 0) {
        return rc;
    }
    rc = posix_spawnattr_init(&attr);
    if (rc == 0) {
        rc = attr_fill(&attr);
        rc = rc == 0 ? actions_fill(&actions, pipes, cwd) : rc;
        if (rc == 0) {
            rc = posix_spawnp(pid, spec->argv[0], &actions, &attr, spec->argv,
                              spec->env != NULL ? spec->env : environ);
        }
        posix_spawnattr_destroy(&attr);
    }
    posix_spawn_file_actions_destroy(&actions);
    return rc;
}

static enum wp_status
status_of(int os_errno)
{
    return os_errno == ENOENT   ? WP_NOT_FOUND
           : os_errno == EACCES ? WP_PERMISSION_DENIED
                                : WP_FAILED_PRECONDITION;
}

/* fork may fail for want of processes or memory; what else fails is the
 * command's own fault. */
static enum wp_status
spawn_failed(const struct wp_process_spec *spec, int os_errno,
             struct wp_err *err)
{
    if (os_errno == EAGAIN || os_errno == ENOMEM) {
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED, "fork: %s",
                          wp_os_error(os_errno));
    }
    return wp_err_set(err, status_of(os_errno), "exec %s: %s", spec->argv[0],
                      wp_os_error(os_errno));
}

enum wp_status
wp_process_spawn(const struct wp_process_spec *spec,
                 struct wp_process_child *out, struct wp_err *err)
{
    struct pipes pipes;
    enum wp_status status = WP_OK;
    int rc;

    if (spec->env == NULL) {
        wp_bound_look();
    }
    pipes = (struct pipes){{-1, -1, -1}, {-1, -1, -1}, -1, ""};
    if ((spec->terminal != NULL ? terminal_open(&pipes, spec->terminal)
                                : pipes_open(&pipes, spec->open_stdin)) != 0) {
        status = wp_err_set(err, WP_RESOURCE_EXHAUSTED, "%s: %s",
                            spec->terminal != NULL ? "terminal" : "pipe",
                            wp_os_error(errno));
        goto out;
    }
    if (spec->cwd_fd < 0 && spec->cwd != NULL) {
        pipes.cwd = open(spec->cwd, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (pipes.cwd < 0 || faccessat(pipes.cwd, ".", X_OK, 0) != 0) {
            status = wp_err_set(err, status_of(errno), "chdir %s: %s",
                                spec->cwd, wp_os_error(errno));
            goto out;
        }
    }
    rc = run(spec, &pipes, &out->pid);
    if (rc != 0) {
        status = spawn_failed(spec, rc, err);
    }
out:
    for (int i = 0; i < 3; i++) {
        close_if_open(pipes.child[i]);
        if (status != WP_OK) {
            close_if_open(pipes.ours[i]);
        }
    }
    close_if_open(pipes.cwd);
    out->stdin_fd = pipes.ours[0];
    out->out_fd[0] = pipes.ours[1];
    out->out_fd[1] = pipes.ours[2];
    return status;
}
