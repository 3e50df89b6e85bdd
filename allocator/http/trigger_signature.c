#include "allocator/http/trigger_signature.h"

#include <nettle/hmac.h>
#include <string.h>

bool
wp_trigger_is_signed(struct wp_str secret, struct wp_str body,
                     struct wp_str signature)
{
    static const struct wp_str scheme = {"sha256=", 7};
    uint8_t shown[SHA256_DIGEST_SIZE];
    uint8_t right[SHA256_DIGEST_SIZE];
    struct hmac_sha256_ctx ctx;

    if (!wp_str_starts_with(signature, scheme) ||
        !wp_hex_decode((struct wp_str){signature.ptr + scheme.len,
                                       signature.len - scheme.len},
                       shown, sizeof shown)) {
        return false;
    }
    hmac_sha256_set_key(&ctx, secret.len, (const uint8_t *)secret.ptr);
    hmac_sha256_update(&ctx, body.len, (const uint8_t *)body.ptr);
    hmac_sha256_digest(&ctx, sizeof right, right);
    explicit_bzero(&ctx, sizeof ctx);
    return wp_bytes_eq_const_time(shown, right, sizeof right);
}
