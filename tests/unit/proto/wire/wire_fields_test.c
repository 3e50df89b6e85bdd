/* tests/unit/proto/wire/wire_fields_test.c - each message with each of its fields
 * set, as a client that knows the protocol by its descriptors writes it: what
 * comes of it when it is read and written again, and that no memory is too
 * little for a clear answer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include <protobuf-c/protobuf-c.h>

#include "pool/base/str.h"
#include "tests/support/base/golden.h"
#include "tests/support/services/wire_rig.h"
#include "warmpool/v1/allocator.pb-c.h"

enum {
    DEPTH_MAX = 4,
    REPEATED = 2, /* Of each list so many. */
    ROUNDS = 3,   /* Other values in each. */
    LONGEST = 1 << 15,
};

/* The names that are not the message's own in small letters. */
#define batch_request claim_batch_request
#define batch_response claim_batch_response
#define stream_request claim_stream_request
#define stream_response claim_stream_response
#define pools list_pools_response
#define pool_detail pool
#define DESCRIPTOR_(name) warmpool__v1__##name##__descriptor
#define DESCRIPTOR(name) DESCRIPTOR_(name)

struct kind {
    const char *name;
    const ProtobufCMessageDescriptor *descriptor;
};

#define KIND(name, type) {#name, &DESCRIPTOR(name)},
static const struct kind kinds[] = {WP_WIRE_MESSAGES(KIND)};

#undef batch_request
#undef batch_response
#undef stream_request
#undef stream_response
#undef pools
#undef pool_detail

/* Grows with each value that is made. */
static uint32_t counter;
static uint32_t round_;
/* The text or bytes of that number, from 1, are that long; 0: none is. */
static struct {
    uint32_t which;
    size_t len;
    uint32_t seen;
    const char *name;   /* Of its field. */
    const char *parent; /* Of its message. */
} longer;

static ProtobufCMessage *make(const ProtobufCMessageDescriptor *descriptor,
                              unsigned depth);

static size_t
size_of(const ProtobufCFieldDescriptor *field)
{
    switch ((int)field->type) {
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_MESSAGE:
        return sizeof(void *);
    case PROTOBUF_C_TYPE_BYTES:
        return sizeof(ProtobufCBinaryData);
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_DOUBLE:
        return sizeof(uint64_t);
    case PROTOBUF_C_TYPE_BOOL:
        return sizeof(protobuf_c_boolean);
    default:
        return sizeof(uint32_t);
    }
}

/* Whole numbers that are not as good as any other. */
static bool
is_bounded(const ProtobufCFieldDescriptor *field, uint64_t *value)
{
    static const struct {
        const char *name;
        uint64_t value;
    } bounded[] = {{"recommended", 1},
                   {"grace_ms", 0},
                   {"page_size", 999},
                   {"code", 0},
                   {"ahead", 256}};

    for (size_t i = 0; i < WP_ARRAY_LEN(bounded); i++) {
        if (strcmp(field->name, bounded[i].name) == 0) {
            *value = bounded[i].value;
            return true;
        }
    }
    return false;
}

/* To be freed. */
static char *
make_letters(const ProtobufCFieldDescriptor *field, const char *parent,
             size_t *len)
{
    char *letters;

    if (++longer.seen == longer.which) {
        *len = longer.len;
        longer.name = field->name;
        longer.parent = parent;
    }
    letters = malloc(*len + 1);
    assert_non_null(letters);
    memset(letters, 'a', *len);
    letters[*len] = '\0';
    return letters;
}

static void
put_bytes(const ProtobufCFieldDescriptor *field, const char *parent, void *at)
{
    ProtobufCBinaryData *bytes = at;

    bytes->len = strcmp(field->name, "token") == 0 ? WP_TOKEN_LEN : 3;
    bytes->data = (uint8_t *)make_letters(field, parent, &bytes->len);
    for (size_t i = 0; i < bytes->len && i < 3; i++) {
        bytes->data[i] = (uint8_t)(counter + i);
    }
}

static void
put_text(const ProtobufCFieldDescriptor *field, const char *parent, void *at)
{
    char digits[16];
    size_t digits_len = (size_t)snprintf(digits, sizeof digits, "%u", counter);
    size_t len = 1 + digits_len;
    char *text = make_letters(field, parent, &len);

    /* Different from all others. */
    if (len > digits_len) {
        memcpy(text + len - digits_len, digits, digits_len);
    }
    *(char **)at = text;
}

