/* k8s/controllers/shared.h - what the controllers share. Private to k8s/.
 *
 * Everything here belongs to the cluster's thread, unless it says otherwise. */
#ifndef WP_K8S_CONTROLLERS_SHARED_H
#define WP_K8S_CONTROLLERS_SHARED_H

#include <event2/event.h>

#include "k8s/api/api.h"
#include "k8s/config.h"
#include "k8s/controllers/events.h"
#include "k8s/watch/store.h"
#include "k8s/objects/view.h"
#include "k8s/watch/work_queue.h"

struct wp_sandbox_refs;
struct wp_verdicts;
struct wp_repositories;      /* k8s/bind/repositories.h */
struct wp_identity_renewals; /* k8s/bind/identity.h */

/* The parts exist before any controller is created, and outlive them. */
struct wp_parts {
    struct wp_cluster_config config;
    struct wp_cluster_core core;
    struct event_base *base;
    const struct wp_clock *clock;
    struct wp_api *api;
    struct wp_events *events;
    struct wp_store *stores[WP_KIND_COUNT]; /* NULL: the kind is not watched. */
    struct wp_sandbox_refs *refs;
    /* NULL: Pods of templates are not checked. */
    struct wp_verdicts *verdicts;
    struct wp_repositories *repositories;
    struct wp_identity_renewals *renewals;
    /* There are keys that sign identities, and were none: claims may wait for
     * one. The claim controller sets it; NULL: it is not there. */
    void (*on_keys)(void *on_keys_ctx);
    void *on_keys_ctx;
    uint64_t seed;
    /* This replica leads and the stores are synced: controllers may write. */
    bool active;
    /* Runs run(arg, a, b) on the cluster's thread; false when the channel is
     * full. Any thread. */
    bool (*post)(void *self, void (*run)(void *arg, uint64_t a, uint64_t b),
                 void *arg, uint64_t a, uint64_t b);
    void *self;
};

/* The object as the target of a call. */
static inline struct wp_api_target
wp_object_target(const struct wp_object *object, enum wp_http_priority priority)
{
    return (struct wp_api_target){.kind = object->kind,
                                  .ns = object->ns,
                                  .name = object->name,
                                  .priority = priority};
}

/* The call did not fail for good: the same may succeed soon. */
static inline bool
wp_result_passes(const struct wp_api_result *result)
{
    return result->status == WP_ABORTED || result->status == WP_UNAVAILABLE ||
           result->status == WP_UNKNOWN_OUTCOME ||
           result->status == WP_RESOURCE_EXHAUSTED;
}

/* A paused queue on the cluster's loop. NULL when memory lacks. */
static inline struct wp_work_queue *
wp_parts_queue(const struct wp_parts *parts, uint32_t workers_max,
               void (*reconcile)(void *ctx, struct wp_work *work,
                                 const char *ns, const char *name),
               void *ctx)
{
    struct wp_work_queue *queue =
        wp_work_queue_create(&(struct wp_work_queue_config){
            .base = parts->base,
            .clock = parts->clock,
            .workers_max = workers_max,
            .seed = parts->seed,
            .reconcile = reconcile,
            .ctx = ctx,
        });

    if (queue != NULL) {
        wp_work_pause(queue, true);
    }
    return queue;
}

/* A controller listens to stores from its creation on and only fills its queue;
 * it writes while it is active. activate comes after all stores are synced and
 * leadership was won; deactivate when it is lost: what is under way may end,
 * but nothing new is written. destroy comes after the API client has ended all
 * calls with CANCELLED. */
struct wp_controller_ops {
    const char *name; /* "pool", "claim", "template", "sandbox", ... */
    void *(*create)(struct wp_parts *parts, struct wp_err *err);
    void (*activate)(void *self);
    void (*deactivate)(void *self);
    void (*destroy)(void *self);
    /* Prometheus text of what only it knows is added by the cluster from this;
     * may be NULL. */
    void (*stats)(const void *self, struct wp_work_queue_stats *out);
};

extern const struct wp_controller_ops wp_pool_controller_ops;
extern const struct wp_controller_ops wp_claim_controller_ops;
extern const struct wp_controller_ops wp_template_controller_ops;
extern const struct wp_controller_ops wp_sandbox_controller_ops;
extern const struct wp_controller_ops wp_webhook_controller_ops;
extern const struct wp_controller_ops wp_identity_controller_ops;

#endif
