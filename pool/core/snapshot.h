/* pool/core/snapshot.h - what is kept of a pool in the lease store beside its
 * records; private to the files of pool/core.
 *
 * That is what its scaler has learned, if it has one, and the latest part of
 * the record of its claims. Each pool has one snapshot; without a durable store
 * there are none, and of a pool that has neither scaler nor record none is
 * written. Control thread only, all of it. */
#ifndef WP_POOL_CORE_SNAPSHOT_H
#define WP_POOL_CORE_SNAPSHOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pool/base/status.h"

struct wp_pool;
struct wp_pools;

/* What becomes of the snapshot that an earlier keeper has left. */
enum wp_learned {
    WP_LEARNED_NOT,    /* Another replica is the keeper, or none was yet. */
    WP_LEARNED_WANTED, /* To be asked for. */
    WP_LEARNED_ASKED,
    WP_LEARNED_KNOWN, /* Taken in, or there is none. */
};

enum {
    /* So that saving each minute stays cheap: some thousand claims. The last
     * time, when the daemon leaves, it is what fits. */
    WP_SNAPSHOT_HISTORY_MAX = 24 * 1024,
};

struct wp_snapshot_state {
    enum wp_learned learned;
    int64_t wait_until_ns; /* For that, before a scaler orders anything. */
    int64_t ask_at_ns;
    int64_t save_at_ns;
    bool dirty; /* Something is new since the last save. */
    /* What a scaler had learned when the pool had an objective, for when it
     * has one again: it goes from snapshot to snapshot. Owned; NULL:
     * nothing, or the pool has a scaler. */
    uint8_t *carried;
    size_t n_carried;
};

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
void wp_snapshot_fini(struct wp_pool *pool);

#endif
