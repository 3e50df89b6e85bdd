#include "allocator/http/gateway.h"

#include <event2/buffer.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "allocator/http/proxy.h"
#include "pool/base/assert.h"
#include "proto/formats/http_listen.h"

enum {
    ROLE_UNIX = 1, /* The peer's user may do everything. */
};

struct listener {
    char address[128];
    bool is_unix;
};

struct wp_gateway {
    struct wp_gateway_config config;
    struct wp_http_server *server;
    struct wp_http_proxy proxy;
    struct listener *listeners;
    size_t n_listeners;
};

/* May the peer of this Unix socket use it? */
static bool
uid_allowed(const struct wp_gateway_config *config, int fd)
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

static const char *
admit(void *app, int fd, unsigned roles)
{
    const struct wp_gateway *gateway = app;

    return (roles & ROLE_UNIX) == 0 || uid_allowed(&gateway->config, fd)
               ? NULL
               : "this user may not use the socket; see the setting "
                 "allowed_uids";
}

/* ------------------------------------------------------------------ rights */

/* Is there a bearer token that this daemon knows for the route's sandbox? */
static bool
token_known(const struct wp_gateway_config *config,
            const struct wp_http_route *route)
{
    size_t admin_len = strlen(config->admin_token);
    uint8_t token[WP_TOKEN_LEN];

    if (route->bearer.len == 0) {
        return false;
    }
    if (admin_len == route->bearer.len &&
        wp_bytes_eq_const_time(config->admin_token, route->bearer.ptr,
                               admin_len)) {
        return true;
    }
    return route->proxy && wp_hex_decode(route->bearer, token, sizeof token) &&
           config->token_valid(config->ctx, token, route->sandbox);
}

static bool
token_needed(const struct wp_gateway_config *config,
             const struct wp_http_req *req, bool proxy)
{
    switch (config->token_rule) {
    case WP_HTTP_TOKEN_ALWAYS:
        return true;
    case WP_HTTP_TOKEN_NEVER:
        return false;
    case WP_HTTP_TOKEN_AUTO:
    default:
        return proxy && (wp_http_roles(req) & ROLE_UNIX) == 0;
    }
}

/* ----------------------------------------------------------------- answers */

static void
refuse(struct wp_http_req *req, int status, const char *why)
{
    if (status == 401) {
        wp_http_add_header(req, "WWW-Authenticate", "Bearer");
    } else if (status == 405) {
        wp_http_add_header(req, "Allow", "GET, HEAD");
    }
    wp_http_set_close(req);
    wp_http_reply_error(req, status, "%s", why);
}

static void
send_page(struct wp_http_req *req, const struct wp_http_page *page)
{
    struct evbuffer *body = evbuffer_new();
    const char *type = "text/plain; charset=utf-8";
    unsigned status;

    if (body == NULL) {
        refuse(req, 500, "out of memory");
        return;
    }
    status = page->render(page->ctx, body, &type);
    wp_http_add_header(req, "Cache-Control", "no-store");
    wp_http_reply_buffer(req, (int)status, type, body);
    evbuffer_free(body);
}

static void
serve_page(const struct wp_gateway_config *config, struct wp_http_req *req,
           const struct wp_http_route *route)
{
    const char *method = wp_http_method(req);
    const struct wp_http_page *page = NULL;

    for (size_t i = 0; i < config->n_pages; i++) {
        if (wp_str_is(route->path, config->pages[i].path)) {
            page = &config->pages[i];
        }
    }
    if (page == NULL) {
        refuse(req, 404,
               "no such page; there are /metrics, /healthz, /readyz and "
               "/sandboxes/NAME/...");
    } else if (!page->open && token_needed(config, req, false) &&
               !token_known(config, route)) {
        refuse(req, 401, "a bearer token is needed");
    } else if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0) {
        refuse(req, 405, "expected GET or HEAD");
    } else {
        send_page(req, page);
    }
}

static const struct wp_http_ops *
serve_sandbox(struct wp_gateway *gateway, struct wp_http_req *req,
              const struct wp_http_route *route)
{
    const struct wp_gateway_config *config = &gateway->config;
    bool known = token_known(config, route);
    struct wp_claim_info info;

    /* First the right, so that strangers cannot learn which names exist. */
    if (token_needed(config, req, true) && !known) {
        refuse(req, 401,
               "a bearer token is needed: the lease's token in hexadecimal");
        return NULL;
    }
    memset(&info, 0, sizeof info);
    if (config->find(config->ctx, route->sandbox, &info) != WP_OK ||
        (route->sandbox_namespace.len > 0 &&
         !wp_str_is(route->sandbox_namespace, info.pool_namespace))) {
        refuse(req, 404, "no leased sandbox has this name");
        return NULL;
    }
    if (info.lost) {
        wp_http_proxy_fail(&gateway->proxy, req, 502,
                           "the sandbox is lost; release its claim");
        return NULL;
    }
    return wp_http_proxy_open(&gateway->proxy, req, route, info.endpoint,
                              known);
}

