/* k8s/bind/claim_identity.h - the identity that a SandboxClaim asks for,
 * signed. Pure, but for what it calls. */
#ifndef WP_K8S_BIND_CLAIM_IDENTITY_H
#define WP_K8S_BIND_CLAIM_IDENTITY_H

#include "k8s/bind/identity.h"
#include "k8s/objects/object.h"

struct wp_claim_identity {
    const struct wp_object *claim;
    const char *pool; /* "": the Sandbox is of none. */
    const char *sandbox;
    int64_t ends_wall_ms; /* INT64_MAX: the claim has no end. */
};

/* Has it the annotation? */
bool wp_claim_identity_wants(const struct wp_object *claim);
/* By the claim's annotation as it is now. token->text "": it asks for none, or
 * what was given is as good. Its tenant is WP_TENANT_SANDBOX_CLAIMS and its
 * claim the object's name. Not WP_OK: err says in "identity: ..." why not. */
WP_MUST_CHECK enum wp_status
wp_claim_identity_sign(const struct wp_claim_identity *about,
                       const struct wp_identity *given,
                       const struct wp_cluster_identity *signer,
                       struct wp_identity_token *token, struct wp_err *err);

#endif
