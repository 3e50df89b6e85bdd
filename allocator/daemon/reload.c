/* SIGHUP: templates and pools become what the manifests say now. And pools that
 * come and go by calls. */
#include "allocator/daemon/leave.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "allocator/daemon/files.h"
#include "allocator/daemon/pools.h"
#include "local/manifest/kept_pools.h"
#include "pool/base/assert.h"
#include "pool/base/log.h"

extern char **environ;

struct reload {
    struct wp_daemon_core *core;
    const struct wp_manifest *manifest; /* As it was read now. */
    const struct wp_conf *conf;         /* The same. */
    const struct wp_pool_spec *specs;   /* Its pools. */
    size_t specs_len;
    bool *changed; /* Of its templates: by index. */
    bool *usable;  /* Of its pools: sandboxes can be made. */
};

/* One that was refused, and was not there before. */
static bool
has_template(const struct reload *job, const struct wp_pool_spec *spec,
             const char *otherwise)
{
    if (job->usable[spec - job->specs]) {
        return true;
    }
    wp_log_warn(otherwise, wp_kv_str("pool", spec->name),
                wp_kv_str("template", spec->template_name));
    return false;
}

static bool
template_changed(const struct reload *job, const struct wp_pool_spec *spec)
{
    const struct wp_template *templates;
    size_t n = wp_manifest_templates(job->manifest, &templates);

    for (size_t i = 0; i < n; i++) {
        if (strcmp(templates[i].name, spec->template_name) == 0 &&
            strcmp(templates[i].template_namespace, spec->pool_namespace) ==
                0) {
            return job->changed[i];
        }
    }
    return false;
}

static void
add_pool(const struct reload *job, const struct wp_pool_spec *spec)
{
    struct wp_err err;

    if (!has_template(job, spec,
                      "a new pool is left out: its template was refused")) {
        return;
    }
    if (wp_pools_add(job->core->pools, spec, NULL, &err) != WP_OK) {
        wp_log_error("new pool refused", wp_kv_str("pool", spec->name),
                     wp_kv_err(&err));
        return;
    }
    wp_log_info("new pool", wp_kv_str("namespace", spec->pool_namespace),
                wp_kv_str("pool", spec->name),
                wp_kv_str("template", spec->template_name),
                wp_kv_int("target", spec->target));
}

/* All but the target and the policy, which others set, too. */
static bool
same_shape(const struct wp_pool_spec *a, const struct wp_pool_spec *b)
{
    return strcmp(a->template_name, b->template_name) == 0 &&
           a->waiters_max == b->waiters_max &&
           a->tenant_waiters_max == b->tenant_waiters_max &&
           a->tenant_leases_max == b->tenant_leases_max &&
           a->tenant_claims_per_minute == b->tenant_claims_per_minute &&
           a->fair_share == b->fair_share &&
           a->create_inflight_max == b->create_inflight_max &&
           a->ttl_default_ns == b->ttl_default_ns &&
           a->ttl_max_ns == b->ttl_max_ns && a->hold_max_ns == b->hold_max_ns &&
           a->freeze_after_ns == b->freeze_after_ns &&
           a->wait_max_ns == b->wait_max_ns &&
           a->ready_within_ns == b->ready_within_ns &&
           a->cold_start == b->cold_start && a->bind_env == b->bind_env &&
           strcmp(a->egress, b->egress) == 0;
}

/* Idle ones of the former template are not what claims are to get now. why:
 * NULL when there are none. */
static void
retire_idle(const struct reload *job, uint32_t index, const char *why)
{
    if (why != NULL) {
        wp_pools_retire_idle(job->core->pools, index, wp_str_from(why));
    }
}

