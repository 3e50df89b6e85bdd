/* The connections of the HTTP server: accept, read, time out, free. */
#include "runtime/http/server.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include <event2/listener.h>

#include "pool/base/assert.h"
#include "pool/base/log.h"
#include "runtime/http/conn.h"

enum {
    IDLE_TIMEOUT_S = 75,
    HEAD_TIMEOUT_S = 10,
    BODY_TIMEOUT_S = 30,
    SEND_TIMEOUT_S = 60,
    LINGER_TIMEOUT_S = 2,
    INPUT_MAX = 131072, /* Bytes read ahead of what is parsed. */
};

struct listener {
    struct wp_list link;
    struct wp_http_server *server;
    struct evconnlistener *ev;
    unsigned roles;
};

static void conn_free(struct wp_http_req *req);

/* -------------------------------------------------------- the connection */

static void
timer_set(struct wp_http_req *req, int seconds)
{
    struct timeval tv = {.tv_sec = seconds};

    evtimer_add(req->timer, &tv);
}

/* Ends the exchange; the next one may begin on the same connection. */
static void
req_reset(struct wp_http_req *req)
{
    if (req->ops != NULL && req->ops->gone != NULL) {
        req->ops->gone(req);
    }
    req->ops = NULL;
    req->user = NULL;
    if (req->file_fd >= 0) {
        close(req->file_fd);
        req->file_fd = -1;
    }
    evbuffer_drain(req->body, evbuffer_get_length(req->body));
    evbuffer_drain(req->extra, evbuffer_get_length(req->extra));
    http_parser_init(&req->parser, HTTP_REQUEST);
    req->parser.data = req;
    req->at = WP_HTTP_AT_NONE;
    req->head_len = 0;
    req->head[0] = '\0';
    req->fields_count = 0;
    req->head_error = 0;
    req->body_len = 0;
    req->keep_alive = false;
    req->whole = false;
    req->replied = false;
    req->state = WP_HTTP_IDLE;
    timer_set(req, IDLE_TIMEOUT_S);
}

static void
drained_check(struct wp_http_server *server)
{
    void (*drained)(void *) = server->drained;

    if (server->draining && server->conns_count == 0 && drained != NULL) {
        server->drained = NULL;
        drained(server->drained_arg);
    }
}

static void
listeners_enable(struct wp_http_server *server, bool on)
{
    WP_LIST_FOREACH (node, &server->listeners) {
        struct listener *listener =
            WP_CONTAINER_OF(node, struct listener, link);

        if (on) {
            evconnlistener_enable(listener->ev);
        } else {
            evconnlistener_disable(listener->ev);
        }
    }
}

static void
conn_free(struct wp_http_req *req)
{
    struct wp_http_server *server = req->server;

    if (req->in_read) {
        req->dead = true;
        return;
    }
    if (req->ops != NULL && req->ops->gone != NULL) {
        const struct wp_http_ops *ops = req->ops;

        req->ops = NULL;
        ops->gone(req);
    }
    if (req->file_fd >= 0) {
        close(req->file_fd);
    }
    wp_list_remove(&req->link);
    if (req->closed != NULL) {
        event_free(req->closed);
    }
    bufferevent_free(req->bev);
    event_free(req->timer);
    evbuffer_free(req->body);
    evbuffer_free(req->extra);
    free(req);
    server->conns_count--;
    if (server->paused && !server->draining) {
        server->paused = false;
        listeners_enable(server, true);
    }
    drained_check(server);
}

static void
input_advance(struct wp_http_req *req)
{
    struct evbuffer *in = bufferevent_get_input(req->bev);

    if (req->state == WP_HTTP_IDLE && evbuffer_get_length(in) > 0) {
        req->state = WP_HTTP_READING;
        timer_set(req, HEAD_TIMEOUT_S);
    }
    if (req->state == WP_HTTP_READING) {
        wp_http_parse(req);
        if (req->ops != NULL && !req->whole && !req->replied) {
            timer_set(req, BODY_TIMEOUT_S);
        }
        if (req->whole && !req->replied) {
            evtimer_del(req->timer);
            req->state = WP_HTTP_WAITING;
            WP_ASSERT(req->ops != NULL); /* No ops means an answer. */
            req->ops->ready(req);
        }
    }
    if (req->state == WP_HTTP_UPGRADED && !req->ending) {
        req->stream->input(req, in);
    }
    if (req->state == WP_HTTP_LINGER) {
        evbuffer_drain(in, evbuffer_get_length(in));
    }
}

