#include "local/init/bridge.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "proto/sockets/accept.h"

enum {
    BUFFER_BYTES = 16 << 10,
    OUTER = 0, /* The Unix socket. */
    INNER = 1, /* The loopback connection. */
};

/* One end and the bytes read from it that the other end has not taken. */
struct half {
    struct wp_watch watch;
    struct wp_bridge_conn *conn;
    int fd;
    uint32_t interest; /* What epoll was last asked for. */
    uint32_t begin;
    uint32_t end;
    bool eof;  /* Nothing more will be read from fd. */
    bool shut; /* The other end was told so. */
    bool hung; /* Both directions are shut: out of epoll, read to the end. */
    char buf[BUFFER_BYTES];
};

struct wp_bridge_conn {
    struct wp_bridge *bridge;
    struct wp_bridge_conn *next;
    struct wp_bridge_conn *prev;
    bool dead;
    bool connecting;
    bool tried_v6;
    struct half half[2];
};

static void on_half(struct wp_watch *watch, uint32_t events);

static void
close_fd(int fd)
{
    if (fd >= 0) {
        (void)close(fd);
    }
}

static void
set_accepting(struct wp_bridge *bridge, bool accepting)
{
    struct epoll_event event = {.data.ptr = &bridge->listen_watch};

    accepting &= !bridge->closed;
    event.events = accepting ? EPOLLIN : 0;
    if (bridge->accepting != accepting) {
        bridge->accepting = accepting;
        (void)epoll_ctl(bridge->epoll_fd, EPOLL_CTL_MOD, bridge->listen_fd,
                        &event);
    }
}

static void
conn_end(struct wp_bridge_conn *conn)
{
    struct wp_bridge *bridge = conn->bridge;

    if (conn->dead) {
        return;
    }
    conn->dead = true;
    close_fd(conn->half[OUTER].fd);
    close_fd(conn->half[INNER].fd);
    if (conn->prev != NULL) {
        conn->prev->next = conn->next;
    } else {
        bridge->all = conn->next;
    }
    if (conn->next != NULL) {
        conn->next->prev = conn->prev;
    }
    conn->next = bridge->dead;
    bridge->dead = conn;
    bridge->conns--;
    (void)clock_gettime(CLOCK_MONOTONIC, &bridge->ended_at);
    set_accepting(bridge, true);
}

/* Asks epoll for what can make progress: reading where the buffer is empty,
 * writing where the other side's bytes wait. */
static bool
half_arm(struct half *half, uint32_t interest)
{
    struct epoll_event event = {.events = interest, .data.ptr = &half->watch};

    if (half->interest == interest || half->hung) {
        return true;
    }
    half->interest = interest;
    return epoll_ctl(half->conn->bridge->epoll_fd, EPOLL_CTL_MOD, half->fd,
                     &event) == 0;
}

static bool
conn_arm(struct wp_bridge_conn *conn)
{
    if (conn->connecting) {
        return half_arm(&conn->half[INNER], EPOLLOUT) &&
               half_arm(&conn->half[OUTER], 0);
    }
    for (int side = 0; side < 2; side++) {
        struct half *here = &conn->half[side];
        struct half *other = &conn->half[1 - side];
        uint32_t interest = 0;

        if (!here->eof && here->begin == here->end) {
            interest |= EPOLLIN;
        }
        if (other->begin != other->end) {
            interest |= EPOLLOUT;
        }
        if (!half_arm(here, interest)) {
            return false;
        }
    }
    return true;
}

