/* k8s/backend/pool_sync.h - the core's pools are the cluster's
 * SandboxWarmPools.
 *
 * On every replica, leading or not: what the store of warm pools has is added
 * to the core, changed there, or removed, on the control thread. A pool whose
 * template is not there makes nothing, but serves what it has. Everything else
 * that concerns a pool object (its status, roll-outs, orphans) is the pool
 * controller's.
 */
#ifndef WP_K8S_BACKEND_POOL_SYNC_H
#define WP_K8S_BACKEND_POOL_SYNC_H

#include "k8s/controllers/shared.h"

struct wp_cluster_backend;
struct wp_pool_sync; /* Opaque. */

/* Listens to the stores of warm pools and templates, so before anything is put
 * in there. parts and backend are borrowed until destroy; backend may be NULL.
 * NULL and err when memory lacks. */
WP_MUST_CHECK struct wp_pool_sync *
wp_pool_sync_create(struct wp_parts *parts, struct wp_cluster_backend *backend,
                    struct wp_err *err);
/* The two stores are synced: has the core told of every pool, and of each
 * change from now on. Once, before wp_cluster_backend_activate. */
void wp_pool_sync_start(struct wp_pool_sync *sync);
/* After the control thread has run what was posted. NULL is fine. */
void wp_pool_sync_destroy(struct wp_pool_sync *sync);

#endif
