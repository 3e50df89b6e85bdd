#include "runtime/files/incoming.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

void
wp_incoming_init(struct wp_incoming *incoming)
{
    *incoming = (struct wp_incoming){.dir = -1, .fd = -1};
}

int
wp_incoming_open(struct wp_incoming *incoming,
                 const struct wp_workspace *workspace)
{
    static unsigned counter;
    struct stat st;
    int rc =
        wp_workspace_open_parent(workspace, incoming->path, incoming->name);

    if (rc < 0) {
        return -rc;
    }
    incoming->dir = rc;
    if (fstatat(incoming->dir, incoming->name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
        S_ISDIR(st.st_mode)) {
        return EISDIR;
    }
    (void)snprintf(incoming->temp, sizeof(incoming->temp),
                   ".warmpool-upload-%d-%u", (int)getpid(), counter++);
    incoming->fd =
        openat(incoming->dir, incoming->temp,
               O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (incoming->fd < 0) {
        rc = errno;
        incoming->temp[0] = '\0';
        return rc;
    }
    return 0;
}

int
wp_incoming_write(struct wp_incoming *incoming, const char *data, size_t len)
{
    while (len > 0) {
        ssize_t put = write(incoming->fd, data, len);

        if (put < 0 && errno == EINTR) {
            continue;
        }
        if (put < 0) {
            return errno;
        }
        data += put;
        len -= (size_t)put;
        incoming->written += (uint64_t)put;
    }
    return 0;
}

int
wp_incoming_commit(struct wp_incoming *incoming)
{
    int rc = close(incoming->fd); /* Some file systems tell only now. */

    incoming->fd = -1;
    if (rc == 0) {
        rc = renameat(incoming->dir, incoming->temp, incoming->dir,
                      incoming->name);
    }
    if (rc != 0) {
        return errno;
    }
    incoming->temp[0] = '\0';
    return 0;
}

void
wp_incoming_discard(struct wp_incoming *incoming)
{
    if (incoming->fd >= 0) {
        close(incoming->fd);
        incoming->fd = -1;
    }
    if (incoming->dir >= 0) {
        if (incoming->temp[0] != '\0') {
            unlinkat(incoming->dir, incoming->temp, 0);
        }
        close(incoming->dir);
        incoming->dir = -1;
    }
}
