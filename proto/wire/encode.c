#include "proto/wire/encode.h"

static size_t
varint_size(size_t value)
{
    size_t n = 1;

    while (value >= 0x80) {
        value >>= 7;
        n++;
    }
    return n;
}

size_t
wp_wire_part_size(const ProtobufCMessage *part)
{
    size_t len = protobuf_c_message_get_packed_size(part);

    return 1 + varint_size(len) + len;
}

size_t
wp_wire_part_pack(unsigned field, const ProtobufCMessage *part, uint8_t *buf)
{
    size_t len = protobuf_c_message_get_packed_size(part);
    uint8_t *pos = buf;

    WP_ASSERT(field >= 1 && field <= 15);
    *pos++ = (uint8_t)(field << 3 | 2); /* Length-delimited. */
    for (size_t left = len;; left >>= 7) {
        *pos++ = (uint8_t)((left & 0x7F) | (left >= 0x80 ? 0x80 : 0));
        if (left < 0x80) {
            break;
        }
    }
    pos += protobuf_c_message_pack(part, pos);
    return (size_t)(pos - buf);
}
