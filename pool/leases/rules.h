/* pool/leases/rules.h - what a commit does to a record: the one truth.
 *
 * A pure function over the record before and the op; every store either calls
 * it (SQLite, the stores of the tests) or does the same (Redis' scripts), and
 * one conformance test holds them all to it.
 *
 * Fences decide: a lease is named by {uid, fence}; an op of an older fence than
 * the record's changes nothing and is ABORTED, so a late or repeated message
 * does no harm. In the table `same` means op.fence = record.fence, `newer` that
 * op.fence is greater; (=) leaves the record as it is.
 *
 *   op        none       OPEN             HELD           LOST        ENDED
 *   OFFER     OPEN: OK   OK (=)           TAKEN          TAKEN       TAKEN
 *   GRANT     NOT_FOUND  newer: HELD, OK  TAKEN          TAKEN       TAKEN
 *                        else ABORTED
 *   RENEW     NOT_FOUND  NOT_FOUND        same: OK       same: FAI-  NOT_FOUND
 *                                                        LED_PRE..
 *   RELEASE   NOT_FOUND  NOT_FOUND        same: ENDED,   same: EN-   NOT_FOUND
 *                                         OK             DED, OK
 *   UNDO      NOT_FOUND  same: OK (=)     same: OPEN,    same: EN-   NOT_FOUND
 *                                         OK; renewed:   DED, OK;
 *                                         ABORTED        as HELD
 *   EXPIRE    NOT_FOUND  NOT_FOUND        same: as RELEASE, but when the
 *                                         recorded deadline is not the op's:
 *                                         ABORTED (renewed)
 *   WITHDRAW  NOT_FOUND  ENDED, OK        TAKEN          TAKEN       OK (=)
 *   LOSE      NOT_FOUND  NOT_FOUND        same: LOST,    same:       NOT_FOUND
 *                                         OK             OK (=)
 *   FETCH     NOT_FOUND  OK (=)           OK (=)         OK (=)      OK (=)
 *   FORGET    OK (=)     none: OK         TAKEN          TAKEN       none: OK
 *
 * In HELD and LOST, where `same` is asked for: an older op.fence is ABORTED, a
 * newer one NOT_FOUND (that lease never was).
 *
 * GRANT looks at the claim first: when it has a HELD or LOST record, the
 * outcome is ALREADY_EXISTS and nothing changes (invariant I2). Also when it is
 * this very record and fence: two replicas may try one sandbox for one claim at
 * once, and only one of them may take the grant for its own, to be undone.
 *
 * A renewal never shortens: an older one may come late. When the recorded
 * deadline is later than RENEW's, the outcome is OK and the later one stays.
 *
 * An UNDO is refused, like an EXPIRE, when the lease was renewed: a replica
 * that shows a repeat of a claim its lease makes it safe by renewing it first,
 * by a millisecond. Where replicas share a store, the last bit of a deadline
 * says whether that was done: see pool/lease_record.h.
 *
 * FORGET loses the fence, so an OFFER that comes even later would be taken for
 * that of a new sandbox: forget only when no OFFER of it can be under way. */
#ifndef WP_POOL_LEASES_RULES_H
#define WP_POOL_LEASES_RULES_H

#include "pool/lease_store.h"

/* Applies op to *record, the record of op->uid (state WP_RECORD_NONE when there
 * is none; FETCH by claim: the claim's). claimed: GRANT only, the record that
 * the claim leads to, or NULL. Returns the outcome; *record is changed only
 * when that is WP_OK. After a change to or from HELD or LOST the caller keeps
 * the way from the claim to the record in step. Any thread; pure. */
enum wp_status wp_lease_rules_apply(const struct wp_lease_op *op,
                                    const struct wp_lease_record *claimed,
                                    struct wp_lease_record *record);

/* True when a claim leads to a record in this state. */
static inline bool
wp_record_is_claimed(enum wp_record_state state)
{
    return state == WP_RECORD_HELD || state == WP_RECORD_LOST;
}

#endif
