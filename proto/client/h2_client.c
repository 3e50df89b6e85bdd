#include "proto/client/h2_client.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/client/h2_parts.h"
#include "proto/client/h2_tls.h"
#include "pool/base/assert.h"
#include "pool/base/clock.h"
#include "pool/base/str.h"

/* What a connection holds; the struct stays. */
static void
close_conn(struct wp_h2_conn *conn)
{
    if (conn->session != NULL) {
        /* The calls in flight are forgotten, not ended. */
        nghttp2_session_del(conn->session);
        conn->session = NULL;
    }
    wp_h2_tls_close(conn->tls);
    conn->tls = NULL;
    if (conn->fd >= 0) {
        close(conn->fd);
        conn->fd = -1;
    }
    conn->out_len = 0;
    conn->out_sent = 0;
    conn->wants_out = false;
}

static bool
open_conn(struct wp_h2 *h2, struct wp_h2_conn *conn, struct wp_err *err)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = conn};

    conn->fd = wp_h2_connect_target(h2->config.target, err);
    if (conn->fd < 0) {
        return false;
    }
    if (h2->config.tls != NULL) {
        conn->tls = wp_h2_tls_connect(h2->config.tls, conn->fd, err);
        if (conn->tls == NULL) {
            close_conn(conn);
            return false;
        }
    }
    if (!wp_h2_session_start(conn) ||
        epoll_ctl(h2->epoll_fd, EPOLL_CTL_ADD, conn->fd, &event) != 0) {
        wp_err_set(err, WP_RESOURCE_EXHAUSTED, "cannot start a session");
        close_conn(conn);
        return false;
    }
    return true;
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

/* The last of each method's headers, as it is now. */
static void
put_authorization(struct wp_h2 *h2, unsigned method)
{
    const char *text = h2->config.authorization;
    unsigned n = h2->n_fixed[method];

    if (text != NULL && text[0] != '\0') {
        h2->headers[method][n++] = header("authorization", text);
    }
    h2->n_headers[method] = n;
}

void
wp_h2_shut(struct wp_h2 *h2, unsigned conn)
{
    close_conn(h2->conns[conn]);
}

void
wp_h2_set_tls(struct wp_h2 *h2, const struct wp_h2_tls *tls)
{
    h2->config.tls = tls;
}

bool
wp_h2_reopen(struct wp_h2 *h2, unsigned conn, struct wp_err *err)
{
    close_conn(h2->conns[conn]);
    for (unsigned i = 0; i < h2->n_methods; i++) {
        put_authorization(h2, i);
    }
    return open_conn(h2, h2->conns[conn], err);
}

struct wp_h2 *
wp_h2_connect(const char *target, unsigned connections, struct wp_err *err)
{
    return wp_h2_open(
        &(struct wp_h2_config){.target = target, .connections = connections},
        err);
}

struct wp_h2 *
wp_h2_open(const struct wp_h2_config *config, struct wp_err *err)
{
    struct wp_h2 *h2 = calloc(1, sizeof(*h2));

    WP_ASSERT(config->connections > 0 &&
              config->connections <= WP_H2_CONNECTIONS_MAX);
    if (h2 == NULL) {
        wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no memory for a client");
        return NULL;
    }
    h2->config = *config;
    h2->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    for (unsigned i = 0; i < config->connections; i++) {
        struct wp_h2_conn *conn = calloc(1, sizeof(*conn));

        if (conn == NULL) {
            wp_err_set(err, WP_RESOURCE_EXHAUSTED,
                       "no memory for a connection");
            wp_h2_close(h2);
            return NULL;
        }
        conn->h2 = h2;
        h2->conns[h2->n_conns++] = conn;
        if (!open_conn(h2, conn, err)) {
            wp_h2_close(h2);
            return NULL;
        }
    }
    return h2;
}

pid_t
wp_h2_peer(const struct wp_h2 *h2)
{
    struct ucred peer = {.pid = 0};
    socklen_t len = sizeof(peer);

    if (strncmp(h2->config.target, "unix:", 5) != 0 ||
        getsockopt(h2->conns[0]->fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) !=
            0) {
        return 0;
    }
    return peer.pid;
}

void
wp_h2_close(struct wp_h2 *h2)
{
    if (h2 == NULL) {
        return;
    }
    for (unsigned i = 0; i < h2->n_conns; i++) {
        close_conn(h2->conns[i]);
        free(h2->conns[i]);
    }
    close(h2->epoll_fd);
    wp_h2_memory_free(&h2->memory);
    free(h2);
}

unsigned
wp_h2_method_within(struct wp_h2 *h2, const char *path, const char *timeout)
{
    nghttp2_nv *headers = h2->headers[h2->n_methods];
    unsigned n = 6;

    WP_ASSERT(h2->n_methods < WP_H2_METHODS_MAX);
    headers[0] = header(":method", "POST");
    headers[1] = header(":scheme", h2->config.tls != NULL ? "https" : "http");
    headers[2] = header(":path", path);
    headers[3] =
        header(":authority", h2->config.authority != NULL ? h2->config.authority
                                                          : "localhost");
    headers[4] = header("te", "trailers");
    headers[5] = header("content-type", "application/grpc");
    if (timeout != NULL) {
        headers[n++] = header("grpc-timeout", timeout);
    }
    h2->n_fixed[h2->n_methods] = n;
    put_authorization(h2, h2->n_methods);
    return h2->n_methods++;
}

