#include "proto/formats/http_listen.h"

#include <errno.h>
#include <netinet/in.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static const char *
unix_path(const struct wp_address *address)
{
    return ((const struct sockaddr_un *)(const void *)&address->sa)->sun_path;
}

/* Does a daemon answer there? Then its socket must not be taken away. */
static bool
is_answered(const struct wp_address *address)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool answered;

    if (fd < 0) {
        return true;
    }
    answered =
        connect(fd, (const struct sockaddr *)&address->sa, address->len) == 0 ||
        errno == EAGAIN;
    (void)close(fd);
    return answered;
}

static enum wp_status
clear_stale(const struct wp_address *address, struct wp_err *err)
{
    const char *path = unix_path(address);
    struct stat st;

    if (lstat(path, &st) != 0) {
        return WP_OK;
    }
    if (!S_ISSOCK(st.st_mode)) {
        return wp_err_set(err, WP_FAILED_PRECONDITION,
                          "'%s' is there and is not a socket", path);
    }
    if (is_answered(address)) {
        return wp_err_set(err, WP_ALREADY_EXISTS,
                          "another process answers on '%s'", path);
    }
    if (unlink(path) != 0 && errno != ENOENT) {
        return wp_err_sys(err, WP_FAILED_PRECONDITION, errno,
                          "the stale socket '%s' cannot be removed", path);
    }
    return WP_OK;
}

static enum wp_status
bind_there(int fd, struct wp_address *address, uint32_t unix_mode,
           struct wp_err *err)
{
    char text[128];
    int one = 1;
    int zero = 0;

    if (!address->is_unix) {
        (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    }
    if (address->sa.ss_family == AF_INET6) {
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof zero);
    }
    if (bind(fd, (const struct sockaddr *)&address->sa, address->len) != 0) {
        return wp_err_sys(err, WP_FAILED_PRECONDITION, errno,
                          "cannot listen on %s",
                          wp_address_format(address, text, sizeof text));
    }
    /* Before listen: nobody connects under the umask's mode. */
    if (address->is_unix && unix_mode != 0 &&
        chmod(unix_path(address), unix_mode) != 0) {
        return wp_err_sys(err, WP_FAILED_PRECONDITION, errno,
                          "mode of the socket '%s'", unix_path(address));
    }
    if (!address->is_unix) {
        address->len = sizeof address->sa;
        (void)getsockname(fd, (struct sockaddr *)&address->sa, &address->len);
    }
    return WP_OK;
}

int
wp_http_bind(struct wp_address *address, uint32_t unix_mode, struct wp_err *err)
{
    int fd;

    if (address->is_unix && clear_stale(address, err) != WP_OK) {
        return -1;
    }
    fd = socket(address->sa.ss_family,
                SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        (void)wp_err_sys(err, WP_RESOURCE_EXHAUSTED, errno, "no socket");
        return -1;
    }
    if (bind_there(fd, address, unix_mode, err) != WP_OK) {
        (void)close(fd);
        return -1;
    }
    return fd;
}
