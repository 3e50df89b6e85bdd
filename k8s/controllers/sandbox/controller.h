/* k8s/controllers/sandbox/controller.h - the core controller: Pods for
 * Sandboxes.
 *
 * Listens to Sandboxes, Pods, Services and volume claims, and brings each
 * Sandbox's Pod, Service and volume claims to what its spec asks for, and its
 * status to what they are (k8s/controllers/sandbox/reconcile.h). What it does
 * for the cluster is wp_sandbox_controller_ops (k8s/controllers/shared.h). This
 * header is private to its own files. Loop thread only.
 *
 * Status is written as seldom as helps somebody: at once when a sandbox becomes
 * Ready or ceases to be, ends, is suspended, or cannot go on; a step of a start
 * only when nothing better has come for a while. So a sandbox of a pool costs
 * two writes from its creation to Ready: its Pod and its status. */
#ifndef WP_K8S_CONTROLLERS_SANDBOX_CONTROLLER_H
#define WP_K8S_CONTROLLERS_SANDBOX_CONTROLLER_H

#include "k8s/controllers/shared.h"
#include "k8s/controllers/sandbox/status.h"

struct wp_sandbox_gc;

enum {
    /* Nobody looks at a pool's sandbox on its way; at others people do. While
     * hundreds start at once each may take long, and then what is not written
     * lets them start sooner. */
    WP_STATUS_SOON_MS = 1000,
    WP_STATUS_SOON_POOLED_MS = 30000,
    WP_STATUS_LAZY_MS = 10000,
};

struct wp_sandbox_controller {
    struct wp_parts *parts;
    struct wp_work_queue *queue;
    struct wp_sandbox_gc *gc; /* NULL: the cluster has a collector. */
    /* uid -> monotonic ns by which a status is written that may wait; one for
     * each sandbox at most. */
    json_t *deadlines;
    uint32_t reconciles; /* Under way. */
    bool active;
};

/* Is it still a pool's, so that nobody waits for it by name? */
bool wp_sandbox_is_pooled(const struct wp_object *sandbox);

/* How long the status of this urgency may still wait; 0: it is to be written.
 * An earlier time that was set stays. */
int64_t wp_sandbox_status_delay_ns(struct wp_sandbox_controller *controller,
                                   const struct wp_object *sandbox,
                                   enum wp_status_urgency urgency);
/* It was written, or there is nothing to write. */
void wp_sandbox_status_settled(struct wp_sandbox_controller *controller,
                               const char *uid);

#endif
