#include "allocator/daemon/cluster.h"
#include "allocator/daemon/parts.h"
#include "allocator/daemon/redis.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "pool/base/log.h"

/* While leaving, how often it is looked whether all is quiet. */
#define LOOK_NS (20 * WP_NS_PER_MS)
/* How long destroying all sandboxes may take. */
#define QUIET_NS (15 * WP_NS_PER_S)
/* How long the lease store may take for what scalers have learned. */
#define LEARNED_NS (2 * WP_NS_PER_S)
/* Between the last answer and the end of its connection: for reading it. */
#define ANSWERS_NS (50 * WP_NS_PER_MS)
/* What calls get to notice that they are over. */
#define LAST_CALLS_NS (500 * WP_NS_PER_MS)
/* For a service manager that is busy; one that does not read holds nobody up
 * for longer. */
#define NOTIFY_US 200000

extern char **environ;

void
wp_daemon_notify(const char *state)
{
    /* Read once more at stop: nothing here changes the environment. */
    const char *path = getenv("NOTIFY_SOCKET"); /* NOLINT(concurrency*) */
    const struct timeval patience = {0, NOTIFY_US};
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    size_t len;
    int fd;

    if (path == NULL) {
        return;
    }
    len = strlen(path);
    if (len == 0 || len >= sizeof un.sun_path) {
        return;
    }
    memcpy(un.sun_path, path, len);
    if (un.sun_path[0] == '@') {
        un.sun_path[0] = '\0'; /* An abstract name. */
    }
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return;
    }
    if (setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience) !=
            0 ||
        sendto(fd, state, strlen(state), MSG_NOSIGNAL,
               (const struct sockaddr *)&un,
               (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len)) < 0) {
        wp_log_warn("the service manager was not told",
                    wp_kv_str("state", state), wp_kv_int("errno", errno));
    }
    (void)close(fd);
}

/* --- SIGHUP --- */

struct retarget {
    struct wp_daemon *daemon;
    const struct wp_manifest *manifest;
};

static bool
same_shape(const struct wp_pool_spec *a, const struct wp_pool_spec *b)
{
    /* The analyzer takes specs that there are none of for NULL ones.
     * NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker) */
    return strcmp(a->template_name, b->template_name) == 0 &&
           a->waiters_max == b->waiters_max &&
           a->tenant_waiters_max == b->tenant_waiters_max &&
           a->create_inflight_max == b->create_inflight_max &&
           a->ttl_default_ns == b->ttl_default_ns &&
           a->ttl_max_ns == b->ttl_max_ns && a->wait_max_ns == b->wait_max_ns &&
           a->ready_within_ns == b->ready_within_ns &&
           a->cold_start == b->cold_start;
}

/* A new policy, and with it a new target, which is no hand's then. */
static void
change_policy(struct wp_daemon *daemon, uint32_t index,
              const struct wp_pool_spec *before,
              const struct wp_pool_spec *spec)
{
    struct wp_pool_spec next = *before;
    struct wp_err err;

    next.scale = spec->scale;
    next.target = spec->target;
    if (wp_pools_update(daemon->pools, index, &next, &err) != WP_OK) {
        wp_log_error("new scaling policy refused",
                     wp_kv_str("pool", spec->name), wp_kv_err(&err));
        return;
    }
    wp_log_info("new scaling policy", wp_kv_str("pool", spec->name));
}

static void
retarget_pool(struct wp_daemon *daemon, const struct wp_pool_spec *spec)
{
    uint32_t index =
        wp_pools_index(daemon->pools, wp_str_from(spec->pool_namespace),
                       wp_str_from(spec->name));
    struct wp_pool_stats stats;
    struct wp_err err;

    if (index == UINT32_MAX) {
        wp_log_warn("a new pool needs a restart",
                    wp_kv_str("pool", spec->name));
        return;
    }
    wp_pools_stats(daemon->pools, index, &stats);
    if (!same_shape(&stats.spec, spec)) {
        wp_log_warn("only a pool's replicas and scaling policy change without "
                    "a restart",
                    wp_kv_str("pool", spec->name));
    }
    if (!wp_scale_policy_eq(&stats.spec.scale, &spec->scale)) {
        change_policy(daemon, index, &stats.spec, spec);
        return;
    }
    /* The scaler's own changes are none of the manifest's. */
    if ((stats.scaled ? stats.replicas : stats.spec.target) == spec->target) {
        return;
    }
    if (wp_pools_set_target(daemon->pools, index, spec->target, &err) !=
        WP_OK) {
        wp_log_error("new target refused", wp_kv_str("pool", spec->name),
                     wp_kv_err(&err));
        return;
    }
    wp_log_info("new target", wp_kv_str("pool", spec->name),
                wp_kv_int("from", stats.spec.target),
                wp_kv_int("to", spec->target));
}

