/* k8s/backend/backend.h - the pool core's backend for a cluster: sandboxes as
 * objects.
 *
 * The core orders, destroys and leases slots on its control thread; here, on
 * the cluster's thread, each becomes what is to be done with one Sandbox
 * object: POST, DELETE, or the PATCH that takes it out of its pool for a lease.
 * What the watch says of objects goes back as reports. One work queue does it
 * all, a key at a time: whatever is asked or seen only changes what is wanted
 * of an object, and the reconcile does the next step towards it.
 *
 * Only a replica that leads writes. The others keep what they know, so that a
 * change of leaders loses no request of the core; orders that were not begun
 * come to nothing when this one begins to lead, and the core orders anew. */
#ifndef WP_K8S_BACKEND_BACKEND_H
#define WP_K8S_BACKEND_BACKEND_H

#include "k8s/controllers/shared.h"
#include "pool/backend.h"

struct wp_cluster_backend; /* Opaque. */

/* Listens to the sandbox store, so before anything is put in there. parts is
 * borrowed until destroy; of it, refs is made and owned here, and core must be
 * filled in before the port is used. NULL and err when memory lacks. */
WP_MUST_CHECK struct wp_cluster_backend *
wp_cluster_backend_create(struct wp_parts *parts, struct wp_err *err);
/* For wp_pools_config; its functions are for the control thread. Create and
 * destroy answer RESOURCE_EXHAUSTED while too much of them waits for the
 * cluster's thread. Valid until destroy. */
struct wp_backend wp_cluster_backend_port(struct wp_cluster_backend *backend);

/* This replica leads and all stores are synced; parts->active is true. Lists
 * all Sandboxes anew, since the watch may lag behind the leader before. Then it
 * has the core told, on the control thread, of every sandbox that there is
 * (wp_pools_seen, wp_pools_found) and then of what is gone
 * (wp_pools_lose_unseen), and calls ready(ctx), on the cluster's thread: the
 * core may become the keeper. The pools must have been posted before
 * (wp_pool_sync_start). Not called when deactivate comes first. */
void wp_cluster_backend_activate(struct wp_cluster_backend *backend,
                                 void (*ready)(void *ctx), void *ctx);
/* Begins nothing any more; what is under way ends. */
void wp_cluster_backend_deactivate(struct wp_cluster_backend *backend);
/* What is known may be of another world than the API server's: while that is
 * so, no order is begun. Afterwards the core is told of what is there that it
 * does not know, and orders from before come to nothing: it orders anew. */
void wp_cluster_backend_doubt(struct wp_cluster_backend *backend,
                              bool doubtful);
/* May this request leave now, or go again? While no order is begun, none of
 * earlier goes either; all else does, a claim's own Sandbox too. For the API
 * client's may_send. */
bool wp_cluster_backend_may_send(const struct wp_cluster_backend *backend,
                                 const char *method, const char *path,
                                 enum wp_http_priority priority);
/* After the API client has ended all calls with CANCELLED, and the control
 * thread uses the port no more. NULL is fine. */
void wp_cluster_backend_destroy(struct wp_cluster_backend *backend);

/* A pool is known to the core now: its sandboxes that had no place are looked
 * at again. Any thread. */
void wp_cluster_backend_pool_added(struct wp_cluster_backend *backend,
                                   const char *pool_uid);

struct wp_cluster_backend_stats {
    uint32_t known;     /* Sandboxes with a slot. */
    uint64_t posted;    /* POSTs that were answered with success. */
    uint64_t deleted;   /* DELETEs, the same. */
    uint64_t adopted;   /* Taken out of their pool for a lease of gRPC. */
    uint64_t taken;     /* Lost to another controller. */
    uint64_t found;     /* That this process did not order. */
    uint64_t orphans;   /* Deleted: of a lease that nobody knows any more. */
    uint64_t refused;   /* Orders that the API server refused for good. */
    uint64_t conflicts; /* 409 on an adoption. */
    struct wp_work_queue_stats queue;
};
void wp_cluster_backend_stats(const struct wp_cluster_backend *backend,
                              struct wp_cluster_backend_stats *out);

#endif
