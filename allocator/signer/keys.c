#include "allocator/signer/keys.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "pool/base/log.h"
#include "pool/base/rng.h"

enum {
    COORDINATE = 32,
    PATH_BYTES = 4096 + 64,
    NAME_BYTES = 64,
    DER_MAX = 80,
};

struct key {
    int64_t made_s;
    char name[NAME_BYTES]; /* Of its file. */
    EVP_PKEY *pair;
    struct wp_signer_public_key public_key;
};

struct wp_signer_keys {
    struct wp_signer_keys_config config;
    char *dir;
    pthread_mutex_t lock; /* Guards what follows. */
    struct timespec seen; /* The folder's change that `key` is of. */
    struct key key[WP_SIGNER_KEYS_MAX]; /* The oldest first. */
    uint32_t n;
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

/* --- Files --- */

static void
drop(struct wp_signer_keys *keys, uint32_t index)
{
    EVP_PKEY_free(keys->key[index].pair);
    keys->n--;
    memmove(&keys->key[index], &keys->key[index + 1],
            (keys->n - index) * sizeof keys->key[0]);
}

/* By its age among the others; where there is no room, the oldest goes. */
static void
insert(struct wp_signer_keys *keys, const struct key *key)
{
    uint32_t at = keys->n;

    while (at > 0 && strcmp(keys->key[at - 1].name, key->name) > 0) {
        at--;
    }
    if (keys->n == WP_SIGNER_KEYS_MAX) {
        if (at == 0) {
            EVP_PKEY_free(key->pair);
            return;
        }
        drop(keys, 0);
        at--;
    }
    memmove(&keys->key[at + 1], &keys->key[at],
            (keys->n - at) * sizeof keys->key[0]);
    keys->key[at] = *key;
    keys->n++;
}

/* "SECONDS-HEX.pem", with as many digits that names are in order. */
static bool
read_name(const char *name, struct key *out)
{
    struct wp_str text = wp_str_from(name);
    uint64_t made;

    if (text.len != 12 + 1 + 8 + 4 || text.ptr[12] != '-' ||
        strcmp(name + 21, ".pem") != 0 ||
        !wp_str_to_u64((struct wp_str){name, 12}, &made)) {
        return false;
    }
    out->made_s = (int64_t)made;
    return wp_str_copy(text, out->name, sizeof out->name);
}

/* False: it is no key, or others could have read it. */
static bool
read_file(int dir, struct key *key)
{
    int fd =
        openat(dir, key->name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    FILE *file = fd >= 0 ? fdopen(fd, "r") : NULL;
    struct stat st;
    bool ok = false;

    if (file == NULL) {
        if (fd >= 0) {
            (void)close(fd);
        }
        return false;
    }
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
        (st.st_mode & 077) == 0) {
        key->pair = PEM_read_PrivateKey(file, NULL, NULL, NULL);
        ok = key->pair != NULL && describe(key->pair, &key->public_key);
    }
    (void)fclose(file);
    if (!ok) {
        EVP_PKEY_free(key->pair);
        key->pair = NULL;
    }
    return ok;
}

/* What is in the folder, unless it is as it was. */
static void
load(struct wp_signer_keys *keys)
{
    DIR *dir = opendir(keys->dir);
    const struct dirent *entry;
    struct stat st;

    if (dir == NULL || fstat(dirfd(dir), &st) != 0 ||
        memcmp(&st.st_mtim, &keys->seen, sizeof keys->seen) == 0) {
        if (dir != NULL) {
            (void)closedir(dir);
        }
        return;
    }
    while (keys->n > 0) {
        drop(keys, keys->n - 1);
    }
    /* One that has just changed may change again within the same tick. */
    keys->seen = time(NULL) - st.st_mtim.tv_sec > 2 ? st.st_mtim
                                                    : (struct timespec){0, 0};
    while ((entry = readdir(dir)) != NULL) {
        struct key key = {.pair = NULL};

        if (!read_name(entry->d_name, &key)) {
            continue;
        }
        if (read_file(dirfd(dir), &key)) {
            insert(keys, &key);
        } else {
            wp_log_warn("key of identities not used: an ES256 key that only "
                        "the daemon's user can read was expected",
                        wp_kv_str("file", key.name));
        }
    }
    (void)closedir(dir);
}

/* False with errno. */
static bool
write_file(const char *path, const EVP_PKEY *pair)
{
    char fresh[PATH_BYTES + 4];
    FILE *file = NULL;
    bool ok = false;
    int fd;

    (void)snprintf(fresh, sizeof fresh, "%s.new", path);
    fd = open(fresh, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd >= 0) {
        file = fdopen(fd, "w");
    }
    if (file != NULL) {
        errno = EIO;
        ok = PEM_write_PrivateKey(file, pair, NULL, NULL, 0, NULL, NULL) == 1 &&
             fflush(file) == 0 && fsync(fd) == 0;
        ok = fclose(file) == 0 && ok;
    }
    ok = ok && rename(fresh, path) == 0;
    if (!ok && fd >= 0) {
        int error = errno;

        (void)unlink(fresh);
        errno = error;
    }
    return ok;
}

static bool
add_key(struct wp_signer_keys *keys, int64_t now_s, struct wp_err *err)
{
    char path[PATH_BYTES];
    EVP_PKEY *pair = EVP_EC_gen("P-256");
    uint32_t random;
    bool ok;

    wp_random_bytes(&random, sizeof random);
    ok = snprintf(path, sizeof path, "%s/%012" PRId64 "-%08" PRIx32 ".pem",
                  keys->dir, now_s, random) < (int)sizeof path &&
         pair != NULL && write_file(path, pair);
    EVP_PKEY_free(pair);
    if (!ok) {
        (void)wp_err_sys(err, WP_UNAVAILABLE, errno,
                         "cannot make a key of identities in %.200s",
                         keys->dir);
        return false;
    }
    keys->seen = (struct timespec){.tv_sec = 0};
    load(keys);
    return keys->n > 0;
}

/* --- Their turns --- */

/* The newest that was published for long enough; else the oldest. */
static uint32_t
signing(const struct wp_signer_keys *keys, int64_t now_s)
{
    uint32_t at = keys->n - 1;

    while (at > 0 && keys->key[at].made_s > now_s - keys->config.ahead_s) {
        at--;
    }
    return at;
}

/* Reads the folder, makes the next key in time, and removes those whose
 * signatures have all run out. False: there is none. */
static bool
turn(struct wp_signer_keys *keys, int64_t now_s, struct wp_err *err)
{
    const struct wp_signer_keys_config *config = &keys->config;
    char path[PATH_BYTES];

    load(keys);
    if (keys->n == 0 ||
        keys->key[keys->n - 1].made_s + config->turn_s - config->ahead_s <=
            now_s) {
        struct wp_err failed;

        if (!add_key(keys, now_s, &failed)) {
            if (keys->n == 0) {
                *err = failed;
                return false;
            }
            wp_log_warn("no new key for identities", wp_kv_err(&failed));
        }
    }
    while (keys->n > 1 &&
           keys->key[1].made_s + config->ahead_s + config->life_s < now_s) {
        if (snprintf(path, sizeof path, "%s/%s", keys->dir, keys->key[0].name) <
            (int)sizeof path) {
            (void)unlink(path);
        }
        drop(keys, 0);
    }
    return true;
}

/* --- Use --- */

static bool
sign(EVP_PKEY *pair, struct wp_str text, uint8_t out[WP_SIGNER_SIGNATURE_BYTES])
{
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    uint8_t der[DER_MAX];
    const uint8_t *at = der;
    size_t len = sizeof der;
    ECDSA_SIG *pair_of_numbers = NULL;
    bool ok = ctx != NULL &&
              EVP_DigestSignInit(ctx, NULL, EVP_sha256(), NULL, pair) == 1 &&
              EVP_DigestSign(ctx, der, &len, (const uint8_t *)text.ptr,
                             text.len) == 1;

    if (ok) {
        pair_of_numbers = d2i_ECDSA_SIG(NULL, &at, (long)len);
    }
    ok = pair_of_numbers != NULL &&
         BN_bn2binpad(ECDSA_SIG_get0_r(pair_of_numbers), out, COORDINATE) ==
             COORDINATE &&
         BN_bn2binpad(ECDSA_SIG_get0_s(pair_of_numbers), out + COORDINATE,
                      COORDINATE) == COORDINATE;
    ECDSA_SIG_free(pair_of_numbers);
    EVP_MD_CTX_free(ctx);
    return ok;
}

static int64_t
now_of(const struct wp_signer_keys *keys)
{
    return wp_clock_wall_ns(keys->config.clock) / WP_NS_PER_S;
}

enum wp_status
wp_signer_keys_sign(struct wp_signer_keys *keys,
                    struct wp_str (*head)(void *ctx, const char *key_id),
                    void *ctx, uint8_t signature[WP_SIGNER_SIGNATURE_BYTES],
                    struct wp_err *err)
{
    int64_t now_s = now_of(keys);
    enum wp_status status;

    (void)pthread_mutex_lock(&keys->lock);
    if (!turn(keys, now_s, err)) {
        status = err->status;
    } else {
        const struct key *key = &keys->key[signing(keys, now_s)];

        status = sign(key->pair, head(ctx, key->public_key.id), signature)
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
    load(keys);
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
    char *dir = strdup(config->dir);

    if (keys == NULL || dir == NULL) {
        free(keys);
        free(dir);
        (void)wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no memory");
        return NULL;
    }
    keys->config = *config;
    keys->dir = dir;
    (void)pthread_mutex_init(&keys->lock, NULL);
    if (mkdir(dir, 0700) != 0 && errno != EEXIST) {
        (void)wp_err_sys(err, WP_FAILED_PRECONDITION, errno,
                         "cannot make %.200s", dir);
    } else if (turn(keys, now_of(keys), err)) {
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
        drop(keys, keys->n - 1);
    }
    (void)pthread_mutex_destroy(&keys->lock);
    free(keys->dir);
    free(keys);
}
