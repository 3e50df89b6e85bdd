/* allocator/signer/keys_impl.h - what keys.c, key_folder.c and key_secret.c
 * share; private to them. All under the lock. */
#ifndef WP_ALLOCATOR_SIGNER_KEYS_IMPL_H
#define WP_ALLOCATOR_SIGNER_KEYS_IMPL_H

#include <openssl/evp.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/types.h>
#include <time.h>

#include "allocator/signer/keys.h"
#include "pool/base/compiler.h"

struct wp_signer_key {
    int64_t made_s;
    char name[WP_SIGNER_KEY_NAME_MAX + 1]; /* "SECONDS-HEX.pem" */
    EVP_PKEY_CTX *signs; /* Made ready: that costs as much as signing. */
    ino_t inode;         /* Of its file, and when that was changed last. */
    struct timespec changed;
    struct wp_signer_public_key public_key;
};

struct wp_signer_keys {
    struct wp_signer_keys_config config;
    char *dir; /* NULL: they are given. */
    pthread_mutex_t lock;
    struct timespec seen; /* The folder's change that `key` is of. */
    struct wp_signer_key key[WP_SIGNER_KEYS_MAX]; /* The oldest first. */
    uint32_t n;
};

/* --- keys.c --- */

/* Sets its name and its age. False: that is no key's name. */
WP_MUST_CHECK bool wp_signer_key_read_name(const char *name,
                                           struct wp_signer_key *out);
/* A name for one that is made now. */
void wp_signer_key_name(int64_t now_s, char out[WP_SIGNER_KEY_NAME_MAX + 1]);
/* Takes pair, which may be NULL. False: it is no key for ES256, and gone. */
WP_MUST_CHECK bool wp_signer_key_take(struct wp_signer_key *key,
                                      EVP_PKEY *pair);
/* Takes key; where there is no room, the oldest goes. */
void wp_signer_keys_insert(struct wp_signer_keys *keys,
                           const struct wp_signer_key *key);
void wp_signer_keys_drop(struct wp_signer_keys *keys, uint32_t index);
/* Is it time to make the next one? */
bool wp_signer_keys_are_due(const struct wp_signer_keys *keys, int64_t now_s);
/* How many of the oldest have signed nothing that is good now. */
uint32_t wp_signer_keys_over(const struct wp_signer_keys *keys, int64_t now_s);
int64_t wp_signer_keys_now_s(const struct wp_signer_keys *keys);

/* --- key_folder.c --- */

/* Reads the folder, makes the next key in time, and removes those whose
 * signatures have all run out. False: there is none. */
WP_MUST_CHECK bool wp_signer_folder_turn(struct wp_signer_keys *keys,
                                         int64_t now_s, struct wp_err *err);
/* Reads the folder, unless it is as it was. */
void wp_signer_folder_load(struct wp_signer_keys *keys);

#endif
