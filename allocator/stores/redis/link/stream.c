#include "allocator/stores/redis/link/stream.h"

#include <errno.h>
#include <limits.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "pool/base/clock.h"

enum {
    /* A connection that is silent is asked whether it lives. */
    ALIVE_IDLE_S = 15,
    ALIVE_GAP_S = 5,
    ALIVE_TRIES = 3,
};

/* 0, or what went wrong. */
static int
finish_connect(int fd, int64_t timeout_ns)
{
    struct pollfd socket = {.fd = fd, .events = POLLOUT};
    int64_t ms = timeout_ns / WP_NS_PER_MS + 1;
    socklen_t len = sizeof(int);
    int failed = 0;
    int rc;

    do {
        rc = poll(&socket, 1, ms < INT_MAX ? (int)ms : INT_MAX);
    } while (rc < 0 && errno == EINTR);
    if (rc == 0) {
        return ETIMEDOUT;
    }
    if (rc < 0 || getsockopt(fd, SOL_SOCKET, SO_ERROR, &failed, &len) != 0) {
        return errno;
    }
    return failed;
}

/* The socket, or what went wrong, negative. */
static int
connect_to(const struct sockaddr *at, socklen_t len, int64_t timeout_ns)
{
    int fd =
        socket(at->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int failed = 0;

    if (fd < 0) {
        return -errno;
    }
    if (connect(fd, at, len) != 0) {
        failed = errno == EINPROGRESS ? finish_connect(fd, timeout_ns) : errno;
    }
    if (failed != 0) {
        (void)close(fd);
        return -failed;
    }
    return fd;
}

static int
connect_unix(const char *path, int64_t timeout_ns)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};

    _Static_assert(WP_REDIS_PATH_MAX < sizeof at.sun_path, "a path fits");
    (void)snprintf(at.sun_path, sizeof at.sun_path, "%s", path);
    return connect_to((const struct sockaddr *)&at, sizeof at, timeout_ns);
}

static void
tune(int fd)
{
    const int on = 1;
    const int idle_s = ALIVE_IDLE_S;
    const int gap_s = ALIVE_GAP_S;
    const int tries = ALIVE_TRIES;

    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &gap_s, sizeof gap_s);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &tries, sizeof tries);
}

/* The first of the host's addresses that takes it. */
static enum wp_status
connect_tcp(const struct wp_redis_server *server, int64_t timeout_ns, int *out,
            struct wp_err *err)
{
    const struct addrinfo wanted = {.ai_family = AF_UNSPEC,
                                    .ai_socktype = SOCK_STREAM};
    struct addrinfo *list = NULL;
    char port[8];
    int rc;

    (void)snprintf(port, sizeof port, "%u", server->port);
    rc = getaddrinfo(server->host, port, &wanted, &list);
    if (rc != 0) {
        return wp_err_set(err, WP_UNAVAILABLE, "%s", gai_strerror(rc));
    }
    rc = -EADDRNOTAVAIL;
    for (const struct addrinfo *at = list; at != NULL && rc < 0;
         at = at->ai_next) {
        rc = connect_to(at->ai_addr, at->ai_addrlen, timeout_ns);
    }
    freeaddrinfo(list);
    *out = rc;
    return WP_OK;
}

enum wp_status
wp_redis_stream_open(const struct wp_redis_server *server,
                     const struct wp_redis_tls *tls, int64_t timeout_ns,
                     struct wp_redis_stream *out, struct wp_err *err)
{
    bool is_unix = server->path[0] != '\0';
    enum wp_status status = WP_OK;
    int fd = -1;

    *out = (struct wp_redis_stream){.fd = -1};
    if (is_unix) {
        fd = connect_unix(server->path, timeout_ns);
    } else if (connect_tcp(server, timeout_ns, &fd, err) != WP_OK) {
        return WP_UNAVAILABLE;
    }
    if (fd < 0) {
        return fd == -ETIMEDOUT
                   ? wp_err_set(err, WP_UNAVAILABLE, "no answer in time")
                   : wp_err_sys(err, WP_UNAVAILABLE, -fd, "connect");
    }
    if (!is_unix) {
        tune(fd);
        if (tls != NULL) {
            status = wp_redis_session_open(tls, server->host, fd, timeout_ns,
                                           &out->session, err);
        }
    }
    if (status != WP_OK) {
        (void)close(fd);
        return status;
    }
    out->fd = fd;
    return WP_OK;
}

void
wp_redis_stream_close(struct wp_redis_stream *stream)
{
    wp_redis_session_close(stream->session);
    if (stream->fd >= 0) {
        (void)close(stream->fd);
    }
    *stream = (struct wp_redis_stream){.fd = -1};
}

static bool
is_again(int failed)
{
    return failed == EAGAIN || failed == EWOULDBLOCK;
}

ssize_t
wp_redis_stream_send(const struct wp_redis_stream *stream, const char *bytes,
                     size_t len)
{
    ssize_t n;

    if (stream->session != NULL) {
        return wp_redis_session_send(stream->session, bytes, len);
    }
    do {
        n = send(stream->fd, bytes, len, MSG_DONTWAIT | MSG_NOSIGNAL);
    } while (n < 0 && errno == EINTR);
    if (n < 0) {
        return is_again(errno) ? WP_REDIS_AGAIN : WP_REDIS_OVER;
    }
    return n;
}

ssize_t
wp_redis_stream_receive(const struct wp_redis_stream *stream, char *bytes,
                        size_t cap, const char **why)
{
    ssize_t n;

    if (stream->session != NULL) {
        return wp_redis_session_receive(stream->session, bytes, cap, why);
    }
    do {
        n = recv(stream->fd, bytes, cap, MSG_DONTWAIT);
    } while (n < 0 && errno == EINTR);
    if (n > 0) {
        return n;
    }
    if (n < 0 && is_again(errno)) {
        return WP_REDIS_AGAIN;
    }
    *why = n == 0 ? "closed by the other side" : "reading failed";
    return WP_REDIS_OVER;
}
