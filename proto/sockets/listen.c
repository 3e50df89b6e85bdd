#include "proto/sockets/listen.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <netinet/in.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum {
    BACKLOG = 1024, /* The kernel's own bound is lower on most machines. */
};

static const char *
path_of(const struct wp_address *address)
{
    return ((const struct sockaddr_un *)&address->sa)->sun_path;
}

static enum wp_status
make_directory(const char *path, struct wp_err *err)
{
    char dir[108];
    char *slash;

    (void)snprintf(dir, sizeof(dir), "%s", path);
    slash = strrchr(dir, '/');
    if (slash == dir) {
        return WP_OK;
    }
    *slash = '\0';
    if (mkdir(dir, 0700) != 0 && errno != EEXIST) {
        return wp_err_sys(err, WP_UNAVAILABLE, errno,
                          "listen address unix:%s: making directory %s", path,
                          dir);
    }
    return WP_OK;
}

/* Makes way for a new socket at the address when what is there is dead. */
static enum wp_status
remove_stale(const struct wp_address *address, struct wp_err *err)
{
    struct stat st;
    int fd;
    int error;

    if (lstat(path_of(address), &st) != 0) {
        return WP_OK; /* Nothing there, or bind will say what is wrong. */
    }
    if (!S_ISSOCK(st.st_mode)) {
        return wp_err_set(err, WP_FAILED_PRECONDITION,
                          "listen address unix:%s: the path exists and is not "
                          "a socket",
                          path_of(address));
    }
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return wp_err_sys(err, WP_UNAVAILABLE, errno, "socket");
    }
    error =
        connect(fd, (const struct sockaddr *)&address->sa, address->len) == 0
            ? 0
            : errno;
    (void)close(fd);
    /* Only a refusal says that no process listens; EAGAIN is a full backlog. */
    if (error != ECONNREFUSED) {
        return wp_err_set(err, WP_FAILED_PRECONDITION,
                          "listen address unix:%s: another process listens "
                          "there",
                          path_of(address));
    }
    if (unlink(path_of(address)) != 0 && errno != ENOENT) {
        return wp_err_sys(err, WP_UNAVAILABLE, errno,
                          "listen address unix:%s: removing the dead socket",
                          path_of(address));
    }
    return WP_OK;
}

static enum wp_status
bind_unix(struct wp_listener *listener, uint32_t mode, struct wp_err *err)
{
    const struct wp_address *address = &listener->address;
    struct stat st;

    /* The mode before bind, so that there is no moment with a wider one; chmod
     * after, because bind applies the umask. */
    if ((mode != 0 && fchmod(listener->fd, (mode_t)mode) != 0) ||
        bind(listener->fd, (const struct sockaddr *)&address->sa,
             address->len) != 0) {
        return wp_err_sys(err, WP_UNAVAILABLE, errno, "listen address unix:%s",
                          path_of(address));
    }
    if ((mode != 0 && chmod(path_of(address), (mode_t)mode) != 0) ||
        lstat(path_of(address), &st) != 0) {
        (void)wp_err_sys(err, WP_UNAVAILABLE, errno, "listen address unix:%s",
                         path_of(address));
        (void)unlink(path_of(address));
        return WP_UNAVAILABLE;
    }
    listener->dev = st.st_dev;
    listener->ino = st.st_ino;
    return WP_OK;
}

static enum wp_status
bind_tcp(struct wp_listener *listener, struct wp_err *err)
{
    struct wp_address *address = &listener->address;
    char text[128];
    int one = 1;
    int zero = 0;

    (void)wp_address_format(address, text, sizeof(text));
    if (address->sa.ss_family == AF_INET6) {
        (void)setsockopt(listener->fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero,
                         sizeof(zero));
    }
    /* SO_REUSEADDR only: with SO_REUSEPORT a second daemon would share the
     * port in silence. */
    if (setsockopt(listener->fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) !=
            0 ||
        bind(listener->fd, (const struct sockaddr *)&address->sa,
             address->len) != 0) {
        return wp_err_sys(err, WP_UNAVAILABLE, errno, "listen address %s",
                          text);
    }
    address->len = sizeof(address->sa);
    if (getsockname(listener->fd, (struct sockaddr *)&address->sa,
                    &address->len) != 0) {
        return wp_err_sys(err, WP_UNAVAILABLE, errno, "listen address %s",
                          text);
    }
    return WP_OK;
}

enum wp_status
wp_listener_open(struct wp_listener *listener, const struct wp_address *address,
                 uint32_t unix_mode, struct wp_err *err)
{
    enum wp_status status = WP_OK;

    memset(listener, 0, sizeof(*listener));
    listener->address = *address;
    if (address->is_unix) {
        listener->fd = -1;
        status = make_directory(path_of(address), err);
        if (status == WP_OK) {
            status = remove_stale(address, err);
        }
        if (status != WP_OK) {
            return status;
        }
    }
    listener->fd = socket(address->sa.ss_family,
                          SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (listener->fd < 0) {
        return wp_err_sys(err, WP_UNAVAILABLE, errno, "socket");
    }
    status = address->is_unix ? bind_unix(listener, unix_mode, err)
                              : bind_tcp(listener, err);
    if (status == WP_OK && listen(listener->fd, BACKLOG) != 0) {
        status = wp_err_sys(err, WP_UNAVAILABLE, errno, "listen");
    }
    if (status != WP_OK) {
        wp_listener_close(listener);
    }
    return status;
}

void
wp_listener_close(struct wp_listener *listener)
{
    struct stat st;

    if (listener->address.is_unix && listener->ino != 0 &&
        lstat(path_of(&listener->address), &st) == 0 &&
        st.st_dev == listener->dev && st.st_ino == listener->ino) {
        (void)unlink(path_of(&listener->address));
    }
    if (listener->fd >= 0) {
        (void)close(listener->fd);
    }
    listener->fd = -1;
    listener->ino = 0;
}
