#include "runtime/files/file_text.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pool/base/os_error.h"
#include "proto/formats/json_text.h"

static enum wp_status
failed(struct wp_err *err, const char *what, const char *path, int os_errno)
{
    enum wp_status status = os_errno == ENOENT ? WP_NOT_FOUND
                            : os_errno == EACCES || os_errno == EPERM
                                ? WP_PERMISSION_DENIED
                                : WP_FAILED_PRECONDITION;

    return wp_err_set(err, status, "%s %s: %s", what, path,
                      wp_os_error(os_errno));
}

/* Reads up to max bytes into a buffer that grows; -1 with errno. A file may
 * say nothing of its size (those of /proc say 0), so the end is what counts. */
static ssize_t
read_all(int fd, size_t max, char **out)
{
    struct stat st;
    size_t cap =
        fstat(fd, &st) == 0 && st.st_size > 0 && (uint64_t)st.st_size < max
            ? (size_t)st.st_size + 1
            : 4096;
    size_t len = 0;
    char *data = malloc(cap + 1);

    while (data != NULL) {
        ssize_t got;

        if (len == cap) {
            char *more;

            if (cap >= max) {
                break;
            }
            more = realloc(data, 2 * cap + 1);
            if (more == NULL) {
                free(data);
                errno = ENOMEM;
                return -1;
            }
            data = more;
            cap *= 2;
        }
        got = read(fd, data + len, cap - len);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            free(data);
            return -1;
        }
        if (got == 0) {
            break;
        }
        len += (size_t)got;
    }
    if (data == NULL) {
        errno = ENOMEM;
        return -1;
    }
    data[len] = '\0';
    *out = data;
    return (ssize_t)len;
}

enum wp_status
wp_file_read(const char *path, size_t max, json_t **out, struct wp_err *err)
{
    /* O_NONBLOCK: a named pipe without a writer must not stop the server. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    char *data = NULL;
    ssize_t len;

    if (fd < 0) {
        return failed(err, "open", path, errno);
    }
    len = read_all(fd, max + 1, &data);
    if (len < 0) {
        enum wp_status status = failed(err, "read", path, errno);

        close(fd);
        return status;
    }
    close(fd);
    if ((size_t)len > max) {
        free(data);
        return wp_err_set(err, WP_FAILED_PRECONDITION,
                          "read %s: larger than %zu bytes", path, max);
    }
    *out = wp_json_from_str((struct wp_str){data, (size_t)len});
    free(data);
    return *out != NULL
               ? WP_OK
               : wp_err_set(err, WP_RESOURCE_EXHAUSTED, "out of memory");
}

char *
wp_file_read_head(const char *path, size_t max, size_t *len)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    char *data = NULL;
    ssize_t got;

    if (fd < 0) {
        return NULL;
    }
    got = read_all(fd, max, &data);
    close(fd);
    if (got < 0) {
        return NULL;
    }
    *len = (size_t)got < max ? (size_t)got : max;
    data[*len] = '\0';
    return data;
}

enum wp_status
wp_file_write(const char *path, struct wp_str content, struct wp_err *err)
{
    int fd = open(
        path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY | O_NONBLOCK,
        0644);
    size_t done = 0;

    if (fd < 0) {
        return failed(err, "open", path, errno);
    }
    while (done < content.len) {
        ssize_t put = write(fd, content.ptr + done, content.len - done);

        if (put < 0 && errno == EINTR) {
            continue;
        }
        if (put < 0) {
            enum wp_status status = failed(err, "write", path, errno);

            close(fd);
            return status;
        }
        done += (size_t)put;
    }
    if (close(fd) != 0) {
        return failed(err, "close", path, errno);
    }
    return WP_OK;
}

enum wp_status
wp_file_make_dirs(const char *path, struct wp_err *err)
{
    char part[PATH_MAX];
    struct stat st;
    size_t len = strlen(path);

    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
        return WP_OK;
    }
    if (len >= sizeof(part)) {
        return failed(err, "mkdir", "a long path", ENAMETOOLONG);
    }
    for (size_t i = 1; i <= len; i++) {
        if (i < len && path[i] != '/') {
            continue;
        }
        memcpy(part, path, i);
        part[i] = '\0';
        if (mkdir(part, 0755) != 0) {
            /* A read-only file system refuses even what exists. */
            int os_errno = errno == EEXIST ? ENOTDIR : errno;

            if (stat(part, &st) != 0 || !S_ISDIR(st.st_mode)) {
                return failed(err, "mkdir", part, os_errno);
            }
        }
    }
    if (stat(path, &st) != 0 || !S_ISDIR(st.st_mode)) {
        return failed(err, "mkdir", path, ENOTDIR);
    }
    return WP_OK;
}
