#include "local/volumes/volumes.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "local/volumes/mount_into.h"
#include "pool/base/assert.h"
#include "pool/base/file.h"

#define NEW ".new" /* Of a volume that is being made; no name begins so. */

enum {
    LOCK_TRIES = 50, /* A daemon that has just been killed may be at its end. */
    LOCK_WAIT_MS = 20,
};

/* --- Names --- */

/* As WP_VOLUME_KEY_MAX has it. */
static void
make_key(struct wp_str tenant, struct wp_str name,
         char out[WP_VOLUME_KEY_MAX + 1])
{
    static const char plain[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";
    char *at = out;

    WP_ASSERT(tenant.len <= WP_TENANT_MAX && name.len <= WP_VOLUME_NAME_MAX);
    if (tenant.len == 0) {
        *at++ = '%';
    }
    for (size_t i = 0; i < tenant.len; i++) {
        unsigned char byte = (unsigned char)tenant.ptr[i];

        if (byte != '\0' && strchr(plain, byte) != NULL) {
            *at++ = (char)byte;
        } else {
            at += sprintf(at, "%%%02X", byte);
        }
    }
    *at++ = '/';
    memcpy(at, name.ptr, name.len);
    at[name.len] = '\0';
}

struct wp_bind_volumes *
wp_bind_volumes_make(const struct wp_binding *binding, struct wp_str tenant)
{
    struct wp_bind_volumes *out = malloc(
        sizeof *out + binding->n_volumes * sizeof(struct wp_bind_volume));

    if (out == NULL) {
        return NULL;
    }
    out->n = binding->n_volumes;
    for (uint32_t i = 0; i < out->n; i++) {
        const struct wp_binding_volume *volume = &binding->volumes[i];
        struct wp_bind_volume *copy = &out->at[i];
        struct wp_str dir = volume->dir.len > 0 ? volume->dir : volume->name;

        make_key(tenant, volume->name, copy->key);
        WP_ASSERT(wp_str_copy(volume->name, copy->name, sizeof copy->name) &&
                  wp_str_copy(dir, copy->dir, sizeof copy->dir));
    }
    return out;
}

bool
wp_volume_keys_have(const char *keys, const char *key)
{
    size_t len = strlen(key);

    for (const char *at = keys; *at != '\0'; at = strchr(at, '\n') + 1) {
        if (strncmp(at, key, len) == 0 && at[len] == '\n') {
            return true;
        }
    }
    return false;
}

bool
wp_volume_keys_add(char keys[WP_VOLUME_KEYS_MAX + 1], struct wp_str key)
{
    char text[WP_VOLUME_KEY_MAX + 1];
    size_t used = strlen(keys);

    if (!wp_str_copy(key, text, sizeof text)) {
        return false;
    }
    if (wp_volume_keys_have(keys, text)) {
        return true;
    }
    if (used + key.len + 1 > WP_VOLUME_KEYS_MAX) {
        return false;
    }
    (void)sprintf(keys + used, "%s\n", text);
    return true;
}

/* --- Folders --- */

static bool
lock(int fd)
{
    const struct timespec wait = {0, LOCK_WAIT_MS * 1000000L};

    for (int i = 0; i < LOCK_TRIES; i++) {
        if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
            return true;
        }
        (void)nanosleep(&wait, NULL);
    }
    return false;
}

static enum wp_status
check_dir(const struct wp_volumes *volumes, struct wp_err *err)
{
    struct stat st;

    if (fstat(volumes->dir_fd, &st) != 0) {
        return wp_err_sys(err, WP_UNAVAILABLE, errno, "%s", volumes->dir);
    }
    if (st.st_uid != geteuid() || (st.st_mode & 077) != 0) {
        return wp_err_set(err, WP_FAILED_PRECONDITION,
                          "%s: expected to be the daemon's own and closed to "
                          "others (mode 0700)",
                          volumes->dir);
    }
    if (!lock(volumes->dir_fd)) {
        return wp_err_set(err, WP_FAILED_PRECONDITION,
                          "%s: another daemon has it", volumes->dir);
    }
    return WP_OK;
}

