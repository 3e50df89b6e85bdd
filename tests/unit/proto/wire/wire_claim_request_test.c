/* Requests of claims and leases, byte by byte: whatever breaks the contract is
 * refused with a sentence that names the field, and nothing else is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "pool/base/compiler.h"
#include "tests/support/services/wire_rig.h"

/* --- ClaimRequest --- */

/* One way to break a ClaimRequest, and what is said about it. */
struct bad_claim {
    const char *name;
    const char *pool_namespace;
    const char *pool;
    const char *claim_id;
    size_t claim_id_len; /* 0: strlen. */
    const char *tenant;
    int64_t ttl_ms;
    int64_t wait_ms;
    const char *says;
};

static char text_129[130];
static char text_64[65];

static void
test_claim_request_bad_fields(void **state)
{
    const struct bad_claim bad[] = {
        {"no pool name", "default", NULL, "c", 0, "", 0, 0,
         "pool.name: 1 to 54 characters expected, got 0"},
        {"pool name too long", NULL, wire_long_text(55), "c", 0, "", 0, 0,
         "pool.name: 1 to 54 characters expected, got 55"},
        {"pool name not DNS", NULL, "Agents_1", "c", 0, "", 0, 0,
         "pool.name: a DNS name expected"},
        {"namespace not DNS", "a/b", "p", "c", 0, "", 0, 0,
         "pool.namespace: a DNS name expected"},
        {"namespace too long", text_64, "p", "c", 0, "", 0, 0,
         "pool.namespace: 1 to 63 characters expected, got 64"},
        {"empty id", NULL, "p", "", 0, "", 0, 0,
         "claim_id: 1 to 128 bytes expected, got 0"},
        {"id too long", NULL, "p", text_129, 0, "", 0, 0,
         "claim_id: 1 to 128 bytes expected, got 129"},
        {"NUL in id", NULL, "p", "a\0b", 3, "", 0, 0,
         "claim_id: UTF-8 without control characters expected"},
        {"NUL at the end of id", NULL, "p", "ab\0", 3, "", 0, 0,
         "claim_id: UTF-8 without control characters expected"},
        {"newline in id", NULL, "p", "a\nb", 0, "", 0, 0,
         "claim_id: UTF-8 without control characters expected"},
        {"DEL in id", NULL, "p", "1234567\x7f", 0, "", 0, 0,
         "claim_id: UTF-8 without control characters expected"},
        {"bad UTF-8 in id", NULL, "p", "a\xC0\xAF", 0, "", 0, 0,
         "claim_id: UTF-8 without control characters expected"},
        {"surrogate in id", NULL, "p", "\xED\xA0\x80", 0, "", 0, 0,
         "claim_id: UTF-8 without control characters expected"},
        {"tenant too long", NULL, "p", "c", 0, text_64, 0, 0,
         "tenant: 0 to 63 bytes expected, got 64"},
        {"bad UTF-8 in tenant", NULL, "p", "c", 0, "\xff", 0, 0,
         "tenant: UTF-8 without control characters expected"},
        {"negative TTL", NULL, "p", "c", 0, "", -1, 0,
         "ttl_ms: 0 (the pool's default) or 1000 to 2592000000 expected, got "
         "-1"},
        {"TTL too short", NULL, "p", "c", 0, "", 999, 0, "ttl_ms: 0 (the"},
        {"TTL absurd", NULL, "p", "c", 0, "", INT64_MAX, 0, "ttl_ms: 0 (the"},
        {"TTL over 30 days", NULL, "p", "c", 0, "", 2592000001, 0,
         "ttl_ms: 0 (the"},
        {"negative wait", NULL, "p", "c", 0, "", 0, -5,
         "wait_ms: 0 to 600000 expected, got -5"},
        {"wait too long", NULL, "p", "c", 0, "", 0, INT64_MIN,
         "wait_ms: 0 to 600000 expected"},
        {"wait over ten minutes", NULL, "p", "c", 0, "", 0, 600001,
         "wait_ms: 0 to 600000 expected, got 600001"},
    };

    memset(text_129, 'x', 129);
    memset(text_64, 'x', 64);
    for (size_t i = 0; i < WP_ARRAY_LEN(bad); i++) {
        (void)wire_set_up(state);
        wire_put_pool(1, bad[i].pool_namespace, bad[i].pool);
        wire_put_bytes(2, bad[i].claim_id,
                       bad[i].claim_id_len != 0 ? bad[i].claim_id_len
                                                : strlen(bad[i].claim_id));
        wire_put_text(3, bad[i].tenant);
        wire_put_int(4, bad[i].ttl_ms);
        wire_put_int(5, bad[i].wait_ms);
        print_message("%s\n", bad[i].name);
        WIRE_EXPECT_REFUSED(claim_request, wp_wire_claim_request, bad[i].says);
    }
}

