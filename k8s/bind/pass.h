/* k8s/bind/pass.h - the pass of a sandbox in a Pod for the egress proxy of its
 * namespace, as variables that name the proxy. Pure; any thread. */
#ifndef WP_K8S_BIND_PASS_H
#define WP_K8S_BIND_PASS_H

#include <event2/buffer.h>

#include "k8s/config.h"
#include "pool/base/compiler.h"

struct wp_bind_pass {
    const char *ns;
    const char *sandbox;
    const char *ip;       /* Of its Pod. */
    struct wp_str policy; /* Of its pool; empty: it gets none. */
    struct wp_str by;     /* Of its claim; empty: it stays as it is. */
};

/* May a claim narrow the policy of its pool by that? INVALID_ARGUMENT: `by` is
 * no policy. FAILED_PRECONDITION: it asks for more, or nobody gets passes; err
 * says which. What `packages` stands for only the proxies know. */
WP_MUST_CHECK enum wp_status
wp_bind_pass_check(const struct wp_cluster_egress *egress, struct wp_str policy,
                   struct wp_str by, struct wp_err *err);
/* Puts it before what the parcel has, so that variables of the claim's own
 * count. True as well where there is none to be put; false: memory lacks. */
WP_MUST_CHECK bool wp_bind_pass_add(const struct wp_cluster_egress *egress,
                                    const struct wp_bind_pass *pass,
                                    struct evbuffer *parcel);

#endif
