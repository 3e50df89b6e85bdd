/* local/volumes/volumes.h - folders that outlive the sandboxes which use them.
 *
 * A volume is DIR/TENANT/NAME: a tenant has its own, and no way to another's.
 * It is made when a claim first names it, and stays until somebody removes it.
 * DIR is closed to other users, for what a sandbox makes in a volume is set
 * free by no check: a set-user-id program, say. */
#ifndef WP_LOCAL_VOLUMES_VOLUMES_H
#define WP_LOCAL_VOLUMES_VOLUMES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "pool/base/status.h"
#include "pool/base/str.h"
#include "pool/binding.h"

enum {
    /* "TENANT/NAME": of the tenant all but letters, digits, '_' and '-' is
     * written as %XX, and the default tenant as "%". */
    WP_VOLUME_KEY_MAX = 3 * WP_TENANT_MAX + 1 + WP_VOLUME_NAME_MAX,
    /* Keys of all volumes of a sandbox, each with a newline behind it. */
    WP_VOLUME_KEYS_MAX = WP_BINDING_VOLUMES_MAX * (WP_VOLUME_KEY_MAX + 1),
    WP_VOLUME_PATH_MAX = 512,
};

struct wp_volumes {
    const char *dir; /* NULL: there are none. Absolute. */
    uint32_t max;    /* Of one tenant. */
    /* With own_users sandboxes have host users of their own, beginning with
     * user_first; the files in volumes are owner's then. */
    bool own_users;
    uid_t user_first;
    uid_t owner;
    int dir_fd; /* Locked; -1. Private. */
};

/* Makes DIR if need be, and locks it. Not WP_OK: others may enter it, another
 * daemon has it, or nothing in it can be mounted here; err says so. The other
 * fields were set. */
WP_MUST_CHECK enum wp_status wp_volumes_open(struct wp_volumes *volumes,
                                             struct wp_err *err);
void wp_volumes_close(struct wp_volumes *volumes);

/* The folder of the volume, made if need be. RESOURCE_EXHAUSTED: the tenant has
 * too many. Blocks on the disk; one thread at a time. */
WP_MUST_CHECK enum wp_status wp_volumes_make(const struct wp_volumes *volumes,
                                             const char *key,
                                             char path[WP_VOLUME_PATH_MAX],
                                             struct wp_err *err);

/* What a claim brings, copied. */
struct wp_bind_volume {
    char key[WP_VOLUME_KEY_MAX + 1];
    char name[WP_VOLUME_NAME_MAX + 1];
    char dir[WP_BINDING_PATH_MAX + 1]; /* Below the workspace. */
};
struct wp_bind_volumes {
    uint32_t n;
    struct wp_bind_volume at[];
};

/* To be freed; NULL: memory lacks. The binding was checked. Any thread. */
WP_MUST_CHECK struct wp_bind_volumes *
wp_bind_volumes_make(const struct wp_binding *binding, struct wp_str tenant);

/* Is the key among keys, each of which has a newline behind it? */
bool wp_volume_keys_have(const char *keys, const char *key);
/* Adds it, unless it is there. False: no room. */
WP_MUST_CHECK bool wp_volume_keys_add(char keys[WP_VOLUME_KEYS_MAX + 1],
                                      struct wp_str key);

#endif
