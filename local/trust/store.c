#include "local/trust/store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pool/base/assert.h"
#include "pool/base/file.h"
#include "proto/checkout/trust_look.h"

#define NEW "new" /* What is being written; of which there is one. */

/* Has the folder room for one more of that name? False with errno: it cannot be
 * read. */
static bool
find_room(int dir_fd, const char *name, bool *has_room)
{
    DIR *dir = wp_folder_open(dir_fd, ".");
    const struct dirent *entry;
    uint32_t all = 0;
    uint32_t own = 0;

    if (dir == NULL) {
        return false;
    }
    while ((entry = wp_folder_next(dir)) != NULL) {
        bool is_record = strlen(entry->d_name) == WP_TRUST_NAME_LEN;

        all += is_record;
        own +=
            is_record && memcmp(entry->d_name, name, WP_TRUST_NAME_TENANT) == 0;
    }
    wp_folder_close(dir);
    *has_room = all < WP_TRUST_RECORDS_MAX && own < WP_TRUST_TENANT_RECORDS_MAX;
    return errno == 0;
}

/* A folder that was just made is gone after a power loss, with the records in
 * it, unless the one that it is in is synced. */
static bool
sync_parent(int dir_fd)
{
    int fd = openat(dir_fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool ok = fd >= 0 && fsync(fd) == 0;
    int error = errno;

    if (fd >= 0) {
        (void)close(fd);
    }
    errno = error;
    return ok;
}

enum wp_status
wp_trust_store_open(struct wp_trust_store *store, const char *path,
                    struct wp_err *err)
{
    store->dir_fd = -1;
    if (mkdir(path, 0700) == 0 || errno == EEXIST) {
        store->dir_fd =
            open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    }
    if (store->dir_fd < 0 || !sync_parent(store->dir_fd)) {
        int error = errno;

        wp_trust_store_close(store);
        return wp_err_sys(err, WP_UNAVAILABLE, error,
                          "folder '%s' of what is trusted", path);
    }
    return WP_OK;
}

void
wp_trust_store_close(struct wp_trust_store *store)
{
    if (store->dir_fd >= 0) {
        (void)close(store->dir_fd);
        store->dir_fd = -1;
    }
}

/* The bytes of the file; -1 with errno. */
static ssize_t
read_file(int dir_fd, const char *name, char *out, size_t cap)
{
    int fd =
        openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    size_t len = 0;
    ssize_t n = 0;

    if (fd < 0) {
        return -1;
    }
    while (len < cap && ((n = read(fd, out + len, cap - len)) > 0 ||
                         (n < 0 && errno == EINTR))) {
        len += n > 0 ? (size_t)n : 0;
    }
    n = n < 0 ? -1 : (ssize_t)len;
    (void)close(fd);
    return n;
}

enum wp_status
wp_trust_store_load(const struct wp_trust_store *store,
                    struct wp_trust_record *out, struct wp_err *err)
{
    char name[WP_TRUST_NAME_LEN + 1];
    char text[WP_TRUST_TEXT_MAX + 1];
    struct wp_trust_record record;
    ssize_t len;

    wp_trust_record_name(out->tenant, out->url, name);
    len = read_file(store->dir_fd, name, text, sizeof text);
    if (len < 0 && errno == ENOENT) {
        return WP_NOT_FOUND;
    }
    if (len < 0) {
        return wp_err_sys(err, WP_UNAVAILABLE, errno, "record '%s'", name);
    }
    if (!wp_trust_record_read((struct wp_str){text, (size_t)len}, &record) ||
        strcmp(record.tenant, out->tenant) != 0 ||
        strcmp(record.url, out->url) != 0) {
        return wp_err_set(err, WP_FAILED_PRECONDITION,
                          "record '%s' is damaged; remove it to trust anew",
                          name);
    }
    *out = record;
    return WP_OK;
}

/* False with errno; one that is new is not there then. */
static bool
write_file(int dir_fd, const char *name, bool is_new, const char *text,
           size_t len)
{
    int fd =
        openat(dir_fd, NEW,
               O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    bool ok = fd >= 0;
    size_t at = 0;
    int error;

    while (ok && at < len) {
        ssize_t n = write(fd, text + at, len - at);

        ok = n > 0 || (n < 0 && errno == EINTR);
        at += n > 0 ? (size_t)n : 0;
    }
    ok = ok && fsync(fd) == 0;
    error = errno;
    if (fd >= 0) {
        (void)close(fd);
    }
    if (ok &&
        (renameat(dir_fd, NEW, dir_fd, name) != 0 || fsync(dir_fd) != 0)) {
        error = errno;
        ok = false;
        if (is_new) {
            (void)unlinkat(dir_fd, name, 0);
        }
    }
    if (!ok) {
        (void)unlinkat(dir_fd, NEW, 0);
        errno = error;
    }
    return ok;
}

enum wp_status
wp_trust_store_save(struct wp_trust_store *store,
                    const struct wp_trust_record *record, struct wp_err *err)
{
    char name[WP_TRUST_NAME_LEN + 1];
    char text[WP_TRUST_TEXT_MAX + 1];
    size_t len = wp_trust_record_write(record, text);
    bool has_room = true;
    bool is_new;

    wp_trust_record_name(record->tenant, record->url, name);
    is_new = faccessat(store->dir_fd, name, F_OK, 0) != 0;
    if (is_new && !find_room(store->dir_fd, name, &has_room)) {
        return wp_err_sys(err, WP_UNAVAILABLE, errno,
                          "counting the records beside '%s'", name);
    }
    if (!has_room) {
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED,
                          "%d repositories of one tenant are recorded, or %d "
                          "in all, which is the most",
                          WP_TRUST_TENANT_RECORDS_MAX, WP_TRUST_RECORDS_MAX);
    }
    if (!write_file(store->dir_fd, name, is_new, text, len)) {
        return wp_err_sys(err, WP_UNAVAILABLE, errno, "record '%s'", name);
    }
    return WP_OK;
}
