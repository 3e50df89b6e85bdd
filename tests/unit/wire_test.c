/* Requests, byte by byte: whatever breaks the contract is refused with a
 * sentence that names the field, and nothing else is. */
#include <setjmp.h>
#include <stdalign.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pool/base/compiler.h"
#include "proto/wire.h"
#include "proto/wire_health.h"
#include "proto/wire_reflection.h"

enum {
    BUF_MAX = 1 << 20,
};

/* A message being written by hand, independently of what is tested. */
struct bytes {
    uint8_t at[WP_WIRE_MESSAGE_MAX * 2];
    size_t len;
};

static struct bytes message;
static alignas(max_align_t) char arena_memory[4 * BUF_MAX];
static struct wp_arena arena;
static struct wp_err err;

static int
setup(void **state)
{
    (void)state;
    message.len = 0;
    wp_arena_init(&arena, arena_memory, sizeof arena_memory);
    memset(&err, 0, sizeof err);
    return 0;
}

static void
put_byte(unsigned byte)
{
    assert_true(message.len < sizeof message.at);
    message.at[message.len++] = (uint8_t)byte;
}

static void
put_varint(uint64_t value)
{
    for (; value >= 0x80; value >>= 7) {
        put_byte((unsigned)(value & 0x7F) | 0x80);
    }
    put_byte((unsigned)value);
}

static void
put_bytes(unsigned field, const void *bytes, size_t len)
{
    put_varint((uint64_t)field << 3 | 2);
    put_varint(len);
    for (size_t i = 0; i < len; i++) {
        put_byte(((const uint8_t *)bytes)[i]);
    }
}

static void
put_text(unsigned field, const char *text)
{
    put_bytes(field, text, strlen(text));
}

static void
put_int(unsigned field, int64_t value)
{
    put_varint((uint64_t)field << 3);
    put_varint((uint64_t)value);
}

/* A PoolRef as field `field`; NULL leaves a part out. */
static void
put_pool(unsigned field, const char *pool_namespace, const char *name)
{
    struct bytes outer = message;

    message.len = 0;
    if (pool_namespace != NULL) {
        put_text(1, pool_namespace);
    }
    if (name != NULL) {
        put_text(2, name);
    }
    uint8_t inner[512];
    size_t len = message.len;
    assert_true(len <= sizeof inner);
    memcpy(inner, message.at, len);
    message = outer;
    put_bytes(field, inner, len);
}

static const char *
long_text(size_t len)
{
    static char text[2048];

    assert_true(len < sizeof text);
    memset(text, 'a', len);
    text[len] = '\0';
    return text;
}

#define EXPECT_REFUSED(name, type, start)                                      \
    do {                                                                       \
        struct type out_;                                                      \
        assert_int_equal(wp_wire_unpack_##name(&arena, message.at,             \
                                               message.len, &out_, &err),      \
                         WP_INVALID_ARGUMENT);                                 \
        assert_int_equal(err.status, WP_INVALID_ARGUMENT);                     \
        if (strncmp(err.msg, start, strlen(start)) != 0) {                     \
            fail_msg("'%s' expected, got '%s'", start, err.msg);               \
        }                                                                      \
    } while (0)

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
        {"pool name too long", NULL, long_text(55), "c", 0, "", 0, 0,
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
        (void)setup(state);
        put_pool(1, bad[i].pool_namespace, bad[i].pool);
        put_bytes(2, bad[i].claim_id,
                  bad[i].claim_id_len != 0 ? bad[i].claim_id_len
                                           : strlen(bad[i].claim_id));
        put_text(3, bad[i].tenant);
        put_int(4, bad[i].ttl_ms);
        put_int(5, bad[i].wait_ms);
        print_message("%s\n", bad[i].name);
        EXPECT_REFUSED(claim_request, wp_wire_claim_request, bad[i].says);
    }
}

static void
test_claim_request_without_pool(void **state)
{
    (void)state;
    EXPECT_REFUSED(claim_request, wp_wire_claim_request,
                   "pool: the name of a pool expected, got none");
    put_text(2, "id");
    EXPECT_REFUSED(claim_request, wp_wire_claim_request, "pool: the name");
}

