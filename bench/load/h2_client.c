#include "bench/load/h2_client.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <nghttp2/nghttp2.h>

#include "pool/base/assert.h"
#include "pool/base/clock.h"
#include "pool/base/str.h"

enum {
    OUT_SIZE = 64 * 1024,
    IN_SIZE = 256 * 1024,
    HEADERS = 6,
    WINDOW = 64 * 1024 * 1024, /* Never in the way of small answers. */
};

struct conn {
    int fd;
    nghttp2_session *session;
    struct wp_h2 *h2;
    size_t out_len; /* Bytes of out, of which out_sent are gone. */
    size_t out_sent;
    bool wants_out; /* Asked epoll to say when there is room. */
    uint8_t out[OUT_SIZE];
};

struct wp_h2 {
    int epoll_fd;
    unsigned n_conns;
    unsigned next; /* Connection for the next call. */
    unsigned n_methods;
    bool broken; /* A server's answer was too long. */
    nghttp2_nv headers[WP_H2_METHODS_MAX][HEADERS];
    struct conn *conns[WP_H2_CONNECTIONS_MAX];
    uint8_t in[IN_SIZE];
};

/* --- nghttp2's callbacks. --- */

static int
on_header(nghttp2_session *session, const nghttp2_frame *frame,
          const uint8_t *name, size_t name_len, const uint8_t *value,
          size_t value_len, uint8_t flags, void *user)
{
    struct wp_h2_call *call;
    uint64_t status;

    (void)flags;
    (void)user;
    if (name_len != 11 || memcmp(name, "grpc-status", 11) != 0) {
        return 0;
    }
    call = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
    if (call != NULL &&
        wp_str_to_u64((struct wp_str){(const char *)value, value_len},
                      &status) &&
        status <= 16) {
        call->status = (int)status;
    }
    return 0;
}

static int
on_data(nghttp2_session *session, uint8_t flags, int32_t stream_id,
        const uint8_t *data, size_t len, void *user)
{
    struct conn *conn = user;
    struct wp_h2_call *call =
        nghttp2_session_get_stream_user_data(session, stream_id);

    (void)flags;
    if (call == NULL) {
        return 0;
    }
    if (len > sizeof(call->reply) - call->received) {
        conn->h2->broken = true;
        return NGHTTP2_ERR_CALLBACK_FAILURE;
    }
    memcpy(call->reply + call->received, data, len);
    call->received += len;
    return 0;
}

static int
on_close(nghttp2_session *session, int32_t stream_id, uint32_t error_code,
         void *user)
{
    struct wp_h2_call *call =
        nghttp2_session_get_stream_user_data(session, stream_id);

    (void)error_code;
    (void)user;
    if (call != NULL) {
        call->reply_len = call->received > WP_H2_FRAME_HEAD
                              ? call->received - WP_H2_FRAME_HEAD
                              : 0;
        call->done(call);
    }
    return 0;
}

static ssize_t
read_request(nghttp2_session *session, int32_t stream_id, uint8_t *buf,
             size_t len, uint32_t *flags, nghttp2_data_source *source,
             void *user)
{
    struct wp_h2_call *call = source->ptr;
    size_t left = WP_H2_FRAME_HEAD + call->request_len - call->sent;

    (void)session;
    (void)stream_id;
    (void)user;
    if (len > left) {
        len = left;
    }
    memcpy(buf, call->request + call->sent, len);
    call->sent += len;
    if (len == left) {
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    }
    return (ssize_t)len;
}

/* --- Connections. --- */

static int
connect_unix(const char *path, struct wp_err *err)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    int fd;

    if (!wp_str_copy(wp_str_from(path), addr.sun_path, sizeof(addr.sun_path))) {
        wp_err_set(err, WP_INVALID_ARGUMENT, "socket path '%s' is too long",
                   path);
        return -1;
    }
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&addr, sizeof(addr)) != 0) {
        wp_err_sys(err, WP_UNAVAILABLE, errno, "connect to unix:%s", path);
        if (fd >= 0) {
            close(fd);
        }
        return -1;
    }
    return fd;
}

static int
connect_tcp(const char *target, struct wp_err *err)
{
    struct sockaddr_in addr = {.sin_family = AF_INET};
    const char *colon = strrchr(target, ':');
    char host[64];
    uint64_t port;
    int one = 1;
    int fd;

    if (colon == NULL ||
        !wp_str_copy((struct wp_str){target, (size_t)(colon - target)}, host,
                     sizeof(host)) ||
        inet_pton(AF_INET, host, &addr.sin_addr) != 1 ||
        !wp_str_to_u64(wp_str_from(colon + 1), &port) || port > UINT16_MAX) {
        wp_err_set(err, WP_INVALID_ARGUMENT,
                   "target '%s' is neither unix:/path nor a.b.c.d:port",
                   target);
        return -1;
    }
    addr.sin_port = htons((uint16_t)port);
    fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&addr, sizeof(addr)) != 0) {
        wp_err_sys(err, WP_UNAVAILABLE, errno, "connect to %s", target);
        if (fd >= 0) {
            close(fd);
        }
        return -1;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    return fd;
}

