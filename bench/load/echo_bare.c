/* bench/load/echo_bare.c - the least that an nghttp2 server can do for a call.
 *
 * One thread, one epoll, one read and one write for what has come; no deadline,
 * limit, metric or allocation of its own for a call. It looks at no header but
 * the path's last letter, and answers with as many zeros as it is told to. What
 * Claim and Release cost beyond this is ours; what this costs is nghttp2's and
 * the kernel's.
 *
 *   echo_bare --unix PATH --claim-reply BYTES --release-reply BYTES
 *
 * Also listens on a loopback port; prints "tcp 127.0.0.1:PORT" and then "ready"
 * and serves until SIGTERM. For one client: a connection is never refused. */
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <nghttp2/nghttp2.h>

#include "pool/base/assert.h"
#include "pool/base/str.h"

enum {
    EVENTS = 64,
    READ_MAX = 64 << 10,
    REPLY_MAX = 16000, /* A frame holds 16 KiB. */
    WRITE_MAX = 256 << 10,
    PREFIX = 5, /* gRPC's: not compressed, four bytes of length. */
};

#define HEADER(name, value)                                                    \
    {                                                                          \
        (uint8_t *)(name), (uint8_t *)(value), sizeof(name) - 1,               \
            sizeof(value) - 1,                                                 \
            NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE       \
    }

struct reply {
    size_t len; /* With the prefix. */
    uint8_t bytes[PREFIX + REPLY_MAX];
};

struct conn {
    int fd;
    nghttp2_session *session;
    uint8_t out[WRITE_MAX]; /* What the socket has not taken yet. */
    size_t n_out;
};

static struct reply replies[2]; /* Claim's, Release's */
static nghttp2_session_callbacks *callbacks;
static int poll_fd;

/* --- A call --- */

static int
on_header(nghttp2_session *session, const nghttp2_frame *frame,
          const uint8_t *name, size_t name_len, const uint8_t *value,
          size_t len, uint8_t flags, void *user)
{
    (void)flags;
    (void)user;
    if (name_len == sizeof ":path" - 1 &&
        memcmp(name, ":path", name_len) == 0 && len > 0) {
        /* "...Claim" or "...Release" */
        nghttp2_session_set_stream_user_data(session, frame->hd.stream_id,
                                             &replies[value[len - 1] == 'e']);
    }
    return 0;
}

static ssize_t
read_reply(nghttp2_session *session, int32_t stream, uint8_t *out, size_t max,
           uint32_t *flags, nghttp2_data_source *source, void *user)
{
    static const nghttp2_nv trailer = HEADER("grpc-status", "0");
    const struct reply *reply = source->ptr;

    (void)user;
    WP_ASSERT(reply->len <= max);
    memcpy(out, reply->bytes, reply->len);
    *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
    WP_ASSERT(nghttp2_submit_trailer(session, stream, &trailer, 1) == 0);
    return (ssize_t)reply->len;
}

static int
on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    static const nghttp2_nv headers[] = {
        HEADER(":status", "200"), HEADER("content-type", "application/grpc")};
    nghttp2_data_provider body = {.read_callback = read_reply};

    (void)user;
    if ((frame->hd.type == NGHTTP2_DATA || frame->hd.type == NGHTTP2_HEADERS) &&
        (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0) {
        body.source.ptr =
            nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
        if (body.source.ptr != NULL) {
            return nghttp2_submit_response(session, frame->hd.stream_id,
                                           headers, WP_ARRAY_LEN(headers),
                                           &body);
        }
    }
    return 0;
}

/* --- A connection --- */

static void
end(struct conn *conn)
{
    nghttp2_session_del(conn->session);
    (void)close(conn->fd); /* Which takes it out of the epoll, too. */
    free(conn);
}

static void
await(struct conn *conn, int op)
{
    struct epoll_event event = {
        .events = EPOLLIN | (conn->n_out > 0 ? EPOLLOUT : 0), .data.ptr = conn};

    WP_ASSERT(epoll_ctl(poll_fd, op, conn->fd, &event) == 0);
}

/* False: the connection is over. */
static bool
flush(struct conn *conn)
{
    bool waited = conn->n_out > 0;
    const uint8_t *piece;
    ssize_t n = 0;

    do {
        while (conn->n_out < WRITE_MAX / 2 &&
               (n = nghttp2_session_mem_send(conn->session, &piece)) > 0) {
            WP_ASSERT((size_t)n <= WRITE_MAX - conn->n_out);
            memcpy(conn->out + conn->n_out, piece, (size_t)n);
            conn->n_out += (size_t)n;
        }
        if (n < 0 || conn->n_out == 0) {
            break;
        }
        n = send(conn->fd, conn->out, conn->n_out, MSG_NOSIGNAL);
        if (n > 0) {
            conn->n_out -= (size_t)n;
            memmove(conn->out, conn->out + n, conn->n_out);
        }
    } while (n > 0);
    if (n < 0 && errno != EAGAIN) {
        return false;
    }
    if (waited != (conn->n_out > 0)) {
        await(conn, EPOLL_CTL_MOD);
    }
    return true;
}