static void
test_claim_request_defaults(void **state)
{
    struct wp_wire_claim_request out;

    (void)state;
    put_pool(1, NULL, "p");
    put_text(2, "id");
    assert_int_equal(wp_wire_unpack_claim_request(&arena, message.at,
                                                  message.len, &out, &err),
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
    put_pool(1, long_text(63), NULL);
    put_pool(1, NULL, long_text(54)); /* Merged with the one before. */
    put_text(2, "overruled by the next");
    put_text(2, id);
    put_text(3, long_text(63));
    put_int(4, 2592000000);
    put_int(5, 600000);
    assert_int_equal(wp_wire_unpack_claim_request(&arena, message.at,
                                                  message.len, &out, &err),
                     WP_OK);
    memset(message.at, 0xEE, sizeof message.at);
    assert_string_equal(out.pool.pool_namespace.ptr, long_text(63));
    assert_string_equal(out.pool.name.ptr, long_text(54));
    assert_string_equal(out.claim_id.ptr, id);
    assert_string_equal(out.tenant.ptr, long_text(63));
    assert_int_equal(out.ttl_ms, 2592000000);
    assert_int_equal(out.wait_ms, 600000);
}

static void
test_unknown_fields_are_skipped(void **state)
{
    struct wp_wire_claim_request claim;
    struct wp_wire_get_claim_request get;

    (void)state;
    put_int(1000, 7);
    put_pool(1, NULL, "p");
    put_text(15, "new");
    put_text(2, "id");
    put_varint(99 << 3 | 1);
    put_bytes(7, "", 0);
    message.len -= 2; /* Only its place: a fixed64 of eight bytes follows. */
    for (int i = 0; i < 8; i++) {
        put_byte(0xFF);
    }
    put_varint(98 << 3 | 5);
    for (int i = 0; i < 4; i++) {
        put_byte(0xFF);
    }
    assert_int_equal(wp_wire_unpack_claim_request(&arena, message.at,
                                                  message.len, &claim, &err),
                     WP_OK);
    assert_true(wp_str_is(claim.claim_id, "id"));
    setup(NULL);
    put_text(1, "id");
    put_text(9, "new");
    put_int(200, -1);
    assert_int_equal(wp_wire_unpack_get_claim_request(&arena, message.at,
                                                      message.len, &get, &err),
                     WP_OK);
    assert_true(wp_str_is(get.claim_id, "id"));
}

/* Cut anywhere, a message is either refused or a shorter message; never read
 * past its end (the copy has exactly its size, for the sanitizers). */
static void
test_cut_messages(void **state)
{
    (void)state;
    put_pool(1, "ns", "pool");
    put_text(2, "some-id");
    put_text(3, "tenant");
    put_int(4, 60000);
    put_int(5, 1000);
    for (size_t len = 0; len < message.len; len++) {
        struct wp_wire_claim_request out;
        struct wp_wire_batch_request batch;
        uint8_t *copy = malloc(len > 0 ? len : 1);

        assert_non_null(copy);
        memcpy(copy, message.at, len);
        wp_arena_reset(&arena);
        if (wp_wire_unpack_claim_request(&arena, copy, len, &out, &err) !=
            WP_OK) {
            assert_true(strlen(err.msg) > 10);
        }
        if (wp_wire_unpack_batch_request(&arena, copy, len, &batch, &err) !=
            WP_OK) {
            assert_true(strlen(err.msg) > 10);
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
        (void)setup(state);
        print_message("%s\n", bad[i].name);
        for (size_t k = 0; k < bad[i].len; k++) {
            put_byte((uint8_t)bad[i].bytes[k]);
        }
        EXPECT_REFUSED(claim_request, wp_wire_claim_request,
                       "message: a well-formed warmpool.v1.ClaimRequest");
        EXPECT_REFUSED(batch_request, wp_wire_batch_request,
                       "message: a well-formed warmpool.v1.ClaimBatchRequest");
    }
}

/* Of a message that protobuf-c decodes: it would end the text at the NUL. */
static void
test_nul_is_named(void **state)
{
    (void)state;
    put_bytes(1, "a\0b", 3);
    EXPECT_REFUSED(get_claim_request, wp_wire_get_claim_request,
                   "claim_id: text without NUL expected");
    setup(NULL);
    put_bytes(1, "\x12\x02p\0", 4);
    EXPECT_REFUSED(get_pool_request, wp_wire_get_pool_request,
                   "pool.name: text without NUL expected");
}

/* 64 KiB of tiny unknown fields neither crash nor pass the arena's bound. */
static void
test_flood_of_fields(void **state)
{
    struct wp_wire_get_claim_request out;

    (void)state;
    wp_arena_init(&arena, arena_memory, WP_WIRE_ARENA_MIN);
    put_text(1, "id");
    while (message.len < WP_WIRE_MESSAGE_MAX) {
        put_int(9, 1);
    }
    assert_int_equal(wp_wire_unpack_get_claim_request(&arena, message.at,
                                                      message.len, &out, &err),
                     WP_INVALID_ARGUMENT);
    assert_string_equal(err.msg, "message: fewer or shorter fields expected");
    assert_true(arena.used <= WP_WIRE_ARENA_MIN);
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
        put_bytes(2, id, id_len);
    }
}

static void
test_batch_longest(void **state)
{
    struct wp_wire_batch_request out;

    (void)state;
    wp_arena_init(&arena, arena_memory, WP_WIRE_ARENA_BATCH);
    put_pool(1, long_text(63), NULL);
    put_pool(1, NULL, long_text(54));
    put_batch_ids(256, 128);
    put_text(3, long_text(63));
    put_int(6, 1);
    assert_int_equal(wp_wire_unpack_batch_request(&arena, message.at,
                                                  message.len, &out, &err),
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
    put_pool(1, NULL, "p");
    EXPECT_REFUSED(batch_request, wp_wire_batch_request,
                   "claim_ids: 1 to 256 ids expected, got 0");
    put_batch_ids(257, 16);
    EXPECT_REFUSED(batch_request, wp_wire_batch_request,
                   "claim_ids: 1 to 256 ids expected, got 257");
    setup(NULL);
    put_pool(1, NULL, "p");
    put_batch_ids(3000, 16);
    EXPECT_REFUSED(batch_request, wp_wire_batch_request,
                   "claim_ids: 1 to 256 ids expected, got 3000");
}

static void
test_batch_duplicates(void **state)
{
    (void)state;
    put_pool(1, NULL, "p");
    put_batch_ids(200, 20);
    put_text(2, "twice");
    put_batch_ids(0, 0);
    put_text(2, "twice");
    EXPECT_REFUSED(batch_request, wp_wire_batch_request,
                   "claim_ids[201]: an id used once expected, it is also "
                   "claim_ids[200]");
    setup(NULL);
    put_pool(1, NULL, "p");
    put_text(2, "good");
    put_text(2, "");
    EXPECT_REFUSED(batch_request, wp_wire_batch_request,
                   "claim_ids[1]: 1 to 128 bytes expected, got 0");
    setup(NULL);
    put_pool(1, NULL, "p");
    put_text(2, "good");
    put_bytes(2, "n\0l", 3);
    EXPECT_REFUSED(batch_request, wp_wire_batch_request,
                   "claim_ids[1]: UTF-8 without control characters expected");
}

/* --- The other requests --- */

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
        (void)setup(state);
        put_bytes(1, token, bad_len[i]);
        EXPECT_REFUSED(release_request, wp_wire_release_request,
                       "token: the 68 bytes of a lease's token expected, got");
        EXPECT_REFUSED(renew_request, wp_wire_renew_request,
                       "token: the 68 bytes of a lease's token expected, got");
    }
    (void)setup(state);
    put_bytes(1, token, WP_TOKEN_LEN);
    assert_int_equal(wp_wire_unpack_release_request(
                         &arena, message.at, message.len, &release, &err),
                     WP_OK);
    assert_memory_equal(release.token, token, WP_TOKEN_LEN);
    put_int(2, 5000);
    assert_int_equal(wp_wire_unpack_renew_request(&arena, message.at,
                                                  message.len, &renew, &err),
                     WP_OK);
    assert_memory_equal(renew.token, token, WP_TOKEN_LEN);
    assert_int_equal(renew.ttl_ms, 5000);
    put_int(2, -5000);
    EXPECT_REFUSED(renew_request, wp_wire_renew_request, "ttl_ms: 0 (the");
    assert_int_equal(
        wp_wire_unpack_release_request(NULL, NULL, 0, &release, &err),
        WP_INVALID_ARGUMENT);
}

