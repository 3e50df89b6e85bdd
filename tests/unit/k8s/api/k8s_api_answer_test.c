/* What an answer of the API server means: each code at the edges of its class,
 * and each thing that a Status says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "k8s/api/api_answer.h"

static struct wp_api_result result;
static struct wp_api_words words;

static void
reads(int code, const char *body, int64_t retry_after_ns)
{
    const struct wp_http_answer answer = {.status = WP_OK,
                                          .code = code,
                                          .body = wp_str_from(body),
                                          .retry_after_ns = retry_after_ns};

    wp_api_answer_read(&answer, &result, &words);
    assert_int_equal(result.code, code);
}

static void
codes(void **state)
{
    static const struct {
        int code;
        enum wp_status status;
    } cases[] = {
        {100, WP_INVALID_ARGUMENT},
        {199, WP_INVALID_ARGUMENT},
        {200, WP_OK},
        {201, WP_OK},
        {299, WP_OK},
        {300, WP_INVALID_ARGUMENT},
        {400, WP_INVALID_ARGUMENT},
        {401, WP_UNAUTHENTICATED},
        {402, WP_INVALID_ARGUMENT},
        {403, WP_PERMISSION_DENIED},
        {404, WP_NOT_FOUND},
        {405, WP_INVALID_ARGUMENT},
        {408, WP_INVALID_ARGUMENT},
        {409, WP_ABORTED},
        {410, WP_DEADLINE_EXCEEDED},
        {411, WP_INVALID_ARGUMENT},
        {422, WP_INVALID_ARGUMENT},
        {429, WP_RESOURCE_EXHAUSTED},
        {499, WP_INVALID_ARGUMENT},
        {500, WP_UNKNOWN_OUTCOME},
        {502, WP_UNKNOWN_OUTCOME},
        {503, WP_UNAVAILABLE},
        {504, WP_UNKNOWN_OUTCOME},
        {599, WP_UNKNOWN_OUTCOME},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(cases); i++) {
        char expected[64];

        reads(cases[i].code, "", -1);
        assert_int_equal(result.status, cases[i].status);
        assert_null(result.object);
        assert_int_equal(result.retry_after_ns, -1);
        assert_false(result.namespace_leaves);
        if (cases[i].status == WP_OK) {
            assert_null(result.message);
        } else {
            (void)snprintf(expected, sizeof expected,
                           "the API server answered %d", cases[i].code);
            assert_string_equal(result.message, expected);
        }
    }
}

static void
objects(void **state)
{
    static const char *const no_objects[] = {"x", "[]", "1", "\"\""};

    (void)state;
    reads(200, "{\"kind\":\"Pod\"}", -1);
    assert_int_equal(result.status, WP_OK);
    assert_null(result.message);
    assert_string_equal(
        json_string_value(json_object_get(result.object, "kind")), "Pod");
    json_decref(result.object);
    for (size_t i = 0; i < WP_ARRAY_LEN(no_objects); i++) {
        reads(201, no_objects[i], -1);
        assert_int_equal(result.status, WP_UNKNOWN_OUTCOME);
        assert_string_equal(result.message,
                            "the API server's answer is no JSON object");
        assert_null(result.object);
        reads(404, no_objects[i], -1);
        assert_int_equal(result.status, WP_NOT_FOUND);
        assert_string_equal(result.message, "the API server answered 404");
        assert_null(result.object);
    }
}

#define CAUSES(causes)                                                         \
    "{\"kind\":\"Status\",\"message\":\"it "                                   \
    "ends\",\"details\":{\"causes\":[" causes "]}}"
#define AFTER(seconds) "{\"details\":{\"retryAfterSeconds\":" seconds "}}"

static void
refusals(void **state)
{
    static const struct {
        int code;
        const char *body;
        int64_t header_ns;
        enum wp_status status;
        const char *message;
        bool namespace_leaves;
        int64_t retry_after_ns;
    } cases[] = {
        {409, "{\"reason\":\"AlreadyExists\",\"message\":\"it is there\"}", -1,
         WP_ALREADY_EXISTS, "it is there", false, -1},
        {409, "{\"reason\":\"Conflict\",\"message\":\"\"}", -1, WP_ABORTED,
         "the API server answered 409", false, -1},
        {403, "{\"reason\":\"AlreadyExists\"}", -1, WP_PERMISSION_DENIED,
         "the API server answered 403", false, -1},
        {403, CAUSES("{\"reason\":\"NamespaceTerminating\"}"), -1,
         WP_PERMISSION_DENIED, "it ends", true, -1},
        {403,
         CAUSES("{\"reason\":\"x\"},{\"reason\":\"NamespaceTerminating\"}"), -1,
         WP_PERMISSION_DENIED, "it ends", true, -1},
        {403, CAUSES("{\"reason\":\"x\"}"), -1, WP_PERMISSION_DENIED, "it ends",
         false, -1},
        {403, CAUSES(""), -1, WP_PERMISSION_DENIED, "it ends", false, -1},
        {429, AFTER("0"), -1, WP_RESOURCE_EXHAUSTED,
         "the API server answered 429", false, -1},
        {429, AFTER("1"), -1, WP_RESOURCE_EXHAUSTED,
         "the API server answered 429", false, WP_NS_PER_S},
        {429, AFTER("86400"), -1, WP_RESOURCE_EXHAUSTED,
         "the API server answered 429", false, 86400 * WP_NS_PER_S},
        {429, AFTER("86401"), -1, WP_RESOURCE_EXHAUSTED,
         "the API server answered 429", false, -1},
        {429, AFTER("-1"), -1, WP_RESOURCE_EXHAUSTED,
         "the API server answered 429", false, -1},
        /* What the head says goes first, also "at once". */
        {429, AFTER("7"), 0, WP_RESOURCE_EXHAUSTED,
         "the API server answered 429", false, 0},
        {429, AFTER("7"), 3, WP_RESOURCE_EXHAUSTED,
         "the API server answered 429", false, 3},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(cases); i++) {
        reads(cases[i].code, cases[i].body, cases[i].header_ns);
        assert_int_equal(result.status, cases[i].status);
        assert_string_equal(result.message, cases[i].message);
        assert_int_equal(result.namespace_leaves, cases[i].namespace_leaves);
        assert_int_equal(result.retry_after_ns, cases[i].retry_after_ns);
        assert_true(json_is_object(result.object));
        json_decref(result.object);
    }
}

/* Without an answer there is nothing to read. */
static void
no_answer(void **state)
{
    const struct wp_http_answer answer = {.status = WP_UNAVAILABLE,
                                          .code = 200,
                                          .body = WP_STR("{}"),
                                          .retry_after_ns = 5,
                                          .error = "no way"};

    (void)state;
    wp_api_answer_read(&answer, &result, &words);
    assert_int_equal(result.status, WP_UNAVAILABLE);
    assert_int_equal(result.code, 200);
    assert_null(result.object);
    assert_string_equal(result.message, "no way");
    assert_int_equal(result.retry_after_ns, 5);
}

int
main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(codes),
        cmocka_unit_test(objects),
        cmocka_unit_test(refusals),
        cmocka_unit_test(no_answer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
