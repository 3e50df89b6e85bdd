/* allocator/daemon/recover.h - restores in Redis what it has forgotten.
 *
 * A pool that Redis may have lost records of is closed to commits until every
 * replica has restored what it knows (the steps are in
 * allocator/stores/redis/store.h). A thread of its own does this replica's
 * part. It never waits for the others in one pool while it has not restored its
 * part of another: two replicas that came to their pools in different orders
 * would wait for each other for ever.
 *
 *            doubt            restored                open
 *   CALM ----------> DOUBTED ---------> RESTORED -------------> CALM
 *                      ^                  |
 *                      '------------------'  closed again, or doubt
 *
 * Private to redis.c. */
#ifndef WP_ALLOCATOR_DAEMON_RECOVER_H
#define WP_ALLOCATOR_DAEMON_RECOVER_H

#include "allocator/daemon/core.h"
#include "allocator/stores/redis/store.h"

struct wp_recovery; /* Opaque. */

/* Has the core take in all that was heard of the others so far: it knows that
 * before it tells Redis. Control thread. */
typedef void (*wp_recovery_catch_up)(void *ctx);

/* pools is borrowed until destroy; at most WP_POOLS_MAX more of them come. NULL
 * and err when memory lacks. */
struct wp_recovery *wp_recovery_create(struct wp_daemon_core *core,
                                       wp_recovery_catch_up catch_up,
                                       void *catch_up_ctx,
                                       const struct wp_lease_redis_pool *pools,
                                       uint32_t n_pools, struct wp_err *err);
/* There are so many now; what came is in place. Any thread. */
void wp_recovery_grow(struct wp_recovery *recovery, uint32_t n_pools);
/* Starts the thread. The core knows every record by now. */
enum wp_status wp_recovery_start(struct wp_recovery *recovery,
                                 struct wp_lease_redis *redis,
                                 struct wp_err *err);
/* The pool is closed. Any thread; before start, too. */
void wp_recovery_doubt(struct wp_recovery *recovery,
                       const struct wp_lease_redis_pool *pool);
/* A replica has gone, and with it what it alone knew: from now on idle
 * sandboxes, which it may have granted, are given up in a recovery. Any thread.
 */
void wp_recovery_one_left(struct wp_recovery *recovery);
/* Ends the thread, which calls the control loop and the store. Harmless when it
 * does not run. NULL is fine. */
void wp_recovery_stop(struct wp_recovery *recovery);
/* Stopped or never started. NULL is fine. */
void wp_recovery_destroy(struct wp_recovery *recovery);

#endif
