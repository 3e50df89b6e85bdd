/* allocator/signer/key_secret.c - keys that are entries of a Secret, which the
 * replicas in a cluster share.
 *
 * They are as in a folder: "SECONDS-HEX.pem" with the PEM text. Whoever leads
 * writes what is due; a key signs once it was read there, so what one replica
 * signs all others can publish. */
#include <openssl/ec.h>
#include <openssl/pem.h>
#include <stdlib.h>
#include <string.h>

#include "allocator/signer/keys_impl.h"
#include "pool/base/assert.h"
#include "pool/base/log.h"
#include "proto/formats/base64.h"

enum {
    PEM_MAX = 1024, /* Bytes of the text of one. */
};

/* NULL: it is no key in base64. */
static EVP_PKEY *
read_pair(const json_t *value)
{
    char text[PEM_MAX];
    size_t len;
    BIO *bio = NULL;
    EVP_PKEY *pair = NULL;

    if (json_is_string(value) &&
        json_string_length(value) / 4 * 3 + 4 <= sizeof text &&
        wp_base64_read(json_string_value(value), text, &len)) {
        bio = BIO_new_mem_buf(text, (int)len);
    }
    if (bio != NULL) {
        pair = PEM_read_bio_PrivateKey(bio, NULL, NULL, NULL);
    }
    BIO_free(bio);
    explicit_bzero(text, sizeof text);
    return pair;
}

void
wp_signer_keys_take(struct wp_signer_keys *keys, json_t *data)
{
    const char *name;
    json_t *value;

    WP_ASSERT(keys->dir == NULL);
    (void)pthread_mutex_lock(&keys->lock);
    while (keys->n > 0) {
        wp_signer_keys_drop(keys, keys->n - 1);
    }
    json_object_foreach(data, name, value)
    {
        struct wp_signer_key key = {.signs = NULL};

        if (!wp_signer_key_read_name(name, &key)) {
            continue;
        }
        if (wp_signer_key_take(&key, read_pair(value))) {
            wp_signer_keys_insert(keys, &key);
        } else {
            wp_log_warn("key of identities not used: an ES256 key was expected",
                        wp_kv_str("entry", key.name));
        }
    }
    (void)pthread_mutex_unlock(&keys->lock);
}

/* Its PEM text in base64; NULL: there is none to be had. */
static json_t *
make_pair(void)
{
    EVP_PKEY *pair = EVP_EC_gen("P-256");
    BIO *bio = pair != NULL ? BIO_new(BIO_s_secmem()) : NULL;
    uint8_t coded[PEM_MAX / 3 * 4 + 8];
    json_t *made = NULL;
    char *text = NULL;
    long len;

    if (bio != NULL &&
        PEM_write_bio_PrivateKey(bio, pair, NULL, NULL, 0, NULL, NULL) == 1) {
        len = BIO_get_mem_data(bio, &text);
        WP_ASSERT(len > 0 && len < PEM_MAX);
        (void)EVP_EncodeBlock(coded, (const uint8_t *)text, (int)len);
        made = json_string((const char *)coded);
        explicit_bzero(coded, sizeof coded);
    }
    BIO_free(bio);
    EVP_PKEY_free(pair);
    return made;
}

json_t *
wp_signer_keys_change(struct wp_signer_keys *keys)
{
    int64_t now_s = wp_signer_keys_now_s(keys);
    json_t *data = json_object();

    WP_ASSERT(keys->dir == NULL);
    (void)pthread_mutex_lock(&keys->lock);
    if (wp_signer_keys_are_due(keys, now_s)) {
        char name[WP_SIGNER_KEY_NAME_MAX + 1];

        wp_signer_key_name(now_s, name);
        (void)json_object_set_new(data, name, make_pair());
    }
    for (uint32_t i = wp_signer_keys_over(keys, now_s); i > 0; i--) {
        (void)json_object_set_new(data, keys->key[i - 1].name, json_null());
    }
    (void)pthread_mutex_unlock(&keys->lock);
    if (json_object_size(data) == 0) {
        json_decref(data);
        return NULL;
    }
    return data;
}
