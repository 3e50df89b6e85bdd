/* local/walls/rootfs.h - the read-only root that sandboxes of a template see.
 *
 * A small prepared directory becomes "/": it holds mount points, symbolic links
 * and, for `image: host`, a short copied /etc. What is at the image's own top,
 * directories and files, is mounted over it read-only. A directory made once
 * costs a sandbox one mount; hiding things in the machine's root would cost one
 * for each, and an allow-list cannot forget a secret.
 */
#ifndef WP_LOCAL_WALLS_ROOTFS_H
#define WP_LOCAL_WALLS_ROOTFS_H

#include <stddef.h>

#include "local/manifest/manifest.h"
#include "pool/base/status.h"

enum {
    WP_ROOT_BINDS_MAX = 64,
    WP_ROOT_PATH_MAX = 1024,
};

struct wp_root_bind {
    char *from; /* On the machine. */
    char *to;   /* In the sandbox. */
};

struct wp_root {
    char dir[WP_ROOT_PATH_MAX]; /* Becomes "/". */
    struct wp_root_bind binds[WP_ROOT_BINDS_MAX];
    size_t binds_len;
};

#define WP_ROOT_BIN "/opt/warmpool/bin" /* Where our programs are seen. */
#define WP_ROOT_WORKSPACE "/workspace"
/* What claims bring; named by WARMPOOL_BOUND_DIR. */
#define WP_ROOT_BOUND "/opt/warmpool/bound"

/* Makes the directory `dir` (which must not exist) for a template. image_dir is
 * NULL for the machine's own root; its content is not trusted: no link in it
 * leads the daemon, or a mount, out of it. */
WP_MUST_CHECK enum wp_status wp_root_make(struct wp_root *root, const char *dir,
                                          const char *image_dir,
                                          const struct wp_template *tmpl,
                                          struct wp_err *err);
void wp_root_fini(struct wp_root *root);
/* Fills the /etc of a root for `image: host`. Of wp_root_make. */
WP_MUST_CHECK enum wp_status wp_root_make_etc(const struct wp_root *root,
                                              struct wp_err *err);

/* Removes a directory and all below it, on its own file system only; following
 * no link. A missing one is fine. */
WP_MUST_CHECK enum wp_status wp_dir_remove(const char *dir, struct wp_err *err);
/* mkdir -p with mode for each part that is missing. */
WP_MUST_CHECK enum wp_status wp_dir_make(const char *dir, unsigned mode,
                                         struct wp_err *err);
/* Copies a regular file; mode is that of the new one. Replaces atomically. */
WP_MUST_CHECK enum wp_status wp_file_copy(const char *from, const char *to,
                                          unsigned mode, struct wp_err *err);

#endif
