#include <setjmp.h>
#include <stdalign.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/services/wire_rig.h"

struct wire_bytes wire_message;
uint8_t wire_packed[WIRE_PACKED_MAX];
size_t wire_packed_len;
struct wp_arena wire_arena;
alignas(max_align_t) char wire_arena_memory[WIRE_ARENA_SIZE];
struct wp_err wire_err;

int
wire_set_up(void **state)
{
    (void)state;
    wire_message.len = 0;
    wp_arena_init(&wire_arena, wire_arena_memory, sizeof wire_arena_memory);
    memset(&wire_err, 0, sizeof wire_err);
    return 0;
}

void
wire_put_byte(unsigned byte)
{
    assert_true(wire_message.len < sizeof wire_message.at);
    wire_message.at[wire_message.len++] = (uint8_t)byte;
}

void
wire_put_varint(uint64_t value)
{
    for (; value >= 0x80; value >>= 7) {
        wire_put_byte((unsigned)(value & 0x7F) | 0x80);
    }
    wire_put_byte((unsigned)value);
}

void
wire_put_bytes(unsigned field, const void *bytes, size_t len)
{
    wire_put_varint((uint64_t)field << 3 | 2);
    wire_put_varint(len);
    for (size_t i = 0; i < len; i++) {
        wire_put_byte(((const uint8_t *)bytes)[i]);
    }
}

void
wire_put_text(unsigned field, const char *text)
{
    wire_put_bytes(field, text, strlen(text));
}

void
wire_put_int(unsigned field, int64_t value)
{
    wire_put_varint((uint64_t)field << 3);
    wire_put_varint((uint64_t)value);
}

void
wire_put_pool(unsigned field, const char *pool_namespace, const char *name)
{
    struct wire_bytes outer = wire_message;

    wire_message.len = 0;
    if (pool_namespace != NULL) {
        wire_put_text(1, pool_namespace);
    }
    if (name != NULL) {
        wire_put_text(2, name);
    }
    uint8_t inner[512];
    size_t len = wire_message.len;
    assert_true(len <= sizeof inner);
    memcpy(inner, wire_message.at, len);
    wire_message = outer;
    wire_put_bytes(field, inner, len);
}

const char *
wire_long_text(size_t len)
{
    static char text[2048];

    assert_true(len < sizeof text);
    memset(text, 'a', len);
    text[len] = '\0';
    return text;
}
