/* tests/unit/allocator/grpc/grpc_error_test.c - what ends an answer: each field
 * of it, and each that its details have. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "allocator/grpc/internal.h"
#include "proto/wire/status.h"

#define T10 "aaaaaaaaaa"
#define T60 T10 T10 T10 T10 T10 T10
/* A field's name goes into a reason as far as there is room for the code. */
#define CUT30 "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"

size_t __real_wp_wire_size_status(const struct wp_wire_status *in);
size_t __wrap_wp_wire_size_status(const struct wp_wire_status *in);

static struct wp_wire_status packed;
static uint32_t n_packed;

size_t
__wrap_wp_wire_size_status(const struct wp_wire_status *in)
{
    packed = *in;
    n_packed++;
    return __real_wp_wire_size_status(in);
}

static size_t
decode_base64(struct wp_str text, uint8_t *out)
{
    static const char digits[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    uint32_t bits = 0;
    size_t n = 0;

    for (size_t i = 0; i < text.len; i++) {
        const char *at = strchr(digits, text.ptr[i]);

        assert_true(text.ptr[i] != '\0' && at != NULL);
        bits = bits << 6 | (uint32_t)(at - digits);
        if (i % 4 != 0) {
            out[n++] = (uint8_t)(bits >> (6 - i % 4 * 2));
        }
    }
    assert_int_not_equal(text.len % 4, 1);
    return n;
}

static void
is_text(struct wp_str seen, const char *expected)
{
    assert_int_equal(seen.len, strlen(expected));
    assert_memory_equal(seen.ptr, expected, seen.len);
}

static void
is_field(const struct wp_h2_field *field, const char *name, const char *value)
{
    is_text(field->name, name);
    is_text(field->value, value);
}

/* The details are those that were packed. */
static void
is_packed(const struct wp_h2_field *field)
{
    uint8_t expected[WP_WIRE_STATUS_SIZE_MAX];
    uint8_t seen[WP_WIRE_STATUS_SIZE_MAX + 8];
    size_t len = wp_wire_pack_status(&packed, expected);

    is_text(field->name, "grpc-status-details-bin");
    assert_int_equal(field->value.len, (len * 8 + 5) / 6);
    assert_int_equal(decode_base64(field->value, seen), len);
    assert_memory_equal(seen, expected, len);
}

/* grpc-message; NULL: there is none. */
static void
has_no_details(enum wp_status status, const char *code, const char *message,
               const char *shown)
{
    struct wp_h2_field fields[WP_H2_FIELDS_MAX];
    size_t n = wp_rpc_trailers_make(fields, status, message, 0);

    assert_int_equal(n, shown != NULL ? 2 : 1);
    is_field(&fields[0], "grpc-status", code);
    if (shown != NULL) {
        is_field(&fields[1], "grpc-message", shown);
    }
}

static void
test_what_has_no_details(void **state)
{
    (void)state;
    n_packed = 0;
    has_no_details(WP_OK, "0", NULL, NULL);
    has_no_details(WP_OK, "0", "", NULL);
    has_no_details(WP_OK, "0", "a %b", "a %25b");
    has_no_details(WP_NOT_FOUND, "5", NULL, NULL);
    has_no_details(WP_ABORTED, "10", "", NULL);
    has_no_details(WP_UNAUTHENTICATED, "16", NULL, NULL);
    assert_int_equal(n_packed, 0);
}

static void
test_which_bytes_of_a_message_are_kept(void **state)
{
    static const char hex[] = "0123456789ABCDEF";
    struct wp_h2_field fields[WP_H2_FIELDS_MAX];
    char expected[800];
    char message[256];
    size_t n = 0;

    (void)state;
    for (unsigned part = 0; part < 2; part++) {
        n = 0;
        for (unsigned c = part == 0 ? 1 : 128; c < (part == 0 ? 128 : 256);
             c++) {
            message[c & 127] = (char)c;
            if (c >= 32 && c < 127 && c != '%') {
                expected[n++] = (char)c;
            } else {
                expected[n++] = '%';
                expected[n++] = hex[c / 16];
                expected[n++] = hex[c % 16];
            }
        }
        message[128] = '\0';
        expected[n] = '\0';
        assert_int_equal(wp_rpc_trailers_make(fields, WP_OK,
                                              message + (part == 0 ? 1 : 0), 0),
                         2);
        is_field(&fields[1], "grpc-message", expected);
    }
}

static void
test_what_programs_tell_errors_apart_by(void **state)
{
    static const struct {
        enum wp_status status;
        const char *message;
        const char *reason, *field, *type, *name, *description;
    } rows[] = {
        {WP_INVALID_ARGUMENT, "pool: expected a name", "POOL_INVALID_ARGUMENT",
         "pool", "", "", "expected a name"},
        {WP_INVALID_ARGUMENT, "a.b_2[3].c: no", "A_B_2_INVALID_ARGUMENT",
         "a.b_2[3].c", "", "", "no"},
        {WP_INVALID_ARGUMENT, "pool:x", "INVALID_ARGUMENT", "", "", "",
         "pool:x"},
        {WP_INVALID_ARGUMENT, "pool :x", "INVALID_ARGUMENT", "", "", "",
         "pool :x"},
        {WP_INVALID_ARGUMENT, "pool, x", "INVALID_ARGUMENT", "", "", "",
         "pool, x"},
        {WP_INVALID_ARGUMENT, ": x", "INVALID_ARGUMENT", "", "", "", ": x"},
        {WP_INVALID_ARGUMENT, T60 "aaa: x", CUT30 "_INVALID_ARGUMENT",
         T60 "aaa", "", "", "x"},
        {WP_INVALID_ARGUMENT, T60 "aaaa: x", "INVALID_ARGUMENT", "", "", "",
         T60 "aaaa: x"},
        {WP_INVALID_ARGUMENT, "az.09_: x", "AZ_09__INVALID_ARGUMENT", "az.09_",
         "", "", "x"},
        {WP_NOT_FOUND, "pool: 'web' is not there", "POOL_NOT_FOUND", "",
         "warmpool.io/Pool", "web", "'web' is not there"},
        {WP_NOT_FOUND, "pools: 'web' is not there", "POOLS_NOT_FOUND", "", "",
         "", "'web' is not there"},
        {WP_NOT_FOUND, "poo: 'web'", "POO_NOT_FOUND", "", "", "", "'web'"},
        {WP_NOT_FOUND, "claim_id: 'c' 'd'", "CLAIM_ID_NOT_FOUND", "",
         "warmpool.io/Claim", "c", "'c' 'd'"},
        {WP_NOT_FOUND, "claim_id: EXPIRED: its lease ran out",
         "CLAIM_ID_EXPIRED", "", "warmpool.io/Claim", "",
         "EXPIRED: its lease ran out"},
        {WP_NOT_FOUND, "EXPIRED: its lease ran out", "EXPIRED", "", "", "",
         "EXPIRED: its lease ran out"},
        {WP_NOT_FOUND, "claim_ids[7]: 'c", "CLAIM_IDS_NOT_FOUND", "",
         "warmpool.io/Claim", "", "'c"},
        {WP_NOT_FOUND, "token: '" T60 "aaa'", "TOKEN_NOT_FOUND", "",
         "warmpool.io/Lease", T60 "aaa", "'" T60 "aaa'"},
        {WP_NOT_FOUND, "token: '" T60 "aaaa'", "TOKEN_NOT_FOUND", "",
         "warmpool.io/Lease", "", "'" T60 "aaaa'"},
        {WP_ALREADY_EXISTS, "claim_id: ''", "CLAIM_ID_ALREADY_EXISTS", "",
         "warmpool.io/Claim", "", "''"},
        {WP_UNAVAILABLE, "pool: 'web' waits", "POOL_UNAVAILABLE", "", "", "",
         "'web' waits"},
        {WP_UNAVAILABLE, "the store", "UNAVAILABLE", "", "", "", "the store"},
    };
    struct wp_h2_field fields[WP_H2_FIELDS_MAX];

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        assert_int_equal(
            wp_rpc_trailers_make(fields, rows[i].status, rows[i].message, 0),
            3);
        assert_int_equal(packed.code, wp_status_grpc_code(rows[i].status));
        is_text(packed.message, rows[i].message);
        assert_int_equal(packed.retry_after_ns, 0);
        is_text(packed.reason, rows[i].reason);
        is_text(packed.field, rows[i].field);
        is_text(packed.resource_type, rows[i].type);
        is_text(packed.resource_name, rows[i].name);
        is_text(packed.description, rows[i].description);
        is_packed(&fields[2]);
    }
}

