/* k8s/controllers/sandbox/child.h - whose a Pod, a Service or a volume claim
 * is.
 *
 * Labels find candidates; the controller reference alone decides. What nobody
 * controls may be taken over when it says so itself. Pure; any thread. */
#ifndef WP_K8S_CONTROLLERS_SANDBOX_CHILD_H
#define WP_K8S_CONTROLLERS_SANDBOX_CHILD_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "k8s/objects/names.h"
#include "k8s/objects/object.h"

enum wp_child_owner {
    WP_CHILD_OURS,
    WP_CHILD_UNOWNED, /* It has no controller. */
    WP_CHILD_FOREIGN, /* Another object controls it. */
};
enum wp_child_owner wp_child_owner(const struct wp_object *child,
                                   const struct wp_object *sandbox);

/* May a sandbox with this name hash take it over? True when it is labelled as
 * adoptable, or with that very hash. */
bool wp_child_adoptable(const struct wp_object *child, const char *hash);

/* Metadata of a new child: name, namespace, the hash label and the sandbox as
 * its controller. The caller owns it. */
json_t *wp_child_metadata(const struct wp_object *sandbox, const char *name,
                          const char *hash);

/* A merge patch that makes child (whole, as read) the sandbox's: other owner
 * references stay, and the version that was read is the precondition. */
json_t *wp_child_adoption(const json_t *child, const struct wp_object *sandbox,
                          const char *hash);
/* A merge patch of metadata that names the object by uid, so that it never
 * meets another of the same name. */
json_t *wp_child_patch(const struct wp_object *child);

/* Why it cannot be used, for a condition. */
void wp_child_refusal(const struct wp_object *child,
                      const struct wp_object *sandbox, char *out, size_t cap);

#endif
