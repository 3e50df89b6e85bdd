/* runtime/egress/egress.h - the forward proxy that sandboxes reach the world
 * through.
 *
 * It takes CONNECT HOST:PORT, http://HOST/PATH, and /KEY/PATH (keys.h). Each
 * source of connections is a listening socket with a policy
 * (pool/egress/policy.h): a sandbox, or all that reach the address where this
 * program listens. Of those each may have to show what it may reach of that
 * (pool/egress/pass.h). A name is resolved here, and the address that was
 * checked is the one that is connected to. Each request ends with a line in the
 * log: who, what, which address, how many bytes, what was decided. Loop thread
 * only. */
#ifndef WP_RUNTIME_EGRESS_EGRESS_H
#define WP_RUNTIME_EGRESS_EGRESS_H

#include <stdint.h>

#include "pool/egress/policy.h"
#include "pool/limits.h"
#include "runtime/egress/keys.h"
#include "runtime/egress/resolver.h"
#include "runtime/egress/upstream_tls.h"

struct wp_egress; /* Opaque. */

/* All pointers are borrowed until destroy. */
struct wp_egress_config {
    struct event_base *base;
    struct wp_resolver *resolver;
    struct wp_upstream_tls *tls;       /* NULL: no key may be for https. */
    const struct wp_egress_keys *keys; /* NULL: none. */
    /* WP_EGRESS_KEY_LEN bytes: sources without a name show a pass of that key
     * with each request. NULL: none is asked for. */
    const uint8_t *pass_key;
    struct wp_str packages; /* The preset's rules. */
    uint32_t conns_max;     /* Further ones wait. */
    /* Of one source, or of one address of a source without a name; refused
     * beyond. */
    uint32_t source_conns_max;
    uint64_t source_bytes_max; /* Both ways, in its life; 0: no bound. */
    int64_t idle_timeout_ns;   /* A side that does not move on. */
    int64_t answer_timeout_ns;
    int64_t silence_timeout_ns; /* Of both sides of a connection. */
    int64_t connect_timeout_ns; /* To each address; and of a lookup. */
};

/* Sensible values for every number. */
void wp_egress_config_init(struct wp_egress_config *config);

/* NULL on no memory. */
struct wp_egress *wp_egress_create(const struct wp_egress_config *config);
/* NULL is fine. */
void wp_egress_destroy(struct wp_egress *egress);

/* Takes fd, a bound stream socket, also when it fails. by: what narrows the
 * policy; "": nothing. A source of that name that is there is ended first; its
 * bytes still count. name may be "", for who listens for many: then the log
 * says each peer's address. */
WP_MUST_CHECK enum wp_status wp_egress_join(struct wp_egress *egress,
                                            struct wp_str name,
                                            struct wp_str policy,
                                            struct wp_str by, int fd,
                                            struct wp_err *err);
/* Drops all connections of the source, if it is there. */
void wp_egress_leave(struct wp_egress *egress, struct wp_str name);

#endif
