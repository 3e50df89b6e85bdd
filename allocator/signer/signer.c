#include "allocator/signer/signer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "allocator/signer/keys.h"
#include "pool/base/assert.h"
#include "pool/base/extreme.h"
#include "pool/base/rng.h"

#define JWKS_PATH "/.well-known/jwks.json"

enum {
    HEAD_MAX = 128,
    SUBJECT_MAX = 3 * (WP_TENANT_MAX + WP_CLAIM_ID_MAX) + WP_NAMESPACE_MAX +
                  WP_POOL_NAME_MAX + WP_SANDBOX_NAME_MAX + 8,
    AHEAD_MAX_S = 3600, /* Verifiers look for new keys more often. */
};

struct wp_signer {
    struct wp_signer_config config;
    struct wp_signer_keys *keys;
};

struct wp_signer *
wp_signer_create(const struct wp_signer_config *config, struct wp_err *err)
{
    struct wp_signer *signer = calloc(1, sizeof *signer);
    struct wp_signer_keys_config keys = {
        .dir = config->dir,
        .turn_s = config->key_turn_ns / WP_NS_PER_S,
        .life_s = config->ttl_ns / WP_NS_PER_S,
        .clock = config->clock,
    };

    if (signer == NULL) {
        (void)wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no memory");
        return NULL;
    }
    keys.ahead_s = wp_min_i64(keys.turn_s / 2, AHEAD_MAX_S);
    signer->config = *config;
    signer->keys = wp_signer_keys_create(&keys, err);
    if (signer->keys == NULL) {
        free(signer);
        return NULL;
    }
    return signer;
}

void
wp_signer_destroy(struct wp_signer *signer)
{
    if (signer != NULL) {
        wp_signer_keys_destroy(signer->keys);
        free(signer);
    }
}

void
wp_signer_take(struct wp_signer *signer, json_t *data)
{
    wp_signer_keys_take(signer->keys, data);
}

json_t *
wp_signer_change(struct wp_signer *signer)
{
    return wp_signer_keys_change(signer->keys);
}

/* --- The token --- */

/* A part of the subject, which no other text could be taken for. */
static char *
put_escaped(char *at, const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '/' || *text == '%') {
            at += snprintf(at, 4, "%%%02X", (unsigned)*text);
        } else {
            *at++ = *text;
        }
    }
    *at++ = '/';
    return at;
}

/* NULL: no memory. The caller frees it. */
static char *
claims_text(const struct wp_signer *signer, const struct wp_claim_info *lease,
            struct wp_str audience, int64_t now_s, int64_t expires_s)
{
    char subject[SUBJECT_MAX];
    char id[2 * 16 + 1];
    uint8_t random[16];
    json_t *claims;
    char *text;
    char *at =
        put_escaped(put_escaped(subject, lease->tenant), lease->claim_id);

    (void)snprintf(at, (size_t)(subject + sizeof subject - at), "%s/%s/%s",
                   lease->pool_namespace, lease->pool, lease->sandbox);
    wp_random_bytes(random, sizeof random);
    wp_hex_encode(random, sizeof random, id);
    claims = json_pack(
        "{s:s, s:s, s:s%, s:I, s:I, s:s, s:{s:s, s:s, s:s, s:s, s:s}}", "iss",
        signer->config.issuer, "sub", subject, "aud", audience.ptr,
        audience.len, "iat", (json_int_t)now_s, "exp", (json_int_t)expires_s,
        "jti", id, "warmpool", "tenant", lease->tenant, "claim",
        lease->claim_id, "namespace", lease->pool_namespace, "pool",
        lease->pool, "sandbox", lease->sandbox);
    text = claims != NULL ? json_dumps(claims, JSON_COMPACT) : NULL;
    json_decref(claims);
    return text;
}

/* What wp_signer_keys_sign is to sign: header and claims, in token. */
struct signing {
    const char *claims;
    char *token;
    size_t len;
};

