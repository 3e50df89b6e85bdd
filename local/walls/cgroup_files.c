#include "local/walls/cgroup_files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pool/base/file.h"

bool
wp_cgroup_path(char out[WP_CGROUP_PATH_MAX], const char *a, const char *b)
{
    int n = snprintf(out, WP_CGROUP_PATH_MAX, "%s/%s", a, b);

    if (n < 0 || n >= WP_CGROUP_PATH_MAX) {
        errno = ENAMETOOLONG;
        return false;
    }
    return true;
}

bool
wp_cgroup_put(const char *dir, const char *file, const char *text)
{
    char path[WP_CGROUP_PATH_MAX];
    size_t len = strlen(text);
    ssize_t n;
    int saved;
    int fd;

    if (!wp_cgroup_path(path, dir, file)) {
        return false;
    }
    fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    n = write(fd, text, len);
    saved = errno;
    (void)close(fd);
    errno = saved;
    return n == (ssize_t)len;
}

bool
wp_cgroup_get(const char *dir, const char *file, char *out, size_t cap)
{
    char path[WP_CGROUP_PATH_MAX];
    ssize_t n;

    if (!wp_cgroup_path(path, dir, file)) {
        return false;
    }
    n = wp_path_read(path, 0, out, cap - 1, NULL);
    out[n > 0 ? n : 0] = '\0';
    return n >= 0;
}

bool
wp_cgroup_dir_make(const char *dir)
{
    return mkdir(dir, 0755) == 0 || errno == EEXIST;
}
