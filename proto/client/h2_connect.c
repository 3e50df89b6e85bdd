#include <errno.h>
#include <string.h>

#include <netdb.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/client/h2_parts.h"
#include "pool/base/address.h"
#include "pool/base/str.h"

/* A peer that does not answer keeps nobody longer than this. */
static void
bound_connect(int fd)
{
    struct timeval limit = {1, 0};

    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
}

static int
connect_to(const struct sockaddr *addr, socklen_t len)
{
    int fd = socket(addr->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int one = 1;

    if (fd < 0) {
        return -1;
    }
    bound_connect(fd);
    if (connect(fd, addr, len) != 0) {
        int saved = errno;

        close(fd);
        errno = saved;
        return -1;
    }
    if (addr->sa_family != AF_UNIX) {
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    }
    return fd;
}

/* A host that is a name; numbers need no resolver. */
static int
connect_name(const char *target, struct wp_err *err)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    const char *colon = strrchr(target, ':');
    struct addrinfo *list = NULL;
    char host[256];
    int fd = -1;
    int failed;

    if (colon == NULL ||
        !wp_str_copy((struct wp_str){target, (size_t)(colon - target)}, host,
                     sizeof(host))) {
        (void)wp_err_set(err, WP_INVALID_ARGUMENT,
                         "address '%.100s': expected HOST:PORT or unix:/PATH",
                         target);
        return -1;
    }
    failed = getaddrinfo(host, colon + 1, &hints, &list);
    if (failed != 0) {
        (void)wp_err_set(err, WP_UNAVAILABLE, "%.100s: %s", target,
                         gai_strerror(failed));
        return -1;
    }
    for (struct addrinfo *a = list; a != NULL && fd < 0; a = a->ai_next) {
        fd = connect_to(a->ai_addr, a->ai_addrlen);
    }
    if (fd < 0) {
        (void)wp_err_sys(err, WP_UNAVAILABLE, errno, "cannot reach %.100s",
                         target);
    }
    freeaddrinfo(list);
    return fd;
}

int
wp_h2_connect_target(const char *target, struct wp_err *err)
{
    struct wp_address address;
    int fd;

    if (wp_address_parse(wp_str_from(target), &address, err) != WP_OK) {
        return strncmp(target, "unix:", 5) == 0 ? -1
                                                : connect_name(target, err);
    }
    fd = connect_to((struct sockaddr *)&address.sa, address.len);
    if (fd < 0) {
        (void)wp_err_sys(err, WP_UNAVAILABLE, errno, "cannot reach %.100s",
                         target);
    }
    return fd;
}
