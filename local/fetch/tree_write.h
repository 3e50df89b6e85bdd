/* local/fetch/tree_write.h - a folder into a tree image
 * (proto/checkout/tree_image.h). One thread. */
#ifndef WP_LOCAL_FETCH_TREE_WRITE_H
#define WP_LOCAL_FETCH_TREE_WRITE_H

#include <stdbool.h>
#include <stdint.h>

#include "pool/base/compiler.h"

enum {
    WP_TREE_WHY_MAX = 160,
    WP_TREE_ENTRIES_MAX = 200000,
};

/* Writes what is below the folder `dir` to fd: folders, files and links;
 * nothing else may be there. At most max bytes in all. False: why says what is
 * wrong. */
WP_MUST_CHECK bool wp_tree_write(const char *dir, int fd, uint64_t max,
                                 char why[WP_TREE_WHY_MAX]);

#endif
