/* Requests of PoolAdmin, byte by byte: whatever breaks the contract is refused
 * with a sentence that names the field, and nothing else is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/services/wire_rig.h"

/* An entry of a map of texts. */
static void
put_entry(unsigned field, const char *key, const char *value)
{
    static uint8_t entry[4096];
    size_t lens[] = {strlen(key), strlen(value)};
    const char *texts[] = {key, value};
    size_t at = 0;

    for (unsigned i = 0; i < 2; i++) {
        entry[at++] = (uint8_t)((i + 1) << 3 | 2);
        entry[at++] = (uint8_t)(lens[i] % 128 | (lens[i] > 127 ? 0x80 : 0));
        if (lens[i] > 127) {
            entry[at++] = (uint8_t)(lens[i] / 128);
        }
        memcpy(entry + at, texts[i], lens[i]);
        at += lens[i];
    }
    wire_put_bytes(field, (const char *)entry, at);
}

static void
test_admin_requests(void **state)
{
    struct wp_wire_drain_request drain;
    struct wp_wire_set_pool_request set;

    (void)state;
    wire_put_pool(1, NULL, "p");
    wire_put_int(2, 1048577);
    WIRE_EXPECT_REFUSED(set_pool_request, wp_wire_set_pool_request,
                        "target: 0 to 1048576 expected, got 1048577");
    wire_set_up(NULL);
    wire_put_pool(1, NULL, "p");
    for (int i = 0; i < 13; i++) {
        wire_put_bytes(3, "\x0a\x03min", 5);
    }
    WIRE_EXPECT_REFUSED(set_pool_request, wp_wire_set_pool_request,
                        "autoscale: 0 to 12 expected, got 13");
    wire_set_up(NULL);
    wire_put_pool(1, NULL, "p");
    put_entry(3, "schedule", wire_long_text(1529));
    WIRE_EXPECT_REFUSED(set_pool_request, wp_wire_set_pool_request,
                        "autoscale: bytes: 0 to 1536 expected, got 1537");
    /* The longest that there may be fits into the smallest arena. */
    wire_set_up(NULL);
    wp_arena_init(&wire_arena, wire_arena_memory, WP_WIRE_ARENA_MIN);
    wire_put_pool(1, wire_long_text(63), NULL);
    wire_put_pool(1, NULL, wire_long_text(54));
    put_entry(3, "schedule", wire_long_text(1506));
    for (int i = 0; i < 11; i++) {
        put_entry(3, "a", "b");
    }
    assert_int_equal(
        wp_wire_unpack_set_pool_request(&wire_arena, wire_message.at,
                                        wire_message.len, &set, &wire_err),
        WP_OK);
    assert_int_equal(set.n_autoscale, 12);
    assert_false(set.has_target);
    wire_set_up(NULL);
    wire_put_int(2, 3600001);
    WIRE_EXPECT_REFUSED(drain_request, wp_wire_drain_request,
                        "grace_ms: 0 to 3600000 expected, got 3600001");
    wire_set_up(NULL);
    wire_put_int(2, -1);
    WIRE_EXPECT_REFUSED(drain_request, wp_wire_drain_request,
                        "grace_ms: 0 to 3600000 expected, got -1");
    wire_set_up(NULL);
    wire_put_pool(1, NULL, "p");
    wire_put_int(2, 10);
    WIRE_EXPECT_REFUSED(drain_request, wp_wire_drain_request,
                        "grace_ms: 0 expected when one pool is drained");
    wire_set_up(NULL);
    wire_put_int(3, 1);
    WIRE_EXPECT_REFUSED(drain_request, wp_wire_drain_request,
                        "undo: false expected when the whole daemon is "
                        "drained");
    wire_set_up(NULL);
    assert_int_equal(wp_wire_unpack_drain_request(&wire_arena, wire_message.at,
                                                  0, &drain, &wire_err),
                     WP_OK);
    assert_int_equal(drain.pool.name.len, 0);
    WIRE_EXPECT_REFUSED(get_pool_request, wp_wire_get_pool_request,
                        "pool: the name of a pool expected, got none");
}

