#include "proto/wire/decode.h"

#include <stdio.h>
#include <string.h>

#include "proto/wire/check.h"
#include "proto/wire/read.h"

enum {
    DEPTH_MAX = 8, /* Our deepest message nests four times. */
    PATH_MAX_LEN = 96,
};

/* One message being walked; the innermost is last. */
struct frame {
    const ProtobufCMessageDescriptor *desc;
    struct wp_wire_reader reader;
    const char *field; /* The one that holds it; NULL for the outermost. */
};

struct walk {
    uint32_t depth;
    struct frame frames[DEPTH_MAX];
};

static void
say_nul(const struct walk *walk, const char *field, struct wp_err *err)
{
    char path[PATH_MAX_LEN];
    size_t used = 0;

    path[0] = '\0';
    for (uint32_t i = 1; i < walk->depth; i++) {
        int n = snprintf(path + used, sizeof path - used, "%s.",
                         walk->frames[i].field);

        if (n < 0 || (size_t)n >= sizeof path - used) {
            break;
        }
        used += (size_t)n;
    }
    (void)wp_err_set(err, WP_INVALID_ARGUMENT,
                     "%s%s: text without NUL expected", path, field);
}

enum verdict {
    VERDICT_GO_ON,
    VERDICT_MALFORMED,
    VERDICT_NUL,
};

/* The bytes of a length-delimited field: text is searched for NUL, a message is
 * entered, the rest is passed over. */
static enum verdict
walk_bytes(struct walk *walk, const struct wp_wire_field *found,
           struct wp_err *err)
{
    const struct frame *frame = &walk->frames[walk->depth - 1];
    const ProtobufCFieldDescriptor *field =
        protobuf_c_message_descriptor_get_field(frame->desc, found->number);

    if (field != NULL && field->type == PROTOBUF_C_TYPE_STRING &&
        found->len > 0 && memchr(found->bytes, '\0', found->len) != NULL) {
        say_nul(walk, field->name, err);
        return VERDICT_NUL;
    }
    if (field != NULL && field->type == PROTOBUF_C_TYPE_MESSAGE) {
        if (walk->depth == DEPTH_MAX) {
            return VERDICT_MALFORMED;
        }
        walk->frames[walk->depth++] = (struct frame){
            .desc = field->descriptor,
            .reader = {found->bytes, found->bytes + found->len},
            .field = field->name,
        };
    }
    return VERDICT_GO_ON;
}

static enum verdict
walk_message(const ProtobufCMessageDescriptor *desc, const uint8_t *bytes,
             size_t len, struct wp_err *err)
{
    struct walk walk;

    walk.depth = 1;
    walk.frames[0] =
        (struct frame){.desc = desc, .reader = {bytes, bytes + len}};
    while (walk.depth > 0) {
        enum verdict verdict = VERDICT_GO_ON;
        struct wp_wire_field field;

        switch (
            wp_wire_read_next(&walk.frames[walk.depth - 1].reader, &field)) {
        case WP_WIRE_READ_END:
            walk.depth--;
            break;
        case WP_WIRE_READ_FIELD:
            if (field.type == WP_WIRE_BYTES) {
                verdict = walk_bytes(&walk, &field, err);
            }
            break;
        case WP_WIRE_READ_BAD:
            verdict = VERDICT_MALFORMED;
            break;
        }
        if (verdict != VERDICT_GO_ON) {
            return verdict;
        }
    }
    return VERDICT_GO_ON;
}

/* What protobuf-c is given as allocator; remembers that the arena was full,
 * which protobuf-c reports as a malformed message. */
struct arena_allocator {
    struct wp_arena *arena;
    bool full;
};

static void *
arena_allocate(void *data, size_t size)
{
    struct arena_allocator *self = data;
    void *block = wp_arena_alloc(self->arena, size);

    if (block == NULL) {
        self->full = true;
    }
    return block;
}

static void
arena_ignore(void *data, void *block)
{
    (void)data;
    (void)block;
}

const void *
wp_wire_decode(struct wp_arena *arena, const ProtobufCMessageDescriptor *desc,
               const uint8_t *bytes, size_t len, struct wp_err *err)
{
    static const uint8_t nothing[1];
    struct arena_allocator self = {.arena = arena};
    ProtobufCAllocator allocator = {arena_allocate, arena_ignore, &self};
    const uint8_t *start = len > 0 ? bytes : nothing;
    enum verdict verdict = walk_message(desc, start, len, err);
    const void *message = NULL;

    if (verdict == VERDICT_NUL) {
        return NULL;
    }
    if (verdict == VERDICT_GO_ON) {
        message = protobuf_c_message_unpack(desc, &allocator, len, start);
    }
    if (message == NULL && self.full) {
        (void)wp_wire_too_long(err);
    } else if (message == NULL) {
        (void)wp_wire_malformed(desc->name, err);
    }
    return message;
}

uint8_t *
wp_wire_copy(struct wp_arena *arena, const uint8_t *bytes, size_t len,
             struct wp_err *err)
{
    uint8_t *copy = wp_arena_alloc(arena, len + 1);

    if (copy == NULL) {
        (void)wp_wire_too_long(err);
        return NULL;
    }
    if (len > 0) {
        memcpy(copy, bytes, len);
    }
    return copy;
}

void *
wp_wire_list_in(const char *field, size_t n, size_t max, size_t size,
                struct wp_arena *arena, struct wp_err *err)
{
    void *list;

    if (wp_wire_check_range(field, (int64_t)n, 0, (int64_t)max, err) != WP_OK) {
        return NULL;
    }
    list = wp_arena_alloc(arena, n * size);
    if (list == NULL) {
        (void)wp_err_set(err, WP_INVALID_ARGUMENT,
                         "%s: a shorter message expected", field);
    }
    return list;
}

enum wp_status
wp_wire_malformed(const char *message, struct wp_err *err)
{
    return wp_err_set(err, WP_INVALID_ARGUMENT,
                      "message: a well-formed %s expected", message);
}

enum wp_status
wp_wire_too_long(struct wp_err *err)
{
    return wp_err_set(err, WP_INVALID_ARGUMENT,
                      "message: fewer or shorter fields expected");
}
