#include "proto/parcel/parcel.h"

#include <endian.h>
#include <string.h>

void
wp_parcel_put_head(const struct wp_parcel_entry *entry,
                   uint8_t out[WP_PARCEL_HEAD])
{
    const uint32_t head[] = {
        htole32(entry->kind),
        htole32(entry->number),
        htole32((uint32_t)entry->first_len),
        htole32((uint32_t)entry->second_len),
    };

    _Static_assert(sizeof head == WP_PARCEL_HEAD, "the head of an entry");
    memcpy(out, head, sizeof head);
}

bool
wp_parcel_next(struct wp_parcel *parcel, struct wp_parcel_entry *entry)
{
    size_t left = (size_t)(parcel->end - parcel->pos);
    uint32_t head[4];

    if (left < sizeof head) {
        return false;
    }
    memcpy(head, parcel->pos, sizeof head);
    for (size_t i = 0; i < WP_ARRAY_LEN(head); i++) {
        head[i] = le32toh(head[i]);
    }
    left -= sizeof head;
    if (head[0] < WP_PARCEL_ENV || head[0] > WP_PARCEL_IDENTITY ||
        head[2] > left || head[3] > left - head[2]) {
        return false;
    }
    *entry = (struct wp_parcel_entry){
        .kind = head[0],
        .number = head[1],
        .first = (const char *)parcel->pos + sizeof head,
        .first_len = head[2],
        .second = (const char *)parcel->pos + sizeof head + head[2],
        .second_len = head[3],
    };
    parcel->pos += sizeof head + head[2] + head[3];
    return true;
}
