/* k8s/objects/owner.h - owner references as JSON. */
#ifndef WP_K8S_OBJECTS_OWNER_H
#define WP_K8S_OBJECTS_OWNER_H

#include <jansson.h>

#include "k8s/objects/object.h"

/* The reference that makes owner the controller of what carries it, and keeps
 * owner from vanishing before it in a foreground deletion. A new reference. Any
 * thread. */
WP_MUST_CHECK json_t *wp_owner_reference(const struct wp_object *owner);

#endif
