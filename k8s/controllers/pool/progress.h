/* k8s/controllers/pool/progress.h - reports once, as Events, when a pool stops
 * getting on, and once when it gets on again; and the same of whether its
 * policy holds, and of whether it is followed or somebody scales by hand.
 *
 * A SandboxWarmPool has no conditions, so events are all there is. Loop thread
 * only. */
#ifndef WP_K8S_CONTROLLERS_POOL_PROGRESS_H
#define WP_K8S_CONTROLLERS_POOL_PROGRESS_H

#include "k8s/controllers/events.h"
#include "k8s/objects/object.h"

enum wp_pool_hindrance {
    WP_POOL_PROGRESSING,
    WP_POOL_NO_TEMPLATE,   /* Its SandboxTemplate is not there. */
    WP_POOL_BAD_TEMPLATE,  /* No Pod of it can start. */
    WP_POOL_UNSCHEDULABLE, /* Sandboxes wait for room in the cluster. */
    WP_POOL_FAILING,       /* What is made fails, one after the other. */
    WP_POOL_BAD_POLICY,    /* Its annotations are not followed. */
    WP_POOL_BY_HAND,       /* Somebody else sets its spec.replicas. */
};

/* What is told of. */
enum wp_pool_concern {
    WP_POOL_SANDBOXES, /* WarmPoolNotProgressing, WarmPoolProgressing; of a
                        * template's mistakes each is told. */
    WP_POOL_POLICY,    /* InvalidPolicy, PolicyAccepted; other words, such as
                        * of the next mistake, are told as well. */
    WP_POOL_HAND,      /* ScaledByHand, ScaledByPolicy; the same. */
};

struct wp_pool_progress; /* Opaque. */

/* events is borrowed. NULL when memory lacks. */
struct wp_pool_progress *wp_pool_progress_create(struct wp_events *events,
                                                 enum wp_pool_concern concern);
void wp_pool_progress_destroy(struct wp_pool_progress *progress);

/* Says so, in an event on the pool, if it differs from what was said of this
 * pool before; a pool that nothing was said of is progressing. words is what is
 * in the way, for people; not looked at when nothing is. At most WP_POOLS_MAX
 * pools that are hindered are remembered; of more, the one that was remembered
 * first is told again later. */
void wp_pool_progress_report(struct wp_pool_progress *progress,
                             const struct wp_object *pool,
                             enum wp_pool_hindrance hindrance,
                             const char *words);
/* The pool is gone. */
void wp_pool_progress_forget(struct wp_pool_progress *progress,
                             const char *pool_uid);

#endif
