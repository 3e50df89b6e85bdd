#include "allocator/daemon/leave.h"

#include <errno.h>
#include <signal.h>
#include <time.h>

#include "allocator/daemon/pools.h"
#include "pool/base/log.h"

/* While leaving, how often it is looked whether all is quiet. */
#define LOOK_NS (20 * WP_NS_PER_MS)
/* How long all of it may take after the calls: waiting for another daemon,
 * saving, destroying all sandboxes. With the 5 s that the machine gets to stop
 * these are the 20 s that the setting drain_grace tells of. */
#define REST_NS (15 * WP_NS_PER_S)
/* How long of that the lease store may take for what scalers have learned. */
#define LEARNED_NS (2 * WP_NS_PER_S)
/* Between the last answer and the end of its connection: for reading it. */
#define ANSWERS_NS (50 * WP_NS_PER_MS)
/* What calls get to notice that they are over. */
#define LAST_CALLS_NS (500 * WP_NS_PER_MS)

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

static int64_t
after(int64_t ns)
{
    return wp_time_add(wp_clock_mono_ns(wp_clock_system()), ns);
}

/* Waits until is_over, at most until end_ns. True when it had to be cut short.
 */
static bool
wait_until(struct wp_daemon_leaving *l,
           bool (*is_over)(struct wp_daemon_leaving *), int64_t end_ns)
{
    while (!is_over(l)) {
        if (after(0) >= end_ns || hurried(LOOK_NS)) {
            return true;
        }
    }
    return false;
}

static bool
no_calls(struct wp_daemon_leaving *l)
{
    return wp_daemon_servers_calls(l->servers) == 0;
}

static bool
no_leases(struct wp_daemon_leaving *l)
{
    uint32_t leased = 0;

    for (uint32_t i = 0; i < wp_pools_count(l->core->pools); i++) {
        struct wp_pool_stats stats;

        wp_pools_stats(l->core->pools, i, &stats);
        leased += stats.leased;
    }
    return leased == 0;
}

struct quiet_question {
    struct wp_pools *pools;
    bool quiet;
};

static void
ask_quiet(void *ctx)
{
    struct quiet_question *q = ctx;

    q->quiet = wp_pools_quiet(q->pools);
}

static bool
all_quiet(struct wp_daemon_leaving *l)
{
    struct quiet_question q = {l->core->pools, false};

    wp_loop_call(l->core->loop, ask_quiet, &q);
    return q.quiet;
}

static void
end_streams(void *ctx)
{
    struct wp_daemon_leaving *l = ctx;

    wp_services_end_streams(l->core->services);
}

static void
stop_watches(void *ctx)
{
    struct wp_daemon_leaving *l = ctx;

    wp_services_stop(l->core->services);
}

/* Do idle sandboxes run on, too? */
static bool
leaves_idle(const struct wp_daemon_leaving *l)
{
    return wp_conf_stop_leaves(l->core->conf) == WP_CONF_STOP_ALL ||
           l->succeeded;
}

/* Ends claims and creation, and keeps what is left running for the next
 * start. Control thread. */
static void
keep_leases(void *ctx)
{
    struct wp_daemon_leaving *l = ctx;

    wp_pools_leave(l->core->pools, leaves_idle(l));
    wp_control_wake(l->core->control);
}

/* Nobody goes on with the idle ones after all. Control thread. */
static void
end_idle(void *ctx)
{
    struct wp_daemon_leaving *l = ctx;

    wp_pools_leave(l->core->pools, false);
    wp_control_wake(l->core->control);
}

static void
stop_pools(void *ctx)
{
    struct wp_daemon_leaving *l = ctx;

    wp_pools_stop(l->core->pools);
    wp_control_wake(l->core->control);
}

static bool
learned_saved(struct wp_daemon_leaving *l)
{
    return wp_daemon_learned_saved(l->core);
}

static void
await_learned(struct wp_daemon_leaving *l)
{
    int64_t end_ns = after(LEARNED_NS);

    (void)wait_until(l, learned_saved, end_ns < l->end_ns ? end_ns : l->end_ns);
}

static bool
end_all(struct wp_daemon_leaving *l)
{
    wp_loop_call(l->core->loop, stop_pools, l);
    await_learned(l);
    if (wait_until(l, all_quiet, l->end_ns)) {
        wp_log_warn("not every sandbox was seen to end; the next start sweeps "
                    "what is left");
        return false;
    }
    wp_log_info("nothing is left behind");
    return true;
}

/* Has all that is not to be left running gone? */
static bool
rest_gone(struct wp_daemon_leaving *l)
{
    bool all = leaves_idle(l);
    uint32_t rest = 0;

    if (!wp_daemon_is_keeper(l->core)) {
        return true; /* None of them is this one's. */
    }
    for (uint32_t i = 0; i < wp_pools_count(l->core->pools); i++) {
        struct wp_pool_stats stats;

        wp_pools_stats(l->core->pools, i, &stats);
        /* Quarantined: the store is being asked whether it may go. */
        rest += stats.dying +
                (all ? 0 : stats.ready + stats.warming + stats.quarantined);
    }
    return rest == 0;
}

