/* k8s/controllers/sandbox/expiry.h - when a Sandbox is to be shut down. Pure;
 * any thread. */
#ifndef WP_K8S_CONTROLLERS_SANDBOX_EXPIRY_H
#define WP_K8S_CONTROLLERS_SANDBOX_EXPIRY_H

#include <stdbool.h>
#include <stdint.h>

#include "k8s/objects/object.h"

/* Nanoseconds until spec.shutdownTime; 0 when it has come; -1 without one. */
int64_t wp_sandbox_expires_in_ns(const struct wp_object *sandbox,
                                 int64_t wall_ns);
/* Does its status say that it has expired? */
bool wp_sandbox_marked_expired(const struct wp_object *sandbox);

#endif
