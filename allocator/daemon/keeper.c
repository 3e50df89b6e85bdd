#include "allocator/daemon/keeper.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "pool/base/log.h"

enum {
    LOCK_AGAIN_MS = 5,
    FAILED_AGAIN_MS = 1000,
};

struct wp_daemon_follower {
    struct wp_daemon_keeping keeping;
    pthread_t thread;  /* Waits for the lock of the state directory. */
    int stop_fd;       /* Ends that wait. */
    bool has_locks;    /* It need not wait for them. */
    uint32_t restored; /* Then: sandboxes that its records name. */
};

/* Control thread, or before it runs. */
static void
become_keeper(void *ctx)
{
    struct wp_daemon_core *core = ctx;

    wp_pools_lose_unseen(core->pools);
    wp_pools_set_keeper(core->pools, true);
    atomic_store_explicit(&core->keeper, true, memory_order_release);
    wp_control_wake(core->control);
}

/* False when the daemon stops. */
static bool
pause_for(int stop_fd, int ms)
{
    struct pollfd stop = {.fd = stop_fd, .events = POLLIN};

    return poll(&stop, 1, ms) == 0;
}

/* When sandboxes of the records are missing: is another keeper alive, whose
 * they are? Then ALREADY_EXISTS. CANCELLED when the daemon stops before that is
 * known; stop_fd -1: it does not. */
static enum wp_status
check_alone(const struct wp_daemon_keeping *k, bool missing, int stop_fd,
            struct wp_err *err)
{
    struct wp_daemon_redis *redis = wp_daemon_store_redis(k->store);
    const struct wp_conf *conf = k->core->conf;
    char host[WP_PEER_HOST_MAX + 1];

    if (redis == NULL || !missing) {
        return WP_OK;
    }
    /* What is missing here may be alive elsewhere. One heartbeat, and half of
     * another for its way. */
    if (!pause_for(stop_fd,
                   (int)(conf->heartbeat_timeout / 2 / WP_NS_PER_MS))) {
        return wp_err_set(err, WP_CANCELLED, "the daemon stops");
    }
    if (!wp_daemon_redis_other_keeper(redis, host, sizeof host)) {
        return WP_OK;
    }
    return wp_err_set(err, WP_ALREADY_EXISTS,
                      "setting 'redis_prefix': '%s' is in use by the daemon "
                      "'%s' with another state directory; daemons that share "
                      "leases share that too",
                      conf->redis_prefix, host);
}

/* The backend knows the sandboxes now. */
static enum wp_status
begin_keeping(const struct wp_daemon_keeping *k, struct wp_err *err)
{
    struct wp_daemon_redis *redis = wp_daemon_store_redis(k->store);
    enum wp_status status =
        redis != NULL ? wp_daemon_redis_note_pools(redis, err) : WP_OK;

    if (status == WP_OK) {
        wp_loop_call(k->core->loop, become_keeper, k->core);
    }
    return status;
}

enum wp_status
wp_daemon_keep(const struct wp_daemon_keeping *k, uint32_t restored,
               struct wp_err *err)
{
    uint32_t adopted = 0;
    enum wp_status status = wp_daemon_backend_start(
        k->backend, wp_daemon_store_port(k->store), &adopted, err);

    if (status == WP_OK) {
        status = check_alone(k, restored > adopted, -1, err);
    }
    return status == WP_OK ? begin_keeping(k, err) : status;
}

/* The process that had the lock may still be closing its files, of which the
 * pid file is another: that is a matter of milliseconds. What else is wrong is
 * said, and tried again until somebody has mended it. False when the daemon
 * stops. */
static bool
take_pid_file(const struct wp_daemon_follower *self)
{
    enum wp_status status;
    struct wp_err err;
    bool logged = false;

    while ((status = wp_daemon_lock(self->keeping.locks, &err)) != WP_OK) {
        bool held = status == WP_ALREADY_EXISTS;

        if (!held && !logged) {
            wp_log_error("cannot take over yet: no daemon makes sandboxes",
                         wp_kv_err(&err));
            logged = true;
        }
        if (!pause_for(self->stop_fd, held ? LOCK_AGAIN_MS : FAILED_AGAIN_MS)) {
            return false;
        }
    }
    return true;
}