static void
change_pool(const struct reload *job, uint32_t index,
            const struct wp_pool_spec *spec)
{
    struct wp_pool_stats stats;
    struct wp_pool_spec next = *spec;
    struct wp_err err;
    bool rescaled;
    const char *outdated = NULL;

    wp_pools_stats(job->core->pools, index, &stats);
    rescaled =
        !wp_scale_policy_eq(&stats.spec.scale, &spec->scale) ||
        (stats.scaled ? stats.replicas : stats.spec.target) != spec->target;
    if (template_changed(job, spec)) {
        outdated = "its template has changed";
    }
    if (!rescaled && same_shape(&stats.spec, spec)) {
        retire_idle(job, index, outdated);
        return;
    }
    if (!has_template(job, spec,
                      "a pool stays as it was: its new template was refused")) {
        return;
    }
    if (!rescaled) {
        /* What the scaler or a hand has set is none of the manifest's. */
        next.target = stats.replicas;
    }
    if (strcmp(stats.spec.template_name, spec->template_name) != 0) {
        outdated = "its pool has another template now";
    } else if (strcmp(stats.spec.egress, spec->egress) != 0) {
        outdated = "its pool has another egress policy now";
    }
    if (wp_pools_update(job->core->pools, index, &next, &err) != WP_OK) {
        wp_log_error("change of a pool refused", wp_kv_str("pool", spec->name),
                     wp_kv_err(&err));
        return;
    }
    retire_idle(job, index, outdated);
    wp_log_info("pool changed", wp_kv_str("namespace", spec->pool_namespace),
                wp_kv_str("pool", spec->name),
                wp_kv_str("template", spec->template_name),
                wp_kv_int("target", spec->target));
}

static void
remove_missing(const struct reload *job, const struct wp_pool_spec *specs,
               size_t n)
{
    struct wp_pools *pools = job->core->pools;

    for (uint32_t i = 0; i < wp_pools_count(pools); i++) {
        struct wp_pool_stats stats;
        bool found = false;

        wp_pools_stats(pools, i, &stats);
        for (size_t j = 0; j < n && !found; j++) {
            found =
                strcmp(specs[j].name, stats.spec.name) == 0 &&
                strcmp(specs[j].pool_namespace, stats.spec.pool_namespace) == 0;
        }
        if (found || stats.removed) {
            continue;
        }
        wp_pools_remove(pools, i);
        wp_log_info("a pool is gone from the manifests: its leases live on, "
                    "its idle sandboxes go",
                    wp_kv_str("namespace", stats.spec.pool_namespace),
                    wp_kv_str("pool", stats.spec.name));
    }
}

/* Control thread. */
static void
apply_quotas(void *ctx)
{
    const struct reload *job = ctx;
    struct wp_err err;

    if (wp_daemon_set_quotas(job->core->pools, job->conf, &err) != WP_OK) {
        wp_log_error("tenants' quotas stay as they were", wp_kv_err(&err));
    }
}

/* Control thread. */
static void
apply(void *ctx)
{
    const struct reload *job = ctx;
    const struct wp_pool_spec *specs = job->specs;
    size_t n = job->specs_len;

    remove_missing(job, specs, n); /* First: it makes room. */
    for (size_t i = 0; i < n; i++) {
        uint32_t index = wp_pools_index(job->core->pools,
                                        wp_str_from(specs[i].pool_namespace),
                                        wp_str_from(specs[i].name));

        if (index == UINT32_MAX) {
            add_pool(job, &specs[i]);
        } else {
            change_pool(job, index, &specs[i]);
        }
    }
    wp_control_wake(job->core->control);
}

/* Takes manifest. */
static void
follow(struct wp_daemon_core *core, struct wp_daemon_backend *backend,
       struct wp_manifest *manifest)
{
    const struct wp_template *templates;
    struct reload job = {.core = core, .manifest = manifest};
    size_t n = wp_manifest_templates(manifest, &templates);
    bool is_kept;

    job.specs_len = wp_manifest_pools(manifest, &job.specs);
    job.changed = calloc(n + 1, sizeof *job.changed);
    job.usable = calloc(job.specs_len + 1, sizeof *job.usable);
    WP_ASSERT(job.changed != NULL && job.usable != NULL);
    is_kept = wp_daemon_backend_reload(backend, manifest, job.changed);
    for (size_t i = 0; i < job.specs_len; i++) {
        job.usable[i] = wp_daemon_backend_has_template(backend, &job.specs[i]);
    }
    wp_loop_call(core->loop, apply, &job);
    wp_log_info("reloaded the manifests' templates and pools");
    free(job.changed);
    free(job.usable);
    if (!is_kept) {
        wp_manifest_destroy(manifest);
    }
}

void
wp_daemon_reload(struct wp_daemon_core *core, struct wp_daemon_backend *backend,
                 int argc, char *const *argv)
{
    struct wp_conf *conf = wp_conf_create();
    struct wp_err err = {.msg = "no memory"};
    enum wp_conf_action action;
    struct wp_manifest *manifest = NULL;

    if (conf != NULL &&
        wp_conf_load(conf, argc, argv, environ, &action, &err) == WP_OK) {
        manifest = wp_daemon_read_manifests(conf, &err);
    }
    if (manifest == NULL) {
        wp_log_error("reload refused, all stays as it was", wp_kv_err(&err));
    } else {
        struct reload quotas = {.core = core, .conf = conf};

        wp_loop_call(core->loop, apply_quotas, &quotas);
        if (backend != NULL) {
            follow(core, backend, manifest);
        } else {
            wp_log_info("reloaded the tenants' quotas; pools are the cluster's "
                        "objects");
            wp_manifest_destroy(manifest);
        }
    }
    wp_conf_destroy(conf);
}

