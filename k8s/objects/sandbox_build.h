/* k8s/objects/sandbox_build.h - the Sandbox objects that this project makes.
 *
 * Pure: objects in, JSON out. Loop thread only, as all objects are. */
#ifndef WP_K8S_OBJECTS_SANDBOX_BUILD_H
#define WP_K8S_OBJECTS_SANDBOX_BUILD_H

#include <jansson.h>

#include "k8s/config.h"
#include "k8s/objects/object.h"

enum {
    WP_BLUEPRINT_HASH_LEN = 16
};

/* A Sandbox of the pool, made from the template, for a POST. It is named, not
 * left to generateName: a POST whose answer was lost is sent again, and then
 * found to have been done; and so its Pod's name is known, which spares the
 * sandbox controller a write. uid goes into the annotation WP_ANNOTATION_UID.
 * Of config only warm_pool_eviction and default_tier count. A new reference;
 * NULL when the template's spec has no podTemplate.spec that is an object. */
WP_MUST_CHECK json_t *wp_sandbox_build(const struct wp_object *pool,
                                       const struct wp_object *template_,
                                       const char *name,
                                       const uint8_t uid[WP_UID_LEN],
                                       const struct wp_cluster_config *config);

/* The part of the template's spec that becomes the spec of a Sandbox, to be
 * changed at will; without secure defaults. A new reference; NULL as above. */
WP_MUST_CHECK json_t *wp_sandbox_blueprint(const struct wp_object *template_);

/* What every sandbox gets unless its template says otherwise: what its tier
 * asks for, or the installed one where it names none; no token of a service
 * account in its Pod; and, where the default network policy is in force
 * (managed, and without rules of the template's own), public DNS servers in
 * place of the cluster's. Where blueprint has no pod spec nothing changes.
 * Idempotent. */
void wp_sandbox_secure_defaults(json_t *blueprint,
                                const struct wp_object *template_,
                                enum wp_tier installed);

/* The value of WP_LABEL_TEMPLATE_HASH for what this template makes, where
 * installed is the tier of those that name none. */
void wp_sandbox_template_hash(const struct wp_object *template_,
                              enum wp_tier installed,
                              char out[WP_BLUEPRINT_HASH_LEN + 1]);

#endif
