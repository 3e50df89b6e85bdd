#include "tests/support/k8s/k8s_text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

json_t *
wp_test_json(const char *text)
{
    char *copy = strdup(text);
    json_error_t error;
    json_t *json;

    assert_non_null(copy);
    for (char *at = copy; *at != '\0'; at++) {
        if (*at == '\'') {
            *at = '"';
        }
    }
    json = json_loads(copy, JSON_REJECT_DUPLICATES, &error);
    if (json == NULL) {
        fail_msg("%s at %d: %s", error.text, error.position, copy);
    }
    free(copy);
    return json;
}

struct wp_object *
wp_test_object(enum wp_kind kind, const char *text)
{
    json_t *json = wp_test_json(text);
    struct wp_err err;
    struct wp_object *object = wp_object_create(kind, json, &err);

    json_decref(json);
    if (object == NULL) {
        fail_msg("%s: %s", err.msg, text);
    }
    return object;
}

void
wp_test_json_equal(json_t *actual, const char *expected)
{
    json_t *wanted = wp_test_json(expected);

    if (!json_equal(actual, wanted)) {
        char *a = json_dumps(actual, JSON_INDENT(2) | JSON_SORT_KEYS);
        char *b = json_dumps(wanted, JSON_INDENT(2) | JSON_SORT_KEYS);

        print_error("%s\nexpected:\n%s\n", a == NULL ? "NULL" : a,
                    b == NULL ? "NULL" : b);
        free(a);
        free(b);
        fail();
    }
    json_decref(wanted);
    json_decref(actual);
}