unsigned
wp_h2_method(struct wp_h2 *h2, const char *path)
{
    return wp_h2_method_within(h2, path, h2->config.timeout);
}

/* The next connection that lives; NULL: none. */
static struct wp_h2_conn *
next_conn(struct wp_h2 *h2, unsigned *index)
{
    for (unsigned i = 0; i < h2->n_conns; i++) {
        *index = h2->next;
        h2->next = h2->next + 1 < h2->n_conns ? h2->next + 1 : 0;
        if (h2->conns[*index]->session != NULL) {
            return h2->conns[*index];
        }
    }
    return NULL;
}

/* The request is to be sent from its beginning. */
static void
frame_request(struct wp_h2_call *call)
{
    call->request[0] = 0; /* Not compressed. */
    call->request[1] = 0;
    call->request[2] = 0;
    call->request[3] = (uint8_t)(call->request_len >> 8);
    call->request[4] = (uint8_t)call->request_len;
    call->sent = 0;
}

bool
wp_h2_start(struct wp_h2 *h2, struct wp_h2_call *call)
{
    struct wp_h2_conn *conn = next_conn(h2, &call->conn);

    WP_ASSERT(call->request_len <= WP_H2_REQUEST_MAX);
    if (conn == NULL) {
        return false;
    }
    frame_request(call);
    call->ends = false;
    call->n_received = 0;
    call->status = WP_H2_NO_STATUS;
    if (call->details != NULL) {
        call->details[0] = '\0';
    }
    return wp_h2_session_request(conn, call);
}

bool
wp_h2_takes_calls(const struct wp_h2 *h2)
{
    for (unsigned i = 0; i < h2->n_conns; i++) {
        nghttp2_session *session = h2->conns[i]->session;

        if (session != NULL &&
            nghttp2_session_check_request_allowed(session) != 0) {
            return true;
        }
    }
    return false;
}

bool
wp_h2_may_send(const struct wp_h2_call *call)
{
    return !call->ends && call->sent == WP_H2_FRAME_HEAD + call->request_len;
}

void
wp_h2_send(struct wp_h2 *h2, struct wp_h2_call *call)
{
    WP_ASSERT(!call->ends && call->request_len <= WP_H2_REQUEST_MAX);
    frame_request(call);
    /* Fails when the stream is just ending: done will say so. */
    (void)nghttp2_session_resume_data(h2->conns[call->conn]->session,
                                      call->stream_id);
}

void
wp_h2_end(struct wp_h2 *h2, struct wp_h2_call *call)
{
    call->ends = true;
    (void)nghttp2_session_resume_data(h2->conns[call->conn]->session,
                                      call->stream_id);
}

void
wp_h2_cancel(struct wp_h2 *h2, struct wp_h2_call *call)
{
    nghttp2_session *session = h2->conns[call->conn]->session;

    if (session == NULL) {
        return;
    }
    /* What still comes for the stream finds nobody; the reset goes out before
     * any of the request's own bytes that are left. Both fail when the stream
     * is over, which is as good. */
    (void)nghttp2_session_set_stream_user_data(session, call->stream_id, NULL);
    (void)nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, call->stream_id,
                                    NGHTTP2_CANCEL);
}

uint64_t
wp_h2_received(const struct wp_h2 *h2, unsigned conn)
{
    return h2->conns[conn]->received;
}

int
wp_h2_fd(const struct wp_h2 *h2)
{
    return h2->epoll_fd;
}

/* --- A turn. --- */