static struct wp_str
signing_input(void *ctx, const char *key_id)
{
    struct signing *signing = ctx;
    char head[HEAD_MAX];
    int n =
        snprintf(head, sizeof head,
                 "{\"alg\":\"ES256\",\"typ\":\"JWT\",\"kid\":\"%s\"}", key_id);

    signing->len = wp_signer_b64(head, (size_t)n, signing->token);
    signing->token[signing->len++] = '.';
    signing->len += wp_signer_b64(signing->claims, strlen(signing->claims),
                                  signing->token + signing->len);
    return (struct wp_str){signing->token, signing->len};
}

enum wp_status /* NOLINTNEXTLINE(readability-function-size): parameters. */
wp_signer_sign(struct wp_signer *signer, const struct wp_claim_info *lease,
               struct wp_str audience, int64_t ttl_ms,
               char token[WP_IDENTITY_TOKEN_MAX + 1], int64_t *expires_wall_ms,
               struct wp_err *err)
{
    int64_t longest_ms = signer->config.ttl_ns / WP_NS_PER_MS;
    int64_t now_ms = wp_clock_wall_ns(signer->config.clock) / WP_NS_PER_MS;
    int64_t expires_s;
    uint8_t signature[WP_SIGNER_SIGNATURE_BYTES];
    struct signing signing = {.token = token};
    enum wp_status status;
    char *claims;

    if (ttl_ms <= 0 || ttl_ms > longest_ms) {
        ttl_ms = longest_ms;
    }
    ttl_ms = wp_min_i64(ttl_ms, lease->deadline_wall_ms - now_ms);
    expires_s = (now_ms + ttl_ms) / 1000;
    if (expires_s <= now_ms / 1000) {
        return wp_err_set(err, WP_FAILED_PRECONDITION,
                          "the lease is about to end");
    }
    claims = claims_text(signer, lease, audience, now_ms / 1000, expires_s);
    if (claims == NULL) {
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no memory");
    }
    /* Limits leave room, even if JSON escapes each byte. */
    WP_ASSERT((HEAD_MAX + strlen(claims) + sizeof signature) * 4 / 3 + 16 <=
              WP_IDENTITY_TOKEN_MAX);
    signing.claims = claims;
    status = wp_signer_keys_sign(signer->keys, signing_input, &signing,
                                 signature, err);
    free(claims);
    if (status == WP_OK) {
        token[signing.len++] = '.';
        (void)wp_signer_b64(signature, sizeof signature, token + signing.len);
        *expires_wall_ms = expires_s * 1000;
    }
    return status;
}

/* --- For verifiers --- */

size_t
wp_signer_jwks(struct wp_signer *signer, char out[WP_SIGNER_JWKS_MAX])
{
    struct wp_signer_public_key keys[WP_SIGNER_KEYS_MAX];
    uint32_t n = wp_signer_keys_public(signer->keys, keys);
    size_t len = (size_t)snprintf(out, WP_SIGNER_JWKS_MAX, "{\"keys\":[");

    for (uint32_t i = 0; i < n; i++) {
        len += (size_t)snprintf(
            out + len, WP_SIGNER_JWKS_MAX - len,
            "%s{\"kty\":\"EC\",\"crv\":\"P-256\",\"use\":\"sig\","
            "\"alg\":\"ES256\",\"kid\":\"%s\",\"x\":\"%s\",\"y\":\"%s\"}",
            i > 0 ? "," : "", keys[i].id, keys[i].x, keys[i].y);
    }
    len += (size_t)snprintf(out + len, WP_SIGNER_JWKS_MAX - len, "]}\n");
    return len;
}

size_t
wp_signer_openid(const struct wp_signer *signer, char out[WP_SIGNER_OPENID_MAX])
{
    const char *issuer = signer->config.issuer;

    if (strncmp(issuer, "https://", 8) != 0) {
        return 0;
    }
    return (size_t)snprintf(
        out, WP_SIGNER_OPENID_MAX,
        "{\"issuer\":\"%s\",\"jwks_uri\":\"%s" JWKS_PATH "\","
        "\"response_types_supported\":[\"id_token\"],"
        "\"subject_types_supported\":[\"public\"],"
        "\"id_token_signing_alg_values_supported\":[\"ES256\"]}\n",
        issuer, issuer);
}
