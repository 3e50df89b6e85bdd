#include "proto/wire/encode.h"

#include "proto/wire/write.h"

size_t
wp_wire_part_size(const ProtobufCMessage *part)
{
    return wp_wire_message_size(protobuf_c_message_get_packed_size(part));
}

size_t
wp_wire_part_pack(unsigned field, const ProtobufCMessage *part, uint8_t *buf)
{
    uint8_t *pos;

    WP_ASSERT(field >= 1 && field <= 15);
    pos =
        wp_wire_put_head(buf, field, protobuf_c_message_get_packed_size(part));
    pos += protobuf_c_message_pack(part, pos);
    return (size_t)(pos - buf);
}
