#include "allocator/stores/sqlite/log_sync.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "allocator/stores/sqlite/file.h"
#include "pool/base/assert.h"
#include "proto/loop/thread.h"

/* Who has the turn moves it from IDLE to ASKED, and back to IDLE; the thread
 * moves it from ASKED to DONE. A reset of what is ASKED leaves the thread a
 * sync that nobody waits for. */
enum {
    IDLE,
    ASKED,
    DONE,
    ENDING
};

static void
await_wake(struct wp_lease_log_sync *sync)
{
    while (sem_wait(&sync->wake) != 0) {
        WP_ASSERT(errno == EINTR);
    }
}

static void *
sync_main(void *arg)
{
    struct wp_lease_log_sync *sync = arg;
    int state = ASKED;

    (void)pthread_setname_np(pthread_self(), "wp-lease-sync");
    for (;;) {
        await_wake(sync);
        if (atomic_load_explicit(&sync->state, memory_order_relaxed) ==
            ENDING) {
            return NULL;
        }
        (void)fdatasync(sync->fd);
        state = ASKED;
        (void)atomic_compare_exchange_strong_explicit(
            &sync->state, &state, DONE, memory_order_relaxed,
            memory_order_relaxed);
    }
}

enum wp_status
wp_lease_log_sync_start(struct wp_lease_log_sync *sync, const char *path,
                        struct wp_err *err)
{
    char log_path[WP_LEASE_FILE_PATH_MAX + 32];
    int error;

    (void)snprintf(log_path, sizeof log_path, "%s-wal", path);
    sync->fd = open(log_path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (sync->fd < 0) {
        return wp_err_sys(err, WP_UNAVAILABLE, errno,
                          "the lease file's log '%s' cannot be opened",
                          log_path);
    }
    error = sem_init(&sync->wake, 0, 0);
    WP_ASSERT(error == 0);
    atomic_init(&sync->state, IDLE);
    error = wp_thread_start(&sync->thread, sync_main, sync);
    if (error != 0) {
        (void)sem_destroy(&sync->wake);
        (void)close(sync->fd);
        return wp_err_sys(err, WP_UNAVAILABLE, error,
                          "the lease store's thread cannot start");
    }
    sync->running = true;
    return WP_OK;
}

void
wp_lease_log_sync_stop(struct wp_lease_log_sync *sync)
{
    if (!sync->running) {
        return;
    }
    atomic_store_explicit(&sync->state, ENDING, memory_order_relaxed);
    (void)sem_post(&sync->wake);
    (void)pthread_join(sync->thread, NULL);
    (void)sem_destroy(&sync->wake);
    (void)close(sync->fd);
    sync->running = false;
}

bool
wp_lease_log_sync_done(struct wp_lease_log_sync *sync)
{
    int state = atomic_load_explicit(&sync->state, memory_order_relaxed);

    if (state == IDLE) {
        atomic_store_explicit(&sync->state, ASKED, memory_order_relaxed);
        (void)sem_post(&sync->wake);
    }
    return state == DONE;
}

void
wp_lease_log_sync_reset(struct wp_lease_log_sync *sync)
{
    atomic_store_explicit(&sync->state, IDLE, memory_order_relaxed);
}