static void
test_claim_request_without_pool(void **state)
{
    (void)state;
    WIRE_EXPECT_REFUSED(claim_request, wp_wire_claim_request,
                        "pool: the name of a pool expected, got none");
    wire_put_text(2, "id");
    WIRE_EXPECT_REFUSED(claim_request, wp_wire_claim_request, "pool: the name");
}

static void
test_claim_request_defaults(void **state)
{
    struct wp_wire_claim_request out;

    (void)state;
    wire_put_pool(1, NULL, "p");
    wire_put_text(2, "id");
    assert_int_equal(wp_wire_unpack_claim_request(&wire_arena, wire_message.at,
                                                  wire_message.len, &out,
                                                  &wire_err),
                     WP_OK);
    assert_true(wp_str_is(out.pool.pool_namespace, "default"));
    assert_true(wp_str_is(out.pool.name, "p"));
    assert_true(wp_str_is(out.claim_id, "id"));
    assert_string_equal(out.claim_id.ptr, "id");
    assert_int_equal(out.tenant.len, 0);
    assert_int_equal(out.ttl_ms, 0);
    assert_int_equal(out.wait_ms, 0);
}

/* The longest of everything, in UTF-8, is taken; the request may be gone after
 * unpacking. */
static void
test_claim_request_longest(void **state)
{
    struct wp_wire_claim_request out;
    char id[129];

    (void)state;
    for (size_t i = 0; i < 128; i += 4) {
        memcpy(id + i, "\xF0\x9F\x98\x80", 4);
    }
    id[128] = '\0';
    wire_put_pool(1, wire_long_text(63), NULL);
    wire_put_pool(1, NULL,
                  wire_long_text(54)); /* Merged with the one before. */
    wire_put_text(2, "overruled by the next");
    wire_put_text(2, id);
    wire_put_text(3, wire_long_text(63));
    wire_put_int(4, 2592000000);
    wire_put_int(5, 600000);
    assert_int_equal(wp_wire_unpack_claim_request(&wire_arena, wire_message.at,
                                                  wire_message.len, &out,
                                                  &wire_err),
                     WP_OK);
    memset(wire_message.at, 0xEE, sizeof wire_message.at);
    assert_string_equal(out.pool.pool_namespace.ptr, wire_long_text(63));
    assert_string_equal(out.pool.name.ptr, wire_long_text(54));
    assert_string_equal(out.claim_id.ptr, id);
    assert_string_equal(out.tenant.ptr, wire_long_text(63));
    assert_int_equal(out.ttl_ms, 2592000000);
    assert_int_equal(out.wait_ms, 600000);
}

/* --- ClaimBatchRequest --- */

static void
put_batch_ids(uint32_t n, size_t id_len)
{
    for (uint32_t i = 0; i < n; i++) {
        char id[129];

        memset(id, 'x', id_len);
        (void)snprintf(id, sizeof id, "%08u", i);
        id[8] = 'x';
        wire_put_bytes(2, id, id_len);
    }
}

static void
test_batch_longest(void **state)
{
    struct wp_wire_batch_request out;

    (void)state;
    wp_arena_init(&wire_arena, wire_arena_memory, WP_WIRE_ARENA_BATCH);
    wire_put_pool(1, wire_long_text(63), NULL);
    wire_put_pool(1, NULL, wire_long_text(54));
    put_batch_ids(256, 128);
    wire_put_text(3, wire_long_text(63));
    wire_put_int(6, 1);
    assert_int_equal(wp_wire_unpack_batch_request(&wire_arena, wire_message.at,
                                                  wire_message.len, &out,
                                                  &wire_err),
                     WP_OK);
    assert_int_equal(out.n_claims, 256);
    assert_true(out.all_or_nothing);
    for (uint32_t i = 0; i < 256; i++) {
        assert_int_equal(out.claim_ids[i].len, 128);
        assert_int_equal(atoi(out.claim_ids[i].ptr), i);
    }
}

static void
test_batch_counts(void **state)
{
    (void)state;
    wire_put_pool(1, NULL, "p");
    WIRE_EXPECT_REFUSED(batch_request, wp_wire_batch_request,
                        "claim_ids: 1 to 256 ids expected, got 0");
    put_batch_ids(257, 16);
    WIRE_EXPECT_REFUSED(batch_request, wp_wire_batch_request,
                        "claim_ids: 1 to 256 ids expected, got 257");
    wire_set_up(NULL);
    wire_put_pool(1, NULL, "p");
    put_batch_ids(3000, 16);
    WIRE_EXPECT_REFUSED(batch_request, wp_wire_batch_request,
                        "claim_ids: 1 to 256 ids expected, got 3000");
}

