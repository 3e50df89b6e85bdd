#include "allocator/http/gateway.h"

#include <event2/buffer.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "allocator/http/secure.h"
#include "proto/sockets/peer_limits.h"
#include "allocator/http/proxy.h"
#include "pool/base/assert.h"
#include "pool/base/clock.h"
#include "pool/base/list.h"
#include "proto/sockets/network.h"
#include "proto/sockets/listen.h"

/* How long a connection beyond the bounds may take to send its request. */
#define SPARE_HEAD_NS (2 * WP_NS_PER_S)

enum {
    ROLE_UNIX = 1,     /* The kernel knows the peer's user. */
    ROLE_TLS = 2,      /* A certificate may name the peer. */
    ROLE_TRUSTING = 4, /* In clear; its peer is known by its address. */
    KEPT_SHARE = 16,   /* One of so many connections is kept for each share. */
    KEPT_FROM = 4,     /* If there are so many. */
};

struct listener {
    struct wp_listener socket; /* Its descriptor is the server's. */
    char address[128];
};

struct wp_gateway {
    struct wp_gateway_config config;
    struct wp_http_server *server;
    struct wp_peer_limits *limits;
    struct wp_list spares; /* Of struct peer, the oldest first. */
    uint32_t n_spares;
    struct wp_http_proxy proxy;
    struct wp_tls *tls; /* NULL: in clear only. */
    struct wp_http_secure secure;
    struct wp_network *trusted[WP_HTTP_TRUST_ROUTES]; /* As config.trust. */
    struct listener *listeners;
    size_t n_listeners;
    uint64_t refused_total; /* Requests beyond the bounds. */
};

/* What is known of a connection; its wp_http_peer(). */
struct peer {
    struct wp_list node; /* In spares. */
    struct wp_http_req *conn;
    struct wp_identity who; /* On a Unix socket, or by its certificate. */
    struct wp_peer_ticket ticket;
    bool is_unix;
    bool is_proven;    /* So who says who it is. */
    bool is_looked_at; /* TLS: for its certificate. */
    bool trusted[WP_HTTP_TRUST_ROUTES];
    bool is_spare; /* Beyond the bounds: has no ticket. */
};

/* Lets it in for a probe. All spares that have not been answered are silent, so
 * the oldest one goes; a probe sends its request at once. */
static void
admit_spare(struct wp_gateway *gateway, struct peer *peer)
{
    if (gateway->n_spares == gateway->config.spares_max) {
        wp_http_stream_drop(
            WP_CONTAINER_OF(gateway->spares.next, struct peer, node)->conn);
    }
    peer->is_spare = true;
    wp_list_push_back(&gateway->spares, &peer->node);
    gateway->n_spares++;
    wp_http_set_deadline(peer->conn, SPARE_HEAD_NS);
}

static bool
is_trusted(const struct wp_gateway *gateway, enum wp_http_trust_route route,
           const struct sockaddr *address)
{
    for (size_t i = 0; i < gateway->config.trust[route].n_networks; i++) {
        if (wp_network_has(&gateway->trusted[route][i], address)) {
            return true;
        }
    }
    return false;
}

static const char *
admit(struct wp_http_req *conn, int fd, const struct sockaddr *address)
{
    struct wp_gateway *gateway = wp_http_app(conn);
    struct peer *peer = wp_http_peer(conn);
    struct wp_peer counted;
    uid_t uid;

    peer->conn = conn;
    peer->is_unix = (wp_http_roles(conn) & ROLE_UNIX) != 0;
    peer->is_proven = peer->is_unix;
    for (int i = 0; !peer->is_unix && i < WP_HTTP_TRUST_ROUTES; i++) {
        peer->trusted[i] =
            is_trusted(gateway, (enum wp_http_trust_route)i, address);
    }
    if ((wp_http_roles(conn) & ROLE_TRUSTING) != 0 && !peer->trusted[0] &&
        !peer->trusted[1]) {
        return "this address is not trusted; see the settings trust_sessions "
               "and trust_sandboxes";
    }
    if (!peer->is_unix) {
        counted = wp_peer_from_address(address);
    } else if (wp_access_unix_peer(&gateway->config.access, fd, &peer->who,
                                   &uid) == WP_PEER_REFUSED) {
        return "this user may not use the socket; see the settings "
               "allowed_uids and identities";
    } else {
        counted = wp_peer_from_uid(uid, peer->who.admin);
    }
    if (wp_peer_limits_enter(gateway->limits, counted, &peer->ticket) !=
        WP_PEER_ADMITTED) {
        admit_spare(gateway, peer);
    }
    return NULL;
}

