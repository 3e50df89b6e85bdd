/* pool/records/records.h - leases after the grant, and what the lease store is
 * asked and tells of them. */
#ifndef WP_POOL_RECORDS_RECORDS_H
#define WP_POOL_RECORDS_RECORDS_H

#include "pool/table/pools.h"

/* Something that control asks of the store, which may answer later. */
struct wp_store_request {
    struct wp_lease_op op;
    struct wp_pools *pools;
    struct wp_list node; /* Of those unused or answered. */
    struct wp_lease_names names;
    char endpoint[WP_ENDPOINT_MAX + 1];
    char reason[WP_REASON_MAX + 1];
    struct wp_lease_record found;
    struct wp_claim *claim;         /* Whose id is fetched; or NULL. */
    struct wp_lease_change *change; /* Whose lease is fetched; or NULL. */
    enum wp_status status;
    bool undo;
};

/* --- store_request.c --- */

/* False: no memory. */
WP_MUST_CHECK bool wp_store_requests_create(struct wp_pools *pools);
void wp_store_requests_destroy(struct wp_pools *pools);
/* NULL when all are out. Any thread. */
struct wp_store_request *wp_store_request_take(struct wp_pools *pools);
void wp_store_request_give(struct wp_store_request *request);
/* Asks the store for an op of this kind on the slot; what it answers moves the
 * slot, or comes back to the copy. False: try again later. Control thread. */
WP_MUST_CHECK bool wp_store_request_send(struct wp_pools *pools,
                                         struct wp_slot_ref ref,
                                         enum wp_lease_op_kind kind);
/* Sends a request whose op is filled in: a FETCH. */
void wp_store_request_submit(struct wp_store_request *request);
/* What the store said to something; true: that it is out of reach. And how long
 * to leave it alone then. Any thread. */
bool wp_store_note_answer(struct wp_pools *pools, enum wp_status status);
int64_t wp_store_pause_ns(struct wp_pools *pools, int64_t now_ns);
/* The change waits until the store was asked for its lease. Any thread. */
void wp_lease_change_await_store(struct wp_pools *pools,
                                 struct wp_lease_change *change);
/* The oldest of those; NULL when there is none. Control thread. */
struct wp_lease_change *wp_lease_change_take_awaiting(struct wp_pools *pools);
/* A FETCH that the store has answered; NULL: no more. */
struct wp_store_request *
wp_store_requests_take_answered(struct wp_pools *pools);

/* --- lease.c --- */

/* Goes on with a change that awaits the store after the store was asked.
 * Calls done unless the store is still to answer. Control thread. */
void wp_pools_resume_change(struct wp_pools *pools,
                            struct wp_lease_change *change,
                            enum wp_status status);

/* --- lease_end.c --- */

/* Ends the lease on the slot, when it is due: by expiry, because nobody saw
 * it (undo), or because the daemon leaves. False: try again later, all
 * requests are out. Control thread. */
WP_MUST_CHECK bool wp_pools_end_lease(struct wp_pools *pools,
                                      struct wp_slot_ref ref, int64_t now_ns);
/* A lease that should long be over: its claim is let go, and the store is asked
 * who holds the sandbox. Control thread. */
void wp_pools_doubt_lease(struct wp_pools *pools, struct wp_slot_ref ref);

/* --- records.c --- */

/* Is the record, a claimed one, of that claim? Any thread. */
WP_MUST_CHECK bool wp_records_is_of(const struct wp_lease_record *record,
                                    const struct wp_claim_view *claim);
/* What the record says of the slot, when it is newer than what is known; state
 * NONE: the store has none. Control thread. */
void wp_records_apply(struct wp_pools *pools, struct wp_slot_ref ref,
                      const struct wp_lease_record *record);
/* The store has said who holds a sandbox in doubt. Control thread. */
void wp_records_settle_doubt(struct wp_pools *pools, struct wp_slot_ref ref,
                             const struct wp_store_request *request);
/* Takes what was fetched for somebody into the copy: OK, *ref is settled and
 * has that lease; PENDING, it is just changing here, so ask again; UNAVAILABLE,
 * this replica has not heard of the sandbox yet. */
enum wp_status wp_records_take_found(struct wp_pools *pools,
                                     const struct wp_lease_record *record,
                                     struct wp_slot_ref *ref);

/* --- answers.c --- */

/* Takes answers in, and asks for changes that wait. True when there was
 * something. Control thread. */
bool wp_answers_run(struct wp_pools *pools);
/* Asks for the claims of the pool that wait for the store. Control thread. */
void wp_answers_ask_for_claims(struct wp_pool *pool);

#endif
