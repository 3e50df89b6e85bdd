/* k8s/controllers/claim/expiry.h - when a SandboxClaim's time is over. Pure. */
#ifndef WP_K8S_CONTROLLERS_CLAIM_EXPIRY_H
#define WP_K8S_CONTROLLERS_CLAIM_EXPIRY_H

#include "k8s/objects/view.h"

/* The reason of Ready once its time is over. */
#define WP_REASON_CLAIM_EXPIRED "ClaimExpired"

/* The earlier of spec.lifecycle.shutdownTime and the end of its work plus
 * ttlSecondsAfterFinished, in milliseconds since 1970; INT64_MAX: never. */
int64_t wp_claim_expires_wall_ms(const struct wp_claim_view *claim);
/* Does its status say so already? */
bool wp_claim_says_expired(const struct wp_claim_view *claim);

#endif
