/* runtime/egress/egress_impl.h - what egress.c and visit.c share. */
#ifndef WP_RUNTIME_EGRESS_EGRESS_IMPL_H
#define WP_RUNTIME_EGRESS_EGRESS_IMPL_H

#include "pool/base/clock.h"
#include "pool/base/list.h"
#include "pool/egress/pass.h"
#include "proto/formats/http_exchange.h"
#include "pool/base/siphash.h"
#include "proto/sockets/peer_limits.h"
#include "runtime/egress/egress.h"

enum {
    /* A sandbox, with its namespace where a pass names it; or an address. */
    WP_EGRESS_WHO_MAX = WP_NAMESPACE_MAX + 1 + WP_EGRESS_PASS_SANDBOX_MAX,
};

/* Of a policy; each perhaps empty, but not the text. */
struct wp_egress_texts {
    struct wp_str text;
    struct wp_str by;     /* Narrows it. */
    struct wp_str within; /* Nothing beyond this one is allowed either. */
};

/* One for the same three texts, shared by those who have them. */
struct wp_egress_shared_policy {
    struct wp_list node;
    uint32_t users;
    struct wp_egress_policy policy;
    char text[WP_EGRESS_TEXT_MAX + 1];
    char by[WP_EGRESS_TEXT_MAX + 1];
    char within[WP_EGRESS_TEXT_MAX + 1];
};

/* Of the log: as many as a second allows, the rest is counted. */
struct wp_egress_lines {
    int64_t since_ns;
    uint32_t n;
    uint32_t unsaid;
    char who[WP_EGRESS_WHO_MAX + 1]; /* Of what is unsaid. */
};

struct wp_egress_source {
    char name[WP_SANDBOX_NAME_MAX + 1]; /* "": it is for many. */
    struct wp_egress_shared_policy *policy;
    uint64_t bytes;
    /* With a name; else each guest has its own. */
    uint32_t conns;
    struct wp_egress_lines lines;
};

/* Of one connection, as long as it lives. */
struct wp_egress_client {
    struct wp_egress_source *source;
    struct sockaddr_storage address; /* Of a guest, by TCP. */
    struct wp_peer_ticket ticket;    /* Of a guest. */
    char who[WP_EGRESS_WHO_MAX + 1];
};

/* Whom a request is of, and what it may reach. */
struct wp_egress_visitor {
    struct wp_egress_shared_policy *policy; /* Held until left. */
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
    /* Clients of sources without a name: an address each. */
    struct wp_peer_limits *guests;
    struct wp_egress_lines *guest_lines; /* By the entry of a ticket. */
    struct wp_hash_key guest_key;
};

/* client.c: of the server's configuration. */
const char *wp_egress_admit(struct wp_http_req *conn, int fd,
                            const struct sockaddr *sa);
void wp_egress_left(struct wp_http_req *conn);
/* client.c: may the client have one more line in the log? who: in the line that
 * counts those that it may not. */
WP_MUST_CHECK bool wp_egress_may_log(struct wp_egress *egress,
                                     const struct wp_egress_client *client,
                                     const char *who);
void wp_egress_lines_flush(struct wp_egress_lines *lines);
/* client.c: false: no memory. */
WP_MUST_CHECK bool wp_egress_guests_init(struct wp_egress *egress);
void wp_egress_guests_fini(struct wp_egress *egress);

/* egress.c: the policy of those texts, until it is let go. NULL: err says what
 * is no policy, or asks for more than text allows, or that memory lacks. */
struct wp_egress_shared_policy *
wp_egress_policy_hold(struct wp_egress *egress,
                      const struct wp_egress_texts *texts, struct wp_err *err);
struct wp_egress_shared_policy *
wp_egress_policy_hold_too(struct wp_egress_shared_policy *shared);
void wp_egress_policy_let_go(struct wp_egress_shared_policy *shared);

/* visitor.c: by the connection, or by the pass that is shown where passes are
 * asked for. 0: out is to be left; else the status to answer with, and err says
 * why. */
WP_MUST_CHECK int wp_egress_visitor_enter(struct wp_http_req *req,
                                          struct wp_egress_visitor *out,
                                          struct wp_err *err);
void wp_egress_visitor_leave(struct wp_egress_visitor *visitor);

/* visit.c: the route function of the server. */
const struct wp_http_ops *wp_egress_route(struct wp_http_req *req);

#endif
