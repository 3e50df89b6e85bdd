#include "local/sandbox/gvisor.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <jansson.h>

#include "local/egress_env.h"

enum {
    USER = 1000, /* As rootfs.c names it in /etc/passwd. */
    FILES_SOFT = 1024,
    FILES_HARD = 65536,
};

/* Sets NAME=value, in the place of an earlier one of that name. */
static bool
set_env(json_t *env, const char *entry)
{
    size_t name = strcspn(entry, "=") + 1;
    size_t i;
    json_t *old;

    json_array_foreach(env, i, old)
    {
        if (strncmp(json_string_value(old), entry, name) == 0) {
            return json_array_set_new(env, i, json_string(entry)) == 0;
        }
    }
    return json_array_append_new(env, json_string(entry)) == 0;
}

/* name ends with '='. */
static bool
has_env(const json_t *env, const char *name)
{
    size_t i;
    json_t *entry;

    json_array_foreach(env, i, entry)
    {
        if (strncmp(json_string_value(entry), name, strlen(name)) == 0) {
            return true;
        }
    }
    return false;
}

static json_t *
make_env(const struct wp_template *tmpl)
{
    json_t *env = json_array();
    bool ok = set_env(env, "PATH=" WP_SANDBOX_PATH) &&
              set_env(env, "HOME=" WP_ROOT_WORKSPACE) &&
              set_env(env, "LANG=C.UTF-8");

    for (size_t i = 0; tmpl->env[i] != NULL && ok; i++) {
        ok = set_env(env, tmpl->env[i]);
    }
    if (!ok) {
        json_decref(env);
        return NULL;
    }
    return env;
}

static json_t *
make_args(const struct wp_template *tmpl)
{
    json_t *args = json_array();

    for (size_t i = 0; tmpl->argv[i] != NULL; i++) {
        if (json_array_append_new(args, json_string(tmpl->argv[i])) != 0) {
            json_decref(args);
            return NULL;
        }
    }
    return args;
}

/* The program's own: mode, owner and size as bubblewrap's sandboxes have. */
static bool
add_tmpfs(json_t *mounts, const char *path, unsigned mode, uint64_t size)
{
    char mode_text[24];
    char size_text[40];

    (void)snprintf(mode_text, sizeof mode_text, "mode=%04o", mode);
    (void)snprintf(size_text, sizeof size_text, "size=%" PRIu64, size);
    return json_array_append_new(
               mounts,
               json_pack("{s:s, s:s, s:s, s:[s, s, s, s]}", "destination", path,
                         "type", "tmpfs", "source", "tmpfs", "options",
                         mode_text, "uid=1000", "gid=1000", size_text)) == 0;
}

void
wp_gvisor_volume(uint32_t i, char out[WP_GVISOR_VOLUME_MAX])
{
    (void)snprintf(out, WP_GVISOR_VOLUME_MAX, "/volumes-%u", i);
}

static bool
add_files(json_t *mounts, const struct wp_template_mount *mount, uint32_t i)
{
    char from[WP_GVISOR_VOLUME_MAX];

    if (mount->kind == WP_MOUNT_NONE) {
        return true;
    }
    wp_gvisor_volume(i, from);
    return json_array_append_new(
               mounts, json_pack("{s:s, s:s, s:s, s:[s, s]}", "destination",
                                 mount->path, "type", "bind", "source", from,
                                 "options", "bind", "ro")) == 0;
}

static json_t *
make_mounts(const struct wp_local *local, const struct wp_template *tmpl)
{
    uint64_t size = wp_local_tmpfs_size(local, tmpl);
    json_t *mounts = json_pack("[{s:s, s:s, s:s}]", "destination", "/proc",
                               "type", "proc", "source", "proc");
    bool ok = add_tmpfs(mounts, "/dev/shm", 01777, size);

    if (ok && !wp_template_mounts(tmpl, WP_ROOT_WORKSPACE)) {
        ok = add_tmpfs(mounts, WP_ROOT_WORKSPACE, 0755, size);
    }
    if (ok && !wp_template_mounts(tmpl, "/tmp")) {
        ok = add_tmpfs(mounts, "/tmp", 01777, size);
    }
    for (uint32_t i = 0; i < tmpl->mounts_len && ok; i++) {
        const struct wp_template_mount *mount = &tmpl->mounts[i];

        if (mount->kind != WP_MOUNT_EMPTY) {
            ok = add_files(mounts, mount, i);
            continue;
        }
        ok = add_tmpfs(mounts, mount->path, 0755,
                       mount->size_bytes != 0 ? mount->size_bytes : size);
        if (ok && mount->read_only) {
            json_t *last = json_array_get(mounts, json_array_size(mounts) - 1);

            ok = json_array_append_new(json_object_get(last, "options"),
                                       json_string("ro")) == 0;
        }
    }
    if (!ok) {
        json_decref(mounts);
        return NULL;
    }
    return mounts;
}

