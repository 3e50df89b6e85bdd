#include "pool/egress/pass.h"

#include <nettle/hmac.h>
#include <nettle/sha2.h>
#include <string.h>

#include "pool/base/assert.h"

enum {
    FIELDS = 5,
};

_Static_assert(SHA256_DIGEST_SIZE == 32, "as the sizes in the header say");

static void
mac(const uint8_t key[WP_EGRESS_KEY_LEN], struct wp_str text,
    uint8_t out[SHA256_DIGEST_SIZE])
{
    struct hmac_sha256_ctx ctx;

    hmac_sha256_set_key(&ctx, WP_EGRESS_KEY_LEN, key);
    hmac_sha256_update(&ctx, text.len, (const uint8_t *)text.ptr);
    hmac_sha256_digest(&ctx, SHA256_DIGEST_SIZE, out);
    explicit_bzero(&ctx, sizeof ctx);
}

void
wp_egress_key_derive(const uint8_t installation[WP_EGRESS_KEY_LEN],
                     struct wp_str pool_namespace,
                     uint8_t out[WP_EGRESS_KEY_LEN])
{
    mac(installation, pool_namespace, out);
}

void
wp_egress_pass_write(const uint8_t key[WP_EGRESS_KEY_LEN],
                     const struct wp_egress_pass *pass,
                     char out[WP_EGRESS_PASS_TEXT_MAX + 1])
{
    const struct wp_str fields[FIELDS] = {pass->pool_namespace, pass->sandbox,
                                          pass->address, pass->policy,
                                          pass->by};
    uint8_t bytes[WP_EGRESS_PASS_BYTES_MAX];
    size_t len = SHA256_DIGEST_SIZE;

    for (size_t i = 0; i < FIELDS; i++) {
        size_t between = i > 0 ? 1 : 0;

        WP_ASSERT(fields[i].len + between <= sizeof bytes - len);
        if (between > 0) {
            bytes[len++] = '\0';
        }
        if (fields[i].len > 0) {
            WP_ASSERT(memchr(fields[i].ptr, '\0', fields[i].len) == NULL);
            memcpy(bytes + len, fields[i].ptr, fields[i].len);
        }
        len += fields[i].len;
    }
    mac(key,
        (struct wp_str){(const char *)bytes + SHA256_DIGEST_SIZE,
                        len - SHA256_DIGEST_SIZE},
        bytes);
    wp_hex_encode(bytes, len, out);
}

/* Splits text, which ends with a field, in five. */
static bool
split(struct wp_str text, struct wp_str fields[FIELDS])
{
    for (size_t i = 0; i < FIELDS; i++) {
        const char *end = memchr(text.ptr, '\0', text.len);
        size_t len = end != NULL ? (size_t)(end - text.ptr) : text.len;

        if ((end == NULL) != (i == FIELDS - 1)) {
            return false;
        }
        fields[i] = (struct wp_str){text.ptr, len};
        if (end != NULL) {
            text.ptr += len + 1;
            text.len -= len + 1;
        }
    }
    return true;
}

bool
wp_egress_pass_read(const uint8_t key[WP_EGRESS_KEY_LEN], struct wp_str text,
                    char room[WP_EGRESS_PASS_BYTES_MAX],
                    struct wp_egress_pass *out)
{
    struct wp_str fields[FIELDS];
    uint8_t own[SHA256_DIGEST_SIZE];
    size_t len = text.len / 2;
    struct wp_str behind;

    if (len <= SHA256_DIGEST_SIZE || len > WP_EGRESS_PASS_BYTES_MAX ||
        !wp_hex_decode(text, room, len)) {
        return false;
    }
    behind =
        (struct wp_str){room + SHA256_DIGEST_SIZE, len - SHA256_DIGEST_SIZE};
    mac(key, behind, own);
    if (!wp_bytes_eq_const_time(own, room, sizeof own) ||
        !split(behind, fields)) {
        return false;
    }
    *out = (struct wp_egress_pass){fields[0], fields[1], fields[2], fields[3],
                                   fields[4]};
    return true;
}
