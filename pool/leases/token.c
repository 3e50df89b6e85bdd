/* Nettle because it is measured faster here than OpenSSL's EVP and needs
 * neither an allocation nor a deprecated call: 52 bytes are one block of each
 * of the two hashes, and hashing the key's two blocks is done once, in init. */
#include "pool/leases/token.h"

#include <nettle/hmac.h>
#include <string.h>

#include "pool/base/assert.h"
#include "pool/base/str.h"

enum {
    TOKEN_VERSION = 1,
    AT_VERSION = 0,
    AT_KEY_ID = 1,
    AT_POOL_TAG = 2,
    AT_INDEX = 4,
    AT_GENERATION = 8,
    AT_FENCE = 12,
    AT_EXPIRY = 20,
    AT_UID = 28,
    AT_CLAIM_HASH = 44,
    AT_SIGNATURE = 52,
    SIGNATURE_LEN = 16,
};

_Static_assert(sizeof(struct hmac_sha256_ctx) <= WP_TOKEN_KEY_STATE,
               "the hash states fit");
_Static_assert(_Alignof(struct hmac_sha256_ctx) <= 16, "and are aligned");
_Static_assert(AT_SIGNATURE + SIGNATURE_LEN == WP_TOKEN_LEN, "68 bytes");

static void
put_le(uint8_t *at, uint64_t value, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++) {
        at[i] = (uint8_t)(value >> (8 * i));
    }
}

static uint64_t
get_le(const uint8_t *at, unsigned bytes)
{
    uint64_t value = 0;

    for (unsigned i = 0; i < bytes; i++) {
        value |= (uint64_t)at[i] << (8 * i);
    }
    return value;
}

void
wp_token_key_init(struct wp_token_key *key, uint8_t id,
                  const uint8_t bytes[WP_TOKEN_KEY_LEN])
{
    key->id = id;
    hmac_sha256_set_key((struct hmac_sha256_ctx *)(void *)key->state,
                        WP_TOKEN_KEY_LEN, bytes);
}

void
wp_token_key_fini(struct wp_token_key *key)
{
    explicit_bzero(key, sizeof *key);
}

void
wp_token_key_derive(const uint8_t bytes[WP_TOKEN_KEY_LEN], const char *purpose,
                    void *out, size_t len)
{
    struct hmac_sha256_ctx ctx;

    WP_ASSERT(len <= SHA256_DIGEST_SIZE);
    hmac_sha256_set_key(&ctx, WP_TOKEN_KEY_LEN, bytes);
    hmac_sha256_update(&ctx, strlen(purpose), (const uint8_t *)purpose);
    hmac_sha256_digest(&ctx, len, out);
    explicit_bzero(&ctx, sizeof ctx);
}

static void
sign(const struct wp_token_key *key, const uint8_t *payload, uint8_t *signature)
{
    struct hmac_sha256_ctx ctx;

    memcpy(&ctx, key->state, sizeof ctx);
    hmac_sha256_update(&ctx, AT_SIGNATURE, payload);
    hmac_sha256_digest(&ctx, SIGNATURE_LEN, signature);
}

void
wp_lease_token_sign(const struct wp_token_key *key,
                    const struct wp_token_fields *fields,
                    uint8_t out[WP_TOKEN_LEN])
{
    out[AT_VERSION] = TOKEN_VERSION;
    out[AT_KEY_ID] = key->id;
    put_le(out + AT_POOL_TAG, fields->pool_tag, 2);
    put_le(out + AT_INDEX, fields->ref.index, 4);
    put_le(out + AT_GENERATION, fields->ref.generation, 4);
    put_le(out + AT_FENCE, fields->fence, 8);
    put_le(out + AT_EXPIRY, (uint64_t)fields->expiry_wall_ms, 8);
    memcpy(out + AT_UID, fields->uid, WP_UID_LEN);
    put_le(out + AT_CLAIM_HASH, fields->claim_hash, 8);
    sign(key, out, out + AT_SIGNATURE);
}

bool
wp_lease_token_verify(const struct wp_token_key *key,
                      const uint8_t token[WP_TOKEN_LEN],
                      struct wp_token_fields *out)
{
    uint8_t wanted[SIGNATURE_LEN];

    if (token[AT_VERSION] != TOKEN_VERSION || token[AT_KEY_ID] != key->id) {
        return false;
    }
    sign(key, token, wanted);
    if (!wp_bytes_eq_const_time(wanted, token + AT_SIGNATURE, SIGNATURE_LEN)) {
        return false;
    }
    out->ref.index = (uint32_t)get_le(token + AT_INDEX, 4);
    out->ref.generation = (uint32_t)get_le(token + AT_GENERATION, 4);
    out->fence = get_le(token + AT_FENCE, 8);
    out->expiry_wall_ms = (int64_t)get_le(token + AT_EXPIRY, 8);
    memcpy(out->uid, token + AT_UID, WP_UID_LEN);
    out->claim_hash = get_le(token + AT_CLAIM_HASH, 8);
    out->pool_tag = (uint16_t)get_le(token + AT_POOL_TAG, 2);
    return true;
}
