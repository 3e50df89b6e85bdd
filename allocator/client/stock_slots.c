/* libwarmpool: the slots of a stock, and the queue of those to take from. */
#include "allocator/client/stock_impl.h"

#include "pool/base/assert.h"
#include "pool/base/clock.h"

enum {
    RING_MASK = WP_STOCK_SLOTS - 1,
};

_Static_assert((WP_STOCK_SLOTS & RING_MASK) == 0, "a power of two");

void
wp_stock_put(struct warmpool_stock *stock, uint32_t slot)
{
    struct wp_stock_place *place = &stock->places[stock->tail & RING_MASK];

    WP_ASSERT(atomic_load_explicit(&place->turn, memory_order_acquire) ==
              stock->tail);
    place->slot = slot;
    /* Release: with the place goes the slot's lease. */
    atomic_store_explicit(&place->turn, stock->tail + 1, memory_order_release);
    stock->tail++;
    (void)atomic_fetch_add_explicit(&stock->n_stocked, 1, memory_order_relaxed);
}

uint32_t
wp_stock_get(struct warmpool_stock *stock)
{
    uint32_t head = atomic_load_explicit(&stock->head, memory_order_relaxed);

    for (;;) {
        struct wp_stock_place *place = &stock->places[head & RING_MASK];
        /* Acquire pairs with the release in wp_stock_put. */
        int32_t ahead =
            (int32_t)(atomic_load_explicit(&place->turn, memory_order_acquire) -
                      (head + 1));
        uint32_t slot;

        if (ahead < 0) {
            return UINT32_MAX;
        }
        if (ahead > 0) { /* Another one has taken it. */
            head = atomic_load_explicit(&stock->head, memory_order_relaxed);
            continue;
        }
        if (!atomic_compare_exchange_weak_explicit(
                &stock->head, &head, head + 1, memory_order_relaxed,
                memory_order_relaxed)) {
            continue;
        }
        slot = place->slot;
        /* Release: the slot's index was read. */
        atomic_store_explicit(&place->turn, head + WP_STOCK_SLOTS,
                              memory_order_release);
        (void)atomic_fetch_sub_explicit(&stock->n_stocked, 1,
                                        memory_order_relaxed);
        return slot;
    }
}

void
wp_stock_set_left(struct warmpool_stock *stock, struct wp_stock_slot *slot,
                  int64_t at_ns, int64_t left_ns)
{
    int64_t ttl_ns = stock->options.ttl_ms * WP_NS_PER_MS;

    slot->renew_ns = at_ns + left_ns - ttl_ns / 2;
    atomic_store_explicit(&slot->useful_ns, at_ns + left_ns - ttl_ns / 4,
                          memory_order_relaxed);
}

void
wp_stock_set_deadline(struct warmpool_stock *stock, struct wp_stock_slot *slot,
                      int64_t unix_ms)
{
    int64_t ttl_ns = stock->options.ttl_ms * WP_NS_PER_MS;
    int64_t left_ns =
        unix_ms * WP_NS_PER_MS - wp_clock_wall_ns(wp_clock_system());

    wp_stock_set_left(stock, slot, wp_client_now_ns(),
                      left_ns < ttl_ns ? left_ns : ttl_ns);
}

void
wp_stock_lose(struct warmpool_stock *stock, uint32_t i)
{
    const struct wp_stock_slot *slot = &stock->slots[i];

    if (stock->options.lost != NULL && !slot->settled &&
        !wp_job_pends(stock->client, WP_CALL_RELEASE, slot->lease.token)) {
        stock->options.lost(stock->options.ctx, slot->lease.claim_id);
    }
    wp_stock_set_slot_state(stock, i, WP_STOCK_SLOT_FREE);
}
