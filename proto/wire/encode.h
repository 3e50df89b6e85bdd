/* proto/wire/encode.h - private to proto/: from plain structs to bytes.
 *
 * A message is packed from a generated struct on the stack that borrows all its
 * strings. Repeated parts are packed one by one, so that a list of a thousand
 * needs no memory for a thousand generated structs: in protobuf, a repeated
 * field is its parts one after the other. */
#ifndef WP_PROTO_WIRE_ENCODE_H
#define WP_PROTO_WIRE_ENCODE_H

#include <protobuf-c/protobuf-c.h>

#include "pool/base/assert.h"
#include "pool/base/str.h"

/* protobuf-c declares the strings of a message as writable, and does not write
 * to what it packs; so the const may go. */
static inline char *
wp_wire_borrow(const char *text)
{
    return (char *)(uintptr_t)text;
}

static inline char *
wp_wire_borrow_str(struct wp_str s)
{
    if (s.len == 0) {
        return wp_wire_borrow(protobuf_c_empty_string);
    }
    WP_ASSERT(s.ptr[s.len] == '\0');
    return wp_wire_borrow(s.ptr);
}

static inline ProtobufCBinaryData
wp_wire_borrow_bytes(const void *bytes, size_t len)
{
    return (ProtobufCBinaryData){len, (uint8_t *)(uintptr_t)bytes};
}

/* Bytes of `part` as one element of a repeated field numbered 1 .. 15, its tag
 * and length included. */
size_t wp_wire_part_size(const ProtobufCMessage *part);
size_t wp_wire_part_pack(unsigned field, const ProtobufCMessage *part,
                         uint8_t *buf);

/* Defines wp_wire_size_name and wp_wire_pack_name for a struct that `fill`
 * turns into a `parts` struct whose first member is the message. */
#define WP_WIRE_DEFINE_PACK(name, type, parts, fill)                           \
    size_t wp_wire_size_##name(const struct type *message)                     \
    {                                                                          \
        parts pb;                                                              \
                                                                               \
        fill(message, &pb);                                                    \
        return protobuf_c_message_get_packed_size(                             \
            (const ProtobufCMessage *)&pb);                                    \
    }                                                                          \
    size_t wp_wire_pack_##name(const struct type *message, uint8_t *buf)       \
    {                                                                          \
        parts pb;                                                              \
                                                                               \
        fill(message, &pb);                                                    \
        return protobuf_c_message_pack((const ProtobufCMessage *)&pb, buf);    \
    }

/* The same for a message whose field 1 is the list `items` of the struct, each
 * turned by `fill_part` into a `part` struct whose first member is the message,
 * and the rest of which `fill` turns into `rest`. */
#define WP_WIRE_DEFINE_PACK_LIST(name, type, items, part, fill_part, rest,     \
                                 fill)                                         \
    size_t wp_wire_size_##name(const struct type *message)                     \
    {                                                                          \
        rest pb;                                                               \
        size_t size;                                                           \
                                                                               \
        fill(message, &pb);                                                    \
        size =                                                                 \
            protobuf_c_message_get_packed_size((const ProtobufCMessage *)&pb); \
        for (uint32_t i = 0; i < message->n_##items; i++) {                    \
            part one;                                                          \
                                                                               \
            fill_part(&message->items[i], &one);                               \
            size += wp_wire_part_size((const ProtobufCMessage *)&one);         \
        }                                                                      \
        return size;                                                           \
    }                                                                          \
    size_t wp_wire_pack_##name(const struct type *message, uint8_t *buf)       \
    {                                                                          \
        rest pb;                                                               \
        size_t size = 0;                                                       \
                                                                               \
        for (uint32_t i = 0; i < message->n_##items; i++) {                    \
            part one;                                                          \
                                                                               \
            fill_part(&message->items[i], &one);                               \
            size += wp_wire_part_pack(1, (const ProtobufCMessage *)&one,       \
                                      buf + size);                             \
        }                                                                      \
        fill(message, &pb);                                                    \
        return size + protobuf_c_message_pack((const ProtobufCMessage *)&pb,   \
                                              buf + size);                     \
    }

/* Defines all three functions of a message without a field. */
#define WP_WIRE_DEFINE_EMPTY(name, type, pb_name)                              \
    enum wp_status wp_wire_unpack_##name(struct wp_arena *arena,               \
                                         const uint8_t *bytes, size_t len,     \
                                         struct type *out, struct wp_err *err) \
    {                                                                          \
        *out = (struct type){0};                                               \
        return wp_wire_decode(arena, &pb_name##__descriptor, bytes, len,       \
                              err) != NULL                                     \
                   ? WP_OK                                                     \
                   : WP_INVALID_ARGUMENT;                                      \
    }                                                                          \
    size_t wp_wire_size_##name(const struct type *message)                     \
    {                                                                          \
        (void)message;                                                         \
        return 0;                                                              \
    }                                                                          \
    /* NOLINTNEXTLINE(readability-non-const-parameter): as all. */             \
    size_t wp_wire_pack_##name(const struct type *message, uint8_t *buf)       \
    {                                                                          \
        (void)message;                                                         \
        (void)buf;                                                             \
        return 0;                                                              \
    }

#endif
