/* allocator/daemon/locks.h - the locks of a state directory: the pid file, by
 * which a daemon uses it, the backend's, whose holder makes the sandboxes, and
 * a place in the file of those that are here to stay. The kernel knows first
 * and with certainty that a process has died, and frees them. Private to the
 * daemon. */
#ifndef WP_ALLOCATOR_DAEMON_LOCKS_H
#define WP_ALLOCATOR_DAEMON_LOCKS_H

#include <stdbool.h>
#include <stdint.h>

#include "pool/base/status.h"

/* One thread at a time: main, or the follower while main waits for it. */
struct wp_daemon_locks {
    int pid_fd;      /* The pid file, locked; or -1. */
    char path[512];  /* Its path. */
    int backend_fd;  /* For the backend that is made next; or -1. */
    int present_fd;  /* The file of those that stay; -1: it is not shared. */
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
/* Several daemons share the directory: this one is among those that stay.
 * Before it serves. */
enum wp_status wp_daemon_locks_join(struct wp_daemon_locks *locks,
                                    struct wp_err *err);
/* It stays no longer. */
void wp_daemon_locks_quit(const struct wp_daemon_locks *locks);
/* How many others stay, of at most 64. Of daemons that quit at once at least
 * the last one is told 0. Without join 0. Any thread, after join. */
uint32_t wp_daemon_locks_others(const struct wp_daemon_locks *locks);
/* Gives the backend's lock up. */
void wp_daemon_unlock_backend(struct wp_daemon_locks *locks);
/* Gives up what is held, and removes the pid file. */
void wp_daemon_unlock(struct wp_daemon_locks *locks);

#endif
