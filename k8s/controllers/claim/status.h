/* k8s/controllers/claim/status.h - what a SandboxClaim's status is to say.
 *
 * Clients wait for one change of status that carries the sandbox's name, its
 * addresses and Ready, so all of it goes into one merge patch. Pure. */
#ifndef WP_K8S_CONTROLLERS_CLAIM_STATUS_H
#define WP_K8S_CONTROLLERS_CLAIM_STATUS_H

#include <jansson.h>

#include "k8s/objects/view.h"

/* How things stand with the claim. Texts are borrowed. */
struct wp_claim_outcome {
    /* What it has; its Ready and Finished are passed on as they are. NULL:
     * nothing. */
    const struct wp_object *sandbox;
    bool expired; /* Its time is over: Ready says that instead. */
    /* Something keeps it from being served: Ready is False for this reason, in
     * these words; NULL: nothing does. status.sandbox stays as it is when there
     * is no sandbox, for a client may be using it. */
    const char *reason;
    const char *message;
    /* With a reason: what status.sandbox names is not the claim's any more. */
    bool forget_sandbox;
    /* The API server's CRD has no status.sandbox.serviceFQDN and drops it. */
    bool no_service_fqdn;
};

/* The merge patch that makes status say so, without resourceVersion; NULL when
 * it does already. A new reference. */
WP_MUST_CHECK json_t *
wp_claim_status_patch(const struct wp_object *claim,
                      const struct wp_claim_outcome *outcome, int64_t wall_ns);
/* Would Ready be True? */
bool wp_claim_status_ready(const struct wp_claim_outcome *outcome);

#endif