static void
test_batch_duplicates(void **state)
{
    (void)state;
    wire_put_pool(1, NULL, "p");
    put_batch_ids(200, 20);
    wire_put_text(2, "twice");
    put_batch_ids(0, 0);
    wire_put_text(2, "twice");
    WIRE_EXPECT_REFUSED(batch_request, wp_wire_batch_request,
                        "claim_ids[201]: an id used once expected, it is also "
                        "claim_ids[200]");
    wire_set_up(NULL);
    wire_put_pool(1, NULL, "p");
    wire_put_text(2, "good");
    wire_put_text(2, "");
    WIRE_EXPECT_REFUSED(batch_request, wp_wire_batch_request,
                        "claim_ids[1]: 1 to 128 bytes expected, got 0");
    wire_set_up(NULL);
    wire_put_pool(1, NULL, "p");
    wire_put_text(2, "good");
    wire_put_bytes(2, "n\0l", 3);
    WIRE_EXPECT_REFUSED(
        batch_request, wp_wire_batch_request,
        "claim_ids[1]: UTF-8 without control characters expected");
}

/* --- The others --- */

static void
test_tokens(void **state)
{
    static const size_t bad_len[] = {0, 1, 67, 69, 4096};
    struct wp_wire_release_request release;
    struct wp_wire_renew_request renew;
    uint8_t token[4096];

    memset(token, 0xA5, sizeof token);
    token[3] = 0; /* Any byte is good in a token. */
    for (size_t i = 0; i < WP_ARRAY_LEN(bad_len); i++) {
        (void)wire_set_up(state);
        wire_put_bytes(1, token, bad_len[i]);
        WIRE_EXPECT_REFUSED(
            release_request, wp_wire_release_request,
            "token: the 68 bytes of a lease's token expected, got");
        WIRE_EXPECT_REFUSED(
            renew_request, wp_wire_renew_request,
            "token: the 68 bytes of a lease's token expected, got");
    }
    (void)wire_set_up(state);
    wire_put_bytes(1, token, WP_TOKEN_LEN);
    assert_int_equal(
        wp_wire_unpack_release_request(&wire_arena, wire_message.at,
                                       wire_message.len, &release, &wire_err),
        WP_OK);
    assert_memory_equal(release.token, token, WP_TOKEN_LEN);
    wire_put_int(2, 5000);
    assert_int_equal(wp_wire_unpack_renew_request(&wire_arena, wire_message.at,
                                                  wire_message.len, &renew,
                                                  &wire_err),
                     WP_OK);
    assert_memory_equal(renew.token, token, WP_TOKEN_LEN);
    assert_int_equal(renew.ttl_ms, 5000);
    wire_put_int(2, -5000);
    WIRE_EXPECT_REFUSED(renew_request, wp_wire_renew_request, "ttl_ms: 0 (the");
    assert_int_equal(
        wp_wire_unpack_release_request(NULL, NULL, 0, &release, &wire_err),
        WP_INVALID_ARGUMENT);
}

static void
test_list_claims_request(void **state)
{
    struct wp_wire_list_claims_request out;

    (void)state;
    assert_int_equal(wp_wire_unpack_list_claims_request(
                         &wire_arena, wire_message.at, 0, &out, &wire_err),
                     WP_OK);
    assert_int_equal(out.page_size, 100);
    assert_int_equal(out.pool.name.len, 0);
    wire_put_int(3, -1);
    WIRE_EXPECT_REFUSED(list_claims_request, wp_wire_list_claims_request,
                        "page_size: 0 to 1000 expected, got -1");
    wire_put_int(3, 1001);
    WIRE_EXPECT_REFUSED(list_claims_request, wp_wire_list_claims_request,
                        "page_size: 0 to 1000 expected, got 1001");
    wire_set_up(NULL);
    wire_put_text(4, wire_long_text(65));
    WIRE_EXPECT_REFUSED(list_claims_request, wp_wire_list_claims_request,
                        "page_token: 0 to 64 bytes expected, got 65");
    wire_set_up(NULL);
    wire_put_pool(1, "ns", NULL); /* A namespace alone names no pool. */
    WIRE_EXPECT_REFUSED(list_claims_request, wp_wire_list_claims_request,
                        "pool.name: 1 to 54 characters expected, got 0");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        WIRE_TEST(test_claim_request_bad_fields),
        WIRE_TEST(test_claim_request_without_pool),
        WIRE_TEST(test_claim_request_defaults),
        WIRE_TEST(test_claim_request_longest),
        WIRE_TEST(test_batch_longest),
        WIRE_TEST(test_batch_counts),
        WIRE_TEST(test_batch_duplicates),
        WIRE_TEST(test_tokens),
        WIRE_TEST(test_list_claims_request),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
