/* k8s/objects/pool_policy.h - what a SandboxWarmPool's annotations say.
 *
 * They mean what they mean on one machine (pool/annotations). A mistake changes
 * nothing: the pool keeps what they said before, and the pool controller says
 * so in an event. Pure functions but for the zone files that a policy reads. */
#ifndef WP_K8S_OBJECTS_POOL_POLICY_H
#define WP_K8S_OBJECTS_POOL_POLICY_H

#include "k8s/objects/object.h"
#include "pool/pool.h"

/* Sets in spec what annotations say; spec has what holds without them.
 * INVALID_ARGUMENT: err names the annotation and what was expected; what
 * annotations can say is then undefined in spec. */
WP_MUST_CHECK enum wp_status wp_pool_policy_read(const struct wp_object *pool,
                                                 struct wp_pool_spec *spec,
                                                 struct wp_err *err);
/* Do both have the same annotations of our groups? */
bool wp_pool_policy_same(const struct wp_object *a, const struct wp_object *b);

#endif
