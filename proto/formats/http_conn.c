/* The life of a connection: heads and bodies in, phases, deadlines, the end. */
#include "proto/formats/http_conn.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "pool/base/assert.h"
#include "pool/base/clock.h"

/* How long a client may take to notice that it was answered and go. */
#define LINGER_NS (2 * WP_NS_PER_S)

static struct timeval
to_timeval(int64_t duration_ns)
{
    return (struct timeval){duration_ns / WP_NS_PER_S,
                            duration_ns % WP_NS_PER_S / 1000};
}

static size_t
queued(const struct wp_http_req *req)
{
    return evbuffer_get_length(bufferevent_get_output(req->bev));
}

void
wp_http_set_deadline(struct wp_http_req *req, int64_t in_ns)
{
    struct timeval tv = to_timeval(in_ns);

    if (in_ns > 0) {
        (void)event_add(req->deadline, &tv);
    } else {
        (void)event_del(req->deadline);
    }
}

static void
set_send_timeout(struct wp_http_req *req)
{
    struct timeval stall = to_timeval(req->server->config.send_timeout_ns);

    (void)bufferevent_set_timeouts(req->bev, NULL, &stall);
}

/* The request is over: nothing of it is left. */
static void
end_request(struct wp_http_req *req)
{
    const struct wp_http_ops *ops = req->ops;

    req->ops = NULL;
    if (ops != NULL && ops->gone != NULL) {
        ops->gone(req);
    }
    req->user = NULL;
    if (req->file_fd >= 0) {
        (void)close(req->file_fd);
        req->file_fd = -1;
    }
    free(req->head);
    free(req->path);
    req->head = NULL;
    req->path = NULL;
    memset(&req->message, 0, sizeof req->message);
    req->body_len = 0;
    req->keep_alive = false;
    req->replied = false;
}

void
wp_http_conn_close(struct wp_http_req *req)
{
    struct wp_http_server *server = req->server;

    if (req->phase == WP_HTTP_CLOSED) {
        return;
    }
    req->phase = WP_HTTP_CLOSED;
    end_request(req);
    if (req->left != NULL) {
        event_free(req->left);
    }
    bufferevent_free(req->bev);
    event_free(req->deadline);
    evbuffer_free(req->body);
    evbuffer_free(req->extra);
    wp_list_remove(&req->node);
    wp_list_push_back(&server->closed, &req->node);
    event_active(server->reap, EV_TIMEOUT, 0);
    wp_http_server_left(server);
}

void
wp_http_conn_reap(struct wp_http_server *server)
{
    struct wp_list *node;

    while ((node = wp_list_pop_front(&server->closed)) != NULL) {
        free(WP_CONTAINER_OF(node, struct wp_http_req, node));
    }
}

/* A close with unread input would reset the connection, and the client might
 * never see the answer: let it close first, for a while. */
static void
linger(struct wp_http_req *req)
{
    struct evbuffer *in = bufferevent_get_input(req->bev);

    (void)shutdown(bufferevent_getfd(req->bev), SHUT_WR);
    req->phase = WP_HTTP_LINGER;
    wp_http_set_deadline(req, LINGER_NS);
    (void)evbuffer_drain(in, evbuffer_get_length(in));
    (void)bufferevent_enable(req->bev, EV_READ); /* A stream may hold it. */
}

void
wp_http_stream_next(struct wp_http_req *req)
{
    struct evbuffer *body = req->body;

    end_request(req);
    (void)evbuffer_drain(body, evbuffer_get_length(body));
    (void)evbuffer_drain(req->extra, evbuffer_get_length(req->extra));
    set_send_timeout(req);
    req->phase = WP_HTTP_HEAD;
    req->idle = true;
    /* Not read on from here: callers are in the middle of a request. */
    bufferevent_trigger(req->bev, EV_READ,
                        BEV_TRIG_IGNORE_WATERMARKS | BEV_TRIG_DEFER_CALLBACKS);
}

/* ----------------------------------------------------------------- bodies */

