/* k8s/controllers/sandbox/volume.h - the volume claims of a Sandbox.
 *
 * One PersistentVolumeClaim for each of spec.volumeClaimTemplates, named
 * TEMPLATE-SANDBOX. They outlive Pods: a suspended sandbox keeps its data.
 * Pure; any thread. */
#ifndef WP_K8S_CONTROLLERS_SANDBOX_VOLUME_H
#define WP_K8S_CONTROLLERS_SANDBOX_VOLUME_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "k8s/objects/object.h"
#include "pool/base/compiler.h"

enum {
    WP_VOLUME_CLAIM_NAME_MAX = 253
};

/* How many there are. json is the whole sandbox. */
size_t wp_sandbox_volume_count(const json_t *json);
/* False when the template has no name, or the whole is too long. */
WP_MUST_CHECK bool
wp_sandbox_volume_name(const struct wp_object *sandbox, const json_t *json,
                       size_t index, char out[WP_VOLUME_CLAIM_NAME_MAX + 1]);
/* The claim to create; the caller owns it. */
json_t *wp_sandbox_volume_build(const struct wp_object *sandbox,
                                const json_t *json, size_t index,
                                const char *name, const char *hash);

/* The claims as a Pod's volumes, an array that the caller owns. */
json_t *wp_sandbox_volumes(const struct wp_object *sandbox, const json_t *json);
/* Is one of them called name? */
bool wp_sandbox_volumes_have(const json_t *volumes, const char *name);

#endif
