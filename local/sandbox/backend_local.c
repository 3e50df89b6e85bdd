#include "local/sandbox/backend_local.h"

#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "proto/checkout/fetch_report.h"
#include "local/sandbox/gvisor.h"
#include "local/sandbox/host_probe.h"
#include "pool/base/assert.h"
#include "pool/base/clock.h"
#include "pool/base/fnv.h"
#include "pool/base/log.h"

enum {
    CHANNEL_CAP = 8192,
    SCHEME_LEN = sizeof "unix:" - 1,
};

void
wp_local_config_init(struct wp_local_config *config)
{
    *config = (struct wp_local_config){
        .uid_first = 1900000000,
        .sandboxes_max = 4096,
        .probe_every_ms = 5000,
        .probe_timeout_ms = 2000,
        .probe_failures = 3,
        .pids_max = 512,
        .connections_max = 64,
        .tmpfs_bytes = UINT64_C(256) << 20,
        .egress_packages = "",
        .egress_connections_max = 256,
        .volumes_max = 64,
        .remotes = "",
        .remotes_denied = "",
        .trust_files = "",
        .repository_bytes_max = UINT64_C(128) << 20,
        .cache_bytes_max = UINT64_C(512) << 20,
        .cache_age_s = 7 * 24 * 3600,
        .fetch_timeout_ms = 60000,
        .socket_mode = 0600,
        .socket_uid = (uid_t)-1,
        .socket_gid = (gid_t)-1,
        .cgroup = "",
        .lock_fd = -1,
    };
}

/* --- create --- */

/* The group below ours that holds the sandboxes' own: named by state directory,
 * so that the next daemon there finds what this one left. */
static void
group_name(const char *state_dir, char *out, size_t cap)
{
    (void)snprintf(out, cap, "warmpool-%08x",
                   wp_fnv32_str(wp_str_from(state_dir)));
}

static enum wp_status
allocate(struct wp_local *local, struct wp_err *err)
{
    uint32_t max = local->config.sandboxes_max;
    uint64_t seed;

    wp_list_init(&local->queue);
    wp_list_init(&local->live);
    wp_random_bytes(&seed, sizeof seed);
    wp_rng_init(&local->rng, seed);
    local->free_users = calloc(max, sizeof *local->free_users);
    if (local->free_users == NULL) {
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED,
                          "no memory for the local backend");
    }
    for (uint32_t i = 0; i < max; i++) {
        local->free_users[i] = max - 1 - i;
    }
    local->free_users_len = max;
    local->loop = wp_loop_create("wp-local", CHANNEL_CAP, err);
    return local->loop != NULL ? WP_OK : err->status;
}

/* Its process begins with the first sandbox that may reach something. */
static enum wp_status
prepare_egress(struct wp_local *local, struct wp_err *err)
{
    const struct wp_local_config *config = &local->config;
    const struct wp_egress_proxy_config proxy = {
        .path = config->egress_path,
        .packages = config->egress_packages,
        .keys_file = config->egress_keys_file,
        .source_conns_max = config->egress_connections_max,
        .source_bytes_max = config->egress_bytes_max,
        .log_json = config->log_json,
        .drop = local->host.own_uids,
        .uid = config->uid_first + config->sandboxes_max,
        .lock_fd = &local->lock_fd,
        .answered = wp_sandbox_on_narrowed,
    };

    local->egress = wp_egress_proxy_create(&proxy, wp_loop_base(local->loop));
    return local->egress != NULL
               ? WP_OK
               : wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no memory");
}

