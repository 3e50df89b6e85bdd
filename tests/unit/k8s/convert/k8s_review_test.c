/* A ConversionReview and its answer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "k8s/convert/review.h"
#include "tests/support/k8s/k8s_text.h"

#define REVIEW(request)                                                        \
    "{\"apiVersion\":\"apiextensions.k8s.io/v1\",\"kind\":"                    \
    "\"ConversionReview\"" request "}"
#define CLAIM(name, version, spec)                                             \
    "{\"apiVersion\":\"extensions.agents.x-k8s.io/" version                    \
    "\",\"kind\":\"SandboxClaim\",\"metadata\":{\"name\":\"" name              \
    "\"},\"spec\":" spec "}"

static json_t *
answer(const char *body)
{
    struct wp_err err;
    size_t len = 0;
    char *text = wp_review_answer(wp_str_from(body), &len, &err);
    json_t *json;

    if (text == NULL) {
        fail_msg("%s", err.msg);
    }
    assert_int_equal(strlen(text), len);
    json = json_loads(text, JSON_ALLOW_NUL, NULL);
    free(text);
    assert_non_null(json);
    return json;
}

static void
all_objects_are_converted_in_order(void **state)
{
    (void)state;
    wp_test_json_equal(
        answer(REVIEW(",\"request\":{\"uid\":\"u\","
                      "\"desiredAPIVersion\":"
                      "\"extensions.agents.x-k8s.io/"
                      "v1alpha1\",\"objects\":[" CLAIM(
                          "a", "v1beta1",
                          "{\"warmPoolRef\":{\"name\":\"shadow-"
                          "pool-t\"}}") "," CLAIM("b", "v1beta1",
                                                  "{\"warmPoolRef\""
                                                  ":{\"name\":"
                                                  "\"p\"}}") "]}")),
        "{'apiVersion': 'apiextensions.k8s.io/v1', 'kind': "
        "'ConversionReview', "
        "'response': {'uid': 'u', 'result': {'status': "
        "'Success'}, "
        "'convertedObjects': [{'apiVersion': "
        "'extensions.agents.x-k8s.io/v1alpha1', 'kind': "
        "'SandboxClaim', "
        "'metadata': {'name': 'a'}, 'spec': "
        "{'sandboxTemplateRef': {'name': "
        "'t'}, 'warmpool': 'default'}}, {'apiVersion': "
        "'extensions.agents.x-k8s.io/v1alpha1', 'kind': "
        "'SandboxClaim', "
        "'metadata': {'name': 'b'}, 'spec': "
        "{'sandboxTemplateRef': {'name': "
        "'p'}, 'warmpool': 'p'}}]}}");
}

/* A text of any bytes, a NUL among them, keeps nobody's list from being read.
 */
static void
texts_with_a_nul_are_converted(void **state)
{
    json_t *json = answer(REVIEW(
        ",\"request\":{\"uid\":\"u\",\"desiredAPIVersion\":"
        "\"extensions.agents.x-k8s.io/v1alpha1\",\"objects\":[" CLAIM(
            "a", "v1beta1",
            "{\"warmPoolRef\":{\"name\":\"p\"},\"x\":\"\\u0000\"}") "]}"));

    (void)state;
    assert_int_equal(
        json_array_size(json_object_get(json_object_get(json, "response"),
                                        "convertedObjects")),
        1);
    json_decref(json);
}

static void
one_that_cannot_be_fails_all(void **state)
{
    (void)state;
    wp_test_json_equal(
        answer(REVIEW(
            ",\"request\":{\"uid\":\"u\",\"desiredAPIVersion\":"
            "\"extensions.agents.x-k8s.io/v1alpha1\",\"objects\":[{}]}")),
        "{'apiVersion': 'apiextensions.k8s.io/v1', 'kind': "
        "'ConversionReview', 'response': {'uid': 'u', 'result': {'status': "
        "'Failure', 'message': 'objects: apiVersion, kind: expected a "
        "Sandbox, SandboxClaim, SandboxTemplate or SandboxWarmPool of "
        "v1alpha1 or v1beta1'}}}");
}

static void
what_is_no_review_is_refused(void **state)
{
    static const struct {
        const char *body;
        const char *says;
    } rows[] = {
        {"", "JSON"},
        {"{", "JSON"},
        {"[]", "kind"},
        {"{\"apiVersion\":\"apiextensions.k8s.io/v1beta1\",\"kind\":"
         "\"ConversionReview\"}",
         "apiVersion"},
        {REVIEW(""), "request.uid"},
        {REVIEW(",\"request\":{\"uid\":\"u\"}"), "request.objects"},
        {REVIEW(",\"request\":{\"uid\":\"u\",\"objects\":{}}"),
         "request.objects"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct wp_err err;
        size_t len;

        assert_null(wp_review_answer(wp_str_from(rows[i].body), &len, &err));
        assert_int_equal(err.status, WP_INVALID_ARGUMENT);
        assert_non_null(strstr(err.msg, rows[i].says));
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_objects_are_converted_in_order),
        cmocka_unit_test(texts_with_a_nul_are_converted),
        cmocka_unit_test(one_that_cannot_be_fails_all),
        cmocka_unit_test(what_is_no_review_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