/* Control thread. */
static void
retarget_all(void *ctx, uint64_t a, uint64_t b)
{
    const struct retarget *job = ctx;
    const struct wp_pool_spec *specs;
    size_t n = wp_manifest_pools(job->manifest, &specs);

    (void)a;
    (void)b;
    for (size_t i = 0; i < n; i++) {
        retarget_pool(job->daemon, &specs[i]);
    }
    for (uint32_t i = 0; i < wp_pools_count(job->daemon->pools); i++) {
        struct wp_pool_stats stats;
        bool found = false;

        wp_pools_stats(job->daemon->pools, i, &stats);
        for (size_t j = 0; j < n && !found; j++) {
            const struct wp_pool_spec *spec = &specs[j];

            found = wp_str_is(wp_str_from(spec->name), stats.spec.name) &&
                    wp_str_is(wp_str_from(spec->pool_namespace),
                              stats.spec.pool_namespace);
        }
        if (!found) {
            wp_log_warn("a pool that is gone from the manifests is kept until "
                        "a restart; scale it to 0 or drain it",
                        wp_kv_str("pool", stats.spec.name));
        }
    }
    wp_control_wake(job->daemon->control);
}

/* Targets of the manifests, and what else may change while running. */
static void
reload(struct wp_daemon *daemon)
{
    struct wp_conf *conf = wp_conf_create();
    struct wp_err err = {.msg = "no memory"};
    enum wp_conf_action action;
    bool cluster = daemon->cluster != NULL;
    struct retarget job = {daemon, NULL};
    struct wp_manifest *manifest = NULL;

    if (conf != NULL && wp_conf_load(conf, daemon->argc, daemon->argv, environ,
                                     &action, &err) == WP_OK) {
        manifest = wp_daemon_read_manifests(conf, &err);
    }
    if (manifest == NULL) {
        wp_log_error("reload refused, all stays as it was", wp_kv_err(&err));
    } else if (cluster) {
        wp_log_info("nothing to reload: pools are the cluster's objects");
    } else {
        job.manifest = manifest;
        wp_loop_call(daemon->control_loop, retarget_all, &job);
        wp_log_info("reloaded the manifests' targets and policies");
    }
    wp_manifest_destroy(manifest);
    wp_conf_destroy(conf);
}

/* --- Leaving --- */

/* True when a further SIGTERM or SIGINT came: hurry. */
static bool
hurried(int64_t wait_ns)
{
    struct timespec ts = {wait_ns / WP_NS_PER_S, wait_ns % WP_NS_PER_S};
    sigset_t set;
    int sig;

    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGTERM);
    (void)sigaddset(&set, SIGINT);
    do {
        sig = sigtimedwait(&set, NULL, &ts);
    } while (sig < 0 && errno == EINTR);
    return sig > 0;
}

/* Waits until is_over, at most for_ns. True when it had to be cut short. */
static bool
wait_until(struct wp_daemon *daemon, bool (*is_over)(struct wp_daemon *),
           int64_t for_ns)
{
    int64_t end_ns = wp_time_add(wp_clock_mono_ns(wp_clock_system()), for_ns);

    while (!is_over(daemon)) {
        if (wp_clock_mono_ns(wp_clock_system()) >= end_ns || hurried(LOOK_NS)) {
            return true;
        }
    }
    return false;
}

static bool
no_calls(struct wp_daemon *daemon)
{
    struct wp_rpc_stats stats;

    wp_rpc_server_stats(daemon->rpc, &stats);
    return stats.calls_in_flight == 0;
}

static bool
no_leases(struct wp_daemon *daemon)
{
    uint32_t leased = 0;

    for (uint32_t i = 0; i < wp_pools_count(daemon->pools); i++) {
        struct wp_pool_stats stats;

        wp_pools_stats(daemon->pools, i, &stats);
        leased += stats.leased;
    }
    return leased == 0;
}

