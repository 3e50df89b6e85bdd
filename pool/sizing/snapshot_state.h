/* pool/sizing/snapshot_state.h - where a pool's snapshot is on its way;
 * private to snapshot.c, snapshot_due.c and scale.c. */
#ifndef WP_POOL_SIZING_SNAPSHOT_STATE_H
#define WP_POOL_SIZING_SNAPSHOT_STATE_H

#include "pool/sizing/snapshot.h"
#include "pool/table/pools.h"

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

#endif
