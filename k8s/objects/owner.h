/* k8s/objects/owner.h - owner references, and what they mean. */
#ifndef WP_K8S_OBJECTS_OWNER_H
#define WP_K8S_OBJECTS_OWNER_H

#include <jansson.h>

#include "k8s/objects/object.h"

/* The reference that makes owner the controller of what carries it, and keeps
 * owner from vanishing before it in a foreground deletion. A new reference. Any
 * thread. */
WP_MUST_CHECK json_t *wp_owner_reference(const struct wp_object *owner);

/* Is the Sandbox one of this pool's that are ready for a claim, or on the way
 * there? It has the pool for its controller and the pool's label. pool NULL: it
 * is not known, and any pool of that name counts; one of another uid is another
 * pool. */
WP_MUST_CHECK bool wp_owner_is_pool(const struct wp_object *sandbox,
                                    const struct wp_object *pool);

#endif
