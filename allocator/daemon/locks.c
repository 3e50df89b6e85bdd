#include "allocator/daemon/locks.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "local/sandbox/lock.h"
#include "pool/base/clock.h"

enum {
    TRIES = 2000, /* A millisecond apart. */
    PLACES = 64,  /* Of daemons that share the directory. */
};

void
wp_daemon_locks_init(struct wp_daemon_locks *locks, const char *dir)
{
    *locks = (struct wp_daemon_locks){
        .pid_fd = -1, .backend_fd = -1, .present_fd = -1, .dir = dir};
}

static enum wp_status
lock_refused(const struct wp_daemon_locks *locks, int fd, struct wp_err *err)
{
    char pid[16] = "";
    ssize_t n = read(fd, pid, sizeof pid - 1);

    pid[n > 0 ? strcspn(pid, "\n") : 0] = '\0';
    return wp_err_set(err, WP_ALREADY_EXISTS,
                      "another warmpoold (pid %s) runs with the state "
                      "directory '%.120s'",
                      pid[0] != '\0' ? pid : "unknown", locks->dir);
}

/* The holder before may have removed the file after it was opened here. */
static bool
is_still_there(int fd, const char *path)
{
    struct stat mine;
    struct stat there;

    return fstat(fd, &mine) == 0 && stat(path, &there) == 0 &&
           mine.st_ino == there.st_ino && mine.st_dev == there.st_dev;
}

/* Waits only for what is left of a holder that was killed: a child that it was
 * just starting has its descriptors until it executes. */
static bool
take_lock(int fd)
{
    const struct timespec again = {0, WP_NS_PER_MS};

    for (int i = 0; flock(fd, LOCK_EX | LOCK_NB) != 0; i++) {
        char text[16] = "";
        ssize_t n = pread(fd, text, sizeof text - 1, 0);

        if (i == TRIES || n <= 0 ||
            !wp_lock_holder_is_dead((pid_t)strtol(text, NULL, 10))) {
            return false;
        }
        (void)nanosleep(&again, NULL);
    }
    return true;
}

enum wp_status
wp_daemon_lock(struct wp_daemon_locks *locks, struct wp_err *err)
{
    char pid[16];
    int n = snprintf(pid, sizeof pid, "%d\n", (int)getpid());
    int fd;

    (void)snprintf(locks->path, sizeof locks->path, "%.480s/warmpoold.pid",
                   locks->dir);
    fd = open(locks->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (fd < 0) {
        return wp_err_sys(err, WP_FAILED_PRECONDITION, errno, "'%.160s'",
                          locks->path);
    }
    if (!take_lock(fd) || !is_still_there(fd, locks->path)) {
        enum wp_status status = lock_refused(locks, fd, err);

        (void)close(fd);
        return status;
    }
    errno = ENOSPC; /* A write that is cut short says nothing. */
    if (ftruncate(fd, 0) != 0 || pwrite(fd, pid, (size_t)n, 0) != n) {
        enum wp_status status = wp_err_sys(
            err, WP_UNAVAILABLE, errno, "cannot write '%.160s'", locks->path);

        (void)close(fd);
        return status;
    }
    locks->pid_fd = fd;
    return WP_OK;
}

enum wp_status
wp_daemon_lock_shared(struct wp_daemon_locks *locks, bool *follows,
                      struct wp_err *err)
{
    enum wp_status status = wp_daemon_lock(locks, err);
    bool other = status == WP_ALREADY_EXISTS;

    if (status == WP_OK) {
        status = wp_lock_take(locks->dir, &locks->backend_fd, err);
        /* Another one is just taking over: it has that lock, and needs the pid
         * file. */
        other = status == WP_FAILED_PRECONDITION;
        if (other) {
            (void)close(locks->pid_fd);
            locks->pid_fd = -1;
        }
    }
    *follows = other;
    return other ? WP_OK : status;
}

/* --- Who stays --- */

/* Each that stays has a byte of the file. The lock is the open file's, not the
 * process's: a descriptor that is closed elsewhere frees nothing. */
static struct flock
places(short type, off_t first, off_t n)
{
    return (struct flock){
        .l_type = type, .l_whence = SEEK_SET, .l_start = first, .l_len = n};
}

/* The first place that is free; false when all are taken. */
static bool
take_place(int fd)
{
    for (off_t i = 0; i < PLACES; i++) {
        struct flock lock = places(F_WRLCK, i, 1);

        if (fcntl(fd, F_OFD_SETLK, &lock) == 0) {
            return true;
        }
    }
    return false;
}

enum wp_status
wp_daemon_locks_join(struct wp_daemon_locks *locks, struct wp_err *err)
{
    char path[512];

    (void)snprintf(path, sizeof path, "%.480s/present", locks->dir);
    locks->present_fd =
        open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (locks->present_fd < 0 || !take_place(locks->present_fd)) {
        return wp_err_sys(err, WP_FAILED_PRECONDITION, errno, "'%.160s'", path);
    }
    return WP_OK;
}

void
wp_daemon_locks_quit(const struct wp_daemon_locks *locks)
{
    struct flock none = places(F_UNLCK, 0, PLACES);

    if (locks->present_fd >= 0) {
        (void)fcntl(locks->present_fd, F_OFD_SETLK, &none);
    }
}

uint32_t
wp_daemon_locks_others(const struct wp_daemon_locks *locks)
{
    uint32_t n = 0;

    for (off_t i = 0; i < PLACES && locks->present_fd >= 0; i++) {
        /* What is had here does not stand in its way. */
        struct flock lock = places(F_WRLCK, i, 1);

        n += fcntl(locks->present_fd, F_OFD_GETLK, &lock) == 0 &&
                     lock.l_type != F_UNLCK
                 ? 1
                 : 0;
    }
    return n;
}

/* --- Giving up --- */

int
wp_daemon_locks_give(struct wp_daemon_locks *locks)
{
    int fd = locks->backend_fd;

    locks->backend_fd = -1;
    return fd;
}

void
wp_daemon_unlock_backend(struct wp_daemon_locks *locks)
{
    int fd = wp_daemon_locks_give(locks);

    if (fd >= 0) {
        (void)close(fd);
    }
}

void
wp_daemon_unlock(struct wp_daemon_locks *locks)
{
    wp_daemon_unlock_backend(locks);
    if (locks->present_fd >= 0) {
        (void)close(locks->present_fd);
        locks->present_fd = -1;
    }
    if (locks->pid_fd >= 0) {
        (void)unlink(locks->path);
        (void)close(locks->pid_fd);
        locks->pid_fd = -1;
    }
}
