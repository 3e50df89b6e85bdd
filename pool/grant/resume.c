/* pool/grant/resume.c - claims whose id the store was asked about: what was the
 * answer?
 *
 * A store of several replicas, or one whose word was lost, may know an id
 * that is new here; and a repeat may be of a lease that another replica has
 * ended. */
#include "pool/base/assert.h"
#include "pool/grant/claim_way.h"
#include "pool/table/ready.h"

enum {
    /* How often the store is asked for a claim while its slot changes. */
    ASKS_MAX = 200,
};

/* Answers with the lease that ref has, as its first claim was answered. Nobody
 * frees ref meanwhile: only control does. */
static enum wp_status
show(struct wp_claim *claim, struct wp_slot_ref ref,
     const struct wp_lease_record *record)
{
    struct wp_pool *pool = wp_claim_pool(claim);
    bool filled = wp_pools_fill_grant(pool->pools, pool, ref, claim->hash.low,
                                      &claim->grant);
    struct wp_claim_view view;

    WP_ASSERT(filled);
    /* An undo of ours leaves alone what is shown now. */
    if (wp_pools_claim_of(pool->pools, ref, &view)) {
        (void)!wp_claim_table_share(&pool->pools->claims, view.ref);
    }
    claim->grant.served = wp_record_served(record->served);
    claim->grant.waited_ns = 0;
    claim->replayed = true;
    return wp_slot_state(&pool->pools->slots, ref) == WP_SLOT_LOST
               ? wp_claim_answer(claim, WP_FAILED_PRECONDITION, WP_REASON_LOST)
               : wp_claim_answer(claim, WP_OK, NULL);
}

/* The waiting claim holds ref: its own entry leads there from now on. */
static enum wp_status
take_over(struct wp_claim *claim, struct wp_slot_ref ref,
          const struct wp_lease_record *record)
{
    struct wp_pool *pool = wp_claim_pool(claim);
    struct wp_pools *pools = pool->pools;
    struct wp_claim_ref entry = wp_claim_ref_unpack(claim->entry);

    atomic_store_explicit(&wp_slot_at(&pools->slots, ref.index)->claim_entry,
                          entry.index, memory_order_relaxed);
    if (wp_claim_table_hold(&pools->claims, entry, ref, record->granted_wall_ms,
                            record->served)) {
        wp_claim_notify_followers(pool, claim->entry, NULL);
    }
    return show(claim, ref, record);
}

/* The store has told of a claim that repeats another, whose entry it is. */
static enum wp_status
confirm(struct wp_claim *claim, enum wp_status status, struct wp_slot_ref ref,
        const struct wp_lease_record *record)
{
    struct wp_pool *pool = wp_claim_pool(claim);

    if (status == WP_OK && ref.generation == 0 && claim->asked++ < ASKS_MAX) {
        /* That lease is over, and its entry goes when this is heard. */
        return wp_claim_start(claim);
    }
    if (status == WP_OK && ref.generation != 0) {
        return show(claim, ref, record);
    }
    wp_counter_add(&pool->refused, 1);
    claim->retry_after_ns = WP_NS_PER_MS;
    return status == WP_ALREADY_EXISTS
               ? wp_claim_answer(claim, status, WP_REASON_OTHER)
               : wp_claim_answer(claim, WP_UNAVAILABLE, WP_REASON_UNTOLD);
}

void
wp_pools_resume_claim(struct wp_claim *claim, enum wp_status status,
                      struct wp_slot_ref ref,
                      const struct wp_lease_record *record)
{
    struct wp_pool *pool = wp_claim_pool(claim);

    if (status == WP_PENDING && claim->asked++ < ASKS_MAX) {
        (void)wp_claim_await_store(claim);
        return;
    }
    if (claim->confirms) {
        wp_claim_finish(claim, confirm(claim, status, ref, record));
        return;
    }
    if (status == WP_OK && ref.generation != 0) {
        wp_claim_finish(claim, take_over(claim, ref, record));
        return;
    }
    if (status == WP_OK) {
        if (wp_claim_has_left(claim)) {
            wp_claim_finish(claim, wp_claim_refuse_left(claim));
            return;
        }
        /* The store has just forgotten the id: a claim like any other. */
        ref = wp_pools_pop(pool, WP_SLOT_LEASED);
        wp_claim_finish(claim, ref.generation != 0 ? wp_claim_grant(claim, ref)
                                                   : wp_claim_await(claim));
        return;
    }
    claim->retry_after_ns = WP_NS_PER_MS;
    wp_claim_finish(
        claim, status == WP_ALREADY_EXISTS
                   ? wp_claim_refuse(claim, status, WP_REASON_OTHER)
                   : wp_claim_refuse(claim, WP_UNAVAILABLE, WP_REASON_UNTOLD));
}
