/* allocator/http/gateway.h - HTTP for people, probes and sandboxes' clients.
 *
 * Its own pages (metrics, health) are rendered by functions it is given. The
 * session API and triggers have headers of their own. The rest it proxies to
 * leased sandboxes, streaming both ways with back-pressure; `Upgrade` turns a
 * connection into a plain pipe.
 *
 * Bounds: the HTTP server's, with 100 fields a head, and 64 KiB buffered a
 * direction.
 *
 * Who may: on a Unix socket the same peers as on gRPC's, root and the daemon's
 * own user everything, others what is their tenant's; on TCP, and for what is
 * not the tenant's, who has a bearer token, which is either the lease token of
 * that very sandbox in hexadecimal, or admin_token. The token is not handed on.
 * Who may reach every sandbox sees all of a page, everybody else a tenant's
 * view. Beyond loopback TCP is TLS, and nothing but probes is served to who has
 * neither a token nor a certificate; a certificate's name counts as a user of a
 * Unix socket does.
 *
 * Who can show nothing may be trusted by its address, for one route or the
 * other: the session API with triggers, and the way to every sandbox. A
 * trusting listener, in clear and anywhere, serves only that and probes, to
 * those addresses only.
 * All of it runs on one loop.
 *
 * How many: as proto/sockets/peer_limits.h bounds them. Connections beyond a
 * bound are answered probes only (open pages), if they ask within 2 s, and
 * closed then; there is room for spares_max of these, and the one that has been
 * silent for longest makes room for a new one. */
#ifndef WP_ALLOCATOR_HTTP_GATEWAY_H
#define WP_ALLOCATOR_HTTP_GATEWAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "allocator/access/identity.h"
#include "allocator/access/view.h"
#include "allocator/http/session.h"
#include "allocator/http/trigger.h"
#include "proto/formats/sandbox_token.h"
#include "proto/loop/loop.h"
#include "pool/claim.h"

struct evbuffer;
struct wp_gateway; /* Opaque. */

struct wp_http_page {
    const char *path;
    /* True: never asks for a token (probes). */
    bool open;
    /* Adds the body with what the view shows, sets the content type (static
     * storage), returns the status. Loop thread; must not block. */
    unsigned (*render)(void *ctx, enum wp_view view, struct evbuffer *body,
                       const char **content_type);
    void *ctx;
};

enum wp_http_token_rule {
    WP_HTTP_TOKEN_AUTO,   /* Proxied requests, but for the tenant's own user. */
    WP_HTTP_TOKEN_ALWAYS, /* All but open pages, on Unix sockets too. */
    WP_HTTP_TOKEN_NEVER,  /* Not on TCP; on Unix sockets as AUTO. */
};

/* The routes that may trust an address. */
enum wp_http_trust_route {
    WP_HTTP_TRUST_SESSIONS,
    WP_HTTP_TRUST_SANDBOXES, /* Every one of them. */
    WP_HTTP_TRUST_ROUTES,
};

/* Borrowed, with all it points to, until destroy. */
struct wp_gateway_config {
    struct wp_loop *loop;
    const char *const *listen; /* As in pool/base/address.h. */
    size_t n_listen;
    bool anywhere; /* Beyond loopback in clear: for pages without secrets. */
    const char *const *trusting_listen; /* The same; TCP. */
    size_t n_trusting_listen;
    /* Beyond loopback, listen is served with these; NULL: it cannot be. */
    const char *tls_cert;
    const char *tls_key;
    const char *tls_client_ca; /* NULL: certificates prove nothing. */
    /* By route: networks whose peers need no proof, as proto/sockets/network.h
     * has them. */
    struct wp_http_trust {
        const char *const *networks;
        size_t n_networks;
    } trust[WP_HTTP_TRUST_ROUTES];
    uint32_t unix_mode;      /* Of the Unix sockets. */
    struct wp_access access; /* Of their peers. */
    enum wp_http_token_rule token_rule;
    const char *admin_token;       /* "": there is none. */
    uint32_t connections_max;      /* Probes not counted. */
    uint32_t peer_connections_max; /* Of one peer; 0: no bound. */
    uint32_t spares_max;           /* Connections for probes; at least 1. */
    int64_t head_timeout_ns;
    int64_t idle_timeout_ns;
    int64_t upstream_timeout_ns;
    const struct wp_http_page *pages;
    size_t n_pages;
    struct wp_sessions *sessions; /* The session API; NULL: none. */
    struct wp_triggers *triggers; /* The same of triggers. */

    /* The leased sandbox of that name, as wp_pools_find_sandbox has it, or
     * another one of this namespace (empty: not said). */
    enum wp_status (*find)(void *ctx, struct wp_str ns, struct wp_str sandbox,
                           struct wp_claim_info *out);
    /* wp_pools_token_valid. */
    bool (*token_valid)(void *ctx, const uint8_t *token, struct wp_str sandbox);
    /* What the sandbox of that lease is shown as its token; "" for none. NULL:
     * none is. */
    void (*sandbox_token)(void *ctx, const struct wp_claim_info *info,
                          char out[WP_SANDBOX_TOKEN_TEXT + 1]);
    void *ctx;
};

struct wp_gateway_stats {
    uint64_t connections_total;
    uint64_t connections_refused; /* Over the bound, or not allowed. */
    uint64_t requests_total;
    uint64_t proxied_total;
    uint64_t upstream_failed_total; /* 502 and 504. */
    uint32_t connections;
};

/* How many sockets of clients a gateway with these bounds has at most: with
 * those that are refused and linger for a moment, beyond which none is
 * accepted. Each proxied connection has one more, to its sandbox. */
uint32_t wp_gateway_sockets(uint32_t connections, uint32_t spares);
/* Binds every listener. Before the loop is started. NULL and err when an
 * address cannot be had. A stale Unix socket is replaced, one that answers is
 * not. */
struct wp_gateway *wp_gateway_create(const struct wp_gateway_config *config,
                                     struct wp_err *err);
/* What listener i is bound to, with its real port; owned by it. The trusting
 * ones are behind the others. */
const char *wp_gateway_address(const struct wp_gateway *gateway, size_t i);
/* Closes every connection and listener and frees all. Any thread but the
 * loop's, which may be running or stopped. Removes the Unix sockets. NULL is
 * fine. */
void wp_gateway_destroy(struct wp_gateway *gateway);
/* Loop thread. */
struct wp_gateway_stats wp_gateway_stats(const struct wp_gateway *gateway);

#endif