struct quiet_question {
    struct wp_daemon *daemon;
    bool quiet;
};

static void
ask_quiet(void *ctx, uint64_t a, uint64_t b)
{
    struct quiet_question *q = ctx;

    (void)a;
    (void)b;
    q->quiet = wp_pools_quiet(q->daemon->pools);
}

static bool
all_quiet(struct wp_daemon *daemon)
{
    struct quiet_question q = {daemon, false};

    wp_loop_call(daemon->control_loop, ask_quiet, &q);
    return q.quiet;
}

void
wp_daemon_refuse_claims(void *ctx, uint64_t a, uint64_t b)
{
    struct wp_daemon *daemon = ctx;

    (void)a;
    (void)b;
    for (uint32_t i = 0; i < wp_pools_count(daemon->pools); i++) {
        wp_pools_drain(daemon->pools, i);
    }
    wp_control_wake(daemon->control);
}

static void
stop_watches(void *ctx, uint64_t a, uint64_t b)
{
    struct wp_daemon *daemon = ctx;

    (void)a;
    (void)b;
    wp_services_stop(daemon->services);
}

/* Is there another daemon that goes on with the sandboxes? */
static bool
is_succeeded(const struct wp_daemon *daemon)
{
    /* What is in a cluster stays there. */
    if (daemon->cluster != NULL) {
        return true;
    }
    return daemon->redis != NULL && (!wp_daemon_is_keeper(daemon) ||
                                     wp_daemon_redis_others(daemon->redis) > 0);
}

/* Do idle sandboxes run on, too? */
static bool
leaves_idle(const struct wp_daemon *daemon)
{
    return wp_conf_stop_leaves(daemon->conf) == WP_CONF_STOP_ALL ||
           daemon->succeeded;
}

/* Ends claims and creation, and keeps what is left running for the next
 * start. Control thread. */
static void
keep_leases(void *ctx, uint64_t a, uint64_t b)
{
    struct wp_daemon *daemon = ctx;

    (void)a;
    (void)b;
    wp_pools_leave(daemon->pools, leaves_idle(daemon));
    wp_control_wake(daemon->control);
}

/* Nobody goes on with the idle ones after all. Control thread. */
static void
end_idle(void *ctx, uint64_t a, uint64_t b)
{
    struct wp_daemon *daemon = ctx;

    (void)a;
    (void)b;
    wp_pools_leave(daemon->pools, false);
    wp_control_wake(daemon->control);
}

static void
stop_pools(void *ctx, uint64_t a, uint64_t b)
{
    struct wp_daemon *daemon = ctx;

    (void)a;
    (void)b;
    wp_pools_stop(daemon->pools);
    wp_control_wake(daemon->control);
}

static bool
end_all(struct wp_daemon *daemon)
{
    wp_loop_call(daemon->control_loop, stop_pools, daemon);
    (void)wait_until(daemon, wp_daemon_learned_saved, LEARNED_NS);
    if (wait_until(daemon, all_quiet, QUIET_NS)) {
        wp_log_warn("not every sandbox was seen to end; the next start sweeps "
                    "what is left");
        return false;
    }
    wp_log_info("nothing is left behind");
    return true;
}

/* Has all that is not to be left running gone? */
static bool
rest_gone(struct wp_daemon *daemon)
{
    bool all = leaves_idle(daemon);
    uint32_t rest = 0;

    if (!wp_daemon_is_keeper(daemon)) {
        return true; /* None of them is this one's. */
    }
    for (uint32_t i = 0; i < wp_pools_count(daemon->pools); i++) {
        struct wp_pool_stats stats;

        wp_pools_stats(daemon->pools, i, &stats);
        rest += stats.dying + (all ? 0 : stats.ready + stats.warming);
    }
    return rest == 0;
}

