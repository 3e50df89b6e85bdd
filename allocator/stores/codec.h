/* allocator/stores/codec.h - a lease record as bytes that scripts can work on.
 *
 *   offset  bytes
 *   0       1    version, "1"
 *   1       1    enum wp_record_state, a digit
 *   2       20   fence, decimal, with leading zeros: compares as text
 *   22      20   deadline, the same (two's complement when negative)
 *   42      3    length of the sandbox part
 *   45           sandbox part: namespace, pool, sandbox, endpoint
 *                claim part, only HELD and LOST: claim key, granted (20),
 *                fingerprint (16 hex), served (10), reason
 *
 * Texts have their length before them as three digits. A claim key is the
 * tenant's length as two digits, the tenant, and the claim id. The uid is not
 * in it: whoever stores it knows under which name.
 *
 * Scripts keep the parts they do not understand and put others behind the head;
 * so a change here is a change there (link/scripts), and of what is
 * stored: take a new version. Any thread; pure. */
#ifndef WP_ALLOCATOR_STORES_CODEC_H
#define WP_ALLOCATOR_STORES_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pool/lease_store.h"

enum {
    WP_LEASE_NUMBER_LEN = 20,
    WP_LEASE_HEAD_LEN = 45,
    WP_LEASE_SANDBOX_LEN_MAX = 4 * 3 + WP_NAMESPACE_MAX + WP_POOL_NAME_MAX +
                               WP_SANDBOX_NAME_MAX + WP_ENDPOINT_MAX,
    WP_LEASE_CLAIM_KEY_MAX = 2 + WP_TENANT_MAX + WP_CLAIM_ID_MAX,
    WP_LEASE_REASON_LEN_MAX = 3 + WP_REASON_MAX,
    WP_LEASE_CLAIM_LEN_MAX =
        3 + WP_LEASE_CLAIM_KEY_MAX + 20 + 16 + 10 + WP_LEASE_REASON_LEN_MAX,
    WP_LEASE_PACKED_MAX =
        WP_LEASE_HEAD_LEN + WP_LEASE_SANDBOX_LEN_MAX + WP_LEASE_CLAIM_LEN_MAX,
};

/* Each writes to out, at most the bytes named, and returns how many. Texts are
 * within their limits. */
size_t wp_lease_pack(const struct wp_lease_record *record,
                     char out[WP_LEASE_PACKED_MAX]);
/* What OFFER records. */
size_t wp_lease_pack_offer(const struct wp_lease_op *op,
                           char out[WP_LEASE_PACKED_MAX]);
/* The claim part that GRANT adds. */
size_t wp_lease_pack_claim(const struct wp_lease_op *op,
                           char out[WP_LEASE_CLAIM_LEN_MAX]);
size_t wp_lease_pack_claim_key(struct wp_str tenant, struct wp_str claim_id,
                               char out[WP_LEASE_CLAIM_KEY_MAX]);
/* The end of a claim part, which LOSE replaces. */
size_t wp_lease_pack_reason(struct wp_str reason,
                            char out[WP_LEASE_REASON_LEN_MAX]);
void wp_lease_pack_number(uint64_t number, char out[WP_LEASE_NUMBER_LEN]);

/* False unless packed is exactly what wp_lease_pack writes for some record; the
 * uid of *out is left as it is. State NONE is a record that was forgotten: no
 * store holds it, a feed says it. */
WP_MUST_CHECK bool wp_lease_unpack(struct wp_str packed,
                                   struct wp_lease_record *out);

#endif
