/* tests/support/k8s/put_text.h - wp_recorder_put of an object as k8s_text.h reads it. */
#ifndef WP_TESTS_SUPPORT_K8S_PUT_TEXT_H
#define WP_TESTS_SUPPORT_K8S_PUT_TEXT_H

#include <stdlib.h>

#include "tests/support/k8s/api_recorder.h"
#include "tests/support/k8s/k8s_text.h"

/* Fails the test when text is no JSON. */
static inline void
wp_test_put(struct wp_api *api, enum wp_kind kind, const char *text)
{
    json_t *json = wp_test_json(text);
    char *plain = json_dumps(json, 0);

    (void)wp_recorder_put(api, kind, plain);
    free(plain);
    json_decref(json);
}

#endif
