/* allocator/http/route.h - where an HTTP request is to go, and who may send it.
 *
 * /sandboxes/NAME/PATH goes to the leased sandbox NAME as /PATH. On any other
 * path the header X-Sandbox-ID does the same with the path as it is, as the
 * clients of agent-sandbox's router expect. The rest are the daemon's own
 * pages. No I/O; one thread. */
#ifndef WP_ALLOCATOR_HTTP_ROUTE_H
#define WP_ALLOCATOR_HTTP_ROUTE_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/formats/http_head.h"
#include "pool/limits.h"

enum {
    WP_BEARER_MAX = 256, /* Bytes of a bearer token, in text. */
};

struct wp_http_route {
    bool proxy;
    /* Views into the request. */
    struct wp_str path; /* Own page: the path without the query. */
    struct wp_str rest; /* Proxy: path and query; '/' is put before unless it
                           starts with one. */
    struct wp_str sandbox;
    struct wp_str sandbox_namespace; /* "" when the client names none. */
    struct wp_str bearer;            /* "" when there is none. */
    uint16_t port;                   /* 0 when the client names none. */
    int64_t timeout_ns;              /* Of the request; 0: not given. */
};

/* False: the client is at fault, and *why says how. */
WP_MUST_CHECK bool wp_http_route(const struct wp_http_message *request,
                                 struct wp_http_route *out, const char **why);

#endif
