/* proto/wire/read.h - private to proto/: protobuf's bytes, field by field.
 *
 * For the messages of the claim path, which are read straight into plain
 * structs, and for the walk that precedes protobuf-c elsewhere. Inline, since
 * it is most of what unpacking a claim costs. */
#ifndef WP_PROTO_WIRE_READ_H
#define WP_PROTO_WIRE_READ_H

#include <stdbool.h>
#include <stdint.h>

#include "pool/base/compiler.h"
#include "pool/base/str.h"

enum wp_wire_type {
    WP_WIRE_VARINT = 0,
    WP_WIRE_FIXED64 = 1,
    WP_WIRE_BYTES = 2,
    WP_WIRE_FIXED32 = 5,
};

struct wp_wire_reader {
    const uint8_t *pos;
    const uint8_t *end;
};

struct wp_wire_field {
    uint32_t number;
    enum wp_wire_type type;
    uint64_t value;       /* VARINT only. */
    const uint8_t *bytes; /* BYTES only; len of them. */
    size_t len;
};

enum wp_wire_read {
    WP_WIRE_READ_END,   /* All was read. */
    WP_WIRE_READ_FIELD, /* field holds the next one. */
    WP_WIRE_READ_BAD,   /* Not protobuf. */
};

/* False when the bytes end first or the number has more than 64 bits. */
static inline bool
wp_wire_read_varint(struct wp_wire_reader *reader, uint64_t *out)
{
    uint64_t value = 0;

    for (unsigned shift = 0; shift < 70 && reader->pos < reader->end;
         shift += 7) {
        uint8_t byte = *reader->pos++;

        value |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80) {
            *out = value;
            return true;
        }
    }
    return false;
}

static inline enum wp_wire_read
wp_wire_read_next(struct wp_wire_reader *reader, struct wp_wire_field *field)
{
    uint64_t tag;
    uint64_t len = 0;

    if (reader->pos == reader->end) {
        return WP_WIRE_READ_END;
    }
    if (!wp_wire_read_varint(reader, &tag) || tag >> 3 == 0 ||
        tag > UINT32_MAX) {
        return WP_WIRE_READ_BAD;
    }
    field->number = (uint32_t)(tag >> 3);
    field->type = (enum wp_wire_type)(tag & 7);
    switch (field->type) {
    case WP_WIRE_VARINT:
        return wp_wire_read_varint(reader, &field->value) ? WP_WIRE_READ_FIELD
                                                          : WP_WIRE_READ_BAD;
    case WP_WIRE_BYTES:
        if (!wp_wire_read_varint(reader, &len)) {
            return WP_WIRE_READ_BAD;
        }
        break;
    case WP_WIRE_FIXED64:
        len = 8;
        break;
    case WP_WIRE_FIXED32:
        len = 4;
        break;
    default: /* Groups: never in proto3. */
        return WP_WIRE_READ_BAD;
    }
    if (len > (uint64_t)(reader->end - reader->pos)) {
        return WP_WIRE_READ_BAD;
    }
    field->bytes = reader->pos;
    field->len = (size_t)len;
    reader->pos += len;
    return WP_WIRE_READ_FIELD;
}

static inline struct wp_str
wp_wire_field_str(const struct wp_wire_field *field)
{
    return (struct wp_str){(const char *)field->bytes, field->len};
}

#endif
