#include "proto/checkout/tree_frame.h"

#include <endian.h>
#include <string.h>

enum {
    DIR_BYTES = 4, /* Of a head, before the image's. */
};

void
wp_tree_frame_put_head(uint32_t dir_len, uint64_t image_len,
                       uint8_t out[WP_TREE_FRAME_HEAD])
{
    const uint32_t dir = htole32(dir_len);
    const uint64_t image = htole64(image_len);

    memcpy(out, &dir, sizeof dir);
    memcpy(out + DIR_BYTES, &image, sizeof image);
}

bool
wp_tree_frame_next(struct wp_tree_frames *frames, struct wp_tree_frame *frame)
{
    size_t left = (size_t)(frames->end - frames->pos);
    const uint8_t *at = frames->pos;
    uint32_t dir_len;
    uint64_t image_len;

    if (left < WP_TREE_FRAME_HEAD) {
        return false;
    }
    memcpy(&dir_len, at, sizeof dir_len);
    memcpy(&image_len, at + DIR_BYTES, sizeof image_len);
    dir_len = le32toh(dir_len);
    image_len = le64toh(image_len);
    left -= WP_TREE_FRAME_HEAD;
    at += WP_TREE_FRAME_HEAD;
    if (dir_len > WP_TREE_DIR_MAX || dir_len > left ||
        memchr(at, '\0', dir_len) != NULL || image_len > left - dir_len) {
        return false;
    }
    *frame = (struct wp_tree_frame){(const char *)at, dir_len, at + dir_len,
                                    (size_t)image_len};
    frames->pos = at + dir_len + image_len;
    return true;
}
