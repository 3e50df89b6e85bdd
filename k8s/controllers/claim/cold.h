/* k8s/controllers/claim/cold.h - the Sandbox that is made for one SandboxClaim.
 *
 * Named after the claim, so that it cannot be made twice. Environment and
 * volumes of the claim go in as far as the template's policies let them. Pure.
 */
#ifndef WP_K8S_CONTROLLERS_CLAIM_COLD_H
#define WP_K8S_CONTROLLERS_CLAIM_COLD_H

#include <jansson.h>

#include "k8s/objects/object.h"
#include "pool/annotations/tier.h"
#include "pool/base/status.h"

#define WP_REASON_ENV_REJECTED "EnvVarsInjectionRejected"
#define WP_REASON_VOLUMES_REJECTED "VolumeClaimTemplatesError"
#define WP_REASON_QUOTA "QuotaExceeded"
#define WP_REASON_BINDING "BindingFailed"
#define WP_REASON_ERROR "ReconcilerError"

/* The Sandbox to POST, where installed is the tier of templates that name none.
 * NULL when the template does not let the claim have it: *reason (static
 * storage) is Ready's reason and err says why. A new reference. */
WP_MUST_CHECK json_t *wp_cold_sandbox(const struct wp_object *claim,
                                      const struct wp_object *templ,
                                      enum wp_tier installed,
                                      const char **reason, struct wp_err *err);

#endif
