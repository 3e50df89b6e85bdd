/* tests/support/k8s/object_text.h - Kubernetes objects from texts, for unit tests.
 *
 * In these texts ' stands for ", so that they can be read. */
#ifndef WP_TESTS_SUPPORT_K8S_OBJECT_TEXT_H
#define WP_TESTS_SUPPORT_K8S_OBJECT_TEXT_H

#include <stdio.h>
#include <string.h>

#include "k8s/objects/object.h"

/* The caller owns the result. */
static inline json_t *
json_of(const char *text)
{
    char buffer[8192];
    json_error_t error;
    json_t *json;

    (void)snprintf(buffer, sizeof buffer, "%s", text);
    for (char *at = strchr(buffer, '\''); at != NULL; at = strchr(at, '\'')) {
        *at = '"';
    }
    json = json_loads(buffer, 0, &error);
    if (json == NULL) {
        fail_msg("%s at %d in %s", error.text, error.position, buffer);
    }
    return json;
}

static inline struct wp_object *
object_of_json(enum wp_kind kind, const json_t *json)
{
    struct wp_err err;
    struct wp_object *object = wp_object_create(kind, json, &err);

    if (object == NULL) {
        fail_msg("%s", err.msg);
    }
    return object;
}

static inline struct wp_object *
object_of(enum wp_kind kind, const char *text)
{
    json_t *json = json_of(text);
    struct wp_object *object = object_of_json(kind, json);

    json_decref(json);
    return object;
}

/* The same value, or the test fails showing both. Takes got. */
static inline void
assert_json(json_t *got, const char *text)
{
    json_t *wanted = json_of(text);

    if (!json_equal(got, wanted)) {
        char *is = json_dumps(got, JSON_SORT_KEYS | JSON_ENCODE_ANY);
        char *should = json_dumps(wanted, JSON_SORT_KEYS | JSON_ENCODE_ANY);

        fail_msg("got\n  %s\ninstead of\n  %s", is, should);
    }
    json_decref(wanted);
    json_decref(got);
}

#endif
