#include "local/manifest/kept_pools.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    /* '_' is in no name, so a file's name says whose it is. */
    FILE_MAX = WP_NAMESPACE_MAX + 1 + WP_POOL_NAME_MAX + sizeof ".yaml",
    PATH_BYTES = 4096,
};

static void
file_of(const struct wp_pool_spec *pool, char out[FILE_MAX])
{
    (void)snprintf(out, FILE_MAX, "%s_%s.yaml", pool->pool_namespace,
                   pool->name);
}

/* A directory of that name as a descriptor, -1 and errno. */
static int
open_dir(const char *dir)
{
    return open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* --- Reading --- */

static int
is_manifest(const struct dirent *entry)
{
    const char *end = strrchr(entry->d_name, '.');

    return end != NULL && strcmp(end, ".yaml") == 0 &&
           entry->d_name[0] != '.' && strlen(entry->d_name) < FILE_MAX;
}

/* UNAVAILABLE: it could not be read this time. */
static enum wp_status
join_file(const char *dir, const char *file, struct wp_manifest *manifest,
          struct wp_err *err)
{
    struct wp_manifest *one = wp_manifest_create();
    char path[PATH_BYTES];
    enum wp_status status;

    if (one == NULL) {
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no memory");
    }
    (void)snprintf(path, sizeof path, "%.3900s/%s", dir, file);
    status = wp_manifest_add_file(one, path, err);
    if (status == WP_OK) {
        status = wp_manifest_resolve(one, err);
    }
    if (status == WP_OK) {
        status = wp_manifest_join(manifest, one, err);
    } else if (status != WP_INVALID_ARGUMENT) {
        err->status = status = WP_UNAVAILABLE;
    }
    if (status != WP_OK) {
        wp_manifest_destroy(one);
    }
    return status;
}

/* Those that are left, each of which is then joined, refused, or left for the
 * last round: its template may be in another one's file. */
/* Its parameters are those of wp_kept_pools_join, and what is left. */
static enum wp_status
/* NOLINTNEXTLINE(readability-function-size) */
join_round(const char *dir, struct dirent **entries, int n, bool is_last,
           struct wp_manifest *manifest,
           void (*refused)(void *ctx, const char *file,
                           const struct wp_err *err),
           void *ctx, struct wp_err *err)
{
    for (int i = 0; i < n; i++) {
        enum wp_status status =
            entries[i] != NULL
                ? join_file(dir, entries[i]->d_name, manifest, err)
                : WP_OK;

        if (status == WP_UNAVAILABLE) {
            return status;
        }
        if (status == WP_FAILED_PRECONDITION && !is_last) {
            continue;
        }
        if (status != WP_OK) {
            refused(ctx, entries[i]->d_name, err);
        }
        free(entries[i]);
        entries[i] = NULL;
    }
    return WP_OK;
}

enum wp_status
wp_kept_pools_join(const char *dir, struct wp_manifest *manifest,
                   const struct wp_pool_spec *except,
                   void (*refused)(void *ctx, const char *file,
                                   const struct wp_err *err),
                   void *ctx, struct wp_err *err)
{
    char excepted[FILE_MAX] = "";
    enum wp_status status = WP_OK;
    struct dirent **entries;
    int n = scandir(dir, &entries, is_manifest, alphasort);

    if (n < 0 && errno == ENOENT) {
        return WP_OK;
    }
    if (n < 0) {
        bool is_private = errno == EACCES;

        (void)wp_err_sys(err, WP_FAILED_PRECONDITION, errno,
                         "cannot read '%.160s'", dir);
        if (!is_private) {
            return err->status;
        }
        /* Another user's: who looks at settings only cannot see them. */
        refused(ctx, dir, err);
        return WP_OK;
    }
    if (except != NULL) {
        file_of(except, excepted);
    }
    for (int i = 0; i < n; i++) {
        if (strcmp(entries[i]->d_name, excepted) == 0) {
            free(entries[i]);
            entries[i] = NULL;
        }
    }
    for (int round = 0; round < 2 && status == WP_OK; round++) {
        status = join_round(dir, entries, n, round == 1, manifest, refused, ctx,
                            err);
    }
    for (int i = 0; i < n; i++) {
        free(entries[i]);
    }
    free(entries);
    return status;
}

bool
wp_kept_pools_has(const char *dir, const struct wp_pool_spec *pool)
{
    char file[FILE_MAX];
    char path[PATH_BYTES];

    file_of(pool, file);
    (void)snprintf(path, sizeof path, "%.3900s/%s", dir, file);
    return access(path, F_OK) == 0;
}

/* --- Writing --- */

static bool
write_all(int fd, struct wp_str text)
{
    while (text.len > 0) {
        ssize_t n = write(fd, text.ptr, text.len);

        if (n < 0 && errno != EINTR) {
            return false;
        }
        text.ptr += n > 0 ? n : 0;
        text.len -= n > 0 ? (size_t)n : 0;
    }
    return true;
}

enum wp_status
wp_kept_pools_write(const char *dir, const struct wp_pool_spec *pool,
                    struct wp_str text, struct wp_err *err)
{
    char file[FILE_MAX];
    char part[FILE_MAX + 32];
    bool ok;
    int dir_fd;
    int fd;

    file_of(pool, file);
    (void)snprintf(part, sizeof part, ".%s.%d", file, (int)getpid());
    (void)mkdir(dir, 0700);
    dir_fd = open_dir(dir);
    fd = dir_fd >= 0 ? openat(dir_fd, part,
                              O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600)
                     : -1;
    ok = fd >= 0 && write_all(fd, text) && fsync(fd) == 0 &&
         renameat(dir_fd, part, dir_fd, file) == 0 && fsync(dir_fd) == 0;
    if (!ok) {
        (void)wp_err_sys(err, WP_UNAVAILABLE, errno,
                         "cannot keep the pool in '%.160s'", dir);
    }
    if (fd >= 0) {
        (void)close(fd);
        (void)unlinkat(dir_fd, part, 0); /* Gone, when all went well. */
    }
    if (dir_fd >= 0) {
        (void)close(dir_fd);
    }
    return ok ? WP_OK : WP_UNAVAILABLE;
}

enum wp_status
wp_kept_pools_remove(const char *dir, const struct wp_pool_spec *pool,
                     struct wp_err *err)
{
    int dir_fd = open_dir(dir);
    char file[FILE_MAX];
    bool ok;

    file_of(pool, file);
    ok = dir_fd >= 0 && (unlinkat(dir_fd, file, 0) == 0 || errno == ENOENT) &&
         fsync(dir_fd) == 0;
    if (dir_fd < 0 && errno == ENOENT) {
        return WP_OK;
    }
    if (!ok) {
        (void)wp_err_sys(err, WP_UNAVAILABLE, errno,
                         "cannot remove the pool from '%.160s'", dir);
    }
    if (dir_fd >= 0) {
        (void)close(dir_fd);
    }
    return ok ? WP_OK : WP_UNAVAILABLE;
}