static enum wp_status
take_over(const struct wp_daemon_follower *self, struct wp_err *err)
{
    const struct wp_daemon_keeping *k = &self->keeping;
    int64_t begun_ns = wp_clock_mono_ns(wp_clock_system());
    /* Claims may wait for what is there: a follower has probed at its start,
     * and this one does when it is done. */
    enum wp_status status = wp_daemon_backend_open(k->backend, true, err);
    uint32_t adopted = 0;

    if (status == WP_OK) {
        status = wp_daemon_backend_start(
            k->backend, wp_daemon_store_port(k->store), &adopted, err);
    }
    if (status == WP_OK && self->has_locks) {
        status = check_alone(k, self->restored > adopted, self->stop_fd, err);
    }
    if (status == WP_OK) {
        status = begin_keeping(k, err);
    }
    if (status == WP_OK && self->has_locks) {
        status = wp_daemon_backend_probe(k->backend, err);
    }
    if (status == WP_OK) {
        wp_log_info(self->has_locks
                        ? "this daemon makes the sandboxes from now on"
                        : "took over: this daemon makes the sandboxes from "
                          "now on",
                    wp_kv_ms("took_ms",
                             wp_clock_mono_ns(wp_clock_system()) - begun_ns));
    }
    return status;
}

/* CANCELLED when the daemon stops. */
static enum wp_status
take_locks(const struct wp_daemon_follower *self, struct wp_err *err)
{
    const struct wp_daemon_keeping *k = &self->keeping;
    enum wp_status status = wp_local_lock_wait(
        k->core->conf->state_dir, self->stop_fd, &k->locks->backend_fd, err);

    if (status == WP_OK && !take_pid_file(self)) {
        wp_daemon_unlock_backend(k->locks);
        return WP_CANCELLED;
    }
    return status;
}

static void *
wait_and_take_over(void *arg)
{
    const struct wp_daemon_follower *self = arg;
    struct wp_err err = {.msg = ""};
    enum wp_status status = self->has_locks ? WP_OK : take_locks(self, &err);

    if (status == WP_OK) {
        status = take_over(self, &err);
    }
    if (status != WP_OK && status != WP_CANCELLED) {
        /* Half a keeper helps nobody: whoever started this one starts it anew,
         * and another may take over meanwhile. */
        wp_log_error(self->has_locks ? "cannot go on" : "cannot take over",
                     wp_kv_err(&err));
        wp_daemon_fail(self->keeping.core);
    }
    return NULL;
}

static struct wp_daemon_follower *
start_thread(const struct wp_daemon_follower *as, struct wp_err *err)
{
    struct wp_daemon_follower *self = calloc(1, sizeof *self);
    int error;

    if (self == NULL) {
        (void)wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no memory");
        return NULL;
    }
    *self = *as;
    self->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (self->stop_fd < 0) {
        (void)wp_err_sys(err, WP_RESOURCE_EXHAUSTED, errno, "eventfd");
        free(self);
        return NULL;
    }
    error = pthread_create(&self->thread, NULL, wait_and_take_over, self);
    if (error != 0) {
        (void)wp_err_sys(err, WP_RESOURCE_EXHAUSTED, error,
                         "the thread that waits for the lock");
        (void)close(self->stop_fd);
        free(self);
        return NULL;
    }
    (void)pthread_setname_np(self->thread, "follower");
    return self;
}

struct wp_daemon_follower *
wp_daemon_follow(const struct wp_daemon_keeping *k, struct wp_err *err)
{
    const struct wp_daemon_follower as = {.keeping = *k};
    struct wp_daemon_follower *self = start_thread(&as, err);

    if (self != NULL) {
        wp_log_info("another daemon makes the sandboxes: this one shares its "
                    "leases, and takes over when that one ends",
                    wp_kv_str("state_dir", k->core->conf->state_dir));
    }
    return self;
}

struct wp_daemon_follower *
wp_daemon_keep_later(const struct wp_daemon_keeping *k, uint32_t restored,
                     struct wp_err *err)
{
    const struct wp_daemon_follower as = {
        .keeping = *k, .has_locks = true, .restored = restored};

    return start_thread(&as, err);
}

void
wp_daemon_unfollow(struct wp_daemon_follower **follower)
{
    struct wp_daemon_follower *self = *follower;
    const uint64_t one = 1;
    ssize_t n;

    if (self == NULL) {
        return;
    }
    *follower = NULL;
    atomic_store_explicit(&self->keeping.core->stopping, true,
                          memory_order_relaxed);
    n = write(self->stop_fd, &one, sizeof one);
    (void)n;
    (void)pthread_join(self->thread, NULL);
    (void)close(self->stop_fd);
    free(self);
}
