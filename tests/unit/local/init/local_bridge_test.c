/* tests/unit/local/init/local_bridge_test.c - bytes through the bridge, and every way in
 * which a connection can end. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "local/init/bridge.h"
#include "local/http_probe.h"
#include "proto/sockets/accept.h"

enum {
    BIG = 3 << 20,
    PATIENCE_MS = 60000,
};

/* A bridge that runs in a thread of its own between a Unix socket and a loopback
 * listener that the test holds. */
struct rig {
    int inner_listen;
    int outer_listen;
    int epoll_fd;
    struct wp_watch stop_watch;
    int stop_fd;
    bool stopped;
    _Atomic(uint32_t) turns; /* Of the loop. */
    struct sockaddr_un address;
    struct wp_bridge bridge;
    pthread_t thread;
};

static void
on_stop(struct wp_watch *watch, uint32_t events)
{
    struct rig *rig = WP_CONTAINER_OF(watch, struct rig, stop_watch);

    (void)events;
    rig->stopped = true;
}

/* What has happened, or what happens next. */
static void
take_turn(struct rig *rig)
{
    struct epoll_event events[16];
    int n = epoll_wait(rig->epoll_fd, events, 16, -1);

    rig->turns++;
    for (int i = 0; i < n; i++) {
        struct wp_watch *watch = events[i].data.ptr;

        watch->on_events(watch, events[i].events);
    }
    wp_bridge_reap(&rig->bridge);
}

static void *
run(void *arg)
{
    struct rig *rig = arg;

    while (!rig->stopped) {
        take_turn(rig);
    }
    return NULL;
}

/* A port of 127.0.0.1 that is the test's; nobody listens there yet. */
static int
take_port(struct sockaddr_in *v4)
{
    socklen_t len = sizeof *v4;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    *v4 = (struct sockaddr_in){.sin_family = AF_INET,
                               .sin_addr = {htonl(INADDR_LOOPBACK)}};
    assert_int_equal(bind(fd, (struct sockaddr *)v4, sizeof *v4), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)v4, &len), 0);
    return fd;
}

/* The bridge leads to that port; nobody runs its loop yet. */
static void
rig_open(struct rig *rig, uint32_t conns_max, in_port_t port)
{
    struct epoll_event event = {.events = EPOLLIN};

    rig->outer_listen = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    rig->address.sun_family = AF_UNIX;
    /* An abstract name, chosen by the kernel. */
    assert_int_equal(bind(rig->outer_listen, (struct sockaddr *)&rig->address,
                          sizeof(sa_family_t)),
                     0);
    assert_int_equal(listen(rig->outer_listen, 2 * WP_ACCEPTS_PER_TURN), 0);
    rig->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    rig->stop_fd = eventfd(0, EFD_CLOEXEC);
    rig->stop_watch.on_events = on_stop;
    event.data.ptr = &rig->stop_watch;
    assert_int_equal(
        epoll_ctl(rig->epoll_fd, EPOLL_CTL_ADD, rig->stop_fd, &event), 0);
    assert_true(wp_bridge_init(&rig->bridge, rig->epoll_fd, rig->outer_listen,
                               ntohs(port), conns_max));
}

static void
rig_run(struct rig *rig)
{
    assert_int_equal(pthread_create(&rig->thread, NULL, run, rig), 0);
}

static void
rig_start(struct rig *rig, uint32_t conns_max, bool listening)
{
    struct sockaddr_in v4;

    memset((void *)rig, 0, sizeof *rig);
    rig->inner_listen = take_port(&v4);
    if (listening) {
        assert_int_equal(listen(rig->inner_listen, 64), 0);
    }
    rig_open(rig, conns_max, v4.sin_port);
    rig_run(rig);
}

static void
rig_stop(struct rig *rig)
{
    uint64_t one = 1;

    assert_int_equal(write(rig->stop_fd, &one, sizeof one), sizeof one);
    assert_int_equal(pthread_join(rig->thread, NULL), 0);
    wp_bridge_fini(&rig->bridge);
    assert_int_equal(rig->bridge.conns, 0);
    (void)close(rig->stop_fd);
    (void)close(rig->epoll_fd);
    (void)close(rig->outer_listen);
    (void)close(rig->inner_listen);
}

