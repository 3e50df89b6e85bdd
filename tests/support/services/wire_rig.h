/* tests/support/services/wire_rig.h - messages of the wire, packed and unpacked in a
 * test: what was packed must come back, and what is written here by hand must
 * be taken or refused.
 *
 * One of everything for the program; wire_set_up empties it. Single-threaded.
 * Include cmocka.h before. */
#ifndef WP_TESTS_SUPPORT_SERVICES_WIRE_RIG_H
#define WP_TESTS_SUPPORT_SERVICES_WIRE_RIG_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "pool/base/arena.h"
#include "pool/base/status.h"
#include "proto/wire/wire.h"

enum {
    WIRE_PACKED_MAX = 1 << 20,
    WIRE_ARENA_SIZE = 4 * WIRE_PACKED_MAX,
};

/* A message being written by hand, independently of what is tested. */
struct wire_bytes {
    uint8_t at[WP_WIRE_MESSAGE_MAX * 2];
    size_t len;
};

extern struct wire_bytes wire_message;
/* What WIRE_PACK made. */
extern uint8_t wire_packed[WIRE_PACKED_MAX];
extern size_t wire_packed_len;
/* Where messages are unpacked to; a test may begin it anew with less than the
 * WIRE_ARENA_SIZE bytes of its memory. */
extern struct wp_arena wire_arena;
extern char wire_arena_memory[WIRE_ARENA_SIZE];
extern struct wp_err wire_err;

/* For cmocka, and to begin the next message; state is not used. */
int wire_set_up(void **state);
#define WIRE_TEST(name) cmocka_unit_test_setup(name, wire_set_up)

/* --- At the end of wire_message --- */

void wire_put_byte(unsigned byte);
void wire_put_varint(uint64_t value);
void wire_put_bytes(unsigned field, const void *bytes, size_t len);
void wire_put_text(unsigned field, const char *text);
void wire_put_int(unsigned field, int64_t value);
/* A PoolRef as field `field`; NULL leaves a part out. */
void wire_put_pool(unsigned field, const char *pool_namespace,
                   const char *name);
/* So many times the letter a; until the next call. */
const char *wire_long_text(size_t len);

/* Unpacking wire_message is refused, in words that begin so. */
#define WIRE_EXPECT_REFUSED(name, type, start)                                 \
    do {                                                                       \
        struct type out_;                                                      \
        assert_int_equal(wp_wire_unpack_##name(&wire_arena, wire_message.at,   \
                                               wire_message.len, &out_,        \
                                               &wire_err),                     \
                         WP_INVALID_ARGUMENT);                                 \
        assert_int_equal(wire_err.status, WP_INVALID_ARGUMENT);                \
        if (strncmp(wire_err.msg, start, strlen(start)) != 0) {                \
            fail_msg("'%s' expected, got '%s'", start, wire_err.msg);          \
        }                                                                      \
    } while (0)

/* --- There and back --- */

/* Into wire_packed: as long as foretold, and not a byte more. */
#define WIRE_PACK(name, in)                                                    \
    do {                                                                       \
        size_t size_ = wp_wire_size_##name(in);                                \
        assert_true(size_ < sizeof wire_packed);                               \
        memset(wire_packed, 0xEE, size_ + 1);                                  \
        assert_int_equal(wp_wire_pack_##name(in, wire_packed), size_);         \
        assert_int_equal(wire_packed[size_], 0xEE);                            \
        wire_packed_len = size_;                                               \
    } while (0)

/* From wire_packed. */
#define WIRE_UNPACK(name, out)                                                 \
    do {                                                                       \
        enum wp_status status_ = wp_wire_unpack_##name(                        \
            &wire_arena, wire_packed, wire_packed_len, out, &wire_err);        \
        if (status_ != WP_OK) {                                                \
            fail_msg("%s: %s", #name, wire_err.msg);                           \
        }                                                                      \
    } while (0)

#endif
