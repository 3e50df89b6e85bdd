/* k8s/controllers/claim/controller.h - serves SandboxClaim objects.
 *
 * A claim gets a warm sandbox of its pool in two writes that the client waits
 * for: the patch that makes the Sandbox its own, with the first-observed
 * annotation beside it, and one patch of its status. With none ready it waits
 * in the pool core's queue and then starts cold, as the settings say. Its pure
 * parts are k8s/controllers/claim/adopt.h, _cold.h, _status.h, _expiry.h and
 * _metadata.h.
 *
 * The controller is wp_claim_controller_ops of k8s/controllers/shared.h. */
#ifndef WP_K8S_CONTROLLERS_CLAIM_CONTROLLER_H
#define WP_K8S_CONTROLLERS_CLAIM_CONTROLLER_H

#include "k8s/controllers/claim/metrics.h"

/* self: what create returned. Valid until destroy; any thread may read it. */
const struct wp_claim_metrics *wp_claim_controller_metrics(const void *self);

#endif