static void
test_list_claims_request(void **state)
{
    struct wp_wire_list_claims_request out;

    (void)state;
    assert_int_equal(
        wp_wire_unpack_list_claims_request(&arena, message.at, 0, &out, &err),
        WP_OK);
    assert_int_equal(out.page_size, 100);
    assert_int_equal(out.pool.name.len, 0);
    put_int(3, -1);
    EXPECT_REFUSED(list_claims_request, wp_wire_list_claims_request,
                   "page_size: 0 to 1000 expected, got -1");
    put_int(3, 1001);
    EXPECT_REFUSED(list_claims_request, wp_wire_list_claims_request,
                   "page_size: 0 to 1000 expected, got 1001");
    setup(NULL);
    put_text(4, long_text(65));
    EXPECT_REFUSED(list_claims_request, wp_wire_list_claims_request,
                   "page_token: 0 to 64 bytes expected, got 65");
    setup(NULL);
    put_pool(1, "ns", NULL); /* A namespace alone names no pool. */
    EXPECT_REFUSED(list_claims_request, wp_wire_list_claims_request,
                   "pool.name: 1 to 54 characters expected, got 0");
}

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
    put_bytes(field, (const char *)entry, at);
}

static void
test_admin_requests(void **state)
{
    struct wp_wire_drain_request drain;
    struct wp_wire_set_pool_request set;

    (void)state;
    put_pool(1, NULL, "p");
    put_int(2, 1048577);
    EXPECT_REFUSED(set_pool_request, wp_wire_set_pool_request,
                   "target: 0 to 1048576 expected, got 1048577");
    setup(NULL);
    put_pool(1, NULL, "p");
    for (int i = 0; i < 13; i++) {
        put_bytes(3, "\x0a\x03min", 5);
    }
    EXPECT_REFUSED(set_pool_request, wp_wire_set_pool_request,
                   "autoscale: 0 to 12 expected, got 13");
    setup(NULL);
    put_pool(1, NULL, "p");
    put_entry(3, "schedule", long_text(1529));
    EXPECT_REFUSED(set_pool_request, wp_wire_set_pool_request,
                   "autoscale: bytes: 0 to 1536 expected, got 1537");
    /* The longest that there may be fits into the smallest arena. */
    setup(NULL);
    wp_arena_init(&arena, arena_memory, WP_WIRE_ARENA_MIN);
    put_pool(1, long_text(63), NULL);
    put_pool(1, NULL, long_text(54));
    put_entry(3, "schedule", long_text(1506));
    for (int i = 0; i < 11; i++) {
        put_entry(3, "a", "b");
    }
    assert_int_equal(wp_wire_unpack_set_pool_request(&arena, message.at,
                                                     message.len, &set, &err),
                     WP_OK);
    assert_int_equal(set.n_autoscale, 12);
    assert_false(set.has_target);
    setup(NULL);
    put_int(2, 3600001);
    EXPECT_REFUSED(drain_request, wp_wire_drain_request,
                   "grace_ms: 0 to 3600000 expected, got 3600001");
    setup(NULL);
    put_int(2, -1);
    EXPECT_REFUSED(drain_request, wp_wire_drain_request,
                   "grace_ms: 0 to 3600000 expected, got -1");
    setup(NULL);
    put_pool(1, NULL, "p");
    put_int(2, 10);
    EXPECT_REFUSED(drain_request, wp_wire_drain_request,
                   "grace_ms: 0 expected when one pool is drained");
    setup(NULL);
    assert_int_equal(
        wp_wire_unpack_drain_request(&arena, message.at, 0, &drain, &err),
        WP_OK);
    assert_int_equal(drain.pool.name.len, 0);
    EXPECT_REFUSED(get_pool_request, wp_wire_get_pool_request,
                   "pool: the name of a pool expected, got none");
}

