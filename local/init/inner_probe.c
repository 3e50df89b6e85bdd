#include "local/init/inner_probe.h"

#include <errno.h>
#include <netinet/in.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "pool/base/compiler.h"

static void
finish(struct wp_inner_probe *probe, bool answered)
{
    if (probe->fd >= 0) {
        (void)close(probe->fd);
        probe->fd = -1;
    }
    if (!answered) {
        probe->v6 = !probe->v6;
    }
    probe->done(probe, answered);
}

static void
send_request(struct wp_inner_probe *probe)
{
    char request[WP_HTTP_PROBE_MAX];
    size_t len = wp_http_probe_request(probe->path, request, sizeof request);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = &probe->watch};

    /* A fresh connection takes this many bytes whole. */
    if (len == 0 ||
        send(probe->fd, request, len, MSG_NOSIGNAL) != (ssize_t)len ||
        epoll_ctl(probe->epoll_fd, EPOLL_CTL_MOD, probe->fd, &event) != 0) {
        finish(probe, false);
        return;
    }
    probe->sent = true;
}

static void
read_reply(struct wp_inner_probe *probe)
{
    ssize_t n = recv(probe->fd, probe->reply + probe->reply_len,
                     sizeof probe->reply - probe->reply_len, 0);
    int status;

    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    if (n <= 0) {
        finish(probe, false);
        return;
    }
    probe->reply_len += (uint32_t)n;
    status = wp_http_probe_status(probe->reply, probe->reply_len);
    if (status != 0) {
        finish(probe, wp_http_probe_healthy(status));
    }
}

static void
on_probe(struct wp_watch *watch, uint32_t events)
{
    struct wp_inner_probe *probe =
        WP_CONTAINER_OF(watch, struct wp_inner_probe, watch);
    int error = 0;
    socklen_t len = sizeof error;

    (void)events;
    if (probe->fd < 0) {
        return;
    }
    if (probe->sent) {
        read_reply(probe);
    } else if (getsockopt(probe->fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0 ||
               error != 0) {
        finish(probe, false);
    } else if (probe->path == NULL) {
        finish(probe, true);
    } else {
        send_request(probe);
    }
}

void
wp_inner_probe_init(struct wp_inner_probe *probe, int epoll_fd, uint16_t port,
                    const char *path)
{
    *probe = (struct wp_inner_probe){
        .watch = {on_probe},
        .epoll_fd = epoll_fd,
        .fd = -1,
        .port = port,
        .path = path,
    };
}

void
wp_inner_probe_start(struct wp_inner_probe *probe)
{
    struct sockaddr_in v4 = {
        .sin_family = AF_INET,
        .sin_port = htons(probe->port),
        .sin_addr = {htonl(INADDR_LOOPBACK)},
    };
    struct sockaddr_in6 v6 = {
        .sin6_family = AF_INET6,
        .sin6_port = htons(probe->port),
        .sin6_addr = IN6ADDR_LOOPBACK_INIT,
    };
    const void *address = probe->v6 ? (const void *)&v6 : &v4;
    socklen_t len = probe->v6 ? sizeof v6 : sizeof v4;
    struct epoll_event event = {.events = EPOLLOUT, .data.ptr = &probe->watch};

    probe->sent = false;
    probe->reply_len = 0;
    probe->fd = socket(probe->v6 ? AF_INET6 : AF_INET,
                       SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (probe->fd < 0 ||
        (connect(probe->fd, address, len) != 0 && errno != EINPROGRESS) ||
        epoll_ctl(probe->epoll_fd, EPOLL_CTL_ADD, probe->fd, &event) != 0) {
        finish(probe, false);
    }
}

void
wp_inner_probe_give_up(struct wp_inner_probe *probe)
{
    if (probe->fd >= 0) {
        finish(probe, false);
    }
}
