/* k8s/cluster/claim_make.h - a SandboxClaim made for who is outside of the
 * cluster. */
#ifndef WP_K8S_CLUSTER_CLAIM_MAKE_H
#define WP_K8S_CLUSTER_CLAIM_MAKE_H

#include <stdint.h>

#include "pool/base/status.h"

struct wp_cluster;

/* Something that the claim says of itself. */
struct wp_claim_mark {
    const char *key;
    const char *value;
};

/* The caller's until done, with all it points to. */
struct wp_claim_make {
    /* Request. */
    const char *ns;
    const char *name;
    const char *template_name;
    int64_t ttl_ns; /* From now to its shutdownTime; then it is deleted. */
    /* Labels where their values may be, annotations otherwise. */
    const struct wp_claim_mark *marks;
    uint32_t n_marks;
    const char *traceparent;                  /* Of who asks; "": none. */
    void (*done)(struct wp_claim_make *make); /* The cluster's thread. */
    void *ctx;

    /* Answer: as struct wp_api_result has it; NOT_FOUND: there is no such
     * template. */
    enum wp_status status;
    char reason[256];
    int64_t retry_after_ns; /* 0: not said. */

    /* Private to the cluster. */
    struct wp_cluster *cluster;
};

/* Makes the claim, of any pool of the template; every replica may. False: too
 * much is under way; try again later. Any thread, until stop. */
WP_MUST_CHECK bool wp_cluster_make_claim(struct wp_cluster *cluster,
                                         struct wp_claim_make *make);

#endif
