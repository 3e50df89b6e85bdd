/* runtime/egress/egress_impl.h - what egress.c and visit.c share. */
#ifndef WP_RUNTIME_EGRESS_EGRESS_IMPL_H
#define WP_RUNTIME_EGRESS_EGRESS_IMPL_H

#include "pool/base/clock.h"
#include "pool/base/list.h"
#include "proto/formats/http_exchange.h"
#include "runtime/egress/egress.h"

enum {
    WP_EGRESS_WHO_MAX = WP_SANDBOX_NAME_MAX, /* Or an address. */
};

/* One for each text and what narrows it, shared by the sources that have them.
 */
struct wp_egress_shared_policy {
    struct wp_list node;
    uint32_t users;
    struct wp_egress_policy policy;
    char text[WP_EGRESS_TEXT_MAX + 1];
    char by[WP_EGRESS_TEXT_MAX + 1]; /* "": nothing. */
};

struct wp_egress_source {
    char name[WP_SANDBOX_NAME_MAX + 1];
    struct wp_egress_shared_policy *policy;
    uint32_t conns;
    uint64_t bytes;
    /* Lines of the log: as many as a second allows, the rest is counted. */
    int64_t lines_since_ns;
    uint32_t lines;
    uint32_t unsaid;
};

/* Of one connection, as long as it lives. */
struct wp_egress_client {
    struct wp_egress_source *source;
    char who[WP_EGRESS_WHO_MAX + 1];
};

struct wp_egress {
    struct wp_egress_config config;
    struct wp_http_exchange_config exchange;
    struct wp_http_server *server;
    struct wp_list policies;
    struct wp_egress_source **sources; /* By the roles of their listener. */
    uint32_t sources_len;
    uint64_t failed_total;
};

/* egress.c: may the source have one more line in the log? */
WP_MUST_CHECK bool wp_egress_may_log(struct wp_egress_source *source);

/* visit.c: the route function of the server. */
const struct wp_http_ops *wp_egress_route(struct wp_http_req *req);

#endif