static json_t *
make_process(const struct wp_local *local, const struct wp_template *tmpl)
{
    /* NULL for env or args makes json_pack fail as a whole. */
    return json_pack(
        "{s:b, s:{s:i, s:i}, s:b, s:{}, s:s, s:[{s:s, s:i, s:i}, {s:s, s:i,"
        " s:i}, {s:s, s:I, s:I}], s:o, s:o}",
        "terminal", 0, "user", "uid", USER, "gid", USER, "noNewPrivileges", 1,
        "capabilities", "cwd",
        tmpl->working_dir != NULL ? tmpl->working_dir : WP_ROOT_WORKSPACE,
        "rlimits", "type", "RLIMIT_CORE", "soft", 0, "hard", 0, "type",
        "RLIMIT_NOFILE", "soft", FILES_SOFT, "hard", FILES_HARD, "type",
        "RLIMIT_NPROC", "soft", (json_int_t)local->config.pids_max, "hard",
        (json_int_t)local->config.pids_max, "env", make_env(tmpl), "args",
        make_args(tmpl));
}

enum wp_status
wp_gvisor_make(const struct wp_local *local, struct wp_local_template *out,
               struct wp_err *err)
{
    out->gvisor = json_pack(
        "{s:s, s:{s:s, s:b}, s:o, s:o, s:{s:[{s:s}, {s:s}, {s:s}, {s:s}]}}",
        "ociVersion", "1.0.0", "root", "path", WP_GVISOR_ROOT, "readonly", 1,
        "process", make_process(local, out->tmpl), "mounts",
        make_mounts(local, out->tmpl), "linux", "namespaces", "type", "pid",
        "type", "mount", "type", "ipc", "type", "uts");
    if (out->gvisor == NULL) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "its arguments and environment do not make a"
                          " configuration for gVisor: UTF-8 was expected");
    }
    return WP_OK;
}

void
wp_gvisor_fini(struct wp_local_template *tmpl)
{
    json_decref(tmpl->gvisor);
    tmpl->gvisor = NULL;
}

/* Where its egress proxy is, unless the template says something else. */
static bool
set_egress(json_t *env)
{
#define SET_ENV(name, value)                                                   \
    if (!has_env(env, name "=") && !set_env(env, name "=" value)) {            \
        return false;                                                          \
    }
    WP_EGRESS_ENV(SET_ENV)
#undef SET_ENV
    return true;
}

/* What the sandbox of that name has of its own. */
static bool
fill(json_t *config, const char *name, const char *uid_hex, bool egress)
{
    json_t *env = json_object_get(json_object_get(config, "process"), "env");
    char name_text[WP_SANDBOX_NAME_MAX + 32];
    char uid_text[2 * WP_UID_LEN + 32];

    (void)snprintf(name_text, sizeof name_text, "WARMPOOL_SANDBOX=%s", name);
    (void)snprintf(uid_text, sizeof uid_text, "WARMPOOL_SANDBOX_UID=%s",
                   uid_hex);
    return set_env(env, name_text) && set_env(env, uid_text) &&
           (!egress || set_egress(env)) &&
           json_object_set_new(config, "hostname", json_string(name)) == 0;
}

int
wp_gvisor_config_open(const struct wp_local_template *tmpl, const char *name,
                      const char *uid_hex, bool egress)
{
    json_t *config = json_deep_copy(tmpl->gvisor);
    int fd = -1;

    errno = ENOMEM;
    if (config != NULL && fill(config, name, uid_hex, egress)) {
        fd = memfd_create("config.json", MFD_CLOEXEC);
    }
    if (fd >= 0 && (json_dumpfd(config, fd, JSON_COMPACT) != 0 ||
                    lseek(fd, 0, SEEK_SET) != 0)) {
        int saved = errno;

        (void)close(fd);
        errno = saved;
        fd = -1;
    }
    json_decref(config);
    return fd;
}