static void
on_body(void *ctx, const char *data, size_t len)
{
    struct wp_http_req *req = ctx;

    if (req->replied) {
        return;
    }
    req->body_len += len;
    if (req->body_len > req->ops->body_max) {
        wp_http_reply_error(req, HTTP_STATUS_PAYLOAD_TOO_LARGE,
                            "body too large: at most %llu bytes are taken",
                            (unsigned long long)req->ops->body_max);
    } else if (req->ops->body != NULL) {
        req->ops->body(req, data, len);
    } else if (evbuffer_add(req->body, data, len) != 0) {
        wp_http_reply_error(req, HTTP_STATUS_INTERNAL_SERVER_ERROR,
                            "out of memory for the body");
    }
}

static void
read_body(struct wp_http_req *req)
{
    struct evbuffer *in = bufferevent_get_input(req->bev);
    struct evbuffer_iovec piece;

    while (!req->message.done && !req->replied &&
           evbuffer_peek(in, -1, NULL, &piece, 1) > 0 && piece.iov_len > 0) {
        int64_t used = wp_http_message_body(
            &req->message, (struct wp_str){piece.iov_base, piece.iov_len});

        if (used < 0 && !req->replied) {
            wp_http_reply_error(req, HTTP_STATUS_BAD_REQUEST,
                                "malformed request: the body is broken");
        }
        (void)evbuffer_drain(in, used > 0 ? (size_t)used : 0);
    }
    if (req->replied) {
        return;
    }
    if (!req->message.done) {
        wp_http_set_deadline(req, req->server->config.body_timeout_ns);
        return;
    }
    wp_http_set_deadline(req, 0);
    req->phase = WP_HTTP_WAIT;
    req->ops->ready(req);
}

/* ------------------------------------------------------------------ heads */

/* Ends each string in place: what follows it is read already. */
static void
terminate_fields(struct wp_http_req *req)
{
    for (uint32_t i = 0; i < req->message.n_fields; i++) {
        const struct wp_http_field *field = &req->message.fields[i];

        if (field->value.ptr != NULL) {
            req->head[field->value.ptr - req->head +
                      (ptrdiff_t)field->value.len] = '\0';
        }
    }
}

/* False: it was answered. */
static bool
parse_head(struct wp_http_req *req, struct wp_str head)
{
    struct wp_http_message *m = &req->message;
    const char *why = "";
    bool good = wp_http_parse_request(m, head, &why);

    if (m->too_many || m->n_fields > req->server->config.fields_max) {
        wp_http_reply_error(req, HTTP_STATUS_REQUEST_HEADER_FIELDS_TOO_LARGE,
                            "the head has too many fields");
        return false;
    }
    if (!good) {
        wp_http_reply_error(req, HTTP_STATUS_BAD_REQUEST,
                            "malformed request: %s", why);
        return false;
    }
    terminate_fields(req);
    req->path = strndup(m->target.ptr, m->target.len);
    if (req->path == NULL) {
        wp_http_reply_error(req, HTTP_STATUS_INTERNAL_SERVER_ERROR,
                            "out of memory for the head");
        return false;
    }
    req->path[strcspn(req->path, "?#")] = '\0';
    m->on_body = on_body;
    m->ctx = req;
    req->keep_alive = m->keep_alive;
    return true;
}

/* A complete head, which ends the phase. */
static void
begin_request(struct wp_http_req *req, struct wp_str head)
{
    const struct wp_http_message *m = &req->message;
    const char *expect;

    wp_http_set_deadline(req, 0);
    req->server->stats.requests_total++;
    if (!parse_head(req, head)) {
        return;
    }
    req->ops = req->server->config.route(req);
    if (req->ops == NULL) {
        WP_ASSERT(req->replied);
        return;
    }
    if (m->length > req->ops->body_max) {
        wp_http_reply_error(req, HTTP_STATUS_PAYLOAD_TOO_LARGE,
                            "body of %llu bytes: at most %llu are taken",
                            (unsigned long long)m->length,
                            (unsigned long long)req->ops->body_max);
        return;
    }
    if (req->ops->begin != NULL) {
        req->ops->begin(req);
    }
    if (req->replied || req->phase == WP_HTTP_CLOSED) {
        return;
    }
    expect = wp_http_header(req, "Expect");
    if (expect != NULL && strcasecmp(expect, "100-continue") == 0 &&
        m->minor == 1 && !m->done) {
        static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";

        (void)bufferevent_write(req->bev, go_on, sizeof go_on - 1);
    }
    if (req->phase == WP_HTTP_HEAD) {
        req->phase = WP_HTTP_BODY;
        read_body(req);
    }
}