static void
left(struct wp_http_req *conn)
{
    struct wp_gateway *gateway = wp_http_app(conn);
    struct peer *peer = wp_http_peer(conn);

    if (peer->is_spare) {
        wp_list_remove(&peer->node);
        gateway->n_spares--;
    } else {
        wp_peer_limits_leave(gateway->limits, peer->ticket);
    }
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

/* May who sends this, without a token, see something of this tenant? NULL: of
 * every tenant. */
static bool
may_without_token(const struct wp_gateway_config *config,
                  struct wp_http_req *req, const char *tenant)
{
    const struct peer *peer = wp_http_peer(req);

    if (config->token_rule == WP_HTTP_TOKEN_ALWAYS) {
        return false;
    }
    if (!peer->is_proven) {
        return config->token_rule == WP_HTTP_TOKEN_NEVER &&
               (wp_http_roles(req) & (ROLE_TLS | ROLE_TRUSTING)) == 0;
    }
    return peer->who.admin || (tenant != NULL && peer->who.tenant[0] != '\0' &&
                               strcmp(peer->who.tenant, tenant) == 0);
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
send_page(struct wp_http_req *req, const struct wp_http_page *page,
          enum wp_view view)
{
    struct evbuffer *body = evbuffer_new();
    const char *type = "text/plain; charset=utf-8";
    unsigned status;

    if (body == NULL) {
        refuse(req, 500, "out of memory");
        return;
    }
    status = page->render(page->ctx, view, body, &type);
    wp_http_add_header(req, "Cache-Control", "no-store");
    wp_http_reply_buffer(req, (int)status, type, body);
    evbuffer_free(body);
}

/* What is no secret on this machine may be one beyond it. */
static bool
may_see_pages(const struct wp_gateway_config *config, struct wp_http_req *req,
              const struct wp_http_route *route)
{
    const struct peer *peer = wp_http_peer(req);
    bool is_near = (wp_http_roles(req) & (ROLE_TLS | ROLE_TRUSTING)) == 0;

    return token_known(config, route) ||
           (config->token_rule != WP_HTTP_TOKEN_ALWAYS &&
            (is_near || peer->is_proven));
}

static void
serve_page(const struct wp_gateway_config *config, struct wp_http_req *req,
           const struct wp_http_route *route)
{
    const char *method = wp_http_method(req);
    const struct wp_http_page *page = NULL;
    bool all =
        token_known(config, route) || may_without_token(config, req, NULL);

    for (size_t i = 0; i < config->n_pages; i++) {
        if (wp_str_is(route->path, config->pages[i].path)) {
            page = &config->pages[i];
        }
    }
    if (page == NULL) {
        refuse(req, 404,
               "no such page; there are /metrics, /healthz, /readyz and "
               "/sandboxes/NAME/...");
    } else if (!page->open && !may_see_pages(config, req, route)) {
        refuse(req, 401, "a bearer token is needed");
    } else if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0) {
        refuse(req, 405, "expected GET or HEAD");
    } else {
        send_page(req, page, all ? WP_VIEW_ALL : WP_VIEW_TENANT);
    }
}

static const struct wp_http_ops *
serve_sandbox(struct wp_gateway *gateway, struct wp_http_req *req,
              const struct wp_http_route *route)
{
    const struct wp_gateway_config *config = &gateway->config;
    const struct peer *peer = wp_http_peer(req);
    bool known = token_known(config, route);
    bool may = known || peer->trusted[WP_HTTP_TRUST_SANDBOXES] ||
               may_without_token(config, req, NULL);
    char token[WP_SANDBOX_TOKEN_TEXT + 1] = "";
    struct wp_claim_info info;

    /* First the right, so that strangers cannot learn which names exist. */
    if (!may && peer->who.tenant[0] == '\0') {
        refuse(req, 401,
               "a bearer token is needed: the lease's token in hexadecimal");
        return NULL;
    }
    memset(&info, 0, sizeof info);
    if (config->find(config->ctx, route->sandbox_namespace, route->sandbox,
                     &info) != WP_OK ||
        (!may && !may_without_token(config, req, info.tenant)) ||
        (route->sandbox_namespace.len > 0 &&
         !wp_str_is(route->sandbox_namespace, info.pool_namespace))) {
        refuse(req, 404,
               may ? "no leased sandbox has this name"
                   : "no leased sandbox of your tenant has this name");
        return NULL;
    }
    if (info.lost) {
        wp_http_proxy_fail(&gateway->proxy, req, 502,
                           "the sandbox is lost; release its claim");
        return NULL;
    }
    if (config->sandbox_token != NULL) {
        config->sandbox_token(config->ctx, &info, token);
    }
    return wp_http_proxy_open(&gateway->proxy, req, route, info.endpoint, known,
                              token);
}

/* Whose claims are those that this request of the session API, or trigger, is
 * about? NULL: it has no right to any; it was refused. */
static const char *
tenant_of_claims(const struct wp_gateway_config *config,
                 struct wp_http_req *req, const struct wp_http_route *route)
{
    const struct peer *peer = wp_http_peer(req);

    if (token_known(config, route) || peer->trusted[WP_HTTP_TRUST_SESSIONS] ||
        may_without_token(config, req, NULL)) {
        return peer->who.tenant;
    }
    if (may_without_token(config, req, peer->who.tenant)) {
        return peer->who.tenant;
    }
    refuse(req, 401, "a bearer token is needed: that of http_token_file");
    return NULL;
}

static const struct wp_http_ops *
serve_session(struct wp_gateway *gateway, struct wp_http_req *req,
              const struct wp_http_route *route)
{
    const char *tenant = tenant_of_claims(&gateway->config, req, route);

    return tenant != NULL
               ? wp_sessions_open(gateway->config.sessions, req, tenant,
                                  (wp_http_roles(req) & ROLE_TLS) != 0)
               : NULL;
}

static const struct wp_http_ops *
serve_trigger(struct wp_gateway *gateway, struct wp_http_req *req,
              const struct wp_http_route *route)
{
    const char *tenant = tenant_of_claims(&gateway->config, req, route);

    return tenant != NULL
               ? wp_triggers_open(gateway->config.triggers, req, tenant)
               : NULL;
}

/* Is it a probe? Then it is answered beyond the bounds, too. */
static bool
is_probe(const struct wp_gateway_config *config,
         const struct wp_http_route *route)
{
    for (size_t i = 0; i < config->n_pages; i++) {
        if (!route->proxy && config->pages[i].open &&
            wp_str_is(route->path, config->pages[i].path)) {
            return true;
        }
    }
    return false;
}

/* The handshake is over when there is a request. */
static void
learn_certificate(const struct wp_gateway *gateway, struct wp_http_req *req)
{
    struct peer *peer = wp_http_peer(req);

    if ((wp_http_roles(req) & ROLE_TLS) != 0 && !peer->is_looked_at) {
        peer->is_looked_at = true;
        peer->is_proven = wp_secure_peer(wp_http_bufferevent(req),
                                         &gateway->config.access, &peer->who);
    }
}

static const struct wp_http_ops *
on_request(struct wp_http_req *req)
{
    struct wp_gateway *gateway = wp_http_app(req);
    const struct peer *peer = wp_http_peer(req);
    const char *why = "";
    struct wp_http_route route;

    learn_certificate(gateway, req);
    if (peer->is_spare) {
        wp_http_set_close(req);
    }
    if (!wp_http_route(wp_http_message(req), &route, &why)) {
        refuse(req, 400, why);
    } else if (peer->is_spare && !is_probe(&gateway->config, &route)) {
        gateway->refused_total++;
        wp_http_add_header(req, "Retry-After", "1");
        refuse(req, 503, "too many connections; only probes are answered");
    } else if (route.proxy) {
        return serve_sandbox(gateway, req, &route);
    } else if (gateway->config.sessions != NULL && wp_session_is(route.path)) {
        return serve_session(gateway, req, &route);
    } else if (gateway->config.triggers != NULL &&
               wp_str_is(route.path, WP_TRIGGER_PATH)) {
        return serve_trigger(gateway, req, &route);
    } else {
        serve_page(&gateway->config, req, &route);
    }
    return NULL;
}

/* --------------------------------------------------------------- listeners */

static enum wp_status
listen_on(struct wp_gateway *gateway, const struct wp_address *address,
          bool trusting, int fd, struct wp_err *err)
{
    if (trusting) {
        return wp_http_server_listen(gateway->server, fd, ROLE_TRUSTING, err);
    }
    if (!address->is_loopback && !gateway->config.anywhere) {
        return wp_http_server_listen_secure(gateway->server, fd, ROLE_TLS,
                                            &gateway->secure, err);
    }
    return wp_http_server_listen(gateway->server, fd,
                                 address->is_unix ? ROLE_UNIX : 0, err);
}

static enum wp_status
add_listener(struct wp_gateway *gateway, const char *text, bool trusting,
             struct wp_err *err)
{
    struct listener *listener = &gateway->listeners[gateway->n_listeners];
    struct wp_address address;
    int fd;

    if (wp_address_parse(wp_str_from(text), &address, err) != WP_OK) {
        return err->status;
    }
    if (!address.is_loopback && !gateway->config.anywhere && !trusting &&
        gateway->tls == NULL) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "HTTP in clear is served on loopback only, not on "
                          "'%s'; set tls_cert and tls_key",
                          text);
    }
    if (wp_listener_open(&listener->socket, &address, gateway->config.unix_mode,
                         err) != WP_OK) {
        return err->status;
    }
    gateway->n_listeners++;
    (void)wp_address_format(&listener->socket.address, listener->address,
                            sizeof listener->address);
    fd = listener->socket.fd;
    listener->socket.fd = -1;
    return listen_on(gateway, &address, trusting, fd, err);
}

