/* pool/grant/claim_way.h - the stations of a claim; private to claim.c,
 * wait.c and await_store.c. Any thread, unless said otherwise.
 *
 * They call each other in a ring, which goes round once at most for each level:
 * a follower that starts over has left the list of followers, and has none
 * itself before it returns. */
#ifndef WP_POOL_GRANT_CLAIM_WAY_H
#define WP_POOL_GRANT_CLAIM_WAY_H

#include "pool/grant/grant.h"

/* claim->phase: what a cancel may withdraw. */
enum {
    WP_PHASE_BUSY, /* Being answered, or never pending. */
    WP_PHASE_WAITING,
    WP_PHASE_FOLLOWING,
    WP_PHASE_AWAITING_STORE, /* Until it tells of the id. */
};

#define WP_REASON_OTHER                                                        \
    "claim_id: in use by a claim with another pool, ttl or binding"
#define WP_REASON_LOST                                                         \
    "the sandbox of this claim was lost: release the claim or use another "    \
    "claim_id"
#define WP_REASON_REFUSED                                                      \
    "the lease store did not take the lease; nothing was granted"
#define WP_REASON_UNKNOWN                                                      \
    "the lease store did not answer: the outcome is unknown, and a lease "     \
    "that "                                                                    \
    "was granted is taken back; a repeat with the same claim_id is safe"
#define WP_REASON_LEFT "cancelled by the client"
#define WP_REASON_UNTOLD                                                       \
    "the lease store has not told yet who holds this claim_id; try again"

static inline struct wp_pool *
wp_claim_pool(const struct wp_claim *claim)
{
    return claim->owner;
}

/* Its client has gone, while it was being answered: nothing more is tried. */
static inline bool
wp_claim_has_left(const struct wp_claim *claim)
{
    return atomic_load_explicit(&claim->left, memory_order_relaxed);
}

/* --- claim.c --- */

/* Sets the answer; returns status. */
enum wp_status wp_claim_answer(struct wp_claim *claim, enum wp_status status,
                               const char *reason);
/* Calls done, unless the status is WP_PENDING. */
void wp_claim_finish(struct wp_claim *claim, enum wp_status status);
/* Ends the claim's own entry: its id is free again. */
void wp_claim_give_up(struct wp_claim *claim);
/* Gives its entry up and answers. */
enum wp_status wp_claim_refuse(struct wp_claim *claim, enum wp_status status,
                               const char *reason);
/* The same of a claim whose client has gone. */
enum wp_status wp_claim_refuse_left(struct wp_claim *claim);
/* The same of a pool that takes no claims any more. */
enum wp_status wp_claim_refuse_closed(struct wp_claim *claim);
/* From the beginning: its id, then a sandbox. */
enum wp_status wp_claim_start(struct wp_claim *claim);
/* Gives the slot, which is LEASED and the caller's, to the claim. */
enum wp_status wp_claim_grant(struct wp_claim *claim, struct wp_slot_ref ref);

/* --- share.c --- */

/* NULL: its tenant's quota allows the claim, which was counted as the live-th.
 * Else why not, and the claim's answer says which bound. */
const char *wp_claim_over_quota(struct wp_claim *claim, uint32_t live);
/* False: so many of its tenant wait that its quota allows no more; the claim's
 * answer says so. Under the pool's lock. */
WP_MUST_CHECK bool wp_claim_may_wait(struct wp_claim *claim);
/* May the claim, which is its tenant's oldest, take a ready sandbox? Not when
 * that is kept for others. */
WP_MUST_CHECK bool wp_claim_may_take(const struct wp_claim *claim);
/* The same of a claim that comes now, while others may wait. */
WP_MUST_CHECK bool wp_claim_may_pass(const struct wp_claim *claim);
/* It takes a sandbox. */
void wp_claim_count_taken(const struct wp_claim *claim);

/* --- wait.c --- */

/* The pool looked empty: decides that under its lock, then waits or refuses. */
enum wp_status wp_claim_await(struct wp_claim *claim);
/* After a change of the wait queue; under the pool's lock. */
void wp_claim_count_waiting(struct wp_pool *pool);

/* --- await_store.c --- */

/* The store is asked what it knows of the claim's id; WP_PENDING. */
enum wp_status wp_claim_await_store(struct wp_claim *claim);

#endif