static bool
leave_running(struct wp_daemon *daemon)
{
    bool clean = !wait_until(daemon, rest_gone, QUIET_NS);
    uint32_t leased = 0;
    uint32_t ready = 0;

    for (uint32_t i = 0; i < wp_pools_count(daemon->pools); i++) {
        struct wp_pool_stats stats;

        wp_pools_stats(daemon->pools, i, &stats);
        leased += stats.leased;
        ready += stats.ready;
    }
    if (!clean) {
        wp_log_warn("not every idle sandbox was seen to end; the next start "
                    "takes up or sweeps what is left");
    }
    if (daemon->cluster != NULL) {
        wp_log_info("the cluster keeps what is there",
                    wp_kv_int("leases", leased), wp_kv_int("idle", ready));
    } else if (daemon->succeeded) {
        wp_log_info("other daemons go on with what is there",
                    wp_kv_int("leases", leased), wp_kv_int("idle", ready));
    } else if (leased + ready == 0 && clean) {
        wp_log_info("nothing is left behind");
    } else {
        wp_log_info("left for the next start; to end them, start once more "
                    "with stop_leaves=nothing and stop",
                    wp_kv_int("leases", leased), wp_kv_int("idle", ready));
    }
    return clean;
}

/* Which is looked at again when calls are over: others that leave at the same
 * time have said so by then. True when nobody goes on after all. */
static bool
is_left_alone(struct wp_daemon *daemon)
{
    bool alone = daemon->succeeded && !is_succeeded(daemon);

    daemon->succeeded = daemon->succeeded && !alone;
    return alone;
}

/* True when it had to be cut short. */
static bool
await_leases(struct wp_daemon *daemon, int64_t grace_ns)
{
    if (grace_ns <= 0) {
        return false;
    }
    wp_log_info("draining: no new claims, leases live on",
                wp_kv_ms("grace_ms", grace_ns));
    return wait_until(daemon, no_leases, grace_ns);
}

/* ends: no lease and no sandbox stays behind, unless other daemons share them.
 * lease_grace_ns: how long leases may live on before, from an admin's Drain. */
static bool
leave(struct wp_daemon *daemon, bool ends, int64_t lease_grace_ns)
{
    bool hurry = false;
    bool asked = ends;

    wp_daemon_stop_waiting(daemon);
    wp_daemon_redis_leave(daemon->redis);
    daemon->succeeded = is_succeeded(daemon);
    ends = asked && !daemon->succeeded;
    wp_daemon_notify("STOPPING=1");
    daemon->leaves_ready = !ends;
    atomic_store_explicit(&daemon->metrics.serving, false,
                          memory_order_release);
    wp_rpc_server_set_serving(daemon->rpc, false);
    wp_daemon_cluster_quiet(daemon->cluster);
    wp_loop_call(daemon->control_loop,
                 ends ? wp_daemon_refuse_claims : keep_leases, daemon);
    if (ends) {
        hurry = await_leases(daemon, lease_grace_ns);
    }
    wp_log_info("leaving");
    wp_loop_call(daemon->control_loop, stop_watches, daemon);
    if (!hurry) {
        hurry = wait_until(daemon, no_calls, daemon->conf->drain_grace) ||
                hurried(ANSWERS_NS);
    }
    (void)wp_rpc_server_drain(daemon->rpc, hurry ? 0 : LAST_CALLS_NS);
    if (is_left_alone(daemon)) {
        ends = asked;
        daemon->leaves_ready = !ends;
        wp_loop_call(daemon->control_loop, ends ? end_idle : keep_leases,
                     daemon);
        if (ends && !hurry) {
            (void)await_leases(daemon, lease_grace_ns);
        }
    }
    if (!ends) {
        (void)wait_until(daemon, wp_daemon_learned_saved, LEARNED_NS);
    }
    return ends ? end_all(daemon) : leave_running(daemon);
}

/* Until it is over. */
static bool
serve(struct wp_daemon *daemon)
{
    sigset_t set;

    wp_daemon_signals(&set);
    for (;;) {
        int sig = sigwaitinfo(&set, NULL);
        int64_t grace_ns =
            atomic_load_explicit(&daemon->drain_grace_ns, memory_order_acquire);

        if (sig == SIGHUP) {
            wp_daemon_notify("RELOADING=1");
            reload(daemon);
            wp_daemon_notify("READY=1");
        } else if (sig == SIGTERM || sig == SIGINT) {
            return leave(
                daemon,
                wp_conf_stop_leaves(daemon->conf) == WP_CONF_STOP_NOTHING, 0);
        } else if (sig == SIGUSR1 && grace_ns >= 0) {
            return leave(daemon, true, grace_ns);
        }
    }
}

bool
wp_daemon_run(struct wp_daemon *daemon)
{
    bool clean = serve(daemon);

    return clean &&
           !atomic_load_explicit(&daemon->failed, memory_order_relaxed);
}