/* Empty lines before a request are allowed, and ignored. */
static void
skip_empty_lines(struct evbuffer *in)
{
    char c;

    while (evbuffer_copyout(in, &c, 1) == 1 && (c == '\r' || c == '\n')) {
        (void)evbuffer_drain(in, 1);
    }
}

static void
read_head(struct wp_http_req *req)
{
    struct evbuffer *in = bufferevent_get_input(req->bev);
    const struct wp_http_server_config *config = &req->server->config;
    struct wp_str text;
    size_t have;
    size_t len;

    skip_empty_lines(in);
    have = evbuffer_get_length(in);
    if (req->idle) {
        req->idle = have == 0;
        wp_http_set_deadline(req, req->idle ? config->idle_timeout_ns
                                            : config->head_timeout_ns);
    }
    if (have == 0) {
        return;
    }
    text.len = have < WP_HTTP_HEAD_MAX ? have : WP_HTTP_HEAD_MAX;
    text.ptr = (const char *)evbuffer_pullup(in, (ev_ssize_t)text.len);
    if (text.ptr == NULL) {
        wp_http_conn_close(req);
        return;
    }
    len = wp_http_head_len(text);
    if (len == SIZE_MAX) {
        wp_http_reply_error(req, HTTP_STATUS_REQUEST_HEADER_FIELDS_TOO_LARGE,
                            "the head has more than %d bytes",
                            WP_HTTP_HEAD_MAX);
    } else if (len > 0) {
        req->head = malloc(len);
        if (req->head == NULL) {
            wp_http_conn_close(req);
            return;
        }
        (void)evbuffer_remove(in, req->head, len);
        begin_request(req, (struct wp_str){req->head, len});
    }
}

/* -------------------------------------------------------------- callbacks */

static void
on_read(struct bufferevent *bev, void *ctx)
{
    struct wp_http_req *req = ctx;
    struct evbuffer *in = bufferevent_get_input(bev);

    if (req->phase == WP_HTTP_HEAD) {
        read_head(req);
    } else if (req->phase == WP_HTTP_BODY) {
        read_body(req);
    } else if (req->phase == WP_HTTP_STREAM) {
        req->stream->input(req, in);
    } else if (req->phase == WP_HTTP_LINGER) {
        (void)evbuffer_drain(in, evbuffer_get_length(in));
    }
}

static void
on_written(struct bufferevent *bev, void *ctx)
{
    struct wp_http_req *req = ctx;

    (void)bev;
    if (req->phase == WP_HTTP_STREAM && req->stream->drained != NULL) {
        req->stream->drained(req);
    } else if (req->phase == WP_HTTP_SEND && wp_http_reply_continue(req)) {
        if (req->keep_alive && !req->server->draining) {
            wp_http_stream_next(req);
        } else {
            linger(req);
        }
    } else if (req->phase == WP_HTTP_ENDING && queued(req) == 0) {
        linger(req);
    }
}

static void
on_event(struct bufferevent *bev, short what, void *ctx)
{
    struct wp_http_req *req = ctx;

    (void)bev;
    if (req->phase == WP_HTTP_STREAM && req->stream->event != NULL) {
        req->stream->event(req, what);
    } else if (req->phase != WP_HTTP_ENDING || (what & BEV_EVENT_EOF) == 0) {
        /* What is queued may still reach a half-closed client. */
        wp_http_conn_close(req);
    }
}

static void
on_deadline(evutil_socket_t fd, short what, void *ctx)
{
    struct wp_http_req *req = ctx;

    (void)fd;
    (void)what;
    if (req->phase == WP_HTTP_STREAM) {
        req->stream->late(req);
    } else if (req->phase == WP_HTTP_BODY ||
               (req->phase == WP_HTTP_HEAD && !req->idle)) {
        wp_http_reply_error(req, HTTP_STATUS_REQUEST_TIMEOUT,
                            "the request did not arrive in time");
    } else {
        wp_http_conn_close(req);
    }
}

