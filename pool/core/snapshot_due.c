/* pool/core/snapshot_due.c - when a pool's snapshot is wanted, and when
 * saved. */
#include <stdlib.h>

#include "pool/core/history.h"
#include "pool/core/snapshot.h"

/* How long a scaler orders nothing for want of the snapshot. */
#define WAIT_NS (2 * WP_NS_PER_S)

void
wp_snapshot_want(struct wp_pool *pool, int64_t now_ns)
{
    struct wp_snapshot_state *state = &pool->snapshot;

    if (pool->pools->snapshots == NULL) {
        state->learned = WP_LEARNED_KNOWN;
        return;
    }
    state->learned = WP_LEARNED_WANTED;
    state->ask_at_ns = now_ns;
    state->wait_until_ns = wp_time_add(now_ns, WAIT_NS);
}

void
wp_snapshot_changed(struct wp_pool *pool)
{
    pool->snapshot.dirty = true;
}

void
wp_snapshot_save_soon(struct wp_pool *pool, int64_t now_ns)
{
    if (pool->pools->closing &&
        wp_pool_history_bytes(pool) > WP_SNAPSHOT_HISTORY_MAX) {
        pool->snapshot.dirty = true;
    }
    if (pool->snapshot.dirty && pool->snapshot.learned == WP_LEARNED_KNOWN) {
        pool->snapshot.save_at_ns = now_ns;
        wp_pools_touch(pool);
    }
}

void
wp_snapshot_fini(struct wp_pool *pool)
{
    free(pool->snapshot.carried);
    pool->snapshot.carried = NULL;
    pool->snapshot.n_carried = 0;
}
