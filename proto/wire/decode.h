/* proto/wire/decode.h - private to proto/: from bytes to a generated message.
 *
 * protobuf-c hides a NUL inside a string (its strings are char *), so the raw
 * bytes are walked first. It allocates for every string and part; here all of
 * that comes from an arena. */
#ifndef WP_PROTO_WIRE_DECODE_H
#define WP_PROTO_WIRE_DECODE_H

#include <protobuf-c/protobuf-c.h>

#include "pool/base/arena.h"
#include "pool/base/status.h"

/* The message of desc's type, in the arena, its strings terminated and without
 * NUL inside but otherwise unchecked. NULL, and INVALID_ARGUMENT in err, when
 * the bytes are not such a message or the arena is too small. Any thread. */
const void *wp_wire_decode(struct wp_arena *arena,
                           const ProtobufCMessageDescriptor *desc,
                           const uint8_t *bytes, size_t len,
                           struct wp_err *err);

/* Defines wp_wire_unpack_name, which has `in` check what was decoded, as
 * pb_name's type, and put it into a struct `type`. */
#define WP_WIRE_DEFINE_UNPACK(name, type, pb_type, pb_name, in)                \
    enum wp_status wp_wire_unpack_##name(struct wp_arena *arena,               \
                                         const uint8_t *bytes, size_t len,     \
                                         struct type *out, struct wp_err *err) \
    {                                                                          \
        const pb_type *pb =                                                    \
            wp_wire_decode(arena, &pb_name##__descriptor, bytes, len, err);    \
                                                                               \
        return pb != NULL ? in(pb, out, err) : WP_INVALID_ARGUMENT;            \
    }

/* The bytes in the arena, with room for one more after them; NULL and an err
 * when they do not fit. For messages that are read without protobuf-c. */
uint8_t *wp_wire_copy(struct wp_arena *arena, const uint8_t *bytes, size_t len,
                      struct wp_err *err);
/* Memory in the arena for what a list of n parts becomes. NULL, and
 * INVALID_ARGUMENT in err, when there are more than max, or they do not fit. */
WP_MUST_CHECK void *wp_wire_list_in(const char *field, size_t n, size_t max,
                                    size_t size, struct wp_arena *arena,
                                    struct wp_err *err);
/* Both fill err and return INVALID_ARGUMENT. */
enum wp_status wp_wire_malformed(const char *message, struct wp_err *err);
enum wp_status wp_wire_too_long(struct wp_err *err);

#endif
