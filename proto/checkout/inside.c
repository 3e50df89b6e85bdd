#include "proto/checkout/inside.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "pool/base/str.h"

/* Part by part, where openat2 is not to be had: under gVisor (ENOSYS), and
 * where a filter does not know it (EPERM). */
static int
walk_without_links(int top, const char *path)
{
    int at = fcntl(top, F_DUPFD_CLOEXEC, 0);

    while (at >= 0) {
        char name[256];
        struct wp_str part;
        int next = -1;
        int saved;

        path += strspn(path, "/");
        part = (struct wp_str){path, strcspn(path, "/")};
        if (part.len == 0) {
            return at;
        }
        if (!wp_str_copy(part, name, sizeof name)) {
            errno = ENAMETOOLONG;
        } else if (strcmp(name, "..") == 0) {
            errno = EXDEV;
        } else {
            next =
                openat(at, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        }
        saved = errno;
        (void)close(at);
        errno = saved;
        at = next;
        path += part.len;
    }
    return -1;
}

int
wp_inside_open(int top, const char *path, enum wp_inside_links links)
{
    int fd;

    struct open_how how = {
        .flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
        .resolve = RESOLVE_NO_MAGICLINKS,
    };

    how.resolve |=
        links == WP_INSIDE_FOLLOW ? RESOLVE_IN_ROOT : RESOLVE_BENEATH;
    if (links == WP_INSIDE_NO_LINKS) {
        how.resolve |= RESOLVE_NO_SYMLINKS;
    }
    fd = (int)syscall(SYS_openat2, top, path, &how, sizeof how);
    return fd < 0 && (errno == ENOSYS || errno == EPERM) &&
                   links == WP_INSIDE_NO_LINKS
               ? walk_without_links(top, path)
               : fd;
}

bool
wp_inside_path(int fd, char *out, size_t cap)
{
    char link[32];
    ssize_t n;

    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    n = readlink(link, out, cap);
    if (n <= 0 || (size_t)n == cap || out[0] != '/') {
        return false;
    }
    out[n] = '\0';
    return true;
}

/* The directory `part` of `at`, made if need be; -1 with errno. */
static int
enter(int at, struct wp_str part, mode_t mode)
{
    char name[256];

    if (!wp_str_copy(part, name, sizeof name)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0) {
        errno = EINVAL;
        return -1;
    }
    /* Not as the umask has it. */
    if (mkdirat(at, name, mode) == 0 ? fchmodat(at, name, mode, 0) != 0
                                     : errno != EEXIST) {
        return -1;
    }
    return openat(at, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

bool
wp_inside_make(int top, const char *path, mode_t mode)
{
    int at = fcntl(top, F_DUPFD_CLOEXEC, 0);

    while (at >= 0) {
        struct wp_str part;
        int next;
        int saved;

        path += strspn(path, "/");
        part = (struct wp_str){path, strcspn(path, "/")};
        if (part.len == 0) {
            (void)close(at);
            return true;
        }
        next = enter(at, part, mode);
        saved = errno;
        (void)close(at);
        errno = saved;
        at = next;
        path += part.len;
    }
    return false;
}
