/* What every gRPC server speaks besides its own services: health, reflection
 * with the descriptors it shows, and the details of a status. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "pool/base/compiler.h"
#include "proto/wire/descriptor.h"
#include "proto/wire/health.h"
#include "proto/wire/reflection.h"
#include "proto/wire/status.h"
#include "tests/support/services/wire_rig.h"

static void
test_health_round_trip(void **state)
{
    const struct wp_wire_health_request request = {
        WP_STR("warmpool.v1.Allocator")};
    const struct wp_wire_health_response response = {
        WP_WIRE_HEALTH_SERVICE_UNKNOWN};
    struct wp_wire_health_request request_out;
    struct wp_wire_health_response out;

    (void)state;
    WIRE_PACK(health_request, &request);
    WIRE_UNPACK(health_request, &request_out);
    assert_true(wp_str_is(request_out.service, "warmpool.v1.Allocator"));
    WIRE_PACK(health_response, &response);
    WIRE_UNPACK(health_response, &out);
    assert_int_equal(out.status, WP_WIRE_HEALTH_SERVICE_UNKNOWN);
}

static void
test_reflection_round_trip(void **state)
{
    static const enum wp_wire_reflection_kind kinds[] = {
        WP_WIRE_REFLECTION_NONE,
        WP_WIRE_REFLECTION_FILE_BY_NAME,
        WP_WIRE_REFLECTION_FILE_BY_SYMBOL,
        WP_WIRE_REFLECTION_FILE_BY_EXTENSION,
        WP_WIRE_REFLECTION_EXTENSION_NUMBERS,
        WP_WIRE_REFLECTION_LIST_SERVICES,
    };
    const struct wp_str services[] = {WP_STR("a.B"), WP_STR("c.D")};
    const struct wp_str file = {(const char *)wp_descriptor_set,
                                wp_descriptor_set_len};
    struct wp_wire_reflection_response response = {
        .host = WP_STR("h"),
        .kind = WP_WIRE_REFLECTION_SERVICES,
        .entries = services,
        .n_entries = 2,
    };
    struct wp_wire_reflection_response out;

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(kinds); i++) {
        response.original = (struct wp_wire_reflection_request){
            .host = WP_STR("h"),
            .kind = kinds[i],
            .name = wp_str_from(i == 0 || i == 5 ? "" : "some.Name"),
            .extension_number = i == 3 ? 5 : 0,
        };
        WIRE_PACK(reflection_request, &response.original);
        WIRE_UNPACK(reflection_request, &out.original);
        assert_int_equal(out.original.kind, kinds[i]);
        WIRE_PACK(reflection_response, &response);
        WIRE_UNPACK(reflection_response, &out);
        assert_int_equal(out.original.kind, kinds[i]);
        assert_true(wp_str_eq(out.original.name, response.original.name));
        assert_int_equal(out.original.extension_number,
                         response.original.extension_number);
        assert_int_equal(out.n_entries, 2);
        assert_true(wp_str_is(out.entries[1], "c.D"));
    }
    response.kind = WP_WIRE_REFLECTION_FILES;
    response.entries = &file;
    response.n_entries = 1;
    WIRE_PACK(reflection_response, &response);
    WIRE_UNPACK(reflection_response, &out);
    assert_int_equal(out.kind, WP_WIRE_REFLECTION_FILES);
    assert_true(wp_str_eq(out.entries[0], file));
    response.kind = WP_WIRE_REFLECTION_ERROR;
    response.error_code = 5;
    response.error_message = WP_STR("no such file");
    WIRE_PACK(reflection_response, &response);
    WIRE_UNPACK(reflection_response, &out);
    assert_int_equal(out.kind, WP_WIRE_REFLECTION_ERROR);
    assert_int_equal(out.error_code, 5);
    assert_true(wp_str_is(out.error_message, "no such file"));
}

static void
test_health_and_reflection_requests(void **state)
{
    struct wp_wire_reflection_request out;

    (void)state;
    wire_put_text(1, wire_long_text(256));
    WIRE_EXPECT_REFUSED(health_request, wp_wire_health_request,
                        "service: 0 to 255 bytes expected, got 256");
    wire_set_up(NULL);
    wire_put_text(4, wire_long_text(256));
    WIRE_EXPECT_REFUSED(reflection_request, wp_wire_reflection_request,
                        "message_request: 0 to 255 bytes expected, got 256");
    wire_set_up(NULL);
    wire_put_text(7, "");
    assert_int_equal(
        wp_wire_unpack_reflection_request(&wire_arena, wire_message.at,
                                          wire_message.len, &out, &wire_err),
        WP_OK);
    assert_int_equal(out.kind, WP_WIRE_REFLECTION_LIST_SERVICES);
    wire_put_text(3, "a.proto"); /* The last one of a oneof counts. */
    assert_int_equal(
        wp_wire_unpack_reflection_request(&wire_arena, wire_message.at,
                                          wire_message.len, &out, &wire_err),
        WP_OK);
    assert_int_equal(out.kind, WP_WIRE_REFLECTION_FILE_BY_NAME);
    assert_true(wp_str_is(out.name, "a.proto"));
}

static bool
holds(const char *text)
{
    return memmem(wp_descriptor_set, wp_descriptor_set_len, text,
                  strlen(text)) != NULL;
}