static const struct wp_http_ops *
on_request(struct wp_http_req *req)
{
    struct wp_gateway *gateway = wp_http_app(req);
    const char *why = "";
    struct wp_http_route route;

    if (!wp_http_route(wp_http_message(req), &route, &why)) {
        refuse(req, 400, why);
    } else if (route.proxy) {
        return serve_sandbox(gateway, req, &route);
    } else {
        serve_page(&gateway->config, req, &route);
    }
    return NULL;
}

/* --------------------------------------------------------------- listeners */

static enum wp_status
add_listener(struct wp_gateway *gateway, const char *text, struct wp_err *err)
{
    struct listener *listener = &gateway->listeners[gateway->n_listeners];
    uint32_t mode = gateway->config.n_allowed_uids > 0 ? 0666 : 0600;
    struct wp_address address;
    enum wp_status status;
    int fd;

    if (wp_address_parse(wp_str_from(text), &address, err) != WP_OK) {
        return err->status;
    }
    if (!address.is_loopback && !gateway->config.anywhere) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "HTTP in clear is served on loopback only, not on "
                          "'%s'",
                          text);
    }
    fd = wp_http_bind(&address, mode, err);
    if (fd < 0) {
        return err->status;
    }
    listener->is_unix = address.is_unix;
    (void)wp_address_format(&address, listener->address,
                            sizeof listener->address);
    status = wp_http_server_listen(gateway->server, fd,
                                   address.is_unix ? ROLE_UNIX : 0, err);
    if (status == WP_OK) {
        gateway->n_listeners++;
    }
    return status;
}

static struct wp_http_server *
create_server(struct wp_gateway *gateway)
{
    const struct wp_gateway_config *config = &gateway->config;
    const struct wp_http_server_config server = {
        .base = wp_loop_base(config->loop),
        .route = on_request,
        .admit = admit,
        .app = gateway,
        .conns_max = config->connections_max,
        .refuse_over = true,
        .fields_max = WP_HTTP_FIELDS_MAX,
        .head_timeout_ns = config->head_timeout_ns,
        .body_timeout_ns = config->idle_timeout_ns,
        .idle_timeout_ns = config->idle_timeout_ns,
        .send_timeout_ns = config->idle_timeout_ns,
    };

    return wp_http_server_create(&server);
}

struct wp_gateway *
wp_gateway_create(const struct wp_gateway_config *config, struct wp_err *err)
{
    struct wp_gateway *gateway = calloc(1, sizeof *gateway);
    struct wp_err local;

    err = err != NULL ? err : &local;
    if (gateway != NULL) {
        gateway->config = *config;
        gateway->proxy = (struct wp_http_proxy){
            .base = wp_loop_base(config->loop),
            .idle_timeout_ns = config->idle_timeout_ns,
            .upstream_timeout_ns = config->upstream_timeout_ns,
        };
        gateway->listeners =
            calloc(config->n_listen + 1, sizeof *gateway->listeners);
        gateway->server = create_server(gateway);
    }
    if (gateway == NULL || gateway->listeners == NULL ||
        gateway->server == NULL) {
        (void)wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no memory");
        wp_gateway_destroy(gateway);
        return NULL;
    }
    for (size_t i = 0; i < config->n_listen; i++) {
        if (add_listener(gateway, config->listen[i], err) != WP_OK) {
            wp_gateway_destroy(gateway);
            return NULL;
        }
    }
    return gateway;
}

const char *
wp_gateway_address(const struct wp_gateway *gateway, size_t i)
{
    WP_ASSERT(i < gateway->n_listeners);
    return gateway->listeners[i].address;
}

static void
close_all(void *ctx, uint64_t a, uint64_t b)
{
    struct wp_gateway *gateway = ctx;

    (void)a;
    (void)b;
    for (size_t i = 0; i < gateway->n_listeners; i++) {
        if (gateway->listeners[i].is_unix) {
            (void)unlink(gateway->listeners[i].address + strlen("unix:"));
        }
    }
    wp_http_server_destroy(gateway->server);
}

void
wp_gateway_destroy(struct wp_gateway *gateway)
{
    if (gateway != NULL) {
        wp_loop_call(gateway->config.loop, close_all, gateway);
        free(gateway->listeners);
        free(gateway);
    }
}

struct wp_gateway_stats
wp_gateway_stats(const struct wp_gateway *gateway)
{
    struct wp_http_server_stats server = wp_http_server_stats(gateway->server);

    wp_loop_assert_role(gateway->config.loop);
    return (struct wp_gateway_stats){
        .connections_total = server.connections_total,
        .connections_refused = server.connections_refused,
        .requests_total = server.requests_total,
        .connections = server.connections,
        .proxied_total = gateway->proxy.proxied_total,
        .upstream_failed_total = gateway->proxy.failed_total,
    };
}
