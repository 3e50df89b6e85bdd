/* The server: its listeners, the bound of connections, its end. */
#include "proto/formats/http_conn.h"

#include <errno.h>
#include <event2/listener.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "pool/base/assert.h"
#include "pool/base/log.h"

enum {
    BACKLOG = 512,
};

struct listener {
    struct wp_list node;
    struct wp_http_server *server;
    struct evconnlistener *events;
    unsigned roles;
};

static void
listeners_enable(struct wp_http_server *server, bool on)
{
    WP_LIST_FOREACH (node, &server->listeners) {
        struct listener *listener =
            WP_CONTAINER_OF(node, struct listener, node);

        if (on) {
            (void)evconnlistener_enable(listener->events);
        } else {
            (void)evconnlistener_disable(listener->events);
        }
    }
}

static void
refuse_busy(struct wp_http_server *server, int fd)
{
    static const char busy[] =
        "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\n"
        "Content-Length: 0\r\nConnection: close\r\n\r\n";
    ssize_t ignored =
        send(fd, busy, sizeof busy - 1, MSG_DONTWAIT | MSG_NOSIGNAL);

    (void)ignored;
    (void)close(fd);
    server->stats.connections_refused++;
}

static void
on_accept(struct evconnlistener *events, evutil_socket_t fd,
          struct sockaddr *peer, int peer_len, void *ctx)
{
    const struct listener *listener = ctx;
    struct wp_http_server *server = listener->server;
    const struct wp_http_server_config *config = &server->config;
    const char *why = NULL;
    struct wp_http_req *req;
    int one = 1;

    (void)events;
    (void)peer;
    (void)peer_len;
    server->stats.connections_total++;
    if (server->stats.connections >= config->conns_max && config->refuse_over) {
        refuse_busy(server, fd);
        return;
    }
    /* Both are errors on a Unix socket, or without effect. */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
    if (config->admit != NULL) {
        why = config->admit(config->app, fd, listener->roles);
    }
    req = wp_http_conn_open(server, fd, listener->roles);
    if (req == NULL) {
        wp_log_warn("connection dropped: out of memory");
        return;
    }
    if (why != NULL) {
        server->stats.connections_refused++;
        wp_http_reply_error(req, HTTP_STATUS_FORBIDDEN, "%s", why);
    }
    if (server->stats.connections >= config->conns_max &&
        !config->refuse_over) {
        server->paused = true;
        listeners_enable(server, false);
    }
}

/* Out of descriptors, most likely: the listener would be readable for ever, so
 * it rests for a moment. */
static void
on_accept_error(struct evconnlistener *events, void *ctx)
{
    const struct listener *listener = ctx;
    struct timeval pause = {0, 100000};

    (void)evconnlistener_disable(events);
    (void)event_add(listener->server->resume, &pause);
}

static void
on_resume(evutil_socket_t fd, short what, void *ctx)
{
    struct wp_http_server *server = ctx;

    (void)fd;
    (void)what;
    listeners_enable(server, !server->paused);
}

static void
on_reap(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd;
    (void)what;
    wp_http_conn_reap(ctx);
}

struct wp_http_server *
wp_http_server_create(const struct wp_http_server_config *config)
{
    struct wp_http_server *server = calloc(1, sizeof *server);

    WP_ASSERT(config->fields_max <= WP_HTTP_FIELDS_MAX);
    if (server == NULL) {
        return NULL;
    }
    server->config = *config;
    wp_list_init(&server->listeners);
    wp_list_init(&server->conns);
    wp_list_init(&server->closed);
    server->reap = event_new(config->base, -1, 0, on_reap, server);
    server->resume = event_new(config->base, -1, 0, on_resume, server);
    if (server->reap == NULL || server->resume == NULL) {
        wp_http_server_destroy(server);
        return NULL;
    }
    return server;
}

enum wp_status
wp_http_server_listen(struct wp_http_server *server, int fd, unsigned roles,
                      struct wp_err *err)
{
    struct listener *listener = calloc(1, sizeof *listener);

    if (listener != NULL) {
        listener->server = server;
        listener->roles = roles;
        listener->events = evconnlistener_new(
            server->config.base, on_accept, listener,
            LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC, BACKLOG, fd);
    }
    if (listener == NULL || listener->events == NULL) {
        free(listener);
        (void)close(fd);
        return wp_err_sys(err, WP_RESOURCE_EXHAUSTED, errno, "cannot listen");
    }
    evconnlistener_set_error_cb(listener->events, on_accept_error);
    wp_list_push_back(&server->listeners, &listener->node);
    return WP_OK;
}

void
wp_http_server_left(struct wp_http_server *server)
{
    void (*drained)(void *) = server->drained;

    server->stats.connections--;
    if (server->paused && !server->draining) {
        server->paused = false;
        listeners_enable(server, true);
    }
    if (server->stats.connections == 0 && drained != NULL) {
        server->drained = NULL;
        drained(server->drained_arg);
    }
}

/* Closes the connections, or the idle ones; closing one closes no other. */
static void
conns_close(struct wp_http_server *server, bool only_idle)
{
    struct wp_list *node = server->conns.next;

    while (node != &server->conns) {
        struct wp_http_req *req =
            WP_CONTAINER_OF(node, struct wp_http_req, node);

        node = node->next;
        if (!only_idle ||
            (req->phase == WP_HTTP_HEAD &&
             evbuffer_get_length(bufferevent_get_input(req->bev)) == 0)) {
            wp_http_conn_close(req);
        }
    }
}

static void
listeners_free(struct wp_http_server *server)
{
    struct wp_list *node;

    while ((node = wp_list_pop_front(&server->listeners)) != NULL) {
        struct listener *listener =
            WP_CONTAINER_OF(node, struct listener, node);

        evconnlistener_free(listener->events);
        free(listener);
    }
}

void
wp_http_server_drain(struct wp_http_server *server, void (*drained)(void *arg),
                     void *arg)
{
    server->draining = true;
    listeners_free(server);
    conns_close(server, true);
    if (server->stats.connections == 0) {
        drained(arg);
        return;
    }
    server->drained = drained;
    server->drained_arg = arg;
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
    conns_close(server, false);
    wp_http_conn_reap(server);
    if (server->reap != NULL) {
        event_free(server->reap);
    }
    if (server->resume != NULL) {
        event_free(server->resume);
    }
    free(server);
}

struct wp_http_server_stats
wp_http_server_stats(const struct wp_http_server *server)
{
    return server->stats;
}
