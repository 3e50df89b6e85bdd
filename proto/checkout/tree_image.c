#include "proto/checkout/tree_image.h"

#include <endian.h>
#include <string.h>

void
wp_tree_put_head(const struct wp_tree_entry *entry, uint8_t out[WP_TREE_HEAD])
{
    const uint32_t head[] = {
        htole32(entry->kind),
        htole32(entry->mode),
        htole32(entry->path_len),
        htole32(entry->content_len),
    };

    _Static_assert(sizeof head == WP_TREE_HEAD, "the head of an entry");
    memcpy(out, head, sizeof head);
}

bool
wp_tree_next(struct wp_tree_image *image, struct wp_tree_entry *entry)
{
    size_t left = (size_t)(image->end - image->pos);
    uint32_t head[4];

    if (left < sizeof head) {
        return false;
    }
    memcpy(head, image->pos, sizeof head);
    for (size_t i = 0; i < WP_ARRAY_LEN(head); i++) {
        head[i] = le32toh(head[i]);
    }
    left -= sizeof head;
    if (head[0] < WP_TREE_FOLDER || head[0] > WP_TREE_LINK || head[1] > 0777 ||
        head[2] == 0 || head[2] > WP_TREE_PATH_MAX || head[2] > left ||
        head[3] > left - head[2]) {
        return false;
    }
    *entry = (struct wp_tree_entry){
        .kind = head[0],
        .mode = head[1],
        .path = (const char *)image->pos + sizeof head,
        .path_len = head[2],
        .content = (const char *)image->pos + sizeof head + head[2],
        .content_len = head[3],
    };
    image->pos += sizeof head + head[2] + head[3];
    return true;
}
