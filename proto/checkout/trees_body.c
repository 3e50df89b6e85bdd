#include "proto/checkout/trees_body.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pool/base/assert.h"
#include "pool/limits.h"
#include "proto/checkout/tree_frame.h"

_Static_assert((int)WP_BINDING_PATH_MAX <= (int)WP_TREE_DIR_MAX, "folders fit");

uint64_t
wp_trees_body_size(const struct wp_bind_trees *trees)
{
    const struct wp_bind_tree *tree;
    uint64_t size = 0;

    for (uint32_t i = 0; (tree = wp_bind_trees_at(trees, i)) != NULL; i++) {
        size += WP_TREE_FRAME_HEAD + strlen(tree->dir) + tree->size;
    }
    return size;
}

/* Head and folder of a frame. */
static size_t
write_head(const struct wp_bind_tree *tree,
           char out[WP_TREE_FRAME_HEAD + WP_BINDING_PATH_MAX + 1])
{
    size_t dir_len = strlen(tree->dir);
    uint8_t head[WP_TREE_FRAME_HEAD];

    wp_tree_frame_put_head((uint32_t)dir_len, tree->size, head);
    memcpy(out, head, sizeof head);
    memcpy(out + sizeof head, tree->dir, dir_len);
    return sizeof head + dir_len;
}

ssize_t
wp_trees_body_read(struct wp_trees_body *body, void *out, size_t cap)
{
    const struct wp_bind_tree *tree = wp_bind_trees_at(body->trees, body->at);
    char head[WP_TREE_FRAME_HEAD + WP_BINDING_PATH_MAX + 1];
    size_t head_len;
    ssize_t n;

    if (tree == NULL || cap == 0) {
        return 0;
    }
    head_len = write_head(tree, head);
    if (body->done < head_len) {
        n = (ssize_t)(head_len - body->done < cap ? head_len - body->done
                                                  : cap);
        memcpy(out, head + body->done, (size_t)n);
    } else {
        uint64_t left = head_len + tree->size - body->done;

        n = pread(tree->fd, out, left < cap ? (size_t)left : cap,
                  (off_t)(body->done - head_len));
        if (n <= 0) {
            errno = n == 0 ? EIO : errno;
            return -1;
        }
    }
    body->done += (uint64_t)n;
    if (body->done == head_len + tree->size) {
        body->at++;
        body->done = 0;
    }
    return n;
}
