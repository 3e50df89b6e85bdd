#include "allocator/daemon/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "local/manifest/kept_pools.h"
#include "pool/base/file.h"
#include "pool/base/log.h"
#include "pool/base/rng.h"

enum wp_status
wp_daemon_make_dir(const char *path, uint32_t mode, struct wp_err *err)
{
    char part[WP_CONF_TEXT_MAX + 1];
    struct stat st;

    if (!wp_str_copy(wp_str_from(path), part, sizeof part)) {
        return wp_err_set(err, WP_INVALID_ARGUMENT, "path too long");
    }
    for (char *slash = strchr(part + 1, '/'); slash != NULL;
         slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdir(part, 0755); /* What matters is whether the last works. */
        *slash = '/';
    }
    if (mkdir(part, mode) != 0 && errno != EEXIST) {
        return wp_err_sys(err, WP_FAILED_PRECONDITION, errno,
                          "cannot make the directory '%.120s'", path);
    }
    if (stat(part, &st) != 0 || !S_ISDIR(st.st_mode)) {
        return wp_err_set(err, WP_FAILED_PRECONDITION,
                          "'%.120s' is not a directory", path);
    }
    return WP_OK;
}

enum wp_status
wp_daemon_check_passable(const char *path, struct wp_err *err)
{
    char part[WP_CONF_TEXT_MAX + 1];
    struct stat st;

    if (!wp_str_copy(wp_str_from(path), part, sizeof part)) {
        return wp_err_set(err, WP_INVALID_ARGUMENT, "path too long");
    }
    for (char *slash = strchr(part + 1, '/'); slash != NULL;
         slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (stat(part, &st) == 0 && (st.st_mode & S_IXOTH) == 0) {
            return wp_err_set(err, WP_INVALID_ARGUMENT,
                              "setting 'state_dir': sandboxes run as users of "
                              "their own and cannot pass through '%.80s' "
                              "(chmod o+x it, or choose another directory)",
                              part);
        }
        *slash = '/';
    }
    return WP_OK;
}

/* Its owner could read or replace it: only the daemon's user and root may be
 * that one. */
static bool
is_trusted_owner(uid_t uid)
{
    return uid == 0 || uid == geteuid();
}

/* Nobody but its owner may read it; or it is root's, and the daemon's group may
 * as well: so Kubernetes mounts a Secret for a Pod that is not root. */
static bool
is_private(const struct stat *st)
{
    return (st->st_mode & 077) == 0 ||
           (st->st_uid == 0 && geteuid() != 0 && (st->st_mode & 037) == 0);
}

enum wp_status
wp_daemon_read_secret(const char *what, const char *path, char *out, size_t cap,
                      struct wp_err *err)
{
    struct stat st;
    ssize_t n = wp_path_read(path, O_NONBLOCK, out, cap - 1, &st);

    if (st.st_mode == 0) {
        return wp_err_sys(err, WP_FAILED_PRECONDITION, errno,
                          "setting '%s': cannot read '%.100s'", what, path);
    }
    if (S_ISREG(st.st_mode) && !is_trusted_owner(st.st_uid)) {
        explicit_bzero(out, cap);
        return wp_err_set(err, WP_FAILED_PRECONDITION,
                          "setting '%s': expected a file of root or of the "
                          "daemon's user, not of user %u (chown '%.100s')",
                          what, (unsigned)st.st_uid, path);
    }
    if (n < 0 || !S_ISREG(st.st_mode) || !is_private(&st)) {
        explicit_bzero(out, cap);
        return wp_err_set(err, WP_FAILED_PRECONDITION,
                          "setting '%s': expected a file that only its owner "
                          "can read (chmod 600 '%.100s')",
                          what, path);
    }
    while (n > 0 && (out[n - 1] == '\n' || out[n - 1] == '\r')) {
        n--;
    }
    out[n] = '\0';
    return WP_OK;
}

enum wp_status
wp_daemon_read_token(const char *what, const char *path, char *out, size_t cap,
                     struct wp_err *err)
{
    enum wp_status status;
    size_t len;

    out[0] = '\0';
    if (path[0] == '\0') {
        return WP_OK;
    }
    status = wp_daemon_read_secret(what, path, out, cap, err);
    len = strlen(out);
    if (status == WP_OK &&
        (len < 16 || len > 256 || strcspn(out, " \t\r\n") != len ||
         !wp_str_is_printable(wp_str_from(out)))) {
        out[0] = '\0';
        status = wp_err_set(err, WP_INVALID_ARGUMENT,
                            "setting '%s': expected one word of 16 to 256 "
                            "characters in '%.100s'",
                            what, path);
    }
    return status;
}

/* A pool that can never be full would be short for ever, and ready all the
 * same. */
static enum wp_status
check_room(const struct wp_conf *conf, const struct wp_manifest *manifest,
           struct wp_err *err)
{
    const struct wp_pool_spec *specs;
    size_t n = wp_manifest_pools(manifest, &specs);
    uint64_t total = 0;

