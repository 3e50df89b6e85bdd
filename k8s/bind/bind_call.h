/* k8s/bind/bind_call.h - brings a parcel to the server in a Pod, or its next
 * identity (proto/parcel/request.h): one request on a connection of its own.
 *
 * Loop thread only. */
#ifndef WP_K8S_BIND_BIND_CALL_H
#define WP_K8S_BIND_BIND_CALL_H

#include <event2/buffer.h>
#include <event2/event.h>

#include "k8s/bind/bind_answer.h"
#include "proto/checkout/trees.h"

struct wp_bind_call; /* Opaque. */

struct wp_bind_request {
    const char *ip;
    uint16_t port;
    const char *token;
    /* As much text as request.h says. NULL: only the identity is brought, and
     * there is no parcel. */
    const char *fingerprint;
    const char *identity;    /* NULL: none. */
    struct evbuffer *parcel; /* Emptied. */
    /* Go before the parcel; borrowed until done or cancel. NULL: none. */
    const struct wp_bind_trees *trees;
    /* DEADLINE_EXCEEDED after as long without a byte that is taken. */
    int64_t within_ns;
    /* Once, unless it is cancelled; never from inside of wp_bind_call_start. */
    void (*done)(void *ctx, const struct wp_bind_answer *answer);
    void *ctx;
};

/* The texts are borrowed for the call. NULL: memory lacks, or ip is no address.
 */
struct wp_bind_call *wp_bind_call_start(struct event_base *base,
                                        const struct wp_bind_request *request);
/* Ends it without done; what was sent may be taken. NULL is fine. */
void wp_bind_call_cancel(struct wp_bind_call *call);

#endif
