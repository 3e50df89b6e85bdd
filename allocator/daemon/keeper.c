/* Which of the daemons on one state directory makes the sandboxes: the one that
 * holds its lock. The others wait for it; when the kernel gives it to one of
 * them, that one takes up the sandboxes that are there and goes on. */
#include "allocator/daemon/parts.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "allocator/daemon/redis.h"
#include "pool/base/log.h"

enum {
    LOCK_AGAIN_MS = 5,
    FAILED_AGAIN_MS = 1000,
};

struct wp_daemon_follower {
    pthread_t thread; /* Waits for the lock of the state directory. */
    bool runs;
    int stop_fd; /* Ends that wait. */
};

/* Control thread, or before it runs. */
static void
become_keeper(void *ctx, uint64_t a, uint64_t b)
{
    struct wp_daemon *daemon = ctx;

    (void)a;
    (void)b;
    wp_pools_lose_unseen(daemon->pools);
    wp_pools_set_keeper(daemon->pools, true);
    atomic_store_explicit(&daemon->keeper, true, memory_order_release);
    wp_control_wake(daemon->control);
}

void
wp_daemon_keep(struct wp_daemon *daemon)
{
    wp_loop_call(daemon->control_loop, become_keeper, daemon);
}

/* False when the daemon stops. */
static bool
pause_for(const struct wp_daemon *daemon, int ms)
{
    struct pollfd stop = {.fd = daemon->follower->stop_fd, .events = POLLIN};

    return poll(&stop, 1, ms) == 0;
}

/* The process that had the lock may still be closing its files, of which the
 * pid file is another. False when the daemon stops. */
static bool
take_pid_file(struct wp_daemon *daemon)
{
    struct wp_err err;

    while (wp_daemon_lock(daemon, &err) != WP_OK) {
        if (!pause_for(daemon, LOCK_AGAIN_MS)) {
            return false;
        }
    }
    return true;
}

static enum wp_status
take_over(struct wp_daemon *daemon, struct wp_err *err)
{
    int64_t begun_ns = wp_clock_mono_ns(wp_clock_system());
    enum wp_status status = wp_daemon_create_backend(daemon, err);

    if (status == WP_OK) {
        status = wp_daemon_start_backend(daemon, err);
    }
    if (status == WP_OK) {
        status = wp_daemon_redis_note_pools(daemon->redis, err);
    }
    if (status == WP_OK) {
        wp_daemon_keep(daemon);
        wp_log_info("took over: this daemon makes the sandboxes from now on",
                    wp_kv_ms("took_ms",
                             wp_clock_mono_ns(wp_clock_system()) - begun_ns));
    }
    return status;
}

static void *
wait_and_take_over(void *arg)
{
    struct wp_daemon *daemon = arg;
    struct wp_err err = {.msg = ""};
    enum wp_status status =
        wp_local_lock_wait(daemon->conf->state_dir, daemon->follower->stop_fd,
                           &daemon->backend_lock_fd, &err);

    if (status == WP_CANCELLED) {
        return NULL;
    }
    if (status == WP_OK && !take_pid_file(daemon)) {
        (void)close(daemon->backend_lock_fd);
        daemon->backend_lock_fd = -1;
        return NULL;
    }
    if (status == WP_OK) {
        status = take_over(daemon, &err);
    }
    if (status != WP_OK) {
        /* Half a keeper helps nobody: whoever started this one starts it anew,
         * and another may take over meanwhile. */
        wp_log_error("cannot take over", wp_kv_err(&err));
        atomic_store_explicit(&daemon->failed, true, memory_order_relaxed);
        (void)kill(getpid(), SIGTERM);
    }
    return NULL;
}

enum wp_status
wp_daemon_await_lock(struct wp_daemon *daemon, struct wp_err *err)
{
    struct wp_daemon_follower *follower = calloc(1, sizeof *follower);
    int error;

    if (follower == NULL) {
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no memory");
    }
    daemon->follower = follower;
    follower->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (follower->stop_fd < 0) {
        return wp_err_sys(err, WP_RESOURCE_EXHAUSTED, errno, "eventfd");
    }
    error = pthread_create(&follower->thread, NULL, wait_and_take_over, daemon);
    if (error != 0) {
        return wp_err_sys(err, WP_RESOURCE_EXHAUSTED, error,
                          "the thread that waits for the lock");
    }
    follower->runs = true;
    (void)pthread_setname_np(follower->thread, "follower");
    wp_log_info("another daemon makes the sandboxes: this one shares its "
                "leases, and takes over when that one ends",
                wp_kv_str("state_dir", daemon->conf->state_dir));
    return WP_OK;
}

void
wp_daemon_stop_waiting(struct wp_daemon *daemon)
{
    struct wp_daemon_follower *follower = daemon->follower;
    const uint64_t one = 1;
    ssize_t n;

    if (follower == NULL) {
        return;
    }
    if (follower->runs) {
        n = write(follower->stop_fd, &one, sizeof one);
        (void)n;
        (void)pthread_join(follower->thread, NULL);
    }
    if (follower->stop_fd >= 0) {
        (void)close(follower->stop_fd);
    }
    daemon->follower = NULL;
    free(follower);
}

enum wp_status
wp_daemon_check_alone(struct wp_daemon *daemon, uint32_t missing,
                      struct wp_err *err)
{
    char host[WP_PEER_HOST_MAX + 1];
    int64_t wait_ns = daemon->conf->heartbeat_timeout / 2;
    struct timespec ts = {wait_ns / WP_NS_PER_S, wait_ns % WP_NS_PER_S};

    if (daemon->redis == NULL || missing == 0) {
        return WP_OK;
    }
    /* What is missing here may be alive elsewhere. One heartbeat, and half of
     * another for its way. */
    (void)nanosleep(&ts, NULL);
    if (!wp_daemon_redis_other_keeper(daemon->redis, host, sizeof host)) {
        return WP_OK;
    }
    return wp_err_set(err, WP_ALREADY_EXISTS,
                      "setting 'redis_prefix': '%s' is in use by the daemon "
                      "'%s' with another state directory; daemons that share "
                      "leases share that too",
                      daemon->conf->redis_prefix, host);
}
