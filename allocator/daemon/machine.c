/* The local backend as a machine, configured by the settings. */
#include "allocator/daemon/machine.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include "allocator/daemon/files.h"
#include "pool/base/log.h"

/* How long stopping may wait for sandboxes to be gone. */
#define STOP_NS (5 * WP_NS_PER_S)

static void
log_notes(const struct wp_manifest *manifest,
          const struct wp_host_report *report)
{
    for (size_t i = 0; i < wp_manifest_notes_count(manifest); i++) {
        wp_log_info("manifest note",
                    wp_kv_str("note", wp_manifest_note(manifest, i)));
    }
    for (uint32_t i = 0; i < report->notes_len; i++) {
        wp_log_warn("not enforced on this machine",
                    wp_kv_str("note", report->notes[i]));
    }
    wp_log_info("sandboxes", wp_kv_str("bwrap", report->bwrap_version),
                wp_kv_int("landlock_abi", report->landlock_abi),
                wp_kv_int("seccomp", report->seccomp ? 1 : 0),
                wp_kv_int("own_uids", report->own_uids ? 1 : 0));
}

static void
fill_config(struct wp_machine *machine, const struct wp_conf *conf,
            const struct wp_manifest *manifest, struct wp_local_config *out)
{
    wp_local_config_init(out);
    wp_daemon_find_program(conf->init_path, "warmpool-init", machine->init_path,
                           sizeof machine->init_path);
    wp_daemon_find_program(conf->runtime_path, "warmpool-runtime",
                           machine->runtime_path, sizeof machine->runtime_path);
    wp_daemon_find_program(conf->egress_path, "warmpool-egress",
                           machine->egress_path, sizeof machine->egress_path);
    wp_daemon_find_program(conf->fetch_path, "warmpool-fetch",
                           machine->fetch_path, sizeof machine->fetch_path);
    out->state_dir = conf->state_dir;
    out->rootfs_dir = wp_conf_or_null(conf->rootfs_dir);
    out->init_path = wp_conf_or_null(machine->init_path);
    out->runtime_path = wp_conf_or_null(machine->runtime_path);
    out->bwrap_path = wp_conf_or_null(conf->bwrap_path);
    out->runsc_path = wp_conf_or_null(conf->runsc_path);
    out->uid_first = (uint32_t)conf->sandbox_uid_first;
    out->sandboxes_max = (uint32_t)conf->slots_max;
    out->spawns_max = (uint32_t)conf->sandbox_spawns_max;
    out->probe_every_ms =
        (uint32_t)(conf->sandbox_probe_interval / WP_NS_PER_MS);
    out->probe_timeout_ms =
        (uint32_t)(conf->sandbox_probe_timeout / WP_NS_PER_MS);
    out->probe_failures = (uint32_t)conf->sandbox_probe_failures;
    out->stop_grace_ms = (uint32_t)(conf->sandbox_stop_grace / WP_NS_PER_MS);
    out->cgroup = conf->sandbox_cgroup;
    out->best_effort = conf->sandbox_limits == WP_CONF_LIMITS_BEST_EFFORT;
    out->memory_default = (uint64_t)conf->sandbox_memory_default;
    out->cpu_milli_default = (uint32_t)conf->sandbox_cpu_default;
    out->pids_max = (uint32_t)conf->sandbox_pids_max;
    out->connections_max = (uint32_t)conf->sandbox_connections_max;
    out->tmpfs_bytes = (uint64_t)conf->sandbox_tmpfs_size;
    out->egress_path = wp_conf_or_null(machine->egress_path);
    out->egress_packages = conf->egress_packages;
    out->egress_keys_file = wp_conf_or_null(conf->egress_keys_file);
    out->egress_connections_max = (uint32_t)conf->egress_connections_max;
    out->egress_bytes_max = (uint64_t)conf->egress_bytes_max;
    out->volumes_dir = wp_conf_or_null(conf->volumes_dir);
    out->volumes_max = (uint32_t)conf->volumes_max;
    out->remotes = conf->git_remotes;
    out->remotes_denied = conf->git_remotes_denied;
    out->fetch_path = wp_conf_or_null(machine->fetch_path);
    out->trust = (enum wp_trust_mode)conf->git_trust;
    out->trust_files = conf->git_trust_files;
    out->repository_bytes_max = (uint64_t)conf->git_repository_size;
    out->cache_bytes_max = (uint64_t)conf->git_cache_size;
    out->cache_age_s = conf->git_cache_age / WP_NS_PER_S;
    out->fetch_timeout_ms = conf->git_timeout / WP_NS_PER_MS;
    out->log_json = conf->log_format == WP_LOG_JSON;
    out->outlive = wp_conf_outlives(conf);
    out->templates_len = wp_manifest_templates(manifest, &out->templates);
}

