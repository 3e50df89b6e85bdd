/* k8s/controllers/pool/controller_impl.h - what the files of the pool
 * controller share.
 *
 * How many sandboxes there are to be is the pool core's business; it orders and
 * gives up through the backend. The controller does what an order cannot say:
 * it reports the pool's status, gives up sandboxes of an old template, takes in
 * or ends those that nobody controls, and tells people what is in the way. */
#ifndef WP_K8S_CONTROLLERS_POOL_CONTROLLER_IMPL_H
#define WP_K8S_CONTROLLERS_POOL_CONTROLLER_IMPL_H

#include "k8s/controllers/shared.h"
#include "k8s/controllers/pool/progress.h"
#include "k8s/controllers/pool/staleness.h"

struct wp_pool_controller {
    struct wp_parts *parts;
    struct wp_work_queue *queue; /* Keys are pools. */
    struct wp_staleness *staleness;
    struct wp_pool_progress *progress;
    struct wp_pool_progress *policies;
    struct wp_pool_progress *hands;
};

/* Of the work queue; ctx is the controller. */
void wp_pool_reconcile(void *ctx, struct wp_work *work, const char *ns,
                       const char *name);

/* Gives up the idle sandboxes of the pool that are stale, if its strategy is to
 * recreate them, at once: a reconcile may have to wait for the answers of the
 * one before it, and until then claims would be served with what is old. */
void wp_pool_give_up_stale(struct wp_pool_controller *controller,
                           const struct wp_object *pool,
                           const struct wp_object *template_);

#endif