static void
on_readable(struct bufferevent *bev, void *arg)
{
    struct wp_http_req *req = arg;

    (void)bev;
    req->in_read = true;
    input_advance(req);
    req->in_read = false;
    if (req->dead) {
        conn_free(req);
    }
}

/* A close with unread input would reset the connection, and the client might
 * never see the answer: let it close first, for a while. */
static void
linger(struct wp_http_req *req)
{
    shutdown(bufferevent_getfd(req->bev), SHUT_WR);
    req->state = WP_HTTP_LINGER;
    timer_set(req, LINGER_TIMEOUT_S);
    bufferevent_enable(req->bev, EV_READ); /* A stream may have held it. */
    on_readable(req->bev, req);
}

/* Everything queued was sent. */
static void
on_written(struct bufferevent *bev, void *arg)
{
    struct wp_http_req *req = arg;

    if (req->state == WP_HTTP_UPGRADED) {
        if (!req->ending) {
            if (req->stream->drained != NULL) {
                req->stream->drained(req);
            }
        } else if (evbuffer_get_length(bufferevent_get_output(bev)) == 0) {
            linger(req);
        }
        return;
    }
    if (req->state != WP_HTTP_SENDING || !wp_http_reply_continue(req)) {
        return;
    }
    if (req->keep_alive && !req->server->draining) {
        req_reset(req);
        on_readable(bev, req);
        return;
    }
    linger(req);
}

static void
on_conn_event(struct bufferevent *bev, short what, void *arg)
{
    struct wp_http_req *req = arg;

    (void)bev;
    if ((what & BEV_EVENT_EOF) != 0 && req->state == WP_HTTP_UPGRADED &&
        req->ending) {
        return; /* What is queued may still reach a half-closed client. */
    }
    if (what & (BEV_EVENT_EOF | BEV_EVENT_ERROR | BEV_EVENT_TIMEOUT)) {
        conn_free(req);
    }
}

/* The kernel tells of a close apart from readable data (EPOLLRDHUP); without
 * epoll the event cannot be added, and the close is seen with the input. */
static void
on_closed(evutil_socket_t fd, short what, void *arg)
{
    struct wp_http_req *req = arg;

    (void)fd;
    (void)what;
    event_del(req->closed);
    if (!req->ending) {
        conn_free(req);
    }
}

void
wp_http_watch_close(struct wp_http_req *req)
{
    req->closed = event_new(req->server->base, bufferevent_getfd(req->bev),
                            EV_CLOSED | EV_PERSIST, on_closed, req);
    if (req->closed != NULL) {
        event_add(req->closed, NULL);
    }
}

static void
on_timer(evutil_socket_t fd, short what, void *arg)
{
    struct wp_http_req *req = arg;

    (void)fd;
    (void)what;
    if (req->state == WP_HTTP_READING && !req->replied) {
        req->keep_alive = false;
        wp_http_reply_error(req, HTTP_STATUS_REQUEST_TIMEOUT,
                            "the request did not arrive in time");
        timer_set(req, SEND_TIMEOUT_S);
        return;
    }
    conn_free(req);
}

