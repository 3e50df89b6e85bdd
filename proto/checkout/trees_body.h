/* proto/checkout/trees_body.h - fetched trees as the bytes that a sandbox in a
 * cluster is sent (proto/checkout/tree_frame.h). */
#ifndef WP_PROTO_CHECKOUT_TREES_BODY_H
#define WP_PROTO_CHECKOUT_TREES_BODY_H

#include <sys/types.h>

#include "pool/base/compiler.h"
#include "proto/checkout/trees.h"

struct wp_trees_body {
    const struct wp_bind_trees *trees; /* Borrowed. */
    uint32_t at;                       /* The tree that is next. */
    uint64_t done;                     /* Bytes of its frame so far. */
};

/* Bytes in all. */
uint64_t wp_trees_body_size(const struct wp_bind_trees *trees);
/* The next bytes, up to cap; 0 at the end, -1 with errno: one has become
 * shorter, or cannot be read. It reads files, and maps none: who fetched them
 * could shorten one. */
WP_MUST_CHECK ssize_t wp_trees_body_read(struct wp_trees_body *body, void *out,
                                         size_t cap);

#endif
