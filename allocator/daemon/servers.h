/* allocator/daemon/servers.h - the transports: gRPC, and HTTP with the way to
 * sandboxes and the pages of metrics and health. Private to the daemon. */
#ifndef WP_ALLOCATOR_DAEMON_SERVERS_H
#define WP_ALLOCATOR_DAEMON_SERVERS_H

#include "allocator/daemon/access.h"
#include "allocator/daemon/backend.h"
#include "allocator/daemon/cluster.h"
#include "allocator/daemon/core.h"
#include "allocator/daemon/store.h"
#include "allocator/services/services.h"

/* What they show and serve. Borrowed. */
struct wp_daemon_served {
    struct wp_daemon_core *core;
    const struct wp_daemon_access *access;
    struct wp_daemon_backend *backend;
    struct wp_daemon_cluster *cluster; /* NULL: none. */
    const char *backend_name;
    struct wp_daemon_store *store;
    struct wp_services *services;
    struct wp_loop *http_loop;
};

struct wp_daemon_servers; /* Opaque. */

/* Binds; nothing is served yet. NULL and err. */
struct wp_daemon_servers *
wp_daemon_servers_create(const struct wp_daemon_served *served,
                         struct wp_err *err);
/* After the loops were started. */
enum wp_status wp_daemon_servers_start(struct wp_daemon_servers *self,
                                       struct wp_err *err);
/* From the end of start until refuse. Any thread. */
bool wp_daemon_servers_are_serving(const struct wp_daemon_servers *self);
/* What gRPC's health says. Any thread. */
void wp_daemon_servers_set_health(struct wp_daemon_servers *self, bool serving);
/* The daemon leaves: health and readiness say no. */
void wp_daemon_servers_refuse(struct wp_daemon_servers *self);
/* gRPC calls in flight. */
uint32_t wp_daemon_servers_calls(const struct wp_daemon_servers *self);
/* Refuses calls, and waits for_ns for those in flight. */
void wp_daemon_servers_drain(struct wp_daemon_servers *self, int64_t for_ns);
/* Ends them. NULL is fine. */
void wp_daemon_servers_stop(struct wp_daemon_servers *self);
/* After the control thread has ended. NULL is fine. */
void wp_daemon_servers_destroy(struct wp_daemon_servers *self);

#endif
