#include "pool/sizing/history.h"

#include <stdlib.h>

#include "pool/base/extreme.h"
#include "pool/sizing/scale.h"

enum {
    LEADS_ALL = 64, /* So many are kept before they are thinned. */
};

#define LEAD_EVERY_NS WP_NS_PER_S

bool
wp_pool_history_create(struct wp_pool *pool)
{
    size_t bytes_max = pool->pools->config.history_bytes_max;
    struct wp_pool_history *history;

    if (bytes_max == 0) {
        return true;
    }
    history = wp_pools_reserve(pool->pools, 1, sizeof *history);
    if (history == NULL) {
        return false;
    }
    history->history = wp_history_create(
        bytes_max < WP_HISTORY_BYTES_MIN ? WP_HISTORY_BYTES_MIN : bytes_max);
    if (history->history == NULL) {
        free(history);
        return false;
    }
    (void)pthread_mutex_init(&history->lock, NULL);
    pool->history = history;
    return true;
}

void
wp_pool_history_destroy(struct wp_pool_history *history)
{
    if (history != NULL) {
        wp_history_destroy(history->history);
        (void)pthread_mutex_destroy(&history->lock);
        free(history);
    }
}

void
wp_pool_history_add(struct wp_pool *pool, int64_t now_ns,
                    struct wp_history_event event)
{
    struct wp_pool_history *history = pool->history;
    int64_t wall_ns =
        now_ns + atomic_load_explicit(&pool->pools->wall_offset_ns,
                                      memory_order_relaxed);

    if (history == NULL) {
        return;
    }
    event.wall_ns = wp_max_i64(wall_ns, 0);
    (void)pthread_mutex_lock(&history->lock);
    wp_history_add(history->history, wp_max_i64(now_ns, 0), &event);
    (void)pthread_mutex_unlock(&history->lock);
}

void
wp_pool_history_add_lead(struct wp_pool *pool, int64_t now_ns, int64_t lead_ns)
{
    struct wp_pool_history *history = pool->history;
    bool kept;

    if (history == NULL) {
        return;
    }
    (void)pthread_mutex_lock(&history->lock);
    kept = history->n_leads < LEADS_ALL ||
           now_ns - history->lead_at_ns >= LEAD_EVERY_NS;
    if (kept) {
        history->n_leads = wp_min_u32(history->n_leads + 1, LEADS_ALL);
        history->lead_at_ns = now_ns;
    }
    (void)pthread_mutex_unlock(&history->lock);
    if (kept) {
        wp_pool_history_add(pool, now_ns,
                            (struct wp_history_event){.kind = WP_HISTORY_READY,
                                                      .lead_ns = lead_ns});
    }
}

void
wp_pool_history_look(struct wp_pool *pool, int64_t now_ns)
{
    struct wp_pool_history *history = pool->history;

    if (history == NULL) {
        return;
    }
    if (!wp_pools_is_keeper(pool->pools)) {
        history->away = true;
    } else if (history->away) {
        history->away = false;
        wp_pool_history_add(pool, now_ns,
                            (struct wp_history_event){.kind = WP_HISTORY_GAP});
    }
}

bool
wp_pool_history_turn(struct wp_pool *pool, int64_t now_ns)
{
    struct wp_pool_history *history = pool->history;
    uint32_t n;
    uint32_t missed;

    if (history == NULL) {
        return false;
    }
    if (wp_pool_scale_active(pool) != NULL ||
        !wp_pools_is_keeper(pool->pools)) {
        /* Its scaler's turn writes, or nobody; should it lose its objective, or
         * this become the keeper, it goes on from here. */
        wp_pool_count_claims(pool, &history->claims_seen,
                             &history->missed_seen);
        return false;
    }
    if (!wp_pool_new_claims(pool, &history->claims_seen, &history->missed_seen,
                            &n, &missed)) {
        return false;
    }
    wp_pool_history_add(pool, now_ns,
                        (struct wp_history_event){.kind = WP_HISTORY_CLAIMS,
                                                  .n = n,
                                                  .missed = missed});
    return true;
}

size_t
wp_pool_history_bytes(const struct wp_pool *pool)
{
    return pool->history != NULL ? wp_history_bytes(pool->history->history) : 0;
}

size_t
wp_pool_history_save(struct wp_pool *pool, int64_t now_ns, void *out,
                     size_t cap)
{
    struct wp_pool_history *history = pool->history;
    size_t len;

    if (history == NULL) {
        return 0;
    }
    history->whole = true;
    /* That nothing came since the last claim is known, too. */
    wp_pool_history_add(pool, now_ns,
                        (struct wp_history_event){.kind = WP_HISTORY_CLAIMS});
    (void)pthread_mutex_lock(&history->lock);
    len = wp_history_save(history->history, out, cap);
    (void)pthread_mutex_unlock(&history->lock);
    return len;
}

enum wp_status
wp_pool_history_load(struct wp_pool *pool, struct wp_str saved, bool *taken,
                     struct wp_err *err)
{
    struct wp_pool_history *history = pool->history;
    enum wp_status status;

    *taken = false;
    if (history == NULL || history->whole || saved.len == 0) {
        return WP_OK;
    }
    history->whole = true;
    (void)pthread_mutex_lock(&history->lock);
    status = wp_history_load(history->history, saved.ptr, saved.len, err);
    (void)pthread_mutex_unlock(&history->lock);
    *taken = status == WP_OK;
    return status;
}

struct wp_history *
wp_pools_history(struct wp_pools *pools, uint32_t pool_index)
{
    struct wp_pool *pool = pool_index < wp_pools_count(pools)
                               ? wp_pools_at(pools, pool_index)
                               : NULL;
    struct wp_history *clone = NULL;

    if (pool != NULL && pool->history != NULL) {
        (void)pthread_mutex_lock(&pool->history->lock);
        clone = wp_history_clone(pool->history->history);
        (void)pthread_mutex_unlock(&pool->history->lock);
    }
    return clone;
}
