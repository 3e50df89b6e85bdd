/* allocator/daemon/store.h - what keeps leases: chosen by the settings, read at
 * the start, closed at the end. Private to the daemon. */
#ifndef WP_ALLOCATOR_DAEMON_STORE_H
#define WP_ALLOCATOR_DAEMON_STORE_H

#include "allocator/daemon/core.h"
#include "allocator/daemon/redis.h"
#include "allocator/stores/meter.h"
#include "allocator/stores/sqlite/store.h"
#include "local/manifest/manifest.h"
#include "pool/lease_store.h"

struct evbuffer;
struct wp_daemon_store; /* Opaque. */

/* Opens the store that the settings choose. All are borrowed. NULL and err. */
struct wp_daemon_store *
wp_daemon_store_open(struct wp_daemon_core *core,
                     const struct wp_manifest *manifest,
                     const struct wp_daemon_locks *locks, struct wp_err *err);
/* The port for the core. */
struct wp_lease_store wp_daemon_store_port(const struct wp_daemon_store *self);
/* What commits go through; NULL: the store is memory. */
struct wp_lease_meter *
wp_daemon_store_meter(const struct wp_daemon_store *self);
/* NULL: leases are not in Redis. */
struct wp_daemon_redis *
wp_daemon_store_redis(const struct wp_daemon_store *self);
/* What only the store in use can tell. Any thread. */
void wp_daemon_store_metrics(const struct wp_daemon_store *self,
                             struct evbuffer *out);
/* After the last commit; its last answers go to the core. */
void wp_daemon_store_close(struct wp_daemon_store *self);
/* After that, once nobody flushes any more. NULL is fine. */
void wp_daemon_store_destroy(struct wp_daemon_store *self);

/* --- restore.c --- */

/* Tells the core of every record; *restored: of how many sandboxes that live.
 * Before anything else uses it. key_made: no earlier token verifies any more.
 */
enum wp_status wp_daemon_restore(struct wp_daemon_core *core,
                                 struct wp_lease_store store, bool key_made,
                                 uint32_t *restored, struct wp_err *err);

/* --- store_metrics.c --- */

void wp_daemon_sqlite_metrics(struct wp_lease_sqlite *sqlite,
                              struct evbuffer *out);
void wp_daemon_redis_metrics(const struct wp_daemon_redis *redis,
                             struct evbuffer *out);

#endif
