/* k8s/objects/pool_policy.h - the scaling policy in a SandboxWarmPool's
 * annotations.
 *
 * The keys are those of pool/policy/policy.h, the same as on one machine. A
 * policy with a mistake changes nothing: the pool keeps the last one that had
 * none, and the pool controller says so in an event. Pure functions but for the
 * zone files that wp_scale_policy_set reads. */
#ifndef WP_K8S_OBJECTS_POOL_POLICY_H
#define WP_K8S_OBJECTS_POOL_POLICY_H

#include "k8s/objects/object.h"
#include "pool/policy/policy.h"

/* WP_SCALE_PLAIN when there are no annotations of the group. INVALID_ARGUMENT:
 * err names the annotation and what was expected; *out is then no policy. */
WP_MUST_CHECK enum wp_status wp_pool_policy_read(const struct wp_object *pool,
                                                 struct wp_scale_policy *out,
                                                 struct wp_err *err);
/* Do both have the same annotations of the group? */
bool wp_pool_policy_same(const struct wp_object *a, const struct wp_object *b);

#endif
