/* k8s/objects/pod_tier.h - what a tier makes of a Pod's spec.
 *
 * Pure: JSON in, JSON out. */
#ifndef WP_K8S_OBJECTS_POD_TIER_H
#define WP_K8S_OBJECTS_POD_TIER_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "pool/annotations/tier.h"

/* The Service of deploy/kubernetes/egress, in the sandbox's namespace. */
#define WP_EGRESS_APP "warmpool-egress"
#define WP_EGRESS_PORT 3128

/* Fills what the spec leaves out and the tier asks for; what it states stays.
 * Changes pod_spec, an object, and what is below it. Idempotent. */
void wp_pod_apply_tier(json_t *pod_spec, enum wp_tier tier);
/* Does the spec state anything that is weaker than the tier? out: the paths of
 * what it states, with ", " between them, cut to cap. */
WP_MUST_CHECK bool wp_pod_is_weaker(const json_t *pod_spec, enum wp_tier tier,
                                    char *out, size_t cap);

#endif
