/* pool/core/report.c - what the backend tells of its sandboxes.
 *
 * A report acts only when its move succeeds, so a late or repeated one does
 * nothing. What follows a move is the control thread's work. */
#include "pool/base/assert.h"
#include "pool/grant/grant.h"
#include "pool/records/records.h"
#include "pool/sizing/scale.h"

enum {
    QUEUE_SHARE = 16, /* Each order counts for so much of the mean. */
};

/* One thread reports for a pool: nobody else writes the mean. */
static void
see_queueing(struct wp_pool *pool, int64_t waited_ns)
{
    int64_t mean_ns =
        atomic_load_explicit(&pool->queue_mean_ns, memory_order_relaxed);

    atomic_store_explicit(&pool->queue_mean_ns,
                          mean_ns + (waited_ns - mean_ns) / QUEUE_SHARE,
                          memory_order_relaxed);
}

void
wp_pools_on_started(struct wp_pools *pools, struct wp_slot_ref ref)
{
    if (wp_pools_ref_is_ours(pools, ref)) {
        wp_slot_set_started_ns(&pools->slots, ref, wp_pools_now(pools));
    }
}

/* It became ready at now: from its order, and from when it was begun with. */
static void
see_lead_time(struct wp_pool *pool, struct wp_slot_ref ref, int64_t started_ns,
              int64_t now_ns)
{
    int64_t created_ns = wp_slot_created_ns(&pool->pools->slots, ref);

    if (created_ns == WP_CREATED_ELSEWHERE) {
        return;
    }
    if (started_ns < created_ns) {
        started_ns = created_ns;
    }
    see_queueing(pool, started_ns - created_ns);
    wp_histogram_record(&pool->lead_time, now_ns - started_ns);
    atomic_store_explicit(&pool->lead_last_ns, now_ns - created_ns,
                          memory_order_relaxed);
    wp_pool_scale_on_ready(pool, now_ns - started_ns);
}

void
wp_pools_on_ready(struct wp_pools *pools, struct wp_slot_ref ref,
                  struct wp_str endpoint)
{
    int64_t now = wp_pools_now(pools);
    struct wp_pool *pool;
    int64_t started_ns;

    if (!wp_pools_ref_is_ours(pools, ref)) {
        return;
    }
    if (endpoint.len == 0 || endpoint.len > WP_ENDPOINT_MAX) {
        wp_pools_on_lost(pools, ref, WP_STR("its endpoint is too long"));
        return;
    }
    started_ns = wp_slot_started_ns(&pools->slots, ref);
    if (!wp_slot_make_ready(&pools->slots, ref, endpoint, now)) {
        return;
    }
    pool = wp_pools_of_slot(pools, ref.index);
    see_lead_time(pool, ref, started_ns, now);
    /* Release: control sees the lead time with the count. */
    (void)atomic_fetch_add_explicit(&pool->became_ready, 1,
                                    memory_order_release);
    if (pools->durable) {
        wp_pools_mark_on(pools, ref.index, WP_WORK_ON_ANSWERS);
    } else {
        wp_pools_offer(pool, ref);
    }
    wp_pools_touch(pool);
}

void
wp_pools_on_lost(struct wp_pools *pools, struct wp_slot_ref ref,
                 struct wp_str reason)
{
    struct wp_slots *slots = &pools->slots;
    struct wp_slot_info info;
    struct wp_pool *pool;
    enum wp_work_event event = WP_WORK_ON_LIST;
    char told[WP_REASON_MAX + 1];
    bool young;
    bool asks;

    if (!wp_pools_ref_is_ours(pools, ref) || !wp_slot_read(slots, ref, &info)) {
        return;
    }
    /* It may be a program's own words. */
    reason = wp_str_from(wp_str_make_printable(reason, told, sizeof told));
    young = info.ready_ns > wp_pools_now(pools) - WP_REFILL_YOUNG_NS;
    pool = wp_pools_of_slot(pools, ref.index);
    asks = wp_pools_asks_first(pools, &info);
    /* Its state may change between two tries (a claim takes it, an undo gives
     * it back); each such change brings it nearer to one of these. */
    for (int i = 0; i < 8; i++) {
        if (wp_slot_move(slots, ref, WP_SLOT_WARMING,
                         asks ? WP_SLOT_QUARANTINED : WP_SLOT_DYING)) {
            event = asks ? WP_WORK_ON_DIED_IDLE : event;
            wp_counter_add(&pool->failures, 1);
            (void)atomic_fetch_add_explicit(&pool->failed, 1,
                                            memory_order_release);
            wp_pool_record_failure(pool, reason);
            break;
        }
        /* Another replica may have granted it: the store is asked first. */
        if (pools->shared
                ? wp_slot_move(slots, ref, WP_SLOT_READY, WP_SLOT_QUARANTINED)
                : wp_slot_move(slots, ref, WP_SLOT_READY, WP_SLOT_DYING)) {
            event = pools->shared ? WP_WORK_ON_DIED_IDLE : event;
            /* Idle or not, the store will tell: withdrawn counts it then. */
            if (young && !pools->shared) {
                (void)atomic_fetch_add_explicit(&pool->died_young, 1,
                                                memory_order_release);
            }
            wp_counter_add(&pool->lost, 1);
            wp_pool_record_failure(pool, reason);
            break;
        }
        if (wp_slot_lose(slots, ref, reason)) {
            wp_counter_add(&pool->lost, 1);
            wp_pool_record_failure(pool, reason);
            event = pools->durable ? WP_WORK_ON_DIED : event;
            break;
        }
        if (wp_slot_state(slots, ref) == WP_SLOT_QUARANTINED) {
            event = WP_WORK_ON_DIED;
            break;
        }
    }
    wp_pools_mark_on(pools, ref.index, event);
    wp_pools_touch(pool);
}

void
wp_pools_on_destroyed(struct wp_pools *pools, struct wp_slot_ref ref)
{
    struct wp_slot *slot;
    uint32_t gone;

    if (!wp_pools_ref_is_ours(pools, ref)) {
        return;
    }
    /* One that vanished without being told to is lost first. */
    if (wp_slot_state(&pools->slots, ref) != WP_SLOT_DYING) {
        wp_pools_on_lost(pools, ref, WP_STR("it was destroyed from outside"));
    }
    slot = wp_slot_at(&pools->slots, ref.index);
    gone = atomic_load_explicit(&slot->gone, memory_order_relaxed);
    /* Only forward, so that a late report cannot hide a newer one. Release:
     * paired with the acquire in the control thread, which frees the slot. */
    while ((int32_t)(ref.generation - gone) > 0 &&
           !atomic_compare_exchange_weak_explicit(
               &slot->gone, &gone, ref.generation, memory_order_release,
               memory_order_relaxed)) {
    }
    wp_pools_mark(pools, ref.index);
}

void
wp_pools_on_unmade(struct wp_pools *pools, struct wp_slot_ref ref)
{
    if (wp_pools_ref_is_ours(pools, ref)) {
        (void)!wp_slot_move(&pools->slots, ref, WP_SLOT_WARMING, WP_SLOT_DYING);
        wp_pools_on_destroyed(pools, ref);
    }
}