struct wp_http_req *
wp_http_conn_open(struct wp_http_server *server, int fd, unsigned roles)
{
    struct wp_http_req *req = calloc(1, sizeof *req);

    if (req != NULL) {
        req->bev = bufferevent_socket_new(server->config.base, fd,
                                          BEV_OPT_CLOSE_ON_FREE);
        req->deadline = evtimer_new(server->config.base, on_deadline, req);
        req->body = evbuffer_new();
        req->extra = evbuffer_new();
    }
    if (req == NULL || req->bev == NULL || req->deadline == NULL ||
        req->body == NULL || req->extra == NULL) {
        if (req == NULL || req->bev == NULL) {
            (void)close(fd);
        } else {
            bufferevent_free(req->bev);
        }
        if (req != NULL && req->deadline != NULL) {
            event_free(req->deadline);
        }
        if (req != NULL && req->body != NULL) {
            evbuffer_free(req->body);
        }
        free(req);
        return NULL;
    }
    req->server = server;
    req->roles = roles;
    req->file_fd = -1;
    wp_list_push_back(&server->conns, &req->node);
    server->stats.connections++;
    bufferevent_setcb(req->bev, on_read, on_written, on_event, req);
    bufferevent_setwatermark(req->bev, EV_READ, 0, WP_HTTP_BUFFER);
    bufferevent_setwatermark(req->bev, EV_WRITE, WP_HTTP_BUFFER / 2, 0);
    set_send_timeout(req);
    (void)bufferevent_enable(req->bev, EV_READ | EV_WRITE);
    /* From here on a head is expected, however slowly the first byte comes. */
    wp_http_set_deadline(req, server->config.head_timeout_ns);
    return req;
}

/* ---------------------------------------------------------------- streams */

/* The kernel tells of a close apart from readable data (EPOLLRDHUP); without
 * epoll the event cannot be added, and the close is seen with the input. */
static void
on_left(evutil_socket_t fd, short what, void *ctx)
{
    struct wp_http_req *req = ctx;

    (void)fd;
    (void)what;
    (void)event_del(req->left);
    if (req->phase == WP_HTTP_STREAM) {
        wp_http_conn_close(req);
    }
}

void
wp_http_take(struct wp_http_req *req, const struct wp_http_stream_ops *ops)
{
    WP_ASSERT(!req->replied);
    req->message.on_body = NULL;
    req->stream = ops;
    req->phase = WP_HTTP_STREAM;
    wp_http_set_deadline(req, 0);
}

void
wp_http_upgrade(struct wp_http_req *req, const char *protocol,
                const struct wp_http_stream_ops *ops)
{
    WP_ASSERT(req->message.done);
    wp_http_take(req, ops);
    req->replied = true;
    (void)bufferevent_set_timeouts(req->bev, NULL, NULL);
    req->left = event_new(req->server->config.base, bufferevent_getfd(req->bev),
                          EV_CLOSED | EV_PERSIST, on_left, req);
    if (req->left != NULL) {
        (void)event_add(req->left, NULL);
    }
    (void)evbuffer_add_printf(bufferevent_get_output(req->bev),
                              "HTTP/1.1 101 Switching Protocols\r\n"
                              "Connection: Upgrade\r\nUpgrade: %s\r\n\r\n",
                              protocol);
    /* What came with the request is handed over from the loop. */
    bufferevent_trigger(req->bev, EV_READ, BEV_TRIG_DEFER_CALLBACKS);
}

struct bufferevent *
wp_http_bufferevent(struct wp_http_req *req)
{
    return req->bev;
}

struct evbuffer *
wp_http_stream_output(struct wp_http_req *req)
{
    return bufferevent_get_output(req->bev);
}

void
wp_http_stream_read(struct wp_http_req *req, bool on)
{
    if (on && req->phase == WP_HTTP_STREAM) {
        (void)bufferevent_enable(req->bev, EV_READ);
        bufferevent_trigger(req->bev, EV_READ, BEV_TRIG_DEFER_CALLBACKS);
    } else {
        (void)bufferevent_disable(req->bev, EV_READ);
    }
}

void
wp_http_stream_end(struct wp_http_req *req)
{
    req->phase = WP_HTTP_ENDING;
    wp_http_set_deadline(req, 0);
    set_send_timeout(req);
    bufferevent_trigger(req->bev, EV_WRITE, BEV_TRIG_DEFER_CALLBACKS);
}

void
wp_http_stream_drop(struct wp_http_req *req)
{
    wp_http_conn_close(req);
}
