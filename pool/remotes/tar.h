/* pool/remotes/tar.h - the plain files of a tar archive, in place.
 *
 * ustar, and the long names of GNU and of POSIX (pax). Folders are passed over.
 * What else an archive may have, links and devices above all, is refused: files
 * are all that a claim may bring. Nothing is believed of a header whose sum is
 * wrong. Pure; any thread. */
#ifndef WP_POOL_REMOTES_TAR_H
#define WP_POOL_REMOTES_TAR_H

#include <stdint.h>

#include "pool/base/compiler.h"
#include "pool/base/str.h"

enum {
    WP_TAR_PATH_MAX = 512,
};

struct wp_tar_file {
    char path[WP_TAR_PATH_MAX + 1]; /* Without "./" in front; not judged. */
    struct wp_str content;          /* Points into the archive. */
    uint32_t mode;                  /* Its permissions: up to 0777. */
};

/* The next file; *rest is the archive, and after the call what is behind it. 1:
 * out is set; 0: there is none; -1: *why is what was expected, and out->path
 * the entry's name, as far as it is known. */
WP_MUST_CHECK int wp_tar_next(struct wp_str *rest, struct wp_tar_file *out,
                              const char **why);

#endif