static enum wp_status
prepare_fetcher(struct wp_local *local, struct wp_err *err)
{
    const struct wp_local_config *config = &local->config;
    struct wp_fetcher_config fetcher = {
        .repository_bytes_max = config->repository_bytes_max,
        .cache_bytes_max = config->cache_bytes_max,
        .cache_age_s = config->cache_age_s,
        .timeout_ms = config->fetch_timeout_ms,
    };
    enum wp_status status = wp_remote_rules_add(
        &local->remotes, wp_str_from(config->remotes), false, err);
    char path[WP_LOCAL_PATH_MAX + 16];

    if (status == WP_OK) {
        status = wp_remote_rules_add(
            &local->remotes, wp_str_from(config->remotes_denied), true, err);
    }
    if (status != WP_OK || config->remotes[0] == '\0') {
        return status;
    }
    if (config->fetch_path == NULL || access(WP_FETCH_GIT, X_OK) != 0) {
        wp_host_note(
            &local->host, "claims cannot bring repositories: %s was not found",
            config->fetch_path == NULL ? "warmpool-fetch" : WP_FETCH_GIT);
        return WP_OK;
    }
    (void)snprintf(local->cache_dir, sizeof local->cache_dir, "%s/repositories",
                   local->state_dir);
    local->fetch_process = (struct wp_fetch_process){
        .bwrap_path = local->host.bwrap_path,
        .path = config->fetch_path,
        .cache_dir = local->cache_dir,
        .seccomp_path = local->host.seccomp ? local->seccomp_path : NULL,
        .drop = local->host.own_uids,
        .uid = config->uid_first + config->sandboxes_max + 1,
        .lock_fd = &local->lock_fd,
    };
    status = wp_fetch_process_init(&local->fetch_process, &fetcher.runner, err);
    if (status != WP_OK) {
        return status;
    }
    local->fetcher = wp_fetcher_create(&fetcher, wp_loop_base(local->loop));
    if (local->fetcher == NULL) {
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no memory");
    }
    (void)snprintf(path, sizeof path, "%s/trust", local->state_dir);
    return wp_trust_init(&local->trust, config->trust, config->trust_files,
                         path, err);
}

/* Their files have an owner of their own, as the proxy and warmpool-fetch have
 * users. */
static enum wp_status
prepare_volumes(struct wp_local *local, struct wp_err *err)
{
    const struct wp_local_config *config = &local->config;

    local->volumes = (struct wp_volumes){
        .dir = config->volumes_dir,
        .max = config->volumes_max,
        .own_users = local->host.own_uids,
        .user_first = config->uid_first,
        .owner = config->uid_first + config->sandboxes_max + 2,
        .dir_fd = -1,
    };
    if (config->volumes_dir == NULL) {
        return WP_OK;
    }
    return wp_volumes_open(&local->volumes, err) == WP_OK
               ? WP_OK
               : wp_err_wrap(err, "setting 'volumes_dir'");
}

static enum wp_status
say_cannot(enum wp_status status, struct wp_err *err)
{
    return status == WP_OK
               ? WP_OK
               : wp_err_wrap(err, "this machine cannot make sandboxes");
}

static enum wp_status
look_at_host(struct wp_local *local, struct wp_err *err)
{
    char path[WP_LOCAL_PATH_MAX + 16];
    enum wp_status status;
    struct statfs fs;
    char group[32];

    group_name(local->state_dir, group, sizeof group);
    wp_cgroups_open(&local->cgroups, "/proc/self/mountinfo",
                    "/proc/self/cgroup", local->config.cgroup, group);
    (void)snprintf(path, sizeof path, "%s/cgroups", local->state_dir);
    local->old_cgroups_len =
        wp_cgroups_load(local->old_cgroups, WP_LOCAL_OLD_GROUPS_MAX, path,
                        group, &local->cgroups);
    status = wp_host_look(&local->config, &local->cgroups, &local->host, err);
    /* Three files made and removed a sandbox: disk file systems make more of
     * that than of starting the processes. */
    if (statfs(local->state_dir, &fs) == 0 && fs.f_type != TMPFS_MAGIC) {
        wp_host_note(
            &local->host,
            "the state directory %s is not on a memory file system:"
            " sandboxes start several times faster with one below /run",
            local->state_dir);
    }
    if (!wp_cgroups_can_freeze(&local->cgroups)) {
        wp_host_note(&local->host, "idle sandboxes are not frozen (annotation "
                                   "pool.warmpool.io/freeze-after): no control "
                                   "group here can be");
    }
    if (local->config.outlive && local->cgroups.moved) {
        wp_host_note(&local->host,
                     "while sandboxes live, no process can be started in the"
                     " control group that this one was started in: a service"
                     " manager must use its subgroup " WP_CGROUP_LEAF
                     " (systemd 254: DelegateSubgroup=), or the sandboxes"
                     " another group (setting sandbox_cgroup)");
    }
    if (status == WP_OK && !local->config.untried) {
        status = wp_host_try(&local->config, &local->host, err);
    }
    return say_cannot(status, err);
}

uint32_t
wp_local_spawns(uint32_t spawns_max)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);

    return spawns_max > 0 ? spawns_max : 2 * (uint32_t)(cores > 0 ? cores : 1);
}

