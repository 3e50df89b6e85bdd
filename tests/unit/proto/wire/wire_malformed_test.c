/* What is no message, or more than a message: cut, broken, flooded, and of
 * fields that nobody knows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "pool/base/compiler.h"
#include "tests/support/services/wire_rig.h"

static void
test_unknown_fields_are_skipped(void **state)
{
    struct wp_wire_claim_request claim;
    struct wp_wire_get_claim_request get;
    struct wp_wire_batch_request batch;

    (void)state;
    wire_put_int(1000, 7);
    wire_put_pool(1, NULL, "p");
    wire_put_text(15, "new");
    wire_put_text(2, "id");
    wire_put_varint(99 << 3 | 1);
    wire_put_bytes(7, "", 0);
    /* Only its place: a fixed64 of eight bytes follows. */
    wire_message.len -= 2;
    for (int i = 0; i < 8; i++) {
        wire_put_byte(0xFF);
    }
    wire_put_varint(98 << 3 | 5);
    for (int i = 0; i < 4; i++) {
        wire_put_byte(0xFF);
    }
    assert_int_equal(wp_wire_unpack_claim_request(&wire_arena, wire_message.at,
                                                  wire_message.len, &claim,
                                                  &wire_err),
                     WP_OK);
    assert_true(wp_str_is(claim.claim_id, "id"));
    wire_set_up(NULL);
    wire_put_text(1, "id");
    wire_put_text(9, "new");
    wire_put_int(200, -1);
    assert_int_equal(
        wp_wire_unpack_get_claim_request(&wire_arena, wire_message.at,
                                         wire_message.len, &get, &wire_err),
        WP_OK);
    assert_true(wp_str_is(get.claim_id, "id"));
    wire_set_up(NULL);
    wire_put_pool(1, NULL, "p");
    wire_put_text(2, "id");
    wire_put_text(7, "new");
    wire_put_int(8, 7);
    assert_int_equal(wp_wire_unpack_batch_request(&wire_arena, wire_message.at,
                                                  wire_message.len, &batch,
                                                  &wire_err),
                     WP_OK);
    assert_int_equal(batch.n_claims, 1);
}

/* Cut anywhere, a message is either refused or a shorter message; never read
 * past its end (the copy has exactly its size, for the sanitizers). */
static void
test_cut_messages(void **state)
{
    (void)state;
    wire_put_pool(1, "ns", "pool");
    wire_put_text(2, "some-id");
    wire_put_text(3, "tenant");
    wire_put_int(4, 60000);
    wire_put_int(5, 1000);
    for (size_t len = 0; len < wire_message.len; len++) {
        struct wp_wire_claim_request out;
        struct wp_wire_batch_request batch;
        uint8_t *copy = malloc(len > 0 ? len : 1);

        assert_non_null(copy);
        memcpy(copy, wire_message.at, len);
        wp_arena_reset(&wire_arena);
        if (wp_wire_unpack_claim_request(&wire_arena, copy, len, &out,
                                         &wire_err) != WP_OK) {
            assert_true(strlen(wire_err.msg) > 10);
        }
        if (wp_wire_unpack_batch_request(&wire_arena, copy, len, &batch,
                                         &wire_err) != WP_OK) {
            assert_true(strlen(wire_err.msg) > 10);
        }
        free(copy);
    }
}

static void
test_malformed(void **state)
{
    static const struct {
        const char *name;
        const char *bytes;
        size_t len;
    } bad[] = {
        {"field 0", "\x02\x00", 2},
        {"a group", "\x0b\x0c", 2},
        {"wire type 7", "\x0f", 1},
        {"length past the end",
         "\x12\x05"
         "abcd",
         6},
        {"length of 2^63", "\x12\xff\xff\xff\xff\xff\xff\xff\xff\x7f", 10},
        {"varint without end", "\x20\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
         11},
        {"tag too large", "\xff\xff\xff\xff\xff\x0f", 6},
        {"string as number", "\x10\x01", 2},
        {"bare tag", "\x12", 1},
    };

    for (size_t i = 0; i < WP_ARRAY_LEN(bad); i++) {
        (void)wire_set_up(state);
        print_message("%s\n", bad[i].name);
        for (size_t k = 0; k < bad[i].len; k++) {
            wire_put_byte((uint8_t)bad[i].bytes[k]);
        }
        WIRE_EXPECT_REFUSED(claim_request, wp_wire_claim_request,
                            "message: a well-formed warmpool.v1.ClaimRequest");
        WIRE_EXPECT_REFUSED(
            batch_request, wp_wire_batch_request,
            "message: a well-formed warmpool.v1.ClaimBatchRequest");
    }
}

/* Of a message that protobuf-c decodes: it would end the text at the NUL. */
static void
test_nul_is_named(void **state)
{
    (void)state;
    wire_put_bytes(1, "a\0b", 3);
    WIRE_EXPECT_REFUSED(get_claim_request, wp_wire_get_claim_request,
                        "claim_id: text without NUL expected");
    wire_set_up(NULL);
    wire_put_bytes(1, "\x12\x02p\0", 4);
    WIRE_EXPECT_REFUSED(get_pool_request, wp_wire_get_pool_request,
                        "pool.name: text without NUL expected");
}

/* 64 KiB of tiny unknown fields neither crash nor pass the arena's bound. */
static void
test_flood_of_fields(void **state)
{
    struct wp_wire_get_claim_request out;

    (void)state;
    wp_arena_init(&wire_arena, wire_arena_memory, WP_WIRE_ARENA_MIN);
    wire_put_text(1, "id");
    while (wire_message.len < WP_WIRE_MESSAGE_MAX) {
        wire_put_int(9, 1);
    }
    assert_int_equal(
        wp_wire_unpack_get_claim_request(&wire_arena, wire_message.at,
                                         wire_message.len, &out, &wire_err),
        WP_INVALID_ARGUMENT);
    assert_string_equal(wire_err.msg,
                        "message: fewer or shorter fields expected");
    assert_true(wire_arena.used <= WP_WIRE_ARENA_MIN);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        WIRE_TEST(test_unknown_fields_are_skipped),
        WIRE_TEST(test_cut_messages),
        WIRE_TEST(test_malformed),
        WIRE_TEST(test_nul_is_named),
        WIRE_TEST(test_flood_of_fields),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
