/* proto/wire/write.h - private to proto/: protobuf's bytes, written in one go.
 *
 * For the messages of the claim path; the others are packed by protobuf-c.
 * Each put writes a field numbered 1 .. 15, or nothing when it has its default,
 * and returns where the next one goes; each size tells how many bytes that
 * takes. */
#ifndef WP_PROTO_WIRE_WRITE_H
#define WP_PROTO_WIRE_WRITE_H

#include <stdint.h>
#include <string.h>

static inline size_t
wp_wire_varint_size(uint64_t value)
{
    /* Seven bits a byte: ceil(bits / 7), of at least one bit. */
    return (63 - (size_t)__builtin_clzll(value | 1)) / 7 + 1;
}

static inline uint8_t *
wp_wire_put_varint(uint8_t *pos, uint64_t value)
{
    while (value >= 0x80) {
        *pos++ = (uint8_t)(value | 0x80);
        value >>= 7;
    }
    *pos++ = (uint8_t)value;
    return pos;
}

static inline size_t
wp_wire_int_size(uint64_t value)
{
    return value != 0 ? 1 + wp_wire_varint_size(value) : 0;
}

static inline uint8_t *
wp_wire_put_int(uint8_t *pos, unsigned field, uint64_t value)
{
    if (value == 0) {
        return pos;
    }
    *pos++ = (uint8_t)(field << 3);
    return wp_wire_put_varint(pos, value);
}

static inline size_t
wp_wire_bytes_size(size_t len)
{
    return len != 0 ? 1 + wp_wire_varint_size(len) + len : 0;
}

/* The tag and length of a message, which is put even when it is empty. */
static inline uint8_t *
wp_wire_put_head(uint8_t *pos, unsigned field, size_t len)
{
    *pos++ = (uint8_t)(field << 3 | 2);
    return wp_wire_put_varint(pos, len);
}

static inline size_t
wp_wire_message_size(size_t len)
{
    return 1 + wp_wire_varint_size(len) + len;
}

static inline uint8_t *
wp_wire_put_bytes(uint8_t *pos, unsigned field, const void *bytes, size_t len)
{
    if (len == 0) {
        return pos;
    }
    pos = wp_wire_put_head(pos, field, len);
    memcpy(pos, bytes, len);
    return pos + len;
}

#endif
