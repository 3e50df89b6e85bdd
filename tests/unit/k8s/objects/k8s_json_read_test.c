/* What the API server sends becomes the values that jansson itself would make
 * of it, but for managedFields and numbers beyond 64 bits; what is no JSON is
 * refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "k8s/objects/json_read.h"

static json_t *
read_text(const char *text)
{
    struct wp_err err = {.msg = ""};
    json_t *json = wp_json_read(wp_str_from(text), &err);

    if (json == NULL) {
        fail_msg("%s: %s", text, err.msg);
    }
    return json;
}

static void
expect(const char *text, const char *expected)
{
    json_t *json = read_text(text);
    char *dumped =
        json_dumps(json, JSON_COMPACT | JSON_ENCODE_ANY | JSON_SORT_KEYS);

    assert_string_equal(dumped, expected);
    free(dumped);
    json_decref(json);
}

static void
same_as_jansson(void **state)
{
    static const char *const texts[] = {
        "{}",
        "[]",
        " [ ] ",
        "null",
        "\"\"",
        "{\"a\":{\"b\":[1,2,{\"c\":[]}],\"d\":{}},\"e\":\"x\"}",
        "{ \"a\" : [ 1 , 2 ] ,\n\t\"b\" : true , \"c\":false,\"d\":null}\r\n",
        "{\"a\":1,\"a\":2}",
        "[0,-0,1,-1,9223372036854775807,-9223372036854775808]",
        "[0.00000000000000000000000000000000000000000000000000000000000000001]",
        "[0.5,-1.25e3,1E2,1e-2,0e0,123456789.123456789]",
        "[\"\\\"\\\\\\/\"]",
        "[\"\\b\\f\\n\\r\\t\",\"\\u0041\\u00e9\\u20ac\\ud83d\\ude00\"]",
        "[\"\\u00abcdef\\u00ABCDEF\\uABCD\\uEF01\\uef01\\uabcd\"]",
        "{\"k\\u0065y\":\"v\\u00e4lue\",\"\\n\":1}",
        "[\"\xc3\xa9\",\"\xf0\x9f\x98\x80\",{\"\xc3\xa9\":1}]",
        "[\"\\u0000x\"]",
        "[[[[]]],[{\"a\":[{}]}]]",
        "{\"managedFields\":[1],\"spec\":{\"metadata\":1}}",
        "[{\"metadata\":[{\"managedFields\":[1]}]}]",
        "{\"metadata\":{\"managedFields\":{\"x\":1},\"name\":\"n\"}}",
        "{\"a\":{\"b\":{\"c\":{\"metadata\":{\"managedFields\":[1]}}}}}",
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(texts); i++) {
        json_t *json = read_text(texts[i]);
        json_t *theirs =
            json_loads(texts[i], JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);

        assert_non_null(theirs);
        if (!json_equal(json, theirs)) {
            fail_msg("%s: read otherwise", texts[i]);
        }
        json_decref(theirs);
        json_decref(json);
    }
}

static void
without_managed_fields(void **state)
{
    (void)state;
    expect("{\"metadata\":{\"managedFields\":[{\"fieldsV1\":{\"f:a\":{}}}],"
           "\"name\":\"n\"},\"spec\":1}",
           "{\"metadata\":{\"name\":\"n\"},\"spec\":1}");
    expect("{\"metadata\":{\"name\":\"n\",\"managedFields\":[ ]}}",
           "{\"metadata\":{\"name\":\"n\"}}");
    expect("{\"metadata\":{\"managedFields\":"
           "[{\"k:{\\\"type\\\":\\\"Ready]\\\"}\":\"\\\\\"},[[]]]}}",
           "{\"metadata\":{}}");
    expect("{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"a\":1,"
           "\"managedFields\":[{}],\"z\":2}}}",
           "{\"object\":{\"metadata\":{\"a\":1,\"z\":2}},\"type\":\"ADDED\"}");
    expect("{\"items\":[{\"metadata\":{\"managedFields\":[{}]}},"
           "{\"metadata\":{\"managedFields\":[1,2],\"n\":1}}],"
           "\"metadata\":{\"resourceVersion\":\"7\"}}",
           "{\"items\":[{\"metadata\":{}},{\"metadata\":{\"n\":1}}],"
           "\"metadata\":{\"resourceVersion\":\"7\"}}");
    /* A text that only looks like it. */
    expect("{\"metadata\":{\"annotations\":{\"last\":"
           "\"{\\\"metadata\\\":{\\\"managedFields\\\":[{}]}}\"}}}",
           "{\"metadata\":{\"annotations\":{\"last\":"
           "\"{\\\"metadata\\\":{\\\"managedFields\\\":[{}]}}\"}}}");
}

