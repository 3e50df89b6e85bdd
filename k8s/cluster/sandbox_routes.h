/* k8s/cluster/sandbox_routes.h - where Sandboxes are that wait in no pool.
 *
 * The proxy asks here for those that the core has no lease of, since they
 * started cold for a claim or somebody made them, and where a leased one's Pod
 * is now. What waits in a pool is not in it. The store's thread keeps it, any
 * thread reads. */
#ifndef WP_K8S_CLUSTER_SANDBOX_ROUTES_H
#define WP_K8S_CLUSTER_SANDBOX_ROUTES_H

#include <stdbool.h>
#include <stdint.h>

#include "k8s/watch/store.h"
#include "pool/base/str.h"
#include "pool/limits.h"

struct wp_sandbox_routes; /* Opaque. */

/* Listens to sandboxes, so before any is put in. NULL when memory lacks. */
struct wp_sandbox_routes *wp_sandbox_routes_create(struct wp_store *sandboxes);
/* After the store. NULL is fine. */
void wp_sandbox_routes_destroy(struct wp_sandbox_routes *routes);

/* The endpoint of the Sandbox, its Pod's address and this port. False: there is
 * none of that name, it has no address, or it waits in a pool. Any thread. */
WP_MUST_CHECK bool wp_sandbox_routes_find(struct wp_sandbox_routes *routes,
                                          struct wp_str ns, struct wp_str name,
                                          uint16_t port,
                                          char out[WP_ENDPOINT_MAX + 1]);

#endif