struct wp_local *
wp_local_create(const struct wp_local_config *config, struct wp_err *err)
{
    struct wp_local *local = calloc(1, sizeof *local);
    enum wp_status status;

    if (local == NULL) {
        if (config->lock_fd >= 0) {
            (void)close(config->lock_fd);
        }
        (void)wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no memory");
        return NULL;
    }
    local->config = *config;
    local->lock_fd = config->lock_fd;
    local->volumes.dir_fd = -1;
    wp_boot_id_read(local->boot_id);
    local->config.spawns_max = wp_local_spawns(config->spawns_max);
    status = wp_local_check_config(config, err);
    if (status == WP_OK) {
        (void)snprintf(local->state_dir, sizeof local->state_dir, "%s",
                       config->state_dir);
        status = allocate(local, err);
    }
    if (status == WP_OK) {
        status = wp_local_prepare_dirs(local, err);
    }
    if (status == WP_OK) {
        status = look_at_host(local, err);
    }
    if (status == WP_OK) {
        status = prepare_egress(local, err);
    }
    if (status == WP_OK) {
        status = wp_local_prepare_programs(local, err);
    }
    if (status == WP_OK) {
        status = wp_local_prepare_filter(local, err);
    }
    if (status == WP_OK) {
        status = prepare_fetcher(local, err);
    }
    if (status == WP_OK) {
        status = prepare_volumes(local, err);
    }
    for (size_t i = 0; i < config->templates_len && status == WP_OK; i++) {
        status = wp_local_add_template(local, &config->templates[i], err);
    }
    if (status != WP_OK) {
        wp_local_destroy(local);
        return NULL;
    }
    wp_local_raise_files(local);
    return local;
}

/* Groups in which a daemon tries what the machine allows; with its pid. */
#define PROBE_GROUP "warmpool-probe-"

enum wp_status
wp_local_probe(const struct wp_local_config *config,
               struct wp_host_report *report, struct wp_err *err)
{
    struct wp_cgroups groups;
    enum wp_status status;
    char group[32];

    (void)snprintf(group, sizeof group, PROBE_GROUP "%d", (int)getpid());
    wp_cgroups_open(&groups, "/proc/self/mountinfo", "/proc/self/cgroup",
                    config->cgroup, group);
    wp_cgroups_sweep(&groups, PROBE_GROUP);
    status = wp_host_look(config, &groups, report, err);
    wp_cgroups_close(&groups);
    if (status == WP_OK) {
        status = wp_host_try(config, report, err);
    }
    return say_cannot(status, err);
}

/* --- The port --- */

static void
run_create(void *ctx, uint64_t a, uint64_t b)
{
    struct wp_sandbox *sandbox = ctx;

    (void)a;
    (void)b;
    wp_sandbox_index(sandbox);
    wp_sandbox_enqueue(sandbox);
}

/* What a sandbox takes from its order; of names and paths, what can be used. */
static enum wp_status
take_order(struct wp_sandbox *sandbox, const struct wp_sandbox_order *order,
           struct wp_err *err)
{
    char endpoint[WP_ENDPOINT_MAX + 1];

    sandbox->ref = order->ref;
    sandbox->ordered_ns = wp_clock_mono_ns(wp_clock_system());
    sandbox->ready_within_ns = order->ready_within_ns;
    memcpy(sandbox->uid, order->uid, WP_UID_LEN);
    wp_hex_encode(order->uid, WP_UID_LEN, sandbox->uid_hex);
    if (!wp_str_is_printable(order->pool) ||
        !wp_str_copy(order->pool, sandbox->pool, sizeof sandbox->pool)) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "pool: at most %d printable characters were expected",
                          WP_POOL_NAME_MAX);
    }
    if (!wp_str_copy(order->name, sandbox->name, sizeof sandbox->name) ||
        !wp_str_is_dns_name(order->name, WP_SANDBOX_NAME_MAX) ||
        !wp_local_endpoint(sandbox->local, order->name, endpoint)) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "sandbox name '%.*s': a DNS label was expected, and a"
                          " socket path of at most %d characters; use a shorter"
                          " state directory or pool name",
                          WP_STR_ARG(order->name),
                          (int)(WP_ENDPOINT_MAX - SCHEME_LEN));
    }
    memcpy(sandbox->socket_path, endpoint + SCHEME_LEN,
           strlen(endpoint + SCHEME_LEN) + 1);
    if (order->egress.len > 0 && sandbox->local->config.egress_path == NULL) {
        return wp_err_set(err, WP_FAILED_PRECONDITION,
                          "the pool has an egress policy, but warmpool-egress "
                          "was not found: see the setting egress_path");
    }
    if (!wp_str_copy(order->egress, sandbox->egress, sizeof sandbox->egress)) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "egress: at most %d characters were expected",
                          WP_EGRESS_TEXT_MAX);
    }
    return WP_OK;
}