/* --- CreatePool, DeletePool --- */

/* In the place of a job: none is taken any more. */
static struct wp_pool_job closed;

enum wp_status
wp_daemon_shape(void *ctx, struct wp_pool_job *job, struct wp_err *err)
{
    struct wp_daemon_core *core = ctx;
    struct wp_pool_job *before = NULL;

    if (atomic_compare_exchange_strong(&core->pool_job, &before, job)) {
        (void)kill(getpid(), SIGUSR1);
        return WP_OK;
    }
    return before == &closed
               ? wp_err_set(err, WP_UNAVAILABLE, "the daemon is leaving")
               : wp_err_set(err, WP_RESOURCE_EXHAUSTED,
                            "another pool is being made or removed; try again");
}

void
wp_daemon_shape_close(struct wp_daemon_core *core)
{
    struct wp_pool_job *job = atomic_exchange(&core->pool_job, &closed);
    struct wp_err err;

    if (job != NULL && job != &closed) {
        (void)wp_err_set(&err, WP_UNAVAILABLE, "the daemon is leaving");
        job->done(job, 0, &err);
    }
}

/* One pool that is made or removed. */
struct shaping {
    struct wp_daemon_core *core;
    struct wp_daemon_backend *backend;
    const struct wp_pool_spec *spec;
    uint32_t index;
    enum wp_status status;
    struct wp_err *err;
};

/* All that are wanted at once have room, this one among them. */
static enum wp_status
check_slots(const struct shaping *s)
{
    uint64_t total = s->spec->target;

    for (uint32_t i = 0; i < wp_pools_count(s->core->pools); i++) {
        struct wp_pool_stats stats;

        wp_pools_stats(s->core->pools, i, &stats);
        total += stats.removed ? 0 : stats.spec.target;
    }
    return total <= (uint64_t)s->core->conf->slots_max
               ? WP_OK
               : wp_err_set(s->err, WP_FAILED_PRECONDITION,
                            "manifest: SandboxWarmPool %s: spec.replicas: the "
                            "pools would want %llu ready sandboxes together; "
                            "the setting slots_max allows %lld, leased ones "
                            "included",
                            s->spec->name, (unsigned long long)total,
                            (long long)s->core->conf->slots_max);
}

/* One pool, and at most its own template. */
static enum wp_status
check_shape(const struct wp_manifest *manifest, struct shaping *s)
{
    const struct wp_template *templates;
    size_t n_templates = wp_manifest_templates(manifest, &templates);
    size_t n = wp_manifest_pools(manifest, &s->spec);

    if (n != 1) {
        return wp_err_set(s->err, WP_INVALID_ARGUMENT,
                          "manifest: one SandboxWarmPool expected, got %zu", n);
    }
    if (n_templates > 1 ||
        (n_templates == 1 &&
         (strcmp(templates->name, s->spec->template_name) != 0 ||
          strcmp(templates->template_namespace, s->spec->pool_namespace) !=
              0))) {
        return wp_err_set(s->err, WP_INVALID_ARGUMENT,
                          "manifest: no SandboxTemplate expected but the "
                          "pool's, '%s' in namespace '%s'",
                          s->spec->template_name, s->spec->pool_namespace);
    }
    if (wp_pools_index(s->core->pools, wp_str_from(s->spec->pool_namespace),
                       wp_str_from(s->spec->name)) != UINT32_MAX) {
        return wp_err_set(s->err, WP_ALREADY_EXISTS,
                          "manifest: SandboxWarmPool %s: there is one of this "
                          "name in namespace '%s'",
                          s->spec->name, s->spec->pool_namespace);
    }
    return check_slots(s);
}

/* Control thread. */
static void
add_shaped(void *ctx)
{
    struct shaping *s = ctx;

    s->status = wp_pools_add(s->core->pools, s->spec, &s->index, s->err);
    wp_control_wake(s->core->control);
}

/* Control thread. */
static void
remove_shaped(void *ctx)
{
    struct shaping *s = ctx;

    wp_pools_remove(s->core->pools, s->index);
    wp_control_wake(s->core->control);
}

