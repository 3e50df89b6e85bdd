/* local/volumes/mount_into.h - a folder of this machine in a sandbox that runs.
 *
 * Nothing in a sandbox may mount. Who made its user namespace may, from
 * outside: the kernel lets a mount that is nowhere yet be put into another
 * namespace. So no privilege is needed, and none goes in. From Linux 5.12 on.
 */
#ifndef WP_LOCAL_VOLUMES_MOUNT_INTO_H
#define WP_LOCAL_VOLUMES_MOUNT_INTO_H

#include <stdbool.h>
#include <sys/types.h>

#include "pool/base/compiler.h"
#include "pool/base/status.h"

struct wp_mount_into {
    const char *from; /* A folder, absolute; nobody renames it meanwhile. */
    pid_t pid;        /* A process of the sandbox, ... */
    int pidfd;        /* ... and that it is still that one. */
    const char *top;  /* A folder of the sandbox, absolute. */
    const char *path; /* Below top, made if need be; no link is followed. */
    /* The sandbox has a host user of its own, `user`, who also owns its user
     * namespace. What `owner` has in the folder is that user's inside, and what
     * the user makes is owner's outside. False: the caller's own. */
    bool own_user;
    uid_t user;
    uid_t owner;
};

/* There already: WP_OK, too. Set-user-id bits and devices count for nothing in
 * it. It is gone with the sandbox. UNAVAILABLE: it is not there, and err says
 * which step failed. Takes about half a millisecond; one thread at a time. */
WP_MUST_CHECK enum wp_status wp_mount_into(const struct wp_mount_into *mount,
                                           struct wp_err *err);

/* Can folders of `from` be mounted so? Tries all but the sandbox's part. */
WP_MUST_CHECK enum wp_status
wp_mount_into_check(const struct wp_mount_into *mount, struct wp_err *err);

#endif
