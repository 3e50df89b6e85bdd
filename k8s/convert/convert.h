/* k8s/convert/convert.h - one object of agent-sandbox's kinds from one version
 * of its API to the other.
 *
 * v1beta1 is stored. What only v1alpha1 has is kept beside it in an annotation
 * of upstream's name; what only v1beta1 has goes with an object in v1alpha1 in
 * another one. So neither way loses anything, and upstream's own converter
 * understands what this one has stored. An annotation is written by whoever may
 * write the object: one that makes no sense counts as absent and never keeps an
 * object from being read. Pure; any thread. */
#ifndef WP_K8S_CONVERT_CONVERT_H
#define WP_K8S_CONVERT_CONVERT_H

#include <jansson.h>

#include "pool/base/compiler.h"
#include "pool/base/status.h"

/* Of a SandboxClaim that came as v1alpha1; the fields of v1alpha1 as JSON. */
#define WP_ANNOTATION_ALPHA_CLAIM                                              \
    "api.agents.x-k8s.io/v1alpha1-sandboxclaim-state"
/* The pool of a claim that names only a template: this and its name. */
#define WP_SHADOW_POOL_PREFIX "shadow-pool-"

/* The object in the version that desired ("group/version") names: a new
 * reference. object is not changed. One that has that version already comes
 * back as it is. NULL and err, which names what was expected: it is no object
 * of our kinds, a version that is not served, or one of another group. Fields
 * that are not known stay as they are. */
WP_MUST_CHECK json_t *wp_convert(json_t *object, const char *desired,
                                 struct wp_err *err);

#endif