/* The file comes first: what was answered is there after a crash, too. */
static enum wp_status
keep_and_add(struct shaping *s, struct wp_str text)
{
    char dir[WP_DAEMON_KEPT_PATH];
    struct wp_err err;

    wp_daemon_kept_dir(s->core->conf, dir);
    if (wp_kept_pools_write(dir, s->spec, text, s->err) != WP_OK) {
        return s->err->status;
    }
    wp_loop_call(s->core->loop, add_shaped, s);
    if (s->status != WP_OK) {
        if (wp_kept_pools_remove(dir, s->spec, &err) != WP_OK) {
            wp_log_error("a pool that was refused is kept for the next start",
                         wp_kv_str("pool", s->spec->name), wp_kv_err(&err));
        }
        return wp_err_wrap(s->err, "pool '%s'", s->spec->name);
    }
    wp_log_info("pool created by a call",
                wp_kv_str("namespace", s->spec->pool_namespace),
                wp_kv_str("pool", s->spec->name),
                wp_kv_str("template", s->spec->template_name),
                wp_kv_int("target", s->spec->target));
    return WP_OK;
}

static enum wp_status
create_pool(struct shaping *s, struct wp_str text)
{
    struct wp_manifest *manifest = wp_manifest_create();
    bool is_kept = false;
    enum wp_status status;

    if (manifest == NULL) {
        return wp_err_set(s->err, WP_RESOURCE_EXHAUSTED, "no memory");
    }
    wp_manifest_set_inflight_max(manifest,
                                 (uint32_t)s->core->conf->create_inflight_max);
    status = wp_manifest_add_bytes(manifest, "manifest", text, s->err);
    if (status == WP_OK) {
        status = wp_manifest_resolve(manifest, s->err);
    }
    if (status == WP_OK) {
        status = check_shape(manifest, s);
    }
    if (status == WP_OK) {
        status = wp_daemon_backend_accept(s->backend, manifest, s->spec,
                                          &is_kept, s->err);
    }
    if (status == WP_OK) {
        status = keep_and_add(s, text);
    }
    if (!is_kept) {
        wp_manifest_destroy(manifest);
    }
    return status;
}

static enum wp_status
delete_pool(struct shaping *s)
{
    char dir[WP_DAEMON_KEPT_PATH];

    wp_daemon_kept_dir(s->core->conf, dir);
    s->index =
        wp_pools_index(s->core->pools, wp_str_from(s->spec->pool_namespace),
                       wp_str_from(s->spec->name));
    if (s->index == UINT32_MAX) {
        return wp_err_set(s->err, WP_NOT_FOUND, "pool: '%s' is not there",
                          s->spec->name);
    }
    if (!wp_kept_pools_has(dir, s->spec)) {
        return wp_err_set(s->err, WP_FAILED_PRECONDITION,
                          "pool: '%s' was not made by CreatePool; take it out "
                          "of the manifests and send the daemon SIGHUP",
                          s->spec->name);
    }
    if (wp_daemon_check_unneeded(s->core->conf, s->spec, s->err) != WP_OK ||
        wp_kept_pools_remove(dir, s->spec, s->err) != WP_OK) {
        return s->err->status;
    }
    wp_loop_call(s->core->loop, remove_shaped, s);
    wp_log_info("pool removed by a call: its leases live on, its idle "
                "sandboxes go",
                wp_kv_str("namespace", s->spec->pool_namespace),
                wp_kv_str("pool", s->spec->name));
    return WP_OK;
}

bool
wp_daemon_shape_run(struct wp_daemon_core *core,
                    struct wp_daemon_backend *backend)
{
    struct wp_pool_job *job = atomic_load(&core->pool_job);
    struct wp_err err;
    struct shaping s = {.core = core, .backend = backend, .err = &err};
    struct wp_pool_spec named;
    enum wp_status status;

    if (job == NULL || job == &closed) {
        return false;
    }
    if (job->manifest.ptr != NULL) {
        status = create_pool(&s, job->manifest);
    } else {
        wp_pool_spec_init(&named);
        s.spec = &named;
        WP_ASSERT(wp_str_copy(job->pool_namespace, named.pool_namespace,
                              sizeof named.pool_namespace) &&
                  wp_str_copy(job->pool, named.name, sizeof named.name));
        status = delete_pool(&s);
    }
    atomic_store(&core->pool_job, NULL);
    job->done(job, s.index, status == WP_OK ? NULL : &err);
    return status == WP_OK;
}
