#include "local/sandbox/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "local/sandbox/backend_local.h"
#include "local/walls/rootfs.h"
#include "pool/base/str.h"

enum {
    /* While the holder lives. It may free the lock and live on, or be one whose
     * number means nothing here. */
    LIVING_WAIT_MS = 250,
    UNKNOWN_WAIT_MS = 20,
    /* The holder is dead; a child that it was just starting has its descriptors
     * until it executes. */
    DEAD_WAIT_MS = 1,
    DEAD_TRIES = 2000,
};

static bool
lock_path(const char *state_dir, char out[WP_ROOT_PATH_MAX])
{
    return snprintf(out, WP_ROOT_PATH_MAX, "%s/lock", state_dir) <
           WP_ROOT_PATH_MAX;
}

/* Is fd what the path leads to? The directory may have been made anew. */
static bool
is_file_of(int fd, const char *path)
{
    struct stat ours;
    struct stat theirs;

    return fstat(fd, &ours) == 0 && stat(path, &theirs) == 0 &&
           ours.st_dev == theirs.st_dev && ours.st_ino == theirs.st_ino;
}

/* For those who wait; nothing depends on it but how soon they look again. Of
 * one width, so that they never see a part of it. */
static void
write_holder(int fd)
{
    char text[16];
    int len = snprintf(text, sizeof text, "%010d\n", (int)getpid());
    ssize_t n = pwrite(fd, text, (size_t)len, 0);

    (void)n;
}

static pid_t
read_holder(int fd)
{
    char text[16];
    ssize_t n = pread(fd, text, sizeof text, 0);
    uint64_t pid;

    return n > 1 && text[n - 1] == '\n' &&
                   wp_str_to_u64((struct wp_str){text, (size_t)n - 1}, &pid) &&
                   pid <= INT32_MAX
               ? (pid_t)pid
               : 0;
}

bool
wp_lock_holder_is_dead(pid_t pid)
{
    struct pollfd pfd = {.events = POLLIN};
    bool dead;

    if (pid <= 0) {
        return false;
    }
    pfd.fd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (pfd.fd < 0) {
        return errno == ESRCH;
    }
    dead = poll(&pfd, 1, 0) > 0;
    (void)close(pfd.fd);
    return dead;
}

/* *holder is who has it, as far as known, when that is the failure. */
static enum wp_status
take(const char *state_dir, int *fd, pid_t *holder, struct wp_err *err)
{
    char path[WP_ROOT_PATH_MAX];
    int error;

    if (!lock_path(state_dir, path)) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "the state directory's path is too long");
    }
    *fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (*fd < 0) {
        return wp_err_sys(err, WP_UNAVAILABLE, errno, "cannot open %s", path);
    }
    error = flock(*fd, LOCK_EX | LOCK_NB) == 0 ? 0 : errno;
    if (error == 0 && is_file_of(*fd, path)) {
        write_holder(*fd);
        return WP_OK;
    }
    *holder = error == EWOULDBLOCK ? read_holder(*fd) : 0;
    (void)close(*fd);
    *fd = -1;
    if (error != 0 && error != EWOULDBLOCK) {
        return wp_err_sys(err, WP_UNAVAILABLE, error, "cannot lock %s", path);
    }
    return wp_err_set(err, WP_FAILED_PRECONDITION,
                      "another daemon uses the state directory %s", state_dir);
}

enum wp_status
wp_lock_take(const char *state_dir, int *fd, struct wp_err *err)
{
    enum wp_status status = WP_FAILED_PRECONDITION;

    for (int i = 0; i < DEAD_TRIES && status == WP_FAILED_PRECONDITION; i++) {
        pid_t holder;

        status = take(state_dir, fd, &holder, err);
        if (status == WP_FAILED_PRECONDITION) {
            if (!wp_lock_holder_is_dead(holder)) {
                break;
            }
            (void)poll(NULL, 0, DEAD_WAIT_MS);
        }
    }
    return status;
}

enum wp_status
wp_lock_check(const char *state_dir, int fd, struct wp_err *err)
{
    char path[WP_ROOT_PATH_MAX];

    if (!lock_path(state_dir, path) || !is_file_of(fd, path) ||
        flock(fd, LOCK_EX | LOCK_NB) != 0 ||
        fcntl(fd, F_SETFD, FD_CLOEXEC) != 0) {
        return wp_err_set(err, WP_FAILED_PRECONDITION,
                          "the lock given is not that of the state directory"
                          " %s",
                          state_dir);
    }
    return WP_OK;
}

/* Until the lock may be free. False: stop_fd is readable. *dead: the holder was
 * gone already, and is when this returns because of that. */
static bool
wait_for(pid_t holder, bool *dead, int stop_fd)
{
    /* poll passes over descriptors below 0. */
    struct pollfd fds[] = {{.fd = stop_fd, .events = POLLIN},
                           {.fd = -1, .events = POLLIN}};
    int wait_ms = UNKNOWN_WAIT_MS;

    if (*dead) {
        wait_ms = DEAD_WAIT_MS;
    } else if (holder > 0) {
        fds[1].fd = (int)syscall(SYS_pidfd_open, holder, 0);
        wait_ms = fds[1].fd >= 0 ? LIVING_WAIT_MS : UNKNOWN_WAIT_MS;
    }
    (void)poll(fds, 2, wait_ms);
    if (fds[1].fd >= 0) {
        *dead = fds[1].revents != 0;
        (void)close(fds[1].fd);
    }
    return fds[0].revents == 0;
}

/* Not a blocking flock: only a signal would end that, and signals are the
 * program's. The kernel closes a dying process's descriptors before it tells
 * of its death, so who watches the holder finds the lock free. */
enum wp_status
wp_local_lock_wait(const char *state_dir, int stop_fd, int *lock_fd,
                   struct wp_err *err)
{
    enum wp_status status = wp_dir_make(state_dir, 0711, err);
    pid_t last = 0;
    bool dead = false;

    *lock_fd = -1;
    while (status == WP_OK) {
        pid_t holder = 0;

        status = take(state_dir, lock_fd, &holder, err);
        if (status != WP_FAILED_PRECONDITION) {
            return status;
        }
        dead = dead && holder == last;
        last = holder;
        status = wait_for(holder, &dead, stop_fd)
                     ? WP_OK
                     : wp_err_set(err, WP_CANCELLED,
                                  "waiting for the state directory %s was"
                                  " ended",
                                  state_dir);
    }
    return status;
}