static void
put_value(const ProtobufCFieldDescriptor *field, const char *parent, void *at,
          unsigned depth)
{
    uint64_t value = 1000 + counter;

    counter++;
    (void)is_bounded(field, &value);
    switch ((int)field->type) {
    case PROTOBUF_C_TYPE_STRING:
        put_text(field, parent, at);
        break;
    case PROTOBUF_C_TYPE_MESSAGE:
        *(ProtobufCMessage **)at = make(field->descriptor, depth + 1);
        break;
    case PROTOBUF_C_TYPE_BYTES:
        put_bytes(field, parent, at);
        break;
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        *(uint64_t *)at = value;
        break;
    case PROTOBUF_C_TYPE_DOUBLE:
        *(double *)at = 0.5 + counter % 256 / 1024.0;
        break;
    case PROTOBUF_C_TYPE_FLOAT:
        *(float *)at = (float)(0.5 + counter % 256 / 1024.0);
        break;
    case PROTOBUF_C_TYPE_BOOL:
        *(protobuf_c_boolean *)at = round_ != 1;
        break;
    case PROTOBUF_C_TYPE_ENUM: {
        const ProtobufCEnumDescriptor *words = field->descriptor;

        *(int *)at = words->values[counter % words->n_values].value;
        break;
    }
    default:
        *(uint32_t *)at = (uint32_t)value;
        break;
    }
}

static void
put_field(const ProtobufCFieldDescriptor *field, ProtobufCMessage *message,
          unsigned depth)
{
    char *at = (char *)message + field->offset;
    char *quantifier = (char *)message + field->quantifier_offset;
    const char *parent = message->descriptor->short_name;

    if (field->label == PROTOBUF_C_LABEL_REPEATED) {
        char *list = calloc(REPEATED, size_of(field));

        assert_non_null(list);
        for (size_t i = 0; i < REPEATED; i++) {
            put_value(field, parent, list + i * size_of(field), depth);
        }
        *(char **)at = list;
        *(size_t *)quantifier = REPEATED;
        return;
    }
    if ((field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0) {
        uint32_t *which = (uint32_t *)quantifier;

        /* The first of them, or the one after it. */
        if (*which != 0 && (round_ != 1 || *which + 1 != field->id)) {
            return;
        }
        *which = field->id;
    }
    put_value(field, parent, at, depth);
}

static ProtobufCMessage *
make(const ProtobufCMessageDescriptor *descriptor, unsigned depth)
{
    ProtobufCMessage *message = calloc(1, descriptor->sizeof_message);

    assert_non_null(message);
    protobuf_c_message_init(descriptor, message);
    for (unsigned i = 0; i < descriptor->n_fields && depth < DEPTH_MAX; i++) {
        put_field(&descriptor->fields[i], message, depth);
    }
    return message;
}

static void
write_message(const struct kind *kind, unsigned round)
{
    ProtobufCMessage *message;

    round_ = round;
    longer.seen = 0;
    counter = round * 40;
    message = make(kind->descriptor, 0);
    wire_message.len = protobuf_c_message_get_packed_size(message);
    assert_true(wire_message.len <= sizeof wire_message.at);
    (void)protobuf_c_message_pack(message, wire_message.at);
    protobuf_c_message_free_unpacked(message, NULL);
}

/* What is read of wire_message, written again into wire_packed; false, and what
 * is said of it. */
static bool
repack(const char *name)
{
#define REPACK(kind, type)                                                     \
    if (strcmp(name, #kind) == 0) {                                            \
        struct type message;                                                   \
                                                                               \
        if (wp_wire_unpack_##kind(&wire_arena, wire_message.at,                \
                                  wire_message.len, &message,                  \
                                  &wire_err) != WP_OK) {                       \
            return false;                                                      \
        }                                                                      \
        WIRE_PACK(kind, &message);                                             \
        return true;                                                           \
    }
    WP_WIRE_MESSAGES(REPACK)
    fail();
    return false;
}

/* As a tree: a field in each line. */
static void
tell(struct golden *golden, const ProtobufCMessage *message, int indent)
{
    const ProtobufCMessageDescriptor *descriptor = message->descriptor;

    for (unsigned i = 0; i < descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &descriptor->fields[i];
        const char *at = (const char *)message + field->offset;
        const char *quantifier =
            (const char *)message + field->quantifier_offset;
        bool is_list = field->label == PROTOBUF_C_LABEL_REPEATED;
        size_t n = is_list ? *(const size_t *)quantifier : 1;

        if ((field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0 &&
            *(const uint32_t *)quantifier != field->id) {
            continue;
        }
        at = is_list && n > 0 ? *(char *const *)at : at;
        for (size_t k = 0; k < n; k++, at += size_of(field)) {
            const ProtobufCBinaryData *bytes = (const void *)at;

            golden_add(golden, "%*s%s", indent, "", field->name);
            switch ((int)field->type) {
            case PROTOBUF_C_TYPE_STRING:
                golden_add(golden, " %s\n", *(char *const *)at);
                break;
            case PROTOBUF_C_TYPE_MESSAGE:
                golden_add(golden, "\n");
                if (*(void *const *)at != NULL) {
                    tell(golden, *(ProtobufCMessage *const *)at, indent + 2);
                }
                break;
            case PROTOBUF_C_TYPE_BYTES:
                golden_add(golden, " %zu:", bytes->len);
                for (size_t b = 0; b < bytes->len; b++) {
                    golden_add(golden, "%02x", bytes->data[b]);
                }
                golden_add(golden, "\n");
                break;
            case PROTOBUF_C_TYPE_DOUBLE:
                golden_add(golden, " %.17g\n", *(const double *)at);
                break;
            case PROTOBUF_C_TYPE_FLOAT:
                golden_add(golden, " %.9g\n", (double)*(const float *)at);
                break;
            default:
                golden_add(golden, " %lld\n",
                           size_of(field) == sizeof(uint64_t)
                               ? (long long)*(const int64_t *)at
                               : (long long)*(const int32_t *)at);
                break;
            }
        }
    }
}

static void
test_each_field_comes_and_goes(void **state)
{
    static struct golden golden;

    (void)state;
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < WP_ARRAY_LEN(kinds); i++) {
            ProtobufCMessage *back;

            wire_set_up(NULL);
            write_message(&kinds[i], round);
            golden_add(&golden, "%s %u\n", kinds[i].name, round);
            if (!repack(kinds[i].name)) {
                golden_add(&golden, "  refused: %s\n", wire_err.msg);
                continue;
            }
            back = protobuf_c_message_unpack(kinds[i].descriptor, NULL,
                                             wire_packed_len, wire_packed);
            assert_non_null(back);
            tell(&golden, back, 2);
            protobuf_c_message_free_unpacked(back, NULL);
        }
    }
    golden_compare(golden.text, WP_TEST_GOLDEN "/wire_fields.txt");
}

