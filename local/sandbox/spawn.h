/* local/sandbox/spawn.h - starts a process with another user's rights, fast.
 *
 * The child borrows the daemon's memory until it executes (as posix_spawn
 * does), so the cost does not grow with the daemon. One thread at a time. */
#ifndef WP_LOCAL_SANDBOX_SPAWN_H
#define WP_LOCAL_SANDBOX_SPAWN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "local/walls/cgroup.h"
#include "pool/base/status.h"

enum {
    WP_SPAWN_FDS_MAX = 144,
    /* Descriptors given to wp_spawn as one of the first 16 are at least this.
     */
    WP_SPAWN_FD_FLOOR = 16,
};

struct wp_spawn {
    const char *path; /* Absolute. */
    char *const *argv;
    char *const *envp;
    /* fds[i], which is above i, becomes descriptor i; all others are closed in
     * the child. */
    int fds[WP_SPAWN_FDS_MAX];
    int fds_len;
    /* As of wp_cgroup_open_procs: joined before rights are dropped. */
    int procs_fds[WP_CGROUP_TREES_MAX];
    int procs_len;
    /* As of wp_cgroup_open_dir: where it can be, the child is born there, and
     * joins nothing. 0 or -1: none. */
    int group_fd;
    int close_fd; /* Closed before anything that takes time; 0: none. */
    bool drop;    /* Become uid and gid, without other groups. */
    uid_t uid;
    gid_t gid;
};

struct wp_spawned {
    pid_t pid;
    int pidfd;
};

/* Not WP_OK: no process is left, and out has -1 for both. The child is the
 * caller's to reap. */
WP_MUST_CHECK enum wp_status wp_spawn(const struct wp_spawn *spawn,
                                      struct wp_spawned *out,
                                      struct wp_err *err);

/* Moves fd to WP_SPAWN_FD_FLOOR or above, close-on-exec; closes the old one.
 * Returns the new one, or -1 with errno (fd is then closed too). */
int wp_spawn_fd(int fd);
/* The same, for one that may become any descriptor. */
int wp_spawn_fd_above(int fd);

#endif