static int
connect_outer(struct rig *rig)
{
    struct sockaddr_un address;
    socklen_t len = sizeof address;
    struct timeval limit = {.tv_sec = PATIENCE_MS / 1000};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_int_equal(
        getsockname(rig->outer_listen, (struct sockaddr *)&address, &len), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, len), 0);
    assert_int_equal(
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit), 0);
    return fd;
}

static int
accept_inner(struct rig *rig)
{
    struct timeval limit = {.tv_sec = PATIENCE_MS / 1000};
    struct pollfd pfd = {.fd = rig->inner_listen, .events = POLLIN};
    int fd;

    assert_int_equal(poll(&pfd, 1, PATIENCE_MS), 1);
    fd = accept(rig->inner_listen, NULL, NULL);
    assert_true(fd >= 0);
    assert_int_equal(
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit), 0);
    return fd;
}

static void
expect(int fd, const char *text)
{
    char got[64];
    size_t len = strlen(text);

    assert_int_equal(recv(fd, got, len, MSG_WAITALL), (long)len);
    assert_memory_equal(got, text, len);
}

static void
expect_eof(int fd)
{
    char byte;

    assert_int_equal(recv(fd, &byte, 1, 0), 0);
}

static void
test_both_ways_and_half_close(void **state)
{
    struct rig rig;
    int outer;
    int inner;

    (void)state;
    rig_start(&rig, 4, true);
    outer = connect_outer(&rig);
    inner = accept_inner(&rig);
    assert_int_equal(send(outer, "ping", 4, 0), 4);
    expect(inner, "ping");
    /* The client has said all: the answer still comes. */
    assert_int_equal(shutdown(outer, SHUT_WR), 0);
    expect_eof(inner);
    assert_int_equal(send(inner, "pong", 4, 0), 4);
    expect(outer, "pong");
    (void)close(inner);
    expect_eof(outer);
    (void)close(outer);
    rig_stop(&rig);
}

struct flood {
    int fd;
    size_t sent;
};

static void *
send_big(void *arg)
{
    struct flood *flood = arg;
    static unsigned char bytes[BIG];

    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (unsigned char)(i * 7 + i / 4093);
    }
    while (flood->sent < sizeof bytes) {
        ssize_t n = send(flood->fd, bytes + flood->sent,
                         sizeof bytes - flood->sent, MSG_NOSIGNAL);

        if (n <= 0) {
            break;
        }
        flood->sent += (size_t)n;
    }
    (void)close(flood->fd);
    return NULL;
}

/* Megabytes arrive whole and in order though the reader dawdles and the sender
 * has closed long before. */
static void
test_bulk_survives_early_close(void **state)
{
    struct rig rig;
    struct flood flood = {.fd = -1};
    pthread_t sender;
    size_t at = 0;
    int inner;

    (void)state;
    rig_start(&rig, 4, true);
    flood.fd = connect_outer(&rig);
    inner = accept_inner(&rig);
    assert_int_equal(pthread_create(&sender, NULL, send_big, &flood), 0);
    for (;;) {
        unsigned char bytes[5000];
        ssize_t n = recv(inner, bytes, sizeof bytes, 0);

        assert_true(n >= 0);
        if (n == 0) {
            break;
        }
        for (ssize_t i = 0; i < n; i++, at++) {
            if (bytes[i] != (unsigned char)(at * 7 + at / 4093)) {
                fail_msg("byte %zu differs", at);
            }
        }
    }
    assert_int_equal(at, BIG);
    assert_int_equal(pthread_join(sender, NULL), 0);
    (void)close(inner);
    rig_stop(&rig);
}

/* A reader that does not read stops the sender: memory stays bounded. Once it
 * reads, all arrives, in order. */
