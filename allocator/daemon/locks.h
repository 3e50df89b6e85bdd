/* allocator/daemon/locks.h - the two locks of a state directory: the pid file,
 * which says that a daemon uses it, and the backend's, whose holder makes the
 * sandboxes. Private to the daemon. */
#ifndef WP_ALLOCATOR_DAEMON_LOCKS_H
#define WP_ALLOCATOR_DAEMON_LOCKS_H

#include <stdbool.h>

#include "pool/base/status.h"

/* One thread at a time: main, or the follower while main waits for it. */
struct wp_daemon_locks {
    int pid_fd;      /* The pid file, locked; or -1. */
    char path[512];  /* Its path. */
    int backend_fd;  /* For the backend that is made next; or -1. */
    const char *dir; /* The state directory. Borrowed. */
};

/* Holds neither. */
void wp_daemon_locks_init(struct wp_daemon_locks *locks, const char *dir);
/* Creates and locks the pid file. ALREADY_EXISTS: another daemon has it. */
enum wp_status wp_daemon_lock(struct wp_daemon_locks *locks,
                              struct wp_err *err);
/* Both, where several daemons share a store: when another one has either of
 * them, this one has none, and *follows. */
enum wp_status wp_daemon_lock_shared(struct wp_daemon_locks *locks,
                                     bool *follows, struct wp_err *err);
/* The backend's lock, for the backend: -1 when it is not held. */
int wp_daemon_locks_give(struct wp_daemon_locks *locks);
/* Gives the backend's lock up. */
void wp_daemon_unlock_backend(struct wp_daemon_locks *locks);
/* Gives up what is held, and removes the pid file. */
void wp_daemon_unlock(struct wp_daemon_locks *locks);

#endif
