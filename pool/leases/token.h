/* pool/leases/token.h - the signed name of a lease, shown by who holds it.
 *
 * Layout, WP_TOKEN_LEN bytes, numbers little-endian:
 *   0 version (1)   1 key id   2 pool tag   4 slot index   8 generation
 *   12 fence   20 expiry, wall ms   28 sandbox uid, 16 bytes
 *   44 claim hash, 8 bytes   52 first 16 bytes of HMAC-SHA256 over bytes 0..51
 *
 * Whoever has the key can check a token without asking anyone. A token that
 * verifies was made by this key and not altered; whether its lease still lives
 * only the slot's generation and fence say. Never logged. */
#ifndef WP_POOL_LEASES_TOKEN_H
#define WP_POOL_LEASES_TOKEN_H

#include <stdalign.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pool/backend.h"
#include "pool/base/compiler.h"
#include "pool/limits.h"
#include "pool/slot_ref.h"

enum {
    WP_TOKEN_KEY_LEN = 32,
    WP_TOKEN_KEY_STATE = 384 /* Room for the hash states of one key. */
};

/* A key made ready for signing. Immutable after init: any thread may use it. */
struct wp_token_key {
    alignas(16) uint8_t state[WP_TOKEN_KEY_STATE];
    uint8_t id;
};

/* What a token says. */
struct wp_token_fields {
    struct wp_slot_ref ref;
    uint64_t fence;
    int64_t expiry_wall_ms;
    uint8_t uid[WP_UID_LEN];
    uint64_t claim_hash; /* Low half of wp_claim_hash. */
    uint16_t pool_tag;   /* Of the pool's names: where to ask for the lease. */
};

void wp_token_key_init(struct wp_token_key *key, uint8_t id,
                       const uint8_t bytes[WP_TOKEN_KEY_LEN]);
/* Wipes the key. */
void wp_token_key_fini(struct wp_token_key *key);

/* Another secret made from the key, one for each purpose; what becomes known of
 * it tells nothing of the key. Any thread. */
void wp_token_key_derive(const uint8_t bytes[WP_TOKEN_KEY_LEN],
                         const char *purpose, void *out, size_t len);

/* Writes WP_TOKEN_LEN bytes. No allocation, no lock. Any thread. */
void wp_lease_token_sign(const struct wp_token_key *key,
                         const struct wp_token_fields *fields,
                         uint8_t out[WP_TOKEN_LEN]);

/* False for another version, another key's id or a wrong signature (compared in
 * constant time); *out is then untouched. Expiry is not judged. Any thread. */
WP_MUST_CHECK bool wp_lease_token_verify(const struct wp_token_key *key,
                                         const uint8_t token[WP_TOKEN_LEN],
                                         struct wp_token_fields *out);

#endif
