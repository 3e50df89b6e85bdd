/* k8s/controllers/sandbox/pod.h - the Pod of a Sandbox.
 *
 * A Pod is built once; later only its labels and annotations follow the
 * sandbox, never its spec. Keys of the sandbox system in a pod template never
 * reach a Pod: they choose network policies and Services, and a template is
 * written by tenants. Pure; any thread. */
#ifndef WP_K8S_CONTROLLERS_SANDBOX_POD_H
#define WP_K8S_CONTROLLERS_SANDBOX_POD_H

#include <jansson.h>

#include "k8s/objects/names.h"
#include "k8s/objects/object.h"

/* What the annotation says; "" without. */
const char *wp_sandbox_pod_annotation(const struct wp_object *sandbox);

/* The Pod to create, named like the sandbox. json is the whole sandbox; its
 * volume claims replace volumes of their name. The caller owns the result. */
json_t *wp_sandbox_pod_build(const struct wp_object *sandbox,
                             const json_t *json, const char *hash);

/* Tells each container the digest of the sandbox's token (see
 * proto/formats/sandbox_token.h), where its template does not say one. Only for
 * sandboxes that were made for a pool, or whose claim brings something: nobody
 * needs it for others, and they stay as they are. pod: what
 * wp_sandbox_pod_build made. key: WP_SANDBOX_KEY_LEN. */
void wp_sandbox_pod_add_token(json_t *pod, const struct wp_object *sandbox,
                              const uint8_t *key);

/* Puts into patch (a merge patch that has metadata) what brings the Pod's
 * labels and annotations to what the sandbox asks for: after an adoption, that
 * drops the warm pool's label and the mark that the Pod is safe to evict. False
 * when they are right already. */
bool wp_sandbox_pod_metadata(const struct wp_object *sandbox,
                             const json_t *json, const char *hash,
                             const struct wp_object *pod, json_t *patch);

#endif