static enum wp_status
add_listeners(struct wp_gateway *gateway, struct wp_err *err)
{
    const struct wp_gateway_config *config = &gateway->config;
    enum wp_status status = WP_OK;

    for (size_t i = 0; i < config->n_listen && status == WP_OK; i++) {
        status = add_listener(gateway, config->listen[i], false, err);
    }
    for (size_t i = 0; i < config->n_trusting_listen && status == WP_OK; i++) {
        status = add_listener(gateway, config->trusting_listen[i], true, err);
    }
    return status;
}

static enum wp_status
read_trust(struct wp_gateway *gateway, struct wp_err *err)
{
    for (int route = 0; route < WP_HTTP_TRUST_ROUTES; route++) {
        const struct wp_http_trust *trust = &gateway->config.trust[route];

        gateway->trusted[route] =
            calloc(trust->n_networks + 1, sizeof *gateway->trusted[route]);
        if (gateway->trusted[route] == NULL) {
            return wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no memory");
        }
        for (size_t i = 0; i < trust->n_networks; i++) {
            if (wp_network_parse(wp_str_from(trust->networks[i]),
                                 &gateway->trusted[route][i], err) != WP_OK) {
                return err->status;
            }
        }
    }
    return WP_OK;
}

static enum wp_status
open_tls(struct wp_gateway *gateway, struct wp_err *err)
{
    const struct wp_gateway_config *config = &gateway->config;
    const struct wp_tls_config tls = {
        .cert = config->tls_cert,
        .key = config->tls_key,
        .client_ca = config->tls_client_ca,
        .client_may_hide = true,
        .protocol = "http/1.1",
    };

    if (config->tls_cert == NULL) {
        return WP_OK;
    }
    gateway->tls = wp_tls_create(&tls, err);
    gateway->secure = wp_secure(gateway->tls);
    return gateway->tls != NULL ? WP_OK : err->status;
}