static bool
start_session(struct conn *conn)
{
    const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 1024 * 1024},
    };
    nghttp2_session_callbacks *callbacks;
    bool ok;

    if (nghttp2_session_callbacks_new(&callbacks) != 0) {
        return false;
    }
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks,
                                                              on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
    ok = nghttp2_session_client_new(&conn->session, callbacks, conn) == 0;
    nghttp2_session_callbacks_del(callbacks);
    return ok &&
           nghttp2_submit_settings(conn->session, NGHTTP2_FLAG_NONE, settings,
                                   WP_ARRAY_LEN(settings)) == 0 &&
           nghttp2_session_set_local_window_size(
               conn->session, NGHTTP2_FLAG_NONE, 0, WINDOW) == 0;
}

/* False and err when it cannot; what was made is wp_h2_close's. */
static bool
open_conn(struct wp_h2 *h2, const char *target, struct wp_err *err)
{
    struct conn *conn = calloc(1, sizeof(*conn));
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = conn};

    if (conn == NULL) {
        wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no memory for a connection");
        return false;
    }
    h2->conns[h2->n_conns++] = conn;
    conn->h2 = h2;
    conn->fd = strncmp(target, "unix:", 5) == 0 ? connect_unix(target + 5, err)
                                                : connect_tcp(target, err);
    if (conn->fd < 0) {
        return false;
    }
    if (!start_session(conn) ||
        epoll_ctl(h2->epoll_fd, EPOLL_CTL_ADD, conn->fd, &event) != 0) {
        wp_err_set(err, WP_RESOURCE_EXHAUSTED, "cannot start a session");
        return false;
    }
    return true;
}

struct wp_h2 *
wp_h2_connect(const char *target, unsigned connections, struct wp_err *err)
{
    struct wp_h2 *h2 = calloc(1, sizeof(*h2));

    WP_ASSERT(connections > 0 && connections <= WP_H2_CONNECTIONS_MAX);
    if (h2 == NULL) {
        wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no memory for a client");
        return NULL;
    }
    h2->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    for (unsigned i = 0; i < connections; i++) {
        if (!open_conn(h2, target, err)) {
            wp_h2_close(h2);
            return NULL;
        }
    }
    return h2;
}

void
wp_h2_close(struct wp_h2 *h2)
{
    if (h2 == NULL) {
        return;
    }
    for (unsigned i = 0; i < h2->n_conns; i++) {
        struct conn *conn = h2->conns[i];

        if (conn->session != NULL) {
            /* The calls in flight are forgotten, not ended. */
            nghttp2_session_del(conn->session);
        }
        if (conn->fd >= 0) {
            close(conn->fd);
        }
        free(conn);
    }
    close(h2->epoll_fd);
    free(h2);
}

static nghttp2_nv
header(const char *name, const char *value)
{
    /* nghttp2 takes pointers to mutable bytes but, with these flags, never
     * writes to them nor copies them. */
    union {
        const char *from;
        uint8_t *to;
    } n = {name}, v = {value};

    return (nghttp2_nv){n.to, v.to, strlen(name), strlen(value),
                        NGHTTP2_NV_FLAG_NO_COPY_NAME |
                            NGHTTP2_NV_FLAG_NO_COPY_VALUE};
}

unsigned
wp_h2_method(struct wp_h2 *h2, const char *path)
{
    nghttp2_nv *headers = h2->headers[h2->n_methods];

    WP_ASSERT(h2->n_methods < WP_H2_METHODS_MAX);
    headers[0] = header(":method", "POST");
    headers[1] = header(":scheme", "http");
    headers[2] = header(":path", path);
    headers[3] = header(":authority", "localhost");
    headers[4] = header("te", "trailers");
    headers[5] = header("content-type", "application/grpc");
    return h2->n_methods++;
}

void
wp_h2_start(struct wp_h2 *h2, struct wp_h2_call *call)
{
    struct conn *conn = h2->conns[h2->next];
    nghttp2_data_provider body = {.source.ptr = call,
                                  .read_callback = read_request};

    call->conn = h2->next;
    h2->next = h2->next + 1 < h2->n_conns ? h2->next + 1 : 0;
    WP_ASSERT(call->request_len <= WP_H2_MESSAGE_MAX);
    call->request[0] = 0; /* Not compressed. */
    call->request[1] = 0;
    call->request[2] = 0;
    call->request[3] = (uint8_t)(call->request_len >> 8);
    call->request[4] = (uint8_t)call->request_len;
    call->sent = 0;
    call->received = 0;
    call->status = WP_H2_NO_STATUS;
    call->stream_id = nghttp2_submit_request(
        conn->session, NULL, h2->headers[call->method], HEADERS, &body, call);
    WP_ASSERT(call->stream_id > 0); /* Memory lacks, or 2^30 calls were made. */
}