static void
test_back_pressure(void **state)
{
    enum {
        PERIOD = 251,
    };
    struct rig rig;
    static unsigned char chunk[64 << 10];
    size_t sent = 0;
    size_t at = 0;
    int outer;
    int inner;
    int small = 4096;

    (void)state;
    for (size_t i = 0; i < sizeof chunk; i++) {
        chunk[i] = (unsigned char)(i % PERIOD);
    }
    rig_start(&rig, 4, true);
    assert_int_equal(setsockopt(rig.inner_listen, SOL_SOCKET, SO_RCVBUF, &small,
                                sizeof small),
                     0);
    outer = connect_outer(&rig);
    inner = accept_inner(&rig);
    for (;;) {
        struct pollfd pfd = {.fd = outer, .events = POLLOUT};
        ssize_t n;

        if (poll(&pfd, 1, 300) == 0) {
            break; /* Nobody takes more. */
        }
        n = send(outer, chunk + sent % PERIOD, sizeof chunk - PERIOD,
                 MSG_DONTWAIT | MSG_NOSIGNAL);
        assert_true(n > 0);
        sent += (size_t)n;
        assert_true(sent < 64 << 20);
    }
    assert_int_equal(shutdown(outer, SHUT_WR), 0);
    for (;;) {
        unsigned char bytes[5000];
        ssize_t n = recv(inner, bytes, sizeof bytes, 0);

        assert_true(n >= 0);
        if (n == 0) {
            break;
        }
        for (ssize_t i = 0; i < n; i++, at++) {
            assert_int_equal(bytes[i], at % PERIOD);
        }
    }
    assert_int_equal(at, sent);
    (void)close(inner);
    (void)close(outer);
    rig_stop(&rig);
}

/* One that is closed takes nobody in, though somebody leaves; opened again, it
 * takes in as many as there is room for. */
static void
test_closed_bridge(void **state)
{
    struct rig rig;
    struct sockaddr_in v4;
    int outer[3];
    int inner;

    (void)state;
    memset((void *)&rig, 0, sizeof rig);
    rig.inner_listen = take_port(&v4);
    assert_int_equal(listen(rig.inner_listen, 4), 0);
    rig_open(&rig, 1, v4.sin_port);
    assert_true(rig.bridge.accepting);
    outer[0] = connect_outer(&rig);
    while (rig.bridge.conns < 1) {
        take_turn(&rig);
    }
    outer[1] = connect_outer(&rig);
    while (rig.bridge.accepting) {
        take_turn(&rig);
    }
    wp_bridge_close(&rig.bridge);
    assert_false(rig.bridge.accepting);
    wp_bridge_open(&rig.bridge);
    assert_false(rig.bridge.accepting); /* There is no room. */
    wp_bridge_close(&rig.bridge);
    inner = accept_inner(&rig);
    (void)close(outer[0]);
    (void)close(inner);
    while (rig.bridge.conns > 0) {
        take_turn(&rig);
    }
    assert_false(rig.bridge.accepting);
    assert_true(rig.bridge.ended_at.tv_sec > 0 ||
                rig.bridge.ended_at.tv_nsec > 0);
    wp_bridge_open(&rig.bridge);
    assert_true(rig.bridge.accepting);
    while (rig.bridge.conns < 1) {
        take_turn(&rig);
    }
    rig_run(&rig);
    assert_int_equal(send(outer[1], "late", 4, 0), 4);
    inner = accept_inner(&rig);
    expect(inner, "late");
    (void)close(inner);
    (void)close(outer[1]);
    rig_stop(&rig);
}

/* So many clients come in at a turn; others have theirs meanwhile. */
static void
test_most_accepts_in_a_turn(void **state)
{
    enum {
        CLIENTS = WP_ACCEPTS_PER_TURN + 1,
    };
    struct rig rig;
    struct sockaddr_in v4;
    int outer[CLIENTS];

    (void)state;
    memset((void *)&rig, 0, sizeof rig);
    rig.inner_listen = take_port(&v4);
    assert_int_equal(listen(rig.inner_listen, CLIENTS), 0);
    rig_open(&rig, CLIENTS, v4.sin_port);
    for (int i = 0; i < CLIENTS; i++) {
        outer[i] = connect_outer(&rig);
    }
    take_turn(&rig);
    assert_int_equal(rig.bridge.conns, WP_ACCEPTS_PER_TURN);
    while (rig.bridge.conns < CLIENTS) {
        take_turn(&rig);
    }
    rig_run(&rig);
    for (int i = 0; i < CLIENTS; i++) {
        (void)close(outer[i]);
    }
    rig_stop(&rig);
}

