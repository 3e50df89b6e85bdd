/* proto/checkout/tree_frame.h - tree images on their way to a sandbox in a
 * cluster, one behind the other: each with a head, the folder below the
 * workspace that it goes into, and the image.
 *
 * A head is the length of the folder in 4 bytes and of the image in 8, the
 * lowest byte first. Pure; any thread. */
#ifndef WP_PROTO_CHECKOUT_TREE_FRAME_H
#define WP_PROTO_CHECKOUT_TREE_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pool/base/compiler.h"

enum {
    WP_TREE_FRAME_HEAD = 12,
    WP_TREE_DIR_MAX = 1023,
};

void wp_tree_frame_put_head(uint32_t dir_len, uint64_t image_len,
                            uint8_t out[WP_TREE_FRAME_HEAD]);

struct wp_tree_frames {
    const uint8_t *pos;
    const uint8_t *end;
};

struct wp_tree_frame {
    const char *dir; /* Not terminated; without NUL. */
    size_t dir_len;  /* 0: the workspace; at most WP_TREE_DIR_MAX. */
    const uint8_t *image;
    size_t image_len;
};

/* The next one, which points into the bytes. False at the end, which is
 * frames->pos == frames->end, and for what is none. */
WP_MUST_CHECK bool wp_tree_frame_next(struct wp_tree_frames *frames,
                                      struct wp_tree_frame *frame);

#endif
