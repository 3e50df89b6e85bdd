/* allocator/signer/keys.h - the keys that identities are signed with.
 *
 * ES256, each under its name "SECONDS-HEX.pem", by when it was made: a file
 * that only its owner can read, in one folder, or an entry of a Secret. Daemons
 * that share the folder or the Secret publish each other's. A key is published
 * before it signs, and for as long as what it has signed is good. Any thread;
 * with a folder it blocks a little for the disk. */
#ifndef WP_ALLOCATOR_SIGNER_KEYS_H
#define WP_ALLOCATOR_SIGNER_KEYS_H

#include <jansson.h>
#include <stdint.h>

#include "pool/base/clock.h"
#include "pool/base/status.h"
#include "pool/base/str.h"

enum {
    WP_SIGNER_KEYS_MAX = 8, /* Older ones are not looked at. */
    WP_SIGNER_KEY_NAME_MAX = 63,
    WP_SIGNER_B64_MAX = 43,        /* Of 32 bytes, in base64url. */
    WP_SIGNER_SIGNATURE_BYTES = 64 /* As JSON Web Signatures have it. */
};

struct wp_signer_keys; /* Opaque. */

struct wp_signer_keys_config {
    const char *dir; /* Copied; made if need be. NULL: they are given. */
    int64_t turn_s;  /* A new key signs after this long. */
    int64_t ahead_s; /* It is published this long before; less than turn_s. */
    int64_t life_s;  /* The longest of what is signed. */
    const struct wp_clock *clock; /* Borrowed. */
};

/* Makes the first key in the folder, too. NULL and err. */
struct wp_signer_keys *
wp_signer_keys_create(const struct wp_signer_keys_config *config,
                      struct wp_err *err);
/* NULL is fine. */
void wp_signer_keys_destroy(struct wp_signer_keys *keys);

/* Calls head with the id of the key that signs, which says what is to be
 * signed, and signs that. UNAVAILABLE: there is no key, and none can be made.
 */
enum wp_status
wp_signer_keys_sign(struct wp_signer_keys *keys,
                    struct wp_str (*head)(void *ctx, const char *key_id),
                    void *ctx, uint8_t signature[WP_SIGNER_SIGNATURE_BYTES],
                    struct wp_err *err);

/* One that is published: its id, and its point. */
struct wp_signer_public_key {
    char id[WP_SIGNER_B64_MAX + 1];
    char x[WP_SIGNER_B64_MAX + 1];
    char y[WP_SIGNER_B64_MAX + 1];
};
/* Returns how many there are. */
uint32_t
wp_signer_keys_public(struct wp_signer_keys *keys,
                      struct wp_signer_public_key out[WP_SIGNER_KEYS_MAX]);

/* Without a folder: those of a Secret's data are used from here on, and no
 * others. What is no key is left out, and logged. NULL: it has no data. */
void wp_signer_keys_take(struct wp_signer_keys *keys, json_t *data);
/* What is to be written there now: the next key, and null for what is over; a
 * new reference. NULL: nothing. The caller sees to it that nobody else writes
 * meanwhile, and gives back what is there then. */
json_t *wp_signer_keys_change(struct wp_signer_keys *keys);

/* base64url without padding; out has room for 4/3 of len, and 4. Returns the
 * length. Pure. */
size_t wp_signer_b64(const void *bytes, size_t len, char *out);

#endif
