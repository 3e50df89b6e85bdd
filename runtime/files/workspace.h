/* runtime/files/workspace.h - files below one folder, and none beside it.
 *
 * Every path a client names is opened below the workspace's descriptor, with
 * openat2(RESOLVE_BENEATH) where the kernel has it, else by a walk that
 * follows each symbolic link by hand. Nothing is resolved twice, so a link
 * swapped under way cannot lead out. Escapes are EXDEV.
 *
 * Not thread-safe as far as the walk's choice is concerned: loop thread. */
#ifndef WP_RUNTIME_FILES_WORKSPACE_H
#define WP_RUNTIME_FILES_WORKSPACE_H

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "pool/base/compiler.h"
#include "pool/base/status.h"

enum {
    WP_WORKSPACE_PATH_MAX = 4096, /* With its final NUL. */
    WP_WORKSPACE_LINKS_MAX = 40,
    WP_WORKSPACE_DEPTH_MAX = 128, /* Of the walk by hand. */
};

struct wp_workspace {
    int fd;
    char root[WP_WORKSPACE_PATH_MAX]; /* Absolute, without links. */
    bool by_hand;                     /* openat2 is not to be had. */
};

/* Opens path, which must be a folder. */
WP_MUST_CHECK enum wp_status wp_workspace_init(struct wp_workspace *workspace,
                                               const char *path,
                                               struct wp_err *err);
void wp_workspace_fini(struct wp_workspace *workspace);

/* Decodes %XX of the encoded text and makes it relative to the root: an
 * absolute path below the root loses it, "/" and "" are the root itself (".").
 * 0, or an errno: EXDEV for an absolute path elsewhere, EINVAL for a bad
 * escape or a NUL, ENAMETOOLONG. */
WP_MUST_CHECK int wp_workspace_path(const struct wp_workspace *workspace,
                                    const char *encoded,
                                    char out[WP_WORKSPACE_PATH_MAX]);
/* The same for text that is not encoded. */
WP_MUST_CHECK int wp_workspace_path_plain(const struct wp_workspace *workspace,
                                          const char *path,
                                          char out[WP_WORKSPACE_PATH_MAX]);

/* openat below the root; O_CLOEXEC is added. A descriptor, or a negative
 * errno; -EXDEV and -ELOOP mean that the path leads out. */
WP_MUST_CHECK int wp_workspace_open(const struct wp_workspace *workspace,
                                    const char *path, int flags, mode_t mode);
/* Opens the folder that holds path, creating missing ones (0755), and copies
 * the last component of path. A descriptor or a negative errno: -EISDIR when
 * there is no last component to speak of. */
WP_MUST_CHECK int wp_workspace_open_parent(const struct wp_workspace *workspace,
                                           const char *path, char name[256]);
/* scandir of an open folder: without "." and "..", by bytes. */
WP_MUST_CHECK int wp_workspace_scan(int dir, struct dirent ***names);
static inline bool
wp_workspace_is_escape(int os_errno)
{
    return os_errno == EXDEV || os_errno == ELOOP;
}

#endif