static struct wp_http_req *
conn_create(struct listener *listener, evutil_socket_t fd)
{
    struct wp_http_server *server = listener->server;
    struct wp_http_req *req = calloc(1, sizeof(*req));
    struct timeval send = {.tv_sec = SEND_TIMEOUT_S};

    if (req == NULL) {
        return NULL;
    }
    wp_list_init(&req->link);
    req->server = server;
    req->roles = listener->roles;
    req->file_fd = -1;
    req->bev = bufferevent_socket_new(server->base, fd, BEV_OPT_CLOSE_ON_FREE);
    req->timer = evtimer_new(server->base, on_timer, req);
    req->body = evbuffer_new();
    req->extra = evbuffer_new();
    if (req->bev == NULL || req->timer == NULL || req->body == NULL ||
        req->extra == NULL) {
        if (req->bev != NULL) {
            bufferevent_free(req->bev);
        } else {
            evutil_closesocket(fd);
        }
        if (req->timer != NULL) {
            event_free(req->timer);
        }
        if (req->body != NULL) {
            evbuffer_free(req->body);
        }
        free(req);
        return NULL;
    }
    bufferevent_setcb(req->bev, on_readable, on_written, on_conn_event, req);
    bufferevent_setwatermark(req->bev, EV_READ, 0, INPUT_MAX);
    bufferevent_set_timeouts(req->bev, NULL, &send);
    return req;
}

static void
on_accept(struct evconnlistener *ev, evutil_socket_t fd, struct sockaddr *addr,
          int addr_len, void *arg)
{
    struct listener *listener = arg;
    struct wp_http_server *server = listener->server;
    struct wp_http_req *req = conn_create(listener, fd);

    (void)ev;
    (void)addr;
    (void)addr_len;
    if (req == NULL) {
        wp_log_warn("connection dropped: out of memory");
        return;
    }
    wp_list_push_back(&server->conns, &req->link);
    server->conns_count++;
    req_reset(req);
    bufferevent_enable(req->bev, EV_READ | EV_WRITE);
    if (server->conns_count >= server->conns_max) {
        server->paused = true;
        listeners_enable(server, false);
    }
}

/* ------------------------------------------------------------ the server */

struct wp_http_server *
wp_http_server_create(struct event_base *base, wp_http_route_fn route,
                      void *app, uint32_t conns_max)
{
    struct wp_http_server *server = calloc(1, sizeof(*server));

    if (server != NULL) {
        server->base = base;
        server->route = route;
        server->app = app;
        server->conns_max = conns_max;
        wp_list_init(&server->listeners);
        wp_list_init(&server->conns);
    }
    return server;
}

enum wp_status
wp_http_server_listen(struct wp_http_server *server, int fd, unsigned roles,
                      struct wp_err *err)
{
    struct listener *listener = calloc(1, sizeof(*listener));

    if (listener != NULL) {
        listener->server = server;
        listener->roles = roles;
        listener->ev = evconnlistener_new(
            server->base, on_accept, listener,
            LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC, 512, fd);
    }
    if (listener == NULL || listener->ev == NULL) {
        free(listener);
        close(fd);
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED, "cannot listen");
    }
    wp_list_push_back(&server->listeners, &listener->link);
    return WP_OK;
}

/* Frees the connections, or the idle ones; freeing one frees no other. */
static void
conns_free(struct wp_http_server *server, bool only_idle)
{
    struct wp_list *node = server->conns.next;

    while (node != &server->conns) {
        struct wp_http_req *req =
            WP_CONTAINER_OF(node, struct wp_http_req, link);

        node = node->next;
        if (!only_idle || req->state == WP_HTTP_IDLE) {
            conn_free(req);
        }
    }
}

static void
listeners_free(struct wp_http_server *server)
{
    struct wp_list *node;

    while ((node = wp_list_pop_front(&server->listeners)) != NULL) {
        struct listener *listener =
            WP_CONTAINER_OF(node, struct listener, link);

        evconnlistener_free(listener->ev);
        free(listener);
    }
}

void
wp_http_server_drain(struct wp_http_server *server, void (*drained)(void *arg),
                     void *arg)
{
    server->draining = true;
    listeners_free(server);
    conns_free(server, true);
    server->drained = drained;
    server->drained_arg = arg;
    drained_check(server);
}

void
wp_http_server_destroy(struct wp_http_server *server)
{
    if (server == NULL) {
        return;
    }
    server->drained = NULL;
    server->draining = true;
    listeners_free(server);
    conns_free(server, false);
    free(server);
}