/* The port is closed: the client sees the end at once. */
static void
test_refused(void **state)
{
    struct rig rig;
    int outer;

    (void)state;
    rig_start(&rig, 4, false);
    outer = connect_outer(&rig);
    expect_eof(outer);
    (void)close(outer);
    rig_stop(&rig);
}

/* So many more of these calls, and then one that fails; 0: all go well. */
static _Atomic(int) fails_at;

int __real_epoll_ctl(int epoll, int what, int fd, struct epoll_event *event);
int __wrap_epoll_ctl(int epoll, int what, int fd, struct epoll_event *event);
int
__wrap_epoll_ctl(int epoll, int what, int fd, struct epoll_event *event)
{
    if (fails_at > 0 && --fails_at == 0) {
        errno = ENOMEM;
        return -1;
    }
    return __real_epoll_ctl(epoll, what, fd, event);
}

/* Sends a byte and waits for its reply; false: the connection has ended. */
static bool
ask_once(struct rig *rig)
{
    int outer = connect_outer(rig);
    struct pollfd polls[] = {{.fd = outer, .events = POLLIN},
                             {.fd = rig->inner_listen, .events = POLLIN},
                             {.fd = -1, .events = POLLIN}};
    char byte = 'q';
    ssize_t n;

    (void)send(outer, &byte, 1, MSG_NOSIGNAL);
    for (;;) {
        assert_true(poll(polls, 3, PATIENCE_MS) > 0);
        if (polls[0].revents != 0) {
            break;
        }
        if (polls[1].revents != 0) {
            assert_int_equal(polls[2].fd, -1);
            polls[2].fd = accept_inner(rig);
        } else if (recv(polls[2].fd, &byte, 1, 0) == 1) {
            assert_int_equal(byte, 'q');
            byte = 'a';
            (void)send(polls[2].fd, &byte, 1, MSG_NOSIGNAL);
        } else {
            (void)close(polls[2].fd); /* And the client's end follows. */
            polls[2].fd = -1;
        }
    }
    n = recv(outer, &byte, 1, 0);
    assert_true(n != 1 || byte == 'a');
    if (n == 1 && fails_at == 0) {
        expect_eof(outer); /* It failed behind the reply. */
        n = 0;
    }
    (void)close(outer);
    if (polls[2].fd >= 0) {
        (void)close(polls[2].fd);
    }
    return n == 1;
}

/* What cannot be watched ends at once: its client does not wait for ever. */
static void
test_what_cannot_be_watched(void **state)
{
    bool whole = false;

    (void)state;
    for (int nth = 1; !whole; nth++) {
        struct rig rig;

        assert_true(nth < 50);
        rig_start(&rig, 4, true);
        fails_at = nth;
        whole = ask_once(&rig);
        fails_at = 0;
        rig_stop(&rig);
    }
}

/* A program that listens on "localhost" may have chosen ::1 alone. */
static void
test_other_family(void **state)
{
    struct rig rig;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6,
                              .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    int closed = -1;
    int outer;
    int inner;
    int one = 1;

    (void)state;
    memset((void *)&rig, 0, sizeof rig);
    /* A port that is nobody else's in either family. */
    for (int i = 0; i < 100; i++) {
        closed = take_port(&v4);
        v6.sin6_port = v4.sin_port;
        rig.inner_listen = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
        (void)setsockopt(rig.inner_listen, IPPROTO_IPV6, IPV6_V6ONLY, &one,
                         sizeof one);
        if (bind(rig.inner_listen, (struct sockaddr *)&v6, sizeof v6) == 0) {
            break;
        }
        (void)close(rig.inner_listen);
        (void)close(closed);
        rig.inner_listen = -1;
    }
    if (rig.inner_listen < 0) {
        skip(); /* This machine has no ::1. */
    }
    assert_int_equal(listen(rig.inner_listen, 4), 0);
    rig_open(&rig, 4, v4.sin_port);
    rig_run(&rig);
    outer = connect_outer(&rig);
    assert_int_equal(send(outer, "ping", 4, 0), 4);
    inner = accept_inner(&rig);
    expect(inner, "ping");
    assert_int_equal(send(inner, "pong", 4, 0), 4);
    expect(outer, "pong");
    (void)close(inner);
    expect_eof(outer);
    (void)close(outer);
    rig_stop(&rig);
    (void)close(closed);
}

