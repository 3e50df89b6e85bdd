#include "allocator/signer/keys_impl.h"

#include <errno.h>
#include <inttypes.h>
#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "pool/base/rng.h"

enum {
    COORDINATE = 32,
    DER_MAX = 80,
    SECONDS_DIGITS = 12, /* As many that names are in order. */
};

/* --- Encodings --- */

size_t
wp_signer_b64(const void *bytes, size_t len, char *out)
{
    static const char digits[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    const uint8_t *in = bytes;
    size_t n = 0;

    for (size_t at = 0; at < len; at += 3) {
        size_t more = len - at;
        uint32_t group = (uint32_t)in[at] << 16 |
                         (more > 1 ? (uint32_t)in[at + 1] << 8 : 0) |
                         (more > 2 ? (uint32_t)in[at + 2] : 0);

        for (size_t i = 0; i < (more > 2 ? 4 : more + 1); i++) {
            out[n++] = digits[group >> (18 - 6 * i) & 63];
        }
    }
    out[n] = '\0';
    return n;
}

static bool
read_coordinate(const EVP_PKEY *pair, const char *name,
                char out[WP_SIGNER_B64_MAX + 1])
{
    uint8_t bytes[COORDINATE];
    BIGNUM *number = NULL;
    bool ok = EVP_PKEY_get_bn_param(pair, name, &number) == 1 &&
              BN_bn2binpad(number, bytes, sizeof bytes) == sizeof bytes;

    if (ok) {
        (void)wp_signer_b64(bytes, sizeof bytes, out);
    }
    BN_free(number);
    return ok;
}

/* Its point, and as its id the thumbprint of RFC 7638. */
static bool
describe(const EVP_PKEY *pair, struct wp_signer_public_key *out)
{
    char text[160];
    char group[32];
    uint8_t digest[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    int n;

    if (EVP_PKEY_get_group_name(pair, group, sizeof group, NULL) != 1 ||
        strcmp(group, "prime256v1") != 0 ||
        !read_coordinate(pair, OSSL_PKEY_PARAM_EC_PUB_X, out->x) ||
        !read_coordinate(pair, OSSL_PKEY_PARAM_EC_PUB_Y, out->y)) {
        return false;
    }
    n = snprintf(text, sizeof text,
                 "{\"crv\":\"P-256\",\"kty\":\"EC\",\"x\":\"%s\",\"y\":\"%s\"}",
                 out->x, out->y);
    if (EVP_Digest(text, (size_t)n, digest, &len, EVP_sha256(), NULL) != 1) {
        return false;
    }
    (void)wp_signer_b64(digest, len, out->id);
    return true;
}

/* --- The set of them --- */

bool
wp_signer_key_read_name(const char *name, struct wp_signer_key *out)
{
    struct wp_str text = wp_str_from(name);
    uint64_t made;

    if (text.len != SECONDS_DIGITS + 1 + 8 + 4 ||
        text.ptr[SECONDS_DIGITS] != '-' ||
        strcmp(name + text.len - 4, ".pem") != 0 ||
        !wp_str_to_u64((struct wp_str){name, SECONDS_DIGITS}, &made)) {
        return false;
    }
    out->made_s = (int64_t)made;
    return wp_str_copy(text, out->name, sizeof out->name);
}

void
wp_signer_key_name(int64_t now_s, char out[WP_SIGNER_KEY_NAME_MAX + 1])
{
    uint32_t random;

    wp_random_bytes(&random, sizeof random);
    (void)snprintf(out, WP_SIGNER_KEY_NAME_MAX + 1,
                   "%0*" PRId64 "-%08" PRIx32 ".pem", SECONDS_DIGITS, now_s,
                   random);
}

bool
wp_signer_key_take(struct wp_signer_key *key, EVP_PKEY *pair)
{
    key->signs = pair != NULL && describe(pair, &key->public_key)
                     ? EVP_PKEY_CTX_new(pair, NULL)
                     : NULL;
    EVP_PKEY_free(pair); /* signs has it. */
    if (key->signs != NULL && EVP_PKEY_sign_init(key->signs) != 1) {
        EVP_PKEY_CTX_free(key->signs);
        key->signs = NULL;
    }
    return key->signs != NULL;
}

void
wp_signer_keys_drop(struct wp_signer_keys *keys, uint32_t index)
{
    EVP_PKEY_CTX_free(keys->key[index].signs);
    keys->n--;
    memmove(&keys->key[index], &keys->key[index + 1],
            (keys->n - index) * sizeof keys->key[0]);
}

void
wp_signer_keys_insert(struct wp_signer_keys *keys,
                      const struct wp_signer_key *key)
{
    uint32_t at = keys->n;

    while (at > 0 && strcmp(keys->key[at - 1].name, key->name) > 0) {
        at--;
    }
    if (keys->n == WP_SIGNER_KEYS_MAX) {
        if (at == 0) {
            EVP_PKEY_CTX_free(key->signs);
            return;
        }
        wp_signer_keys_drop(keys, 0);
        at--;
    }
    memmove(&keys->key[at + 1], &keys->key[at],
            (keys->n - at) * sizeof keys->key[0]);
    keys->key[at] = *key;
    keys->n++;
}

/* --- Their turns --- */

/* It was made while the clock was wrong: of daemons that share keys, none is as
 * far ahead of another. */
static bool
is_of_the_future(const struct wp_signer_keys *keys, uint32_t index,
                 int64_t now_s)
{
    return keys->key[index].made_s > now_s + keys->config.ahead_s;
}

/* The newest that was published for long enough; else one of the future, which
 * may have been, or the oldest. */
static uint32_t
signing(const struct wp_signer_keys *keys, int64_t now_s)
{
    for (uint32_t at = keys->n; at > 0; at--) {
        if (keys->key[at - 1].made_s <= now_s - keys->config.ahead_s) {
            return at - 1;
        }
    }
    return is_of_the_future(keys, keys->n - 1, now_s) ? keys->n - 1 : 0;
}

/* Those of the future do not count: they would keep the turns waiting until
 * then. */
bool
wp_signer_keys_are_due(const struct wp_signer_keys *keys, int64_t now_s)
{
    const struct wp_signer_keys_config *config = &keys->config;
    uint32_t n = keys->n;

    while (n > 0 && is_of_the_future(keys, n - 1, now_s)) {
        n--;
    }
    return n == 0 ||
           keys->key[n - 1].made_s + config->turn_s - config->ahead_s <= now_s;
}

uint32_t
wp_signer_keys_over(const struct wp_signer_keys *keys, int64_t now_s)
{
    uint32_t n = 0;

    while (n + 1 < keys->n && keys->key[n + 1].made_s + keys->config.ahead_s +
                                      keys->config.life_s <
                                  now_s) {
        n++;
    }
    return n;
}

/* --- Use --- */

static bool
sign(EVP_PKEY_CTX *signs, struct wp_str text,
     uint8_t out[WP_SIGNER_SIGNATURE_BYTES])
{
    uint8_t digest[SHA256_DIGEST_LENGTH];
    uint8_t der[DER_MAX];
    const uint8_t *at = der;
    size_t len = sizeof der;
    ECDSA_SIG *pair_of_numbers = NULL;
    bool ok = SHA256((const uint8_t *)text.ptr, text.len, digest) != NULL &&
              EVP_PKEY_sign(signs, der, &len, digest, sizeof digest) == 1;

    if (ok) {
        pair_of_numbers = d2i_ECDSA_SIG(NULL, &at, (long)len);
    }
    ok = pair_of_numbers != NULL &&
         BN_bn2binpad(ECDSA_SIG_get0_r(pair_of_numbers), out, COORDINATE) ==
             COORDINATE &&
         BN_bn2binpad(ECDSA_SIG_get0_s(pair_of_numbers), out + COORDINATE,
                      COORDINATE) == COORDINATE;
    ECDSA_SIG_free(pair_of_numbers);
    return ok;
}

int64_t
wp_signer_keys_now_s(const struct wp_signer_keys *keys)
{
    return wp_clock_wall_ns(keys->config.clock) / WP_NS_PER_S;
}

enum wp_status
wp_signer_keys_sign(struct wp_signer_keys *keys,
                    struct wp_str (*head)(void *ctx, const char *key_id),
                    void *ctx, uint8_t signature[WP_SIGNER_SIGNATURE_BYTES],
                    struct wp_err *err)
{
    int64_t now_s = wp_signer_keys_now_s(keys);
    enum wp_status status;

    (void)pthread_mutex_lock(&keys->lock);
    if (keys->dir != NULL && !wp_signer_folder_turn(keys, now_s, err)) {
        status = err->status;
    } else if (keys->n == 0) {
        status = wp_err_set(err, WP_UNAVAILABLE,
                            "there is no key that signs yet; try again");
    } else {
        const struct wp_signer_key *key = &keys->key[signing(keys, now_s)];

        status = sign(key->signs, head(ctx, key->public_key.id), signature)
                     ? WP_OK
                     : wp_err_set(err, WP_UNAVAILABLE,
                                  "the identity cannot be signed");
    }
    (void)pthread_mutex_unlock(&keys->lock);
    return status;
}

uint32_t
wp_signer_keys_public(struct wp_signer_keys *keys,
                      struct wp_signer_public_key out[WP_SIGNER_KEYS_MAX])
{
    uint32_t n;

    (void)pthread_mutex_lock(&keys->lock);
    if (keys->dir != NULL) {
        wp_signer_folder_load(keys);
    }
    n = keys->n;
    for (uint32_t i = 0; i < n; i++) {
        out[i] = keys->key[i].public_key;
    }
    (void)pthread_mutex_unlock(&keys->lock);
    return n;
}

/* --- Its life --- */

struct wp_signer_keys *
wp_signer_keys_create(const struct wp_signer_keys_config *config,
                      struct wp_err *err)
{
    struct wp_signer_keys *keys = calloc(1, sizeof *keys);
    char *dir = config->dir != NULL ? strdup(config->dir) : NULL;

    if (keys == NULL || (config->dir != NULL && dir == NULL)) {
        free(keys);
        free(dir);
        (void)wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no memory");
        return NULL;
    }
    keys->config = *config;
    keys->dir = dir;
    (void)pthread_mutex_init(&keys->lock, NULL);
    if (dir != NULL && mkdir(dir, 0700) != 0 && errno != EEXIST) {
        (void)wp_err_sys(err, WP_FAILED_PRECONDITION, errno,
                         "cannot make %.200s", dir);
    } else if (dir == NULL ||
               wp_signer_folder_turn(keys, wp_signer_keys_now_s(keys), err)) {
        return keys;
    }
    wp_signer_keys_destroy(keys);
    return NULL;
}

void
wp_signer_keys_destroy(struct wp_signer_keys *keys)
{
    if (keys == NULL) {
        return;
    }
    while (keys->n > 0) {
        wp_signer_keys_drop(keys, keys->n - 1);
    }
    (void)pthread_mutex_destroy(&keys->lock);
    free(keys->dir);
    free(keys);
}
