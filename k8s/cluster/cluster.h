/* k8s/cluster/cluster.h - the Kubernetes side of the daemon.
 *
 * One thread with one event loop: the API client, the watches and the
 * controllers. It is the pool core's backend (pool/backend.h), and serves
 * SandboxClaim objects from the same ready queues that gRPC claims use. */
#ifndef WP_K8S_CLUSTER_CLUSTER_H
#define WP_K8S_CLUSTER_CLUSTER_H

#include <stdbool.h>
#include <stdint.h>

#include "k8s/api/api_config.h"
#include "k8s/config.h"
#include "pool/backend.h"
#include "pool/pool.h"

/* Fills every field with its default. */
void wp_cluster_config_init(struct wp_cluster_config *config);

struct wp_cluster; /* Opaque. */

WP_MUST_CHECK struct wp_cluster *
wp_cluster_create(const struct wp_cluster_config *config, struct wp_err *err);
/* Starts the thread. Once. Ready when wp_cluster_synced. */
WP_MUST_CHECK enum wp_status
wp_cluster_start(struct wp_cluster *cluster, const struct wp_cluster_core *core,
                 struct wp_err *err);
/* Every watch has a whole list. Any thread. */
bool wp_cluster_synced(const struct wp_cluster *cluster);
bool wp_cluster_leads(const struct wp_cluster *cluster); /* Any thread. */
/* The API server refuses the lease to this replica, which has never led: as it
 * is set up it never will. Any thread. */
bool wp_cluster_refused(const struct wp_cluster *cluster);
/* The endpoint of a Sandbox that waits in no pool: a claim's, or one that
 * somebody made. False: there is none, or it has no address. Any thread. */
WP_MUST_CHECK bool wp_cluster_find_sandbox(const struct wp_cluster *cluster,
                                           struct wp_str ns, struct wp_str name,
                                           char out[WP_ENDPOINT_MAX + 1]);
/* Valid until stop. */
struct wp_backend wp_cluster_backend(struct wp_cluster *cluster);
/* Has the controllers begin nothing any more, and returns when they have heard
 * of it; the backend goes on. For who is about to refuse claims: what they
 * would make of that is not for the next leader to find. Any thread but the
 * cluster's and control; after start. */
void wp_cluster_quiet(struct wp_cluster *cluster);
/* Gives leadership up and ends the thread; nothing in the cluster is deleted.
 * At most timeout_ns. Idempotent. */
void wp_cluster_stop(struct wp_cluster *cluster, int64_t timeout_ns);
void wp_cluster_destroy(struct wp_cluster *cluster); /* NULL is fine. */

#endif
