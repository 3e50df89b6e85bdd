/* allocator/stores/sqlite/log_sync.h - has the disk take the log before it is
 * copied into the file, beside the commits that go on.
 *
 * A checkpoint syncs the log first, and no commit is done meanwhile. Most of
 * that wait is for pages that have long been written. So a thread syncs them
 * before, by a descriptor of its own; the checkpoint finds the few that came
 * since. It is a matter of time only: what the file promises is SQLite's own
 * syncs. */
#ifndef WP_ALLOCATOR_STORES_SQLITE_LOG_SYNC_H
#define WP_ALLOCATOR_STORES_SQLITE_LOG_SYNC_H

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "pool/base/status.h"

struct wp_lease_log_sync {
    int fd; /* Of the log; the thread's. */
    pthread_t thread;
    sem_t wake; /* One post for each sync, and one for the end. */
    _Atomic(int) state;
    bool running; /* Main thread. */
};

/* Opens the log of the file, which is there as long as the file is open, and
 * starts the thread. sync is zeroed. UNAVAILABLE with err: the system refused;
 * stop may be called. Main thread. */
enum wp_status wp_lease_log_sync_start(struct wp_lease_log_sync *sync,
                                       const char *path, struct wp_err *err);
/* Waits for a sync that is under way. Idempotent. Main thread. */
void wp_lease_log_sync_stop(struct wp_lease_log_sync *sync);

/* True once the disk has what was in the log at the first call since start or
 * wp_lease_log_sync_reset; that call wakes the thread. True as well when the
 * sync has failed: the checkpoint's own one tells why. Whose turn it is. */
WP_MUST_CHECK bool wp_lease_log_sync_done(struct wp_lease_log_sync *sync);
/* The log begins anew. Whose turn it is. */
void wp_lease_log_sync_reset(struct wp_lease_log_sync *sync);

#endif