static bool
would_block(void)
{
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

/* This direction is over: nothing more can be read, or nothing be delivered. */
static void
half_finish(struct half *from, struct half *to)
{
    from->eof = true;
    from->begin = from->end = 0;
    if (!from->shut) {
        from->shut = true;
        (void)shutdown(to->fd, SHUT_WR);
    }
}

/* Sends what waits; false when some must wait on. */
static bool
half_flush(struct half *from, struct half *to)
{
    while (from->begin != from->end) {
        ssize_t n = send(to->fd, from->buf + from->begin,
                         from->end - from->begin, MSG_NOSIGNAL);

        if (n < 0) {
            if (!would_block()) {
                half_finish(from, to);
            }
            return false;
        }
        from->begin += (uint32_t)n;
    }
    from->begin = from->end = 0;
    return true;
}

/* Moves what it can from one end to the other. A failure ends this direction
 * only: a server that answers and resets has its answer delivered. */
static void
half_pump(struct half *from, struct half *to)
{
    while (!from->shut && half_flush(from, to)) {
        ssize_t n = 0;

        if (!from->eof) {
            n = recv(from->fd, from->buf, sizeof from->buf, 0);
            if (n < 0 && would_block()) {
                return;
            }
        }
        if (n <= 0) {
            half_finish(from, to);
            return;
        }
        from->end = (uint32_t)n;
        if (n == (ssize_t)sizeof from->buf && !from->hung) {
            /* More may come: let other connections have their turn. */
            (void)half_flush(from, to);
            return;
        }
    }
}

static void
conn_pump(struct wp_bridge_conn *conn)
{
    struct half *outer = &conn->half[OUTER];
    struct half *inner = &conn->half[INNER];

    half_pump(inner, outer);
    half_pump(outer, inner);
    if ((outer->shut && inner->shut) || !conn_arm(conn)) {
        conn_end(conn);
    }
}

/* Starts connecting to the port; false when that failed at once. */
static bool
conn_connect(struct wp_bridge_conn *conn, int family)
{
    struct sockaddr_in v4 = {
        .sin_family = AF_INET,
        .sin_port = htons(conn->bridge->port),
        .sin_addr = {htonl(INADDR_LOOPBACK)},
    };
    struct sockaddr_in6 v6 = {
        .sin6_family = AF_INET6,
        .sin6_port = htons(conn->bridge->port),
        .sin6_addr = IN6ADDR_LOOPBACK_INIT,
    };
    const void *address = family == AF_INET ? (const void *)&v4 : &v6;
    socklen_t len = family == AF_INET ? sizeof v4 : sizeof v6;
    struct half *inner = &conn->half[INNER];
    struct epoll_event event = {.events = EPOLLOUT, .data.ptr = &inner->watch};
    int one = 1;

    inner->fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (inner->fd < 0) {
        return false;
    }
    (void)setsockopt(inner->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    inner->interest = EPOLLOUT;
    if ((connect(inner->fd, address, len) != 0 && errno != EINPROGRESS) ||
        epoll_ctl(conn->bridge->epoll_fd, EPOLL_CTL_ADD, inner->fd, &event) !=
            0) {
        (void)close(inner->fd);
        inner->fd = -1;
        return false;
    }
    conn->connecting = true;
    return true;
}

/* A program that listens on "localhost" may have only the IPv6 address. */
static bool
conn_connect_v6(struct wp_bridge_conn *conn)
{
    conn->tried_v6 = true;
    return conn_connect(conn, AF_INET6);
}

static void
conn_connected(struct wp_bridge_conn *conn)
{
    struct half *inner = &conn->half[INNER];
    int error = 0;
    socklen_t len = sizeof error;

    if (getsockopt(inner->fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0 ||
        error != 0) {
        (void)close(inner->fd);
        inner->fd = -1;
        if (conn->tried_v6 || !conn_connect_v6(conn)) {
            conn_end(conn);
        }
        return;
    }
    conn->connecting = false;
    conn_pump(conn);
}

static void
on_half(struct wp_watch *watch, uint32_t events)
{
    struct half *half = WP_CONTAINER_OF(watch, struct half, watch);
    struct wp_bridge_conn *conn = half->conn;

    if (conn->dead) {
        return;
    }
    if (conn->connecting) {
        if (half == &conn->half[INNER]) {
            conn_connected(conn);
        } else if ((events & (EPOLLHUP | EPOLLERR)) != 0) {
            conn_end(conn); /* The client left before we were through. */
        }
        return;
    }
    if ((events & (EPOLLHUP | EPOLLERR)) != 0 && !half->hung) {
        /* Reported for as long as it is watched, so it would spin while the
         * other side is slow to take what was read. */
        half->hung = true;
        (void)epoll_ctl(conn->bridge->epoll_fd, EPOLL_CTL_DEL, half->fd, NULL);
    }
    conn_pump(conn);
}

static bool
conn_start(struct wp_bridge *bridge, int fd)
{
    struct wp_bridge_conn *conn = calloc(1, sizeof *conn);
    struct epoll_event event = {.events = 0};

    if (conn == NULL) {
        return false;
    }
    conn->bridge = bridge;
    for (int side = 0; side < 2; side++) {
        conn->half[side].watch.on_events = on_half;
        conn->half[side].conn = conn;
        conn->half[side].fd = -1;
    }
    event.data.ptr = &conn->half[OUTER].watch;
    if (epoll_ctl(bridge->epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0 ||
        (!conn_connect(conn, AF_INET) && !conn_connect_v6(conn))) {
        free(conn);
        return false;
    }
    conn->half[OUTER].fd = fd;
    conn->next = bridge->all;
    if (bridge->all != NULL) {
        bridge->all->prev = conn;
    }
    bridge->all = conn;
    bridge->conns++;
    return true;
}

static void
pause_accepting(struct wp_bridge *bridge)
{
    const struct itimerspec in = {
        .it_value = {.tv_nsec = WP_ACCEPT_PAUSE_MS * 1000000L}};

    set_accepting(bridge, false);
    (void)timerfd_settime(bridge->pause_fd, 0, &in, NULL);
}

static void
on_pause_over(struct wp_watch *watch, uint32_t events)
{
    struct wp_bridge *bridge =
        WP_CONTAINER_OF(watch, struct wp_bridge, pause_watch);
    uint64_t times;

    (void)events;
    if (read(bridge->pause_fd, &times, sizeof times) > 0) {
        set_accepting(bridge, true);
    }
}

static void
on_listen(struct wp_watch *watch, uint32_t events)
{
    struct wp_bridge *bridge =
        WP_CONTAINER_OF(watch, struct wp_bridge, listen_watch);

    (void)events;
    /* Closed by an earlier event of this batch: what is taken in now would be
     * frozen half way. */
    for (int i = 0; i < WP_ACCEPTS_PER_TURN && !bridge->closed; i++) {
        int fd;

        if (bridge->conns >= bridge->conns_max) {
            set_accepting(bridge, false);
            return;
        }
        switch (wp_accept_next(bridge->listen_fd, &fd, NULL)) {
        case WP_ACCEPT_EXHAUSTED:
            pause_accepting(bridge);
            return;
        case WP_ACCEPT_NONE:
            return;
        case WP_ACCEPT_TAKEN:
        default:
            break;
        }
        if (!conn_start(bridge, fd)) {
            (void)close(fd);
        }
    }
}

bool
wp_bridge_init(struct wp_bridge *bridge, int epoll_fd, int listen_fd,
               uint16_t port, uint32_t conns_max)
{
    struct epoll_event event = {.events = EPOLLIN};
    struct epoll_event pause = {.events = EPOLLIN};
    int flags = fcntl(listen_fd, F_GETFL);

    *bridge = (struct wp_bridge){
        .listen_watch = {on_listen},
        .pause_watch = {on_pause_over},
        .pause_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC),
        .epoll_fd = epoll_fd,
        .listen_fd = listen_fd,
        .port = port,
        .conns_max = conns_max,
        .accepting = true,
    };
    event.data.ptr = &bridge->listen_watch;
    pause.data.ptr = &bridge->pause_watch;
    return flags >= 0 && bridge->pause_fd >= 0 &&
           epoll_ctl(epoll_fd, EPOLL_CTL_ADD, bridge->pause_fd, &pause) == 0 &&
           fcntl(listen_fd, F_SETFL, flags | O_NONBLOCK) == 0 &&
           epoll_ctl(epoll_fd, EPOLL_CTL_ADD, listen_fd, &event) == 0;
}

void
wp_bridge_close(struct wp_bridge *bridge)
{
    bridge->closed = true;
    set_accepting(bridge, false);
}

void
wp_bridge_open(struct wp_bridge *bridge)
{
    bridge->closed = false;
    set_accepting(bridge, bridge->conns < bridge->conns_max);
}

void
wp_bridge_reap(struct wp_bridge *bridge)
{
    while (bridge->dead != NULL) {
        struct wp_bridge_conn *conn = bridge->dead;

        bridge->dead = conn->next;
        free(conn);
    }
}

void
wp_bridge_fini(struct wp_bridge *bridge)
{
    while (bridge->all != NULL) {
        conn_end(bridge->all);
    }
    wp_bridge_reap(bridge);
    close_fd(bridge->pause_fd);
    (void)epoll_ctl(bridge->epoll_fd, EPOLL_CTL_DEL, bridge->listen_fd, NULL);
}