static void
serve_conn(struct conn *conn)
{
    static uint8_t in[READ_MAX];
    ssize_t n = recv(conn->fd, in, sizeof in, 0);

    if (n == 0 || (n < 0 && errno != EAGAIN) ||
        (n > 0 && nghttp2_session_mem_recv(conn->session, in, (size_t)n) < 0) ||
        !flush(conn)) {
        end(conn);
    }
}

static void
take_conn(int listener)
{
    static const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, 100000}};
    struct conn *conn;
    int on = 1;
    int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

    if (fd < 0) {
        return;
    }
    conn = calloc(1, sizeof *conn);
    WP_ASSERT(conn != NULL);
    conn->fd = fd;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    WP_ASSERT(nghttp2_session_server_new(&conn->session, callbacks, conn) == 0);
    WP_ASSERT(nghttp2_submit_settings(conn->session, NGHTTP2_FLAG_NONE,
                                      settings, WP_ARRAY_LEN(settings)) == 0);
    await(conn, EPOLL_CTL_ADD);
    if (!flush(conn)) {
        end(conn);
    }
}

/* --- The server --- */

static int
listen_at(int family, const struct sockaddr *address, socklen_t len)
{
    int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0 || bind(fd, address, len) != 0 || listen(fd, SOMAXCONN) != 0) {
        perror("echo_bare: cannot listen");
        exit(1);
    }
    return fd;
}

static int
listen_tcp(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    int fd = listen_at(AF_INET, (const struct sockaddr *)&at, sizeof at);

    WP_ASSERT(getsockname(fd, (struct sockaddr *)&at, &len) == 0);
    (void)printf("tcp 127.0.0.1:%d\n", ntohs(at.sin_port));
    return fd;
}

static int
listen_unix(const char *path)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};

    if (!wp_str_copy(wp_str_from(path), at.sun_path, sizeof at.sun_path)) {
        (void)fprintf(stderr, "echo_bare: --unix: the path is too long\n");
        exit(2);
    }
    (void)unlink(path);
    return listen_at(AF_UNIX, (const struct sockaddr *)&at, sizeof at);
}

static _Noreturn void
serve(int tcp, int local)
{
    /* Told from connections by their address. */
    int listeners[] = {tcp, local};
    struct epoll_event events[EVENTS];

    poll_fd = epoll_create1(EPOLL_CLOEXEC);
    WP_ASSERT(poll_fd >= 0);
    for (size_t i = 0; i < WP_ARRAY_LEN(listeners); i++) {
        struct epoll_event event = {.events = EPOLLIN,
                                    .data.ptr = &listeners[i]};

        WP_ASSERT(epoll_ctl(poll_fd, EPOLL_CTL_ADD, listeners[i], &event) == 0);
    }
    (void)printf("ready\n");
    (void)fflush(stdout);
    for (;;) {
        int n = epoll_wait(poll_fd, events, EVENTS, -1);

        for (int i = 0; i < n; i++) {
            void *of = events[i].data.ptr;

            if (of == &listeners[0] || of == &listeners[1]) {
                take_conn(*(int *)of);
            } else {
                serve_conn(of);
            }
        }
    }
}

static void
set_reply(struct reply *reply, const char *len_text)
{
    uint64_t len;

    if (!wp_str_to_u64(wp_str_from(len_text), &len) || len > REPLY_MAX) {
        (void)fprintf(stderr, "echo_bare: '%s' is no length\n", len_text);
        exit(2);
    }
    reply->bytes[3] = (uint8_t)(len >> 8);
    reply->bytes[4] = (uint8_t)len;
    reply->len = PREFIX + (size_t)len;
}

int
main(int argc, char **argv)
{
    static const struct option known[] = {
        {"unix", required_argument, NULL, 'u'},
        {"claim-reply", required_argument, NULL, 'c'},
        {"release-reply", required_argument, NULL, 'r'},
        {NULL, 0, NULL, 0},
    };
    const char *path = NULL;
    int option;

    set_reply(&replies[0], "0");
    set_reply(&replies[1], "0");
    while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
        if (option == 'u') {
            path = optarg;
        } else if (option == 'c' || option == 'r') {
            set_reply(&replies[option == 'r'], optarg);
        } else {
            path = NULL;
            break;
        }
    }
    if (path == NULL) {
        (void)fprintf(stderr,
                      "usage: %s --unix PATH --claim-reply BYTES "
                      "--release-reply BYTES\n",
                      argv[0]);
        return 2;
    }
    WP_ASSERT(nghttp2_session_callbacks_new(&callbacks) == 0);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    serve(listen_tcp(), listen_unix(path));
}