static void
test_pools_that_come_and_go(void **state)
{
    static char text[WP_WIRE_MANIFEST_MAX + 2];
    static char memory[WP_WIRE_ARENA_BATCH];
    struct wp_wire_create_pool_request create;

    (void)state;
    WIRE_EXPECT_REFUSED(create_pool_request, wp_wire_create_pool_request,
                        "manifest: a SandboxWarmPool expected, got nothing");
    wire_set_up(NULL);
    WIRE_EXPECT_REFUSED(delete_pool_request, wp_wire_delete_pool_request,
                        "pool: the name of a pool expected, got none");
    memset(text, 'x', sizeof text - 1);
    for (size_t over = 0; over < 2; over++) {
        const struct wp_wire_create_pool_request request = {
            {text + 1 - over, WP_WIRE_MANIFEST_MAX + over}};
        static uint8_t bytes[WP_WIRE_MESSAGE_MAX];
        size_t len = wp_wire_size_create_pool_request(&request);

        assert_true(len <= sizeof bytes);
        (void)wp_wire_pack_create_pool_request(&request, bytes);
        wp_arena_init(&wire_arena, memory, sizeof memory);
        assert_int_equal(wp_wire_unpack_create_pool_request(
                             &wire_arena, bytes, len, &create, &wire_err),
                         over == 0 ? WP_OK : WP_INVALID_ARGUMENT);
    }
    assert_string_equal(wire_err.msg,
                        "manifest: at most 60000 bytes expected, got 60001");
}

static void
put_reservation(int64_t sandboxes, int64_t from_ms, int64_t until_ms)
{
    wire_set_up(NULL);
    wire_put_pool(1, NULL, "p");
    wire_put_text(2, "job");
    wire_put_int(3, sandboxes);
    wire_put_int(4, from_ms);
    wire_put_int(5, until_ms);
}

static void
test_reservations(void **state)
{
    const char *span = "until_unix_ms: later than not_before_unix_ms, and "
                       "within 31 days of it, expected";

    (void)state;
    WIRE_EXPECT_REFUSED(reserve_request, wp_wire_reserve_request,
                        "pool: the name of a pool expected, got none");
    wire_set_up(NULL);
    wire_put_pool(1, NULL, "p");
    WIRE_EXPECT_REFUSED(reserve_request, wp_wire_reserve_request,
                        "id: 1 to 63 bytes expected, got 0");
    WIRE_EXPECT_REFUSED(cancel_reservation_request,
                        wp_wire_cancel_reservation_request,
                        "id: 1 to 63 bytes expected, got 0");
    wire_put_text(2, wire_long_text(64));
    WIRE_EXPECT_REFUSED(reserve_request, wp_wire_reserve_request,
                        "id: 1 to 63 bytes expected, got 64");
    put_reservation(0, 1, 2);
    WIRE_EXPECT_REFUSED(reserve_request, wp_wire_reserve_request,
                        "sandboxes: 1 to 1048576 expected, got 0");
    put_reservation(1048577, 1, 2);
    WIRE_EXPECT_REFUSED(reserve_request, wp_wire_reserve_request,
                        "sandboxes: 1 to 1048576 expected, got 1048577");
    put_reservation(1, -1, 2);
    WIRE_EXPECT_REFUSED(
        reserve_request, wp_wire_reserve_request,
        "not_before_unix_ms: 0 to 9223372036854 expected, got -1");
    put_reservation(1, 1, INT64_MAX);
    WIRE_EXPECT_REFUSED(reserve_request, wp_wire_reserve_request,
                        "until_unix_ms: 1 to 9223372036854 expected");
    put_reservation(1, 5, 5);
    WIRE_EXPECT_REFUSED(reserve_request, wp_wire_reserve_request, span);
    put_reservation(1, 5, 5 + 31 * INT64_C(86400000) + 1);
    WIRE_EXPECT_REFUSED(reserve_request, wp_wire_reserve_request, span);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        WIRE_TEST(test_admin_requests),
        WIRE_TEST(test_pools_that_come_and_go),
        WIRE_TEST(test_reservations),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
