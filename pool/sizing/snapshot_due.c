/* pool/sizing/snapshot_due.c - when a pool's snapshot is wanted, and when
 * saved. */
#include <stdlib.h>

#include "pool/sizing/history.h"
#include "pool/sizing/snapshot_state.h"

/* How long a scaler orders nothing for want of the snapshot. */
#define WAIT_NS (2 * WP_NS_PER_S)

void
wp_snapshot_want(struct wp_pool *pool, int64_t now_ns)
{
    struct wp_snapshot_state *state = pool->snapshot;

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
    pool->snapshot->dirty = true;
}

void
wp_snapshot_save_soon(struct wp_pool *pool, int64_t now_ns)
{
    if (pool->pools->closing &&
        wp_pool_history_bytes(pool) > WP_SNAPSHOT_HISTORY_MAX) {
        pool->snapshot->dirty = true;
    }
    if (pool->snapshot->dirty && pool->snapshot->learned == WP_LEARNED_KNOWN) {
        pool->snapshot->save_at_ns = now_ns;
        wp_pools_touch(pool);
    }
}

void
wp_snapshot_drop_carried(struct wp_pool *pool)
{
    free(pool->snapshot->carried);
    pool->snapshot->carried = NULL;
    pool->snapshot->n_carried = 0;
}

bool
wp_snapshot_create(struct wp_pool *pool)
{
    pool->snapshot = wp_pools_reserve(pool->pools, 1, sizeof *pool->snapshot);
    return pool->snapshot != NULL;
}

void
wp_snapshot_destroy(struct wp_pool *pool)
{
    if (pool->snapshot != NULL) {
        wp_snapshot_drop_carried(pool);
        free(pool->snapshot);
    }
}