static void
numbers_beyond_64_bits(void **state)
{
    json_t *json = read_text("[9223372036854775808,-9223372036854775809,"
                             "123456789012345678901234567890]");

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        assert_true(json_is_real(json_array_get(json, i)));
    }
    assert_float_equal(json_real_value(json_array_get(json, 0)),
                       9223372036854775808.0, 1);
    assert_float_equal(json_real_value(json_array_get(json, 2)),
                       1.2345678901e29, 1e20);
    json_decref(json);
}

static void
refuse(const char *bytes, size_t len)
{
    struct wp_err err = {.msg = ""};
    json_t *json = wp_json_read((struct wp_str){bytes, len}, &err);

    if (json != NULL) {
        fail_msg("'%.*s' was read", (int)len, bytes);
    }
    assert_int_equal(err.status, WP_INVALID_ARGUMENT);
    assert_true(strlen(err.msg) > 0);
}

static void
what_is_no_json(void **state)
{
    static const char *const texts[] = {
        "",
        " ",
        "{",
        "[",
        "}",
        "{\"a\"",
        "{\"a\":",
        "{\"a\":1",
        "{\"a\":1,",
        "{\"a\":1,}",
        "{,}",
        "{a:1}",
        "{1:2}",
        "{\"a\" 1}",
        "[1,]",
        "[,1]",
        "[1 2]",
        "[1}",
        "{\"a\":1]",
        "[]]",
        "{}x",
        "1 2",
        "nul",
        "nullx",
        "tru",
        "01",
        "-",
        "1.",
        ".5",
        "1e",
        "1e+",
        "+1",
        "--1",
        "0x1",
        "1e999",
        "NaN",
        "\"",
        "\"\\",
        "\"\\\"",
        "\"\\x\"",
        "\"\\u12\"",
        "\"\\u12g4\"",
        "\"\\ud800\"",
        "\"\\ud800x\"",
        "\"\\ud800\\u0041\"",
        "\"\\udc00\"",
        "\"a\nb\"",
        "\"\x01\"",
        "\"\xff\"",
        "\"\xc3\"",
        "\"\xed\xa0\x80\"",
        "{\"\xff\":1}",
        "{\"metadata\":{\"managedFields\":[",
        "{\"metadata\":{\"managedFields\":[\"",
        "{\"metadata\":{\"managedFields\":[\"\\",
        "{\"metadata\":{\"managedFields\":[]",
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(texts); i++) {
        refuse(texts[i], strlen(texts[i]));
    }
    refuse("[\0]", 3);
    refuse("{}\0", 3);
    refuse("\"a\0b\"", 5);
}

/* Cut anywhere, a text is refused, and nothing behind its end is read (the
 * sanitizers look). */
static void
cut_anywhere(void **state)
{
    static const char text[] =
        "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"managedFields\":"
        "[{\"f:\\\"\":{}}],\"x\\u00e9\":[true,null,-1.5e3]}}}";
    size_t len = sizeof text - 1;

    (void)state;
    for (size_t cut = 0; cut < len; cut++) {
        char *copy = malloc(cut > 0 ? cut : 1);

        assert_non_null(copy);
        memcpy(copy, text, cut);
        refuse(copy, cut);
        free(copy);
    }
    json_decref(read_text(text));
}

static void
nested(void **state)
{
    static char text[2 * WP_JSON_DEPTH_MAX + 3];
    const size_t most = WP_JSON_DEPTH_MAX;

    (void)state;
    memset(text, '[', most);
    memset(text + most, ']', most);
    json_decref(read_text(text));
    memset(text, '[', most + 1);
    memset(text + most + 1, ']', most + 1);
    refuse(text, 2 * most + 2);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_as_jansson),
        cmocka_unit_test(without_managed_fields),
        cmocka_unit_test(numbers_beyond_64_bits),
        cmocka_unit_test(what_is_no_json),
        cmocka_unit_test(cut_anywhere),
        cmocka_unit_test(nested),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
