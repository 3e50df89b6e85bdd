/* local/sandbox/local_prepare.c - what is made and checked before the first
 * sandbox: directories, programs, the seccomp filter, a root for each template.
 * */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "local/sandbox/extras.h"
#include "local/sandbox/gvisor.h"
#include "local/sandbox/host_probe.h"
#include "local/sandbox/lock.h"
#include "local/sandbox/subids.h"
#include "proto/checkout/inside.h"
#include "local/walls/seccomp_filter.h"
#include "pool/base/file.h"
#include "pool/base/log.h"

enum {
    /* Left of sockaddr_un for a short sandbox name and "/port.sock". */
    STATE_DIR_MAX = WP_ENDPOINT_MAX - 32,
    FILES_FOR_DAEMON = 1024,
    FILES_FOR_SANDBOX = 4, /* Two pidfds, control, and stderr or bridge. */
};

static enum wp_status
check_users(const struct wp_local_config *config, struct wp_err *err)
{
    /* Those of the egress proxy, warmpool-fetch and volumes, too. */
    uint32_t users = config->sandboxes_max + 3;
    enum wp_status status =
        wp_subids_check("/etc/subuid", config->uid_first, users, err);

    return status == WP_OK
               ? wp_subids_check("/etc/subgid", config->uid_first, users, err)
               : status;
}

enum wp_status
wp_local_check_config(const struct wp_local_config *config, struct wp_err *err)
{
    const char *dir = config->state_dir;

    if (dir == NULL || dir[0] != '/') {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "state directory: an absolute path was expected");
    }
    if (strlen(dir) > STATE_DIR_MAX) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "state directory: at most %d characters, since socket"
                          " paths (at most %d) hold it: %s",
                          (int)STATE_DIR_MAX, (int)WP_ENDPOINT_MAX, dir);
    }
    if (config->rootfs_dir != NULL && config->rootfs_dir[0] != '/') {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "rootfs directory: an absolute path was expected");
    }
    if (config->volumes_dir != NULL && config->volumes_dir[0] != '/') {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "setting 'volumes_dir': an absolute path was "
                          "expected");
    }
    if (config->sandboxes_max == 0 || config->sandboxes_max > 1 << 20) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "most sandboxes: 1 to 1048576 was expected");
    }
    if (config->uid_first < 1 ||
        config->uid_first >= UINT32_MAX - 3 - config->sandboxes_max) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "first host user: 1 to 4294967291 less the number of"
                          " sandboxes was expected");
    }
    if (config->pids_max < 4 || config->connections_max < 1 ||
        config->connections_max > 4096 || config->tmpfs_bytes < 4096 ||
        config->probe_timeout_ms < 1 || config->probe_failures < 1) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "a limit of the local backend is out of bounds");
    }
    return geteuid() == 0 ? check_users(config, err) : WP_OK;
}

static enum wp_status
place_program(const struct wp_local *local, const char *from, const char *name,
              struct wp_err *err)
{
    char to[WP_LOCAL_PATH_MAX + 64];

    /* A copy: the original may lie where a sandbox's user cannot go. */
    (void)snprintf(to, sizeof to, "%s/bin/%s", local->state_dir, name);
    return wp_file_copy(from, to, 0755, err);
}

