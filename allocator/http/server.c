#include "allocator/http/server.h"

#include <event2/listener.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "allocator/http/conn.h"
#include "allocator/http/listen.h"
#include "pool/base/assert.h"
#include "pool/base/log.h"

/* May the peer of this Unix socket use it? */
static bool
uid_allowed(const struct wp_http_config *config, int fd)
{
    struct ucred peer;
    socklen_t len = sizeof peer;

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) != 0) {
        return false;
    }
    if (peer.uid == 0 || peer.uid == geteuid()) {
        return true;
    }
    for (size_t i = 0; i < config->n_allowed_uids; i++) {
        if (peer.uid == config->allowed_uids[i]) {
            return true;
        }
    }
    return false;
}

static void
set_tcp_options(int fd)
{
    int one = 1;

    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
}

static void
on_accept(struct evconnlistener *events, evutil_socket_t fd,
          struct sockaddr *peer, int peer_len, void *ctx)
{
    const struct wp_http_listener *listener = ctx;
    struct wp_http_server *server = listener->server;
    bool trusted = false;

    (void)events;
    (void)peer;
    (void)peer_len;
    server->stats.connections_total++;
    if (server->stats.connections >= server->config.connections_max) {
        static const char busy[] =
            "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\n"
            "Content-Length: 0\r\nConnection: close\r\n\r\n";
        ssize_t ignored =
            send(fd, busy, sizeof busy - 1, MSG_DONTWAIT | MSG_NOSIGNAL);

        (void)ignored;
        (void)close(fd);
        server->stats.connections_refused++;
        return;
    }
    if (listener->is_unix) {
        trusted = uid_allowed(&server->config, fd);
    } else {
        set_tcp_options(fd);
    }
    if (listener->is_unix && !trusted) {
        server->stats.connections_refused++;
        wp_http_conn_open(server, fd, false,
                          "this user may not use the socket; see the setting "
                          "allowed_uids");
        return;
    }
    wp_http_conn_open(server, fd, trusted, NULL);
}

/* Out of descriptors, most likely: the listener would be readable for ever, so
 * it rests for a moment. */
static void
on_accept_error(struct evconnlistener *events, void *ctx)
{
    const struct wp_http_listener *listener = ctx;
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
    for (size_t i = 0; i < server->n_listeners; i++) {
        (void)evconnlistener_enable(server->listeners[i].events);
    }
}

static void
on_reap(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd;
    (void)what;
    wp_http_conn_reap(ctx);
}

static enum wp_status
add_listener(struct wp_http_server *server, const char *text,
             struct wp_err *err)
{
    struct wp_http_listener *listener = &server->listeners[server->n_listeners];
    struct wp_address address;
    uint32_t mode = server->config.n_allowed_uids > 0 ? 0666 : 0600;
    int fd;

    if (wp_address_parse(wp_str_from(text), &address, err) != WP_OK) {
        return err->status;
    }
    if (!address.is_loopback && !server->config.anywhere) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "HTTP in clear is served on loopback only, not on "
                          "'%s'",
                          text);
    }
    fd = wp_http_listen(&address, mode, err);
    if (fd < 0) {
        return err->status;
    }
    listener->server = server;
    listener->is_unix = address.is_unix;
    (void)wp_address_format(&address, listener->address,
                            sizeof listener->address);
    listener->events = evconnlistener_new(
        wp_loop_base(server->config.loop), on_accept, listener,
        LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC, 0, fd);
    if (listener->events == NULL) {
        (void)close(fd);
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no memory");
    }
    evconnlistener_set_error_cb(listener->events, on_accept_error);
    server->n_listeners++;
    return WP_OK;
}

struct wp_http_server *
wp_http_server_create(const struct wp_http_config *config, struct wp_err *err)
{
    struct wp_http_server *server = calloc(1, sizeof *server);
    struct event_base *base = wp_loop_base(config->loop);
    struct wp_err local;

    err = err != NULL ? err : &local;
    if (server != NULL) {
        server->config = *config;
        wp_list_init(&server->conns);
        wp_list_init(&server->closed);
        server->listeners =
            calloc(config->n_listen + 1, sizeof *server->listeners);
        server->reap = event_new(base, -1, 0, on_reap, server);
        server->resume = event_new(base, -1, 0, on_resume, server);
    }
    if (server == NULL || server->listeners == NULL || server->reap == NULL ||
        server->resume == NULL) {
        (void)wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no memory");
        wp_http_server_destroy(server);
        return NULL;
    }
    for (size_t i = 0; i < config->n_listen; i++) {
        if (add_listener(server, config->listen[i], err) != WP_OK) {
            wp_http_server_destroy(server);
            return NULL;
        }
    }
    return server;
}

const char *
wp_http_server_address(const struct wp_http_server *server, size_t i)
{
    WP_ASSERT(i < server->n_listeners);
    return server->listeners[i].address;
}

static void
close_all(void *ctx, uint64_t a, uint64_t b)
{
    struct wp_http_server *server = ctx;

    (void)a;
    (void)b;
    for (size_t i = 0; i < server->n_listeners; i++) {
        evconnlistener_free(server->listeners[i].events);
        if (server->listeners[i].is_unix) {
            (void)unlink(server->listeners[i].address + strlen("unix:"));
        }
    }
    while (!wp_list_empty(&server->conns)) {
        wp_http_conn_close(
            WP_CONTAINER_OF(server->conns.next, struct wp_http_conn, node));
    }
    wp_http_conn_reap(server);
    if (server->reap != NULL) {
        event_free(server->reap);
    }
    if (server->resume != NULL) {
        event_free(server->resume);
    }
}

void
wp_http_server_destroy(struct wp_http_server *server)
{
    if (server != NULL) {
        wp_loop_call(server->config.loop, close_all, server);
        free(server->listeners);
        free(server);
    }
}

struct wp_http_stats
wp_http_server_stats(const struct wp_http_server *server)
{
    wp_loop_assert_role(server->config.loop);
    return server->stats;
}
