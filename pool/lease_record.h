/* pool/lease_record.h - what a lease store keeps of one sandbox.
 *
 * One record for each sandbox from the moment it is offered to claims until
 * nothing of it is left, named by the sandbox's uid. While it is held or lost
 * its claim (tenant and claim id) leads to it too.
 *
 *            grant            release, expire          forget
 *   OPEN ------------> HELD ---------------------> ENDED ------> (no record)
 *    | ^                | | lose                    ^
 *    | '----- undo -----' '-----> LOST -------------+
 *    |                            release, expire   |
 *    '------------------ withdraw ------------------'
 */
#ifndef WP_POOL_LEASE_RECORD_H
#define WP_POOL_LEASE_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include "pool/backend.h"
#include "pool/limits.h"

/* The numbers are stored: never change one. */
enum wp_record_state {
    WP_RECORD_NONE = 0,  /* There is no record. */
    WP_RECORD_OPEN = 1,  /* Offered, held by nobody: may be granted. */
    WP_RECORD_HELD = 2,  /* A claim holds it. */
    WP_RECORD_LOST = 3,  /* A claim holds it, but its sandbox is gone. */
    WP_RECORD_ENDED = 4, /* Held once, or withdrawn: never granted again. */
};

/* Texts are terminated. What concerns a claim is zero and "" unless HELD or
 * LOST. */
struct wp_lease_record {
    uint8_t uid[WP_UID_LEN];
    enum wp_record_state state;
    uint64_t fence;           /* Of the latest lease; 0: never held. */
    int64_t deadline_wall_ms; /* As last granted or renewed. */
    int64_t granted_wall_ms;
    uint64_t fingerprint;
    uint32_t served; /* enum wp_served */
    char pool_namespace[WP_NAMESPACE_MAX + 1];
    char pool[WP_POOL_NAME_MAX + 1];
    char sandbox[WP_SANDBOX_NAME_MAX + 1];
    char endpoint[WP_ENDPOINT_MAX + 1];
    char claim_id[WP_CLAIM_ID_MAX + 1];
    char tenant[WP_TENANT_MAX + 1];
    char lost_reason[WP_REASON_MAX + 1];
};

/* Deadlines in a store that replicas share: even as granted, odd once the lease
 * was renewed or a repeat was shown it. Only an even one may be undone, by the
 * replica that granted it. Both round up, by a millisecond at most. */
static inline int64_t
wp_deadline_as_granted(int64_t wall_ms)
{
    return wall_ms + (wall_ms & 1);
}
static inline int64_t
wp_deadline_as_shown(int64_t wall_ms)
{
    return wall_ms | 1;
}
/* Nobody but the replica that granted it can have shown it. */
static inline bool
wp_deadline_is_granted(int64_t wall_ms)
{
    return (wall_ms & 1) == 0;
}

#endif
