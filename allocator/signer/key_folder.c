/* allocator/signer/key_folder.c - keys that are files of a folder, which
 * daemons on one machine may share. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/ec.h>
#include <openssl/pem.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "allocator/signer/keys_impl.h"
#include "pool/base/log.h"

enum {
    PATH_BYTES = 4096 + 64,
};

/* False: it is no key, or others could have read it. */
static bool
read_file(int dir, struct wp_signer_key *key)
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
        key->inode = st.st_ino;
        key->changed = st.st_ctim;
        ok = wp_signer_key_take(key,
                                PEM_read_PrivateKey(file, NULL, NULL, NULL));
    }
    (void)fclose(file);
    return ok;
}

/* Takes the key of that name from those held before, if it is of this very
 * file: to read one costs as much as ten signatures. */
static bool
keep(struct wp_signer_key held[WP_SIGNER_KEYS_MAX], int dir,
     struct wp_signer_key *key)
{
    struct stat st;

    if (fstatat(dir, key->name, &st, AT_SYMLINK_NOFOLLOW) != 0) {
        return false;
    }
    for (uint32_t i = 0; i < WP_SIGNER_KEYS_MAX; i++) {
        if (held[i].signs != NULL && strcmp(held[i].name, key->name) == 0 &&
            held[i].inode == st.st_ino &&
            memcmp(&held[i].changed, &st.st_ctim, sizeof st.st_ctim) == 0) {
            *key = held[i];
            held[i].signs = NULL;
            return true;
        }
    }
    return false;
}

void
wp_signer_folder_load(struct wp_signer_keys *keys)
{
    const struct dirent *entry;
    struct wp_signer_key held[WP_SIGNER_KEYS_MAX] = {{0}};
    struct stat st;
    DIR *dir;

    if (stat(keys->dir, &st) != 0 ||
        memcmp(&st.st_mtim, &keys->seen, sizeof keys->seen) == 0) {
        return;
    }
    dir = opendir(keys->dir);
    if (dir == NULL) {
        return;
    }
    memcpy(held, keys->key, keys->n * sizeof held[0]);
    keys->n = 0;
    /* One that has just changed may change again within the same tick. */
    keys->seen = time(NULL) - st.st_mtim.tv_sec > 2 ? st.st_mtim
                                                    : (struct timespec){0, 0};
    while ((entry = readdir(dir)) != NULL) {
        struct wp_signer_key key = {.signs = NULL};

        if (!wp_signer_key_read_name(entry->d_name, &key)) {
            continue;
        }
        if (keep(held, dirfd(dir), &key) || read_file(dirfd(dir), &key)) {
            wp_signer_keys_insert(keys, &key);
        } else {
            wp_log_warn("key of identities not used: an ES256 key that only "
                        "the daemon's user can read was expected",
                        wp_kv_str("file", key.name));
        }
    }
    (void)closedir(dir);
    for (uint32_t i = 0; i < WP_SIGNER_KEYS_MAX; i++) {
        EVP_PKEY_CTX_free(held[i].signs);
    }
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

        if (file == NULL) {
            (void)close(fd);
        }
        (void)unlink(fresh);
        errno = error;
    }
    return ok;
}

static bool
add_key(struct wp_signer_keys *keys, int64_t now_s, struct wp_err *err)
{
    char path[PATH_BYTES];
    char name[WP_SIGNER_KEY_NAME_MAX + 1];
    EVP_PKEY *pair = EVP_EC_gen("P-256");
    bool ok;

    wp_signer_key_name(now_s, name);
    ok = snprintf(path, sizeof path, "%s/%s", keys->dir, name) <
             (int)sizeof path &&
         pair != NULL && write_file(path, pair);
    EVP_PKEY_free(pair);
    if (!ok) {
        (void)wp_err_sys(err, WP_UNAVAILABLE, errno,
                         "cannot make a key of identities in %.200s",
                         keys->dir);
        return false;
    }
    keys->seen = (struct timespec){.tv_sec = 0};
    wp_signer_folder_load(keys);
    if (keys->n == 0) {
        (void)wp_err_set(err, WP_UNAVAILABLE,
                         "cannot read the keys of identities in %.200s",
                         keys->dir);
    }
    return keys->n > 0;
}

bool
wp_signer_folder_turn(struct wp_signer_keys *keys, int64_t now_s,
                      struct wp_err *err)
{
    char path[PATH_BYTES];

    wp_signer_folder_load(keys);
    if (wp_signer_keys_are_due(keys, now_s)) {
        struct wp_err failed;

        if (!add_key(keys, now_s, &failed)) {
            if (keys->n == 0) {
                *err = failed;
                return false;
            }
            wp_log_warn("no new key for identities", wp_kv_err(&failed));
        }
    }
    for (uint32_t over = wp_signer_keys_over(keys, now_s); over > 0; over--) {
        if (snprintf(path, sizeof path, "%s/%s", keys->dir, keys->key[0].name) <
            (int)sizeof path) {
            (void)unlink(path);
        }
        wp_signer_keys_drop(keys, 0);
    }
    return true;
}