    for (size_t i = 0; i < n; i++) {
        total += specs[i].target;
    }
    if (total > (uint64_t)conf->slots_max) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "setting 'slots_max': the pools of the manifests "
                          "want %llu ready sandboxes together, but it allows "
                          "%lld, leased ones included",
                          (unsigned long long)total,
                          (long long)conf->slots_max);
    }
    return WP_OK;
}

/* Those that the setting names. NULL and err. */
static struct wp_manifest *
read_named(const struct wp_conf *conf, struct wp_err *err)
{
    struct wp_manifest *manifest = wp_manifest_create();
    enum wp_status status = WP_OK;

    if (manifest == NULL) {
        (void)wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no memory");
        return NULL;
    }
    wp_manifest_set_inflight_max(manifest, (uint32_t)conf->create_inflight_max);
    for (uint32_t i = 0; status == WP_OK && i < conf->manifests.len; i++) {
        status = wp_manifest_add_file(manifest, conf->manifests.items[i], err);
    }
    if (status == WP_OK) {
        status = wp_manifest_check(manifest, err);
    }
    if (status != WP_OK) {
        wp_manifest_destroy(manifest);
        return NULL;
    }
    return manifest;
}

void
wp_daemon_kept_dir(const struct wp_conf *conf, char out[WP_DAEMON_KEPT_PATH])
{
    (void)snprintf(out, WP_DAEMON_KEPT_PATH, "%s/pools.d", conf->state_dir);
}

static void
say_left_out(void *ctx, const char *file, const struct wp_err *err)
{
    (void)ctx;
    wp_log_error("a pool that CreatePool has kept is left out",
                 wp_kv_str("file", file), wp_kv_err(err));
}

struct wp_manifest *
wp_daemon_read_manifests(const struct wp_conf *conf, struct wp_err *err)
{
    struct wp_manifest *manifest = read_named(conf, err);
    char dir[WP_DAEMON_KEPT_PATH];
    enum wp_status status = WP_OK;

    if (manifest == NULL) {
        return NULL;
    }
    wp_daemon_kept_dir(conf, dir);
    if (!wp_conf_is_cluster(conf)) {
        status =
            wp_kept_pools_join(dir, manifest, NULL, say_left_out, NULL, err);
    }
    if (status == WP_OK) {
        status = check_room(conf, manifest, err);
    }
    if (status != WP_OK) {
        wp_manifest_destroy(manifest);
        return NULL;
    }
    return manifest;
}

/* Kept pools that cannot be used, and the last of their files. */
struct left_out {
    uint32_t n;
    char file[160];
};

static void
count_left_out(void *ctx, const char *file, const struct wp_err *err)
{
    struct left_out *out = ctx;

    (void)err;
    out->n++;
    (void)snprintf(out->file, sizeof out->file, "%s", file);
}

static enum wp_status
find_left_out(const struct wp_conf *conf, const struct wp_pool_spec *except,
              struct left_out *out, struct wp_err *err)
{
    struct wp_manifest *manifest = read_named(conf, err);
    char dir[WP_DAEMON_KEPT_PATH];
    enum wp_status status;

    out->n = 0;
    if (manifest == NULL) {
        return err->status;
    }
    wp_daemon_kept_dir(conf, dir);
    status =
        wp_kept_pools_join(dir, manifest, except, count_left_out, out, err);
    wp_manifest_destroy(manifest);
    return status;
}

enum wp_status
wp_daemon_check_unneeded(const struct wp_conf *conf,
                         const struct wp_pool_spec *pool, struct wp_err *err)
{
    struct left_out with;
    struct left_out without;

    if (find_left_out(conf, NULL, &with, err) != WP_OK ||
        find_left_out(conf, pool, &without, err) != WP_OK) {
        return err->status;
    }
    return without.n <= with.n
               ? WP_OK
               : wp_err_set(err, WP_FAILED_PRECONDITION,
                            "pool: the template that came with '%s' is used "
                            "by the created pool in %s; delete that one first",
                            pool->name, without.file);
}

void
wp_daemon_find_program(const char *setting, const char *name, char *out,
                       size_t cap)
{
    /* Installed, then as the build leaves them. */
    static const char *const beside[] = {"", "../bin/", "../libexec/warmpool/",
                                         "../local/", "../runtime/"};
    char self[400];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    char *slash;

    if (setting[0] != '\0') {
        (void)snprintf(out, cap, "%s", setting);
        return;
    }
    self[n > 0 ? n : 0] = '\0';
    slash = strrchr(self, '/');
    if (slash != NULL) {
        slash[1] = '\0';
    }
    for (size_t i = 0; i < WP_ARRAY_LEN(beside); i++) {
        (void)snprintf(out, cap, "%s%s%s", self, beside[i], name);
        if (access(out, X_OK) == 0) {
            return;
        }
    }
    out[0] = '\0';
}
