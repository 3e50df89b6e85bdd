/* pool/core/run.c - the control thread's turn.
 *
 * Everything that is not a claim's own way happens here: leases end, slots are
 * destroyed and freed, waiting claims time out, pools are refilled. Claims and
 * reports mark slots; after a turn that found some, the next one comes in 2 ms
 * by itself, so that a busy daemon is not woken for each claim, and an idle one
 * not at all. */
#include "pool/base/extreme.h"
#include "pool/core/control.h"
#include "pool/refill/refill.h"
#include "pool/records/records.h"
#include "pool/sizing/budget.h"
#include "pool/sizing/snapshot.h"

/* How soon the control thread looks again by itself after finding work. */
#define BUSY_TURN_NS (2 * WP_NS_PER_MS)
/* How often it looks what tenants claim. */
#define FIND_SHARES_NS WP_NS_PER_S

/* True when nothing came between the turn and now: control may sleep. */
static bool
fall_asleep(struct wp_pools *pools)
{
    /* seq_cst pairs with wake_control: see there. */
    atomic_store_explicit(&pools->awake, false, memory_order_seq_cst);
    if (atomic_load_explicit(&pools->marked, memory_order_seq_cst) ==
            WP_SLOT_NONE &&
        !atomic_load_explicit(&pools->answers_due, memory_order_seq_cst)) {
        bool touched = false;

        for (uint32_t i = 0; i < wp_pools_count(pools) && !touched; i++) {
            touched = atomic_load_explicit(&wp_pools_at(pools, i)->touched,
                                           memory_order_seq_cst);
        }
        if (!touched) {
            return true;
        }
    }
    atomic_store_explicit(&pools->awake, true, memory_order_relaxed);
    return false;
}

/* Finds what tenants may take of the stock of pools that several claim from,
 * and who does not claim any more. Returns when again, if need be. */
static int64_t
find_shares(struct wp_pools *pools, int64_t now)
{
    bool shared = false;
    bool due = now - pools->shares_found_ns >= FIND_SHARES_NS ||
               wp_accounts_newcomers(&pools->accounts);

    for (uint32_t i = 0; i < wp_pools_count(pools); i++) {
        struct wp_pool *pool = wp_pools_at(pools, i);
        int64_t lead =
            atomic_load_explicit(&pool->lead_mean_ns, memory_order_relaxed);

        if (due) {
            wp_accounts_set_stock(
                &pools->accounts, i, pool->spec.fair_share,
                atomic_load_explicit(&pool->target, memory_order_relaxed),
                lead > 0 ? lead : WP_REFILL_LEAD_GUESS_NS);
        }
        shared = shared || wp_accounts_active(&pools->accounts, i) > 1;
    }
    if (due) {
        pools->shares_found_ns = now;
        wp_accounts_sweep(&pools->accounts, now);
        wp_accounts_find_shares(&pools->accounts, now);
    }
    return shared ? pools->shares_found_ns + FIND_SHARES_NS : WP_TIME_NEVER;
}

int64_t
wp_pools_run(struct wp_pools *pools)
{
    int64_t now = wp_pools_now(pools);
    int64_t next = WP_TIME_NEVER;
    bool worked;

    atomic_store_explicit(&pools->awake, true, memory_order_relaxed);
    atomic_store_explicit(&pools->wall_offset_ns,
                          wp_clock_wall_offset_ns(pools->config.clock),
                          memory_order_relaxed);
    worked = wp_answers_run(pools);
    worked = wp_snapshots_run(pools, now) || worked;
    worked = wp_attention_marked(pools, now) || worked;
    wp_attention_due(pools, now);
    wp_pool_budgets_turn(pools, now);
    for (uint32_t i = 0; i < wp_pools_count(pools); i++) {
        int64_t at = wp_pool_turn(wp_pools_at(pools, i), now, &worked);

        next = at < next ? at : next;
    }
    next = wp_min_i64(next, find_shares(pools, now));
    next = wp_min_i64(next, wp_pool_budgets_next_ns(pools));
    next = wp_min_i64(next, wp_attention_next_ns(pools));
    if (worked || !fall_asleep(pools)) {
        int64_t soon = now + BUSY_TURN_NS;

        next = soon < next ? soon : next;
    }
    return next;
}

void
wp_pools_stop(struct wp_pools *pools)
{
    pools->closing = true;
    pools->leaving = false;
    for (uint32_t i = 0; i < wp_pools_count(pools); i++) {
        wp_snapshot_save_soon(wp_pools_at(pools, i), wp_pools_now(pools));
        wp_pools_drain(pools, i);
    }
    for (uint32_t i = 0; i < wp_slots_used_max(&pools->slots); i++) {
        struct wp_slot_ref ref = wp_slot_ref_at(&pools->slots, i);
        enum wp_slot_state state = wp_slot_state(&pools->slots, ref);

        if (state == WP_SLOT_LEASED || state == WP_SLOT_LOST) {
            wp_pools_mark_on(pools, i, WP_WORK_ON_STOPPED);
        } else if (state == WP_SLOT_QUARANTINED || state == WP_SLOT_WARMING) {
            if (wp_slot_move(&pools->slots, ref, state, WP_SLOT_DYING)) {
                wp_pools_mark(pools, i);
            }
        }
    }
}

void
wp_pools_leave(struct wp_pools *pools, bool idle_too)
{
    pools->closing = true;
    for (uint32_t i = 0; i < wp_pools_count(pools); i++) {
        wp_snapshot_save_soon(wp_pools_at(pools, i), wp_pools_now(pools));
        wp_pools_drain(pools, i);
    }
    pools->leaving = idle_too;
}
