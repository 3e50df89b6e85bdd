/* allocator/daemon/redis.h - leases in Redis, and the replicas that share them.
 * Private to daemon*.c. */
#ifndef WP_ALLOCATOR_DAEMON_REDIS_H
#define WP_ALLOCATOR_DAEMON_REDIS_H

#include "allocator/daemon/core.h"
#include "allocator/daemon/locks.h"
#include "local/manifest/manifest.h"
#include "allocator/stores/redis/store.h"
#include "allocator/conf/redis_url.h"

struct wp_daemon_redis; /* Opaque. */

/* For --check-config: are the passwords and the files of TLS there and usable?
 * Errors name the setting. Without lease_store redis nobody asks. */
WP_MUST_CHECK enum wp_status
wp_daemon_redis_check_login(const struct wp_conf *conf, struct wp_err *err);
/* Reads the settings and begins to connect; does not wait for Redis. All are
 * borrowed. NULL and err. */
struct wp_daemon_redis *
wp_daemon_redis_open(struct wp_daemon_core *core,
                     const struct wp_manifest *manifest,
                     const struct wp_daemon_locks *locks, struct wp_err *err);
struct wp_lease_store wp_daemon_redis_store(struct wp_daemon_redis *redis);
/* After the core was told of every record: hears the others from now on, and
 * recovers pools when Redis may have forgotten. */
enum wp_status wp_daemon_redis_follow(struct wp_daemon_redis *redis,
                                      struct wp_err *err);
/* Leaves the names of the core's pools for the next start: see known_pools.h.
 * The keeper, once all records were told, and when pools have come. */
enum wp_status wp_daemon_redis_note_pools(const struct wp_daemon_redis *redis,
                                          struct wp_err *err);
/* Tells the core what was heard; returns when it is to be called again at the
 * latest. Control thread. */
int64_t wp_daemon_redis_run(struct wp_daemon_redis *redis);
/* Does the core know the records of all its pools, as far as this store keeps
 * them? Control thread. */
bool wp_daemon_redis_is_read(struct wp_daemon_redis *redis);
/* Is another replica the keeper, as far as was heard? Its name goes to host.
 * Any thread. */
bool wp_daemon_redis_other_keeper(struct wp_daemon_redis *redis, char *host,
                                  size_t cap);
/* Replicas that are keepers, this one among them, as far as was heard within
 * heartbeat_timeout: 1, or 0 while there is none, or it stands still. Any
 * thread. */
uint32_t wp_daemon_redis_keepers(const struct wp_daemon_redis *redis);
/* Tells the other replicas that this one leaves. NULL is fine. Any thread. */
void wp_daemon_redis_leave(struct wp_daemon_redis *redis);
/* Any thread. */
void wp_daemon_redis_stats(const struct wp_daemon_redis *redis,
                           struct wp_lease_redis_stats *out,
                           uint64_t *feed_refused);
/* Ends the recovering thread, which calls the control loop. NULL is fine. */
void wp_daemon_redis_quit(struct wp_daemon_redis *redis);
/* After the last commit; before the core is destroyed. NULL is fine. */
void wp_daemon_redis_close(struct wp_daemon_redis *redis);

#endif
