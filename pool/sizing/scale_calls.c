/* pool/sizing/scale_calls.c - what the API's calls ask of a pool's scaler, and
 * what they tell it. */
#include <string.h>

#include "pool/sizing/budget.h"
#include "pool/sizing/scale.h"
#include "pool/sizing/snapshot_state.h"

static bool
names_unknown_group(const struct wp_pools *pools,
                    const struct wp_scale_policy *policy)
{
    const struct wp_budget_total *budget;

    for (uint32_t i = 0; (budget = wp_pools_budget(pools, i)) != NULL; i++) {
        if (strcmp(budget->group, policy->budget_group) == 0) {
            return false;
        }
    }
    return policy->budget_group[0] != '\0';
}

void
wp_pool_scale_stats(struct wp_pool *pool, struct wp_pool_stats *out)
{
    struct wp_pool_scale *scale = wp_pool_scale_active(pool);

    if (scale == NULL) {
        return;
    }
    out->scaled = true;
    (void)pthread_mutex_lock(&scale->lock);
    out->scale = scale->latest;
    memcpy(out->scale_changes, scale->changes, sizeof out->scale_changes);
    out->leads_lost = scale->leads_lost;
    out->group_unknown =
        names_unknown_group(pool->pools, wp_scaler_policy(scale->scaler));
    (void)pthread_mutex_unlock(&scale->lock);
    out->budget =
        wp_pools_is_keeper(pool->pools)
            ? atomic_load_explicit(&scale->budget, memory_order_relaxed)
            : UINT32_MAX;
}

static struct wp_pool_scale *
find_scale(struct wp_pools *pools, uint32_t pool_index)
{
    return pool_index < wp_pools_count(pools)
               ? wp_pool_scale_active(wp_pools_at(pools, pool_index))
               : NULL;
}

const struct wp_histogram *
wp_pools_scale_reaction(struct wp_pools *pools, uint32_t pool_index)
{
    struct wp_pool_scale *scale = find_scale(pools, pool_index);

    return scale != NULL ? &scale->reaction : NULL;
}

uint32_t
wp_pools_scale_decisions(struct wp_pools *pools, uint32_t pool_index,
                         struct wp_scale_decision *out, uint32_t max)
{
    struct wp_pool_scale *scale = find_scale(pools, pool_index);
    uint32_t n = 0;

    if (scale != NULL) {
        (void)pthread_mutex_lock(&scale->lock);
        while (n < max && wp_scaler_kept(scale->scaler, n, &out[n])) {
            n++;
        }
        (void)pthread_mutex_unlock(&scale->lock);
    }
    return n;
}

uint32_t
wp_pools_scale_reservations(struct wp_pools *pools, uint32_t pool_index,
                            struct wp_scale_reservation *out, uint32_t max)
{
    struct wp_pool_scale *scale = find_scale(pools, pool_index);
    uint32_t n = 0;

    if (scale != NULL) {
        (void)pthread_mutex_lock(&scale->lock);
        while (n < max && wp_scaler_reservation(scale->scaler, n, &out[n])) {
            n++;
        }
        (void)pthread_mutex_unlock(&scale->lock);
    }
    return n;
}

static struct wp_pool_scale *
scale_to_change(struct wp_pools *pools, uint32_t pool_index, struct wp_err *err)
{
    struct wp_pool_scale *scale = find_scale(pools, pool_index);

    if (scale == NULL) {
        (void)wp_err_set(err, WP_FAILED_PRECONDITION,
                         "pool: its size follows no policy; give it an "
                         "objective (" WP_SCALE_GROUP "objective)");
    } else if (!atomic_load_explicit(&pools->keeper, memory_order_relaxed)) {
        (void)wp_err_set(err, WP_UNAVAILABLE,
                         "another replica makes the sandboxes; ask that one");
        scale = NULL;
    }
    return scale;
}

/* Which of those that are not over; false: none. */
static bool
find_reservation(const struct wp_pool_scale *scale, struct wp_str id,
                 uint32_t *at)
{
    struct wp_scale_reservation one;

    for (*at = 0; wp_scaler_reservation(scale->scaler, *at, &one); (*at)++) {
        if (wp_str_is(id, one.id)) {
            return true;
        }
    }
    return false;
}

enum wp_status /* NOLINTNEXTLINE(readability-function-size): parameters. */
wp_pools_scale_reserve(struct wp_pools *pools, uint32_t pool_index,
                       struct wp_str id, uint32_t n, int64_t from_wall_ns,
                       int64_t until_wall_ns, struct wp_err *err)
{
    struct wp_pool_scale *scale = scale_to_change(pools, pool_index, err);
    int64_t now_ns = wp_pools_now(pools);
    struct wp_pool *pool;
    enum wp_status status;
    uint32_t at;
    bool known;

    if (scale == NULL) {
        return err->status;
    }
    pool = wp_pools_at(pools, pool_index);
    (void)pthread_mutex_lock(&scale->lock);
    wp_pool_scale_pass(pool, scale, now_ns);
    known = find_reservation(scale, id, &at);
    status = wp_scaler_reserve(scale->scaler, id, n, from_wall_ns,
                               until_wall_ns, err);
    if (status == WP_OK && !known) {
        wp_pool_scale_record(
            pool, scale, now_ns,
            (struct wp_history_event){.kind = WP_HISTORY_RESERVED,
                                      .n = n,
                                      .from_ns = from_wall_ns,
                                      .until_ns = until_wall_ns});
    }
    (void)pthread_mutex_unlock(&scale->lock);
    if (status == WP_OK) {
        wp_snapshot_changed(pool);
        wp_snapshot_save_soon(pool, now_ns);
        wp_pools_touch(pool);
    }
    return status;
}

enum wp_status
wp_pools_scale_cancel(struct wp_pools *pools, uint32_t pool_index,
                      struct wp_str id, struct wp_err *err)
{
    struct wp_pool_scale *scale = scale_to_change(pools, pool_index, err);
    int64_t now_ns = wp_pools_now(pools);
    struct wp_pool *pool;
    enum wp_status status;
    uint32_t at = 0;

    if (scale == NULL) {
        return err->status;
    }
    pool = wp_pools_at(pools, pool_index);
    (void)pthread_mutex_lock(&scale->lock);
    wp_pool_scale_pass(pool, scale, now_ns);
    (void)find_reservation(scale, id, &at);
    status = wp_scaler_cancel(scale->scaler, id);
    if (status == WP_OK) {
        wp_pool_scale_record(
            pool, scale, now_ns,
            (struct wp_history_event){.kind = WP_HISTORY_CANCELLED, .n = at});
    }
    (void)pthread_mutex_unlock(&scale->lock);
    if (status != WP_OK) {
        return wp_err_set(err, status,
                          "id: the pool has no reservation '%.*s', or it is "
                          "over",
                          WP_STR_ARG(id));
    }
    wp_snapshot_changed(pool);
    wp_snapshot_save_soon(pool, now_ns);
    wp_pools_touch(pool);
    return WP_OK;
}
