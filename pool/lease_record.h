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

/* How a claim was served. */
enum wp_served {
    WP_SERVED_WARM = 1,   /* From the ready queue at once. */
    WP_SERVED_QUEUED = 2, /* After waiting, by one already in the making. */
    WP_SERVED_COLD = 3,   /* By a sandbox made after the claim came. */
};

/* "warm", "queued", "cold"; "-" for what is none of them. */
static inline const char *
wp_served_text(unsigned served)
{
    static const char *const texts[] = {"-", "warm", "queued", "cold"};

    return texts[served <= WP_SERVED_COLD ? served : 0];
}

/* Texts are terminated. What concerns a claim is zero and "" unless HELD or
 * LOST. */
struct wp_lease_record {
    uint8_t uid[WP_UID_LEN];
    enum wp_record_state state;
    uint64_t fence;           /* Of the latest lease; 0: never held. */
    int64_t deadline_wall_ms; /* As last granted or renewed. */
    int64_t granted_wall_ms;
    uint64_t fingerprint;
    uint32_t served; /* See wp_record_served_pack. */
    char pool_namespace[WP_NAMESPACE_MAX + 1];
    char pool[WP_POOL_NAME_MAX + 1];
    char sandbox[WP_SANDBOX_NAME_MAX + 1];
    char endpoint[WP_ENDPOINT_MAX + 1];
    char claim_id[WP_CLAIM_ID_MAX + 1];
    char tenant[WP_TENANT_MAX + 1];
    char lost_reason[WP_REASON_MAX + 1];
};

/* How a claim was served, and a mark of the process that granted it: two
 * replicas may grant one claim the same sandbox in the same millisecond, and
 * each has to know whose grant the store took. mark: up to WP_RECORD_MARK_MAX;
 * 0: of none. */
#define WP_RECORD_MARK_MAX 0x3fffffU

static inline uint32_t
wp_record_served_pack(enum wp_served served, uint32_t mark)
{
    return (uint32_t)served | mark << 8;
}
static inline uint32_t
wp_record_mark(uint32_t packed)
{
    return packed >> 8;
}
/* What is none, in a record that somebody has edited, counts as WARM. */
static inline enum wp_served
wp_record_served(uint32_t packed)
{
    uint32_t served = packed & 0xff;

    return served >= WP_SERVED_WARM && served <= WP_SERVED_COLD
               ? (enum wp_served)served
               : WP_SERVED_WARM;
}

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