/* warmpool-init lies beside the daemon, installed or in the build tree. */
static bool
beside_self(const char *name, char *out, size_t cap)
{
    char self[WP_LOCAL_PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    char *slash;

    if (n <= 0) {
        return false;
    }
    self[n] = '\0';
    slash = strrchr(self, '/');
    if (slash == NULL) {
        return false;
    }
    *slash = '\0';
    if (snprintf(out, cap, "%s/%s", self, name) < (int)cap &&
        access(out, X_OK) == 0) {
        return true;
    }
    return snprintf(out, cap, "%s/../local/%s", self, name) < (int)cap &&
           access(out, X_OK) == 0;
}

enum wp_status
wp_local_prepare_programs(const struct wp_local *local, struct wp_err *err)
{
    const struct wp_local_config *config = &local->config;
    char path[WP_LOCAL_PATH_MAX + 64];
    enum wp_status status;

    (void)snprintf(path, sizeof path, "%s/bin", local->state_dir);
    status = wp_dir_make(path, 0755, err);
    if (status != WP_OK) {
        return status;
    }
    if (config->init_path == NULL &&
        !beside_self("warmpool-init", path, sizeof path)) {
        return wp_err_set(err, WP_NOT_FOUND,
                          "warmpool-init was not found beside the daemon");
    }
    status = place_program(local,
                           config->init_path != NULL ? config->init_path : path,
                           "warmpool-init", err);
    if (status == WP_OK && config->runtime_path != NULL) {
        status =
            place_program(local, config->runtime_path, "warmpool-runtime", err);
    }
    return status;
}

enum wp_status
wp_local_prepare_filter(struct wp_local *local, struct wp_err *err)
{
    enum wp_status status;
    int fd;

    (void)snprintf(local->seccomp_path, sizeof local->seccomp_path,
                   "%s/seccomp.bpf", local->state_dir);
    fd = open(local->seccomp_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC,
              0600);
    if (fd < 0) {
        return wp_err_sys(err, WP_UNAVAILABLE, errno, "cannot write %s",
                          local->seccomp_path);
    }
    status = wp_seccomp_filter_write(fd, err);
    (void)close(fd);
    return status;
}

/* Roots are made anew by each daemon, in a directory of their own. Those of
 * sandboxes that live must stay: to remove a directory is to take away what is
 * mounted on it, in every namespace. */
static uint32_t
roots_next(const struct wp_local *local)
{
    char path[WP_LOCAL_PATH_MAX + 16];
    const struct dirent *entry;
    uint32_t next = 0;
    DIR *dir;

    (void)snprintf(path, sizeof path, "%s/roots", local->state_dir);
    dir = opendir(path);
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        uint64_t number;

        if (wp_str_to_u64(wp_str_from(entry->d_name), &number) &&
            number >= next && number < UINT32_MAX) {
            next = (uint32_t)number + 1;
        }
    }
    if (dir != NULL) {
        (void)closedir(dir);
    }
    return next;
}

enum wp_status
wp_local_prepare_dirs(struct wp_local *local, struct wp_err *err)
{
    char path[WP_LOCAL_PATH_MAX + 16];
    enum wp_status status = wp_dir_make(local->state_dir, 0711, err);

    if (status == WP_OK && access(local->state_dir, W_OK) != 0) {
        status = wp_err_sys(err, WP_PERMISSION_DENIED, errno,
                            "state directory %s", local->state_dir);
    }
    if (status == WP_OK) {
        status = local->lock_fd >= 0
                     ? wp_lock_check(local->state_dir, local->lock_fd, err)
                     : wp_lock_take(local->state_dir, &local->lock_fd, err);
    }
    (void)snprintf(local->sandboxes_dir, sizeof local->sandboxes_dir,
                   "%s/sandboxes", local->config.state_dir);
    if (status == WP_OK) {
        status = wp_dir_make(local->sandboxes_dir, 0711, err);
    }
    if (status != WP_OK) {
        return status;
    }
    local->roots = roots_next(local);
    (void)snprintf(path, sizeof path, "%s/roots/%u", local->state_dir,
                   local->roots);
    local->has_roots = true;
    return wp_dir_make(path, 0711, err);
}

/* False also when it cannot be read. */
static bool
is_empty(const char *path)
{
    DIR *dir = opendir(path);
    bool empty = dir != NULL && wp_folder_next(dir) == NULL && errno == 0;

    wp_folder_close(dir);
    return empty;
}

void
wp_local_remove_roots(struct wp_local *local)
{
    bool unused = is_empty(local->sandboxes_dir);
    char path[WP_LOCAL_PATH_MAX + 32];
    struct wp_err err;

    /* One that never started has no sandbox of its own. */
    if (!local->has_roots || (local->base != NULL && !unused)) {
        return;
    }
    (void)snprintf(path, sizeof path, "%s/roots", local->state_dir);
    if (!unused) {
        (void)snprintf(path, sizeof path, "%s/roots/%u", local->state_dir,
                       local->roots);
    }
    if (wp_dir_remove(path, &err) != WP_OK) {
        wp_log_error("prepared roots not removed", wp_kv_err(&err));
    }
    local->has_roots = false;
}

