/* proto/checkout/tree_image.h - a folder of files as one row of bytes.
 *
 * warmpool-fetch makes one of what it has checked out, and warmpool-init puts
 * it into a sandbox's workspace; in a cluster warmpool-runtime does. Its
 * entries have a head of four numbers, the lowest byte first, a path and a
 * content; a folder comes before what is in it:
 *
 *   kind     mode         path     content
 *   FOLDER                path
 *   FILE     permissions  path     its bytes
 *   LINK                  path     where it leads
 *
 * Pure; any thread. */
#ifndef WP_PROTO_CHECKOUT_TREE_IMAGE_H
#define WP_PROTO_CHECKOUT_TREE_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pool/base/compiler.h"

enum wp_tree_kind {
    WP_TREE_FOLDER = 1,
    WP_TREE_FILE,
    WP_TREE_LINK,
};

enum {
    WP_TREE_HEAD = 16,
    WP_TREE_PATH_MAX = 4095,
};

struct wp_tree_entry {
    uint32_t kind; /* enum wp_tree_kind */
    uint32_t mode; /* Up to 0777. */
    const char *path;
    uint32_t path_len; /* 1 .. WP_TREE_PATH_MAX, without NUL. */
    const char *content;
    uint32_t content_len;
};

/* Writes the head of an entry; path and content follow it. */
void wp_tree_put_head(const struct wp_tree_entry *entry,
                      uint8_t out[WP_TREE_HEAD]);

struct wp_tree_image {
    const uint8_t *pos;
    const uint8_t *end;
};

/* The next entry, whose texts lie in the image. False at the end, which is
 * image->pos == image->end, and for what is no entry. What is behind the head
 * may change meanwhile: only the numbers are checked here. */
WP_MUST_CHECK bool wp_tree_next(struct wp_tree_image *image,
                                struct wp_tree_entry *entry);

#endif
