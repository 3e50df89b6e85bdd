/* The life of a connection: its phases, deadlines and end. */
#include "proto/formats/http_conn.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "pool/base/clock.h"

/* How long a client may take to notice that it was answered and go. */
#define LINGER_NS (2 * WP_NS_PER_S)
/* How often a client that has closed its sending side is looked for, and over
 * TCP asked whether it is still there. */
#define HALF_LOOK_NS (1 * WP_NS_PER_S)
enum {
    HALF_PROBE_S = 10,
};

static size_t
queued(const struct wp_http_req *req)
{
    return evbuffer_get_length(bufferevent_get_output(req->bev));
}

void
wp_http_set_deadline(struct wp_http_req *req, int64_t in_ns)
{
    struct timeval tv = wp_timeval(in_ns);

    if (in_ns > 0) {
        (void)event_add(req->deadline, &tv);
    } else {
        (void)event_del(req->deadline);
    }
}

void
wp_http_conn_set_send_timeout(struct wp_http_req *req)
{
    struct timeval stall = wp_timeval(req->server->config.send_timeout_ns);

    (void)bufferevent_set_timeouts(req->bev, NULL, &stall);
}

void
wp_http_conn_end_request(struct wp_http_req *req)
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
    req->answer_begun = false;
    req->looks = 0;
}

void
wp_http_conn_close(struct wp_http_req *req)
{
    struct wp_http_server *server = req->server;

    if (req->phase == WP_HTTP_CLOSED) {
        return;
    }
    req->phase = WP_HTTP_CLOSED;
    wp_http_conn_end_request(req);
    if (req->admitted && server->config.left != NULL) {
        server->config.left(req);
    }
    if (req->left != NULL) {
        event_free(req->left);
    }
    if (req->half != NULL) {
        event_free(req->half);
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

    if (req->secure != NULL) {
        req->secure->end(req->bev);
    }
    (void)shutdown(bufferevent_getfd(req->bev), SHUT_WR);
    req->phase = WP_HTTP_LINGER;
    wp_http_set_deadline(req, LINGER_NS);
    (void)evbuffer_drain(in, evbuffer_get_length(in));
    wp_http_bound_read(&req->bound, true); /* A stream may hold it. */
}

/* -------------------------------------------------------------- callbacks */

static void
on_read(struct bufferevent *bev, void *ctx)
{
    struct wp_http_req *req = ctx;
    struct evbuffer *in = bufferevent_get_input(bev);

    if (req->phase == WP_HTTP_HEAD) {
        wp_http_read_head(req);
    } else if (req->phase == WP_HTTP_BODY) {
        wp_http_read_body(req);
    } else if (req->phase == WP_HTTP_STREAM && req->stream->input != NULL) {
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

bool
wp_http_client_left(const struct wp_http_req *req)
{
    struct pollfd fd = {.fd = bufferevent_getfd(req->bev)};

    return poll(&fd, 1, 0) > 0 && (fd.revents & (POLLHUP | POLLERR)) != 0;
}

/* Only data shows whether somebody is still there to take it, and an answer is
 * not there yet. But it will begin as all do: so its first bytes go out alone,
 * after 1, 2, 4, ... looks, which no client can tell from a slow answer. */
static void
send_early(struct wp_http_req *req)
{
    bool is_due = (req->looks & (req->looks - 1)) == 0;

    if (is_due && req->is_tcp && !req->answer_begun && req->ops != NULL &&
        (req->phase == WP_HTTP_WAIT || req->phase == WP_HTTP_STREAM) &&
        req->early < strlen(WP_HTTP_STATUS_START)) {
        (void)bufferevent_write(req->bev, &WP_HTTP_STATUS_START[req->early++],
                                1);
    }
}

static void
on_half(evutil_socket_t fd, short what, void *ctx)
{
    struct wp_http_req *req = ctx;

    (void)fd;
    (void)what;
    if (req->phase == WP_HTTP_LINGER) {
        return;
    }
    if (wp_http_client_left(req)) {
        wp_http_conn_close(req);
        return;
    }
    req->looks++;
    send_early(req);
}

void
wp_http_half_closed(struct wp_http_req *req)
{
    struct timeval every = wp_timeval(HALF_LOOK_NS);
    int fd = bufferevent_getfd(req->bev);
    int probe_s = HALF_PROBE_S;

    req->said_all = true;
    if (req->half != NULL) {
        return;
    }
    /* Later on keepalive probes find out, too; an error on a Unix socket. */
    req->is_tcp = setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &probe_s,
                             sizeof probe_s) == 0 &&
                  setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &probe_s,
                             sizeof probe_s) == 0;
    req->half =
        event_new(req->server->config.base, -1, EV_PERSIST, on_half, req);
    if (req->half != NULL) {
        (void)event_add(req->half, &every);
    }
    send_early(req);
}

/* The client has said all: what it asked for is still answered. */
static void
on_eof(struct wp_http_req *req)
{
    if (req->phase == WP_HTTP_ENDING) {
        return; /* What is queued may still reach it. */
    }
    if (req->phase == WP_HTTP_STREAM || req->phase == WP_HTTP_LINGER ||
        wp_http_client_left(req)) {
        wp_http_conn_close(req);
        return;
    }
    wp_http_half_closed(req);
    if (req->phase == WP_HTTP_HEAD) {
        wp_http_read_head(req);
    } else if (req->phase == WP_HTTP_BODY) {
        wp_http_read_body(req);
    }
}

static void
on_event(struct bufferevent *bev, short what, void *ctx)
{
    struct wp_http_req *req = ctx;

    (void)bev;
    if ((what & BEV_EVENT_CONNECTED) != 0) {
        req->opening = false;
    } else if (req->phase == WP_HTTP_STREAM && req->stream->event != NULL) {
        req->stream->event(req, what);
    } else if ((what & BEV_EVENT_EOF) != 0) {
        on_eof(req);
    } else {
        wp_http_conn_close(req);
    }
}

static void
on_deadline(evutil_socket_t fd, short what, void *ctx)
{
    struct wp_http_req *req = ctx;

    (void)fd;
    (void)what;
    if (req->opening) {
        wp_http_conn_close(req);
        return;
    }
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
wp_http_conn_open(struct wp_http_server *server, int fd, unsigned roles,
                  const struct wp_http_secure *secure)
{
    struct wp_http_req *req = calloc(1, sizeof *req + server->config.peer_size);

    if (req != NULL) {
        req->bev = secure != NULL
                       ? secure->open(secure->ctx, server->config.base, fd)
                       : bufferevent_socket_new(server->config.base, fd,
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
        if (req != NULL && req->extra != NULL) {
            evbuffer_free(req->extra);
        }
        free(req);
        return NULL;
    }
    req->server = server;
    req->secure = secure;
    req->opening = secure != NULL;
    req->roles = roles;
    req->file_fd = -1;
    wp_list_push_back(&server->conns, &req->node);
    server->stats.connections++;
    bufferevent_setcb(req->bev, on_read, on_written, on_event, req);
    wp_http_bound_set(&req->bound, req->bev);
    wp_http_conn_set_send_timeout(req);
    (void)bufferevent_enable(req->bev, EV_READ | EV_WRITE);
    /* From here on a head is expected, however slowly the first byte comes. */
    wp_http_set_deadline(req, server->config.head_timeout_ns);
    return req;
}
