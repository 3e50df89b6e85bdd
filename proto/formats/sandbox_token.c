#include "proto/formats/sandbox_token.h"

#include <nettle/hmac.h>
#include <nettle/sha2.h>
#include <string.h>

_Static_assert(2 * SHA256_DIGEST_SIZE == WP_SANDBOX_TOKEN_TEXT, "in hex");

/* The MAC of "a/b". */
static void
mac(const uint8_t key[WP_SANDBOX_KEY_LEN], struct wp_str a, struct wp_str b,
    char out[WP_SANDBOX_TOKEN_TEXT + 1])
{
    struct hmac_sha256_ctx ctx;
    uint8_t bytes[SHA256_DIGEST_SIZE];

    hmac_sha256_set_key(&ctx, WP_SANDBOX_KEY_LEN, key);
    hmac_sha256_update(&ctx, a.len, (const uint8_t *)a.ptr);
    hmac_sha256_update(&ctx, 1, (const uint8_t *)"/");
    hmac_sha256_update(&ctx, b.len, (const uint8_t *)b.ptr);
    hmac_sha256_digest(&ctx, sizeof bytes, bytes);
    wp_hex_encode(bytes, sizeof bytes, out);
    explicit_bzero(&ctx, sizeof ctx);
    explicit_bzero(bytes, sizeof bytes);
}

void
wp_sandbox_token(const uint8_t key[WP_SANDBOX_KEY_LEN], const char *ns,
                 const char *name, char out[WP_SANDBOX_TOKEN_TEXT + 1])
{
    /* Neither has a '/': no two pairs make the same text. */
    mac(key, wp_str_from(ns), wp_str_from(name), out);
}

void
wp_sandbox_seal(const uint8_t key[WP_SANDBOX_KEY_LEN], struct wp_str text,
                char out[WP_SANDBOX_TOKEN_TEXT + 1])
{
    mac(key, WP_STR(""), text, out); /* No namespace is "". */
}

bool
wp_sandbox_seal_fits(const uint8_t key[WP_SANDBOX_KEY_LEN], struct wp_str text,
                     const char *seal)
{
    char own[WP_SANDBOX_TOKEN_TEXT + 1];

    wp_sandbox_seal(key, text, own);
    return strlen(seal) == WP_SANDBOX_TOKEN_TEXT &&
           wp_bytes_eq_const_time(own, seal, WP_SANDBOX_TOKEN_TEXT);
}

void
wp_sandbox_token_digest(struct wp_str token,
                        char out[WP_SANDBOX_TOKEN_TEXT + 1])
{
    struct sha256_ctx ctx;
    uint8_t bytes[SHA256_DIGEST_SIZE];

    sha256_init(&ctx);
    sha256_update(&ctx, token.len, (const uint8_t *)token.ptr);
    sha256_digest(&ctx, sizeof bytes, bytes);
    wp_hex_encode(bytes, sizeof bytes, out);
}

bool
wp_sandbox_token_fits(struct wp_str token, const char *digest)
{
    char own[WP_SANDBOX_TOKEN_TEXT + 1];

    wp_sandbox_token_digest(token, own);
    return strlen(digest) == WP_SANDBOX_TOKEN_TEXT &&
           wp_bytes_eq_const_time(own, digest, WP_SANDBOX_TOKEN_TEXT);
}
