/* ClaimStream's messages: there and back, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/services/wire_rig.h"

/* An open, as field 1. */
static void
put_open(uint64_t ahead)
{
    static struct wire_bytes open;

    wire_message.len = 0;
    wire_put_pool(1, NULL, "p");
    wire_put_text(2, "s-1");
    wire_put_int(5, (int64_t)ahead);
    open = wire_message;
    wire_message.len = 0;
    wire_put_bytes(1, open.at, open.len);
}

static void
test_request_round_trip(void **state)
{
    const uint64_t took[] = {1, 300, UINT64_MAX};
    const uint64_t back[] = {2};
    const uint64_t keep[] = {4, 5};
    const struct wp_wire_stream_request in = {
        .has_open = true,
        .open = {.pool = {WP_STR("ns"), WP_STR("p")},
                 .stream_id = WP_STR("s-1"),
                 .tenant = WP_STR("acme"),
                 .ttl_ms = 60000,
                 .ahead = WP_AHEAD_MAX,
                 .resume = true,
                 .keep = keep,
                 .n_keep = 2},
        .took = took,
        .n_took = 3,
        .back = back,
        .n_back = 1,
    };
    struct wp_wire_stream_request out;

    (void)state;
    WIRE_PACK(stream_request, &in);
    WIRE_UNPACK(stream_request, &out);
    assert_true(out.has_open && out.open.resume);
    assert_string_equal(out.open.pool.pool_namespace.ptr, "ns");
    assert_string_equal(out.open.stream_id.ptr, "s-1");
    assert_string_equal(out.open.tenant.ptr, "acme");
    assert_int_equal(out.open.ttl_ms, 60000);
    assert_int_equal(out.open.ahead, WP_AHEAD_MAX);
    assert_int_equal(out.open.n_keep, 2);
    assert_memory_equal(out.open.keep, keep, sizeof keep);
    assert_int_equal(out.n_took, 3);
    assert_memory_equal(out.took, took, sizeof took);
    assert_int_equal(out.n_back, 1);
    assert_int_equal(out.back[0], 2);
}

static void
test_response_round_trip(void **state)
{
    struct wp_grant grant = {.fence = 7,
                             .deadline_wall_ms = 99,
                             .served = WP_SERVED_WARM,
                             .pool = "p",
                             .pool_namespace = "default",
                             .sandbox = "p-abcdefgh",
                             .endpoint = "unix:/s"};
    const struct wp_wire_lease_ahead leases[] = {
        {1, WP_STR("s-1/1"), &grant},
        {UINT64_MAX, WP_STR("s-1/2"), &grant},
    };
    const uint64_t numbers[] = {5, 6};
    const struct wp_wire_stream_response in = {
        .leases = leases,
        .n_leases = 2,
        .taken = numbers,
        .n_taken = 2,
        .ended = numbers,
        .n_ended = 1,
        .lacking_code = 8,
        .lacking = WP_STR("no sandbox is ready"),
    };
    struct wp_wire_stream_response out;

    (void)state;
    WIRE_PACK(stream_response, &in);
    WIRE_UNPACK(stream_response, &out);
    assert_int_equal(out.n_leases, 2);
    assert_true(out.leases[1].number == UINT64_MAX);
    assert_string_equal(out.leases[1].claim_id.ptr, "s-1/2");
    assert_string_equal(out.leases[0].grant->sandbox, "p-abcdefgh");
    assert_int_equal(out.n_taken, 2);
    assert_int_equal(out.taken[1], 6);
    assert_int_equal(out.n_ended, 1);
    assert_int_equal(out.lacking_code, 8);
    assert_string_equal(out.lacking.ptr, "no sandbox is ready");
}

/* Old protobufs put each number into a field of its own. */
static void
test_numbers_that_are_not_packed(void **state)
{
    struct wp_wire_stream_request out;

    (void)state;
    wire_put_int(2, 8);
    wire_put_int(2, 9);
    assert_int_equal(wp_wire_unpack_stream_request(&wire_arena, wire_message.at,
                                                   wire_message.len, &out,
                                                   &wire_err),
                     WP_OK);
    assert_int_equal(out.n_took, 2);
    assert_int_equal(out.took[1], 9);
    assert_false(out.has_open);
}

