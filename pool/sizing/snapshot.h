/* pool/sizing/snapshot.h - what is kept of a pool in the lease store beside its
 * records; private to the files of pool/core.
 *
 * That is what its scaler has learned, if it has one, and the latest part of
 * the record of its claims. Each pool has one snapshot; without a durable store
 * there are none, and of a pool that has neither scaler nor record none is
 * written. Control thread only, all of it. */
#ifndef WP_POOL_SIZING_SNAPSHOT_H
#define WP_POOL_SIZING_SNAPSHOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pool/base/status.h"

struct wp_pool;
struct wp_pools;

/* The pool's own state of it; false: no memory. */
WP_MUST_CHECK bool wp_snapshot_create(struct wp_pool *pool);
/* What a scaler had learned is not carried on any more. */
void wp_snapshot_drop_carried(struct wp_pool *pool);
/* Memory for snapshots, where the store keeps them; false: there is none. */
WP_MUST_CHECK bool wp_snapshots_create(struct wp_pools *pools);
/* Takes in what the store has answered, and goes on with the next pool's.
 * now_ns is that of the turns that follow, of which scalers are told after it.
 * True when it did. */
bool wp_snapshots_run(struct wp_pools *pools, int64_t now_ns);
/* Asks for what is to be asked, saves what is to be saved; returns when to come
 * again. */
int64_t wp_snapshot_turn(struct wp_pool *pool, int64_t now_ns);
/* The snapshot that an earlier keeper left is wanted. */
void wp_snapshot_want(struct wp_pool *pool, int64_t now_ns);
/* Something is new: it is saved within a minute. */
void wp_snapshot_changed(struct wp_pool *pool);
/* What is new is saved soon; when the daemon leaves, also what was too much for
 * the last time. */
void wp_snapshot_save_soon(struct wp_pool *pool, int64_t now_ns);
/* Ends with the pool. */
void wp_snapshot_destroy(struct wp_pool *pool);

#endif
