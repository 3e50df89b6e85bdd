/* The server: its listeners, the bound of connections, its end. */
#include "proto/formats/http_conn.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "pool/base/assert.h"
#include "pool/base/log.h"
#include "proto/sockets/accept.h"

enum {
    BACKLOG = 512,
};

struct listener {
    struct wp_list node;
    struct wp_http_server *server;
    struct event *ready;
    int fd;
    unsigned roles;
    const struct wp_http_secure *secure; /* NULL: in clear. */
};

static void
listeners_enable(struct wp_http_server *server, bool on)
{
    WP_LIST_FOREACH (node, &server->listeners) {
        struct listener *listener =
            WP_CONTAINER_OF(node, struct listener, node);

        if (on) {
            (void)event_add(listener->ready, NULL);
        } else {
            (void)event_del(listener->ready);
        }
    }
}

static void
admit(struct wp_http_req *req, int fd, const struct sockaddr *peer)
{
    struct wp_http_server *server = req->server;
    const char *why = server->config.admit(req, fd, peer);

    req->admitted = why == NULL;
    if (why != NULL) {
        server->stats.connections_refused++;
        wp_http_reply_error(req, HTTP_STATUS_FORBIDDEN, "%s", why);
    }
}

static void
take(const struct listener *listener, int fd, const struct sockaddr *peer)
{
    struct wp_http_server *server = listener->server;
    struct wp_http_req *req;
    int one = 1;

    server->stats.connections_total++;
    /* Both are errors on a Unix socket, or without effect. */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
    req = wp_http_conn_open(server, fd, listener->roles, listener->secure);
    if (req != NULL && server->config.admit != NULL) {
        admit(req, fd, peer);
    }
    if (server->stats.connections >= server->config.conns_max) {
        server->paused = true;
        listeners_enable(server, false);
    }
}

/* Descriptors or memory have run out. One line says so, until a connection has
 * been taken again. */
static void
rest(struct wp_http_server *server)
{
    struct timeval pause = {0, WP_ACCEPT_PAUSE_MS * 1000};

    if (!server->exhausted) {
        server->exhausted = true;
        wp_log_warn("connections wait: descriptors have run out");
    }
    listeners_enable(server, false);
    (void)event_add(server->resume, &pause);
}

static void
on_ready(evutil_socket_t listen_fd, short what, void *ctx)
{
    const struct listener *listener = ctx;
    struct wp_http_server *server = listener->server;
    struct sockaddr_storage peer;
    int fd;

    (void)what;
    for (int i = 0; i < WP_ACCEPTS_PER_TURN && !server->paused; i++) {
        switch (wp_accept_next(listen_fd, &fd, &peer)) {
        case WP_ACCEPT_EXHAUSTED:
            rest(server);
            return;
        case WP_ACCEPT_NONE:
            return;
        case WP_ACCEPT_TAKEN:
        default:
            server->exhausted = false;
            take(listener, fd, (const struct sockaddr *)&peer);
            break;
        }
    }
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
    return wp_http_server_listen_secure(server, fd, roles, NULL, err);
}

enum wp_status
wp_http_server_listen_secure(struct wp_http_server *server, int fd,
                             unsigned roles,
                             const struct wp_http_secure *secure,
                             struct wp_err *err)
{
    struct listener *listener = calloc(1, sizeof *listener);

    if (listener != NULL && listen(fd, BACKLOG) == 0) {
        *listener = (struct listener){
            .server = server, .fd = fd, .roles = roles, .secure = secure};
        listener->ready = event_new(server->config.base, fd,
                                    EV_READ | EV_PERSIST, on_ready, listener);
    }
    if (listener == NULL || listener->ready == NULL ||
        event_add(listener->ready, NULL) != 0) {
        if (listener != NULL && listener->ready != NULL) {
            event_free(listener->ready);
        }
        free(listener);
        (void)close(fd);
        return wp_err_sys(err, WP_RESOURCE_EXHAUSTED, errno, "cannot listen");
    }
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
listener_free(struct listener *listener)
{
    wp_list_remove(&listener->node);
    event_free(listener->ready);
    (void)close(listener->fd);
    free(listener);
}

static void
listeners_free(struct wp_http_server *server)
{
    while (!wp_list_empty(&server->listeners)) {
        /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): it leaves the list. */
        listener_free(
            WP_CONTAINER_OF(server->listeners.next, struct listener, node));
    }
}

void
wp_http_server_unlisten(struct wp_http_server *server, unsigned roles)
{
    struct wp_list *node = server->listeners.next;

    while (node != &server->listeners) {
        struct listener *listener =
            WP_CONTAINER_OF(node, struct listener, node);

        node = node->next;
        if (listener->roles == roles) {
            listener_free(listener);
        }
    }
    node = server->conns.next;
    while (node != &server->conns) {
        struct wp_http_req *req =
            WP_CONTAINER_OF(node, struct wp_http_req, node);

        node = node->next;
        if (req->roles == roles) {
            wp_http_conn_close(req);
        }
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