/* Fills the empty out buffer from the session; false when there is nothing. */
static bool
fill(struct wp_h2_conn *conn)
{
    conn->out_len = 0;
    conn->out_sent = 0;
    for (;;) {
        const uint8_t *data;
        ssize_t len;

        /* A block of nghttp2 is a frame, 16 KiB and its head at most. */
        if (conn->out_len > WP_H2_OUT_SIZE - 20 * 1024) {
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
want_out(struct wp_h2_conn *conn, bool wants)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = conn};

    if (wants != conn->wants_out) {
        conn->wants_out = wants;
        event.events |= wants ? EPOLLOUT : 0U;
        epoll_ctl(conn->h2->epoll_fd, EPOLL_CTL_MOD, conn->fd, &event);
    }
}

/* As send and recv: -1 and EAGAIN when it would have to wait. */
static ssize_t
conn_send(struct wp_h2_conn *conn, const uint8_t *bytes, size_t len)
{
    if (conn->tls != NULL) {
        return wp_h2_tls_send(conn->tls, bytes, len);
    }
    return send(conn->fd, bytes, len, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static ssize_t
conn_recv(struct wp_h2_conn *conn, uint8_t *bytes, size_t len, int flags)
{
    if (conn->tls != NULL) {
        return wp_h2_tls_recv(conn->tls, bytes, len);
    }
    return recv(conn->fd, bytes, len, flags);
}

static enum wp_status
failed(const struct wp_h2_conn *conn, const char *what, struct wp_err *err)
{
    return conn->tls != NULL && errno == EPROTO
               ? wp_h2_tls_error(err)
               : wp_err_sys(err, WP_UNAVAILABLE, errno, "%s", what);
}

/* What the other end has said before it left says why. */
static enum wp_status
send_failed(struct wp_h2_conn *conn, struct wp_err *err)
{
    int saved = errno;

    if (conn->tls != NULL && errno != EPROTO &&
        (conn_recv(conn, conn->h2->in, WP_H2_IN_SIZE, 0) >= 0 ||
         errno != EPROTO)) {
        errno = saved;
    }
    return failed(conn, "send", err);
}

static enum wp_status
flush(struct wp_h2_conn *conn, struct wp_err *err)
{
    while (conn->out_sent < conn->out_len || fill(conn)) {
        ssize_t n = conn_send(conn, conn->out + conn->out_sent,
                              conn->out_len - conn->out_sent);

        if (n < 0 && errno == EAGAIN) {
            want_out(conn, true);
            return WP_OK;
        }
        if (n < 0) {
            return send_failed(conn, err);
        }
        conn->out_sent += (size_t)n;
    }
    want_out(conn, false);
    return WP_OK;
}

static enum wp_status
receive(struct wp_h2_conn *conn, int flags, struct wp_err *err)
{
    struct wp_h2 *h2 = conn->h2;

    do {
        ssize_t n = conn_recv(conn, h2->in, WP_H2_IN_SIZE, flags);

        if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
            return WP_OK;
        }
        if (n < 0) {
            return failed(conn, "receive", err);
        }
        if (n == 0) {
            return wp_err_set(err, WP_UNAVAILABLE,
                              "the server closed the connection");
        }
        conn->received += (uint64_t)n;
        if (nghttp2_session_mem_recv(conn->session, h2->in, (size_t)n) != n ||
            h2->broken) {
            h2->broken = false;
            return wp_err_set(err, WP_INTERNAL,
                              "the server's bytes are no answer to the call");
        }
        /* What TLS has decrypted no poll tells of. */
    } while (conn->tls != NULL);
    return WP_OK;
}

/* It is over: the run too, unless somebody wants to know. */
static enum wp_status
lose(struct wp_h2_conn *conn, enum wp_status status, const struct wp_err *err)
{
    struct wp_h2 *h2 = conn->h2;

    if (h2->config.on_lost == NULL) {
        return status;
    }
    close_conn(conn);
    for (unsigned i = 0; i < h2->n_conns; i++) {
        if (h2->conns[i] == conn) {
            h2->config.on_lost(h2->config.ctx, i, err);
        }
    }
    return WP_OK;
}

static enum wp_status
serve(struct wp_h2_conn *conn, int flags, struct wp_err *err)
{
    enum wp_status status = receive(conn, flags, err);

    if (status == WP_OK && !nghttp2_session_want_read(conn->session)) {
        status = wp_err_set(err, WP_UNAVAILABLE, "the server said GOAWAY");
    }
    return status == WP_OK ? WP_OK : lose(conn, status, err);
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
        h2->conns[0]->session != NULL && h2->config.tls == NULL &&
        (timeout_ns == WP_TIME_NEVER || timeout_ns == 0)) {
        return serve(h2->conns[0], timeout_ns == 0 ? MSG_DONTWAIT : 0, err);
    }
    n = epoll_pwait2(h2->epoll_fd, events, (int)h2->n_conns,
                     timeout_ns == WP_TIME_NEVER ? NULL : &limit, NULL);
    if (n < 0 && errno != EINTR) {
        return wp_err_sys(err, WP_INTERNAL, errno, "epoll");
    }
    for (int i = 0; i < n; i++) {
        enum wp_status status = serve(events[i].data.ptr, MSG_DONTWAIT, err);

        if (status != WP_OK) {
            return status;
        }
    }
    return WP_OK;
}

bool
wp_h2_has_output(const struct wp_h2 *h2)
{
    for (unsigned i = 0; i < h2->n_conns; i++) {
        const struct wp_h2_conn *conn = h2->conns[i];

        if (conn->session != NULL && !conn->wants_out &&
            nghttp2_session_want_write(conn->session) != 0) {
            return true;
        }
    }
    return false;
}

enum wp_status
wp_h2_turn(struct wp_h2 *h2, int64_t timeout_ns, struct wp_err *err)
{
    for (unsigned i = 0; i < h2->n_conns; i++) {
        struct wp_h2_conn *conn = h2->conns[i];
        enum wp_status status =
            conn->session != NULL ? flush(conn, err) : WP_OK;

        if (status != WP_OK) {
            status = lose(conn, status, err);
        }
        if (status != WP_OK) {
            return status;
        }
    }
    return wait_and_receive(h2, timeout_ns, err);
}