static void
test_open_is_checked(void **state)
{
    (void)state;
    put_open(0);
    WIRE_EXPECT_REFUSED(stream_request, wp_wire_stream_request,
                        "ahead: 1 to 256 expected, got 0");
    put_open(UINT64_C(1) << 40);
    WIRE_EXPECT_REFUSED(stream_request, wp_wire_stream_request,
                        "ahead: 1 to 256 expected");
    wire_message.len = 0;
    wire_put_bytes(1, "", 0); /* An open without anything. */
    WIRE_EXPECT_REFUSED(stream_request, wp_wire_stream_request, "pool");
}

static void
test_lists_are_bounded(void **state)
{
    struct wp_wire_stream_request out;

    (void)state;
    for (int i = 0; i < WP_AHEAD_MAX; i++) {
        wire_put_int(2, 1000 + i);
        wire_put_int(3, 2000 + i);
    }
    assert_int_equal(wp_wire_unpack_stream_request(&wire_arena, wire_message.at,
                                                   wire_message.len, &out,
                                                   &wire_err),
                     WP_OK);
    assert_int_equal(out.n_took, WP_AHEAD_MAX);
    assert_int_equal(out.n_back, WP_AHEAD_MAX);
    assert_int_equal(out.took[WP_AHEAD_MAX - 1], 1000 + WP_AHEAD_MAX - 1);
    assert_int_equal(out.back[WP_AHEAD_MAX - 1], 2000 + WP_AHEAD_MAX - 1);
    for (unsigned field = 2; field <= 3; field++) {
        wire_message.len = 0;
        for (int i = 0; i < WP_AHEAD_MAX + 1; i++) {
            wire_put_int(field, 1000 + i);
        }
        WIRE_EXPECT_REFUSED(
            stream_request, wp_wire_stream_request,
            field == 2 ? "took: at most 256 numbers expected, got 257"
                       : "back: at most 256 numbers expected, got 257");
    }
    wire_message.len = 0;
    wire_put_bytes(3, "\xff", 1); /* Half a number. */
    WIRE_EXPECT_REFUSED(stream_request, wp_wire_stream_request,
                        "message: a well-formed "
                        "warmpool.v1.ClaimStreamRequest expected");
    wire_message.len = 0;
    wire_put_bytes(1, "\x39\0\0\0\0\0\0\0\0", 9); /* keep as fixed64 */
    WIRE_EXPECT_REFUSED(stream_request, wp_wire_stream_request,
                        "message: a well-formed "
                        "warmpool.v1.ClaimStreamRequest expected");
}

/* The longest valid request fits into the arena that is meant for it. */
static void
test_arena_suffices(void **state)
{
    static uint64_t numbers[WP_AHEAD_MAX];
    struct wp_wire_stream_request in = {
        .took = numbers,
        .n_took = WP_AHEAD_MAX,
        .back = numbers,
        .n_back = WP_AHEAD_MAX,
    };
    struct wp_wire_stream_request out;

    (void)state;
    memset(numbers, 0xff, sizeof numbers);
    wp_arena_init(&wire_arena, wire_arena_memory, WP_WIRE_ARENA_STREAM);
    in.has_open = true;
    in.open = (struct wp_wire_stream_open){
        .pool = {wp_str_from(""), WP_STR("p")},
        .stream_id = {wire_long_text(WP_STREAM_ID_MAX), WP_STREAM_ID_MAX},
        .ahead = 1,
        .keep = numbers,
        .n_keep = WP_AHEAD_MAX,
    };
    WIRE_PACK(stream_request, &in);
    WIRE_UNPACK(stream_request, &out);
    assert_int_equal(out.open.n_keep, WP_AHEAD_MAX);
}

static void
test_bad_responses(void **state)
{
    (void)state;
    wire_put_bytes(1, "\x08\x01", 2); /* A number without its lease. */
    WIRE_EXPECT_REFUSED(stream_response, wp_wire_stream_response,
                        "leases.lease: a lease expected, got none");
    wire_message.len = 0;
    for (int i = 0; i < 2 * WP_AHEAD_MAX + 1; i++) {
        wire_put_int(2, 5);
    }
    WIRE_EXPECT_REFUSED(stream_response, wp_wire_stream_response,
                        "taken, ended: at most 512 numbers each expected");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        WIRE_TEST(test_request_round_trip),
        WIRE_TEST(test_response_round_trip),
        WIRE_TEST(test_numbers_that_are_not_packed),
        WIRE_TEST(test_open_is_checked),
        WIRE_TEST(test_lists_are_bounded),
        WIRE_TEST(test_arena_suffices),
        WIRE_TEST(test_bad_responses),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
