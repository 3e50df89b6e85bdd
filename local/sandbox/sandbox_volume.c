/* local/sandbox/sandbox_volume.c - a claim's volumes become folders of its
 * sandbox.
 *
 * Which they are is written down before they are there, so that no later daemon
 * gives one to two sandboxes. A sandbox has them until its processes are gone.
 */
#include <stdio.h>
#include <string.h>

#include "local/sandbox/sandbox_impl.h"
#include "local/volumes/mount_into.h"

/* NULL: nobody has it but sandbox, if that. */
static const struct wp_sandbox *
holder_of(const struct wp_sandbox *sandbox, const char *key)
{
    const struct wp_local *local = sandbox->local;

    for (uint32_t i = 0; i < local->by_index_len; i++) {
        const struct wp_sandbox *other = local->by_index[i];

        if (other != NULL && other != sandbox &&
            wp_volume_keys_have(other->volumes, key)) {
            return other;
        }
    }
    return NULL;
}

/* All of them are this sandbox's, or none. */
static enum wp_status
take(struct wp_sandbox *sandbox, const struct wp_bind_volumes *volumes,
     struct wp_err *err)
{
    char keys[WP_VOLUME_KEYS_MAX + 1];
    char before[WP_VOLUME_KEYS_MAX + 1];

    memcpy(before, sandbox->volumes, sizeof before);
    memcpy(keys, sandbox->volumes, sizeof keys);
    for (uint32_t i = 0; i < volumes->n; i++) {
        const struct wp_bind_volume *volume = &volumes->at[i];
        const struct wp_sandbox *holder = holder_of(sandbox, volume->key);

        if (holder != NULL) {
            return wp_err_set(err, WP_PENDING,
                              "volume '%s': sandbox '%s' has it", volume->name,
                              holder->name);
        }
        if (!wp_volume_keys_add(keys, wp_str_from(volume->key))) {
            return wp_err_set(err, WP_FAILED_PRECONDITION,
                              "volume '%s': too many are in this sandbox",
                              volume->name);
        }
    }
    if (strcmp(keys, before) == 0) {
        return WP_OK; /* A repeat. */
    }
    memcpy(sandbox->volumes, keys, sizeof keys);
    if (wp_sandbox_record_claimed(sandbox, err) != WP_OK) {
        memcpy(sandbox->volumes, before, sizeof before);
        return WP_FAILED_PRECONDITION;
    }
    return WP_OK;
}

static enum wp_status
mount_one(const struct wp_sandbox *sandbox, const struct wp_bind_volume *volume,
          struct wp_err *err)
{
    const struct wp_volumes *volumes = &sandbox->local->volumes;
    char path[WP_VOLUME_PATH_MAX];
    const struct wp_mount_into mount = {
        .from = path,
        .pid = sandbox->inner_pid,
        .pidfd = sandbox->inner_fd,
        .top = WP_ROOT_WORKSPACE,
        .path = volume->dir,
        .own_user = sandbox->host_user != UINT32_MAX,
        .user = volumes->user_first + sandbox->host_user,
        .owner = volumes->owner,
    };
    enum wp_status status = wp_volumes_make(volumes, volume->key, path, err);

    if (status == WP_OK) {
        status = wp_mount_into(&mount, err);
    }
    return status == WP_OK ? WP_OK
                           : wp_err_wrap(err, "volume '%s'", volume->name);
}

enum wp_status
wp_sandbox_mount(struct wp_sandbox *sandbox,
                 const struct wp_bind_volumes *volumes, struct wp_err *err)
{
    enum wp_status status = take(sandbox, volumes, err);

    for (uint32_t i = 0; i < volumes->n && status == WP_OK; i++) {
        if (mount_one(sandbox, &volumes->at[i], err) != WP_OK) {
            status = WP_FAILED_PRECONDITION;
        }
    }
    return status;
}

void
wp_local_volumes_freed(struct wp_local *local)
{
    for (uint32_t i = 0; i < local->by_index_len; i++) {
        struct wp_sandbox *sandbox = local->by_index[i];

        if (sandbox != NULL && sandbox->volume_until_ns != 0) {
            wp_sandbox_arm_ms(&sandbox->bind_timer, 0);
        }
    }
}
