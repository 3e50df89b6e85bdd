#include "runtime/http/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "pool/base/str.h"
#include "pool/base/os_error.h"

union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    struct sockaddr_un path;
};

/* Fills out; 0 when text is no address. */
static socklen_t
address_parse(const char *text, int32_t port, union address *out)
{
    memset(out, 0, sizeof(*out));
    if (inet_pton(AF_INET, text, &out->v4.sin_addr) == 1) {
        out->v4.sin_family = AF_INET;
        out->v4.sin_port = htons((uint16_t)port);
        return sizeof(out->v4);
    }
    if (inet_pton(AF_INET6, text, &out->v6.sin6_addr) == 1) {
        out->v6.sin6_family = AF_INET6;
        out->v6.sin6_port = htons((uint16_t)port);
        return sizeof(out->v6);
    }
    return 0;
}

/* A descriptor, or -1 with errno. */
static int
bind_stream(const union address *address, socklen_t len)
{
    int one = 1;
    int zero = 0;
    int fd = socket(address->any.sa_family,
                    SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0) {
        return -1;
    }
    if (address->any.sa_family != AF_UNIX) {
        (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    }
    if (address->any.sa_family == AF_INET6) {
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof(zero));
    }
    if (bind(fd, &address->any, len) != 0) {
        int os_errno = errno;

        close(fd);
        errno = os_errno;
        return -1;
    }
    return fd;
}

enum wp_status
wp_listen_tcp(const char *address, int32_t *port, int *fd, struct wp_err *err)
{
    union address bound;
    socklen_t len =
        address_parse(address != NULL ? address : "::", *port, &bound);

    if (len == 0) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "--bind: '%s' is no IP address", address);
    }
    *fd = bind_stream(&bound, len);
    if (*fd < 0 && address == NULL) { /* No IPv6 here. */
        len = address_parse("0.0.0.0", *port, &bound);
        *fd = bind_stream(&bound, len);
    }
    if (*fd < 0) {
        return wp_err_set(err, WP_FAILED_PRECONDITION,
                          "cannot listen on port %d: %s", (int)*port,
                          wp_os_error(errno));
    }
    len = sizeof(bound);
    if (getsockname(*fd, &bound.any, &len) == 0) {
        *port = ntohs(bound.any.sa_family == AF_INET6 ? bound.v6.sin6_port
                                                      : bound.v4.sin_port);
    }
    return WP_OK;
}

/* Whether somebody accepts on the socket at address. */
static bool
is_served(const union address *address, socklen_t len)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool served = fd < 0 || connect(fd, &address->any, len) == 0;

    if (fd >= 0) {
        close(fd);
    }
    return served;
}

enum wp_status
wp_listen_unix(const char *path, int *fd, struct wp_err *err)
{
    union address address;
    socklen_t len = sizeof(address.path);

    memset(&address, 0, sizeof(address));
    address.path.sun_family = AF_UNIX;
    if (!wp_str_copy(wp_str_from(path), address.path.sun_path,
                     sizeof(address.path.sun_path))) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "--unix: a path of at most %zu bytes is expected",
                          sizeof(address.path.sun_path) - 1);
    }
    *fd = bind_stream(&address, len);
    if (*fd < 0 && errno == EADDRINUSE && !is_served(&address, len)) {
        (void)unlink(path);
        *fd = bind_stream(&address, len);
    }
    if (*fd < 0) {
        return wp_err_set(err, WP_FAILED_PRECONDITION,
                          "cannot listen on %s: %s", path, wp_os_error(errno));
    }
    return WP_OK;
}