/* Waits until so many connections wait to be accepted. */
static void
await_backlog(int listener, uint32_t n)
{
    struct tcp_info info;
    socklen_t len = sizeof info;

    do {
        assert_int_equal(
            getsockopt(listener, IPPROTO_TCP, TCP_INFO, &info, &len), 0);
    } while (info.tcpi_unacked < n && usleep(1000) == 0);
}

/* A client that leaves while the way to the program is not open yet gives its
 * place to the next one, and is never heard of inside. */
static void
test_leaves_while_connecting(void **state)
{
    enum {
        TURNS_MAX = 100,
    };
    struct rig rig;
    struct sockaddr_in v4;
    int ahead[2];
    int outer;
    int inner;

    (void)state;
    memset((void *)&rig, 0, sizeof rig);
    rig.inner_listen = take_port(&v4);
    /* With two that wait there the kernel answers no third. */
    assert_int_equal(listen(rig.inner_listen, 1), 0);
    for (int i = 0; i < 2; i++) {
        ahead[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_int_equal(connect(ahead[i], (struct sockaddr *)&v4, sizeof v4),
                         0);
    }
    await_backlog(rig.inner_listen, 2);
    rig_open(&rig, 1, v4.sin_port);
    outer = connect_outer(&rig);
    take_turn(&rig);
    assert_int_equal(rig.bridge.conns, 1);
    (void)close(outer);
    for (int i = 0; i < TURNS_MAX && rig.bridge.conns > 0; i++) {
        take_turn(&rig);
    }
    assert_int_equal(rig.bridge.conns, 0);
    for (int i = 0; i < 2; i++) {
        (void)close(accept_inner(&rig));
        (void)close(ahead[i]);
    }
    rig_run(&rig);
    outer = connect_outer(&rig);
    assert_int_equal(send(outer, "next", 4, 0), 4);
    inner = accept_inner(&rig);
    expect(inner, "next");
    (void)close(inner);
    expect_eof(outer);
    (void)close(outer);
    rig_stop(&rig);
}

/* The bridge's end is the end of all that it carries, on both sides. */
static void
test_ends_with_its_bridge(void **state)
{
    struct rig rig;
    int outer[2];
    int inner[2];

    (void)state;
    rig_start(&rig, 4, true);
    for (int i = 0; i < 2; i++) {
        outer[i] = connect_outer(&rig);
        inner[i] = accept_inner(&rig);
        assert_int_equal(send(outer[i], "on", 2, 0), 2);
        expect(inner[i], "on");
    }
    rig_stop(&rig);
    for (int i = 0; i < 2; i++) {
        expect_eof(outer[i]);
        expect_eof(inner[i]);
        (void)close(outer[i]);
        (void)close(inner[i]);
    }
}

/* Beyond the most connections clients wait, and come in as others leave. */
static void
test_most_connections(void **state)
{
    struct rig rig;
    struct pollfd pfd;
    int outer[3];
    int inner[3];

    (void)state;
    rig_start(&rig, 2, true);
    /* One after the other: together they may be accepted in another order. */
    for (int i = 0; i < 2; i++) {
        outer[i] = connect_outer(&rig);
        inner[i] = accept_inner(&rig);
    }
    outer[2] = connect_outer(&rig);
    pfd = (struct pollfd){.fd = rig.inner_listen, .events = POLLIN};
    assert_int_equal(poll(&pfd, 1, 200), 0);
    (void)close(outer[0]);
    expect_eof(inner[0]);
    (void)close(inner[0]);
    inner[2] = accept_inner(&rig);
    assert_int_equal(send(outer[2], "late", 4, 0), 4);
    expect(inner[2], "late");
    for (int i = 1; i < 3; i++) {
        (void)close(outer[i]);
        (void)close(inner[i]);
    }
    rig_stop(&rig);
}

/* Without descriptors clients wait, the loop does not turn on the spot, and they
 * come in once there are some. */
static void
test_without_descriptors(void **state)
{
    struct rig rig;
    struct rlimit before;
    struct rlimit none;
    struct sockaddr_un address;
    socklen_t len = sizeof address;
    uint32_t turns;
    int outer = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int inner;

    (void)state;
    rig_start(&rig, 4, true);
    assert_int_equal(
        getsockname(rig.outer_listen, (struct sockaddr *)&address, &len), 0);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = (struct rlimit){0, before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    turns = rig.turns;
    assert_int_equal(connect(outer, (struct sockaddr *)&address, len), 0);
    while (rig.turns - turns < 3) {
        (void)usleep(1000); /* It tries again. */
    }
    turns = rig.turns;
    (void)usleep(300000);
    assert_true(rig.turns - turns < 100);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    inner = accept_inner(&rig);
    assert_int_equal(send(outer, "late", 4, 0), 4);
    expect(inner, "late");
    (void)close(outer);
    (void)close(inner);
    rig_stop(&rig);
}

/* A reset on one side ends the other. */
static void
test_reset(void **state)
{
    struct rig rig;
    struct linger hard = {1, 0};
    char byte;
    int outer;
    int inner;

    (void)state;
    rig_start(&rig, 4, true);
    outer = connect_outer(&rig);
    inner = accept_inner(&rig);
    assert_int_equal(
        setsockopt(inner, SOL_SOCKET, SO_LINGER, &hard, sizeof hard), 0);
    (void)close(inner);
    assert_true(recv(outer, &byte, 1, 0) <= 0);
    (void)close(outer);
    rig_stop(&rig);
}

/* A server that answers without having read all, and closes: that is a reset on
 * the wire, and yet its answer must arrive. */
static void
test_answer_before_reset(void **state)
{
    struct rig rig;
    int outer;
    int inner;

    (void)state;
    rig_start(&rig, 4, true);
    outer = connect_outer(&rig);
    assert_int_equal(send(outer, "question", 8, 0), 8);
    inner = accept_inner(&rig);
    expect(inner, "ques");
    assert_int_equal(send(inner, "answer", 6, 0), 6);
    (void)close(inner);
    expect(outer, "answer");
    (void)close(outer);
    rig_stop(&rig);
}

static void
test_http_status(void **state)
{
    char request[WP_HTTP_PROBE_MAX];
    static const struct {
        const char *text;
        int status;
    } cases[] = {
        {"HTTP/1.1 200", 200},
        {"HTTP/1.0 503", 503},
        {"HTTP/1.1 2", 0},
        {"HT", 0},
        {"", 0},
        {"SSH-2.0-Open", -1},
        {"HTTP/1.1 2x0", -1},
        {"HTTP/1.12200", -1},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(cases); i++) {
        assert_int_equal(
            wp_http_probe_status(cases[i].text, strlen(cases[i].text)),
            cases[i].status);
    }
    assert_true(wp_http_probe_healthy(200) && wp_http_probe_healthy(399));
    assert_false(wp_http_probe_healthy(199) || wp_http_probe_healthy(400));
    assert_true(wp_http_probe_request("/ok", request, sizeof request) > 0);
    assert_non_null(strstr(request, "GET /ok HTTP/1.1\r\n"));
    assert_int_equal(wp_http_probe_request("/ok", request, 10), 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_both_ways_and_half_close),
        cmocka_unit_test(test_bulk_survives_early_close),
        cmocka_unit_test(test_back_pressure),
        cmocka_unit_test(test_closed_bridge),
        cmocka_unit_test(test_most_accepts_in_a_turn),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_what_cannot_be_watched),
        cmocka_unit_test(test_other_family),
        cmocka_unit_test(test_leaves_while_connecting),
        cmocka_unit_test(test_ends_with_its_bridge),
        cmocka_unit_test(test_most_connections),
        cmocka_unit_test(test_without_descriptors),
        cmocka_unit_test(test_reset),
        cmocka_unit_test(test_answer_before_reset),
        cmocka_unit_test(test_http_status),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