static enum wp_status
local_create(void *self, const struct wp_sandbox_order *order,
             struct wp_err *err)
{
    struct wp_local *local = self;
    const struct wp_local_template *tmpl = wp_local_find_template(
        local, order->pool_namespace, order->template_name);
    struct wp_sandbox *sandbox;
    enum wp_status status;

    if (tmpl == NULL) {
        return wp_err_set(err, WP_NOT_FOUND,
                          "template '%.*s' in namespace"
                          " '%.*s'",
                          WP_STR_ARG(order->template_name),
                          WP_STR_ARG(order->pool_namespace));
    }
    if (atomic_fetch_add_explicit(&local->live_count, 1,
                                  memory_order_relaxed) >=
        local->config.sandboxes_max) {
        atomic_fetch_sub_explicit(&local->live_count, 1, memory_order_relaxed);
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED,
                          "this machine's %u sandboxes are in use",
                          local->config.sandboxes_max);
    }
    sandbox = wp_sandbox_make(local);
    if (sandbox == NULL) {
        goto full;
    }
    sandbox->tmpl = tmpl;
    status = take_order(sandbox, order, err);
    if (status != WP_OK) {
        free(sandbox);
        atomic_fetch_sub_explicit(&local->live_count, 1, memory_order_relaxed);
        return status;
    }
    if (wp_loop_post(local->loop, run_create, sandbox, 0, 0)) {
        return WP_OK;
    }
    free(sandbox);
full:
    atomic_fetch_sub_explicit(&local->live_count, 1, memory_order_relaxed);
    return wp_err_set(err, WP_RESOURCE_EXHAUSTED,
                      "the local backend has too much to do");
}

static void
run_destroy(void *ctx, uint64_t a, uint64_t b)
{
    struct wp_sandbox *sandbox = wp_sandbox_find(ctx, wp_slot_ref_unpack(a));

    (void)b;
    if (sandbox != NULL) {
        wp_sandbox_destroy(sandbox);
    }
}

static enum wp_status
local_destroy(void *self, struct wp_slot_ref ref)
{
    struct wp_local *local = self;

    return wp_loop_post(local->loop, run_destroy, local, wp_slot_ref_pack(ref),
                        0)
               ? WP_OK
               : WP_RESOURCE_EXHAUSTED;
}

static enum wp_status
local_may_sign(void *self, struct wp_err *err)
{
    (void)self;
    (void)err;
    return WP_OK;
}

struct wp_backend
wp_local_backend(struct wp_local *local)
{
    static const struct wp_backend_ops ops = {
        .name = "local",
        .create = local_create,
        .destroy = local_destroy,
        .leased = wp_local_leased,
        .bind = wp_local_bind,
        .unbound = wp_local_unbound,
        .may_bring = wp_local_may_bring,
        .narrows = wp_local_narrows,
        .may_sign = local_may_sign,
    };

    return (struct wp_backend){
        .ops = &ops, .self = local, .at_once = local->config.spawns_max};
}

/* --- The thread --- */

enum wp_status
wp_local_start(struct wp_local *local, const struct wp_local_events *events,
               struct wp_local_sweep *sweep, struct wp_err *err)
{
    struct wp_local_sweep swept;
    char path[WP_LOCAL_PATH_MAX + 16];
    enum wp_status status;

    WP_ASSERT(!local->started && local->base == NULL);
    local->events = *events;
    local->base = wp_loop_base(local->loop);
    (void)evtimer_assign(&local->start_timer, local->base,
                         wp_local_on_start_timer, local);
    status = wp_local_take_over(local, sweep != NULL ? sweep : &swept, err);
    if (status != WP_OK) {
        return status;
    }
    (void)snprintf(path, sizeof path, "%s/cgroups", local->state_dir);
    status = wp_cgroups_save(&local->cgroups, local->old_cgroups,
                             local->old_cgroups_len, path, err);
    if (status == WP_OK) {
        status = wp_loop_start(local->loop, err);
    }
    local->started = status == WP_OK;
    return status;
}

