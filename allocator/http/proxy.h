/* allocator/http/proxy.h - one exchange with a sandbox, streamed. */
#ifndef WP_ALLOCATOR_HTTP_PROXY_H
#define WP_ALLOCATOR_HTTP_PROXY_H

#include "allocator/http/route.h"
#include "pool/base/address.h"
#include "proto/formats/sandbox_token.h"
#include "proto/formats/http_server.h"

struct wp_http_proxy {
    struct event_base *base;
    int64_t idle_timeout_ns;     /* Of a side that does not move on. */
    int64_t upstream_timeout_ns; /* From a request's end to its answer. */
    uint64_t proxied_total;
    uint64_t failed_total; /* 502 and 504. */
};

/* The sandbox is at fault: says so, and ends the connection. For a request
 * that is not answered yet. */
void wp_http_proxy_fail(struct wp_http_proxy *proxy, struct wp_http_req *req,
                        int status, const char *why);
/* The ops that hand req to the sandbox at endpoint, to be returned by a route
 * function; NULL when it was answered. strip_token: without Authorization.
 * sandbox_token: what the sandbox is shown as its token, whatever the client
 * sent as one; "": nothing. Copied. */
const struct wp_http_ops *
wp_http_proxy_open(struct wp_http_proxy *proxy, struct wp_http_req *req,
                   const struct wp_http_route *route, const char *endpoint,
                   bool strip_token, const char *sandbox_token);

#endif
