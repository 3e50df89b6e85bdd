/* allocator/daemon/cluster.h - the daemon's Kubernetes side.
 *
 * Joins k8s/cluster/cluster.h to the core, the services and the pages of
 * metrics and health. The leader of the replicas is the keeper of the core: it
 * makes sandboxes and ends leases. A replica that follows serves claims of gRPC
 * only when the lease store is shared. Every function takes NULL where there is
 * no cluster. */
#ifndef WP_ALLOCATOR_DAEMON_CLUSTER_H
#define WP_ALLOCATOR_DAEMON_CLUSTER_H

#include <stdatomic.h>
#include <stdbool.h>

#include "allocator/daemon/redis.h"
#include "pool/backend.h"
#include "proto/formats/sandbox_token.h"
#include "pool/base/status.h"
#include "pool/claim.h"

struct evbuffer;
struct wp_trigger_order; /* allocator/http/trigger.h */
struct wp_daemon_core;
struct wp_daemon_cluster; /* Opaque. */
struct wp_daemon_servers;

/* Reads which API server and as whom, and makes the parts; nothing is sent
 * yet. Before the core, whose backend it is. NULL and err. */
struct wp_daemon_cluster *wp_daemon_cluster_create(struct wp_daemon_core *core,
                                                   struct wp_err *err);
struct wp_backend wp_daemon_cluster_port(struct wp_daemon_cluster *self);
/* After the control thread was started. redis: NULL with another store. */
WP_MUST_CHECK enum wp_status
wp_daemon_cluster_start(struct wp_daemon_cluster *self,
                        struct wp_daemon_redis *redis, struct wp_err *err);
/* Takes up or lays down what a leader does; the servers' health follows it.
 * Control thread, each turn. */
void wp_daemon_cluster_turn(struct wp_daemon_cluster *self,
                            struct wp_daemon_servers *servers);
/* May claims of gRPC be served? NULL: always. */
const _Atomic(bool) *
wp_daemon_cluster_serves(const struct wp_daemon_cluster *self);
/* Why the cluster lets this replica do nothing yet; NULL: it does, or there is
 * no cluster. Static. Any thread. */
const char *wp_daemon_cluster_not_ready(const struct wp_daemon_cluster *self);
/* Where a leased Sandbox's Pod is now, into info: it may have another one than
 * when the core heard of it. Any thread. */
void wp_daemon_cluster_locate(const struct wp_daemon_cluster *self,
                              struct wp_claim_info *info);
/* A Sandbox that the core has no lease of, since no pool has given it out. Its
 * tenant is that of all SandboxClaims, and its name is left out of info: it has
 * no token. Any thread. */
WP_MUST_CHECK bool wp_daemon_cluster_find(const struct wp_daemon_cluster *self,
                                          struct wp_str ns, struct wp_str name,
                                          struct wp_claim_info *out);
/* The token that the lease's sandbox is called with; "" where there is none,
 * since no token_key_file was named. Any thread. */
void wp_daemon_cluster_sandbox_token(const struct wp_daemon_cluster *self,
                                     const struct wp_claim_info *info,
                                     char out[WP_SANDBOX_TOKEN_TEXT + 1]);
/* Makes the SandboxClaim that a trigger asks for; false: try again later. Any
 * thread, until stop. */
WP_MUST_CHECK bool wp_daemon_cluster_make_claim(struct wp_daemon_cluster *self,
                                                struct wp_trigger_order *order);
/* What only it can tell. Any thread. */
void wp_daemon_cluster_metrics(struct wp_daemon_cluster *self,
                               struct evbuffer *out);
/* It is about to leave: objects are left to the next leader. Main thread; after
 * start. */
void wp_daemon_cluster_quiet(struct wp_daemon_cluster *self);
/* Gives leadership up and ends its thread. */
void wp_daemon_cluster_stop(struct wp_daemon_cluster *self);
/* After the control thread has ended, before the core. */
void wp_daemon_cluster_destroy(struct wp_daemon_cluster *self);

#endif
