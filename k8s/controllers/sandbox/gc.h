/* k8s/controllers/sandbox/gc.h - ends what a Sandbox that is gone has left
 * behind.
 *
 * Kubernetes' own garbage collector does that, by owner references; this stands
 * in for it where none runs (a bare API server). Before anything is deleted the
 * API server is asked whether the sandbox is really gone: watches of different
 * kinds do not keep step. Loop thread only. */
#ifndef WP_K8S_CONTROLLERS_SANDBOX_GC_H
#define WP_K8S_CONTROLLERS_SANDBOX_GC_H

#include "k8s/controllers/shared.h"

struct wp_sandbox_gc; /* Opaque. */

/* Listens to the stores of Sandboxes, Pods, Services and volume claims, which
 * must be there. NULL when memory lacks. */
struct wp_sandbox_gc *wp_sandbox_gc_create(struct wp_parts *parts);
void wp_sandbox_gc_destroy(struct wp_sandbox_gc *gc); /* NULL is fine. */
/* Deletes from now on, or does no more. */
void wp_sandbox_gc_activate(struct wp_sandbox_gc *gc, bool active);

#endif