uint32_t
wp_gateway_sockets(uint32_t connections, uint32_t spares)
{
    return (connections + spares) / 2 * 3 + 1;
}

static struct wp_peer_limits *
create_limits(const struct wp_gateway_config *config, struct wp_err *err)
{
    uint32_t kept = config->connections_max >= KEPT_FROM
                        ? (config->connections_max - 1) / KEPT_SHARE + 1
                        : 0;
    const struct wp_peer_limits_config limits = {
        .all_max = config->connections_max,
        .peer_max = config->peer_connections_max,
        .privileged_kept = kept,
        .unix_kept = kept,
    };

    return wp_peer_limits_create(&limits, err);
}

static struct wp_http_server *
create_server(struct wp_gateway *gateway)
{
    const struct wp_gateway_config *config = &gateway->config;
    const struct wp_http_server_config server = {
        .base = wp_loop_base(config->loop),
        .route = on_request,
        .admit = admit,
        .left = left,
        .peer_size = sizeof(struct peer),
        .app = gateway,
        .conns_max =
            wp_gateway_sockets(config->connections_max, config->spares_max),
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
            calloc(config->n_listen + config->n_trusting_listen + 1,
                   sizeof *gateway->listeners);
        wp_list_init(&gateway->spares);
        gateway->limits = create_limits(config, err);
        gateway->server = create_server(gateway);
    }
    if (gateway == NULL || gateway->listeners == NULL ||
        gateway->limits == NULL || gateway->server == NULL) {
        (void)wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no memory");
        wp_gateway_destroy(gateway);
        return NULL;
    }
    if (open_tls(gateway, err) != WP_OK || read_trust(gateway, err) != WP_OK ||
        add_listeners(gateway, err) != WP_OK) {
        wp_gateway_destroy(gateway);
        return NULL;
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
close_all(void *ctx)
{
    struct wp_gateway *gateway = ctx;

    for (size_t i = 0; i < gateway->n_listeners; i++) {
        wp_listener_close(&gateway->listeners[i].socket);
    }
    wp_http_server_destroy(gateway->server);
    wp_peer_limits_destroy(gateway->limits);
}

void
wp_gateway_destroy(struct wp_gateway *gateway)
{
    if (gateway != NULL) {
        wp_loop_call(gateway->config.loop, close_all, gateway);
        for (int i = 0; i < WP_HTTP_TRUST_ROUTES; i++) {
            free(gateway->trusted[i]);
        }
        wp_tls_destroy(gateway->tls);
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
        .connections_refused =
            server.connections_refused + gateway->refused_total,
        .requests_total = server.requests_total,
        .connections = server.connections,
        .proxied_total = gateway->proxy.proxied_total,
        .upstream_failed_total = gateway->proxy.failed_total,
    };
}