void
wp_h2_cancel(struct wp_h2 *h2, struct wp_h2_call *call)
{
    nghttp2_session *session = h2->conns[call->conn]->session;

    /* What still comes for the stream finds nobody; the reset goes out before
     * any of the request's own bytes that are left. Both fail when the stream
     * is over, which is as good. */
    (void)nghttp2_session_set_stream_user_data(session, call->stream_id, NULL);
    (void)nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, call->stream_id,
                                    NGHTTP2_CANCEL);
}

int
wp_h2_fd(const struct wp_h2 *h2)
{
    return h2->epoll_fd;
}

/* --- A turn. --- */

/* Fills the empty out buffer from the session; false when there is nothing. */
static bool
fill(struct conn *conn)
{
    conn->out_len = 0;
    conn->out_sent = 0;
    for (;;) {
        const uint8_t *data;
        ssize_t len;

        /* A block of nghttp2 is a frame, 16 KiB and its head at most. */
        if (conn->out_len > OUT_SIZE - 20 * 1024) {
            return true;
        }
        len = nghttp2_session_mem_send(conn->session, &data);
        if (len <= 0) {
            return conn->out_len > 0;
        }
        memcpy(conn->out + conn->out_len, data, (size_t)len);
        conn->out_len += (size_t)len;
    }
}

static void
want_out(struct conn *conn, bool wants)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = conn};

    if (wants != conn->wants_out) {
        conn->wants_out = wants;
        event.events |= wants ? EPOLLOUT : 0U;
        epoll_ctl(conn->h2->epoll_fd, EPOLL_CTL_MOD, conn->fd, &event);
    }
}

static enum wp_status
flush(struct conn *conn, struct wp_err *err)
{
    while (conn->out_sent < conn->out_len || fill(conn)) {
        ssize_t n =
            send(conn->fd, conn->out + conn->out_sent,
                 conn->out_len - conn->out_sent, MSG_DONTWAIT | MSG_NOSIGNAL);

        if (n < 0 && errno == EAGAIN) {
            want_out(conn, true);
            return WP_OK;
        }
        if (n < 0) {
            return wp_err_sys(err, WP_UNAVAILABLE, errno, "send");
        }
        conn->out_sent += (size_t)n;
    }
    want_out(conn, false);
    return WP_OK;
}

static enum wp_status
receive(struct conn *conn, int flags, struct wp_err *err)
{
    struct wp_h2 *h2 = conn->h2;
    ssize_t n = recv(conn->fd, h2->in, IN_SIZE, flags);

    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return WP_OK;
    }
    if (n < 0) {
        return wp_err_sys(err, WP_UNAVAILABLE, errno, "receive");
    }
    if (n == 0) {
        return wp_err_set(err, WP_UNAVAILABLE,
                          "the server closed the connection");
    }
    if (nghttp2_session_mem_recv(conn->session, h2->in, (size_t)n) != n ||
        h2->broken) {
        return wp_err_set(err, WP_INTERNAL,
                          "the server's bytes are no answer to a unary call");
    }
    if (!nghttp2_session_want_read(conn->session)) {
        return wp_err_set(err, WP_UNAVAILABLE, "the server said GOAWAY");
    }
    return WP_OK;
}

static enum wp_status
wait_and_receive(struct wp_h2 *h2, int64_t timeout_ns, struct wp_err *err)
{
    struct epoll_event events[WP_H2_CONNECTIONS_MAX];
    struct timespec limit = {timeout_ns / WP_NS_PER_S,
                             timeout_ns % WP_NS_PER_S};
    int n;

    /* One connection, and all the time in the world or none: receive itself
     * waits or looks, and the call costs one system call less. */
    if (h2->n_conns == 1 && !h2->conns[0]->wants_out &&
        (timeout_ns == WP_TIME_NEVER || timeout_ns == 0)) {
        return receive(h2->conns[0], timeout_ns == 0 ? MSG_DONTWAIT : 0, err);
    }
    n = epoll_pwait2(h2->epoll_fd, events, (int)h2->n_conns,
                     timeout_ns == WP_TIME_NEVER ? NULL : &limit, NULL);
    if (n < 0 && errno != EINTR) {
        return wp_err_sys(err, WP_INTERNAL, errno, "epoll");
    }
    for (int i = 0; i < n; i++) {
        enum wp_status status = receive(events[i].data.ptr, MSG_DONTWAIT, err);

        if (status != WP_OK) {
            return status;
        }
    }
    return WP_OK;
}

enum wp_status
wp_h2_turn(struct wp_h2 *h2, int64_t timeout_ns, struct wp_err *err)
{
    for (unsigned i = 0; i < h2->n_conns; i++) {
        enum wp_status status = flush(h2->conns[i], err);

        if (status != WP_OK) {
            return status;
        }
    }
    return wait_and_receive(h2, timeout_ns, err);
}