/* Of each length, to the longest, and of bytes that all digits are made of. */
static void
test_details_are_base64(void **state)
{
    struct wp_h2_field fields[WP_H2_FIELDS_MAX];
    char message[WP_RPC_MESSAGE_MAX + 1];

    (void)state;
    for (size_t len = 1; len < sizeof message; len++) {
        message[len - 1] = (char)(32 + len % 95);
        message[len] = '\0';
        assert_int_equal(
            wp_rpc_trailers_make(fields, WP_UNAVAILABLE, message, 0), 3);
        is_text(packed.message, message);
        is_packed(&fields[2]);
    }
}

static void
test_when_to_come_again(void **state)
{
    static const struct {
        int64_t retry_ns;
        const char *pushback_ms;
    } rows[] = {
        {1, "1"},
        {WP_NS_PER_MS, "1"},
        {WP_NS_PER_MS + 1, "2"},
        {100 * WP_NS_PER_MS, "100"},
        {3600 * WP_NS_PER_S, "3600000"},
    };
    struct wp_h2_field fields[WP_H2_FIELDS_MAX];

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        assert_int_equal(wp_rpc_trailers_make(fields, WP_RESOURCE_EXHAUSTED,
                                              NULL, rows[i].retry_ns),
                         3);
        is_field(&fields[0], "grpc-status", "8");
        assert_int_equal(packed.retry_after_ns, rows[i].retry_ns);
        is_text(packed.message, "");
        is_text(packed.reason, "RESOURCE_EXHAUSTED");
        is_packed(&fields[1]);
        is_field(&fields[2], "grpc-retry-pushback-ms", rows[i].pushback_ms);
        assert_int_equal(wp_rpc_trailers_make(fields, WP_UNAVAILABLE, "full",
                                              rows[i].retry_ns),
                         4);
        is_field(&fields[0], "grpc-status", "14");
        is_field(&fields[1], "grpc-message", "full");
        is_packed(&fields[2]);
        is_field(&fields[3], "grpc-retry-pushback-ms", rows[i].pushback_ms);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_has_no_details),
        cmocka_unit_test(test_which_bytes_of_a_message_are_kept),
        cmocka_unit_test(test_what_programs_tell_errors_apart_by),
        cmocka_unit_test(test_details_are_base64),
        cmocka_unit_test(test_when_to_come_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