const struct wp_host_report *
wp_local_report(const struct wp_local *local)
{
    return &local->host;
}

void
wp_local_stats(const struct wp_local *local, struct wp_local_stats *out)
{
    *out = (struct wp_local_stats){
        .queued = atomic_load_explicit(&local->queued, memory_order_relaxed),
        .starting =
            atomic_load_explicit(&local->starting, memory_order_relaxed),
        .ready = atomic_load_explicit(&local->ready, memory_order_relaxed),
        .dying = atomic_load_explicit(&local->dying, memory_order_relaxed),
        .frozen = atomic_load_explicit(&local->frozen, memory_order_relaxed),
        .frozen_total =
            atomic_load_explicit(&local->frozen_total, memory_order_relaxed),
        .spawned_total =
            atomic_load_explicit(&local->spawned_total, memory_order_relaxed),
        .lost_total =
            atomic_load_explicit(&local->lost_total, memory_order_relaxed),
    };
}

/* --- stop --- */

static void
on_stop_timer(int fd, short what, void *arg)
{
    struct wp_local *local = arg;
    int64_t left_ns = local->stop_by_ns - wp_clock_mono_ns(wp_clock_system());
    struct timeval soon = {0, 1000};

    (void)fd;
    (void)what;
    local->leaving =
        atomic_load_explicit(&local->live_count, memory_order_relaxed);
    if (local->leave_ready) {
        local->leaving -=
            atomic_load_explicit(&local->ready, memory_order_relaxed);
    }
    if (local->leaving == 0 || left_ns <= 0) {
        (void)event_base_loopbreak(local->base);
        return;
    }
    (void)evtimer_add(&local->stop_timer, &soon);
}

static void
run_stop(void *ctx)
{
    struct wp_local *local = ctx;

    for (uint32_t i = 0; i < local->by_index_len; i++) {
        struct wp_sandbox *sandbox = local->by_index[i];

        if (sandbox == NULL) {
            continue;
        }
        if (local->leave_ready && sandbox->state == WP_SANDBOX_READY &&
            sandbox->outlives) {
            /* Who comes to its socket has nobody to wake it. */
            wp_sandbox_thaw(sandbox);
        } else {
            wp_sandbox_destroy(sandbox);
        }
    }
    (void)evtimer_assign(&local->stop_timer, local->base, on_stop_timer, local);
    on_stop_timer(-1, 0, local);
}

static void
abandon_all(struct wp_list *head)
{
    struct wp_list *node;

    while ((node = wp_list_pop_front(head)) != NULL) {
        wp_sandbox_abandon(WP_CONTAINER_OF(node, struct wp_sandbox, node));
    }
}

static uint32_t
stop(struct wp_local *local, int64_t timeout_ns, bool leave)
{
    if (!local->started) {
        return 0;
    }
    local->leave_ready = leave;
    local->stop_by_ns =
        wp_time_add(wp_clock_mono_ns(wp_clock_system()), timeout_ns);
    wp_loop_call(local->loop, run_stop, local);
    wp_loop_join(local->loop);
    local->started = false;
    abandon_all(&local->queue);
    abandon_all(&local->live);
    return local->leaving;
}

uint32_t
wp_local_stop(struct wp_local *local, int64_t timeout_ns)
{
    return stop(local, timeout_ns, false);
}

uint32_t
wp_local_leave(struct wp_local *local, int64_t timeout_ns)
{
    return stop(local, timeout_ns, true);
}

void
wp_local_destroy(struct wp_local *local)
{
    if (local == NULL) {
        return;
    }
    WP_ASSERT(!local->started);
    wp_local_destroy_templates(local);
    /* Adopted by a start that then failed: they are left as they were. */
    if (local->live.next != NULL) {
        abandon_all(&local->live);
    }
    wp_local_remove_roots(local);
    wp_egress_proxy_destroy(local->egress);
    wp_fetcher_destroy(local->fetcher);
    wp_trust_fini(&local->trust);
    wp_volumes_close(&local->volumes);
    wp_loop_destroy(local->loop);
    wp_cgroups_close(&local->cgroups);
    for (uint32_t i = 0; i < local->old_cgroups_len; i++) {
        wp_cgroups_close(&local->old_cgroups[i]);
    }
    if (local->lock_fd >= 0) {
        (void)close(local->lock_fd);
    }
    free(local->free_users);
    free(local->by_index);
    free(local);
}
