#include "allocator/stores/sqlite/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    OTHERS_BITS = 077,
    OWN_MODE = 0600,
};

/* A file that is gone while its log is there was deleted by hand: a new one
 * would take the log of the old for its own. */
static enum wp_status
check_no_log(const char *path, struct wp_err *err)
{
    char log[WP_LEASE_FILE_PATH_MAX + 8];
    struct stat st;

    (void)snprintf(log, sizeof log, "%s-wal", path);
    if (lstat(log, &st) != 0) {
        return WP_OK;
    }
    return wp_err_set(err, WP_FAILED_PRECONDITION,
                      "lease file '%s' is missing but its log '%s' is there; "
                      "put the file back, or move the log away to start "
                      "without leases",
                      path, log);
}

enum wp_status
wp_lease_file_check(const char *path, bool *missing, struct wp_err *err)
{
    struct stat st;

    *missing = false;
    if (path == NULL || path[0] == '\0' ||
        strlen(path) > WP_LEASE_FILE_PATH_MAX) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "the lease file's path must have 1 to %d bytes",
                          WP_LEASE_FILE_PATH_MAX);
    }
    if (stat(path, &st) != 0) {
        if (errno != ENOENT) {
            return wp_err_sys(err, WP_UNAVAILABLE, errno, "lease file '%s'",
                              path);
        }
        *missing = true;
        return check_no_log(path, err);
    }
    if (!S_ISREG(st.st_mode)) {
        return wp_err_set(err, WP_FAILED_PRECONDITION,
                          "lease file '%s' is not a regular file", path);
    }
    if ((st.st_mode & OTHERS_BITS) != 0 && chmod(path, OWN_MODE) != 0) {
        return wp_err_sys(err, WP_UNAVAILABLE, errno,
                          "lease file '%s' is open to others, and its mode "
                          "cannot be made 0600",
                          path);
    }
    return WP_OK;
}

enum wp_status
wp_lease_file_prepare(const char *path, char *out, size_t cap,
                      struct wp_err *err)
{
    int fd;

    (void)snprintf(out, cap, "%s.new-%ld", path, (long)getpid());
    if (unlink(out) != 0 && errno != ENOENT) {
        return wp_err_sys(err, WP_UNAVAILABLE, errno, "cannot remove '%s'",
                          out);
    }
    fd = open(out, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, OWN_MODE);
    if (fd < 0) {
        return wp_err_sys(err, WP_UNAVAILABLE, errno,
                          "lease file '%s' cannot be made", path);
    }
    (void)close(fd);
    return WP_OK;
}

void
wp_lease_file_drop(const char *prepared)
{
    (void)unlink(prepared);
}

/* The name is in the directory for good only once the directory is. */
static bool
sync_folder(const char *path)
{
    char folder[WP_LEASE_FILE_PATH_MAX + 2];
    const char *slash = strrchr(path, '/');
    bool ok;
    int fd;

    if (slash == NULL) {
        (void)snprintf(folder, sizeof folder, ".");
    } else {
        (void)snprintf(folder, sizeof folder, "%.*s", (int)(slash - path) + 1,
                       path);
    }
    fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    ok = fsync(fd) == 0;
    (void)close(fd);
    return ok;
}

enum wp_status
wp_lease_file_place(const char *prepared, const char *path, struct wp_err *err)
{
    /* link, unlike rename, never replaces. */
    if (link(prepared, path) != 0 && errno != EEXIST) {
        int error = errno;

        (void)unlink(prepared);
        return wp_err_sys(err, WP_UNAVAILABLE, error,
                          "lease file '%s' cannot be made", path);
    }
    (void)unlink(prepared);
    if (!sync_folder(path)) {
        return wp_err_sys(err, WP_UNAVAILABLE, errno,
                          "the directory of lease file '%s' cannot be synced",
                          path);
    }
    return WP_OK;
}