static bool
leave_running(struct wp_daemon_leaving *l)
{
    uint32_t leased = 0;
    uint32_t ready = 0;
    bool clean;

    await_learned(l);
    clean = !wait_until(l, rest_gone, l->end_ns);
    for (uint32_t i = 0; i < wp_pools_count(l->core->pools); i++) {
        struct wp_pool_stats stats;

        wp_pools_stats(l->core->pools, i, &stats);
        leased += stats.leased;
        ready += stats.ready;
    }
    if (!clean) {
        wp_log_warn("not every idle sandbox was seen to end; the next start "
                    "takes up or sweeps what is left");
    }
    if (l->cluster != NULL) {
        wp_log_info("the cluster keeps what is there",
                    wp_kv_int("leases", leased), wp_kv_int("idle", ready));
    } else if (l->succeeded) {
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

/* Nobody stays who goes on, and another one that leaves makes the sandboxes. */
static bool
may_keep(const struct wp_daemon_leaving *l)
{
    return !l->succeeded && l->redis != NULL && l->cluster == NULL &&
           !wp_daemon_is_keeper(l->core) &&
           !atomic_load_explicit(&l->core->failed, memory_order_relaxed);
}

/* It keeps, cannot, or need not, since one has come that goes on. */
static bool
is_settled(struct wp_daemon_leaving *l)
{
    return !may_keep(l) || wp_daemon_locks_others(l->keeping.locks) > 0;
}

/* This one says that it leaves, and sees whether others stay. */
static void
quit(struct wp_daemon_leaving *l)
{
    wp_daemon_redis_leave(l->redis);
    wp_daemon_locks_quit(l->keeping.locks);
    /* What is in a cluster stays there. */
    l->succeeded =
        wp_daemon_locks_others(l->keeping.locks) > 0 || l->cluster != NULL;
    if (!may_keep(l)) {
        wp_daemon_unfollow(l->follower);
    }
}

/* When all leave, the keeper ends what is to end; when it was over before the
 * last of the others left, that one does so as soon as the keeper is gone. Each
 * of them waits for that, and all but the first find nothing left. A keeper
 * whose calls are not over yet is not waited for: it sees then that nobody
 * stays. True when it had to be cut short. */
static bool
await_keeping(struct wp_daemon_leaving *l)
{
    bool hurry = false;
    struct wp_err err;

    if (may_keep(l)) {
        wp_log_info("all daemons leave: waiting for the one that makes the "
                    "sandboxes, to end what it leaves");
        if (*l->follower == NULL) {
            *l->follower = wp_daemon_follow(&l->keeping, &err);
        }
        hurry = *l->follower == NULL || wait_until(l, is_settled, l->end_ns);
    }
    wp_daemon_unfollow(l->follower);
    return hurry;
}

/* When calls are over: others may have come since, or died, or left without
 * being able to take over. True when this one may end what is to end. */
static bool
may_end(struct wp_daemon_leaving *l, bool *hurry)
{
    if (l->redis == NULL || l->cluster != NULL) {
        return !l->succeeded;
    }
    l->succeeded = wp_daemon_locks_others(l->keeping.locks) > 0;
    *hurry = await_keeping(l) || *hurry;
    l->succeeded = wp_daemon_locks_others(l->keeping.locks) > 0;
    return wp_daemon_is_keeper(l->core) && !l->succeeded;
}

/* What it takes is not taken from the rest. True when it had to be cut short.
 */
static bool
await_leases(struct wp_daemon_leaving *l, int64_t grace_ns)
{
    int64_t begun_ns = after(0);
    bool hurry;

    if (grace_ns <= 0) {
        return false;
    }
    wp_log_info("draining: no new claims, leases live on",
                wp_kv_ms("grace_ms", grace_ns));
    hurry = wait_until(l, no_leases, wp_time_add(begun_ns, grace_ns));
    l->end_ns = wp_time_add(l->end_ns, after(0) - begun_ns);
    return hurry;
}

bool
wp_daemon_leave(struct wp_daemon_leaving *l, bool ends, int64_t lease_grace_ns,
                bool *leaves_ready)
{
    bool hurry = false;
    bool asked = ends;
    bool could;

    quit(l);
    ends = asked && !l->succeeded;
    wp_daemon_notify("STOPPING=1");
    wp_daemon_servers_refuse(l->servers);
    wp_daemon_cluster_quiet(l->cluster);
    if (ends && !may_keep(l)) {
        wp_loop_call(l->core->loop, wp_daemon_refuse_claims, l->core);
    } else {
        wp_loop_call(l->core->loop, keep_leases, l);
    }
    wp_loop_call(l->core->loop, end_streams, l);
    if (ends) {
        hurry = await_leases(l, lease_grace_ns);
    }
    wp_log_info("leaving");
    wp_loop_call(l->core->loop, stop_watches, l);
    if (!hurry) {
        hurry = wait_until(l, no_calls, after(l->core->conf->drain_grace)) ||
                hurried(ANSWERS_NS);
    }
    l->end_ns = after(REST_NS);
    wp_daemon_servers_drain(l->servers, hurry ? 0 : LAST_CALLS_NS);
    could = ends;
    ends = may_end(l, &hurry) && asked;
    *leaves_ready = !ends;
    if (ends && !could) {
        wp_loop_call(l->core->loop, end_idle, l);
        hurry = hurry || await_leases(l, lease_grace_ns);
    } else if (!ends) {
        wp_loop_call(l->core->loop, keep_leases, l);
    }
    return ends ? end_all(l) : leave_running(l);
}