enum wp_status
wp_daemon_probe_local(const struct wp_conf *conf,
                      const struct wp_manifest *manifest, struct wp_err *err)
{
    struct wp_machine machine;
    struct wp_local_config config;
    struct wp_host_report report;

    memset(&report, 0, sizeof report);
    fill_config(&machine, conf, manifest, &config);
    return wp_local_probe(&config, &report, err);
}

bool
wp_daemon_has_left(const struct wp_conf *conf)
{
    char path[WP_CONF_TEXT_MAX + 16];
    const struct dirent *entry;
    bool any = false;
    DIR *dir;

    (void)snprintf(path, sizeof path, "%s/%s", conf->state_dir,
                   wp_conf_is_local(conf) ? "sandboxes" : "synthetic");
    dir = opendir(path);
    while (dir != NULL && !any && (entry = readdir(dir)) != NULL) {
        any = entry->d_name[0] != '.';
    }
    if (dir != NULL) {
        (void)closedir(dir);
    }
    return any;
}

/* --- As a machine --- */

static enum wp_status
local_start(void *self, const struct wp_local_events *events,
            struct wp_local_sweep *sweep, struct wp_err *err)
{
    return wp_local_start(self, events, sweep, err);
}

static struct wp_backend
local_port(void *self)
{
    return wp_local_backend(self);
}

static void
local_stats(const void *self, struct wp_local_stats *out)
{
    wp_local_stats(self, out);
}

static enum wp_status
local_add_template(void *self, const struct wp_template *tmpl,
                   struct wp_err *err)
{
    return wp_local_add_template(self, tmpl, err);
}

static uint64_t
local_template_hash(const void *self, struct wp_str namespace_,
                    struct wp_str name)
{
    return wp_local_template_hash(self, namespace_, name);
}

static void
local_stop(void *self, bool leave_ready)
{
    if (leave_ready) {
        (void)wp_local_leave(self, STOP_NS);
    } else {
        (void)wp_local_stop(self, STOP_NS);
    }
}

static void
local_destroy(void *self)
{
    wp_local_destroy(self);
}

enum wp_status
wp_daemon_create_local(const struct wp_conf *conf,
                       const struct wp_manifest *manifest,
                       struct wp_daemon_locks *locks, bool untried,
                       struct wp_machine *out, struct wp_err *err)
{
    static const struct wp_machine_ops ops = {
        .name = "local",
        .start = local_start,
        .port = local_port,
        .stats = local_stats,
        .add_template = local_add_template,
        .template_hash = local_template_hash,
        .stop = local_stop,
        .destroy = local_destroy,
    };
    struct wp_local_config config;
    struct wp_local *local;

    fill_config(out, conf, manifest, &config);
    config.untried = untried;
    config.lock_fd = wp_daemon_locks_give(locks);
    local = wp_local_create(&config, err);
    if (local == NULL) {
        return err->status;
    }
    log_notes(manifest, wp_local_report(local));
    out->ops = &ops;
    out->self = local;
    return WP_OK;
}
