/* local/walls/rootfs_files.c - directories made and removed, files copied. */
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "local/walls/rootfs.h"

enum wp_status
wp_dir_make(const char *dir, unsigned mode, struct wp_err *err)
{
    char path[WP_ROOT_PATH_MAX];
    size_t len = strlen(dir);

    if (len == 0 || len >= sizeof path) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "directory path is empty or too long");
    }
    memcpy(path, dir, len + 1);
    for (size_t i = 1; i <= len; i++) {
        if (path[i] != '/' && path[i] != '\0') {
            continue;
        }
        path[i] = '\0';
        /* The daemon's umask must not decide what sandboxes can read. */
        if (mkdir(path, mode) == 0 ? chmod(path, mode) != 0 : errno != EEXIST) {
            return wp_err_sys(err, WP_UNAVAILABLE, errno,
                              "cannot make directory %s", path);
        }
        path[i] = dir[i];
    }
    return WP_OK;
}

enum wp_status
wp_dir_remove(const char *dir, struct wp_err *err)
{
    char *const paths[] = {strdup(dir), NULL};
    enum wp_status status = WP_OK;
    FTSENT *entry;
    FTS *fts;

    if (paths[0] == NULL) {
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no memory");
    }
    fts = fts_open(paths, FTS_PHYSICAL | FTS_NOCHDIR | FTS_XDEV, NULL);
    while (fts != NULL && (entry = fts_read(fts)) != NULL) {
        int rc = 0;

        if (entry->fts_info == FTS_DP) {
            rc = rmdir(entry->fts_accpath);
        } else if (entry->fts_info != FTS_D && entry->fts_info != FTS_NS) {
            rc = unlink(entry->fts_accpath);
        }
        if (rc != 0 && errno != ENOENT && status == WP_OK) {
            status = wp_err_sys(err, WP_UNAVAILABLE, errno, "cannot remove %s",
                                entry->fts_path);
        }
    }
    if (fts != NULL) {
        (void)fts_close(fts);
    }
    free(paths[0]);
    return status;
}

static bool
copy_bytes(int in, int out)
{
    ssize_t n;

    do {
        n = sendfile(out, in, NULL, 1 << 20);
    } while (n > 0 || (n < 0 && errno == EINTR));
    return n == 0;
}

enum wp_status
wp_file_copy(const char *from, const char *to, unsigned mode,
             struct wp_err *err)
{
    char part[WP_ROOT_PATH_MAX];
    enum wp_status status = WP_OK;
    int in = open(from, O_RDONLY | O_CLOEXEC);
    int out = -1;
    int error;
    bool ok;

    if (in < 0) {
        return wp_err_sys(err, WP_NOT_FOUND, errno, "cannot read %s", from);
    }
    if (snprintf(part, sizeof part, "%s.part", to) < (int)sizeof part) {
        (void)unlink(part);
        out = open(part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    }
    ok = out >= 0 && copy_bytes(in, out) && fchmod(out, mode) == 0;
    error = errno;
    if (out >= 0 && close(out) != 0 && ok) {
        ok = false;
        error = errno;
    }
    if (ok && rename(part, to) != 0) {
        ok = false;
        error = errno;
    }
    if (!ok) {
        status = wp_err_sys(err, WP_UNAVAILABLE, error, "cannot write %s", to);
        (void)unlink(part);
    }
    (void)close(in);
    return status;
}
