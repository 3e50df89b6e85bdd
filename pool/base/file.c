#include "pool/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

ssize_t
wp_path_read(const char *path, int open_flags, void *out, size_t cap,
             struct stat *st)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | open_flags);
    char *bytes = out;
    size_t len = 0;
    ssize_t n = 1;
    int saved;

    if (st != NULL) {
        st->st_mode = 0;
    }
    if (fd < 0) {
        return -1;
    }
    if (st != NULL && fstat(fd, st) != 0) {
        st->st_mode = 0;
        n = -1;
    }
    while (n > 0 && len < cap) {
        n = read(fd, bytes + len, cap - len);
        if (n >= 0) {
            len += (size_t)n;
        } else if (errno == EINTR) {
            n = 1;
        }
    }
    saved = errno;
    (void)close(fd);
    errno = saved;
    return n < 0 ? -1 : (ssize_t)len;
}

DIR *
wp_folder_open(int dir_fd, const char *name)
{
    int fd =
        openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *folder = fd >= 0 ? fdopendir(fd) : NULL;
    int saved = errno;

    if (folder == NULL && fd >= 0) {
        (void)close(fd);
        errno = saved;
    }
    return folder;
}

const struct dirent *
wp_folder_next(DIR *folder)
{
    const struct dirent *entry;

    do {
        errno = 0;
        entry = readdir(folder); /* NOLINT(concurrency-mt-unsafe) */
    } while (entry != NULL && (strcmp(entry->d_name, ".") == 0 ||
                               strcmp(entry->d_name, "..") == 0));
    return entry;
}

void
wp_folder_close(DIR *folder)
{
    int saved = errno;

    if (folder != NULL) {
        (void)closedir(folder);
    }
    errno = saved;
}

__attribute__((no_sanitize("address", "undefined", "thread"))) void
wp_file_open_streams(void)
{
    long fd;

    do {
        fd = syscall(SYS_openat, AT_FDCWD, "/dev/null", O_RDONLY | O_NOCTTY);
    } while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd > STDERR_FILENO) {
        (void)syscall(SYS_close, fd);
    }
}