static void
put_reservation(int64_t sandboxes, int64_t from_ms, int64_t until_ms)
{
    setup(NULL);
    put_pool(1, NULL, "p");
    put_text(2, "job");
    put_int(3, sandboxes);
    put_int(4, from_ms);
    put_int(5, until_ms);
}

static void
test_reservations(void **state)
{
    const char *span = "until_unix_ms: later than not_before_unix_ms, and "
                       "within 31 days of it, expected";

    (void)state;
    EXPECT_REFUSED(reserve_request, wp_wire_reserve_request,
                   "pool: the name of a pool expected, got none");
    setup(NULL);
    put_pool(1, NULL, "p");
    EXPECT_REFUSED(reserve_request, wp_wire_reserve_request,
                   "id: 1 to 63 bytes expected, got 0");
    EXPECT_REFUSED(cancel_reservation_request,
                   wp_wire_cancel_reservation_request,
                   "id: 1 to 63 bytes expected, got 0");
    put_text(2, long_text(64));
    EXPECT_REFUSED(reserve_request, wp_wire_reserve_request,
                   "id: 1 to 63 bytes expected, got 64");
    put_reservation(0, 1, 2);
    EXPECT_REFUSED(reserve_request, wp_wire_reserve_request,
                   "sandboxes: 1 to 1048576 expected, got 0");
    put_reservation(1048577, 1, 2);
    EXPECT_REFUSED(reserve_request, wp_wire_reserve_request,
                   "sandboxes: 1 to 1048576 expected, got 1048577");
    put_reservation(1, -1, 2);
    EXPECT_REFUSED(reserve_request, wp_wire_reserve_request,
                   "not_before_unix_ms: 0 to 9223372036854 expected, got -1");
    put_reservation(1, 1, INT64_MAX);
    EXPECT_REFUSED(reserve_request, wp_wire_reserve_request,
                   "until_unix_ms: 1 to 9223372036854 expected");
    put_reservation(1, 5, 5);
    EXPECT_REFUSED(reserve_request, wp_wire_reserve_request, span);
    put_reservation(1, 5, 5 + 31 * INT64_C(86400000) + 1);
    EXPECT_REFUSED(reserve_request, wp_wire_reserve_request, span);
}

