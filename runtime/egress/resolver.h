/* runtime/egress/resolver.h - the addresses of names, by c-ares.
 *
 * Why not getaddrinfo: it blocks, so a sandbox that asks for slow names would
 * hold threads that others need. Why not libevent's resolver: it asks from one
 * port for as long as it lives, and does not turn to TCP for long answers.
 * Names are taken as they are, without the machine's search list; /etc/hosts
 * goes first. One thread. */
#ifndef WP_RUNTIME_EGRESS_RESOLVER_H
#define WP_RUNTIME_EGRESS_RESOLVER_H

#include <stdint.h>
#include <sys/socket.h>

#include "pool/base/status.h"

struct event_base;
struct wp_resolver; /* Opaque. */
struct wp_lookup;   /* Opaque. */

enum {
    WP_RESOLVED_MAX = 8, /* Addresses of one name that are looked at. */
};

struct wp_resolved {
    struct sockaddr_storage addresses[WP_RESOLVED_MAX]; /* Without port. */
    uint32_t len;
    const char *error; /* When len is 0: why. */
};

/* servers: "ADDRESS[:PORT],..." instead of the system's; NULL. NULL and err. */
struct wp_resolver *wp_resolver_create(struct event_base *base,
                                       const char *servers, struct wp_err *err);
/* Each lookup must be over or cancelled. NULL is fine. */
void wp_resolver_destroy(struct wp_resolver *resolver);

/* done() is called once, from the loop, never from in here; found is borrowed
 * for the call. NULL: no memory. */
struct wp_lookup *
wp_resolver_lookup(struct wp_resolver *resolver, const char *name,
                   void (*done)(void *ctx, const struct wp_resolved *found),
                   void *ctx);
/* done() will not be called. Not from done(), nor after it. */
void wp_lookup_cancel(struct wp_lookup *lookup);

#endif