static void
test_descriptor_set(void **state)
{
    (void)state;
    assert_true(wp_descriptor_set_len > 1000);
    assert_int_equal(wp_descriptor_set[0], 0x0a);
    assert_true(holds("warmpool/v1/allocator.proto"));
    assert_true(holds("grpc/health/v1/health.proto"));
    assert_true(holds("grpc/reflection/v1alpha/reflection.proto"));
    assert_true(holds("ServerReflectionInfo"));
    assert_false(holds("warmpool.status"));
}

static void
test_status_round_trip(void **state)
{
    static const int64_t delays[] = {0, 1, 999999999, WP_NS_PER_S,
                                     90 * WP_NS_PER_S + 5};
    struct wp_wire_status out;
    char text[241];

    (void)state;
    memset(text, 'm', 240);
    text[240] = '\0';
    for (size_t i = 0; i < WP_ARRAY_LEN(delays); i++) {
        const struct wp_wire_status status = {.code = 8,
                                              .message = wp_str_from(text),
                                              .retry_after_ns = delays[i]};

        WIRE_PACK(status, &status);
        assert_true(wire_packed_len <= WP_WIRE_STATUS_SIZE_MAX);
        WIRE_UNPACK(status, &out);
        assert_int_equal(out.code, 8);
        assert_true(wp_str_is(out.message, text));
        assert_int_equal(out.retry_after_ns, delays[i]);
    }
}

/* The bytes other gRPC implementations write for RetryInfo of 1.5 s. */
static void
test_status_bytes(void **state)
{
    static const char expected[] =
        "\x08\x08\x12\x04none\x1a\x36\x0a\x28type.googleapis.com/"
        "google.rpc.RetryInfo\x12\x0a\x0a\x08\x08\x01\x10\x80\xca\xb5\xee\x01";
    const struct wp_wire_status status = {.code = 8,
                                          .message = WP_STR("none"),
                                          .retry_after_ns =
                                              1500 * WP_NS_PER_MS};

    (void)state;
    WIRE_PACK(status, &status);
    assert_int_equal(wire_packed_len, sizeof expected - 1);
    assert_memory_equal(wire_packed, expected, sizeof expected - 1);
}

/* The longest texts fit; who reads RetryInfo only is not disturbed. */
static void
test_status_details(void **state)
{
    char text[241];
    char name[64];
    struct wp_wire_status status = {.code = 3, .retry_after_ns = 1};
    struct wp_wire_status out;

    (void)state;
    memset(text, 'm', 240);
    text[240] = '\0';
    memset(name, 'n', 63);
    name[63] = '\0';
    status.message = wp_str_from(text);
    status.description = status.message;
    status.reason = wp_str_from(name);
    status.field = status.reason;
    WIRE_PACK(status, &status);
    assert_true(wire_packed_len <= WP_WIRE_STATUS_SIZE_MAX);
    WIRE_UNPACK(status, &out);
    assert_int_equal(out.retry_after_ns, 1);
    assert_int_equal(out.reason.len, 0);
    status.field = WP_STR("");
    status.resource_type = status.reason;
    status.resource_name = status.reason;
    WIRE_PACK(status, &status);
    assert_true(wire_packed_len <= WP_WIRE_STATUS_SIZE_MAX);
    WIRE_UNPACK(status, &out);
    assert_int_equal(out.retry_after_ns, 1);
}

/* The bytes other gRPC implementations write for ErrorInfo and BadRequest. */
static void
test_status_details_bytes(void **state)
{
    static const char expected[] =
        "\x08\x03\x12\x04x: y\x1a\x3e\x0a\x28type.googleapis.com/"
        "google.rpc.ErrorInfo\x12\x12\x0a\x03X_Y\x12\x0bwarmpool.io"
        "\x1a\x35\x0a\x29type.googleapis.com/google.rpc.BadRequest\x12\x08"
        "\x0a\x06\x0a\x01x\x12\x01y";
    const struct wp_wire_status status = {.code = 3,
                                          .message = WP_STR("x: y"),
                                          .reason = WP_STR("X_Y"),
                                          .field = WP_STR("x"),
                                          .description = WP_STR("y")};

    (void)state;
    WIRE_PACK(status, &status);
    assert_int_equal(wire_packed_len, sizeof expected - 1);
    assert_memory_equal(wire_packed, expected, sizeof expected - 1);
}

/* And for ResourceInfo. */
static void
test_status_resource_bytes(void **state)
{
    static const char expected[] =
        "\x08\x05\x12\x01m\x1a\x43\x0a\x2btype.googleapis.com/"
        "google.rpc.ResourceInfo\x12\x14\x0a\x04kind\x12\x06the-on"
        "\x22\x04gone";
    const struct wp_wire_status status = {.code = 5,
                                          .message = WP_STR("m"),
                                          .resource_type = WP_STR("kind"),
                                          .resource_name = WP_STR("the-on"),
                                          .description = WP_STR("gone")};

    (void)state;
    WIRE_PACK(status, &status);
    assert_int_equal(wire_packed_len, sizeof expected - 1);
    assert_memory_equal(wire_packed, expected, sizeof expected - 1);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        WIRE_TEST(test_health_round_trip),
        WIRE_TEST(test_reflection_round_trip),
        WIRE_TEST(test_health_and_reflection_requests),
        WIRE_TEST(test_descriptor_set),
        WIRE_TEST(test_status_round_trip),
        WIRE_TEST(test_status_bytes),
        WIRE_TEST(test_status_details),
        WIRE_TEST(test_status_details_bytes),
        WIRE_TEST(test_status_resource_bytes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
