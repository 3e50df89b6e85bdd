/* pool/grant/grant.h - what the rest of the core asks of claims that wait, or
 * are to be told. Any thread, unless said otherwise. */
#ifndef WP_POOL_GRANT_GRANT_H
#define WP_POOL_GRANT_GRANT_H

#include "pool/table/pools.h"

/* --- claim.c --- */

/* Fills a grant for the lease that claim entry holds on the slot; false when
 * the slot is no longer of that generation. */
WP_MUST_CHECK bool wp_pools_fill_grant(struct wp_pools *pools,
                                       const struct wp_pool *pool,
                                       struct wp_slot_ref ref,
                                       uint64_t claim_hash,
                                       struct wp_grant *grant);
/* Tells the claims that repeat this entry's: with its lease when leader has
 * one, else (NULL) each has its own try. */
void wp_claim_notify_followers(struct wp_pool *pool, uint64_t entry,
                               const struct wp_claim *leader);

/* --- wait.c --- */

/* Offers a READY sandbox, which is new here, to the waiting claim whose turn it
 * is, or to the next one that comes. Any thread; may call done of claims. */
void wp_pools_offer(struct wp_pool *pool, struct wp_slot_ref ref);
/* Gives ready sandboxes to waiting claims as long as there are both. */
void wp_pools_match(struct wp_pool *pool);
/* Refuses the claims whose time to wait is over; returns when the next one's
 * is. Control thread. */
int64_t wp_pools_expire_waiters(struct wp_pool *pool, int64_t now_ns);
/* Refuses every claim that waits for this pool. Control thread. */
void wp_pools_refuse_waiters(struct wp_pool *pool);

/* --- await_store.c --- */

/* The oldest claim that waits for the store's word on its id; NULL when there
 * is none. Control thread. */
struct wp_claim *wp_pools_take_awaiting(struct wp_pool *pool);

/* --- resume.c --- */

/* Goes on with a claim that awaits the store: it holds ref, as the record
 * says (LOST: it is told so); or, when ref is none, tries anew; or, PENDING,
 * the store is asked again; or is refused with that status. Calls done.
 * Control thread. */
void wp_pools_resume_claim(struct wp_claim *claim, enum wp_status status,
                           struct wp_slot_ref ref,
                           const struct wp_lease_record *record);

#endif