/* The longest that is taken; SIZE_MAX when none is. */
static size_t
longest_of(const struct kind *kind)
{
    size_t fits = SIZE_MAX;
    size_t step = LONGEST;

    for (size_t len = 0; len <= LONGEST && fits == SIZE_MAX; len++) {
        longer.len = len;
        wire_set_up(NULL);
        write_message(kind, 0);
        fits = len < 64 && repack(kind->name) ? len : fits;
        len = len < 64 ? len : LONGEST;
    }
    for (; step > 0 && fits != SIZE_MAX; step /= 2) {
        longer.len = fits + step;
        wire_set_up(NULL);
        write_message(kind, 0);
        fits = repack(kind->name) ? longer.len : fits;
    }
    return fits;
}

static void
test_the_longest_of_each_text(void **state)
{
    static struct golden golden;

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(kinds); i++) {
        longer.which = 1;
        do {
            size_t longest = longest_of(&kinds[i]);

            if (longer.seen < longer.which) {
                break;
            }
            golden_add(&golden, "%s: %s.%s ", kinds[i].name, longer.parent,
                       longer.name);
            if (longest == SIZE_MAX) {
                golden_add(&golden, "has one length only\n");
            } else if (longest > LONGEST) {
                golden_add(&golden, "as long as the message\n");
            } else {
                golden_add(&golden, "%zu\n", longest);
            }
            longer.which++;
        } while (true);
    }
    longer.which = 0;
    golden_compare(golden.text, WP_TEST_GOLDEN "/wire_longest.txt");
}

/* The memory has exactly the size, for the sanitizers. */
static void
test_no_memory_is_too_little_for_an_answer(void **state)
{
    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(kinds); i++) {
        static uint8_t whole[WIRE_PACKED_MAX];
        size_t whole_len;
        bool fits = false;

        wire_set_up(NULL);
        write_message(&kinds[i], 0);
        if (!repack(kinds[i].name)) {
            continue;
        }
        whole_len = wire_packed_len;
        memcpy(whole, wire_packed, whole_len);
        for (size_t size = 0; !fits; size += 8) {
            char *memory = malloc(size + 1);

            assert_non_null(memory);
            wp_arena_init(&wire_arena, memory, size);
            wire_err.msg[0] = '\0';
            fits = repack(kinds[i].name);
            if (!fits) {
                assert_int_equal(wire_err.status, WP_INVALID_ARGUMENT);
                assert_non_null(strstr(wire_err.msg, "shorter"));
            }
            free(memory);
        }
        assert_int_equal(wire_packed_len, whole_len);
        assert_memory_equal(wire_packed, whole, whole_len);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        WIRE_TEST(test_each_field_comes_and_goes),
        WIRE_TEST(test_the_longest_of_each_text),
        WIRE_TEST(test_no_memory_is_too_little_for_an_answer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