static void
test_health_and_reflection_requests(void **state)
{
    struct wp_wire_reflection_request out;

    (void)state;
    put_text(1, long_text(256));
    EXPECT_REFUSED(health_request, wp_wire_health_request,
                   "service: 0 to 255 bytes expected, got 256");
    setup(NULL);
    put_text(4, long_text(256));
    EXPECT_REFUSED(reflection_request, wp_wire_reflection_request,
                   "message_request: 0 to 255 bytes expected, got 256");
    setup(NULL);
    put_text(7, "");
    assert_int_equal(wp_wire_unpack_reflection_request(&arena, message.at,
                                                       message.len, &out, &err),
                     WP_OK);
    assert_int_equal(out.kind, WP_WIRE_REFLECTION_LIST_SERVICES);
    put_text(3, "a.proto"); /* The last one of a oneof counts. */
    assert_int_equal(wp_wire_unpack_reflection_request(&arena, message.at,
                                                       message.len, &out, &err),
                     WP_OK);
    assert_int_equal(out.kind, WP_WIRE_REFLECTION_FILE_BY_NAME);
    assert_true(wp_str_is(out.name, "a.proto"));
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, setup)
    const struct CMUnitTest tests[] = {
        TEST(test_claim_request_bad_fields),
        TEST(test_claim_request_without_pool),
        TEST(test_claim_request_defaults),
        TEST(test_claim_request_longest),
        TEST(test_unknown_fields_are_skipped),
        TEST(test_cut_messages),
        TEST(test_malformed),
        TEST(test_nul_is_named),
        TEST(test_flood_of_fields),
        TEST(test_batch_longest),
        TEST(test_batch_counts),
        TEST(test_batch_duplicates),
        TEST(test_tokens),
        TEST(test_list_claims_request),
        TEST(test_admin_requests),
        TEST(test_reservations),
        TEST(test_health_and_reflection_requests),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
