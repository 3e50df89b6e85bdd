/* tests/support/k8s/k8s_text.h - Kubernetes objects from JSON text, for tests.
 *
 * Single quotes stand for double ones, so that objects can be read. */
#ifndef WP_TESTS_SUPPORT_K8S_K8S_TEXT_H
#define WP_TESTS_SUPPORT_K8S_K8S_TEXT_H

#include <jansson.h>

#include "k8s/objects/object.h"

/* Fails the test when text is no JSON. A new reference. */
json_t *wp_test_json(const char *text);
/* Fails the test when it makes no object of that kind. The caller unrefs. */
struct wp_object *wp_test_object(enum wp_kind kind, const char *text);
/* Prints both and fails the test unless they are equal. actual is taken. */
void wp_test_json_equal(json_t *actual, const char *expected);

#endif
