/* tests/unit/allocator/trace/otlp_test.c - requests of OTLP, compared whole. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "allocator/trace/otlp.h"

#define TEXT(key, value)                                                       \
    "{\"key\":\"" key "\",\"value\":{\"stringValue\":\"" value "\"}}"
#define NUMBER(key, value)                                                     \
    "{\"key\":\"" key "\",\"value\":{\"intValue\":\"" value "\"}}"
#define BEGIN(resource)                                                        \
    "{\"resourceSpans\":[{\"resource\":{\"attributes\":[" resource             \
    "]},\"scopeSpans\":[{\"scope\":{\"name\":\"warmpool\"},\"spans\":["
#define END "]}]}]}"
#define IDS                                                                    \
    "{\"traceId\":\"000102030405060708090a0b0c0d0eff\","                       \
    "\"spanId\":\"1011121314151617\",\"parentSpanId\":\"2021222324252627\","

static void
assert_request(const struct wp_otlp_resource *resource,
               const struct wp_span *spans, size_t n, int64_t offset_ns,
               const char *expected)
{
    char *text = wp_otlp_request(resource, spans, n, offset_ns);

    assert_non_null(text);
    assert_string_equal(text, expected);
    free(text);
}

static struct wp_span
span_of(const char *name, enum wp_span_kind kind)
{
    struct wp_span span = {.name = name, .kind = kind};

    for (uint8_t i = 0; i < WP_TRACE_ID_LEN; i++) {
        span.trace_id[i] = i;
    }
    span.trace_id[WP_TRACE_ID_LEN - 1] = 0xff;
    for (uint8_t i = 0; i < WP_SPAN_ID_LEN; i++) {
        span.span_id[i] = (uint8_t)(0x10 + i);
        span.parent_id[i] = (uint8_t)(0x20 + i);
    }
    return span;
}

static void
test_a_call_that_failed_and_what_was_within(void **state)
{
    const struct wp_otlp_resource resource = {
        .version = "1.2", .host = "node-1", .pid = 4194304};
    struct wp_span spans[2];

    (void)state;
    spans[0] = span_of("warmpool.v1.Allocator/Claim", WP_SPAN_SERVER);
    spans[0].is_rpc = true;
    spans[0].status = WP_RESOURCE_EXHAUSTED;
    spans[0].served = "warm";
    (void)strcpy(spans[0].pool_namespace, "ns");
    (void)strcpy(spans[0].pool, "python");
    (void)strcpy(spans[0].claim, "c-1\"");
    (void)strcpy(spans[0].sandbox, "box");
    spans[0].begin_ns = 1;
    spans[0].end_ns = INT64_C(3000000000);
    spans[1] = span_of("a/b", WP_SPAN_INTERNAL);
    spans[1].served = "";
    spans[1].begin_ns = -1;
    assert_request(
        &resource, spans, 2, INT64_C(1700000000000000000),
        BEGIN(TEXT("service.name", "warmpoold") "," TEXT(
            "service.version",
            "1.2") "," TEXT("host.name", "node-1") "," NUMBER("process.pid",
                                                              "4194304")) IDS
        "\"name\":\"warmpool.v1.Allocator/Claim\",\"kind\":2,"
        "\"startTimeUnixNano\":\"1700000000000000001\","
        "\"endTimeUnixNano\":\"1700000003000000000\",\"attributes\":"
        "[" TEXT("rpc.system", "grpc") "," TEXT(
            "rpc.service",
            "warmpoo"
            "l.v1."
            "Allocat"
            "or") "," TEXT("rpc.method",
                           "Claim") "," NUMBER("rpc.grpc.status_code",
                                               "8") "," TEXT("warmpool."
                                                             "namespace",
                                                             "ns") "," TEXT("wa"
                                                                            "rm"
                                                                            "po"
                                                                            "ol"
                                                                            ".p"
                                                                            "oo"
                                                                            "l",
                                                                            "py"
                                                                            "th"
                                                                            "o"
                                                                            "n") "," TEXT("warmpool."
                                                                                          "claim",
                                                                                          "c-1\\\"") "," TEXT("warmpool.sandbox",
                                                                                                              "box") "," TEXT("warmpool.served",
                                                                                                                              "warm") "],\"status\":{\"code\":2,\"message\":\"RESOURCE_EXHAUSTED\"}}," IDS
                                                                                                                                      "\"name\":\"a/b\",\"kind\":1,"
                                                                                                                                      "\"startTimeUnixNano\":\"1699999999999999999\","
                                                                                                                                      "\"endTimeUnixNano\":\"1700000000000000000\",\"attributes\":[]}" END);
}

static void
test_what_is_not_known_is_not_said(void **state)
{
    const struct wp_otlp_resource resource = {.host = ""};
    struct wp_span span = span_of("S/", WP_SPAN_CLIENT);

    (void)state;
    assert_request(&resource, NULL, 0, 0,
                   BEGIN(TEXT("service.name",
                              "warmpoold") "," NUMBER("process.pid", "0")) END);
    span.is_rpc = true;
    assert_request(
        &resource, &span, 1, INT64_MIN,
        BEGIN(TEXT("service.name", "warmpoold") "," NUMBER("process.pid", "0"))
            IDS
        "\"name\":\"S/\",\"kind\":3,"
        "\"startTimeUnixNano\":\"-9223372036854775808\","
        "\"endTimeUnixNano\":\"-9223372036854775808\",\"attributes\":[" TEXT(
            "rpc.system",
            "grpc") "," TEXT("rpc.service",
                             "S") "," NUMBER("rpc.grpc.status_code",
                                             "0") "]}" END);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_call_that_failed_and_what_was_within),
        cmocka_unit_test(test_what_is_not_known_is_not_said),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