/* What one image holds must not make another: no link leads out. */
static enum wp_status
open_image(const struct wp_local *local, const struct wp_template *tmpl,
           char out[WP_LOCAL_PATH_MAX], struct wp_err *err)
{
    const char *dir = local->config.rootfs_dir;
    int top = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    int fd;
    bool fits;

    if (top < 0) {
        return wp_err_sys(err, WP_NOT_FOUND, errno, "rootfs directory %s", dir);
    }
    fd = wp_inside_open(top, tmpl->image, WP_INSIDE_STAY);
    if (fd < 0) {
        enum wp_status status =
            errno == EXDEV
                ? wp_err_set(err, WP_INVALID_ARGUMENT,
                             "template %s: image '%s' leads out of %s by a"
                             " link: put the image there, or bind-mount it",
                             tmpl->name, tmpl->image, dir)
                : wp_err_set(err, WP_NOT_FOUND,
                             "template %s: image '%s' is not a directory in %s",
                             tmpl->name, tmpl->image, dir);

        (void)close(top);
        return status;
    }
    fits = wp_inside_path(fd, out, WP_LOCAL_PATH_MAX);
    (void)close(fd);
    (void)close(top);
    return fits ? WP_OK
                : wp_err_set(err, WP_INVALID_ARGUMENT,
                             "template %s: the path of image '%s' is too long",
                             tmpl->name, tmpl->image);
}

/* "host", or a directory below rootfs_dir that the name cannot leave. */
static enum wp_status
find_image(const struct wp_local *local, const struct wp_template *tmpl,
           char out[WP_LOCAL_PATH_MAX], struct wp_err *err)
{
    const char *image = tmpl->image;
    const char *part = image;

    out[0] = '\0';
    if (strcmp(image, "host") == 0) {
        return WP_OK;
    }
    if (local->config.rootfs_dir == NULL) {
        return wp_err_set(err, WP_FAILED_PRECONDITION,
                          "template %s: image '%s': no rootfs directory is set,"
                          " so only 'host' can be used",
                          tmpl->name, image);
    }
    while (*part != '\0') {
        size_t len = strcspn(part, "/");

        if (len == 0 || part[0] == '.') {
            return wp_err_set(err, WP_INVALID_ARGUMENT,
                              "template %s: image '%s' is not a name below the"
                              " rootfs directory",
                              tmpl->name, image);
        }
        part += len;
        part += *part == '/' ? 1 : 0;
    }
    return open_image(local, tmpl, out, err);
}

/* A template that insists on gVisor is refused where it cannot run, never
 * quietly run with less than it asks for. */
static enum wp_status
check_runtime_class(struct wp_local *local, const struct wp_template *tmpl,
                    struct wp_err *err)
{
    if (tmpl->runtime_class == WP_RUNTIME_BWRAP || local->gvisor_tried) {
        return WP_OK;
    }
    if (!local->host.runsc) {
        return wp_err_set(err, WP_FAILED_PRECONDITION,
                          "template %s: runtimeClassName gvisor: runsc is not"
                          " installed",
                          tmpl->name);
    }
    if (wp_host_try_gvisor(&local->config, &local->host, err) != WP_OK) {
        return wp_err_wrap(err, "template %s: runtimeClassName gvisor",
                           tmpl->name);
    }
    local->gvisor_tried = true;
    return WP_OK;
}

static enum wp_status
refuse_limit(const struct wp_local *local, const struct wp_template *tmpl,
             const char *limit, struct wp_err *err)
{
    /* The reason, which may be long, is cut before the way out is. */
    return wp_err_set(err, WP_FAILED_PRECONDITION,
                      "template %.63s: limits.%s cannot be enforced here: set"
                      " 'sandbox_limits: best_effort' to run without (%s)",
                      tmpl->name, limit,
                      local->cgroups.kind == WP_CGROUP_NONE
                          ? local->cgroups.reason
                          : "its controller is missing");
}