enum wp_status
wp_volumes_open(struct wp_volumes *volumes, struct wp_err *err)
{
    const struct wp_mount_into try = {
        .from = volumes->dir,
        .own_user = volumes->own_users,
        .user = volumes->user_first,
        .owner = volumes->owner,
    };
    enum wp_status status;

    volumes->dir_fd = -1;
    if (mkdir(volumes->dir, 0700) == 0 || errno == EEXIST) {
        volumes->dir_fd =
            open(volumes->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    }
    if (volumes->dir_fd < 0) {
        return wp_err_sys(err, WP_UNAVAILABLE, errno, "%s", volumes->dir);
    }
    status = check_dir(volumes, err);
    if (status == WP_OK && wp_mount_into_check(&try, err) != WP_OK) {
        status = wp_err_wrap(err, "%s: sandboxes cannot get a folder of it",
                             volumes->dir);
    }
    if (status != WP_OK) {
        wp_volumes_close(volumes);
    }
    return status;
}

void
wp_volumes_close(struct wp_volumes *volumes)
{
    if (volumes->dir_fd >= 0) {
        (void)close(volumes->dir_fd);
        volumes->dir_fd = -1;
    }
}

/* How many the tenant has. False with errno: its folder cannot be read. */
static bool
count_volumes(int tenant_fd, uint32_t *n)
{
    DIR *dir = wp_folder_open(tenant_fd, ".");
    const struct dirent *entry;

    if (dir == NULL) {
        return false;
    }
    *n = 0;
    while ((entry = wp_folder_next(dir)) != NULL) {
        *n += entry->d_name[0] != '.';
    }
    wp_folder_close(dir);
    return errno == 0;
}

/* It has its name when it has its owner, whenever this process dies. */
static bool
make_folder(const struct wp_volumes *volumes, int tenant_fd, const char *name)
{
    return (mkdirat(tenant_fd, NEW, 0755) == 0 || errno == EEXIST) &&
           fchmodat(tenant_fd, NEW, 0755, 0) == 0 &&
           (!volumes->own_users ||
            fchownat(tenant_fd, NEW, volumes->owner, volumes->owner,
                     AT_SYMLINK_NOFOLLOW) == 0) &&
           renameat(tenant_fd, NEW, tenant_fd, name) == 0;
}

static enum wp_status
make_in(const struct wp_volumes *volumes, int tenant_fd, const char *name,
        struct wp_err *err)
{
    struct stat st;
    uint32_t n;

    if (fstatat(tenant_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
        return S_ISDIR(st.st_mode) ? WP_OK
                                   : wp_err_set(err, WP_FAILED_PRECONDITION,
                                                "no folder is at its place");
    }
    if (errno != ENOENT) {
        return wp_err_sys(err, WP_UNAVAILABLE, errno, "it cannot be looked at");
    }
    if (!count_volumes(tenant_fd, &n)) {
        return wp_err_sys(err, WP_UNAVAILABLE, errno,
                          "the tenant's folder cannot be read");
    }
    if (n >= volumes->max) {
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED,
                          "a tenant may have %u of them (setting volumes_max)",
                          volumes->max);
    }
    return make_folder(volumes, tenant_fd, name)
               ? WP_OK
               : wp_err_sys(err, WP_UNAVAILABLE, errno, "it cannot be made");
}

enum wp_status
wp_volumes_make(const struct wp_volumes *volumes, const char *key,
                char path[WP_VOLUME_PATH_MAX], struct wp_err *err)
{
    const char *name = strchr(key, '/') + 1;
    char tenant[WP_VOLUME_KEY_MAX + 1];
    enum wp_status status;
    int fd = -1;

    WP_ASSERT(wp_str_copy((struct wp_str){key, (size_t)(name - 1 - key)},
                          tenant, sizeof tenant));
    if (snprintf(path, WP_VOLUME_PATH_MAX, "%s/%s", volumes->dir, key) >=
        WP_VOLUME_PATH_MAX) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "the path of volumes_dir is too long");
    }
    if (mkdirat(volumes->dir_fd, tenant, 0700) == 0 || errno == EEXIST) {
        fd = openat(volumes->dir_fd, tenant,
                    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    }
    if (fd < 0) {
        return wp_err_sys(err, WP_UNAVAILABLE, errno,
                          "the folder of its tenant");
    }
    status = make_in(volumes, fd, name, err);
    (void)close(fd);
    return status;
}