/* A limit that a template states is a promise to its owner. */
static enum wp_status
find_limits(const struct wp_local *local, const struct wp_template *tmpl,
            struct wp_cgroup_limits *out, struct wp_err *err)
{
    const struct wp_local_config *config = &local->config;

    if (!config->best_effort && tmpl->memory_bytes != 0 &&
        !local->host.limit_memory) {
        return refuse_limit(local, tmpl, "memory", err);
    }
    if (!config->best_effort && tmpl->cpu_milli != 0 &&
        !local->host.limit_cpu) {
        return refuse_limit(local, tmpl, "cpu", err);
    }
    *out = (struct wp_cgroup_limits){
        .memory_bytes = tmpl->memory_bytes != 0 ? tmpl->memory_bytes
                                                : config->memory_default,
        .cpu_milli =
            tmpl->cpu_milli != 0 ? tmpl->cpu_milli : config->cpu_milli_default,
        /* bwrap and init are not the template's business. */
        .pids_max = config->pids_max + 2,
    };
    return WP_OK;
}

/* Only Landlock tells a container from its init containers, which write there.
 */
static void
note_writable(const struct wp_local *local, const struct wp_template *tmpl)
{
    for (uint32_t i = 0; i < tmpl->mounts_len; i++) {
        const struct wp_template_mount *mount = &tmpl->mounts[i];

        if (mount->read_only && mount->prepared &&
            local->host.landlock_abi == 0) {
            wp_log_warn("a volume that init containers fill stays writable: "
                        "this kernel has no Landlock",
                        wp_kv_str("template", tmpl->name),
                        wp_kv_str("mount_path", mount->path));
        }
    }
}

enum wp_status
wp_local_prepare_template(struct wp_local *local, struct wp_local_template *out,
                          const char *dir, struct wp_err *err)
{
    char image_dir[WP_LOCAL_PATH_MAX];
    enum wp_status status;

    out->hash = wp_template_hash(out->tmpl);
    status = find_limits(local, out->tmpl, &out->limits, err);
    if (status != WP_OK) {
        return status;
    }
    status = check_runtime_class(local, out->tmpl, err);
    if (status != WP_OK) {
        return status;
    }
    status = find_image(local, out->tmpl, image_dir, err);
    if (status != WP_OK) {
        return status;
    }
    status =
        wp_root_make(&out->root, dir, image_dir[0] != '\0' ? image_dir : NULL,
                     out->tmpl, err);
    if (status == WP_OK && out->tmpl->runtime_class == WP_RUNTIME_GVISOR) {
        out->limits.pids_max += WP_GVISOR_PIDS;
        status = wp_gvisor_make(local, out, err);
    }
    if (status == WP_OK) {
        status = wp_extras_make(out, err);
    }
    if (status == WP_OK) {
        note_writable(local, out->tmpl);
        status = wp_bwrap_args_make(local, out, err);
    }
    return status == WP_OK ? WP_OK
                           : wp_err_wrap(err, "template %s", out->tmpl->name);
}

/* Each live sandbox holds a few descriptors. */
void
wp_local_raise_files(struct wp_local *local)
{
    rlim_t want = (rlim_t)local->config.sandboxes_max * FILES_FOR_SANDBOX +
                  FILES_FOR_DAEMON;
    /* One more for each that has an egress proxy. */
    rlim_t most = want + local->config.sandboxes_max;
    struct rlimit files;

    if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur >= most) {
        return;
    }
    if (files.rlim_max < want) {
        struct rlimit more = {want, want};

        if (setrlimit(RLIMIT_NOFILE, &more) == 0) {
            return;
        }
        wp_host_note(&local->host,
                     "at most %llu open files are allowed: that is enough for"
                     " about %llu sandboxes",
                     (unsigned long long)files.rlim_max,
                     (unsigned long long)(files.rlim_max / FILES_FOR_SANDBOX));
    }
    files.rlim_cur = most < files.rlim_max ? most : files.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &files);
}
